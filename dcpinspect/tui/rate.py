"""Draws the rate of messages or bytes as columns over the whole width, with signs of findings below their time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.protocol.message import Severity
from dcpinspect.statistics import Charts
from dcpinspect.tables.series import SPANS
from dcpinspect.tui import theme
from dcpinspect.tui.charts import LABEL, Whole, columns, short
from dcpinspect.tui.results import Results
from dcpinspect.tui.strips import strip
from dcpinspect.tui.theme import Glyphs

Measure = Literal["messages", "bytes"]


class Rate(Widget, can_focus=True, inherit_bindings=False):
    """A chart over time with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rate--cursor", "rate--label", "rate--error", "rate--warning", "rate--note"}

    class Moved(Message):
        """Sent when the cursor moves to another time, or the chart shows other data."""

    class Opened(Message):
        """Sent at Enter, to show the messages at a time, in nanoseconds since 1970."""

        def __init__(self, time_ns: int) -> None:
            super().__init__()
            self.time_ns = time_ns

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self.measure: Measure = "messages"
        self._charts = Charts()
        self._first_ns = 0
        self._why = ""
        """Why nothing is drawn."""
        self._found: dict[Severity, Whole] = {}
        """Times of the findings, by severity, in nanoseconds since 1970."""
        self._values: Whole = np.zeros(0, np.int64)
        self._at = 0
        """Number of the span of time under the cursor."""

    def show(self, results: Results, first_ns: int, findings: Sequence[Finding] | None = None) -> None:
        """Shows the results so far.

        ``first_ns``: when the capture began, in nanoseconds since 1970. ``findings``: the findings to mark; without it, all errors and
        warnings.
        """
        self._charts, self._first_ns = results.charts, first_ns
        self._why = "nothing was read so far" if results.connection is None else f"counting the messages of connection {results.connection}"
        shown = results.findings if findings is None else findings
        self._found = {
            severity: np.array(
                [place.time_ns for one in shown if one.severity == severity for case in one.each for place in case.places[:1]], np.int64
            )
            for severity in reversed(SEVERITIES if findings is not None else SEVERITIES[:-1])
        }
        self._measure()

    def _measure(self) -> None:
        rows = [getattr(command, self.measure) for command in self._charts.commands]
        self._values = sum(rows, start=np.zeros(SPANS, np.int64))[: self._charts.used]
        self._at = min(self._at, max(0, len(self._values) - 1))
        self.refresh()
        self.post_message(self.Moved())

    def next_measure(self) -> None:
        """Switches between messages and bytes."""
        self.measure = "bytes" if self.measure == "messages" else "messages"
        self._measure()

    @property
    def words(self) -> str:
        """What is drawn, and the value at the cursor."""
        if not len(self._values):
            return f"{self.measure} a second"
        each = self._charts.span_ns / 1e9
        most = short(int(self._values.max()) / each)
        here = short(int(self._values[self._at]) / each)
        at = (self._charts.start_ns - self._first_ns + self._at * self._charts.span_ns) / 1e9
        return f"{self.measure} a second, at most {most}" + (f", {here} at {at:.3f} s" if self.has_focus else "")

    # -- the cursor ---------------------------------------------------------------------------------------

    @property
    def is_at_edge(self) -> tuple[bool, bool]:
        """Whether the cursor is on the first line, and whether it is on the last: always, as the chart counts as one line."""
        return True, True

    def _go(self, place: int) -> None:
        self._at = min(max(place, 0), max(0, len(self._values) - 1))
        self.refresh()
        self.post_message(self.Moved())

    def action_step(self, lines: int) -> None:
        """Does nothing, because the chart counts as one line."""

    def action_fold(self) -> None:
        """Moves the cursor to an earlier time."""
        self._go(self._at - 1)

    def action_unfold(self) -> None:
        """Moves the cursor to a later time."""
        self._go(self._at + 1)

    def action_first(self) -> None:
        """Moves the cursor to the beginning."""
        self._go(0)

    def action_last(self) -> None:
        """Moves the cursor to the end."""
        self._go(len(self._values))

    def action_open(self) -> None:
        """Goes to the messages at the cursor."""
        if len(self._values):
            self.post_message(self.Opened(self._charts.start_ns + self._at * self._charts.span_ns))

    def on_focus(self) -> None:
        """Reports the cursor, because the heading shows its value while the chart has the focus."""
        self.post_message(self.Moved())

    def on_blur(self) -> None:
        """Reports the cursor, because the heading hides its value without the focus."""
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Selects the clicked time; a second click opens it."""
        if event.x >= LABEL and len(self._values):
            span = int(self._span_of_column[min(event.x - LABEL, self._room - 1)])
            if span == self._at:
                self.action_open()
            else:
                self._go(span)

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        return max(1, self.size.width - LABEL)

    @property
    def _span_of_column(self) -> Whole:
        """The first span of time of each column."""
        found: Whole = np.arange(self._room) * len(self._values) // self._room
        return found

    def _drawn(self) -> Whole:
        """Returns the value of each column, which is the greatest of its spans, so that no peak is lost."""
        found: Whole = np.maximum.reduceat(self._values, self._span_of_column)
        return found

    def render_line(self, y: int) -> Strip:
        """Draws one line: columns, below them the findings, and the time."""
        base = self.rich_style
        label = base + self.get_component_rich_style("rate--label", partial=True)
        if not len(self._values):
            return strip([(f" {self._why}" if y == 0 else "", label)], self.size.width, base)
        high = max(1, self.size.height - 2)
        if y < high:
            values = self._drawn()
            top = int(values.max())
            text = columns(values / max(top, 1), high, most=1)[y]
            mark = short(top / (self._charts.span_ns / 1e9)) if y == 0 else "0" if y == high - 1 else ""
            paint = base + theme.style_of(self.app, "verdict-advancing")
            return self._with_cursor(strip([(f"{mark:>{LABEL - 1}} ", label), (text, paint)], self.size.width, base))
        if y == high:
            return self._with_cursor(self._marks(base, label))
        begin, end = ((self._charts.start_ns - self._first_ns + at * self._charts.span_ns) / 1e9 for at in (0, len(self._values)))
        first, last = f"{begin:.3f} s", f"{end:.3f} s"
        return strip([(f"{'':>{LABEL}}{first}{last:>{max(1, self._room - len(first))}}", label)], self.size.width, base)

    def _marks(self, base: Style, label: Style) -> Strip:
        """Returns the line that shows where the findings are."""
        worst: dict[int, Severity] = {}
        for severity, times in self._found.items():
            spans = (times - self._charts.start_ns) // self._charts.span_ns
            for column in np.unique(np.clip(spans, 0, len(self._values) - 1) * self._room // len(self._values)).tolist():
                worst[column] = severity
        pieces = [("found".rjust(LABEL - 1) + " " if worst else " " * LABEL, label)]
        before = 0
        for column in sorted(worst):
            pieces.append((" " * (column - before), base))
            style = base + self.get_component_rich_style(f"rate--{worst[column]}", partial=True) + Style(bold=True)
            pieces.append((self._glyphs.of(worst[column]), style))
            before = column + 1
        return strip(pieces, self.size.width, base)

    def _with_cursor(self, line: Strip) -> Strip:
        if not self.has_focus:
            return line
        low, high = (int(np.searchsorted(self._span_of_column, self._at, side)) + LABEL for side in ("left", "right"))
        low = min(low, self.size.width - 1)
        cursor = self.get_component_rich_style("rate--cursor", partial=True)
        return Strip.join([line.crop(0, low), line.crop(low, max(high, low + 1)).apply_style(cursor), line.crop(max(high, low + 1))])

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self.refresh()
