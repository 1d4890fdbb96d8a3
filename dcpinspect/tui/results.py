"""The results that were worked out from a capture; the views show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dcpinspect.coverage import Coverage
from dcpinspect.findings.finding import Finding
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.output.statistics import Charts
from dcpinspect.streams.tables import Tables
from dcpinspect.tables.message_statistics import StatisticsRow
from dcpinspect.tables.record_tables import Records
from dcpinspect.tui.finding_rows import Marked
from dcpinspect.tui.heat import Heat


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
    encrypted: int = 0
    """Number of connections whose TLS is not decrypted."""
    marked: Marked = field(default_factory=Marked)
    """Rows that show findings."""
    connection: int | None = None
    """Number of the only connection of these results; None: all connections."""

    @property
    def vbuckets(self) -> Sequence[int]:
        """Numbers of the vbuckets that have streams, rising."""
        table = self.records.get("vbuckets")
        return [] if table is None else sorted(set(table.values("vbucket")))

    @property
    def worst_vbucket(self) -> int | None:
        """Number of the first vbucket of the worst error or warning; the first of all without."""
        for finding in self.findings:
            if finding.severity != "note" and finding.vbuckets:
                return min(finding.vbuckets)
        return min(self.vbuckets, default=None)

    def row_of_worst(self, vbucket: int) -> int:
        """Returns the row that shows the worst error or warning of a vbucket; 0 without."""
        for finding in self.findings:
            for case in finding.case_of_each if finding.severity != "note" else ():
                if vbucket in case.vbuckets and case.places:
                    return case.places[0].row
        return 0

    def finding(self, row: int) -> Finding | None:
        """Returns the worst finding that a row shows."""
        numbers = self.marked.finding_numbers(row)
        return self.findings[numbers[0]] if numbers else None
