"""Draws charts as lines of text, in eighths of a cell.

A library for plots would draw the same, but would add a dependency and start-up time, and could not
draw in ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.style import Style
from rich.text import Text
from textual.app import App

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.lanes import Scale
from dcpinspect.output.render.sparkline import BLOCKS
from dcpinspect.output.render.timeline_text import end_of, numbers
from dcpinspect.protocol.message import Severity
from dcpinspect.text import clip
from dcpinspect.tui import theme
from dcpinspect.tui.theme import Glyphs

_DRAWN = f"[{BLOCKS}]+"
APART = 2
"""Least number of columns between two labels of an axis."""
LABEL = 9
"""Width of the numbers beside a chart, with a blank behind them, in terminal columns."""

Line = tuple[str, str]
"""A text and its style: heading, chart, marks or empty."""


def columns(values: IntArray, height: int) -> list[str]:
    """Returns lines from the top down, with one column per value. A column is as high as the share
    of its value in the greatest. Only the value 0 has an empty column.
    """
    share = values / max(1, int(values.max(initial=0)))
    eighths = np.ceil(share * height * 8).astype(np.int64)
    glyphs = np.array([" ", *BLOCKS])
    return [
        "".join(glyphs[np.clip(eighths - 8 * below, 0, 8)]) for below in reversed(range(height))
    ]


def short(number: float) -> str:
    """Writes a number in at most six letters: 950, 36k, 7.66M."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 999.5 or unit == "P":
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    raise AssertionError


def over(scale: Scale, values: IntArray, span_ns: int) -> IntArray:
    """Returns the greatest value of the spans that each cell of an axis of time shares."""
    times = scale.first + np.arange(scale.cells) * scale.step
    bounds = np.stack((times // span_ns, -(-(times + scale.step) // span_ns)), axis=1)
    padded = np.append(values, (0, 0))  # what is after the last span, and the end of that
    bounds = np.minimum(bounds, (len(values), len(values) + 1))
    return np.maximum.reduceat(padded, bounds.reshape(-1))[::2]


def chart(
    values: IntArray,
    span_ns: int,
    ends: tuple[int, int],
    *,
    width: int,
    height: int,
    glyphs: Glyphs,
    events: Mapping[Severity, IntArray] = MappingProxyType({}),
) -> Iterator[Line]:
    """Yields ``height`` lines of columns with numbers beside them, a sign below each column that has
    findings, and the axis of time, from the begin of the capture to its end.

    ``span_ns``: length of each value's span. ``ends``: when the capture began and ended, in
    nanoseconds since 1970. ``events``: when there were findings, the worst last.
    """
    scale = time_scale(ends[1] - ends[0], width - LABEL)
    drawn = np.repeat(over(scale, values, span_ns), scale.wide)
    for number, line in enumerate(columns(drawn, height)):
        mark = short(drawn.max(initial=0)) if not number else "0" if number == height - 1 else ""
        yield clip(f"{mark:>{LABEL - 1}} {line}", width), "chart"
    if events:
        signs = np.full(scale.columns, " ")
        for severity, times in events.items():
            event_cells = np.clip((times - ends[0]) // scale.step, 0, scale.cells - 1)
            signs[event_cells * scale.wide] = glyphs.of_severity(severity)
        yield f"{'':>{LABEL}}{''.join(signs)}", "marks"
    yield clip(f"{'':>{LABEL}}{axis(scale, ends[1] - ends[0])}", width), ""


def painted(lines: Iterable[Line], app: App[Any]) -> Text:
    """Returns lines in their colours."""
    text = Text(no_wrap=True)
    for line, style in lines:
        drawn = Text(f"{line}\n", Style(bold=style == "heading"))
        if style == "chart":
            drawn.highlight_regex(_DRAWN, theme.style_of(app, "chart-bar"))
        elif style == "marks":
            for severity in ("error", "warning"):
                sign = theme.style_of(app, f"severity-{severity}")
                drawn.highlight_words(
                    [theme.glyphs_of(app).of_severity(severity)], sign + Style(bold=True)
                )
        text.append_text(drawn)
    return text


def time_scale(length_ns: int, width: int) -> Scale:
    """Returns the scale of a chart over time, from the begin of the capture to its end."""
    return Scale.filling(0, max(1, length_ns), max(1, width), is_time=True)


def a_cell(scale: Scale) -> str:
    """Returns the begin of a phrase that says what a cell is: columns are not meant if it has more."""
    return f"a cell of {scale.wide} columns is" if scale.wide > 1 else "a cell is"


def axis(scale: Scale, end: int) -> str:
    """Returns the labels of an axis: round times or seqnos, and the ``end`` at its end."""
    last, text, line = end_of(scale, end), numbers(scale), ""
    start = min((scale.cells - 1) * scale.wide, scale.columns - len(last))
    if start < 0:
        return text.ljust(scale.columns)
    for label in re.finditer(r"\S+(?: \S+)*", text):
        # the end has its place, so a label too close to it, or the same, is left out
        if label.end() + APART <= start and label[0] != last:
            line = line.ljust(label.start()) + label[0]
    return f"{line.ljust(start)}{last}".ljust(scale.columns)
