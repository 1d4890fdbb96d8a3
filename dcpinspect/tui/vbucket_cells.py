"""The values that the map of vbuckets shows: the verdict of each vbucket, or a measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.verdict import LETTERS, LOST, stood
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.words import VBUCKET_VERDICTS
from dcpinspect.tables.record_tables import Records
from dcpinspect.tui.theme import Glyphs

LEAST = 1024
"""Least number of vbuckets in the map of a whole bucket."""
FEW = 64
"""Number of vbuckets with streams up to which only these are shown."""
LEVELS = 8


MEASURES = {
    "verdict": "",
    "behind": "seqnos",
    "items": "items",
    "bytes": "bytes",
    "gaps": "lost or unexplained",
    "rollbacks": "rollbacks",
    "snapshots": "snapshots",
    "from disk": "%",
    "last heard": "ms before the end",
}
"""What cells can show, and its unit. ``gaps`` counts gaps with a cause in ``LOST``."""

TELLING = ("behind", "gaps", "rollbacks", "items", "bytes", "snapshots", "from disk")
"""Measures in the order of what they tell when all vbuckets have one verdict, the best first."""
ALIKE = 0.1
"""Values that differ by at most this part of the greatest value are alike."""

STATES = (*VBUCKET_VERDICTS[:7], "lost-something", *VBUCKET_VERDICTS[7:])
"""Verdicts as ``stood`` tells them, the worst first."""


class Cells:
    """The state and the value of each vbucket, from the table of vbuckets."""

    def __init__(self, vbuckets: Records | None, snapshots: Records | None = None) -> None:
        rows = [] if vbuckets is None else _rows(vbuckets)
        self.by_number: dict[int, list[Mapping[str, Any]]] = {}
        for row in rows:
            self.by_number.setdefault(row["vbucket"], []).append(row)
        self._last_ns = max((row["last_time"] or 0 for row in rows), default=0)
        self._snapshots = snapshots
        self.count = max(LEAST, max(self.by_number, default=-1) + 1)
        self.numbers = (
            sorted(self.by_number) if 0 < len(self.by_number) <= FEW else list(range(self.count))
        )
        """Vbuckets that the map shows, rising."""
        self._states = {
            number: min((stood(row) for row in findings), key=STATES.index)
            for number, findings in self.by_number.items()
        }
        self._severities = {number: _worst(findings) for number, findings in self.by_number.items()}

    @property
    def has_few(self) -> bool:
        """Whether only vbuckets with streams are shown."""
        return 0 < len(self.by_number) <= FEW

    def state(self, number: int) -> str:
        """Returns the worst state of a vbucket among its clients; empty if nobody requested it."""
        return self._states.get(number, "")

    def severity(self, number: int) -> Severity | None:
        """Returns the severity of the worst finding about a vbucket; notes do not count."""
        return self._severities.get(number)

    def mark(self, number: int, glyphs: Glyphs) -> tuple[str, str]:
        """Returns the sign of a vbucket and its colour: severity first, then state."""
        severity, state = self.severity(number), self.state(number)
        if severity is not None:
            return glyphs.of_severity(severity), f"severity-{severity}"
        return LETTERS.get(state) or glyphs.verdicts.get(state, " "), paint_of(state)

    def rank(self, number: int) -> int:
        """Returns how bad a vbucket is: a greater number is worse, 0 is not requested."""
        state = self.state(number)
        by_state = len(STATES) - STATES.index(state) if state else 0
        return by_state + len(STATES) * {"error": 2, "warning": 1}.get(
            self.severity(number) or "", 0
        )

    @property
    def is_one(self) -> bool:
        """Whether states say nothing, because there are many vbuckets, all with one state and
        without findings.
        """
        is_one = len(self.by_number) > FEW and len(set(self._states.values())) == 1
        return is_one and not any(self._severities.values())

    def telling(self) -> str:
        """Returns what the map should show: verdicts, or, if these say nothing, the first measure
        in which vbuckets differ.
        """
        if self.is_one:
            for measure in TELLING:
                values = self.values(measure)[list(self.by_number)]
                if values.max() - values.min() > ALIKE * values.max():
                    return measure
        return "verdict"

    def entries(self, glyphs: Glyphs) -> list[tuple[str, str, int, str]]:
        """Returns what the signs mean, the worst first: the sign, its colour, how many vbuckets
        have it, and the words.
        """
        counts: Counter[tuple[str, str, str]] = Counter()
        for number in sorted(self.by_number, key=self.rank, reverse=True):
            words = {"error": "with an error", "warning": "with a warning"}.get(
                self.severity(number) or ""
            )
            counts[(*self.mark(number, glyphs), words or self.state(number).replace("-", " "))] += 1
        return [(sign, paint, count, words) for (sign, paint, words), count in counts.items()]

    def values(self, measure: str) -> IntArray:
        """Returns the measure of each vbucket; for verdicts, a greater value is worse."""
        amounts = np.zeros(self.count, np.int64)
        if measure == "from disk":
            return self._from_disk()
        for number, rows in self.by_number.items():
            if measure == "verdict":
                amounts[number] = self.rank(number)
            elif measure == "last heard":
                amounts[number] = (
                    self._last_ns - max(row["last_time"] or 0 for row in rows)
                ) // 1_000_000
            else:
                amounts[number] = sum(_measured(row, measure) for row in rows)
        return amounts

    def _from_disk(self) -> IntArray:
        """Returns which percentage of each vbucket's items in snapshots came from disk."""
        if self._snapshots is None or not len(self._snapshots):
            return np.zeros(self.count, np.int64)
        vbucket, items = (whole_numbers(self._snapshots, name) for name in ("vbucket", "items"))
        disk = np.zeros(len(vbucket), np.bool_)
        disk[self._snapshots.rows_with("type", "disk")] = True
        total, disk_items = (
            np.bincount(vbucket, weights=weights, minlength=self.count)
            for weights in (items, items * disk)
        )
        return np.ceil(100 * disk_items / np.maximum(total, 1)).astype(np.int64)


def paint_of(state: str) -> str:
    """Returns the colour of a state."""
    return "verdict-behind" if state == "lost-something" else f"verdict-{state}" if state else ""


def _worst(rows: Sequence[Mapping[str, Any]]) -> Severity | None:
    counts = [row["findings"] or {} for row in rows]
    for severity in ("error", "warning"):
        if any(count.get(severity) for count in counts):
            return severity
    return None


def whole_numbers(records: Records, name: str) -> IntArray:
    """Returns a column of numbers without nulls."""
    column = records.columns[name]
    return (
        column.values.astype(np.int64)
        if isinstance(column, NumberColumn)
        else np.array(records.values(name), np.int64)
    )


def _rows(records: Records) -> list[dict[str, Any]]:
    names = [column.name for column in records.table.columns]
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(records.values(name) for name in names), strict=True)
    ]


def _measured(row: Mapping[str, Any], measure: str) -> int:
    if measure == "gaps":
        return sum(int((row["gaps"] or {}).get(cause, 0)) for cause in LOST)
    return int(row[measure] or 0)


def in_words(value: int, measure: str) -> str:
    """Writes the value of a cell with its unit: ``1 item``, ``52 items``."""
    unit = MEASURES[measure].split(" before")[0]
    return f"{value:,} {unit.removesuffix('s') if value == 1 and len(unit) > 2 else unit}"


def edges(values: IntArray, measure: str) -> list[int]:
    """Returns the least value of each level, rising.

    Percentages have levels of equal size. For all other measures, each level has about as many
    vbuckets. So a map still shows who has more and who less, even if all values are close together
    or one is far from the others.
    """
    if MEASURES[measure] == "%":
        return [1, *(-(-100 * level // LEVELS) for level in range(1, LEVELS))]
    sorted_values = np.sort(values[values > 0])
    if not len(sorted_values):
        return []
    return [
        int(edge)
        for edge in np.unique(sorted_values[np.arange(LEVELS) * len(sorted_values) // LEVELS])
    ]


def levels(values: IntArray, steps: list[int]) -> IntArray:
    """Returns the level of each value: 1 to 8, 0 for the value 0. Level 8 always occurs if a value
    is above 0.
    """
    reached = np.searchsorted(np.array(steps, np.int64), values, "right")
    return np.where(values > 0, LEVELS - len(steps) + reached, 0)
