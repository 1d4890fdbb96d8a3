from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.output.export.number_sets import LineMarks

NUMBERS = st.lists(st.integers(0, 5000))


@given(NUMBERS, st.integers(0, 5000), st.integers(0, 5000), st.lists(st.integers(0, 20_000)))
def test_marks_are_a_set_of_numbers(
    numbers: list[int], first: int, count: int, others: list[int]
) -> None:
    marks = LineMarks()
    for number in numbers:
        marks.add(np.array([number]))
    assert marks.within(first, count).tolist() == [
        number - first for number in sorted(set(numbers)) if first <= number < first + count
    ]
    assert marks.end == max(numbers, default=-1) + 1
    assert marks.has(np.array(others, dtype=np.int64)).tolist() == [
        other in numbers for other in others
    ]
