from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from dcpinspect.capture import pcap
from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError
from tests import builders
from tests.capture.test_pcap import EXPECTED, PACKETS, packets_of

PLAIN = builders.pcap(PACKETS)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("compress", [gzip.compress, zstd, lzma.compress, bz2.compress])
@pytest.mark.parametrize("batch_bytes", [100, 1 << 20])
def test_compressed_captures_read_like_plain_ones(tmp_path: Path, compress: Callable[[bytes], bytes], batch_bytes: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(compress(PLAIN))
    assert packets_of(path, batch_bytes) == EXPECTED


@pytest.mark.parametrize("compress", [gzip.compress, zstd, lzma.compress, bz2.compress])
def test_consecutive_members_are_one_stream(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x"
    path.write_bytes(compress(PLAIN[:1000]) + compress(PLAIN[1000:]))
    assert packets_of(path) == EXPECTED


LONG = builders.pcap([*PACKETS] * 2000)


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress])
def test_what_is_cut_in_other_packings_gives_what_was_there_and_says_so(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x"
    path.write_bytes(compress(LONG)[:-20])
    capture = open_capture(path)
    assert 0 < sum(len(batch) for batch in capture) <= 2000 * len(PACKETS)
    assert capture.problems[-1].what == "the compressed data is cut short"


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress])
def test_damage_in_other_packings_is_a_problem_and_no_exception(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    data = bytearray(compress(LONG))
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    path = tmp_path / "x"
    path.write_bytes(data)
    capture = open_capture(path)
    list(capture)
    assert "compressed data is damaged" in capture.problems[-1].what


def test_a_small_file_that_unpacks_to_very_much_takes_bounded_room(tmp_path: Path) -> None:
    """60 MiB of nothing behind a capture's header, in some hundred bytes of bzip2."""
    path = tmp_path / "x"
    path.write_bytes(bz2.compress(PLAIN[:24] + bytes(60 << 20)))
    for kernel in (pcap.walk_records, pcap.find_record):  # while memory is traced, compiling takes most of a minute
        kernel.prepare()
    tracemalloc.start()
    try:
        capture = open_capture(path, batch_bytes=1 << 20)
        for _ in capture:
            pass
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


def test_cut_gzip_gives_what_was_there_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(PLAIN)[:-100])
    capture = open_capture(path)
    assert 0 < sum(len(batch) for batch in capture) < len(PACKETS)
    assert capture.problems[-1].what == "the compressed data is cut short"


def test_cut_zstd_says_so_also_where_a_block_ends(tmp_path: Path) -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    blocks = [compressor.compress(PLAIN[:1000]) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), compressor.compress(PLAIN[1000:])]
    path = tmp_path / "x"
    for tail in (b"", (blocks[1] + compressor.flush())[:-5]):
        path.write_bytes(blocks[0] + tail)
        capture = open_capture(path)
        assert 0 < sum(len(batch) for batch in capture) < len(PACKETS)
        assert "the compressed data is cut short" in [problem.what for problem in capture.problems]


def test_zstd_of_which_nothing_can_be_unpacked_is_cut_and_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(zstd(PLAIN)[:-5])
    with pytest.raises(CaptureError, match="the compressed data is cut short"):
        open_capture(path)


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_damaged_compression_is_a_problem_and_no_exception(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    data = bytearray(compress(PLAIN))
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    path = tmp_path / "x"
    path.write_bytes(data)
    if compress is zstd:  # the damage is in its only block
        with pytest.raises(CaptureError, match="compressed data is damaged"):
            open_capture(path)
        return
    capture = open_capture(path)
    list(capture)
    assert "compressed data is" in capture.problems[-1].what  # damaged, or cut where the damage reads as an end


@pytest.mark.parametrize("batch_bytes", [100, 1 << 20])
def test_a_wrong_checksum_of_gzip_takes_no_packet_along(tmp_path: Path, batch_bytes: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(PLAIN)[:-8] + bytes(8))
    assert packets_of(path, batch_bytes) == EXPECTED
    capture = open_capture(path)
    list(capture)
    assert "incorrect data check" in capture.problems[-1].what
