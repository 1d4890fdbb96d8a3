"""What people see of a table: numbers that are what they say, the same as in every other output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from dcpinspect.errors import UsageError
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.spark_schema import TABLES, columns_of, spark_table
from dcpinspect.spark.views import expressions, readable, table
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.spark import kept as frames
from tests.spark.outputs import of_spark, ran
from tests.spark.test_spark_schema import told
from tests.tables.build import batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOP = 2**64 - 1
TOUR = SAMPLES / "tour.pcapng"


@pytest.mark.spark
def test_the_greatest_numbers_are_the_greatest(spark: SparkSession) -> None:
    one = batch(
        encode("dcp_mutation", by_seqno=TOP, cas=TOP, key=b"a"),
        encode("dcp_mutation", by_seqno=2**63, cas=2**63, key=b"b"),
        encode("dcp_mutation", by_seqno=5, cas=5, key=b"c"),
        encode("noop"),
    )
    shown = readable(
        frames.messages(spark, one).selectExpr("by_seqno", "cas", "key", "1 AS `more``or less`")
    )
    assert shown.columns == ["by_seqno", "cas", "key", "more`or less", "by_seqno_bits", "cas_bits"]
    assert [tuple(row) for row in shown.orderBy(shown.by_seqno.desc_nulls_last()).collect()] == [
        (TOP, "0xffffffffffffffff", "a", 1, -1, -1),
        (2**63, "0x8000000000000000", "b", 1, -(2**63), -(2**63)),
        (5, "0x0000000000000005", "c", 1, 5, 5),
        (None, "0x0000000000000000", None, 1, None, 0),
    ]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["messages", "streams", "findings", "vbuckets"])
def test_a_table_says_what_it_says_elsewhere(spark: SparkSession, name: str) -> None:
    table = told(SAMPLES / "rollback.pcap")[name]
    shown = readable(spark.createDataFrame(spark_table(name, table)), name).toArrow()
    wanted = pa.table(
        {
            column: table[column] if column in table.column_names else pa.nulls(len(table))
            for column in columns_of(name)
        }
    )
    assert shown.select(wanted.column_names).to_pydict() == wanted.to_pydict()


@pytest.mark.spark
def test_tables_of_an_output_are_those_of_other_outputs(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran(tmp_path / "out", TOUR)
    out = Manifest.newest(tmp_path / "out")
    order = ["connection", "direction", "stream_offset"]
    names = [*order, "by_seqno", "cas", "key", "time_ns"]
    found = table(spark, out, "messages").select(*names).orderBy(*order).toArrow().to_pylist()
    wanted = sorted(told(TOUR)["messages"].to_pylist(), key=lambda row: [row[k] for k in order])
    assert found == [{name: row[name] for name in names} for row in wanted]
    with pytest.raises(UsageError, match="table stream: there is none; did you mean streams"):
        table(spark, out, "stream")


@pytest.mark.slow
@pytest.mark.spark
def test_what_others_have_compacted_has_its_partition(spark: SparkSession, tmp_path: Path) -> None:
    ran(tmp_path / "out", TOUR)
    text = "select capture_point, day, count(*) n from messages group by all"
    before = of_spark(spark, Manifest.newest(tmp_path / "out"), text)
    DeltaTable(tmp_path / "out" / "messages").optimize.z_order(["vbucket"])
    assert of_spark(spark, Manifest.newest(tmp_path / "out"), text) == before


def test_only_what_needs_it_is_changed() -> None:
    for name in TABLES:
        columns = list(columns_of(name))
        assert len(expressions(columns, name)) >= len(columns)
    assert expressions(["row", "key", "batch"], "messages") == ["`row`", "`key`", "`batch`"]
