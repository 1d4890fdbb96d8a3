from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import GRE, Ether

from dcpinspect.capture.open import open_capture
from dcpinspect.output.export.carriers import LineMarks
from dcpinspect.output.export.handshakes import MAX_OPENING, Handshakes, HeadersAgain, Openings
from dcpinspect.output.export.packet_subset import Subset
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.reassembly import Reassembler
from tests import builders, damage
from tests.builders import ACK, RST, SYN, Conversation, Recorded, Segment
from tests.damage import Packet
from tests.encode import encode
from tests.fuzz import captures as fuzz
from tests.peers.truth import SAMPLES
from tests.tls.damage import save


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
    again = HeadersAgain(transport)
    with open_capture(path, batch_bytes=batch_bytes) as capture:
        for batch in capture:
            found += (batch.first_packet + finder.packets(batch, again.seen(batch))).tolist()
    return found


def conversation(client_port: int = 50_000, isn: int = 1000) -> list[Segment]:
    one = Conversation(client=("10.0.0.1", client_port), client_isn=isn, server_isn=isn)
    one.handshake()
    one.stream(True, b"x" * 100)
    one.stream(False, b"y" * 3000)
    one.close()
    return one.segments


@pytest.mark.parametrize("batch_bytes", [1, 200, 1 << 20])
def test_syn_its_answer_the_answer_to_that_and_the_fins(tmp_path: Path, batch_bytes: int) -> None:
    assert handshakes(tmp_path, conversation(), {1}, batch_bytes) == [0, 1, 2, 10, 11]


def test_a_reset_shows_what_was_left_out_before_it(tmp_path: Path) -> None:
    segments = conversation()[:-3]
    segments.append(Segment(False, 0x7FFFFFFF, 0, RST))
    assert handshakes(tmp_path, segments, {1}) == [0, 1, 2, 10]


def test_other_connections_are_left_alone(tmp_path: Path) -> None:
    one, other = conversation(), conversation(50_001)
    mixed = [segment for pair in zip(one, other, strict=True) for segment in pair]
    assert handshakes(tmp_path, mixed, {2}) == [1, 3, 5, 21, 23]
    assert handshakes(tmp_path, mixed, set()) == []


def test_the_same_addresses_may_open_more_than_once(tmp_path: Path) -> None:
    first, second = conversation(isn=1000), conversation(isn=90_000_000)
    start = len(first)
    assert handshakes(tmp_path, first + second, {1}) == [0, 1, 2, 10, 11]
    packets = [start + place for place in (0, 1, 2, 10, 11)]
    assert handshakes(tmp_path, first + second, {2}) == packets


def test_repeated_packets_of_a_handshake_are_part_of_it(tmp_path: Path) -> None:
    segments = conversation()
    assert handshakes(tmp_path, [segments[0], *segments], {1}) == [0, 1, 2, 3, 11, 12]


def test_a_handshake_that_is_not_there_is_not_made_up(tmp_path: Path) -> None:
    assert handshakes(tmp_path, conversation()[3:-3], {1}) == []
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
    assert handshakes_among(tmp_path, packets, {1}) == [0, 1, 2, 10, 11]


Row = tuple[str, str, int, bytes, tuple[tuple[int, int], ...]]
DAMAGE: dict[str, Callable[[Sequence[Packet], int], list[Packet]]] = {
    "lost": lambda packets, seed: damage.lost(packets, (0.03, 0.2)[seed], seed),
    "bursts": lambda packets, seed: damage.bursts(packets, 5, 8, seed),
    "swapped": lambda packets, seed: damage.swapped(packets, 0.2, seed, by=4),
    "doubled": lambda packets, seed: damage.doubled(packets, seed),
    "cut": lambda packets, seed: [packet.cut(80 + 80 * seed) for packet in packets],
    "mid-stream": lambda packets, seed: list(packets[len(packets) // (3 - seed) :]),
}


def rows(reading: Reading, chosen: Subset | None = None) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for batch in reading:
        if chosen is not None:
            chosen.choose(batch, np.arange(len(batch)))
        for index in range(len(batch)):
            ends = (
                texts[int(batch.connection[index]) - 1]
                for texts in (batch.endpoints.client, batch.endpoints.server)
            )
            client, server = ends
            found[
                client,
                server,
                int(batch.direction[index]),
                batch.bytes_of(index),
                batch.missing.ranges_of(index),
            ] += 1
    return found


def written_again(path: Path, target: Path) -> tuple[Counter[Row], Counter[Row]]:
    """The messages of a capture, and of the packets that are written for all of them."""
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        first = rows(reading, chosen)
        with target.open("wb") as file:
            chosen.write(file)
    with Reading([str(target)]) as reading:
        return first, rows(reading)


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("sample", ["tour", "rollback", "snapshots", "upr"])
def test_a_damaged_conversation_reads_the_same_again(
    sample: str, name: str, tmp_path: Path
) -> None:
    for seed in range(2):
        path = save(tmp_path / "x.pcap", DAMAGE[name](damage.sample(sample).packets, seed))
        first, again = written_again(path, tmp_path / "y.pcapng")
        assert again == first


@pytest.mark.slow
def test_forged_packets_read_the_same_again(tmp_path: Path) -> None:
    rng = random.Random(7)
    total = 0
    for _ in range(120):
        packets = fuzz.packets(rng.randbytes(8 * rng.randrange(20, 120)))
        first, again = written_again(save(tmp_path / "x.pcap", packets), tmp_path / "y.pcapng")
        assert again == first
        total += first.total()
    assert total > 1000


@pytest.mark.parametrize(
    "sample", sorted(path.name for path in SAMPLES.glob("*.pcap*") if path.stat().st_size < 1 << 20)
)
def test_a_sample_reads_the_same_again(sample: str, tmp_path: Path) -> None:
    first, again = written_again(SAMPLES / sample, tmp_path / "y.pcapng")
    assert again == first


def test_of_a_part_of_the_messages_only_their_packets_are_written(tmp_path: Path) -> None:
    path = SAMPLES / "rollback.pcap"
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        for batch in reading:
            chosen.choose(batch, np.flatnonzero(batch.row > 1))
        with (tmp_path / "y").open("wb") as file:
            part = chosen.write(file)
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        for batch in reading:
            chosen.choose(batch, np.arange(len(batch)))
            break
        assert not reading.is_through
        with (tmp_path / "y").open("wb") as file:
            unfinished = chosen.write(file)
    assert part < reading.coverage.packets_read
    assert unfinished < reading.coverage.packets_read


CONTROL = encode("dcp_control", opaque=2, key="enable_noop", value="true")
GET = encode("get", opaque=3, key="k")


@pytest.mark.parametrize("batch_bytes", [500, 1 << 20])
def test_the_first_ones_of_each_connection(tmp_path: Path, batch_bytes: int) -> None:
    talks = [builders.Conversation(client=("10.0.0.1", 20_000 + number)) for number in range(2)]
    for talk, count in zip(talks, (3, MAX_OPENING + 20), strict=True):
        talk.handshake()
        for _ in range(count):
            talk.stream(True, CONTROL + GET)
    path = tmp_path / "x.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded([segment for talk in talks for segment in talk.segments]))
    )
    openings = Openings()
    with Reading(open_capture(path, batch_bytes=batch_bytes)) as reading:
        for batch in reading:
            rows = openings.fresh(batch)
            openings.add(
                batch.connection[rows],
                1000 + batch.row[rows],
                batch.connection[rows],
                batch.row[rows],
            )
    for connection, expected in ((1, [1, 3, 5]), (2, list(range(7, 7 + 2 * MAX_OPENING, 2)))):
        wanted = LineMarks()
        wanted.add(np.array([connection]))
        packets, found = openings.of_connections(wanted)
        assert (packets.tolist(), found.tolist()) == ([1000 + row for row in expected], expected)
