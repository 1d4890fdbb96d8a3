"""Packets around moments: which are kept, what a file has, and what happens when there is no
room.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

from dcpinspect.capture.recent_packets import MIB, RecentPackets
from tests.builders import COOKED_2, ETHERNET, START_NS
from tests.capture.test_pcapng_writer import Packet, batch_of, packets_in, tshark

S = 10**9


def packet(second: float, size: int = 60, link_type: int = ETHERNET) -> Packet:
    return bytes([int(second) % 251]) * size, size, START_NS + round(second * S), link_type


def seconds(path: Path) -> list[float]:
    return [round((time_ns - START_NS) / S, 3) for _, _, time_ns, _ in packets_in(path)]


def around(
    folder: Path, told: list[str], *, most_bytes: int = MIB, most_files: int = 100
) -> RecentPackets:
    return RecentPackets(
        str(folder), 10 * S, most_bytes=most_bytes, most_files=most_files, tell=told.append
    )


def comments(path: Path) -> list[str]:
    done = subprocess.run(["capinfos", path], capture_output=True, text=True, check=True)
    return re.findall(r"^Capture comment: +(.*)$", done.stdout, re.MULTILINE)


@pytest.mark.requires("capinfos", "tshark")
def test_a_file_has_the_packets_before_and_after_a_moment_with_a_comment(tmp_path: Path) -> None:
    messages: list[str] = []
    saver = around(tmp_path, messages)
    for second in range(100):
        saver.pass_time(START_NS + second * S)
        saver.add(batch_of([packet(second)]))
        if second == 52:
            saver.save("gap", "what happened", START_NS + 50 * S, START_NS + 52 * S)
    (path,) = tmp_path.iterdir()
    assert path.name == "20231114T221410.000Z-gap.pcapng"
    assert seconds(path) == list(range(40, 63))
    assert comments(path) == ["what happened"]
    assert [float(time) for (time,) in tshark(path, "frame.time_relative")] == list(range(23))
    assert messages == [f"{path}: saved 23 packets around gap"]


def test_a_clock_that_is_set_back_ends_a_file(tmp_path: Path) -> None:
    messages: list[str] = []
    saver = around(tmp_path, messages)
    saver.add(batch_of([packet(5000)]))
    saver.save("gap", "what happened", START_NS + 5000 * S, START_NS + 5001 * S)
    for second in (*range(5001, 5004), *range(1400, 1500)):
        saver.pass_time(START_NS + second * S)
        saver.add(batch_of([packet(second)]))
    (path,) = tmp_path.iterdir()
    assert seconds(path) == [5000, 5001, 5002, 5003]
    assert messages == [f"{path}: saved 4 packets around gap"]


@pytest.mark.requires("capinfos", "tshark")
def test_moments_that_overlap_share_a_file_that_has_each_packet_once(tmp_path: Path) -> None:
    saver = around(tmp_path, [])
    for second in range(100):
        saver.add(
            batch_of(
                [
                    packet(second),
                    packet(second + 0.5, link_type=COOKED_2 if second > 55 else ETHERNET),
                ]
            )
        )
        if second in (50, 58):
            saver.save("gap", f"at {second}", START_NS + second * S, START_NS + second * S)
    (path,) = tmp_path.iterdir()
    assert seconds(path) == [half / 2 for half in range(80, 138)]
    assert comments(path) == ["at 50", "at 58"]
    assert {packet[3] for packet in packets_in(path)} == {ETHERNET, COOKED_2}
    assert len(tshark(path, "frame.number")) == 58


def test_moments_far_apart_have_files_of_their_own_and_there_are_no_more_than_asked_for(
    tmp_path: Path,
) -> None:
    messages: list[str] = []
    saver = around(tmp_path, messages, most_files=2)
    for second in range(0, 300, 5):
        saver.pass_time(START_NS + second * S)
        saver.add(batch_of([packet(second)]))
        if second % 60 == 0:
            saver.save("gap", "", START_NS + second * S, START_NS + second * S)
    saver.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "20231114T221320.000Z-gap.pcapng",
        "20231114T221420.000Z-gap.pcapng",
    ]
    assert (
        "2 files were saved; packets around other findings are not saved (--save-max)" in messages
    )
    assert len(messages) == 3
    assert saver.saved == 2


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "20231114T221320.000Z-gap.pcapng").write_text("mine")
    saver = around(tmp_path, [])
    saver.add(batch_of([packet(0)]))
    saver.save("gap", "", START_NS, START_NS)
    saver.close()
    assert (tmp_path / "20231114T221320.000Z-gap.pcapng").read_text() == "mine"
    assert seconds(tmp_path / "20231114T221320.000Z-gap-2.pcapng") == [0]


@pytest.mark.requires("capinfos", "tshark")
def test_memory_is_bounded_and_what_did_not_fit_is_said_in_the_comment(tmp_path: Path) -> None:
    saver = around(tmp_path, [], most_bytes=3 * MIB)
    for second in range(8):
        saver.add(batch_of([packet(second, 60_000) for _ in range(20)]))
        assert saver._bytes <= 3 * MIB
    saver.save("gap", "note", START_NS + 7 * S, START_NS + 7 * S)
    saver.close()
    (path,) = tmp_path.iterdir()
    assert set(seconds(path)) == {5, 6, 7}
    assert comments(path) == [
        "note; packets before 22:13:25 UTC are not here, the memory for them was full"
    ]


def test_a_file_is_complete_at_any_moment(tmp_path: Path) -> None:
    saver = around(tmp_path, [])
    for second in range(5):
        saver.add(batch_of([packet(second)]))
        if second == 1:
            saver.save("gap", "", START_NS, START_NS)
        if second >= 1:
            (path,) = tmp_path.iterdir()
            assert seconds(path) == list(range(second + 1))
    saver.close()


def test_a_disk_that_is_full_is_told_and_the_file_has_what_was_before(tmp_path: Path) -> None:
    messages: list[str] = []
    saver = around(tmp_path, messages, most_bytes=3 * MIB)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    saver.add(batch_of([packet(0, 60_000)]))
    saver.save("gap", "", START_NS, START_NS)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (100_000, limits[1])
    )  # Python ignores SIGXFSZ, so writing fails with EFBIG
    try:
        saver.add(batch_of([packet(1, 60_000)]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (path,) = tmp_path.iterdir()
    assert messages == [f"{path}: File too large; packets are missing there, watching goes on"]
    assert seconds(path) == [0]
    assert saver.is_lacking
    saver.save("gap", "", START_NS + S, START_NS + S)
    saver.close()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("room", [0, 200])
def test_a_file_for_whose_packets_there_is_no_room_does_not_stay(room: int, tmp_path: Path) -> None:
    messages: list[str] = []
    saver = around(tmp_path, messages)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    saver.add(batch_of([packet(0, 60_000)]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        saver.save("gap", "", START_NS, START_NS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [line.partition(": ")[2] for line in messages] == [
        "File too large; packets are missing there, watching goes on"
    ]
    assert not list(tmp_path.iterdir())
    assert (saver.saved, saver.is_lacking) == (0, True)


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    messages: list[str] = []
    saver = around(tmp_path / "x", messages)
    saver.add(batch_of([packet(0)]))
    saver.save("gap", "", START_NS, START_NS)
    assert len(messages) == 1
    assert "No such file or directory; packets are missing there" in messages[0]


@pytest.mark.parametrize("size", [10, 5000])
def test_a_large_batch_is_kept_in_pieces(tmp_path: Path, size: int) -> None:
    saver = around(tmp_path, [], most_bytes=64 * MIB)
    saver.add(batch_of([packet(second / 10, size) for second in range(1000)]))
    assert 1000 * size < saver._bytes <= 64 * MIB
    saver.save("gap", "", START_NS + 60 * S, START_NS + 99 * S)
    saver.close()
    (path,) = tmp_path.iterdir()
    assert os.path.getsize(path) > 0
    assert seconds(path) == [second / 10 for second in range(500, 1000)]
