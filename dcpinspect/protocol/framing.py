"""Stream bytes to messages: where each begins, how long it is, which packets gave it, and what is
missing of it.

A ``Framer`` serves one direction of one connection and is in one of two states. *In sync*, the
current header says where the next one is; a hole in a body changes nothing about that. Sync is lost
by a byte that begins no message, by an impossible body, or by a hole over the part of a header that
says the length. Then a ``Trial`` (resync.py) finds the next message, and the bytes up to there are
reported as skipped. Nothing that was handed out is taken back, and nothing depends on how the
stream was cut into chunks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.protocol.foreign import Recogniser
from dcpinspect.protocol.framed import (
    BAD_MAGIC,
    HEADER_CUT,
    HOLE,
    MID_STREAM,
    NO_NUMBERS,
    Framed,
    FramingAccount,
    joined,
)
from dcpinspect.protocol.message_walk import Walk
from dcpinspect.protocol.resync import (
    HEADER,
    MIN_STREAM_REQUEST,
    TRIAL_NS,
    Headers,
    KnownStreams,
    LegalExtras,
    Trial,
    Verdict,
    default_legal_extras,
    plausible_headers,
)
from dcpinspect.protocol.stretch import Stretch, captured
from dcpinspect.transport.chunk import StreamChunk, StreamEntries

_FIRST_MEMO, _MEMO = 64, 4096
"""Number of streams that a direction remembers so that they need not be learned again: at first,
and once it carries many. Powers of two.
"""
_FILL_FREE, _FILL_RATIO = 256 << 20, 64
"""Zeros put into long holes of a direction: a fixed number, and a number for each byte captured.

A real capture stays far below the limit. A capture that claims 30 MiB with every packet reaches it,
and its messages are skipped.
"""


class Framer:
    """Frames one direction: ``feed`` every chunk of it in order; the chunk that ends the direction,
    or ``finish``, flushes.

    A capture may have very many directions in which nothing is framed, so a framer keeps little
    between chunks.
    """

    __slots__ = (
        "_account", "_begun", "_ended", "_filled", "_floor", "_foreign_end", "_held", "_heuristic_until", "_is_doubted", "_known", "_legal",
        "_lost_at", "_lost_captured", "_memo", "_need", "_producing", "_reason", "_recogniser", "_settled", "_skipped", "_trial",
        "_unfinished",
    )  # fmt: skip

    def __init__(
        self,
        legal: LegalExtras = default_legal_extras,
        known_streams: KnownStreams | None = None,
        *,
        is_doubted: bool = False,
    ) -> None:
        """``known_streams``: the streams of the connection; feed the client's direction first.

        ``is_doubted``: the stream may be of any protocol; it must begin with a header as plausible
        as one after a hole.
        """
        self._account: FramingAccount | None = None
        self._legal = legal
        self._known = known_streams if known_streams is not None else KnownStreams()
        self._memo = NO_NUMBERS  # made for the first message
        self._is_doubted = is_doubted
        self._held: Stretch | None = None
        self._need = HEADER
        self._begun = False
        self._ended = False
        self._producing = False
        self._trial: Trial | None = None
        self._recogniser: Recogniser | None = Recogniser()  # until the first message
        self._foreign_end: int | None = None  # up to here the bytes are of another protocol
        self._lost_at = 0
        self._lost_captured = 0  # captured bytes since then
        self._reason = MID_STREAM
        self._settled = -1  # stream offset up to which bytes were settled
        self._heuristic_until = -1
        self._floor = -1
        self._filled = 0
        self._skipped: list[tuple[int, int, str]] | None = None  # of the current chunk
        self._unfinished = 0

    @classmethod
    def resumed(
        cls, known_streams: KnownStreams, messages: int, release: int, *, is_producing: bool
    ) -> Framer:
        """Returns a framer that has framed so many bytes of messages from the first byte on, and
        nothing else; packet ``release`` brought the first. ``is_producing``: some of them are
        messages that a producer sends in streams.
        """
        framer = cls(known_streams=known_streams)
        framer._begun, framer._recogniser = True, None
        framer.account.messages = messages
        framer._producing = is_producing
        framer._known.begin(release)
        return framer

    @property
    def account(self) -> FramingAccount:
        """What became of the bytes so far."""
        if self._account is None:
            self._account = FramingAccount()
        return self._account

    @property
    def held_from(self) -> int | None:
        """Stream offset of the first fed byte that a message may still need, or None."""
        return None if self._held is None else self._held.offset

    def feed(self, chunk: StreamChunk) -> Framed | None:
        """Returns the messages that ``chunk`` completes; ``None`` if there is nothing to tell."""
        if self._ended:
            return None
        walks: list[Walk] = []
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
            self._skip_hole(chunk, walks)
            chunk = replace(chunk, holes=chunk.holes[1:])
        self._follow_chunk(chunk, walks, final=chunk.is_end)
        if chunk.is_end:
            self._end()
        return self._framed(walks)

    @property
    def is_on_trial(self) -> bool:
        """Whether bytes are held back until it is proven what they are."""
        return self._trial is not None

    def pass_time(self, time_ns: int) -> Framed | None:
        """Returns what a trial has found so far, once its bytes have waited for ``TRIAL_NS``. Only
        for live readings: the result depends on the time of the call.
        """
        held = self._held
        if self._trial is None or held is None or held.end == self._settled or self._ended:
            return None
        if time_ns - int(held.segments.packet.time[-1]) < TRIAL_NS:
            return None
        self._settled = held.end
        walks: list[Walk] = []
        self._frame_stretch(held, walks, final=False, settle=True)
        return self._framed(walks)

    def finish(self) -> Framed | None:
        """Returns what is left when no more chunks come; nothing after one that ended it."""
        if self._ended:
            return None
        walks: list[Walk] = []
        if self._held is not None:
            self._frame_stretch(self._held, walks, final=True)
        self._end()
        return self._framed(walks)

    def _follow_chunk(self, chunk: StreamChunk, walks: list[Walk], *, final: bool) -> None:
        if self._foreign_end is not None:
            self._skip_foreign(
                chunk.offset,
                chunk.offset + len(chunk.data),
                np.array(chunk.holes, np.int64).reshape(-1, 2),
            )
            return
        if self._held is None:
            if len(chunk.data) or (final and self._trial is not None):
                self._frame_stretch(Stretch(chunk), walks, final=final)
            return
        self._held.append(chunk)
        if self._held.size < self._need and self._trial is None and not final:
            if self._need > HEADER:
                self._held.collapse()
            return
        self._frame_stretch(self._held, walks, final=final)

    def _skip_hole(self, chunk: StreamChunk, walks: list[Walk]) -> None:
        """Steps over a hole too long to be filled: only the part is filled that the message, or the
        chains, before it reach into.
        """
        offset, end = chunk.holes[0]
        while offset < end and self._foreign_end is None:
            size = min(self._reach(offset), end) - offset
            if size <= 0 or self._filled + size > _FILL_FREE + _FILL_RATIO * (
                self.account.messages + self.account.skipped
            ):
                break
            self._filled += size
            segments = StreamEntries.joined([chunk.segments[:1]])
            segments.offset[0] = offset
            zeros = np.zeros(size, np.uint8)
            self._follow_chunk(
                StreamChunk(
                    chunk.connection,
                    chunk.direction,
                    offset,
                    zeros,
                    segments,
                    ((offset, offset + size),),
                ),
                walks,
                final=False,
            )
            offset += size
        if offset < end and self._foreign_end is None:
            held = self._held
            if self._trial is None:
                self._lose(
                    held.offset if held is not None else offset,
                    HOLE,
                    int(chunk.segments.release[0]),
                )
            if held is not None:
                self._lost_captured += captured(held.offset, held.end, held.holes())
                self._held = None
            self._trial = self._new_trial(end)

    def _reach(self, at: int) -> int:
        """Returns the stream offset up to which more bytes are needed before the current ones,
        which end at ``at``, can be told.
        """
        if self._trial is not None:
            return self._trial.reach
        return (at if self._held is None else self._held.offset) + self._need

    def _frame_stretch(
        self, stretch: Stretch, walks: list[Walk], *, final: bool, settle: bool = False
    ) -> None:
        """Frames the messages in ``stretch``, keeps the rest. ``settle``: a trial may end here."""
        walk = Walk(stretch)
        headers = Headers(walk.data, walk.offset, walk.holes, self._legal)
        offset = stretch.offset
        if self._is_doubted and (self._trial is not None or final or len(walk.data) >= HEADER):
            self._look_at_beginning(walk)
        while True:
            if self._trial is not None:
                verdict = self._trial.continue_with(
                    headers, walk.release_at, final=final, settle=settle
                )
                if self._is_foreign(verdict.decided if verdict else stretch.end):
                    self._skip_foreign(offset, stretch.end, walk.holes)
                    return
                if verdict is None:
                    offset = self._search_on(
                        walk,
                        offset,
                        stretch.end if final else max(offset, self._trial.keep),
                        final=final,
                    )
                    break
                offset = self._accept_verdict(walk, offset, verdict, stretch)
            offset, reason = self._follow(walk, offset)
            if walk.has_messages:
                self._recogniser = None
            if not reason:
                break
            offset = self._begin_trial(walk, offset, reason)
        if walk.has_messages:
            walks.append(walk)
        if final and self._trial is None and offset < stretch.end:
            self._leave_rest(walk, offset, stretch.end)
        if final:
            self._held = None
        elif offset > stretch.offset or self._held is not stretch:
            self._held = stretch.bytes_from(offset)

    def _look_at_beginning(self, walk: Walk) -> None:
        """Takes the beginning for no message if a stream that may be of any protocol does not begin
        with a plausible header.
        """
        self._is_doubted = False
        if self._trial is None and not len(plausible_headers(walk.data[:HEADER], self._legal)[0]):
            self._lose(
                walk.offset,
                BAD_MAGIC,
                walk.release_at(walk.offset + min(HEADER, len(walk.data)) - 1),
            )

    def _search_on(self, walk: Walk, at: int, keep: int, *, final: bool) -> int:
        """Gives up bytes from ``at`` to ``keep``, where a trial found nothing; returns the next."""
        self._lost_captured += captured(at, keep, walk.holes)
        if final:
            self._name_foreign()
            self._end_search(keep)
        return keep

    def _accept_verdict(self, walk: Walk, at: int, verdict: Verdict, stretch: Stretch) -> int:
        """Takes what a trial has decided; returns where the next message begins."""
        self._lost_captured += captured(at, verdict.start, walk.holes)
        self._heuristic_until = max(self._heuristic_until, verdict.proven)
        self._floor = max(
            self._floor, stretch.release if verdict.by_end else walk.release_at(verdict.decided - 1)
        )
        if verdict.start - self._lost_at < MIN_STREAM_REQUEST:
            self._known.no_doubt(self._floor)
        self._end_search(verdict.start)
        return verdict.start

    def _begin_trial(self, walk: Walk, at: int, reason: str) -> int:
        """Begins a trial behind ``at``, where there is no message; returns where it begins."""
        if reason == HOLE:
            start = int(walk.holes[int(np.searchsorted(walk.holes[:, 1], at, "right")), 1])
        else:
            start = at + 1
            if self._recogniser is None and at >= self._heuristic_until:
                self._mistrust(at, walk.data[at - walk.offset :][:HEADER].tobytes())
        self._lose(at, reason, walk.release_at(at + HEADER - 1))
        self._lost_captured += captured(at, start, walk.holes)
        self._trial = self._new_trial(start)
        return start

    def _leave_rest(self, walk: Walk, at: int, end: int) -> None:
        """Accounts for the last bytes of a direction, which are no whole message."""
        if end - at < HEADER and self._name_foreign():
            self._skip_foreign(at, end, walk.holes)
        else:
            self._unfinished = captured(at, end, walk.holes)
            self.account.unfinished += self._unfinished

    def _mistrust(self, at: int, header: bytes) -> None:
        """Notes a fault: messages went up to stream offset ``at``, and something else is there."""
        account = self.account
        # a later hole may have come with the same bytes
        is_whole = account.first_hole is None or at < account.first_hole
        if account.first_fault is None and is_whole and account.first_skipped is None:
            account.first_fault = (at, header)

    def _is_foreign(self, decided: int) -> bool:
        """Returns whether the direction began as another protocol, before stream offset ``decided``
        said otherwise.
        """
        foreign_protocol = self._recogniser.certain() if self._recogniser is not None else None
        if foreign_protocol is None or foreign_protocol[1] > decided:
            return False
        self._reason = foreign_protocol[0]
        return True

    def _name_foreign(self) -> bool:
        """Returns whether the direction was another protocol, at its end; that is then the reason
        for skipping all of it.

        This is not asked earlier, because values may hold other protocols, and a capture that
        begins in such a value is still one of messages.
        """
        name = self._recogniser.name() if self._recogniser is not None else None
        if name is not None:
            self._reason = name
        return name is not None

    def _skip_foreign(self, start: int, end: int, holes: IntArray) -> None:
        """Skips bytes of another protocol."""
        self._lost_captured += captured(start, end, holes)
        self._trial = self._recogniser = self._held = None
        self._foreign_end = end

    def _follow(self, walk: Walk, at: int) -> tuple[int, str]:
        """Follows the headers from stream offset ``at``; returns where and why it stopped."""
        memo = self._memo if len(self._memo) else np.full(_FIRST_MEMO, -1, np.int64)
        run = walk.follow(at, memo)
        self._need = run.need
        if run.rows.stop > run.rows.start:
            self._memo = memo
            if run.streams:
                if run.streams > _FIRST_MEMO // 4 and len(memo) < _MEMO:
                    self._memo = np.full(_MEMO, -1, np.int64)
                keys, releases = walk.new_streams(run)
                self._known.learn(keys.tolist(), np.maximum(releases, self._floor).tolist())
            self._producing |= run.events > 0
            for begin, end in walk.cut_off(run) if run.cut else ():
                self.account.skip(captured(begin, end, walk.holes), HEADER_CUT)
                self._note_skipped(begin, end, HEADER_CUT)
                if end - begin >= MIN_STREAM_REQUEST:
                    self._known.doubt(walk.release_at(begin + HEADER - 1))
            walk.keep(run, self._heuristic_until, self._floor)
        return run.end, run.why

    def _new_trial(self, start: int) -> Trial:
        return Trial(start, self._known, producing=self._producing)

    def _lose(self, at: int, reason: str, release: int) -> None:
        self._lost_at, self._lost_captured, self._reason = at, 0, reason
        self._known.doubt(release)
        self._trial = self._new_trial(at)

    def _end_search(self, at: int) -> None:
        """Ends the search at stream offset ``at``."""
        self._trial = None
        self.account.skip(self._lost_captured, self._reason)
        self._note_skipped(self._lost_at, at, self._reason)

    def _note_skipped(self, start: int, end: int, reason: str) -> None:
        if end > start:
            if self._skipped is None:
                self._skipped = []
            self._skipped.append((start, end, reason))
            if self.account.first_skipped is None:
                self.account.first_skipped = start

    def _end(self) -> None:
        self._ended = True
        if self._foreign_end is not None:
            self._end_search(self._foreign_end)
        elif self._trial is not None:
            self._name_foreign()
            self._end_search(self._trial.keep)
        self._recogniser = self._held = None
        self._memo = NO_NUMBERS

    def _framed(self, walks: list[Walk]) -> Framed | None:
        if not walks and not self._skipped and not self._unfinished:
            return None
        framed = joined([walk.framed() for walk in walks])
        skipped = self._skipped or ()
        self._skipped = None
        unfinished, self._unfinished = self._unfinished, 0
        self.account.messages += int(framed.length.sum()) - int(
            (framed.missing_end - framed.missing_start).sum()
        )
        return replace(
            framed,
            skipped_start=np.array([start for start, _, _ in skipped], np.int64),
            skipped_end=np.array([end for _, end, _ in skipped], np.int64),
            skipped_reason=tuple(reason for _, _, reason in skipped),
            unfinished=unfinished,
        )
