"""Packets as columns: what every source of packets hands to the engine."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PacketBatch:
    """Packets of one file, in order: one buffer, and a row of numbers for each packet.

    All columns have one entry for each packet. Offsets count bytes from the start of ``data``. The
    packets are consecutive, unless they have numbers of their own.
    """

    data: ByteArray
    """The bytes that were read, record headers included; packets are slices of them."""
    offset: IntArray
    """Where each packet's captured bytes begin in ``data``."""
    captured: IntArray
    """Number of captured bytes of each packet."""
    wire: IntArray
    """Number of bytes that the packet had on the wire; more than ``captured`` if snaplen cut it."""
    time_ns: IntArray
    """Capture time, in nanoseconds since 1970."""
    link_type: IntArray
    """LINKTYPE_ number of the interface on which each packet was seen."""
    file: int
    """Number of the file in the reading, from 0."""
    first_frame: int
    """1-based number, within the file, of the first packet here (as Wireshark counts)."""
    first_packet: int
    """0-based number, over the whole reading, of the first packet here."""
    file_offset: int
    """Place of ``data[0]`` in the file (in the decompressed stream if it is compressed); in a live
    capture, bytes of the batches before.
    """
    clock_ns: int | None = None
    """Only in a live capture, now and then: capture time when the batch was handed out. It shows
    that time passes though no packet says so.
    """
    options: IntArray | None = None
    """Number of bytes of pcapng options after each packet in ``data`` and its padding; below 0 if
    their numbers are big-endian. None: there are no options.
    """
    packet: IntArray | None = None
    """Number of each packet over the whole reading, rising; None if the packets are consecutive
    from ``first_packet`` on.
    """
    frame: IntArray | None = None
    """Number of each packet within the file; None: consecutive from ``first_frame`` on."""

    @property
    def packets(self) -> IntArray:
        """Number of each packet over the whole reading."""
        if self.packet is None:
            return np.arange(self.first_packet, self.first_packet + len(self))
        return self.packet

    @property
    def frames(self) -> IntArray:
        """Number of each packet within the file."""
        if self.frame is None:
            return np.arange(self.first_frame, self.first_frame + len(self))
        return self.frame

    def packet_at(self, index: int) -> int:
        """Returns the number of one packet over the whole reading."""
        return self.first_packet + index if self.packet is None else int(self.packet[index])

    def __len__(self) -> int:
        return len(self.offset)


def pause(clock_ns: int | None, *, file: int, first_frame: int, first_packet: int) -> PacketBatch:
    """Returns a batch without packets, which says that it is ``clock_ns`` now and nothing has come;
    None: nothing has come so far.
    """
    none = np.empty(0, np.int64)
    return PacketBatch(
        np.empty(0, np.uint8),
        none,
        none,
        none,
        none,
        none,
        file,
        first_frame,
        first_packet,
        0,
        clock_ns,
    )
