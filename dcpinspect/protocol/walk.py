"""Follows headers one after the other: where each message is, which packets gave it, and what of it is missing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.kernels.kernel import Ints, Octets, be16, be32, kernel
from dcpinspect.protocol.framed import ABSURD_BODY, BAD_MAGIC, HOLE, Framed
from dcpinspect.protocol.resync import ANSWERED, EVENTS, HEADER, MAX_BODY, OF_STREAMS
from dcpinspect.protocol.stretch import Column, Stretch

_MORE, _BAD_MAGIC, _ABSURD_BODY, _HOLE = range(4)
_REASONS = ("", BAD_MAGIC, ABSURD_BODY, HOLE)
_LENGTH_KNOWN = 12
"""Number of bytes of a header that are needed to know where the next one is."""
ROLES = np.zeros(256, np.uint8)
ROLES[OF_STREAMS] = 1
ROLES[list(EVENTS)] = 2
"""By opcode: 1 for messages of streams, 2 for those that a producer sends in a stream."""


class Run(NamedTuple):
    """Messages that follow each other without a gap. The columns hold until the walk goes on."""

    end: int
    """Stream offset after the last message."""
    why: str
    """Why the run ended there, as a reason for skipping bytes; empty: the next message is not complete."""
    need: int
    """Number of bytes wanted from there on."""
    events: int
    """Number of messages that a producer sends in a stream."""
    messages: tuple[Column, Column, Column, Column, Column]
    """For each message: place in the stretch, length, segments of the least and the greatest packet that gave bytes of it, segment of its
    last byte."""
    is_cut: Octets
    """1 if the header of the message is not whole."""
    keys: Column
    """vbucket << 32 | opaque of the streams that the memo did not have."""
    shown_by: Column
    """Place of the message that showed each of these streams."""


class _Tables:
    """What the kernel needs for one stretch; it may be called for many short runs of the stretch."""

    __slots__ = ("columns", "cut", "holes", "segments", "state")

    def __init__(self, walk: Walk) -> None:
        room = len(walk.data) // HEADER + 1
        self.columns = [np.empty(room, np.int64) for _ in range(7)]
        self.cut = np.empty(room, np.uint8)
        self.holes, self.segments = walk.holes - walk.offset, walk.segments.offset - walk.offset
        self.state = np.zeros(3, np.int64)  # place, hole, segment: where the kernel continues


class Walk:
    """Messages found in one stretch, run by run, before they become ``Framed``."""

    __slots__ = ("_rows", "_tables", "data", "holes", "offset", "segments")

    def __init__(self, stretch: Stretch) -> None:
        self.data = stretch.data
        self.offset = stretch.offset
        self.segments = stretch.segments
        self.holes = stretch.holes()
        self._rows: list[tuple[Column, ...]] = []
        self._tables: _Tables | None = None  # made for the first run, if there is one

    @property
    def has_messages(self) -> bool:
        """Whether any messages were kept."""
        return bool(self._rows)

    def release_at(self, offset: int) -> int:
        """Returns the packet that made the byte at stream offset ``offset`` readable."""
        return int(self.segments.release[self.segments.offset.searchsorted(offset, "right") - 1])

    def follow(self, at: int, memo: Column) -> Run:
        """Follows the headers from stream offset ``at``. ``memo``: as in ``frame_messages``."""
        if self._tables is None:
            self._tables = _Tables(self)
        tables, state, segments = self._tables, self._tables.state, self.segments
        counts = np.zeros(4, np.int64)
        state[0] = at - self.offset
        start, length, least, greatest, last, keys, key_row = tables.columns
        # messages are not known before they are walked; most have between 50 and a few hundred bytes
        why = int(
            frame_messages(
                self.data,
                tables.holes,
                tables.segments,
                segments.packet,
                segments.frame,
                MAX_BODY,
                ROLES,
                memo,
                start,
                length,
                least,
                greatest,
                last,
                tables.cut,
                keys,
                key_row,
                counts,
                state,
            )
        )
        count, new, events, need = counts.tolist()
        return Run(
            end=self.offset + int(state[0]),
            why=_REASONS[why],
            need=need,
            events=events,
            messages=(start[:count], length[:count], least[:count], greatest[:count], last[:count]),
            is_cut=tables.cut[:count],
            keys=keys[:new],
            shown_by=key_row[:new],
        )

    def released(self, run: Run) -> Column:
        """Returns the packet that showed each of the new streams of a run."""
        release: Column = self.segments.release[run.messages[4][run.shown_by]]
        return release

    def cut_off(self, run: Run) -> list[tuple[int, int]]:
        """Returns [start, end) in the stream of messages whose header is not whole."""
        begin, length = (column[run.is_cut > 0] for column in run.messages[:2])
        begin += self.offset
        return list(zip(begin.tolist(), (begin + length).tolist(), strict=True))

    def keep(self, run: Run, heuristic_until: int, floor: int) -> None:
        """Adds the messages whose header is whole; none of them is readable before packet ``floor``."""
        whole = run.is_cut == 0 if run.is_cut.any() else slice(None)
        columns = [np.array(column[whole]) for column in run.messages]
        heuristic = (columns[0] + self.offset < heuristic_until).astype(np.int64)
        self._rows.append((*columns, heuristic, np.full(len(heuristic), floor)))

    def framed(self) -> Framed:
        """Returns the messages that were kept."""
        start, length, least, greatest, last, heuristic, floor = (np.concatenate(columns) for columns in zip(*self._rows, strict=True))
        segments = self.segments
        hole, hole_end = self.holes[:, 0] - self.offset, self.holes[:, 1] - self.offset
        row = np.searchsorted(start, hole, "right") - 1
        inside = (row >= 0) & (hole < (start + length)[row]) if len(start) else np.zeros(len(hole), np.bool_)
        row = row[inside]
        return Framed(
            data=self.data,
            start=start,
            length=length,
            stream_offset=start + self.offset,
            frame=segments.frame[least],
            last_frame=segments.frame[greatest],
            file=segments.file[least],
            last_file=segments.file[greatest],
            time_ns=segments.time_ns[greatest],
            release=np.maximum(segments.release[last], floor),
            heuristic=heuristic.astype(np.bool_),
            missing_row=row,
            missing_start=hole[inside] - start[row],
            missing_end=np.minimum(hole_end[inside] - start[row], length[row]),
        )


@kernel(
    "int64(octets, int64[:,::1], int64[::1], int64[::1], int64[::1], int64, octets, int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def frame_messages(
    data: Octets,
    holes: Ints,
    segment_at: Ints,
    packet: Ints,
    frame: Ints,
    max_body: int,
    roles: Octets,
    memo: Ints,
    start: Ints,
    length: Ints,
    least: Ints,
    greatest: Ints,
    last: Ints,
    cut: Octets,
    keys: Ints,
    key_row: Ints,
    counts: Ints,
    state: Ints,
) -> int:
    """Follows the headers from ``state[0]``; returns why it stopped. One step for each message and for each segment.

    ``least``, ``greatest``, ``last``: the segments of the least and the greatest packet that gave bytes, and of the last byte. ``cut``: 1
    if the header is not whole. ``keys``: streams not in ``memo`` (a small hash table), shown by the messages ``key_row``. ``counts``:
    messages, keys, stream events, and the bytes wanted from ``state[0]`` on. ``state`` is kept between calls on the same data: place, hole,
    segment.
    """
    at, h, s = state[0], state[1], state[2]
    size, segments = len(data), len(segment_at)
    count, new, events = 0, 0, 0
    need = 24
    why = _MORE
    while True:
        while h < len(holes) and holes[h, 1] <= at:
            h += 1
        if at + 24 > size:
            break
        if h < len(holes) and holes[h, 0] < at + _LENGTH_KNOWN:
            why = _HOLE
            break
        magic = data[at]
        if magic not in (0x80, 0x81, 0x08, 0x18, 0x82, 0x83):
            why = _BAD_MAGIC
            break
        body = be32(data, at + 8)
        if body > max_body:
            why = _ABSURD_BODY
            break
        end = at + 24 + body
        if end > size:
            need = 24 + body
            break
        start[count] = at
        length[count] = 24 + body
        is_cut = h < len(holes) and holes[h, 0] < at + 24
        cut[count] = 1 if is_cut else 0
        while s + 1 < segments and segment_at[s + 1] <= at:
            s += 1
        low, high = -1, -1
        j = s
        while j < segments and segment_at[j] < end:
            if frame[j] > 0:
                if low < 0 or packet[j] < packet[low]:
                    low = j
                if high < 0 or packet[j] > packet[high]:
                    high = j
            j += 1
        s = max(s, j - 1)
        least[count] = low
        greatest[count] = high
        last[count] = s
        role = 0 if is_cut else roles[data[at + 1]]
        answers = role == 1 and magic in (0x81, 0x18) and data[at + 6] == 0 and data[at + 7] == 0  # the status: success
        if answers or (role != 0 and magic in (0x80, 0x08)):
            if role == 2:
                events += 1
            vbucket, opaque = be16(data, at + 6), be32(data, at + 12)
            key = (vbucket << 32) | opaque
            if answers:
                key = ANSWERED | opaque
            # opaques are often the vbucket, a counter, or a constant
            slot = (vbucket * 1021 + opaque + (opaque >> 12)) & (len(memo) - 1)
            if memo[slot] != key:
                memo[slot] = key
                keys[new] = key
                key_row[new] = count
                new += 1
        count += 1
        at = end
    counts[0], counts[1], counts[2], counts[3] = count, new, events, need
    state[0], state[1], state[2] = at, h, s
    return why
