"""The records that reassembly remembers, with the meaning of each field.

A *side* is one direction of one connection, a *flow* what it carried. A scan or a flood has
millions of connections without a byte of payload; these have no flows. If a connection carried
little, and nothing was lost or doubled, one number says everything about its flows: they are put
aside.
"""

from __future__ import annotations

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.structs import Struct, StructRows, T, Tables, nested, number
from dcpinspect.transport.chunk import Packet, StreamEntries

HOLE, END, HELD = -1, -2, -3
"""Sources that are no offset in the batch's data. HOLE: missing bytes. END: the flow's end (length
0). ``HELD - n``: at ``n`` in the held bytes.
"""

OPEN, BY_FIN, BY_RST, REPLACED = range(4)
"""Values of ``TcpConnectionRow.closed_how``: no end was seen; one end said that it has no more to
say; one end dropped the connection; another connection runs on the addresses.
"""

ASIDE_BITS = 15
"""Bits of ``-1 - TcpConnectionRow.flows`` for each flow that is put aside: 2 times ``next``, and 1 more
if all of it was acknowledged.
"""

FRAME_BITS = 40
"""Bits of ``PackedPacket.place`` below the number of the file."""

SENT, GIVEN_UP = 1, 2
"""Values of ``Flow.passed``; 0 means neither."""

SHUT_NS = 1_000_000_000
"""A receive window of 0 that lasts so long is counted: a reader that is only slow for a moment is
none of interest.
"""

RECENT_HOLES, RECENT_LATES, LONGEST_SHUTS = 8, 32, 16
"""Number of holes remembered for each flow, to tell late bytes from duplicates; of late
acknowledgements; and of times when its sender took nothing.
"""

LATE_NS = 500_000_000
"""An acknowledgement is late if bytes were sent again for so long before it came."""


FILE_BIT = 40
"""From this bit up, a number of a frame has the number of its file."""


class Segment(Struct[T]):
    """The bytes that a packet brings."""

    seq: T = number("Sequence number of the first.")
    captured: T = number("How many were captured.")
    on_wire: T = number("How many there were on the wire.")
    source: T = number("Where the first is in the batch's data, or HELD and below.")
    place: T = number("Place of held bytes in the file, or -1.")
    acked: T = number(
        "Stream offset up to which its sender had the other direction, if that is not all "
        "there by now; else 0."
    )
    network: T = number("The network in which it was, as ``headers.network_of`` has it.")
    flags: T = number(
        "TCP flags of the packet; this field and those below are not set for bytes that waited."
    )
    ack: T = number("Its acknowledgement number.")
    receive_window: T = number("The receive window in its header.")
    extra: T = number("Bytes behind the end that its IP header tells, as many as were captured.")
    extra_on_wire: T = number("How many of them there were on the wire.")
    copy_ns: T = number("``copies_ns`` of its flow at least, as the packet itself shows it.")
    packet: Packet[T] = nested(Packet, "The packet.")


class Side(Struct[T]):
    """A direction of a connection, whether it carried a byte or not. The directions of connection n
    are at 2 n and 2 n + 1.
    """

    packets: T = number("Packets so far.")
    base: T = number("Sequence number of stream offset 0, less 2**32 from 2**31 on.", bits=32)
    has_base: T = number("Whether ``base`` is known.", bits=8)
    started: T = number("Its first byte is known from a SYN.", bits=8)
    ended: T = number("Nothing more of it will be entered.", bits=8)
    has_fin: T = number("A FIN said where it ends.", bits=8)


class Sides(Side[IntArray], StructRows[Side]):
    """The directions of all connections. A flood has millions, so each byte counts."""


class Flow(Struct[T]):
    """What a direction carried. The two flows of a connection are next to each other; they are made
    once there are bytes, or some are known to be missing.
    """

    next: T = number("Stream offset of the next byte wanted.")
    fin_at: T = number(
        "Stream offset of the FIN, where there is one; or that an RST or a packet without bytes "
        "has, where there should be bytes before it."
    )
    acked_to: T = number("Stream offset up to which the other side has acknowledged.")
    acked_at: T = number(
        "When the other side acknowledged all that had been sent, so that nothing older is on its "
        "way; LATE_NS before it acknowledged a part. 0: it did not."
    )
    resent_since: T = number(
        "Time since when the first bytes that the other side has not acknowledged are sent again; 0: "
        "they are not."
    )
    acked_at_end: T = number(
        "Stream offset up to which the other side acknowledged with its FIN, where that is more than "
        "was captured by then."
    )
    head: T = number("First of the segments that wait, in order.", reset=-1, of="nodes", bits=32)
    tail: T = number("Last of the segments that wait.", reset=-1, of="nodes", bits=32)
    near: T = number(
        "The latest segment that was put before another one.", reset=-1, of="nodes", bits=32
    )
    passed: T = number(
        "0; SENT: a packet was sent after the next byte wanted; GIVEN_UP: the other direction "
        "waits for that no more.",
        bits=32,
    )
    waiting: T = number("Cost in bytes of the segments that wait.")
    stray: T = number(
        "A packet that cannot belong to its connection, and waits for another one to agree "
        "with it.",
        reset=-1,
        of="nodes",
        bits=32,
    )
    trailing_bytes: T = number(
        "Bytes behind the end that an IP header told: of the direction, if their end is one of "
        "its numbers.",
        reset=-1,
        of="nodes",
        bits=32,
    )
    nodes: T = number("Number of the segments that wait.", bits=32)
    resent_ms: T = number("How long after ``resent_since`` that was last, in ms.", bits=32)
    unproven: T = number("Such bytes that may be of the direction or not: no packet shows it.")
    payload: T = number("Bytes captured.")
    unique: T = number("Bytes given out in chunks, or still waiting.")
    duplicate: T = number("Bytes that had come before.")
    late: T = number(
        "Bytes that came after they were given up, or before the first byte, or belong to no "
        "connection."
    )
    filled: T = number("Late bytes that are in holes.")
    missing: T = number("Bytes in holes.")
    cut_off: T = number("Bytes in holes that snaplen cut off.")
    copies_ns: T = number(
        "How long what is cut off waits for a copy that has it; 0: its packets that were cut do not "
        "come before whole copies."
    )
    holes: T = number("Holes made so far.", bits=32)
    recent: T = number(
        "Its recent holes are RECENT_HOLES rows from this one times that on; 0 while it has none.",
        bits=32,
    )
    late_acks: T = number("Late acknowledgements so far.", bits=32)
    lates: T = number("As ``recent``, of these.", bits=32)
    released: T = number("Greatest number of a packet of what was given out.")
    opened_by: T = number(
        "Number of the packet that showed its connection to be one, where the first packet had "
        "seemed to be a mistake; else 0."
    )
    jump: T = number(
        "How far the first sequence number is from what the connection before it on the same "
        "addresses went on with; 0 after a SYN."
    )
    shut_since: T = number(
        "Time since when its sender announces a receive window of 0; 0: it does not."
    )
    shut_place: T = number("Frame of that packet, with its file from bit FILE_BIT up.")
    shuts: T = number("Such times of at least SHUT_NS that are over.", bits=32)
    shut_spells: T = number("As ``recent``, of the longest of these.", bits=32)
    number: T = number("Its direction.", of="sides", bits=32)


class Flows(Flow[IntArray], StructRows[Flow]):
    """Flows of connections that carried bytes. The first two rows are nobody's and never written:
    all connections without flows share them.
    """


class PackedPacket(Struct[T]):
    """A packet of a connection, of which there may be millions."""

    place: T = number("Its file, from 0, above the ``FRAME_BITS`` bits of its frame in it.")
    time: T = number("Its capture time in nanoseconds.")
    number: T = number("Its number over the whole reading.")


class TcpConnectionRow(Struct[T]):
    """A connection, from 0 on."""

    first: PackedPacket[T] = nested(PackedPacket, "Its first packet.")
    last_time: T = number("Time of its latest packet.")
    closed: PackedPacket[T] = nested(
        PackedPacket,
        "The packet that had it; or the packet of the connection that came after it on the "
        "same addresses. While it is open, only the file of its latest packet.",
    )
    pair: T = number("Number of its address pair.", bits=32)
    flows: T = number(
        "The first of its flows, 0 while it has none; less than 0 where they are put aside.",
        of="flows",
        least=-(1 << 2 * ASIDE_BITS),
        bits=32,
    )
    network: T = number("The network in which the packet was that opened it.", bits=32)
    client_end: T = number("Which end of the address pair is the client.", bits=8)
    closed_how: T = number("OPEN and those after it.", bits=8)
    closed_by: T = number(
        "Direction of the first FIN or RST, -1 where another connection came on its addresses.",
        bits=8,
    )
    unreached: T = number(
        "The factor of ``headers.UNREACHED`` of the latest ICMP error about its packets, "
        "negative where the server sent what did not"
        " arrive; 0 for none, or once the end that was not reached was heard again.",
        bits=8,
    )


class TcpConnectionRows(TcpConnectionRow[IntArray], StructRows[TcpConnectionRow]):
    """The connections of a reading."""


class EndpointPair(Struct[T]):
    """The addresses and ports that two ends talk on."""

    latest: T = number(
        "The connection that was met there last, from 1; 0 where none is known any more.", bits=32
    )
    former: T = number("As ``latest``, of the connection that was met there before it.", bits=32)
    network: T = number(
        "The network in which the first packet was: what is said of ``latest`` is of this one.",
        bits=32,
    )
    routes: T = number(
        "The first of its routes; 0: all packets were in one network.", bits=32, of="routes"
    )


class EndpointPairs(EndpointPair[IntArray], StructRows[EndpointPair]):
    """The address pairs, by number as in ``AddressPairs``."""


class Route(Struct[T]):
    """A further network in which packets of an address pair were."""

    pair: T = number("The address pair.", bits=32)
    network: T = number("The network.", bits=32)
    latest: T = number("As in ``EndpointPair``.", bits=32)
    next: T = number("The next route of the pair, or 0.", bits=32, of="routes")


class Routes(Route[IntArray], StructRows[Route]):
    """The routes of all address pairs; the first one is nobody's."""


class WaitingSegment(Struct[T]):
    """A segment that waits, or a part of one."""

    offset: T = number("Stream offset of its first byte; of a stray one, the sequence number.")
    length: T = number("Its bytes.")
    source: T = number("Where they are, as in ``StreamEntry``.")
    packet: Packet[T] = nested(Packet, "The packet that has it.")
    place: T = number("Place of held bytes in the file.")
    ack_seen: T = number(
        "Packets of the connection when the other side had acknowledged up to its start, or -1."
    )
    ack_time: T = number("The time of that.")
    needs: T = number(
        "Stream offset up to which its sender had the other direction, as ``Segment.acked``; "
        "of a stray one, what it acknowledges."
    )
    flags: T = number("The TCP flags of a stray one.")
    network: T = number("The network of a stray one.")
    next: T = number("The next one of the same flow, or of the free ones.", of="nodes")
    previous: T = number("The one before it.", of="nodes")
    wire: T = number("Bytes that it had on the wire.")


class Nodes(WaitingSegment[IntArray], StructRows[WaitingSegment]):
    """The segments that wait."""


class FlowHole(Struct[T]):
    """Bytes of a flow that will not come."""

    start: T = number("Stream offset of the first.")
    end: T = number("Stream offset after the last.")


class FlowHoles(FlowHole[IntArray], StructRows[FlowHole]):
    """The recent holes of flows, RECENT_HOLES rows for each flow that has any; the first ones are
    nobody's.
    """


class LateBytes(Struct[T]):
    """Bytes of a flow that were sent again until the other side acknowledged them."""

    start: T = number("Stream offset of the first.")
    end: T = number("Stream offset after the last that was on its way then.")
    sent: T = number("``Flow.acked_at`` before.")
    since: T = number("When they were sent again first.")
    time: T = number("When the other side had acknowledged them, or the latest of them so far.")


class LateRows(LateBytes[IntArray], StructRows[LateBytes]):
    """The recent bytes of flows that arrived late, kept as ``FlowHoles`` are, RECENT_LATES each."""


class ShutSpell(Struct[T]):
    """When the sender of a flow announced a receive window of 0."""

    since: T = number("``Flow.shut_since``.")
    place: T = number("``Flow.shut_place``.")
    until: T = number("When the window was open again.")


class ShutSpells(ShutSpell[IntArray], StructRows[ShutSpell]):
    """The longest of these that are over, kept as ``FlowHoles`` are, LONGEST_SHUTS each."""


class TableCounts(Struct[T]):
    """How full the tables are."""

    connections: T = number("Connections.")
    free: T = number("First of the nodes that are free again.", reset=-1, of="nodes")
    top: T = number("Nodes that were ever used.")
    live: T = number("Nodes in use.")
    waiting: T = number("What all waiting segments cost, in bytes.")
    next_to_relieve: T = number(
        "The flow that gives up next what it holds, where too much waits.", reset=2, of="flows"
    )
    flows: T = number("Flows, with the two that are nobody's.", reset=2)
    entries: T = number("Entries.")
    fresh: T = number("Nodes made in this batch.")
    recent: T = number("Flows that have recent holes.")
    lates: T = number("Flows of which bytes arrived late.")
    shuts: T = number("Flows of which ``shut_spells`` are kept.")
    routes: T = number("Routes, with the one that is nobody's.", reset=1)


class TransportTables(Tables):
    """The tables that the kernels work on."""

    segment: Segment
    """The bytes of the current packet."""
    stray: Segment
    """A far-off segment that waited for the current packet."""
    connections: TcpConnectionRows
    address_pairs: EndpointPairs
    routes: Routes
    sides: Sides
    flows: Flows
    recent: FlowHoles
    lates: LateRows
    shuts: ShutSpells
    nodes: Nodes
    entries: StreamEntries
    fresh: IntArray
    """Numbers of the nodes made in this batch; their bytes are in the batch's data."""
    counts: TableCounts
