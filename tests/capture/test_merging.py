"""Packets of several files as one reading, in order of time."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from tests import builders
from tests.builders import Recorded


def with_other_blocks(packets: Sequence[Recorded]) -> bytes:
    """A pcapng file with windows that have no packets."""
    block = struct.pack("<II1200xI", 0x0BAD, 1212, 1212)
    rest = b"".join(builders.enhanced(packet) for packet in packets[20:])
    return builders.pcapng(packets[:20]) + 3 * block + rest


@pytest.mark.parametrize("most_open", [64, 2])
@pytest.mark.parametrize("seed", range(6))
def test_files_that_overlap_in_time_are_read_packet_by_packet(
    seed: int, most_open: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packet never comes before one that stands before it in its file; of packets with one time,
    those of the file that begins first come first.
    """
    monkeypatch.setattr("dcpinspect.capture.open.MOST_OPEN", most_open)
    monkeypatch.setattr("dcpinspect.capture.open._LEAST_BATCH", 100)
    chance, files = random.Random(seed), dict[str, list[Recorded]]()
    for name in "abcde":
        times = [chance.randrange(100) + (chance.random() < 0.1) * 30 for _ in range(40)]
        files[name] = [
            Recorded(f"{name}{number}".encode(), 20, 10**18 + time * 1000)
            for number, time in enumerate(sorted(times) if chance.random() < 0.5 else times)
        ]
        form = chance.choice([builders.pcap, with_other_blocks])
        (tmp_path / name).write_bytes(form(files[name]))
    read: list[str] = []
    places: list[tuple[int, int, int]] = []
    with open_capture([tmp_path / name for name in files], batch_bytes=300) as capture:
        for batch in capture:
            assert batch.packets.tolist() == list(range(len(read), len(read) + len(batch)))
            ends = (batch.offset + batch.captured).tolist()
            for start, end in zip(batch.offset.tolist(), ends, strict=True):
                read.append(batch.data[start:end].tobytes().decode())
            in_file = (
                batch.file_offset + batch.offset
                if batch.pieces is None
                else batch.pieces.file_places(batch.offset)
            )
            places += zip(
                *(each.tolist() for each in (batch.files, batch.frames, in_file)), strict=True
            )
        names = [Path(file.name).name for file in capture.files]
        assert [file.packets for file in capture.files] == [40] * 5
        assert capture.packets == 200
        assert capture.is_crowded == (most_open == 2)
    for text, (file, frame, place) in zip(read, places, strict=True):
        data = (tmp_path / names[file]).read_bytes()
        assert (names[file] + str(frame - 1), text) == (
            text,
            data[place : place + len(text)].decode(),
        )
    if most_open == 64:
        order = []
        for number, name in enumerate(names):
            latest = accumulate((packet.time_ns for packet in files[name]), max)
            order += [(time, number, at, f"{name}{at}") for at, time in enumerate(latest)]
        assert read == [text for *_, text in sorted(order)]
