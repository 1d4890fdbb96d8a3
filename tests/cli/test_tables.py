from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.cli.output import opened
from dcpinspect.cli.tables import write_table
from dcpinspect.errors import UsageError
from dcpinspect.export.formats import Format, format_of

TABLE = pa.table(
    {
        "vbucket": pa.array([7, 1023, None], pa.uint16()),
        "seqno": pa.array([2**64 - 1, 0, 5], pa.uint64()),
        "name": ["=evil()", "\x1b[2J", None],
        "words": pa.array([["memory", "disk"], [], None], pa.list_(pa.string())),
        "log": [[{"uuid": "0x01", "seqno": 3}], None, []],
        "time": pa.array([1_700_000_000_000_000_001, None, 0], pa.timestamp("ns", "UTC")),
    }
)


def written(path: Path, table: Any = TABLE, **options: Any) -> Path:
    with opened(str(path), format_of(path.name), []) as output:
        rows = write_table(table, format_of(path.name), output, **options)
    assert rows == 3
    return path


def test_text_is_aligned_and_safe(tmp_path: Path) -> None:
    assert written(tmp_path / "x.txt").read_text("utf-8").splitlines() == [
        "vbucket                 seqno  name     words         log                time",
        "      7  18446744073709551615  =evil()  memory, disk  uuid=0x01 seqno=3  2023-11-14T22:13:20.000000001Z",
        "   1023                     0  \\x1b[2J",
        "                            5                                            1970-01-01T00:00:00.000000000Z",
    ]


def test_json_objects_have_all_keys_and_begin_with_their_contract(tmp_path: Path) -> None:
    first, second, third = json.loads(written(tmp_path / "x.json", schema="dcpinspect.stream/1").read_bytes())
    assert list(first) == ["schema", *TABLE.schema.names]
    assert first == {
        "schema": "dcpinspect.stream/1",
        "vbucket": 7,
        "seqno": 2**64 - 1,
        "name": "=evil()",
        "words": ["memory", "disk"],
        "log": [{"uuid": "0x01", "seqno": 3}],
        "time": "2023-11-14T22:13:20.000000001Z",
    }
    assert (second["words"], second["log"], second["time"], third["vbucket"]) == ([], None, None, None)


def test_ndjson_has_the_same_objects(tmp_path: Path) -> None:
    lines = written(tmp_path / "x.ndjson").read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(written(tmp_path / "x.json").read_bytes())


def test_csv_is_flat_and_runs_nothing(tmp_path: Path) -> None:
    rows = list(csv.reader(io.StringIO(written(tmp_path / "x.csv").read_text("utf-8"), newline="")))
    assert rows[0] == TABLE.schema.names
    assert rows[1][:5] == ["7", "18446744073709551615", "'=evil()", "memory disk", '[{"uuid":"0x01","seqno":3}]']
    assert rows[3] == ["", "5", "", "", "[]", "1970-01-01T00:00:00.000000000Z"]
    assert "=evil()" in written(tmp_path / "y.csv", guard=False).read_text("utf-8").split("\n")[1].split('"')


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
def test_columnar_files_are_the_table(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name)
    if name == "x.parquet":
        found = pyarrow.parquet.read_table(path)
    else:
        found = (pa.ipc.open_stream if name.endswith("s") else pa.ipc.open_file)(path).read_all()
    assert found.equals(TABLE)


def test_batches_may_come_one_by_one(tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, iter(TABLE.to_batches(max_chunksize=1)))
    assert written(tmp_path / "x.json", reader).read_bytes() == written(tmp_path / "y.json").read_bytes()


@pytest.mark.parametrize("format_", [format_ for format_ in Format if not format_.is_binary])
def test_a_table_without_rows_is_still_one(format_: Format, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with opened(None, format_, []) as output:
        assert write_table(TABLE.slice(0, 0), format_, output) == 0
    printed = capsysbinary.readouterr().out.decode()
    names = TABLE.schema.names
    expected = {
        Format.TEXT: "  ".join(names) + "\n",
        Format.JSON: "[]\n",
        Format.NDJSON: "",
        Format.CSV: ",".join(f'"{name}"' for name in names) + "\n",
    }
    assert printed == expected[format_]


@pytest.mark.parametrize("format_", [Format.JSON, Format.PARQUET])
def test_two_columns_of_one_name_are_refused_where_one_would_be_lost(format_: Format, tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with opened(str(tmp_path / "x"), format_, []) as output, pytest.raises(UsageError, match="two columns are called a; give one of them"):
        write_table(table, format_, output)


def test_a_type_that_parquet_does_not_have_is_named(tmp_path: Path) -> None:
    table = pa.table({"span": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with opened(str(tmp_path / "x"), Format.PARQUET, []) as output, pytest.raises(UsageError, match="month_day_nano_interval; cast that"):
        write_table(table, Format.PARQUET, output)
