"""Segments that wait for the bytes before them: a list of nodes for each flow, by stream offset, without overlap."""

from __future__ import annotations

from dcpinspect.kernel import Ints, inline
from dcpinspect.transport.columns import (
    ACKED_TO,
    FREE,
    FRESH,
    HEAD,
    HOLE,
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
    NODES,
    TAIL,
    TOP,
    TOTAL_WAITING,
    WAITING,
)

NODE_COST = 256
"""What a waiting segment costs beside its bytes, so that one-byte segments are bounded too (and walks along them stay short)."""


@inline
def free_node(k: int, nodes: Ints, counters: Ints) -> None:
    """Gives node ``k`` back."""
    nodes[k, N_SOURCE] = HOLE
    nodes[k, N_NEXT] = counters[FREE]
    counters[FREE] = k
    counters[LIVE] -= 1


@inline
def new_node(
    offset: int, length: int, source: int, packet: int, frame: int, file: int, time: int, nodes: Ints, fresh: Ints, counters: Ints
) -> int:
    """A node, not linked yet; the caller has made sure that there is room."""
    k = counters[FREE]
    if k >= 0:
        counters[FREE] = nodes[k, N_NEXT]
    else:
        k = counters[TOP]
        counters[TOP] = k + 1
    counters[LIVE] += 1
    nodes[k, N_OFFSET] = offset
    nodes[k, N_LENGTH] = length
    nodes[k, N_SOURCE] = source
    nodes[k, N_PACKET] = packet
    nodes[k, N_FRAME] = frame
    nodes[k, N_FILE] = file
    nodes[k, N_TIME] = time
    nodes[k, N_PLACE] = -1
    nodes[k, N_ACK_SEEN] = -1
    nodes[k, N_ACK_TIME] = 0
    nodes[k, N_NEXT] = -1
    nodes[k, N_PREVIOUS] = -1
    nodes[k, N_WIRE] = length
    fresh[counters[FRESH]] = k
    counters[FRESH] += 1
    return int(k)


@inline
def cost_of(k: int, nodes: Ints) -> int:
    """What node ``k`` counts against the limits."""
    return int(NODE_COST + (nodes[k, N_LENGTH] if nodes[k, N_SOURCE] != HOLE else 0))


@inline
def insert(
    f: int,
    start: int,
    length: int,
    source: int,
    packet: int,
    frame: int,
    file: int,
    time: int,
    seen: int,
    flows: Ints,
    nodes: Ints,
    fresh: Ints,
    counters: Ints,
) -> int:
    """Keeps stream bytes [start, start + length) waiting where no earlier segment has them; returns how many were new."""
    end = start + length
    head = flows[f, HEAD]
    before = -1 if head >= 0 and nodes[head, N_OFFSET] > start else flows[f, TAIL]
    while before >= 0 and nodes[before, N_OFFSET] > start:
        before = nodes[before, N_PREVIOUS]
    after = nodes[before, N_NEXT] if before >= 0 else flows[f, HEAD]
    at = start
    if before >= 0:
        at = max(at, nodes[before, N_OFFSET] + nodes[before, N_LENGTH])
    used = 0
    while at < end:
        stop = end
        if after >= 0:
            stop = min(end, nodes[after, N_OFFSET])
        if stop > at:
            k = new_node(at, stop - at, source + at - start if source >= 0 else source, packet, frame, file, time, nodes, fresh, counters)
            if at <= flows[f, ACKED_TO]:
                nodes[k, N_ACK_SEEN] = seen
                nodes[k, N_ACK_TIME] = time
            nodes[k, N_PREVIOUS] = before
            nodes[k, N_NEXT] = after
            if before >= 0:
                nodes[before, N_NEXT] = k
            else:
                flows[f, HEAD] = k
            if after >= 0:
                nodes[after, N_PREVIOUS] = k
            else:
                flows[f, TAIL] = k
            cost = cost_of(k, nodes)
            flows[f, WAITING] += cost
            flows[f, NODES] += 1
            counters[TOTAL_WAITING] += cost
            used += stop - at
            before = k
        if after < 0:
            break
        at = max(at, nodes[after, N_OFFSET] + nodes[after, N_LENGTH])
        before = after
        after = nodes[after, N_NEXT]
    return int(used)


@inline
def unlink_head(f: int, flows: Ints, nodes: Ints, counters: Ints) -> None:
    """Frees the first waiting node of ``f``."""
    k = flows[f, HEAD]
    cost = cost_of(k, nodes)
    flows[f, WAITING] -= cost
    flows[f, NODES] -= 1
    counters[TOTAL_WAITING] -= cost
    after = nodes[k, N_NEXT]
    flows[f, HEAD] = after
    if after >= 0:
        nodes[after, N_PREVIOUS] = -1
    else:
        flows[f, TAIL] = -1
    free_node(k, nodes, counters)
