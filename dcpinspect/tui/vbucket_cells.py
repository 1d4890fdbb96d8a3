"""The values that the map of vbuckets shows: the verdict of each vbucket, or a measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.style import Style
from rich.text import Text

from dcpinspect.findings.finding import ranges
from dcpinspect.protocol.columns import Numbers
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.words import VBUCKET_VERDICTS
from dcpinspect.tables.records import Records
from dcpinspect.tui.theme import Glyphs

LEAST = 1024
"""Least number of vbuckets in the map of a whole bucket."""
FEW = 64
"""Number of vbuckets with streams up to which only these are shown."""
LEVELS = 8

Values = npt.NDArray[np.int64]

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
"""What cells can show, and its unit. ``gaps`` counts gaps with a cause in ``GAPS_THAT_COUNT``."""

GAPS_THAT_COUNT = ("unexplained", "capture-loss")
"""Causes of gaps that are unexplained, or that the capture has lost; gaps of all other causes miss nothing."""

TELLING = ("behind", "gaps", "rollbacks", "items", "bytes", "snapshots", "from disk")
"""Measures in the order of what they tell when all vbuckets have one verdict, the best first."""
ALIKE = 0.1
"""Values that differ by at most this part of the greatest value are alike."""

LETTERS = {
    "behind": "b",
    "orphaned": "O",
    "starved-by-flow-control": "F",
    "rolled-back": "R",
    "refused": "X",
    "never-answered": "?",
}
"""Verdicts that are bad news, with their letters; the others are drawn as blocks."""


class Cells:
    """The value of each vbucket, from the table of vbuckets."""

    def __init__(self, vbuckets: Records | None, snapshots: Records | None = None) -> None:
        rows = [] if vbuckets is None else _rows(vbuckets)
        self.by_number: dict[int, list[Mapping[str, Any]]] = {}
        for row in rows:
            self.by_number.setdefault(row["vbucket"], []).append(row)
        self._last_ns = max((row["last_time"] or 0 for row in rows), default=0)
        self._snapshots = snapshots
        self.count = max(LEAST, max(self.by_number, default=-1) + 1)
        self.numbers = sorted(self.by_number) if 0 < len(self.by_number) <= FEW else list(range(self.count))
        """Vbuckets that the map shows, rising."""

    @property
    def has_few(self) -> bool:
        """Whether only vbuckets with streams are shown."""
        return 0 < len(self.by_number) <= FEW

    def verdict(self, number: int) -> str:
        """Returns the worst verdict of a vbucket's clients; empty if nobody requested it."""
        found = [VBUCKET_VERDICTS.index(row["verdict"]) for row in self.by_number.get(number, ())]
        return VBUCKET_VERDICTS[min(found)] if found else ""

    def verdicts(self) -> Counter[str]:
        """Returns how many vbuckets have each verdict."""
        return Counter(self.verdict(number) for number in self.by_number)

    @property
    def is_one(self) -> bool:
        """Whether verdicts say nothing, because there are many vbuckets, all with one verdict and without findings."""
        is_one = len(self.by_number) > FEW and len(self.verdicts()) == 1
        return is_one and not any(self.severity(number) for number in self.by_number)

    def telling(self) -> str:
        """Returns what the map should show: verdicts, or, if these say nothing, the first measure in which vbuckets differ."""
        if self.is_one:
            for measure in TELLING:
                values = self.values(measure)[list(self.by_number)]
                if values.max() - values.min() > ALIKE * values.max():
                    return measure
        return "verdict"

    def entries(self, glyphs: Glyphs, style: Callable[[str], Style], *, has_numbers: bool = False) -> list[Text]:
        """Returns how many vbuckets have each verdict, with its sign and ``style``, and how many have the sign of a finding instead.

        ``has_numbers``: adds the numbers of the vbuckets, and puts the worst verdict first.
        """
        counts, out = self.verdicts(), []
        for verdict in VBUCKET_VERDICTS if has_numbers else reversed(VBUCKET_VERDICTS):
            if counts[verdict]:
                letter = LETTERS.get(verdict)
                entry = Text(letter or glyphs.verdicts[verdict], style(verdict) + Style(reverse=letter is not None))
                entry = Text.assemble(entry, f" {counts[verdict]:,} {verdict.replace('-', ' ')}")
                if has_numbers:
                    entry.append(f": vb {ranges(number for number in sorted(self.by_number) if self.verdict(number) == verdict)}", "dim")
                out.append(entry)
        found = Counter(self.severity(number) for number in self.by_number if self.verdict(number) not in LETTERS)
        for severity in ("error", "warning"):
            if found[severity]:
                entry = Text(glyphs.of(severity), Style(reverse=True, bold=True))
                out.append(Text.assemble(entry, f" {found[severity]:,} of them with {'an error' if severity == 'error' else 'a warning'}"))
        return out or [Text("no vbucket was requested")]

    def values(self, measure: str) -> Values:
        """Returns the measure of each vbucket; for verdicts, a greater value is worse."""
        found = np.zeros(self.count, np.int64)
        if measure == "from disk":
            return self._from_disk()
        for number, rows in self.by_number.items():
            if measure == "verdict":
                found[number] = len(VBUCKET_VERDICTS) - VBUCKET_VERDICTS.index(self.verdict(number))
            elif measure == "last heard":
                found[number] = (self._last_ns - max(row["last_time"] or 0 for row in rows)) // 1_000_000
            else:
                found[number] = sum(_measured(row, measure) for row in rows)
        return found

    def _from_disk(self) -> Values:
        """Returns which percentage of each vbucket's items in snapshots came from disk."""
        if self._snapshots is None or not len(self._snapshots):
            return np.zeros(self.count, np.int64)
        vbucket, items = (whole(self._snapshots, name) for name in ("vbucket", "items"))
        disk = np.zeros(len(vbucket), np.bool_)
        disk[self._snapshots.rows_with("type", "disk")] = True
        total, own = (np.bincount(vbucket, weights=weights, minlength=self.count) for weights in (items, items * disk))
        return np.ceil(100 * own / np.maximum(total, 1)).astype(np.int64)

    def severity(self, number: int) -> Severity | None:
        """Returns the severity of the worst finding about a vbucket; notes do not count."""
        counts = [row["findings"] or {} for row in self.by_number.get(number, ())]
        for severity in ("error", "warning"):
            if any(one.get(severity) for one in counts):
                return severity
        return None


def whole(records: Records, name: str) -> Values:
    """Returns a column of numbers without nulls."""
    column = records.columns[name]
    return column.values.astype(np.int64) if isinstance(column, Numbers) else np.array(records.values(name), np.int64)


def _rows(records: Records) -> list[dict[str, Any]]:
    names = [column.name for column in records.table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*(records.values(name) for name in names), strict=True)]


def _measured(row: Mapping[str, Any], measure: str) -> int:
    if measure == "gaps":
        return sum(int((row["gaps"] or {}).get(cause, 0)) for cause in GAPS_THAT_COUNT)
    return int(row[measure] or 0)


def in_words(value: int, measure: str) -> str:
    """Writes the value of a cell with its unit: ``1 item``, ``52 items``."""
    unit = MEASURES[measure].split(" before")[0]
    return f"{value:,} {unit.removesuffix('s') if value == 1 and len(unit) > 2 else unit}"


def edges(values: Values, measure: str) -> list[int]:
    """Returns the least value of each level, rising.

    Percentages have levels of equal size. For all other measures, each level has about as many vbuckets. So a map still shows who has more
    and who less, even if all values are close together or one is far from the others.
    """
    if MEASURES[measure] == "%":
        return [1, *(-(-100 * level // LEVELS) for level in range(1, LEVELS))]
    found = np.sort(values[values > 0])
    if not len(found):
        return []
    return [int(edge) for edge in np.unique(found[np.arange(LEVELS) * len(found) // LEVELS])]


def levels(values: Values, steps: list[int]) -> Values:
    """Returns the level of each value: 1 to 8, 0 for the value 0. Level 8 always occurs if a value is above 0."""
    reached = np.searchsorted(np.array(steps, np.int64), values, "right")
    return np.where(values > 0, LEVELS - len(steps) + reached, 0)
