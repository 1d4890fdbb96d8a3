"""Where the parts of a stream lie on an axis of seqnos or of time: lanes are drawn from this, and
cursors move along it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams import words as w
from dcpinspect.streams.story import Bars, Seqnos, StreamStory
from dcpinspect.text import escape


class Mark(NamedTuple):
    """An event at one place of the axis."""

    at: int
    letter: str
    row: int = 0
    """Row of the message that shows the event; 0 if it is not needed."""
    text: str = ""
    """Description of the event, safe for a terminal."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One stream on one axis. Places are seqnos, or nanoseconds since the capture began."""

    begin: int | None
    """Where the line of the stream begins; None: it has no line."""
    end: int
    rollback_seqno: int | None
    """Where a rollback leads back to."""
    is_asked: bool
    bars: Bars
    gap_first: Seqnos
    gap_last: Seqnos
    cause: IntArray
    item_first: Seqnos
    item_last: Seqnos
    item_count: IntArray
    marks: Sequence[Mark]
    """Events, in order of places."""
    is_time: bool

    def seqno_ranges(self) -> Iterable[int]:
        """Yields first and last places of everything, to choose a scale."""
        yield from (
            seqno_or_time
            for seqno_or_time in (
                self.begin,
                self.end if self.begin is not None else None,
                self.rollback_seqno,
            )
            if seqno_or_time is not None
        )
        yield from (mark.at for mark in self.marks)
        for low, high in (
            (self.bars.first, self.bars.last),
            (self.gap_first, self.gap_last),
            (self.item_first, self.item_last),
        ):
            if len(low):
                yield int(low.min())
                yield int(high.max())


def sums(
    first: IntArray, last: IntArray, each: npt.NDArray[np.float64] | None, count: int
) -> npt.NDArray[np.float64]:
    """Returns what lies on each of ``count`` places: ``each``, or 1, on all of a range's places."""
    change = np.bincount(first, each, count + 1) - np.bincount(last + 1, each, count + 1)
    # rounded, because sums of fractions that should cancel out leave tiny rests
    return np.cumsum(change, dtype=np.float64)[:-1].round(6)


def answered(story: StreamStory) -> str:
    """Describes the answer to the request."""
    stream = story.stream
    if stream["answer"] == "rollback" and stream["rollback_seqno"] is None:
        return "rollback, the seqno was not captured"
    if stream["answer"] == "rollback":
        return f"rollback to {stream['rollback_seqno']}"
    if stream["answer"] == "refused":
        return f"refused: {escape(stream['status'] or 'unknown')}"
    return "answer unknown" if stream["answer"] == "unknown" else str(stream["answer"])


def unread(stream: Mapping[str, Any]) -> str:
    """Describes the begin of a stream whose request was not captured. If there is an answer, part
    of the request was captured.
    """
    if stream["verdict"] == "never-opened":
        return "messages came for which no stream was opened"
    if stream["answer"] == "unknown":
        return "first seen here, the request was not captured"
    return "request, of which the rest was not captured"


def by_seqno(story: StreamStory, noted: Iterable[Mark] = ()) -> Shape:
    """Returns a stream on the axis of seqnos. ``noted``: messages that are events by themselves."""
    stream = story.stream
    start = stream["requested_start"]
    rollback_seqno = stream["rollback_seqno"]
    last = stream["last_seqno"]
    begin = start if start is not None else stream["first_seqno"]
    end = rollback_seqno if rollback_seqno is not None else last
    marks = list(noted)
    if begin is not None:
        marks.append(_request(story, begin))
    if rollback_seqno is not None:
        marks.append(Mark(rollback_seqno, "R", _answer_row(story), answered(story)))
    marks += [
        Mark(int(story.before[gap]) - 1, "^", row, "seqno advanced")
        for gap, row in _advanced(story)
    ]
    marks += [Mark(seqno, "B", stream["open_row"] or 0, text) for seqno, text in _crossed(story)]
    if stream["end_reason"] is not None:
        end_seqno = last if last is not None else start
        if end_seqno is not None:
            marks.append(_end(story, end_seqno))
    return Shape(
        begin=begin,
        end=begin if end is None else end,
        rollback_seqno=rollback_seqno,
        is_asked=start is not None,
        bars=story.bars,
        gap_first=story.after + np.uint64(1),
        gap_last=story.before - np.uint64(1),
        cause=story.cause,
        item_first=story.item_first,
        item_last=story.item_last,
        item_count=story.item_count,
        marks=sorted(marks, key=lambda mark: mark.at),
        is_time=False,
    )


def by_time(
    story: StreamStory,
    first_ns: int,
    noted: Iterable[Mark] = (),
    until_ns: int | None = None,
) -> Shape:
    """Returns a stream on the axis of time, in nanoseconds since ``first_ns``; earlier events are
    drawn at 0.

    ``noted``: as in ``by_seqno``, at times. ``until_ns``: when the stream was over, if its last
    message does not show it.
    """
    stream = story.stream

    def since(times: npt.ArrayLike) -> Seqnos:
        offsets: Seqnos = np.maximum(np.asarray(times, dtype=np.int64) - first_ns, 0).astype(
            np.uint64
        )
        return offsets

    begin, last, end = (
        int(time_ns)
        for time_ns in since([stream["first_time"], stream["last_time"], until_ns or 0])
    )
    end = max(last, end)
    bars, gaps = story.bars, since(story.times_of(story.gap_rows))
    first = since(bars.time)
    # a snapshot lasts until its last item, or to the stream's end if more of it was promised
    next_rows = np.append(bars.row[1:], np.iinfo(np.int64).max)[: len(bars.row)]
    received = np.maximum(first, since(story.last_before(next_rows, bars.time)))
    is_promised = (bars.received < bars.last) & (np.arange(len(first)) == len(first) - 1)
    marks = [_request(story, begin), *noted]
    if stream["rollback_seqno"] is not None:
        marks.append(Mark(last, "R", _answer_row(story), answered(story)))
    marks += [
        Mark(int(gaps[gap]), "^", row, f"seqno advanced to {int(story.before[gap]) - 1}")
        for gap, row in _advanced(story)
    ]
    for seqno, text in _crossed(story):
        later = np.flatnonzero(story.item_last > np.uint64(seqno))
        if len(later):
            marks.append(
                Mark(int(since(story.item_time[later]).min()), "B", stream["open_row"] or 0, text)
            )
    if stream["end_reason"] is not None:
        marks.append(_end(story, end))
    return Shape(
        begin=begin,
        end=end,
        rollback_seqno=None,
        is_asked=stream["requested_start"] is not None,
        bars=replace(
            bars,
            first=first,
            last=np.where(is_promised, np.maximum(received, np.uint64(end)), received),
            received=received,
        ),
        gap_first=gaps,
        gap_last=gaps,
        cause=story.cause,
        item_first=since(story.item_time),
        item_last=since(story.item_until),
        item_count=story.item_count,
        marks=sorted(marks, key=lambda mark: mark.at),
        is_time=True,
    )


def begun(story: StreamStory) -> str:
    """Describes the begin of a stream: the request and its answer, as far as they are known."""
    if story.stream["requested_start"] is None:
        if story.stream["answer"] == "unknown":
            return unread(story.stream)
        return f"{unread(story.stream)}: {answered(story)}"
    return f"request from {story.stream['requested_start']}: {answered(story)}"


def _advanced(story: StreamStory) -> list[tuple[int, int]]:
    """Returns number and row of each gap that a SeqnoAdvanced explains."""
    advanced_gaps = np.flatnonzero(story.cause == w.ADVANCED)
    if len(advanced_gaps):
        return list(
            zip(advanced_gaps.tolist(), story.gap_rows[advanced_gaps].tolist(), strict=True)
        )
    return []


def _crossed(story: StreamStory) -> Iterable[tuple[int, str]]:
    """Yields where branches of the failover log begin within the stream."""
    start, last = story.stream["requested_start"], story.stream["last_seqno"]
    for uuid, seqno in story.stream["failover_log"] or ():
        if start is not None and last is not None and start < seqno < last:
            yield seqno, f"branch 0x{uuid:016x} of the history begins after seqno {seqno}"


def _answer_row(story: StreamStory) -> int:
    """Returns the row of the answer with the rollback, which also shows the gap; if there is none,
    of the request.
    """
    rollback_gaps = np.flatnonzero(story.cause == w.CAUSES.index("rollback"))
    if len(rollback_gaps):
        return int(story.gap_rows[rollback_gaps[-1]])
    return int(story.stream["open_row"] or 0)


def _request(story: StreamStory, position: int) -> Mark:
    letter = "N" if story.stream["answer"] == "refused" else "Q"
    return Mark(position, letter, story.stream["open_row"] or 0, begun(story))


def _end(story: StreamStory, position: int) -> Mark:
    reason = story.stream["end_reason"]
    if story.stream["end_row"] is None and reason in w.NO_STREAM_END:
        return Mark(
            position,
            "C",
            int(story.item_row[-1]) if len(story.item_row) else story.stream["open_row"] or 0,
            "connection closed",
        )
    return Mark(position, "E", story.stream["end_row"] or 0, f"stream end: {escape(reason)}")
