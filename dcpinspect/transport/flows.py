"""Flows: what happens to one direction of one connection when bytes are next, will not come, or came too late."""

from __future__ import annotations

from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.transport.columns import (
    ACKED_TO,
    BASE,
    CONNECTIONS,
    CUT_OFF,
    END,
    ENDED,
    ENTRIES,
    FIN_AT,
    HEAD,
    HOLE,
    HOLES,
    LATE,
    MISSING,
    N_FILE,
    N_FRAME,
    N_LENGTH,
    N_OFFSET,
    N_PACKET,
    N_PLACE,
    N_SOURCE,
    N_TIME,
    NEXT,
    NODES,
    PAYLOAD_BYTES,
    RECENT,
    RECENT_HOLES,
    RECENTS,
    STRAY,
    TOTAL_WAITING,
    UNIQUE,
)
from dcpinspect.transport.entries import enter
from dcpinspect.transport.waiting import NODE_COST, free_node, unlink_head


@inline
def enter_hole(f: int, length: int, packet: int, file: int, time: int, flows: Ints, recent: Ints, entries: Ints, counters: Ints) -> None:
    """The next ``length`` bytes of flow ``f`` will not come; ``packet`` decided it."""
    at = flows[f, NEXT]
    enter(entries, counters, f, at, length, HOLE, packet, 0, file, time, -1)
    row = flows[f, RECENT]
    if row == 0:
        row = counters[RECENTS] + 1
        counters[RECENTS] = row
        flows[f, RECENT] = row
    slot = 2 * (flows[f, HOLES] % RECENT_HOLES)
    recent[row, slot] = at
    recent[row, slot + 1] = at + length
    flows[f, HOLES] += 1
    flows[f, MISSING] += length
    flows[f, NEXT] = at + length


@inline
def late_bytes(f: int, start: int, end: int, flows: Ints, recent: Ints) -> int:
    """How many of the stream bytes [start, end), all before NEXT, were given up earlier or precede the capture."""
    late = max(0, min(end, 0) - start)
    row = flows[f, RECENT]
    for i in range(min(flows[f, HOLES], RECENT_HOLES)):
        late += max(0, min(end, recent[row, 2 * i + 1]) - max(start, recent[row, 2 * i]))
    return int(late)


@inline
def drain(f: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, counters: Ints) -> None:
    """Enters the waiting segments that are next."""
    while flows[f, HEAD] >= 0 and nodes[flows[f, HEAD], N_OFFSET] == flows[f, NEXT]:
        k = flows[f, HEAD]
        length = nodes[k, N_LENGTH]
        if nodes[k, N_SOURCE] == HOLE:
            flows[f, CUT_OFF] += length
            enter_hole(f, length, nodes[k, N_PACKET], nodes[k, N_FILE], nodes[k, N_TIME], flows, recent, entries, counters)
        else:
            enter(
                entries,
                counters,
                f,
                flows[f, NEXT],
                length,
                nodes[k, N_SOURCE],
                nodes[k, N_PACKET],
                nodes[k, N_FRAME],
                nodes[k, N_FILE],
                nodes[k, N_TIME],
                nodes[k, N_PLACE],
            )
            flows[f, NEXT] += length
        unlink_head(f, flows, nodes, counters)


@inline
def give_up_gap(f: int, packet: int, file: int, time: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, counters: Ints) -> None:
    """Makes the gap before the first waiting segment a hole."""
    enter_hole(f, nodes[flows[f, HEAD], N_OFFSET] - flows[f, NEXT], packet, file, time, flows, recent, entries, counters)
    drain(f, flows, recent, nodes, entries, counters)


@inline
def drop_stray(f: int, flows: Ints, nodes: Ints, counters: Ints) -> None:
    """Counts the far-off segment of ``f`` as late."""
    k = flows[f, STRAY]
    if k >= 0:
        flows[f, LATE] += nodes[k, N_LENGTH]
        flows[f, PAYLOAD_BYTES] += nodes[k, N_LENGTH]
        counters[TOTAL_WAITING] -= nodes[k, N_LENGTH] + NODE_COST
        free_node(k, nodes, counters)
        flows[f, STRAY] = -1


@inline
def end_flow(f: int, packet: int, frame: int, file: int, time: int, flows: Ints, nodes: Ints, entries: Ints, counters: Ints) -> None:
    """Nothing more of ``f`` will be entered."""
    while flows[f, HEAD] >= 0:  # bytes beyond a FIN
        k = flows[f, HEAD]
        if nodes[k, N_SOURCE] != HOLE:
            flows[f, UNIQUE] -= nodes[k, N_LENGTH]
            flows[f, LATE] += nodes[k, N_LENGTH]
        unlink_head(f, flows, nodes, counters)
    flows[f, ENDED] = 1
    enter(entries, counters, f, flows[f, NEXT], 0, END, packet, frame, file, time, -1)


@inline
def close_flow(
    f: int, packet: int, frame: int, file: int, time: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, counters: Ints
) -> None:
    """No more packets of ``f`` can come: every gap is a hole, so is what was acknowledged or closed and never seen."""
    drop_stray(f, flows, nodes, counters)
    if flows[f, BASE] < 0 or flows[f, ENDED] == 1:
        return
    while flows[f, HEAD] >= 0 and (flows[f, FIN_AT] < 0 or nodes[flows[f, HEAD], N_OFFSET] <= flows[f, FIN_AT]):
        give_up_gap(f, packet, file, time, flows, recent, nodes, entries, counters)
    target = flows[f, FIN_AT]
    if target < 0:
        target = flows[f, ACKED_TO]
        if target == flows[f, NEXT] + 1:  # the acknowledgement of a FIN that was not captured
            target -= 1
    if target > flows[f, NEXT]:
        enter_hole(f, target - flows[f, NEXT], packet, file, time, flows, recent, entries, counters)
    end_flow(f, packet, frame, file, time, flows, nodes, entries, counters)


@kernel("int64(int64, int64, int64, int64, int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[::1])")
def close_flows(
    start: int, packet: int, file: int, time: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, counters: Ints
) -> int:
    """Ends every flow from ``start`` on, in order, at the end of the input; returns the flow it stopped before, or their number."""
    last = 2 * counters[CONNECTIONS]
    for f in range(start, last):
        if len(entries) - counters[ENTRIES] < 2 * flows[f, NODES] + 8 or len(recent) - counters[RECENTS] < 2:
            return f
        close_flow(f, packet, 0, file, time, flows, recent, nodes, entries, counters)
    return int(last)
