"""CSV of messages that any reader of CSV reads back."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.output.export.atomic import AtomicFile
from dcpinspect.output.export.csv_rows import (
    DEFAULT_COLUMNS,
    CsvRows,
    _arrow_text,
    _short_text,
    csv_heading,
)
from dcpinspect.output.export.json import message_object
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.schema import COLUMNS
from dcpinspect.tables.short_columns import WITHOUT
from tests import builders
from tests.encode import encode
from tests.peers.truth import SAMPLES


def lines(
    path: Path, columns: tuple[str, ...] = DEFAULT_COLUMNS, *, guard: bool = True
) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "x.csv")
        with AtomicFile(str(output)) as file, Reading([str(path)]) as reading:
            file.guards_csv = guard
            rows = CsvRows(file, columns)
            for batch in reading:
                rows.write(batch, np.arange(len(batch)))
        return list(csv.DictReader(io.StringIO(output.read_bytes().decode(), newline="")))


SHORT = tuple(column.name for column in COLUMNS if column.name not in WITHOUT)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SAMPLES.glob("*.pcap*")) if "large" not in path.name],
    ids=lambda path: path.name,
)
def test_both_ways_of_writing_agree(path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", form == "interpreted")
    with Reading([str(path)]) as reading:
        for batch in reading:
            for rows in (np.arange(len(batch)), np.arange(0, len(batch), 3), np.arange(0)):
                for guard in (True, False):
                    assert _short_text(batch, rows, SHORT, guard=guard) == _arrow_text(
                        batch, rows, SHORT, guard=guard
                    )


@pytest.mark.parametrize(
    "name", ["=1", "+1.pcap", "-1", "@x", "'=1", "'", 'a"b', "a,b", "é=", "\uff1d1"]
)
def test_names_of_files_are_written_alike(tmp_path: Path, name: str) -> None:
    builders.capture(tmp_path / name, server=encode("dcp_mutation", key="k"))
    with Reading([str(tmp_path / name)]) as reading:
        (batch,) = reading
    batch.files = [name]
    rows = np.arange(len(batch))
    for guard in (True, False):
        assert _short_text(batch, rows, ("file", "row"), guard=guard) == _arrow_text(
            batch, rows, ("file", "row"), guard=guard
        )


def test_little_is_written_without_arrow() -> None:
    script = (
        "import sys; from dcpinspect.cli.main import main; "
        f"main(['read', {str(SAMPLES / 'tour.pcapng')!r}, '--format', 'csv', '--columns', "
        "'name,vbucket,by_seqno']); "
        "sys.exit('pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.startswith('"name","vbucket","by_seqno"\n"')


@pytest.mark.parametrize("name", ["tour.pcapng", "capture-loss.pcap"])
def test_cells_are_what_the_json_says(name: str) -> None:
    path = SAMPLES / name
    with Reading([str(path)]) as reading:
        records = [
            message_object(batch, index, fields=False)
            for batch in reading
            for index in range(len(batch))
        ]
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


@pytest.mark.parametrize(
    "key",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff20a", "'=1", "'"],
)
def test_keys_that_a_spreadsheet_would_run_have_an_apostrophe_before_them(
    tmp_path: Path, key: str
) -> None:
    path = builders.capture(
        tmp_path / "key.pcap",
        server=encode("dcp_mutation", key=key) + encode("dcp_mutation", key="plain"),
    )
    assert [cells["key"] for cells in lines(path, ("row", "key"))] == ["'" + key, "plain"]
    assert [cells["key"] for cells in lines(path, ("row", "key"), guard=False)] == [key, "plain"]


def test_names_of_columns_are_quoted() -> None:
    assert csv_heading(["a,b", 'c"d']) == b'"a,b","c""d"\n'


def test_bytes_are_digits_and_words_are_separated(tmp_path: Path) -> None:
    message = encode("dcp_snapshot_marker", snapshot_type=["memory", "checkpoint"]) + encode(
        "dcp_mutation", key=b"\xff\x00"
    )
    path = builders.capture(tmp_path / "words.pcap", server=message)
    assert [tuple(cells.values()) for cells in lines(path, ("snapshot_type", "key_bytes"))] == [
        ("memory checkpoint", ""),
        ("", "ff00"),
    ]
