from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import re
import struct
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.capture import compressed
from dcpinspect.capture.byte_source import ByteSource
from dcpinspect.capture.compressed import READ, READ_ONCE, decompressed
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.zstd import zstd as codec
from dcpinspect.errors import CaptureError
from dcpinspect.findings.logs.log_lines import TextFile
from tests import builders
from tests.capture.test_pcap import EXPECTED, PACKETS, packets_of

PLAIN = builders.pcap(PACKETS)


Compress = Callable[[bytes], bytes]


def zstd(data: bytes) -> bytes:
    return codec.compress(data, options={codec.CompressionParameter.checksum_flag: 1})


def bzip2(data: bytes) -> bytes:
    return bz2.compress(data, 1)  # in blocks of 100 kB


ALL: tuple[Compress, ...] = (gzip.compress, zstd, lzma.compress, bzip2)


def inflated(
    data: bytes, target: int = 1 << 16, *, can_seek: bool = True
) -> tuple[bytes, str | None]:
    """What is unpacked, and what is said of it."""
    file = io.BytesIO(data)
    stream = decompressed(data[:4], file, file if can_seek else None)
    assert stream is not None
    out, buffer = bytearray(), memoryview(bytearray(target))
    while size := stream.readinto(buffer):
        out += buffer[:size]
    return bytes(out), stream.problem


def byte_by_byte(compress: Compress, data: bytes) -> bytes:
    """All that the decompressor itself can give of one member before it raises."""
    if compress is gzip.compress:
        gzipped = zlib.decompressobj(wbits=31)
        decoder: Any = gzipped

        def give(piece: bytes) -> bytes:
            return gzipped.decompress(gzipped.unconsumed_tail + piece, 1)
    elif compress is zstd:
        decoder = codec.ZstdDecompressor()
        give = decoder.decompress
    else:
        decoder = lzma.LZMADecompressor() if compress is lzma.compress else bz2.BZ2Decompressor()

        def give(piece: bytes) -> bytes:
            return bytes(decoder.decompress(piece, 1))

    out = bytearray()
    try:
        for byte in data:
            got = give(bytes([byte]))
            out += got
            while got and not decoder.eof:
                got = give(b"")
                out += got
            if decoder.eof:
                break
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError, codec.ZstdError):
        pass
    return bytes(out)


@pytest.mark.parametrize("compress", ALL)
@pytest.mark.parametrize("batch_bytes", [100, 1 << 20])
def test_compressed_captures_read_like_plain_ones(
    tmp_path: Path, compress: Compress, batch_bytes: int
) -> None:
    path = tmp_path / "x"
    path.write_bytes(compress(PLAIN))
    assert packets_of(path, batch_bytes) == EXPECTED


@pytest.mark.parametrize("compress", ALL)
def test_consecutive_members_are_one_stream(tmp_path: Path, compress: Compress) -> None:
    path = tmp_path / "x"
    path.write_bytes(compress(PLAIN[:1000]) + compress(PLAIN[1000:]))
    assert packets_of(path) == EXPECTED


@cache
def long(compress: Compress) -> bytes:
    """So many packets, compressed, which takes a second."""
    return compress(builders.pcap([*PACKETS] * 2000))


@pytest.mark.slow
@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress])
def test_what_is_cut_in_other_packings_gives_what_was_there_and_says_so(
    tmp_path: Path, compress: Compress
) -> None:
    path = tmp_path / "x"
    path.write_bytes(long(compress)[:-20])
    capture = open_capture(path)
    assert 0 < sum(len(batch) for batch in capture) <= 2000 * len(PACKETS)
    assert capture.problems[-1].what == "the compressed data is cut short"


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress])
def test_damage_in_other_packings_is_a_problem_and_no_exception(
    tmp_path: Path, compress: Compress
) -> None:
    data = bytearray(long(compress))
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    path = tmp_path / "x"
    path.write_bytes(data)
    capture = open_capture(path)
    list(capture)
    assert "compressed data is damaged" in capture.problems[-1].what


@pytest.mark.slow
def test_a_small_file_that_unpacks_to_very_much_takes_bounded_room(tmp_path: Path) -> None:
    """60 MiB of nothing behind a capture's header, in some hundred bytes of bzip2."""
    path = tmp_path / "x"
    path.write_bytes(bz2.compress(PLAIN[:24] + bytes(60 << 20)))
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
    compressor = codec.ZstdCompressor()
    blocks = [
        compressor.compress(PLAIN[:1000]) + compressor.flush(codec.ZstdCompressor.FLUSH_BLOCK),
        compressor.compress(PLAIN[1000:]),
    ]
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
def test_damaged_compression_is_a_problem_and_no_exception(
    tmp_path: Path, compress: Compress
) -> None:
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
    assert (
        "compressed data is" in capture.problems[-1].what
    )  # damaged, or cut where the damage reads as an end


@pytest.mark.parametrize("batch_bytes", [100, 1 << 20])
def test_a_wrong_checksum_of_gzip_takes_no_packet_along(tmp_path: Path, batch_bytes: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(PLAIN)[:-8] + bytes(8))
    assert packets_of(path, batch_bytes) == EXPECTED
    capture = open_capture(path)
    list(capture)
    assert "incorrect data check" in capture.problems[-1].what


FEW = builders.pcap(PACKETS[:12]) + random.Random(1).randbytes(600) + bytes(900)
WHOLE = {compress: compress(FEW) for compress in ALL}


@pytest.mark.slow
@pytest.mark.parametrize("compress", ALL)
def test_of_what_is_cut_anywhere_all_is_read_that_can_be(compress: Compress) -> None:
    whole = WHOLE[compress]
    for end in range(4, len(whole)):
        out, problem = inflated(whole[:end], 100 if end % 2 else 1 << 16, can_seek=end % 3 > 0)
        assert problem == "the compressed data is cut short"
        assert out == byte_by_byte(compress, whole[:end])
        assert FEW.startswith(out)


@pytest.mark.parametrize("compress", ALL)
@given(data=st.data())
def test_of_what_is_damaged_anywhere_all_is_read_that_can_be(
    compress: Compress, data: st.DataObject
) -> None:
    """A wrong byte may unpack to wrong bytes, until a checksum or something impossible tells. What
    is before it is as it was.
    """
    damaged = bytearray(WHOLE[compress])
    place = data.draw(st.integers(4, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    out, problem = inflated(bytes(damaged), data.draw(st.sampled_from([1, 100, 1 << 16])))
    assert out == byte_by_byte(compress, bytes(damaged))
    assert out.startswith(byte_by_byte(compress, bytes(damaged[:place])))
    assert problem is not None or out == FEW


@pytest.mark.slow
@pytest.mark.parametrize("compress", ALL)
def test_packets_before_damage_are_those_of_the_undamaged_capture(
    tmp_path: Path, compress: Compress
) -> None:
    rng = random.Random(3)
    packets = [
        builders.Recorded(rng.randbytes(600), 600, builders.START_NS + number)
        for number in range(800)
    ]
    whole = compress(builders.pcap(packets))
    path, undamaged = tmp_path / "x", tmp_path / "whole"
    undamaged.write_bytes(whole)
    expected = packets_of(undamaged)
    for place in (len(whole) // 3, READ, len(whole) - 2000):
        damaged = bytearray(whole)
        damaged[place : place + 8] = bytes(byte ^ 0xFF for byte in damaged[place : place + 8])
        path.write_bytes(whole[:place])
        before = packets_of(path)
        assert expected[: len(before)] == before
        assert (
            len(before) > (len(expected) * place) // len(whole) - 300
        )  # blocks hold up to 128 KiB
        path.write_bytes(damaged)
        assert packets_of(path)[: len(before)] == before


@pytest.mark.slow
@pytest.mark.parametrize("compress", ALL)
def test_damage_behind_megabytes_takes_nothing_along(compress: Compress) -> None:
    """Also where much comes of few bytes: a decoder is asked several times about a piece."""
    rng = random.Random(4)
    plain = rng.randbytes(5 * READ // 4) + bytes(5 * READ // 2) + rng.randbytes(READ)
    damaged = bytearray(compress(plain))
    place = len(damaged) - READ // 2
    damaged[place : place + 8] = bytes(byte ^ 0xFF for byte in damaged[place : place + 8])
    all_of_it = byte_by_byte(compress, bytes(damaged))
    assert len(all_of_it) > len(plain) // 2
    assert inflated(bytes(damaged))[0] == all_of_it
    piped = inflated(bytes(damaged), can_seek=False)[0]
    assert all_of_it.startswith(piped)
    # zstd gives nothing of a block of 128 KiB before its end
    assert len(piped) >= len(all_of_it) - READ_ONCE - (1 << 17 if compress is zstd else 0)


@pytest.mark.parametrize("compress", ALL)
def test_what_is_behind_damage_is_told_by_its_size(compress: Compress) -> None:
    members = [bytearray(compress(part)) for part in (PLAIN[:1000], PLAIN[1000:2000], PLAIN[2000:])]
    members[1][8:24] = b"\xff" * 16
    packed = b"".join(members)
    out, problem = inflated(packed)
    assert PLAIN.startswith(out[:1000])
    assert len(out) >= 1000
    told = re.fullmatch(
        r"compressed data is damaged \(.+\); what follows \(([\d,]+) bytes\) is not read",
        problem or "",
    )
    assert told is not None
    assert len(members[2]) <= int(told[1].replace(",", "")) < len(members[1]) + len(members[2])
    assert "; what follows is not read" in (inflated(packed, can_seek=False)[1] or "")


@pytest.mark.parametrize("compress", ALL)
@pytest.mark.parametrize("padding", [0, 4, 3 * READ])
def test_many_members_are_read_also_with_padding_between_them(
    compress: Compress, padding: int
) -> None:
    packed = bytes(padding).join(
        compress(PLAIN[at : at + 400]) for at in range(0, len(PLAIN), 400)
    ) + bytes(padding)
    for target in (100, 1 << 20):
        assert inflated(packed, target) == (PLAIN, None)


@pytest.mark.parametrize(
    ("empty", "decoder"),
    [(gzip.compress(b""), "_Gzip"), (b"\x50\x2a\x4d\x18" + bytes(4), "_Decoder")],
    ids=["gzip", "zstd"],
)
def test_short_members_take_little_of_what_is_behind_them(
    empty: bytes, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, given = getattr(compressed, decoder), []
    unpack: Callable[..., bytes] = kind.decompress

    def decompress(self: Any, data: bytes, size: int, /) -> bytes:
        given.append(len(data))
        return unpack(self, data, size)

    monkeypatch.setattr(kind, "decompress", decompress)
    assert inflated(empty * 2000) == (b"", None)
    assert sum(given) <= 2000 * compressed.FIRST


@pytest.mark.parametrize("compress", ALL)
def test_garbage_behind_the_end_is_told_by_its_size(compress: Compress) -> None:
    packed = compress(PLAIN)
    assert inflated(packed + b"!" * 1500) == (
        PLAIN,
        "the compressed data is followed by something else (1,500 bytes)",
    )
    assert inflated(packed + b"!", can_seek=False) == (
        PLAIN,
        "the compressed data is followed by something else",
    )
    out, problem = inflated(packed + packed[:1] + b"!" * 20)  # begins as another member does
    assert out == PLAIN
    assert problem is not None


def test_frames_that_hold_nothing_are_skipped_in_zstd_wherever_they_are(tmp_path: Path) -> None:
    def nothing(size: int) -> bytes:
        return struct.pack("<II", 0x184D2A50 + size % 16, size) + b"\xff" * size

    path = tmp_path / "x"
    path.write_bytes(
        nothing(4)
        + zstd(PLAIN[:900])
        + nothing(0)
        + nothing(2 * READ)
        + zstd(PLAIN[900:])
        + nothing(7)
    )
    assert packets_of(path) == EXPECTED
    assert inflated(zstd(PLAIN) + nothing(50)[:-1]) == (PLAIN, "the compressed data is cut short")


@pytest.mark.parametrize("level", [-5, 1, 19])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, 1 << 20])
def test_zstd_frames_of_every_form_are_read(level: int, size: int) -> None:
    rng = random.Random(size)
    plain = rng.randbytes(size // 2) + bytes(size - size // 2)
    for has_size in (False, True):
        for has_checksum in (False, True):
            names = codec.CompressionParameter
            options: dict[int, int] = {
                names.compression_level: level,
                names.checksum_flag: has_checksum,
                names.content_size_flag: has_size,
            }
            maker = codec.ZstdCompressor(options=options)
            maker.set_pledged_input_size(size if has_size else None)
            packed = maker.compress(plain) + maker.flush()
            assert inflated(packed + packed) == (plain + plain, None)


def test_a_capture_of_which_less_than_its_header_is_left_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(PLAIN)[:15])
    with pytest.raises(CaptureError, match="the compressed data is cut short"):
        open_capture(path)


def test_a_pipe_of_damaged_data_is_read_up_to_it(tmp_path: Path) -> None:
    damaged = bytearray(long(lzma.compress))
    damaged[-200:-100] = b"\xff" * 100
    os.mkfifo(tmp_path / "x")
    writer = threading.Thread(target=(tmp_path / "x").write_bytes, args=(damaged,))
    writer.start()
    capture = open_capture(tmp_path / "x")
    assert sum(len(batch) for batch in capture) > 1700 * len(PACKETS)
    writer.join()
    assert "what follows is not read" in capture.problems[-1].what


@pytest.mark.slow
@pytest.mark.parametrize("compress", ALL)
def test_lines_of_a_log_before_damage_are_read(tmp_path: Path, compress: Compress) -> None:
    lines = [random.Random(number).randbytes(300).hex().encode() for number in range(2000)]
    damaged = bytearray(compress(b"\n".join(lines)))
    damaged[-3000:-2992] = b"\xff" * 8
    path = tmp_path / "x"
    path.write_bytes(damaged)
    with TextFile(str(path)) as file:
        read = [line for _, line in file]
        assert file.problem is not None
    assert read[:1000] == lines[:1000]


@pytest.mark.parametrize("compress", ALL)
def test_a_pipe_fills_what_is_read_at_once(compress: Compress) -> None:
    data = bytes(range(256)) * 8000
    packed = compress(data)
    assert len(packed) < 1 << 16  # a pipe holds it
    reading, writing = os.pipe()
    os.write(writing, packed)
    source = ByteSource(f"/proc/self/fd/{reading}")
    os.close(reading)
    os.close(writing)
    got = memoryview(bytearray(len(data)))
    assert source.readinto(got) == len(data)
    assert bytes(got) == data
    source.close()


def test_a_packed_pipe_gives_what_came_without_waiting_for_more() -> None:
    packing = zlib.compressobj(wbits=31)
    first = packing.compress(bytes(50_000)) + packing.flush(zlib.Z_SYNC_FLUSH)
    reading, writing = os.pipe()
    os.write(writing, first)
    source = ByteSource(f"/proc/self/fd/{reading}")
    os.close(reading)
    got = memoryview(bytearray(1 << 16))
    assert source.readinto(got) == 50_000
    os.close(writing)
    source.close()
