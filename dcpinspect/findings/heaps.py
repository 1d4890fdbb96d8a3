"""Counts the occurrences of one thing on one vbucket or connection. The first three occurrences and
the last one are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.finding import FindingKey, MessagePlace, Occurrence
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers

SHOWN = 3
"""Number of occurrences whose messages a finding names, besides the last one."""
MOST_ADVICE = 3
"""Greatest number of different advice texts that one finding has."""


@dataclass(slots=True)
class Heap:
    """The occurrences of one key so far."""

    shown: list[Occurrence]
    """The first occurrences, without ``rows``."""
    last: tuple[MessagePlace, ...] = ()
    count: int = 0
    unnamed: int = 0
    """Number of messages of single occurrences that are not among the places of those."""
    last_time_ns: int = 0
    cause: FindingKey | None = None
    """Key of the finding that these occurrences are effects of."""
    advice: dict[str | None, MessagePlace | None] = field(default_factory=dict)
    """Each advice with the message that first led to it. ``MOST_ADVICE`` + 1 entries mean that
    there are too many to name.
    """
    rows: array[int] | None = None
    """Rows of the messages that show the finding; None if they are not wanted."""

    @property
    def first(self) -> Occurrence:
        """The occurrence whose words the finding takes."""
        return self.shown[0]

    def changed(self, **changes: Any) -> Heap:
        """Returns a heap whose occurrences have these values changed."""
        return replace(self, shown=[replace(occurrence, **changes) for occurrence in self.shown])

    def add(self, occurrence: Occurrence) -> None:
        """Counts one more occurrence."""
        if len(self.shown) < SHOWN:
            self.shown.append(replace(occurrence, rows=()) if len(occurrence.rows) else occurrence)
        else:
            self.last = occurrence.places
        if len(self.advice) <= MOST_ADVICE:
            self.advice.setdefault(occurrence.next, next(iter(occurrence.places), None))
        if self.rows is not None:
            rows = (
                occurrence.rows
                if len(occurrence.rows)
                else [message_place.row for message_place in occurrence.places[:1]]
            )
            self.rows.frombytes(np.asarray(rows, np.int64).tobytes())
        self.count += occurrence.count
        if len(occurrence.rows) > occurrence.count:
            self.unnamed += len(
                {*occurrence.rows} - {message_place.row for message_place in occurrence.places}
            )
        times = [message_place.time_ns for message_place in occurrence.places]
        self.last_time_ns = max(
            self.last_time_ns, occurrence.last_time_ns, occurrence.time_ns, *times
        )

    @classmethod
    def joined(cls, heaps: Sequence[Heap]) -> Heap:
        """Joins heaps gathered from different messages, in any order. Rows are left out."""
        in_order = sorted(heaps, key=lambda heap: heap.first.places[:1])
        count = sum(heap.count for heap in heaps)
        joined_heap = replace(
            in_order[0],
            shown=sorted(
                (item for heap in in_order for item in heap.shown), key=lambda item: item.places[:1]
            )[:SHOWN],
            last=max((evidence for heap in in_order for evidence in heap.named), default=())
            if count > SHOWN
            else (),
            count=count,
            unnamed=sum(heap.unnamed for heap in heaps),
            last_time_ns=max(heap.last_time_ns for heap in heaps),
            advice={},
        )
        for advice_text, advice_place in sorted(
            (item for heap in in_order for item in heap.advice.items()),
            key=lambda item: item[1].row if item[1] else 0,
        ):
            if len(joined_heap.advice) <= MOST_ADVICE:
                joined_heap.advice.setdefault(advice_text, advice_place)
        return joined_heap

    def only_rows(self, is_kept: Callable[[RowNumbers], BoolArray]) -> Heap:
        """Returns a heap with only the rows that ``is_kept`` chooses."""
        if self.rows is None:
            return self
        rows = as_rows(self.rows)
        return replace(self, rows=array("q", rows[is_kept(rows)].tobytes()))

    def without(self, is_out: Callable[[MessagePlace], bool]) -> Heap | None:
        """Returns a heap without the occurrences whose first message ``is_out``; None if no
        occurrence is left. Rows stay.
        """
        kept_occurrences = [
            occurrence
            for occurrence in self.shown
            if not occurrence.places or not is_out(occurrence.places[0])
        ]
        is_last_out = bool(self.last) and is_out(self.last[0])
        if len(kept_occurrences) == len(self.shown) and not is_last_out:
            return self
        if not kept_occurrences:
            return None
        remaining = (
            len(kept_occurrences)
            if is_last_out
            else self.count - len(self.shown) + len(kept_occurrences)
        )
        advice = {
            advice_text: advice_place
            for advice_text, advice_place in self.advice.items()
            if advice_place is None or not is_out(advice_place)
        }
        return replace(
            self,
            shown=kept_occurrences,
            last=() if is_last_out else self.last,
            count=remaining,
            advice=advice,
        )

    @property
    def first_time_ns(self) -> int:
        """Time when the first occurrence began; 0: nobody knows."""
        began = [
            *(occurrence.began_ns for occurrence in self.shown),
            *(last_place.time_ns for last_place in self.last[:1]),
        ]
        return min((time_ns for time_ns in began if time_ns), default=0)

    @property
    def span(self) -> tuple[int, int]:
        """Capture times of the first message and of the last, in nanoseconds."""
        return min(
            (
                message_place.time_ns
                for message_place in self.message_places
                if message_place.time_ns
            ),
            default=0,
        ), self.last_time_ns

    @property
    def times(self) -> list[tuple[int, int]]:
        """When each occurrence began and ended, in nanoseconds; as one time if there are more than
        are kept.
        """
        if self.count > len(self.shown):
            return [(self.first_time_ns or self.span[0], self.last_time_ns)]
        return [
            (
                occurrence.began_ns,
                max(
                    occurrence.last_time_ns
                    or max((place.time_ns for place in occurrence.places), default=0),
                    occurrence.began_ns,
                ),
            )
            for occurrence in self.shown
        ]

    @property
    def named(self) -> list[tuple[MessagePlace, ...]]:
        """The messages of each kept occurrence that has some; the offending message comes first."""
        return [
            evidence
            for evidence in (*(occurrence.places for occurrence in self.shown), self.last)
            if evidence
        ]

    @property
    def message_places(self) -> tuple[MessagePlace, ...]:
        """The messages that the finding names, each once."""
        return tuple(
            dict.fromkeys(message_place for evidence in self.named for message_place in evidence)
        )


def explains_time(louder: Sequence[Heap], heap: Heap) -> bool:
    """Returns whether other heaps cover half of the time of each occurrence of one."""
    spans = [span for other in louder for span in other.times]
    return bool(spans) and all(
        any(first_ns <= ended_ns and began_ns <= last_ns for first_ns, last_ns in spans)
        and 2 * sum(max(0, min(ended_ns, end) - max(began_ns, begin)) for begin, end in spans)
        >= ended_ns - began_ns
        for began_ns, ended_ns in heap.times
    )


def as_rows(rows: array[int] | None) -> RowNumbers:
    """Returns the rows as an array, a copy: else nothing could be added while it is looked at."""
    return NO_ROWS if rows is None else np.array(rows, np.int64)
