"""Ordered bytes of one direction: what reassembly hands to framing."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray, numbers_of
from dcpinspect.kernels.structs import Struct, StructRows, T, nested, number
from dcpinspect.lazy_dataclass import dataclass

C2S = 0
S2C = 1

NOWHERE = -1
SCATTERED = -2
"""Places of a segment that are not in its file: NOWHERE, a hole; SCATTERED, bytes that the file
does not hold in one piece.
"""


class Packet(Struct[T]):
    """A packet."""

    frame: T = number("Its frame in its file; 0 if it came in no frame.")
    file: T = number("Its file, from 0.")
    time: T = number("Its capture time in nanoseconds.")
    number: T = number("Its number over the whole reading.")


class StreamEntry(Struct[T]):
    """Bytes that are next in a direction."""

    __slots__ = ()

    side: T = number("The direction.", of="sides")
    offset: T = number("Stream offset of the first.")
    length: T = number("How many.")
    source: T = number("Where they are in the batch's data, or ``flow_records.HOLE`` and below.")
    packet: Packet[T] = nested(
        Packet, "The packet that has them, or showed that they will not come."
    )
    place: T = number("Place of held bytes in the file.")
    release: T = number("Number of the packet by which they were entered.")


class StreamEntries(StreamEntry[IntArray], StructRows[StreamEntry]):
    """The entries of a batch, in the order found."""

    __slots__ = ()


def rows_of(segments: StreamEntries, start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the segments that have bytes of each range, and the number of the range for each of
    them.
    """
    first = np.searchsorted(segments.offset, start, "right") - 1
    return numbers_of(first, np.searchsorted(segments.offset, end - 1, "right") - first)


class NewDirection(Struct[T]):
    """A direction to which a batch brought something."""

    row: T = number("The first of its entries.")
    stop: T = number("One more than the last of its entries.")
    holes: T = number("How many of them are holes.")
    pieces: T = number("How many of them are no end.")
    length: T = number(
        "Bytes of what it says first. 0: no byte came, only the end. -1: what came is something "
        "else."
    )
    is_start: T = number("Its first byte is known from a SYN.")
    is_end: T = number("It has ended.")
    flow: T = number("Its flow.")
    released: T = number("Greatest number of a packet of what was given out before.")
    end_release: T = number("The same with what came now.")
    number: T = number("2 * (connection - 1) + direction.")


class NewDirections(NewDirection[IntArray], StructRows[NewDirection]):
    """The directions to which a batch brought something, in the order of chunks."""


class FirstBytes(NamedTuple):
    """What directions say first, and which of them ended."""

    directions: NewDirections
    """All directions with something new."""
    data: ByteArray
    """The array that holds the bytes."""
    pieces: StreamEntries
    """What packets gave of the bytes of each direction that says some. No bytes are missing.
    ``release`` and ``place`` are as in ``StreamChunk.segments``.
    """
    ends: StreamEntries
    """The end of each direction that ended."""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """The next bytes of one direction of one connection, holes filled with zero and listed."""

    connection: int
    """Connection number, from 1 in order of first packet."""
    direction: int
    """``C2S`` or ``S2C``."""
    offset: int
    """Stream offset of ``data[0]``: payload bytes of this direction since the first byte seen."""
    data: ByteArray
    segments: StreamEntries
    """Which packets gave the bytes, in stream order: each entry covers the offsets up to the next
    one. A hole is an entry too, with the packet that made it final, and frame 0. ``release`` is the
    packet that made the bytes readable: no packet of this entry and all earlier ones of the
    direction has a greater number. ``place`` is where the bytes begin in their file (unpacked, if
    that is compressed), or ``NOWHERE``, ``SCATTERED``.
    """
    holes: tuple[tuple[int, int], ...] = ()
    """Stream offsets [start, end) inside this chunk that the capture does not hold."""
    is_start: bool = False
    """True for the first chunk after a SYN: a message begins at ``data[0]``."""
    is_end: bool = False
    """True when no more bytes of this direction can come."""
    is_placed: bool = False
    """Whether the reading has places: segments say where they are in their files."""
    carriers: IntArray | None = None
    """For plain text of TLS: [4, n] in stream order. The rows are the stream offsets between which
    the text of a record lies, and number and capture time of each packet that has any of that
    record. The last column is the end, if the chunk is one. Only for readings with places.
    """

    def since(self, at: int) -> StreamChunk:
        """Returns the chunk without what is before a stream offset."""
        if at <= self.offset:
            return self
        first = max(0, int(np.searchsorted(self.segments.offset, at, "right")) - 1)
        segments = StreamEntries.joined([self.segments[first:]])
        if segments.place[0] >= 0:
            segments.place[0] += at - int(segments.offset[0])
        segments.offset[0] = at
        return replace(
            self,
            offset=at,
            data=self.data[at - self.offset :].copy(),
            segments=segments,
            holes=tuple((max(at, start), end) for start, end in self.holes if end > at),
            is_start=False,
        )
