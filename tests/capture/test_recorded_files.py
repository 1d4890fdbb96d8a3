from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import Capture, open_capture
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.capture.recorded_files import Limits, NoRoom, RecordedFiles
from dcpinspect.errors import OutputError

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "snapshots.pcap"


def count(path: Path) -> int:
    with open_capture(path) as capture:
        found = sum(map(len, capture))
        assert capture.problems == []
    return found


def opened(
    path: Path | str,
    *,
    interfaces: Sequence[tuple[str, int]] = (("eth0", 1),),
    capture_filter: str | None = None,
) -> RecordedFiles:
    return RecordedFiles(
        str(path), interfaces, name=f"--write {path}", capture_filter=capture_filter
    )


def blocks(batch: PacketBatch, limit: int | None = None) -> memoryview:
    """Packets, or so many of them, as the files writes them."""
    sink = BytesIO()
    writer = PcapNgWriter(sink)
    writer.interface(1)
    start = sink.tell()
    writer.write(batch, None if limit is None else np.arange(limit))
    return sink.getbuffer()[start:]


def put_next(files: RecordedFiles, capture: Capture) -> None:
    batch = next(capture)
    files.write_blocks(blocks(batch), len(batch))


def test_what_is_written_can_be_read_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    files = opened(path, capture_filter="port 11210")
    assert count(path) == 0
    with open_capture(SAMPLE, batch_bytes=2000) as capture:
        written = 0
        for batch in capture:
            files.write_blocks(blocks(batch), len(batch))
            written += len(batch)
            assert count(path) == written
    files.end([(written + 7, 7)])
    assert count(path) == written


@pytest.mark.requires("tshark")
def test_the_file_says_where_it_comes_from_and_what_was_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    files = opened(path, interfaces=[("eth0", 1), ("any", 276)], capture_filter="port 11210")
    files.end([(107, 7), None])
    report = subprocess.run(
        ["capinfos", "-I", str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert (report.count("Name = eth0"), report.count("Name = any")) == (1, 1)
    assert report.count("Filter string = port 11210") == 2
    assert report.count("Number of stat entries = 1") == 1


def kinds(path: Path) -> list[int]:
    with open_capture(path) as capture:
        found = [kind for batch in capture for kind in batch.link_type.tolist()]
        assert capture.problems == []
    return found


def test_an_interface_that_comes_later_is_described_before_its_packets_and_in_every_file_behind(
    tmp_path: Path,
) -> None:
    files = RecordedFiles(
        str(tmp_path / "x.pcapng"), [("eth0", 1)], name="x", each=Limits(packets=1)
    )
    with open_capture(SAMPLE, batch_bytes=200) as capture:
        first, second, third, *_ = (blocks(batch, limit=1) for batch in capture)
    files.write_blocks(first, 1)
    assert [files.interface(*one) for one in (("eth0", 101), ("eth0", 1), ("eth0", 101))] == [
        1,
        0,
        1,
    ]
    second[8] = third[8] = 1  # the interface of the packet
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    (path,) = tmp_path.iterdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, limit[1]))
    try:
        with pytest.raises(NoRoom):
            files.write_blocks(second, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert kinds(path) == [1]
    files.write_blocks(second, 1)
    files.next([(1, 0), (1, 0)])
    files.write_blocks(third, 1)
    files.end([(1, 0), (2, 0)])
    assert [kinds(one) for one in sorted(tmp_path.iterdir())] == [[1, 101], [101]]


def test_counts_that_are_not_known_are_not_written(tmp_path: Path) -> None:
    sizes = []
    for counts in (None, (0, 0)):
        files = opened(tmp_path / "x")
        files.end([counts])
        sizes.append((tmp_path / "x").stat().st_size)
    assert sizes[0] < sizes[1]


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        OutputError,
        match=r"^--write .*/none/x: cannot be written to \(No such file or directory\)$",
    ):
        opened(tmp_path / "none" / "x")
    with pytest.raises(OutputError, match=r"^--write /dev/full: No space left on device$"):
        opened("/dev/full")
    assert Path("/dev/full").is_char_device()


def test_a_file_that_another_recorder_writes_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    files = opened(path)
    with open_capture(SAMPLE, batch_bytes=2000) as capture:
        put_next(files, capture)
        before = path.read_bytes()
        with pytest.raises(OutputError, match=r"another program records to it; name another file$"):
            opened(path)
        assert path.read_bytes() == before
        put_next(files, capture)
    files.end([None])
    written = count(path)
    opened(path).end([None])
    assert count(path) == 0 < written


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("what", ["deleted", "replaced", "emptied", "cut", "moved"])
def test_what_somebody_does_to_the_file_is_told_once(
    what: str, goes_on: bool, tmp_path: Path
) -> None:
    path, told = tmp_path / "x.pcapng", list[tuple[str, str]]()
    files = RecordedFiles(
        str(path), [("eth0", 1)], name="x", on_damage=lambda *damage: told.append(damage)
    )
    (tmp_path / "other").touch()
    with open_capture(SAMPLE, batch_bytes=2000) as capture:
        put_next(files, capture)
        if what == "deleted":
            path.unlink()
        elif what == "replaced":
            (tmp_path / "other").replace(path)
        elif what == "moved":
            path.replace(tmp_path / "other")
        else:
            os.truncate(path, 0 if what == "emptied" else path.stat().st_size - 1)
        if goes_on:
            put_next(files, capture)
            put_next(files, capture)
    files.end([None])
    assert [name for name, _ in told] == ([] if what == "moved" else [str(path)])
    assert all(what in words for _, words in told)


def recorded(path: Path) -> int:
    """Packets of the sample that there was room for."""
    files = opened(path)
    with open_capture(SAMPLE) as capture:
        (batch,) = capture
    with pytest.raises(NoRoom):
        files.write_blocks(blocks(batch), len(batch))
    with suppress(OutputError):
        files.end([(files.packets, 0)])
    return files.packets


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    files = opened(tmp_path / "x")
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "x").stat().st_size + 20, before[1]))
    try:
        with (
            open_capture(SAMPLE) as capture,
            pytest.raises(NoRoom, match=r"^--write .*/x: File too large$"),
        ):
            put_next(files, capture)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    files.end([None])


@pytest.mark.parametrize("size", range(10_000, 10_200, 11))
def test_a_full_disk_leaves_a_file_of_whole_packets(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        written = recorded(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert 10 < written == count(path)
    with open_capture(SAMPLE) as capture:
        longest = max(int(batch.captured.max()) for batch in capture)
    assert path.stat().st_size > size - longest - 100, "all that fits is there"


def test_counts_stand_behind_the_packets_once_there_is_room_again(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    files = opened(path)
    with open_capture(SAMPLE, batch_bytes=2000) as capture:
        put_next(files, capture)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, before[1]))
        try:
            with pytest.raises(OutputError):
                put_next(files, capture)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size == size
    files.end([(7, 0)])
    with open_capture(str(path)) as written:
        list(written)
        assert written.problems == []
    assert path.stat().st_size < size + 100
