"""Runs over storage by URI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dcpinspect.capture.stores import options
from dcpinspect.cli.main import main
from dcpinspect.errors import UsageError
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.source_options import read_options
from dcpinspect.spark.source_rows import record_batches
from dcpinspect.spark.units import files_of
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import ran, stored, told
from tests.spark.test_pipeline import SAMPLES, equal
from tests.stores import KEY, MARKER, STORES, Store, emptied, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=STORES)
def server(request: pytest.FixtureRequest) -> Iterator[Store]:
    with serving(request.param) as found:
        yield found


@pytest.fixture
def store(server: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    with emptied(server, monkeypatch, tmp_path) as found:
        yield found


def test_captures_in_storage_are_read_as_those_at_paths(store: Store, tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    files = cut(tmp_path / "ring", packets, [150, 320])
    ring = [
        store.put(f"ring/{path.name}", path.read_bytes()).replace("s3a:", "s3:") for path in files
    ]
    for key in ("ring/notes.txt", "ring/.hidden.pcap", "other/deep/x.pcap"):
        other = store.put(key, b"not a capture").replace("s3a:", "s3:")
    assert list(files_of([f"{store.root}/ring/"], without="")) == ring
    assert list(files_of([f"{store.root}/**/*.pcap"], without="")) == [other, *ring]
    assert list(files_of([f"{store.root}/ring/*_0000?*.pcap", ring[0]], without="")) == ring
    for name in ("none", "ring/*.cap"):
        with pytest.raises(UsageError, match="name captures, patterns or directories of them"):
            files_of([f"{store.root}/{name}"], without="")
    done = ran(tmp_path / "out", ring[0])
    assert (done.captures, done.problems) == (1, [])
    done = ran(tmp_path / "out", f"{store.root}/ring")
    assert (done.captures, done.known, done.problems) == (2, 1, [])
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )
    without_secrets(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    wanted = read_options({"path": f"{store.root}/ring"})
    assert (
        sum(len(rows) for part in wanted.task_parts() for rows in record_batches(wanted, part))
        == done.rows["messages"]
    )


def test_outputs_in_storage_are_as_those_at_paths(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    first, *others = cut(tmp_path / "ring", packets, [150, 320])
    out = f"{store.root}/out"
    with pytest.raises(UsageError, match="no pipeline has written here"):
        Manifest.newest(out)
    store.put(f"ring/{first.name}", first.read_bytes())
    assert ran(out, f"{store.root}/ring").captures == 1
    before = Manifest.newest(out)
    store.put("out/messages/batch=2/left.parquet", b"of a run that did not end")
    for path in others:
        store.put(f"ring/{path.name}", path.read_bytes())
    store.told(rivals=1)
    # the way to its commit is the same for all, and S3 and Azure are slow
    second: Callable[[], object] = (
        partial(ran, out, f"{store.root}/ring") if store.name == "google" else before.commit
    )
    with pytest.raises(
        UsageError, match=r"^[^\n]*: another run has written here since; run it again$"
    ):
        second()
    assert len(store.refused) == 1
    done = ran(out, f"{store.root}/ring")
    assert (done.captures, done.known) == (2, 1)
    equal(stored(out, cut=True), told(written(tmp_path / "whole.pcap", packets), cut=True))
    assert "out/messages/batch=2/left.parquet" not in store.objects("out/")
    with pytest.raises(UsageError, match="another run has written here since"):
        before.commit()
    assert main(["pipeline", "sql", out, "select count(*) from messages", "-f", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"count_star()"', str(done.rows["messages"])]
    assert main(["pipeline", "check", out]) == 1
    printed = capsys.readouterr()
    assert "✖ bad-stream-range" in printed.out
    folder = Manifest.newest(out).path("runs")
    assert sorted(
        DeltaTable(folder, storage_options=options(folder)).to_pyarrow_table()["run"].to_pylist()
    ) == list(range(1, done.batch + 1))
    without_secrets([*store.objects("out/").values(), "".join(printed).encode()])
    assert not Path(store.root.partition("/")[0]).exists()


def without_secrets(found: Iterator[bytes] | list[bytes]) -> None:
    content = b"".join(found)
    assert content
    for secret in (MARKER, "AKIAEXAMPLE", KEY):
        assert secret.encode() not in content
