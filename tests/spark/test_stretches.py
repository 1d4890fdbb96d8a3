from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcap import FILE_HEADER
from dcpinspect.errors import CaptureError
from dcpinspect.spark import stretches
from dcpinspect.spark.scan import joined, scan
from dcpinspect.spark.stretches import StretchPackets
from tests.builders import pcap
from tests.spark.cuts import packets_of, written

TOUR = Path(__file__).parents[2] / "sample_captures" / "tour.pcapng"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "BYTES", 1)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return written(tmp_path / "whole.pcap", packets_of(TOUR))


@pytest.mark.parametrize("searched", [20_000, stretches.SEARCHED])
def test_stretches_have_every_packet_once_in_any_windows(
    capture: Path, searched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretches, "SEARCHED", searched)
    with open_capture(capture) as whole:
        expected = [batch.time_ns for batch in whole]
    times, at = [], FILE_HEADER
    for stretch in stretches.stretches(str(capture), capture.stat().st_size, 7):
        with StretchPackets(str(capture), stretch, 3000) as packets:
            assert packets.begin == at
            batches = list(packets)
            times += [batch.time_ns for batch in batches]
            assert (
                sum(map(len, batches))
                == packets.packets
                == batches[-1].first_frame - 1 + len(batches[-1])
            )
            at = packets.position
    assert at == capture.stat().st_size
    assert np.concatenate(times).tolist() == np.concatenate(expected).tolist()


def test_what_stretches_tell_is_what_the_capture_tells(capture: Path, tmp_path: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:-5])
    size = capture.stat().st_size
    found = stretches.stretches(str(capture), size, 3)
    reports = [
        scan(str(capture), str(tmp_path / f"{number}"), stretch=stretch)
        for number, stretch in enumerate(found)
    ]
    whole = scan(str(capture), os.fspath(tmp_path / "whole"))
    assert whole.problems
    assert joined(reports) == replace(whole, begin=FILE_HEADER)


def test_guesses_that_were_wrong_are_noticed(tmp_path: Path) -> None:
    """Packets that carry captures: what looks like records is inside of one."""
    inner = pcap(packets_of(TOUR)[:40])
    path = written(
        tmp_path / "outer.pcap",
        [replace(packet, data=inner[24:]) for packet in packets_of(TOUR)[:30]],
    )
    found = stretches.stretches(str(path), path.stat().st_size, 4)
    reports = [
        scan(str(path), str(tmp_path / f"{number}"), stretch=stretch)
        for number, stretch in enumerate(found)
    ]
    assert joined(reports) is None


def test_only_what_can_be_divided_is(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = TOUR.stat().st_size
    assert (
        stretches.stretches(str(TOUR), size, 4)
        == stretches.stretches(str(tmp_path / "none"), size, 4)
        == [(0, size)]
    )
    capture.write_bytes(capture.read_bytes()[:24] + b"\xff" * 5000)
    with pytest.raises(CaptureError, match="no record begins near here"):
        StretchPackets(str(capture), (2000, 5000), 3000)
    monkeypatch.setattr(stretches, "BYTES", 3000)
    assert len(stretches.stretches(str(capture), 5024, 4)) == 1
