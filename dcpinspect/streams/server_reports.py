"""What servers say of a vbucket beside its streams: newest, persisted seqnos, failover log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.structs import Struct, StructRows, T, nested, number
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.records import LEAST, MessageRow, Streams

MOST_SEQNOS = 32
"""Number of seqnos kept of a vbucket.

With more, one is dropped whose neighbours are near each other for their age. So if the first seqno
of a wait was dropped, still more than half of the wait is told, however often the server was asked.
"""
MOST_LOGS = 8
"""Number of failover logs kept of a vbucket: the latest ones."""
MOST_STATES = 64
"""Number of changes of state kept of a vbucket: the latest ones."""
_LONGEST_LOG = 1 << 12
"""In bytes; servers keep 25 branches of 16 bytes each."""


class MessagePosition(NamedTuple):
    """Where a message was: the four columns of a place."""

    row: int
    stream_offset: int
    frame: int
    time_ns: int

    @classmethod
    def from_record(cls, message: MessageRow) -> MessagePosition:
        """Returns the place as plain numbers."""
        return cls(message.row, message.offset, message.frame, message.time)


class HighSeqno(NamedTuple):
    """What a server said of a vbucket's newest seqno."""

    seqno: int
    at: MessagePosition


class ActiveVbuckets(NamedTuple):
    """Vbuckets that a server said are active, and on which node."""

    nodes: Mapping[int, str]
    """Address of the node by vbucket; empty for the server itself."""
    at: MessagePosition
    own: str = ""
    """The address by which the server calls itself in ``nodes``; empty if it does not say."""


class StateSet(NamedTuple):
    """A command that set the state of a vbucket, or deleted it, and that the server obeyed."""

    state: int
    """The new state; 0: the vbucket was deleted."""
    at: MessagePosition
    """The answer."""


class FailoverLog(NamedTuple):
    """A failover log as it stood in an answer; empty where part of it is not in the capture."""

    raw: bytes
    at: MessagePosition


@dataclass(slots=True)
class NotPersisted:
    """Answers to OBSERVE_SEQNO that say that a vbucket has items but none of them is on disk."""

    places: list[MessagePosition] = field(default_factory=list)
    """Places of the first two answers and the last one."""
    count: int = 0
    is_over: bool = False
    """Whether something of the vbucket has been persisted."""

    def add(self, at: MessagePosition) -> None:
        """Counts one more answer."""
        self.count += 1
        self.places = [*self.places[:2], at]


@dataclass(slots=True)
class ServerReport:
    """What one connection was told of one vbucket."""

    seqnos: list[HighSeqno] = field(default_factory=list)
    """Rising seqnos, oldest first, each with the first answer that told it."""
    logs: list[FailoverLog] = field(default_factory=list)
    """Failover logs, oldest first; no log is equal to the one before it."""
    not_persisted: NotPersisted | None = None
    """None: the server said nothing of the vbucket's disk."""

    def tell_seqno(self, high: HighSeqno) -> None:
        """Takes an answer with the vbucket's newest seqno."""
        if self.seqnos and high.seqno == self.seqnos[-1].seqno:
            return
        if self.seqnos and high.seqno < self.seqnos[-1].seqno:
            self.seqnos.clear()  # a lower seqno is of another history
        if len(self.seqnos) >= MOST_SEQNOS:
            del self.seqnos[self._least_telling(high.at.time_ns)]
        self.seqnos.append(high)

    def _least_telling(self, now_ns: int) -> int:
        times = [high.at.time_ns for high in self.seqnos]
        inner = range(1, len(times) - 1)
        return min(
            inner,
            key=lambda index: (
                (times[index + 1] - times[index - 1]) / (1 + max(0, now_ns - times[index - 1]))
            ),
        )

    def tell_log(self, log: FailoverLog) -> None:
        """Takes an answer with the vbucket's failover log."""
        if (
            not log.raw
            or len(log.raw) % 16
            or len(log.raw) > _LONGEST_LOG
            or (self.logs and self.logs[-1].raw == log.raw)
        ):
            return
        self.logs = [*self.logs[1 - MOST_LOGS :], log]

    def miss_log(self, at: MessagePosition) -> None:
        """Takes an answer with a failover log of which part is not in the capture."""
        if not self.logs or self.logs[-1].raw:
            self.logs = [*self.logs[1 - MOST_LOGS :], FailoverLog(b"", at)]

    def tell_persisted(self, persisted: int, current: int, at: MessagePosition) -> None:
        """Takes an answer that says up to which seqno the vbucket is on disk."""
        if not (persisted or current):
            return
        not_persisted = self.not_persisted = self.not_persisted or NotPersisted()
        if persisted:
            not_persisted.is_over = True
        elif not not_persisted.is_over:
            not_persisted.add(at)


HIGH, LATEST, LOG, ROLLBACK, BRANCH = range(5)


class ReportRow(Struct[T]):
    """One thing that a connection was told of a vbucket."""

    connection: T = number("The connection.")
    vbucket: T = number("The vbucket.")
    kind: T = number(
        "HIGH: a seqno that is kept; LATEST: the one that was told last; LOG: a failover log. Of "
        "answers to stream requests, too; ROLLBACK and BRANCH only of those."
    )
    value: T = number("Of a BRANCH: its uuid; of others: a biased seqno.", reset=LEAST)
    log: T = number(
        "Of a log: its number, -1 where part of it is not in the capture.", reset=-1, of="logs"
    )
    place: MessageRow[T] = nested(MessageRow, "The answer.")


class Reports(ReportRow[IntArray], StructRows[ReportRow]):
    """What servers said of vbuckets, except for ``NotPersisted``."""

    @staticmethod
    def of_answers(streams: Streams, kind: int) -> Reports:
        """Returns what the answers to stream requests say; the caller fills in ``value``."""
        reports = Reports.reset(len(streams))
        reports.connection, reports.vbucket = streams.connection, streams.vbucket
        reports.log, reports.place = streams.log, streams.answered
        reports.kind[:] = kind
        return reports

    @staticmethod
    def from_sessions(
        sessions: Mapping[int, tuple[Mapping[int, ServerReport], Mapping[int, HighSeqno]]],
        log_of: Callable[[bytes], int],
    ) -> Reports:
        """Returns reports by connection: what is kept, and what was told last. ``log_of``: returns
        the number of a log.
        """
        report_rows = [
            row
            for number, (vbucket_reports, latest) in sessions.items()
            for row in _report_rows(number, vbucket_reports, latest, log_of)
        ]
        return Reports.of_integers(np.array(report_rows, dtype=np.int64).reshape(-1, 9))


def _report_rows(
    connection: int,
    vbucket_reports: Mapping[int, ServerReport],
    latest: Mapping[int, HighSeqno],
    log_of: Callable[[bytes], int],
) -> Iterator[tuple[int, ...]]:
    for vbucket, report in vbucket_reports.items():
        for high in report.seqnos:
            yield connection, vbucket, HIGH, high.seqno + LEAST, -1, *high.at
        for log in report.logs:
            yield connection, vbucket, LOG, LEAST, log_of(log.raw), *log.at
    for vbucket, high in latest.items():
        yield connection, vbucket, LATEST, high.seqno + LEAST, -1, *high.at
