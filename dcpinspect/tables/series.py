"""Numbers over time for some groups, in as many spans as there always are: they become longer as the reading needs them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Rows

SPANS = 128
"""Spans of time at most; when there are more, they become twice as long."""
FIRST_SPAN_NS = 1_000_000

Whole = npt.NDArray[np.int64]
Kind = Literal["sum", "level", "peak"]
"""What a span has of its values: their sum; the greatest, where a value lasts until the next one; the greatest of its own."""


class Series:
    """A row for each group, which are whole numbers: sums of what came in each span, or how high something that lasts was at most."""

    def __init__(self, *, kind: Kind = "sum", most: int = 1 << 10) -> None:
        """``most``: groups that are kept, the first to come; nothing is kept of others."""
        self.start_ns: int | None = None
        self.span_ns = FIRST_SPAN_NS
        self.rows: dict[int, Whole] = {}
        self._is_level, self._is_sum = kind == "level", kind == "sum"
        self._most = most
        self._last: dict[int, tuple[int, int]] = {}  # of levels: nanoseconds since the start, and value

    def add(self, groups: Rows, time_ns: Rows, values: Rows) -> None:
        """Values with their groups and times, nanoseconds since 1970; what is earlier than the first one counts as if at its time."""
        if not len(groups):
            return
        if self.start_ns is None:
            self.start_ns = int(time_ns.min())
        since: Whole = np.maximum(time_ns - self.start_ns, 0)
        while int(since.max()) >= SPANS * self.span_ns:
            self.span_ns *= 2
            for group, row in self.rows.items():
                pairs = row.reshape(-1, 2)
                self.rows[group] = np.append(pairs.sum(axis=1) if self._is_sum else pairs.max(axis=1), np.zeros(SPANS // 2, np.int64))
        known, number = np.unique(groups, return_inverse=True)
        number = number.reshape(-1)
        place = since // self.span_ns
        found = np.zeros((len(known), SPANS), np.int64)
        (np.add if self._is_sum else np.maximum).at(found, (number, place), values)
        for index, group in enumerate(known.tolist()):
            if group not in self.rows:
                if len(self.rows) >= self._most:
                    continue
                self.rows[group] = np.zeros(SPANS, np.int64)
            if self._is_level:
                own = number == index
                self._hold(group, found[index], place[own], values[own])
                self._last[group] = int(since[own][-1]), int(values[own][-1])
            old = self.rows[group]
            self.rows[group] = old + found[index] if self._is_sum else np.maximum(old, found[index])

    def _hold(self, group: int, row: Whole, place: Whole, values: Whole) -> None:
        """A level lasts through the spans in which nothing came."""
        last, is_known = np.zeros(SPANS, np.int64), np.zeros(SPANS, np.bool_)
        if group in self._last:
            since, value = self._last[group]
            last[since // self.span_ns], is_known[since // self.span_ns] = value, True
        last[place], is_known[place] = values, True
        latest = np.maximum.accumulate(np.where(is_known, np.arange(SPANS), -1))
        carried = np.where(latest >= 0, last[latest], 0)
        until = int(place.max())
        row[1 : until + 1] = np.maximum(row[1 : until + 1], carried[:until])

    @property
    def used(self) -> int:
        """Spans up to the last one that has anything."""
        return max((int(np.flatnonzero(row)[-1]) + 1 for row in self.rows.values() if row.any()), default=0)
