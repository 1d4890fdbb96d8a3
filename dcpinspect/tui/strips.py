"""Lines of text as Textual draws them: exactly as wide as their widget, with nothing in them that steers the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from dcpinspect.escape import one_line

Piece = tuple[str, Style]


def strip(pieces: Iterable[Piece], width: int, style: Style) -> Strip:
    """A line of these pieces on a background, cut or filled to ``width`` columns."""
    segments = [Segment(text if text.isascii() and text.isprintable() else one_line_keeping(text), own) for text, own in pieces if text]
    return Strip(segments).apply_style(Style(bgcolor=style.bgcolor)).adjust_cell_length(width, style)


def one_line_keeping(text: str) -> str:
    """The text with whatever cannot be seen written out; blanks at its ends stay."""
    inner = text.strip()
    if not inner:
        return " " * len(text)
    before = len(text) - len(text.lstrip())
    after = len(text) - len(text.rstrip())
    return " " * before + one_line(inner) + " " * after
