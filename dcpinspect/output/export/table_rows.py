"""Lines of messages with their field tables below, many at a time. Programs write the same text as
``render.field_table``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.dump_rows import DumpRows, ends_text
from dcpinspect.output.export.line_rows import LineRows
from dcpinspect.output.export.row_programs import (
    COLUMN,
    HEADER_CONSTANTS,
    WORDY,
    KindBuilder,
    Programs,
    datatype_of,
    encoding_of,
)
from dcpinspect.output.export.row_run import RowRun
from dcpinspect.output.render.field_table import (
    OFFSETS_WIDTH,
    REMARKED,
    FieldRow,
    field_rows,
    heading,
    label_width,
    message_title,
    row_line,
    value_text,
)
from dcpinspect.protocol.column_types import RowNumbers, numbers_at
from dcpinspect.protocol.datatype import SNAPPY, XATTR
from dcpinspect.protocol.fields import FieldKind
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import escape, shown_characters

SLICE = 1 << 12
"""Number of messages that are written at once: each takes some kilobytes."""
_INDENT = b"    "
_MOST_SHOWN = 0x20000
"""The characters of the first two planes, which include nearly all that are used."""

_FLAGGED = [
    [(HEADER_SIZE + spec.offset, spec.kind.size) for spec in layout.extras if spec.flags]
    for layout in LAYOUTS
]
"""For each layout, the numbers whose bits have lines of their own."""


_shown = functools.cache(shown_characters)


class TableRows:
    """Writes lines with field tables; remembers the kinds of messages that it has met."""

    def __init__(
        self,
        lines: LineRows,
        dumps: DumpRows | None,
        details: Callable[[MessageBatch, int], str],
        title: Callable[[str], str],
        limit: int | None,
    ) -> None:
        """``dumps``: writes lines with bytes below. ``details``: returns the text below one line,
        for messages that are not written here.

        ``title``: gives a title its style. ``limit``: as in ``field_table``.
        """
        self._lines, self._dumps, self._details = lines, dumps, details
        self._programs = _TablePrograms(title, limit, has_dumps=dumps is not None)
        self._limit = rt.UNLIMITED if limit is None else limit

    def pieces(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[bytes]:
        """Yields the lines of these messages and their tables in order, many in a piece."""
        times = self._lines.lines.shown_times(batch.time_ns[rows])
        for first in range(0, len(rows), SLICE):
            yield from self._written(
                batch, rows[first : first + SLICE], times[first : first + SLICE]
            )

    def _written(self, batch: MessageBatch, rows: RowNumbers, times: RowNumbers) -> Iterator[bytes]:
        def ordinary(place: int) -> bytes:
            index = int(rows[place])
            return (
                self._lines.ordinary(batch, index, int(times[place]))
                + self._details(batch, index).encode()
            )

        can_write = self._lines.is_for_kernel and (self._dumps is None or self._dumps.can_write)
        if not (can_write and rt.write_rows.is_compiled):
            yield from map(ordinary, range(len(rows)))
            return
        heads, ends = (self._lines if self._dumps is None else self._dumps).written(
            batch, rows, times
        )
        yield from _TableRun(self._programs, batch, rows, heads, ends, self._limit).pieces(ordinary)


class _TablePrograms(Programs):
    """Programs for the tables of messages, each below its line."""

    def __init__(self, title: Callable[[str], str], limit: int | None, *, has_dumps: bool) -> None:
        super().__init__()
        self._title, self._limit, self._has_dumps = title, limit, has_dumps

    def build(
        self, builder: KindBuilder, message: Message, batch: MessageBatch, index: int
    ) -> None:
        """Writes the program for the table of a message."""
        builder.add(rt.SPAN_COPY | rt.BESIDE, COLUMN["head_start"])
        if not self._has_dumps:  # dumps already include this line
            file = (
                f" of {escape(batch.files[int(batch.last_file[index])])}"
                if len(batch.files) > 1
                else ""
            )
            builder.add(rt.FRAGMENT, COLUMN["endpoints"])
            builder.add(rt.COLUMN, COLUMN["last_frame"])
            builder.text(f"{file}, stream offset ".encode())
            builder.add(rt.COLUMN, COLUMN["stream_offset"])
            builder.text(b"\n")
        rows = [list(field_rows(field, self._limit)) for field in message.fields]
        width = label_width(row for lines in rows for row in lines)
        _add_line(builder, self._title(message_title(message)))
        _add_line(builder, heading(width))
        for field, lines in zip(message.fields, rows, strict=True):
            if field.name == "key":
                self._add_key(builder, field, width)
            elif field.name == "value":
                self._add_value(builder, message, field, width)
            elif field.group:
                _add_line(builder, row_line(lines[0], width))
                for inner, line in zip(field.fields, lines[1:], strict=True):
                    self._add_number(builder, inner, line, width)
            elif field.name in HEADER_CONSTANTS or (
                field.spec is not None and field.spec.flags
            ):  # flags are part of the kind
                for line in lines:
                    _add_line(builder, row_line(line, width))
            else:
                self._add_number(builder, field, lines[0], width)
        builder.text(b"\n")

    def _add_number(
        self, builder: KindBuilder, field: FieldValue, line: FieldRow, width: int
    ) -> None:
        """Adds a line for a fixed-size number of the header or the layout."""
        spec = field.spec
        assert spec is not None, "numbers are described"
        builder.text(_INDENT + row_line((*line[:2], "\0"), width)[:-1].encode())
        if spec.values is not None or spec.words or spec.kind in WORDY:
            builder.look_up(field, self._look_up_text)
        else:
            builder.text(b"0x")
            builder.add(rt.HEX, field.offset, field.size)
            if spec.kind is FieldKind.CAS:
                builder.add(rt.CAS_REMARK, field.offset)
            elif spec.kind is FieldKind.TIME:
                builder.text(b" (")
                builder.add(rt.SECONDS, field.offset)
                builder.text(b")")
            elif spec.kind in REMARKED:
                builder.add(rt.REMARK, field.offset, field.size)
        builder.text(b"\n")

    def _add_key(self, builder: rt.ProgramBuilder, field: FieldValue, width: int) -> None:
        _add_start(builder, field, "key_at", width)
        builder.add(rt.SPAN_SHOWN, COLUMN["name_start"])
        if not field.fields:
            _add_end(builder, field.meaning)
            return
        collection, name = field.fields
        builder.text(b" (")
        builder.add(rt.FRAGMENT, COLUMN["collection_meaning"])
        builder.text(b")\n")
        _add_start(builder, collection, "id_at", width)
        builder.text(b"0x")
        builder.add(rt.SPAN_HEX, COLUMN["id_start"])
        builder.text(b" (")
        builder.add(rt.FRAGMENT, COLUMN["collection_meaning"])
        builder.text(b")\n")
        _add_start(builder, name, "name_at", width)
        builder.add(rt.SPAN_SHOWN, COLUMN["name_start"])
        _add_end(builder, None)

    def _add_value(
        self, builder: rt.ProgramBuilder, message: Message, field: FieldValue, width: int
    ) -> None:
        datatype = datatype_of(message)
        _add_start(builder, field, "value_at", width)
        if not datatype & (SNAPPY | XATTR):
            builder.add(rt.SPAN_SHOWN, COLUMN["value_start"])
            _add_end(builder, encoding_of(message).decode())
            return
        if datatype & SNAPPY:
            builder.text(b"snappy, ")
            builder.add(rt.COLUMN, COLUMN["content_length"])
            builder.text(b" bytes inflated, ")
        inner_fields = list(field.fields)
        if datatype & XATTR:
            xattrs = inner_fields.pop(0)
            count = len(xattrs.fields)
            builder.text(
                f"{count} xattr{'s' if count != 1 else ''}{', ' if inner_fields else ''}".encode()
            )
        builder.text((encoding_of(message) if inner_fields else b"") + b"\n")
        if datatype & XATTR:
            _add_start(builder, xattrs, "xattrs_at", width)
            builder.text(escape(xattrs.meaning or "").encode() + b"\n")
            builder.add(rt.XATTRS | rt.BESIDE, COLUMN["xattrs_start"], width)
        for body in inner_fields:
            _add_start(builder, body, "body_at", width)
            builder.add(rt.SPAN_SHOWN | rt.BESIDE, COLUMN["body_start"])
            _add_end(builder, encoding_of(message).decode())

    # -- texts that programs look up

    def _look_up_text(self, field: FieldValue) -> bytes:
        """Returns a number with its meaning."""
        return value_text(field, self._limit).encode()

    def endpoints_text(self, connection: int, direction: int, batch: MessageBatch) -> bytes:
        """Returns both addresses in the form below a line."""
        return ends_text(batch, connection, direction).encode()

    def collection_text(self, text: str) -> bytes:
        """Returns a text that is safe for a terminal."""
        return escape(text).encode()


def _add_line(builder: rt.ProgramBuilder, line: str) -> None:
    builder.text(_INDENT + line.encode() + b"\n")


def _add_start(builder: rt.ProgramBuilder, field: FieldValue, at: str, width: int) -> None:
    """Adds a line up to its value. ``at``: the column with the place of the field; the next column
    has its size.
    """
    label = "  " * field.depth + field.label
    builder.text(_INDENT + f"{label:<{width}} ".encode() + (b"~" if field.inflated else b""))
    builder.add(rt.OFFSETS, COLUMN[at], OFFSETS_WIDTH - field.inflated)
    builder.text(b": ")


def _add_end(builder: rt.ProgramBuilder, meaning: str | None) -> None:
    """Adds the end of a line, whose text may end with blanks."""
    builder.text(f" ({escape(meaning)})".encode() if meaning else b"")
    builder.add(rt.LINE_END, 0)


class _TableRun(RowRun):
    """Writes the tables of messages."""

    def __init__(
        self,
        programs: _TablePrograms,
        batch: MessageBatch,
        rows: RowNumbers,
        heads: ByteArray,
        ends: IntArray,
        limit: int,
    ) -> None:
        """``heads``: the texts above the tables; each ends at its place in ``ends``, which is -1 if
        its message is written in the ordinary way.
        """
        self._heads, self._ends = heads, ends
        self.shows = (_shown(_MOST_SHOWN), limit)
        super().__init__(programs, batch, rows)

    def prepare(self) -> None:
        """Puts the texts above the tables beside the buffer."""
        self._side += self._heads.tobytes()
        self._plain &= self._ends >= 0
        stops = np.maximum.accumulate(np.maximum(self._ends, 0))
        starts = np.concatenate(([0], stops[:-1]))
        self._set("head_start", starts)
        self._set("head_size", np.where(self._ends >= 0, stops - starts, 0))

    def shape(self, members: RowNumbers) -> list[RowNumbers]:
        """Adds flags and widths of xattr names to the columns, because their lines change the width
        of labels, and whether files are named.
        """
        batch, rows = self._batch, self._rows[members]
        start, flagged = batch.start[rows], _FLAGGED[int(batch.decoded.layout[rows[0]])]
        flags = [
            numbers_at(batch.data, start + offset, size).astype(np.int64)
            for offset, size in flagged
        ]
        return [
            *super().shape(members),
            np.full(len(members), len(batch.files) > 1),
            self._widest[members],
            *flags,
        ]
