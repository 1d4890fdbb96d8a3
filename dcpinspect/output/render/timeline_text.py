"""Draws one vbucket's streams along their seqnos: request, snapshots, density of items, and gaps
with their causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType

import numpy as np

from dcpinspect.output.render.lanes import (
    DAY,
    HOUR,
    LETTERS,
    MINUTE,
    REFUSED,
    TICK,
    UNICODE,
    Glyphs,
    Painted,
    Scale,
    joined,
    lanes,
    paints_of,
)
from dcpinspect.output.render.shape import Mark, answered, by_seqno, unread
from dcpinspect.output.render.verdict import items_text
from dcpinspect.protocol.flags import END_FLAGS, ENDLESS
from dcpinspect.streams import words as w
from dcpinspect.streams.story import StreamStory
from dcpinspect.text import counted, escape, wrap

LABEL = 12
"""Width of the names of lanes in columns."""
NARROWEST = 60
WIDTH = 120
"""Width in columns if there is no terminal."""
_FAR_ABOVE = 10
"""Of a request from so many times the seqnos that streams have, only the words say from where."""
_LISTED = 3
"""Number of snapshots up to which they are listed one by one."""


def seqnos_of(streams: Sequence[StreamStory], seqnos: range | None) -> tuple[int, int]:
    """Returns the least and the greatest seqno of what is drawn: of all streams, or ``seqnos``.
    Requests that were not granted, from seqnos far above all others, go beyond the end.
    """
    if seqnos is not None:
        return seqnos[0], seqnos[-1]
    all_seqnos = [seqno for story in streams for seqno in story.seqnos()]
    greatest = max(all_seqnos, default=0)
    greatest_granted = max(
        (
            seqno
            for story in streams
            if story.stream["answer"] not in ("rollback", "refused")
            for seqno in story.seqnos()
        ),
        default=0,
    )
    if 0 < greatest_granted < greatest // _FAR_ABOVE:
        greatest = greatest_granted
    return min(all_seqnos, default=0), greatest


def scale_of(seqnos: tuple[int, int], *, width: int) -> Scale:
    """Returns the scale on which these seqnos fit into ``width`` columns."""
    return Scale.finest(*seqnos, max(TICK, width - LABEL - 2 - max(20, width // 3)))


def picture(
    streams: Sequence[StreamStory],
    scale: Scale,
    marks: Sequence[Sequence[tuple[int, str]]],
    *,
    refusals: Mapping[int, str] = MappingProxyType({}),
    width: int | None,
    glyphs: Glyphs = UNICODE,
) -> Iterator[list[Painted]]:
    """Yields lines: the axis, and the lanes of each stream with a description.

    ``marks``: for each stream, seqno and letter of further events. ``refusals``: colours of refused
    requests, by row, where a finding says what it costs. ``width``: of the lines; a
    description that does not fit goes on below its lane.
    """
    beside = LABEL + scale.cells + 2

    def lines(
        label: str, cells: str, text: str, lane: str, request_row: int | None
    ) -> Iterator[list[Painted]]:
        first, *below = wrap(text, None if width is None else width - beside)
        paints = [
            refusals.get(request_row or 0, paint) if glyph == REFUSED and lane == "axis" else paint
            for glyph, paint in zip(cells, paints_of(lane, cells, glyphs), strict=True)
        ]
        yield [
            (f"{label:<{LABEL}}", ""),
            *joined(cells, paints),
            (f"  {first}".rstrip(), ""),
        ]
        yield from ([(" " * beside + line, "")] for line in below)

    if any(story.is_opened for story in streams):
        # where no tick has room, the seqno of the first cell stands alone
        ticks = numbers(scale) or labels(scale)(scale.first)
        yield [((" " * LABEL + ticks).rstrip(), "")]
    several = any(story.stream["sid"] is not None for story in streams)
    for story, own_marks in zip(streams, marks, strict=True):
        drawn = lanes(
            by_seqno(story, [Mark(*mark) for mark in own_marks]),
            scale,
            glyphs=glyphs,
            apart=apart(scale),
        )
        row = story.stream["open_row"]
        for lane, text in words(story, [letter for _, letter in own_marks]).items():
            if lane == "axis":
                yield from lines(name(story, is_with_sid=several), drawn.axis, text, lane, row)
            elif lane != "snapshots" or drawn.snapshots.strip():
                yield from lines(f"  {lane}", getattr(drawn, lane), text, lane, row)


def name(story: StreamStory, *, is_with_sid: bool) -> str:
    """Returns the label of a stream's lanes."""
    if not story.is_opened:
        return "no stream"
    sid = f" sid {story.stream['sid']}" if is_with_sid and story.stream["sid"] is not None else ""
    return f"#{story.stream['stream']}{sid}"


def words(story: StreamStory, letters: Sequence[str]) -> dict[str, str]:
    """Describes what each lane of a stream shows. ``letters``: of further events."""
    lane_texts = {"axis": request_text(story)}
    if len(story.bars.first):
        lane_texts["snapshots"] = _snapshots_text(story)
    if story.stream["items"] or story.stream["cached_items"]:
        lane_texts["items"] = f"{items_text(story.stream)} received, {story.stream['verdict']}"
    if len(story.gaps) or story.stream["items"]:
        lane_texts["gaps"] = _gaps_text(story)
    if letters or story.stream["end_reason"] or (story.cause == w.ADVANCED).any():
        lane_texts["events"] = _events_text(story, letters)
    return lane_texts


_ASCII = str.maketrans("→←–…·✖└", "><-~-X`")


def ascii_only(text: str) -> str:
    """Returns text for a terminal that has only ASCII."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def apart(scale: Scale) -> int:
    """Returns the number of columns between two ticks that gives their labels room."""
    write = _writer(scale, TICK)
    return max(TICK, len(write(scale.last)) + 1, len(write(scale.first)) + 1)


def numbers(scale: Scale) -> str:
    """Returns the line with the seqnos or times at the ticks."""
    text, write = "", labels(scale)
    for tick in scale.ticks(apart(scale)):
        number, column = write(tick), (tick - scale.first) // scale.step * scale.wide
        if column + len(number) <= scale.columns:
            text = text.ljust(column) + number
    return text


def labels(scale: Scale) -> Callable[[int], str]:
    """Returns what writes the labels of a scale: seqnos, or times since the capture began."""
    return _writer(scale, apart(scale))


def _writer(scale: Scale, columns_apart: int) -> Callable[[int], str]:
    return partial(time_since, scale.ticks(columns_apart).step) if scale.is_time else str


_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"))


def time_since(step_ns: int, time_ns: int) -> str:
    """Writes nanoseconds in the unit, and with the digits, that distinguish times so far apart."""
    for unit, name_of_unit in _UNITS:
        if step_ns >= unit:
            return f"{time_ns / unit:.{int(time_ns % unit > 0)}f} {name_of_unit}"
    digits = max(0, 9 - (len(str(step_ns)) - 1))
    return f"{time_ns / 1e9:.{digits}f} s"


def end_of(scale: Scale, length_ns: int) -> str:
    """Writes the end of an axis of time: in the unit of its ticks; in seconds to the millisecond,
    and with three digits that count.
    """
    text, digits = labels(scale)(length_ns), max(3, min(9, 12 - len(str(length_ns))))
    return max(f"{length_ns / 1e9:.{digits}f} s", text, key=len) if text.endswith(" s") else text


def request_text(story: StreamStory) -> str:
    """Describes the request and its answer."""
    stream = story.stream
    if not story.is_opened:
        return f"row {stream['open_row']}: none was opened"
    if stream["requested_start"] is None:
        answer_text = "" if stream["answer"] == "unknown" else f", {answered(story)}"
        return f"row {stream['open_row']}: {unread(stream)}{answer_text}"
    own_end = [name for name in stream["request_flags"] if name in END_FLAGS]
    end = "" if stream["requested_end"] == ENDLESS else f" to {stream['requested_end']}"
    end = f" {own_end[0]}" if own_end else end
    return f"row {stream['open_row']}: from {stream['requested_start']}{end}, {answered(story)}"


def _snapshots_text(story: StreamStory) -> str:
    names = ("start_seqno", "end_seqno", "first_seqno", "last_seqno", "type", "state", "flags")
    texts = []
    rows = [
        (*row, f"{kind} with history" if "history" in flags else kind, state)
        for *row, kind, state, flags in story.snapshots.rows(*names)
    ]
    if len(rows) > _LISTED:
        counts = Counter(row[4] for row in rows)
        states = Counter(row[5] for row in rows if not row[5].startswith("complete"))
        return ", ".join(f"{count} {word}" for word, count in (*counts.items(), *states.items()))
    for word, group in groupby(rows, key=lambda row: str(row[4])):
        ranges = []
        for start, end, first, last, _, state in group:
            low, high = (start, end) if start is not None else (first, last)
            note = "" if state.startswith("complete") else f" {state}"
            ranges.append((f"{low}–{high}" if low is not None else "no seqnos") + note)
        texts.append(f"{', '.join(ranges)} {word}")
    return ", ".join(texts)


def _gaps_text(story: StreamStory) -> str:
    counts = np.bincount(story.cause, minlength=len(w.CAUSES)).tolist()
    widths = (story.before - story.after).astype(np.int64) - 1
    return gaps_in_words(
        {
            cause: (counts[number], int(widths[story.cause == number].sum()))
            for cause in LETTERS
            for number in (w.CAUSES.index(cause),)
        }
    )


def gaps_in_words(by_cause: Mapping[str, tuple[int, int]]) -> str:
    """Says how many seqnos of each cause are in how many gaps. ``by_cause``: gaps and seqnos."""
    return (
        ", ".join(
            f"{cause} {counted(seqnos, 'seqno')} in {counted(gaps, 'gap')}"
            for cause, (gaps, seqnos) in by_cause.items()
            if gaps
        )
        or "none"
    )


def _events_text(story: StreamStory, letters: Sequence[str]) -> str:
    counts = Counter(letters)
    texts = []
    reason = story.stream["end_reason"]
    if counts["C"] or (story.stream["end_row"] is None and reason in w.NO_STREAM_END):
        texts.append("connection closed")
    elif reason is not None:
        texts.append(f"stream end: {escape(reason)}")
    for letter, singular, plural in (
        ("S", "system event", "system events"),
        ("V", "change of state", "changes of state"),
    ):
        if counts[letter]:
            texts.append(f"{counts[letter]} {singular if counts[letter] == 1 else plural}")
    return ", ".join(texts)
