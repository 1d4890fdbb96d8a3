"""What a file format hands to the reader: the packets in a stretch of bytes, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Protocol

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.capture.encapsulations import UnreadLinkType
from dcpinspect.kernels.kernel import be32, kernel_function, le32
from dcpinspect.lazy_dataclass import dataclass

MAX_PACKET = 1 << 18
"""Size of the longest packet that a record may announce, unless the file's own snaplen says more:
libpcap's MAXIMUM_SNAPLEN.
"""
MAX_BLOCK = 1 << 24
"""Longest snaplen and pcapng block that are believed: Wireshark's limit; nothing real comes near,
and memory stays bounded.
"""
MAX_PROBLEMS = 1000
"""Greatest number of damaged places remembered for a file; a file of garbage has any number."""


@dataclass(slots=True)
class Walk:
    """Packets in ``data[:size]``."""

    columns: IntArray
    """As in ``PacketBatch``."""
    consumed: int
    """Number of bytes that are done with; the rest belongs to the next call."""
    need: int
    """Number of bytes from ``consumed`` on that the next call needs at least, to get further."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(offset in ``data``, what is wrong there)."""
    options: IntArray | None = None
    """This and the next one: as in ``PacketBatch``."""
    snaplen: IntArray | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass(frozen=True, slots=True)
class InterfaceCounts:
    """What the program that wrote a capture said of an interface at its end; None for nothing."""

    name: str
    """Name of the interface in the system, or its number in the file."""
    received: int | None = None
    """Number of packets that came there."""
    dropped: int | None = None
    """Number of packets that the interface dropped because there was no room."""
    system_dropped: int | None = None
    """Number of packets that the operating system dropped."""

    @property
    def lost(self) -> int:
        """Number of packets that are known to have been dropped."""
        return (self.dropped or 0) + (self.system_dropped or 0)


class Format(Protocol):
    """Reads the records of one file kind; remembers what earlier records said about later ones."""

    name: str

    @property
    def counts(self) -> Sequence[InterfaceCounts]:
        """Counts by interface, as far as the records were read; always the same list."""

    @property
    def unread(self) -> Sequence[UnreadLinkType]:
        """Interfaces whose packets are not read, so far; always the same list."""

    @property
    def notes(self) -> Sequence[bytes]:
        """Comments on the file as a whole, as far as they were read; always the same list."""

    @property
    def secrets(self) -> Sequence[bytes]:
        """Lines of TLS key logs in the file, as far as they were read; always the same list."""

    def walk(self, data: ByteArray, size: int, *, final: bool) -> Walk:
        """Returns the packets of ``data[:size]``; ``final``: no more bytes will come."""


@kernel_function
def u32(data: ByteArray, at: int, is_big_endian: bool) -> int:
    """Returns the 32 bits of ``data`` at ``at`` in the byte order of the file."""
    return be32(data, at) if is_big_endian else le32(data, at)
