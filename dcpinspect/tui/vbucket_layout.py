"""Places the cells of the map of vbuckets, as large as fit into the room."""

from __future__ import annotations

from typing import NamedTuple

LABEL = 5
"""Width of the number before a line of cells, in columns."""
GROUP = 8
"""Number of cells between two blanks."""
CARD = 14
"""Least width, in columns, of a cell that shows its number and its verdict in words (a card)."""
LOW = 3
"""Least height of a card, in lines: number, verdict, bar."""
_ASPECT = 4
"""Number of columns that are worth as much as one line: a chart over time needs more width than height."""


class Layout(NamedTuple):
    """Where cells are."""

    across: int
    """Number of cells in a line."""
    wide: int
    """Width of a cell in columns."""
    high: int
    """Height of a cell in lines."""
    is_cards: bool = False
    """Whether cells are cards, which show their number, so that lines have no labels."""

    @property
    def columns(self) -> int:
        """Width of the whole map in columns."""
        return self.across * self.wide if self.is_cards else LABEL + self.across * self.wide + (self.across - 1) // GROUP

    def lines(self, count: int) -> int:
        """Returns the height, in lines, of a map of so many cells."""
        return -(-count // self.across) * self.high + (not self.is_cards)

    def left_of(self, place: int) -> int:
        """Returns the first column of a cell, by its place in its line."""
        return place * self.wide if self.is_cards else LABEL + place * self.wide + place // GROUP


def fitting(count: int, width: int, height: int, *, is_few: bool) -> Layout:
    """Returns the layout with the largest cells that fit; if none fits, 64 small cells in a line."""
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
