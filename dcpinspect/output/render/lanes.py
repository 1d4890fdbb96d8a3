"""The lanes of a stream along an axis of seqnos or time, one character per cell: snapshots, items,
gaps and events; and their colours and legend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby, takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.output.render.shape import Shape, sums
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.streams import words as w
from dcpinspect.streams.story import Bars
from dcpinspect.text import cells

LaneCells = npt.NDArray[np.str_]

LETTERS = {
    "deduplicated": "d",
    "filtered": "f",
    "seqno-advanced": "a",
    "oso": "o",
    "invisible": "i",
    "resumed": "s",
    "rollback": "r",
    "snapshot-tail": "t",
    "capture-loss": "L",
    "unexplained": "?",
}
"""Letters of the causes of gaps, the worst last: it wins a cell."""

TICK = 10
"""Least number of cells between two marks of the axis."""
ITEMS = "chart-bar"
"""Colour of items, whose glyphs stand for amounts."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that lanes are drawn with."""

    memory: str = "░▒"
    disk: str = "▓█"
    oso: str = "≈≈"
    unknown: str = "▚▞"
    history: str = "hh"
    promised: str = "╌"
    """The part of a snapshot that did not come any more."""
    density: str = "▁▂▃▄▅▆▇█"
    line: str = "─"
    tick: str = "┼"
    end: str = "┤"
    back: str = "◂"
    error: str = "✖"
    warning: str = "!"

    def of_type(self, number: int) -> str:
        """Returns the two characters that snapshots of a type have in turn."""
        return (self.memory, self.disk, self.oso, self.unknown)[number]


UNICODE = Glyphs()
ASCII = Glyphs(":;", "&@", "~~", "uU", "hh", ".", "_.:-=+*#", "-", "+", "|", "<", "X", "!")
"""For terminals without line drawing."""


MINUTE, HOUR, DAY = 60 * 10**9, 3600 * 10**9, 86_400 * 10**9
"""In nanoseconds."""


def _round_steps(unit: int) -> Iterator[int]:
    """Yields 1, 2, 5, 10, 20, 50 and so on of a unit."""
    return (unit * step * 10**power for power in count() for step in (1, 2, 5))


def _round_times() -> Iterator[int]:
    """Yields lengths of time that are round for people, in nanoseconds."""
    yield from takewhile(lambda step: step < MINUTE // 2, _round_steps(1))
    yield MINUTE // 2
    yield from (MINUTE * step for step in (1, 2, 5, 10, 30))
    yield from (HOUR * step for step in (1, 2, 6, 12))
    yield from _round_steps(DAY)


@dataclass(frozen=True, slots=True)
class Scale:
    """The seqnos or nanoseconds that each cell of a line stands for."""

    first: int
    """First seqno of the first cell."""
    step: int
    """Number of seqnos in a cell."""
    cells: int
    wide: int = 1
    """Width of a cell in columns: all have the same, as uneven ones would look like gaps."""
    is_time: bool = False
    """Whether cells stand for nanoseconds."""

    @staticmethod
    def finest(first: int, last: int, cells: int) -> Scale:
        """Returns the finest scale on which ``first`` to ``last`` take ``cells`` cells at most."""
        return next(
            Scale(low, step, used)
            for step in _round_steps(1)
            for low in (first // step * step,)
            if (used := (last - low) // step + 1) <= cells
        )

    @staticmethod
    def filling(first: int, last: int, columns: int, *, is_time: bool = False) -> Scale:
        """Returns a scale as ``finest`` does, but with any step, and with cells as wide as there is
        room for in ``columns``.
        """
        step = max(1, -(-(last - first + 1) // columns))
        cells = max(1, -(-(last - first + 1) // step))
        return Scale(first, step, cells, columns // cells, is_time)

    @property
    def columns(self) -> int:
        """Width of all cells."""
        return self.cells * self.wide

    def ticks(self, apart: int = TICK) -> range:
        """Returns the round seqnos or times that are marked, with at least ``apart`` columns between
        two.
        """
        steps = _round_times() if self.is_time else _round_steps(1)
        step = next(step for step in steps if step * self.wide >= self.step * apart)
        return range(-(-self.first // step) * step, self.last + 1, step)

    @property
    def last(self) -> int:
        """Last seqno of the last cell, or the greatest possible one."""
        return min(self.first + self.step * self.cells - 1, ENDLESS)

    def cell(self, seqnos: npt.NDArray[np.uint64]) -> IntArray:
        """Returns the cell of each seqno; for a seqno outside, the nearest cell."""
        inside = np.clip(seqnos, np.uint64(self.first), np.uint64(self.last))
        return ((inside - np.uint64(self.first)) // np.uint64(self.step)).astype(np.int64)

    def shows(self, first: npt.NDArray[np.uint64], last: npt.NDArray[np.uint64]) -> BoolArray:
        """Returns which ranges have a visible seqno."""
        is_shown: BoolArray = (first <= np.uint64(self.last)) & (last >= np.uint64(self.first))
        return is_shown


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of one stream, one character per cell."""

    axis: str
    snapshots: str
    items: str
    gaps: str
    events: str


def lanes(
    shape: Shape, scale: Scale, *, glyphs: Glyphs = UNICODE, apart: int = TICK, high: int = 1
) -> Lanes:
    """Returns the lanes of a stream; the items may take ``high`` lines, joined by line ends.

    The cost depends on what is visible, not on the range. ``apart``: least number of columns between
    two marks of the axis.
    """
    return Lanes(
        "".join(_axis(shape, scale, glyphs, apart)),
        "".join(_snapshots(shape.bars, scale, glyphs)),
        "\n".join("".join(line) for line in _items(shape, scale, glyphs, high)),
        "".join(_gaps(shape, scale)),
        "".join(_events(shape, scale)),
    )


def _blank(scale: Scale) -> LaneCells:
    return np.full(scale.cells, " ")


def _set_cell(cells: LaneCells, scale: Scale, seqno: int | None, glyph: str) -> None:
    if seqno is not None and scale.first <= seqno <= scale.last:
        cells[(seqno - scale.first) // scale.step] = glyph


def _axis(shape: Shape, scale: Scale, glyphs: Glyphs, apart: int) -> LaneCells:
    begin, end, cells = shape.begin, shape.end, _blank(scale)
    if begin is None:
        return cells
    low, high = np.array([min(begin, end)], np.uint64), np.array([max(begin, end)], np.uint64)
    if scale.shows(low, high)[0]:
        first, last = int(scale.cell(low)[0]), int(scale.cell(high)[0])
        cells[first : last + 1] = glyphs.line
        ticks = (np.array(scale.ticks(apart), np.uint64) - np.uint64(scale.first)) // np.uint64(
            scale.step
        )
        cells[ticks[(ticks >= first) & (ticks <= last)].astype(np.int64)] = glyphs.tick
        if shape.rollback_seqno is not None:
            cells[first + 1 : first + 2] = glyphs.back
        else:
            cells[last] = glyphs.end
    for letter in "BRQN":
        for mark in shape.marks:
            if mark.letter == letter and (letter not in "QN" or shape.is_asked):
                _set_cell(cells, scale, mark.at, letter)
    return cells


def _snapshots(bars: Bars, scale: Scale, glyphs: Glyphs) -> LaneCells:
    cells = _blank(scale)
    visible = np.flatnonzero(scale.shows(bars.first, bars.last))
    first, last = scale.cell(bars.first[visible]), scale.cell(bars.last[visible])
    # neighbouring snapshots have the two characters in turn, so that they can be told apart
    pairs = np.array(
        [glyphs.of_type(number) for number in range(len(w.SNAPSHOT_TYPES))] + [glyphs.history]
    )
    form = np.where(bars.has_history[visible], len(pairs) - 1, bars.type[visible])
    drawn = np.array([[pair[0], pair[1]] for pair in pairs])[form, visible % 2]
    came = (bars.received[visible] >= bars.first[visible]) & (
        bars.received[visible] >= np.uint64(scale.first)
    )
    until = np.where(came, scale.cell(bars.received[visible]), first - 1)
    for bar in np.flatnonzero((last > first) | ~came).tolist():
        cells[first[bar] : last[bar] + 1] = glyphs.promised
        cells[first[bar] : until[bar] + 1] = drawn[bar]
    # of several in a cell, the last one from disk is seen: it mostly has the most items
    single = np.flatnonzero((last == first) & came)
    is_disk = bars.type[visible][single] == w.SNAPSHOT_TYPES.index("disk")
    single = single[np.argsort(is_disk, kind="stable")]
    cells[first[single]] = drawn[single]
    return cells


def _items(shape: Shape, scale: Scale, glyphs: Glyphs, high: int) -> list[LaneCells]:
    visible = scale.shows(shape.item_first, shape.item_last)
    first, last = scale.cell(shape.item_first[visible]), scale.cell(shape.item_last[visible])
    share = shape.item_count[visible] / (last - first + 1)
    item_counts = sums(first, last, share, scale.cells)
    # the full block is for cells whose every seqno came, or, along time, where most came; the
    # lowest is for a single one
    density = item_counts / (
        max(1.0, float(item_counts.max(initial=0))) if shape.is_time else scale.step
    )
    blocks = np.array([" ", *glyphs.density])
    full = len(glyphs.density)
    eighths = np.clip(np.floor(density * full * high), density > 0, full * high).astype(np.int64)
    return [blocks[np.clip(eighths - full * line, 0, full)] for line in reversed(range(high))]


def _gaps(shape: Shape, scale: Scale) -> LaneCells:
    cells = _blank(scale)
    visible = scale.shows(shape.gap_first, shape.gap_last)
    start = scale.cell(shape.gap_first[visible])
    end = scale.cell(shape.gap_last[visible])
    cause = shape.cause[visible]
    for word, letter in LETTERS.items():
        has_cause = cause == w.CAUSES.index(word)
        cells[sums(start[has_cause], end[has_cause], None, scale.cells) > 0] = letter
    return cells


def _events(shape: Shape, scale: Scale) -> LaneCells:
    cells = _blank(scale)
    order = "^SVEC"
    for mark in sorted(
        (mark for mark in shape.marks if mark.letter in order),
        key=lambda mark: order.index(mark.letter),
    ):
        _set_cell(cells, scale, mark.at, mark.letter)
    return cells


Painted = tuple[str, str]
"""A text, and its colour as named in ``palette.PAINTS``; empty for none."""

REFUSED = "N"
"""Letter of a refused request."""
_OF_EVENTS = {
    **{
        "Q": "kind-request",
        REFUSED: "verdict-refused",
        "R": "kind-rollback",
        "S": "kind-system-event",
        "V": "kind-system-event",
    },
    **{"^": "kind-marker", "E": "kind-end", "C": "kind-upkeep", "B": "kind-marker"},
}
EVENTS = tuple(_OF_EVENTS)
"""Letters of events."""
LOUD = ("cause-capture-loss", "cause-unexplained", "cause-resumed", "cause-rollback")
"""Colours of gaps that are used as background."""
_CAUSES = {letter: cause for cause, letter in LETTERS.items()}


def paint_of(lane: str, glyph: str, glyphs: Glyphs) -> str:
    """Returns the colour of a glyph of a lane."""
    if glyph == " ":
        return ""
    if lane == "gaps":
        return f"cause-{_CAUSES[glyph]}"
    if lane == "items":
        return ITEMS
    if lane == "snapshots":
        kinds = [
            kind for number, kind in enumerate(w.SNAPSHOT_TYPES) if glyph in glyphs.of_type(number)
        ]
        if kinds:
            return f"snapshot-{kinds[0]}"
        if glyph in glyphs.history:
            return "snapshot-disk"
        return "snapshot-unknown"
    return _OF_EVENTS.get(glyph, "")


def paints_of(lane: str, text: Iterable[str], glyphs: Glyphs) -> list[str]:
    """Returns the colour of each glyph of a lane; an axis that leads back has a rollback's."""
    text = list(text)
    paints = [paint_of(lane, glyph, glyphs) for glyph in text]
    if lane == "axis" and glyphs.back in text:
        paints = [
            paint or ("kind-rollback" if glyph != " " else "")
            for paint, glyph in zip(paints, text, strict=True)
        ]
    return paints


def joined(text: Iterable[str], paints: Iterable[str]) -> Iterator[Painted]:
    """Joins neighbours of one colour to one piece."""
    for paint, group in groupby(zip(text, paints, strict=True), key=lambda pair: pair[1]):
        yield "".join(glyph for glyph, _ in group), paint


def style_of(paint: str) -> str:
    """Returns a colour of the terminal's own 16, as a style of Rich."""
    colour = PAINTS[paint].text if paint else ""
    return f"{colour} reverse" if paint in LOUD else colour


class Sign(NamedTuple):
    """A glyph or a letter, and its meaning."""

    glyph: str
    paint: str
    word: str


def legend(glyphs: Glyphs = UNICODE) -> list[list[Sign]]:
    """Returns the meanings of glyphs and letters, in lines."""
    bars = [
        Sign(pair, f"snapshot-{kind}", word)
        for pair, kind, word in (
            (glyphs.memory, "memory", "memory"),
            (glyphs.disk, "disk", "disk"),
            (glyphs.oso[0], "oso", "out of order"),
        )
    ]
    bars += [
        Sign(glyphs.history[0], "snapshot-disk", "history"),
        Sign(glyphs.promised, "snapshot-unknown", "did not come"),
        Sign(glyphs.density[0] + glyphs.density[-1], ITEMS, "items"),
    ]
    letters = [Sign(letter, f"cause-{cause}", cause) for cause, letter in LETTERS.items()]
    severity_glyphs = (("error", glyphs.error), ("warning", glyphs.warning))
    signs = [Sign(glyph, f"severity-{severity}", severity) for severity, glyph in severity_glyphs]
    return [bars, letters, events_legend(), signs]


def events_legend() -> list[Sign]:
    """Returns the meanings of the letters of events."""
    words = (
        "request",
        "refused",
        "rollback answer",
        "system event",
        "state",
        "seqno_advanced",
        "stream end",
        "connection closed",
        "branch",
    )
    return [
        Sign(letter, _OF_EVENTS[letter], word) for letter, word in zip(EVENTS, words, strict=True)
    ]


def legend_lines(signs: Sequence[Sign], width: int | None = None) -> Iterator[list[Painted]]:
    """Yields a line of the legend, broken between two signs where it is wider than ``width``."""
    line: list[Painted] = []
    used = 0
    for sign in signs:
        size = cells(sign.glyph) + 1 + cells(sign.word)
        if line and width is not None and used + 2 + size > width:
            yield line
            line, used = [], 0
        line += [*([("  ", "")] if line else []), (sign.glyph, sign.paint), (f" {sign.word}", "")]
        used += size + (2 if used else 0)
    yield line
