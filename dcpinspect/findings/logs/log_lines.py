"""Reads text files line by line, in memory that does not grow with them: lines may have any length,
and bytes any values. PowerShell writes UTF-16, which becomes UTF-8.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import orjson

from dcpinspect.capture.byte_source import missing
from dcpinspect.capture.compressed import READ, decompressed
from dcpinspect.closable import Closable
from dcpinspect.errors import CaptureError

STDIN = "-"
MOST_LINE = 1 << 16
"""Greatest size of a line in bytes. The server cuts its own lines at 2 kB to 16 kB; a longer line
is left out, and counted.
"""
ENDLESS = 256 << 20
"""Size of a line in bytes at which reading stops: what has no line end by then may have none ever.
"""


_DEEPEST = 16
"""Greatest depth of the JSON of a line; that of servers has two levels."""


def json_object(text: str) -> dict[str, Any] | None:
    """Returns the JSON object in a line; None for other text, and for what is nested too deep."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) and not _is_deep(document, _DEEPEST) else None


def _is_deep(value: object, levels: int) -> bool:
    members = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    return not levels or any(_is_deep(member, levels - 1) for member in members)


class TextFile(Closable):
    """The lines of a file, which may be compressed; ``-`` stands for standard input."""

    def __init__(self, path: str) -> None:
        """Raises CaptureError if the file cannot be read."""
        self.path = path
        self.lines = 0
        """Number of lines that were read."""
        self.too_long = 0
        """Number of lines that were left out because of their length."""
        try:
            self._file: BufferedReader = (
                sys.stdin.buffer if path == STDIN else open(path, "rb")  # type: ignore[assignment] # noqa: SIM115 - closed by close
            )
            head = self._file.peek(8)[:4]
        except FileNotFoundError as error:
            raise missing(path) from error
        except OSError as error:
            raise CaptureError(path, error.strerror or str(error)) from error
        mode = os.fstat(self._file.fileno()).st_mode
        is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
        if head and is_device and not self._file.isatty():
            self.close()
            raise CaptureError(path, "is a device, which may never end", "name a file")
        self._problem: str | None = None
        self._inflate = decompressed(
            head, self._file, self._file if path != STDIN and self._file.seekable() else None
        )
        self._buffer = memoryview(bytearray(READ))
        self._decoder: codecs.IncrementalDecoder | None = None
        self._ahead = self._read()
        is_marked = self._ahead.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if is_marked and b"\0" in self._ahead[:64]:  # half of a text in English
            self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
            self._ahead = self._decoder.decode(self._ahead).encode() or self._read()

    @property
    def is_document(self) -> bool:
        """Whether the file begins as JSON does."""
        return self._ahead.lstrip()[:1] in (b"{", b"[")

    @property
    def problem(self) -> str | None:
        """Why reading stopped before the end, or None."""
        return self._problem or (None if self._inflate is None else self._inflate.problem)

    def close(self) -> None:
        """Frees the file."""
        if self.path != STDIN:
            self._file.close()

    def _read(self) -> bytes:
        try:
            piece = bytes(self._buffer[: (self._inflate or self._file).readinto(self._buffer)])
        except OSError as error:
            raise CaptureError(self.path, error.strerror or str(error)) from error
        if self._decoder is None or not piece:
            return piece
        return self._decoder.decode(piece).encode(errors="replace") or self._read()

    def _pieces(self) -> Iterator[bytes]:
        """Yields the bytes, in pieces. Raises CaptureError if reading fails."""
        while self._ahead:
            yield self._ahead
            self._ahead = self._read()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yields the number, from 1, and the bytes of each line that is not too long, without the
        end of the line.
        """
        remainder, is_long, since_end = b"", False, 0
        for piece in self._pieces():
            *full_lines, tail = piece.split(b"\n")
            since_end = len(tail) if full_lines else since_end + len(tail)
            if since_end > ENDLESS:
                self._problem = (
                    f"line {self.lines + 1:,} has more than {ENDLESS >> 20} MiB, so this is no text"
                )
                break
            for line in full_lines:
                self.lines += 1
                if is_long or len(remainder) + len(line) > MOST_LINE:
                    self.too_long += 1
                else:
                    yield self.lines, (remainder + line if remainder else line).rstrip(b"\r")
                remainder, is_long = b"", False
            if not is_long:
                remainder += tail
            if len(remainder) > MOST_LINE:
                remainder, is_long = b"", True
        if remainder or is_long:
            self.lines += 1
            if is_long:
                self.too_long += 1
            else:
                yield self.lines, remainder.rstrip(b"\r")

    def whole(self, limit: int) -> bytes:
        """Returns all bytes. Raises CaptureError if there are more than ``limit``."""
        content = bytearray()
        for piece in self._pieces():
            content += piece
            if len(content) > limit:
                raise CaptureError(
                    self.path, f"has more than {limit >> 20} MiB, which no such document has"
                )
        return bytes(content)
