"""About 100,000 messages: two nodes with 1024 vbuckets, a client that reads them all, and an
application beside it.
"""

from __future__ import annotations

from typing import Any

from tests.peers.script import Conversation, Story, Stream, document, hlc
from tests.peers.stories.world import BUCKET, FRUIT, VEGETABLE, login

UUID = 0x1A46_E000_0000_0000

VBUCKETS = 1024
_BACKFILL = 64
"""Mutations of each vbucket that come from disk."""
_LATER = 6
"""Snapshots of each vbucket that come from memory after that."""
_AT_ONCE = 8
"""Vbuckets whose backfills are mixed."""


def large() -> Story:
    """All three connections, which speak at the same time."""
    return [_reader("node1", 0), _reader("node2", 1), _application()]


def _reader(node: str, half: int) -> Conversation:
    talk = Conversation(f"reader of {node}", server=node, writes=(24, 9, 60, 3), ack_after=1 << 20)
    talk.hello("connector/8.0", "XATTR", "XERROR", "SELECT_BUCKET", "SNAPPY", "JSON", "Collections")
    talk.sasl_plain("connector", login("connector"))
    talk.select_bucket(BUCKET)
    talk.open(f"connector:{node}", "producer", "include-xattrs", "include-delete-times")
    talk.control("enable_noop", "true")
    talk.control("max_marker_version", "2.2")
    talk.control("connection_buffer_size", str(2 << 20))
    first = half * VBUCKETS // 2
    vbuckets = range(first, first + VBUCKETS // 2)
    streams = [talk.stream_request(vbucket, talk.opaque(), waits=False) for vbucket in vbuckets]
    for stream in streams:
        talk.stream_answer(stream, log=[(UUID + stream.vbucket, 0)])
    for start in range(0, len(streams), _AT_ONCE):
        _backfill(streams[start : start + _AT_ONCE])
    talk.noop()
    for turn in range(_LATER):
        for stream in streams:
            _memory(stream, 200 + 10 * turn)
        talk.noop()
    talk.acknowledge()
    for stream in streams:
        stream.end("state-changed")
    return talk


def _backfill(streams: list[Stream]) -> None:
    for stream in streams:
        stream.snapshot(
            0, 3 * _BACKFILL, "disk", "checkpoint", version="v2.2", max_visible_seqno=3 * _BACKFILL
        )
    for seqno in range(3, 3 * _BACKFILL + 1, 3):
        for stream in streams:
            number = stream.vbucket * 1000 + seqno
            stream.mutation(
                seqno,
                f"order::{number:07d}",
                _document(number),
                collection=FRUIT,
                snappy=seqno % 8 == 0,
            )


def _memory(stream: Stream, start: int) -> None:
    stream.snapshot(start, start + 4, "memory", "checkpoint")
    number = stream.vbucket * 1000 + start
    for seqno in (start, start + 1, start + 3):
        stream.mutation(
            seqno,
            f"basket::{number + seqno:07d}",
            _document(number + seqno),
            collection=VEGETABLE,
            rev=2,
        )
    stream.deletion(start + 4, f"basket::{number - 9:07d}", collection=VEGETABLE)


def _document(number: int) -> dict[str, Any]:
    """Small, and alike: what varies is what makes the sample large."""
    return {
        "type": "order",
        "customer": f"customer::{number // 8 % 9973:05d}",
        "status": ("new", "paid", "shipped")[number % 3],
        "items": [{"sku": "apple-017", "quantity": number % 9 + 1, "price": 3.25}],
        "total": (number % 9 + 1) * 3.25,
        "currency": "EUR",
        "warehouse": "north-2",
    }


def _application() -> Conversation:
    talk = Conversation("application", writes=(1, 1, 4))
    talk.hello("shop/2.1", "XERROR", "SELECT_BUCKET", "JSON", "MUTATION_SEQNO", "Collections")
    talk.sasl_scram("app")
    talk.select_bucket(BUCKET)
    for number in range(1500):
        vbucket, key = number * 37 % (VBUCKETS // 2), f"basket::{number:07d}"
        value, datatype = document(_document(number))
        where: dict[str, Any] = {"vbucket": vbucket, "collection": VEGETABLE, "key": key}
        stored = {
            "generation": "mutation-seqno",
            "vbucket_uuid": UUID + vbucket,
            "seqno": 300 + number,
            "cas": hlc(number),
        }
        talk.ask("set", stored, value=value, datatype=datatype, **where)
        if number % 3 == 0:
            talk.ask(
                "get",
                {"item_flags": 0, "value": value, "datatype": datatype, "cas": hlc(number)},
                **where,
            )
    return talk
