"""Moves between the views: jumps, the way back, and places that the user types."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textual.widgets import ContentSwitcher

from dcpinspect.errors import UsageError
from dcpinspect.findings.finding import ranges
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.text import clip
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.key_bindings import VIEWS
from dcpinspect.tui.notes import Notes
from dcpinspect.tui.place_syntax import parse_place
from dcpinspect.tui.view import Spot, View

if TYPE_CHECKING:
    from dcpinspect.tui.findings_view import FindingsView
    from dcpinspect.tui.overview_view import OverviewView
    from dcpinspect.tui.packets_view import PacketsView
    from dcpinspect.tui.stats_view import StatsView
    from dcpinspect.tui.timeline_view import TimelineView
    from dcpinspect.tui.vbuckets_view import VbucketsView

MOST_COPIED = 100_000
"""Greatest number of characters that are copied; terminals with OSC 52 take at most so many."""
MOST_JUMPS = 200
"""Number of places that are remembered."""


class Navigation(ContentSwitcher):
    """Holds the views, which use it to go to others. A view is made when it is first needed."""

    def __init__(
        self,
        inspection: Inspection,
        new_packets: Callable[[], PacketsView],
        say: Callable[[str], None],
        switched: Callable[[], None],
    ) -> None:
        """Makes the holder of views. ``new_packets`` makes the view of packets, which has settings
        of the user. ``say`` shows a short text to the user; ``switched`` is called when another view is
        shown.
        """
        super().__init__(id="views")
        self.inspection = inspection
        self.show_status = say
        self._new_packets = new_packets
        self._switched = switched
        self._behind: deque[Spot] = deque(maxlen=MOST_JUMPS)
        """The places before the one where the user is."""
        self._mounting = 0
        self.has_view = asyncio.Event()
        """Set once a view is shown, which takes the keys."""

    if TYPE_CHECKING:
        overview: OverviewView
        packets: PacketsView
        vbuckets: VbucketsView
        timeline: TimelineView
        findings: FindingsView
        stats: StatsView
    else:

        def __getattr__(self, name: str) -> View:
            """Makes a view when it is first asked for: its module has a class of its name."""
            if name not in VIEWS:
                raise AttributeError(name)
            if name == "packets":
                view = self._new_packets()
                view.filtering.catch_up()
            else:
                module = import_module(f"dcpinspect.tui.{name}_view")
                view = getattr(module, f"{name.capitalize()}View")(self)
            self.__dict__[name] = view
            return view

    def has(self, view: str) -> bool:
        """Whether a view was made."""
        return view in self.__dict__

    @property
    def view(self) -> View:
        """The view that is shown."""
        return self._named(self.current or "overview")

    def _named(self, name: str) -> View:
        view: View = getattr(self, name)
        return view

    @property
    def is_at_rest(self) -> bool:
        """Whether a view is shown, and none is about to be."""
        return self.has_view.is_set() and not self._mounting

    def take_up(self) -> None:
        """Gives new results to the views, and marks of earlier runs to the messages."""
        store = self.inspection.store
        if met := self.inspection.notes.meet(
            store.rows, lambda rows: store.batch_of(rows, ["time_ns"]).column(0).to_pylist()
        ):
            self.show_status(
                f"{met:,} messages have marks or notes from before; ' goes to the next"
            )
        for name in VIEWS:
            if self.has(name) and self._named(name).is_mounted:
                self._named(name).take_up()

    def from_thread(self, what: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function from a background thread, as long as the application runs."""
        if self.app.is_running:
            self.app.call_from_thread(what, *arguments)

    def copy(self, text: str) -> None:
        """Copies a text to the terminal's clipboard, unless it is longer than terminals take."""
        if len(text) > MOST_COPIED:
            self.show_status(
                f"not copied: {len(text):,} characters are more than a terminal takes; x "
                "exports them"
            )
        elif text:
            self.app.copy_to_clipboard(text)
            self.show_status(f"copied {clip(text.splitlines()[0], 60)}")

    # -- marks

    def mark(self, row: int) -> None:
        """Marks a message, or removes its mark."""
        notes = self.inspection.notes
        if notes.text(row):
            self.show_status(f"row {row} has a note: ; changes it, or removes it where it is empty")
            return
        notes.mark(row, self._time_of(row))
        self.packets.list.refresh()
        self.show_status(
            f"row {row} is {'marked' if row in notes.of else 'not marked'}: "
            f"{len(notes.of):,} in all; x exports them{_why_not_saved(notes)}"
        )

    def note(self, row: int) -> None:
        """Asks for a note on a message."""
        from dcpinspect.tui.dialogs import Prompt  # deferred: until somebody writes one

        notes = self.inspection.notes

        def write(text: str | None) -> None:
            if text is not None:
                notes.write(row, self._time_of(row), text)
                self.packets.list.refresh()
                self.packets.redraw_row(row)
                self.show_status(
                    f"row {row} "
                    f"{'has a note' if notes.text(row) else 'has no note'}{_why_not_saved(notes)}"
                )

        self.app.push_screen(Prompt(f"note on row {row}", notes.text(row)), write)

    def _time_of(self, row: int) -> int:
        return int(self.inspection.store.batch_of([row], ["time_ns"]).column(0)[0].as_py())

    def action_next_mark(self) -> None:
        """Goes to the next mark; after the last mark, to the first."""
        marks, here = self.inspection.notes.rows, self.packets.list.row
        if marks:
            self.to_row(next((row for row in marks if row > here), marks[0]))
        else:
            self.show_status("no row is marked; m marks one")

    # -- jumps and the way back

    def leave(self) -> None:
        """Remembers where the user is, before a jump."""
        spot = replace(self.view.spot(), connection=self.inspection.connection)
        if not self._behind or self._behind[-1] != spot:
            self._behind.append(spot)

    def action_return(self) -> None:
        """Goes back to the place that the user came from."""
        if self._behind:
            spot = self._behind.pop()
            self._choose(spot.connection)
            self.switch(spot.view, lambda: self.view.restore(spot))

    def choose(self, connection: int | None) -> None:
        """Shows one connection alone, or all; the way back restores what was shown before."""
        if connection != self.inspection.connection:
            self.leave()
            self._choose(connection)

    def _choose(self, connection: int | None) -> None:
        if connection != self.inspection.connection:
            self.inspection.choose(connection)
            self.take_up()
            only = None if connection is None else parse_filter(f"connection = {connection}")
            self._mounted("packets", partial(self.packets.filtering.narrow, only))
            self._switched()

    def switch(self, name: str, then: Callable[[], object] = lambda: None) -> None:
        """Shows a view, and then calls ``then`` to go to a place in it."""

        def show() -> None:
            self.current = name
            self.view.arrive()  # which may choose what has the keys
            self.view.keyboard.focus()
            self.has_view.set()
            self._switched()
            then()

        self._mounted(name, show)

    def _mounted(self, name: str, then: Callable[[], object]) -> None:
        """Calls ``then`` once a view is mounted. The application waits for it with the next key."""
        view = self._named(name)
        if view.is_mounted and not self._mounting:
            then()
            return

        async def mount() -> None:
            try:
                if not self.is_attached:
                    return  # the application ends meanwhile
                if not view.is_mounted:
                    view.display = False
                    await self.mount(view)
                    view.take_up()
                then()
            finally:
                self._mounting -= 1

        self._mounting += 1
        self.app.call_later(mount)

    # -- ways

    def action_view(self, view: str, then: Callable[[], object] = lambda: None) -> None:
        """Shows another view, and then calls ``then``; by default, of the timeline, goes to the
        vbucket that the map or a finding chose, or that it showed before, or to the worst.
        """
        view_before = self.view
        if view == view_before.id and not self._mounting:
            then()
            return
        self.leave()
        vbucket = None
        if view == "timeline":
            results, vbucket_before = self.inspection.results, self.timeline.lanes.content.vbucket
            if vbucket_before is None or view_before.id in ("vbuckets", "findings"):
                vbucket = view_before.vbucket_here
            is_there = view_before.id != "packets" or vbucket in results.vbuckets
            if vbucket_before is None and (vbucket is None or not is_there):
                vbucket = results.worst_vbucket
            elif vbucket == vbucket_before:  # its cursor stays
                vbucket = None
        if vbucket is not None:
            then = partial(self.timeline.show, vbucket)
        self.switch(view, then)

    def to_row(self, row: int, *fields: str) -> None:
        """Goes to a message in the view of packets, and to the first of ``fields`` that it has."""
        store = self.inspection.store
        if not store.first_row <= row <= store.rows:
            self.show_status(f"there is no row {row}; rows are {store.first_row} to {store.rows}")
            return
        self.leave()

        def show_row() -> None:
            hides = self.inspection.connection is not None or self.packets.filtering.text
            if hides and not self.packets.list.index.has(row):
                self._choose(None)
                self.packets.bar.reset("")
                self.packets.filtering.set("", None)
                self.show_status(f"row {row} was hidden: all rows are shown; Backspace goes back")
            self.packets.show_row(row, *fields)

        if self.current == "packets":
            show_row()
        else:
            self.switch("packets", show_row)

    def to_map(self, vbucket: int) -> None:
        """Goes to a vbucket on the map of vbuckets."""
        self.leave()
        self.switch("vbuckets", partial(self.vbuckets.show_map, vbucket))

    def to_bad_row(self, *, back: bool = False) -> None:
        """Goes to the next error or warning that the filter does not hide, or to the one before."""
        rows = self.packets.list
        row = self.inspection.results.marked.next_bad(rows.row, rows.index, back=back)
        if row is None:
            self.show_status(
                "no error or warning before here" if back else "no error or warning after this row"
            )
        else:
            self.to_row(row)

    def to_vbucket(
        self,
        vbucket: int,
        seqno: int | None = None,
        *,
        since_ns: int | None = None,
        row: int = 0,
    ) -> None:
        """Goes to the timeline of a vbucket, and there to a message, a seqno or a time."""
        self.leave()
        self.switch("timeline", partial(self.timeline.show, vbucket, seqno, None, since_ns, row))

    def to_finding(
        self, number: int, others: Sequence[int] = (), *, row: int = 0, vbucket: int | None = None
    ) -> None:
        """Goes to a finding, one of the findings ``others`` of a message, and there to the row of
        its evidence, or to what shows it best of a vbucket.
        """
        self.leave()
        self.findings.others = others
        choose = partial(self.findings.choose, number, row=row, vbucket=vbucket)
        self.switch("findings", choose)

    def action_filter(self) -> None:
        """Gives the focus to the filter of messages; who leaves it comes back."""
        self.packets.is_visited = self.view is not self.packets
        self.action_view("packets", lambda: self.packets.bar.input.focus())

    def go_to(self, text: str) -> None:
        """Goes to a place that the user typed."""
        try:
            position = parse_place(text, self.inspection.reading.first_time_ns or 0)
        except UsageError as error:
            self.show_status(str(error))
            return
        number = position.number
        if position.kind == "row":
            self.to_row(number)
        elif position.kind == "vbucket":
            vbuckets = self.inspection.results.vbuckets
            if number not in vbuckets:
                hint = f"; there are {ranges(vbuckets)}" if vbuckets else ""
                self.show_status(f"there is no vbucket {number}{hint}")
            elif self.current == "vbuckets" and position.seqno is None:
                self.vbuckets.move_to(number)
            else:
                self.to_vbucket(number, position.seqno)
        elif position.kind == "rule":
            rules = [finding.rule for finding in self.inspection.results.findings]
            if position.rule in rules:
                self.to_finding(rules.index(position.rule))
            else:
                self.show_status(f"no finding of the rule {position.rule}")
        else:
            column = "last_frame" if position.kind == "frame" else "time_ns"
            rows = self.inspection.store.matching(FilterRows(parse_filter(f"{column} >= {number}")))
            if len(rows):
                self.to_row(int(rows[0]))
            else:
                self.show_status("no message at or after it")


def _why_not_saved(notes: Notes) -> str:
    return f" ({notes.why})" if notes.why else ""
