"""The table of rollbacks: what was asked, the server's history, why it did not fit, and the request that would work."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Numbers
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import STREAM_FLAGS
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.contracts import ROLLBACKS
from dcpinspect.streams.logs import FailoverLogs, KnownLog, Origin
from dcpinspect.streams.rollback import Asked, Explanation, VbucketFacts, explain_rollback
from dcpinspect.tables.records import Records, Values

Table = npt.NDArray[np.int64]

_Place = tuple[Origin, int]
"""A vbucket of a server."""
_MASK = 2**64 - 1
_BACK = 16
"""Streams of a client, and snapshots of each, among which the one around a rollback seqno is sought."""
_HAS_PURGE = 4


@dataclass(frozen=True, slots=True)
class Rollback:
    """A request that was answered with a rollback."""

    asked: Asked
    to: int
    why: Explanation
    log: KnownLog | None
    seen: VbucketFacts
    snapshot: tuple[int, int]
    """To name in the request that would work, from ``to``."""

    @property
    def resume_uuid(self) -> int | None:
        """To name in that request; None where nobody can know it."""
        return self.why.resume_uuid if self.why.resume_uuid is not None or self.to else 0


class Rollbacks:
    """All rollbacks of a reading."""

    def __init__(self, streams: Table, snapshots: Table, logs: FailoverLogs, clients: Mapping[int, str]) -> None:
        """``clients``: the consumer of each connection."""
        self._streams, self._snapshots, self._logs = streams, snapshots, logs
        is_known = (streams[:, s.S_FORM] > 0) & (streams[:, s.S_ROLLBACK] != s.UNREAD_SEQNO)
        rolled = np.flatnonzero((streams[:, s.S_ANSWER] == w.A_ROLLBACK) & is_known).tolist()
        self._clients = clients
        vbuckets = set(streams[rolled, s.S_VBUCKET].tolist())
        self._purge: dict[_Place, int] = {}
        self._greatest: dict[tuple[_Place, int], int] = {}
        self._look(vbuckets)
        self._of_client: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        columns = streams[:, [s.S_CONNECTION, s.S_VBUCKET, s.S_SID]]
        for number in np.flatnonzero(np.isin(streams[:, s.S_VBUCKET], list(vbuckets))).tolist():
            connection, vbucket, sid = columns[number].tolist()
            if connection in clients:
                self._of_client[clients[connection], vbucket, sid].append(number)
        self._of_stream: dict[int, list[int]] = defaultdict(list)
        wanted = [number for numbers in self._of_client.values() for number in numbers]
        of_wanted = np.flatnonzero(np.isin(snapshots[:, s.N_STREAM], wanted))
        for number, stream in zip(of_wanted.tolist(), snapshots[of_wanted, s.N_STREAM].tolist(), strict=True):
            self._of_stream[stream].append(number)
        self._found = {number: self._explain(number) for number in rolled if int(streams[number, s.S_CONNECTION]) in clients}

    def of(self, stream: int) -> Rollback:
        """The rollback that answered a stream request. Raises KeyError for other streams."""
        return self._found[stream]

    def _explain(self, number: int) -> Rollback:
        row = self._streams[number]
        start, low, high, to = (_plain(row[column]) for column in (s.S_START, s.S_SNAPSHOT_START, s.S_SNAPSHOT_END, s.S_ROLLBACK))
        if row[s.S_FORM] != 1:
            low = high = start
        asked = Asked(start, low, high, int(row[s.S_UUID]) & _MASK, int(row[s.S_FLAGS]))
        log = self._logs.nearest(number)
        if log is not None and not log.entries:
            log = None
        seen = self._seen(number, asked.uuid)
        why = explain_rollback(asked, to, log.entries if log is not None else None, seen)
        return Rollback(asked, to, why, log, seen, self._resumable(number, to, why.resume_uuid, log))

    def _look(self, vbuckets: set[int]) -> None:
        """Gathers what the capture shows of these vbuckets on each server: purge seqnos, and how far each branch goes."""
        streams, snapshots = self._streams, self._snapshots
        is_wanted = np.isin(streams[:, s.S_VBUCKET], list(vbuckets))
        markers = snapshots[is_wanted[snapshots[:, s.N_STREAM]] & (snapshots[:, s.N_LAYOUT] > s.UPR_LAYOUT)]
        ends = np.full(len(streams), s.LEAST)
        np.maximum.at(ends, markers[:, s.N_STREAM], markers[:, s.N_END])
        np.maximum.at(ends, np.flatnonzero(streams[:, s.S_SEEN] > 0), streams[streams[:, s.S_SEEN] > 0, s.S_LAST])
        told = markers[(markers[:, s.N_PRESENT] & _HAS_PURGE) != 0]
        purges = np.full(len(streams), s.LEAST)
        has_purge = np.zeros(len(streams), dtype=np.bool_)
        np.maximum.at(purges, told[:, s.N_STREAM], told[:, s.N_PURGE])
        has_purge[told[:, s.N_STREAM]] = True
        for number in np.flatnonzero(is_wanted).tolist():
            connection, vbucket = (int(value) for value in streams[number, [s.S_CONNECTION, s.S_VBUCKET]])
            if connection not in self._clients:
                continue
            key = self._logs.origins[connection], vbucket
            if has_purge[number]:
                self._purge[key] = max(self._purge.get(key, 0), _plain(purges[number]))
            branch = self._logs.newest(number)
            if branch is not None and ends[number] > s.LEAST:
                self._greatest[key, branch] = max(self._greatest.get((key, branch), 0), _plain(ends[number]))

    def _seen(self, number: int, uuid: int) -> VbucketFacts:
        """What the capture shows of the vbucket on the server; of its seqnos, those of streams whose newest branch is ``uuid``."""
        row = self._streams[number]
        key = self._logs.origins[int(row[s.S_CONNECTION])], int(row[s.S_VBUCKET])
        return VbucketFacts(self._purge.get(key), self._greatest.get((key, uuid)))

    def _resumable(self, number: int, to: int, uuid: int | None, log: KnownLog | None) -> tuple[int, int]:
        """The snapshot to name with start ``to``: the client's own around it, if it has the items up to there and the server all of it."""
        if uuid is None or log is None:
            return to, to
        branch = next(place for place, (own, _) in enumerate(log.entries) if own == uuid)
        limit = log.entries[branch - 1][1] if branch else self._seen(number, uuid).greatest
        row = self._streams[number]
        mine = self._of_client[self._clients[int(row[s.S_CONNECTION])], int(row[s.S_VBUCKET]), int(row[s.S_SID])]
        place = bisect_left(mine, number)
        for earlier in reversed(mine[max(0, place - _BACK) : place]):
            for snapshot in reversed(self._of_stream.get(earlier, [])[-_BACK:]):
                one = self._snapshots[snapshot]
                start, end, last = _plain(one[s.N_START]), _plain(one[s.N_END]), _plain(one[s.N_LAST])
                is_whole = one[s.N_LAYOUT] > s.UPR_LAYOUT and not one[s.N_TAINTED] and one[s.N_SEEN]
                if is_whole and start < to < end <= (limit or 0) and last >= to:
                    return start, end
        return to, to

    def records(self) -> Records:
        """The table, in order of requests."""
        numbers = np.array(list(self._found), dtype=np.int64)
        rows = self._streams[numbers]
        found = list(self._found.values())
        columns: dict[str, Values] = {
            "connection": Numbers(rows[:, s.S_CONNECTION]),
            "vbucket": Numbers(rows[:, s.S_VBUCKET]),
            "sid": Numbers(rows[:, s.S_SID], rows[:, s.S_SID] >= 0),
            "stream": Numbers(rows[:, s.S_ORDINAL]),
            "client": [self._clients[connection] for connection in rows[:, s.S_CONNECTION].tolist()],
            "requested_start": Numbers(s.unbiased(rows[:, s.S_START])),
            "snapshot_start": Numbers(s.unbiased(rows[:, s.S_SNAPSHOT_START]), rows[:, s.S_FORM] == 1),
            "snapshot_end": Numbers(s.unbiased(rows[:, s.S_SNAPSHOT_END]), rows[:, s.S_FORM] == 1),
            "vbucket_uuid": Numbers(rows[:, s.S_UUID].view(np.uint64)),
            "request_flags": [list(bit_names(STREAM_FLAGS, one.asked.flags)) for one in found],
            "rollback_seqno": Numbers(s.unbiased(rows[:, s.S_ROLLBACK])),
            "failover_log": [list(one.log.entries) if one.log is not None else None for one in found],
            "purge_seqno": [one.seen.purge_seqno for one in found],
            "cause": [one.why.cause for one in found],
            "explanation": [one.why.text for one in found],
            "resume_start": [one.to for one in found],
            "resume_uuid": [one.resume_uuid for one in found],
            "resume_snapshot_start": [one.snapshot[0] for one in found],
            "resume_snapshot_end": [one.snapshot[1] for one in found],
            "request_row": Numbers(rows[:, s.S_OPENED + s.AT_ROW]),
            "answer_row": Numbers(rows[:, s.S_ANSWERED + s.AT_ROW]),
            "log_row": [one.log.at.row if one.log is not None else None for one in found],
            "time": Numbers(rows[:, s.S_ANSWERED + s.AT_TIME]),
        }
        return Records(ROLLBACKS, columns, len(found), file=rows[:, s.S_OPENED + s.AT_FRAME] >> s.FILE_SHIFT)


def _plain(seqno: int) -> int:
    return int(seqno) - s.LEAST
