"""Runs an export in the background."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import App

from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.text import escape
from dcpinspect.tui.progress_text import Progress

if TYPE_CHECKING:
    from dcpinspect.tui.export_choices import Choice
    from dcpinspect.tui.navigation import Navigation


class Exporting:
    """One export at a time; it shows its progress and can be stopped."""

    def __init__(self, app: App[Any], host: Navigation) -> None:
        self._app = app
        self._host = host
        self._is_wanted = threading.Event()

    def begin(
        self, path: str, choice: Choice, *, then: Callable[[], object] = lambda: None
    ) -> None:
        """Starts writing the choice to a file, and calls ``then`` at the end. Raises UsageError if
        the file cannot be used.
        """
        from dcpinspect.tui.export_choices import refuse

        path = os.path.expanduser(path.strip())
        refuse(path, choice.names, self._host.inspection)
        self._is_wanted.set()
        self._app.run_worker(
            partial(self._write, path, choice, then), thread=True, group="export", exclusive=True
        )

    def stop(self) -> bool:
        """Stops the export and leaves no file. Returns whether an export was running."""
        was_wanted = self._is_wanted.is_set()
        self._is_wanted.clear()
        return was_wanted

    def _write(self, path: str, choice: Choice, then: Callable[[], object]) -> None:
        host, progress = self._host, Progress()

        def show_share(share: float) -> None:
            if not self._is_wanted.is_set():
                raise UsageError("stopped: nothing was written")
            if progress.is_due:
                host.from_thread(
                    host.show_status, f"exporting {progress.words(share)} · {escape(path)}"
                )

        try:
            sentence = f"{choice.write(path, show_share)} are in {escape(path)}"
        except (DcpInspectError, OSError) as error:
            sentence, then = str(error), lambda: None
        self._is_wanted.clear()
        host.from_thread(host.show_status, sentence)
        host.from_thread(then)
