"""Memory that grows with what is met: tables, a row each; and what becomes of it in the end."""

from __future__ import annotations

import math
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[Any]


LARGE = 4 << 20
"""Bytes of a table, from which on what batches have freed is given back before it grows: else a flood takes 60 MiB more. It also has
memory of its own then: that of the heap may have been used before, and is cleared, which takes all of it."""


def plain(table: Table) -> Table:
    """The same rows, each of them bytes and no more: NumPy copies those at once, and records field by field, ten times as long."""
    return table if table.dtype.names is None else table.view(np.dtype((np.void, table.dtype.itemsize)))


def grown(table: Table, rows: int, value: int = 0) -> Table:
    """``table`` with ``rows`` rows, or twice what it had; the new ones hold ``value``. Zeros take memory once they are used."""
    more = max(rows, 2 * len(table))
    shape = (more, *table.shape[1:])
    if table.nbytes >= LARGE:
        give_back()
    new = _zeros(shape, table.dtype) if value == 0 else np.full(shape, value, table.dtype)
    plain(new)[: len(table)] = plain(table)
    return new


def only(table: Table, rows: npt.NDArray[np.int64]) -> Table:
    """``table`` with nothing but these rows; the others are zero, and take no memory until they are used."""
    new = _zeros(table.shape, table.dtype)
    plain(new)[rows] = plain(table)[rows]
    return new


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Table:
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or sys.platform == "win32":
        return np.zeros(shape, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)  # else it would be shared with processes that are forked
    return np.frombuffer(memory, dtype).reshape(shape)


def give_back() -> None:
    """Gives what reading has freed back to the system: a third of all memory at ten million messages. Only glibc has a call for it."""
    import ctypes  # deferred: once, at the end

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
