"""What a connection has negotiated so far that changes how later messages are read.

A fact holds from the row that shows it, in row order, so that the same capture reads the same in any
batches. Collections are *on* or *off* by HELLO, *off* when a connection is seen from its handshake and
nothing was granted, *unknown* when it begins in the middle, and *inferred* once something proves them:
a message that only exists with collections, or a key that begins with a byte no bare key begins with.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from dcpinspect.growing import grown
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.message import Collections, Context


class CollectionsState(IntEnum):
    """Whether document keys of a connection start with a collection id."""

    UNKNOWN = 0
    OFF = 1
    ON = 2
    INFERRED = 3


STATE_NAMES: tuple[Collections, ...] = ("unknown", "off", "on", "inferred")


_STATE, _UNDERLYING, _HAS_HELLO = range(3)
"""Columns of a connection. The state is -1 before it was met. Once the answer to a HELLO was seen, nothing that is missing later changes
what it granted."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a row tells of its connection."""

    row: int
    """Row of the batch."""
    connection: int
    collections: CollectionsState | None = None
    evidence: bool = False
    """It only counts while collections are unknown."""
    underlying_datatype: bool | None = None
    is_gap: bool = False
    """Something before it was not captured: a HELLO may have been there."""


class Sessions:
    """The state of every connection, carried from batch to batch."""

    def __init__(self) -> None:
        self._connections = np.full((64, 3), -1, np.int8)  # by number; it costs three bytes to have met one

    def begin(self, connection: int, *, handshake: bool) -> None:
        """A new connection, seen from its handshake or from the middle."""
        row = self._row(connection)
        if row[_STATE] < 0:
            row[:] = CollectionsState.OFF if handshake else CollectionsState.UNKNOWN, False, False

    def unknown(self, connections: Rows) -> npt.NDArray[np.bool_]:
        """For each of these connection numbers: are its collections still unknown?"""
        return self._of(connections, _STATE) <= CollectionsState.UNKNOWN

    def apply(self, connections: Rows, facts: list[Fact]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
        """(collections state, underlying datatype) of each row of a batch, whose facts come in row order.

        A fact holds from its own row on. Cost: rows x log(facts).
        """
        state = np.maximum(self._of(connections, _STATE), np.int8(CollectionsState.UNKNOWN))
        underlying = self._of(connections, _UNDERLYING) > 0
        if not facts:
            return state, underlying
        places: list[tuple[int, int]] = []
        states: list[int] = []
        flags: list[bool] = []
        for fact in facts:
            self.begin(fact.connection, handshake=False)
            row = self._row(fact.connection)
            if fact.collections is not None and not (fact.evidence and row[_STATE] != CollectionsState.UNKNOWN):
                row[_STATE] = fact.collections
                row[_HAS_HELLO] |= not fact.evidence
            if fact.is_gap and not row[_HAS_HELLO] and row[_STATE] == CollectionsState.OFF:
                row[_STATE] = CollectionsState.UNKNOWN
            if fact.underlying_datatype is not None:
                row[_UNDERLYING] = fact.underlying_datatype
            places.append((fact.connection, fact.row))
            states.append(int(row[_STATE]))
            flags.append(bool(row[_UNDERLYING]))
        rows = len(connections)
        keys = np.array([connection * rows + row for connection, row in places], dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        here = connections * rows + np.arange(rows, dtype=np.int64)
        last = np.searchsorted(keys, here, side="right") - 1
        owner = np.array([connection for connection, _ in places], dtype=np.int64)[order]
        known = (last >= 0) & (owner[np.maximum(last, 0)] == connections)
        state[known] = np.array(states, dtype=np.int8)[order][last[known]]
        underlying[known] = np.array(flags, dtype=np.bool_)[order][last[known]]
        return state, underlying

    def _row(self, connection: int) -> npt.NDArray[np.int8]:
        if connection >= len(self._connections):
            self._connections = grown(self._connections, connection + 1, -1)
        row: npt.NDArray[np.int8] = self._connections[connection]
        return row

    def _of(self, connections: Rows, column: int) -> npt.NDArray[np.int8]:
        self._row(int(connections.max(initial=0)))
        values: npt.NDArray[np.int8] = self._connections[:, column][connections]
        return values


class Settled(Sessions):
    """What was found out when the messages of a batch were decoded first, for decoding them again: nothing in them changes it."""

    def __init__(self, collections: npt.NDArray[np.int8], underlying_datatype: npt.NDArray[np.bool_]) -> None:
        super().__init__()
        self._rows = collections, underlying_datatype

    def unknown(self, connections: Rows) -> npt.NDArray[np.bool_]:
        """None is."""
        return np.zeros(len(connections), dtype=np.bool_)

    def apply(self, connections: Rows, facts: list[Fact]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:  # noqa: ARG002
        """The columns as they were."""
        return self._rows


def context(state: int, underlying_datatype: bool) -> Context:
    """The context that ``annotate`` wants for a row with this state."""
    return Context(STATE_NAMES[state], underlying_datatype)
