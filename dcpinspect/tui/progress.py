"""How far something is that takes long, in words."""

from __future__ import annotations

import math
import time

TOLD = 0.1
"""Seconds between two times that it is told."""
_SOON, _SOME = 0.5, 0.01
"""Seconds, and the share, after which it is known how long the rest will take."""
_MINUTES = 120
"""Seconds from which it is told in minutes."""


def time_left(share: float, passed: float) -> str:
    """How long the rest will take, after so many seconds for this share; empty as long as that is not known."""
    if share < _SOME or passed < _SOON:
        return ""
    left = passed * (1 - share) / share
    return f"{math.ceil(left):,} s left" if left < _MINUTES else f"{math.ceil(left / 60):,} min left"


class Progress:
    """Of one thing that has just begun."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._due = self._began + TOLD

    @property
    def is_due(self) -> bool:
        """Whether the user is to be told again; not so often that telling takes long, nor of what takes no time."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + TOLD
        return True

    def words(self, share: float) -> str:
        """How much is done, 0 to 1, how long the rest will take, and how it is stopped."""
        left = time_left(share, time.monotonic() - self._began)
        return " · ".join(part for part in (f"{share:.0%}", left, "Esc stops") if part)
