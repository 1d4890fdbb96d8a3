"""The capture at a glance: the verdict, the findings, all vbuckets, the rate of messages, and the
connections. Enter opens a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from dcpinspect.findings.cases import duration
from dcpinspect.output.render.finding_text import with_their_effects
from dcpinspect.output.render.verdict import NOTHING, verdict
from dcpinspect.protocol.message import Severity
from dcpinspect.text import counted, one_line
from dcpinspect.tui.connection_list import ConnectionList, Talk, talks
from dcpinspect.tui.finding_list import FindingList
from dcpinspect.tui.line_view import LineView
from dcpinspect.tui.rate import Rate
from dcpinspect.tui.results import Results
from dcpinspect.tui.vbucket_map import VbucketMap
from dcpinspect.tui.view import Spot, View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

WIDE = 100
"""Columns of the screen from which the map stands beside the chart and the connections."""
CHART, HIGHEST_CHART = 5, 8
"""Least and greatest height of the chart, with its title, signs and axis, in lines."""
MOST_TALKS = 6
"""Number of connections that are shown without scrolling."""
_BESIDE = 42
"""Width of what stands beside a map of many vbuckets, in columns."""


class OverviewView(View):
    """Parts that each lead to another view."""

    def __init__(self, host: Navigation) -> None:
        super().__init__(host, "overview")
        self._said, self._legend = Static(id="overview-verdict"), Static(id="overview-legend")
        self.findings = FindingList(is_alone=True, id="overview-findings")
        self.map = VbucketMap(id="overview-map")
        self._below, self._map_side, self._beside = (
            Container(id="overview-below"),
            Vertical(id="overview-map-side"),
            Vertical(),
        )
        self.rate = Rate(id="overview-rate")
        self.connections = ConnectionList(id="overview-connections")
        self._parts: Sequence[LineView] = (self.findings, self.map, self.connections)
        self._here: LineView = self.findings
        self._verdict_text = Text()
        self._shown = Results()
        self._talks: Sequence[Talk] = ()

    def compose(self) -> ComposeResult:
        """Yields the parts."""
        yield self._said
        yield self.findings
        with self._below:
            with self._map_side:
                yield self.map
                yield self._legend
            with self._beside:
                yield self.rate
                yield self.connections

    @property
    def keyboard(self) -> LineView:
        """The part that had the focus last."""
        return self._here

    def on_descendant_focus(self) -> None:
        """Remembers which part has the focus now."""
        self._here = next((widget for widget in self._parts if widget.has_focus), self._here)
        self._name_parts()

    def arrive(self) -> None:
        """Shows the latest results."""
        results, inspection = self.host.inspection.results, self.host.inspection
        if not self.is_mounted or self._shown is results:
            return
        self._shown = results
        self._talks = talks(inspection.everything)
        self._verdict_text = self._verdict(results)
        self._said.update(self._verdict_text)
        self.findings.show(results.findings, is_final=inspection.state != "reading")
        self.map.show(results)
        self.rate.show(results)
        self.connections.show(
            self._talks, inspection.connection, has_all=inspection.connection is not None
        )
        self.fit()
        self._name_parts()

    @on(LineView.Moved)
    def _name_parts(self) -> None:
        """Writes the titles of the parts, and gives the chosen finding the room that it needs."""
        if self.findings.lines_of(self.findings.at)[1] > self.findings.size.height:
            self.fit()
        causes, inspection = self.findings.count, self.host.inspection
        self.findings.border_title = (
            counted(causes, "finding") + ", the worst first" if causes else "findings"
        )
        number = self.map.vbucket
        state = self.map.cells.words(number) or "not requested"
        share = self.map.form.each
        self._map_side.border_title = (
            counted(len(self.map.cells.by_number), "vbucket")
            + (f", {share} a cell" if share > 1 else "")
            + (", the worst first" if self.map.is_worst_first else "")
        ) + (f": vb {number} {state}" if self.map.has_focus and self.map.count else "")
        alone = (
            ""
            if inspection.connection is None
            else f"; connection {inspection.connection} is shown alone, Esc shows all"
        )
        self.connections.border_title = f"{counted(len(self._talks), 'connection')}{alone}"

    def _verdict(self, results: Results) -> Text:
        """Returns the verdict in plain words: what is wrong, or that nothing is. Below it stands
        how much was checked.
        """
        causes, _ = with_their_effects(results.findings)
        severities = {cause.severity for cause in causes}
        worst: Severity | None = (
            "error" if "error" in severities else "warning" if "warning" in severities else None
        )
        text = Text(f"{self._glyphs.of_severity(worst)} " if worst else "", "bold")
        if results.looked is None or not results.looked.messages:
            inspection = self.host.inspection
            reads = " so far" if inspection.state == "reading" else ""
            return text.append(inspection.nothing or f"no message was read{reads}", "bold")
        sentence = one_line(verdict(causes))
        # what a user would ask about, such as a rollback, is not green
        self._said.set_classes(worst or ("well" if sentence.startswith(NOTHING) else ""))
        first, last = self.host.inspection.reading.ends
        facts = (
            f"\n{results.looked} · {duration(last - first)} from "
            f"{datetime.fromtimestamp(first // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
        return text.append(sentence, "bold").append(facts, Style(bold=False, color="default"))

    def fit(self) -> None:
        """Gives each part the room that it needs: first the errors and warnings, then a few lines
        of the map, the chart and the connections.
        """
        width, height = self.size
        is_wide = width >= WIDE
        self.set_class(is_wide, "-beside")
        columns = (
            width
            if not is_wide
            else width // 2
            if self.map.cells.has_few or width < 2 * WIDE // 3 + _BESIDE
            else width - _BESIDE
        )
        legend = self.map.legend(columns - 2)
        words = len(legend.split("\n")) if legend else 0
        # the whole advice of the chosen finding says more than facts, a map or a chart
        advice = 1 + self.findings.lines_of(self.findings.at)[1]
        sentence_lines, verdict_lines = (
            len(text.wrap(self.app.console, max(10, width - 2)))
            for text in (self._verdict_text.split("\n")[0], self._verdict_text)
        )
        if verdict_lines + advice + 2 + words > height:
            verdict_lines = sentence_lines
        self._said.styles.max_height = verdict_lines
        below_verdict = height - verdict_lines
        least = min(self.findings.lines, max(4, height // 3) if is_wide else 7)
        lines = max(3, height // 5)
        mapped = 1 + self.map.needed(columns, lines) + words
        most = below_verdict - (max(mapped, CHART + 3) if is_wide else mapped)
        bad = min(most, 1 + self.findings.needed(most, is_bad_only=True))
        free = below_verdict - max(advice, bad, min(1 + least, below_verdict - 2 - words))
        talking = 1 + self.connections.needed(width - columns - 1 if is_wide else width, MOST_TALKS)
        if is_wide:
            lines = self.map.needed(columns, max(1, free - 1 - words))
            below = min(free, max(1 + lines + words, CHART + talking))
            above = below_verdict - below - 1
            below += max(0, above - self.findings.needed(above))  # no row between them is empty
            beside = below
            room = max(1, below - 1 - words)
            columns, legend = self._narrowed(columns, room, legend)
            lines = self.map.needed(columns, room)
        else:
            has_chart = free >= CHART + 2 + words
            lines = min(free - CHART * has_chart - 1 - words, lines)
            lines = self.map.needed(columns, max(1, lines))
            mapped = 1 + lines + words
            beside = min(max(0, free - mapped), CHART + talking)
            beside = beside if beside >= CHART + 3 else CHART if beside >= CHART else 0
            below = mapped + beside
        self._below.display = free >= 2 + words
        self._legend.update(legend)
        self._below.styles.height, self.map.styles.height = below, lines
        self._map_side.styles.width, self._map_side.styles.height = (
            (columns, below) if is_wide else ("1fr", below - beside)
        )
        self._beside.display = self.rate.display = beside >= CHART
        self.connections.display = beside >= CHART + 3
        self._beside.styles.height = beside
        self.rate.styles.height = max(CHART, min(beside - talking, HIGHEST_CHART))

    def _narrowed(self, columns: int, room: int, legend: Text) -> tuple[int, Text]:
        """Returns the width that the map needs in so many lines, and its legend: the rest is for
        the connections.
        """
        if self.map.cells.has_few:  # which stand in any number of columns
            widths = range(columns // 2, columns)
            needed = next(
                (width for width in widths if self.map.needed(width, room + 1) <= room), columns
            )
        else:
            lines = self.map.needed(columns, room)
            needed = max(columns // 2, self.map.width_in(columns, lines) + 1)
        narrow_legend = self.map.legend(needed - 2)
        is_same = len(narrow_legend.split("\n")) == len(legend.split("\n"))
        return (needed, narrow_legend) if is_same else (columns, legend)

    # -- from part to part, and in
    # ------------------------------------------------------------------------

    def action_pane(self, what: str, *arguments: int) -> None:
        """Does what the focused part does. A step beyond its first or last line moves the focus to
        the next part.
        """
        focused = self._here
        if what == "step" and focused.is_at_edge[arguments[0] > 0]:
            number = self._parts.index(focused) + (1 if arguments[0] > 0 else -1)
            if 0 <= number < len(self._parts):
                self._parts[number].focus()
            return
        action = getattr(focused, f"action_{what}", None)
        if action is not None:
            action(*arguments)

    @on(LineView.Opened)
    def _open_place(self, event: LineView.Opened) -> None:
        if event.view is self.map:
            self.host.to_map(self.map.vbucket)
        elif event.view is self.connections:
            self.host.choose(self.connections.connection or None)
        elif self.findings.finding is not None:
            self.host.to_finding(self.findings.finding)

    @property
    def vbucket_here(self) -> int | None:
        """Number of the vbucket under the cursor of the map, or of the finding under the cursor."""
        if self._here is self.findings:
            return self.findings.vbucket
        return self.map.vbucket if self._here is self.map else None

    def action_finding(self) -> None:
        """Goes to the finding under the cursor, or to the worst finding about the vbucket under
        it.
        """
        if self._here is self.findings and self.findings.finding is not None:
            self.host.to_finding(self.findings.finding)
        else:
            super().action_finding()

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next error or warning, or to the one before."""
        searched = self._here if self._here is self.map else self.findings
        if not searched.bad(back=back):
            self.host.show_status("no other error or warning here")

    def spot(self) -> Spot:
        """Returns which part has the focus."""
        return Spot("overview", top=self._parts.index(self._here))

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        self._parts[spot.top].focus()

    def legend(self) -> Sequence[str]:
        """Returns the legend of the map."""
        return (self.map.legend(70).plain,)
