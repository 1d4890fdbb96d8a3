"""One vbucket's streams drawn along their seqnos: what was asked, which snapshots came, how densely, what did not come and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from dcpinspect.escape import clip, escape
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.streams import words as w
from dcpinspect.streams.story import Bars, StreamStory

Cells = npt.NDArray[np.str_]

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
"""Of the causes of gaps, the worst last: it wins a cell."""

LABEL = 12
"""Columns of the names of lanes."""
TICK = 10
"""Cells between two marks of the axis, at least."""
NARROWEST = 60
WIDTH = 120
"""Columns where no terminal says how many there are."""
_LISTED = 3
"""Snapshots told one by one."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What lanes are drawn with."""

    memory: str = "░▒"
    disk: str = "▓█"
    oso: str = "≈≈"
    unknown: str = "▚▞"
    history: str = "hh"
    promised: str = "·"
    """Of a snapshot: what did not come any more."""
    density: str = "▁▂▃▄▅▆▇█"
    line: str = "─"
    tick: str = "┼"
    end: str = "┤"
    back: str = "◂"

    def of_type(self, number: int) -> str:
        """The pair that snapshots of a type have in turn."""
        return (self.memory, self.disk, self.oso, self.unknown)[number]


UNICODE = Glyphs()
ASCII = Glyphs(":;", "#%", "~~", "xX", "hh", ".", "12345678", "-", "+", "|", "<")
"""For terminals without line drawing; the density is in eighths."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Which seqnos each cell of a line stands for."""

    first: int
    """First seqno of the first cell."""
    step: int
    """Seqnos of a cell: 1, 2 or 5 times a power of ten."""
    cells: int

    @staticmethod
    def of(first: int, last: int, cells: int) -> Scale:
        """The finest scale on which the seqnos from ``first`` to ``last`` take ``cells`` cells at most."""
        power = 1
        while True:
            for step in (power, 2 * power, 5 * power):
                low = first // step * step
                used = (last - low) // step + 1
                if used <= cells:
                    return Scale(low, step, used)
            power *= 10

    @property
    def last(self) -> int:
        """Last seqno of the last cell, or the greatest there is."""
        return min(self.first + self.step * self.cells - 1, ENDLESS)

    def cell(self, seqnos: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The cell of each seqno; the nearest of those outside."""
        inside = np.clip(seqnos, np.uint64(self.first), np.uint64(self.last))
        return ((inside - np.uint64(self.first)) // np.uint64(self.step)).astype(np.int64)

    def shows(self, first: npt.NDArray[np.uint64], last: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which ranges have a seqno that is shown."""
        found: npt.NDArray[np.bool_] = (first <= np.uint64(self.last)) & (last >= np.uint64(self.first))
        return found


@dataclass(frozen=True, slots=True)
class Lanes:
    """One stream, a character a cell."""

    axis: str
    snapshots: str
    items: str
    gaps: str
    events: str


def lanes(story: StreamStory, scale: Scale, marks: Sequence[tuple[int, str]] = (), *, glyphs: Glyphs = UNICODE) -> Lanes:
    """The lanes of a stream. ``marks``: seqno and letter of events besides. The cost depends on what is visible, not on the range."""
    return Lanes(
        "".join(_axis(story, scale, glyphs)),
        "".join(_snapshots(story.bars, scale, glyphs)),
        "".join(_items(story, scale, glyphs)),
        "".join(_gaps(story, scale)),
        "".join(_events(story, scale, marks)),
    )


def _blank(scale: Scale) -> Cells:
    return np.full(scale.cells, " ")


def _put(cells: Cells, scale: Scale, seqno: int | None, glyph: str) -> None:
    if seqno is not None and scale.first <= seqno <= scale.last:
        cells[(seqno - scale.first) // scale.step] = glyph


def _axis(story: StreamStory, scale: Scale, glyphs: Glyphs) -> Cells:
    stream, cells = story.stream, _blank(scale)
    start, told = stream["requested_start"], stream["rollback_seqno"]
    begin = start if start is not None else stream["first_seqno"]
    end = told if told is not None else stream["last_seqno"]
    end = begin if end is None else end
    if begin is None:
        return cells
    low, high = np.array([min(begin, end)], np.uint64), np.array([max(begin, end)], np.uint64)
    if scale.shows(low, high)[0]:
        first, last = int(scale.cell(low)[0]), int(scale.cell(high)[0])
        cells[first : last + 1] = glyphs.line
        cells[np.arange(-(-first // TICK) * TICK, last + 1, TICK)] = glyphs.tick
        if told is not None:
            cells[first + 1 : first + 2] = glyphs.back
        else:
            cells[last] = glyphs.end
    _put(cells, scale, told, "R")
    _put(cells, scale, start, "Q")
    return cells


def _snapshots(bars: Bars, scale: Scale, glyphs: Glyphs) -> Cells:
    cells = _blank(scale)
    shown = np.flatnonzero(scale.shows(bars.first, bars.last))
    first, last = scale.cell(bars.first[shown]), scale.cell(bars.last[shown])
    # which of a pair: in turn, so that neighbours can be told apart
    pairs = np.array([glyphs.of_type(number) for number in range(len(w.SNAPSHOT_TYPES))] + [glyphs.history])
    form = np.where(bars.has_history[shown], len(pairs) - 1, bars.type[shown])
    drawn = np.array([[pair[0], pair[1]] for pair in pairs])[form, shown % 2]
    came = (bars.received[shown] >= bars.first[shown]) & (bars.received[shown] >= np.uint64(scale.first))
    until = np.where(came, scale.cell(bars.received[shown]), first - 1)
    for place in np.flatnonzero((last > first) | ~came).tolist():
        cells[first[place] : last[place] + 1] = glyphs.promised
        cells[first[place] : until[place] + 1] = drawn[place]
    single = (last == first) & came
    cells[first[single]] = drawn[single]
    return cells


def _items(story: StreamStory, scale: Scale, glyphs: Glyphs) -> Cells:
    shown = scale.shows(story.item_first, story.item_last)
    first, last = scale.cell(story.item_first[shown]), scale.cell(story.item_last[shown])
    share = story.item_count[shown] / (last - first + 1)
    change = np.bincount(first, share, scale.cells + 1) - np.bincount(last + 1, share, scale.cells + 1)
    # several seqnos that share a cell with nothing: sums of fractions that cancel out leave dust
    density = np.round(np.cumsum(change)[:-1], 6) / scale.step
    # the full block is for cells of which every seqno came, the lowest for a single one
    eighths = np.clip(np.floor(density * len(glyphs.density)), density > 0, len(glyphs.density)).astype(np.int64)
    found: Cells = np.array([" ", *glyphs.density])[eighths]
    return found


def _gaps(story: StreamStory, scale: Scale) -> Cells:
    cells = _blank(scale)
    first, last = story.after + np.uint64(1), story.before - np.uint64(1)
    shown = scale.shows(first, last)
    start, end, cause = scale.cell(first[shown]), scale.cell(last[shown]), story.cause[shown]
    for word, letter in LETTERS.items():
        own = cause == w.CAUSES.index(word)
        covered = np.cumsum(np.bincount(start[own], minlength=scale.cells + 1) - np.bincount(end[own] + 1, minlength=scale.cells + 1))
        cells[covered[:-1] > 0] = letter
    return cells


def _events(story: StreamStory, scale: Scale, marks: Sequence[tuple[int, str]]) -> Cells:
    cells = _blank(scale)
    for before in story.before[story.cause == w.ADVANCED].tolist():
        _put(cells, scale, before - 1, "^")
    for seqno, letter in marks:
        _put(cells, scale, seqno, letter)
    reason = story.stream["end_reason"]
    if reason is not None:
        last = story.stream["last_seqno"]
        _put(cells, scale, last if last is not None else story.stream["requested_start"], "X" if reason == "connection-closed" else "E")
    return cells


def scale_of(streams: Sequence[StreamStory], *, width: int, seqnos: range | None = None) -> Scale:
    """The scale on which all streams, or ``seqnos``, fit into a picture of ``width`` columns."""
    cells = max(TICK, width - LABEL - 2 - max(20, width // 3))
    if seqnos is not None:
        return Scale.of(seqnos[0], seqnos[-1], cells)
    shown = [seqno for story in streams for seqno in story.seqnos()]
    return Scale.of(min(shown, default=0), max(shown, default=0), cells)


def picture(
    streams: Sequence[StreamStory],
    scale: Scale,
    marks: Sequence[Sequence[tuple[int, str]]],
    *,
    width: int | None,
    glyphs: Glyphs = UNICODE,
) -> Iterator[str]:
    """Lines: the axis, and the lanes of each stream with what they show in words.

    ``marks``: of each stream, as in ``lanes``. ``width``: what lines are clipped to.
    """

    def line(label: str, cells: str, text: str) -> str:
        whole = f"{label:<{LABEL}}{cells:<{scale.cells}}  {text}".rstrip()
        return whole if width is None else clip(whole, width)

    yield line("", _numbers(scale), "")
    several = any(story.stream["sid"] is not None for story in streams)
    for story, own_marks in zip(streams, marks, strict=True):
        drawn = lanes(story, scale, own_marks, glyphs=glyphs)
        sid = f" sid {story.stream['sid']}" if several and story.stream["sid"] is not None else ""
        yield line(f"#{story.stream['stream']}{sid}", drawn.axis, asked(story))
        if drawn.snapshots.strip():
            yield line("  snapshots", drawn.snapshots, _snapshots_text(story))
        if story.stream["items"]:
            yield line("  items", drawn.items, f"{story.stream['items']} received, {story.stream['verdict']}")
        if len(story.gaps) or story.stream["items"]:
            yield line("  gaps", drawn.gaps, _gaps_text(story))
        if drawn.events.strip() or story.stream["end_reason"]:
            yield line("  events", drawn.events, _events_text(story, own_marks))


_ASCII = str.maketrans({"→": ">", "←": "<", "–": "-", "…": ".", "·": "-"})


def ascii_only(text: str) -> str:
    """What lines say, for a terminal that has only ASCII."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def legend(glyphs: Glyphs = UNICODE) -> list[str]:
    """What glyphs and letters mean."""
    bars = f"{glyphs.memory} memory  {glyphs.disk} disk  {glyphs.oso[0]} out of order  {glyphs.history[0]} history"
    bars += f"  {glyphs.promised} promised, did not come"
    letters = "  ".join(f"{letter} {cause}" for cause, letter in LETTERS.items())
    return [bars, letters, "Q request  R rollback  S system event  V state  ^ seqno advanced  E stream end  X connection closed"]


def _numbers(scale: Scale) -> str:
    """The seqnos at the ticks, every so many of them that there is room."""
    longest = len(str(scale.last)) + 1
    every = -(-longest // TICK) * TICK
    text = ""
    for cell in range(0, scale.cells, every):
        number = str(scale.first + cell * scale.step)
        text += number.ljust(every) if cell + len(number) <= scale.cells else ""
    return text.rstrip()


def asked(story: StreamStory) -> str:
    """The request and its answer in words."""
    stream = story.stream
    if stream["requested_start"] is None:
        return f"row {stream['open_row']}: first seen here, the request was not captured"
    end = "" if stream["requested_end"] == ENDLESS else f" to {stream['requested_end']}"
    return f"row {stream['open_row']}: from {stream['requested_start']}{end}, {answered(story)}"


def answered(story: StreamStory) -> str:
    """The answer to the request in words."""
    stream = story.stream
    if stream["answer"] == "rollback":
        return f"rollback to {stream['rollback_seqno']}"
    if stream["answer"] == "refused":
        return f"refused: {escape(stream['status'] or 'unknown')}"
    return "answer unknown" if stream["answer"] == "unknown" else str(stream["answer"])


def _snapshots_text(story: StreamStory) -> str:
    names = ("start_seqno", "end_seqno", "first_seqno", "last_seqno", "type", "state")
    told = []
    rows = list(zip(*(story.snapshots.values(name) for name in names), strict=True))
    if len(rows) > _LISTED:
        counts = Counter(row[4] for row in rows)
        states = Counter(row[5] for row in rows if not row[5].startswith("complete"))
        return ", ".join(f"{count} {word}" for word, count in (*counts.items(), *states.items()))
    for word, group in groupby(rows, key=lambda row: str(row[4])):
        ranges = []
        for start, end, first, last, _, state in group:
            low, high = (start, end) if start is not None else (first, last)
            note = "" if state.startswith("complete") else f" {state}"
            ranges.append((f"{low}–{high}" if low is not None else "no seqnos") + note)
        told.append(f"{', '.join(ranges)} {word}")
    return ", ".join(told)


def _gaps_text(story: StreamStory) -> str:
    counts = np.bincount(story.cause, minlength=len(w.CAUSES)).tolist()
    told = [f"{counts[w.CAUSES.index(cause)]} {cause}" for cause in LETTERS if counts[w.CAUSES.index(cause)]]
    return ", ".join(told) or "none"


def _events_text(story: StreamStory, marks: Sequence[tuple[int, str]]) -> str:
    counts = Counter(letter for _, letter in marks)
    told = []
    for letter, one, several in (("S", "system event", "system events"), ("V", "change of state", "changes of state")):
        if counts[letter]:
            told.append(f"{counts[letter]} {one if counts[letter] == 1 else several}")
    reason = story.stream["end_reason"]
    if reason is not None:
        told.append("connection closed" if reason == "connection-closed" else f"stream end: {escape(reason)}")
    return ", ".join(told)
