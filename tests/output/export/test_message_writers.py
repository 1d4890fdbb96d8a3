"""Messages in the formats of tables; lines and JSON are in test_read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.export import message_writers
from dcpinspect.output.export.json import message_object
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow import arrow_schema
from dcpinspect.tables.schema import COLUMNS
from tests.peers.truth import SAMPLES

TOUR = SAMPLES / "tour.pcapng"


def table(path: Path, *arguments: str) -> Any:
    assert main(["read", str(TOUR), "-o", str(path), *arguments]) == 0
    return (
        pyarrow.parquet.read_table(path)
        if path.suffix == ".parquet"
        else pa.ipc.open_file(path).read_all()
    )


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_all_columns_have_the_types_of_the_schema(name: str, tmp_path: Path) -> None:
    found = table(tmp_path / name).schema
    assert found.remove_metadata().equals(arrow_schema([column.name for column in COLUMNS]))
    assert found.field("time").type == pa.timestamp("us", "UTC")
    assert (found.field("time_ns").type, found.field("by_seqno").type) == (pa.int64(), pa.uint64())
    assert (found.field("key_bytes").type, found.field("flags").type) == (
        pa.binary(),
        pa.list_(pa.string()),
    )


def test_parquet_says_unsigned_and_microseconds_in_its_own_words(tmp_path: Path) -> None:
    table(tmp_path / "x.parquet")
    schema = pyarrow.parquet.ParquetFile(tmp_path / "x.parquet").schema
    types = {
        schema.column(i).name: json.loads(schema.column(i).logical_type.to_json())
        for i in range(len(schema))
    }
    assert types["by_seqno"] == {"Type": "Int", "bitWidth": 64, "isSigned": False}
    assert (types["time"]["timeUnit"], types["time"]["isAdjustedToUTC"]) == ("microseconds", True)


def test_rows_say_what_the_json_says(tmp_path: Path) -> None:
    names = [
        "row",
        "frame",
        "name",
        "vbucket",
        "opaque",
        "cas",
        "key",
        "by_seqno",
        "datatype",
        "time_ns",
    ]
    rows = table(tmp_path / "x.parquet").select(names).to_pylist()
    with Reading([str(TOUR)]) as reading:
        records = [
            message_object(batch, index, fields=False)
            for batch in reading
            for index in range(len(batch))
        ]
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        key = record["key"] if isinstance(record["key"], str) else None
        same = [record[name] for name in ("row", "frame", "name", "vbucket", "opaque", "cas")]
        assert [row[name] for name in names] == [
            *same,
            key,
            record.get("by_seqno"),
            record["datatype"],
            row["time_ns"],
        ]
        assert record["time"].endswith(f".{row['time_ns'] % 10**9:09}Z")


def test_columns_are_those_asked_for_in_that_order(tmp_path: Path) -> None:
    found = table(tmp_path / "x.parquet", "--columns", "name,row", "-n", "2")
    assert found.schema.names == ["name", "row"]
    assert found.num_rows == 2


def test_slices_of_a_batch_are_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_writers, "SLICE", 7)
    assert table(tmp_path / "x.arrow", "--columns", "row").column("row").to_pylist() == list(
        range(1, 451)
    )


def test_no_message_is_a_table_of_no_rows(tmp_path: Path) -> None:
    found = table(tmp_path / "x.parquet", "-n", "0")
    assert (found.num_rows, found.num_columns) == (0, len(COLUMNS))
