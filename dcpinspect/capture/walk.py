"""What a file format hands to the reader: the packets found in a stretch of bytes, and how far they go."""

from __future__ import annotations

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


class Format(Protocol):
    """Reads the records of one file kind; keeps what earlier records said about later ones."""

    name: str

    def walk(self, data: Bytes, size: int, *, final: bool) -> Walk:
        """The packets of ``data[:size]``; ``final`` when no more bytes will come."""


def no_packets() -> Column:
    """An empty column."""
    return np.empty(0, np.int64)
