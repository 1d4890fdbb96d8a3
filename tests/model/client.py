"""A client's side: how it likes to talk, what it has received of each vbucket, where it may go on
from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dcpinspect.protocol.flags import ENDLESS, STREAM_FLAGS
from tests.model.dice import Dice
from tests.model.producer import Request, Terms

Place = tuple[int, int]
"""Vbucket and stream-id, 0 without."""


@dataclass(slots=True)
class Position:
    """What a client knows of one vbucket's stream."""

    seqno: int = 0
    snapshot: tuple[int, int] = (0, 0)
    log: list[tuple[int, int]] = field(default_factory=list)
    marker: tuple[int, int] | None = None
    out_of_order: list[int] | None = None

    def receive(self, name: str, parts: dict[str, Any]) -> None:
        """Take a stream message in: what may be presented later follows from it."""
        if name == "dcp_snapshot_marker":
            self.marker = (
                (parts["start_seqno"], parts["end_seqno"]) if "start_seqno" in parts else None
            )
        elif name == "dcp_oso_snapshot":
            if parts["flags"] == ["start"]:
                self.out_of_order = []
            else:
                self.seqno = max([self.seqno, *(self.out_of_order or [])])
                self.snapshot, self.marker, self.out_of_order = (self.seqno, self.seqno), None, None
        elif (seqno := seqno_of(parts)) is not None:
            if self.out_of_order is not None:
                self.out_of_order.append(seqno)
                return
            self.seqno = seqno
            # A marker without an item of it is no position: only now does its range count.
            low, high = self.marker or (seqno, seqno)
            self.snapshot = min(low, seqno), max(high, seqno)

    def lose_from(self, seqno: int) -> None:
        """Roll back: everything above goes."""
        self.seqno = min(self.seqno, seqno)
        self.snapshot = self.seqno, self.seqno
        self.begin()

    def learn(self, log: list[tuple[int, int]]) -> None:
        """Takes a failover log that has a branch of its own, unless the items are of a branch that
        ended before them: under the next one's uuid it would never be told to go back.
        """
        known = {uuid for uuid, _ in self.log}
        if known & {uuid for uuid, _ in log} and all(
            uuid in known or begin >= self.seqno for uuid, begin in log
        ):
            self.log = log

    def begin(self) -> None:
        """A new stream: what came without being complete is forgotten."""
        self.marker = self.out_of_order = None

    @property
    def uuid(self) -> int:
        """The branch to present: the newest one that began at or below the seqno."""
        if self.seqno == 0:
            return 0
        return next((uuid for uuid, seqno in self.log if seqno <= self.seqno), 0)


def seqno_of(parts: dict[str, Any]) -> int | None:
    """The seqno of an event or a SeqnoAdvanced; None for other messages."""
    for name in ("commit_seqno", "abort_seqno", "by_seqno"):
        if name in parts:
            return int(parts[name])
    return None


@dataclass(slots=True)
class Client:
    """One consumer, over all its connections."""

    host: str
    name: str
    agent: str
    terms: Terms
    reads_replicas: bool = False
    is_replication: bool = False
    opaques: str = "counting"
    """How it numbers: counting, by vbucket, or zero for everything."""
    tells_opaques_apart: bool = False
    """Requests under way at once, or for a stream that runs, have opaques of their own."""
    window: int = 0
    has_noops: bool = False
    noop_interval: str = ""
    has_sasl: bool = False
    answers_ends: bool = False
    """Answers stream ends, which nobody needs."""
    asks_back: bool = True
    """Asks for the failover log before it goes on after a rollback."""
    filters: dict[Place, dict[str, Any] | None] = field(default_factory=dict)
    positions: dict[Place, Position] = field(default_factory=dict)
    ends: dict[Place, int] = field(default_factory=dict)
    """The end that it last asked for, 0 for none."""

    def position(self, place: Place) -> Position:
        """What it has of a vbucket; nothing at first."""
        return self.positions.setdefault(place, Position())

    def filter_of(self, dice: Dice, place: Place) -> dict[str, Any] | None:
        """The filter of a stream, the same whenever it is asked for."""
        if place not in self.filters:
            self.filters[place] = self._filter(dice)
        return self.filters[place]

    def _filter(self, dice: Dice) -> dict[str, Any] | None:
        if not self.terms.collections:
            return None
        kind = dice.weighted([(50, "none"), (20, "one"), (20, "two"), (10, "scope"), (5, "uid")])
        if kind == "one":
            return {"collections": [dice.pick(["0", "8", "9"])]}
        if kind == "two":
            return {"collections": ["0", dice.pick(["8", "9", "a"])]}
        if kind == "scope":
            return {"scope": dice.pick(["0", "8"])}
        return {"uid": "1"} if kind == "uid" else None

    def request(self, dice: Dice, place: Place, opaque: int, high: int) -> Request:
        """A stream request for a place, legal whatever it has received."""
        vbucket, sid = place
        position = self.position(place)
        value = dict(self.filter_of(dice, place) or {})
        if sid:
            value["sid"] = sid
        if position.seqno and dice.chance(6):
            position.lose_from(0 if dice.chance(50) else dice.below(position.seqno + 1))
        start, snapshot, uuid = position.seqno, position.snapshot, position.uuid
        if not snapshot[0] <= start <= snapshot[1] or (start == snapshot[1] and dice.chance(50)):
            snapshot = start, start
        flags: list[str] = []
        end = ENDLESS
        if dice.chance(20):
            end = start + dice.below(max(high - start, 0) + 4)
            end = max(end, snapshot[1])
            end = end or 1
        elif place in self.ends and max(start, snapshot[1]) < self.ends[place]:
            end = self.ends[place]  # it did not come there
        if not self.terms.upr:
            kind = dice.weighted(
                [
                    (80, ""),
                    (5, "to-latest"),
                    (5, "disk-only"),
                    (4, "from-latest"),
                    (4, "strict-vbucket-uuid"),
                    (2, "ignore"),
                ]
            )
            if kind == "from-latest":
                start, snapshot, uuid, end = 0, (0, 0), 0, ENDLESS
            if kind == "ignore":
                kind = "ignore-purged-tombstones"
            flags += [kind] if kind else []
            if not self.reads_replicas and dice.chance(50):
                flags.append("active-only")
            order = [bit.name for bit in STREAM_FLAGS]
            flags.sort(key=order.index)
        self.ends[place] = end if end < ENDLESS else 0
        return Request(
            vbucket, opaque, sid, start, end, uuid, snapshot, tuple(flags), value or None
        )


_AGENTS = ("java-dcp-client/0.48.0", "gocbcore/v10.3.1", "couchdcp/2.0")


def drawn_client(dice: Dice, number: int, *, history: bool) -> Client:
    """A client with habits of its own."""
    generation = dice.weighted(
        [(60, "current"), (14, "old"), (10, "replica"), (8, "upr"), (8, "replication")]
    )
    terms = Terms()
    # On one host only their names tell clients apart.
    host = f"10.0.1.{1 if dice.chance(30) else number + 1}"
    client = Client(
        host,
        f"{('secidx', 'go-dcp', 'kafka')[number % 3]}:{'abcdef'[dice.below(6)]}",
        dice.pick(_AGENTS),
        terms,
    )
    if generation == "upr":
        terms.upr = True
        client.agent = ""
    elif generation == "old":
        terms.keeps_ends = dice.chance(40)
        terms.starts_late = dice.chance(50)
        terms.numbers_types = dice.chance(20)
        terms.delete_times = dice.chance(50)
    else:
        terms.collections = True
        terms.flatbuffers = history or dice.chance(30)
        terms.sync_writes = dice.chance(25) or generation == "replication"
        terms.consumer_name = terms.sync_writes and (dice.chance(50) or generation == "replication")
        terms.stream_ids = not terms.sync_writes and dice.chance(20)
        terms.hides_frames = terms.stream_ids and dice.chance(50)
        terms.marker_2_2 = dice.chance(35)
        terms.delete_times = dice.chance(50)
        terms.expiries = terms.delete_times and dice.chance(60)
        terms.out_of_order = dice.weighted(
            [(50, ""), (25, "true"), (25, "true_with_seqno_advanced")]
        )
        terms.history = history and dice.chance(80)
        terms.skip_deletes = not terms.history and dice.chance(6)
    terms.end_on_close = generation not in ("upr",) and dice.chance(50)
    client.reads_replicas = generation == "replica"
    client.is_replication = generation == "replication"
    if client.is_replication:
        client.host, client.name = (
            f"10.0.1.{number + 1}",
            f"replication:ns_1@10.0.1.{number + 1}->ns_1@node:default",
        )
        terms.stream_ids = terms.skip_deletes = False
    client.opaques = dice.weighted([(60, "counting"), (25, "by vbucket"), (15, "zero")])
    client.window = dice.weighted([(40, 0), (30, 600), (30, 10_000)])
    client.has_noops = terms.collections or dice.chance(30)
    client.noop_interval = dice.pick(["", "20", "1", "0.5"]) if client.has_noops else ""
    client.has_sasl = dice.chance(40)
    client.answers_ends = dice.chance(8)
    client.asks_back = dice.chance(50)
    return client
