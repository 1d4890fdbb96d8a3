"""The few of many occurrences that are told."""

from __future__ import annotations

import numpy as np

from dcpinspect.streams.examples import MOST_SPANS, Examples


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


def test_only_those_that_are_kept_are_made() -> None:
    few: Examples[int] = Examples()
    made: list[int] = []

    def example_of(number: int) -> int:
        made.append(number)
        return number

    weights = np.where(np.arange(60) == 30, 9, 1)
    for many in (np.arange(2), np.arange(2, 50), np.arange(50, 60)):
        few.add_many(many, example_of, weights[many])
    assert (few.occurrences, few.count) == ([30, 0, 1, 2, 59], 60)
    assert len(made) <= 7
    few.add_many(np.arange(0), example_of)
    assert few.count == 60


def test_of_many_spans_of_time_the_nearest_become_one() -> None:
    few: Examples[int] = Examples()
    for number in range(MOST_SPANS):
        few.add_span(10 * number, 10 * number + 1)
    few.add_span(10 * MOST_SPANS - 8, 10 * MOST_SPANS)
    assert len(few.spans) == MOST_SPANS
    assert few.spans[-1] == (10 * MOST_SPANS - 10, 10 * MOST_SPANS)


def test_those_that_are_kept_may_be_renamed() -> None:
    few: Examples[int] = Examples()
    for number in (1000, 5000, 2000, 3000, 4000):
        few.add(number, number)
    renamed = few.renamed(lambda number: number + 1)
    assert (renamed.occurrences, renamed.count) == ([number + 1 for number in few.occurrences], 5)
