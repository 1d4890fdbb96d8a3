"""Columns of messages: arrays of numbers with a mark for "no value here"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers."""

    values: Array
    valid: Mask | None = None
    """False where the column has no value; None: it has one everywhere."""

    def at(self, row: int) -> int | None:
        """The value of one row, or None."""
        return None if self.valid is not None and not self.valid[row] else int(self.values[row])

    def take(self, rows: Rows) -> Numbers:
        """The column of some of the rows."""
        return Numbers(self.values[rows], None if self.valid is None else self.valid[rows])


@dataclass(frozen=True, slots=True)
class Slices:
    """A column of byte strings, as places in a buffer: [start, start + size); size -1 where there is none."""

    start: Rows
    size: Rows

    def take(self, rows: Rows) -> Slices:
        """The column of some of the rows."""
        return Slices(self.start[rows], self.size[rows])


def big_endian(block: npt.NDArray[np.uint8], offset: int, size: int) -> Array:
    """Unsigned numbers that stand at one offset of each row of a byte matrix, as native uint64."""
    cells = np.ascontiguousarray(block[:, offset : offset + size])
    if size in (1, 2, 4, 8):
        return cells.view(f">u{size}").reshape(len(block)).astype(np.uint64)
    raise ValueError(f"no numbers of {size} bytes")


def gather(data: npt.NDArray[np.uint8], start: Rows, size: int) -> npt.NDArray[np.uint8]:
    """A matrix of the ``size`` bytes from each start; the caller knows that they are inside ``data``."""
    cells: npt.NDArray[np.uint8] = data[start[:, None] + np.arange(size, dtype=np.int64)]
    return cells


NumberColumns = Mapping[str, Numbers]
