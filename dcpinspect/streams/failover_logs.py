"""Failover logs as servers told them: whose history each one is, and which client knew it when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, overload

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.conversation import Conversation
from dcpinspect.streams.grouping import VBUCKET_BITS, NameNumbers
from dcpinspect.streams.records import Streams
from dcpinspect.streams.rollback import Log, newest_below
from dcpinspect.streams.server_reports import LOG, MessagePosition, Reports
from dcpinspect.streams.session import Session
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.verdicts import failover_entries
from dcpinspect.streams.visibility import Visibility

Origin = tuple[str, str]
"""Names the source of vbuckets: the server's address, and the bucket as far as it is known."""


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A failover log in an answer."""

    entries: tuple[tuple[int, int], ...]
    """(uuid, seqno) of each branch, newest first; empty where the capture lacks part of the log."""
    connection: int
    at: MessagePosition

    def newest_below(self, seqno: int) -> int | None:
        """Returns the uuid of the newest branch that began at or below a seqno."""
        return newest_below(self.entries, seqno)

    def has(self, uuid: int) -> bool:
        """Returns whether the log names a branch."""
        return any(log_uuid == uuid for log_uuid, _ in self.entries)


def branch_ends(log: Log) -> dict[int, int]:
    """Returns the seqno at which each branch of a log ended; 2^64 for the newest, by uuid."""
    ends = (2**64, *(begin for _, begin in log))
    return {uuid: end for (uuid, _), end in zip(log, ends, strict=False)}


def shared_up_to(log: Log, later_log: Log) -> int | None:
    """Returns the seqno up to which two logs have one history; None if no branch is in both."""
    ends, later_ends = branch_ends(log), branch_ends(later_log)
    return next(
        (min(end, later_ends[uuid]) for uuid, end in ends.items() if uuid in later_ends), None
    )


def log_place(log: KnownLog) -> tuple[int, int]:
    """Returns the key that sorts logs. Rows alone do not: a hole holds back what follows it."""
    return log.at.time_ns, log.at.row


def origin_of(link: TcpConnection, session: Session, sight: Visibility) -> Origin:
    """Returns the origin of a connection; connections of one origin speak of the same vbuckets.

    If the selection of a bucket may have been missed, the connection is an origin of its own.
    """
    if session.bucket is not None:
        return link.server, f"bucket {session.bucket}"
    return link.server, "" if sight.is_complete_so_far(link.number) else f"connection {link.number}"


class LogsInOrder(Sequence[KnownLog]):
    """Failover logs in the order in which they were told; each is made when it is looked at."""

    def __init__(
        self, logs: FailoverLogs, rows: IntArray, part_of: tuple[LogsInOrder, int] | None = None
    ) -> None:
        """``part_of``: what these were taken from, and the place where they begin in it."""
        self._logs, self._rows = logs, rows
        self._whole, self._begin = part_of or (self, 0)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> KnownLog: ...
    @overload
    def __getitem__(self, index: slice) -> LogsInOrder: ...
    def __getitem__(self, index: int | slice) -> KnownLog | LogsInOrder:
        if not isinstance(index, slice):
            return self._logs.log(int(self._rows[index]))
        begin, end, _ = index.indices(len(self))
        return LogsInOrder(self._logs, self._rows[begin:end], (self._whole, self._begin + begin))

    @property
    def first(self) -> int:
        """Place of the first log in ``FailoverLogs.rows``."""
        return int(self._rows[0])

    @property
    def are_whole(self) -> bool:
        """Whether the branches of all these logs are in the capture."""
        before = self._whole._unread_before
        return bool(before[self._begin] == before[self._begin + len(self)])

    @cached_property
    def _unread_before(self) -> IntArray:
        """How many logs before each place, and in all, are not whole in the capture."""
        return np.concatenate(([0], np.cumsum(self._logs.are_unread[self._rows])))

    def count_before(self, time_ns: int, row: int, side: Literal["left", "right"] = "right") -> int:
        """Returns how many logs were told before a message; "right": those in it count, too."""
        places = self._logs.rows.place
        find = bisect_right if side == "right" else bisect_left
        return find(self._rows, (time_ns, row), key=lambda log: (places.time[log], places.row[log]))


class FailoverLogs:
    """All failover logs of a reading."""

    def __init__(
        self,
        streams: Streams,
        sight: Visibility,
        conversation: Conversation,
        links: Sequence[TcpConnection],
    ) -> None:
        sessions, reports = conversation.sessions, conversation.reports
        self.origins: Mapping[int, Origin] = {
            link.number: origin_of(link, sessions.get(link.number) or Session(), sight)
            for link in links
        }
        """The origin of each connection, by number of the connection."""
        self._streams, self._raw = streams, conversation.logs
        self._entries: dict[int, tuple[tuple[int, int], ...]] = {-1: ()}
        self._uuids: dict[int, frozenset[int]] = {}
        # by the first log of a vbucket on a server: the last log with a branch
        self._latest: dict[int, dict[int, int]] = {}
        accepted = streams[(streams.log >= 0) | (streams.status == Status.SUCCESS)]
        all_logs = Reports.joined([Reports.of_answers(accepted, LOG), reports[reports.kind == LOG]])
        self._names = NameNumbers(
            self.origins, 1 + max([int(all_logs.connection.max(initial=0)), *self.origins])
        )
        key = self.key(all_logs.connection, all_logs.vbucket)
        order = np.lexsort((all_logs.place.row, all_logs.place.time, key))
        order = order[key[order] >= 0]
        self.rows = all_logs[order]
        """The logs, sorted by server, by vbucket, and by when they were told."""
        self._keys = key[order]

    def key(self, connection: IntArray, vbucket: IntArray) -> IntArray:
        """Returns a number for a connection's vbucket on its server; negative: unknown server."""
        return self._names.of[connection] << VBUCKET_BITS | vbucket

    def entries(self, log: int) -> tuple[tuple[int, int], ...]:
        """Returns the branches of a log by its number."""
        if log not in self._entries:
            self._entries[log] = tuple(failover_entries(self._raw[log]))
        return self._entries[log]

    def log(self, number: int) -> KnownLog:
        """Returns the log at this place of ``rows``."""
        row = self.rows[number]
        return KnownLog(
            self.entries(int(row.log)), int(row.connection), MessagePosition.from_record(row.place)
        )

    def everything(self) -> Iterator[tuple[int, KnownLog]]:
        """Yields every log, with its vbucket first."""
        for number, vbucket in enumerate(self.rows.vbucket.tolist()):
            yield vbucket, self.log(number)

    def names(self, vbucket: int, uuid: int) -> bool:
        """Returns whether any log of a vbucket, on whatever server, has a branch."""
        if vbucket not in self._uuids:
            logs = unique(self.rows.log[self.rows.vbucket == vbucket]).tolist()
            self._uuids[vbucket] = frozenset(
                log_uuid for log in logs for log_uuid, _ in self.entries(log)
            )
        return uuid in self._uuids[vbucket]

    def vbuckets_of(self, uuid: int) -> tuple[int, ...]:
        """Returns the vbuckets in whose logs, on whatever server, a branch is. A branch is of one
        vbucket: its uuid is a random number.
        """
        return self._vbuckets.get(uuid, ())

    @cached_property
    def _vbuckets(self) -> Mapping[int, tuple[int, ...]]:
        vbuckets_of_uuid: dict[int, dict[int, None]] = {}
        for pair in unique(self.rows.log << VBUCKET_BITS | self.rows.vbucket).tolist():
            for uuid, _ in self.entries(pair >> VBUCKET_BITS):
                vbuckets_of_uuid.setdefault(uuid, {})[pair & (1 << VBUCKET_BITS) - 1] = None
        return {uuid: tuple(sorted(vbuckets)) for uuid, vbuckets in vbuckets_of_uuid.items()}

    @cached_property
    def are_unread(self) -> BoolArray:
        """Whether part of a log is not in the capture, for each place of ``rows``."""
        log = self.rows.log
        distinct_logs = unique(log)
        return np.array(
            [not self.entries(log_number) for log_number in distinct_logs.tolist()], dtype=np.bool_
        )[np.searchsorted(distinct_logs, log)]

    def names_after(self, stream: int, uuid: int) -> bool:
        """Returns whether a log that came after the answer of a stream, of its vbucket and on its
        server, has a branch.
        """
        logs = self.stream_logs(stream)
        return self._latest_with(logs, uuid) >= self._place_after(logs, stream) if logs else False

    def latest_before(self, stream: int, uuid: int) -> KnownLog | None:
        """Returns the latest log with a branch, of a stream's vbucket and on its server, if no log
        after its answer has that.
        """
        logs = self.stream_logs(stream)
        latest = self._latest_with(logs, uuid) if logs else -1
        return logs[latest] if 0 <= latest < self._place_after(logs, stream) else None

    def _latest_with(self, logs: LogsInOrder, uuid: int) -> int:
        """Returns the place of the latest of these logs, all of a vbucket, with a branch; or -1."""
        first = logs.first
        if first not in self._latest:
            every = enumerate(self.rows.log[first : first + len(logs)].tolist())
            self._latest[first] = {
                log_uuid: position for position, log in every for log_uuid, _ in self.entries(log)
            }
        return self._latest[first].get(uuid, -1)

    def stream_logs(self, stream: int) -> LogsInOrder:
        """Returns the logs of a stream's vbucket on its server, in the order of telling."""
        row = self._streams[stream]
        key = self.key(np.array(row.connection), np.array(row.vbucket))
        return self._every[
            slice(*(int(np.searchsorted(self._keys, key, side)) for side in ("left", "right")))
        ]

    @cached_property
    def _every(self) -> LogsInOrder:
        return LogsInOrder(self, np.arange(len(self.rows)))

    def newest(self, stream: int) -> int | None:
        """Returns the uuid of the newest branch in the log with which a stream was accepted; None
        without a log.
        """
        log = self._streams[stream].log
        return self.entries(log)[0][0] if log >= 0 else None

    def nearest(self, stream: int) -> KnownLog | None:
        """Returns the log that tells most of a stream's answer: the next, else the last before."""
        logs = self.stream_logs(stream)
        return logs[min(self._place_after(logs, stream), len(logs) - 1)] if logs else None

    def after(self, stream: int) -> LogsInOrder:
        """Returns the logs that came after the answer of a stream."""
        logs = self.stream_logs(stream)
        return logs[self._place_after(logs, stream) :]

    def _place_after(self, logs: LogsInOrder, stream: int) -> int:
        answer_place = self._streams[stream].answered
        return logs.count_before(answer_place.time, answer_place.row)
