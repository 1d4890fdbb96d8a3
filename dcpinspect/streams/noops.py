"""Noops, by which producers ask whether consumers are there: which were not answered, and producers that say nothing at all.

Every answer has the opaque of its noop, and no noop is sent before the one before is answered. The directions of a connection are in
order, one against the other only to within the longest time that an answer took: what looks wrong is told once later messages of the
other direction show that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.connections import noop_interval, noop_limit_ns
from dcpinspect.streams.examples import Examples
from dcpinspect.streams.places import AT_TIME, PLACE
from dcpinspect.streams.renumbering import by_connection
from dcpinspect.streams.rows import FILE_SHIFT
from dcpinspect.streams.session import Session
from dcpinspect.streams.state import State
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.tables.messages import MessageBatch

Table = npt.NDArray[np.int64]

NEVER = (1 << 62) - 1
"""A time that nothing takes."""
_EVENTS = 1024
"""Rows for what the kernel notices, before somebody looks at them."""

# -- what the kernel reads: one column a message -------------------------------------------------------------------------------------

D_CODE, D_CONNECTION, D_DIRECTION, D_OPAQUE, D_IS_LONG, D_RTT, D_PLACE, _, _, _, SAID = range(11)
OTHER, NOOP, ANSWER, LOST = range(4)
"""D_IS_LONG: it came in several packets, so that nobody knows when it began. LOST: bytes before the next message of the direction."""

# -- what is known of a connection ---------------------------------------------------------------------------------------------------

(
    P_PRODUCER, P_LIMIT, P_SILENCE, P_SINCE, P_SLOWEST, P_TOLERANCE, P_UNSEEN, P_OPEN_OPAQUE, P_OLDER_OPAQUE, P_IS_DOUBLE,
    P_CONSUMER_TIME, P_ANSWER_TIME, P_OPEN, _, _, _, P_OLDER, _, _, _, P_HEARD, _, _, _, P_VAGUE, _, _, _, P_VAGUE_OPAQUE, P_IS_WAITING,
    P_EXCUSED, PEER,
) = range(32)  # fmt: skip
"""P_LIMIT: longest time that an answer may take; P_SILENCE: longest time that the producer may say nothing, from row P_SINCE on.
P_SLOWEST: longest time that an answer to a noop took; P_TOLERANCE: that any answer took. P_UNSEEN: so many answers may still come to noops
that were not captured, or are no longer known. P_CONSUMER_TIME: of the consumer's latest message; P_ANSWER_TIME: of its latest answer.
Places, whose row is 0 where there is none: P_OPEN, the noop under way; P_OLDER, one before it that has no answer; P_HEARD, the producer's
latest message; P_VAGUE, an answer with another opaque, either to the older of the noops or to one that nobody has seen. P_IS_DOUBLE: the
noop under way was sent while P_OLDER waited, and nothing has excused it; an answer up to P_EXCUSED does. P_IS_WAITING: the last noop got
an answer with another opaque, so that the producer still waits, and sends no other."""

T_CODE, T_CONNECTION, T_TIME, T_A, T_B, T_PLACE, _, _, _, T_OTHER, _, _, _, EVENT = range(14)
UNANSWERED, OVERLAP, OPAQUE, SILENT = range(4)
"""Events: T_PLACE, with opaque T_A, waited T_TIME for its answer T_OTHER (row 0: none came); T_PLACE was sent while T_OTHER had no answer;
T_PLACE with opaque T_A was answered with T_B by T_OTHER; nothing was heard for T_TIME between T_PLACE and T_OTHER."""
ROOM = 3
"""Free rows for events that are enough for any one message."""


@inline
def tell(
    code: int, c: int, time_ns: int, a: int, b: int, peers: Ints, at: int, said: Ints, i: int, older: int, events: Ints, count: int
) -> int:
    """One more event: at the place ``at`` of connection ``c``, and message ``i``, or its place ``older`` where that is not -1."""
    events[count, T_CODE] = code
    events[count, T_CONNECTION] = c
    events[count, T_TIME] = time_ns
    events[count, T_A] = a
    events[count, T_B] = b
    for part in range(PLACE):
        events[count, T_PLACE + part] = peers[c, at + part]
        events[count, T_OTHER + part] = peers[c, older + part] if older >= 0 else said[D_PLACE + part, i]
    return count + 1


@inline
def patience(c: int, peers: Ints) -> int:
    """How long an answer may take before its absence is worth a word."""
    return int(max(peers[c, P_LIMIT], 10 * peers[c, P_SLOWEST]))


@inline
def forget_open(c: int, peers: Ints) -> None:
    """No noop is known to be under way."""
    peers[c, P_OPEN] = 0
    peers[c, P_OLDER] = 0
    peers[c, P_VAGUE] = 0
    peers[c, P_IS_DOUBLE] = 0


@inline
def tell_vague(c: int, at: int, asked: int, i: int, peers: Ints, said: Ints, events: Ints, count: int) -> int:
    """The noop at ``at`` never got its own answer, so the one with another opaque was for it."""
    waited = peers[c, P_VAGUE + AT_TIME] - peers[c, at + AT_TIME]
    opaque = peers[c, P_VAGUE_OPAQUE]
    count = tell(OPAQUE, c, waited, asked, opaque, peers, at, said, i, P_VAGUE, events, count)
    peers[c, P_VAGUE] = 0
    return count


@inline
def on_noop(i: int, said: Ints, peers: Ints, events: Ints, count: int) -> int:
    """The producer asks."""
    c, time_ns = said[D_CONNECTION, i], said[D_PLACE + AT_TIME, i]
    peers[c, P_IS_WAITING] = 0
    if peers[c, P_CONSUMER_TIME] > time_ns:  # a gap before it held it back: its answer may have been read already
        forget_open(c, peers)
        peers[c, P_UNSEEN] = max(peers[c, P_UNSEEN], 1)
        return count
    is_held_back = peers[c, P_OLDER] and peers[c, P_CONSUMER_TIME] < peers[c, P_OLDER + AT_TIME]  # the answers may be read later
    if is_held_back and peers[c, P_OPEN]:
        peers[c, P_UNSEEN] += 1
    elif peers[c, P_OLDER] and not is_held_back:
        waited = time_ns - peers[c, P_OLDER + AT_TIME]
        if waited > patience(c, peers) and peers[c, P_VAGUE]:
            count = tell_vague(c, P_OLDER, peers[c, P_OLDER_OPAQUE], i, peers, said, events, count)
        elif waited > patience(c, peers):
            count = tell(UNANSWERED, c, waited, peers[c, P_OLDER_OPAQUE], 0, peers, P_OLDER, said, i, -1, events, count)
            for part in range(PLACE):
                events[count - 1, T_OTHER + part] = 0
        else:
            peers[c, P_UNSEEN] += 1  # its answer may come, and it is forgotten
        peers[c, P_VAGUE] = 0
    peers[c, P_IS_DOUBLE] = 1 if peers[c, P_OPEN] and not peers[c, P_VAGUE] else 0
    peers[c, P_EXCUSED] = time_ns + peers[c, P_TOLERANCE]  # answers that come from now on are in question themselves
    for part in range(PLACE):
        if not is_held_back:
            peers[c, P_OLDER + part] = peers[c, P_OPEN + part]
        peers[c, P_OPEN + part] = said[D_PLACE + part, i]
    if not is_held_back:
        peers[c, P_OLDER_OPAQUE] = peers[c, P_OPEN_OPAQUE]
    peers[c, P_OPEN_OPAQUE] = said[D_OPAQUE, i]
    return count


@inline
def on_answer(i: int, said: Ints, peers: Ints, events: Ints, count: int) -> int:
    """The consumer answers."""
    c, opaque, time_ns = said[D_CONNECTION, i], said[D_OPAQUE, i], said[D_PLACE + AT_TIME, i]
    oldest = P_OLDER if peers[c, P_OLDER] else P_OPEN
    at, is_wrong = P_OPEN, False
    if peers[c, P_OLDER] and peers[c, P_OLDER_OPAQUE] == opaque:
        at = P_OLDER
    elif peers[c, P_OPEN] == 0 or (peers[c, P_OPEN_OPAQUE] != opaque and time_ns < peers[c, oldest + AT_TIME]):
        return count  # it answers one before
    elif peers[c, P_OPEN_OPAQUE] != opaque:
        if peers[c, P_UNSEEN] > 0:
            peers[c, P_UNSEEN] -= 1
            for part in range(PLACE):
                peers[c, P_VAGUE + part] = said[D_PLACE + part, i]
            peers[c, P_VAGUE_OPAQUE] = opaque
            peers[c, P_IS_DOUBLE] = 0
            return count
        is_wrong = True
        if oldest == P_OLDER and peers[c, P_VAGUE]:  # of two wrong answers, the first was to the first
            count = tell_vague(c, P_OLDER, peers[c, P_OLDER_OPAQUE], i, peers, said, events, count)
            peers[c, P_OLDER] = 0
            peers[c, P_IS_DOUBLE] = 0
        at = P_OLDER if peers[c, P_OLDER] else P_OPEN
        if time_ns < peers[c, at + AT_TIME]:
            return count
    waited = time_ns - peers[c, at + AT_TIME]
    asked = peers[c, P_OLDER_OPAQUE] if at == P_OLDER else peers[c, P_OPEN_OPAQUE]
    peers[c, P_IS_WAITING] = 1 if is_wrong else 0
    if is_wrong:
        count = tell(OPAQUE, c, waited, asked, opaque, peers, at, said, i, -1, events, count)
    elif waited > patience(c, peers):
        count = tell(UNANSWERED, c, waited, asked, 0, peers, at, said, i, -1, events, count)
    if at == P_OPEN:  # all before it have their answers
        peers[c, P_UNSEEN] = 0
    peers[c, P_VAGUE] = 0
    peers[c, P_ANSWER_TIME] = max(peers[c, P_ANSWER_TIME], time_ns)
    peers[c, P_SLOWEST] = max(peers[c, P_SLOWEST], waited)
    peers[c, at] = 0
    if at == P_OLDER:
        peers[c, P_IS_DOUBLE] = 0
    return count


@kernel("int64(int64, int64[:,::1], int64[:,::1], int64[:,::1], int64[::1])")
def follow_noops(start: int, said: Ints, peers: Ints, events: Ints, counts: Ints) -> int:
    """Takes what was said on all connections, from column ``start`` on; returns the one it stopped before for want of room, or their
    number. ``counts``: the number of events."""
    count = 0
    for i in range(start, said.shape[1]):
        if len(events) - count < ROOM:
            counts[0] = count
            return i
        c, d, code = said[D_CONNECTION, i], said[D_DIRECTION, i], said[D_CODE, i]
        is_producer = d == peers[c, P_PRODUCER]
        if code == LOST:
            peers[c, P_UNSEEN] = max(peers[c, P_UNSEEN], 1)
            if is_producer:
                peers[c, P_HEARD] = 0
            else:
                forget_open(c, peers)
            continue
        time_ns = said[D_PLACE + AT_TIME, i]
        peers[c, P_TOLERANCE] = max(peers[c, P_TOLERANCE], said[D_RTT, i])
        if is_producer:
            heard = max(peers[c, P_HEARD + AT_TIME], peers[c, P_ANSWER_TIME])
            is_timed = peers[c, P_HEARD] >= peers[c, P_SINCE] and peers[c, P_HEARD] and not said[D_IS_LONG, i]
            is_waiting = (
                peers[c, P_OPEN] or peers[c, P_UNSEEN] or peers[c, P_IS_WAITING]
            )  # for the answer to a noop, which may not have been captured
            if is_timed and time_ns - heard > peers[c, P_SILENCE] and not is_waiting:
                count = tell(SILENT, c, time_ns - heard, 0, 0, peers, P_HEARD, said, i, -1, events, count)
            for part in range(PLACE):
                peers[c, P_HEARD + part] = said[D_PLACE + part, i]
            if code == NOOP:
                count = on_noop(i, said, peers, events, count)
        else:
            if peers[c, P_IS_DOUBLE] and peers[c, P_OPEN] and time_ns > peers[c, P_EXCUSED]:
                opaques = peers[c, P_OPEN_OPAQUE], peers[c, P_OLDER_OPAQUE]
                count = tell(OVERLAP, c, 0, opaques[0], opaques[1], peers, P_OPEN, said, i, P_OLDER, events, count)
                peers[c, P_IS_DOUBLE] = 0
            peers[c, P_CONSUMER_TIME] = max(peers[c, P_CONSUMER_TIME], time_ns)
            if code == ANSWER:
                count = on_answer(i, said, peers, events, count)
    counts[0] = count
    return int(said.shape[1])


@dataclass(slots=True)
class Kept:
    """What was found on one connection."""

    unanswered: Examples[list[int]] = field(default_factory=Examples)
    overlaps: Examples[list[int]] = field(default_factory=Examples)
    opaques: Examples[list[int]] = field(default_factory=Examples)
    silences: Examples[list[int]] = field(default_factory=Examples)


class Noops:
    """Feed it with every batch, once the tracker's kernel has followed its messages."""

    def __init__(self) -> None:
        self.peers: Table = np.zeros((0, PEER), dtype=np.int64)
        self.kept: dict[int, Kept] = {}
        """By connection."""
        self._events: Table = np.zeros((_EVENTS, EVENT), dtype=np.int64)

    @classmethod
    def joined(cls, parts: Sequence[Noops], connections: Sequence[Table]) -> Self:
        """What was found in readings of different connections; ``connections``: by reading, the numbers of its own among all."""
        whole = cls()
        whole.kept = by_connection([deepcopy(part.kept) for part in parts], connections)
        whole.peers = _nobody(1 + max((int(of.max(initial=0)) for of in connections), default=0))
        for part, of in zip(parts, connections, strict=True):
            count = min(len(of), len(part.peers))
            whole.peers[of[1:count]] = part.peers[1:count]
        for number, kept in whole.kept.items():
            for few in (kept.unanswered, kept.overlaps, kept.opaques, kept.silences):
                for event in few.told:
                    event[T_CONNECTION] = number
        return whole

    def feed(self, batch: MessageBatch, state: State, sessions: dict[int, Session]) -> None:
        """``sessions``: what the connections have said of themselves by now."""
        self._meet(state, sessions, np.flatnonzero(np.bincount(batch.connection)).tolist())
        said = _said(batch)
        start, end, counts = 0, said.shape[1], np.zeros(1, dtype=np.int64)
        while start < end:
            start = int(follow_noops(end - start, start, said, self.peers, self._events, counts))
            self._keep(self._events[: int(counts[0])])

    def _keep(self, events: Table) -> None:
        for number, code in np.unique(events[:, [T_CONNECTION, T_CODE]], axis=0).tolist():
            mine = np.flatnonzero((events[:, T_CONNECTION] == number) & (events[:, T_CODE] == code))
            kept = self.kept.setdefault(number, Kept())
            few = (kept.unanswered, kept.overlaps, kept.opaques, kept.silences)[code]
            few.add_chosen([events[one].tolist() for one in few.chosen(mine)], len(mine))

    def _meet(self, state: State, sessions: dict[int, Session], numbers: list[int]) -> None:
        if len(self.peers) < len(state.connections):
            self.peers = np.concatenate((self.peers, _nobody(len(state.connections) - len(self.peers))))
        self.peers[:, P_PRODUCER] = state.connections.producer
        for number in numbers:
            session = sessions.get(number) or Session()
            interval = noop_interval(session)
            if not self.peers[number, P_LIMIT]:  # it is new
                self.peers[number, P_UNSEEN] = 1 - state.connections.is_known[number]
            self.peers[number, P_LIMIT] = noop_limit_ns(session)
            is_known = interval is not None and session.control("enable_noop") == "true"
            self.peers[number, P_SILENCE] = silence_ns(interval) if is_known and interval is not None else NEVER
            if is_known:
                self.peers[number, P_SINCE] = max(session.controls[key].row for key in ("enable_noop", "set_noop_interval"))


def _nobody(count: int) -> Table:
    """Rows of connections on which nothing was said."""
    rows = np.zeros((count, PEER), dtype=np.int64)
    rows[:, P_PRODUCER] = -1
    return rows


def silence_ns(interval: float) -> int:
    """How long a producer may say nothing that sends a noop in every interval of so many seconds."""
    return max(PATIENCE_NS, int(2e9 * interval))


def _said(batch: MessageBatch) -> Table:
    decoded, losses = batch.decoded, batch.losses
    at: Rows | slice = slice(None)
    if len(losses):
        at = np.arange(len(batch)) + np.searchsorted(losses.before, np.arange(len(batch)), side="right")
    said = np.zeros((SAID, len(batch) + len(losses)), dtype=np.int64)
    is_noop = (decoded.opcode == Opcode.DCP_NOOP) & ~decoded.is_server & decoded.has_magic
    said[D_CODE, at] = np.where(is_noop, np.where(decoded.is_response, ANSWER, NOOP), OTHER)
    places = (batch.row, batch.stream_offset, (batch.last_file << FILE_SHIFT) | batch.last_frame, batch.time_ns)
    for row, values in ((D_CONNECTION, batch.connection), (D_DIRECTION, batch.direction), (D_OPAQUE, decoded.opaque)):
        said[row, at] = values
    for part, values in enumerate(places):
        said[D_PLACE + part, at] = values
    said[D_IS_LONG, at] = (batch.frame != batch.last_frame) | (batch.file != batch.last_file)
    rtt = batch.rtt_ns
    said[D_RTT, at] = rtt.values if rtt.valid is None else np.where(rtt.valid, rtt.values, 0)
    lost = losses.before + np.arange(len(losses))
    said[D_CODE, lost] = LOST
    said[D_CONNECTION, lost], said[D_DIRECTION, lost] = losses.connection, losses.direction
    return said
