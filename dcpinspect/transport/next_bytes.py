"""Entries, which say what bytes are next in a flow, in the order found; and their copying."""

from __future__ import annotations

from dcpinspect.arrays import ByteArray
from dcpinspect.kernels.kernel import copy, kernel, kernel_function
from dcpinspect.kernels.structs import Tables
from dcpinspect.transport.chunk import Packet, StreamEntries
from dcpinspect.transport.flow_records import HELD, Flow, TransportTables


class GatherTables(Tables):
    """The tables that ``gather`` reads."""

    entries: StreamEntries

    def __init__(self, entries: StreamEntries) -> None:
        self.entries = entries


@kernel_function
def enter(tables: TransportTables, flow: Flow, length: int, source: int, packet: Packet) -> int:
    """Appends an entry, the next bytes of a flow, and returns its number."""
    n = tables.counts.entries
    tables.counts.entries = n + 1
    entry = tables.entries[n]
    entry.side = flow.number
    entry.offset = flow.next
    entry.length = length
    entry.source = source
    entry.packet = packet
    entry.place = -1
    entry.release = tables.segment.packet.number
    flow.passed = 0
    return int(n)


@kernel("void(octets, octets, GatherTables, uint8[::1], int64)")
def gather(
    data: ByteArray, held: ByteArray, tables: GatherTables, target: ByteArray, origin: int
) -> None:
    """Copies the bytes of entries to ``target``, whose first byte is stream offset ``origin``. One
    copy for each segment.
    """
    for i in range(len(tables.entries)):
        entry = tables.entries[i]
        source = entry.source
        target_start = entry.offset - origin
        if source >= 0:
            copy(target, target_start, data, source, entry.length)
        elif source <= HELD:
            copy(target, target_start, held, HELD - source, entry.length)
