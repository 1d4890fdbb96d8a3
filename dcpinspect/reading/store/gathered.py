"""Reads the bytes of many messages together: neighbours in a file in one go, which are then copied
to their places.

A message whose bytes do not all stand one after the other is left out: whoever wants it reads it by
itself, segment by segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, unique
from dcpinspect.errors import NotKeptError
from dcpinspect.kernels.gathering import copy_pieces
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.store.originals import Originals
from dcpinspect.reading.store.places import Places

APART = 1 << 14
"""Greatest gap in bytes between two pieces that are still read in one go: reading the gap costs
less than another read.
"""
AT_ONCE = 4 << 20
"""Greatest number of bytes read in one go, unless a single piece is longer."""


class WantedBytes(NamedTuple):
    """Ranges of stream bytes, and where they are to be copied to."""

    flow: RowNumbers
    offset: RowNumbers
    length: RowNumbers
    target: RowNumbers
    """Index in the target data where the first byte of each range goes."""

    def only(self, some: RowNumbers | BoolArray) -> WantedBytes:
        """Returns the selected ranges only."""
        return WantedBytes(*(column[some] for column in self))


class _Pieces(NamedTuple):
    """Ranges of a file, and where they are to be copied to."""

    of: RowNumbers
    """Index of the wanted range that each piece belongs to."""
    file: RowNumbers
    place: RowNumbers
    size: RowNumbers
    target: RowNumbers

    def only(self, some: RowNumbers | slice) -> _Pieces:
        return _Pieces(*(column[some] for column in self))


def gather(originals: Originals, places: Places, wanted: WantedBytes, data: ByteArray) -> BoolArray:
    """Fills ``data`` with those ranges of which ``places`` has all bytes; returns which ranges
    those are.

    Raises ChangedCaptureError if a capture has changed since it was read.
    """
    is_read = np.zeros(len(wanted.flow), np.bool_)
    for flow in unique(wanted.flow).tolist():
        flow_ranges = np.flatnonzero(wanted.flow == flow)
        pieces = _pieces(places, flow, wanted.only(flow_ranges))
        is_read[flow_ranges[pieces.of]] = True
        for run in _runs(pieces):
            try:
                _read(originals, run, data)
            except NotKeptError:  # some of the bytes, or bytes between them, were dropped
                is_read[flow_ranges[run.of]] = False
    return is_read


def _pieces(places: Places, flow: int, wanted: WantedBytes) -> _Pieces:
    """Returns where the wanted ranges of a flow stand, sorted by file and place; only of ranges
    whose bytes are all there.
    """
    low, high = np.searchsorted(places.flow, np.array([flow, flow + 1], np.uint32)).tolist()
    offset, length = places.offset[low:high], places.length[low:high].astype(np.int64)
    first = np.searchsorted(offset, wanted.offset, "right") - 1
    last = np.searchsorted(offset, wanted.offset + wanted.length) - 1
    count = np.where(first >= 0, last - first + 1, 0)
    range_of = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    segment = np.repeat(first - begins, count) + np.arange(len(range_of))
    start = np.maximum(offset[segment], wanted.offset[range_of])
    size = (
        np.minimum(
            offset[segment] + length[segment], wanted.offset[range_of] + wanted.length[range_of]
        )
        - start
    )
    come = np.cumsum(size)
    before = come - size - np.repeat((come - size)[begins[count > 0]], count[count > 0])
    is_next = (size > 0) & (start - wanted.offset[range_of] == before)
    is_whole = np.bincount(range_of, size, len(count)).astype(np.int64) == wanted.length
    is_whole &= np.bincount(range_of, ~is_next, len(count)) == 0
    whole_rows = np.flatnonzero(is_whole[range_of])
    segment, start, range_of = segment[whole_rows], start[whole_rows], range_of[whole_rows]
    file = places.file[low:high][segment].astype(np.int64)
    file_offset = places.place[low:high][segment] + start - offset[segment]
    order = np.lexsort((file_offset, file))
    return _Pieces(
        range_of,
        file,
        file_offset,
        size[whole_rows],
        wanted.target[range_of] + start - wanted.offset[range_of],
    ).only(order)


def _runs(pieces: _Pieces) -> Iterator[_Pieces]:
    """Yields groups of pieces of a file that stand near enough to be read in one go."""
    if not len(pieces.of):
        return
    is_far = (np.diff(pieces.file) != 0) | (
        pieces.place[1:] > pieces.place[:-1] + pieces.size[:-1] + APART
    )
    for low, high in zip(
        [0, *(np.flatnonzero(is_far) + 1).tolist()],
        [*(np.flatnonzero(is_far) + 1).tolist(), len(pieces.of)],
        strict=True,
    ):
        first = low
        while first < high:
            until = max(
                first + 1,
                int(np.searchsorted(pieces.place[first:high], pieces.place[first] + AT_ONCE))
                + first,
            )
            yield pieces.only(slice(first, until))
            first = until


def _read(originals: Originals, run: _Pieces, data: ByteArray) -> None:
    begin = int(run.place[0])
    stretch = np.empty(int((run.place + run.size).max()) - begin, np.uint8)
    originals.read(int(run.file[0]), begin, stretch.data)
    copy_pieces(stretch, run.place - begin, run.size, data, run.target)
