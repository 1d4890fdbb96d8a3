"""A clock that is set while it captures: known where TCP tells, and no wait is measured over it."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest

import dcpinspect
from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.reading.reading import Reading
from dcpinspect.transport import capture_survey
from dcpinspect.transport.clock_steps import ClockSteps
from tests import doubled
from tests.builders import Recorded
from tests.captures import field, real_server
from tests.doubled import tcp_of
from tests.peers.truth import SAMPLES

CAPTURES = Path(__file__).parents[1] / "captures" / "real-server"
HOURS = 7200
CUTS = {
    "forward": [(0.5, HOURS)],
    "back": [(0.5, -HOURS)],
    "forward and back": [(0.33, HOURS), (0.66, -HOURS)],
    "back and forward": [(0.33, -HOURS), (0.66, HOURS)],
}
REAL = (
    SAMPLES / "loop.pcap",
    SAMPLES / "midstream.pcap",
    CAPTURES / "replication-60-66.pcap.gz",
    CAPTURES / "durability.pcap.gz",
)


def packets_of(path: Path) -> bytearray:
    data = path.read_bytes()
    return bytearray(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def places(data: bytes | bytearray) -> list[int]:
    """Where the records of packets begin."""
    found, at = [], 24
    while at < len(data):
        found.append(at)
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    return found


def later(data: bytearray, cuts: Sequence[tuple[float, int]]) -> bytearray:
    """The capture with a clock that is set where these fractions of its packets have passed."""
    records = places(data)
    for fraction, seconds in cuts:
        for at in records[int(len(records) * fraction) :]:
            struct.pack_into("<i", data, at, struct.unpack_from("<i", data, at)[0] + seconds)
    return data


def told(path: Path) -> list[tuple[str, str, int]]:
    with dcpinspect.open(str(path)) as recording:
        return [(one.rule, one.severity, one.count) for one in recording.findings()]


def _timestamp_at(data: bytes | bytearray, at: int) -> int:
    """Where the timestamp of a packet of TCP stands."""
    return data.index(b"\x08\x0a", at + 16 + 14 + 20 + 20) + 2


@pytest.mark.slow
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_findings_are_the_same_with_a_clock_that_was_set(
    path: Path, cuts: list[tuple[float, int]], tmp_path: Path
) -> None:
    (before := tmp_path / "before.pcap").write_bytes(packets_of(path))
    (after := tmp_path / "after.pcap").write_bytes(later(packets_of(path), cuts))
    assert told(after) == told(before)


@pytest.mark.slow
@pytest.mark.parametrize("end", [0.5, 0.6, 0.9], ids=["between", "inside", "late"])
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_a_file_of_a_ring_goes_on_by_the_clock_of_the_one_before(
    path: Path, end: float, tmp_path: Path
) -> None:
    data = later(packets_of(path), CUTS["forward"])
    records = places(data)
    at = records[int(len(records) * end)]
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "1.pcap").write_bytes(data[:at])
    (tmp_path / "ring" / "2.pcap").write_bytes(data[:24] + data[at:])
    assert told(tmp_path / "ring") == told(path)


def test_a_clock_that_was_set_is_told_with_its_frame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "set.pcap").write_bytes(
        later(packets_of(CAPTURES / "durability.pcap.gz"), CUTS["back and forward"])
    )
    main(["info", str(path)])
    err = capsys.readouterr().err
    told = "at frame {}, the clock of the capturing machine was set {} by"
    assert told.format(171, "back") in err
    assert told.format(342, "forward") in err


def test_a_silence_in_which_timestamps_go_on_is_a_silence(tmp_path: Path) -> None:
    data = packets_of(SAMPLES / "loop.pcap")
    records = places(data)
    for at in records[len(records) // 2 :]:
        place = _timestamp_at(data, at)
        ticks = struct.unpack_from(">I", data, place)[0] + HOURS * 1000
        struct.pack_into(">I", data, place, ticks & 0xFFFFFFFF)
    (path := tmp_path / "quiet.pcap").write_bytes(later(data, CUTS["forward"]))
    assert "silent-connection" in {rule for rule, _, _ in told(path)}


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_without_timestamps_a_step_is_time_that_runs_backwards_until_it_is_as_before(
    cuts: list[tuple[float, int]], tmp_path: Path
) -> None:
    data = packets_of(SAMPLES / "loop.pcap")
    for at in places(data):
        place = _timestamp_at(data, at) - 2
        data[place : place + 10] = b"\x01" * 10
    (path := tmp_path / "bare.pcap").write_bytes(later(data, cuts))
    with open_capture(str(path)) as capture:
        clock = ClockSteps()
        steady_ns = np.concatenate([clock.steady(batch).time_ns for batch in capture])
    apart, first = np.diff(steady_ns), cuts[0][1]
    assert apart.min() > -1e9
    assert apart.max() > (first - 10) * 1e9 if first > 0 else apart.max() < 60e9


@pytest.mark.parametrize("is_short", [False, True])
def test_timestamps_that_do_not_tick_are_no_clock(is_short: bool, tmp_path: Path) -> None:
    data, cuts = packets_of(CAPTURES / "durability.pcap.gz"), CUTS["forward"]
    records = places(data)
    for at in records:
        struct.pack_into(">I", data, _timestamp_at(data, at), 7)
        if is_short and at < records[len(records) // 2]:
            data[at : at + 8] = data[24:32]
    (path := tmp_path / "fixed.pcap").write_bytes(later(data, cuts))
    assert "silent-connection" in {rule for rule, _, _ in told(path)}


def test_packets_that_are_read_twice_are_no_step(tmp_path: Path) -> None:
    data = packets_of(SAMPLES / "loop.pcap")
    (path := tmp_path / "twice.pcap").write_bytes(data + data[24:])
    with open_capture(str(path)) as capture:
        clock = ClockSteps()
        assert all(np.array_equal(clock.steady(batch).time_ns, batch.time_ns) for batch in capture)


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_steps_do_not_depend_on_how_packets_are_cut(
    cuts: list[tuple[float, int]], tmp_path: Path
) -> None:
    path = tmp_path / "set.pcap"
    path.write_bytes(later(packets_of(CAPTURES / "durability.pcap.gz"), cuts))
    times = []
    for size in (1 << 10, 1 << 12, 1 << 24):
        with open_capture(str(path), batch_bytes=size) as capture:
            clock = ClockSteps()
            times.append(np.concatenate([clock.steady(batch).time_ns for batch in capture]))
    assert (times[0] == times[1]).all()
    assert (times[1] == times[2]).all()


# -- steps back of less than a second
# --------------------------------------------------------------------------------------------------

BACK = {
    f"by {ms} ms at {place}": (place, ms * 1_000_000) for ms in (30, 300) for place in (0.5, 0.8)
}


def set_back(packets: list[Recorded], place: float, by_ns: int) -> list[Recorded]:
    first = int(len(packets) * place)
    return [*packets[:first], *(later_by(-by_ns, one) for one in packets[first:])]


def later_by(by_ns: int, packet: Recorded) -> Recorded:
    return replace(packet, time_ns=packet.time_ns + by_ns)


@pytest.mark.slow
@pytest.mark.parametrize("back", BACK.values(), ids=BACK)
@pytest.mark.parametrize(
    "path",
    [
        SAMPLES / "loop.pcap",
        SAMPLES / "rollback.pcap",
        field("r01-tmpfail-not-retried"),
        real_server("resume-lost"),
    ],
    ids=lambda path: path.name,
)
def test_findings_are_the_same_with_a_clock_that_was_set_back_a_little(
    path: Path, back: tuple[float, int], tmp_path: Path
) -> None:
    packets = doubled.packets_of(path)
    after = doubled.written(tmp_path, set_back(packets, *back))
    assert told(after) == told(doubled.written(tmp_path, packets, "before.pcap"))


def steps_of(path: Path) -> list[int]:
    with open_capture(str(path)) as capture:
        clock = ClockSteps()
        for batch in capture:
            clock.steady(batch)
    return [step.ns for step in clock.steps]


@pytest.mark.parametrize("has_timestamps", [True, False])
def test_two_clocks_that_take_turns_are_no_step(has_timestamps: bool, tmp_path: Path) -> None:
    packets = doubled.packets_of(SAMPLES / "loop.pcap")
    if not has_timestamps:
        packets = [without_timestamp(one) for one in packets]
    turns = [later_by(0 if tcp_of(one).to_server() else -30_000_000, one) for one in packets]
    assert steps_of(doubled.written(tmp_path, turns)) == []
    twice = [two for one in packets for two in (one, later_by(-30_000_000, one))]
    assert steps_of(doubled.written(tmp_path, twice)) == []


def test_packets_that_a_slow_queue_writes_late_are_no_step(tmp_path: Path) -> None:
    packets = doubled.packets_of(SAMPLES / "loop.pcap")
    size = len(packets) // 5
    late = [
        one
        for first in range(0, len(packets), size)
        for to_server in (True, False)
        for one in packets[first : first + size]
        if tcp_of(one).to_server() == to_server
    ]
    assert min(two.time_ns - one.time_ns for one, two in pairwise(late)) < -10_000_000
    assert steps_of(doubled.written(tmp_path, late)) == []


def without_timestamp(packet: Recorded) -> Recorded:
    data = bytearray(packet.data)
    at = data.index(b"\x08\x0a", 14 + 20 + 20)
    data[at : at + 10] = b"\x01" * 10
    return replace(packet, data=bytes(data))


@pytest.mark.parametrize("has_timestamps", [True, False])
def test_a_small_step_back_is_told_once(has_timestamps: bool, tmp_path: Path) -> None:
    packets = doubled.packets_of(SAMPLES / "loop.pcap")
    if not has_timestamps:
        packets = [without_timestamp(one) for one in packets]
    (step,) = steps_of(doubled.written(tmp_path, set_back(packets, 0.5, 300_000_000)))
    assert -300_000_000 <= step < -290_000_000


# -- files of one capture
# --------------------------------------------------------------------------------------------------

FILES = {
    "back inside": (0.25, -30),
    "back where a file ends": (0.5, -30),
    "back by little before the end of a file": (0.45, -1),
    "back by much behind it": (0.55, -3600),
    "to 1970": (0.5, -1_795_812_000),
}
RESUME = SAMPLES / "real-server" / "resume.pcap.gz"


def files_of(folder: Path, packets: Sequence[Recorded], edges: Sequence[float]) -> list[Path]:
    """The packets in several files, whose names say the order."""
    folder.mkdir()
    ends = [0, *(int(len(packets) * edge) for edge in edges), len(packets)]
    return [
        doubled.written(folder, packets[begin:end], f"r_{number}.pcap")
        for number, (begin, end) in enumerate(pairwise(ends), 1)
    ]


def found_in(*paths: Path) -> tuple[list[tuple[str, str, int]], list[int], list[str]]:
    """What is found, the steps of clocks, and the files in the order in which they were read."""
    with Reading([*map(str, paths)]) as reading:
        reading.check()
        for _ in reading:
            pass
        found: list[tuple[str, str, int]] = [
            (one.rule, one.severity, one.count) for one in reading.findings()
        ]
        steps = [step.ns for step in reading.engine.clock.steps]
        return found, steps, [Path(file.name).name for file in reading.capture.files]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("step", FILES.values(), ids=FILES)
def test_files_of_one_capture_are_as_one_file_with_a_clock_that_was_set(
    step: tuple[float, int], is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only the ends of large files are looked at, and whatever order they are given in."""
    if is_large:
        monkeypatch.setattr(capture_survey, "LOOKED_AT", 1)
        monkeypatch.setattr("dcpinspect.capture.file_reader._TAIL", 1 << 14)
    packets = set_back(doubled.packets_of(RESUME), step[0], -step[1] * 10**9)
    found, steps, _ = found_in(doubled.written(tmp_path, packets))
    assert ("bad-stream-range", "error", 1) in found
    files = files_of(tmp_path / "ring", packets, (0.3, 0.5, 0.9))
    in_order = [path.name for path in files]
    for given in (files, files[::-1], [tmp_path / "ring"]):
        assert found_in(*given) == (found, steps, in_order)


def test_a_first_packet_without_a_time_does_not_put_its_file_first(tmp_path: Path) -> None:
    packets = doubled.packets_of(RESUME)
    packets[len(packets) // 2] = replace(packets[len(packets) // 2], time_ns=0)
    found, steps, _ = found_in(doubled.written(tmp_path, packets))
    files = files_of(tmp_path / "ring", packets, (0.5,))
    assert found_in(*files) == (found, steps, ["r_1.pcap", "r_2.pcap"])


def test_captures_of_two_machines_with_names_of_a_ring_are_read_in_order_of_time(
    tmp_path: Path,
) -> None:
    """They overlap, with the same connections or others."""
    packets = doubled.packets_of(RESUME)
    third = len(packets) // 3
    beside = [
        doubled.written(tmp_path, packets[: 2 * third], "node-1.pcap"),
        doubled.written(tmp_path, packets[third:], "node-2.pcap"),
    ]
    turns = [
        doubled.written(tmp_path, packets[::2], "turn-1.pcap"),
        doubled.written(tmp_path, packets[1::2], "turn-2.pcap"),
    ]
    found, *_ = found_in(doubled.written(tmp_path, packets))
    for files in (beside, turns):
        assert capture_survey.survey([*map(str, files)]).goes_on == {}
        assert found_in(*files)[0] == found


def test_a_ring_goes_on_beside_another_capture(tmp_path: Path) -> None:
    packets = doubled.packets_of(RESUME)
    others = doubled.packets_of(SAMPLES / "loop.pcap")
    apart_ns = packets[0].time_ns - others[0].time_ns + 2_900_000_000
    other = doubled.written(tmp_path, [later_by(apart_ns, one) for one in others], "r_9.pcap")
    turned = set_back(packets, 0.5, 30 * 10**9)
    found, steps, _ = found_in(doubled.written(tmp_path, turned, "one.pcap"), other)
    files = files_of(tmp_path / "ring", turned, (0.3, 0.5))
    assert found_in(other, *files)[:2] == (found, steps)


def test_a_file_of_a_ring_is_in_its_place_though_few_packets_are_in_it(tmp_path: Path) -> None:
    packets = doubled.packets_of(RESUME)
    ends = [(packet + 0.5) / len(packets) for packet in accumulate((63, 3, 32, 17, 48, 5, 16, 47))]
    turned = set_back(packets, ends[4], 600 * 10**9)
    files = [str(path) for path in files_of(tmp_path / "ring", turned, ends)]
    assert capture_survey.survey(files).goes_on == {
        later_file: file for file, later_file in pairwise(files)
    }
