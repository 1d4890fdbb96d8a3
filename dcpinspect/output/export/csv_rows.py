"""Messages as CSV. A program writes numbers and texts with few different values; Arrow writes other
columns, as in ``csv``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dcpinspect.arrays import Array
from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.row_text import RowWriter, write_rows
from dcpinspect.output.export.target import Target
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME, COLUMNS
from dcpinspect.tables.short_columns import WITHOUT, ShortTexts, short_column
from dcpinspect.text import FORMULA_STARTS

_SAID_ELSEWHERE = ("time_ns", "relative_ns", "request_key")
DEFAULT_COLUMNS = tuple(
    column.name
    for column in COLUMNS
    if column.kind not in ("words", "bytes", "records") and column.name not in _SAID_ELSEWHERE
)
"""Columns that are written by default: lists and bytes do not fit into a cell."""

_FEW = 20_000
"""Number of cells that take less time without a compiled kernel than importing Arrow: 3 us each."""
_NOTHING = np.zeros(1, np.uint8)


class CsvRows:
    """Writes one line per message, with cells for its columns, the heading first."""

    def __init__(self, target: Target, columns: Sequence[str]) -> None:
        self._target, self._columns = target, columns
        self._is_short = WITHOUT.isdisjoint(columns)
        self._cells = 0
        target.write_piece(csv_heading(columns))

    def write(self, batch: MessageBatch, rows: RowNumbers) -> None:
        """Writes these messages of a batch."""
        if not len(rows):
            return
        self._cells += len(rows) * len(self._columns)
        # compiled, this takes a fifth of Arrow's time
        is_short = self._is_short and (write_rows.is_compiled or self._cells <= _FEW)
        text = _short_text if is_short else _arrow_text
        guard = self._target.guards_csv
        self._target.write_network_text(text(batch, rows, self._columns, guard=guard))

    def end(self) -> None:
        """Does nothing."""


def csv_heading(columns: Sequence[str]) -> bytes:
    """Returns the first line, which has the names of the columns."""
    return ",".join(f'"{_doubled(name)}"' for name in columns).encode() + b"\n"


def _doubled(text: str) -> str:
    return text.replace('"', '""')


def _arrow_text(
    batch: MessageBatch, rows: RowNumbers, columns: Sequence[str], *, guard: bool
) -> bytes:
    """Returns lines of any columns, made by Arrow."""
    import pyarrow as pa  # deferred: takes 0.1 s

    from dcpinspect.output.export.csv import csv_lines
    from dcpinspect.tables.arrow import record_batch

    table = record_batch(batch, rows, columns)
    if "time" in columns:  # Arrow's text has all nine digits
        table = table.set_column(
            columns.index("time"), "time", pa.array(batch.time_ns[rows], pa.timestamp("ns", "UTC"))
        )
    return csv_lines(table, guard=guard)


def _short_text(
    batch: MessageBatch, rows: RowNumbers, columns: Sequence[str], *, guard: bool
) -> bytes:
    """Returns lines of columns that have a short form, made by a program."""
    writer, numbers, row_size = RowWriter(), list[Array](), 1
    builder = writer.builder()
    for column_index, name in enumerate(columns):
        builder.text(b"," if column_index else b"")
        column = short_column(batch, rows, name)
        if column is None:
            continue
        if column.valid is not None:
            builder.add(rt.UNLESS, len(numbers), 1)
            numbers.append(column.valid)
        if isinstance(column, ShortTexts):
            by = " " if BY_NAME[name].kind == "words" else ","
            cells = [
                b"" if text is None else _cell(text.replace(",", by), guard=guard)
                for text in column.texts
            ]
            builder.add(rt.FRAGMENT, len(numbers))
            numbers.append(
                np.array([writer.texts.fragment(cell) for cell in cells] or [0], np.int64)[
                    column.numbers.astype(np.int64)
                ]
            )
            row_size += max(map(len, cells), default=0)
        else:
            kind = BY_NAME[name].kind
            builder.add(
                rt.HEX64 if kind == "hex64" else rt.COLUMN if kind == "i64" else rt.UNSIGNED,
                len(numbers),
            )
            numbers.append(
                column.values.view(np.int64) if column.values.dtype == np.uint64 else column.values
            )
    builder.text(b"\n")
    program = np.full(len(rows), writer.add(builder))
    table = np.empty((len(numbers), len(rows)), np.int64)
    for column_index, values in enumerate(numbers):
        table[column_index] = values
    text, _ = writer.write(
        program, table, (_NOTHING, _NOTHING), room=(builder.size + row_size) * len(rows)
    )
    return text.tobytes()


def _cell(text: str, *, guard: bool) -> bytes:
    apostrophe = "'" if guard and text[:1] and text[0] in FORMULA_STARTS else ""
    return f'"{apostrophe}{_doubled(text)}"'.encode()
