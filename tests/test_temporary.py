from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.temporary import large_files


def test_temporary_files_are_where_the_user_wants_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert large_files() == str(tmp_path)


def test_without_a_wish_they_are_where_files_outlive_a_restart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("dcpinspect.temporary._ON_DISK", str(tmp_path))
    assert large_files() == str(tmp_path)
    monkeypatch.setattr("dcpinspect.temporary._ON_DISK", str(tmp_path / "missing"))
    assert Path(large_files()).is_dir()
