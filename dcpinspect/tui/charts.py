"""Draws charts as lines of text, in eighths of a cell.

A library for plots would draw the same, but would add a dependency and start-up time, and could not
draw in ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.style import Style
from rich.text import Text
from textual.app import App

from dcpinspect.arrays import IntArray
from dcpinspect.findings.finding import Finding
from dcpinspect.output.render.lanes import Scale
from dcpinspect.output.render.timeline_text import end_of, numbers
from dcpinspect.text import clip
from dcpinspect.tui import theme
from dcpinspect.tui.theme import Glyphs

BLOCKS = "▁▂▃▄▅▆▇█"
_DRAWN = f"[{BLOCKS}─]+"
APART = 2
"""Least number of columns between two labels of an axis."""
LABEL = 9
"""Width of the numbers beside a chart, with a blank behind them, in terminal columns."""

Values = npt.NDArray[np.float64]
Line = tuple[str, str]
"""A text and its style: heading, chart, marks or empty."""


class Happened(NamedTuple):
    """A finding in a connection."""

    connection: int
    time_ns: int
    """Nanoseconds since 1970."""
    sign: str
    severity: str


def happenings(findings: Sequence[Finding], glyphs: Glyphs) -> list[Happened]:
    """Returns errors and warnings that are no effects, each case at its first message, in order."""
    happened = [
        Happened(
            case.places[0].connection,
            case.places[0].time_ns,
            glyphs.of_severity(finding.severity),
            finding.severity,
        )
        for finding in findings
        if finding.severity != "note" and finding.effect_of is None
        for case in finding.case_of_each
        if case.places
    ]
    return sorted(happened, key=attrgetter("time_ns"))


def columns(values: Values, height: int, *, limit: float | None = None) -> list[str]:
    """Returns lines from the top down, with one column per value. A column is as high as the share
    of its value in ``limit``.

    Without ``limit``, the greatest value counts as the whole. Only the value 0 has an empty column.
    """
    top = max(float(values.max(initial=0)), 0) if limit is None else limit
    share = values / top if top > 0 else np.zeros(len(values))
    eighths = np.clip(np.ceil(share * height * 8), 0, height * 8).astype(np.int64)
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


def over(scale: Scale, values: IntArray, span_ns: int) -> Values:
    """Returns the greatest value in each cell of an axis of time."""
    times = scale.first + np.arange(scale.cells) * scale.step
    drawn = np.zeros(scale.cells)
    has_values = times < len(values) * span_ns
    if has_values.any():
        spans = times[has_values] // span_ns
        drawn[has_values] = np.maximum.reduceat(values, spans)
    return drawn


def chart(
    title: str,
    values: IntArray,
    span_ns: int,
    length_ns: int,
    *,
    width: int,
    height: int,
    write: Callable[[float], str] = short,
    limit: int | None = None,
    events: Sequence[Happened] = (),
    first_ns: int = 0,
) -> Iterator[Line]:
    """Yields a heading, ``height`` lines of columns with numbers beside them, a sign below each
    column that has findings, and the axis of time, from the begin of the capture to its end.

    ``span_ns``: length of each value's span since the capture began at ``first_ns``.
    ``length_ns``: length of the capture. ``write``: writes the greatest value. ``limit``: the
    greatest value that should occur; a line marks it where no column covers it.
    """
    scale = time_scale(length_ns, width - LABEL)
    drawn = np.repeat(over(scale, values, span_ns), scale.wide)
    top = max(float(drawn.max(initial=0)), limit or 0)
    lines = columns(drawn, height, limit=top)
    if limit is not None and top:
        row = min(height - 1, int((1 - limit / top) * height))
        lines[row] = "".join("─" if glyph == " " else glyph for glyph in lines[row])
    yield clip(title, width), "heading"
    for number, line in enumerate(lines):
        mark = write(top) if not number else "0" if number == height - 1 else ""
        yield clip(f"{mark:>{LABEL - 1}} {line}", width), "chart"
    if events:
        times = np.array([max(0, happened.time_ns - first_ns) for happened in events], np.uint64)
        signs = [" "] * scale.columns
        placed = zip((scale.cell(times) * scale.wide).tolist(), events, strict=True)
        for column, happened in sorted(placed, key=lambda pair: pair[1].severity, reverse=True):
            signs[column] = happened.sign  # an error stands before a warning
        yield f"{'':>{LABEL}}{''.join(signs)}", "marks"
    yield clip(f"{'':>{LABEL}}{axis(length_ns, width - LABEL)}", width), ""


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
    """Returns the scale that bars, marks and labels of a chart over time share: from the begin of
    the capture to its end.
    """
    return Scale.filling(0, max(1, length_ns), max(1, width), is_time=True)


def axis(length_ns: int, width: int) -> str:
    """Returns an axis of time: round times where they are, and the end of the capture at its
    end.
    """
    scale = time_scale(length_ns, width)
    last, text = end_of(scale, length_ns), numbers(scale)
    if len(last) > scale.columns:
        return text.ljust(scale.columns)
    line = ""
    for label in re.finditer(r"[\d.]+ \w+", text):
        # the end of the capture has its place, so a label too close to it is left out
        if label.end() + APART <= scale.columns - len(last):
            line = line.ljust(label.start()) + label[0]
    return line.ljust(scale.columns - len(last)) + last
