"""Charts as lines of text, in eighths of a cell: a library for plots would draw the same with a dependency more, and not in ASCII."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcpinspect.escape import cells, clip

BLOCKS = "▁▂▃▄▅▆▇█"
FULL = "█"
LABEL = 9
"""Columns of the numbers beside a chart, with a blank behind."""

Whole = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


def fitted(values: Whole, width: int) -> Values:
    """So many columns: each value in some of them, or in each the greatest of several neighbours, so that no peak is lost."""
    if not len(values) or width < 1:
        return np.zeros(0)
    found: Values = np.maximum.reduceat(values, np.arange(width) * len(values) // width).astype(np.float64)
    return found


def columns(values: Values, height: int, *, most: float | None = None) -> list[str]:
    """Lines from the top down, a column a value, as high as its share of ``most`` (of the greatest without); nothing only for 0."""
    top = max(float(values.max(initial=0)), 0) if most is None else most
    share = values / top if top > 0 else np.zeros(len(values))
    eighths = np.clip(np.ceil(share * height * 8), 0, height * 8).astype(np.int64)
    glyphs = np.array([" ", *BLOCKS])
    return ["".join(glyphs[np.clip(eighths - 8 * below, 0, 8)]) for below in reversed(range(height))]


def chart(
    title: str, values: Whole, span: tuple[float, float], *, width: int, height: int, each: float = 1, limit: int | None = None
) -> list[str]:
    """A heading, so many lines of columns with numbers beside them, and the begin and end of ``span`` in seconds below.

    ``each``: what values are divided by, seconds of a span for rates. ``limit``: the most there should be, a line where nothing is drawn
    over it.
    """
    room = max(1, width - LABEL)
    drawn = fitted(values, room) / each
    top = max(float(drawn.max(initial=0)), limit or 0)
    lines = columns(drawn, height, most=top)
    if limit is not None and top:
        row = min(height - 1, int((1 - limit / top) * height))
        lines[row] = "".join("─" if glyph == " " else glyph for glyph in lines[row])
    marks = {0: short(top), height - 1: "0"}
    body = [f"{marks.get(number, ''):>{LABEL - 1}} {line}" for number, line in enumerate(lines)]
    begin, end = (f"{at:.3f} s" for at in span)
    axis = f"{'':>{LABEL}}{begin}{end:>{max(1, len(drawn) - len(begin))}}"
    return [clip(line, width) for line in (title, *body, axis)]


def beside(left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
    """Two charts next to each other; ``width``: of the left one."""
    return [f"{one}{' ' * max(0, width - cells(one))}{other}" for one, other in zip(left, right, strict=True)]


def bar(value: int, most: int, width: int) -> str:
    """A line as long as its share of ``most``; nothing only for 0."""
    return FULL * max(1, round(width * value / most)) if value > 0 and most > 0 else ""


def spark(values: Whole, width: int) -> str:
    """One line of columns."""
    return columns(fitted(values, width), 1)[0] if len(values) else ""


def short(number: float) -> str:
    """A number in at most six letters: 950, 36k, 7.66M."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 999.5 or unit == "P":
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    raise AssertionError


def duration(span_ns: int) -> str:
    """Nanoseconds in their own unit, no digits behind: 16us."""
    for unit, name in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if span_ns >= unit:
            return f"{span_ns // unit}{name}"
    return f"{span_ns}ns"
