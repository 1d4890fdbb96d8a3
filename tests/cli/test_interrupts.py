from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from dcpinspect.cli import interrupts


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def is_ended(action: Callable[[], object]) -> bool:
    """Whether Ctrl-C ends an action."""
    try:
        with interrupts.deferred():
            action()
    except KeyboardInterrupt:
        return True
    return False


def test_ctrl_c_waits_for_the_check() -> None:
    done = []

    def write() -> None:
        press()
        done.append("written")
        interrupts.check()
        done.append("more")

    assert is_ended(write)
    assert done == ["written"]


def test_a_second_one_ends_what_is_stuck() -> None:
    done = []

    def write() -> None:
        press()
        done.append("stuck")
        press()
        done.append("more")

    assert is_ended(write)
    assert done == ["stuck"]


def test_waiting_for_the_next_batch_ends_at_once() -> None:
    done = []

    def batches() -> Iterator[int]:
        yield 1
        press()
        done.append("waits on")
        yield 2

    assert is_ended(lambda: done.extend(map(str, interrupts.between(batches()))))
    assert "waits on" not in done


def test_an_interrupt_that_a_library_swallows_comes_after_it() -> None:
    done: list[int] = []

    def batches() -> Iterator[int]:
        try:
            press()
        except KeyboardInterrupt:
            yield 1

    assert is_ended(lambda: done.extend(interrupts.between(batches())))
    assert done == []


def test_all_batches_come_when_nobody_interrupts() -> None:
    with interrupts.deferred():
        assert list(interrupts.between([1, 2])) == [1, 2]


def test_afterwards_ctrl_c_is_what_it_was() -> None:
    with interrupts.deferred():
        pass
    with pytest.raises(KeyboardInterrupt):
        press()


def test_an_interrupt_is_no_matter_of_the_next_command() -> None:
    with interrupts.deferred():
        press()
    with interrupts.deferred():
        interrupts.check()


def test_other_threads_leave_signals_alone() -> None:
    found = []

    def run() -> None:
        with interrupts.deferred():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
