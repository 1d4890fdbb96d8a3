"""``check``: its exit status, its selection, its formats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from dcpinspect.cli.main import main
from dcpinspect.export.table_schema import table_schema
from dcpinspect.findings.record import FINDINGS
from dcpinspect.reading import Reading
from tests.peers.truth import SAMPLES

ROLLBACK, TOUR = str(SAMPLES / "rollback.pcap"), str(SAMPLES / "tour.pcapng")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([ROLLBACK], 0),
        ([ROLLBACK, "--fail-on", "warning"], 1),
        ([ROLLBACK, "--fail-on", "warning", "--no-rule", "rollback"], 0),
        ([ROLLBACK, "--fail-on", "note", "--family", "wire"], 0),
        ([TOUR], 1),
        ([TOUR, "--fail-on", "never"], 0),
    ],
)
def test_the_exit_status_says_whether_something_is_as_bad_as_asked(arguments: list[str], status: int) -> None:
    assert main(["check", *arguments]) == status


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "--format", "ndjson"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for record in found:
        jsonschema.validate(record, table_schema(FINDINGS))
    assert main(["check", TOUR, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == found


def test_rules_and_families_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "--rule", "rollback", "--family", "capture", "-f", "ndjson"]) == 0
    assert {json.loads(line)["rule"] for line in capsys.readouterr().out.splitlines()} == {"rollback"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rule", "rolback"], "--rule rolback: no rule has this name; did you mean rollback"),
        (["--family", "streams"], "--family streams: no family has this name; did you mean stream?"),
        (["--family", "xyz"], "--family xyz: no family has this name; there are wire, session, stream,"),
        (["--family", "lint"], "--family lint: what is recommended to clients is only asked with --lint; add --lint"),
        (["--rule", "lint-noop"], "--rule lint-noop: what is recommended to clients is only asked with --lint; add --lint"),
        (["--lint", "--family", "wire"], "--lint: none of its rules is among those that were chosen; add --family lint"),
        (["--no-rule", "x"], "--no-rule x: no rule has this name; docs/rules.md has all\n"),
    ],
)
def test_what_is_no_rule_is_said(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ROLLBACK, *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"dcpinspect: {says}")


def test_lint_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "--fail-on", "never", "-f", "ndjson"]) == 0
    without = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["check", TOUR, "--lint", "--fail-on", "never", "-f", "ndjson"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["family"] for one in found} - {one["family"] for one in without} == {"lint"}
    assert [one for one in found if one["family"] != "lint"] == without
    for record in found:
        jsonschema.validate(record, table_schema(FINDINGS))
    assert main(["check", TOUR, "--lint", "--family", "lint", "--fail-on", "never", "-f", "sarif"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert len(run["results"]) == len(found) - len(without)


def test_lint_has_a_table_for_each_connection_that_was_opened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "--lint", "--rule", "lint-noop", "--rule", "lint-noop-interval"]) == 0
    tables = capsys.readouterr().out.partition("\n\nlint of ")[2].split("\n\nlint of ")
    assert [table.splitlines()[0] for table in tables[:2]] == [
        "connection 2, 10.11.0.1:50001 to 10.11.0.2:11210: 2 PASS, 0 FAIL, 0 NA",
        "connection 3, [fd11::1]:50002 to [fd11::2]:11210: 1 PASS, 1 FAIL, 0 NA",
    ]
    assert tables[1].splitlines()[1:] == [
        "    PASS  lint-noop           enable_noop is true (row 244)",
        "    FAIL  lint-noop-interval  set_noop_interval is not set although noops are on (row 240)",
    ]
    assert main(["check", str(SAMPLES / "midstream.pcap"), "--lint", "--family", "lint"]) == 0
    assert "lint: no connection to speak of" in capsys.readouterr().out
    assert main(["check", TOUR, "--fail-on", "never"]) == 0
    assert "lint" not in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--format", "sarif"], ["-o", "found.sarif"], ["-o", "found.json", "-f", "sarif"]])
def test_sarif_is_asked_for_by_name_or_by_the_name_of_the_file(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", TOUR, *arguments, "--family", "stream"]) == 1
    out = capsys.readouterr().out
    (run,) = json.loads(out or (tmp_path / arguments[1]).read_text("utf-8"))["runs"]
    assert {one["ruleId"] for one in run["results"]} >= {"rollback", "stream-refused"}
    assert {tag for rule in run["tool"]["driver"]["rules"] for tag in rule["properties"]["tags"]} == {"stream"}


def test_packets_around_findings_are_written_the_same_from_files_and_pipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "file.pcapng", tmp_path / "pipe.pcapng"]
    assert main(["check", ROLLBACK, "-w", str(files[0])]) == 0
    told = capsys.readouterr().out
    command = [sys.executable, "-m", "dcpinspect", "check", "-", "-w", str(files[1])]
    done = subprocess.run(command, input=Path(ROLLBACK).read_bytes(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (told.encode(), b"")
    assert files[0].read_bytes() == files[1].read_bytes()
    with Reading([str(files[0])]) as reading:
        assert 10 < sum(len(batch) for batch in reading) < 161


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-w", "-"], "--write -: name a file"),
        (["-w", "same", "-o", "same", "-f", "json"], "--write and --output name the same file"),
        (["-w", ROLLBACK], f"{ROLLBACK}: is the capture that is read"),
        (["-w", "/nowhere/x.pcapng"], "/nowhere/x.pcapng: cannot be written"),
        (["--around", "9"], "--around: is for the packets of -w FILE"),
        (["-f", "sarif", "--no-csv-guard"], "--no-csv-guard: sarif does not use it"),
        (["-f", "serif"], "Invalid value for '--format' / '-f'"),
    ],
)
def test_what_cannot_be_written_is_said(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ROLLBACK, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"dcpinspect: {says}")
    assert captured.out == ""


def test_a_capture_that_cannot_be_read_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.pcap")]) == 2
    assert "none.pcap" in capsys.readouterr().err
