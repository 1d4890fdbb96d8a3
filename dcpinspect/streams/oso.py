"""Seqnos of OSO snapshots: kept as ranges while a snapshot runs; what is missing between ranges
once it is complete.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.streams.grouping import by_value
from dcpinspect.streams.record_codes import IN_OSO, IS_LOST
from dcpinspect.streams.records import Gaps, OsoSeqnos, Snapshots
from dcpinspect.streams.transitions import COMPLETE_OSO, OPEN


class ReceivedSeqnos:
    """The seqnos that a running OSO snapshot received."""

    def __init__(self) -> None:
        self._ranges: IntArray = np.empty((0, 2), dtype=np.int64)
        self._fresh: list[IntArray] = []
        self._size = 0
        self.repeated: int | None = None
        """The least seqno that came twice, as far as ``merged``."""

    def add(self, seqnos: IntArray) -> None:
        """Takes the next ones."""
        self._fresh.append(seqnos)
        self._size += len(seqnos)
        if self._size > 4096 + len(self._ranges):
            self.merged()

    def merged(self) -> IntArray:
        """Returns the ranges [first, last] of everything that came, sorted and without overlaps."""
        single = np.concatenate([np.empty(0, dtype=np.int64), *self._fresh])
        pairs = np.concatenate((self._ranges, np.stack((single, single), axis=1)))
        self._fresh, self._size = [], 0
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        if len(pairs):
            last = np.maximum.accumulate(pairs[:, 1])
            repeats = pairs[1:, 0][pairs[1:, 0] <= last[:-1]]
            if len(repeats):
                least_seqno = int(repeats.min())
                self.repeated = min(
                    least_seqno if self.repeated is None else self.repeated, least_seqno
                )
            # the next first less one: it is above the least number there is, so it does not
            # overflow
            starts = np.concatenate(
                ([True], (pairs[1:, 0] > last[:-1]) & (pairs[1:, 0] - 1 > last[:-1]))
            )
            ends = np.concatenate((np.flatnonzero(starts)[1:] - 1, [len(pairs) - 1]))
            pairs = np.stack((pairs[starts, 0], last[ends]), axis=1)
        self._ranges = pairs
        return pairs


class OutOfOrder:
    """The ranges that each running OSO snapshot received."""

    def __init__(self) -> None:
        self._running: dict[int, ReceivedSeqnos] = {}  # by number of the snapshot
        self.repeated: list[tuple[int, int, int]] = []
        """Of the latest call, the snapshots that are complete and had a seqno twice: row of the
        end, number of the snapshot, and the least such seqno.
        """

    def feed(self, seqnos: OsoSeqnos, snapshots: Snapshots) -> Gaps:
        """Takes seqnos as the kernel wrote them, in order of arrival; call with every batch.
        Returns what is missing in the snapshots that are over.
        """
        for number, rows in by_value(seqnos.snapshot):
            self._running.setdefault(number, ReceivedSeqnos()).add(seqnos.seqno[rows])
        over = [number for number in self._running if snapshots.state[number] != OPEN]
        received = {number: self._running.pop(number) for number in over}
        ranges_of = {number: seqnos.merged() for number, seqnos in received.items()}
        self.repeated = sorted(
            (int(snapshots.closed_row[number]), number, seqnos.repeated)
            for number, seqnos in received.items()
            if seqnos.repeated is not None
            and snapshots.state[number] == COMPLETE_OSO
            and not snapshots.is_tainted[number]
        )
        return Gaps.joined(
            [
                _missing(ranges, snapshots[[number]])
                for number, ranges in ranges_of.items()
                if snapshots.state[number] == COMPLETE_OSO and snapshots.has_before[number]
            ]
        )

    def renumber(self, snapshots: IntArray) -> None:
        """Gives snapshots other numbers: new number by old number, -1 for those that left."""
        self._running = {
            int(snapshots[number]): received
            for number, received in self._running.items()
            if snapshots[number] >= 0
        }


def _missing(ranges: IntArray, snapshot: Snapshots) -> Gaps:
    """Returns what is missing between ranges of seqnos that a complete snapshot, the only row of a
    table, received.
    """
    first, reached = ranges[:, 0], np.append(snapshot.before, ranges[:-1, 1])
    reached = np.maximum.accumulate(reached)
    # the first test keeps the second from an overflow
    is_gap = (first > reached) & (first - 1 > reached)
    gaps = Gaps.reset(int(is_gap.sum()))
    row = snapshot[np.zeros(len(gaps), dtype=np.int64)]
    gaps.stream, gaps.snapshot = row.stream, row.number
    gaps.after, gaps.before = reached[is_gap], first[is_gap]
    gaps.flags = IN_OSO | np.where(row.is_tainted, IS_LOST, 0)
    gaps.loss = np.where(row.is_tainted, row.loss, -1)
    gaps.begins, gaps.ends.row = row.place, row.closed_row
    gaps.ends.time = np.maximum(row.place.time, row.reached_time)
    return gaps
