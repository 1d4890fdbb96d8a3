"""One filter, two engines, the same rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.spark.spark_filter import filter_sql
from dcpinspect.spark.views import readable
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.presets import FILTERS
from tests.spark import kept
from tests.tables.test_filter_rows import combined, odd, sample, single

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_NAME = [
    *(f"@{name}" for name in FILTERS),
    "by_seqno = 18446744073709551615",
    "by_seqno > 18446744073709551612 and end_seqno is null",
    "18446744073709551615 >= end_seqno and not start_seqno between 0 and 9223372036854775807",
    "cas > '0x8000000000000007' or cas in ('0X8000000000000000', '0x1f')",
    "key = 'it''s' or key = '${env:HOME}' or key = '$'",
    "key like '%!%%' escape '!'",
    "key like 'a_b' and not key like 'a\\b'",
    "key like '%\\\\%' or key = 'a\\b'",
    "key like '_\\_' escape '\\'",
    "key like '__'",
    "key like '%a%_%' or key like '_%t%_:%%e%' or key like '%%%::%:%_%' or not key like '%\\%%%\\'",
    (
        "key like '%!%!_!!%a%b%' escape '!' or name like 'd%p%_%u%n' or name like 'd%_%m%t%x' or "
        "name like '%dcp%m%a%t%'"
    ),
    "key like 'LINE%' or key like 'line%'",
    "key is null and key_bytes is not null",
    "key_bytes >= x'ff' and key_bytes < x'fffe01' or key_bytes = x''",
    "snapshot_type <> 'memory' and snapshot_type in ('disk', 'checkpoint')",
    "time < '2024-04-06T05:34:37.412000123'",
    "failover_log is not null or items is null and seqnos is null",
    "start_seqno < end_seqno and VBUCKET <= by_seqno",
    "not false",
    "not (" * 48 + "vbucket = 5" + ")" * 48,
]


def rows(text: str, messages: MessageBatch) -> list[int]:
    """Those that DuckDB keeps."""
    found: list[int] = messages.row[
        FilterRows(parse_filter(text)).rows(messages, np.arange(len(messages)))
    ].tolist()
    return found


def is_in_spark(case: tuple[str, int, object]) -> bool:
    return {"relative_ns", "request_key", "collection"}.isdisjoint(re.findall(r"\w+", case[0]))


@pytest.fixture(scope="module")
def samples(spark: SparkSession) -> dict[str, MessageBatch]:
    """Messages by the names of temporary views of their readable columns."""
    found = {"sample": sample()[0], "odd": odd()[0]}
    for name, one in found.items():
        readable(kept.messages(spark, one)).cache().createOrReplaceTempView(name)
    return found


def compare(spark: SparkSession, texts: list[str], samples: dict[str, MessageBatch]) -> None:
    """Every text is a column of one query, so that many are quick."""
    for name, one in samples.items():
        columns = ", ".join(
            f"collect_set(CASE WHEN {filter_sql(text)} THEN row END)" for text in texts
        )
        found = spark.sql(f"SELECT {columns} FROM {name}").collect()[0]  # noqa: S608 - that is the test
        for text, kept_rows in zip(texts, found, strict=True):
            assert sorted(kept_rows) == rows(text, one), text


@pytest.mark.spark
def test_spark_keeps_the_rows_that_duckdb_keeps(
    spark: SparkSession, samples: dict[str, MessageBatch]
) -> None:
    compare(spark, BY_NAME, samples)


@pytest.mark.slow
@pytest.mark.spark
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.recursive(single().filter(is_in_spark), combined, max_leaves=5), min_size=40, max_size=60
    )
)
def test_whatever_the_filter(
    spark: SparkSession, samples: dict[str, MessageBatch], cases: list[tuple[str, int, object]]
) -> None:
    compare(spark, [text for text, _, _ in cases], samples)


@pytest.mark.spark
def test_a_pattern_with_many_percent_signs_is_soon_matched(spark: SparkSession) -> None:
    """In Spark's own way this would take longer than the world has stood."""
    frame = spark.range(1).selectExpr("repeat('a', 20000) as key")
    pattern = "%" + "a%" * 12 + "b%_"
    assert frame.where(filter_sql(f"key like '{pattern}'")).count() == 0
    assert frame.where(filter_sql(f"key like '{pattern.replace('b', 'a')}'")).count() == 1


@pytest.mark.spark
def test_no_function_or_setting_of_spark_is_in_a_filter(spark: SparkSession) -> None:
    functions = [row[0] for row in spark.sql("show functions").collect()]
    settings = [row[0] for row in spark.sql("set -v").collect()]
    assert len(functions) > 400
    assert len(settings) > 100
    for name in functions:
        for text in (
            f"{name}(key)",
            f"{name}('/etc/passwd') = 'x'",
            f"key = {name}('x')",
            f"exists (from {name}(1))",
        ):
            with pytest.raises(PlacedError):
                filter_sql(text)
    for name in settings:
        for text in (
            f"set {name} = 1",
            f"`{name}` = 1",
            f"key = ${{{name}}}",
            f"row = 1; set {name} = 1",
        ):
            with pytest.raises(PlacedError):
                filter_sql(text)
        assert "${" not in filter_sql(f"key = '${{{name}}}'")


def test_nothing_that_was_written_is_taken_for_sql() -> None:
    assert filter_sql("key = '\\'' or true --'") == "`key` = '\\\\\\' or true --'"
    assert "$" not in filter_sql("key like '${env:HOME}%'")


def test_other_tables_have_their_own_columns() -> None:
    assert filter_sql(
        "requested_end = 18446744073709551615 and file = 'a.pcap'", "streams"
    ).startswith("(`requested_end` = 1844")
    with pytest.raises(PlacedError, match="no column is called by_seqno"):
        filter_sql("by_seqno = 1", "streams")
    for name in ("relative_ns > 5", "collection = 'produce.fruit'"):
        with pytest.raises(
            UsageError,
            match=f"the tables of Spark and of pipelines have no column {name.split()[0]}",
        ):
            filter_sql(name)
    with pytest.raises(
        UsageError, match=re.escape("table stream: there is none; did you mean streams?")
    ):
        filter_sql("true", "stream")
