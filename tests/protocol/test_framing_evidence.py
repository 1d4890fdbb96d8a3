"""``--port auto``: the connections that carry the protocol, and no others."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from dcpinspect.output.export.json import message_object
from dcpinspect.protocol.framing_evidence import MAX_HELD, ONE_WAY
from dcpinspect.reading.engine import Engine
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import Conversation
from tests.encode import encode
from tests.reading.test_engine import batches

PORT = 31_000
HELLO = encode("hello", opaque=1, features=[{"feature": 0x12}])
GRANT = encode("hello", "response", opaque=1, features=[{"feature": 0x12}])
ASK = encode("dcp_stream_req", vbucket=7, opaque=0x11)
ANSWER = encode("dcp_stream_req", "response", opaque=0x11, failover_log=[{"uuid": 1, "seqno": 0}])
STREAM = b"".join(builders.mutations(200))
ACKS = b"".join(builders.message(opcode=0x5D, extras=bytes(4), opaque=i) for i in range(3))


def conversation(
    *turns: tuple[bool, bytes], handshake: bool = True, **options: object
) -> Conversation:
    made = Conversation(server=("10.0.0.2", PORT), **options)  # type: ignore[arg-type] # passed on
    if handshake:
        made.handshake()
    for to_server, data in turns:
        made.stream(to_server, data)
    return made


def written(path: Path, *made: Conversation) -> Path:
    segments = sorted(
        (segment for one in made for segment in one.segments), key=lambda segment: segment.time_ns
    )
    path.write_bytes(builders.pcap(builders.recorded(segments)))
    return path


def rows(
    path: Path, *, find_ports: bool = True, extra_ports: tuple[int, ...] = ()
) -> list[dict[str, object]]:
    with Reading([str(path)], find_ports=find_ports, extra_ports=extra_ports) as reading:
        return [
            message_object(batch, index, fields=False)
            for batch in reading
            for index in range(len(batch))
        ]


DCP = conversation(
    (True, HELLO), (False, GRANT), (True, ASK), (False, ANSWER + STREAM), (True, ACKS)
)


def test_a_connection_of_any_port_reads_as_if_its_port_were_given(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", DCP)
    assert rows(path, find_ports=False) == []
    given = rows(path, find_ports=False, extra_ports=(PORT,))
    assert len(given) > 200
    assert rows(path) == given


def test_two_messages_that_answer_each_other_suffice(tmp_path: Path) -> None:
    found = rows(written(tmp_path / "a.pcap", conversation((True, HELLO), (False, GRANT))))
    assert [row["name"] for row in found] == ["hello", "hello"]


def test_a_start_in_the_middle_is_found_from_both_directions(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.pcap",
        conversation((False, STREAM[30:]), (True, ACKS), (False, STREAM), handshake=False),
    )
    found = rows(path)
    assert {(row["direction"], row["client"]) for row in found} == {
        ("s2c", "10.0.0.1:50000"),
        ("c2s", "10.0.0.1:50000"),
    }
    assert len(found) > 390


def test_who_says_hello_is_the_client_whatever_packet_came_first(tmp_path: Path) -> None:
    made = conversation((True, HELLO), (False, GRANT), handshake=False)
    made.segments.insert(0, made.segments.pop())  # the server's acknowledgement is captured first
    first = builders.Segment(
        False,
        made.server_isn & 0xFFFFFFFF,
        made.client_isn,
        builders.ACK,
        b"",
        builders.START_NS - 5,
        made.client,
        made.server,
    )
    made.segments.insert(0, first)
    found = rows(written(tmp_path / "a.pcap", made))
    assert [(row["direction"], row["client"], row["server"]) for row in found] == [
        ("c2s", "10.0.0.1:50000", f"10.0.0.2:{PORT}"),
        ("s2c", "10.0.0.1:50000", f"10.0.0.2:{PORT}"),
    ]


@pytest.mark.parametrize("count", [3, 10, ONE_WAY + 5])
def test_one_direction_alone_convinces_at_its_end_or_after_many(count: int, tmp_path: Path) -> None:
    made = conversation(handshake=False)
    made.stream(False, b"".join(builders.mutations(count)), ack_every=0)
    assert len(rows(written(tmp_path / "a.pcap", made))) == (count if count > 3 else 0)


RNG = random.Random(4)
RECORDS = b"".join(struct.pack(">BHH", 0x17, 0x0303, 900) + RNG.randbytes(900) for _ in range(50))
OTHERS = {
    "http": (
        b"GET /capture HTTP/1.1\r\nHost: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + STREAM * 4,
    ),
    "download": (
        b"GET /capture HTTP/1.1\r\nHost: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + STREAM * (2 * MAX_HELD // 200),
    ),
    "tls": (b"\x16\x03\x01\x00\x60\x01" + bytes(95) + RECORDS, RECORDS),
    "ssh": (
        b"SSH-2.0-OpenSSH_9.2\r\n" + RNG.randbytes(4000),
        b"SSH-2.0-OpenSSH_9.2\r\n" + RNG.randbytes(90_000),
    ),
    "memcached text": (b"get k\r\n" * 90, b"VALUE k 0 200\r\n" + STREAM[:200] + b"\r\nEND\r\n"),
    "random": (RNG.randbytes(100_000), RNG.randbytes(100_000)),
    "magics": (bytes([0x80]) * 5000, bytes([0x81]) * 5000),
    "zeros": (bytes(5000), bytes(5000)),
    "echo": (STREAM[:50] * 30, STREAM[:50] * 30),
}


@pytest.mark.parametrize("handshake", [True, False])
@pytest.mark.parametrize("name", OTHERS)
def test_other_protocols_give_no_message(name: str, handshake: bool, tmp_path: Path) -> None:
    client, server = OTHERS[name]
    assert (
        rows(
            written(
                tmp_path / "a.pcap",
                conversation((True, client), (False, server), handshake=handshake),
            )
        )
        == []
    )


def test_what_is_held_back_is_bounded(tmp_path: Path) -> None:
    client, server = OTHERS["download"]
    with Reading(
        [str(written(tmp_path / "a.pcap", conversation((True, client), (False, server))))],
        find_ports=True,
    ) as reading:
        list(reading)
        assert not reading.engine._evidence._cases


@pytest.mark.parametrize("every", [1, 3, 17])
def test_rows_do_not_depend_on_how_packets_are_batched(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Conversation(client=("10.0.0.7", 40_000), time_ns=builders.START_NS + 1000)
    other.handshake()
    other.stream(False, b"".join(builders.mutations(30)), sizes=[200] * 40)
    path = written(tmp_path / "a.pcap", DCP, other)
    monkeypatch.setattr(
        "tests.reading.test_engine.Engine", lambda files: Engine(files, find_ports=True)
    )

    def all_rows(cuts: range) -> list[tuple[object, ...]]:
        return [
            (
                batch.bytes_of(index),
                int(batch.row[index]),
                int(batch.connection[index]),
                int(batch.stream_offset[index]),
            )
            for batch in batches([path], cuts)
            for index in range(len(batch))
        ]

    assert all_rows(range(every, 2000, every)) == all_rows(range(0))


def test_from_its_first_byte_on_a_connection_may_speak_of_any_vbucket(tmp_path: Path) -> None:
    asked = [encode("dcp_stream_req", vbucket=vbucket) for vbucket in (65_535, 7, 1024)]
    made = conversation((True, b"".join(asked)))
    found = rows(written(tmp_path / "a.pcap", made), find_ports=False, extra_ports=(PORT,))
    assert [row["vbucket"] for row in found] == [65_535, 7, 1024]


@pytest.mark.parametrize("port", [11_210, 11_207])
@pytest.mark.parametrize("begins", ["noop", "ack", "stream"])
def test_between_two_ports_of_servers_what_is_said_tells_who_is_the_client(
    port: int, begins: str, tmp_path: Path
) -> None:
    noop = [(False, encode("dcp_noop", opaque=9)), (True, encode("dcp_noop", "response", opaque=9))]
    turns = {
        "noop": [*noop, (False, STREAM)],
        "ack": [(True, ACKS), (False, STREAM)],
        "stream": [(False, STREAM), (True, ACKS)],
    }[begins]
    made = Conversation(client=("10.0.0.1", port), server=("10.0.0.2", 11_210))
    for to_server, data in turns:
        made.stream(to_server, data)
    found = rows(written(tmp_path / "a.pcap", made), find_ports=False)
    assert len(found) > 200
    assert {(row["client"], row["server"]) for row in found} == {
        (f"10.0.0.1:{port}", "10.0.0.2:11210")
    }


def test_between_two_ports_of_servers_a_handshake_tells_it(tmp_path: Path) -> None:
    made = Conversation(client=("10.0.0.1", 11_207), server=("10.0.0.2", 11_210))
    made.handshake()
    made.stream(True, ASK)
    (row,) = rows(written(tmp_path / "a.pcap", made), find_ports=False)
    assert (row["client"], row["name"]) == ("10.0.0.1:11207", "dcp_stream_req")
