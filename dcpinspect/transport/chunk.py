"""Ordered bytes of one direction: what reassembly hands to framing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.capture.batch import Bytes, Column

C2S = 0
S2C = 1

NOWHERE = -1
SCATTERED = -2
"""Places of a segment that are none in its file: of a hole; of bytes that the file does not hold in one piece."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Which packet gave which bytes of a stream: one entry a used segment, in stream order.

    Entry ``i`` covers stream offsets from ``offset[i]`` to ``offset[i + 1]`` (the last one: to the
    end of the chunk). A hole is an entry too, with the packet that made it final.
    """

    columns: Column
    """[6, n], the properties below: one array, because many a direction keeps an entry or two for long."""

    @staticmethod
    def of(offset: Column, packet: Column, frame: Column, file: Column, time_ns: Column, release: Column) -> Segments:
        """From one column each, which are copied."""
        return Segments(np.array((offset, packet, frame, file, time_ns, release), np.int64))

    @property
    def offset(self) -> Column:
        """First stream offset that the entry covers."""
        column: Column = self.columns[0]
        return column

    @property
    def packet(self) -> Column:
        """Number over the whole reading of the packet that gave the bytes."""
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
        """Number of the packet that made these bytes readable: none of this and all earlier entries of the direction has a greater one."""
        column: Column = self.columns[5]
        return column

    def only(self, rows: slice | Column) -> Segments:
        """A copy of these entries."""
        return Segments(np.array(self.columns[:, rows], order="C"))


class FirstBytes(NamedTuple):
    """Directions with news, those that said their first bytes in one packet among them: a column each, in the order of chunks."""

    number: Column
    """2 * (connection - 1) + direction."""
    data: Bytes
    """What the bytes are in."""
    start: Column
    length: Column
    """0: no byte came, but the end; -1: what came is something else."""
    packet: Column
    """As in ``Segments``, and the next four."""
    frame: Column
    file: Column
    time: Column
    release: Column
    is_start: npt.NDArray[np.bool_]
    """As in ``StreamChunk``, and the next one."""
    is_end: npt.NDArray[np.bool_]
    end_release: Column
    """Greatest packet up to that of the end."""
    end_packet: Column
    """Of the end, if it is there."""
    end_time: Column
    """The same."""
    place: Column | None
    """As in ``StreamChunk.places``; only for who asked for it."""


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
    """Where in its file (unpacked, if that is compressed) the bytes of each segment begin, or ``NOWHERE``, ``SCATTERED``; only for who
    asked for it."""
    carriers: Column | None = None
    """Of plain text of TLS, [4, n] in stream order: between which stream offsets the text of a record lies, and number and capture time of
    each packet that has any of that record; last of all the end, if it is one. Only for who asked for places."""
