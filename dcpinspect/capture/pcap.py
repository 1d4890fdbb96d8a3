"""pcap files: the classic format and those variants that libpcap reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.capture.batch import COLUMNS
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
AT, LAST_S, COUNT, IS_BIG_ENDIAN, RECORD_HEADER, LIMIT, LENGTHS, TICK_NS, IS_FINAL = range(9)
"""What the kernels are told in ``state``: where they are, the second of the latest packet, the
number of packets so far; then the form of the records, and whether no more bytes come.
"""
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
        columns = np.empty((COLUMNS, (size - start) // _RECORD_HEADER + 1), np.int64)
        state = self.state(start, self._last_s, is_final=final)
        problems: list[tuple[int, str]] = []
        done, need = 0, 1
        while True:
            if self._searching:
                self._searching = find_record(data, size, state) != DONE
                if self._searching:
                    need = size - int(state[AT]) + 1
                    break
            verdict = walk_records(data, size, columns, state)
            record_start, count = int(state[AT]), int(state[COUNT])
            columns[4, done:count] = self.link_type
            if self.unread and self.unread[-1].link_type == self.link_type:
                self.unread[-1].packets += count - done
            done = count
            if verdict == BEGIN:
                behind = record_start + FILE_HEADER
                self._begin(data[record_start:behind].tobytes())
                state = self.state(behind, 0, count, is_final=final)
                continue
            if verdict != BAD:
                need = size - record_start + 1
                if verdict == CUT and final and record_start < size:
                    there = f"{size - record_start} bytes of it are present"
                    problems.append((record_start, f"the last record is cut short ({there})"))
                break
            if len(problems) < MAX_PROBLEMS:
                problems.append((record_start, "garbage where a packet record should begin"))
            self._searching = True
            state[AT] += 1
        self._last_s = int(state[LAST_S])
        consumed = size if final else min(int(state[AT]), size)
        return Walk(columns[:, :done].copy(), consumed, need, problems)

    def state(self, at: int, last_s: int, count: int = 0, *, is_final: bool) -> IntArray:
        """Returns what the kernels are told."""
        form = self.is_big_endian, self.record_header, self.limit, self.lengths, self.tick_ns
        return np.array((at, last_s, count, *form, is_final), np.int64)


@kernel("int64(octets, int64, int64[:,::1], int64[::1])")
def walk_records(data: ByteArray, size: int, columns: IntArray, state: IntArray) -> int:
    """Follows the records from ``state[AT]``, and enters their packets into ``columns``; returns
    DONE, CUT, BAD, or BEGIN where another file begins.

    One step for each packet.
    """
    header, limit, lengths = state[RECORD_HEADER], state[LIMIT], state[LENGTHS]
    is_big_endian, tick_ns = state[IS_BIG_ENDIAN] != 0, state[TICK_NS]
    record, last, count = state[AT], state[LAST_S], state[COUNT]
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
        columns[0, count] = record + header
        columns[1, count] = have
        columns[2, count] = max(have, full)
        columns[3, count] = seconds * 1_000_000_000 + ticks * tick_ns
        last = seconds
        count += 1
        record += header + have
    state[AT], state[LAST_S], state[COUNT] = record, last, count
    return verdict


@kernel("int64(octets, int64, int64[::1])")
def find_record(data: ByteArray, size: int, state: IntArray) -> int:
    """Moves ``state[AT]`` to the next record that looks right and is followed by another or by the
    end: DONE.

    Returns CUT if the bytes do not suffice to tell; then ``state[AT]`` is where to continue. One
    step for each byte.
    """
    header, limit, tick_ns = state[RECORD_HEADER], state[LIMIT], state[TICK_NS]
    is_big_endian, is_final = state[IS_BIG_ENDIAN] != 0, state[IS_FINAL] != 0
    start, last = state[AT], state[LAST_S]
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
        state[AT] = start
        if links == 2 or (links == 1 and is_final and p == size):
            return DONE
        if links >= 0:
            if not is_final:
                return CUT
            if start + header > size:
                state[AT] = size
                return CUT
        start += 1
