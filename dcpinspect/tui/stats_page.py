"""Makes the lines of the view of statistics, with their styles: charts over time and by size, then
the tables of ``dcpinspect stats``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.stats_text import stats_text
from dcpinspect.output.render.timeline_text import lasting
from dcpinspect.output.statistics import Charts
from dcpinspect.tables.message_statistics import StatisticsRow
from dcpinspect.text import clip, escape
from dcpinspect.tui.charts import BLOCKS, LABEL, bar, beside, chart, duration, fitted, short, spark

Measure = Literal["messages", "bytes"]
Line = tuple[str, str]
"""A text and its style: heading, chart, a severity or empty."""

WIDE = 100
"""Width in columns from which two charts stand side by side."""
SHORTEST = 4
"""Least length of a bar that is drawn, in cells."""
HEIGHT = 4
COMMANDS = 12
"""Number of commands that are drawn, the most frequent ones."""
MARKED = 3
"""Number of findings below a chart that are explained in words."""
WINDOWS = 6
"""Number of connections whose flow-control windows, or times of answers, are drawn."""


class Happened(NamedTuple):
    """A finding in a connection."""

    connection: int
    time_ns: int
    """Nanoseconds since 1970."""
    sign: str
    severity: str
    text: str


def page(
    charts: Charts,
    rows: Sequence[StatisticsRow],
    ends: tuple[int, int],
    *,
    width: int,
    measure: Measure,
    found: Sequence[Happened] = (),
) -> Iterator[Line]:
    """Yields all lines.

    ``ends``: when the capture began and ended, in nanoseconds since 1970. ``found``: findings to
    mark in charts of connections.
    """
    if charts.used:
        for section in (
            _throughput(charts, ends, width),
            _commands(charts, width, measure),
            _windows(charts, ends, width, found),
            _round_trips(charts.round_trips, "slowest answer to a request", ends, width, found),
            _round_trips(charts.noops, "slowest answer to a noop", ends, width, found),
            _answers(charts),
            _sizes(charts),
        ):
            lines = [(clip(line, width), style) for line, style in section]
            if lines:
                yield from lines
                yield "", ""
    yield from ((text, "heading" if style else "") for text, style in stats_text(rows, width=width))


def _throughput(charts: Charts, ends: tuple[int, int], width: int) -> Iterator[Line]:
    size = width // 2 - 1 if width >= WIDE else width
    drawn = []
    for name in ("messages", "bytes"):
        values = _sum([getattr(command, name) for command in charts.commands])[: charts.used]
        title = (
            f"{name} over time, at most {int(values.max(initial=0)):,} in {lasting(charts.span_ns)}"
        )
        drawn.append(
            chart(
                title,
                values,
                _span(charts.start_ns, charts.span_ns, charts.used, ends),
                width=size,
                height=HEIGHT,
            )
        )
    if width >= WIDE:
        drawn = [beside(drawn[0], drawn[1], size + 2)]
    for lines in drawn:
        yield lines[0], "heading"
        yield from ((line, "chart") for line in lines[1:-1])
        yield lines[-1], ""


def _commands(charts: Charts, width: int, measure: Measure) -> Iterator[Line]:
    counted = sorted(
        ((int(getattr(command, measure).sum()), command) for command in charts.commands),
        key=lambda pair: -pair[0],
    )
    total = max(1, sum(count for count, _ in counted))
    name = min(
        max(len(f"{command.name} {command.side}") for _, command in counted),
        max(1, min(40, width - 16)),
    )
    length = min(24, (width - name - 20) // 2)
    room = max(0, min(charts.used * 4, width - name - length - 20))
    yield (
        (
            f"{measure} by command, with count, share and time (d shows "
            f"{'bytes' if measure == 'messages' else 'messages'})"
        ),
        "heading",
    )
    for count, command in counted[:COMMANDS]:
        line = (
            clip(f"{escape(command.name)} {command.side}", name).ljust(name)
            + f"  {short(count):>6} {100 * count / total:5.1f} %"
        )
        if length >= SHORTEST:
            line += (
                f"  {bar(count, counted[0][0], length):<{length}}  "
                f"{spark(getattr(command, measure)[: charts.used], room)}"
            )
        yield line, "chart"
    if len(counted) > COMMANDS:
        yield f"and {len(counted) - COMMANDS} more, see below", ""


def _windows(
    charts: Charts, ends: tuple[int, int], width: int, found: Sequence[Happened]
) -> Iterator[Line]:
    for connection, window, start_ns, span_ns, values in charts.windows[:WINDOWS]:
        used = int(np.flatnonzero(values)[-1]) + 1 if values.any() else 0
        if not used:
            continue
        most = int(values.max())
        share = f", {100 * most / window:.0f} % of its window of {window:,}" if window else ""
        title = f"connection {connection}: bytes not acknowledged, at most {most:,}{share}"
        span = _span(start_ns, span_ns, used, ends)
        lines = chart(title, values[:used], span, width=width, height=HEIGHT, limit=window)
        yield from _with_marks(lines, connection, span, values[:used], ends, width, found)
    if len(charts.windows) > WINDOWS:
        yield f"and {len(charts.windows) - WINDOWS} more connections with windows, see below", ""


def _round_trips(
    series: Sequence[tuple[int, int, int, IntArray]],
    what: str,
    ends: tuple[int, int],
    width: int,
    found: Sequence[Happened],
) -> Iterator[Line]:
    """Yields charts of how long connections took to answer, the slowest first."""
    slowest = sorted(series, key=lambda one: -int(one[3].max(initial=0)))
    for connection, start_ns, span_ns, values in slowest[:WINDOWS]:
        used = int(np.flatnonzero(values)[-1]) + 1 if values.any() else 0
        if not used:
            continue
        span = _span(start_ns, span_ns, used, ends)
        title = (
            f"connection {connection}: {what}, in microseconds; at most "
            f"{duration(int(values.max()))}"
        )
        lines = chart(title, values[:used], span, width=width, height=HEIGHT, each=1000)
        yield from _with_marks(lines, connection, span, values[:used], ends, width, found)
    if len(slowest) > WINDOWS:
        yield f"and {len(slowest) - WINDOWS} more, which took less", ""


def _with_marks(
    lines: Sequence[str],
    connection: int,
    span: tuple[int, int],
    values: IntArray,
    ends: tuple[int, int],
    width: int,
    found: Sequence[Happened],
) -> Iterator[Line]:
    """Yields a chart, a line with a sign below each column that has findings, and the findings in
    words, each in its colour.
    """
    yield lines[0], "heading"
    yield from ((line, "chart") for line in lines[1:-1])
    begin, end = span
    happenings = [
        happened
        for happened in found
        if happened.connection == connection and begin <= happened.time_ns - ends[0] <= end
    ]
    columns = len(fitted(values, max(1, width - LABEL)))
    marks = [" "] * columns
    for happened in happenings:
        marks[
            min(
                columns - 1,
                int((happened.time_ns - ends[0] - begin) / max(end - begin, 1) * columns),
            )
        ] = happened.sign
    if happenings:
        yield f"{'':>{LABEL}}{''.join(marks)}", min(happened.severity for happened in happenings)
    yield lines[-1], ""
    for happened in happenings[:MARKED]:
        yield (
            f"{'':>{LABEL}}{happened.sign} {(happened.time_ns - ends[0]) / 1e9:.3f} s  {happened.text}",
            happened.severity,
        )
    if len(happenings) > MARKED:
        yield f"{'':>{LABEL}}and {len(happenings) - MARKED} more", ""


def _answers(charts: Charts) -> Iterator[Line]:
    if not charts.answers:
        return
    low, high = _octaves(_sum([counts for _, counts in charts.answers]))
    name = max(len(command) for command, _ in charts.answers)
    yield (
        "time from request to answer; each column covers twice the time of the one before",
        "heading",
    )
    scale = "".join(f"{duration(1 << power):<8}" for power in range(low, high + 1, 4))
    yield f"{'':<{name}}  {scale}", ""
    for command, counts in charts.answers[:COMMANDS]:
        blocks = "".join(f"{glyph}{glyph}" for glyph in _heights(counts[low : high + 1]))
        yield f"{escape(command):<{name}}  {blocks}  {int(counts.sum()):,}", "chart"


def _sizes(charts: Charts) -> Iterator[Line]:
    if not charts.sizes.any():
        return
    low, high = _octaves(charts.sizes)
    yield (
        "size of messages in bytes; each column covers twice the size of the one before",
        "heading",
    )
    yield "".join(f"{glyph * 5} " for glyph in _heights(charts.sizes[low : high + 1])), "chart"
    yield "".join(f"{short(1 << power):<6}" for power in range(low, high + 1)), ""


def _heights(counts: IntArray) -> str:
    most = max(1, int(counts.max(initial=0)))
    return "".join(BLOCKS[(8 * int(count) - 1) // most] if count else " " for count in counts)


def _octaves(counts: IntArray) -> tuple[int, int]:
    used = np.flatnonzero(counts)
    return (int(used[0]), int(used[-1])) if len(used) else (0, 0)


def _sum(rows: Sequence[IntArray]) -> IntArray:
    total: IntArray = np.sum(rows, axis=0, dtype=np.int64)
    return total


def _span(start_ns: int, span_ns: int, used: int, ends: tuple[int, int]) -> tuple[int, int]:
    """Returns begin and end of spans, in nanoseconds since the capture began; nothing is after the
    end of the capture.
    """
    return start_ns - ends[0], max(start_ns, min(start_ns + used * span_ns, ends[1])) - ends[0]
