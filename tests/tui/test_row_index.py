from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tui.row_index import RowIndex

LENGTHS = st.lists(st.integers(0, 5), max_size=8)


@given(LENGTHS, st.integers(2, 5), st.integers(0, 20))
def test_a_filtered_index_is_the_list_of_what_came(
    lengths: list[int], step: int, dropped: int
) -> None:
    index, model, last = RowIndex(is_filtered=True), list[int](), 0
    for length in lengths:
        rows = [last + step * number + 1 for number in range(length)]
        last += step * length
        index.append(np.array(rows, np.uint32), last)
        model += rows
    index.drop(dropped)
    model = [row for row in model if row >= dropped]
    assert index.rows(0, len(index)).tolist() == model
    assert [index.row(place) for place in range(len(index))] == model
    assert [index.has(row) for row in range(last + 2)] == [row in model for row in range(last + 2)]
    assert all(index.place_of(row) == sum(one < row for one in model) for row in range(last + 2))
    assert index.scanned == last


@given(st.integers(1, 50), st.integers(0, 50))
def test_an_index_without_a_filter_is_a_range(first: int, count: int) -> None:
    index = RowIndex()
    index.grow(1, count)
    index.drop(first)
    rows = list(range(first, count + 1))
    assert len(index) == len(rows)
    assert index.rows(0, 100).tolist() == rows
    assert [row for row in range(count + 2) if index.has(row)] == rows


def test_there_is_no_row_outside() -> None:
    index = RowIndex()
    index.grow(1, 3)
    for place in (-1, 3):
        with pytest.raises(IndexError):
            index.row(place)
