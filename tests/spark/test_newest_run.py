"""The numbers of runs are those of a reading of the same captures, as far as runs count the
same.
"""

from __future__ import annotations

from pathlib import Path

from dcpinspect.output.exposition import Metrics
from dcpinspect.reading.reading import Reading
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.newest_run import NewestRun
from dcpinspect.spark.output_reading import compared
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import ran

SAMPLES = Path(__file__).parents[2] / "sample_captures"
NOT_KEPT = (
    "messages_total",
    "message_bytes_total",
    "answer_seconds",
    "noop_age_seconds",
    "snapshot_seconds",
    "snapshot_timestamp_seconds",
)


def test_numbers_grow_from_run_to_run_to_those_of_a_reading(tmp_path: Path) -> None:
    path = SAMPLES / "rollback.pcap"
    first, last = cut(tmp_path / "ring", packets_of(path), [70])
    ran(tmp_path / "out", first)
    latest = NewestRun(compared(Manifest.newest(tmp_path / "out")))
    metrics = Metrics(latest, with_vbuckets=True)
    before = metrics.snapshot()["dcpinspect_capture_packets_total"]
    ran(tmp_path / "out", last)
    latest.set_results(compared(Manifest.newest(tmp_path / "out")))
    found = metrics.snapshot()
    assert before == [((), 70)]
    with Reading([str(path)]) as reading:
        expected = Metrics(reading, with_vbuckets=True)
        for batch in reading:
            expected.feed(batch)
        wanted = expected.snapshot()
    chosen = [name for name in wanted if not name.endswith(NOT_KEPT)]
    assert {name: sorted(found[name]) for name in chosen} == {
        name: sorted(wanted[name]) for name in chosen
    }
    assert {
        "dcpinspect_rollbacks_total",
        "dcpinspect_gaps_total",
        "dcpinspect_streams_opened_total",
    } <= set(chosen)
