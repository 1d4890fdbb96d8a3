"""Packets as columns: what every source of packets hands to the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PacketBatch:
    """Packets of one file, in order: one buffer and a row of numbers for each packet.

    All columns have one entry a packet. Offsets count bytes from the start of ``data``. The packets are consecutive, unless they have
    numbers of their own.
    """

    data: Bytes
    """The bytes that were read, record headers included; packets are slices of it."""
    offset: Column
    """Where each packet's captured bytes begin in ``data``."""
    captured: Column
    """Bytes captured of each packet."""
    wire: Column
    """Bytes the packet had on the wire; more than ``captured`` when snaplen cut it."""
    time_ns: Column
    """Capture time, nanoseconds since the epoch."""
    link_type: Column
    """LINKTYPE_ number of the interface each packet was seen on."""
    file: int
    """Which file of the reading, from 0."""
    first_frame: int
    """1-based number, within the file, of the first packet here (as Wireshark counts)."""
    first_packet: int
    """0-based number, over the whole reading, of the first packet here."""
    file_offset: int
    """Where ``data[0]`` stands in the file (in the decompressed stream if it is compressed); live, bytes of the batches before it."""
    clock_ns: int | None = None
    """Capture time when the batch was handed out, now and then, of what is live: that time passes then, though no packet says so."""
    options: Column | None = None
    """Bytes of pcapng options behind each packet in ``data`` and what it is padded with; below 0 where their numbers are big-endian. None:
    there are no options."""
    packet: Column | None = None
    """Number of each packet over the whole reading, rising, where not all follow ``first_packet``."""
    frame: Column | None = None
    """Number of each packet within the file, the same for ``first_frame``."""

    @property
    def packets(self) -> Column:
        """Number of each packet over the whole reading."""
        return np.arange(self.first_packet, self.first_packet + len(self)) if self.packet is None else self.packet

    @property
    def frames(self) -> Column:
        """Number of each packet within the file."""
        return np.arange(self.first_frame, self.first_frame + len(self)) if self.frame is None else self.frame

    def packet_at(self, place: int) -> int:
        """Number of one packet over the whole reading."""
        return self.first_packet + place if self.packet is None else int(self.packet[place])

    def __len__(self) -> int:
        return len(self.offset)


def pause(clock_ns: int | None, *, file: int, first_frame: int, first_packet: int) -> PacketBatch:
    """A batch of no packets, which says that it is ``clock_ns`` now, and that nothing has come; None: nothing has come so far."""
    none = np.empty(0, np.int64)
    return PacketBatch(np.empty(0, np.uint8), none, none, none, none, none, file, first_frame, first_packet, 0, clock_ns)
