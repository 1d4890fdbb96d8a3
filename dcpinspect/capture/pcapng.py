"""pcapng files: sections of either byte order, interfaces, and the three kinds of packet block."""

from __future__ import annotations

import copy
import os
import re
import struct
from collections.abc import Iterator
from typing import Literal

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray, unique
from dcpinspect.capture.batch import COLUMNS, TIME_NS, PacketBatch
from dcpinspect.capture.encapsulations import UnreadLinkType, unread
from dcpinspect.capture.packet_walk import (
    MAX_BLOCK,
    MAX_PACKET,
    MAX_PROBLEMS,
    InterfaceCounts,
    Walk,
    u32,
)
from dcpinspect.kernels.kernel import inlined, kernel, kernel_function
from dcpinspect.lazy_dataclass import dataclass

SECTION = 0x0A0D0D0A
INTERFACE = 1
OLD_PACKET = 2
SIMPLE_PACKET = 3
STATISTICS = 5
ENHANCED_PACKET = 6
SECRETS = 10
"""Block with decryption secrets; secrets of TLS are lines of a key log."""
_BYTE_ORDER = 0x1A2B3C4D
_KNOWN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, SECTION, 0xBAD, 0x40000BAD)
"""Block types that a search after garbage believes."""

SMALLEST = 12
"""Bytes of a block without a body."""
DONE, CUT, BAD, SECTION_HEADER = range(4)
OFFSET, CAPTURED, WIRE, HIGH, LOW, NUMBER, OPTIONS, ASIDE = range(8)
"""Rows of the kernel's columns: what it says of each packet, and which blocks it leaves."""
AT, NEED, PACKETS, ASIDES, INTERFACES, SNAPLEN, LIMIT = range(7)
"""What the kernel's state says. AT: where it is. NEED: bytes wanted from there, where a block is
cut. PACKETS, ASIDES: entries in the columns. Of the section it says how many interfaces there are,
the snaplen of the first one, and the longest packet that is believed.
"""
_STRANGE = "a packet block contradicts itself or names no interface"
MOST_INTERFACES = 1 << 16
"""Greatest number of a section's interfaces remembered; packets of others are only told."""
_BEYOND = f"packets of interfaces after the first {MOST_INTERFACES:,} of a section are not read"
MOST_COUNTED = 1000
"""Greatest number of interfaces whose counts are remembered."""
MOST_NOTES = 100
"""Greatest number of comments on sections that are remembered."""
MOST_SECRETS = 1 << 26
"""Greatest number of bytes of secrets that are remembered; each secret counts with ``SECRET_COST``.
"""
SECRET_COST = 64
"""Bytes that a secret takes in addition to its own."""
MOST_BEHIND = 64
"""Greatest number of blocks behind the last packet in which secrets are looked for."""
TLS_KEY_LOG = 0x544C534B
COMMENT = 1
"""Option of any block that holds a comment."""
_RECEIVED, _DROPPED, _SYSTEM_DROPPED = 4, 5, 7
"""Options of an interface statistics block."""
_NS = 1_000_000_000
_MAX_S = (1 << 63) // _NS - 1
"""Seconds that still fit 64-bit nanoseconds: up to the year 2262."""
_FAR = 1 << 61
"""Seconds that no capture has: two such numbers can be added."""
_NO_TIME = -1
"""Instead of a time that is before 1970 or after 2262, and of one that is not there."""
_LOOKED_AT = 1 << 16
"""Number of bytes at the start of a file in which the first packets look for a time, if they have
none of their own.
"""
IMPOSSIBLE_TIME = (
    "the time is before 1970 or after 2262: such packets get the time of one beside them"
)
_TOO_LONG = "an option is longer than the rest of its block; what follows it is not read"
_TOO_FINE = "the time resolution is finer than any time could tell, so times mean nothing"
_FINEST = 19, 63
"""Greatest powers of ten and of two of which a time resolution can be."""
_NO_INTERFACES: IntArray = np.empty((4, 0), np.int64)


@dataclass(frozen=True, slots=True)
class Interface:
    """What an interface description block says."""

    link_type: int
    snaplen: int
    resolution: int = 6
    """``if_tsresol``: a power of ten, or of two with the top bit set."""
    offset_s: int = 0
    name: str = ""


class PcapNg:
    """The blocks of a pcapng file. Raises ``ValueError`` if it begins with no section header."""

    name = "pcapng"

    def __init__(self, header: bytes) -> None:
        if header[:4] != b"\x0a\x0d\x0d\x0a" or (
            len(header) >= 12
            and _BYTE_ORDER
            not in (struct.unpack_from(order, header, 8)[0] for order in ("<I", ">I"))
        ):
            raise ValueError("not a pcapng section header")
        self.is_big_endian = False
        self.interfaces: list[Interface] = []
        self.counts: list[InterfaceCounts] = []
        self.unread: list[UnreadLinkType] = []
        self._unread: dict[int, UnreadLinkType] = {}  # by interface of this section
        self._is_beyond = False  # that an interface is not read was told
        self.notes: list[bytes] = []
        self.secrets: list[bytes] = []
        self._secret_bytes = 0
        self._counted: dict[int, int] = {}  # by interface of this section: its place in the counts
        self._table = _NO_INTERFACES
        self._limit = MAX_PACKET
        self._last_ns = _NO_TIME
        self._is_possible = True
        self._place = 0
        self._searching = False

    def walk(self, data: ByteArray, size: int, *, final: bool) -> Walk:
        """Walks the blocks, as ``Format.walk``; skips garbage up to the next plausible block."""
        before = copy.deepcopy(self.__dict__) if self._last_ns == _NO_TIME else None
        walk = self._walk(data, size, final=final)
        if len(walk) and not self._fill_times(
            walk.columns[TIME_NS],
            walk.columns[0],
            is_last=final or self._place + size >= _LOOKED_AT,
        ):
            assert before is not None
            for name in ("counts", "notes", "secrets", "unread"):  # others have these lists
                getattr(self, name)[:] = before.pop(name)
            self.__dict__.update(before)
            return Walk(np.empty((COLUMNS, 0), np.int64), 0, size + 1)
        self._place += walk.consumed
        return walk

    def _fill_times(self, time_ns: IntArray, offset: IntArray, *, is_last: bool) -> bool:
        """Gives packets without a time that of the packet before, and the first ones that of the
        first packet that has one.

        Returns False if that one may still come, and these are not the last bytes in which it is
        looked for.
        """
        has_time = time_ns != _NO_TIME
        if self._last_ns == _NO_TIME:
            first = int(has_time.argmax())
            if has_time[first] and self._place + offset[first] < _LOOKED_AT:
                self._last_ns = int(time_ns[first])
            elif not is_last:
                return False
            else:
                self._last_ns = 0
        if not has_time.all():
            before = np.maximum.accumulate(np.where(has_time, np.arange(len(time_ns)), -1))
            time_ns[:] = np.where(before < 0, self._last_ns, time_ns[before])
        self._last_ns = int(time_ns[-1])
        return True

    def _walk(self, data: ByteArray, size: int, *, final: bool) -> Walk:
        columns = np.empty((ASIDE + 1, size // SMALLEST + 1), np.int64)
        state = np.zeros(LIMIT + 1, np.int64)
        done = [np.empty((COLUMNS + 2, 0), np.int64)]
        problems: list[tuple[int, str]] = []
        need = SMALLEST
        while True:
            if self._searching:
                self._searching = not self._find_block(data, size, state, final=final)
                if self._searching:
                    need = size - int(state[AT]) + 1
                    break
            state[INTERFACES:] = (
                len(self.interfaces),
                self.interfaces[0].snaplen if self.interfaces else 0,
                self._limit,
            )
            verdict = walk_blocks(data, size, self.is_big_endian, columns, state)
            self._read_aside(columns[ASIDE, : state[ASIDES]].tolist(), data, problems)
            if state[PACKETS]:
                done.append(self._packets(int(state[PACKETS]), columns, problems))
            offset_in_data = int(state[AT])
            if verdict == SECTION_HEADER:
                verdict = self._section(data, size, state, problems)
                if verdict == DONE:
                    continue
            if verdict == BAD:
                if len(problems) < MAX_PROBLEMS:
                    problems.append((offset_in_data, "garbage where a block should begin"))
                self._searching = True
                state[AT] += 1
                continue
            if verdict == CUT:
                need = int(state[NEED])
                if final and offset_in_data < size:
                    there = f"{size - offset_in_data} bytes of it are present"
                    problems.append((offset_in_data, f"the last block is cut short ({there})"))
            break
        consumed = size if final else min(int(state[AT]), size)
        *_, options, snaplen = packets = np.concatenate(done, axis=1)
        has_snaplens = len(set(self._interface_table()[-1].tolist())) > 1
        return Walk(
            packets[:COLUMNS],
            consumed,
            need,
            problems,
            options if options.any() else None,
            snaplen if has_snaplens else None,
        )

    def _packets(self, count: int, columns: IntArray, problems: list[tuple[int, str]]) -> IntArray:
        """Copies the first ``count`` entries, and turns ticks into nanoseconds."""
        offset, captured, wire, high, low, number, options = columns[:ASIDE, :count].copy()
        link_type, resolution, offset_s, snaplen = self._interface_table()[:, number]
        time_ns = np.empty(count, np.int64)
        for resolution_code in unique(resolution).tolist():
            has_resolution = resolution == resolution_code
            time_ns[has_resolution] = nanoseconds(
                high[has_resolution], low[has_resolution], resolution_code, offset_s[has_resolution]
            )
        for interface_number, unread_here in self._unread.items():
            unread_here.packets += int(np.count_nonzero(number == interface_number))
        is_possible = (time_ns != _NO_TIME) | (high < 0)  # simple packet blocks have no time
        time_ns[high < 0] = _NO_TIME
        first = np.flatnonzero(
            ~is_possible & np.concatenate(([self._is_possible], is_possible[:-1]))
        )
        problems += [
            (block_start, IMPOSSIBLE_TIME)
            for block_start in (offset[first] - 28).tolist()[: max(0, MAX_PROBLEMS - len(problems))]
        ]
        self._is_possible = bool(is_possible[-1])
        options = -options if self.is_big_endian else options
        return np.stack((offset, captured, wire, time_ns, link_type, options, snaplen))

    def _interface_table(self) -> IntArray:
        """Returns link type, resolution, offset and snapshot length of the interfaces of this
        section, by number.
        """
        if self._table.shape[1] != len(self.interfaces):
            rows = [
                (
                    interface.link_type,
                    interface.resolution,
                    interface.offset_s,
                    min(interface.snaplen or MAX_PACKET, MAX_PACKET),
                )
                for interface in self.interfaces
            ]
            self._table = np.array(rows, np.int64).T
        return self._table

    def _section(
        self, data: ByteArray, size: int, state: IntArray, problems: list[tuple[int, str]]
    ) -> int:
        """Reads the section header at ``state[AT]`` and moves past it."""
        start, block = int(state[AT]), data.data
        state[NEED] = 28
        if start + SMALLEST > size:
            return CUT
        magic = bytes(block[start + 8 : start + 12])
        is_big_endian = magic == b"\x1a\x2b\x3c\x4d"
        if not is_big_endian and magic != b"\x4d\x3c\x2b\x1a":
            return BAD
        (length,) = struct.unpack_from(">I" if is_big_endian else "<I", block, start + 4)
        if length < 28 or length % 4 or length > MAX_BLOCK:
            return BAD
        state[NEED] = length
        if start + length > size:
            return CUT
        self.is_big_endian = is_big_endian
        options = bytes(block[start + 24 : start + length - 4])
        problems += _options_damage(options, ">" if is_big_endian else "<", start + 24)
        if len(self.notes) < MOST_NOTES:
            self.notes += comments_in(options, is_big_endian=is_big_endian)[
                : MOST_NOTES - len(self.notes)
            ]
        self.interfaces = []
        self._table = _NO_INTERFACES
        self._counted = {}
        self._unread = {}
        state[AT] += length
        return DONE

    def _read_aside(
        self, aside: list[int], data: ByteArray, problems: list[tuple[int, str]]
    ) -> None:
        """Reads what the kernel set aside: blocks without a packet, packets whose options are
        damaged, and unknown packets.
        """
        order, block = ">" if self.is_big_endian else "<", data.data
        statistics: dict[int, bytes] = {}  # the last block of each interface
        heads = struct.Struct(order + "III")
        for block_start in aside:
            if block_start < 0:
                kind, _, number = heads.unpack_from(block, ~block_start)
                is_beyond = kind == ENHANCED_PACKET and number >= MOST_INTERFACES == len(
                    self.interfaces
                )
                if len(problems) < MAX_PROBLEMS and not (is_beyond and self._is_beyond):
                    problems.append((~block_start, _BEYOND if is_beyond else _STRANGE))
                self._is_beyond |= is_beyond
                continue
            kind, length, number = heads.unpack_from(block, block_start)
            is_packet = kind in (ENHANCED_PACKET, OLD_PACKET)
            if kind != SECRETS and len(problems) < MAX_PROBLEMS:
                start = block_start + (20 if kind == STATISTICS else 16)
                if is_packet:
                    (captured,) = struct.unpack_from(order + "I", block, block_start + 20)
                    start = block_start + 28 + captured + -captured % 4
                options = bytes(block[start : block_start + length - 4])
                problems += _options_damage(options, order, start)
            if kind == STATISTICS:
                statistics[number] = bytes(block[block_start : block_start + length])
            elif is_packet:
                continue
            elif kind == SECRETS:
                self._keep_secrets(bytes(block[block_start : block_start + length]), order)
            else:
                interface = _interface(bytes(block[block_start : block_start + length]), order)
                unread_interface = unread(
                    interface.name or str(len(self.interfaces)), interface.link_type
                )
                if unread_interface is not None and len(self.unread) < MOST_COUNTED:
                    self._unread[len(self.interfaces)] = unread_interface
                    self.unread.append(unread_interface)
                self.interfaces.append(interface)
                if interface.snaplen <= MAX_BLOCK:
                    self._limit = max(self._limit, interface.snaplen)
        for number, statistics_block in statistics.items():
            self._count(number, statistics_block, order)

    def _keep_secrets(self, block: bytes, order: str) -> None:
        if len(block) >= 24 and self._secret_bytes < MOST_SECRETS:
            kind, size = struct.unpack_from(order + "II", block, 8)
            if kind == TLS_KEY_LOG and size <= len(block) - 20:
                self.secrets.append(block[16 : 16 + size])
                self._secret_bytes += size + SECRET_COST

    def _count(self, number: int, block: bytes, order: str) -> None:
        """Reads the statistics block of an interface; a later one replaces the one before."""
        if number not in self._counted and len(self.counts) >= MOST_COUNTED:
            return
        values = {code: value for code, value in _options(block[20:-4], order) if len(value) == 8}
        received, dropped, system = (
            struct.unpack(order + "Q", values[code])[0] if code in values else None
            for code in (_RECEIVED, _DROPPED, _SYSTEM_DROPPED)
        )
        row = self._counted.setdefault(number, len(self.counts))
        name = self.interfaces[number].name or f"interface {number}"
        self.counts[row : row + 1] = [InterfaceCounts(name, received, dropped, system)]

    def _find_block(self, data: ByteArray, size: int, state: IntArray, *, final: bool) -> bool:
        """Moves ``state[AT]`` to the next block that looks right; returns False for none."""
        offset = int(state[AT])
        block = data[:size].data
        order = ">I" if self.is_big_endian else "<I"
        begins = re.compile(
            b"|".join(re.escape(struct.pack(order, kind)) for kind in _KNOWN), re.DOTALL
        )
        while match := begins.search(block, offset):
            offset = match.start()
            if offset + 12 > size:
                break
            state[AT] = offset
            if match.group() == b"\x0a\x0d\x0d\x0a":
                if block[offset + 8 : offset + 12].tobytes() in (
                    b"\x1a\x2b\x3c\x4d",
                    b"\x4d\x3c\x2b\x1a",
                ):
                    return True
            else:
                (length,) = struct.unpack_from(order, block, offset + 4)
                if 12 <= length <= MAX_BLOCK and not length % 4:
                    if offset + length > size and not final:
                        return False
                    if (
                        offset + length <= size
                        and struct.unpack_from(order, block, offset + length - 4)[0] == length
                    ):
                        return True
            offset += 1
        state[AT] = size if final else max(int(state[AT]), size - 11)
        return False


def _interface(block: bytes, order: str) -> Interface:
    link_type, _, snaplen = struct.unpack_from(order + "HHI", block, 8)
    resolution, offset_s, name = 6, 0, ""
    for code, value in _options(block[16:-4], order):
        if code == 2:
            name = value.rstrip(b"\0").decode(errors="backslashreplace")
        if code == 9 and len(value) == 1:
            resolution = value[0]
        if code == 14 and len(value) == 8:
            (offset_s,) = struct.unpack(order + "q", value)
    return Interface(link_type, snaplen, resolution, max(-_FAR, min(_FAR, offset_s)), name)


def comments_of(packets: PacketBatch, index: int) -> list[bytes]:
    """Returns the comments that a packet of a batch came with."""
    size = int(packets.options[index]) if packets.options is not None else 0
    if not size:
        return []
    captured = int(packets.captured[index])
    offset = int(packets.offset[index]) + captured + -captured % 4
    return comments_in(packets.data[offset : offset + abs(size)].tobytes(), is_big_endian=size < 0)


def comments_in(options: bytes, *, is_big_endian: bool) -> list[bytes]:
    """Returns the comments among a block's options, as bytes: they may be no UTF-8."""
    return [
        value for code, value in _options(options, ">" if is_big_endian else "<") if code == COMMENT
    ]


def _options(options: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yields (code, value) of the options of a block."""
    offset = 0
    while offset + 4 <= len(options):
        code, length = struct.unpack_from(order + "HH", options, offset)
        if code == 0:
            return
        yield code, options[offset + 4 : offset + 4 + length]
        offset += 4 + length + (-length) % 4


def _options_damage(options: bytes, order: str, start: int) -> Iterator[tuple[int, str]]:
    """Yields the places of damaged options of a block; ``start``: place of the first one."""
    offset = 0
    for code, value in _options(options, order):
        if offset + 4 + struct.unpack_from(order + "H", options, offset + 2)[0] > len(options):
            yield start + offset, _TOO_LONG
        if code == 9 and value and value[0] & 0x7F > _FINEST[value[0] >> 7]:
            yield start + offset, _TOO_FINE
        offset += 4 + len(value) + (-len(value)) % 4


def nanoseconds(high: IntArray, low: IntArray, resolution: int, offset_s: IntArray) -> IntArray:
    """Returns capture times from two halves of ticks; -1 for those before 1970 or after 2262."""
    ticks = (np.maximum(high, 0).astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    power = resolution & 0x7F
    if resolution & 0x80:
        power = min(power, 63)
        seconds = ticks >> np.uint64(power)
        remainder = ticks & np.uint64((1 << power) - 1)
        spare = max(0, power - 34)  # 10**9 takes 30 bits
        fraction = ((remainder >> np.uint64(spare)) * np.uint64(_NS)) >> np.uint64(power - spare)
    else:
        per_second = np.uint64(10 ** min(power, 19))
        seconds = ticks // per_second
        remainder = ticks % per_second
        fraction = (
            remainder * np.uint64(10 ** (9 - power))
            if power <= 9
            else remainder // np.uint64(10 ** (min(power, 19) - 9))
        )
    whole_seconds = np.minimum(seconds, np.uint64(2 * _FAR)).astype(np.int64) + offset_s
    is_possible = (whole_seconds >= 0) & (whole_seconds <= _MAX_S)
    result: IntArray = np.where(
        is_possible,
        np.where(is_possible, whole_seconds, 0) * _NS + fraction.astype(np.int64),
        _NO_TIME,
    )
    return result


def secrets_behind(path: str) -> list[bytes]:
    """Returns the secrets behind the last packet of a pcapng file that can be read at any place:
    packets are read before them. Raises OSError.
    """
    with open(path, "rb") as file:
        try:
            first_block = file.read(SMALLEST)
            reader = PcapNg(first_block)
        except ValueError:
            return []
        is_big = first_block[8:] == _BYTE_ORDER.to_bytes(4, "big")
        order: Literal["big", "little"] = "big" if is_big else "little"
        end = file.seek(0, os.SEEK_END)
        for _ in range(MOST_BEHIND):
            file.seek(max(0, end - 4))
            size = int.from_bytes(file.read(4), order)
            if not SMALLEST <= size <= min(end, MOST_SECRETS):
                break
            end = file.seek(end - size)
            kind, length = (int.from_bytes(file.read(4), order) for _ in range(2))
            if length != size or kind in (SECTION, OLD_PACKET, SIMPLE_PACKET, ENHANCED_PACKET):
                break
            if kind == SECRETS:
                file.seek(end)
                reader._keep_secrets(file.read(size), ">" if is_big else "<")
    return reader.secrets


@kernel_function
def whole_length(data: ByteArray, size: int, is_big_endian: bool, state: IntArray) -> int:
    """Returns the length of the block at ``state[AT]``, or the negated reason for none."""
    block = state[AT]
    state[NEED] = SMALLEST
    if block + 8 > size:
        return -CUT
    if u32(data, block, is_big_endian) == SECTION:  # a section has a byte order of its own
        return -SECTION_HEADER
    length = u32(data, block + 4, is_big_endian)
    if length < SMALLEST or length & 3 or length > MAX_BLOCK:
        return -BAD
    state[NEED] = length
    if block + length > size:
        return -CUT
    return length if u32(data, block + length - 4, is_big_endian) == length else -BAD


@kernel_function
def set_aside(at: int, columns: IntArray, state: IntArray) -> None:
    """Leaves a block to Python; ``at``: its place, inverted for a packet that is not understood."""
    columns[ASIDE, state[ASIDES]] = at
    state[ASIDES] += 1


@kernel_function
def begin_interface(longest: int, state: IntArray) -> None:
    """Counts an interface whose packets have at most so many bytes."""
    if state[INTERFACES] == 0:
        state[SNAPLEN] = longest
    if longest <= MAX_BLOCK:
        state[LIMIT] = max(state[LIMIT], longest)
    state[INTERFACES] += 1


@inlined
def fit_options(data: ByteArray, at: int, end: int, is_big_endian: bool) -> bool:
    """Returns whether the options of a block, from ``at`` on, are no longer than the block."""
    option = at
    while option + 4 <= end:
        both = int(np.int64(u32(data, option, is_big_endian)))  # a signed number
        size = both & 0xFFFF if is_big_endian else both >> 16
        if (both >> 16 if is_big_endian else both & 0xFFFF) == 0:  # its code: that of the last one
            return True
        option += 4 + size
        if option > end:
            return False
        option += -size & 3
    return True


@inlined
def take_packet(
    data: ByteArray, length: int, is_big_endian: bool, columns: IntArray, state: IntArray
) -> bool:
    """Writes the packet of a block, enhanced or old; returns False if it contradicts itself."""
    block, count = state[AT], state[PACKETS]
    if length < 32:
        return False
    interface, have = u32(data, block + 8, is_big_endian), u32(data, block + 20, is_big_endian)
    if u32(data, block, is_big_endian) == OLD_PACKET:  # two 16-bit numbers: interface, drops
        interface = interface >> 16 if is_big_endian else interface & 0xFFFF
    if interface >= state[INTERFACES] or have > length - 32 or have > state[LIMIT]:
        return False
    columns[OFFSET, count] = block + 28
    columns[CAPTURED, count] = have
    columns[WIRE, count] = max(have, u32(data, block + 24, is_big_endian))
    columns[HIGH, count] = u32(data, block + 12, is_big_endian)
    columns[LOW, count] = u32(data, block + 16, is_big_endian)
    columns[NUMBER, count] = interface
    options_size = max(0, int(length - 32 - ((have + 3) & ~3)))
    columns[OPTIONS, count] = options_size
    end = int(block + length - 4)
    if options_size > 0 and not fit_options(data, end - options_size, end, is_big_endian):
        set_aside(block, columns, state)
    state[PACKETS] += 1
    return True


@kernel_function
def take_simple(
    data: ByteArray, length: int, is_big_endian: bool, columns: IntArray, state: IntArray
) -> bool:
    """Writes the packet of a simple block, without time; returns False if it contradicts itself."""
    block, count = state[AT], state[PACKETS]
    if length < 16 or state[INTERFACES] == 0:
        return False
    full = u32(data, block + 8, is_big_endian)
    have = min(full, length - 16)
    columns[OFFSET, count] = block + 12
    columns[CAPTURED, count] = min(have, state[SNAPLEN]) if state[SNAPLEN] != 0 else have
    columns[WIRE, count] = full
    columns[HIGH, count] = -1
    columns[LOW, count] = 0
    columns[NUMBER, count] = 0
    columns[OPTIONS, count] = 0
    state[PACKETS] += 1
    return True


@kernel("int64(octets, int64, boolean, int64[:,::1], int64[::1])")
def walk_blocks(
    data: ByteArray, size: int, is_big_endian: bool, columns: IntArray, state: IntArray
) -> int:
    """Follows the blocks from ``state[AT]``; returns why it stopped. One step for each block.

    What interfaces say holds for the packets behind them all the same. ``columns[HIGH]`` is -1
    where a packet has no time.
    """
    state[PACKETS] = state[ASIDES] = 0
    while state[AT] < size:
        block, length = state[AT], whole_length(data, size, is_big_endian, state)
        if length < 0:
            return -length
        kind, is_understood = u32(data, block, is_big_endian), True
        if kind in (ENHANCED_PACKET, OLD_PACKET):
            is_understood = take_packet(data, length, is_big_endian, columns, state)
        elif kind == SIMPLE_PACKET:
            is_understood = take_simple(data, length, is_big_endian, columns, state)
        elif kind == INTERFACE and length < 20:
            return BAD
        elif kind == INTERFACE and state[INTERFACES] < MOST_INTERFACES:
            begin_interface(u32(data, block + 12, is_big_endian), state)
            set_aside(block, columns, state)
        elif kind == SECRETS or (
            kind == STATISTICS
            and length >= 24
            and u32(data, block + 8, is_big_endian) < state[INTERFACES]
        ):
            set_aside(block, columns, state)
        if not is_understood:
            set_aside(~block, columns, state)
        state[AT] += length
    return DONE
