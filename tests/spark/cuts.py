"""Captures cut into files at random packets, with packets moved, doubled and lost around the
cuts.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dcpinspect.capture.open import open_capture
from tests.builders import ETHERNET, Recorded, pcap, pcapng

NANOSECONDS = 0xA1B23C4D


def packets_of(path: Path) -> list[Recorded]:
    """The packets of a capture."""
    found = []
    with open_capture(path) as capture:
        for batch in capture:
            for offset, size, wire, time_ns, link_type in zip(
                *(
                    column.tolist()
                    for column in (
                        batch.offset,
                        batch.captured,
                        batch.wire,
                        batch.time_ns,
                        batch.link_type,
                    )
                ),
                strict=True,
            ):
                found.append(
                    Recorded(batch.data[offset : offset + size].tobytes(), wire, time_ns, link_type)
                )
    return found


def written(path: Path, packets: Sequence[Recorded]) -> Path:
    """A capture of these packets."""
    is_one = (
        len({packet.link_type for packet in packets} | ({ETHERNET} if not packets else set())) == 1
    )
    path.write_bytes(pcap(packets, magic=NANOSECONDS) if is_one else pcapng(packets))
    return path


def cut(folder: Path, packets: Sequence[Recorded], places: Sequence[int]) -> list[Path]:
    """The same packets in files that follow each other, a new one from each of these packets on."""
    folder.mkdir(parents=True)
    edges = [0, *sorted(places), len(packets)]
    return [
        written(folder / f"ring_{number:05}.pcap", packets[start:end])
        for number, (start, end) in enumerate(itertools.pairwise(edges))
    ]


def places(rng: random.Random, packets: int, count: int) -> list[int]:
    """Where to cut; some cuts next to each other, and files may be empty."""
    return sorted(rng.choices(range(packets + 1), k=count))


def disturbed(
    rng: random.Random, packets: Sequence[Recorded], places: Sequence[int]
) -> list[Recorded]:
    """The packets with some around each of these places moved, doubled or lost; each file still
    begins later than the one before.
    """
    found = list(packets)
    for place in places:
        low, high = max(0, place - 6), min(len(found), place + 6)
        near = found[low:high]
        damage = rng.choice(("shuffled", "doubled", "lost", "none"))
        if damage == "shuffled":
            rng.shuffle(near)
        elif damage == "doubled":
            near = [packet for packet in near for _ in range(rng.choice((1, 1, 2)))]
        elif damage == "lost":
            near = [packet for packet in near if rng.random() < 0.8]
        found[low:high] = near
    return found


def faulty(rng: random.Random, packets: list[Recorded]) -> list[Recorded]:
    """With a byte of every fifth payload changed."""
    found = []
    for packet in packets:
        data = bytearray(packet.data)
        if len(data) > 54 + 24 and rng.random() < 0.2:
            data[rng.randrange(54, len(data))] ^= 1 << rng.randrange(8)
        found.append(replace(packet, data=bytes(data)))
    return found
