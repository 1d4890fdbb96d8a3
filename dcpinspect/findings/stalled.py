"""The rule about streams that stop inside a snapshot, while their connection goes on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context, occurrence, plain, reached
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.flags import ACTIVE_ONLY, SKIP_DELETES
from dcpinspect.streams import words as w
from dcpinspect.streams.records import LEAST
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.transitions import ACCEPTED, COMPLETE, COMPLETE_ADVANCED, OPEN, STREAMING

STALLED_NS = 30_000_000_000
"""A stream that stops for this time inside a snapshot counts as stalled: what a snapshot has is
ready to be sent, or is read from disk.
"""
_MEMORY, _DISK, _OUT_OF_ORDER = range(3)

RULES = rules(
    """
    snapshot-stalled snapshot warning producer
        fires: a stream stops inside a snapshot for more than 30 s, while the producer sends other
            messages on the connection; a note for consumers without collections, and of producers
            before 7.0, which do not say which seqnos they hide
        unless: streams of some collections only, except in OSO snapshots; replicas; a full window
            of DCP or TCP, or an unknown one; a backfill whose turn may come after those of other
            vbuckets, or which leaves out deletions; streams that ended or reached their requested
            end; after a hole, which may hide that the vbucket is a replica
        next: on the producer, look at this stream in 'cbstats dcp'; a consumer can only reopen it,
            from the last seqno that it received
        causes: memory disk oso
        needs: flow
        cost: vbucket, stands still inside a snapshot, stand still inside a snapshot, lasts
    """
)

_DISK_ADVICE = (
    "on the producer, look at this stream's backfill in 'cbstats dcp', at the memory that is "
    "in use, and at how fast the disk is; a consumer can only reopen the stream, from "
)
_LAST, _BEFORE = "the last seqno that it received", "where it was before this snapshot"


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, in the order of the streams."""
    if not finished.is_whole:
        return
    context = finished.context
    streams = context.streams
    snapshots = context.snapshots
    connections = context.tracker.state.connections
    current = np.maximum(streams.snapshot, streams.in_oso)
    runs = (
        (streams.answer == w.A_ACCEPTED)
        & (streams.state >= ACCEPTED)
        & (streams.state <= STREAMING)
        & (current >= 0)
    )
    runs[runs] = snapshots.state[current[runs]] == OPEN
    producer = np.maximum(connections.producer[streams.connection], 0)
    # noops, and the messages of other vbuckets, show up to when the server could have sent more
    until_ns = connections.time.array[streams.connection, producer]
    turns = _BackfillTurns(context)
    for number in np.flatnonzero(runs & (until_ns - streams.latest.time > STALLED_NS)).tolist():
        stalled = _stalled(context, turns, number, int(current[number]), int(until_ns[number]))
        if stalled is not None:
            yield stalled


class _BackfillTurns:
    """Until when the backfills of each connection were sent: a connection has them take turns."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def latest_ns(self) -> IntArray:
        """By connection: when a message from disk came last, as far as is known; 0 for never."""
        streams, snapshots = self._context.streams, self._context.snapshots
        kind = types(snapshots)
        from_disk = np.flatnonzero((kind == _DISK) | (kind == _OUT_OF_ORDER))
        stream = snapshots.stream[from_disk]
        is_complete = np.isin(snapshots.state[from_disk], (COMPLETE, COMPLETE_ADVANCED))
        # if it is not complete, its latest message is no later than its stream's
        until_ns = np.where(
            is_complete, snapshots.reached_time[from_disk], streams.latest.time[stream]
        )
        latest = np.zeros(len(self._context.tracker.state.connections), dtype=np.int64)
        np.maximum.at(latest, streams.connection[stream], until_ns)
        return latest


def _stalled(
    context: Context, turns: _BackfillTurns, number: int, current: int, until_ns: int
) -> Occurrence | None:
    """Returns the occurrence of a stream if it stands still; ``current``: its snapshot;
    ``until_ns``: time of the server's latest message on its connection.
    """
    stream = context.streams[number]
    connection, snapshot = stream.connection, context.snapshots[current]
    since_ns, kind = _since_ns(context, number), int(types(context.snapshots[[current]])[0])
    is_oso = kind == _OUT_OF_ORDER  # it has no seqno of its end, and always says where it ends
    tells_hidden = is_oso or context.tells_hidden(connection)
    is_read = not snapshot.is_tainted and not stream.lost_since_marker
    if since_ns is None or tells_hidden is None or kind > _OUT_OF_ORDER or not is_read:
        return None
    end_seqno = stream.request.end if is_oso else min(stream.request.end, snapshot.end)
    if stream.has_position and stream.position >= end_seqno:
        return None  # it has all that was asked for, or the snapshot lies behind what came
    if (
        (context.is_filtered(number) is not False and not is_oso)
        or context.tables.seen.replicas[number]
        or not context.runs_whole(number)
    ):
        return None
    if not stream.request.flags & ACTIVE_ONLY and not context.sight.is_complete(connection):
        return None  # the server may have said that the vbucket is a replica
    if kind != _MEMORY:
        flags = context.session(connection).open_flags
        if flags is None or flags & SKIP_DELETES:
            return None  # it may be reading deletions, which are not sent
        since_ns = max(since_ns, int(turns.latest_ns[connection]))
    if until_ns - since_ns <= STALLED_NS:
        return None
    idle = duration(until_ns - since_ns)
    end, inside = plain(snapshot.end), plain(snapshot.reached)
    seqnos: tuple[int, ...] = (end,)
    where = f"before the first item of a snapshot up to {end}"
    if is_oso:
        where, seqnos = "in an OSO snapshot", reached(stream)
    elif snapshot.reached > LEAST:
        where, seqnos = f"at {inside} of {end}", (inside, end)
    return occurrence(
        context,
        number,
        "snapshot-stalled",
        f"stopped {where}, idle {idle}, connection alive",
        (
            context.stream_place(stream, stream.latest),
            context.marker(current),
            context.request(number),
        ),
        cause=w.SNAPSHOT_TYPES[kind],
        next_=_DISK_ADVICE + (_BEFORE if is_oso else _LAST) if kind != _MEMORY else None,
        seqnos=seqnos,
        shared="stopped inside a snapshot, connection alive",
        is_over=context.is_brought(number, 1 if is_oso else end),
        severity="warning" if tells_hidden else "note",
    )


def _since_ns(context: Context, number: int) -> int | None:
    """Returns since when a stream waits although the windows of DCP and of TCP have room; None if
    one has none, or nobody knows.
    """
    stream = context.streams[number]
    connection, flow = stream.connection, context.tracker.flow
    used = context.tables.seen.flows[connection]
    if (
        flow is None
        or used.window is None
        or (used.window and used.outstanding is None)
        or used.is_full
    ):
        return None
    watched = flow.watched.get(connection)
    shut = context.by_number[connection].shut[1 - context.producer(connection)]
    stall = watched.stalls.last if watched is not None else None
    if shut is not None and not shut.is_over:
        return None
    until = (
        stall.at.time_ns + stall.time_ns if stall is not None else 0,
        shut.spells[-1].until_ns if shut is not None else 0,
    )
    return max(stream.latest.time, *until)


RULE_SET = RuleSet(RULES, findings=findings)
