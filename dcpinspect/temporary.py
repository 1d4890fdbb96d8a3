"""Temporary files: where they belong, tables that are in one, and their removal when the program is asked to end, with its processes."""

from __future__ import annotations

import atexit
import mmap
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dcpinspect.errors import SpoolError
from dcpinspect.escape import escape
from dcpinspect.ownership import check_around

LARGE = 8 << 20
"""Size in bytes from which on a file for a table is worth it."""
_ON_DISK = "/var/tmp"  # noqa: S108 - who uses it makes a folder of its own there
_TRIES = 5
_kept: dict[str, int] = {}
"""Files and folders that exist for now, and the process that made each: a forked child must leave them to that process."""
_outputs: dict[str, str] = {}
"""Names that files get once they are complete, by the names that they have until then."""
_written: list[str] = []
"""Outputs that are complete."""
_ends: dict[Callable[[], object], int] = {}
"""What ends processes that were started, and the process that started each."""


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
        remember(folder)  # before it exists: a signal may come at any time
        os.mkdir(folder, 0o700)
    return folder


def remove(path: str | os.PathLike[str]) -> None:
    """Removes a folder that was remembered."""
    shutil.rmtree(path, ignore_errors=True)
    forget(path)


@contextmanager
def named_file(suffix: str) -> Iterator[IO[bytes]]:
    """Gives a new file with a name there, which only this user may read; it is removed at the end. Raises SpoolError."""
    with _told():
        path = os.path.join(own_large_files(), f"dcpinspect-{secrets.token_hex(8)}{suffix}")
        remember(path)
        file = open(path, "x+b", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115 - closed below
    try:
        with file:
            yield file
    finally:
        os.unlink(path)
        forget(path)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpoolError(Path(error.filename or os.environ.get("TMPDIR") or _ON_DISK), error) from error


def remember(path: str | os.PathLike[str], output: str | None = None) -> None:
    """Lets ``remove_all`` remove this file or folder, until it is forgotten. ``output``: the name that it gets once it is complete."""
    _kept[os.fspath(path)] = os.getpid()
    if output is not None:
        _outputs[os.fspath(path)] = output


def forget(path: str | os.PathLike[str], *, is_written: bool = False) -> None:
    """Forgets a file or folder that is gone, or has its name as an output by now."""
    name = os.fspath(path)
    _kept.pop(name, None)
    output = _outputs.pop(name, None)
    if is_written and output is not None:
        _written.append(output)


def at_end(end: Callable[[], object]) -> None:
    """Lets ``end_all`` call this, which ends a process that was started and that nothing else ends soon."""
    _ends[end] = os.getpid()


def not_at_end(end: Callable[[], object]) -> None:
    """Forgets what ends a process that is over."""
    _ends.pop(end, None)


def end_all() -> list[str]:
    """Ends processes, and removes what is temporary: this process ends now. Returns clauses that say what became of its outputs."""
    for end in [end for end, owner in reversed(_ends.items()) if owner == os.getpid()]:
        with suppress(Exception):
            end()
    has_its_name = [path for path in _outputs if not os.path.lexists(path)]
    for path in has_its_name:
        forget(path, is_written=True)
    missing = list(_outputs.values())
    remove_all()
    clauses = ((_written, "written"), (missing, "not written"))
    return [f"{' and '.join(map(escape, names))} {'was' if len(names) == 1 else 'were'} {what}" for names, what in clauses if names]


@atexit.register
def remove_all() -> None:
    """Removes what this process made and has not removed: it ends now, whatever ends it."""
    for path in [path for path, owner in _kept.items() if owner == os.getpid()]:
        for _ in range(_TRIES):  # another thread may just have made a file in it
            shutil.rmtree(path, ignore_errors=True)
            if not os.path.isdir(path):
                break
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
