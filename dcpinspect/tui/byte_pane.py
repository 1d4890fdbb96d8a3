"""The bytes of one message, as the specification's grid or as hex and text; the bytes of the selected field are lit."""

from __future__ import annotations

from typing import ClassVar, Literal

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message as Event
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.render.byte_grid import byte_cells
from dcpinspect.tui.strips import Piece, room, strip

Form = Literal["grid", "hex"]


class BytePane(ScrollView, can_focus=True, inherit_bindings=False):
    """The bytes of a message, each in a cell."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"bytes--field", "bytes--dim"}

    form: reactive[Form] = reactive("grid")

    class Picked(Event):
        """A click on a byte."""

        def __init__(self, offset: int) -> None:
            super().__init__()
            self.offset = offset

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._message: Message | None = None
        self._cells: list[str] = []
        self._field: FieldValue | None = None

    @property
    def columns(self) -> int:
        """Bytes of a line."""
        if self.form == "grid":
            return 4
        return 16 if room(self) >= _hex_width(16) else 8 if room(self) >= _hex_width(8) else 4

    def show(self, message: Message | None) -> None:
        """Another message."""
        self._message = message
        self._cells = byte_cells(message, limit=None) if message is not None else []
        self._field = None
        self._resize()

    def light(self, field: FieldValue | None) -> None:
        """The bytes of a field; what is inside an unpacked value has none of its own."""
        self._field = field if field is not None and not field.inflated else None
        if self._field is not None:
            line, top, height = self._field.offset // self.columns, int(self.scroll_offset.y), max(self.size.height, 1)
            if not top <= line < top + height:
                self.scroll_to(y=max(0, line - height // 3), animate=False, immediate=True)
        self.refresh()

    def watch_form(self) -> None:
        """The other form."""
        self._resize()
        self.light(self._field)

    def on_resize(self) -> None:
        """As many bytes a line as fit."""
        self._resize()

    def _resize(self) -> None:
        self.virtual_size = Size(room(self), -(-len(self._cells) // self.columns))
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """The field that the byte belongs to is selected."""
        start = (int(self.scroll_offset.y) + event.y) * self.columns
        head, step = (6, 7) if self.form == "grid" else (7, 3)
        column = (event.x - head) // step
        if event.x >= head and 0 <= column < self.columns and start + column < len(self._cells):
            self.post_message(self.Picked(start + column))

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        start = (int(self.scroll_offset.y) + y) * self.columns
        base = self.rich_style
        if start >= len(self._cells) or self._message is None:
            return Strip.blank(room(self), base)
        dim = base + self.get_component_rich_style("bytes--dim", partial=True)
        lit = base + self.get_component_rich_style("bytes--field", partial=True)
        make = self._grid if self.form == "grid" else self._hex
        return strip(make(start, base, dim, lit), room(self), base)

    def _is_lit(self, at: int) -> bool:
        return self._field is not None and self._field.offset <= at < self._field.offset + self._field.size

    def _grid(self, start: int, base: Style, dim: Style, lit: Style) -> list[Piece]:
        pieces: list[Piece] = [(f"{start:>5}", dim)]
        end = min(start + 4, len(self._cells))
        for at in range(start, end):
            opens = self._is_lit(at) and not self._is_lit(at - 1)
            closed = self._is_lit(at - 1) and not self._is_lit(at) and at > start
            pieces.append(("[" if opens else "]" if closed else "|", lit if opens or closed else dim))
            cell = self._cells[at]
            pieces.append((f" {'0x' + cell if _is_hex(cell) else ' ' + cell + ' '} ", lit if self._is_lit(at) else base))
        closes = self._is_lit(end - 1) and not self._is_lit(end)
        pieces.append(("]" if closes else "|", lit if closes else dim))
        pieces.append((" " + "".join(_letter(cell) for cell in self._cells[start:end]), dim))
        return pieces

    def _hex(self, start: int, base: Style, dim: Style, lit: Style) -> list[Piece]:
        pieces: list[Piece] = [(f"{start:>6} ", dim)]
        end = min(start + self.columns, len(self._cells))
        for at in range(start, end):
            pieces.append((self._cells[at], lit if self._is_lit(at) else base))
            pieces.append((" ", lit if self._is_lit(at) and self._is_lit(at + 1) and at + 1 < end else base))
        pieces.append(("   " * (self.columns - (end - start)) + " ", base))
        pieces += [(_letter(self._cells[at]), lit if self._is_lit(at) else dim) for at in range(start, end)]
        return pieces

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()


def _hex_width(columns: int) -> int:
    return 7 + 3 * columns + 1 + columns


def _is_hex(cell: str) -> bool:
    return all(character in "0123456789abcdef" for character in cell)


def _letter(cell: str) -> str:
    byte = int(cell, 16) if _is_hex(cell) else 0
    return chr(byte) if 0x20 <= byte < 0x7F else "."
