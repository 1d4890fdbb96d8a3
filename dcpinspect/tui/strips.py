"""Lines of text as Textual draws them: exactly as wide as their widget, with nothing in them that steers the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.cells import chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from dcpinspect.escape import cells, one_line

Piece = tuple[str, Style]


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
