"""Finds the messages in which connections agree on options before they stream; later messages
cannot be read without them.

Messages for logging in are left out.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import IntArray, grown
from dcpinspect.output.export.number_sets import LineMarks
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.tables.messages import MessageBatch

_OPENING = np.isin(
    np.arange(256), (Opcode.HELLO, Opcode.SELECT_BUCKET, Opcode.DCP_OPEN, Opcode.DCP_CONTROL)
)
MAX_OPENING = 64
"""Number of such messages that are remembered per connection."""


class Openings:
    """Remembers where these messages are, for all connections, because it turns out later which
    connections are wanted.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(64, np.uint8)  # number of messages of each connection
        self._packets: list[IntArray] = []  # [2, n]: connection, packet
        self._rows: list[IntArray] = []  # [2, n]: connection, row

    def fresh(self, batch: MessageBatch) -> RowNumbers:
        """Returns the messages of a batch to remember: the first ones of each connection."""
        openings = np.flatnonzero(_OPENING[batch.decoded.opcode] & ~batch.decoded.is_server)
        connection = batch.connection[openings]
        order = np.argsort(connection, kind="stable")
        rank = np.empty(len(openings), np.int64)
        rank[order] = np.arange(len(openings)) - np.searchsorted(
            connection[order], connection[order]
        )
        if len(openings) and int(connection.max()) >= len(self._counts):
            self._counts = grown(self._counts, int(connection.max()) + 1)
        is_early = rank + self._counts[connection] < MAX_OPENING
        np.add.at(self._counts, connection[is_early], 1)
        return openings[is_early]

    def add(
        self, connection: IntArray, packets: IntArray, of_rows: IntArray, rows: IntArray
    ) -> None:
        """Remembers packets with bytes of such messages, and rows from which packets will be made,
        each with its connection.
        """
        for remembered, *pair in (
            (self._packets, connection, packets),
            (self._rows, of_rows, rows),
        ):
            if len(pair[0]):
                remembered.append(np.array(pair))

    def of_connections(self, connections: LineMarks) -> tuple[IntArray, IntArray]:
        """Returns packets and rows of these connections."""
        packets, rows = (
            np.concatenate((np.empty((2, 0), np.int64), *remembered), axis=1)
            for remembered in (self._packets, self._rows)
        )
        return packets[1, connections.has(packets[0])], rows[1, connections.has(rows[0])]
