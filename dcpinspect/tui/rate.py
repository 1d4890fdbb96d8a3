"""Draws how many messages came when, as columns over the whole width, with signs of
findings below their time.
"""

from __future__ import annotations

import numpy as np
from rich.style import Style
from textual.strip import Strip

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.timeline_text import lasting
from dcpinspect.output.statistics import Charts
from dcpinspect.protocol.message import Severity
from dcpinspect.tables.series import SPANS
from dcpinspect.tui import theme
from dcpinspect.tui.charts import LABEL, TimeAxis, axis, columns, short, until
from dcpinspect.tui.results import Results
from dcpinspect.tui.strips import LineView, Piece, strip
from dcpinspect.tui.theme import Glyphs

_WIDE = 50
"""Width in columns in which the title can say that the chart is over time."""


class Rate(LineView, can_focus=True, inherit_bindings=False):
    """A chart over time with a cursor on a span of time."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self._charts = Charts()
        self._times = 0, 0
        """When the capture began and ended, in nanoseconds since 1970."""
        self._why = ""
        """Why nothing is drawn."""
        self._found: dict[Severity, IntArray] = {}
        """Times of errors and warnings, in nanoseconds since 1970."""
        self._values: IntArray = np.zeros(0, np.int64)
        """Messages in each span of time, up to the end of the capture."""
        self._span_ns = 1

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
                    first_place.time_ns
                    for finding in results.findings
                    if finding.severity == severity and finding.effect_of is None
                    for case in finding.case_of_each
                    for first_place in case.places[:1]
                ],
                np.int64,
            )
            for severity in ("warning", "error")
        }
        charts = self._charts
        rows = [command.messages for command in charts.commands]
        row: IntArray = sum(rows, start=np.zeros(SPANS, np.int64))
        self._values, self._span_ns = (
            until(row, charts.start_ns, charts.span_ns, self._times[1])
            if charts.used
            else (row[:0], 1)
        )
        self.set_cursor(self.at)

    @property
    def words(self) -> str:
        """What is drawn, and the value at the cursor."""
        if not len(self._values):
            return "messages over time"
        over_time = " over time" if self.size.width >= _WIDE else ""
        title = (
            f"messages{over_time}, at most {int(self._values.max()):,} in {lasting(self._span_ns)}"
        )
        return title + (
            f"; {int(self._values[self.at]):,} at {(self.time_ns - self._times[0]) / 1e9:.3f} s"
            if self.has_focus
            else ""
        )

    @property
    def time_ns(self) -> int:
        """Begin of the span under the cursor, in nanoseconds since 1970."""
        return self._charts.start_ns + self.at * self._span_ns

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
            int(self._span_of_column[min(x - LABEL, self._line_width - 1)])
            if x >= LABEL and self.count
            else None
        )

    @property
    def _line_width(self) -> int:
        return max(1, self.size.width - LABEL - 1)

    @property
    def _span_of_column(self) -> IntArray:
        """The first span of time of each column."""
        return self._axis.spans(self._ends[0], self._span_ns, len(self._values))

    @property
    def _ends(self) -> tuple[int, int]:
        """Begin of the first span, and end of the capture, in nanoseconds since it began."""
        return self._charts.start_ns - self._times[0], self._times[1] - self._times[0]

    @property
    def _axis(self) -> TimeAxis:
        return TimeAxis.filling(*self._ends, self._line_width)

    @property
    def _has_marks(self) -> bool:
        return self.size.height > 2 and any(len(times) for times in self._found.values())

    def on_resize(self) -> None:
        """Says that what is drawn has changed: its title depends on the width."""
        self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        """Draws one line: columns, the signs of findings if there are any, and the axis of time."""
        base, dim = self.rich_style, self.dim_style()
        high = max(1, self.size.height - 1 - self._has_marks)
        if not len(self._values):
            return strip([(f" {self._why}" if y == 0 else "", dim)], self.size.width, base)
        if y >= high:
            text = axis(*self._ends, self._line_width)
            pieces = self._marks(base) if self._has_marks and y == high else [(text, dim)]
            return self._with_cursor(strip([(" " * LABEL, dim), *pieces], self.size.width, base))
        values: IntArray = np.maximum.reduceat(
            self._values, self._span_of_column
        )  # no peak is lost
        mark = short(int(values.max())) if y == 0 else "0" if y == high - 1 else ""
        text = columns(values / max(int(values.max()), 1), high, limit=1)[y]
        paint = base + theme.style_of(self.app, "chart-bar")
        return self._with_cursor(
            strip([(f"{mark:>{LABEL - 1}} ", dim), (text, paint)], self.size.width, base)
        )

    def _marks(self, base: Style) -> list[Piece]:
        """Returns a sign for each column that has findings, of the worst of them."""
        worst: dict[int, Severity] = {}
        for severity, times in self._found.items():
            for column in self._axis.columns(times - self._times[0]).tolist():
                worst[column] = severity
        return [
            (
                self._glyphs.of_severity(worst[column]),
                base + theme.style_of(self.app, f"severity-{worst[column]}") + Style(bold=True),
            )
            if column in worst
            else (" ", base)
            for column in range(self._line_width)
        ]

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
