"""Runs something that takes long in a thread, and says how far it is."""

from __future__ import annotations

import math
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
_SOON, _SOME = 0.5, 0.01
"""Least number of seconds, and least share, from which the remaining time can be estimated."""
_MINUTES = 120
"""Number of seconds from which the remaining time is told in minutes."""


def time_left(share: float, passed: float) -> str:
    """Returns the remaining time in words, if ``share`` took ``passed`` seconds; empty as long as
    it cannot be estimated.
    """
    if share < _SOME or passed < _SOON:
        return ""
    seconds_left = passed * (1 - share) / share
    return (
        f"{math.ceil(seconds_left):,} s left"
        if seconds_left < _MINUTES
        else f"{math.ceil(seconds_left / 60):,} min left"
    )


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
        run, began, host = object(), time.monotonic(), self._host
        self._run, due = run, began + TOLD

        def goes_on(share: float) -> bool:
            nonlocal due
            now = time.monotonic()
            if now >= due and run is self._run:
                due = now + TOLD
                words = (f"{share:.0%}", time_left(share, now - began), "Esc stops")
                host.from_thread(say or host.show_status, " · ".join(filter(None, words)))
            return run is self._run

        def end(then: Callable[[Any], object], value: object) -> None:
            if run is self._run:
                self._run = None
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
