"""One vbucket's part of the tables, stream by stream: the timeline is drawn from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.streams.items import Items, VbucketItems
from dcpinspect.streams.state import unbiased
from dcpinspect.tables.filter import Filter
from dcpinspect.tables.record_rows import RecordSelection
from dcpinspect.tables.record_tables import Records, WordColumn
from dcpinspect.text import words_of

EVENTS = words_of(
    "request first-seen snapshot gap system-event vbucket-state stream-end connection-closed state "
    "finding"
)
"""What can happen to a stream; "state": how the stream is when the capture ends."""

Seqnos = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Bars:
    """Snapshots of a stream that have a range, in order, as columns; refused ones are none."""

    first: Seqnos
    last: Seqnos
    """First and last seqno that the marker promised. For an OSO snapshot or a marker without range:
    first and last seqno that came.
    """
    received: Seqnos
    """Greatest seqno that came; ``last`` if the snapshot is complete. If none came, one less than
    ``first``, or 0.
    """
    type: IntArray
    """Number of the type in ``words.SNAPSHOT_TYPES``."""
    has_history: BoolArray
    row: IntArray
    """Row of the marker; ``time``: its time in nanoseconds since 1970."""
    time: IntArray


@dataclass(frozen=True, slots=True)
class StreamStory:
    """One stream with its rows, in the form that a timeline is drawn from."""

    row: Records
    """The stream's row in the table of streams."""
    stream: Mapping[str, Any]
    """The stream's row as plain values, by name of the column."""
    snapshots: Records
    """The stream's rows in the table of snapshots."""
    gaps: Records
    bars: Bars
    after: Seqnos
    """Last seqno before each gap; ``before``: first seqno behind it."""
    before: Seqnos
    cause: IntArray
    """Number of each gap's cause in ``words.CAUSES``."""
    item_first: Seqnos
    """First and last seqno of each entry: one event, or several events between two seqnos."""
    item_last: Seqnos
    item_count: IntArray
    item_row: IntArray
    """Row of each entry's first event; the rows rise, unless entries are of several events."""
    item_time: IntArray
    """Time of each entry's first event, in nanoseconds since 1970; ``item_until``: its last."""
    item_until: IntArray
    refused_row: IntArray
    """Rows, rising, and seqnos of events that are in no entry, because they were refused."""
    refused_seqno: Seqnos
    broken_value: str | None = None
    """Value of its request, where that is no JSON object."""

    @property
    def is_opened(self) -> bool:
        """Whether there is a stream; else messages came for which none was opened."""
        return bool(self.stream["verdict"] != "never-opened")

    @property
    def gap_rows(self) -> IntArray:
        """The last row that shows each gap."""
        return np.array([rows[-1] for rows in self.gaps.values("rows")], dtype=np.int64)

    def times_of(self, rows: IntArray) -> IntArray:
        """Returns times of rows of the stream, in nanoseconds since 1970. For a row that is neither
        marker nor event, the last known time before.
        """
        return self._of_rows(rows, self.stream["first_time"], self.bars.time, self.item_time)

    def seqnos_of(self, rows: IntArray) -> Seqnos:
        """Returns the seqno at which to show rows: an event at its own, a marker at its first,
        anything else at the last one before that was not refused.
        """
        start = self.stream["requested_start"]
        begin = start if start is not None else self.stream["first_seqno"] or 0
        seqnos = self._of_rows(
            rows, begin, self.bars.first.view(np.int64), self.item_first.view(np.int64)
        ).view(np.uint64)
        refused_index = np.searchsorted(self.refused_row, rows)
        is_refused = np.isin(rows, self.refused_row)
        seqnos[is_refused] = self.refused_seqno[refused_index[is_refused]]
        return seqnos

    def _of_rows(self, rows: IntArray, first: int, markers: IntArray, items: IntArray) -> IntArray:
        """Returns the value of the latest known row up to each of these rows; ``first`` for rows
        before all known ones.
        """
        event_rows = np.concatenate((self.bars.row, self.item_row))
        values = np.concatenate((markers, items))
        order = np.argsort(event_rows, kind="stable")
        positions = np.searchsorted(event_rows[order], rows, side="right") - 1
        begin = np.uint64(first).view(np.int64)
        return (
            np.where(positions >= 0, values[order][np.maximum(positions, 0)], begin)
            if len(event_rows)
            else np.full(len(rows), begin)
        )

    def last_before(self, rows: IntArray, otherwise: IntArray) -> IntArray:
        """Returns the time of the latest event before each row, in nanoseconds since 1970;
        ``otherwise`` where there is none.
        """
        if not len(self.item_row):
            return otherwise
        order = np.argsort(self.item_row, kind="stable")
        positions = np.searchsorted(self.item_row[order], rows) - 1
        return np.where(positions >= 0, self.item_until[order][np.maximum(positions, 0)], otherwise)

    @property
    def key(self) -> tuple[int, int, int]:
        """Connection, stream-id (-1 for none) and ordinal of the stream."""
        sid = self.stream["sid"]
        return self.stream["connection"], -1 if sid is None else sid, self.stream["stream"]

    def seqnos(self) -> Iterable[int]:
        """Yields seqnos that a picture of the stream has to hold."""
        stream = self.stream
        seqno_fields = [
            stream["requested_start"],
            stream["rollback_seqno"],
            stream["first_seqno"],
            stream["last_seqno"],
        ]
        yield from (seqno for seqno in seqno_fields if seqno is not None)
        for low, high in ((self.bars.first, self.bars.last), (self.after, self.before)):
            if len(low):
                yield int(low.min())
                yield int(high.max()) - (high is self.before)


def stories(
    tables: Mapping[str, Records],
    vbucket: int,
    connections: Sequence[range],
    items: VbucketItems,
    only: Filter | None = None,
    bounds: tuple[int, int] | None = None,
) -> list[StreamStory]:
    """Returns the streams of a vbucket in order of their opening.

    ``tables``: those of a reading by name, ``streams`` with the verdicts that findings tell.
    ``connections``: only on these; all if empty. ``items``: fed with the whole reading. ``only``:
    streams for which this filter is true. ``bounds``: streams that go on in this span of time.
    """
    selection = RecordSelection(vbuckets=(range(vbucket, vbucket + 1),), connections=connections)
    streams, snapshots, gaps = (
        selection.matching(table)
        for table in (tables["streams"], tables["snapshots"], tables["gaps"])
    )
    rows = _plain_rows(streams)
    keys = _keys(streams)
    shown_streams = frozenset(_keys(RecordSelection(filter=only, bounds=bounds).matching(streams)))
    snapshots_of, gaps_of = _by_stream(snapshots), _by_stream(gaps)
    entries = items.table
    stream_of_entry = _streams_of(entries, rows)
    order = np.argsort(stream_of_entry, kind="stable")
    borders = np.searchsorted(stream_of_entry[order], np.arange(len(rows) + 1))
    stories_found = []
    for number, (row, key) in enumerate(zip(rows, keys, strict=True)):
        if key not in shown_streams:
            continue
        own_snapshots = snapshots.view(snapshots_of.get(key, _NONE))
        own_gaps = gaps.view(gaps_of.get(key, _NONE))
        entries_of_stream, refused = _received(
            entries[order[borders[number] : borders[number + 1]]], row
        )
        stories_found.append(
            StreamStory(
                row=streams.view(np.array([number])),
                stream=row,
                broken_value=items.broken_values.get(row["open_row"]),
                snapshots=own_snapshots,
                gaps=own_gaps,
                bars=_bars(own_snapshots),
                after=_numbers(own_gaps, "after_seqno")[0],
                before=_numbers(own_gaps, "before_seqno")[0],
                cause=_codes(own_gaps, "cause"),
                item_first=unbiased(entries_of_stream.first),
                item_last=unbiased(entries_of_stream.last),
                item_count=entries_of_stream.count,
                item_row=entries_of_stream.row,
                item_time=entries_of_stream.time,
                item_until=entries_of_stream.until,
                refused_row=refused.row,
                refused_seqno=unbiased(refused.first),
            )
        )
    return stories_found


def _received(entries: Items, stream: Mapping[str, Any]) -> tuple[Items, Items]:
    """Returns the entries without refused events, and those of such events alone, if the stream's
    count of items is without them: which of its messages a refusal is about is not always certain.
    """
    if not entries.refused.any() or entries.count.sum() - stream["items"] != entries.refused.sum():
        return entries, entries[:0]
    is_received = entries.refused < entries.count
    return entries[is_received], entries[~is_received]


_NONE = np.empty(0, dtype=np.int64)


def _plain_rows(records: Records) -> list[dict[str, Any]]:
    columns = [records.values(column.name) for column in records.table.columns]
    names = [column.name for column in records.table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _keys(records: Records) -> list[tuple[int, int, int]]:
    sids = [-1 if sid is None else sid for sid in records.values("sid")]
    return list(zip(records.values("connection"), sids, records.values("stream"), strict=True))


def _by_stream(records: Records) -> dict[tuple[int, int, int], IntArray]:
    indices: dict[tuple[int, int, int], list[int]] = {}
    for index, key in enumerate(_keys(records)):
        indices.setdefault(key, []).append(index)
    return {key: np.array(numbers, dtype=np.int64) for key, numbers in indices.items()}


def _streams_of(entries: Items, rows: Sequence[Mapping[str, Any]]) -> IntArray:
    """Returns the number of the stream that each entry belongs to: the latest one opened by then
    that received anything, or, where none did, that was accepted and refused the entry; -1 for none.
    """
    stream_numbers = np.full(len(entries), -1, dtype=np.int64)
    pairs = sorted({(row["connection"], -1 if row["sid"] is None else row["sid"]) for row in rows})
    for connection, sid in pairs:
        opened = [
            number
            for number, row in enumerate(rows)
            if row["connection"] == connection and (-1 if row["sid"] is None else row["sid"]) == sid
        ]
        taking = [number for number in opened if rows[number]["items"]]
        streams = taking or [number for number in opened if rows[number]["answer"] == "accepted"]
        if streams:
            is_on_connection = (entries.connection == connection) & (entries.sid == sid)
            if not taking:
                is_on_connection &= entries.refused == entries.count
            open_rows = np.array([rows[number]["open_row"] for number in streams])
            positions = np.searchsorted(open_rows, entries.row[is_on_connection], side="right") - 1
            stream_numbers[is_on_connection] = np.where(
                positions >= 0, np.array(streams)[positions], -1
            )
    return stream_numbers


def _numbers(records: Records, name: str) -> tuple[Seqnos, BoolArray]:
    column = records.columns[name]
    assert isinstance(column, NumberColumn)
    return column.values.astype(np.uint64), column.is_known


def _codes(records: Records, name: str) -> IntArray:
    column = records.columns[name]
    assert isinstance(column, WordColumn)
    return column.codes


def _bars(snapshots: Records) -> Bars:
    (start, has_range), (end, _) = (
        _numbers(snapshots, "start_seqno"),
        _numbers(snapshots, "end_seqno"),
    )
    (low, has_seqno), (high, _) = (
        _numbers(snapshots, "first_seqno"),
        _numbers(snapshots, "last_seqno"),
    )
    first, last = np.where(has_range, start, low), np.where(has_range, end, high)
    is_complete = np.array(
        [str(state).startswith("complete") for state in snapshots.values("state")], dtype=np.bool_
    )
    none = first - np.minimum(first, np.uint64(1))
    # seqnos outside of the range cannot be drawn inside it
    inside = np.where(high <= last, high, np.where(low <= last, low, none))
    received = np.where(is_complete, last, np.where(has_seqno, np.maximum(inside, none), none))
    is_refused = np.array([state == "refused" for state in snapshots.values("state")], dtype=bool)
    drawn = (has_range | has_seqno) & (first <= last) & ~is_refused
    history = np.array(["history" in flags for flags in snapshots.values("flags")], dtype=np.bool_)
    row, time = (
        np.array(snapshots.values(name), dtype=np.int64)[drawn] for name in ("row", "time")
    )
    return Bars(
        first[drawn],
        last[drawn],
        received[drawn],
        _codes(snapshots, "type")[drawn],
        history[drawn],
        row,
        time,
    )
