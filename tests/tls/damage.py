"""TLS captures damaged on purpose, by code that knows which records and messages that hit.

    tape = taped(recorded)
    packets = lost(tape.packets, 0.01, seed=1)  # or anything else of tests.damage
    save(path, packets)
    untouched(tape, packets)[flow].messages

Losses, bursts, swaps and doubles are those of ``tests.damage``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from tests.builders import Recorded as FilePacket
from tests.builders import pcap
from tests.damage import Flow, Packet, Ranges, ends, held
from tests.damage import taped as packets_of
from tests.tls.endpoint import Sealed
from tests.tls.peers import PORT, Recorded

_NANOSECONDS = 0xA1B23C4D


@dataclass(frozen=True)
class Tape:
    """All packets of a capture, and what each flow says and in which records."""

    packets: list[Packet]
    messages: dict[Flow, list[bytes]]
    records: dict[Flow, list[Sealed]]


@dataclass(frozen=True)
class Untouched:
    """What damage left of a flow."""

    cipher: Ranges
    """The stretches of the cipher stream that the capture still has."""
    records: list[int]
    """Which of the flow's records are there whole."""
    plain: Ranges
    """The stretches of the plain stream that those hold."""
    messages: list[int]
    """Which of the flow's messages lie in them whole."""


def taped(recorded: Recorded, port: int = PORT) -> Tape:
    """A recording, ready to be damaged."""
    messages: dict[Flow, list[bytes]] = {}
    records: dict[Flow, list[Sealed]] = {}
    for connection in recorded.connections:
        said = connection.said
        for direction, way in enumerate((said.c2s, said.s2c)):
            flow = (*ends(said.client, said.server), direction)
            messages[flow], records[flow] = way, connection.records[direction]
    return Tape(
        packets_of(recorded.path, {flow: way[-1].end for flow, way in records.items()}, port),
        messages,
        records,
    )


def untouched(tape: Tape, packets: Sequence[Packet]) -> dict[Flow, Untouched]:
    """For each flow, also one that is gone, what these packets still hold of it."""
    there = held(packets)
    return {
        flow: _left(tape.messages[flow], records, there.get(flow, (0, []))[1])
        for flow, records in tape.records.items()
    }


def _left(messages: Sequence[bytes], records: Sequence[Sealed], cipher: Ranges) -> Untouched:
    whole = _inside([(record.start, record.end) for record in records], cipher)
    plain: Ranges = []
    for number in whole:
        record = records[number]
        if plain and plain[-1][1] == record.plain_start:
            plain[-1] = (plain[-1][0], record.plain_end)
        elif record.plain_start < record.plain_end:
            plain.append((record.plain_start, record.plain_end))
    edges = [0, *accumulate(map(len, messages))]
    return Untouched(cipher, whole, plain, _inside(list(pairwise(edges)), plain))


def _inside(pieces: Sequence[tuple[int, int]], ranges: Ranges) -> list[int]:
    """Which of the pieces, which come in order, lie in one of the ranges."""
    out, at = [], 0
    for number, (start, end) in enumerate(pieces):
        while at < len(ranges) and ranges[at][1] < end:
            at += 1
        if at < len(ranges) and ranges[at][0] <= start:
            out.append(number)
    return out


def cut(packets: Sequence[Packet], snaplen: int) -> list[Packet]:
    """As a capture with that snaplen has them."""
    return [packet.cut(snaplen) for packet in packets]


def one_way(packets: Sequence[Packet], direction: int) -> list[Packet]:
    """Without the packets of the other direction."""
    return [packet for packet in packets if packet.flow[2] == direction]


def midstream(packets: Sequence[Packet], share: float) -> list[Packet]:
    """Without the first part of the capture."""
    return list(packets[int(share * len(packets)) :])


def save(path: Path, packets: Sequence[Packet]) -> Path:
    """A pcap file with nanoseconds."""
    path.write_bytes(_file(packets))
    return path


def save_cut(path: Path, packets: Sequence[Packet], share: float) -> list[Packet]:
    """A file that ends after that share of its bytes, inside a packet; the packets that are in it
    whole.
    """
    data = _file(packets)
    ends_at = list(accumulate((16 + len(packet.data) for packet in packets), initial=24))
    whole = sum(end <= share * len(data) for end in ends_at[1:])
    stop = (
        ends_at[whole] + (16 + len(packets[whole].data)) // 2 if whole < len(packets) else len(data)
    )
    path.write_bytes(data[:stop])
    return list(packets[:whole])


def _file(packets: Sequence[Packet]) -> bytes:
    return pcap(
        (
            FilePacket(packet.data, packet.wire, packet.time_ns, packet.link_type)
            for packet in packets
        ),
        magic=_NANOSECONDS,
    )
