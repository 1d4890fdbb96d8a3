"""Packets in, ordered bytes out: every direction of every connection as ``StreamChunk``, holes and origins included.

Duties: number address pairs and connections; have ``ordering`` decide which bytes come next; copy those bytes, once, into chunks;
keep the bytes of segments that wait longer than a batch; count every payload byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dcpinspect.capture.batch import Bytes, Column, PacketBatch
from dcpinspect.growing import grown
from dcpinspect.transport import columns as c
from dcpinspect.transport.chunk import NOWHERE, SCATTERED, Segments, StreamChunk
from dcpinspect.transport.connections import DEFAULT_PORTS, AddressPairs, Connection
from dcpinspect.transport.entries import gather
from dcpinspect.transport.flows import close_flows
from dcpinspect.transport.headers import UNUSUAL, HeaderParser
from dcpinspect.transport.ordering import MAX_TOTAL_WAITING, order_segments
from dcpinspect.transport.overdue import give_up_overdue
from dcpinspect.transport.unusual import UnusualPackets

_CLOSED = ("", "fin", "rst", "replaced")

MAX_FILLED_HOLE = 8 << 10
"""A longer hole is not filled with zeros but stepped over, and framing fills what it needs of it: a batch of large frames cut by snaplen,
or of lies, would take gigabytes otherwise."""
MAX_FILLED = 64 << 20
"""Zeros a chunk holds at most, so that a capture of nothing but holes does not fill the memory."""


_SEGMENT = [c.E_OFFSET, c.E_PACKET, c.E_FRAME, c.E_FILE, c.E_TIME]
"""The columns of entries that ``Segments`` has, but for the last."""
_ACCOUNT = [c.PACKETS, c.PAYLOAD_BYTES, c.UNIQUE, c.DUPLICATE, c.LATE, c.MISSING, c.CUT_OFF, c.HOLES]
"""The columns of flows that ``DirectionAccount`` has."""


@dataclass(frozen=True, slots=True)
class DirectionAccount:
    """Where the TCP payload of one direction went, in bytes: ``captured == unique + duplicate + late``."""

    connection: int
    direction: int
    packets: int
    captured: int
    unique: int
    """Given out in chunks, or still waiting."""
    duplicate: int
    late: int
    """Came after the bytes were given up, or before the first byte of the reading, or belonged to no connection."""
    missing: int
    """In holes; no part of ``captured``."""
    cut: int
    """Those of ``missing`` that snaplen cut off."""
    holes: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a connection was seen, and how it ended."""

    first_file: int
    """File of its first packet, which the files of the reading are numbered by from 0."""
    first_ns: int
    """Capture time of its first packet."""
    last_ns: int
    """Capture time of its latest packet so far."""
    closed: str
    """``fin``, ``rst``, ``replaced`` (a new connection runs on its addresses), or empty while no end was seen."""
    closed_by: int
    """``C2S`` or ``S2C``: the direction that had the FIN or RST; -1 where no packet of the connection says it."""
    closed_packet: int
    """Number over the whole reading of the packet that showed it, as the next three."""
    closed_frame: int
    closed_file: int
    closed_ns: int
    jump: int
    """How far its first sequence number is from where the connection before it on the same addresses was, where that alone told that it is
    another one; 0 elsewhere."""


class Reassembler:
    """``feed`` batches, in order; ``finish`` once. What comes out does not depend on where the batches end."""

    def __init__(self, ports: tuple[int, ...] | None = DEFAULT_PORTS, *, every_port: bool = False, with_places: bool = False) -> None:
        """``ports``: TCP ports looked at, which are also taken for the servers'; with ``every_port``, or ``None``, all are looked at.

        ``with_places``: chunks say where their bytes stand in the file.
        """
        self.headers = HeaderParser(None if every_port else ports)
        """Counts every packet by class, and the ports seen that are not ours."""
        self._unusual = UnusualPackets(self.headers)
        self.pairs = AddressPairs()
        self.packets = 0
        """Packets of the whole reading so far: one more than the number of the last one fed."""
        self._server_ports = np.zeros(65_536, np.uint8)
        self._server_ports[list(ports if ports is not None else DEFAULT_PORTS)] = 1
        self._current = np.empty(0, np.int64)
        self._connections = np.zeros((16, c.CONNECTION), np.int64)
        self._flows = np.zeros((32, c.FLOW), np.int64)
        self._recent = np.zeros((64, 2 * c.RECENT_HOLES), np.int64)
        self._nodes = np.zeros((256, c.NODE), np.int64)
        self._entries = np.zeros((0, c.ENTRY), np.int64)
        self._fresh = np.zeros(0, np.int64)
        self._counters = np.zeros(c.COUNTERS, np.int64)
        self._counters[c.FREE] = -1
        self._released = np.zeros(32, np.int64)  # per flow: greatest packet of what was given out
        self._held: Bytes = np.empty(0, np.uint8)
        self._held_used = 0
        self._with_places = with_places
        self._file_offset = self._data_size = 0  # of the batch at hand
        self._origins = np.empty((0, 2), np.int64)  # of bytes beside it, as UnusualPackets.resolve has it
        self._file = 0
        self._time_ns = 0

    def feed(self, batch: PacketBatch) -> Iterator[StreamChunk]:
        """What ``batch`` adds to the streams: by connection, client to server first; usually one chunk a direction with news.

        Chunks are made one by one, until the next call.
        """
        headers, data = self.headers.parse(batch), batch.data
        self._file_offset, self._data_size = batch.file_offset, len(data)
        if (headers.classes == UNUSUAL).any():
            headers, data, self._origins = self._unusual.resolve(batch, headers)
        if len(batch):
            self.packets = 1 + batch.packet_at(len(batch) - 1)
            self._file, self._time_ns = batch.file, int(batch.time_ns[-1])
        if not len(headers.index):
            return iter(())
        pairs, sides = self.pairs.find(headers.tcp)
        if self.pairs.count > len(self._current):
            self._current = grown(self._current, self.pairs.count, -1)
        count = len(headers.index)
        self._counters[[c.ENTRIES, c.FRESH]] = 0
        room = count + 2 * int(self._counters[c.LIVE]) + 128
        self._entries = np.empty((room, c.ENTRY), np.int64)
        self._fresh = np.empty(room, np.int64)
        packets, frames = batch.packets, batch.frames
        row = 0
        while True:
            row = int(
                order_segments(
                    count - row,
                    row,
                    headers.tcp,
                    headers.index,
                    pairs,
                    sides,
                    batch.time_ns,
                    packets,
                    frames,
                    batch.file,
                    self._server_ports,
                    self._current,
                    self._connections,
                    self._flows,
                    self._recent,
                    self._nodes,
                    self._entries,
                    self._fresh,
                    self._counters,
                )
            )
            if row == count:
                break
            self._make_room()
        chunks = self._chunks(data)
        self._hold(data, self._fresh[: self._counters[c.FRESH]])
        return chunks

    def pass_time(self, time_ns: int) -> Iterator[StreamChunk]:
        """What no longer waits for the bytes before it, now that capture time is ``time_ns``; released by the last packet fed."""
        if self._counters[c.LIVE]:
            packet = max(0, self.packets - 1)
            yield from self._swept(lambda flow: give_up_overdue(0, flow, packet, self._file, time_ns, *self._tables()))

    def finish(self) -> Iterator[StreamChunk]:
        """What was still waiting, and the end of every direction that has not ended; released by packet ``packets``, one past the last."""
        self._unusual.finish()
        yield from self._swept(lambda flow: close_flows(0, flow, self.packets, self._file, self._time_ns, *self._tables()))
        self._held = np.empty(0, np.uint8)
        self._held_used = 0

    def _swept(self, kernel: Callable[[int], int]) -> Iterator[StreamChunk]:
        """What ``kernel`` enters for all flows; it takes the flow to begin with and returns where it stopped for want of room."""
        flow = 0
        while True:
            self._counters[c.ENTRIES] = 0
            waiting = int(self._flows[flow:, c.NODES].max(initial=0))
            self._entries = np.empty((4 * waiting + 4096, c.ENTRY), np.int64)
            if len(self._recent) - self._counters[c.RECENTS] < 2:
                self._recent = grown(self._recent, 0)
            flow = int(kernel(flow))
            yield from self._chunks(np.empty(0, np.uint8))
            if flow == 2 * self._counters[c.CONNECTIONS]:
                return

    def _tables(self) -> tuple[Column, Column, Column, Column, Column]:
        return self._flows, self._recent, self._nodes, self._entries, self._counters

    def take_companions(self) -> list[tuple[int, int]]:
        """(packet that gave bytes, another that had a fragment of the same datagram), by number, since the last call."""
        found, self._unusual.companions = self._unusual.companions, []
        return found

    @property
    def pair_of_connection(self) -> Column:
        """The number in ``pairs`` of each connection met so far."""
        return self._connections[: int(self._counters[c.CONNECTIONS]), c.PAIR]

    @property
    def connections(self) -> list[Connection]:
        """The connections met so far; number ``n`` is at ``n - 1``."""
        return self.connections_from(0)

    def connections_from(self, first: int) -> list[Connection]:
        """As ``connections``, without the ``first`` ones."""
        found = []
        for index in range(first, int(self._counters[c.CONNECTIONS])):
            pair, end, packet = self._connections[index, [c.PAIR, c.CLIENT_END, c.FIRST_PACKET]].tolist()
            client, server = self.pairs.address(pair, end), self.pairs.address(pair, 1 - end)
            starts = "handshake" if self.has_handshake(index + 1) else "mid-stream"
            found.append(Connection(index + 1, client, server, int(self.pairs.keys[pair, 8 + 1 - end]), packet, starts))
        return found

    @property
    def opened_by(self) -> Column:
        """The packet that showed each connection met so far to be one: different ones, in order."""
        return self._connections[: int(self._counters[c.CONNECTIONS]), c.OPENED_BY]

    def has_handshake(self, connection: int) -> bool:
        """Whether the SYN of a connection was captured; does not change once there are chunks of it."""
        return bool(self._flows[2 * connection - 2 : 2 * connection, c.STARTED].any())

    @property
    def accounts(self) -> list[DirectionAccount]:
        """The bytes of every direction so far."""
        return [self.account(flow // 2 + 1, flow % 2) for flow in range(2 * int(self._counters[c.CONNECTIONS]))]

    def account(self, connection: int, direction: int) -> DirectionAccount:
        """The bytes of one direction so far."""
        return DirectionAccount(connection, direction, *self._flows[2 * connection - 2 + direction, _ACCOUNT].tolist())

    @property
    def lifetimes(self) -> list[Lifetime]:
        """When every connection was seen so far; number ``n`` is at ``n - 1``."""
        columns = [c.FIRST_FILE, c.FIRST_TIME, c.LAST_TIME, c.CLOSED_HOW, c.CLOSED_BY]
        columns += [c.CLOSED_PACKET, c.CLOSED_FRAME, c.CLOSED_FILE, c.CLOSED_TIME, c.JUMP]
        rows = self._connections[: int(self._counters[c.CONNECTIONS]), columns].tolist()
        return [Lifetime(file, first, last, _CLOSED[how], by if how else -1, *place) for file, first, last, how, by, *place in rows]

    @property
    def time_ns(self) -> int:
        """Capture time of the latest packet."""
        return self._time_ns

    def _make_room(self) -> None:
        """Doubles the tables that are too small for the next packet."""
        counters = self._counters
        need = 64 + 4 * int(self._flows[:, c.NODES].max(initial=0)) * 2
        if counters[c.TOTAL_WAITING] > MAX_TOTAL_WAITING - (1 << 20):
            need += 4 * int(counters[c.LIVE])
        if len(self._entries) - counters[c.ENTRIES] < need:
            self._entries = grown(self._entries, len(self._entries) + need)
        if len(self._fresh) - counters[c.FRESH] < need:
            self._fresh = grown(self._fresh, len(self._fresh) + need)
        if len(self._nodes) - counters[c.LIVE] < need:
            self._nodes = grown(self._nodes, len(self._nodes) + need)
        if len(self._recent) - counters[c.RECENTS] < need:
            self._recent = grown(self._recent, len(self._recent) + need)
        if len(self._connections) - counters[c.CONNECTIONS] < 2:
            size = 2 * len(self._connections)
            self._connections = grown(self._connections, size)
            self._flows = grown(self._flows, 2 * size)
            self._released = grown(self._released, 2 * size)

    def _chunks(self, data: Bytes) -> Iterator[StreamChunk]:
        """The chunks of the entries there are now; what waits on may be moved meanwhile."""
        entries = self._entries[: self._counters[c.ENTRIES]]
        if not len(entries):
            return iter(())
        flows = entries[:, c.E_FLOW]
        if (flows[1:] < flows[:-1]).any():
            entries = entries[np.argsort(flows, kind="stable")]
            flows = entries[:, c.E_FLOW]
        starts = np.concatenate(([0], np.flatnonzero(flows[1:] != flows[:-1]) + 1))
        holes = np.add.reduceat(entries[:, c.E_SOURCE] == c.HOLE, starts, dtype=np.int64).tolist()
        edges = pairwise([*starts.tolist(), len(flows)])
        held = self._held
        return (
            chunk
            for (start, end), count in zip(edges, holes, strict=True)
            for chunk in self._flow_chunks(entries[start:end], data, held, holes=count)
        )

    def _flow_chunks(self, entries: Column, data: Bytes, held: Bytes, *, holes: int) -> Iterator[StreamChunk]:
        """The chunks of one flow: one, unless its holes are very long."""
        start = 0
        filled = 0
        for hole in np.flatnonzero(entries[:, c.E_SOURCE] == c.HOLE).tolist() if holes else ():
            length = int(entries[hole, c.E_LENGTH])
            if filled + length > MAX_FILLED or length > MAX_FILLED_HOLE:
                if hole > start:
                    yield self._chunk(entries[start:hole], data, held, holed=True)
                start, filled = hole, 0
            filled += length if length <= MAX_FILLED_HOLE else 0
        yield self._chunk(entries[start:], data, held, holed=holes > 0)

    def _chunk(self, entries: Column, data: Bytes, held: Bytes, *, holed: bool) -> StreamChunk:
        flow, offset, length, source = entries[0, [c.E_FLOW, c.E_OFFSET, c.E_LENGTH, c.E_SOURCE]].tolist()
        is_start = offset == 0 and bool(self._flows[flow, c.STARTED])
        is_end = int(entries[-1, c.E_SOURCE]) == c.END
        holes: tuple[tuple[int, int], ...] = ()
        if holed:
            missing = entries[entries[:, c.E_SOURCE] == c.HOLE]
            holes = tuple((at, at + length) for at, length in missing[:, [c.E_OFFSET, c.E_LENGTH]].tolist())
            if holes and holes[0][1] - holes[0][0] > MAX_FILLED_HOLE:
                offset = holes[0][1]
        columns = np.empty((6, len(entries)), np.int64)  # copies: nothing of a chunk keeps the batch's entries alive
        columns[:5] = entries[:, _SEGMENT].T
        least = max(self._released[flow], self._connections[flow // 2, c.OPENED_BY])
        np.maximum.accumulate(np.maximum(columns[1], least), out=columns[5])
        self._released[flow] = columns[5, -1]
        if len(entries) == 1 + is_end and source >= 0:  # one segment, as most are in a capture of many connections
            target = data[source : source + length].copy()
        else:
            size = int(entries[-1, c.E_OFFSET] + entries[-1, c.E_LENGTH]) - offset
            target = np.zeros(size, np.uint8) if holed else np.empty(size, np.uint8)
            if size:
                gather(len(entries), data, held, entries, target, offset)
        return StreamChunk(
            connection=flow // 2 + 1,
            direction=flow % 2,
            offset=offset,
            data=target,
            segments=Segments(columns),
            holes=holes,
            is_start=is_start,
            is_end=is_end,
            places=self._entry_places(entries) if self._with_places else None,
        )

    def _entry_places(self, entries: Column) -> Column:
        source = entries[:, c.E_SOURCE]
        given = source >= 0
        places = np.where(source <= c.HELD, entries[:, c.E_PLACE], NOWHERE)
        places[given] = self._places(source[given])
        return places

    def _places(self, source: Column) -> Column:
        """Where in its file the bytes at these places of the batch's data stand."""
        places: Column = self._file_offset + source
        beside = np.flatnonzero(source >= self._data_size)
        if len(beside):
            start, origin = self._origins[np.searchsorted(self._origins[:, 0], source[beside], "right") - 1].T
            places[beside] = np.where(origin >= 0, places[beside] - start + origin, SCATTERED)
        return places

    def _hold(self, data: Bytes, fresh: Column) -> None:
        """Copies the bytes of segments that wait on, since the batch's buffer goes."""
        nodes = self._nodes
        if not len(fresh):
            return
        fresh = np.unique(fresh)
        fresh = fresh[nodes[fresh, c.N_SOURCE] >= 0]
        if not len(fresh):
            return
        size = int(nodes[fresh, c.N_LENGTH].sum())
        if self._held_used + size > len(self._held):
            self._compact(size)
        lengths = nodes[fresh, c.N_LENGTH]
        at = self._held_used + np.cumsum(lengths) - lengths
        self._copy_nodes(fresh, at, data, self._held, self._held)
        if self._with_places:
            nodes[fresh, c.N_PLACE] = self._places(nodes[fresh, c.N_SOURCE])
        nodes[fresh, c.N_SOURCE] = c.HELD - at
        self._held_used += size

    def _compact(self, more: int) -> None:
        """Drops held bytes that nobody waits for any more, and leaves as much room as there is left, so that copying stays linear."""
        nodes = self._nodes[: self._counters[c.TOP]]
        live = np.flatnonzero(nodes[:, c.N_SOURCE] <= c.HELD)
        lengths = nodes[live, c.N_LENGTH]
        size = int(lengths.sum())
        held = np.empty(2 * (size + more), np.uint8)
        at = np.cumsum(lengths) - lengths
        self._copy_nodes(live, at, np.empty(0, np.uint8), self._held, held)
        nodes[live, c.N_SOURCE] = c.HELD - at
        self._held, self._held_used = held, size

    def _copy_nodes(self, chosen: Column, at: Column, data: Bytes, held: Bytes, target: Bytes) -> None:
        entries = np.zeros((len(chosen), c.ENTRY), np.int64)
        entries[:, c.E_OFFSET] = at
        entries[:, c.E_LENGTH] = self._nodes[chosen, c.N_LENGTH]
        entries[:, c.E_SOURCE] = self._nodes[chosen, c.N_SOURCE]
        gather(len(chosen), data, held, entries, target, 0)
