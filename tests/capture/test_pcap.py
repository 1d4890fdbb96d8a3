from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcap import Pcap
from dcpinspect.reading.reading import Reading
from tests import builders

PACKETS = [
    builders.Recorded(bytes([i]) * (60 + i), 100 + i, builders.START_NS + i * 1_000_000)
    for i in range(50)
]


def packets_of(path: Path, batch_bytes: int = 1 << 20) -> list[tuple[bytes, int, int, int]]:
    found: list[tuple[bytes, int, int, int]] = []
    for batch in open_capture(path, batch_bytes=batch_bytes):
        assert batch.first_frame == len(found) + 1
        for at, size, wire, time, link in zip(
            *(
                column.tolist()
                for column in (
                    batch.offset,
                    batch.captured,
                    batch.wire,
                    batch.time_ns,
                    batch.link_type,
                )
            ),
            strict=True,
        ):
            found.append((batch.data[at : at + size].tobytes(), wire, time, link))
    return found


EXPECTED = [(packet.data, packet.wire, packet.time_ns, 1) for packet in PACKETS]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])
def test_every_variant_of_the_format_gives_the_same_packets(
    tmp_path: Path, order: str, magic: int
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(PACKETS, order=order, magic=magic))
    assert packets_of(path) == EXPECTED


def test_lengths_are_swapped_before_version_2_3(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(PACKETS, version=(2, 2)))
    assert packets_of(path) == EXPECTED


@pytest.mark.parametrize("batch_bytes", [1, 100, 333])
def test_batch_size_changes_nothing(tmp_path: Path, batch_bytes: int) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(PACKETS))
    assert packets_of(path, batch_bytes) == EXPECTED


def test_frame_check_sequence_bits_are_no_link_type() -> None:
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 0x2400_0001)
    assert Pcap(header).link_type == 1


@pytest.mark.parametrize("cut", [1, 15, 16, 17, 80])
def test_cut_last_record_is_told_and_the_rest_read(tmp_path: Path, cut: int) -> None:
    whole = builders.pcap(PACKETS)
    at = len(builders.pcap(PACKETS[:-1]))
    path = tmp_path / "x.pcap"
    path.write_bytes(whole[: at + cut])
    capture = open_capture(path)
    assert sum(len(batch) for batch in capture) == len(PACKETS) - 1
    assert [(problem.offset, problem.what) for problem in capture.problems] == [
        (at, f"the last record is cut short ({cut} bytes of it are present)")
    ]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])
@pytest.mark.parametrize("batch_bytes", [1, 200, 1 << 20])
def test_files_written_one_behind_the_other_are_read(
    tmp_path: Path, order: str, magic: int, batch_bytes: int
) -> None:
    path = tmp_path / "x.pcap"
    raw = [replace(packet, link_type=builders.RAW) for packet in PACKETS]
    path.write_bytes(builders.pcap(PACKETS) + builders.pcap(raw, order=order, magic=magic))
    assert packets_of(path, batch_bytes) == EXPECTED + [
        (*packet[:3], builders.RAW) for packet in EXPECTED
    ]


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 7, b"text " * 50, bytes(1000), struct.pack("<IIII", 1, 2, 0xDEADBEEF, 4)]
)
@pytest.mark.parametrize("batch_bytes", [200, 1 << 20])
def test_garbage_between_records_is_skipped_and_told(
    tmp_path: Path, garbage: bytes, batch_bytes: int
) -> None:
    before = builders.pcap(PACKETS[:20])
    path = tmp_path / "x.pcap"
    path.write_bytes(before + garbage + builders.pcap(PACKETS[20:])[24:])
    capture = open_capture(path, batch_bytes=batch_bytes)
    assert sum(len(batch) for batch in capture) == len(PACKETS)
    assert [problem.offset for problem in capture.problems] == [len(before)]
    seen = {
        b"text": "; text is there: text tex…",
        bytes(4): "; zeros are there, which were never written, or are lost",
    }.get(garbage[:4], "")
    assert capture.problems[0].what == f"garbage where a packet record should begin{seen}"


def test_damage_before_the_first_packet_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    for content in (b"", builders.pcap(PACKETS)[24:]):
        path.write_bytes(builders.pcap([]) + bytes(300_000) + content)
        with Reading([str(path)]) as reading:
            for _ in reading:
                pass
        (problem,) = reading.capture.problems
        assert problem.offset == 24
        assert problem.what.endswith("; zeros are there, which were never written, or are lost")
        assert bool(reading.capture.packets) == bool(content)


def test_a_file_of_one_header_has_no_packets_and_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap([]))
    capture = open_capture(path)
    assert list(capture) == []
    assert capture.problems == []
