"""Tables in the form for people, queries and filters: every number is readable.

A number that Spark keeps as 64 bits is DECIMAL(20, 0) here, so that the greatest seqno is greater
than the least one. A CAS or a UUID is a 0x-string, as everywhere else. The bits stand behind all
other columns, in columns whose names end in ``_bits``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dcpinspect.errors import UsageError
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.spark_schema import (
    CONNECTION_ID,
    SCHEMAS,
    TABLES,
    columns_of,
    spark_type,
    table_schema,
    whole_numbers,
)
from dcpinspect.text import did_you_mean, escape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_VARIABLES = ("x", "y", "z")


class Dialect:
    """The expressions with which an engine makes numbers readable; this class writes Spark SQL."""

    def name(self, column: str) -> str:
        """Returns a column."""
        return "`" + column.replace("`", "``") + "`"

    def field(self, value: str, name: str) -> str:
        """Returns a field of a record."""
        return f"{value}.`{name}`"

    def hex64(self, bits: str) -> str:
        """Returns the 0x-string of 64 bits."""
        return f"concat('0x', lpad(lower(hex({bits})), 16, '0'))"

    def u64(self, bits: str) -> str:
        """Returns the unsigned number that 64 bits stand for."""
        # the sum with 2**64 is DECIMAL(21, 0), but fits into DECIMAL(20, 0)
        kind = "DECIMAL(20, 0)"
        return (
            f"CAST(CASE WHEN {bits} < 0 THEN CAST({bits} AS {kind}) + 18446744073709551616BD "
            f"ELSE {bits} END AS {kind})"
        )

    def list_of(self, values: str, item: str, made: str) -> str:
        """Returns a list with ``made`` for each item of another list."""
        return f"transform({values}, {item} -> {made})"

    def record(self, fields: Mapping[str, str]) -> str:
        """Returns a record of these fields."""
        made = ", ".join(f"'{name}', {value}" for name, value in fields.items())
        return f"named_struct({made})"

    def column(self, name: str, kind: Any, bits: str | None) -> str:
        """Returns a readable column, under its own name."""
        quoted = self.name(name)
        if bits == "hex64":
            return f"{self.hex64(quoted)} AS {quoted}"
        if kind is None or not _has_u64(kind):
            return quoted
        return f"{self._number(quoted, kind, iter(_VARIABLES))} AS {quoted}"

    def _number(self, value: str, kind: Any, variables: Iterator[str]) -> str:
        """Returns a value of this type with readable unsigned numbers in place of 64 bits."""
        if pa.types.is_uint64(kind):
            return self.u64(value)
        if not _has_u64(kind):
            return value
        if pa.types.is_list(kind):
            item = next(variables)
            return self.list_of(value, item, self._number(item, kind.value_type, variables))
        fields = {
            field.name: self._number(self.field(value, field.name), field.type, variables)
            for field in kind
        }
        return f"CASE WHEN {value} IS NOT NULL THEN {self.record(fields)} END"


def table(spark: SparkSession, manifest: Manifest, name: str) -> DataFrame:
    """Returns a table with readable columns: the columns of captures first, then those that only
    pipelines have, then the 64-bit columns.

    Raises UsageError if there is no such table.
    """
    if name not in manifest.table_names:
        close = (
            did_you_mean(name, manifest.table_names)
            or f"; there are {', '.join(manifest.table_names)}"
        )
        raise UsageError(f"table {escape(name)}: there is none{close}")
    frame = _stored(spark, manifest, name)
    if name == "messages":
        numbers = _stored(spark, manifest, "connections").select(CONNECTION_ID.name, "connection")
        frame = frame.join(numbers.hint("broadcast"), CONNECTION_ID.name, "left")
    if name not in TABLES:
        return frame
    return readable(frame.select(*in_order(frame.columns, name)), name)


def _stored(spark: SparkSession, manifest: Manifest, name: str) -> DataFrame:
    from pyspark.sql.functions import lit

    compacted, schema = manifest.compacted(name), spark_type(SCHEMAS[name])
    own_files = set(manifest.files(name)).difference(*(paths for _, paths in compacted))
    frame = (
        spark.read.schema(schema).parquet(*map(_for_spark, sorted(own_files)))
        if own_files
        else spark.createDataFrame([], schema)
    )
    for values, paths in compacted:
        compacted_frame = spark.read.schema(schema).parquet(*map(_for_spark, paths))
        frame = frame.unionByName(
            compacted_frame.withColumns({column: lit(value) for column, value in values.items()})
        )
    return frame


def _for_spark(path: str) -> str:
    """Returns the name of a file for Hadoop's file systems."""
    return f"s3a{path.removeprefix('s3')}" if path.startswith("s3://") else path


def readable(frame: DataFrame, table: str = "messages") -> DataFrame:
    """Returns the same rows with readable columns. ``frame`` has some or all columns of ``table``
    as Spark keeps them, and perhaps others.

    Raises UsageError if there is no such table.
    """
    return frame.selectExpr(*expressions(frame.columns, table))


def expressions(columns: Sequence[str], table: str, dialect: Dialect | None = None) -> list[str]:
    """Returns the expressions that make a table's columns readable, in a dialect of SQL."""
    dialect = dialect or Dialect()
    kinds, bits = columns_of(table), whole_numbers(table)
    return [
        *(dialect.column(name, kinds.get(name), bits.get(name)) for name in columns),
        *(
            f"{dialect.name(name)} AS {dialect.name(f'{name}_bits')}"
            for name in columns
            if name in bits
        ),
    ]


def in_order(columns: Sequence[str], table: str) -> list[str]:
    """Returns the columns in order: captures' columns first, then those of pipelines alone."""
    capture_columns = [column for column in table_schema(table).names if column in columns]
    return [*capture_columns, *(column for column in columns if column not in capture_columns)]


def _has_u64(kind: Any) -> bool:
    if pa.types.is_list(kind):
        return _has_u64(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_u64(field.type) for field in kind)
    return bool(pa.types.is_uint64(kind))
