"""What the map of vbuckets shows of each: its worst finding, or else its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.style import Style
from textual.app import App

from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.output.render.verdict import (
    AFTER,
    EARLY,
    ENDED,
    LETTERS,
    Standing,
    paint_of,
    worst_severity,
)
from dcpinspect.streams.words import VBUCKET_VERDICTS
from dcpinspect.tui import theme
from dcpinspect.tui.results import Results
from dcpinspect.tui.theme import Glyphs

LEAST = 1024
"""Least number of vbuckets in the map of a whole bucket."""
FEW, FEWEST = 64, 16
"""Numbers of vbuckets with streams up to which the map shows only those around them, and up to
which it shows these alone, in words, as it shows few that are far apart.
"""

STATES = (*VBUCKET_VERDICTS[:7], "lost-something", EARLY, *VBUCKET_VERDICTS[7:])
"""Verdicts as ``stood`` tells them, the worst first."""


class Cells:
    """The state of each vbucket, from the tables of vbuckets and streams."""

    def __init__(self, results: Results) -> None:
        records, findings = results.records, results.findings
        vbuckets = records.get("vbuckets")
        rows = [] if vbuckets is None else vbuckets.row_dicts()
        self._standing, self._findings = Standing(records), len(findings)
        borne = [
            (rank, finding, bearers)
            for rank, (finding, bearers) in enumerate(zip(findings, results.bearers, strict=True))
            if finding.effect_of is None
        ]
        self._before = {
            number: len(findings) - rank
            for rank, _, bearers in reversed(borne)
            for number in bearers
        }
        """How early the list has a finding about each vbucket: greater numbers are earlier."""
        self.by_number: dict[int, list[Mapping[str, Any]]] = {}
        for row in rows:
            self.by_number.setdefault(row["vbucket"], []).append(row)
        self.requested = sorted(self.by_number)
        """Numbers of the vbuckets, rising."""
        self.numbers = self.requested
        """Vbuckets that the map shows, rising."""
        if not self.has_words:
            first = self.requested[0] // 8 * 8 if self.has_few else 0
            last = max([0 if self.has_few else LEAST - 1, *self.requested])
            self.numbers = list(range(first, last + 1))
        worst = {
            number: min(
                rows,
                key=lambda row: (
                    STATES.index(self._standing.state(row)),
                    row["verdict"] == "ended",
                ),
            )
            for number, rows in self.by_number.items()
        }
        self.states = {number: self._standing.state(row) for number, row in worst.items()}
        self._words = {number: self._standing.words(row) for number, row in worst.items()}
        self.severities = {number: worst_severity(*rows) for number, rows in self.by_number.items()}
        for severity in reversed(SEVERITIES[:2]):  # an error wins
            for _, finding, bearers in borne:
                if finding.severity == severity:
                    self.severities |= dict.fromkeys(self.by_number.keys() & bearers, severity)

    def end_reason(self, row: Mapping[str, Any]) -> str:
        """Returns why the newest stream of a row ended; empty if it did not."""
        return self._standing.end_reason(row)

    @property
    def has_few(self) -> bool:
        """Whether the map shows only the vbuckets that are requested, and those between them."""
        return 0 < len(self.by_number) <= FEW

    @property
    def has_words(self) -> bool:
        """Whether the map says in words how each vbucket stands."""
        count, numbers = len(self.by_number), self.requested
        return self.has_few and (count <= FEWEST or numbers[-1] - numbers[0] >= 2 * FEW)

    def words(self, number: int) -> str:
        """Returns this state in words; empty if nobody requested the vbucket."""
        return self._words.get(number, "")

    def short_words(self, number: int) -> str:
        """Returns the state short enough for a cell or a label: ``R`` and ``E`` say the rest."""
        return self.words(number).removesuffix(AFTER).removeprefix(ENDED)

    def mark(self, number: int, glyphs: Glyphs) -> tuple[str, str]:
        """Returns the sign of a vbucket and its colour: severity first, then state."""
        severity, state = self.severities.get(number), self.states.get(number, "")
        if severity is not None:
            return glyphs.of_severity(severity), f"severity-{severity}"
        paint = paint_of(state) if state else ""
        return LETTERS.get(state) or glyphs.verdicts.get(state, " "), paint

    def rank(self, number: int) -> int:
        """Returns how bad a vbucket is: a greater number is worse, 0 is not requested. Errors and
        warnings have the order of the list of findings.
        """
        state, severity = self.states.get(number, ""), self.severities.get(number)
        if severity is None:
            return len(STATES) - STATES.index(state) if state else 0
        by_severity = (self._findings + 1) * (severity == "error")
        return len(STATES) + 1 + self._before.get(number, 0) + by_severity

    def entries(self, glyphs: Glyphs) -> list[tuple[str, str, int, str]]:
        """Returns the signs, the worst first: sign, colour, number of vbuckets, and words."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for number in sorted(self.by_number, key=self.rank, reverse=True):
            words = {"error": "with an error", "warning": "with a warning"}.get(
                self.severities.get(number) or ""
            )
            counts[(*self.mark(number, glyphs), words or self.words(number))] += 1
        return [(sign, paint, count, words) for (sign, paint, words), count in counts.items()]


def sign_of(app: App[Any], cells: Cells, number: int) -> tuple[str, Style]:
    """Returns the sign of a vbucket, and its style; letters stand on their colour."""
    glyphs = theme.glyphs_of(app)
    sign, paint = cells.mark(number, glyphs)
    style = theme.style_of(app, paint)
    is_block = sign in glyphs.shades
    return sign, style if is_block or not paint else style + Style(reverse=True, bold=True)
