"""Rules about snapshots as a whole: where they begin, and whether everything in them came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.context import Context, occurrence, plain, reached
from dcpinspect.findings.finding import Occurrence, Whose
from dcpinspect.findings.rule import SIDES, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import DISK, FROM_LATEST
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.versions import SEQNO_ADVANCED
from dcpinspect.streams import words as w
from dcpinspect.streams.record_codes import OSO_LAYOUT, UPR_LAYOUT
from dcpinspect.streams.records import LEAST, Snapshots, Stream, Streams
from dcpinspect.streams.transitions import CUT, INCOMPLETE

NOT_TOLD, HIDDEN = "not-told", "hidden"
"""Causes of incomplete snapshots: the server owes their ends, or may hide them in silence."""

RULES = rules(
    f"""
    first-marker-start snapshot warning producer
        fires: the first marker of a stream starts neither at the start seqno of the request nor at
            the start of its snapshot; a note if it starts above
        unless: requests from the latest seqno; markers without a range; streams whose request was
            not captured
        next: report it with the producer's version; a consumer can take the marker's range as it is
        cost: wrong-data
        in_stream: yes
    snapshot-incomplete snapshot warning
        fires: another marker, or a stream end with reason ok, comes before the end of a snapshot,
            or such a stream end before that of an OSO snapshot; a note if collections are off or
            unknown, or the server is older than 7.0: then it does not say what it hides at the end;
            unknown whose, if the server may be older, and a note if the stream request was not
            captured, either
        unless: a second marker with the same range and history; a replica that merges snapshots;
            streams that reached their requested end; after a hole
        next: report it with the producer's version, because with collections it has to send a
            SeqnoAdvanced from 7.0 on; a client can take the snapshot as ended
        causes: {NOT_TOLD} {HIDDEN}
        reports: MB-38733, MB-50183, MB-73354, JDCP-175, couchbase/sync_gateway#5719
        whose: normal for {HIDDEN}
        cost: vbucket, has an incomplete snapshot, have an incomplete snapshot, loss
        in_stream: yes
        fields: end_seqno
    """
)

_NEXT = "a consumer can take the snapshot as ended"
_OSO = (
    "report it with the producer's version; a consumer cannot tell which seqnos it lacks, and has to "
    "ask again from where it was before this snapshot"
)
_BARE = (
    "operators have nothing to do; a consumer can take the snapshot as ended, or negotiate "
    "collections: without them, the producer does not say which seqnos the consumer cannot see"
)
_UNKNOWN = (
    f"{_NEXT}; the capture does not show whether collections are on, and without them the "
    "producer does not say what is hidden"
)
_SERVER = (
    f"{_NEXT}; the producer owes the last seqno or, from 7.0 on, a SeqnoAdvanced; report it with "
    "the producer's version, the consumer is not at fault"
)
_OLD = (
    f"{_NEXT}; producers before 7.0, as this one, do not say which seqnos the consumer cannot see"
)
_UNSEEN = (
    f"{_NEXT}; the capture has not the stream request, nor anything that tells whether the producer "
    "is older than 7.0: then it does not say which seqnos the consumer cannot see"
)
_KNOWN = (
    f"{_NEXT}; the consumer is not at fault. Servers 7.0.2 to 7.2.9, 7.6.0 to 7.6.12 and 8.0.0 to "
    "8.0.2 leave the SeqnoAdvanced out of filtered snapshots if an item of another collection "
    "follows a prepare or abort (MB-73354). Report it for other versions"
)
"""By kv_engine's active_stream.cc in those versions; the fix is of August 2026."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, in the order of the markers."""
    context, tables = finished.context, finished.tables
    snapshots, streams = context.snapshots, context.streams
    is_incomplete = tables.seen.snapshot_states == INCOMPLETE
    has_range = (snapshots.layout != UPR_LAYOUT) & (snapshots.layout != OSO_LAYOUT)
    is_first = (snapshots.position == w.FIRST) & has_range & _starts_elsewhere(snapshots, streams)
    is_unended = (
        (tables.seen.snapshot_states == CUT)
        & (snapshots.layout == OSO_LAYOUT)
        & (snapshots.closed_row == streams.finished.row[snapshots.stream])
        & (streams.reason[snapshots.stream] == 0)
    )
    after = _followers(snapshots) if is_incomplete.any() else None
    for number in context.in_order(is_first | is_incomplete | is_unended):
        stream = snapshots[number].stream
        if is_unended[number]:
            yield _unended(context, number, stream)
        if is_first[number]:
            yield from _first(context, number, stream)
        if after is not None and is_incomplete[number] and not _is_all(streams[stream]):
            yield _incomplete(context, number, int(after[number]))


def _starts_elsewhere(snapshots: Snapshots, streams: Streams) -> BoolArray:
    """Returns a mask of snapshots that do not start where their streams were asked to."""
    request, stream = streams.request, snapshots.stream
    is_range = (request.has_range != 0) & (request.flags & FROM_LATEST == 0)
    mask: BoolArray = (
        is_range[stream]
        & (snapshots.start != request.snapshot_start[stream])
        & (snapshots.start != request.start[stream])
    )
    return mask


def _first(context: Context, number: int, stream: int) -> Iterator[Occurrence]:
    stream_row, row = context.streams[stream], context.snapshots[number]
    connection, asked_ns = stream_row.connection, stream_row.opened.time
    if context.may_lack(connection, context.producer(connection), asked_ns, row.place.time):
        return  # a lost answer may be its own; this one is to another request with the same opaque
    start = plain(row.start)
    low = plain(stream_row.request.snapshot_start)
    high = plain(stream_row.request.start)
    expected = f"{high}" if low == high else f"{low} or {high}"
    evidence = (context.marker(number), context.request(stream))
    message = f"first snapshot starts at {start}; {expected} expected"
    severity: Severity = "note" if start > high else "warning"
    seqnos = tuple(dict.fromkeys((start, low, high)))
    yield occurrence(
        context, stream, "first-marker-start", message, evidence, seqnos=seqnos, severity=severity
    )


def _is_all(stream: Stream) -> bool:
    """Returns whether a stream has brought everything that was asked for, although its last
    snapshot goes further.
    """
    return (
        stream.request.is_captured != 0
        and stream.reason == 0
        and stream.seen > 0
        and stream.last >= stream.request.end
    )


def _followers(snapshots: Snapshots) -> RowNumbers:
    """Returns, for each snapshot, the next one of its stream, -1 for none."""
    order = np.lexsort((snapshots.index, snapshots.stream))
    before, then = order[:-1], order[1:]
    follows = (snapshots.stream[then] == snapshots.stream[before]) & (
        snapshots.index[then] == snapshots.index[before] + 1
    )
    after = np.full(len(snapshots), -1, np.int64)
    after[before[follows]] = then[follows]
    return after


def _incomplete(context: Context, number: int, after: int) -> Occurrence:
    """Returns the occurrence of an incomplete snapshot; ``after``: the next snapshot of its stream,
    -1 for none.
    """
    row = context.snapshots[number]
    stream = row.stream
    connection = context.streams[stream].connection
    sees_all = _has_sync_writes(context, stream) and context.is_filtered(stream) is False
    has_advanced = context.versions(connection).has(SEQNO_ADVANCED)
    is_blind = has_advanced is None and not context.streams[stream].request.is_captured
    tells_hidden = (not is_blind and context.tells_hidden(connection)) or sees_all
    is_owed = tells_hidden and (sees_all or has_advanced)
    end = plain(row.end)
    if row.reached > LEAST:
        came_to, first = (
            f"the snapshot had come to seqno {plain(row.reached)} of {end}",
            plain(row.reached) + 1,
        )
    else:
        before = plain(row.before) + 1 if row.has_before else 0
        came_to, first = (
            f"nothing of the snapshot up to {end} had come",
            max(plain(row.start), before),
        )
    evidence = [context.marker(number), *([context.marker(after)] if after >= 0 else [])]
    came = "the next marker came" if after >= 0 else "the stream ended"
    missing = f"seqno {end}" if first >= end else f"seqnos {first}–{end}"
    nor = ", nor a SeqnoAdvanced" if tells_hidden else ""
    message = f"{came_to} when {came}: {missing} did not come{nor}"
    next_ = _after_incomplete(context, number, stream, tells_hidden=tells_hidden)
    shared = f"the last seqnos of a snapshot had not come when {came}{nor}"
    seqnos = tuple(dict.fromkeys((min(first, end), end)))
    whose: Whose = SIDES[context.producer(connection)] if is_owed else "unknown"
    incomplete = occurrence(
        context,
        stream,
        "snapshot-incomplete",
        message,
        evidence,
        cause=NOT_TOLD if tells_hidden else HIDDEN,
        next_=next_,
        seqnos=seqnos,
        shared=shared,
        severity="warning" if tells_hidden else "note",
    )
    return replace(incomplete, whose=whose)


def _unended(context: Context, number: int, stream: int) -> Occurrence:
    """Returns the occurrence of an OSO snapshot that a stream end with reason ok cuts short."""
    row = context.streams[stream]
    message = "the stream ended ok inside an OSO snapshot, whose end did not come"
    evidence = (
        context.stream_place(row, row.finished),
        context.marker(number),
        context.request(stream),
    )
    unended = occurrence(
        context,
        stream,
        "snapshot-incomplete",
        message,
        evidence,
        cause=NOT_TOLD,
        next_=_OSO,
        seqnos=reached(row),
        shared=message,
    )
    return replace(unended, whose=SIDES[context.producer(row.connection)])


def _has_sync_writes(context: Context, stream: int) -> bool:
    return (
        context.session(context.streams[stream].connection).control("enable_sync_writes") == "true"
    )


def _after_incomplete(context: Context, number: int, stream: int, *, tells_hidden: bool) -> str:
    """Returns what to do about an incomplete snapshot, by what is known of the client. ``tells_hidden``:
    the server owes the end.
    """
    has_collections = context.has_collections(context.streams[stream].connection)
    if has_collections and not tells_hidden:
        is_old = context.tells_hidden(context.streams[stream].connection) is False
        return _OLD if is_old else _UNSEEN
    if has_collections:
        is_memory = not context.snapshots[number].flags & DISK
        is_known = (
            is_memory and context.is_filtered(stream) and not _has_sync_writes(context, stream)
        )
        return _KNOWN if is_known else _SERVER
    return _UNKNOWN if has_collections is None else _BARE


RULE_SET = RuleSet(RULES, findings=findings)
