"""Reads the bytes of many messages together: neighbours in a file in one go, which are then copied to their places.

A message whose bytes do not all stand one after the other is left out: whoever wants it reads it by itself, segment by segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dcpinspect.capture.batch import Bytes
from dcpinspect.errors import NotKeptError
from dcpinspect.gathering import copy_pieces
from dcpinspect.protocol.columns import Mask, Rows
from dcpinspect.store.originals import Originals
from dcpinspect.store.places import Places

APART = 1 << 14
"""Greatest gap in bytes between two pieces that are still read in one go: reading the gap costs less than another read."""
AT_ONCE = 4 << 20
"""Greatest number of bytes read in one go, unless a single piece is longer."""


class Wanted(NamedTuple):
    """Ranges of stream bytes, and where they are to be copied to."""

    flow: Rows
    offset: Rows
    length: Rows
    target: Rows
    """Index in the target data where the first byte of each range goes."""

    def take(self, some: Rows | Mask) -> Wanted:
        """Returns the selected ranges only."""
        return Wanted(*(column[some] for column in self))


class _Pieces(NamedTuple):
    """Ranges of a file, and where they are to be copied to."""

    of: Rows
    """Index of the wanted range that each piece belongs to."""
    file: Rows
    place: Rows
    size: Rows
    target: Rows

    def take(self, some: Rows | slice) -> _Pieces:
        return _Pieces(*(column[some] for column in self))


def gather(originals: Originals, places: Places, wanted: Wanted, data: Bytes) -> Mask:
    """Fills ``data`` with those ranges of which ``places`` has all bytes; returns which ranges those are.

    Raises ChangedCaptureError if a capture has changed since it was read.
    """
    is_read = np.zeros(len(wanted.flow), np.bool_)
    for flow in np.unique(wanted.flow).tolist():
        own = np.flatnonzero(wanted.flow == flow)
        pieces = _pieces(places, flow, wanted.take(own))
        is_read[own[pieces.of]] = True
        for run in _runs(pieces):
            try:
                _read(originals, run, data)
            except NotKeptError:  # some of the bytes, or bytes between them, were dropped
                is_read[own[run.of]] = False
    return is_read


def _pieces(places: Places, flow: int, wanted: Wanted) -> _Pieces:
    """Returns where the wanted ranges of a flow stand, sorted by file and place; only of ranges whose bytes are all there."""
    low, high = np.searchsorted(places.flow, np.array([flow, flow + 1], np.uint32)).tolist()
    offset, length = places.offset[low:high], places.length[low:high].astype(np.int64)
    first = np.searchsorted(offset, wanted.offset, "right") - 1
    last = np.searchsorted(offset, wanted.offset + wanted.length) - 1
    count = np.where(first >= 0, last - first + 1, 0)
    of = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    segment = np.repeat(first - begins, count) + np.arange(len(of))
    start = np.maximum(offset[segment], wanted.offset[of])
    size = np.minimum(offset[segment] + length[segment], wanted.offset[of] + wanted.length[of]) - start
    come = np.cumsum(size)
    before = come - size - np.repeat((come - size)[begins[count > 0]], count[count > 0])
    is_next = (size > 0) & (start - wanted.offset[of] == before)
    is_whole = np.bincount(of, size, len(count)).astype(np.int64) == wanted.length
    is_whole &= np.bincount(of, ~is_next, len(count)) == 0
    chosen = np.flatnonzero(is_whole[of])
    segment, start, of = segment[chosen], start[chosen], of[chosen]
    file, place = places.file[low:high][segment].astype(np.int64), places.place[low:high][segment] + start - offset[segment]
    order = np.lexsort((place, file))
    return _Pieces(of, file, place, size[chosen], wanted.target[of] + start - wanted.offset[of]).take(order)


def _runs(pieces: _Pieces) -> Iterator[_Pieces]:
    """Yields groups of pieces of one file that stand so near to each other that they are read in one go."""
    if not len(pieces.of):
        return
    is_far = (np.diff(pieces.file) != 0) | (pieces.place[1:] > pieces.place[:-1] + pieces.size[:-1] + APART)
    for low, high in zip(
        [0, *(np.flatnonzero(is_far) + 1).tolist()], [*(np.flatnonzero(is_far) + 1).tolist(), len(pieces.of)], strict=True
    ):
        at = low
        while at < high:
            until = max(at + 1, int(np.searchsorted(pieces.place[at:high], pieces.place[at] + AT_ONCE)) + at)
            yield pieces.take(slice(at, until))
            at = until


def _read(originals: Originals, run: _Pieces, data: Bytes) -> None:
    begin = int(run.place[0])
    room = np.empty(int((run.place + run.size).max()) - begin, np.uint8)
    originals.read(int(run.file[0]), begin, room.data)
    copy_pieces(room, run.place - begin, run.size, data, run.target)
