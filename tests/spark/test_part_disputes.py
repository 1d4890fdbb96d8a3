"""Tasks find out which streams have gaps in dispute; of others the whole gets none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark import plan
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.output_reading import read_results
from dcpinspect.spark.part_disputes import ENDING
from tests.spark.outputs import Here, Item, Result, ran, stored, told
from tests.streams.told import Told, capture, opened

pytestmark = pytest.mark.slow


def streaming(number: int, left_out: int = 0) -> Told:
    """Vbuckets 6 to 9, with a gap in each snapshot. ``left_out``: a seqno of vbucket 8 that does
    not come.
    """
    talk = opened(f"c{number}:1", port=50_000 + number)
    for vbucket in range(6, 10):
        stream = talk.stream(vbucket, log=[(0xABCD, 0)])
        for first in range(1, 90, 10):
            stream.snapshot(first if first > 1 else 0, first + 8, "memory", "checkpoint")
            for seqno in (first, first + 1, first + 8):
                if (vbucket, seqno) != (8, left_out):
                    stream.mutation(seqno, f"k{seqno}")
    return talk


def test_the_whole_has_gaps_of_streams_that_have_some_in_dispute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PART_BYTES", 1)
    monkeypatch.setattr(plan, "PARTS_A_PROCESSOR", 100)
    path = tmp_path / "three.pcap"
    path.write_bytes(capture(streaming(0), streaming(1, 12), streaming(2)))
    assert ran(tmp_path / "out", path).parts == 3
    found = stored(tmp_path / "out", cut=False)
    assert found == told(path, cut=False)
    assert "item-missing" in {row["rule"] for row in found["findings"]}
    known = read_results(
        Manifest.newest(tmp_path / "out"), few=Here()
    ).merged.tracker.state.known_tables
    assert set(known.streams.vbucket[known.gaps.stream].tolist()) == {8}


def test_shares_are_as_large_as_the_gaps_that_they_read(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(capture(streaming(0), streaming(1, 12)))
    ran(tmp_path / "out", path)
    manifest = Manifest.newest(tmp_path / "out")
    bounds = [Path(f"{manifest.path(one.file)}{ENDING}").stat().st_size for one in manifest.parts]
    seen: list[int] = []

    class Seeing(Here):
        def map(
            self,
            what: str,
            work: Callable[[Item], Result],
            items: Sequence[Item],
            sizes: Sequence[int],
        ) -> list[Result]:
            seen.extend(sizes)
            return super().map(what, work, items, sizes)

    read_results(manifest, few=Seeing())
    assert seen
    assert set(seen) == {sum(bounds)}
    Path(f"{manifest.path(manifest.parts[0].file)}{ENDING}").unlink()
    with pytest.raises(
        UsageError, match=r"a part cannot be read .*; run the pipeline into a new directory"
    ):
        read_results(manifest, few=Here())
