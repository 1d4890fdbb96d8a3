"""The full text about a finding: what happened, where, when the rule does not apply, what to do,
and the messages that show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from dcpinspect.errors import DcpInspectError
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.output.render.finding_text import effects_in_words, told_of
from dcpinspect.output.render.message_lines import summary, title
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import escape, one_line
from dcpinspect.tui.advice import here
from dcpinspect.tui.strips import wrapped
from dcpinspect.tui.theme import Glyphs

MOST_CASES = 5
"""Number of single cases of a finding (by vbucket and connection) that are listed."""
AROUND = 4
"""Number of messages of the evidence that are listed before and after the chosen one."""
_NAME = 7
"""Width of the names of the parts, in columns."""
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
    one: Finding | None,
    glyphs: Glyphs,
    rows: RowNumbers = NO_ROWS,
    evidence: int = 0,
    others: Sequence[Finding] = (),
    told: Mapping[int, str] | None = None,
    rollbacks: Records | None = None,
    *,
    width: int = _ENDLESS,
) -> Text:
    """Returns the text about a finding: what; who and when; whose, and whether it is over; next.
    Below them stands the evidence.

    ``others``: all findings; the finding may be the cause or an effect of some of them. ``rows``:
    the evidence; ``evidence``: the place in it of the chosen message; ``told``: rows in words;
    ``rollbacks``: the table of rollbacks.
    """
    out = Text()
    if one is None:
        return out
    when, _, whose = told_of(one).partition("; ")
    parts = [
        ("what", one_line(one.message)),
        ("who", " · ".join(filter(None, [escape(one.who), escape(one.server), one.where, when]))),
        ("whose", whose),
        ("next", one_line(here(one.next)) if one.next else _cause_of(one, others)),
    ]
    for name, text in parts:
        for place, line in enumerate(wrapped(text, width - _NAME) if text else ()):
            out.append(f"{'' if place else name:<{_NAME}}", "bold")
            out.append(f"{line}\n")
    for request in _requests_that_work(one, rollbacks):
        for place, line in enumerate(wrapped(request, width - _NAME - 2)):
            out.append(f"{'':<{_NAME}}{'  ' if place else ''}{line}\n")
    out.append_text(_evidence(rows, evidence, told or {}, glyphs, width))
    effects = [other for other in others if other.effect_of == one.id]
    if effects:
        out.append(f"\nExplains {effects_in_words(effects)}.\n")
    out.append("\n" if one.cases else "")
    for case in one.cases[:MOST_CASES]:
        for place, line in enumerate(wrapped(f"{case.where}: {one_line(case.message)}", width - 2)):
            out.append(f"{'  ' if place else ''}{line}\n")
    if len(one.cases) > MOST_CASES:
        out.append(f"and {len(one.cases) - MOST_CASES:,} more\n")
    rule = RULES[one.rule]
    for name, text in (
        ("Found when ", rule.fires),
        ("Not when ", rule.unless),
        ("Public reports ", ", ".join(rule.reports)),
    ):
        if text:
            out.append(f"\n{name}", "dim")
            out.append(text)
    return out


def _cause_of(one: Finding, others: Sequence[Finding]) -> str:
    """Returns where the advice about an effect is."""
    cause = next((other for other in others if other.id == one.effect_of), None)
    return (
        ""
        if cause is None
        else f"it is an effect of {cause.rule}, {cause.where}, which says what to do"
    )


def _evidence(
    rows: RowNumbers, evidence: int, told: Mapping[int, str], glyphs: Glyphs, width: int
) -> Text:
    """Returns the evidence around the chosen message."""
    out = Text()
    if not len(rows):
        return out
    chosen = min(evidence, len(rows) - 1)
    out.append(f"\nEvidence, {chosen + 1} of {len(rows):,} (] next, Enter opens)\n", "bold")
    first = max(0, min(evidence - AROUND, len(rows) - 2 * AROUND - 1))
    if first:
        out.append(f"  {first:,} before\n", "dim")
    for number, row in enumerate(rows[first : first + 2 * AROUND + 1].tolist(), first):
        words = told.get(row, "")
        for place, line in enumerate(
            wrapped(f"row {row:,}{f' · {words}' if words else ''}", width - 4)
        ):
            sign = "    " if place else f"{glyphs.folded if number == chosen else ' '} "
            out.append(f"{sign}{line}\n", "bold" if number == chosen else "")
    if len(rows) > first + 2 * AROUND + 1:
        out.append(f"  and {len(rows) - first - 2 * AROUND - 1:,} more\n", "dim")
    return out


def in_words(store: Store, rows: Sequence[int]) -> dict[int, str]:
    """Returns one line per message: ``stream_req vb 384 from 1100``. Messages that the store has
    dropped are left out.
    """
    kept = [row for row in rows if store.first_row <= row <= store.rows]
    try:
        batch = store.messages(kept) if kept else None
    except (DcpInspectError, OSError):
        return {}
    found = {}
    for place, row in enumerate(kept if batch is not None else ()):
        assert batch is not None
        vbucket = batch.vbucket_of(place)
        words = (
            title(batch, place),
            "" if vbucket is None else f"vb {vbucket}",
            summary(batch, place, is_narrow=True),
        )
        found[row] = one_line(" ".join(filter(None, words)))
    return found


def _requests_that_work(one: Finding, rollbacks: Records | None) -> Iterator[str]:
    """Yields what the client can request instead, for the latest rollback of each vbucket."""
    if rollbacks is None or one.rule not in _ASKS_AGAIN:
        return
    names = (
        "connection",
        "vbucket",
        "resume_start",
        "resume_uuid",
        "resume_snapshot_start",
        "resume_snapshot_end",
    )
    found: dict[int, str] = {}
    for connection, vbucket, start, uuid, low, high in zip(
        *(rollbacks.values(name) for name in names), strict=True
    ):
        if (
            vbucket in one.vbuckets
            and connection in one.connections
            and start is not None
            and uuid is not None
        ):
            found[vbucket] = (
                f"vbucket {vbucket}: from {start}, uuid 0x{uuid:016x}, snapshot {low}–{high}"
            )
    yield from list(found.values())[:MOST_CASES]
    if len(found) > MOST_CASES:
        yield f"and {len(found) - MOST_CASES:,} more vbuckets"
