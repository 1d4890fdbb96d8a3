"""Rules about connections and the capture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import dcpinspect
from dcpinspect.findings.checker import Checker
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.tracker import Tracker
from tests.builders import ACK, PSH
from tests.damage import PORT, Talk, batches
from tests.encode import encode
from tests.findings.checked import findings, found_in, told
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, opened, packets


def test_controls_that_are_refused_or_unknown() -> None:
    talk = opened()
    talk.control("make_coffee", "black", status=Status.EINVAL)
    talk.control("enable_noop", "true")
    assert told(talk) == [("note", "control-unknown-key", "make_coffee")]


def test_a_setting_that_a_server_is_too_old_for_is_told_with_the_first_version_that_has_it() -> (
    None
):
    talk = opened()
    talk.control("enable_out_of_order_snapshots", "true", status=Status.EINVAL)
    talk.control("max_marker_version", "2.2", status=Status.NOT_SUPPORTED)
    known, unclear = (one.next for one in findings(talk) if one.rule == "control-rejected")
    assert (known, unclear) == (
        "servers know it from 7.0 on; a client must not rely on it",
        "compare the setting with the server's version; a client must not rely on it",
    )


def test_a_window_that_is_refused_because_no_server_can_keep_it() -> None:
    for size, advice in (
        (
            1 << 32,
            "ask for 4,294,967,295 bytes at most, in the client's settings or in its code: "
            "servers from 7.6 on refuse a larger window",
        ),
        (
            (1 << 32) - 1,
            "compare the setting with the server's version; a client must not rely on it",
        ),
    ):
        talk = opened()
        talk.control("connection_buffer_size", str(size), status=Status.EINVAL)
        (found,) = findings(talk)
        assert (found.rule, found.message) == (
            "control-rejected",
            f"control connection_buffer_size={size} was refused: einval",
        )
        assert found.next == advice


def test_a_connection_that_is_closed_under_its_streams() -> None:
    for abort, cause, words in (
        (True, "reset", "reset by the client"),
        (False, "by-client", "closed by the client"),
    ):
        talk = opened()
        stream = talk.stream(7)
        stream.snapshot(0, 3, "memory")
        talk.close(abort=abort)
        (found,) = findings(talk)
        assert (found.rule, found.cause, found.message) == (
            "connection-closed",
            cause,
            f"{words} with 1 stream open",
        )


def test_a_close_after_all_streams_ended_is_no_news() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.end("ok")
    talk.close()
    assert findings(talk) == []


def with_a_hole() -> Told:
    """Of two items, the capture has the second one."""
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with talk.lost():
        stream.mutation(3, "k")
    stream.mutation(9, "l")
    return talk


def test_what_the_capture_lacks_is_told_once_a_direction() -> None:
    (found,) = findings(with_a_hole())
    assert (found.rule, found.cause, found.severity) == ("capture-hole", "s2c", "note")
    assert found.message.endswith(" bytes in 1 hole, sent by the server")
    assert found.places[0].row > 0
    assert found.first_time_ns == found.places[0].time_ns > 0


def test_bytes_that_nobody_acknowledged_may_be_a_loss_of_the_network() -> None:
    sent = packets(with_a_hole())
    last = next(number for number in range(len(sent))[::-1] if sent[number].flow[2] == 1)
    (found,) = [one for one in found_in(sent[: last + 1]) if one.rule == "capture-hole"]
    assert found.message.endswith(", sent by the server, which no captured packet acknowledges")
    assert found.next.startswith("the network may have lost these bytes, and not the capture")


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("first", [0, 4])
def test_a_direction_that_is_missing_is_no_loss_of_the_capture_but_of_its_filter(
    direction: int, first: int
) -> None:
    talk = opened()
    stream = talk.stream(7)
    for seqno in range(1, 9):
        stream.snapshot(seqno, seqno, "memory")
        stream.mutation(seqno, "k")
    captured = [packet for packet in packets(talk)[first:] if packet.flow[2] == direction]
    spread = [
        replace(packet, time_ns=packet.time_ns + 50_000_000 * number)
        for number, packet in enumerate(captured)
    ]
    found = {one.cause: one for one in found_in(spread) if one.rule == "capture-hole"}
    assert [*found] == ["one-direction"]
    assert found["one-direction"].message.startswith(
        f"nothing of the {('server', 'client')[direction]} was captured"
    )
    assert found["one-direction"].next == (
        "the filter caught one direction only: capture with 'tcp port 11210', without src or "
        "dst; a tap or a mirror port may also show only one"
    )


def test_frames_that_are_longer_than_their_ip_header_tells_are_the_network_card_s() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k", b"x" * 1300)
    *before, last = packets(talk)
    while not last.size:
        *before, last = before
    short = last.data[:16] + (40 + last.size - 1000).to_bytes(2, "big") + last.data[18:]
    (found,) = [
        one for one in found_in([*before, replace(last, data=short)]) if one.rule == "capture-hole"
    ]
    assert (found.cause, found.whose) == ("longer-frames", "capture")
    assert found.message.startswith(
        "frames sent by the server have 1,000 bytes more than their IP headers tell"
    )
    assert found.next == (
        "the network card cuts them into packets later: capture on the other host, or switch "
        "that off, as with ethtool -K DEV tso off gso off"
    )


def test_a_client_that_sends_the_same_again_may_have_no_server() -> None:
    talk = Talk()
    talk.send(0, encode("noop", opaque=1), ACK | PSH)
    again = [
        replace(talk.packets[0], time_ns=talk.packets[0].time_ns + 10**9 * number)
        for number in range(3)
    ]
    assert [one.rule for one in found_in(again) if one.rule == "capture-hole"] == []


@pytest.mark.parametrize("is_lossy", [False, True])
def test_bytes_that_stand_too_late_in_the_file_are_not_called_lost(*, is_lossy: bool) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    if is_lossy:
        with talk.lost():
            stream.mutation(1, "k")
    for seqno in range(2, 9):
        stream.mutation(seqno, "k")
    talk.control("enable_noop", "true")  # the client acknowledges all
    wire = [packet for packet in packets(talk) if packet.size]
    late, spread = wire[-4:-2], [packet for packet in packets(talk) if packet not in wire[-4:-2]]
    asked = next(packet for packet in reversed(wire) if packet.flow[2] == 0)
    again = [
        replace(packet, time_ns=wire[-1].time_ns + 900_000_000 + number)
        for number, packet in enumerate([asked, *late])
    ]
    for captured in ([*spread, *again], [*spread, *again, *again]):
        (found,) = [one for one in found_in(captured) if one.rule == "capture-hole"]
        size = sum(packet.size for packet in late)
        assert found.message.endswith(f"{size} bytes came too late to be read, sent by the server")
        assert (" in 2 holes, " in found.message) is is_lossy
        assert found.next == (
            "packets stand in the file behind those that follow them; if their times are right,"
            " reordercap puts them in order"
        )


def test_bytes_that_do_not_fit_their_connection_are_told() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k")
    *before, last = packets(talk)
    last = next(packet for packet in reversed(before) if packet.size) if not last.size else last
    other = replace(last, data=last.data[:38] + b"\x7f" + last.data[39:], time_ns=last.time_ns + 1)
    found = [(one.rule, one.message) for one in found_in([*packets(talk), other])]
    assert found == [
        ("undecoded-bytes", f"{last.size} bytes without a place in the stream, sent by the server")
    ]


@pytest.mark.parametrize("is_lossy", [False, True])
def test_bytes_that_the_snapshot_length_cut_off_are_told_once(*, is_lossy: bool) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(2, "k", b"x" * 500)
    if is_lossy:
        with talk.lost():
            stream.mutation(3, "k")
    stream.mutation(9, "l")
    found = {
        one.rule: one.message for one in found_in([packet.cut(300) for packet in packets(talk)])
    }
    assert found.pop("capture-cut").endswith(
        " bytes cut off by the snapshot length, sent by the server"
    )
    lost = found.pop("capture-hole", "none")
    assert (
        lost.endswith(" bytes beside what was cut off, sent by the server")
        if is_lossy
        else lost == "none"
    )
    assert found == {}


def test_bytes_that_start_no_message() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    talk.send("server", b"\x16\x03\x01 garbage, and more of it than a header has")
    for seqno in range(1, 10):
        stream.mutation(seqno, f"k{seqno}")
    (found,) = [one for one in findings(talk) if one.severity == "error"]
    assert (found.rule, found.cause) == ("bad-magic", "s2c")
    assert found.message.startswith("byte 0x16 at offset ")
    assert found.message.endswith(" begins no message; 45 bytes skipped, s2c")
    assert found.places[0].row > 0
    assert findings(talk, sizes=[1] * 90) == findings(talk)


def test_a_length_beyond_all_reason() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    talk.send("server", bytes.fromhex("80570000000000077000000000000007") + bytes(8))
    for seqno in range(1, 10):
        stream.mutation(seqno, f"k{seqno}")
    (found,) = [one for one in findings(talk) if one.severity in ("error", "warning")]
    assert (found.rule, found.message) == ("oversized-body", "dcp_mutation announces 1,792 MiB")


def test_bytes_behind_a_hole_or_before_any_message_accuse_nobody() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with talk.lost():
        stream.mutation(1, "k")
    talk.send("server", b"\x16\x03\x01 garbage, and more of it than a header has")
    for seqno in range(2, 10):
        stream.mutation(seqno, f"k{seqno}")
    other = Told("x:1", port=50_001)
    other.send("server", b"\x16\x03\x01 garbage, and more of it than a header has")
    other.hello("test/1.0", "JSON")
    other.open("x:1", "producer")
    for _ in range(9):
        other.noop()
    assert [one for one in told(talk, other) if one[1] == "bad-magic"] == []


def test_a_connection_that_seems_to_be_another_one() -> None:
    first = Talk(50_000)
    first.handshake()
    again = Talk(50_000, isn=(3_000_000_000, 3_100_000_000), start_ns=first.time_ns)
    for talk in (first, again):
        for _ in range(5):
            talk.send(0, encode("dcp_noop"), ACK | PSH)
            talk.send(1, encode("dcp_noop", "response"), ACK | PSH)
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker()
    checker = Checker(tracker, ["connection-reuse-inferred"])
    for batch in [
        *(engine.feed(part) for part in batches([*first.packets, *again.packets])),
        engine.finish(),
    ]:
        if batch is not None:
            tracker.feed(batch)
            checker.feed(batch)
    (found,) = checker.findings(engine.links, engine.coverage)
    assert (found.rule, found.connection) == ("connection-reuse-inferred", 2)
    assert found.message == (
        "sequence numbers jump by -1,294,968,416 bytes on the addresses of connection 1: taken "
        "as a new connection"
    )


def test_a_capture_that_begins_in_the_middle() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.begin()
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    assert ("note", "mid-stream-start", None) in told(talk)
    (found,) = (one for one in findings(talk) if one.rule == "mid-stream-start")
    assert 0 < found.first_time_ns < found.last_time_ns


def administrator() -> Told:
    """A connection that began before the capture, and carries no DCP."""
    talk = Told("", port=50_009)
    talk.hello("admin/1.0", "JSON")
    talk.begin()
    talk.ask("stat", key="vbucket")
    return talk


def test_a_connection_without_dcp_needs_no_beginning() -> None:
    assert told(administrator()) == []
    goodbye = Told("", port=50_009)
    goodbye.begin()
    goodbye.close("client")
    assert told(goodbye) == []


def test_but_one_of_which_something_is_missing_may_carry_dcp() -> None:
    talk = administrator()
    with talk.lost():
        talk.ask("stat", key="vbucket")
    talk.ask("stat", key="vbucket")
    assert ("note", "mid-stream-start", None) in told(talk)


@pytest.mark.parametrize("opcode", ["dcp_noop", "dcp_control", "dcp_buffer_acknowledgement"])
def test_a_connection_that_has_only_little_of_dcp_has_a_beginning(opcode: str) -> None:
    talk = opened()
    talk.begin()
    parts: dict[str, dict[str, Any]] = {
        "dcp_noop": {},
        "dcp_control": {"key": "enable_noop", "value": b"true"},
        "dcp_buffer_acknowledgement": {"ack_bytes": 9},
    }
    talk.send(
        "server" if opcode == "dcp_noop" else "client", encode(opcode, opaque=5, **parts[opcode])
    )
    assert ("note", "mid-stream-start", None) in told(talk)


@pytest.mark.parametrize(
    ("key", "is_told"),
    [
        ('"a":"java-dcp/0.49","i":"7"', True),
        ('{"a":"java-dcp/0.49","i":"7', True),
        ('{"a":"java-dcp/0.49","i":"7"}', False),
        ("libcouchbase/3.0.3 (a: b)", False),
        ("", False),
    ],
)
def test_the_key_of_a_hello_that_was_json_once_is_told(key: str, is_told: bool) -> None:
    talk = Told("x")
    talk.hello(key, "JSON")
    assert [one.whose for one in findings(talk, rules=["hello-key-not-json"])] == [
        "client"
    ] * is_told


def test_bytes_in_no_message_stand_before_the_message_that_follows() -> None:
    recording = dcpinspect.open(str(SAMPLES / "midstream.pcap"))
    (found,) = (one for one in recording.findings() if one.rule == "undecoded-bytes")
    assert found.evidence_rows == [1]
    assert found.first_time_ns > 0
