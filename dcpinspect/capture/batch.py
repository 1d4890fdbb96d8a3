"""Packets as columns: what every source of packets hands to the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.lazy_dataclass import dataclass

MOST_OPEN = 256
"""Greatest number of files that are read beside each other. When more begin before these end, they
wait for the end of one.
"""


COLUMNS, TIME_NS = 5, 3
"""Number of columns that every packet has, and which of them is its time."""


@dataclass(frozen=True, slots=True)
class FilePieces:
    """Where the bytes of a batch stand in their files, if they are of several: a row for each piece
    of a file.
    """

    begin: IntArray
    """Where each piece begins in ``PacketBatch.data``, rising from 0."""
    file: IntArray
    """Number of its file in the reading, from 0."""
    file_offset: IntArray
    """Place of its first byte in that file, as ``PacketBatch.file_offset``."""
    lane: IntArray
    """As ``PacketBatch.lane``."""

    def piece_at(self, places: IntArray) -> IntArray:
        """Returns the number of the piece of each of these places in the data."""
        return np.searchsorted(self.begin, places, "right") - 1

    def file_places(self, places: IntArray) -> IntArray:
        """Returns where the bytes at these places of the data are in their file."""
        piece = self.piece_at(places)
        offsets: IntArray = places - self.begin[piece] + self.file_offset[piece]
        return offsets


class _Column:
    """One of the columns that every packet has."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __get__(self, packets: PacketBatch, owner: type) -> IntArray:
        column: IntArray = packets.columns[self._number]
        return column


@dataclass(frozen=True, slots=True)
class PacketBatch:
    """Packets in order: one buffer, and a row of numbers for each packet.

    All columns have one entry for each packet. Offsets count bytes from the start of ``data``. The
    packets are consecutive ones of one file, unless they have numbers or files of their own.
    """

    data: ByteArray
    """The bytes that were read, record headers included; packets are slices of them."""
    columns: IntArray
    """The columns that every packet has, which have names below."""
    file: int
    """Number of the file in the reading, from 0; of packets of several files, of the last one's."""
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
    snaplen: IntArray | None = None
    """Snapshot length of the interface of each packet; None: the interfaces of the file have the
    same one.
    """
    packet: IntArray | None = None
    """Number of each packet over the whole reading, rising; None if the packets are consecutive
    from ``first_packet`` on.
    """
    frame: IntArray | None = None
    """Number of each packet within the file; None: consecutive from ``first_frame`` on."""
    lane: int = 0
    """Number of the file among those that are read beside each other. The captures may be of
    networks that have nothing to do with each other, and use the same addresses.
    """
    pieces: FilePieces | None = None
    """The files, if the packets are of several."""

    offset = _Column(0)
    """Where each packet's captured bytes begin in ``data``."""
    captured = _Column(1)
    """Number of captured bytes of each packet."""
    wire = _Column(2)
    """Number of bytes that the packet had on the wire; more than ``captured`` if snaplen cut it."""
    time_ns = _Column(TIME_NS)
    """Capture time, in nanoseconds since 1970."""
    link_type = _Column(4)
    """LINKTYPE_ number of the interface on which each packet was seen."""

    def at_times(self, time_ns: IntArray) -> PacketBatch:
        """Returns the packets with other times."""
        columns = self.columns.copy()
        columns[TIME_NS] = time_ns
        return replace(self, columns=columns)

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

    @property
    def files(self) -> IntArray:
        """Number of each packet's file."""
        if self.pieces is None:
            return np.full(len(self), self.file)
        return self.pieces.file[self.pieces.piece_at(self.offset)]

    def bytes_of(self, index: int) -> bytes:
        """Returns the captured bytes of one packet."""
        start = int(self.offset[index])
        return self.data[start : start + int(self.captured[index])].tobytes()

    @property
    def lanes(self) -> IntArray | None:
        """The lane of each packet's file; None: all are 0."""
        if self.pieces is not None:
            return self.pieces.lane[self.pieces.piece_at(self.offset)]
        return np.full(len(self), self.lane) if self.lane else None

    def stretches(self) -> Iterator[tuple[int, ByteArray, int]]:
        """Yields the bytes of each file: its number, the bytes, and the place of the first one."""
        if self.pieces is None:
            yield self.file, self.data, self.file_offset
            return
        begin = self.pieces.begin.tolist()
        for start, end, number, file_offset in zip(
            begin,
            [*begin[1:], len(self.data)],
            self.pieces.file.tolist(),
            self.pieces.file_offset.tolist(),
            strict=True,
        ):
            yield number, self.data[start:end], file_offset

    def packets_of_file(self, rows: IntArray, file: int) -> PacketBatch:
        """Returns some of the packets, all of them of one file."""
        return replace(
            self,
            columns=self.columns.take(rows, axis=1),
            file=file,
            options=None if self.options is None else self.options[rows],
            snaplen=None if self.snaplen is None else self.snaplen[rows],
            packet=self.packets[rows],
            frame=self.frames[rows],
            pieces=None,
        )

    def packet_at(self, index: int) -> int:
        """Returns the number of one packet over the whole reading."""
        return self.first_packet + index if self.packet is None else int(self.packet[index])

    def __len__(self) -> int:
        return len(self.columns[0])


def pause(clock_ns: int | None, *, file: int, first_frame: int, first_packet: int) -> PacketBatch:
    """Returns a batch without packets, which says that it is ``clock_ns`` now and nothing has come;
    None: nothing has come so far.
    """
    none = np.empty(0, np.uint8), np.empty((COLUMNS, 0), np.int64)
    return PacketBatch(*none, file, first_frame, first_packet, 0, clock_ns)
