"""Memory that grows with what is met: tables, a row each; and what becomes of it in the end."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[Any]


def grown(table: Table, rows: int, value: int = 0) -> Table:
    """``table`` with ``rows`` rows, or twice what it had; the new ones hold ``value``. Zeros take memory once they are used."""
    more = max(rows, 2 * len(table))
    shape = (more, *table.shape[1:])
    new = np.zeros(shape, table.dtype) if value == 0 else np.full(shape, value, table.dtype)
    new[: len(table)] = table
    return new


def only(table: Table, rows: npt.NDArray[np.int64]) -> Table:
    """``table`` with nothing but these rows; the others are zero, and take no memory until they are used."""
    new = np.zeros(table.shape, table.dtype)
    new[rows] = table[rows]
    return new


def give_back() -> None:
    """Gives what reading has freed back to the system: a third of all memory at ten million messages. Only glibc has a call for it."""
    import ctypes  # deferred: once, at the end

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
