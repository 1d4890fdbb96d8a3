"""Entries: which bytes are next in a flow, in the order found; and the copying of those bytes."""

from __future__ import annotations

from dcpinspect.kernel import Ints, Octets, copy, inline, kernel
from dcpinspect.transport.columns import E_FILE, E_FLOW, E_FRAME, E_LENGTH, E_OFFSET, E_PACKET, E_PLACE, E_SOURCE, E_TIME, ENTRIES, HELD


@inline
def enter(
    entries: Ints,
    counters: Ints,
    flow: int,
    offset: int,
    length: int,
    source: int,
    packet: int,
    frame: int,
    file: int,
    time: int,
    place: int,
) -> None:
    """Appends an entry."""
    n = counters[ENTRIES]
    entries[n, E_FLOW] = flow
    entries[n, E_OFFSET] = offset
    entries[n, E_LENGTH] = length
    entries[n, E_SOURCE] = source
    entries[n, E_PACKET] = packet
    entries[n, E_FRAME] = frame
    entries[n, E_FILE] = file
    entries[n, E_TIME] = time
    entries[n, E_PLACE] = place
    counters[ENTRIES] = n + 1


@kernel("void(octets, octets, int64[:,::1], uint8[::1], int64)")
def gather(data: Octets, held: Octets, entries: Ints, target: Octets, origin: int) -> None:
    """Copies the bytes of ``entries`` to ``target``, whose first byte is stream offset ``origin``. One copy a segment."""
    for i in range(len(entries)):
        source = entries[i, E_SOURCE]
        at = entries[i, E_OFFSET] - origin
        if source >= 0:
            copy(target, at, data, source, entries[i, E_LENGTH])
        elif source <= HELD:
            copy(target, at, held, HELD - source, entries[i, E_LENGTH])
