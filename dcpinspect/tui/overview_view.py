"""The capture at a glance: the verdict, the findings, all vbuckets, the rate of messages, and the
connections. Enter opens a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from rich.style import Style
from rich.text import Text
from textual import on
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import duration
from dcpinspect.output.render.verdict import NOTHING, verdict, with_their_effects
from dcpinspect.protocol.message import Severity
from dcpinspect.tables.series import SPANS
from dcpinspect.text import counted, one_line
from dcpinspect.tui import theme
from dcpinspect.tui.charts import chart, painted
from dcpinspect.tui.connection_list import ConnectionList, Talk, talks
from dcpinspect.tui.export_choices import Choice, of_finding
from dcpinspect.tui.finding_list import FindingList
from dcpinspect.tui.line_view import LineView
from dcpinspect.tui.results import Results
from dcpinspect.tui.vbucket_map import VbucketMap
from dcpinspect.tui.view import Spot, View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

CHART, HIGHEST_CHART = 5, 7
"""Least and greatest height of the chart, with its title, signs and axis, in lines."""
TALKS, MOST_TALKS = 3, 6
"""Numbers of connections that are shown: where there are more findings than fit, and at most."""
HIGH = 28
"""Height of the view from which there always are connections."""


class Rate(Widget):
    """A chart over time; its title says what is drawn."""

    results: reactive[Results] = reactive(Results, always_update=True)

    def render(self) -> Text:
        """Draws the chart, for the size and in the colours of now."""
        charts, (width, height) = self.results.charts, self.size
        if not charts.used:
            return Text()
        rows = [command.messages for command in charts.commands]
        row: IntArray = sum(rows, start=np.zeros(SPANS, np.int64))
        whose = "" if self.results.connection is None else " of all connections"
        most = f"at most {int(row.max()):,} in {duration(charts.span_ns, is_exact=True)}"
        self.border_title = f"messages{whose} over time, {most}"
        by_severity = self.results.finding_marks.by_severity if height > 2 else {}
        happened = {severity: events.time_ns for severity, events in by_severity.items()}
        lines = chart(
            row,
            charts.span_ns,
            charts.ends,
            width=width - 1,
            height=max(1, height - 1 - bool(happened)),
            glyphs=theme.glyphs_of(self.app),
            events=happened,
        )
        return painted(lines, self.app)


class OverviewView(View):
    """Parts that each lead to another view."""

    def __init__(self, host: Navigation) -> None:
        self._said, self._legend = Static(id="overview-verdict"), Static(id="overview-legend")
        self.findings = FindingList(is_alone=True, id="overview-findings")
        self.map = VbucketMap(id="overview-map")
        self.rate = Rate(id="overview-rate")
        self.connections = ConnectionList(id="overview-connections")
        self._parts: Sequence[LineView] = (self.findings, self.map, self.connections)
        sentence, map_, chart_, talks_ = self._said, self.map, self.rate, self.connections
        super().__init__(
            host, "overview", sentence, self.findings, map_, self._legend, chart_, talks_
        )
        self._here: LineView = self.findings
        self._verdict_text = Text()
        self._shown = Results()
        self._talks: Sequence[Talk] = ()

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
        self.rate.results = results
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
        causes = self.findings.count
        self.findings.entitle(counted(causes, "finding") + ", the worst first" * (causes > 1))
        number, share, cells = self.map.vbucket, self.map.form.each, self.map.cells
        has_worst = self.map.form.has_words and len({*map(cells.rank, cells.numbers)}) > 1
        state = cells.words(number) or "not requested"
        self.map.entitle(
            (
                counted(len(cells.by_number), "vbucket")
                if cells.by_number or not self._shown.encrypted
                else "vbuckets"
            )
            + (f", {share} a cell" if share > 1 else "")
            + ", the worst first" * has_worst
            + (f": vb {number} {state}" if self.map.has_focus and self.map.count else "")
        )

    def _verdict(self, results: Results) -> Text:
        """Returns in plain words what is wrong, or that nothing is, and how much was checked."""
        causes, _ = with_their_effects(results.findings)
        severities = {cause.severity for cause in causes}
        worst: Severity | None = (
            "error" if "error" in severities else "warning" if "warning" in severities else None
        )
        # the sentence tells of others, too
        style = theme.style_of(self.app, f"severity-{worst}" if worst else "") + Style(bold=True)
        text = Text.assemble((f"{self._glyphs.of_severity(worst)} " if worst else "", style))
        if results.looked is None or not results.looked.messages:
            inspection = self.host.inspection
            self._said.set_classes("")
            reads = " so far" if inspection.state == "reading" else ""
            return text.append(inspection.nothing or f"no message was read{reads}", "bold")
        sentence = one_line(verdict(results.findings))
        # what a user would ask about, such as a rollback, is not green
        self._said.set_classes("well" if sentence.startswith(NOTHING) else "")
        first, last = self.host.inspection.reading.ends
        facts = (
            f"\n{results.looked} · {duration(last - first)} from "
            f"{datetime.fromtimestamp(first // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
        return text.append(sentence, "bold").append(facts, Style(bold=False, color="default"))

    def fit(self) -> None:
        """Gives each part the room that it needs: first the errors and warnings, then a line to
        each finding, a few lines to the map, the connections and the chart; what is left is for
        all findings, and larger cells.
        """
        width, height = self.size
        if not height:  # another view is shown
            return
        legend = self.map.legend(width - 2)
        words = len(legend.split("\n")) if legend else 0
        sentence, verdict_lines = (
            len(text.wrap(self.app.console, max(10, width - 2)))
            for text in (self._verdict_text.split("\n")[0], self._verdict_text)
        )
        findings = self.findings
        chosen_lines = 1 + len(findings.in_full(findings.at)) if findings.count else 1
        bad = sum(map(findings.is_bad, range(findings.count)))
        connected = max(1, self.connections.count)
        chart_lines = CHART if self._shown.charts.used else 0
        lines = dict.fromkeys(("verdict", "findings", "map", "chart", "connections"), 0)
        free = height

        def give(part: str, target: int, least: int = 1) -> None:
            """Gives a part as many of ``target`` lines as are left; none if these are too few."""
            nonlocal free
            height_given = min(target, lines[part] + free)
            if height_given > lines[part] and height_given >= least:
                free -= height_given - lines[part]
                lines[part] = height_given

        def give_to_map(limit: int) -> None:
            give("map", 1 + self.map.needed(width, max(1, limit)) + words, 2 + words)

        give("verdict", sentence)
        give("connections", 1)
        give("findings", 1 + chosen_lines)
        give_to_map(1)
        give("findings", bad + chosen_lines)
        give("verdict", verdict_lines)
        give_to_map(max(3, height // 5))
        if height >= HIGH:
            give("connections", 2 + min(connected, TALKS), 3)
            give("chart", chart_lines, CHART)
        give("findings", 1 + findings.height_in_full(height, is_bad_only=True))
        give("findings", findings.count + chosen_lines)
        give("connections", 2 + min(connected, TALKS), 3)
        give("findings", 1 + findings.height_in_full(height, is_brief=True))
        give("chart", chart_lines, CHART)
        give_to_map(height // 3)
        give("findings", 1 + findings.height_in_full(height))
        give("connections", 2 + min(connected, MOST_TALKS), 3)
        give_to_map(lines["map"] - 1 - words + free)
        give("chart", HIGHEST_CHART if lines["chart"] else 0)
        self.map.display, self._legend.display = lines["map"] > 0, bool(lines["map"] and words)
        self.rate.display, self.connections.display = lines["chart"] > 0, lines["connections"] > 0
        has_list, has_all = lines["connections"] > 1, self.host.inspection.connection is None
        hint = (
            f"; C shows {'it' if len(self._talks) == 1 else 'them'}"
            if not has_list
            else ""
            if has_all
            else "; Esc shows all"
        )
        self.connections.entitle(f"{counted(len(self._talks), 'connection')}{hint}")
        self.connections.can_focus = has_list
        self._said.styles.max_height = lines["verdict"]
        findings.styles.height = lines["findings"] if lines["connections"] else "1fr"
        self.map.styles.height, self.rate.styles.height = lines["map"] - words, lines["chart"]
        self._legend.update(legend)

    # -- from part to part, and in

    def action_pane(self, what: str, *arguments: int) -> None:
        """Does what the focused part does. A step beyond its end moves the focus to the next."""
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
        if event.view is self.map and self.map.cells.by_number:
            self.host.to_map(self.map.vbucket)
        elif event.view is self.connections:
            self.host.choose(self.connections.connection or None)
        elif event.view is self.findings and self.findings.finding is not None:
            self.host.to_finding(self.findings.finding)

    @property
    def vbucket_here(self) -> int | None:
        """Number of the vbucket under the cursor of the map, or of the finding under the cursor."""
        if self._here is self.findings:
            finding = self.findings.shown_finding
            return None if finding is None else min(finding.vbuckets, default=None)
        return self.map.vbucket if self._here is self.map else None

    def exports(self) -> Sequence[Choice]:
        """Returns the choice to export the messages of what is under the cursor."""
        if self._here is self.findings:
            return of_finding(self.host.inspection, self.findings.shown_finding)
        return super().exports()

    def action_finding(self) -> None:
        """Goes to the finding under the cursor, or to the worst about the vbucket or the connection."""
        number, connection = self.findings.finding, self.connections.connection
        if self._here is self.connections:
            if self.host.inspection.connection not in (None, connection):
                self.host.choose(None)
            findings = enumerate(self.host.inspection.results.findings)
            numbers = [
                (finding.effect_of is not None, number)
                for number, finding in findings
                if connection in finding.connections
            ]
            number = min(numbers)[1] if numbers else None
        if self._here is self.map or number is None:
            super().action_finding()
        else:
            self.host.to_finding(number)

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next error or warning, or to the one before."""
        self.to_next(self.map if self._here is self.map else self.findings, back=back)

    def spot(self) -> Spot:
        """Returns which part has the focus."""
        return Spot("overview", top=self._parts.index(self._here))

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        self._parts[spot.top].focus()

    def legend(self) -> Sequence[str]:
        """Returns the legend of the map."""
        return (self.map.legend(70, is_help=True).plain,)
