"""Gaps on which two streams of one vbucket and branch disagree: one lacks seqnos that the other has shown.

What the other shows tells why. Prepares, aborts and events that a client did not ask for are invisible to it. A change of a document it
did ask for, though, has to come, unless a later one of the same document came instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.collections import named_collections
from dcpinspect.streams.elsewhere import T_COLLECTION, T_ENDED, T_KEY, T_OPCODE, T_ROW, T_SEQNO, Interval, Shown, Wanted
from dcpinspect.streams.session import Session
from dcpinspect.streams.snapshots import DISK, HISTORY

Table = npt.NDArray[np.int64]

COLLECTIONS = "Collections"
SKIP_DELETES = 0x200
"""Open flag: deletions of the first backfill are left out."""

SYNC_WRITES = "enable_sync_writes"

MOST_OTHERS = 16
"""Streams that one stream is compared with: a client may have opened any number."""
_NO_COLLECTION = -2

_SETTLED = (w.LOSS, w.ROLLBACK, w.RESUMED, w.OUT_OF_ORDER, w.ADVANCED)
"""Causes that are known whatever other streams show."""
_COMPLETE = (w.COMPLETE, w.COMPLETE_ADVANCED)
_DELETIONS = (Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION)
_VISIBLE = (Opcode.DCP_MUTATION, Opcode.DCP_COMMIT, *_DELETIONS)
_PENDING = (Opcode.DCP_PREPARE, Opcode.DCP_ABORT)


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
class Told:
    """What another stream tells of a gap."""

    cause: int
    """-1: nothing, for want of events to compare."""
    stream: int
    event: Table | None = None
    """The first one in the gap that tells it, as ``elsewhere`` has it."""

    def or_rather(self, other: Told) -> Told:
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
        self, gaps: Table, cause: Table, streams: Table, snapshots: Table, branches: Table, *, first: int = 0, vbucket: int = 0
    ) -> None:
        """``branches``: newest uuid of the failover log of every stream, 0 where none is known; ``first``: gap from which on, as
        ``vbucket``."""
        self._gaps, self._streams, self._snapshots = gaps, streams, snapshots
        self._snapshots_of = Grouped(snapshots[:, s.N_STREAM], len(streams))
        pairs = _disputed(gaps[first:], cause[first:], streams, np.where(streams[:, s.S_VBUCKET] >= vbucket, branches, 0))
        self.pairs = [(first + gap, other) for gap, other in pairs]
        """(gap, stream that shows some of it)."""

    def wanted(self) -> Wanted:
        """The events that settle them."""
        intervals: dict[int, list[Interval]] = {}
        for gap, other in self.pairs:
            row = self._gaps[gap]
            run = int(row[s.G_AFTER]) + 1, int(row[s.G_BEFORE]) - 1
            last = max(run[1], self._end_of(gap))
            # of the stream itself, the later versions that came instead
            intervals.setdefault(int(row[s.G_STREAM]), []).append((run[0], last))
            intervals.setdefault(other, []).append((run[0], last))
        return Wanted(self._streams, intervals)

    def _end_of(self, gap: int) -> int:
        snapshot = int(self._gaps[gap, s.G_SNAPSHOT])
        if snapshot < 0 or self._snapshots[snapshot, s.N_LAYOUT] == s.UPR_LAYOUT:
            return s.LEAST
        return int(self._snapshots[snapshot, s.N_END])

    def settled(self, shown: Shown | None, asked: Mapping[int, Subscription] | Sequence[Subscription]) -> dict[int, Told]:
        """What is told of each gap of which anything is; ``asked`` by stream. Without ``shown``, that nothing was compared."""
        told: dict[int, Told] = {}
        events: dict[int, Events] = {}
        for gap, other in self.pairs:
            stream, after = (int(number) for number in self._gaps[gap, [s.G_STREAM, s.G_AFTER]])
            if shown is None or not (shown.has_from(stream, after) and shown.has_from(other, after)):
                told.setdefault(gap, Told(-1, other))
                continue
            for number in (stream, other):
                if number not in events:
                    events[number] = Events(shown.of(number))
            found = self._judged(gap, other, events[stream], events[other], asked[stream])
            if found is not None:
                told[gap] = told[gap].or_rather(found) if gap in told else found
        return told

    def _judged(self, gap: int, other: int, mine: Events, theirs: Events, asked: Subscription) -> Told | None:
        after, before = int(self._gaps[gap, s.G_AFTER]), int(self._gaps[gap, s.G_BEFORE])
        inside = theirs.table[theirs.between(after, before)]
        if not len(inside):
            return None
        place = self._missing(gap, other, inside, mine, theirs, asked)
        if place is not None:
            return Told(w.UNEXPLAINED, other, inside[place])
        hidden = set(() if asked.prepares else _PENDING) | set(() if asked.system_events else (int(Opcode.DCP_SYSTEM_EVENT),))
        if len(inside) == before - after - 1 and hidden.issuperset(inside[:, T_OPCODE].tolist()):
            return Told(w.INVISIBLE, other, inside[0])
        return None

    def _missing(self, gap: int, other: int, inside: Table, mine: Events, theirs: Events, asked: Subscription) -> int | None:
        """The first event of a gap that had to come, by its place among those inside."""
        number = int(self._gaps[gap, s.G_SNAPSHOT])
        if number < 0 or asked.collections is None:
            return None
        snapshot = self._snapshots[number]
        if snapshot[s.N_STATE] not in _COMPLETE or snapshot[s.N_TAINTED] or snapshot[s.N_LAYOUT] == s.UPR_LAYOUT:
            return None
        start, end = int(snapshot[s.N_START]), int(snapshot[s.N_END])
        # A backfill lacks what compaction purged; and a first marker begins where the client asked, not where its items do.
        is_all_there = not snapshot[s.N_FLAGS] & DISK and snapshot[s.N_INDEX] > 1
        told = inside[:, [T_SEQNO, T_OPCODE, T_KEY, T_COLLECTION, T_ROW]].tolist()
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
            if not is_all_there and not self._is_latest(other, row, end, came_again=theirs.came_later(seqno, end, key, collection)):
                continue
            if not mine.came_later(seqno, end, key, collection) and not theirs.ended_later(seqno, end, collection):
                return place
        return None

    def _is_latest(self, stream: int, row: int, end: int, *, came_again: bool) -> bool:
        """Whether an event is the latest of its key up to ``end``: its snapshot reaches so far, and has no more than one of a key.

        In one of history, which may have more, ``came_again`` says whether another one came.
        """
        own = self._snapshots_of[stream]  # in order of rows
        place = int(np.searchsorted(self._snapshots[own, s.N_PLACE + s.AT_ROW], row)) - 1
        if place < 0:
            return False
        snapshot = self._snapshots[own[place]]
        is_whole = not snapshot[s.N_TAINTED] and snapshot[s.N_LAYOUT] > s.UPR_LAYOUT and snapshot[s.N_END] >= end
        has_one = not snapshot[s.N_FLAGS] & HISTORY or (snapshot[s.N_STATE] in _COMPLETE and not came_again)
        return bool(is_whole and has_one)


class Grouped:
    """Numbers of rows by what they belong to."""

    def __init__(self, owner: Table, owners: int, order: Table | None = None) -> None:
        """``owner``: of each row, below ``owners``; ``order``: the rows by owner, as they are to stand; without, as they are."""
        self._order = np.argsort(owner, kind="stable") if order is None else order
        self._ends = np.searchsorted(owner[self._order], np.arange(owners + 1))

    def __getitem__(self, owner: int) -> Table:
        return self._order[self._ends[owner] : self._ends[owner + 1]]


class Events:
    """The events of one stream, in order of seqno, ready for many questions."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.collections = frozenset(np.unique(table[:, T_COLLECTION]).tolist())
        self._seqno = np.ascontiguousarray(table[:, T_SEQNO])
        self._ended = np.ascontiguousarray(table[:, T_ENDED])
        self._key = np.ascontiguousarray(table[:, T_KEY])
        self._collection = np.where(np.isin(table[:, T_OPCODE], _VISIBLE), table[:, T_COLLECTION], _NO_COLLECTION)

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


def _disputed(gaps: Table, cause: Table, streams: Table, branches: Table) -> list[tuple[int, int]]:
    known = np.flatnonzero((branches != 0) & (streams[:, s.S_SEEN] > 0))
    if len(known) < 2 or not len(gaps):
        return []
    place = streams[known, s.S_VBUCKET]
    order = np.lexsort((known, branches[known], place))
    known = known[order]
    edges = np.flatnonzero((np.diff(streams[known, s.S_VBUCKET]) != 0) | (np.diff(branches[known]) != 0)) + 1
    gaps_of = Grouped(gaps[:, s.G_STREAM], len(streams), np.lexsort((gaps[:, s.G_AFTER], gaps[:, s.G_STREAM])))
    found: list[tuple[int, int]] = []
    for group in np.split(known, edges):
        if len(group) < 2:
            continue
        first, last = _least(streams[group]), streams[group, s.S_LAST]
        for number in group.tolist():
            mine = gaps_of[number]
            mine = mine[~np.isin(cause[mine], _SETTLED)]
            if not len(mine):
                continue
            after, before = gaps[mine, s.G_AFTER], gaps[mine, s.G_BEFORE]
            near = group[(first < before.max()) & (last > after.min()) & (group != number)]
            for other in near[:MOST_OTHERS].tolist():
                theirs = gaps_of[other]
                meets = (before > first[group == other]) & (after < streams[other, s.S_LAST])
                found += [(gap, other) for gap in mine[meets & ~_contained(after, before, gaps[theirs])].tolist()]
    return sorted(found)


def _least(streams: Table) -> Table:
    """Seqnos that are no greater than any that streams received: the first one may be that of an out-of-order snapshot."""
    starts = np.where(streams[:, s.S_FORM] > 0, streams[:, s.S_START], s.LEAST)
    return np.minimum(streams[:, s.S_FIRST], starts)


def _contained(after: Table, before: Table, others: Table) -> npt.NDArray[np.bool_]:
    """Which gaps another stream has as well, whole."""
    if not len(others):
        return np.zeros(len(after), dtype=np.bool_)
    place = np.searchsorted(others[:, s.G_AFTER], after, side="right") - 1
    at = np.maximum(place, 0)
    return np.asarray((place >= 0) & (others[at, s.G_BEFORE] >= before), dtype=np.bool_)
