"""A real terminal: tmux runs a command in a window that can be typed into, resized and read."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PROGRAM = [sys.executable, "-m", "dcpinspect"]
_PATIENCE_S = 120


class Terminal:
    """A window of a tmux server of its own."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *arguments: str) -> str:
        """What tmux answers."""
        return subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    @property
    def text(self) -> str:
        """What is seen."""
        return self.tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Keys as tmux names them."""
        self.tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        """Another size."""
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def wait(self, *texts: str) -> str:
        """What is seen once all of these are."""
        end = time.monotonic() + _PATIENCE_S
        while not all(text in (seen := self.text) for text in texts):
            assert time.monotonic() < end, f"{texts} never came; there is\n{seen}"
            time.sleep(0.05)
        return seen

    def wait_without(self, text: str) -> None:
        """Waits until something is not seen any more."""
        end = time.monotonic() + _PATIENCE_S
        while text in (seen := self.text):
            assert time.monotonic() < end, f"{text} never went; there is\n{seen}"
            time.sleep(0.05)


@contextmanager
def shell(folder: Path, size: tuple[int, int] = (120, 36)) -> Iterator[Terminal]:
    """A shell in a terminal."""
    terminal = Terminal(folder / "tmux.socket")
    environment = [f"{name}={os.environ[name]}" for name in ("TZ", "LC_ALL", "DCPINSPECT_CONFIG")]
    terminal.tmux(
        *("-f", os.devnull, "new-session", "-d", "-x", str(size[0]), "-y", str(size[1])),
        shlex.join(
            [
                "env",
                "-u",
                "COLUMNS",
                "-u",
                "LINES",
                *environment,
                "PS1=ready$ ",
                "bash",
                "--norc",
                "--noprofile",
            ]
        ),
    )
    try:
        terminal.wait("ready$")
        yield terminal
    finally:
        terminal.tmux("kill-server")


def typed(
    terminal: Terminal, arguments: Sequence[str], *, before: str = "", behind: str = ""
) -> None:
    """Runs the program with a line of the shell."""
    terminal.press("-l", f"{before}{shlex.join([*PROGRAM, *arguments])}{behind}")
    terminal.press("Enter")
