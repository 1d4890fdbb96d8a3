from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.temporary import LARGE, large_files, mapped, room


def test_temporary_files_are_where_the_user_wants_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert large_files() == str(tmp_path)


def test_without_a_wish_they_are_where_files_outlive_a_restart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("dcpinspect.temporary._ON_DISK", str(tmp_path))
    assert large_files() == str(tmp_path)
    monkeypatch.setattr("dcpinspect.temporary._ON_DISK", str(tmp_path / "missing"))
    assert Path(large_files()).is_dir()


@pytest.mark.parametrize("rows", [0, 3, LARGE])
def test_a_table_begins_with_zeros_wherever_it_is(rows: int) -> None:
    table = room(rows, np.int16)
    assert len(table) == rows
    assert not table.any()
    table[1:] = 5


def test_what_is_changed_in_a_mapped_file_stays_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with path.open("r+b") as file:
        view = mapped(file)
    view[0] = ord("x")
    assert (view.tobytes(), path.read_bytes()) == (b"xbc", b"abc")
