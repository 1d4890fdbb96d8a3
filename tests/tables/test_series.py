"""Numbers over time: the same as adding them up one by one, however long the spans have become and
however the reading was cut.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tables.series import FIRST_SPAN_NS, SPANS, Series

EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2000 * FIRST_SPAN_NS), st.integers(0, 1000)),
    min_size=1,
    max_size=60,
)


def fed(series: Series, events: list[tuple[int, int, int]], size: int) -> Series:
    for start in range(0, len(events), size):
        groups, times, values = (
            np.array(column, np.int64) for column in zip(*events[start : start + size], strict=True)
        )
        series.add(groups, times, values)
    return series


@given(EVENTS, st.integers(1, 60))
def test_sums_are_those_of_each_span(events: list[tuple[int, int, int]], size: int) -> None:
    events = sorted(events, key=lambda event: event[1])
    found = fed(Series(), events, size)
    assert set(found.rows) == {group for group, _, _ in events}
    for group, row in found.rows.items():
        expected = [0] * SPANS
        for one, time, value in events:
            if one == group:
                expected[time // found.span_ns] += value
        assert row.tolist() == expected
    assert found.used == max(
        (place + 1 for row in found.rows.values() for place in np.flatnonzero(row).tolist()),
        default=0,
    )


@given(EVENTS, st.integers(1, 60))
def test_a_level_lasts_until_the_next(events: list[tuple[int, int, int]], size: int) -> None:
    events = sorted(events, key=lambda event: event[1])
    found = fed(Series(kind="level"), events, size)
    for group, row in found.rows.items():
        own = [(time // found.span_ns, value) for one, time, value in events if one == group]
        for span in range(own[-1][0] + 1):
            before = [value for place, value in own if place < span]
            inside = [value for place, value in own if place == span]
            assert row[span] == max([*before[-1:], *inside], default=0)
        assert not row[own[-1][0] + 1 :].any()


def test_spans_become_longer_and_lose_nothing() -> None:
    found = fed(
        Series(),
        [(0, 5, 10), (0, 6, 10), (0, FIRST_SPAN_NS * SPANS * 3 + 5, 10), (0, 2**62, 10)],
        1,
    )
    assert found.rows[0].sum() == 40
    assert 2**62 // found.span_ns == found.used - 1 < SPANS
    found.add(np.array([0]), np.array([-(2**40)]), np.array([1]))
    assert found.rows[0][0] == 31


def test_only_so_many_groups_are_kept() -> None:
    found = fed(Series(limit=2), [(7, 0, 1), (8, 1, 1), (9, 2, 1), (7, 3, 1)], 2)
    assert {group: int(row.sum()) for group, row in found.rows.items()} == {7: 2, 8: 1}


def test_a_peak_is_the_greatest_of_a_span_and_lasts_no_longer() -> None:
    series = Series(kind="peak")
    series.add(np.zeros(3, np.int64), np.array([0, 10, 5 * FIRST_SPAN_NS]), np.array([3, 7, 2]))
    assert series.rows[0][:6].tolist() == [7, 0, 0, 0, 0, 2]
    series.add(np.zeros(1, np.int64), np.array([SPANS * FIRST_SPAN_NS]), np.array([1]))
    assert series.rows[0][:3].tolist() == [7, 0, 2]
