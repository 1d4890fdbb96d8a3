"""Messages counted: commands, statuses, sizes, times of answers, and how many came when. Whole batches at a time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.protocol.statuses import status_name
from dcpinspect.tables.histogram import Histograms
from dcpinspect.tables.messages import SIDES, MessageBatch
from dcpinspect.tables.records import RecordColumn, RecordTable

_C = RecordColumn

SECTIONS = ("commands", "statuses", "answers", "throughput", "snapshots", "flow", "capture")
UNITS = ("bytes", "ns", "items")

STATS = RecordTable(
    "stats",
    (
        _C("section", "word", "what is counted", SECTIONS),
        _C("name", "text", "command, status, type of snapshot, or what became of packets and bytes"),
        _C("side", "word", "of a command", SIDES),
        _C("connection", "number", "connection, where there is a row for each"),
        _C("time", "time", "begin of the span that messages were counted in"),
        _C("seconds", "seconds", "length of that span"),
        _C("count", "number", "messages, answers, snapshots, packets or holes; null where bytes are counted"),
        _C("bytes", "number", "their bytes"),
        _C("share", "fraction", "of all bytes of messages, or of all responses"),
        _C("unit", "word", "of the numbers that follow: sizes, times from request to answer, events of a snapshot", UNITS),
        _C("least", "number", "least of them"),
        _C("p50", "number", "half of them are as small, within a hundredth"),
        _C("p95", "number", "95 of a hundred are, within a hundredth"),
        _C("p99", "number", "99 of a hundred are, within a hundredth"),
        _C("greatest", "number", "greatest of them"),
    ),
)

Row = dict[str, Any]

SPANS = 128
"""Spans of time at most; when there are more, they become twice as long."""
FIRST_SPAN_NS = 1_000_000

_RESPONSE, _SERVER = 1 << 8, 1 << 9


class MessageStats:
    """Feed it with the messages that count."""

    def __init__(self) -> None:
        self.messages = 0
        self._counts: npt.NDArray[np.int64] = np.zeros(1 << 10, dtype=np.int64)
        self._bytes: npt.NDArray[np.int64] = np.zeros(1 << 10, dtype=np.int64)
        self._statuses: npt.NDArray[np.int64] = np.zeros(1 << 16, dtype=np.int64)
        self._sizes = Histograms()
        self._answers = Histograms()
        self.throughput = Throughput()

    def feed(self, batch: MessageBatch, rows: Rows) -> None:
        """Counts these messages of a batch."""
        if not len(rows):
            return
        decoded = batch.decoded
        self.messages += len(rows)
        is_response = decoded.is_response[rows]
        command = decoded.opcode[rows].astype(np.int64) + _RESPONSE * is_response + _SERVER * decoded.is_server[rows]
        length = batch.length[rows]
        self._counts += np.bincount(command, minlength=len(self._counts))
        np.add.at(self._bytes, command, length)
        self._statuses += np.bincount(decoded.specific[rows][is_response].astype(np.int64), minlength=len(self._statuses))
        self._sizes.add(command, length)
        self.throughput.add(batch.time_ns[rows], length)
        rtt = batch.rtt_ns
        answered = is_response if rtt.valid is None else is_response & rtt.valid[rows]
        if answered.any():
            self._answers.add(command[answered], rtt.values[rows[answered]].astype(np.int64))

    def rows(self) -> Iterator[Row]:
        """What was counted, most first, as rows of ``STATS``; keys that do not apply are left out."""
        yield from self._commands()
        responses = int(self._statuses.sum())
        for status in _most_first(self._statuses):
            count = int(self._statuses[status])
            yield {"section": "statuses", "name": status_name(status), "count": count, "share": count / responses}
        for command in _most_first(self._counts):
            if self._answers.count(command):
                numbers = _numbers(self._answers, command)
                yield {"section": "answers", "name": _name(command), "count": self._answers.count(command), "unit": "ns", **numbers}
        yield from self.throughput.rows()

    def _commands(self) -> Iterator[Row]:
        total = max(1, int(self._bytes.sum()))
        for command in _most_first(self._counts):
            size = int(self._bytes[command])
            about = {"section": "commands", "name": _name(command), "side": SIDES[bool(command & _RESPONSE)]}
            yield {
                **about,
                "count": int(self._counts[command]),
                "bytes": size,
                "share": size / total,
                "unit": "bytes",
                **_numbers(self._sizes, command),
            }


class Throughput:
    """Messages and bytes by spans of time, which are as long as the reading needs them."""

    def __init__(self) -> None:
        self.start_ns: int | None = None
        self.span_ns = FIRST_SPAN_NS
        self.messages: npt.NDArray[np.int64] = np.zeros(SPANS, dtype=np.int64)
        self.bytes: npt.NDArray[np.int64] = np.zeros(SPANS, dtype=np.int64)

    def add(self, time_ns: Rows, length: Rows) -> None:
        """Messages with their times, nanoseconds since 1970, and sizes; what is earlier than the first one counts as if at its time."""
        if self.start_ns is None:
            self.start_ns = int(time_ns.min())
        since = np.maximum(time_ns - self.start_ns, 0)
        while int(since.max()) >= SPANS * self.span_ns:
            self.span_ns *= 2
            self.messages, self.bytes = _halved(self.messages), _halved(self.bytes)
        place = since // self.span_ns
        self.messages += np.bincount(place, minlength=SPANS)
        np.add.at(self.bytes, place, length)

    @property
    def used(self) -> int:
        """Spans up to the last one that has messages."""
        return int(np.flatnonzero(self.messages)[-1]) + 1 if self.messages.any() else 0

    def rows(self) -> Iterator[Row]:
        """A row for each span."""
        for place in range(self.used):
            yield {
                "section": "throughput",
                "time": (self.start_ns or 0) + place * self.span_ns,
                "seconds": self.span_ns / 1e9,
                "count": int(self.messages[place]),
                "bytes": int(self.bytes[place]),
            }


def _halved(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate((values.reshape(-1, 2).sum(axis=1), np.zeros(len(values) // 2, dtype=np.int64)))


def _most_first(counts: npt.NDArray[np.int64]) -> list[int]:
    order = np.argsort(-counts, kind="stable")
    found: list[int] = order[: np.count_nonzero(counts)].tolist()
    return found


def _name(command: int) -> str:
    return opcode_name(command & 0xFF, server=bool(command & _SERVER))


def _numbers(histograms: Histograms, group: int) -> Row:
    return dict(zip(("least", "p50", "p95", "p99", "greatest"), histograms.summary(group), strict=True))


def distribution(values: npt.NDArray[np.int64]) -> Row:
    """Least, percentiles and greatest of values, which are at least one."""
    own = Histograms()
    own.add(np.zeros(len(values), dtype=np.int64), values)
    return _numbers(own, 0)
