from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.capture.open import CaptureFile
from dcpinspect.capture.packet_walk import InterfaceCounts
from dcpinspect.output.render.coverage_text import coverage_table, drops, losses
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import ACK, RST, Conversation

SAMPLES = Path(__file__).parents[3] / "sample_captures"


def read(path: Path, *, find_ports: bool = False) -> Reading:
    with Reading([str(path)], find_ports=find_ports) as reading:
        list(reading)
    return reading


def test_the_table_says_what_became_of_packets_and_bytes() -> None:
    table = list(coverage_table(read(SAMPLES / "midstream.pcap").coverage))
    assert table == [
        "          84 packets read",
        "          84 used",
        "",
        "con  direction                          protocol  bytes captured  decoded  skipped  "
        "unfinished  not decodable  duplicate  late  missing"
        "  cut off  holes  why skipped",
        "  1  10.11.0.1:50000 > 10.11.0.2:11210  dcp                   76       76        0          "
        " 0              0          0     0        0"
        "        0      0",
        "  1  10.11.0.2:11210 > 10.11.0.1:50000  dcp               21,270   20,476      784          "
        "10              0          0     0        0"
        "        0      0  mid-stream: 784 bytes",
    ]


def test_where_the_table_does_not_fit_each_direction_has_lines() -> None:
    coverage = read(SAMPLES / "midstream.pcap").coverage
    assert list(coverage_table(coverage, width=200)) == list(coverage_table(coverage))
    table = list(coverage_table(coverage, width=60))
    assert table[3:] == [
        "connection 1  10.11.0.1:50000 > 10.11.0.2:11210",
        "    protocol dcp · bytes captured 76 · decoded 76",
        "connection 1  10.11.0.2:11210 > 10.11.0.1:50000",
        "    protocol dcp · bytes captured 21,270 · decoded 20,476 ·",
        "    skipped 784 · unfinished 10 · why skipped mid-stream:",
        "    784 bytes",
    ]


def test_a_direction_that_lost_bytes_has_a_line() -> None:
    assert list(losses(read(SAMPLES / "capture-loss.pcap").coverage)) == [
        (
            "connection 1, 10.11.0.1:50000 to 10.11.0.2:11210: 28 bytes are not in the capture (1 "
            "hole, first at byte 646)"
        ),
        "connection 1, 10.11.0.2:11210 back to 10.11.0.1:50000: 3,039 bytes are not in the "
        "capture (4 holes, first at byte 10,956);"
        " 117 bytes skipped up to the next message (hole; first at byte 18,608)",
    ]


def test_a_whole_capture_has_none() -> None:
    assert list(losses(read(SAMPLES / "tour.pcapng").coverage)) == []


def test_bytes_that_snaplen_cut_are_told_apart(tmp_path: Path) -> None:
    path = builders.capture(
        tmp_path / "a.pcap", server=builders.mutation(value=bytes(900)), snaplen=200
    )
    (line,) = losses(read(path).coverage)
    assert line.endswith(
        ": 812 bytes are not in the capture (1 hole, first at byte 146, 812 of them cut off by "
        "the snapshot length)"
    )


@pytest.mark.parametrize(("text", "size"), [(b"no memory", "9 bytes"), (b"!", "1 byte")])
def test_the_text_of_a_reset_has_a_line(tmp_path: Path, text: bytes, size: str) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, builders.mutation())
    made.send(False, text, RST | ACK)
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made.segments)))
    assert list(losses(read(path).coverage)) == [
        f"connection 1, 10.0.0.2:11210 back to 10.0.0.1:50000: {size} without a place in the stream"
    ]


def test_tls_says_what_to_do(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=b"\x16\x03\x03\x00\x50\x02" + bytes(79))
    (line,) = losses(read(path).coverage)
    assert line.startswith(
        "connection 1, 10.0.0.2:11210 back to 10.0.0.1:50000: 85 bytes of TLS, which is not "
        "decrypted: "
    )
    assert line.endswith(
        "give the client's key log with --keylog, or capture between the server and what ends "
        "TLS, where it is plain"
    )


def test_other_protocols_are_one_line_and_no_loss(tmp_path: Path) -> None:
    packets = []
    for number in range(3):
        made = Conversation(client=("10.0.0.1", 40_000 + number), server=("10.0.0.2", 80))
        made.handshake()
        made.stream(
            True, b"GET / HTTP/1.1\r\n\r\n" if number else b"\x16\x03\x01\x00\x0d\x01" + bytes(12)
        )
        packets += builders.recorded(made.segments)
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(packets))
    coverage = read(path, find_ports=True).coverage
    assert list(losses(coverage)) == []
    assert (
        list(coverage_table(coverage))[-1].strip()
        == "54 bytes captured of 3 connections of other protocols"
    )


def test_packets_that_were_dropped_before_they_were_captured_have_a_line_with_their_place() -> None:
    one = CaptureFile(
        "a.pcapng",
        counts=[
            InterfaceCounts("eth\x1b0", 2000, 1200, 34),
            InterfaceCounts("lo", 5, 0),
            InterfaceCounts("x"),
        ],
    )
    assert [line.strip() for line in drops([one])] == [
        r"1,234 dropped at eth\x1b0 before they were captured"
    ]
    several = [
        one,
        CaptureFile(
            "b.pcapng", counts=[InterfaceCounts(f"eth{number}", dropped=2) for number in range(11)]
        ),
    ]
    lines = [line.strip() for line in drops(several)]
    assert (len(lines), lines[0]) == (
        11,
        r"1,234 dropped at eth\x1b0 of a.pcapng before they were captured",
    )
    assert lines[-1] == "4 dropped at 2 more interfaces"
