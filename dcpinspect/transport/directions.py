"""What a batch brought to each direction: its entries, and its first bytes as columns, for who
looks at those of all directions at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray
from dcpinspect.kernels.kernel import kernel
from dcpinspect.transport.chunk import FirstBytes, FirstPieces
from dcpinspect.transport.flow_records import END, HOLE, StreamEntries, TransportTables
from dcpinspect.transport.flows import flow_of

MOST_FIRST = 1 << 16
"""Greatest number of first bytes of a direction that are offered in pieces: to make a chunk takes
little beside more bytes.
"""
_PACKET_BITS = 44
"""Bits for the number of a packet."""
_FIELDS = 18
(
    _SIDE,
    _ROW,
    _STOP,
    _HOLES,
    _SOURCE,
    _LENGTH,
    _PACKET,
    _FRAME,
    _FILE,
    _TIME,
    _RELEASE,
    _END_RELEASE,
    _END_PACKET,
    _END_TIME,
    _STARTED,
) = range(15)
_ENDED, _PIECES, _FLOW = range(15, _FIELDS)
"""Rows of the array that ``list_directions`` writes."""


@kernel("int64(int64[:,::1], TransportTables)")
def list_directions(columns: IntArray, tables: TransportTables) -> int:
    """Writes a column for each direction with entries, and returns their number. Entries of a
    direction stand together.

    One step for each entry.
    """
    count_found, i, count = 0, 0, tables.counts.entries
    while i < count:
        first, side = tables.entries[i], tables.entries[i].side
        flow, started = tables.flows[flow_of(tables, side)], tables.sides[side].started
        released, holes, row = max(flow.released, flow.opened_by), 0, i
        greatest = released
        while i < count and tables.entries[i].side == side:
            greatest = max(greatest, tables.entries[i].release)
            if tables.entries[i].source == HOLE:
                holes += 1
            i += 1
        last = tables.entries[i - 1]
        ended = 1 if last.source == END else 0
        pieces, length = i - row - ended, -1
        if pieces == 0:
            length = 0
        elif pieces == 1 and first.source >= 0 and first.offset == 0:
            length = first.length
        columns[_SIDE, count_found] = side
        columns[_ROW, count_found] = row
        columns[_STOP, count_found] = i
        columns[_HOLES, count_found] = holes
        columns[_SOURCE, count_found] = first.source
        columns[_LENGTH, count_found] = length
        columns[_PACKET, count_found] = first.packet.number
        columns[_FRAME, count_found] = first.packet.frame
        columns[_FILE, count_found] = first.packet.file
        columns[_TIME, count_found] = first.packet.time
        columns[_RELEASE, count_found] = max(first.release, released)
        columns[_END_RELEASE, count_found] = greatest
        columns[_END_PACKET, count_found] = last.packet.number
        columns[_END_TIME, count_found] = last.packet.time
        columns[_STARTED, count_found] = started
        columns[_ENDED, count_found] = ended
        columns[_PIECES, count_found] = pieces if first.offset == 0 and started != 0 else 0
        columns[_FLOW, count_found] = flow_of(tables, side)
        count_found += 1
    return count_found


class Directions:
    """The directions to which a batch brought something, in order."""

    def __init__(self, tables: TransportTables) -> None:
        """Groups the current entries by direction, in the order found."""
        entries = tables.entries[: tables.counts.entries]
        sides = entries.side
        if (sides[1:] < sides[:-1]).any():
            entries = entries[np.argsort(sides, kind="stable")]
        tables.entries = self.entries = entries
        columns = np.empty((_FIELDS, len(entries)), np.int64)
        self._columns = columns[:, : list_directions(columns, tables)]
        self._flows = tables.flows

    @property
    def edges(self) -> tuple[IntArray, IntArray, IntArray]:
        """Where the entries of each direction begin and end, and how many of them are holes."""
        row, stop, holes = self._columns[_ROW : _HOLES + 1]
        return row, stop, holes

    def first_bytes(
        self, data: ByteArray, places_of: Callable[[StreamEntries], IntArray] | None
    ) -> FirstBytes:
        """Returns the first bytes of all these directions. ``places_of``: returns places of entries
        in the file, if they are wanted.
        """
        columns = self._columns
        return FirstBytes(
            number=columns[_SIDE],
            data=data,
            start=columns[_SOURCE],
            length=columns[_LENGTH],
            packet=columns[_PACKET],
            frame=columns[_FRAME],
            file=columns[_FILE],
            time=columns[_TIME],
            release=columns[_RELEASE],
            is_start=columns[_STARTED] != 0,
            is_end=columns[_ENDED] != 0,
            end_release=columns[_END_RELEASE],
            end_packet=columns[_END_PACKET],
            end_time=columns[_END_TIME],
            place=None if places_of is None else places_of(self.entries[columns[_ROW]]),
            pieces=self._pieces(np.flatnonzero(columns[_PIECES] > 1), places_of),
        )

    def _pieces(
        self, rows: IntArray, places_of: Callable[[StreamEntries], IntArray] | None
    ) -> FirstPieces:
        """Returns the pieces of these directions, without those that have a hole, bytes of an
        earlier batch, or too many bytes.
        """
        start = self._columns[_ROW, rows]
        count = self._columns[_PIECES, rows]
        flow = self._columns[_FLOW, rows]
        released = np.maximum(self._flows.released[flow], self._flows.opened_by[flow])
        direction_row = np.repeat(np.arange(len(rows)), count)
        entry_row = np.arange(len(direction_row)) - np.repeat(
            np.cumsum(count) - count - start, count
        )
        pieces = self.entries[entry_row]
        is_left = np.bincount(direction_row, pieces.length, len(rows)) <= MOST_FIRST
        is_left[direction_row[pieces.source < 0]] = False
        is_left = is_left[direction_row]
        direction_row, pieces = direction_row[is_left], pieces[is_left]
        # so that the greatest packet so far begins anew with each direction
        above = direction_row << _PACKET_BITS
        release = (
            np.maximum.accumulate(np.maximum(pieces.release, released[direction_row]) + above)
            - above
        )
        packet = pieces.packet
        return FirstPieces(
            rows[direction_row],
            pieces.source,
            pieces.length,
            packet.number,
            packet.frame,
            packet.file,
            packet.time,
            release,
            direction_row[:0] if places_of is None else places_of(pieces),
        )

    def release(self, taken: BoolArray) -> None:
        """Notes that the entries of these directions were given out."""
        has_flow = taken & (self._columns[_FLOW] > 1)
        self._flows.released[self._columns[_FLOW, has_flow]] = self._columns[_END_RELEASE, has_flow]
