"""DuckDB, shut in: it computes on the tables that it is handed, and reaches no file, no network and no extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def connect(**settings: str | int) -> duckdb.DuckDBPyConnection:
    """A new database in memory; ``settings`` are DuckDB's own, besides those that shut it in."""
    import duckdb  # deferred: 0.1 s, for who filters or queries

    connection = duckdb.connect(
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",  # else a name that is no table is looked for among the variables of our functions
            "errors_as_json": "true",
            **{name: str(value) for name, value in settings.items()},
        }
    )
    connection.execute("set TimeZone = 'UTC'")
    connection.execute("set lock_configuration = true")
    return connection
