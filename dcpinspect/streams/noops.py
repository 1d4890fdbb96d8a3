"""Noops, by which producers ask whether consumers are there: noops without an answer, and producers
that say nothing at all.

Every answer has the opaque of its noop, and no noop is sent before the last one is answered.
Messages of one direction are in order. The order of the two directions is only known to within the
longest time that an answer took. So what looks wrong is only reported once later messages of the
other direction show that it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Self

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.connections import noop_limit_ns
from dcpinspect.streams.examples import Examples
from dcpinspect.streams.followers import Follower, PerConnection
from dcpinspect.streams.noop_peers import (
    ANSWER,
    LOST,
    NOOP,
    OPAQUE,
    OTHER,
    SILENT,
    NoopCounts,
    NoopEvent,
    NoopEvents,
    NoopMessages,
    NoopTables,
    Peers,
    follow_noops,
)
from dcpinspect.streams.server_reports import MessagePosition
from dcpinspect.streams.session import Session, put_places
from dcpinspect.streams.state import ReadingState
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.tables.messages import MessageBatch

NEVER = (1 << 62) - 1
"""A time that nothing takes."""
MOST_KEPT = 32
"""Number of cases of a kind kept for a connection, as something may explain any of them."""
_EVENTS = 1024
"""Number of rows for events of the kernel, before the events are taken."""


class NoopFacts(NamedTuple):
    """What a ``NoopEvent`` says, as plain values."""

    time_ns: int
    opaque: int
    other_opaque: int
    at: MessagePosition
    other: MessagePosition

    @classmethod
    def from_event(cls, event: NoopEvent) -> NoopFacts:
        """Returns the plain values of an event."""
        message, other_message = event.message, event.other
        return cls(
            event.time,
            message.opaque,
            other_message.opaque,
            MessagePosition.from_record(message.place),
            MessagePosition.from_record(other_message.place),
        )


NoopExamples = Examples[NoopFacts]
"""What was found of one kind on one connection."""


class Noops(Follower):
    """The noops of all connections. Feed it with every batch, after the tracker's kernel has
    followed the messages.
    """

    travels = ("peers", "kept")

    def __init__(self) -> None:
        self.peers = Peers.zeros(0)
        self.kept: PerConnection[tuple[int, int], NoopExamples] = PerConnection()
        """What was found, by number of the connection and code of the event."""
        self.keeps_rows = False
        """Whether somebody wants the rows of everything that is found."""

    @classmethod
    def joined(cls, readings: Sequence[Self], connections: Sequence[IntArray]) -> Self:
        """Joins what is known of several readings, as in ``Follower``."""
        noops = super().joined(readings, connections)
        noops.peers = Peers.reset(
            1 + max((int(new_numbers.max(initial=0)) for new_numbers in connections), default=0)
        )
        for reading, new_numbers in zip(readings, connections, strict=True):
            count = min(len(new_numbers), len(reading.peers))
            noops.peers[new_numbers[1:count]] = reading.peers[1:count]
        return noops

    def feed(self, batch: MessageBatch, state: ReadingState, sessions: dict[int, Session]) -> None:
        """Takes a batch's messages; ``sessions``: what connections said of themselves so far."""
        self._meet(state, sessions, np.flatnonzero(np.bincount(batch.connection)))
        tables = NoopTables()
        tables.messages, tables.peers = _messages(batch, state), self.peers
        tables.events, tables.counts = NoopEvents.zeros(_EVENTS), NoopCounts.single()
        start, end = 0, len(tables.messages)
        while start < end:
            start = follow_noops(start, tables)
            self._keep(tables.events[: tables.counts.events])

    def leave(self, connections: Collection[int]) -> None:
        """Drops connections, as in ``Follower``."""
        super().leave(connections)
        met = np.flatnonzero(self.peers.limit)
        self._move(len(self.peers), met[~np.isin(met, list(connections))])

    def _move(self, rows: int, staying: IntArray) -> None:
        """Moves the peers to a table with so many rows; peers that do not stay take no memory."""
        table = Peers.zeros(rows)
        table[staying] = self.peers[staying]
        self.peers = table

    def _keep(self, events: NoopEvents) -> None:
        for number, code in sorted(
            {*zip(events.connection.tolist(), events.code.tolist(), strict=True)}
        ):
            indices = np.flatnonzero((events.connection == number) & (events.code == code))
            examples = self.kept.setdefault((number, code), Examples(MOST_KEPT))
            # the longest silence is the worst
            weights = events.time[indices] if code == SILENT else None
            examples.add_many(indices, lambda index: NoopFacts.from_event(events[index]), weights)
            if self.keeps_rows:
                message, other_messages = (
                    (events.other, events.message)
                    if code == OPAQUE
                    else (events.message, events.other)
                )
                other_times = np.where(other_messages.place.row, other_messages.place.time, 0)
                examples.keep(
                    message.place.row[indices], message.place.time[indices], other_times[indices]
                )

    def _meet(self, state: ReadingState, sessions: dict[int, Session], numbers: IntArray) -> None:
        if len(self.peers) < len(state.connections):
            self._move(len(state.connections), np.flatnonzero(self.peers.limit))
        met = numbers[self.peers.limit[numbers] == 0]
        new = Peers.reset(len(met))
        new.unseen = 1 - state.connections.is_known[met]
        new.limit, new.silence = np.full((2, len(met)), [[noop_limit_ns(Session())], [NEVER]])
        self.peers[met] = new
        self.peers.producer[numbers] = state.connections.producer[numbers]
        for number in [number for number in numbers.tolist() if number in sessions]:
            session, peer = sessions[number], self.peers[number]
            interval = session.noop_interval
            peer.limit = noop_limit_ns(session)
            is_known = interval is not None and session.control("enable_noop") == "true"
            # so long may a producer be silent that sends a noop every ``interval`` seconds
            peer.silence = max(PATIENCE_NS, int(2e9 * interval)) if interval and is_known else NEVER
            if is_known:
                peer.since = max(
                    session.controls[key].row for key in ("enable_noop", "set_noop_interval")
                )


def _messages(batch: MessageBatch, state: ReadingState) -> NoopMessages:
    decoded, losses = batch.decoded, batch.losses
    indices: RowNumbers | slice = slice(None)
    if len(losses):
        indices = np.arange(len(batch)) + np.searchsorted(
            losses.before, np.arange(len(batch)), side="right"
        )
    table = NoopMessages.zeros(len(batch) + len(losses))
    is_noop = (decoded.opcode == Opcode.DCP_NOOP) & ~decoded.is_server & decoded.has_magic
    table.code[indices] = np.where(is_noop, np.where(decoded.is_response, ANSWER, NOOP), OTHER)
    table.connection[indices] = batch.connection
    table.direction[indices] = batch.direction
    table.is_producers[indices] = _is_producers(
        batch.direction, state.producers(batch.connection, batch.row)
    )
    table.is_long[indices] = (batch.frame != batch.last_frame) | (batch.file != batch.last_file)
    rtt = batch.rtt_ns
    table.rtt[indices] = np.where(rtt.is_known, rtt.values, 0)
    table.arrival.opaque[indices] = decoded.opaque
    put_places(table.arrival.place, batch, slice(None), indices)
    lost = losses.before + np.arange(len(losses))
    table.code[lost] = LOST
    table.connection[lost] = losses.connection
    table.is_producers[lost] = _is_producers(
        losses.direction, state.producers(losses.connection, batch.row[losses.before] - 1)
    )
    return table


def _is_producers(direction: IntArray, producer: IntArray) -> IntArray:
    return np.where(producer < 0, -1, direction == producer)
