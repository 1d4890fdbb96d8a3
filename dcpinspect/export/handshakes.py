"""How TCP connections began: the packets of their handshakes, found again in the packets of a reading that is through."""

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
    """The headers of packets that are read once more."""

    def __init__(self, transport: Reassembler) -> None:
        """``transport``: what read them before."""
        self._pairs = transport.pairs
        self._parser = HeaderParser(None)
        self._parser.wanted[:] = transport.headers.wanted
        self._unusual = UnusualPackets(self._parser)

    def of(self, batch: PacketBatch) -> tuple[Headers, Column, Column]:
        """(headers, number of the pair of addresses, which of its ends sent it) of the packets of TCP; batches in order."""
        headers = self._parser.parse(batch)
        if (headers.classes == UNUSUAL).any():
            headers, _, _ = self._unusual.resolve(batch, headers)
        return headers, *self._pairs.find(headers.tcp)


class Handshakes:
    """Finds SYN, SYN and ACK, and the client's answer, copies of them included."""

    def __init__(self, transport: Reassembler, connections: Column, *, bare: Column) -> None:
        """``transport``: what read the packets before. ``connections``: the ones wanted; of those in ``bare`` nothing that has a number of
        its payload: SYN, and SYN and ACK alone."""
        self._headers = HeadersAgain(transport)
        begin = transport.pair_of_connection << _PACKET_BITS | transport.first_packets
        self._order = np.argsort(begin)
        self._begin = begin[self._order]
        numbers = np.arange(1, len(begin) + 1)
        self._is_wanted, self._is_bare = (np.isin(numbers, some) for some in (connections, bare))
        self._asked = np.empty(0, np.int64)
        """Ends that were sent a SYN and ACK, which they will answer: 2 * pair + which end."""

    def packets(self, batch: PacketBatch) -> Column:
        """Positions in the batch of the packets wanted; batches in order."""
        headers, pair, side = self._headers.of(batch)
        if not len(headers.index) or not len(self._begin):
            return np.empty(0, np.int64)
        flags = headers.tcp[:, FLAGS]
        # The connection of a packet is the last of its pair that began before it, or with it.
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
        """Rows of the first packets of ends that were asked, here by the rows ``asking`` or before; ends without one are remembered."""
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
