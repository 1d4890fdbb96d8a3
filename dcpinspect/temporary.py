"""Temporary files: where they belong, tables that are in one, and their removal when the program is asked to end."""

from __future__ import annotations

import atexit
import mmap
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dcpinspect.errors import SpoolError
from dcpinspect.ownership import check_around

LARGE = 8 << 20
"""Size in bytes from which on a file for a table is worth it."""
_ON_DISK = "/var/tmp"  # noqa: S108 - who uses it makes a folder of its own there
_kept: dict[str, int] = {}
"""Files and folders that exist for now, and the process that made each: a forked child must leave them to that process."""


def large_files() -> str:
    """Returns the folder for files that may be large: ``TMPDIR``, else one on a disk rather than in memory. Raises OSError if there is
    none."""
    return os.environ.get("TMPDIR") or (_ON_DISK if os.access(_ON_DISK, os.W_OK) else tempfile.gettempdir())


def own_large_files() -> str:
    """Returns the folder for large files that have a name. Raises OSError also if another user could put something in their place."""
    folder = large_files()
    check_around(Path(folder).absolute())
    return folder


def new_folder() -> str:
    """Makes a new folder there, which only this user may read. Raises SpoolError."""
    with _told():
        folder = os.path.join(own_large_files(), f"dcpinspect-{secrets.token_hex(8)}")
        remember(folder)  # before it exists: Ctrl-C may come at any time
        os.mkdir(folder, 0o700)
    return folder


@contextmanager
def named_file(suffix: str) -> Iterator[IO[bytes]]:
    """Gives a new file with a name there, which only this user may read; it is removed at the end. Raises SpoolError."""
    with _told():
        file = tempfile.NamedTemporaryFile(prefix="dcpinspect-", suffix=suffix, dir=own_large_files())  # noqa: SIM115 - closed below
    remember(file.name)
    try:
        with file:
            yield file
    finally:
        forget(file.name)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpoolError(Path(error.filename or os.environ.get("TMPDIR") or _ON_DISK), error) from error


def remember(path: str | os.PathLike[str]) -> None:
    """Lets ``remove_all`` remove this file or folder, until it is forgotten."""
    _kept[os.fspath(path)] = os.getpid()


def forget(path: str | os.PathLike[str]) -> None:
    """Forgets a file or folder that has another name by now, or is gone."""
    _kept.pop(os.fspath(path), None)


@atexit.register
def remove_all() -> None:
    """Removes what this process made and has not removed: it ends now, whatever ends it."""
    for path in [path for path, owner in _kept.items() if owner == os.getpid()]:
        for _ in range(2):  # another thread may just have made a file in it
            shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path) and not os.path.isdir(path):
            os.unlink(path)
        forget(path)


def room(rows: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Returns a table of zeros. A large one is a file without a name, so that the system may move unused parts out of memory."""
    kind = np.dtype(dtype)
    size = rows * kind.itemsize
    if size < LARGE:
        return np.zeros(rows, kind)
    with tempfile.TemporaryFile(dir=large_files()) as file:
        file.truncate(size)
        return np.frombuffer(mmap.mmap(file.fileno(), size), kind)


def mapped(file: IO[bytes]) -> memoryview:
    """Returns what is in a file, which may be closed then; changes stay in memory."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
