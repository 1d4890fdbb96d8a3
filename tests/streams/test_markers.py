"""Markers, OSO snapshots and stream ends: when a snapshot begins, and how it is over."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.statuses import Status
from tests.peers.script import Stream
from tests.streams.told import Told, opened, tables


def states(seen: object) -> list[str]:
    return [snapshot["state"] for snapshot in seen.snapshots]  # type: ignore[attr-defined] # Seen


def test_a_marker_that_overlaps_the_one_before_is_reported() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    stream.mutation(10, "k")
    stream.snapshot(10, 12, "memory", "checkpoint")
    assert tables(talk).anomalies == ["marker-overlap"]


def test_a_marker_behind_the_stream_is_that_and_no_overlap() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    stream.mutation(10, "k")
    stream.snapshot(5, 9, "memory", "checkpoint")
    assert tables(talk).anomalies == ["marker-behind"]


def test_a_prologue_has_the_range_of_the_marker_with_history_that_follows() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "disk", "checkpoint")
    stream.mutation(3, "k")
    stream.snapshot(0, 10, "disk", "checkpoint", "history", "may-duplicate-keys")
    stream.mutation(10, "k")
    seen = tables(talk)
    assert seen.anomalies == []
    assert states(seen) == ["continued", "complete"]
    assert [one["convention"] for one in seen.snapshots] == ["disk-1", "disk-1"]


def test_after_a_hole_the_same_range_may_be_that_of_another_stream() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory", "history")
    with talk.lost():
        stream.mutation(3, "k")
    stream.snapshot(0, 10, "memory", "history")
    stream.mutation(10, "k")
    seen = tables(talk)
    assert (seen.anomalies, states(seen)) == ([], ["unknown", "complete"])


def test_a_replica_may_merge_snapshots() -> None:
    talk = opened()
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 12}]}, state="replica")
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    stream.mutation(8, "k")
    stream.snapshot(9, 12, "memory", "checkpoint")
    assert states(tables(talk)) == ["continued", "open"]


@pytest.mark.parametrize(("server", "state"), [("node1", "continued"), ("node2", "incomplete")])
def test_a_vbucket_is_a_replica_on_the_server_that_says_so_to_anybody(
    server: str, state: str
) -> None:
    asks = Told("asks", port=50_001, server=server)
    asks.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 12}]}, state="replica")
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "disk", "checkpoint")
    stream.mutation(5, "a")
    stream.snapshot(6, 12, "memory")
    assert tables(asks, talk).snapshots[0]["state"] == state


def test_an_out_of_order_snapshot_has_neither_order_nor_markers() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    for seqno in (9, 2, 5):
        stream.mutation(seqno, f"k{seqno}")
    stream.oso("end")
    stream.snapshot(10, 12, "memory", "checkpoint")
    stream.mutation(10, "k")
    seen = tables(talk)
    assert seen.anomalies == []
    first, second = seen.snapshots
    assert (
        first["type"],
        first["state"],
        first["convention"],
        first["first_seqno"],
        first["last_seqno"],
    ) == (
        "oso",
        "complete-oso",
        None,
        2,
        9,
    )
    assert second["convention"] == "memory-2"


def test_a_broken_out_of_order_snapshot_is_reported() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("end")
    stream.oso("start")
    stream.oso("start")
    stream.snapshot(0, 5, "memory")
    assert tables(talk).anomalies == ["oso-structure"] * 3


def test_an_end_of_an_out_of_order_snapshot_that_was_lost_leaves_it_unknown() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(9, "k")
    with talk.lost():
        stream.oso("end")
    stream.snapshot(10, 12, "memory", "checkpoint")
    stream.mutation(12, "k")
    seen = tables(talk)
    assert seen.anomalies == []
    assert states(seen) == ["unknown", "complete"]


def test_a_marker_without_range_opens_a_snapshot_of_which_nothing_is_said() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.send("dcp_snapshot_marker", generation="upr")
    stream.mutation(3, "k")
    stream.end()
    seen = tables(talk)
    assert seen.anomalies == []
    (snapshot,) = seen.snapshots
    assert (
        snapshot["layout"],
        snapshot["type"],
        snapshot["start_seqno"],
        snapshot["convention"],
    ) == ("upr", "unknown", None, "unknown")
    assert snapshot["state"] == "unknown"


def test_a_stream_that_ends_ok_in_the_middle_of_a_snapshot_leaves_a_gap() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    stream.mutation(1, "k")
    stream.end("ok")
    seen = tables(talk)
    assert states(seen) == ["incomplete"]
    assert [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in seen.gaps] == [
        (1, 11, "snapshot-tail")
    ]


def test_without_history_a_marker_of_the_same_range_overlaps_and_continues_nothing() -> None:
    talk = opened()
    stream = talk.stream(7)
    for seqno in (3, 10):
        stream.snapshot(0, 10, "disk", "checkpoint")
        stream.mutation(seqno, "k")
    assert tables(talk).anomalies == ["marker-overlap"]


def test_what_is_complete_is_not_continued_by_the_history_of_its_range() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "disk", "checkpoint")
    stream.mutation(10, "k")
    stream.snapshot(0, 10, "disk", "checkpoint", "history", "may-duplicate-keys")
    assert states(tables(talk)) == ["complete", "open"]


def test_the_start_of_an_out_of_order_snapshot_leaves_the_one_before_incomplete() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    stream.mutation(1, "k")
    stream.oso("start")
    seen = tables(talk)
    assert states(seen) == ["incomplete", "open"]
    assert [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in seen.gaps] == [
        (1, 11, "snapshot-tail")
    ]


def test_a_marker_inside_an_out_of_order_snapshot_is_reported_and_changes_nothing() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(2, "b")
    stream.snapshot(0, 2, "memory")
    stream.mutation(1, "a")
    stream.oso("end")
    seen = tables(talk)
    assert seen.anomalies == ["oso-structure"]
    assert [(one["type"], one["state"], one["items"]) for one in seen.snapshots] == [
        ("oso", "complete-oso", 2)
    ]


@pytest.mark.parametrize("flags", [0, 3, 4])
def test_neither_the_start_nor_the_end_of_an_out_of_order_snapshot_is_reported_and_changes_nothing(
    flags: int,
) -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.send("dcp_oso_snapshot", flags=flags)
    stream.mutation(1, "a")
    stream.oso("end")
    seen = tables(talk)
    assert (seen.anomalies, states(seen)) == (["oso-structure"], ["complete-oso"])


REFUSED = {"overlaps": "open", "continues": "open", "opaque": "open", "behind": "complete"}
"""Why a marker is at fault, and how the snapshot before it is when it was refused."""


def refused(fault: str) -> tuple[Told, Stream]:
    """The consumer refuses a marker, and the snapshot before it, 0–10, goes on."""
    talk = opened()
    stream = talk.stream(7)
    kinds = ("disk", "checkpoint")
    stream.snapshot(0, 10, *kinds)
    stream.mutation(10 if fault == "behind" else 3, "k")
    opaque = stream.opaque
    if fault in {"continues", "opaque"}:
        stream.opaque += 1
    stream.snapshot(
        *((0, 10) if fault == "continues" else (3, 9) if fault == "behind" else (8, 12)),
        *kinds,
        *(("history", "may-duplicate-keys") if fault == "continues" else ()),
    )
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client", status=Status.ERANGE)
    stream.opaque = opaque
    return talk, stream


@pytest.mark.parametrize("fault", REFUSED)
def test_a_faulty_marker_that_is_refused_begins_no_snapshot(fault: str) -> None:
    talk, stream = refused(fault)
    assert states(tables(talk)) == [REFUSED[fault], "refused"]
    if REFUSED[fault] == "open":
        stream.mutation(10, "l")
        seen = tables(talk)
        assert states(seen) == ["complete", "refused"]
        assert [snapshot["items"] for snapshot in seen.snapshots] == [2, 0]
        assert len(seen.anomalies) == 1


def test_a_marker_that_is_refused_for_no_fault_began_a_snapshot() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client", status=Status.ERANGE)
    assert states(tables(talk)) == ["open"]


def test_a_faulty_marker_that_is_answered_with_success_begins_a_snapshot() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    stream.snapshot(8, 12, "memory")
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    assert states(tables(talk)) == ["incomplete", "open"]
