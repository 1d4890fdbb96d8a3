"""Curves of points in braille: two columns and four rows of dots a character."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ACROSS, DOWN = 2, 4
"""Dots of a character."""
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
_EMPTY = 0x2800

Dots = npt.NDArray[np.int64]


class Canvas:
    """Characters of dots; of curves that share a character the later one has its colour."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._bits = np.zeros((lines, columns), np.uint8)
        self.owner = np.full((lines, columns), -1, np.int64)
        """Of each character, the number of the curve that was drawn there last; -1 for none."""

    def steps(self, x: Dots, y: Dots, owner: int) -> None:
        """A curve that stays at the height of each point until the next one, from left to right; dots from the upper left corner."""
        if not len(x):
            return
        keep = np.concatenate(([True], (np.diff(x) != 0) | (np.diff(y) != 0)))
        x, y = x[keep], y[keep]
        self._line(np.stack((x[:-1], x[1:])), np.stack((y[:-1], y[:-1])), owner)  # on, at the height that was reached
        self._line(np.stack((x[1:], x[1:])), np.stack((y[:-1], y[1:])), owner)  # then up, or back
        self._dots(x[:1], y[:1], owner)

    def _line(self, x: Dots, y: Dots, owner: int) -> None:
        """Lines across or down between two ends each."""
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
        """The characters, a blank where no dot is. ``ascii_dot``: in place of all others."""
        glyphs = np.array([ascii_dot or chr(_EMPTY + bits) for bits in range(256)])
        glyphs[0] = " "
        return glyphs[self._bits]
