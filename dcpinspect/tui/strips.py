"""Lines of text for Textual: exactly as wide as their widget, and without control characters that could steer the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.cells import chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from dcpinspect.escape import cells, one_line

Piece = tuple[str, Style]


class LineView(ScrollView, inherit_bindings=False):
    """A widget that draws itself line by line.

    It works out style and region once per drawing: to work them out for each line would take longer than the line itself.
    """

    _of_drawing: tuple[Style, Region] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draws the lines as Textual does, with style and region worked out once."""
        self._of_drawing = super().rich_style, super().scrollable_content_region
        try:
            return super().render_lines(crop)
        finally:
            self._of_drawing = None

    @property
    def rich_style(self) -> Style:
        """The style that Textual gives, kept while lines are drawn."""
        return self._of_drawing[0] if self._of_drawing else super().rich_style

    @property
    def scrollable_content_region(self) -> Region:
        """The region that Textual gives, kept while lines are drawn."""
        return self._of_drawing[1] if self._of_drawing else super().scrollable_content_region


def room(widget: Widget) -> int:
    """Returns the number of columns of a widget that its scrollbar does not cover."""
    return widget.scrollable_content_region.width


def strip(pieces: Iterable[Piece], width: int, style: Style) -> Strip:
    """Joins pieces to a line on a background; fills it to ``width`` columns, or cuts it there with an ellipsis."""
    line = Strip([Segment(text if text.isascii() and text.isprintable() else one_line_keeping(text), own) for text, own in pieces if text])
    if line.cell_length > width > 0 and line.crop(width).text.strip():
        kept = line.crop(0, width - 1)
        line = Strip([*kept, Segment(" " * (width - 1 - kept.cell_length) + "…", next(reversed(list(kept)), Segment("")).style)])
    return line.apply_style(Style(bgcolor=style.bgcolor)).adjust_cell_length(width, style)


def one_line_keeping(text: str) -> str:
    """Returns the text with invisible characters written out; blanks at both ends stay."""
    inner = text.strip()
    if not inner:
        return " " * len(text)
    before = len(text) - len(text.lstrip())
    after = len(text) - len(text.rstrip())
    return " " * before + one_line(inner) + " " * after


def wrapped(text: str, width: int) -> list[str]:
    """Splits escaped text into lines of at most ``width`` columns, at blanks if possible."""
    width = max(width, 2)
    if text.isascii():
        return textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    lines = [""]
    for word in text.split():
        if lines[-1] and cells(lines[-1]) + 1 + cells(word) > width:
            lines.append("")
        *whole, rest = chop_cells(f"{lines[-1]} {word}" if lines[-1] else word, width)
        lines[-1:] = [*whole, rest]
    return lines
