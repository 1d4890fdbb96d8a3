"""A file or pipe that another program is still writing, read as if its end were a pause."""

from __future__ import annotations

import os
import select
import time
from io import RawIOBase

from dcpinspect.capture.clock import EVERY_S

_LOOK_S = 0.02
"""Seconds between two looks at a file for more. Nothing portable tells of growth sooner."""


class GrowingFileReader:
    """The read half of a file or pipe; ``readinto`` returns None if nothing has come for a while.

    It ends when it is stopped, or a pipe is closed. A file also ends if it becomes shorter, or is
    no longer the file of its name; ``problem`` then says so.
    """

    def __init__(self, path: str, file: RawIOBase, *, is_pipe: bool) -> None:
        self.problem: str | None = None
        self.stopped = False
        self._path = path
        self._file = file
        self._is_pipe = is_pipe

    def has_more(self) -> bool:
        """Returns whether there are bytes now."""
        if self._is_pipe:
            return bool(select.select([self._file.fileno()], [], [], 0)[0])
        return os.fstat(self._file.fileno()).st_size > self._file.tell()

    def readinto(self, target: memoryview, /) -> int | None:
        """Fills ``target`` from its start; returns 0 at the end, None if nothing has come."""
        if self._is_pipe:
            if self.stopped:
                return 0
            if select.select([self._file.fileno()], [], [], EVERY_S)[0]:
                return self._file.readinto(target)
            return None
        end = time.monotonic() + EVERY_S
        while not self.stopped:
            # asked first, so that nothing written before is missed
            was_replaced = self._was_replaced()
            got = self._file.readinto(target)
            if got:
                return got
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                self.problem = "the file became shorter while it was followed"
                return 0
            if was_replaced:
                self.problem = (
                    "the file was moved or deleted, or another file has its name now; "
                    "start to follow again"
                )
                return 0
            if time.monotonic() >= end:
                return None
            time.sleep(_LOOK_S)
        return 0

    def _was_replaced(self) -> bool:
        try:
            now = os.stat(self._path)
        except OSError:
            return True
        opened_file = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (opened_file.st_dev, opened_file.st_ino)

    def close(self) -> None:
        """Frees the file."""
        self._file.close()
