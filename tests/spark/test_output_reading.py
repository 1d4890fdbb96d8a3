from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.output.exposition import Metrics
from dcpinspect.reading.reading import Reading
from dcpinspect.spark.bundles import read_keys
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.output_reading import compared, read_results, works_of
from dcpinspect.spark.secrets import Secrets
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import ran

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "tour.pcapng"


def test_parts_are_put_together_as_a_reading_would_tell(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLE)
    found = compared(Manifest.newest(tmp_path / "out")).merged
    with Reading([str(SAMPLE)]) as reading:
        reading.check()
        for _ in reading:
            pass
    assert found.coverage.packets == reading.coverage.packets
    assert found.messages == reading.messages
    rules = ["rollback", "gap-unexplained", "opaque-mismatch"]
    assert found.checker is not None
    told = found.checker.only(rules).findings(found.links, found.coverage)
    with Reading([str(SAMPLE)]) as again:
        again.check(rules)
        for _ in again:
            pass
    words = [  # parts number rows in their own way
        [(one.rule, re.sub(r"\brow \d+", "row", one.message), one.count) for one in found]
        for found in (told, again.findings())
    ]
    assert words[0] == words[1]


def test_a_part_can_be_read_again(tmp_path: Path) -> None:
    done = ran(tmp_path / "out", SAMPLE)
    rows = 0
    manifest = Manifest.newest(tmp_path / "out")
    for work in works_of(manifest, manifest.parts, Secrets()):
        with work.reading() as reading:
            rows += sum(len(batch) for batch in reading)
    assert rows == done.messages


def test_parts_that_are_gone_or_none_are_one_line(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLE)
    manifest = Manifest.newest(tmp_path / "out")
    (part,) = manifest.parts
    Path(manifest.path(part.file)).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(UsageError, match="run the pipeline into a new directory"):
        read_results(manifest)
    (work,) = works_of(manifest, manifest.parts, Secrets())
    for path, ask in (
        (work.bundles[0].path, lambda: list(work.packets())),
        (f"{work.bundles[0].path}.index", lambda: works_of(manifest, manifest.parts, Secrets())),
        (f"{manifest.path(part.file)}.keys", lambda: read_keys(manifest.path(part.file))),
        (f"{tmp_path}/out/runs", lambda: Manifest.newest(tmp_path / "out")),
    ):
        (damaged,) = [Path(path)] if Path(path).is_file() else Path(path).glob("*.parquet")
        damaged.write_bytes(damaged.read_bytes()[:20])
        with pytest.raises(
            UsageError,
            match=(
                rf"^{re.escape(path)}: cannot be read \(.*\); run the pipeline into a new "
                r"directory$"
            ),
        ):
            ask()
    Path(manifest.path(part.file)).unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        read_results(manifest)


SAMPLES = Path(__file__).parents[2] / "sample_captures"
NOT_KEPT = (
    "messages_total",
    "message_bytes_total",
    "answer_seconds",
    "noop_age_seconds",
    "snapshot_seconds",
    "snapshot_timestamp_seconds",
)


@pytest.mark.slow
def test_numbers_grow_from_run_to_run_to_those_of_a_reading(tmp_path: Path) -> None:
    path = SAMPLES / "rollback.pcap"
    first, last = cut(tmp_path / "ring", packets_of(path), [70])
    ran(tmp_path / "out", first)
    latest = compared(Manifest.newest(tmp_path / "out")).merged
    metrics = Metrics(latest)
    before = metrics.snapshot()["dcpinspect_capture_packets_total"]
    ran(tmp_path / "out", last)
    metrics.reading = compared(Manifest.newest(tmp_path / "out")).merged
    found = metrics.snapshot()
    assert before == [((), 70)]
    with Reading([str(path)]) as reading:
        expected = Metrics(reading)
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
