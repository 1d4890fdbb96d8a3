"""Finds the branch of its vbucket's history that each event belongs to, by failover logs.

A branch begins above the seqno of its entry and ends with the seqno of the next newer entry. A
stream whose log was not captured is assumed to have the history of another stream of its vbucket,
preferably one of its own side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray, unique
from dcpinspect.streams.records import Streams
from dcpinspect.streams.verdicts import failover_entries

Log = tuple[tuple[int, int], ...]
"""(uuid, seqno) of each branch, newest first."""
UNKNOWN: Log = ((0, 0),)
GREATEST = 2**64 - 1


class Branch(NamedTuple):
    """The seqnos of one branch that a stream may have."""

    stream: int
    vbucket: int
    uuid: int
    above: int
    upto: int


def logs_of(streams: Streams, logs: Sequence[bytes]) -> dict[int, Log]:
    """Returns the log that each stream was told, by number of the stream; a log that contradicts
    itself is left out.
    """
    parsed = [tuple(failover_entries(raw)) for raw in logs]
    numbers = np.flatnonzero(streams.log >= 0)
    log_of_stream = {int(number): parsed[int(streams.log[number])] for number in numbers}
    return {
        number: log
        for number, log in log_of_stream.items()
        if log and all(newer > older for (_, newer), (_, older) in pairwise(log))
    }


def newest(places: IntArray, logs: Mapping[int, Log]) -> dict[int, Log]:
    """Returns the latest log of each vbucket; ``places``: each stream's vbucket and bucket."""
    return {int(places[number]): logs[number] for number in sorted(logs)}


def branches(places: IntArray, logs: Mapping[int, Log]) -> list[Branch]:
    """Returns the branches that each stream may have; ``places``: vbucket of each stream, with its
    bucket; ``logs``: the log of every stream.
    """
    stream_branches = []
    for number, vbucket in enumerate(places.tolist()):
        end = GREATEST
        for uuid, start in logs[number]:
            stream_branches.append(Branch(number, vbucket, uuid, start, end))
            end = start
    return stream_branches


def uuids(
    stream: IntArray, seqno: npt.NDArray[np.uint64], logs: Sequence[Log]
) -> npt.NDArray[np.uint64]:
    """Returns the uuid of each event's branch.

    Most events belong to the newest branch of their stream; the others are looked up log by log.
    """
    first_uuid = np.array([log[0][0] for log in logs] or [0], dtype=np.uint64)
    first_start = np.array([log[0][1] for log in logs] or [0], dtype=np.uint64)
    branch_uuids: npt.NDArray[np.uint64] = first_uuid[stream]
    older = np.flatnonzero(seqno <= first_start[stream])
    for number in unique(stream[older]).tolist():
        event_rows = older[stream[older] == number]
        starts = np.array([start for _, start in reversed(logs[number])], dtype=np.uint64)
        names = np.array([uuid for uuid, _ in reversed(logs[number])], dtype=np.uint64)
        branch_uuids[event_rows] = names[
            np.maximum(np.searchsorted(starts, seqno[event_rows], side="left") - 1, 0)
        ]
    return branch_uuids
