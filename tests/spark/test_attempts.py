"""Several attempts of one task: each has its files, one counts, and nothing else is left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpinspect.errors import OutputError
from dcpinspect.reading.joining import ReadingPart
from dcpinspect.spark.attempts import WrittenFile, attempt, verify
from dcpinspect.spark.bundles import BundleWriter
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.message_files import MessageFiles
from dcpinspect.spark.pipeline import Options, run
from dcpinspect.spark.task_runner import SparkRunner
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import Here, here, stored, told
from tests.spark.test_pipeline import SAMPLES, equal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Item = TypeVar("Item")
Result = TypeVar("Result")


class Speculating(Here):
    """Each item is worked on twice at the same time, and a third time by an attempt that ends in
    the midst of it; the first one counts.
    """

    def __init__(self, kill: Callable[[], Iterator[None]]) -> None:
        self._kill = contextmanager(kill)

    def map(
        self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]
    ) -> list[Result]:
        def one() -> list[Result]:
            return Here().map(what, work, items, sizes)

        with ThreadPoolExecutor(2) as pool:
            first, _ = [coming.result() for coming in [pool.submit(one), pool.submit(one)]]
        with self._kill(), suppress(InterruptedError):
            one()
        return first


def files_below(out: Path) -> set[str]:
    return {
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.is_file() and not {"_manifest", "_delta_log", "runs"} & {*path.parts}
    }


def test_attempts_that_do_not_count_change_nothing_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    cut(tmp_path / "ring", packets, [150, 300])

    def killed(*_: object) -> None:
        raise InterruptedError

    def kill() -> Iterator[None]:
        with monkeypatch.context() as patch:
            for where, name in (
                (MessageFiles, "close"),
                (BundleWriter, "index"),
                (ReadingPart, "to_bytes"),
            ):
                patch.setattr(where, name, killed)
            yield

    @contextmanager
    def speculating() -> Iterator[Speculating]:
        yield Speculating(kill)

    run(Options([str(tmp_path / "ring")], str(tmp_path / "out")), speculating)
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )
    manifest = Manifest.newest(tmp_path / "out")
    named = {
        os.path.relpath(path, tmp_path / "out")
        for name in manifest.tables
        for path in manifest.files(name)
    }
    named |= {name for one in manifest.units for name in (one.bundles, f"{one.bundles}.index")}
    named |= {
        name
        for part in manifest.parts
        for name in (part.file, f"{part.file}.few", f"{part.file}.gaps", f"{part.file}.keys")
    }
    assert files_below(tmp_path / "out") == named


def test_a_file_that_changed_after_its_task_ended_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = cut(tmp_path / "ring", packets_of(SAMPLES / "tour.pcapng"), [150])
    run(Options([str(ring[0])], str(tmp_path / "out")), here)
    before = stored(tmp_path / "out", cut=True)

    def late(files: Sequence[WrittenFile]) -> None:
        chosen = next(one.path for one in files if one.path.endswith(".parquet"))
        os.truncate(chosen, 100)
        verify(files)

    monkeypatch.setattr("dcpinspect.spark.pipeline.verify", late)
    with pytest.raises(OutputError, match=r"\.parquet: is not as its task left it .*run it again"):
        run(Options([str(tmp_path / "ring")], str(tmp_path / "out")), here)
    equal(stored(tmp_path / "out", cut=True), before)


def test_what_is_verified_is_size_rows_and_the_end(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), path)
    said = WrittenFile.from_file(path)
    assert said.footer == 2
    verify([said])
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(OutputError, match="1 rows or batches, and was written with"):
        verify([said])
    Path(path).write_bytes(b"PAR1")
    with pytest.raises(OutputError, match="is not as its task left it"):
        verify([said])
    Path(path).unlink()
    with pytest.raises(OutputError, match="is not as its task left it"):
        verify([said])


@pytest.mark.spark
def test_an_attempt_is_known_by_the_number_that_spark_gives_it(spark: SparkSession) -> None:
    names = SparkRunner(spark, lambda *_: None).map("naming", _named, list(range(4)), [1] * 4)
    assert len({name.partition("-")[2] for name in names}) == 4
    assert all(name.partition("-")[0].isdecimal() for name in names)
    assert "-" not in attempt()


def _named(_: int) -> str:
    return attempt()
