"""Gaps on which two streams of one vbucket and branch disagree: one lacks seqnos that the other has
shown.

The events that the other stream shows tell why. Prepares, aborts and events that a client did not
ask for are invisible to it. A snapshot from disk may leave out prepares that were completed, and
deletions that were purged. No snapshot has documents of a collection that ends in it. Any other
change of a document that the client did ask for has to come, unless a later change of the same
document came instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, numbers_of, unique
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.flags import DISK, HISTORY, SKIP_DELETES
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams import words as w
from dcpinspect.streams.changes import ChangeEvent, Events
from dcpinspect.streams.collections import named_collections
from dcpinspect.streams.events import EventQuery, FoundEvents, Interval
from dcpinspect.streams.grouping import GroupedRows, Groups
from dcpinspect.streams.record_codes import HAS_COMPLETED, HAS_PURGE, IN_OSO, OSO_LAYOUT, UPR_LAYOUT
from dcpinspect.streams.records import GREATEST, LEAST, Gaps, Streams
from dcpinspect.streams.session import COLLECTIONS, SYNC_WRITES, Session
from dcpinspect.streams.state import KnownTables
from dcpinspect.streams.transitions import COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO

_AT_ONCE = 1 << 18
"""Number of pairs of things that are compared at once."""
MOST_OTHERS = 16
"""Greatest number of streams that one is compared with: a client may have opened any number."""
_NO_COLLECTION = -2

_SETTLED = (w.LOSS, w.ROLLBACK, w.RESUMED, w.ADVANCED)
"""Causes that hold whatever other streams show."""
_COMPLETE = (COMPLETE, COMPLETE_ADVANCED)
_DELETIONS = (Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION)
_VISIBLE = (Opcode.DCP_MUTATION, Opcode.DCP_COMMIT, *_DELETIONS)
_PENDING = (Opcode.DCP_PREPARE, Opcode.DCP_ABORT)

HIDDEN, COMPLETED, PURGED, DROPPED = range(4)
"""Why events that another stream shows did not have to come: the client may not see them; they are
prepares that were completed, or deletions, and a snapshot from disk may lack both; their collection
ends in the snapshot.
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a stream is asked to show, as far as that is known."""

    collections: frozenset[int] | None
    """Collections whose documents come; None where nobody can tell."""
    system_events: bool
    """Whether system events come, or may come."""
    prepares: bool
    """Whether prepares and aborts come, or may come."""
    deletions: bool
    """Whether deletions come."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What another stream tells of a gap."""

    cause: int
    """The cause that it tells; -1: nothing, because events to compare are missing."""
    stream: int
    event: ChangeEvent | None = None
    """The first event in the gap that tells the cause."""
    connection: int = 0
    """``connection``: the connection of ``event``; ``seqno``: its seqno, biased; ``row``: its row.
    """
    seqno: int = 0
    row: int = 0
    seqnos: tuple[int, ...] = ()
    """Seqnos, biased, of all events in the gap that had to come."""
    reason: int = HIDDEN
    """Why ``event`` did not have to come."""
    is_all: bool = True
    """Whether this is so for all seqnos of the gap."""

    def or_rather(self, alternative: Comparison) -> Comparison:
        """Returns which of two comparisons of one gap counts: "something is missing" before
        "nothing is missing", this before "some of it need not come", and all before "not known".
        """
        return max(self, alternative, key=lambda comparison: _RANKS[comparison.cause])


_RANKS = {-1: 0, w.DEDUPLICATED: 1, w.FILTERED: 2, w.INVISIBLE: 3, w.UNEXPLAINED: 4}

EVERYTHING = frozenset({-1})
"""In ``Subscription.collections``, stands for all collections beside the default one that the user
of the client may see.
"""


def subscription(
    session: Session, filter_: Mapping[str, Any] | None, *, is_asked: bool, is_whole: bool
) -> Subscription:
    """Returns what a connection and the value of a stream request ask for.

    ``is_asked``: the request was captured. ``is_whole``: the capture lacks nothing of the
    connection.
    """
    features = session.features
    if features is None and is_whole and not session.hello_row:
        features = ()
    collections: frozenset[int] | None = None
    if features is not None and is_asked and is_whole:
        collections = frozenset({0}) if COLLECTIONS not in features else EVERYTHING | {0}
        if filter_ is not None and "scope" in filter_:
            collections = None  # nobody said which collections
        elif (named := named_collections(filter_)) is not None:
            collections = named
    deletions = session.open_flags is not None and not session.open_flags & SKIP_DELETES
    prepares = not is_whole or session.control(SYNC_WRITES) == "true"
    return Subscription(
        collections, features is None or COLLECTIONS in features, prepares, deletions
    )


class Disputes:
    """The gaps that other streams may explain."""

    def __init__(
        self,
        gaps: Gaps,
        cause: IntArray,
        tables: KnownTables,
        branches: IntArray,
        *,
        first_row: int = 0,
        vbucket: int = 0,
    ) -> None:
        """``gaps``: all gaps, with the causes ``cause``. ``branches``: by stream, the newest uuid of
        its failover log, 0 where none is known. ``first_row``: only gaps that end in this row or
        later. ``vbucket``: only this vbucket and higher ones.
        """
        self._gaps = gaps
        self._streams = tables.streams
        self._snapshots = tables.snapshots
        self._snapshots_of = GroupedRows(tables.snapshots.stream, len(tables.streams))
        self._cause = cause
        lost = self._gaps[cause == w.LOSS]
        self._lost, self._lost_of = lost, GroupedRows(lost.stream, len(tables.streams))
        late = np.flatnonzero(self._gaps.ends.row >= first_row)
        branches = np.where(tables.streams.vbucket >= vbucket, branches, 0)
        disputed = _disputed(self._gaps[late], cause[late], tables.streams, branches)
        self.pairs = sorted(
            pair
            for gap, other_stream in disputed
            for pair in zip(late[gap].tolist(), other_stream.tolist(), strict=True)
        )
        """(number of the gap, stream that shows some of its seqnos)."""

    @property
    def streams(self) -> set[int]:
        """The streams that have these gaps."""
        return {self._gaps[gap].stream for gap, _ in self.pairs}

    def event_query(self) -> EventQuery:
        """Returns a query for the events that settle the gaps."""
        intervals: dict[int, list[Interval]] = {}
        snapshot_ends: dict[int, list[int]] = {}
        for gap, other_stream in self.pairs:
            row = self._gaps[gap]
            run = int(row.after) + 1, int(row.before) - 1
            snapshot = int(row.snapshot)
            first, last = self._range(snapshot) if snapshot >= 0 else run
            last = max(run[1], last)
            # from the stream itself: the later versions that came instead, and the collections that
            # its client sees
            intervals.setdefault(int(row.stream), []).append((min(run[0], first), last))
            if other_stream not in snapshot_ends:
                snapshot_ends[other_stream] = sorted(
                    self._range(number)[1] for number in self._snapshots_of[other_stream].tolist()
                )
            ends = snapshot_ends[other_stream]
            end_index = bisect_left(ends, last)
            end = ends[end_index] if end_index < len(ends) else last
            intervals.setdefault(other_stream, []).append((run[0], end))
        return EventQuery(self._streams, intervals)

    def _range(self, snapshot: int) -> Interval:
        """Returns the first and last seqno of a snapshot's span; the first is above the last if the
        span is not known.
        """
        row = self._snapshots[snapshot]
        if row.layout > UPR_LAYOUT:
            return int(row.start), int(row.end)
        if row.state != COMPLETE_OSO or not row.has_before or not row.seen:
            return GREATEST, LEAST
        return row.before + 1, int(max(row.last, row.advanced if row.has_advanced else LEAST))

    def setting_after(
        self,
        found_events: FoundEvents | None,
        subscriptions: Mapping[int, Subscription] | Sequence[Subscription],
    ) -> dict[int, Comparison]:
        """Returns what other streams tell, by number of the gap; a gap of which nothing is told is
        left out.

        ``subscriptions``: by stream. ``found_events``: the events; None: the result says that
        nothing was compared.
        """
        comparisons: dict[int, Comparison] = {}
        events: dict[int, StreamEvents] = {}
        for gap, other_stream in self.pairs:
            stream, after = self._gaps[gap].stream, self._gaps[gap].after
            if found_events is None or not (
                found_events.has_from(stream, after) and found_events.has_from(other_stream, after)
            ):
                comparisons.setdefault(gap, Comparison(-1, other_stream))
                continue
            for number in (stream, other_stream):
                if number not in events:
                    events[number] = StreamEvents(found_events.stream_events(number))
            comparison = self._judged(
                gap, other_stream, events[stream], events[other_stream], subscriptions[stream]
            )
            if comparison is not None:
                comparisons[gap] = (
                    comparisons[gap].or_rather(comparison) if gap in comparisons else comparison
                )
        return comparisons

    def _judged(
        self,
        gap: int,
        other_stream: int,
        own_events: StreamEvents,
        other_events: StreamEvents,
        subscription: Subscription,
    ) -> Comparison | None:
        after, before = self._gaps[gap].after, self._gaps[gap].before
        inside = other_events.table[other_events.between(after, before)]
        if not len(inside):
            return None
        missing = self._missing(gap, other_stream, inside, own_events, other_events, subscription)
        if missing:
            comparison = self._comparison(w.UNEXPLAINED, other_stream, inside[missing[0]])
            return replace(comparison, seqnos=tuple(inside.seqno[missing].tolist()))
        reasons = self._reasons(gap, inside, own_events, other_events, subscription)
        explained = np.flatnonzero(reasons >= 0)
        if self._gaps.flags[gap] & IN_OSO or not len(explained):
            return None
        # because of what is sent to whom; else the vbucket has them no more
        is_own = bool((reasons[explained] <= COMPLETED).any())
        is_all = len(explained) == before - after - 1
        if is_all and reasons.max() <= COMPLETED:
            cause = w.INVISIBLE
        elif self._cause[gap] == w.DEDUPLICATED:
            cause = w.FILTERED if is_own else w.DEDUPLICATED
        else:
            return None
        first = int(explained[np.argmin(reasons[explained])])
        is_all &= len(unique(reasons)) == 1
        return replace(
            self._comparison(cause, other_stream, inside[first]),
            reason=int(reasons[first]),
            is_all=is_all,
        )

    def _reasons(
        self,
        gap: int,
        inside: Events,
        own_events: StreamEvents,
        other_events: StreamEvents,
        subscription: Subscription,
    ) -> IntArray:
        """Returns for each event inside a gap why it did not have to come; -1 for no reason."""
        opcode, number = inside.opcode, self._gaps[gap].snapshot
        is_hidden = np.isin(
            opcode,
            (() if subscription.prepares else _PENDING)
            + (() if subscription.system_events else (Opcode.DCP_SYSTEM_EVENT,)),
        )
        if (
            subscription.collections is not None
            and not subscription.collections >= EVERYTHING
            and self._cause[gap] != w.FILTERED
        ):
            is_document = np.isin(opcode, (*_VISIBLE, *_PENDING)) & (inside.collection >= 0)
            is_hidden |= is_document & ~np.isin(inside.collection, list(subscription.collections))
        reasons = np.where(is_hidden, HIDDEN, -1)
        if number < 0 or self._cause[gap] not in (w.DEDUPLICATED, w.INVISIBLE, w.FILTERED):
            return reasons
        snapshot, end = self._snapshots[number], self._range(number)[1]
        is_disk = bool(snapshot.flags & DISK)
        is_marked = bool(snapshot.seqnos.present & HAS_COMPLETED)
        for index in np.flatnonzero(reasons < 0).tolist():
            event = inside[index]
            key = int(event.seqno), int(event.key), int(event.collection)
            if event.collection >= 0 and (
                own_events.ended_later(key[0], end, key[2])
                or other_events.ended_later(key[0], end, key[2])
            ):
                reasons[index] = DROPPED
            elif is_disk and event.opcode in _DELETIONS:
                reasons[index] = -1 if own_events.came_later(key[0], end, *key[1:]) else PURGED
            elif is_disk and event.opcode == Opcode.DCP_PREPARE:
                is_completed = (
                    is_marked and event.seqno <= snapshot.seqnos.high_completed
                ) or other_events.completed(key[0], end, *key[1:])
                reasons[index] = COMPLETED if is_completed else -1
        return reasons

    def _comparison(self, cause: int, other_stream: int, event: ChangeEvent) -> Comparison:
        return Comparison(
            cause,
            other_stream,
            event,
            self._streams[other_stream].connection,
            event.seqno,
            event.place.row,
        )

    def _missing(
        self,
        gap: int,
        other_stream: int,
        inside: Events,
        own_events: StreamEvents,
        other_events: StreamEvents,
        subscription: Subscription,
    ) -> list[int]:
        """Returns the places, among the events inside the gap, of the events that had to come."""
        number = self._gaps[gap].snapshot
        if number < 0 or subscription.collections is None:
            return []
        snapshot = self._snapshots[number]
        if snapshot.state not in (*_COMPLETE, COMPLETE_OSO) or snapshot.is_tainted:
            return []
        missing = []
        start, end = self._range(number)
        # A backfill lacks what compaction purged. A first marker begins at the seqno that the
        # client asked for, not at its first item.
        is_all_there = (
            snapshot.layout != OSO_LAYOUT and not snapshot.flags & DISK and snapshot.index > 1
        )
        columns = (inside.seqno, inside.opcode, inside.key, inside.collection, inside.place.row)
        event_columns = zip(*(column.tolist() for column in columns), strict=True)
        for index, (seqno, opcode, key, collection, row) in enumerate(event_columns):
            if opcode not in _VISIBLE or key < 0 or collection < 0 or not start <= seqno <= end:
                continue
            # Without a filter a client has all collections that it may know of.
            is_asked = collection in subscription.collections or (
                subscription.collections >= EVERYTHING and collection in own_events.collections
            )
            if not is_asked:
                continue
            if opcode in _DELETIONS and not (subscription.deletions and is_all_there):
                continue
            if not is_all_there and not subscription.deletions:
                continue
            if not is_all_there and not self._is_latest(
                other_stream, row, end, other_events, (seqno, key, collection)
            ):
                continue
            if not own_events.came_later(
                seqno, end, key, collection
            ) and not other_events.ended_later(seqno, end, collection):
                missing.append(index)
        return missing

    def _is_latest(
        self, stream: int, row: int, end: int, theirs: StreamEvents, event: tuple[int, int, int]
    ) -> bool:
        """Returns whether an event, (seqno, key, collection), in ``row`` of a stream is the latest
        event of its key up to seqno ``end``.

        A snapshot has one event of a key at most, its latest; a snapshot with history may have
        more. If the snapshot ends below ``end``, later ones have to be known up to the one that
        spans ``end``: a later version in it may replace one below ``end``.
        """
        seqno, key, collection = event
        snapshot_numbers = self._snapshots_of[stream]  # in order of rows
        first_index = int(np.searchsorted(self._snapshots.place.row[snapshot_numbers], row)) - 1
        if first_index < 0:
            return False
        first = self._snapshots[snapshot_numbers[first_index]]
        reached = self._range(int(snapshot_numbers[first_index]))[1]
        if first.is_tainted or reached == LEAST:
            return False
        if reached >= end and not first.flags & HISTORY:
            return True
        for number in snapshot_numbers[first_index:].tolist():
            snapshot = self._snapshots[number]
            # A deletion may have been purged from a later snapshot from disk, unless its marker
            # says that only those below were.
            is_there = snapshot.seqnos.present & HAS_PURGE and snapshot.seqnos.purge <= seqno
            may_lack = (
                number != snapshot_numbers[first_index] and snapshot.flags & DISK and not is_there
            )
            if snapshot.state not in (*_COMPLETE, COMPLETE_OSO) or snapshot.is_tainted or may_lack:
                return False
            reached = self._range(number)[1]
            if reached >= end:
                break
        lost = self._lost[self._lost_of[stream]]
        is_lost = bool(((lost.after < reached) & (lost.before > seqno)).any())
        return (
            reached >= end
            and not is_lost
            and not theirs.came_later(seqno, reached, key, collection)
        )


class StreamEvents:
    """The events of one stream in order of seqno, prepared for many questions."""

    def __init__(self, table: Events) -> None:
        self.table = table
        self.collections = frozenset(unique(table.collection).tolist())
        self._seqno = np.ascontiguousarray(table.seqno)
        self._ended = np.ascontiguousarray(table.ended)
        self._key = np.ascontiguousarray(table.key)
        self._collection = np.where(
            np.isin(table.opcode, _VISIBLE), table.collection, _NO_COLLECTION
        )

    def between(self, after: int, before: int) -> slice:
        """Returns the places of the events above seqno ``after`` and below seqno ``before``."""
        low, high = np.searchsorted(self._seqno, (after + 1, before))
        return slice(int(low), int(high))

    def _later(self, seqno: int, end: int) -> slice:
        return slice(
            int(np.searchsorted(self._seqno, seqno, "right")),
            int(np.searchsorted(self._seqno, end, "right")),
        )

    def came_later(self, seqno: int, end: int, key: int, collection: int) -> bool:
        """Returns whether, up to seqno ``end``, a later event of the key came or may have come, or
        the end of its collection.
        """
        later = self._later(seqno, end)
        keys = self._key[later]
        same = (keys == key) & (self._collection[later] == collection)
        return bool((same | (keys < 0)).any()) or self.ended_later(seqno, end, collection)

    def completed(self, seqno: int, end: int, key: int, collection: int) -> bool:
        """Returns whether, up to seqno ``end``, a later event completes the prepare of a key."""
        later = self._later(seqno, end)
        is_end = np.isin(self.table.opcode[later], (Opcode.DCP_COMMIT, Opcode.DCP_ABORT))
        return bool(
            (
                is_end
                & (self._key[later] == key)
                & (self.table.collection[later] == collection)
                & (key >= 0)
            ).any()
        )

    def ended_later(self, seqno: int, end: int, collection: int) -> bool:
        """Returns whether, up to seqno ``end``, the end of a collection came."""
        return bool((self._ended[self._later(seqno, end)] == collection).any())


def _of_one_branch(streams: Streams, branches: IntArray) -> Groups:
    """Returns the streams that received something, grouped by vbucket and branch."""
    return Groups([streams.vbucket, branches], np.flatnonzero((branches != 0) & (streams.seen > 0)))


def no_spans(streams: int) -> IntArray:
    """Returns spans, shaped as in ``spans_of``, for streams without a gap in doubt."""
    return np.repeat([[GREATEST, LEAST]], streams, axis=0)


def spans_of(gaps: Gaps, cause: IntArray, streams: int) -> IntArray:
    """Returns two columns by stream: the least seqno before, and the greatest behind, its gaps of
    which another stream may tell.
    """
    spans, open_ = no_spans(streams), ~np.isin(cause, _SETTLED)
    np.minimum.at(spans[:, 0], gaps.stream[open_], gaps.after[open_])
    np.maximum.at(spans[:, 1], gaps.stream[open_], gaps.before[open_])
    return spans


def disputable(spans: IntArray, streams: Streams, branches: IntArray) -> BoolArray:
    """Returns a mask of streams that may have gaps in dispute, as far as ``spans`` tells, and of
    streams that may settle such gaps.
    """
    mask = np.zeros(len(streams), dtype=np.bool_)
    groups = _of_one_branch(streams, branches)
    with_branch = np.flatnonzero(groups.of >= 0)
    if not len(spans) or not len(with_branch):
        return mask
    group = groups.of[with_branch]
    first = _least(streams, with_branch)
    last = streams.last[with_branch]
    low, high = spans[with_branch].T
    has_gaps = low < high
    # counts the stream itself, which does not settle its own gap
    is_near = has_gaps & (first < high) & (last > low)
    # a stream that begins above a gap, or ends below it, tells nothing of the gap; no stream does
    # both
    near_streams = (
        _below(group, first, group, high) - _below(group, last, group, low, "right") - is_near
    )
    gaps_of = group[has_gaps]
    shown_gaps = (
        _below(gaps_of, low[has_gaps], group, last)
        - _below(gaps_of, high[has_gaps], group, first, "right")
        - is_near
    )
    mask[with_branch] = (has_gaps & (near_streams > 0)) | (shown_gaps > 0)
    return mask


def _below(
    groups: IntArray,
    values: IntArray,
    group: IntArray,
    limits: IntArray,
    side: Literal["left", "right"] = "left",
) -> IntArray:
    """Returns how many values of each group are below its limit, for each pair of ``group`` and
    ``limits``; "right": below or equal.
    """
    different = unique(values)
    step = len(different) + 1
    keys = np.sort(groups * step + np.searchsorted(different, values))
    first = np.searchsorted(keys, group * step)
    return np.searchsorted(keys, group * step + np.searchsorted(different, limits, side)) - first


def in_dispute(gaps: Gaps, cause: IntArray, streams: Streams, branches: IntArray) -> BoolArray:
    """Returns a mask of streams to be looked at together: gaps are in dispute, or may be once gaps
    of other streams are left out.
    """
    hot = np.zeros(len(streams), dtype=np.bool_)
    for gap, other_stream in _disputed(gaps, cause, streams, branches):
        hot[gaps.stream[gap]] = hot[other_stream] = True
    hot[gaps.stream[cause == w.UNEXPLAINED]] = True
    groups = _of_one_branch(streams, branches)
    mask = np.zeros(len(streams), dtype=np.bool_)
    mask[groups.rows] = np.repeat((groups.counts > 1) & (groups.sum(hot) > 0), groups.counts)
    return mask


def _disputed(
    gaps: Gaps, cause: IntArray, streams: Streams, branches: IntArray
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yields gaps, and for each another stream that shows some of its seqnos."""
    by_seqno = np.lexsort((gaps.after, gaps.stream))
    open_ = by_seqno[~np.isin(cause, _SETTLED)[by_seqno]]
    asking, begins, counts = np.unique(gaps.stream[open_], return_index=True, return_counts=True)
    if not len(asking):
        return
    least = np.minimum.reduceat(gaps.after[open_], begins)
    greatest = np.maximum.reduceat(gaps.before[open_], begins)
    first = _least(streams, np.arange(len(streams)))
    last = streams.last
    gap_lookup = _GapsOf(gaps, by_seqno)
    groups = _of_one_branch(streams, branches)
    grouped = np.flatnonzero(groups.of[asking] >= 0)
    sizes = groups.counts[groups.of[asking[grouped]]]
    for low, high in _chunks(sizes):
        streams_of_chunk = grouped[low:high]
        position, asking_index = numbers_of(0, sizes[low:high])
        number = asking[streams_of_chunk][asking_index]
        other_stream = groups.rows[
            groups.begins[groups.of[asking[streams_of_chunk]]][asking_index] + position
        ]
        is_near = (
            (first[other_stream] < greatest[streams_of_chunk][asking_index])
            & (last[other_stream] > least[streams_of_chunk][asking_index])
            & (other_stream != number)
        )
        rank = np.cumsum(is_near)
        is_near &= rank - (rank - is_near)[position == 0][asking_index] <= MOST_OTHERS
        pairs, other_stream = streams_of_chunk[asking_index[is_near]], other_stream[is_near]
        for from_pair, to_pair in _chunks(counts[pairs]):
            chosen_pairs = pairs[from_pair:to_pair]
            open_index, pair = numbers_of(begins[chosen_pairs], counts[chosen_pairs])
            gap = open_[open_index]
            shows = other_stream[from_pair:to_pair][pair]
            meets = (gaps.before[gap] > first[shows]) & (gaps.after[gap] < last[shows])
            gap, shows = gap[meets], shows[meets]
            is_elsewhere = ~gap_lookup.contain(shows, gap)
            yield gap[is_elsewhere], shows[is_elsewhere]


def _chunks(sizes: IntArray) -> Iterator[tuple[int, int]]:
    """Yields where each run of items begins and ends, so that the sizes in it are ``_AT_ONCE``
    together, or that it is one item.
    """
    sums = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        before = int(sums[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(sums, before + _AT_ONCE, "right")))
        yield low, high
        low = high


class _GapsOf:
    """All gaps, to be looked up by stream and seqno."""

    def __init__(self, gaps: Gaps, by_seqno: IntArray) -> None:
        """``by_seqno``: the gaps in order of stream and seqno."""
        self._gaps, self._by_seqno = gaps, by_seqno
        self._different = unique(gaps.after)
        self._keys = self._key(gaps.stream[by_seqno], gaps.after[by_seqno])

    def _key(self, stream: IntArray, after: IntArray) -> IntArray:
        return stream * len(self._different) + np.searchsorted(self._different, after)

    def contain(self, streams: IntArray, gaps: IntArray) -> BoolArray:
        """Returns for which of these gaps one gap of the given stream spans it as a whole."""
        index = np.searchsorted(self._keys, self._key(streams, self._gaps.after[gaps]), "right") - 1
        spanning = self._by_seqno[np.maximum(index, 0)]
        is_there = (index >= 0) & (self._gaps.stream[spanning] == streams)
        contained: BoolArray = is_there & (self._gaps.before[spanning] >= self._gaps.before[gaps])
        return contained


def _least(streams: Streams, numbers: IntArray) -> IntArray:
    """Returns seqnos that no received seqno is below; the first received one may be inside an OSO
    snapshot, so it is not always the least.
    """
    starts = np.where(
        streams.request.is_captured[numbers] != 0, streams.request.start[numbers], LEAST
    )
    return np.minimum(streams.first[numbers], starts)
