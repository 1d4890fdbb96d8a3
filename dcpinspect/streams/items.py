"""The events of one vbucket, seqno by seqno as far as memory allows: what a picture of its streams is drawn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask, Rows
from dcpinspect.streams.columns import kinds
from dcpinspect.streams.kinds import ABORT, EVENT, REQUEST, UNREADABLE_REQUEST
from dcpinspect.streams.state import biased
from dcpinspect.tables.messages import MessageBatch

Table = npt.NDArray[np.int64]

MOST = 1 << 20
"""Entries kept; with more, neighbours are told together, as so many events between two seqnos."""

I_CONNECTION, I_SID, I_REQUESTS, I_ROW, I_FIRST, I_LAST, I_COUNT, I_TIME, I_UNTIL, ITEM = range(10)
"""I_SID: -1 for none. I_REQUESTS: stream requests for the vbucket on the connection before. I_ROW: row of the first event. I_FIRST,
I_LAST: biased seqnos. I_TIME, I_UNTIL: nanoseconds since 1970 of the earliest and the latest."""


class VbucketItems:
    """Feed it with every batch of a reading."""

    def __init__(self, vbucket: int, connections: Sequence[range] = (), *, most: int = MOST) -> None:
        """``connections``: only events of these; all without."""
        self.last_rows: dict[int, int] = {}
        """Row of the vbucket's latest message on each connection."""
        self._vbucket = vbucket
        self._connections = connections
        self._most = most
        self._kept: Table = np.empty((0, ITEM), dtype=np.int64)
        self._fresh: list[Table] = []
        self._size = 0
        self._requests: dict[int, int] = {}

    def feed(self, batch: MessageBatch) -> Rows:
        """Takes the next messages of the reading; returns which of the batch are of the vbucket."""
        is_own: Mask = (batch.vbucket.values == self._vbucket) & (True if batch.vbucket.valid is None else batch.vbucket.valid)
        if self._connections:
            is_own &= np.any([(batch.connection >= span.start) & (batch.connection < span.stop) for span in self._connections], axis=0)
        own: Rows = np.flatnonzero(is_own)
        if not len(own):
            return own
        kind = kinds(batch)[0][own]
        for connection in np.unique(batch.connection[own]).tolist():
            mine = batch.connection[own] == connection
            self.last_rows[connection] = int(batch.row[own[mine][-1]])
            asked = np.flatnonzero(mine & ((kind == REQUEST) | (kind == UNREADABLE_REQUEST)))
            events = np.flatnonzero(mine & (kind >= EVENT) & (kind <= ABORT))
            before = self._requests.get(connection, 0)
            self._requests[connection] = before + len(asked)
            if len(events):
                self._add(batch, own[events], before + np.searchsorted(asked, events))
        if self._size > self._most:
            self._merge()
        return own

    @property
    def table(self) -> Table:
        """An entry a row, in order of rows while none were told together."""
        return np.concatenate((self._kept, *self._fresh))

    def _add(self, batch: MessageBatch, rows: Rows, requests: Table) -> None:
        table = np.empty((len(rows), ITEM), dtype=np.int64)
        sid = batch.decoded.sid
        table[:, I_CONNECTION] = batch.connection[rows]
        table[:, I_SID] = sid.values[rows]
        if sid.valid is not None:
            table[~sid.valid[rows], I_SID] = -1
        table[:, I_REQUESTS] = requests
        table[:, I_ROW] = batch.row[rows]
        table[:, I_FIRST] = table[:, I_LAST] = biased(batch.decoded.numbers["by_seqno"].values[rows])
        table[:, I_COUNT] = 1
        table[:, I_TIME] = table[:, I_UNTIL] = batch.time_ns[rows]
        self._fresh.append(table)
        self._size += len(table)

    def _merge(self) -> None:
        """Makes one entry of two neighbours in seqno, until half of what may be kept is free; never of two streams."""
        table = self.table
        while len(table) > self._most // 2:
            table = table[np.lexsort((table[:, I_FIRST], table[:, I_REQUESTS], table[:, I_SID], table[:, I_CONNECTION]))]
            key = table[:, [I_CONNECTION, I_SID, I_REQUESTS]]
            begins = np.concatenate(([True], (key[1:] != key[:-1]).any(axis=1)))
            place = np.arange(len(table)) - np.maximum.accumulate(np.where(begins, np.arange(len(table)), 0))
            starts = np.flatnonzero(place % 2 == 0)
            merged = table[starts]
            merged[:, I_ROW] = np.minimum.reduceat(table[:, I_ROW], starts)
            merged[:, I_LAST] = np.maximum.reduceat(table[:, I_LAST], starts)
            merged[:, I_COUNT] = np.add.reduceat(table[:, I_COUNT], starts)
            merged[:, I_TIME] = np.minimum.reduceat(table[:, I_TIME], starts)
            merged[:, I_UNTIL] = np.maximum.reduceat(table[:, I_UNTIL], starts)
            if len(merged) == len(table):  # as many streams as entries
                break
            table = merged
        self._kept, self._fresh, self._size = table, [], len(table)
