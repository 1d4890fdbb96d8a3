"""Flow control, message by message: how long windows stay full, what goes beyond them, and which
consumers count otherwise.

The producer counts what it sends on streams; the consumer acknowledges what it has taken off its
buffer. A consumer that acknowledges after whole messages shows how it counts them. Every sum that
it acknowledged so far is then the size of so many whole messages, by its way of counting. Ways that
do not fit are given up one after the other.

Each message that waits to be acknowledged is remembered as two numbers. There is a limit for each
connection and one for all; beyond them nothing is said about ways of counting.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from dcpinspect.arrays import IntArray, grown, unique
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.header import MAX_BODY
from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.streams import record_codes as k
from dcpinspect.streams.examples import Examples
from dcpinspect.streams.flow_windows import (
    EXCESS,
    OTHER_ANSWER,
    OVERRUN,
    STALL,
    TRUE,
    WAYS,
    Countings,
    FlowEvent,
    FlowEvents,
    FlowMessages,
    FlowTables,
    WaitingMessages,
    Window,
    fit_of,
    follow_flow,
)
from dcpinspect.streams.followers import Follower, PerConnection, Portable
from dcpinspect.streams.server_reports import MessagePosition
from dcpinspect.streams.session import put_places
from dcpinspect.streams.state import ReadingState
from dcpinspect.tables.messages import MessageBatch

MOST, MOST_OF_ALL = 1 << 18, 1 << 21
"""Greatest numbers of messages remembered that wait to be acknowledged, of one connection and of
all; 16 bytes each.
"""
TOO_SMALL = 100
"""An acknowledgement is small if it is less than this part of the window."""

_OF_DCP = opcodes_with(Trait.DCP)


class Pressure(NamedTuple):
    """A stall or an overrun, with the numbers of its ``FlowEvent``."""

    time_ns: int
    used: int
    window: int
    since_ack_ns: int
    at: MessagePosition
    ack: MessagePosition

    @classmethod
    def from_event(cls, event: FlowEvent) -> Pressure:
        """Returns the stall or overrun of an event."""
        return cls(
            event.time,
            event.used,
            event.window,
            event.since_ack,
            MessagePosition.from_record(event.at),
            MessagePosition.from_record(event.ack),
        )


class WindowWatcher(Portable):
    """The flow-control window of one connection."""

    travels = ("window", "ways", "stalls", "overruns", "is_limited")

    def __init__(self) -> None:
        self.window, self.ways = Window.single(), Countings.zeros(len(WAYS))
        self.waiting = WaitingMessages.zeros(0)
        self.stalls: Examples[Pressure] = Examples()
        self.overruns: Examples[Pressure] = Examples()
        self.excesses: Examples[MessagePosition] = Examples()
        """Acknowledgements of more than was counted: only their rows, if somebody wants them.
        ``window`` has the rest.
        """
        self.is_limited = False
        """Whether more messages waited to be acknowledged than are remembered."""

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"window": Window.as_bytes(self.window)}

    def __setstate__(self, saved_state: dict[str, Any]) -> None:
        super().__setstate__(saved_state | {"window": Window.of_bytes(saved_state["window"])})

    @property
    def fit(self) -> int:
        """The way of counting that fits if the right one does not; -1 for none."""
        return -1 if self.is_limited else fit_of(self.window, self.ways)

    @property
    def fits_nothing(self) -> bool:
        """Whether the acknowledgements are no sums of whole messages, by any way of counting."""
        return (
            not self.is_limited
            and not self.window.counted_before
            and not self.ways[TRUE].is_open
            and self.fit < 0
        )

    def follow(self, messages: FlowMessages, *, keeps_rows: bool = False) -> None:
        """Takes the next messages, for which there is room."""
        tables = FlowTables()
        tables.messages = messages
        tables.window = self.window
        tables.ways = self.ways
        tables.waiting = self.waiting
        tables.events = FlowEvents.zeros(2 + 3 * int((messages.kind == k.ACK).sum()))
        follow_flow(tables)
        events = tables.events[: self.window.events]
        for event in events:
            if event.code != EXCESS:
                (self.stalls if event.code == STALL else self.overruns).add(
                    Pressure.from_event(event), event.time or event.used
                )
            if event.code == STALL:
                self.stalls.add_span(event.ack.time - event.time, event.ack.time)
        if keeps_rows:
            for code, examples in (
                (STALL, self.stalls),
                (OVERRUN, self.overruns),
                (EXCESS, self.excesses),
            ):
                position = events[events.code == code].at
                examples.keep(position.row, position.time)


class FlowControl(Follower):
    """The flow control of all connections. Feed it with every batch, after the tracker's kernel has
    followed the messages.
    """

    travels = ("watched", "unasked")

    def __init__(self, limit: int = MOST, most_of_all: int = MOST_OF_ALL) -> None:
        """``limit``, ``most_of_all``: most messages remembered of a connection, and of all."""
        self.watched: PerConnection[int, WindowWatcher] = PerConnection()
        """The windows of connections that ever had one, by number of the connection."""
        self.unasked: PerConnection[int, Examples[MessagePosition]] = PerConnection()
        """Places of acknowledgements on connections without flow control, by connection."""
        self._most, self._most_of_all = limit, most_of_all
        self.keeps_rows = False
        """Whether somebody wants the rows of everything that is found."""
        self._has_window = np.zeros(0, dtype=np.bool_)
        self._slowest: IntArray = np.zeros(0, dtype=np.int64)
        """By connection: the slowest answer before there was a window, in nanoseconds."""
        self._total = 0

    def feed(self, batch: MessageBatch, state: ReadingState) -> None:
        """Takes the messages of a batch; ``state``: as the kernel left it."""
        messages, extras = state.messages, state.extras
        kind, connection = messages.kind, messages.connection
        is_window = kind == k.FACT
        is_window[is_window] = extras.setting[messages.detail[is_window]] == k.FACT_WINDOW
        if len(self._has_window) < len(state.connections):
            self._has_window = grown(self._has_window, len(state.connections))
            self._slowest = grown(self._slowest, len(state.connections))
        self._has_window[connection[is_window & (messages.window > 0)]] = True
        self._time_answers(batch)
        is_from_producer = messages.direction == state.producers(connection, messages.place.row)
        acks = ((kind == k.ACK) | (kind == k.UNREADABLE_ACK)) & ~is_from_producer
        self._take_unasked(np.flatnonzero(acks & (messages.window == 0)), state)
        if not self._has_window[connection].any():
            return
        is_said = (
            acks
            | is_window
            | (is_from_producer & ((kind >= k.END) | (kind == k.ANSWER) | (kind == k.NOOP)))
        )
        flow_messages, connections = self._messages(
            batch, state, np.flatnonzero(is_said & self._has_window[connection])
        )
        bounds = np.flatnonzero(np.diff(connections, prepend=-1, append=-1))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            self._follow(int(connections[low]), flow_messages[low:high])

    def leave(self, connections: Collection[int]) -> None:
        """Drops connections, as in ``Follower``."""
        self._total -= sum(
            len(watched.waiting)
            for number, watched in self.watched.items()
            if number in connections
        )
        super().leave(connections)

    def _time_answers(self, batch: MessageBatch) -> None:
        """Notes how long answers took on connections without a window: a window that is granted
        later begins with that tolerance.
        """
        rows = np.flatnonzero(batch.decoded.is_answer & ~self._has_window[batch.connection])
        if len(rows):
            rtt = batch.rtt_ns
            rows = rows[rtt.is_known[rows]]
            np.maximum.at(self._slowest, batch.connection[rows], rtt.values[rows].astype(np.int64))

    def _take_unasked(self, numbers: RowNumbers, state: ReadingState) -> None:
        connection = state.messages.connection[numbers]
        for number in unique(connection).tolist():
            unasked = numbers[connection == number]
            examples = self.unasked.setdefault(number, Examples())
            examples.add_many(
                unasked, lambda index: MessagePosition.from_record(state.messages[index].place)
            )
            if self.keeps_rows:
                message_places = state.messages.place
                examples.keep(message_places.row[unasked], message_places.time[unasked])

    def _messages(
        self, batch: MessageBatch, state: ReadingState, indices: RowNumbers
    ) -> tuple[FlowMessages, IntArray]:
        """Returns (messages for the kernel, connection of each), sorted by connection. ``indices``:
        numbers of messages that the kernel of streams read.
        """
        messages = state.messages[indices]
        index = batch.index_of(messages.place.row)
        other_messages, other_kind = self._unread_answers(batch, index, state)
        rows = np.concatenate((index, other_messages))
        flow_messages = FlowMessages.zeros(len(rows))
        acknowledged = slice(0, len(index))
        kind = np.concatenate((messages.kind, other_kind))
        flow_messages.kind = kind
        flow_messages.size[acknowledged] = messages.size
        flow_messages.balance[acknowledged] = messages.balance
        flow_messages.window[acknowledged] = messages.window
        is_ack = np.flatnonzero(messages.kind == k.ACK)
        flow_messages.given[is_ack] = state.extras.ack_bytes[messages.detail[is_ack]]
        answers = ((kind != k.ACK) & (kind < k.END)) | (kind > k.UNREADABLE)
        rtt = batch.rtt_ns
        is_timed = answers & rtt.is_known[rows]
        flow_messages.rtt = np.where(is_timed, rtt.values[rows], 0)
        uncounted = answers & (kind != k.FACT)
        flow_messages.size[uncounted] = batch.length[rows[uncounted]]
        flow_messages.detail = (
            kind
            | np.minimum(batch.decoded.framing_size[rows], 0xFFFF) << 8
            | _surplus(batch, rows) << 32
        )
        put_places(flow_messages.place, batch, rows)
        connections = batch.connection[rows]
        order = np.lexsort((rows, connections))
        return flow_messages[order], connections[order]

    def _unread_answers(
        self, batch: MessageBatch, index: RowNumbers, state: ReadingState
    ) -> tuple[RowNumbers, RowNumbers]:
        """Returns (rows, kinds) of answers that the kernel of streams does not read."""
        decoded = batch.decoded
        is_other = decoded.is_answer & self._has_window[batch.connection]
        is_other[index] = False
        rows: RowNumbers = np.flatnonzero(is_other)
        is_dcp = _OF_DCP[decoded.opcode[rows]] & (
            batch.direction[rows] == state.producers(batch.connection[rows], batch.row[rows])
        )
        return rows, np.where(is_dcp, OTHER_ANSWER, 0)

    def _follow(self, number: int, messages: FlowMessages) -> None:
        watched = self.watched.get(number)
        if watched is None:
            watched = self.watched[number] = WindowWatcher()
            watched.window.tolerance = int(self._slowest[number])
        for low in range(0, len(messages), self._most):
            chunk = messages[low : low + self._most]
            self._make_room(watched, len(chunk))
            watched.follow(chunk, keeps_rows=self.keeps_rows)
        used = watched.window.waiting
        if len(watched.waiting) > 1024 + 4 * used:
            self._total -= len(watched.waiting) - used
            watched.waiting = WaitingMessages.joined([watched.waiting[:used]])

    def _make_room(self, watched: WindowWatcher, size: int) -> None:
        """Makes room for ``size`` more messages; if there is none, gives up ways of counting."""
        window, ways = watched.window, watched.ways
        if window.waiting + size <= len(watched.waiting):
            return
        message_indices = ways.messages[ways.is_open == 1]
        done = int(message_indices.min()) if len(message_indices) else window.waiting
        kept_messages = watched.waiting[done : window.waiting]
        ways.messages -= done
        window.waiting = len(kept_messages)
        capacity = min(max(32, 2 * (len(kept_messages) + size)), self._most + size)
        self._total += capacity - len(watched.waiting)
        if len(kept_messages) > self._most or self._total > self._most_of_all:
            watched.is_limited, window.is_followed, window.waiting = True, 0, 0
            self._total -= capacity - size
            kept_messages, capacity = kept_messages[:0], size
        watched.waiting = WaitingMessages.joined(
            [kept_messages, WaitingMessages.zeros(capacity - len(kept_messages))]
        )


def _surplus(batch: MessageBatch, rows: RowNumbers) -> IntArray:
    """Returns by how many bytes each value grows when decompressed, as snappy's preamble says."""
    decoded = batch.decoded
    surplus = np.zeros(len(rows), dtype=np.int64)
    size = decoded.value.size[rows]
    packed = np.flatnonzero(
        (decoded.datatype[rows] & SNAPPY != 0) & (size > 0) & ~decoded.is_response[rows]
    )
    if not len(packed):
        return surplus
    size = size[packed]
    start = decoded.value.start[rows[packed]]
    length = np.zeros(len(packed), dtype=np.int64)
    goes_on = np.ones(len(packed), dtype=np.bool_)
    for index in range(5):
        goes_on &= index < size
        octet = batch.data[np.where(goes_on, start + index, start)].astype(np.int64)
        length += np.where(goes_on, (octet & 0x7F) << 7 * index, 0)
        goes_on &= octet >= 0x80
    surplus[packed] = np.clip(length, 0, MAX_BODY) - size
    return surplus
