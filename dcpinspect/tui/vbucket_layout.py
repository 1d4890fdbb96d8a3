"""Where the cells of the map of vbuckets are: as large as fit into the room there is."""

from __future__ import annotations

from typing import NamedTuple

LABEL = 5
"""Columns of the number before a line of cells."""
GROUP = 8
"""Cells between two blanks."""
CARD = 14
"""Columns of a cell that says its number and its verdict in words, at least."""
LOW = 3
"""Lines of such a cell at least: number, verdict, bar."""
_ASPECT = 4
"""Columns for which a line is worth as much: a chart over time needs more width than height."""


class Layout(NamedTuple):
    """Where cells are."""

    across: int
    """Cells of a line."""
    wide: int
    """Columns of a cell."""
    high: int
    """Lines of a cell."""
    is_cards: bool = False
    """Whether cells say their number, so that lines have no labels."""

    @property
    def columns(self) -> int:
        """Of the whole map."""
        return self.across * self.wide if self.is_cards else LABEL + self.across * self.wide + (self.across - 1) // GROUP

    def lines(self, count: int) -> int:
        """Of a map of so many cells."""
        return -(-count // self.across) * self.high + (not self.is_cards)

    def left_of(self, place: int) -> int:
        """The first column of a cell of a line."""
        return place * self.wide if self.is_cards else LABEL + place * self.wide + place // GROUP


def fitting(count: int, width: int, height: int, *, is_few: bool) -> Layout:
    """The layout whose cells are largest, of those that fit; 64 small cells a line where none does."""
    if is_few:
        cards = [
            Layout(across, width // across, height // -(-count // across), is_cards=True)
            for across in range(1, max(1, min(count, width // CARD)) + 1)
        ]
        best = max(cards, key=lambda one: (min(one.wide, one.high * _ASPECT), one.wide * one.high))
        if best.high >= LOW:
            return best
    found = [
        one
        for across in range(2 * GROUP, 128 + 1, GROUP)
        for wide in range(1, 9)
        for high in range(1, 9)
        if (one := Layout(across, wide, high)).columns <= width and one.lines(count) <= height
    ]
    return max(found, key=lambda one: (one.wide * one.high, -abs(one.wide - 2 * one.high), one.across), default=Layout(64, 1, 1))
