"""Whether a connection carries this protocol: on any port, which ``--port auto`` asks, and on its
own port if it does not begin with it.

Framing finds chains of plausible headers anywhere, in a download of a capture too. So the messages
of such a connection are held back until both its directions agree: a response answers a request of
the other side, or plausible messages go both ways. If only one direction was captured it takes
more. A connection that has not convinced by then carries another protocol, and none of its messages
is shown.

A connection on a port that was asked for is believed. But where its first bytes are known, and the
first message that framing finds is no plausible one, or was only found by trying, it is
*suspected*: a scan, or another protocol. Then its messages wait in the same way, until one is as it
should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.kernels.structs import Struct, T, number
from dcpinspect.kernels.structs import StructRows as Table
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.framed import Framed
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.resync import (
    CHAIN,
    EVENTS,
    HEADER,
    default_legal_extras,
    plausible_headers,
)
from dcpinspect.transport.chunk import StreamChunk


class DirectionMessages(NamedTuple):
    """Messages of one direction, in stream order."""

    connection: int
    direction: int
    framed: Framed
    lost: Sequence[tuple[int, tuple[int, int]]]
    """(message, [start, end) of stream offsets before it that could not be read)."""


ONE_WAY = 64
"""Number of plausible messages that convince as long as nothing of the other direction is captured.
"""
MAX_HELD = 1024
"""Number of messages held back; a connection that has not convinced with so many never will."""
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
"""Requests that only a client sends."""
_CONSUMING = frozenset(
    (Opcode.DCP_STREAM_REQ, Opcode.DCP_BUFFER_ACKNOWLEDGEMENT, Opcode.DCP_CONTROL)
)
"""Requests that a consumer sends, which is nearly always the client."""
_PRODUCING = EVENTS | {Opcode.DCP_NOOP}
"""Requests that a producer sends, which is nearly always the server."""


class _Case:
    """What an undecided connection has shown so far."""

    __slots__ = (
        "bad",
        "client_votes",
        "good",
        "has_answer",
        "held",
        "is_suspected",
        "size",
        "talked",
    )

    def __init__(self, *, is_suspected: bool) -> None:
        self.is_suspected = is_suspected
        self.held: list[DirectionMessages] = []
        self.size = 0
        self.good = [0, 0]  # by direction
        self.bad = 0
        self.talked: dict[tuple[int, bool], set[tuple[int, int]]] = {}
        """Opcodes and opaques, by (direction of the request, whether responses)."""
        self.has_answer = False
        self.client_votes = [[0, 0], [0, 0]]
        """By strength of the vote, then by direction: votes for the client."""

    def weigh(self, direction: int, header: bytes, *, is_tried: bool) -> None:
        """Weighs one more message. ``is_tried``: it was found by trying."""
        if not _is_plausible(header):
            self.bad += 1
            return
        if self.is_suspected and not is_tried:
            self.has_answer = True  # as good as one
        self.good[direction] += 1
        magic, opcode, opaque = header[0], header[1], int.from_bytes(header[12:16], "big")
        is_response = magic in _RESPONSES
        asker = direction ^ is_response
        self.talked.setdefault((asker, is_response), set()).add((opcode, opaque))
        self.has_answer |= (opcode, opaque) in self.talked.get((asker, not is_response), ())
        if opcode in _OPENING:
            self.client_votes[0][asker] += 1
        elif opcode in _CONSUMING or opcode in _PRODUCING:
            self.client_votes[1][asker ^ (opcode in _PRODUCING)] += 1

    def judge(self, release: int, first_byte: Sequence[int], *, final: bool) -> bool | None:
        """Returns whether this is the protocol, by packet ``release``; ``None`` as long as nothing
        tells.

        ``first_byte``: by direction, the packet that brought its first byte, or -1.
        """
        if self.bad > sum(self.good):
            return False if final else None
        if self.has_answer or (all(self.good) and sum(self.good) >= CHAIN):
            return True
        is_full = final or sum(self.good) + self.bad > MAX_HELD or self.size > MAX_HELD_BYTES
        for direction in range(2):
            other_first_byte = first_byte[1 - direction]
            if self.good[direction] >= (CHAIN if is_full else ONE_WAY) and (
                other_first_byte < 0 or other_first_byte > release
            ):
                return True
        return False if is_full else None

    def is_reversed(self) -> bool:
        """Returns whether the end that was taken for the server seems to be the client."""
        for votes in self.client_votes:
            if votes[0] != votes[1]:
                return votes[1] > votes[0]
        return False


def _is_plausible(header: bytes, *, of_any_vbucket: bool = False) -> bool:
    data = np.frombuffer(header, np.uint8)
    return len(plausible_headers(data, default_legal_extras, of_any_vbucket=of_any_vbucket)[0]) > 0


class Doubted(Struct[T]):
    """A connection, whether it was ever in doubt or not. A scan of all ports has millions."""

    is_doubted: T = number("It was from the start.", bits=8)
    is_suspected: T = number(
        "It is on a port that was asked for, and begins with something else.", bits=8
    )
    is_taken: T = number("It is on such a port, and is believed.", bits=8)
    is_oriented: T = number("Its handshake says who the client is.", bits=8)
    is_proven: T = number(
        "1: it carries the protocol; -1: another one; 0: nothing has told.", bits=8
    )
    is_reversed: T = number("Its first packet came from the server.", bits=8)
    first_c2s: T = number(
        "One more than the number of the packet that brought the first byte of that direction; "
        "0: there was none."
    )
    first_s2c: T = number("The same.")


class DoubtedConnections(Doubted[IntArray], Table[Doubted]):
    """The connections, numbered from 1."""


class ConnectionEvidence:
    """The connections in doubt. Nothing here depends on how packets came in batches."""

    def __init__(self, begins: Callable[[int, int], bool] = lambda *_: False) -> None:
        """``begins``: returns whether this direction's first byte was captured."""
        self._begins = begins
        self._known = DoubtedConnections.zeros(64)
        self._cases: dict[int, _Case] = {}  # from a connection's first message until it is decided
        self.is_needed = False
        """Whether any connection was ever in doubt."""
        self.reversed: set[int] = set()
        """Connections whose first packet came from the server."""
        self.just_reversed: list[int] = []
        """Connections that the latest call of ``believed`` added to ``reversed``."""

    def doubt(self, connections: RowNumbers) -> None:
        """Puts connections in doubt: no message of theirs is believed without proof."""
        if len(connections):
            self._make_room(int(connections[-1]))
            self._known.is_doubted[connections] = 1
            self.is_needed = True

    def _make_room(self, connection: int) -> None:
        if connection >= len(self._known):
            self._known = self._known.grown(connection + 1)

    def suspected(self, connections: RowNumbers) -> BoolArray:
        """Returns, for each of these connections, whether it is suspected and has not proven to be
        of this protocol.
        """
        rows = np.minimum(connections, len(self._known) - 1)
        is_suspected = (self._known.is_suspected[rows] != 0) & (self._known.is_proven[rows] <= 0)
        return np.asarray(is_suspected & (connections < len(self._known)), dtype=np.bool_)

    def believe(self, connection: int) -> None:
        """Notes that a connection has said messages already."""
        self._make_room(connection)
        self._known.is_taken[connection] = self._known.is_doubted[connection] == 0

    def is_suspected(self, connection: int) -> bool:
        """Returns whether one connection is."""
        return bool(self.suspected(np.array([connection]))[0])

    def orient(self, connections: RowNumbers) -> None:
        """Notes that it is certain which end of these connections is the client."""
        self._known.is_oriented[connections[connections < len(self._known)]] = 1

    def is_doubted(self, connection: int) -> bool:
        """Returns whether a connection was in doubt from the start."""
        return connection < len(self._known) and self._known[connection].is_doubted != 0

    def doubted(self, connections: RowNumbers) -> BoolArray:
        """Returns, for each of these connections, whether it was in doubt from the start."""
        is_doubted = self._known.is_doubted[np.minimum(connections, len(self._known) - 1)]
        return np.asarray((connections < len(self._known)) & (is_doubted != 0), dtype=np.bool_)

    def held_from(self, connection: int, direction: int) -> int | None:
        """Returns the stream offset of a direction's first message that is held back, or None."""
        held = self._cases[connection].held if connection in self._cases else ()
        return min(
            (
                int(messages.framed.stream_offset[0])
                for messages in held
                if messages.direction == direction
            ),
            default=None,
        )

    def is_other(self, connection: int) -> bool:
        """Returns whether a connection in doubt has not proven to be of this protocol."""
        return self.is_doubted(connection) and self._known[connection].is_proven <= 0

    def are_unproven(self, connections: RowNumbers) -> BoolArray:
        """Returns, for each of these connections, whether it was in doubt and has not proven to be
        of this protocol.
        """
        is_proven = self._known.is_proven[np.minimum(connections, len(self._known) - 1)] > 0
        return self.doubted(connections) & ~is_proven

    def note(self, chunk: StreamChunk) -> None:
        """Notes a chunk that is about to be framed."""
        if not self.is_doubted(chunk.connection) or not len(chunk.data):
            return
        connection_row = self._known[chunk.connection]
        if not (connection_row.first_s2c if chunk.direction else connection_row.first_c2s):
            captured_segments = np.flatnonzero(chunk.segments.packet.frame > 0)
            if len(captured_segments):
                self.meet(
                    chunk.connection,
                    chunk.direction,
                    int(chunk.segments.release[captured_segments[0]]),
                )

    def meet(self, connection: int, direction: int, packet: int) -> None:
        """Notes that this packet brought the first byte of a direction."""
        if self.is_doubted(connection):
            setattr(self._known[connection], "first_s2c" if direction else "first_c2s", 1 + packet)

    def believed(
        self, new_messages: Iterable[DirectionMessages], *, final: bool = False
    ) -> list[DirectionMessages]:
        """Returns what may be shown of these parts, and of parts held back before; ``final``: the
        input has ended.
        """
        self.just_reversed = []
        believed_messages: list[DirectionMessages] = []
        news: dict[int, list[DirectionMessages]] = {}
        new_messages = list(new_messages)
        self._look_at_beginnings(new_messages)
        for messages in new_messages:
            connection_row = self._known[messages.connection]
            if connection_row.is_taken:
                believed_messages.append(messages)
            elif connection_row.is_proven > 0:
                believed_messages.append(
                    messages._replace(direction=messages.direction ^ connection_row.is_reversed)
                )
            elif not connection_row.is_proven:
                news.setdefault(messages.connection, []).append(messages)
        for connection in sorted({*self._cases, *news} if final else news):
            believed_messages += self._decided(connection, news.get(connection, []), final=final)
        if final:
            # connections without a message
            self._known.is_proven[(self._known.is_doubted != 0) & (self._known.is_proven == 0)] = -1
        return believed_messages

    def _look_at_beginnings(self, new_messages: Sequence[DirectionMessages]) -> None:
        """Believes or suspects connections on ports that were asked for by the first of their
        messages in the order of release.
        """
        beginnings: dict[int, DirectionMessages] = {}
        for messages in new_messages:
            self._make_room(messages.connection)
            connection_row = self._known[messages.connection]
            if not (
                connection_row.is_taken or connection_row.is_doubted or connection_row.is_suspected
            ):
                beginnings[messages.connection] = min(
                    beginnings.get(messages.connection, messages), messages, key=_first_release
                )
        for connection, messages in beginnings.items():
            framed, start = messages.framed, int(messages.framed.start[0])
            is_sure = not framed.heuristic[0] and _is_plausible(
                framed.data[start : start + HEADER].tobytes(), of_any_vbucket=True
            )
            if is_sure or not self._begins(connection, messages.direction):
                self._known.is_taken[connection] = 1
            else:
                self._known.is_suspected[connection] = 1

    def _decided(
        self, connection: int, news: list[DirectionMessages], *, final: bool
    ) -> Iterator[DirectionMessages]:
        """Yields the parts held back, and the news, once these prove the connection."""
        connection_row = self._known[connection]
        case = self._cases.setdefault(
            connection, _Case(is_suspected=connection_row.is_suspected != 0)
        )
        is_proven, release = _consider(
            case, (connection_row.first_c2s - 1, connection_row.first_s2c - 1), news, final=final
        )
        if is_proven is None:
            return
        del self._cases[connection]
        connection_row.is_proven = 1 if is_proven else -1
        if is_proven:
            if (
                not connection_row.is_oriented
                and not connection_row.is_suspected
                and case.is_reversed()
            ):
                connection_row.is_reversed = 1
                self.reversed.add(connection)
                self.just_reversed.append(connection)
            for messages in case.held:
                late = replace(
                    messages.framed, release=np.maximum(messages.framed.release, release)
                )
                yield messages._replace(
                    direction=messages.direction ^ connection_row.is_reversed, framed=late
                )


def _first_release(messages: DirectionMessages) -> tuple[int, int]:
    return int(messages.framed.release[0]), messages.direction


def _consider(
    case: _Case, first_byte: Sequence[int], news: list[DirectionMessages], *, final: bool
) -> tuple[bool | None, int]:
    """Weighs the news in the order of release. Returns what they prove, and the packet that
    decided. ``first_byte``: as in ``_Case.judge``.
    """
    case.held += news
    rows = sorted(
        (release, messages.direction, offset, index, row)
        for index, messages in enumerate(news)
        for row, (release, offset) in enumerate(
            zip(
                messages.framed.release.tolist(),
                messages.framed.stream_offset.tolist(),
                strict=True,
            )
        )
    )
    for release, direction, _, index, row in rows:
        framed = news[index].framed
        start = int(framed.start[row])
        case.weigh(
            direction,
            framed.data[start : start + HEADER].tobytes(),
            is_tried=bool(framed.heuristic[row]),
        )
        case.size += int(framed.length[row])
        is_proven = case.judge(release, first_byte, final=False)
        if is_proven is not None:
            return is_proven, int(release)
    return (case.judge(_AT_END, first_byte, final=True) if final else None), _AT_END
