"""The latest packets in memory, as pcapng blocks; those around a moment go to a file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import FileIO

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.capture import rights
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

MIB = 1 << 20
_PIECE_BYTES = MIB
_PIECE_NS = 10**9
"""Nanoseconds of packets that are kept, written and forgotten at once; ``_PIECE_BYTES``: bytes of
them. A file may have so much more than was asked for.
"""
_PIECE_COST = 400
"""Bytes that a piece takes beside its blocks."""
_NAMES = 1000
"""Greatest number of files of one rule and millisecond."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Packets in the form that they have in a file."""

    number: int
    begin_ns: int
    end_ns: int
    """Times of the first and the last packet."""
    count: int
    interfaces: int
    """Number of interfaces that have to be described before these packets."""
    blocks: bytes

    @property
    def cost(self) -> int:
        """Bytes of memory that it takes."""
        return len(self.blocks) + _PIECE_COST


class _Sink(list[bytes]):
    """Collects what a writer wrote."""

    def write(self, data: bytes | memoryview, /) -> int:
        self.append(bytes(data))
        return len(data)


class _MomentsFile:
    """One of the files: a section for each moment, which has the comment, and the packets between
    moments. Complete after every write.
    """

    def __init__(self, path: str, rule: str, since_ns: int) -> None:
        self.path = path
        self.rule = rule
        self.since_ns = since_ns
        self.until_ns = 0
        self.size = 0
        self.packets = 0
        self.next = 0
        """Number of the piece that comes next."""
        self._interfaces = 0
        self._file = FileIO(path, "x")
        rights.limit(self._file.fileno())

    def begin(self, note: str) -> None:
        """Begins another section."""
        sink = _Sink()
        PcapNgWriter(sink, [note.encode(errors="backslashreplace")])
        self._write_all(b"".join(sink))
        self._interfaces = 0

    def write(self, piece: _Piece, interfaces: list[bytes]) -> None:
        """Writes the next packets."""
        self._write_all(b"".join([*interfaces[self._interfaces : piece.interfaces], piece.blocks]))
        self._interfaces = max(self._interfaces, piece.interfaces)
        self.packets += piece.count
        self.next = piece.number + 1

    def _write_all(self, data: bytes) -> None:
        """Writes all of the data, or nothing. Raises OSError."""
        unwritten = memoryview(data)
        try:
            while len(unwritten):
                unwritten = unwritten[self._file.write(unwritten) :]
        except OSError:
            self._file.truncate(self.size)
            raise
        self.size += len(data)

    def close(self) -> None:
        """Closes the file, which is complete."""
        self._file.close()


class RecentPackets:
    """Keeps the latest packets, as many as memory allows, and writes those before and after moments
    to files. What the disk refuses is told, not raised. A finding may be told long after it began,
    as a silence is when it ends: so no packet goes because of its age.
    """

    def __init__(
        self,
        folder: str,
        around_ns: int,
        *,
        most_bytes: int,
        most_files: int,
        tell: Callable[[str], None],
    ) -> None:
        """``around_ns``: how much before and after a moment. ``most_bytes``: limit for packets in
        memory; a file may have twice as many.
        """
        self._folder = folder
        self._around_ns = around_ns
        self._most_bytes = most_bytes
        self._files_left = most_files
        self._most_files = most_files
        self._tell = tell
        self._sink = _Sink()
        self._writer = PcapNgWriter(self._sink)
        self._interfaces: list[bytes] = []
        self._pieces: deque[_Piece] = deque()
        self._bytes = 0
        self._numbers = 0
        self._lost_until_ns = 0
        self._file: _MomentsFile | None = None
        self._is_told = False
        self.saved = 0
        """Number of files that were begun."""
        self.is_lacking = False
        """Whether the disk refused packets."""

    def add(self, batch: PacketBatch) -> None:
        """Takes the next packets."""
        for rows in _pieces_of(batch):
            self._sink.clear()
            self._writer.write(batch, rows)
            *described, blocks = self._sink
            self._interfaces += described
            time_ns = batch.time_ns[rows]
            piece = _Piece(
                self._numbers,
                int(time_ns.min()),
                int(time_ns.max()),
                len(rows),
                len(self._interfaces),
                blocks,
            )
            self._numbers += 1
            self._pieces.append(piece)
            self._bytes += piece.cost
            while self._bytes > self._most_bytes and len(self._pieces) > 1:
                lost = self._pieces.popleft()
                self._bytes -= lost.cost
                self._lost_until_ns = max(self._lost_until_ns, lost.end_ns)
            if self._file is not None:
                self._go_on(self._file, piece)

    def save(self, rule: str, note: str, moment_ns: int, now_ns: int) -> None:
        """Writes the packets from before ``moment_ns`` until after ``now_ns``, with ``note``; to
        the file that is being written, if there is one.
        """
        since_ns = moment_ns - self._around_ns
        if self._lost_until_ns >= since_ns:
            lost_until = datetime.fromtimestamp(self._lost_until_ns // 10**9, UTC)
            note += (
                f"; packets before {lost_until:%H:%M:%S} UTC are not here, the memory for them "
                "was full"
            )
        try:
            if self._file is None:
                self._file = self._begin(rule, moment_ns, since_ns)
            if self._file is None:
                return
            self._file.until_ns = max(self._file.until_ns, now_ns + self._around_ns)
            self._file.begin(note)
            for piece in self._pieces:
                if piece.number >= self._file.next and piece.end_ns >= since_ns:
                    self._file.write(piece, self._interfaces)
        except OSError as error:
            self._fail(error)

    def pass_time(self, now_ns: int) -> None:
        """Notes that it is ``now_ns``; a file whose time is over is complete, and so is one that
        begins later: the clock was set back.
        """
        if self._file is not None and not self._file.since_ns <= now_ns <= self._file.until_ns:
            self.close()

    def close(self) -> None:
        """Completes the file that is being written: no more packets come to it."""
        if self._file is None:
            return
        self._file.close()
        self._tell(
            f"{escape(self._file.path)}: saved {self._file.packets:,} packets around "
            f"{self._file.rule}"
        )
        self._file = None

    def _go_on(self, file: _MomentsFile, piece: _Piece) -> None:
        if piece.begin_ns > file.until_ns:
            self.close()
            return
        try:
            file.write(piece, self._interfaces)
        except OSError as error:
            self._fail(error)
        if file.size > 2 * self._most_bytes:
            self.close()

    def _begin(self, rule: str, moment_ns: int, since_ns: int) -> _MomentsFile | None:
        """Begins a new file, unless there are too many. Raises OSError."""
        if not self._files_left:
            if not self._is_told:
                self._is_told = True
                self._tell(
                    f"{self._most_files:,} files were saved; packets around other findings are "
                    "not saved (--save-max)"
                )
            return None
        self._files_left -= 1
        time = datetime.fromtimestamp(moment_ns // 10**9, UTC)
        name = os.path.join(
            self._folder, f"{time:%Y%m%dT%H%M%S}.{moment_ns // 10**6 % 1000:03d}Z-{rule}"
        )
        for number in range(1, _NAMES):
            try:
                file = _MomentsFile(
                    f"{name}.pcapng" if number == 1 else f"{name}-{number}.pcapng", rule, since_ns
                )
            except FileExistsError:
                continue
            self.saved += 1
            return file
        raise FileExistsError(17, "File exists", f"{name}.pcapng")

    def _fail(self, error: OSError) -> None:
        path = (
            self._file.path
            if self._file is not None
            else os.fsdecode(error.filename or self._folder)
        )
        self._tell(f"{escape(path)}: {error.strerror}; packets are missing there, watching goes on")
        self.is_lacking = True
        if self._file is not None:
            self._file.close()
            if not self._file.packets:
                os.unlink(self._file.path)
                self._files_left += 1
                self.saved -= 1
            self._file = None


def _pieces_of(batch: PacketBatch) -> Iterator[IntArray]:
    """Yields the rows of a batch, divided into pieces."""
    sizes = np.cumsum(batch.captured) // _PIECE_BYTES
    times = np.maximum.accumulate(batch.time_ns) // _PIECE_NS
    is_new = (np.diff(sizes) != 0) | (np.diff(times) != 0)
    for rows in np.split(np.arange(len(batch), dtype=np.int64), np.flatnonzero(is_new) + 1):
        if len(rows):
            yield rows
