"""What a command says of the capture itself: a line each, and the exit status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcpinspect.capture.open import FileDamage
from dcpinspect.cli.main import main
from dcpinspect.cli.remarks import MAX_LINES, remarks
from dcpinspect.output.render.coverage_text import MAX_PORTS, nothing_found
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import Conversation, Recorded, pcap
from tests.streams.told import opened, packets


def read(*paths: Path) -> Reading:
    reading = Reading([str(path) for path in paths])
    with reading:
        list(reading)
    return reading


def conversations(path: Path, *ports: int) -> Path:
    segments = []
    for port in ports:
        one = Conversation(server=("10.0.0.2", port), client=("10.0.0.1", 50_000))
        one.handshake()
        segments += one.segments
    path.write_bytes(builders.pcap(builders.recorded(segments)))
    return path


def test_a_capture_with_messages_and_without_damage_needs_no_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = read(builders.capture(tmp_path / "a.pcap", server=builders.mutation()))
    assert (remarks(reading), capsys.readouterr().err) == (0, "")


def test_a_capture_without_dcp_names_its_ports(tmp_path: Path) -> None:
    path = conversations(tmp_path / "web.pcap", 443, 22, 443)
    assert (
        nothing_found(read(path))
        == f"{path}: no DCP in 9 packets; it has TCP ports 443, 22; try --port 443"
    )


def test_many_ports_are_not_all_named(tmp_path: Path) -> None:
    line = nothing_found(read(conversations(tmp_path / "web.pcap", *range(1000, 1020))))
    assert line.count(",") == MAX_PORTS
    assert ", …; try --port " in line


def test_a_capture_without_packets_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(builders.pcap([]))
    assert nothing_found(read(path)) == f"{path}: no packets"


def test_dcp_ports_without_a_message_are_told_apart_from_other_ports(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "silent.pcap")
    assert nothing_found(read(path)).startswith(f"{path}: no DCP message in ")


def test_tls_is_named_and_what_to_do_about_it(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "tls.pcap", client=b"\x16\x03\x01\x00\x50\x01" + bytes(79))
    line = nothing_found(read(path))
    assert line.startswith(f"{path}: no DCP message in ")
    assert line.endswith(
        "; they carry TLS, which is not decrypted: give the client's key log with --keylog, "
        "or capture between the server and what ends TLS, where it is plain"
    )


def test_memcached_text_is_named(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "text.pcap", client=b"get a\r\n", server=b"END\r\n")
    assert nothing_found(read(path)).endswith(
        "; they carry memcached's text protocol, which has no DCP"
    )


def test_lost_bytes_are_told_once_a_direction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = read(
        builders.capture(tmp_path / "a.pcap", server=b"".join(builders.mutations(60)), loss={4})
    )
    assert remarks(reading) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "dcpinspect: connection 1, 10.0.0.2:11210 back to 10.0.0.1:50000: 1,448 bytes are not "
        "in the capture"
    )


def test_a_hole_is_filled_from_another_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = b"".join(builders.mutations(600))
    paths = [
        str(builders.capture(tmp_path / f"{lost}.pcap", server=server, loss={lost}))
        for lost in (4, 40)
    ]
    with Reading(paths) as reading:
        list(reading)
    assert remarks(reading) == 0
    assert capsys.readouterr().err == ""
    assert reading.coverage.own_protocol["missing"] == 0


def test_losses_of_many_connections_are_summed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = []
    for number in range(MAX_LINES + 3):
        made = Conversation(client=("10.0.0.1", 40_000 + number))
        made.handshake()
        made.stream(False, builders.mutation() + builders.mutation()[:20])
        packets += builders.recorded(made.segments)
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(packets))
    assert remarks(read(path)) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "dcpinspect: more connections lost bytes; --stats lists all"


def test_stats_follow_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        remarks(read(builders.capture(tmp_path / "a.pcap", server=builders.mutation())), stats=True)
        == 0
    )
    assert capsys.readouterr().err.splitlines()[0].endswith("packets read")


def test_a_name_from_outside_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J.pcap"
    path.write_bytes(builders.pcap([]))
    assert nothing_found(read(path)) == f"{tmp_path}/a\\x1b[2J.pcap: no packets"


def test_nothing_found_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert remarks(read(conversations(tmp_path / "web.pcap", 443))) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_reading_that_stopped_early_is_not_called_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert remarks(read(conversations(tmp_path / "web.pcap", 443)), is_whole=False) == 0
    assert capsys.readouterr().err == ""


def test_damage_is_status_3_and_a_line_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = builders.capture(tmp_path / "cut.pcap", server=builders.mutation())
    path.write_bytes(path.read_bytes()[:-3])
    assert remarks(read(path)) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"dcpinspect: {path}, offset ")
    assert line.endswith("; all that is readable was read")


def test_much_damage_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reading = read(builders.capture(tmp_path / "a.pcap", server=builders.mutation()))
    reading.capture.files[0].problems += [
        FileDamage("a.pcap", place, "is garbage") for place in range(MAX_LINES + 5)
    ]
    assert remarks(reading) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "dcpinspect: 5 more problems"


def test_packets_that_are_not_in_order_of_time_are_told_and_no_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    for _ in range(20):
        talk.noop()
        talk.wait(1)
    talk.close()
    sent = [Recorded(one.data, one.wire, one.time_ns) for one in packets(talk)]
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([*sent[40:], *sent[:40]]))
    assert main(["check", str(path), "--severity", "warning"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("nothing wrong"), told.out
    assert re.search(
        r": its packets are not in order of time; frame \d+ is \d+\.\d s before the one in front of "
        r"it; first: reordercap .*x.pcap OUT\n",
        told.err,
    )
