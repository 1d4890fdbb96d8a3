"""Writes packets as a pcapng file: an interface for each link type, nanoseconds, comments, counts
of what the kernel dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np

from dcpinspect import __version__
from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.packet_walk import MAX_BLOCK, MAX_PACKET
from dcpinspect.capture.pcapng import (
    COMMENT,
    ENHANCED_PACKET,
    INTERFACE,
    SECRETS,
    SECTION,
    STATISTICS,
    TLS_KEY_LOG,
    comments_of,
)
from dcpinspect.kernels.kernel import copy, kernel

MAX_COMMENT = 0xFFFC
"""Greatest size of a comment in bytes: the length of an option has 16 bits, and the padded length
has to fit them, too.
"""

_END = bytes(4)
_USER_APPLICATION = 4
_NAME, _RESOLUTION, _FILTER = 2, 9, 11
_RECEIVED, _DROPPED = 4, 5
_BYTE_ORDER = 0x1A2B3C4D
_HEADER = 28
"""Bytes of an enhanced packet block before the packet."""


class Sink(Protocol):
    """The file that the bytes go to: the write half of a binary file."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Takes all of the data, or raises OSError."""


class PcapNgWriter:
    """Writes packets to one section of a pcapng file, little-endian, times in nanoseconds.

    Interfaces are described when packets of a new link type come; a caller that knows more of one
    describes it before with ``interface``. The sink stays the caller's: it is neither flushed nor
    closed. What the sink raises (OSError) passes through.
    """

    def __init__(self, sink: Sink, notes: Iterable[bytes] = ()) -> None:
        """``notes``: comments on the whole file."""
        self._sink = sink
        self._interfaces: dict[tuple[int, int], int] = {}
        self._described = 0
        options = b"".join(_option(COMMENT, note[:MAX_COMMENT]) for note in notes)
        options += _option(_USER_APPLICATION, f"dcpinspect {__version__}".encode())
        self._write_block(SECTION, struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1) + options + _END)

    def interface(
        self,
        link_type: int,
        *,
        name: str | None = None,
        capture_filter: str | None = None,
        snaplen: int = MAX_PACKET,
    ) -> int:
        """Describes the interface that packets of this link type come from, from now on; returns
        its number in the file.

        ``name`` is the system's (``eth0``), ``capture_filter`` a filter as libpcap takes it.
        """
        options = b"" if name is None else _option(_NAME, name.encode(errors="surrogateescape"))
        options += _option(_RESOLUTION, b"\x09")
        options += (
            b"" if capture_filter is None else _option(_FILTER, b"\0" + capture_filter.encode())
        )
        self._write_block(INTERFACE, struct.pack("<HHI", link_type, 0, snaplen) + options + _END)
        described = self._described
        self._described += 1
        self._interfaces[link_type, snaplen] = described
        return described

    def write(
        self,
        packets: PacketBatch,
        rows: IntArray | None = None,
        comments: Mapping[int, str] | None = None,
    ) -> None:
        """Writes packets of a batch: all, or those at ``rows``, in that order, with the comments
        they came with.

        ``comments`` are by index in the batch, and come after the packet's own. Times before 1970,
        which the format does not have, become its first moment.
        """
        if rows is None:
            rows = np.arange(len(packets), dtype=np.int64)
        count = len(rows)
        if not count:
            return
        blocks, _ = packet_blocks(packets, rows, self._numbers(packets, rows), comments)
        self._sink.write(blocks.data)

    def secrets(self, key_log: bytes) -> None:
        """Writes lines of a key log, for the packets that come after them. Whoever has the file can
        read what is encrypted there.
        """
        for start, end in pairwise(_cuts(key_log)):
            self._write_block(
                SECRETS,
                struct.pack("<II", TLS_KEY_LOG, end - start)
                + key_log[start:end]
                + bytes(-(end - start) % 4),
            )

    def statistics(self, interface: int, *, received: int, dropped: int, time_ns: int) -> None:
        """Writes how many packets an interface had seen, and how many of them the kernel had
        dropped, at a time.
        """
        time_ns = max(time_ns, 0)
        counts = _option(_RECEIVED, struct.pack("<Q", received)) + _option(
            _DROPPED, struct.pack("<Q", dropped)
        )
        self._write_block(
            STATISTICS,
            struct.pack("<III", interface, time_ns >> 32, time_ns & 0xFFFF_FFFF) + counts + _END,
        )

    def _numbers(self, packets: PacketBatch, rows: IntArray) -> IntArray:
        """Returns the interface of each packet. A packet longer than usual has an interface that
        announces such packets: readers refuse it otherwise. One with a snapshot length of its own
        keeps it.
        """
        longest = np.where(packets.captured[rows] > MAX_PACKET, MAX_BLOCK, MAX_PACKET)
        if packets.snaplen is not None:
            snaplen = packets.snaplen[rows]
            is_own = (packets.captured[rows] <= snaplen) & (snaplen < MAX_PACKET)
            longest = np.where(is_own, snaplen, longest)
        kinds, inverse = np.unique(packets.link_type[rows] << 32 | longest, return_inverse=True)
        keys = [(kind >> 32, kind & 0xFFFF_FFFF) for kind in kinds.tolist()]
        numbers = [
            self._interfaces[key]
            if key in self._interfaces
            else self.interface(key[0], snaplen=key[1])
            for key in keys
        ]
        return np.array(numbers, dtype=np.int64)[inverse]

    def _write_block(self, kind: int, body: bytes) -> None:
        size = struct.pack("<I", len(body) + 12)
        self._sink.write(struct.pack("<I", kind) + size + body + size)


def packet_blocks(
    packets: PacketBatch,
    rows: IntArray,
    numbers: IntArray,
    comments: Mapping[int, str] | None = None,
) -> tuple[ByteArray, IntArray]:
    """Returns the packets at ``rows`` as enhanced packet blocks, and the size of each block;
    ``numbers``: the interface of each packet.

    ``comments`` are as for ``PcapNgWriter.write``.
    """
    count = len(rows)
    captured = packets.captured[rows]
    header = np.empty((count, _HEADER // 4), "<u4")
    header[:, 0] = ENHANCED_PACKET
    header[:, 2] = numbers
    time_ns = np.maximum(packets.time_ns[rows], 0)
    header[:, 3], header[:, 4] = time_ns >> 32, time_ns & 0xFFFF_FFFF
    header[:, 5], header[:, 6] = captured, packets.wire[rows]
    options, ends = _comments(packets, rows, comments or {})
    sizes = _HEADER + captured + -captured % 4 + np.diff(ends, prepend=0) + 4
    header[:, 1] = sizes
    blocks = np.zeros(int(sizes.sum()), np.uint8)  # the padding of packets is zero
    octets = header.view(np.uint8).reshape(-1)
    write_blocks(
        octets,
        packets.data,
        np.ascontiguousarray(packets.offset[rows]),
        captured,
        options,
        ends,
        sizes,
        blocks,
    )
    return blocks, sizes


def _cuts(lines: bytes) -> list[int]:
    """Returns where to cut lines into parts that each fit into a block: between lines."""
    cuts = [0]
    while len(lines) - cuts[-1] > MAX_BLOCK // 2:
        cuts.append(lines.rindex(b"\n", cuts[-1], cuts[-1] + MAX_BLOCK // 2) + 1)
    return [*cuts, len(lines)] if lines else cuts


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _comments(
    packets: PacketBatch, rows: IntArray, comments: Mapping[int, str]
) -> tuple[ByteArray, IntArray]:
    """Returns (options of all packets, where the options of each packet end)."""
    ends = np.zeros(len(rows), dtype=np.int64)
    options = bytearray()
    has_any = np.isin(rows, list(comments))
    if packets.options is not None:
        has_any |= packets.options[rows] != 0
    for row in np.flatnonzero(has_any).tolist():
        index = int(rows[row])
        packet_comments = comments_of(packets, index)
        # readers refuse longer blocks
        most_bytes = MAX_BLOCK - (1 << 17) - int(packets.captured[index])
        packet_comments = [
            note
            for note, end in zip(
                packet_comments, accumulate(len(note) + 8 for note in packet_comments), strict=True
            )
            if end <= most_bytes
        ]
        if index in comments:
            packet_comments.append(
                comments[index]
                .encode(errors="backslashreplace")[:MAX_COMMENT]
                .decode(errors="ignore")
                .encode()
            )
        before = len(options)
        if packet_comments:
            options += (
                b"".join(_option(COMMENT, note[:MAX_COMMENT]) for note in packet_comments) + _END
            )
        ends[row] = len(options) - before
    return np.frombuffer(bytes(options) or b"\0", np.uint8), np.cumsum(ends)


@kernel("void(octets, octets, int64[::1], int64[::1], octets, int64[::1], int64[::1], uint8[::1])")
def write_blocks(
    header: ByteArray,
    data: ByteArray,
    offset: IntArray,
    captured: IntArray,
    options: ByteArray,
    option_ends: IntArray,
    sizes: IntArray,
    blocks: ByteArray,
) -> None:
    """Writes a block for each packet: its header, its bytes, its options, its length again. One
    step for each packet.
    """
    block_start = 0
    option = 0
    for i in range(len(sizes)):
        copy(blocks, block_start, header, 28 * i, 28)
        copy(blocks, block_start + 28, data, offset[i], captured[i])
        end = block_start + sizes[i]
        size = option_ends[i] - option
        copy(blocks, end - 4 - size, options, option, size)
        option = option_ends[i]
        copy(blocks, end - 4, header, 28 * i + 4, 4)
        block_start = end
