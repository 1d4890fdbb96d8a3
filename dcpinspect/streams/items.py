"""The events of one vbucket, seqno by seqno as far as memory allows: pictures of its streams are
drawn from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.kernels.structs import Struct, StructRows, T, number
from dcpinspect.protocol import column_types
from dcpinspect.protocol.layouts.stream_commands import STREAM_OPTIONS
from dcpinspect.streams.message_columns import kinds
from dcpinspect.streams.record_codes import ABORT, EVENT, REFUSAL, REQUEST, UNREADABLE_REQUEST
from dcpinspect.streams.session import json_object, value_bytes
from dcpinspect.streams.state import biased
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.select import within

MOST = 1 << 20
"""Number of entries kept. Beyond it, neighbours become one: so many events from seqno to seqno."""

MOST_SHOWN = 256
"""Number of bytes of a broken value that are shown."""


class EventRow(Struct[T]):
    """An event, or neighbouring events that were merged into one entry."""

    connection: T = number("Its connection.")
    sid: T = number("Its stream-id, -1 for none.")
    requests: T = number("Stream requests for the vbucket on the connection before it.")
    row: T = number("Row of the first event.")
    first: T = number("Its seqno, biased.")
    last: T = number("Greatest seqno, biased.")
    count: T = number("Events.")
    time: T = number("Time of the earliest of them, in nanoseconds since 1970.")
    until: T = number("Time of the latest.")
    refused: T = number("Events that the consumer refused before the vbucket's next event.")


class Items(EventRow[IntArray], StructRows[EventRow]):
    """The events of a vbucket."""


class VbucketMessages(NamedTuple):
    """Messages of the vbucket, in order, as columns."""

    kind: column_types.RowNumbers
    """Kinds of the messages, as from ``kinds``."""
    connection: column_types.RowNumbers
    row: column_types.RowNumbers
    sid: column_types.NumberColumn
    seqno: column_types.NumberColumn
    """Seqnos of the messages that are events."""
    time_ns: column_types.RowNumbers


class VbucketItems:
    """Collects the events of a vbucket. Feed it with every batch of a reading, or with the columns
    of all messages of the vbucket.
    """

    def __init__(
        self, vbucket: int, connections: Sequence[range] = (), *, limit: int = MOST
    ) -> None:
        """``connections``: only events of these connections; of all if empty."""
        self.last_rows: dict[int, int] = {}
        """Row of the vbucket's latest message on each connection."""
        self.broken_values: dict[int, str] = {}
        """By row of the stream request: a value that is no JSON object."""
        self._vbucket = vbucket
        self._connections = connections
        self._most = limit
        self._kept = Items.zeros(0)
        self._fresh: list[Items] = []
        self._size = 0
        self._requests: dict[int, int] = {}
        self._latest: dict[int, Items] = {}
        """The latest entries of each connection."""

    def feed(self, batch: MessageBatch) -> column_types.RowNumbers:
        """Takes the reading's next messages. Returns the places of the vbucket's own."""
        is_own: BoolArray = (batch.vbucket.values == self._vbucket) & batch.vbucket.is_known
        if self._connections:
            is_own &= within(batch.connection, self._connections)
        own_rows: column_types.RowNumbers = np.flatnonzero(is_own)
        if len(own_rows):
            decoded = batch.decoded
            seqno = decoded.numbers.get(
                "by_seqno", column_types.NumberColumn(np.zeros(len(batch), np.uint64), None)
            )
            own_columns = (
                kinds(batch)[0][own_rows],
                batch.connection[own_rows],
                batch.row[own_rows],
                decoded.sid.take(own_rows),
                seqno.take(own_rows),
                batch.time_ns[own_rows],
            )
            self.add_messages(VbucketMessages(*own_columns))
            self.look_at_values(batch, own_rows[own_columns[0] == REQUEST])
        return own_rows

    def look_at_values(self, batch: MessageBatch, requests: column_types.RowNumbers) -> None:
        """Notes the values of stream requests that are no JSON objects."""
        for row in requests[batch.decoded.value.size[requests] > 0].tolist():
            value = value_bytes(batch, row)
            if json_object(value) is None and row not in batch.missing.row:
                if batch.redactor is not None:
                    value = batch.redactor.field_text(STREAM_OPTIONS, value)
                text = value[:MOST_SHOWN].decode(errors="backslashreplace")
                self.broken_values[int(batch.row[row])] = text + "…" * (len(value) > MOST_SHOWN)

    def add_messages(self, messages: VbucketMessages) -> None:
        """Takes the next messages of the vbucket."""
        kind = messages.kind
        for connection in unique(messages.connection).tolist():
            is_on_connection = messages.connection == connection
            self.last_rows[connection] = int(messages.row[is_on_connection][-1])
            request_rows = np.flatnonzero(
                is_on_connection & ((kind == REQUEST) | (kind == UNREADABLE_REQUEST))
            )
            events = np.flatnonzero(is_on_connection & (kind >= EVENT) & (kind <= ABORT))
            before = self._requests.get(connection, 0)
            self._requests[connection] = before + len(request_rows)
            refusals = np.flatnonzero(is_on_connection & (kind == REFUSAL))
            positions = np.searchsorted(events, refusals) - 1
            if connection in self._latest and (positions < 0).any():
                self._latest[connection].refused[-1] = 1
            if len(events):
                requests = before + np.searchsorted(request_rows, events)
                self._latest[connection] = self._add(messages, events, requests)
                self._latest[connection].refused[positions[positions >= 0]] = 1
        if self._size > self._most:
            self._merge()

    @property
    def table(self) -> Items:
        """The entries; in order of rows as long as no neighbours were merged."""
        return Items.joined([self._kept, *self._fresh])

    def _add(
        self, messages: VbucketMessages, events: column_types.RowNumbers, requests: IntArray
    ) -> Items:
        table, sid = Items.zeros(len(events)), messages.sid.take(events)
        table.connection, table.row = messages.connection[events], messages.row[events]
        table.sid = sid.values.astype(np.int64)
        if sid.valid is not None:
            table.sid[~sid.valid] = -1
        table.requests = requests
        table.first = table.last = biased(messages.seqno.values[events])
        table.count[:] = 1
        table.time = table.until = messages.time_ns[events]
        self._fresh.append(table)
        self._size += len(table)
        return table

    def _merge(self) -> None:
        """Merges pairs of neighbours in seqno until half of the entries are free; entries of
        different streams are never merged.
        """
        table = self.table
        while len(table) > self._most // 2:
            table = table[np.lexsort((table.first, table.requests, table.sid, table.connection))]
            changes = [
                np.diff(column) != 0 for column in (table.connection, table.sid, table.requests)
            ]
            begins = np.concatenate(([True], np.any(changes, axis=0)))
            position = np.arange(len(table)) - np.maximum.accumulate(
                np.where(begins, np.arange(len(table)), 0)
            )
            starts = np.flatnonzero(position % 2 == 0)
            merged = table[starts]
            merged.row = np.minimum.reduceat(table.row, starts)
            merged.last = np.maximum.reduceat(table.last, starts)
            merged.count = np.add.reduceat(table.count, starts)
            merged.refused = np.add.reduceat(table.refused, starts)
            merged.time = np.minimum.reduceat(table.time, starts)
            merged.until = np.maximum.reduceat(table.until, starts)
            if len(merged) == len(table):  # as many streams as entries
                break
            table = merged
        self._kept, self._fresh, self._size = table, [], len(table)
