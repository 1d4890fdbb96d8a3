"""Memory that grows with what is met: tables with one row for each thing; and how memory is given
back in the end.
"""

from __future__ import annotations

import math
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""Of any kind: numbers, records."""

IntArray = npt.NDArray[np.int64]
"""Numbers as kernels have them: row numbers, positions, sizes, times in ns, codes."""

ByteArray = npt.NDArray[np.uint8]
"""Bytes of captures, or one small code for each row."""

BoolArray = npt.NDArray[np.bool_]
"""A mask: True for each row that is meant."""


def unique(values: npt.ArrayLike) -> Array:
    """Returns the different values, sorted, as ``np.unique`` does.

    That would import ``numpy.ma`` when it is first called, which takes a twentieth of the time that
    ``check`` needs for a small capture.
    """
    ordered = np.sort(np.asarray(values), axis=None)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def numbers_of(first: IntArray | int, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the numbers of ranges, one range after the other, and the index of the range of each:
    ``counts`` numbers from ``first`` on are in each range.
    """
    index = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(index)) + (first - np.cumsum(counts) + counts)[index], index


LARGE = 4 << 20
"""Size in bytes of a table, from which on memory that batches have freed is given back before the
table grows: else a flood takes 60 MiB more.

Such a table also has memory of its own: memory of the heap may have been used before, and would be
cleared, which touches all of it.
"""


def plain(table: Array) -> Array:
    """Returns the same rows as plain bytes: NumPy copies those at once, but copies records field by
    field, which takes ten times as long.
    """
    if table.dtype.names is None:
        return table
    return table.view(np.dtype((np.void, table.dtype.itemsize)))


def grown(table: Array, rows: int, value: int = 0) -> Array:
    """Returns ``table`` with ``rows`` rows, or twice as many as it had; new rows hold ``value``.
    Zeros take memory once they are used.
    """
    more = max(rows, 2 * len(table))
    shape = (more, *table.shape[1:])
    if table.nbytes >= LARGE:
        give_back()
    new = _zeros(shape, table.dtype) if value == 0 else np.full(shape, value, table.dtype)
    plain(new)[: len(table)] = plain(table)
    return new


def only(table: Array, rows: IntArray) -> Array:
    """Returns ``table`` with only these rows; others are zero, and take no memory until used."""
    new = _zeros(table.shape, table.dtype)
    plain(new)[rows] = plain(table)[rows]
    return new


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or sys.platform == "win32":
        return np.zeros(shape, dtype)
    # otherwise it would be shared with processes that are forked
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
    return np.frombuffer(memory, dtype).reshape(shape)


def give_back() -> None:
    """Gives memory that reading has freed back to the system: a third of all memory at ten million
    messages. Only glibc has a call for it.
    """
    import ctypes  # deferred: once, at the end

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
