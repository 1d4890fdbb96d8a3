"""Consecutive stream bytes that framing works on, with their holes and origins; they grow while a
message is incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.transport.chunk import StreamChunk, StreamEntries

HoleSpans = Sequence[tuple[int, int]]

_LOOSE = 256
"""Number of lists of segments kept apart before they are joined or collapsed."""


class Stretch:
    """Bytes from stream offset ``offset`` on, not yet framed. Appending is linear in the bytes
    appended, however small the pieces.
    """

    __slots__ = ("_data", "_holes", "_owned", "_segments", "_size", "offset")

    def __init__(self, chunk: StreamChunk) -> None:
        self.offset = chunk.offset
        self._data: ByteArray = chunk.data
        self._size = len(chunk.data)
        self._owned = False  # the chunk's own array is used until something is appended
        self._segments: Sequence[StreamEntries] = (
            chunk.segments,
        )  # becomes a list once there are more, and so do the holes
        self._holes: HoleSpans = ()
        self._add_holes(chunk.holes)

    @property
    def size(self) -> int:
        """Number of bytes held."""
        return self._size

    @property
    def end(self) -> int:
        """Stream offset after the last byte."""
        return self.offset + self._size

    @property
    def data(self) -> ByteArray:
        """The bytes, holes filled with zero."""
        return self._data[: self._size]

    @property
    def segments(self) -> StreamEntries:
        """The packets that the bytes came from."""
        if len(self._segments) > 1:
            self._segments = (StreamEntries.joined(self._segments),)
        return self._segments[0]

    @property
    def release(self) -> int:
        """Packet that made the last byte readable, or that ended the direction."""
        return int(self._segments[-1].release[-1])

    def holes(self) -> IntArray:
        """Returns [n, 2]: stream offsets between which bytes are missing; no two ranges touch."""
        return np.array(self._holes, np.int64).reshape(-1, 2)

    def append(self, chunk: StreamChunk) -> None:
        """Adds the bytes that follow."""
        size = self._size + len(chunk.data)
        if not self._owned or size > len(self._data):
            # the kernel provides zeros only when they are touched, so the holes of a message cost
            # nothing
            grown = np.zeros(max(size, 2 * len(self._data) if self._owned else 0), np.uint8)
            _copy_around(grown, 0, self.data, self.offset, self._holes)
            self._data, self._owned = grown, True
        _copy_around(self._data, self._size, chunk.data, chunk.offset, chunk.holes)
        self._size = size
        if not isinstance(self._segments, list):
            self._segments = list(self._segments)
        self._segments.append(chunk.segments)
        self._add_holes(chunk.holes)
        if len(self._segments) > _LOOSE:
            self._segments = (StreamEntries.joined(self._segments),)

    def _add_holes(self, holes: HoleSpans) -> None:
        for start, end in holes:
            if not isinstance(self._holes, list):
                self._holes = list(self._holes)
            if self._holes and self._holes[-1][1] == start:
                self._holes[-1] = self._holes[-1][0], end
            else:
                self._holes.append((start, end))

    def collapse(self) -> None:
        """Keeps only the segments that a message over these bytes needs: least, greatest, last."""
        if len(self._segments) < _LOOSE // 2 or self._size < 24:
            return
        segments = self.segments
        captured_segments = np.flatnonzero(segments.packet.frame > 0)
        if not len(captured_segments):
            return
        packet = segments.packet.number[captured_segments]
        least, greatest = captured_segments[[np.argmin(packet), np.argmax(packet)]]
        needed_segments = segments[np.array([least, greatest, len(segments) - 1])]
        needed_segments.offset = self.offset + np.arange(3)  # each must cover a byte
        needed_segments.release = np.maximum.accumulate(needed_segments.release)
        self._segments = (needed_segments,)

    def bytes_from(self, start: int) -> Stretch | None:
        """Returns a copy of the bytes from stream offset ``start`` on; ``None`` for none."""
        if start >= self.end:
            return None
        segments = self.segments
        first = max(0, int(np.searchsorted(segments.offset, start, "right")) - 1)
        holes = tuple((max(a, start), b) for a, b in self._holes if b > start)
        data = np.zeros(self.end - start, np.uint8)
        _copy_around(data, 0, self._data[start - self.offset : self._size], start, holes)
        chunk = StreamChunk(0, 0, start, data, StreamEntries.joined([segments[first:]]), holes)
        stretch = Stretch(chunk)
        stretch._owned = True
        return stretch


def captured(start: int, end: int, holes: IntArray) -> int:
    """Returns the bytes between two stream offsets that are in no hole; ``holes``: in order."""
    first, last = holes[:, 1].searchsorted(start, "right"), holes[:, 0].searchsorted(end)
    if end <= start or first >= last:
        return max(0, end - start)
    holes = holes[first:last]
    missing = np.minimum(holes[:, 1], end) - np.maximum(holes[:, 0], start)
    return end - start - int(missing[missing > 0].sum())


def _copy_around(
    target: ByteArray, at: int, source: ByteArray, offset: int, holes: HoleSpans
) -> None:
    """Copies ``source``, which begins at stream offset ``offset``, to ``target[at:]``, stepping
    over long holes without touching them.
    """
    start = 0
    for hole, end in holes:
        if end - hole >= 65_536:
            stop = max(start, hole - offset)
            target[at + start : at + stop] = source[start:stop]
            start = max(start, end - offset)
    target[at + start : at + len(source)] = source[start:]
