"""Tables of records for people: which columns they read, the most important ones where not all fit,
in which colours, and sentences below their rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.output.export.json_table import rfc3339
from dcpinspect.output.render.palette import GLYPHS, PAINTS
from dcpinspect.output.render.table import MEASURED, RowPaint, TextTable, cell_texts, table_texts
from dcpinspect.text import cells, counted, entries, words_of, wrap

if TYPE_CHECKING:
    from dcpinspect.tables.record_tables import Records


def _by_table(text: str) -> dict[str, tuple[str, ...]]:
    return {table: words_of(names) for table, names in entries(text)}


READABLE = _by_table(
    """
    connections: connection client origin name server role verdict findings closed_by streams copy_of window_bytes
        outstanding_bytes holes skipped_bytes tls
    streams: connection vbucket sid stream requested_start requested_end answer status verdict
        findings end_reason items cached_items first_seqno last_seqno snapshots gap_seqnos open_row end_row
    snapshots: connection vbucket sid stream index start_seqno end_seqno type layout convention
        items first_seqno last_seqno state lost_seqnos row
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
        bucket role conn_id versions line reason
    vbuckets: client vbucket verdict before_end findings connections streams first_seqno last_seqno high_seqno
        behind items cached_items bytes gap_seqnos snapshots rollbacks
    """
)
"""Columns of text output in order, but those without a value. Other formats have all."""
FIRST = _by_table(
    """
    connections: connection client verdict findings name closed_by copy_of origin server streams
    streams: connection vbucket sid verdict findings status end_reason requested_start last_seqno items cached_items
        requested_end answer
    snapshots: connection vbucket sid state lost_seqnos start_seqno end_seqno type items index layout convention
        last_seqno
    gaps: connection vbucket sid cause width after_seqno before_seqno
    rollbacks: connection vbucket sid requested_start rollback_seqno resume_start resume_snapshot_end
        resume_uuid resume_snapshot_start cause
    differences: kind vbucket lacks first_seqno last_seqno events key fields a_row b_row
    paths: a_connection b_connection direction delay_median_ns delay_max_ns lost answers
        network_median_ns
    log_events: time event vbucket name start_seqno rollback_seqno state last_seqno
    vbuckets: client vbucket verdict findings before_end last_seqno high_seqno behind rollbacks gap_seqnos
    """
)
"""The most important of these columns, those without which others say less first; counts of nothing
come after the others. What does not fit the width is left out. Sentences stand below their row then.
"""
BELOW = _by_table(
    """
    connections: name tls
    streams: end_reason
    gaps: cause
    rollbacks: cause
    log_events: state rollback_seqno last_seqno failover_log
    """
)
"""Columns that say what a row is about, or why: where they do not fit, they stand below their row,
as a sentence.
"""


def read_columns(records: Records, name: str, *, is_of_one_file: bool = False) -> list[str]:
    """Returns the columns of a table that people read: those with a value, or all of an empty one.
    ``name``: of the table. ``is_of_one_file``: which file need not be told.
    """
    file = () if is_of_one_file else ("file",)
    names = [column for column in (*READABLE[name], *file) if column in records.columns]
    return [column for column in names if records.has_values(column)] or names


StyledLine = tuple[str, str]
"""Text and style."""
CellPaint = Callable[[str, str], str]
SENTENCES = ("evidence", "explanation", "reason", "message")
"""Columns that are sentences; a table has at most one."""
_WORDS = words_of(
    "verdict before_end answer status end_reason cause state convention kind rule who server whose "
    "next tls time"
)
"""Columns of words, which are not cut either, and of what people have to do."""
_OF_STREAM = ("connection", "vbucket", "stream", "sid", "file")
"""Columns that name a stream, whose rows may have one sentence many times; not all have the last
two.
"""
_INDENT = "    "
_GROUPS = {
    **{"verdict": "verdict", "before_end": "verdict", "answer": "verdict"},
    **{"cause": "cause", "severity": "severity"},
}
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
OF_KINDS = {
    **dict.fromkeys(words_of("differs not-sent other-history filter"), "severity-warning"),
    **dict.fromkeys(words_of("rolled-back deduplicated filtered purged snapshot"), QUIET),
}
"""Colours of kinds of differences: what differs, and what is explained; the rest is not compared."""
OF_EVENTS = {
    **dict.fromkeys(words_of("rollback stream-refused message-refused"), "severity-warning"),
    **dict.fromkeys(words_of("slow-stream buffer-full disconnect"), "severity-warning"),
    "request-refused": "severity-note",
}
"""Colours of events of a server's log: of the severities that the rules about logs have."""
_OF_SIGNS = {sign: f"severity-{level}" for level, sign in GLYPHS.items()}
"""Colours of signs of severities; the first one in a cell is the worst."""


def paints_of(names: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """Yields the colour of each cell of a row: its name in the palette, ``QUIET``, or empty for the
    usual.
    """
    by_name = {name: text.strip() for name, text in zip(names, row, strict=False)}
    findings, has_lost = by_name.get("findings", ""), by_name.get("lost_seqnos", "")
    bad = "" if findings.startswith(GLYPHS["note"]) else _OF_SIGNS.get(findings[:1], "")
    for name, text in zip(names, row, strict=False):
        paint = _paint_of(name, text.strip())
        # what findings say counts for more than how something is
        is_red = bool(paint) and paint != QUIET and PAINTS[paint].text == "bright_red"
        if paint == QUIET and name == "state" and has_lost:
            paint = ""
        if "findings" in names and name in ("verdict", "answer"):
            is_bad = name == "verdict" or text.strip() == "refused"
            paint = bad if is_red or (bad and is_bad) else paint
        yield paint


def _paint_of(name: str, text: str) -> str:
    word = text.partition(" ")[0].strip(",")
    if name == "findings":
        return _OF_SIGNS.get(word, "")
    if _is_quiet(name, text):
        return QUIET
    if (paint := f"{_GROUPS.get(name)}-{word}") in PAINTS:
        return paint
    if name in ("event", "kind"):
        return (OF_EVENTS if name == "event" else OF_KINDS).get(text, "")
    return _LOUD.get(text, "") if name in ("answer", "state") else ""


def _is_quiet(name: str, text: str) -> bool:
    return text in _QUIET and not (text == "0" and _NUMBERED.search(name))


def record_lines(
    table: Any,
    first: Sequence[str],
    *,
    width: int | None,
    below: Collection[str] = (),
    is_folded: bool = False,
    paint: CellPaint | None = None,
) -> Iterator[StyledLine]:
    """Yields the lines of an Arrow table: heading and rows. A sentence is never cut: where it does
    not fit, it stands below its row. ``first``: the most important columns, the most important one
    first.

    ``width``: of lines; None keeps all columns in their lines. ``below``: columns that stand below
    each row where they do not fit, ``is_folded``: all do. ``paint``: colours cells.
    """
    names = table.schema.names

    def paint_row(names: Sequence[str], row: Sequence[str]) -> Iterator[str]:
        assert paint is not None
        for text, colour in zip(row, paints_of(names, row), strict=True):
            yield paint(text, "dim" if colour == QUIET else PAINTS[colour].text if colour else "")

    table, day = (table, "") if width is None else _without_day(table)
    if day:
        yield f"{day}, times in UTC", "dim"
    text = _record_text(table, first, width, None if paint is None else paint_row)
    lines = _all_lines(text, table)
    first_heading = next(lines)
    yield from ((line, "bold") for line in (first_heading, *islice(lines, text.headings - 1)))
    left_out = [names[index] for index in text.hidden]
    sentence = next((name for name in left_out if name in SENTENCES), None)
    hidden = [name for name in left_out if name != sentence]
    folded = _below(table.select(hidden), width or 0) if is_folded and hidden else None
    reasons = [] if is_folded else [name for name in hidden if name in below]
    texts = _texts_below(table, [*reasons, *([] if sentence is None else [sentence])])
    is_said_once = sentence is not None and not is_folded and set(_OF_STREAM[:3]) <= set(names)
    if is_said_once:
        of_stream = [name for name in _OF_STREAM if name in names]
        texts = _without_repetition(texts, table.select(of_stream))
    sentences = iter(texts)
    for line in lines:
        yield line, ""
        sentence_text = next(sentences, "")
        if sentence_text:
            yield from ((line, "") for line in wrap(_INDENT + sentence_text, width, _INDENT))
        if folded is not None:
            yield from ((line, "dim") for line in next(folded))
    if is_said_once and len(texts) > 1 and not all(texts):
        yield f"a row without {sentence} has that of its stream's row above; -v repeats it", "dim"
    if len(hidden) > len(reasons) and table.num_rows and not is_folded:
        yield f"{counted(len(hidden) - len(reasons), 'more column')}: -v", "dim"


def _without_day(table: Any) -> tuple[Any, str]:
    """Returns the table with the time of the day alone, and the day, if all rows are of the same."""
    index = table.schema.get_field_index("time")
    if index < 0 or not pa.types.is_timestamp(table.schema.field(index).type):
        return table, ""
    texts = rfc3339(table.column(index))
    days = pc.unique(pc.utf8_slice_codeunits(texts, 0, 10)).to_pylist()
    if len(days) != 1 or days[0] is None:
        return table, ""
    return table.set_column(index, "time", pc.utf8_slice_codeunits(texts, 11, -1)), days[0]


def hidden_columns(table: Any, first: Sequence[str], width: int) -> list[str]:
    """Returns the columns of an Arrow table that do not fit lines of this width."""
    text = _record_text(table, first, width, None)
    next(_all_lines(text, table.slice(0, MEASURED)))
    return [table.schema.names[index] for index in text.hidden]


def _record_text(
    table: Any, first: Sequence[str], width: int | None, paint_row: RowPaint | None
) -> TextTable:
    cuttable = [name for name in table.schema.names if name not in SENTENCES]
    first = sorted(first, key=lambda name: name in cuttable and _counts_nothing(table, name))
    return TextTable(
        table.schema,
        width=width,
        has_escapes=True,
        first=[name for name in dict.fromkeys((*first, *cuttable)) if name in cuttable],
        whole=(*SENTENCES, *_WORDS),
        paint_row=paint_row,
    )


def _counts_nothing(table: Any, name: str) -> bool:
    """Whether all values of a column are 0, and counts, also by names."""
    column = table.column(name).combine_chunks()
    if pa.types.is_map(column.type):
        column = column.items
    if not pa.types.is_integer(column.type) or _NUMBERED.search(name):
        return False
    return not pc.any(pc.not_equal(column, 0)).as_py()


def _texts_below(table: Any, names: Sequence[str]) -> list[str]:
    """Returns what stands below each row of these columns: a sentence, and before it words with the
    names of their columns; empty where there is nothing to see.
    """
    columns = [cell_texts(table.column(name).combine_chunks(), name) for name in names]
    return [
        " · ".join(
            text if name in SENTENCES else f"{name} {text}"
            for name, text in zip(names, row, strict=True)
            if text and not _is_quiet(name, text)
        )
        for row in zip(*columns, strict=True)
    ]


def _without_repetition(texts: Sequence[str], streams: Any) -> list[str]:
    """Returns the sentences of rows; empty where the latest row above of the same stream has the
    same.
    """
    latest = dict[tuple[str, ...], str]()
    new_texts = []
    for *stream, text in zip(*table_texts(streams), texts, strict=True):
        new_texts.append("" if latest.get(tuple(stream)) == text else text)
        latest[tuple(stream)] = text
    return new_texts


def _all_lines(text: TextTable, table: Any) -> Iterator[str]:
    # in one piece: widths are those of all rows, so no later one is cut where a sentence is whole
    for batch in table.combine_chunks().to_batches():
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
