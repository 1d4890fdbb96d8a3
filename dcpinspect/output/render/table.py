"""Tables for people: aligned columns under a heading, the most important ones where not all fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.output.render.glossary import CONVENTION_TEXTS, WHOSE_TEXTS
from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.tables.vocabulary import NO_END
from dcpinspect.text import cells, clip, escape, escape_rest

Safe = Callable[[str], str]
"""Returns a text in a form that is safe to print."""

RowPaint = Callable[[Sequence[str], Sequence[str]], Iterable[str]]
"""Colours the padded cells of a row, given the names of all columns."""

MEASURED = 1000
"""Number of rows from which the widths of the columns are taken."""
WIDEST = 60
"""Greatest width of a column where lines have no width, in terminal columns. Longer texts push the
rest of their line to the right.
"""
USUAL, WIDER = 80, 40
"""Width of most terminals, in columns, and by how much others are wider at least."""
_IN_WORDS = {"convention": CONVENTION_TEXTS, "whose": WHOSE_TEXTS}
"""Texts that stand for the words of a column, by its name."""
WIDEST_WHOLE = 200
"""``WIDEST`` for sentences."""
READABLE = 32
"""Least width to which a column of texts is cut while others stand behind it, as most names fit."""
NARROWEST = 20
"""Least width to which the last column of texts is cut; with less it is left out."""
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
        first: Sequence[str] = (),
        whole: Collection[str] = (),
        paint_row: RowPaint | None = None,
    ) -> None:
        """``width``: of lines; columns that do not fit are left out. ``has_escapes``: texts have
        escapes for bytes that are not UTF-8.

        ``first``: the most important columns, the most important one first; others come after them
        in their order. ``whole``: texts that are not cut, but left out.
        """
        self._paint_row = paint_row
        self._safe = escape_rest if has_escapes else escape
        self._names = [escape(name) for name in schema.names]
        self._right = [_is_number(kind) for kind in schema.types]
        # counts by their names, and times, are never cut
        self._may_be_cut = [
            not (is_right or pa.types.is_nested(kind) or pa.types.is_timestamp(kind))
            and name not in whole
            for name, kind, is_right in zip(schema.names, schema.types, self._right, strict=True)
        ]
        ranks = {name: rank for rank, name in enumerate(first)}
        self._by_importance = sorted(
            range(len(self._names)), key=lambda index: ranks.get(schema.names[index], len(ranks))
        )
        self._is_plan = pa.string() in schema.types[-1:] and schema.names[-1] in PLANS
        self._width = width
        self._widths: dict[int, int] = {}
        self._waiting: list[dict[int, Any]] = []
        self._rows = 0
        self.hidden: list[int] = []
        """Columns that are left out, from 0; known once there are lines."""
        self.headings = 0
        """Number of lines of the heading; known once there are lines."""

    def lines(self, batch: Any) -> Iterator[str]:
        """Yields the lines that are complete after these rows of a record batch."""
        if self._is_plan:
            batch = _with_lines(batch)
        self._waiting.append(
            {
                index: _texts(batch.columns[index], self._safe, batch.schema.names[index])
                for index in self._widths or range(len(self._names))
            }
        )
        self._rows += batch.num_rows
        if self._widths or self._rows >= MEASURED:
            yield from self.end()

    def end(self) -> Iterator[str]:
        """Yields the remaining lines after the last row, at least the heading."""
        if not self._widths:
            self._widths = self._chosen(
                [
                    max((_widest(columns[index]) for columns in self._waiting), default=0)
                    for index in range(len(self._names))
                ]
            )
            self.hidden = [index for index in range(len(self._names)) if index not in self._widths]
            named = {
                index: _heading(self._names[index], width) for index, width in self._widths.items()
            }
            self.headings = max(map(len, named.values()), default=1)
            yield from self._lines(
                {
                    index: pa.array([""] * (self.headings - len(lines)) + lines)
                    for index, lines in named.items()
                },
                None,
            )
        for columns in self._waiting:
            yield from self._lines(
                {index: columns[index] for index in self._widths}, self._paint_row
            )
        self._waiting = []

    def _chosen(self, widest: Sequence[int]) -> dict[int, int]:
        """Returns the widths of the columns that are shown, by their numbers. ``widest``: of texts.

        Shown is, in order of importance, what fits where all are as narrow as may be. What they
        leave is room for texts.
        """
        uncut = [max(pair) for pair in zip(map(cells, self._names), widest, strict=True)]
        if self._width is None:
            widest_allowed = [WIDEST if cut else WIDEST_WHOLE for cut in self._may_be_cut]
            return dict(enumerate(map(min, uncut, widest_allowed)))
        if sum(uncut) + 2 * (len(uncut) - 1) <= self._width:
            return dict(enumerate(uncut))
        # long names take several lines
        needed = [
            max(width, *map(cells, name.split("_")))
            for name, width in zip(self._names, widest, strict=True)
        ]
        readable, narrow = (self._cut_widths(needed, most) for most in (READABLE, NARROWEST))
        least = dict[int, int]()
        free_width = self._width
        for index in self._in_order(narrow, readable, self._width):
            if narrow[index] > free_width and least:
                break
            least[index] = (readable if readable[index] <= free_width else narrow)[index]
            free_width -= readable[index] + 2
        widest_shown = min(self._width, max((needed[index] for index in least), default=0))
        widths = dict(sorted(least.items()))
        for most in range(widest_shown, NARROWEST, -1):
            cut = self._cut_widths(needed, most)
            wider = {index: max(width, cut[index]) for index, width in widths.items()}
            if sum(wider.values()) + 2 * (len(wider) - 1) <= self._width:
                return wider
        return widths

    def _in_order(self, narrow: Sequence[int], readable: Sequence[int], width: int) -> list[int]:
        """Returns columns in the order in which they come as lines get wider, so that a wider line
        has all that a narrower one has: the most important that ``USUAL`` has room for, then those
        that each ``WIDER`` has, the narrowest first.
        """
        in_order: list[int] = []
        free_width = 0
        for more_width in [min(USUAL, width), *[WIDER] * -((USUAL - width) // WIDER)]:
            free_width += more_width
            added: list[int] = []
            for index in self._by_importance:
                if index not in in_order and (narrow[index] <= free_width or not added + in_order):
                    added.append(index)
                    free_width -= readable[index] + 2
            in_order += sorted(added, key=readable.__getitem__) if in_order else added
        return in_order

    def _cut_widths(self, needed: Sequence[int], most: int) -> list[int]:
        """Returns the widths of all columns, where texts are cut to ``most``."""
        return [
            min(width, most) if may_be_cut else width
            for width, may_be_cut in zip(needed, self._may_be_cut, strict=True)
        ]

    def _lines(self, columns: Mapping[int, Any], paint_row: RowPaint | None) -> list[str]:
        padded = [
            _padded(
                column if self._width is None else _cut(column, self._widths[index]),
                self._widths[index],
                is_right=self._right[index],
            )
            for index, column in columns.items()
        ]
        if paint_row is not None:
            names = [self._names[index] for index in columns]
            rows = zip(*(column.to_pylist() for column in padded), strict=True)
            return ["  ".join(paint_row(names, row)).rstrip() for row in rows]
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
        if name == "opaque":
            opaques = column.to_pylist()
            return pa.array(
                ["" if opaque is None else f"0x{opaque:08x}" for opaque in opaques], pa.string()
            )
        texts = pc.fill_null(column.cast(pa.string()), "")
        if name in NO_END:
            return pc.replace_substring_regex(texts, f"^{ENDLESS}$", "no end")
        return texts
    if name in _IN_WORDS and pa.types.is_string(column.type):
        words, meanings = (pa.array(texts) for texts in zip(*_IN_WORDS[name].items(), strict=True))
        column = pc.coalesce(meanings.take(pc.index_in(column, words)), column)
    if name == "findings" and pa.types.is_map(column.type):
        return pa.array([_signs(counts or ()) for counts in column.to_pylist()], pa.string())
    if pa.types.is_string(column.type) and _is_plain(column):
        return pc.fill_null(column, "")
    texts = ["" if value is None else _text(value, safe) for value in column.to_pylist()]
    if name == "connections" and pa.types.is_list(column.type):  # it looks like their count
        texts = [text and f"con {text}" for text in texts]
    return pa.array(texts, pa.string())


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
