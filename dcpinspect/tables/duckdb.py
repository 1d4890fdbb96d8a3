"""Opens DuckDB without files, network and extensions: it computes only on its tables."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def connect(**settings: str | int) -> duckdb.DuckDBPyConnection:
    """Returns a new database in memory. ``settings``: further settings of DuckDB."""
    import duckdb  # deferred: takes 0.1 s, and only filters and queries need it

    connection = duckdb.connect(
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # otherwise an unknown name would be looked up among the variables of our functions
            "python_enable_replacements": "false",
            "errors_as_json": "true",
            **{name: str(value) for name, value in settings.items()},
        }
    )
    connection.execute("set TimeZone = 'UTC'")
    with suppress(duckdb.CatalogException):  # where a later release has no such setting
        # 'x -> …', as documentation and agents write it, is an error otherwise
        connection.execute("set lambda_syntax = 'ENABLE_SINGLE_ARROW'")
    connection.execute("set lock_configuration = true")
    return connection
