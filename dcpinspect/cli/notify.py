"""``--exec``: starts a program for findings, at most once in a certain time, and never waits for it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from dcpinspect.errors import UsageError
from dcpinspect.escape import escape

TIMEOUT_S = 60.0
"""Seconds after which a program is killed."""
END_S = 10.0
"""Seconds that a program may still run at the end."""
MOST = 8
"""Greatest number of programs that run at once."""


class Notifier:
    """Starts a program with a finding as one line of JSON on its standard input.

    A finding that comes too soon after the one before waits. Once it is time, the program gets the worst of the waiting findings, and
    ``left_out`` says how many others there were.
    """

    def __init__(self, command: str, every_s: float, *, tell: Callable[[str], None]) -> None:
        """Splits ``command`` as a shell does. Raises UsageError for a command that cannot be started."""
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--exec {escape(command)}: {str(error).lower()}") from error
        if not self._command:
            raise UsageError("--exec: is empty; name a program")
        if shutil.which(self._command[0]) is None:
            raise UsageError(f"--exec: there is no program {escape(self._command[0])}; name one, with its folder if it is not in PATH")
        self._every_s = every_s
        self._tell = tell
        self._running: list[tuple[subprocess.Popen[bytes], float]] = []
        self._due = 0.0
        self._waiting: tuple[int, Mapping[str, Any]] | None = None
        self._left_out = 0
        self.started = 0
        """Number of programs that were started."""
        self._has_failed = False

    def put(self, record: Mapping[str, Any], badness: int) -> None:
        """Hands over a finding, now or when it is time. ``badness``: 0 is worst."""
        if self._waiting is None:
            self._waiting = badness, record
        else:
            self._left_out += 1
            if badness < self._waiting[0]:
                self._waiting = badness, record
        self.pass_time()

    def pass_time(self) -> None:
        """Checks the running programs, and starts one if a finding waits and it is time."""
        now = time.monotonic()
        for one in list(self._running):
            process, end = one
            if process.poll() is not None:
                self._reap(one)
            elif now >= end:
                _kill(process)
                self._reap(one)
                self._tell(f"--exec: {escape(self._command[0])} took longer than {TIMEOUT_S:.0f} s and was killed")
        if self._waiting is not None and now >= self._due and len(self._running) < MOST:
            self._start(self._waiting[1])
            self._due = now + self._every_s

    def close(self) -> None:
        """Hands over a finding that still waits, and ends the running programs."""
        if self._waiting is not None:
            self._start(self._waiting[1])
        end = time.monotonic() + END_S
        for one in list(self._running):
            process = one[0]
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill(process)
                self._tell(f"--exec: {escape(self._command[0])} still ran at the end and was killed")
            self._reap(one)

    def _start(self, record: Mapping[str, Any]) -> None:
        from dcpinspect.export.json_table import plain_json  # deferred: --help does not need it

        line = plain_json({**record, "left_out": self._left_out}) + b"\n"
        self._waiting, self._left_out = None, 0
        try:
            with tempfile.TemporaryFile() as text:  # a pipe would be full if the program does not read it
                text.write(line)
                text.seek(0)
                # The program's output must not mix with findings. In a session of its own, the program does not get Ctrl-C.
                process = subprocess.Popen(self._command, stdin=text, stdout=2, start_new_session=True)  # noqa: S603 - as the user asked
        except OSError as error:
            self._tell(f"--exec: {escape(self._command[0])}: {error.strerror}")
            return
        self.started += 1
        self._running.append((process, time.monotonic() + TIMEOUT_S))

    def _reap(self, one: tuple[subprocess.Popen[bytes], float]) -> None:
        self._running.remove(one)
        status = one[0].wait()
        if status > 0 and not self._has_failed:
            self._has_failed = True
            self._tell(f"--exec: {escape(self._command[0])} ended with status {status}; this is said once")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the program, and all processes that it started and that are still in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
