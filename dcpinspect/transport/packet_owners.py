"""Whose packet it is: of the connection on its addresses, of another one that begins there, or of
nobody.

What an endpoint ignores shows nothing. It ignores a SYN in the middle of a connection, and answers
it with an acknowledgement (RFC 5961). It ignores an RST whose number it does not wait for. So a
packet that cannot belong to the connection waits as a *stray* until another one agrees with it: an
answer to the SYN, or what its sender says next. If the connection goes on instead, the stray was
simply wrong.
"""

from __future__ import annotations

from dcpinspect.arrays import ByteArray
from dcpinspect.kernels.kernel import inlined, kernel_function
from dcpinspect.transport import flow_records
from dcpinspect.transport.chunk import Packet
from dcpinspect.transport.flow_records import (
    BY_RST,
    FRAME_BITS,
    OPEN,
    REPLACED,
    Flow,
    PackedPacket,
    Side,
    TcpConnectionRow,
    TransportTables,
)
from dcpinspect.transport.flows import close_side, drop_stray, flow_of, flow_to_write, next_of
from dcpinspect.transport.headers import ACK, RST, SYN
from dcpinspect.transport.waiting import NODE_COST, WAIT_NS, new_node

reset_side = kernel_function(flow_records.Side.resetter())

MASK = 0xFFFFFFFF
COPY_NS = 1_000_000_000
"""A copy of a packet is seldom captured so long after the packet."""
SYN_GAP_NS = 40_000_000_000
"""Greatest time between two SYNs of one attempt to connect: 32 s in the usual systems, which double
it each time.
"""
WINDOW = 1 << 30
"""No TCP window is larger (scale 14): a segment that is farther off belongs to another connection.
"""
STRAY_REACH = 1 << 22
"""A second far-off packet this near after the first one shows that a new connection runs there."""
AFTER_CLOSE, AFTER_END = 1 << 20, 1 << 16
"""Greatest distance behind the known bytes of a segment of the same connection, once a FIN or RST
was seen, and once its direction had ended. The first is also the greatest distance before its first
byte then.
"""
RESET_REACH = 1 << 24
"""Greatest distance behind the known bytes of an RST: more bytes are seldom under way. Greatest
distance also of the numbers of a packet in a network in which its connection was not met before.
"""
MOST_ROUTES = 8
"""Greatest number of further networks of an address pair that are remembered."""
NOBODY = -2


@kernel_function
def distance(a: int, b: int) -> int:
    """Returns ``a - b`` for sequence numbers: between -2**31 and 2**31."""
    return ((a - b + 0x80000000) & MASK) - 0x80000000


@kernel_function
def set_base(direction: Side, seq: int) -> None:
    """Sets the sequence number of the first byte of a direction."""
    direction.base = distance(seq, 0)
    direction.has_base = 1


@kernel_function
def latest_in(tables: TransportTables, pair: int, network: int) -> int:
    """Returns the latest connection of an address pair in a network, or -1."""
    address_pair = tables.address_pairs[pair]
    if network == address_pair.network:
        return int(address_pair.latest - 1)
    r = address_pair.routes
    while r > 0 and tables.routes[r].network != network:
        r = tables.routes[r].next
    return int(tables.routes[r].latest - 1) if r > 0 else -1


@kernel_function
def note_route(tables: TransportTables, pair: int, network: int, c: int) -> None:
    """Notes that a packet of connection ``c`` was in a network, on an address pair: the next one
    there is likely to be of it, too.
    """
    address_pair, count = tables.address_pairs[pair], 0
    if network == address_pair.network:
        if address_pair.latest != c + 1:
            address_pair.former = address_pair.latest
            address_pair.latest = c + 1
        return
    r = address_pair.routes
    while r > 0 and tables.routes[r].network != network:
        r = tables.routes[r].next
        count += 1
    if r == 0:
        if count == MOST_ROUTES:
            return
        r = tables.counts.routes
        tables.counts.routes = r + 1
        route = tables.routes[r]
        route.pair = pair
        route.network = network
        route.next = address_pair.routes
        address_pair.routes = r
    tables.routes[r].latest = c + 1


@kernel_function
def pack(packed: PackedPacket, packet: Packet) -> None:
    """Notes a packet in fewer bytes."""
    packed.place = packet.file << FRAME_BITS | packet.frame
    packed.time = packet.time
    packed.number = packet.number


@kernel_function
def open_connection(tables: TransportTables, pair: int, client_end: int, first: Packet) -> int:
    """Opens a connection on an address pair; ``first``: its first packet. Returns its number."""
    c = tables.counts.connections
    tables.counts.connections = c + 1
    if tables.address_pairs[pair].latest == 0 and tables.address_pairs[pair].routes == 0:
        tables.address_pairs[pair].network = tables.segment.network
    note_route(tables, pair, tables.segment.network, c)
    connection = tables.connections[c]
    connection.pair = pair
    connection.network = tables.segment.network
    connection.client_end = client_end
    pack(connection.first, first)
    connection.closed.place = first.file << FRAME_BITS
    connection.last_time = first.time
    connection.closed_how = OPEN
    for side in range(2 * c, 2 * c + 2):
        reset_side(tables.sides[side])
    return int(c)


@kernel_function
def note_close(connection: TcpConnectionRow, how: int, by: int, packet: Packet) -> None:
    """Notes the first sign that a connection is over."""
    if connection.closed_how == OPEN:
        connection.closed_how = how
        connection.closed_by = by
        pack(connection.closed, packet)


@kernel_function
def last_waiting(tables: TransportTables, flow: Flow) -> int:
    """Returns the stream offset behind everything that is known of a flow."""
    if flow.tail < 0:
        return int(flow.next)
    return int(tables.nodes[flow.tail].offset + tables.nodes[flow.tail].length)


@kernel_function
def comes_again(tables: TransportTables, side: int) -> bool:
    """Returns whether a SYN with the first number of its side begins another connection: test tools
    use the same numbers again.

    Once bytes or a FIN came, it had an answer, and its sender sends it no more. Then only a copy of
    the first one can come: soon after it, or with its time where packets are read twice.
    """
    connection, time = tables.connections[side >> 1], tables.segment.packet.time
    had_answer = False
    for x in range(side & -2, (side & -2) + 2):
        waiting_end = last_waiting(tables, tables.flows[flow_of(tables, x)])
        had_answer |= tables.sides[x].has_fin + next_of(tables, x) + waiting_end > 0
    is_over = had_answer and connection.closed_how != OPEN
    quiet_ns = time - max(connection.last_time, connection.closed.time)
    is_quiet = quiet_ns > (WAIT_NS if is_over else SYN_GAP_NS)
    return bool(is_quiet and time - connection.first.time >= COPY_NS)


@kernel_function
def fit_of(tables: TransportTables, c: int, end: int) -> int:
    """Returns whether the numbers of the current packet, which ``end`` of an address pair sent, are
    near those of connection ``c``: 1, or -1 if not; 0 if there is nothing to compare.
    """
    if c < 0 or tables.connections[c].closed_how == REPLACED:
        return -1
    side, fit = 2 * c + (0 if end == tables.connections[c].client_end else 1), 0
    sender, receiver = tables.sides[side], tables.sides[side ^ 1]
    flags, seq, ack = tables.segment.flags, tables.segment.seq, tables.segment.ack
    if flags & SYN:
        if sender.has_base == 1 and distance(seq, sender.base) != 0:
            return -1
        if flags & ACK and receiver.has_base == 1:
            beyond = distance(ack, receiver.base)  # a SYN may carry data, and seldom does
            return (1 if beyond == 0 else 0) if 0 <= beyond < 65_536 else -1
        if sender.has_base == 1:
            return 0 if not flags & ACK and comes_again(tables, side) else 1
        return -receiver.has_base
    for turn in range(2 if flags & ACK else 1):
        if tables.sides[side ^ turn].has_base == 1:
            number = ack if turn == 1 else seq
            if (
                abs(distance(number, tables.sides[side ^ turn].base + next_of(tables, side ^ turn)))
                > RESET_REACH
            ):
                return -1
            fit = 1
    return fit


@kernel_function
def connection_in(tables: TransportTables, pair: int, end: int) -> int:
    """Returns the connection of the current packet, which ``end`` of an address pair sent, where
    several networks have packets of it; -1 if it begins another one, NOBODY if nothing shows whose
    it is.

    Two customers may have the same addresses, each in its own network. Or one conversation is seen
    in several: with a tag and without, each direction with another tag, outside and inside a
    tunnel. So the numbers of TCP decide, and the network says whose to try first.
    """
    same_network = latest_in(tables, pair, tables.segment.network)
    address_pair = tables.address_pairs[pair]
    fit = fit_of(tables, same_network, end)
    if fit == 1:
        return same_network
    unsure = same_network if fit == 0 else -1
    c, r = address_pair.latest - 1, address_pair.routes
    while True:
        fit = fit_of(tables, c, end)
        if fit == 1:
            return int(c)
        unsure = c if fit == 0 and unsure < 0 else unsure
        if r == 0:
            break
        c, r = tables.routes[r].latest - 1, tables.routes[r].next
    if same_network >= 0 and tables.connections[same_network].closed_how != REPLACED:
        return int(same_network)
    if unsure >= 0:
        return int(unsure)
    if tables.segment.flags & SYN or (
        tables.segment.captured > 0 and not tables.segment.flags & RST
    ):
        return -1
    return NOBODY


@kernel_function
def outside(tables: TransportTables, side: int, number: int) -> int:
    """Returns how far a sequence number is from all that is known of a direction; 0 if it is in
    there, or if nothing is known.

    The flows of the connection must not be put aside.
    """
    direction, flow = tables.sides[side], tables.flows[flow_of(tables, side)]
    if direction.has_base == 0:
        return 0
    offset = flow.next + distance(number, direction.base + flow.next)
    known_end = max(last_waiting(tables, flow), flow.acked_to, flow.fin_at) + direction.has_fin
    return int(max(-offset, offset - known_end, 0))


@kernel_function
def is_of_former(tables: TransportTables, former: int, side: int) -> bool:
    """Returns whether the current packet, which is of direction ``side`` by its addresses, is a
    late one of connection ``former``, which ran there before: its numbers are nearer to those.

    Two clocks or queues recorded it, or it was sent again. It can be so only soon after the
    connection began, and not where a test tool begins with the same numbers again.
    """
    segment, connection = tables.segment, tables.connections[side >> 1]
    if segment.flags & SYN or segment.packet.time - connection.first.time > WAIT_NS:
        return False
    turn = tables.connections[former].client_end != connection.client_end
    old_side, apart, is_alike = 2 * former + (side & 1 ^ turn), 0, True
    for flip in range(2):
        old, new = tables.sides[old_side ^ flip], tables.sides[side ^ flip]
        if old.has_base == 0:
            return False
        is_alike &= new.has_base == 1 and distance(old.base, new.base) == 0
        if flip == 0 or segment.flags & ACK:
            number = segment.ack if flip else segment.seq
            apart += outside(tables, side ^ flip, number) - outside(tables, old_side ^ flip, number)
    return apart > 0 and not is_alike


@kernel_function
def acks_far_off(tables: TransportTables, side: int) -> bool:
    """Returns whether the current packet of a direction acknowledges far more than is known of the
    other direction, or far less.
    """
    receiver, flow = tables.sides[side ^ 1], tables.flows[flow_of(tables, side ^ 1)]
    known_end = max(last_waiting(tables, flow), flow.acked_to)
    gap = distance(tables.segment.ack, receiver.base + known_end)
    return bool(receiver.has_base == 1 and abs(gap) > STRAY_REACH)


@kernel_function
def is_far_off(tables: TransportTables, side: int) -> bool:
    """Returns whether a packet cannot belong to its connection: the next connection on the same
    addresses has numbers that rise by the clock.
    """
    direction, flow = tables.sides[side], tables.flows[flow_of(tables, side)]
    flags, seq, ack = tables.segment.flags, tables.segment.seq, tables.segment.ack
    if direction.has_base == 0:  # all that is known of a connection is the SYN of the other side
        return bool(
            flags & ACK
            and tables.sides[side ^ 1].started == 1
            and not 0 <= distance(ack, tables.sides[side ^ 1].base) < STRAY_REACH
        )
    gap = distance(seq, direction.base + flow.next)
    known_end = last_waiting(tables, flow)
    if flags & RST:  # an endpoint takes only the number that it waits for
        first = max(flow.acked_to, flow.next - AFTER_CLOSE)
        return not first <= flow.next + gap <= max(known_end, flow.acked_to) + RESET_REACH
    if tables.connections[side >> 1].closed_how == OPEN:
        return bool(
            abs(gap) > WINDOW
            or (
                tables.segment.on_wire == 0
                and abs(gap) > STRAY_REACH
                and acks_far_off(tables, side)
            )
        )
    if (
        direction.ended == 1
        and gap >= 0
        and gap + tables.segment.captured > 0
        and tables.connections[side >> 1].closed_how == BY_RST
    ):
        return True  # who sends on did not send the RST, but the direction has ended by it
    before = min(WINDOW, flow.next + AFTER_CLOSE)
    return bool(
        gap < -before
        or gap > (AFTER_END if direction.ended == 1 else known_end - flow.next + AFTER_CLOSE)
    )


@kernel_function
def begins_anew(tables: TransportTables, side: int) -> bool:
    """Returns whether the current packet, a SYN, is not of the connection on its addresses."""
    flags, first, ack = tables.segment.flags, tables.segment.seq, tables.segment.ack
    sender, receiver = tables.sides[side], tables.sides[side ^ 1]
    connection, time = tables.connections[side >> 1], tables.segment.packet.time
    goes_on = connection.closed_how == OPEN and time - connection.last_time < COPY_NS
    is_soon = goes_on or abs(time - connection.first.time) < COPY_NS
    if sender.has_base == 1:
        if sender.started == 0 and is_soon and 0 < distance(sender.base, first) < STRAY_REACH:
            return False  # its own SYN, which stands in the file behind bytes of it
        return bool(
            distance(first, sender.base) != 0 or (not flags & ACK and comes_again(tables, side))
        )
    if receiver.has_base == 0:
        return bool(tables.connections[side >> 1].closed_how != OPEN)
    if receiver.started == 0:
        return not (flags & ACK and is_soon and 0 <= distance(receiver.base, ack) < STRAY_REACH)
    if flags & ACK:
        return not 0 <= distance(ack, receiver.base) < 65_536  # a SYN may carry data
    return bool(tables.flows[flow_of(tables, side ^ 1)].next > 0)


@kernel_function
def is_established(tables: TransportTables, c: int) -> bool:
    """Returns whether both ends may believe in a connection: it began, and not all of it ended with
    a FIN, or not long ago.
    """
    client, server, connection = tables.sides[2 * c], tables.sides[2 * c + 1], tables.connections[c]
    has_begun = client.has_base + server.has_base == 2 or connection.flows > 0
    is_open = client.has_base > client.has_fin or server.has_base > server.has_fin
    return bool(
        has_begun and (is_open or tables.segment.packet.time - connection.last_time < WAIT_NS)
    )


@kernel_function
def replace(tables: TransportTables, c: int) -> None:
    """Ends connection ``c``: the current packet shows another one on its addresses."""
    packet = tables.segment.packet
    note_close(tables.connections[c], REPLACED, -1, packet)
    for side in range(2 * c, 2 * c + 2):
        close_side(tables, side, packet)


@kernel_function
def leave(tables: TransportTables, c: int) -> None:
    """Ends connection ``c``, which another one follows, unless it goes on in another network."""
    address_pair = tables.address_pairs[tables.connections[c].pair]
    is_left, r = address_pair.latest != c + 1, address_pair.routes
    while r > 0 and is_left:
        is_left = tables.routes[r].latest != c + 1
        r = tables.routes[r].next
    if is_left and tables.connections[c].closed_how != REPLACED:
        if tables.connections[c].flows < 0:
            flow_to_write(tables, 2 * c)
        replace(tables, c)


@kernel_function
def is_behind_syn(tables: TransportTables, side: int, number: int) -> bool:
    """Returns whether a sequence number of a direction belongs to the SYN that waits there, and not
    to the connection.
    """
    direction, flow = tables.sides[side], tables.flows[flow_of(tables, side)]
    ahead = distance(number, tables.nodes[flow.stray].offset)
    apart = distance(number, direction.base + flow.next + direction.has_fin)
    is_other = direction.has_base == 0 or abs(apart) >= STRAY_REACH or (ahead == 0 and apart != 0)
    return bool(is_other and 0 <= ahead < STRAY_REACH)


@inlined
def agrees(tables: TransportTables, side: int, is_off: bool) -> bool:
    """Returns whether the current packet agrees with one that waits: both are of a connection that
    begins.

    ``is_off``: the packet cannot belong to the connection on its addresses.
    """
    flags, seq, ack = tables.segment.flags, tables.segment.seq, tables.segment.ack
    stray = tables.flows[flow_of(tables, side)].stray
    answered = tables.flows[flow_of(tables, side ^ 1)].stray
    if stray >= 0:
        node = tables.nodes[stray]
        if node.flags & SYN:
            if not flags & SYN and is_behind_syn(tables, side, seq):
                return True
        elif (
            is_off
            and (tables.segment.captured > 0 or flags & SYN)
            and abs(distance(seq, node.offset)) < STRAY_REACH
        ):
            return True
    if answered >= 0 and tables.nodes[answered].flags & SYN:
        node = tables.nodes[answered]
        if flags & ACK:
            return is_behind_syn(tables, side ^ 1, ack)
        return bool(flags & SYN and node.flags & ACK and distance(seq, node.needs) == 0)
    return False


@kernel_function
def keep_stray(tables: TransportTables, side: int) -> None:
    """Keeps the current packet until another one agrees with it; one that waited before was simply
    wrong.

    A SYN that is sent again does not agree with itself.
    """
    flow, segment = tables.flows[flow_to_write(tables, side)], tables.segment
    if (
        flow.stray >= 0
        and segment.flags & tables.nodes[flow.stray].flags & SYN
        and tables.nodes[flow.stray].offset == segment.seq
    ):
        return
    drop_stray(tables, flow)
    k = new_node(tables, segment.seq, segment.captured, segment.source, segment.packet)
    node = tables.nodes[k]
    node.wire = segment.on_wire
    node.flags = segment.flags
    node.network = segment.network
    node.needs = segment.ack
    flow.stray = k
    tables.counts.waiting += segment.captured + NODE_COST


@kernel_function
def open_at_strays(tables: TransportTables, side: int) -> int:
    """Opens the connection of the packets that wait, as the current packet of a direction shows;
    returns its number.

    One that waits belongs to it if its numbers are near those of the current packet.
    """
    old, packet = side >> 1, tables.segment.packet
    flags, seq, ack = tables.segment.flags, tables.segment.seq, tables.segment.ack
    first, jump = packet, 0
    client = side ^ (1 if flags & ACK else 0) if flags & SYN else -1
    for flip in range(2):
        flow = tables.flows[flow_of(tables, side ^ flip)]
        if flow.stray < 0:
            continue
        node = tables.nodes[flow.stray]
        apart = distance(ack, node.offset) if flags & ACK else distance(seq, node.needs)
        if flip == 0:
            apart = distance(seq, node.offset)
            jump = distance(node.offset, tables.sides[side].base + flow.next)
        if abs(apart) >= STRAY_REACH:
            drop_stray(tables, flow)
            continue
        if node.flags & SYN:
            client = side ^ flip ^ (1 if node.flags & ACK else 0)
        if node.packet.number < first.number:
            first = node.packet
    turn = max(client, 0) & 1
    new_connection = open_connection(
        tables, tables.connections[old].pair, tables.connections[old].client_end ^ turn, first
    )
    for flip in range(2):
        before = tables.flows[flow_of(tables, 2 * old + flip)]
        new = tables.flows[flow_to_write(tables, 2 * new_connection + (flip ^ turn))]
        new.opened_by = packet.number
        new.jump = jump if client < 0 else 0
        new.stray = before.stray
        before.stray = -1
        if new.stray >= 0:
            note_route(
                tables,
                tables.connections[old].pair,
                tables.nodes[new.stray].network,
                new_connection,
            )
    leave(tables, old)
    return new_connection


@kernel_function
def client_end_of(end: int, flags: int, port: int, other_port: int, server_ports: ByteArray) -> int:
    """Returns which end of a pair is the client, by the first packet of their connection, which
    comes from ``end`` and ``port``.
    """
    if flags & SYN:
        return 1 - end if flags & ACK else end
    if server_ports[port] != server_ports[other_port]:
        return 1 - end if server_ports[port] else end
    return end
