"""One vbucket's streams along their seqnos or in time: what was asked, which snapshots came, how densely, what did not come and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dcpinspect.escape import clip, escape
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.render.lane_paint import EVENTS, joined, paints_of
from dcpinspect.render.lanes import LETTERS, TICK, Glyphs, Lanes, Scale, lanes
from dcpinspect.render.shape import Shape
from dcpinspect.render.timeline import LABEL, apart, lasting, numbers, seconds
from dcpinspect.streams import words as w
from dcpinspect.streams.story import Seqnos, StreamStory
from dcpinspect.tui import theme
from dcpinspect.tui.strips import Piece, strip
from dcpinspect.tui.tracks import Axis, FindingMark, Track, Tracks

_NEAREST = 5
"""Seqnos, or nanoseconds, that are shown at least."""
_BESIDE = 5
"""How often a span of time that is looked at is shown on each side, too."""
_TALLEST = 4
"""Lines of the items of a stream at most."""
_LABELLED = 8
"""Columns from which a stretch has room for words."""
_CAUSES = {letter: cause for cause, letter in LETTERS.items()}
_WORST = [w.CAUSES.index(cause) for cause in LETTERS]


class _Row(NamedTuple):
    """A line below the axis: a lane of a track, or the name of a connection."""

    track: int
    lane: str
    """Empty: the connection's name. ``title``: what the stream is, in words."""
    part: int = 0
    """Of lanes with several lines, which one."""


class Timeline(ScrollView, can_focus=True, inherit_bindings=False):
    """Lanes of each stream of one vbucket, a column for so many seqnos or so much time, a cursor over all."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("lanes--cursor", "lanes--dim", "lanes--stream", "lanes--error", "lanes--warning"),
    }

    class Moved(Message):
        """The cursor came to another place."""

    class Opened(Message):
        """Enter: the message at the cursor."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self.told: Tracks | None = None
        self.waiting = ""
        """Why there is no picture of the vbucket, in words: it is read, or that was stopped."""
        self.axis: Axis = "seqno"
        self.scale = Scale(0, 1, TICK)
        self.stream = 0
        """Place of the stream that the cursor is in."""
        self.at = 0
        """The seqno, or the nanoseconds since the capture began, that the cursor is at."""
        self._is_fit = True
        self._chosen = 0  # row of the event that was stepped to; 0: none
        self._folded: set[tuple[int, int, int]] = set()
        self._rows: list[_Row] = []
        self._drawn: dict[int, Lanes] = {}
        self._high = 1

    # -- what is shown ------------------------------------------------------------------------------------

    @property
    def vbucket(self) -> int | None:
        """The one whose streams are shown."""
        return None if self.told is None else self.told.vbucket

    @property
    def tracks(self) -> Sequence[Track]:
        """Its streams."""
        return () if self.told is None else self.told.tracks

    @property
    def track(self) -> Track | None:
        """The one that the cursor is in."""
        return self.tracks[self.stream] if self.stream < len(self.tracks) else None

    @property
    def story(self) -> StreamStory | None:
        """What is known of the stream that the cursor is in."""
        return None if self.track is None else self.track.story

    @property
    def shape(self) -> Shape | None:
        """The stream of the cursor on the axis that is shown."""
        return None if self.track is None else self.track.shapes[self.axis]

    def wait(self, vbucket: int, why: str) -> None:
        """The picture of a vbucket is still to come: that of another one is gone at once."""
        self.told, self.waiting = Tracks(vbucket), why
        self._arrange()
        self.post_message(self.Moved())

    def show(self, told: Tracks, seqno: int | None = None, at: int | None = None) -> None:
        """Another vbucket, or more of it; the cursor at a seqno, or at a place of the axis."""
        is_same = told.vbucket == self.vbucket and not self.waiting
        self.told, self.waiting = told, ""
        if not is_same:
            self._is_fit = True
            self._folded.clear()
            if at is None:
                self.stream = 0
        self.stream = min(self.stream, max(0, len(told.tracks) - 1))
        self._arrange()
        if self._is_fit:
            self.fit()
        if seqno is not None:
            self.stream = self._stream_of(seqno)
            self.go_to_seqno(seqno)
        elif at is not None:
            self.go(at)
        elif not is_same:
            self.go(self.scale.first)
        else:
            self.post_message(self.Moved())

    def show_axis(self, axis: Axis, at: int | None = None) -> None:
        """Along seqnos, or along time; the cursor stays at what it was at."""
        if axis != self.axis:
            seqno = self.seqno
            self.axis = axis
            self.fit()
            at = self._on_axis(seqno) if at is None else at
        self.go(self.at if at is None else at)

    @property
    def _columns(self) -> int:
        """Of the terminal, for the picture."""
        return max(TICK, self.size.width - LABEL - 1)

    def fit(self) -> None:
        """All of all streams."""
        places = [place for track in self.tracks for place in track.shapes[self.axis].places()]
        self._is_fit = True
        self._scale_to(Scale.filling(min(places, default=0), max(places, default=0), self._columns))

    def zoom(self, steps: int) -> None:
        """Nearer or farther; the cursor stays where it is on the screen."""
        before = self.scale.step * self.scale.cells
        span = min(max(before // 2 if steps > 0 else before * 2, _NEAREST), ENDLESS)
        first = max(0, self.at - (self.at - self.scale.first) * span // before)
        self._is_fit = False
        self._scale_to(Scale.filling(first, min(first + span - 1, ENDLESS), self._columns))

    def zoom_to(self, first: int, last: int) -> None:
        """This part of the axis, and no more."""
        self._is_fit = False
        self._scale_to(Scale.filling(max(0, first), min(max(last, first + _NEAREST - 1), ENDLESS), self._columns))
        self.go(min(max(self.at, self.scale.first), self.scale.last))

    def go_to_span(self, first: int, last: int) -> None:
        """Along time: this span with some time around it; the cursor at the first item in it, in the stream that has one."""
        self.show_axis("time", first)
        self.zoom_to(first - _BESIDE * (last - first), last + _BESIDE * (last - first))
        for place, track in enumerate(self.tracks):
            shape = track.shapes["time"]
            own = shape.item_first[(shape.item_last >= np.uint64(first)) & (shape.item_first <= np.uint64(last))]
            if len(own):
                self.stream = place
                self.go(max(first, int(own.min())))
                return
        self.go(first)

    def _scale_to(self, scale: Scale) -> None:
        self.scale = scale
        self._drawn.clear()
        self.refresh()

    def _arrange(self) -> None:
        """Which lines there are; what is in them is drawn when it comes into view."""
        self._rows = []
        self._high = self._height_of_items()
        connection = None
        several = len({track.connection for track in self.tracks}) > 1
        for place, track in enumerate(self.tracks):
            if several and track.connection != connection:
                connection = track.connection
                self._rows.append(_Row(place, ""))
            self._rows.append(_Row(place, "title"))
            if track.story.key in self._folded:
                continue
            for lane in [*track.words, *(["findings"] if track.found_at("seqno") else [])]:
                self._rows += [_Row(place, lane, part) for part in range(self._high if lane == "items" else 1)]
        self._drawn.clear()
        self.virtual_size = Size(self.size.width, 2 + len(self._rows))
        self.refresh()

    def _height_of_items(self) -> int:
        """Lines of the items of each stream: more where there is room."""
        lines = sum(2 + len(track.words) for track in self.tracks)
        return 1 + min(max(0, (self.size.height - 2 - lines) // max(1, len(self.tracks))), _TALLEST - 1)

    # -- the cursor ---------------------------------------------------------------------------------------

    @property
    def cell(self) -> int:
        """Column of the cursor."""
        return min(max((self.at - self.scale.first) // self.scale.step, 0), self.scale.cells - 1)

    @property
    def span(self) -> tuple[int, int]:
        """First and last place of the cursor's cell; where a cell is one place, that one."""
        low = self.scale.first + self.cell * self.scale.step if self.scale.step > 1 else self.at
        return low, min(low + self.scale.step - 1, ENDLESS)

    @property
    def seqno(self) -> int:
        """Where the cursor is; on the axis of time the seqno that came last by then."""
        if self.axis == "seqno" or self.track is None:
            return self.at
        came = self.track.story.item_first[self.track.shapes["time"].item_first <= np.uint64(self.span[1])]
        return int(came.max()) if len(came) else int(self.track.story.stream["requested_start"] or 0)

    def _stream_of(self, seqno: int) -> int:
        """The stream of the cursor if it has a seqno, else the first that has."""
        wanted = np.uint64(min(max(seqno, 0), ENDLESS))

        def has(place: int) -> bool:
            story = self.tracks[place].story
            return bool(((story.item_first <= wanted) & (story.item_last >= wanted)).any())

        order = [self.stream, *range(len(self.tracks))]
        return next((place for place in order if place < len(self.tracks) and has(place)), self.stream)

    def _on_axis(self, seqno: int) -> int:
        """Where a seqno of the cursor's stream is on the axis that is shown."""
        if self.axis == "seqno" or self.track is None:
            return seqno
        later = np.flatnonzero(self.track.story.item_last >= np.uint64(min(max(seqno, 0), ENDLESS)))
        shape = self.track.shapes["time"]
        return int(shape.item_first[later].min()) if len(later) else shape.end if self.track.story.stream["items"] else shape.begin or 0

    def go(self, at: int, row: int = 0) -> None:
        """The cursor goes to a place; the picture follows. ``row``: of the event that is there, which Enter opens."""
        self.at, self._chosen = min(max(at, 0), ENDLESS), row
        if not self.scale.first <= self.at <= self.scale.last:
            first = max(0, self.at - self.scale.step * (self.scale.cells // 2)) // self.scale.step * self.scale.step
            self._is_fit = False
            self._scale_to(Scale(first, self.scale.step, self.scale.cells))
        self.refresh()
        self.post_message(self.Moved())

    def go_to_seqno(self, seqno: int) -> None:
        """The cursor goes to a seqno of its stream, on either axis."""
        self.go(self._on_axis(seqno))

    def go_to_stream(self, stream: tuple[int, int, int, int]) -> None:
        """The cursor goes to where a stream begins: connection, vbucket, stream-id (-1 for none), ordinal."""
        connection, _, sid, number = stream
        for place, track in enumerate(self.tracks):
            if track.story.key == (connection, sid, number):
                self.stream = place
                self.action_step(0)
                self.go(track.shapes[self.axis].begin or self.at)

    def action_fold(self) -> None:
        """A cell to the left."""
        self.go(self.scale.first + (self.cell - 1) * self.scale.step)

    def action_unfold(self) -> None:
        """A cell to the right."""
        self.go(self.scale.first + (self.cell + 1) * self.scale.step)

    def action_toggle_fold(self) -> None:
        """Hides the lanes of the stream but for its axis, or shows them."""
        if self.track is not None:
            self._folded ^= {self.track.story.key}
            self._arrange()

    def action_step(self, lines: int) -> None:
        """To the stream above or below."""
        if self.tracks:
            self.stream = min(max(self.stream + lines, 0), len(self.tracks) - 1)
            own = [number for number, row in enumerate(self._rows, 2) if row.track == self.stream]
            top, height = int(self.scroll_offset.y), max(self.size.height, 1)
            if not top <= own[0] <= own[-1] < top + height:
                self.scroll_to(y=max(0, own[0] - 2), animate=False, immediate=True)
            self.refresh()
            self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        """So much as is shown."""
        self.go(self.at + pages * self.scale.step * self.scale.cells)

    def action_first(self) -> None:
        """To the first place of all."""
        self.go(min((place for track in self.tracks for place in track.shapes[self.axis].places()), default=0))

    def action_last(self) -> None:
        """To the last one."""
        self.go(max((place for track in self.tracks for place in track.shapes[self.axis].places()), default=0))

    def action_open(self) -> None:
        """The message at the cursor."""
        self.post_message(self.Opened())

    def near(self, steps: int) -> bool:
        """To the next request, border of a snapshot, gap, event or end; whether there is one."""
        shape = self.shape
        if shape is None:
            return False
        marks = np.array([mark.at for mark in shape.marks], dtype=np.uint64)
        rows = np.array([mark.row for mark in shape.marks], dtype=np.int64)
        gaps = np.zeros(len(shape.gap_first), np.int64)  # their rows are looked up when one is opened
        return self._to_next(
            np.concatenate((marks, shape.bars.first, shape.gap_first)), np.concatenate((rows, shape.bars.row, gaps)), steps
        )

    def gap(self, steps: int) -> bool:
        """To the next gap; whether there is one."""
        shape = self.shape
        return shape is not None and self._to_next(shape.gap_first, np.zeros(len(shape.gap_first), np.int64), steps)

    def bad(self, *, back: bool = False) -> bool:
        """To the next message with an error or a warning, of this stream or of those after it; whether there is one."""
        own = [(place, at, one.row) for place, track in enumerate(self.tracks) for at, one in track.found_at(self.axis)]
        here = self.stream, self.at, self._chosen
        others = [one for one in own if (one < here if back else one > here)]
        if others:
            self.stream, at, row = others[-1] if back else others[0]
            self.action_step(0)
            self.go(at, row)
        return bool(others)

    def _to_next(self, places: Seqnos, rows: np.ndarray[tuple[int], np.dtype[np.int64]], steps: int) -> bool:
        others = np.flatnonzero(places > np.uint64(self.at) if steps > 0 else places < np.uint64(self.at))
        if len(others):
            chosen = others[np.argmin(places[others]) if steps > 0 else np.argmax(places[others])]
            self.go(int(places[chosen]), int(rows[chosen]))
        return bool(len(others))

    def on_click(self, event: events.Click) -> None:
        """Selects a stream and a cell; again: opens."""
        line = int(self.scroll_offset.y) + event.y - 2
        if 0 <= line < len(self._rows) and 0 <= event.x - LABEL < self._columns:
            column = int(self._stretched[event.x - LABEL])
            is_same = self.stream == self._rows[line].track and self.cell == column
            self.stream = self._rows[line].track
            if is_same:
                self.action_open()
            else:
                self.go(self.scale.first + column * self.scale.step)

    # -- what is at the cursor ----------------------------------------------------------------------------

    @property
    def row(self) -> tuple[int, str]:
        """The message at the cursor, and the field of it that is meant: that of an event, an item, a gap, a snapshot, the request."""
        story, shape = self.story, self.shape
        if story is None or shape is None:
            return 0, ""
        if self._chosen:
            return self._chosen, ""
        low, high = (np.uint64(place) for place in self.span)
        items = np.flatnonzero((shape.item_last >= low) & (shape.item_first <= high))
        if len(items):
            return int(story.item_row[items].min() if shape.is_time else story.item_row[items[0]]), "by_seqno"
        for place in np.flatnonzero((shape.gap_first <= high) & (shape.gap_last >= low))[:1]:
            return int(story.gaps.take(np.array([place])).values("rows")[0][-1]), "by_seqno"
        marks = [mark for mark in shape.marks if low <= mark.at <= high and mark.row]
        if marks:
            return marks[0].row, ""
        for place in np.flatnonzero((shape.bars.first <= high) & (shape.bars.last >= low))[:1]:
            return int(shape.bars.row[place]), ""
        return int(story.stream["open_row"]), ""

    @property
    def finding(self) -> int | None:
        """Number of the finding in the cursor's cell."""
        return next((one.finding for one in self._found()), None)

    def _found(self) -> Iterator[FindingMark]:
        low, high = self.span
        track = self.track
        for one in sorted(track.found if track is not None else (), key=lambda one: one.finding):
            if low <= (one.seqno if self.axis == "seqno" else one.time) <= high and (not self._chosen or one.row == self._chosen):
                yield one

    def spoken(self) -> str:
        """What is at the cursor, in words."""
        track, story, shape = self.track, self.story, self.shape
        if self.waiting:
            return f"vb {self.vbucket}: {self.waiting}"
        if track is None or story is None or shape is None:
            return "no stream of this vbucket" if self.told is not None else "choose a vbucket (2, or v on a message)"
        parts = [f"stream {track.name} of connection {track.connection}", self._place()]
        low, high = (np.uint64(place) for place in self.span)
        parts += [f"row {mark.row}: {mark.text}" for mark in shape.marks if low <= mark.at <= high][:3]
        signs = {"error": self._glyphs.error, "warning": self._glyphs.warning, "note": self._glyphs.promised}
        parts += [f"{signs[one.severity]} {one.text}" for one in self._found()][:2]
        for bar in np.flatnonzero((shape.bars.first <= high) & (shape.bars.last >= low))[:1].tolist():
            kind = w.SNAPSHOT_TYPES[int(story.bars.type[bar])]
            parts.append(f"snapshot {int(story.bars.first[bar])}–{int(story.bars.last[bar])} {kind}")
        came = (shape.item_first <= high) & (shape.item_last >= low)
        if came.any() and (shape.is_time or self.scale.step > 1):
            own = story.item_first[came]
            parts.append(f"{int(story.item_count[came].sum()):,} items, seqnos {int(own.min())}–{int(story.item_last[came].max())}")
        gaps = np.flatnonzero((shape.gap_first <= high) & (shape.gap_last >= low))
        if len(gaps):
            order = np.array([_WORST.index(cause) for cause in range(len(w.CAUSES))])
            worst = int(gaps[np.argmax(order[story.cause[gaps]])])
            evidence = story.gaps.take(np.array([worst])).values("evidence")[0]
            low_missing, high_missing = int(story.after[worst]) + 1, int(story.before[worst]) - 1
            missing = f"seqno {low_missing}" if low_missing == high_missing else f"seqnos {low_missing}–{high_missing}"
            more = f" (the worst of {len(gaps):,} gaps)" if len(gaps) > 1 else ""
            parts.append(f"{missing} did not come, {w.CAUSES[int(story.cause[worst])]}{more}: {escape(evidence or '')}")
        return " · ".join(parts)

    def _place(self) -> str:
        low, high = self.span
        if self.axis == "time":
            return f"{self._number(low)} s" if low == high else f"{self._number(low)} s and {lasting(high - low + 1)} on"
        return f"seqno {low}" if low == high else f"seqnos {low}–{high}"

    def _number(self, at: int) -> str:
        return seconds(Scale(0, max(1, self.scale.step // TICK), 1), at) if self.axis == "time" else str(at)

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

    @property
    def _stretched(self) -> npt.NDArray[np.int64]:
        """The cell of each column."""
        return np.arange(self._columns) * self.scale.cells // self._columns

    def _painted(self, row: _Row, cells: str, base: Style) -> list[Piece]:
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

    def _labels(self, row: _Row, text: npt.NDArray[np.str_]) -> Iterator[tuple[int, str]]:
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
