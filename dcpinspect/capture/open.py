"""Opens captures: several files, pipes or compressed files become one run of packet batches."""

from __future__ import annotations

import os
import re
import stat
import sys
from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.capture.batch import MOST_OPEN, TIME_NS, PacketBatch, pause
from dcpinspect.capture.byte_source import STDIN, Storage
from dcpinspect.capture.clock import CaptureClock
from dcpinspect.capture.encapsulations import UnreadLinkType
from dcpinspect.capture.file_reader import EARLIEST, LATEST, PEEK, FileReader
from dcpinspect.capture.folders import FolderCapture, with_folders
from dcpinspect.capture.merging import consecutive, merged_batches
from dcpinspect.capture.packet_walk import MAX_PROBLEMS, InterfaceCounts
from dcpinspect.capture.stores import is_uri
from dcpinspect.closable import Closable
from dcpinspect.errors import CaptureError, DamagedCapture, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

BATCH_BYTES = 12 << 20
"""Number of bytes read at once. With 16 MiB ten million messages are written 3 % sooner and take 70
MiB more, with 8 MiB 11 % later and 50 MiB less.
"""
MOST_PACKETS = 1 << 16
"""Greatest number of packets of a batch: what is made of each takes some hundred bytes, and a flood
has 200,000 packets in what is read at once.
"""
_END = LATEST, 1 << 62
_LEAST_BATCH = 1 << 18
_FEW_PACKETS = 1 << 13
"""Of fewer packets than these, most of the work is done for the batch."""
_NUMBERS = re.compile(r"\d+")
_LEFT_OUT = "left out, for it "


@dataclass(frozen=True, slots=True)
class FileDamage:
    """A damaged place in a capture file."""

    file: str
    offset: int | None
    """Byte offset in the file (in the unpacked stream if it is compressed); None if it is no file.
    """
    what: str
    next_step: str = "all that is readable was read"
    """What to do about it, or what was done, as a clause."""

    @property
    def is_left_out(self) -> bool:
        """Whether nothing of the file was read, because it is no capture."""
        return is_left_out(self.what)

    @property
    def note(self) -> DamagedCapture:
        """What people read of it."""
        return DamagedCapture(self.file, self.what, self.next_step, offset=self.offset)


def is_left_out(what: str) -> bool:
    """Returns whether a text says that a file was left out."""
    return what.startswith(_LEFT_OUT)


@dataclass(slots=True)
class CaptureFile:
    """One file of a reading, and what was found in it so far."""

    name: str
    format: str = ""
    """``pcap`` or ``pcapng``, once the file was opened."""
    point: str = ""
    """Where its packets were captured: files of one point go on with each other."""
    storage: Storage = "stream"
    """Whether its bytes can be read again. ``plain``: at any place; ``compressed``: from the start;
    ``stream``: not at all.
    """
    packets: int = 0
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


class Capture(Closable):
    """The packets of one or more captures, in order, a batch at a time. Iterate once.

    Several files are read as one, in order of time. Of small ones, a batch has many. Every batch
    has its own buffer, so batches and slices of them stay valid; each one that is kept takes
    ``batch_bytes`` of memory.
    """

    def __init__(self, paths: Sequence[str], batch_bytes: int, *, follow: bool) -> None:
        if "" in paths:
            raise UsageError("a capture has an empty name; name a file, or - for standard input")
        paths = with_folders(paths)
        _check_named_once(paths)
        self.files = [CaptureFile(path) for path in paths]
        """Files in reading order; ``PacketBatch.file`` is a place in this list."""
        self.is_crowded = False
        """Whether more files overlapped than are read beside each other, and one began late."""
        self.on_problem: Callable[[FileDamage], object] = lambda _: None
        """Called with each damaged place that is met."""
        self._left_out: list[FileDamage] = []
        """Files of directories that cannot be read."""
        self.position = 0
        """Number of bytes of the files read so far, as stored; for pipes, unpacked bytes."""
        self.batch_bytes = batch_bytes
        """Number of bytes read at once."""
        self.ahead_ns: Mapping[str, int] = {}
        """What clocks of files are ahead of the others, which is taken out of their times."""
        self._after: dict[int, int] = {}
        """Files that go on where another one ends, by their place in ``files``."""
        self._follow = follow
        self._readers: dict[int, FileReader] = {}
        """Files that are open, by their place in ``files``."""
        self._first_ns: list[int] = []
        """Time of each file's first packet, if there are several files."""
        self._batches: Iterator[PacketBatch] | None = None
        try:
            if len(paths) == 1:
                self._readers[0] = self._open_reader(
                    paths[0], batch_bytes
                )  # a wrong file is an error now
                self._first_ns = [EARLIEST]
            else:
                self._order_by_time()
        except BaseException:
            self.close()
            raise

    @property
    def has_snaplens(self) -> bool:
        """Whether it is one capture, of interfaces with different snapshot lengths. Ask before the
        first batch.
        """
        reader = self._readers.get(0)
        return len(self.files) == 1 and reader is not None and reader.has_snaplens

    def _order_by_time(self) -> None:
        firsts: list[tuple[int, int]] = []
        for number, file in enumerate(self.files):
            try:
                firsts.append((self._first_time(number), number))
            except CaptureError as error:
                if not isinstance(file.name, FolderCapture):
                    raise
                advice = (error.next_step,) if error.next_step else ()
                problem = FileDamage(file.name, None, f"{_LEFT_OUT}{error.what}", *advice)
                self._left_out.append(problem)
                if len(self._left_out) == len(self.files):
                    raise
        self._set_order(firsts)

    def set_clocks(self, ahead_ns: Mapping[str, int], goes_on: Mapping[str, str]) -> None:
        """Takes these nanoseconds, by name of the file, out of times. Call it before the first
        batch.

        ``goes_on``: files that are read behind the end of another one, whatever their times say.
        """
        self.ahead_ns = ahead_ns
        if ahead_ns or goes_on:
            self._set_order(
                [
                    (first_ns - ahead_ns.get(file.name, 0), number)
                    for number, (first_ns, file) in enumerate(
                        zip(self._first_ns, self.files, strict=True)
                    )
                ],
                goes_on,
            )

    def _set_order(
        self, firsts: list[tuple[int, int]], goes_on: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Orders the files: the time of the first packet of each, and its number so far."""
        number_of = {self.files[number].name: number for _, number in firsts}
        before = {
            number_of[name]: number_of[ended]
            for name, ended in goes_on.items()
            if name in number_of and ended in number_of
        }
        first_of = {number: first_ns for first_ns, number in firsts}

        def begin(number: int) -> tuple[int, int]:
            """When a file begins at the earliest, and how many files it goes on with."""
            chain = [number]
            while chain[-1] in before:
                chain.append(before[chain[-1]])
            return max(first_of[file] for file in chain), len(chain)

        order = sorted(first_of, key=lambda number: (*begin(number), number))
        self._first_ns = [first_of[number] for number in order]
        rank = {number: index for index, number in enumerate(order)}
        self._after = {rank[number]: rank[ended] for number, ended in before.items()}
        self._readers = {rank[number]: reader for number, reader in self._readers.items()}
        self.files = [self.files[number] for number in order]

    def _first_time(self, number: int) -> int:
        path = self.files[number].name
        if not _can_be_opened_again(path):
            self._readers[number] = self._open_reader(path, self.batch_bytes)
            return self._readers[number].first_time()
        reader = FileReader(path, PEEK)
        try:
            return reader.first_time()
        finally:
            reader.close()

    def _open_reader(self, path: str, batch_bytes: int) -> FileReader:
        if isinstance(path, FolderCapture) and os.path.exists(path) and not os.path.isfile(path):
            raise CaptureError(
                path,
                "is a pipe, socket or device, and of directories only files are read",
                "name it itself",
            )
        return FileReader(path, batch_bytes, follow=self._follow)

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
        return any(reader.source.can_stop for reader in self._readers.values())

    def stop(self) -> None:
        """Ends pipes, and files that are followed. A signal handler may call this."""
        for reader in self._readers.values():
            reader.source.stop()

    def __iter__(self) -> Iterator[PacketBatch]:
        if self._batches is None:
            self._batches = self._read()
        return self._batches

    def __next__(self) -> PacketBatch:
        return next(iter(self))

    def close(self) -> None:
        """Frees the files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _read(self) -> Iterator[PacketBatch]:
        """Yields the packets of all files in order of time; those of one file stay in its order."""
        packets = read_before = 0
        clock, most_open = CaptureClock(), _most_open()
        open_files: list[_OpenFile] = []
        lanes: dict[str, int] = {}  # of the latest file of each ring, by its name without numbers
        next_of = {before: number for number, before in self._after.items()}
        over: dict[int, _OpenFile] = {}  # files that ended, by the number of what goes on with them
        waiting = [
            (first_ns, number)
            for number, first_ns in enumerate(self._first_ns)
            if number not in self._after
        ]
        while open_files or waiting:
            for file in [file for file in open_files if not len(file)]:
                if not file.is_over:
                    self._note_damages(file.number, file.advance())
                    if file.is_over and file.number in next_of:
                        number = next_of[file.number]
                        over[number] = file
                        insort(waiting, (max(self._first_ns[number], file.frontier[0]), number))
                if file.is_over and not len(file):
                    read_before += file.reader.source.position
                    open_files.remove(file)
                    self._readers.pop(file.number).close()
            self.position = read_before + sum(file.reader.source.position for file in open_files)
            frontiers = [file.frontier for file in open_files if not file.is_over]
            next_begin = waiting[0] if waiting else _END
            limit = min([*frontiers, next_begin])
            begins, is_full = limit == next_begin != _END, len(open_files) >= most_open
            is_early = begins and not is_full and self._is_small(next_begin[1])
            is_early &= sum(file.ready(limit) for file in open_files) < _FEW_PACKETS
            stretches = [] if is_early else _stretches(open_files, limit)
            if not stretches and begins and is_full:
                self.is_crowded = True
                limit = min(frontiers, default=_END)
                stretches, begins = _stretches(open_files, limit), False
            for batch in merged_batches(stretches, MOST_PACKETS):
                numbered = replace(batch, first_packet=packets)
                clock.note(numbered)
                yield numbered
                packets += len(batch)
                for number, count in zip(*np.unique(batch.files, return_counts=True), strict=True):
                    self.files[number].packets += int(count)
            if not stretches and begins:
                _, number = waiting.pop(0)
                before = over.pop(number, None)
                series = series_of(self.files[number].name)
                taken = {file.lane for file in open_files if file.reaches(next_begin[0])}
                taken |= {file.lane for file in over.values()}
                free = next(lane for lane in range(MOST_OPEN) if lane not in taken)
                lane = free if lanes.get(series, 0) in taken else lanes.get(series, free)
                lanes[series] = lane = lane if before is None else before.lane
                open_files.append(self._begin(number, lane, before))
            elif self._follow:  # one file
                first_frame = self.files[0].packets + 1
                yield pause(clock.now_ns(), file=0, first_frame=first_frame, first_packet=packets)

    def _begin(self, number: int, lane: int, before: _OpenFile | None) -> _OpenFile:
        """Opens a file; ``lane``: as ``PacketBatch.lane``; ``before``: the one that it goes on
        with. Files beside each other share memory.
        """
        file, is_small = self.files[number], self._is_small(number)
        if number not in self._readers:
            least = _LEAST_BATCH
            size = least if is_small else max(least, self.batch_bytes // (lane + 1))
            self._readers[number] = self._open_reader(file.name, size)
        reader = self._readers[number]
        file.point = str(lane)
        if is_small:
            reader.window.advance(0, _LEAST_BATCH)  # to its end
        file.remark = reader.source.remark
        file.format = "text" if reader.source.is_text else reader.format.name
        file.storage = reader.source.storage
        file.counts = reader.format.counts
        file.notes = reader.format.notes
        file.secrets = reader.format.secrets
        file.unread = reader.format.unread
        ahead_ns = self.ahead_ns.get(file.name, 0)
        if len(self.files) > 1 and reader.first_time() - ahead_ns != self._first_ns[number]:
            what = "was replaced by another capture before it was read"
            self._note_damages(number, [(0, what)])
        return _OpenFile(number, lane, reader, ahead_ns, before)

    def _is_small(self, number: int) -> bool:
        """Returns whether a file is one of several, and read at once. Such files are opened before
        their turn: a batch costs the same, however few packets of one file it would have.
        """
        path = self.files[number].name
        return (
            len(self.files) > 1
            and number not in self._readers
            and os.path.isfile(path)
            and os.path.getsize(path) < min(_LEAST_BATCH, self.batch_bytes)
        )

    def _note_damages(self, number: int, damages: Sequence[tuple[int, str]]) -> None:
        """Notes damaged places of a file: offsets, and what is wrong."""
        file, is_text = self.files[number], self._readers[number].source.is_text
        for offset, what in damages[: MAX_PROBLEMS - len(file.problems)]:
            problem = FileDamage(file.name, None if is_text else offset, what)
            file.problems.append(problem)
            self.on_problem(problem)


class _OpenFile:
    """A file that is being read: its packets that are in memory, and were not handed out."""

    def __init__(
        self, number: int, lane: int, reader: FileReader, ahead_ns: int, before: _OpenFile | None
    ) -> None:
        self.number = number
        self.lane = lane
        self.reader = reader
        self._ahead_ns = ahead_ns
        self.is_over = False
        """Whether no more packets come than those that are here."""
        self._walks = iter(reader)
        self._packets: PacketBatch | None = None
        self._order_ns = np.full(1, EARLIEST if before is None else before.frontier[0])
        """The order of the packets: never before one that stands before it in the file, or in the
        file before.
        """
        self._done = self._frame = 0

    def __len__(self) -> int:
        """Number of packets that are here."""
        return 0 if self._packets is None else len(self._packets) - self._done

    @property
    def frontier(self) -> tuple[int, int]:
        """A time, and the number of the file: what all packets that are not here come behind."""
        return int(self._order_ns[-1]), self.number

    def reaches(self, time_ns: int) -> bool:
        """Returns whether packets of the file may come after a time."""
        return not self.is_over or bool(self._order_ns[-1] > time_ns)

    def advance(self) -> list[tuple[int, str]]:
        """Takes the next packets; returns damaged places on the way, by their place in the file."""
        walk, window = next(self._walks, (None, self.reader.window))
        self.is_over = walk is None or window.at_end
        if walk is None:
            return []
        self._done, self._frame = 0, self._frame + (len(self._packets) if self._packets else 0)
        time_ns = walk.columns[TIME_NS]
        time_ns -= self._ahead_ns
        self._packets = PacketBatch(
            data=window.data[: window.size],
            columns=walk.columns,
            file=self.number,
            first_frame=self._frame + 1,
            first_packet=0,
            file_offset=window.file_offset,
            options=walk.options,
            snaplen=walk.snaplen,
            lane=self.lane,
        )
        if len(time_ns):
            self._order_ns = np.maximum.accumulate(np.maximum(time_ns, self._order_ns[-1]))
        return [(window.file_offset + offset, damage) for offset, damage in walk.problems]

    def packets_until(self, limit: tuple[int, int]) -> tuple[PacketBatch, IntArray] | None:
        """Hands out the packets up to a time and a number of a file, with their order; None if
        there are none.
        """
        rows = slice(self._done, self._done + self.ready(limit))
        if self._packets is None or rows.start == rows.stop:
            return None
        self._done = rows.stop
        return consecutive(self._packets, rows), self._order_ns[rows]

    def ready(self, limit: tuple[int, int]) -> int:
        """Returns the number of packets that are here up to a time and a number of a file."""
        side: Literal["left", "right"] = "right" if self.number <= limit[1] else "left"
        return (
            max(0, int(np.searchsorted(self._order_ns, limit[0], side)) - self._done)
            if len(self)
            else 0
        )


def series_of(name: str) -> str:
    """Returns the name of a file without its numbers, which the files of a ring share."""
    return _NUMBERS.sub("", name)


def _most_open() -> int:
    """Returns how many files may be open at once: the system may allow few."""
    if sys.platform == "win32":
        return MOST_OPEN
    import resource  # deferred: Windows lacks it

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(MOST_OPEN, allowed // 2)) if allowed > 0 else MOST_OPEN


def _stretches(
    open_files: Sequence[_OpenFile], limit: tuple[int, int]
) -> list[tuple[PacketBatch, IntArray]]:
    """Returns the packets of each file up to a time and a number of a file."""
    return [stretch for file in open_files if (stretch := file.packets_until(limit))]


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


def open_capture(
    paths: Sequence[str | Path] | str | Path,
    *,
    batch_bytes: int = BATCH_BYTES,
    follow: bool = False,
) -> Capture:
    """Returns the captures at ``paths`` as one reading; ``-`` is standard input. Raises
    ``CaptureError`` for what is no readable capture.

    ``follow``: the only capture is still being written, and is read until ``stop``.
    """
    names = [paths] if isinstance(paths, str | Path) else list(paths)
    return Capture([os.fspath(name) for name in names], batch_bytes, follow=follow)


def last_time(paths: Sequence[str]) -> int:
    """Returns the latest capture time of a packet, in nanoseconds since 1970; 0 if there is none.
    Raises CaptureError.
    """
    with open_capture(paths) as capture:
        return max((int(batch.time_ns.max()) for batch in capture if len(batch)), default=0)
