"""Failover logs as columns: the branches of many logs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, numbers_of
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.state import biased

ENTRY = 16
"""Bytes of a branch in a log: its uuid, and the seqno that it begins above."""


@dataclass(frozen=True, slots=True)
class Branches:
    """All entries of some failover logs, log by log, newest first."""

    begins: IntArray
    """By log, where its entries begin; one more element says where the last log ends."""
    log: IntArray
    """Number of the log of each entry."""
    uuid: IntArray
    """Uuid of each entry, as a signed number."""
    seqno: IntArray
    """Seqno of each entry, biased."""

    @classmethod
    def from_logs(cls, logs: Sequence[bytes]) -> Self:
        """Reads failover logs as they stand in answers; bytes of no whole entry do not count."""
        counts = np.array([len(log) // ENTRY for log in logs], dtype=np.int64)
        log_bytes = b"".join(log[: len(log) // ENTRY * ENTRY] for log in logs)
        numbers = np.frombuffer(log_bytes, ">u8").astype(np.uint64).reshape(-1, 2)
        begins = np.concatenate(([0], np.cumsum(counts)))
        log = np.repeat(np.arange(len(logs)), counts)
        return cls(
            begins, log, np.ascontiguousarray(numbers[:, 0]).view(np.int64), biased(numbers[:, 1])
        )

    @property
    def newest(self) -> IntArray:
        """By log, the uuid of its newest branch, 0 without one; the last element is 0, for log
        number -1, which is none.
        """
        newest_uuids = np.zeros(len(self.begins), dtype=np.int64)
        has_some = np.flatnonzero(np.diff(self.begins))
        newest_uuids[has_some] = self.uuid[self.begins[has_some]]
        return newest_uuids

    @property
    def are_in_order(self) -> BoolArray:
        """By log, whether each branch begins above the one before."""
        in_order_mask = np.ones(len(self.begins) - 1, dtype=np.bool_)
        positions = np.arange(1, len(self.log))
        is_wrong = (self.log[positions] == self.log[positions - 1]) & (
            self.seqno[positions - 1] <= self.seqno[positions]
        )
        in_order_mask[self.log[positions[is_wrong]]] = False
        return in_order_mask

    def of_each(self, owners: IntArray, logs: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the entries of each owner's logs: the owner and the place of each entry."""
        entries, index = numbers_of(self.begins[logs], np.diff(self.begins)[logs])
        return owners[index], entries
