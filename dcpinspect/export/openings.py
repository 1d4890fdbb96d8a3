"""What connections agree on before they stream, which what follows cannot be read without; not what they say to log in."""

from __future__ import annotations

import numpy as np

from dcpinspect.capture.batch import Column
from dcpinspect.export.marks import Marks
from dcpinspect.growing import grown
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.tables.messages import MessageBatch

_OPENING = np.isin(np.arange(256), (Opcode.HELLO, Opcode.SELECT_BUCKET, Opcode.DCP_OPEN, Opcode.DCP_CONTROL))
MAX_OPENING = 64
"""Such messages of a connection that are remembered."""


class Openings:
    """Where those messages are, of all connections: it turns out later which are wanted."""

    def __init__(self) -> None:
        self._counts = np.zeros(64, np.uint8)  # by connection
        self._packets: list[Column] = []  # [2, n]: connection, packet
        self._rows: list[Column] = []  # the same with rows

    def fresh(self, batch: MessageBatch) -> Rows:
        """Messages of a batch that are to be remembered; of a connection the first ones."""
        found = np.flatnonzero(_OPENING[batch.decoded.opcode] & ~batch.decoded.is_server)
        connection = batch.connection[found]
        order = np.argsort(connection, kind="stable")
        rank = np.empty(len(found), np.int64)
        rank[order] = np.arange(len(found)) - np.searchsorted(connection[order], connection[order])
        if len(found) and int(connection.max()) >= len(self._counts):
            self._counts = grown(self._counts, int(connection.max()) + 1)
        is_early = rank + self._counts[connection] < MAX_OPENING
        np.add.at(self._counts, connection[is_early], 1)
        return found[is_early]

    def add(self, connection: Column, packets: Column, of_rows: Column, rows: Column) -> None:
        """Packets that gave bytes of such messages, and rows that packets will be made of, each with its connection."""
        for known, *pair in ((self._packets, connection, packets), (self._rows, of_rows, rows)):
            if len(pair[0]):
                known.append(np.array(pair))

    def of(self, connections: Marks) -> tuple[Column, Column]:
        """(packets, rows) of these connections."""
        packets, rows = (np.concatenate((np.empty((2, 0), np.int64), *known), axis=1) for known in (self._packets, self._rows))
        return packets[1, connections.has(packets[0])], rows[1, connections.has(rows[0])]
