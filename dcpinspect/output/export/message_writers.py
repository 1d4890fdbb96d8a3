"""Writers of messages in each format, batch by batch; ``formats`` says who uses which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.palette import text_style

if TYPE_CHECKING:
    from dcpinspect.output.export.dump_rows import DumpRows
    from dcpinspect.output.export.json import JsonArray, ValueLimit
    from dcpinspect.output.export.line_rows import LineRows
    from dcpinspect.output.export.table_rows import TableRows
    from dcpinspect.output.export.target import TableWriter, Target
    from dcpinspect.output.render.message_lines import TimeFormat
    from dcpinspect.protocol.column_types import RowNumbers
    from dcpinspect.tables.color_rules import ColorRules
    from dcpinspect.tables.messages import MessageBatch

SLICE = 1 << 16
"""Number of messages whose columns are made at once."""

FirstTime = Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """What to write of each message; each format uses the wishes that its ``options`` name."""

    verbose: bool = False
    hex_grid: int = 0
    """How often bytes were asked for: once: 16 per line; more often: the grid of the specification.
    """
    fields: bool = True
    values: ValueLimit = "full"
    columns: Sequence[str] | None = None
    time: TimeFormat = "relative"
    colors: ColorRules | None = None
    """Colour rules of the user, for lines on a terminal with colour."""
    is_growing: bool = False
    """Whether messages are waited for, so the first do not tell how wide columns become."""
    limit: int | None = None
    """Number of messages that are written at most."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """The user's notes on messages, by row; JSON has them."""


class MessageWriter(Protocol):
    """What every writer of messages must do."""

    def write(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Writes these messages of a batch."""

    def end(self) -> None:
        """Writes the end of the file, also when reading was interrupted."""


class LinesWriter:
    """Writes lines, with each message's field table and byte grid if they are asked for."""

    def __init__(self, target: Target, wishes: WriterOptions, first_time: FirstTime) -> None:
        from dcpinspect.output.export.line_rows import LineRows
        from dcpinspect.output.render.message_lines import Lines

        self._target = target
        self._first_time = first_time
        self._wishes = wishes
        values = wishes.values
        self._limit = None if values == "full" else 0 if values == "none" else values
        self._lines = Lines(wishes.time, width=target.width())
        self._paint = target.painter()
        self._has_color = self._paint("x", "bold") != "x"
        self._colors = wishes.colors if self._has_color else None
        # the colour rule of each message of the batch
        self._rules: RowNumbers = np.empty(0, np.int64)
        rules = None if self._colors is None else lambda rows: self._rules[rows]
        self._line_rows = lines = LineRows(self._lines, self._colour, rules, self._details)
        self._rows: LineRows | DumpRows | TableRows = lines
        if wishes.hex_grid or wishes.verbose:
            # deferred, as below: lines alone start without these modules
            from dcpinspect.output.export.dump_rows import DumpRows

            dumps = DumpRows(lines, self._limit) if wishes.hex_grid else None
            self._rows = dumps or lines
        if wishes.verbose:
            from dcpinspect.output.export.table_rows import TableRows

            bold = lambda title: self._paint(title, "bold")  # noqa: E731 - as short as its use
            self._rows = TableRows(lines, dumps, bold, self._limit)
        self._has_heading = False
        if wishes.is_growing:
            self._put_heading()

    def _put_heading(self) -> None:
        self._has_heading = True
        self._target.write_piece(self._paint(self._lines.heading(), "bold") + "\n")

    def write(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Writes these messages of a batch."""
        first = self._first_time()
        if first is not None:
            self._lines.start_at(first)
        if not self._has_heading and len(rows):
            self._lines.fit(batch, rows, self._wishes.limit)
            self._put_heading()
        if self._colors is not None:
            self._rules = np.zeros(len(batch), np.int64)
            self._rules[rows] = self._colors.numbers(batch, rows)
        if self._wishes.hex_grid <= 1:
            for piece in self._rows.pieces(batch, rows):
                self._target.write_piece(piece)
            return
        for message_rows, times in self._line_rows.slices(batch, rows, 1):
            self._target.write_piece(self._line_rows.in_full(batch, message_rows, times, 0))

    def _colour(self, batch: MessageBatch, index: int) -> tuple[str, str]:
        """Returns what stands before and after the line of a message to give it its colour."""
        if not self._has_color:
            return "", ""
        before, _, behind = self._paint("\0", self._style(batch, index)).partition("\0")
        return before, behind

    def _style(self, batch: MessageBatch, index: int) -> str:
        rule = int(self._rules[index]) if self._colors is not None else 0
        if self._colors is not None and rule:
            return self._colors.colors[rule - 1]
        return text_style(batch, index)

    def _details(self, batch: MessageBatch, index: int) -> str:
        from dcpinspect.output.export.dump_rows import ends_text, file_text
        from dcpinspect.output.render.byte_grid import byte_grid, hex_dump
        from dcpinspect.output.render.field_table import field_table

        message = batch.annotate(index)
        ends = ends_text(batch, int(batch.connection[index]), int(batch.direction[index]))
        file = file_text(batch, int(batch.last_file[index]))
        frame, offset = int(batch.last_frame[index]), int(batch.stream_offset[index])
        lines = [f"{ends.lstrip()}{frame}{file}, stream offset {offset}"]
        if self._wishes.hex_grid:
            draw = hex_dump if self._wishes.hex_grid == 1 else byte_grid
            lines += [*draw(message, limit=self._limit), ""]
        if self._wishes.verbose:
            title, *table = field_table(message, limit=self._limit)
            lines += [self._paint(title, "bold"), *table, ""]
        return "".join(f"    {line}".rstrip() + "\n" for line in lines)

    def end(self) -> None:
        """Writes the heading, if there was no message."""
        if not self._has_heading:
            self._put_heading()


class JsonWriter:
    """Writes annotated objects in the frame of the format."""

    def __init__(self, target: Target, wishes: WriterOptions, frame: JsonArray) -> None:
        from dcpinspect.output.export.json_programs import JsonRows

        self._target = target
        self._frame = frame
        self._rows = JsonRows(
            fields=wishes.fields,
            values=wishes.values,
            before=frame.BEFORE,
            after=frame.AFTER,
            notes=wishes.notes,
        )

    def write(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Writes these messages of a batch."""
        for piece in self._rows.pieces(batch, rows):
            self._target.write_piece(self._frame.add(piece))

    def end(self) -> None:
        """Closes the frame."""
        self._target.write(self._frame.end())


class ColumnsWriter:
    """Writes columns of the messages table, all or some, like any other table: Parquet and Arrow
    have no other form.
    """

    def __init__(
        self,
        target: Target,
        wishes: WriterOptions,
        table: Callable[[Any], TableWriter],
        *,
        is_text: bool = False,
        is_binary: bool = False,
    ) -> None:
        """``table``: begins a table with an Arrow schema. ``is_text``, ``is_binary``: attributes of
        the format.
        """
        import pyarrow as pa  # deferred: takes 0.1 s, and is needed only for chosen columns

        from dcpinspect.tables.arrow import arrow_schema
        from dcpinspect.tables.schema import COLUMNS

        self._target = target
        self._is_text = is_text
        self._columns = wishes.columns or [column.name for column in COLUMNS]
        self._schema = arrow_schema(self._columns)
        if not is_binary and "time" in self._columns:  # times for people have all their digits
            self._schema = self._schema.set(
                self._columns.index("time"), pa.field("time", pa.timestamp("ns", "UTC"))
            )
        self._write, self._end = table(self._schema)

    def write(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Writes these messages of a batch."""
        for first in range(0, len(rows), SLICE):
            self._write(self._table(batch, rows[first : first + SLICE]))
            if self._is_text:
                self._end()  # writes the lines now, not only once there are enough to choose widths

    def _table(self, batch: MessageBatch, rows: RowNumbers) -> Any:
        import pyarrow as pa

        from dcpinspect.tables.arrow import record_batch

        table = record_batch(batch, rows, self._columns)
        if self._schema == table.schema:
            return table
        return table.set_column(
            self._columns.index("time"),
            self._schema.field("time"),
            pa.array(batch.time_ns[rows], self._schema.field("time").type),
        )

    def end(self) -> None:
        """Writes the remaining rows, and completes the file."""
        self._end()
