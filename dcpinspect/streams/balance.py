"""How full each window was at most: bytes that flow control counts, less acknowledged ones."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import IntArray, unique
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.message_columns import PREPARE_SURPLUS, kinds
from dcpinspect.streams.record_codes import ACK, END
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.series import Series

CHARTED = 64
"""Number of connections for which the fullness of the window over time is kept: the first ones."""


class Balance:
    """The balance of windows. Feed it with every batch of a reading. On a connection that lost
    bytes the sums mean nothing; callers have to check.
    """

    def __init__(self) -> None:
        self.greatest: dict[int, int] = {}
        """Greatest balance in bytes, by connection."""
        self.by_time = Series(kind="level", limit=CHARTED)
        """Greatest balance in each span of time, for the first ``CHARTED`` connections."""
        self._now: dict[int, int] = {}

    def feed(self, batch: MessageBatch) -> None:
        """Takes the next messages of the reading."""
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
        rows = np.flatnonzero(change)
        connections: IntArray = batch.connection[rows]
        for connection in unique(connections).tolist():
            balance = self._now.get(connection, 0) + np.cumsum(
                change[rows[connections == connection]]
            )
            self._now[connection] = int(balance[-1])
            self.greatest[connection] = max(self.greatest.get(connection, 0), int(balance.max()))
            if connection in self.by_time.rows or len(self.by_time.rows) < CHARTED:
                self.by_time.add(
                    np.full(len(balance), connection),
                    batch.time_ns[rows[connections == connection]],
                    np.maximum(balance, 0),
                )
