"""Failover logs as servers told them: whose history each one is, and who knew it when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.grouping import VBUCKET_BITS, Names
from dcpinspect.streams.links import Link
from dcpinspect.streams.rows import Streams
from dcpinspect.streams.server_reports import LOG, At, Reports
from dcpinspect.streams.session import Conversation, Session
from dcpinspect.streams.verdicts import failover_entries
from dcpinspect.streams.visibility import Visibility

Table = npt.NDArray[np.int64]

Origin = tuple[str, str]
"""Whose vbuckets they are: the server's address, and the bucket as far as it is known."""


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A failover log in an answer."""

    entries: tuple[tuple[int, int], ...]
    """(uuid, seqno) of each branch, newest first; empty where part of it is not in the capture."""
    connection: int
    at: At

    def newest_below(self, seqno: int) -> int | None:
        """Uuid of the newest branch that began at or below a seqno."""
        return max((entry for entry in self.entries if entry[1] <= seqno), key=lambda entry: entry[1], default=(None, 0))[0]

    def has(self, uuid: int) -> bool:
        """Whether it names a branch."""
        return any(own == uuid for own, _ in self.entries)


def told_at(log: KnownLog) -> tuple[int, int]:
    """By what logs are in order: a hole holds back what came after it, so rows alone are not."""
    return log.at.time_ns, log.at.row


def origin_of(link: Link, session: Session, sight: Visibility) -> Origin:
    """Connections of one origin speak of the same vbuckets. Where the bucket may have been selected unseen, an origin is its own."""
    if session.bucket is not None:
        return link.server, f"bucket {session.bucket}"
    return link.server, "" if sight.is_complete_so_far(link.number) else f"connection {link.number}"


class Told(Sequence[KnownLog]):
    """Failover logs in the order in which they were told; each is made when somebody looks at it."""

    def __init__(self, logs: FailoverLogs, rows: Table) -> None:
        self._logs, self._rows = logs, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> KnownLog: ...
    @overload
    def __getitem__(self, at: slice) -> Told: ...
    def __getitem__(self, at: int | slice) -> KnownLog | Told:
        return Told(self._logs, self._rows[at]) if isinstance(at, slice) else self._logs.log(int(self._rows[at]))

    @property
    def different(self) -> list[tuple[tuple[int, int], ...]]:
        """What they say, each once."""
        return [self._logs.entries(log) for log in np.unique(self._logs.told.log[self._rows]).tolist()]

    def place(self, time_ns: int, row: int, side: Literal["left", "right"] = "right") -> int:
        """How many were told before a message; ``right``: or in it."""
        at = self._logs.told.place
        find = bisect_right if side == "right" else bisect_left
        return find(self._rows, (time_ns, row), key=lambda log: (at.time[log], at.row[log]))


class FailoverLogs:
    """All failover logs of a reading."""

    def __init__(self, streams: Streams, sight: Visibility, conversation: Conversation, links: Sequence[Link]) -> None:
        sessions, reports = conversation.sessions, conversation.reports
        self.origins: Mapping[int, Origin] = {link.number: origin_of(link, sessions.get(link.number) or Session(), sight) for link in links}
        """By connection."""
        self._streams, self._raw = streams, conversation.logs
        self._entries: dict[int, tuple[tuple[int, int], ...]] = {-1: ()}
        self._uuids: dict[int, frozenset[int]] = {}
        reported = reports[reports.kind == LOG]
        answered = np.concatenate(
            (np.flatnonzero(streams.log >= 0), np.flatnonzero((streams.log < 0) & (streams.status == Status.SUCCESS)))
        )
        both = (answered, streams), (np.arange(len(reported)), reported)
        connection, vbucket = (np.concatenate([getattr(of, name)[rows] for rows, of in both]) for name in ("connection", "vbucket"))
        at = streams.answered, reported.place
        time, row = (np.concatenate([getattr(of, name)[rows] for (rows, _), of in zip(both, at, strict=True)]) for name in ("time", "row"))
        self._names = Names(self.origins, 1 + max([int(connection.max(initial=0)), *self.origins]))
        key = self.key(connection, vbucket)
        order = np.lexsort((row, time, key))
        order = order[key[order] >= 0]
        self.told = Reports.zeros(len(order))
        """Server by server, and vbucket by vbucket, in the order in which they were told."""
        is_answer = order < len(answered)
        own, other = answered[order[is_answer]], order[~is_answer] - len(answered)
        self.told[~is_answer] = reported[other]
        for name in ("connection", "vbucket", "log"):
            self.told.array[name][is_answer] = getattr(streams, name)[own]
        self.told.array["place"][is_answer] = streams.array["answered"][own]
        self._keys = key[order]

    def key(self, connection: Table, vbucket: Table) -> Table:
        """One number for the vbucket of the server of a connection; negative where that is not known."""
        return self._names.of[connection] << VBUCKET_BITS | vbucket

    def entries(self, log: int) -> tuple[tuple[int, int], ...]:
        """The branches that a log has, by its number."""
        if log not in self._entries:
            self._entries[log] = tuple(failover_entries(self._raw[log]))
        return self._entries[log]

    def log(self, number: int) -> KnownLog:
        """One of ``told``."""
        row = self.told[number]
        return KnownLog(self.entries(int(row.log)), int(row.connection), At.of(row.place))

    def everything(self) -> Iterator[tuple[int, KnownLog]]:
        """Every log, with its vbucket."""
        for number, vbucket in enumerate(self.told.vbucket.tolist()):
            yield vbucket, self.log(number)

    def names(self, vbucket: int, uuid: int) -> bool:
        """Whether any log of a vbucket has a branch, on whatever server."""
        if vbucket not in self._uuids:
            logs = np.unique(self.told.log[self.told.vbucket == vbucket]).tolist()
            self._uuids[vbucket] = frozenset(own for log in logs for own, _ in self.entries(log))
        return uuid in self._uuids[vbucket]

    def of(self, stream: int) -> Told:
        """The logs of a stream's vbucket on its server, in the order in which they were told."""
        row = self._streams[stream]
        key = self.key(np.array(row.connection), np.array(row.vbucket))
        return Told(self, np.arange(*(int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))))

    def newest(self, stream: int) -> int | None:
        """Uuid of the newest branch by the log with which a stream was accepted."""
        log = int(self._streams.log[stream])
        return self.entries(log)[0][0] if log >= 0 else None

    def nearest(self, stream: int) -> KnownLog | None:
        """The log that tells most of an answer: the next one that comes, else the last one before."""
        logs = self.of(stream)
        return logs[min(self._place_after(logs, stream), len(logs) - 1)] if logs else None

    def after(self, stream: int) -> Told:
        """The logs that came after the answer of a stream."""
        logs = self.of(stream)
        return logs[self._place_after(logs, stream) :]

    def _place_after(self, logs: Told, stream: int) -> int:
        at = self._streams[stream].answered
        return logs.place(at.time, at.row)
