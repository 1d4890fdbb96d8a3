"""``dcpinspect io``: messages and bytes by command over time."""

from __future__ import annotations

from functools import partial
from itertools import starmap

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.remarks import remarks
from dcpinspect.errors import UsageError
from dcpinspect.output.export.formats import ReportFormat


def io(
    context: typer.Context,
    captures: options.Captures,
    conditions: options.Conditions,
    result: options.Output,
    ports: options.Ports,
    interval: str | None = None,
) -> int:
    """Count messages and bytes by command over time: a row for each span of time, and a chart for
    each command.

    Options:
    --interval TIME: Length of each time span, as in 1s, 250ms or 5m. By default, it is chosen
        for 20 to 50 spans.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.output.counting import count_once
    from dcpinspect.output.render.io_text import io_lines
    from dcpinspect.reading.reading import Reading
    from dcpinspect.tables.io_series import Intervals
    from dcpinspect.tables.times import length as length_of

    format_ = result.format(context)
    length = None if interval is None else length_of(interval, "--interval", "1s, 250ms or 5m")
    if length == 0:
        raise UsageError(f"--interval {interval}: write a length of time above 0")
    selection = conditions.selection(captures, context.obj)
    with Reading(captures, **ports.reading_arguments()) as reading:
        with result.target(format_, captures) as target:
            counted, copies = count_once(
                reading,
                interrupts.batches(reading.capture, reading),
                lambda: Intervals(length),
                selection.rows,
            )
            end_ns = reading.last_time_ns if conditions.times.until is None else None
            lines = partial(io_lines, interval_ns=counted.interval_ns, end_ns=end_ns)
            report = ReportFormat(
                lambda paint: starmap(paint, lines(counted.records(), width=target.width())),
                counted.records,
            )
            format_.report(target, report)
        return remarks(reading, shown=counted.messages, counted_copies=copies)
