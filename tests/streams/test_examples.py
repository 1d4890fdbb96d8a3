"""The few of many occurrences that are told."""

from __future__ import annotations

import numpy as np

from dcpinspect.streams.examples import Examples


def test_the_greatest_the_first_three_and_the_last() -> None:
    few: Examples[str] = Examples()
    for name, weight in (("a", 1), ("b", 2), ("c", 1), ("d", 9), ("e", 9), ("f", 1)):
        few.add(name, weight)
    assert (few.occurrences, few.count) == (["d", "a", "b", "c", "f"], 6)


def test_each_is_told_once() -> None:
    few: Examples[str] = Examples()
    assert few.occurrences == []
    few.add("a")
    assert few.occurrences == ["a"]
    few.add("b")
    assert few.occurrences == ["a", "b"]


def test_only_those_that_are_kept_need_to_be_looked_at() -> None:
    few: Examples[int] = Examples()
    for many in (np.arange(2), np.arange(2, 50), np.arange(50, 60)):
        chosen = few.kept_of(many)
        assert len(chosen) <= 4
        few.add_chosen(chosen, len(many))
    assert (few.occurrences, few.count) == ([0, 1, 2, 59], 60)
    few.add_chosen(few.kept_of(np.arange(0)), 0)
    assert few.count == 60


def test_those_that_are_kept_may_be_renamed() -> None:
    few: Examples[int] = Examples()
    for number in (1000, 5000, 2000, 3000, 4000):
        few.add(number, number)
    renamed = few.renamed(lambda number: number + 1)
    assert (renamed.occurrences, renamed.count) == ([number + 1 for number in few.occurrences], 5)
