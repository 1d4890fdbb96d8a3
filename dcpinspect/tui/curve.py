"""Draws seqnos against time, one curve per stream. Backfill, steady state, stalls and catching up can be seen as slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dcpinspect.records import dataclass
from dcpinspect.render.braille import ACROSS, DOWN, Canvas
from dcpinspect.render.lanes import Glyphs, Scale
from dcpinspect.streams import words as w
from dcpinspect.tui.tracks import Track

COLOURS = ("verdict-advancing", "kind-removal", "snapshot-disk", "verdict-caught-up", "kind-item", "kind-end")
"""Colours that streams get in turn; each stream also has its name at the end of its curve."""
Place = Callable[[int], int]
_APART = 3
"""Least number of lines between two seqnos on the axis."""
_DOT = "*"


@dataclass(frozen=True, slots=True)
class Curve:
    """The picture; all arrays have one element per character."""

    text: npt.NDArray[np.str_]
    paints: npt.NDArray[np.object_]
    """Colour of each character, as the palette names it."""
    owner: npt.NDArray[np.int64]
    """Which stream each character belongs to, as its place in the list of streams; -1: none."""
    ticks: dict[int, str]
    """The seqnos on the axis, by line."""


def _points(track: Track, limit: Scale) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Returns times and seqnos of a stream in order, from the last point before the shown span to the first point after it."""
    story, shape = track.story, track.shapes["time"]
    order = np.argsort(shape.item_first, kind="stable")
    time = np.column_stack((shape.item_first[order], shape.item_last[order])).reshape(-1).astype(np.int64)
    seqno = np.column_stack((story.item_first[order], story.item_last[order])).reshape(-1).astype(np.float64)
    start = story.stream["requested_start"]
    if start is not None and story.stream["answer"] == "accepted":
        time, seqno = np.append(np.int64(shape.begin or 0), time), np.append(float(start), seqno)
    if len(time):
        time, seqno = np.append(time, max(int(time[-1]), shape.end)), np.append(seqno, seqno[-1])
    first = max(0, int(np.searchsorted(time, limit.first)) - 1)
    last = int(np.searchsorted(time, limit.last, "right")) + 1
    return time[first:last], seqno[first:last]


def curve(tracks: Sequence[Track], scale: Scale, columns: int, lines: int, glyphs: Glyphs) -> Curve:
    """Draws the streams over a span of time. The height of the picture is the range of seqnos that they have in that span."""
    points = [_points(track, scale) for track in tracks]
    seen = [int(seqno) for _, own in points if len(own) for seqno in (own.min(), own.max())]
    for track in tracks:
        stream, shape = track.story.stream, track.shapes["time"]
        if stream["rollback_seqno"] is not None and scale.first <= shape.end <= scale.last:
            seen += [stream["rollback_seqno"], *([stream["requested_start"]] if stream["requested_start"] is not None else [])]
    low, high = min(seen, default=0), max(seen, default=1)
    across, down = (columns * ACROSS) / (scale.step * scale.cells), (lines * DOWN - 1) / max(1, high - low)

    def x(times: npt.ArrayLike) -> npt.NDArray[np.int64]:
        return np.clip(((np.asarray(times, np.float64) - scale.first) * across).astype(np.int64), 0, columns * ACROSS - 1)

    def y(seqnos: npt.ArrayLike) -> npt.NDArray[np.int64]:
        return np.round((high - np.asarray(seqnos, np.float64)) * down).astype(np.int64)

    canvas = Canvas(columns, lines)
    for place, (time, seqno) in enumerate(points):
        canvas.steps(x(time), y(seqno), place)
    text = canvas.text(ascii_dot=_DOT if glyphs.line == "-" else "")
    paints = np.array(["", *(COLOURS[place % len(COLOURS)] for place in range(len(tracks)))], object)[canvas.owner + 1]

    def column(time: int) -> int:
        return int(x(time)) // ACROSS

    def line(seqno: int) -> int:
        return int(y(seqno)) // DOWN

    picture = Curve(text, paints, canvas.owner, _ticks(low, high, lines, line))
    for place, track in enumerate(tracks):
        _mark(picture, place, track, scale, glyphs, column, line)
    _name(picture, tracks)
    return picture


def _ticks(low: int, high: int, lines: int, line: Place) -> dict[int, str]:
    """Returns round seqnos, by the line that they stand on."""
    ticks = Scale.filling(low, high, max(1, lines)).ticks(_APART)
    return {line(tick): str(tick) for tick in ticks if low <= tick <= high}


def _mark(picture: Curve, place: int, track: Track, scale: Scale, glyphs: Glyphs, column: Place, line: Place) -> None:
    """Draws events on the curve of a stream: snapshot borders where there is room, request, rollback, end and findings."""
    stream, shape, bars = track.story.stream, track.shapes["time"], track.story.bars

    def put(time: int, seqno: int, glyph: str, paint: str, aside: int = 0) -> None:
        at = line(seqno), max(0, column(time) + aside)
        if scale.first <= time <= scale.last and 0 <= at[0] < len(picture.text):
            picture.text[at], picture.paints[at], picture.owner[at] = glyph, paint, place

    for severity, glyph in (("warning", glyphs.warning), ("error", glyphs.error)):
        for one in track.found:
            if one.severity == severity:  # the sign stands beside its message, which may have a letter of its own
                put(one.time, one.seqno, glyph, "kind-refusal" if severity == "error" else "kind-removal", -1)
    began = shape.bars.first.astype(np.int64)
    shown = np.flatnonzero((began >= scale.first) & (began <= scale.last))
    if len(shown) <= picture.text.shape[1] // 4:
        for bar in shown.tolist():
            put(int(began[bar]), int(bars.first[bar]), glyphs.tick, f"snapshot-{w.SNAPSHOT_TYPES[int(bars.type[bar])]}")
    start, told, last = stream["requested_start"], stream["rollback_seqno"], stream["last_seqno"]
    if start is not None and told is not None and scale.first <= shape.end <= scale.last:
        for at in range(max(0, line(start)), min(len(picture.text) - 1, line(told)) + 1):
            put_at = at, column(shape.end)
            picture.text[put_at], picture.paints[put_at], picture.owner[put_at] = "│", "kind-rollback", place
        put(shape.end, told, glyphs.open, "kind-rollback")
        put(shape.end, start, "R", "kind-rollback")
    elif start is not None:
        put(shape.begin or 0, start, "Q", "kind-request")
    if stream["end_reason"] is not None and (last is not None or start is not None):
        put(shape.end, last if last is not None else start, "X" if stream["end_reason"] == "connection-closed" else "E", "kind-end")


def _name(picture: Curve, tracks: Sequence[Track]) -> None:
    """Writes the name of each stream beside the end of its curve, where nothing else is drawn."""
    several = len({track.connection for track in tracks}) > 1
    for place, track in enumerate(tracks):
        lines, columns = np.nonzero(picture.owner == place)
        if not len(lines):
            continue
        name = f"con {track.connection} {track.name}" if several else track.name
        if len({one.vbucket for one in tracks}) > 1:
            name = f"vb {track.vbucket} {name}"
        last = int(np.argmax(columns))
        line, column = int(lines[last]), int(columns[last])
        before = (column - len(name) - away for away in (1, 4, 8))
        places = [(line + off, first) for first in (column + 2, *before) for off in (0, 1, -1, 2, -2)]
        for at, first in places:
            own = picture.text[at, first : first + len(name)] if 0 <= at < len(picture.text) and first >= 0 else ()
            if len(own) == len(name) and all(glyph == " " for glyph in own):
                picture.text[at, first : first + len(name)] = list(name)
                picture.paints[at, first : first + len(name)] = COLOURS[place % len(COLOURS)]
                break
