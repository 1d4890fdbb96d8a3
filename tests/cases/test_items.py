"""What streams carry: cases 18, 19, 21, 24, 25 and 27."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.told import Case
from tests.peers.script import hlc
from tests.streams.told import Told, opened


def test_18_a_filtered_snapshot_that_seqno_advanced_completes(tmp_path: Path) -> None:
    """MB-38733: the snapshot's last item is of another collection; legal with collections."""
    talk = opened()
    stream = talk.stream(7, value={"collections": ["0"]})
    stream.snapshot(0, 9, "memory")
    stream.mutation(6, "k")
    stream.seqno_advanced(9)
    case = Case(tmp_path, talk)
    assert case.accusations == []
    assert [one["state"] for one in case.tables.snapshots.records()] == ["complete-seqno-advanced"]


def test_18_a_client_without_collections_never_sees_the_end(tmp_path: Path) -> None:
    """JDCP-175: the next marker comes, and the snapshot before was not complete; a note, for
    nothing can be sent in its place.
    """
    talk = Told("old:1")
    talk.hello("old/1", "XATTR")
    talk.open("old:1", "producer")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(8, "k")
    stream.snapshot(10, 12, "memory", "checkpoint")
    case = Case(tmp_path, talk)
    found = case.finding("snapshot-incomplete")
    assert case.accusations == []
    assert (found.severity, found.vbuckets, found.message) == (
        "note",
        (7,),
        "the snapshot had come to seqno 8 of 9 when the next marker came: seqno 9 did not come",
    )
    assert case.shows("snapshot-incomplete") == ["snapshot_marker", "snapshot_marker"]
    assert found.next == (
        "operators have nothing to do; a client can take the snapshot as ended, or negotiate "
        "collections: without them, the server does not say which seqnos the client cannot "
        "see"
    )


def test_19_a_seqno_that_comes_twice(tmp_path: Path) -> None:
    """MB-62984: SeqnoAdvanced 17, then a mutation 17."""
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 17, "memory")
    stream.mutation(16, "a")
    stream.seqno_advanced(17)
    stream.mutation(17, "b")
    case = Case(tmp_path, talk)
    found = case.finding("seqno-repeated-after-advanced")
    assert case.accusations == ["seqno-repeated-after-advanced"]
    assert (found.vbuckets, found.seqnos[:1]) == ((7,), (17,))
    assert case.shows("seqno-repeated-after-advanced")[0] == "mutation"
    assert found.next == (
        "operators have nothing to do, this is a known fault of servers; a client has to "
        "process the event"
    )


def test_21_versions_that_de_duplication_left_out_are_not_lost(tmp_path: Path) -> None:
    """couchbase/sync_gateway#775: jumps inside a snapshot are normal."""
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 90, "memory")
    for seqno in (3, 40, 90):
        stream.mutation(seqno, f"k{seqno}")
    case = Case(tmp_path, talk)
    assert case.findings == []
    assert {one["cause"] for one in case.tables.gaps.records()} == {"deduplicated"}


def test_24_a_bucket_that_persists_nothing(tmp_path: Path) -> None:
    """Trendyol/go-dcp-kafka#66: mutations come, and the client waits for their persistence for
    ever.
    """
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 1200, "memory")
    for seqno in range(1, 1201):
        stream.mutation(seqno, f"k{seqno}")
    for _ in range(4):
        talk.observe(7, 1200, persisted=0)
        talk.wait(2)
    case = Case(tmp_path, talk)
    found = case.finding("never-persisted")
    assert case.accusations == ["never-persisted"]
    assert (found.vbuckets, found.message) == (
        (7,),
        "persisted seqno stays 0, 1,200 items received",
    )
    assert case.shows("never-persisted") == ["observe_seqno answer"] * 3
    assert found.next == (
        "switch rollback mitigation off for an ephemeral bucket; it persists nothing, so a "
        "client that waits for persistence delivers nothing"
    )


@pytest.mark.parametrize(
    ("body", "rules"), [({"total": 2}, []), (b"broken {", ["json-bit-not-json"])]
)
def test_25_two_events_of_an_update_are_sound_on_the_wire(
    body: object, rules: list[str], tmp_path: Path
) -> None:
    """couchbase/kafka-connect-couchbase#56: both values are valid, so the server is not to blame; a
    broken one would be told.
    """
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 91, "memory")
    stream.mutation(91, "k", {"total": 1})
    stream.snapshot(92, 92, "memory", "checkpoint")
    if isinstance(body, bytes):
        stream.send(
            "dcp_mutation",
            cas=hlc(92),
            datatype=1,
            collection=0,
            key="k",
            value=body,
            by_seqno=92,
            rev_seqno=2,
        )
    else:
        stream.mutation(92, "k", body)
    case = Case(tmp_path, talk)
    assert case.accusations == rules
    if rules:
        assert case.finding(rules[0]).vbuckets == (7,)


def test_27_cas_that_goes_backwards(tmp_path: Path) -> None:
    """MB-20798: a later seqno of a key has a lower CAS."""
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    for revision, seqno, cas, start in ((1, 8, 5000, 0), (2, 12, 4000, 10)):
        if start:
            stream.seqno_advanced(9)
            stream.snapshot(start, 12, "memory", "checkpoint")
        stream.send(
            "dcp_mutation",
            cas=cas,
            datatype=0,
            collection=0,
            key="k",
            value=b"v",
            by_seqno=seqno,
            rev_seqno=revision,
        )
    case = Case(tmp_path, talk)
    found = case.finding("cas-regress")
    assert case.accusations == ["cas-regress"]
    assert found.vbuckets == (7,)
    assert case.shows("cas-regress")[0] == "mutation"


def test_27_markers_of_version_2_2_are_read(tmp_path: Path) -> None:
    """MB-65564: a marker of 52 bytes is no malformed one."""
    talk = opened(max_marker_version="2.2")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk", version="v2.2", max_visible_seqno=9, purge_seqno=4)
    stream.mutation(9, "k")
    case = Case(tmp_path, talk)
    assert case.findings == []
    (told,) = case.tables.snapshots.records()
    assert (told["layout"], told["max_visible_seqno"], told["purge_seqno"]) == ("v2.2", 9, 4)
