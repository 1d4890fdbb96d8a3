"""The kernel of noops, on numbers: its two forms do the same, and it stops in time."""

from __future__ import annotations

import random

from dcpinspect.streams import noop_peers as n
from tests.catalogue import each


def nonsense(seed: int, room: int) -> n.NoopTables:
    """Messages of every kind on two connections, nearly in order."""
    rng, tables = random.Random(seed), n.NoopTables()
    tables.messages = n.NoopMessages.zeros(400)
    time_ns = 10**12
    for row, message in enumerate(tables.messages):
        time_ns += rng.choice((0, 1, 10**8, 10**9))
        message.code = rng.choice(
            (n.NOOP, n.ANSWER, n.OTHER, *((n.LOST,) if rng.random() < 0.2 else ()))
        )
        message.connection, message.is_producers = (
            rng.randrange(2),
            {n.NOOP: 1, n.ANSWER: 0}.get(message.code, rng.randrange(2)),
        )
        message.is_long, message.rtt = int(rng.random() < 0.1), rng.choice((0, 10**8))
        message.arrival.opaque = rng.randrange(3)
        message.arrival.place.row, message.arrival.place.time = (
            row + 1,
            time_ns - rng.choice((0, 0, 0, 10**9)),
        )
    tables.peers = n.Peers.reset(2)
    tables.peers.producer[:], tables.peers.limit[:], tables.peers.silence[:] = 1, 10**8, 10**9
    tables.events, tables.counts = n.NoopEvents.zeros(room), n.NoopCounts.single()
    return tables


def told(tables: n.NoopTables, form: str) -> list[list[int]]:
    """All events, however often there was no room for more."""
    start, found = 0, []
    run = n.follow_noops.compiled if form == "compiled" else n.follow_noops.interpreted
    while start < len(tables.messages):
        start = run(start, tables)
        found += tables.events[: tables.counts.events].as_integers().tolist()
    return found


@each("seed", range(20))
def test_both_forms_tell_the_same_of_nonsense_in_much_room_and_in_little(seed: int) -> None:
    tables = [nonsense(seed, room) for room in (999, n.ROOM, 999, n.ROOM)]
    found = [
        told(one, form)
        for one, form in zip(
            tables, ("interpreted", "interpreted", "compiled", "compiled"), strict=True
        )
    ]
    assert found[0] == found[1] == found[2] == found[3]
    peers = [one.peers.as_integers().tolist() for one in tables]
    assert peers[0] == peers[1] == peers[2] == peers[3]


def test_nonsense_has_every_event() -> None:
    codes = set()
    for seed in range(20):
        tables = nonsense(seed, 999)
        n.follow_noops.interpreted(0, tables)
        codes |= {event.code for event in tables.events[: tables.counts.events]}
    assert codes == {n.UNANSWERED, n.OVERLAP, n.OPAQUE, n.SILENT}
