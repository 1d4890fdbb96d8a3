from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tui.vbucket_layout import Layout, fitting


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(80, 17, Layout(64, 1, 1)), (80, 34, Layout(32, 2, 1)), (160, 46, Layout(48, 3, 2)), (300, 70, Layout(48, 6, 3))],
)
def test_a_bucket_fills_the_room_there_is(width: int, height: int, expected: Layout) -> None:
    found = fitting(1024, width, height, is_few=False)
    assert found == expected
    assert found.columns <= width
    assert found.lines(1024) <= height


@pytest.mark.parametrize(("count", "expected"), [(1, (1, 80, 34)), (4, (2, 40, 17)), (9, (3, 26, 11)), (24, (4, 20, 5)), (50, (5, 16, 3))])
def test_few_vbuckets_fill_it_too(count: int, expected: tuple[int, int, int]) -> None:
    assert fitting(count, 80, 34, is_few=True) == Layout(*expected, is_cards=True)


@given(st.integers(1, 64), st.integers(30, 300), st.integers(10, 80))
def test_the_cells_of_few_vbuckets_are_as_wide_as_the_screen_at_most(count: int, width: int, height: int) -> None:
    found = fitting(count, width, height, is_few=True)
    if found.is_cards:
        assert found.columns <= width
        assert found.lines(count) <= height
