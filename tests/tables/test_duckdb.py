"""DuckDB reaches nothing but the tables that it is handed."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dcpinspect.tables.duckdb import connect

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
def test_files_the_network_settings_and_our_variables_are_out_of_reach(
    query: str, tmp_path: Path
) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("a\n1\n")
    with connect() as database, pytest.raises(duckdb.Error):
        database.execute(query.format(path=path)).fetchall()
    assert sorted(tmp_path.iterdir()) == [path]


def test_handed_tables_are_read() -> None:
    with connect(threads=1) as database:
        database.register("given", pa.table({"n": [1, 2]}))
        assert database.execute(
            "select sum(n), current_setting('threads') from given"
        ).fetchall() == [(3, 1)]


def test_errors_are_json_with_the_place() -> None:
    with connect() as database, pytest.raises(duckdb.Error) as caught:
        database.execute("select 1, nothing")
    assert json.loads(str(caught.value).partition(": ")[2])["position"] == "10"


def names_of(what: str) -> list[tuple[str, ...]]:
    return duckdb.connect().execute(what).fetchall()


@pytest.mark.slow
def test_no_function_of_duckdb_reaches_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hidden.csv"
    path.write_text("a,b\nQ7secret,2\n")
    database = connect()
    called = 0
    for name, kind in names_of(
        "select distinct function_name, function_type from duckdb_functions() where "
        "function_name ~ '^[a-z_0-9]+$'"
    ):
        query = {"table": f"from {name}({{}})", "pragma": f"pragma {name}({{}})"}.get(
            kind, f"select {name}({{}})"
        )
        for given in (f"'{path}'", f"'{path}', '{path}'", f"['{path}']"):
            try:
                found = database.execute(query.format(given)).fetchmany(100)
            except duckdb.Error:
                continue
            called += 1
            assert "Q7secret" not in repr(found), name
    assert called > 100
    assert os.listdir(tmp_path) == ["hidden.csv"]


def test_no_setting_of_duckdb_can_be_changed() -> None:
    database = connect()
    before = database.execute("select name, value from duckdb_settings() order by 1").fetchall()
    shut = dict(before)
    for name in (
        "enable_external_access",
        "autoinstall_known_extensions",
        "autoload_known_extensions",
        "allow_unsigned_extensions",
    ):
        assert shut[name] == "false"
    for (name,) in names_of("select name from duckdb_settings()"):
        for value in ("true", "'1'", "'/tmp/x'"):
            for form in (
                f"set {name} = {value}",
                f"set global {name} = {value}",
                f"pragma {name} = {value}",
            ):
                with pytest.raises(duckdb.Error):
                    database.execute(form)
        with suppress(duckdb.Error):  # that of the schema may be, and changes nothing
            database.execute(f"reset {name}")
    assert (
        database.execute("select name, value from duckdb_settings() order by 1").fetchall()
        == before
    )


def test_a_lambda_may_be_written_with_an_arrow_as_with_the_word() -> None:
    database = connect()
    for text in ("x -> x + 1", "lambda x: x + 1"):
        assert database.sql(f"select list_transform([1, 2], {text})").fetchall() == [([2, 3],)]
