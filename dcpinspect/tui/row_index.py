"""Which rows a list shows: all rows of the store, or those that a filter let through."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray

Rows = npt.NDArray[np.uint32 | np.uint64]


class RowIndex:
    """Rows in rising order, by their place in the list. Rows are added at the end and removed at
    the beginning; the others never change. A copy stays as it is, for another thread.
    """

    def __init__(self, *, is_filtered: bool = False) -> None:
        """Makes an empty index. Without a filter it is a range and takes no memory."""
        self.is_filtered = is_filtered
        self._first, self._last = 1, 0  # the range of an index without a filter
        self._rows: Rows = np.empty(0, np.uint32)
        self.scanned = 0
        """Last row that the filter has checked."""

    def __len__(self) -> int:
        return len(self._rows) if self.is_filtered else max(0, self._last - self._first + 1)

    def grow(self, first: int, last: int) -> None:
        """Sets the rows to ``first`` to ``last``. Only for an index without a filter."""
        self._first, self._last = first, last
        self.scanned = last

    def append(self, rows: Rows, scanned: int) -> None:
        """Adds ``rows``, which the filter let through among the rows up to ``scanned``."""
        self._rows = np.concatenate((self._rows, rows))
        self.scanned = scanned

    def drop(self, first: int) -> None:
        """Removes the rows before ``first``, which the store dropped."""
        if self.is_filtered:
            self._rows = self._rows[int(np.searchsorted(self._rows, first)) :]
        else:
            self._first = max(self._first, first)

    def rows(self, start: int, stop: int) -> IntArray:
        """Returns the rows from place ``start`` to before place ``stop``."""
        if self.is_filtered:
            return self._rows[start:stop].astype(np.int64)
        return np.arange(
            self._first + start, min(self._first + stop, self._last + 1), dtype=np.int64
        )

    def row(self, place: int) -> int:
        """Returns the row at a place. Raises IndexError."""
        if not 0 <= place < len(self):
            msg = f"place {place} of {len(self)}"
            raise IndexError(msg)
        return int(self._rows[place]) if self.is_filtered else self._first + place

    def place_of(self, row: int) -> int:
        """Returns the first place whose row is not below ``row``."""
        if self.is_filtered:
            return int(np.searchsorted(self._rows, row))
        return min(max(row - self._first, 0), len(self))

    def have(self, rows: IntArray) -> BoolArray:
        """Returns, for each of ``rows``, whether the list shows it."""
        if not self.is_filtered:
            return (rows >= self._first) & (rows <= self._last)
        if not len(self._rows):
            return np.zeros(len(rows), np.bool_)
        positions = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        return np.asarray(self._rows[positions] == rows)

    def has(self, row: int) -> bool:
        """Whether the list shows a row."""
        position = self.place_of(row)
        return position < len(self) and self.row(position) == row
