"""How far something is that takes long, in words."""

from __future__ import annotations

import math
import time

TOLD = 0.1
"""Seconds between two times that it is told."""
_SOON = 0.5
"""Seconds after which it is known how long the rest will take."""


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
        passed = time.monotonic() - self._began
        left = f" · {math.ceil(passed * (1 - share) / share):,} s left" if share > 0 and passed > _SOON else ""
        return f"{share:.0%}{left} · Esc stops"
