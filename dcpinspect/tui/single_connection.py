"""Restricts the results of a capture to one connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dcpinspect.coverage import Coverage
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.tables.record_tables import Records
from dcpinspect.tui.finding_rows import Marked
from dcpinspect.tui.results import Results
from dcpinspect.tui.vbucket_cells import whole_numbers

Series = tuple[int, *tuple[Any, ...]]
"""A chart of a connection, which begins with its number."""


def of_connection(results: Results, connection: int) -> Results:
    """Returns the results of one connection; charts, and counts of messages, are of all.

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
        statistics=[
            row for row in results.statistics if row.get("connection") in (None, connection)
        ],
        charts=replace(
            results.charts,
            windows=_series_of(results.charts.windows, connection),
            round_trips=_series_of(results.charts.round_trips, connection),
            noops=_series_of(results.charts.noops, connection),
        ),
        coverage=coverage,
        looked=None if coverage is None else _looked(coverage, messages, records),
        marked=Marked(findings),
    )


def _series_of(series: Sequence[Series], connection: int) -> list[Series]:
    return [column_values for column_values in series if column_values[0] == connection]


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
