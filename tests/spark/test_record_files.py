"""Rows of snapshots and gaps: each part has files of its own, which are written again only where
something in them changes.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import UsageError
from dcpinspect.findings.checker import Checker
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.reading.joining import SET_APART, ReadingPart
from dcpinspect.reading.reading import Reading
from dcpinspect.spark import record_files
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.record_files import include_looks, write_looks
from dcpinspect.streams.tracker import Tracker
from tests.spark.cuts import faulty, packets_of, written
from tests.spark.outputs import ran, stored

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def run(out: Path, ring: Path, *names: str) -> dict[str, set[str]]:
    """The files of each table after a run with these captures, each at a point of its own."""
    for name in names:
        (ring / name).mkdir(parents=True)
        shutil.copy(SAMPLES / name, ring / name)
    ran(out, ring)
    manifest = Manifest.newest(out)
    return {name: set(manifest.files(name)) for name in SET_APART}


def test_a_part_is_written_again_only_where_something_changes_in_it(tmp_path: Path) -> None:
    out, ring = tmp_path / "out", tmp_path / "ring"
    alone = run(out, ring, "loop.pcap")
    two = run(out, ring, "rollback.pcap")  # from now on rows have the names of captures
    three = run(out, ring, "snapshots.pcap")
    for name in SET_APART:
        assert alone[name].isdisjoint(two[name])
        assert two[name] < three[name]
    found = stored(out, cut=True)
    for name in SET_APART:
        assert len(found[name]) == sum(stream[name] for stream in found["streams"])


def test_rows_that_others_have_compacted_are_written_again(tmp_path: Path) -> None:
    found = []
    for name in ("out", "other"):
        run(tmp_path / name, tmp_path / f"ring of {name}", "loop.pcap", "rollback.pcap")
        if name == "out":
            DeltaTable(tmp_path / "out" / "gaps").optimize.compact()
        run(tmp_path / name, tmp_path / f"ring of {name}", "snapshots.pcap")
        found.append(stored(tmp_path / name, cut=True))
    assert found[0] == found[1]


def test_a_run_writes_only_what_is_new_of_other_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("connections", "streams", "vbuckets")
    found = []
    for rows in (4, record_files.ROWS):
        monkeypatch.setattr(record_files, "ROWS", rows)
        out, ring = tmp_path / f"{rows}", tmp_path / f"ring of {rows}"
        run(out, ring, "loop.pcap", "rollback.pcap")
        before = {name: set(Manifest.newest(out).files(name)) for name in names}
        run(out, ring, "snapshots.pcap")
        for name in names:
            files = set(Manifest.newest(out).files(name))
            assert files - before[name]
            assert bool(files & before[name]) == (rows == 4)
        if rows == 4:
            DeltaTable(out / "streams").optimize.compact()
        run(out, ring, "upr.pcap")
        found.append({name: sorted(map(str, of)) for name, of in stored(out, cut=True).items()})
    assert found[0] == found[1]


def test_a_run_that_changes_no_row_of_a_table_makes_no_version_of_it(tmp_path: Path) -> None:
    out, ring = tmp_path / "out", tmp_path / "ring"
    run(out, ring, "loop.pcap", "rollback.pcap")
    before = Manifest.newest(out).tables
    (ring / "empty.pcap").write_bytes((SAMPLES / "loop.pcap").read_bytes()[:24])
    ran(out, ring)
    after = Manifest.newest(out)
    assert after.tables["streams"] == before["streams"]
    assert after.tables["captures"] == before["captures"] + 1


SAMPLE = Path(__file__).parents[2] / "sample_captures" / "tour.pcapng"


def reading_of(path: Path) -> Reading:
    return Reading(open_capture(path, batch_bytes=4096), is_part=True)


def findings(reading: Reading, part: ReadingPart) -> list[Finding]:
    assert part.checker is not None
    return part.checker.findings(reading.engine.links, reading.coverage)


@pytest.mark.parametrize("seed", range(3))
def test_together_they_have_found_what_one_finds(seed: int, tmp_path: Path) -> None:
    path = written(tmp_path / "x.pcap", faulty(random.Random(seed), packets_of(SAMPLE)))
    with reading_of(path) as reading:
        reading.check(RULES)
        batches = sum(1 for _ in reading)
        expected = findings(reading, ReadingPart.from_reading(reading))
    assert len(expected) > 20
    edges = [batches // 3, 2 * batches // 3]
    others = [Checker(Tracker(), RULES) for _ in edges]
    with reading_of(path) as reading:
        reading.check(RULES)
        reading.is_looking = False
        for number, batch in enumerate(reading):
            for other, first, behind in zip(others, (0, edges[0]), edges, strict=True):
                if first <= number < behind:
                    other.gather(batch)
            reading.is_looking = number + 1 >= edges[-1]
        part = ReadingPart.from_reading(reading)
        assert findings(reading, part) != expected
        paths = [
            write_looks(os.fspath(tmp_path / str(number)), one.gathered, None)
            for number, one in enumerate(others)
        ]
        include_looks(part, paths, None)
        assert findings(reading, part) == expected


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.looks"
    with reading_of(SAMPLE) as reading:
        reading.check(RULES)
        assert sum(map(len, reading))
        part = ReadingPart.from_reading(reading)
    path.write_bytes(part.to_bytes())
    with pytest.raises(
        UsageError, match=r"x\.looks: cannot be read \(this is no part: it holds something else\)"
    ):
        include_looks(part, [os.fspath(path)], None)
