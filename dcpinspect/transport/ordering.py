"""Puts segments in order: the sequential part of reassembly, on integers only.

One kernel looks at every packet in capture order. It decides which bytes of the packet are new,
which wait and which will never come, and writes *entries*: "these bytes are next in that
direction". No payload is touched. A *side* is one direction of one connection, numbered 2 *
connection + direction. Its *flow* is what it carries; the flow is made with the first byte.

Two clocks, or two queues, may have recorded the two directions; then a question stands behind its
answer in the capture. TCP tells the real order, since the answer acknowledges the question. So
bytes wait for the bytes of the other direction that they acknowledge, as they wait for a gap.

The entries do not depend on the batches, because each packet is handled completely before the next,
and times are those of packets.
"""

from __future__ import annotations

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.kernel import inlined, kernel, kernel_function
from dcpinspect.transport.chunk import Packet
from dcpinspect.transport.flow_records import (
    BY_FIN,
    BY_RST,
    FILE_BIT,
    FRAME_BITS,
    GIVEN_UP,
    HOLE,
    LONGEST_SHUTS,
    OPEN,
    RECENT_HOLES,
    RECENT_LATES,
    SENT,
    SHUT_NS,
    Flow,
    Segment,
    Side,
    TransportTables,
)
from dcpinspect.transport.flows import (
    comes_early,
    drain,
    drop_offer,
    drop_stray,
    end_side,
    enter_hole,
    flow_of,
    flow_to_write,
    give_up_hole,
    late_bytes,
    next_of,
)
from dcpinspect.transport.headers import (
    ACK,
    ACKED,
    CAPTURED,
    EXTRA,
    EXTRA_WIRE,
    FIN,
    FLAGS,
    NETWORK,
    PAYLOAD,
    PORTS,
    RST,
    SEQ,
    SYN,
    TAKES,
    UNREACHED,
    WIRE,
)
from dcpinspect.transport.next_bytes import enter
from dcpinspect.transport.packet_owners import (
    AFTER_CLOSE,
    MASK,
    NOBODY,
    WINDOW,
    agrees,
    begins_anew,
    client_end_of,
    connection_in,
    distance,
    is_established,
    is_far_off,
    is_of_former,
    keep_stray,
    last_waiting,
    latest_in,
    leave,
    note_close,
    note_route,
    open_at_strays,
    open_connection,
    set_base,
)
from dcpinspect.transport.waiting import (
    NODE_COST,
    WAIT_NS,
    acknowledge,
    free_node,
    insert,
    is_sent_again,
    make_way,
    new_node,
    packets_of,
    shut_row,
    wait_again,
    wait_no_more,
)

WAIT_PACKETS = 64
"""Number of further packets of the connection that a gap waits for, once the other side has
acknowledged past it.
"""
MAX_WAITING = 4 << 20
"""Greatest number of waiting bytes of a flow; with more, its first gap becomes a hole."""
MAX_TOTAL_WAITING = 256 << 20


class PacketTables(TransportTables):
    """The tables, with the columns of a batch: a table of its packets would be a copy."""

    index: IntArray
    """Number in the batch of each packet that counts."""
    pairs: IntArray
    """Number of the address pair of each packet."""
    ends: IntArray
    """The end of the address pair that sent each packet."""
    copies: IntArray
    """How long what each packet lacks waits for a copy that has it."""
    times: IntArray
    """Capture time of each packet in the batch."""
    packets: IntArray
    """Number of each packet over the whole reading."""
    frames: IntArray
    """Frame of each packet."""
    files: IntArray
    """File of each packet."""


@inlined
def lacks_room(tables: TransportTables, c: int, replaced: int) -> bool:
    """Returns whether a packet of connection ``c``, -1 for a new one, might fill a table, also if
    it ends connection ``replaced``.
    """
    rows_needed, counts = 64, tables.counts
    if c >= 0:
        rows_needed += 4 * (
            tables.flows[flow_of(tables, 2 * c)].nodes
            + tables.flows[flow_of(tables, 2 * c + 1)].nodes
        )
    if replaced >= 0 and replaced != c:
        rows_needed += 4 * (
            tables.flows[flow_of(tables, 2 * replaced)].nodes
            + tables.flows[flow_of(tables, 2 * replaced + 1)].nodes
        )
    if counts.waiting > MAX_TOTAL_WAITING - (1 << 20):
        rows_needed += 4 * counts.live
    return bool(
        len(tables.entries) - counts.entries < rows_needed
        or len(tables.fresh) - counts.fresh < rows_needed
        or len(tables.nodes) - counts.live < rows_needed
        or len(tables.recent) // RECENT_HOLES - counts.recent < rows_needed
        or len(tables.lates) // RECENT_LATES - counts.lates < 4
        or len(tables.shuts) // LONGEST_SHUTS - counts.shuts < 4
        or len(tables.connections) - counts.connections < 2
        or len(tables.flows) - counts.flows < 8
        or len(tables.routes) - counts.routes < 4
    )


@inlined
def take_stray(tables: TransportTables, side: int) -> None:
    """Takes the packet of a direction that waited for another one to agree with it: what it says,
    and its bytes as the first ones.
    """
    flow = tables.flows[flow_of(tables, side)]
    node, k = tables.nodes[flow.stray], flow.stray
    if node.flags & SYN:
        start_sides(tables.sides[side], tables.sides[side ^ 1], node.flags, node.offset, node.needs)
    flow.stray = -1
    take_kept(tables, side, k)


@inlined
def take_kept(tables: TransportTables, side: int, k: int) -> None:
    """Takes the bytes of a node that was kept apart from those that wait."""
    segment, node = tables.stray, tables.nodes[k]
    segment.seq = node.offset
    segment.captured = node.length
    segment.on_wire = node.wire
    segment.source = node.source
    segment.place = node.place
    segment.packet = node.packet
    tables.counts.waiting -= node.length + NODE_COST
    free_node(tables, k)
    if segment.on_wire > 0:
        take_bytes(tables, side, segment)


@kernel_function
def take_trailing_bytes(tables: TransportTables, side: int, number: int, is_own: bool) -> None:
    """Takes the bytes behind an IP packet of a direction if they end where ``number`` is, the one
    that its sender or receiver is at.

    So frames are read that are longer than their IP length tells: the network card cuts them into
    segments later. What else stands there, such as a trailer, is of no stream: then the next
    segment begins before it.
    """
    flow = tables.flows[flow_of(tables, side)]
    node, k = tables.nodes[flow.trailing_bytes], flow.trailing_bytes
    if distance(number, node.offset + node.wire) == 0:
        flow.trailing_bytes = -1
        take_kept(tables, side, k)
    elif is_own and 0 <= distance(number, node.offset) < node.wire:
        flow.unproven -= node.wire
        drop_offer(tables, flow)


@kernel_function
def keep_offer(tables: TransportTables, side: int) -> None:
    """Keeps the bytes behind the current packet, whose IP header does not tell of them."""
    flow, segment = tables.flows[flow_to_write(tables, side)], tables.segment
    start, k = (segment.seq + segment.on_wire) & MASK, flow.trailing_bytes
    if distance(start + segment.extra_on_wire, tables.sides[side].base + flow.next) <= 0:
        return
    if k >= 0 and tables.nodes[k].offset == start:  # the packet is a copy, which may be cut
        if tables.nodes[k].length >= segment.extra:
            return
        flow.unproven -= tables.nodes[k].wire
    drop_offer(tables, flow)
    k = new_node(
        tables,
        start,
        segment.extra,
        segment.source + segment.captured,
        segment.packet,
    )
    tables.nodes[k].wire = segment.extra_on_wire
    flow.trailing_bytes = k
    tables.counts.waiting += segment.extra + NODE_COST


@kernel_function
def start_sides(sender: Side, receiver: Side, flags: int, seq: int, ack: int) -> None:
    """Sets the first byte of a SYN's side, ``seq``, and that of the other side if the SYN that this
    one answers was not captured.

    After bytes of the connection it is too late: they were taken for the middle of a connection,
    and may have been given out.
    """
    if sender.has_base == 0:
        set_base(sender, seq)
        sender.started = 1 if receiver.has_base == 0 or receiver.started == 1 else 0
    if flags & ACK and receiver.has_base == 0:
        set_base(receiver, ack)
        receiver.started = sender.started


@kernel_function
def says_new(tables: TransportTables, side: int) -> bool:
    """Returns whether the current packet of a direction says what nothing before it said, or that
    its sender is still there.

    A copy of an earlier packet, of a recording with another clock, does neither.
    """
    segment, sender, receiver = tables.segment, tables.sides[side], tables.sides[side ^ 1]
    is_reset = segment.flags & RST != 0 and tables.connections[side >> 1].closed_how != BY_RST
    if is_reset or sender.has_base * receiver.has_base == 0:
        return True
    flow, other_flow = tables.flows[flow_of(tables, side)], tables.flows[flow_of(tables, side ^ 1)]
    known_end = max(last_waiting(tables, flow), flow.acked_to)
    ahead = flow.next + distance(segment.seq, sender.base + flow.next) - known_end
    acked = other_flow.next + distance(segment.ack, receiver.base + other_flow.next)
    acks_more = acked > other_flow.acked_to + receiver.has_fin and segment.flags & ACK > 0
    is_probe = ahead == -1 and segment.on_wire < 2 and acked >= other_flow.acked_to
    return bool(
        ahead + segment.on_wire > sender.has_fin
        or segment.flags & FIN > sender.has_fin
        or acks_more
        or is_probe
        or segment.receive_window == 0
    )


@kernel_function
def goes_on(tables: TransportTables, side: int, size: int, acks_more: bool) -> bool:
    """Returns whether the side that seemed to have ended its connection, by an RST or by a FIN that
    was not captured, did not do so.

    It sends bytes behind that, the last of ``size``. Or it acknowledges more than before, or says
    something new later: after an RST nobody does. Or it ends with a FIN, which ``size`` counts,
    before the number of the RST.
    """
    direction = tables.sides[side]
    connection = tables.connections[side >> 1]
    flow = tables.flows[flow_of(tables, side)]
    is_later = tables.segment.packet.time - connection.closed.time > WAIT_NS
    if connection.closed_how == BY_RST and (acks_more or (is_later and says_new(tables, side))):
        return True
    end = flow.next + distance(tables.segment.seq + size, direction.base + flow.next)
    if size > tables.segment.on_wire and end < flow.fin_at:
        return True
    return bool(
        size > 0
        and (
            direction.has_base == 0
            or end > max(last_waiting(tables, flow), flow.acked_to, flow.fin_at)
        )
    )


@kernel_function
def reopen(tables: TransportTables, side: int) -> None:
    """Takes back that a side ended its connection. If the other has ended, it was the first."""
    connection = tables.connections[side >> 1]
    if connection.closed_how == BY_FIN:  # it was a byte
        flow = tables.flows[flow_to_write(tables, side)]
        acknowledge(tables, flow, max(last_waiting(tables, flow), flow.acked_to) + 1)
    connection.closed_how = OPEN
    if tables.sides[side ^ 1].has_fin:
        note_close(connection, BY_FIN, 1 - (side & 1), tables.segment.packet)
    for x in range(side & -2, (side & -2) + 2):
        if connection.flows > 0 and tables.sides[x].has_fin == 0:
            tables.flows[connection.flows + (x & 1)].fin_at = 0
            wait_again(tables, tables.flows[connection.flows + (x & 1)])


@kernel_function
def note_unreached(tables: TransportTables, c: int, end: int, error_code: int) -> None:
    """Notes that a packet of connection ``c``, which ``end`` of its address pair sent, did not
    arrive; ``c`` may be -1.
    """
    if c >= 0:
        connection = tables.connections[c]
        connection.unreached = error_code if end == connection.client_end else -error_code


@kernel_function
def note_window(tables: TransportTables, flow: Flow, window: int, packet: Packet) -> None:
    """Notes the receive window that the sender of a flow announces; it is 0 or it was 0."""
    if window == 0:
        if flow.shut_since == 0:
            flow.shut_since = packet.time
            flow.shut_place = packet.frame | packet.file << FILE_BIT
        return
    shut_ns = packet.time - flow.shut_since
    if shut_ns >= SHUT_NS:
        spell = tables.shuts[shut_row(tables, flow)]
        if shut_ns > spell.until - spell.since:
            spell.since = flow.shut_since
            spell.place = flow.shut_place
            spell.until = packet.time
        flow.shuts += 1
    flow.shut_since = 0


@inlined
def take_bytes(tables: TransportTables, side: int, segment: Segment) -> None:
    """Enters the bytes of a segment where they are next, else keeps them waiting."""
    have, full, source, packet = segment.captured, segment.on_wire, segment.source, segment.packet
    direction, flow = tables.sides[side], tables.flows[flow_to_write(tables, side)]
    if direction.has_base == 0:
        set_base(direction, segment.seq)
    flow.payload += have
    flow.copies_ns = max(flow.copies_ns, segment.copy_ns)
    next_offset = flow.next
    offset = next_offset + distance(segment.seq, direction.base + next_offset)
    if offset < next_offset:  # a retransmission, at least in part
        old_bytes = min(full, next_offset - offset)
        old_have = min(have, old_bytes)
        late = late_bytes(tables, flow, offset, offset + old_have)
        flow.late += late
        if 0 < late < old_have and have == full and flow.cut_off > 0:
            flow.copies_ns = WAIT_NS  # the first copy of its packet was cut
        in_holes = late if direction.started else late - max(0, min(0, offset + old_have) - offset)
        flow.filled = min(flow.filled + in_holes, flow.missing)
        flow.duplicate += old_have - late
        # an end that takes nothing answers each copy; where nothing of it was captured, nobody knows
        other_flow = tables.flows[flow_of(tables, side ^ 1)]
        if (
            offset <= flow.acked_to < offset + old_bytes
            and other_flow.shut_since == 0
            and tables.sides[side ^ 1].packets > 0
        ):
            if flow.resent_since == 0:
                flow.resent_since = packet.time
            flow.resent_ms = min((packet.time - flow.resent_since) // 1_000_000, (1 << 31) - 1)
            if is_sent_again(flow, packet.time):  # its sender is still there
                tables.connections[side >> 1].last_time = packet.time
        offset += old_bytes
        full -= old_bytes
        have -= old_have
        source += old_have
        if full == 0:
            return
    if direction.ended == 1:
        flow.late += have
        return
    head = flow.head
    is_next = offset == next_offset and (head < 0 or tables.nodes[head].offset >= offset + full)
    if is_next and not (segment.acked > 0 and comes_early(tables, flow, segment.acked)):
        if have > 0:
            n = enter(tables, flow, have, source, packet)
            tables.entries[n].place = segment.place
            flow.next = offset + have
            flow.unique += have
        if full > have and flow.copies_ns > 0:
            insert(tables, flow, offset + have, full - have, HOLE, packet)
        elif full > have:
            flow.cut_off += full - have
            enter_hole(tables, flow, full - have, packet)
    else:
        if have > 0 and flow.copies_ns > 0:
            make_way(tables, flow, offset, offset + have)
        if have > 0:
            used = insert(tables, flow, offset, have, source, packet)
            flow.unique += used
            flow.duplicate += have - used
        if full > have:
            insert(tables, flow, offset + have, full - have, HOLE, packet)
    if head >= 0 or flow.head >= 0:
        drain(tables, flow)
        while flow.waiting > MAX_WAITING:
            give_up_hole(tables, flow, packet)


@kernel_function
def note_last(tables: TransportTables, side: int, last: int, is_fin: int) -> None:
    """Notes that a direction ends with sequence number ``last``, as a FIN or RST says, or goes on
    from there, as a packet without bytes says. What is no FIN holds until its side goes on.
    """
    direction, after = tables.sides[side], tables.flows[flow_of(tables, side)].next
    fin_at = after + distance(last, direction.base + after)
    if after <= fin_at <= after + WINDOW:
        direction.has_fin = is_fin
        if fin_at > (0 if is_fin else after):
            tables.flows[flow_to_write(tables, side)].fin_at = fin_at
        elif tables.flows[flow_of(tables, side)].fin_at > after:
            tables.flows[flow_to_write(tables, side)].fin_at = 0
        connection, flow = tables.connections[side >> 1], tables.flows[flow_of(tables, side)]
        # the other side had this FIN, though its own was captured before, by another clock
        if is_fin and connection.closed_how == BY_FIN and flow.acked_at_end == fin_at + 1:
            connection.closed_by = side & 1


@inlined
def give_up_overdue(tables: TransportTables, flow: Flow, seen: int) -> None:
    """Makes holes of a flow's gaps that were acknowledged long enough ago, and enters what waited
    long for the other direction.
    """
    packet = tables.segment.packet
    while flow.head >= 0:
        node = tables.nodes[flow.head]
        waited_ns = packet.time - node.ack_time
        is_soon = seen - node.ack_seen < WAIT_PACKETS or waited_ns < flow.copies_ns
        if node.offset == flow.next and tables.flows[flow_of(tables, flow.number ^ 1)].passed == 0:
            # nothing says that the bytes it waits for were lost; a fast direction has many packets
            # in a round trip
            is_soon = True
        if node.ack_seen < 0 or (is_soon and waited_ns < WAIT_NS):
            return
        give_up_hole(tables, flow, packet)


@kernel_function
def relieve(tables: TransportTables) -> None:
    """Frees memory when too much waits: the next flow in turn gives up what it holds."""
    row = tables.counts.next_to_relieve
    tables.counts.next_to_relieve = row + 1 if row + 1 < tables.counts.flows else 2
    flow = tables.flows[row]
    drop_stray(tables, flow)
    drop_offer(tables, flow)
    while flow.head >= 0:
        give_up_hole(tables, flow, tables.segment.packet)


@inlined
def read_packet(tables: PacketTables, tcp: IntArray, i: int) -> None:
    """Makes the packet in row ``i`` the current one."""
    segment, packet = tables.segment, tables.segment.packet
    packet.number = tables.packets[tables.index[i]]
    packet.frame = tables.frames[tables.index[i]]
    packet.file = tables.files[tables.index[i]]
    packet.time = tables.times[tables.index[i]]
    segment.flags = tcp[i, FLAGS]
    segment.seq = (tcp[i, SEQ] + 1) & MASK if segment.flags & SYN else tcp[i, SEQ]
    segment.ack = tcp[i, ACKED]
    segment.captured = tcp[i, CAPTURED]
    segment.on_wire = tcp[i, WIRE]
    segment.source = tcp[i, PAYLOAD]
    segment.receive_window = tcp[i, TAKES]
    segment.extra = tcp[i, EXTRA]
    segment.extra_on_wire = tcp[i, EXTRA_WIRE]
    segment.acked = 0
    segment.network = tcp[i, NETWORK]
    segment.copy_ns = tables.copies[i]


@kernel_function
def has_routes(tables: TransportTables, pair: int) -> bool:
    """Returns whether packets of an address pair were in several networks, with the current one."""
    address_pair = tables.address_pairs[pair]
    return bool(
        address_pair.routes > 0
        or (address_pair.latest > 0 and address_pair.network != tables.segment.network)
    )


@inlined
def side_of(tables: TransportTables, c: int, end: int) -> int:
    """Returns the direction of connection ``c`` in which an end of its address pair sends."""
    return int(2 * c + (0 if end == tables.connections[c].client_end else 1))


@inlined
def connection_of_packet(tables: TransportTables, side: int) -> int:
    """Returns the connection of the current packet, which is of direction ``side`` by its
    addresses: that one, or another one that waiting packets have begun; -1 if it begins one; NOBODY
    if it waits, or is wrong.
    """
    segment, c = tables.segment, side >> 1
    is_off = begins_anew(tables, side) if segment.flags & SYN else is_far_off(tables, side)
    has_strays = (
        tables.flows[flow_of(tables, side)].stray >= 0
        or tables.flows[flow_of(tables, side ^ 1)].stray >= 0
    )
    if has_strays and agrees(tables, side, is_off):
        return open_with_strays(tables, side)
    if not is_off:
        return c
    # what answers a SYN with the number that the connection is at would not differ
    is_alike = distance(segment.seq, tables.sides[side].base) == next_of(tables, side) == 0
    if segment.flags & SYN and (is_alike or not is_established(tables, c)):
        return -1
    tables.sides[side].packets += 1
    if segment.flags & SYN or (segment.captured > 0 and not segment.flags & RST):
        keep_stray(tables, side)
    return NOBODY


@inlined
def open_with_strays(tables: TransportTables, side: int) -> int:
    """Opens the connection that the current packet and those that wait agree on, takes these, and
    returns its number.
    """
    c = open_at_strays(tables, side)
    for x in range(2 * c, 2 * c + 2):
        if tables.flows[flow_of(tables, x)].stray >= 0:
            take_stray(tables, x)
    return c


@inlined
def count_packet(tables: TransportTables, side: int) -> None:
    """Counts the current packet for its direction, whose end is heard again."""
    connection = tables.connections[side >> 1]
    if says_new(tables, side):
        connection.last_time = tables.segment.packet.time
        if connection.closed_how == OPEN:
            connection.closed.place = tables.segment.packet.file << FRAME_BITS
    tables.sides[side].packets += 1
    if connection.unreached != 0 and (connection.unreached > 0) == (side & 1 == 1):
        connection.unreached = 0


@inlined
def look_at_offers(tables: TransportTables, side: int) -> None:
    """Compares the current packet's numbers with bytes behind earlier IP packets, both ways."""
    segment = tables.segment
    if segment.flags & SYN == 0 and tables.flows[flow_of(tables, side)].trailing_bytes >= 0:
        take_trailing_bytes(tables, side, segment.seq, True)
    if segment.flags & ACK and tables.flows[flow_of(tables, side ^ 1)].trailing_bytes >= 0:
        take_trailing_bytes(tables, side ^ 1, segment.ack, False)


@kernel_function
def is_refused_syn(tables: TransportTables, side: int) -> bool:
    """Returns whether the current packet of a direction is the SYN that an RST before it refused.

    Two clocks or queues recorded the two directions. All that is known then is what the RST says.
    """
    sender, flow = tables.sides[side], tables.flows[flow_of(tables, side)]
    is_refused = sender.has_base == 1 and tables.sides[side ^ 1].has_base == 0
    return bool(
        is_refused
        and distance(tables.segment.seq, sender.base) == 0
        and last_waiting(tables, flow) == 0
    )


@inlined
def learn_starts(tables: TransportTables, side: int) -> None:
    """Sets where the two directions begin, as far as the current packet shows it."""
    segment, sender, receiver = tables.segment, tables.sides[side], tables.sides[side ^ 1]
    flags, seq, ack = segment.flags, segment.seq, segment.ack
    if flags & SYN:
        if is_refused_syn(tables, side):
            sender.started = 1
        start_sides(sender, receiver, flags, seq, ack)
    if (
        flags & ACK
        and receiver.has_base == 0
        and sender.started == 1
        and -1 <= distance(seq, sender.base) <= 0
    ):
        # before its first byte, or a keepalive in place of it, a client has had nothing but the
        # answer to its SYN, which was not captured
        set_base(receiver, ack)
        receiver.started = 1
    if flags & RST and flags & ACK and sender.has_base == 0:
        if receiver.has_base == 0 and seq == 0:
            # it refuses a SYN, which was recorded later or not at all
            set_base(receiver, ack)
        elif receiver.started == 1 and distance(ack, receiver.base) > 0:
            # whoever refuses a SYN acknowledges no byte: the rest of the connection was not
            # captured
            set_base(sender, seq)


@inlined
def acked_offset(receiver: Side, flow: Flow, ack: int) -> int:
    """Returns the offset in a flow up to which a number acknowledges it. A FIN that was captured is
    no byte of it.
    """
    acked = flow.next + distance(ack, receiver.base + flow.next)
    return int(flow.fin_at if receiver.has_fin == 1 and acked == flow.fin_at + 1 else acked)


@inlined
def take_ack(tables: TransportTables, side: int) -> bool:
    """Notes what the current packet of a direction acknowledges of the other one; returns whether
    that is more than before.
    """
    segment, sender, receiver = tables.segment, tables.sides[side], tables.sides[side ^ 1]
    connection, flow = tables.connections[side >> 1], tables.flows[flow_of(tables, side ^ 1)]
    if segment.flags & ACK == 0 or receiver.has_base == 0:
        return False
    acked = acked_offset(receiver, flow, segment.ack)
    waiting_end = last_waiting(tables, flow)
    known_end = max(waiting_end, flow.acked_to)
    is_by_fin = connection.closed_how == BY_FIN
    # a FIN, which was not captured, or not yet
    has_fin = receiver.has_fin == 0 and acked == known_end + 1
    goes_on = (
        acked > known_end + 1
        and receiver.has_fin == 0
        and is_by_fin
        and connection.closed_by == 1 - (side & 1)
    )
    most = flow.next + WINDOW
    if segment.flags & RST:
        # one that stands right behind what its sender said is the sender's own, and so is what it
        # acknowledges; another one may be forged, and a number that was made up is seldom near
        own_end = last_waiting(tables, tables.flows[flow_of(tables, side)])
        if sender.has_base == 0 or distance(segment.seq, sender.base + own_end) != 0:
            most = known_end + AFTER_CLOSE
    if flow.next < acked <= flow.next + WINDOW:
        segment.acked = acked
    if segment.flags & FIN > sender.has_fin and acked > waiting_end:
        tables.flows[flow_to_write(tables, side ^ 1)].acked_at_end = acked
    if has_fin:
        if flow.acked_at_end > 0 and not segment.flags & FIN:
            flow.acked_at_end = 0  # this FIN came after what was acknowledged by then
        acked = known_end
        own_end = sender.base + last_waiting(tables, tables.flows[flow_of(tables, side)])
        if sender.has_base == 1 and distance(segment.seq, own_end) > sender.has_fin:
            # its own FIN may be missing as well, and nobody knows whose came first
            note_close(connection, BY_FIN, -1, segment.packet)
        elif is_by_fin and connection.closed_by < 0:  # its own FIN came before
            connection.closed_by = side & 1
        elif not segment.flags & RST:
            note_close(connection, BY_FIN, 1 - (side & 1), segment.packet)
    elif goes_on:
        reopen(tables, side ^ 1)  # which acknowledges what is known
    if not flow.acked_to < acked <= most:
        return False
    acknowledge(tables, tables.flows[flow_to_write(tables, side ^ 1)], acked)
    return True


@inlined
def note_end(tables: TransportTables, side: int, acks_more: bool) -> None:
    """Notes that the current packet shows its connection to be over, or that its side goes on
    behind what seemed to be the end.
    """
    segment, connection, sender = tables.segment, tables.connections[side >> 1], tables.sides[side]
    flags = segment.flags
    is_in_doubt = (
        connection.closed_how != OPEN and connection.closed_by == side & 1 and sender.has_fin == 0
    )
    if is_in_doubt and not flags & RST:
        size = segment.on_wire + (1 if flags & FIN and connection.closed_how == BY_RST else 0)
        if goes_on(tables, side, size, acks_more):
            reopen(tables, side)
    if flags & (FIN | RST):
        # where the other direction was not captured, its FIN may be in what was acknowledged by now
        is_known = flags & RST or tables.sides[side ^ 1].packets > 0
        note_close(
            connection,
            BY_RST if flags & RST else BY_FIN,
            side & 1 if is_known else -1,
            segment.packet,
        )


@inlined
def note_progress(tables: TransportTables, side: int) -> None:
    """Notes that a packet was sent behind the next byte wanted, and its sender's window."""
    segment, sender = tables.segment, tables.sides[side]
    # whoever acknowledges had an answer to its SYN, though the capture lacks it
    is_answered = (
        segment.flags & (SYN | RST | ACK) == ACK
        and sender.started == 1
        and tables.sides[side ^ 1].has_base == 0
    )
    if tables.connections[side >> 1].flows <= 0 and not is_answered:
        return
    flow = tables.flows[flow_to_write(tables, side)]
    if sender.has_base == 1 and distance(segment.seq, sender.base + flow.next) > sender.has_fin:
        is_last = segment.flags & FIN and flow.copies_ns == 0
        flow.passed = max(flow.passed, GIVEN_UP if is_last else SENT)
    if segment.flags & (SYN | RST) == 0 and (segment.receive_window == 0 or flow.shut_since != 0):
        note_window(tables, flow, segment.receive_window, segment.packet)


@inlined
def take_payload(tables: TransportTables, side: int) -> None:
    """Takes the current packet's bytes. What waited there was wrong: the connection goes on."""
    segment = tables.segment
    if segment.flags & RST and segment.captured > 0:  # text that says why: no bytes of the stream
        flow = tables.flows[flow_to_write(tables, side)]
        flow.payload += segment.captured
        flow.late += segment.captured
    elif segment.on_wire > 0:
        take_bytes(tables, side, segment)
    stray = tables.flows[flow_of(tables, side)].stray
    is_past = stray >= 0 and tables.nodes[stray].network == segment.network
    # what resets may be a SYN's sender, which has no connection
    if is_past and not segment.flags & RST:
        drop_stray(tables, tables.flows[flow_of(tables, side)])


@inlined
def end_sides(tables: TransportTables, c: int) -> None:
    """Gives up gaps acknowledged long ago, or before an RST, and ends complete directions."""
    segment = tables.segment
    for x in range(2 * c, 2 * c + 2):
        direction, flow = tables.sides[x], tables.flows[flow_of(tables, x)]
        if segment.flags & RST:
            wait_no_more(tables, flow)
        if flow.head >= 0:
            give_up_overdue(tables, flow, packets_of(tables, x))
        if direction.ended == 0 and direction.has_fin == 1 and flow.fin_at <= flow.next:
            end_side(tables, x, segment.packet, segment.packet.frame)


@inlined
def take_packet(tables: TransportTables, side: int) -> None:
    """Handles the current packet, which is of a direction: what it says of both directions, the
    bytes it brings, and what ends by it.

    What is acknowledged comes before the rest: the first acknowledgement may open the flows that
    the receive window is noted of, and an end is judged by it. The bytes of the client that waited
    for those of the packet before come first; the server's wait for those of this one.
    """
    segment, client = tables.segment, side & -2
    if tables.flows[flow_of(tables, client)].head >= 0:
        drain(tables, tables.flows[flow_of(tables, client)])
    look_at_offers(tables, side)
    learn_starts(tables, side)
    note_end(tables, side, take_ack(tables, side))
    note_progress(tables, side)
    take_payload(tables, side)
    sender = tables.sides[side]
    if (
        segment.extra_on_wire > 0
        and segment.flags & (SYN | RST) == 0
        and sender.has_base + segment.on_wire > 0
    ):
        keep_offer(tables, side)
    is_empty = segment.on_wire + (segment.flags & SYN) == 0
    if (is_empty or segment.flags & (FIN | RST)) and sender.has_base == 1 and sender.has_fin == 0:
        is_fin = segment.flags & (FIN | RST) == FIN
        note_last(
            tables,
            side,
            segment.seq + (segment.on_wire if is_fin else 0),
            1 if is_fin else 0,
        )
    if tables.flows[flow_of(tables, client + 1)].head >= 0:
        drain(tables, tables.flows[flow_of(tables, client + 1)])
    end_sides(tables, side >> 1)
    while tables.counts.waiting > MAX_TOTAL_WAITING:
        relieve(tables)


@inlined
def count_late_packet(tables: TransportTables, side: int) -> None:
    """Counts the current packet, which is of a direction that was closed before: its bytes have no
    place any more. The next one may stand behind them.
    """
    segment, direction = tables.segment, tables.sides[side]
    direction.packets += 1
    if segment.on_wire > 0:
        take_bytes(tables, side, segment)
        flow = tables.flows[flow_of(tables, side)]
        end = flow.next + distance(segment.seq + segment.on_wire, direction.base + flow.next)
        flow.fin_at = max(flow.fin_at, end)


@kernel("int64(int64, int64[:,::1], octets, PacketTables)")
def order_segments(start: int, tcp: IntArray, server_ports: ByteArray, tables: PacketTables) -> int:
    """Handles packets from row ``start`` of ``tcp`` on. Returns the row of the first one not
    handled, for want of room in a table, or their count.

    The work for a packet is constant, unless it falls between waiting segments (at most MAX_WAITING
    / NODE_COST steps).
    """
    for i in range(start, len(tcp)):
        pair, end, segment = tables.pairs[i], tables.ends[i], tables.segment
        read_packet(tables, tcp, i)
        c = before = tables.address_pairs[pair].latest - 1
        is_routed = has_routes(tables, pair)
        if is_routed:
            before = latest_in(tables, pair, segment.network)
            c = connection_in(tables, pair, end)
        if lacks_room(tables, c, before):
            return i
        if segment.flags >= UNREACHED:
            note_unreached(tables, c, end, segment.flags // UNREACHED)
            continue
        former = -1 if is_routed else tables.address_pairs[pair].former - 1
        if c >= 0:
            if tables.connections[c].flows < 0:
                flow_to_write(tables, 2 * c)
            if former >= 0 and tables.connections[former].flows < 0:
                flow_to_write(tables, 2 * former)
            if former >= 0 and is_of_former(tables, former, side_of(tables, c, end)):
                count_late_packet(tables, side_of(tables, former, end))
                continue
            c = connection_of_packet(tables, side_of(tables, c, end))
        if c == NOBODY:
            continue
        if c < 0:
            client_end = client_end_of(
                end, segment.flags, tcp[i, PORTS], tcp[i, PORTS + 1], server_ports
            )
            c = open_connection(tables, pair, client_end, segment.packet)
            if before >= 0:
                leave(tables, before)
        side = side_of(tables, c, end)
        count_packet(tables, side)
        if is_routed:
            note_route(tables, pair, segment.network, c)
            if before >= 0 and before != c:
                leave(tables, before)
        take_packet(tables, side)
    return len(tcp)
