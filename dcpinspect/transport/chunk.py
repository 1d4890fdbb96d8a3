"""Ordered bytes of one direction: what reassembly hands to framing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.capture.batch import Bytes, Column
from dcpinspect.lazy_dataclass import dataclass

C2S = 0
S2C = 1

NOWHERE = -1
SCATTERED = -2
"""Places of a segment that are not in its file: NOWHERE, a hole; SCATTERED, bytes that the file does not hold in one piece."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Which packet gave which bytes of a stream: one entry for each used segment, in stream order.

    Entry ``i`` covers stream offsets from ``offset[i]`` to ``offset[i + 1]`` (the last one: to the end of the chunk). A hole is an entry
    too, with the packet that made it final.
    """

    columns: Column
    """[6, n]: the properties below. It is one array, because many directions keep an entry or two for long."""

    @staticmethod
    def of(offset: Column, packet: Column, frame: Column, file: Column, time_ns: Column, release: Column) -> Segments:
        """Returns segments made of these columns, which are copied."""
        return Segments(np.array((offset, packet, frame, file, time_ns, release), np.int64))

    @property
    def offset(self) -> Column:
        """First stream offset that the entry covers."""
        column: Column = self.columns[0]
        return column

    @property
    def packet(self) -> Column:
        """Number, over the whole reading, of the packet that gave the bytes."""
        column: Column = self.columns[1]
        return column

    @property
    def frame(self) -> Column:
        """Number of that packet in its file, from 1; 0 for a hole."""
        column: Column = self.columns[2]
        return column

    @property
    def file(self) -> Column:
        """Number of that file in the reading, from 0."""
        column: Column = self.columns[3]
        return column

    @property
    def time_ns(self) -> Column:
        """Capture time of that packet."""
        column: Column = self.columns[4]
        return column

    @property
    def release(self) -> Column:
        """Number of the packet that made these bytes readable: no packet of this entry and all earlier ones of the direction has a greater
        number."""
        column: Column = self.columns[5]
        return column

    def only(self, rows: slice | Column) -> Segments:
        """Returns a copy of these entries."""
        return Segments(np.array(self.columns[:, rows], order="C"))


def rows_of(columns: Column, start: Column, end: Column) -> tuple[Column, Column]:
    """Returns, for columns of ``Segments``, the entries that have bytes of each range, and the number of the range for each of them."""
    first = np.searchsorted(columns[0], start, "right") - 1
    counts = np.searchsorted(columns[0], end - 1, "right") - first
    rows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    return rows, np.repeat(np.arange(len(start)), counts)


class FirstPieces(NamedTuple):
    """What each packet gave of the first bytes of directions to which several packets gave some; directions in the order of
    ``FirstBytes``, and what came of each in its own order. No bytes are missing."""

    row: Column
    """Row of the direction in ``FirstBytes``; the other columns are as there."""
    start: Column
    length: Column
    packet: Column
    frame: Column
    file: Column
    time: Column
    release: Column
    place: Column


class FirstBytes(NamedTuple):
    """Directions with new bytes, among them those whose first bytes came in one packet; one column for each field, in the order of
    chunks."""

    number: Column
    """Number of the direction: 2 * (connection - 1) + direction."""
    data: Bytes
    """The array that holds the bytes."""
    start: Column
    length: Column
    """Number of bytes. 0: no byte came, only the end. -1: what came is something else."""
    packet: Column
    """Number of the packet that gave the bytes, as in ``Segments``; ``frame``, ``file``, ``time`` and ``release`` are also as there."""
    frame: Column
    file: Column
    time: Column
    release: Column
    is_start: npt.NDArray[np.bool_]
    """Whether the bytes are the first ones after a SYN, as in ``StreamChunk``; ``is_end`` is also as there."""
    is_end: npt.NDArray[np.bool_]
    end_release: Column
    """Greatest number of a packet up to the one of the end."""
    end_packet: Column
    """The packet of the end, if it has come."""
    end_time: Column
    """Capture time of the packet of the end, if it has come."""
    place: Column | None
    """Places of the bytes, as in ``StreamChunk.places``; None for readings without places."""
    pieces: FirstPieces
    """Directions whose first bytes came in several packets."""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """The next bytes of one direction of one connection, holes filled with zero and listed."""

    connection: int
    """Connection number, from 1 in order of first packet."""
    direction: int
    """``C2S`` or ``S2C``."""
    offset: int
    """Stream offset of ``data[0]``: payload bytes of this direction since the first byte seen."""
    data: Bytes
    segments: Segments
    holes: tuple[tuple[int, int], ...] = ()
    """Stream offsets [start, end) inside this chunk that the capture does not hold."""
    is_start: bool = False
    """True for the first chunk after a SYN: a message begins at ``data[0]``."""
    is_end: bool = False
    """True when no more bytes of this direction can come."""
    places: Column | None = None
    """Where the bytes of each segment begin in its file (unpacked, if that is compressed), or ``NOWHERE``, ``SCATTERED``; only for readings
    with places."""
    carriers: Column | None = None
    """For plain text of TLS: [4, n] in stream order. The rows are the stream offsets between which the text of a record lies, and number
    and capture time of each packet that has any of that record. The last column is the end, if the chunk is one. Only for readings with
    places."""
