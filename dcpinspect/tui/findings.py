"""The fourth view: what is wrong, each with what it means, what to do, and the messages that show it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from dcpinspect.escape import escape, one_line
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.record import finding_records
from dcpinspect.findings.registry import RULES
from dcpinspect.render.findings import effects_in_words, report_lines, told_of
from dcpinspect.tui.connection_list import talks
from dcpinspect.tui.export import Choice, messages, table
from dcpinspect.tui.finding_list import FindingList
from dcpinspect.tui.inspection import Results
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.view import Host, View


class FindingsView(View):
    """List on the left, all there is to say of one on the right."""

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id="findings")
        self.host = host
        self._glyphs = glyphs
        self.list = FindingList(glyphs, id="finding-list")
        self.others: Sequence[int] = ()
        """Numbers of all that was found of the message that one came from."""
        self._about = Static(id="finding-about-text")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.list
        with VerticalScroll(id="finding-about", can_focus=False):
            yield self._about

    @property
    def keyboard(self) -> FindingList:
        """The list."""
        return self.list

    def take_up(self, results: Results) -> None:
        """What was found by now."""
        self.list.show(
            results.findings, {one.number: one.words for one in talks(results)}, is_final=self.host.inspection.state != "reading"
        )

    @on(FindingList.Moved)
    def arrive(self) -> None:
        """All there is to say of the finding under the cursor."""
        self._about.update(self._text())

    def _text(self) -> Text:
        return about(self.list.shown, self._glyphs, self.list.evidence, self.list.findings)

    def spot(self) -> Spot:
        """Which finding, and which evidence."""
        return Spot("findings", finding=self.list.finding, top=self.list.evidence)

    def restore(self, spot: Spot) -> None:
        """As it was."""
        if spot.finding is not None and spot.finding < len(self.list.findings):
            self.list.select(spot.finding)
            self.list.evidence = spot.top
            self.arrive()

    @on(FindingList.Opened)
    def _opened(self, event: FindingList.Opened) -> None:
        one = self.list.findings[event.finding]
        if one.places:
            self.host.to_row(one.places[min(self.list.evidence, len(one.places) - 1)].row, *FIELDS.get(one.rule, ()))
        else:
            self.host.say("this finding has no single message")

    def action_bad(self, back: bool = False) -> None:
        """To the next error or warning."""
        if not self.list.bad(back=back):
            self.host.say("no other error or warning")

    def action_near(self, steps: int) -> None:
        """The next evidence."""
        if self.list.shown is not None:
            last = max(0, len(self.list.shown.places) - 1)
            self.list.evidence = min(max(self.list.evidence + steps, 0), last)
            self.arrive()

    def action_display(self) -> None:
        """By cause, or by connection."""
        self.list.next_order()

    def action_vbucket(self) -> None:
        """The timeline of the vbucket, at the seqno that shows it."""
        one = self.list.shown
        if one is not None and one.vbuckets:
            self.host.to_vbucket(one.vbuckets[0], one.seqnos[0] if one.seqnos else None)
        else:
            self.host.say("this finding is not about a vbucket")

    def action_mark(self) -> None:
        """Marks the message of the evidence, or not any more."""
        one = self.list.shown
        if one is not None and one.places:
            self.host.mark(one.places[min(self.list.evidence, len(one.places) - 1)].row)

    def exports(self) -> Sequence[Choice]:
        """The findings, and the messages of the one under the cursor."""
        inspection, one = self.host.inspection, self.list.shown
        found = inspection.results.findings
        offered = []
        if found:
            records = finding_records(found, RULES, inspection.files)
            lines = partial(report_lines, found, inspection.files, lambda text, _: text, with_effects=True)
            offered.append(table(f"the {len(found):,} findings", "findings", records, lines))
        if one is not None and one.places:
            rows = np.array(sorted({place.row for place in one.places}), np.int64)
            offered.append(messages(f"the {len(rows):,} messages that show this one", inspection, lambda: rows))
        return offered

    def action_finding(self) -> None:
        """The next of what was found of the message that one came from."""
        if self.list.finding in self.others and len(self.others) > 1:
            self.list.select(self.others[(self.others.index(self.list.finding) + 1) % len(self.others)])
        else:
            self.host.say("no other finding about the message you came from")

    def action_by_this(self, how: str) -> None:
        """Hides all findings of the rule."""
        del how
        if self.list.shown is not None:
            self.list.hide(self.list.shown.rule)

    def leave(self) -> bool:
        """Shows what was hidden."""
        return self.list.show_hidden()

    def action_copy(self) -> None:
        """All that is said of the finding."""
        self.host.copy(self._text().plain)


MOST_CASES = 5
"""Vbuckets and connections of a finding that are told by themselves."""


def about(one: Finding | None, glyphs: Glyphs, evidence: int, others: Sequence[Finding] = ()) -> Text:
    """What there is to say of a finding; ``others``: all findings, of which it may be the cause, or an effect."""
    out = Text()
    if one is None:
        return out
    rule = RULES[one.rule]
    out.append(f"{glyphs.of(one.severity)} {one.rule}", "bold")
    out.append(f"  {one.cause}\n" if one.cause else "\n", "dim")
    out.append(f"{one.where}\n\n", "dim")
    out.append(f"{one_line(one.message)}\n\n")
    if one.who:
        out.append(f"{escape(one.who)}, {escape(one.server)}\n", "dim")
    out.append(f"{told_of(one)}\n", "dim")
    for case in one.cases[:MOST_CASES]:
        out.append(f"{case.where}: {one_line(case.message)}\n")
    if len(one.cases) > MOST_CASES:
        out.append(f"and {len(one.cases) - MOST_CASES:,} more\n")
    out.append("\n")
    out.append("Found when ", "dim")
    out.append(f"{rule.fires}.\n")
    if rule.unless:
        out.append("Not when ", "dim")
        out.append(f"{rule.unless}.\n")
    if one.next:
        out.append("\nNext: ", "bold")
        out.append(f"{one_line(one.next)}\n")
    effects, cause = [other for other in others if other.effect_of == one.id], [other for other in others if other.id == one.effect_of]
    if effects:
        out.append(f"\nExplains {effects_in_words(effects)}.\n")
    for other in cause[:1]:
        out.append(f"\nEffect of {other.rule}, {other.where}, which says what to do.\n")
    if one.places:
        out.append("\nEvidence\n", "dim")
    for number, place in enumerate(one.places):
        sign = glyphs.folded if number == evidence else " "
        out.append(f"{sign} row {place.row}, frame {place.frame}\n")
    if rule.reports:
        out.append("\nPublic reports ", "dim")
        out.append(", ".join(rule.reports))
    return out


FIELDS: dict[str, tuple[str, ...]] = {
    "bad-stream-range": ("start_seqno",),
    "seqno-not-increasing": ("by_seqno",),
    "seqno-outside-snapshot": ("by_seqno",),
    "seqno-below-request-start": ("by_seqno",),
    "seqno-repeated-after-advanced": ("by_seqno",),
    "event-before-marker": ("by_seqno",),
    "rollback": ("status", "start_seqno"),
    "rollback-loop": ("status", "start_seqno"),
    "rollback-not-followed": ("status", "start_seqno"),
    "unknown-vbucket-uuid": ("vbucket_uuid",),
    "orphaned-vbucket": ("end_reason", "start_seqno"),
    "rollback-above-start": ("rollback_seqno",),
    "stream-refused": ("status",),
    "stream-end-reason": ("end_reason",),
    "opaque-mismatch": ("opaque",),
    "marker-range-inverted": ("start_seqno",),
    "marker-overlap": ("start_seqno",),
    "marker-behind": ("end_seqno",),
    "undefined-datatype": ("datatype",),
    "cas-zero": ("cas",),
    "cas-regress": ("cas",),
    "diverging-history": ("by_seqno",),
    "failover-log-order": ("failover_log",),
    "control-rejected": ("key",),
    "control-unknown-key": ("key",),
    "json-bit-not-json": ("value",),
    "bad-snappy": ("value",),
    "bad-xattr-section": ("value",),
}
"""The field that a rule speaks of: of these the first that the message has."""
