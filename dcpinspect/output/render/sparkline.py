"""Draws numbers over time as a line of blocks in eighths."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[int], width: int) -> str:
    """Returns a block per value; neighbours are added up until they fit ``width``. 0 is a blank,
    the greatest sum is the highest block.
    """
    together = max(1, -(-len(values) // width))
    sums = [sum(values[start : start + together]) for start in range(0, len(values), together)]
    most = max(sums, default=0)
    return "".join(
        BLOCKS[(len(BLOCKS) * value - 1) // most] if value > 0 else " " for value in sums
    )
