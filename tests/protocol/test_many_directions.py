"""First bytes in several packets: the messages found in columns are those that a framer finds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.protocol import first_bytes
from dcpinspect.protocol.framing import Framer
from dcpinspect.protocol.many_directions import first_messages
from dcpinspect.protocol.resync import KnownStreams
from dcpinspect.transport.chunk import StreamChunk, StreamEntries
from tests import builders
from tests.builders import Conversation
from tests.encode import encode
from tests.scenarios.test_crowds import read
from tests.transport_views import segments_of

SAID = (
    encode("noop", opaque=5),
    encode("get", opaque=6, key="some key"),
    encode("dcp_stream_req", vbucket=7, opaque=0x11),
    encode("dcp_stream_req", "response", opaque=0x11, failover_log=[{"uuid": 1, "seqno": 0}]),
    builders.mutation(1),
)
COLUMNS = (
    "length",
    "stream_offset",
    "frame",
    "last_frame",
    "file",
    "last_file",
    "time_ns",
    "release",
)


def directions(chance: random.Random, count: int) -> tuple[bytes, StreamEntries, list[StreamChunk]]:
    """What directions say first, in pieces and as chunks; a third of them are no messages, or end
    within one.
    """
    chunks, data, tables = [], b"", []
    for number in range(count):
        said = b"".join(chance.choices(SAID, k=chance.randrange(1, 6)))
        said = chance.choice((said, said, said, said[:-1], said + b"\x99" * 30, b"x" + said))
        edges = sorted({0, *(chance.randrange(len(said)) for _ in range(chance.randrange(6)))})
        packet = chance.sample(range(1000), len(edges))
        numbers = np.array(packet)
        segments = segments_of(
            np.array(edges),
            numbers,
            numbers + 1,
            numbers % 3,
            7 * numbers,
            np.maximum.accumulate(numbers),
        )
        segments.side[:] = number
        segments.source = len(data) + segments.offset
        segments.length = np.diff([*edges, len(said)])
        tables.append(segments)
        chunks.append(
            StreamChunk(
                1 + number // 2,
                number % 2,
                0,
                np.frombuffer(said, np.uint8),
                segments,
                is_start=True,
                is_end=True,
            )
        )
        data += said
    return data, StreamEntries.joined(tables), chunks


@pytest.mark.parametrize("seed", range(4))
def test_messages_are_those_of_framers(seed: int) -> None:
    data, pieces, chunks = directions(random.Random(seed), 60)
    found = first_messages(np.frombuffer(data, np.uint8), pieces)
    framed_by_columns = found.framed(np.zeros(60, np.bool_))
    seen = 0
    for number, chunk in enumerate(chunks):
        framer = Framer(known_streams=KnownStreams())
        framed = framer.feed(chunk)
        assert found.is_whole[number] == (framer.account.messages == len(chunk.data))
        mine = found.of == number
        if not found.is_whole[number]:
            assert not mine.any()
            continue
        assert framed is not None
        assert found.counts[number] == len(framed.start)
        for name in COLUMNS:
            assert (
                getattr(framed_by_columns, name)[mine].tolist() == getattr(framed, name).tolist()
            ), name
        for start, length, at in zip(found.start[mine], framed.length, framed.start, strict=True):
            assert (
                found.data[start : start + length].tobytes()
                == chunk.data[at : at + length].tobytes()
            )
        seen += int(mine.sum())
    assert 50 < seen == len(found.of)
    assert 20 < found.is_whole.sum() < 60


@pytest.mark.parametrize("seed", range(8))
def test_what_came_first_is_known_behind_a_hole(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns saw the stream, and that the server sends events; a framer looks for messages of
    known streams in the second batch.
    """
    chance, talk = random.Random(seed), Conversation()
    talk.handshake()
    for data in SAID[:1] + SAID[2:3]:
        talk.send(True, data)
    for data in SAID[3:]:
        talk.send(False, data)
    lost = talk.send(False, bytes(30))
    mutation = builders.mutation(5)
    behind = (
        mutation,
        mutation * 2,
        builders.mutation(5, vbucket=9, opaque=0x77),
        b"x" * chance.randrange(60),
        mutation[:40],
    )
    talk.send(
        False, b"rest of a value" + b"".join(chance.choices(behind, k=chance.randrange(1, 5)))
    )
    talk.close()
    path = tmp_path / "a.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded([one for one in talk.segments if one is not lost]))
    )
    found = []
    for many in (1, 1 << 30):
        monkeypatch.setattr(first_bytes, "MANY", many)
        found.append(read(path, 800, find_ports=False))
    assert found[0] == found[1]


def test_a_direction_with_a_hole_is_left_to_framers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in the same batch, and the other direction says messages and nothing else."""
    talk = Conversation()
    talk.handshake()
    talk.stream(True, b"".join(SAID[:3]), sizes=[24, 40])
    talk.stream(False, SAID[3] + b"".join(builders.mutations(20)), sizes=[100] * 20)
    talk.time_ns += 1_000_000_000
    talk.close()
    lost = [one for one in talk.segments if not one.to_server and one.payload][3]
    path = tmp_path / "a.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded([one for one in talk.segments if one is not lost]))
    )
    found = []
    for many in (1, 1 << 30):
        monkeypatch.setattr(first_bytes, "MANY", many)
        found.append(read(path, 1 << 24, find_ports=False))
    assert found[0] == found[1]
    assert sum(isinstance(row, tuple) and isinstance(row[0], int) for row in found[0]) > 20
