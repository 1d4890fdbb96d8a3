"""The terminal UI in a real terminal, from opening it to the shell that was there before."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pexpect
import psutil
import pytest

from tests.peers.network import NEEDS_ROOT, namespaces
from tests.peers.stories import STORIES
from tests.tui.screens import SAMPLES
from tests.tui.tmux import shell, typed

pytestmark = pytest.mark.requires("tmux")
ROLLBACK = str(SAMPLES / "rollback.pcap")


def test_a_capture_alone_opens_it_and_every_view_fits_every_size(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        typed(terminal, [ROLLBACK], behind="; echo left with $?; stty -a")
        terminal.wait("1 Packets", "161 messages", "the worst first", "Enter Open")
        for width, height in ((80, 24), (200, 50), (120, 36)):
            terminal.resize(width, height)
            for key, there in (
                ("2", "R 10   ended"),
                ("3", "vb"),
                ("4", "rollback"),
                ("5", "dcp_mutation"),
                ("1", "HELLO"),
            ):
                terminal.press(key)
                assert len(terminal.wait(there, "Backspace Back").splitlines()) == height
        terminal.press("q")
        seen = terminal.wait("left with 0", "icanon", "ready$ ")
        assert "1 Packets" not in seen, "the screen from before is back"
        assert re.search(r"[^-]icanon.*[^-]echo\b", seen, re.DOTALL), (
            "lines are edited and echoed again"
        )


@pytest.mark.parametrize("size", [(3, 10), (30, 2), (4, 30), (1, 1)])
def test_a_terminal_without_room_ends_nothing(size: tuple[int, int], tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        typed(terminal, [ROLLBACK])
        terminal.wait("1 Packets", "6 findings")
        terminal.resize(*size)
        for keys in (("C-p", "PageUp", "Escape"), ("/", "x", "=", "Escape"), tuple("012345C")):
            terminal.press(*keys)
        terminal.resize(100, 30)
        terminal.wait("0 Overview", "5 Stats")


def test_a_terminal_that_goes_without_a_signal_ends_it(tmp_path: Path) -> None:
    left = tmp_path / "left"
    with shell(tmp_path) as terminal:
        typed(terminal, [ROLLBACK], before="trap '' HUP; ", behind=f"; echo $? > {left}; exit")
        terminal.wait("1 Packets", "6 findings")
    for _ in range(100):
        if left.exists() and left.read_text():
            break
        time.sleep(0.1)
    assert left.read_text() == "143\n"


@pytest.mark.parametrize("locale", ["LC_ALL=C", "LC_ALL=de_DE.ISO-8859-1"])
def test_python_without_its_mode_for_utf_8_draws_the_same(locale: str, tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        typed(terminal, [ROLLBACK], before=f"{locale} PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 ")
        seen = terminal.wait("1 Packets", "6 findings", "Enter Open")
        assert "\\u" not in seen
        assert seen.isascii() == (locale == "LC_ALL=C")


def test_a_capture_is_chosen_and_opened_again_from_the_start_screen(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    shutil.copy(ROLLBACK, tmp_path / "captures" / "rollback.pcap")
    with shell(tmp_path) as terminal:
        typed(terminal, ["tui"], before=f"cd {tmp_path}/captures; XDG_STATE_HOME={tmp_path}/state ")
        terminal.wait("open a capture", "Captures here", "rollback.pcap")
        terminal.resize(80, 24)
        terminal.wait("open a capture", "Esc leaves")
        terminal.press("Enter")
        terminal.wait("1 Packets", "the worst first")
        terminal.press("C-z")
        terminal.wait("Stopped")
        terminal.press("-l", "fg")
        terminal.press("Enter")
        terminal.wait("1 Packets", "the worst first")
        terminal.press(
            "2"
        )  # the overview is seen again once the capture is open, and not while this view closes
        terminal.wait_without("the worst first")
        terminal.press("C-o")
        terminal.wait("open a capture", "36.5 kB")
        terminal.press("Enter")
        terminal.wait("1 Packets", "the worst first")
        terminal.press("C-c")
        terminal.wait_without("1 Packets")
        terminal.press("-l", "echo left with $?")
        terminal.press("Enter")
        terminal.wait("left with 0")


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["", "31\rx\x1b[B\x1b[B\r0", "2nn3\x1b[B4"])
def test_the_program_ends_where_its_terminal_goes_away(keys: str, tmp_path: Path) -> None:
    running = pexpect.spawn(
        sys.executable,
        ["-m", "dcpinspect", ROLLBACK],
        dimensions=(24, 80),
        env={**os.environ, "TERM": "xterm-256color", "TMPDIR": str(tmp_path)},
        timeout=60,
    )
    running.expect("Packets")
    running.expect("the worst first")
    running.send(keys)
    process = psutil.Process(running.pid)
    os.close(running.child_fd)  # nothing is read any more, as of a window that is closed
    process.wait(30)
    assert not list(tmp_path.iterdir())


def test_what_is_still_written_is_followed(tmp_path: Path) -> None:
    whole = Path(ROLLBACK).read_bytes()
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(whole[: len(whole) // 2])
    with shell(tmp_path) as terminal:
        typed(terminal, ["tui", "--follow", str(growing)], behind="; echo left with $?")
        seen = terminal.wait("live", "messages")
        assert "161 messages" not in seen
        terminal.press("G")
        with growing.open("ab") as file:
            file.write(whole[len(whole) // 2 :])
        terminal.wait("161 messages", "161 of 161")
        terminal.press("q")
        terminal.wait("left with 0")


@pytest.mark.slow
def test_a_pipe_is_looked_through_while_it_is_open_and_leaving_asks(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        typed(
            terminal,
            ["tui", "-"],
            before=f"(cat {ROLLBACK}; sleep 100) | ",
            behind="; echo left with $?; kill %%",
        )
        terminal.wait("161 messages", "HELLO", "live")
        terminal.press("q")
        terminal.wait("161 messages in no file")
        terminal.press("Escape")
        terminal.wait_without("in no file")  # a key right behind it would be taken for one with Alt
        terminal.press("4")
        terminal.wait("Evidence")
        terminal.press("q")
        terminal.wait("in no file")
        terminal.press("q")
        terminal.press("C-c")
        terminal.wait("ready$ ")


@pytest.mark.slow
def test_a_fault_gives_the_terminal_back_and_names_a_log(tmp_path: Path) -> None:
    broken = tmp_path / "sitecustomize.py"
    broken.write_text(
        (
            "import dcpinspect.tui.stats_view as s\ndef fail(*_, **__): raise RuntimeError('sec' + "
            "'ret')\ns.StatsView.take_up = fail\n"
        ),
        "utf-8",
    )
    with shell(tmp_path) as terminal:
        typed(
            terminal,
            [ROLLBACK],
            before=f"TMPDIR={tmp_path} PYTHONPATH={tmp_path} ",
            behind="; echo left with $?",
        )
        terminal.wait("6 findings")
        terminal.press("5")
        seen = terminal.wait("left with 70")
        assert "Traceback" not in seen
        assert "a fault of dcpinspect ended the terminal UI" in seen
    (log,) = tmp_path.glob("dcpinspect-*.log")
    text = log.read_text("utf-8")
    assert "RuntimeError" in text
    assert "in fail" in text
    assert "secret" not in text


@NEEDS_ROOT
def test_messages_on_an_interface_come_while_they_are_looked_at(tmp_path: Path) -> None:
    from tests.cli.test_live import told

    with namespaces("livetui") as (namespace,), shell(tmp_path) as terminal:
        typed(
            terminal,
            ["live", "-i", "lo", "--tui"],
            before=f"ip netns exec {namespace} ",
            behind="; echo left with $?",
        )
        terminal.wait("live", "0 messages")
        said = told(STORIES["snapshots"](), namespace)
        count = sum(len(talk.c2s) + len(talk.s2c) for talk in said)
        terminal.wait(f"{count:,} messages")
        terminal.press("q")
        terminal.wait("in no file")
        terminal.press("y")
        terminal.wait("packets captured, 0 dropped by the kernel", "left with 0")


@NEEDS_ROOT
def test_a_limit_of_messages_ends_the_capture_of_the_terminal_ui(tmp_path: Path) -> None:
    from tests.cli.test_live import told

    with namespaces("livetui") as (namespace,), shell(tmp_path) as terminal:
        typed(
            terminal,
            ["live", "-i", "lo", "--tui", "-a", "messages:5"],
            before=f"ip netns exec {namespace} ",
            behind="; echo left with $?",
        )
        terminal.wait("live", "0 messages")
        told(STORIES["snapshots"](), namespace)
        terminal.wait_without(" live ")
        terminal.press("q")
        terminal.wait("in no file")
        terminal.press("y")
        terminal.wait("packets captured, 0 dropped by the kernel", "left with 0")


@NEEDS_ROOT
def test_the_terminal_ui_leaves_with_what_was_done_to_its_recording(tmp_path: Path) -> None:
    from tests.cli.test_live import told

    path = tmp_path / "x.pcapng"
    with namespaces("livetui") as (namespace,), shell(tmp_path) as terminal:
        typed(
            terminal,
            ["live", "-i", "lo", "--tui", "-w", str(path)],
            before=f"ip netns exec {namespace} ",
            behind="; echo left with $?",
        )
        terminal.wait("live", "0 messages")
        said = told(STORIES["snapshots"](), namespace)
        terminal.wait(f"{sum(len(talk.c2s) + len(talk.s2c) for talk in said):,} messages")
        path.unlink()
        terminal.press("q")
        terminal.wait("x.pcapng: was deleted", "left with 3")


@NEEDS_ROOT
def test_the_terminal_ui_leaves_with_what_the_recorder_could_not_do(tmp_path: Path) -> None:
    from tests.cli.test_live import told

    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", disk], check=True)
    try:
        with namespaces("livetui") as (namespace,), shell(tmp_path) as terminal:
            typed(
                terminal,
                ["live", "-i", "lo", "--tui", "-w", str(disk / "x.pcapng")],
                before=f"ip netns exec {namespace} ",
                behind="; echo left with $?",
            )
            terminal.wait("live", "0 messages")
            told(STORIES["snapshots"](), namespace)
            terminal.wait("--write")  # the path may leave no room for the reason
            terminal.press("q")
            terminal.wait("dcpinspect: --write", "left with 2")  # the line may wrap
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_without_a_terminal_a_capture_alone_says_what_to_use(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from dcpinspect.cli.main import main

    assert shutil.which("tmux")
    assert main([ROLLBACK]) == 2
    said = capfd.readouterr().err
    assert "'dcpinspect read' prints messages" in said
    assert said.count("\n") == 1
