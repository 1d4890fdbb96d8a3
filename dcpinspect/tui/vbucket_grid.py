"""All vbuckets at a glance: a cell each, as high as what it counts, with what is wrong over it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dcpinspect.escape import escape
from dcpinspect.protocol.columns import Numbers
from dcpinspect.protocol.message import Severity
from dcpinspect.tables.records import Records
from dcpinspect.tui.strips import Piece, strip
from dcpinspect.tui.theme import Glyphs

ACROSS = 64
LABEL = 5
LEAST = 1024
"""Vbuckets that are drawn at least: those of a bucket."""
MEASURES = ("messages", "bytes", "gaps", "behind", "snapshots", "from disk", "silent for")
"""What cells can be as high as; the last two are hundredths of the items, and milliseconds until the capture's last message."""
_NAMES = {"messages": "items", "bytes": "bytes"}
SILENT = ("silent", "never-answered", "refused")


class Cells:
    """What the grid shows, a value a vbucket; made of the table of vbuckets."""

    def __init__(self, vbuckets: Records | None, snapshots: Records | None = None) -> None:
        rows = [] if vbuckets is None else _rows(vbuckets)
        self.by_number: dict[int, list[Mapping[str, Any]]] = {}
        for row in rows:
            self.by_number.setdefault(row["vbucket"], []).append(row)
        self._last_ns = max((row["last_time"] or 0 for row in rows), default=0)
        self._snapshots = snapshots
        self.count = max(LEAST, -(-(max(self.by_number, default=-1) + 1) // ACROSS) * ACROSS)

    def values(self, measure: str) -> npt.NDArray[np.int64]:
        """By vbucket."""
        found = np.zeros(self.count, np.int64)
        if measure == "from disk":
            return self._from_disk()
        if measure == "silent for":
            for number, rows in self.by_number.items():
                found[number] = (self._last_ns - max(row["last_time"] or 0 for row in rows)) // 1_000_000
            return found
        for number, rows in self.by_number.items():
            found[number] = sum(_measured(row, measure) for row in rows)
        return found

    def _from_disk(self) -> npt.NDArray[np.int64]:
        """Of each vbucket's items in snapshots, how many of a hundred came from disk."""
        if self._snapshots is None or not len(self._snapshots):
            return np.zeros(self.count, np.int64)
        vbucket, items = (_whole(self._snapshots, name) for name in ("vbucket", "items"))
        disk = np.zeros(len(vbucket), np.bool_)
        disk[self._snapshots.rows_with("type", "disk")] = True
        total, own = (np.bincount(vbucket, weights=weights, minlength=self.count) for weights in (items, items * disk))
        return np.ceil(100 * own / np.maximum(total, 1)).astype(np.int64)

    def severity(self, number: int) -> Severity | None:
        """The worst that was found of a vbucket."""
        counts = [row["findings"] or {} for row in self.by_number.get(number, ())]
        for severity in ("error", "warning"):
            if any(one.get(severity) for one in counts):
                return severity
        return None

    def is_rolled_back(self, number: int) -> bool:
        """Whether its newest stream was."""
        return any(row["verdict"] == "rolled-back" for row in self.by_number.get(number, ()))


def _whole(records: Records, name: str) -> npt.NDArray[np.int64]:
    """A column of numbers, of which none is missing."""
    column = records.columns[name]
    return column.values.astype(np.int64) if isinstance(column, Numbers) else np.array(records.values(name), np.int64)


def _rows(records: Records) -> list[dict[str, Any]]:
    names = [column.name for column in records.table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*(records.values(name) for name in names), strict=True)]


def _measured(row: Mapping[str, Any], measure: str) -> int:
    if measure == "gaps":
        return int((row["gaps"] or {}).get("unexplained", 0)) + int((row["gaps"] or {}).get("capture-loss", 0))
    if measure == "behind":
        return max(0, (row["high_seqno"] or 0) - (row["last_seqno"] or 0)) if row["high_seqno"] is not None else 0
    return int(row[_NAMES.get(measure, measure)] or 0)


def base(values: npt.NDArray[np.int64]) -> float:
    """How many times more each eighth of a cell stands for: 4, or as many as the greatest needs to fit."""
    return max(4.0, math.pow(max(1, int(values.max(initial=0))), 1 / 7))


def heights(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Eighths of a cell, on a logarithmic scale: 1 for 1, 2 for 4, 3 for 16, and so on to 8; 0 for 0."""
    scaled = 1 + np.floor(np.log(np.maximum(values, 1)) / np.log(base(values)) + 1e-9).astype(np.int64)
    return np.where(values > 0, np.clip(scaled, 1, 8), 0)


class VbucketGrid(ScrollView, can_focus=True, inherit_bindings=False):
    """1,024 cells, 64 a line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--cursor", "grid--error", "grid--warning", "grid--label"}

    class Moved(Message):
        """The cursor came to another vbucket."""

        def __init__(self, vbucket: int) -> None:
            super().__init__()
            self.vbucket = vbucket

    class Opened(Message):
        """Enter on a vbucket."""

        def __init__(self, vbucket: int) -> None:
            super().__init__()
            self.vbucket = vbucket

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self.cells = Cells(None)
        self.measure = MEASURES[0]
        self.vbucket = 0
        self._values = self.cells.values(self.measure)
        self._heights = heights(self._values)

    def show(self, vbuckets: Records | None, snapshots: Records | None = None) -> None:
        """What is known by now."""
        is_first = not self.cells.by_number
        self.cells = Cells(vbuckets, snapshots)
        if is_first and self.cells.by_number:
            self.vbucket = min(self.cells.by_number)
        self._measure()
        self.post_message(self.Moved(self.vbucket))

    def _measure(self) -> None:
        self._values = self.cells.values(self.measure)
        self._heights = heights(self._values)
        self.virtual_size = Size(LABEL + ACROSS + ACROSS // 8, 1 + self.cells.count // ACROSS)
        self.refresh()

    def next_measure(self) -> None:
        """Something else is counted."""
        self.measure = MEASURES[(MEASURES.index(self.measure) + 1) % len(MEASURES)]
        self._measure()

    def move_to(self, vbucket: int) -> None:
        """The cursor goes to a vbucket."""
        self.vbucket = min(max(vbucket, 0), self.cells.count - 1)
        line = 1 + self.vbucket // ACROSS
        top, height = int(self.scroll_offset.y), max(self.size.height, 1)
        if not top <= line < top + height:
            self.scroll_to(y=line if line < top else line - height + 1, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved(self.vbucket))

    def bad(self, *, back: bool = False) -> bool:
        """To the next vbucket with an error or a warning; whether there is one."""
        numbers = sorted(number for number in self.cells.by_number if self.cells.severity(number) is not None)
        later = [number for number in numbers if (number < self.vbucket if back else number > self.vbucket)]
        if later:
            self.move_to(later[-1] if back else later[0])
        return bool(later)

    def action_step(self, lines: int) -> None:
        """A line up or down."""
        if 0 <= self.vbucket + lines * ACROSS < self.cells.count:
            self.move_to(self.vbucket + lines * ACROSS)

    def action_fold(self) -> None:
        """A cell to the left."""
        self.move_to(self.vbucket - 1)

    def action_unfold(self) -> None:
        """A cell to the right."""
        self.move_to(self.vbucket + 1)

    def action_page(self, pages: int) -> None:
        """To the first or last line."""
        self.move_to(self.vbucket % ACROSS if pages < 0 else self.cells.count - ACROSS + self.vbucket % ACROSS)

    def action_first(self) -> None:
        """To vbucket 0."""
        self.move_to(0)

    def action_last(self) -> None:
        """To the last vbucket."""
        self.move_to(self.cells.count - 1)

    def action_open(self) -> None:
        """Its timeline."""
        self.post_message(self.Opened(self.vbucket))

    def on_click(self, event: events.Click) -> None:
        """The first click selects, the second opens."""
        line = int(self.scroll_offset.y) + event.y - 1
        inside = event.x - LABEL
        group, column = divmod(inside, 9)
        if line < 0 or inside < 0 or column > 7 or group > 7:
            return
        vbucket = line * ACROSS + 8 * group + column
        if vbucket == self.vbucket:
            self.action_open()
        elif vbucket < self.cells.count:
            self.move_to(vbucket)

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        line = int(self.scroll_offset.y) + y
        base = self.rich_style
        label = base + self.get_component_rich_style("grid--label", partial=True)
        if line == 0:
            return strip([("vb   " + "".join(f"+{8 * group:<8}" for group in range(8)), label)], self.size.width, base)
        first = (line - 1) * ACROSS
        if first >= self.cells.count:
            return Strip.blank(self.size.width, base)
        pieces: list[Piece] = [(f"{first:>4} ", label)]
        for number in range(first, first + ACROSS):
            if number > first and number % 8 == 0:
                pieces.append((" ", base))
            pieces.append(self._cell(number, base))
        return strip(pieces, self.size.width, base)

    def _cell(self, number: int, base: Style) -> Piece:
        style, glyph = base, " "
        if number in self.cells.by_number:
            glyph = self._glyphs.blocks[int(self._heights[number]) - 1] if self._heights[number] else self._glyphs.silent
            severity = self.cells.severity(number)
            if self.cells.is_rolled_back(number):
                glyph = self._glyphs.rolled_back
            if severity is not None:
                style += self.get_component_rich_style(f"grid--{severity}", partial=True)
                if not self.cells.is_rolled_back(number):
                    glyph = self._glyphs.of(severity)
        if number == self.vbucket:
            style += self.get_component_rich_style("grid--cursor", partial=True)
        return glyph, style

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()

    def legend(self) -> str:
        """What heights and glyphs mean."""
        top, step = int(self._heights.max(initial=0)), base(self._values)
        marks = "  ".join(f"{self._glyphs.blocks[eighth]} {_short(step**eighth)}" for eighth in range(top))
        unit = {"from disk": " %", "silent for": " ms"}.get(self.measure, "")
        scale = f"{self.measure}{unit}: {marks or 'none'}"
        signs = f"{self._glyphs.error} {self._glyphs.warning} worst finding   {self._glyphs.rolled_back} rolled back"
        return f"{scale}   {self._glyphs.silent} opened, none   blank not requested   {signs}"


def _short(number: float) -> str:
    """A number in few letters: 1k, 4M."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 1024 or unit == "P":
            return f"{number:.0f}{unit}"
        number /= 1024
    raise AssertionError


def about(number: int, rows: Sequence[Mapping[str, Any]]) -> Text:
    """What is known of a vbucket, a line each."""
    out = Text()
    out.append(f"vb {number}\n", "bold")
    if not rows:
        out.append("not requested in this capture")
    for row in rows:
        gaps = ", ".join(f"{count:,} {cause}" for cause, count in (row["gaps"] or {}).items() if count) or "none"
        found = ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for word, count in (row["findings"] or {}).items() if count) or "none"
        behind = f", server has {row['high_seqno']:,}" if row["high_seqno"] is not None else ""
        seqnos = "none" if row["last_seqno"] is None else f"{row['first_seqno']}–{row['last_seqno']}{behind}"
        for name, text in (
            ("client", escape(row["client"] or "")),
            ("state", row["verdict"]),
            ("connections", ", ".join(map(str, row["connections"]))),
            ("streams", f"{row['streams']}, {row['rollbacks']} rolled back"),
            ("seqnos", seqnos),
            ("received", f"{row['items']:,} items, {row['bytes']:,} bytes"),
            ("snapshots", f"{row['snapshots']:,}"),
            ("gaps", gaps),
            ("findings", found),
        ):
            out.append(f"{name:<12}", "dim")
            out.append(f"{text}\n")
        out.append("\n")
    return out
