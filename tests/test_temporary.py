from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.errors import SpoolError
from dcpinspect.temporary import (
    LARGE,
    forget,
    large_files,
    mapped,
    named_file,
    new_folder,
    remember,
    remove_all,
    zeros,
)


def test_temporary_files_are_where_the_user_wants_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert large_files() == str(tmp_path)


def test_without_a_wish_they_are_where_files_outlive_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("dcpinspect.temporary._ON_DISK", str(tmp_path))
    assert large_files() == str(tmp_path)
    monkeypatch.setattr("dcpinspect.temporary._ON_DISK", str(tmp_path / "missing"))
    assert Path(large_files()).is_dir()


@pytest.mark.parametrize("rows", [0, 3, LARGE])
def test_a_table_begins_with_zeros_wherever_it_is(rows: int) -> None:
    table = zeros(rows, np.int16)
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


def test_nothing_is_made_where_another_user_could_put_something_in_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    for make in (new_folder, lambda: named_file(".x").__enter__()):
        with pytest.raises(
            SpoolError,
            match=(
                r"/shared: other users can write it; set TMPDIR to a folder that only you can "
                r"write$"
            ),
        ):
            make()
    assert os.listdir(tmp_path / "shared") == []


def test_only_their_owner_can_read_them_and_nothing_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with named_file(".x") as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    folder = Path(new_folder())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "x").write_bytes(b"x")
    kept = tmp_path / "kept"
    for path in (kept, tmp_path / "gone"):
        path.write_bytes(b"x")
        remember(path)
    forget(kept)
    remove_all()
    assert os.listdir(tmp_path) == ["kept"]


def test_nothing_stays_of_a_program_that_an_exception_ends(tmp_path: Path) -> None:
    code = (
        "from dcpinspect.temporary import new_folder\nopen(new_folder() + '/x', "
        "'w').close()\nraise KeyboardInterrupt"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, env=environment)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_interrupted_while_it_is_made_does_not_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make = os.mkdir

    def interrupted(path: str, mode: int) -> None:
        make(path, mode)
        raise KeyboardInterrupt

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        new_folder()
    assert len(os.listdir(tmp_path)) == 1
    remove_all()
    assert os.listdir(tmp_path) == []


def test_a_system_that_cannot_be_written_to_is_called_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(
        SpoolError, match=r"^/var/tmp: cannot be written to; set TMPDIR to a folder with room$"
    ):
        new_folder()
