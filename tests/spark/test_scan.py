from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.reading.reading import Reading
from dcpinspect.spark.bundles import read_index
from dcpinspect.spark.scan import ScanReport, addresses, joined, scan
from tests.builders import Recorded, conversation, mutation, recorded
from tests.spark.cuts import written
from tests.transport.test_scapy_dissection import wrapped

SAMPLES = Path(__file__).parents[2] / "sample_captures"


@pytest.mark.parametrize("name", ["tour.pcapng", "any.pcap", "loop.pcap"])
def test_every_packet_is_in_a_bundle_or_counted(name: str, tmp_path: Path) -> None:
    report = scan(os.fspath(SAMPLES / name), os.fspath(tmp_path / "x"))
    with Reading([os.fspath(SAMPLES / name)]) as reading:
        for _ in reading:
            pass
    counts = {kind: count for kind, count in reading.coverage.packets.items() if count}
    assert report.shipped == counts.pop("used", 0) + counts.pop("fragment", 0) + counts.pop(
        "incomplete fragment", 0
    )
    assert report.left_out == counts
    assert (
        report.packets == reading.capture.packets == report.shipped + sum(report.left_out.values())
    )
    assert sum(read_index(os.fspath(tmp_path / "x"))["packets"].to_pylist()) == report.shipped
    assert report.size == (SAMPLES / name).stat().st_size


def test_other_ports_are_taken_where_all_are_looked_at(tmp_path: Path) -> None:
    segments = [
        replace(one, client=swapped(one.client), server=swapped(one.server))
        for one in conversation(mutation(1))
    ]
    path = os.fspath(written(tmp_path / "a.pcap", recorded(segments)))
    assert scan(path, os.fspath(tmp_path / "x")).left_out == {"not our port": len(segments)}
    assert scan(path, os.fspath(tmp_path / "y"), extra_ports=(4000,)).shipped == len(segments)
    assert scan(path, os.fspath(tmp_path / "z"), find_ports=True).shipped == len(segments)


def swapped(end: tuple[str, int]) -> tuple[str, int]:
    return end[0], 4000 if end[1] == 11_210 else end[1]


def test_fragments_are_with_their_addresses_and_say_what_they_belong_to(tmp_path: Path) -> None:
    report = scan(
        os.fspath(written(tmp_path / "a.pcap", wrapped("fragments"))), os.fspath(tmp_path / "x")
    )
    keys = set(read_index(os.fspath(tmp_path / "x"))["key"].to_pylist())
    assert {len(key) for key in keys} == {32, 36}
    assert {one for one, _ in report.joins} == {key.hex() for key in keys if len(key) == 32}
    assert report.tunnels == []


def test_tunnels_say_between_which_addresses_they_are(tmp_path: Path) -> None:
    report = scan(
        os.fspath(written(tmp_path / "a.pcap", wrapped("VXLAN"))), os.fspath(tmp_path / "x")
    )
    (key,) = set(read_index(os.fspath(tmp_path / "x"))["key"].to_pylist())
    ((outer, inner),) = report.tunnels
    assert (len(bytes.fromhex(outer)), inner) == (32, key.hex())


def test_what_cannot_be_read_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"garbage")
    assert (
        scan(os.fspath(tmp_path / "a.pcap"), os.fspath(tmp_path / "x")).error
        == "is not a capture (begins with 67 61 72 62)"
    )
    assert (
        scan(os.fspath(tmp_path / "gone"), os.fspath(tmp_path / "x")).error
        == "there is no such file"
    )
    assert (
        scan(os.fspath(tmp_path), os.fspath(tmp_path / "x")).error
        == "is not a file that can be read more than once"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.pcap"]


def test_packets_without_an_ip_header_have_no_addresses(tmp_path: Path) -> None:
    with open_capture(
        written(
            tmp_path / "a.pcap", [Recorded(b"\x00" * 12, 12, 0), *recorded(conversation(b"", b""))]
        )
    ) as capture:
        (batch,) = capture
    assert addresses(batch, 0) == b""
    assert len(addresses(batch, 1)) == 32
    assert addresses(batch, 1) == addresses(batch, 2)


def test_stretches_in_which_a_clock_may_have_been_set_are_scanned_as_one() -> None:
    first = ScanReport(size=10, first_ns=0, last_ns=10**9)
    later = ScanReport(begin=10, size=20, first_ns=2 * 10**9, last_ns=3 * 10**9)
    assert joined([first, later]) is not None
    assert joined([first, replace(later, may_be_set=True)]) is None
    assert joined([replace(first, may_be_set=True), later]) is None
    assert joined([first, replace(later, first_ns=-(10**10))]) is None
