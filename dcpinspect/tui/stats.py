"""What was said how often, how large, how fast; and how whole the capture is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from dcpinspect.coverage import Coverage
from dcpinspect.render.coverage import coverage_table
from dcpinspect.render.stats import stats_text
from dcpinspect.tables.statistics import Row
from dcpinspect.tui.inspection import Results
from dcpinspect.tui.view import Host, View


class StatsView(VerticalScroll, View):
    """The tables of ``stats``, and of ``--stats``."""

    def __init__(self, host: Host) -> None:
        super().__init__(id="stats")
        self.host = host
        self._rows: Sequence[Row] = ()
        self._coverage: Coverage | None = None
        self._text = Static(id="stats-text")

    def compose(self) -> ComposeResult:
        """One text that scrolls."""
        yield self._text

    def take_up(self, results: Results) -> None:
        """What is known by now."""
        self.show(results.statistics, results.coverage)

    def show(self, rows: Sequence[Row], coverage: Coverage | None) -> None:
        """What is known by now."""
        self._rows, self._coverage = rows, coverage
        self._draw()

    def on_resize(self) -> None:
        """Lines are as wide as the view."""
        self._draw()

    def _draw(self) -> None:
        text = Text(no_wrap=True)
        for line, style in stats_text(self._rows, width=max(40, self.size.width - 3)):
            text.append(f"{line}\n", style)
        if self._coverage is not None:
            text.append("\n")
            for line in coverage_table(self._coverage):
                text.append(f"{line}\n")
        self._text.update(text)

    def action_step(self, lines: int) -> None:
        """A line on, or back."""
        self.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """A screen on, or back."""
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def action_first(self) -> None:
        """To the top."""
        self.scroll_home(animate=False)

    def action_last(self) -> None:
        """To the bottom."""
        self.scroll_end(animate=False)
