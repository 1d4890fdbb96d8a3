from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.arrays import grown
from dcpinspect.transport import flow_records as r
from dcpinspect.transport.chunk import StreamEntries
from dcpinspect.transport.flows import close_sides, flow_to_write, put_aside
from dcpinspect.transport.headers import (
    ACKED,
    CAPTURED,
    COLUMNS,
    FLAGS,
    NETWORK,
    PAYLOAD,
    PORTS,
    SEQ,
    TAKES,
    WIRE,
)
from dcpinspect.transport.ordering import MAX_WAITING, PacketTables, order_segments
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.tcp_openings import openings
from dcpinspect.transport.waiting import NODE_COST
from tests import builders, doubled
from tests.builders import ACK, FIN, RST, Conversation, Segment
from tests.captures import field
from tests.damage import PORT, Talk, batches
from tests.transport.test_tcp_openings import again, begun
from tests.transport.test_tcp_openings import read as tables_of
from tests.transport_views import accounts, connections, lifetimes


def read(tmp_path: Path, segments: list[Segment], **options: int) -> builders.Reading:
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(segments, **options)))
    return builders.read(path)


def numbered(count: int = 200, *, close: bool = False) -> list[Segment]:
    """A conversation whose server sends ``count`` bytes, one a segment, each acknowledged."""
    made = Conversation(mss=1)
    made.handshake()
    made.stream(False, bytes(i % 251 + 1 for i in range(count)), ack_every=1)
    if close:
        made.close()
    return made.segments


DATA_7 = 3 + 2 * 7  # place of the segment that carries byte 7


def test_a_gap_waits_for_64_packets_after_its_acknowledgement(tmp_path: Path) -> None:
    segments = [segment for place, segment in enumerate(numbered()) if place != DATA_7]
    reading = read(tmp_path, segments)
    assert reading.holes[1, 1] == [(7, 8)]
    # packet 17 acknowledges the lost byte, packet 18 brings the one after it and so shows the gap
    batches = [
        chunk
        for batch in builders.open_capture(tmp_path / "x.pcap")
        for chunk in server_chunks(batch)
    ]
    assert batches[0].segments.packet.number[7:9].tolist() == [18 + 64, 18]
    assert batches[0].segments.release[7:9].tolist() == [18 + 64, 18 + 64]


def server_chunks(batch: builders.PacketBatch) -> list[builders.StreamChunk]:
    return [chunk for chunk in builders.Reassembler().feed(batch) if chunk.direction == 1]


def test_a_gap_waits_200_ms_after_its_acknowledgement(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, b"abc", sizes=(1, 1, 1), ack_every=0)
    del made.segments[4]
    made.send(True)  # acknowledges all three
    for wait_ns in (199_999_999, 1):
        made.time_ns = made.segments[5].time_ns + (wait_ns if wait_ns > 1 else 200_000_000)
        made.send(True)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made.segments), magic=0xA1B23C4D))
    (batch,) = builders.open_capture(path)
    (chunk,) = server_chunks(batch)
    assert chunk.segments.packet.number.tolist() == [3, 7, 4]
    assert chunk.holes == ((1, 2),)


def test_a_gap_that_nobody_acknowledged_waits_for_the_end(tmp_path: Path) -> None:
    made = Conversation(mss=1)
    made.handshake()
    made.stream(False, bytes(range(1, 201)), ack_every=0)
    del made.segments[10]
    reading = read(tmp_path, made.segments)
    assert reading.holes[1, 1] == [(7, 8)]
    assert accounts(reading.transport)[1].missing == 1


def asked(*, late: int, to_server: bool = True) -> Conversation:
    """A question of one side and the other side's answer, in three segments; the question is
    recorded ``late`` places later.
    """
    made = Conversation()
    made.handshake()
    made.send(to_server, b"ask")
    for part in (b"an", b"sw", b"er"):
        made.send(not to_server, part)
    made.segments.insert(3 + late, made.segments.pop(3))
    return made


def released(tmp_path: Path, made: Conversation) -> dict[int, list[tuple[int, int]]]:
    """By direction, of each segment with bytes: its number, and that of the packet that released
    it; what came before the end.
    """
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made.segments), magic=0xA1B23C4D))
    found: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    reassembler = builders.Reassembler()
    for batch in builders.open_capture(path):
        for chunk in reassembler.feed(batch):
            found[chunk.direction] += zip(
                chunk.segments.packet.number.tolist(), chunk.segments.release.tolist(), strict=True
            )
    return found


@pytest.mark.parametrize("late", [1, 2, 3])
def test_a_server_s_bytes_wait_for_those_that_they_acknowledge(tmp_path: Path, late: int) -> None:
    came = [3 + place for place in range(4) if place != late]
    found = released(tmp_path, asked(late=late))
    assert found == {
        0: [(3 + late, 3 + late)],
        1: [(packet, max(packet, 3 + late)) for packet in came],
    }


def test_a_client_s_bytes_wait_for_the_packet_after_those_that_they_acknowledge(
    tmp_path: Path,
) -> None:
    made = asked(late=2, to_server=False)
    assert released(tmp_path, made) == {0: [(3, 6), (4, 6), (6, 6)], 1: [(5, 5)]}, (
        "of one packet the client's bytes would be first"
    )


@pytest.mark.parametrize(("is_shown", "last"), [(True, 3 + 64), (False, 204)])
def test_bytes_that_acknowledge_what_was_lost_wait_as_those_behind_a_gap(
    tmp_path: Path, is_shown: bool, last: int
) -> None:
    made = asked(late=0)
    del made.segments[3]
    if is_shown:
        made.send(True)  # what it acknowledges is behind the question
    for _ in range(199):
        made.send(False)
    made.segments[-1] = replace(made.segments[-1], time_ns=made.segments[3].time_ns + 200_000_000)
    made.send(False, b"next")
    assert released(tmp_path, made)[1] == [
        *((packet, last) for packet in (3, 4, 5)),
        (205 + is_shown, 205 + is_shown),
    ]


def test_bytes_do_not_wait_for_a_direction_that_has_ended(tmp_path: Path) -> None:
    made = asked(late=0)
    made.send(True, flags=FIN | ACK)
    del made.segments[3]
    assert released(tmp_path, made)[1] == [(3, 6), (4, 6), (5, 6)]


def test_for_a_direction_that_was_not_captured_they_wait_once(tmp_path: Path) -> None:
    made = asked(late=0)
    made.segments = [segment for segment in made.segments if not segment.to_server]
    for _ in range(2):
        made.time_ns += 200_000_000
        made.send(False, b"next")
    assert released(tmp_path, made)[1] == [(1, 4), (2, 4), (3, 4), (4, 4), (5, 5)]


def test_answers_wait_for_questions_of_which_the_first_packet_is_recorded_behind_them(
    tmp_path: Path,
) -> None:
    made = asked(late=0)
    made.segments.sort(key=lambda segment: segment.to_server)
    said = released(tmp_path, made)[1]
    assert [release for _, release in said] == [len(made.segments) - 1] * len(said)


def test_each_of_two_directions_that_wait_goes_on_as_far_as_the_other_has_come(
    tmp_path: Path,
) -> None:
    made = Conversation()
    made.handshake()
    for to_server in (True, False, True, False, True):
        made.send(to_server, b"say")
    made.segments.insert(7, made.segments.pop(3))  # the first question comes behind the last one
    for _ in range(2):  # each packet that follows lets both go on
        made.send(True)
    found = released(tmp_path, made)
    order = sorted((release, way, packet) for way in found for packet, release in found[way])
    assert [way for _, way, _ in order] == [0, 1, 0, 1, 0]


def test_a_question_that_was_sent_again_does_not_wait_for_its_answer(tmp_path: Path) -> None:
    made = asked(late=0)
    del made.segments[3]
    made.segments.append(
        Segment(True, made.client_isn + 1, made.next[False] & 0xFFFFFFFF, ACK, b"ask")
    )
    assert released(tmp_path, made) == {0: [(6, 6)], 1: [(3, 6), (4, 6), (5, 6)]}


def test_what_acknowledges_a_fin_waits_for_it(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.send(True, flags=FIN | ACK)
    made.send(False, b"rest")
    made.segments[3:] = made.segments[:2:-1]
    assert released(tmp_path, made)[1] == [(3, 4)]


@pytest.mark.parametrize("delay", [1, 5, 60])
def test_reordered_segments_are_put_in_order(tmp_path: Path, delay: int) -> None:
    segments = builders.damaged(numbered(), delay={DATA_7: delay})
    reading = read(tmp_path, segments)
    assert reading.holes.get((1, 1), []) == []
    assert reading.streams[1, 1] == read(tmp_path, numbered()).streams[1, 1]


def test_bytes_that_come_after_the_decision_are_late(tmp_path: Path) -> None:
    reading = read(tmp_path, builders.damaged(numbered(), delay={DATA_7: 100}))
    account = accounts(reading.transport)[1]
    assert (account.missing, account.late, account.duplicate) == (1, 1, 0)


@pytest.mark.parametrize("lost", [(), (DATA_7,)])
def test_copies_that_come_after_the_end_are_duplicates_but_what_was_lost_before_is_late(
    tmp_path: Path, lost: tuple[int, ...]
) -> None:
    segments = numbered(close=True)
    kept = [segment for place, segment in enumerate(segments) if place not in lost]
    reading = read(tmp_path, [*kept, *(segment for segment in segments if segment.payload)])
    account = accounts(reading.transport)[1]
    assert (account.missing, account.late, account.duplicate) == (
        len(lost),
        len(lost),
        200 - len(lost),
    )


def test_the_first_copy_wins(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    for at, payload in ((0, b"abcd"), (2, b"XXefgh"), (10, b"kl"), (6, b"YYijZZmn")):
        made.segments.append(
            Segment(False, (made.server_isn + 1 + at) & 0xFFFFFFFF, 1001, ACK, payload)
        )
    reading = read(tmp_path, made.segments)
    assert reading.streams[1, 1] == b"abcdefghijklmn"
    assert accounts(reading.transport)[1].duplicate == 6


def test_a_keep_alive_byte_is_a_duplicate(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, b"data")
    made.segments.append(Segment(False, (made.next[False] - 1) & 0xFFFFFFFF, 1001, ACK, b"\0"))
    made.stream(False, b"more")
    reading = read(tmp_path, made.segments)
    assert (reading.streams[1, 1], accounts(reading.transport)[1].duplicate) == (b"datamore", 1)


def test_a_keep_alive_byte_before_the_first_byte_is_a_duplicate(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    for by_client in (True, False):
        made.segments.append(
            replace(
                made.send(by_client), seq=(made.next[by_client] - 1) & 0xFFFFFFFF, payload=b"\0"
            )
        )
    made.stream(False, b"data")
    reading = read(tmp_path, made.segments)
    assert reading.streams[1, 1] == b"data"
    assert [(account.duplicate, account.late) for account in accounts(reading.transport)] == [
        (1, 0),
        (1, 0),
    ]


def test_the_text_of_a_reset_is_no_byte_of_the_stream(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, b"half of a mess")
    made.send(False, b"no memory", RST | ACK)
    reading = read(tmp_path, made.segments)
    account = accounts(reading.transport)[1]
    assert (reading.streams[1, 1], account.captured, account.late) == (b"half of a mess", 14 + 9, 9)


def test_snaplen_makes_holes_of_known_size(tmp_path: Path) -> None:
    made = Conversation(mss=100)
    made.handshake()
    made.stream(False, b"x" * 250)
    reading = read(tmp_path, made.segments, snaplen=54 + 30)
    assert reading.holes[1, 1] == [(30, 100), (130, 200), (230, 250)]
    account = accounts(reading.transport)[1]
    assert (account.cut, account.missing) == (160, 160)


def test_bytes_that_were_acknowledged_and_never_seen_are_missing_at_the_end(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, b"abcdef", sizes=(3, 3))
    del made.segments[4]
    assert read(tmp_path, made.segments).holes[1, 1] == [(3, 6)]


def test_bytes_before_a_packet_without_bytes_are_missing_at_the_end(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    for payload in (b"abc", b"def", b""):
        made.send(False, payload)
    *others, data, empty = made.segments
    stray = replace(empty, seq=empty.seq + 1000)
    for order, holes in (
        ([empty], [(3, 6)]),
        ([empty, data], []),
        ([data, empty], []),
        ([stray, empty], [(3, 6)]),
        ([data, stray, empty], []),
    ):
        assert read(tmp_path, [*others, *order]).holes.get((1, 1), []) == holes


def test_a_packet_behind_a_fin_that_was_not_captured_shows_no_missing_byte(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.send(False, b"abc")
    made.next[False] += 1
    made.send(False)
    assert read(tmp_path, made.segments).holes.get((1, 1), []) == []


@pytest.mark.parametrize(
    ("ahead", "made_up", "missing"), [(0, 0, 4), (50_000, 0, 4), (50_000, 1 << 21, 0)]
)
def test_bytes_that_a_reset_acknowledges_are_missing_unless_its_number_is_made_up(
    tmp_path: Path, ahead: int, made_up: int, missing: int
) -> None:
    made = Conversation()
    made.handshake()
    made.send(True, b"ask")
    made.send(False, b"answer")
    made.send(False, b"lost")
    made.next[True] += ahead
    made.next[False] += made_up
    made.send(True, flags=RST | ACK)
    del made.segments[-2]
    assert accounts(read(tmp_path, made.segments).transport)[1].missing == missing


def test_the_acknowledgement_of_a_fin_is_no_missing_byte(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, b"abc")
    made.close()
    del made.segments[6]
    assert read(tmp_path, made.segments).holes.get((1, 1), []) == []


def test_waiting_segments_are_bounded(tmp_path: Path) -> None:
    made = Conversation(server_isn=0, mss=8192)
    made.handshake()
    made.stream(False, bytes(6 << 20), ack_every=0)
    del made.segments[3]
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made.segments)))
    reassembler = builders.Reassembler()
    (chunk,) = [chunk for batch in builders.open_capture(path) for chunk in reassembler.feed(batch)]
    waited = int(chunk.segments.packet.number[0]) - 3
    assert MAX_WAITING - 8192 < waited * (8192 + NODE_COST) <= MAX_WAITING + 2 * (8192 + NODE_COST)


def test_a_capture_of_one_direction_only_is_read(tmp_path: Path) -> None:
    made = Conversation()
    made.stream(False, b"abcdef" * 1000)
    only = [segment for segment in made.segments if not segment.to_server]
    assert read(tmp_path, only).streams == {(1, 1): b"abcdef" * 1000}


packets = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.one_of(
            st.integers(0, 40),
            st.integers(2**32 - 20, 2**32 - 1),
            st.integers(2**31 - 3, 2**31 + 3),
        ),
        st.one_of(st.integers(0, 40), st.integers(2**32 - 20, 2**32 - 1)),
        st.sampled_from([16, 16, 16, 24, 2, 18, 17, 4, 0]),
        st.integers(0, 12),
        st.integers(0, 12),
        st.integers(0, 300_000_000),
    ),
    max_size=25,
)


def handled(
    rows: Sequence[tuple[int, int, int, int, int, int, int]], form: str, *, aside: bool
) -> tuple[PacketTables, list[int]]:
    """The tables after these packets and the end, and what kernels returned; ``aside``: flows are
    put aside after each packet.
    """
    count = len(rows)
    tcp = np.zeros((count, COLUMNS), np.int64)
    times = np.zeros(count, np.int64)
    for i, (side, seq, ack, flags, have, more, time) in enumerate(rows):
        tcp[i, [PORTS, PORTS + 1]] = (5, 11_210) if side else (11_210, 5)
        tcp[i, [SEQ, ACKED, FLAGS, PAYLOAD, CAPTURED, WIRE]] = (
            seq,
            ack,
            flags,
            100 * i,
            have,
            have + more,
        )
        tcp[i, TAKES] = time % 7 != 6
        tcp[i, NETWORK] = time % 11 // 4
        times[i] = time
    ports = np.zeros(65_536, np.uint8)
    ports[11_210] = 1
    tables = PacketTables()
    tables.connections, tables.sides = r.TcpConnectionRows.zeros(64), r.Sides.zeros(128)
    tables.recent, tables.lates = (
        r.FlowHoles.zeros(128 * r.RECENT_HOLES),
        r.LateRows.zeros(128 * r.RECENT_LATES),
    )
    tables.shuts = r.ShutSpells.zeros(128 * r.LONGEST_SHUTS)
    tables.flows = r.Flows(grown(r.Flows.reset(2).array, 128))
    tables.nodes, tables.entries, tables.fresh = (
        r.Nodes.zeros(2000),
        StreamEntries.zeros(5000),
        np.zeros(5000, np.int64),
    )
    tables.segment, tables.stray, tables.counts = (
        r.Segment.single(),
        r.Segment.single(),
        r.TableCounts.single(),
    )
    tables.index, tables.pairs, tables.times = np.arange(count), np.zeros(count, np.int64), times
    tables.ends = np.array([row[0] for row in rows], np.int64)
    tables.packets, tables.frames, tables.address_pairs = (
        1000 + tables.index,
        1 + tables.index,
        r.EndpointPairs.zeros(1),
    )
    tables.files = np.zeros(count, np.int64)
    tables.copies = np.zeros(count, np.int64)
    tables.routes = r.Routes.zeros(16)
    tables.segment.place = -1
    done = []
    for end in range(1, count + 1) if aside else (count,):
        done.append(
            getattr(order_segments, form)(end - 1 if aside else 0, tcp[:end], ports, tables)
        )
        if aside:
            getattr(put_aside, form)(tables)
    tables.segment.packet.number = 5000
    done.append(getattr(close_sides, form)(0, tables))
    assert tables.counts.live == 0
    assert tables.counts.waiting == 0
    return tables, done


def test_flows_of_a_connection_that_is_closed_as_usual_are_put_aside() -> None:
    client, server = 1, 0
    tables, _ = handled(
        [
            (client, 99, 0, 2, 0, 0, 0),
            (server, 499, 100, 18, 0, 0, 1),
            (client, 100, 500, 16, 9, 0, 2),
            (client, 109, 500, 17, 0, 0, 3),
            (server, 500, 110, 17, 0, 0, 4),
            (client, 110, 501, 16, 0, 0, 5),
        ],
        "interpreted",
        aside=True,
    )
    assert tables.counts.flows == 2  # those that nobody has


@pytest.mark.slow
@given(packets, st.booleans())
def test_interpreted_and_compiled_agree_on_any_packets(
    rows: list[tuple[int, int, int, int, int, int, int]], aside: bool
) -> None:
    results = []
    for form in ("interpreted", "compiled"):
        tables, done = handled(rows, form, aside=aside)
        flows = tables.flows[: tables.counts.flows]
        assert (flows.payload == flows.unique + flows.duplicate + flows.late).all()
        all_of_it = (
            tables.connections,
            tables.sides,
            tables.recent,
            tables.lates,
            tables.shuts,
            tables.nodes,
            tables.entries,
            flows,
        )
        results.append(
            (
                done,
                r.TableCounts.as_bytes(tables.counts),
                [table.as_integers().tolist() for table in all_of_it],
            )
        )
    assert results[0] == results[1]


@given(packets)
def test_flows_that_are_put_aside_go_on_as_if_they_were_not(
    rows: list[tuple[int, int, int, int, int, int, int]],
) -> None:
    results = []
    for aside in (False, True):
        tables, _ = handled(rows, "interpreted", aside=aside)
        if aside:
            assert (
                tables.connections.flows[: tables.counts.connections] > 0
            ).sum() * 2 + 2 == tables.counts.flows
        else:
            put_aside.interpreted(tables)
        sides = 2 * tables.counts.connections
        names = [
            name for name in r.Flow.fields if name not in ("recent", "lates", "acked_at")
        ]  # row numbers; a time that is not kept
        known = [
            [
                bytes(value) if isinstance(value, ctypes.Structure) else value
                for name in names
                for value in [getattr(tables.flows[flow_to_write(tables, side)], name)]
            ]
            for side in range(sides)
        ]
        entries = tables.entries[: tables.counts.entries].as_integers().tolist()
        results.append((known, entries, tables.sides[:sides].as_integers().tolist()))
    assert results[0] == results[1]


def test_a_syn_after_the_end_of_a_connection_of_which_nothing_else_was_captured_begins_another() -> (
    None
):
    old, new = Talk(), Talk(isn=(70_000, 90_000))
    old.handshake()
    old.close()
    new.handshake()
    new.send(0, b"x")
    transport = Reassembler((PORT,))
    for part in batches([*old.packets[3:], *new.packets]):
        transport.feed(part)
    assert [(one.number, one.starts) for one in connections(transport)] == [
        (1, "mid-stream"),
        (2, "handshake"),
    ]
    assert [life.closed for life in lifetimes(transport)] == ["fin", ""]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_fin_that_acknowledges_another_one_which_was_lost_is_the_second(lost: int) -> None:
    talk = Talk()
    talk.handshake()
    talk.send(1, b"abc")
    talk.send(1, b"def")
    talk.send(1, flags=FIN | ACK)
    talk.send(0, flags=FIN | ACK)
    captured = talk.packets
    del captured[-2]
    if lost:
        del captured[-3]
    transport = Reassembler((PORT,))
    for part in batches(captured):
        transport.feed(part)
    assert [(life.closed, life.closed_by) for life in lifetimes(transport)] == [("fin", 1)]


def test_where_both_fins_are_lost_nobody_knows_which_one_was_the_first() -> None:
    talk = Talk()
    talk.handshake()
    talk.send(1, b"abc")
    talk.send(0)
    talk.send(1, flags=FIN | ACK)
    talk.send(0, flags=FIN | ACK)
    talk.send(1)
    talk.send(1)  # and again, as a copy
    transport = Reassembler((PORT,))
    for part in batches([*talk.packets[:-4], *talk.packets[-2:]]):
        transport.feed(part)
    assert [(life.closed, life.closed_by) for life in lifetimes(transport)] == [("fin", -1)]


@pytest.mark.parametrize("has_ack", [False, True])
def test_a_fin_may_be_in_a_hole_that_the_other_fin_acknowledges(has_ack: bool) -> None:
    """The client's last bytes and its FIN are not captured. ``has_ack``: its last packet is."""
    talk = Talk()
    talk.handshake()
    talk.send(1, b"abc")
    talk.send(0, b"de")
    start = len(talk.packets)
    talk.send(0, b"fgh")
    talk.send(0, flags=FIN | ACK)
    end = len(talk.packets)
    talk.send(1, flags=FIN | ACK)
    if has_ack:
        talk.send(0)
    transport = Reassembler((PORT,))
    for part in batches([*talk.packets[:start], *talk.packets[end:]]):
        transport.feed(part)
    for _ in transport.finish():
        pass
    assert [(life.closed, life.closed_by) for life in lifetimes(transport)] == [("fin", -1)]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("late", [0, 1])
def test_who_ends_a_connection_first_goes_by_acknowledgements(first: int, late: int) -> None:
    """The packets of one side are captured 1 s later, by another clock."""
    talk = Talk()
    talk.handshake()
    talk.send(0, b"ab")
    talk.send(1, b"abc")
    talk.send(0)
    talk.send(1 - first, b"ab")
    talk.send(first, b"cd")
    talk.send(first, b"ef")
    talk.send(first, flags=FIN | ACK)
    talk.send(1 - first, flags=FIN | ACK)
    talk.send(first)
    sides = [int.from_bytes(packet.data[34:36], "big") == PORT for packet in talk.packets]
    captured = [
        replace(packet, time_ns=packet.time_ns + (10**9 if side == late else 0))
        for packet, side in zip(talk.packets, sides, strict=True)
    ]
    transport = Reassembler((PORT,))
    for part in batches(sorted(captured, key=lambda packet: packet.time_ns)):
        transport.feed(part)
    assert [(life.closed, life.closed_by) for life in lifetimes(transport)] == [("fin", first)]


def shut(packet: builders.Recorded) -> builders.Recorded:
    """The packet, whose sender takes nothing."""
    return replace(packet, data=packet.data[:48] + b"\0\0" + packet.data[50:])


def test_the_first_acknowledgement_may_say_that_its_sender_takes_nothing() -> None:
    """Of the connection, only what the client says was captured."""
    made = Conversation()
    made.handshake()
    for _ in range(2):
        made.stream(False, bytes(100), ack_every=0)
        made.time_ns += 10**9
        made.send(True)
    syn, begun, full, opens = builders.recorded(one for one in made.segments if one.to_server)
    (one,) = openings(tables_of([syn, begun, shut(full), opens]), np.array([1]), 0)
    assert [spell is not None for spell in one.shut] == [True, False]


def test_an_end_that_takes_nothing_answers_each_copy() -> None:
    made = begun()
    made.send(True)
    again(made, 0.3, 0.9, arrives=False)
    *before, full, first, second, third = builders.recorded(made.segments)
    for end, is_late in ((full, True), (shut(full), False)):
        tables = tables_of([*before, end, first, second, third])
        (one,) = openings(tables, np.array([1]), 0)
        assert bool(one.late_acks[1]) is is_late


def cut_before(
    segments: list[Segment], snaplen: int, late_ns: int, lost: Sequence[int] = ()
) -> list[builders.Recorded]:
    """Each packet cut, and ``late_ns`` later whole, but for those at ``lost``; in order of time."""
    packets = builders.recorded(segments)
    whole = [
        replace(packet, time_ns=packet.time_ns + late_ns)
        for place, packet in enumerate(packets)
        if place not in lost
    ]
    cut = [replace(packet, data=packet.data[:snaplen]) for packet in packets]
    return sorted([*cut, *whole], key=lambda packet: packet.time_ns)


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("hosts", [("10.0.0.1", "10.0.0.2"), ("::1", "::2")])
@pytest.mark.parametrize("late_ns", [0, 1_000, 10_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("snaplen", [66, 100, 200])
def test_what_a_packet_was_cut_off_waits_for_a_whole_copy(
    tmp_path: Path, snaplen: int, late_ns: int, hosts: tuple[str, str], close: bool
) -> None:
    asked, told = bytes(range(1, 200)), bytes(range(250)) * 40
    made = Conversation(mss=100, client=(hosts[0], 50_000), server=(hosts[1], 11_210))
    made.step_ns = 100_000
    made.handshake()
    for at in range(0, len(asked), 40):
        made.send(True, asked[at : at + 40])
        made.stream(False, told[50 * at : 50 * at + 2000])
    if close:
        made.close()
    path = tmp_path / "x.pcap"
    packets = cut_before(made.segments, snaplen, late_ns)
    path.write_bytes(builders.pcap(packets, magic=0xA1B23C4D))
    reading = builders.read(path)
    assert reading.streams == {(1, 0): asked, (1, 1): told}
    assert [(account.missing, account.late) for account in accounts(reading.transport)] == [
        (0, 0),
        (0, 0),
    ]


def test_a_whole_copy_is_awaited_four_times_as_long_as_others_took(tmp_path: Path) -> None:
    made = numbered_in(100, count=60)
    lost = 3 + 2 * 5
    path = tmp_path / "x.pcap"
    packets = cut_before(made.segments, 100, 2_000_000, [lost])
    path.write_bytes(builders.pcap(packets, magic=0xA1B23C4D))
    (batch,) = builders.open_capture(path)
    chunk = next(chunk for chunk in server_chunks(batch) if len(chunk.holes))
    # the first 46 bytes of the sixth segment are there
    assert chunk.holes == ((546, 600),)
    times = dict(zip(batch.packets.tolist(), batch.time_ns.tolist(), strict=True))
    (row,) = np.flatnonzero(chunk.segments.offset == 546)
    waited = times[int(chunk.segments.release[row])] - made.segments[lost].time_ns
    assert 8_000_000 <= waited < 8_000_000 + made.step_ns


def numbered_in(size: int, *, count: int, port: int = 50_000) -> Conversation:
    """A conversation whose server sends ``count`` segments, each acknowledged."""
    made = Conversation(mss=size, client=("10.0.0.1", port))
    made.step_ns = 100_000
    made.handshake()
    made.stream(False, bytes(i % 251 for i in range(size * count)), ack_every=1)
    return made


def test_where_packets_come_one_by_one_the_first_copies_show_that_there_are_any(
    tmp_path: Path,
) -> None:
    made = numbered_in(100, count=60)
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(cut_before(made.segments, 100, 1_000)))
    reading = builders.read(path, batch_bytes=60)
    assert reading.holes[1, 1] == [(46, 100)]
    account = accounts(reading.transport)[1]
    assert (account.missing, account.late, account.cut) == (54, 54, 54)


@pytest.mark.parametrize("times", [1, 2])
def test_what_was_cut_off_is_given_up_at_once_where_no_copy_has_it(
    tmp_path: Path, times: int
) -> None:
    made = numbered_in(100, count=20)
    path = tmp_path / "x.pcap"
    packets = [one for one in builders.recorded(made.segments, snaplen=100) for _ in range(times)]
    path.write_bytes(builders.pcap(packets, magic=0xA1B23C4D))
    (batch,) = builders.open_capture(path)
    (chunk,) = server_chunks(batch)
    assert chunk.holes == tuple((at + 46, at + 100) for at in range(0, 2000, 100))
    assert chunk.segments.release.tolist() == chunk.segments.packet.number.tolist()


def test_what_waits_for_copies_that_do_not_come_is_bounded(tmp_path: Path) -> None:
    made = Conversation(mss=1400)
    made.step_ns = 1
    made.handshake()
    made.stream(False, bytes(8 << 20), ack_every=0)
    path = tmp_path / "x.pcap"
    packets = cut_before(made.segments, 100, 1, [10])
    path.write_bytes(builders.pcap(packets, magic=0xA1B23C4D))
    reassembler = Reassembler()
    with builders.open_capture(path, batch_bytes=1 << 20) as capture:
        for batch in capture:
            list(reassembler.feed(batch))
            assert reassembler._tables.counts.waiting <= MAX_WAITING
    assert accounts(reassembler)[1].missing == 1400 - 46


@pytest.mark.parametrize("behind", [1, 3])
def test_a_cut_copy_takes_nothing_of_what_stands_behind_an_ip_packet(
    tmp_path: Path, behind: int
) -> None:
    packets = doubled.packets_of(field("t09-gso-partial-geneve"))
    both: list[tuple[float, builders.Recorded]] = [*enumerate(packets)]
    both += [
        (place + behind - 0.5, replace(packet, data=packet.data[:100]))
        for place, packet in enumerate(packets)
    ]
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(packet for _, packet in sorted(both, key=lambda one: one[0])))
    reading = builders.read(path)
    assert [len(reading.streams[1, direction]) for direction in (0, 1)] == [691, 117_378]
    assert [account.missing for account in accounts(reading.transport)] == [0, 0]


def test_copies_of_one_direction_say_nothing_of_others(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    other = numbered_in(100, count=20, port=50_001)
    packets = [
        *cut_before(numbered_in(100, count=20).segments, 100, 1_000),
        *builders.recorded(other.segments, snaplen=100),
    ]
    packets.sort(key=lambda packet: packet.time_ns)
    path.write_bytes(builders.pcap(packets, magic=0xA1B23C4D))
    reading = builders.read(path)
    assert [account.missing for account in accounts(reading.transport)] == [0, 0, 0, 54 * 20]
