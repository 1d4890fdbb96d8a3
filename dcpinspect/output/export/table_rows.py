"""Lines of messages with their field tables below, many at a time. Programs write the same text as
``render.field_table``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.dump_rows import DumpRows, ends_text, file_text
from dcpinspect.output.export.line_rows import LineRows
from dcpinspect.output.export.row_programs import (
    COLUMN,
    HEADER_CONSTANTS,
    WORDY,
    KindBuilder,
    Programs,
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
from dcpinspect.protocol.fields import FieldKind
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import escape, shown_characters

SLICE = 1 << 12
"""Number of messages that are written at once: each takes some kilobytes."""
_MOST_SHOWN = 0x20000
"""The characters of the first two planes, which include nearly all that are used."""

_FLAGGED = [
    [(HEADER_SIZE + spec.offset, spec.kind.size) for spec in layout.extras if spec.flags]
    for layout in LAYOUTS
]
"""For each layout, the numbers whose bits have lines of their own."""


_shown = functools.cache(shown_characters)


class TableRows(Programs):
    """Writes lines with field tables; remembers the kinds of messages that it has met."""

    def __init__(
        self,
        lines: LineRows,
        dumps: DumpRows | None,
        title: Callable[[str], str],
        limit: int | None,
    ) -> None:
        """``dumps``: writes lines with bytes below. ``title``: gives a title its style. ``limit``:
        as in ``field_table``.
        """
        super().__init__()
        self._lines, self._dumps = lines, dumps
        self._title, self._limit = title, limit

    def pieces(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[bytes]:
        """Yields the lines of these messages and their tables in order, many in a piece."""
        limit = rt.UNLIMITED if self._limit is None else self._limit
        for slice_rows, times in self._lines.slices(batch, rows, SLICE):
            heads, ends = (self._dumps or self._lines).written(batch, slice_rows, times)
            run = _TableRun(self, batch, slice_rows, heads, ends, limit)
            yield from run.pieces(functools.partial(self._lines.in_full, batch, slice_rows, times))

    def build(
        self, builder: KindBuilder, message: Message, batch: MessageBatch, index: int
    ) -> None:
        """Writes the program for the table of a message."""
        text = builder.mark((rt.SPAN_COPY | rt.BESIDE, COLUMN["head_start"]))
        if self._dumps is None:  # dumps already include this line
            file = file_text(batch, int(batch.last_file[index]))
            text += builder.mark((rt.FRAGMENT, COLUMN["endpoints"])) + builder.number("last_frame")
            text += f"{file}, stream offset {builder.number('stream_offset')}\n"
        rows = [list(field_rows(field, self._limit)) for field in message.fields]
        width = label_width(row for lines in rows for row in lines)
        lines = [self._title(message_title(message)), heading(width)]
        for field, written in zip(message.fields, rows, strict=True):
            marked = self._rows(builder, message, field, written, width)
            lines += (row_line(row, width) for row in marked)
        builder.example(text + "".join(f"    {line}\n" for line in lines) + "\n")

    def _rows(
        self,
        builder: KindBuilder,
        message: Message,
        field: FieldValue,
        rows: Sequence[FieldRow],
        width: int,
    ) -> Iterator[FieldRow]:
        """Yields the rows of a field with marks. ``rows``: as they are written."""
        labels, inner_fields = [label for label, _, _ in rows], field.fields
        encoding = f" ({encoding_of(message)})"
        if field.name == "key":
            value_mark = builder.mark((rt.SPAN_SHOWN, COLUMN["name_start"]))
            if not inner_fields:
                meaning = f" ({escape(field.meaning)})" if field.meaning else ""
                yield labels[0], _offsets(builder, "key"), value_mark + meaning + _end(builder)
                return
            meaning = f" ({builder.mark((rt.FRAGMENT, COLUMN['collection_meaning']))})"
            digits = builder.mark((rt.SPAN_HEX, COLUMN["id_start"]))
            yield labels[0], _offsets(builder, "key"), value_mark + meaning
            yield labels[1], _offsets(builder, "id"), f"0x{digits}{meaning}"
            yield labels[2], _offsets(builder, "name"), value_mark + _end(builder)
        elif field.name == "value" and not inner_fields:
            value_mark = builder.mark((rt.SPAN_SHOWN, COLUMN["value_start"]))
            yield labels[0], _offsets(builder, "value"), value_mark + encoding + _end(builder)
        elif field.name == "value":
            yield labels[0], _offsets(builder, "value"), builder.unpacked(message)
            if inner_fields[0].name == "xattrs":
                pairs = builder.mark((rt.XATTRS | rt.BESIDE, COLUMN["xattrs_start"], width))
                offsets = _offsets(builder, "xattrs", is_inflated=inner_fields[0].inflated)
                yield labels[1], offsets, rows[1][2] + pairs
            if inner_fields[-1].name == "body":
                value_mark = builder.mark((rt.SPAN_SHOWN | rt.BESIDE, COLUMN["body_start"]))
                offsets = _offsets(builder, "body", is_inflated=inner_fields[-1].inflated)
                yield labels[-1], offsets, value_mark + encoding + _end(builder)
        elif field.group:
            yield rows[0]
            for inner, row in zip(inner_fields, rows[1:], strict=True):
                yield (*row[:2], self._number(builder, inner))
        elif field.name in HEADER_CONSTANTS or (field.spec is not None and field.spec.flags):
            yield from rows  # flags are part of the kind
        else:
            yield (*rows[0][:2], self._number(builder, field))

    def _number(self, builder: KindBuilder, field: FieldValue) -> str:
        """Returns a fixed-size number of the header or the layout, with its remark."""
        spec, position = field.spec, (field.offset, field.size)
        assert spec is not None, "numbers are described"
        if spec.values is not None or spec.words or spec.kind in WORDY:
            return builder.look_up(
                field, lambda looked_up: value_text(looked_up, self._limit).encode()
            )
        digits = "0x" + builder.mark((rt.HEX, *position))
        if spec.kind is FieldKind.CAS:
            return digits + builder.mark((rt.CAS_REMARK, field.offset))
        if spec.kind is FieldKind.TIME:
            return f"{digits} ({builder.mark((rt.SECONDS, field.offset))})"
        return digits + (builder.mark((rt.REMARK, *position)) if spec.kind in REMARKED else "")

    # -- texts that programs look up

    def endpoints_text(self, connection: int, direction: int, batch: MessageBatch) -> bytes:
        """Returns both addresses in the form below a line."""
        return ends_text(batch, connection, direction).encode()

    def collection_text(self, text: str) -> bytes:
        """Returns a text that is safe for a terminal."""
        return escape(text).encode()


def _offsets(builder: KindBuilder, name: str, *, is_inflated: bool = False) -> str:
    """Returns the mark for the offsets of a field whose place the columns ``name`` have."""
    offsets = builder.mark((rt.OFFSETS, COLUMN[f"{name}_at"], OFFSETS_WIDTH - is_inflated))
    return f"~{offsets}" if is_inflated else offsets


def _end(builder: KindBuilder) -> str:
    """Returns the mark for the end of a line whose text may end with blanks."""
    return builder.mark((rt.LINE_END, 1))


class _TableRun(RowRun):
    """Writes the tables of messages."""

    def __init__(
        self,
        programs: TableRows,
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
