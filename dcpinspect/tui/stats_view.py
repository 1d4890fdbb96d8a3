"""The view of statistics: counts, sizes and times of messages, and the capture loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import duration
from dcpinspect.output.render.coverage_text import coverage_table
from dcpinspect.output.render.sparkline import sparkline
from dcpinspect.output.render.stats_text import share_text, stats_text
from dcpinspect.output.statistics import Charts
from dcpinspect.tables.message_statistics import StatisticsRow
from dcpinspect.text import clip, escape
from dcpinspect.tui.charts import Line, axis, over, painted, short, time_scale
from dcpinspect.tui.view import View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

MOST = 12
"""Number of lines of a section, those with most."""
NAME, NUMBER = 40, 9
"""Greatest width of a name, and width of the number behind it."""

Series = tuple[str, int, IntArray, int]
"""A name, its sum or its greatest number, its numbers in spans of time, and the length of the spans
in nanoseconds.
"""


def page(charts: Charts, rows: Sequence[StatisticsRow], *, width: int) -> Iterator[Line]:
    """Yields all lines: what was how much over time, then the tables of the command."""
    sections = list(_sections(charts)) if charts.used else []
    longest = max(
        (
            len(name)
            for title, *_, series in sections
            for name in (title, *(line[0] for line in series))
        ),
        default=0,
    )
    named = min(longest, max(1, min(NAME, width - NUMBER - 5)))
    length_ns, width_left = charts.ends[1] - charts.ends[0], width - named - NUMBER - 4
    scale = time_scale(length_ns, width_left)
    times = axis(scale, length_ns)
    for title, heading, write, series in sections:
        head = f"{clip(title, named):<{named}}  {heading:>{NUMBER}}  {times}"
        yield clip(head, width), "heading"
        for name, number, values, span_ns in nlargest(MOST, series, key=itemgetter(1)):
            blocks = sparkline(np.repeat(over(scale, values, span_ns), scale.wide).tolist())
            line = f"{clip(name, named):<{named}}  {write(number):>{NUMBER}}  {blocks}"
            yield clip(line.rstrip(), width), "chart"
        if len(series) > MOST:
            yield clip(f"and {len(series) - MOST:,} more", width), ""
        yield "", ""
    yield from (
        (text, "heading" if style else "chart") for text, style in stats_text(rows, width=width)
    )


def _sections(
    charts: Charts,
) -> Iterator[tuple[str, str, Callable[[int], str], Sequence[Series]]]:
    """Yields a title, what the numbers are, how they are written, and what has a line."""
    commands = [
        (
            f"{escape(command.name)} {command.side}",
            int(command.messages.max()),
            command.messages,
            charts.span_ns,
        )
        for command in charts.commands
    ]
    yield f"messages in {duration(charts.span_ns, is_exact=True)}", "most", _number, commands
    windows = [
        (
            f"{connection}, {share_text(values.max() / window)} of {window:,}"
            if window
            else str(connection),
            span_ns,
            values,
        )
        for connection, window, span_ns, values in charts.windows
    ]
    for title, write, connections in (
        ("bytes not acknowledged", _number, windows),
        ("slowest answer to a request", duration, charts.round_trips),
        ("slowest answer to a noop", duration, charts.noops),
    ):
        series = [
            (f"connection {connection}", int(values.max()), values, span_ns)
            for connection, span_ns, values in connections
            if values.any()
        ]
        if series:
            yield title, "most", write, series


def _number(number: int) -> str:
    """Writes a number as other views do where it fits, else in short."""
    return text if len(text := f"{number:,}") <= NUMBER else short(number)


class StatsView(View, VerticalScroll, can_focus=True, inherit_bindings=False):
    """What came over time, then the tables of ``dcpinspect stats`` and of ``--stats``."""

    def __init__(self, host: Navigation) -> None:
        self._text = Static(id="stats-text")
        super().__init__(host, "stats", self._text)

    def arrive(self) -> None:
        """Draws the results so far."""
        if not self.is_mounted or not self.display:
            return
        results, text = self.host.inspection.results, Text(no_wrap=True)
        if results.connection is not None:
            text.append("messages of all connections\n\n")
        width = max(20, self.size.width - 3)
        text.append_text(painted(page(results.charts, results.statistics, width=width), self.app))
        if results.coverage is not None:
            text.append("\n")
            for line in coverage_table(results.coverage, width=width):
                text.append(f"{line}\n")
        self._text.update(text)
