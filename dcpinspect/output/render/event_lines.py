"""The events of one vbucket in order, one per line: requests with their answers, snapshots, gaps
with their evidence, and ends.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import orjson

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import duration
from dcpinspect.findings.finding import Finding, MessagePlace
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.message_lines import seconds_text, summary
from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.output.render.shape import begun
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import END_FLAGS, ENDLESS
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.reading.store.store import Store
from dcpinspect.streams.record_codes import SET_STATE, SYSTEM_EVENT
from dcpinspect.streams.story import StreamStory
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.words import (
    CAUSES,
    LOSS,
    NEVER_OPEN,
    NO_STREAM_END,
    OUT_OF_ORDER,
    ROLLBACK,
    UNEXPLAINED,
    UNKNOWN_END,
)
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.record_tables import time_text
from dcpinspect.text import escape, one_line, range_text, wrap

_OVER = ("ended", *NEVER_OPEN)
"""Verdicts that have an event of their own."""
WITHOUT_MESSAGE = ("connection-closed", "state")
"""Kinds of events that no message shows."""
EFFECT = "└"
"""Stands before a finding that another one explains."""
_SIDES = ("client", "server")
_PAINTS = {
    **{"request": "kind-request", "first-seen": "kind-request"},
    **{"system-event": "kind-system-event", "vbucket-state": "kind-system-event"},
    **{"stream-end": "kind-end", "connection-closed": "kind-upkeep"},
}
"""Colours of events, by kind."""
_OF_ANSWERS = {"refused": "verdict-refused", "rollback": "kind-rollback"}
_SNAPSHOTS = {"memory": "snapshot-memory", "disk": "snapshot-disk", "out-of-order": "snapshot-oso"}
"""Those of snapshots, which lanes have, too, by the word that they begin with."""


class VbucketEvent(NamedTuple):
    """One event. There may be one for each of 100,000 gaps, and tuples are made fastest."""

    row: int
    """Row of the message that shows the event, or of the last message before it."""
    place: int
    """Order among events of one row."""
    connection: int
    stream: int
    sid: int | None
    kind: str
    """One of ``story.EVENTS``."""
    text: str
    """Description, safe for a terminal."""
    time_ns: int | None = None
    gap: Mapping[str, Any] | None = None
    """Row of the gap in the table of gaps; of several gaps that of the first."""
    severity: Severity | None = None
    """Of a finding."""
    finding: str | None = None
    """Id of the finding, if the event is one."""
    cause: str | None = None
    """Id of the finding that explains it."""
    is_below: bool = True
    """Whether that is the nearest one above it; else the text names it."""
    snapshot: Mapping[str, Any] | None = None
    """Row of a complete snapshot, of which only its items are told, in the table of snapshots."""
    answer: str = ""
    """Of a request."""
    is_opened: bool = True
    """Whether it is of a stream; else of messages for which none was opened."""

    def __repr__(self) -> str:
        text = f"{self.sign} {self.text}".lstrip()
        return f"<{self.kind}, row {self.row}, connection {self.connection}: {text}>"

    @property
    def sign(self) -> str:
        """What stands before a finding: the sign of its severity, or that the one above explains
        it.
        """
        if self.severity is None or not self.is_below:
            return ""
        return GLYPHS[self.severity] if self.cause is None else EFFECT

    @property
    def paint(self) -> str:
        """The colour of the event, its name in the palette: of a gap that of its cause, of a snapshot
        that of its type, of a request that of its answer; empty for none.
        """
        if self.severity is not None:
            return f"severity-{self.severity}"
        if self.gap is not None:
            return f"cause-{self.gap['cause']}"
        if self.kind == "snapshot":
            return _SNAPSHOTS.get(self.text.partition(" ")[0], "snapshot-unknown")
        return _OF_ANSWERS.get(self.answer) or _PAINTS.get(self.kind, "")

    def record(self) -> dict[str, Any]:
        """Returns the event in its JSON form."""
        return {
            "row": self.row,
            "time": None if self.time_ns is None else time_text(self.time_ns),
            "connection": self.connection,
            "sid": self.sid,
            "stream": self.stream,
            "event": self.kind,
            "severity": self.severity,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """A message that is an event by itself."""

    row: int
    time_ns: int
    connection: int
    sid: int
    """-1 for none."""
    seqno: int | None
    letter: str
    """S for a system event, V for a change of the vbucket's state."""
    text: str


MANY = 4
"""Number of complete snapshots in a row from which on they are one event for people."""
MOST_NOTED = 10_000
"""Number of system events and changes of state of a vbucket that are told."""
NOTED = {
    int(Opcode.DCP_SYSTEM_EVENT): ("S", "system event"),
    int(Opcode.DCP_SET_VBUCKET_STATE): ("V", "state of the vbucket"),
}
"""Letter and name of the messages that are events by themselves, by opcode."""


def noted(batch: MessageBatch, rows: RowNumbers) -> Iterator[MessageEvent]:
    """Yields the system events and changes of state among these messages of a batch."""
    decoded = batch.decoded
    requests = rows[~decoded.is_response[rows]]
    for row in requests[np.isin(decoded.opcode[requests], list(NOTED))].tolist():
        letter, name = NOTED[int(decoded.opcode[row])]
        sid = decoded.sid.value_at(row)
        message = (
            int(batch.row[row]),
            int(batch.time_ns[row]),
            int(batch.connection[row]),
            -1 if sid is None else sid,
        )
        yield MessageEvent(
            *message, batch.shown_number("by_seqno", row), letter, f"{name}: {summary(batch, row)}"
        )


def noted_in(store: Store, vbucket: int, rows: RowNumbers | None = None) -> list[MessageEvent]:
    """Returns the system events and changes of state of a vbucket in a store, of which there are
    few. ``rows``: of the vbucket, where they are known. Raises the same errors as ``Store.messages``.
    """
    rows = store.of_vbucket(vbucket) if rows is None else rows
    (kind,) = store.numbers(rows, ("_kind",))
    rows = rows[np.isin(kind.values, (SYSTEM_EVENT, SET_STATE))][:MOST_NOTED]
    if not len(rows):
        return []
    batch = store.messages(rows)
    return list(noted(batch, np.arange(len(batch))))


def by_stream(
    streams: Sequence[StreamStory], noted: Sequence[MessageEvent]
) -> Mapping[int, Sequence[MessageEvent]]:
    """Returns the noted messages by place of their stream: the latest stream on their connection
    and stream-id that was open by then.
    """
    noted_by_stream: dict[int, list[MessageEvent]] = {}
    for event in noted:
        open_streams = [
            stream_index
            for stream_index, story in enumerate(streams)
            if story.key[:2] == (event.connection, event.sid)
            and story.stream["open_row"] <= event.row
        ]
        if open_streams:
            noted_by_stream.setdefault(open_streams[-1], []).append(event)
    return noted_by_stream


def of_findings(
    streams: Sequence[StreamStory],
    findings: Sequence[Finding],
    places_of: Callable[[Finding], Sequence[MessagePlace]] = attrgetter("places"),
) -> Iterator[VbucketEvent]:
    """Yields errors and warnings about the vbucket, each where its first message is, and about
    connections of its streams, at the message that they have everywhere. What explains others of the
    vbucket comes before them. ``places_of``: returns the messages that show a case.
    """
    vbucket = streams[0].stream["vbucket"] if streams else -1
    rules = {finding.id: finding.rule for finding in findings}
    effects = list[VbucketEvent]()
    for finding in sorted(findings, key=lambda finding: finding.effect_of is None):
        cause = finding.effect_of if finding.effect_of in rules else None
        cases = finding.case_of_each if finding.severity != "note" else ()
        own_events = [
            event._replace(finding=finding.id, cause=cause)
            for case in cases
            if vbucket in (case.vbuckets or (vbucket,))
            and (event := _of_case(streams, case, places_of(case))) is not None
        ]
        own_events.sort(key=lambda event: event.row)
        if cause is not None:
            effects += own_events
            continue
        own_effects = [event for event in effects if event.cause == finding.id]
        if own_events and own_effects and finding.vbuckets:
            first = min(own_events[0], *own_effects, key=lambda event: event.row)
            own_events[0] = own_events[0]._replace(
                **{name: getattr(first, name) for name in _PLACE}
            )
        yield from own_events
    yield from effects


def _with_causes(
    events: Sequence[VbucketEvent], findings: Sequence[Finding]
) -> Iterator[VbucketEvent]:
    """Yields events in order; effects that are not below their cause name it, and its row."""
    rules = {finding.id: finding.rule for finding in findings}
    rows = {event.finding: event.row for event in reversed(events) if event.finding}
    above: str | None = None
    for event in events:
        if event.cause is None:  # what stands between parts an effect from its cause
            above = event.finding
        if event.cause in (None, above):
            yield event
            continue
        where = f" in row {rows[event.cause]}" if event.cause in rows else ""
        text = f"{event.text}; explained by {rules[event.cause or '']}{where}"
        yield event._replace(text=text, is_below=False)


_PLACE = ("row", "connection", "stream", "sid", "time_ns")
"""Where an event is."""


def _of_case(
    streams: Sequence[StreamStory], case: Finding, places: Sequence[MessagePlace]
) -> VbucketEvent | None:
    """Returns what a case of a finding is among the events of a vbucket; None where it is about
    none of the streams.
    """
    at_first = (shows for shows in places if shows.time_ns == case.first_time_ns)
    told_at = None if case.vbuckets else next(at_first, None)
    for message_place in places:
        begun_streams = [
            (case.sid in (None, story.stream["sid"]), story.stream["open_row"], story)
            for story in streams
            if story.key[0] == message_place.connection
        ]
        if not begun_streams:
            continue
        offender = told_at or message_place
        before = [begun for begun in begun_streams if begun[1] <= offender.row]
        if not case.vbuckets:  # what its connection bears is of what was open then
            before = [begun for begun in before if _is_open(begun[2].stream, offender.row)]
            if not before:
                continue
        _, _, story = max(before or begun_streams[:1], key=lambda begun: begun[:2])
        times = f"; {case.count:,} times in all" if case.count > 1 else ""
        same_row = (shows for shows in places if shows.row == offender.row and shows.has_message)
        message = next(same_row, offender)
        if offender.time_ns > message.time_ns:
            later = duration(offender.time_ns - message.time_ns)
            times = f"; in a packet {later} after row {message.row}{times}"
        return VbucketEvent(
            offender.row,
            4,
            story.stream["connection"],
            story.stream["stream"],
            story.stream["sid"],
            "finding",
            f"{case.rule}: {one_line(case.message)}{times}",
            message.time_ns,
            severity=case.severity,
        )
    return None


def _is_open(stream: Mapping[str, Any], row: int) -> bool:
    """Whether a stream that began before a row was open there."""
    end_row = stream["end_row"]
    return stream["verdict"] not in NEVER_OPEN and (end_row is None or row <= end_row)


def events(
    streams: Sequence[StreamStory],
    noted: Mapping[int, Sequence[MessageEvent]],
    links: Mapping[int, TcpConnection],
    last_rows: Mapping[int, int],
    findings: Sequence[Finding] = (),
    places_of: Callable[[Finding], Sequence[MessagePlace]] = attrgetter("places"),
) -> list[VbucketEvent]:
    """Returns all events of a vbucket in order of rows; what no message shows comes in order of
    time.

    ``noted``: noted messages of each stream, by place. ``links``: the connections, by number.
    ``last_rows``: row of the vbucket's last message on each connection. ``findings``: errors and
    warnings of them are among the events. ``places_of``: returns the messages that show a case.
    """
    all_events: list[VbucketEvent] = []
    for stream_index, story in enumerate(streams):
        all_events += _of_stream(story, noted.get(stream_index, ()), links, last_rows)
    if streams and all(story.stream["verdict"] in _OVER for story in streams):
        latest = max(all_events, key=lambda event: event.row)
        if links[latest.connection].closed_by < 0:
            text = "the capture ends: no stream is open, and no later request was captured"
            end_ns = _capture_end(links)
            all_events.append(
                latest._replace(
                    place=5, kind="state", text=text, time_ns=end_ns, gap=None, answer=""
                )
            )
    all_events += of_findings(streams, findings, places_of)
    timed = sorted((event.time_ns, event.row) for event in all_events if event.time_ns is not None)
    times, rows = [time_ns for time_ns, _ in timed], [*accumulate((row for _, row in timed), max)]

    def place(event: VbucketEvent) -> tuple[int, int, int]:
        if event.kind == "state":  # nothing comes after the end of the capture
            return sys.maxsize, event.place, 0
        if event.kind not in WITHOUT_MESSAGE or event.time_ns is None:
            since_ns = event.time_ns if event.kind == "finding" else None
            return event.row, event.place, since_ns or 0
        return rows[bisect_right(times, event.time_ns) - 1], event.place, event.time_ns

    unopened = {
        (story.stream["connection"], story.stream["stream"], story.stream["sid"])
        for story in streams
        if not story.is_opened
    }
    return [
        event._replace(is_opened=event[2:5] not in unopened) if unopened else event
        for event in _with_causes(sorted(all_events, key=place), findings)
    ]


def _of_stream(
    story: StreamStory,
    noted: Sequence[MessageEvent],
    links: Mapping[int, TcpConnection],
    last_rows: Mapping[int, int],
) -> Iterator[VbucketEvent]:
    stream = story.stream
    stream_ids: tuple[int, int, int | None] = stream["connection"], stream["stream"], stream["sid"]
    is_asked = stream["requested_start"] is not None or stream["answer"] != "unknown"
    yield VbucketEvent(
        stream["open_row"],
        0,
        *stream_ids,
        "request" if is_asked else "first-seen",
        _request(stream, story),
        stream["first_time"],
        answer=stream["answer"],
    )
    for row, came in _snapshots(story):
        text = f"{_snapshot(row)}: {came}"
        is_plain = row["end_seqno"] is not None and came == f"complete, {_items(row)}"
        plain = row if is_plain else None
        yield VbucketEvent(
            row["row"], 2, *stream_ids, "snapshot", text, row["time"], snapshot=plain
        )
    names = ("after_seqno", "before_seqno", "width", "cause", "evidence", "rows", "last_time")
    for row in story.gaps.row_dicts(*names):
        # an out-of-order snapshot tells only with its end what it does not have
        time_ns = None if row["cause"] == CAUSES[OUT_OF_ORDER] else row["last_time"]
        yield VbucketEvent(row["rows"][-1], 1, *stream_ids, "gap", _gap(row), time_ns, row)
    for event in noted:
        yield VbucketEvent(
            event.row,
            3,
            *stream_ids,
            {"S": "system-event", "V": "vbucket-state"}[event.letter],
            event.text,
            event.time_ns,
        )
    last = max(last_rows.get(stream_ids[0], 0), stream["open_row"])
    yield from _ends(stream, stream_ids, links, last)


def _ends(
    stream: Mapping[str, Any],
    stream_ids: tuple[int, int, int | None],
    links: Mapping[int, TcpConnection],
    last: int,
) -> Iterator[VbucketEvent]:
    """Yields how a stream ended, or stands when the capture ends. ``last``: the last row."""
    last_seqno, cached = stream["last_seqno"], stream["cached_items"]
    came = [f"{_counted(cached, 'item')} of a cache transfer"] if cached else []
    came += [] if last_seqno is None else [f"seqno {last_seqno}"]
    end = f"after {' and '.join(came)}" if came else "before any seqno"
    until_ns, link = lasted_until(stream, links), links[stream_ids[0]]
    if until_ns is not None and (stream["end_reason"] in NO_STREAM_END or link.closed):
        by = f" by the {_SIDES[link.closed_by]}" if link.closed_by >= 0 else ""
        stood = "" if stream["end_reason"] in NO_STREAM_END else f": {stream['verdict']}"
        doubt = "; capture loss may hide an earlier end" * (stream["end_reason"] == UNKNOWN_END)
        text = f"connection {link.how_closed}{by}{stood}, {end}{doubt}"
        yield VbucketEvent(last, 4, *stream_ids, "connection-closed", text, until_ns)
    elif stream["end_row"] is not None:
        # none where the stream was asked for again after a loss
        reason = escape(stream["end_reason"] or "unknown")
        yield VbucketEvent(
            stream["end_row"], 4, *stream_ids, "stream-end", f"stream end: {reason}, {end}"
        )
    elif until_ns is not None:
        text = f"the capture ends: {stream['verdict']}, {end}"
        yield VbucketEvent(last, 5, *stream_ids, "state", text, until_ns)


def lasted_until(stream: Mapping[str, Any], links: Mapping[int, TcpConnection]) -> int | None:
    """Returns when a stream was over though none of its messages shows it: its connection was
    closed, or the capture ended.
    """
    if stream["end_row"] is not None:
        return None
    link = links[stream["connection"]]
    if stream["end_reason"] in NO_STREAM_END:
        return link.closed_ns
    if stream["verdict"] in _OVER:
        return None
    return link.closed_ns if link.closed else _capture_end(links)


def _capture_end(links: Mapping[int, TcpConnection]) -> int:
    """Returns when the last packet of any connection came."""
    return max(link.last_ns for link in links.values())


def _request(stream: Mapping[str, Any], story: StreamStory) -> str:
    if stream["requested_start"] is None:
        return begun(story)
    end = stream["requested_end"]
    has_end = {*stream["request_flags"]}.isdisjoint(END_FLAGS)
    texts = ["no end" if end == ENDLESS else f"up to {end}"] if has_end else []
    if stream["vbucket_uuid"]:
        texts.append(f"uuid 0x{stream['vbucket_uuid']:016x}")
    if stream["snapshot_start"] or stream["snapshot_end"]:
        texts.append(f"snapshot {stream['snapshot_start']}–{stream['snapshot_end']}")
    texts += stream["request_flags"]
    if stream["filter"] is not None:
        texts.append(escape(orjson.dumps(stream["filter"])))
    elif story.broken_value is not None:
        texts.append(escape(story.broken_value))
    # the name of at least one collection is known
    if stream["collections"] is not None and "(" in stream["collections"]:
        texts.append(f"for {escape(stream['collections'])}")
    # the answer stands first, as the end of the line may be cut
    return f"{begun(story)}; {', '.join(texts)}"


def _snapshots(story: StreamStory) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields each snapshot of a stream, and what came of it in words."""
    rows = story.snapshots.row_dicts()
    begins = [row["row"] for row in rows]
    missing: dict[int, list[tuple[int, int]]] = {}
    lost_gaps = np.flatnonzero(np.isin(story.cause, (LOSS, UNEXPLAINED))).tolist()
    gap_rows = story.gap_rows.tolist() if lost_gaps else []
    for number in lost_gaps:
        index = bisect_right(begins, gap_rows[number]) - 1
        if index >= 0:
            first, last = int(story.after[number]) + 1, int(story.before[number]) - 1
            if rows[index]["end_seqno"] is not None:
                first = max(first, rows[index]["start_seqno"])
                last = min(last, rows[index]["end_seqno"])
            if first <= last:
                missing.setdefault(index, []).append((first, last))
    in_order = np.argsort(story.item_row, kind="stable")
    borders = np.searchsorted(story.item_row[in_order], [*begins, np.iinfo(np.int64).max])
    for index, row in enumerate(rows):
        state = "perhaps complete" if row["state"] == "unknown" else row["state"]
        if index in missing and state.startswith("complete"):
            (first, last), *others = missing[index]
            more = sum(high - low + 1 for low, high in others)
            state += f" without {seqnos_text(first, last)}"
            state += f" and {more:,} more" if more else ""
        yield row, f"{state}, {_came(row, story, in_order[borders[index] : borders[index + 1]])}"


def _came(row: Mapping[str, Any], story: StreamStory, entries: IntArray) -> str:
    """Says which items came; those outside of the marker's range are not of the snapshot.

    ``entries``: indices of the items from the marker up to the next one.
    """
    if row["first_seqno"] is None:
        return "no items"
    if not row["items"]:
        return f"no items up to seqno {row['last_seqno']}"
    start, end = row["start_seqno"], row["end_seqno"]
    all_items = _items(row)
    if end is None or start <= row["first_seqno"] <= row["last_seqno"] <= end:
        return all_items
    first, last = story.item_first[entries], story.item_last[entries]
    inside, outside = (first >= start) & (last <= end), (last < start) | (first > end)
    if not (inside | outside).all() or not outside.any():  # one entry has several items
        return f"{all_items}, not all in its range"
    span = range_text(first[outside].min(), last[outside].max())
    beyond = int(story.item_count[entries][outside].sum())
    text = f"{_counted(beyond, 'item')}, {span}, without a marker of their own"
    if not inside.any():
        return f"no items; then {text}"
    promised = range_text(first[inside].min(), last[inside].max())
    return f"{_counted(row['items'] - beyond, 'item')}, {promised}; then {text}"


def _items(row: Mapping[str, Any]) -> str:
    if row["first_seqno"] is None:
        return "no items"
    return f"{_counted(row['items'], 'item')}, {range_text(row['first_seqno'], row['last_seqno'])}"


def _snapshot(row: Mapping[str, Any]) -> str:
    flags = [flag for flag in row["flags"] if flag != row["type"]]
    span = "" if row["start_seqno"] is None else f" {row['start_seqno']}–{row['end_seqno']}"
    kind = "out-of-order" if row["type"] == "oso" else row["type"]
    texts = [
        f"snapshot of unknown type{span}" if kind == "unknown" else f"{kind} snapshot{span}",
        *flags,
        "its start fits no convention" if row["convention"] == "irregular" else "",
    ]
    return ", ".join(text for text in texts if text)


def _gap(row: Mapping[str, Any]) -> str:
    seqnos, cause = seqnos_text(row["after_seqno"] + 1, row["before_seqno"] - 1), row["cause"]
    is_rollback = cause == CAUSES[ROLLBACK]
    fate = "must be discarded where the client has them" if is_rollback else "did not come"
    return f"{seqnos} {fate}, {cause}: {row['evidence']}"


def seqnos_text(first: int, last: int) -> str:
    """Returns a range of seqnos in words."""
    return f"seqno{'' if first == last else 's'} {range_text(first, last)}"


def folded(all_events: Sequence[VbucketEvent]) -> Iterator[VbucketEvent]:
    """Yields the events, with consecutive gaps of one stream and cause as one event, and many
    complete snapshots of one type.
    """
    for _, group in groupby(
        all_events,
        key=lambda event: (
            event.connection,
            event.sid,
            event.stream,
            event.gap and event.gap["cause"],
            event.snapshot and event.snapshot["type"],
            event.gap is None and event.snapshot is None and event,
        ),
    ):
        run = list(group)
        if run[0].gap is not None and len(run) > 1:
            yield _gaps_folded(run)
        elif len(run) >= MANY:
            yield _snapshots_folded(run)
        else:
            yield from run


def told_once(all_events: Iterable[VbucketEvent]) -> Iterator[VbucketEvent]:
    """Yields the events; why seqnos did not come is said at the first gap of a stream for which it
    holds, and the others name its row.
    """
    first_rows: dict[tuple[int, int | None, int, str], int] = {}
    for event in all_events:
        if event.gap is not None:
            evidence: str = event.gap["evidence"]
            of_stream = event.connection, event.sid, event.stream, evidence
            first_row = first_rows.setdefault(of_stream, event.row)
            if first_row != event.row:
                text = f"{event.text.removesuffix(evidence)}as in row {first_row}"
                event = event._replace(text=text)
        yield event


def _gaps_folded(run: Sequence[VbucketEvent]) -> VbucketEvent:
    gaps = [event.gap for event in run if event.gap is not None]
    first, last = gaps[0], gaps[-1]
    # the cause stands early, as the end of the line may be cut
    seqnos = range_text(first["after_seqno"] + 1, last["before_seqno"] - 1)
    span = f"{sum(gap['width'] for gap in gaps)} of the seqnos {seqnos}"
    same = all(gap["evidence"] == first["evidence"] for gap in gaps)
    whose_evidence = "" if same else "; the first"
    text = f"{len(run)} gaps, {span}, {first['cause']}{whose_evidence}: {first['evidence']}"
    return run[0]._replace(text=text)


def _snapshots_folded(run: Sequence[VbucketEvent]) -> VbucketEvent:
    rows = [event.snapshot for event in run if event.snapshot is not None]
    span = range_text(rows[0]["start_seqno"], rows[-1]["end_seqno"])
    all_items = {
        "items": sum(row["items"] for row in rows),
        "first_seqno": rows[0]["first_seqno"],
        "last_seqno": rows[-1]["last_seqno"],
    }
    text = f"{rows[0]['type']} snapshots {span}: {len(run)} complete, {_items(all_items)}"
    return run[0]._replace(text=text)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class EventLines:
    """Lays out events, each with what it says in as many lines as it takes, and none cut."""

    def __init__(
        self, shown_events: Sequence[VbucketEvent], first_ns: int | None, width: int | None
    ) -> None:
        """``shown_events``: all events that are to be laid out. ``first_ns``: time of the first
        packet, from which times count.
        """
        self._first_ns, self._width = first_ns, width
        cells = [self._cells(event) for event in shown_events]
        self._widths = [max(map(len, column)) for column in zip(_HEADINGS, *cells, strict=True)]

    def _cells(self, event: VbucketEvent) -> tuple[str, ...]:
        time = (
            ""
            if event.time_ns is None or self._first_ns is None
            else seconds_text(event.time_ns - self._first_ns)
        )
        sid = "" if event.sid is None else f" sid {event.sid}"
        row = "" if event.kind in WITHOUT_MESSAGE else f"{event.row}"
        stream = f"#{event.stream}{sid}" if event.is_opened else ""
        return row, time, f"{event.connection}", stream

    def _line(self, cells: Sequence[str], text: str) -> list[str]:
        row, time, connection, stream = self._widths
        head = (
            f"{cells[0]:>{row}} {cells[1]:>{time}} {cells[2]:>{connection}} {cells[3]:<{stream}} "
        )
        return wrap(head + text, self._width, " " * (len(head) + 2))

    @property
    def heading(self) -> str:
        """The heading above the columns."""
        return self._line(_HEADINGS, "Event")[0]

    def lines_of(self, event: VbucketEvent) -> list[str]:
        """Returns the lines of an event; those after the first are indented."""
        return self._line(self._cells(event), f"{event.sign} {event.text}".lstrip())


_HEADINGS = ("Row", "Time", "Con", "Stream")
