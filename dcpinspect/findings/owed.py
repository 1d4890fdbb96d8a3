"""Rules about what servers say of vbuckets against what their streams deliver: seqnos owed, nothing persisted, slow clients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from dcpinspect.findings.collector import duration
from dcpinspect.findings.context import FROM_LATEST, TO_AN_END, Context, Table, occurrence, plain
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import Rule
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.heard import HighSeqno
from dcpinspect.streams.logs import Origin
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.tracker import COLLECTIONS

_ANSWERS, _SECONDS = 3, 5
"""So many answers over so much time say that nothing is persisted."""
_TOO_SLOW = 4
_MEMORY, _DISK = 0, 1

RULES = (
    Rule(
        "server-owes-seqno",
        "stream",
        "warning",
        "the server told of a higher seqno than an endless stream has, and nothing of the stream comes for 2 s, or ten times the slowest"
        " answer before; a note for clients without collections, which do not see every seqno",
        "the stream asks for some collections only, or has ended; the window is full; it waits for the disk while others are streamed;"
        " after a hole",
        "on the server's side: look at its version and at this vbucket's checkpoints; the client can only reopen the stream",
        reports=("MB-54591",),
    ),
    Rule(
        "never-persisted",
        "stream",
        "warning",
        "three answers to OBSERVE_SEQNO or more, over 5 s or more, say that a vbucket has items and that none is persisted",
        "something was persisted by any answer",
        "an ephemeral bucket persists nothing: a client that waits for persistence (rollback mitigation) delivers nothing; switch that off",
        reports=("Trendyol/go-dcp-kafka#66",),
    ),
    Rule(
        "slow-stream",
        "stream",
        "note",
        "a stream goes on from disk after it was streamed from memory, or ends because the client was too slow",
        "the marker in between may be in what the capture lacks",
        "the consumer is slow, so the server dropped its cursor: look at how fast it acknowledges",
        ("from-disk", "too-slow"),
    ),
)


def findings(context: Context, *, is_whole: bool) -> Iterator[Occurrence]:
    """All occurrences. ``is_whole``: all messages were taken; else nothing is absent."""
    if is_whole:
        yield from _owed(context)
    yield from _not_persisted(context)
    yield from _slow(context)


def _told(context: Context) -> dict[tuple[Origin, int], list[tuple[int, HighSeqno]]]:
    """What servers told of seqnos, with the connections, by vbucket."""
    found: dict[tuple[Origin, int], list[tuple[int, HighSeqno]]] = defaultdict(list)
    for connection, session in context.tracker.conversation.sessions.items():
        for vbucket, heard in session.heard.items():
            if connection in context.logs.origins:
                found[context.logs.origins[connection], vbucket] += [(connection, high) for high in heard.seqnos]
    return found


def _owed(context: Context) -> Iterator[Occurrence]:
    streams, told = context.streams, _told(context)
    newest = {(int(row[s.S_CONNECTION]), int(row[s.S_VBUCKET]), int(row[s.S_SID])): number for number, row in enumerate(streams)}
    for (connection, vbucket, _), number in newest.items():
        row = streams[number]
        link = context.by_number.get(connection)
        answers = told.get((context.logs.origins[connection], vbucket), []) if link is not None else []
        if link is None or not answers or not _is_owing(context, number):
            continue
        last = int(row[s.S_POSITION])
        above = [(when, high) for when, high in answers if high.seqno + s.LEAST > last]
        if not above or max(answers, key=lambda one: one[1].at.row)[1].seqno + s.LEAST <= last:
            continue
        asked_on, high = min(above, key=lambda one: one[1].at.row)
        since = max(high.at.time_ns, int(row[s.S_LATEST + s.AT_TIME]), _busy_until(context, number))
        idle = link.last_ns - since
        if idle <= max(2_000_000_000, 10 * int(context.tracker.state.connections[connection, s.C_SLOWEST])):
            continue
        session = context.session(connection)
        sees_all = COLLECTIONS in (session.features or ()) or session.control("enable_sync_writes") == "true"
        severity: Severity = "warning" if sees_all else "note"
        newest_told = max(one.seqno for _, one in above)
        message = f"server has {newest_told}, sent {plain(last)}, idle {duration(idle / 1e9)}, window open"
        places = (context.said(asked_on, high.at), context.place(row, s.S_LATEST), context.request(number))
        yield occurrence(
            context,
            number,
            "server-owes-seqno",
            severity,
            message,
            places,
            seqnos=(newest_told, plain(last)),
            shared="server has more than it sent, window open",
        )


def _is_owing(context: Context, number: int) -> bool:
    """Whether all that the vbucket has is to come on a stream, and nothing of it can have come unseen."""
    row = context.streams[number]
    connection = int(row[s.S_CONNECTION])
    of, link = context.tracker.state.connections[connection], context.by_number[connection]
    producer = context.producer(connection)
    is_open = w.ACCEPTED <= row[s.S_STATE] <= w.STREAMING and row[s.S_ANSWER] == w.A_ACCEPTED and row[s.S_IN_OSO] < 0
    is_endless = row[s.S_END] == s.GREATEST and not int(row[s.S_FLAGS]) & TO_AN_END & ~FROM_LATEST
    is_whole = of[s.C_LOSSES + producer] == row[s.S_LOSSES] and link.lost_at_end == (None, None)
    return bool(
        is_open
        and is_endless
        and is_whole
        and row[s.S_HAS_POSITION]
        and context.is_filtered(number) is False
        and not context.is_starved(connection)
    )


def _busy_until(context: Context, number: int) -> int:
    """Until when the server may have been busy with other streams before it came to the disk for this one; 0 for no reason to wait."""
    row = context.streams[number]
    snapshot = int(row[s.S_SNAPSHOT])
    waits = not row[s.S_MARKERS] or (snapshot >= 0 and _is_open_disk(context.snapshots[snapshot : snapshot + 1]))
    return int(context.tracker.state.connections[int(row[s.S_CONNECTION]), s.C_PRODUCER_TIME]) if waits else 0


def _is_open_disk(snapshot: Table) -> bool:
    return bool(snapshot[0, s.N_STATE] == w.OPEN and types(snapshot)[0] == _DISK)


def _not_persisted(context: Context) -> Iterator[Occurrence]:
    streams = context.streams
    sessions = context.tracker.conversation.sessions
    origins = context.logs.origins
    persisted = {
        (origins[connection], vbucket)
        for connection, session in sessions.items()
        for vbucket, heard in session.heard.items()
        if heard.not_persisted.is_over and connection in origins
    }
    items: dict[tuple[Origin, int], int] = defaultdict(int)
    for connection, vbucket, count in streams[:, [s.S_CONNECTION, s.S_VBUCKET, s.S_ITEMS]].tolist():
        if connection in origins:
            items[origins[connection], vbucket] += count
    for connection, session in sessions.items():
        for vbucket, heard in session.heard.items():
            said = heard.not_persisted
            if said.count < _ANSWERS or connection not in origins or (origins[connection], vbucket) in persisted:
                continue
            if said.places[-1].time_ns - said.places[0].time_ns < _SECONDS * 10**9:
                continue
            received = items[origins[connection], vbucket]
            message = f"persisted seqno stays 0, {received:,} items received"
            places = tuple(context.said(connection, at) for at in said.places)
            shared = "persisted seqnos stay 0"
            yield Occurrence("never-persisted", "warning", message, connection, places, vbucket, seqnos=(0,), shared=shared)


def _slow(context: Context) -> Iterator[Occurrence]:
    snapshots, streams = context.snapshots, context.streams
    kind, before = types(snapshots), _before(snapshots)
    fell_back = (before >= 0) & (kind[before] == _MEMORY) & (kind == _DISK) & (snapshots[:, s.N_POSITION] == w.LATER)
    for number in context.in_order(fell_back):
        row = snapshots[number]
        last = plain(row[s.N_BEFORE]) if row[s.N_HAS_BEFORE] else plain(row[s.N_START])
        places = (context.marker(number), context.marker(int(before[number])))
        message = f"fell back to disk at {last}"
        shared = "fell back to disk"
        stream = int(row[s.N_STREAM])
        yield occurrence(context, stream, "slow-stream", "note", message, places, cause="from-disk", seqnos=(last,), shared=shared)
    for number in np.flatnonzero((streams[:, s.S_STATE] == w.ENDED) & (streams[:, s.S_REASON] == _TOO_SLOW)).tolist():
        row = streams[number]
        last = plain(row[s.S_LAST]) if row[s.S_SEEN] else plain(row[s.S_START])
        ended = context.place(row, s.S_FINISHED)
        message = f"ended because the client was too slow, at {last}"
        shared = "ended because the client was too slow"
        yield occurrence(context, number, "slow-stream", "note", message, [ended], cause="too-slow", seqnos=(last,), shared=shared)


def _before(snapshots: Table) -> Table:
    """The snapshot before each in its stream, in order of their markers; -1 for the first."""
    in_order = np.lexsort((snapshots[:, s.N_PLACE + s.AT_ROW], snapshots[:, s.N_STREAM]))
    stream = snapshots[in_order, s.N_STREAM]
    found = np.full(len(snapshots), -1, dtype=np.int64)
    found[in_order[1:]] = np.where(stream[1:] == stream[:-1], in_order[:-1], -1)
    return found
