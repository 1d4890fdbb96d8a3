"""A map of all vbuckets in little room: a cell shows one vbucket, or the worst of several."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from dcpinspect.escape import clip
from dcpinspect.render.lines import counted
from dcpinspect.streams.words import VBUCKET_VERDICTS
from dcpinspect.tables.records import Records
from dcpinspect.tui import theme
from dcpinspect.tui.charts import short
from dcpinspect.tui.strips import Piece, strip
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.vbucket_cells import LETTERS, MEASURES, Cells, in_words, levels

_LABEL = 5
"""Width of the number before a line of cells, in columns."""
_CLOSE, _WIDEST, _CARD = 3, 9, 24
"""Greatest width of a cell, in columns: for many vbuckets, for few, and for few in one of several maps.

A cell has room for its number from six columns on.
"""
_TALLEST, _TOLD = 2, 5
"""Greatest height of a cell, in lines; and height of a cell that shows all that can be compared, with a blank line."""

_ACROSS = range(16, 257, 8)
"""Possible numbers of cells in a line."""
_EACH = (1, 2, 4, 8, 16, 32, 64, 128)
"""Possible numbers of vbuckets in a cell."""


def _shape(count: int, width: int, height: int) -> tuple[int, int]:
    """Returns the number of vbuckets in a cell and of cells in a line.

    Prefers few vbuckets per cell, then large cells, then lines with a power of two cells.
    """
    found = [
        (-each, min(width // across, _CLOSE) * min(height // lines, _TALLEST), across.bit_count() == 1, across)
        for each in _EACH
        for across in _ACROSS
        if across <= width and (lines := -(-count // (each * across))) <= height
    ]
    fewest, _, _, across = max(found, default=(-_EACH[-1], 0, False, _ACROSS[0]))
    return -fewest, across


class SmallMap(Widget, can_focus=True, inherit_bindings=False):
    """Cells coloured by verdict, with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"small--cursor", "small--label"}

    class Opened(Message):
        """Sent at Enter on a cell, with its worst vbucket."""

        def __init__(self, vbucket: int) -> None:
            super().__init__()
            self.vbucket = vbucket

    class Moved(Message):
        """Sent when the cursor moves to another cell, or the map shows other data."""

    class Walked(Message):
        """Sent when the user moves the cursor; ``vbucket`` is the one under it."""

        def __init__(self, vbucket: int) -> None:
            super().__init__()
            self.vbucket = vbucket

    class Left(Message):
        """Sent when the user moves beyond the border of the map: -1 to the left, 1 to the right."""

        def __init__(self, steps: int) -> None:
            super().__init__()
            self.steps = steps

    def __init__(self, glyphs: Glyphs, *, is_paired: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """Makes the map. ``is_paired``: it is one of several maps. Its cursor is then always visible, and can leave it at the borders."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._is_paired = is_paired
        self._has_wanted = False
        """Whether the map contains the vbucket that the cursor was moved to."""
        self.cells = Cells(None)
        self._measure, self._edges, self._most_items = "verdict", list[int](), 0
        self._values = self._levels = self.cells.values(self._measure)
        self._at = 0
        self._each = self._across = self._wide = self._tall = 1
        self._worst: list[tuple[str, int]] = []
        """For each cell: the verdict of its vbucket, empty for none; and the vbucket, which has the worst verdict or most of the measure.
        """

    def show(self, vbuckets: Records | None, snapshots: Records | None = None) -> None:
        """Shows the results so far."""
        self.cells = Cells(vbuckets, snapshots)
        self._arrange()

    def measure_by(self, measure: str, edges: list[int], most_items: int = 0) -> None:
        """Shows one of ``MEASURES``.

        ``edges``: the least value of each level. ``most_items``: greatest number of items of a vbucket in all maps.
        """
        self._measure, self._edges, self._most_items = measure, edges, most_items
        self._arrange()

    def _arrange(self) -> None:
        """Chooses the layout with the fewest vbuckets per cell that fits."""
        count, width, height = len(self.cells.numbers), self.size.width - _LABEL, max(1, self.size.height)
        if self.cells.has_few:
            is_roomy = (self._is_paired and count * _CARD <= width * (height // _TALLEST)) or self._card_lines(width) <= height
            widest, tallest = (width, _TOLD) if is_roomy else (_WIDEST, _TALLEST)
            least = _CARD if is_roomy else _WIDEST
            self._each, self._across = 1, max(1, min(count, max(width // least, -(-count // height))))
            if is_roomy:
                self._across = min(self._across, max(1, -(-count * _TOLD // height)))
            self._across = -(-count // -(-count // self._across))  # makes all lines equally long
        else:
            widest, tallest = _CLOSE, _TALLEST
            self._each, self._across = _shape(count, width, height)
        self._wide = max(1, min(width // self._across, widest))
        lines = -(-count // (self._each * self._across))
        self._tall = max(1, min(self.size.height // max(1, lines), tallest))
        numbers = self.cells.numbers
        self._values = self.cells.values(self._measure)
        self._levels = levels(self._values, self._edges)
        self._worst = [self._worst_of(numbers[start : start + self._each]) for start in range(0, count, self._each)]
        if not self.cells.by_number:
            self._worst = []
        self._at = min(self._at, max(0, len(self._worst) - 1))
        self.refresh()
        self.post_message(self.Moved())

    def _worst_of(self, numbers: list[int]) -> tuple[str, int]:
        known = [number for number in numbers if number in self.cells.by_number]
        if not known:
            return "", numbers[0]
        if self._measure == "verdict":
            worst = min(known, key=lambda number: VBUCKET_VERDICTS.index(self.cells.verdict(number)))
        else:
            worst = max(known, key=lambda number: int(self._values[number]))
        return self.cells.verdict(worst), worst

    def on_resize(self) -> None:
        """Chooses the cells that fit the new size."""
        self._arrange()

    def fitting(self, width: int, most: int) -> int:
        """Returns how many of ``most`` lines the map takes if it has this width."""
        count, width = len(self.cells.numbers), max(1, width - _LABEL)
        if not self.cells.by_number:
            return 1
        if self.cells.has_few:
            cards = self._card_lines(width)
            return cards if cards <= most else min(most, -(-count // max(1, width // _WIDEST)))
        each, across = _shape(count, width, most)
        return max(1, min(most, -(-count // (each * across))))

    def _card_lines(self, width: int) -> int:
        """Returns the number of lines if each cell shows all that can be compared."""
        return -(-len(self.cells.numbers) // max(1, width // _CARD)) * _TOLD

    # -- the cursor ---------------------------------------------------------------------------------------

    @property
    def vbucket(self) -> int:
        """Number of the worst vbucket in the cell under the cursor."""
        return self._worst[self._at][1] if self._at < len(self._worst) else 0

    @property
    def is_at_edge(self) -> tuple[bool, bool]:
        """Whether the cursor is in the first line, and whether it is in the last."""
        return self._at < self._across, self._at // self._across == (len(self._worst) - 1) // self._across

    def _go(self, place: int) -> None:
        self._at = min(max(place, 0), max(0, len(self._worst) - 1))
        self.refresh()
        self.post_message(self.Moved())
        self.post_message(self.Walked(self.vbucket))

    def move_to(self, vbucket: int) -> None:
        """Moves the cursor to the cell of a vbucket, or to the next vbucket that is shown."""
        self._has_wanted = vbucket in self.cells.by_number
        place = int(np.searchsorted(self.cells.numbers, vbucket)) // self._each
        self._at = min(place, max(0, len(self._worst) - 1))
        self.refresh()

    def action_step(self, lines: int) -> None:
        """Moves the cursor down by so many lines, or up."""
        if 0 <= self._at + lines * self._across < len(self._worst):
            self._go(self._at + lines * self._across)

    def action_fold(self) -> None:
        """Moves the cursor one cell to the left."""
        if self._is_paired and self._at % self._across == 0:
            self.post_message(self.Left(-1))
        else:
            self._go(self._at - 1)

    def action_unfold(self) -> None:
        """Moves the cursor one cell to the right."""
        if self._is_paired and (self._at % self._across == self._across - 1 or self._at >= len(self._worst) - 1):
            self.post_message(self.Left(1))
        else:
            self._go(self._at + 1)

    def action_first(self) -> None:
        """Moves the cursor to the first cell."""
        self._go(0)

    def action_last(self) -> None:
        """Moves the cursor to the last cell."""
        self._go(len(self._worst))

    def action_open(self) -> None:
        """Opens the large map of vbuckets, at the vbucket under the cursor."""
        if self.cells.by_number:
            self.post_message(self.Opened(self.vbucket))

    def bad(self, *, back: bool = False) -> bool:
        """Moves the cursor to the next cell with a bad verdict, or to the one before. Returns whether there is one."""
        places = [place for place, (verdict, _) in enumerate(self._worst) if verdict in LETTERS]
        others = [place for place in places if (place < self._at if back else place > self._at)]
        if others:
            self._go(others[-1] if back else others[0])
        return bool(others)

    def on_focus(self) -> None:
        """Reports the cursor, because the heading names its vbucket while the map has the focus."""
        self.post_message(self.Moved())
        if self._is_paired:
            self.post_message(self.Walked(self.vbucket))

    def on_blur(self) -> None:
        """Reports the cursor, because the heading does not name its vbucket without the focus."""
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Selects the clicked cell; a second click opens it."""
        column = (event.x - _LABEL) // self._wide
        place = event.y // self._tall * self._across + column
        if 0 <= column < self._across and place < len(self._worst):
            if place == self._at:
                self.action_open()
            else:
                self._go(place)

    # -- drawing ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draws one line."""
        base = self.rich_style
        y, part = divmod(y, self._tall)
        places = range(y * self._across, min((y + 1) * self._across, len(self._worst)))
        if not places:
            return Strip.blank(self.size.width, base)
        label = base + self.get_component_rich_style("small--label", partial=True)
        first = self.cells.numbers[places[0] * self._each]
        pieces: list[Piece] = [(" " * _LABEL if self._has_numbers or part else f"{first:>{_LABEL - 1}} ", label)]
        pieces += [self._cell(place, base, part) for place in places]
        return strip(pieces, self.size.width, base)

    @property
    def _has_numbers(self) -> bool:
        """Whether cells have room for the number of their vbucket."""
        return self._wide >= 6

    def _cell(self, place: int, base: Style, part: int) -> Piece:
        """Returns line ``part`` of a cell."""
        verdict, vbucket = self._worst[place]
        wide, style, text = self._wide, base, " " * self._wide
        if part >= _TALLEST:
            return (f"{clip(self._told(vbucket, part - _TALLEST), wide - 1):<{wide}}", style) if verdict else (text, style)
        if verdict and self._measure != "verdict":
            level = int(self._levels[vbucket])
            sign = self._glyphs.blocks[level - 1] if level else self._glyphs.silent
            if part == 0 or not self._has_numbers:  # words are readable in any theme, but low levels hardly are
                style += (
                    theme.style_of(self.app, f"scale-{level}") if level else self.get_component_rich_style("small--label", partial=True)
                )
            told = f"{sign * 2} {vbucket}" if part == 0 else in_words(int(self._values[vbucket]), self._measure)
            text = f"{clip(told, wide - 1):<{wide}}" if self._has_numbers else sign * wide
        elif verdict:
            style += theme.style_of(self.app, f"verdict-{verdict}")
            glyph = LETTERS.get(verdict)
            severity = self.cells.severity(vbucket)
            sign = glyph or (self._glyphs.of(severity) if severity is not None else self._glyphs.verdicts[verdict])
            if self._has_numbers:
                told = f"{sign * 2} {vbucket}" if part == 0 else verdict.replace("-", " ")
                text = f"{clip(told, wide - 1):<{wide}}"
            elif glyph or severity is not None:
                text = sign.center(wide)
                style += Style(reverse=True, bold=True)
            else:
                text = sign * wide
        if place == self._at and (self.has_focus or (self._is_paired and self._has_wanted)):
            style += self.get_component_rich_style("small--cursor", partial=True)
        return text, style

    def _told(self, vbucket: int, line: int) -> str:
        """Returns a further line about a vbucket, if its cell has room: its items, and what happened."""
        row = self.cells.by_number[vbucket][0]
        bar = self._glyphs.blocks[-1] * ((self._wide - 16) * row["items"] // max(1, self._most_items))
        seqnos = f"seqnos {row['first_seqno']}–{row['last_seqno']}" if row["last_seqno"] is not None else ""
        rolled = f"rolled back {row['rollbacks']} times" if row["rollbacks"] > 1 else "rolled back" if row["rollbacks"] else ""
        words = [
            self.cells.verdict(vbucket).replace("-", " ") if self._measure != "verdict" else "",
            f"{bar}{' ' if bar else ''}{counted(row['items'], 'item')}",
            ", ".join(filter(None, (seqnos, rolled))),
        ]
        shown = [one for one in words if one]
        return shown[line] if line < len(shown) else ""

    def legend(self, *, is_long: bool = False) -> Text:
        """Returns how many vbuckets have each verdict, with its sign.

        ``is_long``: one line per verdict, with the numbers of its vbuckets.
        """

        def style(verdict: str) -> Style:
            return theme.style_of(self.app, f"verdict-{verdict}")

        entries = self.cells.entries(self._glyphs, style, has_numbers=is_long)
        if self._measure != "verdict":
            least, most = (short(int(end(self._values[list(self.cells.by_number)]))) for end in (np.min, np.max))
            entries.append(Text(f"so shown by {self._measure}: {least}–{most} {MEASURES[self._measure]}"))
        return Text("\n" if is_long else "   ").join(entries)

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self.refresh()
