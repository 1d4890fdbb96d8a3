"""Statistics of messages for people: a table for each section, and rates as lines of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dcpinspect.findings.cases import duration
from dcpinspect.output.render.sparkline import block_ns, sparkline
from dcpinspect.tables.message_statistics import SECTIONS
from dcpinspect.tables.times import day_and_time
from dcpinspect.text import aligned, cells, clip, escape, words_of, wrap

StatisticsRow = dict[str, Any]
HeadedLine = tuple[str, str]
"""Text and style."""

_LEFT = ("command", "collection", "status", "snapshots", "", "connection")
SPARKS = 64
"""Number of blocks in a line, if lines have no width."""
_BESIDE = 42
"""Width of what stands beside the blocks."""


def stats_text(rows: Sequence[StatisticsRow], *, width: int | None) -> Iterator[HeadedLine]:
    """Yields lines with styles, from rows of the table of statistics. ``width``: clips them."""
    sections: dict[str, list[StatisticsRow]] = {}
    for row in rows:
        sections.setdefault(row["section"], []).append(row)
    is_first = True
    for section in SECTIONS:
        lines = list(_section(section, sections[section], width)) if section in sections else []
        if lines and not is_first:
            yield "", ""
        is_first = is_first and not lines
        for number, line in enumerate(lines):
            yield (line if width is None else clip(line, width)), "" if number else "bold"


_TABLES = {
    "commands": (
        ("command", "", "messages", "bytes", "share", "least B", "p50 B", "p95 B", "greatest B"),
        words_of("name side count bytes share least p50 p95 greatest"),
    ),
    "collections": (
        ("collection", "messages", "bytes", "share"),
        words_of("name count bytes share"),
    ),
    "statuses": (("status", "responses", "share"), words_of("name count share")),
    "answers": (
        ("command", "answers", "least ms", "p50 ms", "p95 ms", "p99 ms", "greatest ms"),
        words_of("name count least p50 p95 p99 greatest"),
    ),
    "snapshots": (
        ("snapshots", "count", "least items", "p50 items", "p95 items", "greatest items"),
        words_of("name count least p50 p95 greatest"),
    ),
    "flow": (
        ("connection", "window bytes", "most outstanding bytes", "share"),
        words_of("connection window bytes share"),
    ),
}
"""The heading of each section that is a table, and the members of its rows."""


def _section(section: str, rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    if section == "throughput":
        return _throughput(rows, width)
    if section == "capture":
        return _capture(rows)
    if section == "flow":
        window = {row["connection"]: row["bytes"] for row in rows if row["name"] == "window"}
        rows = [
            {**row, "window": window[row["connection"]]} for row in rows if row["name"] != "window"
        ]
    heading, members = _TABLES[section]
    return _table(heading, [[_cell(row, name) for name in members] for row in rows], width)


def share_text(share: float) -> str:
    """Returns a share as one in a hundred; a small one is not written as none."""
    return "<0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def _cell(row: StatisticsRow, name: str) -> str:
    value = row[name]
    if name == "share":
        return share_text(value)
    if isinstance(value, str):
        return escape(value)
    if row.get("unit") == "ns" and name != "count":
        return f"{value / 1e6:.3f}"
    return str(value) if name == "connection" else f"{value:,}"


def _throughput(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    sparks = SPARKS if width is None else max(10, width - _BESIDE)
    span_ns = round(rows[0]["seconds"] * 1e9)
    length = block_ns(len(rows), span_ns, sparks)
    together = length // span_ns
    heading = (
        f"throughput  a block is {duration(length, is_exact=True)}, from "
        f"{day_and_time(rows[0]['time'])} UTC"
    )
    yield from wrap(heading, width, "  ")
    for name, key in (("messages", "count"), ("bytes", "bytes")):
        values = [row[key] for row in rows]
        sums = [sum(values[start : start + together]) for start in range(0, len(values), together)]
        yield f"  {name:<8}  {sparkline(sums)}  at most {max(sums):,} a block"


def _capture(rows: Sequence[StatisticsRow]) -> Iterator[str]:
    shown_rows = [
        row
        for row in rows
        if row.get("count") or row.get("bytes") or row["name"] in ("missing", "holes")
    ]
    yield "capture"
    names = [f"  {escape(row['name'])}{' bytes' if 'bytes' in row else ''}" for row in shown_rows]
    numbers = [f"{row['bytes' if 'bytes' in row else 'count']:,}" for row in shown_rows]
    for name, number in zip(names, numbers, strict=True):
        yield f"{name:<{max(map(len, names))}}  {number:>{max(map(len, numbers))}}"


def _table(
    heading: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[str]:
    # who has little room asks what is usual, and what is much
    by_importance = sorted(
        range(len(heading)), key=lambda index: (heading[index].startswith("least"), index)
    )
    columns = sorted(by_importance)
    lines = aligned([heading, *rows], _LEFT)
    while width is not None and len(columns) > 1 and max(map(cells, lines)) > width:
        columns = sorted(by_importance[: len(columns) - 1])
        lines = aligned([[row[index] for index in columns] for row in (heading, *rows)], _LEFT)
    yield from lines
    if hidden := [name for index, name in enumerate(heading) if index not in columns]:
        yield from wrap(f"not shown at this width: {', '.join(hidden)}", width, "  ")
