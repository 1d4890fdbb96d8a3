"""What a reassembler knows of all its connections, as objects: tests look at few of them. And
segments made of columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.transport.chunk import NOWHERE, StreamEntries
from dcpinspect.transport.reassembly import DirectionAccount, Lifetime, Reassembler


@dataclass(frozen=True)
class Connection:
    """One TCP connection of a reading."""

    number: int
    client: str
    server: str
    server_port: int
    first_packet: int
    starts: str
    """``handshake`` if its SYN was captured, ``mid-stream`` otherwise."""


def connections(transport: Reassembler) -> list[Connection]:
    """The connections met so far; number ``n`` is at ``n - 1``."""
    numbers = np.arange(1, transport.count + 1)
    columns = (
        numbers,
        transport.ports(0, 1),
        transport.first_packets,
        transport.have_handshake(numbers),
    )
    return [
        Connection(
            number,
            transport.end(number, 0),
            transport.end(number, 1),
            port,
            packet,
            "handshake" if has_handshake else "mid-stream",
        )
        for number, port, packet, has_handshake in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def accounts(transport: Reassembler) -> list[DirectionAccount]:
    """The counts of bytes of every direction so far."""
    return [
        transport.account(number, direction)
        for number in range(1, transport.count + 1)
        for direction in (0, 1)
    ]


def lifetimes(transport: Reassembler) -> list[Lifetime]:
    """When every connection was seen so far; connection ``n`` is at ``n - 1``."""
    return transport.lifetimes_of(np.arange(1, transport.count + 1))


def segments_of(
    offset: IntArray,
    number: IntArray,
    frame: IntArray,
    file: IntArray,
    time_ns: IntArray,
    release: IntArray,
    place: IntArray | int = NOWHERE,
) -> StreamEntries:
    """Segments made of these columns."""
    segments = StreamEntries.zeros(len(offset))
    packet, segments.offset, segments.release = segments.packet, offset, release
    packet.number, packet.frame, packet.file, packet.time = number, frame, file, time_ns
    segments.place[:] = place
    return segments
