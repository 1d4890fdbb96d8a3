"""Segments that wait for the bytes before them: a list of nodes for each flow, by stream offset,
without overlap.
"""

from __future__ import annotations

from dcpinspect.kernels.kernel import inlined, kernel_function
from dcpinspect.transport.chunk import Packet
from dcpinspect.transport.flow_records import (
    HOLE,
    LATE_NS,
    LONGEST_SHUTS,
    RECENT_HOLES,
    RECENT_LATES,
    Flow,
    TransportTables,
    WaitingSegment,
)

NODE_COST = 256
"""What a waiting segment costs in addition to its bytes, so that one-byte segments are bounded too,
and walks along them stay short.
"""
WAIT_NS = 200_000_000
"""What was sent before another packet seldom comes so long after it."""


@kernel_function
def packets_of(tables: TransportTables, side: int) -> int:
    """Returns the number of packets so far of a direction's connection."""
    return int(tables.sides[side].packets + tables.sides[side ^ 1].packets)


@kernel_function
def free_node(tables: TransportTables, k: int) -> None:
    """Frees node ``k``."""
    tables.nodes[k].source = HOLE
    tables.nodes[k].next = tables.counts.free
    tables.counts.free = k
    tables.counts.live -= 1


@kernel_function
def new_node(tables: TransportTables, offset: int, length: int, source: int, packet: Packet) -> int:
    """Returns a node, not linked yet; the caller has made sure that there is room."""
    counts, k = tables.counts, tables.counts.free
    if k >= 0:
        counts.free = tables.nodes[k].next
    else:
        k = counts.top
        counts.top = k + 1
    counts.live += 1
    node = tables.nodes[k]
    node.offset = offset
    node.length = length
    node.source = source
    node.packet = packet
    node.place = -1
    node.ack_seen = -1
    node.ack_time = 0
    node.needs = tables.segment.acked
    node.next = -1
    node.previous = -1
    node.wire = length
    tables.fresh[counts.fresh] = k
    counts.fresh += 1
    return int(k)


@kernel_function
def cost_of(node: WaitingSegment) -> int:
    """Returns what a node counts against the limits."""
    return int(NODE_COST + (node.length if node.source != HOLE else 0))


@kernel_function
def node_before(tables: TransportTables, flow: Flow, start: int) -> int:
    """Returns the last waiting node that begins at ``start`` or before, or -1.

    Segments come one after the other, in whatever order they fill gaps. So the search begins at the
    end, or at the latest node that was put before another one, whichever is nearer.
    """
    nodes, k = tables.nodes, flow.tail
    if k < 0 or nodes[flow.head].offset > start:
        return -1
    if flow.near >= 0 and nodes[flow.near].offset <= start:
        near = flow.near
        if start - nodes[near].offset < nodes[k].offset - start:
            while nodes[near].next >= 0 and nodes[nodes[near].next].offset <= start:
                near = nodes[near].next
            return int(near)
    elif flow.near >= 0:
        k = flow.near
    while k >= 0 and nodes[k].offset > start:
        k = nodes[k].previous
    return int(k)


@kernel_function
def make_way(tables: TransportTables, flow: Flow, start: int, end: int) -> None:
    """Takes out of the waiting segments what is cut off of stream bytes [start, end)."""
    nodes, k = tables.nodes, node_before(tables, flow, start)
    if k < 0:
        k = flow.head
    while k >= 0 and nodes[k].offset < end:
        node, after = nodes[k], nodes[k].next
        node_end = node.offset + node.length
        if node.source == HOLE and start < node_end:
            if end < node_end:
                last = new_node(tables, end, node_end - end, HOLE, node.packet)
                nodes[last].needs = node.needs
                link(tables, flow, last, k, after)
            node.length = start - node.offset
            if node.length <= 0:
                unlink(tables, flow, k)
        k = after


@kernel_function
def awaits_copy(tables: TransportTables, flow: Flow, node: WaitingSegment) -> bool:
    """Returns whether a node was cut off of a packet so lately that a whole copy may follow."""
    return bool(
        node.source == HOLE and abs(tables.segment.packet.time - node.packet.time) < flow.copies_ns
    )


@kernel_function
def insert(
    tables: TransportTables, flow: Flow, start: int, length: int, source: int, packet: Packet
) -> int:
    """Keeps new stream bytes of [start, end) waiting; returns how many were new."""
    nodes, end = tables.nodes, start + length
    before = node_before(tables, flow, start)
    after = nodes[before].next if before >= 0 else flow.head
    offset = start
    if before >= 0:
        offset = max(offset, nodes[before].offset + nodes[before].length)
    used = 0
    while offset < end:
        stop = end
        if after >= 0:
            stop = min(end, nodes[after].offset)
        if stop > offset:
            k = new_node(
                tables,
                offset,
                stop - offset,
                source + offset - start if source >= 0 else source,
                packet,
            )
            link(tables, flow, k, before, after)
            used += stop - offset
            before = k
        if after < 0:
            break
        offset = max(offset, nodes[after].offset + nodes[after].length)
        before = after
        after = nodes[after].next
    return int(used)


@kernel_function
def link(tables: TransportTables, flow: Flow, k: int, before: int, after: int) -> None:
    """Links node ``k`` between two others, -1 for none."""
    nodes, node = tables.nodes, tables.nodes[k]
    if node.offset <= flow.acked_to:
        node.ack_seen = packets_of(tables, flow.number)
        node.ack_time = node.packet.time
    node.previous = before
    node.next = after
    if before >= 0:
        nodes[before].next = k
    else:
        flow.head = k
    if after >= 0:
        nodes[after].previous = k
        flow.near = k
    else:
        flow.tail = k
    cost = cost_of(node)
    flow.waiting += cost
    flow.nodes += 1
    tables.counts.waiting += cost


@kernel_function
def unlink(tables: TransportTables, flow: Flow, k: int) -> None:
    """Frees a waiting node of a flow."""
    cost = cost_of(tables.nodes[k])
    flow.waiting -= cost
    flow.nodes -= 1
    tables.counts.waiting -= cost
    before, after = tables.nodes[k].previous, tables.nodes[k].next
    if flow.near == k:
        flow.near = after
    if before >= 0:
        tables.nodes[before].next = after
    else:
        flow.head = after
    if after >= 0:
        tables.nodes[after].previous = before
    else:
        flow.tail = before
    free_node(tables, k)


@kernel_function
def recent_row(tables: TransportTables, flow: Flow, nth: int) -> int:
    """Returns the row of the ``nth`` hole of a flow."""
    if flow.recent == 0:
        tables.counts.recent += 1
        flow.recent = tables.counts.recent
    return int(flow.recent * RECENT_HOLES + nth % RECENT_HOLES)


@kernel_function
def late_row(tables: TransportTables, flow: Flow, nth: int) -> int:
    """Returns the row of the ``nth`` late acknowledgement of a flow."""
    if flow.lates == 0:
        tables.counts.lates += 1
        flow.lates = tables.counts.lates
    return int(flow.lates * RECENT_LATES + nth % RECENT_LATES)


@kernel_function
def shut_row(tables: TransportTables, flow: Flow) -> int:
    """Returns the row for the next time when a flow's sender took nothing: a new one, or else that
    of the shortest.
    """
    if flow.shut_spells == 0:
        tables.counts.shuts += 1
        flow.shut_spells = tables.counts.shuts
    first = row = int(flow.shut_spells * LONGEST_SHUTS)
    if flow.shuts < LONGEST_SHUTS:
        return first + int(flow.shuts)
    for candidate in range(first + 1, first + LONGEST_SHUTS):
        spell, shortest = tables.shuts[candidate], tables.shuts[row]
        if spell.until - spell.since < shortest.until - shortest.since:
            row = candidate
    return row


@kernel_function
def is_sent_again(flow: Flow, until_ns: int) -> bool:
    """Returns whether the first bytes that are not acknowledged were sent again up to a time: not
    only as a copy that another interface has, and not so long ago that an acknowledgement must have
    been missed. TCP waits twice as long each time (RFC 6298, 5.5).
    """
    last_ns = flow.resent_ms * 1_000_000
    return bool(
        flow.resent_since > 0
        and last_ns >= LATE_NS
        and until_ns - flow.resent_since - last_ns <= 2 * last_ns + LATE_NS
    )


@kernel_function
def note_late(tables: TransportTables, flow: Flow, before: int) -> None:
    """Notes that the other side has bytes of a flow from ``before`` on that were sent again, or
    were on their way then: nobody could read them earlier.
    """
    time = tables.segment.packet.time
    if flow.late_acks > 0:
        latest = tables.lates[late_row(tables, flow, flow.late_acks - 1)]
        if before < latest.end:
            latest.time = time
            flow.resent_since = 0
    if is_sent_again(flow, time):
        late = tables.lates[late_row(tables, flow, flow.late_acks)]
        late.start = before
        late.end = max(flow.next, flow.acked_to)
        late.sent = flow.acked_at
        late.since = flow.resent_since
        late.time = time
        flow.late_acks += 1
    flow.resent_since = 0


@inlined
def acknowledge(tables: TransportTables, flow: Flow, acked: int) -> None:
    """Notes that the other side has everything of a flow before ``acked``: if segments wait there,
    the capture lost what is missing before them.
    """
    before = flow.acked_to
    flow.acked_to = acked
    if flow.resent_since + flow.late_acks > 0:
        note_late(tables, flow, before)
    flow.acked_at = tables.segment.packet.time - (LATE_NS if acked < flow.next else 0)
    k = flow.tail
    while k >= 0 and tables.nodes[k].offset > before:
        node = tables.nodes[k]
        if node.offset <= acked and node.ack_seen < 0:
            node.ack_seen = packets_of(tables, flow.number)
            node.ack_time = tables.segment.packet.time
        k = node.previous


@kernel_function
def wait_no_more(tables: TransportTables, flow: Flow) -> None:
    """Ends the wait of gaps for an acknowledgement: after an RST nobody sends anything again."""
    k = flow.head
    while k >= 0:
        node = tables.nodes[k]
        if node.ack_seen < 0:
            node.ack_seen = packets_of(tables, flow.number)
            node.ack_time = tables.segment.packet.time
        k = node.next


@kernel_function
def wait_again(tables: TransportTables, flow: Flow) -> None:
    """Takes back ``wait_no_more``."""
    k = flow.tail
    while k >= 0 and tables.nodes[k].offset > flow.acked_to:
        tables.nodes[k].ack_seen = -1
        k = tables.nodes[k].previous
