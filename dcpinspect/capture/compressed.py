"""gzip and zstd around a capture, unpacked while it is read; damage ends the stream instead of raising."""

from __future__ import annotations

import zlib
from typing import Any, Protocol

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
READ = 1 << 18


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
        self._input = b""
        self._buffer = bytearray(READ)
        self._decoder = self._new_decoder()
        self._ended = False

    def _new_decoder(self) -> Any:  # Any: zlib's and zstandard's decompressors share no type
        if self._kind == GZIP:
            return zlib.decompressobj(wbits=31)
        import zstandard  # deferred: rarely needed

        reader: Any = _Reader(self)  # only ``read`` is called
        return zstandard.ZstdDecompressor().stream_reader(reader, read_across_frames=True, closefd=False)

    def readinto(self, target: memoryview, /) -> int:
        """Fills ``target`` from its start; 0 at the end or at damage."""
        if self._ended:
            return 0
        try:
            size = self._inflate_into(target) if self._kind == GZIP else int(self._decoder.readinto(target))
        except (zlib.error, EOFError, _zstd_error()) as error:
            self.problem = f"compressed data is damaged ({error})"
            size = 0
        self._ended = size == 0
        return size

    def _inflate_into(self, target: memoryview) -> int:
        while True:
            if self._decoder.eof:  # another member may follow; zero padding (tapes, block devices) may too
                rest = self._decoder.unused_data.lstrip(b"\0") or self._more().lstrip(b"\0")
                if not rest.startswith(GZIP[:1]):
                    if rest:
                        self.problem = "the compressed data is followed by something else"
                    return 0
                self._decoder = self._new_decoder()
                self._input = rest
            if not self._input:
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


class _Reader:
    """``read`` for zstandard, which does not take ``readinto``."""

    def __init__(self, inflate: Inflate) -> None:
        self._inflate = inflate

    def read(self, size: int = -1) -> bytes:  # noqa: ARG002 - the interface; we give what we have
        return self._inflate._more()


def _zstd_error() -> type[Exception]:
    import sys

    module = sys.modules.get("zstandard")
    error: type[Exception] = module.ZstdError if module else zlib.error
    return error


def decompressed(magic: bytes, raw: _Raw) -> Inflate | None:
    """The unpacked stream, or ``None`` where ``magic`` (the first four bytes) is not that of a compression we read."""
    if magic.startswith(GZIP):
        return Inflate(raw, GZIP)
    if magic.startswith(ZSTD):
        return Inflate(raw, ZSTD)
    return None
