"""Rows as CSV: one column per scalar key, numbers as digits, an absent value as an empty cell.

A spreadsheet runs a cell that begins like a formula, and keys come from the network. So text cells
that begin like a formula get an apostrophe before them, as OWASP's page on CSV injection
recommends. Cells that begin with an apostrophe get one, too. A program that reads the file can
remove the first apostrophe, and has every text as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dcpinspect.output.export.json_table import plain_json, rfc3339
from dcpinspect.text import FORMULA_STARTS

_FORMULA = "^[" + "".join(rf"\x{{{ord(letter):x}}}" for letter in FORMULA_STARTS) + "]"


def csv_lines(batch: Any, *, guard: bool = True) -> bytes:
    """Returns a line for each row of a record batch."""
    if not batch.num_rows:
        return b""
    cells = [_cells(column, guard=guard) for column in batch.columns]
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(
        pa.RecordBatch.from_arrays(cells, names=batch.schema.names),
        sink,
        pyarrow.csv.WriteOptions(include_header=False),
    )
    return bytes(sink.getvalue())


def _cells(column: Any, *, guard: bool) -> Any:
    """Returns a column with values that fit into cells: times in UTC, words separated by blanks,
    bytes as digits, other nested values as JSON.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        return rfc3339(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _texts(column, bytes.hex)
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        column = _texts(column, " ".join)
    elif pa.types.is_map(kind) and pa.types.is_string(
        kind.key_type
    ):  # Arrow gives its entries as pairs
        column = _texts(column, lambda entries: plain_json(dict(entries)).decode())
    elif pa.types.is_nested(kind):
        column = _texts(column, lambda value: plain_json(value).decode())
    elif pa.types.is_interval(kind):
        column = _texts(column, str)
    if guard and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return _guarded(column)
    return column


def _texts(column: Any, text: Callable[[Any], str]) -> Any:
    values = column.to_pylist()
    return pa.array([None if value is None else text(value) for value in values], pa.string())


def _guarded(column: Any) -> Any:
    risky = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(risky).as_py():
        return column
    return pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)
