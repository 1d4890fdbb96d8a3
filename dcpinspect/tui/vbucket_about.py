"""Describes one vbucket in words, beside the map or below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcpinspect.escape import escape
from dcpinspect.findings.finding import ranges
from dcpinspect.render.lines import counted

_NAME = 11
"""Width of the names before the values, in columns."""


def about(number: int, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Returns a table of names and values for every client of the vbucket; a long value is wrapped in its own column."""
    title = Text(f"vb {number}", "bold")
    if not rows:
        return Group(title, Text("not requested in this capture"))
    parts: list[RenderableType] = [title]
    for row in rows:
        table = Table.grid(padding=(0, 1))
        table.add_column(width=_NAME, style="dim")
        table.add_column(ratio=1)
        for name, text in _known(row):
            table.add_row(Text(name), Text(text))
        parts += [table, Text("")]
    return Group(*parts)


def about_in_short(number: int, rows: Sequence[Mapping[str, Any]]) -> Text:
    """Returns the same facts as ``about`` in little room: one line per client, without values that are "none"."""
    out = Text(f"vb {number}", "bold")
    if not rows:
        return out + Text(" · not requested in this capture", "not bold")
    for place, row in enumerate(rows):
        known = " · ".join(
            text if name in ("client", "state", "received") else f"{name} {text}" for name, text in _known(row) if text != "none"
        )
        out.append(f"{' · ' if place == 0 else chr(10)}{known}", "not bold")
    return out


def _known(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the names and values that describe a vbucket for one client."""
    found = ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for word, count in (row["findings"] or {}).items() if count)
    behind = f", server has {row['high_seqno']:,}" if row["high_seqno"] is not None else ""
    yield "client", escape(row["client"] or "")
    yield "state", row["verdict"].replace("-", " ")
    yield "connections", ranges(row["connections"])
    yield "streams", f"{row['streams']}, {row['rollbacks']} rolled back"
    yield "seqnos", "none" if row["last_seqno"] is None else f"{row['first_seqno']}–{row['last_seqno']}{behind}"
    yield "received", f"{counted(row['items'], 'item')}, {row['bytes']:,} bytes"
    yield "snapshots", f"{row['snapshots']:,}"
    yield "gaps", ", ".join(f"{count:,} {cause}" for cause, count in (row["gaps"] or {}).items() if count) or "none"
    yield "findings", found or "none"
