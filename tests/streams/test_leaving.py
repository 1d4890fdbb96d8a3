"""A reading without an end keeps what it may need, and no more: memory is flat, and findings stay
what they are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dcpinspect.findings.checker import Checker
from dcpinspect.findings.finding import Finding
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.leaving import stale_losses
from dcpinspect.streams.records import ByteLosses
from dcpinspect.streams.tables import Tables
from dcpinspect.streams.tracker import Tracker
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets

pytestmark = pytest.mark.slow

EVENTS = 5
"""Of each snapshot, one of whose seqnos never comes."""


def goes_on(snapshots: int, *, incomplete: tuple[int, ...] = ()) -> Told:
    """A stream that never ends. ``incomplete``: snapshots of which the last event never comes."""
    talk = opened()
    stream = talk.stream(7)
    for number in range(snapshots):
        first = number * (EVENTS + 1) + 1
        stream.snapshot(first if number else 0, first + EVENTS, "memory", "checkpoint")
        for seqno in (*range(first, first + 2), *range(first + 3, first + EVENTS + 1)):
            if seqno < first + EVENTS or number not in incomplete:
                stream.mutation(seqno, f"key {seqno}")
    return talk


def watched(
    talk: Told, *, most: int, forgets: bool = True
) -> tuple[Tracker, Tables, list[Finding]]:
    """What is known at the end of a reading that remembers so many events."""
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker(remembers=True, limit=most)
    if forgets:
        tracker.forget_what_is_over()
    checker = Checker(tracker)
    captured = packets(talk)
    for batch in [
        *(engine.feed(part) for part in batches(captured, [50] * (len(captured) // 50))),
        engine.finish(),
    ]:
        if batch is not None:
            tracker.feed(batch)
            checker.feed(batch)
    return tracker, tracker.tables(engine.links), checker.findings(engine.links, engine.coverage)


@cache
def in_turn(*, forgets: bool) -> tuple[Tracker, Tables]:
    """What two tests look at."""
    return watched(goes_on(500), most=200, forgets=forgets)[:2]


def size(tracker: Tracker) -> int:
    """Bytes of all tables that grow with messages."""
    state = tracker.state
    return sum(
        table.array.nbytes
        for table in (
            state.streams,
            state.snapshots,
            state.gaps,
            state.losses,
            state.questions,
            state.keys,
        )
    )


def test_ten_times_as_many_messages_take_no_more_memory() -> None:
    few, many = (watched(goes_on(snapshots), most=150)[0] for snapshots in (100, 1000))
    assert size(many) <= 1.1 * size(few)


def test_without_events_snapshots_leave_all_the_same() -> None:
    talk = opened()
    stream = talk.stream(7)
    for number in range(1000):
        stream.snapshot(number + (number > 0), number + 1, "memory", "checkpoint")
        stream.seqno_advanced(number + 1)
    tracker, tables, _ = watched(talk, most=200)
    assert len(tables.snapshots) < 200
    assert size(tracker) < 1 << 20
    assert tables.streams.values("snapshots") == [1000]


def test_what_left_is_counted() -> None:
    tracker, tables = in_turn(forgets=True)
    assert len(tables.snapshots) < 200
    assert len(tables.gaps) < 200
    whole = in_turn(forgets=False)[1]
    names = ("snapshots", "gaps", "gap_seqnos", "items")
    assert [tables.streams.values(name) for name in names] == [
        whole.streams.values(name) for name in names
    ]
    assert tables.vbuckets.records() == whole.vbuckets.records()
    assert tracker.left_counts == {
        "connections": 0,
        "streams": 0,
        "snapshots": 500 - len(tables.snapshots),
        "gaps": 500 - len(tables.gaps),
    }


def test_findings_are_what_they_are_in_a_reading_that_keeps_everything() -> None:
    talk = goes_on(500, incomplete=(3, 250, 490))

    def told(found: list[Finding]) -> list[tuple[Any, ...]]:
        return [(one.id, one.message, one.places, one.count, one.severity) for one in found]

    found = told(watched(talk, most=200)[2])
    assert found == told(watched(talk, most=200, forgets=False)[2])
    assert any("did not come" in message for _, message, *_ in found)


def test_a_gap_keeps_its_snapshot() -> None:
    tables, whole = (in_turn(forgets=forgets)[1] for forgets in (True, False))
    assert tables.gaps.records() == whole.gaps.records()[-len(tables.gaps) :]


def test_who_remembers_no_events_cannot_know_what_is_over() -> None:
    with pytest.raises(ValueError, match="remembers"):
        Tracker().forget_what_is_over()


def losses(*ways: tuple[int, int]) -> ByteLosses:
    """One after the other, of these connections and directions; row 10 n is that behind the one
    with number n.
    """
    table = ByteLosses.zeros(len(ways))
    last: dict[tuple[int, int], int] = {}
    for number, way in enumerate(ways):
        loss = table[number]
        loss.connection, loss.direction = way
        loss.before_row, loss.after_row = 10 * number - 5, 10 * number
        loss.start, loss.end, loss.previous = 100 * number, 100 * number + 50, last.get(way, -1)
        last[way] = number
    return table


def test_between_the_first_losses_of_a_direction_and_the_latest_one_stands_for_all() -> None:
    table = losses(*[(1, 0), (2, 1)] * 10)
    gone = stale_losses(table, limit=6)
    assert np.flatnonzero(gone).tolist() == [6, 7, 8, 9, 10, 11]
    for place, first in ((12, 6), (13, 7)):
        loss = table[place]
        assert (loss.before_row, loss.after_row, loss.start) == (
            10 * first - 5,
            10 * place,
            100 * first,
        )
        assert (loss.end, loss.previous) == (100 * place + 50, first - 2)
    assert not stale_losses(losses(*[(1, 0)] * 6), limit=6).any()


def test_four_times_as_many_losses_take_no_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.streams.tracker.MOST_UNUSUAL", 50)

    def lossy(count: int) -> tuple[int, list[Finding]]:
        talk = opened()
        stream = talk.stream(7)
        stream.snapshot(0, 3 * count, "memory", "checkpoint")
        for seqno in range(1, 3 * count, 3):
            stream.mutation(seqno, f"key {seqno}")
            with talk.lost():
                stream.mutation(seqno + 1, f"key {seqno + 1}")
        tracker, _, found = watched(talk, most=100)
        return len(tracker.state.known_tables.losses), found

    (few, told), (many, also) = lossy(200), lossy(800)
    assert few <= many <= 1.5 * few <= 200
    assert [one.rule for one in told] == [one.rule for one in also]


def test_streams_that_were_asked_for_again_leave_with_what_was_said_of_them() -> None:
    def kept(count: int) -> list[int]:
        talk = opened()
        for number in range(count):
            talk.stream(
                7,
                log=[(1000 + number, number)],
                start=number,
                value={"collections": [f"{number:x}"]},
            )
        engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker(remembers=True)
        checker = Checker(tracker)
        tracker.most_streams = 10
        tracker.forget_what_is_over()
        captured = packets(talk)
        for batch in [
            engine.feed(part) for part in batches(captured, [50] * (len(captured) // 50))
        ]:
            if batch is not None:
                tracker.feed(batch)
                checker.feed(batch)
                checker.let_go(engine.links, engine.coverage, set())
        return [
            tracker.state.counts.streams,
            len(tracker.conversation.logs),
            len(tracker.conversation.filters),
        ]

    assert kept(100) == kept(25)
    assert max(kept(50)) <= 40
