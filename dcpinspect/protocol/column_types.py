"""Columns of messages: arrays of numbers with a mark for "no value here"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import Array, BoolArray, ByteArray
from dcpinspect.lazy_dataclass import dataclass

RowNumbers = npt.NDArray[np.int64]
NO_ROWS: RowNumbers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers."""

    values: Array
    valid: BoolArray | None = None
    """False where the column has no value; None: it has a value everywhere."""

    @property
    def is_known(self) -> BoolArray:
        """True where the column has a value."""
        return np.ones(len(self.values), dtype=np.bool_) if self.valid is None else self.valid

    def value_at(self, row: int) -> int | None:
        """Returns the value of one row, or None."""
        return None if self.valid is not None and not self.valid[row] else int(self.values[row])

    def take(self, rows: RowNumbers) -> NumberColumn:
        """Returns the column of some of the rows."""
        return NumberColumn(self.values[rows], None if self.valid is None else self.valid[rows])


@dataclass(frozen=True, slots=True)
class Slices:
    """A column of byte strings, as places in a buffer: [start, start + size); size -1 for none."""

    start: RowNumbers
    size: RowNumbers

    def take(self, rows: RowNumbers) -> Slices:
        """Returns the column of some of the rows."""
        return Slices(self.start[rows], self.size[rows])


def numbers_at(data: ByteArray, offsets: RowNumbers, size: int) -> Array:
    """Returns the unsigned big-endian numbers of ``size`` bytes at these places, as uint64; the
    places must be inside ``data``.

    One gather for each number takes 5 ns; cutting them out of a matrix of headers takes 40.
    """
    if not len(offsets):
        return np.zeros(0, dtype=np.uint64)
    window: Array = np.ndarray((len(data) - size + 1,), f">u{size}", data, 0, (1,))
    return window[offsets].astype(np.uint64)


@dataclass(frozen=True, slots=True)
class HoleRanges:
    """Ranges [start, end) of a buffer that the capture lacks, in order."""

    start: RowNumbers
    end: RowNumbers

    @classmethod
    def from_ranges(cls, start: RowNumbers, end: RowNumbers) -> Self:
        """Returns holes from ranges in any order; no two have a byte in common."""
        order = np.argsort(start, kind="stable")
        return cls(start[order], end[order])

    def hit(self, at: RowNumbers, size: RowNumbers | int) -> BoolArray:
        """Returns which of the ranges of ``size`` bytes at these places lack a byte."""
        if not len(self.start):
            return np.zeros(len(at), dtype=np.bool_)
        hole_index = np.searchsorted(self.start, at + size, side="left") - 1
        return np.asarray(
            (hole_index >= 0) & (self.end[np.maximum(hole_index, 0)] > at), dtype=np.bool_
        )


NO_HOLES = HoleRanges(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class LazyColumns(Mapping[str, NumberColumn]):
    """Number columns by name, each made when it is first asked for."""

    def __init__(self, names: Mapping[str, Callable[[], NumberColumn]]) -> None:
        self._makers = names
        self._made: dict[str, NumberColumn] = {}

    def __getitem__(self, name: str) -> NumberColumn:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
