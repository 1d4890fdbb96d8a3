"""The contents of a report: gathered once from a reading that has ended, and small enough for a
file that people pass on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.coverage import Coverage, DirectionCoverage
from dcpinspect.findings.finding import Finding, MessagePlace
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.overview import overview
from dcpinspect.output.render.byte_grid import byte_cells
from dcpinspect.output.render.event_lines import (
    MessageEvent,
    VbucketEvent,
    by_stream,
    noted_in,
    of_findings,
)
from dcpinspect.output.render.field_table import field_table
from dcpinspect.output.render.finding_text import by_packets
from dcpinspect.output.render.info_text import info_facts
from dcpinspect.output.render.message_lines import Lines
from dcpinspect.output.render.shape import Mark
from dcpinspect.output.render.timeline_text import name, words
from dcpinspect.output.render.verdict import (
    LookedAt,
    damage,
    is_answer,
    verdict,
    with_their_effects,
)
from dcpinspect.output.statistics import Charts, Statistics
from dcpinspect.protocol.message import Message
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import PART_ROWS, Store
from dcpinspect.streams.items import VbucketItems
from dcpinspect.streams.story import StreamStory, stories
from dcpinspect.streams.tables import Tables
from dcpinspect.tables.record_rows import RecordSelection
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import escape, listed, one_line

_SEVERE = ("error", "warning")
_OF_STREAM = ("connection", "sid", "stream")
_WELL = 4
"""Number of vbuckets whose timelines are drawn if nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Greatest numbers of what a report shows; what is beyond them is only counted."""

    findings: int = 300
    cases: int = 20
    """Cases of a finding."""
    evidence: int = 200
    """Messages that are shown with all their fields."""
    of_one: int = 6
    """Messages that are shown for one finding."""
    value: int = 128
    """Bytes that are shown of one field."""
    timelines: int = 16
    streams: int = 12
    """Streams of a timeline; the latest ones are shown."""
    rows: int = 1024
    """Rows of a table."""

    def halved(self) -> Limits:
        """Returns half of these limits, for a report that came out too large."""
        names = ("findings", "cases", "evidence", "timelines", "rows", "value")
        return replace(self, **{name: max(1, getattr(self, name) // 2) for name in names})


@dataclass(frozen=True, slots=True)
class EvidenceMessage:
    """A message that shows a finding."""

    row: int
    cells: Mapping[str, str]
    """The columns of the line that the command ``read`` prints for it, by their heading."""
    fields: Sequence[str]
    """Lines of the message's table of fields, as in the specification."""
    bytes: Sequence[str]
    """The bytes shown, in hexadecimal, 16 to a line."""
    findings: Sequence[str]
    """Ids of the findings that it shows."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline of one vbucket, stream by stream."""

    vbucket: int
    streams: Sequence[StreamStory]
    names: Sequence[str]
    """Each stream with its connection and the client of that."""
    words: Sequence[Mapping[str, str]]
    """For each stream, what its lanes show, in words."""
    marks: Sequence[Sequence[Mark]]
    """For each stream, its system events and changes of state that have a seqno."""
    findings: Sequence[Sequence[VbucketEvent]]
    """For each stream, the errors and warnings that begin there, without effects of others."""
    left_out: int = 0
    """Number of streams before these, which are not shown."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where contents are gathered from: a reading that has ended, or the tables of a pipeline."""

    title: str
    facts: Sequence[tuple[str, Sequence[str]]]
    """Labels with texts: what is in the captures."""
    files: Sequence[str]
    """Names of the captures, by number."""
    looked: LookedAt
    findings: Sequence[Finding]
    tables: Tables
    by_name: Mapping[str, Records]
    charts: Charts
    coverage: Coverage
    events_of: Callable[[int], VbucketItems]
    """Returns the events of a vbucket."""
    noted_of: Callable[[int], Sequence[MessageEvent]]
    """Returns the system events of a vbucket, and the changes of its state."""
    messages: Callable[[Mapping[int, Sequence[str]], Limits], Iterable[EvidenceMessage]]
    """Yields messages, given the ids of the findings that each row shows."""
    is_redacted: bool
    frames_of: Callable[[Collection[int]], Mapping[int, str]] | None = None
    """Returns the frames of messages by row, where rows only sort, as in a pipeline."""
    lacks: Sequence[str] = ()
    """What the source cannot provide, one sentence each."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a report tells. Texts are safe for a terminal, and are no markup."""

    source: Source
    verdict: str
    causes: Sequence[Finding]
    """Findings that are not effects of others, worst first."""
    effects: Mapping[str, Sequence[Finding]]
    """The effects of each cause, by the cause's id."""
    shown: Mapping[int, EvidenceMessage]
    """Messages that show a finding, by row."""
    vbuckets: Records
    rollbacks: Records
    """As many as there may be rows, those of the worst vbuckets, in the order of their table."""
    connections: Records
    """As many as there may be rows, those with the worst findings, in the order of their table."""
    timelines: Sequence[Timeline]
    coverage: Sequence[DirectionCoverage]
    """Coverage of directions that have payload and carry no other protocol."""
    limits: Limits
    left_out: Sequence[str]
    """What the report does not contain, one sentence each."""


WorkedOut = tuple[Tables, Sequence[Finding], Mapping[str, Records]]
"""What ``Reading.worked_out`` returns."""


def of_reading(
    reading: Reading,
    store: Store,
    charts: Callable[[Reading, Tables], Charts],
    *,
    is_whole: bool = True,
    worked_out: WorkedOut | None = None,
) -> Source:
    """Returns the source of a report on a reading that checked, has ended, and all of whose
    messages ``store`` took.

    ``charts`` returns the charts of ``Statistics``, which counted all messages; those of
    connections that show what another one shows are not in the report. ``is_whole``: the reading came to the end of
    the captures. ``worked_out``: the result of ``Reading.worked_out``, if it is known already.
    """
    tables, findings, by_name = worked_out or reading.worked_out(is_whole=is_whole)
    if copies := reading.tracker.left_out(reading.links):
        charts = _counted_once(store, copies).charts
    about = overview(reading)
    if about["tls_next"] in {finding.next for finding in findings}:
        about["tls_next"] = None  # the finding says it
    files = [file["name"] for file in about["files"]]
    return Source(
        title=title_of(files),
        facts=[(label, list(texts)) for label, texts in info_facts(about) if label != "next"],
        files=files,
        looked=LookedAt.from_reading(reading, damage=damage(reading)),
        findings=findings,
        tables=tables,
        by_name=by_name,
        charts=charts(reading, tables),
        coverage=reading.coverage,
        events_of=store.items_of,
        noted_of=partial(noted_in, store),
        messages=lambda rows, most: _messages(store, rows, reading, most),
        is_redacted=reading.redactor is not None,
        lacks=() if is_whole else ("Reading was stopped before the end of the captures.",),
    )


def _counted_once(store: Store, copies: Collection[int]) -> Statistics:
    """Returns statistics of the messages in a store without those of connections that are copies."""
    statistics = Statistics()
    for first_row in range(store.first_row, store.rows + 1, PART_ROWS):
        rows = np.arange(first_row, min(first_row + PART_ROWS, store.rows + 1))
        (connections,) = store.numbers(rows, ("connection",))
        rows = rows[~np.isin(connections.values, list(copies))]
        if len(rows):
            statistics.feed(store.messages(rows))
    return statistics


def contents(source: Source, limits: Limits | None = None) -> Contents:
    """Gathers the contents from their source. Raises the same errors as ``Store.messages``."""
    most = limits or Limits()
    causes, effects = with_their_effects(source.findings)
    left_out = list(source.lacks)
    if len(causes) > most.findings:
        left_out.append(f"{len(causes) - most.findings:,} findings, the least severe ones.")
    rows = _evidence_rows(
        [*causes, *(effect for several in effects.values() for effect in several)], most
    )
    weights = _weights(source)
    numbers = [*weights] or sorted({*source.by_name["vbuckets"].values("vbucket")})[:_WELL]
    if (more := len(numbers) - most.timelines) > 0:
        left_out.append(
            f"The timelines of {more:,} more vbuckets. 'dcpinspect timeline --vbucket N' draws "
            "them."
        )
    left_out += [
        (
            f"{len(source.by_name[title]) - most.rows:,} rows of the table of {title}. 'dcpinspect "
            f"{title}' prints them."
        )
        for title in ("vbuckets", "connections", "rollbacks")
        if len(source.by_name[title]) > most.rows
    ]
    places = {number: place for place, number in enumerate(weights)}
    rollbacks = source.by_name["rollbacks"]
    ranks = [places.get(number, len(places)) for number in rollbacks.values("vbucket")]
    return Contents(
        source,
        verdict=verdict(source.findings, source.looked)
        if is_answer(causes, source.looked.messages)
        else "nothing was checked: no messages were found",
        causes=causes[: most.findings],
        effects=effects,
        shown={message.row: message for message in source.messages(rows, most)},
        vbuckets=RecordSelection(sort=["vbucket"]).matching(source.by_name["vbuckets"]),
        rollbacks=_lowest(rollbacks, ranks, most.rows),
        connections=_with_findings(source.by_name["connections"], most.rows),
        timelines=[_timeline(source, number, most) for number in numbers[: most.timelines]],
        coverage=[
            *source.coverage.where(lambda all_: all_.is_own & (all_.captured + all_.missing > 0))
        ],
        limits=most,
        left_out=left_out,
    )


def _with_findings(connections: Records, most: int) -> Records:
    """Returns at most so many connections, those with the worst findings."""
    counts = [
        tuple(-(of_row or {}).get(severity, 0) for severity in SEVERITIES)
        for of_row in connections.values("findings")
    ]
    rank_of = {count: rank for rank, count in enumerate(sorted(set(counts)))}
    return _lowest(connections, [rank_of[count] for count in counts], most)


def _lowest(records: Records, ranks: Sequence[int], most: int) -> Records:
    """Returns at most so many records, those of the lowest ranks, in their order."""
    return records.take(np.sort(np.argsort(ranks, kind="stable")[:most]))


def with_frames(table: Any, source: Source) -> Any:
    """Returns an Arrow table with frames in place of rows, where rows only sort."""
    for index, column in enumerate(table.schema.names if source.frames_of is not None else ()):
        if column.endswith("_row") and source.frames_of is not None:
            rows = table.column(index).to_pylist()
            frames = source.frames_of([row for row in rows if row is not None])
            texts = pa.array([frames.get(row) for row in rows], pa.string())
            table = table.set_column(index, f"{column.removesuffix('row')}frame", texts)
    return table


def places_of(finding: Finding, limits: Limits) -> list[MessagePlace]:
    """Returns the messages of a finding that a report shows: some of each case, so that every case
    has its turn; of each, those on the connections that it names come first. Requests have their
    answers beside them.
    """
    of_cases = [
        _conversations(
            sorted(case.places, key=lambda place: place.connection not in case.connections)
        )
        for case in finding.case_of_each[: limits.cases]
    ]
    turns = (
        place
        for turn in range(limits.of_one)
        for conversations in of_cases
        for place in (conversations[turn] if turn < len(conversations) else ())
    )
    chosen_places = [*dict.fromkeys([*finding.places[:1], *turns])][: limits.of_one]
    return sorted(chosen_places, key=lambda place: place.row)


def _conversations(places: Iterable[MessagePlace]) -> list[list[MessagePlace]]:
    """Returns messages one by one, but those of a client with what the server says next."""
    conversations: list[list[MessagePlace]] = []
    for message in places:
        begun = conversations[-1][0] if conversations else message
        goes_on = (
            begun.direction == "c2s" and message.direction == "s2c" and len(conversations[-1]) < 3
        )
        if goes_on and message.connection == begun.connection:
            conversations[-1].append(message)
        else:
            conversations.append([message])
    return conversations


def _evidence_rows(findings: Sequence[Finding], limits: Limits) -> dict[int, list[str]]:
    """Returns the rows to show, with the ids of all findings that they show; the worst choose
    first.
    """
    rows: dict[int, list[str]] = {}
    for finding in findings:
        for place in places_of(finding, limits):
            if place.row and len(rows) < limits.evidence:
                rows.setdefault(place.row, [])
    for finding in findings:
        for row in dict.fromkeys(finding.in_full.evidence_rows):
            if row in rows:
                rows[row].append(finding.id)
    return rows


def _messages(
    store: Store, rows: Mapping[int, Sequence[str]], reading: Reading, limits: Limits
) -> Iterator[EvidenceMessage]:
    there = [row for row in sorted(rows) if store.first_row <= row <= store.rows]
    if not there:
        return
    batch = store.messages(there)
    lines = Lines()
    lines.start_at(reading.first_time_ns or 0)
    times = lines.shown_times(batch.time_ns).tolist()
    for index, row in enumerate(there):
        message = batch.annotate(index)
        yield EvidenceMessage(
            row,
            lines.cells(batch, index, times[index]),
            field_table(message, limit=limits.value),
            list(_byte_lines(message, limits.value)),
            rows[row],
        )


def _byte_lines(message: Message, limit: int) -> Iterator[str]:
    cells = byte_cells(message, limit=limit)
    for offset in range(0, len(cells), 16):
        halves = (" ".join(cells[start : start + 8]) for start in (offset, offset + 8))
        yield f"{offset:>6}  {'  '.join(halves)}".rstrip()
    if len(cells) < message.size:
        yield f"        {message.size - len(cells):,} more bytes"


def _weights(source: Source) -> dict[int, int]:
    """Returns the vbuckets with errors, warnings or rollbacks, and how much each weighs, the worst
    first.
    """
    weights: Counter[int] = Counter()
    for finding in source.findings:
        for number in finding.vbuckets if finding.severity in _SEVERE else ():
            weights[number] += 10_000 if finding.severity == "error" else 100
    for number in source.tables.rollbacks.values("vbucket"):
        weights[number] += 10
    return dict(sorted(weights.items(), key=lambda weighed: (-weighed[1], weighed[0])))


def _timeline(source: Source, vbucket: int, limits: Limits) -> Timeline:
    vbucket_stories = stories(source.by_name, vbucket, (), source.events_of(vbucket))
    latest = vbucket_stories[-limits.streams :]
    rows = [story.stream["open_row"] for story in latest]
    frames = source.frames_of(rows) if source.frames_of is not None else {}
    # those that the map of vbuckets counts: no vbucket has what is of a whole connection
    own_findings = [finding for finding in source.findings if finding.vbuckets]
    by_id = {finding.id: finding for finding in own_findings}
    events = [
        event._replace(text=by_packets(event.text, by_id[event.finding], source.files))
        for event in of_findings(latest, own_findings)
        if event.cause is None and event.finding is not None
    ]
    several = any(story.stream["sid"] is not None for story in latest)
    connections = source.by_name["connections"]
    clients = {
        row["connection"]: escape(row["name"] or row["client"])
        for row in connections.row_dicts("connection", "name", "client")
    }
    noted = by_stream(latest, source.noted_of(vbucket))
    marks = [
        [
            Mark(event.seqno, event.letter, event.row, event.text)
            for event in noted.get(story_number, ())
            if event.seqno is not None
        ]
        for story_number in range(len(latest))
    ]
    return Timeline(
        vbucket,
        latest,
        [
            f"{name(story, is_with_sid=several)} on connection {number}, {clients[number]}"
            for story in latest
            for number in (story.stream["connection"],)
        ],
        [
            {
                lane: one_line(_by_frame(text, frames))
                for lane, text in words(story, [mark.letter for mark in own_marks]).items()
            }
            for story, own_marks in zip(latest, marks, strict=True)
        ],
        marks,
        [
            [
                event
                for event in events
                if all(getattr(event, name) == story.stream[name] for name in _OF_STREAM)
            ]
            for story in latest
        ],
        len(vbucket_stories) - len(latest),
    )


def _by_frame(text: str, frames: Mapping[int, str]) -> str:
    """Names the message that a text begins with by its frame, if that is among ``frames``."""
    row, colon, row_text = text.removeprefix("row ").partition(":")
    frame = frames.get(int(row)) if text.startswith("row ") and row.isdecimal() else None
    return text if frame is None else f"frame {frame}{colon}{row_text}"


def title_of(files: Sequence[str]) -> str:
    """Returns a title that names the captures."""
    names = [escape(name).rpartition("/")[2] or escape(name) for name in files]
    return listed(names, 1) or "no capture"
