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
from dcpinspect.streams.events import FoundEvents
from tests.spark.outputs import here, ran, stored, told
from tests.spark.test_nested import Seeing
from tests.spark.test_part_disputes import streaming as with_gaps
from tests.streams.told import Told, capture, opened

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
            streaming(0, {}),
            streaming(1, dict.fromkeys(range(3, 15), "other")),
            streaming(2, {5: "third"}),
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


def streaming(number: int, others: dict[int, str]) -> Told:
    """Vbuckets 7 and 8 of one history; ``others``: by seqno, keys that differ from those of other
    clients.
    """
    talk = opened(f"c{number}:1", port=50_000 + number)
    for vbucket in (7, 8):
        stream = talk.stream(vbucket, log=[(0xABCD, 0)])
        stream.snapshot(0, 20, "memory", "checkpoint")
        for seqno in range(1, 21):
            stream.mutation(seqno, others.get(seqno, f"k{seqno}"))
    return talk


def test_contradictions_of_connections_in_several_parts_are_those_of_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PART_BYTES", 1)
    monkeypatch.setattr(plan, "PARTS_A_PROCESSOR", 100)
    given: list[FoundEvents] = []
    look = run_tables._find_events

    def watched(*one: Any) -> FoundEvents:
        given.append(look(*one))
        return given[-1]

    monkeypatch.setattr(run_tables, "_find_events", watched)
    path = tmp_path / "three.pcap"
    path.write_bytes(
        capture(
            streaming(0, {}),
            streaming(1, dict.fromkeys(range(3, 15), "other")),
            streaming(2, {5: "third"}),
        )
    )
    done = ran(tmp_path / "out", path)
    assert done.parts == 3
    found = stored(tmp_path / "out", cut=False)
    assert found == told(path, cut=False)
    assert sum(row["rule"] == "diverging-history" for row in found["findings"]) > 0
    assert [max(len(one.stream_events(stream)) for stream in range(6)) for one in given] == [
        4
    ]  # those that findings show
    assert not list((tmp_path / "out").rglob("*.changes"))
