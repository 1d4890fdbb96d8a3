"""A reading without an end keeps what it may need, and no more: memory is flat, and findings stay what they are."""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.engine import Engine
from dcpinspect.findings.checker import Checker
from dcpinspect.findings.finding import Finding
from dcpinspect.streams.tracker import Tables, Tracker
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets

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


def watched(talk: Told, *, most: int, forgets: bool = True) -> tuple[Tracker, Tables, list[Finding]]:
    """What is known at the end of a reading that remembers so many events."""
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker(remembers=True, most=most)
    if forgets:
        tracker.forget_what_is_over()
    checker = Checker(tracker)
    captured = packets(talk)
    for batch in [*(engine.feed(part) for part in batches(captured, [20] * (len(captured) // 20))), engine.finish()]:
        if batch is not None:
            tracker.feed(batch)
            checker.take(batch)
    return tracker, tracker.tables(engine.links), checker.findings(engine.links, engine.coverage)


def size(tracker: Tracker) -> int:
    """Bytes of all tables that grow with messages."""
    state = tracker.state
    return sum(table.array.nbytes for table in (state.streams, state.snapshots, state.gaps, state.losses, state.questions, state.keys))


def test_ten_times_as_many_messages_take_no_more_memory() -> None:
    few, many = (watched(goes_on(snapshots), most=150)[0] for snapshots in (150, 1500))
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
    tracker, tables, _ = watched(goes_on(500), most=200)
    assert len(tables.snapshots) < 200
    assert len(tables.gaps) < 200
    whole = watched(goes_on(500), most=200, forgets=False)[1]
    names = ("snapshots", "gaps", "gap_seqnos", "items")
    assert [tables.streams.values(name) for name in names] == [whole.streams.values(name) for name in names]
    assert tables.vbuckets.records() == whole.vbuckets.records()
    assert tracker.left == {
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
    _, tables, _ = watched(goes_on(500), most=200)
    whole = watched(goes_on(500), most=200, forgets=False)[1]
    assert tables.gaps.records() == whole.gaps.records()[-len(tables.gaps) :]


def test_who_remembers_no_events_cannot_know_what_is_over() -> None:
    with pytest.raises(ValueError, match="remembers"):
        Tracker().forget_what_is_over()
