"""``dcpinspect log``: what the server's log, and its statistics, say of streams."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import typer

from dcpinspect.capture.folders import has_name_of_capture
from dcpinspect.cli import options
from dcpinspect.cli.record_tables import TableChoices
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import CaptureError, DamagedCapture
from dcpinspect.text import counted, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpinspect.findings.logs.log_reading import LogReading


def log(
    context: typer.Context,
    files: list[str],
    table: TableChoices,
    times: options.Times,
    result: options.Output,
    redaction: options.Redaction,
    vbucket: options.VBuckets = None,
    stats: bool = False,
) -> int:
    """Print what the server's log, or its statistics, say of streams.

    Options:
    files FILE…: memcached.log, or what cbstats or mcstat print. They may be compressed. - is
        standard input.
    --stats: At the end, print on standard error how much of each file was used.
    """
    # deferred: NumPy, which --help and completion do not need
    from dcpinspect.findings.logs.log_events import LOG_EVENTS, MOST_EVENTS, event_records
    from dcpinspect.findings.logs.log_reading import LogReading

    format_ = result.format(context)
    view = table.view(LOG_EVENTS, "log_events", context.obj, vbucket=vbucket)
    view.is_of_one_file = len(files) == 1
    span, redactor = times.span_of_whole(), redaction.redactor()
    readings = [LogReading(file, redactor) for file in files]
    events = chain.from_iterable(readings)
    records = event_records(islice(events, MOST_EVENTS))
    left_out = sum(1 for _ in events)
    if span is not None:
        written_ns = [time for time in records.values("time") if time is not None]
        view.selection = replace(
            view.selection,
            bounds=span.within(min(written_ns, default=0), max(written_ns, default=0)),
        )
    with result.target(format_, (), files) as target:
        if len(records) or not format_.is_text:
            selected = view.selection.matching(records)
            view.write_rows(target, selected, format_)
            if format_.is_text and view.columns is None:
                width = table.width or target.width()
                target.write_piece(_sums(selected.values("event"), width))
    if left_out:
        complain(
            f"{left_out:,} records after the first {MOST_EVENTS:,} were left out; read fewer "
            "files at once"
        )
    return remarks(readings, stats=stats)


def _sums(events: Sequence[str], width: int | None) -> str:
    """Returns lines that count the events that the rules about logs judge; none without any."""
    from dcpinspect.output.render.record_lines import OF_EVENTS  # deferred: it needs Arrow

    judged = Counter(event for event in events if event in OF_EVENTS)
    counts = ", ".join(f"{count} {event}" for event, count in judged.most_common())
    text = f"{counted(len(events), 'record')}: {counts}; check --log says what to do"
    return "\n".join([*wrap(text, width, "  "), ""]) if judged else ""


def remarks(readings: Sequence[LogReading], *, stats: bool = False) -> int:
    """Says on standard error which lines of each file could not be used. Returns the status."""
    for reading in readings:
        if stats or reading.unknown or reading.too_long or not reading.events:
            complain(f"{reading.summary}{'' if reading.events else _advice(reading.path)}")
        if reading.problem is not None:
            complain(DamagedCapture(reading.path, reading.problem, "all that is readable was read"))
    if not any(reading.events for reading in readings):
        return CaptureError.exit_status
    if any(reading.problem or reading.too_long for reading in readings):
        return DamagedCapture.exit_status
    return 0


def _advice(path: str) -> str:
    """Returns what to do about a file in which nothing is about a stream or a vbucket."""
    if has_name_of_capture(path):
        return "; it has the name of a capture, which 'dcpinspect check' reads"
    if os.path.isfile(path):
        from dcpinspect.capture.no_capture import HEAD, what_it_is  # deferred: it needs NumPy

        with suppress(OSError), open(path, "rb") as file:
            kind, next_step = what_it_is(file.read(HEAD)) or ("", "")
            if next_step.startswith("unpack it"):
                return f"; it {kind}: unpack it, and give memcached.log"
    return (
        "; no line of it is about a stream or a vbucket: give memcached.log, or what "
        "'cbstats failovers', 'vbucket-seqno', or 'dcp' with streams open, print"
    )
