"""Follows what events are about: keys that come twice, prepares that nobody completes, collections.

The latest keys of a reading are remembered, up to a number. With more, the oldest are forgotten,
and what depends on them is not judged.

Keys of one stream say nothing of another stream. So several readings of the same messages can each
follow the keys of some vbuckets.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.streams import event_keys
from dcpinspect.streams.collections import named_collections
from dcpinspect.streams.events import collections_of, key_hashes, new_secrets
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.record_codes import IS_ASKED, IS_EVENT, SEQNO_ADVANCED, SYSTEM_EVENT
from dcpinspect.streams.records import LEAST, Anomalies, Messages, RowCounts, Snapshots, Streams
from dcpinspect.streams.renumbering import renumbered
from dcpinspect.streams.state import ReadingState, biased
from dcpinspect.tables.messages import MessageBatch

MOST = 1 << 20
"""Number of keys that are remembered: 110 MB."""
_FIRST = 256
_GROWTH = 8
"""Tables grow by this factor: each time all keys are sorted in anew, and memory that is not used
yet costs nothing.
"""
_SPREAD = 0x9E3779B97F4A7C15


class VbucketShare(NamedTuple):
    """Some of the vbuckets: those with this remainder."""

    remainder: int
    divisor: int

    def has(self, vbuckets: RowNumbers) -> BoolArray:
        """Returns a mask of the vbuckets that belong to the share."""
        return np.asarray(vbuckets % self.divisor == self.remainder)


ALL = VbucketShare(0, 1)
"""All vbuckets."""


class Contents(Portable):
    """Follows the keys of events. Feed it with every batch, after the tracker's kernel has followed
    the messages.
    """

    def __init__(
        self,
        limit: int = MOST,
        *,
        share: VbucketShare = ALL,
        hashed_by: tuple[int, int] | None = None,
    ) -> None:
        """``share``: the vbuckets whose keys are followed. ``hashed_by``: secrets by which keys are
        hashed. Only what was hashed by the same secrets can be ``joined``.
        """
        self.most = limit
        """Number of keys that are remembered; only to be changed before the first batch."""
        self._share = share
        self._tables = tables = event_keys.KeyTables()
        tables.entries = event_keys.KeyRows.zeros(min(_FIRST, limit))
        tables.slots = np.full(2 * len(tables.entries), -1, dtype=np.int64)
        tables.marks = event_keys.KeyFill.single()
        tables.events = event_keys.KeyEvents.zeros(0)
        tables.messages = Messages.zeros(0)
        tables.streams = Streams.zeros(0)
        tables.snapshots = Snapshots.zeros(0)
        tables.anomalies = Anomalies.zeros(0)
        tables.counts = RowCounts.single()
        tables.seed = secrets.randbits(31)
        # secrets of its own: another process may go on with what it knows of keys
        self._secrets = hashed_by or new_secrets()

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is known of keys, to be ``joined`` with what other readings know."""
        marks = self._tables.marks
        entries = self._tables.entries[: marks.used]
        return {
            "most": self.most,
            "secrets": self._secrets,
            "entries": entries,
            "marks": (marks.forgotten, marks.has_said),
        }

    def __setstate__(self, saved_state: dict[str, Any]) -> None:
        self.__init__(saved_state["most"], hashed_by=saved_state["secrets"])  # type: ignore[misc] # there is nothing yet
        self._know(saved_state["entries"])
        self._tables.marks.forgotten, self._tables.marks.has_said = saved_state["marks"]

    @classmethod
    def joined(cls, readings: Sequence[Contents], streams: Streams, share: VbucketShare) -> Self:
        """Joins what readings of the same messages know of different vbuckets, and keeps what
        belongs to ``share``.

        ``streams``: the streams, which have the same numbers in all of these readings. Raises
        ValueError for other secrets, and for streams that do not exist.
        """
        first = readings[0]
        entries = event_keys.KeyRows.joined(
            [reading._tables.entries[: reading._tables.marks.used] for reading in readings]
        )
        is_stream = (entries.stream >= 0) & (entries.stream < len(streams))
        if any(reading._secrets != first._secrets for reading in readings) or not is_stream.all():
            raise ValueError("these do not belong together")
        contents = cls(first.most, share=share, hashed_by=first._secrets)
        contents._know(entries[share.has(streams.vbucket[entries.stream])])
        marks = contents._tables.marks
        marks.forgotten = max(
            marks.forgotten, *(reading._tables.marks.forgotten for reading in readings)
        )
        marks.has_said = max(reading._tables.marks.has_said for reading in readings)
        return contents

    def _know(self, entries: event_keys.KeyRows) -> None:
        """Remembers these entries, at most as many as are remembered anyway."""
        tables = self._tables
        tables.entries, tables.marks.used = entries, len(entries)
        while tables.marks.used and tables.marks.used + event_keys.ROOM > self.most:
            self._forget()
        used = tables.marks.used
        grown = event_keys.KeyRows.zeros(
            max(min(_FIRST, self.most), 1 << (used + event_keys.ROOM - 1).bit_length())
        )
        grown[:used] = tables.entries[:used]
        tables.entries, tables.slots = grown, np.full(2 * len(grown), -1, dtype=np.int64)
        event_keys.refill_entries(tables)

    def feed(
        self, batch: MessageBatch, state: ReadingState, filters: list[dict[str, Any] | None]
    ) -> None:
        """Takes the messages of a batch; ``state``: as the kernel left it; ``filters``: the parsed
        values of stream requests.
        """
        messages, tables = state.messages, self._tables
        event_rows = np.flatnonzero(
            (messages.standing & IS_EVENT != 0) & (messages.kind != SEQNO_ADVANCED)
        )
        if self._share != ALL:
            event_rows = event_rows[
                self._share.has(state.streams.vbucket[messages.stream[event_rows]])
            ]
        if not len(event_rows):
            return
        tables.events = _events(batch, messages, event_rows, state.streams, filters, self._secrets)
        tables.messages = messages
        tables.streams = state.streams
        tables.snapshots = state.snapshots
        tables.counts = state.counts
        start = 0
        while start < len(event_rows):
            state.make_room_in("anomalies")
            tables.anomalies = state.anomalies
            self._make_room()
            start = event_keys.follow_keys(start, tables)

    def renumber(self, streams: IntArray | None, snapshots: IntArray) -> None:
        """Gives snapshots, and streams if ``streams`` is given, other numbers: new number by old
        number, -1 for those that left.
        """
        tables, marks = self._tables, self._tables.marks
        entries = tables.entries[: marks.used]
        if not marks.used:
            return
        if streams is not None:
            entries.stream = renumbered(entries.stream, streams)
            kept_entries = entries[entries.stream >= 0]
            entries[: len(kept_entries)] = kept_entries
            marks.used = len(kept_entries)
            tables.slots[:] = -1
            event_keys.refill_entries(tables)
            entries = tables.entries[: marks.used]
        of_key = entries.key >= 0  # other entries have no snapshot there
        entries.snapshot[of_key] = renumbered(entries.snapshot[of_key], snapshots)

    def _make_room(self) -> None:
        tables = self._tables
        used = tables.marks.used
        if len(tables.entries) - used >= event_keys.ROOM:
            return
        if len(tables.entries) < self.most:
            grown = event_keys.KeyRows.zeros(min(_GROWTH * len(tables.entries), self.most))
            grown[:used] = tables.entries[:used]
            tables.entries = grown
        else:
            self._forget()
        tables.slots = np.full(2 * len(tables.entries), -1, dtype=np.int64)
        event_keys.refill_entries(tables)

    def _forget(self) -> None:
        """Forgets the older half of the keys; collections and pending prepares stay longer."""
        marks = self._tables.marks
        entries = self._tables.entries[: marks.used]
        is_special = (entries.key < 0) | (entries.prepared > LEAST)
        order = np.lexsort((entries.row, is_special))
        dropped, kept_rows = np.split(order, [marks.used - marks.used // 2])
        marks.forgotten = max(marks.forgotten, int(entries.row[dropped].max()))
        entries[: len(kept_rows)] = entries[kept_rows]
        marks.used = len(kept_rows)


def _events(
    batch: MessageBatch,
    messages: Messages,
    event_rows: RowNumbers,
    streams: Streams,
    filters: list[dict[str, Any] | None],
    hashed_by: tuple[int, int],
) -> event_keys.KeyEvents:
    rows = batch.index_of(messages.place.row[event_rows])
    decoded = batch.decoded
    collection = collections_of(batch, rows)
    hashed = np.where(decoded.key.size[rows] > 0, key_hashes(batch, rows, hashed_by), -1)
    events = event_keys.KeyEvents.zeros(len(event_rows))
    events.event[:] = batch.column("event").values[rows]
    key_space = collection
    is_system = messages.kind[event_rows] == SYSTEM_EVENT
    if is_system.any():
        scope = batch.column("scope_id").take(rows)
        scope_number = event_keys.SCOPES + scope.values.astype(np.int64)
        is_of_scope = is_system & np.isin(
            events.event, (event_keys.CREATE_SCOPE, event_keys.DROP_SCOPE)
        )
        collection = np.where(is_of_scope, np.where(scope.is_known, scope_number, -1), collection)
        # a collection's name is one in its scope, and a scope's in the bucket
        key_space = np.where(
            is_of_scope, 2 * event_keys.SCOPES, np.where(is_system, scope_number, key_space)
        )
        hashed[is_system & ~scope.is_known] = -1
    spread = (key_space.view(np.uint64) * np.uint64(_SPREAD)).view(np.int64)
    events.message[:] = event_rows
    events.key[:] = np.where(hashed < 0, -1, (hashed ^ spread) & ((1 << 62) - 1))
    events.cas[:] = biased(decoded.cas[rows])
    events.revision[:] = biased(batch.column("rev_seqno").values[rows])
    events.collection[:] = collection
    events.prepared[:] = biased(batch.column("prepared_seqno").values[rows])
    uid = batch.column("manifest_uid").take(rows)
    events.uid[:], events.has_uid[:] = biased(uid.values), uid.is_known
    events.is_outside[:] = _is_outside(
        messages.standing[event_rows], messages.stream[event_rows], collection, streams, filters
    )
    return events


def _is_outside(
    standing: RowNumbers,
    stream: RowNumbers,
    collection: RowNumbers,
    streams: Streams,
    filters: list[dict[str, Any] | None],
) -> BoolArray:
    """Returns a mask of events in collections that the request of their stream does not name,
    although it names some.
    """
    is_asked = standing & IS_ASKED != 0
    number = np.where(is_asked & (collection >= 0), streams.request.filter[stream], -1)
    outside = np.zeros(len(number), dtype=np.bool_)
    for filter_number in unique(number[number >= 0]).tolist():
        named = named_collections(filters[filter_number])
        if named is not None:
            has_filter = number == filter_number
            outside[has_filter] = ~np.isin(
                collection[has_filter], np.array(sorted(named), dtype=np.int64)
            )
    return outside
