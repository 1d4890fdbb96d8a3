"""Draws the streams of one vbucket along seqnos or time: request, snapshots, density of items, and
gaps with their causes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rich.color import Color, blend_rgb
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from dcpinspect.output.render.glossary import CONVENTION_TEXTS
from dcpinspect.output.render.lanes import EVENTS, LETTERS, Lanes, Sign, joined, lanes, paints_of
from dcpinspect.output.render.message_lines import counted
from dcpinspect.output.render.timeline_text import LABEL, apart, lasting, numbers, seconds
from dcpinspect.streams import words as w
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import cells, clip, wrap
from dcpinspect.tui import theme
from dcpinspect.tui.line_view import Piece, strip, visible_width
from dcpinspect.tui.timeline_cursor import HEAD, Row, TimelineCursor
from dcpinspect.tui.tracks import Track
from dcpinspect.tui.vbucket_cells import whole_numbers

_NARROW = 2
"""Width of a cell, in columns, up to which the cursor covers the whole cell."""
_LABELLED = 8
"""Width in columns from which a bar or a gap has room for words."""
_LEFT_OUT = ("name", "cell", "connection", "streams")
"""Parts of the heading that are left out, one after the other, until the rest fits."""
_CAUSES = {letter: cause for cause, letter in LETTERS.items()}


_WHITE = ColorTriplet(255, 255, 255)
HIGHEST = 3
"""Greatest height of the items of a stream, in lines."""


class Timeline(TimelineCursor, can_focus=True, inherit_bindings=False):
    """Lanes of each stream of a vbucket. A column stands for a range of seqnos or a span of time; a
    cursor crosses all lanes.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lanes--column"}

    def _arrange(self) -> None:
        """Works out which lines there are; each is drawn when it becomes visible."""
        super()._arrange()
        # a cell of one seqno is full or empty, which one line can say
        has_heights = self.axis == "time" or self.scale.step > 1
        self._high = HIGHEST if len(self.tracks) == 1 and has_heights else 1
        self._rows = list(self._lanes())
        self.virtual_size = Size(self.size.width, HEAD + len(self._rows))

    @property
    def lines(self) -> int:
        """Height of the whole picture, in lines."""
        return HEAD + len(self._rows)

    def _lanes(self) -> Iterator[Row]:
        connection: int | None = None
        several = len({track.connection for track in self.tracks}) > 1
        for number, track in enumerate(self.tracks):
            if several and track.connection != connection:
                connection = track.connection
                yield Row(number, "")
            for line in range(len(self._title(track))):
                yield Row(number, "title", line)
            for lane in track.words:
                # events are letters, and every stream of one kind of gap says it in its title
                for lane_line in range(self._high if lane == "items" else 1):
                    yield Row(number, lane, lane_line)
            if track.found_at("seqno"):
                yield Row(number, "findings")

    # -- drawing
    # ------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Chooses as many cells as fit."""
        self._arrange()
        self.set_cursor(self.at, self.chosen_row)  # its cell now covers other seqnos

    def render_line(self, y: int) -> Strip:
        """Draws one visible line; the heading and the axis always stay at the top."""
        base = self.rich_style
        if y == 0:
            return strip(
                [(clip(f" {self._heading()}", self.size.width - 1), base + Style(bold=True))],
                self.size.width,
                base,
            )
        if self.waiting:
            return Strip.blank(self.size.width, base)
        if y == 1:
            ticks = numbers(self.scale, self._tick, self._columns).ljust(self._columns)
            return self._line("", [(ticks, base)], -1, base)
        line = int(self.scroll_offset.y) + y - HEAD
        if line >= len(self._rows):
            return Strip.blank(self.size.width, base)
        row = self._rows[line]
        track = self.tracks[row.track]
        if not row.lane:
            name = "" if self.told is None else self.told.connections.get(track.connection, "")
            text = clip(f" connection {track.connection}  {name}", self.size.width - 1)
            return strip([(text, self.dim_style())], self.size.width, base)
        label_style = base + Style(bold=True) if row.track == self.stream else base
        if row.lane == "title":
            dim = self.dim_style()
            label = "" if row.part else f" {track.name}"
            return strip(
                [
                    (label.ljust(LABEL), label_style),
                    (self._title(track)[row.part], dim),
                ],
                self.size.width,
                base,
            )
        if row.lane == "findings":
            return self._line("  findings", self._findings(row.track, base), row.track, base)
        text = getattr(self._lanes_of(row.track), row.lane).split("\n")[row.part]
        return self._line(
            "" if row.part else f"  {row.lane}", self._painted(row, text, base), row.track, base
        )

    def _title(self, track: Track) -> list[str]:
        """Returns a stream in words: in one line, or whole if it is alone on a high screen."""
        title = " · ".join(
            f"no {lane}" if text == "none" else text for lane, text in track.words.items()
        )
        if len(self.tracks) > 1 or not self.screen.has_class("-tall"):
            return [clip(title, self._columns)]
        return wrap(title, self._columns)

    def _lanes_of(self, place: int) -> Lanes:
        drawn = self._drawn.get(place)
        if drawn is None:
            apart_by, shape = (
                apart(self.scale, self._tick, self._columns),
                self.tracks[place].shapes[self.axis],
            )
            drawn = self._drawn[place] = lanes(
                shape, self.scale, glyphs=self._lane_glyphs, apart=apart_by, high=self._high
            )
        return drawn

    def has_sign(self, sign: Sign) -> bool:
        """Whether a sign of the legend is drawn anywhere."""
        if sign.paint.startswith("severity-"):
            return any(
                f"severity-{mark.severity}" == sign.paint
                for track in self.tracks
                for _, mark in track.found_at(self.axis)
            )
        for number, track in enumerate(self.tracks):
            drawn = self._lanes_of(number)
            lane = {"s": drawn.snapshots, "c": drawn.gaps}.get(
                sign.paint[:1], drawn.axis + drawn.events
            )
            if track.words and any(glyph in lane for glyph in sign.glyph):
                return True
        return False

    def _tick(self, at: int) -> str:
        return seconds(self.scale, at) if self.axis == "time" else str(at)

    def _painted(self, row: Row, cells: str, base: Style) -> list[Piece]:
        """Returns a lane over all columns. A cell can take several columns; its letter stands only
        in the first.
        """
        text, paints = self._stretch(row, cells)
        for first, label in self._labels(row, text):
            text[first : first + len(label)] = list(label)
        return [
            (piece, base + theme.style_of(self.app, paint))
            for piece, paint in joined(text.tolist(), paints)
        ]

    def _stretch(self, row: Row, cells: str) -> tuple[npt.NDArray[np.str_], list[str]]:
        """Returns the glyph and the colour of each column."""
        of_column = self._stretched
        text = np.array(list(cells))[of_column]
        is_repeated = np.diff(of_column, prepend=-1) == 0
        if row.lane in ("axis", "events"):
            marks = (
                np.isin(
                    text,
                    [
                        *EVENTS,
                        self._lane_glyphs.tick,
                        self._lane_glyphs.end,
                        self._lane_glyphs.back,
                    ],
                )
                & is_repeated
            )
            later = np.append(text[1:], " ")
            text[marks] = np.where(
                (later[marks] == " ") | (row.lane == "events"), " ", self._lane_glyphs.line
            )
        return text, paints_of(row.lane, text.tolist(), self._lane_glyphs)

    def _labels(self, row: Row, text: npt.NDArray[np.str_]) -> Iterator[tuple[int, str]]:
        """Yields words that fit into the bars of a lane: the first column, and the words with a
        blank on each side.
        """
        if row.lane == "gaps":
            column = 0
            for glyph, group in groupby(text.tolist()):
                size = len(list(group))
                word = f" {_CAUSES.get(glyph, '')} "
                if size >= max(_LABELLED, len(word) + 2) and glyph != " ":
                    yield column + (size - len(word)) // 2, word
                column += size
        elif row.lane == "snapshots":
            track = self.tracks[row.track]
            bars, story_bars = track.shapes[self.axis].bars, track.story.bars
            visible = np.flatnonzero(self.scale.shows(bars.first, bars.last))
            first = np.searchsorted(self._stretched, self.scale.cell(bars.first[visible]), "left")
            last = np.searchsorted(self._stretched, self.scale.cell(bars.last[visible]), "right")
            for index in np.flatnonzero(last - first >= _LABELLED).tolist():
                bar, label_width = visible[index], int(last[index] - first[index])
                kind = (
                    f"{int(story_bars.first[bar])}–{int(story_bars.last[bar])} "
                    f"{w.SNAPSHOT_TYPES[int(story_bars.type[bar])]}"
                )
                long = " · ".join((kind, *_more(track.story.snapshots, int(story_bars.row[bar]))))
                word = next(
                    (
                        f" {word_shown} "
                        for word_shown in (long, kind)
                        if len(word_shown) + 4 <= label_width
                    ),
                    "",
                )
                if word:
                    yield int(first[index]) + (label_width - len(word)) // 2, word

    def _findings(self, place: int, base: Style) -> list[Piece]:
        pieces: list[Piece] = [(" ", base)] * self._columns
        signs = {"error": self._lane_glyphs.error, "warning": self._lane_glyphs.warning}
        marks = self.tracks[place].found_at(self.axis)
        # an error stands before a warning
        for position, mark in sorted(marks, key=lambda pair: pair[1].severity, reverse=True):
            if self.scale.first <= position <= self.scale.last:
                cell = (position - self.scale.first) // self.scale.step
                column = int(np.searchsorted(self._stretched, cell))
                style = self.sign_style(mark.severity, base, is_here=False)
                # a screen that became narrower is drawn before its cells are made again
                pieces[min(column, len(pieces) - 1)] = signs[mark.severity], style
        return pieces

    def _line(self, label: str, pieces: Sequence[Piece], stream: int, base: Style) -> Strip:
        """Returns a lane, with the cursor over it if the cursor is in its stream."""
        label_style = base + Style(bold=True) if stream == self.stream else base
        line = strip(
            [(clip(label, LABEL).ljust(LABEL), label_style), *pieces], self.size.width, base
        )
        if not self.tracks or stream not in (self.stream, -1):
            return line
        low, high = (
            int(np.searchsorted(self._stretched, self.cell, side)) + LABEL
            for side in ("left", "right")
        )
        # In a wide cell, only the first column has the cursor's block. The others have its
        # background, so that their content stays visible.
        edge = high if high - low <= _NARROW else low + 1
        cursor_strip = _over(line.crop(low, edge), self.cursor_style())
        sign = (self._lane_glyphs.error, self._lane_glyphs.warning)
        if line.crop(low, low + 1).text in sign:
            # the cursor's colour would hide that of the sign
            [(text, style, _), *_] = line.crop(low, low + 1)
            colored = theme.sign_on_cursor(style or base, base)
            cursor_strip = Strip.join([Strip([Segment(text, colored)]), cursor_strip.crop(1)])
        ground = _over(
            line.crop(edge, high), self.get_component_rich_style("lanes--column", partial=True)
        )
        return Strip.join([line.crop(0, low), cursor_strip, ground, line.crop(high)])

    def _heading(self) -> str:
        if self.told is None:
            return "no vbucket chosen"
        if self.waiting:
            return f"vb {self.vbucket} · {self.waiting}"
        stories, scale, is_time = self.told, self.scale, self.axis == "time"
        connections = [
            (f"connection {number}", name) for number, name in stories.connections.items()
        ]
        phrases = {
            "vbucket": f"vb {self.vbucket}",
            "streams": counted(len(self.tracks), "stream"),
            "span": f"{seconds(scale, scale.first)}–{seconds(scale, scale.last + 1)} s"
            if is_time
            else f"seqnos {scale.first:,}–{scale.last:,}",
            "cell": self._cell_in_words(),
            "other": f"d: {'seqnos' if is_time else 'time'}",
            "connection": connections[0][0]
            if len(connections) == 1
            else f"{len(connections)} connections"
            if connections
            else "",
            "name": connections[0][1] if len(connections) == 1 else "",
        }
        for left_out in _LEFT_OUT:
            if cells(_joined(phrases)) <= visible_width(self) - 2:
                break
            phrases[left_out] = ""
        return _joined(phrases)

    def _cell_in_words(self) -> str:
        scale, width = self.scale, self._columns / self.scale.cells
        amount = lasting(scale.step) if self.axis == "time" else counted(scale.step, "seqno")
        return f"a cell is {amount}" if width < 1.05 else f"{amount} in {width:.1f} columns"


def _joined(parts: Mapping[str, str]) -> str:
    return " · ".join(filter(None, parts.values()))


def _more(snapshots: Records, row: int) -> Iterator[str]:
    """Yields more about the snapshot whose marker is in a row: its convention and its state, if
    known.
    """
    snapshot_rows = np.flatnonzero(whole_numbers(snapshots, "row") == row)[:1]
    for name in ("convention", "state"):
        yield from (
            CONVENTION_TEXTS.get(value, value)
            for value in snapshots.take(snapshot_rows).values(name)
            if value not in (None, "unknown")
        )


def _over(line: Strip, style: Style) -> Strip:
    """Returns a part of a line with a style laid over its own. A full block has a brighter tint of
    its colour: in that of the style's text it would look as if nothing was there.
    """
    return Strip(
        [
            Segment(text, (before or Style()) + style + _tint(before if "█" in text else None))
            for text, before, _ in line
        ]
    )


def _tint(style: Style | None) -> Style:
    color = None if style is None else style.color
    if color is None or color.triplet is None:
        return Style()
    return Style(color=Color.from_triplet(blend_rgb(color.triplet, _WHITE, 0.5)))
