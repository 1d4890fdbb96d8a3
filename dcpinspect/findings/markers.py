"""Rules about snapshots as a whole: where they begin, whether all of them came, and where a client took a stream up again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dcpinspect.findings.context import FROM_LATEST, Context, plain
from dcpinspect.findings.finding import Occurrence, Place
from dcpinspect.findings.rule import Rule
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.tracker import Tables

RULES = (
    Rule(
        "first-marker-start",
        "snapshot",
        "warning",
        "the first marker of a stream starts neither at the start that was asked for nor at its snapshot's; a note where it starts above",
        "requests from the latest seqno; markers without a range; streams whose request was not captured",
        "a server fault: note its version; the client must take the marker's range as it is",
    ),
    Rule(
        "snapshot-incomplete",
        "snapshot",
        "warning",
        "another marker, or a stream end ok, comes before the end of a snapshot; a note where collections are off or unknown",
        "the same range again with history; a replica that merges snapshots; the end that was asked for came; after a hole",
        "a client without collections is not told what it cannot see: negotiate collections, or take the next marker as the end",
        reports=("MB-38733", "MB-50183", "JDCP-175", "couchbase/sync_gateway#5719"),
    ),
)


def findings(context: Context, tables: Tables) -> Iterator[Occurrence]:
    """All occurrences, in the order of the markers."""
    snapshots = context.snapshots
    is_incomplete = np.zeros(len(snapshots), dtype=np.bool_)
    is_incomplete[tables.snapshots.rows_with("state", "incomplete")] = True
    has_range = (snapshots[:, s.N_LAYOUT] != s.UPR_LAYOUT) & (snapshots[:, s.N_LAYOUT] != s.OSO_LAYOUT)
    is_first = (snapshots[:, s.N_POSITION] == w.FIRST) & has_range
    for number in context.in_order(is_first | is_incomplete):
        stream = int(snapshots[number, s.N_STREAM])
        if is_first[number]:
            yield from _first(context, number, stream)
        if is_incomplete[number] and not _is_all(context.streams[stream]):
            yield _incomplete(context, number, stream)
    yield from _resumed(context, tables)


def _of(context: Context, stream: int, rule: str, severity: Severity, message: str, *places: Place, seqnos: tuple[int, ...]) -> Occurrence:
    row = context.streams[stream]
    sid = int(row[s.S_SID])
    return Occurrence(
        rule, severity, message, int(row[s.S_CONNECTION]), places, int(row[s.S_VBUCKET]), sid if sid >= 0 else None, seqnos=seqnos
    )


def _first(context: Context, number: int, stream: int) -> Iterator[Occurrence]:
    asked, row = context.streams[stream], context.snapshots[number]
    if asked[s.S_FORM] != 1 or int(asked[s.S_FLAGS]) & FROM_LATEST:
        return
    start, low, high = plain(row[s.N_START]), plain(asked[s.S_SNAPSHOT_START]), plain(asked[s.S_START])
    if start in (low, high):
        return
    expected = f"{high}" if low == high else f"{low} or {high}"
    places = [place for place in (context.marker(number), context.request(stream)) if place is not None]
    message = f"first snapshot starts at {start}; {expected} expected"
    yield _of(context, stream, "first-marker-start", "note" if start > high else "warning", message, *places, seqnos=(start, low, high))


def _is_all(stream: npt.NDArray[np.int64]) -> bool:
    """Whether a stream has brought what was asked for, although its last snapshot goes further."""
    return bool(stream[s.S_FORM] > 0 and stream[s.S_REASON] == 0 and stream[s.S_SEEN] > 0 and stream[s.S_LAST] >= stream[s.S_END])


def _incomplete(context: Context, number: int, stream: int) -> Occurrence:
    row = context.snapshots[number]
    session = context.session(int(context.streams[stream, s.S_CONNECTION]))
    is_told = "Collections" in (session.features or ()) or session.control("enable_sync_writes") == "true"
    end = plain(row[s.N_END])
    reached = f"{plain(row[s.N_REACHED])} of {end}" if row[s.N_REACHED] > s.LEAST else f"nothing of the snapshot up to {end}"
    later = np.flatnonzero((context.snapshots[:, s.N_STREAM] == stream) & (context.snapshots[:, s.N_INDEX] == row[s.N_INDEX] + 1))
    places = [context.marker(number), *(context.marker(int(one)) for one in later[:1])]
    came = "the next marker came" if len(later) else "the stream ended"
    message = f"{reached} when {came}: no SeqnoAdvanced"
    return _of(context, stream, "snapshot-incomplete", "warning" if is_told else "note", message, *places, seqnos=(end,))


def _resumed(context: Context, tables: Tables) -> Iterator[Occurrence]:
    """Gaps between two streams of a client."""
    gaps = tables.gaps.take(tables.gaps.rows_with("cause", "resumed"))
    names = ("connection", "vbucket", "sid", "stream", "after_seqno", "before_seqno", "rows")
    streams = context.streams
    for connection, vbucket, sid, ordinal, after, before, rows in zip(*(gaps.values(name) for name in names), strict=True):
        is_it = (streams[:, s.S_CONNECTION] == connection) & (streams[:, s.S_VBUCKET] == vbucket) & (streams[:, s.S_ORDINAL] == ordinal)
        number = int(np.flatnonzero(is_it & (streams[:, s.S_SID] == (-1 if sid is None else sid)))[0])
        old = int(np.flatnonzero(streams[:, s.S_AT + s.AT_ROW] == rows[0])[0])
        places = [place for place in (context.request(number), context.place(streams[old], s.S_AT)) if place is not None]
        start = before - 1
        message = f"resumed at {start}, received only to {after}: {start - after} seqnos never delivered"
        yield _of(context, number, "resume-skipped", "warning", message, *places, seqnos=(start, after))
