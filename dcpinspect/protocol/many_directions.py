"""The messages in first bytes of directions, found for all directions of a batch at once.

Packets gave the bytes piece by piece. Where the first bytes of a direction are whole messages and
nothing else, a ``Framer`` would find just these. One kernel finds them in all such directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray
from dcpinspect.kernels.gathering import gathered
from dcpinspect.kernels.kernel import kernel
from dcpinspect.protocol.framed import NO_NUMBERS, Framed
from dcpinspect.protocol.message_walk import ROLES, WalkTables, follow_headers
from dcpinspect.transport.chunk import StreamEntries


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
    of: IntArray
    """The direction of each message, of those for which this holds."""
    start: IntArray
    """Where each message is in ``data``."""
    key: IntArray
    """The stream that each message shows, as in ``WalkTables``."""
    tables: WalkTables

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
        return Framed(
            data=self.data,
            stream_offset=self.start - self.begin[self.of],
            heuristic=is_late[self.of],
            missing_row=NO_NUMBERS,
            missing_start=NO_NUMBERS,
            missing_end=NO_NUMBERS,
            **self.tables.columns(slice(0, len(self.of))),
        )


def first_messages(data: ByteArray, pieces: StreamEntries) -> FirstMessages:
    """Returns what the directions of these pieces say first. ``pieces``: what packets gave, one
    direction behind the other; ``source``: where their bytes are in ``data``.
    """
    octets, start = gathered(data, pieces.source, pieces.length)
    pieces.source = start
    edge = np.append(np.flatnonzero(np.diff(pieces.side, prepend=-1)), len(pieces))
    begin = np.append(start, len(octets))[edge]
    tables = WalkTables.begin(octets, pieces, NO_NUMBERS)
    counts, is_whole = np.empty((2, len(edge) - 1), np.int64)
    count = frame_pieces(octets, ROLES, tables, begin, counts, is_whole)
    return FirstMessages(
        octets,
        begin,
        edge,
        pieces,
        counts,
        is_whole != 0,
        tables.of[:count],
        tables.start[:count],
        tables.key[:count],
        tables,
    )


@kernel("int64(octets, octets, WalkTables, int64[::1], int64[::1], int64[::1])")
def frame_pieces(
    data: ByteArray,
    roles: ByteArray,
    tables: WalkTables,
    begin: IntArray,
    counts: IntArray,
    is_whole: IntArray,
) -> int:
    """Follows the headers of each direction; returns the number of messages. Directions that hold
    anything else give none.
    """
    walk = tables.walk
    for i in range(len(counts)):
        before, end = walk.count, begin[i + 1]
        walk.direction = i
        walk.at = begin[i]
        follow_headers(data, roles, tables, end)
        counts[i] = walk.count - before
        is_whole[i] = 1 if walk.at == end and counts[i] > 0 else 0
        if walk.at != end:
            walk.count = before
    return int(walk.count)
