"""What a report tells: gathered once from a reading that came to its end, and small enough for a file that people pass on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dcpinspect.coverage import OTHER, DirectionCoverage
from dcpinspect.escape import escape, one_line
from dcpinspect.findings.finding import Finding, Place
from dcpinspect.overview import overview
from dcpinspect.protocol.message import Message
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading import Reading
from dcpinspect.render.byte_grid import byte_cells
from dcpinspect.render.field_table import field_table
from dcpinspect.render.findings import with_their_effects
from dcpinspect.render.lines import Lines
from dcpinspect.render.timeline import name, words
from dcpinspect.render.verdict import LookedAt, verdict
from dcpinspect.statistics import Charts, Statistics
from dcpinspect.store.store import Store
from dcpinspect.streams.items import VbucketItems
from dcpinspect.streams.story import StreamStory, stories
from dcpinspect.streams.tracker import Tables
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.records import Records

_BATCH = 1 << 14
_SEVERE = ("error", "warning")
_WELL = 4
"""Vbuckets whose timeline is drawn where nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of each kind a report has; what is beyond is counted."""

    findings: int = 300
    cases: int = 20
    """Of a finding."""
    evidence: int = 200
    """Messages with all their fields."""
    of_one: int = 6
    """Of those for one finding, at most."""
    value: int = 128
    """Bytes that are shown of one field."""
    timelines: int = 16
    streams: int = 12
    """Of a timeline, the latest ones."""
    rows: int = 1024
    """Of a table."""

    def halved(self) -> Limits:
        """For a report that came out too large."""
        names = ("findings", "cases", "evidence", "timelines", "rows", "value")
        return replace(self, **{name: max(1, getattr(self, name) // 2) for name in names})


@dataclass(frozen=True, slots=True)
class Shown:
    """A message that shows a finding."""

    row: int
    line: str
    """As the command read prints it, without the row."""
    fields: Sequence[str]
    """The specification's field table."""
    bytes: Sequence[str]
    """16 a line, in hexadecimal, as far as they are shown."""
    findings: Sequence[str]
    """Ids of what it shows."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One vbucket, stream by stream."""

    vbucket: int
    streams: Sequence[StreamStory]
    names: Sequence[str]
    words: Sequence[Mapping[str, str]]
    """What the lanes of each stream show, in words."""
    left_out: int = 0
    """Streams before these."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a report tells. Texts are safe for a terminal, and nothing in them is markup."""

    overview: Mapping[str, Any]
    """A record of ``streams.contracts.INFO``."""
    verdict: str
    causes: Sequence[Finding]
    """Findings that are no effects, worst first."""
    effects: Mapping[str, Sequence[Finding]]
    """By the id of their cause."""
    counts: Mapping[str, int]
    """Findings by severity, all of them."""
    shown: Mapping[int, Shown]
    """Messages that show a finding, by row."""
    vbuckets: Records
    connections: Records
    rollbacks: Records
    timelines: Sequence[Timeline]
    charts: Charts
    coverage: Sequence[DirectionCoverage]
    """Of directions with payload that are no other protocol."""
    is_redacted: bool
    limits: Limits
    left_out: Sequence[str] = field(default=())
    """What the report has not, a sentence each."""


def contents(
    reading: Reading,
    store: Store,
    statistics: Statistics,
    *,
    redactor: Redactor | None = None,
    limits: Limits | None = None,
    is_whole: bool = True,
) -> Contents:
    """Gather it. The reading checked, and ``store`` and ``statistics`` took all of it. Raises as ``Store.messages``."""
    most = limits or Limits()
    tables, found, by_name = reading.worked_out(is_whole=is_whole)
    causes, effects = with_their_effects(found)
    left_out = [] if is_whole else ["Reading was stopped before the end of the captures."]
    if len(causes) > most.findings:
        left_out.append(f"{len(causes) - most.findings:,} findings, the least severe ones.")
    rows = _evidence_rows([*causes, *(one for several in effects.values() for one in several)], most)
    numbers, more = _vbuckets_that_matter(by_name["vbuckets"], found, tables, most.timelines)
    if more:
        left_out.append(f"The timelines of {more:,} more vbuckets. 'dcpinspect timeline --vbucket N' draws them.")
    left_out += [
        f"{len(by_name[title]) - most.rows:,} rows of the table of {title}. 'dcpinspect {title}' prints them."
        for title in ("vbuckets", "connections", "rollbacks")
        if len(by_name[title]) > most.rows
    ]
    return Contents(
        overview=overview(reading),
        verdict=verdict(causes, LookedAt.of(reading)) if reading.messages else "nothing was checked: no messages were found",
        causes=causes[: most.findings],
        effects=effects,
        counts=Counter(one.severity for one in found),
        shown={one.row: one for one in _messages(store, rows, reading, redactor, most)},
        vbuckets=by_name["vbuckets"],
        connections=by_name["connections"],
        rollbacks=by_name["rollbacks"],
        timelines=[_timeline(store, tables, number, most) for number in numbers],
        charts=statistics.charts(tables),
        coverage=[one for one in reading.coverage.everything if (one.captured or one.missing) and one.protocol != OTHER],
        is_redacted=redactor is not None,
        limits=most,
        left_out=left_out,
    )


def places_of(one: Finding, most: Limits) -> list[Place]:
    """The messages of a finding that a report shows: some of each case, so that all cases have their turn."""
    of_cases = [list(case.places) for case in one.each[: most.cases]]
    turns = (places[turn] for turn in range(most.of_one) for places in of_cases if turn < len(places))
    return sorted(dict.fromkeys([*one.places[:1], *turns]), key=lambda place: place.row)[: most.of_one]


def _evidence_rows(findings: Iterable[Finding], most: Limits) -> dict[int, list[str]]:
    """Rows that are shown, with the ids of the findings that they show; the worst findings have theirs first."""
    rows: dict[int, list[str]] = {}
    for one in findings:
        for place in places_of(one, most):
            if place.row in rows or len(rows) < most.evidence:
                rows.setdefault(place.row, []).append(one.id)
    return rows


def _messages(
    store: Store, rows: Mapping[int, Sequence[str]], reading: Reading, redactor: Redactor | None, most: Limits
) -> Iterator[Shown]:
    there = [row for row in sorted(rows) if store.first_row <= row <= store.rows]
    if not there:
        return
    batch = store.messages(there).redacted(redactor)
    lines = Lines()
    lines.start_at(reading.first_time_ns or 0)
    for index, row in enumerate(there):
        message = batch.annotate(index)
        yield Shown(
            row,
            lines.line(batch, index).split(maxsplit=1)[-1],
            field_table(message, limit=most.value),
            list(_byte_lines(message, most.value)),
            rows[row],
        )


def _byte_lines(message: Message, limit: int) -> Iterator[str]:
    cells = byte_cells(message, limit=limit)
    for at in range(0, len(cells), 16):
        yield f"{at:>6}  {' '.join(cells[at : at + 8])}  {' '.join(cells[at + 8 : at + 16])}".rstrip()
    if len(cells) < message.size:
        yield f"        {message.size - len(cells):,} more bytes"


def _vbuckets_that_matter(vbuckets: Records, found: Sequence[Finding], tables: Tables, most: int) -> tuple[list[int], int]:
    """Vbuckets whose timeline is drawn, rising, and how many more there are of them: those with errors, warnings and rollbacks.

    Where nothing is wrong these are the first ones.
    """
    weights: Counter[int] = Counter()
    for one in found:
        for number in one.vbuckets if one.severity in _SEVERE else ():
            weights[number] += 10_000 if one.severity == "error" else 100
    for number in tables.rollbacks.values("vbucket"):
        weights[number] += 10
    ordered = sorted(weights, key=lambda number: (-weights[number], number)) or sorted(set(vbuckets.values("vbucket")))[:_WELL]
    return sorted(ordered[:most]), max(0, len(ordered) - most)


def _timeline(store: Store, tables: Tables, vbucket: int, most: Limits) -> Timeline:
    items = VbucketItems(vbucket)
    rows = store.matching(FilterRows(parse_filter(f"vbucket = {vbucket}"))).astype(np.int64)
    for start in range(0, len(rows), _BATCH):
        items.feed(store.messages(rows[start : start + _BATCH]))
    found = stories(tables, vbucket, (), items)
    shown = found[-most.streams :]
    several = any(story.stream["sid"] is not None for story in shown)
    return Timeline(
        vbucket,
        shown,
        [name(story, is_with_sid=several) for story in shown],
        [{lane: one_line(text) for lane, text in words(story, ()).items()} for story in shown],
        len(found) - len(shown),
    )


def title_of(overview: Mapping[str, Any]) -> str:
    """The captures by their names."""
    names = [escape(file["name"]).rpartition("/")[2] or escape(file["name"]) for file in overview["files"]]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more" if names else "no capture"
