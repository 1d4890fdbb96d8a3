"""A task puts the parts together: the driver has no streams, and the tables are those of one
reading.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpinspect.spark import nested, pipeline, plan, run_tables
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.output_reading import RunResults
from dcpinspect.spark.task_runner import SparkRunner
from tests.spark.outputs import here, stored, told
from tests.spark.test_nested import Seeing
from tests.spark.test_part_disputes import streaming as with_gaps
from tests.spark.test_part_histories import streaming as with_other_keys
from tests.streams.told import capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "sample_captures"


@pytest.mark.parametrize("kind", ["gaps", "keys"])
@pytest.mark.parametrize("redacts", [False, True])
def test_a_task_that_asks_others_writes_the_tables_of_a_reading(
    kind: str, redacts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which gaps are in dispute, the events around them, and in what streams of one history
    differ.
    """
    monkeypatch.setattr(plan, "PART_BYTES", 1)
    monkeypatch.setattr(plan, "PARTS_A_PROCESSOR", 100)
    monkeypatch.setattr(nested, "is_little", lambda _: False)
    tasks = Seeing()
    talks = [with_gaps(0), with_gaps(1, 12), with_gaps(2)]
    if kind == "keys":
        talks = [
            with_other_keys(0, {}),
            with_other_keys(1, dict.fromkeys(range(3, 15), "other")),
            with_other_keys(2, {5: "third"}),
        ]
    path = tmp_path / "three.pcap"
    path.write_bytes(capture(*talks))
    pipeline.run(
        pipeline.Options([str(path)], str(tmp_path / "out"), redacts=redacts),
        lambda: nullcontext(tasks),
    )
    steps = [what for what, _ in tasks.steps if what.startswith("comparing")]
    assert steps == [*(["comparing gaps"] if kind == "gaps" else []), *["comparing streams"] * 3]
    redactor = Manifest.newest(tmp_path / "out").with_salt(None).salt
    assert stored(tmp_path / "out", cut=False) == told(
        path, cut=False, redactor=redactor.redactor() if redactor else None
    )
    assert not list((tmp_path / "out" / "parts").rglob("together*"))


def test_a_caller_that_wants_the_whole_gets_it_and_the_same_tables(tmp_path: Path) -> None:
    options = pipeline.Options([str(SAMPLES / "tour.pcapng")], str(tmp_path / "out"))
    found: list[RunResults] = []
    pipeline.run(options, here, found.append)
    assert [one.manifest.number for one in found] == [1]
    assert stored(tmp_path / "out", cut=False) == told(SAMPLES / "tour.pcapng", cut=False)
    pipeline.run(options, here, found.append)
    assert len(found) == 1, "there was nothing new"


@pytest.mark.spark
def test_the_driver_puts_nothing_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        pytest.fail("the driver has all streams")

    monkeypatch.setattr(
        run_tables, "read_results", refuses
    )  # tasks are other processes, and do not see it
    tasks = SparkRunner(spark)
    options = pipeline.Options([str(SAMPLES / "tour.pcapng")], str(tmp_path / "out"))

    pipeline.run(options, lambda: nullcontext(tasks))
    assert stored(tmp_path / "out", cut=False) == told(SAMPLES / "tour.pcapng", cut=False)
