"""The streams of one vbucket as its timeline draws them: on both axes, with findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.finding_marks import FindingMarks, places_of
from dcpinspect.output.render.event_lines import (
    VbucketEvent,
    by_stream,
    events,
    folded,
    lasted_until,
    noted_in,
)
from dcpinspect.output.render.shape import Mark, Shape, by_seqno, by_time
from dcpinspect.output.render.timeline_text import name, words
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.story import StreamStory, stories
from dcpinspect.text import escape
from dcpinspect.tui.inspection import Inspection

Axis = Literal["seqno", "time"]


class TrackEvent(NamedTuple):
    """An event, and where it is drawn."""

    event: VbucketEvent
    track: int
    """Place of its track."""
    seqno: int
    time: int
    """Nanoseconds since the capture began."""
    row: int
    """Row of the message that it is drawn at."""
    finding: int | None = None
    """Number of the finding, if the event is one."""


@dataclass(frozen=True, slots=True)
class Track:
    """One stream."""

    story: StreamStory
    shapes: dict[Axis, Shape]
    name: str
    words: dict[str, str]
    """What each lane shows, in words; the first lane is the axis."""
    finding_marks: FindingMarks
    """Messages of the stream that show errors or warnings."""

    @property
    def connection(self) -> int:
        """Number of the connection."""
        return self.story.key[0]

    @property
    def first_row(self) -> int:
        """Row of the first message of the stream."""
        return int(self.story.stream["open_row"])

    def seqnos_of(self, rows: Sequence[int]) -> list[int]:
        """Returns the seqno at which each message of the stream is drawn.

        An answer with a rollback is drawn at the seqno to roll back to.
        """
        back = {
            mark.row: mark.at
            for mark in self.shapes["seqno"].marks
            if mark.letter == "R" and mark.row != self.first_row
        }
        seqnos = self.story.seqnos_of(np.array(rows, np.int64)).tolist() if rows else []
        return [back.get(row, seqno) for row, seqno in zip(rows, seqnos, strict=True)]


@dataclass(frozen=True, slots=True)
class Tracks:
    """All streams of a vbucket, and what happened in order."""

    vbucket: int | None = None
    tracks: Sequence[Track] = ()
    events: Sequence[TrackEvent] = ()
    connections: dict[int, str] = field(default_factory=dict)
    """Addresses and name of each connection; safe for a terminal."""
    until_ns: int = 0
    """When the capture ends, in nanoseconds since it began."""
    first_ns: int = 0
    """When it began, in nanoseconds since 1970."""

    def bounds(self, axis: Axis) -> tuple[int, int]:
        """Returns the first and last place of all streams on an axis, with refused events."""
        bounds = [bound for track in self.tracks for bound in track.shapes[axis].seqno_ranges()]
        if axis == "seqno":
            for track in self.tracks:
                bounds += track.story.refused_seqno.tolist()
        return min(bounds, default=0), max(bounds, default=0)

    def found_at(self, track: int, axis: Axis) -> set[tuple[int, Severity]]:
        """Returns the places on the axis, and severities, of a stream's errors and warnings, and of
        all messages that show them.
        """
        return {
            (told.seqno if axis == "seqno" else told.time, told.event.severity)
            for told in self.events
            if told.track == track and told.event.severity and told.event.cause is None
        } | {
            (position, severity)
            for severity, shown_rows in self.tracks[track].finding_marks.by_severity.items()
            for position in (
                self.tracks[track].seqnos_of(shown_rows.row.tolist())
                if axis == "seqno"
                else (shown_rows.time_ns - self.first_ns).tolist()
            )
        }


def tracks_of(
    inspection: Inspection,
    vbucket: int,
    goes_on: Callable[[float], bool] = lambda _: True,
) -> Tracks:
    """Returns the streams of a vbucket, as far as the tables know them.

    Reads the columns of the vbucket's messages, and the bytes of only a few. ``goes_on`` takes the
    share that is read, 0 to 1, and returns whether to go on; if not, InterruptedError is raised.
    Raises the same errors as ``Store.messages``.
    """
    results = inspection.results
    if not results.records:
        return Tracks(vbucket)
    first_ns = inspection.reading.first_time_ns or 0
    only = (
        () if results.connection is None else (range(results.connection, results.connection + 1),)
    )
    store = inspection.store
    rows = store.of_vbucket(vbucket)
    items = store.items_of(vbucket, goes_on, rows)
    stream_stories = stories(results.records, vbucket, only, items)
    notes = by_stream(stream_stories, noted_in(store, vbucket, rows))
    evidence = partial(places_of, store, rows)
    findings = inspection.results.findings
    several = any(story.stream["sid"] is not None for story in stream_stories)
    links = {link.number: link for link in inspection.reading.links}
    tracks = []
    bad_rows = results.finding_marks.where(
        (results.finding_marks.vbucket == vbucket) & (results.finding_marks.row > 0)
    )
    for story_number, story in enumerate(stream_stories):
        later = [
            later_story.stream["open_row"]
            for later_story in stream_stories[story_number + 1 :]
            if later_story.key[:2] == story.key[:2]
        ]
        is_own = (bad_rows.connection == story.key[0]) & (bad_rows.sid == story.key[1])
        is_own &= (bad_rows.row >= story.stream["open_row"]) & (
            bad_rows.row < min(later, default=1 << 62)
        )
        own_notes = notes.get(story_number, ())
        noted_marks = [
            (note.seqno, Mark(max(0, note.time_ns - first_ns), note.letter, note.row, note.text))
            for note in own_notes
        ]
        in_time = [mark for _, mark in noted_marks]
        on_seqnos = [mark._replace(at=seqno) for seqno, mark in noted_marks if seqno is not None]
        until_ns = lasted_until(story.stream, links)
        tracks.append(
            Track(
                story,
                {
                    "seqno": by_seqno(story, on_seqnos),
                    "time": by_time(story, first_ns, in_time, until_ns),
                },
                name(story, is_with_sid=several),
                words(story, [own_note.letter for own_note in own_notes]),
                bad_rows.where(is_own),
            )
        )
    connections = _connections(inspection, {track.connection for track in tracks})
    vbucket_events = events(stream_stories, notes, links, items.last_rows, findings, evidence)
    track_events = _events(inspection, tracks, vbucket_events, first_ns)
    until_ns = inspection.reading.ends[1] - first_ns
    return Tracks(vbucket, tracks, track_events, dict(connections), until_ns, first_ns)


def _events(
    inspection: Inspection,
    tracks: Sequence[Track],
    vbucket_events: Sequence[VbucketEvent],
    first_ns: int,
) -> list[TrackEvent]:
    """Returns the events with their places, consecutive gaps of a kind as one."""
    place_of = {track.story.key: track_number for track_number, track in enumerate(tracks)}
    events = list(folded(vbucket_events))
    owner = [
        place_of[event.connection, -1 if event.sid is None else event.sid, event.stream]
        for event in events
    ]
    rows = np.array([event.row for event in events], np.int64)
    times = inspection.store.numbers(rows, ("time_ns",))[0].values.tolist() if len(rows) else []
    seqnos = [0] * len(events)
    for track_number, track in enumerate(tracks):
        event_numbers = [
            number for number, owner_number in enumerate(owner) if owner_number == track_number
        ]
        for number, seqno in zip(
            event_numbers,
            track.seqnos_of([events[number].row for number in event_numbers]),
            strict=True,
        ):
            gap = events[number].gap
            seqnos[number] = seqno if gap is None else gap["after_seqno"] + 1
    number_of = {finding.id: rank for rank, finding in enumerate(inspection.results.findings)}
    return [
        TrackEvent(
            event._replace(time_ns=time_ns),
            track_number,
            seqno,
            max(0, time_ns - first_ns),
            event.row,
            number_of.get(event.finding or ""),
        )
        for event, track_number, seqno, row_ns in zip(events, owner, seqnos, times, strict=True)
        for time_ns in (row_ns if event.time_ns is None else event.time_ns,)
    ]


def _connections(inspection: Inspection, numbers: set[int]) -> Iterator[tuple[int, str]]:
    table = inspection.results.records["connections"]
    for number, client, server, title in table.rows("connection", "client", "server", "name"):
        if number in numbers:
            yield number, f"{client} → {server}{f'  {escape(title)}' if title else ''}"
