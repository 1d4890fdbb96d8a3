"""``dcpinspect stats``: what was said how often, how large, how fast, and how whole the capture is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.report import report
from dcpinspect.cli.terminal import INTERRUPTED, complain
from dcpinspect.export.formats import Format

if TYPE_CHECKING:
    from dcpinspect.cli.output import Output
    from dcpinspect.reading import Reading
    from dcpinspect.streams.balance import Balance
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
    from dcpinspect.streams.balance import Balance
    from dcpinspect.tables.select import Selection
    from dcpinspect.tables.statistics import MessageStats

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
        counted, balance = MessageStats(), Balance()
        with opened(output, format_, captures) as out:
            try:
                for batch in interrupts.between(reading):
                    counted.feed(batch, selection.rows(batch))
                    if is_all:
                        balance.feed(batch)
            finally:  # Ctrl-C: what was read until then
                if interrupts.settled():
                    complain(INTERRUPTED)
                rows = [*counted.rows(), *(_of_streams(reading, balance) if is_all else ()), *_of_capture(reading)]
                if format_ is Format.TEXT:
                    _write_text(rows, out)
                else:
                    from dcpinspect.cli.tables import write_records

                    write_records(_records(rows), None, format_, out, guard=csv_guard)
                out.is_complete = True
        return report(reading, shown=counted.messages)


def _of_streams(reading: Reading, balance: Balance) -> Iterator[Row]:
    """Sizes of snapshots by type, and the windows of connections that have one and lost nothing."""
    from dcpinspect.protocol.columns import Numbers
    from dcpinspect.tables.records import Worded
    from dcpinspect.tables.statistics import distribution

    tables = reading.tables
    types, items = (tables.snapshots.columns[name] for name in ("type", "items"))
    assert isinstance(types, Worded)
    assert isinstance(items, Numbers)
    for kind, number in sorted((word, number) for number, word in enumerate(types.words)):
        own = items.values[types.codes == number]
        if len(own):
            yield {"section": "snapshots", "name": kind, "count": len(own), "unit": "items", **distribution(own)}
    names = ("connection", "window_bytes", "outstanding_bytes")
    for connection, window, outstanding in zip(*(tables.connections.values(name) for name in names), strict=True):
        if outstanding is not None:
            yield {"section": "flow", "name": "window", "connection": connection, "bytes": window}
            greatest = balance.greatest.get(connection, 0)
            yield {"section": "flow", "name": "most outstanding", "connection": connection, "bytes": greatest, "share": greatest / window}


def _of_capture(reading: Reading) -> Iterator[Row]:
    """What became of packets and bytes; messages of the whole reading, whatever was filtered."""
    from dcpinspect.render.coverage import interfaces

    coverage = reading.coverage
    for place, counts in interfaces(reading.capture.files):
        if counts.dropped is not None or counts.system_dropped is not None:
            yield {"section": "capture", "name": f"packets dropped at {place}", "count": counts.lost}
    for name, count in coverage.packets.items():
        if count:
            yield {"section": "capture", "name": f"packets {name}", "count": count}
    from dcpinspect.coverage import OTHER

    own = [one for one in coverage.directions if one.protocol != OTHER]
    for name, size in (
        ("captured", sum(one.captured for one in own)),
        ("decoded", sum(one.decoded for one in own)),
        ("skipped", sum(sum(one.skipped.values()) for one in own)),
        ("unfinished", sum(one.unfinished for one in own)),
        ("not decodable", sum(one.not_decodable for one in own)),
        ("duplicate", sum(one.duplicate for one in own)),
        ("late", sum(one.late for one in own)),
        ("missing", sum(one.missing for one in own)),
        ("cut off", sum(one.cut for one in own)),
    ):
        yield {"section": "capture", "name": name, "bytes": size}
    yield {"section": "capture", "name": "holes", "count": sum(one.holes for one in own)}


def _records(rows: Sequence[Row]) -> Records:
    from dcpinspect.tables.records import Records
    from dcpinspect.tables.statistics import STATS

    return Records(STATS, {column.name: [row.get(column.name) for row in rows] for column in STATS.columns}, len(rows))


def _write_text(rows: Sequence[Row], output: Output) -> None:
    from dcpinspect.render.stats import stats_text

    paint = output.painter()
    for line, style in stats_text(rows, width=output.width()):
        output.put(paint(line, style) + "\n")
