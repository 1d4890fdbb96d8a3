"""Follows headers one after the other: each message's place, packets, and missing bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.kernel import be16, be32, inlined, kernel, kernel_function
from dcpinspect.kernels.structs import Struct, T, Tables, number
from dcpinspect.protocol.framed import ABSURD_BODY, BAD_MAGIC, HOLE, Framed
from dcpinspect.protocol.resync import ANSWERED, EVENTS, HEADER, MAX_BODY, OF_STREAMS
from dcpinspect.protocol.stretch import Stretch
from dcpinspect.transport.chunk import StreamEntries

_MORE, _BAD_MAGIC, _ABSURD_BODY, _HOLE = range(4)
_REASONS = ("", BAD_MAGIC, ABSURD_BODY, HOLE)
_LENGTH_KNOWN = 12
"""Number of bytes of a header that are needed to know where the next one is."""
CUT = -2
"""Stands for the stream of a message whose header is not whole."""
ROLES = np.zeros(256, np.uint8)
ROLES[OF_STREAMS] = 1
ROLES[list(EVENTS)] = 2
"""By opcode: 1 for messages of streams, 2 for those that a producer sends in a stream."""


class WalkState(Struct[T]):
    """Where a walk is, and what it found."""

    at: T = number("Where the next header is in the data.")
    piece: T = number("The piece that gave the byte before it.", of="pieces")
    hole: T = number("Place in ``holes`` of the first one that does not end before it.")
    direction: T = number("The direction, where there are many.")
    count: T = number("Messages so far.")
    streams: T = number("Streams that messages since the last call showed, and ``memo`` lacked.")
    events: T = number("Messages since then that a producer sends in a stream.")
    cut: T = number("Messages since then whose header is not whole.")
    need: T = number("Number of bytes wanted from ``at`` on.")


class WalkTables(Tables):
    """What the kernels work on, and what they found: one element of each column a message."""

    pieces: StreamEntries
    """Which packets gave the bytes; ``source`` is the place in the data."""
    holes: IntArray
    """Where each hole begins and ends in the data, one behind the other."""
    memo: IntArray
    """A small hash table of streams that are known; empty if all that are shown are wanted."""
    walk: WalkState
    of: IntArray
    """The direction of each message."""
    start: IntArray
    """Where it is in the data."""
    length: IntArray
    """Its bytes."""
    least: IntArray
    """The piece of the least packet that gave bytes of it."""
    greatest: IntArray
    """The piece of the greatest packet."""
    last: IntArray
    """The piece of its last byte."""
    key: IntArray
    """The stream that it shows, as vbucket << 32 | opaque; -1 for none, or CUT."""

    @classmethod
    def begin(cls, data: ByteArray, pieces: StreamEntries, holes: IntArray) -> WalkTables:
        """Returns tables for a walk in this data."""
        tables = cls()
        tables.pieces, tables.holes, tables.walk = pieces, holes.reshape(-1), WalkState.single()
        tables.memo = np.empty(0, np.int64)
        columns = np.empty((7, len(data) // HEADER + 1), np.int64)
        tables.of, tables.start, tables.length, tables.key = columns[:4]
        tables.least, tables.greatest, tables.last = columns[4:]
        return tables

    def columns(self, rows: IntArray | slice) -> dict[str, Any]:
        """Returns columns of these messages as ``Framed`` has them."""
        least, greatest, packet = self.least[rows], self.greatest[rows], self.pieces.packet
        return {
            "start": self.start[rows],
            "length": self.length[rows],
            "frame": packet.frame[least],
            "last_frame": packet.frame[greatest],
            "file": packet.file[least],
            "last_file": packet.file[greatest],
            "time_ns": packet.time[greatest],
            "release": self.pieces.release[self.last[rows]],
        }


class MessageRun(NamedTuple):
    """Messages that follow each other without a gap."""

    end: int
    """Stream offset after the last message."""
    why: str
    """Why the run ended, as a reason for skipping; empty: the next message is not complete."""
    need: int
    """Number of bytes wanted from there on."""
    rows: slice
    """The messages among those of the walk."""
    streams: int
    """Number of streams that they show, and the memo did not have."""
    events: int
    """Number of messages that a producer sends in a stream."""
    cut: int
    """Number of messages whose header is not whole."""


class Walk:
    """Messages found in one stretch, run by run, before they become ``Framed``."""

    __slots__ = ("_kept", "_tables", "data", "holes", "offset", "segments")

    def __init__(self, stretch: Stretch) -> None:
        self.data = stretch.data
        self.offset = stretch.offset
        self.segments = stretch.segments
        self.holes = stretch.holes()
        self._tables: WalkTables | None = None  # made for the first run, if there is one
        self._kept: list[tuple[int, int, int]] = []  # of runs: messages, and what ``keep`` was told

    @property
    def has_messages(self) -> bool:
        """Whether any messages were kept."""
        return bool(self._kept)

    @property
    def tables(self) -> WalkTables:
        """The messages of all runs."""
        if self._tables is None:
            self.segments.source = self.segments.offset - self.offset
            self._tables = WalkTables.begin(self.data, self.segments, self.holes - self.offset)
        return self._tables

    def release_at(self, offset: int) -> int:
        """Returns the packet that made the byte at stream offset ``offset`` readable."""
        return int(self.segments.release[self.segments.offset.searchsorted(offset, "right") - 1])

    def follow(self, at: int, memo: IntArray) -> MessageRun:
        """Follows the headers from stream offset ``at``. ``memo``: as in ``WalkTables``."""
        tables = self.tables
        walk, tables.memo = tables.walk, memo
        first, walk.at = walk.count, at - self.offset
        walk.streams = walk.events = walk.cut = 0
        reason_code = frame_messages(self.data, ROLES, tables)
        rows = slice(first, walk.count)
        end, reason = self.offset + walk.at, _REASONS[reason_code]
        return MessageRun(end, reason, walk.need, rows, walk.streams, walk.events, walk.cut)

    def new_streams(self, run: MessageRun) -> tuple[IntArray, IntArray]:
        """Returns the new streams of a run, and the packet that showed each of them."""
        key, last = self.tables.key[run.rows], self.tables.last[run.rows]
        return key[key >= 0], self.segments.release[last[key >= 0]]

    def cut_off(self, run: MessageRun) -> list[tuple[int, int]]:
        """Returns [start, end) in the stream of messages whose header is not whole."""
        is_cut = self.tables.key[run.rows] == CUT
        begin = self.tables.start[run.rows][is_cut] + self.offset
        end = begin + self.tables.length[run.rows][is_cut]
        return list(zip(begin.tolist(), end.tolist(), strict=True))

    def keep(self, run: MessageRun, heuristic_until: int, floor: int) -> None:
        """Has the messages of a run framed, but those whose header is not whole; none of them is
        readable before packet ``floor``.
        """
        self._kept.append((run.rows.stop - run.rows.start, heuristic_until, floor))

    def framed(self) -> Framed:
        """Returns the messages of all runs, each of which was kept."""
        counts, until, floors = np.array(self._kept, np.int64).T
        whole_rows = np.flatnonzero(self.tables.key[: counts.sum()] != CUT)
        columns = self.tables.columns(whole_rows)
        start, length = columns["start"], columns["length"]
        floor = np.repeat(floors, counts)[whole_rows]
        hole, hole_end = self.holes[:, 0] - self.offset, self.holes[:, 1] - self.offset
        row = np.searchsorted(start, hole, "right") - 1
        inside = (
            (row >= 0) & (hole < (start + length)[row])
            if len(start)
            else np.zeros(len(hole), np.bool_)
        )
        row = row[inside]
        columns["release"] = np.maximum(columns["release"], floor)
        return Framed(
            data=self.data,
            stream_offset=start + self.offset,
            heuristic=start + self.offset < np.repeat(until, counts)[whole_rows],
            missing_row=row,
            missing_start=hole[inside] - start[row],
            missing_end=np.minimum(hole_end[inside] - start[row], length[row]),
            **columns,
        )


@kernel_function
def body_size(data: ByteArray, at: int, hole: int) -> int:
    """Returns the size of the body of the message at ``at``, or the negated reason why there is no
    message. ``hole``: where the next hole begins.
    """
    if hole < at + _LENGTH_KNOWN:
        return -_HOLE
    if data[at] not in (0x80, 0x81, 0x08, 0x18, 0x82, 0x83):
        return -_BAD_MAGIC
    body = be32(data, at + 8)
    return -_ABSURD_BODY if body > MAX_BODY else int(body)


@kernel_function
def stream_key(data: ByteArray, at: int, role: int) -> int:
    """Returns the key of the stream that the message at ``at`` shows, as in ``WalkTables.key``; -1
    for none. ``role``: as in ``ROLES``.
    """
    magic = data[at]
    if role != 0 and magic in (0x80, 0x08):
        return (be16(data, at + 6) << 32) | be32(data, at + 12)
    is_success = data[at + 6] == 0 and data[at + 7] == 0  # the status, if it is an answer
    return (
        ANSWERED | be32(data, at + 12) if role == 1 and magic in (0x81, 0x18) and is_success else -1
    )


@inlined
def note_pieces(tables: WalkTables, m: int, first: int) -> int:
    """Writes which pieces, from number ``first`` on, gave message ``m``; returns its last byte's."""
    s, last = first, len(tables.pieces)
    begin, end = tables.start[m], tables.start[m] + tables.length[m]
    while s + 1 < last and tables.pieces[s + 1].source <= begin:
        s += 1
    low, high, j = -1, -1, s
    while j < last and tables.pieces[j].source < end:
        packet = tables.pieces[j].packet
        if packet.frame > 0:
            if low < 0 or packet.number < tables.pieces[low].packet.number:
                low = j
            if high < 0 or packet.number > tables.pieces[high].packet.number:
                high = j
        j += 1
    tables.least[m] = low
    tables.greatest[m] = high
    tables.last[m] = max(s, j - 1)
    return int(max(s, j - 1))


@inlined
def note_stream(data: ByteArray, role: int, tables: WalkTables, m: int) -> None:
    """Writes the key of the stream that message ``m`` shows, if ``memo`` lacks it."""
    offset = tables.start[m]
    key = stream_key(data, offset, role)
    if key >= 0:
        if role == 2:
            tables.walk.events += 1
        if len(tables.memo) > 0:
            vbucket, opaque = be16(data, offset + 6), be32(data, offset + 12)
            # opaques are often the vbucket, a counter, or a constant
            slot = (vbucket * 1021 + opaque + (opaque >> 12)) & (len(tables.memo) - 1)
            if tables.memo[slot] == key:
                key = -1
            else:
                tables.memo[slot] = key
                tables.walk.streams += 1
    tables.key[m] = key


@kernel_function
def follow_headers(data: ByteArray, roles: ByteArray, tables: WalkTables, end: int) -> int:
    """Follows the headers from ``tables.walk.at`` up to ``end``; returns why it stopped. One step
    for each message and for each piece.
    """
    walk = tables.walk
    offset, m, s, h = walk.at, walk.count, walk.piece, walk.hole
    reason_code = _MORE
    walk.need = HEADER
    while offset + HEADER <= end:
        while h < len(tables.holes) and tables.holes[h + 1] <= offset:
            h += 2
        hole = tables.holes[h] if h < len(tables.holes) else end
        body = body_size(data, offset, hole)
        if body < 0:
            reason_code = int(-body)
            break
        if offset + HEADER + body > end:
            walk.need = HEADER + body
            break
        tables.of[m] = walk.direction
        tables.start[m] = offset
        tables.length[m] = HEADER + body
        s = note_pieces(tables, m, s)
        role = roles[data[offset + 1]]
        if hole < offset + HEADER:
            tables.key[m] = CUT
            walk.cut += 1
        elif role != 0:
            note_stream(data, role, tables, m)
        else:
            tables.key[m] = -1
        offset += tables.length[m]
        m += 1
    walk.at = offset
    walk.count = m
    walk.piece = s
    walk.hole = h
    return reason_code


@kernel("int64(octets, octets, WalkTables)")
def frame_messages(data: ByteArray, roles: ByteArray, tables: WalkTables) -> int:
    """Follows the headers to the end of the data; returns why it stopped. What ``tables`` say is
    kept between calls on the same data.
    """
    return int(follow_headers(data, roles, tables, len(data)))
