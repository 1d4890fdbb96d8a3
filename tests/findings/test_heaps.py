"""Occurrences of one thing: which of them stay by name, and how many there were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dcpinspect.findings.heaps import Heap
from tests.findings.gathered import collected, once


def test_the_first_three_and_the_last_are_kept() -> None:
    (found,) = collected(*(once("broad", row) for row in range(1, 101))).findings()
    assert ([one.row for one in found.places], found.count, found.message) == (
        [1, 2, 3, 100],
        100,
        "at 1",
    )
    assert (found.first_time_ns, found.last_time_ns, found.next) == (1_000, 100_000, "do something")


def test_a_case_begins_with_its_offender_not_with_older_evidence() -> None:
    late = once("broad", 5)
    shown = replace(late, places=(*late.places, *once("broad", 1).places))
    (found,) = collected(shown).findings()
    assert (found.first_time_ns, found.last_time_ns) == (5_000, 5_000)
    (found,) = collected(replace(late, time_ns=2_000)).findings()
    assert (found.first_time_ns, found.last_time_ns) == (2_000, 5_000)
    (found,) = collected(replace(late, time_ns=9_000)).findings()
    assert (found.first_time_ns, found.last_time_ns) == (9_000, 9_000)


def heap(*rows: int) -> Heap:
    found = Heap([])
    for row in rows:
        found.add(once("broad", row))
    return found


def test_those_of_several_readings_are_as_those_of_one() -> None:
    one = Heap.joined([heap(2, 4, 6, 8), heap(1, 3, 5)])
    assert ([place.row for place in one.message_places], one.count, one.first.message) == (
        [1, 2, 3, 8],
        7,
        "at 1",
    )


def test_without_what_another_rule_speaks_of_the_others_stay() -> None:
    found = heap(1, 2, 3, 4).without(lambda place: place.row in (2, 4))
    assert found is not None
    assert ([place.row for place in found.message_places], found.count) == ([1, 3], 2)
    assert heap(1).without(lambda _: True) is None


def test_rows_that_nobody_wants_are_none() -> None:
    assert heap(1, 2).only_rows(lambda rows: np.ones(len(rows), np.bool_)).rows is None
