"""Lines that the kernel puts together are those that ``Lines`` makes one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.output.export.line_rows import LineRows
from dcpinspect.output.render.message_lines import Lines, TimeFormat
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from tests import builders
from tests.catalogue import first_of
from tests.encode import encode, encode_parts
from tests.output.export.forms import CAPTURES, in_both_forms, sample
from tests.output.export.test_json_programs import messages_of_events
from tests.protocol.vectors import ALL
from tests.tables.build import START_NS, batch

TIMES: list[TimeFormat] = ["relative", "delta", "absolute", "epoch", "local"]
WIDTHS = [None, 60, 80, 109, 110, 140, 200]


def style(batch: MessageBatch, index: int) -> tuple[str, str]:
    return ("<", ">") if batch.decoded.is_response[index] else ("", "")


def both_ways(
    made: MessageBatch, *, time: TimeFormat = "relative", width: int | None = None, every: int = 1
) -> tuple[list[str], list[str], int]:
    """(lines of the kernel, lines one by one, how many of the first were made one by one after
    all).
    """
    rows = np.arange(0, len(made), every)

    def new() -> Lines:
        lines = Lines(time, width=width)
        if every == 1:
            lines.fit(made, rows)
        return lines

    slow = new()

    def at_once() -> tuple[str, int]:
        written = LineRows(new(), style)
        left = []
        ordinary = written.ordinary

        def counted(batch: MessageBatch, index: int, shown_ns: int) -> bytes:
            left.append(index)
            return ordinary(batch, index, shown_ns)

        written.ordinary = counted  # type: ignore[method-assign] # to see which way they go
        return b"".join(written.pieces(made, rows)).decode(), len(left)

    text, left = in_both_forms(at_once)
    expected = []
    for index in rows.tolist():
        before, behind = style(made, index)
        expected.append(f"{before}{slow.line(made, index)}{behind}\n")
    return text.splitlines(keepends=True), expected, left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("time", "width"),
    first_of(
        [
            *((time, 80) for time in TIMES),
            *(("relative", width) for width in WIDTHS if width != 80),
            *((time, None) for time in TIMES[1:]),
        ],
        7,
    ),
)
def test_a_sample_is_written_alike(time: TimeFormat, width: int | None) -> None:
    for path in CAPTURES:
        for made in sample(path):
            for every in (1, 3):
                fast, expected, _ = both_ways(made, time=time, width=width, every=every)
                assert fast == expected


@pytest.mark.slow
def test_redacted_samples_are_written_alike() -> None:
    for path in CAPTURES:
        for made in sample(path):
            fast, expected, _ = both_ways(made.redacted(Redactor(b"salt")))
            assert fast == expected


def test_vectors_of_the_protocol_are_written_alike() -> None:
    fast, expected, _ = both_ways(batch(*(vector.data for vector in ALL)))
    assert fast == expected


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(
    messages=st.lists(messages_of_events(), min_size=1, max_size=12),
    width=st.sampled_from([None, 70, 120]),
)
def test_documents_and_keys_of_any_kind_are_written_alike(
    messages: list[bytes], width: int | None
) -> None:
    fast, expected, _ = both_ways(batch(*messages), width=width)
    assert fast == expected


@settings(max_examples=60)
@given(
    times=st.lists(st.integers(0, 2 * 10**18), min_size=1, max_size=6), time=st.sampled_from(TIMES)
)
def test_times_that_jump_are_written_alike(times: list[int], time: TimeFormat) -> None:
    fast, expected, _ = both_ways(
        batch(*[encode("dcp_noop")] * len(times), time_ns=times), time=time
    )
    assert fast == expected


@pytest.mark.parametrize(
    "rtt_ns", [0, 1, 499, 500, 501, 1500, 2500, 999_500, 123_456_789, -1, -1_500]
)
def test_a_round_trip_of_any_length_is_written_alike(rtt_ns: int) -> None:
    pair = (
        encode("get", key="a key that is longer than the forty columns of an answer", opaque=7),
        encode("get", "response", opaque=7),
    )
    fast, expected, _ = both_ways(batch(*pair, time_ns=[START_NS, START_NS + rtt_ns]))
    assert fast == expected


def test_a_damaged_message_is_written_alike() -> None:
    whole = encode("dcp_mutation", key="key", value="x" * 40)
    fast, expected, _ = both_ways(
        batch(whole, whole, encode("dcp_noop"), missing={1: [(60, 75)]}, heuristic=[2])
    )
    assert fast == expected


def test_equal_messages_are_written_alike_though_a_name_became_known_between_them(
    tmp_path: Path,
) -> None:
    hello = (
        encode("hello", features=[{"feature": 0x12}]),
        encode("hello", "response", features=[{"feature": 0x12}]),
    )
    ask = encode("dcp_stream_req", vbucket=7, opaque=7, value='{"collections":["9"]}')
    answer = encode("dcp_stream_req", "response", opaque=7, failover_log=[{"uuid": 7, "seqno": 0}])
    begins, flushes = (
        encode(
            "dcp_system_event",
            generation="v0",
            vbucket=7,
            opaque=7,
            by_seqno=1,
            event=event,
            **more,
            manifest_uid=1,
        )
        for event, more in (
            (0, {"key": "orders", "scope_id": 8, "collection_id": 9}),
            (2, {"collection_id": 9}),
        )
    )
    talk = builders.Conversation()
    talk.handshake()
    for to_server, data in (
        (True, hello[0]),
        (False, hello[1]),
        (True, ask),
        (False, answer + flushes + begins + flushes),
        (True, ask),
    ):
        talk.stream(to_server, data)
    path = tmp_path / "names.pcap"
    path.write_bytes(builders.pcap(builders.recorded(talk.segments)))
    with Reading([str(path)]) as reading:
        (made,) = reading
    fast, expected, _ = both_ways(made)
    assert fast == expected
    assert [
        sum("orders" in line and name in line for line in expected)
        for name in ("stream_req", "flush")
    ] == [1, 1]


WITHOUT_COLLECTION = [
    encode("hello", "response", features=[{"feature": 0x12}]),
    *(
        encode_parts(0x80, opcode, extras=bytes(size), key=b"x")
        for opcode, size in ((0x57, 31), (0x58, 18), (0x00, 0))
    ),
]
"""Documents whose keys have no id of a collection, where a client negotiated that they have."""


def test_what_makes_up_most_of_a_stream_is_for_the_kernel() -> None:
    marker: dict[str, Any] = {
        "start_seqno": 1,
        "end_seqno": 2**64 - 1,
        "snapshot_type": ["memory", "checkpoint"],
    }
    v2 = marker | {
        "max_visible_seqno": 7,
        "high_completed_seqno": 0,
        "high_prepared_seqno": 2**63,
        "purge_seqno": 3,
    }
    messages = [
        encode("dcp_snapshot_marker", vbucket=1023, **marker),
        encode("dcp_snapshot_marker", vbucket=1, generation="v2.2", **v2),
        encode("dcp_mutation", key="order:1", value="{}", by_seqno=2**64 - 1, vbucket=7),
        encode("dcp_deletion", key="order:1", by_seqno=9),
        encode("dcp_seqno_advanced", by_seqno=9),
        encode("dcp_stream_end", end_reason="ok"),
        encode("dcp_buffer_acknowledgement", ack_bytes=2**32 - 1),
        encode("get", key="order:1", opaque=7),
        encode("get", "response", opaque=7),
        encode("dcp_noop"),
    ]
    fast, expected, left = both_ways(batch(*messages, *WITHOUT_COLLECTION))
    assert (fast, left) == (expected, 0)
    for width in (None, 80):
        fast, expected, left = both_ways(batch(*messages), width=width)
        assert fast == expected
        assert left == 0


def test_lines_whose_stories_python_tells_are_for_the_kernel() -> None:
    asked: dict[str, Any] = {"start_seqno": 5, "end_seqno": 2**64 - 1, "vbucket_uuid": 0xABC}
    messages = [
        encode("dcp_stream_req", opaque=7, **asked),
        encode("dcp_stream_req", "response", opaque=7, failover_log=[{"uuid": 0xABC, "seqno": 5}]),
        encode("dcp_control", key="enable_noop", value="true", opaque=8),
        encode("get", "response", status=0x01, value="not found", opaque=9),
    ]
    fast, expected, left = both_ways(batch(*messages))
    assert fast == expected
    assert left == 0
    ranged = encode("dcp_stream_req", snapshot_start_seqno=1, snapshot_end_seqno=9, **asked)
    fast, expected, left = both_ways(batch(ranged), width=90)
    assert fast == expected
    assert left == 1  # a dash is three bytes wide and a column
