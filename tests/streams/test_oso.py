"""Seqnos in any order become ranges, and what is missing between them becomes gaps."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dcpinspect.arrays import IntArray
from dcpinspect.streams.oso import OutOfOrder
from dcpinspect.streams.records import OsoSeqnos, Snapshots
from dcpinspect.streams.transitions import COMPLETE_OSO, OPEN
from tests.streams.told import opened, tables


def of_snapshot(seqnos: IntArray) -> OsoSeqnos:
    """Seqnos of snapshot 0, as the kernel writes them."""
    table = OsoSeqnos.zeros(len(seqnos))
    table.seqno[:] = seqnos
    return table


def taken(seqnos: list[int], pieces: int, *, before: int = 0) -> list[tuple[int, int]]:
    """The gaps of an OSO snapshot that got these seqnos in so many calls."""
    snapshots = Snapshots.zeros(1)
    running = snapshots[0]
    running.has_before, running.before, running.state = 1, before, OPEN
    book = OutOfOrder()
    for part in np.array_split(np.array(seqnos, np.int64), pieces):
        assert not len(book.feed(of_snapshot(part), snapshots))
    running.state = COMPLETE_OSO
    return [(gap.after, gap.before) for gap in book.feed(OsoSeqnos.zeros(0), snapshots)]


def test_every_run_that_did_not_come_is_a_gap() -> None:
    assert taken([9, 2, 3, 7], 1) == [(0, 2), (3, 7), (7, 9)]
    assert taken([1, 2, 3], 1) == []


@pytest.mark.parametrize("pieces", [1, 3, 50])
def test_the_way_they_came_does_not_matter(pieces: int) -> None:
    rng = random.Random(4)
    seqnos = sorted(rng.sample(range(1, 40_000), 20_000))
    expected = [(a, b) for a, b in zip([0, *seqnos], seqnos, strict=False) if b > a + 1]
    rng.shuffle(seqnos)
    assert taken(seqnos, pieces) == expected


def test_runs_are_kept_as_ranges() -> None:
    book = OutOfOrder()
    snapshots = Snapshots.zeros(1)
    for part in range(10):
        book.feed(of_snapshot(np.arange(part * 10_000, part * 10_000 + 10_000)), snapshots)
    assert len(book._running[0]._ranges) == 1


def test_the_gaps_of_an_out_of_order_snapshot_are_of_their_own_kind() -> None:
    talk = opened(enable_out_of_order_snapshots="true_with_seqno_advanced")
    stream = talk.stream(7, start=1)
    stream.oso("start")
    for seqno in (9, 4, 5):
        stream.mutation(seqno, f"k{seqno}")
    stream.seqno_advanced(12)
    stream.oso("end")
    found = [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in tables(talk).gaps]
    assert found == [(1, 4, "oso"), (5, 9, "oso"), (9, 13, "seqno-advanced")]


def test_a_loss_inside_leaves_open_what_is_missing() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(9, "a")
    with talk.lost():
        stream.mutation(5, "b")
    stream.mutation(1, "c")
    stream.oso("end")
    assert [
        (gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in tables(talk).gaps
    ] == [(1, 9, "capture-loss")]


@pytest.mark.parametrize("pieces", [1, 3, 50])
def test_the_least_seqno_that_came_twice_is_known_however_they_came(pieces: int) -> None:
    rng = random.Random(5)
    seqnos = [*range(1, 30_000), 20_000, 700]
    rng.shuffle(seqnos)
    snapshots = Snapshots.zeros(1)
    snapshots[0].state = OPEN
    book = OutOfOrder()
    for part in np.array_split(np.array(seqnos, np.int64), pieces):
        book.feed(of_snapshot(part), snapshots)
        assert book.repeated == []
    snapshots[0].state, snapshots[0].closed_row = COMPLETE_OSO, 4
    book.feed(OsoSeqnos.zeros(0), snapshots)
    assert book.repeated == [(4, 0, 700)]
    book.feed(OsoSeqnos.zeros(0), snapshots)
    assert book.repeated == []


@pytest.mark.parametrize(
    ("seqnos", "lost", "anomalies"),
    [((9, 4, 9), False, ["oso-structure"]), ((9, 4, 5), False, []), ((9, 4, 9), True, [])],
)
def test_out_of_order_no_seqno_comes_twice(
    seqnos: tuple[int, ...], lost: bool, anomalies: list[str]
) -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    for number, seqno in enumerate(seqnos):
        stream.mutation(seqno, f"k{number}")
    if lost:
        with talk.lost():
            stream.mutation(20, "l")
    stream.seqno_advanced(9)
    stream.oso("end")
    assert tables(talk).anomalies == anomalies


def test_an_out_of_order_snapshot_that_never_ends_has_no_gaps() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(9, "a")
    talk.close()
    seen = tables(talk)
    assert seen.gaps == []
    assert seen.snapshots[0]["state"] == "cut"


def test_what_came_in_a_snapshot_with_a_hole_is_not_the_position_that_a_client_resumes_from() -> (
    None
):
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(5, "e")
    with talk.lost():
        stream.mutation(9, "i")
    stream.mutation(2, "b")
    stream.oso("end")
    stream.end("too-slow")
    talk.stream(7, start=9, uuid=0xD0C5_0000_0000_0001)
    assert "resumed" not in [gap["cause"] for gap in tables(talk).gaps]


def test_what_came_before_the_end_of_a_snapshot_whose_start_was_lost_neither() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    with talk.lost():
        stream.oso("start")
        stream.mutation(9, "i")
    stream.mutation(2, "b")
    stream.oso("end")
    stream.end("too-slow")
    talk.stream(7, start=9, uuid=0xD0C5_0000_0000_0001)
    assert "resumed" not in [gap["cause"] for gap in tables(talk).gaps]


def test_the_first_seqno_of_a_stream_is_the_least_that_came_out_of_order() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    for seqno in (4, 1, 3):
        stream.mutation(seqno, f"k{seqno}")
    (record,) = tables(talk).streams
    assert (record["items"], record["first_seqno"], record["last_seqno"]) == (3, 1, 4)


def test_a_stream_that_ends_inside_an_out_of_order_snapshot_has_no_gaps() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(9, "a")
    stream.mutation(2, "b")
    stream.end("too-slow")
    seen = tables(talk)
    assert (seen.gaps, seen.snapshots[0]["state"]) == ([], "cut")


def test_where_a_stream_stood_that_was_not_captured_from_its_start_nobody_knows() -> None:
    top = 2**63 + 9
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    talk.begin()
    stream.oso("start")
    for seqno in (top + 1, top):
        stream.send("dcp_mutation", collection=0, key=f"k{seqno}", by_seqno=seqno, rev_seqno=1)
    stream.oso("end")
    assert tables(talk).gaps == []


def test_what_an_out_of_order_snapshot_brought_whose_start_was_lost_is_not_missing_from_the_next() -> (
    None
):
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    with talk.lost():
        stream.oso("start")
        stream.mutation(4, "d")
    for seqno in (3, 1, 2):
        stream.mutation(seqno, f"k{seqno}")
    stream.oso("end")
    stream.oso("start")
    for seqno in (6, 5):
        stream.mutation(seqno, f"k{seqno}")
    stream.oso("end")
    assert [gap for gap in tables(talk).gaps if gap["before_seqno"] == 5] == []


def test_what_came_out_of_order_is_counted() -> None:
    talk = opened(enable_out_of_order_snapshots="true_with_seqno_advanced")
    stream = talk.stream(7)
    stream.oso("start")
    for seqno in (4, 1, 3):
        stream.mutation(seqno, f"k{seqno}")
    stream.seqno_advanced(9)
    stream.oso("end")
    (found,) = tables(talk).snapshots
    assert (found["items"], found["first_seqno"], found["last_seqno"]) == (3, 1, 4)


@pytest.mark.parametrize("oso_is", ["on", "unknown"])
@pytest.mark.parametrize(
    ("came", "missing"),
    [((8, 6, 7, 2, 1, 3, 4, 5), []), ((8, 6, 7, 3, 4, 5), [(0, 3)]), ((2, 5, 1), [])],
)
def test_what_came_after_a_lost_start_is_no_gap(
    oso_is: str, came: tuple[int, ...], missing: list[tuple[int, int]]
) -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    if oso_is == "unknown":
        talk = opened()
        with talk.lost():
            talk.control("enable_out_of_order_snapshots", "true")
        stream = talk.stream(7)
    with talk.lost():
        stream.oso("start")
    for seqno in came:
        stream.mutation(seqno, f"k{seqno}")
    stream.oso("end")
    stream.snapshot(9, 10, "memory")
    stream.mutation(9, "k9")
    stream.mutation(10, "k10")
    seen = tables(talk)
    assert [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in seen.gaps] == [
        (*of, "capture-loss") for of in missing
    ]
    (record,) = seen.streams
    assert (record["first_seqno"], record["gaps"]) == (min(came), len(missing))


def test_nor_is_it_while_the_snapshot_runs_and_the_hole_stays_the_reason_of_the_rest() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    with talk.lost():
        stream.oso("start")
    for seqno in (9, 4, 5):
        stream.mutation(seqno, f"k{seqno}")
    (gap,) = tables(talk).gaps
    assert (gap["after_seqno"], gap["before_seqno"], gap["cause"]) == (0, 4, "capture-loss")
    assert "could not be read, between frames" in gap["evidence"]
