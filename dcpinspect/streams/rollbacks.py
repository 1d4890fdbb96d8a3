"""The table of rollbacks: what was asked, the server's history, why the request did not fit it, and
the request that would work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import IGNORE_PURGED, STREAM_FLAGS
from dcpinspect.streams import words as w
from dcpinspect.streams.consumers import Consumers
from dcpinspect.streams.failover_logs import FailoverLogs, KnownLog
from dcpinspect.streams.grouping import GroupedRows, Groups
from dcpinspect.streams.record_codes import HAS_PURGE, UPR_LAYOUT
from dcpinspect.streams.records import FILE_SHIFT, LEAST, UNREAD_SEQNO, Snapshots, Stream, Streams
from dcpinspect.streams.rollback import Explanation, RequestedRange, VbucketFacts, explain_rollback
from dcpinspect.streams.server_reports import HIGH, LATEST, Reports
from dcpinspect.streams.state import plain, unbiased
from dcpinspect.streams.table_columns import ROLLBACKS
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.tables.record_tables import ColumnValues, Records

_MASK = 2**64 - 1
BACK = 16
"""Greatest number of streams of a client, and of snapshots of each, that are searched for the
snapshot around a rollback seqno.
"""


@dataclass(frozen=True, slots=True)
class Rollback:
    """A request that was answered with a rollback."""

    asked: RequestedRange | None
    """None where the capture lacks it."""
    to: int | None
    """None where the capture lacks the seqno, and so of what would work."""
    why: Explanation
    log: KnownLog | None
    had_uuid: KnownLog | None
    """The latest log before with the uuid that was asked for, if ``log`` lacks it."""
    seen: VbucketFacts
    resume: int | None
    """Where the request that would work starts: at ``to``, or at the last seqno that the client
    received, if that is lower.
    """
    snapshot: tuple[int, int] | None
    """The snapshot to name in the request that would work."""

    @property
    def alternative(self) -> str:
        """Why the request that would work starts below the rollback seqno, or which one would work
        from above it; empty where neither is so.
        """
        if self.why.cause == "no-uuid":
            return "; a consumer that sends the uuid of its history can ask from what it has"
        if self.why.cause == "purge" and self.asked and not self.asked.flags & IGNORE_PURGED:
            return (
                f"; a consumer that needs no tombstones can ask from {self.asked.start} again, with "
                "ignore-purged-tombstones"
            )
        if self.resume is None or self.to is None or self.resume >= self.to:
            return ""
        return f"; the consumer had received only up to {self.resume}, so resume there"

    @property
    def resume_uuid(self) -> int | None:
        """The uuid to name in the request that would work; None where nobody can know it."""
        return 0 if self.why.resume_uuid is None and self.resume == 0 else self.why.resume_uuid


class Rollbacks:
    """All rollbacks of a reading."""

    def __init__(
        self,
        streams: Streams,
        snapshots: Snapshots,
        logs: FailoverLogs,
        consumers: Consumers,
        reports: Reports,
    ) -> None:
        """``reports``: what servers said of seqnos."""
        self._streams, self._snapshots, self._logs = streams, snapshots, logs
        is_rolled = streams.answer == w.A_ROLLBACK
        self._consumers = consumers
        is_wanted = np.isin(streams.vbucket, streams.vbucket[is_rolled])
        self._keys = logs.key(streams.connection, streams.vbucket)
        self._purge: dict[int, int] = {}
        self._greatest: dict[tuple[int, int], int] = {}
        self._collect_branches(is_wanted & (self._keys >= 0))
        highs = reports[np.isin(reports.kind, (HIGH, LATEST))]
        highs = highs[np.isin(highs.connection, list(logs.origins))]
        keys = logs.key(highs.connection, highs.vbucket)
        order = np.argsort(keys, kind="stable")
        self._highs, self._high_keys = highs[order], keys[order]
        self._of_stream = GroupedRows(snapshots.stream, len(streams))
        self._found = {
            number: self._explain(number)
            for number in np.flatnonzero(is_rolled & (consumers.streams.of >= 0)).tolist()
        }

    def stream_rollback(self, stream: int) -> Rollback:
        """Returns the rollback that answered a stream request. Raises KeyError for others."""
        return self._found[stream]

    def everything(self) -> Iterator[tuple[int, Rollback]]:
        """Yields every rollback, with the number of the stream whose request it answered."""
        return iter(self._found.items())

    def _explain(self, number: int) -> Rollback:
        row = self._streams[number]
        request = requested_range(row)
        to = plain(row.rollback) if row.rollback != UNREAD_SEQNO else None
        log = self._logs.nearest(number)
        if log is not None and not log.entries:
            log = None
        seen = self._seen(number, request.uuid if request is not None else 0)
        entries = log.entries if log is not None else None
        had_uuid = None
        if request is not None and log is not None and not log.has(request.uuid):
            had_uuid = self._logs.latest_before(number, request.uuid)
            seen = replace(seen, had_uuid=None if had_uuid is None else had_uuid.at.row)
        explanation = explain_rollback(request, to, entries, seen)
        resume = to
        if to is not None and explanation.cause == "leading-consumer":
            received = self._consumers.received_before(number)
            if received is not None and plain(received) < to:
                resume = plain(received)
                explanation = explain_rollback(request, to, entries, seen, resume)
        snapshot = (
            None
            if resume is None
            else self._resumable(number, resume, explanation.resume_uuid, log)
        )
        return Rollback(request, to, explanation, log, had_uuid, seen, resume, snapshot)

    def _collect_branches(self, is_wanted: BoolArray) -> None:
        """Collects what the capture shows of vbuckets of servers: purge seqnos, and how far each
        branch goes. ``is_wanted``: by stream.
        """
        streams, snapshots = self._streams, self._snapshots
        markers = snapshots[is_wanted[snapshots.stream] & (snapshots.layout > UPR_LAYOUT)]
        ends = np.full(len(streams), LEAST)
        np.maximum.at(ends, markers.stream, markers.end)
        np.maximum.at(ends, np.flatnonzero(streams.seen > 0), streams.last[streams.seen > 0])
        purge_markers = markers[(markers.seqnos.present & HAS_PURGE) != 0]
        keys, number = np.unique(self._keys[purge_markers.stream], return_inverse=True)
        purges = np.full(len(keys), LEAST)
        np.maximum.at(purges, number.reshape(-1), purge_markers.seqnos.purge)
        self._purge = dict(zip(keys.tolist(), unbiased(purges).tolist(), strict=True))
        reached = np.flatnonzero(is_wanted & (streams.log >= 0) & (ends > LEAST))
        of_branch = Groups([self._keys, streams.log], reached)
        first = of_branch.rows[of_branch.begins]
        for key, log, end in zip(
            self._keys[first].tolist(),
            streams.log[first].tolist(),
            unbiased(of_branch.greatest(ends)).tolist(),
            strict=True,
        ):
            branch = key, self._logs.entries(log)[0][0]
            self._greatest[branch] = max(self._greatest.get(branch, 0), end)

    def _seen(self, number: int, uuid: int) -> VbucketFacts:
        """Returns what the capture shows of the stream's vbucket on its server; the greatest seqno
        is that of branch ``uuid``.
        """
        key = int(self._keys[number])
        begin, end = np.searchsorted(self._high_keys, [key, key + 1])
        highs = self._highs[begin:end]
        apart_ns = np.abs(highs.place.time - self._streams.answered.time[number])
        nearest = int(apart_ns.argmin()) if len(highs) else -1
        is_known = nearest >= 0 and apart_ns[nearest] <= PATIENCE_NS
        return VbucketFacts(
            self._purge.get(key),
            self._greatest.get((key, uuid)),
            plain(highs.value[nearest]) if is_known else None,
        )

    def _resumable(
        self, number: int, to: int, uuid: int | None, log: KnownLog | None
    ) -> tuple[int, int]:
        """Returns the snapshot to name in a request that starts at ``to``.

        It is the client's own snapshot around ``to``, if the client has its items up to there and
        the server has all of it.
        """
        if uuid is None or log is None:
            return to, to
        branch = next(
            entry_number
            for entry_number, (log_uuid, _) in enumerate(log.entries)
            if log_uuid == uuid
        )
        limit = log.entries[branch - 1][1] if branch else self._seen(number, uuid).greatest
        for earlier in self._consumers.streams.before(number, BACK):
            for snapshot in self._of_stream[earlier][-BACK:][::-1].tolist():
                snapshot_row = self._snapshots[snapshot]
                start = plain(snapshot_row.start)
                end = plain(snapshot_row.end)
                last = plain(snapshot_row.last)
                is_whole = (
                    snapshot_row.layout > UPR_LAYOUT
                    and not snapshot_row.is_tainted
                    and snapshot_row.seen
                )
                if is_whole and start < to < end <= (limit or 0) and last >= to:
                    return start, end
        return to, to

    def records(self, producers: IntArray) -> Records:
        """Returns the table of rollbacks, in order of requests. ``producers``: direction of the
        producer's messages, by number of the connection.
        """
        numbers = np.array(list(self._found), dtype=np.int64)
        rows = self._streams[numbers]
        is_asked = rows.request.is_captured != 0
        rollbacks = list(self._found.values())
        columns: dict[str, ColumnValues] = {
            "connection": NumberColumn(rows.connection),
            "vbucket": NumberColumn(rows.vbucket),
            "sid": NumberColumn(rows.sid, rows.sid >= 0),
            "stream": NumberColumn(rows.ordinal),
            "client": [
                self._consumers.owners[connection].name for connection in rows.connection.tolist()
            ],
            "requested_start": NumberColumn(unbiased(rows.request.start), is_asked),
            "snapshot_start": NumberColumn(
                unbiased(rows.request.snapshot_start), rows.request.has_range != 0
            ),
            "snapshot_end": NumberColumn(
                unbiased(rows.request.snapshot_end), rows.request.has_range != 0
            ),
            "vbucket_uuid": NumberColumn(rows.request.uuid.view(np.uint64), is_asked),
            "request_flags": [
                rollback.asked and list(bit_names(STREAM_FLAGS, rollback.asked.flags))
                for rollback in rollbacks
            ],
            "rollback_seqno": NumberColumn(unbiased(rows.rollback), rows.rollback != UNREAD_SEQNO),
            "failover_log": [
                list(rollback.log.entries) if rollback.log is not None else None
                for rollback in rollbacks
            ],
            "purge_seqno": [rollback.seen.purge_seqno for rollback in rollbacks],
            "cause": [rollback.why.cause for rollback in rollbacks],
            "explanation": [
                w.by_side(rollback.why.text + rollback.alternative, producer)
                for rollback, producer in zip(
                    rollbacks, producers[rows.connection].tolist(), strict=True
                )
            ],
            "resume_start": [rollback.resume for rollback in rollbacks],
            "resume_uuid": [rollback.resume_uuid for rollback in rollbacks],
            "resume_snapshot_start": [
                rollback.snapshot and rollback.snapshot[0] for rollback in rollbacks
            ],
            "resume_snapshot_end": [
                rollback.snapshot and rollback.snapshot[1] for rollback in rollbacks
            ],
            "request_row": NumberColumn(rows.opened.row),
            "answer_row": NumberColumn(rows.answered.row),
            "log_row": [
                rollback.log.at.row if rollback.log is not None else None for rollback in rollbacks
            ],
            "time": NumberColumn(rows.answered.time),
        }
        return Records(ROLLBACKS, columns, len(rollbacks), file=rows.opened.frame >> FILE_SHIFT)


def requested_range(row: Stream) -> RequestedRange | None:
    """Returns what a stream request asked for; None if it was not captured."""
    if not row.request.is_captured:
        return None
    start = plain(row.request.start)
    low = plain(row.request.snapshot_start)
    high = plain(row.request.snapshot_end)
    if row.request.has_range == 0:
        low = high = start
    return RequestedRange(start, low, high, int(row.request.uuid) & _MASK, int(row.request.flags))
