"""What a batch brought to each direction: its entries, and its first bytes as columns, for who
looks at those of all directions at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray, numbers_of
from dcpinspect.kernels.kernel import kernel
from dcpinspect.kernels.structs import Tables
from dcpinspect.transport.chunk import FirstBytes, NewDirections, StreamEntries
from dcpinspect.transport.flow_records import END, HOLE, TransportTables
from dcpinspect.transport.flows import flow_of

MOST_FIRST = 1 << 16
"""Greatest number of first bytes of a direction that are offered in pieces: to make a chunk takes
little beside more bytes.
"""
_PACKET_BITS = 44
"""Bits for the number of a packet."""


class DirectionTables(Tables):
    """What the kernel fills."""

    directions: NewDirections


@kernel("int64(TransportTables, DirectionTables)")
def list_directions(tables: TransportTables, listed: DirectionTables) -> int:
    """Writes a row for each direction with entries, and returns their number. Entries of a
    direction stand together.

    One step for each entry.
    """
    direction_count, i, count = 0, 0, tables.counts.entries
    while i < count:
        direction, side, row = listed.directions[direction_count], tables.entries[i].side, i
        f = flow_of(tables, side)
        released = max(tables.flows[f].released, tables.flows[f].opened_by)
        greatest, holes, length, is_known = released, 0, 0, tables.entries[i].offset == 0
        while i < count and tables.entries[i].side == side:
            entry = tables.entries[i]
            greatest = max(greatest, entry.release)
            length += entry.length
            if entry.source == HOLE:
                holes += 1
            if entry.source < 0 and entry.source != END:
                is_known = False
            i += 1
        direction.is_end = 1 if tables.entries[i - 1].source == END else 0
        direction.is_start = tables.sides[side].started
        pieces = i - row - direction.is_end
        if pieces > 1 and (direction.is_start == 0 or length > MOST_FIRST):
            is_known = False
        direction.row = row
        direction.stop = i
        direction.holes = holes
        direction.pieces = pieces
        direction.length = length if is_known or pieces == 0 else -1
        direction.flow = f
        direction.released = released
        direction.end_release = greatest
        direction.number = side
        direction_count += 1
    return direction_count


class Directions:
    """The directions to which a batch brought something, in order."""

    def __init__(self, tables: TransportTables) -> None:
        """Groups the current entries by direction, in the order found."""
        entries = tables.entries[: tables.counts.entries]
        sides = entries.side
        if (sides[1:] < sides[:-1]).any():
            entries = entries[np.argsort(sides, kind="stable")]
        tables.entries = self.entries = entries
        listed = DirectionTables()
        listed.directions = NewDirections.zeros(len(entries))
        self._listed = listed.directions[: list_directions(tables, listed)]
        self._flows = tables.flows

    @property
    def edges(self) -> tuple[IntArray, IntArray, IntArray]:
        """Where the entries of each direction begin and end, and how many of them are holes."""
        return self._listed.row, self._listed.stop, self._listed.holes

    def first_bytes(
        self, data: ByteArray, places_of: Callable[[StreamEntries], IntArray] | None
    ) -> FirstBytes:
        """Returns what all these directions say first. ``places_of``: returns places of entries in
        the file, if they are wanted.
        """
        listed, is_end = self._listed, self._listed.is_end != 0
        says = np.flatnonzero(listed.length > 0)
        entry, direction = numbers_of(listed.row[says], listed.pieces[says])
        pieces = self.entries[entry]
        # so that the greatest packet so far begins anew with each direction
        above = direction << _PACKET_BITS
        release = np.maximum(pieces.release, listed.released[says][direction])
        pieces.release = np.maximum.accumulate(release + above) - above
        if places_of is not None:
            pieces.place = places_of(pieces)
        return FirstBytes(listed, data, pieces, self.entries[listed.stop[is_end] - 1])

    def release(self, taken: BoolArray) -> None:
        """Notes that the entries of these directions were given out."""
        listed = self._listed
        has_flow = taken & (listed.flow > 1)
        self._flows.released[listed.flow[has_flow]] = listed.end_release[has_flow]
