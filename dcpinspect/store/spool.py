"""The folder that a store keeps its tables in: readable by its owner alone, and removed with the session, however that ends.

A process that is killed leaves its folder behind; the next process removes it. A lock on the folder shows whether its process is alive,
because the system releases the lock with the process; a process number in a file would not show that.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import weakref
from pathlib import Path
from typing import Any

from dcpinspect.errors import SpoolError
from dcpinspect.temporary import own_large_files, remember, remove

PREFIX = "dcpinspect-spool-"


class Spool:
    """A new folder in ``parent`` (by default the folder for large temporary files, which ``TMPDIR`` names). ``close`` removes it."""

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        place = Path(parent) if parent is not None else _parent()
        remove_abandoned(place)
        try:
            self.folder, lock = _locked_folder(place)
        except OSError as error:
            raise SpoolError(place, error) from error
        self._finalizer = weakref.finalize(self, _remove, self.folder, lock, os.getpid())

    def path(self, name: str) -> Path:
        """Returns the path of the file of this name."""
        return self.folder / name

    def put(self, name: str, batch: Any) -> Any:
        """Writes a record batch as an uncompressed Arrow file; returns it mapped into memory. Raises SpoolError.

        Nothing else writes to the file or shortens it, so reading the mapped batch cannot fail.
        """
        import pyarrow as pa

        path = self.path(name)
        try:
            with path.open("wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise SpoolError(self.folder, error) from error
        return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)

    def remove(self, name: str) -> None:
        """Deletes a file; a batch that is mapped from it stays readable."""
        self.path(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Removes the folder and everything in it."""
        self._finalizer()


def _parent() -> Path:
    try:
        return Path(own_large_files())
    except OSError as error:
        raise SpoolError(Path(os.environ.get("TMPDIR", "/tmp")), error) from error  # noqa: S108 - only named


def _locked_folder(parent: Path) -> tuple[Path, int]:
    while True:
        folder = parent / f"{PREFIX}{secrets.token_hex(8)}"
        remember(folder)  # before it exists: a signal may come at any time
        os.mkdir(folder, 0o700)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process took the folder for abandoned and removed it at once
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process has just taken the folder for abandoned
            os.close(lock)
            continue
        if os.fstat(lock).st_nlink:
            return folder, lock
        os.close(lock)


def _remove(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # because a forked child shares everything, yet must not remove its parent's folder
        remove(folder)
    os.close(lock)


def remove_abandoned(parent: Path) -> int:
    """Removes the folders that killed processes of this user left behind in ``parent``; returns how many."""
    removed = 0
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed += not folder.exists()
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return removed
