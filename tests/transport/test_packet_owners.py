"""What an endpoint ignores changes nothing, wherever it stands in a conversation; what begins or
ends a connection does so.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.reading.engine import Engine
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.reassembly import Reassembler
from tests import builders
from tests.builders import ACK, FIN, RST, SYN, Conversation, Recorded, Segment, part
from tests.transport_views import lifetimes

BASE = Path(__file__).parents[1] / "captures" / "field" / "t00-base.pcap"
"""A conversation of 111 packets and 345 messages, which the client closes: its last three packets
are two FINs and an acknowledgement.
"""

Read = tuple[list[tuple[int, int, bytes]], list[tuple[str, int, bool]]]
"""Direction, offset and bytes of each message in row order; and how each connection ended, by whom,
and whether its SYN was captured.
"""


class Stray(NamedTuple):
    """A packet that nobody's connection sent."""

    by_client: bool
    flags: int
    ahead: int
    """How far its number is from the next one of who seems to have sent it."""


RESETS = [
    Stray(by_client, RST, ahead)
    for by_client in (False, True)
    for ahead in (0, 1, 500, 100_000, 900_000_000, -1, -900_000_000)
]
SYNS = [
    Stray(by_client, SYN, ahead)
    for by_client in (False, True)
    for ahead in (286_331_153, 0, 5, 40_000)
]
ANSWERS = [Stray(False, SYN | ACK, 286_331_153), Stray(False, SYN | ACK, 5)]
KINDS = [
    *([one] for one in [*RESETS, *SYNS, *ANSWERS]),
    [Stray(False, RST | ACK, 0)],
    [Stray(True, SYN, 286_331_153), Stray(True, SYN, 286_331_153)],
    [Stray(True, SYN, 286_331_153), Stray(True, SYN, 500_000_000)],
    [Stray(False, RST, 0), Stray(True, SYN, 286_331_153)],
]


def packets(data: bytes) -> Iterator[Recorded]:
    at = 24
    while at < len(data):
        seconds, micros, size, wire = struct.unpack_from("<4I", data, at)
        yield Recorded(data[at + 16 : at + 16 + size], wire, seconds * 10**9 + micros * 1000)
        at += 16 + size


@cache
def base() -> list[Recorded]:
    return list(packets(BASE.read_bytes()))


def says(packet: Recorded) -> tuple[bool, int, int]:
    """Whether the client sent a packet, the sequence number behind it, and what it acknowledges."""
    port, _, seq, ack, size, flags = struct.unpack_from(">HHIIBB", packet.data, 34)
    return (
        port != 11_210,
        seq + len(packet.data) - 34 - (size >> 4) * 4 + bool(flags & (SYN | FIN)),
        ack,
    )


def disturbed(
    before: Sequence[Recorded], place: int, strays: Sequence[Stray], after_ns: int = 0
) -> list[Recorded]:
    """These packets with strays at a place, and all that comes behind them so much later."""
    made = []
    for number, stray in enumerate(strays, 1):
        like = next(
            (packet for packet in reversed(before[:place]) if says(packet)[0] == stray.by_client),
            None,
        )
        if like is None:
            continue
        _, seq, ack = says(like)
        acked = ack if stray.flags & ACK and not stray.flags & SYN else 77
        head = like.data[:16] + struct.pack(">H", 40) + like.data[18:38]
        data = head + struct.pack(
            ">IIBBHI", (seq + stray.ahead) % 2**32, acked, 0x50, stray.flags, 502, 0
        )
        made.append(Recorded(data, len(data), before[place - 1].time_ns + number))
    return [
        *before[:place],
        *made,
        *(replace(packet, time_ns=packet.time_ns + after_ns) for packet in before[place:]),
    ]


def in_ipv6(packet: Recorded) -> Recorded:
    at = packet.data[14:]
    total = int.from_bytes(at[2:4], "big")
    ends = [bytes.fromhex("20010db8") + bytes(8) + address for address in (at[12:16], at[16:20])]
    data = (
        packet.data[:12]
        + b"\x86\xdd"
        + struct.pack(">IHBB", 6 << 28, total - 20, 6, 64)
        + b"".join(ends)
        + at[20:total]
    )
    return Recorded(data, len(data), packet.time_ns)


def read(tmp_path: Path, captured: Sequence[Recorded], size: int = 1000) -> Read:
    """In batches of ``size`` packets."""
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(captured, magic=0xA1B23C4D))
    engine = Engine([str(path)])
    batches = [
        part(batch, at, min(at + size, len(batch)))
        for batch in open_capture(path)
        for at in range(0, len(batch), size)
    ]
    found = []
    for batch in (*map(engine.feed, batches), engine.finish()):
        if batch is not None:
            places = zip(batch.direction.tolist(), batch.stream_offset.tolist(), strict=True)
            found += [
                (direction, offset, batch.bytes_of(index))
                for index, (direction, offset) in enumerate(places)
            ]
    return found, [(link.closed, link.closed_by, link.has_handshake) for link in engine.links]


@pytest.mark.slow
@pytest.mark.parametrize("strays", KINDS, ids=str)
def test_a_stray_packet_changes_nothing_wherever_it_is(tmp_path: Path, strays: list[Stray]) -> None:
    whole = read(tmp_path, base())
    assert (len(whole[0]), whole[1]) == (345, [("fin", 0, True)])
    for place in (3, 6, 36, 74, 109):
        assert read(tmp_path, disturbed(base(), place, strays)) == whole, place


@pytest.mark.parametrize("by_client", [False, True])
@pytest.mark.parametrize("ahead", [5_000_000, 900_000_000, -900_000_000])
def test_an_acknowledgement_with_two_wild_numbers_makes_no_hole(
    by_client: bool, ahead: int, tmp_path: Path
) -> None:
    open_end = base()[:-3]
    captured = disturbed(open_end, 74, [Stray(by_client, ACK, ahead)])
    wild = bytearray(captured[74].data)
    wild[42:46] = ((int.from_bytes(wild[42:46], "big") + 700_000_000) % 2**32).to_bytes(4, "big")
    captured[74] = replace(captured[74], data=bytes(wild))
    whole = read(tmp_path, open_end)
    assert read(tmp_path, captured) == whole
    with Reading([str(tmp_path / "x.pcap")]) as reading:
        list(reading)
        assert reading.links[0].missing == (0, 0)


@pytest.mark.parametrize("strays", [KINDS[0], KINDS[4], KINDS[14], KINDS[-3], KINDS[-1]], ids=str)
def test_so_it_is_in_a_capture_that_begins_late_in_ipv6_and_where_the_connection_rests(
    tmp_path: Path, strays: list[Stray]
) -> None:
    late = base()[23:]
    for before in (late, [in_ipv6(packet) for packet in base()]):
        assert read(tmp_path, before)[1][0][:2] == ("fin", 0)
    for place in (2, 50):
        assert read(tmp_path, disturbed(late, place, strays)) == read(tmp_path, late)
        assert read(tmp_path, disturbed(base(), place, strays, 5_000_000_000)) == read(
            tmp_path, base()
        )
        sixth = [in_ipv6(packet) for packet in disturbed(base(), place + 2, strays)]
        assert read(tmp_path, sixth) == read(tmp_path, base())


@pytest.mark.slow
@pytest.mark.parametrize("place", [36, 74, 108, 110])
def test_it_does_not_depend_on_batches(tmp_path: Path, place: int) -> None:
    for strays in (KINDS[0], KINDS[14], KINDS[-1]):
        assert read(tmp_path, disturbed(base(), place, strays), size=1) == read(tmp_path, base())


def conversed(
    tmp_path: Path, segments: Sequence[Segment]
) -> tuple[dict[tuple[int, int], bytes], list[tuple[str, int]]]:
    """The bytes of each direction, and how each connection ended."""
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(segments), magic=0xA1B23C4D))
    reading = builders.read(path)
    return reading.streams, [(life.closed, life.closed_by) for life in lifetimes(reading.transport)]


def talks(
    by_client: bytes, by_server: bytes, *, client_isn: int = 1000, server_isn: int = 4_000_000_000
) -> Conversation:
    made = Conversation(client_isn=client_isn, server_isn=server_isn)
    made.handshake()
    made.send(True, by_client)
    made.send(False, by_server)
    made.send(True)
    return made


WAYS = [
    (apart, lost) for apart in (70_000, 30_000_000, 2_000_000_000) for lost in ((), (0,), (1,))
] + [(2_000_000_000, (0, 1))]


@pytest.mark.parametrize(("apart", "lost"), WAYS)
def test_a_client_that_was_killed_comes_back_from_the_same_port(
    tmp_path: Path, apart: int, lost: tuple[int, ...]
) -> None:
    old, new = (
        talks(b"aaa", b"bbb"),
        talks(b"ccc", b"ddd", client_isn=1000 + apart, server_isn=2_000_000_000),
    )
    new.send(True, b"eee")
    new.send(False, b"fff")
    captured = [
        segment for place, segment in enumerate(new.segments) if place not in lost
    ]  # the SYN and its answer
    streams, ends = conversed(tmp_path, [*old.segments, *captured])
    assert streams == {(1, 0): b"aaa", (1, 1): b"bbb", (2, 0): b"ccceee", (2, 1): b"dddfff"}
    assert ends == [("replaced", -1), ("", -1)]


def test_a_client_that_lost_its_connection_resets_it_when_its_syn_is_challenged(
    tmp_path: Path,
) -> None:
    old, new = (
        talks(b"aaa", b"bbb"),
        talks(b"ccc", b"ddd", client_isn=90_000, server_isn=2_000_000_000),
    )
    syn = new.segments[0]
    challenge = old.send(False)
    reset = old.send(True, flags=RST)
    streams, ends = conversed(tmp_path, [*old.segments[:-2], syn, challenge, reset, *new.segments])
    assert streams == {(1, 0): b"aaa", (1, 1): b"bbb", (2, 0): b"ccc", (2, 1): b"ddd"}
    assert ends == [("rst", 0), ("", -1)]


@pytest.mark.parametrize("kept", [True, False])
def test_a_new_connection_is_known_by_one_direction_alone(tmp_path: Path, kept: bool) -> None:
    old, new = (
        talks(b"aaa", b"bbb"),
        talks(b"ccc", b"ddd", client_isn=30_000_000, server_isn=2_000_000_000),
    )
    new.send(kept, b"eee")
    streams, ends = conversed(
        tmp_path, [one for one in (*old.segments, *new.segments) if one.to_server == kept]
    )
    side = 1 - kept
    assert (streams[1, side], streams[2, side]) == (
        (b"aaa", b"ccceee") if kept else (b"bbb", b"dddeee")
    )
    assert [how for how, _ in ends] == ["replaced", ""]


def test_a_server_that_refuses_a_syn_does_not_know_the_connection_before_it(tmp_path: Path) -> None:
    old, new = talks(b"aaa", b"bbb"), Conversation(client_isn=30_000_000)
    new.send(True, flags=SYN)
    refusal = Segment(False, 0, 30_000_001, RST | ACK)
    assert conversed(tmp_path, [*old.segments, *new.segments, refusal])[1] == [
        ("replaced", -1),
        ("rst", 1),
    ]


def test_a_syn_that_nobody_answers_ends_nothing(tmp_path: Path) -> None:
    old, new = talks(b"aaa", b"bbb"), Conversation(client_isn=30_000_000)
    new.send(True, flags=SYN)
    assert conversed(tmp_path, [*old.segments, *new.segments * 3])[1] == [("", -1)]


def test_the_bytes_of_a_connection_whose_capture_begins_with_a_stray_syn_are_read(
    tmp_path: Path,
) -> None:
    made, stray = talks(b"aaa", b"bbb"), Segment(True, 5_000_000, 0, SYN)
    for data in (b"cccddd", b"eeefff"):
        made.send(False, data)
    streams, _ = conversed(tmp_path, [stray, *made.segments[4:]])
    assert streams[2, 1] == b"bbbcccdddeeefff"


@pytest.mark.parametrize("by_client", [False, True])
@pytest.mark.parametrize("ahead", [0, 700])
def test_a_reset_closes_at_once_and_at_the_end_of_a_capture(
    tmp_path: Path, by_client: bool, ahead: int
) -> None:
    made = talks(b"aaa", b"bbb")
    made.segments.append(Segment(by_client, made.next[by_client] + ahead, 0, RST))
    made.send(not by_client, b"on its way")
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made.segments)))
    engine = Engine([str(path)])
    for batch in open_capture(path):
        engine.feed(batch)
    for _ in range(2):
        (life,) = lifetimes(engine.transport)
        assert (life.closed, life.closed_by, life.closed_packet) == ("rst", 1 - by_client, 6)
        engine.finish()
    assert engine.transport.account(1, 1 - by_client).missing == ahead, (
        "an RST says what its sender had said"
    )


@pytest.mark.parametrize("ahead", [0, 700])
def test_a_close_is_no_reset_where_who_seemed_to_reset_closes_later(
    tmp_path: Path, ahead: int
) -> None:
    made = talks(b"aaa", b"bbb")
    made.segments.append(Segment(False, made.next[False] + ahead, 0, RST))
    made.close()
    assert conversed(tmp_path, made.segments)[1] == [("fin", 0)]


@pytest.mark.parametrize("by_client", [False, True])
def test_a_fin_that_was_not_captured_is_known_by_its_acknowledgement(
    tmp_path: Path, by_client: bool
) -> None:
    made = talks(b"aaa", b"bbb")
    made.send(by_client, flags=FIN | ACK)
    made.send(not by_client)
    made.segments.pop(-2)
    assert conversed(tmp_path, made.segments)[1] == [("fin", 1 - by_client)]
    made.send(not by_client, b"rest")
    made.send(not by_client, flags=FIN | ACK)
    assert conversed(tmp_path, made.segments)[1] == [("fin", 1 - by_client)]


def test_a_byte_that_was_not_captured_is_no_fin_once_its_sender_goes_on(tmp_path: Path) -> None:
    made = talks(b"aaa", b"bbb")
    made.send(True, b"x")
    made.send(False)
    made.segments.pop(-2)
    made.send(True, b"yyyzzz")
    streams, ends = conversed(tmp_path, made.segments)
    assert (streams[1, 0], ends) == (b"aaa\0yyyzzz", [("", -1)])


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("is_apart", [True, False])
def test_who_closed_first_is_told_by_one_direction_only_if_it_acknowledged_a_fin_alone(
    tmp_path: Path, *, kept: bool, first: bool, is_apart: bool
) -> None:
    """``is_apart``: the FIN that was not captured was acknowledged alone, and not together with
    bytes before it.
    """
    made = talks(b"aaa", b"bbb")
    for by_client in (first, not first):
        if not is_apart and by_client != kept:
            made.send(by_client, b"bye")
        made.send(by_client, flags=FIN | ACK)
        made.send(not by_client)
    ends = conversed(tmp_path, [one for one in made.segments if one.to_server == kept])[1]
    assert ends == [("fin", 1 - first if is_apart else -1)]


def test_a_capture_that_begins_late_and_has_one_direction_does_not_tell_who_closed_first(
    tmp_path: Path,
) -> None:
    made = talks(b"aaa", b"bbb")
    made.close()
    assert conversed(tmp_path, [one for one in made.segments[3:] if not one.to_server])[1] == [
        ("fin", -1)
    ]


Wrap = Callable[[bool, bytes], bytes]
"""What a packet is like in a network, by who sent it and its frame."""


def tagged(*vlans: int, back: Sequence[int] | None = None) -> Wrap:
    """``back``: the tags of packets that the server sent, if they have others."""

    def wrap(to_server: bool, data: bytes) -> bytes:
        tags = vlans if to_server or back is None else back
        return (
            data[:12]
            + b"".join(struct.pack(">HH", 0x8100, 3 << 13 | tag) for tag in tags)
            + data[12:]
        )

    return wrap


def tunnelled(kind: str, number: int) -> Wrap:
    """A tunnel between two hosts; ``number`` names the network in it."""

    def wrap(to_server: bool, data: bytes) -> bytes:
        outer = bytes.fromhex("0a0101010a010102" if to_server else "0a0101020a010101")
        if kind == "gre":
            inside, protocol = struct.pack(">HHI", 0x2000, 0x6558, number) + data, 47
        elif kind == "mpls":
            return data[:12] + struct.pack(">HI", 0x8847, number << 12 | 0x140) + data[14:]
        elif kind == "erspan":
            head = struct.pack(">HHIII", 0x1000, 0x88BE, 1, 0x10000000 | number, 0)
            inside, protocol = head + data, 47
        else:
            head = (
                struct.pack(">II", 0x08000000, number << 8)
                if kind == "vxlan"
                else struct.pack(">HHI", 0, 0x6558, number << 8)
            )
            if kind == "gtp-u":  # each direction has a number of its own
                way, data = 0 if to_server else 0x10000, data[14:]
                head = struct.pack(">HHI", 0x30FF, len(data), number + way)
            port, protocol = {"vxlan": 4789, "geneve": 6081, "gtp-u": 2152}[kind], 17
            inside = struct.pack(">HHHH", 4444, port, 8 + len(head + data), 0) + head + data
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inside), 1, 0, 64, protocol, 0) + outer
        return data[:12] + b"\x08\x00" + header + inside

    return wrap


PLAIN = tagged()
ALL_NETWORKS = [
    (tagged(1), tagged(2)),
    (PLAIN, tagged(2)),
    (tagged(5, 1), tagged(5, 2)),
    (tagged(10, back=[20]), tagged(30, back=[40])),
    (tagged(10, back=[]), tagged(30, back=[])),
    *(
        (tunnelled(kind, 1), tunnelled(kind, 2))
        for kind in ("vxlan", "geneve", "gre", "mpls", "erspan", "gtp-u")
    ),
]


def interface(number: int) -> Wrap:
    """A packet as SLL2 has it, seen at an interface."""

    def wrap(_: bool, data: bytes) -> bytes:
        return data[12:14] + struct.pack(">HIHBB8x", 0, number, 1, 0, 6) + data[14:]

    return wrap


def seen_in(*seen: tuple[Sequence[Segment], Wrap, int]) -> list[Recorded]:
    """All packets of conversations in networks, in order of time; with how much later each is seen
    there.
    """
    made = [
        Recorded(data := wrap(one.to_server, builders.frame(one)), len(data), one.time_ns + later)
        for some, wrap, later in seen
        for one in some
    ]
    return sorted(made, key=lambda packet: packet.time_ns)


def sll2(captured: Iterable[Recorded]) -> list[Recorded]:
    return [replace(packet, link_type=builders.COOKED_2) for packet in captured]


def told_in(
    tmp_path: Path, captured: Sequence[Recorded], size: int = 1000
) -> tuple[dict[tuple[int, int], bytes], list[str]]:
    """The bytes of each direction with any, and how each connection ended, read in batches of
    ``size`` packets.
    """
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(captured, magic=0xA1B23C4D))
    transport, streams = Reassembler((11_210,)), defaultdict[tuple[int, int], bytes](bytes)
    cut = (
        part(batch, at, min(at + size, len(batch)))
        for batch in open_capture(path)
        for at in range(0, len(batch), size)
    )
    for chunk in (
        *(chunk for batch in cut for chunk in transport.feed(batch)),
        *transport.finish(),
    ):
        streams[chunk.connection, chunk.direction] += chunk.data.tobytes()
    return {key: data for key, data in streams.items() if data}, [
        life.closed for life in lifetimes(transport)
    ]


def customers(
    *, apart: int = 300_000_000, later_ns: int = 500, skip: int = 0
) -> list[list[Segment]]:
    """Two conversations at the same time, between the same addresses and ports."""
    made = []
    for number in (0, 1):
        one = Conversation(
            client_isn=1000 + number * apart, server_isn=4_000_000_000 - 3 * number * apart
        )
        one.time_ns += number * later_ns
        one.handshake()
        for step in range(4):
            one.send(True, b"%d asks %d" % (number, step))
            one.send(False, b"%d gets %d" % (number, step) * 20)
        one.close()
        made.append(one.segments[skip:])
    return made


@pytest.mark.parametrize("networks", ALL_NETWORKS, ids=range(len(ALL_NETWORKS)))
@pytest.mark.parametrize(("apart", "skip"), [(300_000_000, 0), (300_000_000, 3)])
def test_two_conversations_with_the_same_addresses_in_two_networks_are_kept_apart(
    tmp_path: Path, networks: tuple[Wrap, Wrap], apart: int, skip: int
) -> None:
    made = customers(apart=apart, skip=skip)
    alone = [told_in(tmp_path, builders.recorded(one))[0] for one in made]
    whole = {
        (1 + number, way): data
        for number, one in enumerate(alone)
        for (_, way), data in one.items()
    }
    captured = seen_in(*((one, network, 0) for one, network in zip(made, networks, strict=True)))
    assert told_in(tmp_path, captured) == (whole, ["fin", "fin"])
    assert told_in(tmp_path, captured, size=1) == (whole, ["fin", "fin"])


@pytest.mark.parametrize(("apart", "skip"), [(300_000_000, 0), (300_000_000, 3), (40_000, 0)])
def test_two_conversations_with_the_same_addresses_at_two_interfaces_are_kept_apart(
    tmp_path: Path, apart: int, skip: int
) -> None:
    made = customers(apart=apart, skip=skip)
    alone = [[*told_in(tmp_path, builders.recorded(one))[0].values()] for one in made]
    captured = sll2(seen_in((made[0], interface(3), 0), (made[1], interface(70_000), 0)))
    streams, closed = told_in(tmp_path, captured)
    assert [*streams.values()] == [data for both in alone for data in both]
    assert closed == ["fin", "fin"]


@pytest.mark.parametrize("skip", [0, 2, 3, 4])
def test_one_conversation_that_is_seen_at_several_interfaces_is_one_connection(
    tmp_path: Path, skip: int
) -> None:
    one = customers(skip=skip)[0]
    seen = ((one, interface(number), 500 * number) for number in range(12))
    captured = sll2(seen_in(*seen))
    assert told_in(tmp_path, captured) == told_in(tmp_path, builders.recorded(one))


@pytest.mark.parametrize(("apart", "skip"), [(40_000, 0), (300_000_000, 4)])
def test_they_are_kept_apart_with_numbers_near_each_other_and_where_the_capture_begins_late(
    tmp_path: Path, apart: int, skip: int
) -> None:
    test_two_conversations_with_the_same_addresses_in_two_networks_are_kept_apart(
        tmp_path, (tagged(1), tagged(2)), apart, skip
    )


@pytest.mark.parametrize(
    "networks",
    [
        [tagged(10, back=[20])],
        [tagged(10, back=[])],
        [PLAIN, tagged(7), tagged(7, 8)],
        [PLAIN, tunnelled("vxlan", 5)],
        [tunnelled("geneve", 9), PLAIN, tagged(3)],
    ],
    ids=range(5),
)
@pytest.mark.parametrize("skip", [0, 2, 3, 4])
def test_one_conversation_that_is_seen_in_several_networks_is_one_connection(
    tmp_path: Path, networks: list[Wrap], skip: int
) -> None:
    one = customers(skip=skip)[0]
    captured = seen_in(*((one, network, 500 * place) for place, network in enumerate(networks)))
    assert told_in(tmp_path, captured) == told_in(tmp_path, builders.recorded(one))
    assert told_in(tmp_path, captured, size=1) == told_in(tmp_path, builders.recorded(one))


@pytest.mark.parametrize(
    "networks", [[tagged(10, back=[20])], [PLAIN, tagged(7)], [tagged(3)]], ids=range(3)
)
def test_a_connection_that_follows_in_the_same_networks_replaces_the_one_before(
    tmp_path: Path, networks: list[Wrap]
) -> None:
    old, new = (
        talks(b"aaa", b"bbb"),
        talks(b"ccc", b"ddd", client_isn=90_000_000, server_isn=2_000_000_000),
    )
    new.segments = [
        replace(segment, time_ns=segment.time_ns + 10_000_000) for segment in new.segments
    ]
    streams, ends = told_in(
        tmp_path,
        seen_in(
            *(
                ([*old.segments, *new.segments], network, 500 * at)
                for at, network in enumerate(networks)
            )
        ),
    )
    assert streams == {(1, 0): b"aaa", (1, 1): b"bbb", (2, 0): b"ccc", (2, 1): b"ddd"}
    assert ends == ["replaced", ""]


@pytest.mark.parametrize(
    "networks", [[tagged(10, back=[20])], [tagged(10), tagged(20)], [tagged(3)]], ids=range(3)
)
def test_so_does_one_with_numbers_near_those_of_a_half_open_connection(
    tmp_path: Path, networks: list[Wrap]
) -> None:
    old, new = talks(b"aaa", b"bbb"), talks(b"ccc", b"ddd", client_isn=2500)
    syn, challenge, reset = new.segments[0], old.send(False), old.send(True, flags=RST)
    new.send(False, b"eee")
    sent = [*old.segments[:-2], syn, challenge, reset, *new.segments]
    sent = [
        replace(segment, time_ns=builders.START_NS + 1_000_000 * place)
        for place, segment in enumerate(sent)
    ]
    streams, ends = told_in(tmp_path, seen_in(*((sent, network, 0) for network in networks)))
    assert streams == {(1, 0): b"aaa", (1, 1): b"bbb", (2, 0): b"ccc", (2, 1): b"dddeee"}
    assert ends == ["rst", ""]


def test_what_bears_no_number_of_a_connection_changes_nothing_in_another_network(
    tmp_path: Path,
) -> None:
    one = customers()[0]
    strays = [
        replace(one[6], seq=77, ack=one[6].ack + 2**30, payload=b"", flags=flags)
        for flags in (ACK, RST, RST | ACK)
    ]
    captured = seen_in((one, tagged(10), 0), (strays, tagged(20), 1))
    assert told_in(tmp_path, captured) == told_in(tmp_path, builders.recorded(one))


def test_connections_in_two_networks_stay_apart_once_others_have_left_memory(
    tmp_path: Path,
) -> None:
    made = customers()
    path = tmp_path / "x.pcap"
    path.write_bytes(
        builders.pcap(seen_in((made[0], tagged(1), 0), (made[1], tagged(2), 0)), magic=0xA1B23C4D)
    )
    (batch,) = open_capture(path)
    transport, streams = Reassembler((11_210,)), defaultdict[tuple[int, int], bytes](bytes)
    for at in range(0, len(batch), 5):
        for chunk in transport.feed(part(batch, at, min(at + 5, len(batch)))):
            streams[chunk.connection, chunk.direction] += chunk.data.tobytes()
        transport.keep(np.arange(1, transport.count + 1))
    assert {key: data for key, data in streams.items() if data} == told_in(
        tmp_path, seen_in((made[0], tagged(1), 0), (made[1], tagged(2), 0))
    )[0]


@pytest.mark.parametrize("behind", [4, 6])
def test_a_syn_that_stands_in_the_file_behind_bytes_of_its_connection_begins_no_other(
    tmp_path: Path, behind: int
) -> None:
    made = customers()[0]
    streams, ends = conversed(tmp_path, [*made[1:behind], made[0], *made[behind:]])
    assert (streams, ends) == conversed(tmp_path, made)
    late, ends = conversed(tmp_path, [*made[3:behind], made[0], made[1], *made[behind:]])
    assert (late, ends) == conversed(tmp_path, made[3:])
