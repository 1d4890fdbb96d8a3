"""What a comparison has found: the records, and the sums that a summary is made of."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from dcpinspect.diff.difference_columns import DIFFERENCES, KINDS, SIDES, SINGLE, VERDICT_OF
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tables.record_tables import Records

DifferenceRow = dict[str, Any]

MOST = 100_000
"""Greatest number of records of one kind that one side lacks; all others are only counted."""


@dataclass(frozen=True, slots=True)
class BranchProgress:
    """How far the two sides have come on a branch on which one has come further."""

    vbucket: int
    uuid: int
    a: int
    b: int


@dataclass(slots=True)
class Differences:
    """What a comparison has found. Vbuckets are added some at a time."""

    assumed: dict[str, int]
    """For each side, the number of vbuckets with a stream whose history its capture does not show.
    """
    doubted: int
    """Number of vbuckets that may have one of several histories."""
    rows: list[DifferenceRow] = field(default_factory=list)
    """The records, whose keys are the names of the contract's columns."""
    counts: dict[tuple[str, str | None], tuple[int, int]] = field(default_factory=dict)
    """Number of events, and of vbuckets with any, by kind and by the side that lacks them."""
    events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    """Number of different events of each side."""
    vbuckets: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    """Number of vbuckets with a stream, of each side."""
    common: int = 0
    """Number of events that both sides have."""
    reached: list[BranchProgress] = field(default_factory=list)
    shows: set[int] = field(default_factory=set)
    """The ways in which values were shown to either side, as numbers; -1 for an unknown one."""
    left_out: int = 0
    """Number of events that differ, or were not sent, and have no record."""

    @property
    def is_different(self) -> bool:
        """Whether the sides differ, whatever the captures lack."""
        return any(VERDICT_OF[kind] == "different" for kind, _ in self.counts)

    @property
    def why_nothing(self) -> str:
        """Why nothing at all could be compared; empty if something was compared."""
        if self.common or any(VERDICT_OF[kind] != "not-compared" for kind, _ in self.counts):
            return ""
        lacking = [side.upper() for side in SIDES if not self.vbuckets[side]]
        if lacking:
            return (
                f"{' and '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} no stream of "
                "what was asked for"
            )
        if not any(self.events.values()):
            return "neither side has an event"
        if all(kind == "no-stream" for kind, _ in self.counts):
            return "no vbucket has a stream on both sides"
        return "no event is on both sides, and the captures do not tell why"

    @property
    def are_shown_alike(self) -> bool:
        """Whether both sides are shown values in the same form, so that they can be compared."""
        return len(self.shows) <= 1 and -1 not in self.shows

    def count(self, kind: str, lacks: str | None, events: int, vbuckets: int) -> None:
        """Adds to the counts of a kind."""
        before = self.counts.get((kind, lacks), (0, 0))
        self.counts[kind, lacks] = before[0] + events, before[1] + vbuckets

    def in_order(self) -> None:
        """Sorts the records, worst first, then by vbucket and seqno; cuts them at the limit."""
        self.counts = {
            key: self.counts[key]
            for key in sorted(self.counts, key=lambda key: (KINDS.index(key[0]), key[1] or ""))
        }
        self.rows.sort(
            key=lambda row: (
                KINDS.index(row["kind"]),
                row["vbucket"],
                row["first_seqno"] or 0,
                row["lacks"] or "",
            )
        )
        kept_counts: dict[tuple[str, str | None], int] = {}
        rows = []
        for row in self.rows:
            key = row["kind"], row["lacks"]
            kept_counts[key] = kept_counts.get(key, 0) + 1
            if kept_counts[key] <= MOST:
                rows.append(row)
        self.rows = rows
        self.left_out = sum(
            count - min(kept_counts.get(key, 0), MOST)
            for key, (count, _) in self.counts.items()
            if key[0] in SINGLE
        )

    def records(self) -> Records:
        """Returns the table of differences."""
        columns = {
            column.name: [row.get(column.name) for row in self.rows]
            for column in DIFFERENCES.columns
        }
        return Records(DIFFERENCES, columns, len(self.rows))
