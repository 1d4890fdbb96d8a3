from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from dcpinspect.errors import UsageError
from dcpinspect.spark import delta, runs
from dcpinspect.spark.runs import PipelineRun


def run(number: int) -> PipelineRun:
    return PipelineRun(number, "1.0", {"gaps": number, "messages": 2 * number}, f"{number}-x.json")


def test_the_newest_run_is_told_and_others_while_their_tables_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs.newest(str(tmp_path)) is None
    for number in (1, 2):
        runs.commit(str(tmp_path), run(number))
        assert runs.newest(str(tmp_path)) == run(number)
    rows = DeltaTable(tmp_path / "runs").to_pyarrow_table().to_pylist()
    assert [(row["run"], dict(row["tables"])) for row in rows] == [
        (1, {"gaps": 1, "messages": 2}),
        (2, {"gaps": 2, "messages": 4}),
    ]
    monkeypatch.setattr(delta, "KEPT_DAYS", -1)
    runs.commit(str(tmp_path), run(3))
    assert DeltaTable(tmp_path / "runs").to_pyarrow_table()["run"].to_pylist() == [3]


def test_a_run_follows_the_one_before(tmp_path: Path) -> None:
    runs.commit(str(tmp_path), run(1))
    for number in (1, 3):
        with pytest.raises(UsageError, match="another run has written here since; run it again"):
            runs.commit(str(tmp_path), run(number))
    assert runs.newest(str(tmp_path)) == run(1)
