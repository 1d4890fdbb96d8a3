"""Every way of speaking TLS that the tests read: ``make("1.3 key updates of both", folder)``
records it.

Stories are short, for each takes half a second; only records of maximum size and key updates need
some volume.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.peers.script import Conversation, Story
from tests.peers.stories.busy import busy
from tests.tls.endpoint import MOST, Habits
from tests.tls.peers import AEAD_1_2, CBC_1_2, SUITES_1_3, Recorded, Tls, record


def short() -> Story:
    """One connection, about 60 messages."""
    return busy(8, mtu=1500)


def twice() -> Story:
    """Two connections, one after the other."""
    first, second = short()[0], short()[0]
    second.name, second.after = "second reader", f"{first.name} ended"
    return [first, second]


def bulky() -> Story:
    """Documents of up to 100 KB, and forty small ones in one write."""
    talk = Conversation("reader", writes=(1, 40))
    talk.hello("reader", "Collections")
    talk.open("reader", "producer")
    stream = talk.stream(1)
    stream.snapshot(0, 60, "memory")
    for seqno in range(1, 61):
        stream.mutation(seqno, f"key::{seqno}", b"x" * (100_000 if seqno % 13 == 0 else 10 * seqno))
    stream.end()
    return [talk]


def chatty() -> Story:
    """Questions and answers, so that both sides write often."""
    talk = Conversation("reader")
    talk.hello("reader", "Collections")
    talk.open("reader", "producer")
    stream = talk.stream(1)
    for seqno in range(1, 41):
        stream.snapshot(seqno, seqno, "memory")
        stream.mutation(seqno, f"key::{seqno}", {"seqno": seqno})
        talk.noop()
    return [talk]


@dataclass(frozen=True, slots=True)
class Variant:
    """A story and how it speaks TLS."""

    tls: Tls
    story: Callable[[], Story] = short


_EARLY = Habits(early=b"early bytes, which are no part of any conversation")

VARIANTS = {
    **{f"1.3 {suite}": Variant(Tls(suites=suite)) for suite in SUITES_1_3},
    "1.3 padding": Variant(Tls(padding=512)),
    "1.3 tiny records": Variant(Tls(client=Habits((1, 2, 30)), server=Habits((1, 3, 100, 17)))),
    "1.3 records of maximum size": Variant(Tls(), bulky),
    "1.3 key updates of the client": Variant(Tls(client=Habits(update_every=5)), chatty),
    "1.3 key updates of the server": Variant(Tls(server=Habits(update_every=5)), chatty),
    "1.3 key updates of both": Variant(
        Tls(client=Habits(update_every=7), server=Habits(update_every=4, update_both=True)), chatty
    ),
    "1.3 resumed": Variant(Tls(resume=True), twice),
    "1.3 early data": Variant(Tls(resume=True, client=_EARLY, server=_EARLY), twice),
    "1.3 mutual": Variant(Tls(mutual=True)),
    "1.3 hello retry request": Variant(Tls(groups=("P-256:X25519", "X25519"))),
    **{f"1.2 {suite}": Variant(Tls("1.2", suite)) for suite in AEAD_1_2},
    **{f"1.2 {suite} encrypt-then-MAC": Variant(Tls("1.2", suite)) for suite in CBC_1_2},
    **{
        f"1.2 {suite} MAC-then-encrypt": Variant(Tls("1.2", suite, encrypt_then_mac=False))
        for suite in CBC_1_2
    },
    "1.2 no extended master secret": Variant(Tls("1.2", AEAD_1_2[0], extended_master_secret=False)),
    "1.2 no extended master secret, CBC": Variant(
        Tls("1.2", CBC_1_2[0], extended_master_secret=False, encrypt_then_mac=False)
    ),
    "1.2 tiny records": Variant(
        Tls("1.2", CBC_1_2[2], client=Habits((1, 2, 30)), server=Habits((1, 3, 100, 17)))
    ),
    "1.2 records of maximum size": Variant(Tls("1.2", CBC_1_2[0], server=Habits((MOST, 1))), bulky),
    "1.2 resumed by ticket": Variant(Tls("1.2", AEAD_1_2[0], resume=True), twice),
    "1.2 resumed by session ID": Variant(
        Tls("1.2", AEAD_1_2[0], resume=True, tickets=False), twice
    ),
    "1.2 resumed by ticket, no extended master secret": Variant(
        Tls("1.2", CBC_1_2[0], resume=True, extended_master_secret=False), twice
    ),
    "1.2 mutual": Variant(Tls("1.2", AEAD_1_2[3], mutual=True)),
}
"""By name, which begins with the version."""


def make(name: str, folder: Path) -> Recorded:
    """Record one of them."""
    variant = VARIANTS[name]
    return record(folder, variant.story(), variant.tls)
