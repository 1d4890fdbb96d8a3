"""The table of gaps: seqnos that a stream did not deliver, the first cause that holds, and what
shows that cause.

A jump in seqnos alone is never an error: servers de-duplicate, filter and skip what a client cannot
see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.protocol.flags import DISK, HISTORY
from dcpinspect.streams import record_codes as k
from dcpinspect.streams import words as w
from dcpinspect.streams.changes import ChangeEvent
from dcpinspect.streams.disputes import Comparison
from dcpinspect.streams.hole_capacity import most_events
from dcpinspect.streams.records import FILE_SHIFT, LEAST, Gap, Gaps, MessageRow, Snapshots
from dcpinspect.streams.session import Session
from dcpinspect.streams.state import KnownTables, plain, unbiased
from dcpinspect.streams.table_columns import GAPS
from dcpinspect.tables.record_tables import ColumnValues, LazyColumn, Records, WordColumn
from dcpinspect.tables.sentences import Sentences
from dcpinspect.text import escape


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """Facts about streams that causes of gaps depend on; each is a mask by stream."""

    is_asked: BoolArray
    """The request was captured with its value, or could not have left out collections."""
    is_opened: BoolArray
    """The open of the stream's connection was captured."""
    has_filter: BoolArray
    """The request of the stream names collections or a scope."""
    skips_deletes: BoolArray
    """The open of the stream's connection leaves out deletions of the first backfill."""
    lacks_history: BoolArray
    """Some collection is known that keeps no history."""

    def are_unclear(self, stream: IntArray, flags: IntArray) -> BoolArray:
        """Returns whether a request or an open that was not captured may leave out collections, or
        deletions, in snapshots with these flags of these streams.
        """
        mask: BoolArray = ~self.is_asked[stream]
        mask |= ~self.is_opened[stream] & (flags & DISK != 0)
        return mask


@dataclass(frozen=True, slots=True)
class UnexplainedGaps:
    """The gaps that nothing explains."""

    in_history: Gaps
    """Gaps between two events of a snapshot that has every change."""
    missing: Sequence[MissingEvents]
    without_cause: Gaps


@dataclass(frozen=True, slots=True)
class MissingEvents:
    """Events that another stream brought and that had to come on this stream, too, in one gap."""

    stream: int
    showing_stream: int
    event: ChangeEvent
    """The first of them."""
    seqnos: tuple[int, ...]
    """The seqno of each, biased."""
    shown_by: MessageRow
    """The message behind the gap, or the one that began the OSO snapshot that lacks the event."""


GapName = tuple[int, int, int]
"""Names a gap: its stream, the row of the message that ends it, and the seqno before it."""

Amounts = tuple[IntArray, npt.NDArray[np.float64]]
"""Number of gaps, and number of seqnos in them, by stream and cause. The seqnos are floats: damaged
seqnos may exceed 64 bits.
"""


def as_integers(seqnos: npt.NDArray[np.float64]) -> IntArray:
    """Returns numbers of seqnos as integers for a table; greater numbers become 2**62."""
    return np.minimum(seqnos, float(1 << 62)).astype(np.int64)


def causes(gaps: Gaps, snapshots: Snapshots, facts: StreamFacts) -> IntArray:
    """Returns the number of the cause of every gap, as its own stream shows it."""
    flags, stream = gaps.flags, gaps.stream
    has_snapshot = gaps.snapshot >= 0
    # if there is no snapshot, a row of zeros stands for it
    table = snapshots if len(snapshots) else Snapshots.zeros(1)
    number = gaps.snapshot
    marked = np.where(has_snapshot, table.flags[number], 0)
    visible = table.seqnos.max_visible[number]
    has_visible = (
        has_snapshot & _has(table.seqnos.present[number], k.HAS_VISIBLE) & (visible > LEAST)
    )
    filtered = facts.has_filter[stream]
    skips = facts.skips_deletes[stream] & (marked & DISK != 0)
    keeps_all = (
        (marked & HISTORY != 0)
        & _has(flags, k.AFTER_EVENT)
        & _has(flags, k.SAME_SNAPSHOT)
        & ~filtered
        & ~skips
        & ~facts.lacks_history[stream]
    )
    # what was taken to be missing has come, or nobody knows yet where the stream began
    is_empty = gaps.before - 1 <= gaps.after
    conditions = [
        (w.LOSS, _has(flags, k.IS_LOST) | lacks_marker(flags) | is_empty),
        (w.OUT_OF_ORDER, _has(flags, k.IN_OSO)),
        (w.ROLLBACK, _has(flags, k.OF_ROLLBACK)),
        (w.RESUMED, _has(flags, k.OF_RESUMPTION)),
        (w.ADVANCED, _has(flags, k.IS_ADVANCED)),
        (w.INVISIBLE, has_visible & (gaps.after >= visible)),
        (w.TAIL, _has(flags, k.IS_TAIL)),
        (w.FILTERED, filtered),
        (w.DEDUPLICATED, facts.are_unclear(stream, marked) & _has(flags, k.IN_RANGE)),
        (w.UNEXPLAINED, keeps_all),
        (w.FILTERED, skips),
        (w.DEDUPLICATED, is_placed(flags)),
    ]
    return np.select(
        [holds for _, holds in conditions],
        [cause for cause, _ in conditions],
        default=w.UNEXPLAINED,
    )


def lacks_marker(flags: IntArray | int) -> BoolArray:
    """Returns whether the marker that covers a gap was not captured. An event without a marker, on
    a stream of which something may be lost, had one: that may have announced the rest of the gap,
    unless the next one announces it.
    """
    is_unmarked = _has(flags, k.AFTER_EVENT) & _has(flags, k.AFTER_UNMARKED)
    may_be_lost = is_unmarked & _has(flags, k.MAY_LACK_MARKERS) & ~_has(flags, k.BEGINS_IN_RANGE)
    return np.asarray(_has(flags, k.MARKER_LOST) | may_be_lost, dtype=np.bool_)


def is_placed(flags: IntArray | int) -> BoolArray:
    """Returns whether markers cover both ends of a gap. What is before it is covered where the
    marker of what follows covers the rest, where its own marker covers it, or where nothing came:
    the stream, or a snapshot, begins or ends there.
    """
    is_covered = _has(flags, k.BEGINS_IN_RANGE) | _has(flags, k.AFTER_IN_RANGE)
    return np.asarray(
        _has(flags, k.IN_RANGE) & (is_covered | ~_has(flags, k.AFTER_EVENT)), dtype=np.bool_
    )


def _has(flags: IntArray | int, bit: int) -> BoolArray:
    return np.asarray(np.bitwise_and(flags, bit) != 0, dtype=np.bool_)


class ExplainedGaps:
    """All gaps of a reading with their causes, in order of the row that ends each gap."""

    def __init__(
        self,
        tables: KnownTables,
        gaps: Gaps,
        cause: IntArray,
        comparisons: Mapping[int, Comparison],
        facts: StreamFacts,
        sessions: Mapping[int, Session],
    ) -> None:
        """``gaps``: all gaps. ``cause``: the cause of each, as its own stream shows it.
        ``comparisons``: what another stream says of a gap, by number. ``sessions``: by connection.
        """
        self._facts, self._sessions = facts, sessions
        self.files: Sequence[str] = ()
        """The captures, if frames are named with theirs."""
        order = np.lexsort((gaps.after, gaps.ends.row))
        order = order[gaps.before[order] - 1 > gaps.after[order]]
        self.table = gaps[order]
        """All gaps, in order of the row that ends each."""
        self.cause: IntArray = cause[order]
        """The number of the cause of each."""
        self._streams = tables.streams
        self._snapshots = tables.snapshots
        self._losses = tables.losses
        new_number = np.full(len(gaps), -1)
        new_number[order] = np.arange(len(order))
        self._comparisons = {
            int(new_number[number]): comparison
            for number, comparison in sorted(comparisons.items())
        }
        self._comparisons.pop(-1, None)
        for number, comparison in self._comparisons.items():
            if comparison.cause >= 0:
                self.cause[number] = comparison.cause

    def __len__(self) -> int:
        return len(self.table)

    def named(self) -> dict[GapName, Comparison]:
        """Returns what other streams tell of gaps, without events, by the names of the gaps, which
        hold in any reading.
        """
        return {
            (gap.stream, gap.ends.row, gap.after): replace(comparison, event=None, seqnos=())
            for number, comparison in self._comparisons.items()
            for gap in (self.table[number],)
        }

    @property
    def width(self) -> npt.NDArray[np.uint64]:
        """Number of seqnos in each gap."""
        return unbiased(self.table.before) - unbiased(self.table.after) - np.uint64(1)

    @property
    def unexplained(self) -> UnexplainedGaps:
        """The gaps that nothing explains."""
        contradicted = sorted(
            number
            for number, comparison in self._comparisons.items()
            if comparison.cause == w.UNEXPLAINED
        )
        missing = [
            MissingEvents(
                gap.stream,
                comparison.stream,
                comparison.event,
                comparison.seqnos,
                gap.begins if gap.flags & k.IN_OSO else gap.ends,
            )
            for gap, comparison in (
                (self.table[number], self._comparisons[number]) for number in contradicted
            )
            if comparison.event is not None
        ]
        is_bare = self.cause == w.UNEXPLAINED
        is_bare[contradicted] = False
        is_history = is_placed(self.table.flags)
        return UnexplainedGaps(
            self.table[is_bare & is_history], missing, self.table[is_bare & ~is_history]
        )

    def of_cause(self, cause: int) -> Gaps:
        """Returns the gaps of this cause."""
        is_of_cause: BoolArray = self.cause == cause
        return self.table[is_of_cause]

    def records(self) -> Records:
        """Returns the table of gaps."""
        gaps, streams, stream = self.table, self._streams, self.table.stream
        sid = streams.sid[stream]
        columns: dict[str, ColumnValues] = {
            "connection": NumberColumn(streams.connection[stream]),
            "vbucket": NumberColumn(streams.vbucket[stream]),
            "sid": NumberColumn(sid, sid >= 0),
            "stream": NumberColumn(streams.ordinal[stream]),
            "after_seqno": NumberColumn(unbiased(gaps.after)),
            "before_seqno": NumberColumn(unbiased(gaps.before)),
            "width": NumberColumn(self.width),
            "cause": WordColumn(self.cause, w.CAUSES),
            "evidence": LazyColumn(len(self), self._evidence, self._evidence_in_arrow),
            "rows": LazyColumn(len(self), self._rows, self._rows_in_arrow),
            "first_time": NumberColumn(
                np.where(gaps.begins.row > 0, gaps.begins.time, streams.opened.time[stream])
            ),
            "last_time": NumberColumn(gaps.ends.time),
        }
        return Records(GAPS, columns, len(self), file=gaps.begins.frame >> FILE_SHIFT)

    def _usual(self, indices: RowNumbers) -> tuple[BoolArray, RowNumbers]:
        """Returns which of these gaps are de-duplicated and no more, as most are, and the numbers
        of the gaps for which this holds.
        """
        is_usual = (self.cause[indices] == w.DEDUPLICATED) & ~np.isin(
            indices, list(self._comparisons)
        )
        is_usual[is_usual] = ~self._are_unclear(indices[is_usual])
        return is_usual, indices[is_usual]

    def _are_unclear(self, numbers: RowNumbers) -> BoolArray:
        """Returns which of these gaps, all of them de-duplicated, may as well be left out by what
        was not captured.
        """
        gaps = self.table
        flags = self._snapshots.flags[gaps.snapshot[numbers]]
        return self._facts.are_unclear(gaps.stream[numbers], flags)

    def _evidence(self, indices: RowNumbers) -> list[str]:
        is_usual, numbers = self._usual(indices)
        usual = iter(self._deduplicated(numbers).texts())
        other_texts = map(self._one_evidence, indices[~is_usual].tolist())
        return [next(usual if is_usual_row else other_texts) for is_usual_row in is_usual.tolist()]

    def _evidence_in_arrow(self, indices: RowNumbers) -> Any:
        import pyarrow as pa  # deferred: not everyone who tracks streams exports them

        is_usual, numbers = self._usual(indices)
        other_texts = pa.array(map(self._one_evidence, indices[~is_usual].tolist()), pa.string())
        return _put_together(self._deduplicated(numbers).arrow(), other_texts, is_usual)

    def _deduplicated(self, numbers: RowNumbers) -> Sentences:
        gaps, snapshots = self.table, self._snapshots
        snapshot, after = gaps.snapshot[numbers], gaps.after[numbers]
        start = snapshots.start[snapshot]
        is_within = after >= start - (start > LEAST)
        is_from_start = gaps.flags[numbers] & k.FROM_START != 0
        is_from_disk = snapshots.flags[snapshot] & DISK != 0
        position = np.where(is_within, 0, np.where(is_from_start, 1, 2))
        seqnos = {
            "last": unbiased(after),
            "first": unbiased(start),
            "end": unbiased(snapshots.end[snapshot]),
        }
        connections, place_of = np.unique(
            self._streams.connection[gaps.stream[numbers]], return_inverse=True
        )
        hides = [
            self._sessions.get(number, _NOTHING_SAID).may_hide_seqnos
            for number in connections.tolist()
        ]
        may_hide = np.array(hides, dtype=np.bool_)[place_of.reshape(-1)]
        return Sentences(
            _DEDUPLICATED,
            4 * position + 2 * is_from_disk + may_hide,
            {**seqnos, "row": snapshots.place.row[snapshot]},
        )

    def _rows(self, indices: RowNumbers) -> list[list[int]]:
        is_usual, numbers = self._usual(indices)
        rows, ends = self._deduplicated_rows(numbers)
        flat, bounds = rows.tolist(), ends.tolist()
        usual = (flat[start:end] for start, end in pairwise(bounds))
        other_rows = map(self._one_rows, indices[~is_usual].tolist())
        return [next(usual if is_usual_row else other_rows) for is_usual_row in is_usual.tolist()]

    def _rows_in_arrow(self, indices: RowNumbers) -> Any:
        import pyarrow as pa  # deferred, as above

        is_usual, numbers = self._usual(indices)
        rows, ends = self._deduplicated_rows(numbers)
        other_rows = pa.array(
            map(self._one_rows, indices[~is_usual].tolist()), pa.list_(pa.int64())
        )
        return _put_together(
            pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(rows)),
            other_rows,
            is_usual,
        )

    def _deduplicated_rows(self, numbers: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """Returns the rows that show the gaps, one gap after the other, and the bounds of each gap
        among these rows.
        """
        gaps, snapshot = self.table, self.table.snapshot[numbers]
        first, last = gaps.begins.row[numbers], gaps.ends.row[numbers]
        marker = np.where(snapshot >= 0, self._snapshots.place.row[snapshot], first)
        rows = np.sort(np.stack((marker, first, last), axis=1), axis=1)
        is_new = np.insert(rows[:, 1:] != rows[:, :-1], 0, values=True, axis=1)
        return rows[is_new], np.append(0, np.cumsum(is_new.sum(axis=1)))

    def _one_rows(self, number: int) -> list[int]:
        comparison = self._comparisons.get(number)
        gap = self.table[number]
        cause = int(self.cause[number])
        first, last = int(gap.begins.row), int(gap.ends.row)
        if comparison is not None and comparison.row:
            return [comparison.row, last]
        snapshot = gap.snapshot
        marker = self._snapshots[snapshot].place.row if snapshot >= 0 else first
        if cause == w.LOSS:
            unreadable = gap.unreadable
            return sorted({first, last} if unreadable < 0 else {first, unreadable, last})
        if cause == w.ADVANCED:
            return [self._advanced(gap)]
        if cause == w.TAIL:
            return [marker, last]
        if cause == w.FILTERED and self._has_filter(gap):
            return [self._streams[gap.stream].opened.row, last]
        if cause in (w.INVISIBLE, w.DEDUPLICATED):
            return sorted({marker, first, last})
        return [first, last]

    def _advanced(self, gap: Gap) -> int:
        """Returns the row of the SeqnoAdvanced that ends a gap. Inside an OSO snapshot, a
        SeqnoAdvanced counts only when the snapshot ends.
        """
        snapshot = self._snapshots[gap.snapshot] if gap.snapshot >= 0 else None
        if snapshot is not None and snapshot.layout == k.OSO_LAYOUT:
            return snapshot.advanced_row
        return gap.ends.row

    def _one_evidence(self, number: int) -> str:
        comparison = self._comparisons.get(number)
        if comparison is not None and comparison.row:
            return self._comparison_text(comparison)
        evidence = self._own_evidence(number)
        return evidence if comparison is None else f"{evidence}; other streams not compared"

    def _comparison_text(self, comparison: Comparison) -> str:
        sent_text = (
            f"connection {comparison.connection} was sent seqno {plain(comparison.seqno)} in row "
            f"{comparison.row}"
        )
        if comparison.cause == w.UNEXPLAINED:
            return (
                f"{sent_text}, and this stream got neither that nor a later version before the "
                "snapshot was complete"
            )
        return (
            f"{sent_text}, "
            f"{_REASONS[comparison.reason]}{'' if comparison.is_all else '; the other seqnos are left out like it, or de-duplicated'}"
        )

    def _own_evidence(self, number: int) -> str:
        gap = self.table[number]
        cause = int(self.cause[number])
        first, last = gap.begins.row, gap.ends.row
        if cause == w.DEDUPLICATED:
            numbers = np.array([number])
            if self._are_unclear(numbers)[0]:
                return (
                    f"{self._untold(gap)} was not captured, so they are de-duplicated or left out"
                )
            return self._deduplicated(numbers).texts()[0]
        if cause == w.LOSS:
            return self._why_lost(gap)
        if cause == w.OUT_OF_ORDER:
            return f"the OSO snapshot of rows {first} to {last} is complete without them"
        if cause == w.ROLLBACK:
            return f"the request in row {first} was answered with a rollback in row {last}"
        if cause == w.RESUMED:
            return (
                f"the client had received what came up to row {first}, and asked in row {last} "
                f"for what follows {plain(gap.before) - 1}"
            )
        if cause == w.ADVANCED:
            return (
                f"SeqnoAdvanced in row {self._advanced(gap)}, and nothing before it is visible "
                "to this client"
            )
        if cause == w.UNEXPLAINED:
            return f"rows {first} and {last}: {self._no_cause(gap)}"
        if cause == w.FILTERED and not self._has_filter(gap):
            return (
                "filtered or de-duplicated, because the connection was opened without deletions "
                "of the first backfill"
            )
        if cause == w.FILTERED:
            request_row = self._streams.opened.row[gap.stream]
            return (
                f"the request in row {request_row} asks for some collections only, so they are "
                "filtered or de-duplicated"
            )
        return self._in_snapshot(gap, cause)

    def _why_lost(self, gap: Gap) -> str:
        if gap.flags & k.IN_OSO:
            return f"{self._loss(gap.loss, 1)}, inside the OSO snapshot"
        if gap.unreadable >= 0:
            return f"the message of row {gap.unreadable} could not be read"
        if gap.flags & k.IS_LOST:
            return self._loss(int(gap.loss), int(gap.losses), int(gap.before - gap.after - 1))
        return f"the marker before rows {gap.begins.row} and {gap.ends.row} was not captured"

    def _untold(self, gap: Gap) -> str:
        if self._facts.is_asked[gap.stream]:
            return "the open of the connection"
        stream = self._streams[gap.stream]
        if stream.request.is_captured:
            return f"the value of the request in row {stream.opened.row}"
        return "the request"

    def _has_filter(self, gap: Gap) -> bool:
        return bool(self._facts.has_filter[gap.stream])

    def _in_snapshot(self, gap: Gap, cause: int) -> str:
        snapshot = self._snapshots[gap.snapshot]
        row = self._marker(gap)
        if cause == w.INVISIBLE:
            return f"{row} has {plain(snapshot.seqnos.max_visible)} as its greatest visible seqno"
        return f"{row} promised more than came before row {gap.ends.row}"

    def _marker(self, gap: Gap) -> str:
        snapshot = self._snapshots[gap.snapshot]
        start, end = plain(snapshot.start), plain(snapshot.end)
        return f"the marker {start}–{end} in row {snapshot.place.row}"

    def _no_cause(self, gap: Gap) -> str:
        if gap.snapshot < 0:
            return "no marker covers the second"
        snapshot = self._snapshots[gap.snapshot]
        if snapshot.layout == k.UPR_LAYOUT:
            return "the marker has no range"
        if not gap.flags & k.IN_RANGE:
            return f"the second is outside of {self._marker(gap)}"
        if not is_placed(gap.flags):
            return "no marker covers the first"
        return f"{self._marker(gap)} is of history, which has every change"

    def _loss(self, loss: int, count: int, seqnos: int = 0) -> str:
        """Returns in words what was lost in ``count`` losses, the last of which is ``loss``, and
        whether it had room for so many seqnos.
        """
        if loss < 0:
            return "bytes between the two messages were not captured"
        start, end = self._losses[loss].start, self._losses[loss].end
        first, most = loss, most_events(int(end - start))
        for _ in range(count - 1):
            if self._losses.previous[first] < 0:
                break  # this one stands for those before it, which have left
            first = self._losses[first].previous
            most += most_events(int(self._losses.end[first] - self._losses.start[first]))
        start = self._losses[first].start
        sender = ("client", "server")[self._losses[loss].direction]
        between = self._between(self._losses[first].before_frame, self._losses[loss].after_frame)
        lost_text = "bytes" if count <= 1 else f"{count} stretches within bytes"
        room_text = (
            f", with room for {most} of the {seqnos} seqnos at most" if most < seqnos else ""
        )
        return (
            f"{lost_text} {start}–{max(start, end - 1)} from the {sender} could not be read, "
            f"{between}{room_text}"
        )

    def _between(self, before: int, after: int) -> str:
        """Returns in words the frames around a loss, and their files if there are several;
        ``before``: 0 if there is none.
        """
        files = [
            f" of {escape(self.files[offset >> FILE_SHIFT])}" if self.files else ""
            for offset in (before, after)
        ]
        numbers = before & _FRAME, after & _FRAME
        if not before:
            return f"before frame {numbers[1]}{files[1]}"
        if files[0] == files[1]:
            return f"between frames {numbers[0]} and {numbers[1]}{files[1]}"
        return f"between frame {numbers[0]}{files[0]} and frame {numbers[1]}{files[1]}"


def _put_together(usual: Any, other_values: Any, is_usual: BoolArray) -> Any:
    """Returns one array for Arrow of the values of usual and other gaps, in order of all gaps."""
    import pyarrow as pa  # deferred, as above

    order = np.empty(len(is_usual), np.int64)
    order[is_usual] = np.arange(len(usual))
    order[~is_usual] = len(usual) + np.arange(len(other_values))
    return pa.concat_arrays([usual, other_values]).take(pa.array(order))


_FRAME = (1 << FILE_SHIFT) - 1
_NOTHING_SAID = Session()
_REASONS = (
    "which this client may not see",
    "a prepare that was completed, which a snapshot from disk may leave out",
    "a deletion, which compaction may have purged",
    "of a collection that ends in this snapshot",
)
"""Why an event that another stream shows did not have to come, as ``disputes`` numbers the reasons.
"""
_MARKER = "the marker {first}–{end} in row {row}"
_DEDUPLICATED = [
    f"{range_text}{how}"
    for range_text in (
        f"within {_MARKER}",
        f"between {{last}}, where the stream begins, and the first event of {_MARKER}",
        f"between what came before and the first event of {_MARKER}",
    )
    for how in (
        "",  # the cause says it
        ", or hidden from this client",
        ", from disk, or purged by compaction",
        ", from disk, or purged by compaction or hidden from this client",
    )
]
