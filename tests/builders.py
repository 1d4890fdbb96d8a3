"""Captures made to order: a TCP conversation from two byte strings, as packets in a file.

``capture(path, client=…, server=…)`` writes one; keywords say what goes wrong on the way (loss,
reordering, duplicates, snaplen) and how it was recorded (link type, IPv6, VLAN, pcap or pcapng).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.byte_source import ByteSource
from dcpinspect.capture.open import open_capture
from dcpinspect.protocol.framed import Framed, FramingAccount
from dcpinspect.protocol.framing import Framer
from dcpinspect.protocol.resync import KnownStreams
from dcpinspect.transport.chunk import NOWHERE, SCATTERED, StreamChunk, StreamEntries
from dcpinspect.transport.reassembly import Reassembler
from tests.transport_views import accounts, segments_of

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
Form = Callable[[Iterable["Recorded"]], bytes]
ETHERNET, NULL, RAW, LOOP, COOKED, COOKED_2, IPV4, IPV6 = 1, 0, 101, 108, 113, 276, 228, 229
START_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Segment:
    """One TCP packet; ``to_server`` says which way it goes."""

    to_server: bool
    seq: int
    ack: int
    flags: int = ACK
    payload: bytes = b""
    time_ns: int = START_NS
    client: tuple[str, int] = ("10.0.0.1", 50_000)
    server: tuple[str, int] = ("10.0.0.2", 11_210)


@dataclass
class Conversation:
    """Makes the segments of one connection, in the order in which they are sent."""

    client_isn: int = 1000
    server_isn: int = 4_294_960_000  # wraps after a few kilobytes
    client: tuple[str, int] = ("10.0.0.1", 50_000)
    server: tuple[str, int] = ("10.0.0.2", 11_210)
    mss: int = 1448
    segments: list[Segment] = field(default_factory=list)
    time_ns: int = START_NS
    step_ns: int = 10_000

    def __post_init__(self) -> None:
        self.next = {True: self.client_isn, False: self.server_isn}

    def send(self, to_server: bool, payload: bytes = b"", flags: int = ACK) -> Segment:
        """One segment."""
        ack = self.next[not to_server] if flags & ACK else 0
        segment = Segment(
            to_server,
            self.next[to_server] & 0xFFFFFFFF,
            ack & 0xFFFFFFFF,
            flags,
            payload,
            self.time_ns,
            self.client,
            self.server,
        )
        self.next[to_server] += len(payload) + bool(flags & SYN) + bool(flags & FIN)
        self.time_ns += self.step_ns
        self.segments.append(segment)
        return segment

    def handshake(self) -> None:
        """SYN, SYN and ACK, ACK."""
        self.send(True, flags=SYN)
        self.send(False, flags=SYN | ACK)
        self.send(True)

    def stream(
        self, to_server: bool, data: bytes, sizes: Sequence[int] = (), ack_every: int = 2
    ) -> None:
        """``data`` in segments of ``sizes`` (then of ``mss``), acknowledged by the other side."""
        at = 0
        count = 0
        cuts = iter(sizes)
        while at < len(data):
            size = next(cuts, self.mss)
            self.send(to_server, data[at : at + size], ACK | PSH)
            at += size
            count += 1
            if ack_every and count % ack_every == 0:
                self.send(not to_server)
        if ack_every and count % ack_every:
            self.send(not to_server)

    def close(self) -> None:
        """FIN from both sides."""
        self.send(True, flags=FIN | ACK)
        self.send(False, flags=FIN | ACK)
        self.send(True)


def conversation(
    client: bytes = b"",
    server: bytes = b"",
    *,
    handshake: bool = True,
    close: bool = True,
    sizes: Sequence[int] = (),
    **options: int,
) -> list[Segment]:
    """The segments of a connection on which the client sends ``client``, then the server
    ``server``.
    """
    made = Conversation(**options)  # type: ignore[arg-type] # options are its integer fields
    if handshake:
        made.handshake()
    made.stream(True, client, sizes)
    made.stream(False, server, sizes)
    if close:
        made.close()
    return made.segments


def frame(
    segment: Segment,
    *,
    link_type: int = ETHERNET,
    vlans: Sequence[int] = (),
    pad_to: int = 0,
    zero_length: bool = False,
) -> bytes:
    """The bytes of a packet as captured on ``link_type``."""
    source, target = (
        (segment.client, segment.server) if segment.to_server else (segment.server, segment.client)
    )
    six = ":" in source[0]
    kind = 0x86DD if six else 0x0800
    packet = _packet(segment, source, target, zero_length=zero_length)
    if link_type == ETHERNET:
        tags = b"".join(struct.pack(">HH", 0x8100, vlan) for vlan in vlans)
        return (
            b"\2\0\0\0\0\2\2\0\0\0\0\1"
            + tags
            + (struct.pack(">H", kind) + packet).ljust(pad_to - 12 - len(tags), b"\xaa")
        )
    if link_type in (NULL, LOOP):
        family = 30 if six else 2
        return struct.pack("<I" if link_type == NULL else ">I", family) + packet
    if link_type == COOKED:
        return struct.pack(">HHH8sH", 0, 772, 6, b"", kind) + packet
    if link_type == COOKED_2:
        return struct.pack(">HHIHBB8s", kind, 0, 1, 772, 0, 6, b"") + packet
    return packet


def _packet(
    segment: Segment, source: tuple[str, int], target: tuple[str, int], *, zero_length: bool
) -> bytes:
    """The same from the IP header on. Scapy, which takes a hundred times as long, makes the same:
    see test_builders.
    """
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET
    ends = socket.inet_pton(family, source[0]) + socket.inet_pton(family, target[0])
    tcp = struct.pack(
        ">HHIIHHHH",
        source[1],
        target[1],
        segment.seq,
        segment.ack,
        5 << 12 | segment.flags,
        65_535,
        0,
        0,
    )
    tcp += segment.payload
    counted = 0 if zero_length and family == socket.AF_INET else len(tcp)  # as Scapy has it
    tcp = tcp[:16] + _checksum(ends + struct.pack(">II", counted, 6) + tcp) + tcp[18:]
    if family == socket.AF_INET6:
        return struct.pack(">IHBB", 6 << 28, 0 if zero_length else len(tcp), 6, 64) + ends + tcp
    header = (
        struct.pack(">BBHHHBBH", 4 << 4 | 5, 0, 0 if zero_length else 20 + len(tcp), 1, 0, 64, 6, 0)
        + ends
    )
    return header[:10] + _checksum(header) + header[12:] + tcp


def _checksum(data: bytes) -> bytes:
    """That of the Internet: the sum of 16-bit words is what is left of them, taken as one number,
    by 0xFFFF.
    """
    left = int.from_bytes(data + bytes(len(data) % 2), "big") % 0xFFFF
    return (0xFFFF - (left or 0xFFFF)).to_bytes(2, "big")


@dataclass(frozen=True)
class Recorded:
    """A packet as it goes into a file."""

    data: bytes
    wire: int
    time_ns: int
    link_type: int = ETHERNET


def recorded(
    segments: Iterable[Segment],
    *,
    snaplen: int = 262_144,
    link_type: int = ETHERNET,
    **options: object,
) -> list[Recorded]:
    """Segments as packets."""
    packets = []
    for segment in segments:
        data = frame(segment, link_type=link_type, **options)  # type: ignore[arg-type] # passed on
        packets.append(Recorded(data[:snaplen], len(data), segment.time_ns, link_type))
    return packets


def damaged(
    segments: Sequence[Segment],
    *,
    loss: Collection[int] = (),
    duplicates: Collection[int] = (),
    swaps: Collection[int] = (),
    delay: dict[int, int] | None = None,
) -> list[Segment]:
    """``segments`` less ``loss``; those at ``duplicates`` twice, at ``swaps`` after the next one,
    in ``delay`` later by so many.
    """
    order = list(range(len(segments)))
    for index in sorted(swaps):
        if index + 1 < len(order):
            order[index], order[index + 1] = order[index + 1], order[index]
    for index, by in (delay or {}).items():
        if index not in order:
            continue
        at = order.index(index)
        order.insert(min(len(order), at + by), order.pop(at))
    times = [segment.time_ns for segment in segments]
    kept = [
        index
        for index in order
        if index not in loss
        for _ in range(2 if index in duplicates else 1)
    ]
    return [
        replace(segments[index], time_ns=times[min(place, len(times) - 1)])
        for place, index in enumerate(kept)
    ]


def pcap(
    packets: Iterable[Recorded],
    *,
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    snaplen: int = 262_144,
    version: tuple[int, int] = (2, 4),
) -> bytes:
    """A pcap file."""
    packets = list(packets)
    link_type = packets[0].link_type if packets else ETHERNET
    tick = 1 if magic == 0xA1B23C4D else 1000
    out = [struct.pack(order + "IHHiIII", magic, *version, 0, 0, snaplen, link_type)]
    extra = bytes(8) if magic == 0xA1B2CD34 else b""
    for packet in packets:
        lengths = (
            (len(packet.data), packet.wire)
            if version >= (2, 3)
            else (packet.wire, len(packet.data))
        )
        out.append(
            struct.pack(
                order + "IIII", packet.time_ns // 10**9, packet.time_ns % 10**9 // tick, *lengths
            )
            + extra
            + packet.data
        )
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block."""
    body += bytes(-len(body) % 4)
    return (
        struct.pack(order + "II", kind, len(body) + 12)
        + body
        + struct.pack(order + "I", len(body) + 12)
    )


def section(order: str = "<") -> bytes:
    """A pcapng section header."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link_type: int = ETHERNET,
    order: str = "<",
    *,
    resolution: int | None = None,
    offset_s: int | None = None,
    snaplen: int = 0,
    name: bytes = b"",
) -> bytes:
    """A pcapng interface description."""
    options = (
        struct.pack(order + "HH", 2, len(name)) + name + bytes(-len(name) % 4) if name else b""
    )
    if resolution is not None:
        options += struct.pack(order + "HHB3x", 9, 1, resolution)
    if offset_s is not None:
        options += struct.pack(order + "HHq", 14, 8, offset_s)
    return block(
        1,
        struct.pack(order + "HHI", link_type, 0, snaplen)
        + options
        + (struct.pack(order + "HH", 0, 0) if options else b""),
        order,
    )


def enhanced(
    packet: Recorded, order: str = "<", *, number: int = 0, ticks: int | None = None
) -> bytes:
    """A pcapng enhanced packet block; ``ticks`` as they stand in the file, else microseconds."""
    ticks = packet.time_ns // 1000 if ticks is None else ticks
    return block(
        6,
        struct.pack(
            order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.wire
        )
        + packet.data,
        order,
    )


def pcapng(packets: Iterable[Recorded], *, order: str = "<") -> bytes:
    """A pcapng file of one section."""
    packets = list(packets)
    types = sorted({packet.link_type for packet in packets}) or [ETHERNET]
    out = [section(order), *(interface(link_type, order) for link_type in types)]
    out += [enhanced(packet, order, number=types.index(packet.link_type)) for packet in packets]
    return b"".join(out)


def capture(
    path: Path,
    *,
    client: bytes = b"",
    server: bytes = b"",
    form: Callable[[Iterable[Recorded]], bytes] = pcap,
    loss: Collection[int] = (),
    duplicates: Collection[int] = (),
    swaps: Collection[int] = (),
    delay: dict[int, int] | None = None,
    snaplen: int = 262_144,
    link_type: int = ETHERNET,
    vlans: Sequence[int] = (),
    **options: object,
) -> Path:
    """Writes a capture of one connection to ``path``; numbers in ``loss`` and the like count the
    packets sent, from 0 (the SYN).
    """
    segments = damaged(
        conversation(client, server, **options),  # type: ignore[arg-type] # passed on
        loss=loss,
        duplicates=duplicates,
        swaps=swaps,
        delay=delay,
    )
    path.write_bytes(form(recorded(segments, snaplen=snaplen, link_type=link_type, vlans=vlans)))
    return path


def message(
    *,
    magic: int = 0x80,
    opcode: int = 0x57,
    key: bytes = b"",
    extras: bytes = b"",
    value: bytes = b"",
    specific: int = 0,
    opaque: int = 0,
    cas: int = 0,
    datatype: int = 0,
) -> bytes:
    """Any message with classic framing."""
    body = extras + key + value
    return (
        struct.pack(
            ">BBHBBHIIQ",
            magic,
            opcode,
            len(key),
            len(extras),
            datatype,
            specific,
            len(body),
            opaque,
            cas,
        )
        + body
    )


def mutation(
    seqno: int = 1,
    *,
    vbucket: int = 7,
    opaque: int = 0x11,
    key: bytes = b"key",
    value: bytes = b'{"a":1}',
    cas: int = 0x16_0000_0000,
) -> bytes:
    """A mutation as a current server sends it."""
    extras = struct.pack(">QQIIIHB", seqno, 1, 0, 0, 0, 0, 0)
    return message(
        extras=extras, key=key, value=value, specific=vbucket, opaque=opaque, cas=cas, datatype=1
    )


def mutations(
    count: int,
    *,
    vbucket: int = 7,
    opaque: int = 0x11,
    value: Callable[[int], bytes] = lambda i: b"v" * (i * 37 % 200),
) -> list[bytes]:
    """Mutations of one stream, of varied length."""
    return [
        mutation(i + 1, vbucket=vbucket, opaque=opaque, key=b"key-%d" % i, value=value(i))
        for i in range(count)
    ]


@dataclass(frozen=True)
class Row:
    """One message as framing gave it; equal rows are equal in every column."""

    connection: int
    direction: int
    stream_offset: int
    data: bytes
    frame: int
    last_frame: int
    file: int
    last_file: int
    time_ns: int
    release: int
    heuristic: bool
    missing: tuple[tuple[int, int], ...]


@dataclass
class Reading:
    """What came out of a capture on the way to messages; the byte accounts were checked."""

    rows: list[Row] = field(default_factory=list)
    """By (release, connection, direction, stream offset)."""
    skipped: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    streams: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Bytes of each direction, holes as zeros."""
    holes: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    transport: Reassembler = field(default_factory=Reassembler)
    problems: list[str] = field(default_factory=list)
    scattered: int = 0
    """Segments that their file does not hold in one piece."""

    def messages(self, direction: int = 1, connection: int = 1) -> list[bytes]:
        """The messages of one direction, in stream order."""
        found = [
            row for row in self.rows if (row.connection, row.direction) == (connection, direction)
        ]
        return [row.data for row in sorted(found, key=lambda row: row.stream_offset)]


def unpacked(name: str) -> bytes:
    """What a capture file holds, without the compression around it."""
    source, found, piece = ByteSource(name), bytearray(), bytearray(1 << 20)
    while size := source.readinto(memoryview(piece)):
        found += piece[:size]
    source.close()
    return bytes(found)


def check_places(chunk: StreamChunk, files: Sequence[bytes]) -> int:
    """Compares the segments of a chunk with what stands in the files; returns how many stand
    nowhere in one piece.
    """
    assert chunk.is_placed
    places = chunk.segments.place
    offsets = [*chunk.segments.offset.tolist(), chunk.offset + len(chunk.data)]
    for start, end, place, file in zip(
        offsets, offsets[1:], places.tolist(), chunk.segments.packet.file.tolist(), strict=False
    ):
        if place >= 0:
            assert (
                files[file][place : place + end - start]
                == chunk.data[start - chunk.offset : end - chunk.offset].tobytes()
            )
        elif place == NOWHERE:
            assert start == end or any(low <= start and end <= high for low, high in chunk.holes)
    return int((places == SCATTERED).sum())


def part(batch: PacketBatch, first: int, end: int) -> PacketBatch:
    """Some of the packets of a batch."""
    return replace(
        batch,
        columns=batch.columns[:, first:end],
        first_frame=batch.first_frame + first,
        first_packet=batch.first_packet + first,
    )


def read(
    *paths: Path, batch_bytes: int = 1 << 24, ports: tuple[int, ...] | None = (11_210,)
) -> Reading:
    """Reads captures as the engine does, and checks the accounts, and that every segment stands in
    its file where it is said to.
    """
    reading = Reading(transport=Reassembler(ports, with_places=True))
    files: list[bytes] = []
    framers: dict[tuple[int, int], Framer] = {}
    known: dict[int, KnownStreams] = {}  # the clients'

    def frame_all(chunks: Iterable[StreamChunk]) -> None:
        for chunk in chunks:
            reading.scattered += check_places(chunk, files)
            link = (chunk.connection, chunk.direction)
            reading.streams[link] = reading.streams.get(link, b"") + chunk.data.tobytes()
            reading.holes.setdefault(link, []).extend(chunk.holes)
            if link not in framers:
                client = known.setdefault(chunk.connection, KnownStreams())
                framers[link] = Framer(
                    known_streams=KnownStreams(client=client) if chunk.direction else client
                )
            framed = framers[link].feed(chunk)
            if framed is not None:
                reading.rows += rows_of(framed, *link)
                ranges = zip(
                    framed.skipped_start.tolist(),
                    framed.skipped_end.tolist(),
                    framed.skipped_reason,
                    strict=True,
                )
                reading.skipped += [(*link, *one) for one in ranges]

    with open_capture(paths, batch_bytes=batch_bytes) as opened:
        files += [unpacked(file.name) for file in opened.files]
        for batch in opened:
            before = len(reading.rows)
            frame_all(reading.transport.feed(batch))
            for row in reading.rows[before:]:
                assert batch.first_packet <= row.release < batch.first_packet + len(batch)
        frame_all(reading.transport.finish())
        reading.problems = [f"{problem.offset}: {problem.what}" for problem in opened.problems]
    assert int(reading.transport.headers.counts.sum()) == reading.transport.packets
    for account in accounts(reading.transport):
        assert account.captured == account.unique + account.duplicate + account.late
        framer = framers.get((account.connection, account.direction))
        framing = framer.account if framer else FramingAccount()
        assert account.unique == framing.messages + framing.skipped + framing.unfinished
    reading.rows.sort(
        key=lambda row: (row.release, row.connection, row.direction, row.stream_offset)
    )
    reading.skipped.sort()
    return reading


def rows_of(framed: Framed, connection: int = 1, direction: int = 1) -> list[Row]:
    """The rows of a ``Framed``, one by one."""
    missing: dict[int, list[tuple[int, int]]] = {}
    for row, start, end in zip(
        framed.missing_row.tolist(),
        framed.missing_start.tolist(),
        framed.missing_end.tolist(),
        strict=True,
    ):
        missing.setdefault(row, []).append((start, end))
    rows = []
    for i in range(len(framed.start)):
        start, length = int(framed.start[i]), int(framed.length[i])
        rows.append(
            Row(
                connection,
                direction,
                int(framed.stream_offset[i]),
                framed.data[start : start + length].tobytes(),
                int(framed.frame[i]),
                int(framed.last_frame[i]),
                int(framed.file[i]),
                int(framed.last_file[i]),
                int(framed.time_ns[i]),
                int(framed.release[i]),
                bool(framed.heuristic[i]),
                tuple(missing.get(i, ())),
            )
        )
    return rows


def chunk(
    data: bytes,
    *,
    offset: int = 0,
    packet: int = 0,
    sizes: Sequence[int] = (),
    holes: tuple[tuple[int, int], ...] = (),
    is_start: bool = False,
    is_end: bool = False,
) -> StreamChunk:
    """A chunk whose bytes came in segments of ``sizes`` (then all in one), from ``packet`` and
    those after it, in frames one higher.
    """
    starts = [offset]
    for size in sizes:
        if starts[-1] + size < offset + len(data):
            starts.append(starts[-1] + size)
    numbers = packet + np.arange(len(starts))
    time_ns = START_NS + 1000 * numbers
    segments = segments_of(
        np.array(starts, np.int64),
        numbers,
        numbers + 1,
        np.zeros(len(starts), np.int64),
        time_ns,
        numbers,
    )
    return StreamChunk(
        1, 1, offset, np.frombuffer(data, np.uint8), segments, holes, is_start, is_end
    )


def glued(chunks: Sequence[StreamChunk]) -> StreamChunk:
    """Consecutive chunks as one."""
    segments = StreamEntries.joined([part.segments for part in chunks])
    data = np.concatenate([part.data for part in chunks])
    holes = tuple(hole for part in chunks for hole in part.holes)
    return StreamChunk(
        1, 1, chunks[0].offset, data, segments, holes, chunks[0].is_start, chunks[-1].is_end
    )


__all__ = ["PacketBatch", "Reassembler", "StreamChunk", "open_capture"]
