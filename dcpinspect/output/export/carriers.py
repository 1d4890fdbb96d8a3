"""Which packets carried which bytes of the streams, for bytes that a coming message may still have:
columns of all directions together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray, grown, numbers_of
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.first_bytes import BriefMessages
from dcpinspect.transport.chunk import StreamChunk


class LineMarks:
    """A set of packets or messages, by their number in the whole reading; one bit each."""

    def __init__(self) -> None:
        self._bits = np.zeros(1024, np.uint8)

    def add(self, numbers: IntArray) -> None:
        """Adds numbers."""
        if not len(numbers):
            return
        need = int(numbers.max()) // 8 + 1
        if need > len(self._bits):
            self._bits = grown(self._bits, need)
        np.bitwise_or.at(self._bits, numbers >> 3, (1 << (numbers & 7)).astype(np.uint8))

    def has(self, numbers: IntArray) -> BoolArray:
        """Returns which of the numbers are in the set."""
        byte = numbers >> 3
        bit = self._bits[np.minimum(byte, len(self._bits) - 1)] >> (numbers & 7) & 1
        is_marked: BoolArray = (byte < len(self._bits)) & (bit != 0)
        return is_marked

    def within(self, first: int, count: int) -> IntArray:
        """Returns which of ``count`` numbers from ``first`` on are in the set, less ``first``."""
        start = first // 8
        bits = np.unpackbits(self._bits[start : (first + count) // 8 + 1], bitorder="little")[
            first - 8 * start :
        ][:count]
        distances: IntArray = np.flatnonzero(bits)
        return distances

    @property
    def end(self) -> int:
        """One past the greatest number, or 0."""
        used = np.flatnonzero(self._bits)
        return 8 * int(used[-1]) + int(self._bits[used[-1]]).bit_length() if len(used) else 0


PIECE = np.dtype([(name, np.int64) for name in ("flow", "first", "behind", "packet", "time_ns")])
"""A stretch of bytes from one packet: 2 * connection + direction, as the packet went; first stream
offset, and one past the last; number and time of the packet. For TLS the offsets are those of the
whole record. Several packets can have the same record: their stretches follow each other.
"""
CarrierPieces = npt.NDArray[np.void]
FEW = 4096
"""Number of pieces below which none are dropped."""


class End(NamedTuple):
    """The end of a direction."""

    flow: int
    offset: int
    packet: int
    """Packet that shows the end."""
    time_ns: int


class _Line(NamedTuple):
    """The pieces of all directions placed one after the other on a line, so that one search finds
    the pieces of messages of any direction.
    """

    pieces: CarrierPieces
    """Pieces sorted by flow and offset."""
    flows: IntArray
    """Flows that have pieces."""
    base: IntArray
    """First stream offset of each flow, and one past its last."""
    top: IntArray
    at: IntArray
    """Where each flow begins on the line."""
    first: IntArray
    """Where each piece begins on the line, and ends."""
    behind: IntArray

    @staticmethod
    def from_pieces(pieces: CarrierPieces) -> _Line:
        flows, begin, flow_index = np.unique(pieces["flow"], return_index=True, return_inverse=True)
        base = pieces["first"][begin]
        top = np.maximum.reduceat(pieces["behind"], begin) if len(begin) else base
        span = top - base + 1
        line_start = np.cumsum(span) - span
        shift = (line_start - base)[flow_index]
        return _Line(
            pieces, flows, base, top, line_start, shift + pieces["first"], shift + pieces["behind"]
        )


class Carriers:
    """``add`` takes the pieces of every batch of packets; ``packets`` finds the packets of the
    messages that the batch completes.
    """

    def __init__(self) -> None:
        self._line = _Line.from_pieces(np.empty(0, PIECE))
        self._fresh: list[CarrierPieces] = []
        self._count, self._most = 0, FEW

    def __len__(self) -> int:
        return self._count

    def add(self, chunks: Sequence[StreamChunk], briefs: Sequence[BriefMessages]) -> None:
        """Adds the arguments of ``engine.Keeper.keep``."""
        fresh = [*map(_of_chunk, chunks), *map(_of_brief, briefs)]
        self._fresh += fresh
        self._count += sum(map(len, fresh))

    def forget(self, held_from: Callable[[int, int], int | None]) -> None:
        """Drops pieces that no coming message has bytes of, once they are as many as the rest.

        ``held_from``: the function of the engine.
        """
        if self._count <= self._most:
            return
        line = self._sorted()
        held = [held_from(flow // 2, flow % 2) for flow in line.flows.tolist()]
        ends = np.array(
            [np.iinfo(np.int64).max if offset is None else offset for offset in held], np.int64
        )
        held_pieces = line.pieces[
            line.pieces["behind"] > ends[np.searchsorted(line.flows, line.pieces["flow"])]
        ]
        self._line = _Line.from_pieces(held_pieces)
        self._count, self._most = len(held_pieces), max(FEW, 2 * len(held_pieces))

    def of_flow(self, flow: int) -> CarrierPieces:
        """Returns all pieces of a direction, in its order."""
        line = self._sorted()
        low, high = np.searchsorted(line.pieces["flow"], [flow, flow + 1])
        return line.pieces[low:high]

    def packets(
        self, flow: RowNumbers, start: RowNumbers, end: RowNumbers
    ) -> tuple[RowNumbers, IntArray]:
        """Returns, for given stretches between two offsets, all pairs of the place of a stretch and
        a packet that gave any of its bytes.
        """
        line = self._sorted()
        if not len(line.pieces):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        flow_index = np.minimum(np.searchsorted(line.flows, flow), len(line.flows) - 1)
        begin, behind = (
            line.at[flow_index]
            + np.clip(edge, line.base[flow_index], line.top[flow_index])
            - line.base[flow_index]
            for edge in (start, end)
        )
        low = np.searchsorted(line.behind, begin, "right")
        high = np.searchsorted(line.first, behind, "left")
        counts = np.where(line.flows[flow_index] == flow, np.maximum(high - low, 0), 0)
        piece, stretch = numbers_of(low, counts)
        return stretch, line.pieces["packet"][piece]

    def _sorted(self) -> _Line:
        if self._fresh:
            pieces = np.concatenate((self._line.pieces, *self._fresh))
            self._line = _Line.from_pieces(pieces[np.lexsort((pieces["first"], pieces["flow"]))])
            self._fresh = []
        return self._line


def ends(chunks: Sequence[StreamChunk], briefs: Sequence[BriefMessages]) -> Iterator[End]:
    """Yields the ends of directions among the arguments of ``Carriers.add``."""
    for chunk in chunks:
        last = _of_chunk(chunk)[-1:] if chunk.is_end else ()
        for piece in last:
            yield End(
                int(piece["flow"]),
                chunk.offset + len(chunk.data),
                int(piece["packet"]),
                int(piece["time_ns"]),
            )
    for brief in briefs:
        behind, packet = brief.ends, brief.ends.packet
        columns = (behind.side + 2, behind.offset, packet.number, packet.time)
        yield from map(End._make, np.stack(columns, axis=1).tolist())


def _of_chunk(chunk: StreamChunk) -> CarrierPieces:
    """Returns the pieces that packets gave of a chunk, and one for what ended the direction."""
    flow = 2 * chunk.connection + chunk.direction
    if chunk.carriers is not None:
        return _pieces(flow, *chunk.carriers)
    segments, packet = chunk.segments, chunk.segments.packet
    behind = np.append(segments.offset[1:], chunk.offset + len(chunk.data))
    has_bytes = (packet.frame > 0) & (behind > segments.offset)
    has_bytes[-1:] |= chunk.is_end  # the packet of the end may have no bytes
    return _pieces(
        flow,
        segments.offset[has_bytes],
        behind[has_bytes],
        packet.number[has_bytes],
        packet.time[has_bytes],
    )


def _of_brief(brief: BriefMessages) -> CarrierPieces:
    pieces, packet = brief.pieces, brief.pieces.packet
    behind = pieces.offset + pieces.length
    return _pieces(pieces.side + 2, pieces.offset, behind, packet.number, packet.time)


def _pieces(flow: Any, first: Any, behind: Any, packet: Any, time_ns: Any) -> CarrierPieces:
    table = np.empty(len(packet), PIECE)
    for name, column in zip(PIECE.names or (), (flow, first, behind, packet, time_ns), strict=True):
        table[name] = column
    return table
