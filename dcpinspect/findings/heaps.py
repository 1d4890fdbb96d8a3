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

    @property
    def key(self) -> tuple[*FindingKey, FindingKey | None, str]:
        """What the occurrences have in common, as a collector tells heaps apart."""
        return (*self.first.key, self.cause, self.first.reason)

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
                else [
                    message_place.row
                    for message_place in occurrence.places[:1]
                    if message_place.row
                ]
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

    def outside(self, spans: Sequence[tuple[int, int]]) -> Heap | None:
        """Returns a heap without the occurrences of whose time these spans cover half; None if no
        occurrence is left that is shown. Rows stay.

        The whole heap is returned where not all occurrences are shown, since when the others were
        is unknown.
        """
        kept_occurrences = [
            occurrence for occurrence in self.shown if not covers(spans, occurrence.span)
        ]
        if not kept_occurrences:
            return None
        if len(kept_occurrences) == len(self.shown) or self.count > len(self.shown):
            return self
        return replace(
            self,
            shown=kept_occurrences,
            count=len(kept_occurrences),
            last_time_ns=max(occurrence.span[1] for occurrence in kept_occurrences),
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
        are kept, and the rule does not say when.
        """
        if spans := [span for occurrence in self.shown for span in occurrence.spans]:
            return spans
        if self.count > len(self.shown):
            return [(self.first_time_ns or self.span[0], self.last_time_ns)]
        return [occurrence.span for occurrence in self.shown]

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


def covers(spans: Sequence[tuple[int, int]], time: tuple[int, int]) -> bool:
    """Returns whether spans of time cover half of another one."""
    began_ns, ended_ns = time
    covered_ns = [min(ended_ns, end) - max(began_ns, begin) for begin, end in spans]
    touching_ns = [both_ns for both_ns in covered_ns if both_ns >= 0]
    return bool(touching_ns) and 2 * sum(touching_ns) >= ended_ns - began_ns


def as_rows(rows: array[int] | None) -> RowNumbers:
    """Returns the rows as an array, a copy: else nothing could be added while it is looked at."""
    return NO_ROWS if rows is None else np.array(rows, np.int64)
