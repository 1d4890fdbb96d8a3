"""Messages in each format, batch by batch, as ``read`` and what is like it write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from dcpinspect.cli import interrupts
from dcpinspect.export.formats import Format

if TYPE_CHECKING:
    from dcpinspect.cli.output import Output
    from dcpinspect.export.json import Values
    from dcpinspect.protocol.columns import Rows
    from dcpinspect.reading import Reading
    from dcpinspect.tables.messages import MessageBatch

SLICE = 1 << 16
"""Messages whose columns are made at once."""


class TimeFormat(StrEnum):
    """Times that lines show."""

    RELATIVE = "relative"
    ABSOLUTE = "absolute"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What of each message is written; each format takes what concerns it, which USERS says."""

    verbose: bool
    hex_grid: bool
    fields: bool
    values: Values
    columns: Sequence[str] | None
    guard: bool
    """CSV with an apostrophe before texts that a spreadsheet would run."""
    time: TimeFormat


USERS = {
    "verbose": (Format.TEXT,),
    "hex_grid": (Format.TEXT,),
    "time": (Format.TEXT,),
    "fields": (Format.JSON, Format.NDJSON),
    "values": (Format.TEXT, Format.JSON, Format.NDJSON),
    "csv_guard": (Format.CSV,),
    "check": (Format.TEXT, Format.NDJSON),
}
"""The formats that do something with an option, by its parameter; all do with those that are not here."""

WHOLE_MESSAGES = (Format.TEXT, Format.JSON, Format.NDJSON)
"""Formats that show whole messages, unless columns are asked for."""
WHOLE_OPTIONS = ("verbose", "hex_grid", "time", "fields", "values")
"""Options that say how whole messages are shown."""


class Writer(Protocol):
    """What every format must do."""

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        """Write these messages of a batch."""

    def end(self) -> None:
        """Write what belongs behind the last message, also when reading was interrupted."""


def writer_of(format_: Format, output: Output, reading: Reading, wishes: Wishes) -> Writer:
    """The writer of a format."""
    if format_ is Format.CSV:
        return _CsvWriter(output, wishes)
    if format_.is_binary or wishes.columns is not None:
        return _ColumnsWriter(output, format_, wishes)
    return _TextWriter(output, reading, wishes) if format_ is Format.TEXT else _JsonWriter(output, format_, wishes)


class _TextWriter:
    """Lines, with the field table and the byte grid of each message where they are asked for."""

    def __init__(self, output: Output, reading: Reading, wishes: Wishes) -> None:
        from dcpinspect.render.lines import Lines

        self._output = output
        self._reading = reading
        self._wishes = wishes
        values = wishes.values
        self._limit = None if values == "full" else 0 if values == "none" else values
        self._lines = Lines(wishes.time.value, width=output.width())
        self._paint = output.painter()
        output.put(self._paint(self._lines.heading(), "bold") + "\n")

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        if self._reading.first_time_ns is not None:
            self._lines.start_at(self._reading.first_time_ns)
        for index in rows.tolist():
            text = self._paint(self._lines.line(batch, index), _style(batch, index)) + "\n"
            if self._wishes.verbose or self._wishes.hex_grid:
                text += self._details(batch, index)
            self._output.put(text)

    def _details(self, batch: MessageBatch, index: int) -> str:
        from dcpinspect.escape import escape
        from dcpinspect.render.byte_grid import byte_grid
        from dcpinspect.render.field_table import field_table
        from dcpinspect.transport.chunk import C2S

        message = batch.annotate(index)
        connection = int(batch.connection[index]) - 1
        ends = batch.endpoints.client[connection], batch.endpoints.server[connection]
        source, target = ends if batch.direction[index] == C2S else ends[::-1]
        file = f" of {escape(batch.files[int(batch.last_file[index])])}" if len(batch.files) > 1 else ""
        place = f"frame {int(batch.last_frame[index])}{file}, stream offset {int(batch.stream_offset[index])}"
        shown = [f"{source} > {target}, {place}"]
        shown += [*byte_grid(message, limit=self._limit), ""] if self._wishes.hex_grid else []
        if self._wishes.verbose:
            title, *table = field_table(message, limit=self._limit)
            shown += [self._paint(title, "bold"), *table, ""]
        return "".join(f"    {line}".rstrip() + "\n" for line in shown)

    def end(self) -> None:
        """Nothing is left to write."""


def _style(batch: MessageBatch, index: int) -> str:
    if batch.problem_of(index) is not None:
        return "red"
    if batch.decoded.is_response[index]:
        return "yellow" if batch.decoded.specific[index] else "dim"
    return ""


class _JsonWriter:
    """Annotated JSON: an array, or an object a line."""

    def __init__(self, output: Output, format_: Format, wishes: Wishes) -> None:
        from dcpinspect.export.json import JsonArray
        from dcpinspect.export.json_run import JsonRows

        self._output = output
        self._array = JsonArray() if format_ is Format.JSON else None
        around = {"after": b"\n"} if self._array is None else {"before": JsonArray.BEFORE}
        self._rows = JsonRows(fields=wishes.fields, values=wishes.values, **around)

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        for piece in self._rows.pieces(batch, rows):
            self._output.put(piece if self._array is None else self._array.add(piece))

    def end(self) -> None:
        """Close the array, also when reading was interrupted."""
        if self._array is not None:
            self._output.write(self._array.end())


class _CsvWriter:
    """A line a message, cells for its columns."""

    def __init__(self, output: Output, wishes: Wishes) -> None:
        from dcpinspect.export.csv_rows import DEFAULT_COLUMNS, CsvRows

        self._output = output
        self._rows = CsvRows(wishes.columns or DEFAULT_COLUMNS, guard=wishes.guard)
        output.put(self._rows.heading())

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        self._output.put_lines(self._rows.text(batch, rows))

    def end(self) -> None:
        """Nothing is left to write."""


class _ColumnsWriter:
    """The columns of the messages table, all or some, as any other table is written: Parquet and Arrow have no other form."""

    def __init__(self, output: Output, format_: Format, wishes: Wishes) -> None:
        import pyarrow as pa  # deferred: 0.1 s, for who picks columns

        from dcpinspect.cli.tables import table_writer
        from dcpinspect.tables.arrow import arrow_schema
        from dcpinspect.tables.schema import COLUMNS

        self._format = format_
        self._columns = wishes.columns or [column.name for column in COLUMNS]
        self._schema = arrow_schema(self._columns)
        if not format_.is_binary and "time" in self._columns:  # to be read, times have all their digits
            self._schema = self._schema.set(self._columns.index("time"), pa.field("time", pa.timestamp("ns", "UTC")))
        self._write, self._end = table_writer(self._schema, format_, output)

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        for first in range(0, len(rows), SLICE):
            self._write(self._table(batch, rows[first : first + SLICE]))
            if self._format is Format.TEXT:
                self._end()  # lines come with their messages, and not once there are enough to measure
            interrupts.check()

    def _table(self, batch: MessageBatch, rows: Rows) -> Any:
        import pyarrow as pa

        from dcpinspect.tables.arrow import record_batch

        table = record_batch(batch, rows, self._columns)
        if self._schema == table.schema:
            return table
        return table.set_column(
            self._columns.index("time"), self._schema.field("time"), pa.array(batch.time_ns[rows], self._schema.field("time").type)
        )

    def end(self) -> None:
        """Write what is left, or makes the file readable, also when reading was interrupted."""
        self._end()
