from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError, UsageError
from tests import builders
from tests.builders import Recorded
from tests.capture.test_pcap import PACKETS
from tests.peers.truth import SAMPLES


def message_of(path: Path) -> str:
    with pytest.raises(CaptureError) as caught:
        open_capture(path)
    return str(caught.value).replace(str(path), "x")


def test_empty_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    assert message_of(tmp_path / "x") == "x: is empty; record again, or name another file"


def test_a_directory_without_captures_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no capture")
    assert (
        message_of(tmp_path)
        == "x: is a directory without captures; name one that has pcap or pcapng files"
    )


def test_a_file_of_a_directory_that_cannot_be_read_is_left_out_and_a_named_one_is_an_error(
    tmp_path: Path,
) -> None:
    for name, content in {
        "r_1.pcap": builders.pcap(PACKETS),
        "r_2.pcap": b"",
        "r_3.pcap": bytes(30),
        "r_4.pcap.lz4": b"\x04\x22\x4d\x18" + bytes(30),
    }.items():
        (tmp_path / name).write_bytes(content)
    with open_capture(tmp_path) as capture:
        assert sum(len(batch) for batch in capture) == len(PACKETS)
        assert [Path(file.name).name for file in capture.files] == ["r_1.pcap"]
        assert [(Path(one.file).name, one.what) for one in capture.problems] == [
            ("r_2.pcap", "left out, for it is empty"),
            ("r_3.pcap", "left out, for it is not a capture (begins with 00 00 00 00)"),
            ("r_4.pcap.lz4", "left out, for it is packed by lz4"),
        ]
    with pytest.raises(CaptureError, match=r"r_2\.pcap: is empty"):
        open_capture(sorted(tmp_path.iterdir()))
    (tmp_path / "r_1.pcap").write_bytes(b"")
    with pytest.raises(CaptureError, match=r"r_4\.pcap\.lz4: is packed by lz4"):
        open_capture(tmp_path)


def test_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    assert message_of(tmp_path / "x") == "x: there is no such file; check the name"


def test_a_missing_file_is_answered_with_the_names_that_are_like_it(tmp_path: Path) -> None:
    (tmp_path / "capture-1.pcap").write_bytes(b"")
    assert message_of(tmp_path / "capture1.pcap").endswith(
        "there is no such file; did you mean capture-1.pcap?"
    )


def test_a_zip_archive_is_answered_with_how_to_unpack_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr("a.pcap", builders.pcap(PACKETS))
    assert (
        message_of(tmp_path / "x")
        == "x: is a zip archive; unpack it, as in unzip -p FILE | dcpinspect read -"
    )


def test_a_directory_is_its_captures_in_order_of_time(tmp_path: Path) -> None:
    packets = list(PACKETS)
    late, early = [replace(one, time_ns=one.time_ns + 10**12) for one in packets], packets
    (tmp_path / "a.pcap").write_bytes(builders.pcap(late))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "trace").write_bytes(builders.pcapng(early))
    (tmp_path / "notes.txt").write_text("no capture")
    with open_capture(tmp_path) as capture:
        assert [Path(file.name).relative_to(tmp_path).as_posix() for file in capture.files] == [
            "deeper/trace",
            "a.pcap",
        ]
        assert sum(len(batch) for batch in capture) == 2 * len(packets)


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ([""], "a capture has an empty name; name a file, or - for standard input"),
        (["-", "-"], "-: standard input can be read once; name it once"),
    ],
)
def test_names_that_cannot_be_are_one_clear_line(paths: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(says)}$"):
        open_capture(paths)


NOBODY = 65534


def test_unreadable_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "x").chmod(0)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(NOBODY)  # root may read everything
        assert (
            message_of(tmp_path / "x")
            == "x: cannot be opened (Permission denied); check the name and its permissions"
        )
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("data", [b"hello world, this is no capture", b"\xd4\xc3\xb2\xa1", b"\x0a"])
def test_anything_else_is_no_capture(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    assert message_of(tmp_path / "x") == (
        f"x: is not a capture (begins with {data[:4].hex(' ')}); give a pcap or pcapng file, "
        "plain or packed by gzip, zstd, xz or bzip2"
    )


def test_several_files_are_one_reading_in_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "late").write_bytes(builders.pcap(PACKETS[30:]))
    (tmp_path / "early").write_bytes(builders.pcapng(PACKETS[:30]))
    (tmp_path / "none").write_bytes(builders.pcap([]))
    with open_capture([tmp_path / "late", tmp_path / "none", tmp_path / "early"]) as capture:
        batches = list(capture)
    assert [Path(file.name).name for file in capture.files] == ["early", "late", "none"]
    assert [file.packets for file in capture.files] == [30, 20, 0]
    places = [
        place
        for batch in batches
        for place in zip(
            batch.files.tolist(), batch.frames.tolist(), batch.packets.tolist(), strict=True
        )
    ]
    assert places == [
        *((0, 1 + packet, packet) for packet in range(30)),
        *((1, 1 + packet, 30 + packet) for packet in range(20)),
    ]


def test_many_small_captures_are_read_in_few_batches(tmp_path: Path) -> None:
    """Whether they overlap in time or not: a batch costs the same, however few packets it has."""
    for number in range(300):
        begin = 10**9 * (number % 50 + 1000 * (number // 50))
        packets = [Recorded(b"%d" % number, 20, begin + 10**9 * at) for at in range(30)]
        (tmp_path / f"{number}.pcap").write_bytes(builders.pcap(packets))
    with open_capture(str(tmp_path)) as capture:
        batches = list(capture)
        assert not capture.is_crowded
    times = np.concatenate([batch.time_ns for batch in batches])
    assert len(times) == 300 * 30
    assert (np.diff(times) >= 0).all()
    assert len(batches) < 20


def test_files_of_two_rings_keep_their_lanes(tmp_path: Path) -> None:
    """Whichever ring begins its next file first."""
    times = {"a1": (0, 20), "b1": (1, 21), "b2": (30, 50), "a2": (31, 51)}
    for name, seconds in times.items():
        packets = [Recorded(name.encode(), 20, 10**9 * second) for second in seconds]
        (tmp_path / name).write_bytes(builders.pcap(packets))
    lanes = dict[str, set[int]]()
    with open_capture([tmp_path / name for name in times]) as capture:
        for batch in capture:
            in_batch = batch.files * 0 if batch.lanes is None else batch.lanes
            for number, lane in zip(batch.files.tolist(), in_batch.tolist(), strict=True):
                lanes.setdefault(Path(capture.files[number].name).name[0], set()).add(lane)
    assert lanes == {"a": {0}, "b": {1}}


def test_a_file_that_is_replaced_before_its_turn_is_told(tmp_path: Path) -> None:
    """As of a ring that goes on being written."""
    for number in range(3):
        (tmp_path / str(number)).write_bytes(builders.pcap(PACKETS[15 * number : 15 * number + 15]))
    with open_capture([tmp_path / str(number) for number in range(3)]) as capture:
        (tmp_path / "2").write_bytes(builders.pcap(PACKETS[45:]))
        assert sum(map(len, capture)) == 30 + len(PACKETS[45:])
        (problem,) = capture.problems
    assert problem.file == str(tmp_path / "2")
    assert problem.what == "was replaced by another capture before it was read"


def test_batches_stay_valid_after_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(builders.pcap(PACKETS))
    batches = list(open_capture(tmp_path / "x", batch_bytes=300))
    assert [batch.data[batch.offset[0]] for batch in batches] == [
        batch.first_frame - 1 for batch in batches
    ]


@pytest.mark.parametrize(
    "path", [SAMPLES / "tour.pcapng", SAMPLES / "lossy.pcap"], ids=lambda path: path.name
)
def test_a_batch_has_a_bounded_number_of_packets(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packets() -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        with open_capture(path) as capture:
            for batch in capture:
                options = batch.captured * 0 if batch.options is None else batch.options
                ends = zip(
                    batch.offset.tolist(), (batch.offset + batch.captured).tolist(), strict=True
                )
                data = [batch.data[start:end].tobytes() for start, end in ends]
                columns = (
                    batch.packets,
                    batch.frames,
                    batch.wire,
                    batch.time_ns,
                    batch.link_type,
                    batch.file_offset + batch.offset,
                    options,
                )
                found += zip(data, *(column.tolist() for column in columns), strict=True)
                sizes.append(len(batch))
            assert capture.packets == len(found)
        return found

    sizes: list[int] = []
    expected = packets()
    assert max(sizes) > 10
    sizes.clear()
    monkeypatch.setattr("dcpinspect.capture.open.MOST_PACKETS", 10)
    assert packets() == expected
    assert max(sizes) == 10


def test_file_offsets_point_into_the_file(tmp_path: Path) -> None:
    data = builders.pcap(PACKETS)
    (tmp_path / "x").write_bytes(data)
    for batch in open_capture(tmp_path / "x", batch_bytes=300):
        at = batch.file_offset + int(batch.offset[0])
        assert data[at] == batch.first_frame - 1


def test_a_pipe_gives_what_is_complete_without_waiting_for_more() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\n"
        "from dcpinspect.capture.open import open_capture\n"
        "for batch in open_capture('-'): print(len(batch), flush=True)\n"
    )
    data = builders.pcap(PACKETS)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data[: len(builders.pcap(PACKETS[:7])) + 20])
        process.stdin.flush()
        assert process.stdout.readline() == b"7\n"  # the writer has not closed
        process.stdin.write(data[len(builders.pcap(PACKETS[:7])) + 20 :])
        process.stdin.close()
        assert process.stdout.read() == b"43\n"


def test_the_position_of_files_gets_to_their_size(tmp_path: Path) -> None:
    plain = builders.pcap(builders.recorded(builders.conversation(b"x" * 100_000)))
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap.gz"]
    paths[0].write_bytes(plain)
    paths[1].write_bytes(gzip.compress(plain))
    with open_capture(paths, batch_bytes=1 << 14) as capture:
        positions = [capture.position for _ in capture]
        assert positions == sorted(positions)
        assert 0 < positions[0] < positions[-1]
        assert capture.position == capture.size == sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("again", ["pipe", "./pipe"])
def test_a_pipe_that_is_named_twice_is_refused_before_it_is_waited_for(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(
        UsageError, match=f"^{again}: a pipe or device can be read once; name it once$"
    ):
        open_capture(["pipe", again])
