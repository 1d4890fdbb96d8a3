"""A capture that the user looks at while it is read: its messages, its streams, and its findings.

One thread reads and writes; the thread of the terminal only looks. Tables and findings are worked
out from all messages. This is repeated while reading, less and less often, and done once more at
the end.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from dcpinspect.arrays import give_back
from dcpinspect.errors import DcpInspectError, reason
from dcpinspect.output.finding_marks import FindingMarks, bearers_of, bearing, lives
from dcpinspect.output.render.coverage_text import why_nothing
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.output.statistics import Statistics
from dcpinspect.output.vbucket_heat import Heat
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Packets, Reading
from dcpinspect.reading.store.store import KEEP, Store
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.transport.connections import DEFAULT_PORTS
from dcpinspect.tui.advice import for_keys
from dcpinspect.tui.notes import Notes
from dcpinspect.tui.results import Marked, Results, of_connection

State = Literal["reading", "done", "stopped", "failed"]

_BATCH = 1 << 16
"""Number of messages that are counted at once."""
_SHARE = 20
"""Before results are worked out again, reading goes on for at least this many times the processor
time that working them out took.
"""
_TELL_WHY = ("wrong-port", "tls-without-key")
"""Rules whose advice is what to try where there is no message."""
_SOON = 0.5
"""Seconds after which results are worked out for the first time."""


class Inspection:
    """One capture, read by ``load`` in a thread of its own."""

    def __init__(
        self,
        capture: Sequence[str] | Packets,
        *,
        extra_ports: Sequence[int] = (),
        find_ports: bool = False,
        keep: int = KEEP,
        is_saved: bool = True,
        notices: Sequence[str] = (),
        redactor: Redactor | None = None,
    ) -> None:
        """Raises CaptureError when the capture cannot be opened. ``keep``: number of bytes that are
        kept of a live capture.

        ``is_saved``: whether the packets are in a file. ``notices``: lines for the user; lines are
        added while reading. ``redactor``:

        replaces keys, values and names in what is shown and in what is searched.
        """
        self.is_saved = is_saved
        self.ports = (
            "any port"
            if find_ports
            else f"ports {', '.join(map(str, sorted({*DEFAULT_PORTS, *extra_ports})))}"
        )
        """The server ports that are looked at, in words."""
        self.notices = notices
        self.store = Store(keep=keep)
        try:
            self.reading = Reading(
                capture, extra_ports=extra_ports, find_ports=find_ports, keeper=self.store
            )
        except BaseException:
            self.store.close()
            raise
        self.reading.check(with_rows=True, redactor=redactor)
        self.reading.forget_what_is_over()
        self.is_live = self.reading.capture.size is None
        self.state: State = "reading"
        self.error = ""
        """Why reading failed, in one line."""
        self.nothing = ""
        """Why there is no message, and what to try; empty while messages may still come."""
        self.everything = Results()
        """Results of all connections."""
        self.connection: int | None = None
        """Number of the connection that is shown alone; None: all are shown."""
        self.results = Results()
        """The results that are shown: of all connections, or of the one that is shown alone."""
        self._choosing = threading.Lock()
        self.notes = Notes()
        """Marks and notes on messages."""
        self._statistics = Statistics()
        self._heat = Heat()
        self._is_wanted = threading.Event()
        self._is_wanted.set()

    def close(self) -> None:
        """Removes all messages; ``load`` must have ended."""
        self.store.close()

    @property
    def files(self) -> Sequence[str]:
        """Names of the captures."""
        return [file.name for file in self.reading.capture.files]

    @property
    def damage(self) -> str:
        """Describes the first damaged place, with the number of others; empty for none."""
        problems = self.reading.capture.problems
        if not problems:
            return ""
        more = f", and {len(problems) - 1:,} more damaged places" if len(problems) > 1 else ""
        return f"{problems[0].note}{more}"

    @property
    def share(self) -> float | None:
        """Share of the capture that was read, 0 to 1; None if its size is unknown."""
        size = self.reading.capture.size
        return min(1.0, self.reading.capture.position / size) if size else None

    def stop(self) -> None:
        """Asks the reading to end early."""
        self._is_wanted.clear()
        self.reading.capture.stop()

    def load(self) -> None:
        """Reads to the end, or until stopped; runs in a thread."""
        due, seen = time.monotonic() + _SOON, 0

        def work_out() -> None:
            nonlocal due, seen
            if time.monotonic() > due and self.store.rows != seen:
                # by processor time: on a busy machine, waiting is no work
                before, seen = time.thread_time(), self.store.rows
                self._work_out(is_whole=self.is_live)
                due = time.monotonic() + max(_SOON, _SHARE * (time.thread_time() - before))

        # works out results before a pause in a live capture, so that the latest messages need not
        # wait for the next ones
        self.reading.on_pause = work_out
        try:
            with self.reading:
                for batch in self.store.fill(self.reading):
                    self._statistics.feed(batch)
                    self._heat.feed(batch)
                    if not self._is_wanted.is_set() and not self.is_live:
                        break
                    work_out()
                is_whole = self._is_wanted.is_set() or self.is_live
                self._leave_out_copies()
                gc.collect()  # tables refer to each other: of ten million messages 150 MiB
                give_back()
                self._work_out(is_whole=is_whole)
            self.state = "done" if is_whole else "stopped"
        except (DcpInspectError, OSError) as error:
            self.error, self.state = (
                reason(error) if isinstance(error, OSError) else str(error),
                "failed",
            )
        finally:
            if self.state == "reading":
                self.error, self.state = (
                    "reading stopped because of a fault in dcpinspect",
                    "failed",
                )

    def _leave_out_copies(self) -> None:
        """Counts again where connections show what others show, which is only known by now."""
        copies = self.reading.tracker.left_out(self.reading.links)
        if not copies:
            return
        self._statistics, self._heat = Statistics(), Heat()
        rows = self.store.matching(
            FilterRows(parse_filter(f"not connection in ({', '.join(map(str, sorted(copies)))})"))
        )
        for start in range(0, len(rows), _BATCH):
            batch = self.store.messages(rows[start : start + _BATCH].astype(np.int64))
            self._statistics.feed(batch)
            self._heat.feed(batch)

    def _work_out(self, *, is_whole: bool) -> None:
        tables, findings, records = self.reading.worked_out(is_whole=is_whole)
        bear = bearing(partial(lives, records["streams"]))
        everything = Results(
            self.store.rows,
            tables,
            records,
            findings,
            self._statistics.rows(self.reading, tables),
            self._statistics.charts(self.reading, tables),
            replace(self._heat, counts=self._heat.counts.copy()),
            self.reading.coverage,
            LookedAt.from_reading(self.reading),
            Marked(findings, self.store),
            bearers_of(findings, bear),
            FindingMarks.of(findings, bear, self.store),
            closed={link.number: link.closed_ns for link in self.reading.links if link.closed},
        )
        if is_whole and not self.store.rows:  # before the results, with which it is shown
            is_told = any(finding.rule in _TELL_WHY for finding in findings)
            self.nothing = for_keys(why_nothing(self.reading, advises_elsewhere=is_told))
        with self._choosing:
            self.everything = everything
            self._narrow()

    def choose(self, connection: int | None) -> None:
        """Shows one connection alone, or all for None."""
        with self._choosing:
            self.connection = connection
            self._narrow()

    def _narrow(self) -> None:
        self.results = (
            self.everything
            if self.connection is None
            else of_connection(self.everything, self.connection, self.store)
        )
