"""Temporary files: where they belong, tables that are in one, and their removal when the program is
asked to end, with its processes.
"""

from __future__ import annotations

import atexit
import fcntl
import mmap
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dcpinspect.errors import SpoolError
from dcpinspect.ownership import check_around
from dcpinspect.text import escape

LARGE = 8 << 20
"""Size in bytes from which on a file for a table is worth it."""
_ON_DISK = "/var/tmp"  # noqa: S108 - who uses it makes a folder of its own there
PREFIX = "dcpinspect-spool-"
_PART = ".dcpinspect-"
_TRIES = 5
_locks: dict[str, int] = {}
"""Descriptors of this process's folders, by name; their locks show that it is alive."""
_kept: dict[str, int] = {}
"""Files and folders that exist for now, and the process that made each: a forked child must leave
them to that process.
"""
_outputs: dict[str, str] = {}
"""Names that files get once they are complete, by the names that they have until then."""
_written: list[str] = []
"""Outputs that are complete."""
_ends: dict[Callable[[], object], int] = {}
"""What ends processes that were started, and the process that started each."""


def large_files() -> str:
    """Returns the folder for files that may be large: ``TMPDIR``, else one on a disk rather than in
    memory. Raises OSError if there is none.
    """
    if folder := os.environ.get("TMPDIR"):
        return folder
    try:
        return _ON_DISK if os.access(_ON_DISK, os.W_OK) else tempfile.gettempdir()
    except FileNotFoundError:
        raise OSError(None, "cannot be written to") from None


def own_large_files() -> str:
    """Returns the folder for large files that have a name. Raises OSError also if another user
    could put something in their place.
    """
    folder = large_files()
    check_around(Path(folder).absolute())
    return folder


def new_folder(parent: str | os.PathLike[str] | None = None) -> str:
    """Makes a new folder, by default in the folder for large files, which only this user may read.
    Raises SpoolError.

    A process that is killed leaves its folder behind, and the next one removes it. A lock on the
    folder shows whether its process is alive, because the system releases the lock with the
    process; a process number in a file would not show that.
    """
    with _spool_errors():
        parent_path = os.fspath(own_large_files() if parent is None else parent)
    remove_abandoned(Path(parent_path))
    try:
        return _locked_folder(parent_path)
    except OSError as error:
        raise SpoolError(Path(parent_path), error) from error


def _locked_folder(parent: str) -> str:
    while True:
        folder = os.path.join(parent, f"{PREFIX}{secrets.token_hex(8)}")
        remember(folder)  # before it exists: a signal may come at any time
        os.mkdir(folder, 0o700)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (
            FileNotFoundError
        ):  # another process took the folder for abandoned and removed it at once
            forget(folder)
            continue
        if _is_kept(lock):
            _locks[folder] = lock
            return folder
        os.close(lock)
        forget(folder)


def new_part(parent: str, mode: int) -> tuple[str, int]:
    """Makes a file there that gets its name once it is complete; returns its path and a descriptor,
    and removes what killed processes left. Raises OSError.
    """
    remove_abandoned(Path(parent), f"{_PART}*.part", stat.S_ISREG)
    while True:
        path = os.path.join(parent, f"{_PART}{secrets.token_hex(8)}.part")
        remember(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except OSError:
            forget(path)
            raise
        if _is_kept(descriptor):
            return path, descriptor
        os.close(descriptor)
        forget(path)


def _is_kept(descriptor: int) -> bool:
    """Locks a new file or folder, which shows others that its process is alive. Returns False if
    another process removes it just now.
    """
    return lock(descriptor) and os.fstat(descriptor).st_nlink > 0


def lock(descriptor: int) -> bool:
    """Locks a file or folder until the descriptor is closed. Returns False if somebody else has
    locked it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        pass
    return True


def remove_abandoned(
    parent: Path, pattern: str = f"{PREFIX}*", is_kind: Callable[[int], bool] = stat.S_ISDIR
) -> int:
    """Removes the folders, or files, that killed processes of this user left behind in ``parent``;
    returns how many.
    """
    removed = 0
    for path in parent.glob(pattern):
        try:
            about = path.lstat()
            if not is_kind(about.st_mode) or about.st_uid != os.getuid():
                continue
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISDIR(about.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
            removed += not path.exists()
        os.close(lock)
    return removed


def remove(path: str | os.PathLike[str]) -> None:
    """Removes a folder that this process made. In a forked child, which shares everything, it only
    lets go of it.
    """
    if _kept.get(os.fspath(path)) == os.getpid():
        shutil.rmtree(path, ignore_errors=True)
    if (lock := _locks.pop(os.fspath(path), None)) is not None:
        os.close(lock)
    forget(path)


@contextmanager
def named_file(suffix: str) -> Iterator[IO[bytes]]:
    """Gives a new file with a name there, which only this user may read; it is removed at the end.
    Raises SpoolError.
    """
    with _spool_errors():
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
def _spool_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpoolError(
            Path(error.filename or os.environ.get("TMPDIR") or _ON_DISK), error
        ) from error


def remember(path: str | os.PathLike[str], output: str | None = None) -> None:
    """Lets ``remove_all`` remove this file or folder, until it is forgotten. ``output``: the name
    that it gets once it is complete.
    """
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
    """Lets ``end_all`` call this, which ends a started process that nothing else ends soon."""
    _ends[end] = os.getpid()


def not_at_end(end: Callable[[], object]) -> None:
    """Forgets what ends a process that is over."""
    _ends.pop(end, None)


def end_all() -> list[str]:
    """Ends processes, and removes what is temporary: this process ends now. Returns clauses that
    say what became of its outputs.
    """
    for end in [end for end, owner in reversed(_ends.items()) if owner == os.getpid()]:
        with suppress(Exception):
            end()
    has_its_name = [path for path in _outputs if not os.path.lexists(path)]
    for path in has_its_name:
        forget(path, is_written=True)
    missing = list(_outputs.values())
    remove_all()
    clauses = ((_written, "written"), (missing, "not written"))
    return [
        f"{' and '.join(map(escape, names))} {'was' if len(names) == 1 else 'were'} {outcome}"
        for names, outcome in clauses
        if names
    ]


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


def zeros(rows: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Returns a table of zeros. A large one is a file without a name, so that the system may move
    unused parts out of memory.
    """
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
