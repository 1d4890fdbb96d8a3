"""Draws the streams of one vbucket along seqnos or time: request, snapshots, density of items, and gaps with their causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from dcpinspect.escape import cells, clip
from dcpinspect.render.branches import Branch, branches, connectors, drawn, words
from dcpinspect.render.lane_paint import EVENTS, joined, paints_of
from dcpinspect.render.lanes import LETTERS, Glyphs, Lanes, lanes
from dcpinspect.render.lines import counted
from dcpinspect.render.timeline import LABEL, apart, lasting, numbers, seconds
from dcpinspect.streams import words as w
from dcpinspect.tables.records import Records
from dcpinspect.tui import theme
from dcpinspect.tui.curve import Curve, curve
from dcpinspect.tui.strips import Piece, strip
from dcpinspect.tui.timeline_cursor import HEAD, Row
from dcpinspect.tui.timeline_mouse import TimelineMouse
from dcpinspect.tui.vbucket_cells import whole

_FLATTEST = 4
"""Least height of the curves, in lines."""
_NARROW = 2
"""Width of a cell, in columns, up to which the cursor covers the whole cell."""
_LABELLED = 8
"""Width in columns from which a bar or a gap has room for words."""
_FORMS = {"lanes": "lanes", "curve": "seqnos against time", "tree": "tree of histories"}
_LEFT_OUT = ("name", "cell", "connection", "streams", "form")
"""Parts of the heading that are left out, one after the other, until the rest fits."""
_CAUSES = {letter: cause for cause, letter in LETTERS.items()}


class Timeline(TimelineMouse, can_focus=True, inherit_bindings=False):
    """Lanes of each stream of a vbucket. A column stands for a range of seqnos or a span of time; a cursor crosses all lanes."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("lanes--cursor", "lanes--column", "lanes--range", "lanes--dim", "lanes--stream", "lanes--error", "lanes--warning"),
    }

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self._curve: Curve | None = None
        self._branches: list[Branch] = []

    def _arrange(self) -> None:
        """Works out which lines there are; each is drawn when it becomes visible."""
        self._rows = []
        if self.form == "curve" and self.tracks:
            lines = max(_FLATTEST, self.size.height - HEAD)
            self._rows = [Row(-1, "curve", part) for part in range(max(_FLATTEST, lines // 2) if self.is_both else lines)]
        self._high = self._height_of_items()
        if self.form == "tree":
            self._rows = list(self._tree())
            if HEAD + len(self._rows) > self.size.height:
                self._rows = [row for row in self._rows if row.lane in ("branch", "history")]
        elif self.form == "lanes" or self.is_both:
            self._rows += self._lanes()
        self.virtual_size = Size(self.size.width, HEAD + len(self._rows))
        self._redraw()

    @property
    def _compared(self) -> Sequence[int]:
        return () if self.told is None else self.told.vbuckets

    def _lanes(self) -> Iterator[Row]:
        connection: tuple[str, int] | None = None
        vbucket = self.vbucket
        several = len({(track.source, track.connection) for track in self.tracks}) > 1
        for place, track in enumerate(self.tracks):
            if track.vbucket != vbucket or (place == 0 and len(self._compared) > 1):
                connection, vbucket = None, track.vbucket
                yield Row(place, "vbucket")
            if several and (track.source, track.connection) != connection:
                connection = track.source, track.connection
                yield Row(place, "")
            yield Row(place, "title")
            if track.key in self._folded:
                continue
            for lane in [*track.words, *(["findings"] if track.found_at("seqno") else [])]:
                for part in range(self._high if lane == "items" else 1):
                    yield Row(place, lane, part)

    def _tree(self) -> Iterator[Row]:
        own = [place for place, track in enumerate(self.tracks) if track.vbucket == self.vbucket and not track.source]
        self._branches = branches([self.tracks[place].story for place in own])
        for branch in self._branches:
            branch.streams = [own[place] for place in branch.streams]
        for place, branch in enumerate(self._branches):
            yield Row(-1, "branch", place)
            for stream in branch.streams:
                yield Row(stream, "history", place)
                lanes = self.tracks[stream].words
                for lane in ("snapshots", "items"):
                    yield from (Row(stream, lane, part) for part in range(self._high if lane == "items" else 1) if lane in lanes)

    def _redraw(self) -> None:
        """Forgets what was drawn."""
        self._curve = None
        super()._redraw()

    def _height_of_items(self) -> int:
        """Returns the height of each stream's items in lines; more if there is room."""
        self._high = 1
        left = self.size.height - HEAD - len(self._rows) - sum(1 for _ in (self._tree() if self.form == "tree" else self._lanes()))
        drawn = sum("items" in track.words and track.key not in self._folded for track in self.tracks)
        return 1 + max(0, left // max(1, drawn))

    # -- drawing ------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Chooses as many cells as fit."""
        self._arrange()
        if self._part is None:
            self.fit()
            self.post_message(self.Moved())  # the cell of the cursor now covers other seqnos
        else:
            self._fill(*self._part)
            self.go(self.at, self._chosen)

    def render_line(self, y: int) -> Strip:
        """Draws one visible line; the heading and the axis always stay at the top."""
        base = self.rich_style
        if y == 0:
            return strip([(clip(self._heading(), self.size.width), base + Style(bold=True))], self.size.width, base)
        if self.waiting:
            return Strip.blank(self.size.width, base)
        if y == 1:
            ticks = numbers(self.scale, self._tick, self._columns).ljust(self._columns)
            return self._line("", [(ticks, base)], -1, base)
        line = int(self.scroll_offset.y) + y - HEAD
        if line >= len(self._rows):
            return Strip.blank(self.size.width, base)
        row = self._rows[line]
        if row.lane == "curve":
            return self._curve_line(row.part, base)
        if row.lane == "branch":
            return self._branch_line(row.part, base)
        track = self.tracks[row.track]
        if row.lane == "vbucket":
            return strip([(f"vb {track.vbucket}", base + Style(bold=True))], self.size.width, base)
        if row.lane == "history":
            return self._history_line(row, base)
        if not row.lane:
            name = self.told.connections.get((track.source, track.connection), "") if self.told is not None else ""
            where = f"{track.source or 'this capture'}: " if any(one.source for one in self.tracks) else ""
            dim = base + self.get_component_rich_style("lanes--dim", partial=True)
            return strip([(clip(f"{where}connection {track.connection}  {name}", self.size.width), dim)], self.size.width, base)
        own = base + self.get_component_rich_style("lanes--stream", partial=True) if row.track == self.stream else base
        if row.lane == "title":
            dim = base + self.get_component_rich_style("lanes--dim", partial=True)
            fold = self._glyphs.closed if track.key in self._folded else self._glyphs.open
            told = " · ".join(f"no {lane}" if text == "none" else text for lane, text in track.words.items())
            return strip([(f"{fold} {track.name}".ljust(LABEL), own), (clip(told, self._columns), dim)], self.size.width, base)
        if row.lane == "findings":
            return self._line("  findings", self._findings(row.track, base), row.track, base)
        text = getattr(self._lanes_of(row.track), row.lane).split("\n")[row.part]
        return self._line("" if row.part else f"  {row.lane}", self._painted(row, text, base), row.track, base)

    def _lanes_of(self, place: int) -> Lanes:
        drawn = self._drawn.get(place)
        if drawn is None:
            apart_by, shape = apart(self.scale, self._tick, self._columns), self.tracks[place].shapes[self.axis]
            drawn = self._drawn[place] = lanes(shape, self.scale, glyphs=self._glyphs, apart=apart_by, high=self._high)
        return drawn

    def _curve_line(self, part: int, base: Style) -> Strip:
        """Returns a line of all curves; the curve of the cursor's stream is bold."""
        picture = self._picture
        style = {paint: base + theme.style_of(self.app, paint) for paint in set(picture.paints[part].tolist())}
        own = [
            style[paint] + Style(bold=place == self.stream) for paint, place in zip(picture.paints[part], picture.owner[part], strict=True)
        ]
        pieces = [
            ("".join(glyph for glyph, _ in group), key)
            for key, group in groupby(zip(picture.text[part].tolist(), own, strict=True), key=lambda one: one[1])
        ]
        return self._line(f"{picture.ticks.get(part, ''):>{LABEL - 1}} ", pieces, -1, base, "lanes--column")

    @property
    def _picture(self) -> Curve:
        """The picture of all curves; it is drawn again after a change."""
        if self._curve is None:
            high = sum(row.lane == "curve" for row in self._rows)
            self._curve = curve(self.tracks, self.scale, self._columns, high, self._glyphs)
        return self._curve

    def _stream_at(self, row: Row, column: int) -> int:
        if row.lane == "curve":
            owner = int(self._picture.owner[row.part, column])
            return owner if owner >= 0 else self.stream
        return next(iter(self._branches[row.part].streams), self.stream)

    def _branch_line(self, place: int, base: Style) -> Strip:
        """Returns the line of a branch of the history, with a description if there is room."""
        branch = self._branches[place]
        text = drawn(branch, self.scale, self._columns)
        self._connect(text, place, place)
        _write(text, words(branch))
        label = "unknown" if branch.uuid is None else f"{branch.uuid >> 48:04x}…{branch.uuid & 0xFFFF:04x}"
        style = base + theme.style_of(self.app, "kind-marker")
        return self._line(label, [("".join(text.tolist()), style)], -1, base)

    def _history_line(self, row: Row, base: Style) -> Strip:
        """Returns the line of a stream, below the branch that it requested."""
        track = self.tracks[row.track]
        text, paints = self._stretch(Row(row.track, "axis"), self._lanes_of(row.track).axis)
        self._connect(text, row.part + 1, row.part)
        _write(text, " · ".join(track.words[lane] for lane in ("axis", "items", "events") if lane in track.words))
        several = len({one.connection for one in self.tracks}) > 1
        pieces = [(piece, base + theme.style_of(self.app, paint)) for piece, paint in joined(text.tolist(), paints)]
        return self._line(f"  con {track.connection} {track.name}" if several else f"  {track.name}", pieces, row.track, base)

    def _connect(self, text: npt.NDArray[np.str_], above: int, place: int) -> None:
        for column in connectors(self._branches, above, place, self.scale, self._columns):
            if text[column] == " ":
                text[column] = "┃"

    def _tick(self, at: int) -> str:
        return seconds(self.scale, at) if self.axis == "time" else str(at)

    def _painted(self, row: Row, cells: str, base: Style) -> list[Piece]:
        """Returns a lane over all columns. A cell can take several columns; its letter stands only in the first."""
        text, paints = self._stretch(row, cells)
        for first, label in self._labels(row, text):
            text[first : first + len(label)] = list(label)
        if self.form == "tree":
            branch = next(place for place, one in enumerate(self._branches) if row.track in one.streams)
            self._connect(text, branch + 1, branch)
        return [(piece, base + theme.style_of(self.app, paint)) for piece, paint in joined(text.tolist(), paints)]

    def _stretch(self, row: Row, cells: str) -> tuple[npt.NDArray[np.str_], list[str]]:
        """Returns the glyph and the colour of each column."""
        of_column = self._stretched
        text = np.array(list(cells))[of_column]
        is_repeated = np.diff(of_column, prepend=-1) == 0
        if row.lane in ("axis", "events"):
            marks = np.isin(text, [*EVENTS, self._glyphs.tick, self._glyphs.end, self._glyphs.back]) & is_repeated
            later = np.append(text[1:], " ")
            text[marks] = np.where((later[marks] == " ") | (row.lane == "events"), " ", self._glyphs.line)
        return text, paints_of(row.lane, text.tolist(), self._glyphs)

    def _labels(self, row: Row, text: npt.NDArray[np.str_]) -> Iterator[tuple[int, str]]:
        """Yields words that fit into the bars of a lane: the first column, and the words with a blank on each side."""
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
                kind = f"{int(told.first[bar])}–{int(told.last[bar])} {w.SNAPSHOT_TYPES[int(told.type[bar])]}"
                long = " · ".join((kind, *_more(track.story.snapshots, int(told.row[bar]))))
                word = next((f" {one} " for one in (long, kind) if len(one) + 4 <= room), "")
                if word:
                    yield int(first[place]) + (room - len(word)) // 2, word

    def _findings(self, place: int, base: Style) -> list[Piece]:
        cells, worst = [" "] * self._columns, "warning"
        found = [(at, one) for at, one in self.tracks[place].found_at(self.axis) if self.scale.first <= at <= self.scale.last]
        for severity, glyph in (("warning", self._glyphs.warning), ("error", self._glyphs.error)):
            for at, one in found:
                if one.severity == severity:
                    column = int(np.searchsorted(self._stretched, (at - self.scale.first) // self.scale.step))
                    cells[min(column, len(cells) - 1)] = glyph  # a screen that became narrower is drawn before its cells are made again
                    worst = severity
        return [("".join(cells), base + self.get_component_rich_style(f"lanes--{worst}", partial=True))]

    def _line(self, label: str, pieces: Sequence[Piece], stream: int, base: Style, cursor: str = "lanes--cursor") -> Strip:
        """Returns a lane, with the cursor over it if the cursor is in its stream."""
        own = base + self.get_component_rich_style("lanes--stream", partial=True) if stream == self.stream else base
        line = strip([(clip(label, LABEL).ljust(LABEL), own), *pieces], self.size.width, base)
        if not self.tracks or stream not in (self.stream, -1):
            return line
        low, high = (int(np.searchsorted(self._stretched, self.cell, side)) + LABEL for side in ("left", "right"))
        if self.range is not None:
            first, last = self._column_of(self.range[0], "left") + LABEL, self._column_of(self.range[1], "right") + LABEL
            chosen = self.get_component_rich_style("lanes--range", partial=True)
            line = Strip.join([line.crop(0, first), _over(line.crop(first, last), chosen), line.crop(last)])
        # In a wide cell, only the first column has the cursor's block. The others have its background, so that their content stays visible.
        edge = high if high - low <= _NARROW else low + 1
        here = _over(line.crop(low, edge), self.get_component_rich_style(cursor, partial=True))
        ground = _over(line.crop(edge, high), self.get_component_rich_style("lanes--column", partial=True))
        return Strip.join([line.crop(0, low), here, ground, line.crop(high)])

    def _heading(self) -> str:
        if self.told is None:
            return "no vbucket chosen"
        if self.waiting:
            return f"vb {self.vbucket} · {self.waiting}"
        told, scale, is_time = self.told, self.scale, self.axis == "time"
        other = {"lanes": "d seqnos" if is_time else "d time", "curve": "d no lanes" if self.is_both else "d lanes, too", "tree": ""}
        connections = [(f"connection {number}", name) for (_, number), name in told.connections.items()]
        parts = {
            "vbucket": f"vb {', '.join(map(str, self._compared))}",
            "streams": counted(len(self.tracks), "stream"),
            "span": f"{seconds(scale, scale.first)}–{seconds(scale, scale.last + 1)} s"
            if is_time
            else f"seqnos {scale.first:,}–{scale.last:,}",
            "cell": f"a cell is {lasting(scale.step) if is_time else counted(scale.step, 'seqno')}",
            "form": f"{_FORMS[self.form]} (|)",
            "other": other[self.form],
            "connection": connections[0][0] if len(connections) == 1 else f"{len(connections)} connections" if connections else "",
            "name": connections[0][1] if len(connections) == 1 else "",
        }
        for left_out in _LEFT_OUT:
            if cells(_joined(parts)) <= self.size.width:
                break
            parts[left_out] = ""
        return _joined(parts)

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self.refresh()


def _joined(parts: Mapping[str, str]) -> str:
    return " · ".join(filter(None, parts.values()))


def _write(text: npt.NDArray[np.str_], label: str) -> None:
    """Writes words to the right of the drawn part of a line, else to the left of it; omits them if they fit nowhere."""
    used = np.flatnonzero(text != " ")
    first, last = (int(used[0]), int(used[-1])) if len(used) else (0, -2)
    if last + 2 + len(label) <= len(text):
        text[last + 2 : last + 2 + len(label)] = list(label)
    elif len(label) + 1 <= first:
        text[first - 1 - len(label) : first - 1] = list(label)


def _more(snapshots: Records, row: int) -> Iterator[str]:
    """Yields more about the snapshot whose marker is in a row: its convention and its state, if known."""
    own = np.flatnonzero(whole(snapshots, "row") == row)[:1]
    for name in ("convention", "state"):
        yield from (str(value) for value in snapshots.take(own).values(name) if value not in (None, "unknown"))


def _over(line: Strip, style: Style) -> Strip:
    """Returns a part of a line with a style laid over its own."""
    return Strip([Segment(text, (own or Style()) + style) for text, own, _ in line])
