"""Messages as CSV. A kernel writes numbers and texts with few different values; Arrow writes other columns, as in ``csv``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dcpinspect.escape import FORMULA_STARTS
from dcpinspect.export.number_text import put_number
from dcpinspect.kernels.kernel import Ints, Octets, copy, inline, kernel
from dcpinspect.protocol.columns import Rows
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME, COLUMNS
from dcpinspect.tables.short import WITHOUT, Texts, short_column

_SAID_ELSEWHERE = ("time_ns", "relative_ns", "request_key")
DEFAULT_COLUMNS = tuple(
    column.name for column in COLUMNS if column.kind not in ("words", "bytes", "records") and column.name not in _SAID_ELSEWHERE
)
"""Columns that are written by default: lists and bytes do not fit into a cell."""

_FEW = 20_000
"""Number of cells that take less time without a compiled kernel than importing Arrow: 3 us each."""
_SIGNED, _UNSIGNED, _HEX, _TEXT = range(4)
_WIDEST = 20
"""Greatest size of a number in bytes: 20 digits, a sign and 19 digits, or 0x and 16 digits in quotes."""


class CsvRows:
    """Writes messages as CSV, the heading first."""

    def __init__(self, columns: Sequence[str] = DEFAULT_COLUMNS, *, guard: bool = True) -> None:
        """``guard``: puts an apostrophe before texts that a spreadsheet would run."""
        self._columns = columns
        self._guard = guard
        self._is_short = WITHOUT.isdisjoint(columns)
        self._cells = 0

    def heading(self) -> bytes:
        """Returns the line with the names of the columns."""
        return csv_heading(self._columns)

    def text(self, batch: MessageBatch, rows: Rows) -> bytes:
        """Returns a line for each of these messages."""
        if not len(rows):
            return b""
        self._cells += len(rows) * len(self._columns)
        if self._is_short and (write_cells.is_compiled or self._cells <= _FEW):  # compiled, this takes a fifth of Arrow's time
            return _short_text(batch, rows, self._columns, guard=self._guard)
        return _arrow_text(batch, rows, self._columns, guard=self._guard)


def csv_heading(columns: Sequence[str]) -> bytes:
    """Returns the first line, which has the names of the columns."""
    return ",".join(f'"{_doubled(name)}"' for name in columns).encode() + b"\n"


def _doubled(text: str) -> str:
    return text.replace('"', '""')


def _arrow_text(batch: MessageBatch, rows: Rows, columns: Sequence[str], *, guard: bool) -> bytes:
    """Returns lines of any columns, made by Arrow."""
    import pyarrow as pa  # deferred: takes 0.1 s

    from dcpinspect.export.csv import csv_lines
    from dcpinspect.tables.arrow import record_batch

    table = record_batch(batch, rows, columns)
    if "time" in columns:  # Arrow's text has all nine digits
        table = table.set_column(columns.index("time"), "time", pa.array(batch.time_ns[rows], pa.timestamp("ns", "UTC")))
    return csv_lines(table, guard=guard)


def _short_text(batch: MessageBatch, rows: Rows, columns: Sequence[str], *, guard: bool) -> bytes:
    """Returns lines of columns that have a short form, made by the kernel."""
    kinds = np.zeros(len(columns), np.int64)
    values = np.zeros((len(columns), len(rows)), np.int64)
    given = np.ones((len(columns), len(rows)), np.uint8)
    cells, ends, widest = bytearray(), [0], 0
    for place, name in enumerate(columns):
        column = short_column(batch, rows, name)
        if column is None:
            given[place] = 0
            continue
        if column.valid is not None:
            given[place] = column.valid
        if isinstance(column, Texts):
            kinds[place] = _TEXT
            first = len(ends) - 1
            for text in column.texts:
                cells += b"" if text is None else _cell(text.replace(",", " ") if BY_NAME[name].kind == "words" else text, guard=guard)
                ends.append(len(cells))
            values[place] = column.numbers
            values[place] += first
            widest += int(np.diff(ends[first:]).max(initial=0))
        else:
            kind = BY_NAME[name].kind
            kinds[place] = _HEX if kind == "hex64" else _SIGNED if kind == "i64" else _UNSIGNED
            values[place] = column.values.view(np.int64) if column.values.dtype == np.uint64 else column.values
            widest += _WIDEST
    out = np.empty((widest + len(columns)) * len(rows), np.uint8)
    size = write_cells(kinds, values, given, np.frombuffer(cells or b" ", np.uint8), np.array(ends), out)
    return out[:size].tobytes()


def _cell(text: str, *, guard: bool) -> bytes:
    apostrophe = "'" if guard and text[:1] and text[0] in FORMULA_STARTS else ""
    return f'"{apostrophe}{_doubled(text)}"'.encode()


@inline
def put_unsigned(out: Octets, at: int, value: int) -> int:
    """Writes the unsigned number whose 64 bits ``value`` has, in decimal; returns the place behind it."""
    half = (value >> 1) & 0x7FFF_FFFF_FFFF_FFFF
    return put_number(out, at, half // 500_000_000, half % 500_000_000 * 2 + (value & 1))


@inline
def put_quoted_hex(out: Octets, at: int, value: int) -> int:
    """Writes 64 bits as hexadecimal digits in quotes; returns the place behind them."""
    out[at], out[at + 1], out[at + 2] = 34, 48, 120
    for i in range(16):
        digit = (value >> (60 - 4 * i)) & 15
        out[at + 3 + i] = 48 + digit if digit < 10 else 87 + digit
    out[at + 19] = 34
    return at + 20


@kernel("int64(int64[::1], int64[:,::1], uint8[:,::1], octets, int64[::1], uint8[::1])")
def write_cells(kinds: Ints, values: Ints, given: Octets, cells: Octets, ends: Ints, out: Octets) -> int:
    """Writes a line per row, and returns the size of all lines. Takes a few steps per digit.

    ``values`` [columns, rows] has numbers, or numbers of texts in ``cells``, whose ends are ``ends``. ``given`` is 0 for an empty cell.
    """
    at = 0
    for row in range(values.shape[1]):
        for column in range(len(kinds)):
            if column > 0:
                out[at] = 44
                at += 1
            if given[column, row] == 0:
                continue
            value, kind = values[column, row], kinds[column]
            if kind == _TEXT:
                size = ends[value + 1] - ends[value]
                copy(out, at, cells, ends[value], size)
                at += size
            elif kind == _HEX:
                at = put_quoted_hex(out, at, value)
            else:
                if kind == _SIGNED and value < 0:
                    out[at] = 45
                    at += 1
                    value = -value  # the least number stays negative, but its bits are the right unsigned number
                at = put_unsigned(out, at, value)
        out[at] = 10
        at += 1
    return at
