"""Counts what each vbucket received over time, while the capture is read. The number of spans of
time is limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.lanes import LETTERS, Sign
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Trait, opcode_traits
from dcpinspect.streams.words import NO_STREAM_END
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tui.vbucket_cells import whole_numbers

if TYPE_CHECKING:
    from dcpinspect.tui.results import Results

SPANS = 1024
"""Greatest number of spans; when more are needed, spans become twice as long. With 1,024 vbuckets
this takes 12 MiB.
"""
FIRST_SPAN_NS = 1_000
MOST = 1 << 12
"""Number of vbuckets that are counted, those with the lowest numbers. A bucket has 1,024."""
_IS_EVENT = np.array([Trait.EVENT in opcode_traits(code) for code in range(256)])

Counts = npt.NDArray[np.uint32]
Signs = npt.NDArray[np.int8]


LEVELS = 8
"""Number of colours of counts."""


SIGNS = (
    Sign("", "", ""),
    Sign("Q", "kind-request", "request"),
    Sign("C", "kind-upkeep", "connection closed"),
    Sign("E", "kind-end", "stream end"),
    Sign("N", "kind-response", "refused"),
    Sign("R", "kind-rollback", "rollback"),
    Sign(LETTERS["capture-loss"], "cause-capture-loss", "capture-loss"),
    Sign(LETTERS["unexplained"], "cause-capture-loss", "unexplained"),
    Sign("", "severity-warning", "warning"),
    Sign("", "severity-error", "error"),
)
"""Signs in rising order of importance; the last one wins a cell. Only those of findings have
colours of severities.
"""
REQUEST, CLOSED, END, REFUSED, ROLLBACK, LOSS, UNEXPLAINED, WARNING, ERROR = range(1, len(SIGNS))
SEVERITIES: Mapping[int, Severity] = {WARNING: "warning", ERROR: "error"}
"""Signs that stand for findings."""


def _in_longer_spans(counts: Counts) -> Counts:
    """Returns the counts with spans twice as long."""
    return np.hstack((counts[:, ::2] + counts[:, 1::2], np.zeros_like(counts[:, ::2])))


@dataclass(slots=True)
class Heat:
    """The counts so far; ``feed`` takes every batch while a capture is read."""

    start_ns: int = 0
    """Begin of the first span, in nanoseconds since 1970."""
    span_ns: int = FIRST_SPAN_NS
    used: int = 0
    """Number of spans up to the latest message."""
    counts: Counts = field(default_factory=lambda: np.zeros((0, SPANS), np.uint32))
    """Items by vbucket and span."""

    def until(self, end_ns: int) -> Heat:
        """Returns the heat with spans up to ``end_ns``: a quiet end of the capture has spans, too."""
        heat = replace(self)
        if self.used:
            heat._reach(end_ns - self.start_ns)
        return heat

    def _reach(self, since_ns: int) -> None:
        """Makes spans long enough for a time since the first one began."""
        while since_ns >= SPANS * self.span_ns:
            self.span_ns *= 2
            self.used = -(-self.used // 2)
            self.counts = _in_longer_spans(self.counts)
        self.used = max(self.used, since_ns // self.span_ns + 1)

    def cells(self, groups: list[tuple[int, int]], together: int) -> IntArray:
        """Returns the sums per group and column. A group has its first and last vbucket; a column
        has ``together`` spans.
        """
        sums = np.zeros((len(groups), self.used), np.int64)
        for line, (first, last) in enumerate(groups):
            sums[line] = self.counts[first : last + 1, : self.used].sum(axis=0, dtype=np.int64)
        return np.add.reduceat(sums, np.arange(0, self.used, together), axis=1)

    def feed(self, batch: MessageBatch) -> None:
        """Counts the next batch. Costs a sum over its events."""
        if not len(batch):
            return
        if not self.used:
            self.start_ns = batch.origin_ns
        decoded, vbucket = batch.decoded, batch.vbucket
        is_own = (
            _IS_EVENT[decoded.opcode]
            & ~decoded.is_response
            & ~decoded.is_server
            & (vbucket.values < MOST)
        )
        if vbucket.valid is not None:
            is_own &= vbucket.valid
        since = np.maximum(batch.time_ns - self.start_ns, 0)
        self._reach(int(since.max()))
        numbers = vbucket.values[is_own].astype(np.int64)
        if not len(numbers):
            return
        missing = int(numbers.max()) + 1 - len(self.counts)
        if missing > 0:
            more = np.zeros((missing, SPANS), self.counts.dtype)
            self.counts = np.vstack((self.counts, more))
        cells = numbers * SPANS + since[is_own] // self.span_ns
        np.add.at(self.counts.reshape(-1), cells, 1)


def signs(
    heat: Heat,
    results: Results,
    place_of: IntArray,
    shape: tuple[int, int],
    together: int,
) -> Signs:
    """Returns the sign of each cell, as its number in ``SIGNS``. ``place_of``: the line of cells of
    each vbucket, -1 for none.
    """
    cell_signs = np.zeros(shape, np.int8)

    def add_sign(sign: int, vbuckets: IntArray, times: IntArray) -> None:
        is_known = vbuckets < len(place_of)
        line, column = (
            place_of[vbuckets[is_known]],
            np.maximum(times[is_known] - heat.start_ns, 0) // (heat.span_ns * together),
        )
        is_shown = line >= 0
        np.maximum.at(
            cell_signs, (line[is_shown], np.minimum(column[is_shown], shape[1] - 1)), np.int8(sign)
        )

    if not cell_signs.size:
        return cell_signs
    streams = results.records.get("streams")
    if streams is not None and len(streams):
        vbucket, begin, end = (
            whole_numbers(streams, name) for name in ("vbucket", "first_time", "last_time")
        )
        add_sign(REQUEST, vbucket, begin)
        reasons = streams.values("end_reason")
        is_closed = [row for row, reason in enumerate(reasons) if reason in NO_STREAM_END]
        has_end = [
            row
            for row, reason in enumerate(reasons)
            if reason is not None and reason not in NO_STREAM_END
        ]
        links = results.records.get("connections")
        if links is not None:  # a stream ends with its connection, however long it was quiet
            closed = dict(zip(links.values("connection"), links.values("last_time"), strict=True))
            connections = streams.values("connection")
            end[is_closed] = [closed.get(connections[row], end[row]) for row in is_closed]
        for sign, rows in (
            (CLOSED, is_closed),
            (END, has_end),
            (REFUSED, streams.rows_with("answer", "refused")),
            (ROLLBACK, streams.rows_with("answer", "rollback")),
        ):
            sign_rows = np.asarray(rows, np.int64)
            add_sign(sign, vbucket[sign_rows], end[sign_rows])
    gaps = results.records.get("gaps")
    if gaps is not None and len(gaps):
        vbucket, time = (whole_numbers(gaps, name) for name in ("vbucket", "last_time"))
        for sign in (LOSS, UNEXPLAINED):
            with_cause = gaps.rows_with("cause", SIGNS[sign].word)
            add_sign(sign, vbucket[with_cause], time[with_cause])
    for sign, severity in SEVERITIES.items():
        places = [
            (number, case.places[0].time_ns)
            for finding in results.findings
            if finding.severity == severity and finding.effect_of is None
            for case in finding.case_of_each
            if case.places
            for number in case.vbuckets
        ]
        vbucket, time = np.array(places, np.int64).reshape(-1, 2).T
        add_sign(sign, vbucket, time)
    return cell_signs


def edges(values: IntArray) -> list[int]:
    """Returns the least value of each level, rising. Each level has about as many cells, so who has
    more is seen even if all values are close together or one is far from the others.
    """
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
