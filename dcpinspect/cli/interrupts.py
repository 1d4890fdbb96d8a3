"""Ctrl-C between two writes, never inside one: what was written stays whole.

A handler that raises where it strikes would also do so inside NumPy, which takes an exception in a look-up for "there is none" and
goes on as if nobody had asked for anything.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class _Interrupts:
    """Whether Ctrl-C was pressed, and whether nothing is half done just now."""

    def __init__(self) -> None:
        self.asked = False
        self.waiting = False

    def note(self, number: int, frame: FrameType | None) -> None:
        is_first, self.asked = not self.asked, True
        if self.waiting or not is_first:
            signal.default_int_handler(number, frame)


_interrupts = _Interrupts()


@contextmanager
def deferred() -> Iterator[None]:
    """Ctrl-C waits for ``check``; a second one ends what is stuck. In other threads than the main one nothing changes."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _interrupts.asked = False
    signal.signal(signal.SIGINT, _interrupts.note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _interrupts.asked = False


def check() -> None:
    """Raises KeyboardInterrupt when Ctrl-C was pressed; called where everything is whole."""
    if _interrupts.asked:
        raise KeyboardInterrupt


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
