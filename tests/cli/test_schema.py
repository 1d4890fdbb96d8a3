from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from dcpinspect.cli.main import main
from dcpinspect.cli.schema import known_tables


@pytest.mark.parametrize("table", known_tables())
def test_every_schema_is_printed_and_is_a_json_schema(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", table]) == 0
    out, err = capsys.readouterr()
    schema = json.loads(out)
    jsonschema.validators.validator_for(schema).check_schema(schema)
    assert schema["$schema"]
    assert err == ""


def test_messages_have_a_schema() -> None:
    assert "message" in known_tables()


@pytest.mark.parametrize(
    ("table", "shown"), [("mesage", "mesage"), ("../message", "../message"), ("\x1b", r"\x1b")]
)
def test_an_unknown_table_is_answered_with_the_known_ones(
    table: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", table]) == 2
    assert capsys.readouterr() == (
        "",
        f"dcpinspect: no schema for '{shown}'; there is one for {', '.join(known_tables())}\n",
    )


def test_a_standard_output_that_is_full_is_named() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "dcpinspect", "schema", "message"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"dcpinspect: standard output: No space left on device")
