"""The messages in first bytes of directions, found for all directions of a batch at once.

Packets gave the bytes piece by piece. Where the first bytes of a direction are whole messages and
nothing else, a ``Framer`` would find just these. One kernel finds them in all such directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray
from dcpinspect.kernels.gathering import gathered
from dcpinspect.kernels.kernel import inlined, kernel
from dcpinspect.kernels.structs import Struct, StructRows, T, Tables, number
from dcpinspect.protocol.framed import NO_NUMBERS, Framed
from dcpinspect.protocol.message_walk import ROLES, body_size, stream_key
from dcpinspect.protocol.resync import HEADER
from dcpinspect.transport.chunk import StreamEntries


class FoundMessage(Struct[T]):
    """A message of a direction whose first bytes are followed."""

    of: T = number("The direction.")
    start: T = number("Where it is in the data.")
    length: T = number("Its bytes.")
    least: T = number("The piece of the least packet that gave bytes of it.")
    greatest: T = number("The piece of the greatest packet.")
    last: T = number("The piece of its last byte.")
    key: T = number("The stream that it shows, as in ``MessageRun.keys``; -1 for none.")
    is_event: T = number("A producer sends it in a stream.")


class FoundMessages(FoundMessage[IntArray], StructRows[FoundMessage]):
    """The messages of directions, one behind the other."""


class PieceTables(Tables):
    """What the kernel works on."""

    begin: IntArray
    """Where the bytes of each direction begin, and their end."""
    edge: IntArray
    """Where the pieces of each direction begin, and their number."""
    piece_at: IntArray
    """Where the bytes of each piece begin."""
    packet: IntArray
    """The packet of each piece."""
    counts: IntArray
    """The kernel writes: how many messages each direction begins with."""
    is_whole: IntArray
    """And whether these are all, and at least one."""
    messages: FoundMessages


class FirstMessages(NamedTuple):
    """What directions say first. Of those that say nothing but messages, the messages."""

    data: ByteArray
    """The bytes of all of them, one direction behind the other."""
    begin: IntArray
    """Where the bytes of each direction begin, and their end."""
    edge: IntArray
    """Where the pieces of each direction begin, and their number."""
    pieces: StreamEntries
    """What packets gave of the bytes; ``source`` is the place in ``data``."""
    counts: IntArray
    """How many messages each direction begins with."""
    is_whole: BoolArray
    """Whether these are all, and at least one."""
    messages: FoundMessages
    """The messages of those for which this holds."""

    @property
    def begins(self) -> StreamEntries:
        """The first piece of each direction."""
        return self.pieces[self.edge[:-1]]

    @property
    def sizes(self) -> IntArray:
        """Number of bytes of each direction."""
        return np.diff(self.begin)

    def framed(self, is_late: BoolArray) -> Framed:
        """Returns the messages. ``is_late``: directions that were only certain at their end."""
        messages, pieces = self.messages, self.pieces
        packet = pieces.packet
        return Framed(
            data=self.data,
            start=messages.start,
            length=messages.length,
            stream_offset=messages.start - self.begin[messages.of],
            frame=packet.frame[messages.least],
            last_frame=packet.frame[messages.greatest],
            file=packet.file[messages.least],
            last_file=packet.file[messages.greatest],
            time_ns=packet.time[messages.greatest],
            release=pieces.release[messages.last],
            heuristic=is_late[messages.of],
            missing_row=NO_NUMBERS,
            missing_start=NO_NUMBERS,
            missing_end=NO_NUMBERS,
        )


def first_messages(data: ByteArray, pieces: StreamEntries) -> FirstMessages:
    """Returns what the directions of these pieces say first. ``pieces``: what packets gave, one
    direction behind the other; ``source``: where their bytes are in ``data``.
    """
    octets, start = gathered(data, pieces.source, pieces.length)
    pieces.source = start
    side, count = pieces.side, len(pieces)
    edge = np.append(np.flatnonzero(np.diff(side, prepend=-1)), count)
    tables = PieceTables()
    tables.begin = begin = np.append(start, len(octets))[edge]
    tables.edge = edge
    tables.piece_at = start
    tables.packet = np.ascontiguousarray(pieces.packet.number)
    tables.counts, tables.is_whole = np.empty((2, len(edge) - 1), np.int64)
    tables.messages = FoundMessages.zeros(len(octets) // HEADER)
    messages = tables.messages[: frame_pieces(octets, ROLES, tables)]
    return FirstMessages(octets, begin, edge, pieces, tables.counts, tables.is_whole != 0, messages)


@inlined
def note_pieces(tables: PieceTables, first: int, last: int, message: FoundMessage) -> int:
    """Writes which of the pieces [first, last) gave a message; returns its last byte's."""
    s, end = first, message.start + message.length
    while s + 1 < last and tables.piece_at[s + 1] <= message.start:
        s += 1
    low, high, j = s, s, s
    while j < last and tables.piece_at[j] < end:
        if tables.packet[j] < tables.packet[low]:
            low = j
        if tables.packet[j] > tables.packet[high]:
            high = j
        j += 1
    message.least = low
    message.greatest = high
    message.last = max(s, j - 1)
    return int(message.last)


@kernel("int64(octets, octets, PieceTables)")
def frame_pieces(data: ByteArray, roles: ByteArray, tables: PieceTables) -> int:
    """Follows the headers of each direction; returns the number of messages. Directions that hold
    anything else give none.

    One step for each message and for each piece.
    """
    count = 0
    for i in range(len(tables.is_whole)):
        offset, end, before, s = tables.begin[i], tables.begin[i + 1], count, tables.edge[i]
        while offset + HEADER <= end:
            body = body_size(data, offset, end)
            if body < 0 or offset + HEADER + body > end:
                break
            message, role = tables.messages[count], roles[data[offset + 1]]
            message.of = i
            message.start = offset
            message.length = HEADER + body
            message.key = stream_key(data, offset, role)
            message.is_event = 1 if role == 2 and message.key >= 0 else 0
            s = note_pieces(tables, s, tables.edge[i + 1], message)
            count += 1
            offset += message.length
        tables.counts[i] = count - before
        tables.is_whole[i] = 1 if offset == end and count > before else 0
        if offset != end:
            count = before
    return count
