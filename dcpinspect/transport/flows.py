"""Flows: what happens to one direction of one connection when bytes are next, will not come, or came too late."""

from __future__ import annotations

from dcpinspect.kernel import inline, kernel
from dcpinspect.transport.entries import enter
from dcpinspect.transport.rows import END, HOLE, RECENT_HOLES, Flow, Packet, TransportTables
from dcpinspect.transport.waiting import NODE_COST, free_node, unlink_head


@inline
def enter_hole(tables: TransportTables, flow: Flow, length: int, packet: Packet) -> None:
    """The next ``length`` bytes of a flow will not come; ``packet`` decided it."""
    n = enter(tables, flow, length, HOLE, packet)
    tables.entries[n].packet.frame = 0
    if flow.recent == 0:
        tables.counts.recent += 1
        flow.recent = tables.counts.recent
    hole = tables.recent[flow.recent * RECENT_HOLES + flow.holes % RECENT_HOLES]
    hole.start = flow.next
    hole.end = flow.next + length
    flow.holes += 1
    flow.missing += length
    flow.next += length


@inline
def late_bytes(tables: TransportTables, flow: Flow, start: int, end: int) -> int:
    """How many of the stream bytes [start, end), all before the next one, were given up earlier or precede the capture."""
    late = max(0, min(end, 0) - start)
    for i in range(min(flow.holes, RECENT_HOLES)):
        hole = tables.recent[flow.recent * RECENT_HOLES + i]
        late += max(0, min(end, hole.end) - max(start, hole.start))
    return int(late)


@inline
def drain(tables: TransportTables, flow: Flow) -> None:
    """Enters the waiting segments that are next."""
    while flow.head >= 0 and tables.nodes[flow.head].offset == flow.next:
        node = tables.nodes[flow.head]
        if node.source == HOLE:
            flow.cut_off += node.length
            enter_hole(tables, flow, node.length, node.packet)
        else:
            n = enter(tables, flow, node.length, node.source, node.packet)
            tables.entries[n].place = node.place
            flow.next += node.length
        unlink_head(tables, flow)


@inline
def give_up_gap(tables: TransportTables, flow: Flow, packet: Packet) -> None:
    """Makes the gap before the first waiting segment a hole."""
    enter_hole(tables, flow, tables.nodes[flow.head].offset - flow.next, packet)
    drain(tables, flow)


@inline
def drop_stray(tables: TransportTables, flow: Flow) -> None:
    """Counts the far-off segment of a flow as late."""
    k = flow.stray
    if k >= 0:
        length = tables.nodes[k].length
        flow.late += length
        flow.payload += length
        tables.counts.waiting -= length + NODE_COST
        free_node(tables, k)
        flow.stray = -1


@inline
def end_flow(tables: TransportTables, flow: Flow, packet: Packet, frame: int) -> None:
    """Nothing more of a flow will be entered, as a packet shows; ``frame``: that of the packet, or 0.

    The end of a connection that never carried a byte is not entered: of a scan or a flood there are millions.
    """
    while flow.head >= 0:  # bytes beyond a FIN
        node = tables.nodes[flow.head]
        if node.source != HOLE:
            flow.unique -= node.length
            flow.late += node.length
        unlink_head(tables, flow)
    flow.ended = 1
    other = tables.flows[flow.number ^ 1]
    if flow.next == 0 and other.next == 0 and other.head < 0:
        return
    n = enter(tables, flow, 0, END, packet)
    tables.entries[n].packet.frame = frame


@inline
def close_flow(tables: TransportTables, flow: Flow, packet: Packet) -> None:
    """No more packets of a flow can come: every gap is a hole, so is what was acknowledged or closed and never seen."""
    drop_stray(tables, flow)
    if flow.base < 0 or flow.ended == 1:
        return
    while flow.head >= 0 and (flow.fin_at < 0 or tables.nodes[flow.head].offset <= flow.fin_at):
        give_up_gap(tables, flow, packet)
    target = flow.fin_at
    if target < 0:
        target = flow.acked_to
        if target == flow.next + 1:  # the acknowledgement of a FIN that was not captured
            target -= 1
    if target > flow.next:
        enter_hole(tables, flow, target - flow.next, packet)
    end_flow(tables, flow, packet, 0)


@inline
def has_left(flow: Flow, number: int) -> bool:
    """Whether nothing is remembered of flow ``number``: its row is zero. The first one never leaves."""
    return bool(flow.number != number)


@inline
def has_room(tables: TransportTables, flow: Flow) -> bool:
    """Whether all that waits of a flow can be entered."""
    room_in_recent = len(tables.recent) // RECENT_HOLES - tables.counts.recent
    return len(tables.entries) - tables.counts.entries >= 2 * flow.nodes + 8 and room_in_recent >= 2


@kernel("int64(int64, TransportTables)")
def close_flows(start: int, tables: TransportTables) -> int:
    """Ends every flow from ``start`` on, in order, at the end of the input; returns the flow it stopped before, or their number."""
    last = 2 * tables.counts.connections
    for f in range(start, last):
        if has_left(tables.flows[f], f):
            continue
        if not has_room(tables, tables.flows[f]):
            return f
        close_flow(tables, tables.flows[f], tables.segment.packet)
    return int(last)
