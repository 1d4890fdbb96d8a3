from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark.places import local_path


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
    ("name", "shown"),
    [
        ("s3a://bucket/x", "s3a://bucket/x"),
        ("hdfs:/x", "hdfs:/x"),
        ("hdfs://node:8020/x", "hdfs://node:8020/x"),
        ("abfss://container@account.dfs/x", "abfss://account.dfs/x"),
        ("s3a://key:secret@bucket/x?token=secret", "s3a://bucket/x"),
        ("file://other/x", "file://other/x"),
        ("gs://b/\x1b", "gs://b/\\x1b"),
    ],
)
def test_other_storage_is_refused_without_its_secrets(name: str, shown: str) -> None:
    with pytest.raises(UsageError) as raised:
        local_path(name, "captures are read")
    assert str(raised.value) == (
        f"{shown}: captures are read at paths that every process sees, and not by URI; mount that storage, and name the path, or file:///PATH"
    )


def test_a_folder_that_an_earlier_version_made_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s3a://bucket").mkdir(parents=True)
    with pytest.raises(UsageError, match="s3a://bucket: tables are"):
        local_path("s3a://bucket", "tables are written")
