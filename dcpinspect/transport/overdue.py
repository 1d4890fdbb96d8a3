"""Gaps whose wait is over though no packet says so: live, time passes while a connection is silent."""

from __future__ import annotations

from dcpinspect.kernel import kernel
from dcpinspect.transport.flows import end_flow, give_up_gap, has_left, has_room
from dcpinspect.transport.ordering import WAIT_NS
from dcpinspect.transport.rows import TransportTables


@kernel("int64(int64, TransportTables)")
def give_up_overdue(start: int, tables: TransportTables) -> int:
    """Makes holes of the gaps that were acknowledged ``WAIT_NS`` before the packet at hand, in flows from ``start`` on, in order.

    Returns the flow it stopped before for want of room, or their number. One step a flow, and one a segment that waited.
    """
    last, packet = 2 * tables.counts.connections, tables.segment.packet
    for f in range(start, last):
        flow = tables.flows[f]
        if flow.head < 0 or has_left(flow, f):
            continue
        if not has_room(tables, flow):
            return f
        while flow.head >= 0:
            node = tables.nodes[flow.head]
            if node.ack_seen < 0 or packet.time - node.ack_time < WAIT_NS:
                break
            give_up_gap(tables, flow, packet)
        if flow.ended == 0 and 0 <= flow.fin_at <= flow.next:
            end_flow(tables, flow, packet, 0)
    return int(last)
