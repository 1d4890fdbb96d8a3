"""Frames through a real packet socket: what an interface receives is what comes out."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dcpinspect.capture.kernel_filter import ETHERNET, RAW_IP, program
from dcpinspect.capture.packet_socket import COOKED, ROOM, Frame, PacketSocket, cooked_socket
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
def opened(namespace: str, interface: str | None = "eth0", *, cooked: bool = False) -> Iterator[PacketSocket]:
    """A socket that receives only what is of port 11210, where neighbours would talk otherwise."""
    with inside(namespace):
        sock = cooked_socket(interface) if cooked else raw_socket(interface or "")
        source = PacketSocket(sock, interface or "any", is_cooked=cooked)
        instructions = program([11_210], ETHERNET if source.link_type == ETHERNET else RAW_IP)
        assert instructions is not None
        source.set_filter(instructions)
        source.forget()
    with sock:
        yield source


def next_frame(source: PacketSocket) -> tuple[bytes, Frame]:
    room = bytearray(ROOM + 100)
    assert select.select([source.fileno()], [], [], 10)[0]
    frame = source.receive(memoryview(room), 100)
    assert frame is not None
    assert frame[0] >= 100
    return bytes(room[frame[0] : frame[0] + frame[1]]), frame


@pytest.mark.parametrize("vlans", [(), (5,), (0xE005,), (5, 6)])
def test_a_frame_comes_as_it_was_with_its_vlan_tags(vlans: tuple[int, ...], wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace) as source:
        sent = builders.frame(SEGMENT, vlans=vlans)
        os.write(fd, sent)
        data, (_, captured, whole, time_ns, link_type) = next_frame(source)
        assert (data, captured, whole, link_type) == (sent, len(sent), len(sent), ETHERNET)
        assert time_ns > builders.START_NS
        assert source.receive(memoryview(bytearray(ROOM)), 0) is None


@pytest.mark.parametrize("interface", ["eth0", None])
@pytest.mark.parametrize("vlans", [(), (5,), (5, 6)])
def test_a_cooked_socket_says_where_the_packet_came_from(vlans: tuple[int, ...], interface: str | None, wire: tuple[str, int]) -> None:
    namespace, fd = wire
    sent = builders.frame(SEGMENT, vlans=vlans)
    with opened(namespace, interface, cooked=True) as source, inside(namespace):
        os.write(fd, sent)
        data, (_, captured, whole, _, link_type) = next_frame(source)
        index = socket.if_nametoindex("eth0")
    header = struct.pack(">HHIHBB8s", 0x8100 if vlans else 0x0800, 0, index, 1, 0, 6, bytes.fromhex("020000000001"))
    assert (link_type, captured, whole) == (COOKED, len(data), len(data))
    assert data.hex() == (header + sent[14:]).hex()


def test_frames_longer_than_scapy_would_take_come_whole_and_once() -> None:
    """A loopback interface shows packets when they go and when they come."""
    with namespaces("lo") as (namespace,), opened(namespace, "lo") as source:
        source.set_buffer(1 << 26)
        with inside(namespace):
            server = socket.create_server(("127.0.0.1", 11_210))
            client = socket.create_connection(("127.0.0.1", 11_210))
            peer, _ = server.accept()
        with server, client, peer:
            for _ in range(20):
                client.sendall(bytes(200_000))
                received = 0
                while received < 200_000:
                    received += len(peer.recv(1 << 20))
        frames = []
        room = memoryview(bytearray(ROOM))
        while (frame := source.receive(room, 0)) is not None:
            frames.append(frame)
        assert max(frame[1] for frame in frames) > 65_535
        assert all(frame[1] == frame[2] for frame in frames)
        payload = sum(frame[1] for frame in frames) - 66 * len(frames)
        assert 4_000_000 <= payload < 4_000_100  # and the handshake's options
        assert source.counts()[1] == 0


def test_drops_are_counted(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    with opened(namespace) as source:
        source.set_buffer(20_000)
        sent = builders.frame(Segment(True, 1, 2, payload=bytes(8000)))
        for _ in range(50):
            os.write(fd, sent)
        received = 0
        room = memoryview(bytearray(ROOM))
        while source.receive(room, 0) is not None:
            received += 1
        total, dropped = source.counts()
        assert (total, received + dropped) == (50, 50)
        assert 0 < received < 50
        os.write(fd, sent)
        next_frame(source)
        assert source.counts() == (51, dropped)


def test_a_buffer_may_be_larger_than_others_get(wire: tuple[str, int]) -> None:
    with opened(wire[0]) as source:
        assert source.set_buffer(64 << 20) == 64 << 20


def test_an_interface_that_is_gone_is_an_error(wire: tuple[str, int]) -> None:
    namespace, _ = wire
    with opened(namespace) as source:
        ip("-n", namespace, "link", "set", "eth0", "down")
        with pytest.raises(OSError, match="Network is down"):
            source.receive(memoryview(bytearray(ROOM)), 0)
