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
from dcpinspect.streams.snapshots import DISK

Table = npt.NDArray[np.int64]

COLLECTIONS = "Collections"
SKIP_DELETES = 0x200
"""Open flag: deletions of the first backfill are left out."""

SYNC_WRITES = "enable_sync_writes"

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

    def __init__(self, gaps: Table, cause: Table, streams: Table, snapshots: Table, branches: Table, *, first: int = 0) -> None:
        """``branches``: newest uuid of the failover log of every stream, 0 where none is known; ``first``: gap from which on."""
        self._gaps, self._streams, self._snapshots = gaps, streams, snapshots
        pairs = _disputed(gaps[first:], cause[first:], streams, branches)
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
        events: dict[int, Table] = {}
        for gap, other in self.pairs:
            stream, after = (int(number) for number in self._gaps[gap, [s.G_STREAM, s.G_AFTER]])
            if shown is None or not (shown.has_from(stream, after) and shown.has_from(other, after)):
                told.setdefault(gap, Told(-1, other))
                continue
            for number in (stream, other):
                if number not in events:
                    events[number] = shown.of(number)
            found = self._judged(gap, other, events[stream], events[other], asked[stream])
            if found is not None:
                told[gap] = told[gap].or_rather(found) if gap in told else found
        return told

    def _judged(self, gap: int, other: int, mine: Table, theirs: Table, asked: Subscription) -> Told | None:
        after, before = int(self._gaps[gap, s.G_AFTER]), int(self._gaps[gap, s.G_BEFORE])
        low, high = np.searchsorted(theirs[:, T_SEQNO], (after + 1, before))
        inside = theirs[low:high]
        if not len(inside):
            return None
        place = self._missing(gap, other, inside, mine, theirs, asked)
        if place is not None:
            return Told(w.UNEXPLAINED, other, inside[place])
        hidden = np.isin(inside[:, T_OPCODE], () if asked.prepares else _PENDING)
        if not asked.system_events:
            hidden |= inside[:, T_OPCODE] == Opcode.DCP_SYSTEM_EVENT
        if hidden.all() and len(inside) == before - after - 1:
            return Told(w.INVISIBLE, other, inside[0])
        return None

    def _missing(self, gap: int, other: int, inside: Table, mine: Table, theirs: Table, asked: Subscription) -> int | None:
        """The first event of a gap that had to come, by its place among those inside."""
        number = int(self._gaps[gap, s.G_SNAPSHOT])
        if number < 0 or asked.collections is None:
            return None
        snapshot = self._snapshots[number]
        if snapshot[s.N_STATE] not in _COMPLETE or snapshot[s.N_TAINTED] or snapshot[s.N_LAYOUT] == s.UPR_LAYOUT:
            return None
        end = int(snapshot[s.N_END])
        # A backfill lacks what compaction purged; and a first marker begins where the client asked, not where its items do.
        is_all_there = not snapshot[s.N_FLAGS] & DISK and snapshot[s.N_INDEX] > 1
        for place in range(len(inside)):
            seqno, opcode = int(inside[place, T_SEQNO]), int(inside[place, T_OPCODE])
            key, collection = int(inside[place, T_KEY]), int(inside[place, T_COLLECTION])
            if opcode not in _VISIBLE or key < 0 or collection < 0 or not snapshot[s.N_START] <= seqno <= end:
                continue
            # Without a filter a client has all collections but those that it may not know of.
            is_asked = collection in asked.collections or (asked.collections >= EVERYTHING and (mine[:, T_COLLECTION] == collection).any())
            if not is_asked:
                continue
            if opcode in _DELETIONS and not (asked.deletions and is_all_there):
                continue
            if not is_all_there and not (asked.deletions and self._covers(other, int(inside[place, T_ROW]), end)):
                continue
            if not _came_later(mine, seqno, end, key, collection) and not _came_later(theirs, seqno, end, key, collection, ended=True):
                return place
        return None

    def _covers(self, stream: int, row: int, end: int) -> bool:
        """Whether the snapshot of an event reaches to ``end``: then the event is the latest of its key up to there."""
        of_stream = self._snapshots[self._snapshots[:, s.N_STREAM] == stream]
        before = of_stream[of_stream[:, s.N_PLACE + s.AT_ROW] < row]
        return bool(len(before) and before[-1, s.N_LAYOUT] > s.UPR_LAYOUT and before[-1, s.N_END] >= end)


def _came_later(events: Table, seqno: int, end: int, key: int, collection: int, *, ended: bool = False) -> bool:
    """Whether up to ``end`` a later event of a key came, or may have, or the end of its collection; with ``ended`` that end alone."""
    low, high = np.searchsorted(events[:, T_SEQNO], (seqno + 1, end), side="left")
    later = events[low : high + 1]
    later = later[later[:, T_SEQNO] <= end]
    is_end = later[:, T_ENDED] == collection
    if ended:
        return bool(is_end.any())
    same = (later[:, T_KEY] == key) & (later[:, T_COLLECTION] == collection) & np.isin(later[:, T_OPCODE], _VISIBLE)
    return bool((is_end | same | (later[:, T_KEY] < 0)).any())


def _disputed(gaps: Table, cause: Table, streams: Table, branches: Table) -> list[tuple[int, int]]:
    known = np.flatnonzero((branches != 0) & (streams[:, s.S_SEEN] > 0))
    if len(known) < 2 or not len(gaps):
        return []
    place = streams[known, s.S_VBUCKET]
    order = np.lexsort((known, branches[known], place))
    known = known[order]
    edges = np.flatnonzero((np.diff(streams[known, s.S_VBUCKET]) != 0) | (np.diff(branches[known]) != 0)) + 1
    by_stream = np.argsort(gaps[:, s.G_STREAM], kind="stable")
    found: list[tuple[int, int]] = []
    for group in np.split(known, edges):
        if len(group) < 2:
            continue
        of = {int(number): _gaps_of(int(number), gaps, by_stream) for number in group}
        first, last = _least(streams[group]), streams[group, s.S_LAST]
        for number in group.tolist():
            mine = of[number]
            mine = mine[~np.isin(cause[mine], _SETTLED)]
            if not len(mine):
                continue
            after, before = gaps[mine, s.G_AFTER], gaps[mine, s.G_BEFORE]
            near = group[(first < before.max()) & (last > after.min()) & (group != number)]
            for other in near.tolist():
                theirs = of[other]
                meets = (before > first[group == other]) & (after < streams[other, s.S_LAST])
                found += [(gap, other) for gap in mine[meets & ~_contained(after, before, gaps[theirs])].tolist()]
    return sorted(found)


def _least(streams: Table) -> Table:
    """Seqnos that are no greater than any that streams received: the first one may be that of an out-of-order snapshot."""
    starts = np.where(streams[:, s.S_FORM] > 0, streams[:, s.S_START], s.LEAST)
    return np.minimum(streams[:, s.S_FIRST], starts)


def _gaps_of(stream: int, gaps: Table, by_stream: Table) -> Table:
    """Numbers of a stream's gaps, in order of their seqnos."""
    low, high = np.searchsorted(gaps[by_stream, s.G_STREAM], (stream, stream + 1))
    numbers = by_stream[low:high]
    return numbers[np.argsort(gaps[numbers, s.G_AFTER], kind="stable")]


def _contained(after: Table, before: Table, others: Table) -> npt.NDArray[np.bool_]:
    """Which gaps another stream has as well, whole."""
    if not len(others):
        return np.zeros(len(after), dtype=np.bool_)
    place = np.searchsorted(others[:, s.G_AFTER], after, side="right") - 1
    at = np.maximum(place, 0)
    return np.asarray((place >= 0) & (others[at, s.G_BEFORE] >= before), dtype=np.bool_)
