"""pcap files: the classic format and those variants that libpcap reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.capture.encapsulations import UnreadLinkType, unread
from dcpinspect.capture.packet_walk import (
    MAX_BLOCK,
    MAX_PACKET,
    MAX_PROBLEMS,
    InterfaceCounts,
    Walk,
    u32,
)
from dcpinspect.kernels.kernel import be32, kernel, le32

FILE_HEADER = 24
_RECORD_HEADER = 16
_NS_PER_US = 1000
_MICROSECONDS = 0xA1B2C3D4
_NANOSECONDS = 0xA1B23C4D
_PATCHED = 0xA1B2CD34
"""Kuznetsov's patched tcpdump: eight more bytes (interface, protocol, type) per record."""
_MAGICS = (_MICROSECONDS, _NANOSECONDS, _PATCHED)

DONE, CUT, BAD, BEGIN = range(4)
_DAY_S = 86_400


class Pcap:
    """The records of a pcap file, and of those written behind it. Raises ``ValueError`` if the file
    header is no pcap header.
    """

    name = "pcap"
    counts: Sequence[InterfaceCounts] = ()
    notes: Sequence[bytes] = ()
    secrets: Sequence[bytes] = ()

    def __init__(self, header: bytes) -> None:
        self.unread: list[UnreadLinkType] = []
        self._begin(header)
        self._last_s = 0
        self._begun = False
        self._searching = False

    def _begin(self, header: bytes) -> None:
        """Takes what a file header says about the records behind it."""
        magic = int.from_bytes(header[:4], "big")
        self.is_big_endian = magic in _MAGICS
        if not self.is_big_endian:
            magic = int.from_bytes(header[:4], "little")
        if magic not in _MAGICS or len(header) < FILE_HEADER:
            raise ValueError("not a pcap file header")
        major, minor, _, _, snaplen, network = struct.unpack_from(
            ">HHiIII" if self.is_big_endian else "<HHiIII", header, 4
        )
        self.record_header = 24 if magic == _PATCHED else _RECORD_HEADER
        self.tick_ns = 1 if magic == _NANOSECONDS else _NS_PER_US
        self.link_type = network & 0xFFFF  # above: the length of the frame check sequence
        if (unread_packets := unread("", self.link_type)) is not None and len(
            self.unread
        ) < MAX_PROBLEMS:
            self.unread.append(unread_packets)
        self.limit = max(MAX_PACKET, snaplen if snaplen <= MAX_BLOCK else 0)
        # as in libpcap: before 2.3 the two lengths were the other way round, in 2.3 (and DG/UX's
        # 543.0) sometimes
        self.lengths = (
            2 if (major, minor) < (2, 3) else 1 if (major, minor) in ((2, 3), (543, 0)) else 0
        )

    def walk(self, data: ByteArray, size: int, *, final: bool) -> Walk:
        """Walks the records, as ``Format.walk``; skips garbage between records up to the next
        plausible pair of records.
        """
        start = 0 if self._begun else FILE_HEADER
        self._begun = True
        capacity = (size - start) // _RECORD_HEADER + 1
        columns = [np.empty(capacity, np.int64) for _ in range(5)]
        offset, captured, wire, time_ns, link_type = columns
        state = np.array([start, self._last_s], np.int64)
        problems: list[tuple[int, str]] = []
        count = done = 0
        need = 1
        while True:
            if self._searching:
                verdict = int(
                    find_record(
                        data,
                        size,
                        self.is_big_endian,
                        self.record_header,
                        self.limit,
                        self.tick_ns,
                        int(final),
                        state,
                    )
                )
                self._searching = verdict != DONE
                if verdict != DONE:
                    need = size - int(state[0]) + 1
                    break
            count, verdict = divmod(
                int(
                    walk_records(
                        data,
                        size,
                        self.is_big_endian,
                        self.record_header,
                        self.limit,
                        self.lengths,
                        self.tick_ns,
                        count,
                        offset,
                        captured,
                        wire,
                        time_ns,
                        state,
                    )
                ),
                4,
            )
            record_start = int(state[0])
            link_type[done:count] = self.link_type
            if self.unread and self.unread[-1].link_type == self.link_type:
                self.unread[-1].packets += count - done
            done = count
            if verdict == BEGIN:
                self._begin(data[record_start : record_start + FILE_HEADER].tobytes())
                state[:] = record_start + FILE_HEADER, 0
                continue
            if verdict != BAD:
                need = size - record_start + 1
                if verdict == CUT and final and record_start < size:
                    problems.append(
                        (
                            record_start,
                            f"the last record is cut short ({size - record_start} bytes of it are present)",
                        )
                    )
                break
            if len(problems) < MAX_PROBLEMS:
                problems.append((record_start, "garbage where a packet record should begin"))
            self._searching = True
            state[0] += 1
        self._last_s = int(state[1])
        offset, captured, wire, time_ns, link_type = (column[:count].copy() for column in columns)
        consumed = size if final else min(int(state[0]), size)
        return Walk(offset, captured, wire, time_ns, link_type, consumed, need, problems)


@kernel(
    "int64(octets, int64, boolean, int64, int64, int64, int64, int64, int64[::1], int64[::1], "
    "int64[::1], int64[::1], int64[::1])"
)
def walk_records(
    data: ByteArray,
    size: int,
    is_big_endian: bool,
    header: int,
    limit: int,
    lengths: int,
    tick_ns: int,
    count: int,
    offset: IntArray,
    captured: IntArray,
    wire: IntArray,
    time_ns: IntArray,
    state: IntArray,
) -> int:
    """Follows the records from ``state[0]``; returns 4 * (packets so far) + DONE, CUT, BAD, or
    BEGIN where another file begins.

    One step for each packet.
    """
    record = state[0]
    last = state[1]
    verdict = DONE
    while record < size:
        if record + header > size:
            verdict = CUT
            break
        seconds = u32(data, record, is_big_endian)
        ticks = u32(data, record + 4, is_big_endian)
        have = u32(data, record + 8, is_big_endian)
        full = u32(data, record + 12, is_big_endian)
        if lengths == 2 or (lengths == 1 and have > full):
            have, full = full, have
        if (
            have == 0
            and full == 0
            and (le32(data, record) in _MAGICS or be32(data, record) in _MAGICS)
        ):  # it says 0 of the time zone
            verdict = BEGIN if record + FILE_HEADER <= size else CUT
            break
        if have > limit or (have == 0 and full == 0 and seconds == 0):
            verdict = BAD
            break
        if record + header + have > size:
            verdict = CUT
            break
        offset[count] = record + header
        captured[count] = have
        wire[count] = max(have, full)
        time_ns[count] = seconds * 1_000_000_000 + ticks * tick_ns
        last = seconds
        count += 1
        record += header + have
    state[0] = record
    state[1] = last
    return count * 4 + verdict


@kernel("int64(octets, int64, boolean, int64, int64, int64, int64, int64[::1])")
def find_record(
    data: ByteArray,
    size: int,
    is_big_endian: bool,
    header: int,
    limit: int,
    tick_ns: int,
    final: int,
    state: IntArray,
) -> int:
    """Moves ``state[0]`` to the next record that looks right and is followed by another or by the
    end: DONE.

    Returns CUT if the bytes do not suffice to tell; then ``state[0]`` is where to continue. One
    step for each byte.
    """
    start = state[0]
    last = state[1]
    while True:
        p = start
        links = 0
        while links < 2:
            if p + header > size:
                break
            seconds = u32(data, p, is_big_endian)
            ticks = u32(data, p + 4, is_big_endian)
            have = u32(data, p + 8, is_big_endian)
            full = u32(data, p + 12, is_big_endian)
            if (
                have == 0
                or have > limit
                or full < have
                or full > 4 * limit
                or ticks * tick_ns >= 1_000_000_000
            ):
                links = -1
                break
            if last != 0 and abs(seconds - last) > _DAY_S:
                links = -1
                break
            p += header + have
            links += 1
        state[0] = start
        if links == 2 or (links == 1 and final == 1 and p == size):
            return DONE
        if links >= 0:
            if final == 0:
                return CUT
            if start + header > size:
                state[0] = size
                return CUT
        start += 1
