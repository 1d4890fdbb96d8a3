"""Draws the streams of one vbucket along seqnos or time, each in several lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from operator import itemgetter
from typing import ClassVar, NamedTuple

import numpy as np
from rich.color import Color, blend_rgb
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip

from dcpinspect.findings.cases import duration
from dcpinspect.output.render.lanes import (
    ASCII,
    EVENTS,
    ITEMS,
    TICK,
    UNICODE,
    Glyphs,
    Painted,
    Scale,
    Sign,
    joined,
    lanes,
    paints_of,
)
from dcpinspect.output.render.timeline_text import LABEL, apart, end_of, time_since
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.text import clip, counted
from dcpinspect.tui import theme
from dcpinspect.tui.charts import a_cell, axis
from dcpinspect.tui.line_view import LineView, Piece, fitting_phrases, visible_width
from dcpinspect.tui.tracks import Axis, Track, Tracks

_NARROW = 2
"""Width of a cell, in columns, up to which the cursor covers the whole cell."""
_TITLE = ("axis", "events", "items", "gaps")
"""Lanes in the order in which a title has them: how the stream ended stands before what came, as
the rest may be cut.
"""
_FOUND = ("severity-error", "severity-warning")
_WHITE = ColorTriplet(255, 255, 255)
HIGHEST = 3
"""Greatest height of the items of a stream, in lines."""
_NEAREST = 5
"""Least number of seqnos or nanoseconds that are shown."""


class Row(NamedTuple):
    """A line below the axis."""

    track: int
    """Place of the track."""
    lane: str
    """Name of the lane. ``connection``: the name of one. ``title``: the stream in words."""
    label: str
    pieces: Sequence[Painted]
    """What stands behind the label."""


class Timeline(LineView, can_focus=True, inherit_bindings=False):
    """Lanes of each stream of a vbucket. A column stands for a range of seqnos or a span of time; a
    cursor crosses all lanes. Clicks select.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lanes--column"}
    HEAD = 2

    content: Tracks = Tracks()
    waiting: str = ""
    """Why the vbucket is not drawn, in words: it is being read, or reading was stopped."""
    no_vbucket: str = ""
    """Why there is no vbucket to choose."""
    axis: Axis = "seqno"
    scale = Scale(0, 1, TICK)
    stream = 0
    """Place of the stream that the cursor is in, in ``tracks``; ``at`` is its seqno, or its
    time since the capture began.
    """
    _part: tuple[int, int] | None = None
    """Part of the axis that fills the width; None: the whole axis."""
    chosen_row = 0
    """Row of the event that the cursor has stepped to; 0: none."""
    _labels = ""
    """The labels of the axis."""
    _rows: Sequence[Row] = ()
    _seen: Set[Painted] = frozenset()
    """All pieces of all lines."""

    @property
    def lane_glyphs(self) -> Glyphs:
        """The characters that lanes are drawn with."""
        return ASCII if self._glyphs is theme.ASCII else UNICODE

    # -- what is shown

    @property
    def track(self) -> Track | None:
        """Stream that the cursor is in."""
        return self.content.tracks[self.stream] if self.stream < len(self.content.tracks) else None

    def wait(self, vbucket: int, why: str) -> None:
        """Shows that a vbucket is still to be drawn, and hides the one before at once."""
        self.content, self.waiting, self.chosen_row = Tracks(vbucket), why, 0
        self._arrange()
        self.post_message(self.Moved(self))

    def show(self, tracks: Tracks, at: int | None = None) -> None:
        """Shows another vbucket, or more of the same, with the cursor at a place of the axis."""
        is_same = tracks.vbucket == self.content.vbucket and not self.waiting
        self.content, self.waiting = tracks, ""
        if not is_same:
            self._part = None
            if at is None:
                self.stream = 0
        self.stream = min(self.stream, max(0, len(tracks.tracks) - 1))
        self._arrange()
        if at is not None:
            self.set_cursor(at)
        elif not is_same:
            self.set_cursor(self.scale.first)
        else:
            self.post_message(self.Moved(self))

    def show_axis(self, axis: Axis) -> None:
        """Shows the streams along seqnos or along time; the cursor stays at the same event."""
        seqno, self.axis = self.seqno, axis
        self.show_all()
        self.set_cursor(self._inside(self._on_axis(seqno)))

    @property
    def _picture_width(self) -> int:
        """Greatest width of the picture in terminal columns."""
        return max(TICK, self.size.width - LABEL - 1)

    def show_all(self) -> None:
        """Shows the whole of all streams."""
        self._part = None
        self._arrange()

    @property
    def _bounds(self) -> tuple[int, int]:
        """First and last place of all streams; time goes on until the capture ends."""
        first, last = self.content.bounds(self.axis)
        return first, max(
            last, self.content.until_ns * (self.axis == "time" and bool(self.content.tracks))
        )

    def _inside(self, at: int) -> int:
        """Returns a place of the axis that may lie before all streams, or after them, among them."""
        first, last = self._bounds
        return min(max(at, first), last)

    def zoom(self, steps: int) -> None:
        """Zooms in for positive steps, else out. The cursor stays where it is on the screen."""
        before = self.scale.step * self.scale.cells
        span = min(max(before // 2 if steps > 0 else before * 2, _NEAREST), ENDLESS)
        first = max(0, self.at - (self.at - self.scale.first) * span // before)
        self._part = first, min(first + span - 1, ENDLESS)
        self._arrange()

    def go_to_time(self, since_ns: int) -> None:
        """Moves the cursor to the item or the event that is nearest to a time, in its stream."""
        near = [(event.time, event.track, event.row) for event in self.content.events]
        for stream, track in enumerate(self.content.tracks):
            times = track.shapes["time"].item_first.astype(np.int64)
            nearest = times[np.argsort(np.abs(times - since_ns))[:1]].tolist()
            near += [(time, stream, 0) for time in nearest]
        begin = since_ns, self.stream, 0
        at, self.stream, row = min(near, key=lambda event: abs(event[0] - since_ns), default=begin)
        self.axis = "time"
        self.show_all()
        self.scroll_to_cursor()
        self.set_cursor(self._inside(at), row)

    def _arrange(self) -> None:
        """Draws all lines for the shown part of the axis."""
        self.scale = Scale.filling(
            *(self._part or self._bounds), self._picture_width, is_time=self.axis == "time"
        )
        has_axis = self.axis == "time" or any(one.story.is_opened for one in self.content.tracks)
        end = min(self.scale.last, self._bounds[1])
        self._labels = axis(self.scale, end) if has_axis else ""
        self._rows = [
            row for number in range(len(self.content.tracks)) for row in self._drawn(number)
        ]
        self._seen = {piece for row in self._rows for piece in row.pieces}
        self.virtual_size = Size(self.size.width, self.lines)
        self.refresh()

    @property
    def lines(self) -> int:
        """Height of the whole picture, in lines."""
        return self.HEAD + len(self._rows)

    def _drawn(self, number: int) -> Iterator[Row]:
        """Yields the lines of a stream: the name of its connection where there are several, the
        stream in words, and its lanes.
        """
        track, connections = self.content.tracks[number], self.content.connections
        if len(connections) > 1 and (
            not number or self.content.tracks[number - 1].connection != track.connection
        ):
            name = connections.get(track.connection, "")
            yield Row(number, "connection", f" connection {track.connection}  {name}", ())
        yield Row(number, "title", f" {track.name}", [(self._title(track), "")])
        # a cell of one seqno is full or empty, which one line can say
        has_heights = self.axis == "time" or self.scale.step > 1
        drawn = lanes(
            track.shapes[self.axis],
            self.scale,
            glyphs=self.lane_glyphs,
            apart=apart(self.scale),
            high=HIGHEST if len(self.content.tracks) == 1 and has_heights else 1,
        )
        for lane, words in track.words.items():
            # what is not there, the title says, and items of a cache transfer, which have no place
            is_there = {"axis": track.story.is_opened, "items": bool(track.story.stream["items"])}
            if words != "none" and is_there.get(lane, True):
                texts = getattr(drawn, lane).split("\n")
                while self._part is None and len(texts) > 1 and not texts[0].strip():
                    del texts[0]  # zoomed in, another part of the axis may need it
                for line, text in enumerate(texts):
                    yield Row(number, lane, "" if line else f"  {lane}", self._wide(lane, text))
        if signs := self._findings(number):
            yield Row(number, "findings", "  findings", signs)

    # -- the cursor

    @property
    def cell(self) -> int:
        """Number of the cell that the cursor is in."""
        return min(max((self.at - self.scale.first) // self.scale.step, 0), self.scale.cells - 1)

    @property
    def span(self) -> tuple[int, int]:
        """First and last place of the cursor's cell; both are the same if it has but one."""
        low = self.scale.first + self.cell * self.scale.step if self.scale.step > 1 else self.at
        return low, min(low + self.scale.step - 1, ENDLESS)

    @property
    def seqno(self) -> int:
        """Seqno of the cursor; on the time axis, the greatest seqno that came by then."""
        if self.axis == "seqno" or self.track is None:
            return self.at
        came = self.track.story.item_first[
            self.track.shapes["time"].item_first <= np.uint64(self.span[1])
        ]
        return (
            int(came.max()) if len(came) else int(self.track.story.stream["requested_start"] or 0)
        )

    def _stream_of(self, seqno: int) -> int:
        """Returns the stream of the cursor if it has a seqno, else the first stream that has it."""
        by_seqno = np.uint64(min(max(seqno, 0), ENDLESS))

        def has(number: int) -> bool:
            story = self.content.tracks[number].story
            return bool(((story.item_first <= by_seqno) & (story.item_last >= by_seqno)).any())

        order = [self.stream, *range(len(self.content.tracks))]
        return next(
            (number for number in order if number < len(self.content.tracks) and has(number)),
            self.stream,
        )

    def _on_axis(self, seqno: int) -> int:
        """Returns where a seqno of the cursor's stream is on the shown axis."""
        if self.axis == "seqno" or self.track is None:
            return seqno
        later = np.flatnonzero(self.track.story.item_last >= np.uint64(min(max(seqno, 0), ENDLESS)))
        shape = self.track.shapes["time"]
        return (
            int(shape.item_first[later].min())
            if len(later)
            else shape.end
            if self.track.story.stream["items"]
            else shape.begin or 0
        )

    def set_cursor(self, at: int, row: int = 0) -> None:
        """Moves the cursor to a place. ``row``: of the event there, which Enter opens."""
        self.at, self.chosen_row = min(max(at, 0), ENDLESS), row
        if not self.scale.first <= self.at <= self.scale.last:
            first = (
                max(0, self.at - self.scale.step * (self.scale.cells // 2))
                // self.scale.step
                * self.scale.step
            )
            self._part = first, first + self.scale.step * self.scale.cells - 1
            self._arrange()
        self.refresh()
        self.post_message(self.Moved(self))

    def go_to_seqno(self, seqno: int) -> None:
        """Moves the cursor to a seqno, on either axis, in the first stream that has it."""
        self.stream = self._stream_of(seqno)
        self.set_cursor(self._on_axis(seqno))

    def go_to_row(self, row: int, connection: int, sid: int, since_ns: int) -> None:
        """Moves the cursor to a message, in the last stream before it with the same connection and
        stream-id (-1 for none).
        """
        matching = [
            (
                track.story.key[1] == sid,
                track.first_row if track.first_row <= row else -track.first_row,
                number,
            )
            for number, track in enumerate(self.content.tracks)
            if track.connection == connection
        ]
        if matching:
            self.stream = max(matching)[2]
            self.scroll_to_cursor()
            self.set_cursor(
                self._inside(since_ns)
                if self.axis == "time"
                else self.content.tracks[self.stream].seqnos_of([row])[0],
                row,
            )

    def action_fold(self) -> None:
        """Moves the cursor one cell to the left."""
        self.set_cursor(self.scale.first + (self.cell - 1) * self.scale.step)

    def action_unfold(self) -> None:
        """Moves the cursor one cell to the right."""
        self.set_cursor(self.scale.first + (self.cell + 1) * self.scale.step)

    def lines_of(self, place: int) -> tuple[int, int]:
        """Returns the first line of the cursor's stream, and the number of its lines."""
        del place
        own = [number for number, row in enumerate(self._rows) if row.track == self.stream]
        return min(own, default=0), len(own)

    def top_for(self, line: int) -> int:
        """Returns the first line of the first stream from a line on."""
        tracks = [row.track for row in self._rows]
        return next((y for y in range(line, len(tracks)) if tracks[y] != tracks[y - 1]), line)

    # -- the mouse

    def clicked(self, event: events.Click) -> None:
        """Selects the clicked stream and cell; a second click opens them."""
        column, line = event.x - LABEL, int(self.scroll_offset.y) + event.y - self.HEAD
        is_inside = bool(self.content.tracks) and 0 <= column < self.scale.columns
        if is_inside and event.y >= self.HEAD and line < len(self._rows):
            stream = self._rows[line].track
            is_same = self.stream == stream and self.cell == column // self.scale.wide
            self.stream = stream
            if is_same:
                self.action_open()
            else:
                self.set_cursor(self.scale.first + column // self.scale.wide * self.scale.step)

    # -- what is at the cursor

    @property
    def item_row(self) -> int:
        """Row of the first item at the cursor; 0 if it is on an event, or no item is there."""
        if self.track is None or self.chosen_row:
            return 0
        shape = self.track.shapes[self.axis]
        low, high = (np.uint64(bound) for bound in self.span)
        is_here = (shape.item_last >= low) & (shape.item_first <= high)
        return int(self.track.story.item_row[is_here].min(initial=1 << 62)) if is_here.any() else 0

    def spoken(self) -> str:
        """Describes what is at the cursor."""
        track = self.track
        if track is None:
            return ""
        story, shape = track.story, track.shapes[self.axis]
        phrases = [
            f"{'stream ' * story.is_opened}{track.name} of connection {track.connection}",
            self._position_in_words(),
        ]
        low, high = (np.uint64(bound) for bound in self.span)
        came = (shape.item_first <= high) & (shape.item_last >= low)
        if came.any() and (shape.is_time or self.scale.step > 1):
            first_items = story.item_first[came]
            items = counted(int(story.item_count[came].sum()), "item")
            span = _seqnos(int(first_items.min()), int(story.item_last[came].max()))
            phrases.append(f"{items}, {span}")
        return " · ".join(filter(None, phrases))

    def _position_in_words(self) -> str:
        low, high = self.span
        if self.axis == "time":
            return (
                time_since(self.scale.step, low)
                if low == high
                else f"{duration(high - low + 1)} from {time_since(self.scale.step, low)} on"
            )
        return _seqnos(low, high) if self._labels else ""

    # -- drawing

    def fit(self) -> None:
        """Chooses as many cells as fit."""
        self._arrange()
        self.scroll_to(y=0, animate=False, immediate=True)  # what is seen is by the height of now
        self.scroll_to_cursor()
        self.set_cursor(self.at, self.chosen_row)  # its cell now covers other seqnos

    def render_line(self, y: int) -> Strip:
        """Draws one visible line; the heading and the axis always stay at the top."""
        base = self.rich_style
        if y == 0:
            return self.drawn((f" {self._heading()}", base + Style(bold=True)))
        if self.waiting or not self.content.tracks:
            return self.drawn()
        if y == 1:
            return self._line("", [(self._labels, base)], -1, base)
        line = int(self.scroll_offset.y) + y - self.HEAD
        if line >= len(self._rows):
            return self.drawn()
        row, dim = self._rows[line], self.dim_style()
        if row.lane == "connection":
            return self.drawn((clip(row.label, visible_width(self)), dim))
        if row.lane == "title":
            is_bold = Style(bold=row.track == self.stream or None)
            title = "".join(text for text, _ in row.pieces)
            return self.drawn((row.label.ljust(LABEL), base + is_bold), (title, dim))
        pieces = [
            (text, base + theme.style_of(self.app, paint) + Style(bold=paint in _FOUND or None))
            for text, paint in row.pieces
        ]
        return self._line(row.label, pieces, row.track, base)

    def _title(self, track: Track) -> str:
        """Returns a stream in words: its begin, its end, and what else fits."""
        phrases = [
            f"no {lane}" if track.words[lane] == "none" else track.words[lane]
            for lane in _TITLE
            if lane in track.words
        ]
        return clip(fitting_phrases(phrases, self._picture_width, 2), self._picture_width)

    def has_sign(self, sign: Sign) -> bool:
        """Whether a sign of the legend is drawn anywhere; those of items stand for amounts."""
        return any(
            paint == sign.paint and (paint == ITEMS or not set(sign.glyph).isdisjoint(text))
            for text, paint in self._seen
        )

    def _wide(self, lane: str, text: str) -> list[Painted]:
        """Returns a lane over all columns. The first column of a cell has an event's letter."""
        columns, glyphs = np.repeat(list(text), self.scale.wide), self.lane_glyphs
        if lane in ("axis", "events"):
            is_repeated = np.arange(len(columns)) % self.scale.wide > 0
            marks = is_repeated & np.isin(columns, [*EVENTS, glyphs.tick, glyphs.end, glyphs.back])
            is_last = np.cumsum(columns[::-1] != " ")[::-1][marks] < self.scale.wide
            columns[marks] = np.where(is_last | (lane == "events"), " ", glyphs.line)
        line = glyphs.line * (self.scale.wide - 1)  # a head of an arrow stands beside its letter
        letters = [*"".join(columns).replace(line + glyphs.back, glyphs.back + line)]
        return list(joined(letters, paints_of(lane, letters, glyphs)))

    def _findings(self, number: int) -> list[Painted]:
        """Returns the signs of a stream's errors and warnings; none if it has none."""
        findings = self.content.found_at(number, self.axis)
        pieces: list[Painted] = [(" ", "")] * self.scale.columns if findings else []
        # an error stands before a warning
        for position, severity in sorted(findings, key=itemgetter(1), reverse=True):
            if self.scale.first <= position <= self.scale.last:
                cell = (position - self.scale.first) // self.scale.step
                sign = self._glyphs.of_severity(severity)
                pieces[cell * self.scale.wide] = sign, f"severity-{severity}"
        return pieces

    def _line(self, label: str, pieces: Sequence[Piece], stream: int, base: Style) -> Strip:
        """Returns a lane, with the cursor over it if the cursor is in its stream."""
        label_style = base + Style(bold=True) if stream == self.stream else base
        line = self.drawn((clip(label, LABEL).ljust(LABEL), label_style), *pieces)
        if not self.content.tracks or stream not in (self.stream, -1):
            return line
        low = self.cell * self.scale.wide + LABEL
        high = low + self.scale.wide
        # In a wide cell, only the first column has the cursor's block. The others have its
        # background, so that their content stays visible.
        edge = high if high - low <= _NARROW else low + 1
        cursor_strip = _over(line.crop(low, edge), self.cell_style())
        if line.crop(low, low + 1).text in (self._glyphs.error, self._glyphs.warning):
            # the cursor's colour would hide that of the sign
            [(text, style, _), *_] = line.crop(low, low + 1)
            colored = theme.sign_on_cursor(style or base, base)
            cursor_strip = Strip.join([Strip([Segment(text, colored)]), cursor_strip.crop(1)])
        ground = _over(
            line.crop(edge, high), self.get_component_rich_style("lanes--column", partial=True)
        )
        return Strip.join([line.crop(0, low), cursor_strip, ground, line.crop(high)])

    def _heading(self) -> str:
        if self.content.vbucket is None:
            return self.no_vbucket or "choose a vbucket (2, or v on a message)"
        if self.waiting:
            return f"vb {self.content.vbucket} · {self.waiting}"
        if not self.content.tracks:
            return f"vb {self.content.vbucket} · no stream"
        stories, scale, is_time = self.content, self.scale, self.axis == "time"
        last = min(scale.last, self._bounds[1])  # the last cell may reach beyond the end
        top = int(self.scroll_offset.y)
        row_parts = self._rows[:top], self._rows[top + self.size.height - self.HEAD :]
        count_above, count_below = (sum(row.lane == "title" for row in part) for part in row_parts)
        phrases = [
            f"vb {self.content.vbucket}",
            counted(sum(track.story.is_opened for track in self.content.tracks), "stream")
            + (f", {count_above} more above" if count_above else "")
            + (f", {count_below}{'' if count_above else ' more'} below" if count_below else ""),
            *(
                (
                    f"{time_since(scale.step * TICK, scale.first).partition(' ')[0]}–{end_of(scale, last)}"
                    if is_time
                    else _seqnos(scale.first, last),
                    f"{a_cell(scale)} {duration(scale.step) if is_time else counted(scale.step, 'seqno')}",
                )
                if self._labels
                else ()
            ),
            f"d: {'seqnos' if is_time else 'time'}",
            *(
                f"connection {number} · {name}"
                for number, name in stories.connections.items()
                if len(stories.connections) == 1
            ),
        ]
        return fitting_phrases(phrases, visible_width(self) - 2)


def _seqnos(low: int, high: int) -> str:
    return f"seqno {low:,}" if low == high else f"seqnos {low:,}–{high:,}"


def _over(line: Strip, style: Style) -> Strip:
    """Returns a part of a line with a style laid over its own. Blocks have a brighter tint of their
    colour: in that of the style's text they would not look like items.
    """
    return Strip(
        [
            Segment(
                text, (before or Style()) + style + _tint(before if "▁" <= text <= "██" else None)
            )
            for text, before, _ in line
        ]
    )


def _tint(style: Style | None) -> Style:
    color = None if style is None else style.color
    if color is None or color.triplet is None:
        return Style()
    return Style(color=Color.from_triplet(blend_rgb(color.triplet, _WHITE, 0.5)))
