"""The full text about a finding: what happened, where, when the rule does not apply, what to do, and the messages that show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from dcpinspect.errors import DcpInspectError
from dcpinspect.escape import escape, one_line
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.protocol.columns import NO_ROWS, Rows
from dcpinspect.render.findings import effects_in_words, told_of
from dcpinspect.render.lines import summary, title
from dcpinspect.store.store import Store
from dcpinspect.tables.records import Records
from dcpinspect.tui.advice import here
from dcpinspect.tui.strips import wrapped
from dcpinspect.tui.theme import Glyphs

MOST_CASES = 5
"""Number of single cases of a finding (by vbucket and connection) that are listed."""
AROUND = 4
"""Number of messages of the evidence that are listed before and after the chosen one."""
_ENDLESS = 1 << 20
"""Width that is so large that no line is wrapped."""
_ASKS_AGAIN = ("rollback", "rollback-loop", "rollback-not-followed", "stream-refused", "unknown-vbucket-uuid")
"""Rules for which a request that works is suggested after a rollback."""


def about(
    one: Finding | None,
    glyphs: Glyphs,
    rows: Rows = NO_ROWS,
    evidence: int = 0,
    others: Sequence[Finding] = (),
    told: Mapping[int, str] | None = None,
    rollbacks: Records | None = None,
    *,
    width: int = _ENDLESS,
    is_brief: bool = False,
) -> Text:
    """Returns the text about a finding. ``others``: all findings; the finding may be the cause or an effect of some of them.

    ``rows``: the evidence; ``evidence``: the place in it of the chosen message; ``told``: rows in words; ``rollbacks``: the table of
    rollbacks. ``is_brief``: leaves out what the list of findings says.
    """
    out = Text()
    if one is None:
        return out
    rule = RULES[one.rule]
    if not is_brief:
        out.append(f"{glyphs.of(one.severity)} {one.rule}", "bold")
        out.append(f"  {one.cause}\n" if one.cause else "\n", "dim")
        out.append(f"{one.where}\n\n", "dim")
        out.append(f"{one_line(one.message)}\n\n")
    if one.next:
        out.append("Next: ", "bold")
        out.append(f"{one_line(here(one.next))}\n")
        for request in _requests_that_work(one, rollbacks):
            for place, line in enumerate(wrapped(request, width - 4)):
                out.append(f"{'    ' if place else '  '}{line}\n")
    if len(rows):
        out.append("\n" if one.next and not is_brief else "")
        out.append(f"Evidence, {min(evidence, len(rows) - 1) + 1} of {len(rows):,}\n", "bold")
    first = max(0, min(evidence - AROUND, len(rows) - 2 * AROUND - 1))
    if first:
        out.append(f"  {first:,} before\n", "dim")
    for number, row in enumerate(rows[first : first + 2 * AROUND + 1].tolist(), first):
        is_chosen = number == min(evidence, len(rows) - 1)
        words = (told or {}).get(row, "")
        lines = wrapped(f"row {row:,}{f' · {words}' if words else ''}", width - 4)
        for place, line in enumerate(lines):
            sign = "    " if place else f"{glyphs.folded if is_chosen else ' '} "
            out.append(f"{sign}{line}\n", "bold" if is_chosen else "")
    if len(rows) > first + 2 * AROUND + 1:
        out.append(f"  and {len(rows) - first - 2 * AROUND - 1:,} more\n", "dim")
    effects, cause = [other for other in others if other.effect_of == one.id], [other for other in others if other.id == one.effect_of]
    if effects:
        out.append(f"\nExplains {effects_in_words(effects)}.\n")
    for other in cause[:1]:
        out.append(f"\nEffect of {other.rule}, {other.where}, which says what to do.\n")
    out.append("\n")
    if one.who:
        out.append(f"{escape(one.who)}, {escape(one.server)}\n", "dim")
    out.append(f"{told_of(one)}\n", "dim")
    for case in one.cases[:MOST_CASES]:
        for place, line in enumerate(wrapped(f"{case.where}: {one_line(case.message)}", width - 2)):
            out.append(f"{'  ' if place else ''}{line}\n")
    if len(one.cases) > MOST_CASES:
        out.append(f"and {len(one.cases) - MOST_CASES:,} more\n")
    out.append("\nFound when ", "dim")
    out.append(f"{rule.fires}.\n")
    if rule.unless:
        out.append("Not when ", "dim")
        out.append(f"{rule.unless}.\n")
    if rule.reports:
        out.append("\nPublic reports ", "dim")
        out.append(", ".join(rule.reports))
    return out


def in_words(store: Store, rows: Sequence[int]) -> dict[int, str]:
    """Returns one line per message: ``stream_req vb 384 from 1100``. Messages that the store has dropped are left out."""
    kept = [row for row in rows if store.first_row <= row <= store.rows]
    try:
        batch = store.messages(kept) if kept else None
    except (DcpInspectError, OSError):
        return {}
    found = {}
    for place, row in enumerate(kept if batch is not None else ()):
        assert batch is not None
        vbucket = batch.vbucket_of(place)
        words = (title(batch, place), "" if vbucket is None else f"vb {vbucket}", summary(batch, place, is_narrow=True))
        found[row] = one_line(" ".join(filter(None, words)))
    return found


def _requests_that_work(one: Finding, rollbacks: Records | None) -> Iterator[str]:
    """Yields what the client can request instead, for the latest rollback of each vbucket."""
    if rollbacks is None or one.rule not in _ASKS_AGAIN:
        return
    names = ("connection", "vbucket", "resume_start", "resume_uuid", "resume_snapshot_start", "resume_snapshot_end")
    found: dict[int, str] = {}
    for connection, vbucket, start, uuid, low, high in zip(*(rollbacks.values(name) for name in names), strict=True):
        if vbucket in one.vbuckets and connection in one.connections and start is not None and uuid is not None:
            found[vbucket] = f"vbucket {vbucket}: from {start}, uuid 0x{uuid:016x}, snapshot {low}–{high}"
    yield from list(found.values())[:MOST_CASES]
    if len(found) > MOST_CASES:
        yield f"and {len(found) - MOST_CASES:,} more vbuckets"
