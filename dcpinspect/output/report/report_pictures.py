"""The pictures of a report, as SVG.

They are built as XML elements, so that no text of a capture becomes markup. Colours are classes
that the page defines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray, unique
from dcpinspect.findings.cases import duration
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.output.render.lanes import LETTERS as CAUSE_LETTERS
from dcpinspect.output.render.lanes import Scale, events_legend
from dcpinspect.output.render.palette import GLYPHS, PAINTS
from dcpinspect.output.render.shape import Shape, by_seqno, sums
from dcpinspect.output.render.timeline_text import end_of, labels
from dcpinspect.output.render.verdict import ENDED, LETTERS, Standing, paint_of, worst_severity
from dcpinspect.output.report.report_contents import Timeline
from dcpinspect.output.statistics import Charts, CommandRate
from dcpinspect.streams import words as w
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import counted, escape, escape_rest, words_of, wrap

Element = ElementTree.Element

WIDE = 960
"""Width of a picture in units."""
_LEFT, _RIGHT = 14, 946
_FINE = 2
"""Number of places per unit of width; things that fall on one place are drawn once."""
_BINS = 240
"""Number of bins for the density of items."""
_MARKS = 200
"""Greatest number of events of a stream that letters show."""
_LETTER = 9.0
"""Width of a letter in units."""
_MOST_TITLES = 5
"""Greatest number of events that the text of a letter names."""
_STREAM, _GAPS, _DELIVERED, _LINE = 28, 14, 36, 14
"""Height of a stream in units, what one with gaps has besides, what a delivering one has: snapshots
and items; and height of a line about a finding.
"""
_LINE_WIDTH = 125
"""Greatest number of characters of such a line: as many as the widest bold letters have room for."""


def xml(element: Element) -> str:
    """Returns a picture as XML text."""
    return ElementTree.tostring(element, encoding="unicode")


def _svg(height: float, label: str, *, kind: str = "") -> Element:
    svg = Element(
        "svg",
        {
            "viewBox": f"0 0 {WIDE} {height:g}",
            "role": "img",
            "aria-label": label,
            "class": f"picture {kind}".strip(),
        },
    )
    ElementTree.SubElement(svg, "title").text = label
    return svg


def _add(parent: Element, tag: str, text: str | None = None, **attributes: str | float) -> Element:
    """Adds an element to ``parent`` and returns it.

    ``class_`` is the attribute class; numbers are rounded to two digits after the point.
    """
    values = {
        name.rstrip("_").replace("_", "-"): value
        if isinstance(value, str)
        else f"{round(value, 2):g}"
        for name, value in attributes.items()
    }
    element = ElementTree.SubElement(parent, tag, values)
    element.text = text
    return element


def _box(
    parent: Element, corner: tuple[float, float], size: tuple[float, float], kind: str, title: str
) -> Element:
    """Adds a rectangle of a class, with a text that the browser shows beside it."""
    (x, y), (width, height) = corner, size
    box = _add(parent, "rect", x=x, y=y, width=width, height=height, class_=kind)
    _add(box, "title", title)
    return box


_NUMBERS = 44
"""Left edge of the cells of a map that has numbers beside its rows."""
_SIGN = {64: 0.75, 32: 0.45}
"""Height of the foot of a sign in a cell, as a share of the cell, by the number of cells in a row."""
_COLUMNS = words_of("client vbucket connections verdict before_end rollbacks findings last_seqno")


def _mark(row: Mapping[str, Any], standing: Standing) -> tuple[str, str]:
    """Returns colour and sign of a vbucket on the maps."""
    severity, state = worst_severity(row), standing.state(row)
    if severity is not None:
        return f"severity-{severity}", GLYPHS[severity]
    return paint_of(state), LETTERS.get(state, "")


def map_legend(vbuckets: Records, standing: Standing) -> list[tuple[str, str, str]]:
    """Returns class, sign and meaning of each mark on the maps, the worst first, with how many
    there are.
    """
    marks: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    rows = vbuckets.row_dicts(*_COLUMNS)
    for row in sorted(rows, key=lambda row: SEVERITIES.index(worst_severity(row) or "note")):
        paint, sign = _mark(row, standing)
        marks.setdefault((PAINTS[paint].light, sign), []).append(row)
    return [
        (f"fill-{_mark(marked[0], standing)[0]}", sign, _meaning(marked, standing))
        for (_, sign), marked in marks.items()
    ]


def _meaning(rows: Sequence[Mapping[str, Any]], standing: Standing) -> str:
    """Returns what one mark says of these rows, each a vbucket of a client."""
    words = Counter(
        {"error": "with an error", "warning": "with a warning"}.get(worst_severity(row) or "")
        or standing.words(row)
        for row in rows
    )
    has_reasons = len(words) > 1 and all(text.startswith(ENDED) for text in words)
    begin, cut = (f"{len(rows):,} {ENDED}", len(ENDED)) if has_reasons else ("", 0)
    meaning = begin + ", ".join(f"{count:,} {text[cut:]}" for text, count in words.items())
    vbuckets, clients = ({row[name] for row in rows} for name in ("vbucket", "client"))
    if len(vbuckets) == len(rows):
        return meaning
    return f"{meaning} ({counted(len(vbuckets), 'vbucket')} of {counted(len(clients), 'client')})"


def vbucket_map(
    vbuckets: Records, client: str, linked: frozenset[int], standing: Standing
) -> Element:
    """Returns a map of a client's vbuckets: one cell each, in the colour of its worst finding, or
    of how it stood.

    ``linked``: the vbuckets that have a timeline on the page.
    """
    rows = [row for row in vbuckets.row_dicts(*_COLUMNS) if row["client"] == client]
    across = 64 if len(rows) > 256 else 32 if len(rows) > 16 else 8
    cells_left, cells_top = (_NUMBERS, 2 * _LEFT) if across == 64 else (_LEFT, _LEFT)
    size = (WIDE - cells_left - _LEFT) / across
    high = size if across > 8 else 28.0
    svg = _svg(
        cells_top + _LEFT + -(-len(rows) // across) * high,
        f"verdicts of {counted(len(rows), 'vbucket')} of {escape(client)}",
        kind="map",
    )
    numbers = [row["vbucket"] for row in rows]
    # a cell has no room for its number: its row and column add up to it
    for row_begin in range(0, len(rows), across) if across == 64 else ():
        y = cells_top + row_begin // across * high + high * 0.75
        _add(svg, "text", f"{numbers[row_begin]}", x=cells_left - 4, y=y, class_="tick end")
    if across == 64 and numbers[-1] - numbers[0] == len(numbers) - 1:
        for column in range(0, across, 8):
            x = cells_left + (column + 0.5) * size
            _add(svg, "text", f"+{column}", x=x, y=cells_top - 5, class_="tick middle")
    for cell_number, row in enumerate(rows):
        vbucket = row["vbucket"]
        words, last = standing.words(row), row["last_seqno"]
        paint, sign = _mark(row, standing)
        x, y = cells_left + cell_number % across * size, cells_top + cell_number // across * high
        parent = _add(svg, "a", href=f"#vb-{vbucket}") if vbucket in linked else svg
        texts = [
            f"vb {vbucket}: {words}",
            "nothing received" if last is None else f"last seqno {last}",
            *(counted(count, level) for level, count in (row["findings"] or {}).items() if count),
        ]
        _box(parent, (x, y), (size - 1, high - 1), f"fill-{paint}", ", ".join(texts))
        middle = x + size / 2
        if across == 8:
            texts = [
                " ".join(filter(None, [sign, f"{vbucket} {verdict}"]))
                for verdict in (words, row["verdict"])
            ]
            text = texts[0] if 7 * len(texts[0]) < size else texts[1]
            _add(parent, "text", text, x=middle, y=y + high * 0.65, class_="sign")
        elif sign:
            _add(parent, "text", sign, x=middle, y=y + size * _SIGN[across], class_="sign")
        if across == 32:
            _add(parent, "text", f"{vbucket}", x=middle, y=y + size * 0.85, class_="small sign")
    return svg


def timeline(drawn_timeline: Timeline) -> Element:
    """Returns the streams of a vbucket along one axis of seqnos."""
    shapes = [
        by_seqno(story, marks)
        for story, marks in zip(drawn_timeline.streams, drawn_timeline.marks, strict=True)
    ]
    seqnos = [seqno for shape in shapes for seqno in shape.seqno_ranges()]
    scale = Scale.filling(min(seqnos, default=0), max(seqnos, default=0), 1_000_000)
    has_axis = bool(seqnos)
    told_of_each = [
        [
            (event, line)
            for event in findings
            for line in wrap(f"{event.sign} {event.text}", _LINE_WIDTH)
        ]
        for findings in drawn_timeline.findings
    ]
    heights = (
        (_STREAM if has_axis else _LINE)
        + _delivered(shape)
        + _GAPS * (len(shape.cause) > 0)
        + _LINE * len(lines)
        for shape, lines in zip(shapes, told_of_each, strict=True)
    )
    tops = list(accumulate(heights, initial=24 if has_axis else 8))
    svg = _svg(
        tops[-1], f"streams of vbucket {drawn_timeline.vbucket} along their seqnos", kind="timeline"
    )
    for tick in scale.ticks(scale.columns // 8) if has_axis else ():
        x = _x(scale, tick)
        _add(svg, "line", x1=x, x2=x, y1=16, y2=tops[-1], class_="grid")
        step, kind = (-2, "tick end") if x > _RIGHT - 7 * len(str(tick)) else (2, "tick")
        _add(svg, "text", str(tick), x=x + step, y=12, class_=kind)
    for number, (shape, title) in enumerate(zip(shapes, drawn_timeline.names, strict=True)):
        group = _add(svg, "g", transform=f"translate(0 {tops[number]})")
        axis = drawn_timeline.words[number]["axis"]
        _add(group, "text", f"{title}: {axis}", x=_LEFT, y=9, class_="label")
        for line, (event, text) in enumerate(told_of_each[number], 1):
            link = _add(group, "a", href=f"#finding-{event.finding}")
            _add(link, "text", text, x=_LEFT, y=9 + _LINE * line, class_=f"{event.severity}")
        if has_axis:
            drawn = _add(group, "g", transform=f"translate(0 {_LINE * len(told_of_each[number])})")
            _stream(drawn, scale, shape)
    return svg


def _delivered(shape: Shape) -> int:
    """Returns the height needed for what a stream delivered."""
    return _DELIVERED if len(shape.bars.first) or len(shape.item_first) else 0


def _x(scale: Scale, seqno: float) -> float:
    seqnos = scale.last - scale.first + 1
    return _LEFT + min(max((seqno - scale.first) / seqnos, 0), 1) * (_RIGHT - _LEFT)


def _xs(scale: Scale, seqnos: npt.NDArray[np.uint64], *, past: int = 0) -> npt.NDArray[np.float64]:
    """Returns the positions where seqnos begin, or with ``past`` 1 where they end."""
    share = (seqnos.astype(np.float64) + past - scale.first) / (scale.last - scale.first + 1)
    return _LEFT + np.clip(share, 0, 1) * (_RIGHT - _LEFT)


def _stream(group: Element, scale: Scale, shape: Shape) -> None:
    if shape.begin is not None:
        has_items = len(shape.item_first) > 0 and shape.rollback_seqno is None
        begin, end = _x(scale, shape.begin), _x(scale, shape.end + has_items)
        _add(group, "line", x1=begin, x2=end, y1=18, y2=18, class_="axis")
        if shape.rollback_seqno is not None:
            tip = min(end + 7, begin)
            _add(group, "path", d=f"M {tip:.1f} 14 L {end:.1f} 18 L {tip:.1f} 22", class_="arrow")
    for first, last, kind, came, text, has_history in _boxes(scale, shape):
        for begin, end, state in ((first, came, ""), (max(first, came), last, "promised ")):
            if end > begin:
                size = end - begin, 16
                if state:  # no snapshot below it shines through
                    _add(group, "rect", x=begin, y=26, width=size[0], height=16, class_="ground")
                _box(group, (begin, 26), size, f"{state}fill-snapshot-{kind}", text)
        if has_history:
            _add(group, "line", x1=first, x2=last, y1=40, y2=40, class_="history")
        if last - first > 7 * len(text):
            kind = "inside" if came - first > 7 * len(text) else "on-pale"
            _add(group, "text", text, x=first + 4, y=37, class_=kind)
    _density(group, scale, shape)
    y = 26 + _delivered(shape)
    for first, last, cause, count in _gaps(scale, shape):
        text = f"{cause}: {counted(count, 'seqno')}"
        _box(group, (first, y), (max(last - first, 1), 9), f"fill-cause-{cause}", text)
        for label in (cause, CAUSE_LETTERS[cause]):
            if last - first > 7 * len(label):
                _add(group, "text", label, x=first + 3, y=y + 8, class_="small inside")
                break
    for x, sign, texts in _letters(scale, shape):
        letter = _add(group, "text", sign, x=x, y=22, class_=f"mark mark-{sign}")
        more = f"; {len(texts) - _MOST_TITLES:,} more" if len(texts) > _MOST_TITLES else ""
        _add(letter, "title", "; ".join(texts[:_MOST_TITLES]) + more)


def _letters(scale: Scale, shape: Shape) -> list[tuple[float, str, list[str]]]:
    """Returns position, letter and texts of the events of a stream, from left to right. Several of
    a kind on one place are one letter; letters of several kinds stand beside each other.
    """
    has_items = len(shape.item_first) > 0
    positions = sorted(
        (
            # an end stands behind the last item, and a rollback before the tip of its arrow
            _x(scale, mark.at + (mark.letter in "EC" and has_items)) - 6 * (mark.letter == "R"),
            mark.letter in "EC",
            mark.letter,
            mark.text or mark.letter,
        )
        for mark in shape.marks[:_MARKS]
    )
    letters, latest = list[tuple[float, str, list[str]]](), dict[str, tuple[float, list[str]]]()
    for x, _, sign, text in positions:
        if sign in latest and x - latest[sign][0] < _LETTER:
            latest[sign][1].append(text)
        else:
            latest[sign] = x, [text]
            letters.append((x, sign, latest[sign][1]))
    step = min(_LETTER, (WIDE - _LEFT) / max(1, len(letters)))
    xs = [x for x, _, _ in letters]
    for number in range(1, len(xs)):
        xs[number] = max(xs[number], xs[number - 1] + step)
    for number in range(len(xs) - 1, -1, -1):
        xs[number] = min(xs[number], WIDE - step * (len(xs) - number - 0.5))
    return [(x, sign, texts) for x, (_, sign, texts) in zip(xs, letters, strict=True)]


def _boxes(scale: Scale, shape: Shape) -> Iterator[tuple[float, float, str, float, str, bool]]:
    """Yields begin, end, type, position reached and description of each snapshot, and whether it
    has history. Of snapshots that fall on one place, the one that came furthest is drawn: it may
    continue the others.
    """
    bars = shape.bars
    begins = _xs(scale, bars.first)
    ends = _xs(scale, bars.last, past=1)
    until = _xs(scale, bars.received, past=1)
    box_positions = np.stack((begins * _FINE, ends * _FINE, bars.type)).astype(np.int64)
    furthest = np.argsort(bars.received, kind="stable")[::-1]
    is_first = np.unique(box_positions[:, furthest], axis=1, return_index=True)[1]
    for number in np.sort(furthest[is_first]).tolist():
        low = int(bars.first[number])
        high = int(bars.last[number])
        came = int(bars.received[number])
        kind = w.SNAPSHOT_TYPES[int(bars.type[number])]
        state = "" if came >= high else ", nothing came" if came < low else f", came to {came}"
        first = float(begins[number])
        last = max(float(ends[number]), first + 1)
        reached = last if came >= high else float(until[number]) if came >= low else first
        has_history = bool(bars.has_history[number])
        text = f"{low}–{high} {kind}{', history' if has_history else ''}{state}"
        yield first, last, kind, reached, text, has_history


def _density(group: Element, scale: Scale, shape: Shape) -> None:
    """Adds a curve that shows how many items came of each stretch of seqnos."""
    if not len(shape.item_first):
        return
    span = scale.last - scale.first + 1
    count_of = min(_BINS, span)

    def bins(values: npt.NDArray[np.uint64]) -> IntArray:
        since = values.astype(np.float64) - float(scale.first)
        return np.clip(since * count_of / span, 0, count_of - 1).astype(np.int64)

    first, last = bins(shape.item_first), bins(shape.item_last)
    share = shape.item_count / (last - first + 1)
    counts = np.maximum(sums(first, last, share, count_of), 0)
    highest = float(counts.max()) or 1.0
    step = (_RIGHT - _LEFT) / count_of
    points = [f"M {_LEFT} 60"]
    points += [
        f"L {_LEFT + number * step:.1f} {60 - 15 * count / highest:.1f} h {step:.1f}"
        for number, count in enumerate(counts.tolist())
    ]
    curve = _add(group, "path", d=" ".join([*points, f"L {_RIGHT} 60 Z"]), class_="items")
    _add(curve, "title", counted(int(shape.item_count.sum()), "item"))


def _gaps(scale: Scale, shape: Shape) -> Iterator[tuple[float, float, str, int]]:
    """Yields begin, end, cause and number of seqnos of each gap. Gaps of one cause on neighbouring
    places are drawn as one.
    """
    for code in unique(shape.cause).tolist():
        has_cause = shape.cause == code
        first = (_xs(scale, shape.gap_first[has_cause]) * _FINE).astype(np.int64)
        last = np.maximum(
            (_xs(scale, shape.gap_last[has_cause], past=1) * _FINE).astype(np.int64) - 1, first
        )
        width = (shape.gap_last[has_cause] - shape.gap_first[has_cause]).astype(np.float64) + 1
        size = WIDE * _FINE + 2
        seqnos = np.bincount(first, width, size)
        is_gap = sums(first, last, None, size) > 0
        edges = np.flatnonzero(np.diff(np.concatenate(([False], is_gap, [False])).astype(np.int8)))
        for begin, end in edges.reshape(-1, 2).tolist():
            yield begin / _FINE, end / _FINE, w.CAUSES[code], int(seqnos[begin:end].sum())


def over_time(
    charts: Charts, *, of_bytes: bool, limit: int = 4
) -> tuple[Element, list[str]] | None:
    """Returns curves of messages or bytes over the time of the capture, stacked by command, with
    the names of the commands. Returns None if nothing was counted.
    """
    if not charts.used or not charts.commands:
        return None

    def values(command: CommandRate, of_bytes: bool = of_bytes) -> IntArray:
        return (command.bytes if of_bytes else command.messages)[: charts.used]

    shares = [
        np.array([float(values(command, kind).sum()) for command in charts.commands])
        for kind in (False, True)
    ]
    largest = np.maximum(*(share / max(1.0, float(share.sum())) for share in shares))
    # the same order in both charts, so that colours agree
    ranked = [charts.commands[position] for position in np.argsort(-largest, kind="stable")]
    layers = [
        (f"{command.name}{'' if command.side == 'request' else ' response'}", values(command))
        for command in ranked[:limit]
    ]
    if len(ranked) > limit:
        layers.append(("others", np.sum([values(command) for command in ranked[limit:]], axis=0)))
    unit = "bytes" if of_bytes else "messages"
    svg = _svg(170, f"{unit} over time, by command", kind="chart")
    total = np.sum([layer for _, layer in layers], axis=0)
    base = np.zeros(charts.used)
    edges = _edges(charts, charts.span_ns, charts.used)
    for number, (title, layer) in enumerate(layers):
        top = base + layer
        line = _area(base, top, float(total.max()) or 1.0, edges)
        area = _add(svg, "path", d=line, class_=f"fill-layer-{number}")
        _add(area, "title", f"{title}: {int(layer.sum()):,} {unit}")
        base = top
    unit = f"{unit} in {duration(charts.span_ns, is_exact=True)}"
    _frame(svg, int(total.max()), unit, charts.ends[1] - charts.ends[0])
    return svg, [title for title, _ in layers]


def windows(
    charts: Charts, findings: Sequence[Finding] = (), limit: int = 8
) -> Iterator[tuple[int, Element]]:
    """Yields a chart for each connection with a flow-control window: the bytes that were not
    acknowledged, against the window; below it, when ``findings`` about it were.
    """
    for connection, window, span_ns, values in charts.windows[:limit]:
        label = f"bytes of connection {connection} that were not acknowledged, over time"
        stalls = [finding for finding in findings if connection in finding.connections]
        svg = _svg(170 + _STALL * len(stalls[:_MOST_STALLS]), label, kind="chart")
        highest = max(window, int(values.max()), 1)
        edges = _edges(charts, span_ns, len(values))
        line = _area(np.zeros(len(values)), values.astype(float), highest, edges)
        area = _add(svg, "path", d=line, class_="fill-chart-bar")
        text = f"at most {int(values.max()):,} of {window:,} bytes"
        _add(area, "title", text)
        if values.max() * (_BOTTOM - _TOP) < _LEAST * highest:
            _add(svg, "text", text, x=_PLOT + 4, y=_BOTTOM - 6)
        _frame(svg, highest, "bytes not acknowledged", charts.ends[1] - charts.ends[0])
        y = _y(window, highest)
        _add(svg, "line", x1=_PLOT, x2=_RIGHT, y1=y, y2=y, class_="limit")
        _add(svg, "text", f"window {window:,}", x=_RIGHT, y=y - 3, class_="tick end")
        for number, finding in enumerate(stalls[:_MOST_STALLS]):
            _stall(svg, 170 + _STALL * number, finding, charts.ends)
        yield connection, svg


_LEAST = 2.0
"""Height in units below which a curve cannot be seen."""
_STALL, _MOST_STALLS = 22, 4
"""Height of a finding below a chart in units, and the greatest number of them."""


def _stall(svg: Element, top: float, finding: Finding, ends: tuple[int, int]) -> None:
    """Adds when a finding was, as a bar on the axis of time with its rule below."""
    begin_ns, length_ns = ends[0], max(1, ends[1] - ends[0])
    until_ns = ends[1] if finding.over == "open" else finding.last_time_ns
    begin, end = (
        _PLOT + (_RIGHT - _PLOT) * min(max((time_ns - begin_ns) / length_ns, 0), 1)
        for time_ns in (finding.first_time_ns, until_ns)
    )
    link = _add(svg, "a", href=f"#finding-{finding.id}")
    size = max(end - begin, 2), 5
    _box(
        link, (begin, top), size, f"fill-severity-{finding.severity}", escape_rest(finding.message)
    )
    x, kind = (begin, "") if begin < WIDE / 2 else (end, " end")
    text = f"{GLYPHS[finding.severity]} {finding.rule}"
    _add(link, "text", text, x=x, y=top + 16, class_=f"{finding.severity}{kind}")


def round_trips(charts: Charts, limit: int = 12) -> Element | None:
    """Returns a chart of how long answers took, by command: a bar for each power of two of
    nanoseconds, with the number of answers above it. None without answers.
    """
    if not charts.answers:
        return None
    drawn_answers, further = charts.answers[:limit], charts.answers[limit:]
    octaves = np.array([values for _, values in drawn_answers])
    there = np.flatnonzero(octaves.sum(axis=0))
    low, high = int(there[0]), int(there[-1])
    bottom = 34 * len(drawn_answers) + (38 if further else 18)
    svg = _svg(bottom, "how long answers took, by command", kind="chart")
    step = (_RIGHT - 220) / (high - low + 1)
    ticks = range(low, high + 1, max(1, (high - low + 1) // 8))
    for octave in (*(tick for tick in ticks if (high + 1 - tick) * step >= _APART), high + 1):
        x, kind = 220 + (octave - low) * step, "tick end" if octave > high else "tick"
        _add(svg, "text", duration(1 << octave), x=x, y=12, class_=kind)
    for number, (title, values) in enumerate(drawn_answers):
        bottom = 46 + 34 * number
        label = f"{escape(title)}: {counted(int(values.sum()), 'answer')}"
        _add(svg, "text", label, x=_LEFT, y=bottom - 4, class_="label")
        for octave in range(low, high + 1):
            count = int(values[octave])
            if count:
                height = 18 * count / int(values.max())
                corner = 220 + (octave - low) * step, bottom - height
                span = f"{duration(1 << octave)} to {duration(2 << octave)}"
                text = f"{counted(count, 'answer')} in {span}"
                _box(svg, corner, (step - 1, height), "fill-chart-bar", text)
                if step > 5 * len(f"{count:,}"):
                    label_corner = {"x": corner[0] + 1, "y": corner[1] - 1}
                    _add(svg, "text", f"{count:,}", **label_corner, class_="small")
    if further:
        text = f"and {counted(len(further), 'more command')}: 'dcpinspect stats' of the captures has them"
        _add(svg, "text", text, x=_LEFT, y=bottom + 18, class_="label")
    return svg


_APART = 100
"""Least distance of the last number of an axis from the one before it."""
_TOP, _BOTTOM = 16.0, 148.0
_PLOT = 84
"""Left edge of the curves of a chart; the numbers of its grid lines stand before it."""


def _y(value: float, highest: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * value / highest


def _frame(svg: Element, highest: int, unit: str, length_ns: int) -> None:
    """Adds grid lines and numbers to a chart. ``length_ns``: length of the capture."""
    for level in [*_round(Scale.filling(0, highest, 100), highest, 30), highest]:
        y = _y(level, highest)
        _add(svg, "line", x1=_PLOT, x2=_RIGHT, y1=y, y2=y, class_="grid")
        _add(svg, "text", f"{level:,}", x=_PLOT - 4, y=y + 3, class_="level end")
    _add(svg, "text", unit, x=_PLOT, y=_TOP - 5, class_="level")
    scale = Scale.filling(0, length_ns, 100, is_time=True)
    write = labels(scale)
    for tick in _round(scale, length_ns, 12):
        x = _PLOT + (_RIGHT - _PLOT) * tick / max(1, length_ns)
        _add(svg, "text", write(tick), x=x, y=_BOTTOM + 14, class_="tick")
    _add(svg, "text", end_of(scale, length_ns), x=_RIGHT, y=_BOTTOM + 14, class_="tick end")


def _round(scale: Scale, end: int, apart: int) -> list[int]:
    """Returns round numbers of a scale, at least ``apart`` in a hundred of the way to ``end`` from
    one to the next, and not so near to it that labels would touch.
    """
    ticks = scale.ticks(max(1, scale.columns * apart // 100))
    return [tick for tick in ticks if 8 * (tick - scale.first) < 7 * (end - scale.first)]


def _edges(charts: Charts, span_ns: int, used: int) -> npt.NDArray[np.float64]:
    """Returns where ``used`` spans begin, and the last ends, on the axis of the whole capture."""
    begin_ns, end_ns = charts.ends
    since = np.arange(used + 1) * span_ns
    edges: npt.NDArray[np.float64] = np.clip(since / max(1, end_ns - begin_ns), 0, 1)
    return _PLOT + (_RIGHT - _PLOT) * edges


def _area(
    base: npt.NDArray[np.float64],
    top: npt.NDArray[np.float64],
    highest: float,
    edges: npt.NDArray[np.float64],
) -> str:
    """Returns a path that encloses the area between two step curves. ``edges``: where each step
    begins, and the last ends.
    """
    there = [
        f"L {edges[number]:.1f} {_y(value, highest):.1f} H {edges[number + 1]:.1f}"
        for number, value in enumerate(top.tolist())
    ]
    back = [
        f"L {edges[number + 1]:.1f} {_y(base[number], highest):.1f} H {edges[number]:.1f}"
        for number in range(len(base) - 1, -1, -1)
    ]
    return " ".join([f"M {edges[0]:.1f} {_y(float(base[0]), highest):.1f}", *there, *back, "Z"])


def legend(group: str, pictures: Sequence[Element]) -> list[tuple[str, str]]:
    """Returns class and names of each colour of one group of the palette that these pictures use;
    of causes, also their letters, as some have one colour.
    """
    classes = _classes(pictures)
    alike: dict[str, list[str]] = {}
    for title, paint in PAINTS.items():
        paint_group, _, word = title.partition("-")
        if paint_group == group and f"fill-{title}" in classes:
            alike.setdefault(paint.light if group == "cause" else word, []).append(word)
    return [
        (
            f"fill-{group}-{names[0]}",
            ", ".join(f"{CAUSE_LETTERS[name]} {name}" for name in names)
            if group == "cause"
            else names[0],
        )
        for names in alike.values()
    ]


def letters(timelines: Sequence[Element]) -> list[tuple[str, str]]:
    """Returns each letter that these timelines use, with its meaning."""
    classes = _classes(timelines)
    return [(sign.glyph, sign.word) for sign in events_legend() if f"mark-{sign.glyph}" in classes]


def drawn_in(timelines: Sequence[Element]) -> list[tuple[str, str]]:
    """Returns class and meaning of what else these timelines have."""
    classes = _classes(timelines)
    return [(name, word) for name, word in _OTHER_SIGNS.items() if name in classes]


_OTHER_SIGNS = {
    "items": "items, more where it is higher",
    "history": "dashed: a snapshot with history",
    "promised": "pale: the part of a snapshot that did not come",
    "arrow": "arrow: to the seqno of the rollback",
}


def _classes(pictures: Sequence[Element]) -> set[str]:
    return {
        name
        for picture in pictures
        for element in picture.iter()
        for name in element.get("class", "").split()
    }
