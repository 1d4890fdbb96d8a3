from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from tests.peers.truth import SAMPLES

TOUR = str(SAMPLES / "tour.pcapng")


def test_the_name_says_the_format_and_filters_are_those_of_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    assert (
        main(
            [
                "export",
                TOUR,
                "-o",
                str(path),
                "--opcode",
                "dcp_snapshot_marker",
                "--columns",
                "name",
            ]
        )
        == 0
    )
    assert set(pyarrow.parquet.read_table(path).column("name").to_pylist()) == {
        "dcp_snapshot_marker"
    }


def test_it_writes_what_read_writes_and_says_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("read", "export"):
        assert (
            main([command, TOUR, "-o", str(tmp_path / f"{command}.csv"), "--vbucket", "417"]) == 0
        )
    assert (tmp_path / "export.csv").read_bytes() == (tmp_path / "read.csv").read_bytes()
    assert capsys.readouterr() == ("", f"dcpinspect: 108 messages to {tmp_path / 'export.csv'}\n")


def test_data_on_standard_output_stand_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["export", TOUR, "-o", "-", "--format", "csv", "--columns", "row", "--limit", "1"])
        == 0
    )
    assert capsys.readouterr() == ('"row"\n1\n', "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--output is missing; see 'dcpinspect export --help'"),
        (["-o", "x.xml"], "x.xml: no format has names in .xml; end it in .txt, "),
    ],
)
def test_a_file_that_says_no_format_is_asked_for(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", TOUR, *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"dcpinspect: {says}")


def test_defaults_come_from_its_own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[export]\nformat = "csv"\ncolumns = "row"\nlimit = 1\n')
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    assert main(["export", TOUR, "-o", str(tmp_path / "x")]) == 0
    assert (tmp_path / "x").read_text() == '"row"\n1\n'
