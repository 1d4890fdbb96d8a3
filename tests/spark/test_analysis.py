from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dcpinspect.reading.joining import ReadingPart
from dcpinspect.reading.reading import Reading
from dcpinspect.spark import scan as scanning
from dcpinspect.spark.analysis import PartTask, UnitPackets, analyse, ids
from dcpinspect.spark.attempts import verify
from dcpinspect.spark.bundles import UnitBundles, group_sizes, read_index

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "tour.pcapng"


def bundled(tmp_path: Path, base: int) -> UnitBundles:
    path = os.fspath(tmp_path / "x")
    scanning.scan(os.fspath(SAMPLE), path)
    return UnitBundles(path, 0, base, sorted(group_sizes(read_index(path))))


def test_bundles_give_a_reading_all_packets_with_their_numbers(tmp_path: Path) -> None:
    packets = UnitPackets(["x"], [bundled(tmp_path, 5000)])
    numbers = np.concatenate([batch.packets for batch in packets])
    assert numbers.tolist() == list(range(5000, 5000 + packets.packets))
    assert [file.name for file in packets.files] == ["x"]
    packets.stop()
    packets.close()


def test_a_part_is_what_a_reading_of_its_packets_knows(tmp_path: Path) -> None:
    work = PartTask(
        "p",
        ["x"],
        [bundled(tmp_path, 0)],
        part=os.fspath(tmp_path / "a/0"),
        messages=os.fspath(tmp_path / "b/0"),
    )
    done = analyse(work)
    part = ReadingPart.from_bytes(Path(done.part).read_bytes())
    with Reading([str(SAMPLE)]) as reading:
        for _ in reading:
            pass
        assert part.messages == done.rows == reading.messages
        first = reading.engine.transport.first_packets.tolist()
        assert ids(reading).tolist() == [0, *first]
    assert part.opened_by.tolist() == first
    assert [Path(path).parent for path in done.messages] == [tmp_path / "b"]
    assert {one.path for one in done.written} == {
        done.part,
        f"{done.part}.few",
        f"{done.part}.gaps",
        f"{done.part}.keys",
        *done.messages,
    }
    verify(done.written)


def test_tasks_that_share_a_part_write_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "BATCH_BYTES", 8 << 10)
    whole = PartTask(
        "p",
        ["x"],
        [bundled(tmp_path, 0)],
        part=os.fspath(tmp_path / "a/0"),
        messages=os.fspath(tmp_path / "b/0"),
        shares=3,
    )
    done = [analyse(replace(whole, share=share)) for share in range(3)]
    assert [bool(one.part) for one in done] == [False, False, True]
    assert min(done[0].rows, done[1].rows) > done[2].rows > 0
    rows = [
        row
        for one in done
        for path in one.messages
        for row in pq.read_table(path)["row"].to_pylist()
    ]
    assert (
        len(rows)
        == len(set(rows))
        == ReadingPart.from_bytes(Path(done[-1].part).read_bytes()).messages
    )
