"""A node dies, its replica is promoted, and the client finds out vbucket by vbucket what it has to
give back.

``before`` ends with a reset. ``after`` goes to the promoted node, whose failover logs say since
when its history is its own:

- vbucket 7: the client is ahead. Roll back to 50, ask again from 50 on the new branch, stream on.
- vbucket 8: the replica had everything. No rollback.
- vbucket 9: the replica was built anew, no branch in common. Roll back to 0, everything again.
- vbucket 10: the client is in the middle of a snapshot that the new branch does not have: back to
  its start.
"""

from __future__ import annotations

from tests.peers.script import Conversation, Story
from tests.peers.stories.world import BUCKET, FRUIT, login, order

OLD = {
    7: 0xA7A7_0000_0000_0007,
    8: 0xA7A7_0000_0000_0008,
    9: 0xA7A7_0000_0000_0009,
    10: 0xA7A7_0000_0000_0010,
}
NEW = {
    7: 0xB8B8_0000_0000_0007,
    8: 0xB8B8_0000_0000_0008,
    9: 0xB8B8_0000_0000_0009,
    10: 0xB8B8_0000_0000_0010,
}


def rollback() -> Story:
    """Before and after the failover."""
    return [_before(), _after()]


def _opened(name: str, server: str) -> Conversation:
    talk = Conversation(name, server=server, writes=(1, 3, 2))
    talk.hello("mirror/7.6", "XATTR", "XERROR", "SELECT_BUCKET", "SNAPPY", "JSON", "Collections")
    talk.sasl_plain("mirror", login("mirror"))
    talk.select_bucket(BUCKET)
    talk.open("mirror:1", "producer", "include-xattrs", "include-delete-times")
    talk.control("enable_noop", "true")
    talk.control("connection_buffer_size", "131072")
    return talk


def _before() -> Conversation:
    talk = _opened("before", "node1")
    seven, eight, nine, ten = (
        talk.stream(vbucket, log=[(uuid, 0)]) for vbucket, uuid in OLD.items()
    )
    for stream, end in ((seven, 40), (eight, 30), (nine, 25)):
        stream.snapshot(0, end, "memory", "checkpoint")
    for seqno in range(2, 41, 2):
        seven.mutation(seqno, f"order::7-{seqno}", order(seqno), collection=FRUIT)
        if seqno <= 30:
            eight.mutation(seqno, f"order::8-{seqno}", order(seqno), collection=FRUIT)
        if seqno <= 24:
            nine.mutation(seqno + 1, f"order::9-{seqno}", order(seqno), collection=FRUIT)
    talk.acknowledge()
    seven.snapshot(41, 60, "memory", "checkpoint")
    for seqno in (41, 44, 48, 50, 53, 55, 60):
        seven.mutation(seqno, f"order::7-{seqno}", order(seqno, 4), collection=FRUIT)
    ten.snapshot(0, 20, "memory", "checkpoint")
    for seqno in (3, 7, 12):
        ten.mutation(seqno, f"order::10-{seqno}", order(seqno), collection=FRUIT)
    talk.noop()
    talk.acknowledge()
    talk.close("server", abort=True)
    return talk


def _after() -> Conversation:
    talk = _opened("after", "node2")
    talk.after = "before ended"
    logs = {
        7: [(NEW[7], 50), (OLD[7], 0)],
        8: [(NEW[8], 30), (OLD[8], 0)],
        9: [(NEW[9], 0)],
        10: [(NEW[10], 10), (OLD[10], 0)],
    }
    talk.stream(7, start=60, uuid=OLD[7], snapshot=(41, 60), rollback=50)
    eight = talk.stream(8, start=30, uuid=OLD[8], snapshot=(0, 30), log=logs[8])
    talk.stream(9, start=25, uuid=OLD[9], snapshot=(0, 25), rollback=0)
    talk.stream(10, start=12, uuid=OLD[10], snapshot=(0, 20), rollback=0)
    eight.snapshot(30, 33, "memory", "checkpoint")
    for seqno in (31, 33):
        eight.mutation(seqno, f"order::8-{seqno}", order(seqno + 500), collection=FRUIT)
    # The branch to present at 50 is the newest that began at or below it.
    talk.failover_log(7, logs[7])
    seven = talk.stream(7, start=50, uuid=NEW[7], log=logs[7])
    nine = talk.stream(9, log=logs[9])
    ten = talk.stream(10, log=logs[10])
    seven.snapshot(50, 58, "memory", "checkpoint")
    for seqno in range(51, 59):
        seven.mutation(seqno, f"order::7-{seqno}", order(seqno + 500, 4), collection=FRUIT)
    nine.snapshot(0, 22, "disk", "checkpoint")
    for seqno in range(2, 23, 2):
        nine.mutation(seqno, f"order::9-{seqno}", order(seqno), collection=FRUIT)
    ten.snapshot(0, 10, "disk", "checkpoint")
    for seqno in (3, 7, 10):
        ten.mutation(seqno, f"order::10-{seqno}", order(seqno), collection=FRUIT)
    ten.snapshot(11, 13, "memory", "checkpoint")
    for seqno in (11, 12, 13):
        ten.mutation(seqno, f"order::10-{seqno}", order(seqno + 500), collection=FRUIT)
    talk.noop()
    talk.acknowledge()
    for stream in (seven, eight, nine, ten):
        stream.close()
        stream.end("closed")
    return talk
