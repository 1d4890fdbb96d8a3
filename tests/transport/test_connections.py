from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.arrays import IntArray
from dcpinspect.transport.connections import AddressPairs, endpoint_text, halves
from dcpinspect.transport.headers import ADDRESSES, COLUMNS, HALF, PORTS
from tests import builders
from tests.builders import ACK, FIN, RST, SYN, Conversation, Segment
from tests.transport_views import accounts, connections, lifetimes


def ends(tmp_path: Path, segments: list[Segment]) -> list[tuple[str, str, str]]:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(segments)))
    return [
        (link.client, link.server, link.starts)
        for link in connections(builders.read(path).transport)
    ]


def test_the_syn_decides_who_is_the_client(tmp_path: Path) -> None:
    made = Conversation(client=("10.0.0.2", 11_210), server=("10.0.0.1", 40_000))
    made.handshake()
    assert ends(tmp_path, made.segments) == [("10.0.0.2:11210", "10.0.0.1:40000", "handshake")]


def test_without_a_syn_the_port_decides(tmp_path: Path) -> None:
    made = Conversation()
    made.send(False, b"x")
    assert ends(tmp_path, made.segments) == [("10.0.0.1:50000", "10.0.0.2:11210", "mid-stream")]


def test_without_a_port_the_first_sender_is_the_client(tmp_path: Path) -> None:
    made = Conversation(client=("10.0.0.1", 11_210), server=("10.0.0.2", 11_210))
    made.send(False, b"x")
    assert ends(tmp_path, made.segments) == [("10.0.0.2:11210", "10.0.0.1:11210", "mid-stream")]


def test_ipv6_addresses_are_in_brackets(tmp_path: Path) -> None:
    made = Conversation(client=("::1", 50_312), server=("::1", 11_210))
    made.handshake()
    assert ends(tmp_path, made.segments) == [("[::1]:50312", "[::1]:11210", "handshake")]


def test_connections_are_numbered_by_first_packet(tmp_path: Path) -> None:
    made = [Conversation(client=("10.0.0.9", port)) for port in (3, 1, 2)]
    for one in made:
        one.handshake()
    clients = [
        client
        for client, _, _ in ends(tmp_path, [segment for one in made for segment in one.segments])
    ]
    assert clients == ["10.0.0.9:3", "10.0.0.9:1", "10.0.0.9:2"]


def reused(tmp_path: Path, *conversations: Conversation) -> builders.Reading:
    path = tmp_path / "x.pcap"
    path.write_bytes(
        builders.pcap(
            builders.recorded([segment for one in conversations for segment in one.segments])
        )
    )
    return builders.read(path)


def test_a_new_syn_is_a_new_connection(tmp_path: Path) -> None:
    first, second = Conversation(), Conversation(client_isn=5_000_000, server_isn=77)
    for one, data in ((first, b"first"), (second, b"second")):
        one.handshake()
        one.stream(False, data)
    streams = reused(tmp_path, first, second).streams
    assert (streams[1, 1], streams[2, 1]) == (b"first", b"second")


@pytest.mark.parametrize("batch_bytes", [1, 1 << 24])
@pytest.mark.parametrize("ahead", [-40_000, 2_000, 30_000, 5_000_000])
@pytest.mark.parametrize("at", [2, 3, 6])
@pytest.mark.parametrize("end", ["FINs", "RST of the client", "none"])
@pytest.mark.parametrize("is_copy", [False, True])
def test_late_packets_are_of_the_connection_that_sent_them(
    tmp_path: Path, is_copy: bool, end: str, at: int, ahead: int, batch_bytes: int
) -> None:
    old = Conversation(client_isn=1_000_000, server_isn=7_000_000)
    old.handshake()
    old.stream(True, b"asks")
    old.stream(False, bytes(4_000), sizes=(400, 1_200, 1_200, 1_200), ack_every=0)
    tail = old.segments[-3:]
    if not is_copy:
        del old.segments[-3:]
    for by_client, flags in ENDS[end]:
        old.send(by_client, flags=flags)
    new = Conversation(client_isn=1_000_000 + ahead, server_isn=7_000_000 + ahead)
    new.handshake()
    new.stream(True, b"asks again")
    new.stream(False, b"says " * 800, sizes=(400,) * 10, ack_every=0)
    mixed = [*new.segments[:at], *tail, *new.segments[at:]]
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded([*old.segments, *mixed])))
    reading = builders.read(path, batch_bytes=batch_bytes)
    assert reading.streams[2, 0] == b"asks again"
    assert reading.streams[2, 1] == b"says " * 800
    payloads = [account.captured for account in accounts(reading.transport)]
    assert payloads == [4, 7_600 if is_copy else 4_000, 10, 4_000]
    by_then = [account.late + account.duplicate for account in accounts(reading.transport)]
    assert by_then == [0, 3_600, 0, 0]


def test_a_repeated_syn_is_not(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.segments.insert(1, made.segments[0])
    made.segments.insert(3, made.segments[2])
    made.stream(False, b"data")
    assert reused(tmp_path, made).streams == {(1, 0): b"", (1, 1): b"data"}


SECOND = 1_000_000_000
ENDS = {
    "FINs": [(True, FIN | ACK), (False, FIN | ACK), (True, ACK)],
    "FINs, one side captured": [(True, FIN | ACK)],
    "RST of the server": [(False, RST | ACK)],
    "RST of the client": [(True, RST)],
    "FIN and RST": [(True, FIN | ACK), (True, RST)],
    "none": [],
}


def talk(end: str) -> list[Segment]:
    made = Conversation()
    made.handshake()
    made.stream(True, b"asks")
    made.stream(False, b"says")
    for by_client, flags in ENDS[end]:
        made.send(by_client, flags=flags)
    return [segment for segment in made.segments if segment.to_server or "one side" not in end]


def later(segments: list[Segment], by_ns: int) -> list[Segment]:
    return [replace(segment, time_ns=segment.time_ns + by_ns) for segment in segments]


def told(
    tmp_path: Path, *files: list[Segment], batch_bytes: int = 1 << 24
) -> tuple[dict[tuple[int, int], bytes], int]:
    """What each direction of each connection said, and how many bytes were duplicates."""
    paths = [tmp_path / f"{number}.pcap" for number in range(len(files))]
    for path, segments in zip(paths, files, strict=True):
        path.write_bytes(builders.pcap(builders.recorded(segments)))
    found = builders.read(*paths, batch_bytes=batch_bytes)
    return found.streams, sum(account.duplicate for account in accounts(found.transport))


@pytest.mark.parametrize("batch_bytes", [1, 1 << 24])
@pytest.mark.parametrize(
    "lost", [(), (1,), (1, 2)]
)  # the answer to the SYN, and the answer to that
@pytest.mark.parametrize(
    ("end", "by_ns"), [(end, SECOND if end != "none" else 41 * SECOND) for end in ENDS]
)
def test_a_conversation_that_is_played_again_with_the_same_numbers_is_another_connection(
    tmp_path: Path, end: str, by_ns: int, lost: tuple[int, ...], batch_bytes: int
) -> None:
    whole, _ = told(tmp_path, talk(end))
    again = [
        segment
        for place, segment in enumerate(later(talk(end), by_ns))
        if place not in lost or "one side" in end
    ]
    streams, duplicate = told(
        tmp_path, [*talk(end), *again, *later(talk(end), 2 * by_ns)], batch_bytes=batch_bytes
    )
    assert duplicate == 0
    assert streams == {
        (number, side): data for number in (1, 2, 3) for (_, side), data in whole.items()
    }


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("by_ns", [0, 1000, SECOND // 2])
def test_packets_that_are_captured_twice_are_duplicates(
    tmp_path: Path, end: str, by_ns: int
) -> None:
    whole, _ = told(tmp_path, talk(end))
    assert told(tmp_path, [*talk(end), *later(talk(end), by_ns)]) == (
        whole,
        sum(len(segment.payload) for segment in talk(end)),
    )
    assert told(tmp_path, talk(end), later(talk(end), by_ns))[0] == whole


@pytest.mark.parametrize("end", ENDS)
def test_a_capture_that_is_read_twice_says_the_same_whatever_was_sent_again_or_played_again_in_it(
    tmp_path: Path, end: str
) -> None:
    made = [talk(end)[0], *later(talk(end), 32 * SECOND)]  # a SYN that had no answer
    made += later(made, 100 * SECOND)
    once, _ = told(tmp_path, made)
    assert len(once) == 2 * len(told(tmp_path, talk(end))[0])
    assert told(tmp_path, made, made)[0] == once


def test_a_syn_that_is_sent_again_after_a_refusal_is_of_the_same_connection(tmp_path: Path) -> None:
    asked = [Segment(True, 1000, 0, SYN), Segment(False, 0, 1001, RST | ACK)]
    tries = [segment for number in range(3) for segment in later(asked, number * SECOND)]
    assert len(ends(tmp_path, tries)) == 1


def test_two_segments_far_out_of_the_window_are_a_new_connection(tmp_path: Path) -> None:
    first, second = Conversation(server_isn=100), Conversation(server_isn=2_000_000_000)
    first.handshake()
    first.stream(False, b"first")
    second.stream(False, b"second half", sizes=(7,), ack_every=0)
    streams = reused(tmp_path, first, second).streams
    assert (streams[1, 1], streams[2, 1]) == (b"first", b"second half")


@pytest.mark.parametrize(
    ("flags", "by_client", "apart", "connections"),
    [
        (FIN | ACK, True, 1 << 17, 2),
        (FIN | ACK, False, 2 << 20, 2),
        (FIN | ACK, False, 1 << 19, 1),
        (FIN | ACK, True, 1 << 15, 1),
        (RST, False, 2 << 20, 2),
        (RST, False, 1 << 19, 1),
        (0, True, 2 << 20, 1),
    ],
)
def test_what_lies_far_behind_the_end_of_a_connection_is_of_the_next_one(
    tmp_path: Path, flags: int, by_client: bool, apart: int, connections: int
) -> None:
    first = Conversation(client_isn=1_000, server_isn=1_000)
    first.handshake()
    first.stream(by_client, b"first")
    if flags:
        first.send(True, flags=flags)
    second = Conversation(client_isn=1_000 + apart, server_isn=1_000 + apart)
    second.stream(by_client, b"second half", sizes=(7,), ack_every=0)
    streams = reused(tmp_path, first, second).streams
    assert max(connection for connection, _ in streams) == connections
    if connections == 2:
        assert {*streams.values()} == {b"", b"first", b"second half"}


@pytest.mark.parametrize("behind", [1 << 22, 1 << 29])
def test_what_lies_far_before_the_first_byte_of_a_closed_connection_is_of_the_next_one(
    tmp_path: Path, behind: int
) -> None:
    first, second = Conversation(server_isn=1 << 30), Conversation(server_isn=(1 << 30) - behind)
    first.handshake()
    first.stream(False, b"first")
    first.send(True, flags=FIN | ACK)
    second.stream(False, b"second half", sizes=(7,), ack_every=0)
    streams = reused(tmp_path, first, second).streams
    assert (streams[1, 1], streams[2, 1]) == (b"first", b"second half")


def test_a_connection_without_a_syn_has_the_first_far_off_segments_of_both_directions(
    tmp_path: Path,
) -> None:
    first, second = Conversation(), Conversation(client_isn=2_000_000_000, server_isn=3_000_000_000)
    first.handshake()
    first.stream(False, b"first")
    for by_client, data in (
        (True, b"hello?"),
        (False, b"hello."),
        (True, b"open?"),
        (False, b"opened."),
    ):
        second.send(by_client, data)
    reading = reused(tmp_path, first, second)
    assert (reading.streams[2, 0], reading.streams[2, 1]) == (b"hello?open?", b"hello.opened.")
    assert [account.late for account in accounts(reading.transport)] == [0, 0, 0, 0]
    assert connections(reading.transport)[1].first_packet == len(first.segments)


@pytest.mark.parametrize("after_ns", [10_000, 10_000_000, 5_000_000_000])
@pytest.mark.parametrize("reset_by_client", [False, True])
def test_a_connection_goes_on_after_a_reset_that_its_ends_ignored(
    tmp_path: Path, after_ns: int, reset_by_client: bool
) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, b"first")
    made.send(reset_by_client, flags=RST)
    made.time_ns += after_ns
    made.stream(False, b"second ")
    made.stream(False, b"half")
    made.close()
    reading = reused(tmp_path, made)
    assert reading.streams == {(1, 0): b"", (1, 1): b"firstsecond half"}
    assert [(life.closed, life.closed_by) for life in lifetimes(reading.transport)] == [("fin", 0)]


def test_a_far_off_segment_that_the_next_connection_does_not_acknowledge_is_wrong(
    tmp_path: Path,
) -> None:
    first, second = Conversation(), Conversation(client_isn=2_000_000_000, server_isn=3_000_000_000)
    first.handshake()
    first.stream(False, b"first")
    wrong = Conversation(client_isn=1_500_000_000)
    wrong.send(True, b"wrong")
    for by_client, data in ((False, b"news, "), (False, b"news."), (True, b"thanks")):
        second.send(by_client, data)
    reading = reused(tmp_path, first, wrong, second)
    assert (reading.streams[2, 0], reading.streams[2, 1]) == (b"thanks", b"news, news.")


def test_bytes_of_a_far_off_segment_are_released_by_the_one_that_shows_what_it_was(
    tmp_path: Path,
) -> None:
    first, second = Conversation(server_isn=100), Conversation(server_isn=2_000_000_000)
    first.handshake()
    second.stream(False, b"second half", sizes=(7,), ack_every=0)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded([*first.segments, *second.segments])))
    (batch,) = builders.open_capture(path)
    (chunk,) = [chunk for chunk in builders.Reassembler().feed(batch) if chunk.connection == 2]
    assert (chunk.segments.packet.number.tolist(), chunk.segments.release.tolist()) == (
        [3, 4],
        [4, 4],
    )


def test_one_such_segment_is_not(tmp_path: Path) -> None:
    made, wrong = Conversation(server_isn=100), Conversation(server_isn=2_000_000_000)
    made.handshake()
    made.stream(False, b"first ")
    wrong.send(False, b"wrong")
    after = Conversation(server_isn=107, client_isn=1001)
    after.stream(False, b"second")
    reading = reused(tmp_path, made, wrong, after)
    assert reading.streams[1, 1] == b"first second"
    assert [account.late for account in accounts(reading.transport)] == [0, 5]


def test_a_reset_with_a_senseless_number_changes_nothing(tmp_path: Path) -> None:
    made = Conversation(server_isn=3_000_000_000)
    made.handshake()
    made.stream(False, b"a")
    reset = Segment(False, 0, 0, RST)
    made.segments.append(reset)
    made.stream(False, b"b")
    assert reused(tmp_path, made).streams[1, 1] == b"ab"


def test_left_over_packets_do_not_enter_the_next_connection(tmp_path: Path) -> None:
    first, second = Conversation(), Conversation(client_isn=2_500_000_000, server_isn=9)
    first.handshake()
    second.send(True, flags=SYN)
    stale = first.send(False, b"stale")
    second.segments.append(stale)
    first.segments.remove(stale)
    second.send(False, flags=SYN | ACK)
    second.stream(False, b"fresh")
    assert reused(tmp_path, first, second).streams[2, 1] == b"fresh"


@pytest.mark.parametrize("parts", [1, 7])
def test_pairs_are_exact_and_grow(parts: int) -> None:
    tcp = random_packets(20_000)
    pairs = AddressPairs()
    found = [pairs.find(part) for part in np.array_split(tcp, parts)]
    number, side = (np.concatenate(columns) for columns in zip(*found, strict=True))
    expected: dict[frozenset[tuple[int, ...]] | tuple[int, ...], int] = {}
    for row, pair, end in zip(tcp.tolist(), number.tolist(), side.tolist(), strict=True):
        source, target = (
            (*row[end : end + 2], row[PORTS + end // 2]) for end in (ADDRESSES, ADDRESSES + 2)
        )
        assert expected.setdefault(frozenset((source, target)), len(expected)) == pair
        if source != target:
            assert end == (source > target)
    assert pairs.count == len(expected)
    assert_known(pairs, tcp, number, side)


def test_pairs_that_stay_are_known_by_their_new_numbers() -> None:
    tcp = random_packets(5_000)
    pairs = AddressPairs()
    number, side = pairs.find(tcp)
    staying = np.arange(pairs.count) % 3 == 1
    new = pairs.keep(staying)
    assert new[~staying].max() == -1
    stays = staying[number]
    assert pairs.count == staying.sum()
    assert_known(pairs, tcp[stays], new[number][stays], side[stays])
    assert pairs.find(tcp[stays])[0].tolist() == new[number][stays].tolist()
    pairs.keep(np.zeros(pairs.count, np.bool_))
    assert pairs.find(tcp)[0].tolist() == number.tolist(), "as if nothing had been there"


def random_packets(packets: int) -> IntArray:
    """Packets between few addresses of IPv4 and IPv6, and between many."""
    rng = np.random.default_rng(3)
    words = rng.integers(0, 3, (packets, 8)) * 0xFFFFFFFF // 2
    words[::2, [0, 1, 4, 5]], words[::2, [2, 6]] = 0, 0xFFFF
    words[::5, 3] = rng.integers(0, 1 << 32, len(words[::5]))
    return packets_of(words, rng.integers(1, 4, (packets, 2)) * 0xFFFF // 3)


def packets_of(words: IntArray, ports: IntArray) -> IntArray:
    """Packets between these addresses, of four words of 32 bits each, and ports."""
    tcp = np.zeros((len(words), COLUMNS), np.int64)
    tcp[:, ADDRESSES : ADDRESSES + 4] = words[:, ::2] - HALF << 32 | words[:, 1::2]
    tcp[:, PORTS : PORTS + 2] = ports
    return tcp


def assert_known(pairs: AddressPairs, tcp: IntArray, number: IntArray, side: IntArray) -> None:
    words = pairs.words(number)
    for row, pair, end, known in zip(
        tcp[:500], number.tolist(), side.tolist(), words.tolist(), strict=False
    ):
        sender, other = (
            (
                np.stack(halves(row[end : end + 2]), axis=-1).ravel().tolist(),
                int(row[PORTS + end // 2]),
            )
            for end in (0, 2)
        )
        low, high = (other, sender) if end else (sender, other)
        assert known == [*low[0], *high[0], low[1], high[1]]
        assert [pairs.address(pair, 0), pairs.address(pair, 1)] == [
            endpoint_text(*low),
            endpoint_text(*high),
        ]
        assert pairs.ports(np.array([pair, pair]), np.array([0, 1])).tolist() == [low[1], high[1]]
