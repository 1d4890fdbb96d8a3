"""Work grows with the input: twice as much of anything takes twice as long, whoever wrote it.

Steps are counted, not time: lines of this package that run, those of interpreted kernels included.
From n to 2 n to 4 n of a thing linear work grows twice as much the second time; what goes over all
the others for each of them grows four times as much.
"""

from __future__ import annotations

import io
import json
import random
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import dcpinspect
from dcpinspect.output.export.json import dump, message_object
from dcpinspect.output.export.packet_subset import PacketWishes, Subset
from dcpinspect.output.render.coverage_text import coverage_table
from dcpinspect.protocol import first_bytes
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import START_NS, Conversation, Recorded, Segment
from tests.encode import encode, encode_parts, encode_xattrs

pytestmark = pytest.mark.slow

PACKAGE = str(Path(dcpinspect.__file__).parent)
MUTATION = builders.mutation(1)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", True)


def steps(path: Path) -> int:
    """Lines that run while a capture is read, checked and written with all fields, and once more as
    packets.
    """

    def work() -> None:
        with (
            Subset(PacketWishes(with_handshakes=True)) as subset,
            Reading([str(path)], keeper=subset) as reading,
        ):
            subset.follow(reading)
            reading.check()
            for batch in reading:
                subset.choose(batch, np.arange(len(batch)))
                for index in range(len(batch)):
                    dump(message_object(batch, index))
            reading.worked_out()
            list(coverage_table(reading.coverage, reading.capture.files))
            subset.write(io.BytesIO())

    return lines_of(work)


def lines_of(work: Callable[[], None]) -> int:
    """Lines of this package that run meanwhile."""
    count = 0

    def line(_frame: FrameType, event: str, _about: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _event: str, _about: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def said(client: bytes, server: bytes) -> bytes:
    """A capture of one connection: what its ends say, in few packets."""
    one = Conversation(mss=30_000)
    one.handshake()
    for to_server, data in ((True, client), (False, server)):
        one.stream(to_server, data, ack_every=1)
    return builders.pcap(builders.recorded(one.segments))


def of_server(*messages: bytes) -> bytes:
    """What a server says on one stream of vbucket 7."""
    answer = encode(
        "dcp_stream_req", "response", opaque=0x11, failover_log=[{"uuid": 1, "seqno": 0}]
    )
    return said(asked([(7, 0x11)]), b"".join((answer, *messages)))


def asked(streams: list[tuple[int, int]]) -> bytes:
    """Requests of streams: (vbucket, opaque)."""
    return b"".join(
        encode("dcp_stream_req", vbucket=vbucket, opaque=opaque, end_seqno=(1 << 64) - 1)
        for vbucket, opaque in streams
    )


def marker(start: int, end: int, vbucket: int = 7, opaque: int = 0x11) -> bytes:
    return encode(
        "dcp_snapshot_marker",
        vbucket=vbucket,
        opaque=opaque,
        start_seqno=start,
        end_seqno=end,
        snapshot_type=["memory"],
    )


def streams(opaques: list[tuple[int, int]], log: int = 1) -> bytes:
    """Each with an answer, a snapshot and a mutation."""
    entries = [{"uuid": 1 + entry, "seqno": log - 1 - entry} for entry in range(log)]
    told = [
        encode("dcp_stream_req", "response", opaque=opaque, failover_log=entries)
        + marker(0, 1, vbucket=vbucket, opaque=opaque)
        + builders.mutation(1, vbucket=vbucket, opaque=opaque)
        for vbucket, opaque in opaques
    ]
    return said(asked(opaques), b"".join(told))


def segments(data: bytes, places: list[tuple[int, int]]) -> bytes:
    """A capture of a server's bytes in segments, in that order: [start, end) in the stream."""
    one = Conversation(server_isn=99)
    one.handshake()
    sent = [
        Segment(
            False,
            100 + start,
            1001,
            builders.ACK,
            data[start:end],
            START_NS + 10_000 * (3 + number),
        )
        for number, (start, end) in enumerate(places)
    ]
    return builders.pcap(builders.recorded([*one.segments, *sent]))


def overlapping(n: int) -> bytes:
    return segments(MUTATION * 2 * n, [(at, at + 90) for at in range(0, 30 * n, 30)])


def behind_a_gap(n: int) -> bytes:
    """Every second one, then those between them, then the first."""
    every = [(at, at + 30) for at in range(30, 30 * n, 30)]
    return segments(MUTATION * n, [*every[1::2], *every[::2], (0, 30)])


def shuffled(n: int) -> bytes:
    every = [(at, at + 30) for at in range(0, 30 * n, 30)]
    random.Random(n).shuffle(every)
    return segments(MUTATION * n, every)


def fragments(n: int) -> bytes:
    """Datagrams in two pieces each, the second ones first."""
    packets = []
    one = Conversation()
    one.handshake()
    one.stream(False, MUTATION * n, sizes=[len(MUTATION)] * n, ack_every=0)
    for number, packet in enumerate(builders.recorded(one.segments)):
        if number >= 3:
            packets += [
                Recorded(data, len(data), packet.time_ns)
                for data in reversed(pieces(packet.data, 40, number))
            ]
        else:
            packets.append(packet)
    return builders.pcap(packets)


def one_datagram(n: int) -> bytes:
    """In many pieces, the first one last."""
    one = Conversation(mss=60_000)
    one.handshake()
    one.stream(False, MUTATION * n, ack_every=0)
    *before, packet = builders.recorded(one.segments)
    return builders.pcap(
        [
            *before,
            *(
                Recorded(data, len(data), packet.time_ns)
                for data in reversed(pieces(packet.data, 16, 7))
            ),
        ]
    )


def pieces(data: bytes, size: int, number: int) -> list[bytes]:
    """An IP packet in fragments."""
    link, header, body = data[:14], data[14:34], data[34:]
    out = []
    for at in range(0, len(body), size):
        part = body[at : at + size]
        more = 0x2000 if at + size < len(body) else 0
        start = (
            header[:2]
            + struct.pack(">HHH", 20 + len(part), number, more | at // 8)
            + header[8:10]
            + b"\0\0"
            + header[12:]
        )
        out.append(link + start + part)
    return out


def in_pcapng(
    *,
    interfaces: int = 1,
    options: int = 0,
    packets: int = 8,
    sections: int = 1,
    others: bytes = b"",
) -> bytes:
    """``others``: blocks of other kinds."""
    one = Conversation()
    one.handshake()
    one.stream(False, MUTATION * packets, sizes=[len(MUTATION)] * packets)
    out = []
    comments = struct.pack("<HH4s", 1, 4, b"note") * options
    head = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + comments
    for _ in range(sections):
        out += [
            builders.block(0x0A0D0D0A, head),
            *(builders.interface(name=b"eth%d" % number) for number in range(interfaces)),
        ]
        out.append(others)
    recorded = builders.recorded(one.segments)
    return b"".join(
        out
        + [
            builders.enhanced(packet, number=place % interfaces)
            for place, packet in enumerate(recorded)
        ]
    )


def name_records(count: int) -> bytes:
    """Of a name resolution block: addresses with a name each."""
    records = [
        struct.pack("<HH", 1, 8)
        + bytes([10, 1, place >> 8, place & 255])
        + b"n%02x" % (place & 255)
        for place in range(count)
    ]
    return b"".join(records) + bytes(4)


def key_lines(first: int, count: int) -> bytes:
    """Of a key log."""
    return b"".join(
        b"CLIENT_RANDOM %064x %096x\n" % (first + place, place) for place in range(count)
    )


def secrets(lines: bytes) -> bytes:
    """A decryption secrets block."""
    return builders.block(
        10, struct.pack("<II", 0x544C534B, len(lines)) + lines + bytes(-len(lines) % 4)
    )


def tiny_connections(
    n: int,
    payload: bytes = b"GET / HTTP/1.0\r\n\r\n",
    *,
    more: bytes = b"",
    handshake: bool = True,
    close: bool = True,
) -> bytes:
    made: list[Segment] = []
    for number in range(n):
        one = Conversation(
            client=("10.0.0.1", 20_000 + number), time_ns=START_NS + 1_000_000 * number
        )
        if handshake:
            one.handshake()
        one.stream(True, payload)
        if more:
            one.stream(True, more)
        if close:
            one.close()
        made += one.segments
    return builders.pcap(builders.recorded(made))


def reconnecting(n: int, items: bytes = b"", **answer: Any) -> bytes:
    """A client that asks for a stream on one connection after the other, and what it is
    answered.
    """
    made: list[Segment] = []
    for number in range(n):
        one = Conversation(
            client=("10.0.0.1", 20_000 + number), time_ns=START_NS + 1_000_000 * number
        )
        one.handshake()
        one.stream(True, asked([(7, 0x11)]))
        one.stream(False, encode("dcp_stream_req", "response", opaque=0x11, **answer) + items)
        one.close()
        made += one.segments
    return builders.pcap(builders.recorded(made))


def clients(n: int) -> bytes:
    """Of one host, each with a name, a connection and a stream. The server tells each the high
    seqnos.
    """
    made: list[Segment] = []
    seqnos = encode(
        "get_all_vb_seqnos",
        "response",
        opaque=3,
        seqnos=[{"vbucket": vbucket, "seqno": 9} for vbucket in range(4)],
    )
    for number in range(n):
        one = Conversation(
            client=("10.0.0.1", 20_000 + number), time_ns=START_NS + 1_000_000 * number
        )
        one.handshake()
        one.stream(True, encode("dcp_open", opaque=2, flags=["producer"], key=f"client {number}"))
        one.stream(False, encode("dcp_open", "response", opaque=2))
        one.stream(True, encode("get_all_vb_seqnos", opaque=3))
        one.stream(False, seqnos)
        one.stream(True, asked([(number, 0x11)]))
        one.stream(
            False, granted(0x11) + marker(0, 1, number) + builders.mutation(1, vbucket=number)
        )
        made += one.segments
    return builders.pcap(builders.recorded(made))


def disputed(n: int) -> bytes:
    """Two clients of one vbucket: in each snapshot, one gets a document that the other lacks."""
    made: list[Segment] = []
    for client in range(2):
        one = Conversation(mss=60_000, client=("10.0.0.1", 20_000 + client))
        one.handshake()
        one.stream(True, encode("dcp_open", opaque=2, flags=["producer"], key=f"client {client}"))
        one.stream(False, encode("dcp_open", "response", opaque=2))
        one.stream(True, asked([(7, 0x11)]))
        items = [
            marker(start, start + 9)
            + builders.mutation(start + 3 + client, key=b"key %d" % start)
            + builders.mutation(start + 9, key=b"last")
            for start in range(0, 10 * n, 10)
        ]
        one.stream(False, granted(0x11) + b"".join(items))
        made += one.segments
    return builders.pcap(builders.recorded(made))


def holed(n: int, *, is_lost: bool) -> bytes:
    """Values of which a packet is missing, and, if ``is_lost``, the header of the message
    behind.
    """
    one = Conversation(mss=60_000)
    one.handshake()
    one.stream(True, asked([(7, 0x11)]))
    one.stream(False, granted(0x11) + marker(0, n))
    for place in range(n):
        sound, broken = (
            builders.mutation(2 * place + seqno, key=b"key", value=b'"' + b"v" * 200 + b'"')
            for seqno in (1, 2)
        )
        end = len(sound) + 30 if is_lost else 200
        one.stream(False, (sound + broken)[:150])
        one.next[False] += end - 150
        one.stream(False, (sound + broken)[end:])
    return builders.pcap(builders.recorded(one.segments))


ENDLESS = (1 << 64) - 1
Exchange = tuple[dict[str, Any], bytes]


def asking_again(
    n: int, exchanges: Callable[[int, int], list[Exchange]], vbuckets: int = 1
) -> bytes:
    """A client that asks for streams on one connection, round after round.

    ``exchanges``: by round and vbucket, the fields of each request, and what it is told then.
    """
    one = Conversation()
    one.handshake()
    for number in range(n):
        for vbucket in range(7, 7 + vbuckets):
            for fields, told in exchanges(number, vbucket):
                asked: dict[str, Any] = {"end_seqno": ENDLESS, **fields}
                one.stream(True, encode("dcp_stream_req", vbucket=vbucket, opaque=vbucket, **asked))
                one.stream(False, told)
    return builders.pcap(builders.recorded(one.segments))


def refused(vbucket: int, status: int) -> bytes:
    return encode("dcp_stream_req", "response", opaque=vbucket, status=status)


def rolled_back(vbucket: int) -> bytes:
    return encode("dcp_stream_req", "response", opaque=vbucket, status=0x23, rollback_seqno=0)


def granted(vbucket: int, uuid: int = 1) -> bytes:
    return encode(
        "dcp_stream_req", "response", opaque=vbucket, failover_log=[{"uuid": uuid, "seqno": 0}]
    )


def ended(vbucket: int, reason: int) -> bytes:
    return encode("dcp_stream_end", vbucket=vbucket, opaque=vbucket, end_reason=reason)


def from_60(uuid: int) -> dict[str, int]:
    return {
        "start_seqno": 60,
        "vbucket_uuid": uuid,
        "snapshot_start_seqno": 60,
        "snapshot_end_seqno": 60,
    }


def ignored_rollbacks(_: int, vbucket: int) -> list[Exchange]:
    return [(from_60(1), rolled_back(vbucket))]


def failed_over(number: int, vbucket: int) -> list[Exchange]:
    """Each round has one more branch, and goes on with it."""
    log = [{"uuid": own, "seqno": own} for own in range(number + 1, max(0, number - 5), -1)]
    answer = encode("dcp_stream_req", "response", opaque=vbucket, failover_log=log)
    return [({"start_seqno": 0}, answer + marker(0, 1, vbucket, vbucket) + ended(vbucket, 2))]


def while_open(number: int, vbucket: int) -> list[Exchange]:
    return [({}, refused(vbucket, 2) if number else granted(vbucket))]


def up_to_0(_: int, vbucket: int) -> list[Exchange]:
    return [({"end_seqno": 0}, granted(vbucket) + ended(vbucket, 0))]


def unknown_uuids(number: int, vbucket: int) -> list[Exchange]:
    asked = [(from_60(0x999 + 8 * number + place), rolled_back(vbucket)) for place in range(8)]
    return [*asked, ({}, granted(vbucket, 0x100 + number) + ended(vbucket, 2))]


def loops(number: int, vbucket: int) -> list[Exchange]:
    return [(from_60(1), rolled_back(vbucket))] * 2 + [
        ({}, granted(vbucket, 0x100 + number) + ended(vbucket, 2))
    ]


def skipping(number: int, vbucket: int) -> list[Exchange]:
    start = 10 * number
    told = marker(start, start + 1, vbucket, vbucket) + builders.mutation(
        start + 1, vbucket=vbucket, opaque=vbucket
    )
    asked = {
        "start_seqno": start,
        "vbucket_uuid": 1,
        "snapshot_start_seqno": start,
        "snapshot_end_seqno": start,
    }
    return [(asked, granted(vbucket) + told + ended(vbucket, 3))]


def outside(_: int, vbucket: int) -> list[Exchange]:
    return [
        ({}, granted(vbucket) + marker(0, 10, vbucket, vbucket) + ended(vbucket, 2)),
        (
            {**from_60(1), "snapshot_start_seqno": 70, "snapshot_end_seqno": 80},
            refused(vbucket, 0x22),
        ),
    ]


def orphaned(n: int) -> bytes:
    """Streams of many vbuckets end. The client reopens every second one, and goes on with those."""
    one = Conversation(mss=30_000)
    one.handshake()
    one.stream(True, asked([(vbucket, vbucket) for vbucket in range(n)]))
    one.stream(False, b"".join(granted(vbucket) + ended(vbucket, 4) for vbucket in range(n)))
    one.stream(True, asked([(vbucket, vbucket) for vbucket in range(0, n, 2)]))
    one.stream(
        False,
        b"".join(granted(vbucket) + marker(0, 1, vbucket, vbucket) for vbucket in range(0, n, 2)),
    )
    one.time_ns += 30_000_000_000
    one.stream(
        False,
        b"".join(
            builders.mutation(1, vbucket=vbucket, opaque=vbucket) for vbucket in range(0, n, 2)
        ),
    )
    return builders.pcap(builders.recorded(one.segments))


def asked_at_once(n: int) -> bytes:
    """Requests of one vbucket, and then what each of them is told."""
    return said(
        asked([(7, place) for place in range(n)]),
        b"".join(rolled_back(place) for place in range(n)),
    )


def packets_only(n: int, *ways: int) -> bytes:
    """Connections of a packet or two without payload: the flags of what the client sends, and of
    the answer.
    """
    made = [
        Segment(
            not side,
            7 * number,
            7 * number + 1,
            flags,
            b"",
            START_NS + number,
            ("10.0.0.1", 20_000 + number),
        )
        for number in range(n)
        for side, flags in enumerate(ways)
    ]
    return builders.pcap(builders.recorded(made))


def documents(values: list[bytes], datatype: int) -> bytes:
    """Mutations with these values, in one snapshot."""
    extras = [struct.pack(">QQIIIHB", 1 + place, 1, 0, 0, 0, 0, 0) for place in range(len(values))]
    return of_server(
        marker(0, len(values)),
        *(
            builders.message(
                extras=head,
                key=b"key",
                value=value,
                specific=7,
                opaque=0x11,
                cas=1,
                datatype=datatype,
            )
            for head, value in zip(extras, values, strict=True)
        ),
    )


def framed_extras(n: int) -> bytes:
    """One message with very many."""
    return said(
        encode_parts(0x08, 0x57, framing=b"\x20" * n, extras=bytes(31), key=b"k", opaque=1), b""
    )


def collections(n: int) -> bytes:
    created = [
        encode("dcp_system_event", vbucket=7, opaque=0x11, event="begin-collection", version=0, by_seqno=1 + place, manifest_uid=1 + place,
               scope_id=0, collection_id=8 + place, key=f"name {place}")
        for place in range(n)
    ]  # fmt: skip
    return of_server(marker(0, n), *created)


def manifest(n: int) -> bytes:
    scopes = [
        {
            "name": f"s{scope}",
            "uid": f"{8 + scope:x}",
            "collections": [{"name": f"c{scope}", "uid": f"{8 + scope:x}"}],
        }
        for scope in range(n)
    ]
    asked_for = encode("collections_get_manifest", opaque=3)
    return said(
        asked_for,
        encode(
            "collections_get_manifest",
            "response",
            opaque=3,
            value=json.dumps({"uid": "1", "scopes": scopes}),
        ),
    )


def stream_ids(n: int) -> bytes:
    opened = encode("hello", opaque=1, features=[{"feature": 0x12}]) + encode(
        "dcp_control", opaque=2, key="enable_stream_id", value="true"
    )
    client = opened + b"".join(
        encode(
            "dcp_stream_req",
            vbucket=7,
            opaque=0x11 + sid,
            end_seqno=99,
            value=json.dumps({"sid": 1 + sid, "collections": ["8"]}),
        )
        for sid in range(n)
    )
    answers = b"".join(
        encode(
            "dcp_stream_req", "response", opaque=0x11 + sid, failover_log=[{"uuid": 1, "seqno": 0}]
        )
        + encode(
            "dcp_snapshot_marker",
            vbucket=7,
            opaque=0x11 + sid,
            start_seqno=0,
            end_seqno=9,
            frames=[(2, struct.pack(">H", 1 + sid))],
        )
        for sid in range(n)
    )
    return said(client, answers)


KINDS: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "messages": (24, lambda n: of_server(marker(0, n), *builders.mutations(n))),
    "segments that overlap": (32, overlapping),
    "segments behind a gap": (64, behind_a_gap),
    "segments in any order": (48, shuffled),
    "IP fragments": (12, fragments),
    "fragments of one datagram": (12, one_datagram),
    "pcapng interfaces": (32, lambda n: in_pcapng(interfaces=n)),
    "pcapng interfaces with packets": (16, lambda n: in_pcapng(interfaces=n, packets=n)),
    "pcapng options": (64, lambda n: in_pcapng(options=n)),
    "pcapng sections": (16, lambda n: in_pcapng(sections=n)),
    "pcapng blocks of unknown kinds": (64, lambda n: in_pcapng(others=builders.block(0xBAD, b"1234") * n)),
    "pcapng blocks of names": (64, lambda n: in_pcapng(others=builders.block(4, name_records(1)) * n)),
    "pcapng names of a block": (64, lambda n: in_pcapng(others=builders.block(4, name_records(n)))),
    "pcapng blocks of secrets": (48, lambda n: in_pcapng(others=b"".join(secrets(key_lines(place, 1)) for place in range(n)))),
    "pcapng secrets of a block": (48, lambda n: in_pcapng(others=secrets(key_lines(0, n)))),
    "pcapng blocks of statistics": (64, lambda n: in_pcapng(others=builders.block(5, bytes(12)) * n)),
    "connections of a SYN": (24, lambda n: packets_only(n, builders.SYN)),
    "connections that are refused": (16, lambda n: packets_only(n, builders.SYN, builders.RST | builders.ACK)),
    "connections of a reset": (24, lambda n: packets_only(n, builders.RST)),
    "connections of another protocol": (10, tiny_connections),
    "connections of a message": (10, lambda n: tiny_connections(n, encode("noop", opaque=5))),
    "connections of half a message": (16, lambda n: tiny_connections(n, encode("noop", opaque=5)[:15], close=False)),
    "connections that go on": (10, lambda n: tiny_connections(n, b"\1\2\3\4\5", more=encode("noop", opaque=5))),
    "connections that begin in the middle": (16, lambda n: tiny_connections(n, b"\1\2\3\4\5", handshake=False, close=False)),
    "connections with a stream each": (16, lambda n: reconnecting(n, failover_log=[{"uuid": 1, "seqno": 0}])),
    "connections that get no further": (16, lambda n: reconnecting(n, marker(0, 1) + MUTATION, failover_log=[{"uuid": 1, "seqno": 0}])),
    "connections of clients of a host": (16, clients),
    "gaps that others dispute": (16, disputed),
    "connections with a refusal each": (16, lambda n: reconnecting(n, status=7)),
    "connections with a rollback each": (16, lambda n: reconnecting(n, status=0x23, rollback_seqno=0)),
    "rollbacks that are ignored": (24, lambda n: asking_again(n, ignored_rollbacks)),
    "rollbacks of requests at once": (24, asked_at_once),
    "requests of open streams": (24, lambda n: asking_again(n, while_open)),
    "requests up to 0": (24, lambda n: asking_again(n, up_to_0)),
    "requests that skip seqnos": (16, lambda n: asking_again(n, skipping)),
    "requests outside their snapshots": (16, lambda n: asking_again(n, outside)),
    "requests with unknown uuids": (24, lambda n: asking_again(n, unknown_uuids)),
    "rollback loops": (80, lambda n: asking_again(n, loops)),
    "failovers that are followed": (16, lambda n: asking_again(n, failed_over)),
    "streams that are not reopened": (24, orphaned),
    "framing extras": (60, framed_extras),
    "xattrs": (24, lambda n: documents([encode_xattrs((b"x%d" % place, b"{}") for place in range(n)) + b"{}"], 5)),
    "snappy claims": (12, lambda n: documents([b"\x80\x80\x80\x0a" + bytes(4)] * n, 3)),
    "JSON depth": (24, lambda n: documents([b"[" * n + b"]" * n], 1)),
    "JSON members": (24, lambda n: documents([json.dumps(dict.fromkeys(map(str, range(n)), 1)).encode()], 1)),
    "JSON that is broken": (24, lambda n: documents([b'{"a":' * n], 1)),
    "opaques": (24, lambda n: said(b"".join(encode("noop", opaque=place) for place in range(n)), b"")),
    "opaques with answers": (
        24,
        lambda n: said(
            b"".join(encode("get", opaque=place, key=b"k") for place in range(n)),
            b"".join(encode("get", "response", opaque=place, status=1) for place in reversed(range(n))),
        ),
    ),
    "stream-ids": (12, stream_ids),
    "vbuckets": (12, lambda n: streams([(place, 0x100 + place) for place in range(n)])),
    "streams of one vbucket": (12, lambda n: streams([(7, 0x100 + place) for place in range(n)])),
    "entries of a failover log": (24, lambda n: streams([(7, 0x11)], log=n)),
    "failover logs": (12, lambda n: streams([(place, 0x100 + place) for place in range(n)], log=8)),
    "snapshots": (16, lambda n: of_server(*(marker(place, place + 1) + builders.mutation(place + 1) for place in range(n)))),
    "seqnos that fall": (16, lambda n: of_server(marker(0, n), *(builders.mutation(n - place) for place in range(n)))),
    "collections": (16, collections),
    "entries of a manifest": (24, manifest),
    "bytes that are no message": (64, lambda n: of_server(MUTATION, b"\x99" * 40 * n, MUTATION)),
    "places that lose their headers": (8, lambda n: of_server(*([MUTATION * 5, b"\x99" * 30] * n))),
}  # fmt: skip
"""How many at first, and a capture of so many."""


BOUNDED = {
    "segments in any order": (
        "one goes past others that wait, of which there are MAX_WAITING / NODE_COST at most"
    ),
    "streams of one vbucket": "each is compared with some that are near it",
}
"""Work for each that grows up to a limit, which these captures do not reach."""


def growth(make: Callable[[int], bytes], n: int, path: Path) -> Iterator[int]:
    """Steps of n, 2 n and 4 n."""
    for count in (n, 2 * n, 4 * n):
        path.write_bytes(make(count))
        yield steps(path)


@pytest.mark.parametrize("kind", KINDS)
def test_twice_as_many_take_twice_the_work(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, make = KINDS[kind]
    if kind.startswith("connections"):
        monkeypatch.setattr(first_bytes, "MANY", 1)  # as when there are very many
    path = tmp_path / "x.pcap"
    path.write_bytes(make(n))
    steps(path)  # what is made once
    one, two, four = growth(make, n, path)
    assert four - two <= (2.1 if kind in BOUNDED else 2.03) * (two - one) + 50, (
        f"{one:,}, {two:,}, {four:,} steps"
    )


CHECKED: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "holes in values": (80, lambda n: holed(n, is_lost=False)),
    "holes that lose headers": (500, lambda n: holed(n, is_lost=True)),
}
"""Lines for one more of a kind at most, as ``check`` finds nothing wrong with it, and a capture of
so many.
"""


@pytest.mark.parametrize("kind", CHECKED)
def test_one_more_takes_few_lines_to_check(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, make = CHECKED[kind]
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", False)
    path = tmp_path / "x.pcap"

    def work() -> None:
        with Reading([str(path)]) as reading:
            reading.check()
            for _ in reading:
                pass
            reading.findings()

    took = []
    for count in (8, 8, 24, 40):
        path.write_bytes(make(count))
        took.append(lines_of(work))
    assert took[3] - took[2] <= 16 * most, took
