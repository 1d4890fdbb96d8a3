"""Real processes get real signals, at many moments."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pexpect
import psutil
import pytest

from dcpinspect.cli import interrupts

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "sample_captures"
TOUR = SAMPLES / "tour.pcapng"
SOON_S = 10.0
"""Seconds within which a program has to end, a second on a machine that has nothing else to do."""
NEEDS_PROC = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="watches the program through /proc"
)


def catches(process: subprocess.Popen[bytes], number: int) -> bool:
    """Whether the program has a handler for a signal by now."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def used_s(process: subprocess.Popen[bytes]) -> float:
    """Seconds of the processor that it has used: a moment that does not depend on how busy the
    machine is.
    """
    try:
        times = psutil.Process(process.pid).cpu_times()
    except psutil.Error:
        return 1e9
    return float(times.user + times.system)


COMMANDS = {
    "lines": ["read", "{capture}"],
    "objects": ["read", "{capture}", "-f", "json", "-o", "{out}/x.json", "-w", "{out}/x.pcapng"],
    "sorted": ["read", "{capture}", "--sort", "key", "-o", "{out}/x.ndjson"],
    "export": ["export", "{capture}", "-o", "{out}/x.parquet"],
    "check": ["check", "{capture}", "-f", "json", "-o", "{out}/x.json", "-w", "{out}/x.pcapng"],
    "report": ["report", "{capture}", "-o", "{out}/x.html"],
    "sql": [
        "sql",
        "{capture}",
        "select name, count(*) from messages group by all order by all",
        "-o",
        "{out}/x.csv",
    ],
    "diff": ["diff", "{capture}", "{capture}", "-o", "{out}/x.csv"],
}
MOMENTS_S = (0.0, 0.15, 0.3, 0.5, 0.8)
"""Seconds of the processor after which the signal comes."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.pcapng"
    path.write_bytes(gzip.decompress((SAMPLES / "large.pcapng.gz").read_bytes()))
    return path


@NEEDS_PROC
@pytest.mark.parametrize("name", COMMANDS)
def test_at_any_moment_a_signal_ends_it_with_a_line_and_nothing_stays(
    name: str, large: Path, tmp_path: Path
) -> None:
    running = []
    for place, _ in enumerate(MOMENTS_S):
        folders = {one: tmp_path / str(place) / one for one in ("out", "tmp")}
        for folder in folders.values():
            folder.mkdir(parents=True)
        arguments = [one.format(capture=large, **folders) for one in COMMANDS[name]]
        process = subprocess.Popen(
            [sys.executable, "-m", "dcpinspect", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folders["tmp"])},
        )
        running.append((MOMENTS_S[place], process, folders))
    asked: dict[int, tuple[float, int]] = {}
    while len(asked) < len(running):
        for place, (moment, process, _) in enumerate(running):
            number = signal.SIGTERM if place % 2 else signal.SIGINT
            if place not in asked and (
                process.poll() is not None
                or (catches(process, signal.SIGTERM) and used_s(process) >= moment)
            ):
                process.send_signal(number)
                asked[place] = time.monotonic(), number
        time.sleep(0.005)
    ended_early = 0
    for place, (_, process, folders) in enumerate(running):
        assert process.stderr is not None
        said = process.communicate(timeout=60)[1].decode()
        at, wanted = asked[place]
        assert time.monotonic() - at < SOON_S * len(running)
        assert not list(folders["tmp"].iterdir())
        if process.returncode != 128 + wanted:  # it was done before
            ended_early += 1
            assert process.returncode in (0, 1), said
            continue
        assert (said.count("\n"), said[:25]) == (1, "dcpinspect: interrupted; "), said
        left = list(folders["out"].iterdir())
        assert all(f"{path} was written" in said or f"{path} and" in said for path in left), (
            left,
            said,
        )
    assert ended_early < len(running) / 2


def ended(code: str, *, check: bool = True) -> tuple[int, str, str]:
    """Exit status and output of a program that has the handlers of the command line."""
    before = """
        import os, signal, sys, time
        from dcpinspect.cli import interrupts, terminal
        interrupts.install()
        press = lambda number=signal.SIGINT: os.kill(os.getpid(), number)
    """
    program = textwrap.dedent(before) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert not check or "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


NOTHING = "dcpinspect: interrupted; nothing was written\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_has_its_exit_status(number: int) -> None:
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:  # as under nohup, and programs that are started have it so
        signal.signal(number, signal.SIG_DFL)
    try:
        assert ended(f"press({number:d})\ntime.sleep(60)") == (128 + number, "", NOTHING)
    finally:
        signal.signal(number, before)


def test_no_code_sees_an_exception() -> None:
    code = """
        try:
            press()
            time.sleep(60)
        except BaseException:
            print("seen")
        finally:
            print("cleaned up")
    """
    assert ended(code) == (130, "", NOTHING)


def test_a_piece_for_standard_output_is_completed_first() -> None:
    code = """
        with interrupts.writing:
            press()
            print("whole")
        print("more")
    """
    assert ended(code) == (130, "whole\n", NOTHING)


def test_a_piece_that_nobody_takes_does_not_hold_up_the_end() -> None:
    assert ended("with interrupts.writing:\n    press()\n    time.sleep(60)") == (130, "", NOTHING)


def test_what_is_in_the_buffer_is_printed_and_said_to_be_a_part() -> None:
    said = "dcpinspect: interrupted; what was printed is not complete\n"
    assert ended("terminal.write_stdout('a line\\n')\npress()\ntime.sleep(60)") == (
        130,
        "a line\n",
        said,
    )


def test_a_library_that_lets_no_python_run_does_not_hold_up_the_end() -> None:
    code = """
        import threading, duckdb
        threading.Timer(0.2, press).start()
        duckdb.sql("select count(*) from range(100000000) a join range(100000000) b on hash(a.range) < hash(b.range)").fetchall()
    """
    assert ended(code) == (130, "", NOTHING)


def test_files_are_told_as_written_or_not_and_an_earlier_one_stays(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("before")
    code = f"""
        from dcpinspect.output.export.atomic import AtomicFile
        a, b, c = (AtomicFile({str(tmp_path)!r} + "/" + name) for name in "abc")
        for file in (a, b, c):
            file.write(b"new")
        a.commit()
        press()
        time.sleep(60)
    """
    said = (
        f"dcpinspect: interrupted; {tmp_path}/a was written, {tmp_path}/b and {tmp_path}/c were "
        "not written\n"
    )
    assert ended(code) == (130, "", said)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a": "new",
        "b": "before",
    }


def test_a_file_that_has_its_name_already_is_told_as_written(tmp_path: Path) -> None:
    code = f"""
        from dcpinspect.output.export.atomic import AtomicFile
        rename = os.replace
        os.replace = lambda *names: (rename(*names), press())
        AtomicFile({str(tmp_path / "a")!r}).commit()
    """
    assert ended(code) == (130, "", f"dcpinspect: interrupted; {tmp_path}/a was written\n")
    assert os.listdir(tmp_path) == ["a"]


def test_processes_that_were_started_end(tmp_path: Path) -> None:
    code = f"""
        import subprocess
        from dcpinspect.temporary import at_end
        process = subprocess.Popen(["sleep", "600"])
        open({str(tmp_path / "pid")!r}, "w").write(str(process.pid))
        at_end(lambda: (process.kill(), process.wait()))
        press()
        time.sleep(60)
    """
    assert ended(code) == (130, "", NOTHING)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_program_of_exec_ends(tmp_path: Path) -> None:
    code = f"""
        from dcpinspect.cli.notify import Notifier
        notifier = Notifier("sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600'", 0, tell=print)
        notifier.notify({{}}, 0)
        while not (os.path.exists({str(tmp_path / "pid")!r}) and os.path.getsize({str(tmp_path / "pid")!r})):
            time.sleep(0.01)
        press()
        time.sleep(60)
    """
    assert ended(code) == (130, "", NOTHING)
    with suppress(psutil.NoSuchProcess):
        assert psutil.Process(int((tmp_path / "pid").read_text())).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("captures", [[str(TOUR)], []], ids=["capture", "start"])
def test_a_signal_lets_the_terminal_ui_restore_the_terminal(
    number: int, captures: list[str]
) -> None:
    child = pexpect.spawn(
        sys.executable, ["-m", "dcpinspect", "tui", *captures], dimensions=(30, 100), timeout=60
    )
    child.expect_exact("\x1b[?1049h")
    child.expect_exact("tour" if captures else "open a capture")
    child.kill(number)
    child.expect_exact("\x1b[?1049l")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 128 + number


def test_the_end_itself_is_bounded() -> None:
    code = (
        "from dcpinspect.temporary import at_end\nat_end(lambda: "
        "time.sleep(60))\npress()\ntime.sleep(60)"
    )
    began = time.monotonic()
    assert ended(code) == (130, "", "")
    assert time.monotonic() - began < 60


def test_a_second_signal_in_the_middle_of_the_end_does_not_stop_it() -> None:
    code = """
        from dcpinspect.temporary import at_end
        at_end(lambda: (press(signal.SIGTERM), time.sleep(0.1), print("removed", flush=True)))
        press(signal.SIGTERM)
        time.sleep(60)
    """
    assert ended(code) == (143, "removed\n", NOTHING)


def test_the_first_signal_ends_the_input_and_the_second_ctrl_c_the_program() -> None:
    code = """
        with interrupts.stopping(lambda: print("stopped", flush=True)):
            press()
            press()
            time.sleep(60)
    """
    assert ended(code) == (130, "stopped\n", NOTHING)


def test_a_signal_that_comes_twice_at_once_is_one() -> None:
    code = """
        with interrupts.stopping(lambda: print("stopped", flush=True)):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            press()
            press()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            time.sleep(1)
    """
    assert ended(code) == (0, "stopped\n", "")


def test_what_is_terminated_stops_as_often_as_it_is_asked() -> None:
    """A shell passes a signal on that its processes have already, as when a terminal is closed."""
    code = """
        with interrupts.stopping(lambda: print("stopped", flush=True)):
            for _ in range(3):
                press(signal.SIGTERM)
                time.sleep(0.1)
    """
    assert ended(code) == (0, "stopped\n" * 3, "")


def test_output_that_nobody_takes_ends_what_was_stopped() -> None:
    code = """
        with interrupts.stopping(lambda: print("stopped", flush=True)), interrupts.writing:
            press()
            time.sleep(60)
    """
    assert ended(code) == (130, "stopped\n", NOTHING)


def test_a_command_may_say_what_there_is_and_the_status() -> None:
    code = (
        "with interrupts.telling(lambda: 'it is as it was', status=0):\n    press()\n    "
        "time.sleep(60)"
    )
    assert ended(code) == (0, "", "dcpinspect: it is as it was\n")


def test_what_is_ignored_from_the_start_stays_ignored() -> None:
    code = (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom dcpinspect.cli "
        "import interrupts\ninterrupts.install()\n"
    )
    code += "import os\nos.kill(os.getpid(), signal.SIGINT)\nprint('goes on')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "goes on\n"


def test_a_signal_after_everything_is_done_changes_nothing() -> None:
    assert ended("interrupts.ignore()\npress()\npress(signal.SIGTERM)\nprint('done')") == (
        0,
        "done\n",
        "",
    )


def test_a_program_that_uses_the_package_keeps_its_handlers() -> None:
    code = (
        f"import signal, dcpinspect\nwith dcpinspect.open({str(TOUR)!r}) as recording:\n    "
        "recording.table('findings')\n"
    )
    code += "handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]\n"
    code += (
        "print(handlers == [signal.default_int_handler, signal.SIG_DFL], signal.set_wakeup_fd(-1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "True -1\n"


def test_the_program_has_its_handlers_from_its_first_statement_on() -> None:
    code = "import gc, os, signal\nfrom dcpinspect import __main__\n"
    code += "gc.set_threshold = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n__main__.run()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", NOTHING.encode())


def test_ctrl_c_waits_for_the_handlers_while_what_has_them_is_loaded() -> None:
    code = (
        "import os, signal, sys\nclass Early:\n    def find_spec(self, name, path=None, "
        "target=None):\n"
    )
    code += (
        "        if name == 'dcpinspect.cli.interrupts':\n            os.kill(os.getpid(), "
        "signal.SIGINT)\n"
    )
    code += "sys.meta_path.insert(0, Early())\nfrom dcpinspect.__main__ import run\nrun()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", NOTHING.encode())


def test_a_program_in_the_background_goes_on() -> None:
    code = (
        "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom dcpinspect "
        "import __main__\nimport gc\n"
    )
    code += (
        "gc.set_threshold = lambda *_: os.kill(os.getpid(), signal.SIGINT)\nimport "
        "sys\nsys.argv[1:] = ['--version']\n__main__.run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, b"dcpinspect", b"")


def test_files_have_no_end_that_a_signal_could_bring_forward() -> None:
    class Packets:
        can_stop = False

        def stop(self) -> None:
            raise AssertionError

    with interrupts.ending(Packets()):
        assert interrupts._state.stop is None
    assert list(interrupts.batches(Packets(), [1, 2])) == [1, 2]
