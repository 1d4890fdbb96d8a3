"""``--exec``: starts a program for findings, at most once in a time, and never waits for it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, cast

from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

TIMEOUT_S = 60.0
"""Seconds after which a program is killed."""
END_S = 10.0
"""Seconds that a program may still run at the end."""
MOST = 8
"""Greatest number of programs that run at once."""
OUTPUT_BYTES = 64 << 10
"""Number of bytes of a program's output that are passed on."""
OUTPUT_S = 0.2
"""Seconds to wait for the last of a program's output: what it started may keep it open longer."""


class _Output(threading.Thread):
    """Passes the beginning of a program's output on to standard error, where it does not mix with
    findings, and counts the rest.
    """

    def __init__(self, output: BinaryIO) -> None:
        super().__init__(daemon=True)
        self._output = output
        self.beyond = 0
        """Number of bytes that were left out so far."""
        self.start()

    def run(self) -> None:
        bytes_left = OUTPUT_BYTES
        with self._output as output:
            while data := os.read(output.fileno(), 1 << 20):
                with suppress(OSError):  # nobody reads it
                    os.write(2, data[:bytes_left])
                self.beyond += len(data[bytes_left:])
                bytes_left -= min(bytes_left, len(data))


@dataclass(frozen=True, slots=True)
class _Program:
    process: subprocess.Popen[bytes]
    output: _Output
    end: float
    """Monotonic time at which it is killed."""


class Notifier:
    """Starts a program with a finding as one line of JSON on its standard input.

    A finding that comes too soon after the one before waits. Once it is time, the program gets the
    worst of the waiting findings, and ``left_out`` says how many others there were.
    """

    def __init__(self, command: str, every_s: float, *, tell: Callable[[str], None]) -> None:
        """Splits ``command`` as a shell does. Raises UsageError for one that cannot be started."""
        from dcpinspect.temporary import at_end  # deferred: NumPy, which --help does not need

        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--exec {escape(command)}: {str(error).lower()}") from error
        if not self._command:
            raise UsageError("--exec: is empty; name a program")
        if shutil.which(self._command[0]) is None:
            raise UsageError(
                f"--exec: there is no program {escape(self._command[0])}; name one, with its "
                "folder if it is not in PATH"
            )
        self._every_s = every_s
        self._tell = tell
        self._running: list[_Program] = []
        self._due = 0.0
        self._waiting: tuple[int, Mapping[str, Any]] | None = None
        self._left_out = 0
        self.started = 0
        """Number of programs that were started."""
        self._has_failed = False
        at_end(self._kill_all)

    def notify(self, record: Mapping[str, Any], badness: int) -> None:
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
        for program in list(self._running):
            if program.process.poll() is not None:
                self._say_how_it_ended(program)
                self._reap(program)
            elif now >= program.end:
                _kill(program.process)
                self._reap(program)
                self._tell(
                    f"--exec: {escape(self._command[0])} took longer than {TIMEOUT_S:.0f} s "
                    "and was killed"
                )
        if self._waiting is not None and now >= self._due and len(self._running) < MOST:
            self._start(self._waiting[1])
            self._due = now + self._every_s

    def close(self) -> None:
        """Hands over a finding that still waits, and ends the running programs."""
        if self._waiting is not None:
            self._start(self._waiting[1])
        end = time.monotonic() + END_S
        for program in list(self._running):
            try:
                program.process.wait(max(0.0, end - time.monotonic()))
                self._say_how_it_ended(program)
            except subprocess.TimeoutExpired:
                _kill(program.process)
                self._tell(
                    f"--exec: {escape(self._command[0])} still ran at the end and was killed"
                )
            self._reap(program)

    def _start(self, record: Mapping[str, Any]) -> None:
        # deferred: --help does not need it
        from dcpinspect.output.export.json_table import plain_json

        line = plain_json({**record, "left_out": self._left_out}) + b"\n"
        self._waiting, self._left_out = None, 0
        try:
            # a pipe would be full if the program does not read it
            with tempfile.TemporaryFile() as text:
                text.write(line)
                text.seek(0)
                # In a session of its own, the program does not get Ctrl-C.
                process = subprocess.Popen(  # noqa: S603 - as the user asked
                    self._command,
                    stdin=text,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._tell(f"--exec: {escape(self._command[0])}: {error.strerror}")
            return
        self.started += 1
        assert process.stdout is not None, "it is a pipe"
        output = _Output(cast("BinaryIO", process.stdout))
        self._running.append(_Program(process, output, time.monotonic() + TIMEOUT_S))

    def _kill_all(self) -> None:
        for program in self._running:
            _kill(program.process)

    def _reap(self, program: _Program) -> None:
        self._running.remove(program)
        program.process.wait()
        program.output.join(OUTPUT_S)
        if program.output.beyond:
            self._tell(
                f"--exec: {escape(self._command[0])} wrote {program.output.beyond:,} more bytes, "
                "which are left out"
            )

    def _say_how_it_ended(self, program: _Program) -> None:
        status = program.process.returncode
        if status and not self._has_failed:
            self._has_failed = True
            how = f"with status {status}" if status > 0 else f"by {_name_of(-status)}"
            self._tell(f"--exec: {escape(self._command[0])} ended {how}; this is said once")


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the program, and all processes that it started and that are in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
