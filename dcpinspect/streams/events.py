"""Events of streams that somebody needs a second time: which change was each seqno, of which key, in which row.

Nothing of this is kept while messages pass. Files are read again, and only for the seqnos on which two streams of a vbucket disagree;
of what cannot be read twice the latest events are remembered.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from dcpinspect.kernel import Octets, kernel
from dcpinspect.protocol.columns import Rows, Slices
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.session import CollectionsState
from dcpinspect.streams.changes import TOLD_OF_KEY, Change, Changes, Event, Events, KeyStart, changes_of
from dcpinspect.streams.latest import Latest
from dcpinspect.streams.rows import FILE_SHIFT, GREATEST, LEAST, Streams
from dcpinspect.streams.state import biased
from dcpinspect.structs import Ints
from dcpinspect.tables.messages import MessageBatch

Interval = tuple[int, int]
"""Biased seqnos, both included."""


RECENT = 1 << 18
"""Events remembered of what cannot be read twice: 59 MB."""
MOST = 1 << 19
"""Events looked at together to compare streams; of those of which only the changes are kept, as many as take the same memory."""
VBUCKETS = 1 << 16
"""As many as two bytes can tell apart."""

_CONNECTION_SHIFT = 34
_END_COLLECTION = 1
_SIDES: Sequence[Literal["left", "right"]] = ("left", "right")
_PRIME = (1 << 31) - 1


def new_secrets() -> tuple[int, int]:
    """By which keys are hashed: they are chosen by clients, and nobody shall choose which ones collide."""
    return 2 + secrets.randbelow(_PRIME - 2), 2 + secrets.randbelow(_PRIME - 2)


_SECRETS = new_secrets()
_IS_EVENT = opcodes_with(Trait.EVENT)


@kernel("void(octets[::1], int64[::1], int64[::1], int64, int64, int64[::1])")
def hash_keys(data: Octets, start: Ints, size: Ints, one: int, two: int, out: Ints) -> None:
    """Polynomial hashes over the prime 2**31 - 1 at two secret points, of the bytes [start, start + size): linear in their number.

    A remainder takes longer than all else and waits for the one before, so four bytes have one.
    """
    one2, two2 = one * one % 2147483647, two * two % 2147483647
    one3, two3 = one2 * one % 2147483647, two2 * two % 2147483647
    one4, two4 = one3 * one % 2147483647, two3 * two % 2147483647
    for i in range(len(start)):
        high, low = 1, 1
        at, end = start[i], start[i] + size[i]
        while at + 4 <= end:
            a, b, c, d = int(data[at]) + 1, int(data[at + 1]) + 1, int(data[at + 2]) + 1, int(data[at + 3]) + 1
            high = (high * one4 + (a * one3 + b * one2 + c * one + d)) % 2147483647
            low = (low * two4 + (a * two3 + b * two2 + c * two + d)) % 2147483647
            at += 4
        while at < end:
            byte = int(data[at]) + 1
            high = (high * one + byte) % 2147483647
            low = (low * two + byte) % 2147483647
            at += 1
        out[i] = (high << 31) | low


@kernel("void(octets, int64[::1], int64[::1], uint8[:,::1])")
def copy_keys(data: Octets, start: Ints, size: Ints, out: Octets) -> None:
    """The first bytes of [start, start + size), as many as a row of ``out`` has, which is zero."""
    for i in range(len(start)):
        for at in range(min(size[i], out.shape[1])):
            out[i, at] = data[start[i] + at]


def events_of(
    batch: MessageBatch,
    keys: Ints | None = None,
    connections: Ints | None = None,
    secrets_: tuple[int, int] = _SECRETS,
    *,
    with_values: bool = False,
) -> Events:
    """The events of a batch; ``keys``: only those of these streams, as ``stream_keys`` numbers them.

    ``connections``: other numbers of the batch's connections; ``secrets_``: by which keys, and values if asked for, are hashed.
    """
    decoded = batch.decoded
    seqnos = decoded.numbers.get("by_seqno")
    if seqnos is None:
        return Events.zeros(0)
    is_event = _IS_EVENT[decoded.opcode] & ~decoded.is_response & ~decoded.is_server & decoded.has_magic
    if seqnos.valid is not None:
        is_event &= seqnos.valid
    rows = np.flatnonzero(is_event)
    connection = batch.connection if connections is None else connections[batch.connection]
    sid = decoded.sid.values[rows].astype(np.int64)
    if decoded.sid.valid is not None:
        sid[~decoded.sid.valid[rows]] = -1
    if keys is not None and len(rows):
        chosen = np.isin(stream_keys(connection[rows], decoded.specific[rows].astype(np.int64), sid), keys)
        rows, sid = rows[chosen], sid[chosen]
    table = Events.zeros(len(rows))
    if not len(rows):
        return table
    place = table.place
    place.row, place.offset, place.time = batch.row[rows], batch.stream_offset[rows], batch.time_ns[rows]
    place.frame = (batch.last_file[rows] << FILE_SHIFT) | batch.last_frame[rows]
    table.connection = connection[rows]
    table.vbucket = decoded.specific[rows]
    table.sid = sid
    table.seqno = biased(seqnos.values[rows])
    table.opcode = decoded.opcode[rows].astype(np.int64)
    table.collection = collections_of(batch, rows)
    event = decoded.numbers.get("event")
    ends = table.opcode == Opcode.DCP_SYSTEM_EVENT
    if event is not None:
        ends &= event.values[rows].astype(np.int64) == _END_COLLECTION
    table.ended = np.where(ends, table.collection, -1)
    table.key = key_hashes(batch, rows, secrets_)
    table.cas = decoded.cas[rows].view(np.int64)
    table.datatype = decoded.datatype[rows].astype(np.int64)
    table.value[:] = _hashes(batch, decoded.value, rows, secrets_) if with_values else -1
    key = decoded.key
    size = np.maximum(key.size[rows], 0)
    told = np.zeros((len(rows), TOLD_OF_KEY), dtype=np.uint8)
    copy_keys(len(rows), batch.data, np.ascontiguousarray(key.start[rows]), size, told)
    table.key_size = size
    table.array["key_start"] = told.view(KeyStart.dtype)[:, 0]
    return table


def key_hashes(batch: MessageBatch, rows: Rows, secrets_: tuple[int, int] = _SECRETS) -> Rows:
    """A number of 62 bits for the key of each message, without its collection; -1 where the capture lacks part of the message."""
    return _hashes(batch, batch.decoded.key, rows, secrets_)


def _hashes(batch: MessageBatch, part: Slices, rows: Rows, secrets_: tuple[int, int]) -> Rows:
    start, size = np.ascontiguousarray(part.start[rows]), np.maximum(part.size[rows], 0)
    hashed: Rows = np.empty(len(rows), dtype=np.int64)
    hash_keys(len(rows), batch.data, start, size, *secrets_, hashed)
    if len(batch.missing.row):
        hashed[np.isin(rows, batch.missing.row)] = -1
    return hashed


def collections_of(batch: MessageBatch, rows: Rows) -> Rows:
    """Collection of each message, -1 where it is not known."""
    known = batch.decoded.collection_id
    values: Rows = known.values[rows].astype(np.int64)
    if known.valid is not None:
        without = np.where(batch.decoded.collections[rows] == CollectionsState.OFF, 0, -1)
        values = np.where(known.valid[rows], values, without)
    return values


def stream_keys(connection: Ints, vbucket: Ints, sid: Ints) -> Ints:
    """One number for connection, vbucket and stream-id (-1 for none)."""
    return (connection << _CONNECTION_SHIFT) | (vbucket << 17) | (sid + 1)


def vbucket_of(key: Any) -> Any:
    """The vbucket of a stream's key, or of each of some."""
    return key >> 17 & (VBUCKETS - 1)


class Intervals(NamedTuple):
    """Seqnos of streams, as columns."""

    stream: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, intervals: Mapping[int, Sequence[Interval]]) -> Self:
        """By number of the stream."""
        rows = [(number, low, high) for number, found in intervals.items() for low, high in found]
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)

    def _without_covered(self) -> Intervals:
        """The same, of streams that have one interval that covers all others no other one."""
        size = 1 + int(self.stream.max(initial=-1))
        low, high = np.full(size, GREATEST), np.full(size, LEAST)
        np.minimum.at(low, self.stream, self.low)
        np.maximum.at(high, self.stream, self.high)
        covers = (self.low == low[self.stream]) & (self.high == high[self.stream])
        is_covered = np.zeros(size, dtype=np.bool_)
        is_covered[self.stream[covers]] = True
        whole, others = np.flatnonzero(is_covered), ~is_covered[self.stream]
        pairs = ((whole, self.stream), (low[whole], self.low), (high[whole], self.high))
        return Intervals(*(np.concatenate((own, column[others])) for own, column in pairs))

    def merged(self) -> Intervals:
        """The same, sorted and apart."""
        some = self._without_covered()
        order = np.lexsort((some.high, some.low, some.stream))
        stream, low, high = (column[order] for column in some)
        highs, rank = np.unique(high, return_inverse=True)
        step = len(highs) + 1
        number = np.cumsum(np.diff(stream, prepend=-1) != 0)
        reached = np.maximum.accumulate(number * step + rank.reshape(-1))  # those of a stream are above those of the streams before
        last = highs[reached % step] if len(highs) else high
        is_start = np.ones(len(stream), dtype=np.bool_)
        is_start[1:] = (number[1:] != number[:-1]) | (low[1:] > last[:-1])
        starts = np.flatnonzero(is_start)
        ends = np.append(starts[1:], len(stream))[: len(starts)] - 1
        return Intervals(stream[starts], low[starts], last[ends])


class EventQuery:
    """Which seqnos of which streams somebody needs."""

    def __init__(self, streams: Streams, intervals: Mapping[int, Sequence[Interval]] | Intervals, *, is_brief: bool = False) -> None:
        """``intervals``: in any order, overlapping or not; ``is_brief``: of events their changes will do."""
        self.is_brief = is_brief
        self.secrets = _SECRETS
        """By which all keys are hashed that are compared with each other, whoever reads them."""
        self._intervals = (intervals if isinstance(intervals, Intervals) else Intervals.of(intervals)).merged()
        self._numbers = np.unique(self._intervals.stream)
        of = self._numbers
        self.keys: Ints = stream_keys(streams.connection[of], streams.vbucket[of], streams.sid[of])
        self._first, self._last = streams.opened.row[of], streams.latest.row[of]
        self._by_key = np.argsort(self.keys, kind="stable")

    @property
    def first_row(self) -> int:
        """Row of the first message of any of the streams; 0 without streams, as ``last_row``."""
        return int(self._first.min()) if len(self._first) else 0

    @property
    def last_row(self) -> int:
        """Row of the last one."""
        return int(self._last.max()) if len(self._last) else 0

    @property
    def connections(self) -> Ints:
        """The connections that have the wanted streams."""
        return np.unique(self.keys >> _CONNECTION_SHIFT)

    def on(self, connections: Ints) -> EventQuery:
        """What of it is on some connections."""
        chosen = np.isin(self.keys >> _CONNECTION_SHIFT, connections)
        some = copy(self)
        some._numbers, some.keys, some._first, some._last = (of[chosen] for of in (self._numbers, self.keys, self._first, self._last))
        some._by_key = np.argsort(some.keys, kind="stable")
        own = np.isin(self._intervals.stream, some._numbers)
        some._intervals = Intervals(*(column[own] for column in self._intervals))
        return some

    def place(self, stream: int) -> tuple[int, int]:
        """(key, row that opened it) of a stream."""
        at = int(np.searchsorted(self._numbers, stream))
        return int(self.keys[at]), int(self._first[at])

    def vbuckets(self, streams: Ints) -> Ints:
        """The vbuckets of streams."""
        found: Ints = vbucket_of(self.keys[np.searchsorted(self._numbers, streams)])
        return found

    def of(self, events: Events) -> list[tuple[int, Events]]:
        """(stream, its events among these), as far as they are wanted."""
        if not len(events):
            return []
        keys = stream_keys(events.connection, events.vbucket, events.sid)
        order = np.argsort(keys, kind="stable")
        different, starts = np.unique(keys[order], return_index=True)
        begins, ends = (np.searchsorted(self.keys[self._by_key], different, side).tolist() for side in _SIDES)
        found = []
        for begin, end, own in zip(begins, ends, np.split(order, starts[1:]), strict=True):
            for at in self._by_key[begin:end].tolist():
                number = int(self._numbers[at])
                low, high = (int(np.searchsorted(self._intervals.stream, number, side)) for side in _SIDES)
                lows, highs = self._intervals.low[low:high], self._intervals.high[low:high]
                row, seqno = events.place.row[own], events.seqno[own]
                place = np.searchsorted(lows, seqno, side="right") - 1
                chosen = (place >= 0) & (seqno <= highs[np.maximum(place, 0)]) & (row >= self._first[at]) & (row <= self._last[at])
                if chosen.any():
                    found.append((number, events[own[chosen]]))
        return found


class FoundEvents:
    """The wanted events, as far as they were found."""

    def __init__(self, wanted: EventQuery, forgotten: Mapping[int, tuple[int, int]] | None = None) -> None:
        """``forgotten``: by key of the stream, row of the latest event that cannot be had, and the greatest seqno of those."""
        self.wanted = wanted
        self.vbuckets = VBUCKETS
        """Of vbuckets from this one on there are more events than anyone looks at, together with those of the vbuckets before."""
        self._forgotten = forgotten or {}
        self._events: dict[int, list[Events]] = {}
        self._changes: dict[int, list[Changes]] = {}
        """Of each stream one of the two."""
        self._counts: Ints = np.zeros(VBUCKETS, dtype=np.int64)

    def take(self, events: Events) -> None:
        """What there is of them among these events."""
        for number, found in self.wanted.of(events):
            vbucket = int(found.vbucket[0])
            self._counts[vbucket] += len(found)
            if vbucket < self.vbuckets and self.wanted.is_brief:
                self._changes.setdefault(number, []).append(changes_of(found))
            elif vbucket < self.vbuckets:
                self._events.setdefault(number, []).append(found)
        self._limit()

    def _limit(self) -> None:
        most = MOST * Event.dtype.itemsize // Change.dtype.itemsize if self.wanted.is_brief else MOST
        if self._counts[: self.vbuckets].sum() > most:
            self.vbuckets = int(np.searchsorted(np.cumsum(self._counts), most, side="right"))
            for number in [*self._events, *self._changes]:
                if vbucket_of(self.wanted.place(number)[0]) >= self.vbuckets:
                    self._events.pop(number, None)
                    self._changes.pop(number, None)

    def feed(self, batch: MessageBatch, connections: Ints | None = None) -> None:
        """The same for a batch of messages that are read again; ``connections``: the numbers that its own have where they are wanted."""
        self.take(events_of(batch, self.wanted.keys, connections, self.wanted.secrets, with_values=self.wanted.is_brief))

    def divided(self, shares: int) -> list[dict[int, Changes]]:
        """The changes by stream, those of a vbucket in one of so many shares."""
        found: list[dict[int, Changes]] = [{} for _ in range(shares)]
        for number in self._changes:
            found[vbucket_of(self.wanted.place(number)[0]) % shares][number] = self.changes(number)
        return found

    @staticmethod
    def joined(wanted: EventQuery, parts: Iterable[FoundEvents]) -> FoundEvents:
        """What was found by several that looked at different connections."""
        whole = FoundEvents(wanted)
        for part in parts:
            whole._counts += part._counts
            whole._events |= part._events
            whole._changes |= part._changes
            whole._limit()
        return whole

    def of(self, stream: int) -> Events:
        """The events of a stream in order of seqno."""
        events = Events.joined(self._events.get(stream, ()))
        return events[np.argsort(events.seqno, kind="stable")]

    def changes(self, stream: int) -> Changes:
        """The changes of a stream in order of seqno, where these are what is wanted."""
        changes = Changes.joined(self._changes.get(stream, ()))
        return changes[np.argsort(changes.seqno, kind="stable")]

    def has_from(self, stream: int, after: int) -> bool:
        """Whether every event of a stream above a (biased) seqno that was captured can be had."""
        key, first_row = self.wanted.place(stream)
        row, seqno = self._forgotten.get(key, (-1, LEAST))
        return vbucket_of(key) < self.vbuckets and (row < first_row or seqno <= after)


class RecentEvents:
    """The latest events of a reading that cannot be repeated."""

    def __init__(self, most: int = RECENT) -> None:
        self._most = most
        self._latest = Latest(Events)
        self._forgotten: dict[int, tuple[int, int]] = {}

    @property
    def is_full(self) -> bool:
        """Whether it is time to ``forget``."""
        return len(self._latest) > self._most

    def feed(self, batch: MessageBatch, *, with_values: bool = False) -> None:
        """The next messages."""
        self._latest.add(events_of(batch, with_values=with_values))

    def forget(self) -> None:
        """Forgets the older half of what may be remembered, or of what is."""
        count = len(self) - min(self._most, len(self)) // 2
        old = self._latest.rows[:count]
        keys, number = np.unique(stream_keys(old.connection, old.vbucket, old.sid), return_inverse=True)
        row, seqno = np.zeros(len(keys), dtype=np.int64), np.full(len(keys), LEAST)
        np.maximum.at(row, number.reshape(-1), old.place.row)
        np.maximum.at(seqno, number.reshape(-1), old.seqno)
        for key, last, greatest in zip(keys.tolist(), row.tolist(), seqno.tolist(), strict=True):
            self._forgotten[key] = last, max(greatest, self._forgotten.get(key, (0, LEAST))[1])
        self._latest.drop(count)

    def leave(self, connections: set[int]) -> None:
        """Nobody asks what of these was forgotten."""
        self._forgotten = {key: told for key, told in self._forgotten.items() if key >> _CONNECTION_SHIFT not in connections}

    def __len__(self) -> int:
        return len(self._latest)

    @property
    def first_row(self) -> int:
        """Row of the oldest event that is remembered."""
        return int(self._latest.rows.place.row[0]) if len(self) else 0

    @property
    def last_row(self) -> int:
        """Row of the newest one."""
        return int(self._latest.rows.place.row.max()) if len(self) else 0

    def shown(self, wanted: EventQuery) -> FoundEvents:
        """What is remembered of the wanted events."""
        shown = FoundEvents(wanted, self._forgotten)
        shown.take(self._latest.rows)
        return shown
