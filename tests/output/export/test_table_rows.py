"""Field tables that the kernel writes are those that Python writes one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.output.export import row_programs, row_run
from dcpinspect.output.export.dump_rows import DumpRows
from dcpinspect.output.export.line_rows import LineRows
from dcpinspect.output.export.table_rows import TableRows
from dcpinspect.output.render.byte_grid import hex_dump
from dcpinspect.output.render.field_table import field_table
from dcpinspect.output.render.message_lines import Lines, TimeFormat
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tables.messages import MessageBatch
from tests.catalogue import first_of
from tests.encode import encode, encode_document, encode_xattrs
from tests.output.export.forms import CAPTURES, in_both_forms, sample
from tests.output.export.test_json_programs import conversation, messages_of_events
from tests.protocol.vectors import ALL
from tests.tables.build import batch

LIMITS = [None, 0, 5, 16, 256]
"""Bytes of a value that are shown."""


def style(of: MessageBatch, index: int) -> tuple[str, str]:
    return ("<", ">") if of.decoded.is_response[index] else ("", "")


def both_ways(
    made: MessageBatch,
    limit: int | None = 256,
    *,
    width: int | None = None,
    time: TimeFormat = "relative",
    has_bytes: bool = False,
) -> tuple[list[str], list[str], int]:
    """(lines of what is written at once, of the same one by one, how many of the former were made
    one by one after all).
    """
    left: list[int] = []

    def details(of: MessageBatch, index: int) -> str:
        left.append(index)
        connection, is_to_client = int(of.connection[index]) - 1, bool(of.direction[index])
        ends = (of.endpoints.client[connection], of.endpoints.server[connection])[
            :: -1 if is_to_client else 1
        ]
        file = f" of {of.files[int(of.last_file[index])]}" if len(of.files) > 1 else ""
        place = (
            f"frame {int(of.last_frame[index])}{file}, stream offset {int(of.stream_offset[index])}"
        )
        message = of.annotate(index)
        lines = [" > ".join(ends) + ", " + place]
        lines += [*hex_dump(message, limit=limit), ""] if has_bytes else []
        title, *table = field_table(message, limit=limit)
        return "".join(f"    {line}".rstrip() + "\n" for line in [*lines, f"_{title}_", *table, ""])

    def at_once() -> tuple[str, int]:
        left.clear()
        lines = LineRows(Lines(time, width=width), style, details=details)
        dumps = DumpRows(lines, limit) if has_bytes else None
        return b"".join(
            TableRows(lines, dumps, lambda title: f"_{title}_", limit).pieces(made, rows)
        ).decode(), len(left)

    rows, slow = np.arange(len(made)), Lines(time, width=width)
    text, by_python = in_both_forms(at_once)
    expected = []
    for index in rows.tolist():
        before, behind = style(made, index)
        expected.append(f"{before}{slow.line(made, index)}{behind}\n{details(made, index)}")
    return text.splitlines(), "".join(expected).splitlines(), by_python


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "has_bytes"), first_of([(5, False), *((limit, True) for limit in LIMITS)], 3)
)
def test_samples_are_written_alike(limit: int | None, has_bytes: bool) -> None:
    for path in CAPTURES:
        for made in sample(path):
            fast, expected, _ = both_ways(made, limit, has_bytes=has_bytes)
            assert fast == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "time"),
    [(60, "delta"), (80, "relative"), (109, "epoch"), (140, "absolute"), (200, "local")],
)
def test_samples_are_written_alike_at_any_width(width: int, time: TimeFormat) -> None:
    for path in CAPTURES[:6]:
        for made in sample(path):
            fast, expected, _ = both_ways(made, width=width, time=time)
            assert fast == expected


@pytest.mark.slow
def test_redacted_samples_are_written_alike() -> None:
    for path in CAPTURES:
        for made in sample(path):
            fast, expected, _ = both_ways(made.redacted(Redactor(b"salt")))
            assert fast == expected


@pytest.mark.parametrize("has_bytes", [False, True])
def test_vectors_of_the_protocol_and_redacted_ones_are_written_alike(has_bytes: bool) -> None:
    made = batch(*(vector.data for vector in ALL), files=("one.pcap", "two.pcap"))
    for one in (made, made.redacted(Redactor(b"salt"))):
        fast, expected, _ = both_ways(one, has_bytes=has_bytes)
        assert fast == expected


LETTERS = st.one_of(
    st.characters(),
    st.sampled_from(
        ["\u202e", "\u200b", "\u00a0", "\x1b", "\\", "\x7f", "\x80", "\ufeff", "\U000e0001", " "]
    ),
)
"""Any letters, those often that act on terminals, cannot be seen, or end a line with blanks."""


def _is_xattr(text: str) -> bool:
    """It ends with a zero, and is UTF-8."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


@st.composite
def shown_messages(draw: st.DrawFn) -> bytes:
    names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
    xattrs = draw(
        st.one_of(
            st.none(),
            st.dictionaries(names, st.text(LETTERS, max_size=12).filter(_is_xattr), max_size=4),
        )
    )
    text = draw(st.text(LETTERS, max_size=40)).encode("utf-8", "surrogatepass")
    value, datatype = encode_document(
        draw(
            st.sampled_from(
                [text, text + b" ", b'{"a": "\\u1234"}', b'{"\xff":1}', b'"' + b"x" * 300 + b'"']
            )
        ),
        json=draw(st.booleans()),
        snappy=draw(st.booleans()),
        xattrs=xattrs or None,
    )
    return encode(
        draw(st.sampled_from(["dcp_mutation", "dcp_deletion", "set"])),
        opaque=draw(st.integers(0, 2**32 - 1)),
        cas=draw(
            st.one_of(
                st.integers(0, 2**64 - 1), st.integers(1_199_999_999 * 10**9, 4_102_444_801 * 10**9)
            )
        ),
        datatype=datatype,
        collection=8,
        key=draw(st.text(LETTERS, min_size=1, max_size=20)).encode("utf-8", "surrogatepass"),
        value=value,
    )


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=100,
)
@given(
    messages=st.lists(st.one_of(shown_messages(), messages_of_events()), min_size=1, max_size=12),
    limit=st.sampled_from(LIMITS),
    redacted=st.booleans(),
)
def test_documents_and_keys_of_any_kind_are_written_alike(
    messages: list[bytes], limit: int | None, redacted: bool, tmp_path: Path
) -> None:
    for made in conversation(tmp_path / "any.pcap", messages):
        fast, expected, _ = both_ways(made.redacted(Redactor(b"salt")) if redacted else made, limit)
        assert fast == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    flags=st.lists(
        st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2, 4, 8])),
        min_size=1,
        max_size=10,
    ),
    seqno=st.one_of(st.integers(0, 12), st.integers(0, 2**64 - 1)),
    reason=st.integers(0, 20),
)
def test_numbers_flags_and_words_are_written_alike(
    flags: list[int], seqno: int, reason: int
) -> None:
    markers = [
        encode("dcp_snapshot_marker", snapshot_type=one, start_seqno=seqno, end_seqno=one % 12)
        for one in flags
    ]
    others = [
        encode("dcp_stream_end", end_reason=reason),
        encode("dcp_seqno_advanced", by_seqno=seqno),
    ]
    fast, expected, left = both_ways(batch(*markers, *others))
    assert fast == expected
    assert left == 0


def test_a_damaged_message_is_written_alike_and_in_its_place() -> None:
    whole = encode("dcp_mutation", key="key", value="x" * 40)
    fast, expected, left = both_ways(
        batch(whole, whole, encode("dcp_noop"), whole[:60], missing={1: [(60, 75)]}, heuristic=[2])
    )
    assert fast == expected
    assert left == 3


def test_unsound_xattrs_are_written_alike() -> None:
    sound, datatype = encode_document('{"a":1}', json=True, xattrs={"_sync": '{"x":1}', "t": "1"})
    changed = [
        sound[:at] + bytes([byte]) + sound[at + 1 :] for at in range(36) for byte in (0, 1, 92, 255)
    ]
    twice = encode_xattrs([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]) + b"1"
    many, _ = encode_document("1", json=True, xattrs={f"name{n}": "1" for n in range(20)})
    long, _ = encode_document("1", json=True, xattrs={"n" * 200: "1"})
    messages = [
        encode("dcp_mutation", key="k", value=value, datatype=datatype)
        for value in (sound, *changed, twice, many, long)
    ]
    fast, expected, _ = both_ways(batch(*messages))
    assert fast == expected


def test_what_makes_up_most_of_a_stream_is_for_the_kernel(tmp_path: Path) -> None:
    document = '{"city":"Zürich","name":"日本語 😀"}'
    values = [
        encode_document(document, json=True),
        encode_document(document, json=True, snappy=True),
        encode_document(document, json=True, xattrs={"_sync": "{}"}),
        encode_document(
            document,
            json=True,
            snappy=True,
            xattrs={"_sync": "{}", "a_longer_name_than_others": "1"},
        ),
        (b"esc \x1b[31m", 0),
    ]
    events = [
        encode("dcp_mutation", collection=0, key="k\\", value=value, datatype=datatype)
        for value, datatype in values
    ]
    events.append(
        encode("dcp_deletion", collection=0, key="k", generation="v2", delete_time=1712381677)
    )
    for made in conversation(tmp_path / "x.pcap", events):
        for has_bytes in (False, True):
            fast, expected, left = both_ways(made, has_bytes=has_bytes)
            assert fast == expected
            assert left == 2  # the two of hello, whose lists of features are rare


def test_pieces_are_whole_where_much_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_run, "OUT_BYTES", 1000)
    messages = [
        encode("dcp_mutation", collection=0, key="k", value="x" * size)
        for size in (1, 100, 5000, 10)
    ]
    for made in conversation(tmp_path / "long.pcap", messages):
        fast, expected, _ = both_ways(made, None)
        assert fast == expected


def test_a_capture_made_to_waste_memory_goes_the_ordinary_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_programs, "MAX_REMEMBERED", 3)
    fast, expected, left = both_ways(
        batch(*(encode("dcp_snapshot_marker", snapshot_type=flags) for flags in range(20)))
    )
    assert fast == expected
    assert left > 10


def test_stream_requests_and_failover_logs_are_for_the_kernel() -> None:
    logs = [
        [{"uuid": 2**64 - 1 - n, "seqno": 7 * n} for n in range(count)] for count in (1, 2, 2, 25)
    ]
    made = batch(
        encode(
            "dcp_stream_req",
            vbucket=7,
            opaque=1,
            start_seqno=5,
            end_seqno=2**64 - 1,
            flags=["takeover", "disk-only"],
            vbucket_uuid=2**63,
        ),
        encode("dcp_stream_req", vbucket=8, opaque=2, snapshot_end_seqno=9),
        *(
            encode("dcp_stream_req", "response", opaque=n + 1, failover_log=log)
            for n, log in enumerate(logs)
        ),
        encode("dcp_stream_req", "response", opaque=9, status=0x23, rollback_seqno=4),
    )
    fast, expected, left = both_ways(made)
    assert fast == expected
    assert left == 1  # the rollback, which is rare
    cut = encode("dcp_stream_req", "response", failover_log=logs[1])[:-1]
    fast, expected, _ = both_ways(batch(cut))
    assert fast == expected
