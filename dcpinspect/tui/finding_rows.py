"""Which messages show which findings, as columns, because there may be millions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.tui.row_index import RowIndex


def rows_of(finding: Finding) -> RowNumbers:
    """Returns all rows that show a finding, rising: those of its evidence, and those of similar
    messages.
    """
    evidence = np.array(
        [spot.row for case in finding.case_of_each for spot in case.places], np.int64
    )
    return np.unique(np.concatenate((evidence, finding.rows)))


class Marked:
    """The rows that show findings."""

    def __init__(self, findings: Sequence[Finding] = ()) -> None:
        """Makes the columns. ``findings``: the worst first."""
        rows_of_each = [rows_of(finding) for finding in findings]
        rows = np.concatenate([NO_ROWS, *rows_of_each])
        numbers = np.repeat(
            np.arange(len(rows_of_each), dtype=np.uint32),
            [len(finding_rows) for finding_rows in rows_of_each],
        )
        order = np.argsort(
            rows, kind="stable"
        )  # a stable sort keeps the worst finding of a row first
        self.rows: RowNumbers = rows[order]
        """Rows, rising; a row occurs once for each finding that it shows."""
        self.numbers: npt.NDArray[np.uint32] = numbers[order]
        """Number of the finding that each element of ``rows`` shows."""
        is_bad = np.array([finding.severity != "note" for finding in findings], np.bool_)
        self.bad: RowNumbers = (
            np.unique(self.rows[is_bad[self.numbers]]) if len(rows_of_each) else NO_ROWS
        )
        """Rows that show an error or a warning."""

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
