"""Messages as CSV: one column a scalar key, numbers as digits, an absent value as nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dcpinspect.protocol.columns import Rows
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import COLUMNS

DEFAULT_COLUMNS = tuple(column.name for column in COLUMNS if column.kind not in ("words", "bytes") and column.name != "time_ns")
"""Lists and bytes have no place in a cell."""


class CsvRows:
    """Writes messages as CSV, the heading first."""

    def __init__(self, columns: Sequence[str] = DEFAULT_COLUMNS) -> None:
        self._columns = columns

    def heading(self) -> bytes:
        """The names of the columns."""
        return ",".join(f'"{name}"' for name in self._columns).encode() + b"\n"

    def text(self, batch: MessageBatch, rows: Rows) -> bytes:
        """A line for each of these messages."""
        if not len(rows):
            return b""
        table = record_batch(batch, rows, self._columns)
        cells = [_cells(table.column(name), batch, rows, name) for name in self._columns]
        sink = pa.BufferOutputStream()
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(cells, names=list(self._columns)), sink, options)
        return bytes(sink.getvalue())


def _cells(column: Any, batch: MessageBatch, rows: Rows, name: str) -> Any:
    """What a cell can hold: times with all nine digits, words separated by blanks, bytes as digits."""
    if name == "time":
        return pa.array(np.char.add(np.datetime_as_string(batch.time_ns[rows].view("datetime64[ns]"), unit="ns"), "Z"))
    if pa.types.is_list(column.type):
        return pa.array([None if words is None else " ".join(words) for words in column.to_pylist()], pa.string())
    if pa.types.is_binary(column.type):
        return pa.array([None if raw is None else raw.hex() for raw in column.to_pylist()], pa.string())
    return column
