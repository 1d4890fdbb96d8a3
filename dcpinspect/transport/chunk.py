"""Ordered bytes of one direction: what reassembly hands to framing."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
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


@dataclass(frozen=True, slots=True)
class Segments:
    """Which packet gave which bytes of a stream: one entry for each used segment, in stream order.

    Entry ``i`` covers stream offsets from ``offset[i]`` to ``offset[i + 1]`` (the last one: to the
    end of the chunk). A hole is an entry too, with the packet that made it final.
    """

    columns: IntArray
    """[6, n]: the properties below, in one array: many directions keep an entry or two long."""

    @property
    def offset(self) -> IntArray:
        """First stream offset that the entry covers."""
        column: IntArray = self.columns[0]
        return column

    @property
    def packet(self) -> IntArray:
        """Number, over the whole reading, of the packet that gave the bytes."""
        column: IntArray = self.columns[1]
        return column

    @property
    def frame(self) -> IntArray:
        """Number of that packet in its file, from 1; 0 for a hole."""
        column: IntArray = self.columns[2]
        return column

    @property
    def file(self) -> IntArray:
        """Number of that file in the reading, from 0."""
        column: IntArray = self.columns[3]
        return column

    @property
    def time_ns(self) -> IntArray:
        """Capture time of that packet."""
        column: IntArray = self.columns[4]
        return column

    @property
    def release(self) -> IntArray:
        """Number of the packet that made these bytes readable: no packet of this entry and all
        earlier ones of the direction has a greater number.
        """
        column: IntArray = self.columns[5]
        return column

    def only(self, rows: slice | IntArray) -> Segments:
        """Returns a copy of these entries."""
        return Segments(np.array(self.columns[:, rows], order="C"))


def rows_of(columns: IntArray, start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Returns, for columns of ``Segments``, the entries that have bytes of each range, and the
    number of the range for each of them.
    """
    first = np.searchsorted(columns[0], start, "right") - 1
    counts = np.searchsorted(columns[0], end - 1, "right") - first
    rows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    return rows, np.repeat(np.arange(len(start)), counts)


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
    ``release`` is as in ``Segments``, and ``place`` as in ``StreamChunk.places``.
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
    segments: Segments
    holes: tuple[tuple[int, int], ...] = ()
    """Stream offsets [start, end) inside this chunk that the capture does not hold."""
    is_start: bool = False
    """True for the first chunk after a SYN: a message begins at ``data[0]``."""
    is_end: bool = False
    """True when no more bytes of this direction can come."""
    places: IntArray | None = None
    """Where the bytes of each segment begin in its file (unpacked, if that is compressed), or
    ``NOWHERE``, ``SCATTERED``; only for readings with places.
    """
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
        segments = self.segments.only(slice(first, None))
        places = None if self.places is None else self.places[first:].copy()
        if places is not None and places[0] >= 0:
            places[0] += at - int(segments.offset[0])
        segments.offset[0] = at
        return replace(
            self,
            offset=at,
            data=self.data[at - self.offset :].copy(),
            segments=segments,
            holes=tuple((max(at, start), end) for start, end in self.holes if end > at),
            is_start=False,
            places=places,
        )
