"""Failover logs as servers told them: whose history each one is, and who knew it when."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.links import Link
from dcpinspect.streams.rows import Streams
from dcpinspect.streams.server_reports import At
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


class FailoverLogs:
    """All failover logs of a reading."""

    def __init__(self, streams: Streams, sight: Visibility, conversation: Conversation, links: Sequence[Link]) -> None:
        sessions = conversation.sessions
        self.origins: Mapping[int, Origin] = {link.number: origin_of(link, sessions.get(link.number) or Session(), sight) for link in links}
        """By connection."""
        self._streams = streams
        self._known: dict[tuple[Origin, int], list[KnownLog]] = defaultdict(list)
        self._parsed: dict[int, tuple[tuple[int, int], ...]] = {}
        parsed = self._parsed
        for number in np.flatnonzero(streams.log >= 0).tolist():
            row = streams[number]
            log = int(row.log)
            entries = parsed.get(log)
            if entries is None:
                entries = parsed[log] = tuple(failover_entries(conversation.logs[log]))
            self._add(int(row.connection), int(row.vbucket), entries, At.of(row.answered))
        for number in np.flatnonzero((streams.log < 0) & (streams.status == Status.SUCCESS)).tolist():
            row = streams[number]
            self._add(int(row.connection), int(row.vbucket), (), At.of(row.answered))
        for connection, session in sessions.items():
            for vbucket, report in session.reports.items():
                for told in report.logs:
                    self._add(connection, vbucket, tuple(failover_entries(told.raw)), told.at)
        for logs in self._known.values():
            logs.sort(key=told_at)

    def _add(self, connection: int, vbucket: int, entries: tuple[tuple[int, int], ...], at: At) -> None:
        if connection in self.origins:
            self._known[self.origins[connection], vbucket].append(KnownLog(entries, connection, at))

    def everything(self) -> Iterator[tuple[int, KnownLog]]:
        """Every log, with its vbucket."""
        for (_, vbucket), logs in self._known.items():
            for log in logs:
                yield vbucket, log

    def of(self, stream: int) -> Sequence[KnownLog]:
        """The logs of a stream's vbucket on its server, in the order in which they were told."""
        row = self._streams[stream]
        return self._known.get((self.origins[int(row.connection)], int(row.vbucket)), ())

    def newest(self, stream: int) -> int | None:
        """Uuid of the newest branch by the log with which a stream was accepted."""
        log = int(self._streams.log[stream])
        return self._parsed[log][0][0] if log >= 0 else None

    def nearest(self, stream: int) -> KnownLog | None:
        """The log that tells most of an answer: the next one that comes, else the last one before."""
        logs = self.of(stream)
        if not logs:
            return None
        return logs[min(self._place_after(logs, stream), len(logs) - 1)]

    def after(self, stream: int) -> Sequence[KnownLog]:
        """The logs that came after the answer of a stream."""
        logs = self.of(stream)
        return logs[self._place_after(logs, stream) :]

    def _place_after(self, logs: Sequence[KnownLog], stream: int) -> int:
        at = At.of(self._streams[stream].answered)
        return bisect_right(logs, (at.time_ns, at.row), key=told_at)
