"""Files and pipes that are still being written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.capture.growing_file import GrowingFileReader
from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError
from tests import builders

RECORDED = builders.recorded(
    builders.conversation(b"ask" * 50, b"answer" * 2000, sizes=(100,) * 40)
)
WHOLE = builders.pcap(RECORDED)


def read(growing: GrowingFileReader) -> bytes | None:
    room = bytearray(100)
    size = growing.readinto(memoryview(room))
    return None if size is None else bytes(room[:size])


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[GrowingFileReader]:
    path = tmp_path / "x"
    path.write_bytes(b"begin")
    made = GrowingFileReader(str(path), path.open("rb", buffering=0), is_pipe=False)
    yield made
    made.close()


def test_the_end_of_a_file_is_a_pause(growing: GrowingFileReader, tmp_path: Path) -> None:
    assert (read(growing), growing.has_more(), read(growing)) == (b"begin", False, None)
    with (tmp_path / "x").open("ab") as file:
        file.write(b" and more")
    assert (growing.has_more(), read(growing), growing.problem) == (True, b" and more", None)


def test_what_is_stopped_has_ended(growing: GrowingFileReader) -> None:
    growing.stopped = True
    assert (read(growing), growing.problem) == (b"", None)


def test_a_file_that_became_shorter_has_ended(growing: GrowingFileReader, tmp_path: Path) -> None:
    read(growing)
    os.truncate(tmp_path / "x", 2)
    assert (read(growing), growing.problem) == (
        b"",
        "the file became shorter while it was followed",
    )


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_file_that_was_replaced_is_read_to_its_end(
    is_removed: bool, growing: GrowingFileReader, tmp_path: Path
) -> None:
    read(growing)
    with (tmp_path / "x").open("ab") as file:
        file.write(b" rest")
    (tmp_path / "x").rename(tmp_path / "x.1")
    if not is_removed:
        (tmp_path / "x").write_bytes(b"another")
    assert (read(growing), growing.problem) == (b" rest", None)
    assert read(growing) == b""
    assert (
        growing.problem
        == "the file was moved or deleted, or another file has its name now; start to follow again"
    )


def test_a_pipe_pauses_until_it_is_closed() -> None:
    out, into = os.pipe()
    growing = GrowingFileReader("-", os.fdopen(out, "rb", buffering=0), is_pipe=True)
    assert (growing.has_more(), read(growing)) == (False, None)
    os.write(into, b"abc")
    assert (growing.has_more(), read(growing), read(growing)) == (True, b"abc", None)
    os.close(into)
    assert (read(growing), growing.problem) == (b"", None)
    growing.stopped = True
    assert read(growing) == b""
    growing.close()


@pytest.mark.parametrize("form", [builders.pcap, builders.pcapng])
@pytest.mark.parametrize("size", [61, 1000])
def test_a_capture_is_read_as_it_grows(form: builders.Form, size: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    data = form(RECORDED)
    count = 0

    def write() -> None:
        """Five times it goes on once more packets were read."""
        before, latest = 0, time.monotonic() + 120
        with path.open("ab", buffering=0) as file:
            for at in range(0, len(data), size):
                file.write(data[at : at + size])
                if at * 6 // len(data) < (at + size) * 6 // len(data) < 6:
                    while count == before and time.monotonic() < latest:
                        time.sleep(0.001)
                    before = count

    writer = threading.Thread(target=write)
    writer.start()
    with open_capture(path, follow=True) as capture:
        batches = 0
        for batch in capture:
            count += len(batch)
            batches += len(batch) > 0
            if count == len(RECORDED):
                capture.stop()
        writer.join()
        assert batches > 3
        assert capture.problems == []


def test_a_pause_says_what_time_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(WHOLE)
    with open_capture(path, follow=True) as capture:
        batches = [next(capture) for _ in range(4)]
        assert [len(batch) for batch in batches] == [len(RECORDED), 0, 0, 0]
        times = [batch.clock_ns for batch in batches[1:]]
        assert times == sorted(times, key=lambda time: time or 0)
        assert times[0] is not None
        assert times[0] >= RECORDED[-1].time_ns // 1000 * 1000
        assert all(batch.first_frame == len(RECORDED) + 1 for batch in batches[1:])


def test_a_record_that_is_being_written_when_reading_stops_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(WHOLE[:-10])
    with open_capture(path, follow=True) as capture:
        assert len(next(capture)) == len(RECORDED) - 1
        capture.stop()
        assert sum(map(len, capture)) == 0
        assert capture.problems == []


def test_a_capture_that_became_shorter_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(WHOLE)
    with open_capture(path, follow=True) as capture:
        next(capture)
        os.truncate(path, 100)
        list(capture)
        assert [problem.what for problem in capture.problems] == [
            "the file became shorter while it was followed"
        ]


def test_what_is_compressed_cannot_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(b"\x1f\x8b\x08\0 whatever")
    with pytest.raises(
        CaptureError,
        match=r"is compressed, and a compressed file cannot be followed; unpack it first$",
    ):
        open_capture(path, follow=True)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * 30)
    with pytest.raises(CaptureError, match="is not a capture"):
        open_capture(path, follow=True)


def test_growth_is_seen_soon(growing: GrowingFileReader, tmp_path: Path) -> None:
    read(growing)

    def grow() -> None:
        with (tmp_path / "x").open("ab") as file:
            file.write(b"!")

    threading.Timer(0.03, grow).start()
    assert read(growing) == b"!"
