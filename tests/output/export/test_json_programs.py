"""The fast way of writing JSON gives the same bytes as the ordinary way, whatever the messages
are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.output.export.json import dump, message_object
from dcpinspect.output.export.json_programs import JsonRows
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tables.messages import MessageBatch
from tests import builders
from tests.encode import encode, encode_document
from tests.output.export.forms import CAPTURES, batches, in_both_forms, sample

REDACTOR = Redactor(b"salt")


def conversation(path: Path, messages: list[bytes]) -> list[MessageBatch]:
    """Batches of a connection with collections whose server says these messages."""
    hello = encode("hello", "response", features=[{"feature": code} for code in (6, 10, 11, 18)])
    builders.capture(
        path,
        client=encode("hello", features=[{"feature": 18}]),
        server=b"".join([hello, *messages]),
    )
    return batches(path)


def both_ways(batch: MessageBatch, *, fields: bool) -> tuple[list[bytes], list[bytes]]:
    rows = np.arange(len(batch))
    fast = in_both_forms(
        lambda: b"".join(JsonRows(fields=fields, values="full", after=b"\n").pieces(batch, rows))
    )
    return fast.splitlines(), [
        dump(message_object(batch, index, fields=fields)) for index in rows.tolist()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("fields", [True, False])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_samples_are_written_alike(path: Path, fields: bool) -> None:
    for batch in sample(path):
        fast, ordinary = both_ways(batch, fields=fields)
        assert fast == ordinary


TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "\x7f", "\u2028", "\x1b[31m", '"\\', "\n\t\x01", "é✓𝄞"]),
)
KEYS = st.one_of(
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=12)
)
DOCUMENTS = st.one_of(
    st.sampled_from(
        [
            b'{"a": 1}',
            b'{\n "b": [1, 2]\r\n}',
            b"[1e400]",
            b"nonsense",
            b'"\xff"',
            b"",
            b'{"a":"\xe2\x80\xae"}',
            b'{"c":"\\n"}',
        ]
    ),
    KEYS,
)


@st.composite
def messages_of_events(draw: st.DrawFn) -> bytes:
    xattrs = draw(st.one_of(st.none(), st.just({"_sync": '{"x":1}', "t": '"\x7f"'})))
    value, datatype = encode_document(
        draw(DOCUMENTS), json=draw(st.booleans()), snappy=draw(st.booleans()), xattrs=xattrs
    )
    return encode(
        draw(st.sampled_from(["dcp_mutation", "dcp_prepare", "dcp_deletion", "dcp_expiration"])),
        vbucket=draw(st.integers(0, 65535)),
        opaque=draw(st.integers(0, 2**32 - 1)),
        cas=draw(st.integers(0, 2**64 - 1)),
        datatype=draw(st.sampled_from([datatype, 0, 255])),
        collection=draw(st.sampled_from([0, 8, 5, 2**32 - 1])),
        key=draw(KEYS)[:200],
        value=value,
        by_seqno=draw(st.integers(0, 2**64 - 1)),
        rev_seqno=draw(st.integers(0, 2**64 - 1)),
    )


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=40,
)
@given(messages=st.lists(messages_of_events(), min_size=1, max_size=12))
def test_documents_and_keys_of_any_kind_are_written_alike(
    messages: list[bytes], tmp_path: Path
) -> None:
    for batch in conversation(tmp_path / "any.pcap", messages):
        fast, ordinary = both_ways(batch, fields=True)
        assert fast == ordinary


@pytest.mark.slow
@pytest.mark.parametrize("snappy", [True, False])
@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        "",
        '{"a":\n1}',
        "é\x7f",
        '"quoted\\\\"',
        "not json",
        "NaN",
        '{"a":1,"a":2}',
        "[" * 1_500 + "]" * 1_500,
        '"\\ud800"',
        "1e999999",
        "[1" + "0" * 50 + "]",
    ],
)
def test_documents_with_xattrs_are_written_alike(
    body: str, json: bool, snappy: bool, tmp_path: Path
) -> None:
    sections: list[dict[str, str]] = [
        {"_sync": '{"rev":\n"1"}'},
        {"a": "1", "é": '"\u202e"', 'b"\\': "{}"},
        {"a": "1", 'b"': '["\\u0041"]'},
        {"a": "no json"},
        {},
        {f"x{number}": "[1,2]" for number in range(20)},
    ]
    messages = []
    for name in ("dcp_mutation", "dcp_deletion"):
        for xattrs in sections:
            value, datatype = encode_document(body, xattrs=xattrs, json=json, snappy=snappy)
            messages.append(encode(name, collection=8, key="k", value=value, datatype=datatype))
    for batch in conversation(tmp_path / "xattrs.pcap", messages):
        for fields in (True, False):
            fast, ordinary = both_ways(batch, fields=fields)
            assert fast == ordinary


def test_documents_with_xattrs_go_the_fast_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = []
    for snappy in (True, False):
        value, datatype = encode_document("{}", xattrs={"_sync": "{}"}, json=True, snappy=snappy)
        messages.append(
            encode("dcp_mutation", collection=8, key="k", value=value, datatype=datatype)
        )
    (batch,) = conversation(tmp_path / "x.pcap", messages)
    slow: list[int] = []

    def ordinary(_: JsonRows, batch: MessageBatch, index: int) -> bytes:
        slow.append(index)
        return dump(message_object(batch, index))

    monkeypatch.setattr(JsonRows, "_ordinary", ordinary)
    assert in_both_forms(
        lambda: b"".join(JsonRows(fields=True, values="full").pieces(batch, np.arange(len(batch))))
    )
    assert len(slow) <= 2 * 2  # of hello


def test_only_some_rows_are_written_in_their_order(tmp_path: Path) -> None:
    (batch,) = conversation(
        tmp_path / "some.pcap",
        [encode("dcp_mutation", collection=0, key=f"k{n}") for n in range(9)],
    )
    chosen = np.array([2, 3, 7])
    fast = in_both_forms(
        lambda: b"".join(JsonRows(fields=False, values="full", after=b"\n").pieces(batch, chosen))
    )
    assert fast.splitlines() == [
        dump(message_object(batch, index, fields=False)) for index in chosen.tolist()
    ]


@pytest.mark.parametrize("values", ["none", 4])
def test_shortened_values_are_written_alike(tmp_path: Path, values: int) -> None:
    (batch,) = conversation(
        tmp_path / "short.pcap", [encode("dcp_mutation", collection=0, key="k", value="0123456789")]
    )
    fast = in_both_forms(
        lambda: b"".join(
            JsonRows(fields=True, values=values, after=b"\n").pieces(batch, np.arange(len(batch)))
        )
    )
    assert fast.splitlines() == [
        dump(message_object(batch, index, values=values)) for index in range(len(batch))
    ]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    seqno=st.integers(0, 2**64 - 1),
    uuid=st.integers(0, 2**64 - 1),
)
def test_stream_requests_and_failover_logs_are_written_alike(
    sizes: list[int], seqno: int, uuid: int, tmp_path: Path
) -> None:
    logs = [
        encode("dcp_stream_req", "response", failover_log=[{"uuid": uuid, "seqno": seqno}] * size)
        for size in sizes
    ]
    asked = [
        encode("dcp_stream_req", start_seqno=seqno, end_seqno=end, vbucket_uuid=uuid)
        for end in (seqno, 2**64 - 1)
    ]
    for batch in conversation(tmp_path / "logs.pcap", [*logs, *asked, logs[0][:-3]]):
        for fields in (True, False):
            fast, ordinary = both_ways(batch, fields=fields)
            assert fast == ordinary


def test_numbers_with_names_are_written_alike(tmp_path: Path) -> None:
    prepares = [
        encode("dcp_prepare", by_seqno=level, key="k", durability_level=level) for level in range(5)
    ]
    specs = [{"command": command, "path": "a"} for command in (0xC5, 0xC6, 0x01)]
    looked_up = [encode("subdoc_multi_lookup", key="k", specs=[spec, spec]) for spec in specs]
    for batch in conversation(tmp_path / "names.pcap", [*prepares, *looked_up, prepares[3]]):
        for fields in (True, False):
            fast, ordinary = both_ways(batch, fields=fields)
            assert fast == ordinary
            assert any(b'"durability_level_name":"majority"' in text for text in fast)


# -- redacted
# -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fields", [True, False])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_redacted_samples_are_written_alike(path: Path, fields: bool) -> None:
    for batch in sample(path):
        fast, ordinary = both_ways(batch.redacted(REDACTOR), fields=fields)
        assert fast == ordinary


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
)
@given(messages=st.lists(messages_of_events(), min_size=1, max_size=12))
def test_redacted_documents_and_keys_of_any_kind_are_written_alike(
    messages: list[bytes], tmp_path: Path
) -> None:
    for batch in conversation(tmp_path / "any.pcap", messages):
        fast, ordinary = both_ways(batch.redacted(REDACTOR), fields=True)
        assert fast == ordinary


def test_redacted_commands_around_dcp_are_written_alike(tmp_path: Path) -> None:
    messages = [
        encode(name, key="k") for name in ("get", "increment", "select_bucket", "dcp_control")
    ]
    for batch in conversation(tmp_path / "x.pcap", [*messages, encode("dcp_noop")]):
        fast, ordinary = both_ways(batch.redacted(REDACTOR), fields=True)
        assert fast == ordinary


def test_redacted_plain_ones_go_the_fast_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [encode("dcp_mutation", collection=0, key=f"k{n}", value="plain") for n in range(50)]
    (batch,) = conversation(tmp_path / "x.pcap", messages)
    slow: list[int] = []

    def ordinary(_: JsonRows, batch: MessageBatch, index: int) -> bytes:
        slow.append(index)
        return dump(message_object(batch, index))

    monkeypatch.setattr(JsonRows, "_ordinary", ordinary)
    redacted = batch.redacted(REDACTOR)
    assert in_both_forms(
        lambda: b"".join(
            JsonRows(fields=True, values="full").pieces(redacted, np.arange(len(batch)))
        )
    )
    assert len(slow) <= 2 * 2
