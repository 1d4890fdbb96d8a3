"""``dcpinspect read``: the messages of captures, as lines, field tables, byte grids, JSON, CSV, Parquet or Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.report import report
from dcpinspect.cli.subset import packets_written
from dcpinspect.cli.writers import USERS, WHOLE_MESSAGES, WHOLE_OPTIONS, TimeFormat, Wishes, writer_of
from dcpinspect.errors import UsageError
from dcpinspect.export.formats import Format

if TYPE_CHECKING:
    from dcpinspect.export.json import Values


def read(
    context: typer.Context,
    captures: options.Captures,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-V", help="Print each message's field table, as the specification draws it.")
    ] = False,
    hex_grid: Annotated[bool, typer.Option("--hex", "-x", help="Print each message's byte grid, as the specification draws it.")] = False,
    limit: options.Limit = None,
    skip: options.Skip = 0,
    format_: options.OutputFormat = None,
    output: options.OutputFile = None,
    write: options.Write = None,
    with_handshakes: options.WithHandshakes = False,
    fields: Annotated[bool, typer.Option("--fields/--no-fields", help="JSON: with the field table of each message.")] = True,
    values: Annotated[
        str | None,
        typer.Option(metavar="full|N|none", help="How much of a value to show: all, N bytes, nothing; JSON shows all, text 256 bytes."),
    ] = None,
    columns: options.Columns = None,
    csv_guard: options.CsvGuard = True,
    redact: options.Redact = False,
    redact_salt: options.RedactSalt = None,
    time: Annotated[
        TimeFormat, typer.Option(help="Times of the lines: since the first packet, UTC, or since the line before.")
    ] = TimeFormat.RELATIVE,
    vbucket: options.VBuckets = None,
    opcode: options.Opcodes = None,
    connection: options.Connections = None,
    key: options.Key = None,
    status: options.Statuses = None,
    collection: options.Collections = None,
    filter_: options.Filter = None,
    port: options.Port = None,
    stats: options.Stats = False,
) -> int:
    """Print the messages of captures (pcap, pcapng; - is standard input), a line each."""
    # Deferred: NumPy and the decoder; --help and completion do without.
    from dcpinspect.capture.source import STDIN
    from dcpinspect.reading import Reading, ahead

    format_ = choose_format(format_, output)
    options.refuse_unused(context, format_, USERS)
    if format_ is Format.TEXT and not (verbose or hex_grid) and options.is_typed(context, "values"):
        raise UsageError("--values: lines alone show no values; add -V or -x")
    selection = options.selection(
        vbucket=vbucket,
        opcode=opcode,
        connection=connection,
        key=key,
        status=status,
        collection=collection,
        filter_=filter_,
        config=context.obj,
    )
    options.refuse_with_columns(context, WHOLE_OPTIONS)
    chosen = options.column_names(columns, context.obj)
    if format_ in WHOLE_MESSAGES and not options.is_typed(context, "columns"):
        chosen = None  # the config file's are for formats that show nothing else
    wishes = Wishes(verbose, hex_grid, fields, _values(values, format_), chosen, csv_guard, time)
    redactor = options.redactor(redact, redact_salt)
    extra_ports, find_ports = options.ports(port)
    packets = packets_written(write, captures, with_handshakes=with_handshakes, is_redacted=redactor is not None, output=output)
    with packets as subset, Reading(captures, extra_ports=extra_ports, find_ports=find_ports, keeper=subset) as reading:
        if subset is not None:
            subset.follow(reading)
        left, shown = limit, 0
        source = reading.capture
        bar = progress("reading", lambda: source.position, source.size, wanted=wants_progress(output))
        with opened(output, format_, captures) as out, bar:
            writer = writer_of(format_, out, reading, wishes)
            # The next batch is decoded while this one is written, unless it may take long to come.
            is_ahead = format_ not in WHOLE_MESSAGES and STDIN not in captures and subset is None
            batches = ahead(reading) if is_ahead else reading
            try:
                for batch in interrupts.between(batches) if left != 0 else ():
                    rows = selection.rows(batch)
                    rows, skip = rows[skip:], max(0, skip - len(rows))
                    if left is not None:
                        rows = rows[:left]
                        left -= len(rows)
                    shown += len(rows)
                    writer.write(batch.redacted(redactor), rows)
                    if subset is not None:
                        subset.choose(batch, rows)
                    out.flush()
                    if left == 0:
                        break
            finally:
                writer.end()
                out.is_complete = True
        return report(reading, is_whole=left != 0, stats=stats, shown=shown)


def _values(text: str | None, format_: Format) -> Values:
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
