"""Seqnos rise; what jumps is a gap and what falls is a fault, unless the capture lacks what would
explain it.
"""

from __future__ import annotations

import pytest

from dcpinspect.protocol.statuses import Status
from tests.peers.script import Stream
from tests.streams.told import Told, opened, tables


def started(*, start: int = 0, end: int = 100, **controls: str) -> tuple[Told, Stream]:
    talk = opened(**controls)  # type: ignore[arg-type] # none of them is a port
    stream = talk.stream(7, start=start)
    stream.snapshot(start, end, "memory")
    return talk, stream


def test_rising_seqnos_are_no_fault() -> None:
    talk, stream = started()
    for seqno in (1, 2, 3, 50, 100):
        stream.mutation(seqno, f"k{seqno}")
    seen = tables(talk)
    assert seen.anomalies == []
    assert [(gap["after_seqno"], gap["before_seqno"], gap["width"]) for gap in seen.gaps] == [
        (3, 50, 46),
        (50, 100, 49),
    ]


@pytest.mark.parametrize("again", [5, 4])
def test_a_seqno_that_does_not_rise_is_reported_once_and_not_taken(again: int) -> None:
    talk, stream = started()
    for seqno in (4, 5, again, 6):
        stream.mutation(seqno, f"k{seqno}")
    seen = tables(talk)
    assert seen.anomalies == ["seqno-not-increasing"]
    assert (seen.streams[0]["items"], seen.streams[0]["last_seqno"]) == (4, 6)


def test_a_seqno_repeated_after_seqno_advanced_has_a_name_of_its_own() -> None:
    talk, stream = started(end=17)
    stream.seqno_advanced(17)
    stream.mutation(17, "k")
    assert tables(talk).anomalies == ["seqno-repeated-after-advanced"]


def test_what_the_client_owned_does_not_come_again() -> None:
    talk, stream = started(start=40)
    stream.mutation(40, "k")
    assert tables(talk).anomalies == ["seqno-below-request-start"]


def test_an_event_before_any_marker_is_reported_whatever_its_seqno() -> None:
    talk = opened()
    talk.stream(7, start=5).mutation(3, "k")
    assert tables(talk).anomalies == ["event-before-marker"]


def test_an_event_outside_of_its_marker_is_reported() -> None:
    talk, stream = started(end=10)
    stream.mutation(10, "k")
    stream.mutation(11, "m")
    assert tables(talk).anomalies == ["seqno-outside-snapshot"]


def test_a_seqno_that_leaps_out_of_its_snapshot_is_the_only_fault() -> None:
    talk, stream = started(end=4)
    for seqno in (1, 2, 1000, 3, 4):
        stream.mutation(seqno, f"k{seqno}")
    stream.snapshot(5, 6, "memory")
    for seqno in (5, 900, 6):
        stream.mutation(seqno, f"k{seqno}")
    stream.snapshot(7, 9, "memory")
    stream.mutation(7, "k7")
    assert tables(talk).anomalies == ["seqno-outside-snapshot"] * 2


def test_after_a_leap_seqnos_still_have_to_rise() -> None:
    talk, stream = started(end=4)
    for seqno in (1, 2, 1000, 3, 2):
        stream.mutation(seqno, f"k{seqno}")
    assert tables(talk).anomalies == ["seqno-outside-snapshot", "seqno-not-increasing"]


def test_where_a_marker_is_missing_its_seqnos_are_taken_as_they_come() -> None:
    talk, stream = started(end=4)
    for seqno in (4, 6, 8):  # a marker 5–8 is missing
        stream.mutation(seqno, f"k{seqno}")
    stream.snapshot(9, 12, "memory")
    for seqno in (9, 8, 12):
        stream.mutation(seqno, f"k{seqno}")
    assert tables(talk).anomalies == ["seqno-outside-snapshot"] * 2 + ["seqno-not-increasing"]


def test_the_second_seqno_of_commit_and_abort_is_the_events_own() -> None:
    talk, stream = started(enable_sync_writes="true")
    stream.prepare(1, "k", {})
    stream.prepare(2, "m", {})
    stream.commit(1, 3, "k")
    stream.abort(2, 4, "m")
    seen = tables(talk)
    assert not seen.anomalies
    assert not seen.gaps
    assert (seen.streams[0]["items"], seen.streams[0]["last_seqno"]) == (4, 4)


@pytest.mark.parametrize("top", [2**63 - 1, 2**63, 2**63 + 1, 2**64 - 3])
def test_seqnos_of_64_bits_are_compared_as_they_are(top: int) -> None:
    talk, stream = started(start=top - 2, end=top + 2)
    for seqno in (top - 1, top + 1, top):
        stream.send("dcp_mutation", collection=0, key=f"k{seqno}", by_seqno=seqno, rev_seqno=1)
    seen = tables(talk)
    assert seen.anomalies == ["seqno-not-increasing"]
    assert [(gap["after_seqno"], gap["before_seqno"], gap["width"]) for gap in seen.gaps] == [
        (top - 1, top + 1, 1)
    ]


def test_the_greatest_seqno_there_is_does_no_harm() -> None:
    talk, stream = started(end=2**64 - 1)
    stream.seqno_advanced(2**64 - 1)
    stream.end()
    seen = tables(talk)
    assert seen.snapshots[0]["state"] == "complete-seqno-advanced"
    assert seen.streams[0]["last_seqno"] == 2**64 - 1


def test_after_a_loss_lower_seqnos_are_no_fault_where_they_may_be_out_of_order() -> None:
    talk, stream = started(enable_out_of_order_snapshots="true")
    stream.mutation(50, "k")
    with talk.lost():
        stream.oso("start")
    for seqno in (9, 3, 70, 20):
        stream.mutation(seqno, "k")
    stream.oso("end")
    seen = tables(talk)
    assert seen.anomalies == []
    assert len(seen.streams) == 1


def test_what_cannot_be_read_of_a_message_is_a_loss_to_its_stream_only() -> None:
    talk, stream = started()
    other = talk.stream(8)
    other.snapshot(0, 9, "memory")
    stream.mutation(1, "k")
    talk.send(
        "server",
        bytes.fromhex("8057000013000007" + "00000013" + f"{stream.opaque:08x}" + "00" * 8)
        + bytes(19),
    )
    stream.mutation(5, "k")
    other.mutation(4, "k")
    seen = tables(talk)
    assert {gap["vbucket"]: gap["cause"] for gap in seen.gaps} == {
        7: "capture-loss",
        8: "deduplicated",
    }
    assert "could not be read" in next(gap["evidence"] for gap in seen.gaps if gap["vbucket"] == 7)
    assert seen.streams[0]["items"] == 3


def test_what_comes_too_low_or_outside_is_counted_where_it_came() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "a")
    stream.snapshot(3, 5, "memory")
    stream.mutation(4, "b")
    stream.mutation(30, "c")
    seen = tables(talk)
    assert [
        (one["items"], one["first_seqno"], one["last_seqno"], one["state"])
        for one in seen.snapshots
    ] == [
        (1, 9, 9, "complete"),
        (2, 4, 30, "open"),
    ]
    stream.mutation(5, "d")
    assert [one["state"] for one in tables(talk).snapshots] == ["complete", "complete"]


def test_below_the_start_the_greatest_that_came_is_the_last() -> None:
    talk = opened()
    stream = talk.stream(7, start=100)
    stream.snapshot(100, 200, "memory")
    for seqno in (7, 9, 8):
        stream.mutation(seqno, f"k{seqno}")
    (found,) = tables(talk).streams
    assert (found["items"], found["first_seqno"], found["last_seqno"]) == (3, 7, 9)


def test_a_stream_from_latest_may_begin_with_the_seqno_that_its_marker_names() -> None:
    talk = opened()
    stream = talk.stream(7, flags=["from-latest"])
    stream.snapshot(10, 12, "memory")
    stream.mutation(10, "a")
    stream.mutation(12, "b")
    seen = tables(talk)
    assert seen.anomalies == []
    assert [(gap["after_seqno"], gap["before_seqno"]) for gap in seen.gaps] == [(10, 12)]
    stream.mutation(10, "a")
    assert tables(talk).anomalies == ["seqno-not-increasing"]


@pytest.mark.parametrize(("change_streams", "state"), [("true", "unknown"), ("false", "complete")])
def test_after_a_loss_in_a_snapshot_from_disk_its_history_may_have_begun(
    change_streams: str, state: str
) -> None:
    talk = opened(change_streams=change_streams)
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk", "checkpoint")
    stream.mutation(1, "a")
    with talk.lost():
        stream.mutation(2, "b")
    stream.mutation(9, "c")
    assert [one["state"] for one in tables(talk).snapshots] == [state]


def unreadable(talk: Told, stream: Stream, command: int = 0x57) -> None:
    """Sends a message of the stream whose extras are too short: 0x57 is a mutation, 0x56 a marker."""
    header = bytes((0x80, command)) + bytes.fromhex("0000 13 00") + stream.vbucket.to_bytes(2)
    opaque = stream.opaque.to_bytes(4)
    talk.send("server", header + bytes.fromhex("00000013") + opaque + bytes(8 + 19))


def test_a_marker_that_cannot_be_read_may_have_announced_what_is_missing() -> None:
    talk = opened()
    stream = talk.stream(7)
    unreadable(talk, stream, 0x56)
    stream.mutation(5, "a")
    stream.snapshot(10, 20, "memory")
    stream.mutation(12, "b")
    seen = tables(talk)
    assert seen.anomalies == []
    assert [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in seen.gaps] == [
        (0, 5, "capture-loss"),
        (5, 12, "capture-loss"),
    ]


def test_losses_before_the_position_are_not_between_two_seqnos() -> None:
    talk, stream = started()
    stream.mutation(1, "a")
    for seqno in (4, 8):
        with talk.lost():
            stream.mutation(seqno - 1, "b")
        stream.mutation(seqno, "c")
    with talk.lost():
        stream.mutation(9, "d")
    talk.noop()
    with talk.lost():
        stream.mutation(11, "e")
    stream.mutation(15, "f")
    said = [gap["evidence"].startswith("2 stretches within") for gap in tables(talk).gaps]
    assert said == [False, False, True]


def test_a_request_that_is_read_late_tells_where_the_first_gap_begins() -> None:
    """Where a capture begins inside a direction, its first message is found late."""
    talk = opened()
    talk.begin()
    stream = talk.stream(3, start=3)
    stream.snapshot(4, 12, "memory")
    stream.mutation(8, "a")
    stream.mutation(12, "b")
    talk.noop()
    seen = tables(talk)
    assert seen.streams[0]["open_row"] > seen.snapshots[0]["row"]
    assert [(gap["after_seqno"], gap["before_seqno"]) for gap in seen.gaps] == [(3, 8), (8, 12)]


@pytest.mark.parametrize(
    ("seqnos", "left"), [((1, 7), 1), ((1, 7, 8), 1), ((1, 2, 3), 2), ((1, 2, 1), 2), ((3,), None)]
)
def test_a_faulty_event_that_is_refused_is_not_received(
    seqnos: tuple[int, ...], left: int | None
) -> None:
    talk, stream = started(end=2)
    for seqno in seqnos:
        stream.mutation(seqno, f"k{seqno}")
    talk.answer("dcp_mutation", stream.opaque, by="client", status=Status.ERANGE)
    seen = tables(talk)
    (row,) = seen.streams
    assert (row["last_seqno"], row["items"], seen.gaps) == (left, len(seqnos) - 1, [])
    (snapshot,) = seen.snapshots
    assert (snapshot["last_seqno"], snapshot["items"]) == (left, len(seqnos) - 1)


def test_an_event_that_is_refused_for_no_fault_was_received() -> None:
    talk, stream = started(end=8)
    stream.mutation(1, "a")
    stream.mutation(7, "b")
    talk.answer("dcp_mutation", stream.opaque, by="client", status=Status.EINVAL)
    seen = tables(talk)
    assert (seen.streams[0]["last_seqno"], seen.streams[0]["items"], len(seen.gaps)) == (7, 2, 1)


def test_what_comes_after_a_refused_event_goes_on_from_the_one_before() -> None:
    talk, stream = started(end=3)
    for seqno in (1, 7):
        stream.mutation(seqno, f"k{seqno}")
    talk.answer("dcp_mutation", stream.opaque, by="client", status=Status.ERANGE)
    for seqno in (2, 3):
        stream.mutation(seqno, f"k{seqno}")
    seen = tables(talk)
    assert seen.anomalies == ["seqno-outside-snapshot"]
    assert (seen.streams[0]["last_seqno"], seen.streams[0]["items"], seen.gaps) == (3, 3, [])


def test_what_is_at_fault_after_a_refused_event_contradicts_the_one_before_that() -> None:
    talk, stream = started(end=3)
    for seqno in (1, 7):
        stream.mutation(seqno, f"k{seqno}")
    talk.answer("dcp_mutation", stream.opaque, by="client", status=Status.ERANGE)
    stream.mutation(1, "k1")
    seen = tables(talk)
    assert seen.anomalies == ["seqno-outside-snapshot", "seqno-not-increasing"]
    last = seen.anomaly_rows[1]
    assert last.place.row - last.other.row == 3  # behind the refused event and its answer
