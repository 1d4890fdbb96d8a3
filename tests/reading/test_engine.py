"""Packets in, rows out: in one order, whatever the batches."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.output.export.json import dump, message_object
from dcpinspect.protocol import first_bytes
from dcpinspect.protocol.first_bytes import BriefMessages
from dcpinspect.reading.engine import Engine
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.chunk import StreamChunk
from tests import builders
from tests.builders import Conversation
from tests.encode import encode
from tests.protocol.test_first_bytes import flood

SAMPLES = Path(__file__).parents[2] / "sample_captures"
SMALL = sorted(path for path in SAMPLES.glob("*.pcap*") if path.stat().st_size < 70_000)

HELLO = encode("hello", opaque=1, features=[{"feature": 0x12}])
GRANT = encode("hello", "response", opaque=1, features=[{"feature": 0x12}])
ASK = encode("dcp_stream_req", vbucket=7, opaque=0x11)
ANSWER = encode("dcp_stream_req", "response", opaque=0x11, failover_log=[{"uuid": 1, "seqno": 0}])
MARKER = encode(
    "dcp_snapshot_marker", vbucket=7, opaque=0x11, end_seqno=9, snapshot_type=["memory"]
)


def pieces(batch: PacketBatch, cuts: Sequence[int]) -> Iterator[PacketBatch]:
    """The same packets in smaller batches."""
    bounds = [0, *(cut for cut in cuts if cut < len(batch)), len(batch)]
    for low, high in pairwise(bounds):
        yield builders.part(batch, low, high)


def batches(paths: Sequence[Path], cuts: Sequence[int] = ()) -> list[MessageBatch]:
    with_names = [str(path) for path in paths]
    capture = open_capture(with_names)
    engine = Engine([file.name for file in capture.files])
    found = [engine.feed(piece) for packets in capture for piece in pieces(packets, cuts)]
    capture.close()
    return [batch for batch in (*found, engine.finish()) if batch is not None]


def rows(*paths: Path, cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Everything that is said of every message, and its bytes."""
    out = []
    for batch in batches(paths, cuts):
        for index in range(len(batch)):
            record = message_object(batch, index, fields=False)
            record["value"] = dump(record["value"])
            out.append(record | {"data": batch.bytes_of(index), "release": None})
    return out


def written(path: Path, *conversations: Conversation) -> Path:
    """A capture of several connections, packet by packet in order of time."""
    segments = sorted(
        (segment for one in conversations for segment in one.segments),
        key=lambda segment: segment.time_ns,
    )
    path.write_bytes(builders.pcap(builders.recorded(segments)))
    return path


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """HELLO, a stream request and a stream whose mutations straddle segments."""
    one = Conversation(mss=100)
    one.handshake()
    one.stream(True, HELLO)
    one.stream(False, GRANT)
    one.stream(True, ASK)
    one.stream(
        False,
        ANSWER
        + MARKER
        + b"".join(
            builders.mutation(seqno, key=b"\x08key-%d" % seqno, value=b"v" * 90)
            for seqno in range(1, 6)
        ),
    )
    one.close()
    return written(tmp_path / "talk.pcap", one)


def test_rows_count_from_one_in_order(talk: Path) -> None:
    found = rows(talk)
    assert [row["row"] for row in found] == list(range(1, 11))
    assert [row["name"] for row in found] == [
        "hello",
        "hello",
        "dcp_stream_req",
        "dcp_stream_req",
        "dcp_snapshot_marker",
    ] + ["dcp_mutation"] * 5


def test_messages_tile_each_direction(talk: Path) -> None:
    for direction in ("c2s", "s2c"):
        at = 0
        for row in rows(talk):
            if row["direction"] == direction:
                assert row["stream_offset"] == at
                at += row["length"]


def test_a_message_names_the_first_and_the_last_packet_that_gave_its_bytes(talk: Path) -> None:
    spans = [(row["frame"], row["last_frame"]) for row in rows(talk)]
    assert spans[:4] == [(4, 4), (6, 6), (8, 8), (10, 10)]
    assert all(first <= last for first, last in spans)
    assert sum(first < last for first, last in spans) >= 3


def test_the_time_of_a_message_is_its_last_packets(talk: Path) -> None:
    start = 1_700_000_000_000_000_000 // 1000 * 1000
    for batch in batches([talk]):
        assert batch.time_ns.tolist() == [
            start + (int(frame) - 1) * 10_000 for frame in batch.last_frame
        ]


def test_a_response_finds_its_request_and_has_its_vbucket(talk: Path) -> None:
    answer = rows(talk)[3]
    found = {
        name: answer[name]
        for name in ("vbucket", "vbucket_from", "request_row", "request_stream_offset")
    }
    assert found == {
        "vbucket": 7,
        "vbucket_from": "request",
        "request_row": 3,
        "request_stream_offset": len(HELLO),
    }
    assert answer["rtt_ns"] > 0


def test_collections_hold_from_the_hello_on(talk: Path) -> None:
    assert [(row["collection_id"], row["key"]) for row in rows(talk)[5:7]] == [
        (8, "key-1"),
        (8, "key-2"),
    ]


@pytest.mark.parametrize(
    "every", [1, *(pytest.param(every, marks=pytest.mark.slow) for every in (2, 3, 7))]
)
@pytest.mark.parametrize("name", ["talk", *(path.name for path in SMALL)])
def test_rows_do_not_depend_on_how_packets_are_batched(name: str, every: int, talk: Path) -> None:
    path = talk if name == "talk" else SAMPLES / name
    assert rows(path, cuts=range(every, 2000, every)) == rows(path)


def test_messages_released_by_one_packet_are_in_order_of_stream(tmp_path: Path) -> None:
    one = Conversation()
    one.handshake()
    one.stream(False, b"".join(builders.mutations(20, value=lambda _: b"")), sizes=[1000])
    found = rows(written(tmp_path / "many.pcap", one))
    assert [row["by_seqno"] for row in found] == list(range(1, 21))


def test_connections_count_from_one_in_order_of_first_packet(tmp_path: Path) -> None:
    late = Conversation(client=("10.0.0.9", 40_000), time_ns=builders.START_NS + 5_000)
    early = Conversation()
    for one in (late, early):
        one.handshake()
        one.stream(True, HELLO)
    found = rows(written(tmp_path / "two.pcap", late, early))
    assert [(row["connection"], row["client"]) for row in found] == [
        (1, "10.0.0.1:50000"),
        (2, "10.0.0.9:40000"),
    ]


def test_rows_of_several_connections_follow_the_packets(tmp_path: Path) -> None:
    one, two = (
        Conversation(),
        Conversation(client=("10.0.0.9", 40_000), time_ns=builders.START_NS + 5_000),
    )
    for connection in (one, two):
        connection.handshake()
    for _ in range(3):
        one.stream(True, encode("noop", opaque=1))
        two.stream(True, encode("noop", opaque=1))
    found = rows(written(tmp_path / "two.pcap", one, two))
    assert [row["connection"] for row in found] == [1, 2, 1, 2, 1, 2]
    assert [row["last_frame"] for row in found] == sorted(row["last_frame"] for row in found)


def test_the_same_addresses_opened_again_are_a_new_connection(tmp_path: Path) -> None:
    first, again = (
        Conversation(),
        Conversation(client_isn=900_000, time_ns=builders.START_NS + 10**9),
    )
    for one in (first, again):
        one.handshake()
        one.stream(True, HELLO)
    found = rows(written(tmp_path / "again.pcap", first, again))
    assert [(row["connection"], row["client"], row["stream_offset"]) for row in found] == [
        (1, "10.0.0.1:50000", 0),
        (2, "10.0.0.1:50000", 0),
    ]


def test_opaques_of_different_connections_do_not_meet(tmp_path: Path) -> None:
    one, two = (
        Conversation(),
        Conversation(client=("10.0.0.9", 40_000), time_ns=builders.START_NS + 5_000),
    )
    for connection in (one, two):
        connection.handshake()
    one.stream(True, ASK)
    two.stream(False, ANSWER)
    found = rows(written(tmp_path / "two.pcap", one, two))
    assert "request_row" not in next(row for row in found if row["connection"] == 2)


def test_a_hole_in_a_body_is_a_missing_range_and_the_next_message_is_read(tmp_path: Path) -> None:
    one = Conversation(mss=100)
    one.handshake()
    one.stream(False, MARKER + builders.mutation(1, value=b"v" * 300) + builders.mutation(2))
    lost = next(
        number
        for number, segment in enumerate(one.segments)
        if len(segment.payload) == 100 and segment.payload == b"v" * 100
    )
    path = tmp_path / "hole.pcap"
    path.write_bytes(builders.pcap(builders.recorded(builders.damaged(one.segments, loss={lost}))))
    found = rows(path)
    assert [(row["name"], row["by_seqno"]) for row in found if row["name"] == "dcp_mutation"] == [
        ("dcp_mutation", 1),
        ("dcp_mutation", 2),
    ]
    (span,) = found[1]["missing"]
    assert span[1] - span[0] == 100


def test_a_message_without_all_of_its_header_is_no_row_and_pairs_with_nobody(
    tmp_path: Path,
) -> None:
    one = Conversation()
    one.handshake()
    one.stream(True, encode("get", key="k", opaque=0), sizes=[12, 4, 100])
    one.stream(False, encode("get", "response", opaque=0, status=1))
    lost = next(number for number, segment in enumerate(one.segments) if len(segment.payload) == 4)
    path = tmp_path / "hole.pcap"
    path.write_bytes(builders.pcap(builders.recorded(builders.damaged(one.segments, loss={lost}))))
    (row,) = rows(path)
    assert (row["side"], "request_row" in row) == ("response", False)


def test_a_capture_that_begins_in_the_middle_does_not_guess_collections(tmp_path: Path) -> None:
    one = Conversation()
    one.stream(False, b"".join(builders.mutations(10)))
    assert {row["collection_id"] for row in rows(written(tmp_path / "middle.pcap", one))} == {None}


def silences(
    path: Path, *, after: int, seconds: float
) -> tuple[list[MessageBatch], list[MessageBatch], Engine]:
    """Messages before and after a silence that follows packet ``after``, and the engine at the
    end.
    """
    capture = open_capture([str(path)])
    engine = Engine([str(path)])
    parts = [part for packets in capture for part in pieces(packets, [after])]
    capture.close()
    before = [engine.feed(parts[0])]
    before.append(engine.decode(engine.frame_overdue(int(parts[0].time_ns[-1] + seconds * 1e9))))
    behind = [*(engine.feed(part) for part in parts[1:]), engine.finish()]
    return (
        [batch for batch in before if batch is not None],
        [batch for batch in behind if batch is not None],
        engine,
    )


@pytest.mark.parametrize(("seconds", "seen"), [(0.1, [1]), (0.2, [1, 2, 3, 4])])
def test_live_a_gap_in_a_silent_connection_is_waited_for_200_ms(
    seconds: float, seen: list[int], tmp_path: Path
) -> None:
    one = Conversation()
    one.handshake()
    for seqno in range(1, 7):
        one.stream(False, builders.mutation(seqno, value=b"v" * 200), sizes=[100], ack_every=1)
    path = tmp_path / "gap.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded(builders.damaged(one.segments, loss={9})))
    )  # the second part of mutation 2
    before, after, engine = silences(path, after=18, seconds=seconds)
    number = [
        value for batch in before for value in batch.decoded.numbers["by_seqno"].values.tolist()
    ]
    assert number == seen
    rest = [value for batch in after for value in batch.decoded.numbers["by_seqno"].values.tolist()]
    assert number + rest == [1, 2, 3, 4, 5, 6]
    (way,) = [one for one in engine.coverage.directions if one.captured]
    assert way.unique == way.decoded + way.unfinished + sum(way.skipped.values())


@pytest.mark.parametrize(("seconds", "count"), [(0.4, 0), (0.5, 2)])
def test_live_a_start_in_the_middle_is_on_trial_for_500_ms_of_silence(
    seconds: float, count: int, tmp_path: Path
) -> None:
    one = Conversation()
    for seqno in range(1, 9):
        one.stream(False, builders.mutation(seqno))
    before, after, _ = silences(written(tmp_path / "middle.pcap", one), after=4, seconds=seconds)
    assert [batch.heuristic.tolist() for batch in before] == [[True] * count] * bool(count)
    assert sum(map(len, before + after)) == 8
    assert [row for batch in before + after for row in batch.row.tolist()] == list(range(1, 9))


def test_live_bytes_that_are_no_message_stay_on_trial(tmp_path: Path) -> None:
    one = Conversation()
    one.stream(False, b"rest of a value}")
    one.stream(False, b"".join(builders.mutations(5)))
    before, after, _ = silences(written(tmp_path / "middle.pcap", one), after=2, seconds=10)
    assert before == []
    assert sum(map(len, after)) == 5
    assert not any(batch.heuristic.any() for batch in after)


def test_nothing_in_gives_nothing_out() -> None:
    assert Engine([]).finish() is None


def test_every_column_of_a_batch_has_an_entry_a_message(talk: Path) -> None:
    for batch in batches([talk]):
        for field in dataclasses.fields(batch):
            value = getattr(batch, field.name)
            if isinstance(value, np.ndarray) and field.name != "data":
                assert len(value) == len(batch), field.name


class Places:
    """Puts the streams together from the places that a keeper is told."""

    def __init__(self, path: Path) -> None:
        self.file = path.read_bytes()
        self.streams: dict[tuple[int, int], bytearray] = {}
        self.kept = 0

    def keep(
        self,
        packets: PacketBatch | None,
        chunks: Sequence[StreamChunk],
        told: Sequence[BriefMessages],
    ) -> None:
        self.kept += 0 if packets is None else len(packets)
        for pieces in (one.pieces for one in told):
            columns = (pieces.side, pieces.offset, pieces.length, pieces.place)
            for way, first, length, place in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                stream = self.streams.setdefault((way // 2 + 1, way % 2), bytearray())
                assert len(stream) == first
                stream += self.file[place : place + length]
        for chunk in chunks:
            assert chunk.is_placed
            stream = self.streams.setdefault((chunk.connection, chunk.direction), bytearray())
            ends = [*chunk.segments.offset.tolist()[1:], chunk.offset + len(chunk.data)]
            for start, end, place in zip(
                chunk.segments.offset.tolist(), ends, chunk.segments.place.tolist(), strict=True
            ):
                stream += (
                    self.file[place : place + end - start] if place >= 0 else bytes(end - start)
                )


@pytest.mark.parametrize("port", [11_210, 31_000])
def test_a_keeper_learns_where_the_bytes_of_every_message_stand(port: int, tmp_path: Path) -> None:
    one = Conversation(mss=100, server=("10.0.0.2", port))
    one.stream(False, GRANT)  # the server's side is seen first
    one.stream(True, HELLO + ASK)
    one.stream(False, ANSWER + MARKER + b"".join(builders.mutations(30)))
    order = one.segments[:6] + one.segments[6:12:2] + one.segments[7:12:2] + one.segments[12:]
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(order)))
    engine, keeper, found = kept(path, batch_bytes=4096)
    assert sum(len(batch) for batch in found) > 30
    assert engine.turned == (frozenset() if port == 11_210 else {1})
    assert keeper.kept == len(order)
    assert_places(engine, keeper, found)


@pytest.mark.parametrize("batch_bytes", [700, 1 << 24])
def test_and_of_what_many_connections_say_first(
    batch_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_bytes, "MANY", 1)
    path = tmp_path / "a.pcap"
    path.write_bytes(flood(random.Random(5), 120, 11_210))
    engine, keeper, found = kept(path, batch_bytes=batch_bytes)
    assert sum(len(batch) for batch in found) > 100
    assert_places(engine, keeper, found)


def kept(path: Path, *, batch_bytes: int) -> tuple[Engine, Places, list[MessageBatch]]:
    """All messages of a capture, with a keeper that was told of them."""
    keeper = Places(path)
    engine = Engine([str(path)], find_ports=True, keeper=keeper)
    with open_capture([path], batch_bytes=batch_bytes) as capture:
        found = [
            batch
            for batch in (*(engine.feed(packets) for packets in capture), engine.finish())
            if batch is not None
        ]
    return engine, keeper, found


def assert_places(engine: Engine, keeper: Places, found: list[MessageBatch]) -> None:
    """A keeper can find every message."""
    for batch in found:
        for index, connection, direction, offset in zip(
            range(len(batch)),
            batch.connection.tolist(),
            batch.direction.tolist(),
            batch.stream_offset.tolist(),
            strict=True,
        ):
            stream = keeper.streams[connection, direction ^ (connection in engine.turned)]
            data = batch.bytes_of(index)
            assert stream[offset : offset + len(data)] == data


def test_several_files_are_one_reading(tmp_path: Path) -> None:
    one = Conversation(mss=100)
    one.handshake()
    one.stream(False, b"".join(builders.mutations(9)))
    middle = len(one.segments) // 2
    whole = written(tmp_path / "whole.pcap", one)
    parts = []
    for name, segments in (("a.pcap", one.segments[:middle]), ("b.pcap", one.segments[middle:])):
        parts.append(tmp_path / name)
        parts[-1].write_bytes(builders.pcap(builders.recorded(segments)))
    found, expected = rows(*reversed(parts)), rows(whole)
    assert [row["data"] for row in found] == [row["data"] for row in expected]
    assert {row["file"] for row in found} == {str(part) for part in parts}
    assert sum("last_file" in row for row in found) <= 1


def test_a_handshake_behind_a_stray_acknowledgement_is_known_in_any_batches(tmp_path: Path) -> None:
    one = Conversation()
    one.send(True)
    one.next[True] -= 1  # the SYN's number
    one.handshake()
    one.stream(False, b"".join(builders.mutation(seqno, key=b"\x08key") for seqno in range(1, 4)))
    path = written(tmp_path / "x.pcap", one)
    assert rows(path, cuts=range(1, 9)) == rows(path)
    assert batches([path], range(1, 9))[0].endpoints.has_handshake == b"\x01"


def test_nothing_is_kept_of_directions_that_have_ended(talk: Path) -> None:
    engine = Engine(["talk"])
    with open_capture([str(talk)]) as capture:
        found = [engine.feed(packets) for packets in capture]
    assert any(found)
    assert not engine._framers
    assert not engine._known_streams
    assert sum(one.decoded for one in engine.coverage.directions) > 500


def test_of_a_scan_the_first_connections_are_listed_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.reading.engine.MOST_SILENT", 3)
    scan = [Conversation(client=("10.0.0.9", port)) for port in range(1000, 1010)]
    for one in scan:
        one.handshake()
    scan[7].send(True, builders.message(opcode=0x5C))  # a noop
    for one in scan[8:]:
        one.send(True, b"GET /")
    busy = Conversation(client=("10.0.0.8", 4000))
    busy.handshake()
    busy.send(True, builders.message(opcode=0x0B))
    with Reading([str(written(tmp_path / "x.pcap", *scan, busy))], track=True) as reading:
        assert sum(len(batch) for batch in reading) == 2
    assert len(reading.tables.by_name["connections"]) == 4
    engine = reading.engine
    assert [link.client for link in engine.links] == [
        "10.0.0.9:1000",
        "10.0.0.9:1001",
        "10.0.0.9:1002",
        "10.0.0.8:4000",
    ]
    assert engine.unlisted == 7
    assert {one.connection for one in engine.coverage.directions} == {8, 9, 10, 11}
    assert engine._framers == {}
    tables = engine.transport._tables
    assert tables.counts.flows == 10, "a pair that is nobody's, and those of connections with bytes"
    assert (
        tables.connections.dtype.itemsize
        + 2 * tables.sides.dtype.itemsize
        + engine.transport.pairs.keys[0].nbytes
        <= 120
    )
