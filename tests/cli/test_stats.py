"""``dcpinspect stats``: every format, filters, several captures, captures with losses and with
nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pyarrow.parquet
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.tables.message_statistics import STATS
from tests.captures import field
from tests.doubled import packets_of, passed_on, written
from tests.peers.truth import SAMPLES

ROLLBACK = str(SAMPLES / "rollback.pcap")
LOSS = str(SAMPLES / "capture-loss.pcap")


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main(["stats", *arguments, "--format", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("sample", ["rollback.pcap", "snapshots.pcap"])
def test_the_statistics_of_a_sample(
    sample: str, capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    assert main(["stats", str(SAMPLES / sample)]) == 0
    golden(f"stats/{Path(sample).stem}.txt", capsys.readouterr().out)


@pytest.mark.slow
def test_every_format_has_the_rows_of_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys, ROLLBACK)
    for row in found:
        jsonschema.validate(row, table_schema(STATS))
    assert main(["stats", ROLLBACK, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert main(["stats", ROLLBACK, "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(found)
    for ending in ("parquet", "arrow"):
        path = tmp_path / f"stats.{ending}"
        assert main(["stats", ROLLBACK, "-o", str(path)]) == 0
        assert path.stat().st_size
    assert pyarrow.parquet.read_table(tmp_path / "stats.parquet").num_rows == len(found)


def test_filters_choose_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (
        ["--vbucket", "7", "--opcode", "dcp_mutation"],
        ["--filter", "vbucket = 7 and name = 'dcp_mutation'"],
    ):
        found = rows(capsys, ROLLBACK, *options)
        assert main(["read", ROLLBACK, *options]) == 0
        messages = len(capsys.readouterr().out.splitlines()) - 1
        assert [(row["name"], row["count"]) for row in found if row["section"] == "commands"] == [
            ("dcp_mutation", messages)
        ]
        assert {row["section"] for row in found} == {
            "commands",
            "collections",
            "throughput",
            "capture",
        }


def test_several_captures_are_counted_as_one_reading(capsys: pytest.CaptureFixture[str]) -> None:
    def commands(*captures: str) -> int:
        return sum(
            int(str(row["count"]))
            for row in rows(capsys, *captures)
            if row["section"] == "commands"
        )

    assert commands(ROLLBACK, LOSS) == commands(ROLLBACK) + commands(LOSS)


def test_what_was_lost_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    found = {row["name"]: row for row in rows(capsys, LOSS) if row["section"] == "capture"}
    assert (found["missing"]["bytes"], found["holes"]["count"], found["skipped"]["bytes"]) == (
        3067,
        5,
        117,
    )
    assert found["captured"]["bytes"] == sum(
        int(str(found[name]["bytes"]))
        for name in ("decoded", "skipped", "unfinished", "not decodable", "duplicate", "late")
    )


def test_the_window_of_a_connection_that_lost_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        row for row in rows(capsys, str(SAMPLES / "snapshots.pcap")) if row["section"] == "flow"
    ]
    assert [(row["name"], row["connection"], row["bytes"]) for row in found] == [
        ("window", 1, 7000),
        ("most outstanding", 1, 3684),
    ]


def test_bad_usage_and_a_capture_without_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", ROLLBACK, "--filter", "vbukcet = 5"]) == 2
    assert capsys.readouterr().err.startswith("dcpinspect: --filter: ")
    path = tmp_path / "empty.pcap"
    path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    assert main(["stats", str(path)]) == 0
    out, err = capsys.readouterr()
    assert (out.splitlines()[0], err) == ("capture", f"dcpinspect: {path}: no packets\n")


def test_what_the_capture_says_was_dropped_has_a_row_with_its_interface(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dropped.pcapng"
    with path.open("wb") as file:
        writer = PcapNgWriter(file)
        number = writer.interface(1, name="eth7")
        for batch in open_capture(ROLLBACK):
            writer.write(batch)
        writer.statistics(number, received=1234, dropped=56, time_ns=0)
    assert [
        (row["name"], row["count"])
        for row in rows(capsys, str(path))
        if "dropped" in str(row["name"])
    ] == [("packets dropped at eth7", 56)]
    assert main(["stats", str(path)]) == 0
    assert any(
        line.split() == ["packets", "dropped", "at", "eth7", "56"]
        for line in capsys.readouterr().out.splitlines()
    )
    assert main(["streams", str(path), "--stats"]) == 0
    assert "56 dropped at eth7 before they were captured" in capsys.readouterr().err
    assert main(["stats", str(path), ROLLBACK]) == 0
    assert f"dropped at eth7 of {path}" in capsys.readouterr().out


def test_messages_of_a_copy_are_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(field("t00-base"))

    def counts(path: Path, *options: str) -> list[tuple[object, ...]]:
        names = ("section", "name", "side", "count", "bytes", "connection")
        return [
            tuple(map(row.get, names))
            for row in rows(capsys, str(path), *options)
            if row["section"] != "capture"
        ]

    for options in ((), ("--opcode", "dcp_mutation")):
        alone = counts(written(tmp_path, packets), *options)
        assert counts(written(tmp_path, passed_on(packets)), *options) == alone
        assert counts(written(tmp_path, passed_on(packets)), *options, "--copies") != alone


def test_a_pipe_is_counted_as_it_came_and_says_so(tmp_path: Path) -> None:
    data = written(tmp_path, passed_on(packets_of(field("t00-base")))).read_bytes()
    for command in ("stats", "io"):
        ran = subprocess.run(
            [sys.executable, "-m", "dcpinspect", command, "-"],
            input=data,
            capture_output=True,
            check=True,
        )
        (line,) = ran.stderr.decode().splitlines()
        assert (
            "counted twice, since a pipe is read once: connection 2; save it to a file first"
            in line
        )
