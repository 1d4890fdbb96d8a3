"""Faults planted into markers and events: their order, their ranges, what they are of."""

from __future__ import annotations

from typing import Any

from tests.model.plants import VB, Plants
from tests.model.producer import CAS
from tests.model.talk import UUID, Talk
from tests.model.tape import Said

PLANTS = Plants()
plant = PLANTS.opened


@plant("an event before its marker", "event-before-marker")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    first = talk.mutation(VB, 1)
    talk.marker(VB, 0, 4)
    talk.mutation(VB, 4)
    return first


@plant("a seqno goes backwards", "seqno-not-increasing")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 9)
    for seqno in (3, 6):
        talk.mutation(VB, seqno)
    back = talk.mutation(VB, 4 + talk.dice.below(2))
    talk.mutation(VB, 9)
    return back


@plant("an event has the seqno that was told to be passed", "seqno-repeated-after-advanced")
def _(talk: Talk) -> Said:
    talk.stream(VB, value='{"collections":["0"]}')
    talk.marker(VB, 0, 9)
    talk.mutation(VB, 4)
    talk.of(VB, "dcp_seqno_advanced", by_seqno=9)
    return talk.mutation(VB, 9)


for _side, _range in {"beyond": (0, 3), "before": (3, 6)}.items():

    @plant(f"an event {_side} its snapshot", "seqno-outside-snapshot")
    def _(talk: Talk, snapshot: tuple[int, int] = _range) -> Said:
        talk.stream(VB)
        if snapshot[0]:
            talk.marker(VB, 0, 1)
            talk.mutation(VB, 1)
            talk.marker(VB, *snapshot)
            outside = talk.mutation(VB, 2)
            talk.mutation(VB, 6)
        else:
            talk.snapshot(VB, *snapshot)
            outside = talk.mutation(VB, 4 + talk.dice.below(5))
        talk.marker(VB, 12, 14, "memory", "checkpoint")
        talk.mutation(VB, 14)
        return outside


@plant("a marker has another stream's vbucket", "opaque-mismatch")
def _(talk: Talk) -> Said:
    for vbucket in (VB, VB + 1):
        talk.stream(vbucket)
        talk.snapshot(vbucket, 0, 3)
    astray = talk.marker(VB + 1, 4, 9, opaque=talk.opaques[VB, 0])
    for seqno in range(4, 10):
        talk.mutation(VB, seqno)
    return astray


@plant("an event that the client has", "seqno-below-request-start")
def _(talk: Talk) -> Said:
    talk.stream(VB, 5, uuid=UUID, snapshot=(0, 9))
    talk.marker(VB, 0, 9)
    owned = talk.mutation(VB, 2 + talk.dice.below(4))
    talk.mutation(VB, 9)
    return owned


@plant("a marker overlaps the one before", "marker-overlap")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 5)
    marker = talk.marker(VB, 3 + talk.dice.below(3), 9, "memory", "checkpoint")
    talk.mutation(VB, 9)
    return marker


@plant("a marker goes backwards", "marker-behind")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 9)
    behind = talk.marker(VB, 1, 2 + talk.dice.below(7), "memory", "checkpoint")
    talk.marker(VB, 10, 12, "memory", "checkpoint")
    talk.mutation(VB, 12)
    return behind


@plant("a marker runs backwards", "marker-range-inverted")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 9)
    inverted = talk.marker(VB, 20, 12, "memory", "checkpoint")
    for seqno in (12, 15):
        talk.mutation(VB, seqno)
    talk.marker(VB, 21, 22, "memory", "checkpoint")
    talk.mutation(VB, 22)
    return inverted


@plant("the first marker begins elsewhere", "first-marker-start")
def _(talk: Talk) -> Said:
    talk.stream(VB, 50, uuid=UUID)
    marker = talk.marker(VB, 10 + talk.dice.below(30), 60, "disk", "checkpoint")
    talk.mutation(VB, 60)
    return marker


@plant("the last event of a snapshot does not come", "snapshot-incomplete")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 9)
    talk.mutation(VB, 2 + talk.dice.below(6))
    later = talk.marker(VB, 10, 12, "memory", "checkpoint")
    talk.mutation(VB, 12)
    return later


for _kind in ("memory", "disk"):

    @plant(f"a stream stops inside a snapshot from {_kind}", "snapshot-stalled")
    def _(talk: Talk, kind: str = _kind) -> Said:
        talk.stream(VB)
        talk.stream(VB + 1)
        talk.marker(VB, 0, 90, kind)
        last = talk.mutation(VB, 2 + talk.dice.below(80))
        talk.wait(31)
        talk.snapshot(VB + 1, 0, 3)
        return last


@plant("a stream ends before the seqno that was asked for", "stream-end-early")
def _(talk: Talk) -> Said:
    talk.stream(VB, end=20 + talk.dice.below(30))
    talk.snapshot(VB, 0, 2 + talk.dice.below(6))
    return talk.end(VB)


@plant("an OSO snapshot has a seqno twice", "oso-structure", enable_out_of_order_snapshots="true")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.of(VB, "dcp_oso_snapshot", flags=["start"])
    for seqno in range(1, 10):
        talk.mutation(VB, seqno)
    talk.mutation(VB, 1 + talk.dice.below(9), "another")
    return talk.of(VB, "dcp_oso_snapshot", flags=["end"])


@plant(
    "a document above the greatest visible seqno",
    "seqno-outside-snapshot",
    enable_sync_writes="true",
    max_marker_version="2.2",
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    seqnos = {"max_visible_seqno": 4, "high_completed_seqno": 0, "high_prepared_seqno": 5}
    end = 6 + talk.dice.below(2)
    talk.marker(VB, 0, end, "disk", generation="v2.2", purge_seqno=0, **seqnos)
    talk.mutation(VB, 4)
    _durable(talk, 5, "a")
    above = talk.mutation(VB, end)
    talk.snapshot(VB, 8, 9)
    return above


@plant(
    "a stream ends ok inside an OSO snapshot",
    "snapshot-incomplete",
    enable_out_of_order_snapshots="true",
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.of(VB, "dcp_oso_snapshot", flags=["start"])
    talk.mutation(VB, 2 + talk.dice.below(6))
    return talk.end(VB)


@plant("a document comes twice in one snapshot", "duplicate-key-in-snapshot")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 9)
    talk.mutation(VB, 3, "same")
    talk.mutation(VB, 4)
    again = talk.mutation(VB, 7, "same")
    talk.mutation(VB, 9)
    return again


@plant("a change has a lower CAS than the one before", "cas-regress")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 3)
    talk.mutation(VB, 3, "same")
    talk.marker(VB, 4, 7, "memory", "checkpoint")
    return talk.mutation(VB, 7, "same", cas=CAS + 7, rev_seqno=2)


@plant("a change has a CAS that no clock shows", "cas-ahead")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 3)
    return talk.mutation(VB, 3, cas=0x7FFF_FFFF_FFFF_0000)


@plant(
    "a stream lacks a seqno with history",
    "gap-in-history-snapshot",
    change_streams="true",
    flatbuffers_system_events="true",
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 9, "disk", "checkpoint", "history", "may-duplicate-keys")
    missing = 3 + talk.dice.below(5)
    said = [talk.mutation(VB, seqno) for seqno in range(1, 10) if seqno != missing]
    return said[missing - 1]


@plant("an event that another stream shows", "item-missing", enable_stream_id="true")
def _(talk: Talk) -> Said | None:
    missing = 3 + talk.dice.below(5)
    for sid in (1, 2):
        talk.stream(VB, value=f'{{"sid":{sid}}}', sid=sid)
    shown = None
    for sid in (1, 2):
        talk.marker(VB, 0, 9, sid=sid)
        for seqno in range(1, 10):
            if sid == 1 or seqno != missing:
                said = talk.mutation(VB, seqno, sid=sid)
                shown = said if seqno == missing else shown
    return shown


@plant(
    "another stream shows another change of the same seqno",
    "diverging-history",
    enable_stream_id="true",
)
def _(talk: Talk) -> Said:
    other = 3 + talk.dice.below(5)
    for sid in (1, 2):
        talk.stream(VB, value=f'{{"sid":{sid}}}', sid=sid)
        talk.marker(VB, 0, 9, sid=sid)
        said = [
            talk.mutation(
                VB, seqno, sid=sid, cas=CAS + (seqno << 16) + (sid if seqno == other else 0)
            )
            for seqno in range(1, 10)
        ]
    return said[other - 1]


@plant("a snapshot is to be acknowledged, and is not", "ack-missing")
def _(talk: Talk) -> Said:
    talk.stream(VB, flags=("takeover",))
    marker = talk.marker(VB, 0, 3, "memory", "ack")
    for seqno in (1, 2, 3):
        talk.mutation(VB, seqno)
    talk.wait(3)
    talk.failover_log(VB)
    return marker


@plant(
    "an OSO snapshot ends that never began", "oso-structure", enable_out_of_order_snapshots="true"
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    end = talk.of(VB, "dcp_oso_snapshot", flags=["end"])
    talk.snapshot(VB, 0, 3)
    return end


@plant("an OSO snapshot begins in another", "oso-structure", enable_out_of_order_snapshots="true")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.of(VB, "dcp_oso_snapshot", flags=["start"])
    talk.mutation(VB, 3)
    again = talk.of(VB, "dcp_oso_snapshot", flags=["start"])
    talk.mutation(VB, 2)
    talk.of(VB, "dcp_oso_snapshot", flags=["end"])
    return again


@plant("a marker in an OSO snapshot", "oso-structure", enable_out_of_order_snapshots="true")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.of(VB, "dcp_oso_snapshot", flags=["start"])
    talk.mutation(VB, 3)
    marker = talk.marker(VB, 0, 3)
    talk.mutation(VB, 2)
    talk.of(VB, "dcp_oso_snapshot", flags=["end"])
    return marker


@plant("an event of a collection that nobody asked for", "collection-outside-filter")
def _(talk: Talk) -> Said:
    talk.stream(VB, value='{"collections":["0"]}')
    talk.marker(VB, 0, 3)
    stray = talk.mutation(VB, 2, collection=9 + talk.dice.below(99))
    talk.mutation(VB, 3)
    return stray


def _system(
    talk: Talk, seqno: int, event: str, uid: int, collection: int = 8, name: str = "beers"
) -> Said:
    named: dict[str, Any] = {"key": name} if event == "begin-collection" else {}
    return talk.of(
        VB,
        "dcp_system_event",
        by_seqno=seqno,
        event=event,
        manifest_uid=uid,
        scope_id=0,
        collection_id=collection,
        generation="v0",
        **named,
    )


@plant("an event of a collection that has ended", "event-after-collection-end")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    _system(talk, 1, "begin-collection", 1)
    talk.mutation(VB, 2, collection=8)
    _system(talk, 3, "end-collection", 2)
    stray = talk.mutation(VB, 4, collection=8)
    talk.mutation(VB, 5)
    return stray


@plant("an event of a collection that never began", "event-for-unknown-collection")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    stray = talk.mutation(VB, 4, collection=8 + talk.dice.below(9))
    talk.mutation(VB, 5)
    return stray


@plant("a scope gets two collections of one name", "name-taken")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    _system(talk, 1, "begin-collection", 1)
    again = _system(talk, 2, "begin-collection", 2, 9 + talk.dice.below(9))
    talk.mutation(VB, 5)
    return again


@plant("a manifest goes backwards", "manifest-uid-backwards")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    _system(talk, 1, "begin-collection", 5)
    older = _system(talk, 2, "begin-collection", 1 + talk.dice.below(4), 9, "wines")
    talk.mutation(VB, 5)
    return older


def _durable(talk: Talk, seqno: int, key: str, **parts: Any) -> Said:
    return talk.mutation(
        VB,
        seqno,
        key,
        name="dcp_prepare",
        value="{}",
        datatype=1,
        deleted=0,
        durability_level="majority",
        **parts,
    )


def _commit(talk: Talk, prepared: int, seqno: int, key: str) -> Said:
    return talk.of(
        VB, "dcp_commit", key=key, collection=0, prepared_seqno=prepared, commit_seqno=seqno
    )


@plant("a commit without its prepare", "commit-without-prepare", enable_sync_writes="true")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    _durable(talk, 1, "a")
    _commit(talk, 1, 2, "a")
    commit = _commit(talk, 3, 4, "b")
    talk.mutation(VB, 5)
    return commit


@plant("a key is prepared twice", "duplicate-key-in-snapshot", enable_sync_writes="true")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    _durable(talk, 1, "a")
    again = _durable(talk, 3, "a")
    talk.mutation(VB, 5)
    return again


@plant(
    "a key is prepared again in the next snapshot",
    "duplicate-key-in-snapshot",
    enable_sync_writes="true",
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 1)
    _durable(talk, 1, "a")
    talk.marker(VB, 2, 2)
    again = _durable(talk, 2, "a")
    talk.snapshot(VB, 3, 5)
    return again


@plant("a commit of a later prepare", "commit-order", enable_sync_writes="true")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5, "disk", "checkpoint")
    _durable(talk, 1, "a")
    commit = _commit(talk, 4, 3, "b")
    talk.mutation(VB, 5)
    return commit


@plant("a prepare without CAS", "prepare-cas-zero", enable_sync_writes="true")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 2)
    prepare = _durable(talk, 1, "a", cas=0)
    _commit(talk, 1, 2, "a")
    return prepare


@plant(
    "a replica acknowledges less than before",
    "seqno-ack-regress",
    enable_sync_writes="true",
    consumer_name="replica",
)
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.marker(VB, 0, 9)
    for seqno in (3, 6):
        _durable(talk, seqno, f"k{seqno}")
    acks = [
        talk.say(
            True,
            "dcp_seqno_acknowledged",
            vbucket=VB,
            opaque=asked.parts["opaque"],
            prepared_seqno=seqno,
        )
        for seqno in (6, 3)
    ]
    talk.mutation(VB, 9)
    return acks[1]
