"""Programs started for findings: real ones, which read, hang and fail."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.cli import notify
from dcpinspect.cli.notify import Notifier
from dcpinspect.errors import UsageError


def program(tmp_path: Path, text: str) -> str:
    """A Python program, as a command."""
    path = tmp_path / "program.py"
    path.write_text(text)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


def keeper(tmp_path: Path) -> str:
    """A program that keeps what it was given."""
    return program(
        tmp_path, f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read())"
    )


def got(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "got"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(what: Callable[[], bool], notifier: Notifier) -> None:
    end = time.monotonic() + 120
    while not what():
        assert time.monotonic() < end
        notifier.pass_time()
        time.sleep(0.01)


def test_a_program_gets_one_line_of_json(tmp_path: Path) -> None:
    notifier = Notifier(keeper(tmp_path), 10, tell=print)
    notifier.notify({"rule": "gap", "message": "a\nb" + "x" * 200_000}, 0)
    notifier.close()
    assert (tmp_path / "got").read_text().count("\n") == 1
    assert got(tmp_path) == [{"rule": "gap", "message": "a\nb" + "x" * 200_000, "left_out": 0}]
    assert notifier.started == 1


def test_what_comes_too_soon_waits_and_the_worst_of_it_is_handed_over_with_how_many_others(
    tmp_path: Path,
) -> None:
    notifier = Notifier(keeper(tmp_path), 0.5, tell=print)
    start = time.monotonic()
    for number, badness in enumerate((2, 2, 0, 1, 0)):
        notifier.notify({"number": number}, badness)
    until(lambda: len(got(tmp_path)) == 2, notifier)
    assert time.monotonic() - start >= 0.5
    notifier.close()
    assert got(tmp_path) == [{"number": 0, "left_out": 0}, {"number": 2, "left_out": 3}]


def test_what_still_waits_at_the_end_is_handed_over(tmp_path: Path) -> None:
    notifier = Notifier(keeper(tmp_path), 1000, tell=print)
    notifier.notify({"number": 0}, 0)
    until(lambda: len(got(tmp_path)) == 1, notifier)
    notifier.notify({"number": 1}, 0)
    notifier.close()
    assert got(tmp_path)[1:] == [{"number": 1, "left_out": 0}]


def test_a_program_that_hangs_holds_up_nothing_and_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "TIMEOUT_S", 0.5)
    pids = tmp_path / "pids"
    hangs = program(
        tmp_path,
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(1000)",
    )
    told: list[str] = []
    notifier = Notifier(hangs, 10, tell=told.append)
    start = time.monotonic()
    notifier.notify({}, 0)
    assert time.monotonic() - start < 0.5
    until(lambda: bool(told), notifier)
    assert told[0].endswith("took longer than 0 s and was killed")
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: not is_running(pid), notifier)  # type: ignore[misc] # its default is this pid
    notifier.close()
    assert len(told) == 1


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_still_runs_at_the_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "END_S", 0.3)
    told: list[str] = []
    notifier = Notifier("sleep 1000", 10, tell=told.append)
    notifier.notify({}, 0)
    notifier.close()
    assert told == ["--exec: sleep still ran at the end and was killed"]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_program_that_fails_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    notifier = Notifier(program(tmp_path, "raise SystemExit(7)"), 0, tell=told.append)
    for _ in range(3):
        notifier.notify({}, 0)
        until(lambda: not notifier._running, notifier)
    notifier.close()
    assert len(told) == 1
    assert told[0].endswith("ended with status 7; this is said once")
    assert notifier.started == 3


def test_a_program_that_a_signal_ends_is_told_with_the_signal(tmp_path: Path) -> None:
    told: list[str] = []
    notifier = Notifier(
        program(tmp_path, "import os; os.kill(os.getpid(), 9)"), 0, tell=told.append
    )
    notifier.notify({}, 0)
    notifier.close()
    assert [line.rpartition(" ended ")[2] for line in told] == ["by SIGKILL; this is said once"]


def test_of_what_a_program_writes_only_the_beginning_is_passed_on(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    told: list[str] = []
    notifier = Notifier(
        program(tmp_path, "import os; [os.write(number, b'x' * 50_000) for number in (1, 2) * 20]"),
        0,
        tell=told.append,
    )
    notifier.notify({}, 0)
    notifier.close()
    assert capfdbinary.readouterr() == (b"", b"x" * notify.OUTPUT_BYTES)
    assert [line.rpartition(" wrote ")[2] for line in told] == [
        f"{2_000_000 - notify.OUTPUT_BYTES:,} more bytes, which are left out"
    ]


def test_what_a_program_wrote_is_counted_though_what_it_started_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "END_S", 2.0)
    told: list[str] = []
    text = f"""
import os, subprocess, time
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
os.write(1, b"x" * 300_000)
time.sleep(60)
"""
    notifier = Notifier(program(tmp_path, text), 0, tell=told.append)
    notifier.notify({}, 0)
    until((tmp_path / "child").exists, notifier)
    notifier.close()
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert any(
        f"wrote {300_000 - notify.OUTPUT_BYTES:,} more bytes, which are left out" in line
        for line in told
    )


def test_no_shell_looks_at_the_command(tmp_path: Path) -> None:
    notifier = Notifier(f"{keeper(tmp_path)} ; touch {tmp_path}/x '$HOME'", 10, tell=print)
    notifier.notify({}, 0)
    notifier.close()
    assert got(tmp_path) == [{"left_out": 0}]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "--exec: is empty; name a program"),
        ("no-such-program-x -v", "--exec: there is no program no-such-program-x; "),
        ("sh -c 'x", "--exec sh -c 'x: no closing quotation"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused(command: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}".replace(".", r"\.")):
        Notifier(command, 10, tell=print)
