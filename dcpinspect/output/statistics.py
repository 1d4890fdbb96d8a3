"""Statistics of one reading, as it goes on: what was said how often, how large, how fast, and how
whole the capture is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.coverage_text import interfaces
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.connection_charts import ConnectionCharts
from dcpinspect.streams.tables import Tables
from dcpinspect.tables.message_statistics import MessageStats, StatisticsRow, distribution
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.record_tables import WordColumn
from dcpinspect.tables.series import Series
from dcpinspect.text import words_of


@dataclass(frozen=True, slots=True)
class CommandRate:
    """How often a command was said on one side, in spans of time."""

    name: str
    side: str
    messages: IntArray
    bytes: IntArray


@dataclass(frozen=True, slots=True)
class Charts:
    """What can be drawn of one reading: numbers in spans of time, and by powers of two."""

    ends: tuple[int, int] = (0, 0)
    """When the capture began and ended, in nanoseconds since 1970."""
    span_ns: int = 1
    """Length of the spans of messages. The first span of all begins with the capture."""
    used: int = 0
    """Number of spans."""
    commands: Sequence[CommandRate] = ()
    """Commands, those that were said most first."""
    windows: Sequence[tuple[int, int, int, IntArray]] = ()
    """Connection, bytes of its window, length of its spans, most bytes outstanding."""
    round_trips: Sequence[tuple[int, int, IntArray]] = ()
    """Connection, length of its spans, nanoseconds of the slowest answer in each span."""
    noops: Sequence[tuple[int, int, IntArray]] = ()
    """Connection, length of its spans, nanoseconds of each span's slowest noop."""
    answers: Sequence[tuple[str, IntArray]] = ()
    """Command, and numbers of its answers by the power of two at or below their nanoseconds."""
    by_connection: IntArray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """Messages and bytes, by connection; those without messages may be missing at the end."""


def charts_of(counted: MessageStats, ends: tuple[int, int]) -> Charts:
    """Returns what can be drawn of messages that were counted. ``ends``: of the capture."""
    counted.reach(ends[1] - ends[0])
    messages, sizes = counted.messages_by_time, counted.bytes_by_time
    return Charts(
        ends=ends,
        span_ns=messages.span_ns,
        used=messages.used,
        commands=[
            CommandRate(name, side, messages.rows[number], sizes.rows[number])
            for number, name, side in counted.commands()
        ],
        answers=list(counted.answer_octaves()),
        by_connection=counted.by_connection.copy(),
    )


class Statistics:
    """The statistics of a reading. Feed it with every batch."""

    def __init__(self, *, of_all: bool = True) -> None:
        """``of_all``: all messages are counted; then there are also snapshots and windows, which
        belong to all messages.
        """
        self._of_all = of_all
        self._counted = MessageStats()
        self._of_connections = ConnectionCharts()

    @property
    def messages(self) -> int:
        """Number of messages that were counted."""
        return self._counted.messages

    def feed(self, batch: MessageBatch, rows: RowNumbers | None = None) -> None:
        """Takes the next messages of the reading; ``rows``: the messages that are to be counted."""
        self._counted.feed(batch, np.arange(len(batch)) if rows is None else rows)
        if self._of_all:
            self._of_connections.feed(batch)

    def rows(self, reading: Reading, tables: Tables | None = None) -> list[StatisticsRow]:
        """Returns the table of statistics by now; the reading tracks streams if all messages are
        counted. ``tables``: its own, if made already.
        """
        if self._of_all and reading.last_time_ns is not None:
            self._counted.reach(reading.ends[1] - reading.ends[0])
        of_streams = (
            _of_streams(tables or reading.tables, self._of_connections.most_outstanding)
            if self._of_all
            else ()
        )
        return [*self._counted.rows(), *of_streams, *_of_capture(reading)]

    def charts(self, reading: Reading, tables: Tables) -> Charts:
        """Returns what can be drawn by now; ``tables``: the tables of the reading."""
        charts, series = charts_of(self._counted, reading.ends), self._of_connections
        if not self._of_all:
            return charts
        last_times = tables.connections.rows("connection", "last_time")
        # what is outstanding stays so while nothing comes
        first_ns, end_ns = reading.ends
        series.outstanding.hold(
            {number: (last_ns or 0) - first_ns for number, last_ns in last_times}
        )
        for row in (series.outstanding, series.answers, series.noops):
            row.reach(end_ns - first_ns)
        return replace(
            charts,
            windows=list(_windows(tables, series.outstanding)),
            round_trips=list(_by_connection(series.answers)),
            noops=list(_by_connection(series.noops)),
        )


def _windows(tables: Tables, series: Series) -> Iterator[tuple[int, int, int, IntArray]]:
    """Yields ``Charts.windows`` for connections that have a window and lost nothing."""
    names = ("connection", "window_bytes", "outstanding_bytes")
    for connection, window, outstanding in tables.connections.rows(*names):
        if outstanding is not None and connection in series.rows:
            yield connection, window, series.span_ns, series.rows[connection]


def _by_connection(series: Series) -> Iterator[tuple[int, int, IntArray]]:
    """Yields the entries of ``Charts.round_trips``."""
    for connection in sorted(series.rows):
        yield connection, series.span_ns, series.rows[connection]


def _of_streams(tables: Tables, most_outstanding: Mapping[int, int]) -> Iterator[StatisticsRow]:
    """Yields sizes of snapshots by type, and windows of connections that lost nothing.

    ``most_outstanding``: bytes, by connection.
    """
    types, items = (tables.snapshots.columns[name] for name in ("type", "items"))
    assert isinstance(types, WordColumn)
    assert isinstance(items, NumberColumn)
    for kind, number in sorted((word, number) for number, word in enumerate(types.words)):
        type_items = items.values[types.codes == number]
        if len(type_items):
            yield {
                "section": "snapshots",
                "name": kind,
                "count": len(type_items),
                "unit": "items",
                **distribution(type_items),
            }
    names = ("connection", "window_bytes", "outstanding_bytes", "copy_of")
    for connection, window, outstanding, copy_of in tables.connections.rows(*names):
        if outstanding is not None and copy_of is None:
            yield {"section": "flow", "name": "window", "connection": connection, "bytes": window}
            greatest = most_outstanding.get(connection, 0)
            yield {
                "section": "flow",
                "name": "most outstanding",
                "connection": connection,
                "bytes": greatest,
                "share": greatest / window,
            }


def _of_capture(reading: Reading) -> Iterator[StatisticsRow]:
    """Yields what became of packets and bytes, and all messages, whatever was filtered."""
    copies = reading.tracker.left_out(reading.links) if reading.is_tracking else ()
    coverage = reading.coverage.without(copies, {})
    for interface, counts in interfaces(reading.capture.files):
        if counts.dropped is not None or counts.system_dropped is not None:
            yield {
                "section": "capture",
                "name": f"packets dropped at {interface}",
                "count": counts.lost,
            }
    for name, count in coverage.packets.items():
        if count:
            yield {"section": "capture", "name": f"packets {name}", "count": count}
    totals = coverage.own_protocol
    names = {"not_decodable": "not decodable", "tls": "TLS", "cut": "cut off"}
    for name in words_of(
        "captured decoded skipped unfinished not_decodable tls duplicate late missing cut"
    ):
        if name != "tls" or totals[name]:
            yield {"section": "capture", "name": names.get(name, name), "bytes": totals[name]}
    yield {"section": "capture", "name": "holes", "count": totals["holes"]}
