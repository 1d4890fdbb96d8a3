"""When Ctrl-C takes effect: not while a module loads, and between two writes, never inside one, so that what was written stays whole.

A handler that raises where it strikes would also do so inside NumPy, which takes an exception in a look-up for "there is none" and
goes on as if nobody had asked for anything, and in extension modules that crash when their start is interrupted.
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
"""Seconds after which an interrupt that met an import is tried again."""
_IMPORTS = "<frozen importlib._bootstrap>"
"""File name that the import system's own functions have."""
_HAS_TIMER = sys.platform != "win32"
_ENDING = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if sys.platform != "win32" else ()))
"""Signals that ask a program to end."""


@contextmanager
def outside_imports() -> Iterator[None]:
    """For the whole run of the program: Ctrl-C lets imports end, and ends a process that is shutting down without a word.

    What asks it to end otherwise leaves nothing temporary behind.
    """
    with _clean_ends():
        yield from _outside_imports()


@contextmanager
def _clean_ends() -> Iterator[None]:
    """SIGTERM and SIGHUP remove what is temporary before they end the process as they would have; where they were not ignored."""
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
    remove_all = getattr(sys.modules.get("dcpinspect.temporary"), "remove_all", None)  # else, or while that loads, there is nothing
    if remove_all is not None:
        remove_all()


def _outside_imports() -> Iterator[None]:
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # started in the background: to be ignored
        yield
        return
    signal.signal(signal.SIGINT, _raise_outside_imports)
    if _HAS_TIMER:
        signal.signal(signal.SIGALRM, _try_again)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if _HAS_TIMER:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _raise_outside_imports(number: int, frame: FrameType | None) -> None:
    if _HAS_TIMER and _is_importing(frame):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    else:
        signal.default_int_handler(number, frame)


def _try_again(_: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTS:
        frame = frame.f_back
    return frame is not None


class _Interrupts:
    """Whether Ctrl-C was pressed, and whether nothing is half done just now."""

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
    """SIGTERM and SIGHUP interrupt as Ctrl-C does, where they would end the program."""
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
    """Ctrl-C waits for ``check``; a second one ends what is stuck. In other threads than the main one nothing changes."""
    before = signal.getsignal(signal.SIGINT)
    is_ours = before in (signal.default_int_handler, _raise_outside_imports)
    if threading.current_thread() is not threading.main_thread() or not is_ours:
        yield
        return
    _interrupts.asked = False
    signal.signal(signal.SIGINT, _interrupts.note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _interrupts.asked = False


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP calls ``stop``: what is live ends as if its input had. The second Ctrl-C ends what is stuck.

    So does the first one where standard output takes nothing for ``STUCK_S``.

    A signal that was ignored when the program started stays ignored: so a shell protects what it runs in the background from Ctrl-C, and
    ``nohup`` from SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
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
    """Since when one waits for standard output to take something."""

    since: float | None = None


_writing = _Writing()


@contextmanager
def writing() -> Iterator[None]:
    """Standard output is written to, which may take as long as its reader likes."""
    _writing.since = time.monotonic()
    try:
        yield
    finally:
        _writing.since = None


def check() -> None:
    """Raises KeyboardInterrupt when Ctrl-C was pressed; called where everything is whole."""
    if _interrupts.asked:
        raise KeyboardInterrupt


def settled() -> bool:
    """Whether Ctrl-C was pressed; it is answered by writing what there is, which only another one interrupts."""
    asked, _interrupts.asked = _interrupts.asked, False
    return asked


def between(batches: Iterable[T]) -> Iterator[T]:
    """The batches; Ctrl-C ends the wait for the next one at once."""
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


class _Watch:
    """Answers Ctrl-C from a thread of its own: a library that computes lets no Python code run in the main one."""

    def __init__(self, stop: Callable[[], bool], end: Callable[[], None], is_waiting: Callable[[], bool]) -> None:
        self._stop = stop
        self._end = end
        self._is_waiting = is_waiting
        self._is_stopping = False
        self._is_ending = False
        self._is_raised = False

    def run(self, signals: int) -> None:
        """Take the numbers of signals from a pipe until it is closed.

        The main thread is told of an answer until it has taken it: a signal that comes just before a call that waits does not end the wait.
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
                time.sleep(AGAIN)  # by then the main thread has done the same, unless a library computes
                _remove_what_is_temporary()
                os._exit(128 + number[0])  # only the main thread could end by the signal itself

    def _answer(self) -> None:
        if not self._is_stopping and self._stop():
            self._is_stopping = True
        else:
            self._is_ending = True
            self._end()

    def _is_told(self) -> bool:
        """Whether the main thread is to raise KeyboardInterrupt and has not."""
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
    """The first Ctrl-C calls ``stop``. A second one calls ``end`` and raises KeyboardInterrupt; so does the first where ``stop`` cannot.

    Where Python code ``is_waiting`` for input, KeyboardInterrupt ends the wait once ``stop`` was called. In other threads than the main
    one nothing changes. Inside, nothing is ``deferred``.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before not in (signal.default_int_handler, _raise_outside_imports):
        yield
        return
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
