"""First bytes that came in several packets, framed for all directions of a batch at once.

A client that connects again and again has thousands of short connections, each of which says some
messages and ends. Where the first bytes of a direction are whole messages and nothing else, a
``Framer`` would find just these. One kernel finds them in all such directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray
from dcpinspect.kernels.gathering import gathered
from dcpinspect.kernels.kernel import inlined, kernel
from dcpinspect.kernels.structs import Struct, T, Tables, number
from dcpinspect.kernels.structs import StructRows as Table
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.framed import NO_NUMBERS, Framed
from dcpinspect.protocol.message_walk import ROLES, body_size, stream_key
from dcpinspect.protocol.resync import HEADER
from dcpinspect.transport.chunk import FirstBytes

_COLUMNS = ("start", "length", "packet", "frame", "file", "time", "release")


class PacketPieces(NamedTuple):
    """What packets gave of first bytes of directions, one behind the other; a row a packet."""

    of: RowNumbers
    """Place of its direction among those that were asked for."""
    start: RowNumbers
    """Where its bytes are in the data of ``Messages``; the other columns are as in ``FirstBytes``.
    """
    length: RowNumbers
    packet: RowNumbers
    frame: RowNumbers
    file: RowNumbers
    time: RowNumbers
    release: RowNumbers
    place: RowNumbers


class Messages(NamedTuple):
    """The messages of directions whose first bytes are messages and nothing else."""

    is_whole: BoolArray
    """For each direction, whether that holds for it."""
    size: RowNumbers
    """Number of first bytes of each direction."""
    pieces: PacketPieces
    of: RowNumbers
    """The direction of each message, as in ``PacketPieces``."""
    framed: Framed
    key: RowNumbers
    """The stream that each message shows, as in ``MessageRun.keys``; -1 for none."""
    is_event: BoolArray
    """Whether a producer sends the message in a stream."""


def messages_of(first: FirstBytes, rows: RowNumbers) -> Messages:
    """Returns the messages of these rows of ``first``, in one packet or in several."""
    pieces = _pieces(first, rows)
    data, piece_start = gathered(first.data, pieces.start, pieces.length)
    pieces = pieces._replace(start=piece_start)
    count = np.bincount(pieces.of, minlength=len(rows))
    edge = np.append(0, np.cumsum(count))
    begin = np.append(piece_start, len(data))[edge]
    tables = PieceTables()
    tables.begin = begin
    tables.edge = edge
    tables.piece_at = piece_start
    tables.packet = pieces.packet
    tables.is_whole = np.empty(len(rows), np.int64)
    tables.messages = FoundMessages.zeros(len(data) // HEADER)
    found_messages = tables.messages[: frame_pieces(data, ROLES, tables)]
    return Messages(
        tables.is_whole != 0,
        np.diff(begin),
        pieces,
        found_messages.of,
        Framed(
            data=data,
            start=found_messages.start,
            length=found_messages.length,
            stream_offset=found_messages.start - begin[found_messages.of],
            frame=pieces.frame[found_messages.least],
            last_frame=pieces.frame[found_messages.greatest],
            file=pieces.file[found_messages.least],
            last_file=pieces.file[found_messages.greatest],
            time_ns=pieces.time[found_messages.greatest],
            release=pieces.release[found_messages.last],
            heuristic=np.zeros(len(found_messages), dtype=np.bool_),
            missing_row=NO_NUMBERS,
            missing_start=NO_NUMBERS,
            missing_end=NO_NUMBERS,
        ),
        found_messages.key,
        found_messages.is_event != 0,
    )


def _pieces(first: FirstBytes, rows: RowNumbers) -> PacketPieces:
    """Returns the pieces of these rows, which begin where they are in the data of ``first``."""
    row_number = np.full(len(first.number), -1, dtype=np.int64)
    row_number[rows] = np.arange(len(rows))
    several = np.flatnonzero(row_number[first.pieces.row] >= 0)
    in_pieces = np.zeros(len(first.number), dtype=np.bool_)
    in_pieces[first.pieces.row[several]] = True
    single = rows[~in_pieces[rows]]
    direction_row = np.append(row_number[first.pieces.row[several]], row_number[single])
    order = np.argsort(direction_row, kind="stable")
    columns = {
        name: np.append(getattr(first.pieces, name)[several], getattr(first, name)[single])[order]
        for name in _COLUMNS
    }
    in_file = NO_NUMBERS
    if first.place is not None:
        in_file = np.append(first.pieces.place[several], first.place[single])[order]
    return PacketPieces(of=direction_row[order], place=in_file, **columns)


class FoundMessage(Struct[T]):
    """A message of a direction whose first bytes are followed."""

    of: T = number("The direction, as in ``PacketPieces``.")
    start: T = number("Where it is in the data.")
    length: T = number("Its bytes.")
    least: T = number("The piece of the least packet that gave bytes of it.")
    greatest: T = number("The piece of the greatest packet.")
    last: T = number("The piece of its last byte.")
    key: T = number("The stream that it shows, as in ``MessageRun.keys``; -1 for none.")
    is_event: T = number("A producer sends it in a stream.")


class FoundMessages(FoundMessage[IntArray], Table[FoundMessage]):
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
    is_whole: IntArray
    """The kernel writes: whether a direction has messages and nothing else."""
    messages: FoundMessages


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
        tables.is_whole[i] = 1 if offset == end and count > before else 0
        if offset != end:
            count = before
    return count
