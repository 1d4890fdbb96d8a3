"""The second view: the map of all vbuckets with details of one, several maps to compare, the heat map, or the table of streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from dcpinspect.tui.export import Choice, of_vbucket, table
from dcpinspect.tui.heat_map import HeatMap
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.results import Results
from dcpinspect.tui.small_map import SmallMap
from dcpinspect.tui.stream_table import StreamTable, about
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.vbucket_about import about as about_vbucket
from dcpinspect.tui.vbucket_about import about_in_short
from dcpinspect.tui.vbucket_grid import VbucketGrid
from dcpinspect.tui.vbucket_maps import VbucketMaps, several
from dcpinspect.tui.view import Host, View

Form = Literal["grid", "maps", "heat", "table"]
FORMS: Sequence[Form] = ("grid", "maps", "heat", "table")
"""Forms in the order of the key; ``maps`` only if there are several."""


class VbucketsView(View):
    """The grid with details of one vbucket beside it, the maps, the heat map, or the table of streams."""

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id="vbuckets")
        self.host = host
        self.grid = VbucketGrid(glyphs, id="grid")
        self.maps, self._maps_about = VbucketMaps(glyphs, id="maps"), Static(id="maps-about")
        self.heat = HeatMap(glyphs, id="heat")
        self.table = StreamTable(glyphs, id="streams")
        self._about, self._legend, self._hot = Static(id="grid-about-text"), Static(id="grid-legend"), Static(id="grid-hot")
        self._scale, self._stream_about = Static(id="grid-scale"), Static(id="stream-about")
        self._heat_legend, self._heat_about = Static(id="heat-legend"), Static(id="heat-about")
        self._is_old = True

    def compose(self) -> ComposeResult:
        """Yields the widgets of the view."""
        with Vertical(id="grid-side"):
            yield self.grid
            yield self._legend
        with Vertical(id="maps-side"):
            yield self.maps
            yield self._maps_about
        with Vertical(id="heat-side"):
            yield self.heat
            yield self._heat_legend
            yield self._heat_about
        with VerticalScroll(id="grid-about", can_focus=False):
            yield self._scale
            yield self._hot
            yield self._about
        with Vertical(id="stream-side"):
            yield self.table
            yield self._stream_about

    @property
    def form(self) -> Form:
        """The form that is shown, one of ``FORMS``."""
        return next((form for form in FORMS if self.has_class(form)), "grid")

    @property
    def is_table(self) -> bool:
        """Whether the table of streams is shown."""
        return self.form == "table"

    @property
    def is_maps(self) -> bool:
        """Whether the maps of several clients or nodes are shown."""
        return self.form == "maps"

    @property
    def is_heat(self) -> bool:
        """Whether the heat map is shown."""
        return self.form == "heat"

    @property
    def keyboard(self) -> VbucketGrid | SmallMap | HeatMap | StreamTable:
        """The widget that is shown, which gets the focus."""
        return self.maps.keyboard if self.is_maps else self.table if self.is_table else self.heat if self.is_heat else self.grid

    def take_up(self, results: Results) -> None:
        """Shows new results if the view is shown; following a capture costs nothing here while it is hidden."""
        del results
        self._is_old = True
        if self.display:
            self.arrive()

    def arrive(self) -> None:
        """Shows the latest results, and the details of the vbucket under the cursor."""
        if self._is_old:
            self._is_old = False
            results = self.host.inspection.results
            is_live = self.host.inspection.state == "reading"
            self.grid.show(results, is_live=is_live)
            self._fill()
        self._tell()

    def _fill(self) -> None:
        """Gives the latest results to the shown form, if it is not the grid."""
        inspection = self.host.inspection
        if self.is_table:
            self.table.show(inspection.results.records.get("streams"), inspection.results.findings)
        elif self.is_maps:
            self.maps.show(inspection.results)
        elif self.is_heat:
            self.heat.show(inspection.results, inspection.reading.first_time_ns or 0)

    @on(StreamTable.Moved)
    def _stream_moved(self) -> None:
        self._stream_about.update(Text(f"{self.table.about_narrowed()}\n{about(self.table.stream)}"))

    def action_layout(self) -> None:
        """Shows the next form: grid, maps, heat map, table. The cursor stays on its vbucket."""
        forms = [form for form in FORMS if form != "maps" or len(several(self.host.inspection.results)) > 1]
        self._show_form(forms[(forms.index(self.form) + 1) % len(forms)] if self.form in forms else "grid")

    def show_grid(self, vbucket: int) -> None:
        """Shows a vbucket on the grid."""
        if self.form != "grid":
            self._show_form("grid")
        self.grid.move_to(vbucket)

    def _show_form(self, form: Form) -> None:
        vbucket = self.vbucket_here
        for one in FORMS:
            self.set_class(one == form, one)
        self._fill()
        if vbucket is not None:
            {"grid": self.grid.move_to, "maps": self.maps.move_to, "heat": self.heat.move_to, "table": self.table.select}[form](vbucket)
        self.keyboard.focus()

    @on(VbucketMaps.Moved)
    def _maps_moved(self) -> None:
        self.grid.move_to(self.maps.vbucket)
        self._maps_about.update(self.maps.about())

    def on_descendant_focus(self) -> None:
        """Shows the details of the map that has the focus now."""
        if self.is_maps:
            self._maps_moved()

    @on(HeatMap.Moved)
    def _heat_moved(self) -> None:
        self._heat_about.update(Text(f" {self.heat.spoken()}"))
        self._heat_legend.update(self.heat.legend())

    @on(VbucketGrid.Moved)
    def _tell(self) -> None:
        """Shows the details of the vbucket under the cursor."""
        number, is_narrow = self.grid.vbucket, self.screen.has_class("-narrow")
        rows = self.grid.cells.by_number.get(number, ())
        self._about.update(about_in_short(number, rows) if is_narrow else about_vbucket(number, rows))
        self._legend.update(self.grid.legend(max(1, self.grid.size.width - 2)))
        self._scale.update(self.grid.legend())
        self._hot.update(self.grid.hot_text())

    def on_resize(self) -> None:
        """Fits the details to the new size."""
        self._tell()

    def spot(self) -> Spot:
        """Returns which vbucket or which stream is under the cursor."""
        since_ns = self.heat.span[0] if self.is_heat else None
        form = self.form if self.is_maps else ""
        return Spot("vbuckets", vbucket=self.vbucket_here, stream=self.table.key if self.is_table else None, since_ns=since_ns, form=form)

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        self._show_form(
            "table" if spot.stream is not None else "heat" if spot.since_ns is not None else "maps" if spot.form == "maps" else "grid"
        )
        if spot.stream is not None:
            self.table.select_key(spot.stream)
        elif spot.vbucket is not None and spot.since_ns is not None:
            self.heat.move_to(spot.vbucket, spot.since_ns)
        elif self.is_maps and spot.vbucket is not None:
            self.maps.move_to(spot.vbucket)
        elif spot.vbucket is not None:
            self.grid.move_to(spot.vbucket)

    def legend(self) -> Sequence[str]:
        """Returns the legend of the heat map or the grid."""
        return (self.heat.legend().plain if self.is_heat else self.grid.legend().plain,)

    @property
    def vbucket_here(self) -> int | None:
        """Number of the vbucket under the cursor, or of the stream under it."""
        if self.is_table:
            return None if self.table.key is None else self.table.key[1]
        return self.maps.vbucket if self.is_maps else self.heat.vbucket if self.is_heat else self.grid.vbucket

    def exports(self) -> Sequence[Choice]:
        """Returns the choices to export the messages of the vbucket under the cursor, and the shown table."""
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

    @on(HeatMap.Opened)
    def _heat_opened(self, event: HeatMap.Opened) -> None:
        self.host.to_vbucket(event.vbucket, span=event.span)

    @on(SmallMap.Opened)
    def _map_opened(self, event: SmallMap.Opened) -> None:
        self.host.to_vbucket(event.vbucket)

    @on(StreamTable.Opened)
    def _stream_opened(self) -> None:
        key, stream = self.table.key, self.table.stream
        if key is not None and stream is not None:
            self.host.to_vbucket(key[1], stream=key)

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next vbucket with an error or a warning, or to the one before."""
        keyboard = self.table if self.is_table else self.maps if self.is_maps else self.grid
        if self.is_heat and self.heat.vbucket is not None:
            self.grid.move_to(self.heat.vbucket)
        if keyboard.bad(back=back):
            self.heat.move_to(self.grid.vbucket)
        else:
            self.host.say(f"no other {'stream' if self.is_table else 'vbucket'} has an error or a warning")

    def action_hot(self) -> None:
        """Moves to the vbucket, or to the cell of the heat map, with the greatest measure, and from there to the next."""
        if self.is_heat:
            self.heat.next_hot()
        elif self.is_maps:
            if not self.maps.next_hot():
                self.host.say(f"no vbucket has any: {self.maps.measure}")
        elif not self.is_table and not self.grid.next_hot():
            self.host.say(f"no vbucket has any: {self.grid.measure}")

    def action_near(self, steps: int) -> None:
        """Moves to the next vbucket with streams, or to the next stream, or back."""
        if self.is_table:
            self.table.action_step(steps)
            return
        if self.is_heat:
            if not self.heat.near(steps):
                self.host.say("nothing else happens in this row")
            return
        numbers = self.host.inspection.results.vbuckets
        others = [number for number in numbers if (number > self.grid.vbucket if steps > 0 else number < self.grid.vbucket)]
        if others:
            self.grid.move_to(others[0] if steps > 0 else others[-1])
            if self.is_maps:
                self.maps.move_to(self.grid.vbucket)

    def action_display(self) -> None:
        """Shows the next measure; sorts the table by the column under the cursor."""
        if self.is_table:
            self.table.sort()
        elif self.is_heat:
            self.heat.next_display()
        elif self.is_maps:
            self.maps.next_measure()
        else:
            self.grid.next_measure()
            self._tell()

    def action_by_this(self, how: str = "") -> None:
        """Shows the messages of the vbucket under the cursor.

        In the table, shows only streams with the value under the cursor, or only the others.
        """
        if self.is_table and how:
            self.table.narrow(is_wanted=how != "not")
        elif self.is_table and self.table.key is not None:
            connection, vbucket, sid, _ = self.table.key
            self.host.to_filter(f"connection = {connection} and vbucket = {vbucket}{f' and sid = {sid}' if sid >= 0 else ''}")
        elif self.vbucket_here is not None:
            self.host.to_filter(f"{'not ' if how == 'not' else ''}vbucket = {self.vbucket_here}")

    def action_mark(self) -> None:
        """Adds the vbucket under the cursor to those that timelines are compared with, or removes it."""
        if self.vbucket_here is not None and self.vbucket_here in self.grid.cells.by_number:
            self.host.mark_vbucket(self.vbucket_here)

    def action_zoom(self, steps: int) -> None:
        """Changes how many vbuckets share a line of the heat map."""
        if self.is_heat:
            self.heat.zoom(steps)
        else:
            self.host.say("+ and - zoom in the heat map; | shows it")

    def leave(self) -> bool:
        """Shows all streams in the table again. Returns whether some were hidden."""
        return self.is_table and self.table.widen()
