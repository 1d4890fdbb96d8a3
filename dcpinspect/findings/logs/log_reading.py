"""Reads a file of evidence that is no capture: its kind, records, and what was of no use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson

from dcpinspect.errors import CaptureError
from dcpinspect.findings.logs.log_events import LogEvent, redacted
from dcpinspect.findings.logs.log_lines import TextFile
from dcpinspect.findings.logs.memcached import MemcachedLog
from dcpinspect.findings.logs.server_statistics import Statistics
from dcpinspect.text import counted, escape

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

MOST_DOCUMENT = 24 << 20
"""Greatest size in bytes of statistics in JSON; 1,024 vbuckets of ten streams have 10 MB."""


class LogReading:
    """The records of a log or of statistics. Counts are complete once all records are taken."""

    def __init__(self, path: str, redactor: Redactor | None = None) -> None:
        """``redactor``: replaces names, and texts that may hold names."""
        self.path = path
        self._redactor = redactor
        self.lines = 0
        self.events = 0
        """Number of records."""
        self.unknown = 0
        """Number of lines about DCP in no form that is known here."""
        self.others = 0
        """Number of lines of a log, or of statistics, that are about other things."""
        self.foreign = 0
        """Number of lines that belong neither to a log nor to statistics: further lines of a
        message, titles, other files.
        """
        self.too_long = 0
        self.problem: str | None = None
        """Why reading stopped before the end, or None."""

    def __iter__(self) -> Iterator[LogEvent]:
        """Yields the records in the file's order. Raises CaptureError if it cannot be read."""
        with TextFile(self.path) as file:
            for event in self._events_in(file):
                self.events += 1
                yield event if self._redactor is None else redacted(event, self._redactor)
            self.lines, self.too_long, self.problem = file.lines, file.too_long, file.problem

    def _events_in(self, file: TextFile) -> Iterator[LogEvent]:
        log, statistics = MemcachedLog(self.path), Statistics(self.path)
        if file.is_document:
            yield from self._of_document(file.whole(MOST_DOCUMENT), statistics)
            return
        for number, line in file:
            if not line.strip():
                continue
            event = log.take(number, line)
            if event is False:
                statistics_events = statistics.take(number, line)
                if statistics_events is None:
                    self.foreign += 1
                else:
                    yield from statistics_events
            elif event is not None and event is not True:
                yield event
        yield from statistics.finish()
        self.unknown, self.others = log.unknown, log.others

    def _of_document(self, text: bytes, statistics: Statistics) -> Iterator[LogEvent]:
        try:
            is_known = statistics.take_document(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            raise CaptureError(
                self.path, f"is no JSON document ({error.msg})", offset=error.pos
            ) from error
        if not is_known:
            raise CaptureError(
                self.path,
                "is JSON, but no statistics of cbstats or mcstat",
                "give a checkpoint with --checkpoint",
            )
        yield from statistics.finish()

    @property
    def summary(self) -> str:
        """A line that says how much of the file was used."""
        phrases = [counted(self.lines, "line"), counted(self.events, "record")]
        if self.unknown:
            phrases.append(f"{self.unknown:,} about DCP in no known form")
        if self.foreign:
            phrases.append(f"{self.foreign:,} that are no lines of a log")
        if self.too_long:
            phrases.append(f"{self.too_long:,} too long to be read")
        return f"{escape(self.path)}: {', '.join(phrases)}"
