"""Conversations that look odd and are sound: no error, no warning, in order or said at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.protocol.statuses import Status
from tests.encode import encode
from tests.findings.checked import findings
from tests.peers.script import hlc
from tests.streams.told import Told, opened

UUID = 0xD0C5_0000_0000_0001
SETTINGS = {"enable_noop": "true", "set_noop_interval": "1", "connection_buffer_size": "100000"}


def client(port: int = 50_000, server: str = "node1", **settings: str) -> Told:
    talk = opened(port=port, **SETTINGS | settings)
    talk.server = server
    return talk


def request(vbucket: int, opaque: int, start: int = 0, uuid: int = 0) -> bytes:
    seqnos: dict[str, Any] = {
        "start_seqno": start,
        "end_seqno": ENDLESS,
        "snapshot_start_seqno": start,
        "snapshot_end_seqno": start,
    }
    return encode(
        "dcp_stream_req", vbucket=vbucket, opaque=opaque, flags=0, vbucket_uuid=uuid, **seqnos
    )


def rebalance() -> list[Told]:
    """Vbuckets move to another node; the client asks the old one several times, and is told where
    they are.
    """
    moved = json.dumps(
        {
            "vBucketServerMap": {
                "serverList": ["10.0.0.2:11210", "10.0.0.3:11210"],
                "vBucketMap": [[1]] * 64,
            }
        }
    )
    old = client()
    streams = [old.stream(vbucket) for vbucket in range(12)]
    for stream in streams:
        stream.snapshot(0, 3, "memory")
        for seqno in (1, 2, 3):
            stream.mutation(seqno, f"k{seqno}")
    for stream in streams:
        stream.end("state-changed")
    for again in range(3):
        for vbucket in range(12):
            old.send("client", request(vbucket, 0x1000 + 100 * again + vbucket, 3, UUID))
            answer: dict[str, Any] = {
                "opaque": 0x1000 + 100 * again + vbucket,
                "status": Status.NOT_MY_VBUCKET,
                "value": moved,
                "datatype": 1,
            }
            old.send("server", encode("dcp_stream_req", "response", **answer))
        old.wait(0.3)
    old.close("client")
    new = client(50_001, "node2")
    for vbucket in range(12):
        stream = new.stream(vbucket, start=3, uuid=UUID, snapshot=(3, 3))
        stream.snapshot(3, 5, "memory")
        stream.mutation(4, "x")
        stream.mutation(5, "y")
    return [old, new]


def reconnects() -> list[Told]:
    """A client connects again and again, on few ports and under one name, and goes on where it
    was.
    """
    talks = []
    for number in range(12):
        talk = client(50_000 + number % 3)
        stream = talk.stream(5, start=number, uuid=UUID if number else 0)
        stream.snapshot(number, number + 1, "memory")
        stream.mutation(number + 1, f"k{number}")
        talk.close("client" if number % 2 else "server", abort=number % 4 == 0)
        talks.append(talk)
    return talks


def all_at_once() -> list[Told]:
    """Everything is asked before anything is answered, all with one opaque; streams are granted in
    another order.
    """
    talk = Told("once:1")
    features = [{"feature": 0x12}, {"feature": 0x0B}]
    settings = [
        encode("dcp_control", opaque=0, key=key, value=value) for key, value in SETTINGS.items()
    ]
    asked = [
        encode("hello", opaque=0, key="once/1", features=features),
        encode("select_bucket", opaque=0, key="b"),
        encode("dcp_open", opaque=0, key="once:1", flags=["producer"]),
        *settings,
    ]
    answers = [encode("hello", "response", opaque=0, features=features)]
    answers += [
        encode(name, "response", opaque=0)
        for name in ("select_bucket", "dcp_open", *["dcp_control"] * len(settings))
    ]
    talk.send(
        "client", b"".join([*asked, *(request(vbucket, 0x100 + vbucket) for vbucket in range(8))])
    )
    talk.send("server", b"".join(answers))
    for vbucket in (7, 0, 3, 1, 2, 6, 5, 4):
        of: dict[str, Any] = {"vbucket": vbucket, "opaque": 0x100 + vbucket}
        talk.send(
            "server",
            encode(
                "dcp_stream_req",
                "response",
                opaque=of["opaque"],
                failover_log=[{"uuid": UUID, "seqno": 0}],
            ),
        )
        talk.send(
            "server",
            encode(
                "dcp_snapshot_marker", start_seqno=0, end_seqno=2, snapshot_type=["memory"], **of
            ),
        )
        event: dict[str, Any] = {
            "by_seqno": 2,
            "rev_seqno": 1,
            "cas": hlc(3),
            "key": "k",
            "collection": 0,
            "value": "{}",
            "datatype": 1,
        }
        talk.send("server", encode("dcp_mutation", **event, **of))
    return [talk]


def closed_and_opened_again() -> list[Told]:
    """What was under way when the client closed a stream comes before what the new one brings once
    more.
    """
    talk = client()
    stream = talk.stream(7, opaque=0x70)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "a")
    talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=0x71))
    stream.mutation(2, "b")
    talk.send("server", encode("dcp_close_stream", "response", opaque=0x71))
    stream.mutation(3, "c")
    again = talk.stream(7, start=2, uuid=UUID, snapshot=(0, 9), opaque=0x72)
    again.snapshot(0, 9, "memory")
    again.mutation(3, "c")
    again.mutation(9, "z")
    return [talk]


def unordered_documents() -> list[Told]:
    """Documents are read and written on a connection on which answers may overtake each other."""
    talk = Told("kv")
    talk.hello("libcouchbase/3", "JSON", "Collections", "UnorderedExecution")
    for number in range(20):
        talk.send("client", encode("get", opaque=number, key=b"\0k%d" % number, vbucket=number))
    for number in reversed(range(20)):
        found: dict[str, Any] = (
            {"value": "{}", "datatype": 1, "item_flags": 0}
            if number % 5
            else {"status": Status.KEY_ENOENT}
        )
        talk.send("server", encode("get", "response", opaque=number, **found))
    talk.stat("vbucket-seqno", {"a": "1", "b": "2"})
    talk.close("client")
    return [talk]


def window() -> list[Told]:
    """A window that is full for some time, again and again, another one, an acknowledgement of
    nothing, a document larger than it.
    """
    talk = client(connection_buffer_size="2000")
    stream = talk.stream(7)
    stream.snapshot(0, 400, "memory")
    seqno = 0
    for _ in range(8):
        while talk.counted < 2000:
            seqno += 1
            stream.mutation(seqno, f"k{seqno}")
        talk.wait(0.9)
        talk.acknowledge()
    talk.control("connection_buffer_size", "5000")
    talk.send("client", encode("dcp_buffer_acknowledgement", ack_bytes=0))
    stream.mutation(seqno + 1, "large", {"pad": "x" * 40_000})
    talk.wait(0.5)
    talk.acknowledge()
    return [talk]


def warming_up() -> list[Told]:
    """A node that is not ready yet."""
    talk = client()
    for vbucket in range(6):
        talk.stream(vbucket, status=Status.ETMPFAIL)
    talk.wait(1)
    for vbucket in range(6):
        talk.stream(vbucket)
    return [talk]


@pytest.mark.parametrize("sizes", [(), [7] * 400], ids=["together", "in pieces"])
@pytest.mark.parametrize(
    "tell",
    [
        rebalance,
        reconnects,
        all_at_once,
        closed_and_opened_again,
        unordered_documents,
        window,
        warming_up,
    ],
    ids=lambda tell: tell.__name__,
)
def test_what_looks_odd_and_is_sound_accuses_nobody(
    tell: Callable[[], list[Told]], sizes: Sequence[int]
) -> None:
    assert [
        f"{one.rule}: {one.message}"
        for one in findings(*tell(), sizes=sizes)
        if one.severity != "note"
    ] == []
