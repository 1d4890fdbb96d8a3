"""Tables for people: aligned columns under a heading, the most important ones where not all fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.output.render.glossary import CONVENTION_TEXTS
from dcpinspect.output.render.palette import GLYPHS, PAINTS
from dcpinspect.text import cells, clip, counted, escape, escape_rest, wrap

Safe = Callable[[str], str]
"""Returns a text in a form that is safe to print."""

RowPaint = Callable[[Sequence[str], Sequence[str]], Iterable[str]]
"""Colours the padded cells of a row, given the names of all columns."""

MEASURED = 1000
"""Number of rows from which the widths of the columns are taken."""
WIDEST = 60
"""Greatest width of a column that is not the last, in terminal columns; where not all columns fit,
it is a third of a line at most. Longer texts are cut where lines have a width, and elsewhere push the
rest of their line to the right.
"""
NO_END = {"requested_end": "no end"}
"""Name of the greatest number of 64 bits in these columns."""
NARROWEST = 20
"""Least width, in columns, to which a column of texts is cut; with less it is left out."""
PLANS = ("explain_value", "plan")
"""Names, in DuckDB and Spark, of the column with the answer to ``explain``. Its text has several
lines; nobody else chooses such names.
"""
_NOT_PLAIN = r"[^ -\[\]-~–]"
"""Matches characters that ``escape`` may change, or that may not be one column wide. Ranges have
dashes.
"""


class TextTable:
    """Makes a table's lines. Widths follow from its first rows, so any number can follow."""

    def __init__(
        self,
        schema: Any,
        *,
        width: int | None = None,
        has_escapes: bool = False,
        is_tall: bool = False,
        paint_row: RowPaint | None = None,
    ) -> None:
        """``width``: of lines; columns that do not fit are left out. ``has_escapes``: texts have
        escapes for bytes that are not UTF-8.

        ``is_tall``: names that are wider than their columns take several lines.
        """
        self._paint_row, self._is_tall = paint_row, is_tall
        self._safe = escape_rest if has_escapes else escape
        self._names = [escape(name) for name in schema.names]
        self._kinds = schema.types
        self._right = [_is_number(kind) for kind in schema.types]
        self._is_plan = pa.string() in schema.types[-1:] and schema.names[-1] in PLANS
        self._width = width
        self._widths: list[int] = []
        self._waiting: list[list[Any]] = []
        self._rows = 0
        self.left_out = 0
        """Number of columns at the end that are left out; known once there are lines."""
        self.headings = 0
        """Number of lines of the heading; known once there are lines."""

    @staticmethod
    def natural_widths(
        table: Any, width: int | None = None, *, is_tall: bool = False
    ) -> dict[str, int]:
        """Returns the width of each column of an Arrow table in terminal columns, by name; at most
        ``WIDEST``, except for the last column. ``width`` and ``is_tall``: as of a table.
        """
        widths = {}
        for name, texts in zip(table.schema.names, table_texts(table), strict=True):
            widest = max(map(cells, texts), default=0)
            limit = WIDEST if name != table.schema.names[-1] else widest
            widths[name] = max(_least_width(escape(name), is_tall=is_tall), min(limit, widest))
        if width is None:
            return widths
        kinds = table.schema.types
        return dict(zip(widths, _capped(list(widths.values()), kinds, width), strict=True))

    def lines(self, batch: Any) -> Iterator[str]:
        """Yields the lines that are complete after these rows of a record batch."""
        if self._is_plan:
            batch = _with_lines(batch)
        self._waiting.append(
            [
                _texts(column, self._safe, name)
                for column, name in zip(batch.columns, batch.schema.names, strict=True)
            ]
        )
        self._rows += batch.num_rows
        if self._widths or self._rows >= MEASURED:
            yield from self.end()

    def end(self) -> Iterator[str]:
        """Yields the remaining lines after the last row, at least the heading."""
        if not self._widths:
            columns_waiting = (
                zip(*self._waiting, strict=True) if self._waiting else [()] * len(self._names)
            )
            self._widths = [
                min(
                    WIDEST,
                    max([_least_width(name, is_tall=self._is_tall), *map(_widest, column)]),
                )
                for name, column in zip(self._names, columns_waiting, strict=True)
            ]
            if self._width is not None:
                self._widths = _capped(self._widths, self._kinds, self._width)
            self.left_out = len(self._names) - self._fitting()
            named = [
                _heading(name, width) if self._is_tall else [name]
                for name, width in zip(self._names, self._widths, strict=True)
            ]
            self.headings = max(map(len, named), default=1)
            yield from self._lines(
                [pa.array([""] * (self.headings - len(lines)) + lines) for lines in named], None
            )
        for columns in self._waiting:
            yield from self._lines(columns, self._paint_row)
        self._waiting = []

    def _fitting(self) -> int:
        """Returns how many columns fit the width; numbers are never cut, texts may be."""
        begin = 0
        for index, (width, is_right) in enumerate(zip(self._widths, self._right, strict=True)):
            needed = width if is_right else min(width, NARROWEST)
            if self._width is not None and index and begin + needed > self._width:
                return index
            begin += width + 2
        return len(self._widths)

    def _lines(self, columns: list[Any], paint_row: RowPaint | None) -> list[str]:
        if self._width is not None:
            last = len(columns) - self.left_out - 1
            columns = [
                *(
                    _cut(column, width)
                    for column, width in zip(columns[:last], self._widths, strict=False)
                ),
                *columns[last:],
            ]
        visible_columns = zip(
            columns[: len(columns) - self.left_out], self._widths, self._right, strict=False
        )
        padded = [
            _padded(column, width, is_right=is_right) for column, width, is_right in visible_columns
        ]
        if paint_row is not None:
            rows = zip(*(column.to_pylist() for column in padded), strict=True)
            return ["  ".join(paint_row(self._names, row)).rstrip() for row in rows]
        lines = pc.utf8_rtrim(pc.binary_join_element_wise(*padded, "  "), " ")
        if self._width is None:
            return list(lines.to_pylist())
        return [
            line
            if len(line) <= self._width and line.replace("–", "-").isascii()
            else clip(line, self._width)
            for line in lines.to_pylist()
        ]


def _with_lines(batch: Any) -> Any:
    """Returns the batch with a row a line of its last column; others stand beside the first."""
    texts = [(text or "").rstrip("\n").split("\n") for text in batch.columns[-1].to_pylist()]
    first = pa.array(
        [
            None if number else row
            for row, lines in enumerate(texts)
            for number in range(len(lines))
        ],
        pa.int64(),
    )
    columns = [column.take(first) for column in batch.columns[:-1]]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([line for lines in texts for line in lines], pa.string())],
        batch.schema.names,
    )


def _least_width(name: str, *, is_tall: bool) -> int:
    """Returns the width that the name of a column needs."""
    return max(map(cells, name.split("_"))) if is_tall else cells(name)


def _heading(name: str, width: int) -> list[str]:
    """Returns the lines of a name in a column of this width, parted at its underscores."""
    first_word, *words = name.split("_")
    lines = [first_word]
    for word in words:
        if cells(f"{lines[-1]}_{word}") > width:
            lines.append(word)
        else:
            lines[-1] += f"_{word}"
    return lines


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_plain(texts: Any) -> bool:
    """Whether every character of the texts is one column wide, and safe."""
    return not pc.any(pc.match_substring_regex(texts, _NOT_PLAIN)).as_py()


def _widest(texts: Any) -> int:
    if _is_plain(texts):
        return pc.max(pc.utf8_length(texts)).as_py() or 0
    return max(map(cells, texts.to_pylist()))


def _capped(widths: list[int], kinds: Sequence[Any], width: int) -> list[int]:
    """Returns widths of columns; if not all fit, no text but the last is wider than a third of it.
    Counts by their names, and times, are never cut.
    """
    if sum(widths) + 2 * (len(widths) - 1) <= width:
        return widths
    most = max(NARROWEST, width // 3)
    return [
        *(
            column_width
            if pa.types.is_nested(kind) or pa.types.is_timestamp(kind)
            else min(column_width, most)
            for column_width, kind in zip(widths[:-1], kinds, strict=False)
        ),
        widths[-1],
    ]


def _cut(texts: Any, width: int) -> Any:
    """Returns the texts, those that are too long cut."""
    if _widest(texts) <= width:
        return texts
    return pa.array([clip(text, width) for text in texts.to_pylist()], pa.string())


def _padded(texts: Any, width: int, *, is_right: bool) -> Any:
    if _is_plain(texts):
        return pc.utf8_lpad(texts, width) if is_right else pc.utf8_rpad(texts, width)
    padded = ((text, " " * (width - cells(text))) for text in texts.to_pylist())
    return pa.array(
        [padding + text if is_right else text + padding for text, padding in padded], pa.string()
    )


def table_texts(table: Any) -> list[list[str]]:
    """Returns the text of each value of a table of records, column by column."""
    return [
        cell_texts(column.combine_chunks(), name)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    ]


def cell_texts(column: Any, name: str) -> list[str]:
    """Returns the text of each value of a column of records."""
    texts: list[str] = _texts(column, escape_rest, name).to_pylist()
    return texts


def _texts(column: Any, safe: Safe, name: str) -> Any:
    """Returns the text of each value as an Arrow array; empty for null."""
    from dcpinspect.output.export.json_table import rfc3339

    if pa.types.is_timestamp(column.type):
        return pc.fill_null(rfc3339(column), "")
    if pa.types.is_integer(column.type):
        texts = pc.fill_null(column.cast(pa.string()), "")
        if name in NO_END:
            return pc.replace_substring_regex(texts, f"^{2**64 - 1}$", NO_END[name])
        return texts
    if name == "convention" and pa.types.is_string(column.type):
        words = pa.array([*CONVENTION_TEXTS])
        texts = pa.array([*CONVENTION_TEXTS.values()]).take(pc.index_in(column, words))
        column = pc.coalesce(texts, column)
    if name == "findings" and pa.types.is_map(column.type):
        return pa.array([_signs(counts or ()) for counts in column.to_pylist()], pa.string())
    if pa.types.is_string(column.type) and _is_plain(column):
        return pc.fill_null(column, "")
    return pa.array(
        ["" if value is None else _text(value, safe) for value in column.to_pylist()], pa.string()
    )


def _signs(counts: Iterable[tuple[str, int]]) -> str:
    """Returns numbers of findings, each with the sign of its severity."""
    return " ".join(f"{GLYPHS[level]} {count}" for level, count in counts if count)


def _text(value: Any, safe: Safe) -> str:
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, tuple) and value[1] == 0:
        return ""
    if isinstance(value, tuple):  # an entry of a map
        return " ".join("" if item is None else _text(item, safe) for item in value)
    if isinstance(value, list):
        texts = ["" if item is None else _text(item, safe) for item in value]
        # zero counts are left out
        return ", ".join(
            text
            for item, text in zip(value, texts, strict=True)
            if text or not isinstance(item, tuple)
        )
    if isinstance(value, dict):
        return " ".join(
            f"{safe(str(name))}={'' if item is None else _text(item, safe)}"
            for name, item in value.items()
        )
    return safe(str(value))


StyledLine = tuple[str, str]
"""Text and style."""
CellPaint = Callable[[str, str], str]
SENTENCES = ("evidence", "explanation", "reason")
"""Columns, always the last of their table, that are sentences."""
_OF_STREAM = ("connection", "vbucket", "stream", "sid", "file")
"""Columns that name a stream, whose rows may have one sentence many times; not all have the last
two.
"""
_INDENT = "    "
_GROUPS = {
    "verdict": ("verdict",),
    "before_end": ("verdict",),
    "answer": ("verdict",),
    "cause": ("cause",),
}
"""Groups of the palette by the columns whose words they colour."""
_QUIET = frozenset({"0", "ended", "closed", "ok", "complete", "accepted", "success"})
"""Words and numbers that mean that there is nothing to see."""
_NUMBERED = re.compile(r"vbucket$|sid$|seqno$|start$|end$")
"""Columns in which 0 is a number as all others, and not a count of nothing."""
_LOUD = {
    "refused": "bright_red",
    "rollback": "magenta",
    "unanswered": "bright_red",
    "cut": "yellow",
    "open": "yellow",
}
"""Colours of words that the palette has under another name."""


_OF_SIGNS = {sign: PAINTS[f"severity-{level}"].text for level, sign in GLYPHS.items()}
"""Colours of signs of severities; the first one in a cell is the worst."""


def style_of(name: str, text: str) -> str:
    """Returns the style of a table's cell, by its column and what it says; empty: the usual."""
    word = text.partition(" ")[0].strip(",")
    if name == "findings":
        return _OF_SIGNS.get(word, "")
    if text in _QUIET and not (text == "0" and _NUMBERED.search(name)):
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
    """Yields the lines of an Arrow table: heading and rows. A sentence is never cut: where it does
    not fit, it stands below its row. ``first``: the most important columns, the most important one
    first.

    ``width``: of lines; None keeps all columns in their lines. ``is_folded``: puts columns that do
    not fit below each row. ``paint``: colours cells.
    """
    names = table.schema.names
    is_tall = width is not None and not _fits(
        TextTable.natural_widths(table.slice(0, MEASURED)), width
    )
    shown_columns = names if width is None else _fitting(table, first, width, is_tall=is_tall)
    hidden_columns = [name for name in names if name not in shown_columns]
    sentence = hidden_columns.pop() if hidden_columns and hidden_columns[-1] in SENTENCES else None

    def paint_row(names: Sequence[str], row: Sequence[str]) -> Iterator[str]:
        assert paint is not None
        findings = dict(zip(names, row, strict=False)).get("findings")
        bad = (
            "" if not findings or findings[0] == GLYPHS["note"] else style_of("findings", findings)
        )
        for name, text in zip(names, row, strict=False):
            style = style_of(name, text.strip())
            # what findings say counts for more than how something is
            is_red = style == _OF_SIGNS[GLYPHS["error"]]
            if findings is not None and name in ("verdict", "answer"):
                style = bad if is_red or (bad and name == "verdict") else style
            yield paint(text, style)

    text = TextTable(
        table.select(shown_columns).schema,
        width=width,
        has_escapes=True,
        is_tall=is_tall,
        paint_row=None if paint is None else paint_row,
    )
    lines = _all_lines(text, table.select(shown_columns))
    first_heading = next(lines)
    yield from ((line, "bold") for line in (first_heading, *islice(lines, text.headings - 1)))
    folded = (
        _below(table.select(hidden_columns), width or 0) if is_folded and hidden_columns else None
    )
    texts = (
        [] if sentence is None else cell_texts(table.column(sentence).combine_chunks(), sentence)
    )
    is_said_once = sentence is not None and not is_folded and set(_OF_STREAM[:3]) <= set(names)
    if is_said_once:
        of_stream = [name for name in _OF_STREAM if name in names]
        texts = _without_repetition(texts, table.select(of_stream))
    sentences = iter(texts)
    for line in lines:
        yield line, ""
        sentence_text = next(sentences, "")
        yield from (
            (below, "")
            for below in (wrap(_INDENT + sentence_text, width, _INDENT) if sentence_text else ())
        )
        if folded is not None:
            yield from ((below, "dim") for below in next(folded))
    if is_said_once and len(texts) > 1 and not all(texts):
        yield f"a row without {sentence} has that of its stream's row before: -v", "dim"
    if hidden_columns and table.num_rows and not is_folded:
        yield f"{counted(len(hidden_columns), 'more column')}: -v", "dim"


def _without_repetition(texts: Sequence[str], streams: Any) -> list[str]:
    """Returns the sentences of rows; empty where that of the stream's row before is the same."""
    latest: dict[tuple[Any, ...], str] = {}
    new_texts = []
    for stream, text in zip(zip(*table_texts(streams), strict=True), texts, strict=True):
        new_texts.append("" if latest.get(stream) == text else text)
        latest[stream] = text
    return new_texts


def _all_lines(text: TextTable, table: Any) -> Iterator[str]:
    for batch in table.to_batches():
        yield from text.lines(batch)
    yield from text.end()


def _fits(widths: Mapping[str, int], width: int) -> bool:
    return sum(widths.values()) + 2 * (len(widths) - 1) <= width


def _fitting(table: Any, first: Sequence[str], width: int, *, is_tall: bool) -> list[str]:
    """Returns the shown columns in the table's order: the most important ones that fit."""
    widths = TextTable.natural_widths(table.slice(0, MEASURED), width, is_tall=is_tall)
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
    for row in zip(*table_texts(table), strict=True):
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
