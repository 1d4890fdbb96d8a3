"""Which request a response answers.

A response repeats its request's opcode and opaque and nothing else, so requests wait in one queue
for each (connection, direction, opcode, opaque), first in, first out: clients reuse an opaque for
all they say about a vbucket, and both sides may use 0. Up to 65,536 requests of the reading wait;
with more, the oldest are forgotten, so memory does not grow with requests that are never answered.

Some messages have no answer unless they fail (mutations, stream ends, markers without the ack flag
…). They do not wait: only their newest vbucket is kept, for the error that may still come.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, grown, only
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.flags import ACK
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.request_queues import (
    ANSWERS,
    ASKS,
    CONTINUES,
    IGNORE,
    TELLS,
    PairTables,
    Slots,
    WaitingCounts,
    WaitingRequests,
    pair_requests,
)

WAITING = 1 << 16
"""Most requests of the reading that wait for an answer; a client has some thousands."""

SILENT = opcodes_with(Trait.UNANSWERED)
"""Commands that get no answer if they succeed."""

_NONE = -1


@dataclass(frozen=True, slots=True)
class RequestOfMessage:
    """The request that each message of a batch answers."""

    row: NumberColumn
    stream_offset: NumberColumn
    rtt_ns: NumberColumn
    """Time of the response less time of the request."""
    vbucket: NumberColumn
    """The vbucket of the request; also for errors about messages that need no answer, for which no
    row is given.
    """


class Origins(NamedTuple):
    """Where each message of a batch comes from."""

    connection: RowNumbers
    direction: RowNumbers
    stream_offset: RowNumbers
    time_ns: RowNumbers


class Requests:
    """The requests that wait, carried from batch to batch."""

    def __init__(self) -> None:
        self._tables = tables = PairTables()
        tables.slots = Slots.mapped(2 * WAITING)
        tables.waiting = WaitingRequests.mapped(WAITING)
        tables.times, tables.lost = np.zeros(64, np.int64), np.zeros(64, np.int64)
        tables.counts = WaitingCounts.single()
        tables.seed = int.from_bytes(os.urandom(4))

    def begin(self, connections: RowNumbers, are_known: BoolArray) -> None:
        """Adds connections. ``are_known``: nothing was said on them before the capture began. Call
        this before their messages.
        """
        self._make_room(int(connections.max(initial=0)))
        lost = self._tables.lost.reshape(-1, 2)
        lost[connections[~are_known]] |= lost[connections[~are_known]] == 0

    def leave(self, connections: Collection[int]) -> None:
        """Drops connections on which nothing comes any more."""
        tables = self._tables
        ways = np.flatnonzero(tables.times | tables.lost)
        ways = ways[~np.isin(ways >> 1, list(connections))]
        tables.times, tables.lost = only(tables.times, ways), only(tables.lost, ways)

    def pair(
        self, decoded: Decoded, origins: Origins, row: RowNumbers, after_loss: BoolArray
    ) -> RequestOfMessage:
        """Returns the request of every response; call this with the batches of a reading in order.

        ``after_loss``: messages before which bytes of their direction could not be read.
        """
        connection, direction, stream_offset, time_ns = origins
        total = len(decoded)
        self._make_room(int(connection.max(initial=0)))
        request_direction = np.where(decoded.is_response, 1 - direction, direction)
        key = (
            (connection << 10)
            | (request_direction << 9)
            | (decoded.is_server.astype(np.int64) << 8)
            | decoded.opcode
        )
        answered, offset, asked_at, vbucket = (
            np.full(total, _NONE, dtype=np.int64) for _ in range(4)
        )
        tables = self._tables
        tables.key = np.ascontiguousarray(key, dtype=np.int64)
        tables.flow = 2 * connection + direction
        tables.meaning = _meaning(decoded)
        tables.after_loss = after_loss.astype(np.int64)
        tables.opaque = decoded.opaque.view(np.int64)
        tables.row = row
        tables.offset = stream_offset
        tables.time = time_ns
        tables.vbucket = decoded.specific.view(np.int64)
        tables.request_row = answered
        tables.request_offset = offset
        tables.request_time = asked_at
        tables.request_vbucket = vbucket
        pair_requests(tables)
        has_row = answered != _NONE
        return RequestOfMessage(
            NumberColumn(answered, has_row),
            NumberColumn(offset, has_row),
            NumberColumn(time_ns - asked_at, has_row),
            NumberColumn(vbucket, vbucket != _NONE),
        )

    def _make_room(self, connection: int) -> None:
        tables = self._tables
        if len(tables.times) < 2 * (connection + 1):
            tables.times = grown(tables.times, 2 * (connection + 1))
            lost, tables.lost = tables.lost, np.zeros(len(tables.times), np.int64)
            ways = np.flatnonzero(lost)
            tables.lost[ways] = lost[ways]


def _meaning(decoded: Decoded) -> IntArray:
    opcode = decoded.opcode
    silent = SILENT[opcode] & ~decoded.is_server
    flags = decoded.numbers.get("snapshot_type")
    if flags is not None:
        wants_ack = (flags.values.astype(np.int64) & ACK) != 0
        silent &= ~((opcode == Opcode.DCP_SNAPSHOT_MARKER) & wants_ack)
    meaning = np.where(decoded.is_response, ANSWERS, np.where(silent, TELLS, ASKS)).astype(np.int64)
    more = (opcode == Opcode.STAT) & (decoded.body_size > 0) & (decoded.specific == Status.SUCCESS)
    more |= decoded.specific == Status.RANGE_SCAN_MORE
    meaning[decoded.is_response & ~decoded.is_server & more] = CONTINUES
    meaning[~decoded.has_magic] = IGNORE
    return meaning
