"""Packets in, ordered bytes out: every direction of every connection as ``StreamChunk``, with holes
and the origin of bytes.

Duties: number address pairs and connections; have ``ordering`` decide which bytes come next; copy
those bytes, once, into chunks. Further duties: keep the bytes of segments that wait longer than a
batch; count every payload byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray, grown, only, unique
from dcpinspect.capture.batch import FilePieces, PacketBatch
from dcpinspect.kernels.kernel import Kernel
from dcpinspect.kernels.structs import StructRows
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.transport.chunk import (
    C2S,
    NOWHERE,
    S2C,
    SCATTERED,
    FirstBytes,
    StreamChunk,
    StreamEntries,
)
from dcpinspect.transport.connections import DEFAULT_PORTS, AddressPairs
from dcpinspect.transport.directions import Directions
from dcpinspect.transport.flow_records import (
    ASIDE_BITS,
    BY_RST,
    END,
    FRAME_BITS,
    HELD,
    HOLE,
    LONGEST_SHUTS,
    OPEN,
    RECENT_HOLES,
    RECENT_LATES,
    EndpointPairs,
    FlowHoles,
    Flows,
    LateRows,
    Nodes,
    Routes,
    Segment,
    ShutSpells,
    Sides,
    TableCounts,
    TcpConnectionRows,
    TransportTables,
)
from dcpinspect.transport.flows import close_sides, put_aside
from dcpinspect.transport.headers import CAPTURED, NETWORK, SEQ, WIRE, HeaderParser, within
from dcpinspect.transport.next_bytes import GatherTables, gather
from dcpinspect.transport.ordering import MAX_TOTAL_WAITING, PacketTables, order_segments
from dcpinspect.transport.overdue import give_up_overdue
from dcpinspect.transport.packet_owners import MASK
from dcpinspect.transport.scapy_dissection import UnusualPackets
from dcpinspect.transport.waiting import WAIT_NS

if TYPE_CHECKING:
    from dcpinspect.transport.capture_survey import Copies

TransportRows = TypeVar("TransportRows", bound=StructRows[Any])

_CLOSED = ("", "fin", "rst", "replaced")
COUNTED = ("payload", "unique", "duplicate", "late", "filled", "missing", "cut_off", "holes")
"""Fields of a flow, in the order in which ``DirectionAccount`` has them after ``packets``."""

MOST_LAST = 1 << 14
"""Number of finished connections that stay after ``Reassembler.keep``: the latest of those that
were the last on their addresses.
"""

MANY_FLOWS = 1 << 14
"""Before there are more flows than this, some are put aside."""

LEAST_COPIES_NS = 1_000_000
"""So long at least a copy is waited for, where copies come: four times as long as the latest took.
"""

MAX_FILLED_HOLE = 8 << 10
"""A longer hole is not filled with zeros but stepped over, and framing fills what it needs of it.
Otherwise a batch of large frames cut by snaplen, or of frames that lie about their length, would
take gigabytes.
"""
AT_ONCE = 1 << 16
"""Number of connections that are looked at together: there may be millions."""
MAX_FILLED = 64 << 20
"""Greatest number of zeros in a chunk, so that a capture of holes does not fill the memory."""


@dataclass(frozen=True, slots=True)
class DirectionAccount:
    """Where a direction's TCP payload went, in bytes: ``captured == unique + duplicate + late``."""

    connection: int
    direction: int
    packets: int
    captured: int
    unique: int
    """Bytes given out in chunks, or still waiting."""
    duplicate: int
    late: int
    """Bytes that came after they were given up, or before the first byte of the reading, or that
    belonged to no connection.
    """
    filled: int
    """Those of them that are in ``missing``."""
    missing: int
    """Bytes in holes; not part of ``captured``."""
    cut: int
    """Bytes of ``missing`` that snaplen cut off."""
    holes: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a connection was seen, and how it ended."""

    first_file: int
    """File of its first packet, by number in the reading, from 0."""
    first_frame: int
    """Number of that packet in its file."""
    first_ns: int
    """Capture time of its first packet."""
    last_ns: int
    """Capture time of its latest packet so far."""
    closed: str
    """``fin``, ``rst``, ``replaced`` (a new connection runs on its addresses), or empty while no
    end was seen.
    """
    closed_by: int
    """``C2S`` or ``S2C``: the direction of the FIN or RST; -1 where no packet says it."""
    closed_packet: int
    """Number, over the whole reading, of the packet that showed the end; the next three fields are
    of that packet, too.
    """
    closed_frame: int
    closed_file: int
    closed_ns: int
    jump: int
    """Distance of its first sequence number from where the last connection on the same addresses
    was. It is 0 unless only this distance showed that it is another connection.
    """


class Reassembler:
    """Turns packets into chunks: ``feed`` batches, in order; ``finish`` once. The chunks' bytes do
    not depend on where the batches end.
    """

    def __init__(
        self,
        ports: tuple[int, ...] | None = DEFAULT_PORTS,
        *,
        every_port: bool = False,
        with_places: bool = False,
    ) -> None:
        """``ports``: TCP ports that are looked at; they are also taken for the servers' ports. With
        ``every_port``, or ``None``, all ports are looked at.

        ``with_places``: chunks say where their bytes are in the file.
        """
        self.headers = HeaderParser(None if every_port else ports)
        """Counts every packet by class, and the ports seen that are not ours."""
        self._unusual = UnusualPackets(self.headers)
        self.pairs = AddressPairs()
        self.packets = 0
        """Number of packets of the whole reading so far; the last one fed has the number before."""
        self._server_ports = np.zeros(65_536, np.uint8)
        self._server_ports[list(ports if ports is not None else DEFAULT_PORTS)] = 1
        self._tables = tables = PacketTables()
        tables.segment = Segment.single()
        tables.stray = Segment.single()
        tables.counts = TableCounts.single()
        tables.connections = TcpConnectionRows.zeros(16)
        tables.sides = Sides.zeros(32)
        tables.recent = FlowHoles.zeros(64 * RECENT_HOLES)
        tables.lates = LateRows.zeros(8 * RECENT_LATES)
        tables.shuts = ShutSpells.zeros(8 * LONGEST_SHUTS)
        tables.flows = Flows(grown(Flows.reset(2).array, 32))
        tables.nodes = Nodes.zeros(256)
        tables.entries = StreamEntries.zeros(0)
        tables.address_pairs = EndpointPairs.zeros(16)
        tables.routes = Routes.zeros(4)
        tables.fresh = tables.index = tables.pairs = tables.ends = np.empty(0, np.int64)
        tables.times = tables.packets = tables.frames = tables.files = tables.index
        tables.copies = tables.index
        self.copies: Copies | None = None
        """Packets that are not looked at: other captures have them whole."""
        self.take_first: Callable[[FirstBytes], BoolArray | None] | None = None
        """Gets the first bytes of directions, and returns a mask of directions of which no chunk is
        wanted; None: chunks of all are wanted.
        """
        # sums of connections that left memory, by direction
        self._dropped = np.zeros((2, 1 + len(COUNTED)), np.int64)
        self._held: ByteArray = np.empty(0, np.uint8)
        self._held_used = 0
        self._with_places = with_places
        self._file_offset = self._data_size = 0  # of the current batch
        self._pieces: FilePieces | None = None
        # of bytes that are not in the batch, as UnusualPackets.resolve returns it
        self._origins = np.empty((0, 2), np.int64)
        self._file = 0
        self._time_ns = 0

    def feed(self, batch: PacketBatch) -> Iterator[StreamChunk]:
        """Yields what ``batch`` adds to the streams: by connection, client to server first; usually
        one chunk for a direction with new bytes.

        Chunks are made one by one, until the next call.
        """
        self._file_offset, self._data_size = batch.file_offset, len(batch.data)
        self._pieces = batch.pieces
        headers, data, self._origins = self._unusual.resolve(batch, self.headers.parse(batch))
        if self.copies is not None:
            headers = self.headers.without(batch, headers, self.copies.mask(batch, headers))
        if len(batch):
            self.packets = 1 + batch.packet_at(len(batch) - 1)
            self._file, self._time_ns = batch.file, int(batch.time_ns[-1])
        if not len(headers.index):
            return iter(())
        if (lanes := batch.lanes) is not None:
            lane, network = lanes[headers.index], headers.tcp[:, NETWORK]
            # packets of one connection are known by their sequence numbers, in whatever file
            headers.tcp[:, NETWORK] = np.where(
                lane,
                within(network, lane),  # type: ignore[arg-type] # of whole columns
                network,
            )
        pairs, ends = self.pairs.find(headers.tcp)
        tables, counts, count = self._tables, self._tables.counts, len(headers.index)
        if self.pairs.count > len(tables.address_pairs):
            tables.address_pairs = EndpointPairs(
                grown(tables.address_pairs.array, self.pairs.count)
            )
        counts.entries = counts.fresh = 0
        capacity = count + 2 * counts.live + 128
        tables.entries = StreamEntries.zeros(capacity)
        tables.fresh = np.zeros(capacity, np.int64)  # kept in states, so no old memory
        tables.index, tables.pairs, tables.ends = headers.index, pairs, ends
        tables.copies = _copy_waits(2 * pairs + ends, headers.tcp, batch.time_ns[headers.index])
        tables.times, tables.packets, tables.frames = batch.time_ns, batch.packets, batch.frames
        tables.files, tables.segment.place = batch.files, -1
        row = 0
        while True:
            row = order_segments(row, headers.tcp, self._server_ports, tables)
            if row == count:
                break
            self._make_room()
        chunks = self._chunks(data)
        self._hold(data, tables.fresh[: counts.fresh])
        return chunks

    def pass_time(self, time_ns: int) -> Iterator[StreamChunk]:
        """Yields what no longer waits for the bytes before it, now that capture time is
        ``time_ns``; it is released by the last packet fed.
        """
        # what is written block by block comes later than its times tell
        copies_ns = self._tables.flows.copies_ns
        copies_ns[copies_ns > 0] = WAIT_NS
        if self._tables.counts.live:
            yield from self._swept(give_up_overdue, max(0, self.packets - 1), time_ns)

    def finish(self) -> Iterator[StreamChunk]:
        """Yields what was still waiting, and the end of every direction that has not ended; it is
        released by packet ``packets``, one past the last.
        """
        self._unusual.finish()
        yield from self._swept(close_sides, self.packets, self._time_ns)
        self._held = np.empty(0, np.uint8)
        self._held_used = 0

    def _swept(
        self, kernel: Kernel[[int, TransportTables], int], packet: int, time_ns: int, side: int = 0
    ) -> Iterator[StreamChunk]:
        """Yields what ``kernel`` enters for all directions from ``side`` on, at a packet. The
        kernel takes the direction to begin with, and returns the one where it stopped.
        """
        tables = self._tables
        packet_record = tables.segment.packet
        packet_record.number = packet
        packet_record.frame = 0
        packet_record.file = self._file
        packet_record.time = time_ns
        while True:
            tables.counts.entries = 0
            tables.entries = StreamEntries.zeros(4 * self._most_nodes + 4096)
            if len(tables.recent) - RECENT_HOLES * tables.counts.recent < 2 * RECENT_HOLES:
                tables.recent = _grown(tables.recent, 0)
            if len(tables.flows) - tables.counts.flows < 2:
                tables.flows = _grown(tables.flows, 0)
            side = kernel(side, tables)
            yield from self._chunks(np.empty(0, np.uint8))
            if side == 2 * tables.counts.connections:
                return

    @property
    def _most_nodes(self) -> int:
        """Greatest number of segments that wait in one flow."""
        return int(self._tables.flows.nodes[: self._tables.counts.flows].max())

    def take_companions(self) -> list[tuple[int, int]]:
        """Returns (packet that gave bytes, another packet with a fragment of the same datagram), by
        number, for those found since the last call.
        """
        companions, self._unusual.companions = self._unusual.companions, []
        return companions

    @property
    def _connections(self) -> TcpConnectionRows:
        return self._tables.connections[: self._tables.counts.connections]

    @property
    def pair_of_connection(self) -> IntArray:
        """The number in ``pairs`` of each connection met so far."""
        return self._connections.pair.astype(np.int64)

    @property
    def first_packets(self) -> IntArray:
        """The first packet of each connection met so far."""
        return self._connections.first.number.astype(np.int64)

    def end(self, connection: int, side: int) -> str:
        """Returns the address of a connection's client (``side`` 0) or server (1), as text."""
        row = self._tables.connections[connection - 1]
        return self.pairs.address(row.pair, row.client_end ^ side)

    def ports(self, first: int, side: int) -> IntArray:
        """Returns the ports of the clients (``side`` 0) or servers (1) of connections met so far,
        from number ``first`` on.
        """
        met = self._connections[first:]
        return self.pairs.ports(met.pair, met.client_end ^ side)

    def handshakes(self, first: int) -> BoolArray:
        """Returns whether the SYN was captured, for connections from number ``first`` on."""
        started = self._tables.sides.started[2 * first : 2 * self.count]
        has_handshake: BoolArray = (started.reshape(-1, 2) != 0).any(axis=1)
        return has_handshake

    @property
    def opened_by(self) -> IntArray:
        """The packet that showed each connection met so far to be a connection; the packets differ
        and are in order.
        """
        return np.maximum(
            self._connections.first.number, self._tables.flows.opened_by[self._first_flows()]
        )

    def have_handshake(self, connections: IntArray) -> BoolArray:
        """Returns whether the SYN was captured, for each of these connections; this does not change
        once there are chunks of a connection.
        """
        sides = self._tables.sides.started
        return np.asarray(
            (sides[2 * connections - 2] != 0) | (sides[2 * connections - 1] != 0), dtype=np.bool_
        )

    def networks_of(self, connection: int) -> tuple[int, ...]:
        """Returns the networks in which packets of a connection were, as ``headers.network_of`` has
        them: where it began, and those further ones where no later one has followed it.
        """
        row = self._tables.connections[connection - 1]
        if row.pair < 0:
            return ()
        address_pair = self._tables.address_pairs[row.pair]
        latest, r = {int(address_pair.network): int(address_pair.latest)}, int(address_pair.routes)
        while r > 0:
            route = self._tables.routes[r]
            latest[int(route.network)], r = int(route.latest), int(route.next)
        further = (network for network, number in latest.items() if number == connection)
        return tuple(dict.fromkeys((int(row.network), *further)))

    def first_seq(self, connection: int) -> tuple[int, int]:
        """Returns the sequence number of stream offset 0, or -1, for both directions."""
        client, server = (self._tables.sides[2 * connection - side] for side in (2, 1))
        return (
            client.base & MASK if client.has_base else -1,
            server.base & MASK if server.has_base else -1,
        )

    def has_start(self, connection: int, direction: int) -> bool:
        """Returns whether the first byte of a direction is known from a SYN."""
        return self._tables.sides[2 * connection - 2 + direction].started != 0

    def has_fin(self, connection: int, direction: int) -> bool:
        """Returns whether a FIN of a direction was captured."""
        return self._tables.sides[2 * connection - 2 + direction].has_fin != 0

    def account(self, connection: int, direction: int) -> DirectionAccount:
        """Returns the counts of bytes of one direction so far."""
        side = np.array([2 * connection - 2 + direction])
        packets = self._tables.sides.packets[side]
        numbers = (int(column[0]) for column in (packets, *self._counted(side)))
        return DirectionAccount(connection, direction, *numbers)

    def counted(self, sides: IntArray) -> list[IntArray]:
        """Returns the columns ``COUNTED`` of these directions."""
        return list(self._counted(sides))

    def _counted(self, sides: IntArray) -> Iterator[IntArray]:
        """Yields the columns ``COUNTED`` one by one: for millions of directions each is large."""
        flows = self._tables.flows
        flow_rows = self._first_flows(sides // 2) + sides % 2
        aside = self._aside(sides)
        for name in COUNTED:
            column: IntArray = getattr(flows, name)[flow_rows]
            yield column + aside if name in ("payload", "unique") else column

    def _aside(self, sides: IntArray) -> IntArray:
        """Returns the bytes of those directions whose flows are put aside; 0 for others."""
        packed_sizes = np.maximum(-1 - self._connections.flows[sides >> 1].astype(np.int64), 0)
        byte_counts: IntArray = (packed_sizes >> (sides & 1) * ASIDE_BITS + 1) & (
            1 << ASIDE_BITS - 1
        ) - 1
        return byte_counts

    def _first_flows(self, connection_rows: IntArray | slice = slice(None)) -> IntArray:
        """Returns the row of the first flow of each connection, from 0. It is a row of nobody's if
        there is no flow, or if the flows are put aside.
        """
        return np.maximum(self._connections.flows[connection_rows].astype(np.int64), 0)

    def with_bytes(self, connections: IntArray) -> IntArray:
        """Returns those of these connections that carried a byte, or are known to lack one."""
        flows = self._tables.flows
        has_any = (flows.payload > 0) | (flows.missing > 0)
        with_bytes = []
        for start in range(0, len(connections), AT_ONCE):
            some_connections = connections[start : start + AT_ONCE]
            first = self._first_flows(some_connections - 1)
            with_bytes.append(
                some_connections[
                    has_any[first + C2S]
                    | has_any[first + S2C]
                    | (self._connections.flows[some_connections - 1] < -1)
                ]
            )
        return np.concatenate([connections[:0], *with_bytes])

    @property
    def count(self) -> int:
        """Number of connections met so far."""
        return self._tables.counts.connections

    def closed_at(self, connections: IntArray) -> tuple[IntArray, BoolArray]:
        """Returns (when each connection was closed, whether the last byte of both its directions
        was given out by now).
        """
        rows = self._tables.connections[connections - 1]
        sides = [self._tables.sides[2 * connections - side] for side in (2, 1)]
        is_ended = np.all([(side.ended != 0) | (side.has_base == 0) for side in sides], axis=0)
        return rows.closed.time, (rows.closed_how != OPEN) & is_ended

    def end_reset(self, before_ns: int) -> Iterator[StreamChunk]:
        """Yields what was still waiting, and the end, of connections that were reset before a time:
        nothing more can come on them.
        """
        counts = self._tables.counts
        sides = self._tables.sides[: 2 * self.count]
        is_open = ((sides.ended == 0) & (sides.has_base != 0)).reshape(-1, 2).any(axis=1)
        reset_rows = np.flatnonzero(
            is_open
            & (self._connections.closed_how == BY_RST)
            & (self._connections.closed.time < before_ns)
        )
        connection_count = counts.connections
        for index in reset_rows.tolist():
            counts.connections = index + 1  # closed up to this one
            chunks = list(
                self._swept(close_sides, max(0, self.packets - 1), self._time_ns, 2 * index)
            )
            counts.connections = connection_count
            yield from chunks

    def keep(self, staying: IntArray) -> None:
        """Keeps only these connections, by number: the others are over, and nobody asks for them.

        The others leave memory, but for the first connection and the latest of those that were the
        last on their addresses. A packet that comes late still belongs to those.
        """
        tables, counts = self._tables, self._tables.counts
        flows = tables.flows[: counts.flows]
        waits = flows.number[(flows.head >= 0) | (flows.stray >= 0) | (flows.trailing_bytes >= 0)]
        is_kept = np.zeros(counts.connections, dtype=np.bool_)
        is_kept[waits >> 1] = True
        is_kept[np.append(0, staying - 1)] = True
        latest = tables.address_pairs.latest[: self.pairs.count].astype(np.int64) - 1
        routes = tables.routes[1 : counts.routes]
        last = unique(np.concatenate((latest, routes.latest.astype(np.int64) - 1)))
        last = last[last >= 0]
        last = last[~is_kept[last]]
        is_kept[last[-MOST_LAST:]] = True
        kept_rows, dropped_rows = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
        self._dropped += self._sums(dropped_rows)
        tables.connections = TcpConnectionRows(only(tables.connections.array, kept_rows))
        tables.sides = Sides(
            only(tables.sides.array, (2 * kept_rows[:, None] + np.arange(2)).reshape(-1))
        )
        for latest_of in (tables.address_pairs.latest, tables.address_pairs.former, routes.latest):
            latest_of[~np.append(False, is_kept)[latest_of]] = 0
        has_pair = tables.address_pairs.latest[: self.pairs.count] > 0
        has_pair[routes.pair[routes.latest > 0]] = True
        numbers = self.pairs.keep(has_pair)
        tables.address_pairs = EndpointPairs(
            grown(tables.address_pairs.array[np.flatnonzero(has_pair)], 16)
        )
        self._keep_routes(routes[has_pair[routes.pair]], numbers)
        pairs = tables.connections.pair[kept_rows]
        tables.connections.pair[kept_rows] = np.where(pairs >= 0, numbers[pairs], -1)
        self._keep_flows(kept_rows[tables.connections.flows[kept_rows] > 0])

    def _keep_routes(self, routes: Routes, numbers: IntArray) -> None:
        """Keeps only these routes, in order; ``numbers``: each address pair's new number."""
        routes = routes[np.argsort(routes.pair, kind="stable")]
        routes.pair = numbers[routes.pair]
        is_last = np.append(routes.pair[1:] != routes.pair[:-1], True)[: len(routes)]
        routes.next = np.where(is_last, 0, 2 + np.arange(len(routes)))
        heads = np.flatnonzero(np.append(True, is_last[:-1])[: len(routes)])
        self._tables.address_pairs.routes[routes.pair[heads]] = 1 + heads
        self._tables.routes = Routes(
            np.concatenate(
                (np.zeros(1, routes.array.dtype), routes.array, np.zeros(4, routes.array.dtype))
            )
        )
        self._tables.counts.routes = 1 + len(routes)

    def _keep_flows(self, connection_rows: IntArray) -> None:
        """Keeps flows of these connections only."""
        tables, counts = self._tables, self._tables.counts
        first = tables.connections.flows[connection_rows]
        tables.flows = Flows(
            grown(
                tables.flows.array[np.append((0, 1), (first[:, None] + np.arange(2)).reshape(-1))],
                32,
            )
        )
        tables.connections.flows[connection_rows] = 2 + 2 * np.arange(len(connection_rows))
        counts.flows, counts.next_to_relieve = 2 + 2 * len(connection_rows), 2
        tables.recent = FlowHoles(
            _kept_blocks(tables.recent.array, RECENT_HOLES, tables.flows.recent, 64)
        )
        tables.lates = LateRows(
            _kept_blocks(tables.lates.array, RECENT_LATES, tables.flows.lates, 8)
        )
        tables.shuts = ShutSpells(
            _kept_blocks(tables.shuts.array, LONGEST_SHUTS, tables.flows.shut_spells, 8)
        )
        counts.shuts = int(tables.flows.shut_spells.max())
        counts.recent, counts.lates = int(tables.flows.recent.max()), int(tables.flows.lates.max())

    def left_accounts(self, staying: IntArray) -> list[DirectionAccount]:
        """Returns the byte counts of all connections but these, one account for each direction."""
        other_rows = np.setdiff1d(np.arange(self.count), staying - 1)
        return [
            DirectionAccount(0, side, *sums)
            for side, sums in enumerate((self._dropped + self._sums(other_rows)).tolist())
        ]

    def _sums(self, connection_rows: IntArray) -> IntArray:
        packets = self._tables.sides.packets
        return np.array(
            [
                [
                    packets[2 * connection_rows + side].sum(),
                    *(column.sum() for column in self._counted(2 * connection_rows + side)),
                ]
                for side in (C2S, S2C)
            ]
        )

    def lifetimes_of(self, connections: IntArray) -> list[Lifetime]:
        """Returns when these connections, by number, were seen so far."""
        rows = self._tables.connections[connections - 1]
        columns = (
            rows.first.place >> FRAME_BITS,
            rows.first.place & (1 << FRAME_BITS) - 1,
            rows.first.time,
            rows.last_time,
            np.array(_CLOSED)[rows.closed_how],
            np.where(rows.closed_how != OPEN, rows.closed_by, -1),
            rows.closed.number,
            rows.closed.place & (1 << FRAME_BITS) - 1,
            rows.closed.place >> FRAME_BITS,
            rows.closed.time,
            self._tables.flows.jump[self._first_flows(connections - 1)],
        )
        return [
            Lifetime(*fields)
            for fields in zip(*(column.tolist() for column in columns), strict=True)
        ]

    @property
    def tables(self) -> TransportTables:
        """The tables, only to be looked at."""
        return self._tables

    @property
    def time_ns(self) -> int:
        """Capture time of the latest packet."""
        return self._time_ns

    def _make_room(self) -> None:
        """Doubles the tables that are too small for the next packet."""
        tables, counts = self._tables, self._tables.counts
        need = 64 + 4 * self._most_nodes * 4
        if counts.waiting > MAX_TOTAL_WAITING - (1 << 20):
            need += 4 * counts.live
        if len(tables.entries) - counts.entries < need:
            tables.entries = _grown(tables.entries, len(tables.entries) + need)
        if len(tables.fresh) - counts.fresh < need:
            tables.fresh = grown(tables.fresh, len(tables.fresh) + need)
        if len(tables.nodes) - counts.live < need:
            tables.nodes = _grown(tables.nodes, len(tables.nodes) + need)
        if len(tables.recent) - RECENT_HOLES * counts.recent < RECENT_HOLES * need:
            tables.recent = _grown(tables.recent, len(tables.recent) + RECENT_HOLES * need)
        if len(tables.lates) - RECENT_LATES * counts.lates < RECENT_LATES * 4:
            tables.lates = _grown(tables.lates, 0)
        if len(tables.shuts) - LONGEST_SHUTS * counts.shuts < LONGEST_SHUTS * 4:
            tables.shuts = _grown(tables.shuts, 0)
        if len(tables.connections) - counts.connections < 2:
            size = 2 * len(tables.connections)
            tables.connections = _grown(tables.connections, size)
            tables.sides = _grown(tables.sides, 2 * size)
        if len(tables.routes) - counts.routes < 4:
            tables.routes = _grown(tables.routes, 0)
        if len(tables.flows) - counts.flows < 8:
            if len(tables.flows) >= MANY_FLOWS:
                put_aside(tables)
            if 2 * counts.flows > len(tables.flows):
                tables.flows = _grown(tables.flows, 0)

    def _chunks(self, data: ByteArray) -> Iterator[StreamChunk]:
        """Yields the chunks of the current entries; waiting nodes may be moved meanwhile."""
        if not self._tables.counts.entries:
            return iter(())
        directions = Directions(self._tables)
        starts, stops, holes = directions.edges
        if self.take_first is not None:
            taken = self.take_first(
                directions.first_bytes(data, self._entry_places if self._with_places else None)
            )
            if taken is not None:
                directions.release(taken)
                starts, stops, holes = starts[~taken], stops[~taken], holes[~taken]
        edges = zip(starts.tolist(), stops.tolist(), strict=True)
        entries, held = directions.entries, self._held
        return (
            chunk
            for (start, end), count in zip(edges, holes.tolist(), strict=True)
            for chunk in self._side_chunks(entries[start:end], data, held, holes=count)
        )

    def _side_chunks(
        self, entries: StreamEntries, data: ByteArray, held: ByteArray, *, holes: int
    ) -> Iterator[StreamChunk]:
        """Yields the chunks of one direction: one chunk, unless its holes are very long."""
        start = 0
        filled = 0
        for hole in np.flatnonzero(entries.source == HOLE).tolist() if holes else ():
            length = int(entries.length[hole])
            if filled + length > MAX_FILLED or length > MAX_FILLED_HOLE:
                if hole > start:
                    yield self._chunk(entries[start:hole], data, held, holed=True)
                start, filled = hole, 0
            filled += length if length <= MAX_FILLED_HOLE else 0
        yield self._chunk(entries[start:] if start else entries, data, held, holed=holes > 0)

    def _chunk(
        self, entries: StreamEntries, data: ByteArray, held: ByteArray, *, holed: bool
    ) -> StreamChunk:
        offsets = entries.offset
        lengths = entries.length
        sources = entries.source
        side, offset, length, source = (
            int(column[0]) for column in (entries.side, offsets, lengths, sources)
        )
        first = self._tables.connections[side // 2].flows
        flow = self._tables.flows[max(first, 0) + side % 2]
        is_start = offset == 0 and self._tables.sides[side].started != 0
        is_end = int(sources[-1]) == END
        holes: tuple[tuple[int, int], ...] = ()
        if holed:
            missing = sources == HOLE
            holes = tuple(
                (start, start + size)
                for start, size in zip(
                    offsets[missing].tolist(), lengths[missing].tolist(), strict=True
                )
            )
            if holes and holes[0][1] - holes[0][0] > MAX_FILLED_HOLE:
                offset = holes[0][1]
        # a copy: otherwise a chunk would keep the batch's entries alive
        segments = StreamEntries.joined([entries])
        released = np.maximum(entries.release, max(flow.released, flow.opened_by))
        segments.release = np.maximum.accumulate(released)
        if self._with_places:
            segments.place = self._entry_places(entries)
        if first > 0:
            flow.released = int(segments.release[-1])
        # one segment, as most are in a capture of many connections
        if len(entries) == 1 + is_end and source >= 0:
            target = data[source : source + length].copy()
        else:
            size = int(offsets[-1] + lengths[-1]) - offset
            target = np.zeros(size, np.uint8) if holed else np.empty(size, np.uint8)
            if size:
                gather(data, held, GatherTables(entries), target, offset)
        return StreamChunk(
            connection=side // 2 + 1,
            direction=side % 2,
            offset=offset,
            data=target,
            segments=segments,
            holes=holes,
            is_start=is_start,
            is_end=is_end,
            is_placed=self._with_places,
        )

    def _entry_places(self, entries: StreamEntries) -> IntArray:
        source = entries.source
        is_in_batch = source >= 0
        file_places = np.where(source <= HELD, entries.place, NOWHERE)
        file_places[is_in_batch] = self._file_offsets(source[is_in_batch])
        return file_places

    def _file_offsets(self, source: IntArray) -> IntArray:
        """Returns where the bytes at these places of the batch's data are in their file."""
        places: IntArray = source.copy()
        beside = np.flatnonzero(source >= self._data_size)
        if len(beside):
            start, origin = self._origins[
                np.searchsorted(self._origins[:, 0], source[beside], "right") - 1
            ].T
            places[beside] = np.where(origin >= 0, source[beside] - start + origin, -1)
        file_places = (
            self._file_offset + places if self._pieces is None else self._pieces.file_places(places)
        )
        return np.where(places < 0, SCATTERED, file_places)

    def _hold(self, data: ByteArray, fresh: IntArray) -> None:
        """Copies the bytes of segments that go on waiting, since the batch's buffer is not kept."""
        nodes = self._tables.nodes
        if not len(fresh):
            return
        fresh = unique(fresh)
        fresh = fresh[nodes.source[fresh] >= 0]
        if not len(fresh):
            return
        lengths = nodes.length[fresh]
        size = int(lengths.sum())
        if self._held_used + size > len(self._held):
            self._compact(size)
        held_start = self._held_used + np.cumsum(lengths) - lengths
        self._copy_nodes(fresh, held_start, data, self._held, self._held)
        if self._with_places:
            nodes.place[fresh] = self._file_offsets(nodes.source[fresh])
        nodes.source[fresh] = HELD - held_start
        self._held_used += size

    def _compact(self, more: int) -> None:
        """Drops held bytes that nobody waits for, and leaves as much free room as bytes remain, so
        that copying stays linear.
        """
        nodes = self._tables.nodes[: self._tables.counts.top]
        live = np.flatnonzero(nodes.source <= HELD)
        lengths = nodes.length[live]
        size = int(lengths.sum())
        held = np.zeros(2 * (size + more), np.uint8)
        held_start = np.cumsum(lengths) - lengths
        self._copy_nodes(live, held_start, np.empty(0, np.uint8), self._held, held)
        nodes.source[live] = HELD - held_start
        self._held, self._held_used = held, size

    def _copy_nodes(
        self,
        node_rows: IntArray,
        target_start: IntArray,
        data: ByteArray,
        held: ByteArray,
        target: ByteArray,
    ) -> None:
        nodes, entries = self._tables.nodes, StreamEntries.zeros(len(node_rows))
        entries.offset = target_start
        entries.length = nodes.length[node_rows]
        entries.source = nodes.source[node_rows]
        gather(data, held, GatherTables(entries), target, 0)


def _copy_waits(senders: IntArray, tcp: IntArray, time_ns: IntArray) -> IntArray:
    """Returns how long to wait for copies of each packet that was cut, as long as a whole copy of it
    that comes later shows; 0 for all others.
    """
    waits = np.zeros(len(senders), np.int64)
    lacks = tcp[:, WIRE] > tcp[:, CAPTURED]
    cut = np.flatnonzero(lacks)
    is_copy = ~lacks & (tcp[:, WIRE] >= tcp[cut, WIRE].min(initial=1 << 31))
    if not is_copy.any():  # as where nothing was cut, or all that is so long
        return waits
    rows = np.concatenate((cut, np.flatnonzero(is_copy)))
    keys = np.stack((senders[rows], tcp[rows, SEQ], tcp[rows, WIRE]))
    order = np.lexsort((rows, *keys))
    is_same = (np.diff(keys[:, order]) == 0).all(axis=0)
    is_pair = is_same & (np.diff(lacks[rows[order]].view(np.int8)) < 0)
    after_ns = np.diff(time_ns[rows[order]])[is_pair]
    waits[rows[order[:-1]][is_pair]] = np.clip(4 * after_ns, LEAST_COPIES_NS, WAIT_NS)
    return waits


def _kept_blocks(rows: Any, size: int, blocks: IntArray, free: int) -> Any:
    """Returns the blocks of ``size`` rows that flows have, nobody's first, with room for
    ``free`` more. ``blocks``: the number of each flow's, 0 for none; becomes the new one.
    """
    flows = np.flatnonzero(blocks > 0)
    kept_rows = rows.reshape(-1, size)[np.append(0, blocks[flows])]
    blocks[flows] = 1 + np.arange(len(flows))
    return np.concatenate((kept_rows, np.zeros((free, size), rows.dtype))).reshape(-1)


def _grown(table: TransportRows, rows: int) -> TransportRows:
    """Returns a larger copy of a table, as ``grown`` does."""
    return type(table)(grown(table.array, rows))
