"""Shows the bytes of one message as hex and text. Bytes of the selected field are highlighted.

Each part of the message has a colour of its own, the same as in the names of its fields.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from string import hexdigits
from typing import ClassVar

from rich.style import Style
from textual.strip import Strip

from dcpinspect.output.render.byte_grid import GridCells
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.tui import theme
from dcpinspect.tui.line_view import LineView, Piece, strip, visible_width

_PART_NAMES = ("header", "framing", "extras", "key", "value")


class Parts:
    """The parts of one message, by the palette; neighbouring fields have two colours in turn."""

    def __init__(self, message: Message | None) -> None:
        self._starts: list[int] = []
        self._names: list[str] = []
        if message is None:
            return
        header, before, count = message.header, "", 0
        framing = HEADER_SIZE + message.framing_size
        extras = framing + (header.extras_size if header is not None else 0)
        key = extras + (header.key_size if header is not None else 0)
        for field in message.fields:
            name = _PART_NAMES[bisect_right((HEADER_SIZE, framing, extras, key), field.offset)]
            count = count + 1 if name == before else 0
            before = name
            self._starts.append(field.offset)
            self._names.append(f"{name}-next" if count % 2 else name)

    def at_offset(self, offset: int) -> str:
        """Returns the part that contains a byte."""
        number = bisect_right(self._starts, offset) - 1
        return self._names[number] if number >= 0 else "header"

    def of_field(self, field: FieldValue) -> str:
        """Returns the part that contains a field, in its first colour: names need no borders. Fields
        of an unpacked value are in the part of the value.
        """
        return self.at_offset(field.offset).removesuffix("-next") if not field.inflated else "value"


Span = tuple[int, int]


class BytePane(LineView, can_focus=True, inherit_bindings=False):
    """The bytes of a message; each byte has a cell."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"bytes--field"}

    _cells: GridCells | None = None
    _parts = Parts(None)
    _span: Span | None = None

    @property
    def across(self) -> int:
        """Number of bytes in a line."""
        return next((count for count in (16, 8) if visible_width(self) >= 8 + 4 * count), 4)

    @property
    def count(self) -> int:
        """Number of bytes."""
        return self._cells.count if self._cells is not None else 0

    def show(self, message: Message | None) -> None:
        """Shows another message, or nothing for None."""
        self._cells = GridCells(message) if message is not None else None
        self._parts = Parts(message)
        self._span = None
        self.fit()

    def light(self, span: Span | None) -> None:
        """Highlights the bytes [start, end). None: the selected field has no bytes here, such as a
        field inside an unpacked value.
        """
        self._span = span
        if span is not None:
            if not span[0] <= self.at < span[1]:
                self.at = span[0]
            self.scroll_to_cursor(is_centred=True)
        self.refresh()

    def place_at(self, x: int, y: int) -> int | None:
        """Returns the byte whose hex digits are in a column and a line."""
        column = (x - 7) // 3
        offset = y * self.across + column
        return offset if 0 <= column < self.across and offset < self.count else None

    # -- drawing

    def render_line(self, y: int) -> Strip:
        """Draws one visible line."""
        start = (int(self.scroll_offset.y) + y) * self.across
        base = self.rich_style
        if self._cells is None or start >= self.count:
            return Strip.blank(visible_width(self), base)
        cells = self._cells.between(start, start + self.across)
        dim = self.dim_style()
        lit = base + self.get_component_rich_style("bytes--field", partial=True)
        return strip(self._hex(start, cells, base, dim, lit), visible_width(self), base)

    def _is_lit(self, at: int) -> bool:
        return self._span is not None and self._span[0] <= at < self._span[1]

    def _style(self, at: int, base: Style, lit: Style) -> Style:
        """Returns the style of a byte: highlighted, or the colour of its part.

        The byte at the cursor is reversed while the pane has the focus.
        """
        part_style = (
            lit
            if self._is_lit(at)
            else base + theme.style_of(self.app, f"part-{self._parts.at_offset(at)}")
        )
        return part_style + Style(reverse=True) if self.has_focus and at == self.at else part_style

    def _hex(
        self, start: int, cells: list[str], base: Style, dim: Style, lit: Style
    ) -> list[Piece]:
        pieces: list[Piece] = [(f"{start:>6} ", dim)]
        end = start + len(cells)
        for offset, cell in enumerate(cells, start):
            pieces.append((cell, self._style(offset, base, lit)))
            pieces.append(
                (
                    " ",
                    lit
                    if self._is_lit(offset) and self._is_lit(offset + 1) and offset + 1 < end
                    else base,
                )
            )
        pieces.append(("   " * (self.across - len(cells)) + " ", base))
        letters = [
            (_letter(cell), lit if self._is_lit(offset) else dim)
            for offset, cell in enumerate(cells, start)
        ]
        return pieces + [
            ("".join(letter for letter, _ in run), style)
            for style, run in groupby(letters, key=lambda one: one[1])
        ]


def _letter(cell: str) -> str:
    byte = int(cell, 16) if {*cell} <= {*hexdigits} else 0
    return chr(byte) if 0x20 <= byte < 0x7F else "."
