"""Finds packets of connections again that carry no message, in the packets of a reading that has
ended: TCP handshakes and ends, and whole connections. Also finds the messages in which connections agree on
options before they stream; later messages cannot be read without them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, grown, unique
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.output.export.carriers import LineMarks
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.headers import ACK, FIN, FLAGS, RST, SYN, WIRE, HeaderParser, Headers
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.scapy_dissection import UnusualPackets

_PACKET_BITS = 40
_ROW_BITS = 32


class SeenAgain(NamedTuple):
    """The TCP packets of a batch that is read again."""

    headers: Headers
    pair: IntArray
    """Number of the pair of addresses of each packet."""
    side: IntArray
    """Which of the two sent it."""


class HeadersAgain:
    """Parses the headers of packets that are read again."""

    def __init__(self, transport: Reassembler) -> None:
        """``transport``: the reassembler of the first reading."""
        self._pairs, self._copies = transport.pairs, transport.copies
        self._parser = HeaderParser(None)
        self._parser.wanted[:] = transport.headers.wanted
        self._unusual = UnusualPackets(self._parser)

    def seen(self, batch: PacketBatch) -> SeenAgain:
        """Returns the TCP packets of a batch. Takes batches in order."""
        headers, _, _ = self._unusual.resolve(batch, self._parser.columns(batch))
        if self._copies is not None:
            headers = self._parser.without(batch, headers, self._copies.mask(batch, headers))
        return SeenAgain(headers, *self._pairs.find(headers.tcp))


class Handshakes:
    """Finds SYN, SYN+ACK and the client's answer, with copies of them; and FIN and RST, which show
    what was left out before them.
    """

    def __init__(self, transport: Reassembler, connections: IntArray, *, bare: IntArray) -> None:
        """``transport``: the reassembler of the first reading.

        ``connections``: the wanted ones. For connections in ``bare``, packets that tell a sequence
        number of the payload are left out: only SYN and SYN+ACK without payload are found.
        """
        begin = transport.pair_of_connection << _PACKET_BITS | transport.first_packets
        self._order = np.argsort(begin)
        self._begin = begin[self._order]
        numbers = np.arange(1, len(begin) + 1)
        self._is_wanted, self._is_bare = (np.isin(numbers, group) for group in (connections, bare))
        self._asked = np.empty(0, np.int64)
        """Ends that were sent a SYN+ACK and have not answered yet: 2 * pair + number of the end."""

    def packets(self, batch: PacketBatch, seen: SeenAgain) -> IntArray:
        """Returns the positions of the wanted packets in the batch. Takes batches in order."""
        headers, pair, side = seen
        if not len(headers.index) or not len(self._begin):
            return np.empty(0, np.int64)
        flags = headers.tcp[:, FLAGS]
        # the connection of a packet is the last one of its pair that began with this packet or
        # before it
        candidate = (
            np.searchsorted(
                self._begin, pair << _PACKET_BITS | batch.packets[headers.index], "right"
            )
            - 1
        )
        is_known = (candidate >= 0) & (
            self._begin[np.maximum(candidate, 0)] >> _PACKET_BITS == pair
        )
        connection = self._order[np.maximum(candidate, 0)]
        is_of_connection = is_known & self._is_wanted[connection]
        opens = is_of_connection & (flags & SYN != 0)
        is_taken = opens.copy()
        is_taken[
            self._answers(2 * pair + side, opens, np.flatnonzero(opens & (flags & ACK != 0)))
        ] = True
        is_taken |= is_of_connection & (flags & (FIN | RST) != 0) & (headers.tcp[:, WIRE] == 0)
        is_taken &= ~self._is_bare[connection] | (opens & (headers.tcp[:, WIRE] == 0))
        positions: IntArray = headers.index[is_taken]
        return positions

    def _answers(self, end: IntArray, opens: BoolArray, asking: IntArray) -> IntArray:
        """Returns the rows of the first packets from ends that were asked, by the rows ``asking``
        or before; remembers ends that have not answered.
        """
        ends_asked = np.concatenate((self._asked, end[asking] ^ 1))
        behind = np.concatenate((np.zeros(len(self._asked), np.int64), asking + 1))
        later_rows = np.flatnonzero(~opens)
        order = np.argsort(end[later_rows], kind="stable")
        key = end[later_rows][order] << _ROW_BITS | later_rows[order]
        candidate = np.searchsorted(key, ends_asked << _ROW_BITS | behind)
        is_there = candidate < len(key)
        is_there[is_there] = key[candidate[is_there]] >> _ROW_BITS == ends_asked[is_there]
        self._asked = unique(ends_asked[~is_there])
        rows: IntArray = key[candidate[is_there]] & ((1 << _ROW_BITS) - 1)
        return rows


class ChosenCounts:
    """Counts the messages of each connection, and how many of them were chosen."""

    def __init__(self) -> None:
        self._counts = np.zeros((64, 2), dtype=np.int64)

    def feed(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Counts the next messages of the reading, and those of them that were chosen."""
        for index, connections in enumerate((batch.connection, batch.connection[rows])):
            counts = np.bincount(connections)
            if len(counts) > len(self._counts):
                self._counts = grown(self._counts, len(counts))
            self._counts[: len(counts), index] += counts

    def complete_pairs(self, pair_of_connection: IntArray, others: IntArray) -> IntArray:
        """Returns the pairs of addresses of which all messages were chosen, and that have none of
        the connections ``others``.

        All their packets are wanted. If a capture is damaged, packets without bytes of messages
        still matter: acknowledgements show what was lost, SYN and FIN show where a connection
        begins or ends, and skipped bytes show where the next message may be.
        """
        numbers = np.arange(1, len(pair_of_connection) + 1)
        if len(numbers) >= len(self._counts):
            self._counts = grown(self._counts, len(numbers) + 1)
        there, chosen_counts = self._counts[numbers].T
        lacks = (there > chosen_counts) | np.isin(numbers, others)
        whole_pairs: IntArray = np.setdiff1d(
            pair_of_connection[chosen_counts > 0], pair_of_connection[lacks]
        )
        return whole_pairs


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
