"""The full text about a finding: what happened, where, when the rule does not apply, what to do,
and the messages that show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from rich.text import Text

from dcpinspect.errors import DcpInspectError
from dcpinspect.findings.cases import EACH
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.output.render.finding_text import (
    effects_in_words,
    explained_by,
    packets_of,
    place_of,
    when_and_whose,
)
from dcpinspect.output.render.message_lines import summary, title
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import escape, one_line
from dcpinspect.tui.advice import for_keys
from dcpinspect.tui.line_view import labelled
from dcpinspect.tui.theme import Glyphs

MOST_CASES = 5
"""Number of single cases of a finding (by vbucket and connection) that are listed."""
AROUND = 4
"""Number of messages of the evidence that are listed before and after the chosen one."""
_NAME = 7
"""Width of the names of the parts, in columns."""
_AGAIN = 40
"""Number of letters from which cases leave out the words that all begin with."""
_ENDLESS = 1 << 20
"""Width that is so large that no line is wrapped."""
_ASKS_AGAIN = (
    "rollback",
    "rollback-loop",
    "rollback-not-followed",
    "stream-refused",
    "unknown-vbucket-uuid",
)
"""Rules for which a request that works is suggested after a rollback."""


def about(
    finding: Finding | None,
    glyphs: Glyphs,
    rows: RowNumbers = NO_ROWS,
    evidence: int = 0,
    others: Sequence[Finding] = (),
    summaries: Mapping[int, str] | None = None,
    rollbacks: Records | None = None,
    files: Sequence[str] = (),
    *,
    before: int = AROUND,
    width: int = _ENDLESS,
) -> Text:
    """Returns the text about a finding: what; who and when; whose, and whether it is over; next.
    Below them stands the evidence: messages, or else frames.

    ``others``: all findings; the finding may be the cause or an effect of some of them. ``rows``:
    the evidence; ``evidence``: the place in it of the chosen message; ``before``: number of messages
    listed before that one, or more where few follow; ``summaries``: rows in words; ``rollbacks``:
    the table of rollbacks. ``files``: names of the captures.
    """
    text_lines = Text()
    if finding is None:
        return text_lines
    when, whose = when_and_whose(finding)
    others_left = f"without the other {finding.left_out:,}: " if finding.left_out else ""
    sections = [
        ("what", one_line(finding.what or finding.message)),
        (
            "who",
            " · ".join(
                filter(None, [escape(finding.who), escape(finding.server), place_of(finding), when])
            ),
        ),
        ("whose", whose),
        ("next", one_line(for_keys(finding.next)) if finding.next else _cause_of(finding, others)),
        ("frames", "" if finding.evidence_rows else f"{others_left}{packets_of(finding, files)}"),
    ]
    for name, text in sections:
        if text:
            text_lines.append_text(labelled(name, text, _NAME, width, "bold"))
    for request in _requests_that_work(finding, rollbacks):
        text_lines.append_text(labelled("", request, _NAME, width, indent=2))
    text_lines.append_text(_evidence(rows, evidence, before, summaries or {}, glyphs, width))
    effects = [effect for effect in others if effect.effect_of == finding.id]
    if effects:
        text_lines.append(f"\nExplains {effects_in_words(effects)}.\n")
    cases = _that_differ(finding)
    text_lines.append("\n" if cases else "")
    sentences = [finding.what or finding.message, *(case.message for case in cases[:MOST_CASES])]
    words = zip(*(sentence.split(" ") for sentence in sentences), strict=False)
    begin = "".join(f"{same[0]} " for same in takewhile(lambda same: len({*same}) == 1, words))
    begin = begin if len(begin) >= _AGAIN else ""  # it stands above
    for case in cases[:MOST_CASES]:
        sentence = f"{case.where}: {'… ' * bool(begin)}{one_line(case.message[len(begin) :])}"
        text_lines.append_text(labelled("", sentence, 0, width, indent=2))
    if len(cases) > MOST_CASES:
        text_lines.append(f"and {len(cases) - MOST_CASES:,} more\n")
    rule = RULES[finding.rule]
    for name, text in (
        ("Found when ", rule.fires),
        ("Not for: ", rule.unless),
        ("Public reports ", ", ".join(rule.reports)),
    ):
        if text:
            text_lines.append(f"\n{name}", "dim")
            text_lines.append(text)
    return text_lines


def _that_differ(finding: Finding) -> Sequence[Finding]:
    """Returns the cases; none where each says the same of the same stream-id."""
    sentences = {(case.message, case.sid) for case in finding.cases}
    is_said = sentences == {(EACH.sub("", finding.what or finding.message), finding.sid)}
    return () if is_said else finding.cases


def _cause_of(finding: Finding, others: Sequence[Finding]) -> str:
    """Returns where the advice about an effect is."""
    cause = next((candidate for candidate in others if candidate.id == finding.effect_of), None)
    return "" if cause is None else explained_by(cause)


def _evidence(
    rows: RowNumbers,
    evidence: int,
    before: int,
    summaries: Mapping[int, str],
    glyphs: Glyphs,
    width: int,
) -> Text:
    """Returns the evidence around the chosen message."""
    lines = Text()
    if not len(rows):
        return lines
    current = min(evidence, len(rows) - 1)
    lines.append(f"\nEvidence, {current + 1} of {len(rows):,} (] next, Enter opens)\n", "bold")
    first = max(0, min(current - before, len(rows) - 2 * before - 1))
    if first:
        lines.append(f"  {first:,} before\n", "dim")
    listed = rows[first : first + AROUND + before + 1].tolist()
    for number, row in enumerate(listed, first):
        is_here = number == current
        words = " · ".join(filter(None, (f"row {row}", summaries.get(row))))
        evidence_text = labelled(glyphs.folded if is_here else "", words, 2, width - 2, indent=2)
        evidence_text.stylize("bold" if is_here else "")
        lines.append_text(evidence_text)
    if after := len(rows) - first - len(listed):
        lines.append(f"  and {after:,} more\n", "dim")
    return lines


def in_words(store: Store, rows: Sequence[int]) -> dict[int, str]:
    """Returns lines of messages that the store has: ``stream_req vb 384 from 1100``."""
    stored_rows = [row for row in rows if store.first_row <= row <= store.rows]
    try:
        batch = store.messages(stored_rows) if stored_rows else None
    except (DcpInspectError, OSError):
        return {}
    words_of_row = {}
    for index, row in enumerate(stored_rows if batch is not None else ()):
        assert batch is not None
        vbucket, seqno = batch.vbucket_of(index), batch.shown_number("by_seqno", index)
        words = (
            title(batch, index),
            "" if vbucket is None else f"vb {vbucket}",
            "" if seqno is None else f"seqno {seqno}",
            summary(batch, index, is_narrow=True),
        )
        words_of_row[row] = one_line(" ".join(filter(None, words)))
    return words_of_row


def _requests_that_work(finding: Finding, rollbacks: Records | None) -> Iterator[str]:
    """Yields what the client can request instead, for the latest rollback of each vbucket, if the
    finding is about that one; nothing once it has its streams.
    """
    if rollbacks is None or finding.rule not in _ASKS_AGAIN or finding.over == "recovered":
        return
    request_of: dict[int, str] = {}
    resumed = ("resume_start", "resume_uuid", "resume_snapshot_start", "resume_snapshot_end")
    finding_rows = {*finding.rows.tolist()}
    rows = rollbacks.rows("connection", "vbucket", "request_row", "answer_row", *resumed)
    for connection, vbucket, *own_rows, start, uuid, low, high in rows:
        if vbucket in finding.vbuckets and connection in finding.connections:
            request_of.pop(vbucket, None)
            if finding_rows.intersection(own_rows) and start is not None and uuid is not None:
                request_of[vbucket] = (
                    f"vbucket {vbucket}: from {start}, uuid 0x{uuid:016x}, snapshot {low}–{high}"
                )
    yield from list(request_of.values())[:MOST_CASES]
    if len(request_of) > MOST_CASES:
        yield f"and {len(request_of) - MOST_CASES:,} more vbuckets"
