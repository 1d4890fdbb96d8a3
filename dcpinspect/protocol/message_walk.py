"""Follows headers one after the other: each message's place, packets, and missing bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.kernel import be16, be32, inlined, kernel, kernel_function
from dcpinspect.protocol.framed import ABSURD_BODY, BAD_MAGIC, HOLE, Framed
from dcpinspect.protocol.resync import ANSWERED, EVENTS, HEADER, MAX_BODY, OF_STREAMS
from dcpinspect.protocol.stretch import Stretch

_MORE, _BAD_MAGIC, _ABSURD_BODY, _HOLE = range(4)
_REASONS = ("", BAD_MAGIC, ABSURD_BODY, HOLE)
_LENGTH_KNOWN = 12
"""Number of bytes of a header that are needed to know where the next one is."""
_OFFSET, _AT, _NEXT_HOLE, _SEGMENT, _FIRST, _COUNT, _NEW, _EVENTS, _NEED = range(9)
"""What the kernel's state says. _OFFSET: stream offset of ``data``. _AT, _NEXT_HOLE, _SEGMENT:
where it is. _FIRST: messages before the current call; _COUNT: messages so far. Of the current call:
the streams that are new, events of producers, bytes wanted from _AT on.
"""
ROLES = np.zeros(256, np.uint8)
ROLES[OF_STREAMS] = 1
ROLES[list(EVENTS)] = 2
"""By opcode: 1 for messages of streams, 2 for those that a producer sends in a stream."""


class MessageRun(NamedTuple):
    """Messages that follow each other without a gap. The columns hold until the walk goes on."""

    end: int
    """Stream offset after the last message."""
    why: str
    """Why the run ended, as a reason for skipping; empty: the next message is not complete."""
    need: int
    """Number of bytes wanted from there on."""
    events: int
    """Number of messages that a producer sends in a stream."""
    messages: IntArray
    """[6, n]: place of each message in the stretch, its length, segments of the least and the
    greatest packet that gave bytes of it, segment of its last byte, 1 if its header is not whole.
    """
    keys: IntArray
    """vbucket << 32 | opaque of the streams that the memo did not have."""
    shown_by: IntArray
    """Place of the message that showed each of these streams."""

    @property
    def is_cut(self) -> IntArray:
        """1 if the header of the message is not whole."""
        is_cut: IntArray = self.messages[5]
        return is_cut


class Walk:
    """Messages found in one stretch, run by run, before they become ``Framed``."""

    __slots__ = ("_kept", "_keys", "_messages", "_state", "data", "holes", "offset", "segments")

    def __init__(self, stretch: Stretch) -> None:
        self.data = stretch.data
        self.offset = stretch.offset
        self.segments = stretch.segments
        self.holes = stretch.holes()
        self._state: IntArray | None = (
            None  # made for the first run, if there is one, with what the kernel writes
        )
        self._kept: list[tuple[int, int, int]] = []  # of runs: messages, and what ``keep`` was told

    @property
    def has_messages(self) -> bool:
        """Whether any messages were kept."""
        return bool(self._kept)

    def release_at(self, offset: int) -> int:
        """Returns the packet that made the byte at stream offset ``offset`` readable."""
        return int(self.segments.release[self.segments.offset.searchsorted(offset, "right") - 1])

    def follow(self, at: int, memo: IntArray) -> MessageRun:
        """Follows the headers from stream offset ``at``. ``memo``: as in ``frame_messages``."""
        if self._state is None:
            most_messages = len(self.data) // HEADER + 1
            self._messages = np.empty((6, most_messages), np.int64)
            self._keys = np.empty((2, most_messages), np.int64)
            self._state = np.zeros(_NEED + 1, np.int64)
            self._state[_OFFSET] = self.offset
        state = self._state
        state[_AT] = at - self.offset
        reason_code = frame_messages(
            self.data,
            self.holes,
            self.segments.columns,
            ROLES,
            memo,
            self._messages,
            self._keys,
            state,
        )
        return MessageRun(
            end=self.offset + int(state[_AT]),
            why=_REASONS[reason_code],
            need=int(state[_NEED]),
            events=int(state[_EVENTS]),
            messages=self._messages[:, state[_FIRST] : state[_COUNT]],
            keys=self._keys[0, : state[_NEW]],
            shown_by=self._keys[1, : state[_NEW]],
        )

    def released(self, run: MessageRun) -> IntArray:
        """Returns the packet that showed each of the new streams of a run."""
        release: IntArray = self.segments.release[run.messages[4][run.shown_by]]
        return release

    def cut_off(self, run: MessageRun) -> list[tuple[int, int]]:
        """Returns [start, end) in the stream of messages whose header is not whole."""
        begin, length = run.messages[:2, run.is_cut > 0]
        begin += self.offset
        return list(zip(begin.tolist(), (begin + length).tolist(), strict=True))

    def keep(self, run: MessageRun, heuristic_until: int, floor: int) -> None:
        """Has the messages of a run framed, but those whose header is not whole; none of them is
        readable before packet ``floor``.
        """
        self._kept.append((len(run.is_cut), heuristic_until, floor))

    def framed(self) -> Framed:
        """Returns the messages of all runs, each of which was kept."""
        counts, until, floors = np.array(self._kept, np.int64).T
        whole_rows = np.flatnonzero(self._messages[5, : counts.sum()] == 0)
        start, length, least, greatest, last = self._messages[:5, whole_rows]
        heuristic = start + self.offset < np.repeat(until, counts)[whole_rows]
        floor = np.repeat(floors, counts)[whole_rows]
        segments = self.segments
        hole, hole_end = self.holes[:, 0] - self.offset, self.holes[:, 1] - self.offset
        row = np.searchsorted(start, hole, "right") - 1
        inside = (
            (row >= 0) & (hole < (start + length)[row])
            if len(start)
            else np.zeros(len(hole), np.bool_)
        )
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


@inlined
def note_segments(
    segments: IntArray, begin: int, end: int, messages: IntArray, state: IntArray
) -> None:
    """Writes which segments gave the next message, which has the stream bytes [begin, end)."""
    s, last, count = state[_SEGMENT], segments.shape[1], state[_COUNT]
    while s + 1 < last and segments[0, s + 1] <= begin:
        s += 1
    low, high, j = -1, -1, s
    while j < last and segments[0, j] < end:
        if segments[2, j] > 0:
            if low < 0 or segments[1, j] < segments[1, low]:
                low = j
            if high < 0 or segments[1, j] > segments[1, high]:
                high = j
        j += 1
    state[_SEGMENT] = max(s, j - 1)
    messages[2, count] = low
    messages[3, count] = high
    messages[4, count] = state[_SEGMENT]


@kernel_function
def stream_key(data: ByteArray, at: int, role: int) -> int:
    """Returns the key of the stream that the message at ``at`` shows, as in ``MessageRun.keys``; -1
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
def note_stream(
    data: ByteArray, at: int, role: int, memo: IntArray, keys: IntArray, state: IntArray
) -> None:
    """Writes the key of the stream that the message at ``at`` shows, if ``memo`` lacks it."""
    key = stream_key(data, at, role)
    if key < 0:
        return
    if role == 2:
        state[_EVENTS] += 1
    vbucket, opaque = be16(data, at + 6), be32(data, at + 12)
    # opaques are often the vbucket, a counter, or a constant
    slot = (vbucket * 1021 + opaque + (opaque >> 12)) & (len(memo) - 1)
    if memo[slot] != key:
        memo[slot] = key
        keys[0, state[_NEW]] = key
        keys[1, state[_NEW]] = state[_COUNT] - state[_FIRST]
        state[_NEW] += 1


@kernel(
    "int64(octets, int64[:,::1], int64[:,::1], octets, int64[::1], int64[:,::1], int64[:,::1], "
    "int64[::1])"
)
def frame_messages(
    data: ByteArray,
    holes: IntArray,
    segments: IntArray,
    roles: ByteArray,
    memo: IntArray,
    messages: IntArray,
    keys: IntArray,
    state: IntArray,
) -> int:
    """Follows the headers from ``data[state[_AT]]`` on; returns why it stopped. One step for each
    message and for each segment.

    ``segments``: the columns of ``Segments``. ``messages`` and ``keys``: as in ``MessageRun``.
    ``keys`` are not in ``memo`` (a small hash table). ``state`` is kept between calls on the same
    data.
    """
    offset, size, h = state[_OFFSET], len(data), state[_NEXT_HOLE]
    state[_FIRST], state[_NEW], state[_EVENTS], state[_NEED] = state[_COUNT], 0, 0, HEADER
    reason_code = _MORE
    while True:
        message_start, count = state[_AT], state[_COUNT]
        while h < len(holes) and holes[h, 1] - offset <= message_start:
            h += 1
        if message_start + HEADER > size:
            break
        hole = holes[h, 0] - offset if h < len(holes) else size
        body = body_size(data, message_start, hole)
        if body < 0:
            reason_code = -body
            break
        end = message_start + HEADER + body
        if end > size:
            state[_NEED] = HEADER + body
            break
        is_cut = hole < message_start + HEADER
        messages[0, count] = message_start
        messages[1, count] = HEADER + body
        messages[5, count] = 1 if is_cut else 0
        note_segments(segments, offset + message_start, offset + end, messages, state)
        if not is_cut and roles[data[message_start + 1]] != 0:
            note_stream(data, message_start, roles[data[message_start + 1]], memo, keys, state)
        state[_COUNT] += 1
        state[_AT] = end
    state[_NEXT_HOLE] = h
    return reason_code
