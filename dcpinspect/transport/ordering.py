"""Segments put in order: the sequential part of reassembly, on integers only.

One kernel looks at every packet in capture order, decides which bytes of it are new, which wait and which will never come, and writes
*entries*: "these bytes are next in that flow". No payload is touched. A *flow* is one direction of one connection, numbered
2 * connection + direction.

Any batches give the same entries, because each packet is handled completely before the next, and time is the packets' own.
"""

from __future__ import annotations

from dcpinspect.kernel import Ints, Octets, inline, kernel, step
from dcpinspect.transport import rows
from dcpinspect.transport.entries import enter
from dcpinspect.transport.flows import close_flow, drain, drop_stray, end_flow, enter_hole, give_up_gap, has_left, late_bytes
from dcpinspect.transport.headers import ACK, ACKED, CAPTURED, FIN, FLAGS, PAYLOAD, PORTS, RST, SEQ, SYN, WIRE
from dcpinspect.transport.rows import BY_FIN, BY_RST, HOLE, OPEN, RECENT_HOLES, REPLACED, Connection, Flow, Packet, Segment, TransportTables
from dcpinspect.transport.waiting import NODE_COST, free_node, insert, new_node

reset_flow = inline(rows.Flow.resetter())

MASK = 0xFFFFFFFF
WINDOW = 1 << 30
"""No TCP window is larger (scale 14): what lies farther off belongs to another connection."""
WAIT_PACKETS = 64
"""More packets of the connection that a gap waits once the other side has acknowledged past it."""
WAIT_NS = 200_000_000
MAX_WAITING = 4 << 20
"""A flow's waiting bytes; then its first gap is a hole."""
MAX_TOTAL_WAITING = 256 << 20
STRAY_REACH = 1 << 22
"""A second far-off segment this near after the first shows that a new connection runs there."""
AFTER_CLOSE, AFTER_END = 1 << 20, 1 << 16
"""So far behind what is known a segment of the same connection may be once a FIN or RST was seen, and once all of its direction was."""


@inline
def distance(a: int, b: int) -> int:
    """``a - b`` for sequence numbers: between -2**31 and 2**31."""
    return ((a - b + 0x80000000) & MASK) - 0x80000000


class PacketTables(TransportTables):
    """With the columns of a batch: a table of its packets would be a copy."""

    index: Ints
    """Number in the batch of each packet that counts."""
    pairs: Ints
    """Number of its address pair."""
    sides: Ints
    """Which end of that sent it."""
    times: Ints
    """Capture time of each packet in the batch."""
    packets: Ints
    """Its number over the whole reading."""
    frames: Ints
    """Its frame."""


@inline
def open_connection(tables: TransportTables, pair: int, client_end: int, first: Packet, opened_by: int) -> int:
    """A new connection on an address pair, whose first packet is ``first``; its number."""
    c = tables.counts.connections
    tables.counts.connections = c + 1
    tables.current[pair] = c
    connection = tables.connections[c]
    connection.pair = pair
    connection.client_end = client_end
    connection.seen = 0
    connection.first_packet = first.number
    connection.opened_by = opened_by
    connection.first_file = first.file
    connection.first_time = first.time
    connection.last_time = first.time
    connection.closed_how = OPEN
    connection.jump = 0
    for f in range(2 * c, 2 * c + 2):
        reset_flow(tables.flows[f])
        tables.flows[f].number = f
    return int(c)


@inline
def note_close(connection: Connection, how: int, by: int, packet: Packet) -> None:
    """The first sign that a connection is over."""
    if connection.closed_how == OPEN:
        connection.closed_how = how
        connection.closed_by = by
        connection.closed = packet


@inline
def last_waiting(tables: TransportTables, flow: Flow) -> int:
    """Stream offset behind all that is known of a flow."""
    if flow.tail < 0:
        return int(flow.next)
    return int(tables.nodes[flow.tail].offset + tables.nodes[flow.tail].length)


@inline
def is_far_off(tables: TransportTables, flow: Flow, seq: int) -> bool:
    """Whether a segment cannot be of its connection: numbers of the next one on the same addresses rise by the clock."""
    gap = distance(seq, flow.base + flow.next)
    if flow.ended == 1:
        return bool(gap < -WINDOW or gap > AFTER_END)
    is_closed = tables.connections[flow.number >> 1].closed_how != OPEN
    return bool(gap < -WINDOW or gap > (last_waiting(tables, flow) - flow.next + AFTER_CLOSE if is_closed else WINDOW))


@inline
def begins_anew(flow: Flow, other: Flow, flags: int, seq: int, ack: int) -> bool:
    """Whether a SYN seen on a flow cannot belong to its connection."""
    if flow.base >= 0:
        return bool(((seq + 1) & MASK) != flow.base)
    if other.started == 0:
        return bool(other.base >= 0)
    if flags & ACK:
        return not 0 <= distance(ack, other.base) < 65_536  # data may ride on a SYN
    return bool(other.next > 0)


@step
def lacks_room(tables: TransportTables, c: int) -> bool:
    """Whether a packet of connection ``c``, -1 for a new one, might fill a table."""
    room, counts = 64, tables.counts
    if c >= 0:
        room += 4 * (tables.flows[2 * c].nodes + tables.flows[2 * c + 1].nodes)
    if counts.waiting > MAX_TOTAL_WAITING - (1 << 20):
        room += 4 * counts.live
    return bool(
        len(tables.entries) - counts.entries < room
        or len(tables.fresh) - counts.fresh < room
        or len(tables.nodes) - counts.live < room
        or len(tables.recent) // RECENT_HOLES - counts.recent < room
        or len(tables.connections) - counts.connections < 2
    )


@inline
def replace(tables: TransportTables, c: int, packet: Packet) -> None:
    """Connection ``c`` is over: another one has its addresses."""
    note_close(tables.connections[c], REPLACED, -1, packet)
    for f in range(2 * c, 2 * c + 2):
        close_flow(tables, tables.flows[f], packet)


@inline
def keep_stray(tables: TransportTables, flow: Flow, segment: Segment) -> None:
    """A far-off segment waits for another one that agrees with it; one that waited so far was simply wrong."""
    flow.packets += 1
    if segment.have > 0:
        drop_stray(tables, flow)
        k = new_node(tables, segment.seq, segment.have, segment.source, segment.packet)
        tables.nodes[k].wire = segment.full
        flow.stray = k
        tables.counts.waiting += segment.have + NODE_COST


@inline
def open_at_stray(tables: TransportTables, flow: Flow) -> int:
    """The connection that the far-off segment of a flow began, as the packet at hand shows; its number."""
    c, stray, packet = flow.number >> 1, tables.nodes[flow.stray], tables.segment.packet
    tables.stray.seq = stray.offset
    tables.stray.have = stray.length
    tables.stray.full = stray.wire
    tables.stray.source = stray.source
    tables.stray.place = stray.place
    tables.stray.packet = stray.packet
    tables.counts.waiting -= stray.length + NODE_COST
    free_node(tables, flow.stray)
    flow.stray = -1
    jump = distance(tables.stray.seq, flow.base + flow.next)
    replace(tables, c, packet)
    old = tables.connections[c]
    opened = open_connection(tables, old.pair, old.client_end, tables.stray.packet, packet.number)
    tables.connections[opened].jump = jump
    return opened


@inline
def client_end_of(end: int, flags: int, port: int, other_port: int, server_ports: Octets) -> int:
    """Which end of a pair is the client, by the first packet of their connection, which comes from ``end`` and ``port``."""
    if flags & SYN:
        return 1 - end if flags & ACK else end
    if server_ports[port] != server_ports[other_port]:
        return 1 - end if server_ports[port] else end
    return end


@inline
def start_flows(flow: Flow, other: Flow, flags: int, seq: int, ack: int) -> None:
    """A SYN on a flow says what its first byte is, ``seq``; and that of the other side, if the SYN it answers was not captured."""
    if flow.base < 0:
        flow.base = seq
        flow.started = 1
    if flags & ACK and other.base < 0:
        other.base = ack
        other.started = 1


@inline
def note_end(tables: TransportTables, flow: Flow, flags: int, ack: int) -> None:
    """A FIN or RST on a flow closes the connection, from this side or, as the second of two, from the other."""
    other = tables.flows[flow.number ^ 1]
    # it may acknowledge a FIN that was not captured, or not yet
    is_second = not flags & RST and flags & ACK and other.base >= 0 and distance(ack, other.base + last_waiting(tables, other)) == 1
    by = flow.number & 1
    note_close(tables.connections[flow.number >> 1], BY_RST if flags & RST else BY_FIN, 1 - by if is_second else by, tables.segment.packet)


@step
def acknowledge(tables: TransportTables, flow: Flow, acked: int) -> None:
    """The other side has all of a flow before ``acked``: what waits there shows that the capture lost what is missing before it."""
    before = flow.acked_to
    flow.acked_to = acked
    k = flow.tail
    while k >= 0 and tables.nodes[k].offset > before:
        node = tables.nodes[k]
        if node.offset <= acked and node.ack_seen < 0:
            node.ack_seen = tables.connections[flow.number >> 1].seen
            node.ack_time = tables.segment.packet.time
        k = node.previous


@step
def take_bytes(tables: TransportTables, flow: Flow, segment: Segment) -> None:
    """The bytes of a segment: entered where they are next, else kept waiting."""
    have, full, source, packet = segment.have, segment.full, segment.source, segment.packet
    if flow.base < 0:
        flow.base = segment.seq
    flow.payload += have
    wanted = flow.next
    offset = wanted + distance(segment.seq, flow.base + wanted)
    if flow.ended == 1:
        flow.late += have
        return
    if offset < wanted:  # a retransmission, at least in part
        old_bytes = min(full, wanted - offset)
        old_have = min(have, old_bytes)
        late = late_bytes(tables, flow, offset, offset + old_have)
        flow.late += late
        flow.duplicate += old_have - late
        offset += old_bytes
        full -= old_bytes
        have -= old_have
        source += old_have
        if full == 0:
            return
    head = flow.head
    if offset == wanted and (head < 0 or tables.nodes[head].offset >= offset + full):
        if have > 0:
            n = enter(tables, flow, have, source, packet)
            tables.entries[n].place = segment.place
            flow.next = offset + have
            flow.unique += have
        if full > have:
            flow.cut_off += full - have
            enter_hole(tables, flow, full - have, packet)
    else:
        if have > 0:
            used = insert(tables, flow, offset, have, source, packet)
            flow.unique += used
            flow.duplicate += have - used
        if full > have:
            insert(tables, flow, offset + have, full - have, HOLE, packet)
    if head >= 0 or flow.head >= 0:
        drain(tables, flow)
        while flow.waiting > MAX_WAITING:
            give_up_gap(tables, flow, packet)


@inline
def note_last(flow: Flow, last: int) -> None:
    """A FIN or RST says that a flow ends with sequence number ``last``."""
    fin_at = flow.next + distance(last, flow.base + flow.next)
    if flow.next <= fin_at <= flow.next + WINDOW:
        flow.fin_at = fin_at


@inline
def wait_no_more(tables: TransportTables, flow: Flow) -> None:
    """After an RST nobody will send anything again: gaps need not wait for an acknowledgement."""
    k = flow.head
    while k >= 0:
        node = tables.nodes[k]
        if node.ack_seen < 0:
            node.ack_seen = tables.connections[flow.number >> 1].seen
            node.ack_time = tables.segment.packet.time
        k = node.next


@step
def give_up_overdue(tables: TransportTables, flow: Flow, seen: int) -> None:
    """Gaps of a flow that were acknowledged long enough ago become holes."""
    packet = tables.segment.packet
    while flow.head >= 0:
        node = tables.nodes[flow.head]
        if node.ack_seen < 0 or (seen - node.ack_seen < WAIT_PACKETS and packet.time - node.ack_time < WAIT_NS):
            return
        give_up_gap(tables, flow, packet)


@inline
def relieve(tables: TransportTables) -> None:
    """Too much waits in all: the next flow, which take turns, gives up what it holds."""
    f = tables.counts.hand
    tables.counts.hand = f + 1 if f + 1 < 2 * tables.counts.connections else 0
    flow = tables.flows[f]
    if has_left(flow, f):
        return
    drop_stray(tables, flow)
    while flow.head >= 0:
        give_up_gap(tables, flow, tables.segment.packet)


@kernel("int64(int64, int64[:,::1], octets, PacketTables)")
def order_segments(start: int, tcp: Ints, server_ports: Octets, tables: PacketTables) -> int:
    """Handles packets from row ``start`` of ``tcp`` on; returns the row it stopped before for want of room in a table, or their number.

    Constant work a packet, but for those that fall between waiting segments (at most MAX_WAITING / NODE_COST steps).
    """
    segment, packet = tables.segment, tables.segment.packet
    for i in range(start, len(tcp)):
        c = tables.current[tables.pairs[i]]
        if lacks_room(tables, c):
            return i
        flags, seq, ack = tcp[i, FLAGS], tcp[i, SEQ], tcp[i, ACKED]
        have, full, end = tcp[i, CAPTURED], tcp[i, WIRE], tables.sides[i]
        packet.number = tables.packets[tables.index[i]]
        packet.frame = tables.frames[tables.index[i]]
        packet.time = tables.times[tables.index[i]]
        segment.seq = seq
        segment.have = have
        segment.full = full
        segment.source = tcp[i, PAYLOAD]

        # whose packet it is
        has_stray = False
        if c >= 0:
            flow = tables.flows[2 * c + (0 if end == tables.connections[c].client_end else 1)]
            if flags & SYN:
                other = tables.flows[flow.number ^ 1]
                is_over = tables.connections[c].closed_how != OPEN and flow.base < 0 and other.base < 0
                if is_over or begins_anew(flow, other, flags, seq, ack):
                    replace(tables, c, packet)
                    c = -1
            elif flow.base >= 0 and is_far_off(tables, flow, seq):
                # another connection, or a packet that is simply wrong: two that agree decide
                if flow.stray < 0 or have == 0 or abs(distance(seq, tables.nodes[flow.stray].offset)) >= STRAY_REACH:
                    keep_stray(tables, flow, segment)
                    continue
                has_stray = True
                c = open_at_stray(tables, flow)
        if c < 0:
            client_end = client_end_of(end, flags, tcp[i, PORTS], tcp[i, PORTS + 1], server_ports)
            c = open_connection(tables, tables.pairs[i], client_end, packet, packet.number)
        connection = tables.connections[c]
        f = 2 * c + (0 if end == connection.client_end else 1)
        flow, other = tables.flows[f], tables.flows[f ^ 1]
        connection.seen += 1
        connection.last_time = packet.time
        flow.packets += 1

        # what it says of both directions
        if flags & SYN:
            seq = (seq + 1) & MASK
            segment.seq = seq
            start_flows(flow, other, flags, seq, ack)
        elif flow.base < 0 and flags & ACK and other.started == 1 and not 0 <= distance(ack, other.base) <= WINDOW:
            flow.payload += have  # left over from the connection before this one
            flow.late += have
            continue
        if flags & (FIN | RST):
            note_end(tables, flow, flags, ack)
        if flags & ACK and other.base < 0 and flow.started == 1 and seq == flow.base:
            # before its first byte, a client has had nothing but the answer to its SYN, which was not captured
            other.base = ack
            other.started = 1
        if flags & ACK and other.base >= 0:
            acked = other.next + distance(ack, other.base + other.next)
            if other.acked_to < acked <= other.next + WINDOW:
                acknowledge(tables, other, acked)

        # the bytes it brings
        if has_stray:
            take_bytes(tables, flow, tables.stray)
        if full > 0:
            take_bytes(tables, flow, segment)
        if flow.stray >= 0:
            drop_stray(tables, flow)

        # what ends by it
        if flags & (FIN | RST) and flow.base >= 0 and flow.fin_at < 0:
            note_last(flow, seq + full)
        for x in range(2 * c, 2 * c + 2):
            flow = tables.flows[x]
            if flags & RST:
                wait_no_more(tables, flow)
            if flow.head >= 0:
                give_up_overdue(tables, flow, connection.seen)
            if flow.ended == 0 and 0 <= flow.fin_at <= flow.next:
                end_flow(tables, flow, packet, packet.frame)
        while tables.counts.waiting > MAX_TOTAL_WAITING:
            relieve(tables)
    return len(tcp)
