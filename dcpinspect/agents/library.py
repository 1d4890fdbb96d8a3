"""The captures that may be asked about: those below some directories. What was read is kept for the
next question.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread

from dcpinspect.api import Recording
from dcpinspect.capture.folders import captures_in, with_folders
from dcpinspect.errors import UsageError
from dcpinspect.text import escape

MOST_KEPT = 8
"""Number of readings that are kept. Each has 80 bytes a message in a folder for temporary files."""
_WAIT_S = 0.1
Identity = tuple[tuple[str, int, int, int, int, int], ...]
"""Of each file: its name, and what changes once it is another file or has other bytes."""


class Question:
    """A question that a thread answers while others see how far it is, and may cancel it."""

    def __init__(self) -> None:
        self.share = 0.0
        """How much of the captures was read, 0 to 1."""
        self.is_cancelled = False
        self.on_cancel: Callable[[], object] | None = None
        """Ends what the thread waits for; it is called again and again until there is none, since
        it may come before there is a wait.
        """

    def cancel(self) -> None:
        """Lets the thread end soon; any thread may call this."""
        self.is_cancelled = True
        if self.on_cancel is not None:
            Thread(target=self._insist, daemon=True).start()

    def _insist(self) -> None:
        while (end := self.on_cancel) is not None:
            end()
            time.sleep(_WAIT_S)

    def check(self) -> None:
        """Raises InterruptedError if nobody waits for the answer any more."""
        if self.is_cancelled:
            raise InterruptedError

    def goes_on(self, share: float) -> bool:
        """Notes how much was read. Returns whether the question still waits for its answer."""
        self.share = share
        return not self.is_cancelled


@dataclass(slots=True)
class _Kept:
    recording: Recording
    lock: Lock = field(default_factory=Lock)  # a recording is for one thread at a time
    asked_by: int = 0
    """Number of questions that use it, or wait for it."""


class Library:
    """Captures below some directories."""

    def __init__(
        self, directories: Sequence[str], open_recording: Callable[[Sequence[str]], Recording]
    ) -> None:
        """Raises UsageError for what is no directory."""
        for name in directories:
            if not os.path.isdir(name):
                raise UsageError(
                    f"{escape(name)}: is no directory; name those whose captures may be read"
                )
        self._roots = [os.path.realpath(name) for name in directories]
        self._opened = open_recording
        self._kept: dict[Identity, _Kept] = {}  # the one that was asked about last stands last
        self._lock = Lock()

    def captures(self) -> list[tuple[str, int]]:
        """Returns all captures, by the name that a question may use, and their sizes in bytes."""
        is_clear = len(self._roots) == 1
        return [
            (os.path.relpath(path, root) if is_clear else path, os.stat(path).st_size)
            for root in self._roots
            for path in captures_in(root)
            if self._is_inside(path) and os.path.isfile(path)
        ]

    @contextmanager
    def reading(self, names: Sequence[str], question: Question) -> Iterator[Recording]:
        """Yields a reading of captures that came to its end. Raises UsageError, InterruptedError,
        and the errors of reading.
        """
        paths = [path for name in names for path in self._paths(name)]
        if not paths:
            raise UsageError("name a capture; info without captures lists all")
        entry = self._reading_of(paths)
        try:
            while not entry.lock.acquire(timeout=_WAIT_S):
                question.check()
            try:
                entry.recording.gather(question.goes_on)
                yield entry.recording
            finally:
                entry.lock.release()
        finally:
            with self._lock:
                entry.asked_by -= 1

    def close(self) -> None:
        """Forgets what was read."""
        with self._lock:
            self._forget(0)

    def _reading_of(self, paths: Sequence[str]) -> _Kept:
        """Returns the reading of these files as they are now."""
        abouts = [(path, os.stat(path)) for path in paths]
        key = tuple(
            (path, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            for path, info in abouts
        )
        with self._lock:
            self._kept[key] = entry = self._kept.pop(key, None) or _Kept(self._opened(paths))
            entry.asked_by += 1
            self._forget(MOST_KEPT)
            return entry

    def _forget(self, limit: int) -> None:
        """Closes those that were not asked about for longest, until ``limit`` are kept; one that is
        in use stays.
        """
        for key, entry in list(self._kept.items()):
            if len(self._kept) > limit and not entry.asked_by:
                entry.recording.close()
                del self._kept[key]

    def _paths(self, name: str) -> list[str]:
        """Returns the files that a question's name means, links resolved. Raises UsageError."""
        escaped = escape(name)
        if "\0" in name:
            raise UsageError(f"{escaped}: is no name of a file")
        paths = [os.path.realpath(os.path.join(root, name)) for root in self._roots]
        inside = [path for path in paths if self._is_inside(path)]
        if not inside:
            raise UsageError(
                f"{escaped}: is not below the directories that are served; info without "
                "captures lists what is"
            )
        path = next(filter(os.path.exists, inside), None)
        if path is None:
            raise UsageError(
                f"{escaped}: there is no such capture; info without captures lists all"
            )
        files = [
            file for file in with_folders([path]) if self._is_inside(file) and os.path.isfile(file)
        ]
        if not files:
            raise UsageError(f"{escaped}: is no file; pipes and devices are not read here")
        return files

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(os.path.commonpath([root, real]) == root for root in self._roots)
