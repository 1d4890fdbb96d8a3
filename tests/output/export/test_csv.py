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
        "span": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    }
    (row,) = csv.reader(io.StringIO(csv_lines(pa.RecordBatch.from_pydict(columns)).decode()))
    assert row[:2] == ["[1,2]", '{"a":null}']
    assert "days=2" in row[2]
