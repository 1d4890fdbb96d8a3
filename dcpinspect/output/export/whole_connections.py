"""Finds connections of which everything is wanted, and all their packets, so that a reader of the
file gets the same messages.

If a capture is damaged, packets without bytes of messages still matter: acknowledgements show what
was lost, SYN and FIN show where a connection begins or ends, and skipped bytes show where the next
message may be.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.output.export.handshakes import HeadersAgain
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.reassembly import Reassembler


class ChosenCounts:
    """Counts the messages of each connection, and how many of them were chosen."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, 64), dtype=np.int64)

    def feed(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Counts the next messages of the reading, and those of them that were chosen."""
        for index, connections in enumerate((batch.connection, batch.connection[rows])):
            counts = np.bincount(connections)
            if len(counts) > self._counts.shape[1]:
                more = max(len(counts), 2 * self._counts.shape[1]) - self._counts.shape[1]
                self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            self._counts[index, : len(counts)] += counts

    def complete_pairs(self, pair_of_connection: IntArray, others: IntArray) -> IntArray:
        """Returns the pairs of addresses of which all messages were chosen, and that have none of
        the connections ``others``.
        """
        numbers = np.arange(1, len(pair_of_connection) + 1)
        there, chosen_counts = np.pad(
            self._counts, ((0, 0), (0, max(0, len(numbers) + 1 - self._counts.shape[1])))
        )[:, numbers]
        lacks = (there > chosen_counts) | np.isin(numbers, others)
        whole_pairs: IntArray = np.setdiff1d(
            pair_of_connection[chosen_counts > 0], pair_of_connection[lacks]
        )
        return whole_pairs


class WholeTalks:
    """Finds all packets of these pairs of addresses."""

    def __init__(self, transport: Reassembler, pairs: IntArray) -> None:
        """``transport``: the reassembler of the first reading."""
        self._headers = HeadersAgain(transport)
        self._pairs = pairs

    def packets(self, batch: PacketBatch) -> IntArray:
        """Returns the positions of the wanted packets in the batch. Takes batches in order."""
        headers, pair, _ = self._headers.headers_of(batch)
        packet_rows: IntArray = headers.index[np.isin(pair, self._pairs)]
        return packet_rows
