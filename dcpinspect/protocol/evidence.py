"""Whether a connection of any port carries this protocol: what ``--port auto`` asks.

Framing finds chains of plausible headers anywhere, in a download of a capture too. So the messages of such a connection are held back
until both its directions agree: a response that answers a request of the other side, or plausible messages both ways. Where only one
direction was captured it takes more. What has not convinced by then is another protocol, and no message of it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcpinspect.protocol.framed import Framed
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.resync import CHAIN, EVENTS, HEADER, default_legal_extras, plausible_headers
from dcpinspect.transport.chunk import StreamChunk


class Part(NamedTuple):
    """Messages of one direction, in stream order."""

    connection: int
    direction: int
    framed: Framed
    lost: Sequence[tuple[int, tuple[int, int]]]
    """(message, [start, end) of stream offsets before it that could not be read)."""


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


class _Case:
    """What an undecided connection has shown so far."""

    __slots__ = ("bad", "client_votes", "good", "has_answer", "held", "size", "talked")

    def __init__(self) -> None:
        self.held: list[Part] = []
        self.size = 0
        self.good = [0, 0]  # by direction
        self.bad = 0
        self.talked: dict[tuple[int, bool], set[tuple[int, int]]] = {}
        """Opcodes and opaques by direction that was asked in, and whether of responses."""
        self.has_answer = False
        self.client_votes = [[0, 0], [0, 0]]
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

    def judge(self, release: int, first_byte: Sequence[int], *, final: bool) -> bool | None:
        """Whether this is the protocol, by packet ``release``; ``None`` while nothing tells. ``first_byte``: as ``_Connection`` has it."""
        if self.bad > sum(self.good):
            return False if final else None
        if self.has_answer or (all(self.good) and sum(self.good) >= CHAIN):
            return True
        is_full = final or sum(self.good) + self.bad > MAX_HELD or self.size > MAX_HELD_BYTES
        for direction in range(2):
            other = first_byte[1 - direction]
            if self.good[direction] >= (CHAIN if is_full else ONE_WAY) and (other < 0 or other > release):
                return True
        return False if is_full else None

    def is_reversed(self) -> bool:
        """Whether the end that was taken for the server's seems to be the client's."""
        for votes in self.client_votes:
            if votes[0] != votes[1]:
                return votes[1] > votes[0]
        return False


class _Connection:
    """One connection that was in doubt."""

    __slots__ = ("case", "first_byte", "is_oriented", "is_proven", "is_reversed")

    def __init__(self) -> None:
        self.is_oriented = False  # its handshake says who the client is
        self.is_proven: bool | None = None
        self.is_reversed = False
        self.first_byte: tuple[int, int] = _NO_BYTES  # by direction: the packet that brought it, or -1
        self.case: _Case | None = None  # from its first message until it is decided


_NO_BYTES = (-1, -1)


class Evidence:
    """The connections in doubt. Nothing here depends on how packets came in batches."""

    def __init__(self) -> None:
        self._connections: dict[int, _Connection] = {}
        self.reversed: set[int] = set()
        """Connections whose first packet came from the server."""
        self.just_reversed: list[int] = []
        """Those of them that the latest call of ``believed`` found."""

    def doubt(self, connection: int) -> None:
        """Believe no message of ``connection`` without proof."""
        self._connections[connection] = _Connection()

    def orient(self, connection: int) -> None:
        """Which end is the client is certain."""
        if connection in self._connections:
            self._connections[connection].is_oriented = True

    def is_doubted(self, connection: int) -> bool:
        """Whether it was in doubt from the start."""
        return connection in self._connections

    def held_from(self, connection: int, direction: int) -> int | None:
        """Stream offset of the first message that is held back of a direction, or None."""
        known = self._connections.get(connection)
        held = known.case.held if known is not None and known.case is not None else ()
        return min((int(part.framed.stream_offset[0]) for part in held if part.direction == direction), default=None)

    @property
    def is_needed(self) -> bool:
        """Whether any connection was ever in doubt."""
        return bool(self._connections)

    def is_other(self, connection: int) -> bool:
        """Whether it has not proven to be of this protocol."""
        known = self._connections.get(connection)
        return known is not None and not known.is_proven

    def note(self, chunk: StreamChunk) -> None:
        """``chunk`` is about to be framed."""
        known = self._connections.get(chunk.connection)
        if known is not None and known.first_byte[chunk.direction] < 0 and len(chunk.data):
            given = np.flatnonzero(chunk.segments.frame > 0)
            if len(given):
                release = int(chunk.segments.release[given[0]])
                c2s, s2c = known.first_byte
                known.first_byte = (c2s, release) if chunk.direction else (release, s2c)

    def believed(self, parts: Iterable[Part], *, final: bool = False) -> list[Part]:
        """Of these parts, and of those held back before, what may be shown; ``final``: the input has ended."""
        self.just_reversed = []
        out: list[Part] = []
        news: dict[int, list[Part]] = {}
        for part in parts:
            known = self._connections.get(part.connection)
            if known is None:
                out.append(part)
            elif known.is_proven:
                out.append(part._replace(direction=part.direction ^ known.is_reversed))
            elif known.is_proven is None:
                news.setdefault(part.connection, []).append(part)
        for connection in sorted(self._connections if final else news):
            known = self._connections[connection]
            if known.is_proven is None:
                out += self._decided(connection, known, news.get(connection, []), final=final)
        return out

    def _decided(self, connection: int, known: _Connection, news: list[Part], *, final: bool) -> Iterator[Part]:
        """The parts held back, and the news, if these prove the connection; they come late."""
        case = known.case = known.case or _Case()
        release = _consider(case, known, news, final=final)
        if known.is_proven is None:
            return
        known.case = None
        if known.is_proven:
            if not known.is_oriented and case.is_reversed():
                known.is_reversed = True
                self.reversed.add(connection)
                self.just_reversed.append(connection)
            for part in case.held:
                late = replace(part.framed, release=np.maximum(part.framed.release, release))
                yield part._replace(direction=part.direction ^ known.is_reversed, framed=late)


def _consider(case: _Case, known: _Connection, news: list[Part], *, final: bool) -> int:
    """Weighs the news in the order of release; returns the packet that decided."""
    case.held += news
    rows = sorted(
        (release, part.direction, offset, number, row)
        for number, part in enumerate(news)
        for row, (release, offset) in enumerate(zip(part.framed.release.tolist(), part.framed.stream_offset.tolist(), strict=True))
    )
    for release, direction, _, number, row in rows:
        framed = news[number].framed
        start = int(framed.start[row])
        case.weigh(direction, framed.data[start : start + HEADER].tobytes())
        case.size += int(framed.length[row])
        known.is_proven = case.judge(release, known.first_byte, final=False)
        if known.is_proven is not None:
            return int(release)
    if final:
        known.is_proven = case.judge(_AT_END, known.first_byte, final=True)
    return _AT_END
