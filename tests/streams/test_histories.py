"""Of which streams of a history the events are compared, and what is kept of their
contradictions.
"""

from __future__ import annotations

import pytest

from dcpinspect.streams import histories
from dcpinspect.streams.events import EventQuery, FoundEvents
from dcpinspect.streams.histories import Contradiction, Histories
from tests.streams.told import Told, opened, tables

LOG = [(0xABCD, 0)]


def wanted(*talks: Told) -> list[int]:
    """How many streams are looked at together, each time."""
    found: list[int] = []

    def look(one: EventQuery) -> FoundEvents:
        found.append(len(one.keys))
        return FoundEvents(one)

    tracker = tables(*talks).tracker
    Histories().compare(look, tracker.state.known_tables.streams, tracker.conversation)
    return found


def streaming(number: int, first: int, last: int) -> Told:
    talk = opened(f"c{number}:1", port=50_000 + number)
    stream = talk.stream(7, log=LOG, start=first - 1, uuid=LOG[0][0])
    stream.snapshot(first - 1, last, "memory", "checkpoint")
    for seqno in range(first, last + 1):
        stream.mutation(seqno, f"k{seqno}")
    return talk


def test_only_streams_that_have_seqnos_in_common_are_looked_at() -> None:
    assert wanted(streaming(0, 1, 5)) == []
    assert wanted(streaming(0, 1, 5), streaming(1, 6, 9)) == []  # as after a reconnect
    assert wanted(streaming(0, 1, 5), streaming(1, 5, 9), streaming(2, 10, 12)) == [2]
    assert wanted(streaming(0, 1, 5), streaming(1, 4, 9), streaming(2, 9, 12)) == [3]


def test_of_many_streams_each_is_compared_with_some(monkeypatch: pytest.MonkeyPatch) -> None:
    talks = [streaming(number, 1, 3) for number in range(6)]
    pairs: list[int] = []
    for most in (1, 2, 99):
        monkeypatch.setattr(histories, "MOST_OTHERS", most)
        tracker = tables(*talks).tracker
        pairs.append(
            len(histories._pairs(tracker.state.known_tables.streams, tracker.conversation, 0))
        )
    assert pairs == [5, 9, 15]


def test_of_many_contradictions_the_first_three_and_the_last_are_kept() -> None:
    found = Contradiction((0, 1), "cas")
    kept = []
    for seqnos in ([1], [2, 3], [4, 5], [6]):
        found.add(seqnos, len(seqnos))
        kept.append((found.count, found.seqnos))
    assert kept == [(1, [1]), (3, [1, 2, 3]), (5, [1, 2, 3, 5]), (6, [1, 2, 3, 6])]
