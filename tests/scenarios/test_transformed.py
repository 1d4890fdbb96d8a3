"""Recordings as another place of the network, another clock or another program would have taken
them: `check` says the same of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.reading.reading import Reading
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
    FIELD / "t05-sidecar-two-legs.pcap",
)


Transform = Callable[[list[Recorded]], list[Recorded]]
SECOND = 1_000_000_000


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


def in_milliseconds(packets: list[Recorded]) -> list[Recorded]:
    """By a coarse clock."""
    return [replace(packet, time_ns=packet.time_ns // 10**6 * 10**6) for packet in packets]


def behind_translation(by_ns: int) -> Transform:
    """As recorded on both sides of a router that changes the client's address and port, with two
    clocks.
    """

    def both(packets: list[Recorded]) -> list[Recorded]:
        found = []
        for packet in packets:
            one, host = tcp_of(packet), b"\xac\x11\x00\x01"
            if one.to_server():
                one = replace(one, ip=one.ip[:12] + host + one.ip[16:], source=one.source ^ 0x1234)
            else:
                one = replace(one, ip=one.ip[:16] + host, target=one.target ^ 0x1234)
            found += [packet, one.recorded(packet.time_ns + by_ns)]
        return in_time(found)

    both.__name__ = f"behind_translation({by_ns:,})"
    return both


TRANSFORMED = (
    later_to_server,
    earlier_to_server,
    in_milliseconds,
    behind_translation(3_000_000),
    behind_translation(-5 * SECOND),
    behind_translation(7200 * SECOND),
)


@pytest.mark.parametrize("transform", TRANSFORMED, ids=lambda one: one.__name__)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_findings_are_those_of_the_recording(
    path: Path, transform: Transform, tmp_path: Path
) -> None:
    packets = packets_of(path)
    assert said_of(written(tmp_path, transform(packets)))[0] == said_of(path)[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("path", FILES[:4], ids=lambda path: path.name)
def test_two_recordings_that_each_lack_packets_accuse_nobody_else(
    path: Path, seed: int, tmp_path: Path
) -> None:
    """What counts is of one of the two clocks."""
    chance = random.Random(seed)
    packets = behind_translation(3_000_000)(packets_of(path))
    kept = [packet for packet in packets if chance.random() > 0.05]
    found = {rule for rule, *_ in said_of(written(tmp_path, kept))[0]}
    assert "name-clash" not in found


@pytest.mark.parametrize("by_ns", [-1_000_000, 0, 1_000_000])
@pytest.mark.parametrize("path", FILES[:3], ids=lambda path: path.name)
def test_each_direction_in_a_capture_of_its_own_accuses_nobody_else(
    path: Path, by_ns: int, tmp_path: Path
) -> None:
    """As a tap with two ports gives them, whose clocks differ a little."""
    packets = packets_of(path)
    asked = [
        replace(packet, time_ns=packet.time_ns + by_ns)
        for packet in packets
        if tcp_of(packet).to_server()
    ]
    answered = [packet for packet in packets if not tcp_of(packet).to_server()]
    both = written(tmp_path, asked, "asked.pcap"), written(tmp_path, answered, "answered.pcap")
    rules = [{one[0] for one in said_of(*paths)[0]} for paths in (both, (path,))]
    assert rules[0] <= rules[1]


@pytest.mark.parametrize("seed", range(4))
def test_all_connections_of_a_client_count_on_one_side_of_a_translation(
    seed: int, tmp_path: Path
) -> None:
    """Else it were two clients, of which neither had received what the other resumes from."""
    chance = random.Random(seed)
    packets = behind_translation(20_000)(packets_of(SAMPLES / "loop.pcap"))
    kept = [packet for packet in packets if chance.random() > 0.05]
    with Reading([str(written(tmp_path, kept))], track=True) as reading:
        for _ in reading:
            pass
        copies = reading.tracker.copies.among(reading.links)
        counted = [link for link in reading.links if link.number not in copies]
    assert len(counted) == 5
    assert len({link.client.rpartition(":")[0] for link in counted}) == 1


def by_chance() -> Callable[[Recorded], int]:
    chance = random.Random(3)
    return lambda _: chance.randrange(3)


def by_direction() -> Callable[[Recorded], int]:
    return lambda packet: int(tcp_of(packet).to_server())


def by_node() -> Callable[[Recorded], int]:
    def node(packet: Recorded) -> int:
        tcp = tcp_of(packet)
        return (tcp.ip[16:20] if tcp.to_server() else tcp.ip[12:16])[3] % 2

    return node


@pytest.mark.slow
@pytest.mark.parametrize("division", [by_chance, by_direction, by_node])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_packets_of_several_files_are_read_as_those_of_one(
    path: Path, division: Callable[[], Callable[[Recorded], int]], tmp_path: Path
) -> None:
    file_of = division()
    files: list[list[Recorded]] = [[], [], []]
    packets = [
        replace(packet, time_ns=packet.time_ns + number)  # no two have the same
        for number, packet in enumerate(in_time(packets_of(path)))
    ]
    for packet in packets:
        files[file_of(packet)].append(packet)
    whole = written(tmp_path, packets)
    parts = [written(tmp_path, part, f"{number}.pcap") for number, part in enumerate(files) if part]
    assert said_of(*parts) == said_of(whole)

    chosen = []
    for name, captures in (("whole", [whole]), ("parts", parts)):
        target = tmp_path / f"{name}.pcapng"
        assert main(["check", *map(str, captures), "--fail-on", "never", "-w", str(target)]) == 0
        with open_capture(target) as capture:
            chosen.append(
                sorted(
                    (time_ns, batch.data[start : start + size].tobytes())
                    for batch in capture
                    for time_ns, start, size in zip(
                        batch.time_ns.tolist(),
                        batch.offset.tolist(),
                        batch.captured.tolist(),
                        strict=True,
                    )
                )
            )
    assert chosen[0] == chosen[1] != []
