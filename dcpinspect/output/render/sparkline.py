"""Draws numbers over time as a line of blocks in eighths."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"


def block_ns(count: int, span_ns: int, width: int) -> int:
    """Returns the length of the blocks in which so many spans fit ``width``: 1 to 6 of a unit,
    or 8, if that is a whole number of spans.
    """
    least = span_ns * max(1, -(-count // width))
    unit = 10 ** (len(str(least)) - 1)
    lengths = (step * unit for step in (1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 40, 50))
    return next((length for length in lengths if length >= least and length % span_ns == 0), least)


def sparkline(values: Sequence[int]) -> str:
    """Returns a block per value. 0 is a blank, the greatest is the highest block."""
    most = max(values, default=0)
    return "".join(
        BLOCKS[(len(BLOCKS) * value - 1) // most] if value > 0 else " " for value in values
    )
