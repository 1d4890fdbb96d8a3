"""The map of vbuckets: a cell per vbucket, as large as fits, coloured by its verdict or by a measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from rich.color import Color, blend_rgb
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from dcpinspect.escape import clip
from dcpinspect.tui import theme
from dcpinspect.tui.charts import short
from dcpinspect.tui.results import Results
from dcpinspect.tui.strips import LineView, Piece, strip
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.vbucket_cards import Charts
from dcpinspect.tui.vbucket_cells import LETTERS, LEVELS, MEASURES, Cells, edges, in_words, levels
from dcpinspect.tui.vbucket_layout import GROUP, LABEL, Layout, fitting

MOST_HOT = 5
"""Number of vbuckets that are listed as having most of a measure."""
GLOW_S, GLOW = 1.0, 0.6
"""Seconds for which a changed vbucket glows, and the share of the text colour in its colour meanwhile."""
_MEASURES = tuple(MEASURES)


class VbucketGrid(LineView, can_focus=True, inherit_bindings=False):
    """All vbuckets of a bucket, or only those with streams if they are few."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--cursor", "grid--label", "grid--changed"}

    class Moved(Message):
        """Sent when the cursor moves to another vbucket."""

        def __init__(self, vbucket: int) -> None:
            super().__init__()
            self.vbucket = vbucket

    class Opened(Message):
        """Sent at Enter on a vbucket."""

        def __init__(self, vbucket: int) -> None:
            super().__init__()
            self.vbucket = vbucket

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self.cells = Cells(None)
        self.measure = _MEASURES[0]
        self._is_chosen = False
        """Whether the user has chosen the measure."""
        self.vbucket = 0
        self.layout_of_cells = Layout(64, 1, 1)
        self.changed: set[int] = set()
        """Vbuckets that had messages since the last results, while they glow."""
        self._marked: frozenset[int] = frozenset()
        self._values = self._amounts = self.cells.values(self.measure)
        """Values of the measure by vbucket, and values that bars show, which are items while verdicts are shown."""
        self._edges: list[int] = []
        self._levels = levels(self._values, [])
        self._results = Results()
        self._charts: Charts | None = None

    def show(self, results: Results, *, is_live: bool = False) -> None:
        """Shows the results so far. ``is_live``: vbuckets that have changed glow for a moment."""
        is_first = not self.cells.by_number
        before = self.cells.values("items")
        self._results = results
        self.cells = Cells(results.records.get("vbuckets"), results.records.get("snapshots"))
        if is_first and self.cells.by_number:
            self.vbucket = min(self.cells.by_number)
        if is_live and not is_first:
            now, size = self.cells.values("items"), min(len(before), self.cells.count)
            self.changed = set(np.flatnonzero(now[:size] != before[:size]).tolist())
            self.set_timer(GLOW_S, self._dim)
        if not self._is_chosen:
            self.measure = self.cells.telling()
        self._measure()
        self.post_message(self.Moved(self.vbucket))

    def _dim(self) -> None:
        self.changed = set()
        self.refresh()

    def _measure(self) -> None:
        self._values = self.cells.values(self.measure)
        self._amounts = self.cells.values("items") if self.measure == "verdict" else self._values
        self._edges = edges(self._values, self.measure)
        self._levels = levels(self._values, self._edges)
        self._arrange()

    def _arrange(self) -> None:
        count = len(self.cells.numbers)
        layout = fitting(count, self.size.width, self.size.height, is_few=self.cells.has_few)
        self.layout_of_cells = layout
        self._charts = Charts(self._results, self.cells.numbers, layout) if layout.is_cards else None
        self.virtual_size = Size(self.layout_of_cells.columns, self.layout_of_cells.lines(count))
        self.refresh()

    def on_resize(self) -> None:
        """Makes the cells as large as fit now."""
        self._arrange()
        self.post_message(self.Moved(self.vbucket))

    def mark(self, vbuckets: Sequence[int]) -> None:
        """Marks the vbuckets that timelines are compared with."""
        self._marked = frozenset(vbuckets)
        self.refresh()

    def next_measure(self) -> None:
        """Shows the next measure; shows verdicts first, if the map has chosen another measure by itself."""
        place = _MEASURES.index(self.measure) + 1 if self._is_chosen or self.measure == "verdict" else 0
        self.measure, self._is_chosen = _MEASURES[place % len(_MEASURES)], True
        self._measure()

    # -- the cursor ---------------------------------------------------------------------------------------

    @property
    def _place(self) -> int:
        """Place of the cursor's vbucket among the shown vbuckets."""
        return min(int(np.searchsorted(self.cells.numbers, self.vbucket)), len(self.cells.numbers) - 1)

    def move_to(self, vbucket: int) -> None:
        """Moves the cursor to a vbucket, or to the next one that is shown."""
        numbers = self.cells.numbers
        self._go(min(int(np.searchsorted(numbers, vbucket)), len(numbers) - 1))

    def _go(self, place: int) -> None:
        numbers, layout = self.cells.numbers, self.layout_of_cells
        self.vbucket = numbers[min(max(place, 0), len(numbers) - 1)]
        line = (not layout.is_cards) + self._place // layout.across * layout.high
        top, height = int(self.scroll_offset.y), max(self.size.height, 1)
        if not top <= line <= line + layout.high - 1 < top + height:
            self.scroll_to(y=line if line < top else line + layout.high - height, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved(self.vbucket))

    def bad(self, *, back: bool = False) -> bool:
        """Moves the cursor to the next vbucket with an error or a warning, or to the one before. Returns whether there is one."""
        numbers = sorted(number for number in self.cells.by_number if self.cells.severity(number) is not None)
        later = [number for number in numbers if (number < self.vbucket if back else number > self.vbucket)]
        if later:
            self.move_to(later[-1] if back else later[0])
        return bool(later)

    def hot(self) -> list[int]:
        """Returns the vbuckets by falling measure; among equals, the lower number comes first. Vbuckets with 0 are left out."""
        known = np.array(sorted(self.cells.by_number), np.int64)
        if not len(known):
            return []
        order = known[np.argsort(-self._values[known], kind="stable")]
        return [int(number) for number in order if self._values[number] > 0]

    def next_hot(self) -> bool:
        """Moves the cursor to the vbucket with the greatest measure, and from there to the next. Returns whether there is one."""
        order = self.hot()
        if order:
            here = order.index(self.vbucket) + 1 if self.vbucket in order[:-1] else 0
            self.move_to(order[here])
        return bool(order)

    def action_step(self, lines: int) -> None:
        """Moves the cursor down by so many lines, or up."""
        place = self._place + lines * self.layout_of_cells.across
        if 0 <= place < len(self.cells.numbers):
            self._go(place)

    def action_fold(self) -> None:
        """Moves the cursor one cell to the left."""
        self._go(self._place - 1)

    def action_unfold(self) -> None:
        """Moves the cursor one cell to the right."""
        self._go(self._place + 1)

    def action_page(self, pages: int) -> None:
        """Moves the cursor to the last line, or to the first."""
        across, count = self.layout_of_cells.across, len(self.cells.numbers)
        column = self._place % across
        self._go(column if pages < 0 else (count - 1 - column) // across * across + column)

    def action_first(self) -> None:
        """Moves the cursor to the first vbucket."""
        self._go(0)

    def action_last(self) -> None:
        """Moves the cursor to the last vbucket."""
        self._go(len(self.cells.numbers) - 1)

    def action_open(self) -> None:
        """Opens the timeline of the vbucket."""
        self.post_message(self.Opened(self.vbucket))

    def on_click(self, event: events.Click) -> None:
        """Selects the clicked cell; a second click opens it."""
        layout = self.layout_of_cells
        line = int(self.scroll_offset.y) + event.y - (not layout.is_cards)
        column = next((one for one in range(layout.across) if 0 <= event.x - layout.left_of(one) < layout.wide), None)
        if line < 0 or column is None:
            return
        place = line // layout.high * layout.across + column
        if place < len(self.cells.numbers):
            if self.cells.numbers[place] == self.vbucket:
                self.action_open()
            else:
                self._go(place)

    # -- drawing ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draws one visible line."""
        layout, base = self.layout_of_cells, self.rich_style
        label = base + self.get_component_rich_style("grid--label", partial=True)
        line = int(self.scroll_offset.y) + y - (not layout.is_cards)
        if line < 0:
            return strip(self._heading(label), self.size.width, base)
        row, part = divmod(line, layout.high)
        places = range(row * layout.across, min((row + 1) * layout.across, len(self.cells.numbers)))
        if not places:
            return Strip.blank(self.size.width, base)
        pieces: list[Piece] = []
        if not layout.is_cards:
            pieces.append((f"{self.cells.numbers[places[0]]:>{LABEL - 1}} " if part == 0 else " " * LABEL, label))
        for place in places:
            if place > places[0] and place % GROUP == 0 and not layout.is_cards:
                pieces.append((" ", base))
            number = self.cells.numbers[place]
            pieces += self._card(place, number, part, base) if layout.is_cards else [self._cell(number, base)]
        return strip(pieces, self.size.width, base)

    def _heading(self, label: Style) -> list[Piece]:
        layout = self.layout_of_cells
        text = "vb".ljust(LABEL)
        for first in range(0, layout.across, GROUP):
            text = text.ljust(layout.left_of(first)) + f"+{first}"
        return [(text, label)]

    def _paint(self, number: int) -> Style:
        """Returns the colour of a vbucket's verdict or measure."""
        if self.measure == "verdict":
            return theme.style_of(self.app, f"verdict-{self.cells.verdict(number)}")
        level = int(self._levels[number])
        return theme.style_of(self.app, f"scale-{level}") if level else self.get_component_rich_style("grid--label", partial=True)

    def _glyph(self, number: int) -> tuple[str, bool]:
        """Returns the glyph of a cell, and whether it is a letter on the cell's colour."""
        if number in self._marked:
            return self._glyphs.mark, True
        if self.measure != "verdict":
            level = int(self._levels[number])
            return (self._glyphs.blocks[level - 1] if level else self._glyphs.silent), False
        verdict = self.cells.verdict(number)
        if verdict in LETTERS:
            return LETTERS[verdict], True
        severity = self.cells.severity(number)
        return (self._glyphs.of(severity), True) if severity is not None else (self._glyphs.verdicts[verdict], False)

    def _cell(self, number: int, base: Style) -> Piece:
        wide, style, text = self.layout_of_cells.wide, base, " " * self.layout_of_cells.wide
        if number in self.cells.by_number:
            glyph, is_letter = self._glyph(number)
            style = base + self._paint(number)
            text = glyph.center(wide) if is_letter else glyph * wide
            if is_letter:
                style += Style(reverse=True, bold=True)
        return text, style + self._over(number, style)

    def _over(self, number: int, own: Style) -> Style:
        """Returns the style over a cell's ``own`` style: a changed vbucket is brighter, and underlined if there is no colour."""
        style = Style()
        if number in self.changed:
            style += self.get_component_rich_style("grid--changed", partial=True)
            if own.color is not None and not self.app.current_theme.ansi:
                light = self.app.theme_variables["foreground"]
                style += Style(color=Color.from_triplet(blend_rgb(own.color.get_truecolor(), Color.parse(light).get_truecolor(), GLOW)))
        if number == self.vbucket:
            style += self.get_component_rich_style("grid--cursor", partial=True)
        return style

    def _card(self, place: int, number: int, part: int, base: Style) -> list[Piece]:
        """Returns a line of a cell with words: number, verdict, bar of the measure, or chart of its items over time."""
        wide, paint = self.layout_of_cells.wide, base + self._paint(number)
        glyph, is_letter = self._glyph(number)
        if part == 0:
            sign = "" if (severity := self.cells.severity(number)) is None else f" {self._glyphs.of(severity)}"
            sign = sign if sign[1:] != glyph else ""
            text = f"{glyph if is_letter else self._glyphs.blocks[-1]} vb {number}{sign}"
            style = paint + Style(bold=True)
        elif part == 1:
            text, style = f"  {self.cells.verdict(number).replace('-', ' ')}", paint
        elif part == 2:
            measure = "items" if self.measure == "verdict" else self.measure
            value, most = int(self._amounts[number]), max(1, int(self._amounts.max()))
            words = in_words(value, measure)
            bar = self._glyphs.blocks[-1] * round((wide - 5 - len(words)) * value / most)
            text, style = f"  {bar}{' ' if bar else ''}{words}", paint
        elif self._charts is not None:
            return self._charts.line(place, part - 3, wide, base, self.app)
        else:
            text, style = "", base
        text = f"{clip(text, wide - 1):<{wide}}"
        return [(text, style + (self._over(number, style) if part == 0 else Style()))]

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self.refresh()

    # -- words --------------------------------------------------------------------------------------------

    def legend(self, width: int = 0) -> Text:
        """Returns what colours, heights and letters mean, with the number of vbuckets of each.

        ``width``: puts all in one line of this width, without the numbers if it is too long. 0: one line for each entry.
        """
        title, entries = self._entries()
        if not width:
            return Text("\n").join([*([title] if title else []), *entries])
        title = Text(" ").join(title.split("\n"))
        line = Text("   ").join([*([title] if title else []), *entries])
        if line.cell_len > width and title:
            title, entries = self._entries(has_counts=False)
            line = Text(" ").join([title, *entries])
        return line

    def _entries(self, *, has_counts: bool = True) -> tuple[Text, list[Text]]:
        """Returns what is measured, and what each sign means."""
        letters = [] if self._charts is None else self._charts.entries(self.app)
        verdicts = self.cells.entries(self._glyphs, lambda name: theme.style_of(self.app, f"verdict-{name}"))
        if self.measure == "verdict":
            if self.cells.is_one and not self._is_chosen:
                verdicts.append(Text("alike in every measure\n| shows them over time", "dim"))
            return Text(), [*verdicts, *letters]
        unit, found = MEASURES[self.measure], []
        known = list(self.cells.by_number)
        sizes = np.bincount(self._levels[known], minlength=LEVELS + 1).tolist()
        most = int(self._values[known].max(initial=0))
        is_close = len({short(edge) for edge in self._edges}) < len(self._edges)
        for place, edge in enumerate(self._edges, LEVELS - len(self._edges)):
            amount = f"{edge:,}" if is_close else short(edge)
            amount += "" if edge == most else "+"
            count = f" ({sizes[place + 1]:,})" if has_counts else ""
            glyph = self._glyphs.blocks[place]
            found.append(Text.assemble((glyph, theme.style_of(self.app, f"scale-{place + 1}")), f" {amount}{count}"))
        if sizes[0]:
            found.append(Text(f"{self._glyphs.silent} {sizes[0]:,} with none" if has_counts else f"{self._glyphs.silent} none"))
        title = Text(f"{self.measure}{'' if unit == self.measure else f', {unit}'}:", "bold")
        if not self._is_chosen:  # the map has chosen the measure; a user who wants verdicts presses the key of the next measure
            title = Text.assemble(verdicts[0], ", so shown by\n" if has_counts else ", by ", title, (" (d: verdict)", "dim"))
        return title, [*found, *letters]

    def hot_text(self) -> Text:
        """Returns the vbuckets that have most of the measure, one line each."""
        if self.measure == "verdict":
            order = [number for number in self.hot() if self.cells.verdict(number) in LETTERS]
        else:
            order = self.hot() if len(self._edges) > 1 else []  # if all have the same value, none has most
        out = Text()
        for number in order[:MOST_HOT]:
            value = self.cells.verdict(number).replace("-", " ") if self.measure == "verdict" else f"{int(self._values[number]):,}"
            out.append(f"vb {number}".ljust(9), self._paint(number))
            out.append(f"{value} {MEASURES[self.measure]}\n")
        if len(order) > MOST_HOT:
            out.append(f"and {len(order) - MOST_HOT:,} more; o goes from one to the next\n", "dim")
        return out
