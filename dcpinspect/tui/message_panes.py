"""The panes below or beside the list: title, findings, note, fields and bytes of one message."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.containers import Horizontal, Vertical

from dcpinspect.protocol.message import Message
from dcpinspect.text import clip, one_line, wrap
from dcpinspect.tui import theme
from dcpinspect.tui.byte_pane import BytePane
from dcpinspect.tui.field_links import Link
from dcpinspect.tui.field_tree import FieldTree
from dcpinspect.tui.frame import Line
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.line_view import LineView

ROOMY = 132
"""Width in columns from which 16 bytes a line fit beside the fields."""
SENTENCE = 3
"""Number of lines for a finding above the fields, if the screen is high enough."""
STACKED = 100
"""Width in columns below which panes beside the list stand one above the other."""


class MessagePanes(Vertical):
    """The panes of one message. A selection in the fields is shown in the bytes, and back."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self.fields = FieldTree(id="field-tree")
        self.bytes = BytePane(id="byte-pane")
        self.title = Line(id="message-title")
        self._why, self._note = Line(id="message-finding"), Line(id="message-note")
        divider = Line(id="byte-divider")
        self.details = Horizontal(self.fields, divider, self.bytes, id="details")
        super().__init__(self.title, self._why, self._note, self.details, id="lower")
        self._row, self._title = 0, ""

    def show(self, row: int, message: Message | None, links: dict[str, Link], title: str) -> None:
        """Shows another message."""
        self.fields.show(message, links)
        self.bytes.show(message)
        self._title = title
        self._entitle()
        self.show_finding(row)
        self.call_after_refresh(self._entitle)  # the finding may take a line of the fields

    def on_mount(self) -> None:
        """Keeps the title up to date with what is seen of the fields."""
        for name in ("scroll_y", "virtual_size"):
            self.watch(self.fields, name, self._entitle, init=False)

    def _entitle(self) -> None:
        """Writes the title, with the number of lines of fields that are below."""
        below = self.fields.below if self.fields.size.height else 0
        more = f" · {below:,} more below" if below else ""
        self.title.update(Text(f"── {clip(self._title, self.size.width - 4 - len(more))}{more} "))

    def show_finding(self, row: int) -> None:
        """Shows the findings about the message, and the note on it."""
        self._row = row
        finding = self._inspection.results.finding(row)
        is_effect = finding is not None and finding.effect_of is not None
        severity = "" if finding is None else "note" if is_effect else finding.severity
        self._why.set_classes(severity)
        more = len(self._inspection.results.marked.finding_numbers(row)) - 1
        glyphs, width = theme.glyphs_of(self.app), self.size.width - 1
        sign = glyphs.of_finding(finding)
        text = "" if finding is None else f"{finding.rule}: {one_line(finding.message)}"
        hint = f" (and {more} more; e shows them)" if more > 0 else ""
        lines = wrap(f"   {sign} {text}{hint}", width, " " * 5)
        most = SENTENCE if self.screen.has_class("-tall") else 1
        if len(lines) > most:
            lines[most - 1 :] = [clip(f"{lines[most - 1]} {lines[most].strip()}", width)]
        self._why.styles.height = len(lines)
        self._why.update(Text("\n".join(lines)))
        note = self._inspection.notes.text(row)
        self._note.set_class(bool(note), "on")
        self._note.update(Text(f"   {glyphs.remark} {one_line(note)}"))

    def fit(self, *, is_beside: bool) -> None:
        """Chooses 16 bytes a line if there is room, and puts bytes below the fields if they do not
        fit side by side.

        ``is_beside``: the panes are beside the list.
        """
        self.show_finding(self._row)
        self.call_after_refresh(self._entitle)
        width = self.details.size.width
        self.details.set_class(width >= ROOMY, "roomy")
        self.details.set_class(is_beside and width < STACKED, "stacked")

    @on(LineView.Moved)
    def _moved(self, event: LineView.Moved) -> None:
        event.stop()
        if event.view is self.fields:
            entry = self.fields.entry
            self.bytes.light(entry.span if entry is not None else None)
        else:
            self.fields.select_at(self.bytes.at)
