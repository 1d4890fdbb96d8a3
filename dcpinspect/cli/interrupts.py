"""Delays Ctrl-C: it takes effect only outside of imports, and between two writes, so that what was written stays complete.

A handler that raises at any place would also do so inside NumPy, which takes an exception in a look-up for "there is none" and goes on. It
would also hit extension modules that crash when their start is interrupted.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

STUCK_S = 2.0
"""Seconds that standard output may take for one write once the program is to end."""
AGAIN = 0.01
"""Seconds after which an interrupt during an import is tried again."""
_IMPORTS = "<frozen importlib._bootstrap>"
"""File name of the import system's own functions."""
_HAS_TIMER = sys.platform != "win32"
_ENDING = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if sys.platform != "win32" else ()))
"""Signals that ask a program to end."""


@contextmanager
def outside_imports() -> Iterator[None]:
    """Surrounds the whole run of the program: Ctrl-C lets imports end, and silently ends a process that is shutting down.

    Other signals that end the program leave no temporary files.
    """
    with _clean_ends():
        yield from _outside_imports()


@contextmanager
def _clean_ends() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP remove temporary files before they end the process, unless these signals were ignored."""
    ours = [number for number in _ENDING if number != signal.SIGINT and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: FrameType | None) -> None:
    _remove_what_is_temporary()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _remove_what_is_temporary() -> None:
    # if this module is not loaded yet, there is nothing to remove
    remove_all = getattr(sys.modules.get("dcpinspect.temporary"), "remove_all", None)
    if remove_all is not None:
        remove_all()


def _outside_imports() -> Iterator[None]:
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # a program that was started in the background ignores the signal
        yield
        return
    signal.signal(signal.SIGINT, _raise_outside_imports)
    if _HAS_TIMER:
        signal.signal(signal.SIGALRM, _try_again)
    try:
        yield
        _raise_delayed()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if _HAS_TIMER:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)


class _Delayed:
    """Whether Ctrl-C was pressed during an import, and has had no effect yet."""

    is_due = False


_delayed = _Delayed()


def _raise_outside_imports(number: int, frame: FrameType | None) -> None:
    if _HAS_TIMER and _is_importing(frame):
        _delayed.is_due = True
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    else:
        _delayed.is_due = False
        signal.default_int_handler(number, frame)


def _take_delayed() -> bool:
    """Returns whether Ctrl-C was pressed during an import, and the timer has only met imports since; the timer ends."""
    was_due, _delayed.is_due = _delayed.is_due, False
    if was_due:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return was_due


def _raise_delayed() -> None:
    """Raises KeyboardInterrupt if it was delayed. Called before other handlers are set."""
    if _take_delayed():
        raise KeyboardInterrupt


def _try_again(_: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTS:
        frame = frame.f_back
    return frame is not None


class _Interrupts:
    """Whether Ctrl-C was pressed, and whether the program only waits now."""

    def __init__(self) -> None:
        self.asked = False
        self.waiting = False

    def note(self, number: int, frame: FrameType | None) -> None:
        is_first, self.asked = not self.asked, True
        if not is_first or (self.waiting and not _is_importing(frame)):
            signal.default_int_handler(number, frame)


_interrupts = _Interrupts()


@contextmanager
def alike() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP interrupt as Ctrl-C does, where they would end the program."""
    ours = [number for number in _ENDING if number != signal.SIGINT and signal.getsignal(number) in (signal.SIG_DFL, _end)]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    before = {number: signal.signal(number, _raise_outside_imports) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Delays Ctrl-C until ``check``; a second Ctrl-C ends a program that is stuck. Changes nothing in other threads than the main one."""
    before = signal.getsignal(signal.SIGINT)
    is_ours = before in (signal.default_int_handler, _raise_outside_imports)
    if threading.current_thread() is not threading.main_thread() or not is_ours:
        yield
        return
    _interrupts.asked = _take_delayed()
    signal.signal(signal.SIGINT, _interrupts.note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _interrupts.asked = False


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Lets the first Ctrl-C, SIGTERM or SIGHUP call ``stop``: a live input then ends in the normal way. The second one ends a program that
    is stuck.

    The first one also does so if standard output takes nothing for ``STUCK_S``.

    A signal that was ignored when the program started stays ignored. So a shell protects programs in the background from Ctrl-C, and
    ``nohup`` protects them from SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _raise_delayed()
    was_asked = is_stuck = False
    ended = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal was_asked
        if is_stuck or (was_asked and number == signal.SIGINT):
            signal.default_int_handler(number, frame)
        if not was_asked:
            was_asked = True
            threading.Thread(target=give_up, args=(number,), daemon=True).start()
        stop()

    def give_up(number: int) -> None:
        nonlocal is_stuck
        asked = time.monotonic()
        while not ended.wait(0.1):
            since = _writing.since
            if since is not None and time.monotonic() - max(since, asked) > STUCK_S:
                is_stuck = True
                os.kill(os.getpid(), number)
                return

    before = {number: handler for number in _ENDING if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


class _Writing:
    """Time since which the program waits for standard output; None while it does not wait."""

    since: float | None = None


_writing = _Writing()


@contextmanager
def writing() -> Iterator[None]:
    """Marks that standard output is being written, which may take as long as its reader likes."""
    _writing.since = time.monotonic()
    try:
        yield
    finally:
        _writing.since = None


def check() -> None:
    """Raises KeyboardInterrupt if Ctrl-C was pressed. Called where all output is complete."""
    if _interrupts.asked:
        raise KeyboardInterrupt


def settled() -> bool:
    """Returns whether Ctrl-C was pressed. The caller then writes the results so far, which only another Ctrl-C interrupts."""
    asked, _interrupts.asked = _interrupts.asked, False
    return asked


def between(batches: Iterable[T]) -> Iterator[T]:
    """Yields the batches; Ctrl-C ends the wait for the next one at once."""
    source = iter(batches)
    while True:
        check()
        _interrupts.waiting = True
        try:
            batch = next(source, None)
        finally:
            _interrupts.waiting = False
        check()
        if batch is None:
            return
        yield batch


def until_asked(batches: Iterable[T]) -> Iterator[T]:
    """Yields the batches as ``between`` does, but Ctrl-C only ends them; ``settled`` tells whether it did."""
    try:
        yield from between(batches)
    except KeyboardInterrupt:
        _interrupts.asked = True


class _Watch:
    """Answers Ctrl-C in a thread of its own, because a library that computes lets no Python code run in the main thread."""

    def __init__(self, stop: Callable[[], bool], end: Callable[[], None], is_waiting: Callable[[], bool]) -> None:
        self._stop = stop
        self._end = end
        self._is_waiting = is_waiting
        self._is_stopping = False
        self._is_ending = False
        self._is_raised = False

    def run(self, signals: int) -> None:
        """Reads the numbers of signals from a pipe until it is closed.

        It interrupts the main thread again and again, until the main thread has raised the exception: a signal just before a waiting call
        does not end the wait.
        """
        while True:
            was_asked = self._is_stopping or self._is_ending
            if not select.select([signals], [], [], AGAIN if was_asked and not self._is_raised else None)[0]:
                main = threading.main_thread().ident
                if main is not None and self._is_told():
                    signal.pthread_kill(main, signal.SIGALRM)
                continue
            number = os.read(signals, 1)
            if not number:
                return
            if number[0] == signal.SIGINT:
                self._answer()
            elif signal.getsignal(number[0]) is _end:
                time.sleep(AGAIN)  # meanwhile the main thread does the same, unless a library computes
                _remove_what_is_temporary()
                os._exit(128 + number[0])  # only the main thread could end by the signal itself

    def _answer(self) -> None:
        if not self._is_stopping and self._stop():
            self._is_stopping = True
        else:
            self._is_ending = True
            self._end()

    def _is_told(self) -> bool:
        """Whether the main thread is to raise KeyboardInterrupt, and has not done so."""
        return not self._is_raised and (self._is_ending or (self._is_stopping and self._is_waiting()))

    def note(self, _: int, frame: FrameType | None) -> None:
        if self._is_told():
            try:
                _raise_outside_imports(signal.SIGINT, frame)
            except KeyboardInterrupt:
                self._is_raised = True
                raise


@contextmanager
def answered(stop: Callable[[], bool], end: Callable[[], None], is_waiting: Callable[[], bool]) -> Iterator[None]:
    """Lets the first Ctrl-C call ``stop``. A second one calls ``end`` and raises KeyboardInterrupt; the first one does so if ``stop``
    fails.

    While Python code ``is_waiting`` for input, KeyboardInterrupt ends the wait after ``stop``. Changes nothing in other threads than the
    main one. Inside this context, nothing is ``deferred``.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before not in (signal.default_int_handler, _raise_outside_imports):
        yield
        return
    _raise_delayed()
    watch = _Watch(stop, end, is_waiting)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=watch.run, args=(reader,), daemon=True)
    thread.start()
    fd_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    alarm_before = signal.signal(signal.SIGALRM, watch.note)
    signal.signal(signal.SIGINT, watch.note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(fd_before)
        os.close(writer)
        thread.join()
        os.close(reader)
        signal.signal(signal.SIGALRM, alarm_before)
