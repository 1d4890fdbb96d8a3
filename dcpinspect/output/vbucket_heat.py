"""Counts what each vbucket received over time, in a limited number of spans."""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.opcodes import Opcode, Trait, opcode_traits
from dcpinspect.streams.message_columns import cached_in
from dcpinspect.streams.session import readable
from dcpinspect.tables.messages import MessageBatch

SPANS = 1024
"""Greatest number of spans; when more are needed, spans become twice as long. With 1,024 vbuckets
this takes 12 MiB.
"""
FIRST_SPAN_NS = 1_000
MOST = 1 << 12
"""Number of vbuckets that are counted, those with the lowest numbers. A bucket has 1,024."""
_IS_EVENT = np.array([Trait.EVENT in opcode_traits(code) for code in range(256)])

Counts = npt.NDArray[np.uint32]


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
