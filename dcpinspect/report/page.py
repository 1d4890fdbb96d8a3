"""A report as one HTML file that needs nothing else: it holds style, script and pictures, and tells the browser to load nothing."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dcpinspect import __version__
from dcpinspect.escape import escape, escape_rest
from dcpinspect.findings.finding import Finding
from dcpinspect.records import dataclass
from dcpinspect.render.coverage import direction_cells
from dcpinspect.render.findings import GLYPHS, by_packets, effects_in_words, message_of, place_of, told_of
from dcpinspect.render.palette import PAINTS
from dcpinspect.render.table import cell_texts
from dcpinspect.report import pictures
from dcpinspect.report.contents import Contents, places_of
from dcpinspect.tables.records import Records


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose cells are texts, which can be sorted and searched on the page."""

    id: str
    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    links: Mapping[int, str]
    """Anchors on the page that rows link to, by number of the row."""


@cache
def _template() -> Template:
    # autoescape, because nothing that a capture holds may become markup
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(files("dcpinspect.report").joinpath("page.html").read_text("utf-8"))


def page(told: Contents) -> str:
    """Returns the page as HTML."""
    folder = files("dcpinspect.report")
    style = _colours() + folder.joinpath("page.css").read_text("utf-8")
    script = folder.joinpath("page.js").read_text("utf-8")
    linked = frozenset(one.vbucket for one in told.timelines)
    clients = list(dict.fromkeys(told.vbuckets.values("client")))
    timelines = [pictures.timeline(one) for one in told.timelines]
    return _template().render(
        told=told,
        title=told.title,
        version=__version__,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; img-src data:; base-uri 'none'",
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        facts=told.facts,
        glyphs=GLYPHS,
        findings=[_finding(told, one) for one in told.causes],
        maps=[(escape(client), _picture(pictures.vbucket_map(told.vbuckets, client, linked))) for client in clients[:8]],
        verdicts=list(Counter(told.vbuckets.values("verdict")).items()),
        timelines=[(one, _picture(drawn)) for one, drawn in zip(told.timelines, timelines, strict=True)],
        charts=list(_charts(told)),
        snapshots=pictures.legend("snapshot", timelines),
        causes=pictures.legend("cause", timelines),
        letters=pictures.letters(timelines),
        tables=list(_tables(told, linked)),
        shown=list(told.shown.values()),
        rules={one.id: one.rule for one in (*told.causes, *(one for several in told.effects.values() for one in several))},
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _picture(element: pictures.Element) -> Markup:
    return Markup(pictures.xml(element))  # noqa: S704 - elements, whose texts are escaped


def _colours() -> str:
    """Returns a style sheet with the palette as variables, for light and dark backgrounds, and a class for each colour."""
    layers = ("kind-marker", "verdict-caught-up", "kind-removal", "kind-rollback", "kind-end", "kind-request", "kind-upkeep")
    light = "".join(f"--{name}:{paint.light};" for name, paint in PAINTS.items())
    dark = "".join(f"--{name}:{paint.dark};" for name, paint in PAINTS.items())
    fills = "".join(f".fill-{name}{{fill:var(--{name});background:var(--{name})}}" for name in PAINTS)
    fills += "".join(f".fill-layer-{number}{{fill:var(--{name});background:var(--{name})}}" for number, name in enumerate(layers))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n{fills}\n"


def _finding(told: Contents, one: Finding) -> dict[str, Any]:
    """Returns what the page says of a finding and of its effects."""
    most = told.limits.cases
    cases = one.each if len(one.each) > 1 else ()
    effects = told.effects.get(one.id, ())
    return {
        "id": one.id,
        "rule": one.rule,
        "severity": one.severity,
        "message": by_packets(escape_rest(one.message), one, told.files),
        "who": ", ".join(filter(None, [escape(one.who), escape(one.server)])),
        "place": place_of(one),
        "when": by_packets(told_of(one), one, told.files),
        "next": escape_rest(one.next or ""),
        "vbuckets": one.vbuckets,
        "evidence": [(place.row, message_of(place, told.files)) for place in places_of(one, told.limits)],
        "cases": [
            (
                place_of(case),
                by_packets(escape_rest(case.message), one, told.files),
                [(place.row, message_of(place, told.files)) for place in case.places[:1]],
            )
            for case in cases[:most]
        ],
        "more": max(0, len(cases) - most),
        "effects": [_finding(told, effect) for effect in effects[:most]],
        "effects_in_words": f"explains {effects_in_words(effects)}" if effects else "",
        "more_effects": max(0, len(effects) - most),
    }


def _charts(told: Contents) -> Iterator[tuple[str, Markup, Sequence[str]]]:
    """Yields the title, picture and names of layers of each chart."""
    for title, of_bytes in (("Messages over time", False), ("Bytes over time", True)):
        drawn = pictures.over_time(told.charts, of_bytes=of_bytes)
        if drawn is not None:
            yield title, _picture(drawn[0]), drawn[1]
    answers = pictures.round_trips(told.charts)
    if answers is not None:
        yield "How long answers took", _picture(answers), ()
    for connection, picture in pictures.windows(told.charts):
        yield f"Flow control of connection {connection}", _picture(picture), ()


def _tables(told: Contents, linked: frozenset[int]) -> Iterator[Table]:
    for title, records, link in (
        ("vbuckets", told.vbuckets, "vb"),
        ("rollbacks", told.rollbacks, "vb"),
        ("connections", told.connections, ""),
    ):
        shown = records.head(told.limits.rows)
        if len(shown):
            links = {}
            if link:
                links = {row: f"#vb-{number}" for row, number in enumerate(shown.values("vbucket")) if number in linked}
            yield _table(title, shown, links)
    heading, *rows = direction_cells(told.coverage)
    if rows:
        yield Table("coverage", "coverage: what became of every byte", heading, rows[: told.limits.rows], {})


def _table(title: str, records: Records, links: Mapping[int, str]) -> Table:
    names = [column.name for column in records.table.columns if records.has_values(column.name)]
    table = records.arrow(names)
    texts = (cell_texts(column.combine_chunks(), name, has_escapes=True) for name, column in zip(names, table.columns, strict=True))
    return Table(title, title, names, list(zip(*texts, strict=True)), links)
