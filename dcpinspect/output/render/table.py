"""Tables for people: aligned columns under a heading, the most important ones where not all fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.output.render.glossary import CONVENTION_TEXTS
from dcpinspect.output.render.palette import GLYPHS, PAINTS
from dcpinspect.text import cells, clip, counted, entries, escape, escape_rest, words_of, wrap

if TYPE_CHECKING:
    from dcpinspect.tables.record_tables import Records

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
NO_END = {"requested_end": "no end", "end_seqno": "no end"}
"""Name of the greatest number of 64 bits in these columns."""
NARROWEST = 20
"""Least width to which a column of texts is cut; with less it is left out."""
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

        Shown are the most important ones, up to the first that does not fit even where all are as
        narrow as may be: so a wider line never has fewer. What they leave is room for texts.
        """
        uncut = [max(pair) for pair in zip(map(cells, self._names), widest, strict=True)]
        if self._width is None:
            return {index: min(WIDEST, width) for index, width in enumerate(uncut)}
        if sum(uncut) + 2 * (len(uncut) - 1) <= self._width:
            return dict(enumerate(uncut))
        # long names take several lines
        needed = [
            max(width, *map(cells, name.split("_")))
            for name, width in zip(self._names, widest, strict=True)
        ]
        least = [
            min(width, NARROWEST) if may_be_cut else width
            for width, may_be_cut in zip(needed, self._may_be_cut, strict=True)
        ]
        indices = list[int]()
        free_width = self._width + 2
        for index in self._by_importance:
            free_width -= least[index] + 2
            if free_width < 0 and indices:
                break
            indices.append(index)
        widths = {index: needed[index] for index in sorted(indices)}
        widest_shown = min(self._width, max(widths.values(), default=0))
        for most in range(widest_shown, NARROWEST - 1, -1):
            widths = {
                index: min(needed[index], most) if self._may_be_cut[index] else needed[index]
                for index in widths
            }
            if sum(widths.values()) + 2 * (len(widths) - 1) <= self._width:
                break
        return widths

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


def _by_table(text: str) -> dict[str, tuple[str, ...]]:
    return {table: words_of(names) for table, names in entries(text)}


READABLE = _by_table(
    """
    connections: connection client server name role verdict findings closed_by streams copy_of window_bytes
        outstanding_bytes holes skipped_bytes tls
    streams: connection vbucket sid stream requested_start requested_end answer status verdict
        findings end_reason items first_seqno last_seqno snapshots gap_seqnos open_row end_row
    snapshots: connection vbucket sid stream index start_seqno end_seqno type layout convention
        items first_seqno last_seqno state row
    gaps: connection vbucket sid stream cause width after_seqno before_seqno evidence
    rollbacks: connection vbucket sid cause requested_start rollback_seqno resume_start
        resume_snapshot_start resume_snapshot_end resume_uuid snapshot_start snapshot_end
        vbucket_uuid request_row log_row failover_log explanation
    differences: kind bucket vbucket lacks first_seqno last_seqno events collection_id key fields
        a_name b_name a_cas b_cas a_connection b_connection a_row b_row evidence
    paths: a_connection b_connection direction client_side clock_offset_ns clock_error_ns clock_from
        segments delay_min_ns delay_median_ns delay_p99_ns delay_max_ns lost lost_bytes
        a_missed_bytes b_missed_bytes answers answer_median_ns answerer_median_ns network_median_ns
        answer_max_ns
    log_events: time event vbucket sid name start_seqno rollback_seqno last_seqno high_seqno
        snapshot_start snapshot_end vbucket_uuid end_seqno purge_seqno failover_log state level
        bucket role conn_id versions file line reason
    vbuckets: client vbucket verdict before_end findings connections streams first_seqno last_seqno high_seqno
        behind items bytes gap_seqnos snapshots rollbacks
    """
)
"""Columns of text output in order, but those without a value. Other formats have all."""
FIRST = _by_table(
    """
    connections: connection name verdict findings closed_by copy_of client server streams
    streams: connection vbucket sid verdict findings status end_reason requested_start last_seqno items
        requested_end answer
    snapshots: connection vbucket sid state start_seqno end_seqno type items index
    gaps: connection vbucket sid cause width after_seqno before_seqno
    rollbacks: connection vbucket sid requested_start rollback_seqno resume_start resume_snapshot_end
        resume_uuid resume_snapshot_start cause
    differences: kind vbucket lacks first_seqno last_seqno events key fields a_row b_row
    paths: a_connection b_connection direction delay_median_ns delay_max_ns lost answers
        network_median_ns
    log_events: time event vbucket rollback_seqno state start_seqno last_seqno name
    vbuckets: client vbucket verdict findings before_end last_seqno high_seqno behind gap_seqnos rollbacks
    """
)
"""The most important of these columns, those without which others say less first; what does not
fit the width is left out from their end. Sentences stand below their row then.
"""


def read_columns(records: Records, name: str) -> list[str]:
    """Returns the columns of a table that people read: those with a value, or all of an empty one.
    ``name``: of the table.
    """
    names = [
        column for column in dict.fromkeys((*READABLE[name], "file")) if column in records.columns
    ]
    return [column for column in names if records.has_values(column)] or names


StyledLine = tuple[str, str]
"""Text and style."""
CellPaint = Callable[[str, str], str]
SENTENCES = ("evidence", "explanation", "reason")
"""Columns, always the last of their table, that are sentences."""
_WORDS = ("verdict", "before_end", "answer", "status", "end_reason", "cause", "state", "kind")
"""Columns of words, which are not cut either."""
_OF_STREAM = ("connection", "vbucket", "stream", "sid", "file")
"""Columns that name a stream, whose rows may have one sentence many times; not all have the last
two.
"""
_INDENT = "    "
_GROUPS = {"verdict": "verdict", "before_end": "verdict", "answer": "verdict", "cause": "cause"}
"""Groups of the palette by the columns whose words they colour."""
QUIET = "quiet"
"""What stands back, beside the colours of the palette."""
_QUIET = frozenset({"0", "ended", "closed", "ok", "complete", "accepted", "success"})
"""Words and numbers that mean that there is nothing to see."""
_NUMBERED = re.compile(r"vbucket$|sid$|seqno$|start$|end$")
"""Columns in which 0 is a number as all others, and not a count of nothing."""
_LOUD = {
    "refused": "kind-refusal",
    "rollback": "kind-rollback",
    "unanswered": "kind-refusal",
    "cut": "severity-warning",
    "open": "severity-warning",
}
"""Colours of words that the palette has under another name."""
_OF_SIGNS = {sign: f"severity-{level}" for level, sign in GLYPHS.items()}
"""Colours of signs of severities; the first one in a cell is the worst."""


def paints_of(names: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """Yields the colour of each cell of a row: its name in the palette, ``QUIET``, or empty for the
    usual.
    """
    findings = dict(zip(names, row, strict=False)).get("findings", "").strip()
    bad = "" if findings.startswith(GLYPHS["note"]) else _OF_SIGNS.get(findings[:1], "")
    for name, text in zip(names, row, strict=False):
        paint = _paint_of(name, text.strip())
        # what findings say counts for more than how something is
        is_red = bool(paint) and paint != QUIET and PAINTS[paint].text == "bright_red"
        if "findings" in names and name in ("verdict", "answer"):
            paint = bad if is_red or (bad and name == "verdict") else paint
        yield paint


def _paint_of(name: str, text: str) -> str:
    word = text.partition(" ")[0].strip(",")
    if name == "findings":
        return _OF_SIGNS.get(word, "")
    if text in _QUIET and not (text == "0" and _NUMBERED.search(name)):
        return QUIET
    if (paint := f"{_GROUPS.get(name)}-{word}") in PAINTS:
        return paint
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

    def paint_row(names: Sequence[str], row: Sequence[str]) -> Iterator[str]:
        assert paint is not None
        for text, colour in zip(row, paints_of(names, row), strict=True):
            yield paint(text, "dim" if colour == QUIET else PAINTS[colour].text if colour else "")

    text = _record_text(table, first, width, None if paint is None else paint_row)
    lines = _all_lines(text, table)
    first_heading = next(lines)
    yield from ((line, "bold") for line in (first_heading, *islice(lines, text.headings - 1)))
    hidden = [names[index] for index in text.hidden]
    sentence = hidden.pop() if hidden and hidden[-1] in SENTENCES else None
    folded = _below(table.select(hidden), width or 0) if is_folded and hidden else None
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
    if hidden and table.num_rows and not is_folded:
        yield f"{counted(len(hidden), 'more column')}: -v", "dim"


def hidden_columns(table: Any, first: Sequence[str], width: int) -> list[str]:
    """Returns the columns of an Arrow table that do not fit lines of this width."""
    text = _record_text(table, first, width, None)
    next(_all_lines(text, table.slice(0, MEASURED)))
    return [table.schema.names[index] for index in text.hidden]


def _record_text(
    table: Any, first: Sequence[str], width: int | None, paint_row: RowPaint | None
) -> TextTable:
    cuttable = [name for name in table.schema.names if name not in SENTENCES]
    return TextTable(
        table.schema,
        width=width,
        has_escapes=True,
        first=[name for name in dict.fromkeys((*first, *cuttable)) if name in cuttable],
        whole=(*SENTENCES, *_WORDS),
        paint_row=paint_row,
    )


def _without_repetition(texts: Sequence[str], streams: Any) -> list[str]:
    """Returns the sentences of rows; empty where that of the stream's row before is the same."""
    latest: dict[tuple[Any, ...], str] = {}
    new_texts = []
    for stream, text in zip(zip(*table_texts(streams), strict=True), texts, strict=True):
        new_texts.append("" if latest.get(stream) == text else text)
        latest[stream] = text
    return new_texts


def _all_lines(text: TextTable, table: Any) -> Iterator[str]:
    # columns that are left out need no texts in the second part
    for rows in (table.slice(0, MEASURED), table.slice(MEASURED)):
        for batch in rows.to_batches():
            yield from text.lines(batch)
    yield from text.end()


def _below(table: Any, width: int) -> Iterator[list[str]]:
    """Yields, for each row, its other values with names, in lines within ``width`` if possible."""
    for pieces in named_values(table):
        lines, line = list[str](), ""
        for piece in pieces:
            if line and cells(line) + 3 + cells(piece) > width - len(_INDENT):
                lines += wrap(line, width - len(_INDENT))
                line = piece
            else:
                line = f"{line} · {piece}" if line else piece
        yield [
            _INDENT + piece_line
            for piece_line in (*lines, *(wrap(line, width - len(_INDENT)) if line else ()))
        ]


def named_values(table: Any) -> Iterator[list[str]]:
    """Yields, for each row of an Arrow table, its values, each but a sentence behind the name of its
    column; not counts of nothing.
    """
    for row in zip(*table_texts(table), strict=True):
        yield [
            value if name in SENTENCES else f"{name} {value}"
            for name, value in zip(table.schema.names, row, strict=True)
            if value and (value != "0" or _NUMBERED.search(name))
        ]
