"""Reads the captures' own bytes again: from the files themselves where possible, else from copies
in the spool.

Compressed files are copied to the spool unpacked, once, while they are read. Bytes from a pipe or
an interface are copied too, and only the newest of them are kept. Captures are never mapped into
memory: one that shrinks would end the process.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path

from dcpinspect.arrays import ByteArray
from dcpinspect.errors import ChangedCaptureError, NotKeptError, SpoolError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.store.spool import Spool

BESIDE = -1
"""File number that stands for bytes which stand in no file in one piece."""
PIECE = 64 << 20
"""Greatest number of bytes of a copied stream that are dropped at once."""
_HEAD = 64
"""So many bytes at the begin of a capture tell it from another one: its first packet has a time."""


@dataclass(slots=True)
class FileState:
    """A capture, read where it stands, as it was at that time. It may grow, for it may still be
    written.
    """

    name: str
    path: str
    identity: tuple[int, int]
    size: int
    modified_ns: int
    head: bytes

    @classmethod
    def of(cls, name: str, path: str) -> FileState:
        """Returns the state of a file now. Raises OSError."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            now = os.fstat(descriptor)
            head = os.pread(descriptor, _HEAD, 0)
        finally:
            os.close(descriptor)
        return cls(name, path, (now.st_dev, now.st_ino), now.st_size, now.st_mtime_ns, head)

    def read(self, offset: int, target: memoryview) -> None:
        """Fills ``target`` with bytes from ``offset`` on. Raises ChangedCaptureError if the file
        is not what it was.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise self._changed(offset, f"cannot be read again ({error.strerror})") from error
        try:
            now = os.fstat(descriptor)
            if (now.st_dev, now.st_ino) != self.identity:
                raise self._changed(offset, "another file has taken its place since it was read")
            if now.st_size < self.size:
                raise self._changed(
                    offset,
                    f"has shrunk from {self.size:,} to {now.st_size:,} bytes since it was read",
                )
            is_other = os.pread(descriptor, len(self.head), 0) != self.head
            if is_other or (now.st_size == self.size and now.st_mtime_ns != self.modified_ns):
                raise self._changed(offset, "was changed since it was read")
            if _fill(descriptor, offset, target) < len(target):
                raise self._changed(offset, "is shorter than when it was read")
        except OSError as error:
            raise self._changed(offset, f"cannot be read again ({error.strerror})") from error
        finally:
            os.close(descriptor)

    def _changed(self, offset: int, what: str) -> ChangedCaptureError:
        return ChangedCaptureError(self.name, offset or None, what)


@dataclass(slots=True)
class _Piece:
    """A run of copied bytes, [start, end) of their file; bytes that were never read, between
    records, may be missing.
    """

    number: int
    path: Path
    start: int
    end: int
    is_bounded: bool


class Originals:
    """The bytes of a reading's files. One thread adds bytes, any number of threads read."""

    def __init__(self, spool: Spool, keep: int) -> None:
        """``keep``: greatest number of bytes of streams kept; the oldest are dropped first."""
        self.keep = keep
        self.floor = 0
        """Number of the first piece that may still be there; all pieces below were dropped."""
        self.newest = 0
        """Number of the piece that bytes of a stream were last copied to; pieces are numbered from
        0 as they are begun.
        """
        self._spool = spool
        self._files: dict[int, FileState] = {}
        self._copies: dict[int, tuple[_Piece, ...]] = {}
        self._bounded: list[_Piece] = []
        self._count = 0
        self._beside = 0

    def note(self, number: int, name: str) -> None:
        """Notes that file ``number`` of the reading, an uncompressed one, was read to its end."""
        original = self._files.get(number)
        path = os.path.abspath(name) if original is None else original.path
        try:
            self._files[number] = FileState.of(name, path)
        except OSError:  # the file was removed since: whoever wants its bytes gets the error
            if original is None:
                self._files[number] = FileState(name, path, (0, 0), 0, 0, b"")

    def copy(self, number: int, offset: int, data: ByteArray, *, is_bounded: bool) -> None:
        """Keeps the bytes of file ``number`` from ``offset`` on; bytes that are kept already may
        come again. Raises SpoolError.
        """
        pieces = self._copies.get(number, ())
        last = pieces[-1] if pieces else None
        if last is not None and offset < last.end:
            data, offset = data[last.end - offset :], last.end
        if not len(data):
            return
        if last is None or last.is_bounded != is_bounded or self._is_full(number, last):
            last = _Piece(
                self._count, self._spool.path(f"{self._count:08}.bytes"), offset, offset, is_bounded
            )
            self._count += 1
            self._copies[number] = (*pieces, last)
            if is_bounded:
                self._bounded.append(last)
                if number != BESIDE:
                    self.newest = last.number
        try:
            _write(last.path, data.data, offset - last.start)
        except OSError as error:
            raise SpoolError(self._spool.folder, error) from error
        last.end = offset + len(data)
        self._drop()

    def _is_full(self, number: int, piece: _Piece) -> bool:
        # so that no bytes put beside stay longer than the packets of their time
        if number == BESIDE:
            return piece.is_bounded and piece.number < self.newest
        return piece.is_bounded and piece.end - piece.start >= min(PIECE, self.keep // 8)

    def put_beside(self, data: ByteArray, *, is_bounded: bool) -> int:
        """Keeps bytes that stand in no file in one piece; returns their offset in ``BESIDE``.
        Raises SpoolError.
        """
        offset = self._beside
        self._beside += len(data)
        self.copy(BESIDE, offset, data, is_bounded=is_bounded)
        return offset

    def _drop(self) -> None:
        while (
            len(self._bounded) > 1
            and sum(piece.end - piece.start for piece in self._bounded) > self.keep
        ):
            piece = self._bounded.pop(0)
            self._copies = {
                number: tuple(copied for copied in pieces if copied is not piece)
                for number, pieces in self._copies.items()
            }
            self.floor = piece.number + 1
            piece.path.unlink(missing_ok=True)

    def read(self, number: int, offset: int, target: memoryview) -> None:
        """Fills ``target`` with the bytes of file ``number`` from ``offset`` on.

        Raises ChangedCaptureError if the file has changed since it was read, and NotKeptError if
        the bytes were dropped.
        """
        file = self._files.get(number)
        if file is not None:
            file.read(offset, target)
            return
        pieces = self._copies.get(number, ())
        while len(target):
            index = bisect_right(pieces, offset, key=lambda piece: piece.start) - 1
            size = min(len(target), pieces[index].end - offset) if index >= 0 else 0
            if size <= 0:
                raise NotKeptError
            piece = pieces[index]
            try:
                descriptor = os.open(piece.path, os.O_RDONLY)
            except FileNotFoundError:  # the piece was dropped a moment ago
                raise NotKeptError from None
            try:
                _fill(descriptor, offset - piece.start, target[:size])
            finally:
                os.close(descriptor)
            target, offset = target[size:], offset + size


def _write(path: Path, data: memoryview, offset: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while len(data):
            written = os.pwrite(descriptor, data, offset)
            data, offset = data[written:], offset + written
    finally:
        os.close(descriptor)


def _fill(descriptor: int, offset: int, target: memoryview) -> int:
    """Fills ``target`` from ``offset`` on, up to the file's end; returns how many bytes."""
    size = 0
    while size < len(target):
        got = os.preadv(descriptor, [target[size:]], offset + size)
        if not got:
            break
        size += got
    return size
