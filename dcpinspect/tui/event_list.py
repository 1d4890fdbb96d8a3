"""The list of what happened to a vbucket, one event per line, as ``timeline`` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.style import Style

from dcpinspect.output.render.event_lines import EventLines
from dcpinspect.tui import theme
from dcpinspect.tui.line_view import LineView, Piece
from dcpinspect.tui.tracks import TrackEvent

_FEW = 64
"""Number of events up to which all are wrapped, also where the list scrolls."""


class EventList(LineView, can_focus=False, inherit_bindings=False):
    """Requests with their answers, snapshots, gaps with their evidence, and ends; a few are all
    wrapped, of many the chosen one is.
    """

    HEAD = 1

    items: Sequence[TrackEvent] = ()
    _first_ns: int = 0
    _whole = _short = EventLines((), 0, None)
    """The lines of events: wrapped, and each in one line."""

    def show(self, events: Sequence[TrackEvent], first_ns: int) -> None:
        """Shows the events of another vbucket, or more of the same."""
        self.items = events
        self._first_ns = first_ns
        self._lay_out()
        self.point(min(self.at, max(0, len(events) - 1)))

    def is_bad(self, place: int) -> bool:
        """Whether the event is an error or a warning that is no effect."""
        event = self.items[place].event
        return event.severity is not None and event.cause is None

    @property
    def worst(self) -> int:
        """Place of the worst error or warning; 0 without one."""
        bad = [place for place in range(self.count) if self.is_bad(place)]
        return min(bad, key=lambda place: self.items[place].finding or 0, default=0)

    def is_gap(self, place: int) -> bool:
        """Whether the event is a gap."""
        return self.items[place].event.kind == "gap"

    def _lay_out(self) -> None:
        stream_events = [event.event for event in self.items]
        self._short = EventLines(stream_events, self._first_ns, None)
        # the scroll bar, which comes and goes, has a column anyway
        width = max(40, self.outer_size.width - 3)
        self._whole = EventLines(stream_events, self._first_ns, width)
        if self.count <= _FEW:
            self.more = {number: self.in_full(number) for number in range(self.count)}

    @property
    def event(self) -> TrackEvent | None:
        """The event under the cursor."""
        return self.items[self.at] if self.at < len(self.items) else None

    def set_cursor(self, place: int) -> None:
        """Moves the cursor to an event."""
        self.point(max(0, min(place, self.count - 1)))
        self.post_message(self.Moved(self))

    def point(self, place: int) -> None:
        """Puts the cursor on an event because something else points there."""
        self.at = place
        if self.count > _FEW:
            self.tell_in_full()
        self.bring()

    def in_full(self, place: int, *, is_brief: bool = False) -> list[str]:
        """Returns the lines of an event that does not fit into one, but for the first."""
        del is_brief
        return self._whole.lines_of(self.items[place].event)[1:]

    def fit(self) -> None:
        """Wraps the chosen event to the width."""
        self._lay_out()
        self.scroll_to(y=0, animate=False, immediate=True)
        self.point(self.at)

    @property
    def head(self) -> str:
        """The headings of the columns."""
        return f" {self._short.heading}"

    def pieces(self, place: int, part: int, style: Style) -> Iterator[Piece]:
        """Yields a line of an event."""
        event, is_here = self.items[place].event, place == self.at
        lines = (self._whole if place in self.more else self._short).lines_of(event)
        painted = style
        if not is_here and event.cause is not None:
            painted = self.dim_style()
        elif not is_here:  # of loud causes only the colour, not the ground
            painted += Style(color=theme.style_of(self.app, event.paint).color)
        sign_style = painted
        if event.severity is not None and event.cause is None:
            sign_style = self.sign_style(event.severity, painted, is_here=is_here)
        before, sign, after = lines[part].partition(event.sign if event.sign and not part else "\n")
        yield from ((before, painted), (sign, sign_style), (after, painted))
