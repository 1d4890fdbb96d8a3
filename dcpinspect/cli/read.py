"""``dcpinspect read``: the messages of captures, as lines, field tables, byte grids or JSON."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from dcpinspect.cli import options, terminal
from dcpinspect.cli.report import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpinspect.export.json import Values
    from dcpinspect.protocol.columns import Rows
    from dcpinspect.reading import Reading
    from dcpinspect.tables.messages import MessageBatch


class Format(StrEnum):
    """Forms that messages are written in."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"


class TimeFormat(StrEnum):
    """Times that lines show."""

    RELATIVE = "relative"
    ABSOLUTE = "absolute"
    DELTA = "delta"


def read(
    captures: options.Captures,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-V", help="Print each message's field table, as the specification draws it.")
    ] = False,
    hex_grid: Annotated[bool, typer.Option("--hex", "-x", help="Print each message's byte grid, as the specification draws it.")] = False,
    limit: options.Limit = None,
    skip: options.Skip = 0,
    format_: Annotated[Format, typer.Option("--format", "-f", help="How to write the messages.")] = Format.TEXT,
    fields: Annotated[bool, typer.Option("--fields/--no-fields", help="JSON: with the field table of each message.")] = True,
    values: Annotated[
        str | None,
        typer.Option(metavar="full|N|none", help="How much of a value to show: all, N bytes, nothing; JSON shows all, text 256 bytes."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="LIST", help="CSV: these columns, as in name,vbucket,by_seqno; without, all that hold one value."
        ),
    ] = None,
    time: Annotated[
        TimeFormat, typer.Option(help="Times of the lines: since the first packet, UTC, or since the line before.")
    ] = TimeFormat.RELATIVE,
    vbucket: options.VBuckets = None,
    opcode: options.Opcodes = None,
    connection: options.Connections = None,
    key: options.Key = None,
    status: options.Statuses = None,
    collection: options.Collections = None,
    port: options.Port = None,
    stats: options.Stats = False,
) -> int:
    """Print the messages of captures (pcap, pcapng; - is standard input), a line each."""
    # Deferred: NumPy and the decoder; --help and completion do without.
    from dcpinspect.capture.source import STDIN
    from dcpinspect.reading import Reading, ahead

    selection = options.selection(vbucket=vbucket, opcode=opcode, connection=connection, key=key, status=status, collection=collection)
    shown = _values(values, format_)
    chosen = options.column_names(columns)
    extra_ports, find_ports = options.ports(port)
    with Reading(captures, extra_ports=extra_ports, find_ports=find_ports) as reading:
        writer: Writer
        if format_ is Format.TEXT:
            writer = _TextWriter(reading, verbose, hex_grid, shown, time)
        elif format_ is Format.CSV:
            writer = _CsvWriter(chosen)
        else:
            writer = _JsonWriter(format_, fields, shown)
        left, shown_messages = limit, 0
        # The next batch is decoded while this one is written, unless it may take long to come.
        batches = ahead(reading) if format_ is Format.CSV and STDIN not in captures else reading
        try:
            for batch in batches if left != 0 else ():
                rows = selection.rows(batch)
                rows, skip = rows[skip:], max(0, skip - len(rows))
                if left is not None:
                    rows = rows[:left]
                    left -= len(rows)
                shown_messages += len(rows)
                writer.write(batch, rows)
                sys.stdout.buffer.flush()
                if left == 0:
                    break
        finally:
            writer.end()
        return report(reading, is_whole=left != 0, stats=stats, shown=shown_messages)


def _values(text: str | None, format_: Format) -> Values:
    from dcpinspect.errors import UsageError
    from dcpinspect.escape import escape
    from dcpinspect.render.field_table import DEFAULT_LIMIT

    if text is None:
        return "full" if format_ is not Format.TEXT else DEFAULT_LIMIT
    if text == "full":
        return "full"
    if text == "none":
        return "none"
    if text.isdecimal() and text.isascii() and len(text) < 12:
        return int(text)
    raise UsageError(f"--values {escape(text)}: write full, none or a number of bytes")


class Writer(Protocol):
    """What every format must do."""

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        """Write these messages of a batch."""

    def end(self) -> None:
        """Write what belongs behind the last message, also when reading was interrupted."""


class _TextWriter:
    """Lines, with the field table and the byte grid of each message where they are asked for."""

    def __init__(self, reading: Reading, verbose: bool, hex_grid: bool, values: Values, time: TimeFormat) -> None:
        from dcpinspect.render.lines import Lines

        self._reading = reading
        self._verbose = verbose
        self._hex_grid = hex_grid
        self._limit = None if values == "full" else 0 if values == "none" else values
        self._lines = Lines(time.value, width=terminal.width())
        self._paint = terminal.painter()
        terminal.put(self._paint(self._lines.heading(), "bold") + "\n")

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        if self._reading.first_time_ns is not None:
            self._lines.start_at(self._reading.first_time_ns)
        for index in rows.tolist():
            self._write_one(batch, index)

    def _write_one(self, batch: MessageBatch, index: int) -> None:
        terminal.put(self._paint(self._lines.line(batch, index), _style(batch, index)) + "\n")
        if self._verbose or self._hex_grid:
            self._write_details(batch, index)

    def _write_details(self, batch: MessageBatch, index: int) -> None:
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
        terminal.put(f"    {source} > {target}, {place}\n")
        shown = [*byte_grid(message, limit=self._limit), ""] if self._hex_grid else []
        if self._verbose:
            title, *table = field_table(message, limit=self._limit)
            shown += [self._paint(title, "bold"), *table, ""]
        terminal.put("".join(f"    {line}".rstrip() + "\n" for line in shown))

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

    def __init__(self, format_: Format, fields: bool, values: Values) -> None:
        from dcpinspect.export.json import JsonArray
        from dcpinspect.export.json_rows import JsonRows

        self._array = JsonArray() if format_ is Format.JSON else None
        around = {"after": b"\n"} if self._array is None else {"before": JsonArray.BEFORE}
        self._rows = JsonRows(fields=fields, values=values, **around)

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        for piece in self._rows.pieces(batch, rows):
            terminal.put(piece if self._array is None else self._array.add(piece))

    def end(self) -> None:
        """Close the array, also when reading was interrupted."""
        if self._array is not None:
            terminal.put(self._array.end())


class _CsvWriter:
    """A line a message, cells for its columns."""

    def __init__(self, columns: Sequence[str] | None) -> None:
        from dcpinspect.export.csv import DEFAULT_COLUMNS, CsvRows

        self._rows = CsvRows(columns or DEFAULT_COLUMNS)
        terminal.put(self._rows.heading())

    def write(self, batch: MessageBatch, rows: Rows) -> None:
        terminal.put_lines(self._rows.text(batch, rows))

    def end(self) -> None:
        """Nothing is left to write."""
