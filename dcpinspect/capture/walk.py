"""What a file format hands to the reader: the packets found in a stretch of bytes, and how far they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dcpinspect.capture.batch import Bytes, Column

MAX_PACKET = 1 << 18
"""Longest packet a record may announce, unless the file's own snaplen says more: libpcap's MAXIMUM_SNAPLEN."""
MAX_BLOCK = 1 << 24
"""Longest snaplen and pcapng block believed: Wireshark's limit; nothing real comes near, and memory stays bounded."""
MAX_PROBLEMS = 1000
"""Damaged places remembered a file; a file of garbage has any number."""


@dataclass(slots=True)
class Walk:
    """Packets in ``data[:size]``, one entry a packet in each column (see ``PacketBatch``)."""

    offset: Column
    captured: Column
    wire: Column
    time_ns: Column
    link_type: Column
    consumed: int
    """Bytes done with; the rest belongs to the next call."""
    need: int
    """Bytes from ``consumed`` on that the next call wants at least, to get further."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(offset in ``data``, what is wrong there)."""
    options: Column | None = None
    """As ``PacketBatch`` has them."""


@dataclass(frozen=True, slots=True)
class InterfaceCounts:
    """What the program that wrote a capture said of one interface at its end; None where it did not."""

    name: str
    """As the system calls it, or its number in the file."""
    received: int | None = None
    """Packets that came there."""
    dropped: int | None = None
    """Those that the interface dropped for want of room."""
    system_dropped: int | None = None
    """Those that the operating system dropped."""

    @property
    def lost(self) -> int:
        """Packets that are known to have been dropped."""
        return (self.dropped or 0) + (self.system_dropped or 0)


class Format(Protocol):
    """Reads the records of one file kind; keeps what earlier records said about later ones."""

    name: str

    @property
    def counts(self) -> Sequence[InterfaceCounts]:
        """By interface, as far as the records say so by now; the same list whenever it is asked for."""

    @property
    def notes(self) -> Sequence[bytes]:
        """Comments on the file as a whole, as far as they were read; the same list whenever it is asked for."""

    @property
    def secrets(self) -> Sequence[bytes]:
        """Lines of TLS key logs in the file, as far as they were read; the same list whenever it is asked for."""

    def walk(self, data: Bytes, size: int, *, final: bool) -> Walk:
        """The packets of ``data[:size]``; ``final`` when no more bytes will come."""


def no_packets() -> Column:
    """An empty column."""
    return np.empty(0, np.int64)
