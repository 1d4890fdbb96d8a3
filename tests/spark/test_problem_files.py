"""What several tasks find wrong with messages by themselves is what one finds."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import UsageError
from dcpinspect.findings.checker import Checker
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.reading.joining import ReadingPart
from dcpinspect.reading.reading import Reading
from dcpinspect.spark.problem_files import include_looks, write_looks
from dcpinspect.streams.tracker import Tracker
from tests.spark.cuts import faulty, packets_of, written

pytestmark = pytest.mark.slow

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
