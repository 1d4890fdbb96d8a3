"""Columns of the tables that reassembly works on; each table is an array of int64, one row a thing."""

from __future__ import annotations

# Columns of an entry.
E_FLOW, E_OFFSET, E_LENGTH, E_SOURCE, E_PACKET, E_FRAME, E_FILE, E_TIME, E_PLACE, ENTRY = range(10)
HOLE, END, HELD = -1, -2, -3
"""Sources that are no offset in the batch's data: missing bytes; the flow's end (length 0); ``HELD - n``: at ``n`` in the held bytes.
``E_PLACE`` is the place in the file of held bytes only."""

# Columns of a flow.
(
    BASE, NEXT, FIN_AT, ACKED_TO, STARTED, ENDED, HEAD, TAIL, NODES, WAITING, STRAY, HOLES,
    PACKETS, PAYLOAD_BYTES, UNIQUE, DUPLICATE, LATE, MISSING, CUT_OFF, RECENT, FLOW,
) = range(21)  # fmt: skip
"""BASE: sequence number of stream offset 0, or -1. NEXT: offset of the next byte wanted. FIN_AT, ACKED_TO: offsets, or -1. HEAD, TAIL:
waiting nodes, in order. WAITING: their cost in bytes. STRAY: a segment far out of the window. HOLES: number made so far. From PACKETS
on: accounts. RECENT: row of the flow's recent holes, from 1; 0 while there are none."""

# Columns of a connection.
(
    PAIR, CLIENT_END, SEEN, FIRST_PACKET, OPENED_BY, FIRST_FILE, FIRST_TIME, LAST_TIME,
    CLOSED_HOW, CLOSED_BY, CLOSED_PACKET, CLOSED_FRAME, CLOSED_FILE, CLOSED_TIME, JUMP, CONNECTION,
) = range(16)  # fmt: skip
"""OPENED_BY: the packet that showed it to be one; later than its first packet when that one seemed to be a mistake. CLOSED_BY: direction
of the first FIN or RST, and the packet that had it; or the packet of the connection that came after it on the same addresses. JUMP: how far
its first sequence number is from what the connection before it on the same addresses went on with; 0 where a SYN began it."""

OPEN, BY_FIN, BY_RST, REPLACED = range(4)
"""Values of CLOSED_HOW: no end seen; one end said that it has no more to say; one end dropped the connection; another one runs there."""

# Columns of a node: a waiting segment, or a part of one. ACK_SEEN: packets of the connection when the other side had acknowledged up to
# its start, or -1. PLACE: of held bytes, in the file.
(
    N_OFFSET, N_LENGTH, N_SOURCE, N_PACKET, N_FRAME, N_FILE, N_TIME, N_PLACE, N_ACK_SEEN, N_ACK_TIME, N_NEXT, N_PREVIOUS, N_WIRE, NODE,
) = range(14)  # fmt: skip

# Running numbers of the whole reassembly.
CONNECTIONS, FREE, TOP, LIVE, TOTAL_WAITING, HAND, ENTRIES, FRESH, RECENTS, COUNTERS = range(10)

RECENT_HOLES = 8
"""Holes remembered a flow, to tell late bytes from duplicates."""
