from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import GRE, Ether

from dcpinspect.capture.open import open_capture
from dcpinspect.output.export.handshakes import Handshakes
from dcpinspect.transport.reassembly import Reassembler
from tests import builders
from tests.builders import ACK, SYN, Conversation, Recorded, Segment


def handshakes(
    tmp_path: Path, segments: list[Segment], connections: set[int], batch_bytes: int = 1 << 20
) -> list[int]:
    """Numbers of the packets found."""
    return handshakes_among(tmp_path, builders.recorded(segments), connections, batch_bytes)


def handshakes_among(
    tmp_path: Path, packets: list[Recorded], connections: set[int], batch_bytes: int = 1 << 20
) -> list[int]:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(packets))
    transport = Reassembler()
    with open_capture(path, batch_bytes=batch_bytes) as capture:
        for batch in capture:
            transport.feed(batch)
    found: list[int] = []
    finder = Handshakes(
        transport, np.array(sorted(connections), np.int64), bare=np.empty(0, np.int64)
    )
    with open_capture(path, batch_bytes=batch_bytes) as capture:
        for batch in capture:
            found += (batch.first_packet + finder.packets(batch)).tolist()
    return found


def conversation(client_port: int = 50_000, isn: int = 1000) -> list[Segment]:
    one = Conversation(client=("10.0.0.1", client_port), client_isn=isn, server_isn=isn)
    one.handshake()
    one.stream(True, b"x" * 100)
    one.stream(False, b"y" * 3000)
    one.close()
    return one.segments


@pytest.mark.parametrize("batch_bytes", [1, 200, 1 << 20])
def test_syn_its_answer_and_the_answer_to_that(tmp_path: Path, batch_bytes: int) -> None:
    assert handshakes(tmp_path, conversation(), {1}, batch_bytes) == [0, 1, 2]


def test_other_connections_are_left_alone(tmp_path: Path) -> None:
    one, other = conversation(), conversation(50_001)
    mixed = [segment for pair in zip(one, other, strict=True) for segment in pair]
    assert handshakes(tmp_path, mixed, {2}) == [1, 3, 5]
    assert handshakes(tmp_path, mixed, set()) == []


def test_the_same_addresses_may_open_more_than_once(tmp_path: Path) -> None:
    first, second = conversation(isn=1000), conversation(isn=90_000_000)
    start = len(first)
    assert handshakes(tmp_path, first + second, {1}) == [0, 1, 2]
    assert handshakes(tmp_path, first + second, {2}) == [start, start + 1, start + 2]


def test_repeated_packets_of_a_handshake_are_part_of_it(tmp_path: Path) -> None:
    segments = conversation()
    assert handshakes(tmp_path, [segments[0], *segments], {1}) == [0, 1, 2, 3]


def test_a_handshake_that_is_not_there_is_not_made_up(tmp_path: Path) -> None:
    assert handshakes(tmp_path, conversation()[3:], {1}) == []
    without_answer = [
        segment for segment in conversation()[:2] if segment.flags in (SYN, SYN | ACK)
    ]
    assert handshakes(tmp_path, without_answer, {1}) == [0, 1]


def test_handshakes_in_tunnels_are_found(tmp_path: Path) -> None:
    head = bytes(Ether() / IP(src="192.0.2.1", dst="192.0.2.2") / GRE(proto=0x0800))
    inner = [builders.frame(segment, link_type=builders.RAW) for segment in conversation()]
    packets = []
    for number, data in enumerate(inner):
        whole = head[:16] + (len(head) - 14 + len(data)).to_bytes(2, "big") + head[18:] + data
        packets.append(Recorded(whole, len(whole), builders.START_NS + number))
    assert handshakes_among(tmp_path, packets, {1}) == [0, 1, 2]
