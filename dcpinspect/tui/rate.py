"""Draws how many messages or bytes came when, as columns over the whole width, with signs of
findings below their time.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from rich.style import Style
from textual.strip import Strip

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.timeline_text import lasting
from dcpinspect.output.statistics import Charts
from dcpinspect.protocol.message import Severity
from dcpinspect.tables.series import SPANS
from dcpinspect.tui import theme
from dcpinspect.tui.charts import LABEL, axis, columns, short
from dcpinspect.tui.results import Results
from dcpinspect.tui.strips import LineView, strip
from dcpinspect.tui.theme import Glyphs

Measure = Literal["messages", "bytes"]
_WIDE = 50
"""Width in columns in which the title can say that the chart is over time."""


class Rate(LineView, can_focus=True, inherit_bindings=False):
    """A chart over time with a cursor on a span of time."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self.measure: Measure = "messages"
        self._charts = Charts()
        self._times = 0, 0
        """When the capture began and ended, in nanoseconds since 1970."""
        self._why = ""
        """Why nothing is drawn."""
        self._found: dict[Severity, IntArray] = {}
        """Times of errors and warnings, in nanoseconds since 1970."""
        self._values: IntArray = np.zeros(0, np.int64)

    def show(self, results: Results, first_ns: int, last_ns: int) -> None:
        """Shows the results so far. ``first_ns`` and ``last_ns``: when the capture began and ended,
        in nanoseconds since 1970.
        """
        self._charts, self._times = results.charts, (first_ns, last_ns)
        self._why = (
            "nothing was read so far"
            if results.connection is None
            else f"counting the messages of connection {results.connection}"
        )
        self._found = {
            severity: np.array(
                [
                    place.time_ns
                    for finding in results.findings
                    if finding.severity == severity
                    for case in finding.case_of_each
                    for place in case.places[:1]
                ],
                np.int64,
            )
            for severity in ("warning", "error")
        }
        self._measure()

    def _measure(self) -> None:
        rows = [getattr(command, self.measure) for command in self._charts.commands]
        self._values = sum(rows, start=np.zeros(SPANS, np.int64))[: self._charts.used]
        self.go(self.at)

    def next_measure(self) -> None:
        """Switches between messages and bytes."""
        self.measure = "bytes" if self.measure == "messages" else "messages"
        self._measure()

    @property
    def words(self) -> str:
        """What is drawn, and the value at the cursor."""
        if not len(self._values):
            return f"{self.measure} over time"
        over_time = " over time" if self.size.width >= _WIDE else ""
        told = (
            f"{self.measure}{over_time}, at most {int(self._values.max()):,} in "
            f"{lasting(self._charts.span_ns)}"
        )
        return told + (
            f"; {int(self._values[self.at]):,} at {(self.time_ns - self._times[0]) / 1e9:.3f} s"
            if self.has_focus
            else ""
        )

    @property
    def time_ns(self) -> int:
        """Begin of the span under the cursor, in nanoseconds since 1970."""
        return self._charts.start_ns + self.at * self._charts.span_ns

    @property
    def count(self) -> int:
        """Number of spans of time, which all stand in one line."""
        return len(self._values)

    @property
    def across(self) -> int:
        """Number of spans in the only line."""
        return max(1, len(self._values))

    def place_at(self, x: int, y: int) -> int | None:
        """Returns the span at a column."""
        del y
        return (
            int(self._span_of_column[min(x - LABEL, self._room - 1)])
            if x >= LABEL and self.count
            else None
        )

    @property
    def _room(self) -> int:
        return max(1, self.size.width - LABEL)

    @property
    def _span_of_column(self) -> IntArray:
        """The first span of time of each column."""
        found: IntArray = np.arange(self._room) * len(self._values) // self._room
        return found

    def render_line(self, y: int) -> Strip:
        """Draws one line: columns, and the axis of time with the signs of findings."""
        base, dim, high = self.rich_style, self.dim_style(), max(1, self.size.height - 1)
        if not len(self._values):
            return strip([(f" {self._why}" if y == 0 else "", dim)], self.size.width, base)
        if y >= high:
            return self._with_cursor(self._axis(base, dim))
        values: IntArray = np.maximum.reduceat(
            self._values, self._span_of_column
        )  # no peak is lost
        mark = short(int(values.max())) if y == 0 else "0" if y == high - 1 else ""
        text = columns(values / max(int(values.max()), 1), high, most=1)[y]
        paint = base + theme.style_of(self.app, "chart-bar")
        return self._with_cursor(
            strip([(f"{mark:>{LABEL - 1}} ", dim), (text, paint)], self.size.width, base)
        )

    def _axis(self, base: Style, dim: Style) -> Strip:
        """Returns the line with the times, over which the signs of findings stand."""
        first, last = (self._charts.start_ns - self._times[0], self._times[1] - self._times[0])
        cells = list(axis(first, max(first + 1, last), self._room))
        worst: dict[int, Severity] = {}
        for severity, times in self._found.items():
            spans = (times - self._charts.start_ns) // self._charts.span_ns
            for column in np.unique(
                np.clip(spans, 0, len(self._values) - 1) * self._room // len(self._values)
            ).tolist():
                worst[column] = severity
        pieces = [(" " * LABEL, dim)]
        for column, cell in enumerate(cells):
            own = worst.get(column)
            style = (
                dim
                if own is None
                else base + theme.style_of(self.app, f"severity-{own}") + Style(bold=True)
            )
            pieces.append((cell if own is None else self._glyphs.of(own), style))
        return strip(pieces, self.size.width, base)

    def _with_cursor(self, line: Strip) -> Strip:
        if not self.has_focus:
            return line
        low, high = (
            int(np.searchsorted(self._span_of_column, self.at, side)) + LABEL
            for side in ("left", "right")
        )
        low = min(low, self.size.width - 1)
        high = max(high, low + 1)
        return Strip.join(
            [
                line.crop(0, low),
                line.crop(low, high).apply_style(self.cursor_style()),
                line.crop(high),
            ]
        )
