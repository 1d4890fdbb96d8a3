"""What DuckDB answers over the tables of a pipeline is what Spark answers, and nothing else is in
its reach.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark.duckdb_sql import TableQuery
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.spark_filter import duck_sql, filter_sql
from tests import builders
from tests.peers.truth import SAMPLES
from tests.spark.outputs import of_spark, ran

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = (
    "select name, count(*) n, max(by_seqno) top, min(cas) least from messages group by name",
    (
        "select connection, vbucket, count(distinct key) n, sum(length) bytes from messages where "
        "by_seqno > 5 group by connection, vbucket"
    ),
    "select count(*) n from messages where end_seqno = 18446744073709551615",
    (
        "select m.row, r.status_name from messages m join messages r on r.request_row = m.row "
        "where r.status <> 0"
    ),
    (
        "select capture_point, rule, count(*) n from findings f join connections c on f.connection "
        "= c.connection group by all"
    ),
    "select s.vbucket, s.verdict, m.time from streams s join messages m on m.row = s.open_row",
    "select vbucket, cause, sum(width) seqnos from gaps group by all",
    (
        "select distinct vbucket_uuid from streams where vbucket_uuid like '0x%' order by "
        "vbucket_uuid desc limit 3"
    ),
    "select vbucket, end_seqno, end_seqno_bits from messages where end_seqno is not null",
    (
        "with top as (select vbucket, max(by_seqno) top from messages group by vbucket) select * "
        "from top where top between 2 and 30"
    ),
    (
        "select count(*) n, min(time) a, max(time) z from messages where time < '2030-01-01' and "
        "name like 'dcp%' or key is null"
    ),
    "select file, state, packets, first_time from captures",
    "select count(*) n from bad",
)
FILTERS = (
    "@rollbacks",
    (
        "by_seqno > 5 and not cas = '0x0000000000000000' and key like 'data%' and vbucket in (417, "
        "5) and time > '2020-01-01'"
    ),
    "end_seqno = 18446744073709551615",
    "datatype = 'json'",
)


@pytest.fixture(scope="module", params=["tour.pcapng", "snapshots.pcap"])
def out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """What a pipeline wrote of one capture."""
    folder = tmp_path_factory.mktemp("pipeline") / "out"
    ran(folder, SAMPLES / request.param)
    return Manifest.newest(folder)


def answer(text: str, out: Manifest, *, condition: str | None = None) -> Any:
    with TableQuery(text, out, condition=condition) as query:
        rows = query.result()
        return pa.Table.from_batches(list(rows), schema=rows.schema)


def comparable(table: Any) -> list[str]:
    """Rows in any order, numbers by what they are: engines have sums and averages in types of their
    own.
    """
    return sorted(repr([_plain(value) for value in row.values()]) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    is_number = (
        not isinstance(value, (str, bytes, bool))
        and hasattr(value, "__int__")
        and math.isfinite(value)
    )
    return int(value) if is_number and value == int(value) else value


@pytest.mark.slow
@pytest.mark.spark
def test_both_engines_give_the_same_tables_and_answers(spark: SparkSession, out: Manifest) -> None:
    for text in (*(f"select * from {name}" for name in out.table_names), *QUERIES):  # noqa: S608
        found, wanted = answer(text, out), of_spark(spark, out, text)
        assert found.column_names == wanted.column_names, text
        assert comparable(found) == comparable(wanted), text


@pytest.mark.slow
@pytest.mark.spark
def test_columns_have_the_same_types_in_both(spark: SparkSession, out: Manifest) -> None:
    for name in out.table_names:
        text = f"select * from {name} limit 0"  # noqa: S608
        found, wanted = answer(text, out).schema, of_spark(spark, out, text).schema
        assert {one.name: _kind(one.type) for one in found} == {
            one.name: _kind(one.type) for one in wanted
        }, name


def _kind(kind: Any) -> str:
    """A type but for names within lists and maps, and whether something in it may be null."""
    if pa.types.is_list(kind):
        return f"list<{_kind(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_kind(kind.key_type)}, {_kind(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{one.name}: {_kind(one.type)}' for one in kind)}>"
    # DECIMAL(20, 0), which Spark has for u64, stays so inside of others
    return "uint64" if kind == pa.decimal128(20, 0) else str(kind)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_means_the_same_in_both(text: str, spark: SparkSession, out: Manifest) -> None:
    rows = "select row from messages"
    assert comparable(answer(rows, out, condition=duck_sql(text))) == comparable(
        of_spark(spark, out, rows, condition=filter_sql(text))
    )


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_parquet('{file}')",
        "from '{file}'",
        "select * from glob('{file}')",
        "copy messages to '{file}'",
        "explain analyze copy messages to '{file}'",
        "attach '{file}'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "select * from read_csv('http://127.0.0.1:9/x.csv')",
    ],
)
def test_files_and_the_network_are_out_of_reach(text: str, out: Manifest) -> None:
    (file,) = out.files("captures")
    before = Path(file).read_bytes()
    with pytest.raises(UsageError):
        answer(text.format(file=file), out)
    assert Path(file).read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "drop table messages",
        "create or replace table gaps as select 1",
        "create table gaps as select 1",
    ],
)
def test_tables_cannot_be_dropped_or_replaced(text: str, out: Manifest) -> None:
    with pytest.raises(
        UsageError, match="query: tables of captures cannot be changed; make one of your own"
    ):
        answer(text, out)


def test_tables_of_nothing_are_empty(tmp_path: Path) -> None:
    ran(tmp_path / "out", builders.capture(tmp_path / "silent.pcap"))
    out = Manifest.newest(tmp_path / "out")
    assert answer("select * from messages", out).num_rows == 0
    assert answer("select count(*) n from streams", out).to_pylist() == [{"n": 0}]


def test_a_row_group_without_the_vbucket_is_not_read(out: Manifest) -> None:
    plan = answer("explain select by_seqno from messages where vbucket = 417", out).to_pylist()
    assert '"vbucket" = 417' in str(plan)


def test_a_file_of_a_table_that_is_gone_is_named_and_said_what_to_do(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "rollback.pcap")
    out = Manifest.newest(tmp_path / "out")
    gone = Path(out.files("messages")[0])
    gone.unlink()
    with pytest.raises(UsageError) as told:
        answer("select count(distinct opaque) from messages", out)
    assert str(told.value).startswith(
        f"{tmp_path / 'out'}: cannot be read (IOError: Failed to open local file '{gone}'"
    )
    assert str(told.value).endswith("; run the pipeline into a new directory")
