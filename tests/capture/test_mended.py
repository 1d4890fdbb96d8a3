"""Captures that came through a terminal, or with messages before them, are read as they were."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dcpinspect.capture.mended import TerminalStream, is_from_terminal, text_before
from dcpinspect.capture.open import open_capture
from dcpinspect.reading.reading import Reading
from tests.peers.truth import SAMPLES

BASE = (Path(__file__).parents[1] / "captures" / "field" / "t00-base.pcap").read_bytes()
TOUR = (SAMPLES / "tour.pcapng").read_bytes()
SAID = b"tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes\n"


def through_a_terminal(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def read(path: Path, *, batch_bytes: int = 1 << 20) -> tuple[list[bytes], str | None, list[str]]:
    with open_capture(path, batch_bytes=batch_bytes) as capture:
        packets = [
            batch.data[at : at + size].tobytes()
            for batch in capture
            for at, size in zip(batch.offset.tolist(), batch.captured.tolist(), strict=True)
        ]
        return packets, capture.files[0].remark, [one.what for one in capture.problems]


def packets_of(tmp_path: Path, data: bytes) -> list[bytes]:
    (tmp_path / "whole").write_bytes(data)
    return read(tmp_path / "whole")[0]


CHANGED = {
    "pcap": (BASE, through_a_terminal(BASE)),
    "pcapng": (TOUR, through_a_terminal(TOUR)),
    "gzip": (BASE, through_a_terminal(gzip.compress(BASE))),
    "with messages": (BASE, through_a_terminal(SAID + BASE)),
    "pcapng with messages": (TOUR, through_a_terminal(b"Capturing on 'eth0'\n" + TOUR)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_terminal_changed_is_undone_and_said(name: str, tmp_path: Path) -> None:
    whole, changed = CHANGED[name]
    (tmp_path / "x").write_bytes(changed)
    packets, remark, problems = read(tmp_path / "x")
    assert packets == packets_of(tmp_path, whole)
    assert problems == []
    assert remark is not None
    assert "kubectl exec without -t" in remark
    assert read(tmp_path / "x", batch_bytes=200)[0] == packets


def test_a_packet_alone_is_mended(tmp_path: Path) -> None:
    data = BASE[: 24 + 16 + 74]
    (tmp_path / "x").write_bytes(through_a_terminal(data))
    assert read(tmp_path / "x")[0] == packets_of(tmp_path, data)


def test_a_capture_whose_line_ends_are_all_cr_lf_by_nature_stays_as_it_is(tmp_path: Path) -> None:
    record = (
        bytes.fromhex("0102030405060708")
        + (20).to_bytes(4, "little") * 2
        + b"0123456789\r\n01234567"
    )
    data = BASE[:24] + 200 * record
    assert not is_from_terminal(data)
    (tmp_path / "x").write_bytes(data)
    packets, remark, problems = read(tmp_path / "x")
    assert (len(packets), remark, problems) == (200, None, [])


def test_no_capture_of_our_own_is_taken_for_one_of_a_terminal() -> None:
    for path in SAMPLES.glob("*.pcap*"):
        assert not is_from_terminal(path.read_bytes()[: 1 << 16]), path


def test_a_line_feed_that_came_another_way_is_damage(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(through_a_terminal(BASE + BASE) + b"\n")
    packets, _, problems = read(tmp_path / "x")
    assert len(packets) == 222
    assert problems[-1] == "CR LF is LF again, but not each LF was CR LF: some bytes may be damaged"


def test_a_pipe_is_mended_as_a_file_is() -> None:
    command = [sys.executable, "-m", "dcpinspect", "check", "-"]
    told = subprocess.run(
        command, input=through_a_terminal(SAID + BASE), capture_output=True, check=False
    )
    assert told.returncode == 0
    assert told.stdout.startswith(b"nothing wrong: 345 messages, 5 streams, 100 % of bytes decoded")
    assert b"text before the capture was left out: tcpdump: listening on eth0" in told.stderr
    assert b"CR LF was made LF again" in told.stderr


def test_a_pipe_that_is_found_damaged_later_says_how_to_avoid_it(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(BASE[:24])
            opened.wait()
            file.write(through_a_terminal(BASE[24:]))

    opened = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    with open_capture(pipe) as capture:
        opened.set()
        list(capture)
        assert "record without one (kubectl exec without -t" in capture.problems[0].what
    writer.join()


@pytest.mark.parametrize(
    "text",
    [SAID, b"Password: ", "tcpdump : écoute sur eth0\n".encode()],
    ids=["tcpdump", "prompt", "translated"],
)
@pytest.mark.parametrize("whole", [BASE, TOUR], ids=["pcap", "pcapng"])
def test_text_before_a_capture_is_left_out_and_said(
    text: bytes, whole: bytes, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(text + whole)
    packets, remark, problems = read(tmp_path / "x")
    assert packets == packets_of(tmp_path, whole)
    assert problems == []
    assert remark is not None
    assert remark.startswith("text before the capture was left out: ")
    with Reading([str(tmp_path / "x")]) as reading:
        assert sum(map(len, reading)) > 0


def test_text_behind_a_capture_is_damage_that_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(BASE + b"111 packets captured\n0 packets dropped by kernel\n")
    packets, _, problems = read(tmp_path / "x")
    assert len(packets) == 111
    assert problems == ["garbage where a packet record should begin; text is there: 111 pack…"]


def test_binary_bytes_before_a_capture_are_not_left_out() -> None:
    assert text_before(b"\0\x01" + BASE) == 0


class _Pieces:
    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes = data, sizes

    def readinto(self, target: memoryview, /) -> int | None:
        size = min(len(target), len(self.data), self.sizes.pop() if self.sizes else len(target))
        target[:size] = self.data[:size]
        self.data = self.data[size:]
        return size

    def close(self) -> None:
        pass


def test_any_bytes_in_any_pieces_come_back() -> None:
    numbers = random.Random(43)
    for _ in range(500):
        data = bytes(numbers.choices(b"\r\nab", k=numbers.randrange(60)))
        raw = _Pieces(through_a_terminal(data), [numbers.randrange(1, 9) for _ in range(200)])
        mended, got = TerminalStream(raw), b""
        while size := mended.readinto(memoryview(buffer := bytearray(numbers.randrange(1, 20)))):
            got += buffer[:size]
        assert got == data
        assert mended.problem is None
