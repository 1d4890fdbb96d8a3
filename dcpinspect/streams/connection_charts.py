"""What is charted by connection: how full its window was, and how long answers took."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.message_columns import PREPARE_SURPLUS, kinds
from dcpinspect.streams.record_codes import ACK, END
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.series import Series

CHARTED = 64
"""Number of connections that are charted: the first ones."""
_NOOPS = (Opcode.DCP_NOOP, Opcode.NOOP)


class ConnectionCharts:
    """Numbers by connection in spans of time. Feed it with every batch of a reading.

    Bytes outstanding are those that flow control counts, less acknowledged ones. On a connection
    that lost bytes these sums mean nothing; callers have to check.
    """

    def __init__(self) -> None:
        self.most_outstanding: dict[int, int] = {}
        """Most bytes outstanding at any time, by connection; of all connections."""
        self.outstanding = Series(kind="level", limit=CHARTED)
        """Most bytes outstanding in each span."""
        self.answers = Series(kind="peak", limit=CHARTED)
        """Longest wait for an answer in nanoseconds, without noops."""
        self.noops = Series(kind="peak", limit=CHARTED)
        """Longest wait of a noop in nanoseconds."""
        self._balance: dict[int, int] = {}
        """Bytes outstanding now, by connection."""

    def feed(self, batch: MessageBatch) -> None:
        """Takes the next messages of the reading."""
        self._feed_outstanding(batch)
        is_answer = batch.decoded.is_response & batch.rtt_ns.is_known
        is_noop = np.isin(batch.decoded.opcode, _NOOPS)
        _feed_waits(self.answers, batch, is_answer & ~is_noop)
        _feed_waits(self.noops, batch, is_answer & is_noop)

    def _feed_outstanding(self, batch: MessageBatch) -> None:
        kind = kinds(batch)[0]
        counted = kind >= END
        change: RowNumbers = np.where(
            counted,
            batch.length + PREPARE_SURPLUS * (batch.decoded.opcode == Opcode.DCP_PREPARE),
            0,
        )
        acks = kind == ACK
        if acks.any():
            change[acks] = -batch.decoded.numbers["ack_bytes"].values[acks].astype(np.int64)
        changed = np.flatnonzero(change)
        connections: IntArray = batch.connection[changed]
        for connection in unique(connections).tolist():
            rows = changed[connections == connection]
            balance = self._balance.get(connection, 0) + np.cumsum(change[rows])
            self._balance[connection] = int(balance[-1])
            most = self.most_outstanding
            most[connection] = max(most.get(connection, 0), int(balance.max()))
            series = self.outstanding
            if connection in series.rows or len(series.rows) < CHARTED:
                since = batch.time_ns[rows] - batch.origin_ns
                series.add(batch.connection[rows], since, np.maximum(balance, 0))


def _feed_waits(series: Series, batch: MessageBatch, is_measured: BoolArray) -> None:
    """Takes how long some answers of the batch took."""
    rows = np.flatnonzero(is_measured)
    wait_ns = batch.rtt_ns.values[rows].astype(np.int64)
    since = batch.time_ns[rows] - batch.origin_ns
    series.add(batch.connection[rows], since, np.maximum(wait_ns, 1))
