"""The results that were worked out from a capture, or those of one of its connections; the views show
them. Which messages show which findings is in columns, because there may be millions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.coverage import Coverage
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.finding_records import with_counts
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.finding_marks import FindingMarks, bearers_of, bearing, lives, rows_marked
from dcpinspect.output.render.finding_text import explained_by
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.output.statistics import Charts
from dcpinspect.output.vbucket_heat import Heat
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.protocol.foreign import TLS
from dcpinspect.reading.store.store import Store
from dcpinspect.streams.tables import Tables
from dcpinspect.tables.message_statistics import StatisticsRow
from dcpinspect.tables.record_tables import Records
from dcpinspect.tui.row_index import RowIndex


class Marked:
    """The rows that show findings."""

    def __init__(self, findings: Sequence[Finding] = (), store: Store | None = None) -> None:
        """Makes the columns. ``findings``: the worst first. ``store``: has their messages."""
        rows_of_each = [rows_marked(finding, store) for finding in findings if store is not None]
        rows = np.concatenate([NO_ROWS, *rows_of_each])
        numbers = np.repeat(
            np.arange(len(rows_of_each), dtype=np.uint32),
            [len(finding_rows) for finding_rows in rows_of_each],
        )
        ranks = [
            2 if finding.effect_of is not None else int(finding.severity == "note")
            for finding in findings
        ]
        rank = np.array(ranks, np.int8)
        # of a row the worst finding comes first, what other findings explain last
        order = np.lexsort((numbers, rank[numbers], rows))
        self.rows: RowNumbers = rows[order]
        """Rows, rising; a row occurs once for each finding that it shows."""
        self.numbers: npt.NDArray[np.uint32] = numbers[order]
        """Number of the finding that each element of ``rows`` shows."""
        self.bad: RowNumbers = (
            np.unique(self.rows[rank[self.numbers] == 0]) if len(rows_of_each) else NO_ROWS
        )
        """Rows that show an error or a warning that is no effect."""

    def finding_numbers(self, row: int) -> list[int]:
        """Returns the numbers of the findings that a row shows, the worst first."""
        low, high = np.searchsorted(self.rows, np.array([row, row + 1])).tolist()
        numbers: list[int] = self.numbers[low:high].tolist()
        return numbers

    def next_bad(self, row: int, index: RowIndex, *, back: bool = False) -> int | None:
        """Returns the next row after ``row``, or before it, that shows an error or a warning and is
        in the list ``index``.
        """
        ahead = (
            self.bad[: np.searchsorted(self.bad, row)][::-1]
            if back
            else self.bad[np.searchsorted(self.bad, row, "right") :]
        )
        for start in range(0, len(ahead), _AT_ONCE):
            candidates = ahead[start : start + _AT_ONCE]
            listed = candidates[index.have(candidates)]
            if len(listed):
                return int(listed[0])
        return None


_AT_ONCE = 1 << 12
"""Number of rows that are looked up in a list at once."""


@dataclass(frozen=True, slots=True)
class Results:
    """Results from the messages up to row ``rows``."""

    rows: int = 0
    tables: Tables | None = None
    records: Mapping[str, Records] = field(default_factory=dict)
    """Tables of records, by their names in SQL."""
    findings: Sequence[Finding] = ()
    statistics: Sequence[StatisticsRow] = ()
    charts: Charts = field(default_factory=Charts)
    heat: Heat = field(default_factory=Heat)
    coverage: Coverage | None = None
    looked: LookedAt | None = None
    """How much was checked."""
    marked: Marked = field(default_factory=Marked)
    """Rows that show findings."""
    bearers: Sequence[Collection[int]] = ()
    """Vbuckets that bear each finding, as ``bearers_of`` returns them."""
    finding_marks: FindingMarks = FindingMarks()
    """Where errors and warnings stand in time."""
    connection: int | None = None
    """Number of the only connection of these results; None: all connections."""
    closed: Mapping[int, int] = field(default_factory=dict)
    """When each closed connection had its first FIN or RST, in nanoseconds since 1970."""

    @property
    def vbuckets(self) -> Sequence[int]:
        """Numbers of the vbuckets that have streams, rising."""
        table = self.records.get("vbuckets")
        return [] if table is None else sorted(set(table.values("vbucket")))

    @property
    def encrypted(self) -> set[int]:
        """Numbers of the connections of TLS that were not decrypted."""
        unread = (
            ()
            if self.coverage is None
            else self.coverage.where(lambda all_: all_.not_decodable > 0)
        )
        return {direction.connection for direction in unread if direction.protocol == TLS}

    @property
    def no_vbucket(self) -> str:
        """Says that no vbucket was requested, or why nobody knows; empty if one was."""
        if self.vbuckets:
            return ""
        encrypted = "vbuckets are not known: TLS, not decrypted"
        return encrypted if self.encrypted else "no vbucket was requested"

    @property
    def worst_vbucket(self) -> int | None:
        """Number of the first vbucket that bears the worst finding; the first of all without."""
        return min(next(filter(None, self.bearers), self.vbuckets), default=None)

    def findings_of(self, vbucket: int) -> list[int]:
        """Returns the numbers of the findings that a vbucket bears, and of their causes; worst first."""
        borne = [
            finding
            for finding, bearers in zip(self.findings, self.bearers, strict=True)
            if vbucket in bearers
        ]
        ids = {finding.id for finding in borne} | {finding.effect_of for finding in borne}
        return [number for number, finding in enumerate(self.findings) if finding.id in ids]

    def finding(self, row: int) -> Finding | None:
        """Returns the worst finding that a row shows."""
        numbers = self.marked.finding_numbers(row)
        return self.findings[numbers[0]] if numbers else None


def of_connection(results: Results, connection: int, store: Store) -> Results:
    """Returns the results of one connection; charts, and counts of messages, are of all.

    Findings keep their texts about all connections, but only the cases of this one. What a finding
    about other connections explains stands for itself, and names that.
    """
    findings, alone = _naming(results.findings, connection)
    records = {
        name: table.take(_rows_of(table, connection)) for name, table in results.records.items()
    }
    if results.tables is not None:
        records["vbuckets"] = results.tables.vbuckets_of(connection)
        clients = results.tables.seen.clients
        clients = {number: name for number, name in clients.items() if number == connection}
        records |= with_counts(records, findings, clients)
    coverage = results.coverage
    if coverage is not None:
        directions = [*coverage.where(lambda all_: all_.connection == connection)]
        coverage = replace(coverage, directions=directions, left=())
    counts = results.charts.by_connection
    messages = int(counts[connection, 0]) if connection < len(counts) else 0
    series: dict[str, Any] = {
        name: [one for one in getattr(results.charts, name) if one[0] == connection]
        for name in ("windows", "round_trips", "noops")  # each begins with its connection
    }
    bear = bearing(partial(lives, records["streams"]), connection)
    marks = (results.finding_marks, FindingMarks.of(alone, bear, store))
    finding_marks = FindingMarks(*map(np.concatenate, zip(*marks, strict=True)))
    return replace(
        results,
        connection=connection,
        records=records,
        findings=findings,
        statistics=[
            row for row in results.statistics if row.get("connection") in (None, connection)
        ],
        charts=replace(results.charts, **series),
        coverage=coverage,
        looked=None if coverage is None else _looked(coverage, messages, records),
        marked=Marked(findings, store),
        bearers=bearers_of(findings, bear),
        finding_marks=finding_marks.where(finding_marks.connection == connection),
    )


def _naming(findings: Sequence[Finding], connection: int) -> tuple[list[Finding], list[Finding]]:
    """Returns the findings that name a connection, and those of them that stand alone because what
    explains them does not.
    """
    foreign = {finding.id: finding for finding in findings if connection not in finding.connections}
    named, alone = list[Finding](), list[Finding]()
    for finding in findings:
        if finding.id in foreign:
            continue
        cases = tuple(case for case in finding.cases if connection in case.connections)
        finding = replace(finding, cases=cases or finding.cases)
        if cause := foreign.get(finding.effect_of or ""):
            advice = f"{explained_by(cause)}; C shows all connections"
            finding = replace(finding, effect_of=None, next=advice)
            alone.append(finding)
        named.append(finding)
    return named, alone


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
    return table.rows_with("connection", connection)


def _looked(coverage: Coverage, messages: int, records: Mapping[str, Records]) -> LookedAt:
    sums = coverage.sums(lambda all_: all_.connection > 0)
    table = records.get("streams")
    streams = 0 if table is None else len(table) - len(table.rows_with("verdict", "never-opened"))
    return LookedAt(
        messages,
        streams,
        sums["decoded"],
        coverage.plain_bytes(sums),
        lost=sums["missing"] - sums["filled"],
    )
