from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.spark import message_files
from dcpinspect.spark.message_files import MessageFiles
from dcpinspect.spark.spark_schema import MESSAGES, STORED_COLUMNS, message_rows
from dcpinspect.tables.messages import MessageBatch

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "tour.pcapng"


def batches() -> list[MessageBatch]:
    with Reading([str(SAMPLE)]) as reading:
        return list(reading)


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (1, 1 << 28), (1 << 17, 1 << 28)])
def test_messages_come_back_from_as_many_files_as_there_are(
    rows: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_files, "ROWS", rows)
    monkeypatch.setattr(message_files, "FILE_BYTES", size)
    files = MessageFiles(str(tmp_path / "x"), "node \x1b")
    for batch in batches():
        files.add(batch, batch.connection * 10)
    files.close()
    found = pa.concat_tables(
        [pq.ParquetFile(path).read() for path in files.paths], promote_options="default"
    )
    assert {path.name for path in tmp_path.iterdir()} == {Path(path).name for path in files.paths}
    assert files.rows == len(found)
    for name in found.schema.names:
        assert found.schema.field(name).type == MESSAGES.field(name).type
    assert found["capture_point"].unique().to_pylist() == ["node \\x1b"]
    rows_of = [
        message_rows(batch, np.arange(len(batch)), ("connection", *STORED_COLUMNS))
        for batch in batches()
    ]
    found = found.sort_by("row")
    expected = pa.Table.from_batches(rows_of)
    assert found["connection_id"].to_pylist() == [
        10 * number for number in expected["connection"].to_pylist()
    ]
    for name in STORED_COLUMNS:
        values = found[name].to_pylist() if name in found.schema.names else [None] * len(found)
        assert values == expected[name].to_pylist(), name


def test_messages_of_a_vbucket_stand_together_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_files, "GROUP", 20)
    files = MessageFiles(str(tmp_path / "x"), "p")
    for batch in batches():
        files.add(batch, batch.connection)
    files.close()
    (path,) = files.paths
    file = pq.ParquetFile(path)
    found = file.read(["vbucket", "row"]).to_pylist()
    assert found == sorted(
        found, key=lambda row: (1 << 16 if row["vbucket"] is None else row["vbucket"], row["row"])
    )
    column = file.schema_arrow.names.index("vbucket")
    ranges = [
        file.metadata.row_group(group).column(column).statistics
        for group in range(file.num_row_groups)
    ]
    bounds = [(one.min, one.max) for one in ranges if one.has_min_max]
    assert bounds == sorted(bounds)
    assert sum(low <= 5 <= high for low, high in bounds) < len(bounds)


@pytest.mark.parametrize("rows", [1, 1 << 20])
def test_a_file_has_one_day_and_the_columns_that_are_not_null(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_files, "ROWS", rows)
    files = MessageFiles(str(tmp_path / "x"), "p")
    for batch in batches():
        files.add(batch, batch.connection)
    for batch in batches():
        files.add(replace(batch, time_ns=batch.time_ns + message_files.DAY_NS), batch.connection)
    files.close()
    found = [pq.ParquetFile(path).read() for path in files.paths]
    days = [table["day"].unique().to_pylist() for table in found]
    assert days == sorted(days)
    assert {day for (day,) in days} == {date(2024, 4, 6), date(2024, 4, 7)}
    assert (
        sum(
            len(table) for table, (day,) in zip(found, days, strict=True) if day == date(2024, 4, 7)
        )
        == files.rows / 2
    )
    for table in found:
        assert table.schema.names == [name for name in MESSAGES.names if name in table.schema.names]
        assert [name for name in table.schema.names if table[name].null_count == len(table)] == []
    for (before, one), (after, two) in pairwise(zip(days, found, strict=True)):
        assert before != after or not {*two.schema.names} <= {*one.schema.names}, (
            "it would have gone into the same file"
        )


def test_no_messages_make_no_file(tmp_path: Path) -> None:
    files = MessageFiles(str(tmp_path / "x"), "p")
    files.close()
    assert (files.paths, files.rows, list(tmp_path.iterdir())) == ([], 0, [])


def test_row_groups_begin_with_a_vbucket_where_it_is_not_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_files, "GROUP", 10)
    begun = np.array([0, 4, 8, 13, 15, 40, 44])
    assert message_files._cuts(begun, 0, 50) == [0, 8, 15, 25, 35, 44, 50]
    assert message_files._cuts(begun, 4, 13) == [4, 13]
