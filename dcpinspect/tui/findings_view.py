"""The fourth view: what is wrong, what it means, what to do, and the messages that show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text
from textual import on
from textual.containers import VerticalScroll
from textual.widgets import Static

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.output.finding_marks import rows_of
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.text import counted
from dcpinspect.tui.export_choices import Choice, of_finding
from dcpinspect.tui.finding_details import AROUND, about, in_words
from dcpinspect.tui.finding_list import FindingList
from dcpinspect.tui.line_view import LineView
from dcpinspect.tui.view import Spot, View

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation


_AFTER = 3
"""Lines of the chosen evidence, and of the title above the text."""
_LEAST_LIST = 4
"""Height of the list with its title."""


class FindingsView(View):
    """A list of findings, and below a title the full text about one of them."""

    def __init__(self, host: Navigation) -> None:
        self.list, self._about = FindingList(id="finding-list"), Static(id="finding-about-text")
        self._scrolled = VerticalScroll(self._about, id="finding-about")
        super().__init__(host, "findings", self.list, self._scrolled)
        self.others: Sequence[int] = ()
        """Numbers of all findings about the message that the user came from."""
        self._evidence: tuple[Finding | None, RowNumbers] = (None, NO_ROWS)

    @property
    def vbucket_here(self) -> int | None:
        """The vbucket of the chosen message of the finding under the cursor."""
        finding = self.list.shown_finding
        return None if finding is None else self._vbucket(finding, self.row_here)

    @property
    def keyboard(self) -> FindingList:
        """The list, which gets the focus."""
        return self.list

    def take_up(self) -> None:
        """Shows the findings so far."""
        inspection = self.host.inspection
        self.list.show(inspection.results.findings, is_final=inspection.state != "reading")

    @on(LineView.Moved)
    def arrive(self) -> None:
        """Shows the full text about the finding under the cursor."""
        if not self.display or not self.is_mounted:
            return
        finding = self.list.shown_finding
        width = self._scrolled.scrollable_content_region.width or self.app.size.width - 1
        sign = self._glyphs.folded
        for before in (AROUND, 0):  # what stands above the evidence is not scrolled away for it
            text = self._text(width=width - 1, before=before)
            lines = enumerate(text.plain.split("\n"))
            evidence_line = next((place for place, line in lines if line.startswith(sign)), 0)
            height_left = self.size.height - evidence_line - _AFTER
            if height_left >= _LEAST_LIST:
                break
        self._about.update(text)
        self._scrolled.border_title = (
            ""
            if finding is None
            else f"{self._glyphs.of_severity(finding.severity)} {finding.rule}"
        )
        self._scrolled.set_classes("" if finding is None else finding.severity)
        causes = sum(listed.effect_of is None for listed in self.list.findings)
        self.list.entitle(counted(causes, "finding") + ", the worst first" * (causes > 1))
        # the list has what it needs, at most half of the screen, and what the chosen evidence leaves
        list_height = min(self.app.size.height // 2 - 1, height_left)
        self.list.styles.height = max(_LEAST_LIST, min(1 + self.list.lines, list_height))

        def scroll() -> None:
            visible_height = self._scrolled.scrollable_content_region.height
            scroll_y = (
                max(0, evidence_line + _AFTER - 1 - visible_height)
                if self.list.evidence is not None
                else 0
            )
            self._scrolled.scroll_to(y=scroll_y, animate=False, immediate=True)

        self.call_after_refresh(scroll)

    def _text(self, **form: Any) -> Text:
        evidence_rows = self.evidence[
            max(0, self.evidence_index - 2 * AROUND) : self.evidence_index + 2 * AROUND + 1
        ]
        words = in_words(self.host.inspection.store, evidence_rows.tolist())
        records = self.host.inspection.results.records.get("rollbacks")
        return about(
            self.list.shown_finding,
            self._glyphs,
            self.evidence,
            self.evidence_index,
            self.list.findings,
            words,
            records,
            self.host.inspection.files,
            **form,
        )

    def _vbucket(self, finding: Finding, row: int) -> int | None:
        """Returns the vbucket whose timeline shows a message of a finding; None for none."""
        store = self.host.inspection.store
        if store.first_row <= row <= store.rows:
            number = store.numbers([row], ("vbucket",))[0].value_at(0)
            if number in finding.vbuckets:
                return number
        case = next(
            (case for case in finding.case_of_each if row in case.evidence_rows),
            finding,
        )
        return case.vbuckets[0] if case.vbuckets else None

    def choose(self, number: int, *, row: int = 0, vbucket: int | None = None) -> None:
        """Selects a finding, and in its evidence ``row``; if that is not there, what shows it best of
        ``vbucket``, or of all.
        """
        self.list.select(number)
        cases = self.list.findings[number].case_of_each
        of_cases = [case_row for case in cases for case_row in case.evidence_rows]
        rows = np.array([row, *of_cases, *self.evidence.tolist()], np.int64)
        of_vbucket = NO_ROWS if vbucket is None else self.host.inspection.store.of_vbucket(vbucket)
        is_it = np.isin(rows, self.evidence) & ((rows == row) | np.isin(rows, of_vbucket))
        self.list.evidence = (
            int(np.searchsorted(self.evidence, rows[np.argmax(is_it)])) if is_it.any() else None
        )
        self.arrive()

    @property
    def evidence(self) -> RowNumbers:
        """Rows of all messages that show the finding under the cursor, rising."""
        finding = self.list.shown_finding
        if self._evidence[0] is not finding:
            self._evidence = finding, NO_ROWS if finding is None else rows_of(finding)
        return self._evidence[1]

    @property
    def evidence_index(self) -> int:
        """Place of the chosen message in the evidence; at first of what shows it best, of a connection
        alone on that.
        """
        finding, position = self.list.shown_finding, self.list.evidence
        if position is None and finding is not None:
            messages = [message for case in finding.case_of_each for message in case.places]
            alone = self.host.inspection.connection
            rows = [message.row for message in messages if message.connection == alone]
            rows += finding.evidence_rows
            position = int(np.searchsorted(self.evidence, rows[0])) if rows else 0
        return max(0, min(position or 0, len(self.evidence) - 1))

    @property
    def row_here(self) -> int:
        """Row of the chosen message of the evidence; 0 if there is none."""
        rows = self.evidence
        return int(rows[self.evidence_index]) if len(rows) else 0

    def spot(self) -> Spot:
        """Returns which finding and which message of its evidence are shown."""
        return Spot("findings", finding=self.list.finding, top=self.evidence_index)

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        if spot.finding is not None and spot.finding < len(self.list.findings):
            self.list.select(spot.finding)
            self.list.evidence = spot.top
            self.arrive()

    @on(LineView.Opened)
    def _open_place(self) -> None:
        finding = self.list.shown_finding
        if finding is not None and self.row_here:
            fields = RULES[finding.rule].fields_of(finding.cause)
            self.host.to_row(self.row_here, finding.rule, *fields)
        else:
            self.host.show_status(
                "choose a finding" if finding is None else "this finding has no single message"
            )

    def action_open(self) -> None:
        """Goes to the chosen message of the finding under the cursor."""
        self.list.action_open()

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next error or warning, or to the one before."""
        self.to_next(self.list, back=back)

    def action_near(self, steps: int) -> None:
        """Chooses the next message of the evidence, or the one before."""
        if self.list.shown_finding is not None:
            last = max(0, len(self.evidence) - 1)
            self.list.evidence = min(max(self.evidence_index + steps, 0), last)
            self.arrive()

    def exports(self) -> Sequence[Choice]:
        """Returns the choice to export the messages of the finding under the cursor."""
        return of_finding(self.host.inspection, self.list.shown_finding)

    def action_finding(self) -> None:
        """Selects the next finding about the message that the user came from."""
        if self.list.finding in self.others and len(self.others) > 1:
            self.list.select(
                self.others[(self.others.index(self.list.finding) + 1) % len(self.others)]
            )
        else:
            self.host.show_status("no other finding about the message you came from")

    def action_copy(self) -> None:
        """Copies the full text about the finding."""
        self.host.copy(self._text().plain)
