from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng_writer import MAX_COMMENT, PcapNgWriter, write_blocks
from tests.builders import COOKED_2, ETHERNET, START_NS

SAMPLE = Path(__file__).parent.parent.parent / "sample_captures" / "tour.pcapng"
Packet = tuple[bytes, int, int, int]
"""Bytes, wire length, time, link type."""


def batch_of(packets: list[Packet]) -> PacketBatch:
    captured = np.array([len(data) for data, *_ in packets], dtype=np.int64)
    columns = [np.array([packet[at] for packet in packets], dtype=np.int64) for at in (1, 2, 3)]
    return PacketBatch(
        data=np.frombuffer(b"".join(data for data, *_ in packets), np.uint8),
        columns=np.stack((np.cumsum(captured) - captured, captured, *columns)),
        file=0,
        first_frame=1,
        first_packet=0,
        file_offset=0,
    )


def packets_in(path: Path) -> list[Packet]:
    found: list[Packet] = []
    with open_capture(path) as capture:
        for batch in capture:
            for i in range(len(batch)):
                start = int(batch.offset[i])
                data = batch.data[start : start + int(batch.captured[i])].tobytes()
                found.append(
                    (data, int(batch.wire[i]), int(batch.time_ns[i]), int(batch.link_type[i]))
                )
        assert [problem for problem in capture.problems if "link type" not in problem.what] == []
    return found


def tshark(path: Path, *fields: str) -> list[list[str]]:
    names = [u32 for field in fields for u32 in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", *names], capture_output=True, text=True, check=True
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


PACKETS: list[Packet] = [
    (b"\x02" * 60, 60, START_NS + 123_456_789, ETHERNET),
    (b"\x08\x00" + bytes(43), 900, START_NS + 123_456_790, COOKED_2),
    (b"", 5, START_NS + 2_000_000_000, ETHERNET),
]


def written(path: Path, batch: PacketBatch, **options: Any) -> Path:
    with path.open("wb") as file:
        PcapNgWriter(file).write(batch, **options)
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert packets_in(written(tmp_path / "x.pcapng", batch_of(PACKETS))) == PACKETS


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=70),
            st.integers(70, 2**32 - 1),
            st.integers(0, 9 * 10**18 - 1),
            st.integers(0, 2**16 - 1),
        )
    )
)
def test_any_packets_come_back(
    tmp_path_factory: pytest.TempPathFactory, packets: list[Packet]
) -> None:
    path = tmp_path_factory.mktemp("any") / "x.pcapng"
    assert packets_in(written(path, batch_of(packets))) == packets


def test_chosen_packets_are_written_in_the_order_given(tmp_path: Path) -> None:
    path = written(tmp_path / "x.pcapng", batch_of(PACKETS), rows=np.array([2, 0]))
    assert packets_in(path) == [PACKETS[2], PACKETS[0]]


def test_no_packets_leave_a_file_that_opens(tmp_path: Path) -> None:
    assert (
        packets_in(written(tmp_path / "x.pcapng", batch_of(PACKETS), rows=np.empty(0, np.int64)))
        == []
    )


def test_a_capture_written_batch_by_batch_is_the_same_capture(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcapng"
    with open_capture(SAMPLE, batch_bytes=4096) as capture, copy.open("wb") as file:
        writer = PcapNgWriter(file)
        for batch in capture:
            writer.write(batch)
    assert packets_in(copy) == packets_in(SAMPLE)


def test_a_packet_longer_than_snaplen_gets_an_interface_that_says_so(tmp_path: Path) -> None:
    packets = [PACKETS[0], (bytes(300_000), 300_000, START_NS, ETHERNET)]
    assert packets_in(written(tmp_path / "x.pcapng", batch_of(packets))) == packets


def test_a_time_before_1970_becomes_its_first_moment(tmp_path: Path) -> None:
    assert packets_in(written(tmp_path / "x.pcapng", batch_of([(b"x", 1, -5, ETHERNET)]))) == [
        (b"x", 1, 0, ETHERNET)
    ]


def test_the_kernel_writes_the_same_compiled() -> None:
    batch = batch_of(PACKETS * 20)
    sink = io.BytesIO()
    PcapNgWriter(sink).write(batch, comments={3: "three", 4: ""})
    header = np.arange(28 * 60, dtype=np.uint8)
    options, ends = np.frombuffer(b"abcd", np.uint8), np.full(60, 4, dtype=np.int64)
    sizes = 28 + batch.captured + -batch.captured % 4 + 4
    sizes[0] += 4
    outs = [np.zeros(int(sizes.sum()), np.uint8) for _ in range(2)]
    for run, out in zip((write_blocks.interpreted, write_blocks.compiled), outs, strict=True):
        run(header, batch.data, batch.offset, batch.captured, options, ends, sizes, out)
    assert outs[0].tobytes() == outs[1].tobytes()


@pytest.mark.requires("tshark")
def test_wireshark_reads_link_types_times_lengths_and_comments(tmp_path: Path) -> None:
    comments = {0: "a gap begins here\nand ends elsewhere — ü", 2: "last"}
    path = written(tmp_path / "x.pcapng", batch_of(PACKETS), comments=comments)
    assert tshark(
        path, "frame.time_epoch", "frame.len", "frame.cap_len", "frame.encap_type", "frame.comment"
    ) == [
        ["1700000000.123456789", "60", "60", "1", "a gap begins here\\nand ends elsewhere — ü"],
        ["1700000000.123456790", "900", "45", "210", ""],
        ["1700000002.000000000", "5", "0", "1", "last"],
    ]


@pytest.mark.requires("tshark")
def test_comments_that_do_not_fit_or_are_no_text_keep_the_file_whole(tmp_path: Path) -> None:
    comments = {0: "é" * MAX_COMMENT, 1: "name \udcff", 2: ""}
    path = written(tmp_path / "x.pcapng", batch_of(PACKETS), comments=comments)
    (long,), (odd,), (empty,) = tshark(path, "frame.comment")
    assert long == "é" * (MAX_COMMENT // 2)
    assert (odd, empty) == ("name \\udcff", "")
    assert packets_in(path) == PACKETS


@pytest.mark.requires("capinfos")
def test_interfaces_and_drops_are_described(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    with path.open("wb") as file:
        writer = PcapNgWriter(file)
        number = writer.interface(ETHERNET, name="eth0", capture_filter="tcp port 11210")
        writer.write(batch_of([PACKETS[0]] * 2))
        writer.write(batch_of([PACKETS[1]]))
        writer.statistics(number, received=9, dropped=7, time_ns=START_NS)
    done = subprocess.run(
        ["capinfos", "-Mc", "-I", path], capture_output=True, text=True, check=True
    )
    assert "Number of interfaces in file: 2" in done.stdout
    assert "Name = eth0" in done.stdout
    assert "Filter string = tcp port 11210" in done.stdout
    assert "Number of packets = 2" in done.stdout
    blocks = subprocess.run(
        ["tshark", "-r", path, "-X", "read_format:MIME Files Format", "-T", "json"],
        capture_output=True,
        text=True,
        check=True,
    )  # the file itself, block by block; its keys repeat, so it is no JSON that json.loads takes whole
    assert '"pcapng.options.option.data.interface.received": "9"' in blocks.stdout
    assert '"pcapng.options.option.data.interface.dropped": "7"' in blocks.stdout


def test_secrets_are_written_in_blocks_that_are_read_again(tmp_path: Path) -> None:
    line = b"CLIENT_RANDOM " + b"1" * 64 + b" " + b"a" * 96 + b"\n"
    for lines in (b"", line, line * 100_000):
        with (tmp_path / "x.pcapng").open("wb") as file:
            writer = PcapNgWriter(file)
            writer.secrets(lines)
            writer.write(batch_of(PACKETS))
        with open_capture(tmp_path / "x.pcapng") as capture:
            assert sum(len(batch) for batch in capture) == len(PACKETS)
            assert b"".join(text for opened in capture.files for text in opened.secrets) == lines
            assert capture.problems == []
