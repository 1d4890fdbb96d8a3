"""Captures damaged on purpose, by code that knows which bytes it took away; and readings in any
batches, to compare with that.

A ``Tape`` is an undamaged capture with what its peers said. Damage is any other list of its
packets: some left out, moved, doubled or cut. ``faults`` says where a reading of that list differs
from what the list still holds.
"""

from __future__ import annotations

import random
import socket
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.protocol.framed import Framed
from dcpinspect.protocol.framing import Framer
from dcpinspect.protocol.resync import KnownStreams
from dcpinspect.reading.engine import Engine
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.chunk import StreamChunk
from dcpinspect.transport.connections import endpoint_text, halves
from dcpinspect.transport.headers import FLAGS, PAYLOAD, PORTS, SEQ, WIRE, HeaderParser
from dcpinspect.transport.packet_owners import distance
from dcpinspect.transport.reassembly import Reassembler
from tests.builders import ACK, FIN, PSH, START_NS, SYN, Row, message, mutation, rows_of
from tests.peers import truth
from tests.peers.endpoint import Address
from tests.transport_views import accounts, connections

Flow = tuple[str, str, int]
"""Client, server, direction."""
Ranges = list[tuple[int, int]]
"""Half-open, in order, apart from each other."""

PORT = 11_210
MODULUS = 1 << 32


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet, and where its payload belongs."""

    data: bytes
    wire: int
    time_ns: int
    link_type: int
    flow: Flow
    offset: int
    """Stream offset of its first byte of payload."""
    payload: int
    """Where in ``data`` that is."""
    size: int
    """Bytes of payload on the wire."""
    begins: bool
    """It carries the SYN of its flow."""

    def cut(self, snaplen: int) -> Packet:
        """As a capture with that snaplen has it."""
        return self if len(self.data) <= snaplen else replace(self, data=self.data[:snaplen])

    @property
    def held(self) -> tuple[int, int]:
        """The stream bytes that the capture has of it."""
        return self.offset, self.offset + max(0, min(self.size, len(self.data) - self.payload))


@dataclass(frozen=True)
class Tape:
    """All packets of a capture, and the messages of each flow."""

    packets: list[Packet]
    messages: dict[Flow, list[bytes]]


class Talk:
    """Writes the packets of one connection, without Scapy, which takes a second for a thousand."""

    def __init__(
        self,
        port: int = 50_000,
        *,
        isn: tuple[int, int] = (1000, MODULUS - 20_000),
        mss: int = 1448,
        start_ns: int = START_NS,
        hosts: tuple[str, str] = ("10.0.0.1", "10.0.0.2"),
        server_port: int = PORT,
    ) -> None:
        self.packets: list[Packet] = []
        self.time_ns = start_ns
        self._ports = (port, server_port)
        self._isn = isn
        self._at = [0, 0]
        self._mss = mss
        self._hosts = [socket.inet_aton(host) for host in hosts]
        self._flows: list[Flow] = [
            (f"{hosts[0]}:{port}", f"{hosts[1]}:{server_port}", direction) for direction in (0, 1)
        ]

    def send(self, direction: int, payload: bytes = b"", flags: int = ACK) -> None:
        """One packet."""
        offset = self._at[direction]
        seq = self._isn[direction] + (0 if flags & SYN else 1 + offset)
        ack = self._isn[1 - direction] + 1 + self._at[1 - direction] if flags & ACK else 0
        source, target = self._hosts[direction], self._hosts[1 - direction]
        data = (
            bytes.fromhex("0200000000010200000000020800")
            + struct.pack(
                ">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, source, target
            )
            + struct.pack(
                ">HHIIBBHHH",
                self._ports[direction],
                self._ports[1 - direction],
                seq % MODULUS,
                ack % MODULUS,
                0x50,
                flags,
                4096,
                0,
                0,
            )
            + payload
        )
        self.packets.append(
            Packet(
                data,
                len(data),
                self.time_ns,
                1,
                self._flows[direction],
                offset,
                54,
                len(payload),
                bool(flags & SYN),
            )
        )
        self.time_ns += 10_000
        self._at[direction] += len(payload) + bool(flags & FIN)

    def handshake(self) -> None:
        """SYN, SYN and ACK, ACK."""
        self.send(0, flags=SYN)
        self.send(1, flags=SYN | ACK)
        self.send(0)

    def stream(self, direction: int, data: bytes) -> None:
        """``data`` in full segments, every other one acknowledged."""
        for number, at in enumerate(range(0, len(data), self._mss), 1):
            self.send(direction, data[at : at + self._mss], ACK | PSH)
            if number % 2 == 0:
                self.send(1 - direction)
        self.send(1 - direction)

    def close(self, first: int = 0) -> None:
        """FIN from both sides."""
        self.send(first, flags=FIN | ACK)
        self.send(1 - first, flags=FIN | ACK)
        self.send(first)


VBUCKETS = 16


def opening() -> tuple[list[bytes], list[bytes]]:
    """Streams asked for and granted."""
    asked = [message(opcode=0x50, key=b"damage", extras=struct.pack(">II", 0, 1), opaque=1)]
    granted = [message(magic=0x81, opcode=0x50, opaque=1)]
    for vbucket in range(VBUCKETS):
        asked.append(
            message(opcode=0x53, extras=bytes(48), specific=vbucket, opaque=0x100 + vbucket)
        )
        granted.append(
            message(
                magic=0x81, opcode=0x53, value=struct.pack(">QQ", 0xFEED, 0), opaque=0x100 + vbucket
            )
        )
    return asked, granted


def event(seqno: int, vbucket: int, value: bytes) -> bytes:
    """A mutation of one of the streams that were opened."""
    return mutation(
        seqno, vbucket=vbucket, opaque=0x100 + vbucket, key=b"key-%06d" % seqno, value=value
    )


def stranger(count: int, vbucket: int = 900) -> bytes:
    """A document that is itself a recording: whole messages of a stream that this connection never
    opened.
    """
    return b"".join(
        mutation(n + 1, vbucket=vbucket, opaque=0xBEEF, value=b"inner" * (n % 9))
        for n in range(count)
    )


Values = Callable[[random.Random, int], bytes]


def plain(rng: random.Random, _: int) -> bytes:
    """Documents of up to 600 bytes, one in 50 of up to 20,000."""
    return rng.randbytes(rng.randrange(20_000) if rng.random() < 0.02 else rng.randrange(600))


def nested(rng: random.Random, _: int) -> bytes:
    """One document in three is a recording of DCP."""
    return (
        stranger(rng.randrange(1, 40)) if rng.random() < 0.33 else rng.randbytes(rng.randrange(600))
    )


@cache
def generated(
    count: int = 3000,
    *,
    values: Values = plain,
    seed: int = 1,
    mss: int = 1448,
    isn: int = MODULUS - 20_000,
) -> Tape:
    """A connection that opens streams, then carries ``count`` mutations of random vbuckets, with
    noops and flow control.
    """
    rng = random.Random(seed)
    asked, granted = opening()
    talk = Talk(mss=mss, isn=(1000, isn))
    talk.handshake()
    talk.stream(0, b"".join(asked))
    talk.stream(1, b"".join(granted))
    for first in range(0, count, 50):
        batch = [
            event(seqno + 1, rng.randrange(VBUCKETS), values(rng, seqno))
            for seqno in range(first, min(count, first + 50))
        ]
        batch.append(message(opcode=0x5C, opaque=0xFFFF0000 + first))
        talk.stream(1, b"".join(batch))
        reply = [
            message(magic=0x81, opcode=0x5C, opaque=0xFFFF0000 + first),
            message(opcode=0x5D, extras=struct.pack(">I", sum(map(len, batch)))),
        ]
        talk.stream(0, b"".join(reply))
        granted += batch
        asked += reply
    talk.close()
    flows = [packet.flow for packet in talk.packets[:2]]
    return Tape(talk.packets, dict(zip(flows, (asked, granted), strict=True)))


@cache
def sample(name: str) -> Tape:
    """A sample capture that lacks nothing; every address pair has one connection."""
    messages: dict[Flow, list[bytes]] = {}
    for connection in truth.load(name):
        for direction, said in enumerate((connection.c2s, connection.s2c)):
            messages[(*ends(connection.client, connection.server), direction)] = [
                message.data or b"" for message in said
            ]
    sizes = {flow: sum(map(len, said)) for flow, said in messages.items()}
    return Tape(taped(next(truth.SAMPLES.glob(f"{name}.pcap*")), sizes), messages)


def ends(client: Address, server: Address) -> tuple[str, str]:
    """Both, as a ``Flow`` spells them."""
    first, second = (
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in (client, server)
    )
    return first, second


def taped(path: Path, sizes: Mapping[Flow, int], port: int = PORT) -> list[Packet]:
    """The packets of a capture that lacks nothing of these flows, whose streams are so long."""
    with open_capture(path) as opened:
        batches = list(opened)
    packets: list[Packet] = []
    base: dict[Flow, int] = {}
    reached: dict[Flow, int] = defaultdict(int)
    parser = HeaderParser((port,))
    for batch in batches:
        headers = parser.parse(batch)
        for row, i in zip(headers.tcp, headers.index.tolist(), strict=True):
            source, target = (
                endpoint_text(
                    np.stack(halves(row[2 * end : 2 * end + 2]), axis=-1).ravel(),
                    int(row[PORTS + end]),
                )
                for end in (0, 1)
            )
            flow = (source, target, 0) if (source, target, 0) in sizes else (target, source, 1)
            begins = bool(row[FLAGS] & SYN)
            if begins:
                base.setdefault(flow, int(row[SEQ]) + 1)
            offset = (
                0
                if begins
                else reached[flow] + distance(int(row[SEQ]), (base[flow] + reached[flow]) % MODULUS)
            )
            if row[WIRE]:
                reached[flow] = max(reached[flow], offset + int(row[WIRE]))
            at, size = int(batch.offset[i]), int(batch.captured[i])
            data, wire = batch.data[at : at + size].tobytes(), int(batch.wire[i])
            place = int(row[PAYLOAD]) - at
            packets.append(
                Packet(
                    data,
                    wire,
                    int(batch.time_ns[i]),
                    int(batch.link_type[i]),
                    flow,
                    offset,
                    place,
                    int(row[WIRE]),
                    begins,
                )
            )
    assert {flow: size for flow, size in reached.items() if size} == {
        flow: size for flow, size in sizes.items() if size
    }
    return packets


# Damage.


def retimed(packets: Sequence[Packet]) -> list[Packet]:
    """The same packets with times in the order in which they now come."""
    times = sorted(packet.time_ns for packet in packets)
    return [replace(packet, time_ns=time) for packet, time in zip(packets, times, strict=True)]


def lost(packets: Sequence[Packet], share: float, seed: int) -> list[Packet]:
    """Less a random share of the packets."""
    rng = random.Random(seed)
    return [packet for packet in packets if rng.random() >= share]


def bursts(packets: Sequence[Packet], count: int, longest: int, seed: int) -> list[Packet]:
    """Less ``count`` runs of up to ``longest`` packets."""
    rng = random.Random(seed)
    gone: set[int] = set()
    for _ in range(count):
        start = rng.randrange(len(packets))
        gone.update(range(start, start + rng.randrange(1, longest + 1)))
    return [packet for place, packet in enumerate(packets) if place not in gone]


def swapped(packets: Sequence[Packet], share: float, seed: int, *, by: int = 1) -> list[Packet]:
    """A random share of the packets comes up to ``by`` places later."""
    rng = random.Random(seed)
    places = [
        place + (rng.randint(1, by) + 0.5 if rng.random() < share else 0)
        for place in range(len(packets))
    ]
    return retimed(
        [
            packet
            for _, packet in sorted(zip(places, packets, strict=True), key=lambda item: item[0])
        ]
    )


def doubled(packets: Sequence[Packet], apart: int = 0, *, snaplen: int = 1 << 18) -> list[Packet]:
    """Every packet twice, the second time ``apart`` packets later, as a mirror port records it. The
    first time no more than ``snaplen`` bytes of it are there.
    """
    order = sorted(
        [(place, 0) for place in range(len(packets))]
        + [(place + apart, 1) for place in range(len(packets))]
    )
    return retimed(
        [packets[place - apart] if copy else packets[place].cut(snaplen) for place, copy in order]
    )


# Reading.


def batches(
    packets: Sequence[Packet], sizes: Iterable[int] = (), *, files: int = 1
) -> Iterator[PacketBatch]:
    """The packets in batches of ``sizes``, then all the rest; divided evenly over ``files``."""
    wanted = iter(sizes)
    share = -(-len(packets) // files) or 1
    at = 0
    while at < len(packets):
        file = at // share
        stop = min(len(packets), at + next(wanted, len(packets)), (file + 1) * share)
        part = packets[at:stop]
        captured = np.array([len(packet.data) for packet in part], np.int64)
        columns = np.array(
            [(packet.wire, packet.time_ns, packet.link_type) for packet in part], np.int64
        ).T
        yield PacketBatch(
            data=np.frombuffer(b"".join(packet.data for packet in part), np.uint8),
            columns=np.stack((np.cumsum(captured) - captured, captured, *columns)),
            file=file,
            first_frame=at - file * share + 1,
            first_packet=at,
            file_offset=0,
        )
        at = stop


@dataclass
class Reading:
    """Messages of every flow; what became of every byte was checked."""

    rows: dict[Flow, list[Row]] = field(default_factory=lambda: defaultdict(list))
    skipped: dict[Flow, Ranges] = field(default_factory=lambda: defaultdict(list))
    holes: dict[Flow, Ranges] = field(default_factory=lambda: defaultdict(list))
    counts: dict[Flow, tuple[int, int, int]] = field(
        default_factory=lambda: defaultdict(lambda: (0, 0, 0))
    )
    """Bytes that came late, twice, and of messages without an end."""
    connections: int = 0

    @property
    def late(self) -> int:
        return sum(late for late, _, _ in self.counts.values())

    @property
    def duplicate(self) -> int:
        return sum(duplicate for _, duplicate, _ in self.counts.values())

    @property
    def unfinished(self) -> int:
        return sum(unfinished for _, _, unfinished in self.counts.values())


def read(parts: Iterable[PacketBatch]) -> Reading:
    """Reads one connection an address pair, and asserts that every byte is accounted for."""
    transport = Reassembler((PORT,))
    framers: dict[tuple[int, int], Framer] = {}
    clients: dict[int, KnownStreams] = defaultdict(KnownStreams)
    framed: dict[tuple[int, int], list[Framed]] = defaultdict(list)
    holes: dict[tuple[int, int], Ranges] = defaultdict(list)
    ends: dict[tuple[int, int], int] = defaultdict(int)

    def take(chunks: Iterable[StreamChunk]) -> None:
        for chunk in chunks:
            link = chunk.connection, chunk.direction
            if link not in framers:
                client = clients[chunk.connection]
                framers[link] = Framer(
                    known_streams=KnownStreams(client=client) if chunk.direction else client
                )
            holes[link] += chunk.holes
            ends[link] = chunk.offset + len(chunk.data)
            result = framers[link].feed(chunk)
            if result is not None:
                framed[link].append(result)

    for part in parts:
        take(transport.feed(part))
    take(transport.finish())
    met = connections(transport)
    reading = Reading(connections=len(met))
    for account in accounts(transport):
        link = account.connection, account.direction
        framer = framers.get(link) or Framer()
        assert account.captured == account.unique + account.duplicate + account.late
        assert (
            account.unique
            == framer.account.messages + framer.account.skipped + framer.account.unfinished
        )
        connection = met[account.connection - 1]
        flow = connection.client, connection.server, account.direction
        rows = [row for result in framed[link] for row in rows_of(result, *link)]
        skipped = [
            pair
            for result in framed[link]
            for pair in zip(result.skipped_start.tolist(), result.skipped_end.tolist(), strict=True)
        ]
        assert_tiled(rows, skipped, ends[link])
        reading.rows[flow] += rows
        reading.skipped[flow] += skipped
        reading.holes[flow] += holes[link]
        late, duplicate, unfinished = reading.counts[flow]
        reading.counts[flow] = (
            late + account.late,
            duplicate + account.duplicate,
            unfinished + framer.account.unfinished,
        )
    return reading


def assert_tiled(rows: Sequence[Row], skipped: Sequence[tuple[int, int]], end: int) -> None:
    """Messages come in stream order, and with the skipped ranges cover the stream, but for an
    unfinished message at its end.
    """
    starts = [row.stream_offset for row in rows]
    assert starts == sorted(starts)
    places = sorted(
        [(row.stream_offset, row.stream_offset + len(row.data)) for row in rows] + list(skipped)
    )
    assert all(before[1] == after[0] for before, after in pairwise(places))
    assert not places or places[-1][1] <= end


def held(packets: Iterable[Packet]) -> dict[Flow, tuple[int, Ranges]]:
    """For every flow: the first byte that counts (its first packet's, or the one after its SYN),
    and what there is from there on.
    """
    base: dict[Flow, int] = {}
    ranges: dict[Flow, Ranges] = defaultdict(list)
    for packet in packets:
        if packet.begins:
            base.setdefault(packet.flow, 0)
        elif packet.size:
            base.setdefault(packet.flow, packet.offset)
        start, end = packet.held
        if start < end:
            ranges[packet.flow].append((start, end))
    out = {}
    for flow, first in base.items():
        merged: Ranges = []
        for start, end in sorted(
            (max(start, first), end) for start, end in ranges[flow] if end > first
        ):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((start, end))
        out[flow] = (first, merged)
    return out


def missing_of(start: int, end: int, ranges: Ranges) -> Ranges:
    """What ``ranges`` leave out of [start, end), from ``start``."""
    at = start
    out: Ranges = []
    for low, high in ranges:
        if high <= at:
            continue
        if low >= end:
            break
        if low > at:
            out.append((at - start, low - start))
        at = min(end, high)
    if at < end:
        out.append((at - start, end - start))
    return out


@dataclass
class Comparison:
    """A reading beside what the capture held."""

    whole: int = 0
    """Messages of which the capture has every byte."""
    read: int = 0
    """Those of them that were read, and nothing else in their place."""
    holed: int = 0
    """Messages of which the capture has the header, but not all of the body."""
    reported: int = 0
    """Those of them that were reported with exactly what is missing."""
    unread: list[tuple[Flow, int, Ranges]] = field(default_factory=list)
    """Flow, number in it, and what is missing, of the others of both kinds."""
    invented: list[tuple[Flow, int]] = field(default_factory=list)
    """Flow and stream offset of rows that are no message, or not with these bytes."""


def compare(tape: Tape, packets: Sequence[Packet], reading: Reading) -> Comparison:
    """Holds ``reading``, a reading of ``packets``, against ``tape``."""
    result = Comparison()
    there = held(packets)
    for flow, rows in reading.rows.items():
        base, ranges = there.get(flow, (0, []))
        by_offset = {row.stream_offset + base: row for row in rows}
        at = 0
        for number, said in enumerate(tape.messages.get(flow, [])):
            start, at = at, at + len(said)
            row = by_offset.pop(start, None)
            missing = missing_of(start, at, ranges)
            if row is not None and (
                tuple(missing) != row.missing or row.data != blanked(said, missing)
            ):
                result.invented.append((flow, start))
            whole = not missing
            if start < base or (missing and missing[0][0] < 24):
                continue
            result.whole += whole
            result.holed += not whole
            if row is None:
                result.unread.append((flow, number, missing))
            else:
                result.read += whole
                result.reported += not whole
        result.invented += [(flow, offset) for offset in by_offset]
    return result


def blanked(data: bytes, missing: Ranges) -> bytes:
    """``data`` with zeros in place of what is missing."""
    out = bytearray(data)
    for start, end in missing:
        out[start:end] = bytes(end - start)
    return bytes(out)


def engine_rows(parts: Iterable[PacketBatch], files: int = 1) -> list[tuple[object, ...]]:
    """Every column of every row that the engine gives, in its order, and the accounts at the
    end.
    """
    engine = Engine([f"{number}" for number in range(files)], ports=(PORT,))
    out: list[tuple[object, ...]] = []
    for part in parts:
        out += rows_in(engine.feed(part))
    out += rows_in(engine.finish())
    return out + [
        tuple(getattr(account, name.name) for name in fields(account))
        for account in accounts(engine.transport)
    ]


_COLUMNS = (
    "row",
    "file",
    "frame",
    "last_file",
    "last_frame",
    "time_ns",
    "connection",
    "direction",
    "stream_offset",
    "length",
    "heuristic",
)
_NUMBERS = ("vbucket", "request_row", "request_stream_offset", "rtt_ns")
_HEADER = (
    "magic",
    "opcode",
    "datatype",
    "specific",
    "body_size",
    "opaque",
    "cas",
    "layout",
    "extras_fit",
    "fits",
    "problem",
    "collections",
)


def rows_in(batch: MessageBatch | None) -> list[tuple[object, ...]]:
    """The rows of a batch as tuples of all columns."""
    if batch is None:
        return []
    decoded = batch.decoded
    columns: list[list[Any]] = [getattr(batch, name).tolist() for name in _COLUMNS]
    columns += [getattr(decoded, name).tolist() for name in _HEADER]
    columns += [[getattr(batch, name).value_at(i) for i in range(len(batch))] for name in _NUMBERS]
    columns += [
        [getattr(decoded, name).value_at(i) for i in range(len(batch))]
        for name in ("collection_id", "sid")
    ]
    columns.append([batch.bytes_of(i) for i in range(len(batch))])
    columns.append([batch.missing.ranges_of(i) for i in range(len(batch))])
    columns.append([batch.key_of(i) for i in range(len(batch))])
    columns.append([batch.vbucket_from_request[i] for i in range(len(batch))])
    specific = [
        tuple(
            (name, value)
            for name in sorted(decoded.numbers)
            if (value := decoded.numbers[name].value_at(i)) is not None
        )
        for i in range(len(batch))
    ]
    return list(zip(*columns, specific, strict=True))
