"""Bytes of many messages read at once are those that stand in the file, and what is not there as a
whole is left.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.errors import ChangedCaptureError
from dcpinspect.reading.store import gathered
from dcpinspect.reading.store.gathered import WantedBytes, gather
from dcpinspect.reading.store.originals import Originals
from dcpinspect.reading.store.places import Places
from dcpinspect.reading.store.spool import Spool

SEGMENTS = 400
SIZE = 30
HEADER = 12


def column(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def written(folder: Path) -> tuple[Path, Places, bytes]:
    """A file of segments of two flows in turn, each behind a header; the places of them; what was
    said on flow 2.
    """
    said = np.random.default_rng(1).integers(1, 255, SEGMENTS * SIZE, np.uint8).tobytes()
    path = folder / "file"
    with path.open("wb") as file:
        for number in range(SEGMENTS):
            file.write(
                bytes(HEADER)
                + said[number * SIZE : (number + 1) * SIZE]
                + bytes(HEADER)
                + b"x" * SIZE
            )
    step = 2 * (HEADER + SIZE)
    numbers = np.arange(SEGMENTS)
    places = Places(
        np.repeat([2, 3], SEGMENTS).astype(np.uint32),
        np.tile(numbers * SIZE, 2).astype(np.int64),
        np.full(2 * SEGMENTS, SIZE, np.uint32),
        np.zeros(2 * SEGMENTS, np.int32),
        np.concatenate((numbers * step + HEADER, numbers * step + 2 * HEADER + SIZE)).astype(
            np.int64
        ),
    )
    return path, places, said


@pytest.mark.parametrize(("apart", "at_once"), [(1 << 14, 4 << 20), (0, 4 << 20), (1 << 14, 100)])
def test_ranges_are_read_whatever_segments_they_are_in(
    apart: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "APART", apart)
    monkeypatch.setattr(gathered, "AT_ONCE", at_once)
    path, places, said = written(tmp_path)
    originals = Originals(Spool(tmp_path), 1 << 20)
    originals.note(0, str(path))
    random = np.random.default_rng(2)
    start = random.integers(0, len(said) - 200, 300)
    length = random.integers(1, 200, 300)
    target = np.cumsum(length) - length
    data = np.zeros(int(length.sum()), np.uint8)
    assert gather(
        originals, places, WantedBytes(np.full(300, 2), start, length, target), data
    ).all()
    assert data.tobytes() == b"".join(
        said[at : at + size] for at, size in zip(start.tolist(), length.tolist(), strict=True)
    )


def test_a_range_with_a_hole_or_before_the_first_segment_is_left(tmp_path: Path) -> None:
    path, places, said = written(tmp_path)
    originals = Originals(Spool(tmp_path), 1 << 20)
    originals.note(0, str(path))
    kept = np.delete(np.arange(2 * SEGMENTS), [0, 5])
    few = Places(
        *(getattr(places, name)[kept] for name in ("flow", "offset", "length", "file", "place"))
    )
    wanted = WantedBytes(
        column(2, 2, 2, 2),
        column(10, 130, 180, 4 * SIZE),
        column(40, 60, 30, SIZE),
        column(0, 40, 100, 130),
    )
    data = np.zeros(160, np.uint8)
    assert gather(originals, few, wanted, data).tolist() == [False, False, True, True]
    assert data[100:].tobytes() == said[180:210] + said[120:150]


def test_a_file_that_shrank_is_said(tmp_path: Path) -> None:
    path, places, _ = written(tmp_path)
    originals = Originals(Spool(tmp_path), 1 << 20)
    originals.note(0, str(path))
    path.write_bytes(b"")
    with pytest.raises(ChangedCaptureError):
        gather(
            originals,
            places,
            WantedBytes(column(2), column(0), column(60), column(0)),
            np.zeros(60, np.uint8),
        )
