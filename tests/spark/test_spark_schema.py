"""What Spark keeps is what the tables say, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import Schema
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.reading.reading import Reading
from dcpinspect.spark.spark_schema import (
    BOUNDED,
    COLUMNS,
    MESSAGES,
    PARTITIONS,
    SCHEMAS,
    TABLES,
    message_rows,
    spark_table,
    spark_type,
    table_schema,
    whole_numbers,
)
from dcpinspect.tables.arrow import record_batch, type_of
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.tables.build import batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOP = 2**64 - 1
NAMES = [column.name for column in COLUMNS]
U64 = st.one_of(st.none(), st.sampled_from((0, 1, 2**63 - 1, 2**63, TOP)), st.integers(0, TOP))


def told(path: Path) -> dict[str, Any]:
    """Every table of a capture, as the engine makes them: Arrow."""
    with Reading([str(path)]) as reading:
        reading.check()
        batches = list(reading)
        messages = [record_batch(one, np.arange(len(one)), NAMES) for one in batches]
        return {
            "messages": pa.Table.from_batches(messages),
            **{name: records.arrow() for name, records in reading.by_name().items()},
        }


def as_written(value: Any, kind: Any, *, hex_: bool = False) -> Any:
    """A value as Spark is to keep it, said in Python."""
    if value is None:
        return None
    if hex_:
        value = int(value, 16)
    if hex_ or pa.types.is_uint64(kind):
        return value - 2**64 if value >= 2**63 else value
    if pa.types.is_list(kind):
        return [as_written(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: as_written(value[field.name], field.type) for field in kind}
    return value


def expected(name: str, table: Any) -> dict[str, list[Any]]:
    columns = {field.name: [None] * len(table) for field in table_schema(name)}
    for field in table.schema:
        is_hex = whole_numbers(name).get(field.name) == "hex64"
        columns[field.name] = [
            as_written(value, field.type, hex_=is_hex) for value in table[field.name].to_pylist()
        ]
    return columns


@pytest.mark.parametrize("capture", ["tour.pcapng", "rollback.pcap"])
def test_every_table_is_kept_with_every_value(capture: str) -> None:
    tables = told(SAMPLES / capture)
    assert set(tables) == set(TABLES)
    for name, table in tables.items():
        assert len(table), name
        found = spark_table(name, table)
        assert found.schema == table_schema(name)
        assert found.to_pydict() == expected(name, table), name


def test_messages_are_kept_as_quickly_as_they_are_made_and_the_same() -> None:
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        for one in reading:
            rows = np.arange(len(one))[::2]
            found = pa.Table.from_batches([message_rows(one, rows, NAMES)])
            assert found.equals(
                spark_table("messages", pa.Table.from_batches([record_batch(one, rows, NAMES)]))
            )


def test_the_greatest_numbers_of_a_message_keep_their_bits() -> None:
    one = batch(
        encode(
            "dcp_stream_req",
            vbucket=7,
            cas=2**63,
            vbucket_uuid=TOP,
            end_seqno=TOP,
            start_seqno=2**63 - 1,
        ),
        encode(
            "dcp_mutation", vbucket=0xFFFF, opaque=0xFFFF_FFFF, cas=TOP, by_seqno=2**63, key=b"\xff"
        ),
    )
    columns = [
        "cas",
        "start_seqno",
        "end_seqno",
        "vbucket_uuid",
        "by_seqno",
        "vbucket",
        "opaque",
        "magic",
        "key",
        "key_bytes",
    ]
    assert message_rows(one, np.arange(2), columns).to_pylist() == [
        dict(
            zip(columns, (-(2**63), 2**63 - 1, -1, -1, None, 7, 0, 0x80, None, None), strict=True)
        ),
        dict(
            zip(
                columns,
                (-1, None, None, None, -(2**63), 0xFFFF, 0xFFFF_FFFF, 0x80, None, b"\xff"),
                strict=True,
            )
        ),
    ]


@given(st.lists(U64), st.integers(0, 3))
def test_any_64_bits_come_back(values: list[int | None], skip: int) -> None:
    wanted = [
        value if value is None else value - 2**64 if value >= 2**63 else value for value in values
    ][skip:]
    numbers = pa.array(values, pa.uint64())[skip:]
    texts = pa.array(
        [value if value is None else f"0x{value:016x}" for value in values], pa.string()
    )[skip:]
    table = pa.table({"by_seqno": numbers, "cas": texts})
    found = spark_table("messages", table)
    assert found["by_seqno"].to_pylist() == found["cas"].to_pylist() == wanted
    assert (
        found["by_seqno"].cast(pa.int64()).combine_chunks().view(pa.uint64()).to_pylist()
        == numbers.to_pylist()
    )


@given(st.lists(st.one_of(st.none(), st.lists(U64))))
def test_so_do_those_within_lists(values: list[list[int | None] | None]) -> None:
    found = spark_table("findings", pa.table({"seqnos": pa.array(values, pa.list_(pa.uint64()))}))[
        "seqnos"
    ].to_pylist()
    assert found == [as_written(value, pa.list_(pa.uint64())) for value in values]


def test_every_column_says_which_of_its_numbers_are_bits() -> None:
    assert whole_numbers("messages")["cas"] == "hex64"
    assert whole_numbers("streams")["requested_end"] == "u64"
    for name in TABLES:
        assert all(
            table_schema(name).field(column).type == pa.int64() for column in whole_numbers(name)
        )
    assert {column for column in NAMES if type_of(column) == pa.uint64()} <= set(
        whole_numbers("messages")
    )


@pytest.mark.spark
def test_spark_takes_every_table_and_gives_it_back(spark: SparkSession) -> None:
    def through(batches: Iterator[Any]) -> Iterator[Any]:
        return batches

    tables = {
        name: spark_table(name, table) for name, table in told(SAMPLES / "tour.pcapng").items()
    }
    longest = max(map(len, tables.values()))
    columns = {  # side by side, so that it is one job
        f"{name} {column}": pa.concat_arrays(
            [*table[column].chunks, pa.nulls(longest - len(table), table[column].type)]
        )
        for name, table in tables.items()
        for column in table.column_names
    }
    written = pa.table(columns)
    found = spark.createDataFrame(written).mapInArrow(through, spark_type(written.schema)).toArrow()
    assert found.column_names == written.column_names
    assert found.to_pydict() == written.to_pydict()
    assert set(tables) == set(TABLES)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_table_can_be_stored_as_delta_and_read_by_spark(name: str) -> None:
    schema = SCHEMAS[name]
    assert [field.name for field in Schema.from_arrow(schema).fields] == schema.names
    assert spark_type(schema).names == schema.names


def test_what_the_log_of_messages_tells_is_a_column() -> None:
    assert {*PARTITIONS, *BOUNDED} <= {*MESSAGES.names}
