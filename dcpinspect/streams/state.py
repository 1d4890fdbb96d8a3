"""The tables of the tracker: what a kernel works on, how they grow, and how the tables of several
readings are joined.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.kernels.kernel import kernel_function
from dcpinspect.kernels.structs import StructRows, Tables
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.records import (
    LEAST,
    Anomalies,
    ByteLosses,
    CaptureHoles,
    ConnectionRows,
    EarlyAnswers,
    Gaps,
    Keys,
    Markers,
    MessageExtras,
    Messages,
    OsoSeqnos,
    Questions,
    Requests,
    RoleTurns,
    RowCounts,
    Snapshots,
    StreamAnswers,
    Streams,
)
from dcpinspect.streams.renumbering import RecordRows, in_order, renumbered_rows
from dcpinspect.temporary import zeros

ROOM = 8
"""Number of free rows in every table that is enough for any one message."""
EARLY_ANSWERS = 2048
"""Number of the latest answers remembered that came before their requests."""
_AT_ONCE = 1 << 14
"""Number of rows that get new numbers together."""
_FIRST_ROWS = 64
_FIRST_SLOTS = 256


class Details(NamedTuple):
    """What the messages of a batch carry, each kind in a table of its own."""

    requests: Requests
    answers: StreamAnswers
    markers: Markers
    holes: CaptureHoles
    extras: MessageExtras


class KnownTables(NamedTuple):
    """What is known so far: each table with its used rows only."""

    connections: ConnectionRows
    streams: Streams
    snapshots: Snapshots
    gaps: Gaps
    losses: ByteLosses


class NewNumbers(NamedTuple):
    """New numbers of a reading's records, by old numbers, once it is joined with others."""

    connections: IntArray
    """By number of the connection, which counts from 1; the first element is 0."""
    streams: IntArray
    snapshots: IntArray
    losses: IntArray


class ReadingState(Tables, Portable):
    """All tables of one reading; they grow with streams, snapshots, gaps and losses."""

    messages: Messages
    requests: Requests
    answers: StreamAnswers
    markers: Markers
    holes: CaptureHoles
    extras: MessageExtras
    connections: ConnectionRows
    slots: IntArray
    """Number of the key in each slot, by hash; -1 for none."""
    keys: Keys
    streams: Streams
    snapshots: Snapshots
    gaps: Gaps
    anomalies: Anomalies
    losses: ByteLosses
    oso_seqnos: OsoSeqnos
    turns: RoleTurns
    questions: Questions
    early_answers: EarlyAnswers
    counts: RowCounts
    seed: int
    """Secret start of hashes: peers choose vbuckets and stream-ids, but must not be able to choose
    which ones collide.
    """

    def __init__(self) -> None:
        for name, table in _GROWING.items():
            setattr(self, name, table.zeros(_FIRST_ROWS))
        self.counts = RowCounts.single()
        self.feed(*NOTHING)
        # of connection 0, which does not exist: no memory until written
        self.early_answers = EarlyAnswers.zeros(EARLY_ANSWERS)
        self.connections = ConnectionRows.zeros(0)
        self.slots = np.full(_FIRST_SLOTS, -1, np.int64)
        self.seed = secrets.randbits(31)

    def feed(self, messages: Messages, details: Details) -> None:
        """Takes the next batch. From now on anomalies and turns are those of this batch."""
        self.counts.anomalies = self.counts.turns = 0
        self.messages = messages
        self.requests, self.answers, self.markers, self.holes, self.extras = details

    def meet(self, numbers: IntArray, are_known: IntArray) -> None:
        """Adds connections; ``are_known``: 1 for each whose beginning was captured, else 0."""
        most = int(numbers.max(initial=0))
        if most >= len(self.connections):
            self._move_connections(max(16, most + 1, 2 * len(self.connections)), {})
        met = ConnectionRows.reset(len(numbers))
        met.is_known, met.is_met = are_known, np.ones(len(numbers), dtype=np.int64)
        met.end_on_close = met.oso = met.history = met.window = are_known - 1
        self.connections[numbers] = met

    def _move_connections(self, rows: int, numbers: Mapping[str, IntArray]) -> None:
        """Moves the connections to a table with so many rows; rows of connections that were not met
        take no memory.

        ``numbers``: new numbers of the rows of other tables, by table.
        """
        table, met = ConnectionRows.zeros(rows), np.flatnonzero(self.connections.is_met)
        table[met] = renumbered_rows(self.connections[met], numbers)
        self.connections = table

    def producers(self, connection: IntArray, row: IntArray) -> IntArray:
        """Returns the direction of the producer's messages, or -1, as it was known at messages of
        the latest batch.

        ``connection`` and ``row`` have one element for each message. What the message itself shows
        counts.
        """
        turns, producers = self.used(self.turns), self.connections.producer[connection]
        if not len(turns):
            return producers
        turns = turns[np.argsort(turns.connection, kind="stable")]
        first = np.searchsorted(turns.connection, connection)
        least = int(turns.row.min()) - 1  # keeps row numbers small
        span = int(turns.row.max()) - least + 1
        keys = turns.connection * span + (turns.row - least)
        past = np.searchsorted(
            keys, connection * span + np.clip(row - least, 0, span - 1), side="right"
        )
        later = np.minimum(first, len(turns) - 1)
        producers = np.where(turns.connection[later] == connection, turns.before[later], producers)
        return np.where(past > first, turns.after[past - 1], producers)

    def is_whole(self, connection: int) -> bool:
        """Returns whether a connection was captured from its handshake on, without any loss."""
        row = self.connections[connection]
        return row.is_known == 1 and not row.losses[0] and not row.losses[1]

    def unmet(self, connections: IntArray) -> IntArray:
        """Returns the numbers among ``connections`` that were not met yet, without repeats."""
        is_met = self.connections.is_met
        is_new = connections >= len(is_met)
        is_new[~is_new] = is_met[connections[~is_new]] == 0
        return unique(connections[is_new])

    def make_room(self) -> bool:
        """Grows every table that has fewer than ``ROOM`` free rows. Returns whether the slots of
        the keys have to be filled anew.
        """
        for name in _GROWING:
            self.make_room_in(name)
        if 2 * (self.counts.keys + ROOM) > len(self.slots):
            self.slots = np.full(2 * len(self.slots), -1, np.int64)
            return True
        return False

    def make_room_in(self, name: str) -> None:
        """Grows one table if it has fewer than ``ROOM`` free rows."""
        table, needed = getattr(self, name), getattr(self.counts, name) + ROOM
        if len(table) < needed:
            setattr(self, name, table.grown(needed))

    def add_gaps(self, gaps: Gaps) -> None:
        """Adds gaps that are only known once all messages of a snapshot are."""
        begin = self.counts.gaps
        self.counts.gaps += len(gaps)
        self.make_room_in("gaps")
        self.gaps[begin : self.counts.gaps] = gaps

    def leave(self, staying: Mapping[str, BoolArray]) -> dict[str, IntArray]:
        """Keeps some rows of tables, by name of the table. Returns by table the new number of each
        row, -1 for rows that left.

        What the latest batch says of these tables holds no longer. If keys leave, the caller has to
        fill the slots anew.
        """
        numbers = {
            name: np.where(stays, np.cumsum(stays) - 1, -1) for name, stays in staying.items()
        }
        for name in _GROWING:
            table_rows = self.used(getattr(self, name))
            table_rows = renumbered_rows(
                table_rows[staying[name]] if name in staying else table_rows, numbers
            )
            table = table_rows.zeros(max(_FIRST_ROWS, len(table_rows) + ROOM))
            table[: len(table_rows)] = table_rows
            setattr(self, name, table)
            setattr(self.counts, name, len(table_rows))
        self.early_answers = renumbered_rows(self.early_answers, numbers)
        if "keys" in staying:
            self.slots = np.full(
                max(_FIRST_SLOTS, 1 << (2 * (self.counts.keys + ROOM) - 1).bit_length()),
                -1,
                np.int64,
            )
        self._move_connections(len(self.connections), numbers)
        return numbers

    def unmeet(self, connections: IntArray) -> None:
        """Marks connections as over; their rows are free once something leaves the tables."""
        self.connections.is_met[connections[connections < len(self.connections)]] = 0

    def used(self, table: RecordRows) -> RecordRows:
        """Returns the used rows of a table that grows."""
        name = next(name for name, kind in _GROWING.items() if isinstance(table, kind))
        return table[: getattr(self.counts, name)]

    @property
    def known_tables(self) -> KnownTables:
        """What is known so far."""
        return KnownTables(
            self.connections,
            self.used(self.streams),
            self.used(self.snapshots),
            self.used(self.gaps),
            self.used(self.losses),
        )

    def __getstate__(self) -> dict[str, StructRows[Any]]:
        """Returns what is known, without what only the next messages would need."""
        return self.known_tables._asdict()

    def __setstate__(self, saved_state: dict[str, StructRows[Any]]) -> None:
        self.__init__()  # type: ignore[misc] # there is nothing yet
        self._know(saved_state)

    def _know(self, known_tables: Mapping[str, StructRows[Any]]) -> None:
        for name, table in known_tables.items():
            setattr(self, name, table)
            if name in _GROWING:
                setattr(self.counts, name, len(table))

    @classmethod
    def joined(
        cls,
        readings: Sequence[ReadingState],
        connections: Sequence[IntArray],
        filters: Sequence[IntArray],
        logs: Sequence[IntArray],
    ) -> tuple[Self, list[NewNumbers]]:
        """Joins the tables of readings of different connections to the tables of one reading of
        all.

        ``connections``, ``filters``, ``logs``: for each reading, the new numbers of its own ones.
        Returns the whole, which must not be fed, and for each reading the new numbers of its
        records.
        """
        known_tables = [reading.known_tables for reading in readings]
        # records are sorted by the row of the message that brought them
        orders = {
            "streams": in_order([reading.streams.begun_row for reading in known_tables]),
            "snapshots": in_order([reading.snapshots.place.row for reading in known_tables]),
            "gaps": in_order([reading.gaps.ends.row for reading in known_tables]),
            "losses": in_order([reading.losses.after_row for reading in known_tables]),
        }
        numbers = [
            NewNumbers(
                connection_numbers,
                *(orders[name][reading_number] for name in ("streams", "snapshots", "losses")),
            )
            for reading_number, connection_numbers in enumerate(connections)
        ]
        total = 1 + max(
            (int(new_numbers.connections.max(initial=0)) for new_numbers in numbers), default=0
        )
        joined_tables: dict[str, Any] = {
            name: _GROWING[name](zeros(sum(map(len, new_numbers)), _GROWING[name].dtype))
            for name, new_numbers in orders.items()
        }
        joined_tables["connections"] = ConnectionRows.reset(total)
        for number, reading in enumerate(known_tables):
            new_numbers = {
                **numbers[number]._asdict(),
                "filters": filters[number],
                "logs": logs[number],
            }
            for name, table in orders.items():
                table_rows = getattr(reading, name)
                for start in range(0, len(table_rows), _AT_ONCE):
                    rows_at_once = slice(start, start + _AT_ONCE)
                    joined_tables[name][table[number][rows_at_once]] = renumbered_rows(
                        table_rows[rows_at_once], new_numbers
                    )
            met = np.flatnonzero(reading.connections.is_met)
            joined_tables["connections"][connections[number][met]] = renumbered_rows(
                reading.connections[met], new_numbers
            )
        joined_state = cls()
        joined_state._know(joined_tables)
        return joined_state, numbers


_GROWING: Mapping[str, type[StructRows[Any]]] = {
    "streams": Streams,
    "keys": Keys,
    "snapshots": Snapshots,
    "gaps": Gaps,
    "anomalies": Anomalies,
    "losses": ByteLosses,
    "oso_seqnos": OsoSeqnos,
    "turns": RoleTurns,
    "questions": Questions,
}
"""The tables that grow, by their names in ``Counts``."""


NOTHING = (
    Messages.zeros(0),
    Details(
        Requests.zeros(0),
        StreamAnswers.zeros(0),
        Markers.zeros(0),
        CaptureHoles.zeros(0),
        MessageExtras.zeros(0),
    ),
)
"""A batch without messages."""


@kernel_function
def has_room(state: ReadingState) -> bool:
    """Returns whether every table has room for what any one message may bring."""
    return (
        len(state.streams) - state.counts.streams >= ROOM
        and len(state.keys) - state.counts.keys >= ROOM
        and len(state.slots) >= 2 * (state.counts.keys + ROOM)
        and len(state.snapshots) - state.counts.snapshots >= ROOM
        and len(state.gaps) - state.counts.gaps >= ROOM
        and len(state.anomalies) - state.counts.anomalies >= ROOM
        and len(state.losses) - state.counts.losses >= ROOM
        and len(state.oso_seqnos) - state.counts.oso_seqnos >= ROOM
        and len(state.turns) - state.counts.turns >= ROOM
        and len(state.questions) - state.counts.questions >= ROOM
    )


def biased(values: npt.NDArray[Any]) -> IntArray:
    """Returns seqnos in biased form, as kernels use them."""
    return (values.astype(np.uint64, copy=False) ^ np.uint64(1 << 63)).view(np.int64)


def plain(seqno: int | np.integer[Any]) -> int:
    """Returns one biased seqno as the seqno that was sent."""
    return int(seqno) - LEAST


def unbiased(values: IntArray) -> npt.NDArray[np.uint64]:
    """Returns biased seqnos as the seqnos that were sent."""
    return np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(1 << 63)
