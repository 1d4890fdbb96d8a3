"""Counts the occurrences of one thing on one vbucket or connection. The first three occurrences and the last one are kept."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from dcpinspect.findings.finding import Key, Occurrence, Place
from dcpinspect.protocol.columns import NO_ROWS, Mask, Rows
from dcpinspect.records import dataclass

SHOWN = 3
"""Number of occurrences whose messages a finding names, besides the last one."""
MOST_ADVICE = 3
"""Greatest number of different advice texts that one finding has."""


@dataclass(slots=True)
class Heap:
    """The occurrences of one key so far."""

    shown: list[Occurrence]
    """The first occurrences, without ``rows``."""
    last: tuple[Place, ...] = ()
    count: int = 0
    unnamed: int = 0
    """Number of messages of single occurrences that are not among the places of those."""
    last_time_ns: int = 0
    cause: Key | None = None
    """Key of the finding that these occurrences are effects of."""
    advice: dict[str | None, Place | None] = field(default_factory=dict)
    """Each advice with the message that first led to it. ``MOST_ADVICE`` + 1 entries mean that there are too many to name."""
    rows: array[int] | None = None
    """Rows of the messages that show the finding; None if they are not wanted."""

    @property
    def first(self) -> Occurrence:
        """The occurrence whose words the finding takes."""
        return self.shown[0]

    def changed(self, **changes: Any) -> Heap:
        """Returns a heap whose occurrences have these values changed."""
        return replace(self, shown=[replace(one, **changes) for one in self.shown])

    def add(self, occurrence: Occurrence) -> None:
        """Counts one more occurrence."""
        if len(self.shown) < SHOWN:
            self.shown.append(replace(occurrence, rows=()) if len(occurrence.rows) else occurrence)
        else:
            self.last = occurrence.places
        if len(self.advice) <= MOST_ADVICE:
            self.advice.setdefault(occurrence.next, next(iter(occurrence.places), None))
        if self.rows is not None:
            shown = occurrence.rows if len(occurrence.rows) else [place.row for place in occurrence.places[:1]]
            self.rows.frombytes(np.asarray(shown, np.int64).tobytes())
        self.count += occurrence.count
        if len(occurrence.rows) > occurrence.count:
            self.unnamed += len({*occurrence.rows} - {place.row for place in occurrence.places})
        times = [place.time_ns for place in occurrence.places]
        self.last_time_ns = max(self.last_time_ns, occurrence.last_time_ns, occurrence.time_ns, *times)

    @classmethod
    def joined(cls, heaps: Sequence[Heap]) -> Heap:
        """Joins heaps that were gathered from different messages, in any order. Rows are left out."""
        in_order = sorted(heaps, key=lambda heap: heap.first.places[:1])
        count = sum(heap.count for heap in heaps)
        found = replace(
            in_order[0],
            shown=sorted((one for heap in in_order for one in heap.shown), key=lambda one: one.places[:1])[:SHOWN],
            last=max((places for heap in in_order for places in heap.named), default=()) if count > SHOWN else (),
            count=count,
            unnamed=sum(heap.unnamed for heap in heaps),
            last_time_ns=max(heap.last_time_ns for heap in heaps),
            advice={},
        )
        for what, place in sorted((one for heap in in_order for one in heap.advice.items()), key=lambda one: one[1].row if one[1] else 0):
            if len(found.advice) <= MOST_ADVICE:
                found.advice.setdefault(what, place)
        return found

    def only_rows(self, kept: Callable[[Rows], Mask]) -> Heap:
        """Returns a heap with only the rows that ``kept`` chooses."""
        if self.rows is None:
            return self
        rows = as_rows(self.rows)
        return replace(self, rows=array("q", rows[kept(rows)].tobytes()))

    def without(self, is_out: Callable[[Place], bool]) -> Heap | None:
        """Returns a heap without the occurrences whose first message ``is_out``; None if no occurrence is left. Rows stay."""
        shown = [one for one in self.shown if not one.places or not is_out(one.places[0])]
        is_last_out = bool(self.last) and is_out(self.last[0])
        if len(shown) == len(self.shown) and not is_last_out:
            return self
        if not shown:
            return None
        left = len(shown) if is_last_out else self.count - len(self.shown) + len(shown)
        advice = {what: place for what, place in self.advice.items() if place is None or not is_out(place)}
        return replace(self, shown=shown, last=() if is_last_out else self.last, count=left, advice=advice)

    @property
    def first_time_ns(self) -> int:
        """Time when the first occurrence began; 0: nobody knows."""
        began = [*(one.began_ns for one in self.shown), *(place.time_ns for place in self.last[:1])]
        return min((one for one in began if one), default=0)

    @property
    def span(self) -> tuple[int, int]:
        """Capture times of the first message and of the last, in nanoseconds."""
        return min((place.time_ns for place in self.places if place.time_ns), default=0), self.last_time_ns

    @property
    def named(self) -> list[tuple[Place, ...]]:
        """The messages of each kept occurrence that has some; the offending message comes first."""
        return [places for places in (*(one.places for one in self.shown), self.last) if places]

    @property
    def places(self) -> tuple[Place, ...]:
        """The messages that the finding names, each once."""
        return tuple(dict.fromkeys(place for places in self.named for place in places))


def as_rows(rows: array[int] | None) -> Rows:
    """Returns the rows as an array. It is a copy: while an array is looked at, nothing can be added to it."""
    return NO_ROWS if rows is None else np.array(rows, np.int64)
