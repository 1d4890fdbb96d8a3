"""Flows: what happens to one direction of one connection when bytes are next, will not come, or
came too late.

A direction is named by its number, since its flow is only made with the first byte.
"""

from __future__ import annotations

from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.transport import flow_records
from dcpinspect.transport.chunk import Packet
from dcpinspect.transport.flow_records import (
    ASIDE_BITS,
    BY_FIN,
    END,
    GIVEN_UP,
    HOLE,
    RECENT_HOLES,
    Flow,
    Side,
    TransportTables,
)
from dcpinspect.transport.next_bytes import enter
from dcpinspect.transport.waiting import (
    NODE_COST,
    awaits_copy,
    free_node,
    packets_of,
    recent_row,
    unlink,
)

reset_flow = kernel_function(flow_records.Flow.resetter())


@kernel_function
def flow_of(tables: TransportTables, side: int) -> int:
    """Returns the row of a direction's flow, only to look at: it may be a row of nobody's.

    The flows of the connection must not be put aside, unless only waiting bytes matter.
    """
    return int(max(tables.connections[side >> 1].flows, 0) + (side & 1))


@kernel_function
def flow_to_write(tables: TransportTables, side: int) -> int:
    """Returns the row of a direction's flow to write to.

    If there is none, it is made, together with that of the other direction. Flows that were put
    aside get back their values.
    """
    connection = tables.connections[side >> 1]
    if connection.flows <= 0:
        first = tables.counts.flows
        tables.counts.flows = first + 2
        aside = -1 - connection.flows if connection.flows < 0 else 0
        connection.flows = first
        for direction in range(2):
            flow = tables.flows[first + direction]
            reset_flow(flow)
            flow.number = (side & -2) + direction
            flow.next = flow.payload = flow.unique = (aside >> direction * ASIDE_BITS + 1) & (
                1 << ASIDE_BITS - 1
            ) - 1
            flow.acked_to = flow.next if (aside >> direction * ASIDE_BITS) & 1 else 0
            flow.acked_at = connection.last_time if flow.acked_to else 0
            flow.fin_at = flow.next if tables.sides[flow.number].has_fin else 0
    return int(connection.flows + (side & 1))


@kernel_function
def next_of(tables: TransportTables, side: int) -> int:
    """Returns the stream offset of a direction's next byte wanted, put aside or not."""
    flows = tables.connections[side >> 1].flows
    if flows < 0:
        return int((-1 - flows) >> (side & 1) * ASIDE_BITS + 1 & (1 << ASIDE_BITS - 1) - 1)
    return int(tables.flows[flow_of(tables, side)].next)


def acked_of(tables: TransportTables, connection: int) -> tuple[int, int]:
    """Returns the stream offset up to which the other side has acknowledged each direction; 0 where
    no acknowledgement was captured.
    """
    flows = int(tables.connections[connection - 1].flows)
    if flows > 0:
        return int(tables.flows[flows].acked_to), int(tables.flows[flows + 1].acked_to)
    aside = -1 - flows if flows < 0 else 0
    client, server = aside & (1 << ASIDE_BITS) - 1, aside >> ASIDE_BITS & (1 << ASIDE_BITS) - 1
    return client // 2 * (client & 1), server // 2 * (server & 1)


@kernel_function
def says_little(direction: Side, flow: Flow) -> bool:
    """Returns whether the flow of a direction can be put aside.

    ``Flow.released`` is not needed: packets that come have greater numbers.
    """
    is_whole = (
        flow.nodes == 0
        and flow.stray < 0
        and flow.trailing_bytes < 0
        and flow.holes == 0
        and flow.cut_off == 0
        and flow.duplicate == 0
        and flow.late == 0
    )
    is_acked = flow.acked_to == 0 or flow.acked_to == flow.next
    is_usual = (
        flow.payload == flow.next
        and flow.unique == flow.next
        and flow.opened_by == 0
        and flow.jump == 0
        and flow.passed == 0
    )
    is_usual = is_usual and flow.shut_since == 0 and flow.shuts == 0 and flow.unproven == 0
    is_usual = is_usual and flow.resent_since == 0 and flow.late_acks == 0
    return bool(
        is_whole
        and is_acked
        and is_usual
        and flow.next < 1 << ASIDE_BITS - 1
        and (flow.fin_at == flow.next or (direction.has_fin == 0 and flow.fin_at < flow.next))
    )


@kernel_function
def set_aside(tables: TransportTables, c: int) -> bool:
    """Puts the flows of a connection that has some aside; returns whether that was possible."""
    connection = tables.connections[c]
    for direction in range(2):
        if not says_little(
            tables.sides[2 * c + direction], tables.flows[connection.flows + direction]
        ):
            return False
    aside = 0
    for direction in range(2):
        flow = tables.flows[connection.flows + direction]
        aside |= (
            2 * flow.next + (1 if 0 < flow.next == flow.acked_to else 0)
        ) << direction * ASIDE_BITS
        tables.flows[connection.flows + direction] = tables.flows[direction]
    connection.flows = -1 - aside
    return True


@kernel("void(TransportTables)")
def put_aside(tables: TransportTables) -> None:
    """Puts all flows aside that can be; the others move together."""
    counts = tables.counts
    next_row = 2
    for row in range(2, counts.flows, 2):
        c = tables.flows[row].number >> 1
        if not set_aside(tables, c):
            if next_row < row:
                tables.connections[c].flows = next_row
                for direction in range(2):
                    tables.flows[next_row + direction] = tables.flows[row + direction]
                    tables.flows[row + direction] = tables.flows[direction]
            next_row += 2
    counts.flows, counts.next_to_relieve = next_row, 2


@kernel_function
def enter_hole(tables: TransportTables, flow: Flow, length: int, packet: Packet) -> None:
    """Enters a hole: the next ``length`` bytes of a flow will not come; ``packet`` decided it."""
    n = enter(tables, flow, length, HOLE, packet)
    tables.entries[n].packet.frame = 0
    connection = tables.connections[flow.number >> 1]
    if (
        connection.closed_how == BY_FIN
        and connection.closed_by == flow.number & 1 ^ 1
        and tables.sides[flow.number].has_fin == 0
        and flow.next < flow.acked_at_end <= flow.next + length
    ):  # a FIN that came before the captured one may be in the hole
        connection.closed_by = -1
    hole = tables.recent[recent_row(tables, flow, flow.holes)]
    hole.start = flow.next
    hole.end = flow.next + length
    flow.holes += 1
    flow.missing += length
    flow.next += length


@kernel_function
def late_bytes(tables: TransportTables, flow: Flow, start: int, end: int) -> int:
    """Returns how many of the stream bytes [start, end), all before the next one, were given up
    earlier or precede the capture, and notes that they are there.

    Bytes before the oldest hole that is remembered count too, if older holes are forgotten: a copy
    seldom comes so late. Nothing precedes the first byte after a SYN: what comes there is a
    keepalive.
    """
    if tables.sides[flow.number].started == 1:
        start = max(start, 0)
    known_from = 0
    if flow.holes > RECENT_HOLES:
        known_from = tables.recent[flow.recent * RECENT_HOLES + flow.holes % RECENT_HOLES].start
    late = max(0, min(end, known_from) - start)
    for i in range(min(flow.holes, RECENT_HOLES)):
        hole = tables.recent[flow.recent * RECENT_HOLES + i]
        first, last = max(start, hole.start), min(end, hole.end)
        if first < last:
            late += last - first
            if first == hole.start:  # what is there now is a copy if it comes again
                hole.start = last
            elif last == hole.end:
                hole.end = first
    return int(late)


@kernel_function
def comes_early(tables: TransportTables, flow: Flow, needs: int) -> bool:
    """Returns whether bytes of a flow were recorded before those that they acknowledge: two clocks
    or queues recorded the two directions.

    That is not so if the acknowledged bytes wait for these: then they are there, and the
    acknowledgement is on a copy that was sent again. Where nothing of the other direction is
    captured, it is so for the first bytes only: once they waited in vain, nothing waits.
    """
    side, other_flow = tables.sides[flow.number ^ 1], tables.flows[flow_of(tables, flow.number ^ 1)]
    if needs - side.has_fin <= other_flow.next or other_flow.passed == GIVEN_UP:
        return False
    node = tables.nodes[max(other_flow.head, 0)]
    return not (
        other_flow.head >= 0
        and node.offset == other_flow.next
        and node.needs - tables.sides[flow.number].has_fin > flow.next
    )


@kernel_function
def enter_cut(tables: TransportTables, flow: Flow) -> None:
    """Enters a hole where the first waiting segment, which is next, was cut off."""
    node = tables.nodes[flow.head]
    flow.cut_off += node.length
    enter_hole(tables, flow, node.length, node.packet)
    unlink(tables, flow, flow.head)


@kernel_function
def drain(tables: TransportTables, flow: Flow) -> None:
    """Enters the waiting segments that are next."""
    while flow.head >= 0 and tables.nodes[flow.head].offset == flow.next:
        node = tables.nodes[flow.head]
        if comes_early(tables, flow, node.needs):
            if node.ack_seen < 0:
                node.ack_seen = packets_of(tables, flow.number)
                node.ack_time = tables.segment.packet.time
            return
        if awaits_copy(tables, flow, node):
            return
        if node.source == HOLE:
            enter_cut(tables, flow)
        else:
            n = enter(tables, flow, node.length, node.source, node.packet)
            tables.entries[n].place = node.place
            flow.next += node.length
            unlink(tables, flow, flow.head)


@kernel_function
def give_up_hole(tables: TransportTables, flow: Flow, packet: Packet) -> None:
    """Makes the gap before the first waiting segment a hole. If there is no gap, the segment no
    longer waits for a copy, or for the other direction.
    """
    node = tables.nodes[flow.head]
    length = node.offset - flow.next
    if length > 0:
        enter_hole(tables, flow, length, packet)
    elif awaits_copy(tables, flow, node) and not comes_early(tables, flow, node.needs):
        enter_cut(tables, flow)
    else:
        tables.flows[flow_of(tables, flow.number ^ 1)].passed = GIVEN_UP
    drain(tables, flow)


@kernel_function
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


@kernel_function
def drop_offer(tables: TransportTables, flow: Flow) -> None:
    """Forgets the bytes behind an IP packet: nothing shows that they are of the flow."""
    if flow.trailing_bytes >= 0:
        flow.unproven += tables.nodes[flow.trailing_bytes].wire
        tables.counts.waiting -= tables.nodes[flow.trailing_bytes].length + NODE_COST
        free_node(tables, flow.trailing_bytes)
        flow.trailing_bytes = -1


@kernel_function
def end_side(tables: TransportTables, side: int, packet: Packet, frame: int) -> None:
    """Ends a direction: nothing more of it will be entered, as a packet shows; ``frame``: frame of
    the packet, or 0.

    The end of a connection that never carried a byte is not entered: in a scan or a flood there are
    millions.
    """
    flow, other_flow = tables.flows[flow_of(tables, side)], tables.flows[flow_of(tables, side ^ 1)]
    while flow.head >= 0:  # bytes beyond a FIN
        node = tables.nodes[flow.head]
        if node.source != HOLE:
            flow.unique -= node.length
            flow.late += node.length
        unlink(tables, flow, flow.head)
    tables.sides[side].ended = 1
    if flow.next == 0 and other_flow.next == 0 and other_flow.head < 0:
        return
    n = enter(tables, flow, 0, END, packet)
    tables.entries[n].packet.frame = frame


@kernel_function
def close_side(tables: TransportTables, side: int, packet: Packet) -> None:
    """Closes a direction: no more packets of it can come.

    Every gap becomes a hole, and so does what was acknowledged or closed but never seen.
    """
    direction, flow = tables.sides[side], tables.flows[flow_of(tables, side)]
    drop_stray(tables, flow)
    drop_offer(tables, flow)
    if direction.has_base == 0 or direction.ended == 1:
        return
    while flow.head >= 0 and (
        direction.has_fin == 0 or tables.nodes[flow.head].offset <= flow.fin_at
    ):
        give_up_hole(tables, flow, packet)
    target = max(flow.fin_at, flow.acked_to)
    if direction.has_fin == 1:
        target = flow.fin_at
    elif target == flow.next + 1:  # a FIN that was not captured
        target = 0
    if target > flow.next:
        enter_hole(tables, flow, target - flow.next, packet)
    end_side(tables, side, packet, 0)


@kernel_function
def has_left(tables: TransportTables, side: int) -> bool:
    """Returns whether nothing is remembered of the connection of a direction: its rows are zero."""
    return packets_of(tables, side) == 0


@kernel_function
def has_room(tables: TransportTables, flow: Flow) -> bool:
    """Returns whether everything that waits in a flow can be entered."""
    room_in_recent = len(tables.recent) // RECENT_HOLES - tables.counts.recent
    return len(tables.entries) - tables.counts.entries >= 2 * flow.nodes + 8 and room_in_recent >= 2


@kernel("int64(int64, TransportTables)")
def close_sides(start: int, tables: TransportTables) -> int:
    """Ends every direction from ``start`` on, in order, at the end of the input. Returns the first
    direction not handled, or their count.
    """
    last = 2 * tables.counts.connections
    for side in range(start, last):
        if has_left(tables, side):
            continue
        c, direction = side >> 1, tables.sides[side]
        was_aside = tables.connections[c].flows < 0
        if was_aside and (direction.has_base == 0 or direction.ended == 1):
            continue
        if len(tables.flows) - tables.counts.flows < 2 or not has_room(
            tables, tables.flows[flow_of(tables, side)]
        ):
            return side
        if was_aside:
            flow_to_write(tables, side)
        close_side(tables, side, tables.segment.packet)
        if was_aside and set_aside(tables, c):
            tables.counts.flows -= 2  # its flows were the last ones
    return int(last)
