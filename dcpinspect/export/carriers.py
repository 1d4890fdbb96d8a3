"""Which packets carried which bytes of the streams, of those that a message may still have: columns of all directions together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.capture.batch import Column
from dcpinspect.protocol.brief import Told
from dcpinspect.protocol.columns import Rows
from dcpinspect.transport.chunk import StreamChunk

PIECE = np.dtype([(name, np.int64) for name in ("flow", "first", "behind", "packet", "time_ns")])
"""Of bytes that a packet gave: 2 * connection + direction, as the packets went; the first stream offset, and one past the last; the packet,
and its time. Of TLS the offsets are those of the whole record, which several packets may have: they follow each other."""
Pieces = npt.NDArray[np.void]
FEW = 4096
"""Pieces that are no trouble."""


class End(NamedTuple):
    """Where a direction ends."""

    flow: int
    offset: int
    packet: int
    """The one that shows it."""
    time_ns: int


class _Line(NamedTuple):
    """All streams on one line, so that one search finds the pieces of messages of any of them."""

    pieces: Pieces
    """Sorted by flow and offset."""
    flows: Column
    """Those that have pieces."""
    base: Column
    """First stream offset of each, and one past its last."""
    top: Column
    at: Column
    """Where each begins on the line."""
    first: Column
    """Where each piece begins on the line, and ends."""
    behind: Column

    @staticmethod
    def of(pieces: Pieces) -> _Line:
        flows, begin, of = np.unique(pieces["flow"], return_index=True, return_inverse=True)
        base = pieces["first"][begin]
        top = np.maximum.reduceat(pieces["behind"], begin) if len(begin) else base
        span = top - base + 1
        at = np.cumsum(span) - span
        shift = (at - base)[of]
        return _Line(pieces, flows, base, top, at, shift + pieces["first"], shift + pieces["behind"])


class Carriers:
    """``add`` what every batch of packets gives, then ask for the packets of messages that it completes."""

    def __init__(self) -> None:
        self._line = _Line.of(np.empty(0, PIECE))
        self._fresh: list[Pieces] = []
        self._count, self._most = 0, FEW

    def __len__(self) -> int:
        return self._count

    def add(self, chunks: Sequence[StreamChunk], told: Sequence[Told]) -> None:
        """As ``engine.Keeper.keep`` has them."""
        fresh = [*map(_of_chunk, chunks), *map(_of_told, told)]
        self._fresh += fresh
        self._count += sum(map(len, fresh))

    def forget(self, held_from: Callable[[int, int], int | None]) -> None:
        """Drop what no message that comes has any bytes of, once it is as much as the rest. ``held_from`` is the engine's."""
        if self._count <= self._most:
            return
        line = self._sorted()
        held = [held_from(flow // 2, flow % 2) for flow in line.flows.tolist()]
        ends = np.array([np.iinfo(np.int64).max if offset is None else offset for offset in held], np.int64)
        kept = line.pieces[line.pieces["behind"] > ends[np.searchsorted(line.flows, line.pieces["flow"])]]
        self._line = _Line.of(kept)
        self._count, self._most = len(kept), max(FEW, 2 * len(kept))

    def of_flow(self, flow: int) -> Pieces:
        """All pieces of a direction, in its order."""
        line = self._sorted()
        low, high = np.searchsorted(line.pieces["flow"], [flow, flow + 1])
        return line.pieces[low:high]

    def packets(self, flow: Rows, start: Rows, end: Rows) -> tuple[Rows, Column]:
        """(which of these stretches, a packet that gave any of its bytes): each of them. Stretches are from offset to offset."""
        line = self._sorted()
        if not len(line.pieces):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        of = np.minimum(np.searchsorted(line.flows, flow), len(line.flows) - 1)
        begin, behind = (line.at[of] + np.clip(edge, line.base[of], line.top[of]) - line.base[of] for edge in (start, end))
        low, high = np.searchsorted(line.behind, begin, "right"), np.searchsorted(line.first, behind, "left")
        counts = np.where(line.flows[of] == flow, np.maximum(high - low, 0), 0)
        which = np.repeat(np.arange(len(flow)), counts)
        place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts - low, counts)
        return which, line.pieces["packet"][place]

    def _sorted(self) -> _Line:
        if self._fresh:
            pieces = np.concatenate((self._line.pieces, *self._fresh))
            self._line = _Line.of(pieces[np.lexsort((pieces["first"], pieces["flow"]))])
            self._fresh = []
        return self._line


def ends(chunks: Sequence[StreamChunk], told: Sequence[Told]) -> Iterator[End]:
    """The ends of directions among what ``Carriers.add`` gets."""
    for chunk in chunks:
        last = _of_chunk(chunk)[-1:] if chunk.is_end else ()
        for piece in last:
            yield End(int(piece["flow"]), chunk.offset + len(chunk.data), int(piece["packet"]), int(piece["time_ns"]))
    for one in told:
        carried = one.carried
        yield from map(End._make, np.stack((carried.ended + 2, carried.end, carried.end_packet, carried.end_time_ns), axis=1).tolist())


def _of_chunk(chunk: StreamChunk) -> Pieces:
    """What packets gave of it, and that of its end."""
    flow = 2 * chunk.connection + chunk.direction
    if chunk.carriers is not None:
        return _pieces(flow, *chunk.carriers)
    segments = chunk.segments
    behind = np.append(segments.offset[1:], chunk.offset + len(chunk.data))
    given = (segments.frame > 0) & (behind > segments.offset)
    given[-1:] |= chunk.is_end  # of no bytes
    return _pieces(flow, segments.offset[given], behind[given], segments.packet[given], segments.time_ns[given])


def _of_told(told: Told) -> Pieces:
    carried = told.carried
    return _pieces(carried.way + 2, 0, carried.length, carried.packet, carried.time_ns)


def _pieces(flow: Any, first: Any, behind: Any, packet: Any, time_ns: Any) -> Pieces:
    found = np.empty(len(packet), PIECE)
    found["flow"], found["first"], found["behind"], found["packet"], found["time_ns"] = flow, first, behind, packet, time_ns
    return found
