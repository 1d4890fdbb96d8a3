"""Whether a connection of any port carries this protocol: what ``--port auto`` asks.

Framing finds chains of plausible headers anywhere, in a download of a capture too. So the messages of such a connection are held back
until both its directions agree: a response that answers a request of the other side, or plausible messages both ways. Where only one
direction was captured it takes more. What has not convinced by then is another protocol, and no message of it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dcpinspect.protocol.framing import Framed
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.resync import CHAIN, EVENTS, HEADER, default_legal_extras, plausible_headers
from dcpinspect.transport.chunk import StreamChunk

Part = tuple[int, int, Framed | None]
"""Connection, direction, and what framing found."""

ONE_WAY = 64
"""Plausible messages that convince while nothing of the other direction is captured."""
MAX_HELD = 1024
"""Messages held back; a connection that has not convinced with so many never will."""
MAX_HELD_BYTES = 8 << 20

_AT_END = int(np.iinfo(np.int64).max)
_RESPONSES = (0x81, 0x18, 0x83)
_OPENING = frozenset(
    (
        Opcode.HELLO,
        Opcode.DCP_OPEN,
        Opcode.SASL_LIST_MECHS,
        Opcode.SASL_AUTH,
        Opcode.SASL_STEP,
        Opcode.SELECT_BUCKET,
        Opcode.GET,
        Opcode.SET,
    )
)
"""Only a client asks this."""
_CONSUMING = frozenset((Opcode.DCP_STREAM_REQ, Opcode.DCP_BUFFER_ACKNOWLEDGEMENT, Opcode.DCP_CONTROL))
"""A consumer asks this, which is nearly always the client."""


@dataclass(slots=True)
class _Connection:
    """What one connection has shown so far; pairs are by direction."""

    is_oriented: bool
    """Its handshake says who the client is."""
    is_proven: bool | None = None
    is_reversed: bool = False
    held: list[tuple[int, Framed]] = field(default_factory=list)
    size: int = 0
    first_byte: list[int | None] = field(default_factory=lambda: [None, None])
    good: list[int] = field(default_factory=lambda: [0, 0])
    bad: int = 0
    talked: dict[tuple[int, bool], set[tuple[int, int]]] = field(default_factory=dict)
    """Opcodes and opaques by direction that was asked in, and whether of responses."""
    has_answer: bool = False
    client_votes: list[list[int]] = field(default_factory=lambda: [[0, 0], [0, 0]])
    """By strength, then direction."""

    def weigh(self, direction: int, header: bytes) -> None:
        """One more message."""
        if not len(plausible_headers(np.frombuffer(header, np.uint8), default_legal_extras)[0]):
            self.bad += 1
            return
        self.good[direction] += 1
        magic, opcode, opaque = header[0], header[1], int.from_bytes(header[12:16], "big")
        is_response = magic in _RESPONSES
        asker = direction ^ is_response
        self.talked.setdefault((asker, is_response), set()).add((opcode, opaque))
        self.has_answer |= (opcode, opaque) in self.talked.get((asker, not is_response), ())
        if opcode in _OPENING:
            self.client_votes[0][asker] += 1
        elif opcode in _CONSUMING or opcode in EVENTS:
            self.client_votes[1][asker ^ (opcode in EVENTS)] += 1

    def judge(self, release: int, *, final: bool) -> bool | None:
        """Whether this is the protocol, by packet ``release``; ``None`` while nothing tells."""
        if self.bad > sum(self.good):
            return False if final else None
        if self.has_answer or (all(self.good) and sum(self.good) >= CHAIN):
            return True
        is_full = final or sum(self.good) + self.bad > MAX_HELD or self.size > MAX_HELD_BYTES
        for direction in range(2):
            other = self.first_byte[1 - direction]
            if self.good[direction] >= (CHAIN if is_full else ONE_WAY) and (other is None or other > release):
                return True
        return False if is_full else None

    def settle(self) -> None:
        """Decide which end is the client."""
        for votes in self.client_votes if not self.is_oriented else ():
            if votes[0] != votes[1]:
                self.is_reversed = votes[1] > votes[0]
                return


class Evidence:
    """The connections in doubt. Nothing here depends on how packets came in batches."""

    def __init__(self) -> None:
        self._connections: dict[int, _Connection] = {}

    def doubt(self, connection: int, *, is_oriented: bool) -> None:
        """Believe no message of ``connection`` without proof; ``is_oriented``: which end is the client is certain."""
        self._connections[connection] = _Connection(is_oriented)

    def is_doubted(self, connection: int) -> bool:
        """Whether it was in doubt from the start."""
        return connection in self._connections

    def held_from(self, connection: int, direction: int) -> int | None:
        """Stream offset of the first message that is held back of a direction, or None."""
        known = self._connections.get(connection)
        held = [int(framed.stream_offset[0]) for side, framed in known.held if side == direction] if known is not None else []
        return min(held, default=None)

    @property
    def is_needed(self) -> bool:
        """Whether any connection was ever in doubt."""
        return bool(self._connections)

    @property
    def others(self) -> frozenset[int]:
        """Connections that have not proven to be of this protocol."""
        return frozenset(number for number, known in self._connections.items() if not known.is_proven)

    @property
    def reversed(self) -> frozenset[int]:
        """Connections whose first packet came from the server."""
        return frozenset(number for number, known in self._connections.items() if known.is_reversed)

    def note(self, chunk: StreamChunk) -> None:
        """``chunk`` is about to be framed."""
        known = self._connections.get(chunk.connection)
        if known is not None and known.first_byte[chunk.direction] is None and len(chunk.data):
            given = np.flatnonzero(chunk.segments.frame > 0)
            if len(given):
                known.first_byte[chunk.direction] = int(chunk.segments.release[given[0]])

    def believed(self, parts: Sequence[Part], *, final: bool = False) -> list[Part]:
        """Of these parts, and of those held back before, what may be shown; ``final``: the input has ended."""
        out: list[Part] = []
        news: dict[int, list[tuple[int, Framed]]] = {}
        for connection, direction, framed in parts:
            known = self._connections.get(connection)
            if known is None:
                out.append((connection, direction, framed))
            elif known.is_proven:
                out.append((connection, direction ^ known.is_reversed, framed))
            elif known.is_proven is None and framed is not None and len(framed.start):
                news.setdefault(connection, []).append((direction, framed))
        undecided = self._connections if final else news
        for connection in sorted(undecided):
            known = self._connections[connection]
            if known.is_proven is None:
                release = self._consider(known, news.get(connection, []), final=final)
                if known.is_proven:
                    known.settle()
                    for direction, framed in known.held:
                        late = replace(framed, release=np.maximum(framed.release, release))
                        out.append((connection, direction ^ known.is_reversed, late))
                if known.is_proven is not None:
                    known.held = []
        return out

    def _consider(self, known: _Connection, news: list[tuple[int, Framed]], *, final: bool) -> int:
        """Weighs the news in the order of release; returns the packet that decided."""
        known.held += news
        rows = sorted(
            (release, direction, offset, number, row)
            for number, (direction, framed) in enumerate(news)
            for row, (release, offset) in enumerate(zip(framed.release.tolist(), framed.stream_offset.tolist(), strict=True))
        )
        for release, direction, _, number, row in rows:
            framed = news[number][1]
            start = int(framed.start[row])
            known.weigh(direction, framed.data[start : start + HEADER].tobytes())
            known.size += int(framed.length[row])
            known.is_proven = known.judge(release, final=False)
            if known.is_proven is not None:
                return int(release)
        if final:
            known.is_proven = known.judge(_AT_END, final=True)
        return _AT_END
