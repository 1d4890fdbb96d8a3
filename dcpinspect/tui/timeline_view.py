"""The third view: the streams of one vbucket, and below them what happened in order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text
from textual import on
from textual.widgets import Static

from dcpinspect.errors import DcpInspectError
from dcpinspect.output.render.lanes import LETTERS, legend, legend_lines
from dcpinspect.tui import theme
from dcpinspect.tui.event_list import EventList
from dcpinspect.tui.line_view import LineView
from dcpinspect.tui.stream_lanes import Timeline
from dcpinspect.tui.task import Task
from dcpinspect.tui.tracks import Tracks, tracks_of
from dcpinspect.tui.view import Spot, View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation


_LEAST_LANES = 11
"""Height of the lanes of one stream, with the heading and the axis."""
_AROUND_EVENTS = 3
"""Height of what is at the cursor, of the title of the events and of their headings."""


class _Request(NamedTuple):
    """A request to read a vbucket, and where to put the cursor."""

    vbucket: int
    seqno: int | None = None
    at: int | None = None
    since_ns: int | None = None
    row: int = 0


class TimelineView(View):
    """The streams, where ← and → move, and what happened in order, where ↑ and ↓ move."""

    def __init__(self, host: Navigation) -> None:
        self.lanes, self.events = Timeline(id="lanes"), EventList(id="events")
        self._spoken, self._legend = Static(id="spoken"), Static(id="lanes-legend")
        super().__init__(host, "timeline", self.lanes, self._legend, self._spoken, self.events)
        self._reading = Task(host)
        self._request = _Request(0)
        """The latest request."""
        self._fitted = 0
        """Number of lines that the lanes had when they were given their height."""

    def fit(self) -> None:
        """Explains the signs that are drawn, and gives the lanes what they need of what whole events
        leave, and a stream at least; on a low screen, these are half of it, with the signs.
        """
        text, width = Text(), max(20, self.size.width - 2)
        signs = [
            sign
            for group in legend(self.lanes.lane_glyphs)
            for sign in group
            if self.lanes.has_sign(sign)
        ]
        for line in legend_lines(signs, width) if signs else ():
            text.append_text(
                Text.assemble(
                    *((piece, theme.style_of(self.app, paint)) for piece, paint in line), "\n"
                )
            )
        text.rstrip()
        self._legend.update(text)
        self._legend.display = not self.screen.has_class("-tiny")
        self._fitted = self.lanes.lines
        height, signs_height = self.size.height, str(text).count("\n") + 1
        least = min(_LEAST_LANES, height // 2 - signs_height * self.screen.has_class("-short"))
        lines_left = height - signs_height - _AROUND_EVENTS - self.events.height_in_full(height)
        self.lanes.styles.height = max(3, min(self.lanes.lines, max(least, lines_left)))

    def action_pane(self, what: str, *arguments: int) -> None:
        """Does what the lanes do; up and down, screens and ends move in the list of events."""
        pane = (
            self.events
            if what in ("step", "page", "first", "last") and self.events.count
            else self.lanes
        )
        getattr(pane, f"action_{what}", lambda *_: None)(*arguments)
        if pane is self.events:
            self._event_chosen()  # at once: a key may come before the list has told it

    @on(LineView.Moved, "#events")
    def _event_chosen(self) -> None:
        """Moves the cursor of the lanes to the chosen event."""
        event_line = self.events.event
        if event_line is not None:
            self.lanes.stream = event_line.track
            self.lanes.scroll_to_cursor()
            self.lanes.set_cursor(
                event_line.seqno if self.lanes.axis == "seqno" else event_line.time,
                event_line.row,
            )

    def _follow(self) -> None:
        """Puts the list on the last event of the stream before the cursor of the lanes."""
        lanes, event = self.lanes, self.events.event
        if event is not None and (lanes.chosen_row, lanes.stream) == (event.row, event.track):
            return
        of_stream = [
            (
                (event.row, event.row)
                if lanes.chosen_row
                else (event.seqno if lanes.axis == "seqno" else event.time, -event.row),
                -(1 << 30 if event.finding is None else event.finding),
                -number,
            )
            for number, event in enumerate(lanes.content.events)
            if event.track == lanes.stream
        ]
        limit = lanes.chosen_row or lanes.span[1]
        before = [event for event in of_stream if event[0][0] <= limit] or of_stream[:1]
        if before:
            self.events.point(-max(before)[-1])

    @property
    def keyboard(self) -> Timeline:
        """The timeline, which gets the focus."""
        return self.lanes

    def take_up(self) -> None:
        """Reads the vbucket again, because its streams may have grown; of a connection alone that
        does not have it, the worst.
        """
        results, everything = self.host.inspection.results, self.host.inspection.everything
        self.lanes.no_vbucket = results.no_vbucket
        is_foreign = self._request.vbucket in {*everything.vbuckets}.difference(results.vbuckets)
        if is_foreign and results.worst_vbucket is not None:
            self.show(results.worst_vbucket)
        elif self._reading.is_running:
            self._begin(self._request)
        elif self.lanes.content.vbucket is not None and not self.lanes.waiting:
            self.show(self.lanes.content.vbucket)

    def show(
        self,
        vbucket: int,
        seqno: int | None = None,
        at: int | None = None,
        since_ns: int | None = None,
        row: int = 0,
    ) -> None:
        """Reads a vbucket from the store and shows it; for a seqno of the shown one, only moves.

        The cursor goes to a message, a seqno, a place of the shown axis, or a time.
        """
        is_shown = vbucket == self.lanes.content.vbucket and not self.lanes.waiting
        if is_shown and seqno is not None:
            self._go_to_seqno(seqno)
            return
        if not is_shown:
            self.lanes.wait(vbucket, "reading")
        self._begin(_Request(vbucket, seqno, at, since_ns, row))

    def _begin(self, request: _Request) -> None:
        self._request = request
        self._reading.begin(
            partial(tracks_of, self.host.inspection, request.vbucket),
            partial(self._show_tracks, request),
            failed=self._failed,
        )

    def _failed(self, why: str) -> None:
        self.host.show_status(why)
        if self.lanes.waiting:
            self.lanes.wait(self._request.vbucket, f"{why}; Enter reads it")

    def _show_tracks(self, request: _Request, tracks: Tracks) -> None:
        is_first = bool(self.lanes.waiting)
        self.lanes.show(tracks, request.at)
        self.events.show(tracks.events, self.host.inspection.reading.first_time_ns or 0)
        self.fit()
        if is_first and request == _Request(request.vbucket):
            self.events.point(self.events.worst)
            self._event_chosen()
        if request.since_ns is not None:
            self.lanes.go_to_time(request.since_ns)
            self.fit()  # lanes along time take other heights
        if request.row:
            self._go_to_row(request.row)
        if request.seqno is not None:
            self._go_to_seqno(request.seqno)

    def _go_to_seqno(self, seqno: int) -> None:
        """Goes to a seqno; back to where the user came from if no stream reaches it."""
        first, last = self.lanes.content.bounds("seqno")
        if first <= seqno <= last:
            self.lanes.go_to_seqno(seqno)
        else:
            self.host.action_return()
            self.host.show_status(
                f"vbucket {self._request.vbucket} has no seqno {seqno:,}; it has "
                + f"{first:,}–{last:,}".removesuffix(f"–{first:,}")
            )

    def _go_to_row(self, row: int) -> None:
        inspection = self.host.inspection
        with suppress(
            DcpInspectError, IndexError
        ):  # a live capture may have dropped the message meanwhile
            connection, sid, time_ns = (
                column.value_at(0)
                for column in inspection.store.numbers([row], ("connection", "sid", "time_ns"))
            )
            since_ns = max(0, (time_ns or 0) - (inspection.reading.first_time_ns or 0))
            self.lanes.go_to_row(row, connection or 0, -1 if sid is None else sid, since_ns)

    def stop(self) -> bool:
        """Stops reading a vbucket that is not shown yet. Returns whether there was one."""
        is_stopped = bool(self.lanes.waiting) and self._reading.stop()
        if is_stopped:
            self._failed("reading was stopped")
        return is_stopped

    @on(LineView.Moved, "#lanes")
    def arrive(self) -> None:
        """Describes what is under the cursor."""
        self._spoken.update(Text(self.lanes.spoken()))
        self.events.entitle(
            f"events of vb {self.lanes.content.vbucket}" if self.events.count else "events"
        )
        if self.lanes.waiting:
            self.events.show((), 0)
        elif self.lanes.lines != self._fitted:
            self.fit()
        self._follow()

    def spot(self) -> Spot:
        """Returns vbucket, stream, and seqno or time."""
        time = self.lanes.at if self.lanes.axis == "time" else None
        return Spot(
            "timeline",
            self.lanes.chosen_row,
            vbucket=self.lanes.content.vbucket,
            seqno=self.lanes.seqno,
            top=self.lanes.stream,
            since_ns=time,
        )

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        if spot.vbucket is None:
            return
        position = spot.since_ns if spot.since_ns is not None else spot.seqno or 0
        self.lanes.axis = "seqno" if spot.since_ns is None else "time"
        self.lanes.stream = spot.top
        if spot.vbucket == self.lanes.content.vbucket:
            self.lanes.show_all()
            self.lanes.set_cursor(position, spot.row)
            self.fit()
        else:
            self.show(spot.vbucket, at=position)

    def legend(self) -> Sequence[str]:
        """Returns the legend of lanes and gaps."""
        lines = [
            "".join(text for text, _ in line)
            for signs in legend(self.lanes.lane_glyphs)[:-1]  # errors and warnings all views have
            for line in legend_lines(signs, 70)
        ]
        return [*lines, f"a cell shows its worst gap, in this order: {' '.join(LETTERS.values())}"]

    @property
    def vbucket_here(self) -> int | None:
        """Vbucket whose streams are shown."""
        return self.lanes.content.vbucket

    @on(LineView.Opened)
    def _open_place(self) -> None:
        if self.lanes.waiting:
            self._begin(self._request)
            return
        event, row = self.events.event, self.lanes.chosen_row or self.lanes.item_row
        if not row and event is not None:
            row = event.row
        if row:
            is_gap = event is not None and event.event.kind == "gap"
            self.host.to_row(row, "by_seqno" if is_gap or self.lanes.item_row else "")

    def action_display(self) -> None:
        """Switches between time and seqnos; the cursor stays on its event."""
        is_on_event = bool(self.lanes.chosen_row)
        self.lanes.show_axis("time" if self.lanes.axis == "seqno" else "seqno")
        if is_on_event:
            self._event_chosen()
        self.fit()

    def action_finding(self) -> None:
        """Goes to the finding under the cursor, or to the worst one about the vbucket. Where the
        message shows a worse one that is told elsewhere, it is that, as in Packets.
        """
        row, number = self._cursor
        listed = self.events.items[number - 1].finding if number else None
        marked_findings = self.host.inspection.results.marked.finding_numbers(row)[:1]
        of_row = {event.finding for event in self.lanes.content.events if event.row == row}
        if listed is None or not of_row.issuperset(marked_findings):
            listed = next(iter(marked_findings), None)
        if listed is None:
            super().action_finding()
        else:
            self.host.to_finding(listed, row=row, vbucket=self.lanes.content.vbucket)

    @property
    def _cursor(self) -> tuple[int, int]:
        """Row at the cursor, and number from 1 of the finding there among the events; 0: none."""
        event = self.events.event
        row = self.lanes.chosen_row or (event.row if event is not None else 0)
        is_told = event is not None and event.row == row and event.finding is not None
        return row, (self.events.at + 1) * is_told

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next message of the vbucket that shows an error or a warning, or to the one
        before; the list has like ones once, lanes have all.
        """
        events, cursor = self.events, self._cursor
        stops = {
            (event.row, place + 1)
            for place, event in enumerate(events.items)
            if events.is_bad(place)
        }
        rows = {
            row for track in self.lanes.content.tracks for row in track.finding_marks.row.tolist()
        }
        stops |= {(row, 0) for row in rows.difference(row for row, _ in stops)}
        ahead = {stop for stop in stops if (stop < cursor if back else stop > cursor)}
        row, number = (max if back else min)(ahead, default=(0, 0))
        if number:
            events.set_cursor(number - 1)
            self._event_chosen()
        elif row:
            self._go_to_row(row)
        else:
            self.tell_none(
                "error or warning of these streams",
                is_behind=not stops <= {cursor},
                is_here=cursor in stops,
                back=back,
            )

    def action_near(self, steps: int) -> None:
        """Moves to the next gap, or to the one before."""
        events = self.events
        if self.to_next(events, "gap of this vbucket", events.is_gap, back=steps < 0):
            self._event_chosen()

    def action_zoom(self, steps: int) -> None:
        """Zooms in, zooms out, or shows all for 0."""
        if steps:
            self.lanes.zoom(steps)
        else:
            self.lanes.show_all()
        self.fit()

    def action_neighbour(self, steps: int) -> None:
        """Shows the timeline of the next vbucket that has streams, or of the one before."""
        numbers, vbucket = self.host.inspection.results.vbuckets, self._request.vbucket
        lower_numbers = [number for number in numbers[::-1] if number < vbucket]
        higher_numbers = [number for number in numbers if number > vbucket]
        if next_numbers := higher_numbers if steps > 0 else lower_numbers:
            self.show(next_numbers[0])
        else:
            is_behind, is_here = bool(lower_numbers or higher_numbers), vbucket in numbers
            what = "vbucket with streams"
            self.tell_none(what, is_behind=is_behind, is_here=is_here, back=steps < 0)

    def action_copy(self) -> None:
        """Copies the description of what is under the cursor."""
        self.host.copy(self.lanes.spoken())
