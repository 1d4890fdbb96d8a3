"""Messages and bytes by command over time, in spans of equal length; the length is chosen from the
messages if none is given.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.errors import UsageError
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.message_statistics import command_name, command_of, command_side
from dcpinspect.tables.messages import SIDES, MessageBatch
from dcpinspect.tables.record_tables import ColumnValues, Records, RecordTable

IO = RecordTable(
    "io",
    columns(
        """
        time time: begin of the span
        relative_ns i64: the same, in nanoseconds since the first packet
        interval_ns i64: length of the span in nanoseconds
        name text: command
        side word: whether requests or responses are counted
        messages i64: messages in the span
        bytes i64: their bytes
        """,
        side=SIDES,
    ),
)
"""A row for each span and command with at least one message."""

MOST = 1_000_000
"""Greatest number of rows."""
ROWS = 50
"""Greatest number of spans if no length is given; there are at least about 20."""
_FINEST_NS = 1_000
_CODES = 1 << 10


class Intervals:
    """Counts the messages that it is fed with."""

    def __init__(self, interval_ns: int | None) -> None:
        """``interval_ns``: length of a span; None chooses 1, 2 or 5 of a unit, so that the messages
        lie in at most ``ROWS`` spans.
        """
        self._is_chosen = interval_ns is None
        self._unit_ns = _FINEST_NS if interval_ns is None else interval_ns
        self.origin_ns = 0
        self._keys: IntArray = np.empty(0, np.int64)  # combined number of span and command
        self._sums: IntArray = np.empty((0, 2), np.int64)

    def feed(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Counts these messages of a batch. Raises UsageError if that makes too many rows."""
        if not len(rows):
            return
        decoded, self.origin_ns = batch.decoded, batch.origin_ns
        command = command_of(
            decoded.opcode[rows], decoded.is_response[rows], decoded.is_server[rows]
        )
        since = batch.time_ns[rows] - batch.origin_ns
        while self._is_chosen and self._reach(since) > 10 * ROWS:
            self._coarsen(10)
        new = np.stack((np.ones(len(rows), np.int64), batch.length[rows]), axis=1)
        self._add_up(
            np.concatenate((self._keys, since // self._unit_ns * _CODES + command)),
            np.concatenate((self._sums, new)),
        )

    def _add_up(self, keys: IntArray, sums: IntArray) -> None:
        """Takes these counts, which may have several rows of one key."""
        self._keys, key_index = np.unique(keys, return_inverse=True)
        if len(self._keys) > MOST:
            raise UsageError(f"--interval: more than {MOST:,} rows; take a longer one")
        self._sums = np.zeros((len(self._keys), 2), np.int64)
        np.add.at(self._sums, key_index.reshape(-1), sums)

    @property
    def messages(self) -> int:
        """Number of messages that were counted."""
        return int(self._sums[:, 0].sum())

    @property
    def interval_ns(self) -> int:
        """Length of a span; after this was read, no more messages may be counted."""
        reach = self._reach(self._keys // _CODES * self._unit_ns)
        if self._is_chosen:
            self._coarsen(next(step for step in (1, 2, 5, 10) if reach <= step * ROWS))
            self._is_chosen = False
        return self._unit_ns

    def _reach(self, since: IntArray) -> int:
        """Returns the number of spans from the first message to the last, of the counted ones and
        those ``since`` the start.
        """
        spans = np.concatenate((self._keys // _CODES, since // self._unit_ns))
        return int(spans.max() - spans.min()) + 1 if len(spans) else 0

    def _coarsen(self, times: int) -> None:
        """Makes each span ``times`` as long."""
        self._unit_ns *= times
        spans, commands = self._keys // _CODES // times, self._keys % _CODES
        self._add_up(spans * _CODES + commands, self._sums)

    def records(self) -> Records:
        """Returns the counts in order of time."""
        interval_ns = self.interval_ns
        span, command = self._keys // _CODES, self._keys % _CODES
        relative = span * interval_ns
        columns: dict[str, ColumnValues] = {
            "time": NumberColumn(self.origin_ns + relative),
            "relative_ns": NumberColumn(relative),
            "interval_ns": NumberColumn(np.full(len(span), interval_ns)),
            "name": [command_name(code) for code in command.tolist()],
            "side": [command_side(code) for code in command.tolist()],
            "messages": NumberColumn(self._sums[:, 0]),
            "bytes": NumberColumn(self._sums[:, 1]),
        }
        return Records(IO, columns, len(span))
