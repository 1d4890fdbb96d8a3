"""Counts what each vbucket received over time, in a limited number of spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.lanes import LETTERS, Sign
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode, Trait, opcode_traits
from dcpinspect.streams.message_columns import cached_in
from dcpinspect.streams.session import readable
from dcpinspect.streams.words import NO_STREAM_END
from dcpinspect.tables.messages import MessageBatch

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


SIGNS = (
    Sign("", "", ""),
    Sign("Q", "kind-request", "request"),
    Sign("C", "kind-upkeep", "connection closed"),
    Sign("E", "kind-end", "stream end"),
    Sign("N", "verdict-refused", "refused"),
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
_ANSWERS = {"refused": REFUSED, "rollback": ROLLBACK}


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
            in_pairs = self.counts[:, ::2] + self.counts[:, 1::2]
            self.counts = np.hstack((in_pairs, np.zeros_like(in_pairs)))
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
        """Counts the next batch. Costs a sum over its events, and a step an item of cache transfers."""
        if not len(batch):
            return
        if not self.used:
            self.start_ns = batch.origin_ns
        decoded, vbucket = batch.decoded, batch.vbucket
        is_cached = (decoded.opcode == Opcode.DCP_CACHE_TRANSFER) & readable(batch)
        is_own = (
            (_IS_EVENT[decoded.opcode] | is_cached)
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
        items = np.ones(len(cells), self.counts.dtype)
        for number in np.flatnonzero(is_cached[is_own]).tolist():
            items[number] = cached_in(batch, int(np.flatnonzero(is_own)[number]))[0]
        np.add.at(self.counts.reshape(-1), cells, items)


def signs(
    heat: Heat,
    results: Results,
    place_of: IntArray,
    shape: tuple[int, int],
    together: int,
) -> tuple[IntArray, IntArray]:
    """Returns the sign of each cell, as its number in ``SIGNS``, and when that was, in nanoseconds
    since 1970. ``place_of``: the line of cells of each vbucket, -1 for none.
    """
    cell_signs, times = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    if not cell_signs.size:
        return cell_signs, times
    happened = np.array(list(_happened(results)), np.int64).reshape(-1, 3)
    bad = results.finding_marks.where(results.finding_marks.vbucket >= 0)
    signs_found = np.where(bad.is_error, ERROR, WARNING)
    happened = np.vstack((happened, np.column_stack((signs_found, bad.vbucket, bad.time_ns))))
    happened = happened[np.argsort(happened[:, 0], kind="stable")]
    happened = happened[happened[:, 1] < len(place_of)]
    sign, vbucket, time_ns = happened[place_of[happened[:, 1]] >= 0].T
    column = np.maximum(time_ns - heat.start_ns, 0) // (heat.span_ns * together)
    cells = place_of[vbucket], np.minimum(column, shape[1] - 1)
    cell_signs[cells], times[cells] = sign, time_ns  # the last one, the most important, wins
    return cell_signs, times


def _happened(results: Results) -> Iterator[tuple[int, int, int]]:
    """Yields letters, each with its vbucket and its time, in nanoseconds since 1970."""
    streams, gaps = (results.records.get(name) for name in ("streams", "gaps"))
    times, ends = ("first_time", "last_time"), ("end_reason", "answer", "requested_start")
    for vbucket, connection, begin, end, reason, answer, start in (
        streams.rows("vbucket", "connection", *times, *ends) if streams else ()
    ):
        if start is not None:
            yield REQUEST, vbucket, begin
        if reason in NO_STREAM_END:
            # a stream ends with its connection, however long it was quiet
            yield CLOSED, vbucket, results.closed.get(connection, end)
        elif reason is not None:
            yield END, vbucket, end
        if answer in _ANSWERS:
            yield _ANSWERS[answer], vbucket, end
    if gaps is not None:
        for sign in (LOSS, UNEXPLAINED):
            with_cause = gaps.take(gaps.rows_with("cause", SIGNS[sign].word))
            for vbucket, time_ns in with_cause.rows("vbucket", "last_time"):
                yield sign, vbucket, time_ns
