"""Tables as people, queries and filters read them: every number as what it means.

What Spark keeps as 64 bits is DECIMAL(20, 0) here if it is a number, so that the greatest seqno is greater than the least one, and a
0x-string if it is a CAS or an UUID, as everywhere else. The bits stand behind all other columns under the name with ``_bits``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dcpinspect.spark.schema import columns_of, whole_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBER = "DECIMAL(20, 0)"


def readable(frame: DataFrame, table: str = "messages") -> DataFrame:
    """The same rows with readable columns; ``frame`` has some or all columns of ``table`` as Spark keeps them, and maybe others.

    Raises UsageError for a table that there is not.
    """
    return frame.selectExpr(*expressions(frame.columns, table))


def expressions(columns: list[str], table: str) -> list[str]:
    """What makes these columns of a table readable, in Spark SQL."""
    kinds, bits = columns_of(table), whole_numbers(table)
    shown = [_shown(name, kinds.get(name), bits.get(name)) for name in columns]
    return [*shown, *(f"`{name}` AS `{name}_bits`" for name in columns if name in bits)]


def _shown(name: str, kind: Any, bits: str | None) -> str:
    quoted = "`" + name.replace("`", "``") + "`"
    if bits == "hex64":
        return f"concat('0x', lpad(lower(hex({quoted})), 16, '0')) AS {quoted}"
    if kind is None or not _has_u64(kind):
        return quoted
    return f"{_number(quoted, kind, iter(_VARIABLES))} AS {quoted}"


_VARIABLES = ("x", "y", "z")


def _number(value: str, kind: Any, variables: Iterator[str]) -> str:
    """A value in which u64 have been kept as their bits, with the numbers."""
    if pa.types.is_uint64(kind):
        # 2**64 more, as DECIMAL(21, 0), is within DECIMAL(20, 0) again.
        return f"CAST(CASE WHEN {value} < 0 THEN CAST({value} AS {_NUMBER}) + 18446744073709551616BD ELSE {value} END AS {_NUMBER})"
    if not _has_u64(kind):
        return value
    if pa.types.is_list(kind):
        item = next(variables)
        return f"transform({value}, {item} -> {_number(item, kind.value_type, variables)})"
    parts = (f"'{field.name}', {_number(f'{value}.`{field.name}`', field.type, variables)}" for field in kind)
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(parts)}) END"


def _has_u64(kind: Any) -> bool:
    if pa.types.is_list(kind):
        return _has_u64(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_u64(field.type) for field in kind)
    return bool(pa.types.is_uint64(kind))
