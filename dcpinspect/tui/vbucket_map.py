"""The map of vbuckets: a cell for each, in the colour of its worst finding or its state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from dcpinspect.text import clip
from dcpinspect.tui import theme
from dcpinspect.tui.line_view import LineView, Piece, flowed
from dcpinspect.tui.results import Results
from dcpinspect.tui.vbucket_cells import Cells, sign_of

LABEL = 5
"""Width of the number before a line of cells, in columns."""
GROUP = 8
"""Number of cells between two wider gaps."""
WIDEST, HIGHEST = 7, 3
"""Greatest size of a cell, with the gap behind it."""
SMALL, LEAST_ACROSS = 128, 16
"""Vbuckets up to which a map needs no room for large cells; least cells in a line, if they fit."""
BESIDE_WORDS = 9
"""Width of a cell that says in words what it is, without the words, in columns."""
_ACROSS = (128, 96, 64, 48, 32, 24, 16, 8)
_EACH = (1, 2, 4, 8, 16, 32, 64, 128)


class Layout(NamedTuple):
    """How many vbuckets share a cell, how many cells stand in a line, and how large they are."""

    each: int = 1
    across: int = 64
    wide: int = 1
    high: int = 1
    has_words: bool = False

    def left_of(self, place: int) -> int:
        """Returns the first column of a cell, by its place in its line."""
        return place * self.wide if self.has_words else LABEL + place * self.wide + place // GROUP

    def lines(self, count: int) -> int:
        """Returns the height of a map of so many vbuckets."""
        return -(-count // (self.each * self.across)) * self.high


def fitting(
    count: int, width: int, height: int, word_cell: int = 0, widest: int = WIDEST
) -> Layout:
    """Returns the layout that fits: few vbuckets have words, in cells of width ``word_cell``; of
    many, as few as possible share a cell, and cells have gaps, and are at most ``widest``.
    """
    if word_cell:
        across = max(1, min(count, width // word_cell))
        return Layout(
            1, -(-count // -(-count // across)), max(1, min(width // across, word_cell)), 1, True
        )
    for share in _EACH:
        layouts = [
            layout._replace(high=max(1, min(height // lines, HIGHEST, layout.wide // 2)))
            for across in _ACROSS
            for wide in (min((width - LABEL - (across - 1) // GROUP) // across, widest),)
            for layout in (Layout(share, across, wide),)
            if wide >= 1 and (lines := layout.lines(count)) <= height
        ]
        if layouts:
            return max(
                layouts,
                key=lambda one: (
                    one.wide > 1,
                    one.across.bit_count() == 1,
                    one.across >= LEAST_ACROSS,
                    one.wide * one.high,
                ),
            )
    return Layout(_EACH[-1], GROUP)


class VbucketMap(LineView, can_focus=True, inherit_bindings=False):
    """All vbuckets of a bucket, or only those with streams if they are few."""

    cells = Cells(Results())
    form = Layout()
    _vbucket: int | None = None
    """The vbucket that the cursor was moved to, at first the worst; it stays when cells change."""
    _numbers: Sequence[int] = ()
    """Vbuckets of the cells, rising; the worst first where they have words."""
    items: Sequence[int] = ()
    """Vbucket of each cell that has the worst state."""
    _empty = ""
    """What stands in place of cells."""
    _entries: Sequence[tuple[str, str, int, str]] = ()
    """What the legend says, as ``Cells.entries`` returns it."""

    def show(self, results: Results) -> None:
        """Shows the results so far."""
        self.cells, self._empty = Cells(results), results.no_vbucket
        self._entries = self.cells.entries(self._glyphs)
        if not self.is_moved:
            self._vbucket = results.worst_vbucket
        self.fit()

    def fit(self) -> None:
        """Makes the cells as large as fit now."""
        numbers = self.cells.numbers if self.cells.by_number else []
        self.form = fitting(
            max(1, len(numbers)),
            self.size.width,
            max(1, self.size.height),
            self._word_cell,
        )
        self.high = self.form.high
        if self.form.has_words:
            numbers = sorted(numbers, key=self.cells.rank, reverse=True)
        share, self._numbers = self.form.each, numbers
        self.items = [
            max(numbers[start : start + share], key=self.cells.rank)
            for start in range(0, len(numbers), share)
        ]
        self.at = 0 if self._vbucket is None else self._place_of(self._vbucket)
        self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.bring()
        self.post_message(self.Moved(self))

    @property
    def _word_cell(self) -> int:
        """Width of a cell with words; 0: cells have none."""
        if not self.cells.has_words:
            return 0
        return BESIDE_WORDS + max(
            len(self.cells.short_words(number)) for number in self.cells.numbers
        )

    def needed(self, width: int, limit: int) -> int:
        """Returns how many of ``limit`` lines the map takes at a width."""
        count = len(self.cells.numbers)
        form = fitting(count, width, limit, self._word_cell, 2 if count <= SMALL else WIDEST)
        return min(limit, form.lines(count)) if self.cells.by_number else 1

    # -- the cursor

    @property
    def across(self) -> int:
        """Number of cells in a line."""
        return self.form.across

    @property
    def vbucket(self) -> int:
        """The vbucket under the cursor; of several in a cell, the one moved to, or the worst."""
        if self._vbucket is not None and self.at == self._place_of(self._vbucket):
            return self._vbucket
        return self.items[self.at] if self.at < len(self.items) else 0

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to a cell."""
        if self.items:
            self._vbucket = self.items[max(0, min(place, self.count - 1))]
            super().set_cursor(place)

    def move_to(self, vbucket: int) -> None:
        """Moves the cursor to a vbucket, or to the next one that is shown."""
        self._vbucket = self._next_shown(vbucket)
        super().set_cursor(self._place_of(self._vbucket))

    def _next_shown(self, vbucket: int) -> int:
        numbers = self.cells.numbers
        return numbers[min(int(np.searchsorted(numbers, vbucket)), len(numbers) - 1)]

    def _place_of(self, vbucket: int) -> int:
        number = self._next_shown(vbucket)
        return self._numbers.index(number) // self.form.each if number in self._numbers else 0

    def place_at(self, x: int, y: int) -> int | None:
        """Returns the cell at a column and a line."""
        form = self.form
        column = bisect_right(range(self.across), x, key=form.left_of) - 1
        cell = y // form.high * self.across + column
        is_inside = column >= 0 and x < form.left_of(column) + form.wide
        return cell if is_inside and cell < self.count else None

    def is_bad(self, place: int) -> bool:
        """Whether a vbucket of the cell has an error or a warning."""
        numbers = self._numbers[place * self.form.each : (place + 1) * self.form.each]
        return any(self.cells.severities.get(number) is not None for number in numbers)

    # -- drawing

    def render_line(self, y: int) -> Strip:
        """Draws one visible line."""
        form, base = self.form, self.rich_style
        row, line_of_row = divmod(int(self.scroll_offset.y) + y, form.high)
        cells = range(row * form.across, min((row + 1) * form.across, self.count))
        if not cells:
            return self.drawn((f" {self._empty}" * (y == 0), self.dim_style()))
        pieces: list[Piece] = []
        if not form.has_words:
            first = self._numbers[cells[0] * form.each]
            label = f"{first:>{LABEL - 1}}" if line_of_row == 0 else " " * (LABEL - 1)
            is_here = self.at in cells and self.has_focus and not line_of_row
            label_style = base + self.cursor_style() if is_here else self.dim_style()
            pieces += [(label, label_style), (" ", base)]
        for cell in cells:
            if cell > cells[0] and cell % GROUP == 0 and not form.has_words:
                pieces.append((" ", base))
            pieces += self._cell(cell, line_of_row, base)
        return self.drawn(*pieces)

    def _cell(self, place: int, part: int, base: Style) -> list[Piece]:
        number, wide = self.items[place], self.form.wide
        bar_width = max(1, wide - 1)
        gap = [(" " * (wide - bar_width), base)]
        cell_style = base + self.cursor_style() if place == self.at and self.has_focus else base
        if number not in self.cells.by_number:
            return [(" " * bar_width, cell_style), *gap]
        sign, style = sign_of(self.app, self.cells, number)
        if self.form.has_words:
            words = clip(
                f" {number:<4} {self.cells.short_words(number)}", max(0, bar_width - 2)
            ).ljust(max(0, bar_width - 2))
            if cell_style is not base:  # the cursor's colour would hide that of the sign
                style = theme.sign_on_cursor(style, base) if style.reverse else Style()
            return [(" ", cell_style), (sign, cell_style + style), (words, cell_style), *gap]
        is_letter, is_middle = bool(style.reverse), part == (self.form.high - 1) // 2
        if place == self.at and self.has_focus:
            # the cursor's colour would hide that of a letter: it stands beside it, if there is
            # room, and at the begin of the line
            sign_style = theme.sign_on_cursor(style, base) if is_letter else cell_style
            if is_letter and wide == 1:
                sign_style += Style(color=cell_style.color, underline=True)
            before = (bar_width - 1) // 2 if is_middle else wide
            after = " " * (wide - before - 1), cell_style
            return [(" " * before, cell_style), (sign * is_middle, sign_style), after]
        text = sign.center(bar_width) if is_middle else " " * bar_width
        return [(text if is_letter else sign * bar_width, base + style), *gap]

    # -- words

    def legend(self, width: int, *, is_help: bool = False, without: Sequence[str] = ()) -> Text:
        """Returns what signs mean, with the number of vbuckets of each, in lines that fit. The help
        has no numbers, and tells of errors and warnings elsewhere. ``without``: letters that are
        told elsewhere.
        """
        entries = []
        for sign, paint, count, words in self._entries:
            is_letter = sign not in self._glyphs.shades
            style = theme.style_of(self.app, paint) + Style(reverse=is_letter, bold=True)
            text = f" {words}" if is_help else f" {count:,} {words}"
            if not (is_help and paint.startswith("severity")) and sign not in without:
                entries.append(Text.assemble((sign, style), text))
        return flowed(Text(), entries, width)
