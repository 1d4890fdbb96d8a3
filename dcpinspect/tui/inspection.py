"""A capture that is looked at while it is read: messages, what happened to streams, what is wrong.

One thread reads and writes, the terminal's looks. What is worked out of all messages, tables and findings, is made anew now and then
while reading, ever more rarely, and once at the end.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from dcpinspect.errors import DamagedCapture, DcpInspectError
from dcpinspect.growing import give_back
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.foreign import TLS
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading import Packets, Reading
from dcpinspect.render.coverage import nothing_found
from dcpinspect.render.verdict import LookedAt
from dcpinspect.statistics import Statistics
from dcpinspect.store.store import KEEP, Store
from dcpinspect.tui.advice import here
from dcpinspect.tui.heat import HeatCounter
from dcpinspect.tui.marked import Marked
from dcpinspect.tui.notes import Notes
from dcpinspect.tui.of_connection import of_connection
from dcpinspect.tui.results import Results

State = Literal["reading", "done", "stopped", "failed"]

_SHARE = 20
"""Reading goes on at least so many times longer than working out took, before it is worked out again."""
_RATE_S = 3.0
"""Seconds over which messages a second are counted."""
_SOON = 0.5
"""Seconds after which it is worked out for the first time."""


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
        """Raises CaptureError when the capture cannot be opened. ``keep``: bytes that are kept of what is live.

        ``is_saved``: the packets are in a file. ``notices``: lines for the user, which grow while reading. ``redactor``: nothing
        has keys, values or names, neither what is shown nor what is looked for.
        """
        self.is_saved = is_saved
        self.notices = notices
        self.store = Store(keep=keep)
        try:
            self.reading = Reading(capture, extra_ports=extra_ports, find_ports=find_ports, keeper=self.store)
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
        """Why there is no message, and what to try; empty while there may still be one."""
        self.everything = Results()
        """What was worked out of all connections."""
        self.connection: int | None = None
        """The one that is looked at alone; None: all are."""
        self.results = Results()
        """What is shown: of all connections, or of that one."""
        self._choosing = threading.Lock()
        self.notes = Notes()
        """Marks and notes on messages."""
        self._statistics = Statistics()
        self._heat = HeatCounter()
        self._is_wanted = threading.Event()
        self._is_wanted.set()
        self._is_over = threading.Event()
        self.started = time.monotonic()
        self._counted = deque([(self.started, 0)])

    def close(self) -> None:
        """Forgets everything; ``load`` has ended by then."""
        self.store.close()

    @property
    def files(self) -> Sequence[str]:
        """Names of the captures."""
        return [file.name for file in self.reading.capture.files]

    @property
    def damage(self) -> str:
        """What is damaged in the captures, the first of it in full; empty: nothing."""
        problems = self.reading.capture.problems
        if not problems:
            return ""
        first = problems[0]
        more = f", and {len(problems) - 1:,} more damaged places" if len(problems) > 1 else ""
        return str(DamagedCapture(first.file, first.offset, first.what, "all that is readable was read")) + more

    @property
    def share(self) -> float | None:
        """How much of the capture was read, 0 to 1; None if unknown its size."""
        size = self.reading.capture.size
        return min(1.0, self.reading.capture.position / size) if size else None

    @property
    def speed(self) -> float:
        """Bytes a second so far."""
        return self.reading.capture.position / max(time.monotonic() - self.started, 1e-6)

    def messages_a_second(self) -> float:
        """Of the last seconds in which this was asked."""
        now, rows = time.monotonic(), self.store.rows
        self._counted.append((now, rows))
        while len(self._counted) > 2 and self._counted[1][0] < now - _RATE_S:
            self._counted.popleft()
        before, count = self._counted[0]
        return (rows - count) / max(now - before, _SOON)

    def stop(self) -> None:
        """Ask the reading to end with what there is."""
        self._is_wanted.clear()
        self.reading.capture.stop()

    def all_rows(self) -> Rows:
        """Of all messages that are kept, once nothing comes any more: what is live ends. Takes its time."""
        if self.is_live:
            self.stop()
        self._is_over.wait()
        return np.arange(self.store.first_row, self.store.rows + 1)

    def load(self, changed: Callable[[], None]) -> None:
        """Reads to the end, or until stopped. Runs in a thread; ``changed`` is called from it whenever there is something new."""
        due, seen = time.monotonic() + _SOON, 0

        def look() -> None:
            nonlocal due, seen
            if time.monotonic() > due and self.store.rows != seen:
                before, seen = time.monotonic(), self.store.rows
                self._work_out(is_whole=self.is_live)
                due = time.monotonic() + max(_SOON, _SHARE * (time.monotonic() - before))
                changed()

        self.reading.on_pause = look  # what came last before a pause is not to wait for what comes after
        try:
            with self.reading:
                for batch in self.store.fill(self.reading):
                    self._statistics.feed(batch)
                    self._heat.feed(batch)
                    changed()
                    if not self._is_wanted.is_set() and not self.is_live:
                        break
                    look()
                is_whole = self._is_wanted.is_set() or self.is_live
                give_back()
                self._work_out(is_whole=is_whole)
            if is_whole and not self.store.rows:
                self.nothing = here(nothing_found(self.reading))
            self.state = "done" if is_whole else "stopped"
        except DcpInspectError as error:
            self.error, self.state = str(error), "failed"
        except OSError as error:
            self.error, self.state = error.strerror or str(error), "failed"
        finally:
            if self.state == "reading":
                self.error, self.state = "reading stopped because of a fault in dcpinspect", "failed"
            self._is_over.set()
            changed()

    def _work_out(self, *, is_whole: bool) -> None:
        tables, findings, records = self.reading.worked_out(is_whole=is_whole)
        everything = Results(
            self.store.rows,
            tables,
            records,
            findings,
            self._statistics.rows(self.reading, tables),
            self._statistics.charts(tables),
            self._heat.now,
            self.reading.coverage,
            LookedAt.of(self.reading),
            len(
                {
                    one.connection
                    for one in self.reading.coverage.where(lambda all_: all_.is_own & (all_.not_decodable > 0))
                    if one.connection and one.protocol == TLS
                }
            ),
            Marked(findings),
        )
        with self._choosing:
            self.everything = everything
            self._narrow()

    def choose(self, connection: int | None) -> None:
        """Looks at one connection alone, or at all."""
        with self._choosing:
            self.connection = connection
            self._narrow()

    def _narrow(self) -> None:
        self.results = self.everything if self.connection is None else of_connection(self.everything, self.connection)

    def take(self, counted: Results, of: Results) -> None:
        """What is shown, with its messages counted; unless something else is shown than what they were counted for."""
        with self._choosing:
            if self.results is of:
                self.results = counted
