"""DuckDB reaches nothing but the tables that it is handed."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dcpinspect.tables.duck import connect

secret = pa.table({"hidden": [1]})


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('{path}')",
        "select * from read_text('{path}')",
        "select * from read_blob('{path}')",
        "select * from read_json('{path}')",
        "select * from read_parquet('{path}')",
        "from '{path}'",
        "select * from glob('/*')",
        "copy (select 1) to '{path}.out'",
        "export database '{path}.d'",
        "attach '{path}.db'",
        "install httpfs",
        "load '{path}'",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "set memory_limit = '100GB'",
        "reset threads",
        "from secret",
        "select * from read_csv('http://127.0.0.1:9/x.csv')",
    ],
)
def test_files_the_network_settings_and_our_variables_are_out_of_reach(query: str, tmp_path: Path) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("a\n1\n")
    with connect() as database, pytest.raises(duckdb.Error):
        database.execute(query.format(path=path)).fetchall()
    assert sorted(tmp_path.iterdir()) == [path]


def test_handed_tables_are_read() -> None:
    with connect(threads=1) as database:
        database.register("given", pa.table({"n": [1, 2]}))
        assert database.execute("select sum(n), current_setting('threads') from given").fetchall() == [(3, 1)]


def test_errors_are_json_with_the_place() -> None:
    with connect() as database, pytest.raises(duckdb.Error) as caught:
        database.execute("select 1, nothing")
    assert json.loads(str(caught.value).partition(": ")[2])["position"] == "10"
