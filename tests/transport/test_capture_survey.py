"""Captures of the same connections by clocks that differ, read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.cli.remarks import remarks
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.capture_survey import survey
from tests.builders import Recorded
from tests.doubled import packets_of, said_of, tcp_of, written
from tests.peers.truth import SAMPLES

SECOND = 1_000_000_000


def slowly(packets: Sequence[Recorded]) -> list[Recorded]:
    """A conversation that lasts a hundred times as long."""
    first_ns = packets[0].time_ns
    return [replace(one, time_ns=first_ns + 100 * (one.time_ns - first_ns)) for one in packets]


def later(packets: Sequence[Recorded], by_ns: int) -> list[Recorded]:
    return [replace(packet, time_ns=packet.time_ns + by_ns) for packet in packets]


def without(nth: int, packets: Sequence[Recorded]) -> list[Recorded]:
    return [one for place, one in enumerate(packets) if place % nth or not tcp_of(one).payload]


@pytest.mark.parametrize("by_ns", [SECOND // 50, 5 * SECOND, -5 * SECOND, 3600 * SECOND])
@pytest.mark.parametrize("has_syn", [True, False])
def test_what_one_capture_lacks_is_in_the_other_with_its_own_time(
    by_ns: int, has_syn: bool, tmp_path: Path
) -> None:
    packets = slowly(packets_of(SAMPLES / "rollback.pcap"))
    first, second = (
        (without(17, packets), without(13, packets))
        if has_syn
        else (packets[: len(packets) * 8 // 10], packets[len(packets) * 3 // 10 :])
    )
    paths = [written(tmp_path, first, "b.pcap"), written(tmp_path, later(second, by_ns), "a.pcap")]
    whole = said_of(written(tmp_path, packets, "once.pcap"))
    assert said_of(*paths) == whole


def test_how_far_a_clock_is_ahead_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    ahead = written(tmp_path, later(packets, 5 * SECOND), "a.pcap")
    with Reading([str(written(tmp_path, packets, "b.pcap")), str(ahead)]) as reading:
        for _ in reading:
            pass
        remarks(reading)
    assert capsys.readouterr().err == (
        f"dcpinspect: {ahead}: its clock is 5.0 s ahead, as packets show that another capture has, "
        "too; its times are moved by that\n"
    )


def test_captures_that_join_others_tell_their_clocks(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    half = len(packets) // 2
    names = [
        str(written(tmp_path, part, name))
        for part, name in (
            (packets[:half], "morning.pcap"),
            (later(packets[half:], 7 * SECOND), "noon.pcap"),
            (later(packets, 9 * SECOND), "server.pcap"),
        )
    ]
    assert survey(names).ahead_ns == {names[1]: 7 * SECOND, names[2]: 9 * SECOND}


def test_the_files_of_a_ring_have_one_clock(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    half, ring = len(packets) // 2, later(packets, 9 * SECOND)
    names = [
        str(written(tmp_path, part, name))
        for part, name in (
            (packets[:half], "client.pcap"),
            (ring[:half], "server_00001.pcap"),
            (ring[half:], "server_00002.pcap"),
        )
    ]
    assert survey(names).ahead_ns == dict.fromkeys(names[1:], 9 * SECOND)


def test_captures_of_the_same_time_are_no_ring(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    names = [
        str(written(tmp_path, later(part, by_ns), name))
        for part, by_ns, name in (
            (packets, 0, "client.pcap"),
            (packets[::2], 5 * SECOND, "node1.pcap"),
            (packets[1::2], 4 * SECOND, "node2.pcap"),
        )
    ]
    assert survey(names).ahead_ns == {names[1]: 5 * SECOND, names[2]: 4 * SECOND}


def test_a_packet_that_takes_long_is_no_clock(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    beyond = [  # 100 ms away: what the client sends comes later there, what it gets goes earlier
        replace(
            one,
            time_ns=one.time_ns + (SECOND // 10) * (1 if tcp_of(one).target == 11210 else -1),
        )
        for one in packets
    ]
    names = [str(written(tmp_path, part, name)) for part, name in ((packets, "a"), (beyond, "b"))]
    assert survey(names).ahead_ns == {}
    files = [str(SAMPLES / name) for name in ("rollback.pcap", "snapshots.pcap", "tour.pcapng")]
    assert survey(files).ahead_ns == {}
