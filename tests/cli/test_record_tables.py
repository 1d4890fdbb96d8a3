"""The commands that write one table of streams: same options, every format, their rows those of the tracker."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import jsonschema
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.export.table_schema import table_schema
from dcpinspect.protocol.encode import encode
from dcpinspect.reading import Reading
from dcpinspect.streams.contracts import BY_TABLE
from tests import builders
from tests.peers.truth import SAMPLES

ROLLBACK = str(SAMPLES / "rollback.pcap")
LOSSY = str(SAMPLES / "lossy.pcap")


def ndjson(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "--format", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", BY_TABLE)
@pytest.mark.parametrize("capture", [ROLLBACK, LOSSY])
def test_json_is_the_contract(name: str, capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Reading([capture]) as reading:
        reading.check()
        for _ in reading:
            pass
        expected = json.loads(json.dumps(reading.by_name()[name].records()))
    found = ndjson(capsys, name, capture)
    assert found == expected
    assert found or (name, capture) in (("gaps", LOSSY), ("rollbacks", LOSSY))  # what it lost, it lost of a plain conversation
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


def test_of_several_captures_every_record_says_in_which_one_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(ROLLBACK).read_bytes()
    places, offset = [], 24
    while offset < len(data):
        places.append(offset)
        offset += 16 + int.from_bytes(data[offset + 8 : offset + 12], "little")
    cut = places[len(places) // 2]
    parts = [str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")]
    Path(parts[0]).write_bytes(data[:cut])
    Path(parts[1]).write_bytes(data[:24] + data[cut:])
    begins = {str(one["row"]): one["file"] for one in ndjson(capsys, "read", *parts, "--no-fields")}
    for name, row in (("streams", "open_row"), ("snapshots", "row"), ("gaps", "rows")):
        whole, told = ndjson(capsys, name, ROLLBACK), ndjson(capsys, name, *parts)
        assert [{key: value for key, value in one.items() if key != "file"} for one in told] == whole
        assert {one["file"] for one in told} == set(parts)
        for one in told:
            place = one[row]
            assert isinstance(place, list) or one["file"] == begins[str(place)]
            jsonschema.validate(one, table_schema(BY_TABLE[name]))
    gaps = [one for one in ndjson(capsys, "gaps", *parts) if one["cause"] == "rollback"]
    assert [one["file"] for one in gaps] == [begins[str(rows[0])] for one in gaps if isinstance(rows := one["rows"], list)]
    assert [one["file"] for one in ndjson(capsys, "connections", *parts)] == parts
    assert {one["file"] for one in ndjson(capsys, "vbuckets", *parts)} == {parts[0]}
    assert ndjson(capsys, "streams", *parts, "--filter", f"file = '{parts[1]}'", "-n", "1")[0]["file"] == parts[1]
    assert main(["streams", *parts, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(',"file"')
    assert main(["streams", *parts]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(parts[1])


@pytest.mark.parametrize("command", ["gaps", "vbuckets", "check"])
def test_an_interrupted_table_says_so_and_is_whole(command: str, tmp_path: Path) -> None:
    """The writer of the pipe stops in the middle, and Ctrl-C comes."""
    path, out = tmp_path / "pipe", tmp_path / "out.ndjson"
    os.mkfifo(path)
    capture = (SAMPLES / "rollback.pcap").read_bytes()
    program = [sys.executable, "-m", "dcpinspect", command, str(path), "-o", str(out)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process, path.open("wb") as pipe:
        for piece in (capture[:-800], capture[-800:-400]):  # who takes the second has handed on the first
            pipe.write(piece)
            pipe.flush()
            while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]:
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: this is of what was read until then" in err
    assert [json.loads(line) for line in out.read_text().splitlines()]


def test_saved_filters_and_defaults_of_the_config_file_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[filters]\ntold = 'rollback_seqno is not null'\n[rollbacks]\nfilter = '@told'\n")
    expected = [one for one in ndjson(capsys, "streams", ROLLBACK) if one["rollback_seqno"] is not None]
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    assert ndjson(capsys, "streams", ROLLBACK, "--filter", "@told and vbucket >= 0") == expected != []
    assert ndjson(capsys, "rollbacks", ROLLBACK)
    assert main(["streams", ROLLBACK, "--filter", "@errors"]) == 2
    assert capsys.readouterr().err.startswith("dcpinspect: --filter: no filter is saved as @errors; there are @told")


def test_bytes_of_names_are_escaped_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opening = encode("dcp_open", key=b"foo\xff\x1b\n", flags=["producer"])
    path = str(builders.capture(tmp_path / "x.pcap", client=opening, server=encode("dcp_open", side="response")))
    assert main(["connections", path, "--columns", "name"]) == 0
    assert capsys.readouterr().out == "name\nfoo\\xff\\x1b\\x0a\n"
    assert [one["name"] for one in ndjson(capsys, "connections", path)] == ["foo\\xff\x1b\n"]
