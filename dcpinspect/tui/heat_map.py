"""Shows a whole bucket over time. Each vbucket, or group of vbuckets, has one line or several: how it
stands, then how much came when.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from dcpinspect.findings.cases import duration
from dcpinspect.output.render.lanes import Scale
from dcpinspect.output.render.timeline_text import time_since
from dcpinspect.output.vbucket_heat import MOST, Heat
from dcpinspect.text import counted
from dcpinspect.tui import theme
from dcpinspect.tui.charts import a_cell, axis
from dcpinspect.tui.heat import SEVERITIES, SIGNS, signs
from dcpinspect.tui.line_view import LineView, Piece, fitting_phrases, flowed
from dcpinspect.tui.results import Results
from dcpinspect.tui.vbucket_cells import Cells, sign_of

LABEL = 13
"""Width of the sign and the numbers before a line, in columns; few vbuckets have words, too."""


class HeatForm(NamedTuple):
    """How vbuckets share lines."""

    together: int = 1
    """Number of vbuckets in a row of cells."""
    high: int = 1
    """Number of lines of a row."""


def fitting(count: int, lines: int) -> HeatForm:
    """Returns the form that shows so many vbuckets in so many lines."""
    if count <= lines:
        return HeatForm(1, lines // max(1, count))
    share = -(-count // lines)
    step = 1 << max(0, share.bit_length() - 4)  # numbers beside rows are round, and no row is empty
    return HeatForm(-(-share // step) * step)


ALSO_OF_SIGNS = ("R", "E")
"""Letters of states that are letters of signs, too."""


class HeatMap(LineView, can_focus=True, inherit_bindings=False):
    """Vbuckets from top to bottom, time from left to right. The first cell of a row is its label,
    which stands for all times.
    """

    HEAD = 2

    _heat, _results, _first_ns, _length_ns = Heat(), Results(), 0, 0
    cells = Cells(Results())
    _numbers: Sequence[int] = ()
    _worst: Sequence[int] = ()
    """Vbucket of each row that has the worst state."""
    _labels: Sequence[str] = ()
    _label_width = LABEL
    form = HeatForm()
    groups: Sequence[tuple[int, int]] = ()
    """First and last vbucket of each row."""
    _spans = 1
    """Number of spans in a cell."""
    _wide = 1
    """Number of columns of a cell."""
    amounts = np.zeros((0, 0), np.int64)
    """Number of items in each cell."""
    _eighths, _top = amounts, 8
    """How high the bar of each cell is, and the highest one, in eighths of a line."""
    _signs = _sign_times = amounts
    _is_of_request = amounts > 0
    _wanted: tuple[int, int | None] = 0, None
    """Vbucket and time of the cursor, at first the worst; they stay when cells change size."""

    def show(self, results: Results, cells: Cells, first_ns: int, last_ns: int) -> None:
        """Shows the results so far. ``cells``: how the vbuckets stand. ``first_ns`` and ``last_ns``:
        when the capture began and ended, in nanoseconds since 1970.
        """
        self._heat, self.cells = results.heat.until(last_ns), cells
        self._results, self._first_ns, self._length_ns = results, first_ns, last_ns - first_ns
        self._numbers = (
            cells.requested
            if cells.has_few
            else list(range(min(max(results.vbuckets, default=-1), MOST - 1) + 1))
        )
        self.fit()

    def fit(self) -> None:
        """Chooses as many cells as fit, and fills them."""
        vbuckets, lines = self._numbers, max(1, self.size.height - self.HEAD)
        self.form = fitting(len(vbuckets), lines)
        if self.cells.has_few:
            self.form = HeatForm(1, self.form.high)
        self.high = self.form.high
        together = self.form.together
        shared = [vbuckets[start : start + together] for start in range(0, len(vbuckets), together)]
        self.groups = [(numbers[0], numbers[-1]) for numbers in shared]
        self._worst = [max(numbers, key=self.cells.rank) for numbers in shared]
        self._labels = [
            f"{first:<4} {self.cells.short_words(first)}"
            if self.cells.has_few
            else f"{f'{first}–{last}'.removesuffix(f'–{first}'):>{LABEL - 4}}"
            for first, last in self.groups
        ]
        self._label_width = 4 + max(map(len, self._labels), default=0)
        width = max(1, self.size.width - self._label_width - 1)  # the last is for a scroll bar
        used = self._heat.used
        # letters stand beside items of their time where there is no line below these
        self._spans = -(-used // max(1, width // (1 + (self.form.high == 1)))) or 1
        self.amounts = self._heat.cells(self.groups, self._spans)
        self._wide = max(1, width // max(1, self.amounts.shape[1]))
        most = max(1, self.amounts.max(initial=0))
        # less than fits, so that rows stand apart; the lowest of several lines has the signs
        self._top = 8 * max(1, self.form.high - 1) - 1
        self._eighths = -(-self._top * self.amounts // most)
        place_of = np.full(max(vbuckets, default=-1) + 1, -1, np.int64)
        for line, (first, last) in enumerate(self.groups):
            place_of[first : last + 1] = line
        self._signs, self._sign_times, self._is_of_request = signs(
            self._heat, self._results, place_of, self.amounts.shape, self._spans
        )
        if not self.is_moved:
            self._wanted = self._results.worst_vbucket or 0, None
        self.at = self._cell(*self._wanted)
        self.bring()
        self.post_message(self.Moved(self))

    # -- the cursor

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.groups) * self.across

    @property
    def across(self) -> int:
        """Number of cells in a row, with its label."""
        return 1 + self.amounts.shape[1]

    @property
    def row(self) -> int:
        """Row of the cursor."""
        return self.at // self.across

    @property
    def column(self) -> int:
        """Column of the cursor, in cells; -1: on the label of its row."""
        return self.at % self.across - 1

    def place_at(self, x: int, y: int) -> int | None:
        """Returns the cell at a column and a line."""
        place, row = max(0, x - self._label_width + self._wide) // self._wide, y // self.form.high
        return row * self.across + place if place < self.across and row < len(self.groups) else None

    @property
    def vbucket(self) -> int | None:
        """The vbucket that the cursor was moved to: of several, the worst or the one with most there."""
        return self._wanted[0] if self.row < len(self.groups) else None

    @property
    def _fullest(self) -> int:
        """Vbucket that has most in the cursor's cell, the first of equals."""
        first, last = self.groups[self.row]
        span = self.column * self._spans
        counts = self._heat.counts[first : last + 1, span : span + self._spans].sum(axis=1)
        return first + int(np.argmax(counts)) if len(counts) else first

    @property
    def span(self) -> tuple[int, int]:
        """First and last nanosecond of the cursor's cell, since the capture began."""
        size = self._spans * self._heat.span_ns
        first = max(0, self._heat.start_ns - self._first_ns) + self.column * size
        return first, first + size - 1

    @property
    def since_ns(self) -> int | None:
        """When the cursor's cell begins; None on a label."""
        return None if self.column < 0 else self.span[0]

    @property
    def sign_ns(self) -> int | None:
        """When what the sign of the cursor's cell stands for was, or the middle of the cell."""
        if self.column < 0:
            return None
        since_ns = int(self._sign_times[self.row, self.column]) - self._first_ns
        return since_ns if self._signs[self.row, self.column] else sum(self.span) // 2

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to a cell."""
        super().set_cursor(place)
        if self.row < len(self.groups):
            leading = self._worst[self.row] if self.column < 0 else self._fullest
            self._wanted = leading, self.since_ns

    def move_to(self, vbucket: int, since_ns: int | None = None) -> None:
        """Moves the cursor to the row of a vbucket, and to a time in it."""
        self.set_cursor(self._cell(vbucket, since_ns))
        self._wanted = vbucket, since_ns

    def _cell(self, vbucket: int, since_ns: int | None) -> int:
        """Returns the cell of a vbucket at a time, or its label."""
        scale = self._scale()
        row = next(
            (row for row, (first, last) in enumerate(self.groups) if first <= vbucket <= last), 0
        )
        column = -1 if since_ns is None else max(0, (since_ns - scale.first) // scale.step)
        return row * self.across + min(1 + column, self.across - 1)

    # -- drawing

    def render_line(self, y: int) -> Strip:
        """Draws one visible line; the time always stays at the top."""
        base = self.rich_style
        dim = self.dim_style()
        if y == 0:
            return self.drawn((f" {self.heading()}", base + Style(bold=True)))
        if y == 1:
            return self._time(dim, base)
        row, line_of_row = divmod(int(self.scroll_offset.y) + y - self.HEAD, self.form.high)
        if row >= len(self.groups):
            return self.drawn()
        return self.drawn(*self._label(row, line_of_row, base), *self._bars(row, line_of_row, base))

    def heading(self) -> str:
        """Returns what the picture shows, in words."""
        if not self.groups:
            return self._results.no_vbucket
        together = self.form.together
        sharing = f"{together} vbuckets a row" if together > 1 else ""
        whose = "" if self._results.connection is None else ", from all connections"
        phrases = [
            f"items of {counted(len(self._numbers), 'vbucket')} over time{whose}",
            f"{over} more above" if (over := int(self.scroll_offset.y) // self.form.high) else "",
            f"{hidden} more below" if (hidden := self.below // self.across) else "",
            sharing,
            f"{a_cell(self._scale())} {duration(self._spans * self._heat.span_ns)}",
        ]
        return fitting_phrases([*filter(None, phrases)], self.size.width - 2)

    def _label(self, row: int, part: int, base: Style) -> list[Piece]:
        """Returns a line of a row's label: the sign of its worst vbucket and its words in the lowest
        line, beside the letters.
        """
        is_here, width = row == self.row and self.column < 0, self._label_width
        style = base + self.cursor_style() if is_here else base
        if part < self.form.high - 1:
            return [(" " * width, base)]
        sign, sign_style = sign_of(self.app, self.cells, self._worst[row])
        if is_here:  # the cursor's colour would hide that of the sign
            sign_style = theme.sign_on_cursor(sign_style, base) if sign_style.reverse else style
        text = f" {self._labels[row]:<{width - 4}}"
        is_bold = Style(bold=row == self.row or None)
        return [(" ", base), (sign, base + sign_style), (text, style + is_bold), (" ", base)]

    def _scale(self) -> Scale:
        return Scale(
            max(0, self._heat.start_ns - self._first_ns),
            self._spans * self._heat.span_ns,
            max(1, self.amounts.shape[1]),
            self._wide,
            is_time=True,
        )

    def _time(self, dim: Style, base: Style) -> Strip:
        scale = self._scale()
        text = axis(scale, self._length_ns)
        low, high = max(0, self.column * self._wide), (self.column + 1) * self._wide
        cursor_style = base + self.cell_style()
        return self.drawn(
            ("   vb".ljust(self._label_width), dim),
            (text[:low], dim),
            (text[low:high], cursor_style),
            (text[high:], dim),
        )

    def _bars(self, row: int, part: int, base: Style) -> list[Piece]:
        """Returns a line of a row: blocks as high as the level, and below them, or beside them in
        their cell if there is but one line, the letters: a request before them, all else after.
        """
        below, pieces = max(0, self.form.high - 2 - part), list[Piece]()
        is_lowest, is_single = part == self.form.high - 1, self.form.high == 1
        cursor_style, no_style = self.cell_style(), Style()
        is_cursor = [
            column == self.column and row == self.row for column in range(self.amounts.shape[1])
        ]
        are_requests, letters = self._is_of_request[row].tolist(), self._signs[row].tolist()
        for (amount, sign, is_request, is_here), run in groupby(
            zip(self._eighths[row].tolist(), letters, are_requests, is_cursor, strict=True)
        ):
            eighths = min(8, max(0, amount - 8 * below)) if is_single or not is_lowest else 0
            block = self._glyphs.blocks[eighths - 1] if eighths else " "
            style = base + self._paint(-(-8 * amount // self._top))
            style += cursor_style if is_here else no_style
            drawn = [(block * self._wide, style)]
            if sign and is_lowest:
                drawn = [(block * (self._wide - 1), style)]
                is_plain = is_here and sign not in SEVERITIES  # whose colours the cursor leaves
                letter_style = style if is_plain else base + self._paint_of_sign(sign)
                drawn.insert(
                    0 if is_request or not is_single else 1, (self._letter(sign), letter_style)
                )
            pieces += drawn * sum(1 for _ in run)
        return pieces

    def _paint(self, level: int) -> Style:
        """Returns the style of a level; 0: none."""
        return theme.style_of(self.app, f"scale-{level}" if level else "")

    def _letter(self, sign: int) -> str:
        """Returns a sign; those of findings are the same everywhere."""
        severity = SEVERITIES.get(sign)
        return self._glyphs.of_severity(severity) if severity else SIGNS[sign].glyph

    def _paint_of_sign(self, sign: int) -> Style:
        """Returns the style of a sign's letter."""
        return theme.style_of(self.app, SIGNS[sign].paint) + Style(reverse=True, bold=True)

    # -- words

    def spoken(self) -> str:
        """Returns what came in the cursor's cell, in words; empty on a label."""
        if self.column < 0:
            return ""
        first, last = self.groups[self.row]
        scale = self._scale()
        amount = int(self.amounts[self.row, self.column])
        most = f", most of them in vbucket {self._fullest}" if first < last and amount else ""
        phrases = [
            f"vb {self.vbucket}" + (f" of {first}–{last}" if first < last else ""),
            f"{duration(scale.step)} from {time_since(scale.step, self.span[0])} on",
            f"{counted(amount, 'item')}{most}" if amount else "no item",
        ]
        if sign := int(self._signs[self.row, self.column]):
            phrases.append(SIGNS[sign].word)
        return " · ".join(phrases)

    def legend(self, width: int, *, is_help: bool = False) -> Text:
        """Returns what colours and signs mean, in lines that fit; for the help without findings."""
        blocks = enumerate(self._glyphs.blocks[:-1], 2)
        scale = [(block, self._paint(level)) for level, block in blocks]
        most = f" items, at most {self.amounts.max(initial=0):,} a cell"
        entries = [Text.assemble(*scale, most) if self.amounts.any() else Text("no items")]
        sign_numbers = {*np.unique(self._signs).tolist()} - {0, *(SEVERITIES if is_help else ())}
        for sign in sorted(sign_numbers):
            letter = self._letter(sign), self._paint_of_sign(sign)
            entries.append(Text.assemble(letter, f" {SIGNS[sign].word}"))
        # beside a line, short words leave out what these letters say
        for letter_of_state, paint, _, words in (
            self.cells.entries(self._glyphs) if self.cells.has_few else ()
        ):
            if letter_of_state in ALSO_OF_SIGNS:
                style = theme.style_of(self.app, paint) + Style(reverse=True, bold=True)
                entries.append(Text.assemble((letter_of_state, style), f" before a vb: {words}"))
        return flowed(Text(), entries, width)
