"""Flow control, message by message: how long windows stay full, what goes beyond them, and whose counting does not agree.

The producer counts what it sends on streams, the consumer acknowledges what it has taken off its buffer. A consumer that
acknowledges after whole messages shows how it counts them: every sum it has acknowledged so far is then the size of so many whole
messages, by its way of counting. Ways that do not fit are given up one after the other.

What waits to be acknowledged is remembered as two numbers a message, up to a limit for each connection and one for all; beyond them
nothing is said about ways of counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.header import HEADER_SIZE, MAX_BODY
from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.streams.columns import PREPARE_SURPLUS
from dcpinspect.streams.examples import Examples
from dcpinspect.streams.kinds import (
    ACK,
    ANSWER,
    END,
    FACT,
    FACT_WINDOW,
    KINDS,
    MARKER,
    NOOP,
    OSO,
    PREPARE,
    SEQNO_ADVANCED,
    SYSTEM_EVENT,
    UNREADABLE,
    UNREADABLE_ACK,
)
from dcpinspect.streams.places import AT_TIME, PLACE
from dcpinspect.streams.renumbering import by_connection
from dcpinspect.streams.rows import FILE_SHIFT, LEAST
from dcpinspect.streams.server_reports import At
from dcpinspect.streams.state import State
from dcpinspect.tables.messages import MessageBatch

Table = npt.NDArray[np.int64]

MOST, MOST_OF_ALL = 1 << 18, 1 << 21
"""Messages remembered of a connection that wait to be acknowledged, and of all connections; 16 bytes each."""
SHORTEST_NS = 1_000_000_000
"""A window that was full for less is nothing to talk about."""
TOO_SMALL = 100
"""An acknowledgement of less than this part of the window is a small one."""

ENOUGH = 3
"""Acknowledgements from which on a way of counting is believed."""
ENOUGH_WITHOUT = 4
"""The same where no way of counting fits."""

WAYS = (
    "true",
    "without-flex-frames",
    "without-seqno-advanced",
    "without-stream-end",
    "without-snapshot-marker",
    "without-oso-snapshot",
    "without-system-event",
    "without-prepare-surplus",
    "without-header",
    "decompressed-sizes",
    "stream-answers-counted",
    "answers-counted",
    "noops-counted",
)
"""Ways of counting, the right one first."""
TRUE = 0
_FLEX, _ADVANCED, _END, _MARKER, _OSO, _SYSTEM, _PREPARE, _HEADER, _INFLATED, _STREAM_ANSWERS, _ANSWERS, _NOOPS = range(1, len(WAYS))
OVER = range(_INFLATED, len(WAYS))
"""Those by which too much is acknowledged."""

_OF_DCP = opcodes_with(Trait.DCP)

OTHER_ANSWER = KINDS
"""Kind of the producer's answers that are of no stream; only ways of counting know it."""

# -- what the kernel reads: one column a message -------------------------------------------------------------------------------------

D_KIND, D_SIZE, D_EXTRA, D_BALANCE, D_WINDOW, D_DETAIL, D_PLACE, _, _, _, SAID = range(11)
"""D_SIZE: as flow control counts it; of messages that it does not count, their length. D_EXTRA: bytes acknowledged. D_DETAIL: kind,
size of the framing extras (from bit 8 on), and what the value is longer without compression (from bit 32 on)."""

# -- what is known of a connection ---------------------------------------------------------------------------------------------------

(
    V_IS_ON, V_WINDOW, V_BALANCE, V_COUNTED, V_BEFORE, V_TOLERANCE,
    V_ACKS, V_ACKED, V_AFTER, V_FELL, V_HALF, V_EVENT_TIME, V_IS_EXEMPT, V_FOLLOWS, V_USED, V_FIT,
    V_OVER_NEED, V_OVER_COUNT, V_OVER_ACKED, V_OVER_COUNTED, V_OVERRUN, V_OVERRUN_PEAK,
    V_FULL, _, _, _, V_ACK, _, _, _, V_MISSED, _, _, _, V_HALF_AT, _, _, _,
    V_OVER, _, _, _, V_OVER_FIRST, _, _, _, V_OVER_LAST, _, _, _, V_OVERRUN_AT, _, _, _, VIEW,
) = range(55)  # fmt: skip
"""V_IS_ON: the balance is known. V_BEFORE: bytes that the producer had counted before the window was granted. V_TOLERANCE: longest answer
time, by which the two directions may be out of step. V_AFTER: balance after the latest acknowledgement; V_FELL: it was less than after
the one before, once. V_HALF: acknowledgements that came when more than half of the window was used. V_EVENT_TIME: time since when nothing
was counted nor acknowledged. V_IS_EXEMPT: the window became smaller than what was used. V_FOLLOWS: ways of counting are held against
acknowledgements. V_FIT: the way that was found before the window was granted anew, or -1. V_OVER_NEED: what has to be counted to make good
an acknowledgement of more than was; 0 for none. V_OVERRUN: balance before a message that goes beyond the window unless acknowledgements
under way make room; 0 for none. Places: V_FULL, of the latest counted message; V_ACK, of the latest acknowledgement; V_MISSED, of the first
that is no sum of whole messages; V_HALF_AT, of the first of V_HALF; V_OVER, V_OVERRUN_AT, of what V_OVER_NEED and V_OVERRUN are about."""

W_IS_OPEN, W_AT, W_SUM, W_LANDED, W_AFFECTED, W_LESS, WAY = range(7)
"""Of a way of counting: nothing speaks against it; messages, and their size, that are acknowledged by it; acknowledgements that are
such a sum; messages that it counts otherwise, and by how much less."""

T_CODE, T_TIME, T_A, T_B, T_C, T_FULL, _, _, _, T_ACK, _, _, _, EVENT = range(14)
STALL, OVERRUN = range(2)
"""Events: a window was full for T_TIME with T_A of T_B bytes used, the last acknowledgement T_C before its end, -1 for never; a message
at T_FULL began, and T_A of T_B bytes were used at last."""


@inline
def put_place(said: Ints, i: int, target: Ints, at: int) -> None:
    """Copies the place of message ``i``."""
    for part in range(PLACE):
        target[at + part] = said[D_PLACE + part, i]


@inline
def size_by(way: int, size: int, detail: int) -> int:
    """Size of a message by a way of counting."""
    kind = detail & 0xFF
    if kind < END or kind > UNREADABLE:  # nothing that flow control counts
        if kind == NOOP:
            return size if way == _NOOPS else 0
        return size if way == _ANSWERS or (way == _STREAM_ANSWERS and kind == ANSWER) else 0
    if way == _FLEX:
        return size - ((detail >> 8) & 0xFFFF)
    if way == _PREPARE:
        return size - PREPARE_SURPLUS if kind == PREPARE else size
    if way == _HEADER:
        return size - HEADER_SIZE
    if way == _INFLATED:
        return size + (detail >> 32)
    is_left_out = (
        (way == _ADVANCED and kind == SEQNO_ADVANCED)
        or (way == _END and kind == END)
        or (way == _MARKER and kind == MARKER)
        or (way == _OSO and kind == OSO)
        or (way == _SYSTEM and kind == SYSTEM_EVENT)
    )
    return 0 if is_left_out else size


@inline
def hold_against(acked: int, used: int, ways: Ints, waiting: Ints) -> int:
    """Holds a sum of acknowledgements against all ways of counting; the number of those that nothing speaks against."""
    left = 0
    for way in range(len(ways)):
        if ways[way, W_IS_OPEN] == 0:
            continue
        while ways[way, W_AT] < used:
            size, detail = waiting[ways[way, W_AT], 0], waiting[ways[way, W_AT], 1]
            counted, true = size_by(way, size, detail), size_by(TRUE, size, detail)
            if counted and ways[way, W_SUM] >= acked:  # what is left out never will be acknowledged, and is passed over at once
                break
            ways[way, W_SUM] += counted
            ways[way, W_LESS] += true - counted
            ways[way, W_AFFECTED] += 1 if counted != true else 0
            ways[way, W_AT] += 1
        if ways[way, W_SUM] == acked:
            ways[way, W_LANDED] += 1
        elif way != TRUE or ways[way, W_SUM] > acked:  # what is acknowledged by the right one may still have to be read
            ways[way, W_IS_OPEN] = 0
        left += ways[way, W_IS_OPEN]
    return left


@inline
def fit_of(view: Ints, ways: Ints) -> int:
    """The way of counting that fits every acknowledgement where the right one does not, or -1."""
    acks = view[V_ACKS]
    if view[V_FIT] >= 0:
        return int(view[V_FIT])
    if view[V_FOLLOWS] == 0 or acks < ENOUGH or ways[TRUE, W_LANDED] == acks:
        return -1
    for way in range(1, len(ways)):
        if ways[way, W_IS_OPEN] and ways[way, W_LANDED] == acks and ways[way, W_AFFECTED]:
            return int(way)
    return -1


@inline
def grant(i: int, said: Ints, view: Ints, ways: Ints) -> None:
    """Another window; where nothing waits to be acknowledged, all is counted from here on."""
    window, balance = said[D_WINDOW, i], said[D_BALANCE, i]
    if balance == 0:
        fit = fit_of(view, ways)
        view[V_FIT] = fit
        view[V_COUNTED] = 0
        view[V_FELL] = 0
        view[V_OVER_NEED] = 0
        if fit < 0:
            view[V_FOLLOWS] = 1 if window > 0 and said[D_SIZE, i] == 0 else 0
            view[V_ACKS] = 0
            view[V_ACKED] = 0
            view[V_HALF] = 0
            view[V_USED] = 0
            for way in range(len(ways)):
                for column in range(WAY):
                    ways[way, column] = 0
                ways[way, W_IS_OPEN] = 1
    view[V_BEFORE] = max(view[V_BEFORE], said[D_SIZE, i])
    view[V_TOLERANCE] = max(view[V_TOLERANCE], said[D_EXTRA, i])
    view[V_IS_ON] = 1 if window > 0 else 0
    view[V_IS_EXEMPT] = 1 if balance >= window else 0
    view[V_WINDOW] = window
    view[V_BALANCE] = balance
    view[V_OVERRUN] = 0
    view[V_EVENT_TIME] = said[D_PLACE + AT_TIME, i]


@inline
def settle_overrun(time_ns: int, given: int, view: Ints, events: Ints, count: int) -> int:
    """An acknowledgement of ``given`` bytes: it makes room for what seemed to go beyond the window, or came too late for that."""
    if view[V_OVERRUN] == 0:
        return count
    if time_ns <= view[V_OVERRUN_AT + AT_TIME] + view[V_TOLERANCE]:
        view[V_OVERRUN] -= given
        if view[V_OVERRUN] < view[V_WINDOW]:
            view[V_OVERRUN] = 0
        return count
    events[count, T_CODE] = OVERRUN
    events[count, T_A] = view[V_OVERRUN_PEAK]
    events[count, T_B] = view[V_WINDOW]
    for part in range(PLACE):
        events[count, T_FULL + part] = view[V_OVERRUN_AT + part]
        events[count, T_ACK + part] = view[V_ACK + part]
    view[V_OVERRUN] = 0
    return count + 1


@inline
def on_ack(i: int, said: Ints, view: Ints, ways: Ints, waiting: Ints, events: Ints, count: int) -> int:
    """The consumer acknowledges bytes."""
    time_ns, given, balance, before = said[D_PLACE + AT_TIME, i], said[D_EXTRA, i], said[D_BALANCE, i], view[V_BALANCE]
    count = settle_overrun(time_ns, given, view, events, count)
    if before >= view[V_WINDOW] and time_ns - view[V_EVENT_TIME] >= SHORTEST_NS:
        events[count, T_CODE] = STALL
        events[count, T_TIME] = time_ns - view[V_EVENT_TIME]
        events[count, T_A] = before
        events[count, T_B] = view[V_WINDOW]
        events[count, T_C] = time_ns - view[V_ACK + AT_TIME] if view[V_ACKS] > 0 else -1
        for part in range(PLACE):
            events[count, T_FULL + part] = view[V_FULL + part]
            events[count, T_ACK + part] = said[D_PLACE + part, i]
        count += 1
    if 2 * before > view[V_WINDOW]:
        if view[V_HALF] == 0:
            put_place(said, i, view, V_HALF_AT)
        view[V_HALF] += 1
    if view[V_ACKS] > 0 and balance < view[V_AFTER]:
        view[V_FELL] = 1
    view[V_AFTER] = balance
    view[V_ACKS] += 1
    view[V_ACKED] += given
    if view[V_OVER_NEED] == 0 and balance + view[V_BEFORE] < 0:
        view[V_OVER_NEED] = view[V_COUNTED] - balance - view[V_BEFORE]
        put_place(said, i, view, V_OVER)
    if view[V_FOLLOWS] and view[V_FIT] < 0:
        landed = ways[TRUE, W_LANDED]
        left = hold_against(view[V_COUNTED] - balance, view[V_USED], ways, waiting)
        if landed == view[V_ACKS] - 1 and ways[TRUE, W_LANDED] == landed:
            put_place(said, i, view, V_MISSED)
        if left == 0:
            view[V_FOLLOWS] = 0
            view[V_USED] = 0
    put_place(said, i, view, V_ACK)
    view[V_EVENT_TIME] = max(view[V_EVENT_TIME], time_ns)
    view[V_BALANCE] = balance
    return count


@inline
def on_counted(i: int, said: Ints, view: Ints) -> None:
    """The producer sends what its window counts."""
    time_ns, balance, before = said[D_PLACE + AT_TIME, i], said[D_BALANCE, i], view[V_BALANCE]
    settle_excess(time_ns, view)
    view[V_COUNTED] += said[D_SIZE, i]
    if view[V_OVER_NEED] and view[V_COUNTED] >= view[V_OVER_NEED]:
        view[V_OVER_NEED] = 0
    if before < view[V_WINDOW]:
        view[V_IS_EXEMPT] = 0
    elif view[V_IS_EXEMPT] == 0:
        if view[V_OVERRUN] == 0:
            view[V_OVERRUN] = before
            put_place(said, i, view, V_OVERRUN_AT)
        view[V_OVERRUN_PEAK] = balance
    put_place(said, i, view, V_FULL)
    view[V_EVENT_TIME] = max(view[V_EVENT_TIME], time_ns)
    view[V_BALANCE] = balance


@inline
def settle_excess(time_ns: int, view: Ints) -> None:
    """The producer's messages have come to ``time_ns``: what was acknowledged before without being sent by now never was."""
    if view[V_OVER_NEED] == 0 or time_ns <= view[V_OVER + AT_TIME] + view[V_TOLERANCE]:
        return
    if view[V_OVER_COUNT] == 0:
        for part in range(PLACE):
            view[V_OVER_FIRST + part] = view[V_OVER + part]
    if view[V_OVER_NEED] - view[V_COUNTED] >= view[V_OVER_ACKED] - view[V_OVER_COUNTED]:
        view[V_OVER_ACKED] = view[V_OVER_NEED] + view[V_BEFORE]
        view[V_OVER_COUNTED] = view[V_COUNTED] + view[V_BEFORE]
    for part in range(PLACE):
        view[V_OVER_LAST + part] = view[V_OVER + part]
    view[V_OVER_COUNT] += 1
    view[V_OVER_NEED] = 0


@kernel("int64(int64[:,::1], int64[::1], int64[:,::1], int64[:,::1], int64[:,::1])")
def follow_flow(said: Ints, view: Ints, ways: Ints, waiting: Ints, events: Ints) -> int:
    """Takes what was said on one connection; returns the number of events. ``waiting`` has room for every message."""
    count = 0
    for i in range(said.shape[1]):
        kind = said[D_KIND, i]
        if kind in (FACT, ACK, UNREADABLE_ACK) or END <= kind <= UNREADABLE:
            if said[D_BALANCE, i] == LEAST or (kind != FACT and view[V_IS_ON] == 0):
                view[V_IS_ON] = 0
                view[V_OVERRUN] = 0
                view[V_OVER_NEED] = 0
                continue
            if kind == FACT:
                grant(i, said, view, ways)
                continue
            if kind == ACK:
                count = on_ack(i, said, view, ways, waiting, events, count)
                continue
            on_counted(i, said, view)
        else:
            view[V_TOLERANCE] = max(view[V_TOLERANCE], said[D_EXTRA, i])
        if kind and view[V_IS_ON] and view[V_FOLLOWS] and view[V_FIT] < 0:
            waiting[view[V_USED], 0] = said[D_SIZE, i]
            waiting[view[V_USED], 1] = said[D_DETAIL, i]
            view[V_USED] += 1
    return int(count)


@dataclass(slots=True)
class Watched:
    """The window of one connection."""

    view: Table = field(default_factory=lambda: np.where(np.arange(VIEW) == V_FIT, -1, 0))
    ways: Table = field(default_factory=lambda: np.zeros((len(WAYS), WAY), dtype=np.int64))
    waiting: Table = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    stalls: Examples[list[int]] = field(default_factory=Examples)
    overruns: Examples[list[int]] = field(default_factory=Examples)
    is_limited: bool = False
    """More waited to be acknowledged than is remembered."""

    @property
    def fit(self) -> int:
        """The way of counting that fits where the right one does not, or -1."""
        return -1 if self.is_limited else int(fit_of(self.view, self.ways))

    @property
    def fits_nothing(self) -> bool:
        """The consumer's acknowledgements are no sums of whole messages, by any way of counting."""
        return not self.is_limited and not self.view[V_BEFORE] and not self.ways[TRUE, W_IS_OPEN] and self.fit < 0


class FlowControl:
    """Feed it with every batch, once the tracker's kernel has followed its messages."""

    def __init__(self, most: int = MOST, most_of_all: int = MOST_OF_ALL) -> None:
        """``most``, ``most_of_all``: messages remembered of a connection, and of all."""
        self.watched: dict[int, Watched] = {}
        """By connection, those that ever had a window."""
        self.unasked: dict[int, Examples[At]] = {}
        """By connection without flow control: places of acknowledgements."""
        self._most, self._most_of_all = most, most_of_all
        self._has_window = np.zeros(0, dtype=np.bool_)
        self._total = 0

    def __getstate__(self) -> dict[str, Any]:
        """What was found; not the messages that wait to be acknowledged, which only the next messages would need."""
        none = np.zeros((0, 2), dtype=np.int64)
        return {"watched": {number: replace(one, waiting=none) for number, one in self.watched.items()}, "unasked": self.unasked}

    def __setstate__(self, found: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc] # there is nothing yet
        self.watched, self.unasked = found["watched"], found["unasked"]

    @classmethod
    def joined(cls, parts: Sequence[FlowControl], connections: Sequence[Table]) -> Self:
        """What was found in readings of different connections; ``connections``: by reading, the numbers of its own among all."""
        whole = cls()
        whole.watched = by_connection([part.watched for part in parts], connections)
        whole.unasked = by_connection([part.unasked for part in parts], connections)
        return whole

    def feed(self, batch: MessageBatch, state: State) -> None:
        """``state``: as the kernel left it."""
        messages, extras = state.messages, state.extras
        kind, connection = messages.kind, messages.connection
        is_window = kind == FACT
        is_window[is_window] = extras.setting[messages.detail[is_window]] == FACT_WINDOW
        if len(self._has_window) < len(state.connections):
            more = len(state.connections) - len(self._has_window)
            self._has_window = np.concatenate((self._has_window, np.zeros(more, dtype=np.bool_)))
        self._has_window[connection[is_window & (messages.window > 0)]] = True
        producer = state.connections.producer
        is_from_producer = messages.direction == producer[connection]
        acks = ((kind == ACK) | (kind == UNREADABLE_ACK)) & ~is_from_producer
        self._take_unasked(np.flatnonzero(acks & (messages.window == 0)), state)
        if not self._has_window[connection].any():
            return
        is_said = acks | is_window | (is_from_producer & ((kind >= END) | (kind == ANSWER) | (kind == NOOP)))
        said, of = self._said(batch, state, np.flatnonzero(is_said & self._has_window[connection]))
        bounds = np.flatnonzero(np.diff(of, prepend=-1, append=-1))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            self._follow(int(of[low]), said[:, low:high])

    def _take_unasked(self, numbers: Rows, state: State) -> None:
        connection = state.messages.connection[numbers]
        for number in np.unique(connection).tolist():
            mine = numbers[connection == number]
            if state.connections.losses.array[number].any():
                continue  # a window may have been granted
            few = self.unasked.setdefault(number, Examples())
            few.add_chosen([At.of(state.messages[one].place) for one in few.chosen(mine)], len(mine))

    def _said(self, batch: MessageBatch, state: State, columns: Rows) -> tuple[Table, Table]:
        """(what the kernel reads, connection of each), sorted by connection."""
        messages = state.messages[columns]
        index = batch.index_of(messages.place.row)
        kind = messages.kind
        others, other_kind = self._others(batch, index, state.connections.producer)
        rows = np.concatenate((index, others))
        said = np.zeros((SAID, len(rows)), dtype=np.int64)
        mine = slice(0, len(index))
        said[D_KIND] = np.concatenate((kind, other_kind))
        for row, column in ((D_SIZE, messages.size), (D_BALANCE, messages.balance), (D_WINDOW, messages.window)):
            said[row, mine] = column
        is_ack = np.flatnonzero(kind == ACK)
        said[D_EXTRA, is_ack] = state.extras.ack_bytes[messages.detail[is_ack]]
        answers = (said[D_KIND] != ACK) & (said[D_KIND] < END) | (said[D_KIND] > UNREADABLE)
        rtt = batch.rtt_ns
        is_timed = answers if rtt.valid is None else answers & rtt.valid[rows]
        said[D_EXTRA, answers] = np.where(is_timed, rtt.values[rows], 0)[answers]
        uncounted = answers & (said[D_KIND] != FACT)
        said[D_SIZE, uncounted] = batch.length[rows[uncounted]]
        said[D_DETAIL] = said[D_KIND] | np.minimum(batch.decoded.framing_size[rows], 0xFFFF) << 8 | _surplus(batch, rows) << 32
        places = (batch.row, batch.stream_offset, (batch.last_file << FILE_SHIFT) | batch.last_frame, batch.time_ns)
        for part, values in enumerate(places):
            said[D_PLACE + part] = values[rows]
        of = batch.connection[rows]
        order = np.lexsort((rows, of))
        return np.ascontiguousarray(said[:, order]), of[order]

    def _others(self, batch: MessageBatch, index: Rows, producer: Table) -> tuple[Rows, Rows]:
        """(rows, kinds) of answers that the kernel of streams does not read."""
        decoded = batch.decoded
        is_other = decoded.is_response & ~decoded.is_server & decoded.has_magic & self._has_window[batch.connection]
        is_other[index] = False
        rows: Rows = np.flatnonzero(is_other)
        is_dcp = _OF_DCP[decoded.opcode[rows]] & (batch.direction[rows] == producer[batch.connection[rows]])
        return rows, np.where(is_dcp, OTHER_ANSWER, 0)

    def _follow(self, number: int, said: Table) -> None:
        watched = self.watched.setdefault(number, Watched())
        for low in range(0, said.shape[1], self._most):
            part = np.ascontiguousarray(said[:, low : low + self._most])
            self._make_room(watched, part.shape[1])
            events = np.zeros((1 + 2 * int((part[D_KIND] == ACK).sum()), EVENT), dtype=np.int64)
            count = follow_flow(part.shape[1], part, watched.view, watched.ways, watched.waiting, events)
            for event in events[:count].tolist():
                few = watched.stalls if event[T_CODE] == STALL else watched.overruns
                few.add(event, event[T_TIME] or event[T_A])
        used = int(watched.view[V_USED])
        if len(watched.waiting) > 1024 + 4 * used:
            self._total -= len(watched.waiting) - used
            watched.waiting = watched.waiting[:used].copy()

    def _make_room(self, watched: Watched, size: int) -> None:
        """Room for ``size`` messages more; where there is none, ways of counting are given up."""
        view, ways = watched.view, watched.ways
        used = int(view[V_USED])
        if used + size <= len(watched.waiting):
            return
        known = ways[ways[:, W_IS_OPEN] == 1, W_AT]
        done = int(known.min()) if len(known) else used
        kept = watched.waiting[done:used]
        ways[:, W_AT] -= done
        view[V_USED] = len(kept)
        room = min(max(256, 2 * (len(kept) + size)), self._most + size)
        self._total += room - len(watched.waiting)
        if len(kept) > self._most or self._total > self._most_of_all:
            watched.is_limited, view[V_FOLLOWS], view[V_USED] = True, 0, 0
            self._total -= room - size
            kept, room = kept[:0], size
        watched.waiting = np.concatenate((kept, np.zeros((room - len(kept), 2), dtype=np.int64)))


def _surplus(batch: MessageBatch, rows: Rows) -> Table:
    """How many bytes the value of each message is longer without compression, as the preamble of snappy says."""
    decoded = batch.decoded
    surplus = np.zeros(len(rows), dtype=np.int64)
    size = decoded.value.size[rows]
    packed = np.flatnonzero((decoded.datatype[rows] & SNAPPY != 0) & (size > 0) & ~decoded.is_response[rows])
    if not len(packed):
        return surplus
    size = size[packed]
    start = decoded.value.start[rows[packed]]
    length = np.zeros(len(packed), dtype=np.int64)
    goes_on = np.ones(len(packed), dtype=np.bool_)
    for at in range(5):
        goes_on &= at < size
        octet = batch.data[np.where(goes_on, start + at, start)].astype(np.int64)
        length += np.where(goes_on, (octet & 0x7F) << 7 * at, 0)
        goes_on &= octet >= 0x80
    surplus[packed] = np.clip(length, 0, MAX_BODY) - size
    return surplus
