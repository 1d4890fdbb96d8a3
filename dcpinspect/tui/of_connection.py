"""Restricts the results of a capture to one connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dcpinspect.coverage import Coverage
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.output.statistics import Charts, charts_of
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.filter import Filter, parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.message_statistics import MessageStats
from dcpinspect.tables.record_tables import Records
from dcpinspect.tables.round_trip_series import RoundTrips
from dcpinspect.tui.heat import Heat, HeatCounter
from dcpinspect.tui.marked import Marked
from dcpinspect.tui.results import Results
from dcpinspect.tui.vbucket_cells import whole_numbers

BATCH = 1 << 16
"""Number of messages that are counted at once."""


def filter_of(connection: int) -> Filter:
    """Returns the filter for the messages of a connection."""
    return parse_filter(f"connection = {connection}")


def of_connection(results: Results, connection: int) -> Results:
    """Returns the results of one connection; its messages are still to be counted.

    Records of vbuckets still count what their client received on all connections. Findings keep
    their texts about all connections.
    """
    findings = [finding for finding in results.findings if connection in finding.connections]
    records = {
        name: table.take(_rows_of(table, connection)) for name, table in results.records.items()
    }
    coverage = None if results.coverage is None else _coverage_of(results.coverage, connection)
    counts = results.charts.by_connection
    messages = int(counts[connection, 0]) if connection < len(counts) else 0
    return replace(
        results,
        connection=connection,
        records=records,
        findings=findings,
        statistics=[row for row in results.statistics if row.get("connection") == connection],
        heat=Heat(),
        charts=Charts(
            windows=[window for window in results.charts.windows if window[0] == connection],
            held=results.charts.held,
            by_connection=counts,
        ),
        coverage=coverage,
        looked=None if coverage is None else _looked(coverage, messages, records),
        marked=Marked(findings),
    )


def _rows_of(table: Records, connection: int) -> RowNumbers:
    if "connections" in table.columns:
        return np.array(
            [
                row
                for row, connections in enumerate(table.values("connections"))
                if connection in connections
            ],
            np.int64,
        )
    return (
        np.flatnonzero(whole_numbers(table, "connection") == connection)
        if len(table)
        else np.empty(0, np.int64)
    )


def _coverage_of(coverage: Coverage, connection: int) -> Coverage:
    return replace(
        coverage, directions=[*coverage.where(lambda all_: all_.connection == connection)], left=()
    )


def _looked(coverage: Coverage, messages: int, records: Mapping[str, Records]) -> LookedAt:
    sums = coverage.sums(lambda all_: all_.connection > 0)
    streams = len(records["streams"]) if "streams" in records else 0
    return LookedAt(
        messages,
        streams,
        sums["decoded"],
        coverage.plain_bytes(sums),
        lost=sums["missing"] - sums["filled"],
    )


def counted(store: Store, results: Results, goes_on: Callable[[float], bool]) -> Results | None:
    """Returns the results with the messages of their connection counted; reads those messages
    again. None if it was stopped.

    ``goes_on`` takes the share that is counted, 0 to 1, and returns whether to go on.
    """
    assert results.connection is not None
    rows = store.matching(FilterRows(filter_of(results.connection))).astype(np.int64)
    statistics, round_trips, heat = MessageStats(), RoundTrips(), HeatCounter()
    for start in range(0, len(rows), BATCH):
        if not goes_on(start / len(rows)):
            return None
        batch = store.messages(rows[start : start + BATCH])
        statistics.feed(batch, np.arange(len(batch)))
        round_trips.feed(batch)
        heat.feed(batch)
    charts = replace(
        charts_of(statistics, results.charts.windows, round_trips),
        held=results.charts.held,
        by_connection=results.charts.by_connection,
    )
    return replace(
        results, statistics=[*statistics.rows(), *results.statistics], charts=charts, heat=heat.now
    )
