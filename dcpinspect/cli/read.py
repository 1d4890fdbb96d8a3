"""``dcpinspect read``: the messages of captures, as lines, field tables, byte grids or JSON."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import options

if TYPE_CHECKING:
    from dcpinspect.export.json import Values
    from dcpinspect.reading import Reading
    from dcpinspect.tables.messages import MessageBatch


class Format(StrEnum):
    """Forms that messages are written in."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"


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
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="Stop after so many messages (counted after filters).")] = None,
    skip: Annotated[int, typer.Option(min=0, help="Leave out the first messages (counted after filters).")] = 0,
    format_: Annotated[Format, typer.Option("--format", "-f", help="How to write the messages.")] = Format.TEXT,
    fields: Annotated[bool, typer.Option("--fields/--no-fields", help="JSON: with the field table of each message.")] = True,
    values: Annotated[str, typer.Option(metavar="full|N|none", help="How much of a value to show: all, so many bytes, nothing.")] = "",
    time: Annotated[
        TimeFormat, typer.Option(help="Times of the lines: since the first packet, UTC, or since the line before.")
    ] = TimeFormat.RELATIVE,
    vbucket: options.Vbuckets = "",
    opcode: options.Opcodes = None,
    connection: options.Connections = "",
    key: options.Keys = None,
    status: options.Statuses = None,
    collection: options.Collections = "",
    port: options.Ports = None,
) -> None:
    """Print the messages of captures (pcap, pcapng; - is standard input), a line each."""
    # Deferred: NumPy and the decoder; --help and completion do without.
    from dcpinspect.reading import Reading

    selection = options.selection(vbucket, opcode, connection, key, status, collection)
    shown_values = _values(values, format_)
    with Reading([str(path) for path in captures], ports=options.port_numbers(port)) as reading:
        if format_ is Format.TEXT:
            write, finish = _text_writer(reading, verbose, hex_grid, shown_values, time)
        else:
            write, finish = _json_writer(format_, fields, shown_values)
        left = count
        try:
            for batch in reading if left != 0 else ():
                for index in selection.rows(batch).tolist():
                    if skip:
                        skip -= 1
                        continue
                    write(batch, index)
                    if left is not None:
                        left -= 1
                        if not left:
                            break
                options.flush()
                if left == 0:
                    break
        finally:
            finish()
            options.flush()
        options.report(reading, stopped_early=left == 0)


def _values(text: str, format_: Format) -> Values:
    from dcpinspect.errors import UsageError
    from dcpinspect.render.field_table import DEFAULT_LIMIT

    if not text:
        return "full" if format_ is not Format.TEXT else DEFAULT_LIMIT
    if text == "full":
        return "full"
    if text == "none":
        return "none"
    if text.isdecimal() and text.isascii():
        return int(text)
    raise UsageError(f"--values {text!r}: write full, none or a number of bytes")


def _text_writer(
    reading: Reading, verbose: bool, hex_grid: bool, values: Values, time: TimeFormat
) -> tuple[Callable[[MessageBatch, int], None], Callable[[], None]]:
    from dcpinspect.render.byte_grid import byte_grid
    from dcpinspect.render.field_table import field_table
    from dcpinspect.render.lines import HEADING, Lines

    limit = None if values == "full" else 0 if values == "none" else values
    assert not isinstance(limit, str)
    lines = Lines(time.value, width=options.terminal_width())
    paint = options.painter()
    options.put(paint(HEADING, "bold") + "\n")

    def write(batch: MessageBatch, index: int) -> None:
        if reading.first_time_ns is not None:
            lines.start_at(reading.first_time_ns)
        options.put(paint(lines.line(batch, index), _style(batch, index)) + "\n")
        if not verbose and not hex_grid:
            return
        message = batch.annotate(index)
        shown = byte_grid(message, limit=limit) if hex_grid else []
        if verbose:
            title, *table = field_table(message, limit=limit)
            shown += ["", paint(title, "bold"), *table] if shown else [paint(title, "bold"), *table]
        options.put("".join(f"    {line}".rstrip() + "\n" for line in shown) + "\n")

    return write, lambda: None


def _style(batch: MessageBatch, index: int) -> str:
    if batch.problem_of(index) is not None:
        return "red"
    if batch.decoded.is_response[index]:
        return "yellow" if batch.decoded.specific[index] else "dim"
    return ""


def _json_writer(format_: Format, fields: bool, values: Values) -> tuple[Callable[[MessageBatch, int], None], Callable[[], None]]:
    from dcpinspect.export.json import JsonArray, dump, message_object

    if format_ is Format.NDJSON:

        def write_line(batch: MessageBatch, index: int) -> None:
            options.put(dump(message_object(batch, index, fields=fields, values=values)) + b"\n")

        return write_line, lambda: None
    array = JsonArray()

    def write_element(batch: MessageBatch, index: int) -> None:
        options.put(array.element(message_object(batch, index, fields=fields, values=values)))

    return write_element, lambda: options.put(array.end())
