"""Percentiles of any number of values in little memory: counts by size, with 128 steps between a
power of two and the next.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import IntArray

STEPS_BITS = 7
STEPS = 1 << STEPS_BITS
BUCKETS = (63 - STEPS_BITS + 1) * STEPS
"""Number of buckets for values below 2**63. Each value below 256 has its own bucket; in others,
values differ by less than a hundredth.
"""

_MOST = np.iinfo(np.int64).max


def bucket_of(values: IntArray) -> IntArray:
    """Returns the bucket of each value; negative ones count as 0."""
    values = np.maximum(values, 0)
    # if a float was rounded up to the next power of two, its exponent is one too high
    exponent = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(exponent - 1 - STEPS_BITS, 0)
    shift -= (shift > 0) & (values >> shift < STEPS)
    bucket: IntArray = shift * STEPS + (values >> shift)
    return bucket


def middle_of(bucket: int) -> int:
    """Returns the value in the middle of a bucket."""
    shift = max(0, bucket // STEPS - 1)
    return ((bucket - shift * STEPS) << shift) + ((1 << shift) - 1) // 2


def _octaves() -> IntArray:
    """Returns, for each bucket, the exponent of the power of two at or below its values."""
    bucket = np.arange(BUCKETS)
    shift = np.maximum(bucket // STEPS - 1, 0)
    least = np.maximum(bucket - shift * STEPS, 1)
    exponents: IntArray = shift + np.frexp(least.astype(np.float64))[1] - 1
    return exponents


class Histograms:
    """A histogram for each group, a whole number. Memory grows with the groups that occur."""

    def __init__(self) -> None:
        self._counts: dict[int, IntArray] = {}
        self._least: dict[int, int] = {}
        self._greatest: dict[int, int] = {}

    def add(self, groups: IntArray, values: IntArray) -> None:
        """Counts values, each in its group."""
        present, group_index = np.unique(groups, return_inverse=True)
        group_index = group_index.reshape(-1)
        counts = np.bincount(
            group_index * BUCKETS + bucket_of(values), minlength=len(present) * BUCKETS
        ).reshape(-1, BUCKETS)
        least, greatest = np.full(len(present), _MOST), np.full(len(present), -_MOST)
        np.minimum.at(least, group_index, values)
        np.maximum.at(greatest, group_index, values)
        for group, group_counts, low, high in zip(
            present.tolist(), counts, least.tolist(), greatest.tolist(), strict=True
        ):
            self._counts[group] = (
                self._counts[group] + group_counts if group in self._counts else group_counts.copy()
            )
            self._least[group] = min(self._least.get(group, low), low)
            self._greatest[group] = max(self._greatest.get(group, high), high)

    def count(self, group: int) -> int:
        """Returns the number of values in a group."""
        return int(self._counts[group].sum()) if group in self._counts else 0

    def summary(self, group: int, shares: tuple[float, ...] = (0.5, 0.95, 0.99)) -> tuple[int, ...]:
        """Returns least value, percentiles (exact to a hundredth) and greatest value. Raises
        KeyError for a group without values.
        """
        counts, least, greatest = self._counts[group], self._least[group], self._greatest[group]
        upto = np.cumsum(counts)
        ranks = [max(1, int(np.ceil(share * upto[-1]))) for share in shares]
        exact = {int(upto[-1]): greatest, 1: least}  # others are known to a hundredth
        percentiles = [
            exact.get(number)
            or min(max(middle_of(int(np.searchsorted(upto, number))), least), greatest)
            for number in ranks
        ]
        return least, *percentiles, greatest

    def octaves(self, group: int) -> IntArray:
        """Returns the number of values of a group by the power of two at or below them: 64 counts.
        0 counts as 1.

        Raises KeyError as ``summary``.
        """
        return np.bincount(_octaves(), weights=self._counts[group], minlength=64).astype(np.int64)
