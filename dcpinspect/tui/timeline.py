"""One vbucket's streams along their seqnos or in time: what was asked, which snapshots came, how densely, what did not come and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from dcpinspect.escape import clip
from dcpinspect.render.lane_paint import EVENTS, joined, paints_of
from dcpinspect.render.lanes import LETTERS, Scale, lanes
from dcpinspect.render.timeline import LABEL, apart, lasting, numbers, seconds
from dcpinspect.streams import words as w
from dcpinspect.tui import theme
from dcpinspect.tui.strips import Piece, strip
from dcpinspect.tui.timeline_cursor import Row, TimelineCursor

_TALLEST = 4
"""Lines of the items of a stream at most."""
_LABELLED = 8
"""Columns from which a stretch has room for words."""
_CAUSES = {letter: cause for cause, letter in LETTERS.items()}


class Timeline(TimelineCursor, can_focus=True, inherit_bindings=False):
    """Lanes of each stream of one vbucket, a column for so many seqnos or so much time, a cursor over all."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("lanes--cursor", "lanes--dim", "lanes--stream", "lanes--error", "lanes--warning"),
    }

    def _arrange(self) -> None:
        """Which lines there are; what is in them is drawn when it comes into view."""
        self._rows = []
        self._high = self._height_of_items()
        connection = None
        several = len({track.connection for track in self.tracks}) > 1
        for place, track in enumerate(self.tracks):
            if several and track.connection != connection:
                connection = track.connection
                self._rows.append(Row(place, ""))
            self._rows.append(Row(place, "title"))
            if track.story.key in self._folded:
                continue
            for lane in [*track.words, *(["findings"] if track.found_at("seqno") else [])]:
                self._rows += [Row(place, lane, part) for part in range(self._high if lane == "items" else 1)]
        self._drawn.clear()
        self.virtual_size = Size(self.size.width, 2 + len(self._rows))
        self.refresh()

    def _height_of_items(self) -> int:
        """Lines of the items of each stream: more where there is room."""
        lines = sum(2 + len(track.words) for track in self.tracks)
        return 1 + min(max(0, (self.size.height - 2 - lines) // max(1, len(self.tracks))), _TALLEST - 1)

    # -- drawing ------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """As many cells as fit."""
        self._arrange()
        if self._is_fit:
            self.fit()
        else:
            self._scale_to(Scale(self.scale.first, self.scale.step, max(1, min(self.scale.cells, self._columns))))
            self.go(self.at, self._chosen)

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        line = int(self.scroll_offset.y) + y
        base = self.rich_style
        if line == 0:
            return strip([(clip(self._heading(), self.size.width), base + Style(bold=True))], self.size.width, base)
        if line == 1:
            ticks = numbers(self.scale, self._tick, self._columns).ljust(self._columns)
            return self._line("", [(ticks, base)], -1, base)
        if line - 2 >= len(self._rows):
            return Strip.blank(self.size.width, base)
        row = self._rows[line - 2]
        track = self.tracks[row.track]
        if not row.lane:
            name = self.told.connections.get(track.connection, "") if self.told is not None else ""
            dim = base + self.get_component_rich_style("lanes--dim", partial=True)
            return strip([(clip(f"connection {track.connection}  {name}", self.size.width), dim)], self.size.width, base)
        own = base + self.get_component_rich_style("lanes--stream", partial=True) if row.track == self.stream else base
        if row.lane == "title":
            dim = base + self.get_component_rich_style("lanes--dim", partial=True)
            fold = self._glyphs.closed if track.story.key in self._folded else self._glyphs.open
            words = " · ".join(f"no {lane}" if text == "none" else text for lane, text in track.words.items())
            return strip([(f"{fold} {track.name}".ljust(LABEL), own), (clip(words, self._columns), dim)], self.size.width, base)
        if row.lane == "findings":
            return self._line("findings", self._findings(row.track, base), row.track, base)
        drawn = self._drawn.get(row.track)
        if drawn is None:
            apart_by = apart(self.scale, self._tick, self._columns)
            drawn = lanes(track.shapes[self.axis], self.scale, glyphs=self._glyphs, apart=apart_by, high=self._high)
            self._drawn[row.track] = drawn
        cells = getattr(drawn, row.lane).split("\n")[row.part]
        return self._line("" if row.part else row.lane, self._painted(row, cells, base), row.track, base)

    def _tick(self, at: int) -> str:
        return seconds(self.scale, at) if self.axis == "time" else str(at)

    def _painted(self, row: Row, cells: str, base: Style) -> list[Piece]:
        """A lane over all columns: a cell may take several, its letter only the first of them."""
        of_column = self._stretched
        text = np.array(list(cells))[of_column]
        is_repeated = np.diff(of_column, prepend=-1) == 0
        if row.lane in ("axis", "events"):
            marks = np.isin(text, [*EVENTS, self._glyphs.tick, self._glyphs.end, self._glyphs.back]) & is_repeated
            later = np.append(text[1:], " ")
            text[marks] = np.where((later[marks] == " ") | (row.lane == "events"), " ", self._glyphs.line)
        paints = paints_of(row.lane, text.tolist(), self._glyphs)
        for first, words in self._labels(row, text):
            text[first : first + len(words)] = list(words)
        pieces: list[Piece] = []
        for piece, paint in joined(text.tolist(), paints):
            pieces.append((piece, base + theme.style_of(self.app, paint)))
        return pieces

    def _labels(self, row: Row, text: npt.NDArray[np.str_]) -> Iterator[tuple[int, str]]:
        """Words that fit into what a lane shows: first column, and words with a blank on each side."""
        if row.lane == "gaps":
            at = 0
            for glyph, group in groupby(text.tolist()):
                size = len(list(group))
                word = f" {_CAUSES.get(glyph, '')} "
                if size >= max(_LABELLED, len(word) + 2) and glyph != " ":
                    yield at + (size - len(word)) // 2, word
                at += size
        elif row.lane == "snapshots":
            track = self.tracks[row.track]
            bars, told = track.shapes[self.axis].bars, track.story.bars
            shown = np.flatnonzero(self.scale.shows(bars.first, bars.last))
            first = np.searchsorted(self._stretched, self.scale.cell(bars.first[shown]), "left")
            last = np.searchsorted(self._stretched, self.scale.cell(bars.last[shown]), "right")
            for place in np.flatnonzero(last - first >= _LABELLED).tolist():
                bar, room = shown[place], int(last[place] - first[place])
                word = f" {int(told.first[bar])}–{int(told.last[bar])} {w.SNAPSHOT_TYPES[int(told.type[bar])]} "
                if len(word) + 2 <= room:
                    yield int(first[place]) + (room - len(word)) // 2, word

    def _findings(self, place: int, base: Style) -> list[Piece]:
        cells, worst = [" "] * self._columns, "warning"
        found = [(at, one) for at, one in self.tracks[place].found_at(self.axis) if self.scale.first <= at <= self.scale.last]
        for severity, glyph in (("warning", self._glyphs.warning), ("error", self._glyphs.error)):
            for at, one in found:
                if one.severity == severity:
                    cells[int(np.searchsorted(self._stretched, (at - self.scale.first) // self.scale.step))] = glyph
                    worst = severity
        return [("".join(cells), base + self.get_component_rich_style(f"lanes--{worst}", partial=True))]

    def _line(self, label: str, pieces: Sequence[Piece], stream: int, base: Style) -> Strip:
        """A lane with the cursor over it, if it is in this stream."""
        own = base + self.get_component_rich_style("lanes--stream", partial=True) if stream == self.stream else base
        line = strip([(f"  {label}".ljust(LABEL), own), *pieces], self.size.width, base)
        if not self.tracks or stream not in (self.stream, -1):
            return line
        low, high = (int(np.searchsorted(self._stretched, self.cell, side)) + LABEL for side in ("left", "right"))
        cursor = self.get_component_rich_style("lanes--cursor", partial=True)
        return Strip.join([line.crop(0, low), line.crop(low, high).apply_style(cursor), line.crop(high)])

    def _heading(self) -> str:
        if self.told is None:
            return "no vbucket chosen"
        if self.waiting:
            return f"vb {self.vbucket} · {self.waiting}"
        told, count = self.told, len(self.tracks)
        parts = [f"vb {told.vbucket}", f"{count} stream{'' if count == 1 else 's'}"]
        if self.axis == "time":
            parts += [f"{seconds(self.scale, self.scale.first)}–{seconds(self.scale, self.scale.last + 1)} s"]
            parts += [f"a cell is {lasting(self.scale.step)}", "d seqnos"]
        else:
            parts += [f"seqnos {self.scale.first:,}–{self.scale.last:,}"]
            parts += [f"a cell is {self.scale.step:,} seqno{'s' if self.scale.step > 1 else ''}", "d time"]
        if len(told.connections) > 1:
            parts.append(f"{len(told.connections)} connections")
        else:
            parts += [f"connection {number}  {name}" for number, name in told.connections.items()]
        return " · ".join(parts)

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()
