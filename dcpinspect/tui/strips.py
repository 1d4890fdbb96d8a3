"""Lines of text as Textual draws them: exactly as wide as their widget, with nothing in them that steers the terminal."""

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
    """Draws itself line by line. What all lines ask for is worked out once a drawing: for each line it takes longer than the line."""

    _of_drawing: tuple[Style, Region] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """As Textual's."""
        self._of_drawing = super().rich_style, super().scrollable_content_region
        try:
            return super().render_lines(crop)
        finally:
            self._of_drawing = None

    @property
    def rich_style(self) -> Style:
        """As Textual's."""
        return self._of_drawing[0] if self._of_drawing else super().rich_style

    @property
    def scrollable_content_region(self) -> Region:
        """As Textual's."""
        return self._of_drawing[1] if self._of_drawing else super().scrollable_content_region


def room(widget: Widget) -> int:
    """Columns of a widget that are seen: a scrollbar covers the others."""
    return widget.scrollable_content_region.width


def strip(pieces: Iterable[Piece], width: int, style: Style) -> Strip:
    """A line of these pieces on a background, filled to ``width`` columns, or cut there with an ellipsis."""
    line = Strip([Segment(text if text.isascii() and text.isprintable() else one_line_keeping(text), own) for text, own in pieces if text])
    if line.cell_length > width > 0 and line.crop(width).text.strip():
        kept = line.crop(0, width - 1)
        line = Strip([*kept, Segment(" " * (width - 1 - kept.cell_length) + "…", next(reversed(list(kept)), Segment("")).style)])
    return line.apply_style(Style(bgcolor=style.bgcolor)).adjust_cell_length(width, style)


def one_line_keeping(text: str) -> str:
    """The text with whatever cannot be seen written out; blanks at its ends stay."""
    inner = text.strip()
    if not inner:
        return " " * len(text)
    before = len(text) - len(text.lstrip())
    after = len(text) - len(text.rstrip())
    return " " * before + one_line(inner) + " " * after


def wrapped(text: str, width: int) -> list[str]:
    """Escaped text on lines of at most ``width`` columns, broken at blanks where that is possible."""
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
