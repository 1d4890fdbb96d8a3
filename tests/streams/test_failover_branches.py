"""Failover logs as columns."""

from __future__ import annotations

import struct

import numpy as np

from dcpinspect.streams.failover_branches import Branches
from dcpinspect.streams.records import LEAST


def log(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">QQ", *entry) for entry in entries)


LOGS = [
    log((0xB, 9), (0xA, 0)),
    b"",
    log((1 << 63, (1 << 64) - 1)),
    log((3, 5), (2, 5)),
    log((7, 1)) + b"cut",
]


def test_entries_stand_log_by_log() -> None:
    found = Branches.from_logs(LOGS)
    assert found.log.tolist() == [0, 0, 2, 3, 3, 4]
    assert found.uuid.tolist() == [0xB, 0xA, LEAST, 3, 2, 7]
    assert [seqno - LEAST for seqno in found.seqno.tolist()] == [9, 0, (1 << 64) - 1, 5, 5, 1]


def test_the_newest_branch_is_the_first_and_none_is_0() -> None:
    newest = Branches.from_logs(LOGS).newest
    assert newest[[0, 1, 3, 4, -1]].tolist() == [0xB, 0, 3, 7, 0]
    assert Branches.from_logs([]).newest[np.array([-1])].tolist() == [0]


def test_each_branch_has_to_begin_above_the_one_before() -> None:
    assert Branches.from_logs(LOGS).are_in_order.tolist() == [True, True, True, False, True]


def test_who_has_a_log_has_its_entries() -> None:
    owners, entries = Branches.from_logs(LOGS).of_each(np.array([70, 80, 90]), np.array([3, 1, 0]))
    assert (owners.tolist(), entries.tolist()) == ([70, 70, 90, 90], [3, 4, 0, 1])
    assert (
        Branches.from_logs(LOGS).of_each(np.zeros(0, np.int64), np.zeros(0, np.int64))[1].tolist()
        == []
    )
