"""Writes a report as text, small enough to be passed on. As Markdown, for a ticket's text field, it
has all that ``check`` says of each finding, as long as that fits into a text field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from dcpinspect import __version__
from dcpinspect.errors import UsageError
from dcpinspect.output.render.finding_text import report_lines
from dcpinspect.output.render.record_lines import (
    FIRST,
    SENTENCES,
    hidden_columns,
    named_values,
    read_columns,
)
from dcpinspect.output.render.table import table_texts
from dcpinspect.output.render.verdict import Standing
from dcpinspect.output.report.report_contents import (
    Contents,
    Limits,
    Source,
    contents,
    with_frames,
)
from dcpinspect.output.report.report_pictures import map_legend
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import clip, escape

MOST_LINES = 300
_ROWS = 16
"""Greatest number of rows of a table."""
_BLOCK = 120
"""Greatest number of characters of a line about findings."""
_ROW = 200
"""Greatest number of characters of a table's row without its sentence."""
_WIDE = 400
"""Greatest number of characters of a line's text."""
_FACTS = 32
"""Greatest number of texts of a fact."""
_OF_ROW = ("connection", "vbucket")
"""Columns that name a row."""
_TICKS = re.compile(r"`+")
_MARKUP = re.compile(r"([\\`*_{}\[\]#|~@])")


def markdown(contents: Contents) -> str:
    """Returns the report."""
    head = [
        f"# {plain(contents.source.title)}",
        "",
        f"**{plain(contents.verdict)}**",
        "",
        *_facts(contents),
        "",
    ]
    tail = [
        *_verdicts(contents),
        *_table("rollbacks", contents.rollbacks, contents),
        *_table("connections", contents.connections, contents),
    ]
    redacted = (
        "keys, values and names are replaced" if contents.source.is_redacted else "not redacted"
    )
    tail += [f"dcpinspect {__version__}, {redacted}."]
    lines_left = MOST_LINES - len(head) - len(tail)
    return "\n".join([*head, *_findings(contents, lines_left), *tail]) + "\n"


def _facts(contents: Contents) -> Iterator[str]:
    for label, texts in contents.source.facts:
        if len(texts) == 1:
            yield f"- {label}: {plain(texts[0])}"
        elif texts:
            more = [f"and {len(texts) - _FACTS:,} more"] if len(texts) > _FACTS else []
            yield f"- {label}:"
            yield from (f"  - {plain(text)}" for text in (*texts[:_FACTS], *more))


def plain(text: str) -> str:
    """Returns a text escaped such that Markdown shows it unchanged."""
    return _MARKUP.sub(r"\\\1", clip(text, _WIDE)).replace("<", "&lt;")


def _findings(contents: Contents, room: int) -> Iterator[str]:
    """Yields the findings in at most ``room`` lines: the block that the command ``check`` prints
    into a pipe, where nothing is markup.
    """
    several = [
        *contents.causes,
        *(effect for effects in contents.effects.values() for effect in effects),
    ]
    lines = list(
        report_lines(
            several,
            contents.source.files,
            lambda text, _: text,
            width=_BLOCK,
            instead=contents.verdict,
            limit=room,
        )
    )
    yield from ("## Findings", "")
    if not contents.causes:
        yield from ("Nothing was found.", "")
        return
    # longer than any of the block's own, so that none ends it
    fence = "`" * max([3, *(len(ticks) + 1 for line in lines for ticks in _TICKS.findall(line))])
    # without the verdict, which is above, and the hint, which needs the capture
    yield from (fence, *lines[lines.index("") + 1 : -1 - lines[::-1].index("")], fence, "")


def _verdicts(contents: Contents) -> list[str]:
    verdicts = [
        text for _, _, text in map_legend(contents.vbuckets, Standing(contents.source.by_name))
    ]
    return ["## Vbuckets", "", f"{'; '.join(verdicts)}.", ""] if verdicts else []


def _table(title: str, records: Records, contents: Contents) -> list[str]:
    """Returns the first of these rows of a table, with the columns that people read first."""
    if not len(records):
        return []
    # connections say their file for all tables
    columns = read_columns(records, title, is_of_one_file=title != "connections")
    table = with_frames(records.head(_ROWS).arrow(columns), contents.source)
    hidden = [name for name in hidden_columns(table, FIRST[title], _ROW) if name not in SENTENCES]
    names = [name for name in table.schema.names if name not in hidden]
    texts = table_texts(table.select(names))
    table_lines = [
        f"## {title.capitalize()}",
        "",
        f"| {' | '.join(names)} |",
        f"|{' --- |' * len(names)}",
    ]
    table_lines += [f"| {' | '.join(map(plain, row))} |" for row in zip(*texts, strict=True)]
    more = len(contents.source.by_name[title]) - _ROWS
    places = named_values(table.select([name for name in _OF_ROW if name in names]))
    more_values = named_values(table.select(hidden))
    more_lines = [
        f"- {', '.join(place)}: {plain(' · '.join(values))}"
        for place, values in zip(places, more_values, strict=False)
        if values
    ]
    table_lines += ["", *more_lines] if more_lines else []
    return [*table_lines, "", *([f"{more:,} more {title}", ""] if more > 0 else [])]


ReportFormat = Literal["html", "markdown"]
_SUFFIXES: dict[str, ReportFormat] = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
}

MOST_BYTES = 5_000_000
"""Greatest size of a page in bytes: what people can attach to a ticket."""


def format_of(path: str) -> ReportFormat:
    """Returns the format for a file of this name. Raises UsageError."""
    for suffix, format_ in _SUFFIXES.items():
        if path.lower().endswith(suffix):
            return format_
    raise UsageError(f"{escape(path)}: the name of a report ends in .html or .md")


def written(format_: ReportFormat, source: Source) -> str:
    """Returns the report as text. If a page comes out too large, the limits are halved until it is
    small enough.
    """
    if format_ == "markdown":
        return markdown(contents(source, Limits(evidence=0, timelines=0, rows=_ROWS)))
    from dcpinspect.output.report.page import page  # deferred: loads Jinja2

    limits = Limits()
    while True:
        report_contents = contents(source, limits)
        if limits != Limits():
            less = (
                "Some findings, messages, timelines and rows of tables, so that this page is "
                f"smaller than {MOST_BYTES // 1_000_000} MB."
            )
            report_contents = replace(report_contents, left_out=[*report_contents.left_out, less])
        text = page(report_contents)
        if len(text.encode()) <= MOST_BYTES or limits.evidence <= 1:
            return text
        limits = limits.halved()
