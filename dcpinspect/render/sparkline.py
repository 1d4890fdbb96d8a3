"""Numbers over time as a line of eighth blocks."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[int], width: int) -> str:
    """A block a value, neighbours added up until they fit ``width``; a blank where there is nothing, the highest for the greatest."""
    together = max(1, -(-len(values) // width))
    sums = [sum(values[place : place + together]) for place in range(0, len(values), together)]
    most = max(sums, default=0)
    return "".join(BLOCKS[(len(BLOCKS) * value - 1) // most] if value > 0 else " " for value in sums)
