"""Says in words how far a long task is."""

from __future__ import annotations

import math

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
