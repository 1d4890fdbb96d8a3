"""Keys that come twice, prepares and their ends, collections: what is a fault, what only looks like
it, and what is not remembered.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pytest

from dcpinspect.reading.engine import Engine
from dcpinspect.streams.contents import ALL, MOST, Contents, VbucketShare
from dcpinspect.streams.records import Streams
from dcpinspect.streams.tracker import Tracker
from tests.damage import PORT, Packet, batches
from tests.peers.script import Stream, hlc
from tests.streams.told import Seen, Told, opened, packets, tables


def started(start: int = 0, end: int = 20, *kinds: str, **parts: str) -> tuple[Told, Stream]:
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7, start=start, value=parts or None)
    stream.snapshot(start, end, *(kinds or ("memory",)))
    return talk, stream


def again(stream: Stream) -> None:
    stream.mutation(1, "k")
    stream.mutation(2, "l")
    stream.mutation(3, "k")


def test_a_key_that_comes_twice_in_a_snapshot() -> None:
    talk, stream = started()
    again(stream)
    stream.deletion(4, "l")
    assert tables(talk).anomalies == ["duplicate-key-in-snapshot"] * 2


def test_what_is_outside_of_a_snapshot_is_not_in_it_twice() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory")
    for seqno, key in ((1, "a"), (5, "b"), (6, "a"), (7, "c"), (8, "c")):
        stream.mutation(seqno, key)
    assert tables(talk).anomalies == ["seqno-outside-snapshot"] * 3


@pytest.mark.parametrize(
    "kinds",
    [("memory", "history", "may-duplicate-keys"), ("disk", "checkpoint", "may-duplicate-keys")],
)
def test_where_keys_may_repeat_they_may(kinds: tuple[str, ...]) -> None:
    talk, stream = started(0, 3, *kinds)
    again(stream)
    assert tables(talk).anomalies == []


def test_a_key_in_two_snapshots_on_two_streams_or_in_two_collections_is_not_twice() -> None:
    talk, stream = started(0, 1)
    other = talk.stream(8)
    other.snapshot(0, 9, "memory")
    stream.mutation(1, "k")
    other.mutation(1, "k")
    stream.snapshot(2, 9, "memory")
    stream.mutation(2, "k")
    stream.system_event(3, "begin-collection", "orders", manifest_uid=1, collection_id=9)
    stream.mutation(4, "k", collection=9)
    assert tables(talk).anomalies == []


def test_what_a_replica_merges_may_have_a_key_twice() -> None:
    talk, stream = started(0, 5)
    stream.mutation(1, "k")
    stream.snapshot(2, 9, "memory")
    again_ = Stream(talk, 7, stream.opaque)
    again_.mutation(2, "a")
    again_.mutation(3, "a")
    assert tables(talk).anomalies == ["marker-overlap"]


def test_an_out_of_order_snapshot_is_one_snapshot() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    for seqno, key in ((9, "k"), (3, "l"), (4, "k")):
        stream.mutation(seqno, key)
    stream.oso("end")
    assert tables(talk).anomalies == ["duplicate-key-in-snapshot"]


def test_after_a_hole_the_marker_between_two_may_be_lost() -> None:
    talk, stream = started()
    stream.mutation(1, "k")
    with talk.lost():
        stream.mutation(2, "l")
    stream.mutation(3, "k")
    stream.snapshot(21, 30, "memory")
    stream.mutation(21, "k")
    stream.mutation(22, "k")
    assert tables(talk).anomalies == ["duplicate-key-in-snapshot"]


def durable(stream: Stream) -> None:
    stream.prepare(1, "k", {})
    stream.mutation(2, "l")
    stream.commit(1, 3, "k")


def test_a_prepare_and_its_commit_are_no_duplicate() -> None:
    talk, stream = started()
    durable(stream)
    stream.prepare(4, "m", {})
    stream.abort(4, 5, "m")
    stream.prepare(6, "m", {})
    assert tables(talk).anomalies == []


def next_snapshots(talk: Told, stream: Stream, between: str) -> None:
    """Every seqno from 4 to 8, in snapshots behind that of a prepare."""
    stream.snapshot(4, 4, "disk" if "disk" in between else "memory")
    if "hole" in between:
        with talk.lost():
            stream.abort(3, 4, "k")
    elif "abort" in between:
        stream.abort(3, 4, "k")
    else:
        stream.mutation(4, "k" if "change" in between else "l")
    stream.snapshot(5, 9, "memory")
    for seqno in range(5, 9):
        stream.mutation(seqno, f"m{seqno}")


@pytest.mark.parametrize(
    ("flags", "between", "anomalies"),
    [
        (("memory",), "", ["duplicate-key-in-snapshot"]),
        (("memory",), "abort", []),
        (("memory",), "marker", []),
        (("memory",), "next", ["duplicate-key-in-snapshot"]),
        (("memory",), "next and abort", []),
        (("memory",), "next and change", []),
        (("memory",), "next and disk", []),
        (("memory",), "next and hole", []),
        (("memory",), "hole", []),
        (("memory", "may-duplicate-keys"), "", []),
        (("disk",), "", []),
    ],
)
def test_a_prepare_while_one_of_its_key_is_pending(
    flags: tuple[str, ...], between: str, anomalies: list[str]
) -> None:
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7)
    stream.snapshot(0, 3 if between.startswith(("marker", "next")) else 9, *flags)
    stream.prepare(3, "k", {})
    if between == "abort":
        stream.abort(3, 4, "k")
    elif between == "marker":
        stream.snapshot(4, 9, *flags, "checkpoint")
    elif between == "hole":
        with talk.lost():
            stream.abort(3, 4, "k")
    elif between.startswith("next"):
        next_snapshots(talk, stream, between)
    stream.prepare(9, "k", {})
    assert tables(talk).anomalies == anomalies


@pytest.mark.parametrize(
    "completed",
    [
        lambda stream: stream.commit(4, 9, "k"),
        lambda stream: stream.abort(4, 9, "k"),
        lambda stream: (stream.prepare(3, "k", {}), stream.commit(4, 9, "k")),
        lambda stream: (stream.prepare(4, "l", {}), stream.commit(4, 9, "k")),
        lambda stream: (
            stream.prepare(4, "k", {}),
            stream.abort(4, 8, "k"),
            stream.commit(4, 9, "k"),
        ),
    ],
)
def test_the_end_of_a_prepare_that_did_not_come(completed: Callable[[Stream], None]) -> None:
    talk, stream = started()
    completed(stream)
    assert tables(talk).anomalies == ["commit-without-prepare"]


@pytest.mark.parametrize(
    "kind", ["disk", "resumed", "earlier on disk", "from latest", "lost", "begun"]
)
def test_prepares_that_the_stream_need_not_have_shown(kind: str) -> None:
    talk = opened(enable_sync_writes="true")
    start = 5 if kind == "resumed" else 0
    stream = talk.stream(7, start=start, flags=["from-latest"] if kind == "from latest" else [])
    if kind == "begun":
        talk.begin()
    if kind == "earlier on disk":
        stream.snapshot(0, 6, "disk", "checkpoint")
        stream.mutation(6, "a")
        start = 7
    stream.snapshot(start, 20, "disk" if kind == "disk" else "memory")
    if kind == "lost":
        with talk.lost():
            stream.prepare(4, "k", {})
        stream.snapshot(8, 20, "memory")
    stream.commit(4, 9, "k")
    assert "commit-without-prepare" not in tables(talk).anomalies


def test_a_system_event_of_an_id_that_servers_keep_for_themselves() -> None:
    talk, stream = started()
    for seqno, collection in enumerate((0, 3, 7, 8), 1):
        stream.system_event(
            seqno, "begin-collection", f"c{seqno}", manifest_uid=seqno, collection_id=collection
        )
    assert tables(talk).anomalies == ["bad-collection-prefix"] * 2


def test_a_prepare_of_whose_key_the_capture_lacks_some_is_that_of_any_commit_behind_it() -> None:
    talk, stream = started()
    before = len(packets(talk))
    stream.prepare(4, "k" * 200, {})
    after = len(packets(talk))
    stream.commit(4, 9, "k" * 200)
    captured = packets(talk)
    captured[before:after] = [packet.cut(180) for packet in captured[before:after]]
    assert Seen(captured).anomalies == []
    stream.commit(6, 10, "l")
    captured += packets(talk)[len(captured) :]
    assert Seen(captured).anomalies == ["commit-without-prepare"]


def changed(stream: Stream, *changes: tuple[int, int]) -> None:
    for revision, (seqno, cas) in enumerate(changes, 1):
        stream.snapshot(seqno, seqno, "memory")
        stream.send(
            "dcp_mutation", collection=0, key="k", by_seqno=seqno, rev_seqno=revision, cas=cas
        )


@pytest.mark.parametrize("top", [hlc(50), 2**63, 2**64 - 1])
def test_a_later_change_with_a_lower_cas(top: int) -> None:
    talk, stream = started()
    changed(stream, (21, top - 2), (22, top), (23, top - 1), (24, top))
    assert tables(talk).anomalies == ["cas-regress"]


def test_changes_without_a_cas_are_not_compared() -> None:
    talk, stream = started()
    changed(stream, (21, 7), (22, 0), (23, 7), (24, 8))
    assert tables(talk).anomalies == []


def begun(stream: Stream, seqno: int, collection: int, uid: int) -> None:
    stream.system_event(
        seqno, "begin-collection", f"c{collection}", manifest_uid=uid, collection_id=collection
    )


def test_a_collection_that_began_is_known_until_its_end() -> None:
    talk, stream = started()
    begun(stream, 1, 9, 3)
    stream.mutation(2, "a", collection=9)
    stream.mutation(3, "b")
    stream.system_event(4, "end-collection", manifest_uid=4, collection_id=9)
    stream.mutation(5, "c", collection=9)
    begun(stream, 6, 9, 4)
    stream.mutation(7, "d", collection=9)
    stream.mutation(8, "e", collection=10)
    assert tables(talk).anomalies == ["event-after-collection-end", "event-for-unknown-collection"]


@pytest.mark.parametrize("kind", ["resumed", "disk", "begun", "lost"])
def test_a_beginning_that_the_stream_need_not_have_shown(kind: str) -> None:
    talk = opened()
    stream = talk.stream(7, start=5 if kind == "resumed" else 0)
    if kind == "begun":
        talk.begin()
    stream.snapshot(5 if kind == "resumed" else 0, 20, "disk" if kind == "disk" else "memory")
    if kind == "lost":
        with talk.lost():
            begun(stream, 6, 9, 3)
        stream.snapshot(7, 20, "memory")
    stream.mutation(8, "a", collection=9)
    assert "event-for-unknown-collection" not in tables(talk).anomalies


def test_uids_of_manifests_do_not_fall_but_in_an_out_of_order_snapshot() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    begun(stream, 9, 9, 9)
    begun(stream, 3, 10, 3)
    stream.oso("end")
    stream.snapshot(10, 20, "memory")
    begun(stream, 10, 11, 2**63)
    begun(stream, 11, 12, 2**63)
    begun(stream, 12, 13, 2**63 - 1)
    begun(stream, 13, 14, 0)
    assert tables(talk).anomalies == ["manifest-uid-backwards"] * 2


def named(stream: Stream, seqno: int, collection: int, scope: int = 0, name: str = "c") -> None:
    stream.system_event(
        seqno,
        "begin-collection",
        name,
        manifest_uid=seqno,
        scope_id=scope,
        collection_id=collection,
    )


@pytest.mark.parametrize(
    ("scopes", "names", "between", "anomalies"),
    [
        ((0, 0), "cc", "", ["name-taken"]),
        ((0, 0), "cc", "marker", ["name-taken"]),
        ((0, 0), "cc", "end", []),
        ((0, 0), "cc", "hole", []),
        ((0, 0), "cc", "disk", []),
        ((0, 8), "cc", "", []),
        ((0, 0), "cd", "", []),
    ],
)
def test_a_scope_has_one_collection_of_a_name(
    scopes: tuple[int, int], names: str, between: str, anomalies: list[str]
) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3 if between in ("marker", "disk") else 9, "memory")
    named(stream, 3, 9, scopes[0], names[0])
    if between == "end":
        stream.system_event(4, "end-collection", manifest_uid=4, collection_id=9)
    elif between == "hole":
        with talk.lost():
            stream.system_event(4, "end-collection", manifest_uid=4, collection_id=9)
    elif between in ("marker", "disk"):
        stream.snapshot(4, 9, "disk" if between == "disk" else "memory", "checkpoint")
    named(stream, 5, 10, scopes[1], names[1])
    stream.mutation(9, "k")
    assert tables(talk).anomalies == anomalies


def test_from_disk_a_snapshot_has_one_collection_of_a_name() -> None:
    talk, stream = started(0, 9, "disk")
    named(stream, 3, 9)
    named(stream, 5, 10)
    stream.mutation(9, "k")
    assert tables(talk).anomalies == ["name-taken"]


@pytest.mark.parametrize(("drops", "anomalies"), [(False, ["name-taken"]), (True, [])])
@pytest.mark.parametrize("version", ["v0", "v2"])
def test_a_bucket_has_one_scope_of_a_name(version: str, drops: bool, anomalies: list[str]) -> None:
    talk, stream = started()

    def say(seqno: int, event: str, scope: int) -> None:
        name = "s" if event == "create-scope" else ""
        stream.system_event(seqno, event, name, version=version, manifest_uid=seqno, scope_id=scope)

    say(1, "create-scope", 8)
    named(stream, 2, 8, 8, "s")
    if drops:
        say(3, "drop-scope", 8)
    say(4, "create-scope", 9)
    assert tables(talk).anomalies == anomalies


def test_events_beside_the_collections_that_were_asked_for() -> None:
    talk = opened()
    stream = talk.stream(7, value={"collections": ["9", "a"]})
    stream.snapshot(0, 9, "memory")
    for seqno, collection in enumerate((9, 10), 1):
        begun(stream, seqno, collection, seqno)
    for seqno, collection in ((3, 9), (4, 10), (5, 0), (6, 11)):
        stream.mutation(seqno, f"k{seqno}", collection=collection)
    found = tables(talk).anomalies
    assert found.count("collection-outside-filter") == 2


@pytest.mark.parametrize("value", [None, {"scope": "8"}, {"collections": "9"}])
def test_without_named_collections_every_one_may_come(value: dict[str, str] | None) -> None:
    talk = opened()
    stream = talk.stream(7, start=3, value=value)
    stream.snapshot(3, 9, "memory")
    stream.mutation(5, "k", collection=12)
    assert tables(talk).anomalies == []


def many(count: int) -> Told:
    """A pending prepare, many keys, one of the first again, and the commit."""
    talk, stream = started(0, count + 9)
    stream.prepare(1, "k", {})
    for seqno in range(2, count):
        stream.mutation(seqno, f"key{seqno}")
    stream.mutation(count, "key2")
    stream.commit(1, count + 1, "k")
    stream.commit(2, count + 2, "never prepared")
    return talk


def test_too_many_keys_are_forgotten_which_is_said_once_and_nothing_is_claimed() -> None:
    captured = packets(many(300))
    assert Seen(captured).anomalies == ["duplicate-key-in-snapshot", "commit-without-prepare"]
    assert Seen(captured, keys=64).anomalies == ["keys-not-checked"]


def test_batches_do_not_matter_where_keys_are_forgotten() -> None:
    captured = packets(many(300))
    whole = Seen(captured, keys=64).everything()
    assert Seen(captured, [5] * len(captured), keys=64).everything() == whole


def entries_of(contents: Contents) -> list[tuple[int, int, int]]:
    known = contents.__getstate__()["entries"].as_integers()
    return sorted((int(row[0]), int(row[1]), int(row[4])) for row in known)


def followed(
    captured: Sequence[Packet], share: VbucketShare, hashed_by: tuple[int, int], most: int = MOST
) -> tuple[Contents, Streams]:
    """What a tracker knows of the keys of these vbuckets."""
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker()
    tracker.contents = contents = Contents(most, share=share, hashed_by=hashed_by)
    for batch in (*(engine.feed(one) for one in batches(captured, [50])), engine.finish()):
        if batch is not None:
            tracker.feed(batch)
    return contents, tracker.state.known_tables.streams


def many_keys() -> list[Packet]:
    talk = opened()
    for vbucket in range(7, 17):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 40, "memory")
        for seqno in range(1, 41):
            stream.mutation(seqno, f"k{seqno}")
    return packets(talk)


def test_what_readings_of_some_vbuckets_know_is_together_what_one_knows() -> None:
    captured, hashed_by = many_keys(), (5, 7)
    whole, streams = followed(captured, ALL, hashed_by)
    shares = [followed(captured, VbucketShare(number, 3), hashed_by)[0] for number in range(3)]
    assert sum(map(len, map(entries_of, shares))) == len(entries_of(whole)) == 400
    travelled = [pickle.loads(pickle.dumps(one)) for one in shares]  # noqa: S301 - our own
    assert entries_of(Contents.joined(travelled, streams, ALL)) == entries_of(whole)
    for number in range(4):
        expected, _ = followed(captured, VbucketShare(number, 4), hashed_by)
        assert entries_of(
            Contents.joined(travelled, streams, VbucketShare(number, 4))
        ) == entries_of(expected)


def test_together_no_more_is_remembered_than_by_one() -> None:
    captured = many_keys()
    shares = [
        followed(captured, VbucketShare(number, 2), (5, 7), most=256)[0] for number in range(2)
    ]
    _, streams = followed(captured, ALL, (5, 7))
    assert sum(map(len, map(entries_of, shares))) > 256
    joined = Contents.joined(shares, streams, ALL)
    assert 100 < len(entries_of(joined)) <= 256
    assert joined.__getstate__()["marks"][0] >= max(
        one.__getstate__()["marks"][0] for one in shares
    )


def test_what_was_hashed_by_other_secrets_or_is_of_other_streams_is_refused() -> None:
    captured = many_keys()
    one, streams = followed(captured, VbucketShare(0, 2), (5, 7))
    other, _ = followed(captured, VbucketShare(1, 2), (5, 8))
    with pytest.raises(ValueError, match="these do not belong together"):
        Contents.joined([one, other], streams, ALL)
    with pytest.raises(ValueError, match="these do not belong together"):
        Contents.joined([one], streams[:3], ALL)
