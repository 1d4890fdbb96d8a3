"""Statistics of messages for people: a table for each section, and rates as lines of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dcpinspect.output.render.sparkline import sparkline
from dcpinspect.tables.record_tables import time_text
from dcpinspect.text import cells, clip, escape

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
    for section, make in _MAKERS.items():
        lines = list(make(sections[section], width)) if section in sections else []
        if lines and not is_first:
            yield "", ""
        is_first = is_first and not lines
        for number, line in enumerate(lines):
            yield (line if width is None else clip(line, width)), "" if number else "bold"


def _commands(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    yield from _table(
        ("command", "", "messages", "bytes", "share", "least B", "p50 B", "p95 B", "greatest B"),
        [
            (
                *(
                    escape(row["name"]),
                    row["side"],
                    _integer(row["count"]),
                    _integer(row["bytes"]),
                    _percent(row["share"]),
                ),
                *(_integer(row[name]) for name in ("least", "p50", "p95", "greatest")),
            )
            for row in rows
        ],
        width,
    )


def _collections(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    yield from _table(
        ("collection", "messages", "bytes", "share"),
        [
            (
                escape(row["name"]),
                _integer(row["count"]),
                _integer(row["bytes"]),
                _percent(row["share"]),
            )
            for row in rows
        ],
        width,
    )


def _statuses(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    yield from _table(
        ("status", "responses", "share"),
        [(escape(row["name"]), _integer(row["count"]), _percent(row["share"])) for row in rows],
        width,
    )


def _answers(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    yield from _table(
        ("command", "answers", "least ms", "p50 ms", "p95 ms", "p99 ms", "greatest ms"),
        [
            (
                escape(row["name"]),
                _integer(row["count"]),
                *(f"{row[name] / 1e6:.3f}" for name in ("least", "p50", "p95", "p99", "greatest")),
            )
            for row in rows
        ],
        width,
    )


def _throughput(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    sparks = SPARKS if width is None else max(10, width - _BESIDE)
    together = max(1, -(-len(rows) // sparks))
    span = rows[0]["seconds"] * together
    yield f"throughput  from {time_text(rows[0]['time'])}, a block is {span:g} s"
    for name, key in (("messages", "count"), ("bytes", "bytes")):
        values = [row[key] for row in rows]
        most = max(
            sum(values[start : start + together]) for start in range(0, len(values), together)
        )
        yield f"  {name:<8}  {sparkline(values, sparks)}  at most {most / span:,.0f} a second"


def _snapshots(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    yield from _table(
        ("snapshots", "count", "least items", "p50 items", "p95 items", "greatest items"),
        [
            (
                row["name"],
                _integer(row["count"]),
                *(_integer(row[name]) for name in ("least", "p50", "p95", "greatest")),
            )
            for row in rows
        ],
        width,
    )


def _flow(rows: Sequence[StatisticsRow], width: int | None) -> Iterator[str]:
    window = {row["connection"]: row["bytes"] for row in rows if row["name"] == "window"}
    most = [row for row in rows if row["name"] != "window"]
    yield from _table(
        ("connection", "window bytes", "most outstanding bytes", "share"),
        [
            (
                str(row["connection"]),
                _integer(window[row["connection"]]),
                _integer(row["bytes"]),
                _percent(row["share"]),
            )
            for row in most
        ],
        width,
    )


def _capture(rows: Sequence[StatisticsRow], _: int | None) -> Iterator[str]:
    told_rows = [
        row
        for row in rows
        if row.get("count") or row.get("bytes") or row["name"] in ("missing", "holes")
    ]
    unit = {True: "bytes", False: ""}
    yield "capture"
    names = [f"  {escape(row['name'])} {unit['bytes' in row]}".rstrip() for row in told_rows]
    numbers = [_integer(row["bytes"] if "bytes" in row else row["count"]) for row in told_rows]
    for name, number in zip(names, numbers, strict=True):
        yield f"{name:<{max(map(len, names))}}  {number:>{max(map(len, numbers))}}"


_MAKERS = {
    "commands": _commands,
    "collections": _collections,
    "statuses": _statuses,
    "answers": _answers,
    "throughput": _throughput,
    "snapshots": _snapshots,
    "flow": _flow,
    "capture": _capture,
}


def _table(
    heading: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[str]:
    widths = [max(map(cells, column)) for column in zip(heading, *rows, strict=True)]
    column_count = len(heading)
    while (
        width is not None
        and column_count > 1
        and sum(widths[:column_count]) + 2 * (column_count - 1) > width
    ):
        column_count -= 1
    for row in (heading, *rows):
        padded = []
        for name, text, wide in zip(heading[:column_count], row, widths, strict=False):
            padding = " " * (wide - cells(text))
            padded.append(text + padding if name in _LEFT else padding + text)
        yield "  ".join(padded).rstrip()
    if column_count < len(heading):
        yield f"not shown in this width: {', '.join(heading[column_count:])}"


def _integer(number: int) -> str:
    return f"{number:,}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
