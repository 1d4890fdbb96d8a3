"""gzip, zstd, xz and bzip2 around a capture, unpacked while it is read; damage ends the stream
instead of raising.

A decompressor returns nothing from a call that meets damage. So that call is done again, a byte at
a time, by a decoder in the state before its piece. Then everything before the damage is returned.
Only through a pipe some of it is lost, because a pipe cannot be read again.
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import zlib
from collections.abc import Callable
from typing import Any, Protocol

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
XZ = b"\xfd7zX"
BZIP2 = b"BZh"
READ = 1 << 18
"""Greatest number of bytes that a decoder gets, or returns, at once."""
READ_ONCE = 1 << 14
"""The same limit for a pipe: as many bytes may be lost before damage."""
FIRST = 1 << 10
"""Number of bytes of a member that a decoder gets first, then twice as many each time. Bytes behind
a short member are copied for nothing.
"""
XZ_MEMORY = 256 << 20
"""Greatest number of bytes of memory for unpacking xz: the largest preset takes 65 MiB."""
_SKIPPABLE = bytes(range(0x50, 0x60))
"""First bytes of zstd frames that hold no data (RFC 8878, 3.1.2); ``_SKIPPABLE_REST`` follows them.
"""
_SKIPPABLE_REST = b"\x2a\x4d\x18"
_MEMBER = {GZIP: GZIP[:1], ZSTD: ZSTD[:1] + _SKIPPABLE, XZ: XZ[:1], BZIP2: BZIP2[:1]}
"""By kind: first bytes of another member, which may follow a complete one."""
_NO_PADDING = re.compile(rb"[^\0]")
_DAMAGE = (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError)
"""The exceptions that decoders raise, but that of zstd."""


class Raw(Protocol):
    """What a source must do: the read half of ``io.RawIOBase``."""

    def readinto(self, target: memoryview, /) -> int | None:
        """Fills ``target`` from its start; returns 0 at the end, None if there is nothing now."""

    def close(self) -> None:
        """Frees the file."""


class PieceStream:
    """A readable stream of pieces, each made of what was read of ``raw``."""

    problem: str | None = None
    """What is wrong with ``raw``, once it is known."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._out = memoryview(b"")  # made, and not returned yet

    def _next_piece(self) -> bytes | None:
        """Returns the next piece: empty at the end, None if ``raw`` has nothing now."""
        raise NotImplementedError

    def readinto(self, target: memoryview, /) -> int | None:
        """Fills ``target`` from its start; returns 0 at the end, None if there is nothing now."""
        if not len(self._out):
            if (piece := self._next_piece()) is None:
                return None
            self._out = memoryview(piece)
        size = min(len(target), len(self._out))
        target[:size] = self._out[:size]
        self._out = self._out[size:]
        return size

    def close(self) -> None:
        """Frees the file."""
        self._raw.close()


class _BinaryFile(Protocol):
    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...

    def read(self, size: int, /) -> bytes | None: ...


class Inflate(PieceStream):
    """A readable stream of what ``raw`` holds compressed; ``file`` is what ``raw`` reads, if that
    can be read again. It ends where the compressed data is damaged or cut.
    """

    def __init__(self, raw: Raw, kind: bytes, file: _BinaryFile | None = None) -> None:
        super().__init__(raw)
        self._kind = kind
        self._file = file
        self._most = READ_ONCE if file is None else READ
        self._buffer = bytearray(self._most)
        self._read = 0  # bytes of raw
        self._data, self._at = b"", 0  # the bytes read last, and how many of them a decoder has
        self._end: str | None = None  # why there is no more; empty: nothing is wrong
        self._damage: tuple[type[Exception], ...] = _DAMAGE
        self._begin()

    @property
    def _raw_size(self) -> int:
        """Number of bytes of raw that decoders have."""
        return self._read - len(self._data) + self._at

    def _begin(self) -> None:
        """Begins another member."""
        self._decoder = self._new_decoder()
        self._start = self._raw_size
        self._step = min(FIRST, self._most)
        # what the decoder was given last, and how much it returned for it
        self._piece, self._unpacked = (b"", 0)

    def _new_decoder(self) -> _Decoder:
        if self._kind == GZIP:
            return _Gzip(zlib.decompressobj(wbits=31))
        if self._kind == XZ:
            return _Decoder(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY))
        if self._kind == BZIP2:
            return _Decoder(bz2.BZ2Decompressor())
        from dcpinspect.capture.zstd import zstd  # deferred: rarely needed

        self._damage = (*_DAMAGE, zstd.ZstdError)
        return _Decoder(zstd.ZstdDecompressor())

    def _next_piece(self) -> bytes:
        piece = b""
        while not piece and self._end is None:
            piece = self._unpack()
        if not piece:
            self.problem = self._end or None
        return piece

    def has_more(self, is_ready: Callable[[], bool]) -> bool:
        """Returns whether it can give bytes without waiting. ``is_ready``: whether its source can."""
        while not len(self._out) and self._end is None:
            wants_input = self._decoder.needs_input or self._decoder.eof
            if wants_input and self._at == len(self._data) and not is_ready():
                return False
            self._out = memoryview(self._unpack())
        return len(self._out) > 0

    def _unpack(self) -> bytes:
        """Returns the next bytes; none if more has to be read first, or at the end."""
        decoder = self._decoder
        piece = b""
        if decoder.eof:
            self._at -= len(decoder.unused_data)
            self._follow()
            return b""
        if decoder.needs_input:
            if not self._has_more():
                self._end = "the compressed data is cut short"
                return b""
            piece = self._data[self._at : self._at + self._step]
            self._at += len(piece)
            self._step = min(2 * self._step, self._most)
            self._piece, self._unpacked = piece, 0
        try:
            unpacked = decoder.decompress(piece, self._most)
        except self._damage as error:
            unpacked, unread = self._before_damage()
            behind = self._behind(unread)
            self._end = f"compressed data is damaged ({error})" + (
                "" if behind == 0 else f"; what follows{_size_text(behind)} is not read"
            )
        self._unpacked += len(unpacked)
        return unpacked

    def _follow(self) -> None:
        """Goes on behind a member: another one may follow, perhaps after padding by zeros (xz,
        tapes, block devices).
        """
        while self._has_more():
            member_start = _NO_PADDING.search(self._data, self._at)
            self._at = len(self._data) if member_start is None else member_start.start()
            if member_start is None:
                continue
            if self._data[self._at] in _MEMBER[self._kind]:
                self._begin()
            else:
                self._end = (
                    "the compressed data is followed by something "
                    f"else{_size_text(self._behind(0))}"
                )
            return
        self._end = ""

    def _before_damage(self) -> tuple[bytes, int]:
        """Returns what the call that met damage would have given, and how many bytes of its piece
        come after that.
        """
        unpacked = bytearray()
        to_skip, consumed = self._unpacked, 0
        decoder = self._again()
        if decoder is None:
            return b"", 0
        try:
            while consumed < len(self._piece) or not decoder.needs_input:
                byte = self._piece[consumed : consumed + 1] if decoder.needs_input else b""
                consumed += len(byte)
                got = decoder.decompress(byte, min(to_skip, READ) or 1)
                if to_skip:
                    to_skip -= len(got)
                else:
                    unpacked += got
        except self._damage:
            pass
        return bytes(unpacked), len(self._piece) - consumed

    def _again(self) -> _Decoder | None:
        """Returns a decoder in the state before the latest piece; None if the file cannot be read
        again.
        """
        if self._file is None:
            return None
        decoder = self._new_decoder()
        file_position = self._file.tell()
        bytes_left = self._raw_size - len(self._piece) - self._start
        self._file.seek(self._start)
        while bytes_left or not decoder.needs_input:
            piece = self._file.read(min(bytes_left, READ)) or b"" if decoder.needs_input else b""
            bytes_left -= len(piece)
            decoder.decompress(piece, READ)
        self._file.seek(file_position)
        return decoder

    def _behind(self, unread: int) -> int | None:
        """Returns the number of bytes of the file that are not read, with those ``unread`` ones
        that the decoder has; None if it is not known.
        """
        if self._file is None:
            return None
        file_position = self._file.tell()
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(file_position)
        return unread + max(0, size - self._raw_size)

    def _has_more(self) -> bool:
        """Returns whether there are bytes that no decoder has; reads them if necessary."""
        if self._at == len(self._data):
            got = self._raw.readinto(memoryview(self._buffer)) or 0
            self._read += got
            self._data, self._at = bytes(self._buffer[:got]), 0
        return self._at < len(self._data)


def _size_text(size: int | None) -> str:
    return "" if size is None else f" ({size:,} bytes)"


class _Decoder:
    """A decoder of one member of zstd, xz or bzip2. It holds the input for which it had no room."""

    def __init__(self, decoder: Any) -> None:  # Any: those of the libraries share no type
        self._decoder = decoder
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def decompress(self, data: bytes, size: int, /) -> bytes:
        unpacked: bytes = self._decoder.decompress(data, size)
        self.needs_input = len(unpacked) < size and self._decoder.needs_input
        return unpacked


class _Gzip(_Decoder):
    """zlib's decompressor, which gives back the input for which it had no room."""

    def decompress(self, data: bytes, size: int, /) -> bytes:
        unpacked: bytes = self._decoder.decompress(data or self._decoder.unconsumed_tail, size)
        self.needs_input = len(unpacked) < size and not self._decoder.unconsumed_tail
        return unpacked


def decompressed(magic: bytes, raw: Raw, file: _BinaryFile | None = None) -> Inflate | None:
    """Returns the unpacked stream, or ``None`` if ``magic`` (the first four bytes) is not that of a
    compression we read.

    ``file``: what ``raw`` reads from its start, if that can be read again.
    """
    # pzstd begins with one
    is_skippable = magic[:1] in _MEMBER[ZSTD] and magic[1:] == _SKIPPABLE_REST
    kind = (
        ZSTD if is_skippable else next((kind for kind in _MEMBER if magic.startswith(kind)), None)
    )
    return None if kind is None else Inflate(raw, kind, file)
