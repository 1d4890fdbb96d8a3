"""The view of statistics: how often, how large and how fast messages were, and how complete the
capture is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from dcpinspect.output.render.coverage_text import coverage_table
from dcpinspect.tui.charts import happenings, painted
from dcpinspect.tui.stats_page import page
from dcpinspect.tui.view import View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation


class StatsView(View, VerticalScroll, can_focus=True, inherit_bindings=False):
    """Charts, then the tables of ``dcpinspect stats`` and of ``--stats``."""

    def __init__(self, host: Navigation) -> None:
        super().__init__(host, "stats")
        self._text = Static(id="stats-text")

    def compose(self) -> ComposeResult:
        """Yields the only widget, a text that scrolls."""
        yield self._text

    def arrive(self) -> None:
        """Draws the results so far."""
        if not self.is_mounted or not self.display:
            return
        results, text = self.host.inspection.results, Text(no_wrap=True)
        if results.connection is not None:
            text.append("messages of all connections\n\n")
        width = max(20, self.size.width - 3)
        lines = page(
            results.charts,
            results.statistics,
            width=width,
            events=happenings(results.findings, self._glyphs),
        )
        text.append_text(painted(lines, self.app))
        if results.coverage is not None:
            text.append("\n")
            for line in coverage_table(results.coverage, width=width):
                text.append(f"{line}\n")
        self._text.update(text)
