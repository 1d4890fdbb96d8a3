"""Where the bytes of every stream stand: one entry per segment, found by bisection.

The entries of one part of the reading form one table, sorted by flow and stream offset. A message's
bytes came with its own part or with an earlier one, so a search for them begins at its own part and
goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.first_bytes import BriefMessages
from dcpinspect.reading.store.originals import BESIDE
from dcpinspect.transport.chunk import NOWHERE, SCATTERED, StreamChunk, StreamEntries

_TYPES = {
    "flow": np.uint32,
    "offset": np.int64,
    "length": np.uint32,
    "file": np.int32,
    "place": np.int64,
}


@dataclass(frozen=True, slots=True)
class Places:
    """A table of segments: each column has one entry per segment."""

    flow: npt.NDArray[np.uint32]
    """2 * connection + direction, where the direction is that of the packets."""
    offset: IntArray
    length: npt.NDArray[np.uint32]
    file: npt.NDArray[np.int32]
    place: IntArray

    def __len__(self) -> int:
        return len(self.flow)

    def batch(self) -> Any:
        """Returns the table as an Arrow record batch."""
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [pa.array(getattr(self, name)) for name in _TYPES], names=list(_TYPES)
        )


def from_batch(batch: Any) -> Places:
    """Returns the table that an Arrow record batch holds, without copying it."""
    return Places(*(batch.column(name).to_numpy() for name in _TYPES))


def joined(tables: Sequence[Places]) -> Places:
    """Returns all entries of several tables as one, sorted."""
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.concatenate([np.empty(0, dtype), *(getattr(table, name) for table in tables)])
        for name, dtype in _TYPES.items()
    }
    order = np.lexsort((columns["offset"], columns["flow"]))
    return Places(**{name: column[order] for name, column in columns.items()})


def located(
    chunks: Sequence[StreamChunk],
    briefs: Sequence[BriefMessages],
    put_beside: Callable[[ByteArray], int],
) -> Places:
    """Returns the places of the bytes of chunks, and of messages that are in no chunk.

    ``put_beside`` keeps bytes that stand in no file in one piece, and returns their offset.
    """
    return joined(
        [
            _of_chunks(chunks, put_beside),
            *(_of_brief(carried_outside, put_beside) for carried_outside in briefs),
        ]
    )


def _of_chunks(chunks: Sequence[StreamChunk], put_beside: Callable[[ByteArray], int]) -> Places:
    if not chunks:
        return joined(())
    segments = StreamEntries.joined([chunk.segments for chunk in chunks])
    offset, file_offset, file = segments.offset, segments.place, segments.packet.file
    counts = np.array([len(chunk.segments) for chunk in chunks], np.int64)
    ends = np.append(offset[1:], 0)
    ends[np.cumsum(counts) - 1] = [chunk.offset + len(chunk.data) for chunk in chunks]
    for index in np.flatnonzero(file_offset == SCATTERED).tolist():
        chunk = chunks[int(np.searchsorted(np.cumsum(counts), index, "right"))]
        file_offset[index] = put_beside(
            chunk.data[int(offset[index]) - chunk.offset : int(ends[index]) - chunk.offset]
        )
        file[index] = BESIDE
    flow = np.repeat([2 * chunk.connection + chunk.direction for chunk in chunks], counts)
    is_placed = (file_offset != NOWHERE) & (ends > offset)
    columns = (flow, offset, ends - offset, file, file_offset)
    return _typed_places(*(column[is_placed] for column in columns))


def _of_brief(brief: BriefMessages, put_beside: Callable[[ByteArray], int]) -> Places:
    pieces = brief.pieces
    file_offset, file = pieces.place.copy(), pieces.packet.file.copy()
    for index in np.flatnonzero(file_offset == SCATTERED).tolist():
        start = int(pieces.source[index])
        file_offset[index] = put_beside(
            brief.framed.data[start : start + int(pieces.length[index])]
        )
        file[index] = BESIDE
    return _typed_places(pieces.side + 2, pieces.offset, pieces.length, file, file_offset)


def _typed_places(*columns: IntArray) -> Places:
    return Places(
        *(column.astype(dtype) for column, dtype in zip(columns, _TYPES.values(), strict=True))
    )
