"""Runs something that takes long in a thread, and says how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dcpinspect.errors import DcpInspectError

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

T = TypeVar("T")

GoesOn = Callable[[float], bool]
"""Takes the share that is done, 0 to 1, and returns whether to go on."""
TOLD = 0.1
"""Seconds between two reports of progress: they cost nothing, and short tasks have none."""


class Task:
    """One at a time: what is begun takes the place of what runs, whose result is dropped."""

    def __init__(self, host: Navigation) -> None:
        self._host = host
        self._run: object = None
        """Identifies what runs; None if nothing does."""

    @property
    def is_running(self) -> bool:
        """Whether there is a result to come."""
        return self._run is not None

    def begin(
        self,
        work: Callable[[GoesOn], T],
        done: Callable[[T], object],
        *,
        say: Callable[[str], object] | None = None,
        failed: Callable[[str], object] | None = None,
    ) -> None:
        """Starts ``work``, which raises InterruptedError where it is not to go on, and calls
        ``done`` with its result, or ``failed`` with the reason. ``say``: takes words on progress.
        """
        run, host = object(), self._host
        self._run, due, is_told = run, time.monotonic() + TOLD, False

        def goes_on(share: float) -> bool:
            nonlocal due, is_told
            now = time.monotonic()
            if now >= due and run is self._run:
                due, is_told = now + TOLD, say is None
                host.from_thread(say or host.show_status, f"{share:.0%} · Esc stops")
            return run is self._run

        def end(then: Callable[[Any], object], value: object) -> None:
            if run is self._run:
                self._run = None
                if is_told:
                    host.show_status("")
                then(value)

        def in_thread() -> None:
            try:
                result = work(goes_on)
            except InterruptedError:
                return
            except (DcpInspectError, OSError) as error:
                host.from_thread(end, failed or host.show_status, str(error))
            else:
                host.from_thread(end, done, result)

        host.run_worker(in_thread, thread=True, group="task")

    def stop(self) -> bool:
        """Ends what runs. Returns whether there was something."""
        was_running, self._run = self.is_running, None
        return was_running
