"""Says in words how far a long task is."""

from __future__ import annotations

import math
import time

TOLD = 0.1
"""Seconds between two reports of progress."""
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


class Progress:
    """Progress of one task that starts now."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._due = self._began + TOLD

    @property
    def is_due(self) -> bool:
        """Whether it is time for another report. Reports are rare enough to cost nothing, and short
        tasks have none.
        """
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + TOLD
        return True

    def words(self, share: float) -> str:
        """Returns the share that is done (0 to 1), the remaining time, and how to stop, in
        words.
        """
        time_text = time_left(share, time.monotonic() - self._began)
        return " · ".join(phrase for phrase in (f"{share:.0%}", time_text, "Esc stops") if phrase)
