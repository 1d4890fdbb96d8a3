"""Draws how many messages came when, as columns over the whole width, with signs of
findings below their time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.text import Text
from textual.widget import Widget

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import duration
from dcpinspect.tables.series import SPANS
from dcpinspect.tui import theme
from dcpinspect.tui.charts import chart, happenings, painted
from dcpinspect.tui.results import Results

_WIDE = 50
"""Width in columns in which the title can say that the chart is over time."""


class Rate(Widget):
    """A chart over time; its title says what is drawn."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._results = Results()

    def show(self, results: Results) -> None:
        """Shows the results so far."""
        self._results = results
        self.refresh()

    def render(self) -> Text:
        """Draws the chart, for the size and in the colours of now."""
        charts, (width, height) = self._results.charts, self.size
        if not charts.used:
            self.border_title = "messages over time"
            return Text(" no message so far")
        rows = [command.messages for command in charts.commands]
        row: IntArray = sum(rows, start=np.zeros(SPANS, np.int64))
        first_ns, last_ns = charts.ends
        whose = "" if self._results.connection is None else " of all connections"
        over_time = " over time" if width >= _WIDE else ""
        most = f"at most {int(row.max()):,} in {duration(charts.span_ns, is_exact=True)}"
        self.border_title = f"messages{whose}{over_time}, {most}"
        happened = (
            happenings(self._results.findings, theme.glyphs_of(self.app)) if height > 2 else []
        )
        series = row, charts.span_ns, last_ns - first_ns
        high = max(1, height - 1 - bool(happened))
        form: dict[str, Any] = {"width": width - 1, "height": high, "first_ns": first_ns}
        _, *lines = chart("", *series, events=happened, **form)
        return painted(lines, self.app)
