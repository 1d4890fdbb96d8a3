"""The table of rollbacks: what was asked, the server's history, why it did not fit, and the request that would work."""

from __future__ import annotations

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
from dcpinspect.streams.logs import FailoverLogs, KnownLog
from dcpinspect.streams.rollback import Asked, Explanation, Seen, explain_rollback
from dcpinspect.tables.records import Records, Values

Table = npt.NDArray[np.int64]

_MASK = 2**64 - 1
_HAS_PURGE = 4


@dataclass(frozen=True, slots=True)
class Rollback:
    """A request that was answered with a rollback."""

    asked: Asked
    to: int
    why: Explanation
    log: KnownLog | None
    seen: Seen
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
        rolled = np.flatnonzero((streams[:, s.S_ANSWER] == w.A_ROLLBACK) & (streams[:, s.S_FORM] > 0)).tolist()
        self._clients = clients
        vbuckets = set(streams[rolled, s.S_VBUCKET].tolist())
        self._of_client: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._of_server: dict[tuple[object, int], list[int]] = defaultdict(list)
        for number in np.flatnonzero(np.isin(streams[:, s.S_VBUCKET], list(vbuckets))).tolist():
            connection, vbucket = (int(value) for value in streams[number, [s.S_CONNECTION, s.S_VBUCKET]])
            if connection in clients:
                self._of_client[clients[connection], vbucket].append(number)
                self._of_server[logs.origins[connection], vbucket].append(number)
        self._first_snapshot: dict[int, list[int]] = defaultdict(list)
        wanted = {number for numbers in self._of_client.values() for number in numbers}
        for number, stream in enumerate(snapshots[:, s.N_STREAM].tolist()):
            if stream in wanted:
                self._first_snapshot[stream].append(number)
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
        seen = self._seen(number, asked.uuid)
        why = explain_rollback(asked, to, log.entries if log is not None else None, seen)
        return Rollback(asked, to, why, log, seen, self._resumable(number, to, why.resume_uuid, log))

    def _seen(self, number: int, uuid: int) -> Seen:
        """What the capture shows of the vbucket on the server; of its seqnos, those of streams whose newest branch is ``uuid``."""
        row = self._streams[number]
        purge: list[int] = []
        greatest: list[int] = []
        for other in self._of_server[self._logs.origins[int(row[s.S_CONNECTION])], int(row[s.S_VBUCKET])]:
            markers = self._snapshots[self._first_snapshot.get(other, [])]
            purge += [_plain(value) for value in markers[(markers[:, s.N_PRESENT] & _HAS_PURGE) != 0, s.N_PURGE].tolist()]
            if not self._is_on(other, uuid):
                continue
            greatest += [_plain(value) for value in markers[markers[:, s.N_LAYOUT] > s.UPR_LAYOUT, s.N_END].tolist()]
            if self._streams[other, s.S_SEEN]:
                greatest.append(_plain(self._streams[other, s.S_LAST]))
        return Seen(max(purge, default=None), max(greatest, default=None))

    def _is_on(self, stream: int, uuid: int) -> bool:
        """Whether a stream was accepted with a log whose newest branch is ``uuid``."""
        if self._streams[stream, s.S_LOG] < 0:
            return False
        answered = int(self._streams[stream, s.S_ANSWERED + s.AT_ROW])
        log = next((log for log in self._logs.of(stream) if log.at.row == answered), None)
        return log is not None and bool(log.entries) and log.entries[0][0] == uuid

    def _resumable(self, number: int, to: int, uuid: int | None, log: KnownLog | None) -> tuple[int, int]:
        """The snapshot to name with start ``to``: the client's own around it, if it has the items up to there and the server all of it."""
        if uuid is None or log is None:
            return to, to
        branch = next(place for place, (own, _) in enumerate(log.entries) if own == uuid)
        limit = log.entries[branch - 1][1] if branch else self._seen(number, uuid).greatest
        row = self._streams[number]
        mine = self._of_client[self._clients[int(row[s.S_CONNECTION])], int(row[s.S_VBUCKET])]
        for earlier in reversed(mine[: mine.index(number)]):
            if self._streams[earlier, s.S_SID] != row[s.S_SID]:
                continue
            for snapshot in reversed(self._first_snapshot.get(earlier, [])):
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
