"""Events of streams that are read a second time: which change each seqno was, of which key, in
which row.

None of this is kept while messages pass. Files are read again, and only for the seqnos on which two
streams of a vbucket disagree. For a reading that cannot be read twice, the latest events are
remembered.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray, unique
from dcpinspect.kernels.kernel import kernel
from dcpinspect.protocol.column_types import RowNumbers, Slices
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.session import CollectionsState
from dcpinspect.streams.changes import (
    TOLD_OF_KEY,
    Change,
    ChangeEvent,
    Changes,
    Events,
    KeyStart,
    changes_of,
)
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.latest_rows import LatestRows
from dcpinspect.streams.records import GREATEST, LEAST, Streams
from dcpinspect.streams.session import put_places
from dcpinspect.streams.state import biased
from dcpinspect.tables.messages import MessageBatch

Interval = tuple[int, int]
"""First and last seqno, biased, both included."""


RECENT = 1 << 18
"""Number of events remembered for a reading that cannot be read twice: 59 MB."""
MOST = 1 << 19
"""Events looked at together to compare streams. Bare changes: as much memory's worth."""
VBUCKETS = 1 << 16
"""Number of vbuckets: as many as two bytes can tell apart."""

_CONNECTION_SHIFT = 34
_END_COLLECTION = 1
_SIDES: Sequence[Literal["left", "right"]] = ("left", "right")
_PRIME = (1 << 31) - 1


def new_secrets() -> tuple[int, int]:
    """Returns two secret numbers by which keys are hashed: clients choose the keys, but must not be
    able to choose which keys collide.
    """
    return 2 + secrets.randbelow(_PRIME - 2), 2 + secrets.randbelow(_PRIME - 2)


_SECRETS = new_secrets()
_IS_EVENT = opcodes_with(Trait.EVENT)


@kernel("void(octets[::1], int64[::1], int64[::1], int64, int64, int64[::1])")
def hash_keys(
    data: ByteArray,
    start: IntArray,
    size: IntArray,
    first_secret: int,
    second_secret: int,
    hashes: IntArray,
) -> None:
    """Writes a polynomial hash over the prime 2**31 - 1 at two secret points, for each range of
    bytes [start, start + size); -1 for zeros alone, which ``-w --redact`` leaves of a text.

    The time is linear in the number of bytes. A remainder takes longer than everything else and
    waits for the one before, so four bytes share one remainder.
    """
    one2 = first_secret * first_secret % 2147483647
    two2 = second_secret * second_secret % 2147483647
    one3, two3 = one2 * first_secret % 2147483647, two2 * second_secret % 2147483647
    one4, two4 = one3 * first_secret % 2147483647, two3 * second_secret % 2147483647
    for i in range(len(start)):
        high, low = 1, 1
        offset, end = start[i], start[i] + size[i]
        while offset < end and data[offset] == 0:
            offset += 1
        if offset == end and size[i] > 0:
            hashes[i] = -1
            continue
        offset = start[i]
        while offset + 4 <= end:
            a = int(data[offset]) + 1
            b = int(data[offset + 1]) + 1
            c = int(data[offset + 2]) + 1
            d = int(data[offset + 3]) + 1
            high = (high * one4 + (a * one3 + b * one2 + c * first_secret + d)) % 2147483647
            low = (low * two4 + (a * two3 + b * two2 + c * second_secret + d)) % 2147483647
            offset += 4
        while offset < end:
            byte = int(data[offset]) + 1
            high = (high * first_secret + byte) % 2147483647
            low = (low * second_secret + byte) % 2147483647
            offset += 1
        hashes[i] = (high << 31) | low


@kernel("void(octets, int64[::1], int64[::1], uint8[:,::1])")
def copy_keys(data: ByteArray, start: IntArray, size: IntArray, first_bytes: ByteArray) -> None:
    """Writes the first bytes of each range [start, start + size) to a row of ``first_bytes``, as
    many as fit; the rest stays zero.
    """
    for i in range(len(start)):
        for offset in range(min(size[i], first_bytes.shape[1])):
            first_bytes[i, offset] = data[start[i] + offset]


def events_of(
    batch: MessageBatch,
    query: EventQuery | None = None,
    connections: IntArray | None = None,
    *,
    with_values: bool = False,
) -> Events:
    """Returns the events of a batch.

    ``query``: only events of its streams, with its secret numbers for hashes of keys, and of values
    if ``with_values``. ``connections``: other numbers to give to the connections of the batch.
    """
    secrets_ = _SECRETS if query is None else query.secrets
    decoded = batch.decoded
    seqnos = decoded.numbers.get("by_seqno")
    if seqnos is None:
        return Events.zeros(0)
    is_event = decoded.is_request & _IS_EVENT[decoded.opcode]
    if seqnos.valid is not None:
        is_event &= seqnos.valid
    rows = np.flatnonzero(is_event)
    connection = batch.connection if connections is None else connections[batch.connection]
    sid = np.where(decoded.sid.is_known[rows], decoded.sid.values[rows].astype(np.int64), -1)
    if query is not None and len(rows):
        vbucket = decoded.specific[rows].astype(np.int64)
        is_wanted = np.isin(query.keys_of(connection[rows], vbucket, sid), query.keys)
        rows, sid = rows[is_wanted], sid[is_wanted]
    table = Events.zeros(len(rows))
    if not len(rows):
        return table
    put_places(table.place, batch, rows)
    table.connection = connection[rows]
    table.vbucket = decoded.specific[rows]
    table.sid = sid
    table.seqno = biased(seqnos.values[rows])
    table.opcode = decoded.opcode[rows].astype(np.int64)
    table.collection = collections_of(batch, rows)
    ends = (table.opcode == Opcode.DCP_SYSTEM_EVENT) & (
        batch.column("event").values[rows].astype(np.int64) == _END_COLLECTION
    )
    table.ended = np.where(ends, table.collection, -1)
    table.key = key_hashes(batch, rows, secrets_)
    table.cas = decoded.cas[rows].view(np.int64)
    table.datatype = decoded.datatype[rows].astype(np.int64)
    table.value[:] = _hashes(batch, decoded.value, rows, secrets_) if with_values else -1
    key = decoded.key
    size = np.maximum(key.size[rows], 0)
    first_bytes = np.zeros((len(rows), TOLD_OF_KEY), dtype=np.uint8)
    copy_keys(batch.data, np.ascontiguousarray(key.start[rows]), size, first_bytes)
    table.key_size = size
    table.array["key_start"] = first_bytes.view(KeyStart.dtype)[:, 0]
    return table


def key_hashes(
    batch: MessageBatch, rows: RowNumbers, secrets_: tuple[int, int] = _SECRETS
) -> RowNumbers:
    """Returns a hash of 62 bits of each message's key, without its collection; -1 where the capture
    lacks part of the message, or its key was redacted.
    """
    return _hashes(batch, batch.decoded.key, rows, secrets_)


def _hashes(
    batch: MessageBatch, slices: Slices, rows: RowNumbers, secrets_: tuple[int, int]
) -> RowNumbers:
    start, size = np.ascontiguousarray(slices.start[rows]), np.maximum(slices.size[rows], 0)
    hashed: RowNumbers = np.empty(len(rows), dtype=np.int64)
    hash_keys(batch.data, start, size, *secrets_, hashed)
    if len(batch.missing.row):
        hashed[np.isin(rows, batch.missing.row)] = -1
    return hashed


def collections_of(batch: MessageBatch, rows: RowNumbers) -> RowNumbers:
    """Returns the collection of each message, -1 where it is not known."""
    collection_ids = batch.decoded.collection_id
    values: RowNumbers = collection_ids.values[rows].astype(np.int64)
    if collection_ids.valid is not None:
        without = np.where(batch.decoded.collections[rows] == CollectionsState.OFF, 0, -1)
        values = np.where(collection_ids.valid[rows], values, without)
    return values


def stream_keys(connection: IntArray, vbucket: IntArray, sid: IntArray) -> IntArray:
    """Returns one number for each connection, vbucket and stream-id (-1 for none)."""
    return (connection << _CONNECTION_SHIFT) | (vbucket << 17) | (sid + 1)


def vbucket_of(key: Any) -> Any:
    """Returns the vbucket of a number from ``stream_keys``, or of each number of an array."""
    return key >> 17 & (VBUCKETS - 1)


class Intervals(NamedTuple):
    """Intervals of seqnos of streams, as columns."""

    stream: IntArray
    low: IntArray
    high: IntArray

    @classmethod
    def from_streams(cls, intervals: Mapping[int, Sequence[Interval]]) -> Self:
        """Returns the columns of intervals that are given by number of the stream."""
        rows = [
            (number, low, high)
            for number, stream_intervals in intervals.items()
            for low, high in stream_intervals
        ]
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)

    def _without_covered(self) -> Intervals:
        """Returns the intervals without those that another interval of the same stream covers, if
        that one covers all of them.
        """
        size = 1 + int(self.stream.max(initial=-1))
        low, high = np.full(size, GREATEST), np.full(size, LEAST)
        np.minimum.at(low, self.stream, self.low)
        np.maximum.at(high, self.stream, self.high)
        covers = (self.low == low[self.stream]) & (self.high == high[self.stream])
        is_covered = np.zeros(size, dtype=np.bool_)
        is_covered[self.stream[covers]] = True
        covered_streams, is_uncovered = np.flatnonzero(is_covered), ~is_covered[self.stream]
        pairs = (
            (covered_streams, self.stream),
            (low[covered_streams], self.low),
            (high[covered_streams], self.high),
        )
        return Intervals(
            *(np.concatenate((limit, column[is_uncovered])) for limit, column in pairs)
        )

    def merged(self) -> Intervals:
        """Returns the intervals sorted; those that overlap are merged into one."""
        intervals = self._without_covered()
        order = np.lexsort((intervals.high, intervals.low, intervals.stream))
        stream, low, high = (column[order] for column in intervals)
        highs, rank = np.unique(high, return_inverse=True)
        step = len(highs) + 1
        number = np.cumsum(np.diff(stream, prepend=-1) != 0)
        # ranks of a stream are above ranks of the streams before
        reached = np.maximum.accumulate(number * step + rank.reshape(-1))
        last = highs[reached % step] if len(highs) else high
        is_start = np.ones(len(stream), dtype=np.bool_)
        is_start[1:] = (number[1:] != number[:-1]) | (low[1:] > last[:-1])
        starts = np.flatnonzero(is_start)
        ends = np.append(starts[1:], len(stream))[: len(starts)] - 1
        return Intervals(stream[starts], low[starts], last[ends])


class EventQuery(Portable):
    """A query: which seqnos of which streams somebody needs."""

    def __init__(
        self,
        streams: Streams,
        intervals: Mapping[int, Sequence[Interval]] | Intervals,
        *,
        is_brief: bool = False,
    ) -> None:
        """``intervals``: in any order, overlapping or not. ``is_brief``: only the changes of the
        events are needed.
        """
        self.is_brief = is_brief
        self.secrets = _SECRETS
        """The secret numbers for hashes of keys. Whoever reads keys that are compared with each
        other uses the same numbers.
        """
        self._intervals = (
            intervals if isinstance(intervals, Intervals) else Intervals.from_streams(intervals)
        ).merged()
        self._numbers = unique(self._intervals.stream)
        numbers = self._numbers
        self.keys: IntArray = stream_keys(
            streams.connection[numbers], streams.vbucket[numbers], streams.sid[numbers]
        )
        self._with_sid = unique(
            stream_keys(streams.connection, streams.vbucket, streams.sid)[streams.sid >= 0]
        )
        opened_row, answered_row = streams.opened.row[numbers], streams.answered.row[numbers]
        # a request may be read before what the server had said earlier, which belongs to the stream
        # before
        self._first = np.where(answered_row > 0, answered_row, opened_row)
        self._last = streams.latest.row[numbers]
        self._by_key = np.argsort(self.keys, kind="stable")

    @property
    def first_row(self) -> int:
        """Row of the first message of any of the streams; 0 without streams."""
        return int(self._first.min()) if len(self._first) else 0

    @property
    def last_row(self) -> int:
        """Row of the last message of any of the streams; 0 without streams."""
        return int(self._last.max()) if len(self._last) else 0

    @property
    def connections(self) -> IntArray:
        """Numbers of the connections that have the wanted streams."""
        return unique(self.keys >> _CONNECTION_SHIFT)

    def keys_of(self, connection: IntArray, vbucket: IntArray, sid: IntArray) -> IntArray:
        """Returns the keys of the streams that events count for, as ``lookup.key_of_message`` does:
        one with a stream-id that no stream has is of the stream that has none.
        """
        keys = stream_keys(connection, vbucket, sid)
        is_stray = (sid >= 0) & ~np.isin(keys, self._with_sid)
        return stream_keys(connection, vbucket, np.where(is_stray, -1, sid))

    def on(self, connections: IntArray) -> EventQuery:
        """Returns the part of the query for streams on these connections."""
        is_wanted = np.isin(self.keys >> _CONNECTION_SHIFT, connections)
        query = copy(self)
        query._numbers, query.keys, query._first, query._last = (
            query_column[is_wanted]
            for query_column in (self._numbers, self.keys, self._first, self._last)
        )
        query._by_key = np.argsort(query.keys, kind="stable")
        has_stream = np.isin(self._intervals.stream, query._numbers)
        query._intervals = Intervals(*(column[has_stream] for column in self._intervals))
        return query

    def key_and_row(self, stream: int) -> tuple[int, int]:
        """Returns (key, row that it is behind) of a stream."""
        index = int(np.searchsorted(self._numbers, stream))
        return int(self.keys[index]), int(self._first[index])

    def vbuckets(self, streams: IntArray) -> IntArray:
        """Returns the vbuckets of streams."""
        numbers: IntArray = vbucket_of(self.keys[np.searchsorted(self._numbers, streams)])
        return numbers

    def events_by_stream(self, events: Events) -> list[tuple[int, Events]]:
        """Returns (stream, its wanted events) for each stream that has some among ``events``."""
        if not len(events):
            return []
        keys = self.keys_of(events.connection, events.vbucket, events.sid)
        order = np.lexsort((events.place.row, keys))
        different, starts = np.unique(keys[order], return_index=True)
        begins, ends = (
            np.searchsorted(self.keys[self._by_key], different, side).tolist() for side in _SIDES
        )
        events_of_streams = []
        for begin, end, event_rows in zip(begins, ends, np.split(order, starts[1:]), strict=True):
            rows = events.place.row[event_rows]
            for index in self._by_key[begin:end].tolist():
                stream_rows = event_rows[
                    np.searchsorted(rows, self._first[index]) : np.searchsorted(
                        rows, self._last[index], "right"
                    )
                ]
                number = int(self._numbers[index])
                low, high = (
                    int(np.searchsorted(self._intervals.stream, number, side)) for side in _SIDES
                )
                lows, highs = self._intervals.low[low:high], self._intervals.high[low:high]
                seqno = events.seqno[stream_rows]
                interval = np.searchsorted(lows, seqno, side="right") - 1
                is_wanted = (interval >= 0) & (seqno <= highs[np.maximum(interval, 0)])
                if is_wanted.any():
                    events_of_streams.append((number, events[stream_rows[is_wanted]]))
        return events_of_streams


class FoundEvents(Portable):
    """The wanted events, as far as they were found."""

    def __init__(
        self, query: EventQuery, forgotten: Mapping[int, tuple[int, int]] | None = None
    ) -> None:
        """``forgotten``: by key of the stream, the row of its latest forgotten event, and the
        greatest forgotten seqno.
        """
        self.wanted = query
        self.vbuckets = VBUCKETS
        """The first vbucket whose events are not held: with those of lower vbuckets they would be
        more than are looked at together.
        """
        self._forgotten = forgotten or {}
        self._events: dict[int, list[Events]] = {}
        self._changes: dict[int, list[Changes]] = {}
        """By stream; ``_changes`` is filled if the query is brief, else ``_events``."""
        self._counts: IntArray = np.zeros(VBUCKETS, dtype=np.int64)

    def add(self, events: Events) -> None:
        """Takes the wanted events among ``events``."""
        for number, stream_events in self.wanted.events_by_stream(events):
            vbucket = int(stream_events.vbucket[0])
            self._counts[vbucket] += len(stream_events)
            if vbucket < self.vbuckets and self.wanted.is_brief:
                self._changes.setdefault(number, []).append(changes_of(stream_events))
            elif vbucket < self.vbuckets:
                self._events.setdefault(number, []).append(stream_events)
        self._limit()

    def _limit(self) -> None:
        most = (
            MOST * ChangeEvent.dtype.itemsize // Change.dtype.itemsize
            if self.wanted.is_brief
            else MOST
        )
        if self._counts[: self.vbuckets].sum() > most:
            self.vbuckets = int(np.searchsorted(np.cumsum(self._counts), most, side="right"))
            for number in [*self._events, *self._changes]:
                if vbucket_of(self.wanted.key_and_row(number)[0]) >= self.vbuckets:
                    self._events.pop(number, None)
                    self._changes.pop(number, None)

    def feed(self, batch: MessageBatch, connections: IntArray | None = None) -> None:
        """Takes the wanted events of a batch that is read again; ``connections``: the numbers that
        the query has for the batch's connections.
        """
        self.add(events_of(batch, self.wanted, connections, with_values=self.wanted.is_brief))

    def divided(self, shares: int) -> list[dict[int, Changes]]:
        """Returns the changes by stream, in shares; all of a vbucket are in the same share."""
        shares_of_changes: list[dict[int, Changes]] = [{} for _ in range(shares)]
        for number in self._changes:
            shares_of_changes[vbucket_of(self.wanted.key_and_row(number)[0]) % shares][number] = (
                self.changes(number)
            )
        return shares_of_changes

    @staticmethod
    def joined(query: EventQuery, answers: Iterable[FoundEvents]) -> FoundEvents:
        """Returns together what several readers found on different connections."""
        joined_events = FoundEvents(query)
        for answer in answers:
            joined_events._counts += answer._counts
            joined_events._events |= answer._events
            joined_events._changes |= answer._changes
            joined_events._limit()
        return joined_events

    def stream_events(self, stream: int) -> Events:
        """Returns the events of a stream in order of seqno."""
        events = Events.joined(self._events.get(stream, ()))
        return events[np.argsort(events.seqno, kind="stable")]

    def changes(self, stream: int) -> Changes:
        """Returns the changes of a stream in order of seqno; only for a brief query."""
        changes = Changes.joined(self._changes.get(stream, ()))
        return changes[np.argsort(changes.seqno, kind="stable")]

    def has_from(self, stream: int, after: int) -> bool:
        """Returns whether every captured event of a stream above a biased seqno is still there."""
        key, first_row = self.wanted.key_and_row(stream)
        row, seqno = self._forgotten.get(key, (-1, LEAST))
        return vbucket_of(key) < self.vbuckets and (row < first_row or seqno <= after)


class RecentEvents:
    """The latest events of a reading that cannot be repeated."""

    def __init__(self, limit: int = RECENT) -> None:
        self._most = limit
        self._latest = LatestRows(Events)
        self._forgotten: dict[int, tuple[int, int]] = {}

    @property
    def is_full(self) -> bool:
        """Whether there are so many events that it is time to ``forget``."""
        return len(self._latest) > self._most

    def feed(self, batch: MessageBatch, *, with_values: bool = False) -> None:
        """Takes the events of the next messages."""
        self._latest.add(events_of(batch, with_values=with_values))

    def forget(self) -> None:
        """Forgets the older half of the events; of more than ``limit``, half of ``limit`` stay."""
        count = len(self) - min(self._most, len(self)) // 2
        old = self._latest.rows[:count]
        keys, number = np.unique(
            stream_keys(old.connection, old.vbucket, old.sid), return_inverse=True
        )
        row, seqno = np.zeros(len(keys), dtype=np.int64), np.full(len(keys), LEAST)
        np.maximum.at(row, number.reshape(-1), old.place.row)
        np.maximum.at(seqno, number.reshape(-1), old.seqno)
        for key, last, greatest in zip(keys.tolist(), row.tolist(), seqno.tolist(), strict=True):
            self._forgotten[key] = last, max(greatest, self._forgotten.get(key, (0, LEAST))[1])
        self._latest.drop(count)

    def leave(self, connections: set[int]) -> None:
        """Drops what is known of forgotten events on these connections: nobody asks for it now."""
        self._forgotten = {
            key: forgotten
            for key, forgotten in self._forgotten.items()
            if key >> _CONNECTION_SHIFT not in connections
        }

    def __len__(self) -> int:
        return len(self._latest)

    @property
    def first_row(self) -> int:
        """Row of the oldest event that is remembered; 0 without events."""
        return int(self._latest.rows.place.row[0]) if len(self) else 0

    @property
    def last_row(self) -> int:
        """Row of the newest event that is remembered; 0 without events."""
        return int(self._latest.rows.place.row.max()) if len(self) else 0

    def remembered_events(self, query: EventQuery) -> FoundEvents:
        """Returns the wanted events that are remembered."""
        found_events = FoundEvents(query, self._forgotten)
        found_events.add(self._latest.rows)
        return found_events
