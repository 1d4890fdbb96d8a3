from __future__ import annotations

import struct
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect.capture import pcapng
from dcpinspect.capture.open import Capture, open_capture
from dcpinspect.capture.pcapng import (
    COMMENT,
    IMPOSSIBLE_TIME,
    SECRET_COST,
    TLS_KEY_LOG,
    comments_of,
    nanoseconds,
)
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.cli.main import main
from tests import builders
from tests.capture.test_pcap import EXPECTED, PACKETS, packets_of


def opened(tmp_path: Path, data: bytes, batch_bytes: int = 1 << 20) -> Capture:
    path = tmp_path / "x.pcapng"
    path.write_bytes(data)
    return open_capture(path, batch_bytes=batch_bytes)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("batch_bytes", [1, 100, 1 << 20])
def test_enhanced_packets_in_both_byte_orders(tmp_path: Path, order: str, batch_bytes: int) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(builders.pcapng(PACKETS, order=order))
    assert packets_of(path, batch_bytes) == EXPECTED


def test_sections_of_different_byte_order_and_interfaces_of_their_own(tmp_path: Path) -> None:
    data = builders.section("<") + builders.interface(1) + builders.enhanced(PACKETS[0])
    data += builders.section(">") + builders.interface(113, ">") + builders.interface(276, ">")
    data += builders.enhanced(PACKETS[1], ">", number=1) + builders.enhanced(
        PACKETS[2], ">", number=0
    )
    links = np.concatenate([batch.link_type for batch in opened(tmp_path, data)]).tolist()
    assert links == [1, 276, 113]


def test_unknown_blocks_are_skipped(tmp_path: Path) -> None:
    data = (
        builders.section()
        + builders.block(0xBAD, bytes(100))
        + builders.interface()
        + builders.block(0x1234, b"abc")
    )
    data += builders.enhanced(PACKETS[0]) + builders.block(5, bytes(12))
    capture = opened(tmp_path, data)
    assert sum(len(batch) for batch in capture) == 1
    assert capture.problems == []


def test_simple_packets_are_cut_at_snaplen_and_take_the_time_before(tmp_path: Path) -> None:
    data = builders.section() + builders.interface(snaplen=60) + builders.enhanced(PACKETS[0])
    data += builders.block(3, struct.pack("<I", 500) + bytes(60))
    (batch,) = opened(tmp_path, data)
    assert (batch.captured.tolist(), batch.wire.tolist()) == ([60, 60], [100, 500])
    assert batch.time_ns.tolist() == [builders.START_NS] * 2


def test_obsolete_packet_blocks_are_read(tmp_path: Path) -> None:
    ticks = builders.START_NS // 1000
    body = struct.pack("<HHIIII", 0, 9, ticks >> 32, ticks & 0xFFFFFFFF, 5, 7) + b"hello"
    (batch,) = opened(tmp_path, builders.section() + builders.interface() + builders.block(2, body))
    assert batch.data[batch.offset[0] :][:5].tobytes() == b"hello"
    assert batch.time_ns.tolist() == [builders.START_NS]


@pytest.mark.parametrize(
    ("resolution", "offset_s", "ticks", "expected"),
    [
        (6, 0, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (9, 0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (0, 5, 1_700_000_000, 1_700_000_005_000_000_000),
        (3, -10, 1_700_000_000_500, 1_699_999_990_500_000_000),
        (12, 0, 12_345_678_901_234_567_890, 12_345_678_901_234_567),
        (0x80 | 1, 0, 3, 1_500_000_000),
        (0x80 | 40, 0, (7 << 40) + (1 << 39), 7_500_000_000),
        (0, 0, 2**64 - 1, -1),
        (9, 0, 2**64 - 5, -1),
        (9, 0, 2**63 - 10**9, 2**63 - 10**9),
        (9, 0, 2**63, -1),
        (0, -10, 5, -1),
        (0, 2**61, 5, -1),
        (0, -(2**61), 2**64 - 1, -1),
    ],
)
def test_time_stamps_of_any_resolution(
    resolution: int, offset_s: int, ticks: int, expected: int
) -> None:
    high, low = np.array([ticks >> 32]), np.array([ticks & 0xFFFFFFFF])
    assert nanoseconds(high, low, resolution, np.array([offset_s])).tolist() == [expected]


def test_time_options_of_an_interface_are_used(tmp_path: Path) -> None:
    data = builders.section(">") + builders.interface(order=">", resolution=9, offset_s=100)
    data += builders.enhanced(PACKETS[0], ">", ticks=5_000_000_001)
    (batch,) = opened(tmp_path, data)
    assert batch.time_ns.tolist() == [105_000_000_001]


def test_packet_of_an_undeclared_interface_is_told_and_passed_over(tmp_path: Path) -> None:
    data = builders.section() + builders.interface()
    capture = opened(
        tmp_path, data + builders.enhanced(PACKETS[0], number=3) + builders.enhanced(PACKETS[1])
    )
    assert sum(len(batch) for batch in capture) == 1
    assert [(problem.offset, problem.what) for problem in capture.problems] == [
        (len(data), "a packet block contradicts itself or names no interface")
    ]


@pytest.mark.usefixtures("walked")
def test_more_interfaces_than_are_read_are_a_limit_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pcapng, "MOST_INTERFACES", 3)
    described = builders.section() + b"".join(
        builders.interface(link) for link in (1, 113, 276, 1, 1)
    )
    capture = opened(
        tmp_path,
        described + b"".join(builders.enhanced(PACKETS[0], number=number) for number in range(5)),
    )
    assert [link for batch in capture for link in batch.link_type.tolist()] == [1, 113, 276]
    assert [problem.what for problem in capture.problems] == [
        "packets of interfaces after the first 65,536 of a section are not read"
    ]


@pytest.mark.parametrize(
    ("garbage", "seen"),
    [
        (b"\xff" * 7, ""),
        (b"text" * 50, "; text is there: texttext…"),
        (bytes(1000), "; zeros are there, which were never written, or are lost"),
    ],
)
@pytest.mark.parametrize("batch_bytes", [200, 1 << 20])
def test_garbage_between_blocks_is_skipped_and_told(
    tmp_path: Path, garbage: bytes, seen: str, batch_bytes: int
) -> None:
    before = builders.pcapng(PACKETS[:20])
    after = b"".join(builders.enhanced(packet) for packet in PACKETS[20:])
    capture = opened(tmp_path, before + garbage + after, batch_bytes)
    assert sum(len(batch) for batch in capture) == len(PACKETS)
    assert [(problem.offset, problem.what) for problem in capture.problems] == [
        (len(before), f"garbage where a block should begin{seen}")
    ]


def test_cut_last_block_is_told(tmp_path: Path) -> None:
    data = builders.pcapng(PACKETS)
    capture = opened(tmp_path, data[:-5])
    assert sum(len(batch) for batch in capture) == len(PACKETS) - 1
    assert "the last block is cut short" in capture.problems[0].what


def test_absurd_block_length_allocates_nothing(tmp_path: Path) -> None:
    data = (
        builders.section() + builders.interface() + struct.pack("<II", 6, 0xFFFF_FFF0) + bytes(40)
    )
    capture = opened(tmp_path, data)
    assert list(capture) == []
    assert len(capture.problems) == 1


def statistics(number: int, *options: tuple[int, bytes], order: str = "<") -> bytes:
    """An interface statistics block."""
    body = struct.pack(order + "III", number, 0, 0)
    for code, value in options:
        body += struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)
    return builders.block(5, body + bytes(4), order)


def counts(path: Path) -> list[tuple[str, int | None, int | None, int | None]]:
    capture = open_capture(path)
    packets = sum(len(batch) for batch in capture)
    assert packets == capture.packets
    return [
        (one.name, one.received, one.dropped, one.system_dropped) for one in capture.files[0].counts
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_what_interfaces_dropped_is_read(tmp_path: Path, order: str) -> None:
    u64 = partial(struct.pack, order + "Q")
    named = builders.interface(order=order, name=b"eth\x1b0")
    path = tmp_path / "drops.pcapng"
    parts = [
        *(builders.section(order), named, builders.interface(order=order)),
        *(statistics(0, (4, u64(1)), order=order), builders.enhanced(PACKETS[0], order)),
        statistics(0, (4, u64(900)), (5, u64(20)), (7, u64(3)), (2, bytes(8)), order=order),
        statistics(1, (5, u64(2**64 - 1)), (4, b"short"), order=order),
        *(statistics(2, (5, u64(7)), order=order), builders.enhanced(PACKETS[1], order)),
        *(
            builders.section(order),
            builders.interface(order=order),
            statistics(0, (5, u64(1)), order=order),
        ),
    ]
    path.write_bytes(b"".join(parts))
    assert counts(path) == [
        ("eth\x1b0", 900, 20, 3),
        ("interface 1", None, 2**64 - 1, None),
        ("interface 0", None, 1, None),
    ]


def test_statistics_that_are_none_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "drops.pcapng"
    short, cut = builders.block(5, bytes(4)), statistics(0, (5, b""))
    path.write_bytes(
        builders.section()
        + builders.interface()
        + short
        + cut
        + statistics(0, (5, bytes(200)))
        + builders.enhanced(PACKETS[0])
    )
    assert counts(path) == [("interface 0", None, None, None)]


@pytest.mark.requires("capinfos")
def test_what_a_recording_says_was_dropped_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "ours.pcapng"
    with path.open("wb") as file:
        writer = PcapNgWriter(file)
        number = writer.interface(1, name="eth7")
        for dropped in (5, 56):
            writer.statistics(number, received=1234, dropped=dropped, time_ns=1_700_000_000 * 10**9)
    assert counts(path) == [("eth7", 1234, 56, None)]
    told = subprocess.run(
        ["capinfos", str(path)], check=True, capture_output=True, text=True
    ).stdout
    assert "Number of stat entries = 2" in told


def test_interfaces_without_end_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.capture.pcapng.MOST_COUNTED", 3)
    path = tmp_path / "drops.pcapng"
    path.write_bytes(
        builders.section()
        + builders.interface() * 9
        + b"".join(statistics(number, (5, bytes(8))) for number in range(9))
    )
    assert len(counts(path)) == 3


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def commented(*options: bytes, order: str = "<", end: bool = True) -> bytes:
    """A packet with options."""
    plain = builders.enhanced(PACKETS[0], order)
    return builders.block(6, plain[8:-4] + b"".join(options) + (bytes(4) if end else b""), order)


@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
def test_comments_of_packets_and_sections_in_both_byte_orders(
    tmp_path: Path, batch_bytes: int
) -> None:
    notes = {"<": b"taken at node 1", ">": b"and at node 2 \xff"}
    data = b""
    for order in "<>":
        header = builders.section(order)
        data += builders.block(
            0x0A0D0D0A,
            header[8:-4] + option(3, b"Linux", order) + option(COMMENT, notes[order], order),
            order,
        )
        data += builders.interface(order=order) + builders.enhanced(PACKETS[1], order)
        data += commented(
            option(2, bytes(4), order),
            option(COMMENT, b"one", order),
            option(COMMENT, b"", order),
            order=order,
        )
        data += commented(
            option(COMMENT, b"no end", order), order=order, end=False
        ) + builders.enhanced(PACKETS[2], order)
    capture = opened(tmp_path, data, batch_bytes)
    found = [comments_of(batch, index) for batch in capture for index in range(len(batch))]
    assert found == 2 * [[], [b"one", b""], [b"no end"], []]
    assert (list(capture.files[0].notes), capture.problems) == (list(notes.values()), [])


@pytest.mark.parametrize(
    ("options", "is_damaged"),
    [
        (b"\1", False),
        (b"\1\0", False),
        (b"\1\0\xff\xff", True),
        (b"\1\0\xff\xff" + bytes(8), True),
        (b"\xff" * 12, True),
        (b"\1\0\0\0" * 9, False),
    ],
)
def test_options_that_lie_end_with_their_block(
    tmp_path: Path, options: bytes, is_damaged: bool
) -> None:
    padded = options + bytes(-len(options) % 4)
    data = (
        builders.section()
        + builders.interface()
        + commented(padded, end=False)
        + builders.enhanced(PACKETS[1])
    )
    capture = opened(tmp_path, data)
    (batch,) = capture
    assert len(batch) == 2
    assert [problem.what for problem in capture.problems] == [pcapng._TOO_LONG] * is_damaged
    assert b"".join(comments_of(batch, 0)) in (b"", bytes(8))
    assert comments_of(batch, 1) == []


def test_notes_without_end_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.capture.pcapng.MOST_NOTES", 3)
    note = builders.block(0x0A0D0D0A, builders.section()[8:-4] + option(COMMENT, b"a") * 2)
    capture = opened(tmp_path, note * 5 + builders.interface() + builders.enhanced(PACKETS[0]))
    assert sum(len(batch) for batch in capture) == 1
    assert list(capture.files[0].notes) == [b"a"] * 3


def test_secrets_without_end_are_bounded_even_empty_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.capture.pcapng.MOST_SECRETS", 3 * SECRET_COST)
    empty = builders.block(10, struct.pack("<III", TLS_KEY_LOG, 0, 0))
    capture = opened(
        tmp_path,
        builders.section() + empty * 5 + builders.interface() + builders.enhanced(PACKETS[0]),
    )
    assert sum(len(batch) for batch in capture) == 1
    assert list(capture.files[0].secrets) == [b""] * 3


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Something for each time that the kernel walks, which it does interpreted."""
    kernel, told = pcapng.walk_blocks, []

    def walk(*args: Any) -> int:
        told.append(kernel.interpreted(*args))
        return told[-1]

    monkeypatch.setattr(pcapng, "walk_blocks", walk)
    return told


def test_the_kernel_goes_on_behind_blocks_without_packets(
    tmp_path: Path, walked: list[int]
) -> None:
    secret = builders.block(10, struct.pack("<II4s", TLS_KEY_LOG, 4, b"abcd"))
    strange = builders.enhanced(PACKETS[0], number=0xFFFF)
    others = b"".join(
        builders.interface() + builders.block(5, bytes(12)) + secret + strange for _ in range(50)
    )
    capture = opened(
        tmp_path, builders.section() + others + builders.enhanced(PACKETS[0], number=49)
    )
    assert sum(len(batch) for batch in capture) == 1
    assert (len(capture.problems), len(capture.files[0].secrets)) == (50, 50)
    assert len(walked) <= 3  # the section stops it, and the end


def test_of_statistics_that_an_interface_repeats_the_last_hold(tmp_path: Path) -> None:
    def said(number: int, received: int) -> bytes:
        return builders.block(
            5, struct.pack("<III", number, 0, 0) + option(4, struct.pack("<Q", received))
        )

    early = said(1, 1) + builders.interface(name=b"eth1") + said(1, 2)
    data = (
        builders.section()
        + builders.interface(name=b"eth0")
        + early
        + said(0, 3)
        + said(1, 4)
        + said(2, 5)
    )
    capture = opened(tmp_path, data + builders.enhanced(PACKETS[0]))
    assert sum(len(batch) for batch in capture) == 1
    assert [(one.name, one.received) for one in capture.files[0].counts] == [
        ("eth1", 4),
        ("eth0", 3),
    ]


def timed(*ticks: int, before: bytes = b"") -> bytes:
    """A file with a resolution of nanoseconds, and a packet for each time."""
    body = b"".join(
        pcapng_block(
            6, struct.pack("<IIIII", 0, at >> 32, at & 0xFFFFFFFF, 4, 4) + bytes([number, 0, 0, 0])
        )
        for number, at in enumerate(ticks)
    )
    interface = pcapng_block(
        1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    )
    return (
        pcapng_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
        + interface
        + before
        + body
    )


def pcapng_block(kind: int, body: bytes) -> bytes:
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


NEGATIVE = 2**64 - 5 * 10**9


@pytest.mark.parametrize("batch_bytes", [60, 1 << 20])
@pytest.mark.parametrize(
    ("ticks", "times", "runs"),
    [
        ([NEGATIVE, NEGATIVE + 1, 7, 8], [7, 7, 7, 8], 1),
        ([7, NEGATIVE, 2**63, 8, NEGATIVE], [7, 7, 7, 8, 8], 2),
        ([NEGATIVE, NEGATIVE], [0, 0], 1),
        ([7, 8], [7, 8], 0),
    ],
)
def test_impossible_times_are_damage_and_the_packets_get_the_time_beside(
    ticks: list[int], times: list[int], runs: int, batch_bytes: int, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(timed(*ticks))
    with open_capture(tmp_path / "x", batch_bytes=batch_bytes) as capture:
        assert [time for batch in capture for time in batch.time_ns.tolist()] == times
        assert [one.what for one in capture.problems] == [IMPOSSIBLE_TIME] * runs
        places = [one.offset or 0 for one in capture.problems]
    assert places == sorted(places)


def test_a_comment_before_packets_without_time_is_read_once(tmp_path: Path) -> None:
    with_comment = pcapng_block(
        0x0A0D0D0A, struct.pack("<IHHqHH4sHH", 0x1A2B3C4D, 1, 0, -1, 1, 4, b"note", 0, 0)
    ) + timed(NEGATIVE, 7)
    (tmp_path / "x").write_bytes(with_comment)
    with open_capture(tmp_path / "x", batch_bytes=60) as capture:
        assert [time for batch in capture for time in batch.time_ns.tolist()] == [7, 7]
        assert list(capture.files[0].notes) == [b"note"]


def test_a_capture_of_a_board_without_a_clock_is_read_whole_and_is_not_damaged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Path(__file__).parents[1] / "captures" / "field" / "f17-negative-times.pcap"
    assert main(["check", str(path)]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == (
        "no errors or warnings: 345 messages, 5 streams, 100 % of bytes decoded · "
        "1 file is without some times · 1 note"
    )
    assert "2255" not in out + err
    assert "offset 56: the time is before 1970 or after 2262" in err


@pytest.mark.parametrize(
    ("options", "place", "damage"),
    [
        (struct.pack("<HHI", 2, 400, 0), 0, "an option is longer than the rest of its block"),
        (struct.pack("<HHIHHI", 9, 1, 9, 2, 9, 0), 8, "an option is longer than the rest"),
        (struct.pack("<HHI", 9, 1, 99), 0, "the time resolution is finer than any time could tell"),
        (struct.pack("<HHI", 9, 1, 0x80 | 70), 0, "the time resolution is finer"),
        (struct.pack("<HHI", 9, 1, 9), None, ""),
    ],
)
def test_damaged_options_of_an_interface_are_told_with_their_place_and_packets_are_read(
    tmp_path: Path, options: bytes, place: int | None, damage: str
) -> None:
    section = pcapng_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = pcapng_block(1, struct.pack("<HHI", 1, 0, 0) + options)
    packet = pcapng_block(6, struct.pack("<5I", 0, 0, 5, 4, 4) + b"data")
    path = tmp_path / "a.pcapng"
    path.write_bytes(section + interface + packet)
    with open_capture(path) as capture:
        (batch,) = capture
        assert batch.captured.tolist() == [4]
        told = [(problem.offset, problem.what) for problem in capture.problems]
    assert len(told) == (place is not None)
    for offset, what in told:
        assert offset == len(section) + 16 + (place or 0)
        assert what.startswith(damage)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("options", "place"),
    [
        ([(1, 400, b"note")], 0),
        ([(2, 4, bytes(4)), (1, 9, b"four")], 8),
        ([(1, 3, b"abc\0"), (0, 0, b"")], None),
        ([(0, 0, b""), (1, 400, b"")], None),  # nothing follows the last one
    ],
)
def test_damaged_options_of_a_packet_are_told_with_their_place_and_packets_are_read(
    tmp_path: Path, order: str, options: list[tuple[int, int, bytes]], place: int | None
) -> None:
    section = builders.section(order)
    interface = builders.interface(1, order)
    written = b"".join(struct.pack(order + "HH", *head) + value for *head, value in options)
    packet = struct.pack(order + "5I", 0, 0, 5, 3, 3) + b"abc\0"
    path = tmp_path / "a.pcapng"
    path.write_bytes(
        section
        + interface
        + builders.block(6, packet + written, order)
        + builders.block(6, packet, order)
    )
    with open_capture(path) as capture:
        assert sum(len(batch) for batch in capture) == 2
        told = [(problem.offset, problem.what) for problem in capture.problems]
    at = len(section) + len(interface) + 32 + (place or 0)
    what = "an option is longer than the rest of its block; what follows it is not read"
    assert told == ([] if place is None else [(at, what)])
