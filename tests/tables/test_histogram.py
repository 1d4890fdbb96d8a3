"""Percentiles from counts: within a hundredth of the exact ones, for any values, in any pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tables.histogram import BUCKETS, Histograms, bucket_of, middle_of

VALUES = st.one_of(
    st.integers(0, 600),
    st.integers(0, 2**63 - 1),
    st.sampled_from([2**53 - 1, 2**53, 2**62 - 1, 2**63 - 1]),
)


@given(st.lists(VALUES, min_size=1, max_size=50))
def test_a_bucket_holds_what_differs_by_less_than_a_hundredth(values: list[int]) -> None:
    ordered = np.sort(np.array(values, dtype=np.int64))
    buckets = bucket_of(ordered)
    assert (np.diff(buckets) >= 0).all()
    assert 0 <= buckets.min() <= buckets.max() < BUCKETS
    for value, bucket in zip(ordered.tolist(), buckets.tolist(), strict=True):
        middle = middle_of(bucket)
        assert value == middle if value < 256 else abs(value - middle) < value / 100


@given(st.lists(st.tuples(st.integers(0, 3), VALUES), min_size=1, max_size=80), st.integers(1, 80))
def test_percentiles_are_those_of_the_sorted_values(pairs: list[tuple[int, int]], cut: int) -> None:
    groups, values = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    found = Histograms()
    for part in (slice(0, cut), slice(cut, None)):
        found.add(groups[part], values[part])
    for group in range(4):
        own = sorted(value for one, value in pairs if one == group)
        assert found.count(group) == len(own)
        if not own:
            with pytest.raises(KeyError):
                found.summary(group)
            continue
        exact = [own[max(1, -(-len(own) * share // 100)) - 1] for share in (50, 95, 99)]
        least, *told, greatest = found.summary(group)
        assert (least, greatest) == (own[0], own[-1])
        for one, other in zip(told, exact, strict=True):
            assert abs(one - other) <= other / 100
        assert told[-1] == greatest, "of less than a hundred values"


def test_what_is_below_nothing_counts_as_nothing() -> None:
    found = Histograms()
    found.add(np.zeros(3, np.int64), np.array([-5, -1, 9]))
    assert found.summary(0) == (-5, 0, 9, 9, 9)
