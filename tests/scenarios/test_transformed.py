"""Recordings as another place of the network, another clock or another program would have taken
them: `check` says the same of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import Recorded
from tests.doubled import packets_of, said_of, tcp_of, written

SAMPLES = Path(__file__).parents[2] / "sample_captures"
FIELD = Path(__file__).parents[1] / "captures" / "field"
FILES = (
    SAMPLES / "loop.pcap",
    SAMPLES / "orphans.pcap",
    SAMPLES / "rollback.pcap",
    SAMPLES / "real-server" / "resume.pcap.gz",
    FIELD / "r05-nmvb-not-retried.pcap",
    FIELD / "r07-end-lost-on-reopen.pcap",
)


def in_time(packets: list[Recorded]) -> list[Recorded]:
    return sorted(packets, key=lambda packet: packet.time_ns)


def later_to_server(packets: list[Recorded]) -> list[Recorded]:
    """Two queues, with a third of a millisecond between their clocks."""
    return in_time(
        [
            replace(packet, time_ns=packet.time_ns + 300_000 * tcp_of(packet).to_server())
            for packet in packets
        ]
    )


def earlier_to_server(packets: list[Recorded]) -> list[Recorded]:
    return in_time(
        [
            replace(packet, time_ns=packet.time_ns - 300_000 * tcp_of(packet).to_server())
            for packet in packets
        ]
    )


TRANSFORMED: tuple[Callable[[list[Recorded]], list[Recorded]], ...] = (
    later_to_server,
    earlier_to_server,
)


@pytest.mark.parametrize("transform", TRANSFORMED, ids=lambda one: one.__name__)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_findings_are_those_of_the_recording(
    path: Path, transform: Callable[[list[Recorded]], list[Recorded]], tmp_path: Path
) -> None:
    packets = packets_of(path)
    assert said_of(written(tmp_path, transform(packets)))[0] == said_of(path)[0]
