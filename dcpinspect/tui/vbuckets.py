"""The second view: the grid of all vbuckets, and what is known of the one under the cursor."""

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
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.vbucket_grid import VbucketGrid
from dcpinspect.tui.view import Host, View


class VbucketsView(View):
    """Grid on the left, one vbucket on the right."""

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id="vbuckets")
        self.host = host
        self.grid = VbucketGrid(glyphs, id="grid")
        self._about, self._legend = Static(id="grid-about-text"), Static(id="grid-legend")

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="grid-side"):
            yield self.grid
            yield self._legend
        with VerticalScroll(id="grid-about", can_focus=False):
            yield self._about

    @property
    def keyboard(self) -> VbucketGrid:
        """The grid."""
        return self.grid

    def take_up(self, results: Results) -> None:
        """What is known by now."""
        self.grid.show(results.records.get("vbuckets"))

    @on(VbucketGrid.Moved)
    def arrive(self) -> None:
        """What is known of the vbucket under the cursor."""
        number = self.grid.vbucket
        self._about.update(vbucket_grid.about(number, self.grid.cells.by_number.get(number, ())))
        self._legend.update(Text(self.grid.legend()))

    def spot(self) -> Spot:
        """Which vbucket."""
        return Spot("vbuckets", vbucket=self.grid.vbucket)

    def restore(self, spot: Spot) -> None:
        """As it was."""
        if spot.vbucket is not None:
            self.grid.move_to(spot.vbucket)

    def legend(self) -> Sequence[str]:
        """Of the heights."""
        return (self.grid.legend(),)

    @property
    def vbucket_here(self) -> int | None:
        """Of the cell under the cursor."""
        return self.grid.vbucket

    def exports(self) -> Sequence[Choice]:
        """The messages of the vbucket under the cursor, and the table of all."""
        inspection, number = self.host.inspection, self.grid.vbucket
        records = inspection.results.records.get("vbuckets")
        offered = [of_vbucket(inspection, number)] if number in self.grid.cells.by_number else []
        if records is not None and len(records):
            offered.append(table(f"the table of {len(records):,} vbuckets", "vbuckets", records))
        return offered

    @on(VbucketGrid.Opened)
    def _opened(self, event: VbucketGrid.Opened) -> None:
        if event.vbucket in self.grid.cells.by_number:
            self.host.to_vbucket(event.vbucket)
        else:
            self.host.say(f"vbucket {event.vbucket} was not asked for")

    def action_bad(self, back: bool = False) -> None:
        """To the next vbucket with an error or a warning."""
        if not self.grid.bad(back=back):
            self.host.say("no other vbucket has an error or a warning")

    def action_near(self, steps: int) -> None:
        """To the next vbucket that has streams."""
        numbers = self.host.inspection.results.vbuckets
        others = [number for number in numbers if (number > self.grid.vbucket if steps > 0 else number < self.grid.vbucket)]
        if others:
            self.grid.move_to(others[0] if steps > 0 else others[-1])

    def action_display(self) -> None:
        """The next measure."""
        self.grid.next_measure()
        self.arrive()

    def action_by_this(self) -> None:
        """The messages of the vbucket under the cursor."""
        self.host.to_filter(f"vbucket = {self.grid.vbucket}")
