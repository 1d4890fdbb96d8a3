"""Tables that grow with what is met: columns of numbers, a row each."""

from __future__ import annotations

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
