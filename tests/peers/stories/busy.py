"""A client that reads four vbuckets of a busy bucket: nothing special is said, special is what
happens to the packets.
"""

from __future__ import annotations

from tests.peers.script import Conversation, Story
from tests.peers.stories.world import BUCKET, FRUIT, VEGETABLE, login, order

RECORDING_STARTS = "recording starts"
RECORDING_STOPS = "recording stops"

UUID = 0xB005_0000_0000_0001

_VBUCKETS = (100, 101, 102, 103)
_SNAPSHOT = 12
"""Seqnos a snapshot."""


def busy(rounds: int = 24, *, mtu: int = 576) -> Story:
    """One connection; ``rounds`` times a mutation on each vbucket, and what belongs to it."""
    return [_reader(rounds, mtu)]


def midstream(rounds: int = 30) -> Story:
    """The same, with a recording that starts inside one message's value and stops inside another's
    header.
    """
    return [_reader(rounds, 576, starts=9 * 4 + 2, stops=25 * 4 + 1)]


def _reader(rounds: int, mtu: int, starts: int = -1, stops: int = -1) -> Conversation:
    talk = Conversation("reader", mss=mtu - 40, writes=(1, 2, 5), ack_after=20_000)
    talk.hello(
        "reader/7.6",
        "TcpNoDelay",
        "XATTR",
        "XERROR",
        "SELECT_BUCKET",
        "SNAPPY",
        "JSON",
        "Collections",
    )
    talk.sasl_plain("reader", login("reader"))
    talk.select_bucket(BUCKET)
    talk.open("reader:1", "producer", "include-xattrs", "include-delete-times")
    talk.control("enable_noop", "true")
    talk.control("connection_buffer_size", "40960")
    streams = [talk.stream(vbucket, log=[(UUID + vbucket, 0)]) for vbucket in _VBUCKETS]
    number = 0
    for seqno in range(1, rounds + 1):
        for place, stream in enumerate(streams):
            if seqno % _SNAPSHOT == 1:
                stream.snapshot(
                    seqno if seqno > 1 else 0, seqno + _SNAPSHOT - 1, "memory", "checkpoint"
                )
            hold = {starts: (1200, RECORDING_STARTS), stops: (10, RECORDING_STOPS)}.get(number)
            # Most documents are small; some take several segments, and those must not be cut short
            # by compression.
            items = 40 if hold else (1, 3, 2, 18, 1, 5, 4)[number % 7]
            if number % 19 == 11:
                stream.deletion(seqno, f"stale::{place}-{seqno}", collection=FRUIT)
            else:
                collection = FRUIT if place % 2 else VEGETABLE
                body, packed = order(number, items), number % 5 == 3 and not hold
                stream.mutation(
                    seqno,
                    f"order::{place}-{seqno}",
                    body,
                    collection=collection,
                    snappy=packed,
                    hold=hold,
                )
            number += 1
        if seqno % 10 == 0:
            talk.noop()
    talk.acknowledge()
    for stream in streams:
        stream.end("state-changed")
    return talk
