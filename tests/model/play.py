"""A whole conversation: a bucket on two nodes, some clients, and what happens to all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.model.client import Client, drawn_client
from tests.model.dice import Dice
from tests.model.history import Vbucket, uuid_of
from tests.model.session import Gone, Session
from tests.model.tape import Tape

NODES = 2


class World:
    """The bucket, the connections, the clock."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.tape = Tape(shape=dice.below(1 << 16))
        self.sessions: list[Session] = []
        self.keeps_history = dice.chance(20)
        # With history nothing may be missing: what no consumer of these can see would look like it.
        self.is_durable = not self.keeps_history and dice.chance(50)
        self.has_collections = dice.chance(60)
        numbers = [7, 8, 300, 1023][: 1 + dice.below(4)]
        self.vbuckets = {
            number: Vbucket(number, [(uuid_of(number, 1), 0)], node=dice.below(NODES))
            for number in numbers
        }
        for vbucket in self.vbuckets.values():
            self._write(vbucket, 1 + dice.below(30))
            if dice.chance(20):
                vbucket.fail_over(dice, vbucket.node)
            if dice.chance(20):
                vbucket.compact(dice)

    def tick(self) -> int:
        """The time of the next message, a little later than the last one's."""
        count = len(self.tape.entries)
        self.tape.now_ns += 20_000 + count * 7_919 % 900 * 1_000
        return self.tape.now_ns

    def wait(self, milliseconds: int) -> None:
        """Nothing happens for so long but noops; not long while one waits for its answer, or a
        window is full.
        """
        for session in self.sessions:
            session.make_room()
        if any(session.open_noop is not None and not session.is_gone for session in self.sessions):
            milliseconds = min(milliseconds, 200)
        while milliseconds > 0:
            self.tape.now_ns += min(milliseconds, 900) * 1_000_000
            milliseconds -= 900
            self.keep_alive()

    def keep_alive(self) -> None:
        """Producers send the noops that are due."""
        for session in self.sessions:
            session.keep_alive()

    def write(self) -> None:
        """Some vbucket changes."""
        self._write(self.dice.pick(list(self.vbuckets.values())), 1 + self.dice.below(12))

    def _write(self, vbucket: Vbucket, count: int) -> None:
        vbucket.write(
            self.dice, count, durable=self.is_durable, system=self.has_collections, deletes=True
        )

    def happen(self) -> None:
        """A vbucket becomes active elsewhere, or its deletions are purged."""
        vbucket = self.dice.pick(list(self.vbuckets.values()))
        if self.dice.chance(40):
            if not self.keeps_history:
                vbucket.compact(self.dice)
            return
        before = vbucket.node
        vbucket.fail_over(self.dice, 1 - before if self.dice.chance(80) else before)
        dies = self.dice.chance(25)
        for session in self.sessions:
            if dies and session.node == before:
                session.close("server", reset=self.dice.chance(70))
            for place, stream in session.streams.items():
                if place[0] == vbucket.number:
                    stream.must_end = "state-changed"
                    stream.queue.clear()


def play(dice: Dice, *, tells_opaques_apart: bool = False) -> Tape:
    """A conversation of some hundred messages at most.

    ``tells_opaques_apart``: no client uses one opaque for several requests under way, or for one
    more of a stream that runs; where messages are missing, nobody can know which of them an answer,
    or an event, is for.
    """
    world = World(dice)
    clients = [
        drawn_client(dice, number, history=world.keeps_history)
        for number in range(1 + dice.below(3))
    ]
    for client in clients:
        client.tells_opaques_apart = tells_opaques_apart
        if tells_opaques_apart and client.opaques == "zero":
            client.opaques = "by vbucket"
    lives = [
        _life(world, client, node, number)
        for number, client in enumerate(clients)
        for node in _nodes(dice, client)
    ]
    if dice.chance(30):
        lives.append(_look_on(world))
    while lives:
        life = dice.pick(lives)
        world.keep_alive()
        try:
            next(life)
        except StopIteration:
            lives.remove(life)
    return world.tape


def _nodes(dice: Dice, client: Client) -> list[int]:
    return [0, 1] if dice.chance(40) and not client.is_replication else [dice.below(NODES)]


def _life(world: World, client: Client, node: int, number: int) -> Iterator[None]:
    """A client's connections to one node, one after the other."""
    port = 50_000 + 100 * number + 10 * node
    before: Session | None = None
    for round_ in range(1 + world.dice.below(3)):
        if before is not None and world.dice.chance(20):
            before.close("")  # does nothing when it was closed
        else:
            port += round_ > 0
            if before is not None and not before.is_gone:
                before.close("client")
        session = before = Session(world, client, node, port)
        world.sessions.append(session)
        with contextlib.suppress(Gone):
            yield from session.run()
        yield


def _look_on(world: World) -> Iterator[None]:
    """A connection that is no DCP connection."""
    client = Client(
        "10.0.1.9", "", "libcouchbase/3.3.9", drawn_client(Dice(), 9, history=False).terms
    )
    session = Session(world, client, 0, 60_000)
    with contextlib.suppress(Gone):
        yield from session.ask(
            True,
            "hello",
            {"features": [{"feature": 0x07}]},
            key=client.agent,
            features=[{"feature": 0x07}],
        )
        for _ in range(world.dice.below(4)):
            opaque = session.opaque()
            session.tell(True, "get_all_vb_seqnos", opaque=opaque, state="active")
            yield
            session.tell_seqnos(opaque, "active")
            yield
        if world.dice.chance(50):
            session.close("client")
