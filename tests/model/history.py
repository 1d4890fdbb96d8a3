"""What happened in a bucket: each vbucket's changes on its newest branch, what a compaction purged,
which branches there were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.model.dice import Dice

SCOPE_OF = {0: 0, 8: 8, 9: 0, 10: 8}
"""Scope of each collection that ever exists."""

_KEYS = [f"k{number}" for number in range(6)]
_OTHER_KEY = "k" * 246
"""As long as keys may be in any collection."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one seqno is."""

    seqno: int
    kind: str
    """mutation, deletion, expiration, prepare, commit, abort, or system."""
    key: str = ""
    collection: int = 0
    """Also of a system event about a collection."""
    prepared: int = 0
    """Commit and abort: seqno of the prepare."""
    deleted: bool = False
    """Prepare and commit: of a deletion."""
    event: str = ""
    """System event: its name."""
    scope: int = 0
    uid: int = 0

    @property
    def entity(self) -> tuple[str, int, str]:
        """What a snapshot without duplicates holds once: prepares live apart from what is
        committed, system events from both.
        """
        if self.event.endswith("scope"):
            return "scope", self.scope, ""
        if self.kind == "system":
            return "collection", self.collection, ""
        return (
            "prepared" if self.kind in ("prepare", "abort") else "committed",
            self.collection,
            self.key,
        )


@dataclass(slots=True)
class Vbucket:
    """One vbucket of the bucket, wherever it is active."""

    number: int
    log: list[tuple[int, int]]
    """Failover log, newest branch first."""
    node: int = 0
    changes: list[Change] = field(default_factory=list)
    purge: int = 0
    """Deletions and aborts up to here may be gone from disk."""
    pending: dict[tuple[int, str], int] = field(default_factory=dict)
    """Prepares neither committed nor aborted: seqno by (collection, key)."""
    deleting: set[tuple[int, str]] = field(default_factory=set)
    collections: set[int] = field(default_factory=lambda: {0})
    dropped: set[int] = field(default_factory=set)
    scopes: set[int] = field(default_factory=lambda: {0})
    names: dict[int, str] = field(default_factory=dict)
    """Of collections."""
    uid: int = 1
    branches: int = 1

    @property
    def high(self) -> int:
        """The newest seqno."""
        return len(self.changes)

    @property
    def plain_high(self) -> int:
        """The newest seqno that a client without collections and sync writes may see."""
        visible = (
            c.seqno
            for c in reversed(self.changes)
            if c.kind not in ("prepare", "abort", "system") and c.collection == 0
        )
        return next(visible, 0)

    def between(self, low: int, high: int) -> list[Change]:
        """The changes of [low, high]."""
        return self.changes[low - 1 : high]

    def write(self, dice: Dice, count: int, *, durable: bool, system: bool, deletes: bool) -> None:
        """So many changes more."""
        for _ in range(count):
            self._change(dice, durable=durable, system=system, deletes=deletes)

    def _change(self, dice: Dice, *, durable: bool, system: bool, deletes: bool) -> None:
        seqno = self.high + 1
        what = dice.weighted(
            [
                (60, "store"),
                (12 if deletes else 0, "delete"),
                (20 if durable else 0, "prepare"),
                (14 if self.pending else 0, "complete"),
                (8 if system else 0, "system"),
            ]
        )
        if what == "complete":
            place = dice.pick(sorted(self.pending))
            prepared = self.pending.pop(place)
            kind = "abort" if dice.chance(25) else "commit"
            self._add(
                Change(
                    seqno,
                    kind,
                    place[1],
                    place[0],
                    prepared,
                    deleted=place in self.deleting and kind == "commit",
                )
            )
            self.deleting.discard(place)
            return
        if what == "system" and self._system(dice, seqno):
            return
        place = dice.pick(sorted(self.collections)), dice.pick(_KEYS)
        if what == "prepare" and place not in self.pending:
            self.pending[place] = seqno
            deleted = dice.chance(10)
            if deleted:
                self.deleting.add(place)
            self._add(Change(seqno, "prepare", place[1], place[0], deleted=deleted))
            return
        free = [key for key in _KEYS if (place[0], key) not in self.pending]
        key = place[1] if place[1] in free or not free else free[0]
        if (place[0], key) in self.pending:
            # Every key waits for its commit: one that no durable write touches.
            key = _OTHER_KEY
        kind = dice.pick(["deletion", "expiration"]) if what == "delete" else "mutation"
        self._add(Change(seqno, kind, key, place[0]))

    def _system(self, dice: Dice, seqno: int) -> bool:
        unborn = [c for c in (8, 9, 10) if c not in self.collections | self.dropped]
        mortal = [
            c
            for c in (8, 9)
            if c in self.collections and not any(place[0] == c for place in self.pending)
        ]
        options = [(3, "begin")] if unborn else []
        options += [(1, "end")] if mortal else []
        options += [(2, "modify")] if self.collections - {0} else []
        if not options:
            return False
        what = dice.weighted(options)
        self.uid += 1
        if what == "begin":
            collection = dice.pick(unborn)
            scope = SCOPE_OF[collection]
            if scope not in self.scopes:
                self.scopes.add(scope)
                self._add(
                    Change(
                        seqno, "system", "scope", event="create-scope", scope=scope, uid=self.uid
                    )
                )
                return True
            self.collections.add(collection)
            # the name of one that was dropped, or is in another scope, is free
            taken = {
                self.names[c] for c in self.collections - {0, collection} if SCOPE_OF[c] == scope
            }
            self.names[collection] = next(name for name in ("c8", "c10") if name not in taken)
            self._add(
                Change(
                    seqno,
                    "system",
                    self.names[collection],
                    collection,
                    event="begin-collection",
                    scope=scope,
                    uid=self.uid,
                )
            )
        elif what == "end":
            collection = dice.pick(mortal)
            self.collections.discard(collection)
            self.dropped.add(collection)
            self._add(
                Change(
                    seqno,
                    "system",
                    "",
                    collection,
                    event="end-collection",
                    scope=SCOPE_OF[collection],
                    uid=self.uid,
                )
            )
        else:
            collection = dice.pick(sorted(self.collections - {0}))
            self._add(
                Change(
                    seqno,
                    "system",
                    self.names[collection],
                    collection,
                    event="modify-collection",
                    scope=SCOPE_OF[collection],
                    uid=self.uid,
                )
            )
        return True

    def _add(self, change: Change) -> None:
        self.changes.append(change)

    def fail_over(self, dice: Dice, node: int) -> None:
        """Another node becomes the active one; it may lack the newest changes, which are then no
        part of the history.
        """
        oldest = max(self.log[0][1], self.purge)
        kept = self.high - dice.below(min(self.high - oldest, 12) + 1)
        lost = self.changes[kept:]
        del self.changes[kept:]
        for change in reversed(lost):
            self._undo(change)
        self.branches += 1
        self.log.insert(0, (uuid_of(self.number, self.branches), kept))
        self.node = node

    def _undo(self, change: Change) -> None:
        place = change.collection, change.key
        if change.kind == "prepare":
            self.pending.pop(place, None)
            self.deleting.discard(place)
        elif change.kind in ("commit", "abort"):
            self.pending[place] = change.prepared
            if (
                self.changes[change.prepared - 1].deleted
                if change.prepared <= len(self.changes)
                else False
            ):
                self.deleting.add(place)
        elif change.event == "begin-collection":
            self.collections.discard(change.collection)
        elif change.event == "create-scope":
            self.scopes.discard(change.scope)
        elif change.event == "end-collection":
            self.collections.add(change.collection)
            self.dropped.discard(change.collection)

    def compact(self, dice: Dice) -> None:
        """Old deletions go from disk."""
        tombs = [
            change.seqno
            for change in self.changes
            if change.kind in ("deletion", "expiration", "abort") and change.seqno > self.purge
        ]
        if tombs:
            self.purge = tombs[dice.below(len(tombs))]

    def rollback(
        self, start: int, snapshot: tuple[int, int], uuid: int, *, strict: bool, keeps_purged: bool
    ) -> int | None:
        """The seqno a producer answers to a stream request, or None when the client may go on; the
        checks in a producer's order.
        """
        low, high = snapshot
        if start == 0 and not (strict and uuid):
            return None
        if 0 < start < self.purge and not keeps_purged:
            return 0
        newer: int | None = None
        for entry, seqno in self.log:
            if entry == uuid:
                break
            newer = seqno
        else:
            return 0
        upper = self.high if newer is None else newer
        if start == low:
            high = start
        if high <= upper:
            return None
        if start == high:
            low = start
        return upper if upper < low else low


def uuid_of(vbucket: int, branch: int) -> int:
    """The uuid of a branch: never 0, never twice."""
    return 0xB0_0000_0000_0000 + (vbucket << 16) + branch


def latest(changes: Sequence[Change]) -> list[Change]:
    """What is left when each key is there once."""
    last = {change.entity: change.seqno for change in changes}
    return [change for change in changes if last[change.entity] == change.seqno]
