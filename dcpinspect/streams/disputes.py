"""Gaps on which two streams of one vbucket and branch disagree: one lacks seqnos that the other has shown.

What the other shows tells why. Prepares, aborts and events that a client did not ask for are invisible to it. A change of a document it
did ask for, though, has to come, unless a later one of the same document came instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask
from dcpinspect.protocol.flags import DISK, HISTORY, SKIP_DELETES
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams import words as w
from dcpinspect.streams.changes import Event, Events
from dcpinspect.streams.collections import named_collections
from dcpinspect.streams.events import EventQuery, FoundEvents, Interval
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.kinds import OSO_LAYOUT, UPR_LAYOUT
from dcpinspect.streams.rows import GREATEST, LEAST, Gaps, Snapshot, Streams
from dcpinspect.streams.session import COLLECTIONS, SYNC_WRITES, Session
from dcpinspect.streams.state import Known
from dcpinspect.streams.transitions import COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO

Table = npt.NDArray[np.int64]

MOST_OTHERS = 16
"""Streams that one stream is compared with: a client may have opened any number."""
_NO_COLLECTION = -2

_SETTLED = (w.LOSS, w.ROLLBACK, w.RESUMED, w.ADVANCED)
"""Causes that are known whatever other streams show."""
_COMPLETE = (COMPLETE, COMPLETE_ADVANCED)
_DELETIONS = (Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION)
_VISIBLE = (Opcode.DCP_MUTATION, Opcode.DCP_COMMIT, *_DELETIONS)
_PENDING = (Opcode.DCP_PREPARE, Opcode.DCP_ABORT)
_HAS_PURGE = 4
"""Bit of ``OptionalSeqnos.present``: the marker says up to where deletions were purged."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a stream is asked to show, as far as that is known."""

    collections: frozenset[int] | None
    """Collections of its documents; None where nobody can tell."""
    system_events: bool
    """System events come, or may."""
    prepares: bool
    """Prepares and aborts come, or may."""
    deletions: bool
    """Deletions come."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What another stream tells of a gap."""

    cause: int
    """-1: nothing, for want of events to compare."""
    stream: int
    event: Event | None = None
    """The first one in the gap that tells it."""
    connection: int = 0
    """That of ``event``; its seqno, biased; and its row."""
    seqno: int = 0
    row: int = 0

    def or_rather(self, other: Comparison) -> Comparison:
        """What two streams tell of one gap: that something is missing outranks that nothing is, and both that nobody knows."""
        return other if self.cause < 0 or other.cause == w.UNEXPLAINED != self.cause else self


EVERYTHING = frozenset({-1})
"""Among ``collections``: those beside the default one, as far as its user may see them."""


def subscription(session: Session, filter_: Mapping[str, Any] | None, *, asked: bool, is_whole: bool) -> Subscription:
    """What a connection and the value of a stream request ask for.

    ``asked``: the request was captured; ``is_whole``: nothing of the connection is missing.
    """
    features = session.features
    if features is None and is_whole and not session.hello_row:
        features = ()
    collections: frozenset[int] | None = None
    if features is not None and asked and is_whole:
        collections = frozenset({0}) if COLLECTIONS not in features else EVERYTHING | {0}
        if filter_ is not None and "scope" in filter_:
            collections = None  # which collections that are, nobody said
        elif (named := named_collections(filter_)) is not None:
            collections = named
    deletions = session.open_flags is not None and not session.open_flags & SKIP_DELETES
    prepares = not is_whole or session.control(SYNC_WRITES) == "true"
    return Subscription(collections, features is None or COLLECTIONS in features, prepares, deletions)


class Disputes:
    """The gaps that other streams may explain."""

    def __init__(
        self,
        gaps: tuple[Gaps, Gaps],
        cause: Table,
        known: Known,
        branches: Table,
        *,
        first_row: int = 0,
        vbucket: int = 0,
    ) -> None:
        """``gaps``: those of the kernel, whose causes are ``cause``, and those inside OSO snapshots; ``branches``: newest uuid of
        the failover log of every stream, 0 where none is known; ``first_row``: of messages that end gaps, from which on, as ``vbucket``."""
        of_kernel, unordered = gaps
        self._gaps, self._streams, self._snapshots = Gaps.joined(gaps), known.streams, known.snapshots
        cause = np.concatenate((cause, np.where(unordered.loss >= 0, w.LOSS, w.OUT_OF_ORDER)))
        self._numbers = np.concatenate((np.arange(len(of_kernel)), -1 - np.arange(len(unordered))))
        self._snapshots_of = Grouped(known.snapshots.stream, len(known.streams))
        lost = self._gaps[cause == w.LOSS]
        self._lost, self._lost_of = lost, Grouped(lost.stream, len(known.streams))
        late = np.flatnonzero(self._gaps.ends.row >= first_row)
        pairs = _disputed(self._gaps[late], cause[late], known.streams, np.where(known.streams.vbucket >= vbucket, branches, 0))
        self.pairs = [(int(late[gap]), other) for gap, other in pairs]
        """(gap, stream that shows some of it)."""

    @property
    def streams(self) -> set[int]:
        """The streams that have the gaps."""
        return {int(self._gaps.stream[gap]) for gap, _ in self.pairs}

    def wanted(self) -> EventQuery:
        """The events that settle them."""
        intervals: dict[int, list[Interval]] = {}
        for gap, other in self.pairs:
            row = self._gaps[gap]
            run = int(row.after) + 1, int(row.before) - 1
            snapshot = int(row.snapshot)
            first, last = self._range(snapshot) if snapshot >= 0 else run
            last = max(run[1], last)
            # of the stream itself, the later versions that came instead, and collections that its client sees
            intervals.setdefault(int(row.stream), []).append((min(run[0], first), last))
            own = self._snapshots_of[other]
            ends = [end for end in (self._range(number)[1] for number in own.tolist()) if end >= last]
            intervals.setdefault(other, []).append((run[0], min(ends, default=last)))
        return EventQuery(self._streams, intervals)

    def _range(self, snapshot: int) -> Interval:
        """The seqnos that a snapshot spans; the first is above the last if unknown."""
        row = self._snapshots[snapshot]
        if row.layout > UPR_LAYOUT:
            return int(row.start), int(row.end)
        if row.state != COMPLETE_OSO or not row.has_before or not row.seen:
            return GREATEST, LEAST
        return int(row.before) + 1, int(max(row.last, row.advanced if row.has_advanced else LEAST))

    def settled(self, shown: FoundEvents | None, asked: Mapping[int, Subscription] | Sequence[Subscription]) -> dict[int, Comparison]:
        """What is told of each gap of which anything is; ``asked`` by stream. Without ``shown``, that nothing was compared.

        Gaps have the kernel's numbers; those inside OSO snapshots count down from -1.
        """
        told: dict[int, Comparison] = {}
        events: dict[int, StreamEvents] = {}
        for gap, other in self.pairs:
            stream, after = self._gaps[gap].stream, self._gaps[gap].after
            name = int(self._numbers[gap])
            if shown is None or not (shown.has_from(stream, after) and shown.has_from(other, after)):
                told.setdefault(name, Comparison(-1, other))
                continue
            for number in (stream, other):
                if number not in events:
                    events[number] = StreamEvents(shown.of(number))
            found = self._judged(gap, other, events[stream], events[other], asked[stream])
            if found is not None:
                told[name] = told[name].or_rather(found) if name in told else found
        return told

    def _judged(self, gap: int, other: int, mine: StreamEvents, theirs: StreamEvents, asked: Subscription) -> Comparison | None:
        after, before = int(self._gaps.after[gap]), int(self._gaps.before[gap])
        inside = theirs.table[theirs.between(after, before)]
        if not len(inside):
            return None
        place = self._missing(gap, other, inside, mine, theirs, asked)
        if place is not None:
            return self._shown(w.UNEXPLAINED, other, inside[place])
        hidden = set(() if asked.prepares else _PENDING) | set(() if asked.system_events else (int(Opcode.DCP_SYSTEM_EVENT),))
        if self._numbers[gap] >= 0 and len(inside) == before - after - 1 and hidden.issuperset(inside.opcode.tolist()):
            return self._shown(w.INVISIBLE, other, inside[0])
        return None

    def _shown(self, cause: int, other: int, event: Event) -> Comparison:
        return Comparison(cause, other, event, int(self._streams.connection[other]), int(event.seqno), int(event.place.row))

    def _missing(self, gap: int, other: int, inside: Events, mine: StreamEvents, theirs: StreamEvents, asked: Subscription) -> int | None:
        """The first event of a gap that had to come, by its place among those inside."""
        number = int(self._gaps.snapshot[gap])
        if number < 0 or asked.collections is None:
            return None
        snapshot = self._snapshots[number]
        if snapshot.state not in (*_COMPLETE, COMPLETE_OSO) or snapshot.is_tainted:
            return None
        start, end = self._range(number)
        # A backfill lacks what compaction purged; and a first marker begins where the client asked, not where its items do.
        is_all_there = snapshot.layout != OSO_LAYOUT and not snapshot.flags & DISK and snapshot.index > 1
        columns = (inside.seqno, inside.opcode, inside.key, inside.collection, inside.place.row)
        told = zip(*(column.tolist() for column in columns), strict=True)
        for place, (seqno, opcode, key, collection, row) in enumerate(told):
            if opcode not in _VISIBLE or key < 0 or collection < 0 or not start <= seqno <= end:
                continue
            # Without a filter a client has all collections but those that it may not know of.
            is_asked = collection in asked.collections or (asked.collections >= EVERYTHING and collection in mine.collections)
            if not is_asked:
                continue
            if opcode in _DELETIONS and not (asked.deletions and is_all_there):
                continue
            if not is_all_there and not asked.deletions:
                continue
            if not is_all_there and not self._is_latest(other, row, end, theirs, (seqno, key, collection)):
                continue
            if not mine.came_later(seqno, end, key, collection) and not theirs.ended_later(seqno, end, collection):
                return place
        return None

    def _is_latest(self, stream: int, row: int, end: int, theirs: StreamEvents, event: tuple[int, int, int]) -> bool:
        """Whether an event of a stream, (seqno, key, collection) in a row, is the latest of its key up to ``end``.

        A snapshot has no more than one of a key, its latest; one of history may have more. If its end is below ``end``, all that is in the
        snapshots behind it has to be known, up to the end of the one that spans ``end``: a later version may stand for one below it.
        """
        seqno, key, collection = event
        own = self._snapshots_of[stream]  # in order of rows
        place = int(np.searchsorted(self._snapshots.place.row[own], row)) - 1
        if place < 0:
            return False
        first = self._snapshots[own[place]]
        reached = self._range(int(own[place]))[1]
        if first.is_tainted or reached == LEAST:
            return False
        if reached >= end and not first.flags & HISTORY:
            return True
        for number in own[place:].tolist():
            snapshot = self._snapshots[number]
            # A deletion may have been purged from a later one from disk.
            may_lack = number != own[place] and snapshot.flags & DISK and not _purged_below(snapshot, seqno)
            if snapshot.state not in (*_COMPLETE, COMPLETE_OSO) or snapshot.is_tainted or may_lack:
                return False
            reached = self._range(number)[1]
            if reached >= end:
                break
        lost = self._lost[self._lost_of[stream]]
        is_lost = bool(((lost.after < reached) & (lost.before > seqno)).any())
        return reached >= end and not is_lost and not theirs.came_later(seqno, reached, key, collection)


def _purged_below(snapshot: Snapshot, seqno: int) -> bool:
    """Whether a marker says that deletions were purged below a seqno only."""
    return bool(snapshot.seqnos.present & _HAS_PURGE and snapshot.seqnos.purge <= seqno)


class Grouped:
    """Numbers of rows by what they belong to."""

    def __init__(self, owner: Table, owners: int, order: Table | None = None) -> None:
        """``owner``: of each row, below ``owners``; ``order``: the rows by owner, as they are to stand; without, as they are."""
        self._order = np.argsort(owner, kind="stable") if order is None else order
        self._ends = np.searchsorted(owner[self._order], np.arange(owners + 1))

    def __getitem__(self, owner: int) -> Table:
        return self._order[self._ends[owner] : self._ends[owner + 1]]


class StreamEvents:
    """The events of one stream, in order of seqno, ready for many questions."""

    def __init__(self, table: Events) -> None:
        self.table = table
        self.collections = frozenset(np.unique(table.collection).tolist())
        self._seqno = np.ascontiguousarray(table.seqno)
        self._ended = np.ascontiguousarray(table.ended)
        self._key = np.ascontiguousarray(table.key)
        self._collection = np.where(np.isin(table.opcode, _VISIBLE), table.collection, _NO_COLLECTION)

    def between(self, after: int, before: int) -> slice:
        """Places of the events above the first and below the second seqno."""
        low, high = np.searchsorted(self._seqno, (after + 1, before))
        return slice(int(low), int(high))

    def _later(self, seqno: int, end: int) -> slice:
        return slice(int(np.searchsorted(self._seqno, seqno, "right")), int(np.searchsorted(self._seqno, end, "right")))

    def came_later(self, seqno: int, end: int, key: int, collection: int) -> bool:
        """Whether up to ``end`` a later event of a key came, or may have, or the end of its collection."""
        later = self._later(seqno, end)
        keys = self._key[later]
        same = (keys == key) & (self._collection[later] == collection)
        return bool((same | (keys < 0)).any()) or self.ended_later(seqno, end, collection)

    def ended_later(self, seqno: int, end: int, collection: int) -> bool:
        """Whether up to ``end`` the end of a collection came."""
        return bool((self._ended[self._later(seqno, end)] == collection).any())


def _of_one_branch(streams: Streams, branches: Table) -> list[Table]:
    """Streams of one vbucket and branch, where there are several."""
    known = np.flatnonzero((branches != 0) & (streams.seen > 0))
    known = known[np.lexsort((known, branches[known], streams.vbucket[known]))]
    edges = np.flatnonzero((np.diff(streams.vbucket[known]) != 0) | (np.diff(branches[known]) != 0)) + 1
    begins, ends = np.concatenate(([0], edges)), np.append(edges, len(known))
    several = ends - begins > 1
    return [known[begin:end] for begin, end in zip(begins[several].tolist(), ends[several].tolist(), strict=True)]


def no_spans(streams: int) -> Table:
    """As ``spans_of`` has them of so many streams without such gaps."""
    return np.repeat([[GREATEST, LEAST]], streams, axis=0)


def spans_of(gaps: Gaps, cause: Table, streams: int) -> Table:
    """By stream: the least seqno before a gap of which another stream may tell, and the greatest behind one."""
    spans, open_ = no_spans(streams), ~np.isin(cause, _SETTLED)
    np.minimum.at(spans[:, 0], gaps.stream[open_], gaps.after[open_])
    np.maximum.at(spans[:, 1], gaps.stream[open_], gaps.before[open_])
    return spans


def disputable(spans: Table, streams: Streams, branches: Table) -> Mask:
    """Streams that may have gaps in dispute, as far as ``spans`` tells, and those that may settle them."""
    found = np.zeros(len(streams), dtype=np.bool_)
    known = np.flatnonzero((branches != 0) & (streams.seen > 0))
    if not len(spans) or not len(known):
        return found
    group = Groups([streams.vbucket, branches], known).of[known]
    first, last, (low, high) = _least(streams, known), streams.last[known], spans[known].T
    has_gaps = low < high
    is_near = has_gaps & (first < high) & (last > low)  # to itself, which does not count
    # of a stream that begins above a gap, or ends below it, the gap tells nothing; no stream does both
    others = _below(group, first, group, high) - _below(group, last, group, low, "right") - is_near
    gaps_of = group[has_gaps]
    shown = _below(gaps_of, low[has_gaps], group, last) - _below(gaps_of, high[has_gaps], group, first, "right") - is_near
    found[known] = (has_gaps & (others > 0)) | (shown > 0)
    return found


def _below(groups: Table, values: Table, group: Table, limits: Table, side: Literal["left", "right"] = "left") -> Table:
    """How many values of each of some groups are below a limit; ``right``: or as great."""
    different = np.unique(values)
    step = len(different) + 1
    keys = np.sort(groups * step + np.searchsorted(different, values))
    first = np.searchsorted(keys, group * step)
    found: Table = np.searchsorted(keys, group * step + np.searchsorted(different, limits, side)) - first
    return found


def in_dispute(gaps: Gaps, cause: Table, streams: Streams, branches: Table) -> Mask:
    """Streams that have to be looked at together, because gaps of some are in dispute, or may be once those of others are left out."""
    hot = {number for gap, other in _disputed(gaps, cause, streams, branches) for number in (int(gaps.stream[gap]), other)}
    hot.update(gaps.stream[cause == w.UNEXPLAINED].tolist())
    found = np.zeros(len(streams), dtype=np.bool_)
    for group in _of_one_branch(streams, branches):
        found[group] = not hot.isdisjoint(group.tolist())
    return found


def _disputed(gaps: Gaps, cause: Table, streams: Streams, branches: Table) -> list[tuple[int, int]]:
    if not len(gaps):
        return []
    gaps_of = Grouped(gaps.stream, len(streams), np.lexsort((gaps.after, gaps.stream)))
    found: list[tuple[int, int]] = []
    is_open = ~np.isin(cause, _SETTLED)
    has_open = np.zeros(len(streams), dtype=np.bool_)
    has_open[gaps.stream[is_open]] = True
    for group in _of_one_branch(streams, branches):
        if not has_open[group].any():
            continue
        first, last = _least(streams, group), streams.last[group]
        for number in group[has_open[group]].tolist():
            mine = gaps_of[number]
            mine = mine[is_open[mine]]
            after, before = gaps.after[mine], gaps.before[mine]
            near = group[(first < before.max()) & (last > after.min()) & (group != number)]
            for other in near[:MOST_OTHERS].tolist():
                theirs = gaps_of[other]
                meets = (before > first[group == other]) & (after < streams.last[other])
                found += [(gap, other) for gap in mine[meets & ~_contained(after, before, gaps[theirs])].tolist()]
    return sorted(found)


def _least(streams: Streams, numbers: Table) -> Table:
    """Seqnos that are no greater than any that some streams received: the first one may be that of an OSO snapshot."""
    starts = np.where(streams.request.form[numbers] > 0, streams.request.start[numbers], LEAST)
    return np.minimum(streams.first[numbers], starts)


def _contained(after: Table, before: Table, others: Gaps) -> npt.NDArray[np.bool_]:
    """Which gaps another stream has as well, whole."""
    if not len(others):
        return np.zeros(len(after), dtype=np.bool_)
    place = np.searchsorted(others.after, after, side="right") - 1
    at = np.maximum(place, 0)
    return np.asarray((place >= 0) & (others.before[at] >= before), dtype=np.bool_)
