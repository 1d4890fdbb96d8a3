from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

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


def run(code: str, folder: Path) -> tuple[int, str, str]:
    """Exit status and output of code, which may import ``slow``: a module that Ctrl-C meets while it loads."""
    (folder / "slow.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.05)\nprint('loaded')\n")
    command = [sys.executable, "-c", f"from dcpinspect.cli import interrupts\n{code}"]
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{Path(__file__).parents[2]}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    return done.returncode, done.stdout, done.stderr.strip().rpartition("\n")[2]


def test_an_import_ends_before_ctrl_c_takes_effect(tmp_path: Path) -> None:
    code = "import time\nwith interrupts.outside_imports():\n    import slow\n    time.sleep(60)"
    status, printed, said = run(code, tmp_path)
    assert (status != 0, printed, said) == (True, "loaded\n", "KeyboardInterrupt")


def test_what_met_an_import_waits_for_the_check_like_any_other(tmp_path: Path) -> None:
    code = "import time\ninterrupts.AGAIN = 0.2\n"
    code += "with interrupts.outside_imports():\n    import slow\n    with interrupts.deferred():\n        time.sleep(0.5)\n"
    code += "        print('written')\n        interrupts.check()\n        print('more')"
    status, printed, said = run(code, tmp_path)
    assert (status != 0, printed, said) == (True, "loaded\nwritten\n", "KeyboardInterrupt")


def test_an_import_while_waiting_for_a_batch_ends_first(tmp_path: Path) -> None:
    code = "def batches():\n    import slow\n    yield 1\n"
    code += "with interrupts.outside_imports(), interrupts.deferred():\n    print(list(interrupts.between(batches())))"
    status, printed, said = run(code, tmp_path)
    assert (status != 0, printed, said) == (True, "loaded\n", "KeyboardInterrupt")


def test_a_program_that_is_done_ends_like_any_other_on_ctrl_c(tmp_path: Path) -> None:
    code = "import os, signal\nwith interrupts.outside_imports():\n    pass\nos.kill(os.getpid(), signal.SIGINT)"
    assert run(code, tmp_path) == (-signal.SIGINT, "", "")


class Work:
    """Something that computes where Python cannot interrupt it, so that only another thread can."""

    def __init__(self, *, can_stop: bool) -> None:
        self.can_stop = can_stop
        self.stopped, self.ended = threading.Event(), threading.Event()

    def stop(self) -> bool:
        if self.can_stop:
            self.stopped.set()
        return self.can_stop

    def is_interrupted(self, action: Callable[[], object], *, waits: bool = False) -> bool:
        try:
            with interrupts.answered(self.stop, self.ended.set, lambda: waits):
                action()
        except KeyboardInterrupt:
            return True
        return False


def test_the_first_ctrl_c_stops_and_nothing_is_raised() -> None:
    work = Work(can_stop=True)

    def run() -> None:
        press()
        assert work.stopped.wait(60)

    assert not work.is_interrupted(run)
    assert not work.ended.is_set()


def test_the_second_one_ends() -> None:
    work = Work(can_stop=True)

    def run() -> None:
        press()
        assert work.stopped.wait(60)
        press()
        threading.Event().wait(60)

    assert work.is_interrupted(run)
    assert work.ended.is_set()


def test_what_cannot_stop_ends_with_the_first() -> None:
    work = Work(can_stop=False)

    def run() -> None:
        press()
        threading.Event().wait(60)

    assert work.is_interrupted(run)
    assert work.ended.is_set()


def test_waiting_for_input_ends_when_it_is_stopped() -> None:
    work = Work(can_stop=True)
    reader, writer = os.pipe()

    def run() -> None:
        press()
        os.read(reader, 1)

    assert work.is_interrupted(run, waits=True)
    assert work.stopped.is_set()
    os.close(reader)
    os.close(writer)


def test_answers_leave_the_handlers_as_they_were() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM), threading.active_count()
    assert not Work(can_stop=True).is_interrupted(lambda: None)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM), threading.active_count()) == before


def test_another_thread_is_left_alone() -> None:
    work, results = Work(can_stop=True), []
    thread = threading.Thread(target=lambda: results.append(work.is_interrupted(lambda: None)))
    thread.start()
    thread.join()
    assert results == [False]


def test_the_first_ctrl_c_stops_what_is_live_and_the_second_ends_it() -> None:
    asked = []
    with interrupts.stopping(lambda: asked.append("stop")):
        press()
        assert asked == ["stop"]
        with pytest.raises(KeyboardInterrupt):
            press()
    assert asked == ["stop"]


def test_what_is_terminated_stops_as_often_as_it_is_asked() -> None:
    asked = []
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with interrupts.stopping(lambda: asked.append("stop")):
        for times in (1, 2):
            os.kill(os.getpid(), signal.SIGTERM)
            deadline = time.monotonic() + 60
            while len(asked) < times and time.monotonic() < deadline:
                time.sleep(0.001)  # another thread may get the signal, and two that wait for the first handler are one
    assert asked == ["stop", "stop"]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_while_something_may_be_stopped_writing_is_not_interrupted() -> None:
    asked = []
    with interrupts.stopping(lambda: asked.append("stop")), interrupts.deferred():
        press()
        interrupts.check()
    assert asked == ["stop"]


def test_the_program_ends_quietly_from_its_first_statement_on() -> None:
    code = "import gc, os, signal\nfrom dcpinspect import __main__\n"
    code += "gc.set_threshold = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n__main__.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_program_in_the_background_goes_on() -> None:
    code = "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom dcpinspect import __main__\nimport gc\n"
    code += "gc.set_threshold = lambda *_: os.kill(os.getpid(), signal.SIGINT)\nimport sys\nsys.argv[1:] = ['--version']\n__main__.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, b"dcpinspect", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_that_is_terminated_while_it_loads_ends_without_a_word(number: signal.Signals) -> None:
    code = "import os, sys, types\nfrom dcpinspect.cli import interrupts\n"
    code += "sys.modules['dcpinspect.temporary'] = types.ModuleType('dcpinspect.temporary')  # as while it loads\n"
    code += f"with interrupts.outside_imports():\n    os.kill(os.getpid(), {number:d})\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-number, b"", b"")
