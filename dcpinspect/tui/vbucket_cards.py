"""Cells with room for words: each of a few vbuckets has its number, its verdict, a bar, and a chart of its items over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.style import Style
from rich.text import Text
from textual.app import App

from dcpinspect.tui import theme
from dcpinspect.tui.charts import columns
from dcpinspect.tui.heat import REQUEST, SIGNS, signs
from dcpinspect.tui.results import Results
from dcpinspect.tui.strips import Piece
from dcpinspect.tui.vbucket_layout import LOW, Layout

_INDENT = 2
_PAINT = "verdict-advancing"
"""Colour of items, as on the timeline."""


class Charts:
    """The items of each vbucket over the same time, with letters for events."""

    def __init__(self, results: Results, numbers: Sequence[int], layout: Layout) -> None:
        high = layout.high - LOW
        self.high = high - (high > 1)
        """Height of a chart in lines; if there is room, a blank line is below it."""
        heat, room = results.heat, max(1, layout.wide - _INDENT - 1)
        together = -(-heat.used // room) or 1
        items = heat.cells([(number, number) for number in numbers], together)
        self._each = max(1, room // max(1, items.shape[1]))
        self._lines = [columns(own.astype(np.float64), max(1, self.high)) for own in items]
        place_of = np.full(max(numbers, default=-1) + 1, -1, np.int64)
        place_of[list(numbers)] = np.arange(len(numbers))
        self._signs = signs(heat, results.records, place_of, items.shape, together)
        self.shown = sorted({int(sign) for sign in np.unique(self._signs) if sign >= REQUEST}) if self.high > 0 else []
        """Letters that occur, as numbers of ``SIGNS``."""

    def line(self, place: int, part: int, width: int, base: Style, app: App[object]) -> list[Piece]:
        """Returns a line of a card's chart, filled to ``width``; the lowest line has the letters."""
        paint = base + theme.style_of(app, _PAINT)
        pieces, used = [(" " * _INDENT, base)], _INDENT
        if part < self.high:
            is_last = part == self.high - 1
            for glyph, sign in zip(self._lines[place][part], self._signs[place].tolist(), strict=True):
                own = SIGNS[sign]
                if is_last and sign >= REQUEST:
                    pieces.append((own.letter, base + theme.style_of(app, own.paint) + Style(reverse=True, bold=True)))
                    pieces.append((glyph * (self._each - 1), paint))
                else:
                    pieces.append((glyph * self._each, paint))
                used += self._each
        pieces.append((" " * (width - used), base))
        return pieces

    def entries(self, app: App[object]) -> list[Text]:
        """Returns what the letters mean."""
        found = []
        for sign in self.shown:
            own = SIGNS[sign]
            found.append(Text.assemble((own.letter, theme.style_of(app, own.paint) + Style(reverse=True, bold=True)), f" {own.word}"))
        return found
