"""How TCP connections began: the packets of their handshakes, found again in the packets of a reading that is through."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from dcpinspect.capture.batch import Column, PacketBatch
from dcpinspect.transport.headers import ACK, FLAGS, SYN, UNUSUAL, WIRE, HeaderParser, Headers
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.unusual import UnusualPackets

_PACKET_BITS = 40


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

    def __init__(self, transport: Reassembler, connections: Collection[int], *, bare: Collection[int] = ()) -> None:
        """``transport``: what read the packets before. ``connections``: the ones wanted; of those in ``bare`` nothing that has a number of
        its payload: SYN, and SYN and ACK alone."""
        self._headers = HeadersAgain(transport)
        first = np.array([connection.first_packet for connection in transport.connections], dtype=np.int64)
        begin = transport.pair_of_connection << _PACKET_BITS | first
        self._order = np.argsort(begin)
        self._begin = begin[self._order]
        numbers = np.arange(1, len(first) + 1)
        self._is_wanted, self._is_bare = (np.isin(numbers, np.array(sorted(some), dtype=np.int64)) for some in (connections, bare))
        self._asked: set[tuple[int, int]] = set()
        """Pairs, and which end was sent a SYN and ACK, which it will answer."""

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
        for waiting in list(self._asked):
            self._find_answer(found, pair, side, opens, waiting, 0)
        for at in np.flatnonzero(opens & (flags & ACK != 0)).tolist():
            self._find_answer(found, pair, side, opens, (int(pair[at]), 1 - int(side[at])), at + 1)
        found &= ~self._is_bare[connection] | (opens & (headers.tcp[:, WIRE] == 0))
        positions: Column = headers.index[found]
        return positions

    def _find_answer(self, found: Column, pair: Column, side: Column, opens: Column, waiting: tuple[int, int], start: int) -> None:
        """Mark the first packet, from row ``start`` on, of an end that was asked; remember the end when it is not in this batch."""
        answers = np.flatnonzero((pair[start:] == waiting[0]) & (side[start:] == waiting[1]) & ~opens[start:])
        if len(answers):
            found[start + answers[0]] = True
            self._asked.discard(waiting)
        else:
            self._asked.add(waiting)
