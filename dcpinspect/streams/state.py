"""What the tracker remembers, as tables of integers: their columns, and how they grow.

Seqnos are *biased*: 2**63 less than they are, so that signed numbers of 64 bits compare as the unsigned ones do and kernels need no
second kind of number. A *place* is four columns that say where a message was: its row, stream offset, frame (with the number of its file
in the bits from 40 up) and capture time.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dcpinspect.streams.renumbering import in_order, joined_tables, renumbered

Table = npt.NDArray[np.int64]

LEAST = -(1 << 63)
"""Seqno 0."""
GREATEST = (1 << 63) - 1
"""Seqno 2**64 - 1."""
FILE_SHIFT = 40

PLACE = 4
AT_ROW, AT_OFFSET, AT_FRAME, AT_TIME = range(PLACE)

# -- what a batch gives to the kernel: one column a message, MESSAGE rows ---------------------------------------------------------

(
    M_KIND, M_CONNECTION, M_DIRECTION, M_VBUCKET, M_SID, M_OPAQUE, M_SEQNO, M_EXTRA, M_SIZE, M_STREAM, M_SNAPSHOT, M_STANDING,
    M_WINDOW, M_BALANCE, M_PLACE, _, _, _, MESSAGE,
) = range(19)  # fmt: skip
"""M_SEQNO: biased. M_EXTRA: entry in the table of extras, or a number that the kind needs. M_SIZE: bytes that flow control counts;
where a window is granted, those that it would have counted before. M_STREAM, M_SNAPSHOT, M_STANDING: the kernel writes them at events that
are of a stream: its number, that of its snapshot or -1, and the bits below. M_WINDOW, M_BALANCE: written at acknowledgements, windows and
what windows count: C_WINDOW, and the bytes that wait for an acknowledgement then, or ``LEAST`` where nobody knows."""
IS_EVENT, IS_SUSPENDED, IS_WHOLE, IS_ASKED = (1 << bit for bit in range(4))
"""Bits of M_STANDING: the message is an event of a stream; something was lost since the stream's last marker; nothing of the stream was
lost, from its answer on; its request was captured."""

(
    LOST, FACT, CLOSE, CLOSE_ANSWER, ANSWER, NOOP_ANSWER, MARKER_ANSWER, REQUEST, UNREADABLE_REQUEST, CONTROL, ACK, UNREADABLE_ACK,
    SEQNO_ACK, NOOP, FLUSH, END, MARKER, EVENT, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, SEQNO_ADVANCED, OSO, CACHE, CACHE_END, SET_STATE,
    UNREADABLE, KINDS,
) = range(1, 30)  # fmt: skip
"""Kinds of messages. From REQUEST to SEQNO_ACK: what only consumers send; from NOOP on, what only producers send; from END on, what flow
control counts. LOST is no message: bytes before the next one of its direction could not be read. UNREADABLE_REQUEST: of which there is the
header only. UNREADABLE_ACK: of so many bytes that nobody knows how many."""

EXTRA = 10
X_START, X_END, X_UUID, X_SNAPSHOT_START, X_SNAPSHOT_END, X_FLAGS, X_FORM, X_FILTER = range(8)
"""Extras of a request. X_FORM: 1 as now, 2 the 40 bytes of UPR, 0 where nobody can read it. X_FILTER: as S_FILTER."""
X_STATUS, X_ROLLBACK, X_LOG, X_REQUEST, X_RTT = range(5)
"""Extras of an answer. X_LOG: number of the failover log, or -1. X_REQUEST: row of the request, or -1."""
_, _, X_TYPE, X_LAYOUT, X_MAX_VISIBLE, X_HIGH_COMPLETED, X_PURGE, X_HIGH_PREPARED, X_PRESENT = range(9)
"""Extras of a marker, which begin with X_START and X_END. X_PRESENT: bits of the four seqnos that its layout has."""

# -- connections: number n at row n ---------------------------------------------------------------------------------------------------

(
    C_KNOWN, C_PRODUCER, C_LOSSES, _, C_LAST_LOSS, _, C_LAST_ROW, _, C_LAST_FRAME, _, C_ORPHANS,
    C_END_ON_CLOSE, C_OSO, C_HISTORY, C_WINDOW, C_WINDOW_LOSSES, _, C_COUNTED, C_ACKED, C_IS_BASED, C_SLOWEST, C_STREAMS, C_CLOSED_TIME,
    C_MARKERS_ACKED, C_OPAQUE, C_OPAQUE_KEY, C_SHARES_OPAQUES,
    C_NOOPS, C_NOOPS_ANSWERED, C_NOOP_ROW, C_NOOP_TIME, C_NOOP_SLOWEST, C_PRODUCER_TIME, C_TIME, _, C_MET, CONNECTION,
) = range(37)  # fmt: skip
"""C_KNOWN: seen from its handshake on. C_PRODUCER: direction of the producer's messages, or -1. C_LOSSES, C_LAST_LOSS, C_LAST_ROW,
C_LAST_FRAME: by direction. C_ORPHANS: accepted stream requests that were not captured. C_END_ON_CLOSE, C_OSO, C_HISTORY: 1 on, 0 off, -1
unknown. C_WINDOW: bytes, 0 for off, -1 for unknown; C_WINDOW_LOSSES: losses of each direction by then. C_IS_BASED: C_COUNTED and C_ACKED
have all since the window was granted. C_SLOWEST: longest answer time of a stream request so far. C_CLOSED_TIME: of the latest answer to a
close that was not captured. C_NOOP_ROW: of the noop under way. C_NOOP_SLOWEST: longest time that a noop waited for its answer. C_TIME:
latest capture time of a message, by direction. C_MET: it was met. C_OPAQUE, C_OPAQUE_KEY: of its newest stream; C_SHARES_OPAQUES: two
streams one after the other had the same opaque and different keys."""

# -- keys: (connection, vbucket, stream-id) ----------------------------------------------------------------------------------------------

K_CONNECTION, K_VBUCKET, K_SID, K_LIVE, K_PENDING, K_COUNT, K_WITH_SID, KEY = range(8)
"""K_LIVE: stream that messages belong to, or -1. K_PENDING: newest stream whose request has no answer yet, or -1. K_WITH_SID: of a key
without a stream-id, the newest stream of its vbucket that has one, or -1."""

# -- streams, in order of their opening ----------------------------------------------------------------------------------------------

(
    S_CONNECTION, S_VBUCKET, S_SID, S_ORDINAL, S_PREVIOUS, S_OPAQUE, S_STATE,
    S_START, S_END, S_UUID, S_SNAPSHOT_START, S_SNAPSHOT_END, S_FLAGS, S_FORM, S_FILTER,
    S_OPENED, _, _, _, S_ANSWERED, _, _, _, S_FINISHED, _, _, _, S_LATEST, _, _, _, S_AT, _, _, _,
    S_ANSWER, S_STATUS, S_ROLLBACK, S_LOG, S_PATIENCE, S_CLOSED_ROW, S_REASON,
    S_ITEMS, S_BYTES, S_SEEN, S_FIRST, S_LAST, S_MARKERS, S_SNAPSHOT, S_IN_OSO,
    S_HAS_POSITION, S_POSITION, S_POSITION_BY, S_POSITION_IN, S_POSITION_LOSSES, S_UNREADABLE,
    S_LOSSES, S_ORPHANS, S_SUSPENDED, S_DISORDER, S_WHOLE, S_DISK_END, S_ACKNOWLEDGED,
    S_ACKNOWLEDGED_AT, _, _, _, S_ASKED_BEFORE, S_WITH_SID_BEFORE,
    S_BEGUN_ROW, S_CLOSED_TIME, STREAM,
) = range(72)  # fmt: skip
"""S_OPENED, S_ANSWERED, S_FINISHED, S_LATEST, S_AT: places of the request or first message, the answer, the end, the latest message,
and the message that gave S_POSITION, the seqno up to which the stream has accounted for everything. S_FORM: 0 when the request was not
captured or cannot be read. S_FILTER: number of the parsed value of the request, -1 for none, or CUT_VALUE. S_SEEN: seqnos received.
S_POSITION_BY: what gave it. S_POSITION_LOSSES: the connection's losses by then, -1 where a message since could not be read (its row is
S_UNREADABLE).
S_SUSPENDED: something was lost since the last marker. S_DISORDER: what was lost may have begun an out-of-order snapshot. S_WHOLE: nothing
of it was lost, from its answer on. S_DISK_END: greatest end of a snapshot from disk. S_ACKNOWLEDGED: seqno up to which a replica has said
to have all prepares; S_ACKNOWLEDGED_AT: where. S_ASKED_BEFORE: stream of the request before this one of the same key that had no answer by
then, or -1. S_WITH_SID_BEFORE: stream before this one of the same vbucket that has a stream-id, or -1. S_BEGUN_ROW: of the
message that brought the stream here first; its request may have been read later. S_CLOSED_ROW, S_CLOSED_TIME: of the client's request to
close it."""

UNREAD_SEQNO = GREATEST
"""S_ROLLBACK where the answer is there, but not its seqno."""

CUT_VALUE = -2
"""S_FILTER where the request is there, but not all of it can be read: what it asks for, and the stream-id, nobody knows."""

BY_START, BY_EVENT, BY_ADVANCED, BY_END = range(4)

# -- snapshots, in order of their markers ------------------------------------------------------------------------------------------------

(
    N_STREAM, N_INDEX, N_START, N_END, N_FLAGS, N_LAYOUT, N_PLACE, _, _, _, N_CLOSED_ROW,
    N_MAX_VISIBLE, N_HIGH_COMPLETED, N_PURGE, N_HIGH_PREPARED, N_PRESENT,
    N_STATE, N_POSITION, N_ITEMS, N_SEEN, N_FIRST, N_LAST, N_REACHED, N_FIRST_EVENT, N_HAS_FIRST_EVENT, N_TAINTED, N_OVERLAPPED,
    N_ADVANCED, N_HAS_ADVANCED, N_BEFORE, N_HAS_BEFORE, N_LOSS, N_IS_MERGED, N_DISK_END, N_REACHED_TIME, N_ADVANCED_ROW,
    SNAPSHOT,
) = range(37)  # fmt: skip
"""N_LAYOUT: -1 for an out-of-order snapshot, which has no marker. N_SEEN: seqnos received. N_REACHED: the greatest of them inside the
range, LEAST for none. N_HAS_FIRST_EVENT: 1 known, 2 it may be lost. N_TAINTED: something was lost while it ran. N_OVERLAPPED: the next
marker began before its end. N_ADVANCED, N_ADVANCED_ROW: SeqnoAdvanced inside an out-of-order snapshot. N_BEFORE: position of the stream
when it began. N_LOSS: latest loss when a tainted out-of-order snapshot was complete. N_IS_MERGED: it began before the end of the one
before. N_DISK_END: S_DISK_END when it began. N_REACHED_TIME: capture time of the message that completed it."""

UPR_LAYOUT, OSO_LAYOUT = 0, -1

# -- gaps, anomalies, losses, and seqnos of out-of-order snapshots ------------------------------------------------------------------------

(
    G_STREAM, G_AFTER, G_BEFORE, G_FLAGS, G_SNAPSHOT, G_AFTER_AT, _, _, _, G_BEFORE_AT, _, _, _, G_LOSS, G_LOSSES, G_UNREADABLE, GAP,
) = range(17)  # fmt: skip
"""G_AFTER_AT, G_BEFORE_AT: places of the two messages. G_LOSS: latest loss between them, or -1; G_LOSSES: how many there are. G_UNREADABLE:
row of a message between them."""
G_IS_LOST, G_IS_ADVANCED, G_IS_TAIL, G_IN_RANGE, G_BOTH_EVENTS, G_NO_MARKER, G_FROM_START, G_AT_EDGE = (1 << bit for bit in range(8))
"""Bits of G_FLAGS: bytes between the two were lost; it ends with a SeqnoAdvanced; at the end of a snapshot; ``before`` is an event inside
its snapshot's range; both are events of that snapshot; the snapshot's marker was not captured; ``after`` is where the stream
began; it is that, or where a snapshot ended, or a seqno inside the range of its own."""

(
    E_CODE, E_CONNECTION, E_DIRECTION, E_STREAM, E_A, E_B, E_SNAPSHOT, E_PLACE, _, _, _, E_OTHER, _, _, _, ANOMALY,
) = range(16)  # fmt: skip
"""Of the latest batch. E_STREAM, E_SNAPSHOT: -1 for none. E_A, E_B: numbers that the code explains (biased seqnos, opaques). E_OTHER: place
of the earlier message of the same direction that this one contradicts, its row 0 for none."""

(
    L_CONNECTION, L_DIRECTION, L_START, L_END, L_BEFORE_ROW, L_BEFORE_FRAME, L_BEFORE_TIME, L_AFTER_ROW, L_AFTER_FRAME, L_AFTER_TIME,
    L_PREVIOUS, LOSS_COLUMNS,
) = range(12)  # fmt: skip
"""L_BEFORE_TIME, L_AFTER_TIME: capture times between which the bytes were sent; the first is 0 where nothing was said before."""

O_SNAPSHOT, O_SEQNO, OSO_COLUMNS = range(3)

Q_ROW, Q_STREAM, QUESTION = range(3)
"""Stream requests, in order of their rows, and the stream that each of them opened, or proved to have opened."""

R_CONNECTION, R_OPAQUE, R_STATUS, R_ROLLBACK, R_LOG, R_PLACE, _, _, _, ORPHAN = range(10)
"""An answer to a stream request that had not been read by then: requests may be held back by a gap before them. R_CONNECTION: TAKEN once
it found its request; less the connection where the stream-id of that is not known."""
TAKEN = -1
ORPHANS = 2048
"""Such answers remembered, the latest ones."""

N_STREAMS, N_KEYS, N_SNAPSHOTS, N_GAPS, N_ANOMALIES, N_LOSSES, N_OSO, N_QUESTIONS, N_ORPHANS, COUNTS = range(10)

ROOM = 8
"""Free rows in every table that are enough for any one message."""

_OF_STREAMS = (S_PREVIOUS, S_ASKED_BEFORE, S_WITH_SID_BEFORE)
_OF_SNAPSHOTS = (S_SNAPSHOT, S_IN_OSO, S_POSITION_IN)
"""Columns of streams that count other streams, and snapshots. Whoever adds a column that counts something adds it to ``State.joined``."""


class Numbers(NamedTuple):
    """Which numbers the things of one reading have once it is joined with others, by their own."""

    connections: Table
    """From 1, as connections count; the first is 0."""
    streams: Table
    snapshots: Table
    losses: Table


_SIZES = (STREAM, KEY, SNAPSHOT, GAP, ANOMALY, LOSS_COLUMNS, OSO_COLUMNS, QUESTION)


class State:
    """All tables of one reading; they grow with streams, snapshots, gaps and losses."""

    def __init__(self) -> None:
        self.tables: list[Table] = [np.zeros((64, size), np.int64) for size in _SIZES]
        self.counts: Table = np.zeros(COUNTS, np.int64)
        self.orphans: Table = np.zeros((ORPHANS, ORPHAN), np.int64)  # of connection 0, which there is not: memory only where one is written
        self.connections: Table = np.zeros((0, CONNECTION), np.int64)
        self.slots: Table = np.full(256, -1, np.int64)
        # vbuckets and stream-ids are chosen by the peers: an unknown seed keeps them from choosing which ones collide
        self.seed = secrets.randbits(31)

    def meet(self, connection: int, *, known: bool) -> None:
        """A connection with this number is there; ``known``: nothing was said on it before the capture began."""
        if connection >= len(self.connections):
            more = max(16, connection + 1, 2 * len(self.connections)) - len(self.connections)
            self.connections = np.concatenate((self.connections, _nothing_of(more)))
        row = self.connections[connection]
        row[C_KNOWN], row[C_MET] = known, 1
        row[[C_END_ON_CLOSE, C_OSO, C_HISTORY, C_WINDOW]] = 0 if known else -1

    def unmet(self, connections: Table) -> list[int]:
        """Those of these numbers that were not met."""
        known = self.connections[:, C_MET]
        is_new = known[np.minimum(connections, len(known) - 1)] == 0 if len(known) else np.ones(len(connections), dtype=np.bool_)
        is_new |= connections >= len(known)
        return np.unique(connections[is_new]).tolist() if is_new.any() else []

    def make_room(self) -> bool:
        """Grows every table that has not ``ROOM`` free rows; whether the slots of the keys have to be filled anew."""
        for number in range(len(self.tables)):
            self.make_room_in(number)
        if 2 * (int(self.counts[N_KEYS]) + ROOM) > len(self.slots):
            self.slots = np.full(2 * len(self.slots), -1, np.int64)
            return True
        return False

    def make_room_in(self, number: int) -> None:
        """Grows one table, by its number among the counts, if it has not ``ROOM`` free rows."""
        table = self.tables[number]
        if len(table) - self.counts[number] < ROOM:
            # zeros that nobody has written yet take no memory
            self.tables[number] = np.zeros((2 * len(table), table.shape[1]), np.int64)
            self.tables[number][: len(table)] = table

    def rows(self, number: int) -> Table:
        """The used rows of a table, by its number among the counts."""
        return self.tables[number][: int(self.counts[number])]

    def __getstate__(self) -> dict[str, Table]:
        """What is known; not what only the next messages would need."""
        return {"connections": self.connections, **{name: self.rows(number) for name, number in _KEPT.items()}}

    def __setstate__(self, known: dict[str, Table]) -> None:
        self.__init__()  # type: ignore[misc] # there is nothing yet
        self.connections = known["connections"]
        for name, number in _KEPT.items():
            self.tables[number], self.counts[number] = known[name], len(known[name])

    @classmethod
    def joined(
        cls, parts: Sequence[State], connections: Sequence[Table], filters: Sequence[Table], logs: Sequence[Table]
    ) -> tuple[Self, list[Numbers]]:
        """The tables of readings of different connections as a reading of all has them, and the numbers that their things have in it.

        By reading, ``connections``, ``filters`` and ``logs``: the numbers of its own among all. It is not to be fed.
        """
        whole = cls()
        tables = {number: [part.rows(number) for part in parts] for number in _KEPT.values()}
        places = {number: in_order([rows[:, _ROW_OF[number]] for rows in tables[number]]) for number in tables}
        numbers = [
            Numbers(own, *(places[number][place] for number in (N_STREAMS, N_SNAPSHOTS, N_LOSSES))) for place, own in enumerate(connections)
        ]
        for place, of in enumerate(numbers):
            refers: dict[int, list[tuple[tuple[int, ...], Table]]] = {
                N_STREAMS: [
                    ((S_CONNECTION,), of.connections),
                    (_OF_STREAMS, of.streams),
                    (_OF_SNAPSHOTS, of.snapshots),
                    ((S_FILTER,), filters[place]),
                    ((S_LOG,), logs[place]),
                ],
                N_SNAPSHOTS: [((N_STREAM,), of.streams), ((N_LOSS,), of.losses)],
                N_GAPS: [((G_STREAM,), of.streams), ((G_SNAPSHOT,), of.snapshots), ((G_LOSS,), of.losses)],
                N_LOSSES: [((L_CONNECTION,), of.connections), ((L_PREVIOUS,), of.losses)],
            }
            for number, columns in refers.items():
                tables[number][place] = _renumbered_columns(tables[number][place], columns)
        for number, found in tables.items():
            whole.tables[number] = joined_tables(found, places[number], _SIZES[number])
            whole.counts[number] = len(whole.tables[number])
        whole.connections = _nothing_of(1 + max((int(of.connections.max(initial=0)) for of in numbers), default=0))
        for part, of in zip(parts, numbers, strict=True):
            met = np.flatnonzero(part.connections[:, C_MET])
            columns = [((C_LAST_LOSS, C_LAST_LOSS + 1), of.losses)]
            whole.connections[of.connections[met]] = _renumbered_columns(part.connections[met], columns)
        return whole, numbers


_KEPT = {"streams": N_STREAMS, "snapshots": N_SNAPSHOTS, "gaps": N_GAPS, "losses": N_LOSSES}
"""Tables that are looked at once the messages have been followed."""
_ROW_OF = {
    N_STREAMS: S_BEGUN_ROW,
    N_SNAPSHOTS: N_PLACE + AT_ROW,
    N_GAPS: G_BEFORE_AT + AT_ROW,
    N_LOSSES: L_AFTER_ROW,
}
"""Row of the message that brought each of them, whose order is theirs."""


def _nothing_of(count: int) -> Table:
    """Rows of connections that were not met."""
    rows = np.zeros((count, CONNECTION), dtype=np.int64)
    rows[:, [C_PRODUCER, C_LAST_LOSS, C_LAST_LOSS + 1, C_NOOP_ROW]] = -1
    return rows


def _renumbered_columns(table: Table, columns: Sequence[tuple[tuple[int, ...], Table]]) -> Table:
    table = table.copy()
    for own, numbers in columns:
        for column in own:
            table[:, column] = renumbered(table[:, column], numbers)
    return table


def biased(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Seqnos as kernels have them."""
    return (values.astype(np.uint64, copy=False) ^ np.uint64(1 << 63)).view(np.int64)


def unbiased(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Seqnos as they are."""
    return np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(1 << 63)
