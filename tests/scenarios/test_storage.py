"""Runs over storage by URI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dcpinspect.errors import UsageError
from dcpinspect.spark.duck import Query
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.outputs import rows_of
from dcpinspect.spark.source_options import asked
from dcpinspect.spark.source_rows import record_batches
from dcpinspect.spark.units import files_of
from tests.s3 import BUCKET, MARKER, Store, s3
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import ran, stored, told
from tests.spark.test_pipeline import SAMPLES, equal


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    with s3(monkeypatch, tmp_path) as found:
        yield found


def test_captures_in_storage_are_read_as_those_at_paths(store: Store, tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    files = cut(tmp_path / "ring", packets, [150, 320])
    ring = [store.put(f"ring/{path.name}", path.read_bytes()) for path in files]
    for key in ("ring/notes.txt", "ring/.hidden.pcap", "other/deep/x.pcap"):
        store.put(key, b"not a capture")
    assert list(files_of([f"s3a://{BUCKET}/ring/"], without="")) == ring
    assert list(files_of([f"s3a://{BUCKET}/**/*.pcap"], without="")) == [f"s3://{BUCKET}/other/deep/x.pcap", *ring]
    assert list(files_of([f"s3a://{BUCKET}/ring/*_0000?*.pcap", ring[0]], without="")) == ring
    for name in ("none", "ring/*.cap"):
        with pytest.raises(UsageError, match="name captures, patterns or directories of them"):
            files_of([f"s3a://{BUCKET}/{name}"], without="")
    done = ran(tmp_path / "out", ring[0])
    assert (done.captures, done.problems) == (1, [])
    done = ran(tmp_path / "out", f"s3a://{BUCKET}/ring")
    assert (done.captures, done.known, done.problems) == (2, 1, [])
    equal(stored(tmp_path / "out", cut=True), told(written(tmp_path / "whole.pcap", packets), cut=True))
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "credentials")
    assert MARKER.encode() not in everything
    wanted = asked({"path": f"s3a://{BUCKET}/ring"})
    assert sum(len(rows) for part in wanted.parts() for rows in record_batches(wanted, part)) == done.rows["messages"]


def test_outputs_in_storage_are_as_those_at_paths(store: Store, tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    first, *_ = cut(tmp_path / "ring", packets, [150, 320])
    out = f"s3a://{BUCKET}/out"
    with pytest.raises(UsageError, match="no pipeline has written here"):
        Manifest.newest(out)
    assert ran(out, first).captures == 1
    before = Manifest.newest(out)
    with_left = store.put("out/messages/batch=2/left.parquet", b"of a run that did not end")
    assert ran(out, tmp_path / "ring").captures == 2
    equal(stored(out, cut=True), told(written(tmp_path / "whole.pcap", packets), cut=True))
    assert with_left.removeprefix(f"s3://{BUCKET}/") not in store.keys("out/")
    with pytest.raises(UsageError, match="another run has written here since"):
        before.commit()
    with Query("select count(*) n from messages", Manifest.newest(out)) as query:
        assert [row["n"] for batch in query.result() for row in batch.to_pylist()] == [rows_of(Manifest.newest(out))["messages"]]
    there = {"AWS_FORCE_CREDENTIAL_LOAD": "true", "AWS_ALLOW_HTTP": "true"}
    rows = DeltaTable(f"s3://{BUCKET}/out/runs", storage_options=there).to_pyarrow_table()["run"].to_pylist()
    assert sorted(rows) == [1, 2]
    text = b"".join(store.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in store.keys("out/"))
    assert MARKER.encode() not in text
    assert b"AKIAEXAMPLE" not in text
    assert not Path("s3a:").exists()
