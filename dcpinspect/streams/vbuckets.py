"""The table of vbuckets: one consumer's whole story of each, over all its connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import words as w
from dcpinspect.streams.gaps import Amounts, as_integers
from dcpinspect.streams.grouping import VBUCKET_BITS, Groups, NameNumbers
from dcpinspect.streams.records import FILE_SHIFT, GREATEST, Streams
from dcpinspect.streams.server_reports import LATEST, Reports
from dcpinspect.streams.state import KnownTables, unbiased
from dcpinspect.streams.table_columns import VBUCKETS
from dcpinspect.streams.verdicts import are_granted, are_unopened
from dcpinspect.streams.waits import Waits
from dcpinspect.tables.record_tables import ColumnValues, LazyColumn, Records, WordColumn, counted


def vbucket_records(
    tables: KnownTables,
    verdicts: IntArray,
    amounts: tuple[IntArray, Amounts],
    clients: Mapping[int, str],
    reports: Reports,
    waits: Waits,
) -> Records:
    """Returns the table of vbuckets.

    ``verdicts``: number of each stream's verdict. ``amounts``: snapshots of each stream, and gaps
    of each stream. ``reports``: what servers said of seqnos.
    """
    streams, (snapshot_counts, gaps) = tables.streams, amounts
    names = NameNumbers(clients, 1 + max([len(tables.connections), *clients]))
    client = names.of[streams.connection]
    groups = Groups([client, streams.vbucket], np.flatnonzero(client >= 0))
    if not len(groups):
        return Records(VBUCKETS, {column.name: [] for column in VBUCKETS.columns}, 0)
    count, begin, numbers = groups.counts, groups.begins, _in_order(streams, groups)
    newest = numbers[begin + count - 1]
    stream_indices, has_any = np.arange(len(numbers)), streams.seen[numbers] > 0
    last = np.maximum.reduceat(np.where(has_any, stream_indices, 0), begin)
    least = np.minimum.reduceat(np.where(has_any, streams.first[numbers], GREATEST), begin)
    received = np.logical_or.reduceat(has_any, begin)

    def total(values: IntArray | BoolArray) -> NumberColumn:
        return NumberColumn(np.add.reduceat(values.astype(np.int64), begin))

    def by_cause(counts: npt.NDArray[Any]) -> LazyColumn:
        return counted(
            as_integers(np.add.reduceat(counts[numbers].astype(np.float64), begin, axis=0)),
            w.CAUSES,
        )

    latest = NumberColumn(unbiased(streams.last[numbers[last]]), received)
    request = streams.request
    key = client[numbers[begin]] << VBUCKET_BITS | streams.vbucket[numbers[begin]]
    high, is_reported = _high_seqnos(reports, names, key)
    waiting = waits.are_waiting[newest]
    # another client may have been told of the seqno that the newest stream waits for
    high_seqno = unbiased(np.where(waiting, waits.newest[newest], high))
    is_reported |= waiting
    cached_items = np.add.reduceat(streams.cached_items[numbers], begin)
    start, is_start_known = _starts(streams[newest])
    reached = np.where(received, latest.values, unbiased(start))
    # what was told before later items came says no more how far the client is behind
    is_distance_known = is_reported & (received | is_start_known)
    is_distance_known &= ~received | (high_seqno >= reached)
    columns: dict[str, ColumnValues] = {
        "client": WordColumn(client[numbers[begin]], names.words),
        "vbucket": NumberColumn(streams.vbucket[numbers[begin]]),
        "verdict": WordColumn(verdicts[newest], w.STREAM_VERDICTS),
        "before_end": WordColumn(
            np.full(len(groups), -1), w.STOOD
        ),  # findings may say why it ended
        "connections": _connections(groups, streams.connection),
        "streams": total(~are_unopened(streams)[numbers]),
        "requested_end": NumberColumn(
            unbiased(request.end[newest]), request.is_captured[newest] != 0
        ),
        "first_seqno": NumberColumn(unbiased(least), received),
        "last_seqno": latest,
        "high_seqno": NumberColumn(high_seqno, is_reported),
        "behind": NumberColumn(
            np.where(high_seqno > reached, high_seqno - reached, np.uint64(0)), is_distance_known
        ),
        "items": total(streams.items[numbers]),
        "cached_items": NumberColumn(cached_items, cached_items > 0),
        "bytes": total(streams.bytes[numbers]),
        "gaps": by_cause(gaps[0]),
        "gap_seqnos": by_cause(gaps[1]),
        "snapshots": total(snapshot_counts[numbers]),
        "rollbacks": total(streams.answer[numbers] == w.A_ROLLBACK),
        "findings": WordColumn(np.full(len(groups), -1), ()),  # this layer knows no findings
        "first_time": NumberColumn(np.minimum.reduceat(streams.opened.time[numbers], begin)),
        "last_time": NumberColumn(np.maximum.reduceat(streams.latest.time[numbers], begin)),
    }
    return Records(
        VBUCKETS, columns, len(groups), file=streams.opened.frame[numbers[begin]] >> FILE_SHIFT
    )


def _starts(streams: Streams) -> tuple[IntArray, BoolArray]:
    """Returns up to where the clients of these streams had everything when they asked, biased, and
    whether that is known.
    """
    request = streams.request
    is_rolled = streams.answer == w.A_ROLLBACK
    start = np.where(is_rolled, np.minimum(request.start, streams.rollback), request.start)
    return start, (request.is_captured != 0) & (request.flags & FROM_LATEST == 0)


def _in_order(streams: Streams, groups: Groups) -> IntArray:
    """Returns all streams, sorted by vbucket in order of their first streams, then in order of
    opening: requests may have been read after the messages that followed them. First come requests
    that were refused while a stream was there already: that stream goes on.
    """
    rows = groups.rows
    has_other = (streams.status == Status.KEY_EEXISTS)[rows] | _are_beside_open(streams)[rows]
    return rows[np.lexsort((streams.opened.time[rows], ~has_other, groups.of[rows]))]


def _are_beside_open(streams: Streams) -> BoolArray:
    """Returns a mask of requests that were refused while an earlier stream of their connection,
    vbucket and stream-id was open.
    """
    mask = np.zeros(len(streams), dtype=np.bool_)
    key = streams.connection << VBUCKET_BITS | streams.vbucket
    order = np.lexsort((streams.opened.time, streams.sid, key))
    is_granted = are_granted(streams)
    latest = np.maximum.accumulate(np.where(is_granted[order], np.arange(len(order)), 0))
    newest, request = order[latest], np.flatnonzero(streams.answer[order] == w.A_REFUSED)
    newest, request = newest[request], order[request]
    finished = streams.finished
    mask[request] = (
        is_granted[newest]
        & (key[newest] == key[request])
        & (streams.sid[newest] == streams.sid[request])
        & ((finished.row[newest] <= 0) | (finished.time[newest] > streams.opened.time[request]))
    )
    return mask


def _connections(groups: Groups, connection: IntArray) -> WordColumn:
    """Returns the connections of each vbucket; most vbuckets have one."""
    pairs = np.unique(np.column_stack((groups.of[groups.rows], connection[groups.rows])), axis=0)
    owner, begin, count = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    only, codes = np.unique(np.where(count == 1, pairs[begin, 1], -1), return_inverse=True)
    words = [[number] for number in only.tolist()]
    codes = codes.reshape(-1)
    for group in owner[count > 1].tolist():
        codes[group] = len(words)
        words.append(pairs[begin[group] : begin[group] + count[group], 1].tolist())
    return WordColumn(codes, words)


def _high_seqnos(
    reports: Reports, names: NameNumbers, keys: IntArray
) -> tuple[IntArray, BoolArray]:
    """Returns the newest seqno, biased, told to each client of each vbucket, and whether any."""
    has_name = reports.connection < len(names.of)
    name_number = np.where(has_name, names.of[np.where(has_name, reports.connection, 0)], -1)
    latest = np.flatnonzero((reports.kind == LATEST) & (name_number >= 0))
    report_keys = name_number[latest] << VBUCKET_BITS | reports.vbucket[latest]
    order = np.lexsort((reports.place.row[latest], reports.place.time[latest], report_keys))
    report_keys, seqno = report_keys[order], reports.value[latest][order]
    positions = np.searchsorted(report_keys, keys, "right") - 1
    is_reported = (
        (positions >= 0) & (report_keys[np.maximum(positions, 0)] == keys)
        if len(report_keys)
        else np.zeros(len(keys), dtype=np.bool_)
    )
    return (seqno[positions] if len(report_keys) else keys), is_reported
