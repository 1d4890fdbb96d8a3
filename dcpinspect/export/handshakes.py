"""Finds the TCP handshakes of connections again, in the packets of a reading that has ended."""

from __future__ import annotations

import numpy as np

from dcpinspect.capture.batch import Column, PacketBatch
from dcpinspect.protocol.columns import Mask
from dcpinspect.transport.headers import ACK, FLAGS, SYN, UNUSUAL, WIRE, HeaderParser, Headers
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.unusual import UnusualPackets

_PACKET_BITS = 40
_ROW_BITS = 32


class HeadersAgain:
    """Parses the headers of packets that are read again."""

    def __init__(self, transport: Reassembler) -> None:
        """``transport``: the reassembler of the first reading."""
        self._pairs = transport.pairs
        self._parser = HeaderParser(None)
        self._parser.wanted[:] = transport.headers.wanted
        self._unusual = UnusualPackets(self._parser)

    def of(self, batch: PacketBatch) -> tuple[Headers, Column, Column]:
        """Returns, for the TCP packets of a batch: headers, number of the pair of addresses, and which of its ends sent it.

        Takes batches in order.
        """
        headers = self._parser.parse(batch)
        if (headers.classes == UNUSUAL).any():
            headers, _, _ = self._unusual.resolve(batch, headers)
        return headers, *self._pairs.find(headers.tcp)


class Handshakes:
    """Finds SYN, SYN+ACK and the client's answer, with copies of them."""

    def __init__(self, transport: Reassembler, connections: Column, *, bare: Column) -> None:
        """``transport``: the reassembler of the first reading.

        ``connections``: the wanted ones. For connections in ``bare``, packets that tell a sequence number of the payload are left out: only
        SYN and SYN+ACK without payload are found.
        """
        self._headers = HeadersAgain(transport)
        begin = transport.pair_of_connection << _PACKET_BITS | transport.first_packets
        self._order = np.argsort(begin)
        self._begin = begin[self._order]
        numbers = np.arange(1, len(begin) + 1)
        self._is_wanted, self._is_bare = (np.isin(numbers, some) for some in (connections, bare))
        self._asked = np.empty(0, np.int64)
        """Ends that were sent a SYN+ACK and have not answered yet: 2 * pair + number of the end."""

    def packets(self, batch: PacketBatch) -> Column:
        """Returns the positions of the wanted packets in the batch. Takes batches in order."""
        headers, pair, side = self._headers.of(batch)
        if not len(headers.index) or not len(self._begin):
            return np.empty(0, np.int64)
        flags = headers.tcp[:, FLAGS]
        # the connection of a packet is the last one of its pair that began with this packet or before it
        place = np.searchsorted(self._begin, pair << _PACKET_BITS | batch.packets[headers.index], "right") - 1
        is_known = (place >= 0) & (self._begin[np.maximum(place, 0)] >> _PACKET_BITS == pair)
        connection = self._order[np.maximum(place, 0)]
        wanted = is_known & self._is_wanted[connection]
        opens = wanted & (flags & SYN != 0)
        found = opens.copy()
        found[self._answers(2 * pair + side, opens, np.flatnonzero(opens & (flags & ACK != 0)))] = True
        found &= ~self._is_bare[connection] | (opens & (headers.tcp[:, WIRE] == 0))
        positions: Column = headers.index[found]
        return positions

    def _answers(self, end: Column, opens: Mask, asking: Column) -> Column:
        """Returns the rows of the first packets from ends that were asked, by the rows ``asking`` or before; remembers ends that have
        not answered.
        """
        asked = np.concatenate((self._asked, end[asking] ^ 1))
        behind = np.concatenate((np.zeros(len(self._asked), np.int64), asking + 1))
        others = np.flatnonzero(~opens)
        order = np.argsort(end[others], kind="stable")
        key = end[others][order] << _ROW_BITS | others[order]
        place = np.searchsorted(key, asked << _ROW_BITS | behind)
        is_there = place < len(key)
        is_there[is_there] = key[place[is_there]] >> _ROW_BITS == asked[is_there]
        self._asked = np.unique(asked[~is_there])
        rows: Column = key[place[is_there]] & ((1 << _ROW_BITS) - 1)
        return rows
