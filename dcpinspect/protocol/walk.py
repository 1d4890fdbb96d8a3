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
    messages: Column
    """[5, n]: place of each message in the stretch, its length, segments of the least and the greatest packet that gave bytes of it,
    segment of its last byte."""
    is_cut: Octets
    """1 if the header of the message is not whole."""
    keys: Column
    """vbucket << 32 | opaque of the streams that the memo did not have."""
    shown_by: Column
    """Place of the message that showed each of these streams."""


class Walk:
    """Messages found in one stretch, run by run, before they become ``Framed``."""

    __slots__ = ("_cut", "_kept", "_keys", "_messages", "_state", "data", "holes", "offset", "segments")

    def __init__(self, stretch: Stretch) -> None:
        self.data = stretch.data
        self.offset = stretch.offset
        self.segments = stretch.segments
        self.holes = stretch.holes()
        self._state: Column | None = None  # made for the first run, if there is one, with what the kernel writes
        self._kept: list[tuple[int, int, int]] = []  # of runs: messages, and what ``keep`` was told

    @property
    def has_messages(self) -> bool:
        """Whether any messages were kept."""
        return bool(self._kept)

    def release_at(self, offset: int) -> int:
        """Returns the packet that made the byte at stream offset ``offset`` readable."""
        return int(self.segments.release[self.segments.offset.searchsorted(offset, "right") - 1])

    def follow(self, at: int, memo: Column) -> Run:
        """Follows the headers from stream offset ``at``. ``memo``: as in ``frame_messages``."""
        if self._state is None:
            room = len(self.data) // HEADER + 1
            self._messages, self._keys, self._cut = np.empty((5, room), np.int64), np.empty((2, room), np.int64), np.empty(room, np.uint8)
            self._state = np.zeros(7, np.int64)
        state, first = self._state, int(self._state[3])
        state[0] = at - self.offset
        why = frame_messages(
            self.data, self.offset, self.holes, self.segments.columns, ROLES, memo, self._messages, self._cut, self._keys, state
        )
        end, _, _, last, new, events, need = state.tolist()
        return Run(
            end=self.offset + end,
            why=_REASONS[why],
            need=need,
            events=events,
            messages=self._messages[:, first:last],
            is_cut=self._cut[first:last],
            keys=self._keys[0, :new],
            shown_by=self._keys[1, :new],
        )

    def released(self, run: Run) -> Column:
        """Returns the packet that showed each of the new streams of a run."""
        release: Column = self.segments.release[run.messages[4][run.shown_by]]
        return release

    def cut_off(self, run: Run) -> list[tuple[int, int]]:
        """Returns [start, end) in the stream of messages whose header is not whole."""
        begin, length = run.messages[:2, run.is_cut > 0]
        begin += self.offset
        return list(zip(begin.tolist(), (begin + length).tolist(), strict=True))

    def keep(self, run: Run, heuristic_until: int, floor: int) -> None:
        """Has the messages of a run framed, but those whose header is not whole; none of them is readable before packet ``floor``."""
        self._kept.append((len(run.is_cut), heuristic_until, floor))

    def framed(self) -> Framed:
        """Returns the messages of all runs, each of which was kept."""
        counts, until, floors = np.array(self._kept, np.int64).T
        whole = np.flatnonzero(self._cut[: counts.sum()] == 0)
        start, length, least, greatest, last = self._messages[:, whole]
        heuristic, floor = start + self.offset < np.repeat(until, counts)[whole], np.repeat(floors, counts)[whole]
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
            heuristic=heuristic,
            missing_row=row,
            missing_start=hole[inside] - start[row],
            missing_end=np.minimum(hole_end[inside] - start[row], length[row]),
        )


@kernel("int64(octets, int64, int64[:,::1], int64[:,::1], octets, int64[::1], int64[:,::1], uint8[::1], int64[:,::1], int64[::1])")
def frame_messages(
    data: Octets, offset: int, holes: Ints, segments: Ints, roles: Octets, memo: Ints, messages: Ints, cut: Octets, keys: Ints, state: Ints
) -> int:
    """Follows the headers from ``data[state[0]]`` on; returns why it stopped. One step for each message and for each segment.

    ``data`` begins at stream ``offset``. ``segments``: the columns of ``Segments``. ``messages`` and ``keys``: as in ``Run``, and so is
    ``cut``. ``keys`` are not in ``memo`` (a small hash table). ``state`` is kept between calls on the same data: place, hole, segment,
    messages; then the new keys, stream events, and the bytes wanted from ``state[0]`` on.
    """
    at, h, s, count = state[0], state[1], state[2], state[3]
    size, last = len(data), segments.shape[1]
    new, events = 0, 0
    need = 24
    why = _MORE
    while True:
        while h < len(holes) and holes[h, 1] - offset <= at:
            h += 1
        if at + 24 > size:
            break
        hole = holes[h, 0] - offset if h < len(holes) else size
        if hole < at + _LENGTH_KNOWN:
            why = _HOLE
            break
        magic = data[at]
        if magic not in (0x80, 0x81, 0x08, 0x18, 0x82, 0x83):
            why = _BAD_MAGIC
            break
        body = be32(data, at + 8)
        if body > MAX_BODY:
            why = _ABSURD_BODY
            break
        end = at + 24 + body
        if end > size:
            need = 24 + body
            break
        is_cut = hole < at + 24
        cut[count] = 1 if is_cut else 0
        while s + 1 < last and segments[0, s + 1] - offset <= at:
            s += 1
        low, high = -1, -1
        j = s
        while j < last and segments[0, j] - offset < end:
            if segments[2, j] > 0:
                if low < 0 or segments[1, j] < segments[1, low]:
                    low = j
                if high < 0 or segments[1, j] > segments[1, high]:
                    high = j
            j += 1
        s = max(s, j - 1)
        messages[0, count] = at
        messages[1, count] = 24 + body
        messages[2, count] = low
        messages[3, count] = high
        messages[4, count] = s
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
                keys[0, new] = key
                keys[1, new] = count - state[3]
                new += 1
        count += 1
        at = end
    state[0], state[1], state[2], state[3] = at, h, s, count
    state[4], state[5], state[6] = new, events, need
    return why
