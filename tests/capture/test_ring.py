"""Blocks of a ring as the kernel fills them, and as tests make them."""

from __future__ import annotations

import os
import select
import struct

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.capture.packet_socket import BLOCK_BYTES, MOST
from dcpinspect.capture.ring import LAST_NS, LEFT, PACKETS, WRITTEN, write_packets
from tests import builders
from tests.builders import Segment
from tests.capture.test_packet_socket import Frame, blocks, opened, wire
from tests.peers.network import NEEDS_ROOT

__all__ = ["wire"]

IPV4, IPV6, VLAN, PROVIDER = 0x0800, 0x86DD, 0x8100, 0x88A8


def packet(
    data: bytes,
    *,
    protocol: int = IPV4,
    tag: tuple[int, int] | None = None,
    kind: int = 0,
    hardware: int = 1,
    wire: int = 0,
) -> bytes:
    """A packet as tpacket3_hdr, sockaddr_ll and its bytes; ``tag``: what the kernel took out,
    number and type.
    """
    status = 0 if tag is None else 0x10 | (0x40 if tag[1] else 0)
    tci, kind_of_tag = tag or (0, 0)
    body = 48 + 20 + 4
    head = struct.pack(
        "<IIIIIIHHIIHH8x",
        0,
        1_700_000_000,
        5,
        len(data),
        wire or len(data),
        status,
        body,
        body,
        0,
        tci,
        kind_of_tag,
        0,
    )
    address = (
        struct.pack("<H", 17)
        + struct.pack(">H", protocol)
        + struct.pack("<iHBB8s", 7, hardware, kind, 6, b"\x02\0\0\0\0\x01")
    )
    found = head + address + bytes(4) + data
    found += bytes(-len(found) % 16)
    return struct.pack("<I", len(found)) + found[4:]


def written(
    *packets: bytes, is_cooked: bool = False, most: int = MOST, room: int = 1 << 16
) -> tuple[list[Frame], list[int]]:
    """The packets of a block, by both forms alike; and what is kept."""
    block: ByteArray = np.frombuffer(b"".join(packets), np.uint8)
    results = []
    for form in (write_packets.compiled, write_packets.interpreted):
        out, state = np.zeros(room, np.uint8), np.array([0, len(packets), 0, 0, 0])
        form(block, is_cooked, 3, most, out, 0, state)
        results.append((out[: state[WRITTEN]].tobytes(), state.tolist()))
    assert results[0] == results[1]
    return blocks(results[0][0]), results[0][1]


def test_a_packet_comes_with_its_time_its_lengths_and_its_interface() -> None:
    frames, state = written(packet(b"x" * 33, wire=99))
    assert frames == [(b"x" * 33, 99, 1_700_000_000_000_000_005, 3)]
    assert (state[LEFT], state[PACKETS], state[LAST_NS]) == (0, 1, 1_700_000_000_000_000_005)


def test_a_tag_that_the_kernel_took_out_is_put_back() -> None:
    frame = bytes(12) + b"\x08\x00" + b"ip"
    assert written(packet(frame, tag=(5, 0)))[0][0][0] == bytes(12) + b"\x81\x00\x00\x05\x08\x00ip"
    assert (
        written(packet(frame, tag=(0xE005, PROVIDER)))[0][0][0]
        == bytes(12) + b"\x88\xa8\xe0\x05\x08\x00ip"
    )
    assert written(packet(b"short", tag=(5, 0)))[0][0][0] == b"short"


def test_a_cooked_packet_says_where_it_came_from() -> None:
    head = bytes.fromhex("0000 00000007 0001 04 06 020000000001 0000".replace(" ", ""))
    ((plain, *_),), _ = written(packet(b"\x45ip", kind=4), is_cooked=True)
    assert plain == b"\x08\x00" + head + b"\x45ip"
    ((tagged, *_),), _ = written(packet(b"\x45ip", kind=4, tag=(5, 0)), is_cooked=True)
    assert tagged == b"\x81\x00" + head + b"\x00\x05\x08\x00\x45ip"
    ((hidden, *_),), _ = written(packet(b"\x00\x06\x08\x00\x45ip", kind=4), is_cooked=True)
    assert hidden == b"\x81\x00" + head + b"\x00\x06\x08\x00\x45ip"


def test_what_goes_out_of_a_loopback_interface_is_left_out_where_it_comes_back() -> None:
    out, back = packet(b"a", kind=4, hardware=772), packet(b"b", kind=0, hardware=772)
    assert len(written(out, back, is_cooked=True)[0]) == 1
    assert len(written(out, back)[0]) == 2


def test_packets_that_have_no_room_or_are_too_many_stay() -> None:
    many = [packet(bytes([number]) * 100) for number in range(10)]
    assert written(*many, most=4)[1][LEFT] == 6
    assert written(*many, most=0)[1] == [0, 10, 0, 0, 0]
    frames, state = written(*many, room=500)
    assert (len(frames), state[LEFT]) == (3, 7)


@NEEDS_ROOT
def test_both_forms_write_the_same(wire: tuple[str, int]) -> None:
    """Of blocks of a real ring, whatever is in their packets."""
    namespace, fd = wire
    with opened(namespace, None, cooked=True) as source, opened(namespace) as ether:
        for number in range(1, 40):
            os.write(
                fd,
                builders.frame(
                    Segment(True, number, 2, payload=bytes(number * 7)),
                    vlans=[(), (5,), (5, 6)][number % 3],
                ),
            )
        for one in (source, ether):
            assert select.select([one.fileno()], [], [], 60)[0]
            block = one._memory[:BLOCK_BYTES].copy()
            count, first = struct.unpack_from("2I", block.data, 12)
            results = []
            for form in (write_packets.compiled, write_packets.interpreted):
                out, state = np.zeros(1 << 20, np.uint8), np.array([first, count, 0, 0, 0])
                form(block, one.is_cooked, 3, MOST, out, 0, state)
                results.append((out.tobytes(), state.tolist()))
            assert results[0] == results[1]
            assert results[0][1][1:2] == [0]
