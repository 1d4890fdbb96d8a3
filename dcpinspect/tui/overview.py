"""The capture at a glance: the verdict, the findings, all vbuckets, the rate of messages, and the connections. Enter opens a part."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from dcpinspect.escape import escape, one_line
from dcpinspect.render.findings import with_their_effects
from dcpinspect.render.lines import counted
from dcpinspect.render.verdict import NOTHING, verdict
from dcpinspect.tui.beside import difference
from dcpinspect.tui.connection_list import ConnectionList, Talk, talks
from dcpinspect.tui.finding_list import FindingList
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.rate import Rate
from dcpinspect.tui.results import Results
from dcpinspect.tui.small_map import SmallMap
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.vbucket_cells import edges
from dcpinspect.tui.view import Host, View

WIDE, TALL = 100, 28
"""Columns and lines of the screen from which there is room for more."""
LEAST_FOUND = 3
"""Least number of lines for findings; on a low screen other parts become shorter for them."""
MOST_TALKS = 8
"""Number of connections that are shown without scrolling on a high screen."""

Part = FindingList | SmallMap | Rate | ConnectionList


class OverviewView(View):
    """Parts that each lead to another view."""

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id="overview")
        self.host = host
        self._glyphs = glyphs
        self._said, self._legend = Static(id="overview-verdict"), Static(id="overview-legend")
        self.findings = FindingList(glyphs, is_brief=True, id="overview-findings")
        self.map = SmallMap(glyphs, id="overview-map")
        self._middle, self._map_side = Horizontal(id="overview-middle"), Vertical(id="overview-map-side")
        self.rate = Rate(glyphs, id="overview-rate")
        self.connections = ConnectionList(glyphs, id="overview-connections")
        self._parts: Sequence[Part] = (self.findings, self.map, self.rate, self.connections)
        self._here: Part = self.findings
        self._verdict_text = Text()
        self._shown, self._shown_beside = Results(), Results()
        self._talks: Sequence[Talk] = ()

    def compose(self) -> ComposeResult:
        """Yields the parts."""
        yield self._said
        with self._middle:
            yield self.findings
            with self._map_side:
                yield self.map
                yield self._legend
        yield self.rate
        yield self.connections

    @property
    def keyboard(self) -> Part:
        """The part that had the focus last."""
        return self._here

    def on_descendant_focus(self) -> None:
        """Remembers which part has the focus now."""
        self._here = next((part for part in self._parts if part.has_focus), self._here)

    def take_up(self, results: Results) -> None:
        """Shows new results if the view is shown."""
        del results
        if self.display:
            self.arrive()

    def arrive(self) -> None:
        """Shows the latest results."""
        results, inspection = self.host.inspection.results, self.host.inspection
        beside = self._shown_beside if self.host.beside is None else self.host.beside.results
        if self._shown is results and self._shown_beside is beside:
            return
        self._shown, self._shown_beside = results, beside
        self._talks = talks(inspection.everything)
        causes, _ = with_their_effects(results.findings)
        self._verdict_text = self._verdict(results)
        self._said.update(self._verdict_text)
        self.findings.show(results.findings, {}, is_final=inspection.state != "reading")
        self.findings.border_title = counted(len(causes), "finding") + " by cause" if causes else "findings"
        self.map.show(results.records.get("vbuckets"))
        measure = self.map.cells.telling()
        self.map.measure_by(measure, edges(self.map.cells.values(measure), measure), int(self.map.cells.values("items").max()))
        self.rate.show(results, inspection.reading.first_time_ns or 0)
        self.connections.show(self._talks, inspection.connection, has_all=inspection.connection is not None)
        alone = "" if inspection.connection is None else f"; connection {inspection.connection} is shown alone, Esc shows all"
        self.connections.border_title = f"{counted(len(self._talks), 'connection')}: who talks to whom{alone}"
        self._fit()

    def _verdict(self, results: Results) -> Text:
        """Returns the verdict in plain words: what is wrong, or that nothing is. Below it stands how much was checked."""
        causes, _ = with_their_effects(results.findings)
        worst = next((severity for severity in ("error", "warning") if any(one.severity == severity for one in causes)), "well")
        self._said.set_classes(worst)
        out = Text()
        out.append(f"{self._glyphs.error} " if worst == "error" else f"{self._glyphs.warning} " if worst == "warning" else "", "bold")
        if results.looked is None or not results.looked.messages:
            return out.append("no message was read" + (" so far" if self.host.inspection.state == "reading" else ""), "bold")
        out.append(one_line(verdict(causes, results.looked)), "bold")
        is_said = NOTHING in out.plain  # this sentence already says how much was checked
        lines = [" · ".join(filter(None, ["" if is_said else str(results.looked), _when(results)]))]
        if (beside := self.host.beside) is not None:
            lines.append(difference(results, beside.everything, escape(os.path.basename(beside.files[0]))))
        return out.append("".join(f"\n{line}" for line in lines), Style(bold=False, color="default"))

    def on_resize(self) -> None:
        """Fits the parts to the new size."""
        self._fit()

    def _fit(self) -> None:
        """Makes each part as high as it needs to be, if there is room."""
        is_tall, is_wide = self.size.height >= TALL, self.size.width >= WIDE
        is_alone = self.host.inspection.connection is not None
        talking = 2 + min(max(1, len(self._talks) + is_alone), MOST_TALKS if is_tall else 3)
        columns = max(10, self.size.width - 2)
        said = len(self._verdict_text.wrap(self.app.console, columns))
        below = 0 if is_wide or self.screen.has_class("-tiny") else self.map.fitting(self.size.width, 4) + 2
        self.findings.styles.min_height = 1 + min(LEAST_FOUND, self.findings.lines)
        needed = 1 + min(LEAST_FOUND, self.findings.lines) + below + (9 if is_tall else 5)
        if needed > self.size.height - talking - said:  # leaves out how much was checked, and shows fewer connections
            said = len(self._verdict_text.split("\n")[0].wrap(self.app.console, columns))
            talking = max(3, min(talking, self.size.height - said - needed))
        self._said.styles.max_height = said
        self.connections.styles.height = talking
        room, width = self.size.height - talking - said, self.size.width // 2 - 1 if is_wide else self.size.width
        least = 9 if is_tall else 5
        legend = self.map.legend(is_long=is_wide)
        self._legend.update(legend)
        words = len(legend.wrap(self.app.console, max(10, width - 2))) if is_wide else 1
        self._legend.styles.height = words
        cells = self.map.fitting(width, max(2, room - least - words - 1) if is_wide else 4)
        self.map.styles.height = cells
        self._map_side.styles.height = "1fr" if is_wide else cells + 2
        if is_wide:
            middle = max(2 + self.findings.lines, 2 + cells + words)
            self.rate.styles.height = max(least, min(room - middle, 2 * room // 3))
        else:
            self.rate.styles.height = least

    @on(SmallMap.Moved)
    def _name_map(self) -> None:
        here = f": vb {self.map.vbucket} {self.map.cells.verdict(self.map.vbucket).replace('-', ' ') or 'not requested'}"
        self._map_side.border_title = f"vbuckets{here if self.map.has_focus else ''}"

    @on(Rate.Moved)
    def _name_rate(self) -> None:
        self.rate.border_title = self.rate.words

    # -- from part to part, and in ------------------------------------------------------------------------

    def action_pane(self, what: str, *arguments: int) -> None:
        """Does what the focused part does. A step beyond its first or last line moves the focus to the next part."""
        here = self._here
        if what == "step" and here.is_at_edge[arguments[0] > 0]:
            place = self._parts.index(here) + (1 if arguments[0] > 0 else -1)
            if 0 <= place < len(self._parts):
                self._parts[place].focus()
            return
        action = getattr(here, f"action_{what}", None)
        if action is not None:
            action(*arguments)

    @on(FindingList.Opened)
    def _finding_opened(self, event: FindingList.Opened) -> None:
        self.host.to_finding(event.finding)

    @on(SmallMap.Opened)
    def _vbucket_opened(self, event: SmallMap.Opened) -> None:
        self.host.to_map(event.vbucket)

    @on(Rate.Opened)
    def _time_opened(self, event: Rate.Opened) -> None:
        self.host.to_time(event.time_ns)

    @on(ConnectionList.Opened)
    def _connection_opened(self, event: ConnectionList.Opened) -> None:
        self.host.choose(event.connection or None)

    @property
    def vbucket_here(self) -> int | None:
        """Number of the vbucket under the cursor of the map; None if another part has the focus."""
        return self.map.vbucket if self._here is self.map else None

    def action_finding(self) -> None:
        """Goes to the finding under the cursor, or to the worst finding about the vbucket under it."""
        if self._here is self.findings and self.findings.finding is not None:
            self.host.to_finding(self.findings.finding)
        else:
            super().action_finding()

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next error or warning, or to the one before."""
        part = self.map if self._here is self.map else self.findings
        if not part.bad(back=back):
            self.host.say("no other error or warning here")

    def action_display(self) -> None:
        """Switches the chart between messages and bytes."""
        self.rate.next_measure()

    def spot(self) -> Spot:
        """Returns which part has the focus."""
        return Spot("overview", top=self._parts.index(self._here))

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        self._parts[spot.top].focus()

    def legend(self) -> Sequence[str]:
        """Returns the legend of the map."""
        return (self.map.legend().plain,)


def _when(results: Results) -> str:
    """Returns when the capture began, and how long it lasts."""
    table = results.records.get("connections")
    times = [] if table is None else [time for name in ("first_time", "last_time") for time in table.values(name) if time is not None]
    if not times:
        return ""
    first, last = min(times), max(times)
    return f"{(last - first) / 1e9:,.3f} s from {datetime.fromtimestamp(first // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


MANY = 1_000_000
"""Number of messages from which a capture is large."""
LARGE = 100 * MANY
"""Size of a file, in bytes, that has about so many messages."""


def is_first(inspection: Inspection) -> bool:
    """Whether the overview is the first view: the capture is large, or has errors or warnings."""
    if inspection.is_live:
        return False
    is_large = (inspection.reading.capture.size or 0) >= LARGE or inspection.store.rows >= MANY
    return is_large or any(one.severity != "note" for one in inspection.results.findings)
