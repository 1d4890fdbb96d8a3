"""Makes a capture show its conversations twice: before and after address translation, or on both
sides of a proxy.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dcpinspect.reading.reading import Reading
from tests.builders import COOKED, COOKED_2, ETHERNET, LOOP, NULL, RAW, SYN, Recorded, pcap

Doubled = Callable[[Iterable[Recorded]], list[Recorded]]

_IP_AT = {ETHERNET: 14, COOKED: 16, COOKED_2: 20, NULL: 4, LOOP: 4, RAW: 0}
_SHIFTS = 0x3A5A5A5A, 0x71717171
"""Distance of the sequence numbers behind a proxy from those in front of it, by direction."""


@dataclass(frozen=True)
class Tcp:
    """A packet of IPv4 and TCP in its parts. Checksums are not made anew, since nobody looks at
    them.
    """

    packet: Recorded
    link: bytes
    ip: bytes
    source: int
    target: int
    seq: int
    ack: int
    rest: bytes
    """The TCP header behind the acknowledgement."""
    payload: bytes

    @property
    def flags(self) -> int:
        """Flags of the TCP header."""
        return self.rest[1]

    def to_server(self, ports: Sequence[int] = (11_210, 11_207)) -> bool:
        """Whether the client sent it."""
        return self.target in ports

    def recorded(self, time_ns: int) -> Recorded:
        """The packet as it goes into a file."""
        tcp = (
            struct.pack(
                ">HHII", self.source, self.target, self.seq % (1 << 32), self.ack % (1 << 32)
            )
            + self.rest
        )
        ip = (
            self.ip[:2]
            + struct.pack(">H", len(self.ip) + len(tcp) + len(self.payload))
            + self.ip[4:]
        )
        data = self.link + ip + tcp + self.payload
        return Recorded(data, len(data), time_ns, self.packet.link_type)


def tcp_of(packet: Recorded) -> Tcp:
    """The parts of a packet."""
    at = _IP_AT[packet.link_type]
    ip_size = 4 * (packet.data[at] & 15)
    ip, tcp = (
        packet.data[at : at + ip_size],
        packet.data[at + ip_size : at + int.from_bytes(packet.data[at + 2 : at + 4], "big")],
    )
    header = 4 * (tcp[12] >> 4)
    source, target, seq, ack = struct.unpack(">HHII", tcp[:12])
    return Tcp(packet, packet.data[:at], ip, source, target, seq, ack, tcp[12:header], tcp[header:])


def packets_of(path: Path) -> list[Recorded]:
    """The packets of a pcap file, which may be compressed."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    magic, link_type = struct.unpack("<I16xI", data[:24])
    tick, at, found = 1 if magic == 0xA1B23C4D else 1000, 24, []
    while at < len(data):
        seconds, parts, size, wire = struct.unpack("<IIII", data[at : at + 16])
        found.append(
            Recorded(
                data[at + 16 : at + 16 + size], wire, seconds * 10**9 + parts * tick, link_type
            )
        )
        at += 16 + size
    return found


def translated(
    packets: Iterable[Recorded], *, delay_ns: int = 20_000, host: bytes = b"\x0a\x60\x00\x05"
) -> list[Recorded]:
    """Each packet, and the same packet as it is after its server's address was translated."""

    def copies(one: Tcp) -> Iterator[Recorded]:
        ip = (
            one.ip[:16] + host + one.ip[20:]
            if one.to_server()
            else one.ip[:12] + host + one.ip[16:]
        )
        yield replace(one, ip=ip).recorded(one.packet.time_ns + delay_ns)

    return _with(packets, copies)


def passed_on(
    packets: Iterable[Recorded], *, delay_ns: int = 1000, port: int = 1111, sizes: int = 2
) -> list[Recorded]:
    """Each packet, and what a proxy makes of it: a packet of its own connection to the server, or
    several.
    """

    def copies(one: Tcp) -> Iterator[Recorded]:
        ways = _SHIFTS if one.to_server() else _SHIFTS[::-1]
        time_ns = one.packet.time_ns + (delay_ns if one.to_server() else -delay_ns)
        ports = (
            (one.source + port, one.target) if one.to_server() else (one.source, one.target + port)
        )
        ack = one.ack + ways[1] if not (one.flags & SYN and one.to_server()) else 0
        size = -(-len(one.payload) // sizes) or 1
        for start in range(0, len(one.payload) or 1, size):
            part = replace(
                one, source=ports[0], target=ports[1], seq=one.seq + ways[0] + start, ack=ack
            )
            yield replace(part, payload=one.payload[start : start + size]).recorded(time_ns)

    return _with(packets, copies)


def _with(
    packets: Iterable[Recorded], copies: Callable[[Tcp], Iterable[Recorded]]
) -> list[Recorded]:
    found = []
    for packet in packets:
        found += [packet, *copies(tcp_of(packet))]
    return sorted(found, key=lambda packet: packet.time_ns)


def written(folder: Path, packets: Iterable[Recorded], name: str = "doubled.pcap") -> Path:
    """The packets as a file with times in nanoseconds."""
    path = folder / name
    path.write_bytes(pcap(packets, magic=0xA1B23C4D))
    return path


def said_of(*paths: Path) -> tuple[list[Any], list[Any], dict[str, int]]:
    """The findings, the streams, and the sizes of tables, without numbers of connections and
    rows.
    """
    with Reading([*map(str, paths)]) as reading:
        reading.check()
        for _ in reading:
            pass
        found = [
            (one.rule, one.severity, one.whose, one.vbuckets, one.seqnos, one.count)
            for one in reading.findings()
            if one.rule
            not in (
                "seen-twice",
                "mid-stream-start",
            )  # those that only say goodbye have no message to know them by
        ]
        tables = {
            name: len(table)
            for name, table in reading.tables.by_name.items()
            if name != "connections"
        }
        names = ("vbucket", "verdict", "items", "gaps", "first_seqno", "last_seqno")
        streams = [*zip(*(reading.tables.streams.values(name) for name in names), strict=True)]
    return sorted(found, key=str), sorted(streams, key=str), tables
