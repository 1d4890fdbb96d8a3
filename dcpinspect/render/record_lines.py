"""Tables of records for people: the most important columns that fit the width, and the others below each row on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dcpinspect.escape import cells
from dcpinspect.render.lines import counted
from dcpinspect.render.table import MEASURED, TextTable, cell_texts

Line = tuple[str, str]
"""Text and style."""
NARROWEST = 32
"""Least width, in columns, to which the last column, a sentence, may be cut."""
_INDENT = "    "


def record_lines(table: Any, first: Sequence[str], *, width: int | None, is_folded: bool = False) -> Iterator[Line]:
    """Yields the lines of an Arrow table: heading and rows. ``first``: the most important columns, the most important one first.

    ``width``: cuts lines; None keeps all columns in their lines. ``is_folded``: puts columns that do not fit below each row.
    """
    names = table.schema.names
    shown = names if width is None else _fitting(table, first, width)
    left = [name for name in names if name not in shown]
    text = TextTable(table.select(shown).schema, width=width, has_escapes=True)
    lines = _all_lines(text, table.select(shown))
    heading = next(lines)
    yield heading, "bold"
    folded = _below(table.select(left), width or 0) if is_folded and left else None
    for line in lines:
        yield line, ""
        if folded is not None:
            yield from ((below, "dim") for below in next(folded))
    if left and not is_folded:
        yield f"{counted(len(left), 'more column')}: -v", "dim"


def _all_lines(text: TextTable, table: Any) -> Iterator[str]:
    for batch in table.to_batches():
        yield from text.lines(batch)
    yield from text.end()


def _fitting(table: Any, first: Sequence[str], width: int) -> list[str]:
    """Returns the shown columns in the table's order: the most important ones, as long as they fit; a sentence may be cut."""
    widths = TextTable.natural_widths(table.slice(0, MEASURED))
    names: list[str] = table.schema.names
    room, chosen = width + 2, set[str]()
    matters = [name for name in first if name in widths]
    for place, name in enumerate(dict.fromkeys((*matters, *names))):
        if place >= len(matters) and not chosen.issuperset(matters):
            break  # a less important column does not replace one that does not fit
        needed = widths[name] + 2
        if needed > room and name == names[-1] and room >= NARROWEST + 2:
            needed = room
        if needed <= room:
            chosen.add(name)
            room -= needed
        elif not chosen:
            return [name]
    return [name for name in names if name in chosen]


def _below(table: Any, width: int) -> Iterator[list[str]]:
    """Yields, for each row, its other values with their names, in lines that fit ``width`` if possible."""
    columns = [
        cell_texts(column.combine_chunks(), name, has_escapes=True) for name, column in zip(table.schema.names, table.columns, strict=True)
    ]
    for row in zip(*columns, strict=True):
        lines, line = list[str](), ""
        for name, value in zip(table.schema.names, row, strict=True):
            piece = f"{name} {value}"
            if not value:
                continue
            if line and cells(line) + 3 + cells(piece) > width - len(_INDENT):
                lines += _wrapped(line, width - len(_INDENT))
                line = piece
            else:
                line = f"{line} · {piece}" if line else piece
        yield [_INDENT + one for one in (*lines, *_wrapped(line, width - len(_INDENT)))]


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield line
