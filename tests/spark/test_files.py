from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dcpinspect.spark import files


def test_files_come_with_their_folders_and_go(tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b/x.arrow"
    assert not files.exists(path)
    assert (files.names_in(f"{tmp_path}/a"), files.below(f"{tmp_path}/a")) == ([], [])
    with (
        files.created(path) as stream,
        pa.ipc.new_file(stream, pa.schema([("n", pa.int64())])) as file,
    ):
        file.write_table(pa.table({"n": [1, 2]}))
    files.write(f"{tmp_path}/a/y", b"content")
    assert (
        files.content(f"{tmp_path}/a/y"),
        files.size(f"{tmp_path}/a/y"),
        files.exists(path),
    ) == (b"content", 7, True)
    assert sorted(files.names_in(f"{tmp_path}/a")) == ["b", "y"]
    assert sorted(files.below(f"{tmp_path}/a")) == ["b/x.arrow", "y"]
    with files.source(path) as source:
        assert pa.ipc.open_file(source).read_all()["n"].to_pylist() == [1, 2]
    files.remove(f"{tmp_path}/a/y")
    files.remove(f"{tmp_path}/a/y")
    files.remove_folder(f"{tmp_path}/a")
    files.remove_folder(f"{tmp_path}/a")
    assert not files.exists(path)
    with pytest.raises(FileNotFoundError):
        files.content(path)


def test_places_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (files.absolute("x/"), files.absolute("s3://b/x/")) == (f"{tmp_path}/x", "s3://b/x")
