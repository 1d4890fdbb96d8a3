"""``dcpinspect stats``: what was said how often, how large, how fast, and how whole the capture is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.report import report
from dcpinspect.cli.terminal import INTERRUPTED, complain
from dcpinspect.export.formats import Format

if TYPE_CHECKING:
    from dcpinspect.cli.output import Output
    from dcpinspect.tables.records import Records
    from dcpinspect.tables.statistics import Row

USERS = {"csv_guard": (Format.CSV,)}
"""The formats that do something with an option, by its parameter; all do with those that are not here."""


def stats(
    context: typer.Context,
    captures: options.Captures,
    format_: options.OutputFormat = None,
    output: options.OutputFile = None,
    csv_guard: options.CsvGuard = True,
    vbucket: options.VBuckets = None,
    opcode: options.Opcodes = None,
    connection: options.Connections = None,
    key: options.Key = None,
    status: options.Statuses = None,
    collection: options.Collections = None,
    filter_: options.Filter = None,
    port: options.Port = None,
) -> int:
    """Count messages by command and status, with sizes, times of answers and throughput; snapshots, windows and what was lost.

    With filters only the messages that meet them are counted, and snapshots and windows, which belong to all messages, are left out.
    """
    # Deferred: NumPy and the decoder; --help and completion do without.
    from dcpinspect.reading import Reading
    from dcpinspect.statistics import Statistics
    from dcpinspect.tables.select import Selection

    format_ = choose_format(format_, output)
    options.refuse_unused(context, format_, USERS)
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
    is_all = selection == Selection()
    extra_ports, find_ports = options.ports(port)
    with Reading(captures, extra_ports=extra_ports, find_ports=find_ports, track=is_all) as reading:
        counted = Statistics(of_all=is_all)
        with opened(output, format_, captures) as out:
            try:
                for batch in interrupts.between(reading):
                    counted.feed(batch, selection.rows(batch))
            finally:  # Ctrl-C: what was read until then
                if interrupts.settled():
                    complain(INTERRUPTED)
                rows = counted.rows(reading)
                if format_ is Format.TEXT:
                    _write_text(rows, out)
                else:
                    from dcpinspect.cli.tables import write_records

                    write_records(_records(rows), None, format_, out, guard=csv_guard)
                out.is_complete = True
        return report(reading, shown=counted.messages)


def _records(rows: Sequence[Row]) -> Records:
    from dcpinspect.tables.records import Records
    from dcpinspect.tables.statistics import STATS

    return Records(STATS, {column.name: [row.get(column.name) for row in rows] for column in STATS.columns}, len(rows))


def _write_text(rows: Sequence[Row], output: Output) -> None:
    from dcpinspect.render.stats import stats_text

    paint = output.painter()
    for line, style in stats_text(rows, width=output.width()):
        output.put(paint(line, style) + "\n")
