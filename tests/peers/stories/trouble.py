"""Two clients in trouble, as public reports tell of them: one that never finishes its first
snapshot, one that forgets vbuckets.

``loop``: a connector reads a large first snapshot of vbuckets 30 and 31. Its connection dies inside
the snapshot, four times. Each time it asks to go on where it was, and is sent back to 0, because
tombstones that it would need are purged; it sends no control that would tell it of the purge seqno.
At the third time it names, for vbucket 31, a branch that its failover log does not have.

``orphans``: a consumer reads eight vbuckets. All of them end because the vbuckets moved; it reopens
six, and two never. Another one was rolled back at the start, and is never asked for again. The rest
goes on for three seconds as if nothing was the matter.
"""

from __future__ import annotations

from tests.peers.script import Conversation, Story, Stream
from tests.peers.stories.world import BUCKET, FRUIT, login, order

QUIET = "quiet"
"""Here nothing is said for a while."""

UUID = 0x7E57_0000_0000_0030
_ROUNDS = 5
_SNAPSHOT = 90


def loop() -> Story:
    """One connection a round."""
    return [_round(number) for number in range(_ROUNDS)]


def orphans() -> Story:
    """One connection."""
    return [_forgetful()]


def _opened(name: str, *, after: str = "") -> Conversation:
    talk = Conversation(name, after=after, writes=(1, 3, 2), ack_after=20_000)
    talk.hello(
        f"{name.partition(' ')[0]}/4.2",
        "XATTR",
        "XERROR",
        "SELECT_BUCKET",
        "SNAPPY",
        "JSON",
        "Collections",
    )
    talk.sasl_plain("connector", login("connector"))
    talk.select_bucket(BUCKET)
    talk.open(f"{name.partition(' ')[0]}:1", "producer", "include-xattrs", "include-delete-times")
    talk.control("enable_noop", "true")
    talk.control("set_noop_interval", "120")
    talk.control("connection_buffer_size", "40960")
    return talk


def _round(number: int) -> Conversation:
    talk = _opened(f"connector {number}", after=f"connector {number - 1} ended" if number else "")
    streams = []
    for vbucket in (30, 31):
        log = [(UUID + vbucket, 0)]
        if number:
            uuid = 0xBAD if number == 3 and vbucket == 31 else UUID + vbucket
            talk.stream(
                vbucket, start=_reached(number - 1), snapshot=(0, _SNAPSHOT), uuid=uuid, rollback=0
            )
        streams.append(talk.stream(vbucket, log=log))
    for stream in streams:
        stream.snapshot(0, _SNAPSHOT, "disk", "checkpoint")
    for seqno in range(3, _reached(number) + 1, 3):
        for stream in streams:
            _item(stream, seqno)
    talk.close("server", abort=True)
    return talk


def _reached(number: int) -> int:
    """Seqno at which the connection of a round dies."""
    return 60 + 3 * number


def _item(stream: Stream, seqno: int) -> None:
    stream.mutation(
        seqno,
        f"order::{stream.vbucket}-{seqno}",
        order(seqno),
        collection=FRUIT,
        snappy=seqno % 4 == 0,
    )


def _forgetful() -> Conversation:
    talk = _opened("consumer")
    vbuckets = range(40, 48)
    streams = [talk.stream(vbucket, log=[(UUID + vbucket, 0)]) for vbucket in vbuckets]
    talk.stream(48, start=77, uuid=UUID + 48, rollback=50)
    talk.failover_log(48, [(UUID + 480, 50), (UUID + 48, 0)])
    for stream in streams:
        stream.snapshot(0, 9, "memory", "checkpoint")
        for seqno in (4, 7, 9):
            _item(stream, seqno)
    for stream in streams:
        stream.end("state-changed")
    again = [
        talk.stream(vbucket, start=9, uuid=UUID + vbucket, log=[(UUID + vbucket, 0)])
        for vbucket in vbuckets
        if vbucket not in (42, 45)
    ]
    talk.mark(QUIET)
    for stream in again:
        stream.snapshot(9, 12, "memory", "checkpoint")
        for seqno in (10, 12):
            _item(stream, seqno)
    talk.noop()
    talk.acknowledge()
    talk.close()
    return talk
