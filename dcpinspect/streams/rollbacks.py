"""The table of rollbacks: what was asked, the server's history, why it did not fit, and the request that would work."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Numbers
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import STREAM_FLAGS
from dcpinspect.streams import words as w
from dcpinspect.streams.contracts import ROLLBACKS
from dcpinspect.streams.kinds import UPR_LAYOUT
from dcpinspect.streams.logs import FailoverLogs, KnownLog, Origin
from dcpinspect.streams.rollback import Asked, Explanation, VbucketFacts, explain_rollback
from dcpinspect.streams.rows import FILE_SHIFT, LEAST, UNREAD_SEQNO, Snapshots, Streams
from dcpinspect.streams.state import unbiased
from dcpinspect.tables.records import Records, Values

Table = npt.NDArray[np.int64]

_Place = tuple[Origin, int]
"""A vbucket of a server."""
_MASK = 2**64 - 1
BACK = 16
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

    def __init__(self, streams: Streams, snapshots: Snapshots, logs: FailoverLogs, clients: Mapping[int, str]) -> None:
        """``clients``: the consumer of each connection."""
        self._streams, self._snapshots, self._logs = streams, snapshots, logs
        is_known = (streams.request.form > 0) & (streams.rollback != UNREAD_SEQNO)
        rolled = np.flatnonzero((streams.answer == w.A_ROLLBACK) & is_known).tolist()
        self._clients = clients
        vbuckets = set(streams.vbucket[rolled].tolist())
        self._purge: dict[_Place, int] = {}
        self._greatest: dict[tuple[_Place, int], int] = {}
        self._look(vbuckets)
        self._of_client: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        for number in np.flatnonzero(np.isin(streams.vbucket, list(vbuckets))).tolist():
            stream = streams[number]
            connection, vbucket, sid = stream.connection, stream.vbucket, stream.sid
            if connection in clients:
                self._of_client[clients[connection], vbucket, sid].append(number)
        self._of_stream: dict[int, list[int]] = defaultdict(list)
        wanted = [number for numbers in self._of_client.values() for number in numbers]
        of_wanted = np.flatnonzero(np.isin(snapshots.stream, wanted))
        for number, stream in zip(of_wanted.tolist(), snapshots.stream[of_wanted].tolist(), strict=True):
            self._of_stream[stream].append(number)
        self._found = {number: self._explain(number) for number in rolled if int(streams.connection[number]) in clients}

    def of(self, stream: int) -> Rollback:
        """The rollback that answered a stream request. Raises KeyError for other streams."""
        return self._found[stream]

    def everything(self) -> Iterator[tuple[int, Rollback]]:
        """Every rollback, with the number of the stream whose request it answered."""
        return iter(self._found.items())

    def _explain(self, number: int) -> Rollback:
        row = self._streams[number]
        start, low, high, to = (
            _plain(row.request.start),
            _plain(row.request.snapshot_start),
            _plain(row.request.snapshot_end),
            _plain(row.rollback),
        )
        if row.request.form != 1:
            low = high = start
        asked = Asked(start, low, high, int(row.request.uuid) & _MASK, int(row.request.flags))
        log = self._logs.nearest(number)
        if log is not None and not log.entries:
            log = None
        seen = self._seen(number, asked.uuid)
        why = explain_rollback(asked, to, log.entries if log is not None else None, seen)
        return Rollback(asked, to, why, log, seen, self._resumable(number, to, why.resume_uuid, log))

    def _look(self, vbuckets: set[int]) -> None:
        """Gathers what the capture shows of these vbuckets on each server: purge seqnos, and how far each branch goes."""
        streams, snapshots = self._streams, self._snapshots
        is_wanted = np.isin(streams.vbucket, list(vbuckets))
        markers = snapshots[is_wanted[snapshots.stream] & (snapshots.layout > UPR_LAYOUT)]
        ends = np.full(len(streams), LEAST)
        np.maximum.at(ends, markers.stream, markers.end)
        np.maximum.at(ends, np.flatnonzero(streams.seen > 0), streams.last[streams.seen > 0])
        told = markers[(markers.seqnos.present & _HAS_PURGE) != 0]
        purges = np.full(len(streams), LEAST)
        has_purge = np.zeros(len(streams), dtype=np.bool_)
        np.maximum.at(purges, told.stream, told.seqnos.purge)
        has_purge[told.stream] = True
        for number in np.flatnonzero(is_wanted).tolist():
            connection, vbucket = streams[number].connection, streams[number].vbucket
            if connection not in self._clients:
                continue
            key = self._logs.origins[connection], vbucket
            if has_purge[number]:
                self._purge[key] = max(self._purge.get(key, 0), _plain(purges[number]))
            branch = self._logs.newest(number)
            if branch is not None and ends[number] > LEAST:
                self._greatest[key, branch] = max(self._greatest.get((key, branch), 0), _plain(ends[number]))

    def _seen(self, number: int, uuid: int) -> VbucketFacts:
        """What the capture shows of the vbucket on the server; of its seqnos, those of streams whose newest branch is ``uuid``."""
        row = self._streams[number]
        key = self._logs.origins[int(row.connection)], int(row.vbucket)
        return VbucketFacts(self._purge.get(key), self._greatest.get((key, uuid)))

    def _resumable(self, number: int, to: int, uuid: int | None, log: KnownLog | None) -> tuple[int, int]:
        """The snapshot to name with start ``to``: the client's own around it, if it has the items up to there and the server all of it."""
        if uuid is None or log is None:
            return to, to
        branch = next(place for place, (own, _) in enumerate(log.entries) if own == uuid)
        limit = log.entries[branch - 1][1] if branch else self._seen(number, uuid).greatest
        row = self._streams[number]
        mine = self._of_client[self._clients[int(row.connection)], int(row.vbucket), int(row.sid)]
        place = bisect_left(mine, number)
        for earlier in reversed(mine[max(0, place - BACK) : place]):
            for snapshot in reversed(self._of_stream.get(earlier, [])[-BACK:]):
                one = self._snapshots[snapshot]
                start, end, last = _plain(one.start), _plain(one.end), _plain(one.last)
                is_whole = one.layout > UPR_LAYOUT and not one.is_tainted and one.seen
                if is_whole and start < to < end <= (limit or 0) and last >= to:
                    return start, end
        return to, to

    def records(self) -> Records:
        """The table, in order of requests."""
        numbers = np.array(list(self._found), dtype=np.int64)
        rows = self._streams[numbers]
        found = list(self._found.values())
        columns: dict[str, Values] = {
            "connection": Numbers(rows.connection),
            "vbucket": Numbers(rows.vbucket),
            "sid": Numbers(rows.sid, rows.sid >= 0),
            "stream": Numbers(rows.ordinal),
            "client": [self._clients[connection] for connection in rows.connection.tolist()],
            "requested_start": Numbers(unbiased(rows.request.start)),
            "snapshot_start": Numbers(unbiased(rows.request.snapshot_start), rows.request.form == 1),
            "snapshot_end": Numbers(unbiased(rows.request.snapshot_end), rows.request.form == 1),
            "vbucket_uuid": Numbers(rows.request.uuid.view(np.uint64)),
            "request_flags": [list(bit_names(STREAM_FLAGS, one.asked.flags)) for one in found],
            "rollback_seqno": Numbers(unbiased(rows.rollback)),
            "failover_log": [list(one.log.entries) if one.log is not None else None for one in found],
            "purge_seqno": [one.seen.purge_seqno for one in found],
            "cause": [one.why.cause for one in found],
            "explanation": [one.why.text for one in found],
            "resume_start": [one.to for one in found],
            "resume_uuid": [one.resume_uuid for one in found],
            "resume_snapshot_start": [one.snapshot[0] for one in found],
            "resume_snapshot_end": [one.snapshot[1] for one in found],
            "request_row": Numbers(rows.opened.row),
            "answer_row": Numbers(rows.answered.row),
            "log_row": [one.log.at.row if one.log is not None else None for one in found],
            "time": Numbers(rows.answered.time),
        }
        return Records(ROLLBACKS, columns, len(found), file=rows.opened.frame >> FILE_SHIFT)


def _plain(seqno: int) -> int:
    return int(seqno) - LEAST
