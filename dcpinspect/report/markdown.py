"""A report as Markdown, for the text field of a ticket: at most 60 lines, the worst findings first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dcpinspect import __version__
from dcpinspect.escape import clip, escape_rest
from dcpinspect.findings.finding import Finding
from dcpinspect.render.findings import GLYPHS, by_packets, effects_in_words, messages_of, place_of, told_of
from dcpinspect.render.table import cell_texts
from dcpinspect.report.contents import Contents
from dcpinspect.tables.records import Records

MOST_LINES = 60
_ROWS = 5
"""Greatest number of rows of a table."""
_MESSAGES = 6
"""Greatest number of messages that a line names."""
_WIDE = 400
"""Greatest number of characters of a line's text."""
_TABLES = {
    "connections": ("connection", "client", "server", "name", "agent", "verdict", "closed_by", "tls"),
    "rollbacks": ("vbucket", "connection", "cause", "requested_start", "rollback_seqno", "resume_start", "resume_uuid", "explanation"),
}
_SHORTER = ("clients", "servers", "buckets", "vbuckets")
"""Labels of facts that are left out, because the tables have them."""
_MARKUP = re.compile(r"([\\`*_{}\[\]#|~@])")


def markdown(told: Contents) -> str:
    """Returns the report."""
    head = [
        f"# {plain(told.title)}",
        "",
        f"**{plain(told.verdict)}**",
        "",
        *(f"- {label}: {plain('; '.join(texts))}" for label, texts in told.facts if texts and label not in _SHORTER),
        "",
    ]
    tail = [*_verdicts(told), *_table("rollbacks", told.rollbacks), *_table("connections", told.connections)]
    redacted = "keys, values and names are replaced" if told.is_redacted else "not redacted"
    tail += [f"dcpinspect {__version__}, {redacted}."]
    room = MOST_LINES - len(head) - len(tail)
    return "\n".join([*head, *_findings(told, room), *tail]) + "\n"


def plain(text: str) -> str:
    """Returns a text escaped such that Markdown shows it unchanged."""
    return _MARKUP.sub(r"\\\1", clip(text, _WIDE)).replace("<", "&lt;")


def _findings(told: Contents, room: int) -> Iterator[str]:
    """Yields the findings in at most ``room`` lines; findings without room are counted."""
    yield "## Findings"
    yield ""
    lines = [line for one in told.causes for line in _finding(told, one)]
    if len(lines) > room - 3:
        lines = [line for one in told.causes for line in _finding(told, one, advises_notes=False)]
    if len(lines) > room - 3:
        shown = [line for one in told.causes if one.severity != "note" for line in _finding(told, one)][: room - 4]
        notes = Counter(one.rule for one in told.causes if one.severity == "note")
        more = sum(line.startswith("- ") for line in lines) - sum(line.startswith("- ") for line in shown)
        rules = ", ".join(f"{count} {rule}" for rule, count in notes.most_common(8))
        lines = [*shown, f"- and {more:,} more findings{f', notes among them: {rules}' if rules else ''}"]
    yield from lines or ["Nothing was found."]
    yield ""


def _finding(told: Contents, one: Finding, *, advises_notes: bool = True) -> Iterator[str]:
    effects = told.effects.get(one.id, ())
    parts = [
        place_of(one),
        by_packets(told_of(one), one, told.files),
        messages_of(one.places[:_MESSAGES], told.files),
        f"explains {effects_in_words(effects)}" if effects else "",
    ]
    about = "; ".join(filter(None, parts))
    message = by_packets(escape_rest(one.message), one, told.files)
    yield f"- {GLYPHS[one.severity]} **{one.rule}**: {plain(message)} ({plain(about)})"
    if one.next and (advises_notes or one.severity != "note"):
        yield f"  next: {plain(escape_rest(one.next))}"


def _verdicts(told: Contents) -> list[str]:
    counts = Counter(told.vbuckets.values("verdict"))
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())
    return ["## Vbuckets", "", f"{said}.", ""] if said else []


def _table(title: str, records: Records) -> list[str]:
    """Returns the first rows of a table, without empty columns."""
    if not len(records):
        return []
    names = [name for name in _TABLES[title] if records.has_values(name)]
    shown = records.head(_ROWS).arrow(names)
    texts = [cell_texts(column.combine_chunks(), name, has_escapes=True) for name, column in zip(names, shown.columns, strict=True)]
    out = [f"## {title.capitalize()}", "", f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    out += [f"| {' | '.join(map(plain, row))} |" for row in zip(*texts, strict=True)]
    out += [f"{len(records) - _ROWS:,} more {title}"] if len(records) > _ROWS else []
    return [*out, ""]
