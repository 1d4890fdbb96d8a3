"""Ends the program at a signal: at any moment, within a second, with one line that says what was
written, and nothing stays behind.

The handler raises no exception: libraries take one for something else, or crash in their start. It
removes what is temporary, ends the processes that were started, and then this one. Two things it
leaves to be completed: a piece on its way to standard output, and the input, where a first signal
only ends that (``stopping``).

Whoever takes a signal's number out of a pipe answers it. That is the main thread, or, while a
library computes there and lets no Python run, a thread that waits for the pipe.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import time
from contextlib import contextmanager, nullcontext, suppress

TYPE_CHECKING = (
    False  # as in the package: until this is loaded, Python answers Ctrl-C with a traceback
)
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType
    from typing import NoReturn, Protocol, TypeVar

    T = TypeVar("T")

    class Stoppable(Protocol):
        """An input that may be ended."""

        @property
        def can_stop(self) -> bool:
            """Whether it has no end of its own, so a first signal ends it and not the program."""

        def stop(self) -> None:
            """Ends it, as if it ended there; any thread may call this."""


SLOW_S = 0.5
"""Seconds that the main thread has to answer a signal."""
STUCK_S = 1.0
"""Seconds that standard output may take for one piece once the program is to end."""
LONGEST_S = 4.0
"""Seconds after which the program ends with something left, as on a disk that does not answer."""
_LOOK_S = 0.1
_ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Signals that ask a program to end."""


class _State:
    """What a signal meets."""

    numbers, wake = -1, -1
    """The ends of the pipe that has the numbers of signals."""
    stop: Callable[[], object] | None = None
    """Ends the input."""
    within_s: float | None = None
    """Seconds within which the program ends then, whatever is left; None: it takes its time."""
    stopped_by = 0
    """Number of the signal that ended the input; 0: none did."""
    ends_by = 0
    """Number of the signal that ends the program; 0: none does."""
    last = 0.0
    """Monotonic time of the last signal that was answered."""
    writing_since: float | None = None
    """Monotonic time since which a piece is on its way to standard output; None: there is none."""
    result = "nothing was written"
    """What standard output has."""
    last_line: Callable[[], str] | None = None
    """Makes the line of the end, where a command knows better what there is."""
    status: int | None = None
    """Exit status after a signal, if it is not the usual one."""
    main_thread = 0
    """The identifier of the thread that answers signals."""
    is_ending = False
    """Whether that thread is ending the program."""


_state = _State()
_end_once = _thread.allocate_lock()


def install() -> None:
    """Lets signals end the program from now on. One that is ignored stays so: a shell protects
    programs in the background from Ctrl-C, and ``nohup`` protects them from SIGHUP.
    """
    _state.numbers, _state.wake = os.pipe()
    _state.main_thread = _thread.get_ident()
    for end in (_state.numbers, _state.wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(_state.wake, warn_on_full_buffer=False)
    for number in _ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _on_signal)
    # for the thread, which has it from its first moment
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    _thread.start_new_thread(_watch, ())
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def ignore() -> None:
    """Lets signals have no effect any more: everything is done, and the program ends by itself."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stopping(stop: Callable[[], object], within_s: float | None = None) -> Iterator[None]:
    """Lets the first signal call ``stop``, which ends the input; what is made of it is completed. A
    second Ctrl-C ends the program.

    The first signal also does if standard output takes nothing for ``STUCK_S``, or if the program
    goes on for longer than ``within_s`` seconds. ``stop``: may be called in any thread, and more
    than once.
    """
    before = _state.stop, _state.within_s
    _state.stop, _state.within_s = stop, within_s
    try:
        yield
    finally:
        (_state.stop, _state.within_s), _state.stopped_by = before, 0


def status_of(usual: int) -> int:
    """Returns the exit status of what a signal has just stopped for good; ``usual``: of what ended
    by itself.
    """
    return 128 + _state.stopped_by if _state.stopped_by else usual


def ending(capture: Stoppable) -> AbstractContextManager[None]:
    """Lets the first signal end a capture that comes from a pipe, and the program for a file."""

    def stop() -> None:
        _write_stderr(
            "interrupted: what was read until now makes the result; Ctrl-C again ends at once"
        )
        capture.stop()

    return stopping(stop) if capture.can_stop else nullcontext()


def batches(capture: Stoppable, iterable: Iterable[T]) -> Iterator[T]:
    """Yields what is read of a capture, whose end a first signal may be, as in ``ending``."""
    with ending(capture):
        yield from iterable


@contextmanager
def telling(last_line: Callable[[], str], status: int | None = None) -> Iterator[None]:
    """Lets the line of the end be what ``last_line`` returns, and the exit status this one."""
    before = _state.last_line, _state.status
    _state.last_line, _state.status = last_line, status
    try:
        yield
    finally:
        _state.last_line, _state.status = before


class _Writing:
    """Surrounds the writing of a piece to standard output, which the program's end waits for."""

    def __enter__(self) -> None:
        _state.writing_since = time.monotonic()
        if _state.ends_by:
            _end(_state.ends_by)

    def __exit__(self, *_: object) -> None:
        _state.writing_since = None
        if _state.ends_by:
            _end(_state.ends_by)


writing = _Writing()


def printed(*, is_whole: bool) -> None:
    """Notes that a part of the result, or all of it, is on standard output."""
    _state.result = (
        "all of the result was printed" if is_whole else "what was printed is not complete"
    )


def _on_signal(_: int, __: FrameType | None) -> None:
    if _state.is_ending:
        return  # another signal, in the middle of the end: to wait here would stop it
    if _end_once.locked():
        _wait_for_the_end()
    for number in _taken():
        _answer(number, flushes=True)


def _taken() -> list[int]:
    """Takes the numbers of signals that nobody has answered."""
    try:
        return sorted(set(_ENDING).intersection(os.read(_state.numbers, 1 << 10)))
    except BlockingIOError:
        return []


def _answer(number: int, *, flushes: bool = False) -> None:
    _state.last = time.monotonic()
    if _state.stop is not None and (not _state.stopped_by or number != signal.SIGINT):
        _state.stopped_by = number
        _wake_thread()
        _state.stop()
        return
    _state.ends_by = number
    _wake_thread()
    if _state.writing_since is not None:
        return
    if flushes:
        _state.writing_since = _state.last
        with suppress(Exception):  # nobody reads it, or it was being written
            sys.stdout.flush()
    _end(number)


def _wake_thread() -> None:
    """Lets the thread see that it has to look whether the program comes to its end."""
    with suppress(BlockingIOError):
        os.write(_state.wake, b"\0")


def _watch() -> None:
    """Answers, as a thread, signals that the main thread does not answer, and ends a program whose
    last piece nobody takes.
    """
    while True:
        is_asked = _state.ends_by or _state.stopped_by
        if select.select([_state.numbers], [], [], _LOOK_S if is_asked else None)[0]:
            time.sleep(SLOW_S)
            for number in _taken():
                _answer(number)
        now = time.monotonic()
        since = _state.writing_since
        number = _state.ends_by or _state.stopped_by
        if _end_once.locked():
            if now - _state.last > LONGEST_S:
                os._exit(128 + number)
        elif number and (
            (since is not None and now - max(since, _state.last) > STUCK_S)
            or (_state.within_s is not None and now - _state.last > _state.within_s)
        ):
            _end(number)


def _wait_for_the_end() -> NoReturn:
    while True:
        time.sleep(LONGEST_S)


def _end(number: int) -> NoReturn:
    """Ends the program; only the first who calls this does it."""
    _state.ends_by = number
    _state.is_ending |= _thread.get_ident() == _state.main_thread
    if not _end_once.acquire(blocking=False):
        _wait_for_the_end()
    try:
        # what is not loaded yet has made nothing
        outcomes: list[str] = getattr(sys.modules.get("dcpinspect.temporary"), "end_all", list)()
        _write_stderr(
            _state.last_line()
            if _state.last_line is not None
            else f"interrupted; {', '.join(outcomes) or _state.result}"
        )
    finally:
        os._exit(128 + number if _state.status is None else _state.status)


def _write_stderr(line: str) -> None:
    """Writes a line to standard error, past what the main thread may be writing there."""
    folded = getattr(
        sys.modules.get("dcpinspect.cli.terminal"), "complaint", "dcpinspect: {}\n".format
    )
    with suppress(OSError, AttributeError):  # AttributeError: it was closed before the start
        clears = (
            "\r\x1b[2K\x1b[?25h" if "rich.progress" in sys.modules and sys.stderr.isatty() else ""
        )  # a bar may be there
        os.write(sys.stderr.fileno(), (clears + folded(line)).encode(errors="replace"))
