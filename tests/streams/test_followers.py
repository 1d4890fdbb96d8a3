"""What watchers know of each connection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dcpinspect.findings.finding import MessagePlace
from dcpinspect.findings.rule_set import Watcher
from dcpinspect.streams.examples import Examples
from dcpinspect.streams.followers import PerConnection, renumbered

NUMBERS = np.array([0, 5, 7])


@dataclass(frozen=True)
class Case:
    place: MessagePlace
    before: MessagePlace | None
    count: int


class Counts(Watcher):
    def __init__(self) -> None:
        self.seen: PerConnection[int, int] = PerConnection()
        self.cases: PerConnection[tuple[int, str], list[Case]] = PerConnection()


def place(connection: int) -> MessagePlace:
    return MessagePlace(3, connection, "c2s", 0, 0, 1, 0)


def counts(connection: int) -> Counts:
    watcher = Counts()
    watcher.seen[connection] = 9
    watcher.cases[connection, "x"] = [Case(place(connection), None, 1)]
    return watcher


def test_connections_that_leave_are_dropped() -> None:
    watcher = counts(1)
    watcher.seen[2] = 8
    watcher.leave({1})
    assert (dict(watcher.seen), dict(watcher.cases)) == ({2: 8}, {})


def test_readings_are_joined_with_the_new_numbers_of_their_connections() -> None:
    whole = Counts.joined([counts(1), counts(1)], [NUMBERS, np.array([0, 1])])
    assert whole.seen == {5: 9, 1: 9}
    assert whole.cases == {(5, "x"): [Case(place(5), None, 1)], (1, "x"): [Case(place(1), None, 1)]}


def test_all_places_of_a_value_get_new_numbers() -> None:
    examples = Examples[MessagePlace]()
    examples.add(place(2))
    assert renumbered((place(1), [place(2)], "text"), NUMBERS) == (place(5), [place(7)], "text")
    assert renumbered(examples, NUMBERS).occurrences == [place(7)]
    same = Case(place(0), None, 1)
    assert renumbered(same, np.array([0])) == same
