"""Where temporary files belong, and tables that are in one rather than in memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

LARGE = 8 << 20
"""Bytes of a table from which on a file is worth it."""

_ON_DISK = "/var/tmp"  # noqa: S108 - who uses it makes a folder of its own there


def large_files() -> str:
    """The folder for those that may be large: ``TMPDIR``, else one on a disk rather than in memory. Raises OSError where there is none."""
    return os.environ.get("TMPDIR") or (_ON_DISK if os.access(_ON_DISK, os.W_OK) else tempfile.gettempdir())


def room(rows: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A table of zeros. Where it is large, it is a file without a name: the system may put aside what nobody works on."""
    kind = np.dtype(dtype)
    size = rows * kind.itemsize
    if size < LARGE:
        return np.zeros(rows, kind)
    with tempfile.TemporaryFile(dir=large_files()) as file:
        file.truncate(size)
        return np.frombuffer(mmap.mmap(file.fileno(), size), kind)


def mapped(file: IO[bytes]) -> memoryview:
    """What is in a file, which may be closed then; what is changed in it stays in memory."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
