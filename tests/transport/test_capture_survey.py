"""Captures of the same connections by clocks that differ, read together."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.cli.remarks import remarks
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.capture_survey import survey
from tests import builders
from tests.builders import Recorded
from tests.doubled import packets_of, said_of, tcp_of, written
from tests.peers.truth import SAMPLES

SECOND = 1_000_000_000
FILES = (
    SAMPLES / "orphans.pcap",
    SAMPLES / "snapshots.pcap",
    SAMPLES / "rollback.pcap",
    SAMPLES / "real-server" / "resume.pcap.gz",
)


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


@pytest.mark.parametrize("by_ns", [-3600 * SECOND, 5 * SECOND])
def test_where_captures_overlap_one_side_may_be_silent(by_ns: int, tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    begin, end = len(packets) * 3 // 10, len(packets) * 8 // 10
    overlap = [one for one in packets[begin:end] if not tcp_of(one).to_server()]
    second = later([*overlap, *packets[end:]], by_ns)
    names = [
        str(written(tmp_path, part, name))
        for part, name in ((packets[:end], "b.pcap"), (second, "a.pcap"))
    ]
    assert survey(names).ahead_ns == {names[1]: by_ns}
    on_its_way = str(written(tmp_path, later(second, SECOND // 2 - by_ns), "c.pcap"))
    assert survey([names[0], on_its_way]).ahead_ns == {}


@pytest.mark.parametrize("by_ns", [-2 * SECOND, -3 * SECOND // 10, 3 * SECOND // 10, 5 * SECOND])
@pytest.mark.parametrize("name", ["rollback", "loop", "snapshots"])
def test_directions_in_own_captures_are_in_the_order_of_their_handshakes(
    name: str, by_ns: int, tmp_path: Path
) -> None:
    packets = packets_of(SAMPLES / f"{name}.pcap")
    asked = [one for one in packets if tcp_of(one).to_server()]
    answered = [one for one in packets if not tcp_of(one).to_server()]
    paths = [
        written(tmp_path, asked, "b.pcap"),
        written(tmp_path, later(answered, by_ns), "a.pcap"),
    ]
    found, whole = found_in(*paths), found_in(written(tmp_path, packets, "once.pcap"))
    assert found == whole
    assert whole


def found_in(*paths: Path) -> list[tuple[str, str | None, int]]:
    """Rule, cause and number of messages of every case."""
    with Reading([str(path) for path in paths]) as reading:
        reading.check()
        for _ in reading:
            pass
        return sorted(
            (finding.rule, finding.cause or "", finding.count) for finding in reading.findings()
        )


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
        f"dcpinspect: {ahead}: its clock is 5.0 s ahead, as packets of another capture show; its "
        "times are moved by that\n"
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


def test_a_capture_without_dates_gets_those_of_another(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    undated = later(packets[: len(packets) // 3], -(packets[0].time_ns // SECOND) * SECOND)
    names = [
        str(written(tmp_path, part, name))
        for part, name in ((packets, "b.pcap"), (undated, "a.pcap"))
    ]
    assert survey(names[::-1]).ahead_ns == {names[1]: undated[0].time_ns - packets[0].time_ns}


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


def cut(packets: Sequence[Recorded], snaplen: int) -> list[Recorded]:
    return [replace(packet, data=packet.data[:snaplen]) for packet in packets]


def in_pieces(packets: Sequence[Recorded], size: int) -> list[Recorded]:
    """As behind a network card that divides what its host sends."""
    found = []
    for packet in packets:
        one = tcp_of(packet)
        found += [
            replace(one, seq=one.seq + at, payload=one.payload[at : at + size]).recorded(
                packet.time_ns
            )
            for at in range(0, max(len(one.payload), 1), size)
        ]
    return found


def as_interfaces(*captures: tuple[int, Sequence[Recorded]]) -> bytes:
    """A file of ``mergecap``: interfaces, each with its snapshot length, and packets by time."""
    blocks = [builders.section(), *(builders.interface(snaplen=size) for size, _ in captures)]
    numbered = [(one, place) for place, (_, all_) in enumerate(captures) for one in all_]
    numbered.sort(key=lambda one: one[0].time_ns)
    return b"".join(blocks) + b"".join(
        builders.enhanced(one, number=place) for one, place in numbered
    )


@pytest.mark.parametrize(
    ("snaplen", "by_ns"),
    [
        (54, 0),
        (68, SECOND // 1000),
        (68, -SECOND // 20),
        (96, SECOND // 20),
        (400, SECOND // 10**4),
    ],
)
@pytest.mark.parametrize("path", FILES[:4], ids=lambda path: path.name)
def test_a_cut_capture_beside_a_whole_one_takes_nothing_from_it(
    path: Path, snaplen: int, by_ns: int, tmp_path: Path
) -> None:
    packets = packets_of(path)
    short = written(tmp_path, cut(packets, snaplen), "cut.pcap")
    whole = written(tmp_path, later(packets, by_ns), "whole.pcap")
    assert said_of(short, whole) == said_of(whole, short) == said_of(whole)


@pytest.mark.parametrize("cut_is_longer", [True, False])
def test_nor_does_one_whose_packets_are_divided_in_another_way(
    cut_is_longer: bool, tmp_path: Path
) -> None:
    packets = packets_of(SAMPLES / "snapshots.pcap")
    first, second = packets, in_pieces(packets, 60)
    if not cut_is_longer:
        first, second = second, first
    short = written(tmp_path, cut(first, 96), "cut.pcap")
    whole = written(tmp_path, later(second, 100_000), "whole.pcap")
    assert said_of(short, whole) == said_of(whole)


def test_what_the_whole_capture_lacks_is_lost_and_nothing_else(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "orphans.pcap")
    short = written(tmp_path, cut(packets, 68), "cut.pcap")
    for lost in (20, 30, 60):
        whole = written(tmp_path, packets[:lost] + packets[lost + 1 :], "whole.pcap")
        assert said_of(short, whole) == said_of(whole)


def test_what_only_the_cut_capture_shows_is_read(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "orphans.pcap")
    alone = said_of(written(tmp_path, cut(packets, 500), "cut.pcap"))
    answers = [packet for packet in packets if not tcp_of(packet).to_server()]
    both = said_of(tmp_path / "cut.pcap", written(tmp_path, answers, "answers.pcap"))
    assert both != alone
    assert len(both[1]) == len(alone[1]) > 0  # the requests are in the cut capture only
    begun = written(tmp_path, slowly(packets)[:40], "whole.pcap")
    after = written(tmp_path, cut(slowly(packets), 500), "longer.pcap")
    with Reading([str(begun), str(after)]) as reading:
        rows = [batch.frame for batch in reading]
    assert max(int(frames.max()) for frames in rows) == 96  # the last one with a message


def test_captures_that_were_all_cut_are_read_as_before(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "orphans.pcap")
    names = [str(written(tmp_path, cut(packets, 96), name)) for name in ("a.pcap", "b.pcap")]
    assert survey(names).copies is None
    assert said_of(*map(Path, names)) == said_of(Path(names[0]))


@pytest.mark.parametrize("by_ns", [0, 1000, SECOND // 20])
def test_interfaces_of_one_file_are_as_captures(by_ns: int, tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "orphans.pcap")
    merged = tmp_path / "merged.pcapng"
    merged.write_bytes(as_interfaces((68, cut(packets, 68)), (0, later(packets, by_ns))))
    whole = said_of(written(tmp_path, packets))
    assert said_of(merged) == whole
    short = written(tmp_path, cut(packets, 80), "third.pcap")
    assert said_of(short, merged) == whole


def test_of_a_pipe_what_was_read_says_which_interface_has_more(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "orphans.pcap")
    merged = as_interfaces((68, cut(packets, 68)), (0, later(packets, 1000)))
    pipe = tmp_path / "pipe.pcapng"
    os.mkfifo(pipe)
    for size in (1 << 20, 300):
        writer = threading.Thread(target=pipe.write_bytes, args=(merged,))
        writer.start()
        with Reading(open_capture(pipe, batch_bytes=size)) as reading:
            assert sum(len(batch.row) for batch in reading) == 107
            assert reading.coverage.packets["cut copy"] == 98  # but the first of each direction
        writer.join()
    writer = threading.Thread(target=pipe.write_bytes, args=(merged,))
    writer.start()
    subset = tmp_path / "subset.pcapng"
    main(["check", str(pipe), "-w", str(subset)])
    writer.join()
    assert said_of(subset) == said_of(written(tmp_path, packets))


def test_copies_are_counted_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(SAMPLES / "orphans.pcap")
    short = written(tmp_path, cut(packets, 68), "cut.pcap")
    whole = written(tmp_path, packets, "whole.pcap")
    main(["info", str(short), str(whole)])
    assert "complete  yes" in capsys.readouterr().out
    subset = tmp_path / "subset.pcapng"
    main(["check", str(short), str(whole), "-w", str(subset)])
    assert said_of(subset) == said_of(whole)
