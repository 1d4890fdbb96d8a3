"""Columns are numbers and places; nothing is lost above 2^63 and nothing is made before it is asked
for.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.column_types import (
    NO_HOLES,
    HoleRanges,
    LazyColumns,
    NumberColumn,
    Slices,
    numbers_at,
)


def test_a_number_is_none_where_the_column_has_no_value() -> None:
    column = NumberColumn(np.array([1, 2**64 - 1], dtype=np.uint64), np.array([False, True]))
    assert [column.value_at(row) for row in (0, 1)] == [None, 2**64 - 1]


def test_a_column_without_marks_has_values_everywhere() -> None:
    assert NumberColumn(np.array([7], dtype=np.int64)).value_at(0) == 7


def test_taking_rows_takes_their_marks() -> None:
    column = NumberColumn(np.array([5, 6, 7]), np.array([True, False, True])).take(np.array([2, 1]))
    assert [column.value_at(row) for row in (0, 1)] == [7, None]


def test_taking_rows_of_slices_takes_both_ends() -> None:
    taken = Slices(np.array([10, 20]), np.array([3, -1])).take(np.array([1]))
    assert (taken.start.tolist(), taken.size.tolist()) == ([20], [-1])


@given(st.binary(min_size=16, max_size=64), st.sampled_from([1, 2, 4, 8]), st.data())
def test_numbers_are_the_big_endian_bytes_at_their_places(
    data: bytes, size: int, draw: st.DataObject
) -> None:
    places = draw.draw(st.lists(st.integers(0, len(data) - size), max_size=9))
    found = numbers_at(np.frombuffer(data, np.uint8), np.array(places, dtype=np.int64), size)
    assert found.dtype == np.uint64
    assert found.tolist() == [int.from_bytes(data[place : place + size], "big") for place in places]


def test_no_places_need_no_data() -> None:
    assert numbers_at(np.zeros(0, np.uint8), np.zeros(0, np.int64), 8).tolist() == []


def test_a_lazy_column_is_made_once_when_it_is_asked_for() -> None:
    made = []

    def make() -> NumberColumn:
        made.append(1)
        return NumberColumn(np.array([1]))

    columns = LazyColumns({"by_seqno": make, "other": make})
    assert (list(columns), len(columns), "by_seqno" in columns) == (["by_seqno", "other"], 2, True)
    assert not made
    assert columns["by_seqno"] is columns["by_seqno"]
    assert len(made) == 1


def test_a_column_that_nobody_has_is_no_column() -> None:
    with pytest.raises(KeyError):
        LazyColumns({})["by_seqno"]


@given(
    st.sets(st.integers(0, 40)),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1),
    st.randoms(use_true_random=False),
)
def test_a_range_is_hit_where_one_of_its_bytes_is_in_a_hole(
    lost: set[int], ranges: list[tuple[int, int]], rng: Random
) -> None:
    spans = [(at, at + 1) for at in lost]
    rng.shuffle(spans)
    start, end = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    at, size = (np.array([one[side] for one in ranges], np.int64) for side in (0, 1))
    expected = [bool(lost & set(range(place, place + width))) for place, width in ranges]
    assert HoleRanges.from_ranges(start, end).hit(at, size).tolist() == expected
    assert not NO_HOLES.hit(at, size).any()
