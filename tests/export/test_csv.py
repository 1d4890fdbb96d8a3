"""CSV that any reader of CSV reads back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.export.csv import DEFAULT_COLUMNS, CsvRows, csv_heading, csv_lines
from dcpinspect.export.json import message_object
from dcpinspect.protocol.encode import encode
from dcpinspect.reading import Reading
from dcpinspect.tables.schema import COLUMNS
from tests import builders
from tests.peers.truth import SAMPLES


def lines(path: Path, columns: tuple[str, ...] = DEFAULT_COLUMNS, *, guard: bool = True) -> list[dict[str, str]]:
    rows = CsvRows(columns, guard=guard)
    with Reading([str(path)]) as reading:
        text = rows.heading() + b"".join(rows.text(batch, np.arange(len(batch))) for batch in reading)
    return list(csv.DictReader(io.StringIO(text.decode(), newline="")))


@pytest.mark.parametrize("name", ["tour.pcapng", "capture-loss.pcap"])
def test_cells_are_what_the_json_says(name: str) -> None:
    path = SAMPLES / name
    with Reading([str(path)]) as reading:
        records = [message_object(batch, index, fields=False) for batch in reading for index in range(len(batch))]
    for cells, record in zip(lines(path), records, strict=True):
        assert (cells["row"], cells["time"], cells["name"], cells["cas"]) == (
            str(record["row"]),
            record["time"],
            record["name"],
            record["cas"],
        )
        assert cells["vbucket"] == ("" if record["vbucket"] is None else str(record["vbucket"]))
        if "by_seqno" in record:
            assert cells["by_seqno"] == str(record["by_seqno"])
        if isinstance(record["key"], str):
            assert cells["key"] == record["key"]


def test_all_columns_can_be_asked_for() -> None:
    names = tuple(column.name for column in COLUMNS)
    (first, *_) = lines(SAMPLES / "tour.pcapng", names)
    assert tuple(first) == names
    assert first["datatype"] == ""


@pytest.mark.parametrize("key", ['"', "a,b", "line\nbreak", "a=1", "\x1b[31m", "é"])
def test_keys_come_back_as_they_were(tmp_path: Path, key: str) -> None:
    path = builders.capture(tmp_path / "key.pcap", server=encode("dcp_mutation", key=key))
    assert [cells["key"] for cells in lines(path, ("row", "key"))] == [key]


@pytest.mark.parametrize("key", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff20a", "'=1", "'"])
def test_keys_that_a_spreadsheet_would_run_have_an_apostrophe_before_them(tmp_path: Path, key: str) -> None:
    path = builders.capture(tmp_path / "key.pcap", server=encode("dcp_mutation", key=key) + encode("dcp_mutation", key="plain"))
    assert [cells["key"] for cells in lines(path, ("row", "key"))] == ["'" + key, "plain"]
    assert [cells["key"] for cells in lines(path, ("row", "key"), guard=False)] == [key, "plain"]


def test_numbers_below_zero_stay_numbers() -> None:
    assert csv_lines(pa.RecordBatch.from_pydict({"n": [-1]})) == b"-1\n"


def test_names_of_columns_are_quoted() -> None:
    assert csv_heading(["a,b", 'c"d']) == b'"a,b","c""d"\n'


def test_what_has_no_cell_of_its_own_is_json_or_words() -> None:
    columns = {"l": [[1, 2]], "s": [{"a": None}], "span": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}
    (row,) = csv.reader(io.StringIO(csv_lines(pa.RecordBatch.from_pydict(columns)).decode()))
    assert row[:2] == ["[1,2]", '{"a":null}']
    assert "days=2" in row[2]


def test_bytes_are_digits_and_words_are_separated(tmp_path: Path) -> None:
    message = encode("dcp_snapshot_marker", snapshot_type=["memory", "checkpoint"]) + encode("dcp_mutation", key=b"\xff\x00")
    path = builders.capture(tmp_path / "words.pcap", server=message)
    assert [tuple(cells.values()) for cells in lines(path, ("snapshot_type", "key_bytes"))] == [("memory checkpoint", ""), ("", "ff00")]
