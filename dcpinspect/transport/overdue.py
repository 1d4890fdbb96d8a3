"""Gaps whose wait is over though no packet says so: in a live reading, time passes while a
connection is silent.
"""

from __future__ import annotations

from dcpinspect.kernels.kernel import kernel
from dcpinspect.transport.flow_records import TransportTables
from dcpinspect.transport.flows import drain, end_side, flow_of, give_up_hole, has_room
from dcpinspect.transport.waiting import WAIT_NS


@kernel("int64(int64, TransportTables)")
def give_up_overdue(start: int, tables: TransportTables) -> int:
    """Makes holes of gaps that were acknowledged ``WAIT_NS`` before the current packet, in
    directions from ``start`` on, in order.

    What waited that long for the other direction is entered. Returns the number of the first
    direction not handled, for want of room, or their count. One step for each direction, and one
    for each segment that waited.
    """
    last, packet = 2 * tables.counts.connections, tables.segment.packet
    for side in range(start, last):
        flow = tables.flows[flow_of(tables, side)]
        if flow.head < 0:
            continue
        if not has_room(tables, flow):
            return side
        drain(tables, flow)
        while flow.head >= 0:
            node = tables.nodes[flow.head]
            # less than 0: the clock was set back
            if node.ack_seen < 0 or abs(packet.time - node.ack_time) < WAIT_NS:
                break
            give_up_hole(tables, flow, packet)
        direction = tables.sides[side]
        if direction.ended == 0 and direction.has_fin == 1 and flow.fin_at <= flow.next:
            end_side(tables, side, packet, 0)
    return int(last)
