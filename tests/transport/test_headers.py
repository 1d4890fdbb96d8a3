from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, GRE, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.kernels.kernel import Kernel
from dcpinspect.transport import headers as h
from tests import builders
from tests.builders import ACK, PSH, Segment
from tests.catalogue import each

SIX = Segment(
    True,
    4_000_000_000,
    7,
    ACK | PSH,
    b"payload",
    client=("2001:db8::1", 50_000),
    server=("::1", 11_210),
)
FOUR = Segment(False, 4_000_000_000, 7, ACK | PSH, b"payload")


def batch_of(
    *packets: bytes, link_type: int = 1, cut: int = 1 << 20, wire: int | None = None
) -> PacketBatch:
    sizes = np.array([min(cut, len(packet)) for packet in packets], np.int64)
    wires = np.array([wire or len(packet) for packet in packets], np.int64)
    data = np.frombuffer(b"".join(packet[:cut] for packet in packets), np.uint8)
    count = len(packets)
    return PacketBatch(
        data,
        np.stack(
            (
                np.cumsum(sizes) - sizes,
                sizes,
                wires,
                np.zeros(count, np.int64),
                np.full(count, link_type),
            )
        ),
        0,
        1,
        0,
        0,
    )


def parsed(batch: PacketBatch) -> h.Headers:
    return h.HeaderParser((11_210,)).parse(batch)


def class_of(packet: Packet | bytes, **options: int) -> str:
    return h.CLASS_NAMES[int(parsed(batch_of(bytes(packet), **options)).classes[0])]


@pytest.mark.parametrize("segment", [FOUR, SIX], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize(
    "link_type",
    [
        builders.ETHERNET,
        builders.NULL,
        builders.LOOP,
        builders.COOKED,
        builders.COOKED_2,
        builders.RAW,
        12,
        14,
        228,
        229,
    ],
)
def test_every_link_type_gives_the_same_columns(segment: Segment, link_type: int) -> None:
    batch = batch_of(builders.frame(segment, link_type=link_type), link_type=link_type)
    row = parsed(batch).tcp[0]
    ports = (50_000, 11_210) if segment.to_server else (11_210, 50_000)
    assert row[h.PORTS : h.FLAGS + 1].tolist() == [*ports, 4_000_000_000, 7, ACK | PSH]
    assert batch.data[row[h.PAYLOAD] :][: row[h.CAPTURED]].tobytes() == b"payload"
    assert row[h.WIRE] == 7


@pytest.mark.parametrize("vlans", [(5,), (5, 6), (1, 2, 3)])
def test_vlan_tags_are_stepped_over(vlans: tuple[int, ...]) -> None:
    assert parsed(batch_of(builders.frame(FOUR, vlans=vlans))).tcp[0, h.WIRE] == 7


def test_null_link_type_takes_both_byte_orders() -> None:
    swapped = (
        bytes(reversed(builders.frame(SIX, link_type=builders.NULL)[:4]))
        + builders.frame(SIX, link_type=builders.NULL)[4:]
    )
    assert class_of(swapped, link_type=0) == "used"


def test_ethernet_padding_is_no_payload() -> None:
    row = parsed(batch_of(builders.frame(replace(FOUR, payload=b""), pad_to=60))).tcp[0]
    assert (row[h.CAPTURED], row[h.WIRE]) == (0, 0)


@pytest.mark.parametrize("segment", [FOUR, SIX], ids=["ipv4", "ipv6"])
def test_length_zero_means_as_long_as_the_frame(segment: Segment) -> None:
    big = replace(segment, payload=b"x" * 70_000 if segment is SIX else b"x" * 9000)
    whole = replace(segment, payload=b"")
    packet = builders.frame(whole, zero_length=True) + big.payload
    assert parsed(batch_of(packet)).tcp[0, h.WIRE] == len(big.payload)


@pytest.mark.parametrize("snaplen", [54, 56, 60, 61])
def test_snaplen_leaves_the_wire_length(snaplen: int) -> None:
    row = parsed(batch_of(builders.frame(FOUR), cut=snaplen, wire=61)).tcp[0]
    assert (row[h.CAPTURED], row[h.WIRE]) == (snaplen - 54, 7)


@each("snaplen", range(48))
def test_a_packet_cut_inside_its_headers_is_cut(snaplen: int) -> None:
    assert class_of(builders.frame(FOUR), cut=snaplen, wire=61) == "cut"


ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
INNER = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1, dport=11_210)


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (ETHER / ARP(), "not TCP"),
        (ETHER / IP() / UDP(), "not TCP"),
        (ETHER / IP() / ICMP(), "not TCP"),
        (ETHER / IP() / TCP(sport=80, dport=1234), "not our port"),
        (ETHER / IP(flags="MF") / TCP(dport=11_210), "unusual"),
        (ETHER / IP(frag=100, proto=6) / Raw(bytes(40)), "unusual"),
        (ETHER / IP() / GRE() / INNER, "unusual"),
        (ETHER / IP() / INNER, "unusual"),
        (ETHER / IP() / UDP(dport=4789) / VXLAN() / ETHER / INNER, "unusual"),
        (ETHER / IPv6() / IPv6ExtHdrFragment() / TCP(dport=11_210), "unusual"),
        (Ether(type=0x8847) / Raw(bytes(60)), "unusual"),
        (ETHER / Dot1Q(vlan=3) / ARP(), "not TCP"),
        (ETHER / IP(ihl=4) / TCP(dport=11_210), "malformed"),
        (ETHER / IP() / TCP(dport=11_210, dataofs=4), "malformed"),
        (ETHER / IP() / TCP(dport=11_210, dataofs=15), "malformed"),
        (ETHER / IP(len=30) / TCP(dport=11_210), "malformed"),
        (Ether(type=0x0800) / Raw(b"\x75" + bytes(60)), "malformed"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.summary().replace(" / ", "/"),
)
def test_every_other_packet_has_a_class(packet: Packet, expected: str) -> None:
    assert class_of(packet) == expected


def test_an_unknown_link_type_is_unusual() -> None:
    assert class_of(b"abc" * 30, link_type=147) == "unusual"


def test_other_ports_are_counted_by_the_lower_one() -> None:
    parser = h.HeaderParser((11_210,))
    parser.parse(
        batch_of(
            bytes(ETHER / IP() / TCP(sport=9000, dport=5001)),
            bytes(ETHER / IP() / TCP(sport=5001, dport=9000)),
        )
    )
    assert np.flatnonzero(parser.other_ports).tolist() == [5001]
    assert parser.counts.tolist() == [0, 0, 2, 0, 0, 0, 0, 0, 0]


def both(kernel: Kernel[..., int], *arguments: object) -> None:
    """Runs both forms and compares what they return and write."""
    copies = [
        [
            argument.copy() if isinstance(argument, np.ndarray) else argument
            for argument in arguments
        ]
        for _ in range(2)
    ]
    results = [kernel.interpreted(*copies[0]), kernel.compiled(*copies[1])]
    assert results[0] == results[1]
    for one, other in zip(*copies, strict=True):
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.binary(max_size=90), st.integers(0, 3), st.binary(max_size=6)
        ),
        max_size=8,
    ),
    st.sampled_from([1, 0, 108, 113, 276, 101, 5]),
)
def test_interpreted_and_compiled_agree_on_any_bytes(
    parts: list[tuple[int, bytes, int, bytes]], link_type: int
) -> None:
    packets = []
    for kind, noise, place, patch in parts:
        packet = bytearray(
            noise
            if kind == 0
            else builders.frame(
                FOUR if kind % 2 else SIX, link_type=link_type if link_type != 5 else 1
            )
        )
        at = place * 13
        packet[at : at + len(patch)] = patch
        packets.append(bytes(packet))
    batch = batch_of(*packets, link_type=link_type)
    count = len(packets)
    wanted = h.HeaderParser((11_210,)).wanted
    both(
        h.parse_headers,
        batch.data,
        batch.offset,
        batch.captured,
        batch.wire,
        batch.link_type,
        wanted,
        np.zeros(count, np.uint8),
        np.zeros(count, np.int64),
        np.zeros((count, h.COLUMNS), np.int64),
        np.zeros(65_536, np.int64),
    )
