"""Gaps whose wait is over though no packet says so: live, time passes while a connection is silent."""

from __future__ import annotations

from dcpinspect.kernel import Ints, kernel
from dcpinspect.transport.columns import CONNECTIONS, ENDED, ENTRIES, FIN_AT, HEAD, N_ACK_SEEN, N_ACK_TIME, NEXT, NODES, RECENTS
from dcpinspect.transport.flows import end_flow, give_up_gap
from dcpinspect.transport.ordering import WAIT_NS


@kernel("int64(int64, int64, int64, int64, int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[::1])")
def give_up_overdue(
    start: int, packet: int, file: int, time: int, flows: Ints, recent: Ints, nodes: Ints, entries: Ints, counters: Ints
) -> int:
    """Makes holes of the gaps that were acknowledged ``WAIT_NS`` before ``time``, in flows from ``start`` on, in order.

    Returns the flow it stopped before for want of room, or their number. One step a flow, and one a segment that waited.
    """
    last = 2 * counters[CONNECTIONS]
    for f in range(start, last):
        if flows[f, HEAD] < 0:
            continue
        if len(entries) - counters[ENTRIES] < 2 * flows[f, NODES] + 8 or len(recent) - counters[RECENTS] < 2:
            return f
        while flows[f, HEAD] >= 0:
            k = flows[f, HEAD]
            if nodes[k, N_ACK_SEEN] < 0 or time - nodes[k, N_ACK_TIME] < WAIT_NS:
                break
            give_up_gap(f, packet, file, time, flows, recent, nodes, entries, counters)
        if flows[f, ENDED] == 0 and 0 <= flows[f, FIN_AT] <= flows[f, NEXT]:
            end_flow(f, packet, 0, file, time, flows, nodes, entries, counters)
    return int(last)
