"""Frames through a real packet socket: what an interface receives is what comes out."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from dcpinspect.capture.kernel_filter import ETHERNET, RAW_IP, program
from dcpinspect.capture.packet_socket import COOKED, MOST, PacketSocket, cooked_socket
from tests import builders
from tests.builders import Segment
from tests.peers.network import NEEDS_ROOT, inside, ip, namespaces, tapped

pytestmark = NEEDS_ROOT

SEGMENT = Segment(True, 1, 2, payload=b"payload")


@pytest.fixture
def wire() -> Iterator[tuple[str, int]]:
    with tapped("wire", mtu=9000) as found:
        yield found


def raw_socket(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((interface, 3))
    return sock


@contextmanager
def opened(
    namespace: str, interface: str | None = "eth0", *, cooked: bool = False, size: int = 8 << 20
) -> Iterator[PacketSocket]:
    """A socket that receives only what is of port 11210, where neighbours would talk otherwise."""
    with inside(namespace):
        sock = cooked_socket(interface) if cooked else raw_socket(interface or "")
        source = PacketSocket(sock, interface or "any", is_cooked=cooked)
        instructions = program([11_210], ETHERNET if source.link_type == ETHERNET else RAW_IP)
        assert instructions is not None
        source.set_filter(instructions)
        assert source.start(size) == size
    try:
        yield source
    finally:
        source.close()


Frame = tuple[bytes, int, int, int]
"""Its bytes, its length on the wire, capture time in nanoseconds, the interface's number."""


def blocks(data: bytes) -> list[Frame]:
    """The packets of enhanced packet blocks."""
    found = []
    while data:
        kind, length, interface, high, low, captured, wire = struct.unpack_from("<7I", data)
        assert (kind, struct.unpack_from("<I", data, length - 4)) == (6, (length,))
        assert length == 32 + captured + -captured % 4
        assert not any(data[28 + captured : length - 4])
        found.append((data[28 : 28 + captured], wire, high << 32 | low, interface))
        data = data[length:]
    return found


def waiting(source: PacketSocket, *, most: int = MOST, room: int = 1 << 22) -> list[Frame]:
    """What waits now."""
    out = np.full(room, 0xEE, np.uint8)
    size, packets = source.write_waiting(out, most)
    found = blocks(out[:size].tobytes())
    assert len(found) == packets
    return found


def received(source: PacketSocket, count: int) -> list[Frame]:
    """The next frames."""
    found: list[Frame] = []
    while len(found) < count:
        assert select.select([source.fileno()], [], [], 60)[0]
        found += waiting(source)
    return found


@pytest.mark.parametrize("vlans", [(), (5,), (0xE005,), (5, 6)])
def test_a_frame_comes_as_it_was_with_its_vlan_tags(
    vlans: tuple[int, ...], wire: tuple[str, int]
) -> None:
    namespace, fd = wire
    with opened(namespace) as source:
        sent = builders.frame(SEGMENT, vlans=vlans)
        os.write(fd, sent)
        ((data, whole, time_ns, interface),) = received(source, 1)
        assert (data.hex(), whole, interface) == (sent.hex(), len(sent), 0)
        assert time_ns > builders.START_NS
        assert waiting(source) == []
        assert not source.has_more


@pytest.mark.parametrize("interface", ["eth0", None])
@pytest.mark.parametrize("vlans", [(), (5,), (5, 6)])
def test_a_cooked_socket_says_where_the_packet_came_from(
    vlans: tuple[int, ...], interface: str | None, wire: tuple[str, int]
) -> None:
    namespace, fd = wire
    sent = builders.frame(SEGMENT, vlans=vlans)
    with opened(namespace, interface, cooked=True) as source, inside(namespace):
        os.write(fd, sent)
        ((data, whole, _, _),) = received(source, 1)
        index = socket.if_nametoindex("eth0")
    header = struct.pack(
        ">HHIHBB8s", 0x8100 if vlans else 0x0800, 0, index, 1, 0, 6, bytes.fromhex("020000000001")
    )
    assert (source.link_type, whole) == (COOKED, len(data))
    assert data.hex() == (header + sent[14:]).hex()


def received_of(frames: list[Frame], port: int) -> int:
    """The bytes of payload from a port, each counted once, up to the first hole."""
    segments, first = [], 0
    for data, *_ in frames:
        source, _, sequence, _, offset, flags = struct.unpack_from(">HHIIBB", data, 34)
        if source == port and flags & 2:
            first = sequence + 1
        elif source == port:
            segments.append((sequence, len(data) - 34 - (offset >> 4) * 4))
    whole = 0
    for start, length in sorted(
        ((sequence - first) & 0xFFFFFFFF, length) for sequence, length in segments
    ):
        if start <= whole:
            whole = max(whole, start + length)
    return whole


def test_frames_longer_than_scapy_would_take_come_whole_and_once() -> None:
    """A loopback interface shows packets when they go and when they come."""
    with namespaces("lo") as (namespace,), opened(namespace, "lo", size=1 << 26) as source:
        with inside(namespace):
            server = socket.create_server(("127.0.0.1", 11_210))
            client = socket.create_connection(("127.0.0.1", 11_210))
            peer, _ = server.accept()
        client_port = client.getsockname()[1]
        with server, client, peer:
            for _ in range(20):
                client.sendall(bytes(200_000))
                taken = 0
                while taken < 200_000:
                    taken += len(peer.recv(1 << 20))
        frames: list[Frame] = []
        while received_of(frames, client_port) < 4_000_000:
            frames += received(source, 1)
        assert max(len(frame[0]) for frame in frames) > 65_535
        assert all(len(frame[0]) == frame[1] for frame in frames)
        assert received_of(frames, client_port) == 4_000_000
        # A busy machine sends a segment again, as a packet with another IP identification.
        assert len({frame[0] for frame in frames}) == len(frames)
        assert source.counts()[1] == 0


def test_as_many_are_taken_as_are_asked_for_and_have_room(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    sent = [
        builders.frame(Segment(True, number, 2, payload=bytes(1000))) for number in range(1, 21)
    ]
    with opened(namespace) as source:
        for frame in sent:
            os.write(fd, frame)
        assert select.select([source.fileno()], [], [], 60)[0]
        found = waiting(source, most=3)
        assert (len(found), source.has_more) == (3, True)
        assert waiting(source, most=0) == []
        assert waiting(source, room=500) == []
        assert source.has_more
        found += waiting(source, room=5000)
        assert 3 < len(found) < 8
        while len(found) < len(sent):
            found += received(source, 1)
        assert [frame[0] for frame in found] == sent


def test_drops_are_counted(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace, size=4 << 20) as source:
        sent = builders.frame(Segment(True, 1, 2, payload=bytes(8000)))
        for _ in range(1000):
            os.write(fd, sent)
        total, dropped = source.counts()
        assert total == 1000
        assert 0 < dropped < 1000
        assert len(received(source, total - dropped)) == total - dropped
        os.write(fd, sent)
        received(source, 1)
        assert source.counts() == (1001, dropped)


def test_what_comes_after_the_end_is_not_received(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace) as source:
        os.write(fd, builders.frame(SEGMENT))
        source.end()
        os.write(fd, builders.frame(SEGMENT))
        assert len(received(source, 1)) == 1
        time.sleep(0.1)
        assert waiting(source) == []
        assert source.counts() == (1, 0)


def test_an_interface_that_is_down_or_gone_is_an_error(wire: tuple[str, int]) -> None:
    namespace, _ = wire
    with opened(namespace) as source:
        assert source.error() is None
        ip("-n", namespace, "link", "set", "eth0", "down")
        error = source.error()
        assert error is not None
        assert (str(error), source.is_gone) == ("[Errno 100] Network is down", False)
        ip("-n", namespace, "link", "delete", "eth0")
        assert source.is_gone
