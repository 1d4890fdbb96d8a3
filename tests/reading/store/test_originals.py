"""Bytes of captures are read again where they stand, or from the copies that were kept of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.errors import ChangedCaptureError, NotKeptError
from dcpinspect.reading.store.originals import BESIDE, Originals
from dcpinspect.reading.store.spool import Spool

DATA = bytes(range(256)) * 64


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path)
    yield made
    made.close()


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(DATA)
    os.utime(path, ns=(10**18, 10**18))  # long before anything that changes it
    return path


def read(originals: Originals, number: int, offset: int, size: int) -> bytes:
    found = bytearray(size)
    originals.read(number, offset, memoryview(found))
    return bytes(found)


def octets(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


def test_a_plain_file_is_read_where_it_stands(spool: Spool, capture: Path) -> None:
    originals = Originals(spool, 1 << 20)
    originals.note(3, str(capture))
    assert read(originals, 3, 1000, 300) == DATA[1000:1300]
    assert list(spool.folder.iterdir()) == []


def test_it_is_found_from_another_working_directory(
    spool: Spool,
    capture: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.chdir(capture.parent)
    originals = Originals(spool, 1 << 20)
    originals.note(0, capture.name)
    monkeypatch.chdir(tmp_path_factory.mktemp("else"))
    assert read(originals, 0, 5, 5) == DATA[5:10]


def shrink(path: Path) -> None:
    os.truncate(path, 100)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def rewrite(path: Path) -> None:
    path.write_bytes(bytes(len(DATA)))


def take_place(path: Path) -> None:
    path.with_suffix(".new").write_bytes(DATA)
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (shrink, "has shrunk from 16,384 to 100 bytes since it was read"),
        (empty, "has shrunk from 16,384 to 0 bytes since it was read"),
        (rewrite, "was changed since it was read"),
        (take_place, "another file has taken its place since it was read"),
        (Path.unlink, "cannot be read again (No such file or directory)"),
    ],
)
def test_a_file_that_is_not_what_it_was_says_so(
    spool: Spool, capture: Path, change: object, says: str
) -> None:
    originals = Originals(spool, 1 << 20)
    originals.note(0, str(capture))
    assert callable(change)
    change(capture)
    with pytest.raises(ChangedCaptureError) as caught:
        read(originals, 0, 50, 10)
    assert str(caught.value) == f"{capture}, offset 50: {says}; open it again"


def test_a_file_that_has_grown_is_as_good(spool: Spool, capture: Path) -> None:
    originals = Originals(spool, 1 << 20)
    originals.note(0, str(capture))
    with capture.open("ab") as file:
        file.write(b"more")
    assert read(originals, 0, 16_000, 384) == DATA[16_000:]


def test_a_file_that_grows_while_it_is_read_may_not_lose_that_again(
    spool: Spool, capture: Path
) -> None:
    originals = Originals(spool, 1 << 20)
    originals.note(0, str(capture))
    with capture.open("ab") as file:
        file.write(b"more")
    originals.note(0, str(capture))
    os.truncate(capture, len(DATA))
    with pytest.raises(ChangedCaptureError, match="has shrunk from 16,388 to 16,384 bytes"):
        read(originals, 0, 0, 1)


def test_copies_give_what_was_copied_across_their_pieces(spool: Spool) -> None:
    originals = Originals(spool, 8 * 1000)  # pieces of 1000 bytes
    for at in range(0, 4000, 500):
        originals.copy(
            0, max(0, at - 100), octets(DATA[max(0, at - 100) : at + 500]), is_bounded=True
        )  # ends come again
    assert len(list(spool.folder.iterdir())) == 4
    assert read(originals, 0, 3, 3990) == DATA[3:3993]


def test_bytes_between_batches_that_were_never_read_cost_nothing(spool: Spool) -> None:
    originals = Originals(spool, 0)
    originals.copy(0, 0, octets(b"start"), is_bounded=False)
    originals.copy(0, 1 << 40, octets(b"end"), is_bounded=False)
    assert (read(originals, 0, 0, 5), read(originals, 0, 1 << 40, 3)) == (b"start", b"end")
    assert sum(path.stat().st_blocks for path in spool.folder.iterdir()) < 1000


def test_of_a_stream_only_the_newest_is_kept(spool: Spool) -> None:
    originals = Originals(spool, 2000)
    for at in range(0, 16_000, 500):
        originals.copy(0, at, octets(DATA[at : at + 500]), is_bounded=True)
    assert sum(path.stat().st_size for path in spool.folder.iterdir()) <= 2000
    assert read(originals, 0, 15_000, 1000) == DATA[15_000:16_000]
    assert originals.floor > 20
    with pytest.raises(NotKeptError):
        read(originals, 0, 13_000, 10)


def test_what_stands_nowhere_in_one_piece_goes_with_the_packets_of_its_time(spool: Spool) -> None:
    originals = Originals(spool, 2000)
    beside = []
    for at in range(0, 16_000, 500):
        originals.copy(0, at, octets(DATA[at : at + 500]), is_bounded=True)
        beside.append(originals.put_beside(octets(DATA[at : at + 10]), is_bounded=True))
    assert read(originals, BESIDE, beside[-1], 10) == DATA[15_500:15_510]
    with pytest.raises(NotKeptError):
        read(originals, BESIDE, beside[0], 10)


def test_a_compressed_file_is_kept_whole(spool: Spool) -> None:
    originals = Originals(spool, 100)
    originals.copy(0, 0, octets(DATA), is_bounded=False)
    assert read(originals, 0, 0, len(DATA)) == DATA
    assert originals.floor == 0


def test_bytes_that_were_never_there_are_not_invented(spool: Spool) -> None:
    originals = Originals(spool, 1 << 20)
    originals.copy(0, 100, octets(b"abc"), is_bounded=False)
    for number, offset, size in ((0, 90, 5), (0, 101, 5), (1, 0, 1), (BESIDE, 0, 1)):
        with pytest.raises(NotKeptError):
            read(originals, number, offset, size)
