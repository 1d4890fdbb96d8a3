"""Snapshots as a producer makes them: de-duplicated in memory, from disk, from disk with history,
resumed, completed by nothing.

Two connections. The connector is slow and reads six vbuckets at once, so that their messages are
mixed; the legacy mirror reads one vbucket without collections and has only v1 markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest

from tests.peers.script import Conversation, Story, Stream
from tests.peers.stories.world import BUCKET, FRUIT, VEGETABLE, login, order

UUID = 0x5A45_0000_0000_0001
FLUSHED_UUID = 0x5A45_0000_0000_0002
"""The bucket was flushed before the mirror came: what it reads is another history."""

_Steps = Iterator[None]
"""A stream's part of the story, step by step."""


def snapshots() -> Story:
    """Both connections."""
    mirror = legacy_mirror()
    mirror.after = "connector ended"
    return [connector(), mirror]


def connector() -> Conversation:
    """Six vbuckets, each with its own kinds of snapshots, mixed with each other."""
    talk = Conversation("connector", writes=(1, 4, 2), ack_after=3500)
    talk.hello(
        "connector/8.0",
        "TcpNoDelay",
        "XATTR",
        "XERROR",
        "SELECT_BUCKET",
        "SNAPPY",
        "JSON",
        "Collections",
    )
    talk.sasl_plain("connector", login("connector"))
    talk.select_bucket(BUCKET)
    talk.open("connector:orders", "producer", "include-xattrs", "include-delete-times")
    for key in (
        "enable_noop",
        "enable_expiry_opcode",
        "change_streams",
        "send_stream_end_on_client_close_stream",
    ):
        talk.control(key, "true")
    talk.control("max_marker_version", "2.2")
    talk.control("connection_buffer_size", "7000")
    parts = (
        _deduplicated(talk.stream(12, log=[(UUID, 0)])),
        _memory_disk_memory(talk.stream(13, log=[(UUID, 0)], end=3003)),
        _history(talk.stream(14, log=[(UUID, 0)], value={"collections": ["9"]})),
        _resumed(talk.stream(15, log=[(UUID, 0)], start=70, uuid=UUID, snapshot=(60, 90))),
        _invisible_end(talk.stream(16, log=[(UUID, 0)], value={"collections": ["8"]})),
        _nothing_yet(talk.stream(17, log=[(UUID, 400), (UUID - 1, 0)], start=450, uuid=UUID)),
    )
    for number, _ in enumerate(chain.from_iterable(zip_longest(*parts))):
        if number in (90, 150):
            talk.noop()
    talk.acknowledge()
    return talk


def _deduplicated(stream: Stream) -> _Steps:
    """Documents written many times over: only their last version is left in each snapshot."""
    stream.snapshot(0, 20, "memory", "checkpoint")
    for seqno, name, rev in (
        (3, "a", 2),
        (4, "b", 1),
        (9, "c", 5),
        (10, "d", 1),
        (17, "e", 7),
        (20, "f", 1),
    ):
        stream.mutation(seqno, f"counter::{name}", order(seqno), rev=rev)
        yield
    # No checkpoint flag: the marker begins with the event that follows.
    stream.snapshot(21, 24, "memory")
    for seqno, name, rev in ((21, "a", 3), (22, "c", 6), (24, "g", 2)):
        stream.mutation(seqno, f"counter::{name}", order(seqno), rev=rev)
        yield
    # A checkpoint begins with its own first seqno, even where that was overwritten.
    stream.snapshot(25, 60, "memory", "checkpoint")
    for seqno, name, rev in ((29, "a", 9), (33, "b", 4), (47, "c", 18), (58, "d", 3)):
        stream.mutation(seqno, f"counter::{name}", order(seqno), rev=rev, snappy=name == "c")
        yield
    stream.deletion(60, "counter::e", rev=9)
    yield
    stream.end("state-changed")
    yield


def _memory_disk_memory(stream: Stream) -> _Steps:
    """A backfill, then memory, then the client is too slow and the rest comes from disk again, then
    memory.
    """
    stream.snapshot(
        0, 1000, "disk", "checkpoint", version="v2.2", max_visible_seqno=1000, purge_seqno=350
    )
    for seqno in range(55, 1001, 63):
        stream.mutation(seqno, f"order::{seqno:05d}", order(seqno), collection=FRUIT)
        yield
    stream.snapshot(1001, 1012, "memory", "checkpoint")
    for seqno in (1001, 1002, 1005, 1006, 1011, 1012):
        stream.mutation(seqno, f"order::{seqno:05d}", order(seqno), collection=FRUIT)
        yield
    disk = {
        "max_visible_seqno": 2998,
        "high_completed_seqno": 2500,
        "purge_seqno": 350,
        "high_prepared_seqno": 2999,
    }
    stream.snapshot(1013, 3000, "disk", "checkpoint", version="v2.2", **disk)
    for seqno in range(1100, 2999, 146):
        stream.mutation(seqno, f"order::{seqno:05d}", order(seqno, 1), collection=FRUIT)
        yield
    stream.seqno_advanced(3000)
    yield
    stream.snapshot(3001, 3003, "memory", "checkpoint")
    for seqno in (3001, 3002, 3003):
        stream.mutation(seqno, f"order::{seqno:05d}", order(seqno), collection=FRUIT, rev=2)
        yield
    stream.end("ok")
    yield


def _history(stream: Stream) -> _Steps:
    """A backfill in two parts of the same range: what was before the history, then every version
    since.
    """
    stream.snapshot(
        0, 50, "disk", "checkpoint", version="v2.2", max_visible_seqno=50, purge_seqno=4
    )
    for seqno in (5, 9, 14):
        stream.mutation(seqno, f"leek::{seqno}", order(seqno, 1), collection=VEGETABLE)
        yield
    stream.snapshot(
        0,
        50,
        "disk",
        "checkpoint",
        "history",
        "may-duplicate-keys",
        version="v2.2",
        max_visible_seqno=50,
        purge_seqno=4,
    )
    for seqno in (20, 21, 22, 40, 41, 50):
        stream.mutation(
            seqno, f"leek::{seqno % 2}", order(seqno, 1), collection=VEGETABLE, rev=seqno
        )
        yield
    stream.snapshot(51, 54, "memory", "checkpoint", "history")
    for seqno in (51, 52, 53, 54):
        stream.mutation(seqno, f"leek::{seqno}", order(seqno, 1), collection=VEGETABLE)
        yield


def _resumed(stream: Stream) -> _Steps:
    """The client was in the middle of a snapshot: the first marker begins where that snapshot
    began.
    """
    stream.snapshot(60, 90, "memory")
    for seqno in (71, 75, 88, 90):
        stream.mutation(seqno, f"pear::{seqno}", order(seqno))
        yield
    stream.snapshot(91, 99, "memory", "checkpoint")
    for seqno in (91, 95):
        stream.mutation(seqno, f"pear::{seqno}", order(seqno))
        yield
    # A stream may end in the middle of a snapshot when it does not end well.
    stream.end("state-changed")
    yield


def _invisible_end(stream: Stream) -> _Steps:
    """A filtered stream: the last event of each snapshot belongs to others, once all of them do."""
    stream.snapshot(0, 30, "memory", "checkpoint")
    for seqno in (2, 11, 12):
        stream.mutation(seqno, f"apple::{seqno}", order(seqno), collection=FRUIT)
        yield
    stream.seqno_advanced(30)
    yield
    stream.snapshot(31, 33, "memory", "checkpoint")
    stream.seqno_advanced(33)
    yield
    stream.snapshot(34, 36, "memory")
    stream.deletion(34, "apple::2", collection=FRUIT)
    yield
    stream.expiration(36, "apple::11", collection=FRUIT)
    yield


def _nothing_yet(stream: Stream) -> _Steps:
    """An up-to-date vbucket: for a long time nothing, then a snapshot of one."""
    for _ in range(9):
        yield
    stream.snapshot(450, 451, "memory", "checkpoint")
    stream.mutation(451, "fig::1", order(451, 5))
    yield


def legacy_mirror() -> Conversation:
    """No collections: v1 markers for disk and memory, an end lowered to what the client can see."""
    talk = Conversation("mirror", writes=(3, 1))
    talk.hello("mirror/5.5", "SELECT_BUCKET", "JSON")
    talk.sasl_plain("mirror", login("mirror"))
    talk.select_bucket(BUCKET)
    talk.open("mirror", "producer")
    stream = talk.stream(13, log=[(FLUSHED_UUID, 0)], end=1100)
    stream.snapshot(0, 1000, "disk", "checkpoint")
    for seqno in range(100, 1001, 100):
        stream.mutation(seqno, f"counter::{seqno}", order(seqno, 1), rev=seqno)
    stream.snapshot(1001, 1109, "memory", "checkpoint")
    for seqno in (1040, 1090, 1109):
        # The snapshot that holds the requested end is sent whole.
        stream.mutation(seqno, f"counter::{seqno}", order(seqno, 1))
    stream.end("ok")
    return talk
