from __future__ import annotations

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dcpinspect.spark import pieces
from dcpinspect.spark.manifest import Manifest, ReadUnit
from dcpinspect.spark.pieces import ManifestPiece, divided
from dcpinspect.spark.scan import ScanReport
from dcpinspect.spark.units import Unit
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import ran
from tests.spark.test_pipeline import SAMPLES

pytestmark = pytest.mark.slow


def test_every_run_is_in_one_piece_and_little_is_written_again() -> None:
    rng = random.Random(1)
    found: list[ManifestPiece] = []
    rows = {0: 0}
    written = 0
    for run in range(1, 200):
        rows[run] = rng.randrange(1, 4)
        changed = {run, run - 1} if rng.random() < 0.2 else {run}
        before, found = found, divided(found, changed, rows, run, "x")
        assert [batch for piece in found for batch in piece.batches] == list(range(run + 1))
        assert all(
            one.run == run for one in found if any(batch in one.batches for batch in changed)
        )
        assert all(one in before or one.run == run for one in found)
        assert len(found) < 12
        written += sum(rows[batch] for one in found if one.run == run for batch in one.batches)
    assert written < 10 * sum(rows.values())


def test_a_piece_has_what_was_written(tmp_path: Path) -> None:
    both = [ManifestPiece(batch, batch, 2, f"{batch}-{batch}-x") for batch in (1, 2)]
    units = [
        ReadUnit(Unit(name, f"/{name}", "p", 5), ScanReport(), batch, 0)
        for name, batch in (("weird\udcff", 2), ("a", 1), ("b", 2))
    ]
    for piece in both:
        pieces.write(str(tmp_path), piece, units)
    assert [(number, one["unit"]["name"]) for number, one in pieces.read(str(tmp_path), both)] == [
        (1, "a"),
        (0, "weird\udcff"),
        (2, "b"),
    ]
    (tmp_path / both[0].state).write_bytes(b"none")
    with pytest.raises(ValueError, match="Zstandard"):
        pieces.read(str(tmp_path), both)


def test_a_run_writes_the_pieces_that_it_changes_and_their_rows_are_those_of_all(
    tmp_path: Path,
) -> None:
    packets, out = packets_of(SAMPLES / "tour.pcapng"), tmp_path / "out"
    files = cut(tmp_path / "ring", packets, list(range(50, 440, 50)))
    damaged = files[3].read_bytes()[:-1]
    files[3].write_bytes(damaged)
    counts = []
    for upto in (6, 7, 8, len(files)):
        before = Manifest.newest(out) if upto > 6 else None
        ran(out, *files[:upto])
        manifest = Manifest.newest(out)
        counts.append(len(manifest.pieces))
        rows = manifest.dataset("captures").to_table().to_pylist()
        assert sorted(row["file"] for row in rows) == sorted(map(str, files[:upto]))
        assert [one.unit.name for one in manifest.units] == list(map(str, files[:upto]))
        assert [row["state"] for row in rows if row["file"] == str(files[3])] == ["damaged"]
        if before is not None and upto < len(files):
            assert before.pieces[0] in manifest.pieces
    assert counts[1] > 1
    DeltaTable(out / "captures").optimize.compact()
    ran(out, SAMPLES / "upr.pcap")
    manifest = Manifest.newest(out)
    assert len(manifest.pieces) == 1
    assert manifest.dataset("captures").count_rows() == len(files) + 1
