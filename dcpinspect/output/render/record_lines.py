"""Tables of records for people: the most important columns that fit the width, and the others below
each row on request.

A sentence is never cut: where it does not fit, it stands below its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dcpinspect.output.render.message_lines import counted
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.output.render.table import MEASURED, TextTable, cell_texts
from dcpinspect.text import cells, wrap

StyledLine = tuple[str, str]
"""Text and style."""
CellPaint = Callable[[str, str], str]
SENTENCES = ("evidence", "explanation")
"""Columns, always the last of their table, that are sentences."""
_INDENT = "    "
_GROUPS = {
    "verdict": ("verdict",),
    "answer": ("verdict",),
    "cause": ("cause",),
    "findings": ("severity",),
}
"""Groups of the palette by the columns whose words they colour."""
_QUIET = frozenset({"0", "ended", "closed", "ok", "complete", "accepted"})
"""Words and numbers that mean that there is nothing to see."""
_LOUD = {
    "refused": "bright_red",
    "rollback": "magenta",
    "unanswered": "bright_red",
    "cut": "yellow",
    "open": "yellow",
}
"""Colours of words that the palette has under another name."""


def style_of(name: str, text: str) -> str:
    """Returns the style of a table's cell, by its column and what it says; empty: the usual."""
    word = text.partition(" ")[0].strip(",")
    if text in _QUIET:
        return "dim"
    for group in _GROUPS.get(name, ()):
        if (paint := PAINTS.get(f"{group}-{word}")) is not None:
            return paint.text
    return _LOUD.get(text, "") if name in ("answer", "state") else ""


def record_lines(
    table: Any,
    first: Sequence[str],
    *,
    width: int | None,
    is_folded: bool = False,
    paint: CellPaint | None = None,
) -> Iterator[StyledLine]:
    """Yields the lines of an Arrow table: heading and rows. ``first``: the most important columns,
    the most important one first.

    ``width``: of lines; None keeps all columns in their lines. ``is_folded``: puts columns that do
    not fit below each row. ``paint``: colours cells.
    """
    names = table.schema.names
    shown_columns = names if width is None else _fitting(table, first, width)
    hidden_columns = [name for name in names if name not in shown_columns]
    sentence = hidden_columns.pop() if hidden_columns and hidden_columns[-1] in SENTENCES else None
    style = None if paint is None else lambda name, text: paint(text, style_of(name, text.strip()))
    text = TextTable(table.select(shown_columns).schema, width=width, has_escapes=True, style=style)
    lines = _all_lines(text, table.select(shown_columns))
    heading = next(lines)
    yield heading, "bold"
    folded = (
        _below(table.select(hidden_columns), width or 0) if is_folded and hidden_columns else None
    )
    sentences = iter(
        ()
        if sentence is None
        else cell_texts(table.column(sentence).combine_chunks(), sentence, has_escapes=True)
    )
    for line in lines:
        yield line, ""
        sentence_text = next(sentences, "")
        yield from (
            (below, "")
            for below in (wrap(_INDENT + sentence_text, width, _INDENT) if sentence_text else ())
        )
        if folded is not None:
            yield from ((below, "dim") for below in next(folded))
    if hidden_columns and not is_folded:
        yield f"{counted(len(hidden_columns), 'more column')}: -v", "dim"


def _all_lines(text: TextTable, table: Any) -> Iterator[str]:
    for batch in table.to_batches():
        yield from text.lines(batch)
    yield from text.end()


def _fitting(table: Any, first: Sequence[str], width: int) -> list[str]:
    """Returns the shown columns in the table's order: the most important ones that fit."""
    widths = TextTable.natural_widths(table.slice(0, MEASURED), width)
    names: list[str] = table.schema.names
    free_width, fitting = width + 2, set[str]()
    matters = [name for name in first if name in widths]
    for index, name in enumerate(dict.fromkeys((*matters, *names))):
        if index >= len(matters) and not fitting.issuperset(matters):
            break  # a less important column does not replace one that does not fit
        needed = widths[name] + 2
        if needed <= free_width:
            fitting.add(name)
            free_width -= needed
        elif name in SENTENCES:
            matters = [important for important in matters if important != name]
        elif not fitting:
            return [name]
    return [name for name in names if name in fitting]


def _below(table: Any, width: int) -> Iterator[list[str]]:
    """Yields, for each row, its other values with names, in lines within ``width`` if possible."""
    columns = [
        cell_texts(column.combine_chunks(), name, has_escapes=True)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    ]
    for row in zip(*columns, strict=True):
        lines, line = list[str](), ""
        for name, value in zip(table.schema.names, row, strict=True):
            piece = f"{name} {value}"
            if not value:
                continue
            if line and cells(line) + 3 + cells(piece) > width - len(_INDENT):
                lines += wrap(line, width - len(_INDENT))
                line = piece
            else:
                line = f"{line} · {piece}" if line else piece
        yield [
            _INDENT + piece_line
            for piece_line in (*lines, *(wrap(line, width - len(_INDENT)) if line else ()))
        ]
