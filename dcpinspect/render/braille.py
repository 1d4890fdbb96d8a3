"""Draws curves of points in braille: a character has two columns and four rows of dots."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ACROSS, DOWN = 2, 4
"""Number of dots in a character, across and down."""
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
_EMPTY = 0x2800

Dots = npt.NDArray[np.int64]


class Canvas:
    """Characters of dots. If curves share a character, it has the colour of the later one."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._bits = np.zeros((lines, columns), np.uint8)
        self.owner = np.full((lines, columns), -1, np.int64)
        """For each character, the number of the curve that was drawn there last; -1 for none."""

    def steps(self, x: Dots, y: Dots, owner: int) -> None:
        """Draws a curve that stays at the height of each point until the next one, from left to right.

        Dots count from the upper left corner.
        """
        if not len(x):
            return
        keep = np.concatenate(([True], (np.diff(x) != 0) | (np.diff(y) != 0)))
        x, y = x[keep], y[keep]
        self._line(np.stack((x[:-1], x[1:])), np.stack((y[:-1], y[:-1])), owner)  # goes right, at the height that was reached
        self._line(np.stack((x[1:], x[1:])), np.stack((y[:-1], y[1:])), owner)  # then goes up or down
        self._dots(x[:1], y[:1], owner)

    def _line(self, x: Dots, y: Dots, owner: int) -> None:
        """Draws horizontal or vertical lines between two ends each."""
        length = np.maximum(np.abs(x[1] - x[0]), np.abs(y[1] - y[0])) + 1
        place = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        self._dots(
            np.repeat(x[0], length) + place * np.repeat(np.sign(x[1] - x[0]), length),
            np.repeat(y[0], length) + place * np.repeat(np.sign(y[1] - y[0]), length),
            owner,
        )

    def _dots(self, x: Dots, y: Dots, owner: int) -> None:
        inside = (x >= 0) & (x < self.columns * ACROSS) & (y >= 0) & (y < self.lines * DOWN)
        x, y = x[inside], y[inside]
        np.bitwise_or.at(self._bits, (y // DOWN, x // ACROSS), _BITS[y % DOWN, x % ACROSS])
        self.owner[y // DOWN, x // ACROSS] = owner

    def text(self, *, ascii_dot: str = "") -> npt.NDArray[np.str_]:
        """Returns the characters; a character without dots is a blank. ``ascii_dot``: replaces all other characters."""
        glyphs = np.array([ascii_dot or chr(_EMPTY + bits) for bits in range(256)])
        glyphs[0] = " "
        return glyphs[self._bits]
