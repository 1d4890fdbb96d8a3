"""Draws how many messages came when, as columns over the whole width, with signs of
findings below their time.
"""

from __future__ import annotations

import numpy as np
from textual.widgets import Static

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.timeline_text import lasting
from dcpinspect.tables.series import SPANS
from dcpinspect.tui.charts import Happened, chart, marked, painted, until
from dcpinspect.tui.results import Results
from dcpinspect.tui.theme import Glyphs

_WIDE = 50
"""Width in columns in which the title can say that the chart is over time."""


class Rate(Static):
    """A chart over time; its title says what is drawn."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self._results = Results()
        self._ends = 0, 0
        """When the capture began and ended, in nanoseconds since 1970."""

    def show(self, results: Results, first_ns: int, last_ns: int) -> None:
        """Shows the results so far. ``first_ns`` and ``last_ns``: when the capture began and ended,
        in nanoseconds since 1970.
        """
        self._results, self._ends = results, (first_ns, last_ns)
        self._draw()

    def on_resize(self) -> None:
        """Fits the chart to the new size."""
        self._draw()

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self._draw()

    def _draw(self) -> None:
        charts, (width, height) = self._results.charts, self.size
        if not charts.used:
            self.border_title = "messages over time"
            self.update(" nothing was read so far")
            return
        rows = [command.messages for command in charts.commands]
        row: IntArray = sum(rows, start=np.zeros(SPANS, np.int64))
        first_ns, last_ns = self._ends
        values, span_ns = until(row, charts.start_ns, charts.span_ns, last_ns)
        whose = "" if self._results.connection is None else " of all connections"
        over_time = " over time" if width >= _WIDE else ""
        most = f"at most {int(values.max()):,} in {lasting(span_ns)}"
        self.border_title = f"messages{whose}{over_time}, {most}"
        happenings = self._happenings() if height > 2 else []
        since = charts.start_ns - first_ns, last_ns - first_ns
        high = max(1, height - 1 - bool(happenings))
        _, *lines = marked(
            chart("", values, span_ns, since, width=width - 1, height=high),
            happenings,
            since,
            first_ns,
            width - 1,
        )
        self.update(painted(lines, self.app, self._glyphs))

    def _happenings(self) -> list[Happened]:
        """Returns errors and warnings that are no effects, each at its first message."""
        return [
            Happened(
                first_place.connection,
                first_place.time_ns,
                self._glyphs.of_severity(finding.severity),
                finding.severity,
                "",
            )
            for finding in self._results.findings
            if finding.severity != "note" and finding.effect_of is None
            for case in finding.case_of_each
            for first_place in case.places[:1]
        ]
