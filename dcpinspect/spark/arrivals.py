"""Watches for captures: those that are complete, and those that are being written for a long time.

A file is identified by its size and the time of its last change. Both can be checked quickly, even
for a hundred thousand files. The run that reads a file finds out whether its bytes are new.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence

from dcpinspect.capture.folders import captures_in
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark.files import local_path
from dcpinspect.text import escape

ArrivalState = tuple[int, int]
"""Size in bytes, and time of the last change in nanoseconds."""


@dataclass(slots=True)
class _WatchedFile:
    """A file that is checked again and again."""

    state: ArrivalState
    since: float
    """When the file was first seen in this state, in seconds of the monotonic clock."""
    read: ArrivalState | None = None
    read_at: float = float("-inf")


class Arrivals:
    """Looks in directories, patterns and files for captures to read."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        without: str,
        settle_s: float,
        growing_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """Starts to watch. ``names``: what they name can be empty at first. ``without``: a
        directory to leave out. ``tell``: gets a line for each name that is no file, once.

        A file is read when it has not changed for ``settle_s`` seconds. A file that changes all the
        time is read every ``growing_s`` seconds.

        Raises UsageError for a name that neither exists nor is a pattern: the user would wait for a
        mistyped name for ever.
        """
        names = [local_path(name, "captures are watched") for name in names]
        for name in names:
            if not (os.path.lexists(name) or glob.has_magic(name)):
                raise UsageError(
                    f"{escape(name) or 'an empty name'}: is missing; name directories that "
                    "captures will come to, or patterns"
                )
        self._names = names
        self._without = os.path.realpath(without)
        self._settle_s = settle_s
        self._growing_s = growing_s
        self._seen: dict[str, _WatchedFile] = {}
        self._tell = tell
        self._left_out: set[str] = set()

    def ready(self, now: float | None = None) -> list[str]:
        """Returns the real paths of the captures that are to be read now. ``now``: the monotonic
        clock, in seconds.
        """
        now = time.monotonic() if now is None else now
        seen_files: dict[str, _WatchedFile] = {}
        for path in self._paths():
            real = os.path.realpath(path)
            try:
                about = os.stat(real)
            except OSError:  # the file may be gone in the meantime
                if os.path.islink(path):
                    self._leave_out(path, "a link to a file that is not there")
                continue
            if not stat.S_ISREG(about.st_mode):
                if not stat.S_ISDIR(about.st_mode):
                    self._leave_out(path, "a pipe, socket or device")
                continue
            if real in seen_files:
                continue
            state = (about.st_size, about.st_mtime_ns)
            seen = self._seen.get(real)
            if seen is None:
                rested = max(0.0, time.time() - about.st_mtime_ns / 1e9)
                seen = _WatchedFile(state, now - rested)
            elif seen.state != state:
                seen.state, seen.since = state, now
            seen_files[real] = seen
        self._seen = seen_files
        return [path for path, seen in seen_files.items() if self._is_ready(seen, now)]

    def _leave_out(self, path: str, what: str) -> None:
        if path not in self._left_out:
            self._left_out.add(path)
            self._tell(f"{escape(path)}: left out, for it is {what}")

    def _is_ready(self, seen: _WatchedFile, now: float) -> bool:
        if seen.state[0] == 0 or seen.state == seen.read:
            return False
        if seen.read is None and seen.read_at == float("-inf"):
            seen.read_at = now  # the file grows from this moment on
        return now - seen.since >= self._settle_s or now - seen.read_at >= self._growing_s

    def note(self, paths: Sequence[str], now: float | None = None) -> None:
        """Remembers that these captures were read in the state in which they were ready."""
        for path in paths:
            seen = self._seen[path]
            seen.read, seen.read_at = seen.state, time.monotonic() if now is None else now

    def _paths(self) -> Iterator[str]:
        for name in self._names:
            if os.path.isdir(name):
                yield from captures_in(name, self._without)
            elif os.path.lexists(name):
                yield name
            else:
                yield from sorted(glob.iglob(name, recursive=True))
