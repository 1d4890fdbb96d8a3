"""``dcpinspect log``: what the server's log, and its statistics, say of streams."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import options, record_tables
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import CaptureError, DamagedCapture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpinspect.logs.reading import LogReading

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE…", help="memcached.log, or what cbstats or mcstat print. They may be compressed. - is standard input."),
]


def log(
    context: typer.Context,
    files: Files,
    vbucket: options.VBuckets = None,
    filter_: record_tables.Filter = None,
    since: options.Since = None,
    until: options.Until = None,
    columns: record_tables.Columns = None,
    sort: record_tables.Sort = None,
    reverse: record_tables.Reverse = False,
    limit: record_tables.Limit = None,
    verbose: record_tables.Verbose = False,
    width: record_tables.Width = None,
    format_name: options.OutputFormat = None,
    output: options.OutputFile = None,
    csv_guard: options.CsvGuard = True,
    redact: options.Redact = False,
    redact_salt: options.RedactSalt = None,
    stats: Annotated[bool, typer.Option("--stats", help="At the end, print on standard error how much of each file was used.")] = False,
) -> int:
    """Print what the server's log, or its statistics, say of streams."""
    # deferred: NumPy, which --help and completion do not need
    from dcpinspect.logs.events import LOG_EVENTS, MOST_EVENTS, event_records
    from dcpinspect.logs.reading import LogReading

    format_ = choose_format(format_name, output)
    options.refuse_unused(context, format_)
    selection = record_tables.selection_of(LOG_EVENTS, vbucket, None, filter_, context.obj)
    selection = replace(selection, sort=record_tables.sort_of(sort, "log_events", LOG_EVENTS), is_reversed=reverse)
    span = options.span_of_whole(since, until)
    chosen = record_tables.columns_asked_for(columns, "log_events", LOG_EVENTS)
    redactor = options.redactor(redact, redact_salt)
    readings = [LogReading(file, redactor) for file in files]
    events = chain.from_iterable(readings)
    records = event_records(islice(events, MOST_EVENTS))
    left_out = sum(1 for _ in events)
    if span is not None:
        times = [time for time in records.values("time") if time is not None]
        selection = replace(selection, bounds=span.within(min(times, default=0), max(times, default=0)))
    found = selection.of(records)
    shown = found if limit is None else found.head(limit)
    with opened(output, format_, (), files) as out:
        if format_.is_text:
            record_tables.write(out, shown, "log_events", chosen, width=width or out.width(), verbose=verbose)
        else:
            format_.records(out, shown, chosen, guard=csv_guard)
    if left_out:
        complain(f"{left_out:,} records after the first {MOST_EVENTS:,} were left out; read fewer files at once")
    return remarks(readings, stats=stats)


def remarks(readings: Sequence[LogReading], *, stats: bool = False) -> int:
    """Says on standard error which lines of each file could not be used. Returns the exit status."""
    for reading in readings:
        if stats or reading.unknown or reading.too_long or not reading.events:
            advice = "" if reading.events else "; nothing of streams is in it: give memcached.log, or what cbstats or mcstat printed"
            complain(f"{reading.summary}{advice}")
        if reading.problem is not None:
            complain(DamagedCapture(reading.path, None, reading.problem, "all that is readable was read"))
    if not any(reading.events for reading in readings):
        return CaptureError.exit_status
    return DamagedCapture.exit_status if any(reading.problem or reading.too_long for reading in readings) else 0
