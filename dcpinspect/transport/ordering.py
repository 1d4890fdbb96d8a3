"""Puts segments in order: the sequential part of reassembly, on integers only.

One kernel looks at every packet in capture order. It decides which bytes of the packet are new, which wait and which will never come, and
writes *entries*: "these bytes are next in that direction". No payload is touched. A *side* is one direction of one connection, numbered 2 *
connection + direction. Its *flow* is what it carries; the flow is made with the first byte.

Two clocks, or two queues, may have recorded the two directions; then a question stands behind its answer in the capture. TCP tells the real
order, since the answer acknowledges the question. So bytes wait for the bytes of the other direction that they acknowledge, as they wait
for a gap.

The entries do not depend on the batches, because each packet is handled completely before the next, and times are those of packets.
"""

from __future__ import annotations

from dcpinspect.kernel import Ints, Octets, inline, kernel, step
from dcpinspect.transport import rows
from dcpinspect.transport.entries import enter
from dcpinspect.transport.flows import (
    close_side,
    comes_early,
    drain,
    drop_stray,
    end_side,
    enter_hole,
    flow_of,
    give_up_gap,
    late_bytes,
    own_flow,
)
from dcpinspect.transport.headers import ACK, ACKED, CAPTURED, FIN, FLAGS, PAYLOAD, PORTS, RST, SEQ, SYN, TAKES, UNREACHED, WIRE
from dcpinspect.transport.rows import (
    BY_FIN,
    BY_RST,
    GIVEN_UP,
    HOLE,
    OPEN,
    RECENT_HOLES,
    REPLACED,
    SENT,
    SHUT_NS,
    Connection,
    Flow,
    Packet,
    Segment,
    Side,
    TransportTables,
)
from dcpinspect.transport.waiting import NODE_COST, free_node, insert, new_node, packets_of

reset_side = inline(rows.Side.resetter())

MASK = 0xFFFFFFFF
WINDOW = 1 << 30
"""No TCP window is larger (scale 14): a segment that is farther off belongs to another connection."""
WAIT_PACKETS = 64
"""Number of further packets of the connection that a gap waits for, once the other side has acknowledged past it."""
WAIT_NS = 200_000_000
MAX_WAITING = 4 << 20
"""Greatest number of waiting bytes of a flow; with more, its first gap becomes a hole."""
MAX_TOTAL_WAITING = 256 << 20
STRAY_REACH = 1 << 22
"""A second far-off segment this near after the first one shows that a new connection runs there."""
AFTER_CLOSE, AFTER_END = 1 << 20, 1 << 16
"""Greatest distance behind the known bytes of a segment of the same connection, once a FIN or RST was seen, and once its direction had
ended. The first is also the greatest distance before its first byte then."""


@inline
def distance(a: int, b: int) -> int:
    """Returns ``a - b`` for sequence numbers: between -2**31 and 2**31."""
    return ((a - b + 0x80000000) & MASK) - 0x80000000


@inline
def set_base(one: Side, seq: int) -> None:
    """Sets the sequence number of the first byte of a direction."""
    one.base = distance(seq, 0)
    one.has_base = 1


class PacketTables(TransportTables):
    """The tables, with the columns of a batch: a table of its packets would be a copy."""

    index: Ints
    """Number in the batch of each packet that counts."""
    pairs: Ints
    """Number of the address pair of each packet."""
    ends: Ints
    """The end of the address pair that sent each packet."""
    times: Ints
    """Capture time of each packet in the batch."""
    packets: Ints
    """Number of each packet over the whole reading."""
    frames: Ints
    """Frame of each packet."""


@inline
def open_connection(tables: TransportTables, pair: int, client_end: int, first: Packet) -> int:
    """Opens a connection on an address pair, whose first packet is ``first``; returns its number."""
    c = tables.counts.connections
    tables.counts.connections = c + 1
    tables.address_pairs[pair].latest = c + 1
    connection = tables.connections[c]
    connection.pair = pair
    connection.client_end = client_end
    connection.first_packet = first.number
    connection.first_file = first.file
    connection.first_time = first.time
    connection.last_time = first.time
    connection.closed_how = OPEN
    for side in range(2 * c, 2 * c + 2):
        reset_side(tables.sides[side])
    return int(c)


@inline
def note_close(connection: Connection, how: int, by: int, packet: Packet) -> None:
    """Notes the first sign that a connection is over."""
    if connection.closed_how == OPEN:
        connection.closed_how = how
        connection.closed_by = by
        connection.closed = packet


@inline
def last_waiting(tables: TransportTables, flow: Flow) -> int:
    """Returns the stream offset behind everything that is known of a flow."""
    if flow.tail < 0:
        return int(flow.next)
    return int(tables.nodes[flow.tail].offset + tables.nodes[flow.tail].length)


@inline
def is_far_off(tables: TransportTables, side: int, seq: int) -> bool:
    """Returns whether a segment cannot belong to its connection: the next connection on the same addresses has numbers that rise by the
    clock."""
    one, flow = tables.sides[side], tables.flows[flow_of(tables, side)]
    gap = distance(seq, one.base + flow.next)
    if tables.connections[side >> 1].closed_how == OPEN:
        return bool(abs(gap) > WINDOW)
    if one.ended == 1 and gap >= 0 and gap + tables.segment.have > 0 and tables.connections[side >> 1].closed_how == BY_RST:
        return True  # who sends on did not send the RST
    before = min(WINDOW, flow.next + AFTER_CLOSE)
    return bool(gap < -before or gap > (AFTER_END if one.ended == 1 else last_waiting(tables, flow) - flow.next + AFTER_CLOSE))


@inline
def begins_anew(tables: TransportTables, side: int, flags: int, seq: int, ack: int) -> bool:
    """Returns whether a SYN cannot belong to the connection on its addresses."""
    one, other = tables.sides[side], tables.sides[side ^ 1]
    if one.has_base == 1:
        return bool(distance(seq + 1, one.base) != 0)
    if other.started == 0:
        return bool(other.has_base == 1)
    if flags & ACK:
        return not 0 <= distance(ack, other.base) < 65_536  # a SYN may carry data
    return bool(tables.flows[flow_of(tables, side ^ 1)].next > 0)


@step
def lacks_room(tables: TransportTables, c: int) -> bool:
    """Returns whether a packet of connection ``c``, -1 for a new one, might fill a table."""
    room, counts = 64, tables.counts
    if c >= 0:
        room += 4 * (tables.flows[flow_of(tables, 2 * c)].nodes + tables.flows[flow_of(tables, 2 * c + 1)].nodes)
    if counts.waiting > MAX_TOTAL_WAITING - (1 << 20):
        room += 4 * counts.live
    return bool(
        len(tables.entries) - counts.entries < room
        or len(tables.fresh) - counts.fresh < room
        or len(tables.nodes) - counts.live < room
        or len(tables.recent) // RECENT_HOLES - counts.recent < room
        or len(tables.connections) - counts.connections < 2
        or len(tables.flows) - counts.flows < 4
    )


@inline
def replace(tables: TransportTables, c: int, packet: Packet) -> None:
    """Ends connection ``c``: another one has its addresses."""
    note_close(tables.connections[c], REPLACED, -1, packet)
    for side in range(2 * c, 2 * c + 2):
        close_side(tables, side, packet)


@inline
def keep_stray(tables: TransportTables, flow: Flow, segment: Segment) -> None:
    """Keeps a far-off segment until another one agrees with it; one that waited before was simply wrong."""
    drop_stray(tables, flow)
    k = new_node(tables, segment.seq, segment.have, segment.source, segment.packet)
    tables.nodes[k].wire = segment.full
    flow.stray = k
    tables.counts.waiting += segment.have + NODE_COST


@inline
def open_at_strays(tables: TransportTables, flow: Flow, ack: int) -> int:
    """Opens the connection that the far-off segment of a flow began, as the current packet shows; returns its number.

    A far-off segment of the other direction belongs to it if that packet acknowledges bytes near it.
    """
    side, packet = flow.number, tables.segment.packet
    first = tables.nodes[flow.stray]
    jump = distance(first.offset, tables.sides[side].base + flow.next)
    old = tables.connections[side >> 1]
    answered = tables.flows[flow_of(tables, side ^ 1)]
    if answered.stray >= 0:
        other = tables.nodes[answered.stray]
        if abs(distance(ack, other.offset)) >= STRAY_REACH:
            drop_stray(tables, answered)
        elif other.packet.number < first.packet.number:
            first = other
    opened = open_connection(tables, old.pair, old.client_end, first.packet)
    for way in range(2):
        before, new = tables.flows[flow_of(tables, 2 * (side >> 1) + way)], tables.flows[own_flow(tables, 2 * opened + way)]
        new.opened_by = packet.number
        new.jump = jump
        new.stray = before.stray
        before.stray = -1
    replace(tables, side >> 1, packet)
    return opened


@step
def take_stray(tables: TransportTables, side: int) -> None:
    """Takes the bytes of the far-off segment of a direction as its first ones."""
    flow, segment = tables.flows[flow_of(tables, side)], tables.stray
    node = tables.nodes[flow.stray]
    segment.seq = node.offset
    segment.have = node.length
    segment.full = node.wire
    segment.source = node.source
    segment.place = node.place
    segment.packet = node.packet
    tables.counts.waiting -= node.length + NODE_COST
    free_node(tables, flow.stray)
    flow.stray = -1
    take_bytes(tables, side, segment)


@inline
def client_end_of(end: int, flags: int, port: int, other_port: int, server_ports: Octets) -> int:
    """Returns which end of a pair is the client, by the first packet of their connection, which comes from ``end`` and ``port``."""
    if flags & SYN:
        return 1 - end if flags & ACK else end
    if server_ports[port] != server_ports[other_port]:
        return 1 - end if server_ports[port] else end
    return end


@inline
def start_sides(one: Side, other: Side, flags: int, seq: int, ack: int) -> None:
    """Sets the first byte of a SYN's side, ``seq``, and that of the other side if the SYN that this one answers was not captured.

    After bytes of the connection it is too late: they were taken for the middle of a connection, and may have been given out.
    """
    if one.has_base == 0:
        set_base(one, seq)
        one.started = 1 if other.has_base == 0 or other.started == 1 else 0
    if flags & ACK and other.has_base == 0:
        set_base(other, ack)
        other.started = one.started


@inline
def note_end(tables: TransportTables, side: int, flags: int, ack: int) -> None:
    """Closes the connection at a FIN or RST: from its side or, if it is the second of two, from the other."""
    other = tables.sides[side ^ 1]
    known_to = other.base + last_waiting(tables, tables.flows[flow_of(tables, side ^ 1)])
    # it may acknowledge a FIN that was not captured, or not yet
    is_second = not flags & RST and flags & ACK and other.has_base == 1 and distance(ack, known_to) == 1
    by = side & 1
    note_close(tables.connections[side >> 1], BY_RST if flags & RST else BY_FIN, 1 - by if is_second else by, tables.segment.packet)


@inline
def note_unreached(tables: TransportTables, c: int, end: int, why: int) -> None:
    """Notes that a packet of connection ``c``, which ``end`` of its address pair sent, did not arrive; ``c`` may be -1."""
    if c >= 0:
        connection = tables.connections[c]
        connection.unreached = why if end == connection.client_end else -why


@inline
def note_window(flow: Flow, window: int, packet: Packet) -> None:
    """Notes the receive window that the sender of a flow announces; it is 0 or it was 0."""
    if window == 0:
        flow.shut_since = packet.time if flow.shut_since == 0 else flow.shut_since
        return
    shut_ns = packet.time - flow.shut_since
    if shut_ns >= SHUT_NS:
        flow.shuts += 1
        if shut_ns > flow.shut_ns:
            flow.shut_from = flow.shut_since
            flow.shut_ns = shut_ns
    flow.shut_since = 0


@step
def acknowledge(tables: TransportTables, flow: Flow, acked: int) -> None:
    """Notes that the other side has everything of a flow before ``acked``: if segments wait there, the capture lost what is missing before
    them."""
    before = flow.acked_to
    flow.acked_to = acked
    k = flow.tail
    while k >= 0 and tables.nodes[k].offset > before:
        node = tables.nodes[k]
        if node.offset <= acked and node.ack_seen < 0:
            node.ack_seen = packets_of(tables, flow.number)
            node.ack_time = tables.segment.packet.time
        k = node.previous


@step
def take_bytes(tables: TransportTables, side: int, segment: Segment) -> None:
    """Enters the bytes of a segment where they are next, else keeps them waiting."""
    have, full, source, packet = segment.have, segment.full, segment.source, segment.packet
    one, flow = tables.sides[side], tables.flows[own_flow(tables, side)]
    if one.has_base == 0:
        set_base(one, segment.seq)
    flow.payload += have
    wanted = flow.next
    offset = wanted + distance(segment.seq, one.base + wanted)
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
    if one.ended == 1:
        flow.late += have
        return
    head = flow.head
    is_next = offset == wanted and (head < 0 or tables.nodes[head].offset >= offset + full)
    if is_next and not (segment.acked > 0 and comes_early(tables, flow, segment.acked)):
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
def note_last(tables: TransportTables, side: int, last: int) -> None:
    """Notes that a direction ends with sequence number ``last``, as a FIN or RST says."""
    one, after = tables.sides[side], tables.flows[flow_of(tables, side)].next
    fin_at = after + distance(last, one.base + after)
    if after <= fin_at <= after + WINDOW:
        one.has_fin = 1
        if fin_at > 0:
            tables.flows[own_flow(tables, side)].fin_at = fin_at


@inline
def wait_no_more(tables: TransportTables, flow: Flow) -> None:
    """Ends the wait of gaps for an acknowledgement: after an RST nobody sends anything again."""
    k = flow.head
    while k >= 0:
        node = tables.nodes[k]
        if node.ack_seen < 0:
            node.ack_seen = packets_of(tables, flow.number)
            node.ack_time = tables.segment.packet.time
        k = node.next


@step
def give_up_overdue(tables: TransportTables, flow: Flow, seen: int) -> None:
    """Makes holes of a flow's gaps that were acknowledged long enough ago, and enters what waited long for the other direction."""
    packet = tables.segment.packet
    while flow.head >= 0:
        node = tables.nodes[flow.head]
        is_soon = seen - node.ack_seen < WAIT_PACKETS
        if node.offset == flow.next and tables.flows[flow_of(tables, flow.number ^ 1)].passed == 0:
            is_soon = True  # nothing says that the bytes it waits for were lost; a fast direction has many packets in a round trip
        if node.ack_seen < 0 or (is_soon and packet.time - node.ack_time < WAIT_NS):
            return
        give_up_gap(tables, flow, packet)


@inline
def relieve(tables: TransportTables) -> None:
    """Frees memory when too much waits: the next flow in turn gives up what it holds."""
    row = tables.counts.hand
    tables.counts.hand = row + 1 if row + 1 < tables.counts.flows else 2
    flow = tables.flows[row]
    drop_stray(tables, flow)
    while flow.head >= 0:
        give_up_gap(tables, flow, tables.segment.packet)


@kernel("int64(int64, int64[:,::1], octets, PacketTables)")
def order_segments(start: int, tcp: Ints, server_ports: Octets, tables: PacketTables) -> int:
    """Handles packets from row ``start`` of ``tcp`` on. Returns the row of the first one not handled, for want of room in a table, or their
    count.

    The work for a packet is constant, unless it falls between waiting segments (at most MAX_WAITING / NODE_COST steps).
    """
    segment, packet = tables.segment, tables.segment.packet
    for i in range(start, len(tcp)):
        c = tables.address_pairs[tables.pairs[i]].latest - 1
        if lacks_room(tables, c):
            return i
        flags, seq, ack = tcp[i, FLAGS], tcp[i, SEQ], tcp[i, ACKED]
        have, full, end = tcp[i, CAPTURED], tcp[i, WIRE], tables.ends[i]
        packet.number = tables.packets[tables.index[i]]
        packet.frame = tables.frames[tables.index[i]]
        packet.time = tables.times[tables.index[i]]
        segment.seq = seq
        segment.have = have
        segment.full = full
        segment.source = tcp[i, PAYLOAD]
        segment.acked = 0

        if flags >= UNREACHED:
            note_unreached(tables, c, end, flags // UNREACHED)
            continue

        # whose packet it is
        has_strays = False
        if c >= 0:
            if tables.connections[c].flows < 0:
                own_flow(tables, 2 * c)
            s = 2 * c + (0 if end == tables.connections[c].client_end else 1)
            if flags & SYN:
                is_over = tables.connections[c].closed_how != OPEN and tables.sides[s].has_base == 0 and tables.sides[s ^ 1].has_base == 0
                if is_over or begins_anew(tables, s, flags, seq, ack):
                    replace(tables, c, packet)
                    c = -1
            elif tables.sides[s].has_base == 1 and is_far_off(tables, s, seq):
                # another connection, or a packet that is simply wrong: two that agree decide
                flow = tables.flows[flow_of(tables, s)]
                if flow.stray < 0 or have == 0 or abs(distance(seq, tables.nodes[flow.stray].offset)) >= STRAY_REACH:
                    tables.sides[s].packets += 1
                    if have > 0:
                        keep_stray(tables, tables.flows[own_flow(tables, s)], segment)
                    continue
                has_strays = True
                c = open_at_strays(tables, flow, ack)
        if c < 0:
            client_end = client_end_of(end, flags, tcp[i, PORTS], tcp[i, PORTS + 1], server_ports)
            c = open_connection(tables, tables.pairs[i], client_end, packet)
        connection = tables.connections[c]
        s = 2 * c + (0 if end == connection.client_end else 1)
        one, other = tables.sides[s], tables.sides[s ^ 1]
        connection.last_time = packet.time
        one.packets += 1
        if connection.unreached != 0 and (connection.unreached > 0) == (s & 1 == 1):
            connection.unreached = 0
        if tables.flows[flow_of(tables, 2 * c)].head >= 0:
            # the client's bytes that waited for bytes of the packet before; of what one packet brings, the client's bytes count first
            drain(tables, tables.flows[flow_of(tables, 2 * c)])

        # what it says of both directions
        if flags & SYN:
            seq = (seq + 1) & MASK
            segment.seq = seq
            start_sides(one, other, flags, seq, ack)
        elif one.has_base == 0 and flags & ACK and other.started == 1 and not 0 <= distance(ack, other.base) <= WINDOW:
            if have > 0:  # left over from the connection before this one
                flow = tables.flows[own_flow(tables, s)]
                flow.payload += have
                flow.late += have
            continue
        if flags & (FIN | RST):
            note_end(tables, s, flags, ack)
        if flags & ACK and other.has_base == 0 and one.started == 1 and distance(seq, one.base) == 0:
            # before its first byte, a client has had nothing but the answer to its SYN, which was not captured
            set_base(other, ack)
            other.started = 1
        if flags & ACK and other.has_base == 1:
            flow = tables.flows[flow_of(tables, s ^ 1)]
            acked = flow.next + distance(ack, other.base + flow.next)
            if other.has_fin == 1 and acked == flow.fin_at + 1:
                acked = flow.fin_at
            if flow.acked_to < acked <= flow.next + WINDOW:
                acknowledge(tables, tables.flows[own_flow(tables, s ^ 1)], acked)
            if flow.next < acked <= flow.next + WINDOW:
                segment.acked = acked
        flow = tables.flows[flow_of(tables, s)]
        if connection.flows > 0 and one.has_base == 1 and distance(seq, one.base + flow.next) > one.has_fin:
            flow.passed = max(flow.passed, GIVEN_UP if flags & (FIN | RST) else SENT)

        if connection.flows > 0 and flags & (SYN | RST) == 0:
            flow = tables.flows[flow_of(tables, s)]
            if tcp[i, TAKES] == 0 or flow.shut_since != 0:
                note_window(flow, tcp[i, TAKES], packet)

        # the bytes it brings
        if has_strays:
            for x in range(2 * c, 2 * c + 2):
                if tables.flows[flow_of(tables, x)].stray >= 0:
                    take_stray(tables, x)
        if flags & RST and have > 0:  # text that says why: no bytes of the stream
            flow = tables.flows[own_flow(tables, s)]
            flow.payload += have
            flow.late += have
        elif full > 0:
            take_bytes(tables, s, segment)
        if tables.flows[flow_of(tables, s)].stray >= 0:
            drop_stray(tables, tables.flows[flow_of(tables, s)])

        # what ends by it
        if flags & (FIN | RST) and one.has_base == 1 and one.has_fin == 0:
            note_last(tables, s, seq + (0 if flags & RST else full))
        if tables.flows[flow_of(tables, 2 * c + 1)].head >= 0:
            drain(tables, tables.flows[flow_of(tables, 2 * c + 1)])
        for x in range(2 * c, 2 * c + 2):
            one, flow = tables.sides[x], tables.flows[flow_of(tables, x)]
            if flags & RST:
                wait_no_more(tables, flow)
            if flow.head >= 0:
                give_up_overdue(tables, flow, packets_of(tables, x))
            if one.ended == 0 and one.has_fin == 1 and flow.fin_at <= flow.next:
                end_side(tables, x, packet, packet.frame)
        while tables.counts.waiting > MAX_TOTAL_WAITING:
            relieve(tables)
    return len(tcp)
