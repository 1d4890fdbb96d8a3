"""A filter at work: DuckDB evaluates it on the columns of a batch that it reads, and on no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcpinspect.protocol.columns import Rows
from dcpinspect.tables.duck import connect
from dcpinspect.tables.filter import Filter
from dcpinspect.tables.filter_tree import And, Compare, Condition, Constant, Holds, In, IsNull, Like, Name, Not, Or, Truth
from dcpinspect.tables.messages import MessageBatch


class FilterRows:
    """Picks the messages for which a filter is true. One is for one reading: it has a database of its own, made when first used."""

    def __init__(self, filter_: Filter) -> None:
        self.filter = filter_
        self._query = f"select place from batch where {duckdb_sql(filter_.condition)}"  # noqa: S608 - made from the tree alone
        self._database: Any = None

    def prepare(self) -> None:
        """Load what the first batch would wait for, half a second."""
        from dcpinspect.tables.arrow import arrow_schema  # deferred, as below

        none = arrow_schema(self.filter.columns).empty_table()
        self.numbers([column.combine_chunks() for column in none.columns], np.empty(0, np.int64))

    def rows(self, batch: MessageBatch, rows: Rows) -> Rows:
        """Those of these messages for which the filter is true, in order."""
        if not len(rows):
            return rows
        from dcpinspect.tables.arrow import record_batch  # deferred: 0.1 s, for who filters

        return self.numbers(record_batch(batch, rows, self.filter.columns).columns, rows)

    def numbers(self, columns: Sequence[Any], numbers: Rows) -> Rows:
        """Those of these ascending numbers for whose rows it is true; ``columns`` are the filter's as Arrow arrays, an entry a row."""
        import pyarrow as pa

        if self._database is None:
            self._database = connect(threads=1)  # a batch is computed in less time than threads take to start
        table = pa.RecordBatch.from_arrays([*columns, pa.array(numbers)], names=[*self.filter.columns, "place"])
        self._database.register("batch", table)
        try:
            kept: Rows = self._database.execute(self._query).fetchnumpy()["place"]
        except RuntimeError as error:
            raise KeyboardInterrupt from error  # as which it came, before DuckDB took it
        self._database.unregister("batch")
        return np.sort(kept)


def duckdb_sql(condition: Condition) -> str:
    """A condition as DuckDB reads it."""
    match condition:
        case Truth(value):
            return "true" if value else "false"
        case Compare(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case In(column, values):
            return f"{_operand(column)} in ({', '.join(map(_operand, values))})"
        case Like(column, pattern, escape):
            return f"{_operand(column)} like {_text(pattern)}" + (f" escape {_text(escape)}" if escape else "")
        case Holds(column, word):
            return f"list_contains({_operand(column)}, {_operand(word)})"
        case IsNull(column):
            return f"{_operand(column)} is null"
        case Not(item):
            return f"not ({duckdb_sql(item)})"
        case And(items):
            return " and ".join(f"({duckdb_sql(item)})" for item in items)
        case Or(items):
            return " or ".join(f"({duckdb_sql(item)})" for item in items)


def _operand(operand: Name | Constant) -> str:
    if isinstance(operand, Name):
        return f'"{operand.column.name}"'
    match operand.value:
        case bool(value):
            return "true" if value else "false"
        case int(value):
            return str(value)
        case str(value):
            return _text(value)
        case bytes(value):
            return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::blob"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
