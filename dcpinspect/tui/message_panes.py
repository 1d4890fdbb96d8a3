"""What is below or beside the list: title, findings and note of one message, its fields, its bytes."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from dcpinspect.escape import clip, escape, one_line
from dcpinspect.protocol.message import Message
from dcpinspect.tui.byte_pane import BytePane
from dcpinspect.tui.divider import Divider
from dcpinspect.tui.field_tree import FieldTree
from dcpinspect.tui.frame import Line
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.links import Link
from dcpinspect.tui.strips import wrapped
from dcpinspect.tui.theme import Glyphs

ROOMY = 132
"""Columns from which there is room for 16 bytes a line beside the fields."""
SENTENCE = 3
"""Lines that a finding has above the fields, where the screen has room for so many."""
STACKED = 100
"""Columns below which fields and bytes do not fit beside each other, where both stand beside the list."""


class MessagePanes(Vertical):
    """One message. Fields and bytes are linked both ways."""

    def __init__(self, inspection: Inspection, glyphs: Glyphs) -> None:
        super().__init__(id="lower")
        self._inspection = inspection
        self._glyphs = glyphs
        self.fields = FieldTree(glyphs, id="field-tree")
        self.bytes = BytePane(id="byte-pane")
        self.details = Horizontal(id="details")
        self.title = Divider(id="message-title")
        self._why, self._note = Line(id="message-finding"), Line(id="message-note")
        self._between = Divider(id="byte-divider")
        self._row = 0
        self._share: float | None = None
        """The part of the room that the fields have, once somebody has dragged what is between them and the bytes."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.title
        yield self._why
        yield self._note
        with self.details:
            yield self.fields
            yield self._between
            yield self.bytes

    def show(self, row: int, message: Message | None, links: dict[str, Link], title: str) -> None:
        """Another message."""
        self.fields.show(message, links)
        self.bytes.show(message)
        self.bytes.light(self.fields.span)
        self.title.update(Text(f"── {title} "))
        self.tell(row)

    def tell(self, row: int) -> None:
        """What was found of the message, and the note on it."""
        self._row = row
        found = self._inspection.results.finding(row)
        for severity in ("error", "warning", "note"):
            self._why.set_class(found is not None and found.severity == severity, severity)
        more = len(self._inspection.results.marked.of(row)) - 1
        text = "" if found is None else f"{found.rule}: {one_line(found.message)}"
        lines = wrapped(f"{text}{f' (and {more} more; e shows them)' if more > 0 else ''}", self.size.width - 6)
        most = SENTENCE if self.screen.has_class("-tall") else 1
        if len(lines) > most:
            lines[most - 1 :] = [clip(f"{lines[most - 1]} {lines[most]}", self.size.width - 6)]
        self._why.styles.height = len(lines)
        sign = self._glyphs.of(found.severity if found is not None else None)
        self._why.update(Text("\n".join(f"   {'' if number else sign:<1} {line}" for number, line in enumerate(lines))))
        note = self._inspection.notes.text(row)
        self._note.set_class(bool(note), "on")
        self._note.update(Text(f"   {self._glyphs.remark} {escape(note)}"))

    def fit(self, *, is_beside: bool) -> None:
        """Bytes are 16 a line where there is room, and stand below the fields where both do not fit. ``is_beside``: beside the list."""
        self.tell(self._row)
        width = self.details.size.width
        self.details.set_class(width >= ROOMY, "roomy")
        self.details.set_class(is_beside and width < STACKED, "stacked")
        if self._share is not None:
            is_stacked = self.details.has_class("stacked")
            for pane, share in ((self.fields, self._share), (self.bytes, 1 - self._share)):
                pane.styles.width = "1fr" if is_stacked else f"{share}fr"
                pane.styles.height = f"{share}fr" if is_stacked else "1fr"
                pane.styles.max_width = "100%"

    def change_form(self, *, is_narrow: bool) -> None:
        """Bytes as hex or as the specification's grid; ``is_narrow``: there is room for fields or bytes only, and they take turns."""
        shows_bytes = self.details.has_class("bytes") or not is_narrow
        if is_narrow and (not shows_bytes or self.bytes.form == "grid"):
            self.details.toggle_class("bytes")
        if shows_bytes:
            self.bytes.form = "hex" if self.bytes.form == "grid" else "grid"
        self.details.set_class(self.bytes.form == "grid", "grid")

    @on(Divider.Dragged, "#byte-divider")
    def _dragged(self, event: Divider.Dragged) -> None:
        event.stop()
        is_stacked = self.details.has_class("stacked")
        self._share = event.share(self.details, is_across=not is_stacked)
        self.fit(is_beside=is_stacked)

    @on(FieldTree.Selected)
    def _selected(self, event: FieldTree.Selected) -> None:
        self.bytes.light(event.span)

    @on(BytePane.Picked)
    def _picked(self, event: BytePane.Picked) -> None:
        self.fields.select_at(event.offset)
