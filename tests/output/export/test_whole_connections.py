"""``-w`` of all messages: the file reads as the damaged capture does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.output.export.packet_subset import Subset
from dcpinspect.reading.reading import Reading
from tests import damage
from tests.damage import Packet
from tests.fuzz import captures as fuzz
from tests.peers.truth import SAMPLES
from tests.tls.damage import save

Row = tuple[str, str, int, bytes, tuple[tuple[int, int], ...]]
DAMAGE: dict[str, Callable[[Sequence[Packet], int], list[Packet]]] = {
    "lost": lambda packets, seed: damage.lost(packets, (0.03, 0.2)[seed], seed),
    "bursts": lambda packets, seed: damage.bursts(packets, 5, 8, seed),
    "swapped": lambda packets, seed: damage.swapped(packets, 0.2, seed, by=4),
    "doubled": lambda packets, seed: damage.doubled(packets, seed),
    "cut": lambda packets, seed: [packet.cut(80 + 80 * seed) for packet in packets],
    "mid-stream": lambda packets, seed: list(packets[len(packets) // (3 - seed) :]),
}


def rows(reading: Reading, chosen: Subset | None = None) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for batch in reading:
        if chosen is not None:
            chosen.choose(batch, np.arange(len(batch)))
        for index in range(len(batch)):
            ends = (
                texts[int(batch.connection[index]) - 1]
                for texts in (batch.endpoints.client, batch.endpoints.server)
            )
            client, server = ends
            found[
                client,
                server,
                int(batch.direction[index]),
                batch.bytes_of(index),
                batch.missing.ranges_of(index),
            ] += 1
    return found


def written_again(path: Path, target: Path) -> tuple[Counter[Row], Counter[Row]]:
    """The messages of a capture, and of the packets that are written for all of them."""
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        first = rows(reading, chosen)
        with target.open("wb") as file:
            chosen.write(file)
    with Reading([str(target)]) as reading:
        return first, rows(reading)


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("sample", ["tour", "rollback", "snapshots", "upr"])
def test_a_damaged_conversation_reads_the_same_again(
    sample: str, name: str, tmp_path: Path
) -> None:
    for seed in range(2):
        path = save(tmp_path / "x.pcap", DAMAGE[name](damage.sample(sample).packets, seed))
        first, again = written_again(path, tmp_path / "y.pcapng")
        assert again == first


@pytest.mark.slow
def test_forged_packets_read_the_same_again(tmp_path: Path) -> None:
    rng = random.Random(7)
    total = 0
    for _ in range(120):
        packets = fuzz.packets(rng.randbytes(8 * rng.randrange(20, 120)))
        first, again = written_again(save(tmp_path / "x.pcap", packets), tmp_path / "y.pcapng")
        assert again == first
        total += first.total()
    assert total > 1000


@pytest.mark.parametrize(
    "sample", sorted(path.name for path in SAMPLES.glob("*.pcap*") if path.stat().st_size < 1 << 20)
)
def test_a_sample_reads_the_same_again(sample: str, tmp_path: Path) -> None:
    first, again = written_again(SAMPLES / sample, tmp_path / "y.pcapng")
    assert again == first


def test_of_a_part_of_the_messages_only_their_packets_are_written(tmp_path: Path) -> None:
    path = SAMPLES / "rollback.pcap"
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        for batch in reading:
            chosen.choose(batch, np.flatnonzero(batch.row > 1))
        with (tmp_path / "y").open("wb") as file:
            part = chosen.write(file)
    with Subset() as chosen, Reading([str(path)], keeper=chosen) as reading:
        chosen.follow(reading)
        for batch in reading:
            chosen.choose(batch, np.arange(len(batch)))
            break
        assert not reading.is_through
        with (tmp_path / "y").open("wb") as file:
            unfinished = chosen.write(file)
    assert part < reading.coverage.packets_read
    assert unfinished < reading.coverage.packets_read
