"""All streams as a table, which can be sorted by any column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip

from dcpinspect.arrays import IntArray
from dcpinspect.findings.finding import Finding
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.shape import unread
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.protocol.message import Severity
from dcpinspect.tables.record_tables import Records, WordColumn
from dcpinspect.text import cells, clip, escape
from dcpinspect.tui import theme
from dcpinspect.tui.strips import LineView, Piece, strip, visible_width
from dcpinspect.tui.theme import Glyphs

Key = tuple[int, int, int, int]
"""Identifies a stream: connection, vbucket, stream-id (-1 for none), ordinal."""

GUTTER = 3
_FIXED = 2
"""Number of columns that are always visible."""
WIDE = 100


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    name: str
    """Name of the column in the table of streams."""
    title: str
    width: int
    is_wide: bool = False
    """Whether the column is shown only if there is room."""
    is_left: bool = False


COLUMNS = (
    Column("connection", "con", 4),
    Column("vbucket", "vb", 5),
    Column("sid", "sid", 5),
    Column("stream", "#", 3),
    Column("verdict", "state", 12, is_left=True),
    Column("requested_start", "from", 9, is_wide=True),
    Column("first_seqno", "first", 9, is_wide=True),
    Column("last_seqno", "last", 9),
    Column("items", "items", 8),
    Column("snapshots", "snaps", 6),
    Column("gaps", "gaps", 5),
    Column("rollback_seqno", "back to", 8, is_wide=True),
    Column("open_row", "row", 8, is_wide=True),
    Column("end_reason", "ended", 17, is_left=True),
)
"""All columns; the last one takes the rest of the width."""


class StreamTable(LineView, can_focus=True, inherit_bindings=False):
    """One line per stream, with a cursor on a cell."""

    HEAD = 1

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self.records: Records | None = None
        self._bad: dict[tuple[int, int], set[Severity]] = {}
        self._order: IntArray = np.zeros(0, np.int64)
        self._column = 0
        self._sorted: Column | None = None
        self._is_down = False

    # -- what is shown
    # ------------------------------------------------------------------------------------

    def show(self, records: Records | None, findings: Sequence[Finding]) -> None:
        """Shows the results so far; the cursor stays on its stream."""
        key = self.key
        self.records = records
        bad = [
            (finding.severity, case)
            for finding in findings
            if finding.severity != "note"
            for case in finding.case_of_each
            if case.vbuckets
        ]
        self._bad = {}
        for severity, case in bad:
            for vbucket in case.vbuckets:
                self._bad.setdefault((case.connections[0], vbucket), set()).add(severity)
        self._arrange(key)

    def _arrange(self, here: Key | None) -> None:
        records = self.records
        if records is None:
            return
        rows = np.arange(len(records))
        if self._sorted is not None:
            rank = _rank(records, self._sorted.name)[rows]
            rows = rows[np.argsort(-rank if self._is_down else rank, kind="stable")]
        self._order = rows
        line = None if here is None else self._place_of(here, rows)
        self.virtual_size = Size(visible_width(self), 1 + len(rows))
        self.set_cursor(min(self.at, max(0, len(rows) - 1)) if line is None else line)

    def _place_of(self, key: Key, chosen: IntArray) -> int | None:
        assert self.records is not None, "there are rows"
        connection, vbucket, sid, stream = key
        candidates = np.ones(len(self.records), np.bool_)
        for name, value in (
            ("vbucket", vbucket),
            ("connection", connection),
            ("sid", None if sid < 0 else sid),
            ("stream", stream),
        ):
            is_equal = np.zeros(len(self.records), np.bool_)
            is_equal[_equal(self.records, name, value)] = True
            candidates &= is_equal
        lines = np.flatnonzero(candidates[chosen])
        return int(lines[0]) if len(lines) else None

    @property
    def columns(self) -> list[Column]:
        """Columns that fit into the width and have values."""
        is_wide = visible_width(self) >= WIDE
        has_sid = self.records is not None and self.records.has_values("sid")
        fitting_columns = [
            column
            for column in COLUMNS
            if (is_wide or not column.is_wide) and (has_sid or column.name != "sid")
        ]
        taken = GUTTER + sum(column.width + 1 for column in fitting_columns[:-1])
        return [
            *fitting_columns[:-1],
            replace(
                fitting_columns[-1],
                width=max(fitting_columns[-1].width, visible_width(self) - taken),
            ),
        ]

    @property
    def _drawn(self) -> list[Column]:
        """Columns that are visible: the first two, and the others from the one that brings the
        cursor's column into view.
        """
        columns, cursor = self.columns, self.column
        width = _FIXED
        while columns.index(cursor) > width and GUTTER + sum(
            column.width + 1
            for column in (*columns[:_FIXED], *columns[width : columns.index(cursor) + 1])
        ) > max(visible_width(self), 1):
            width += 1
        return [*columns[:_FIXED], *columns[width:]]

    @property
    def column(self) -> Column:
        """Column under the cursor."""
        columns = self.columns
        return columns[min(self._column, len(columns) - 1)]

    def __len__(self) -> int:
        return len(self._order)

    @property
    def stream(self) -> Mapping[str, Any] | None:
        """Stream under the cursor, by column name."""
        return self._stream(int(self._order[self.at])) if self.at < len(self._order) else None

    def _stream(self, row: int) -> Mapping[str, Any]:
        assert self.records is not None, "there are rows"
        record = self.records.take(np.array([row]))
        return {column.name: record.values(column.name)[0] for column in record.table.columns}

    @property
    def key(self) -> Key | None:
        """Key of the stream under the cursor."""
        return self._key(int(self._order[self.at])) if self.at < len(self._order) else None

    def _key(self, row: int) -> Key:
        assert self.records is not None, "there are rows"
        record = self.records.take(np.array([row]))
        connection, vbucket, sid, stream = (
            record.values(name)[0] for name in ("connection", "vbucket", "sid", "stream")
        )
        return connection, vbucket, -1 if sid is None else sid, stream

    def severity(self, connection: int, vbucket: int) -> Severity | None:
        """Returns the severity of the worst finding about a vbucket on a connection."""
        severities = self._bad.get((connection, vbucket), set())
        return "error" if "error" in severities else "warning" if severities else None

    def sort(self, column: Column | None = None) -> None:
        """Sorts by a column, or by the column under the cursor.

        The second time sorts in falling order, the third restores the original order.
        """
        column = column or self.column
        if self._sorted is None or self._sorted.name != column.name:
            self._sorted, self._is_down = column, False
        elif not self._is_down:
            self._is_down = True
        else:
            self._sorted = None
        self._arrange(self.key)

    # -- the cursor
    # ---------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of shown streams."""
        return len(self._order)

    def select(self, vbucket: int) -> None:
        """Moves the cursor to the first shown stream of a vbucket."""
        if self.records is not None:
            stream_rows = set(_equal(self.records, "vbucket", vbucket).tolist())
            line = next(
                (line for line, row in enumerate(self._order.tolist()) if row in stream_rows), None
            )
            if line is not None:
                self.set_cursor(line)

    def select_key(self, key: Key) -> None:
        """Moves the cursor to a stream, if it is shown."""
        self._arrange(key)

    @property
    def in_order(self) -> Records:
        """The streams as they are sorted."""
        assert self.records is not None, "there are rows"
        return self.records.take(self._order)

    def is_bad(self, place: int) -> bool:
        """Whether there is an error or a warning about the vbucket of a stream."""
        if not self._bad:
            return False
        connection, vbucket, _, _ = self._key(int(self._order[place]))
        return self.severity(connection, vbucket) is not None

    def action_fold(self) -> None:
        """Moves the cursor one column to the left."""
        self._column = max(0, min(self._column, len(self.columns) - 1) - 1)
        self.refresh()

    def action_unfold(self) -> None:
        """Moves the cursor one column to the right."""
        self._column = min(len(self.columns) - 1, self._column + 1)
        self.refresh()

    def clicked(self, event: events.Click) -> None:
        """Sorts by the clicked heading, or selects the clicked stream; a second click opens the
        stream.
        """
        edge, column_number = GUTTER, self._column
        for column in self._drawn:
            if edge <= event.x < edge + column.width:
                column_number = self.columns.index(column)
            edge += column.width + 1
        self._column = column_number
        if event.y == 0:
            self.sort()
        else:
            super().clicked(event)

    # -- drawing
    # ------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Shows as many columns as fit."""
        self.virtual_size = Size(visible_width(self), 1 + len(self))
        if len(self):
            self.bring()

    def render_line(self, y: int) -> Strip:
        """Draws one visible line; the heading always stays at the top."""
        base = self.rich_style
        heading = self.dim_style()
        if y == 0:
            pieces: list[Piece] = [(" " * GUTTER, heading)]
            for column in self._drawn:
                mark = (
                    ("↓" if self._is_down else "↑")
                    if self._sorted is not None and column.name == self._sorted.name
                    else ""
                )
                text = clip(f"{column.title}{mark}", column.width)
                style = heading + Style(bold=True, underline=column == self.column)
                pieces += [(_padded(column, text), style), (" ", heading)]
            return strip(pieces, visible_width(self), heading)
        line = int(self.scroll_offset.y) + y - 1
        if line >= len(self):
            words = "no streams so far" if y == 1 and not len(self) else ""
            return strip([(f" {words}", base)], visible_width(self), base)
        return self._line(line, base)

    def _line(self, place: int, base: Style) -> Strip:
        assert self.records is not None, "there are rows"
        stream = self._stream(int(self._order[place]))
        is_here = place == self.at
        style = base + self.cursor_style() if is_here else base
        severity = self.severity(stream["connection"], stream["vbucket"])
        sign = style
        if severity is not None:
            color = theme.style_of(self.app, f"severity-{severity}")
            sign = (
                theme.sign_on_cursor(color, base) if is_here else style + color + Style(bold=True)
            )
        pieces: list[Piece] = [
            (self._glyphs.cursor if is_here else " ", style),
            (f"{self._glyphs.of_severity(severity)} ", sign),
        ]
        for column in self._drawn:
            cell_style = style + Style(reverse=True) if is_here and column == self.column else style
            pieces += [
                (
                    _padded(column, clip(_text(column, stream[column.name]), column.width)),
                    cell_style,
                ),
                (" ", style),
            ]
        return strip(pieces, visible_width(self), style)


def about_stream(stream: Mapping[str, Any] | None) -> str:
    """Describes a stream in words: the request, the answer, and what happened."""
    if stream is None:
        return ""
    sid = "" if stream["sid"] is None else f" sid {stream['sid']}"
    phrases = [
        (
            f"stream #{stream['stream']}{sid} of vbucket {stream['vbucket']}, connection "
            f"{stream['connection']}"
        )
    ]
    if stream["requested_start"] is None:
        phrases.append(f"row {stream['open_row']}: {unread(stream)}")
    else:
        end = "no end" if stream["requested_end"] == ENDLESS else f"to {stream['requested_end']}"
        uuid = f", uuid 0x{stream['vbucket_uuid']:016x}" if stream["vbucket_uuid"] else ""
        flags = f", {', '.join(stream['request_flags'])}" if stream["request_flags"] else ""
        phrases.append(
            f"row {stream['open_row']}: from {stream['requested_start']}, {end}{uuid}{flags}"
        )
    answer = (
        f"rollback to {stream['rollback_seqno']}"
        if stream["rollback_seqno"] is not None
        else escape(stream["status"] or "")
    )
    phrases += [f"answer {answer or stream['answer']}", str(stream["verdict"])]
    if stream["end_reason"] is not None:
        phrases.append(f"ended: {escape(stream['end_reason'])}")
    return " · ".join(phrases)


def _padded(column: Column, text: str) -> str:
    padding = " " * max(0, column.width - cells(text))
    return text + padding if column.is_left else padding + text


def _text(column: Column, value: Any) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,}"
        if isinstance(value, int) and column.name in ("items", "snapshots", "gaps")
        else escape(str(value))
    )


def _equal(records: Records, name: str, value: Any) -> IntArray:
    """Returns the rows that have a value in a column."""
    column = records.columns[name]
    if isinstance(column, NumberColumn):
        is_known = np.ones(len(records), np.bool_) if column.valid is None else column.valid
        return np.flatnonzero(~is_known if value is None else is_known & (column.values == value))
    return records.rows_with(name, value)


def _rank(records: Records, name: str) -> IntArray:
    """Returns ranks with the order of a column's values; null has the lowest rank."""
    column = records.columns[name]
    if isinstance(column, NumberColumn):
        ranks = np.unique(column.values, return_inverse=True)[1].reshape(-1) + 1
        return ranks if column.valid is None else np.where(column.valid, ranks, 0)
    if isinstance(column, WordColumn):
        order = {
            code: rank
            for rank, code in enumerate(
                sorted(range(len(column.words)), key=lambda code: str(column.words[code])), 1
            )
        }
        return np.array([order.get(code, 0) for code in column.codes.tolist()], np.int64)
    texts = np.array(["" if value is None else f"{value:>20}" for value in records.values(name)])
    return np.unique(texts, return_inverse=True)[1].reshape(-1)
