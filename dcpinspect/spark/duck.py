"""Queries in DuckDB's SQL over what a pipeline wrote: the tables of ``query``, with the same columns, without Spark.

DuckDB is handed the tables as datasets of Arrow, and reaches nothing else. Arrow reads the columns that a query
needs, and leaves out row groups in which no row can be wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.schema import TABLES
from dcpinspect.spark.stored import CONNECTION_ID
from dcpinspect.spark.views import Dialect, expressions, in_order
from dcpinspect.tables.duck_query import DuckQuery

if TYPE_CHECKING:
    import duckdb


class Query(DuckQuery):
    """One text over the tables of an output directory, and its result."""

    def __init__(self, text: str, manifest: Manifest, *, condition: str | None = None) -> None:
        """``condition``: of ``messages`` only those are there for which it is true, which ``duck_sql`` has made of a filter."""
        super().__init__(text, manifest.table_names)
        for name in manifest.table_names:
            table = self._table(manifest, name)
            if name == "messages" and condition is not None:
                table = table.filter(condition)
            table.create_view(name)

    def _table(self, manifest: Manifest, name: str) -> duckdb.DuckDBPyRelation:
        """A table with readable columns: those that it has elsewhere, then what the pipeline knows besides, then bits."""
        if name == "messages":
            numbers = self._stored(manifest, "connections").project(f'{CONNECTION_ID.name}, "connection"')
            found = self._stored(manifest, name).join(numbers, CONNECTION_ID.name, how="left")
        else:
            found = self._stored(manifest, name)
        if name not in TABLES:
            return found
        return found.project(", ".join(expressions(in_order(found.columns, name), name, _Duck())))

    def _stored(self, manifest: Manifest, name: str) -> duckdb.DuckDBPyRelation:
        return self.database.from_arrow(manifest.dataset(name))


class _Duck(Dialect):
    """As DuckDB says it."""

    def name(self, column: str) -> str:
        return '"' + column.replace('"', '""') + '"'

    def field(self, value: str, name: str) -> str:
        return f'{value}."{name}"'

    def hex64(self, bits: str) -> str:
        return f"'0x' || lpad(lower(hex({bits})), 16, '0')"  # concat would leave out a null

    def u64(self, bits: str) -> str:
        return f"CAST(CASE WHEN {bits} < 0 THEN {bits}::HUGEINT + 18446744073709551616 ELSE {bits} END AS UBIGINT)"

    def each(self, values: str, item: str, made: str) -> str:
        return f"list_transform({values}, lambda {item}: {made})"

    def record(self, fields: Mapping[str, str]) -> str:
        made = ", ".join(f'"{name}" := {value}' for name, value in fields.items())
        return f"struct_pack({made})"
