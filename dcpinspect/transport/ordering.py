"""Segments put in order: the sequential part of reassembly, on integers only.

One kernel looks at every packet in capture order, decides which bytes of it are new, which wait and which will never come, and writes
*entries*: "these bytes are next in that flow". No payload is touched. A *flow* is one direction of one connection, numbered
2 * connection + direction.

Any batches give the same entries, because each packet is handled completely before the next, and time is the packets' own.
"""

from __future__ import annotations

from dcpinspect.kernel import Ints, Octets, inline, kernel, step
from dcpinspect.transport.columns import (
    ACKED_TO,
    BASE,
    BY_FIN,
    BY_RST,
    CLIENT_END,
    CLOSED_BY,
    CLOSED_FILE,
    CLOSED_FRAME,
    CLOSED_HOW,
    CLOSED_PACKET,
    CLOSED_TIME,
    CONNECTIONS,
    CUT_OFF,
    DUPLICATE,
    ENDED,
    ENTRIES,
    FIN_AT,
    FIRST_FILE,
    FIRST_PACKET,
    FIRST_TIME,
    FLOW,
    FRESH,
    HAND,
    HEAD,
    HOLE,
    JUMP,
    LAST_TIME,
    LATE,
    LIVE,
    N_ACK_SEEN,
    N_ACK_TIME,
    N_FILE,
    N_FRAME,
    N_LENGTH,
    N_NEXT,
    N_OFFSET,
    N_PACKET,
    N_PLACE,
    N_PREVIOUS,
    N_SOURCE,
    N_TIME,
    N_WIRE,
    NEXT,
    NODES,
    OPEN,
    OPENED_BY,
    PACKETS,
    PAIR,
    PAYLOAD_BYTES,
    RECENTS,
    REPLACED,
    SEEN,
    STARTED,
    STRAY,
    TAIL,
    TOTAL_WAITING,
    UNIQUE,
    WAITING,
)
from dcpinspect.transport.entries import enter
from dcpinspect.transport.flows import close_flow, drain, drop_stray, end_flow, enter_hole, give_up_gap, late_bytes
from dcpinspect.transport.headers import ACK, ACKED, CAPTURED, FIN, FLAGS, PAYLOAD, PORTS, RST, SEQ, SYN, WIRE
from dcpinspect.transport.waiting import NODE_COST, free_node, insert, new_node

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


@inline
def open_connection(
    pair: int, client_end: int, first: int, packet: int, file: int, time: int, current: Ints, connections: Ints, flows: Ints, counters: Ints
) -> int:
    """A new connection on ``pair``; its number, from 0."""
    c = counters[CONNECTIONS]
    counters[CONNECTIONS] = c + 1
    current[pair] = c
    connections[c, PAIR] = pair
    connections[c, CLIENT_END] = client_end
    connections[c, SEEN] = 0
    connections[c, FIRST_PACKET] = first
    connections[c, OPENED_BY] = packet
    connections[c, FIRST_FILE] = file
    connections[c, FIRST_TIME] = time
    connections[c, LAST_TIME] = time
    connections[c, CLOSED_HOW] = OPEN
    connections[c, JUMP] = 0
    for f in range(2 * c, 2 * c + 2):
        for column in range(FLOW):
            flows[f, column] = 0
        flows[f, BASE] = -1
        flows[f, FIN_AT] = -1
        flows[f, ACKED_TO] = -1
        flows[f, HEAD] = -1
        flows[f, TAIL] = -1
        flows[f, STRAY] = -1
    return int(c)


@inline
def note_close(c: int, how: int, by: int, packet: int, frame: int, file: int, time: int, connections: Ints) -> None:
    """The first sign that connection ``c`` is over."""
    if connections[c, CLOSED_HOW] == OPEN:
        connections[c, CLOSED_HOW] = how
        connections[c, CLOSED_BY] = by
        connections[c, CLOSED_PACKET] = packet
        connections[c, CLOSED_FRAME] = frame
        connections[c, CLOSED_FILE] = file
        connections[c, CLOSED_TIME] = time


@inline
def is_far_off(seq: int, f: int, connections: Ints, flows: Ints, nodes: Ints) -> bool:
    """Whether a segment on flow ``f`` cannot be of its connection: numbers of the next one on the same addresses rise by the clock."""
    k = flows[f, TAIL]
    waiting = 0 if k < 0 else nodes[k, N_OFFSET] + nodes[k, N_LENGTH] - flows[f, NEXT]
    gap = distance(seq, flows[f, BASE] + flows[f, NEXT])
    if flows[f, ENDED] == 1:
        return bool(gap < -WINDOW or gap > AFTER_END)
    is_closed = connections[f >> 1, CLOSED_HOW] != OPEN
    return bool(gap < -WINDOW or gap > (waiting + AFTER_CLOSE if is_closed else WINDOW))


@inline
def begins_anew(flags: int, seq: int, ack: int, f: int, flows: Ints) -> bool:
    """Whether a SYN seen on flow ``f`` cannot belong to its connection."""
    if flows[f, BASE] >= 0:
        return bool(((seq + 1) & MASK) != flows[f, BASE])
    other = f ^ 1
    if flows[other, STARTED] == 0:
        return bool(flows[other, BASE] >= 0)
    if flags & ACK:
        return not 0 <= distance(ack, flows[other, BASE]) < 65_536  # data may ride on a SYN
    return bool(flows[other, NEXT] > 0)


@step
def lacks_room(c: int, connections: Ints, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, fresh: Ints, counters: Ints) -> bool:
    """Whether a packet of connection ``c``, -1 for a new one, might fill a table."""
    room = 64
    if c >= 0:
        room += 4 * (flows[2 * c, NODES] + flows[2 * c + 1, NODES])
    if counters[TOTAL_WAITING] > MAX_TOTAL_WAITING - (1 << 20):
        room += 4 * counters[LIVE]
    return bool(
        len(entries) - counters[ENTRIES] < room
        or len(fresh) - counters[FRESH] < room
        or len(nodes) - counters[LIVE] < room
        or len(recent) - counters[RECENTS] < room
        or len(connections) - counters[CONNECTIONS] < 2
    )


@inline
def replace(
    c: int,
    packet: int,
    frame: int,
    file: int,
    time: int,
    connections: Ints,
    flows: Ints,
    recent: Ints,
    nodes: Ints,
    entries: Ints,
    counters: Ints,
) -> None:
    """Connection ``c`` is over: another one has its addresses."""
    note_close(c, REPLACED, -1, packet, frame, file, time, connections)
    for f in range(2 * c, 2 * c + 2):
        close_flow(f, packet, 0, file, time, flows, recent, nodes, entries, counters)


@inline
def keep_stray(
    f: int,
    seq: int,
    have: int,
    full: int,
    source: int,
    packet: int,
    frame: int,
    file: int,
    time: int,
    flows: Ints,
    nodes: Ints,
    fresh: Ints,
    counters: Ints,
) -> None:
    """A far-off segment on flow ``f`` waits for another one that agrees with it; one that waited so far was simply wrong."""
    flows[f, PACKETS] += 1
    if have > 0:
        drop_stray(f, flows, nodes, counters)
        k = new_node(seq, have, source, packet, frame, file, time, nodes, fresh, counters)
        nodes[k, N_WIRE] = full
        flows[f, STRAY] = k
        counters[TOTAL_WAITING] += have + NODE_COST


@inline
def open_at_stray(
    f: int,
    packet: int,
    frame: int,
    file: int,
    time: int,
    current: Ints,
    connections: Ints,
    flows: Ints,
    recent: Ints,
    nodes: Ints,
    entries: Ints,
    counters: Ints,
) -> int:
    """The connection that the far-off segment of flow ``f`` began, as the one at ``packet`` shows; its number."""
    c, stray = f >> 1, flows[f, STRAY]
    flows[f, STRAY] = -1
    counters[TOTAL_WAITING] -= nodes[stray, N_LENGTH] + NODE_COST
    jump = distance(nodes[stray, N_OFFSET], flows[f, BASE] + flows[f, NEXT])
    replace(c, packet, frame, file, time, connections, flows, recent, nodes, entries, counters)
    pair, client_end, first = connections[c, PAIR], connections[c, CLIENT_END], nodes[stray, N_PACKET]
    opened = open_connection(
        pair, client_end, first, packet, nodes[stray, N_FILE], nodes[stray, N_TIME], current, connections, flows, counters
    )
    connections[opened, JUMP] = jump
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
def start_flows(f: int, flags: int, seq: int, ack: int, flows: Ints) -> None:
    """A SYN on flow ``f`` says what its first byte is, ``seq``; and that of the other side, if the SYN it answers was not captured."""
    if flows[f, BASE] < 0:
        flows[f, BASE] = seq
        flows[f, STARTED] = 1
    if flags & ACK and flows[f ^ 1, BASE] < 0:
        flows[f ^ 1, BASE] = ack
        flows[f ^ 1, STARTED] = 1


@inline
def note_end(
    f: int, flags: int, ack: int, packet: int, frame: int, file: int, time: int, connections: Ints, flows: Ints, nodes: Ints
) -> None:
    """A FIN or RST on flow ``f`` closes the connection, from this side or, as the second of two, from the other."""
    g = f ^ 1
    k = flows[g, TAIL]
    known = flows[g, BASE] + (flows[g, NEXT] if k < 0 else nodes[k, N_OFFSET] + nodes[k, N_LENGTH])
    # it may acknowledge a FIN that was not captured, or not yet
    is_second = not flags & RST and flags & ACK and flows[g, BASE] >= 0 and distance(ack, known) == 1
    note_close(f >> 1, BY_RST if flags & RST else BY_FIN, (g if is_second else f) & 1, packet, frame, file, time, connections)


@step
def acknowledge(f: int, acked: int, seen: int, time: int, flows: Ints, nodes: Ints) -> None:
    """The other side has all of flow ``f`` before ``acked``: what waits there shows that the capture lost what is missing before it."""
    before = flows[f, ACKED_TO]
    flows[f, ACKED_TO] = acked
    k = flows[f, TAIL]
    while k >= 0 and nodes[k, N_OFFSET] > before:
        if nodes[k, N_OFFSET] <= acked and nodes[k, N_ACK_SEEN] < 0:
            nodes[k, N_ACK_SEEN] = seen
            nodes[k, N_ACK_TIME] = time
        k = nodes[k, N_PREVIOUS]


@step
def take_bytes(
    f: int,
    seq: int,
    have: int,
    full: int,
    source: int,
    packet: int,
    frame: int,
    file: int,
    time: int,
    place: int,
    seen: int,
    flows: Ints,
    recent: Ints,
    nodes: Ints,
    entries: Ints,
    fresh: Ints,
    counters: Ints,
) -> None:
    """The bytes of a segment on flow ``f``, ``have`` of its ``full`` size captured: entered where they are next, else kept waiting."""
    if flows[f, BASE] < 0:
        flows[f, BASE] = seq
    flows[f, PAYLOAD_BYTES] += have
    wanted = flows[f, NEXT]
    offset = wanted + distance(seq, flows[f, BASE] + wanted)
    if flows[f, ENDED] == 1:
        flows[f, LATE] += have
        return
    if offset < wanted:  # a retransmission, at least in part
        old_bytes = min(full, wanted - offset)
        old_have = min(have, old_bytes)
        late = late_bytes(f, offset, offset + old_have, flows, recent)
        flows[f, LATE] += late
        flows[f, DUPLICATE] += old_have - late
        offset += old_bytes
        full -= old_bytes
        have -= old_have
        source += old_have
        if full == 0:
            return
    head = flows[f, HEAD]
    if offset == wanted and (head < 0 or nodes[head, N_OFFSET] >= offset + full):
        if have > 0:
            enter(entries, counters, f, offset, have, source, packet, frame, file, time, place)
            flows[f, NEXT] = offset + have
            flows[f, UNIQUE] += have
        if full > have:
            flows[f, CUT_OFF] += full - have
            enter_hole(f, full - have, packet, file, time, flows, recent, entries, counters)
    else:
        used = 0
        if have > 0:
            used = insert(f, offset, have, source, packet, frame, file, time, seen, flows, nodes, fresh, counters)
            flows[f, UNIQUE] += used
            flows[f, DUPLICATE] += have - used
        if full > have:
            insert(f, offset + have, full - have, HOLE, packet, 0, file, time, seen, flows, nodes, fresh, counters)
    if head >= 0 or flows[f, HEAD] >= 0:
        drain(f, flows, recent, nodes, entries, counters)
        while flows[f, WAITING] > MAX_WAITING:
            give_up_gap(f, packet, file, time, flows, recent, nodes, entries, counters)


@inline
def take_stray(f: int, k: int, seen: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, fresh: Ints, counters: Ints) -> None:
    """The first segment of a new connection is the one that waited as node ``k``."""
    seq, have, full, source = nodes[k, N_OFFSET], nodes[k, N_LENGTH], nodes[k, N_WIRE], nodes[k, N_SOURCE]
    packet, frame, file, time, place = nodes[k, N_PACKET], nodes[k, N_FRAME], nodes[k, N_FILE], nodes[k, N_TIME], nodes[k, N_PLACE]
    free_node(k, nodes, counters)
    take_bytes(f, seq, have, full, source, packet, frame, file, time, place, seen, flows, recent, nodes, entries, fresh, counters)


@inline
def note_last(f: int, last: int, flows: Ints) -> None:
    """A FIN or RST says that flow ``f`` ends with sequence number ``last``."""
    fin_at = flows[f, NEXT] + distance(last, flows[f, BASE] + flows[f, NEXT])
    if flows[f, NEXT] <= fin_at <= flows[f, NEXT] + WINDOW:
        flows[f, FIN_AT] = fin_at


@inline
def wait_no_more(f: int, seen: int, time: int, flows: Ints, nodes: Ints) -> None:
    """After an RST nobody will send anything again: gaps need not wait for an acknowledgement."""
    k = flows[f, HEAD]
    while k >= 0:
        if nodes[k, N_ACK_SEEN] < 0:
            nodes[k, N_ACK_SEEN] = seen
            nodes[k, N_ACK_TIME] = time
        k = nodes[k, N_NEXT]


@step
def give_up_overdue(
    f: int, seen: int, packet: int, file: int, time: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, counters: Ints
) -> None:
    """Gaps of flow ``f`` that were acknowledged long enough ago become holes."""
    while flows[f, HEAD] >= 0:
        k = flows[f, HEAD]
        if nodes[k, N_ACK_SEEN] < 0 or (seen - nodes[k, N_ACK_SEEN] < WAIT_PACKETS and time - nodes[k, N_ACK_TIME] < WAIT_NS):
            return
        give_up_gap(f, packet, file, time, flows, recent, nodes, entries, counters)


@inline
def relieve(packet: int, file: int, time: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, counters: Ints) -> None:
    """Too much waits in all: the next flow, which take turns, gives up what it holds."""
    f = counters[HAND]
    counters[HAND] = f + 1 if f + 1 < 2 * counters[CONNECTIONS] else 0
    drop_stray(f, flows, nodes, counters)
    while flows[f, HEAD] >= 0:
        give_up_gap(f, packet, file, time, flows, recent, nodes, entries, counters)


@kernel(
    "int64(int64, int64[:,::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, octets,"
    " int64[::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1])"
)
def order_segments(
    start: int,
    tcp: Ints,
    index: Ints,
    pairs: Ints,
    sides: Ints,
    times: Ints,
    packets: Ints,
    frames: Ints,
    file: int,
    server_ports: Octets,
    current: Ints,
    connections: Ints,
    flows: Ints,
    recent: Ints,
    nodes: Ints,
    entries: Ints,
    fresh: Ints,
    counters: Ints,
) -> int:
    """Handles packets from row ``start`` of ``tcp`` on; returns the row it stopped before for want of room in a table, or their number.

    Constant work a packet, but for those that fall between waiting segments (at most MAX_WAITING / NODE_COST steps).
    """
    for i in range(start, len(tcp)):
        c = current[pairs[i]]
        if lacks_room(c, connections, flows, recent, nodes, entries, fresh, counters):
            return i
        flags, seq, ack = tcp[i, FLAGS], tcp[i, SEQ], tcp[i, ACKED]
        have, full = tcp[i, CAPTURED], tcp[i, WIRE]
        packet, frame, time = packets[index[i]], frames[index[i]], times[index[i]]
        source = tcp[i, PAYLOAD]
        end = sides[i]

        # whose packet it is
        stray = -1
        if c >= 0:
            f = 2 * c + (0 if end == connections[c, CLIENT_END] else 1)
            if flags & SYN:
                is_over = connections[c, CLOSED_HOW] != OPEN and flows[f, BASE] < 0 and flows[f ^ 1, BASE] < 0
                if is_over or begins_anew(flags, seq, ack, f, flows):
                    replace(c, packet, frame, file, time, connections, flows, recent, nodes, entries, counters)
                    c = -1
            elif flows[f, BASE] >= 0 and is_far_off(seq, f, connections, flows, nodes):
                # another connection, or a packet that is simply wrong: two that agree decide
                stray = flows[f, STRAY]
                if stray < 0 or have == 0 or abs(distance(seq, nodes[stray, N_OFFSET])) >= STRAY_REACH:
                    keep_stray(f, seq, have, full, source, packet, frame, file, time, flows, nodes, fresh, counters)
                    continue
                c = open_at_stray(f, packet, frame, file, time, current, connections, flows, recent, nodes, entries, counters)
        if c < 0:
            client_end = client_end_of(end, flags, tcp[i, PORTS], tcp[i, PORTS + 1], server_ports)
            c = open_connection(pairs[i], client_end, packet, packet, file, time, current, connections, flows, counters)
        f = 2 * c + (0 if end == connections[c, CLIENT_END] else 1)
        g = f ^ 1
        connections[c, SEEN] += 1
        connections[c, LAST_TIME] = time
        seen = connections[c, SEEN]
        flows[f, PACKETS] += 1

        # what it says of both directions
        if flags & SYN:
            seq = (seq + 1) & MASK
            start_flows(f, flags, seq, ack, flows)
        elif flows[f, BASE] < 0 and flags & ACK and flows[g, STARTED] == 1 and not 0 <= distance(ack, flows[g, BASE]) <= WINDOW:
            flows[f, PAYLOAD_BYTES] += have  # left over from the connection before this one
            flows[f, LATE] += have
            continue
        if flags & (FIN | RST):
            note_end(f, flags, ack, packet, frame, file, time, connections, flows, nodes)
        if flags & ACK and flows[g, BASE] < 0 and flows[f, STARTED] == 1 and seq == flows[f, BASE]:
            # before its first byte, a client has had nothing but the answer to its SYN, which was not captured
            flows[g, BASE] = ack
            flows[g, STARTED] = 1
        if flags & ACK and flows[g, BASE] >= 0:
            acked = flows[g, NEXT] + distance(ack, flows[g, BASE] + flows[g, NEXT])
            if flows[g, ACKED_TO] < acked <= flows[g, NEXT] + WINDOW:
                acknowledge(g, acked, seen, time, flows, nodes)

        # the bytes it brings
        if stray >= 0:
            take_stray(f, stray, seen, flows, recent, nodes, entries, fresh, counters)
        if full > 0:
            take_bytes(f, seq, have, full, source, packet, frame, file, time, -1, seen, flows, recent, nodes, entries, fresh, counters)
        if flows[f, STRAY] >= 0:
            drop_stray(f, flows, nodes, counters)

        # what ends by it
        if flags & (FIN | RST) and flows[f, BASE] >= 0 and flows[f, FIN_AT] < 0:
            note_last(f, seq + full, flows)
        for x in range(2 * c, 2 * c + 2):
            if flags & RST:
                wait_no_more(x, seen, time, flows, nodes)
            if flows[x, HEAD] >= 0:
                give_up_overdue(x, seen, packet, file, time, flows, recent, nodes, entries, counters)
            if flows[x, ENDED] == 0 and 0 <= flows[x, FIN_AT] <= flows[x, NEXT]:
                end_flow(x, packet, frame, file, time, flows, nodes, entries, counters)
        while counters[TOTAL_WAITING] > MAX_TOTAL_WAITING:
            relieve(packet, file, time, flows, recent, nodes, entries, counters)
    return len(tcp)
