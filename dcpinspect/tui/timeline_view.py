"""The third view: the streams of one vbucket along seqnos or time, with a description of what is under the cursor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.widgets import Static
from textual.worker import get_current_worker

from dcpinspect.errors import DcpInspectError
from dcpinspect.escape import escape
from dcpinspect.render.lane_paint import Sign, legend, legend_lines
from dcpinspect.render.lanes import LETTERS, Glyphs
from dcpinspect.tui import theme
from dcpinspect.tui.export import Choice, of_vbucket
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.progress import Progress
from dcpinspect.tui.results import Results
from dcpinspect.tui.timeline import Timeline
from dcpinspect.tui.timeline_cursor import FORMS, Form
from dcpinspect.tui.tracks import Tracks, together, tracks_of
from dcpinspect.tui.view import Host, View


class _Asked(NamedTuple):
    """A request to read a vbucket, and where to put the cursor. Two requests are different even if they are for the same vbucket."""

    vbucket: int
    seqno: int | None = None
    at: int | None = None
    stream: tuple[int, int, int, int] | None = None
    span: tuple[int, int] | None = None
    row: int = 0


class TimelineView(View):
    """The timeline above, words below."""

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id="timeline")
        self.host = host
        self._glyphs = glyphs
        self.lanes = Timeline(glyphs, id="lanes")
        self._asked: _Asked | None = None
        """The request that is being read."""
        self._explained = ("", False)
        """What the drawn legend explains: the form, and whether it has lanes."""
        self._spoken, self._legend = Static(id="spoken"), Static(id="lanes-legend")

    def compose(self) -> ComposeResult:
        """Yields the widgets of the view."""
        yield self.lanes
        yield self._legend
        yield self._spoken

    def on_resize(self) -> None:
        """Fits the legend to the new width."""
        self._draw_legend()

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        self._draw_legend()

    def _draw_legend(self) -> None:
        """Draws the legend of the glyphs that are drawn. A tree has no snapshots, and curves have them only with lanes below."""
        form, text = self.lanes.form, Text()
        width = (self.size.width or self.app.size.width) - 2  # before there is a layout, the legend already gets its final height
        self._explained = form, self.lanes.has_lanes
        signs = legend(self._glyphs)
        drawn = [_told(_TREE, self._glyphs), signs[0]] if form == "tree" else [_told(_CURVE, self._glyphs)]
        for group in signs if self.lanes.has_lanes else [*drawn, signs[-1]]:
            for line in legend_lines(group, width):
                text.append_text(Text.assemble(*((piece, theme.style_of(self.app, paint)) for piece, paint in line), "\n"))
        text.rstrip()
        self._legend.update(text)

    @property
    def keyboard(self) -> Timeline:
        """The timeline, which gets the focus."""
        return self.lanes

    def take_up(self, results: Results) -> None:
        """Reads the vbucket again, because its streams may have grown."""
        del results
        if self._asked is not None:
            self._begin(self._asked._replace())
        elif self.lanes.vbucket is not None and not self.lanes.waiting:
            self.tell(self.lanes.vbucket)

    def show(
        self,
        vbucket: int,
        seqno: int | None = None,
        stream: tuple[int, int, int, int] | None = None,
        span: tuple[int, int] | None = None,
        row: int = 0,
    ) -> None:
        """Shows a vbucket, with the cursor at a message, at a seqno, in a stream, or at the begin of a span of time."""
        if vbucket == self.lanes.vbucket and seqno is not None and not self.lanes.waiting:
            self.lanes.go_to_seqno(seqno)
        else:
            self.tell(vbucket, seqno, stream=stream, span=span, row=row)

    def tell(
        self,
        vbucket: int,
        seqno: int | None = None,
        at: int | None = None,
        stream: tuple[int, int, int, int] | None = None,
        span: tuple[int, int] | None = None,
        row: int = 0,
    ) -> None:
        """Reads a vbucket from the store and shows it.

        The cursor goes to a message, a seqno, a place of the shown axis, a stream, or the begin of a span of time.
        """
        if vbucket != self.lanes.vbucket or self.lanes.waiting:
            self.lanes.wait(vbucket, "reading")
        self._begin(_Asked(vbucket, seqno, at, stream, span, row))

    def _begin(self, asked: _Asked) -> None:
        self._asked = asked
        self._read(asked)

    @work(thread=True, group="timeline", exclusive=True)
    def _read(self, asked: _Asked) -> None:
        worker, progress = get_current_worker(), Progress()

        def goes_on(share: float) -> bool:
            if progress.is_due:
                self.host.from_thread(self._reads, asked, progress.words(share))
            return not worker.is_cancelled

        try:
            others = [number for number in self.host.marked_vbuckets if number != asked.vbucket]
            here, beside = self.host.inspection, self.host.beside
            found = [tracks_of(here, number, goes_on) for number in (asked.vbucket, *others)]
            if beside is not None:
                name, first_ns = escape(os.path.basename(beside.files[0])), here.reading.first_time_ns or 0
                found.append(tracks_of(beside, asked.vbucket, goes_on, source=name, first_ns=first_ns))
            told = together(found)
        except InterruptedError:
            return
        except DcpInspectError as error:
            self.host.from_thread(self._failed, asked, str(error))
        else:
            self.host.from_thread(self._told, asked, told)

    def _reads(self, asked: _Asked, words: str) -> None:
        if asked is self._asked and self.lanes.waiting:
            self.lanes.wait(asked.vbucket, f"reading … {words}")

    def _failed(self, asked: _Asked, why: str) -> None:
        if asked is self._asked:
            self._asked = None
            self.host.say(why)
            if self.lanes.waiting:
                self.lanes.wait(asked.vbucket, f"it could not be read: {why}")

    def _told(self, asked: _Asked, told: Tracks) -> None:
        if asked is self._asked:
            self._asked = None
            if len(told.vbuckets) > 1 and self.lanes.form == "lanes":
                self.lanes.show_axis("time")  # seqnos of different vbuckets cannot be compared
            self.lanes.show(told, asked.seqno, asked.at)
            if asked.stream is not None:
                self.lanes.go_to_stream(asked.stream)
            if asked.span is not None:
                self.lanes.go_to_span(*asked.span)
            if asked.row:
                self._go_to_row(asked.row)

    def _go_to_row(self, row: int) -> None:
        inspection = self.host.inspection
        with suppress(DcpInspectError, IndexError):  # a live capture may have dropped the message meanwhile
            connection, sid, time_ns = (one.at(0) for one in inspection.store.numbers([row], ("connection", "sid", "time_ns")))
            since_ns = max(0, (time_ns or 0) - (inspection.reading.first_time_ns or 0))
            self.lanes.go_to_row(row, connection or 0, -1 if sid is None else sid, since_ns)

    def compare(self) -> None:
        """Draws the vbucket again, because other vbuckets are to be drawn below."""
        if self.lanes.vbucket is not None and not self.lanes.waiting:
            self.tell(self.lanes.vbucket)

    def action_mark(self) -> None:
        """Adds the vbucket under the cursor to those that timelines are compared with, or removes it."""
        if self.lanes.vbucket_here is not None:
            self.host.mark_vbucket(self.lanes.vbucket_here)

    def stop(self) -> bool:
        """Stops reading a vbucket that is not shown yet. Returns whether there was one."""
        if self._asked is None or not self.lanes.waiting:
            return False
        self.workers.cancel_group(self, "timeline")
        self.lanes.wait(self._asked.vbucket, "reading was stopped; Enter reads it")
        self._asked = None
        return True

    @on(Timeline.Moved)
    def arrive(self) -> None:
        """Describes what is under the cursor."""
        self._spoken.update(Text(self.lanes.spoken()))
        if self._explained != (self.lanes.form, self.lanes.has_lanes):
            self._draw_legend()

    def spot(self) -> Spot:
        """Returns vbucket, stream, and seqno or time."""
        time = self.lanes.at if self.lanes.axis == "time" else None
        return Spot(
            "timeline", vbucket=self.lanes.vbucket, seqno=self.lanes.seqno, top=self.lanes.stream, since_ns=time, form=self.lanes.form
        )

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        if spot.vbucket is None:
            return
        at = spot.since_ns if spot.since_ns is not None else spot.seqno or 0
        form: Form = next((one for one in FORMS if one == spot.form), "lanes")
        self.lanes.restore(form, "seqno" if spot.since_ns is None else "time", spot.top)
        if spot.vbucket == self.lanes.vbucket:
            self.lanes.fit()
            self.lanes.go(at)
        else:
            self.tell(spot.vbucket, at=at)

    def legend(self) -> Sequence[str]:
        """Returns the legend of lanes and gaps."""
        lines = ["".join(text for text, _ in line) for signs in legend(self._glyphs) for line in legend_lines(signs)]
        drawn = [
            f"{name}: " + ", ".join(f"{sign.glyph} {sign.word}" for sign in _told(words, self._glyphs))
            for name, words in (("seqnos against time", _CURVE), ("tree", _TREE))
        ]
        return [*lines, *drawn, f"a cell shows its worst gap, in this order: {' '.join(LETTERS.values())}"]

    @property
    def vbucket_here(self) -> int | None:
        """Vbucket of the stream that the cursor is in."""
        return self.lanes.vbucket_here

    def exports(self) -> Sequence[Choice]:
        """Returns the choice to export the messages of the vbucket."""
        return () if self.lanes.vbucket is None else (of_vbucket(self.host.inspection, self.lanes.vbucket),)

    @on(Timeline.Opened)
    def _opened(self) -> None:
        if self.lanes.waiting and self._asked is None and self.lanes.vbucket is not None:
            self.tell(self.lanes.vbucket)
        row, field = self.lanes.row
        if row and not self._is_elsewhere():
            self.host.to_row(row, field)

    def _is_elsewhere(self) -> bool:
        """Whether the cursor is in the other capture; then says so to the user."""
        source = "" if self.lanes.track is None else self.lanes.track.source
        if source:
            self.host.say(f"this is in {source}, which Ctrl+O opens")
        return bool(source)

    def action_display(self) -> None:
        """Switches between time and seqnos."""
        self.lanes.next_display()

    def action_layout(self) -> None:
        """Switches between lanes, curves of seqnos against time, and the tree of histories."""
        self.lanes.show_form(FORMS[(FORMS.index(self.lanes.form) + 1) % len(FORMS)])

    def action_finding(self) -> None:
        """Goes to the finding at the cursor; if there is none, to the worst finding about the vbucket."""
        number = self.lanes.finding
        if self._is_elsewhere():
            return
        if number is None:
            super().action_finding()
        else:
            self.host.to_finding(number, vbucket=self.lanes.vbucket)

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next message of the vbucket with an error or a warning, or to the one before."""
        if not self.lanes.bad(back=back):
            self.host.say("no other error or warning of this vbucket's streams; . goes to the next vbucket")

    def action_near(self, steps: int) -> None:
        """Moves to the next event, or to the one before."""
        if not self.lanes.near(steps):
            self.host.say("no more events of this stream; ↓ goes to the next stream")

    def action_gap(self, steps: int) -> None:
        """Moves to the next gap, or to the one before."""
        if not self.lanes.gap(steps):
            self.host.say("no other gap of this stream")

    def action_by_this(self) -> None:
        """Shows the messages of the vbucket, or only those of the chosen range."""
        if self.vbucket_here is not None:
            self.host.to_filter(f"vbucket = {self.vbucket_here}{self._chosen()}")

    def _chosen(self) -> str:
        """Returns the filter condition of the chosen range; empty if there is none."""
        if self.lanes.range is None:
            return ""
        first, last = self.lanes.range
        return f" and {'by_seqno' if self.lanes.axis == 'seqno' else 'relative_ns'} between {first} and {last}"

    @on(Timeline.Chosen)
    def _say_chosen(self) -> None:
        if self.lanes.range is None:
            self.host.say("")
        else:
            self.host.say(f"{self.lanes.in_words(self.lanes.range)} chosen: = filters by it, + zooms to it, Esc forgets it")

    def leave(self) -> bool:
        """Gives up the chosen range. Returns whether there was one."""
        is_chosen = self.lanes.range is not None
        if is_chosen:
            self.lanes.choose(None)
        return is_chosen

    def action_zoom(self, steps: int) -> None:
        """Zooms in, zooms out, or shows all for 0."""
        if steps:
            self.lanes.zoom(steps)
        else:
            self.lanes.fit()

    def action_neighbour(self, steps: int) -> None:
        """Shows the timeline of the next vbucket that has streams, or of the one before."""
        numbers = self.host.inspection.results.vbuckets
        here = self.lanes.vbucket if self.lanes.vbucket is not None else -1
        others = [number for number in numbers if (number > here if steps > 0 else number < here)]
        if others:
            self.tell(others[0] if steps > 0 else others[-1])

    def action_copy(self) -> None:
        """Copies the description of what is under the cursor."""
        self.host.copy(self.lanes.spoken())


_CURVE = (("tick", "a snapshot begins"), ("R", "a rollback, down to"), ("open", "its seqno"))
_TREE = (("━", "a branch of the failover log"), ("╌", "the part of it that later branches do not share"), ("┻", "where one leaves it"))
"""Glyphs, or their names in ``Glyphs``, and their meanings."""


def _told(words: Sequence[tuple[str, str]], glyphs: Glyphs) -> list[Sign]:
    return [Sign(getattr(glyphs, glyph, glyph), "", word) for glyph, word in words]
