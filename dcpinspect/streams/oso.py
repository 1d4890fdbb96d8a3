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


class OutOfOrder(Portable):
    """The ranges that each running OSO snapshot received, and the gaps of complete ones."""

    travels = ("gaps",)

    def __init__(self) -> None:
        self.gaps: list[ExtraGap] = []
        self._ranges: dict[int, IntArray] = {}
        self._fresh: dict[int, list[IntArray]] = {}
        self._sizes: dict[int, int] = {}

    def feed(self, seqnos: OsoSeqnos, snapshots: Snapshots) -> None:
        """Takes seqnos as the kernel wrote them, in order of arrival; call with every batch."""
        if len(seqnos):
            order = np.argsort(seqnos.snapshot, kind="stable")
            numbers, first = np.unique(seqnos.snapshot[order], return_index=True)
            for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
                self._add(number, seqnos.seqno[rows])
        for number in [number for number in self._fresh if snapshots.state[number] != OPEN]:
            ranges = self._merged(number)
            if snapshots.state[number] == COMPLETE_OSO and snapshots.has_before[number]:
                self._missing(number, ranges, snapshots[number])
            del self._fresh[number], self._ranges[number], self._sizes[number]

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
        return np.array([*self._ranges, *(gap.snapshot for gap in self.gaps)], dtype=np.int64)

    def leave(self, staying: BoolArray) -> None:
        """Keeps only some of the gaps."""
        self.gaps = [gap for gap, stays in zip(self.gaps, staying.tolist(), strict=True) if stays]

    def renumber(self, numbers: Mapping[str, IntArray]) -> None:
        """Gives streams, snapshots and losses other numbers, by table: new number by old number, -1
        for those that left.
        """

        def new_number(table: str, number: int) -> int:
            return int(numbers[table][number]) if table in numbers and number >= 0 else number

        moved = (
            replace(
                gap,
                stream=new_number("streams", gap.stream),
                snapshot=new_number("snapshots", gap.snapshot),
                loss=new_number("losses", gap.loss),
            )
            for gap in self.gaps
        )
        self.gaps = [gap for gap in moved if gap.stream >= 0]
        snapshots = numbers["snapshots"]
        self._ranges = {
            int(snapshots[number]): value
            for number, value in self._ranges.items()
            if snapshots[number] >= 0
        }
        self._fresh = {
            int(snapshots[number]): value
            for number, value in self._fresh.items()
            if snapshots[number] >= 0
        }
        self._sizes = {
            int(snapshots[number]): value
            for number, value in self._sizes.items()
            if snapshots[number] >= 0
        }

    @classmethod
    def joined(cls, readings: Sequence[OutOfOrder], numbers: Sequence[NewNumbers]) -> Self:
        """Joins the gaps of readings of different connections; ``numbers``: for each reading, the
        new numbers of its records.
        """
        out_of_order = cls()
        for reading, new_numbers in zip(readings, numbers, strict=True):
            for gap in reading.gaps:
                loss = int(renumbered(np.array(gap.loss), new_numbers.losses))
                out_of_order.gaps.append(
                    replace(
                        gap,
                        stream=int(new_numbers.streams[gap.stream]),
                        snapshot=int(new_numbers.snapshots[gap.snapshot]),
                        loss=loss,
                    )
                )
        return out_of_order

    def _add(self, number: int, seqnos: IntArray) -> None:
        fresh = self._fresh.setdefault(number, [])
        self._ranges.setdefault(number, np.empty((0, 2), dtype=np.int64))
        fresh.append(seqnos)
        self._sizes[number] = self._sizes.get(number, 0) + len(seqnos)
        if self._sizes[number] > 4096 + len(self._ranges[number]):
            self._merged(number)

    def _merged(self, number: int) -> IntArray:
        """Returns the ranges [first, last] of a snapshot with everything that came, sorted and
        without overlaps.
        """
        single = (
            np.concatenate(self._fresh[number])
            if self._fresh[number]
            else np.empty(0, dtype=np.int64)
        )
        pairs = np.concatenate((self._ranges[number], np.stack((single, single), axis=1)))
        self._fresh[number], self._sizes[number] = [], 0
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
        self._ranges[number] = pairs
        return pairs

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
