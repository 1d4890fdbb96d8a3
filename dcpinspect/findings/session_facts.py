"""What several rule sets use while messages come: what each connection has negotiated, and the
places of its session's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import grown, unique
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import OPEN_FLAGS
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.followers import Follower, PerConnection
from dcpinspect.streams.session import SessionRecord
from dcpinspect.tables.messages import MessageBatch

(
    EXPIRIES,
    STREAM_IDS,
    SYNC_WRITES,
    OUT_OF_ORDER,
    MARKER_2_2,
    V7_STATUSES,
    METADATA,
    DELETE_TIMES,
    PROTOTYPE,
    UNORDERED,
    FACTS,
) = range(11)
_SETTINGS: Mapping[str, tuple[int, str]] = {
    "enable_expiry_opcode": (EXPIRIES, "true"),
    "enable_stream_id": (STREAM_IDS, "true"),
    "enable_sync_writes": (SYNC_WRITES, "true"),
    "enable_out_of_order_snapshots": (OUT_OF_ORDER, "true"),
    "max_marker_version": (MARKER_2_2, "2.2"),
    "v7_dcp_status_codes": (V7_STATUSES, "true"),
    "enable_ext_metadata": (METADATA, "true"),
}
"""The fact that each control changes, and the beginning of the value that means on."""
_OFF = ("false", "1.0")

UNKNOWN, OFF, ON = -1, 0, 1

_OPENED = {
    fact: next(bit.mask for bit in OPEN_FLAGS if bit.name == name)
    for fact, name in ((DELETE_TIMES, "include-delete-times"), (PROTOTYPE, "collections-prototype"))
}
"""Facts that flags of the open say."""
_UNORDERED = "UnorderedExecution"

Values = npt.NDArray[np.int8]


class SessionFacts(Follower):
    """What holds on every connection, carried from batch to batch."""

    def __init__(self) -> None:
        self._state: Values = np.full((16, FACTS), UNKNOWN, dtype=np.int8)
        self._is_met = np.zeros(16, dtype=np.bool_)
        self._asked: PerConnection[tuple[int, int], int] = PerConnection()
        """By connection and fact: what held before a control that has not been answered yet;
        meanwhile the fact is unknown.
        """
        self._changes: list[tuple[int, int, int, int]] = []
        """(row, connection, fact, value) of each change in the current batch."""
        self._before = self._state

    def feed(
        self,
        batch: MessageBatch,
        news: list[SessionRecord],
        producers: Callable[[RowNumbers, RowNumbers], RowNumbers],
    ) -> None:
        """Takes the news of a batch; ``news``: what the batch says of its connections;
        ``producers``: as in ``State``.
        """
        self._meet(batch)
        self._before, self._changes = self._state.copy(), []
        losses = batch.losses
        of_consumer = losses.direction != producers(losses.connection, batch.row[losses.before] - 1)
        holes = zip(
            losses.before[of_consumer].tolist(),
            losses.connection[of_consumer].tolist(),
            strict=True,
        )
        events: list[tuple[int, int, SessionRecord | int]] = [
            (row, 0, connection) for row, connection in holes
        ]
        events += [(item.index, 1, item) for item in news]
        for row, _, event in sorted(events, key=lambda item: item[:2]):
            if isinstance(event, SessionRecord):
                self._hear(row, event)
            else:
                self._forget(row, event)

    def values_at(self, fact: int, batch: MessageBatch, rows: RowNumbers) -> Values:
        """Returns what holds at each of these rows of the batch: UNKNOWN, OFF or ON."""
        connection = batch.connection[rows]
        fact_values: Values = self._before[connection, fact]
        changes = [
            (number * len(batch) + row, value)
            for row, number, changed_fact, value in self._changes
            if changed_fact == fact
        ]
        if not changes:
            return fact_values
        changes.sort(key=lambda change: change[0])
        keys = np.array([key for key, _ in changes], dtype=np.int64)
        last = np.searchsorted(keys, connection * len(batch) + rows, side="right") - 1
        is_changed = (last >= 0) & (keys[np.maximum(last, 0)] // len(batch) == connection)
        fact_values[is_changed] = np.array([value for _, value in changes], dtype=np.int8)[
            last[is_changed]
        ]
        return fact_values

    # -- one event

    def _meet(self, batch: MessageBatch) -> None:
        highest = int(batch.connection.max(initial=0))
        if highest >= len(self._state):
            self._state = grown(self._state, highest + 1, UNKNOWN)
            self._is_met = grown(self._is_met, highest + 1)
        is_new = ~self._is_met[batch.connection]
        for number in unique(batch.connection[is_new]).tolist() if is_new.any() else ():
            self._is_met[number] = True
            if batch.endpoints.has_handshake[number - 1]:
                self._state[number, [fact for fact, _ in _SETTINGS.values()]] = OFF

    def _set(self, row: int, connection: int, fact: int, value: int) -> None:
        if self._state[connection, fact] != value:
            self._state[connection, fact] = value
            self._changes.append((row, connection, fact, value))

    def _forget(self, row: int, connection: int) -> None:
        """Marks all controls of a connection as unknown."""
        for fact, _ in _SETTINGS.values():
            self._asked.pop((connection, fact), None)
            self._set(row, connection, fact, UNKNOWN)

    def _hear(self, row: int, news: SessionRecord) -> None:
        connection = news.connection
        if news.opcode == Opcode.HELLO:
            if news.status == Status.SUCCESS and news.asked is not None:
                self._set(row, connection, UNORDERED, ON if _UNORDERED in news.asked else OFF)
        elif news.opcode == Opcode.DCP_OPEN:
            if news.status == Status.SUCCESS and news.asked is not None:
                for fact, mask in _OPENED.items():
                    self._set(row, connection, fact, ON if news.asked & mask else OFF)
        elif news.asked is None:
            self._forget(row, connection)
        elif news.asked[0] in _SETTINGS:
            fact, on = _SETTINGS[news.asked[0]]
            value = news.asked[1]
            if news.status is None:
                self._asked.setdefault((connection, fact), int(self._state[connection, fact]))
                self._set(row, connection, fact, UNKNOWN)
                return
            before = self._asked.pop((connection, fact), UNKNOWN)
            if news.status == Status.SUCCESS:
                before = ON if value.startswith(on) else OFF if value in _OFF else UNKNOWN
            self._set(row, connection, fact, before)
