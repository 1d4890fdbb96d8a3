"""``dcpinspect io``: messages and bytes by command over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.remarks import remarks
from dcpinspect.errors import UsageError
from dcpinspect.export.formats import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dcpinspect.export.formats import Paint


def io(
    context: typer.Context,
    captures: options.Captures,
    interval: Annotated[
        str | None,
        typer.Option(
            "--interval",
            metavar="TIME",
            help="Length of each time span, as in 1s, 250ms or 5m. By default, it is chosen for 20 to 50 spans.",
        ),
    ] = None,
    format_name: options.OutputFormat = None,
    output: options.OutputFile = None,
    csv_guard: options.CsvGuard = True,
    vbucket: options.VBuckets = None,
    opcode: options.Opcodes = None,
    connection: options.Connections = None,
    key: options.Key = None,
    status: options.Statuses = None,
    collection: options.Collections = None,
    filter_: options.Filter = None,
    since: options.Since = None,
    until: options.Until = None,
    port: options.Port = None,
) -> int:
    """Count messages and bytes by command over time: a row for each span of time, and a chart for each command."""
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.counting import count_once
    from dcpinspect.reading import Reading
    from dcpinspect.render.io import io_lines
    from dcpinspect.tables.io import Intervals
    from dcpinspect.tables.times import length as length_of

    format_ = choose_format(format_name, output)
    options.refuse_unused(context, format_)
    length = None if interval is None else length_of(interval, "--interval", "1s, 250ms or 5m")
    if length == 0:
        raise UsageError(f"--interval {interval}: write a length of time above 0")
    selection = options.selection(
        vbucket=vbucket,
        opcode=opcode,
        connection=connection,
        key=key,
        status=status,
        collection=collection,
        filter_=filter_,
        span=options.span(since, until, captures),
        config=context.obj,
    )
    extra_ports, find_ports = options.ports(port)
    with Reading(captures, extra_ports=extra_ports, find_ports=find_ports) as reading:
        with opened(output, format_, captures) as out:
            counted, copies = count_once(reading, interrupts.batches(reading.capture, reading), lambda: Intervals(length), selection.rows)

            def lines(paint: Paint) -> Iterator[str]:
                return (paint(line, style) for line, style in io_lines(counted.records(), counted.interval_ns, width=out.width()))

            format_.report(out, Report(lines, counted.records), guard=csv_guard)
        return remarks(reading, shown=counted.messages, counted_copies=copies)
