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
from dcpinspect.tui.line_view import LineView, Piece, strip
from dcpinspect.tui.results import Results
from dcpinspect.tui.theme import Glyphs

_WIDE = 50
"""Width in columns in which the title can say that the chart is over time."""


class Rate(LineView, can_focus=False, inherit_bindings=False):
    """A chart over time."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self._charts = Charts()
        self._times = 0, 0
        """When the capture began and ended, in nanoseconds since 1970."""
        self._whose = ""
        """Whose messages are drawn, if that is not clear."""
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
        self._whose = "" if results.connection is None else " of all connections"
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
        self.refresh()

    @property
    def words(self) -> str:
        """What is drawn."""
        if not len(self._values):
            return "messages over time"
        over_time = " over time" if self.size.width >= _WIDE else ""
        most = f"at most {int(self._values.max()):,} in {lasting(self._span_ns)}"
        return f"messages{self._whose}{over_time}, {most}"

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
            return strip(
                [(" nothing was read so far" if y == 0 else "", dim)], self.size.width, base
            )
        if y >= high:
            text = axis(*self._ends, self._line_width)
            pieces = self._marks(base) if self._has_marks and y == high else [(text, dim)]
            return strip([(" " * LABEL, dim), *pieces], self.size.width, base)
        values: IntArray = np.maximum.reduceat(
            self._values, self._span_of_column
        )  # no peak is lost
        mark = short(int(values.max())) if y == 0 else "0" if y == high - 1 else ""
        text = columns(values / max(int(values.max()), 1), high, limit=1)[y]
        paint = base + theme.style_of(self.app, "chart-bar")
        return strip([(f"{mark:>{LABEL - 1}} ", dim), (text, paint)], self.size.width, base)

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
