"""Runs an export in the background."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from dcpinspect.text import escape
from dcpinspect.tui.task import GoesOn, Task

if TYPE_CHECKING:
    from dcpinspect.tui.export_choices import Choice
    from dcpinspect.tui.navigation import Navigation


class Exporting:
    """One export at a time; it shows its progress and can be stopped."""

    def __init__(self, host: Navigation) -> None:
        self._host = host
        self._task = Task(host)

    def begin(
        self, path: str, choice: Choice, *, then: Callable[[], object] = lambda: None
    ) -> None:
        """Starts writing the choice to a file, and calls ``then`` at the end. Raises UsageError if
        the file cannot be used.
        """
        from dcpinspect.tui.export_choices import refuse

        path, show = os.path.expanduser(path.strip()), self._host.show_status
        refuse(path, choice.names, self._host.inspection)

        def write(goes_on: GoesOn) -> str:
            def report_share(share: float) -> None:
                if not goes_on(share):
                    raise InterruptedError

            written = choice.write(path, report_share)
            if not goes_on(1):
                os.unlink(path)
                raise InterruptedError
            return f"{written} are in {escape(path)}"

        def end(sentence: str) -> None:
            show(sentence)
            then()

        self._task.begin(write, end, say=lambda words: show(f"exporting {words} · {escape(path)}"))

    def stop(self) -> bool:
        """Stops the export and leaves no file. Returns whether an export was running."""
        was_running = self._task.stop()
        if was_running:
            self._host.show_status("stopped: nothing was written")
        return was_running
