"""What ``sniff`` gives with ``DCPSession`` is what every other reading gives."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.sendrecv import sniff
from scapy.utils import PcapReader

from dcpinspect.errors import UsageError
from dcpinspect.reading.reading import Reading
from dcpinspect.scapy_layer import DcpMutation, DCPSession
from dcpinspect.tables.messages import DIRECTIONS
from tests import builders, damage
from tests.builders import Conversation
from tests.encode import encode
from tests.peers.network import NEEDS_ROOT, inside, namespaces
from tests.peers.play import play
from tests.peers.script import Conversation as Talk
from tests.peers.script import Send

SAMPLES = Path(__file__).parents[2] / "sample_captures"
SMALL = sorted(path for path in SAMPLES.glob("*.pcap*") if path.stat().st_size < 200_000)


def by_reading(*paths: Path) -> list[dict[str, Any]]:
    """Row by row what ``dcpinspect read`` says."""
    out = []
    with Reading([str(path) for path in paths]) as reading:
        for batch in reading:
            for i in range(len(batch)):
                connection = int(batch.connection[i])
                out.append(
                    {
                        "data": batch.bytes_of(i),
                        "time_ns": int(batch.time_ns[i]),
                        "row": int(batch.row[i]),
                        "frames": (
                            batch.files[int(batch.file[i])],
                            int(batch.frame[i]),
                            int(batch.last_frame[i]),
                        ),
                        "place": (
                            connection,
                            DIRECTIONS[int(batch.direction[i])],
                            int(batch.stream_offset[i]),
                        ),
                        "ends": (
                            batch.endpoints.client[connection - 1],
                            batch.endpoints.server[connection - 1],
                        ),
                        "says": (
                            batch.vbucket.value_at(i),
                            batch.key_of(i),
                            batch.decoded.collection_id.value_at(i),
                        ),
                        "request": (batch.request_row.value_at(i), batch.rtt_ns.value_at(i)),
                        "doubts": (
                            batch.missing.ranges_of(i),
                            bool(batch.heuristic[i]),
                            batch.problem_of(i),
                        ),
                    }
                )
    return out


def by_scapy(packets: Iterable[Packet]) -> list[dict[str, Any]]:
    """The same from Scapy's packets."""
    return [
        {
            "data": packet.original,
            "time_ns": int(packet.time * 10**9),
            "row": packet.origin.row,
            "frames": (packet.origin.file, packet.origin.frame, packet.origin.last_frame),
            "place": (
                packet.origin.connection,
                packet.origin.direction,
                packet.origin.stream_offset,
            ),
            "ends": (packet.origin.client, packet.origin.server),
            "says": (packet.origin.vbucket, packet.origin.key, packet.origin.collection_id),
            "request": (packet.origin.request_row, packet.origin.rtt_ns),
            "doubts": (packet.origin.missing, packet.origin.heuristic, packet.origin.problem),
        }
        for packet in packets
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_a_capture_gives_the_messages_that_read_gives(path: Path) -> None:
    found = sniff(offline=str(path), session=DCPSession)
    assert by_scapy(found) == by_reading(path)
    assert all(bytes(packet) == packet.original for packet in found)


@pytest.mark.deep
def test_the_large_sample_gives_the_messages_that_read_gives() -> None:
    path = SAMPLES / "large.pcapng.gz"
    assert by_scapy(sniff(offline=str(path), session=DCPSession)) == by_reading(path)


Damage = Callable[[list[damage.Packet]], list[damage.Packet]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda packets: damage.lost(packets, 0.1, 1), id="lost"),
        pytest.param(lambda packets: damage.bursts(packets, 6, 30, 2), id="bursts lost"),
        pytest.param(lambda packets: damage.swapped(packets, 0.2, 3, by=5), id="out of order"),
        pytest.param(lambda packets: damage.doubled(packets), id="doubled"),
        pytest.param(lambda packets: packets[len(packets) // 3 :], id="begun in the middle"),
    ],
)
def test_a_damaged_capture_gives_the_messages_that_read_gives(harm: Damage, tmp_path: Path) -> None:
    tape = damage.generated(400)
    path = tmp_path / "damaged.pcap"
    recorded = [
        builders.Recorded(packet.data, packet.wire, packet.time_ns)
        for packet in harm(list(tape.packets))
    ]
    path.write_bytes(builders.pcap(recorded, magic=0xA1B23C4D))
    wanted = by_reading(path)
    assert wanted
    assert by_scapy(sniff(offline=str(path), session=DCPSession)) == wanted


def mutations(count: int, **options: Any) -> list[builders.Segment]:
    one = Conversation(mss=100, **options)
    one.handshake()
    one.stream(False, b"".join(builders.mutations(count)))
    return one.segments


@pytest.mark.parametrize(
    "link_type", [builders.NULL, builders.RAW, builders.COOKED, builders.COOKED_2, builders.IPV4]
)
@pytest.mark.parametrize("form", [builders.pcap, builders.pcapng])
def test_link_types_are_those_of_the_file(
    link_type: int, form: builders.Form, tmp_path: Path
) -> None:
    path = tmp_path / "capture"
    path.write_bytes(form(builders.recorded(mutations(20), link_type=link_type)))
    assert len(by_reading(path)) == 20
    assert by_scapy(sniff(offline=str(path), session=DCPSession)) == by_reading(path)


def test_a_file_with_several_link_types_is_read_by_scapys_classes(tmp_path: Path) -> None:
    packets = [
        *builders.recorded(mutations(20)),
        *builders.recorded(mutations(20, client=("10.0.0.9", 40_000)), link_type=builders.COOKED),
    ]
    path = tmp_path / "two.pcapng"
    path.write_bytes(builders.pcapng(packets))
    assert len(by_reading(path)) == 40
    assert by_scapy(sniff(offline=str(path), session=DCPSession)) == by_reading(path)


def test_frames_longer_than_scapy_reads_by_itself_are_whole(tmp_path: Path) -> None:
    one = Conversation(mss=65_483)  # in a frame of 65,549 bytes, as loopback interfaces carry them
    one.handshake()
    one.stream(
        False, b"".join(builders.mutation(seqno, value=b"v" * 40_000) for seqno in range(1, 6))
    )
    path = tmp_path / "long.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    found = sniff(offline=str(path), session=DCPSession)
    assert by_scapy(found) == by_reading(path)
    assert [packet.origin.missing for packet in found] == [()] * 5


def test_several_files_are_one_reading_in_order_of_time(tmp_path: Path) -> None:
    segments = mutations(60)
    paths = []
    for number, part in enumerate((segments[40:], segments[:20], segments[20:40])):
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(builders.pcap(builders.recorded(part)))
    assert len(by_reading(*paths)) == 60
    assert by_scapy(sniff(offline=[str(path) for path in paths], session=DCPSession)) == by_reading(
        *paths
    )


def test_the_end_of_the_file_gives_what_was_held_back(tmp_path: Path) -> None:
    one = Conversation(mss=100)
    one.handshake()
    one.stream(False, b"".join(builders.mutations(3)), ack_every=0)
    path = tmp_path / "hole.pcap"
    path.write_bytes(builders.pcap(builders.recorded(builders.damaged(one.segments, loss={4}))))
    found = sniff(offline=str(path), session=DCPSession)
    assert by_scapy(found) == by_reading(path)
    assert any(packet.origin.missing for packet in found)


def test_an_empty_file_among_others_ends_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / "empty.pcap", tmp_path / "full.pcap"]
    paths[0].write_bytes(builders.pcap([]))
    paths[1].write_bytes(builders.pcap(builders.recorded(mutations(5))))
    assert len(sniff(offline=[str(path) for path in paths], session=DCPSession)) == 5
    assert len(sniff(offline=str(paths[0]), session=DCPSession)) == 0


def test_other_ports_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "other.pcap"
    one = Conversation(server=("10.0.0.2", 12_000))
    one.handshake()
    one.stream(True, encode("dcp_open", opaque=1, key="k"))
    one.stream(False, encode("dcp_open", "response", opaque=1))
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    assert len(sniff(offline=str(path), session=DCPSession)) == 0
    assert len(sniff(offline=str(path), session=DCPSession(ports=[12_000]))) == 2
    assert len(sniff(offline=str(path), session=DCPSession(find_ports=True))) == 2


def test_what_sniff_is_asked_for_holds_for_messages(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(builders.pcap(builders.recorded(mutations(50))))
    assert len(sniff(offline=str(path), session=DCPSession, count=7)) == 7
    picked = sniff(
        offline=str(path),
        session=DCPSession,
        lfilter=lambda packet: DcpMutation in packet and packet.by_seqno > 45,
    )
    assert [packet.by_seqno for packet in picked] == [46, 47, 48, 49, 50]


def test_packets_from_memory_and_from_compressed_files_are_read(tmp_path: Path) -> None:
    recorded = builders.recorded(mutations(10))
    path = tmp_path / "capture.pcap.gz"
    path.write_bytes(gzip.compress(builders.pcap(recorded)))
    assert len(sniff(offline=str(path), session=DCPSession)) == 10
    assert len(sniff(offline=[Ether(packet.data) for packet in recorded], session=DCPSession)) == 10


@pytest.mark.requires("tcpdump")
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # before 2.8 Scapy leaves its tcpdump to the collector
def test_a_filter_of_sniff_comes_before_the_session(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(
        builders.pcap(
            builders.recorded([*mutations(10), *mutations(5, client=("10.0.0.9", 40_000))])
        )
    )
    assert len(sniff(offline=str(path), session=DCPSession, filter="port 40000")) == 5


def test_a_session_feeds_on_any_reader(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(builders.pcap(builders.recorded(mutations(10))))
    with PcapReader(str(path)) as reader:
        assert len(sniff(opened_socket=reader, session=DCPSession)) == 10


SNIFFER = """
import sys
from scapy.sendrecv import sniff
from dcpinspect.scapy_layer import DCPSession

sniff(
    iface="lo",
    session=DCPSession,
    store=False,
    prn=lambda packet: print(packet.origin.direction, bytes(packet).hex(), flush=True),
    started_callback=lambda: print("ready", flush=True),
    stop_filter=lambda packet: packet.origin.row == int(sys.argv[1]),
)
"""


@pytest.mark.slow
@NEEDS_ROOT
def test_an_interface_gives_what_was_sent() -> None:
    talk = Talk("reader")
    talk.hello("reader", "Collections")
    talk.open("reader", "producer")
    stream = talk.stream(1)
    stream.snapshot(0, 50, "memory")
    for seqno in range(1, 51):
        stream.mutation(seqno, f"key::{seqno}", b"x" * seqno)
    stream.end()
    count = sum(isinstance(event, Send) for event in talk.events)
    with namespaces("scapy") as (name,):
        command = ["ip", "netns", "exec", name, sys.executable, "-c", SNIFFER, str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sniffer:
            assert sniffer.stdout is not None
            assert sniffer.stdout.readline() == "ready\n"
            (said,) = play(
                [talk], port=11210, at_server=lambda: inside(name), at_client=lambda: inside(name)
            )
            heard = [line.split() for line in sniffer.stdout]
    assert [data for way, data in heard if way == "c2s"] == [data.hex() for data in said.c2s]
    assert [data for way, data in heard if way == "s2c"] == [data.hex() for data in said.s2c]


@pytest.mark.parametrize("ports", ["x", ["x"], [70_000], 1.5])
def test_a_port_that_is_none_is_said(ports: Any) -> None:
    with pytest.raises(UsageError, match=r"port .*: give a number from 1 to 65535"):
        DCPSession(ports=ports)


def test_one_port_may_be_given_alone(tmp_path: Path) -> None:
    talk = Conversation(server=("10.0.0.2", 12_000))
    talk.handshake()
    talk.stream(True, builders.message(opcode=0x0A))
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(talk.segments)))
    assert len(sniff(offline=str(path), session=DCPSession(ports=12_000))) == 1
