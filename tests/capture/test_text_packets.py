from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.capture.test_hex_lines import HELLO, IP_PACKET, grouped
from tests.peers.truth import SAMPLES

FIELD = Path(__file__).parents[1] / "captures" / "field"
ROLLBACK = SAMPLES / "rollback.pcap"


def opcodes(path: Path, *, connection: int | None = None) -> list[tuple[int, int, int]]:
    """Direction, command and bytes of each message."""
    out: list[tuple[int, int, int]] = []
    with Reading([str(path)]) as reading:
        for batch in reading:
            commands = batch.data[batch.start + 1]
            several = zip(
                batch.connection.tolist(),
                batch.direction.tolist(),
                commands.tolist(),
                batch.length.tolist(),
                strict=True,
            )
            out += [one[1:] for one in several if connection in (None, one[0])]
    return out


@pytest.mark.slow
@pytest.mark.requires("tshark")
def test_a_dump_of_all_packets_is_the_capture(tmp_path: Path) -> None:
    text = tmp_path / "dump.txt"
    text.write_bytes(
        subprocess.run(
            ["tshark", "-r", str(ROLLBACK), "-x"], capture_output=True, check=True
        ).stdout
    )
    assert opcodes(text) == opcodes(ROLLBACK)


@pytest.mark.slow
@pytest.mark.requires("tcpdump")
@pytest.mark.parametrize("bytes_", ["-x", "-xx", "-X", "-XX"])
@pytest.mark.parametrize("times", ["-n", "-t", "-tt", "-ttt", "-tttt", "-ttttt", "-ve", "-#"])
@pytest.mark.parametrize("name", ["t00-base.pcap", "cooked.pcap"])
def test_what_tcpdump_prints_is_the_capture(
    bytes_: str, times: str, name: str, tmp_path: Path
) -> None:
    whole = FIELD / name
    if name == "cooked.pcap":
        whole = tmp_path / name
        segments = builders.conversation(b"", b"".join(builders.mutations(9)))
        whole.write_bytes(builders.pcap(builders.recorded(segments, link_type=builders.COOKED)))
    text = tmp_path / "dump.txt"
    told = subprocess.run(
        ["tcpdump", "-n", bytes_, times, "-r", str(whole)],
        capture_output=True,
        check=True,
        env={**os.environ, "TZ": "UTC"},
    )
    text.write_bytes(told.stdout)
    assert opcodes(text) == opcodes(whole)
    with open_capture(text) as capture:
        gaps = np.diff(np.concatenate([batch.time_ns for batch in capture]))
        assert capture.problems == []
    if times not in ("-t", "-ttt", "-ttttt"):
        with open_capture(whole) as capture:
            assert (
                np.abs(gaps - np.diff(np.concatenate([batch.time_ns for batch in capture]))).max()
                <= 1000
            )


@pytest.mark.parametrize(
    ("name", "messages"),
    [("X", 4), ("XX", 3), ("XXonly", 3), ("XXtttt", 3), ("n", 3), ("x", 4), ("xt", 1)],
)
def test_text_that_people_paste_is_read(name: str, messages: int) -> None:
    found = opcodes(FIELD / "x01-text-dumps" / f"{name}.txt")
    assert [one[:2] for one in found] == [(0, 0x1F), (1, 0x1F), (0, 0x20), (1, 0x20)][:messages]


def test_text_with_dots_for_bytes_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"without the bytes of packets .* print with -XX"):
        open_capture(FIELD / "x01-text-dumps" / "A.txt")


def test_a_time_that_no_file_can_hold_is_told(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(
        f"9999-01-01 00:00:00.000000 IP a\n{grouped(IP_PACKET)}\n1900-01-01 00:00:00.000000 IP a\n"
    )
    with open_capture(path) as capture:
        assert sum(map(len, capture)) == 1
        assert [one.what for one in capture.problems] == [
            "times before 1970 or after 2106, which no pcap file has"
        ]


def test_a_packed_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress((FIELD / "x01-text-dumps" / "X.txt").read_bytes()))
    assert opcodes(path) == opcodes(FIELD / "x01-text-dumps" / "X.txt")


def test_a_place_without_a_form_is_told(tmp_path: Path) -> None:
    path, lines = tmp_path / "dump.txt", grouped(IP_PACKET).split("\n")
    path.write_text("\n".join([lines[0], lines[2], *lines]))
    with open_capture(path) as capture:
        list(capture)
        assert [(one.offset, one.what) for one in capture.problems] == [
            (None, "line 2: offset 32 where 16 was to come")
        ]


def test_offsets_that_never_begin_again_make_no_endless_packet(tmp_path: Path) -> None:
    path, size = tmp_path / "dump.txt", 1 << 18
    path.write_text(
        f"{grouped(IP_PACKET + bytes(size - len(IP_PACKET) + 16))}\n{grouped(IP_PACKET)}\n"
    )
    with open_capture(path) as capture:
        assert sum(map(len, capture)) == 1
        assert [one.what for one in capture.problems] == [
            f"line {size // 16 + 1}: offset {size} where 0 was to come"
        ]


def test_long_lines_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    with path.open("wb") as file:
        file.write(f"{grouped(IP_PACKET)}\n".encode())
        for _ in range(8):
            file.write(b"80" * (1 << 20))
        file.write(f"\n{grouped(IP_PACKET)}\n".encode())
    with open_capture(path) as capture:
        assert sum(map(len, capture)) == 2
        assert [one.what for one in capture.problems] == [
            f"line {len(grouped(IP_PACKET).splitlines()) + 1}: a line that is too long"
        ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HELLO.hex(" "), "explain them: dcpinspect explain -"),
        ("=====\nFollow: tcp,hex\nFilter: x\n", "what tshark prints of a stream"),
    ],
)
def test_what_stands_for_no_packets_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(CaptureError, match=told):
        open_capture(path)
