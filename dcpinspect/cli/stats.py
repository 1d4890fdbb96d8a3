"""``dcpinspect stats``: prints how often, how large and how fast messages were, and how complete
the capture is.
"""

from __future__ import annotations

from itertools import starmap

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.remarks import remarks
from dcpinspect.output.export.formats import ReportFormat


def stats(
    context: typer.Context,
    captures: options.Captures,
    conditions: options.Conditions,
    result: options.Output,
    redaction: options.Redaction,
    ports: options.Ports,
) -> int:
    """Count messages by command and status, with sizes, answer times, throughput, snapshots,
    windows and capture loss.

    With filters, only the messages that match are counted. Snapshots and windows are left out,
    because they belong to all messages.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.output.counting import count_once
    from dcpinspect.output.render.stats_text import stats_text
    from dcpinspect.output.statistics import Statistics
    from dcpinspect.reading.reading import Reading
    from dcpinspect.tables.message_statistics import STATS
    from dcpinspect.tables.record_tables import Records
    from dcpinspect.tables.select import Selection

    format_ = result.format(context)
    selection = conditions.selection(captures, context.obj)
    is_all = selection == Selection()
    redactor = redaction.redactor()
    with Reading(captures, **ports.reading_arguments()) as reading:
        if is_all:
            reading.track(redactor)
        with result.target(format_, captures) as target:
            batches = interrupts.batches(reading.capture, reading)
            counted, copies = count_once(
                reading, batches, lambda: Statistics(of_all=is_all), selection.rows, redactor
            )
            rows = counted.rows(reading)
            lines = stats_text(rows, width=target.width())
            report = ReportFormat(
                lambda paint: starmap(paint, lines), lambda: Records.of_rows(STATS, rows)
            )
            format_.report(target, report)
        return remarks(reading, shown=counted.messages, counted_copies=copies)
