"""The pcapng files of a live capture: one, or a ring of them, each of which is complete once the
next one has begun.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO

from dcpinspect.capture import rights
from dcpinspect.capture.packet_walk import MAX_PACKET
from dcpinspect.capture.packing import remove
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.errors import OutputError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.temporary import lock

EVERYTHING = 1 << 62
"""Stands for any number of bytes, or packets."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system if there is no room."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a file, or a capture, may hold; None: there is no limit."""

    size: int | None = None
    """Limit in bytes."""
    seconds: float | None = None
    packets: int | None = None
    files: int | None = None
    """How many files stay, the newest, if each is limited."""

    @property
    def is_set(self) -> bool:
        """Whether a file, or the capture, has an end."""
        return (self.size, self.seconds, self.packets) != (None, None, None)


class NoRoom(OutputError):  # noqa: N818  a state of the disk, which may pass
    """The disk took no more. The file has the packets before."""

    size = packets = 0
    """How much the file has all the same: whole blocks, in bytes, and their number."""


class RecordedFiles:
    """The files to which packets are written, block by block. If the disk takes a block only in
    part, it is taken back, so that files stay readable.

    Raises OutputError, and NoRoom if the disk is full.
    """

    def __init__(
        self,
        path: str,
        interfaces: Sequence[tuple[str, int]],
        *,
        name: str,
        capture_filter: str | None = None,
        snaplen: int = MAX_PACKET,
        each: Limits | None = None,
        on_file: Callable[[str, int], None] = lambda *_: None,
        on_damage: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        """Begins the first file.

        ``interfaces``: name and link type of each, by the number that its packets have. ``name``:
        what errors call the file, as in ``--write x``. With limits for ``each`` file there are
        several, named by number and time. ``on_file``: told of each file, and of the packets before
        it. ``on_damage``: told of a file what somebody else has done to it, as a clause.
        """
        self.size = 0
        """Number of bytes in all files so far."""
        self.packets = 0
        """Number of packets in all files so far."""
        self._path = path
        self.interfaces = list(interfaces)
        """Name and link type of each interface, by number."""
        self._described = 0
        self._name = name
        self._filter = capture_filter
        self._snaplen = snaplen
        self._each = each or Limits()
        self._on_file = on_file
        self._on_damage = on_damage
        self._kept: deque[str] = deque()
        self._number = 0
        self._file: BinaryIO | None = None
        """None between two files: there was no room for the next one yet."""
        self._good = 0
        self._before = (0, 0)
        self._begin()

    @property
    def is_ring(self) -> bool:
        """Whether there are several files."""
        return self._each.is_set

    @property
    def free_space(self) -> tuple[int, int]:
        """Bytes and packets that the file may still take; it takes its first packet at any size."""
        size, packets = self._each.size, self._each.packets
        return (
            EVERYTHING if size is None else max(0, size - self._good),
            EVERYTHING if packets is None else packets - (self.packets - self._before[1]),
        )

    @property
    def is_empty(self) -> bool:
        """Whether the file has no packet yet."""
        return self.packets == self._before[1]

    @property
    def is_over(self) -> bool:
        """Whether the time of the file is over."""
        return (
            self._file is not None
            and self._each.seconds is not None
            and time.monotonic() - self._begun >= self._each.seconds
        )

    def interface(self, name: str, link_type: int) -> int:
        """Returns the number of an interface, which is described before the next packets if new."""
        if (name, link_type) not in self.interfaces:
            self.interfaces.append((name, link_type))
        return self.interfaces.index((name, link_type))

    def write_blocks(self, blocks: memoryview, packets: int) -> None:
        """Writes these blocks of so many packets. Raises OutputError."""
        if self._file is None:
            self._begin()
        self._describe()
        self._write(blocks, is_packets=True)
        self.packets += packets
        self._mark()

    def next(self, counts: Sequence[tuple[int, int] | None]) -> None:
        """Begins the next file; the one before ends with (received, dropped) of each interface.
        Raises OutputError.

        After NoRoom, ``write_blocks`` begins the next file.
        """
        self.end(counts)
        self._begin()

    def end(self, counts: Sequence[tuple[int, int] | None]) -> None:
        """Ends the file with (received, dropped) of each interface, as the kernel counts them; None
        where it does not say.
        """
        try:
            for interface, interface_counts in enumerate(counts[: self._described]):
                if interface_counts is not None and self._file is not None:
                    self._writer.statistics(
                        interface,
                        received=interface_counts[0],
                        dropped=interface_counts[1],
                        time_ns=time.time_ns(),
                    )
                    self._mark()
        finally:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._look_at_file()
            self._file.close()
            self._file = None
        self._good = 0
        self._before = (self.size, self.packets)

    def drop_oldest(self) -> bool:
        """Removes the oldest file to make room, but not the one that is written; returns False if
        there is no other.
        """
        if len(self._kept) < 2:
            return False
        remove(self._kept.popleft())
        return True

    def _begin(self) -> None:
        path = self._next_path()
        if self._each.files is not None and len(self._kept) >= self._each.files:
            remove(self._kept.popleft())
        try:
            self._file = open(path, "wb", buffering=0, opener=_opened_alone)  # noqa: SIM115 - closed by end()
            rights.limit(self._file.fileno())
        except BlockingIOError as error:
            raise OutputError(
                f"{self._name}: another program records to it; name another file"
            ) from error
        except OSError as error:
            kind = NoRoom if error.errno in FULL else OutputError
            raise kind(f"{self._name}: cannot be written to ({error.strerror})") from error
        self._begun = time.monotonic()
        # a file without a name, or in a file system that does not count names, cannot lose one
        self._is_watched = os.fstat(self._file.fileno()).st_nlink > 0
        try:
            self._writer, self._described = PcapNgWriter(self), 0
            self._mark()
            self._describe()
        except BaseException:
            self._close()
            if self.is_ring:  # a name of ours; another may be a device's
                with suppress(OSError):
                    os.unlink(path)
            raise
        self._number += 1
        self._kept.append(path)
        self._mark()
        self._on_file(path, self.packets)

    def _describe(self) -> None:
        for name, link_type in self.interfaces[self._described :]:
            self._writer.interface(
                link_type, name=name, capture_filter=self._filter, snaplen=self._snaplen
            )
            self._described += 1
            self._mark()

    def _next_path(self) -> str:
        if not self.is_ring:
            return self._path
        stem, dot, suffix = os.path.basename(self._path).rpartition(".")
        stem, suffix = (stem, dot + suffix) if stem else (suffix, "")
        moment = time.strftime("%Y%m%d%H%M%S")
        return os.path.join(
            os.path.dirname(self._path), f"{stem}_{self._number + 1:05}_{moment}{suffix}"
        )

    def _look_at_file(self) -> None:
        """Tells it, once of each file, if what was written is no longer there."""
        assert self._file is not None
        about = os.fstat(self._file.fileno())
        if not self._is_watched or not stat.S_ISREG(about.st_mode):
            return
        if not about.st_nlink:
            damage = "was deleted, or replaced, while packets were recorded to it"
        elif about.st_size < self._good:
            damage = "was emptied, or cut, while packets were recorded to it"
        else:
            return
        self._is_watched = False
        self._on_damage(self._file.name, damage)

    def _mark(self) -> None:
        assert self._file is not None
        good = self._file.tell()
        self.size += good - self._good
        self._good = good

    def write(self, data: bytes | memoryview, /) -> int:
        """Writes header blocks, as the pcapng writer expects of a file."""
        self._write(memoryview(data))
        return len(data)

    def _write(self, view: memoryview, *, is_packets: bool = False) -> None:
        assert self._file is not None
        self._look_at_file()  # what is written behind the end would hide that it was cut
        done = 0
        try:
            while done < len(view):
                done += self._file.write(view[done:])
        except OSError as error:
            size, packets = _whole_blocks(view[:done]) if is_packets else (0, 0)
            with suppress(OSError):  # a device has no size
                os.ftruncate(self._file.fileno(), self._good + size)
                # what is still written belongs here, and not behind a hole
                self._file.seek(self._good + size)
                self._mark()
            self.packets += packets
            kind = NoRoom if error.errno in FULL else OutputError
            refused = kind(
                f"{self._name}: "
                f"{error.strerror}{'; it has the packets before that' if self.packets else ''}"
            )
            if isinstance(refused, NoRoom):
                refused.size, refused.packets = size, packets
            raise refused from error


def _opened_alone(path: str, flags: int) -> int:
    """Opens a file and empties it, unless another process records to it: that raises
    BlockingIOError.
    """
    descriptor = os.open(path, flags & ~os.O_TRUNC, 0o666)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            if not lock(descriptor):
                raise BlockingIOError
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _whole_blocks(view: memoryview) -> tuple[int, int]:
    """Returns bytes and number of the pcapng blocks that are whole; numbers are little endian."""
    end = count = 0
    while len(view) >= end + 8 and end + (
        size := int.from_bytes(view[end + 4 : end + 8], "little")
    ) <= len(view):
        end, count = end + size, count + 1
    return end, count
