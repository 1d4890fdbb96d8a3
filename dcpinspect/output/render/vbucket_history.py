"""The history of one vbucket: what ``dcpinspect timeline`` draws and lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dcpinspect.output.render.event_lines import (
    MOST_NOTED,
    EventLines,
    MessageEvent,
    VbucketEvent,
    by_stream,
    events,
    folded,
    noted,
)
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.items import VbucketItems
from dcpinspect.streams.story import StreamStory, stories
from dcpinspect.text import counted

if TYPE_CHECKING:
    from dcpinspect.findings.finding import Finding
    from dcpinspect.protocol.column_types import RowNumbers
    from dcpinspect.reading.reading import Reading
    from dcpinspect.tables.filter import Filter
    from dcpinspect.tables.messages import MessageBatch
    from dcpinspect.tables.record_tables import Records

_ENDS = tuple(map(int, (Opcode.DCP_STREAM_END, Opcode.DCP_CLOSE_STREAM, Opcode.DCP_OSO_SNAPSHOT)))
_SHOWN = ("connection", "client", "server", "name", "verdict", "closed_by")


class VbucketHistory:
    """The streams of a vbucket and everything that happened to them. Feed it with every batch of a
    reading, then ask ``read``.
    """

    def __dir__(self) -> Iterable[str]:
        """Names for people; the others are for those who feed it."""
        fed = {"bounds", "feed", "findings", "is_within", "noted", "read"}
        return {*super().__dir__()} - fed

    def __init__(self, vbucket: int, connections: Sequence[range] = ()) -> None:
        """``connections``: only streams of these; of all if empty."""
        self.vbucket = vbucket
        self.left_out = 0
        """Number of system events and changes of state that were not kept."""
        self.streams: Sequence[StreamStory] = ()
        self.connections: Mapping[int, Mapping[str, Any]] = {}
        """Rows of the table of connections, by number."""
        self.noted: Mapping[int, Sequence[MessageEvent]] = {}
        """System events and changes of state, by place of their stream."""
        self.events: Sequence[VbucketEvent] = ()
        """All events, in order."""
        self.bounds: tuple[int, int] | None = None
        """The span of time whose events are told; None: all."""
        self._only = connections
        self._items = VbucketItems(vbucket, connections)
        self._noted: list[MessageEvent] = []
        self._end_times: dict[int, int] = {}
        """Times of messages that end streams, or out-of-order snapshots, by row."""
        self._first_ns: int | None = None
        self.findings: Sequence[Finding] = ()
        """Those about the vbucket, and those about connections, of which some have no event here."""

    def feed(self, batch: MessageBatch) -> RowNumbers:
        """Takes the next messages. Returns the places of the vbucket's messages in the batch."""
        rows = self._items.feed(batch)
        ends = rows[np.isin(batch.decoded.opcode[rows], _ENDS)]
        self._end_times.update(
            zip(batch.row[ends].tolist(), batch.time_ns[ends].tolist(), strict=True)
        )
        for event in noted(batch, rows):
            if len(self._noted) < MOST_NOTED:
                self._noted.append(event)
            else:
                self.left_out += 1
        return rows

    def read(
        self,
        reading: Reading,
        records: Mapping[str, Records],
        only: Filter | None = None,
        bounds: tuple[int, int] | None = None,
        findings: Sequence[Finding] = (),
    ) -> None:
        """Finds the streams and events, once the reading has come to its end.

        ``records``: the tables by name, with the verdicts that findings tell. ``only``: streams for
        which this filter is true. ``findings``: those that are told of are among the events.
        """
        self.bounds, self._first_ns = bounds, reading.first_time_ns
        tables = reading.tables
        self.streams = stories(records, self.vbucket, self._only, self._items, only, bounds)
        of_streams = {story.key[0] for story in self.streams}
        self.connections = {
            row["connection"]: row
            for row in tables.connections.row_dicts()
            if row["connection"] in of_streams
        }
        links = {link.number: link for link in reading.links}
        self.noted = by_stream(self.streams, self._noted)
        self.findings = [
            finding
            for finding in findings
            if finding.vbuckets or not of_streams.isdisjoint(finding.connections)
        ]
        all_events = [
            event._replace(time_ns=self._end_times.get(event.row))
            if event.time_ns is None
            else event
            for event in events(self.streams, self.noted, links, self._items.last_rows, findings)
        ]
        self.events = [
            event
            for event, time_ns in zip(all_events, self._times(all_events), strict=True)
            if self.is_within(time_ns)
        ]

    def is_within(self, time_ns: int) -> bool:
        """Whether what happens at this time is told."""
        return self.bounds is None or self.bounds[0] <= time_ns < self.bounds[1]

    def _times(self, all_events: Sequence[VbucketEvent]) -> Iterator[int]:
        """Yields the times of events. An event without a time has that of the event before."""
        latest = 0
        for event in all_events:
            latest = latest if event.time_ns is None else event.time_ns
            yield latest

    def to_dict(self) -> dict[str, Any]:
        """Returns what ``dcpinspect timeline --format json`` prints, as Python objects."""
        return {
            "schema": "dcpinspect.timeline/2",
            "vbucket": self.vbucket,
            "connections": [
                {name: row[name] for name in _SHOWN} for row in self.connections.values()
            ],
            "streams": [record for story in self.streams for record in story.row.records()],
            "snapshots": [record for story in self.streams for record in story.snapshots.records()],
            "gaps": [record for story in self.streams for record in story.gaps.records()],
            "events": [event.record() for event in self.events],
        }

    def lines(self, shown_events: Sequence[VbucketEvent], width: int | None) -> EventLines:
        """Returns what lays these events out in lines of ``width``."""
        return EventLines(shown_events, self._first_ns, width)

    def __str__(self) -> str:
        folded_events = list(folded(self.events))
        lines = self.lines(folded_events, None)
        return "\n".join(
            [lines.heading, *(line for event in folded_events for line in lines.lines_of(event))]
        )

    def __repr__(self) -> str:
        streams, happened = counted(len(self.streams), "stream"), counted(len(self.events), "event")
        return f"<timeline of vbucket {self.vbucket}: {streams}, {happened}>"
