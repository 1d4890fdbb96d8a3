"""Queries over what a pipeline wrote: tables that mean what they mean elsewhere, and nothing that
changes them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.spark_filter import filter_sql
from dcpinspect.spark.spark_sql import SparkQuery
from tests.peers.truth import SAMPLES
from tests.spark.outputs import ran
from tests.spark.test_spark_filter import rows
from tests.spark.test_spark_schema import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TOUR = SAMPLES / "tour.pcapng"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a pipeline wrote of one capture."""
    folder = tmp_path_factory.mktemp("pipeline") / "out"
    ran(folder, TOUR)
    return folder


@pytest.fixture(scope="module")
def query(spark: SparkSession, out: Path) -> SparkQuery:
    return SparkQuery(spark, Manifest.newest(out))


def test_tables_are_those_of_other_outputs(query: SparkQuery) -> None:
    wanted = told(TOUR)["streams"].to_pylist()
    names = (
        "connection, vbucket, stream, requested_start, requested_end, vbucket_uuid, "
        "failover_log, verdict, request_flags"
    )
    found = query.answer(
        f"SELECT {names} FROM streams ORDER BY connection, vbucket, stream"  # noqa: S608
    ).to_pylist()
    keys = names.split(", ")
    assert found == [
        {key: row[key] for key in keys}
        for row in sorted(wanted, key=lambda row: [row[key] for key in keys[:1] + keys[1:3]])
    ]


def test_messages_have_the_numbers_of_their_connections(query: SparkQuery) -> None:
    wanted = told(TOUR)["messages"].to_pylist()
    order = "connection, direction, stream_offset"
    found = query.answer(
        f"select {order}, by_seqno, cas, key, time_ns from messages order by {order}"  # noqa: S608
    )
    assert str(found.schema.field("by_seqno").type) == "uint64"
    ordered = sorted(
        wanted, key=lambda row: (row["connection"], row["direction"], row["stream_offset"])
    )
    assert found.to_pylist() == [
        {name: row[name] for name in found.column_names} for row in ordered
    ]


@pytest.mark.slow
def test_what_others_have_compacted_has_its_partition(
    query: SparkQuery, spark: SparkSession, tmp_path: Path
) -> None:
    ran(tmp_path / "out", TOUR)
    DeltaTable(tmp_path / "out" / "messages").optimize.z_order(["vbucket"])
    text = "select capture_point, day, count(*) n from messages group by all"
    assert SparkQuery(spark, Manifest.newest(tmp_path / "out")).answer(text) == query.answer(text)


def test_a_filter_is_a_condition_too(query: SparkQuery, spark: SparkSession, out: Path) -> None:
    text = (
        "by_seqno > 5 and not cas = '0x0000000000000000' and key like 'data%' and vbucket in "
        "(417, 5) and time > '2020-01-01'"
    )
    narrow = SparkQuery(spark, Manifest.newest(out), condition=filter_sql(text))
    (count,) = narrow.answer("select count(*) n from messages").to_pylist()
    from dcpinspect.reading.reading import Reading

    with Reading([str(TOUR)]) as reading:
        assert count["n"] == sum(len(rows(text, batch)) for batch in reading) > 0
    assert query.answer(f"select count(*) n from messages where {text}").to_pylist() == [count]  # noqa: S608


def test_what_is_no_query_and_changes_nothing(query: SparkQuery, out: Path) -> None:
    shown = {row["tableName"] for row in query.answer("show tables").to_pylist()}
    assert shown == set(Manifest.newest(out).table_names) > {"messages", "captures", "bad"}
    types = {
        row["col_name"]: row["data_type"] for row in query.answer("DESCRIBE streams;").to_pylist()
    }
    assert types["requested_end"] == "decimal(20,0)"
    assert types["vbucket_uuid"] == "string"
    assert len(query.answer("-- a comment\n/* and one */ explain select 1")) == 1


def test_the_order_of_a_query_is_kept(query: SparkQuery) -> None:
    found = query.answer(
        "select connection, count(*) n from messages group by connection order by n desc, "
        "connection"
    ).to_pylist()
    assert found == sorted(found, key=lambda row: (-row["n"], row["connection"]))


@pytest.mark.parametrize(
    "text",
    [
        "insert into messages values (1)",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1",
        "drop view messages",
        "create table t as select 1",
        "set spark.sql.ansi.enabled=false",
        "add jar '/x.jar'",
        "/* select */ cache table messages",
    ],
)
def test_nothing_is_changed(query: SparkQuery, text: str) -> None:
    with pytest.raises(
        PlacedError,
        match=(
            r"query: it begins with select, with or values; .* is none of them, and tables of a "
            r"pipeline are read"
        ),
    ):
        query.answer(text)


@pytest.mark.parametrize(
    ("text", "told_of", "at"),
    [
        (
            "with x as (select 1) insert into y select * from x",
            "Syntax error at or near 'insert'",
            "insert",
        ),
        ("from messages insert into y select *", "Syntax error at or near 'insert'", "insert"),
        ("select 1; drop view messages", "Syntax error at or near ';'", ";"),
        ("select nosuch from messages", "nosuch` cannot be resolved", "nosuch"),
        ("select *\nfrom stream", "there is no table stream; did you mean streams?", "stream"),
        ("select * from text.`/etc/passwd`", "there is no table text./etc/passwd", "text"),
        ("select vbucket / 0 from streams", "Division by zero", "vbucket"),
        ("selec 1", "it begins with select", "selec"),
    ],
)
def test_a_mistake_is_shown_at_its_place(
    query: SparkQuery, text: str, told_of: str, at: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(told_of)) as found:
        query.answer(text)
    assert "\n" not in str(found.value)
    assert isinstance(found.value, PlacedError), found.value
    assert text[found.value.at :].startswith(at), found.value.at


def test_what_is_empty_or_no_text(query: SparkQuery) -> None:
    for text in ("", " ;", "-- nothing"):
        with pytest.raises(UsageError, match="the query is empty; write one"):
            query.answer(text)
    with pytest.raises(UsageError, match="it is not UTF-8"):
        query.answer("select '\udcff'")


def test_settings_and_the_environment_stay_out_of_it(query: SparkQuery) -> None:
    assert query.answer("select '${env:HOME}' x").to_pylist() == [{"x": "${env:HOME}"}]
