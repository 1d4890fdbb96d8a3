"""Queries in the SQL of DuckDB over the output of a pipeline: the same tables and columns as in
``query``, but without Spark.

DuckDB gets the tables as datasets of Arrow, and cannot reach anything else. Arrow reads only the
columns that a query needs, and skips row groups that cannot contain wanted rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from dcpinspect.errors import UsageError
from dcpinspect.spark.files import not_read
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.spark_schema import CONNECTION_ID, TABLES
from dcpinspect.spark.views import Dialect, expressions, in_order
from dcpinspect.tables.duck_query import DuckQuery


class TableQuery(DuckQuery):
    """A query over the tables of an output directory, and its result."""

    def __init__(self, text: str, manifest: Manifest, *, condition: str | None = None) -> None:
        """Opens the tables. ``condition``: restricts ``messages``; from ``duck_sql``."""
        super().__init__(text, manifest.table_names)
        self._out = manifest.out
        for name in manifest.table_names:
            table = self._table(manifest, name)
            if name == "messages" and condition is not None:
                table = table.filter(condition)
            table.create_view(name)

    def _table(self, manifest: Manifest, name: str) -> duckdb.DuckDBPyRelation:
        """Returns a table with readable columns: the columns of captures first, then those that
        only pipelines have, then the 64-bit columns.
        """
        relation = self._stored(manifest, name)
        if name == "messages":
            connections = self._stored(manifest, "connections")
            numbers = connections.project(f'{CONNECTION_ID.name}, "connection"')
            relation = relation.join(numbers, CONNECTION_ID.name, how="left")
        if name not in TABLES:
            return relation
        return relation.project(
            ", ".join(expressions(in_order(relation.columns, name), name, _Duck()))
        )

    def _explained(self, text: str, error: Exception) -> UsageError:
        _, is_ours, reason = self._text_and_position(error)[0].partition(_OF_TABLES)
        return not_read(self._out, reason) if is_ours else super()._explained(text, error)

    def _stored(self, manifest: Manifest, name: str) -> duckdb.DuckDBPyRelation:
        return self.database.from_arrow(manifest.dataset(name))


_OF_TABLES = "reading the Arrow source failed: "
"""What DuckDB says before an error of Arrow, which is about a table's file, not the query."""


class _Duck(Dialect):
    """How DuckDB makes numbers readable."""

    def name(self, column: str) -> str:
        return '"' + column.replace('"', '""') + '"'

    def field(self, value: str, name: str) -> str:
        return f'{value}."{name}"'

    def hex64(self, bits: str) -> str:
        return (
            f"'0x' || lpad(lower(hex({bits})), 16, '0')"  # concat would treat null as an empty text
        )

    def u64(self, bits: str) -> str:
        return (
            f"CAST(CASE WHEN {bits} < 0 THEN {bits}::HUGEINT + 18446744073709551616 ELSE {bits} "
            "END AS UBIGINT)"
        )

    def list_of(self, values: str, item: str, made: str) -> str:
        return f"list_transform({values}, lambda {item}: {made})"

    def record(self, fields: Mapping[str, str]) -> str:
        made = ", ".join(f'"{name}" := {value}' for name, value in fields.items())
        return f"struct_pack({made})"
