from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark import files
from dcpinspect.spark.files import local_path, path_or_uri


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


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a.pcap", "a.pcap"),
        ("/a:/b", "/a:/b"),
        ("node1:11210.pcap", "node1:11210.pcap"),
        ("file:///x/a%20b.pcap", "/x/a b.pcap"),
        ("file://localhost/x", "/x"),
        ("file:/x", "/x"),
        ("FILE:///x", "/x"),
    ],
)
def test_paths_and_what_means_one(name: str, path: str) -> None:
    assert local_path(name, "captures are read") == path


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.pcap", "a.pcap"),
        ("file:///x/a%20b.pcap", "/x/a b.pcap"),
        ("s3a://bucket/x y", "s3://bucket/x y"),
        ("hdfs://node:8020/x", "hdfs://node:8020/x"),
        (
            "abfss://container@account.dfs.core.windows.net/x",
            "abfss://container@account.dfs.core.windows.net/x",
        ),
    ],
)
def test_storage_that_is_known(name: str, found: str) -> None:
    assert path_or_uri(name, "captures are read") == found


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("hdfs:/x", "hdfs:/x"),
        ("ftp://u:secret@h/x?token=secret", "ftp://h/x"),
        ("file://other/x", "file://other/x"),
        ("wasb://b/\x1b", "wasb://b/\\x1b"),
    ],
)
def test_other_storage_is_refused_without_its_secrets(name: str, shown: str) -> None:
    with pytest.raises(UsageError) as raised:
        path_or_uri(name, "captures are read")
    known = "captures are read at paths, and by URIs of s3, s3a, s3n, gs, abfs, abfss, hdfs, viewfs"
    assert (
        str(raised.value)
        == f"{shown}: {known}; mount that storage, and name the path, or file:///PATH"
    )


@pytest.mark.parametrize(
    "name",
    [
        "s3a://key:secret@bucket/x",
        "s3a://bucket/x?token=secret",
        "gs://bucket/a/x?a=1&secret=secret",
    ],
)
def test_credentials_in_a_name_are_refused_and_not_shown(name: str) -> None:
    with pytest.raises(
        UsageError,
        match=(
            "captures are read without credentials in the name; put them into the environment or "
            "a profile"
        ),
    ) as raised:
        path_or_uri(name, "captures are read")
    assert "secret" not in str(raised.value)


def test_key_logs_are_at_paths() -> None:
    with pytest.raises(
        UsageError,
        match=(
            r"s3a://bucket/x: key logs are read at paths that every process sees, and not by "
            r"URI; mount"
        ),
    ):
        local_path("s3a://bucket/x", "key logs are read")
