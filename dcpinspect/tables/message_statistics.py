"""Counts messages: commands, statuses, sizes, times of answers, and rates over time. Takes whole
batches, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dcpinspect.arrays import Array, BoolArray, IntArray, grown
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.protocol.statuses import status_name
from dcpinspect.tables.collection_names import NO_NAMES, unnamed, with_id
from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.histogram import Histograms
from dcpinspect.tables.messages import SIDES, MessageBatch
from dcpinspect.tables.record_tables import RecordTable
from dcpinspect.tables.series import SPANS, Series
from dcpinspect.text import words_of

SECTIONS = words_of("commands collections statuses answers throughput snapshots flow capture")
UNITS = ("bytes", "ns", "items")

STATS = RecordTable(
    "stats",
    columns(
        """
        section word: what is counted
        name text: command, collection with its id, status, type of snapshot, or what became of
            packets and bytes
        side word: of a command
        connection i64: connection, where there is a row for each
        time time: begin of the span that messages were counted in
        seconds seconds: length of that span
        count i64: messages, answers, snapshots, packets or holes; null where bytes are counted
        bytes i64: their bytes
        share fraction: of all bytes of messages, or of all responses
        unit word: of the numbers that follow: sizes, times from request to answer, events of a
            snapshot
        least i64: least of them
        p50 i64: half of them are as small, within a hundredth
        p95 i64: 95 of a hundred are, within a hundredth
        p99 i64: 99 of a hundred are, within a hundredth
        greatest i64: greatest of them
        """,
        section=SECTIONS,
        side=SIDES,
        unit=UNITS,
    ),
)

StatisticsRow = dict[str, Any]

_RESPONSE, SERVER = 1 << 8, 1 << 9


_MOST_COLLECTIONS = 1 << 12
_OTHERS = (0, -1)
"""Greatest number of pairs of connection and collection that are counted separately, and the key
for all others.
"""


def command_of(opcode: Array, is_response: BoolArray, is_server: BoolArray) -> RowNumbers:
    """Returns a number for each command and side."""
    commands: RowNumbers = opcode.astype(np.int64) + _RESPONSE * is_response + SERVER * is_server
    return commands


def command_name(command: int) -> str:
    """Returns the name of a command, by its number from ``command_of``."""
    return opcode_name(command & 0xFF, server=bool(command & SERVER))


def command_side(command: int) -> str:
    """Returns the side of a command, by its number from ``command_of``."""
    return SIDES[bool(command & _RESPONSE)]


class MessageStats:
    """Counts the messages that it is fed with."""

    def __init__(self) -> None:
        self.messages = 0
        self._counts: IntArray = np.zeros(1 << 10, dtype=np.int64)
        self._bytes: IntArray = np.zeros(1 << 10, dtype=np.int64)
        self._statuses: IntArray = np.zeros(1 << 16, dtype=np.int64)
        self._collections: dict[tuple[int, int], tuple[int, int]] = {}
        """Messages and bytes, by connection and collection."""
        self.by_connection: IntArray = np.zeros((16, 2), np.int64)
        """Messages and bytes, by number of the connection."""
        self._names, self._row = NO_NAMES, 0
        self._sizes = Histograms()
        self._answers = Histograms()
        self.messages_by_time = Series()
        """Messages and bytes over time, by command as in ``commands``."""
        self.bytes_by_time = Series()
        self.origin_ns = 0
        """Begin of the capture."""

    def feed(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Counts these messages of a batch."""
        if not len(rows):
            return
        decoded = batch.decoded
        is_response = decoded.is_response[rows]
        command = command_of(decoded.opcode[rows], is_response, decoded.is_server[rows])
        self._statuses += np.bincount(
            decoded.specific[rows][is_response].astype(np.int64), minlength=len(self._statuses)
        )
        self.origin_ns = batch.origin_ns
        self._count_connections(batch.connection[rows], batch.length[rows])
        self._count_collections(batch, rows)
        rtt = batch.rtt_ns
        answered = is_response & rtt.is_known[rows]
        self.count(
            command,
            batch.time_ns[rows] - batch.origin_ns,
            batch.length[rows],
            answered,
            rtt.values[rows[answered]].astype(np.int64),
        )

    def count(
        self,
        command: RowNumbers,
        since_ns: RowNumbers,
        length: RowNumbers,
        answered: BoolArray,
        rtt_ns: RowNumbers,
    ) -> None:
        """Counts messages without statuses and collections.

        ``command``: from ``command_of``. ``since_ns``: times since the capture began.
        ``length``: in bytes. ``rtt_ns``: waiting time of the messages that are ``answered``.
        """
        self.messages += len(command)
        self._counts += np.bincount(command, minlength=len(self._counts))
        np.add.at(self._bytes, command, length)
        self._sizes.add(command, length)
        self.messages_by_time.add(command, since_ns, np.ones(len(command), dtype=np.int64))
        self.bytes_by_time.add(command, since_ns, length)
        if len(rtt_ns):
            self._answers.add(command[answered], rtt_ns)

    def reach(self, since_ns: int) -> None:
        """Makes rates go on until a time since the capture began."""
        self.messages_by_time.reach(since_ns)
        self.bytes_by_time.reach(since_ns)

    def rows(self) -> Iterator[StatisticsRow]:
        """Yields the counts, the greatest first, as rows of ``STATS`` with the keys that apply."""
        yield from self._commands()
        yield from self._of_collections()
        responses = int(self._statuses.sum())
        for status in _most_first(self._statuses):
            count = int(self._statuses[status])
            yield {
                "section": "statuses",
                "name": status_name(status),
                "count": count,
                "share": count / responses,
            }
        for command in _most_first(self._counts):
            if self._answers.count(command):
                yield {
                    "section": "answers",
                    "name": command_name(command),
                    "count": self._answers.count(command),
                    "unit": "ns",
                    **_numbers(self._answers, command),
                }
        yield from self._throughput()

    def _count_connections(self, numbers: RowNumbers, length: RowNumbers) -> None:
        most = int(numbers.max()) + 1
        if most > len(self.by_connection):
            self.by_connection = grown(self.by_connection, most)
        self.by_connection[:most, 0] += np.bincount(numbers, minlength=most)
        self.by_connection[:most, 1] += np.bincount(numbers, length, minlength=most).astype(
            np.int64
        )

    def _count_collections(self, batch: MessageBatch, rows: RowNumbers) -> None:
        ids = batch.decoded.collection_id
        rows_with_collection = rows[ids.is_known[rows]]
        self._names, self._row = batch.names, int(batch.row[rows[-1]])
        if not len(rows_with_collection):
            return
        numbers = ids.values[rows_with_collection].astype(np.int64)
        width = int(numbers.max()) + 1
        pairs, inverse, counts = np.unique(
            batch.connection[rows_with_collection] * width + numbers,
            return_inverse=True,
            return_counts=True,
        )
        sizes = np.bincount(inverse, batch.length[rows_with_collection]).astype(np.int64)
        for pair, count, size in zip(pairs.tolist(), counts.tolist(), sizes.tolist(), strict=True):
            key = divmod(pair, width)
            if key not in self._collections and len(self._collections) >= _MOST_COLLECTIONS:
                key = _OTHERS
            before = self._collections.get(key, (0, 0))
            self._collections[key] = before[0] + count, before[1] + size

    def _of_collections(self) -> Iterator[StatisticsRow]:
        """Yields the counts of collections, with the names known so far; equal names and ids are
        added up.

        Yields nothing for only the default one.
        """
        if all(number == 0 for _, number in self._collections):
            return
        totals: dict[str, tuple[int, int]] = {}
        for (connection, number), (count, size) in self._collections.items():
            known_name = self._names.known_collection(connection, number, self._row)
            name = (
                "others"
                if (connection, number) == _OTHERS
                else unnamed(number)
                if known_name is None
                else with_id(known_name, number)
            )
            totals[name] = totals.get(name, (0, 0))[0] + count, totals.get(name, (0, 0))[1] + size
        total = int(self._bytes.sum())
        for name, (count, size) in sorted(totals.items(), key=lambda item: (-item[1][0], item[0])):
            yield {
                "section": "collections",
                "name": name,
                "count": count,
                "bytes": size,
                "share": size / total,
            }

    def _throughput(self) -> Iterator[StatisticsRow]:
        """Yields a row for each span."""
        messages, sizes = (
            sum(series.rows.values(), start=np.zeros(SPANS, np.int64))
            for series in (self.messages_by_time, self.bytes_by_time)
        )
        for index in range(self.messages_by_time.used):
            yield {
                "section": "throughput",
                "time": self.origin_ns + index * self.messages_by_time.span_ns,
                "seconds": self.messages_by_time.span_ns / 1e9,
                "count": int(messages[index]),
                "bytes": int(sizes[index]),
            }

    def commands(self) -> Iterator[tuple[int, str, str]]:
        """Yields number in ``messages_by_time``, command and side; the most frequent first."""
        for command in _most_first(self._counts):
            yield command, command_name(command), command_side(command)

    def answer_octaves(self) -> Iterator[tuple[str, IntArray]]:
        """Yields, for each command that was answered, the number of answers by the power of two at
        or below their nanoseconds.
        """
        for command in _most_first(self._counts):
            if self._answers.count(command):
                yield command_name(command), self._answers.octaves(command)

    def _commands(self) -> Iterator[StatisticsRow]:
        total = max(1, int(self._bytes.sum()))
        for command in _most_first(self._counts):
            size = int(self._bytes[command])
            yield {
                "section": "commands",
                "name": command_name(command),
                "side": command_side(command),
                "count": int(self._counts[command]),
                "bytes": size,
                "share": size / total,
                "unit": "bytes",
                **_numbers(self._sizes, command),
            }


def _most_first(counts: IntArray) -> list[int]:
    order = np.argsort(-counts, kind="stable")
    indexes: list[int] = order[: np.count_nonzero(counts)].tolist()
    return indexes


def _numbers(histograms: Histograms, group: int) -> StatisticsRow:
    return dict(
        zip(("least", "p50", "p95", "p99", "greatest"), histograms.summary(group), strict=True)
    )


def distribution(values: IntArray) -> StatisticsRow:
    """Returns least value, percentiles and greatest value of at least one value."""
    histograms = Histograms()
    histograms.add(np.zeros(len(values), dtype=np.int64), values)
    return _numbers(histograms, 0)
