"""First bytes that came in several packets, framed for all directions of a batch at once.

A client that connects again and again has thousands of short connections, each of which says some messages and ends. Where the first bytes
of a direction are whole messages and nothing else, a ``Framer`` would find just these. One kernel finds them in all such directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.gathering import gathered
from dcpinspect.kernels.kernel import Ints, Octets, be16, be32, kernel
from dcpinspect.protocol.columns import Mask, Rows
from dcpinspect.protocol.framed import NO_NUMBERS, Framed
from dcpinspect.protocol.resync import ANSWERED, HEADER, MAX_BODY
from dcpinspect.protocol.walk import ROLES
from dcpinspect.transport.chunk import FirstBytes

_COLUMNS = ("start", "length", "packet", "frame", "file", "time", "release")


class Pieces(NamedTuple):
    """What packets gave of the first bytes of directions, one behind the other; a row for each packet."""

    of: Rows
    """Place of its direction among those that were asked for."""
    start: Rows
    """Where its bytes are in the data of ``Messages``; the other columns are as in ``FirstBytes``."""
    length: Rows
    packet: Rows
    frame: Rows
    file: Rows
    time: Rows
    release: Rows
    place: Rows


class Messages(NamedTuple):
    """The messages of directions whose first bytes are messages and nothing else."""

    is_whole: Mask
    """For each direction, whether that holds for it."""
    size: Rows
    """Number of first bytes of each direction."""
    pieces: Pieces
    of: Rows
    """The direction of each message, as in ``Pieces``."""
    framed: Framed
    key: Rows
    """The stream that each message shows, as in ``Run.keys``; -1 for none."""
    is_event: Mask
    """Whether a producer sends the message in a stream."""


def messages_of(first: FirstBytes, rows: Rows) -> Messages:
    """Returns the messages of these rows of ``first``, whose bytes came in one packet or in several."""
    pieces = _pieces(first, rows)
    data, at = gathered(first.data, pieces.start, pieces.length)
    pieces = pieces._replace(start=at)
    count = np.bincount(pieces.of, minlength=len(rows))
    edge = np.append(0, np.cumsum(count))
    begin = np.append(at, len(data))[edge]
    room = len(data) // HEADER
    of, start, length, least, greatest, last, key, event = np.empty((8, room), np.int64)
    is_whole = np.empty(len(rows), np.uint8)
    found = frame_pieces(data, begin, edge, at, pieces.packet, ROLES, is_whole, of, start, length, least, greatest, last, key, event)
    of, start, length, least, greatest, last, key, event = (
        column[:found] for column in (of, start, length, least, greatest, last, key, event)
    )
    return Messages(
        is_whole != 0,
        np.diff(begin),
        pieces,
        of,
        Framed(
            data=data,
            start=start,
            length=length,
            stream_offset=start - begin[of],
            frame=pieces.frame[least],
            last_frame=pieces.frame[greatest],
            file=pieces.file[least],
            last_file=pieces.file[greatest],
            time_ns=pieces.time[greatest],
            release=pieces.release[last],
            heuristic=np.zeros(found, dtype=np.bool_),
            missing_row=NO_NUMBERS,
            missing_start=NO_NUMBERS,
            missing_end=NO_NUMBERS,
        ),
        key,
        event != 0,
    )


def _pieces(first: FirstBytes, rows: Rows) -> Pieces:
    """Returns the pieces of these rows, which begin where they are in the data of ``first``."""
    place = np.full(len(first.number), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    several = np.flatnonzero(place[first.pieces.row] >= 0)
    in_pieces = np.zeros(len(first.number), dtype=np.bool_)
    in_pieces[first.pieces.row[several]] = True
    single = rows[~in_pieces[rows]]
    of = np.append(place[first.pieces.row[several]], place[single])
    order = np.argsort(of, kind="stable")
    columns = {name: np.append(getattr(first.pieces, name)[several], getattr(first, name)[single])[order] for name in _COLUMNS}
    in_file = NO_NUMBERS
    if first.place is not None:
        in_file = np.append(first.pieces.place[several], first.place[single])[order]
    return Pieces(of=of[order], place=in_file, **columns)


@kernel(
    "int64(octets, int64[::1], int64[::1], int64[::1], int64[::1], octets, uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1])"
)
def frame_pieces(
    data: Octets,
    begin: Ints,
    edge: Ints,
    piece_at: Ints,
    packet: Ints,
    roles: Octets,
    is_whole: Octets,
    of: Ints,
    start: Ints,
    length: Ints,
    least: Ints,
    greatest: Ints,
    last: Ints,
    key: Ints,
    event: Ints,
) -> int:
    """Follows the headers of each direction; returns the number of messages. Directions that hold anything else give none.

    ``begin``, ``edge``: where the bytes and the pieces of each direction begin, and at the end their number. ``least``, ``greatest``,
    ``last``: as in ``frame_messages``, but pieces. One step for each message and for each piece.
    """
    count = 0
    for i in range(len(is_whole)):
        at, end, before = begin[i], begin[i + 1], count
        s = edge[i]
        while at + 24 <= end:
            magic = data[at]
            body = be32(data, at + 8)
            if magic not in (0x80, 0x81, 0x08, 0x18, 0x82, 0x83) or body > MAX_BODY or at + 24 + body > end:
                break
            behind = at + 24 + body
            while s + 1 < edge[i + 1] and piece_at[s + 1] <= at:
                s += 1
            low, high, j = s, s, s
            while j < edge[i + 1] and piece_at[j] < behind:
                if packet[j] < packet[low]:
                    low = j
                if packet[j] > packet[high]:
                    high = j
                j += 1
            s = max(s, j - 1)
            of[count] = i
            start[count] = at
            length[count] = 24 + body
            least[count] = low
            greatest[count] = high
            last[count] = s
            key[count] = -1
            role = roles[data[at + 1]]
            answers = role == 1 and magic in (0x81, 0x18) and data[at + 6] == 0 and data[at + 7] == 0  # the status: success
            asks = role != 0 and magic in (0x80, 0x08)
            event[count] = 1 if asks and role == 2 else 0
            if answers:
                key[count] = ANSWERED | be32(data, at + 12)
            elif asks:
                key[count] = (be16(data, at + 6) << 32) | be32(data, at + 12)
            count += 1
            at = behind
        is_whole[i] = 1 if at == end and count > before else 0
        if at != end:
            count = before
    return count
