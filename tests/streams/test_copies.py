from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bench import floods
from dcpinspect.capture.open import open_capture
from dcpinspect.reading.reading import Reading
from dcpinspect.streams import copies
from dcpinspect.streams.copies import PROXY, TRANSLATION, Copy
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders
from tests.builders import SYN, Conversation, Recorded, recorded
from tests.captures import field, real_server
from tests.doubled import Doubled, packets_of, passed_on, said_of, tcp_of, translated, written
from tests.encode import encode
from tests.parted import divided, everything, joined, whole
from tests.peers.truth import SAMPLES
from tests.streams.told import opened, packets

BASE = "t00-base"
RECORDED = (
    "6.0.5-dcp1",
    "6.6.5-dcp",
    "durability",
    "name-clash-dup",
    "replication-60-66",
    "v85-oso",
)


def copies_of(folder: Path, packets: Iterable[Recorded]) -> dict[int, Copy]:
    with Reading([str(written(folder, packets))], track=True) as reading:
        for _ in reading:
            pass
        return reading.tracker.copies.among(reading.links)


@pytest.mark.parametrize(("doubled", "by"), [(translated, TRANSLATION), (passed_on, PROXY)])
def test_a_conversation_that_a_capture_shows_twice_is_known(
    doubled: Doubled, by: str, tmp_path: Path
) -> None:
    found = copies_of(tmp_path, doubled(packets_of(field(BASE))))
    assert {number: (copy.of, copy.by) for number, copy in found.items()} == {2: (1, by)}
    assert 0 < found[2].delay_ns < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("doubled", [translated, passed_on])
def test_a_recording_of_a_real_server_says_the_same_when_its_packets_come_twice(
    name: str, doubled: Doubled, tmp_path: Path
) -> None:
    packets = packets_of(real_server(name))
    assert said_of(written(tmp_path, doubled(packets))) == said_of(written(tmp_path, packets))
    assert copies_of(tmp_path, packets) == {}


@pytest.mark.parametrize("name", ["q01-syn-unanswered", "q02-syn-refused", "q05-tls-to-plain-port"])
def test_connections_without_messages_are_known_by_their_handshakes(
    name: str, tmp_path: Path
) -> None:
    packets = packets_of(field(name))
    assert said_of(written(tmp_path, translated(packets))) == said_of(written(tmp_path, packets))


def test_three_copies_are_one_conversation(tmp_path: Path) -> None:
    packets = packets_of(field(BASE))
    thrice = sorted(
        [*translated(packets), *translated(packets, host=b"\xac\x11\0\2", delay_ns=50_000)],
        key=lambda one: one.time_ns,
    )
    assert {copy.of for copy in copies_of(tmp_path, thrice).values()} == {1}


def test_translation_may_change_the_port_of_the_client_too(tmp_path: Path) -> None:
    packets = packets_of(field(BASE))
    both = sorted(
        [*packets, *shifted(packets, by_ns=9_000, port=77, shift=0)], key=lambda one: one.time_ns
    )
    assert [copy.by for copy in copies_of(tmp_path, both).values()] == [TRANSLATION]


@pytest.mark.parametrize("doubled", [translated, passed_on])
def test_a_copy_without_the_beginning_is_known(doubled: Doubled, tmp_path: Path) -> None:
    packets = packets_of(field(BASE))
    assert [copy.of for copy in copies_of(tmp_path, doubled(packets[20:])).values()] == [1]


@pytest.mark.parametrize("doubled", [translated, passed_on])
def test_the_more_complete_of_two_copies_counts(doubled: Doubled, tmp_path: Path) -> None:
    packets = packets_of(field(BASE))
    own = {packet.data for packet in packets}
    several = doubled(packets)
    first = [packet for packet in several if packet.data in own]
    lost = {first[place].data for place in (30, 40, 41, 70)}
    found = copies_of(tmp_path, [packet for packet in several if packet.data not in lost])
    assert {number: (copy.of, copy.both_lack) for number, copy in found.items()} == {1: (2, False)}
    assert found[1].delay_ns < 0


def test_each_of_two_copies_that_lacks_bytes_is_told(tmp_path: Path) -> None:
    packets = translated(packets_of(field(BASE)))
    says = [
        packet.data for packet in packets if tcp_of(packet).payload
    ]  # each of them twice, one after the other
    lost = {says[60], says[95]}
    (copy,) = copies_of(
        tmp_path, [packet for packet in packets if packet.data not in lost]
    ).values()
    assert copy.both_lack


def test_a_copy_whose_packets_were_cut_is_known(tmp_path: Path) -> None:
    packets = passed_on(packets_of(field(BASE)))
    cut = [
        replace(one, data=one.data[:128]) if tcp_of(one).to_server() is False else one
        for one in packets
    ]
    assert [copy.by for copy in copies_of(tmp_path, cut).values()] == [PROXY]


def test_a_leg_in_tls_and_a_plain_one_are_one_conversation(tmp_path: Path) -> None:
    keys = KeyLog([str(real_server("tls13").parent / "tls13.keys.log")])
    packets = packets_of(real_server("tls13"))
    plain: dict[int, Conversation] = {}
    with Reading([str(real_server("tls13"))], keys=keys) as reading:
        for batch in reading:
            for row, (connection, direction, time_ns) in enumerate(
                zip(
                    batch.connection.tolist(),
                    batch.direction.tolist(),
                    batch.time_ns.tolist(),
                    strict=True,
                )
            ):
                wire = plain.setdefault(
                    connection,
                    Conversation(client=("10.1.1.1", 40_000 + connection), step_ns=0, mss=1 << 15),
                )
                wire.time_ns = time_ns + (-1000 if direction else 1000)
                if not wire.segments:
                    wire.handshake()
                wire.stream(not direction, batch.bytes_of(row), ack_every=0)
    behind = recorded([segment for wire in plain.values() for segment in wire.segments])
    both = sorted([*packets, *behind], key=lambda one: one.time_ns)
    with Reading([str(written(tmp_path, both))], track=True, keys=keys) as reading:
        for _ in reading:
            pass
        found = reading.tracker.copies.among(reading.links)
    assert {(one.of, one.by) for one in found.values()} == {
        (number, PROXY) for number in range(1, 2 * len(plain), 2)
    }


# -- a second recording, with another clock
# --------------------------------------------------------------------------------------------------

SECOND = 1_000_000_000
APART = (3 * SECOND, 3600 * SECOND, -3600 * SECOND)
"""How far the second clock is ahead: for longer than a conversation lasts."""


def later(packets: Iterable[Recorded], by_ns: int) -> list[Recorded]:
    return [replace(packet, time_ns=packet.time_ns + by_ns) for packet in packets]


def without(flag: int, packets: Iterable[Recorded]) -> list[Recorded]:
    return [packet for packet in packets if not tcp_of(packet).flags & flag]


def written_as(
    form: str, folder: Path, first: Sequence[Recorded], second: Sequence[Recorded]
) -> list[Path]:
    """Two recordings as ``form`` says: two files, one in order of time, or one after the other."""
    if form == "files":
        return [written(folder, first, "b.pcap"), written(folder, second, "a.pcap")]
    both = [*first, *second]
    if form == "merged":
        both.sort(key=lambda packet: packet.time_ns)
    return [written(folder, both)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["files", "merged", "appended"])
@pytest.mark.parametrize("by_ns", APART)
@pytest.mark.parametrize("name", [BASE, "p02-select-bucket-one-node", "q06-health-probes"])
def test_a_second_recording_with_another_clock_says_nothing_more(
    name: str, by_ns: int, form: str, tmp_path: Path
) -> None:
    packets = packets_of(field(name))
    paths = written_as(form, tmp_path, packets, later(packets, by_ns))
    assert said_of(*paths) == said_of(written(tmp_path, packets, "once.pcap"))


@pytest.mark.slow
@pytest.mark.parametrize("by_ns", APART)
@pytest.mark.parametrize("name", RECORDED)
def test_a_real_server_recorded_with_two_clocks_says_nothing_more(
    name: str, by_ns: int, tmp_path: Path
) -> None:
    packets = packets_of(real_server(name))
    paths = written_as("files", tmp_path, packets, later(packets, by_ns))
    assert said_of(*paths) == said_of(written(tmp_path, packets, "once.pcap"))


def test_no_rollback_loop_is_told_of_one_client_that_is_recorded_twice(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    paths = written_as("files", tmp_path, packets, later(packets, 3 * SECOND))
    assert said_of(*paths) == said_of(SAMPLES / "rollback.pcap")


HALVES: dict[str, Callable[[list[Recorded]], list[Recorded]]] = {
    "without SYN": partial(without, SYN),
    "without its first third": lambda packets: packets[len(packets) // 3 :],
    "without its last third": lambda packets: packets[: 2 * len(packets) // 3],
    "of the client": lambda packets: [one for one in packets if tcp_of(one).to_server()],
    "of the server": lambda packets: [one for one in packets if not tcp_of(one).to_server()],
    "with packets cut": lambda packets: [replace(one, data=one.data[:128]) for one in packets],
    "with losses": lambda packets: [
        one for place, one in enumerate(packets) if place % 17 or not tcp_of(one).payload
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", [BASE, "p01-bucket-missing-loop", "q01-syn-unanswered"])
def test_the_whole_recording_counts_beside_one_that_lacks_something(
    name: str, half: str, is_first: bool, tmp_path: Path
) -> None:
    packets = packets_of(field(name))
    recordings = [HALVES[half](packets), packets]
    first, second = recordings if is_first else recordings[::-1]
    paths = written_as("merged", tmp_path, first, later(second, 3600 * SECOND))
    assert said_of(*paths)[0] == said_of(written(tmp_path, packets, "once.pcap"))[0]


@pytest.mark.parametrize(
    "path", [SAMPLES / "loop.pcap", real_server("replication-60-66")], ids=lambda path: path.name
)
def test_a_second_recording_without_syn_takes_back_no_reset(path: Path, tmp_path: Path) -> None:
    packets = packets_of(path)
    again = later(without(SYN, packets), 3600 * SECOND)
    paths = written_as("files", tmp_path, packets, again)
    assert said_of(*paths)[0] == said_of(path)[0]


def test_a_second_recording_is_told_with_its_clock(tmp_path: Path) -> None:
    packets = packets_of(field(BASE))
    paths = written_as("merged", tmp_path, packets, later(packets, 3600 * SECOND))
    found = recorded_by(paths)
    assert found == {2: Copy(1, copies.RECORDED, 3600 * SECOND)}
    with Reading([*map(str, paths)]) as reading:
        reading.check()
        for _ in reading:
            pass
        (told,) = [one for one in reading.findings() if one.rule == "seen-twice"]
    assert told.message == ("connection 1, recorded a second time, by a clock that is 60 min ahead")


def recorded_by(paths: Iterable[Path]) -> dict[int, Copy]:
    with Reading([*map(str, paths)], track=True) as reading:
        for _ in reading:
            pass
        return reading.tracker.copies.among(reading.links)


def test_both_legs_of_a_proxy_are_known_in_a_second_recording(tmp_path: Path) -> None:
    packets = passed_on(packets_of(field(BASE)))
    paths = written_as("merged", tmp_path, packets, later(packets, 3600 * SECOND))
    found = recorded_by(paths)
    assert {number: (copy.of, copy.by) for number, copy in found.items()} == {
        2: (1, PROXY),
        3: (1, copies.RECORDED),
        4: (1, PROXY),
    }
    assert said_of(*paths) == said_of(written(tmp_path, packets_of(field(BASE)), "once.pcap"))


def test_parts_know_a_second_recording_as_one_reading_does(tmp_path: Path) -> None:
    packets = packets_of(field("p02-select-bucket-one-node"))
    paths = [*map(str, written_as("files", tmp_path, packets, later(packets, 3600 * SECOND)))]
    with open_capture(paths) as capture:
        batches = list(capture)
    parts, left_out = divided(batches, 3, random.Random(1))
    found = everything(joined(parts, paths, left_out=left_out))
    assert found == everything(whole(batches, paths))
    assert sum(row["copy_of"] is not None for row in found["connections"]) == 5


# -- what is no copy
# --------------------------------------------------------------------------------------------------


def shifted(
    packets: Sequence[Recorded], *, by_ns: int, port: int, shift: int = 0x1234567
) -> list[Recorded]:
    """The conversation of another client, which says and hears the same bytes so much later."""
    found = []
    for packet in packets:
        one = tcp_of(packet)
        ports = (
            (one.source + port, one.target) if one.to_server() else (one.source, one.target + port)
        )
        ack = one.ack + shift if one.ack else 0
        found.append(
            replace(one, source=ports[0], target=ports[1], seq=one.seq + shift, ack=ack).recorded(
                packet.time_ns + by_ns
            )
        )
    return found


@pytest.mark.parametrize(
    ("by_ns", "shift"),
    [
        (0, 5),
        (700, 5),
        (20_000, 5),
        (1_000_000, 5),
        (50_000_000, 5),
        (0, 0),
        (1_000_000, 0),
        (50_000_000, 0),
    ],
)
def test_two_clients_that_say_the_same_at_the_same_time_are_two(
    by_ns: int, shift: int, tmp_path: Path
) -> None:
    packets = packets_of(field(BASE))
    both = sorted(
        [*packets, *shifted(packets, by_ns=by_ns, port=77, shift=shift)],
        key=lambda one: one.time_ns,
    )
    assert copies_of(tmp_path, both) == {}


def test_a_firewall_that_changes_sequence_numbers_only_shows_one_conversation_in_two_networks(
    tmp_path: Path,
) -> None:
    packets, behind = packets_of(field(BASE)), []
    for packet in packets:
        one = tcp_of(packet)
        seq, ack = one.seq + 0x61234567, one.ack + 0x61234567 if one.ack else 0
        changed = replace(
            one, seq=seq, ack=ack, link=one.link[:12] + b"\x81\x00\x00\x14" + one.link[12:]
        )
        behind.append(changed.recorded(packet.time_ns + (9_000 if one.to_server() else -9_000)))
    both = sorted([*packets, *behind], key=lambda one: one.time_ns)
    assert [copy.by for copy in copies_of(tmp_path, both).values()] == [PROXY]
    assert said_of(written(tmp_path, both)) == said_of(written(tmp_path, packets))


def test_a_client_that_connects_again_and_repeats_itself_is_no_copy(tmp_path: Path) -> None:
    packets = packets_of(field(BASE))
    by_ns = packets[-1].time_ns - packets[0].time_ns + 5_000_000
    assert copies_of(tmp_path, [*packets, *shifted(packets, by_ns=by_ns, port=77)]) == {}
    assert (
        copies_of(tmp_path, [*packets, *shifted(packets, by_ns=by_ns, port=0, shift=0x71234567)])
        == {}
    )


@pytest.mark.parametrize(("places", "count"), [((), 1), ((9,), 0), ((60,), 0)])
def test_a_conversation_with_the_same_numbers_and_other_bytes_is_no_second_recording(
    tmp_path: Path, places: tuple[int, ...], count: int
) -> None:
    packets = packets_of(field(BASE))
    again = [tcp_of(packet) for packet in later(packets, 3600 * SECOND)]
    says = [place for place, one in enumerate(again) if one.payload]
    for place in (says[number] for number in places):
        payload = again[place].payload
        again[place] = replace(again[place], payload=payload[:-1] + bytes((payload[-1] ^ 1,)))
    other = [one.recorded(one.packet.time_ns) for one in again]
    assert len(copies_of(tmp_path, [*packets, *other])) == count


def test_connections_that_differ_after_the_same_start_are_no_copies(tmp_path: Path) -> None:
    packets = passed_on(packets_of(field(BASE)))
    changed = []
    for place, packet in enumerate(packets):
        one = tcp_of(packet)
        other = one.payload[:-1] + bytes((one.payload[-1] ^ 1,)) if one.payload else b""
        is_second = place > len(packets) // 2 and max(one.source, one.target) > 43_211 + 1000
        changed.append(
            replace(one, payload=other).recorded(packet.time_ns) if is_second else packet
        )
    assert copies_of(tmp_path, changed) == {}


@pytest.mark.slow
def test_copies_do_not_depend_on_batches(tmp_path: Path) -> None:
    path = written(tmp_path, passed_on(packets_of(real_server("6.0.5-dcp1"))))
    found = []
    for size in (1 << 24, 4096):
        with Reading(open_capture([str(path)], batch_bytes=size), track=True) as reading:
            for _ in reading:
                pass
            found.append(reading.tracker.copies.among(reading.links))
    assert found[0] == found[1]
    assert len(found[0]) == 3


@pytest.mark.slow
def test_connections_that_are_all_alike_are_compared_a_bounded_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MOST_PAIRS", 200)  # each of them takes milliseconds
    path = tmp_path / "noops.pcap"
    floods.make(path, floods.KINDS["noop"](), 1_000)
    with Reading([str(path)], track=True) as reading:
        for _ in reading:
            pass
        assert len(reading.links) > copies.MOST_PAIRS
        assert (
            len(reading.tracker.copies.among(reading.links)) <= copies.MOST_PAIRS
        )  # each of the many took a comparison before


def test_memory_does_not_grow_with_the_square_of_the_copies(tmp_path: Path) -> None:
    """A test tool says the same from very many addresses."""
    packets, many = packets_of(SAMPLES / "upr.pcap"), 800
    client = tcp_of(packets[0]).ip[12:16]
    said = [
        replace(
            one, time_ns=one.time_ns + 2_000_000_000 * number, data=one.data.replace(client, host)
        )
        for number in range(many)
        for host in [struct.pack(">I", 0x0A0C0000 + number)]
        for one in packets
    ]
    with Reading([str(written(tmp_path, said))], track=True) as reading:
        for _ in reading:
            pass
        tracemalloc.start()
        try:
            assert len(reading.tracker.copies.among(reading.links)) == many - 1
            assert tracemalloc.get_traced_memory()[1] < 8_000 * many
        finally:
            tracemalloc.stop()


def test_messages_that_differ_only_in_their_first_words_are_sampled_too(tmp_path: Path) -> None:
    """A client that closes 1,024 streams with one opaque: many headers that agree in all but the
    vbucket.
    """
    requests = b"".join(encode("dcp_close_stream", vbucket=vbucket) for vbucket in range(1024))
    sample = copies.Copies()
    with Reading([str(builders.capture(tmp_path / "x.pcap", client=requests))]) as reading:
        for batch in reading:
            sample.feed(batch)
    assert sample.messages.tolist() == [0, 1024]
    assert 1 < len(sample._settle()) <= copies.MOST


def test_messages_whose_hashes_are_all_alike_are_no_sample() -> None:
    samples = copies.KeptMessages.zeros(2 * copies.MOST)
    samples.way = np.repeat((2, 3), (copies.MOST, copies.MOST))
    samples.way[:1] = 3
    sample = copies.Copies()
    sample._levels = np.zeros(4, dtype=np.int64)
    assert sample._thinned(samples).way.tolist() == [2] * (copies.MOST - 1)


def test_a_header_that_comes_twice_and_is_lost_once_tells_nothing(tmp_path: Path) -> None:
    """The copy that lacks one of the two has it once, and the other copy, which is whole, twice."""
    made = Conversation()
    made.handshake()
    for opaque in range(8):
        made.send(True, builders.message(opcode=0x54, specific=opaque, opaque=opaque))
        made.send(False, builders.message(magic=0x81, opcode=0x54, opaque=opaque))
        if opaque in (2, 5):
            made.send(False, builders.message(opcode=0x5C, opaque=99))
    both = translated(recorded(made.segments))
    at = [
        place
        for place, one in enumerate(both)
        if builders.message(opcode=0x5C, opaque=99) in one.data
    ]
    assert copies_of(tmp_path, both[: at[1]] + both[at[1] + 1 :]).keys() == {2}


def test_two_copies_that_each_lack_another_of_two_equal_headers_are_known(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    for opaque in range(16):
        made.send(True, builders.message(opcode=0x54, specific=opaque, opaque=opaque))
        made.send(False, builders.message(magic=0x81, opcode=0x54, opaque=opaque))
        if opaque in (2, 5):
            made.send(False, builders.message(opcode=0x5C, opaque=99))
    both = translated(recorded(made.segments))
    first, *_, last = (
        place
        for place, one in enumerate(both)
        if builders.message(opcode=0x5C, opaque=99) in one.data
    )
    kept = [one for place, one in enumerate(both) if place not in (first, last)]
    assert {number: copy.by for number, copy in copies_of(tmp_path, kept).items()} == {
        2: TRANSLATION
    }


@pytest.mark.parametrize("delay_ns", [20_000, -20_000])
def test_an_address_that_stands_for_two_nodes_does_not_count(delay_ns: int, tmp_path: Path) -> None:
    """A client has a connection of one name to each of two nodes, through one address."""
    talks = [opened(port=50_000), opened(port=50_001)]
    talks[1].server = "node2"
    for vbucket, talk in enumerate(talks):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        for seqno in range(1, 10):
            stream.mutation(seqno, f"{vbucket}")
    talks[0].close("server")
    first, second = (packets(talk) for talk in talks)
    # the first one ends after the second one began
    late = second[0].time_ns + 10**9 - first[-2].time_ns
    both = sorted(
        [
            *(replace(one, time_ns=one.time_ns + 10**6) for one in second),
            *first[:-2],
            *(replace(one, time_ns=one.time_ns + late) for one in first[-2:]),
        ],
        key=lambda one: one.time_ns,
    )
    plain = [Recorded(one.data, one.wire, one.time_ns) for one in both]
    seen = translated(plain, delay_ns=delay_ns)
    with Reading([str(written(tmp_path, seen))], track=True) as reading:
        for _ in reading:
            pass
        copied = reading.tracker.copies.among(reading.links)
        servers = {link.server for link in reading.links if link.number not in copied}
    assert servers == {"10.0.0.2:11210", "10.0.0.3:11210"}
    assert said_of(written(tmp_path, seen)) == said_of(written(tmp_path, plain, "plain.pcap"))
