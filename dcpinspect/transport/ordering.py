"""Segments put in order: the sequential part of reassembly, on integers only.

One kernel looks at every packet in capture order, decides which bytes of it are new, which wait and which will never come, and writes
*entries*: "these bytes are next in that flow". No payload is touched. A *flow* is one direction of one connection, numbered
2 * connection + direction.

Any batches give the same entries, because each packet is handled completely before the next, and time is the packets' own.
"""

from __future__ import annotations

from dcpinspect.kernel import Ints, Octets, inline, kernel
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
        room = 64
        if c >= 0:
            room += 4 * (flows[2 * c, NODES] + flows[2 * c + 1, NODES])
        if counters[TOTAL_WAITING] > MAX_TOTAL_WAITING - (1 << 20):
            room += 4 * counters[LIVE]
        if (
            len(entries) - counters[ENTRIES] < room
            or len(fresh) - counters[FRESH] < room
            or len(nodes) - counters[LIVE] < room
            or len(recent) - counters[RECENTS] < room
            or len(connections) - counters[CONNECTIONS] < 2
        ):
            return i
        flags, seq, ack = tcp[i, FLAGS], tcp[i, SEQ], tcp[i, ACKED]
        have, full = tcp[i, CAPTURED], tcp[i, WIRE]
        packet, frame, time = packets[index[i]], frames[index[i]], times[index[i]]
        source = tcp[i, PAYLOAD]
        end = sides[i]
        if c >= 0:
            f = 2 * c + (0 if end == connections[c, CLIENT_END] else 1)
            is_over = connections[c, CLOSED_HOW] != OPEN and flows[f, BASE] < 0 and flows[f ^ 1, BASE] < 0
            if flags & SYN and (is_over or begins_anew(flags, seq, ack, f, flows)):
                note_close(c, REPLACED, -1, packet, frame, file, time, connections)
                for old in range(2 * c, 2 * c + 2):
                    close_flow(old, packet, 0, file, time, flows, recent, nodes, entries, counters)
                c = -1
        stray = -1
        if c >= 0 and not flags & SYN and flows[f, BASE] >= 0 and is_far_off(seq, f, connections, flows, nodes):
            # another connection, or a packet that is simply wrong: two that agree decide
            stray = flows[f, STRAY]
            if stray >= 0 and have > 0 and abs(distance(seq, nodes[stray, N_OFFSET])) < STRAY_REACH:
                flows[f, STRAY] = -1
                counters[TOTAL_WAITING] -= nodes[stray, N_LENGTH] + NODE_COST
                note_close(c, REPLACED, -1, packet, frame, file, time, connections)
                jump = distance(nodes[stray, N_OFFSET], flows[f, BASE] + flows[f, NEXT])
                for old in range(2 * c, 2 * c + 2):
                    close_flow(old, packet, 0, file, time, flows, recent, nodes, entries, counters)
                client_end = connections[c, CLIENT_END]
                c = open_connection(
                    pairs[i],
                    client_end,
                    nodes[stray, N_PACKET],
                    packet,
                    nodes[stray, N_FILE],
                    nodes[stray, N_TIME],
                    current,
                    connections,
                    flows,
                    counters,
                )
                connections[c, JUMP] = jump
            else:
                flows[f, PACKETS] += 1
                if have > 0:
                    drop_stray(f, flows, nodes, counters)
                    k = new_node(seq, have, source, packet, frame, file, time, nodes, fresh, counters)
                    nodes[k, N_WIRE] = full
                    flows[f, STRAY] = k
                    counters[TOTAL_WAITING] += have + NODE_COST
                continue
        if c < 0:
            if flags & SYN:
                client_end = 1 - end if flags & ACK else end
            elif server_ports[tcp[i, PORTS]] != server_ports[tcp[i, PORTS + 1]]:
                client_end = 1 - end if server_ports[tcp[i, PORTS]] else end
            else:
                client_end = end
            c = open_connection(pairs[i], client_end, packet, packet, file, time, current, connections, flows, counters)
        f = 2 * c + (0 if end == connections[c, CLIENT_END] else 1)
        g = f ^ 1
        connections[c, SEEN] += 1
        connections[c, LAST_TIME] = time
        seen = connections[c, SEEN]
        flows[f, PACKETS] += 1
        if flags & SYN:
            seq = (seq + 1) & MASK
            if flows[f, BASE] < 0:
                flows[f, BASE] = seq
                flows[f, STARTED] = 1
            if flags & ACK and flows[g, BASE] < 0:  # the SYN it answers was not captured
                flows[g, BASE] = ack
                flows[g, STARTED] = 1
        elif flows[f, BASE] < 0 and flags & ACK and flows[g, STARTED] == 1 and not 0 <= distance(ack, flows[g, BASE]) <= WINDOW:
            flows[f, PAYLOAD_BYTES] += have  # left over from the connection before this one
            flows[f, LATE] += have
            continue

        if flags & (FIN | RST):
            k = flows[g, TAIL]
            known = flows[g, BASE] + (flows[g, NEXT] if k < 0 else nodes[k, N_OFFSET] + nodes[k, N_LENGTH])
            # it may acknowledge a FIN that was not captured, or not yet
            is_second = not flags & RST and flags & ACK and flows[g, BASE] >= 0 and distance(ack, known) == 1
            note_close(c, BY_RST if flags & RST else BY_FIN, (g if is_second else f) & 1, packet, frame, file, time, connections)
        if flags & ACK and flows[g, BASE] < 0 and flows[f, STARTED] == 1 and seq == flows[f, BASE]:
            # before its first byte, a client has had nothing but the answer to its SYN, which was not captured
            flows[g, BASE] = ack
            flows[g, STARTED] = 1

        if flags & ACK and flows[g, BASE] >= 0:
            acked = flows[g, NEXT] + distance(ack, flows[g, BASE] + flows[g, NEXT])
            before = flows[g, ACKED_TO]
            if before < acked <= flows[g, NEXT] + WINDOW:
                flows[g, ACKED_TO] = acked
                k = flows[g, TAIL]
                while k >= 0 and nodes[k, N_OFFSET] > before:
                    if nodes[k, N_OFFSET] <= acked and nodes[k, N_ACK_SEEN] < 0:
                        nodes[k, N_ACK_SEEN] = seen
                        nodes[k, N_ACK_TIME] = time
                    k = nodes[k, N_PREVIOUS]

        pieces = 1
        if stray >= 0:  # the new connection's first segment is the one that waited
            pieces = 2
        for piece in range(pieces):
            if pieces == 2 and piece == 0:
                p_seq, p_have, p_full, p_source = (
                    nodes[stray, N_OFFSET],
                    nodes[stray, N_LENGTH],
                    nodes[stray, N_WIRE],
                    nodes[stray, N_SOURCE],
                )
                p_packet, p_frame, p_file, p_time, p_place = (
                    nodes[stray, N_PACKET],
                    nodes[stray, N_FRAME],
                    nodes[stray, N_FILE],
                    nodes[stray, N_TIME],
                    nodes[stray, N_PLACE],
                )
                free_node(stray, nodes, counters)
            else:
                p_seq, p_have, p_full, p_source = seq, have, full, source
                p_packet, p_frame, p_file, p_time, p_place = packet, frame, file, time, -1
            if p_full == 0:
                continue
            if flows[f, BASE] < 0:
                flows[f, BASE] = p_seq
            flows[f, PAYLOAD_BYTES] += p_have
            wanted = flows[f, NEXT]
            offset = wanted + distance(p_seq, flows[f, BASE] + wanted)
            if flows[f, ENDED] == 1:
                flows[f, LATE] += p_have
                continue
            if offset < wanted:  # a retransmission, at least in part
                old_bytes = min(p_full, wanted - offset)
                old_have = min(p_have, old_bytes)
                late = late_bytes(f, offset, offset + old_have, flows, recent)
                flows[f, LATE] += late
                flows[f, DUPLICATE] += old_have - late
                offset += old_bytes
                p_full -= old_bytes
                p_have -= old_have
                p_source += old_have
                if p_full == 0:
                    continue
            head = flows[f, HEAD]
            if offset == wanted and (head < 0 or nodes[head, N_OFFSET] >= offset + p_full):
                if p_have > 0:
                    enter(entries, counters, f, offset, p_have, p_source, p_packet, p_frame, p_file, p_time, p_place)
                    flows[f, NEXT] = offset + p_have
                    flows[f, UNIQUE] += p_have
                if p_full > p_have:
                    flows[f, CUT_OFF] += p_full - p_have
                    enter_hole(f, p_full - p_have, p_packet, p_file, p_time, flows, recent, entries, counters)
            else:
                used = 0
                if p_have > 0:
                    used = insert(f, offset, p_have, p_source, p_packet, p_frame, p_file, p_time, seen, flows, nodes, fresh, counters)
                    flows[f, UNIQUE] += used
                    flows[f, DUPLICATE] += p_have - used
                if p_full > p_have:
                    insert(f, offset + p_have, p_full - p_have, HOLE, p_packet, 0, p_file, p_time, seen, flows, nodes, fresh, counters)
            if head >= 0 or flows[f, HEAD] >= 0:
                drain(f, flows, recent, nodes, entries, counters)
                while flows[f, WAITING] > MAX_WAITING:
                    give_up_gap(f, packet, file, time, flows, recent, nodes, entries, counters)

        if flows[f, STRAY] >= 0:
            drop_stray(f, flows, nodes, counters)
        if flags & (FIN | RST) and flows[f, BASE] >= 0 and flows[f, FIN_AT] < 0:
            fin_at = flows[f, NEXT] + distance(seq + full, flows[f, BASE] + flows[f, NEXT])
            if flows[f, NEXT] <= fin_at <= flows[f, NEXT] + WINDOW:
                flows[f, FIN_AT] = fin_at
        if flags & RST:  # nobody will send anything again: gaps need not wait for an acknowledgement
            for x in range(2 * c, 2 * c + 2):
                k = flows[x, HEAD]
                while k >= 0:
                    if nodes[k, N_ACK_SEEN] < 0:
                        nodes[k, N_ACK_SEEN] = seen
                        nodes[k, N_ACK_TIME] = time
                    k = nodes[k, N_NEXT]
        for x in range(2 * c, 2 * c + 2):
            while flows[x, HEAD] >= 0:
                k = flows[x, HEAD]
                if nodes[k, N_ACK_SEEN] < 0 or (seen - nodes[k, N_ACK_SEEN] < WAIT_PACKETS and time - nodes[k, N_ACK_TIME] < WAIT_NS):
                    break
                give_up_gap(x, packet, file, time, flows, recent, nodes, entries, counters)
            if flows[x, ENDED] == 0 and 0 <= flows[x, FIN_AT] <= flows[x, NEXT]:
                end_flow(x, packet, frame, file, time, flows, nodes, entries, counters)
        while counters[TOTAL_WAITING] > MAX_TOTAL_WAITING:  # the flows take turns to give up what they hold
            x = counters[HAND]
            counters[HAND] = x + 1 if x + 1 < 2 * counters[CONNECTIONS] else 0
            drop_stray(x, flows, nodes, counters)
            while flows[x, HEAD] >= 0:
                give_up_gap(x, packet, file, time, flows, recent, nodes, entries, counters)
    return len(tcp)
