from __future__ import annotations

import json
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.spark.manifest import Manifest
from tests.spark.outputs import ran

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "rollback.pcap"


def test_captures_of_years_ago_leave_without_spark(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    ran(tmp_path / "out", SAMPLE)
    assert main(["pipeline", "expire", out, "--older", "30000d"]) == 0
    assert capfd.readouterr().out.startswith("nothing has changed\n")
    assert main(["pipeline", "expire", out, "--older", "1d"]) == 0
    printed = capfd.readouterr().out
    assert printed.startswith("1 capture taken out because of their age\nrows: 0 connections, ")
    assert printed.endswith(f"tables in {out}, run 2\n")
    assert main(["pipeline", "expire", out, "--older", "1d", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["expired"] == 0
    assert Manifest.newest(out).number == 2
    assert main(["pipeline", "check", out]) == 2
    complaint = (
        f"dcpinspect: nothing was checked: all captures of {out} are expired; run the "
        "pipeline with newer ones\n"
    )
    assert capfd.readouterr() == ("nothing was checked\n", complaint)


def test_an_age_that_is_none_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for age in ("soon", "30"):  # 30 seconds would be all captures
        assert main(["pipeline", "expire", str(tmp_path), "--older", age]) == 2
        assert (
            capfd.readouterr().err
            == f"dcpinspect: --older {age}: write a length of time, as in 30d or 12h\n"
        )
    assert main(["pipeline", "expire", str(tmp_path), "--older", "1d"]) == 2
    assert "no pipeline has written here" in capfd.readouterr().err
