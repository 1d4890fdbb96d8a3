"""Messages and bytes over time: one line per span of time, then a chart for each command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.findings.cases import duration
from dcpinspect.output.render.message_lines import seconds_text
from dcpinspect.output.render.sparkline import block_ns, sparkline
from dcpinspect.tables.record_tables import Records
from dcpinspect.tables.times import day_and_time
from dcpinspect.text import cells, clip, counted, escape, wrap

COMMANDS = 4
"""Number of commands that have a column if lines have no width; other commands are only in the sums.
"""
CHARTS = 12
"""Number of commands that have a chart, and greatest number of those that have a column."""
NAMED = 6
"""Number of commands that are named among those left out."""
SPARKS = 60
"""Number of blocks of a chart, if lines have no width."""
LABEL, _BESIDE = 30, 32
"""Greatest width of the names beside charts, and width of the other texts beside them."""
WIDE = 100
"""Least width of lines that name the unit behind each chart, and not only above all."""
_BEFORE = 41
"""Width of the columns before those of commands."""
BAR = 20
"""Least width of a bar, and its width if lines have none."""
MOST_LINES = 2_000

StyledText = tuple[str, str]
"""Text and style."""


def io_lines(
    records: Records, interval_ns: int, *, width: int | None, end_ns: int | None = None
) -> Iterator[StyledText]:
    """Yields the lines of a table of ``IO``. ``width``: clips the lines. ``end_ns``: time of the
    last packet of the capture, if messages up to there were asked for.
    """
    for text, style in _lines(records, interval_ns, width, end_ns):
        yield (text if width is None else clip(text, width)), style


def _lines(
    records: Records, interval_ns: int, width: int | None, end_ns: int | None
) -> Iterator[StyledText]:
    if not len(records):
        return
    names = list(zip(records.values("name"), records.values("side"), strict=True))
    relative = np.array(records.values("relative_ns"), dtype=np.int64)
    messages, sizes = (
        np.array(records.values(name), dtype=np.int64) for name in ("messages", "bytes")
    )
    spans = relative // interval_ns
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for name, count in zip(names, messages.tolist(), strict=True):
        totals[name] += count
    most = sorted(totals, key=lambda name: (-totals[name], name))
    first = records.values("time")[0] - int(relative[0])
    yield f"from {day_and_time(first)} UTC, a row is {duration(interval_ns, is_exact=True)}", ""
    labels = {name: _label(name) for name in most[:CHARTS]}
    heads = dict(islice(labels.items(), COMMANDS if width is None else CHARTS))
    bar = BAR
    if width is not None:
        while heads and _BEFORE + sum(cells(head) + 2 for head in heads.values()) + BAR > width:
            heads.popitem()
        bar = max(1, width - _BEFORE - sum(cells(head) + 2 for head in heads.values()))
    titles = [f"{'time s':>14}", f"{'messages':>9}", f"{'bytes':>12}", *heads.values(), "messages"]
    yield "  ".join(titles), "bold"
    yield from (
        (line, "") for line in _rows(spans, messages, sizes, names, heads, interval_ns, bar)
    )
    last_span = int(spans.max())
    silent_ns = 0 if end_ns is None else end_ns - first - (last_span + 1) * interval_ns
    if silent_ns > 0:
        last_span += -(-silent_ns // interval_ns)
        silence = duration(silent_ns, is_exact=True)
        yield f"{'…':>14}  nothing for {silence}, to the end of the capture", ""
    if len(heads) < len(most):
        yield from _left_out(most[len(heads) :], "in the sums", width)
    yield "", ""
    yield from _charts(names, labels, spans, last_span, (messages, sizes), interval_ns, width)
    if len(most) > CHARTS:
        yield from _left_out(most[CHARTS:], "without a chart", width)


def _left_out(
    names: Sequence[tuple[str, str]], where: str, width: int | None
) -> Iterator[StyledText]:
    """Yields how many commands are left out, and which, as far as there is room: the most frequent
    first.
    """
    labels = [_label(name) for name in names]
    shown = labels[:NAMED] + [f"and {len(labels) - NAMED} more"] * (len(labels) > NAMED)
    sides = {side for _, side in names}
    noun = f"more {'command' if sides == {'request'} else 'response'}"
    if len(sides) > 1:
        noun = "more commands and response"
    text = f"{counted(len(labels), noun)} {where}: {', '.join(shown)}"
    yield from ((line, "dim") for line in wrap(f"{text}; --format csv has all", width, "    "))


def _label(name: tuple[str, str]) -> str:
    """Returns what stands for a command and a side of it."""
    return f"{escape(name[0])}{'' if name[1] == 'request' else ' response'}"


def _charts(
    names: Sequence[tuple[str, str]],
    labels: Mapping[tuple[str, str], str],
    spans: IntArray,
    last_span: int,
    counts: tuple[IntArray, IntArray],
    interval_ns: int,
    width: int | None,
) -> Iterator[StyledText]:
    """Yields the charts of the most frequent commands, up to the end of the capture in
    ``last_span``. ``labels``: what stands beside them. ``counts``: messages and bytes of rows.
    """
    widest = min(LABEL, max(map(cells, labels.values())))
    beside = widest if width is None else max(10, min(widest, width - 42))
    per_block = " a block" if width is None or width >= WIDE else ""
    sparks = SPARKS if width is None else max(10, width - beside - _BESIDE - len(per_block))
    low = int(spans.min())
    length = block_ns(last_span - low + 1, interval_ns, sparks)
    together = length // interval_ns
    blocks = -(-(last_span - low + 1) // together)
    wide = max(1, sparks // blocks)  # columns of a block
    yield (
        f"a block{f' of {wide} columns' if wide > 1 else ''} is "
        f"{duration(length, is_exact=True)}, from "
        f"{duration(low * interval_ns, is_exact=True) if low > 0 else 0} on",
        "bold",
    )
    for name, label in labels.items():
        command_rows = [row for row, row_name in enumerate(names) if row_name == name]
        for unit, values in zip(("messages", "bytes"), counts, strict=True):
            chart = np.zeros(blocks, np.int64)
            np.add.at(chart, (spans[command_rows] - low) // together, values[command_rows])
            line = sparkline(chart.repeat(wide).tolist())
            yield (
                f"{clip(label if unit == 'messages' else '', beside):<{beside}} {unit:<8}  {line}  "
                f"at most {int(chart.max()):,}{per_block}",
                "",
            )


def _rows(
    spans: IntArray,
    messages: IntArray,
    sizes: IntArray,
    names: Sequence[tuple[str, str]],
    heads: Mapping[tuple[str, str], str],
    interval_ns: int,
    bar_width: int,
) -> Iterator[str]:
    """Yields the rows. ``heads``: what stands above the columns of commands that have one."""
    column = {name: index for index, name in enumerate(heads)}
    numbers, row_span = np.unique(spans, return_inverse=True)
    counts, bytes_ = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
    np.add.at(counts, row_span, messages)
    np.add.at(bytes_, row_span, sizes)
    cells_ = np.zeros((len(numbers), len(heads)), np.int64)
    for span_index, name, count in zip(row_span.tolist(), names, messages.tolist(), strict=True):
        if name in column:
            cells_[span_index, column[name]] += count
    before = None
    for span_index, number in enumerate(numbers.tolist()[:MOST_LINES]):
        if before is not None and number > before + 1:
            yield f"{'…':>14}  nothing for {duration((number - before - 1) * interval_ns, is_exact=True)}"
        before = number
        bar = "█" * max(1, int(bar_width * counts[span_index] // counts.max()))
        command_counts = [
            f"{count:>{cells(head)},}"
            for count, head in zip(cells_[span_index].tolist(), heads.values(), strict=True)
        ]
        yield "  ".join(
            [
                f"{seconds_text(number * interval_ns):>14}",
                f"{counts[span_index]:>9,}",
                f"{bytes_[span_index]:>12,}",
                *command_counts,
                bar,
            ]
        )
    if len(numbers) > MOST_LINES:
        yield (
            f"and {len(numbers) - MOST_LINES:,} more rows; take a longer --interval, or --format "
            "csv"
        )
