from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.transport import reassembly
from dcpinspect.transport.flow_records import TransportTables
from dcpinspect.transport.flows import put_aside
from tests import builders, crowd
from tests.builders import ACK, Conversation, Segment
from tests.protocol.test_first_bytes import flood
from tests.scenarios.test_crowds import read
from tests.transport_views import accounts, connections

CLIENT, SERVER = b"ask" * 50, bytes(range(256)) * 40


@pytest.mark.parametrize("form", [builders.pcap, builders.pcapng])
@pytest.mark.parametrize("sizes", [(), (1,) * 300, (5000, 1, 1)])
def test_both_directions_come_out_whole(
    tmp_path: Path, form: builders.Form, sizes: tuple[int, ...]
) -> None:
    path = builders.capture(tmp_path / "x", client=CLIENT, server=SERVER, form=form, sizes=sizes)
    reading = builders.read(path)
    assert reading.streams == {(1, 0): CLIENT, (1, 1): SERVER}
    assert [
        (account.unique, account.duplicate, account.missing)
        for account in accounts(reading.transport)
    ] == [
        (len(CLIENT), 0, 0),
        (len(SERVER), 0, 0),
    ]


@pytest.mark.parametrize("link_type", [1, 0, 113, 276, 101])
def test_any_link_type(tmp_path: Path, link_type: int) -> None:
    path = builders.capture(tmp_path / "x", client=CLIENT, server=SERVER, link_type=link_type)
    assert builders.read(path).streams == {(1, 0): CLIENT, (1, 1): SERVER}


def test_ipv6_behind_vlans(tmp_path: Path) -> None:
    ends = {"client": ("::1", 9), "server": ("::2", 11_210)}
    made = Conversation(**ends)  # type: ignore[arg-type] # the two addresses
    made.handshake()
    made.stream(False, SERVER)
    path = tmp_path / "x"
    path.write_bytes(builders.pcap(builders.recorded(made.segments, vlans=(1, 2))))
    assert builders.read(path).streams[1, 1] == SERVER


def test_a_connection_goes_on_from_file_to_file(tmp_path: Path) -> None:
    segments = builders.conversation(CLIENT, SERVER)
    (tmp_path / "a").write_bytes(builders.pcap(builders.recorded(segments[:6])))
    (tmp_path / "b").write_bytes(builders.pcap(builders.recorded(segments[6:])))
    assert builders.read(tmp_path / "b", tmp_path / "a").streams == {(1, 0): CLIENT, (1, 1): SERVER}


def test_the_same_bytes_in_two_files_are_duplicates(tmp_path: Path) -> None:
    for name in "ab":
        builders.capture(tmp_path / name, server=SERVER, close=False)
    reading = builders.read(tmp_path / "a", tmp_path / "b")
    assert reading.streams[1, 1] == SERVER
    assert accounts(reading.transport)[1].duplicate == len(SERVER)


def test_a_mid_stream_start_begins_at_the_first_byte_seen(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "x", server=SERVER, handshake=False, close=False)
    assert builders.read(path).streams[1, 1] == SERVER


def chunks_of(path: Path, batch_bytes: int = 1 << 20) -> list[builders.StreamChunk]:
    reassembler = builders.Reassembler()
    chunks = [
        chunk
        for batch in builders.open_capture(path, batch_bytes=batch_bytes)
        for chunk in reassembler.feed(batch)
    ]
    return [*chunks, *reassembler.finish()]


@pytest.mark.parametrize(
    ("loss", "holes"),
    [
        ({0}, {0: [], 1: []}),
        ({0, 3}, {0: [(0, len(CLIENT))], 1: []}),
        ({1}, {0: [], 1: []}),
        ({1, 5}, {0: [], 1: [(0, len(CLIENT))]}),
        ({1, 2, 5}, {0: [], 1: [(0, len(CLIENT))]}),
    ],
    ids=[
        "SYN",
        "SYN and what follows",
        "its answer",
        "its answer and what follows",
        "its answer, the acknowledgement and what follows",
    ],
)
def test_either_side_of_a_handshake_tells_where_the_other_begins(
    tmp_path: Path, loss: set[int], holes: dict[int, list[tuple[int, int]]]
) -> None:
    path = builders.capture(
        tmp_path / "x", client=CLIENT, server=SERVER, sizes=(len(CLIENT),), loss=loss
    )
    reading = builders.read(path)
    assert {direction: reading.holes.get((1, direction), []) for direction in (0, 1)} == holes
    assert connections(reading.transport)[0].starts == "handshake"


def test_a_chunk_knows_start_and_end(tmp_path: Path) -> None:
    path = builders.capture(tmp_path / "x", client=CLIENT, server=SERVER)
    assert [(chunk.direction, chunk.is_start, chunk.is_end) for chunk in chunks_of(path)] == [
        (0, True, True),
        (1, True, True),
    ]
    path = builders.capture(tmp_path / "x", server=SERVER, handshake=False, close=False)
    assert [(chunk.direction, chunk.is_start, chunk.is_end) for chunk in chunks_of(path)] == [
        (1, False, False),
        (1, False, True),
    ]


def test_a_hole_too_long_to_fill_is_stepped_over(tmp_path: Path) -> None:
    made = Conversation()
    made.handshake()
    made.stream(False, b"before")
    far = (made.next[False] + (100 << 20)) & 0xFFFFFFFF
    made.segments += [
        Segment(False, far, 1001, ACK, b"after"),
        Segment(True, 1001, far + 5 & 0xFFFFFFFF),
    ]
    path = tmp_path / "x"
    path.write_bytes(builders.pcap(builders.recorded(made.segments)))
    chunks = [
        chunk
        for chunk in chunks_of(path)
        if chunk.direction == 1 and chunk.segments.packet.frame.any()
    ]
    assert [(chunk.offset, chunk.data.tobytes(), chunk.holes) for chunk in chunks] == [
        (0, b"before", ()),
        (6 + (100 << 20), b"after", ((6, 6 + (100 << 20)),)),
    ]


def test_chunks_with_many_holes_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassembly, "MAX_FILLED", 500)
    path = builders.capture(tmp_path / "x", server=SERVER, snaplen=100, sizes=(300,) * 40)
    chunks = [chunk for chunk in chunks_of(path) if chunk.direction == 1]
    assert len(chunks) > 10
    assert all(sum(end - start for start, end in chunk.holes) <= 500 for chunk in chunks)
    assert [chunk.offset for chunk in chunks[1:]] == [
        chunk.offset + len(chunk.data) for chunk in chunks[:-1]
    ]


@pytest.mark.slow
def test_many_new_connections_with_gaps_take_room_in_proportion(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"".join(crowd.crowd([crowd.hole], 5000, closed=False)))
    tracemalloc.start()
    try:
        assert len(chunks_of(path, batch_bytes=1 << 24)) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()


changes = st.fixed_dictionaries(
    {
        "loss": st.sets(st.integers(3, 90), max_size=6),
        "duplicates": st.sets(st.integers(0, 90), max_size=6),
        "swaps": st.sets(st.integers(3, 90), max_size=20),
        "delay": st.dictionaries(st.integers(3, 60), st.integers(1, 70), max_size=3),
        "sizes": st.lists(st.integers(1, 400), max_size=80),
        "snaplen": st.sampled_from([262_144, 262_144, 90]),
        "server_isn": st.sampled_from([0, 2**31 - 2000, 2**32 - 3000]),
        "close": st.booleans(),
    }
)


@pytest.mark.slow
@given(changes, st.integers(200, 3000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_batches_change_nothing(
    tmp_path: Path, options: dict[str, object], batch_bytes: int
) -> None:
    messages = b"".join(builders.mutations(60))
    path = builders.capture(tmp_path / "x", client=CLIENT, server=messages, **options)  # type: ignore[arg-type] # as drawn above
    whole, parts = builders.read(path), builders.read(path, batch_bytes=batch_bytes)
    assert whole.rows == parts.rows
    assert whole.skipped == parts.skipped
    assert whole.streams == parts.streams
    assert accounts(whole.transport) == accounts(parts.transport)


@given(st.permutations(range(20)), st.lists(st.integers(1, 30), min_size=20, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_any_order_of_segments_gives_the_same_bytes(
    tmp_path: Path, order: list[int], sizes: list[int]
) -> None:
    made = Conversation()
    made.handshake()
    data = bytes(np.random.default_rng(5).integers(0, 256, sum(sizes), np.uint8))
    made.stream(False, data, sizes=sizes, ack_every=0)
    segments = made.segments[:3] + [made.segments[3 + place] for place in order]
    path = tmp_path / "x"
    path.write_bytes(builders.pcap(builders.recorded(segments)))
    assert builders.read(path).streams[1, 1] == data


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 7])  # in which connections come one after the other
def test_flows_that_say_little_are_put_aside_and_nothing_changes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(flood(random.Random(seed), 120, 11_210))
    expected = [read(path, batch_bytes, find_ports=False) for batch_bytes in (1 << 24, 700)]
    monkeypatch.setattr(reassembly, "MANY_FLOWS", 0)
    aside: list[int] = []

    def counted(tables: TransportTables) -> None:
        put_aside(tables)
        aside.append(tables.counts.flows)

    monkeypatch.setattr(reassembly, "put_aside", counted)
    assert [read(path, batch_bytes, find_ports=False) for batch_bytes in (1 << 24, 700)] == expected
    assert min(aside) < 28, "some were put aside as the table of 32 was full"
