"""A line says what happened to somebody who knows the protocol, and nothing from the wire can
disturb it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.output.render.message_lines import ENOUGH, Lines, TimeFormat, short_name
from dcpinspect.protocol.header import decode_header
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.select import commands
from dcpinspect.text import cells
from tests import builders
from tests.captures import field
from tests.encode import encode, encode_document
from tests.peers.truth import SAMPLES
from tests.protocol import strategies
from tests.protocol.vectors import ALL
from tests.tables.build import START_NS, batch

GRANTED = [{"feature": 0x12}, {"feature": 0x06}]
HELLO = (
    encode("hello", key='{"a":"app"}', features=GRANTED),
    encode("hello", "response", features=GRANTED),
)


def lines(
    *messages: bytes, time_format: TimeFormat = "relative", width: int | None = None
) -> list[str]:
    made = batch(*messages)
    writer = Lines(time_format, width=width)
    return [writer.line(made, index) for index in range(len(made))]


def summary(*messages: bytes) -> str:
    """Of the last message, behind the columns."""
    return lines(*messages)[-1][97:]


def test_golden_conversation(golden: Callable[[str, str], None]) -> None:
    value, datatype = encode_document(
        b'{"id": 10, "name": "40-Mile Air"}', json=True, snappy=True, xattrs={"_sync": "{}"}
    )
    story = [
        *HELLO,
        encode("sasl_auth", key="PLAIN", value=b"\0user\0secret", opaque=1),
        encode("sasl_auth", "response", opaque=1, status=0x20),
        encode("dcp_open", key="indexer:1", flags=["producer", "include-xattrs"], opaque=2),
        encode("dcp_open", "response", opaque=2),
        encode("dcp_control", key="max_marker_version", value="2.2", opaque=3),
        encode("dcp_control", "response", status=4, value=b'{"error":{"context":"no"}}', opaque=3),
        encode(
            "dcp_stream_req",
            vbucket=417,
            opaque=4,
            start_seqno=7,
            end_seqno=2**64 - 1,
            vbucket_uuid=0xFEED0000DECA0001,
            snapshot_start_seqno=5,
            snapshot_end_seqno=9,
            flags=["active-only"],
        ),
        encode("dcp_stream_req", "response", status=0x23, opaque=4, rollback_seqno=5),
        encode("dcp_stream_req", vbucket=417, opaque=5, end_seqno=100),
        encode(
            "dcp_stream_req",
            "response",
            opaque=5,
            failover_log=[{"uuid": 1, "seqno": 99}, {"uuid": 2, "seqno": 0}],
        ),
        encode(
            "dcp_snapshot_marker",
            vbucket=417,
            opaque=5,
            start_seqno=0,
            end_seqno=100,
            snapshot_type=["disk", "checkpoint"],
        ),
        encode(
            "dcp_snapshot_marker",
            generation="v2.0",
            vbucket=417,
            opaque=5,
            start_seqno=0,
            end_seqno=100,
            snapshot_type=["disk"],
            max_visible_seqno=99,
            high_completed_seqno=98,
        ),
        encode(
            "dcp_mutation",
            vbucket=417,
            opaque=5,
            by_seqno=17,
            collection=8,
            key="airline_10",
            value=value,
            datatype=datatype,
        ),
        encode(
            "dcp_deletion",
            generation="v2",
            vbucket=417,
            opaque=5,
            by_seqno=18,
            collection=0,
            key="airline_11",
        ),
        encode(
            "dcp_prepare",
            vbucket=417,
            opaque=5,
            by_seqno=19,
            collection=8,
            key="k",
            durability_level="majority",
        ),
        encode(
            "dcp_commit",
            vbucket=417,
            opaque=5,
            prepared_seqno=19,
            commit_seqno=20,
            collection=8,
            key="k",
        ),
        encode(
            "dcp_system_event",
            generation="v1",
            vbucket=417,
            opaque=5,
            by_seqno=21,
            event=0,
            version=1,
            key="beers",
            manifest_uid=4,
            scope_id=8,
            collection_id=9,
            max_ttl=60,
        ),
        encode("dcp_stream_end", vbucket=417, opaque=5, end_reason=2),
        encode("dcp_noop", opaque=6),
        encode("dcp_noop", "response", opaque=6),
        encode("dcp_buffer_acknowledgement", ack_bytes=4096),
        encode("get", vbucket=1, opaque=7, key=b"\x08apple"),
        encode("get", "response", status=1, opaque=7),
    ]
    writer = Lines()
    made = batch(*story)
    golden(
        "lines.txt",
        "\n".join([writer.heading(), *(writer.line(made, index) for index in range(len(made)))])
        + "\n",
    )


@pytest.mark.parametrize("time_format", ["relative", "absolute", "delta"])
def test_the_heading_stands_over_its_columns(time_format: TimeFormat) -> None:
    writer = Lines(time_format)
    line = writer.line(
        batch(encode("dcp_mutation", vbucket=417, opaque=1, by_seqno=17, key="the key")), 0
    )
    heading = writer.heading()
    assert len(heading[: heading.index("Summary")]) == line.index("the key")
    assert heading.index("vb") + 2 == line.index("417") + 3
    assert heading.index("Message") == line.index("mutation")


@pytest.mark.parametrize(
    ("time_format", "times"),
    [
        ("relative", ["0.500000", "0.501000", "1.000000", "0.499999"]),
        ("delta", ["0.500000", "0.001000", "0.499000", "-0.500001"]),
        (
            "absolute",
            [
                f"2024-04-06 05:34:3{second}"
                for second in ("7.911000123", "7.912000123", "8.411000123", "7.910999123")
            ],
        ),
    ],
)
def test_times_are_shown_as_asked(time_format: TimeFormat, times: list[str]) -> None:
    noop = encode("dcp_noop")
    made = batch(
        *[noop] * 4,
        time_ns=[
            START_NS + step for step in (500_000_000, 501_000_000, 1_000_000_000, 499_999_000)
        ],
    )
    writer = Lines(time_format)
    writer.start_at(START_NS)
    assert [writer.line(made, index)[9:].split("  1→")[0].strip() for index in range(4)] == times


def test_a_short_name_is_dropped_where_it_would_fit_two_commands() -> None:
    assert [
        short_name(name) for name in ("dcp_mutation", "dcp_noop", "noop", "dcp_flush", "hello")
    ] == [
        "mutation",
        "dcp_noop",
        "noop",
        "dcp_flush",
        "hello",
    ]


def test_short_names_are_unique_and_understood_by_the_filter() -> None:
    named = [(op, short_name(op.name.lower())) for op in Opcode]
    assert len({short for _, short in named}) == len(named)
    for op, short in named:
        if (
            f"DCP_{op.name}" not in Opcode.__members__
        ):  # the filter refuses names that fit two commands: JSON.md
            assert commands(short).client == {int(op)}


def test_no_command_of_the_server_is_called_like_a_clients() -> None:
    assert not {op.name for op in Opcode} & {op.name for op in ServerOpcode}


def test_a_first_generation_is_told_where_there_are_several() -> None:
    marker = encode("dcp_snapshot_marker", generation="upr")
    assert "snapshot_marker upr " in lines(marker)[0]
    assert "mutation v1" not in lines(encode("dcp_mutation", key="k"))[0]


def test_what_the_capture_lacks_is_counted() -> None:
    made = batch(
        encode("dcp_mutation", key="key", value=b"v" * 50), missing={0: [(60, 70), (75, 80)]}
    )
    assert Lines().line(made, 0).endswith("key  15 bytes not captured")


def test_a_message_found_by_trying_is_marked() -> None:
    made = batch(encode("dcp_mutation", key="key"), heuristic=[0])
    assert Lines().line(made, 0).endswith("key  ? its beginning is not proven")


def test_a_broken_rule_is_named() -> None:
    assert summary(encode("dcp_mutation", key="key", datatype=0x40)).endswith(
        "! undefined-datatype"
    )


def test_the_error_of_a_refusal_is_shown() -> None:
    refused = encode("get", "response", status=7, value=b'{"rev":1}', opaque=1)
    assert summary(encode("get", key="k", opaque=1), refused).startswith(
        'k  {"rev":1}  after 1.000 ms'
    )


def test_credentials_are_only_measured() -> None:
    text = "\n".join(
        lines(
            encode("sasl_auth", key="PLAIN", value=b"\0user\0secret"),
            encode("sasl_step", "response", status=0x21, value=b"secret"),
        )
    )
    assert "12 bytes hidden" in text
    assert "secret" not in text


def test_one_vbucket_is_no_plural() -> None:
    answer = encode("get_all_vb_seqnos", "response", seqnos=[{"vbucket": 1, "seqno": 2}])
    assert summary(answer).startswith("1 vbucket")
    assert not summary(answer).startswith("1 vbuckets")


@given(st.sampled_from(ALL), st.integers(20, 200))
def test_a_line_is_clipped_to_the_terminal(vector: object, width: int) -> None:
    data = getattr(vector, "data", b"")
    if decode_header(data).size == len(data):
        assert all(cells(line) <= width for line in lines(data, width=width))


@given(st.lists(strategies.plausible(), min_size=1, max_size=4), st.booleans())
def test_no_bytes_make_a_character_that_cannot_be_seen(
    messages: list[bytes], handshake: bool
) -> None:
    made = batch(*messages, handshake=handshake)
    writer = Lines()
    assert all(writer.line(made, index).isprintable() for index in range(len(made)))


@given(
    extras=st.binary(min_size=48, max_size=48),
    log=st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=4),
    cut=st.integers(0, 20),
)
def test_streams_are_told_by_their_numbers_as_by_their_fields(
    extras: bytes, log: list[tuple[int, int]], cut: int
) -> None:
    asked, entries = (
        encode("dcp_stream_req"),
        [{"uuid": uuid, "seqno": seqno} for uuid, seqno in log],
    )
    whole = encode("dcp_stream_req", "response", failover_log=entries)
    requests = asked[:24] + extras, asked, encode("dcp_stream_req", value=b'{"sid":3}')
    answers = (
        whole,
        whole[: len(whole) - cut],
        encode("dcp_stream_req", "response", status=0x23, rollback_seqno=7),
    )
    found = lines(*requests, *answers)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("dcpinspect.output.render.message_lines._OF_COLUMNS", {})
        assert found == lines(*requests, *answers)


EVENTS = [one.data for one in ALL if decode_header(one.data).opcode == Opcode.DCP_SYSTEM_EVENT]


@given(data=st.data(), event=st.sampled_from(EVENTS))
def test_system_events_are_told_by_their_numbers_as_by_their_fields(
    data: st.DataObject, event: bytes
) -> None:
    changed = bytearray(event)
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(24, len(event) - 1))] = data.draw(st.integers(0, 255))
    begins = encode(
        "dcp_system_event",
        generation="v0",
        event=0,
        key="orders",
        scope_id=8,
        collection_id=9,
        manifest_uid=1,
    )
    messages = (
        begins,
        event,
        bytes(changed),
        event[: data.draw(st.integers(24, len(event)))],
        begins,
    )
    found = lines(*messages)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dcpinspect.output.render.message_lines._OF_COLUMNS", {})
        assert found == lines(*messages)


def test_streams_are_not_annotated_for_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    event = encode(
        "dcp_system_event", generation="v0", event=1, scope_id=8, collection_id=0, manifest_uid=4
    )
    messages = (
        encode("dcp_stream_req", start_seqno=3),
        encode("dcp_stream_req", "response", failover_log=[{"uuid": 9, "seqno": 4}]),
        event,
    )
    made, annotated = batch(*messages), []
    monkeypatch.setattr(type(made), "annotate", lambda _, index: annotated.append(index))
    writer = Lines()
    assert writer.line(made, 0).endswith("  from 3, to 0")
    assert writer.line(made, 1).endswith(
        "  failover log: 1 entry 0x0000000000000009 at 4  after 1.000 ms"
    )
    assert writer.line(made, 2).endswith(
        "  end-collection, scope 0x8, collection 0x0, manifest 0x4"
    )
    assert not annotated


def test_a_narrow_terminal_has_no_room_for_opaque_and_size(tmp_path: Path) -> None:
    path = builders.capture(
        tmp_path / "narrow.pcap",
        server=encode("dcp_mutation", vbucket=417, by_seqno=42, key="airline_10"),
    )
    with Reading([str(path)]) as reading:
        (batch,) = reading
    lines = Lines(width=80)
    assert lines.heading().split() == ["Row", "Time", "Con", "Message", "vb", "Seqno", "Summary"]
    assert lines.line(batch, 0).split()[-4:] == ["mutation", "417", "42", "airline_10"]
    assert len(lines.heading()) <= 80


@pytest.mark.parametrize(("width", "has_all"), [(80, False), (110, False), (160, True)])
def test_columns_are_as_narrow_as_their_content_until_the_summary_has_room(
    width: int, has_all: bool
) -> None:
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        (batch,) = reading
    lines, rows = Lines(width=width), np.arange(len(batch))
    lines.fit(batch, rows)
    assert ("Opaque" in lines.heading()) == has_all
    assert len(lines.heading()) <= width
    assert width - lines.summary_at >= min(ENOUGH, 32)
    for row in rows.tolist():
        line = lines.line(batch, row)
        assert cells(line) <= width
        assert f"{line:<{width}}"[lines.summary_at - 1] == " "
        assert line[: lines.columns.row].strip() == str(row + 1)


@pytest.mark.parametrize("width", [80, 100])
def test_a_status_that_does_not_fit_beside_its_command_leads_the_summary(width: int) -> None:
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        (batch,) = reading
    lines = Lines(width=width)
    lines.fit(batch, np.arange(203, 217))
    for row, command, status in (
        (205, "close_stream", "key_enoent"),
        (209, "stream_req", "key_eexists"),
        (216, "stream_req", "unknown_collection"),
    ):
        line = lines.line(batch, row - 1)
        assert f"← {command} " in line
        assert line.index(status) == lines.summary_at
    line = lines.line(batch, 206)
    assert "← stream_req ok " in line, "both fit"
    assert line[lines.summary_at :].startswith("failover log: ")


def test_the_opaque_of_a_stream_is_told_as_that_of_a_message() -> None:
    with Reading([str(SAMPLES / "upr.pcap")]) as reading:
        (batch,) = reading
    line = Lines().line(batch, 9)
    assert "add_stream ok" in line
    assert "opaque 0x00001000  after" in line


def test_the_end_of_a_command_that_does_not_fit_stays_in_requests_and_answers() -> None:
    with Reading([str(field("p01-bucket-missing-loop"))]) as reading:
        (batch,) = reading
    lines = Lines(width=80)
    lines.fit(batch, np.arange(len(batch)))
    assert "← select_bucket key_enoent " in lines.line(batch, 9), "vbucket and seqno are empty"
    assert lines.line(batch, 9)[lines.summary_at :].startswith("orderz")
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        (batch,) = reading
    lines.fit(batch, np.arange(157, 170))
    assert "→ dcp_get_failover_log 417" in lines.line(batch, 157)
    lines.columns = lines.columns._replace(title=19)
    assert "→ …p_get_failover_log " in lines.line(batch, 157)
    answer = lines.line(batch, 158)
    assert "← …p_get_failover_log " in answer
    assert answer[lines.summary_at :].strip().startswith("ok  ")


def test_columns_have_room_for_what_comes_after_a_first_batch_of_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.output.render.message_lines.ALL_KNOWN", 100)
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        (batch,) = reading
    lines = Lines(width=80)
    lines.fit(batch, np.arange(len(batch)))
    assert (lines.columns.row, lines.columns.seqno, lines.time_width) == (7, 8, 10)
    lines.fit(batch, np.arange(40), 40)
    assert (lines.columns.row, lines.columns.seqno, lines.time_width) == (3, 5, 8), "these are all"


def test_a_name_goes_on_over_columns_that_are_empty() -> None:
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        (batch,) = reading
    lines = Lines(width=80)
    lines.fit(batch, np.arange(len(batch)))
    line = lines.line(batch, 70)
    assert "→ buffer_acknowledgement " in line
    assert line[lines.summary_at :] == "bytes 11270"


def test_without_a_width_columns_fit_where_all_messages_are_known() -> None:
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        (batch,) = reading
    lines = Lines()
    lines.fit(batch, np.arange(len(batch)))
    assert (lines.columns.row, lines.columns.seqno, lines.is_narrow) == (3, 5, False)
    assert "Opaque" in lines.heading()
