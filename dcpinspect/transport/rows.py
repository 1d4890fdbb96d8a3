"""What reassembly remembers: every record of it, each field with what it means. A *flow* is one direction of one connection."""

from __future__ import annotations

from dcpinspect.structs import Ints, Rows, Struct, T, Tables, nested, number

HOLE, END, HELD = -1, -2, -3
"""Sources that are no offset in the batch's data: missing bytes; the flow's end (length 0); ``HELD - n``: at ``n`` in the held bytes."""

OPEN, BY_FIN, BY_RST, REPLACED = range(4)
"""Values of ``Connection.closed_how``: no end seen; one end said that it has no more to say; one end dropped the connection; another one
runs there."""

RECENT_HOLES = 8
"""Holes remembered a flow, to tell late bytes from duplicates."""


class Packet(Struct[T]):
    """A packet."""

    frame: T = number("Its frame in its file; 0 if it came in no frame.")
    file: T = number("Its file, from 0.")
    time: T = number("Its capture time in nanoseconds.")
    number: T = number("Its number over the whole reading.")


class Segment(Struct[T]):
    """The bytes that a packet brings."""

    seq: T = number("Sequence number of the first.")
    have: T = number("How many were captured.")
    full: T = number("How many there were on the wire.")
    source: T = number("Where the first is in the batch's data, or HELD and below.")
    place: T = number("Place of held bytes in the file, or -1.")
    packet: Packet[T] = nested(Packet, "The packet.")


class Entry(Struct[T]):
    """Bytes that are next in a flow."""

    flow: T = number("The flow.", of="flows")
    offset: T = number("Stream offset of the first.")
    length: T = number("How many.")
    source: T = number("Where they are in the batch's data, or HOLE and below.")
    packet: Packet[T] = nested(Packet, "The packet that has them, or showed that they will not come.")
    place: T = number("Place of held bytes in the file.")


class Entries(Entry[Ints], Rows[Entry]):
    """The entries of a batch, in the order found."""


class Flow(Struct[T]):
    """A direction of a connection: those of connection n are at 2 n and 2 n + 1."""

    base: T = number("Sequence number of stream offset 0, or -1.", reset=-1)
    next: T = number("Stream offset of the next byte wanted.")
    fin_at: T = number("Stream offset of the FIN, or -1.", reset=-1)
    acked_to: T = number("Stream offset up to which the other side has acknowledged, or -1.", reset=-1)
    started: T = number("Its first byte is known from a SYN.")
    ended: T = number("Nothing more of it will be entered.")
    head: T = number("First of the segments that wait, in order.", reset=-1, of="nodes")
    tail: T = number("Last of them.", reset=-1, of="nodes")
    nodes: T = number("How many they are.")
    waiting: T = number("Their cost in bytes.")
    stray: T = number("A segment far out of the window.", reset=-1, of="nodes")
    holes: T = number("Holes made so far.")
    packets: T = number("Packets so far.")
    payload: T = number("Bytes captured.")
    unique: T = number("Bytes given out in chunks, or still waiting.")
    duplicate: T = number("Bytes that had come before.")
    late: T = number("Bytes that came after they were given up, or before the first byte, or belong to no connection.")
    missing: T = number("Bytes in holes.")
    cut_off: T = number("Those of them that snaplen cut off.")
    recent: T = number("Its recent holes are RECENT_HOLES rows from this one times that on; 0 while there are none.")
    number: T = number("Its number.", of="flows")


class Flows(Flow[Ints], Rows[Flow]):
    """The directions of all connections."""


class Connection(Struct[T]):
    """A connection, from 0 on."""

    pair: T = number("Number of its address pair.")
    client_end: T = number("Which end of that is the client.")
    seen: T = number("Packets so far.")
    first_packet: T = number("Number of its first packet.")
    opened_by: T = number(
        "Number of the packet that showed it to be one; later than its first packet when that one seemed to be a mistake."
    )
    first_file: T = number("File of its first packet.")
    first_time: T = number("Time of its first packet.")
    last_time: T = number("Time of its latest packet.")
    closed_how: T = number("OPEN and those after it.")
    closed_by: T = number("Direction of the first FIN or RST, -1 where another connection came on its addresses.")
    closed: Packet[T] = nested(Packet, "The packet that had it; or the packet of the connection that came after it on the same addresses.")
    jump: T = number(
        "How far its first sequence number is from what the connection before it on the same addresses went on with; 0 after a SYN."
    )


class Connections(Connection[Ints], Rows[Connection]):
    """The connections of a reading."""


class Node(Struct[T]):
    """A segment that waits, or a part of one."""

    offset: T = number("Stream offset of its first byte; of a stray one, its sequence number.")
    length: T = number("Its bytes.")
    source: T = number("Where they are, as in ``Entry``.")
    packet: Packet[T] = nested(Packet, "The packet that has it.")
    place: T = number("Place of held bytes in the file.")
    ack_seen: T = number("Packets of the connection when the other side had acknowledged up to its start, or -1.")
    ack_time: T = number("The time of that.")
    next: T = number("The next one of the same flow, or of the free ones.", of="nodes")
    previous: T = number("The one before it.", of="nodes")
    wire: T = number("Bytes that it had on the wire.")


class Nodes(Node[Ints], Rows[Node]):
    """The segments that wait."""


class Hole(Struct[T]):
    """Bytes of a flow that will not come."""

    start: T = number("Stream offset of the first.")
    end: T = number("Stream offset after the last.")


class Holes(Hole[Ints], Rows[Hole]):
    """The recent holes of flows, RECENT_HOLES rows each; the first ones are nobody's."""


class Counts(Struct[T]):
    """How full the tables are."""

    connections: T = number("Connections.")
    free: T = number("First of the nodes that are free again.", reset=-1, of="nodes")
    top: T = number("Nodes that were ever used.")
    live: T = number("Nodes in use.")
    waiting: T = number("What all waiting segments cost, in bytes.")
    hand: T = number("The flow that gives up next what it holds, where too much waits.", of="flows")
    entries: T = number("Entries.")
    fresh: T = number("Nodes made in this batch.")
    recent: T = number("Flows that have recent holes.")


class TransportTables(Tables):
    """What the kernels work on."""

    segment: Segment
    """The packet at hand."""
    stray: Segment
    """A far-off segment that waited for the packet at hand."""
    connections: Connections
    flows: Flows
    recent: Holes
    nodes: Nodes
    entries: Entries
    fresh: Ints
    """Numbers of the nodes made in this batch, whose bytes are in its data."""
    current: Ints
    """The connection of each address pair, or -1."""
    counts: Counts
