"""The cursor of a timeline: its place, where keys and the mouse move it, and a description of what
is there.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from dcpinspect.streams.story import StreamStory
from dcpinspect.tui import theme
from dcpinspect.tui.line_view import LineView
from dcpinspect.tui.tracks import Axis, Track, Tracks

HEAD = 2
"""Number of lines at the top: the heading and the axis."""
_NEAREST = 5
"""Least number of seqnos or nanoseconds that are shown."""
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

    Clicks select.
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
        self.chosen_row = 0
        """Row of the event that the cursor has stepped to; 0: none."""
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

    @property
    def _columns(self) -> int:
        """Width of the picture in terminal columns."""
        return max(TICK, self.size.width - LABEL - 1)

    def fit(self) -> None:
        """Shows the whole of all streams."""
        self._part = None
        self._arrange()

    @property
    def _bounds(self) -> tuple[int, int]:
        """First and last place of all streams."""
        bounds = [
            bound for track in self.tracks for bound in track.shapes[self.axis].seqno_ranges()
        ]
        return min(bounds, default=0), max(bounds, default=0)

    def zoom(self, steps: int) -> None:
        """Zooms in for positive steps, out for negative ones. The cursor stays where it is on the
        screen.
        """
        before = self.scale.step * self.scale.cells
        span = min(max(before // 2 if steps > 0 else before * 2, _NEAREST), ENDLESS)
        first = max(0, self.at - (self.at - self.scale.first) * span // before)
        self._part = first, min(first + span - 1, ENDLESS)
        self._arrange()

    def go_to_time(self, since_ns: int) -> None:
        """Moves the cursor to the first item at or after a time, in the stream that has it."""
        items = [track.shapes["time"].item_first for track in self.tracks]
        later = [
            (int(first.min()), stream)
            for stream, times in enumerate(items)
            if len(first := times[times >= np.uint64(since_ns)])
        ]
        at, self.stream = min(later, default=(since_ns, self.stream))
        self.show_axis("time", at)

    def _arrange(self) -> None:
        """Fits the scale to the width, and forgets what was drawn."""
        self.scale = Scale.filling(*(self._part or self._bounds), self._columns)
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
        """Moves the cursor to a seqno of its stream, on either axis."""
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

    def action_open(self) -> None:
        """Opens the message at the cursor."""
        self.post_message(self.Opened(self))

    # -- the mouse
    # ---------------------------------------------------------------------------------------

    def _place_at(self, x: int) -> int | None:
        """Returns the place at a column of the widget; None outside the picture."""
        if not self.tracks or not 0 <= x - LABEL < self._columns:
            return None
        return self.scale.first + int(self._stretched[x - LABEL]) * self.scale.step

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
    def item_row(self) -> int:
        """Row of the first item at the cursor; 0 if it is on an event, or no item is there."""
        shape = self.shape
        if shape is None or self.story is None or self.chosen_row:
            return 0
        low, high = (np.uint64(bound) for bound in self.span)
        is_here = (shape.item_last >= low) & (shape.item_first <= high)
        return int(self.story.item_row[is_here].min(initial=1 << 62)) if is_here.any() else 0

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
            low_missing, high_missing = int(story.after[worst]) + 1, int(story.before[worst]) - 1
            missing = (
                f"seqno {low_missing}"
                if low_missing == high_missing
                else f"seqnos {low_missing}–{high_missing}"
            )
            phrases.append(f"{missing} did not come, {w.CAUSES[int(story.cause[worst])]}")
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
