"""Trouble below DCP: servers that are not reached, ends that take nothing, and connections of
probes.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import pytest

from dcpinspect.findings.cases import duration
from dcpinspect.findings.finding import Finding
from dcpinspect.reading.joining import ReadingPart, merged
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import (
    ACK,
    ETHERNET,
    FIN,
    RST,
    SYN,
    Conversation,
    Recorded,
    Segment,
    frame,
    recorded,
)
from tests.damage import Packet
from tests.encode import encode
from tests.findings.checked import found_in
from tests.parted import findings
from tests.streams.told import Told, opened, packets

S = 1_000_000_000


def attempt(
    *steps: tuple[float, bool, int],
    port: int = 50_000,
    host: str = "10.0.0.1",
    server: str = "10.0.0.2",
) -> list[Recorded]:
    """Packets without a byte on the way to a server: (seconds, to the server, flags). The client
    does not count on when it repeats.
    """
    talk = Conversation(client=(host, port), server=(server, 11_210))
    for seconds, to_server, flags in steps:
        talk.time_ns = builders.START_NS + int(seconds * S)
        if flags == SYN:
            talk.next[True] = talk.client_isn
        talk.send(to_server, flags=flags)
    return recorded(talk.segments)


UNANSWERED = [(0, True, SYN), (1, True, SYN), (3, True, SYN)]


def error(of: Recorded, kind: int, code: int, *, after: float = 0.001) -> Recorded:
    """The ICMP error by which a router quotes a packet, 28 bytes of it or, of IPv6, 48."""
    packet = of.data[14:]
    time_ns = of.time_ns + int(after * S)
    if packet[0] >> 4 == 6:
        body = struct.pack(">BBHI", kind, code, 0, 0) + packet[:48]
        head = (
            struct.pack(">IHBB", 6 << 28, len(body), 58, 64)
            + socket.inet_pton(socket.AF_INET6, "fd00::99")
            + packet[8:24]
        )
        data = of.data[:12] + b"\x86\xdd" + head + body
    else:
        body = struct.pack(">BBHI", kind, code, 0, 0) + packet[:28]
        head = (
            struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 1, 0)
            + socket.inet_aton("10.0.0.99")
            + packet[12:16]
        )
        data = of.data[:12] + b"\x08\x00" + head + body
    return Recorded(data, len(data), time_ns)


def found(captured: Iterable[Recorded], tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    path = tmp_path_factory.mktemp("below") / "x.pcap"
    path.write_bytes(builders.pcap(sorted(captured, key=lambda one: one.time_ns)))
    with Reading([str(path)], track=True) as reading:
        reading.check()
        list(reading)
        return reading.findings()


def said(
    captured: Iterable[Recorded], tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, str | None, str]]:
    return [(one.severity, one.cause, one.message) for one in found(captured, tmp_path_factory)]


def healthy(*, seconds: float = 60, port: int = 40_000, server: str = "10.0.0.2") -> list[Recorded]:
    """A connection that says a few messages over a while, so that the capture hears servers."""
    talk = Conversation(client=("10.0.0.1", port), server=(server, 11_210))
    talk.handshake()
    for _ in range(3):
        talk.stream(True, builders.message(magic=0x80, opcode=0x0A, opaque=7))
        talk.stream(False, builders.message(magic=0x81, opcode=0x0A, opaque=7))
        talk.time_ns += int(seconds / 3 * S)
    return recorded(talk.segments)


# -- servers that are not reached
# --------------------------------------------------------------------------------------------------


def test_a_syn_that_is_sent_again_was_not_answered(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    (one,) = said(attempt(*UNANSWERED), tmp_path_factory)
    assert one == (
        "warning",
        "unanswered",
        "10.0.0.1 does not reach 10.0.0.2:11210: no answer to 3 SYNs in 3.0 s",
    )


@pytest.mark.parametrize(("vbuckets", "severity"), [((4, 5), "note"), ((4,), "warning")])
@pytest.mark.parametrize("had_streams", [True, False])
def test_who_has_its_vbuckets_elsewhere_needs_the_node_no_more(
    tmp_path_factory: pytest.TempPathFactory,
    vbuckets: Sequence[int],
    severity: str,
    had_streams: bool,
) -> None:
    old = opened(port=50_001)
    for vbucket in (4, 5) if had_streams else ():
        old.stream(vbucket)
    old.close("server")
    new = Told("test:1", server="node2", port=50_002)
    new.hello("test/1.0", "JSON", "Collections")
    new.open("test:1", "producer")
    for vbucket in vbuckets:
        new.stream(vbucket)
    new.wait(60)
    new.noop()
    streamed = [Recorded(one.data, one.wire, one.time_ns) for one in packets(old, new)]
    tries = attempt(*((seconds + 20, to_server, flags) for seconds, to_server, flags in UNANSWERED))
    told = found([*tries, *streamed], tmp_path_factory)
    assert [one.severity for one in told if one.rule == "server-not-reached"] == [
        severity if had_streams else "warning"
    ]


def test_a_syn_that_was_sent_once_has_time_to_be_answered(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assert said([*healthy(), *attempt((59, True, SYN))], tmp_path_factory) == []
    (one,) = said([*healthy(), *attempt((20, True, SYN))], tmp_path_factory)
    assert one == ("warning", "unanswered", "10.0.0.1 does not reach 10.0.0.2:11210: no answer")


def test_a_syn_before_a_pause_of_the_capture_may_have_been_answered_in_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    others = [
        packet for packet in healthy() if not 19 * S < packet.time_ns - builders.START_NS < 39 * S
    ]
    assert "server-not-reached" not in {
        one.rule for one in found([*others, *attempt((10, True, SYN))], tmp_path_factory)
    }
    repeated = found([*others, *attempt((7, True, SYN), (8, True, SYN))], tmp_path_factory)
    assert "server-not-reached" in {one.rule for one in repeated}


def test_a_capture_of_one_direction_misses_no_answer(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    one_way = [
        *attempt((0, True, SYN), (0.1, True, ACK)),
        *attempt((0, True, SYN), port=50_001),
        *attempt((30, True, SYN), port=50_002),
    ]
    assert [
        one.rule for one in found(one_way, tmp_path_factory) if one.rule == "server-not-reached"
    ] == []


def test_a_reset_instead_of_an_answer_is_a_refusal(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    (one,) = said(attempt((0, True, SYN), (0.001, False, RST | ACK)), tmp_path_factory)
    assert one == ("warning", "refused", "10.0.0.1 does not reach 10.0.0.2:11210: refused")
    twice = [(0, True, SYN), (0.03, True, SYN), (0.04, False, RST | ACK), (0.08, False, RST | ACK)]
    assert said(attempt(*twice), tmp_path_factory) == [one], "captured at both ends"


def sent(seconds: float, to_server: bool, flags: int, seq: int, ack: int = 0) -> Segment:
    """A packet without a byte, whose numbers are its own."""
    time_ns = builders.START_NS + int(seconds * S)
    return Segment(to_server, seq, ack, flags, time_ns=time_ns)


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (
            sent(1.006, True, ACK, 1045, 5027),
            [("note", "c2s", "44 bytes in 1 hole, sent by the client")],
        ),
        (sent(1.006, True, ACK, 1000, 5001), []),
        (sent(1.006, True, RST, 1001), []),
        (sent(1.000005, True, SYN, 1000), []),
    ],
    ids=["later bytes acknowledged", "a keepalive", "a reset by the client", "a copy of the SYN"],
)
def test_a_syn_whose_answer_the_capture_lacks_may_have_been_answered(
    later: Segment, told: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    captured = recorded([sent(1, True, SYN, 1000), later])
    assert said([*healthy(seconds=2), *captured], tmp_path_factory) == told


def test_a_reset_that_was_recorded_before_its_syn_refuses_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    captured = recorded([sent(1, False, RST | ACK, 0, 1001), sent(1.0003, True, SYN, 1000)])
    for after in ([], healthy()):
        (one,) = said([*captured, *after], tmp_path_factory)
        assert one == ("warning", "refused", "10.0.0.1 does not reach 10.0.0.2:11210: refused")


@pytest.mark.parametrize(
    "captured",
    [(0, 5), (0, 4, 5), (0, 4)],
    ids=["the reset", "later bytes and the reset", "later bytes"],
)
def test_a_connection_that_carried_bytes_was_opened_though_the_capture_lacks_how(
    captured: tuple[int, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    talk = Conversation(client=("10.0.0.1", 50_001))
    talk.handshake()
    talk.stream(True, bytes(200), sizes=[100, 100], ack_every=0)
    talk.send(False, flags=RST | ACK)
    kept = [recorded(talk.segments)[place] for place in captured]
    assert [one for one in said([*kept, *healthy()], tmp_path_factory) if "reach" in one[2]] == []


@pytest.mark.parametrize(
    ("kind", "code", "cause"),
    [
        *(
            (3, 0, "net-unreachable"),
            (3, 1, "host-unreachable"),
            (3, 3, "port-unreachable"),
            (3, 9, "administratively-prohibited"),
        ),
        *(
            (3, 10, "administratively-prohibited"),
            (3, 13, "administratively-prohibited"),
            (3, 200, "destination-unreachable"),
        ),
        (11, 0, "time-exceeded"),
    ],
)
def test_an_icmp_error_says_why_a_server_is_not_reached(
    kind: int, code: int, cause: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (syn,) = attempt((0, True, SYN))
    (one,) = said([syn, error(syn, kind, code)], tmp_path_factory)
    assert one == (
        "warning",
        cause,
        f"10.0.0.1 does not reach 10.0.0.2:11210: ICMP says {cause.replace('-', ' ')}",
    )


@pytest.mark.parametrize(
    ("kind", "code", "cause"),
    [
        (1, 0, "net-unreachable"),
        (1, 1, "administratively-prohibited"),
        (1, 3, "host-unreachable"),
        (1, 4, "port-unreachable"),
    ],
)
def test_so_does_one_of_icmpv6(
    kind: int, code: int, cause: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (syn,) = attempt((0, True, SYN), host="fd00::1", server="fd00::2")
    (one,) = said([syn, error(syn, kind, code)], tmp_path_factory)
    assert one == (
        "warning",
        cause,
        f"[fd00::1] does not reach [fd00::2]:11210: ICMP says {cause.replace('-', ' ')}",
    )


def test_a_packet_that_is_too_long_for_a_link_is_no_server_that_is_not_reached(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    captured = healthy()
    assert said([*captured, error(captured[3], 3, 4)], tmp_path_factory) == []


def test_a_host_that_is_lost_during_a_connection_is_not_reached_any_more(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    captured = healthy()
    (one,) = said([*captured, error(captured[-1], 3, 1)], tmp_path_factory)
    assert one == (
        "warning",
        "host-unreachable",
        "10.0.0.1 does not reach 10.0.0.2:11210 any more: ICMP says host unreachable",
    )
    assert (
        said([*captured, error(captured[3], 3, 1)], tmp_path_factory) == []
    )  # the server was heard again


def test_a_server_that_is_reached_later_is_a_note(tmp_path_factory: pytest.TempPathFactory) -> None:
    later = [replace(packet, time_ns=packet.time_ns + 30 * S) for packet in healthy()]
    (one,) = found([*attempt(*UNANSWERED), *later], tmp_path_factory)
    assert (one.severity, one.cause, one.over) == ("note", "unanswered", "recovered")


@pytest.mark.parametrize(
    ("host", "severity"), [("::1", "note"), ("fd00::1", "warning"), ("10.0.0.1", "warning")]
)
def test_localhost_is_reached_by_another_of_its_addresses(
    host: str, severity: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused = attempt((0, True, SYN), (0.0001, False, RST | ACK), host=host, server=host)
    talk = Conversation(client=("127.0.0.1", 40_000), server=("127.0.0.1", 11_210))
    talk.time_ns += 300_000
    talk.handshake()
    talk.stream(True, builders.message(magic=0x80, opcode=0x0A, opaque=7))
    (one,) = said([*refused, *recorded(talk.segments)], tmp_path_factory)
    assert one[:2] == (severity, "refused")


@pytest.mark.slow
def test_a_scan_is_one_finding_and_counts_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    scan = [
        packet
        for port in range(12_000)
        for packet in attempt((0, True, SYN), (0.001, False, RST | ACK), port=10_000 + port)
    ]
    (one,) = found(scan, tmp_path_factory)
    assert (one.rule, one.count) == ("server-not-reached", 12_000)


def test_parts_of_a_reading_count_as_the_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("below") / "x.pcap"
    captured = [
        *attempt(*UNANSWERED),
        *attempt((5, True, SYN), (5.1, False, RST | ACK), port=50_001),
        *healthy(),
    ]
    path.write_bytes(builders.pcap(sorted(captured, key=lambda one: one.time_ns)))
    with Reading([str(path)], is_part=True, track=True) as reading:
        reading.check()
        list(reading)
        part, whole = ReadingPart.from_reading(reading), reading.findings()
    again = findings(merged([ReadingPart.from_bytes(part.to_bytes())], [str(path)]))
    assert [(one.rule, one.cause, one.message, one.count) for one in again] == [
        (one.rule, one.cause, one.message, one.count) for one in whole
    ]
    assert len(again) == 2


# -- ends that take nothing
# --------------------------------------------------------------------------------------------------


def taking_nothing(
    captured: Sequence[Packet], since: int, until: int, *, host: str = "10.0.0.1"
) -> list[Packet]:
    """The same packets; in those of one end, from one packet on and before another one, the window
    is 0.
    """
    shut = []
    for number, packet in enumerate(captured):
        is_mine = packet.data[26:30] == socket.inet_aton(host)
        at = packet.payload - 6
        data = (
            packet.data[:at] + b"\0\0" + packet.data[at + 2 :]
            if is_mine and since <= number < until
            else packet.data
        )
        shut.append(replace(packet, data=data))
    return shut


def stalled(seconds: float, *, then: bool = True) -> list[Packet]:
    """Packets of two streams that stop for so long, and then go on or not; before the stop, vb 7
    was told last.
    """
    talk = opened()
    seven, eight = talk.stream(7), talk.stream(8)
    for stream in (eight, seven):
        stream.snapshot(0, 100, "memory")
        stream.mutation(1, "a")
    talk.wait(seconds)
    if then:
        eight.mutation(2, "b")
    else:
        talk.noop()
    return packets(talk)


def rules_of(
    captured: Sequence[Packet], sizes: Iterable[int] = ()
) -> list[tuple[str, str, str | None, tuple[int, ...]]]:
    return [(one.severity, one.rule, one.cause, one.vbuckets) for one in found_in(captured, sizes)]


def test_a_reader_that_takes_nothing_to_the_end_is_an_error_of_all_vbuckets_that_wait() -> None:
    captured = stalled(60, then=False)
    (one,) = found_in(taking_nothing(captured, len(captured) - 6, len(captured)))
    assert (one.severity, one.rule, one.whose, one.vbuckets, one.over) == (
        "error",
        "tcp-window-zero",
        "client",
        (7, 8),
        "open",
    )
    assert one.message.startswith(
        "the client's TCP window is 0 for 60.0 s: it takes no bytes; the server's last message is of vbucket 7"
    )


@pytest.mark.parametrize("sizes", [(), (1,) * 100, (7,) * 20])
def test_a_reader_that_goes_on_later_is_a_warning_of_all_vbuckets_that_waited(
    sizes: Sequence[int],
) -> None:
    captured = stalled(20)
    (one,) = found_in(taking_nothing(captured, len(captured) - 4, len(captured) - 2), sizes)
    assert (one.severity, one.rule, one.vbuckets, one.over) == (
        "warning",
        "tcp-window-zero",
        (7, 8),
        "recovered",
    )
    assert one.message == (
        "the client's TCP window is 0 for 20.0 s: it takes no bytes; the server's last message is of vbucket 8"
    )


def test_what_happens_a_minute_after_a_stop_that_was_over_is_told() -> None:
    talk = opened(enable_noop="true", set_noop_interval="20")
    stream = talk.stream(7)
    stream.snapshot(0, 100, "memory")
    stream.mutation(1, "a")
    stop = len(packets(talk))
    talk.wait(2)
    talk.noop()
    taken = len(packets(talk))
    talk.wait(60)
    talk.send("server", encode("dcp_noop", opaque=9))
    talk.wait(200)
    stream.mutation(2, "b")
    captured = packets(talk)
    found = found_in(taking_nothing(captured, stop - 2, taken - 2))
    assert "noop-unanswered" in {one.rule for one in found}
    (shut,) = (one for one in found if one.rule == "tcp-window-zero")
    assert shut.severity == "note"
    assert shut.last_time_ns - shut.first_time_ns < 3_000_000_000


def stopping(
    *seconds: float, goes_on: bool = True, only: Collection[int] = range(100)
) -> tuple[list[Packet], list[Packet]]:
    """Packets of a stream that stops for so long, several times; the same where the client takes
    nothing meanwhile, ``only`` in these. ``goes_on``: it does in the end.
    """
    talk, spells = opened(enable_noop="true", set_noop_interval="20"), []
    stream = talk.stream(7)
    stream.snapshot(0, 100, "memory")
    for seqno, wait in enumerate(seconds, 1):
        stream.mutation(seqno, f"key {seqno}")
        since = len(packets(talk)) - 1
        talk.wait(wait)
        talk.noop()  # its two packets, the answer, and what acknowledges it
        spells.append((since, len(packets(talk)) - 2))
    captured = packets(talk)
    if not goes_on:
        spells[-1] = spells[-1][0], len(captured)
    shut = captured
    for number, (since, until) in enumerate(spells):
        shut = taking_nothing(shut, since, until) if number in only else shut
    return captured, shut


def test_each_time_that_a_reader_takes_nothing_explains_the_silence_in_it() -> None:
    captured, shut = stopping(100, 60, 70)
    assert {one.rule for one in found_in(captured)} == {"silent-connection", "snapshot-stalled"}
    (one,) = found_in(shut)
    assert (one.severity, one.rule, one.over) == ("warning", "tcp-window-zero", "recovered")
    assert "is 0 for 100.0 s" in one.message
    assert "; 3 times" in one.message
    assert round((one.last_time_ns - one.first_time_ns) / S) == 230


@pytest.mark.parametrize(
    ("last_s", "severity", "told"), [(20, "error", "20.0 s"), (2, "warning", "100.0 s")]
)
def test_the_time_that_is_not_over_counts_more_than_a_longer_one_before(
    last_s: float, severity: str, told: str
) -> None:
    _, shut = stopping(100, last_s, goes_on=False)
    (one,) = found_in(shut)
    assert (one.severity, one.rule, one.over) == (severity, "tcp-window-zero", "open")
    assert f"is 0 for {told}" in one.message
    assert "; 2 times" in one.message
    assert one.last_time_ns == shut[-1].time_ns


@pytest.mark.parametrize("only", [(0, 1, 2, 4, 9), (0, 3, 4), (5, 6, 7)])
def test_each_silence_counts_unless_the_reader_took_nothing_in_it(only: Sequence[int]) -> None:
    _, shut = stopping(50, 51, 52, 53, 99, 60, 61, 62, 63, 64, only=only)
    found = found_in(shut, rules=["silent-connection", "tcp-window-zero"])
    (silent,) = (one for one in found if one.rule == "silent-connection")
    longest = 99 if 4 not in only else 64 if 9 not in only else 63
    assert silent.count == 10 - len(only)
    assert silent.message.startswith(f"nothing came for {duration(longest * S)}")


def test_a_reader_that_is_slow_for_a_moment_is_none_of_interest() -> None:
    captured = stalled(0.5)
    assert found_in(taking_nothing(captured, len(captured) - 4, len(captured) - 2)) == []


def test_a_server_that_takes_nothing_is_the_servers() -> None:
    captured = stalled(20)
    (one,) = found_in(
        taking_nothing(captured, len(captured) - 4, len(captured) - 1, host="10.0.0.2")
    )
    assert (one.rule, one.cause, one.whose, one.vbuckets) == (
        "tcp-window-zero",
        "server",
        "server",
        (),
    )


def test_the_same_silence_is_not_told_of_flow_control() -> None:
    talk = opened(connection_buffer_size="100")
    stream = talk.stream(7)
    stream.snapshot(0, 100, "memory")
    stream.mutation(1, "a", b"x" * 100)
    talk.wait(60)
    talk.noop()
    captured = packets(talk)
    assert ("error", "flow-control-stall") in [one[:2] for one in rules_of(captured)]
    assert [
        one[1] for one in rules_of(taking_nothing(captured, len(captured) - 6, len(captured)))
    ] == ["tcp-window-zero"]


def test_a_connection_that_is_closed_meanwhile_is_told_with_it() -> None:
    captured = stalled(60, then=False)
    shut = taking_nothing(captured, len(captured) - 6, len(captured))
    reset = replace(
        shut[-1],
        data=shut[-1].data[: shut[-1].payload - 7]
        + bytes([RST])
        + shut[-1].data[shut[-1].payload - 6 :],
    )
    reset = replace(reset, time_ns=reset.time_ns + S)
    one, *effects = found_in([*shut, reset])
    assert one.rule == "tcp-window-zero"
    assert [effect.effect_of for effect in effects] == [one.id] * len(effects)
    assert one.message.endswith("then the server reset the connection")


# -- probes
# --------------------------------------------------------------------------------------------------


def probe(seconds: float, port: int, host: str = "10.0.0.200") -> list[Recorded]:
    """A connection that is opened and closed without a byte."""
    steps = [
        (SYN, True),
        (SYN | ACK, False),
        (ACK, True),
        (FIN | ACK, True),
        (FIN | ACK, False),
        (ACK, True),
    ]
    return attempt(
        *(
            (seconds + 0.001 * place, to_server, flags)
            for place, (flags, to_server) in enumerate(steps)
        ),
        port=port,
        host=host,
    )


def test_probes_without_a_byte_are_counted_in_one_line(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    probes = [
        packet
        for number in range(9)
        for packet in probe(number, 50_000 + number, f"10.0.0.{200 + number % 3}")
    ]
    (one,) = found([*healthy(), *probes], tmp_path_factory)
    assert (one.severity, one.rule, one.cause, one.count, one.whose) == (
        "note",
        "health-probe",
        "silent",
        9,
        "normal",
    )


def test_one_connection_without_a_byte_is_no_probe(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assert found([*healthy(), *probe(1, 50_000)], tmp_path_factory) == []


def test_frames_of_errors_are_no_tcp_of_their_own() -> None:
    (syn,) = attempt((0, True, SYN))
    assert error(syn, 3, 1).data[23] == 1
    assert frame(Conversation().send(True), link_type=ETHERNET)[23] == 6


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"HEAD /health HTTP/1.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
@pytest.mark.parametrize("number", [1, 100])
def test_http_is_named_and_counted_in_one_line(
    line: bytes, number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    captured = []
    for port in range(number):
        talk = Conversation(
            client=("10.0.0.200", 20_000 + port), time_ns=builders.START_NS + port * S
        )
        talk.handshake()
        talk.stream(True, line)
        talk.close()
        captured += recorded(talk.segments)
    (one,) = found([*healthy(), *captured], tmp_path_factory)
    assert (one.severity, one.rule, one.cause, one.count, one.whose) == (
        "note",
        "health-probe",
        "http",
        number,
        "client",
    )
