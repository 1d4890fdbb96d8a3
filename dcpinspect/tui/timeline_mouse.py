"""Chooses a range of a timeline, with the mouse or by keys, and handles the other actions of the mouse."""

from __future__ import annotations

from typing import Literal

import numpy as np
from textual import events
from textual.message import Message

from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.render.lanes import Glyphs
from dcpinspect.render.timeline import LABEL
from dcpinspect.tui.timeline_cursor import HEAD, Row, TimelineCursor

Side = Literal["left", "right"]


class TimelineMouse(TimelineCursor, can_focus=True, inherit_bindings=False):
    """Clicks select, dragging chooses a range, and the wheel zooms."""

    class Chosen(Message):
        """Sent when a range is chosen or given up."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self._held: int | None = None  # place where the mouse button went down

    def _place_at(self, x: int) -> int | None:
        """Returns the place at a column of the widget; None outside the picture."""
        if not self.tracks or not 0 <= x - LABEL < self._columns:
            return None
        return self.scale.first + int(self._stretched[x - LABEL]) * self.scale.step

    def _column_of(self, at: int, side: Side) -> int:
        """Returns the first column of a place, or the column after its last one. Places outside the picture count as the nearest inside."""
        cell = (min(max(at, self.scale.first), self.scale.last) - self.scale.first) // self.scale.step
        return int(np.searchsorted(self._stretched, cell, side))

    def choose(self, first: int | None, last: int = 0) -> None:
        """Chooses a range of places, in whole cells; None gives up the range."""
        step, begin = self.scale.step, self.scale.first
        if first is None:
            self.range = None
        else:
            low, high = ((place - begin) // step * step + begin for place in sorted((first, last)))
            self.range = max(low, 0), min(high + step - 1, ENDLESS)
        self.refresh()
        self.post_message(self.Chosen())

    def action_extend(self, cells: int) -> None:
        """Moves the cursor, and chooses what it passes."""
        first = self.at
        if self.range is not None and self.range[0] <= self.at <= self.range[1]:
            first = self.range[0] if self.at - self.range[0] >= self.range[1] - self.at else self.range[1]
        self.go(self.scale.first + (self.cell + cells) * self.scale.step)
        self.choose(first, self.at)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remembers where a range may begin."""
        self._held = self._place_at(event.x)
        if self._held is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Chooses what the mouse was dragged over."""
        place = self._place_at(min(max(event.x, LABEL), LABEL + self._columns - 1)) if self._held is not None else None
        if self._held is not None and place is not None and (place != self._held or self.range is not None):
            self.choose(self._held, place)

    def on_mouse_up(self) -> None:
        """Ends the range."""
        self.release_mouse()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zooms in around the mouse; over the names of lanes, scrolls up."""
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zooms out around the mouse; over the names of lanes, scrolls down."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, steps: int) -> None:
        place = self._place_at(event.x)
        if place is not None:
            event.stop()
            event.prevent_default()
            self.zoom(steps, place)

    def on_click(self, event: events.Click) -> None:
        """Selects the clicked stream and cell; a second click opens them. Does nothing after a range was dragged."""
        place, held, self._held = self._place_at(event.x), self._held, None
        if held is not None and self.range is not None and place != held:
            return
        is_chosen = self.range is not None
        self.choose(None)
        line = int(self.scroll_offset.y) + event.y - HEAD
        if event.y >= HEAD and line < len(self._rows) and place is not None:
            row = self._rows[line]
            stream = self._stream_at(row, event.x - LABEL) if row.track < 0 else row.track
            is_same = self.stream == stream and self.cell == int(self._stretched[event.x - LABEL]) and not is_chosen
            self.stream = stream
            if is_same:
                self.action_open()
            else:
                self.go(place)

    def _stream_at(self, row: Row, column: int) -> int:
        """Returns the stream that is drawn in a column of a line with several streams; if there is none, the stream of the cursor."""
        raise NotImplementedError
