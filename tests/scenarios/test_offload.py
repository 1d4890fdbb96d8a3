"""Frames that are longer than their IP header tells: what a network card cuts into segments later,
and what Ethernet puts behind.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import builders
from tests.builders import Conversation, Recorded

SIZES = (5000, 3001, 1449, 700, 1448)
DATA = bytes(at % 251 for at in range(sum(SIZES)))


def sent(mss: int = 1 << 16, *, acked: bool = True) -> list[Recorded]:
    """A server sends some frames at once, each of a size of its own; the client acknowledges all of
    it, if it is ``acked``.
    """
    made = Conversation(mss=mss)
    made.handshake()
    made.send(True, b"ask")
    at = 0
    for size in SIZES:
        made.send(False, DATA[at : at + size])
        at += size
    if acked:
        made.send(True)
    return builders.recorded(made.segments)


def told(packet: Recorded, length: int) -> Recorded:
    """With an IP header that tells another length."""
    return Recorded(
        packet.data[:16] + struct.pack(">H", length) + packet.data[18:],
        len(packet.data),
        packet.time_ns,
    )


def carried(packet: Recorded) -> int:
    return len(packet.data) - 54 if len(packet.data) > 60 else 0


def read(
    tmp_path: Path, captured: Sequence[Recorded], batch_bytes: int = 1 << 24
) -> builders.Reading:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(captured))
    return builders.read(path, batch_bytes=batch_bytes)


@pytest.mark.parametrize("length", [0, 20, 40, 1488])
@pytest.mark.parametrize("batch_bytes", [1 << 24, 3000])
def test_what_lies_behind_the_ip_length_is_read_where_sequence_numbers_prove_it(
    tmp_path: Path, length: int, batch_bytes: int
) -> None:
    short = [told(packet, length) if carried(packet) > 1448 else packet for packet in sent()]
    assert read(tmp_path, short, batch_bytes).streams[1, 1] == DATA
    assert read(tmp_path, short, batch_bytes).transport.account(1, 1).unique == len(DATA)


def test_it_is_read_in_ipv6_and_where_a_snapshot_length_cuts_it(tmp_path: Path) -> None:
    short = [told(packet, 1488) if carried(packet) > 1448 else packet for packet in sent()]
    cut = [Recorded(packet.data[:2054], packet.wire, packet.time_ns) for packet in short]
    account = read(tmp_path, cut).transport.account(1, 1)
    assert (account.missing, account.cut) == (4001, 4001)
    made = Conversation(client=("2001:db8::1", 50_000), server=("2001:db8::2", 11_210), mss=1 << 16)
    made.handshake()
    for at in (0, 3000):
        made.send(False, DATA[at : at + 3000])
    made.send(True)
    long = builders.recorded(made.segments)
    short = [
        Recorded(one.data[:18] + struct.pack(">H", 1020) + one.data[20:], one.wire, one.time_ns)
        if len(one.data) > 1100
        else one
        for one in long
    ]
    assert read(tmp_path, short).streams[1, 1] == DATA[:6000]


@pytest.mark.parametrize("trailer", [4, 12, 60])
@pytest.mark.parametrize("lost", [None, 5, 6])
def test_a_trailer_is_never_data(tmp_path: Path, trailer: int, lost: int | None) -> None:
    captured = [one for place, one in enumerate(sent()) if place != lost]
    behind = [
        Recorded(one.data + b"\xee" * trailer, len(one.data) + trailer, one.time_ns)
        for one in captured
    ]
    plain, found = read(tmp_path, captured), read(tmp_path, behind)
    assert (found.streams, found.holes) == (plain.streams, plain.holes)
    assert found.transport.account(1, 1) == plain.transport.account(1, 1)


def test_what_fills_a_frame_up_is_never_data(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.send(False, b"abc")
    made.send(False, b"defghi")
    padded = [
        Recorded(one.data.ljust(60, b"\0"), 60, one.time_ns)
        for one in builders.recorded(made.segments)
    ]
    del padded[-1]
    made.segments.pop()
    assert read(tmp_path, padded).streams[1, 1] == b"abc"


def test_what_nothing_proves_is_not_read_but_counted(tmp_path: Path) -> None:
    short = [
        told(packet, 1488) if carried(packet) > 1448 else packet for packet in sent(acked=False)
    ]
    reading = read(tmp_path, short[:5])
    assert reading.streams[1, 1] == DATA[:1448]
    assert reading.transport.tables.flows.unproven.max() == 5000 - 1448
