"""The second view: the grid of all vbuckets with what is known of the one under the cursor, or the table of all streams."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from dcpinspect.tui import vbucket_grid
from dcpinspect.tui.export import Choice, of_vbucket, table
from dcpinspect.tui.inspection import Results
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.stream_table import StreamTable, about
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.vbucket_grid import VbucketGrid
from dcpinspect.tui.view import Host, View


class VbucketsView(View):
    """Grid on the left, one vbucket on the right."""

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id="vbuckets")
        self.host = host
        self.grid = VbucketGrid(glyphs, id="grid")
        self.table = StreamTable(glyphs, id="streams")
        self._about, self._legend, self._hot = Static(id="grid-about-text"), Static(id="grid-legend"), Static(id="grid-hot")
        self._stream_about = Static(id="stream-about")
        self._is_old = True

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="grid-side"):
            yield self.grid
            yield self._legend
        with VerticalScroll(id="grid-about", can_focus=False):
            yield self._hot
            yield self._about
        with Vertical(id="stream-side"):
            yield self.table
            yield self._stream_about

    @property
    def is_table(self) -> bool:
        """Whether the table is shown, not the grid."""
        return self.has_class("table")

    @property
    def keyboard(self) -> VbucketGrid | StreamTable:
        """The grid, or the table."""
        return self.table if self.is_table else self.grid

    def take_up(self, results: Results) -> None:
        """What is known by now, once the view is shown: following a capture costs nothing here until then."""
        del results
        self._is_old = True
        if self.display:
            self.arrive()

    def arrive(self) -> None:
        """What is known by now, and of the vbucket under the cursor."""
        if self._is_old:
            self._is_old = False
            results = self.host.inspection.results
            is_live = self.host.inspection.state == "reading"
            self.grid.show(results.records.get("vbuckets"), results.records.get("snapshots"), is_live=is_live)
            if self.is_table:
                self.table.show(results.records.get("streams"), results.findings)
        self._tell()

    @on(StreamTable.Moved)
    def _stream_moved(self) -> None:
        self._stream_about.update(Text(f" {self.table.about_narrowed()}\n {about(self.table.stream)}"))

    def action_layout(self) -> None:
        """The grid, or the table; the cursor stays in its vbucket."""
        if self.is_table:
            vbucket = self.vbucket_here
            self.remove_class("table")
            if vbucket is not None:
                self.grid.move_to(vbucket)
        else:
            self.add_class("table")
            results = self.host.inspection.results
            self.table.show(results.records.get("streams"), results.findings)
            self.table.select(self.grid.vbucket)
        self.keyboard.focus()

    @on(VbucketGrid.Moved)
    def _tell(self) -> None:
        """What is known of the vbucket under the cursor."""
        number = self.grid.vbucket
        self._about.update(vbucket_grid.about(number, self.grid.cells.by_number.get(number, ())))
        self._legend.update(self.grid.legend())
        self._hot.update(self.grid.hot_text())

    def spot(self) -> Spot:
        """Which vbucket, or which stream."""
        return Spot("vbuckets", vbucket=self.vbucket_here, stream=self.table.key if self.is_table else None)

    def restore(self, spot: Spot) -> None:
        """As it was."""
        if self.is_table != (spot.stream is not None):
            self.action_layout()
        if spot.stream is not None:
            self.table.select_key(spot.stream)
        elif spot.vbucket is not None:
            self.grid.move_to(spot.vbucket)

    def legend(self) -> Sequence[str]:
        """Of the heights."""
        return (self.grid.legend().plain,)

    @property
    def vbucket_here(self) -> int | None:
        """Of the cell, or of the stream, under the cursor."""
        if self.is_table:
            return None if self.table.key is None else self.table.key[1]
        return self.grid.vbucket

    def exports(self) -> Sequence[Choice]:
        """The messages of the vbucket under the cursor, and the table of all."""
        inspection, number = self.host.inspection, self.vbucket_here
        offered = [of_vbucket(inspection, number)] if number is not None and number in self.grid.cells.by_number else []
        if self.is_table and len(self.table):
            offered.append(table(f"the table of the {len(self.table):,} streams that are shown", "streams", self.table.shown))
        records = inspection.results.records.get("vbuckets")
        if records is not None and len(records):
            offered.append(table(f"the table of {len(records):,} vbuckets", "vbuckets", records))
        return offered

    @on(VbucketGrid.Opened)
    def _opened(self, event: VbucketGrid.Opened) -> None:
        if event.vbucket in self.grid.cells.by_number:
            self.host.to_vbucket(event.vbucket)
        else:
            self.host.say(f"vbucket {event.vbucket} was not requested")

    @on(StreamTable.Opened)
    def _stream_opened(self) -> None:
        key, stream = self.table.key, self.table.stream
        if key is not None and stream is not None:
            self.host.to_vbucket(key[1], stream=key)

    def action_bad(self, back: bool = False) -> None:
        """To the next vbucket with an error or a warning."""
        if not self.keyboard.bad(back=back):
            self.host.say(f"no other {'stream' if self.is_table else 'vbucket'} has an error or a warning")

    def action_hot(self) -> None:
        """To the vbucket that has most of the measure, and on to the next."""
        if not self.is_table and not self.grid.next_hot():
            self.host.say(f"no vbucket has any: {self.grid.measure}")

    def action_near(self, steps: int) -> None:
        """To the next vbucket that has streams, or to the next stream."""
        if self.is_table:
            self.table.action_step(steps)
            return
        numbers = self.host.inspection.results.vbuckets
        others = [number for number in numbers if (number > self.grid.vbucket if steps > 0 else number < self.grid.vbucket)]
        if others:
            self.grid.move_to(others[0] if steps > 0 else others[-1])

    def action_display(self) -> None:
        """The next measure; or sorted by the column of the cursor."""
        if self.is_table:
            self.table.sort()
        else:
            self.grid.next_measure()
            self._tell()

    def action_by_this(self, how: str = "") -> None:
        """The messages of the vbucket under the cursor; in the table only streams like this one in the cursor's column, or only others."""
        if self.is_table and how:
            self.table.narrow(is_wanted=how != "not")
        elif self.is_table and self.table.key is not None:
            connection, vbucket, sid, _ = self.table.key
            self.host.to_filter(f"connection = {connection} and vbucket = {vbucket}{f' and sid = {sid}' if sid >= 0 else ''}")
        elif self.vbucket_here is not None:
            self.host.to_filter(f"{'not ' if how == 'not' else ''}vbucket = {self.vbucket_here}")

    def leave(self) -> bool:
        """Out of what the table was narrowed to; whether it was."""
        return self.is_table and self.table.widen()
