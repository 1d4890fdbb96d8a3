"""Stream bytes to messages: where each begins, how long it is, which packets gave it, and what is missing of it.

A ``Framer`` serves one direction of one connection and is in one of two states. *In sync*, the header at hand says where the next
one is; a hole in a body changes nothing about that. It is lost by a byte that begins no message, by a body that cannot be, or by a
hole over the part of a header that says the length. Then a ``Trial`` (resync.py) finds the next message, and the bytes up to there
are reported as skipped. Nothing that was handed out is taken back, and nothing depends on how the stream was cut into chunks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dcpinspect.kernel import Ints, Octets, be16, be32, kernel
from dcpinspect.protocol.foreign import Recogniser
from dcpinspect.protocol.framed import (
    ABSURD_BODY,
    BAD_MAGIC,
    HEADER_CUT,
    HOLE,
    MID_STREAM,
    NO_NUMBERS,
    Framed,
    FramingAccount,
    joined,
)
from dcpinspect.protocol.resync import (
    EVENTS,
    HEADER,
    MAX_BODY,
    MIN_STREAM_REQUEST,
    STREAM_OPCODES,
    TRIAL_NS,
    KnownStreams,
    LegalExtras,
    Trial,
    default_legal_extras,
    plausible_headers,
)
from dcpinspect.protocol.stretch import Column, Stretch
from dcpinspect.transport.chunk import StreamChunk

_MORE, _BAD_MAGIC, _ABSURD_BODY, _HOLE = range(4)
_REASONS = {_BAD_MAGIC: BAD_MAGIC, _ABSURD_BODY: ABSURD_BODY, _HOLE: HOLE}
_LENGTH_KNOWN = 12
"""Bytes of a header that must be there to know where the next one is."""
_FIRST_MEMO, _MEMO = 64, 4096
"""Streams remembered a direction so that they need not be learned again: at first, and once it carries many. Powers of two."""
_FILL_FREE, _FILL_RATIO = 256 << 20, 64
"""Zeros put into long holes, a direction: so many, and so many for each byte captured. A real capture stays far below; one that claims
30 MiB with every packet stops here, its messages are skipped."""
_ROLES = np.zeros(256, np.uint8)
_ROLES[list(STREAM_OPCODES)] = 1
_ROLES[list(EVENTS)] = 2


class _Tables:
    """What the kernel needs for one stretch: it may be called for each of many short runs of messages."""

    __slots__ = ("columns", "cut", "holes", "segments", "state")

    def __init__(self, part: _Part) -> None:
        room = len(part.data) // HEADER + 1
        self.columns = [np.empty(room, np.int64) for _ in range(7)]
        self.cut = np.empty(room, np.uint8)
        self.holes, self.segments = part.holes - part.offset, part.segments.offset - part.offset
        self.state = np.zeros(3, np.int64)  # place, hole, segment: where the kernel goes on


class _Part:
    """Messages found in one stretch, before they become ``Framed``."""

    __slots__ = ("data", "holes", "offset", "rows", "segments", "tables")

    def __init__(self, stretch: Stretch) -> None:
        self.data = stretch.data
        self.offset = stretch.offset
        self.segments = stretch.segments
        self.holes = stretch.holes()
        self.rows: list[tuple[Column, ...]] = []
        self.tables: _Tables | None = None  # made for the first message, which there may not be

    def release_at(self, offset: int) -> int:
        """Packet that made the byte at stream offset ``offset`` readable."""
        return int(self.segments.release[np.searchsorted(self.segments.offset, offset, "right") - 1])


class Framer:
    """Frames one direction: ``feed`` every chunk of it in order; the chunk that ends the direction, or ``finish``, flushes.

    A capture may have very many directions of which nothing frames, so what one keeps between chunks is little.
    """

    __slots__ = (
        "_account", "_begun", "_ended", "_filled", "_floor", "_foreign_end", "_held", "_heuristic_until", "_is_doubted", "_known", "_legal",
        "_lost_at", "_lost_captured", "_memo", "_need", "_producing", "_reason", "_recogniser", "_settled", "_skipped", "_trial",
        "_unfinished",
    )  # fmt: skip

    def __init__(self, legal: LegalExtras = default_legal_extras, known: KnownStreams | None = None, *, is_doubted: bool = False) -> None:
        """``known``: what the connection's streams are; feed the client's direction first.

        ``is_doubted``: the stream may be anything; it must begin with a header as plausible as one after a hole.
        """
        self._account: FramingAccount | None = None
        self._legal = legal
        self._known = known if known is not None else KnownStreams()
        self._memo = NO_NUMBERS  # made for the first message, as above
        self._is_doubted = is_doubted
        self._held: Stretch | None = None
        self._need = HEADER
        self._begun = False
        self._ended = False
        self._producing = False
        self._trial: Trial | None = None
        self._recogniser: Recogniser | None = Recogniser()  # until the first message
        self._foreign_end: int | None = None  # where the bytes of another protocol end so far
        self._lost_at = 0
        self._lost_captured = 0  # bytes since then that were there
        self._reason = MID_STREAM
        self._settled = -1  # stream offset of the end of what was asked to settle
        self._heuristic_until = -1
        self._floor = -1
        self._filled = 0
        self._skipped: list[tuple[int, int, str]] | None = None  # of the chunk at hand
        self._unfinished = 0

    @property
    def account(self) -> FramingAccount:
        """What became of the bytes so far."""
        if self._account is None:
            self._account = FramingAccount()
        return self._account

    @property
    def held_from(self) -> int | None:
        """Stream offset of the first byte that a message may still have of those that were fed; None when there is none."""
        return None if self._held is None else self._held.offset

    def feed(self, chunk: StreamChunk) -> Framed | None:
        """The messages that ``chunk`` completes; ``None`` when there is nothing to tell."""
        if self._ended:
            return None
        parts: list[_Part] = []
        if chunk.holes and self.account.first_hole is None:
            self.account.first_hole = chunk.holes[0][0]
        if self._recogniser is not None:
            self._recogniser.add(chunk.data, chunk.offset, chunk.holes, is_start=chunk.is_start)
        if not self._begun:
            self._begun = True
            release = int(chunk.segments.release[0])
            if chunk.is_start:
                self._known.begin(release)
            else:
                self._lose(int(chunk.segments.offset[0]), MID_STREAM, release)
        if chunk.holes and chunk.holes[0][0] < chunk.offset and self._foreign_end is None:
            self._step_over(chunk, parts)
            chunk = replace(chunk, holes=chunk.holes[1:])
        self._take(chunk, parts, final=chunk.is_end)
        if chunk.is_end:
            self._end()
        return self._framed(parts)

    @property
    def is_on_trial(self) -> bool:
        """Whether bytes are held back until it is proven what they are."""
        return self._trial is not None

    def pass_time(self, time_ns: int) -> Framed | None:
        """What a trial has found so far, once its bytes have waited for ``TRIAL_NS``; live only, since it depends on when it is asked."""
        held = self._held
        if self._trial is None or held is None or held.end == self._settled or self._ended:
            return None
        if time_ns - int(held.segments.time_ns[-1]) < TRIAL_NS:
            return None
        self._settled = held.end
        parts: list[_Part] = []
        self._work(held, parts, final=False, settle=True)
        return self._framed(parts)

    def finish(self) -> Framed | None:
        """What is left when no more chunks come. Does nothing after a chunk that ended the direction."""
        if self._ended:
            return None
        parts: list[_Part] = []
        if self._held is not None:
            self._work(self._held, parts, final=True)
        self._end()
        return self._framed(parts)

    def _take(self, chunk: StreamChunk, parts: list[_Part], *, final: bool) -> None:
        if self._foreign_end is not None:
            self._pass_over(chunk.offset, chunk.offset + len(chunk.data), np.array(chunk.holes, np.int64).reshape(-1, 2))
            return
        if self._held is None:
            if len(chunk.data) or final:
                self._work(Stretch(chunk), parts, final=final)
            return
        self._held.append(chunk)
        if self._held.size < self._need and self._trial is None and not final:
            if self._need > HEADER:
                self._held.collapse()
            return
        self._work(self._held, parts, final=final)

    def _step_over(self, chunk: StreamChunk, parts: list[_Part]) -> None:
        """A hole too long to be filled: only what the message or the chains in front of it reach into is."""
        at, end = chunk.holes[0]
        while at < end and self._foreign_end is None:
            size = min(self._reach(at), end) - at
            if size <= 0 or self._filled + size > _FILL_FREE + _FILL_RATIO * (self.account.messages + self.account.skipped):
                break
            self._filled += size
            segments = chunk.segments.only(slice(0, 1))
            segments.offset[0] = at
            zeros = np.zeros(size, np.uint8)
            self._take(StreamChunk(chunk.connection, chunk.direction, at, zeros, segments, ((at, at + size),)), parts, final=False)
            at += size
        if at < end and self._foreign_end is None:
            held = self._held
            if self._trial is None:
                self._lose(held.offset if held is not None else at, HOLE, int(chunk.segments.release[0]))
            if held is not None:
                self._lost_captured += _captured(held.offset, held.end, held.holes())
                self._held = None
            self._trial = self._new_trial(end)

    def _reach(self, at: int) -> int:
        """Stream offset up to which bytes are wanted before those at hand, which end at ``at``, can be told."""
        if self._trial is not None:
            return self._trial.reach
        return (at if self._held is None else self._held.offset) + self._need

    def _work(self, stretch: Stretch, parts: list[_Part], *, final: bool, settle: bool = False) -> None:
        """Frames what there is of ``stretch`` and keeps the rest of it. ``settle``: a trial ends here if it may."""
        part = _Part(stretch)
        at = stretch.offset
        if self._is_doubted and (self._trial is not None or final or len(part.data) >= HEADER):
            self._is_doubted = False
            if self._trial is None and not len(plausible_headers(part.data[:HEADER], self._legal)[0]):
                self._lose(at, BAD_MAGIC, part.release_at(at + min(HEADER, len(part.data)) - 1))
        while True:
            if self._trial is not None:
                verdict = self._trial.look(part.data, part.offset, part.holes, part.release_at, final=final, settle=settle)
                if self._is_foreign(verdict.decided if verdict else stretch.end):
                    self._pass_over(at, stretch.end, part.holes)
                    return
                if verdict is None:
                    keep = stretch.end if final else max(at, self._trial.keep)
                    self._lost_captured += _captured(at, keep, part.holes)
                    at = keep
                    if final:
                        self._name_foreign()
                        self._found(at)
                    break
                self._lost_captured += _captured(at, verdict.start, part.holes)
                at = verdict.start
                if verdict.heuristic:
                    self._heuristic_until = verdict.decided
                self._floor = max(self._floor, stretch.release if verdict.by_end else part.release_at(verdict.decided - 1))
                if at - self._lost_at < MIN_STREAM_REQUEST:
                    self._known.no_doubt(self._floor)
                self._found(at)
            at, why = self._walk(part, at)
            if part.rows:
                self._recogniser = None
            if why == _MORE:
                break
            start = at
            if why == _HOLE:
                hole = int(np.searchsorted(part.holes[:, 1], at, "right"))
                start = int(part.holes[hole, 1])
            else:
                start += 1
            self._lose(at, _REASONS[why], part.release_at(at + HEADER - 1))
            self._lost_captured += _captured(at, start, part.holes)
            at = start
            self._trial = self._new_trial(start)
        if part.rows:
            parts.append(part)
        if final and self._trial is None and 0 < stretch.end - at < HEADER and self._name_foreign():
            self._pass_over(at, stretch.end, part.holes)
        elif final and self._trial is None and at < stretch.end:
            self._unfinished = _captured(at, stretch.end, part.holes)
            self.account.unfinished += self._unfinished
        if final:
            self._held = None
        elif at > stretch.offset or self._held is not stretch:
            self._held = stretch.rest(at)

    def _is_foreign(self, decided: int) -> bool:
        """Whether the direction began as another protocol, before stream offset ``decided`` said otherwise."""
        found = self._recogniser.certain() if self._recogniser is not None else None
        if found is None or found[1] > decided:
            return False
        self._reason = found[0]
        return True

    def _name_foreign(self) -> bool:
        """At the end of the direction: whether it was another protocol; that is then the reason for skipping all of it.

        Not earlier, because values may hold other protocols, and a capture that begins in one is still one of messages.
        """
        name = self._recogniser.name() if self._recogniser is not None else None
        if name is not None:
            self._reason = name
        return name is not None

    def _pass_over(self, start: int, end: int, holes: Column) -> None:
        """Bytes of another protocol."""
        self._lost_captured += _captured(start, end, holes)
        self._trial = self._recogniser = self._held = None
        self._foreign_end = end

    def _walk(self, part: _Part, at: int) -> tuple[int, int]:
        """Follows the headers from stream offset ``at``; returns where and why it stopped."""
        size = len(part.data)
        origin = part.offset
        if part.tables is None:
            part.tables = _Tables(part)
        tables, state = part.tables, part.tables.state
        memo = self._memo if len(self._memo) else np.full(_FIRST_MEMO, -1, np.int64)
        start, length, least, greatest, last, keys, key_row = tables.columns
        cut = tables.cut
        counts = np.zeros(4, np.int64)
        state[0] = at - origin
        segments = part.segments
        # messages are not known before they are walked; most are between 50 and a few hundred bytes
        why = int(
            frame_messages(
                (size - int(state[0])) // 150,
                part.data,
                tables.holes,
                tables.segments,
                segments.packet,
                segments.frame,
                MAX_BODY,
                _ROLES,
                memo,
                start,
                length,
                least,
                greatest,
                last,
                cut,
                keys,
                key_row,
                counts,
                state,
            )
        )
        count, new, events, need = counts.tolist()
        self._need = need
        if count:
            self._memo = memo
            start, length, least, greatest, last = (column[:count].copy() for column in tables.columns[:5])
            whole = cut[:count] == 0
            if new:
                if new > _FIRST_MEMO // 4 and len(self._memo) < _MEMO:
                    self._memo = np.full(_MEMO, -1, np.int64)
                self._known.learn(keys[:new].tolist(), np.maximum(segments.release[last[key_row[:new]]], self._floor).tolist())
            self._producing |= events > 0
            if not whole.all():
                for i in np.flatnonzero(~whole).tolist():
                    begin, end = origin + int(start[i]), origin + int(start[i] + length[i])
                    self.account.skip(_captured(begin, end, part.holes), HEADER_CUT)
                    self._skip(begin, end, HEADER_CUT)
                    if end - begin >= MIN_STREAM_REQUEST:
                        self._known.doubt(part.release_at(begin + HEADER - 1))
                start, length, least, greatest, last = start[whole], length[whole], least[whole], greatest[whole], last[whole]
            heuristic = (start + origin < self._heuristic_until).astype(np.int64)
            part.rows.append((start, length, least, greatest, last, heuristic, np.full(len(start), self._floor)))
        return origin + int(state[0]), why

    def _new_trial(self, start: int) -> Trial:
        return Trial(start, self._legal, self._known, producing=self._producing)

    def _lose(self, at: int, reason: str, release: int) -> None:
        self._lost_at, self._lost_captured, self._reason = at, 0, reason
        self._known.doubt(release)
        self._trial = self._new_trial(at)

    def _found(self, at: int) -> None:
        """The search is over at stream offset ``at``."""
        self._trial = None
        self.account.skip(self._lost_captured, self._reason)
        self._skip(self._lost_at, at, self._reason)

    def _skip(self, start: int, end: int, reason: str) -> None:
        if end > start:
            if self._skipped is None:
                self._skipped = []
            self._skipped.append((start, end, reason))
            if self.account.first_skipped is None:
                self.account.first_skipped = start

    def _end(self) -> None:
        self._ended = True
        if self._foreign_end is not None:
            self._found(self._foreign_end)
        elif self._trial is not None:
            self._name_foreign()
            self._found(self._trial.keep)
        self._recogniser = self._held = None
        self._memo = NO_NUMBERS

    def _framed(self, parts: list[_Part]) -> Framed | None:
        if not parts and not self._skipped and not self._unfinished:
            return None
        framed = joined([_framed_part(part) for part in parts])
        skipped = self._skipped or ()
        self._skipped = None
        unfinished, self._unfinished = self._unfinished, 0
        self.account.messages += int(framed.length.sum()) - int((framed.missing_end - framed.missing_start).sum())
        return replace(
            framed,
            skipped_start=np.array([start for start, _, _ in skipped], np.int64),
            skipped_end=np.array([end for _, end, _ in skipped], np.int64),
            skipped_reason=tuple(reason for _, _, reason in skipped),
            unfinished=unfinished,
        )


def _captured(start: int, end: int, holes: Column) -> int:
    """Bytes between two stream offsets that are in no hole."""
    if end <= start or not len(holes):
        return max(0, end - start)
    missing = np.minimum(holes[:, 1], end) - np.maximum(holes[:, 0], start)
    return end - start - int(missing[missing > 0].sum())


def _framed_part(part: _Part) -> Framed:
    start, length, least, greatest, last, heuristic, floor = (np.concatenate(columns) for columns in zip(*part.rows, strict=True))
    segments = part.segments
    hole, hole_end = part.holes[:, 0] - part.offset, part.holes[:, 1] - part.offset
    row = np.searchsorted(start, hole, "right") - 1
    inside = (row >= 0) & (hole < (start + length)[row]) if len(start) else np.zeros(len(hole), np.bool_)
    row = row[inside]
    return Framed(
        data=part.data,
        start=start,
        length=length,
        stream_offset=start + part.offset,
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
    """Follows the headers from ``state[0]``; returns why it stopped. One step a message and one a segment.

    ``least``, ``greatest``, ``last``: the segments of the least and the greatest packet that gave bytes, and of the last byte.
    ``cut``: 1 where the header is not whole. ``keys``: streams not in ``memo`` (a small hash table), of the messages ``key_row``.
    ``counts``: messages, keys, stream events, and the bytes wanted from ``state[0]`` on. ``state`` is kept between calls on the
    same data: place, hole, segment.
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
        if magic in (0x80, 0x08) and not is_cut:
            role = roles[data[at + 1]]
            if role != 0:
                if role == 2:
                    events += 1
                vbucket, opaque = be16(data, at + 6), be32(data, at + 12)
                key = (vbucket << 32) | opaque
                slot = (vbucket * 1021 + opaque + (opaque >> 12)) & (
                    len(memo) - 1
                )  # opaques are often the vbucket, a counter, or a constant
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
