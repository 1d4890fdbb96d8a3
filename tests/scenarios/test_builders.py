"""Packets made to order are those of Scapy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from tests import builders
from tests.builders import Segment

ENDS = (
    st.tuples(st.ip_addresses(v=4).map(str), st.integers(0, 65_535)),
    st.tuples(st.ip_addresses(v=6).map(str), st.integers(0, 65_535)),
)
NUMBERS = st.integers(0, 2**32 - 1)


def by_scapy(segment: Segment, *, vlans: tuple[int, ...] = (), zero_length: bool = False) -> bytes:
    source, target = (
        (segment.client, segment.server) if segment.to_server else (segment.server, segment.client)
    )
    six = ":" in source[0]
    tcp = TCP(
        sport=source[1],
        dport=target[1],
        seq=segment.seq,
        ack=segment.ack,
        flags=segment.flags,
        window=65_535,
    )
    ip: Packet = IPv6(src=source[0], dst=target[0]) if six else IP(src=source[0], dst=target[0])
    if zero_length:
        setattr(ip, "plen" if six else "len", 0)
    below: Packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    for vlan in vlans:
        below = below / Dot1Q(vlan=vlan)
    return bytes(below / ip / tcp / Raw(segment.payload) if segment.payload else below / ip / tcp)


@given(
    ends=st.one_of(st.tuples(ENDS[0], ENDS[0]), st.tuples(ENDS[1], ENDS[1])),
    to_server=st.booleans(),
    numbers=st.tuples(NUMBERS, NUMBERS),
    flags=st.integers(0, 255),
    payload=st.one_of(st.binary(max_size=9), st.sampled_from([b"\xff" * 1448, bytes(1447)])),
    vlans=st.sampled_from([(), (5,), (5, 6)]),
    zero_length=st.booleans(),
)
def test_any_segment_is_the_packet_that_scapy_makes(
    ends: tuple[tuple[str, int], tuple[str, int]],
    to_server: bool,
    numbers: tuple[int, int],
    flags: int,
    payload: bytes,
    vlans: tuple[int, ...],
    zero_length: bool,
) -> None:
    segment = Segment(to_server, *numbers, flags, payload, client=ends[0], server=ends[1])
    made = builders.frame(segment, vlans=vlans, zero_length=zero_length)
    assert made == by_scapy(segment, vlans=vlans, zero_length=zero_length)


@pytest.mark.parametrize(
    "link_type", [builders.NULL, builders.LOOP, builders.RAW, builders.COOKED, builders.COOKED_2]
)
@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::1"])
def test_on_other_links_it_is_the_same_behind_their_headers(link_type: int, host: str) -> None:
    segment = Segment(True, 1, 2, payload=b"payload", client=(host, 1), server=(host, 2))
    assert builders.frame(segment, link_type=link_type).endswith(by_scapy(segment)[14:])


def test_short_frames_are_padded() -> None:
    segment = Segment(True, 1, 2)
    assert builders.frame(segment, pad_to=60) == by_scapy(segment).ljust(60, b"\xaa")
