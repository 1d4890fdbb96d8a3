"""CSV that any reader of CSV reads back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.export.csv import DEFAULT_COLUMNS, CsvRows
from dcpinspect.export.json import message_object
from dcpinspect.protocol.encode import encode
from dcpinspect.reading import Reading
from dcpinspect.tables.schema import COLUMNS
from tests import builders
from tests.peers.truth import SAMPLES


def lines(path: Path, columns: tuple[str, ...] = DEFAULT_COLUMNS) -> list[dict[str, str]]:
    rows = CsvRows(columns)
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


@pytest.mark.parametrize("key", ['"', "a,b", "line\nbreak", "=1+1", "\x1b[31m", "é"])
def test_keys_come_back_as_they_were(tmp_path: Path, key: str) -> None:
    path = builders.capture(tmp_path / "key.pcap", server=encode("dcp_mutation", key=key))
    assert [cells["key"] for cells in lines(path, ("row", "key"))] == [key]


def test_bytes_are_digits_and_words_are_separated(tmp_path: Path) -> None:
    message = encode("dcp_snapshot_marker", snapshot_type=["memory", "checkpoint"]) + encode("dcp_mutation", key=b"\xff\x00")
    path = builders.capture(tmp_path / "words.pcap", server=message)
    assert [tuple(cells.values()) for cells in lines(path, ("snapshot_type", "key_bytes"))] == [("memory checkpoint", ""), ("", "ff00")]
