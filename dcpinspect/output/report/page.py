"""A report as one HTML file that needs nothing else: it holds style, script and pictures, and tells
the browser to load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dcpinspect import __version__
from dcpinspect.findings.finding import Finding, MessagePlace
from dcpinspect.findings.registry import RULES
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.coverage_text import direction_cells
from dcpinspect.output.render.finding_text import (
    by_packets,
    effects_in_words,
    frame_of,
    message_of,
    messages_of,
    place_of,
    when_and_whose,
)
from dcpinspect.output.render.message_lines import ARROWS, seconds_text
from dcpinspect.output.render.palette import GLYPHS, PAINTS
from dcpinspect.output.render.record_lines import (
    FIRST,
    SENTENCES,
    hidden_columns,
    named_values,
    paints_of,
    read_columns,
)
from dcpinspect.output.render.table import table_texts
from dcpinspect.output.render.verdict import Standing, worst_severity
from dcpinspect.output.report import report_pictures
from dcpinspect.output.report.report_contents import Contents, places_of, with_frames
from dcpinspect.reading.numbering import STEP
from dcpinspect.tables.times import DAY_NS, day_and_time
from dcpinspect.text import counted, escape, escape_rest, words_of


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose cells are texts, which can be sorted and searched on the page."""

    id: str
    title: str
    heading: Sequence[tuple[str, str]]
    """Names of columns, each with its class."""
    rows: Sequence[Sequence[tuple[str, str]]]
    """Cells: their text and its classes."""
    below: Sequence[str]
    """What stands below each row."""
    links: Mapping[int, str]
    """Anchors on the page that rows link to, by number of the row."""


_WIDTH = 160
"""Number of letters in a row of a table: as many as a window of 1,280 pixels has room for."""
_NUMBER = re.compile(r"[\d,]*")
_AMOUNT = re.compile(r"(bytes|items|gap_seqnos|behind|snapshots|streams|rollbacks|holes)$")
"""Columns of amounts; seqnos, rows and other numbers are names, which one copies."""
_LINE_COLUMNS = ("Time", "Con", "Message", "vb", "Opaque", "Seqno", "Bytes", "Summary")
"""Headings of the columns of a message, as the command ``read`` has them."""


@cache
def _template() -> Template:
    # autoescape, because nothing that a capture holds may become markup
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(
        files("dcpinspect.output.report").joinpath("page.html").read_text("utf-8")
    )


def page(contents: Contents) -> str:
    """Returns the page as HTML."""
    folder = files("dcpinspect.output.report")
    style = _colours() + folder.joinpath("page.css").read_text("utf-8")
    script = folder.joinpath("page.js").read_text("utf-8")
    linked = frozenset(timeline.vbucket for timeline in contents.timelines)
    clients = list(dict.fromkeys(contents.vbuckets.values("client")))
    timelines = [report_pictures.timeline(timeline) for timeline in contents.timelines]
    standing = Standing(contents.source.by_name)
    severities = {finding.id: finding.severity for finding in contents.source.findings}
    return _template().render(
        contents=contents,
        version=__version__,
        policy=(
            f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
            "img-src data:; base-uri 'none'"
        ),
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        glyphs=GLYPHS,
        findings=[_finding(contents, finding) for finding in contents.causes],
        maps=[
            (
                escape(client),
                _picture(report_pictures.vbucket_map(contents.vbuckets, client, linked, standing)),
            )
            for client in clients[:8]
        ],
        cells=report_pictures.map_legend(contents.vbuckets, standing),
        timelines=[
            (timeline, _picture(drawn))
            for timeline, drawn in zip(contents.timelines, timelines, strict=True)
        ],
        charts=list(_charts(contents)),
        snapshots=report_pictures.legend("snapshot", timelines),
        causes=report_pictures.legend("cause", timelines),
        letters=report_pictures.letters(timelines),
        others=report_pictures.drawn_in(timelines),
        is_severe=any(worst_severity(row) for row in contents.vbuckets.row_dicts("findings"))
        or len(contents.source.tables.rollbacks) > 0,
        tables=list(_tables(contents, linked)),
        shown=list(contents.shown.values()),
        frames={
            message_place.row: frame_of(message_place, contents.source.files)
            for finding in contents.source.findings
            for message_place in finding.in_full.places
            if message_place.has_message and message_place.row in contents.shown
        },
        is_numbered=all(row < STEP for row in contents.shown),
        line_columns=_LINE_COLUMNS,
        rules={finding.id: finding.rule for finding in contents.source.findings},
        worst_of=lambda ids: min(map(severities.__getitem__, ids), key=SEVERITIES.index),
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _picture(element: report_pictures.Element) -> Markup:
    return Markup(report_pictures.xml(element))  # noqa: S704 - elements, whose texts are escaped


def _colours() -> str:
    """Returns a style sheet with the palette as variables, for light and dark backgrounds, and a
    class for each colour.
    """
    # shades of the colour of charts, which no mark has; neighbours are far apart
    layers = words_of("scale-4 scale-8 scale-2 scale-6 scale-4")
    light = "".join(f"--{name}:{paint.light};" for name, paint in PAINTS.items())
    dark = "".join(f"--{name}:{paint.dark};" for name, paint in PAINTS.items())
    fills = "".join(
        f".fill-{name}{{fill:var(--{name});background:var(--{name})}}" for name in PAINTS
    )
    fills += "".join(f".text-{name}{{color:var(--{name})}}" for name in PAINTS)
    fills += "".join(
        f".fill-layer-{number}{{fill:var(--{name});background:var(--{name})}}"
        for number, name in enumerate(layers)
    )
    return (
        f":root{{{light}}}\n@media screen and (prefers-color-scheme: "
        f"dark){{:root{{{dark}}}}}\n{fills}\n"
    )


def _evidence(contents: Contents, finding: Finding) -> tuple[list[str], list[list[Any]]]:
    """Returns the columns with something in them, and for each message that shows a finding its
    row, None for a packet without a message, its frame, and these columns.
    """
    begin_ns, end_ns = contents.source.charts.ends
    rows = list[tuple[int | None, str, Mapping[str, str]]]()
    messages = places_of(finding, contents.limits)
    for message in sorted(messages, key=lambda message: (message.time_ns, message.frame)):
        row = message.row if message.has_message else None
        details = None if row is None else contents.shown.get(row)
        cells: Mapping[str, str] = {
            "Time": seconds_text(message.time_ns - begin_ns),
            "Con": f"{message.connection}{ARROWS[message.direction == 's2c']}",
            "Summary": "a packet without a message" if row is None else "",
        }
        cells = cells if details is None else details.cells
        if end_ns - begin_ns >= DAY_NS:  # captures of different days
            cells = {**cells, "Time": day_and_time(message.time_ns)}
        rows.append((row, frame_of(message, contents.source.files), cells))
    names = [name for name in _LINE_COLUMNS if any(cells.get(name) for _, _, cells in rows)]
    return names, [
        [row, frame, [cells.get(name, "") for name in names]] for row, frame, cells in rows
    ]


def _named(place: MessagePlace) -> tuple[int, ...]:
    return (place.row,) if place.row else (place.file, place.frame)


def _finding(contents: Contents, finding: Finding) -> dict[str, Any]:
    """Returns what the page says of a finding and of its effects."""
    most, files = contents.limits.cases, contents.source.files
    cases = finding.case_of_each
    effects = contents.effects.get(finding.id, ())
    when, whose = when_and_whose(finding)
    messages = places_of(finding, contents.limits)
    columns, evidence = _evidence(contents, finding)
    is_one = len({case.message for case in cases}) == 1  # the headline says it
    if len(cases) < 2 or (is_one and all({*case.places[:1]} <= {*messages} for case in cases)):
        cases = ()  # headline and evidence have told them
    noun = "message" if finding.evidence_rows else "packet"
    evidence_names = {*map(_named, messages)}
    further = {
        name: message
        for message in finding.in_full.places
        if (name := _named(message)) not in evidence_names
    }
    more_places = [message for _, message in sorted(further.items())]
    more_evidence = (
        f"and {counted(len(more_places), f'more {noun}')}: {messages_of(more_places[:most], files)}"
    ) + ", …" * (len(more_places) > most)
    return {
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity,
        # the place beside it names the vbuckets
        "message": by_packets(escape_rest(finding.what or finding.message), finding, files),
        "who": ", ".join(filter(None, [escape(finding.who), escape(finding.server)])),
        "place": place_of(finding),
        "when": when,
        "whose": by_packets(whose, finding, files),
        "next": by_packets(escape_rest(finding.next or ""), finding, files),
        "vbuckets": finding.vbuckets,
        "columns": columns,
        "evidence": evidence,
        "more_evidence": more_evidence if more_places else "",
        "cases": [
            (
                place_of(case),
                "" if is_one else f": {by_packets(escape_rest(case.message), finding, files)}",
                [(evidence.row, message_of(evidence, files)) for evidence in case.places[:1]],
            )
            for case in cases[:most]
        ],
        "more": max(0, len(cases) - most),
        "effects": [_finding(contents, effect) for effect in effects[:most]],
        "effects_in_words": f"explains {effects_in_words(effects)}" if effects else "",
        "more_effects": max(0, len(effects) - most),
    }


def _charts(contents: Contents) -> Iterator[tuple[str, Markup, Sequence[str]]]:
    """Yields the title, picture and names of layers of each chart."""
    charts = contents.source.charts
    for title, of_bytes in (("Messages over time", False), ("Bytes over time", True)):
        drawn = report_pictures.over_time(charts, of_bytes=of_bytes)
        if drawn is not None:
            yield title, _picture(drawn[0]), drawn[1]
    answers = report_pictures.round_trips(charts)
    if answers is not None:
        yield "How long answers took, and how many took so long", _picture(answers), ()
    # only what the page has an entry for
    of_flow = [finding for finding in contents.causes if RULES[finding.rule].family == "flow"]
    for connection, picture in report_pictures.windows(charts, of_flow):
        yield f"Flow control of connection {connection}", _picture(picture), ()


def _tables(contents: Contents, linked: frozenset[int]) -> Iterator[Table]:
    for title, records in (
        ("vbuckets", contents.vbuckets),
        ("rollbacks", contents.rollbacks),
        ("connections", contents.connections),
    ):
        first_rows = records.head(contents.limits.rows)
        if len(first_rows):
            is_of_vbuckets = title != "connections"  # which say their file for all tables
            numbers = first_rows.values("vbucket") if is_of_vbuckets else ()
            links = {row: f"#vb-{number}" for row, number in enumerate(numbers) if number in linked}
            names = read_columns(first_rows, title, is_of_one_file=is_of_vbuckets)
            table = with_frames(first_rows.arrow(names), contents.source)
            yield _table(title, table, links)
    heading, *rows = direction_cells(contents.coverage)
    if rows:
        yield Table(
            "coverage",
            "coverage: what became of every byte; all are bytes but the number of holes",
            *_painted(heading, rows[: contents.limits.rows]),
            [""] * len(rows),
            {},
        )


def _table(title: str, table: Any, links: Mapping[int, str]) -> Table:
    hidden = hidden_columns(table, FIRST[title], _WIDTH)
    heading = [name for name in table.schema.names if name not in hidden]
    rows = list(zip(*table_texts(table.select(heading)), strict=True))
    hidden.sort(key=lambda name: name not in SENTENCES)
    below = (
        [" · ".join(values) for values in named_values(table.select(hidden))]
        if hidden
        else [""] * len(rows)
    )
    return Table(title, title, *_painted(heading, rows), below, links)


def _painted(
    names: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[tuple[str, str]], list[list[tuple[str, str]]]]:
    """Returns heading and rows with the classes of their cells: numbers stand on the right, and
    amounts have separators, as all others of the page.
    """
    kinds = [
        "number" if all(_NUMBER.fullmatch(text) for text in column) else ""
        for column in zip(*rows, strict=True)
    ]
    painted = [
        [
            (
                f"{int(text):,}" if kind and text.isdecimal() and _AMOUNT.search(name) else text,
                " ".join(filter(None, (kind, paint and f"text-{paint}"))),
            )
            for name, kind, text, paint in zip(
                names, kinds, row, paints_of(names, row), strict=True
            )
        ]
        for row in rows
    ]
    return list(zip(names, kinds, strict=True)), painted
