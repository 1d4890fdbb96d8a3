"""A progress bar on the terminal for work that takes more than a second: how much was read, how
fast, how much longer.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

PATIENCE = 1.0
"""Seconds before the bar appears."""
INTERVAL = 0.1
"""Seconds between two updates of the bar."""


def wants_progress(output: str | None) -> bool:
    """Whether a bar on standard error disturbs nothing: standard error is a terminal, and the
    result goes to a file.

    A result that goes through a pipe may go to a pager, which draws on the same terminal.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return False
    if output is not None and output not in ("-", "/dev/stdout"):
        return True
    return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)


@contextmanager
def progress(
    what: str, position: Callable[[], int], size: int | None, *, wanted: bool
) -> Iterator[None]:
    """Shows a bar within this context: ``position()`` of ``size`` bytes, None if the size is
    unknown. It leaves nothing on the screen.
    """
    if not wanted:
        yield
        return
    done = threading.Event()
    painter = threading.Thread(target=_paint, args=(what, position, size, done), daemon=True)
    painter.start()
    try:
        yield
    finally:
        done.set()
        painter.join()


def _paint(work: str, position: Callable[[], int], size: int | None, done: threading.Event) -> None:
    if done.wait(PATIENCE):
        return
    bar = _bar("BarColumn DownloadColumn TransferSpeedColumn TimeRemainingColumn")
    with bar:
        task = bar.add_task(work, total=size)
        while not done.wait(INTERVAL):
            bar.update(task, completed=position())


def _bar(columns: str, *, redirect_stderr: bool = True) -> Any:
    """Returns a bar with these columns of rich, which is not shown yet."""
    from rich import progress as rich_progress  # deferred: only shown after a wait
    from rich.console import Console

    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        *(getattr(rich_progress, name)() for name in columns.split()),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=redirect_stderr,
    )


class StepProgress:
    """A progress bar for work in steps that the caller counts. Does nothing without a terminal, and
    leaves nothing on the screen.
    """

    def __init__(self) -> None:
        self._wanted = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: Any = None
        self._task: Any = None
        self._what = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, what: str, done: int, of: int) -> None:
        """Shows that ``done`` of ``of`` steps of ``what`` are done."""
        if not self._wanted:
            return
        if self._bar is None:
            self._bar = _bar(
                "BarColumn MofNCompleteColumn TimeElapsedColumn", redirect_stderr=False
            )
            self._bar.start()
        if what != self._what:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._what = self._bar.add_task(what, total=of), what
        self._bar.update(self._task, completed=done, total=of)
