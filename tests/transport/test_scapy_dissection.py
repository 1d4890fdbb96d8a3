from __future__ import annotations

import itertools
import random
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.erspan import ERSPAN_II
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    PadN,
    fragment6,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, GRE, CookedLinux, Dot1AD, Dot1Q, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from dcpinspect.capture.encapsulations import NOT_READ, READ, TUNNEL_PORTS, WITHOUT_TCP
from dcpinspect.transport import headers as h
from dcpinspect.transport.scapy_dissection import UnusualPackets
from tests import builders
from tests.builders import Recorded, Segment
from tests.transport.test_headers import batch_of
from tests.transport_views import accounts, connections

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
OUTER = IP(src="192.0.2.1", dst="192.0.2.2")
OUTER_6 = IPv6(src="2001:db8::a", dst="2001:db8::b")
SERVER = b"".join(builders.mutations(60, value=lambda i: bytes([i]) * (i * 97 % 1400)))
CLIENT = b"".join(builders.message(opcode=0x5D, extras=bytes(4), opaque=i) for i in range(9))
FOUR: tuple[tuple[str, int], tuple[str, int]] = ("10.0.0.1", 50_000), ("10.0.0.2", 11_210)
SIX: tuple[tuple[str, int], tuple[str, int]] = ("2001:db8::1", 50_000), ("2001:db8::2", 11_210)

NUMBERS = itertools.count(1)
"""Identifications of datagrams."""


@pytest.fixture(autouse=True)
def _payload_stays_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scapy builds the wrapped packets here from what it dissected: layers that other tests bound
    to TCP are to leave payloads alone.
    """
    monkeypatch.setattr(TCP, "payload_guess", [])


Wrap = Callable[[Packet], Sequence[Packet]]
"""An IP packet to the packets that carry it."""


def extended(*headers: Packet) -> Wrap:
    def wrap(packet: Packet) -> list[Packet]:
        tcp = packet[TCP]
        below = IPv6(src=packet.src, dst=packet.dst)
        for header in headers:
            below = below / header.copy()
        return [ETHER / below / tcp]

    return wrap


def in_fragments_6(packet: Packet) -> list[Packet]:
    whole = (
        IPv6(src=packet.src, dst=packet.dst) / IPv6ExtHdrFragment(id=next(NUMBERS)) / packet[TCP]
    )
    return [ETHER / piece for piece in fragment6(whole, 600)]  # type: ignore[no-untyped-call]


def in_fragments(packet: Packet) -> list[Packet]:
    packet = packet.copy()
    packet.id = next(NUMBERS)
    del packet.chksum
    return [ETHER / piece for piece in fragment(packet, 400)]  # type: ignore[no-untyped-call]


def vxlan_in_fragments(packet: Packet) -> list[Packet]:
    return in_fragments(
        IP(bytes(OUTER / UDP(sport=999, dport=4789) / VXLAN(vni=1) / ETHER / packet))
    )


def gtp(flags: int = 0x30, options: bytes = b"", *, below: Packet = OUTER) -> Wrap:
    """GTP-U around a packet: ``options`` are the four optional bytes, and headers behind them."""

    def wrap(packet: Packet) -> list[Packet]:
        inside = options + bytes(packet)
        return [
            ETHER
            / below
            / UDP(sport=2152, dport=2152)
            / Raw(struct.pack(">BBHI", flags, 255, len(inside), 7) + inside)
        ]

    return wrap


def gtp_in_fragments(packet: Packet) -> list[Packet]:
    return in_fragments(IP(bytes(gtp()(packet)[0][IP])))


IN_UDP = UDP(sport=50_000, dport=4754)
WRAPS: dict[str, Wrap] = {
    "GRE in UDP": lambda packet: [ETHER / OUTER / IN_UDP / GRE() / packet],
    "GRE in UDP with key, checksum and number": lambda packet: [
        ETHER
        / OUTER
        / IN_UDP
        / GRE(key_present=1, key=77, chksum_present=1, seqnum_present=1, sequence_number=3)
        / packet
    ],
    "GRE in UDP of Ethernet, over IPv6": lambda packet: [
        ETHER / OUTER_6 / IN_UDP / GRE(key_present=1, key=77) / ETHER / packet
    ],
    "GTP-U": gtp(),
    "GTP-U with a sequence number": gtp(0x32, bytes.fromhex("00070000")),
    "GTP-U with an N-PDU number": gtp(0x31, bytes.fromhex("00000700")),
    "GTP-U with a PDU session container": gtp(0x34, bytes.fromhex("00000085 01100500")),
    "GTP-U with two extensions and a number": gtp(
        0x36, bytes.fromhex("000700c0 01123485 0210050000000000")
    ),
    "GTP-U over IPv6": gtp(below=OUTER_6),
    "fragments of GTP-U": gtp_in_fragments,
    "fragments": in_fragments,
    "fragments reversed": lambda packet: in_fragments(packet)[::-1],
    "fragments twice": lambda packet: [piece for piece in in_fragments(packet) for _ in range(2)],
    "fragments in 802.1Q": lambda packet: [
        ETHER / Dot1Q(vlan=5) / piece[IP] for piece in in_fragments(packet)
    ],
    "fragments of VXLAN": vxlan_in_fragments,
    "VXLAN": lambda packet: [
        ETHER / OUTER / UDP(sport=999, dport=4789) / VXLAN(flags=8, vni=5) / ETHER / packet
    ],
    "VXLAN of 802.1Q": lambda packet: [
        ETHER
        / OUTER
        / UDP(sport=999, dport=4789)
        / VXLAN(flags=8, vni=5)
        / ETHER
        / Dot1Q(vlan=2)
        / packet
    ],
    "VXLAN, generic": lambda packet: [
        ETHER / OUTER / UDP(sport=999, dport=4789) / VXLAN(vni=5) / ETHER / packet
    ],
    "fragments in VXLAN": lambda packet: [
        ETHER / OUTER / UDP(sport=999, dport=4789) / VXLAN(flags=8, vni=5) / piece
        for piece in in_fragments(packet)
    ],
    "VXLAN over IPv6": lambda packet: [
        ETHER / OUTER_6 / UDP(sport=999, dport=4789) / VXLAN(vni=5) / ETHER / packet
    ],
    "VXLAN at Linux's port, of 802.1Q": lambda packet: [
        ETHER / OUTER / UDP(sport=999, dport=8472) / VXLAN(vni=5) / ETHER / Dot1Q(vlan=2) / packet
    ],
    "GRE": lambda packet: [ETHER / OUTER / GRE() / packet],
    "GRE with key, checksum and number": lambda packet: [
        ETHER
        / OUTER
        / GRE(key_present=1, key=77, chksum_present=1, seqnum_present=1, sequence_number=3)
        / packet
    ],
    "GRE of Ethernet": lambda packet: [ETHER / OUTER / GRE(key_present=1, key=77) / ETHER / packet],
    "ERSPAN": lambda packet: [
        ETHER / OUTER / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II() / ETHER / packet
    ],
    "Geneve": lambda packet: [
        ETHER / OUTER / UDP(sport=999, dport=6081) / GENEVE(vni=9, proto=0x6558) / ETHER / packet
    ],
    "MPLS": lambda packet: [ETHER / MPLS(label=100, s=0) / MPLS(label=200, s=1) / packet],
    "PPPoE": lambda packet: [ETHER / PPPoE(sessionid=3) / PPP() / packet],
    "IP in IP": lambda packet: [ETHER / OUTER / packet],
    "IP in IPv6": lambda packet: [ETHER / OUTER_6 / packet],
    "authentication header": lambda packet: [
        ETHER
        / IP(src=packet.src, dst=packet.dst, proto=51)
        / AH(nh=6, payloadlen=4, spi=9, seq=1, icv=bytes(12))
        / packet[TCP]
    ],
    "IP in AH": lambda packet: [
        ETHER
        / IP(src="192.0.2.1", dst="192.0.2.2", proto=51)
        / AH(nh=4, payloadlen=4, spi=9, seq=1, icv=bytes(12))
        / packet
    ],
    "802.1ad": lambda packet: [ETHER / Dot1AD(vlan=1) / Dot1Q(vlan=2) / packet],
    "nine tags": lambda packet: [
        Ether(bytes(ETHER)[:12] + b"\x81\x00\x00\x01" * 9 + b"\x08\x00" + bytes(packet))
    ],
}
SIX_WRAPS: dict[str, Wrap] = {
    "IPv6 fragments": in_fragments_6,
    "IPv6 fragments reversed": lambda packet: in_fragments_6(packet)[::-1],
    "atomic fragment": extended(IPv6ExtHdrFragment(id=1)),
    "hop by hop": extended(IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(4))])),
    "destination options": extended(
        IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(12))])
    ),
    "IPv6 in IP": lambda packet: [ETHER / OUTER / packet],
    "IPv6 in VXLAN": lambda packet: [
        ETHER / OUTER / UDP(sport=999, dport=4789) / VXLAN() / ETHER / packet
    ],
}
ALL = {**dict.fromkeys(WRAPS, FOUR), **dict.fromkeys(SIX_WRAPS, SIX)}
REBUILT = ("fragment", "header", "hop by hop", "destination options")
"""Their TCP packets are made anew: no place of the file holds such a one."""
PLAIN_VXLAN = ("VXLAN", "VXLAN of 802.1Q")
NOT_BY_TSHARK = {"fragments twice", "nine tags"}


PORTS = {name: 50_000 + number for number, name in enumerate(ALL)}
"""Of the client whose conversation is wrapped so: they can be told apart where one capture has all
of them.
"""


def conversation(
    addresses: tuple[tuple[str, int], tuple[str, int]], port: int = 50_000
) -> list[Segment]:
    (host, _), server = addresses
    segments = builders.conversation(CLIENT, SERVER)
    return [replace(segment, client=(host, port), server=server) for segment in segments]


@cache
def wrapped(name: str) -> list[Recorded]:
    wrap = {**WRAPS, **SIX_WRAPS}[name]
    packets = []
    for segment in conversation(ALL[name], PORTS[name]):
        inner = builders.frame(segment, link_type=builders.RAW)
        for packet in wrap(IPv6(inner) if ":" in segment.client[0] else IP(inner)):
            data = bytes(packet)
            packets.append(Recorded(data, len(data), segment.time_ns))
    return packets


def written(path: Path, packets: list[Recorded]) -> Path:
    path.write_bytes(builders.pcap(packets))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_conversation_reads_the_same_however_it_is_wrapped(name: str, tmp_path: Path) -> None:
    plain = builders.read(
        written(tmp_path / "plain.pcap", builders.recorded(conversation(ALL[name])))
    )
    packets = wrapped(name)
    path = written(tmp_path / "wrapped.pcap", packets)
    reading = builders.read(path)
    for direction in (0, 1):
        assert reading.messages(direction) == plain.messages(direction)
    assert not reading.skipped
    assert (reading.scattered > 0) == any(words in name for words in REBUILT)
    assert [link.server for link in connections(reading.transport)] == [
        link.server for link in connections(plain.transport)
    ]
    assert {h.CLASS_NAMES[i] for i in np.flatnonzero(reading.transport.headers.counts)} <= {
        "used",
        "fragment",
    }
    assert builders.read(path, batch_bytes=4096).rows == reading.rows


@pytest.mark.slow
@pytest.mark.requires("tshark")
def test_tshark_finds_as_many_messages_however_they_are_wrapped(tmp_path: Path) -> None:
    """All conversations are in one capture, each with a client's port of its own: tshark starts
    only once.
    """
    ports = {PORTS[name]: name for name in ALL.keys() - NOT_BY_TSHARK}
    path = written(
        tmp_path / "wrapped.pcap", [packet for name in ports.values() for packet in wrapped(name)]
    )
    options = [
        "-d",
        "udp.port==8472,vxlan",
        "-Y",
        "couchbase",
        "-T",
        "fields",
        "-E",
        "occurrence=a",
    ]
    options += [
        word
        for field in ("tcp.srcport", "tcp.dstport", "couchbase.opcode")
        for word in ("-e", field)
    ]
    done = subprocess.run(
        ["tshark", "-r", str(path), *options], check=True, capture_output=True, text=True
    )
    theirs = Counter[str]()
    for line in done.stdout.splitlines():
        *both, opcodes = line.split("\t")
        (port,) = {int(end) for ends in both for end in ends.split(",")} & ports.keys()
        theirs[ports[port]] += opcodes.count(",") + 1
    reading = builders.read(path)
    clients = [int(link.client.rpartition(":")[2]) for link in connections(reading.transport)]
    assert theirs == Counter(ports[clients[row.connection - 1]] for row in reading.rows)
    assert theirs.keys() == set(ports.values())


WIFI = bytes.fromhex("0801 0000 020000000001 020000000002 020000000003 0000 aaaa03000000 0800")
"""A data frame to an access point, with SNAP."""


def nflog(order: str, family: int = 2) -> Callable[[bytes], bytes]:
    """A record of NFLOG as the kernel writes it: header, prefix, payload, in byte order of the
    machine.
    """

    def wrap(packet: bytes) -> bytes:
        attributes = b""
        for kind, value in ((1, b"\x08\x00\x03\x00"), (10, b"dcp\0\0"), (9, packet)):
            attributes += (
                struct.pack(order + "HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)
            )
        return struct.pack(">BBH", family, 0, 5) + attributes

    return wrap


LINKS: dict[int, Callable[[bytes], bytes]] = {
    9: lambda packet: b"\xff\x03\x00\x21" + packet,
    50: lambda packet: b"\xff\x03\x00\x21" + packet,
    51: lambda packet: (
        b"\x11\x00\x00\x03" + struct.pack(">H", len(packet) + 2) + b"\x00\x21" + packet
    ),
    104: lambda packet: b"\x0f\x00\x08\x00" + packet,
    105: lambda packet: WIFI + packet,
    119: lambda packet: bytes(144) + WIFI + packet,
    127: lambda packet: b"\x00\x00\x08\x00\x00\x00\x00\x00" + WIFI + packet,
    204: lambda packet: b"\x01\xff\x03\x00\x21" + packet,
    226: lambda packet: struct.pack(">BBHIIIII", 1, 2, 0, len(packet), 1, 0, 0, 0) + packet,
    239: nflog("<"),
    258: lambda packet: struct.pack("<III", 108, 1, 1) + bytes(96 + 12) + b"\x08\x00" + packet,
}
"""By link type, what is around a packet; those that builders make themselves are in
test_headers.py.
"""


@pytest.mark.parametrize("link_type", LINKS)
def test_a_conversation_reads_the_same_over_rare_link_types(link_type: int, tmp_path: Path) -> None:
    plain = builders.read(written(tmp_path / "plain.pcap", builders.recorded(conversation(FOUR))))
    packets = []
    for segment in conversation(FOUR):
        data = LINKS[link_type](builders.frame(segment, link_type=builders.RAW))
        packets.append(Recorded(data, len(data), segment.time_ns, link_type))
    reading = builders.read(written(tmp_path / "linked.pcap", packets))
    assert [reading.messages(way) for way in (0, 1)] == [plain.messages(way) for way in (0, 1)]
    assert reading.scattered == 0


@pytest.mark.parametrize("name", PLAIN_VXLAN)
def test_the_short_cut_through_vxlan_gives_what_scapy_gives(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "wrapped.pcap", wrapped(name))
    short = builders.read(path)
    monkeypatch.setattr("dcpinspect.transport.scapy_dissection._in_vxlan", lambda *_: -1)
    assert builders.read(path).rows == short.rows


def fragments_of(payload: bytes) -> list[Packet]:
    segment = Segment(False, 1000, 1, 0x18, payload)
    return [
        Ether(bytes(piece))
        for piece in in_fragments(IP(builders.frame(segment, link_type=builders.RAW)))
    ]


def recorded(*packets: Packet, snaplen: int = 65_535) -> list[Recorded]:
    return [
        Recorded(bytes(packet)[:snaplen], len(bytes(packet)), builders.START_NS + 1000 * number)
        for number, packet in enumerate(packets)
    ]


def counts(reading: builders.Reading) -> dict[str, int]:
    numbers = reading.transport.headers.counts
    return {h.CLASS_NAMES[i]: int(numbers[i]) for i in np.flatnonzero(numbers)}


def test_a_segment_in_fragments_counts_at_the_packet_that_completed_it(tmp_path: Path) -> None:
    first, second, *_ = builders.mutations(2, value=lambda _: bytes(600))
    pieces = fragments_of(first)
    other = fragments_of(second)
    path = written(tmp_path / "a.pcap", recorded(pieces[0], other[0], *other[1:], *pieces[1:]))
    assert len(pieces) == len(other) == 2
    reading = builders.read(path)
    assert counts(reading) == {"used": 2, "fragment": 2}
    assert {row.frame for row in reading.rows} <= {3, 4}


def test_a_datagram_that_misses_a_fragment_is_missing(tmp_path: Path) -> None:
    messages = builders.mutations(3, value=lambda _: bytes(600))
    packets = [
        piece
        for number, message in enumerate(messages)
        for piece in in_fragments(
            IP(
                builders.frame(
                    Segment(False, 1000 + sum(map(len, messages[:number])), 1, 0x18, message),
                    link_type=builders.RAW,
                )
            )
        )
    ]
    del packets[3]
    reading = builders.read(written(tmp_path / "a.pcap", recorded(*packets)))
    assert reading.messages() == [messages[0], messages[2]]
    assert counts(reading) == {"used": 2, "fragment": 2, "incomplete fragment": 1}


def test_snaplen_over_fragments_leaves_the_sizes(tmp_path: Path) -> None:
    message = builders.mutations(1, value=lambda _: bytes(1000))[0]
    reading = builders.read(
        written(tmp_path / "a.pcap", recorded(*fragments_of(message), snaplen=300))
    )
    (row,) = reading.rows
    assert len(row.data) == len(message)
    assert sum(end - start for start, end in row.missing) > 700
    assert accounts(reading.transport)[1].cut == sum(end - start for start, end in row.missing)


@pytest.mark.parametrize("name", ["VXLAN", "MPLS", "hop by hop"])
def test_snaplen_over_a_tunnel_leaves_the_sizes(name: str, tmp_path: Path) -> None:
    whole = builders.read(written(tmp_path / "a.pcap", wrapped(name)))
    packets = [replace(packet, data=packet.data[:200]) for packet in wrapped(name)]
    reading = builders.read(written(tmp_path / "b.pcap", packets))
    for mine, its in zip(accounts(reading.transport), accounts(whole.transport), strict=True):
        assert (mine.unique + mine.missing, mine.missing) == (its.unique, mine.cut)
        assert mine.unique > 0
    sizes = {(row.direction, row.stream_offset): len(row.data) for row in whole.rows}
    assert all(sizes[row.direction, row.stream_offset] == len(row.data) for row in reading.rows)


INNER = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1, dport=11_210)


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (ETHER / OUTER / UDP(sport=999, dport=4789) / VXLAN() / ETHER / ARP(), "not TCP"),
        (ETHER / OUTER / GRE() / IP() / UDP(), "not TCP"),
        (ETHER / OUTER / GRE() / OUTER / ICMP(type=3, code=4) / INNER, "not TCP"),
        (ETHER / OUTER / GRE() / IP() / TCP(sport=80, dport=1234), "not our port"),
        (ETHER / OUTER / GRE() / INNER, "used"),
        (ETHER / OUTER / GRE() / IP(ihl=4) / TCP(dport=11_210), "malformed"),
        (ETHER / IP(src="192.0.2.1", dst="192.0.2.2", proto=4) / Raw(b"\x45abc"), "malformed"),
        (ETHER / IP(flags="MF", proto=6) / Raw(bytes(13)), "malformed"),
        (ETHER / IP(frag=8191, proto=6) / Raw(bytes(80)), "malformed"),
        (ETHER / IP(flags="MF", proto=6) / Raw(bytes(16)), "incomplete fragment"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.summary().replace(" / ", "/"),
)
def test_every_packet_is_in_one_class(packet: Packet, expected: str, tmp_path: Path) -> None:
    reading = builders.read(written(tmp_path / "a.pcap", recorded(packet)))
    assert counts(reading) == {expected: 1}
    ports = np.flatnonzero(reading.transport.headers.other_ports).tolist()
    assert ports == ([80] if expected == "not our port" else [])


@pytest.mark.parametrize("size", range(50, 90, 4))
def test_a_tunnel_cut_inside_its_headers_is_cut(size: int, tmp_path: Path) -> None:
    packet = ETHER / OUTER / UDP(sport=999, dport=4789) / VXLAN() / ETHER / INNER
    assert counts(builders.read(written(tmp_path / "a.pcap", recorded(packet, snaplen=size)))) == {
        "cut": 1
    }


@pytest.mark.parametrize(
    ("link_type", "below"),
    [
        (9, PPP()),
        (50, HDLC() / PPP()),
        (builders.COOKED, CookedLinux(proto=0x8847) / MPLS(label=16, s=1)),
    ],
)
def test_rare_link_types_are_read(link_type: int, below: Packet, tmp_path: Path) -> None:
    segment = Segment(False, 1000, 1, 0x18, builders.mutation())
    data = bytes(below / IP(builders.frame(segment, link_type=builders.RAW)))
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap([Recorded(data, len(data), builders.START_NS, link_type)]))
    assert builders.read(path).messages() == [builders.mutation()]


@pytest.mark.parametrize("family", [2, 7])
def test_nflog_is_read_in_the_byte_order_of_either_machine(family: int, tmp_path: Path) -> None:
    segment = Segment(False, 1000, 1, 0x18, builders.mutation())
    data = nflog(">", family)(builders.frame(segment, link_type=builders.RAW))
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap([Recorded(data, len(data), builders.START_NS, 239)]))
    assert builders.read(path).messages() == [builders.mutation()]


@pytest.mark.parametrize("size", range(4, 40, 3))
def test_nflog_that_is_cut_is_cut(size: int, tmp_path: Path) -> None:
    data = nflog("<")(bytes(INNER))
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap([Recorded(data[:size], len(data), builders.START_NS, 239)]))
    assert counts(builders.read(path)) == {"cut": 1}


def test_the_link_types_that_are_said_to_be_read_are_those_that_are() -> None:
    made_by_builders = {0, 1, 12, 14, 101, 108, 113, 228, 229, 276}
    assert set(READ) == made_by_builders | set(LINKS)
    assert len({*READ, *NOT_READ, *WITHOUT_TCP}) == len(READ) + len(NOT_READ) + len(WITHOUT_TCP)
    others = np.array([number for number in (*range(1000), 65_535) if number not in READ])
    packets = batch_of(*[bytes(ETHER / INNER)] * len(others))
    packets.link_type[:] = others
    parser = h.HeaderParser((11_210,))
    headers, _, _ = UnusualPackets(parser).resolve(packets, parser.parse(packets))
    assert set(headers.classes.tolist()) == {h.UNUSUAL}


def test_the_ports_of_tunnels_that_are_said_to_be_read_are_those_that_are() -> None:
    packet = bytes(OUTER / UDP(sport=999, dport=1))
    packets = [packet[:22] + port.to_bytes(2, "big") + packet[24:] for port in range(65_536)]
    classes = h.HeaderParser((11_210,)).parse(batch_of(*packets, link_type=101)).classes
    assert np.flatnonzero(classes == h.UNUSUAL).tolist() == sorted(TUNNEL_PORTS)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (struct.pack(">BBHI", 0x32, 1, 4, 0) + bytes(4), "not TCP"),  # an echo request
        (struct.pack(">BBHI", 0x48, 255, 60, 0) + bytes(60), "not TCP"),  # version 2
        (struct.pack(">BBHI", 0x30, 255, 0, 7), "malformed"),
        (
            struct.pack(">BBHI", 0x34, 255, 8, 7) + bytes.fromhex("00000085 00000000"),
            "not TCP",
        ),  # a header of no bytes
        (struct.pack(">BBHI", 0x34, 255, 8, 7) + bytes.fromhex("00000085 ff000000"), "malformed"),
        (b"\x30", "malformed"),
    ],
)
def test_messages_of_gtp_without_a_packet_are_no_tcp(
    message: bytes, expected: str, tmp_path: Path
) -> None:
    packet = ETHER / OUTER / UDP(sport=2152, dport=2152) / Raw(message)
    assert counts(builders.read(written(tmp_path / "a.pcap", recorded(packet)))) == {expected: 1}


def test_a_packet_of_nothing_but_headers_ends(tmp_path: Path) -> None:
    deep = bytes(IP(proto=4, len=0)) * 3000
    reading = builders.read(
        written(
            tmp_path / "a.pcap",
            [Recorded(bytes(ETHER / Raw(deep))[:12] + b"\x08\x00" + deep, 60_014, 0)],
        )
    )
    assert counts(reading) in ({"malformed": 1}, {"not TCP": 1})


def test_wrapped_and_plain_packets_keep_their_order(tmp_path: Path) -> None:
    segments = conversation(FOUR)
    plain = builders.recorded(segments)
    rng = random.Random(5)
    mixed: list[Recorded] = []
    for number, segment in enumerate(segments):
        if rng.random() < 0.4:
            inner = IP(builders.frame(segment, link_type=builders.RAW))
            pieces = rng.choice(list(WRAPS.values()))(inner)
            mixed += [
                Recorded(bytes(piece), len(bytes(piece)), segment.time_ns) for piece in pieces
            ]
        else:
            mixed.append(plain[number])
    expected = builders.read(written(tmp_path / "plain.pcap", plain))
    path = written(tmp_path / "mixed.pcap", mixed)
    whole = builders.read(path)
    assert whole.messages() == expected.messages()
    for size in (2048, 5000):
        assert builders.read(path, batch_bytes=size).rows == whole.rows


@pytest.mark.slow
@given(st.data())
def test_hostile_bytes_end_in_a_class(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ALL)))
    packets = [bytearray(packet.data) for packet in wrapped(name)[:6]]
    for packet in packets:
        for _ in range(data.draw(st.integers(0, 4))):
            packet[data.draw(st.integers(0, min(120, len(packet)) - 1))] = data.draw(
                st.integers(0, 255)
            )
    parser = h.HeaderParser((11_210,))
    batch = batch_of(*map(bytes, packets), cut=data.draw(st.sampled_from([40, 80, 1 << 20])))
    unusual = UnusualPackets(parser)
    headers, joined, _ = unusual.resolve(batch, parser.parse(batch))
    unusual.finish()
    assert int(parser.counts.sum()) == len(packets)
    assert (parser.counts >= 0).all()
    assert (np.diff(headers.index) > 0).all()
    tcp = headers.tcp[headers.tcp[:, h.CAPTURED] > 0]
    assert (tcp[:, h.PAYLOAD] + tcp[:, h.CAPTURED] <= len(joined)).all()
