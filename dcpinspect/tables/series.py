"""Numbers over time for some groups, in spans that become longer as the reading needs it. The first
one begins with the capture, so all charts and tables divide time at the same places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.protocol.column_types import RowNumbers

SPANS = 320
"""Greatest number of spans of time; when there are more, they become longer: 1, 2, 10, 20, …
milliseconds.
"""
FIRST_SPAN_NS = 1_000_000

SeriesKind = Literal["sum", "level", "peak"]
"""What a span keeps of its values: the sum; the greatest, if a value lasts until the next one; the
greatest of its own values.
"""


class Series:
    """A row of spans for each group; groups are whole numbers. A span has the sum or the greatest
    of its values, see ``Kind``.
    """

    def __init__(self, *, kind: SeriesKind = "sum", limit: int = 1 << 10) -> None:
        """``limit``: number of groups that are kept, the first ones to come; others are ignored."""
        self.span_ns = FIRST_SPAN_NS
        self.rows: dict[int, IntArray] = {}
        self._is_level, self._is_sum = kind == "level", kind == "sum"
        self._most = limit
        # for levels: nanoseconds since the capture began, and value
        self._last: dict[int, tuple[int, int]] = {}
        self._until = -1

    def add(self, groups: RowNumbers, since_ns: RowNumbers, values: RowNumbers) -> None:
        """Adds values with their groups and times, in nanoseconds since the capture began. Those
        before that count there.
        """
        if not len(groups):
            return
        since: IntArray = np.maximum(since_ns, 0)
        self._lengthen(int(since.max()))
        present, number = np.unique(groups, return_inverse=True)
        number = number.reshape(-1)
        span_index = since // self.span_ns
        rows = np.zeros((len(present), SPANS), np.int64)
        (np.add if self._is_sum else np.maximum).at(rows, (number, span_index), values)
        for index, group in enumerate(present.tolist()):
            if group not in self.rows:
                if len(self.rows) >= self._most:
                    continue
                self.rows[group] = np.zeros(SPANS, np.int64)
            if self._is_level:
                is_of_group = number == index
                self._hold(group, rows[index], span_index[is_of_group], values[is_of_group])
                self._last[group] = int(since[is_of_group][-1]), int(values[is_of_group][-1])
            old = self.rows[group]
            self.rows[group] = old + rows[index] if self._is_sum else np.maximum(old, rows[index])

    def reach(self, since_ns: int) -> None:
        """Makes the spans go on until a time since the capture began, also without more values."""
        if self.rows:
            self._until = max(self._until, since_ns)
            self._lengthen(self._until)

    def _lengthen(self, since: int) -> None:
        """Makes spans longer until one has the time so many nanoseconds after the begin."""
        while since >= SPANS * self.span_ns:
            times = 5 if str(self.span_ns).startswith("2") else 2
            self.span_ns *= times
            for group, row in self.rows.items():
                spans = row.reshape(-1, times)
                longer = spans.sum(axis=1) if self._is_sum else spans.max(axis=1)
                self.rows[group] = np.append(longer, np.zeros(SPANS - len(longer), np.int64))

    def _hold(self, group: int, row: IntArray, place: IntArray, values: IntArray) -> None:
        """Keeps a level through the spans in which no value came."""
        last, is_known = np.zeros(SPANS, np.int64), np.zeros(SPANS, np.bool_)
        if group in self._last:
            since, value = self._last[group]
            last[since // self.span_ns], is_known[since // self.span_ns] = value, True
        last[place], is_known[place] = values, True
        latest = np.maximum.accumulate(np.where(is_known, np.arange(SPANS), -1))
        carried = np.where(latest >= 0, last[latest], 0)
        until = int(place.max())
        row[1 : until + 1] = np.maximum(row[1 : until + 1], carried[:until])

    def hold(self, until_ns: Mapping[int, int]) -> None:
        """Makes the level of each group last until a time since the capture began."""
        for group, (since, value) in list(self._last.items()):
            last = max(until_ns.get(group, 0), since)
            self.add(*(np.array([number]) for number in (group, last, value)))

    @property
    def used(self) -> int:
        """Number of spans up to the last one that is not 0, or to the time of ``reach``."""
        last_places = [int(np.flatnonzero(row)[-1]) for row in self.rows.values() if row.any()]
        return max(-1, self._until // self.span_ns, *last_places) + 1
