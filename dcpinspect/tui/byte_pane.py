"""The bytes of one message as hex and text, or as the specification's grid; those of the selected field are lit.

Colours are the parts of the message, as in the names of its fields.
"""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar, Literal

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message as Event
from textual.reactive import reactive
from textual.strip import Strip

from dcpinspect.protocol.message import Message
from dcpinspect.render.byte_grid import Cells
from dcpinspect.tui import theme
from dcpinspect.tui.parts import Parts
from dcpinspect.tui.strips import LineView, Piece, room, strip

Form = Literal["hex", "grid"]
Span = tuple[int, int]


class BytePane(LineView, can_focus=True, inherit_bindings=False):
    """The bytes of a message, each in a cell."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"bytes--field", "bytes--dim"}

    form: reactive[Form] = reactive("hex")

    class Picked(Event):
        """A click on a byte, or a key that goes to it."""

        def __init__(self, offset: int) -> None:
            super().__init__()
            self.offset = offset

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._cells: Cells | None = None
        self._parts = Parts(None)
        self._span: Span | None = None
        self._at = 0
        """The byte that keys go on from."""

    @property
    def columns(self) -> int:
        """Bytes of a line."""
        if self.form == "grid":
            return 4
        return next((count for count in (16, 8) if room(self) >= hex_width(count)), 4)

    @property
    def _count(self) -> int:
        return self._cells.count if self._cells is not None else 0

    def show(self, message: Message | None) -> None:
        """Another message."""
        self._cells = Cells(message) if message is not None else None
        self._parts = Parts(message)
        self._span = None
        self._resize()

    def light(self, span: Span | None) -> None:
        """Bytes [start, end); None: what is selected has none, as what is inside an unpacked value."""
        self._span = span
        if span is not None:
            if not span[0] <= self._at < span[1]:
                self._at = span[0]
            line, top, height = self._at // self.columns, int(self.scroll_offset.y), max(self.size.height, 1)
            if not top <= line < top + height:
                self.scroll_to(y=max(0, line - height // 3), animate=False, immediate=True)
        self.refresh()

    def watch_form(self) -> None:
        """The other form."""
        self._resize()
        self.light(self._span)

    def on_resize(self) -> None:
        """As many bytes a line as fit."""
        self._resize()

    def _resize(self) -> None:
        self.virtual_size = Size(room(self), -(-self._count // self.columns))
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """The field that the byte belongs to is selected."""
        inside = event.get_content_offset(self)
        if inside is None:
            return
        start = (int(self.scroll_offset.y) + inside.y) * self.columns
        head, step = (6, 7) if self.form == "grid" else (7, 3)
        column = (inside.x - head) // step
        if inside.x >= head and 0 <= column < self.columns and start + column < self._count:
            self._go(start + column)

    def _go(self, at: int) -> None:
        if self._count:
            self._at = min(max(at, 0), self._count - 1)
            self.post_message(self.Picked(self._at))

    def action_step(self, lines: int) -> None:
        """A line on, or back."""
        if 0 <= self._at + lines * self.columns < self._count:
            self._go(self._at + lines * self.columns)

    def action_fold(self) -> None:
        """A byte back."""
        self._go(self._at - 1)

    def action_unfold(self) -> None:
        """A byte on."""
        self._go(self._at + 1)

    def action_page(self, pages: int) -> None:
        """A screen on, or back."""
        self._go(self._at + pages * self.columns * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """To the first byte."""
        self._go(0)

    def action_last(self) -> None:
        """To the last one."""
        self._go(self._count - 1)

    # -- drawing ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        start = (int(self.scroll_offset.y) + y) * self.columns
        base = self.rich_style
        if self._cells is None or start >= self._count:
            return Strip.blank(room(self), base)
        cells = self._cells.between(start, start + self.columns)
        dim = base + self.get_component_rich_style("bytes--dim", partial=True)
        lit = base + self.get_component_rich_style("bytes--field", partial=True)
        make = self._grid if self.form == "grid" else self._hex
        return strip(make(start, cells, base, dim, lit), room(self), base)

    def _is_lit(self, at: int) -> bool:
        return self._span is not None and self._span[0] <= at < self._span[1]

    def _style(self, at: int, base: Style, lit: Style) -> Style:
        """Of a byte: lit, or in the colour of its part; the one that keys go on from stands out while they do."""
        own = lit if self._is_lit(at) else base + theme.style_of(self.app, f"part-{self._parts.at(at)}")
        return own + Style(reverse=True) if self.has_focus and at == self._at else own

    def _grid(self, start: int, cells: list[str], base: Style, dim: Style, lit: Style) -> list[Piece]:
        pieces: list[Piece] = [(f"{start:>5}", dim)]
        end = start + len(cells)
        for at, cell in enumerate(cells, start):
            opens = self._is_lit(at) and not self._is_lit(at - 1)
            closed = self._is_lit(at - 1) and not self._is_lit(at) and at > start
            pieces.append(("[" if opens else "]" if closed else "|", lit if opens or closed else dim))
            pieces.append((f" {'0x' + cell if _is_hex(cell) else ' ' + cell + ' '} ", self._style(at, base, lit)))
        closes = self._is_lit(end - 1) and not self._is_lit(end)
        pieces.append(("]" if closes else "|", lit if closes else dim))
        pieces.append((" " + "".join(map(_letter, cells)), dim))
        return pieces

    def _hex(self, start: int, cells: list[str], base: Style, dim: Style, lit: Style) -> list[Piece]:
        pieces: list[Piece] = [(f"{start:>6} ", dim)]
        end = start + len(cells)
        for at, cell in enumerate(cells, start):
            pieces.append((cell, self._style(at, base, lit)))
            pieces.append((" ", lit if self._is_lit(at) and self._is_lit(at + 1) and at + 1 < end else base))
        pieces.append(("   " * (self.columns - len(cells)) + " ", base))
        letters = [(_letter(cell), lit if self._is_lit(at) else dim) for at, cell in enumerate(cells, start)]
        return pieces + [("".join(letter for letter, _ in run), style) for style, run in groupby(letters, key=lambda one: one[1])]

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()


def hex_width(columns: int) -> int:
    """Columns of the terminal for so many bytes a line."""
    return 7 + 3 * columns + 1 + columns


def _is_hex(cell: str) -> bool:
    return all(character in "0123456789abcdef" for character in cell)


def _letter(cell: str) -> str:
    byte = int(cell, 16) if _is_hex(cell) else 0
    return chr(byte) if 0x20 <= byte < 0x7F else "."
