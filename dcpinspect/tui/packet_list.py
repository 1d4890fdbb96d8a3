"""The list of messages. It reads only the visible ones of millions of messages from the store."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive

from dcpinspect.errors import DcpInspectError
from dcpinspect.output.render.message_lines import ALL_KNOWN, Lines, TimeFormat
from dcpinspect.output.render.palette import KINDS, message_kinds
from dcpinspect.tables.color_rules import ColorRules
from dcpinspect.tables.column_kinds import ColumnKind
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.text import cells, clip, escape
from dcpinspect.tui import theme
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.line_view import LineView, Piece, visible_width
from dcpinspect.tui.row_index import RowIndex

PAGE = 32
"""Number of rows that are looked up at once."""
PAGES = 64
"""Number of pages that are kept in memory."""
_KINDS = list(KINDS)
GUTTER = 3
SUMMARY = 16
"""Columns of a summary that the name of a rule does not cover: a number that is cut is another."""
LEAST_TITLE = 12
"""Least width of the names of messages in a list that has no room for times, in columns."""
NARROW = 140
"""Width in columns below which opaque and size, which the fields show, are left out."""


def width(name: str) -> int:
    """Returns the width, in terminal columns, of a column of the messages table."""
    return min(max(len(name), _WIDTHS.get(BY_NAME[name].kind, 10)), 30)


_WIDTHS: dict[ColumnKind, int] = {
    "text": 16,
    "word": 16,
    "words": 16,
    "hex64": 18,
    "u64": 14,
    "time": 30,
    "bytes": 24,
    "records": 30,
}


def cell_text(value: Any, kind: ColumnKind, wide: int) -> str:
    """Returns a value as text of ``wide`` columns behind two blanks; safe for a terminal."""
    if value is None:
        text = ""
    elif kind == "hex64" and isinstance(value, int):
        text = f"0x{value:016x}"
    elif isinstance(value, bytes):
        text = value[:wide].hex()
    elif isinstance(value, list):
        text = escape(", ".join(map(str, value[:wide])))
    else:
        text = escape(str(value)[: 4 * wide])
    text = clip(text, wide)
    blanks = " " * (wide - cells(text))
    return f"  {blanks}{text}" if isinstance(value, int) else f"  {text}{blanks}"


class Line(NamedTuple):
    """The line of one message."""

    row: int
    text: str
    kind: str
    """Kind of the message, as the palette names it."""
    color: str = ""
    """Colour that a rule of the user gives; empty for none."""


class PacketList(LineView, can_focus=True, inherit_bindings=False):
    """Messages, one per line. The cursor is bound to a row, not to a line."""

    follow: reactive[bool] = reactive(False)

    class Changed(Message):
        """Sent when there are more rows, or other rows."""

    def __init__(self, inspection: Inspection, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._inspection = inspection
        self.index = RowIndex()
        self._first = 1
        self.row = 0
        """Row of the cursor; 0 if there is no row."""
        self.columns: list[str] = []
        """Columns of the messages table that are shown after the line."""
        self.color_rules: ColorRules | None = None
        """Colour rules of the user."""
        self.time_form: TimeFormat = "relative"
        """What the time column shows."""
        self._lines = Lines(width=80)
        self._fitted: object = None
        """What the columns fit; None if they have to be fitted again."""
        self._pages: LRUCache[int, list[Line]] = LRUCache(PAGES)

    # -- what is shown

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self.index)

    @property
    def heading(self) -> str:
        """The heading above the columns."""
        self._fit_columns()
        heading = self._lines.heading()
        if not self.columns:
            return " " * GUTTER + heading
        more = "".join(
            f"  {clip(column, width(column)):<{width(column)}}" for column in self.columns
        )
        return f"{' ' * GUTTER}{heading:<{self._line_width}}{more}"

    @property
    def _line_width(self) -> int:
        """Width of the line itself, without added columns, in terminal columns."""
        return max(
            20, visible_width(self) - GUTTER - sum(2 + width(column) for column in self.columns)
        )

    def toggle_column(self, name: str) -> None:
        """Adds a column after the line, or removes it."""
        if name in self.columns:
            self.columns.remove(name)
        else:
            self.columns.append(name)
        self.remake()

    def remake(self) -> None:
        """Makes all lines again, for the current width and settings."""
        self._new_lines()
        self.refill()

    def _new_lines(self) -> None:
        self._lines = Lines(self.time_form, width=self._line_width, narrow=NARROW)
        self._fitted = None

    def _fit_columns(self) -> None:
        """Makes the columns as narrow as their content; fits them again while few rows are known,
        and once all are read.
        """
        count, inspection = min(self.count, ALL_KNOWN), self._inspection
        is_read = inspection.state != "reading" and count == ALL_KNOWN
        if self._fitted == (count, is_read):
            return
        self._pages.clear()
        self._fitted = count, is_read
        # all rows are known once all are read: of many, the last has the greatest row and time
        lines = [*range(count - 2), self.count - 1] if is_read else range(count)
        first_ns = inspection.reading.first_time_ns
        try:
            batch = inspection.store.messages([self.index.row(line) for line in lines])
        except (DcpInspectError, IndexError, OSError):  # as in _made; the columns stay as they are
            return
        if first_ns is not None:
            self._lines.start_at(first_ns)
        self._lines.fit(batch, np.arange(len(lines)))
        table = inspection.results.records.get("vbuckets")
        if is_read and table is not None:
            greatest = max((seqno or 0 for seqno in table.values("last_seqno")), default=0)
            width = max(len(str(greatest)), self._lines.columns.seqno)
            self._lines.columns = self._lines.columns._replace(seqno=width)
        if (
            self._lines.summary_at > self._line_width
        ):  # beside the fields, vbuckets have to be whole
            self._lines.time_width = 0
            title = self._lines.columns.title - max(0, self._lines.summary_at - self._line_width)
            self._lines.columns = self._lines.columns._replace(title=max(LEAST_TITLE, title))

    def show(self, index: RowIndex) -> None:
        """Shows other rows. The cursor stays on its row, or moves to the next that is shown."""
        self.index = index
        self.refill()
        self._keep_cursor()
        self.scroll_to_cursor(is_centred=True)

    def _keep_cursor(self) -> None:
        """Moves the cursor to the next row that is shown, if its own is not."""
        if self.row <= self.index.scanned and not self.index.has(self.row):
            self.move_to(self.index.place_of(self.row))

    def refill(self) -> None:
        """Makes all pages again, because the rows have changed."""
        self._pages.clear()
        self._fitted = None
        self._resize()
        self.refresh()
        self.post_message(self.Changed())

    def forget_before(self, row: int) -> None:
        """Removes the rows before ``row``, which the store dropped. A cursor on one of them moves
        to the first row that is left.
        """
        if row <= self._first:
            return
        gone = self.index.place_of(row)
        self._first = row
        self.index.drop(row)
        self._inspection.notes.drop_before(row)
        self.refill()
        self.scroll_to(
            y=max(0, int(self.scroll_offset.y) - gone), animate=False, immediate=True, force=True
        )
        self._keep_cursor()

    def grown(self) -> None:
        """Shows the rows that were added at the end."""
        before = int(self.virtual_size.height)
        self._pages.discard(max(0, before - 1) // PAGE)
        self._resize()
        self.post_message(self.Changed())
        self._keep_cursor()
        if self.follow and self.count:
            self.move_to(self.count - 1)
        top = int(self.scroll_offset.y)
        if before < top + self.size.height:
            self.refresh()

    def _resize(self) -> None:
        self.virtual_size = Size(visible_width(self), self.count)

    # -- the cursor

    def _line_of_cursor(self) -> int:
        return self.index.place_of(self.row) if self.row else 0

    def _move_cursor(self, place: int) -> None:
        self.row = self.index.row(place)

    at = property(_line_of_cursor, _move_cursor)

    def move_to(self, place: int) -> None:
        """Moves the cursor to a line."""
        if self.count:
            self._set_row(self.index.row(min(max(place, 0), self.count - 1)), is_centred=False)

    def jump_to(self, row: int) -> None:
        """Moves the cursor to a row, or to where it will be once it is listed."""
        self._set_row(row, is_centred=True)

    def _set_row(self, row: int, *, is_centred: bool) -> None:
        before, top = self.row, int(self.scroll_offset.y)
        if row != before:
            self.row = row
            self.post_message(self.Moved(self))
        self.scroll_to_cursor(is_centred=is_centred)
        if before and int(self.scroll_offset.y) == top:
            for changed_row in (before, row):  # all other lines stay as they are
                self.refresh_line(self.index.place_of(changed_row))
        else:
            self.refresh()

    def action_last(self) -> None:
        """Moves the cursor to the last row, and follows new rows while the capture is read."""
        self.move_to(self.count - 1)
        self.follow = self._inspection.state == "reading"

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to a line, and follows no longer."""
        self.follow = False
        self.move_to(place)

    # -- drawing

    def fit(self) -> None:
        """Makes the lines for the width."""
        self.remake()
        if self.row:
            self.scroll_to_cursor()

    def empty_line(self, line: int) -> str:
        """Returns a line of why there are no rows."""
        lines = textwrap.wrap(self.why_empty, max(20, visible_width(self) - 4))
        return f"  {lines[line]}" if line < len(lines) else ""

    def pieces(self, place: int, part: int, style: Style) -> Iterator[Piece]:
        """Yields signs, and the line of a message."""
        del part
        row, text, kind, color = self._line(place)
        finding = self._inspection.results.finding(row)
        is_here = place == self.at
        paint = Style(color=color) if color else theme.style_of(self.app, f"kind-{kind}")
        style = self.rich_style + paint
        style += self.cursor_style() if is_here else Style()
        sign_style = style
        if finding is not None and finding.effect_of is None:
            sign_style = self.sign_style(finding.severity, style, is_here=is_here)
        notes = self._inspection.notes
        note = notes.text(row)
        mark = self._glyphs.remark if note else self._glyphs.mark if row in notes.of else " "
        mark_style = style if is_here else style + theme.style_of(self.app, "chart-bar")
        yield self._glyphs.of_finding(finding), sign_style
        yield mark, mark_style
        rule = f" {finding.rule} " if finding is not None and finding.severity != "note" else ""
        width, at_end = visible_width(self) - GUTTER, ("", style)
        if rule and width - len(rule) >= min(cells(text), self._lines.summary_at + SUMMARY):
            at_end = rule, sign_style
        elif note and width > self._lines.summary_at:
            remark = f" {self._glyphs.remark} {note} "
            at_end = clip(remark, max(width - self._lines.summary_at, width // 3)), mark_style
        if at_end[0]:
            text = clip(text, width - cells(at_end[0]))
            text += " " * (width - cells(at_end[0]) - cells(text))
        yield text, style
        yield at_end

    @property
    def why_empty(self) -> str:
        """Why there are no rows, in words."""
        inspection = self._inspection
        if self.index.is_filtered and inspection.store.rows:
            return (
                f"no row matches; {inspection.store.rows:,} are hidden by the filter (Esc "
                "clears it)"
            )
        if inspection.state == "reading":
            return "no messages so far"
        return inspection.error or inspection.nothing or "there are no messages"

    def _line(self, place: int) -> Line:
        if self._lines.width != self._line_width:  # the scrollbar has appeared or gone
            self._pages.clear()
            self._new_lines()
        self._fit_columns()
        number, offset = divmod(place, PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._made(self.index.rows(number * PAGE, (number + 1) * PAGE).tolist())
            self._pages[number] = page
        return page[offset] if offset < len(page) else Line(0, "", "item")

    def _made(self, rows: list[int]) -> list[Line]:
        try:
            batch = self._inspection.store.messages(rows)
            lines = [
                self._narrow_line(batch, index, ns) for index, ns in enumerate(self._times(batch))
            ]
            if self.columns:
                lines = [
                    f"{line}{' ' * (self._line_width - cells(line))}{more}"
                    for line, more in zip(lines, self._cells(rows), strict=True)
                ]
            names = [_KINDS[kind] for kind in message_kinds(batch.decoded).tolist()]
            return [
                Line(*fields)
                for fields in zip(rows, lines, names, self._colors_of(batch), strict=True)
            ]
        except (
            DcpInspectError,
            IndexError,
            OSError,
        ) as error:  # the file has changed, or a live capture has dropped the rows
            return [Line(row, f"{row:>9} {error}", "refusal") for row in rows]

    def _narrow_line(self, batch: MessageBatch, index: int, shown_ns: int | None) -> str:
        """Returns the line of a message. Where lines are narrow and it has no vbucket and no seqno,
        its summary has their room.
        """
        lines = self._lines
        text, end = lines.line_of(lines.cells(batch, index, shown_ns)), lines.summary_at
        begin = end - lines.columns.vbucket - lines.columns.seqno - 2
        if lines.is_narrow and not text[begin - 1 : end].strip():
            text = text[:begin] + text[end:]
        return clip(text, self._line_width).rstrip()

    def _times(self, batch: MessageBatch) -> list[int | None]:
        """Returns what the time column shows for each message of the batch."""
        times = batch.time_ns
        if self.time_form == "request":
            return [batch.rtt_ns.value_at(index) for index in range(len(batch))]
        shown_times = times
        if self.time_form == "delta":
            line = self.index.place_of(int(batch.row[0]))
            shown_times = np.diff(
                times,
                prepend=self._inspection.store.messages([self.index.row(line - 1)]).time_ns
                if line
                else times[:1],
            )
        elif self.time_form == "relative":
            first = self._inspection.reading.first_time_ns
            shown_times = times - (times[0] if first is None else first)
        return [int(time_ns) for time_ns in shown_times]

    def _colors_of(self, batch: MessageBatch) -> list[str]:
        """Returns the colour that the user's rules give to each message; empty for none."""
        if self.color_rules is None:
            return [""] * len(batch)
        colors = ["", *self.color_rules.colors]
        return [
            colors[number]
            for number in self.color_rules.numbers(batch, np.arange(len(batch))).tolist()
        ]

    def _cells(self, rows: list[int]) -> list[str]:
        """Returns the texts of the added columns for each row."""
        taken = self._inspection.store.batch_of(rows, self.columns)
        columns = [
            [cell_text(value, BY_NAME[name].kind, width(name)) for value in column.to_pylist()]
            for name, column in zip(self.columns, taken.columns, strict=True)
        ]
        return ["".join(row_cells) for row_cells in zip(*columns, strict=True)]

    def text_of(self, row: int) -> str:
        """Returns the line of a row as text, even if the filter hides the row."""
        return self._made([row])[0].text
