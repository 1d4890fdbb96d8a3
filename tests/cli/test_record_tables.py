"""The commands that write one table of streams: same options, every format, their rows those of the tracker."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.export.table_schema import table_schema
from dcpinspect.reading import Reading
from dcpinspect.streams.contracts import BY_TABLE
from tests.peers.truth import SAMPLES

ROLLBACK = str(SAMPLES / "rollback.pcap")
LOSSY = str(SAMPLES / "lossy.pcap")


def ndjson(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "--format", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", BY_TABLE)
@pytest.mark.parametrize("capture", [ROLLBACK, LOSSY])
def test_json_is_the_contract(name: str, capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Reading([capture], track=True) as reading:
        for _ in reading:
            pass
        expected = json.loads(json.dumps(getattr(reading.tables, name).records()))
    found = ndjson(capsys, name, capture)
    assert found == expected
    assert found or (name, capture) == ("gaps", LOSSY)  # what it lost, it lost of a plain conversation
    for record in found:
        jsonschema.validate(record, table_schema(BY_TABLE[name]))
    assert main([name, capture, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.parametrize("name", BY_TABLE)
def test_every_format_has_as_many_rows(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = len(ndjson(capsys, name, ROLLBACK))
    assert main([name, ROLLBACK]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + rows
    assert main([name, ROLLBACK, "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + rows
    path = tmp_path / "table.parquet"
    assert main([name, ROLLBACK, "-o", str(path)]) == 0
    assert pyarrow.parquet.read_table(path).num_rows == rows


def test_conditions_choose_rows_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    found = ndjson(capsys, "gaps", ROLLBACK, "--filter", "cause = 'rollback'", "--vbucket", "7,9", "--columns", "vbucket,width")
    assert found == [{"schema": "dcpinspect.gap/1", "vbucket": 7, "width": 10}, {"schema": "dcpinspect.gap/1", "vbucket": 9, "width": 25}]
    assert len(ndjson(capsys, "gaps", ROLLBACK, "-n", "3")) == 3
    assert {one["connection"] for one in ndjson(capsys, "streams", ROLLBACK, "--connection", "2")} == {2}


def test_columns_without_any_value_are_left_out_of_lines_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", ROLLBACK]) == 0
    assert "sid" not in capsys.readouterr().out.splitlines()[0].split()
    assert main(["streams", ROLLBACK, "--columns", "vbucket,sid"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["vbucket", "sid"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gaps", "--columns", "vbukcet"], "--columns vbukcet: gaps have no such column; did you mean vbucket?"),
        (["connections", "--vbucket", "5"], "--vbucket: a connection has no vbucket"),
        (["streams", "--filter", "verdict = 'done'"], "--filter: verdict is never 'done'"),
        (["streams", "--columns", ","], "--columns: name at least one column; there are connection, vbucket"),
        (["streams", "--format", "json", "--no-csv-guard"], "--no-csv-guard: json does not use it"),
    ],
)
def test_what_a_table_does_not_have_is_said(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([arguments[0], ROLLBACK, *arguments[1:]]) == 2
    assert capsys.readouterr().err.startswith(f"dcpinspect: {says}")


def test_a_capture_without_dcp_is_an_empty_table_and_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    assert main(["streams", str(path)]) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1, f"dcpinspect: {path}: no packets\n")
