"""Seqnos of OSO snapshots: kept as ranges while a snapshot runs; what is missing between ranges
once it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.streams import words as w
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.gaps import ExtraGap
from dcpinspect.streams.records import Gaps, OsoSeqnos, Snapshot, Snapshots
from dcpinspect.streams.renumbering import renumbered
from dcpinspect.streams.state import NewNumbers
from dcpinspect.streams.transitions import COMPLETE_OSO, OPEN


class ReceivedSeqnos:
    """The seqnos that a running OSO snapshot received."""

    def __init__(self) -> None:
        self._ranges: IntArray = np.empty((0, 2), dtype=np.int64)
        self._fresh: list[IntArray] = []
        self._size = 0

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
            # the next first less one: it is above the least number there is, so it does not
            # overflow
            starts = np.concatenate(
                ([True], (pairs[1:, 0] > last[:-1]) & (pairs[1:, 0] - 1 > last[:-1]))
            )
            ends = np.concatenate((np.flatnonzero(starts)[1:] - 1, [len(pairs) - 1]))
            pairs = np.stack((pairs[starts, 0], last[ends]), axis=1)
        self._ranges = pairs
        return pairs


class OutOfOrder(Portable):
    """The ranges that each running OSO snapshot received, and the gaps of complete ones."""

    travels = ("gaps",)

    def __init__(self) -> None:
        self.gaps: list[ExtraGap] = []
        self._running: dict[int, ReceivedSeqnos] = {}  # by number of the snapshot

    def feed(self, seqnos: OsoSeqnos, snapshots: Snapshots) -> None:
        """Takes seqnos as the kernel wrote them, in order of arrival; call with every batch."""
        if len(seqnos):
            order = np.argsort(seqnos.snapshot, kind="stable")
            numbers, first = np.unique(seqnos.snapshot[order], return_index=True)
            for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
                self._running.setdefault(number, ReceivedSeqnos()).add(seqnos.seqno[rows])
        for number in [number for number in self._running if snapshots.state[number] != OPEN]:
            ranges = self._running.pop(number).merged()
            if snapshots.state[number] == COMPLETE_OSO and snapshots.has_before[number]:
                self._missing(number, ranges, snapshots[number])

    def rows(self, snapshots: Snapshots) -> Gaps:
        """Returns the gaps in the form of the kernel's gaps; the message before each is the one
        that began the snapshot.
        """
        table = Gaps.zeros(len(self.gaps))
        for row, gap in zip(table, self.gaps, strict=True):
            row.stream = gap.stream
            row.after = gap.after
            row.before = gap.before
            row.snapshot = gap.snapshot
            row.loss = gap.loss
            row.ends.row = gap.rows[-1]
        table.begins = snapshots[table.snapshot].place
        return table

    @property
    def snapshots(self) -> IntArray:
        """Numbers of the OSO snapshots that are needed: those that run, and those with gaps."""
        return np.array([*self._running, *(gap.snapshot for gap in self.gaps)], dtype=np.int64)

    def leave(self, staying: BoolArray) -> None:
        """Keeps only some of the gaps."""
        self.gaps = [gap for gap, stays in zip(self.gaps, staying.tolist(), strict=True) if stays]

    def renumber(self, numbers: Mapping[str, IntArray]) -> None:
        """Gives streams, snapshots and losses other numbers, by table: new number by old number, -1
        for those that left.
        """
        moved = (_moved(gap, numbers) for gap in self.gaps)
        self.gaps = [gap for gap in moved if gap.stream >= 0]
        snapshots = numbers["snapshots"]
        self._running = {
            int(snapshots[number]): received
            for number, received in self._running.items()
            if snapshots[number] >= 0
        }

    @classmethod
    def joined(cls, readings: Sequence[OutOfOrder], numbers: Sequence[NewNumbers]) -> Self:
        """Joins the gaps of readings of different connections; ``numbers``: for each reading, the
        new numbers of its records.
        """
        out_of_order = cls()
        for reading, new_numbers in zip(readings, numbers, strict=True):
            out_of_order.gaps += [_moved(gap, new_numbers._asdict()) for gap in reading.gaps]
        return out_of_order

    def _missing(self, number: int, ranges: IntArray, snapshot: Snapshot) -> None:
        rows = (int(snapshot.place.row), int(snapshot.closed_row))
        frame = int(snapshot.place.frame)
        times = (
            int(snapshot.place.time),
            max(int(snapshot.place.time), int(snapshot.reached_time)),
        )
        cause = w.LOSS if snapshot.is_tainted else w.OUT_OF_ORDER
        last = int(snapshot.before)
        for first, end in ranges.tolist():
            if first > last + 1:
                loss = int(snapshot.loss) if snapshot.is_tainted else -1
                self.gaps.append(
                    ExtraGap(
                        int(snapshot.stream), last, first, cause, rows, frame, times, number, loss
                    )
                )
            last = max(last, end)


def _moved(gap: ExtraGap, numbers: Mapping[str, IntArray]) -> ExtraGap:
    """Returns a gap with the new numbers of its records; ``numbers``: by table."""
    stream, snapshot, loss = (
        int(renumbered(np.array(number), numbers[table])) if table in numbers else number
        for table, number in (
            ("streams", gap.stream),
            ("snapshots", gap.snapshot),
            ("losses", gap.loss),
        )
    )
    return replace(gap, stream=stream, snapshot=snapshot, loss=loss)
