"""The view of statistics: how often, how large and how fast messages were, and how complete the
capture is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import duration
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.coverage_text import coverage_table
from dcpinspect.output.render.stats_text import share_text, stats_text
from dcpinspect.output.statistics import Charts
from dcpinspect.tables.message_statistics import StatisticsRow
from dcpinspect.text import clip, escape
from dcpinspect.tui.charts import (
    Happened,
    Line,
    chart,
    columns,
    happenings,
    over,
    painted,
    short,
    time_scale,
)
from dcpinspect.tui.view import View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation


HEIGHT = 4
COMMANDS = 12
"""Number of commands that are drawn, the most frequent ones."""
WINDOWS = 6
"""Number of connections whose flow-control windows, or times of answers, are drawn."""


def page(
    charts: Charts,
    rows: Sequence[StatisticsRow],
    *,
    width: int,
    events: Sequence[Happened] = (),
) -> Iterator[Line]:
    """Yields all lines. ``events``: findings to mark in charts of connections."""
    if charts.used:
        drawn = _Drawn(charts.ends, width, list(events))
        for section in (
            _commands(charts, width),
            _windows(charts, drawn),
            _round_trips(charts.round_trips, "slowest answer to a request", drawn),
            _round_trips(charts.noops, "slowest answer to a noop", drawn),
        ):
            line = ""
            for line, style in section:
                yield clip(line, width), style
            if line:
                yield "", ""
    yield from ((text, "heading" if style else "") for text, style in stats_text(rows, width=width))


@dataclass(slots=True)
class _Drawn:
    """What the charts of connections share."""

    ends: tuple[int, int]
    """When the capture began and ended, in nanoseconds since 1970."""
    width: int
    events: list[Happened]


def _commands(charts: Charts, width: int) -> Iterator[Line]:
    counted = sorted(
        ((int(command.messages.sum()), command) for command in charts.commands),
        key=lambda pair: -pair[0],
    )
    total = max(1, sum(count for count, _ in counted))
    name = min(
        max(len(f"{command.name} {command.side}") for _, command in counted),
        max(1, min(40, width - 17)),
    )
    spark_width = max(0, width - name - 20)
    scale = time_scale(charts.ends[1] - charts.ends[0], spark_width)
    title = "messages by command"
    over_time = "over time, each up to its own most"
    over_time = over_time if len(over_time) <= spark_width else "over time"
    yield (
        f"{title:<{name}}  {'count':>7} {'share':>7}  {over_time if len(over_time) <= spark_width else ''}".rstrip(),
        "heading",
    )
    for count, command in counted[:COMMANDS]:
        amounts = over(scale, command.messages, charts.span_ns)
        spark = columns(np.repeat(amounts, scale.wide), 1)[0][:spark_width]
        yield (
            (
                clip(f"{escape(command.name)} {command.side}", name).ljust(name)
                + f"  {_count_text(count):>7} {share_text(count / total):>7}  {spark}"
            ).rstrip(),
            "chart",
        )
    if len(counted) > COMMANDS:
        yield f"and {len(counted) - COMMANDS} more, see below", ""


def _windows(charts: Charts, drawn: _Drawn) -> Iterator[Line]:
    for connection, window, span_ns, values in charts.windows[:WINDOWS]:
        if not values.any():
            continue
        most = int(values.max())
        share = f", {share_text(most / window)} of its window of {window:,}" if window else ""
        title = f"connection {connection}: bytes not acknowledged, at most {most:,}{share}"
        if len(title) > drawn.width:
            title = title.replace("connection", "con").replace("its window of", "window")
        yield from _of_connection(drawn, title, (connection, span_ns, values), limit=window)
    if len(charts.windows) > WINDOWS:
        yield f"and {len(charts.windows) - WINDOWS} more connections with windows, see below", ""


def _round_trips(
    series: Sequence[tuple[int, int, IntArray]],
    what: str,
    drawn: _Drawn,
) -> Iterator[Line]:
    """Yields charts of how long connections took to answer, the slowest first."""
    slowest = sorted(series, key=lambda one: -int(one[2].max(initial=0)))
    for connection, span_ns, values in slowest[:WINDOWS]:
        if not values.any():
            continue
        title = f"connection {connection}: {what}, at most {duration(int(values.max()))}"
        yield from _of_connection(drawn, title, (connection, span_ns, values), write=duration)
    if len(slowest) > WINDOWS:
        yield f"and {len(slowest) - WINDOWS} more, which took less", ""


def _of_connection(
    drawn: _Drawn,
    title: str,
    series: tuple[int, int, IntArray],
    *,
    write: Callable[[float], str] = short,
    limit: int | None = None,
) -> Iterator[Line]:
    """Yields a chart with signs of the connection's findings."""
    (connection, span_ns, values), ends = series, drawn.ends
    findings = [happened for happened in drawn.events if happened.connection == connection]
    form: dict[str, Any] = {
        "width": drawn.width,
        "height": HEIGHT,
        "limit": limit,
        "first_ns": ends[0],
    }
    placed = values, span_ns, ends[1] - ends[0]
    yield from chart(title, *placed, write=write, events=findings, **form)
    yield "", ""


def _count_text(number: int) -> str:
    """Writes a number as other views do where it fits in seven letters, else in short."""
    return f"{number:,}" if number < 1_000_000 else short(number)


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
