"""The packets of chosen messages, and no others."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, fragment
from scapy.layers.l2 import Ether

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import OutputError
from dcpinspect.output.export import carriers
from dcpinspect.output.export.packet_subset import PacketWishes, Subset
from dcpinspect.protocol import first_bytes
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from tests import builders
from tests.builders import Conversation, Recorded
from tests.capture.test_pcapng_writer import packets_in
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.protocol.test_first_bytes import flood

Choice = Callable[[MessageBatch], np.ndarray]


def everything(batch: MessageBatch) -> np.ndarray:
    return np.arange(len(batch))


def rows_named(*numbers: int) -> Choice:
    return lambda batch: np.flatnonzero(np.isin(batch.row, numbers))


def subset(paths: Sequence[Path], target: Path, choice: Choice, **wishes: Any) -> list[bytes]:
    """The packets that are written for the chosen messages."""
    with (
        Subset(PacketWishes(**wishes)) as chosen,
        Reading([str(path) for path in paths], keeper=chosen) as reading,
    ):
        chosen.follow(reading)
        for batch in reading:
            chosen.choose(batch, choice(batch))
        with target.open("wb") as file:
            count = chosen.write(file)
    found = [data for data, *_ in packets_in(target)]
    assert len(found) == count
    return found


def of_vbucket(vbucket: int) -> Choice:
    return lambda batch: np.flatnonzero((batch.vbucket.values == vbucket) & batch.vbucket.is_known)


@pytest.mark.parametrize(("sample", "vbucket", "unpaired"), [("rollback", 7, 0), ("tour", 417, 2)])
def test_requests_of_a_vbucket_keep_their_answers(
    sample: str, vbucket: int, unpaired: int, tmp_path: Path
) -> None:
    # between its packets are holes in both directions; ``unpaired`` are of a connection that begins
    # in its middle: its two requests are only believed at the end
    path = next(SAMPLES.glob(f"{sample}.pcap*"))
    subset([path], tmp_path / "y", of_vbucket(vbucket))
    counts = []
    for capture in (path, tmp_path / "y"):
        with Reading([str(capture)]) as reading:
            counts.append(sum(len(of_vbucket(vbucket)(batch)) for batch in reading))
    assert counts[1] == counts[0] - unpaired


# -- which packets
# ------------------------------------------------------------------------------------


def owners(packets: Sequence[Recorded], isn: dict[int, int]) -> dict[int, list[int]]:
    """For each server port or client port that sends: the packet that gave each byte of its stream,
    the first copy winning.
    """
    streams: dict[int, dict[int, int]] = {}
    for number, packet in enumerate(packets):
        tcp = Ether(packet.data)[TCP]
        payload = bytes(tcp.payload)
        for at in range(len(payload)):
            streams.setdefault(tcp.sport, {}).setdefault(
                (tcp.seq - isn[tcp.sport] - 1 + at) % 2**32, number
            )
    return {
        port: [owner for _, owner in sorted(stream.items())] for port, stream in streams.items()
    }


@pytest.mark.parametrize(
    "damage",
    [{}, {"swaps": [9, 14]}, {"duplicates": [8, 9, 20]}, {"delay": {9: 4, 20: 2}}],
    ids=["in order", "swapped", "duplicated", "late"],
)
@pytest.mark.parametrize("chosen", [[1], [2, 3], [5], [1, 9, 17], list(range(1, 30))], ids=str)
def test_they_are_those_that_gave_bytes_of_the_messages(
    damage: dict[str, object], chosen: list[int], tmp_path: Path
) -> None:
    messages = builders.mutations(30)
    one = Conversation(mss=150)
    one.handshake()
    one.stream(False, b"".join(messages))
    one.close()
    packets = builders.recorded(builders.damaged(one.segments, **damage))  # type: ignore[arg-type] # its keywords
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(packets))
    owner = owners(packets, {11_210: one.server_isn, 50_000: one.client_isn})[11_210]
    ends = np.cumsum([len(message) for message in messages])
    expected = sorted(
        {
            number
            for row in chosen
            for number in owner[ends[row - 1] - len(messages[row - 1]) : ends[row - 1]]
        }
    )
    assert subset([path], tmp_path / "y", rows_named(*chosen)) == [
        packets[number].data for number in expected
    ]


@pytest.mark.parametrize("batch_bytes", [300, 5_000])
def test_a_message_may_come_in_many_batches(
    batch_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dcpinspect.reading.reading.open_capture",
        lambda paths: open_capture(paths, batch_bytes=batch_bytes),
    )
    messages = [
        builders.mutation(1),
        builders.mutation(2, value=b"v" * 30_000),
        builders.mutation(3),
    ]
    path = builders.capture(tmp_path / "x.pcap", server=b"".join(messages))
    found = subset([path], tmp_path / "y", rows_named(2))
    payload = b"".join(bytes(Ether(data)[TCP].payload) for data in found)
    assert messages[1] in payload
    assert len(payload) < len(b"".join(messages)) + 1


def test_what_no_message_needs_any_more_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dcpinspect.reading.reading.open_capture",
        lambda paths: open_capture(paths, batch_bytes=4096),
    )
    monkeypatch.setattr(carriers, "FEW", 8)
    one, web = Conversation(), Conversation(server=("10.0.0.2", 11_207))
    for conversation, data in (
        (one, b"".join(builders.mutations(2000))),
        (web, b"\x16\x03\x01" + bytes(200_000)),
    ):
        conversation.handshake()
        conversation.stream(False, data)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded([*one.segments, *web.segments])))
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        most = 0
        for batch in reading:
            chosen.choose(batch, everything(batch))
            most = max(most, len(chosen._carriers))
    assert most < 40


def test_both_directions_and_all_connections_of_a_sample_come_whole(tmp_path: Path) -> None:
    path = SAMPLES / "tour.pcapng"
    found = subset([path], tmp_path / "y", everything)
    assert found == [data for data, *_ in packets_in(path)]


@pytest.mark.slow
@pytest.mark.parametrize("with_handshakes", [False, True])
def test_of_many_connections_that_say_little_it_takes_the_same_packets(
    with_handshakes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of those that are looked at one by one."""
    path = tmp_path / "x.pcap"
    path.write_bytes(flood(random.Random(7), 120, 11_210))
    for choice in (everything, lambda batch: np.flatnonzero(batch.row % 3 == 1)):
        monkeypatch.setattr(first_bytes, "MANY", 1 << 30)
        expected = subset([path], tmp_path / "y", choice, with_handshakes=with_handshakes)
        assert len(expected) > 40
        monkeypatch.setattr(first_bytes, "MANY", 1)
        assert subset([path], tmp_path / "y", choice, with_handshakes=with_handshakes) == expected


def test_with_ports_found_by_content_the_direction_does_not_matter(tmp_path: Path) -> None:
    one = Conversation(server=("10.0.0.2", 9999))
    one.stream(False, b"".join(builders.mutations(5)))  # the server is seen first
    one.stream(True, encode("dcp_noop", opaque=1))
    path = tmp_path / "x.pcap"
    packets = builders.recorded(one.segments)
    path.write_bytes(builders.pcap(packets))
    with Subset() as chosen, Reading([str(path)], keeper=chosen, find_ports=True) as reading:
        chosen.follow(reading)
        rows = 0
        for batch in reading:
            rows += len(batch)
            chosen.choose(batch, everything(batch))
        with (tmp_path / "y").open("wb") as file:
            count = chosen.write(file)
    assert rows >= 5
    assert count == len(one.segments)


def test_fragments_of_a_datagram_come_together(tmp_path: Path) -> None:
    one = Conversation(mss=600)
    one.handshake()
    one.stream(False, b"".join(builders.mutations(10)))
    packets: list[Recorded] = []
    for packet in builders.recorded(one.segments):
        pieces = fragment(Ether(packet.data)[IP], fragsize=256)  # type: ignore[no-untyped-call]
        packets += [
            Recorded(data := bytes(Ether() / piece), len(data), packet.time_ns) for piece in pieces
        ]
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(packets))
    whole = subset([path], tmp_path / "y", everything)
    assert len(whole) == len(packets)
    assert len(subset([path], tmp_path / "y", rows_named(*range(1, 10)))) == sum(
        IP in (ether := Ether(packet.data)) and len(ether[IP].payload) > 20 for packet in packets
    )


# -- where from
# ---------------------------------------------------------------------------------------


def test_several_files_are_one_subset_in_order_of_time(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        one = Conversation(
            client=("10.0.0.1", 50_000 + number), time_ns=builders.START_NS + (1 - number) * 10**9
        )
        one.handshake()
        one.stream(False, builders.mutation(number + 1))
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(builders.pcap(builders.recorded(one.segments)))
    for choice, expected in ((everything, [50_001, 50_000]), (rows_named(2), [50_000])):
        found = [
            ether[TCP].dport
            for ether in map(Ether, subset(paths, tmp_path / "y", choice))
            if len(ether[TCP].payload)
        ]
        assert found == expected


def test_times_lengths_and_link_types_stay(tmp_path: Path) -> None:
    path = builders.capture(
        tmp_path / "x.pcap",
        server=builders.mutation(value=b"v" * 500),
        link_type=builders.COOKED_2,
        snaplen=200,
    )
    subset([path], tmp_path / "y", everything)
    (cut,) = (packet for packet in packets_in(path) if packet[1] > 200)
    assert cut in packets_in(tmp_path / "y")


@pytest.mark.parametrize("other", ["large.pcapng.gz", "upr.pcap"], ids=["longer", "earlier"])
def test_a_file_that_was_replaced_meanwhile_is_told(other: str, tmp_path: Path) -> None:
    paths = [tmp_path / "x.pcap", tmp_path / "y.pcap"]
    for path, name in zip(paths, ("rollback.pcap", "snapshots.pcap"), strict=True):
        shutil.copy(SAMPLES / name, path)
    with Subset() as chosen, Reading([*map(str, paths)], keeper=chosen) as reading:
        chosen.follow(reading)
        for batch in reading:
            chosen.choose(batch, everything(batch))
        shutil.copy(SAMPLES / other, paths[1])
        with (
            (tmp_path / "z").open("wb") as file,
            pytest.raises(OutputError, match=r"y\.pcap: changed while it was read"),
        ):
            chosen.write(file)


def test_a_file_that_lost_packets_meanwhile_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    shutil.copy(SAMPLES / "tour.pcapng", path)
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        for batch in reading:
            chosen.choose(batch, everything(batch))
        path.write_bytes(path.read_bytes()[:50_000])
        with (
            (tmp_path / "y").open("wb") as file,
            pytest.raises(OutputError, match=r"x\.pcapng: changed while it was read"),
        ):
            chosen.write(file)


def test_what_comes_through_a_pipe_is_kept_until_it_is_written(tmp_path: Path) -> None:
    program = (
        "import sys, tempfile, os; from pathlib import Path; from "
        "tests.output.export.test_packet_subset import *\n"
        "found = subset([Path('-')], Path(sys.argv[1]), rows_named(3, 400)); print(len(found), "
        "os.listdir(tempfile.gettempdir()))"
    )
    (tmp_path / "tmp").mkdir()
    with (
        (SAMPLES / "tour.pcapng").open("rb") as capture,
        subprocess.Popen(["cat"], stdin=capture, stdout=subprocess.PIPE) as pipe,
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "y"],
            stdin=pipe.stdout,
            capture_output=True,
            text=True,
            check=True,
            env={"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(Path(__file__).parents[3])},
        )
    direct = subset([SAMPLES / "tour.pcapng"], tmp_path / "z", rows_named(3, 400))
    assert done.stdout == f"{len(direct)} []\n"
    assert packets_in(tmp_path / "y") == packets_in(tmp_path / "z")


# -- how connections began
# ------------------------------------------------------------------------------


def test_handshakes_are_those_of_the_connections_of_the_messages(tmp_path: Path) -> None:
    segments = []
    for number in range(3):
        one = Conversation(client=("10.0.0.1", 50_000 + number), time_ns=builders.START_NS + number)
        one.handshake()
        one.stream(True, encode("hello", opaque=1))
        one.stream(False, encode("hello", "response", opaque=1))
        one.stream(True, encode("sasl_auth", key="PLAIN", value=b"\0user\0secret"))
        one.stream(True, encode("dcp_open", key="name"))
        one.stream(False, b"".join(builders.mutations(3)))
        segments += one.segments
    path = tmp_path / "x.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded(sorted(segments, key=lambda segment: segment.time_ns)))
    )
    found = subset(
        [path],
        tmp_path / "y",
        lambda batch: np.flatnonzero((batch.connection == 2) & (batch.decoded.opcode == 0x57)),
    )
    assert {len(Ether(data)[TCP].payload) > 0 for data in found} == {True}
    packets = [
        Ether(data)[TCP]
        for data in subset([path], tmp_path / "y", rows_named(13), with_handshakes=True)
    ]
    (client,) = {packet.sport + packet.dport - 11_210 for packet in packets}
    assert 50_000 <= client <= 50_002
    assert [str(packet.flags) for packet in packets[:3]] == ["S", "SA", "A"]
    payload = b"".join(bytes(packet.payload) for packet in packets)
    assert b"secret" not in payload
    for part in (
        encode("hello", opaque=1),
        encode("hello", "response", opaque=1),
        encode("dcp_open", key="name"),
    ):
        assert part in payload
