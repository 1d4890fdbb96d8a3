"""Capture files, just enough of them: tcpdump's own form in, pcap and pcapng out.

Written apart from the package, which is to be tested with these files.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers.endpoint import Address

_NANOSECONDS = 0xA1B23C4D
_SNAPLEN = 262_144

Packet = tuple[int, bytes]
"""Nanoseconds since 1970, and the frame."""


class CaptureFileError(ValueError):
    """Not a file that tcpdump wrote on this machine with nanoseconds."""


def read(path: Path) -> tuple[int, list[Packet]]:
    """(link type, packets) of a file that tcpdump wrote, and may still be writing: half a record at
    its end is left out.
    """
    data = path.read_bytes() if path.exists() else b""
    if len(data) < 24:
        return 0, []
    if struct.unpack_from("=I", data)[0] != _NANOSECONDS:
        raise CaptureFileError(
            f"{path} is no pcap file with nanoseconds in this machine's byte order"
        )
    link = struct.unpack_from("=I", data, 20)[0]
    packets: list[Packet] = []
    at = 24
    while at + 16 <= len(data):
        seconds, nanoseconds, size, original = struct.unpack_from("=IIII", data, at)
        if at + 16 + size > len(data):
            break
        if size != original:
            raise CaptureFileError(f"{path} has a packet that was cut")
        packets.append((seconds * 10**9 + nanoseconds, data[at + 16 : at + 16 + size]))
        at += 16 + size
    return link, packets


def pcap(link: int, packets: Sequence[Packet]) -> bytes:
    """A classic pcap file with nanoseconds."""
    records = (
        struct.pack("<IIII", time // 10**9, time % 10**9, len(data), len(data)) + data
        for time, data in packets
    )
    return struct.pack("<IHHiIII", _NANOSECONDS, 2, 4, 0, 0, _SNAPLEN, link) + b"".join(records)


def pcapng(link: int, packets: Sequence[Packet], comment: str, interface: str) -> bytes:
    """A pcapng file with one interface, nanoseconds and a comment."""
    section = (
        struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
        + _option(1, comment.encode())
        + _option(4, b"tcpdump")
        + _option(0, b"")
    )
    described = (
        struct.pack("<HHI", link, 0, _SNAPLEN)
        + _option(2, interface.encode())
        + _option(9, b"\x09")
        + _option(0, b"")
    )
    blocks = [_block(0x0A0D0D0A, section), _block(1, described)]
    for time, data in packets:
        blocks.append(
            _block(
                6,
                struct.pack("<IIIII", 0, time >> 32, time & 0xFFFF_FFFF, len(data), len(data))
                + _padded(data),
            )
        )
    return b"".join(blocks)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _option(code: int, data: bytes) -> bytes:
    return struct.pack("<HH", code, len(data)) + _padded(data)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment of a capture."""

    frame: int
    """Its number in the file, from 1."""
    source: Address
    target: Address
    seq: int
    ack: int
    payload: bytes
    syn: bool
    fin: bool
    reset: bool


_LINK_HEADERS = {1: 14, 113: 16, 276: 20}
"""Bytes before the IP header: Ethernet, Linux cooked v1 and v2."""


def segments(link: int, packets: Sequence[Packet]) -> Iterator[Segment]:
    """The TCP segments among packets without VLANs, IP options beyond IPv4's own, or fragments:
    what our kernel sends.
    """
    for number, (_, data) in enumerate(packets, 1):
        packet = data[_LINK_HEADERS[link] :]
        version = packet[0] >> 4
        if version == 4 and packet[9] == 6:
            start, end = 4 * (packet[0] & 0x0F), int.from_bytes(packet[2:4], "big")
            hosts = packet[12:16], packet[16:20]
        elif version == 6 and packet[6] == 6:
            start, end = 40, 40 + int.from_bytes(packet[4:6], "big")
            hosts = packet[8:24], packet[24:40]
        else:
            continue
        tcp = packet[start:end]
        source_port, target_port, seq, ack, offset, flags = struct.unpack_from(">HHIIBB", tcp)
        yield Segment(
            frame=number,
            source=(str(ipaddress.ip_address(hosts[0])), source_port),
            target=(str(ipaddress.ip_address(hosts[1])), target_port),
            seq=seq,
            ack=ack,
            payload=tcp[4 * (offset >> 4) :],
            syn=bool(flags & 2),
            fin=bool(flags & 1),
            reset=bool(flags & 4),
        )


@dataclass(frozen=True, slots=True)
class Captured:
    """Which ranges of each direction's byte stream a capture holds: half-open, in order, apart."""

    c2s: list[tuple[int, int]]
    s2c: list[tuple[int, int]]


def stream_ranges(way: Sequence[Segment], stream: bytes) -> list[tuple[int, int]]:
    """The ranges of ``stream`` that its segments hold; raises CaptureFileError where they hold
    other bytes.
    """
    first = next((s.seq + 1 for s in way if s.syn), None)
    if first is None:
        # No SYN: the first segment whose bytes can be in one place only.
        first = next(
            (s.seq - stream.find(s.payload) for s in way if stream.count(s.payload) == 1), 0
        )
    found: list[tuple[int, int]] = []
    for s in way:
        start = (s.seq + int(s.syn) - first) & 0xFFFF_FFFF
        if not s.payload or start >= len(stream):
            # Nothing, or a keep-alive byte before the first.
            continue
        if stream[start : start + len(s.payload)] != s.payload:
            raise CaptureFileError(
                f"frame {s.frame} holds other bytes than were sent at offset {start}"
            )
        found.append((start, start + len(s.payload)))
    out: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
