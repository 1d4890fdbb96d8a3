"""``check``: its exit status, its selection, its formats."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dcpinspect.cli.main import main
from dcpinspect.export.table_schema import table_schema
from dcpinspect.findings.record import FINDINGS
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
        (["--no-rule", "x"], "--no-rule x: no rule has this name"),
    ],
)
def test_what_is_no_rule_is_said(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ROLLBACK, *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"dcpinspect: {says}")


def test_a_capture_that_cannot_be_read_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.pcap")]) == 2
    assert "none.pcap" in capsys.readouterr().err
