"""The cursor of a timeline: its place, where keys and the mouse move it, and a description of what
is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from textual import events

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.lanes import LETTERS, TICK, Glyphs, Lanes, Scale
from dcpinspect.output.render.message_lines import counted
from dcpinspect.output.render.shape import Shape
from dcpinspect.output.render.timeline_text import LABEL, lasting, seconds
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.streams import words as w
from dcpinspect.streams.story import Seqnos, StreamStory
from dcpinspect.text import escape
from dcpinspect.tui import theme
from dcpinspect.tui.strips import LineView
from dcpinspect.tui.tracks import Axis, FindingMark, Track, Tracks

HEAD = 2
"""Number of lines at the top: the heading and the axis."""
_NEAREST = 5
"""Least number of seqnos or nanoseconds that are shown."""
_BESIDE = 5
"""How much is shown on each side of a chosen span of time, as a multiple of its length."""
_WORST = [w.CAUSES.index(cause) for cause in LETTERS]


class Row(NamedTuple):
    """A line below the axis: a lane of a track, or the name of a connection."""

    track: int
    """Place of the track."""
    lane: str
    """Name of the lane. Empty: the name of a connection. ``title``: the stream in words.
    """
    part: int = 0
    """Number of the line, in lanes that have several lines."""


class TimelineCursor(LineView, can_focus=True, inherit_bindings=False):
    """Which part of which streams is shown, along seqnos or time, and a cursor in it: it can be
    moved, and describes what is there.

    Clicks select, and the wheel zooms.
    """

    HEAD = HEAD

    def __init__(self, lane_glyphs: Glyphs, glyphs: theme.Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self._lane_glyphs = lane_glyphs
        self.told: Tracks | None = None
        self.waiting = ""
        """Why the vbucket is not drawn, in words: it is being read, or reading was stopped."""
        self.axis: Axis = "seqno"
        self.scale = Scale(0, 1, TICK)
        self.stream = 0
        """Place of the stream that the cursor is in, in ``tracks``; ``at`` is its seqno, or its
        time since the capture began.
        """
        self._part: tuple[int, int] | None = (
            None  # part of the axis that fills the width; None: the whole axis
        )
        self._chosen = 0  # row of the event that the cursor has stepped to; 0: none
        self._rows: list[Row] = []
        self._drawn: dict[int, Lanes] = {}
        self._high = 1

    # -- what is shown
    # ------------------------------------------------------------------------------------

    @property
    def vbucket(self) -> int | None:
        """Vbucket whose streams are shown."""
        return None if self.told is None else self.told.vbucket

    @property
    def tracks(self) -> Sequence[Track]:
        """Streams of the vbucket."""
        return () if self.told is None else self.told.tracks

    @property
    def track(self) -> Track | None:
        """Stream that the cursor is in."""
        return self.tracks[self.stream] if self.stream < len(self.tracks) else None

    @property
    def story(self) -> StreamStory | None:
        """What is known of the stream that the cursor is in."""
        return None if self.track is None else self.track.story

    @property
    def shape(self) -> Shape | None:
        """Shape, on the shown axis, of the stream that the cursor is in."""
        return None if self.track is None else self.track.shapes[self.axis]

    def wait(self, vbucket: int, why: str) -> None:
        """Shows that a vbucket is still to be drawn, and hides the one before at once."""
        self.told, self.waiting = Tracks(vbucket), why
        self._arrange()
        self.post_message(self.Moved(self))

    def show(self, tracks: Tracks, seqno: int | None = None, at: int | None = None) -> None:
        """Shows another vbucket, or more of the same, with the cursor at a seqno or at a place of
        the axis.
        """
        is_same = tracks.vbucket == self.vbucket and not self.waiting
        self.told, self.waiting = tracks, ""
        if not is_same:
            self._part = None
            if at is None:
                self.stream = 0
        self.stream = min(self.stream, max(0, len(tracks.tracks) - 1))
        self._arrange()
        if self._part is None:
            self.fit()
        if seqno is not None:
            self.stream = self._stream_of(seqno)
            self.go_to_seqno(seqno)
        elif at is not None:
            self.set_cursor(at)
        elif not is_same:
            self.set_cursor(self.scale.first)
        else:
            self.post_message(self.Moved(self))

    def show_axis(self, axis: Axis, position: int | None = None) -> None:
        """Shows the streams along seqnos or along time; the cursor stays at the same event."""
        if axis != self.axis:
            seqno, self.axis = self.seqno, axis
            self.fit()
            position = self._on_axis(seqno) if position is None else position
        self.set_cursor(self.at if position is None else position)

    def restore(self, axis: Axis, stream: int) -> None:
        """Restores axis and stream; the place of the cursor must be set afterwards."""
        self.axis, self.stream = axis, stream
        self._arrange()

    @property
    def _columns(self) -> int:
        """Width of the picture in terminal columns."""
        return max(TICK, self.size.width - LABEL - 1)

    def fit(self) -> None:
        """Shows the whole of all streams."""
        bounds = [
            bound for track in self.tracks for bound in track.shapes[self.axis].seqno_ranges()
        ]
        self._part = None
        self._scale_to(Scale.filling(min(bounds, default=0), max(bounds, default=0), self._columns))

    def zoom(self, steps: int, around: int | None = None) -> None:
        """Zooms in for positive steps, out for negative ones. The cursor, or the place ``around``,
        stays where it is on the screen.
        """
        position = self.at if around is None else around
        before = self.scale.step * self.scale.cells
        span = min(max(before // 2 if steps > 0 else before * 2, _NEAREST), ENDLESS)
        first = max(0, position - (position - self.scale.first) * span // before)
        self._fill(first, min(first + span - 1, ENDLESS))

    def zoom_to(self, first: int, last: int) -> None:
        """Shows exactly this part of the axis."""
        self._fill(max(0, first), min(max(last, first + _NEAREST - 1), ENDLESS))
        self.set_cursor(min(max(self.at, self.scale.first), self.scale.last))

    def go_to_span(self, first: int, last: int) -> None:
        """Shows a span of time with some time around it. The cursor goes to the first item in the
        span, in a stream that has one.
        """
        self.show_axis("time", first)
        self.zoom_to(first - _BESIDE * (last - first), last + _BESIDE * (last - first))
        for number, track in enumerate(self.tracks):
            shape = track.shapes["time"]
            first_items = shape.item_first[
                (shape.item_last >= np.uint64(first)) & (shape.item_first <= np.uint64(last))
            ]
            if len(first_items):
                self.stream = number
                self.set_cursor(max(first, int(first_items.min())))
                return
        self.set_cursor(first)

    def _fill(self, first: int, last: int) -> None:
        """Lets a part of the axis fill the width, also after the width changes."""
        self._part = first, last
        self._scale_to(Scale.filling(first, last, self._columns))

    def _scale_to(self, scale: Scale) -> None:
        self.scale = scale
        self._arrange()

    def _arrange(self) -> None:
        """Works out which lines there are."""
        raise NotImplementedError

    def _redraw(self) -> None:
        """Forgets what was drawn."""
        self._drawn.clear()
        self.refresh()

    # -- the cursor
    # ---------------------------------------------------------------------------------------

    @property
    def _stretched(self) -> IntArray:
        """The cell of each column."""
        return np.arange(self._columns) * self.scale.cells // self._columns

    @property
    def cell(self) -> int:
        """Number of the cell that the cursor is in."""
        return min(max((self.at - self.scale.first) // self.scale.step, 0), self.scale.cells - 1)

    @property
    def span(self) -> tuple[int, int]:
        """First and last place of the cursor's cell; both are the cursor's place if a cell is one
        place.
        """
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
            story = self.tracks[number].story
            return bool(((story.item_first <= by_seqno) & (story.item_last >= by_seqno)).any())

        order = [self.stream, *range(len(self.tracks))]
        return next(
            (number for number in order if number < len(self.tracks) and has(number)), self.stream
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
        """Moves the cursor to a place, and scrolls to it. ``row``: row of the event at that place,
        which Enter opens.
        """
        self.at, self._chosen = min(max(at, 0), ENDLESS), row
        if not self.scale.first <= self.at <= self.scale.last:
            first = (
                max(0, self.at - self.scale.step * (self.scale.cells // 2))
                // self.scale.step
                * self.scale.step
            )
            self._scale_to(Scale(first, self.scale.step, self.scale.cells))
            self._part = self.scale.first, self.scale.last
        self.refresh()
        self.post_message(self.Moved(self))

    def go_to_seqno(self, seqno: int) -> None:
        """Moves the cursor to a seqno of its stream, on either axis."""
        self.set_cursor(self._on_axis(seqno))

    def go_to_stream(self, stream: tuple[int, int, int, int]) -> None:
        """Moves the cursor to the begin of a stream. ``stream``: connection, vbucket, stream-id (-1
        for none), ordinal.
        """
        connection, vbucket, sid, number = stream
        for place, track in enumerate(self.tracks):
            if track.key == (vbucket, connection, sid, number):
                self.stream = place
                self.show_stream()
                self.set_cursor(track.shapes[self.axis].begin or self.at)

    def go_to_row(self, row: int, connection: int, sid: int, since_ns: int) -> None:
        """Moves the cursor to a message, in the last stream before it with the same connection and
        stream-id (-1 for none).
        """
        matching = [
            (
                track.key[2] == sid,
                track.first_row if track.first_row <= row else -track.first_row,
                number,
            )
            for number, track in enumerate(self.tracks)
            if track.connection == connection
        ]
        if matching:
            self.stream = max(matching)[2]
            self.show_stream()
            self.set_cursor(
                since_ns if self.axis == "time" else self.tracks[self.stream].seqnos_of([row])[0],
                row,
            )

    def action_fold(self) -> None:
        """Moves the cursor one cell to the left."""
        self.set_cursor(self.scale.first + (self.cell - 1) * self.scale.step)

    def action_unfold(self) -> None:
        """Moves the cursor one cell to the right."""
        self.set_cursor(self.scale.first + (self.cell + 1) * self.scale.step)

    @property
    def chosen_row(self) -> int:
        """Row of the event that the cursor has stepped to; 0: none."""
        return self._chosen

    def show_stream(self) -> None:
        """Scrolls to the stream of the cursor."""
        if self.tracks:
            stream_rows = [
                number for number, row in enumerate(self._rows) if row.track == self.stream
            ]
            top, height = int(self.scroll_offset.y), max(self.size.height - HEAD, 1)
            if stream_rows and not top <= stream_rows[0] <= stream_rows[-1] < top + height:
                # force: the timeline has no scrollbar yet for a vbucket that has just been read
                self.scroll_to(y=stream_rows[0], animate=False, immediate=True, force=True)
            self.refresh()

    def action_page(self, pages: int) -> None:
        """Moves the cursor by the width of the screen."""
        self.set_cursor(self.at + pages * self.scale.step * self.scale.cells)

    def action_first(self) -> None:
        """Moves the cursor to the first place of all streams."""
        self.set_cursor(
            min(
                (
                    bound
                    for track in self.tracks
                    for bound in track.shapes[self.axis].seqno_ranges()
                ),
                default=0,
            )
        )

    def action_last(self) -> None:
        """Moves the cursor to the last place of all streams."""
        self.set_cursor(
            max(
                (
                    bound
                    for track in self.tracks
                    for bound in track.shapes[self.axis].seqno_ranges()
                ),
                default=0,
            )
        )

    def action_open(self) -> None:
        """Opens the message at the cursor."""
        self.post_message(self.Opened(self))

    def near(self, steps: int) -> bool:
        """Moves the cursor to the next request, snapshot border, gap, event or end, or to the one
        before. Returns whether there is one.
        """
        shape = self.shape
        if shape is None:
            return False
        marks = np.array([mark.at for mark in shape.marks], dtype=np.uint64)
        rows = np.array([mark.row for mark in shape.marks], dtype=np.int64)
        gaps = np.zeros(
            len(shape.gap_first), np.int64
        )  # rows of gaps are looked up only when one is opened
        return self._to_next(
            np.concatenate((marks, shape.bars.first, shape.gap_first)),
            np.concatenate((rows, shape.bars.row, gaps)),
            steps,
        )

    def gap(self, steps: int) -> bool:
        """Moves the cursor to the next gap, or to the one before. Returns whether there is one."""
        shape = self.shape
        return shape is not None and self._to_next(
            shape.gap_first, np.zeros(len(shape.gap_first), np.int64), steps
        )

    def bad(self, *, back: bool = False) -> bool:
        """Moves the cursor to the next error or warning of this stream or of later ones, or to the
        one before.

        Returns whether there is one.
        """
        positions = [
            (number, seqno_or_time, position.row)
            for number, track in enumerate(self.tracks)
            for seqno_or_time, position in track.found_at(self.axis)
        ]
        cursor = self.stream, self.at, self._chosen
        ahead = [
            position for position in positions if (position < cursor if back else position > cursor)
        ]
        if ahead:
            self.stream, seqno_or_time, row = ahead[-1] if back else ahead[0]
            self.show_stream()
            self.set_cursor(seqno_or_time, row)
        return bool(ahead)

    def _to_next(
        self, places: Seqnos, rows: np.ndarray[tuple[int], np.dtype[np.int64]], steps: int
    ) -> bool:
        ahead = np.flatnonzero(
            places > np.uint64(self.at) if steps > 0 else places < np.uint64(self.at)
        )
        if len(ahead):
            nearest = ahead[np.argmin(places[ahead]) if steps > 0 else np.argmax(places[ahead])]
            self.set_cursor(int(places[nearest]), int(rows[nearest]))
        return bool(len(ahead))

    # -- the mouse
    # ---------------------------------------------------------------------------------------

    def _place_at(self, x: int) -> int | None:
        """Returns the place at a column of the widget; None outside the picture."""
        if not self.tracks or not 0 <= x - LABEL < self._columns:
            return None
        return self.scale.first + int(self._stretched[x - LABEL]) * self.scale.step

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zooms in around the mouse; over the names of lanes, scrolls up."""
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zooms out around the mouse; over the names of lanes, scrolls down."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, steps: int) -> None:
        position = self._place_at(event.x)
        if position is not None:
            event.stop()
            event.prevent_default()
            self.zoom(steps, position)

    def clicked(self, event: events.Click) -> None:
        """Selects the clicked stream and cell; a second click opens them."""
        position, line = self._place_at(event.x), int(self.scroll_offset.y) + event.y - HEAD
        if event.y >= HEAD and line < len(self._rows) and position is not None:
            stream = self._rows[line].track
            is_same = self.stream == stream and self.cell == int(self._stretched[event.x - LABEL])
            self.stream = stream
            if is_same:
                self.action_open()
            else:
                self.set_cursor(position)

    # -- what is at the cursor
    # ----------------------------------------------------------------------------

    @property
    def row(self) -> tuple[int, str]:
        """Row of the message at the cursor, and the field of it that is meant; first of event,
        item, gap, mark, snapshot and request.
        """
        story, shape = self.story, self.shape
        if story is None or shape is None:
            return 0, ""
        if self._chosen:
            return self._chosen, ""
        low, high = (np.uint64(index) for index in self.span)
        items = np.flatnonzero((shape.item_last >= low) & (shape.item_first <= high))
        if len(items):
            return int(
                story.item_row[items].min() if shape.is_time else story.item_row[items[0]]
            ), "by_seqno"
        for index in np.flatnonzero((shape.gap_first <= high) & (shape.gap_last >= low))[:1]:
            return int(story.gaps.take(np.array([index])).values("rows")[0][-1]), "by_seqno"
        marks = [mark for mark in shape.marks if low <= mark.at <= high and mark.row]
        if marks:
            return marks[0].row, ""
        for index in np.flatnonzero((shape.bars.first <= high) & (shape.bars.last >= low))[:1]:
            return int(shape.bars.row[index]), ""
        return int(story.stream["open_row"]), ""

    @property
    def finding(self) -> int | None:
        """Number of the finding in the cursor's cell."""
        return next((mark.finding for mark in self._findings_here()), None)

    def _findings_here(self) -> Iterator[FindingMark]:
        low, high = self.span
        track = self.track
        for mark in sorted(track.found if track is not None else (), key=lambda mark: mark.finding):
            if low <= (mark.seqno if self.axis == "seqno" else mark.time) <= high and (
                not self._chosen or mark.row == self._chosen
            ):
                yield mark

    def spoken(self) -> str:
        """Describes what is at the cursor."""
        track, story, shape = self.track, self.story, self.shape
        if self.waiting:
            return f"vb {self.vbucket}: {self.waiting}"
        if track is None or story is None or shape is None:
            return (
                "no stream of this vbucket"
                if self.told is not None
                else "choose a vbucket (2, or v on a message)"
            )
        phrases = [
            f"stream {track.name} of connection {track.connection}",
            self._position_in_words(),
        ]
        low, high = (np.uint64(bound) for bound in self.span)
        marks = sorted(
            (mark for mark in shape.marks if low <= mark.at <= high),
            key=lambda mark: mark.row != self._chosen,
        )
        phrases += [f"row {mark.row}: {mark.text}" for mark in marks][:3]
        signs = {
            "error": self._lane_glyphs.error,
            "warning": self._lane_glyphs.warning,
            "note": "note",
        }
        phrases += list(
            dict.fromkeys(
                f"{signs[mark_here.severity]} {mark_here.text}"
                for mark_here in self._findings_here()
            )
        )[:2]
        for bar in np.flatnonzero((shape.bars.first <= high) & (shape.bars.last >= low))[
            :1
        ].tolist():
            kind = w.SNAPSHOT_TYPES[int(story.bars.type[bar])]
            phrases.append(
                f"snapshot {int(story.bars.first[bar])}–{int(story.bars.last[bar])} {kind}"
            )
        came = (shape.item_first <= high) & (shape.item_last >= low)
        if came.any() and (shape.is_time or self.scale.step > 1):
            first_items = story.item_first[came]
            phrases.append(
                f"{counted(int(story.item_count[came].sum()), 'item')}, seqnos "
                f"{int(first_items.min())}–{int(story.item_last[came].max())}"
            )
        gaps = np.flatnonzero((shape.gap_first <= high) & (shape.gap_last >= low))
        if len(gaps):
            order = np.array([_WORST.index(cause) for cause in range(len(w.CAUSES))])
            worst = int(gaps[np.argmax(order[story.cause[gaps]])])
            evidence = story.gaps.take(np.array([worst])).values("evidence")[0]
            low_missing, high_missing = int(story.after[worst]) + 1, int(story.before[worst]) - 1
            missing = (
                f"seqno {low_missing}"
                if low_missing == high_missing
                else f"seqnos {low_missing}–{high_missing}"
            )
            more = f" (the worst of {len(gaps):,} gaps)" if len(gaps) > 1 else ""
            phrases.append(
                f"{missing} did not come, {w.CAUSES[int(story.cause[worst])]}{more}: "
                f"{escape(evidence or '')}"
            )
        return " · ".join(phrases)

    def _position_in_words(self) -> str:
        low, high = self.span
        if self.axis == "time":
            return (
                f"{self._number(low)} s"
                if low == high
                else f"{self._number(low)} s and {lasting(high - low + 1)} on"
            )
        return f"seqno {low}" if low == high else f"seqnos {low}–{high}"

    def _number(self, at: int) -> str:
        return (
            seconds(Scale(0, max(1, self.scale.step // TICK), 1), at)
            if self.axis == "time"
            else str(at)
        )
