"""Tables as people, queries and filters read them: every number as what it means.

What Spark keeps as 64 bits is DECIMAL(20, 0) here if it is a number, so that the greatest seqno is greater than the least one, and a
0x-string if it is a CAS or an UUID, as everywhere else. The bits stand behind all other columns under the name with ``_bits``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dcpinspect.spark.schema import columns_of, table_schema, whole_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Dialect:
    """How an engine says what makes numbers readable; as it is here, Spark SQL."""

    def name(self, column: str) -> str:
        """A column."""
        return "`" + column.replace("`", "``") + "`"

    def field(self, value: str, name: str) -> str:
        """A field of a record."""
        return f"{value}.`{name}`"

    def hex64(self, bits: str) -> str:
        """The 0x-string of 64 bits."""
        return f"concat('0x', lpad(lower(hex({bits})), 16, '0'))"

    def u64(self, bits: str) -> str:
        """The number that 64 bits are."""
        # 2**64 more, as DECIMAL(21, 0), is within DECIMAL(20, 0) again.
        kind = "DECIMAL(20, 0)"
        return f"CAST(CASE WHEN {bits} < 0 THEN CAST({bits} AS {kind}) + 18446744073709551616BD ELSE {bits} END AS {kind})"

    def each(self, values: str, item: str, made: str) -> str:
        """A list of what is made of each item of another one."""
        return f"transform({values}, {item} -> {made})"

    def record(self, fields: Mapping[str, str]) -> str:
        """A record."""
        made = ", ".join(f"'{name}', {value}" for name, value in fields.items())
        return f"named_struct({made})"


def readable(frame: DataFrame, table: str = "messages") -> DataFrame:
    """The same rows with readable columns; ``frame`` has some or all columns of ``table`` as Spark keeps them, and maybe others.

    Raises UsageError for a table that there is not.
    """
    return frame.selectExpr(*expressions(frame.columns, table))


def expressions(columns: Sequence[str], table: str, dialect: Dialect | None = None) -> list[str]:
    """What makes these columns of a table readable, in Spark SQL or another dialect."""
    shown = _Shown(dialect or Dialect())
    kinds, bits = columns_of(table), whole_numbers(table)
    return [
        *(shown.column(name, kinds.get(name), bits.get(name)) for name in columns),
        *(f"{shown.dialect.name(name)} AS {shown.dialect.name(f'{name}_bits')}" for name in columns if name in bits),
    ]


def in_order(columns: Sequence[str], table: str) -> list[str]:
    """Columns that a table has elsewhere, then what the pipeline knows besides."""
    own = [column for column in table_schema(table).names if column in columns]
    return [*own, *(column for column in columns if column not in own)]


_VARIABLES = ("x", "y", "z")


class _Shown:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def column(self, name: str, kind: Any, bits: str | None) -> str:
        quoted = self.dialect.name(name)
        if bits == "hex64":
            return f"{self.dialect.hex64(quoted)} AS {quoted}"
        if kind is None or not _has_u64(kind):
            return quoted
        return f"{self._number(quoted, kind, iter(_VARIABLES))} AS {quoted}"

    def _number(self, value: str, kind: Any, variables: Iterator[str]) -> str:
        """A value in which u64 have been kept as their bits, with the numbers."""
        if pa.types.is_uint64(kind):
            return self.dialect.u64(value)
        if not _has_u64(kind):
            return value
        if pa.types.is_list(kind):
            item = next(variables)
            return self.dialect.each(value, item, self._number(item, kind.value_type, variables))
        fields = {field.name: self._number(self.dialect.field(value, field.name), field.type, variables) for field in kind}
        return f"CASE WHEN {value} IS NOT NULL THEN {self.dialect.record(fields)} END"


def _has_u64(kind: Any) -> bool:
    if pa.types.is_list(kind):
        return _has_u64(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_u64(field.type) for field in kind)
    return bool(pa.types.is_uint64(kind))
