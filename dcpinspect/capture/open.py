"""Opens captures: several files, pipes or compressed files become one run of packet batches."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path

import numpy as np

from dcpinspect.capture.batch import PacketBatch, pause
from dcpinspect.capture.byte_source import STDIN, ByteSource, Storage, Window
from dcpinspect.capture.clock import CaptureClock
from dcpinspect.capture.encapsulations import UnreadLinkType
from dcpinspect.capture.folders import FolderCapture, with_folders
from dcpinspect.capture.mended import CERTAIN, NO_TERMINAL
from dcpinspect.capture.packet_walk import MAX_BLOCK, MAX_PROBLEMS, Format, InterfaceCounts, Walk
from dcpinspect.capture.pcap import FILE_HEADER, Pcap
from dcpinspect.capture.pcapng import PcapNg
from dcpinspect.capture.stores import is_uri
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

BATCH_BYTES = 12 << 20
"""Number of bytes read at once. With 16 MiB ten million messages are written 3 % sooner and take 70
MiB more, with 8 MiB 11 % later and 50 MiB less.
"""
TEXT = 8
"""So many letters, digits and signs are a text; as many are where a block is damaged."""
MOST_PACKETS = 1 << 16
"""Greatest number of packets of a batch: what is made of each takes some hundred bytes, and a flood
has 200,000 packets in what is read at once.
"""
_PEEK = 1 << 16


@dataclass(frozen=True, slots=True)
class FileDamage:
    """A damaged place in a capture file."""

    file: str
    offset: int | None
    """Byte offset in the file (in the unpacked stream if it is compressed); None if it is no file.
    """
    what: str


@dataclass(slots=True)
class CaptureFile:
    """One file of a reading, and what was found in it so far."""

    name: str
    format: str = ""
    """``pcap`` or ``pcapng``, once the file was opened."""
    storage: Storage = "stream"
    """Whether its bytes can be read again. ``plain``: at any place; ``compressed``: from the start;
    ``stream``: not at all.
    """
    packets: int = 0
    overlaps: bool = False
    """Whether its first packet is older than the last one of the file before."""
    problems: list[FileDamage] = field(default_factory=list)
    counts: Sequence[InterfaceCounts] = ()
    """What the capture itself says of its interfaces, as far as it was read."""
    notes: Sequence[bytes] = ()
    """Comments on the capture as a whole, as far as it was read."""
    secrets: Sequence[bytes] = field(default=(), repr=False)
    """Lines of TLS key logs in the capture, as far as it was read."""
    unread: Sequence[UnreadLinkType] = ()
    """Interfaces whose packets are not read."""
    remark: str | None = None
    """For a text that stands for packets: what it is, and what is made up. For a capture that was
    mended: what was wrong. Else None.
    """

    @property
    def all_problems(self) -> list[FileDamage]:
        """Damaged places, and what is not read, as far as the file was read."""
        return [
            *self.problems,
            *(
                FileDamage(self.name, None, str(unread_packets))
                for unread_packets in self.unread
                if unread_packets.is_a_lack
            ),
        ]


class Capture(AbstractContextManager["Capture", None]):
    """The packets of one or more captures, in order, a batch at a time. Iterate once.

    Files are read one after the other, the one with the earliest first packet first. Every batch
    has its own buffer, so batches and slices of them stay valid; each one that is kept takes
    ``batch_bytes`` of memory.
    """

    def __init__(
        self, paths: Sequence[str], batch_bytes: int, *, follow: bool, only_text: bool = False
    ) -> None:
        if "" in paths:
            raise UsageError("a capture has an empty name; name a file, or - for standard input")
        paths = with_folders(paths)
        _check_named_once(paths)
        self.files = [CaptureFile(path) for path in paths]
        """Files in reading order; ``PacketBatch.file`` is a place in this list."""
        self.on_problem: Callable[[FileDamage], object] = lambda _: None
        """Called with each damaged place that is met."""
        self._left_out: list[FileDamage] = []
        """Files of directories that cannot be read."""
        self.position = 0
        """Number of bytes of the files read so far, as stored; for pipes, unpacked bytes."""
        self._batch_bytes = batch_bytes
        self._follow = follow
        self._only_text = only_text
        self._opened: dict[str, _Reader] = {}
        self._batches: Iterator[PacketBatch] | None = None
        try:
            if len(paths) == 1:
                self._reader(paths[0])  # so that a wrong file is an error now
            else:
                self._order_by_time()
        except BaseException:
            self.close()
            raise

    def _order_by_time(self) -> None:
        first: dict[str, float] = {}
        for path in dict.fromkeys(file.name for file in self.files):
            try:
                first[path] = self._first_time(path)
            except CaptureError as error:
                if not isinstance(path, FolderCapture):
                    raise
                self._left_out.append(FileDamage(path, None, f"left out, for it {error.what}"))
                if len(self._left_out) == len(self.files):
                    raise
        self.files = sorted(
            (file for file in self.files if file.name in first), key=lambda file: first[file.name]
        )

    def _first_time(self, path: str) -> float:
        if not _can_be_opened_again(path):
            return self._reader(path).first_time()
        reader = _Reader(path, _PEEK, only_text=self._only_text)
        try:
            return reader.first_time()
        finally:
            reader.close()

    def _reader(self, path: str) -> _Reader:
        if isinstance(path, FolderCapture) and os.path.exists(path) and not os.path.isfile(path):
            raise CaptureError(
                path,
                None,
                "is a pipe, socket or device, and of directories only files are read",
                "name it itself",
            )
        if path not in self._opened:
            self._opened[path] = _Reader(
                path, self._batch_bytes, follow=self._follow, only_text=self._only_text
            )
        return self._opened[path]

    @property
    def packets(self) -> int:
        """Number of packets delivered so far."""
        return sum(file.packets for file in self.files)

    @property
    def size(self) -> int | None:
        """Total size of all files in bytes, which ``position`` reaches; None if one is no file of
        known size, or still grows.
        """
        if self._follow:
            return None
        try:
            states = [Path(file.name).stat() for file in self.files if file.name != STDIN]
        except OSError:
            return None
        is_known = len(states) == len(self.files) and all(
            stat.S_ISREG(state.st_mode) for state in states
        )
        return sum(state.st_size for state in states) if is_known else None

    @property
    def problems(self) -> list[FileDamage]:
        """Files of directories that were left out, and damaged places so far, in reading order."""
        return [*self._left_out, *(problem for file in self.files for problem in file.all_problems)]

    @property
    def can_stop(self) -> bool:
        """Whether a pipe is read, or a file is followed, so that ``stop`` ends it."""
        return any(reader.source.can_stop for reader in self._opened.values())

    def stop(self) -> None:
        """Ends pipes, and files that are followed. A signal handler may call this."""
        for reader in self._opened.values():
            reader.source.stop()

    def __iter__(self) -> Iterator[PacketBatch]:
        if self._batches is None:
            self._batches = self._read()
        return self._batches

    def __next__(self) -> PacketBatch:
        return next(iter(self))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the files."""
        for reader in self._opened.values():
            reader.close()
        self._opened.clear()

    def _read(self) -> Iterator[PacketBatch]:
        packets = 0
        before = 0
        clock = CaptureClock()
        for index, file in enumerate(self.files):
            reader = self._reader(file.name)
            file.remark = reader.source.remark
            file.format = "text" if reader.source.is_text else reader.format.name
            file.storage = reader.source.storage
            file.counts = reader.format.counts
            file.notes = reader.format.notes
            file.secrets = reader.format.secrets
            file.unread = reader.format.unread
            for walk, window in reader:
                self.position = before + reader.source.position
                damages = [
                    FileDamage(
                        file.name,
                        None if reader.source.is_text else window.file_offset + offset,
                        damage,
                    )
                    for offset, damage in walk.problems
                ]
                for problem in damages[: MAX_PROBLEMS - len(file.problems)]:
                    file.problems.append(problem)
                    self.on_problem(problem)
                for start in range(0, len(walk.offset), MOST_PACKETS):
                    rows = slice(start, start + MOST_PACKETS)
                    batch = PacketBatch(
                        data=window.data[: window.size],
                        offset=walk.offset[rows],
                        captured=walk.captured[rows],
                        wire=walk.wire[rows],
                        time_ns=walk.time_ns[rows],
                        link_type=walk.link_type[rows],
                        file=index,
                        first_frame=file.packets + 1,
                        first_packet=packets,
                        file_offset=window.file_offset,
                        options=None if walk.options is None else walk.options[rows],
                    )
                    if len(batch) and not file.packets and clock.last_ns is not None:
                        file.overlaps = int(batch.time_ns[0]) < clock.last_ns
                    clock.note(batch)
                    yield batch
                    file.packets += len(batch)
                    packets += len(batch)
                if self._follow:
                    yield pause(
                        clock.now_ns(),
                        file=index,
                        first_frame=file.packets + 1,
                        first_packet=packets,
                    )
            before = self.position
            reader.close()
            del self._opened[file.name]


def _can_be_opened_again(path: str) -> bool:
    return path != STDIN and (is_uri(path) or os.path.isfile(path))


def _check_named_once(paths: Sequence[str]) -> None:
    """Raises UsageError for standard input, a pipe or a device that is named twice."""
    seen: set[str] = set()
    for path in paths:
        if (
            isinstance(path, FolderCapture)
            or _can_be_opened_again(path)
            or (path != STDIN and not os.path.exists(path))
        ):
            continue
        real_path = path if path == STDIN else os.path.realpath(path)
        if real_path in seen:
            input_kind = "standard input" if path == STDIN else "a pipe or device"
            raise UsageError(f"{escape(path)}: {input_kind} can be read once; name it once")
        seen.add(real_path)


class _Reader:
    """One file, walked buffer by buffer."""

    def __init__(
        self, path: str, batch_bytes: int, *, follow: bool = False, only_text: bool = False
    ) -> None:
        self.source = ByteSource(path, follow=follow)
        if only_text and not self.source.is_text:
            self.source.close()
            raise CaptureError(
                path,
                None,
                "is no text in a form that stands for packets",
                "docs/logs.md has the forms",
            )
        self.window = Window(self.source, batch_bytes)
        self._first: Walk | None = None
        try:
            while self.window.size < FILE_HEADER and not self.window.at_end:
                self.window.advance(0, FILE_HEADER)
            self.format = self._recognised()
        except BaseException:
            self.close()
            raise

    def _recognised(self) -> Format:
        header = self.window.data[: min(self.window.size, FILE_HEADER)].tobytes()
        if not header or (self.source.problem and len(header) < FILE_HEADER):
            raise CaptureError(
                self.source.name,
                None,
                self.source.problem or "is empty",
                "record again, or name another file",
            )
        for kind in (Pcap, PcapNg):
            try:
                return kind(header)
            except ValueError:
                continue
        from dcpinspect.capture.no_capture import (  # deferred: for what is no capture
            HEAD,
            what_it_is,
        )

        self.window.advance(0, HEAD)
        if answer := what_it_is(self.window.data[: min(self.window.size, HEAD)].tobytes()):
            raise CaptureError(self.source.name, None, *answer)
        start = header[:4].hex(" ")
        raise CaptureError(
            self.source.name,
            None,
            f"is not a capture (begins with {start})",
            "give a pcap or pcapng file, plain or packed by gzip, zstd, xz or bzip2",
        )

    def __iter__(self) -> Iterator[tuple[Walk, Window]]:
        window = self.window
        # then a record that is being written is no damage
        while not (window.at_end and self.source.was_stopped):
            walk = self._first or self._walk()
            self._first = None
            walk.problems[:] = [
                (offset, f"{damage}{self._seen(offset)}") for offset, damage in walk.problems
            ]
            if window.at_end and self.source.problem:
                walk.problems.append((window.size, self.source.problem))
            yield walk, window
            if window.at_end:
                return
            window.advance(walk.consumed, min(walk.need, 2 * MAX_BLOCK))

    def _seen(self, at: int) -> str:
        """Returns what the bytes of a damaged place look like, as a part of a sentence; empty for
        nothing in particular.
        """
        data = self.window.data[: self.window.size]
        damaged_bytes = data[at : at + TEXT].tobytes()
        if (
            len(damaged_bytes) == TEXT
            and damaged_bytes.isascii()
            and damaged_bytes.decode().isprintable()
        ):
            return f"; text is there: {damaged_bytes.decode()}…"
        lines = np.count_nonzero(data == ord("\n"))
        if lines >= CERTAIN and lines == np.count_nonzero(
            (data[1:] == ord("\n")) & (data[:-1] == ord("\r"))
        ):
            return f"; {NO_TERMINAL}"
        return ""

    def _walk(self) -> Walk:
        return self.format.walk(self.window.data, self.window.size, final=self.window.at_end)

    def first_time(self) -> float:
        """Returns the time of the first packet in nanoseconds; infinity if there is none. A pipe
        keeps what was read for this.
        """
        while True:
            walk = self._walk()
            if len(walk.time_ns):
                self._first = walk
                return float(walk.time_ns[0])
            if self.window.at_end:
                self._first = walk
                return float(np.inf)
            self.window.advance(walk.consumed, min(walk.need, 2 * MAX_BLOCK))

    def close(self) -> None:
        """Frees the file."""
        self.source.close()


def open_capture(
    paths: Sequence[str | Path] | str | Path,
    *,
    batch_bytes: int = BATCH_BYTES,
    follow: bool = False,
    only_text: bool = False,
) -> Capture:
    """Returns the captures at ``paths`` as one reading; ``-`` is standard input. Raises
    ``CaptureError`` for what is no readable capture.

    ``follow``: the only capture is still being written, and is read until ``stop``. ``only_text``:
    refuses what is no text.
    """
    names = [paths] if isinstance(paths, str | Path) else list(paths)
    return Capture(
        [os.fspath(name) for name in names], batch_bytes, follow=follow, only_text=only_text
    )


def last_time(paths: Sequence[str]) -> int:
    """Returns the latest capture time of a packet, in nanoseconds since 1970; 0 if there is none.
    Raises CaptureError.
    """
    with open_capture(paths) as capture:
        return max((int(batch.time_ns.max()) for batch in capture if len(batch)), default=0)
