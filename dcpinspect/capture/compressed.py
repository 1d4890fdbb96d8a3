"""gzip, zstd, xz and bzip2 around a capture, unpacked while it is read; damage ends the stream instead of raising."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any, Protocol

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
XZ = b"\xfd7zX"
BZIP2 = b"BZh"
READ = 1 << 18
ZSTD_PIECE = 512
"""Bytes given to zstandard at once: its output has no limit of its own, and 4 bytes may be a block of 128 KiB."""
XZ_MEMORY = 256 << 20
"""Bytes that unpacking xz may take: the largest preset takes 65 MiB."""
_MEMBER = {GZIP: GZIP[:1], ZSTD: ZSTD[:1] + bytes(range(0x50, 0x60)), XZ: XZ[:1], BZIP2: BZIP2[:1]}
"""First bytes of what may follow a complete member: another one, and for zstd skippable frames (RFC 8878, 3.1.2)."""


class _Raw(Protocol):
    def readinto(self, target: memoryview, /) -> int | None: ...

    def close(self) -> None: ...


class Inflate:
    """A readable stream of what ``raw`` holds compressed."""

    def __init__(self, raw: _Raw, kind: bytes) -> None:
        self.problem: str | None = None
        """Set when the compressed data is damaged or cut; the stream has ended there."""
        self._raw = raw
        self._kind = kind
        self._input: bytes | memoryview = b""
        self._buffer = bytearray(READ)
        self._decoder = self._new_decoder()
        self._ended = False

    def _new_decoder(self) -> Any:  # Any: decompressors share no type
        if self._kind == GZIP:
            return _Gzip()
        if self._kind == XZ:
            return _Holding(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY))
        return _Zstd() if self._kind == ZSTD else _Holding(bz2.BZ2Decompressor())

    def readinto(self, target: memoryview, /) -> int:
        """Fills ``target`` from its start; 0 at the end or at damage."""
        if self._ended:
            return 0
        try:
            size = self._inflate_into(target)
        except (zlib.error, EOFError, _zstd_error()) as error:
            self.problem = f"compressed data is damaged ({error})"
            size = 0
        self._ended = size == 0
        return size

    def _inflate_into(self, target: memoryview) -> int:
        while True:
            if self._decoder.eof:  # another member may follow; zero padding (tapes, block devices) may too
                rest = self._decoder.unused_data.lstrip(b"\0") or self._more().lstrip(b"\0")
                if rest[:1] not in _MEMBER[self._kind] or not rest:
                    if rest:
                        self.problem = "the compressed data is followed by something else"
                    return 0
                self._decoder = self._new_decoder()
                self._input = rest
            if not len(self._input) and not self._decoder.pending:
                self._input = self._more()
                if not self._input:
                    self.problem = "the compressed data is cut short"
                    return 0
            out = self._decoder.decompress(self._input, len(target))
            self._input = self._decoder.unconsumed_tail
            if out:
                target[: len(out)] = out
                return len(out)

    def _more(self) -> bytes:
        got = self._raw.readinto(memoryview(self._buffer))
        return bytes(self._buffer[: got or 0])

    def close(self) -> None:
        """Frees the file."""
        self._raw.close()


class _Gzip:
    """zlib gives nothing of a piece with an error in it, such as a wrong checksum at the end: here what is before that comes first."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)
        self.pending: zlib.error | None = None
        """The error, once everything before it was given."""
        self.unconsumed_tail = b""

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes | memoryview, size: int) -> bytes:
        if self.pending is not None:
            raise self.pending
        before = self._decoder.copy()
        try:
            out = self._decoder.decompress(data, size)
            self.unconsumed_tail = self._decoder.unconsumed_tail
        except zlib.error as error:
            self.pending, self.unconsumed_tail = error, b""
            out = _before_error(before, data, size)
            if not out:
                raise
        return out


def _before_error(decoder: Any, data: bytes | memoryview, size: int) -> bytes:  # Any: the type has no name
    """What can be unpacked before the byte that raises an error."""
    out = bytearray()
    for at in range(len(data)):
        if len(out) >= size:  # 0 more would be no limit
            break
        try:
            out += decoder.decompress(data[at : at + 1], size - len(out))
        except zlib.error:
            break
    return bytes(out)


class _Zstd:
    """zstandard's decompressor with the interface of zlib's: bounded output, and whether the frame is complete."""

    def __init__(self) -> None:
        import zstandard  # deferred: rarely needed

        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self.pending = memoryview(b"")
        self.unconsumed_tail: bytes | memoryview = b""

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof) and not len(self.pending)

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + bytes(self.unconsumed_tail)

    def decompress(self, data: bytes | memoryview, size: int) -> memoryview:
        if not len(self.pending):
            view = memoryview(data)
            self.pending = memoryview(self._frame.decompress(view[:ZSTD_PIECE]))
            data = view[ZSTD_PIECE:]
        self.unconsumed_tail = data
        out, self.pending = self.pending[:size], self.pending[size:]
        return out


class _Holding:
    """A decompressor that holds the input that it had no room for, with the interface of zlib's."""

    unconsumed_tail = b""

    def __init__(self, decoder: Any) -> None:  # Any: lzma's and bz2's share no type
        self._decoder = decoder

    @property
    def pending(self) -> bool:
        return not self.eof and not self._decoder.needs_input

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def decompress(self, data: bytes | memoryview, size: int) -> bytes:
        try:
            return bytes(self._decoder.decompress(data, size))
        except (OSError, ValueError, lzma.LZMAError) as error:
            raise zlib.error(str(error)) from None


def _zstd_error() -> type[Exception]:
    import sys

    module = sys.modules.get("zstandard")
    error: type[Exception] = module.ZstdError if module else zlib.error
    return error


def decompressed(magic: bytes, raw: _Raw) -> Inflate | None:
    """The unpacked stream, or ``None`` where ``magic`` (the first four bytes) is not that of a compression we read."""
    kind = next((kind for kind in _MEMBER if magic.startswith(kind)), None)
    return None if kind is None else Inflate(raw, kind)
