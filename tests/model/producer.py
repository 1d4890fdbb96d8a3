"""A producer's side of one stream: which snapshots it makes of the changes, and in which messages
it sends them.

Servers of all releases are played, each by its own habits: what is odd here was seen in a release,
in its source, or in the specification's own examples, and is legal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dcpinspect.protocol.flags import ENDLESS
from tests.model.dice import Dice
from tests.model.history import SCOPE_OF, Change, Vbucket, latest

CAS = 0x17C0_0000_0000_0000

Message = tuple[str, dict[str, Any]]
"""Opcode name and parts."""


@dataclass(slots=True)
class Terms:
    """What a connection agreed on, as far as it changes what a stream holds."""

    collections: bool = False
    sync_writes: bool = False
    consumer_name: bool = False
    stream_ids: bool = False
    marker_2_2: bool = False
    expiries: bool = False
    delete_times: bool = False
    flatbuffers: bool = False
    out_of_order: str = ""
    """Value of the control; empty: no OSO snapshots."""
    history: bool = False
    end_on_close: bool = False
    skip_deletes: bool = False
    upr: bool = False
    keeps_ends: bool = False
    """A server before 7.0: to a client without collections and sync writes it announces ends that
    it then does not reach.
    """
    hides_frames: bool = False
    """A server that does not declare the stream-id of some deletions and expirations."""
    numbers_types: bool = False
    """A server that says memory with the number 0 instead of a flag."""
    starts_late: bool = False
    """A server as in the specification's example: its first memory marker may begin with the first
    event.
    """


@dataclass(slots=True)
class Request:
    """A stream request."""

    vbucket: int
    opaque: int
    sid: int
    start: int
    end: int
    uuid: int
    snapshot: tuple[int, int]
    flags: tuple[str, ...]
    filter: dict[str, Any] | None


@dataclass(slots=True)
class ServerStream:
    """One accepted stream."""

    request: Request
    terms: Terms
    vbucket: Vbucket
    merges: bool
    """The vbucket is a replica, and was said to be: a snapshot from disk may go on from memory with
    an overlapping marker.
    """
    position: int
    """Up to here the server has looked at the changes."""
    end: int
    queue: deque[Message] = field(default_factory=deque)
    sent: int = 0
    """The last seqno that the client knows of."""
    started: bool = False
    """The first marker was sent, or an OSO snapshot."""
    must_end: str = ""
    """Reason why it ends before anything else is sent."""
    is_ended: bool = False
    is_closing: bool = False
    awaits_ack: bool = False
    """The current marker is to be answered once its snapshot is complete."""
    takeover: list[Message] = field(default_factory=list)

    @classmethod
    def accepted(
        cls, request: Request, terms: Terms, vbucket: Vbucket, dice: Dice, *, merges: bool
    ) -> ServerStream:
        """The stream of a request that nothing speaks against."""
        start, end = request.start, request.end
        if "from-latest" in request.flags:
            start = vbucket.high
        if {"to-latest", "disk-only"} & set(request.flags):
            end = vbucket.high
        stream = cls(request, terms, vbucket, merges, start, end, sent=start)
        if "takeover" in request.flags:
            stream.takeover = [
                ("dcp_set_vbucket_state", {"state": "pending"}),
                ("dcp_set_vbucket_state", {"state": "active"}),
                ("dcp_stream_end", {"end_reason": "ok"}),
            ]
        if "cache-transfer" in request.flags:
            stream.queue.extend(_cache_transfer(vbucket, start, dice))
        return stream

    # -- what it sees
    # --------------------------------------------------------------------------------------

    def sees(self, change: Change) -> bool:
        """Whether this stream shows a change at all."""
        terms, wanted = self.terms, self.request.filter or {}
        if change.kind in ("prepare", "abort") and not terms.sync_writes:
            return False
        if not terms.collections:
            return change.kind != "system" and change.collection == 0
        if change.event == "modify-collection" and not terms.flatbuffers:
            return False
        if "scope" in wanted:
            scope = change.scope if change.kind == "system" else SCOPE_OF[change.collection]
            return scope == int(wanted["scope"], 16)
        if "collections" in wanted:
            if change.event.endswith("scope"):
                return False
            return f"{change.collection:x}" in wanted["collections"]
        return True

    @property
    def is_filtered(self) -> bool:
        """The request named collections or a scope."""
        return bool(self.request.filter and {"collections", "scope"} & set(self.request.filter))

    # -- the next messages
    # ---------------------------------------------------------------------------------

    def build(self, dice: Dice) -> bool:
        """Queues what comes next; False while there is nothing to send."""
        if self.queue:
            return True
        vbucket = self.vbucket
        if self.takeover and (self.position >= vbucket.high or len(self.takeover) < 3):
            self.queue.append(self.takeover.pop(0))
            return True
        if not self.takeover and "takeover" not in self.request.flags and self.position >= self.end:
            self.queue.append(("dcp_stream_end", {"end_reason": "ok"}))
            return True
        while self.position < vbucket.high and not self.queue:
            self._snapshot(dice)
        return bool(self.queue)

    def _snapshot(self, dice: Dice) -> None:
        first = self.position + 1
        can_go_out_of_order = (
            not self.started
            and self.terms.out_of_order
            and self.position == 0
            and self.is_filtered
            and len((self.request.filter or {}).get("collections", ())) == 1
        )
        if can_go_out_of_order and dice.chance(70):
            self._out_of_order(dice)
            return
        from_disk = "disk-only" in self.request.flags or dice.chance(25 if self.started else 50)
        end = (
            self.vbucket.high
            if from_disk and dice.chance(60)
            else first + dice.below(min(self.vbucket.high - self.position, 12))
        )
        if from_disk and self.terms.history:
            self._history_from_disk(dice, first, end)
        elif from_disk:
            self._from_disk(dice, first, end)
        else:
            self._from_memory(dice, first, end)

    def _from_memory(self, dice: Dice, first: int, end: int) -> None:
        # A key that is in the checkpoint already, as a prepare or with history as anything, begins
        # the next checkpoint.
        seen: set[tuple[str, int, str]] = set()
        for change in self.vbucket.between(first, end):
            if change.entity in seen and (self.terms.history or change.entity[0] == "prepared"):
                end = change.seqno - 1
                break
            seen.add(change.entity)
        changes = latest(self.vbucket.between(first, end))
        begins_checkpoint = dice.chance(60) if self.started else dice.chance(50)
        self._marked(dice, changes, first, end, ["memory"], checkpoint=begins_checkpoint)

    def _from_disk(self, dice: Dice, first: int, end: int) -> None:
        changes = self._stored(first, end, dice)
        # A disk snapshot that a checkpoint holds may be sent in parts; only the first has the
        # checkpoint flag.
        checkpoint = not (self.started and dice.chance(10))
        if (
            self.merges
            and self.terms.collections
            and end < self.vbucket.high
            and self.end == ENDLESS
            and dice.chance(60)
        ):
            # The replica is in the middle of a snapshot itself: its end is announced, the rest
            # follows from memory.
            self._merged(dice, changes, first, end)
            return
        self._marked(dice, changes, first, end, ["disk"], checkpoint=checkpoint)

    def _stored(self, first: int, end: int, dice: Dice, *, history: bool = False) -> list[Change]:
        """What a backfill finds of [first, end]: later versions replaced earlier ones of the whole
        vbucket up to its end.
        """
        upto = self.vbucket.between(1, end)
        kept = upto if history else latest(upto)
        completed = {change.prepared for change in upto if change.kind in ("commit", "abort")}
        keeps_completed = dice.chance(30)
        ended = {
            change.collection: change.seqno for change in upto if change.event == "end-collection"
        }
        out = []
        for change in kept:
            if change.seqno < first:
                continue
            if (
                (
                    change.kind in ("deletion", "expiration", "abort")
                    or change.event == "end-collection"
                )
                and change.seqno <= self.vbucket.purge
                and not history
            ):
                continue
            if (
                change.kind in ("deletion", "expiration")
                and self.terms.skip_deletes
                and not self.started
            ):
                continue
            if change.kind == "prepare" and change.seqno in completed and not keeps_completed:
                continue
            if (
                change.kind != "system"
                and change.seqno < ended.get(change.collection, 0)
                and not history
            ):
                continue
            out.append(change)
        return out

    def _history_from_disk(self, dice: Dice, first: int, end: int) -> None:
        since = first + dice.below(end - first + 1) if dice.chance(50) else first
        start = self._start(dice, first)
        early = [change for change in self._stored(first, end, dice) if change.seqno < since]
        if since > first:
            self._marker(start, end, ["disk", "checkpoint"])
            self._events([change for change in early if self.sees(change)], from_disk=True)
        late = [change for change in self.vbucket.between(since, end) if self.sees(change)]
        if late or self.terms.collections or since == first:
            self._marker(start, end, ["disk", "checkpoint", "history", "may-duplicate-keys"])
            self._events(late, from_disk=True)
            self._advance(late, end)
        self.position, self.started = end, True

    def _merged(self, dice: Dice, changes: Sequence[Change], first: int, end: int) -> None:
        announced = end + 1 + dice.below(self.vbucket.high - end)
        shown = [change for change in changes if self.sees(change)]
        self._marker(self._start(dice, first), announced, ["disk", "checkpoint"])
        self._events(shown, from_disk=True)
        self.position, self.started = end, True
        upto = announced + dice.below(self.vbucket.high - announced + 1)
        rest = [
            change for change in latest(self.vbucket.between(end + 1, upto)) if self.sees(change)
        ]
        if not rest or rest[0].seqno > announced:
            # Nothing overlaps: the announced end is reached all the same.
            self.queue.append(("dcp_seqno_advanced", {"by_seqno": announced}))
            self.position = announced
            return
        self._marker(rest[0].seqno, upto, ["memory"])
        self._events(rest, from_disk=False)
        self._advance(rest, upto)
        self.position = upto

    def _marked(
        self,
        dice: Dice,
        changes: Sequence[Change],
        first: int,
        end: int,
        kinds: list[str],
        *,
        checkpoint: bool,
    ) -> None:
        from_disk = kinds == ["disk"]
        shown = [change for change in changes if self.sees(change)]
        announces_all = self.terms.collections or self.terms.sync_writes
        was_started = self.started
        self.position = end
        if not shown and (not announces_all or dice.chance(30)):
            return  # nothing that this client may see, and nobody says so
        flags = [*kinds, *(["checkpoint"] if checkpoint else [])]
        if self.terms.history and not from_disk:
            flags.append("history")
        if not announces_all and not (
            self.terms.keeps_ends and end > shown[-1].seqno and dice.chance(60)
        ):
            end = shown[-1].seqno
        if not was_started:
            start = self._start(dice, first)
            if (
                self.terms.starts_late
                and flags == ["memory"]
                and shown
                and shown[0].seqno > self.request.start
                and dice.chance(60)
            ):
                start = shown[0].seqno
        elif checkpoint or not shown:
            start = first
        else:
            start = shown[0].seqno
        self._marker(start, end, flags)
        self._events(
            shown, from_disk=from_disk, advances=from_disk and self.is_filtered and dice.chance(15)
        )
        if announces_all:
            self._advance(shown, end)

    def _start(self, dice: Dice, first: int) -> int:
        """Start of a marker: of the first one what the client asked for, of later ones the range's
        own.
        """
        if self.started:
            return first
        if "from-latest" in self.request.flags or self.terms.upr:
            return self.sent
        return self.request.start if dice.chance(25) else self.request.snapshot[0]

    def _out_of_order(self, dice: Dice) -> None:
        end = self.vbucket.high
        shown = [change for change in self._stored(1, end, dice) if self.sees(change)]
        self.queue.append(("dcp_oso_snapshot", {"flags": ["start"]}))
        self._events(dice.shuffled(shown), from_disk=True)
        highest = max((change.seqno for change in shown), default=0)
        if self.terms.out_of_order == "true_with_seqno_advanced" and highest < end:
            self.queue.append(("dcp_seqno_advanced", {"by_seqno": end}))
        self.queue.append(("dcp_oso_snapshot", {"flags": ["end"]}))
        self.position, self.started = end, True

    def _advance(self, shown: Sequence[Change], end: int) -> None:
        """Tells that the stream is at the end of the snapshot when the last event is not."""
        if not shown or shown[-1].seqno < end:
            self.queue.append(("dcp_seqno_advanced", {"by_seqno": end}))

    def _marker(self, start: int, end: int, kinds: list[str]) -> None:
        self.started = True
        terms = self.terms
        if terms.upr:
            self.queue.append(("dcp_snapshot_marker", {"generation": "upr"}))
            return
        if "takeover" in self.request.flags:
            kinds = [*kinds, "ack"]
        if terms.numbers_types and kinds == ["memory"]:
            kinds = []
        parts: dict[str, Any] = {"start_seqno": start, "end_seqno": end, "snapshot_type": kinds}
        upto = self.vbucket.between(1, end)
        visible = max(
            (change.seqno for change in upto if change.kind not in ("prepare", "abort")), default=0
        )
        completed = max(
            (change.prepared for change in upto if change.kind in ("commit", "abort")), default=0
        )
        prepared = max((change.seqno for change in upto if change.kind == "prepare"), default=0)
        replicates = terms.sync_writes and terms.consumer_name
        if "disk" in kinds and terms.marker_2_2:
            parts |= {"generation": "v2.2", "purge_seqno": min(self.vbucket.purge, end)}
            if replicates:
                parts |= {
                    "max_visible_seqno": visible,
                    "high_completed_seqno": completed,
                    "high_prepared_seqno": prepared,
                }
            else:
                # Zero is how a producer says: this is no matter of yours.
                parts |= {
                    "max_visible_seqno": 0,
                    "high_completed_seqno": 0,
                    "high_prepared_seqno": 0,
                }
        elif replicates:
            parts |= {
                "generation": "v2.0",
                "max_visible_seqno": visible,
                "high_completed_seqno": completed if "disk" in kinds else 0,
            }
        else:
            parts["generation"] = "v1"
        self.queue.append(("dcp_snapshot_marker", parts))

    def _events(
        self, changes: Sequence[Change], *, from_disk: bool, advances: bool = False
    ) -> None:
        last = None
        for change in changes:
            if advances and last is not None and change.seqno - last > 2:
                # Long runs of what the filter leaves out are told on the way.
                self.queue.append(("dcp_seqno_advanced", {"by_seqno": change.seqno - 2}))
            self.queue.append(self._event(change, from_disk=from_disk))
            last = change.seqno

    def _event(self, change: Change, *, from_disk: bool) -> Message:
        terms, seqno = self.terms, change.seqno
        if change.kind == "system":
            return "dcp_system_event", _system_event(
                change, flatbuffers=terms.flatbuffers, history=terms.history
            )
        place: dict[str, Any] = {
            "key": change.key,
            "collection": change.collection if terms.collections else None,
        }
        if (
            change.kind in ("abort", "commit")
            and terms.sync_writes
            and not (from_disk and change.kind == "commit")
        ):
            which = "commit_seqno" if change.kind == "commit" else "abort_seqno"
            return f"dcp_{change.kind}", place | {
                "prepared_seqno": change.prepared,
                which: seqno,
                "framed": False,
            }
        place |= {"by_seqno": seqno, "rev_seqno": 1, "cas": CAS + (seqno << 16)}
        if change.kind == "prepare":
            body = {} if change.deleted else {"value": _document(seqno), "datatype": 1}
            return "dcp_prepare", place | body | {
                "deleted": int(change.deleted),
                "durability_level": "majority",
                "framed": False,
            }
        if change.kind == "expiration" and terms.expiries:
            return "dcp_expiration", place | {"generation": "v2", "delete_time": 1_712_000_000}
        if change.kind in ("deletion", "expiration") or (
            change.kind == "commit" and change.deleted
        ):
            times = (
                {"generation": "v2", "delete_time": 1_712_000_000}
                if terms.delete_times
                else {"generation": "v1"}
            )
            return "dcp_deletion", place | times
        return "dcp_mutation", place | {
            "value": _document(seqno),
            "datatype": 1,
            "generation": "upr" if terms.upr else "v1",
        }


def _document(seqno: int) -> str:
    return f'{{"n":{seqno},"pad":"{"x" * (seqno * 37 % 61)}"}}'


def _cache_transfer(vbucket: Vbucket, start: int, dice: Dice) -> list[Message]:
    """Documents of the cache up to the start, in no order, then the word that streaming begins."""
    cached = [change for change in latest(vbucket.between(1, start)) if change.kind == "mutation"]
    out: list[Message] = []
    for change in dice.shuffled(cached)[:4]:
        item = {
            "cas": CAS,
            "by_seqno": change.seqno,
            "rev_seqno": 1,
            "datatype": 1,
            "key": b"\0" + change.key.encode(),
            "value": b"{}",
        }
        out.append(("dcp_cache_transfer", {"items": [item]}))
    return [*out, ("dcp_cache_transfer_end", {})]


def _system_event(change: Change, *, flatbuffers: bool, history: bool) -> dict[str, Any]:
    named = change.event in ("begin-collection", "create-scope", "modify-collection")
    parts: dict[str, Any] = {
        "by_seqno": change.seqno,
        "event": change.event,
        "manifest_uid": change.uid,
        "scope_id": change.scope,
    }
    if not change.event.endswith("scope"):
        parts["collection_id"] = change.collection
    if named:
        parts["key"] = change.key
    if flatbuffers:
        parts["generation"] = "v2"
        if history and named and not change.event.endswith("scope"):
            parts["history"] = 1
    else:
        parts["generation"] = "v0"
    return parts
