"""CSV of any table that any reader of CSV reads back."""

from __future__ import annotations

import csv
import io

import pyarrow as pa

from dcpinspect.output.export.csv import csv_lines


def test_numbers_below_zero_stay_numbers() -> None:
    assert csv_lines(pa.RecordBatch.from_pydict({"n": [-1]})) == b"-1\n"


def test_what_has_no_cell_of_its_own_is_json_or_words() -> None:
    columns = {
        "l": [[1, 2]],
        "s": [{"a": None}],
        "words": pa.array([[("error", 1)]], pa.map_(pa.string(), pa.int64())),
        "numbers": pa.array([[(7, 1)]], pa.map_(pa.int64(), pa.int64())),
        "span": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    }
    (row,) = csv.reader(io.StringIO(csv_lines(pa.RecordBatch.from_pydict(columns)).decode()))
    assert row[:4] == ["[1,2]", '{"a":null}', '{"error":1}', "[[7,1]]"]
    assert "days=2" in row[4]
