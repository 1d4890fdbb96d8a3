"""What a client asked for of one vbucket, in order, so no look-up goes over all its streams."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import FEW
from dcpinspect.findings.context import Context, plain
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.records import LEAST, MessageRow, Streams
from dcpinspect.streams.transitions import ACCEPTED, ENDED

MOST_OPEN = 64
"""Number of streams of a vbucket that are searched for one that was open."""


class EmptySnapshots:
    """Snapshots that came without any of their items, by stream."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def _groups(self) -> tuple[Groups, IntArray]:
        """The snapshots in groups, and the group of each stream, -1 for none."""
        snapshots = self._context.snapshots
        of_stream = np.full(len(self._context.streams), -1, dtype=np.int64)
        groups = Groups(
            [snapshots.stream], np.flatnonzero((snapshots.items == 0) & (snapshots.is_tainted == 0))
        )
        of_stream[snapshots.stream[groups.rows[groups.begins]]] = np.arange(len(groups))
        return groups, of_stream

    def by_range(self, numbers: Sequence[int]) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Returns the snapshots of these streams by their range: each as the place of its stream
        among ``numbers``, and its own number.
        """
        snapshots_of_range: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        groups, of_stream = self._groups
        for index in np.flatnonzero(of_stream[numbers] >= 0).tolist():
            for snapshot in groups[int(of_stream[numbers[index]])]:
                snapshot_row = self._context.snapshots[snapshot]
                snapshots_of_range[plain(snapshot_row.start), plain(snapshot_row.end)].append(
                    (index, snapshot)
                )
        return snapshots_of_range


def opened_since(
    streams: Streams, numbers: Sequence[int], times: IntArray, index: int, answer: MessageRow[Any]
) -> int:
    """Returns the index of the first of these streams behind ``index`` that was opened after a
    message of the server, ``answer``; their number if there is none. ``times``: when they were
    opened, in order.

    What comes next on the same connection came after the message where it is read behind it, since
    TCP tells that: the directions may have clocks that differ.
    """
    after = index + 1
    is_next = (
        after < len(numbers)
        and streams.connection[numbers[index]] == streams.connection[numbers[after]]
        and streams.opened.row[numbers[after]] > answer.row
    )
    return after if is_next else max(after, int(np.searchsorted(times, answer.time)))


class OpenedInOrder:
    """The streams of one client and vbucket, in the order in which they were opened; no look-up
    goes over all of them.
    """

    def __init__(self, streams: Streams, numbers: Sequence[int], bare: EmptySnapshots) -> None:
        self.numbers = numbers
        self._bare, self._streams = bare, streams
        self._times = streams.opened.time[numbers]
        wants = (streams.request.is_captured[numbers] != 0) & (streams.request.end[numbers] > LEAST)
        self._wanting = np.maximum.accumulate(np.where(wants, np.arange(len(numbers)), -1))
        self._opened: dict[int, list[int]] = defaultdict(list)
        state = streams.state[numbers]
        was_opened = (state >= ACCEPTED) & (state <= ENDED)
        for index in np.flatnonzero(was_opened).tolist():
            self._opened[streams[numbers[index]].connection].append(index)
        is_elsewhere = streams.status[numbers] == Status.NOT_MY_VBUCKET
        self.asked_wrong = Counter(streams.connection[numbers][is_elsewhere].tolist())
        """By connection, how often its node answered that it does not have the vbucket."""

    def wanting_more(self, index: int) -> int | None:
        """Returns the latest stream before a place that was asked for with an end above 0; None if
        there is none.
        """
        latest = int(self._wanting[index - 1]) if index else -1
        return self.numbers[latest] if latest >= 0 else None

    def open_on(self, connection: int, index: int) -> int | None:
        """Returns the latest stream of a connection before a place that was open when that one was
        requested; None for none.
        """
        indices = self._opened[connection]
        for earlier in reversed(indices[: bisect_left(indices, index)][-MOST_OPEN:]):
            finished = self._streams[number := self.numbers[earlier]].finished
            if finished.row <= 0 or finished.time > self._times[index]:
                return number
        return None

    def since(self, index: int, answer: MessageRow[Any]) -> int:
        """Returns the place of the first stream after a place that was opened at the time of a
        message or later; their number if there is none.
        """
        return opened_since(self._streams, self.numbers, self._times, index, answer)

    @cached_property
    def _by_range(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        return self._bare.by_range(self.numbers)

    def bare_snapshot(self, index: int, low: int, high: int) -> int | None:
        """Returns the number of the last snapshot with this range that came without items on a
        stream before a place.
        """
        candidates = self._by_range.get((low, high), [])
        before = bisect_left(candidates, (index, 0))
        return candidates[before - 1][1] if before else None


def filter_fault(
    value: Mapping[str, Any] | None, *, has_collections: bool | None
) -> tuple[str, str] | None:
    """Returns what a server does not accept in the value of a stream request, and what to do; None
    where nothing is wrong with it. ``value``: None for one that is no JSON object.
    """
    if has_collections is False:
        return (
            "the request has a JSON value, but the connection did not ask for collections",
            "turn on collections in the client's settings, or name none there; a consumer has to "
            "ask for the feature Collections in HELLO before it sends such a value",
        )
    if value is None:
        return (
            "the value of the request is no JSON object",
            "report the client's version to its author; until then, the server refuses the request",
        )
    named = value.get("collections")
    if named is not None and "scope" in value:
        return (
            "its filter names a scope and collections",
            "name either a scope or collections, in the client's settings or in its code; until "
            "then, the server refuses the request",
        )
    ids = (
        Counter(
            uid.lower().removeprefix("0x").lstrip("0") or "0"
            for uid in named
            if isinstance(uid, str)
        )
        if isinstance(named, list)
        else {}
    )
    twice = [f"0x{uid}" for uid, count in ids.items() if count > 1]
    if twice:
        fault_text = (
            f"its filter names collection{'s' if len(twice) > 1 else ''} "
            f"{', '.join(twice[:FEW])} more than once"
        )
        return (
            fault_text,
            "name each collection once, in the client's settings or in its code; until then, the "
            "server refuses the request",
        )
    return None
