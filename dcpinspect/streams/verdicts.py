"""The table of streams: what was asked and answered, what came, and the verdict of each stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import STREAM_FLAGS
from dcpinspect.protocol.statuses import status_name
from dcpinspect.streams import transitions as t
from dcpinspect.streams import words as w
from dcpinspect.streams.collections import KnownNames
from dcpinspect.streams.failover_branches import Branches
from dcpinspect.streams.gaps import Amounts, as_integers
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.record_codes import POSITION_UNSURE
from dcpinspect.streams.records import CUT_VALUE, FILE_SHIFT, UNREAD_SEQNO, Snapshots, Streams
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.state import KnownTables, unbiased
from dcpinspect.streams.table_columns import STREAMS
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.tables.record_tables import ColumnValues, LazyColumn, Records, WordColumn

PATIENCE_NS = 2_000_000_000
"""Something absent is reported after this time, or after ten times the slowest answer seen before,
if that is longer.
"""
_LONG = 10**15
"""Longer times count as this one, so that ten times as long still fits 64 bits."""


@dataclass(frozen=True, slots=True)
class Ends:
    """What the end of each connection tells of its streams; arrays have an element a stream."""

    is_closed: BoolArray
    """Whether the stream's connection has ended."""
    is_lost: BoolArray
    """Whether something after the stream's latest message was not captured, up to the end of its
    connection or of the capture.
    """
    is_starved: BoolArray
    """Whether the window of the stream's connection is full."""
    is_shut: BoolArray
    """Whether the consumer's TCP window has been 0 up to now."""
    now: IntArray
    """Time of the latest packet on the stream's connection."""

    @staticmethod
    def from_tables(
        tables: KnownTables, links: Mapping[int, TcpConnection], starved: Mapping[int, bool]
    ) -> Ends:
        """Returns the ends of streams; ``starved``: whether each connection's window is full."""
        connections, streams, losses = tables.connections, tables.streams, tables.losses
        number = streams.connection
        closed = np.zeros(len(connections), dtype=np.bool_)
        at_end = np.zeros((len(connections), 2), dtype=np.bool_)
        now = np.zeros(len(connections), dtype=np.int64)
        shut = np.zeros((len(connections), 2), dtype=np.bool_)
        for link in links.values():
            if link.number < len(connections):
                at_end[link.number] = [span is not None for span in link.lost_at_end]
                now[link.number] = link.last_ns
                closed[link.number] = bool(link.closed)
                shut[link.number] = link.are_shut
        producer = np.maximum(connections.producer[number], 0)
        lost = (connections.losses.array[number, producer] != streams.losses) | at_end[
            number, producer
        ]
        # this stream may be the one that was closed
        lost |= connections.closed_time[number] >= streams.latest.time
        # a loss may be known before the request is read whose answer it hides
        over = np.zeros((len(connections), 2), dtype=np.int64)
        np.maximum.at(over, (losses.connection, losses.direction), losses.after_time)
        lost |= (streams.state == t.REQUESTED) & (over[number, producer] > streams.opened.time)
        full = np.zeros(len(connections), dtype=np.bool_)
        full[[connection for connection, is_full in starved.items() if is_full]] = True
        return Ends(closed[number], lost, full[number], shut[number, 1 - producer], now[number])


def is_over(streams: Streams, ends: Ends) -> BoolArray:
    """Returns a mask of streams whose messages can no longer come."""
    state = streams.state
    return np.asarray(
        np.isin(state, (t.ENDED, t.DRAINING, t.LEFT)) | ends.is_closed, dtype=np.bool_
    )


def are_unopened(streams: Streams) -> BoolArray:
    """Returns a mask of what stands for vbuckets for which nobody opened a stream."""
    mask: BoolArray = (streams.state == t.NOT_ACCEPTED) & (streams.answer == w.A_UNKNOWN)
    return mask


def are_never_open(streams: Streams) -> BoolArray:
    """Returns a mask of requests that opened no stream, and of what ``are_unopened`` has."""
    mask: BoolArray = np.isin(streams.answer, (w.A_REFUSED, w.A_ROLLBACK))
    return mask | are_unopened(streams)


def are_granted(streams: Streams) -> BoolArray:
    """Returns a mask of streams that the server granted: it said so, or sent something on them."""
    mask: BoolArray = (
        (streams.answer == w.A_ACCEPTED) | (streams.seen > 0) | (streams.snapshots_begun > 0)
    )
    return mask


def answers(streams: Streams, ends: Ends) -> IntArray:
    """Returns the number of each stream's answer. A request without one counts as unanswered if
    nothing could hide the answer.
    """
    answer_codes = streams.answer.copy()
    is_asked = (streams.request.is_captured != 0) | (streams.request.filter == CUT_VALUE)
    waits = (streams.state == t.REQUESTED) & is_asked
    answer_codes[waits & ~ends.is_lost] = w.A_UNANSWERED
    return answer_codes


def verdicts(
    streams: Streams, snapshots: Snapshots, answer: IntArray, ends: Ends, behind: BoolArray
) -> IntArray:
    """Returns the number of each stream's verdict; ``behind``: mask of streams that have waited for
    long, from ``waits``.
    """
    state, snapshot = streams.state, streams.snapshot
    table = snapshots if len(snapshots) else Snapshots.zeros(1)
    is_marked = snapshot >= 0
    current_state = table.state[snapshot]
    runs = is_marked & (current_state == t.OPEN)
    from_disk = runs & (types(table)[snapshot] == 1)
    in_oso = streams.in_oso >= 0
    patience = np.maximum(PATIENCE_NS, 10 * np.minimum(streams.patience, _LONG))
    waited = ends.now - streams.opened.time > patience
    unanswered = answer == w.A_UNANSWERED
    never = unanswered & (waited | ends.is_closed)
    # what another stream replaced may have been refused
    is_open = np.where(state == t.LEFT, are_granted(streams), state != t.REQUESTED)
    is_ended = np.isin(state, (t.ENDED, t.DRAINING)) | (ends.is_closed & is_open)
    # an unreadable message may have been the last one of its snapshot
    unread = (
        runs
        & (streams.doubt & POSITION_UNSURE != 0)
        & (streams.unreadable > table.place.row[snapshot])
    )
    unmarked = (streams.request.is_captured == 0) & (streams.snapshots_begun == 0)
    unknown = unmarked | unread | ends.is_lost | (state == t.LEFT) | (state == t.REQUESTED)
    complete = (is_marked & np.isin(current_state, (t.COMPLETE, t.COMPLETE_ADVANCED))) | (
        ~is_marked & (streams.snapshots_begun > 0) & (streams.lost_since_marker == 0)
    )
    silent = (
        np.isin(state, (t.ACCEPTED, t.CLOSING))
        & (streams.snapshots_begun == 0)
        & (streams.seen == 0)
    )
    order = [
        are_unopened(streams),
        never,
        answer == w.A_REFUSED,
        answer == w.A_ROLLBACK,
        is_ended,
        unknown,
        ends.is_starved,
        ends.is_shut,
        behind,
        from_disk | in_oso,
        runs,
        complete,
        silent,
    ]
    fallback = w.STREAM_VERDICTS.index("unknown-capture")
    return np.select(order, list(range(len(order))), default=fallback)


def reasons(streams: Streams, verdict: IntArray, ends: Ends) -> WordColumn:
    """Returns why each stream ended: unknown if a hole may hide it; null if it did not end."""
    ended = w.STREAM_VERDICTS.index("ended")
    reason = streams.reason.copy()
    by_connection = (
        (verdict == ended)
        & (reason < 0)
        & ends.is_closed
        & ~ends.is_lost
        & ~np.isin(streams.state, (t.ENDED, t.LEFT))
    )
    reason[by_connection] = w.CONNECTION_CLOSED
    reason[verdict != ended] = -1
    # reason 9 on the wire means nothing; in the table, it means that the connection ended
    is_word = (reason < w.CONNECTION_CLOSED) | by_connection
    other_codes, number = np.unique(reason[~is_word], return_inverse=True)
    codes = np.where(is_word, np.maximum(reason, -1), 0)
    codes[~is_word] = len(w.END_REASONS) + number.reshape(-1)
    codes[(verdict == ended) & (codes < 0)] = w.END_REASONS.index("unknown")
    return WordColumn(codes, [*w.END_REASONS, *map(str, other_codes.tolist())])


@dataclass(frozen=True, slots=True)
class StreamTexts:
    """What requests and answers of streams said besides numbers."""

    filters: Sequence[dict[str, Any] | None]
    logs: Sequence[bytes]
    names: KnownNames


def failover_entries(log: bytes) -> list[tuple[int, int]]:
    """Returns (uuid, seqno) of each branch of a failover log, newest first."""
    numbers = np.frombuffer(log[: len(log) // 16 * 16], ">u8").tolist()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _logs_array(logs: Sequence[bytes], numbers: IntArray) -> Any:
    """Returns failover logs by number, -1 for none, as an Arrow array."""
    import pyarrow as pa  # deferred: not everyone who tracks streams exports them

    from dcpinspect.tables.arrow_types import hex64

    used, code = np.unique(numbers, return_inverse=True)
    branches = Branches.from_logs([logs[log] if log >= 0 else b"" for log in used.tolist()])
    entries = pa.StructArray.from_arrays(
        [hex64(NumberColumn(branches.uuid)), pa.array(unbiased(branches.seqno))], ["uuid", "seqno"]
    )
    log_array = pa.ListArray.from_arrays(pa.array(branches.begins, pa.int32()), entries)
    return log_array.take(pa.array(code.reshape(-1), mask=numbers < 0))


def _request_texts(streams: Streams, texts: StreamTexts) -> WordColumn:
    """Returns what requests name as collections or scope, one text for each different request: many
    vbuckets are asked for the same.
    """
    has_filter = streams.request.filter >= 0
    width = len(texts.filters) + 1
    pairs, inverse = np.unique(
        streams.connection[has_filter] * width + streams.request.filter[has_filter],
        return_inverse=True,
    )
    numbers = np.full(len(streams), -1)
    numbers[has_filter] = inverse
    return WordColumn(
        numbers,
        [
            texts.names.requested_names(pair // width, texts.filters[pair % width])
            for pair in pairs.tolist()
        ],
    )


def stream_records(
    streams: Streams,
    snapshots: Snapshots,
    amounts: tuple[IntArray, Amounts],
    texts: StreamTexts,
    ends: Ends,
    behind: BoolArray,
) -> Records:
    """Returns the table of streams; ``amounts``: snapshots of each stream, and gaps of each stream;
    ``behind``: as in ``verdicts``.
    """
    snapshot_counts, gaps = amounts
    answer = answers(streams, ends)
    verdict = verdicts(streams, snapshots, answer, ends, behind)
    is_asked, asked_range = streams.request.is_captured != 0, streams.request.has_range != 0
    flags, flag_number = np.unique(streams.request.flags, return_inverse=True)
    flag_number = np.where(is_asked, flag_number.reshape(-1), -1)
    status = streams.status
    statuses, status_number = np.unique(status, return_inverse=True)
    rolled = (streams.answer == w.A_ROLLBACK) & (streams.rollback != UNREAD_SEQNO)
    has_end = streams.finished.row > 0
    has_seqno = streams.seen > 0
    logs = streams.log
    columns: dict[str, ColumnValues] = {
        "connection": NumberColumn(streams.connection),
        "vbucket": NumberColumn(streams.vbucket),
        "sid": NumberColumn(streams.sid, streams.sid >= 0),
        "stream": NumberColumn(streams.ordinal),
        "opaque": NumberColumn(streams.opaque),
        "requested_start": NumberColumn(unbiased(streams.request.start), is_asked),
        "requested_end": NumberColumn(unbiased(streams.request.end), is_asked),
        "vbucket_uuid": NumberColumn(streams.request.uuid.view(np.uint64), is_asked),
        "snapshot_start": NumberColumn(unbiased(streams.request.snapshot_start), asked_range),
        "snapshot_end": NumberColumn(unbiased(streams.request.snapshot_end), asked_range),
        "request_flags": WordColumn(
            flag_number, [list(bit_names(STREAM_FLAGS, flag)) for flag in flags.tolist()]
        ),
        "filter": WordColumn(np.maximum(streams.request.filter, -1), texts.filters),
        "collections": _request_texts(streams, texts),
        "answer": WordColumn(answer, w.ANSWERS),
        "status": WordColumn(
            np.where(status < 0, -1, status_number.reshape(-1)),
            [status_name(max(0, code)) for code in statuses.tolist()],
        ),
        "rollback_seqno": NumberColumn(unbiased(streams.rollback), rolled),
        "failover_log": LazyColumn(
            len(streams),
            lambda rows: [
                failover_entries(texts.logs[log]) if log >= 0 else None
                for log in logs[rows].tolist()
            ],
            lambda rows: _logs_array(texts.logs, logs[rows]),
        ),
        "verdict": WordColumn(verdict, w.STREAM_VERDICTS),
        "end_reason": reasons(streams, verdict, ends),
        "items": NumberColumn(streams.items),
        "cached_items": NumberColumn(streams.cached_items, streams.cached_items > 0),
        "first_seqno": NumberColumn(unbiased(streams.first), has_seqno),
        "last_seqno": NumberColumn(unbiased(streams.last), has_seqno),
        "snapshots": NumberColumn(snapshot_counts),
        "gaps": NumberColumn(gaps[0].sum(axis=1)),
        "gap_seqnos": NumberColumn(as_integers(gaps[1].sum(axis=1))),
        "open_row": NumberColumn(streams.opened.row),
        "end_row": NumberColumn(streams.finished.row, has_end),
        "first_time": NumberColumn(streams.opened.time),
        "last_time": NumberColumn(streams.latest.time),
        "findings": WordColumn(np.full(len(streams), -1), ()),  # this layer knows no findings
    }
    return Records(STREAMS, columns, len(streams), file=streams.opened.frame >> FILE_SHIFT)


def number_streams(streams: Streams) -> IntArray | None:
    """Returns the numbers of the streams in order of their first rows, or None if they are in this
    order.

    A request that is read late may open its stream, or prove to be the request of another stream,
    after the messages that followed it. On connections with such requests, the ordinals are set to
    match.
    """
    open_row, connection = streams.opened.row, streams.connection
    if (open_row[1:] >= open_row[:-1]).all():
        return None
    by_connection = np.argsort(connection, kind="stable")
    falls = (np.diff(open_row[by_connection]) < 0) & (np.diff(connection[by_connection]) == 0)
    late = np.isin(connection, connection[by_connection][1:][falls])
    order = np.lexsort((open_row, streams.opened.time, connection))
    order = order[late[order]]
    groups = Groups((streams.connection, streams.vbucket, streams.sid), order)
    streams.ordinal[groups.rows] = 1 + np.arange(len(order)) - groups.begins.repeat(groups.counts)
    return np.argsort(open_row, kind="stable")
