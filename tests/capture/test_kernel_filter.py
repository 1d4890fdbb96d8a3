"""The filter program run by the kernel, on frames that come as datagrams: it sees bytes, whatever
socket they are on.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, GRE, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from dcpinspect.capture.kernel_filter import ETHERNET, RAW_IP, attach, expression, program
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.packet_walk import MAX_PACKET
from tests import builders

Passes = Callable[[bytes], int | None]

pytestmark = pytest.mark.skipif(
    program([1], RAW_IP) is None and not os.environ.get("CI"),
    reason="needs libpcap, which CI installs",
)


@pytest.fixture
def passes(request: pytest.FixtureRequest) -> Iterator[Passes]:
    """How many bytes of a frame of a link type pass the filter of ports 11210 and 12000; None when
    it does not pass.
    """
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with left, right:
        for end in (left, right):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        instructions = program([11_210, 12_000], getattr(request, "param", ETHERNET))
        assert instructions is not None
        attach(right, instructions)

        def run(frame: bytes) -> int | None:
            left.send(frame)
            try:
                return len(right.recv(1 << 20, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return None

        yield run


OURS = TCP(sport=11_210, dport=50_000) / b"x"
SECTION_HEADER = TCP(sport=80, dport=50_000) / b"x"

WANTED = [
    IP() / OURS,
    IP() / TCP(sport=50_000, dport=12_000),
    IP(options=b"\x01" * 4) / OURS,
    IPv6() / OURS,
    IPv6() / IPv6ExtHdrHopByHop() / OURS,
    IPv6() / IPv6ExtHdrFragment(offset=10) / Raw(b"x"),
    IP(flags="MF") / TCP(dport=80),
    IP(frag=100) / Raw(b"x"),
    IP() / UDP(dport=4789) / VXLAN() / Ether() / IP() / SECTION_HEADER,
    IP() / UDP(dport=6081) / GENEVE() / Ether() / IP() / SECTION_HEADER,
    IP() / GRE() / IP() / SECTION_HEADER,
    IP() / IP() / SECTION_HEADER,
    IPv6() / IP() / SECTION_HEADER,
]
UNWANTED = [
    IP() / SECTION_HEADER,
    IPv6() / SECTION_HEADER,
    IP() / UDP(sport=4789, dport=53) / b"x",
    IP() / ICMP(),
]


@pytest.mark.parametrize("packet", WANTED, ids=lambda packet: packet.summary())
@pytest.mark.parametrize("passes", [RAW_IP, ETHERNET], indirect=True, ids=["raw", "ethernet"])
def test_what_may_be_of_the_ports_passes(
    packet: Packet, passes: Passes, request: pytest.FixtureRequest
) -> None:
    frame = bytes(packet) if "raw" in request.node.callspec.id else bytes(Ether() / packet)
    assert passes(frame) == len(frame)


@pytest.mark.parametrize("packet", UNWANTED, ids=lambda packet: packet.summary())
@pytest.mark.parametrize("passes", [RAW_IP, ETHERNET], indirect=True, ids=["raw", "ethernet"])
def test_what_cannot_be_of_the_ports_does_not_pass(
    packet: Packet, passes: Passes, request: pytest.FixtureRequest
) -> None:
    assert (
        passes(bytes(packet) if "raw" in request.node.callspec.id else bytes(Ether() / packet))
        is None
    )


def test_other_protocols_do_not_pass(passes: Passes) -> None:
    assert passes(bytes(Ether() / ARP())) is None


def test_a_frame_longer_than_any_ethernet_has_passes_whole(passes: Passes) -> None:
    frame = bytes(Ether() / IP(len=0) / OURS) + bytes(70_000)
    assert passes(frame) == len(frame)


def test_frames_are_cut_only_where_capture_files_cut_them(passes: Passes) -> None:
    frame = bytes(Ether() / IP(len=0) / OURS) + bytes(400_000)
    assert passes(frame) == MAX_PACKET


@pytest.mark.requires("tcpdump")
def test_the_expression_says_the_same_to_tcpdump(tmp_path: Path) -> None:
    recorded = [
        builders.Recorded(bytes(Ether() / packet), 9999, builders.START_NS)
        for packet in (*WANTED, *UNWANTED)
    ]
    (tmp_path / "all.pcap").write_bytes(builders.pcap(recorded))
    command = [
        "tcpdump",
        "-r",
        str(tmp_path / "all.pcap"),
        "-w",
        str(tmp_path / "kept.pcap"),
        expression([11_210, 12_000]),
    ]
    subprocess.run(command, capture_output=True, check=True)
    with open_capture(tmp_path / "kept.pcap") as kept:
        assert sum(map(len, kept)) == len(WANTED)
