"""The application: views side by side, keys for all of them, what runs behind."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.escape import clip, escape
from dcpinspect.protocol.columns import Rows
from dcpinspect.render.timeline import ASCII as ASCII_LANES
from dcpinspect.render.timeline import LETTERS, legend
from dcpinspect.render.timeline import UNICODE as UNICODE_LANES
from dcpinspect.tables.filter import Filter, parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.filter_tree import Source
from dcpinspect.tables.presets import FILTERS
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tui import findings as found
from dcpinspect.tui import frame, theme, vbucket_grid
from dcpinspect.tui.dialogs import Help, Prompt, Question
from dcpinspect.tui.export import NAMES, export, refuse
from dcpinspect.tui.field_tree import FieldTree
from dcpinspect.tui.filter_bar import FilterBar, by_field
from dcpinspect.tui.findings import FindingList
from dcpinspect.tui.inspection import Inspection, Results
from dcpinspect.tui.jumps import Jumps, Spot
from dcpinspect.tui.keys import KEYS
from dcpinspect.tui.links import WORDS, target
from dcpinspect.tui.packets import PacketsView
from dcpinspect.tui.places import FORMS, Target, parse_place
from dcpinspect.tui.row_index import RowIndex
from dcpinspect.tui.search import matcher, search
from dcpinspect.tui.stats import StatsView
from dcpinspect.tui.timeline import Timeline, stories_of
from dcpinspect.tui.vbucket_grid import VbucketGrid

BEAT = 0.1
"""Seconds between two looks at what reading has brought."""


class InspectApp(App[None]):
    """Five views of one inspection."""

    CSS_PATH = "app.tcss"
    TITLE = "dcpinspect"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual's way
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS = [Binding(key.keys, key.action, key.text, show=False) for key in KEYS if not key.action.startswith("app.")]  # noqa: RUF012

    class Filtered(Message):
        """A filter has been evaluated, on all rows or on new ones."""

        def __init__(self, index: RowIndex) -> None:
            super().__init__()
            self.index = index

    def __init__(
        self,
        inspection: Inspection,
        *,
        is_ascii: bool = False,
        saved: Mapping[str, Source] | None = None,
        history: Sequence[str] = (),
        filter_text: str = "",
    ) -> None:
        """``saved``: filters by name, besides those that are built in. ``history``: filters that were used before."""
        super().__init__()
        self.inspection = inspection
        self.glyphs = theme.ASCII if is_ascii else theme.UNICODE
        self.lane_glyphs = ASCII_LANES if is_ascii else UNICODE_LANES
        self.history = list(history)
        self.jumps = Jumps()
        self.filter: FilterRows | None = None
        self.filter_text = ""
        self._first_filter = filter_text
        self.bar = FilterBar(dict(saved or {}), self.history, id="filter")
        self.packets = PacketsView(inspection, self.glyphs, self.bar)
        self.grid = VbucketGrid(self.glyphs, id="grid")
        self.lanes = Timeline(self.lane_glyphs, id="lanes")
        self.finding_list = FindingList(self.glyphs, id="finding-list")
        self.stats = StatsView()
        self._tabs, self._progress, self._keys = Static(id="tabs"), Static(id="progress"), Static(id="keys")
        self._views = ContentSwitcher(initial="packets", id="views")
        self._grid_about, self._grid_legend = Static(id="grid-about-text"), Static(id="grid-legend")
        self._spoken, self._finding_about = Static(id="spoken"), Static(id="finding-about-text")
        self._loader = threading.Thread(target=inspection.load, args=(lambda: None,), name="load", daemon=True)
        self._shown_rows = 0
        self._shown_results: Results | None = None
        self._is_scanning = False
        self._searched = ""
        self._is_stopping_search = threading.Event()
        self._is_exporting = threading.Event()
        self._said = ""
        self._notices = 0
        self.crash: Exception | None = None
        """The fault that ended the application."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What changes every line before it is drawn."""
        return [*super().get_line_filters(), *([theme.AsciiOnly()] if self.glyphs is theme.ASCII else [])]

    def compose(self) -> ComposeResult:
        """The parts of all views."""
        yield self._tabs
        with self._views:
            yield self.packets
            with Vertical(id="vbuckets"):
                with Vertical(id="grid-side"):
                    yield self.grid
                    yield self._grid_legend
                with VerticalScroll(id="grid-about", can_focus=False):
                    yield self._grid_about
            with Vertical(id="timeline"):
                yield self.lanes
                yield self._spoken
            with Vertical(id="findings"):
                yield self.finding_list
                with VerticalScroll(id="finding-about", can_focus=False):
                    yield self._finding_about
            yield self.stats
        yield self._progress
        yield self._keys

    def on_mount(self) -> None:
        """Reading begins."""
        self._loader.start()
        self.set_interval(BEAT, self.beat)
        self.draw_frame()
        if self._first_filter:
            self.bar.apply(self._first_filter)

    def _handle_exception(self, error: Exception) -> None:
        """A fault of ours is kept for who started the application, in place of Textual's pages about it, which hold what is on the wire."""
        self.crash = self.crash or error
        self.error_console = Console(file=io.StringIO())
        super()._handle_exception(error)

    def close(self) -> None:
        """Ends reading, which ends its thread; after the application has."""
        self._is_stopping_search.set()
        self.inspection.stop()
        self._loader.join()
        self.inspection.close()

    # -- what is read -------------------------------------------------------------------------------------

    @property
    def is_up_to_date(self) -> bool:
        """Whether all that was read and worked out is shown."""
        return self._shown_results is self.inspection.results and self._shown_rows == self.inspection.store.rows

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing runs behind that will change what is shown."""
        return self.is_up_to_date and not self.packets.is_waiting and not any(not worker.is_finished for worker in self.workers)

    @property
    def view(self) -> str:
        """The view that is shown."""
        return self._views.current or "packets"

    def beat(self) -> None:
        """Takes up what reading has brought since the last look."""
        store = self.inspection.store
        rows, first = store.rows, store.first_row
        if rows != self._shown_rows:
            self._shown_rows = rows
            if not self.packets.list.index.is_filtered:
                self.packets.list.index.grow(first, rows)
                self.packets.list.grown()
                self.packets.head()
        if self.filter is not None and self.packets.list.index.scanned < rows and not self._is_scanning:
            self._scan(self.filter, self.packets.list.index)
        if self._shown_results is not self.inspection.results:
            self._show_results()
        if len(self.inspection.notices) > self._notices:
            self._notices = len(self.inspection.notices)
            self.say(self.inspection.notices[-1])
        self.draw_frame()

    def _show_results(self) -> None:
        results = self._shown_results = self.inspection.results
        self.grid.show(results.records.get("vbuckets"))
        self.finding_list.show(results.findings, is_final=self.inspection.state != "reading")
        self.stats.show(results.statistics, results.coverage)
        self.packets.list.refresh()
        if self.lanes.vbucket is not None:
            self._tell(self.lanes.vbucket, None)

    def draw_frame(self) -> None:
        """The lines around the view: tabs, progress, keys."""
        self._tabs.update(frame.tabs(self.inspection, self.view, self.glyphs, self.size.width))
        self._keys.update(frame.keys(self.view, self.size.width))
        self._draw_progress()

    def _draw_progress(self) -> None:
        text = self._said or frame.progress(self.inspection)
        self._progress.set_class(bool(text), "on")
        self._progress.update(Text(clip(text, max(0, self.size.width - 1))))

    def say(self, text: str) -> None:
        """A word in the line above the keys, until the next key."""
        self._said = f" {text}" if text else ""
        self._draw_progress()

    def on_key(self) -> None:
        """What was said is old."""
        if self._said:
            self.say("")

    # -- filter -------------------------------------------------------------------------------------------

    @on(FilterBar.Changed)
    def _filter_changed(self, event: FilterBar.Changed) -> None:
        self.set_filter(event.text, event.filter)
        self.packets.list.focus()

    def set_filter(self, text: str, filter_: Filter | None) -> None:
        """Shows the rows that a filter lets through; the old ones stay until the new are known."""
        self.filter_text = text
        self.filter = None if filter_ is None else FilterRows(filter_)
        if self.filter is None:
            index = RowIndex()
            index.grow(self.inspection.store.first_row, self.inspection.store.rows)
            self.packets.list.show(index)
            self.bar.say("")
            self.packets.head()
        else:
            self.bar.say("…")
            self._scan(self.filter, RowIndex(is_filtered=True))

    @work(thread=True, group="filter")
    def _scan(self, filter_: FilterRows, index: RowIndex) -> None:
        if filter_ is not self.filter:
            return
        self._is_scanning = True
        try:
            until = self.inspection.store.rows
            index.append(self.inspection.store.matching(filter_, after=index.scanned), until)
        except DcpInspectError as error:
            self.call_from_thread(self.say, str(error))
        finally:
            self._is_scanning = False
        if filter_ is self.filter:
            self.post_message(self.Filtered(index))

    @on(Filtered)
    def _filtered(self, event: Filtered) -> None:
        shown, total = len(event.index), self.inspection.store.rows
        if event.index is self.packets.list.index:
            self.packets.list.grown()
        else:
            self.packets.list.show(event.index)
            if not self.packets.list.row and shown:
                self.packets.list.move_to(0)
        hidden = f"no rows match: {total:,} hidden by the filter (Esc clears)"
        self.bar.say(f"✔ {shown:,} rows" if shown else hidden)
        self.packets.head()

    def action_filter(self) -> None:
        """Into the filter."""
        self.bar.input.focus()

    def action_by_this(self, how: str = "") -> None:
        """By the field under the cursor, or by the vbucket."""
        if self.view == "vbuckets":
            condition: str | None = f"vbucket = {self.grid.vbucket}"
            self.action_view("packets")
        else:
            field = self.packets.field
            name = {"status": "status", "key": "key", "logical_key": "key", "opcode": "opcode"}.get(field.name, field.name) if field else ""
            condition = by_field(name, field.value, list(BY_NAME)) if field is not None else None
        if condition is None:
            self.say("this field is no column that can be filtered by")
            return
        if how == "not":
            condition = f"not {condition}"
        text = f"({self.filter_text}) and {condition}" if how and self.filter_text else condition
        self.bar.apply(text)

    # -- going somewhere ----------------------------------------------------------------------------------

    def spot(self) -> Spot:
        """Where the user is."""
        view = self.view
        if view == "packets":
            return self.packets.spot(self.filter_text)
        if view == "vbuckets":
            return Spot(view, vbucket=self.grid.vbucket)
        if view == "timeline":
            return Spot(view, vbucket=self.lanes.vbucket, seqno=self.lanes.seqno, top=self.lanes.stream)
        if view == "findings":
            return Spot(view, finding=self.finding_list.finding, top=self.finding_list.evidence)
        return Spot(view, top=int(self.stats.scroll_offset.y))

    def restore(self, spot: Spot) -> None:
        """Back to where the user was."""
        self._switch(spot.view)
        if spot.view == "packets":
            if spot.filter != self.filter_text:
                self.bar.apply(spot.filter)
            self.packets.restore(spot)
        elif spot.view == "vbuckets" and spot.vbucket is not None:
            self.grid.move_to(spot.vbucket)
        elif spot.view == "timeline" and spot.vbucket is not None:
            self.lanes.stream = spot.top
            if spot.vbucket == self.lanes.vbucket:
                self.lanes.go(spot.seqno or 0)
            else:
                self._tell(spot.vbucket, spot.seqno)
        elif spot.view == "findings" and spot.finding is not None and spot.finding < len(self.finding_list.findings):
            self.finding_list.select(spot.finding)
            self.finding_list.evidence = spot.top
            self._about_finding()

    def leave(self) -> None:
        """Remembers where the user is, before a jump."""
        self.jumps.leave(self.spot())

    def _switch(self, view: str) -> None:
        self._views.current = view
        focus: dict[str, Widget] = {
            "packets": self.packets.list,
            "vbuckets": self.grid,
            "timeline": self.lanes,
            "findings": self.finding_list,
            "stats": self.stats,
        }
        focus[view].focus()
        self.draw_frame()
        self._draw_grid()
        self._about_finding()
        self._draw_spoken()

    def action_view(self, view: str) -> None:
        """Another view."""
        if view == self.view:
            return
        self.leave()
        if view == "timeline" and self.lanes.vbucket is None:
            vbucket = self._vbucket_here()
            if vbucket is not None:
                self._tell(vbucket, None)
        self._switch(view)

    def _vbucket_here(self) -> int | None:
        """Of the row, or of the cell, under the cursor; else the first there is."""
        if self.view == "vbuckets":
            return self.grid.vbucket
        row = self.packets.list.row
        if self.view == "packets" and row:
            vbucket = self.inspection.store.messages([row]).vbucket.at(0)
            if vbucket is not None and vbucket in self.grid.cells.by_number:
                return vbucket
        return min(self.grid.cells.by_number, default=None)

    def action_return(self) -> None:
        """To where the user came from."""
        spot = self.jumps.back(self.spot())
        if spot is not None:
            self.restore(spot)

    def action_forward(self) -> None:
        """Forward again."""
        spot = self.jumps.forward(self.spot())
        if spot is not None:
            self.restore(spot)

    def to_row(self, row: int, field: str = "") -> None:
        """To a message, whatever view is shown."""
        if not self.inspection.store.first_row <= row <= self.inspection.store.rows:
            self.say(f"there is no row {row:,}: rows are {self.inspection.store.first_row:,} to {self.inspection.store.rows:,}")
            return
        self.leave()
        if self.view != "packets":
            self._switch("packets")
        self.packets.go(row, field)

    def to_vbucket(self, vbucket: int, seqno: int | None = None) -> None:
        """To the timeline of a vbucket."""
        self.leave()
        self._switch("timeline")
        if vbucket == self.lanes.vbucket and seqno is not None:
            self.lanes.go(seqno)
        else:
            self._tell(vbucket, seqno)

    def to_finding(self, number: int) -> None:
        """To a finding."""
        self.leave()
        self._switch("findings")
        self.finding_list.select(number)

    @work(thread=True, group="timeline", exclusive=True)
    def _tell(self, vbucket: int, seqno: int | None) -> None:
        """The story of a vbucket."""
        try:
            streams = stories_of(self.inspection, vbucket)
        except DcpInspectError as error:
            self.call_from_thread(self.say, str(error))
            return
        self.call_from_thread(self.lanes.show, vbucket, streams, seqno)

    async def run_action(self, *arguments: Any, **options: Any) -> bool:
        """As Textual's; what cannot be done because the capture is not what it was is said, not raised."""
        try:
            return await super().run_action(*arguments, **options)
        except DcpInspectError as error:
            self.say(str(error))
            return False

    def action_open(self) -> None:
        """Deeper."""
        self.action_pane("open")

    def action_pane(self, what: str, *arguments: int) -> None:
        """Something that the pane with the keyboard does in its own way."""
        action = getattr(self.focused, f"action_{what}", None)
        if action is not None:
            action(*arguments)

    def action_leave(self) -> None:
        """Closes, stops, or clears: what comes first."""
        self._is_stopping_search.set()
        if self._is_exporting.is_set():
            self._is_exporting.clear()
        elif self.bar.is_typing:
            self.packets.list.focus()
        elif self.inspection.state == "reading":
            self.inspection.stop()
            self.say("stopping")
        elif self.packets.fields.has_focus or self.packets.bytes.has_focus:
            self.packets.list.focus()
        elif self.filter_text:
            self.bar.apply("")
        else:
            self.screen.maximized = None

    def action_bad(self, back: bool = False) -> None:
        """To the next error or warning of what the view shows."""
        if self.view == "vbuckets":
            if not self.grid.bad(back=back):
                self.say("no other vbucket has an error or a warning")
            return
        if self.view == "findings":
            if not self.finding_list.bad(back=back):
                self.say("no other error or warning")
            return
        row = self.inspection.results.next_bad(self.packets.list.row, back=back)
        while row is not None and self.packets.list.index.is_filtered and not self.packets.list.index.has(row):
            row = self.inspection.results.next_bad(row, back=back)
        if row is None:
            self.say("no error or warning before here" if back else "no error or warning after this row")
        else:
            self.to_row(row)

    def action_near(self, steps: int) -> None:
        """The next of what the view shows."""
        if self.view == "packets":
            self.packets.list.step(steps)
        elif self.view == "timeline":
            self.lanes.near(steps)
        elif self.view == "findings" and self.finding_list.shown is not None:
            last = max(0, len(self.finding_list.shown.places) - 1)
            self.finding_list.evidence = min(max(self.finding_list.evidence + steps, 0), last)
            self._about_finding()

    def action_gap(self, steps: int) -> None:
        """The next gap."""
        self.lanes.gap(steps)

    def action_finding(self) -> None:
        """What is found of the row; again: the next of it."""
        results = self.inspection.results
        numbers: Sequence[int] = ()
        if self.view == "packets":
            numbers = results.of_row.get(self.packets.list.row, ())
        else:
            vbucket = self.grid.vbucket if self.view == "vbuckets" else self.lanes.vbucket
            numbers = [number for number, one in enumerate(results.findings) if vbucket in one.vbuckets]
        if not numbers:
            self.say("no finding here, n goes to the next")
            return
        self.to_finding(numbers[0])

    def action_vbucket(self) -> None:
        """The timeline of the vbucket."""
        if self.view == "findings":
            one = self.finding_list.shown
            if one is not None and one.vbuckets:
                self.to_vbucket(one.vbuckets[0], one.seqnos[0] if one.seqnos else None)
            else:
                self.say("this finding is not about a vbucket")
            return
        row = self.packets.list.row
        if row:
            batch = self.inspection.store.messages([row])
            vbucket = batch.vbucket.at(0)
            if vbucket is None:
                self.say("this message is not about a vbucket")
            else:
                self.to_vbucket(vbucket, batch.number("by_seqno", 0) or batch.number("start_seqno", 0))

    def action_neighbour(self, steps: int) -> None:
        """The timeline of the next vbucket that has one."""
        numbers = sorted(self.grid.cells.by_number)
        here = self.lanes.vbucket if self.lanes.vbucket is not None else -1
        others = [number for number in numbers if (number > here if steps > 0 else number < here)]
        if others:
            self._tell(others[0] if steps > 0 else others[-1], None)

    def action_zoom(self, steps: int) -> None:
        """Nearer, farther, all."""
        if steps:
            self.lanes.zoom(steps)
        else:
            self.lanes.fit()

    @on(FieldTree.Followed)
    def _followed(self, event: FieldTree.Followed) -> None:
        self.say(f"looking for {WORDS[event.link]}")  # type: ignore[index]
        self._follow(self.packets.list.row, event.link)

    @work(thread=True, group="link", exclusive=True)
    def _follow(self, row: int, link: str) -> None:
        try:
            found_row = target(self.inspection.store, row, link)
        except DcpInspectError as error:
            self.call_from_thread(self.say, str(error))
            return
        if found_row is None:
            self.call_from_thread(self.say, f"{WORDS[link]} is not in this capture")  # type: ignore[index]
        else:
            self.call_from_thread(self.say, "")
            self.call_from_thread(self.to_row, found_row)

    @on(FindingList.Opened)
    def _finding_opened(self, event: FindingList.Opened) -> None:
        one = self.finding_list.findings[event.finding]
        if one.places:
            self.to_row(one.places[min(self.finding_list.evidence, len(one.places) - 1)].row, found.FIELDS.get(one.rule, ""))
        else:
            self.say("this finding has no message of its own")

    @on(FindingList.Moved)
    def _about_finding(self) -> None:
        one = self.finding_list.shown
        self._finding_about.update(found.about(one, self.glyphs, self.finding_list.evidence))

    @on(VbucketGrid.Moved)
    def _draw_grid(self) -> None:
        number = self.grid.vbucket
        text = vbucket_grid.about(number, self.grid.cells.by_number.get(number, ()))
        self._grid_about.update(text)
        self._grid_legend.update(Text(self.grid.legend()))

    @on(VbucketGrid.Opened)
    def _grid_opened(self, event: VbucketGrid.Opened) -> None:
        if event.vbucket in self.grid.cells.by_number:
            self.to_vbucket(event.vbucket)
        else:
            self.say(f"vbucket {event.vbucket} was not asked for")

    @on(Timeline.Moved)
    def _draw_spoken(self) -> None:
        self._spoken.update(Text(f" {self.lanes.spoken()}"))

    @on(Timeline.Opened)
    def _lane_opened(self) -> None:
        story = self.lanes.story
        if story is None:
            return
        first = self.lanes.seqno if self.lanes.scale.step == 1 else self.lanes.scale.first + self.lanes.cell * self.lanes.scale.step
        where = f"vbucket = {self.lanes.vbucket} and connection = {story.stream['connection']} and row >= {story.stream['open_row']}"
        rows = self.inspection.store.matching(FilterRows(parse_filter(f"{where} and by_seqno >= {first}")))
        self.to_row(int(rows[0]) if len(rows) else int(story.stream["open_row"]), "by_seqno" if len(rows) else "")

    def action_go(self) -> None:
        """Somewhere that is typed."""
        self.push_screen(Prompt("go to", hint=FORMS), self._go)

    def _go(self, text: str | None) -> None:
        if not text or not text.strip():
            return
        try:
            self._go_to(parse_place(text, self.inspection.reading.first_time_ns or 0))
        except UsageError as error:
            self.say(str(error))

    def _go_to(self, place: Target) -> None:
        store = self.inspection.store
        if place.row is not None:
            self.to_row(place.row)
        elif place.vbucket is not None:
            if self.view == "vbuckets" and place.seqno is None:
                self.grid.move_to(place.vbucket)
            else:
                self.to_vbucket(place.vbucket, place.seqno)
        elif place.rule is not None:
            numbers = [number for number, one in enumerate(self.inspection.results.findings) if one.rule == place.rule]
            if numbers:
                self.to_finding(numbers[0])
            else:
                self.say(f"nothing was found by {place.rule}")
        else:
            what, number = ("last_frame", place.frame) if place.frame is not None else ("time_ns", place.time_ns)
            rows = store.matching(FilterRows(parse_filter(f"{what} >= {number}")))
            if len(rows):
                self.to_row(int(rows[0]))
            else:
                self.say("no message at or after it")

    # -- find ---------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Something that is typed."""
        self.push_screen(Prompt("find in the rows that are shown: text, /regex/ or x:hex", self._searched), self._find)

    def action_find_next(self) -> None:
        """The next one."""
        if self._searched:
            self._find(self._searched)
        else:
            self.action_find()

    def _find(self, text: str | None) -> None:
        if not text:
            return
        self._searched = text
        try:
            matcher(text)
        except UsageError as error:
            self.say(str(error))
            return
        self._is_stopping_search.clear()
        self._search(text, self.packets.list.index, self.packets.list.row)

    @work(thread=True, group="find", exclusive=True)
    def _search(self, text: str, index: RowIndex, row: int) -> None:
        def goes_on(at: int) -> bool:
            if at:
                self.call_from_thread(self.say, f"looking, at row {at:,} · Esc stops")
            return not self._is_stopping_search.is_set()

        try:
            found_row = search(self.inspection.store, index, row, text, goes_on)
        except InterruptedError:
            self.call_from_thread(self.say, "the search was stopped")
        except DcpInspectError as error:
            self.call_from_thread(self.say, str(error))
        else:
            if found_row is None:
                self.call_from_thread(self.say, f"no {escape(text)} after row {row:,}")
            else:
                self.call_from_thread(self.say, "")
                self.call_from_thread(self.to_row, found_row)

    # -- the rest -----------------------------------------------------------------------------------------

    def action_display(self) -> None:
        """Shows it in the other way."""
        if self.view == "vbuckets":
            self.grid.next_measure()
            self._draw_grid()
        elif self.view == "packets":
            if self.screen.has_class("-narrow"):
                self.packets.details.toggle_class("bytes")
            else:
                pane = self.packets.bytes
                pane.form = "hex" if pane.form == "grid" else "grid"
                pane.set_class(pane.form == "hex", "hex")

    def action_layout(self) -> None:
        """Panes beside each other, or below."""
        self.packets.split.toggle_class("beside")

    def action_maximize(self) -> None:
        """The pane as large as the screen."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused, container=False)

    def action_mark(self) -> None:
        """Marks the row, or not any more."""
        row = self.packets.list.row
        if row:
            self.packets.list.marks ^= {row}
            self.packets.list.refresh()
            self.say(f"{len(self.packets.list.marks)} marked")

    def action_next_mark(self) -> None:
        """The next mark, after the last the first."""
        marks = sorted(self.packets.list.marks)
        if marks:
            self.to_row(next((row for row in marks if row > self.packets.list.row), marks[0]))
        else:
            self.say("nothing is marked: m marks a row")

    def action_copy(self) -> None:
        """To the terminal's clipboard."""
        if self.view == "findings":
            text = found.about(self.finding_list.shown, self.glyphs, self.finding_list.evidence).plain
        elif self.view == "timeline":
            text = self.lanes.spoken()
        elif self.packets.fields.has_focus and self.packets.field is not None:
            field = self.packets.field
            text = escape(str(field.value)) if field.value is not None and not isinstance(field.value, bytes) else field.raw.hex()
        elif self.packets.bytes.has_focus and self.packets.field is not None and not self.packets.field.hidden:
            text = self.packets.field.raw.hex()
        else:
            text = self.packets.list.text_of(self.packets.list.row).strip() if self.packets.list.row else ""
        if text:
            self.copy_to_clipboard(text)
            self.say(f"copied {clip(text.splitlines()[0], 60)}")

    def action_export(self) -> None:
        """To a file that is named."""
        marks, index = self.packets.list.marks, self.packets.list.index
        rows = np.array(sorted(marks), np.int64) if marks else index.rows(0, len(index))
        if not len(rows):
            self.say("there is nothing to export: no row is shown")
            return
        what = f"export the {len(rows):,} {'marked' if marks else 'shown'} messages to the file"
        self.push_screen(Prompt(what, hint=f"a name that ends in {', '.join(NAMES)}"), lambda path: self._named(path, rows))

    def _named(self, path: str | None, rows: Rows) -> None:
        if not path or not path.strip():
            return
        path = os.path.expanduser(path.strip())
        try:
            refuse(path, self.inspection)
        except UsageError as error:
            self.say(str(error))
            return
        self._is_exporting.set()
        self._export(path, rows)

    @work(thread=True, group="export", exclusive=True)
    def _export(self, path: str, rows: Rows) -> None:
        due = 0.0

        def tell(share: float) -> None:
            nonlocal due
            if not self._is_exporting.is_set():
                raise UsageError("stopped: nothing was written")
            if time.monotonic() > due:
                due = time.monotonic() + BEAT
                self.call_from_thread(self.say, f"exporting {share:.0%} to {escape(path)} · Esc stops")

        try:
            export(path, self.inspection, rows, tell)
        except (DcpInspectError, OSError) as error:
            said = str(error)
        else:
            said = f"{len(rows):,} messages are in {escape(path)}"
        if self.is_running:
            self.call_from_thread(self.say, said)
        self._is_exporting.clear()

    def exit(self, *arguments: Any, **options: Any) -> None:
        """As Textual's; what runs behind ends."""
        self._is_exporting.clear()
        self._is_stopping_search.set()
        super().exit(*arguments, **options)

    async def action_quit(self) -> None:
        """Leaves; asks before what is nowhere else is gone."""
        if self.inspection.is_saved or not self.inspection.store.rows:
            self.exit()
        elif not isinstance(self.screen, Question):
            what = f"{self.inspection.store.rows:,} messages are in no file, and gone when you leave"
            self.push_screen(Question(what, "leave"), lambda is_wanted: self.exit() if is_wanted else None)

    def action_help(self) -> None:
        """Keys and glyphs."""
        glyphs = self.glyphs
        lines = [f"{glyphs.error} error  {glyphs.warning} warning  {glyphs.note} note  {glyphs.mark} marked  {glyphs.link} Enter follows"]
        if self.view == "timeline":
            lines = [*legend(self.lane_glyphs), f"of several gaps in a cell the worst shows, in this order: {' '.join(LETTERS.values())}"]
        elif self.view == "vbuckets":
            lines.append(self.grid.legend())
        self.push_screen(Help(self.view, "\n".join(lines)))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action by name, and the filters that have names."""
        yield from super().get_system_commands(screen)
        for key in KEYS:
            if not key.action.startswith(("app.", "pane")) and self.view in key.views:
                yield SystemCommand(key.text, f"key {key.shown}", lambda action=key.action: self.call_later(self.run_action, action))
        for name, preset in FILTERS.items():
            yield SystemCommand(f"filter: {name}", preset.doc, lambda name=name: self.call_later(self.bar.apply, f"@{name}"))
