"""What a connection has negotiated so far that changes how later messages are read.

A fact holds from the row that shows it, in row order, so that the same capture reads the same in
any batches. Collections are *on* or *off* by HELLO. They are *off* if a connection is seen from its
handshake and nothing was granted, and *unknown* if it begins in the middle. They are *inferred*
once something proves them: a message that only exists with collections, or a key that begins with a
byte no bare key begins with.

A connection is of the first generation (*upr*) from the first message in a layout that only the UPR
transport specification has. It is of the later ones (*dcp*) for good from the first message with
something that this specification lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, grown
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.message import Collections, Context, Generation
from dcpinspect.protocol.opcodes import Opcode, Trait


class CollectionsState(IntEnum):
    """Whether document keys of a connection start with a collection id."""

    UNKNOWN = 0
    OFF = 1
    ON = 2
    INFERRED = 3


STATE_NAMES: tuple[Collections, ...] = ("unknown", "off", "on", "inferred")


GENERATION_NAMES: tuple[Generation, ...] = ("unknown", "upr", "dcp")
GENERATION_UNKNOWN, UPR, LATER = range(3)
"""Generations of a connection; what is found out only ever raises them."""

ABOVE_ONE: Mapping[int, tuple[int, int]] = {
    Opcode.DCP_OPEN: (4, 4),
    Opcode.DCP_STREAM_END: (0, 4),
    Opcode.DCP_SNAPSHOT_MARKER: (16, 4),
}
"""(offset, size) of a number in the extras that is never above 1 in the first generation: open
flags, reason of an end, type of a marker.
"""

_ALSO_FIRST = (Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION, Opcode.DCP_SNAPSHOT_MARKER)
"""Events whose layout v1 the first generation has too. A marker with 20 bytes of extras is the
UPR_SNAPSHOT_MARKER of its second page.
"""
_NEVER_FIRST = {
    Opcode.HELLO,
    *(opcode for opcode in Opcode if Trait.DCP in opcode.traits and opcode >= Opcode.DCP_NOOP),
}
"""Commands that the first generation does not have. Its commands end before the noop, and newer
ones have greater numbers.
"""


def generation_of(layout: Layout) -> int:
    """Returns what a message in this layout says of the generation of its connection."""
    if layout.server:
        return GENERATION_UNKNOWN
    if layout.generation == "upr":
        return UPR
    if layout.opcode in _NEVER_FIRST:
        return LATER
    is_newer = layout.opcode in (Opcode.DCP_STREAM_REQ, Opcode.DCP_MUTATION) or (
        layout.opcode in _ALSO_FIRST and layout.generation != "v1"
    )
    return LATER if is_newer and layout.side == "request" else GENERATION_UNKNOWN


_STATE, _UNDERLYING, _HAS_HELLO, _GENERATION = range(4)
"""Columns of the state of a connection. The state is -1 before the connection was met. Once the
answer to a HELLO was seen, nothing that is missing later changes what it granted.
"""
_FROM_HANDSHAKE, _FROM_MIDDLE = (
    np.array([state, False, False, GENERATION_UNKNOWN], np.int8)
    for state in (CollectionsState.OFF, CollectionsState.UNKNOWN)
)


@dataclass(frozen=True, slots=True)
class SessionFact:
    """Something that a row tells of its connection."""

    row: int
    """Row of the batch."""
    connection: int
    collections: CollectionsState | None = None
    evidence: bool = False
    """Whether it only counts while collections are unknown."""
    underlying_datatype: bool | None = None
    generation: int = GENERATION_UNKNOWN
    is_gap: bool = False
    """Whether something before it was not captured: a HELLO may have been there."""


Held = tuple[npt.NDArray[np.int8], BoolArray, npt.NDArray[np.int8]]
"""For each row of a batch: collections state, underlying datatype, generation."""


class Sessions:
    """The state of every connection, carried from batch to batch."""

    def __init__(self) -> None:
        # by number; a connection takes four bytes
        self._connections = np.full((64, 4), -1, np.int8)

    def begin(self, connections: RowNumbers, has_handshake: BoolArray) -> None:
        """Begins connections, of which some may be known: they are seen from their handshake or
        from the middle.
        """
        new = self._values_of(connections, _STATE) < 0
        self._connections[connections[new]] = np.where(
            has_handshake[new, None], _FROM_HANDSHAKE, _FROM_MIDDLE
        )

    def unknown(self, connections: RowNumbers) -> BoolArray:
        """Returns, for each of these connections, whether its collections are still unknown."""
        return self._values_of(connections, _STATE) <= CollectionsState.UNKNOWN

    def may_be_first(self, connections: RowNumbers) -> BoolArray:
        """Returns, for each of these connections, whether nothing has shown that it is later than
        the first generation.
        """
        return np.asarray(self._values_of(connections, _GENERATION) != LATER, dtype=np.bool_)

    def apply(self, connections: RowNumbers, facts: list[SessionFact]) -> Held:
        """Returns what holds at each row of a batch, whose facts come in row order.

        A fact holds from its own row on. Cost: rows x log(facts).
        """
        state = np.maximum(self._values_of(connections, _STATE), np.int8(CollectionsState.UNKNOWN))
        underlying = self._values_of(connections, _UNDERLYING) > 0
        generation = np.maximum(
            self._values_of(connections, _GENERATION), np.int8(GENERATION_UNKNOWN)
        )
        if not facts:
            return state, underlying, generation
        fact_places: list[tuple[int, int]] = []
        fact_rows: list[list[int]] = []
        for fact in facts:
            row = self._row(fact.connection)
            if row[_STATE] < 0:
                row[:] = _FROM_MIDDLE
            if fact.collections is not None and not (
                fact.evidence and row[_STATE] != CollectionsState.UNKNOWN
            ):
                row[_STATE] = fact.collections
                row[_HAS_HELLO] |= not fact.evidence
            if fact.is_gap and not row[_HAS_HELLO] and row[_STATE] == CollectionsState.OFF:
                row[_STATE] = CollectionsState.UNKNOWN
            if fact.underlying_datatype is not None:
                row[_UNDERLYING] = fact.underlying_datatype
            row[_GENERATION] = max(row[_GENERATION], fact.generation)
            fact_places.append((fact.connection, fact.row))
            fact_rows.append(row.tolist())
        rows = len(connections)
        keys = np.array(
            [connection * rows + row for connection, row in fact_places], dtype=np.int64
        )
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        row_keys = connections * rows + np.arange(rows, dtype=np.int64)
        last = np.searchsorted(keys, row_keys, side="right") - 1
        owner = np.array([connection for connection, _ in fact_places], dtype=np.int64)[order]
        has_fact = (last >= 0) & (owner[np.maximum(last, 0)] == connections)
        after = np.array(fact_rows, dtype=np.int8)[order][last[has_fact]]
        state[has_fact] = after[:, _STATE]
        underlying[has_fact] = after[:, _UNDERLYING] > 0
        generation[has_fact] = after[:, _GENERATION]
        return state, underlying, generation

    def _row(self, connection: int) -> npt.NDArray[np.int8]:
        if connection >= len(self._connections):
            self._connections = grown(self._connections, connection + 1, -1)
        row: npt.NDArray[np.int8] = self._connections[connection]
        return row

    def _values_of(self, connections: RowNumbers, column: int) -> npt.NDArray[np.int8]:
        self._row(int(connections.max(initial=0)))
        return self._connections[:, column][connections]


class SettledSessions(Sessions):
    """The states found when the messages of a batch were first decoded, for decoding them again:
    nothing in the messages changes them.
    """

    def __init__(self, rows: Held) -> None:
        super().__init__()
        self._rows = rows

    def unknown(self, connections: RowNumbers) -> BoolArray:
        """Returns that no connection is unknown."""
        return np.zeros(len(connections), dtype=np.bool_)

    def may_be_first(self, connections: RowNumbers) -> BoolArray:
        """Returns that no connection has to be looked at."""
        return np.zeros(len(connections), dtype=np.bool_)

    def apply(self, connections: RowNumbers, facts: list[SessionFact]) -> Held:  # noqa: ARG002
        """Returns the columns as they were."""
        return self._rows


def context(state: int, underlying_datatype: bool, generation: int) -> Context:
    """Returns the context that ``annotate`` needs for a row with this state."""
    return Context(STATE_NAMES[state], underlying_datatype, GENERATION_NAMES[generation])
