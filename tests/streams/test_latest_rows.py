"""The latest rows of a table: what is there after any additions and drops, and how much memory that
takes.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.streams.latest_rows import LatestRows
from dcpinspect.streams.records import ByteLosses


def numbered(first: int, count: int) -> ByteLosses:
    table = ByteLosses.zeros(count)
    table.after_row = np.arange(first, first + count)
    return table


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_rows_are_those_that_were_added_and_not_dropped(steps: list[tuple[int, int]]) -> None:
    latest, expected, first = LatestRows(ByteLosses), list[int](), 0
    for more, fewer in steps:
        latest.add(numbered(first, more))
        expected += range(first, first + more)
        first += more
        latest.drop(min(fewer, len(expected)))
        expected = expected[min(fewer, len(expected)) :]
        assert latest.rows.after_row.tolist() == expected
        assert len(latest) == len(expected)


def test_memory_does_not_grow_with_the_rows_that_came() -> None:
    latest = LatestRows(ByteLosses)
    for first in range(0, 10_000, 10):
        latest.add(numbered(first, 10))
        latest.drop(max(0, len(latest) - 50))
    assert latest.rows.array.base is not None
    assert len(latest.rows.array.base) <= 256
