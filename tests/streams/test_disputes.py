"""What another stream of the same branch shows of the seqnos that a stream lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dcpinspect.arrays import IntArray
from dcpinspect.reading.engine import Engine
from dcpinspect.streams import disputes, events
from dcpinspect.streams import words as w
from dcpinspect.streams.events import EventQuery, FoundEvents
from dcpinspect.streams.records import LEAST, Gaps, Streams
from tests.damage import PORT, Packet, batches
from tests.peers.script import Stream
from tests.streams.told import Seen, Told, opened, packets, tables

LOG = [(0xABCD, 0)]


def pair(
    *,
    mine: dict[str, Any] | None = None,
    names: Sequence[str] = ("shows", "lacks"),
    controls: dict[str, str] | None = None,
) -> tuple[tuple[Told, Stream], tuple[Told, Stream]]:
    """Two clients, each with a stream of vbucket 7: one that shows what there is, with sync writes,
    and one that lacks something.
    """
    shows = opened(f"{names[0]}:1", "include-delete-times", port=50_000, enable_sync_writes="true")
    lacks = opened(f"{names[1]}:1", "include-delete-times", port=50_001, **(controls or {}))
    return (shows, shows.stream(7, log=LOG)), (lacks, lacks.stream(7, log=LOG, **(mine or {})))


def changes(
    stream: Stream, end: int, *kinds: str, start: int = 0, without: Sequence[int] = ()
) -> None:
    """A snapshot of mutations, each of another key, except for some seqnos."""
    stream.snapshot(start, end, *(kinds or ("memory", "checkpoint")))
    for seqno in range(max(start, 1), end + 1):
        if seqno not in without:
            stream.mutation(seqno, f"k{seqno}")


def gap(*talks: Told, **options: Any) -> dict[str, Any]:
    """The one gap on the last connection."""
    found = [
        record
        for record in Seen(packets(*talks), **options).gaps
        if record["connection"] == len(talks)
    ]
    assert len(found) == 1, found
    return found[0]


def test_prepares_and_aborts_are_invisible_to_who_has_no_sync_writes() -> None:
    (one, shows), (two, lacks) = pair()
    shows.snapshot(0, 5, "memory", "checkpoint")
    shows.mutation(1, "a")
    shows.prepare(2, "b", {})
    shows.abort(2, 3, "b")
    shows.mutation(4, "d")
    shows.mutation(5, "e")
    changes(lacks, 5, without=[2, 3])
    found = gap(one, two)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (1, 4, "invisible")
    assert (
        found["evidence"]
        == "connection 1 was sent seqno 2 in row 11, which this client may not see"
    )
    assert found["rows"][0] == 11


def test_of_a_run_that_holds_more_than_what_is_invisible_both_causes_are_told() -> None:
    (one, shows), (two, lacks) = pair()
    shows.snapshot(0, 5, "memory", "checkpoint")
    shows.mutation(1, "a")
    shows.prepare(2, "b", {})
    shows.mutation(4, "d")
    shows.mutation(5, "e")
    changes(lacks, 5, without=[2, 3])
    found = gap(one, two)
    assert (found["cause"], found["evidence"]) == (
        "filtered",
        (
            "connection 1 was sent seqno 2 in row 11, which this client may not see; the other seqnos "
            "are left out like it, or de-duplicated"
        ),
    )


def old_client() -> tuple[Told, Stream]:
    """A client that asks for no collections."""
    talk = Told("old:1", port=50_001)
    talk.hello("old/1.0", "JSON")
    talk.open("old:1", "producer", "include-delete-times")
    return talk, talk.stream(7, log=LOG)


@pytest.mark.parametrize(("without", "cause"), [([2, 3], "invisible"), ([1, 2, 3], "filtered")])
def test_documents_of_other_collections_are_not_for_who_has_no_collections(
    without: list[int], cause: str
) -> None:
    (one, shows), _ = pair()
    two, lacks = old_client()
    shows.snapshot(0, 4, "memory", "checkpoint")
    for seqno, collection in ((1, 0), (2, 8), (3, 9), (4, 0)):
        shows.mutation(seqno, f"k{seqno if seqno > 1 else 4}", collection=collection)
    changes(lacks, 4, without=without)
    found = gap(one, two)
    assert found["cause"] == cause
    assert found["evidence"].startswith(
        "connection 1 was sent seqno 2 in row 11, which this client may not see"
    )


def completed(
    *ends: str,
    kind: str = "disk",
    marker: dict[str, Any] | None = None,
    mine: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The gap of a client with sync writes, in a snapshot from disk, where another one was sent a
    prepare.
    """
    (one, shows), (two, lacks) = pair(controls={"enable_sync_writes": "true"}, mine=mine)
    shows.snapshot(0, 4, "memory", "checkpoint")
    shows.mutation(1, "a")
    shows.prepare(2, "b", {})
    if "commit" in ends:
        shows.commit(2, 3, "b")
    elif "abort" in ends:
        shows.abort(2, 3, "b")
    else:
        shows.mutation(3, "c")
    shows.mutation(4, "d")
    if "later" in ends:
        shows.snapshot(5, 5, "memory")
        shows.commit(2, 5, "b")
    lacks.snapshot(0, 4, kind, "checkpoint", **(marker or {}))
    for seqno, key in ((1, "a"), (3, "b"), (4, "d")):
        lacks.mutation(seqno, key)
    return gap(one, two)


@pytest.mark.parametrize("mine", [None, {"value": {"collections": ["0"]}}])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_prepare_that_was_completed_may_be_left_out_from_disk(
    end: str, mine: dict[str, Any] | None
) -> None:
    found = completed(end, mine=mine)
    assert (found["cause"], found["evidence"]) == (
        "invisible",
        (
            "connection 1 was sent seqno 2 in row 11, a prepare that was completed, which a snapshot "
            "from disk may leave out"
        ),
    )


def test_a_prepare_that_nothing_completes_is_not_said_to_be_completed() -> None:
    assert completed()["cause"] == "deduplicated"
    assert completed("later")["cause"] == "deduplicated"
    assert completed("commit", kind="memory")["cause"] == "deduplicated"


def test_a_marker_says_which_prepares_were_completed() -> None:
    v2: dict[str, Any] = {"version": "v2.0", "max_visible_seqno": 4, "high_completed_seqno": 2}
    assert completed(marker=v2)["cause"] == "invisible"
    assert completed(marker=v2 | {"high_completed_seqno": 1})["cause"] == "deduplicated"


def test_a_deletion_that_a_snapshot_from_disk_lacks_may_be_purged() -> None:
    (one, shows), (two, lacks) = pair()
    shows.snapshot(0, 3, "memory", "checkpoint")
    shows.mutation(1, "a")
    shows.deletion(2, "b")
    shows.mutation(3, "c")
    changes(lacks, 3, "disk", "checkpoint", without=[2])
    found = gap(one, two)
    assert (
        found["evidence"]
        == "connection 1 was sent seqno 2 in row 11, a deletion, which compaction may have purged"
    )
    assert found["cause"] == "deduplicated"


def test_documents_of_a_collection_that_ends_in_the_snapshot_are_said_to_be_of_it() -> None:
    (one, shows), (two, lacks) = pair()
    shows.snapshot(0, 3, "memory", "checkpoint")
    for seqno, collection in ((1, 0), (2, 8), (3, 0)):
        shows.mutation(seqno, f"k{seqno}", collection=collection)
    lacks.snapshot(0, 4, "disk", "checkpoint")
    lacks.mutation(1, "k1")
    lacks.mutation(3, "k3")
    lacks.system_event(4, "end-collection", manifest_uid=2, scope_id=0, collection_id=8)
    found = gap(one, two)
    assert (
        found["evidence"]
        == "connection 1 was sent seqno 2 in row 11, of a collection that ends in this snapshot"
    )
    assert found["cause"] == "deduplicated"


def test_prepares_and_aborts_are_not_invisible_to_who_asked_for_them() -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_sync_writes": "true"})
    shows.snapshot(0, 4, "memory", "checkpoint")
    shows.mutation(1, "a")
    shows.prepare(2, "b", {})
    shows.abort(2, 3, "b")
    shows.mutation(4, "d")
    changes(lacks, 4, without=[2, 3])
    assert gap(one, two)["cause"] == "deduplicated"


def test_prepares_are_not_called_invisible_where_it_is_not_known_who_asked_for_them() -> None:
    (one, shows), (two, lacks) = pair()
    shows.snapshot(0, 4, "memory", "checkpoint")
    shows.mutation(1, "a")
    shows.prepare(2, "b", {})
    shows.abort(2, 3, "b")
    shows.mutation(4, "d")
    changes(lacks, 4, without=[2, 3])
    with two.lost():
        two.control("enable_sync_writes", "true")
    two.noop()
    assert gap(one, two)["cause"] == "deduplicated"


def test_system_events_are_invisible_to_who_has_no_collections() -> None:
    (one, shows), _ = pair()
    shows.snapshot(0, 3, "memory", "checkpoint")
    shows.mutation(1, "a")
    shows.system_event(2, "create-scope", "s", manifest_uid=2, scope_id=8)
    shows.mutation(3, "c")
    two = Told("old:1", port=50_001)
    two.hello("old/1.0", "JSON")
    two.open("old:1", "producer")
    changes(two.stream(7, log=LOG), 3, without=[2])
    assert gap(one, two)["cause"] == "invisible"


def test_an_out_of_order_snapshot_shows_seqnos_below_its_first() -> None:
    (one, shows), (two, lacks) = pair()
    shows.oso("start")
    shows.mutation(3, "c")
    shows.mutation(1, "a")
    shows.prepare(2, "b", {})
    shows.oso("end")
    changes(lacks, 3, without=[2])
    assert gap(one, two)["cause"] == "invisible"


def later_marker(stream: Stream, without: Sequence[int] = ()) -> None:
    changes(stream, 2)
    changes(stream, 6, start=3, without=without)


def test_a_document_that_another_stream_got_and_this_one_never_is_missing() -> None:
    (one, shows), (two, lacks) = pair()
    later_marker(shows)
    later_marker(lacks, without=[4])
    found = gap(one, two)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (3, 5, "unexplained")
    assert found["evidence"] == (
        "connection 1 was sent seqno 4 in row 14, and this stream got neither that nor a later "
        "version before the snapshot was complete"
    )
    assert found["rows"][0] == 14


@pytest.mark.parametrize("kinds", [("memory", "checkpoint"), ("disk", "checkpoint")])
def test_it_is_missing_in_a_backfill_where_the_other_snapshot_reaches_as_far(
    kinds: tuple[str, ...],
) -> None:
    (one, shows), (two, lacks) = pair()
    changes(shows, 6, *kinds)
    changes(lacks, 6, *kinds, without=[4])
    assert gap(one, two)["cause"] == "unexplained"


def a_later_version_came(_: Stream, lacks: Stream) -> None:
    changes(lacks, 2)
    lacks.snapshot(3, 6, "memory", "checkpoint")
    for seqno, key in ((3, "k3"), (5, "k5"), (6, "k4")):
        lacks.mutation(seqno, key)


def a_later_version_came_under_a_stream_id(_: Stream, lacks: Stream) -> None:
    """Which no stream has: by its opaque it is of the stream without one."""
    changes(lacks, 2)
    lacks.snapshot(3, 6, "memory", "checkpoint")
    for seqno in (3, 5):
        lacks.mutation(seqno, f"k{seqno}")
    lacks.conversation.stream_ids, lacks.sid = True, 3
    lacks.mutation(6, "k4")


def the_snapshot_is_not_complete(_: Stream, lacks: Stream) -> None:
    changes(lacks, 2)
    lacks.snapshot(3, 9, "memory", "checkpoint")
    for seqno in (3, 5, 6):
        lacks.mutation(seqno, f"k{seqno}")


def something_of_the_snapshot_was_lost(_: Stream, lacks: Stream) -> None:
    changes(lacks, 2)
    lacks.snapshot(3, 7, "memory", "checkpoint")
    for seqno in (3, 5):
        lacks.mutation(seqno, f"k{seqno}")
    assert isinstance(lacks.conversation, Told)
    with lacks.conversation.lost():
        lacks.mutation(6, "k4")
    lacks.mutation(7, "k7")


@pytest.mark.parametrize(
    "says",
    [
        a_later_version_came,
        a_later_version_came_under_a_stream_id,
        the_snapshot_is_not_complete,
    ],
)
def test_it_is_not_missing_while_a_later_version_may_stand_for_it(
    says: Callable[[Stream, Stream], None],
) -> None:
    (one, shows), (two, lacks) = pair()
    later_marker(shows)
    says(shows, lacks)
    assert gap(one, two)["cause"] == "deduplicated"


def test_it_is_not_missing_where_the_later_version_may_have_been_lost() -> None:
    (one, shows), (two, lacks) = pair()
    later_marker(shows)
    something_of_the_snapshot_was_lost(shows, lacks)
    causes = {record["cause"] for record in tables(one, two).gaps}
    assert causes == {"deduplicated", "capture-loss"}


def test_a_document_whose_deletion_was_purged_is_not_missing() -> None:
    (one, shows), (two, lacks) = pair()
    changes(shows, 4)
    shows.snapshot(5, 6, "memory", "checkpoint")
    shows.deletion(5, "k2")
    shows.mutation(6, "k6")
    # The backfill finds neither the document nor, after the purge, its deletion.
    changes(lacks, 6, "disk", "checkpoint", without=[2, 5])
    assert {record["cause"] for record in tables(one, two).gaps} == {"deduplicated"}


@pytest.mark.parametrize("removes", [Stream.deletion, Stream.expiration])
def test_a_deletion_that_was_purged_is_not_missing(
    removes: Callable[[Stream, int, str], None],
) -> None:
    (one, shows), (two, lacks) = pair()
    shows.snapshot(0, 3, "disk", "checkpoint")
    shows.mutation(1, "k1")
    removes(shows, 2, "k2")
    shows.mutation(3, "k3")
    changes(lacks, 3, "disk", "checkpoint", without=[2])
    assert gap(one, two)["cause"] == "deduplicated"


def test_documents_of_a_collection_that_was_dropped_are_not_missing() -> None:
    (one, shows), (two, lacks) = pair()
    for stream, has_document in ((shows, True), (lacks, False)):
        stream.snapshot(0, 4, "disk", "checkpoint")
        stream.mutation(1, "k1")
        if has_document:
            stream.mutation(2, "k2", collection=8)
        stream.system_event(3, "end-collection", manifest_uid=3, scope_id=0, collection_id=8)
        stream.mutation(4, "k4")
    assert gap(one, two)["cause"] == "deduplicated"


@pytest.mark.parametrize(
    ("mine", "cause"),
    [
        ({"value": {"collections": ["9"]}}, "filtered"),
        ({"value": {"scope": "0"}}, "filtered"),
        ({"value": {"collections": ["0", "9"]}}, "unexplained"),
    ],
    ids=["another collection", "a scope, of collections unknown", "its collection"],
)
def test_it_is_missing_only_where_it_was_asked_for(mine: dict[str, Any], cause: str) -> None:
    (one, shows), (two, lacks) = pair(mine=mine)
    later_marker(shows)
    later_marker(lacks, without=[4])
    assert gap(one, two)["cause"] == cause


def test_a_collection_that_its_user_may_not_see_is_not_missing() -> None:
    (one, shows), (two, lacks) = pair()
    for stream in (shows, lacks):
        changes(stream, 2)
        stream.snapshot(3, 5, "memory", "checkpoint")
        stream.mutation(3, "k3")
        if stream is shows:
            stream.mutation(4, "k4", collection=8)
        stream.mutation(5, "k5")
    assert gap(one, two)["cause"] == "deduplicated"


def test_a_collection_of_which_anything_came_in_the_snapshot_is_one_that_its_user_sees() -> None:
    (one, shows), (two, lacks) = pair()
    for stream, seqnos in ((shows, (1, 3, 4, 5)), (lacks, (1, 3, 5))):
        stream.snapshot(0, 5, "memory", "checkpoint")
        for seqno in seqnos:
            stream.mutation(seqno, f"k{seqno}", collection=0 if seqno == 5 else 8)
    found = [one for one in tables(one, two).gaps if one["connection"] == 2]
    assert [(gap["after_seqno"], gap["cause"]) for gap in found] == [
        (1, "deduplicated"),
        (3, "unexplained"),
    ]


def test_another_branch_tells_nothing() -> None:
    (one, shows), (two, lacks) = pair(mine={})
    other = opened("lacks:2", port=50_002).stream(7, log=[(0xEEEE, 0)])
    later_marker(shows)
    later_marker(other, without=[4])
    assert isinstance(other.conversation, Told)
    assert gap(one, other.conversation)["cause"] == "deduplicated"
    del two, lacks


def test_what_nobody_can_look_up_is_said_not_to_be_compared() -> None:
    (one, shows), (two, lacks) = pair()
    later_marker(shows)
    later_marker(lacks, without=[4])
    found = gap(one, two, remembers=False)
    assert found["cause"] == "deduplicated"
    assert found["evidence"].endswith("; other streams not compared")


def both(first: int, last: int, without: Sequence[int]) -> tuple[Told, Stream, Stream]:
    """One connection that shows a vbucket twice, under two stream-ids: the second lacks some
    seqnos.
    """
    talk = opened(enable_stream_id="true")
    shows, lacks = (talk.stream(7, log=LOG, value={"sid": sid}) for sid in (1, 2))
    for start in range(first, last, 10):
        for stream in (shows, lacks):
            changes(stream, start + 9, start=start, without=without if stream is lacks else ())
    return talk, shows, lacks


def told_of(gaps: list[dict[str, Any]]) -> dict[int, tuple[str, bool]]:
    """Cause of each gap by the seqno before it, and whether it says that streams were not
    compared.
    """
    return {
        one["after_seqno"]: (one["cause"], one["evidence"].endswith("not compared")) for one in gaps
    }


@pytest.mark.slow
def test_what_was_told_before_it_had_to_be_forgotten_stays_told() -> None:
    talk, *_ = both(1, 201, without=[14, 114, 194])
    whole, part = Seen(packets(talk)), Seen(packets(talk), (3,) * 400, most=100)
    assert told_of(whole.gaps) == dict.fromkeys((13, 113, 193), ("unexplained", False))
    assert part.gaps == whole.gaps


@pytest.mark.slow
def test_what_comes_after_the_other_was_forgotten_is_said_not_to_be_compared() -> None:
    talk = opened(enable_stream_id="true")
    shows, lacks = (talk.stream(7, log=LOG, value={"sid": sid}) for sid in (1, 2))
    changes(shows, 200)
    changes(lacks, 200, without=[14, 190])
    whole, part = (Seen(packets(talk), (3,) * 400, most=most).gaps for most in (1000, 300))
    assert told_of(whole) == {13: ("unexplained", False), 189: ("unexplained", False)}
    assert told_of(part)[13] == ("deduplicated", True)


def looked_for(seen: Seen) -> list[EventQuery]:
    """What is looked for to compare streams again."""
    found: list[EventQuery] = []

    def look(wanted: EventQuery) -> FoundEvents:
        found.append(wanted)
        return FoundEvents(wanted)

    seen.tracker.compare(look)
    return found


@pytest.mark.slow
def test_more_events_than_memory_allows_are_compared_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = opened(enable_stream_id="true")
    for vbucket in (7, 8, 9, 30):
        for sid in (1, 2):
            changes(
                talk.stream(vbucket, log=LOG, value={"sid": sid}),
                30,
                without=[] if sid == 1 else [5],
            )
    captured = packets(talk)
    seen = Seen(captured, remembers=False)
    (wanted,) = looked_for(seen)
    shown = again(captured)(wanted)
    count = sum(len(shown.stream_events(stream)) for stream in range(8))
    looks = []
    for most in (count, count // 2, count // 4, count // 4 - 1):
        monkeypatch.setattr(events, "MOST", most)
        turns: list[int] = []
        seen.tracker.compare(again(captured, turns))
        looks.append(len(turns))
        gaps = seen.tracker.tables(seen.links).gaps.records()
        assert {one["cause"] for one in gaps} == (
            {"unexplained"} if most >= count // 4 else {"deduplicated"}
        )
    assert looks == [1, 2, 4, 2]


def again(
    captured: Sequence[Packet], turns: list[int] | None = None
) -> Callable[[EventQuery], FoundEvents]:
    """Reads packets once more; ``turns`` gets a number each time."""

    def look(wanted: EventQuery) -> FoundEvents:
        shown = FoundEvents(wanted)
        engine = Engine(["told.pcap"], ports=(PORT,))
        for batch in [
            *(engine.feed(part) for part in batches(captured, [5] * 500)),
            engine.finish(),
        ]:
            if batch is not None:
                shown.feed(batch)
        if turns is not None:
            turns.append(shown.vbuckets)
        return shown

    return look


def test_of_many_other_streams_some_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    talks = [opened(f"c{number}:1", port=50_000 + number) for number in range(5)]
    for number, talk in enumerate(talks):
        changes(talk.stream(7, log=LOG), 9, without=[3] if number == 4 else [])
    seen = Seen(packets(*talks))
    assert [one["cause"] for one in seen.gaps] == ["unexplained"]
    wanted: list[int] = []
    for most in (1, 3, 99):
        monkeypatch.setattr(disputes, "MOST_OTHERS", most)
        wanted += [len(one.keys) for one in looked_for(seen)]
    assert wanted == [2, 4, 5]


def test_streams_that_agree_are_not_looked_at() -> None:
    (one, shows), (two, lacks) = pair()
    later_marker(shows, without=[4])
    later_marker(lacks, without=[4])
    assert looked_for(Seen(packets(one, two), remembers=False)) == []


@pytest.mark.parametrize(("later", "cause"), [(False, "unexplained"), (True, "deduplicated")])
def test_a_change_in_history_is_the_latest_of_its_key_only_if_no_other_follows(
    later: bool, cause: str
) -> None:
    (one, shows), (two, lacks) = pair()
    shows.snapshot(0, 5, "disk", "checkpoint", "history")
    shows.mutation(1, "a")
    shows.mutation(2, "b")
    if later:
        shows.deletion(3, "b")
    shows.mutation(4, "d")
    shows.mutation(5, "e")
    changes(lacks, 5, "disk", "checkpoint", without=[2, 3])  # and the deletion was purged
    assert gap(one, two)["cause"] == cause


def hidden(stream: Stream, *kinds: str) -> None:
    """A snapshot of two mutations, and between them what only sync writes show."""
    stream.snapshot(0, 4, *kinds)
    stream.mutation(1, "k1")
    stream.prepare(2, "k2", {})
    stream.abort(2, 3, "k2")
    stream.mutation(4, "k4")


def test_what_is_invisible_is_not_missing_from_a_snapshot_with_history() -> None:
    kinds = ("disk", "checkpoint", "history", "may-duplicate-keys")
    (one, shows), (two, lacks) = pair()
    hidden(shows, *kinds)
    changes(lacks, 4, *kinds, without=[2, 3])
    assert gap(one, two)["cause"] == "invisible"


def test_what_is_invisible_is_not_the_tail_of_a_snapshot() -> None:
    (one, shows), (two, lacks) = pair()
    for stream in (shows, lacks):
        stream.snapshot(0, 3, "memory", "checkpoint")
        stream.mutation(1, "k1")
        if stream is shows:
            stream.prepare(2, "k2", {})
            stream.abort(2, 3, "k2")
        stream.snapshot(4, 5, "memory", "checkpoint")
        stream.mutation(4, "k4")
    found = gap(one, two)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (1, 4, "invisible")


def test_where_a_message_cannot_be_read_what_another_stream_shows_does_not_count() -> None:
    (one, shows), (two, lacks) = pair()
    hidden(shows, "memory", "checkpoint")
    lacks.snapshot(0, 4, "memory", "checkpoint")
    lacks.mutation(1, "k1")
    two.send(
        "server",
        bytes.fromhex("8057000013000007" + "00000013" + f"{lacks.opaque:08x}" + "00" * 8)
        + bytes(19),
    )
    lacks.mutation(4, "k4")
    assert gap(one, two)["cause"] == "capture-loss"


def test_a_document_is_missing_although_its_marker_calls_it_invisible() -> None:
    (one, shows), (two, lacks) = pair()
    later_marker(shows)
    changes(lacks, 2)
    lacks.snapshot(3, 6, "memory", "checkpoint", version="v2.0", max_visible_seqno=3)
    for seqno in (3, 5, 6):
        lacks.mutation(seqno, f"k{seqno}")
    assert gap(one, two)["cause"] == "unexplained"


def was_deleted(stream: Stream) -> None:
    stream.deletion(4, "k1")


def ran_out(stream: Stream) -> None:
    stream.expiration(4, "k1")


def was_committed(stream: Stream) -> None:
    stream.prepare(3, "k1", {})
    stream.commit(3, 4, "k1")


@pytest.mark.parametrize("changed", [was_deleted, ran_out, was_committed])
def test_whatever_changes_a_document_may_be_missing(changed: Callable[[Stream], None]) -> None:
    (one, shows), (two, lacks) = pair()
    for stream in (shows, lacks):
        changes(stream, 2)
        stream.snapshot(3, 6, "memory", "checkpoint")
        if stream is shows:
            changed(stream)
        stream.mutation(5, "k5")
        stream.mutation(6, "k6")
    found = gap(one, two)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (2, 5, "unexplained")


def test_another_vbucket_tells_nothing_even_if_its_branch_has_the_same_uuid() -> None:
    one, two = opened("shows:1"), opened("lacks:1", port=50_001)
    later_marker(one.stream(7, log=LOG))
    later_marker(two.stream(8, log=LOG), without=[4])
    assert gap(one, two)["cause"] == "deduplicated"


def test_of_what_several_streams_tell_the_worst_counts_whoever_tells_it_first() -> None:
    nobody_knows, nothing, something = (
        disputes.Comparison(cause, 1) for cause in (-1, w.INVISIBLE, w.UNEXPLAINED)
    )
    for less, more in ((nobody_knows, nothing), (nobody_knows, something), (nothing, something)):
        assert less.or_rather(more) is more
        assert more.or_rather(less) is more


# -- a snapshot here that several span there
# ------------------------------------------------------------------------------


def in_three(stream: Stream, *last: str) -> None:
    """Snapshots 0–3, 4–6 and 7–9, the last one of these kinds."""
    changes(stream, 3)
    changes(stream, 6, start=4)
    changes(stream, 9, *(last or ("memory", "checkpoint")), start=7)


def unordered(stream: Stream, without: Sequence[int] = (), advanced: int | None = None) -> None:
    stream.oso("start")
    for seqno in (9, 8, 7, 6, 5, 4, 3, 2, 1):
        if seqno not in without:
            stream.mutation(seqno, f"k{seqno}")
    if advanced is not None:
        stream.seqno_advanced(advanced)
    stream.oso("end")


def in_memory(stream: Stream) -> None:
    changes(stream, 9, without=[5])


def from_disk(stream: Stream) -> None:
    changes(stream, 9, "disk", "checkpoint", without=[5])


def out_of_order(stream: Stream) -> None:
    unordered(stream, without=[5])


LACKING = pytest.mark.parametrize("lacks_it", [in_memory, from_disk, out_of_order])
NOT_MISSING = {"deduplicated", "oso"}


@LACKING
def test_it_is_missing_in_a_first_snapshot_that_several_snapshots_there_span(
    lacks_it: Callable[[Stream], None],
) -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    in_three(shows)
    lacks_it(lacks)
    found = gap(one, two)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (4, 6, "unexplained")
    assert found["evidence"] == (
        "connection 1 was sent seqno 5 in row 15, and this stream got neither that nor a later "
        "version before the snapshot was complete"
    )
    assert found["rows"][0] == 15


@LACKING
@pytest.mark.parametrize("showing", [Stream.mutation, Stream.deletion, Stream.expiration])
def test_it_is_not_missing_where_a_later_snapshot_there_changes_it(
    lacks_it: Callable[[Stream], None], showing: Callable[[Stream, int, str], None]
) -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    changes(shows, 3)
    changes(shows, 6, start=4)
    shows.snapshot(7, 12, "memory", "checkpoint")
    shows.mutation(7, "k7")
    showing(shows, 11, "k5")  # which stands for one that may have been at 8 or 9
    shows.mutation(12, "k12")
    lacks_it(lacks)
    assert gap(one, two)["cause"] in NOT_MISSING


def ends_below(stream: Stream) -> None:
    changes(stream, 3)
    changes(stream, 6, start=4)


def is_not_complete(stream: Stream) -> None:
    ends_below(stream)
    changes(stream, 8, start=7)
    stream.snapshot(9, 20, "memory", "checkpoint")
    stream.mutation(9, "k9")


def may_lack_a_purged_deletion(stream: Stream) -> None:
    in_three(stream, "disk", "checkpoint")


def lost_a_later_snapshot(stream: Stream) -> None:
    ends_below(stream)
    assert isinstance(stream.conversation, Told)
    with stream.conversation.lost():
        stream.snapshot(7, 8, "memory", "checkpoint")
        stream.mutation(8, "k5")
    changes(stream, 9, start=9)


@LACKING
@pytest.mark.parametrize(
    "knows", [ends_below, is_not_complete, may_lack_a_purged_deletion, lost_a_later_snapshot]
)
def test_it_is_not_missing_where_the_other_stream_does_not_know_that_no_later_one_came(
    lacks_it: Callable[[Stream], None], knows: Callable[[Stream], None]
) -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    knows(shows)
    lacks_it(lacks)
    assert gap(one, two)["cause"] in NOT_MISSING


def test_a_marker_that_says_what_was_purged_lets_a_later_snapshot_from_disk_count() -> None:
    for purged, cause in ((4, "unexplained"), (8, "deduplicated")):
        (one, shows), (two, lacks) = pair()
        ends_below(shows)
        shows.snapshot(
            7,
            9,
            "disk",
            "checkpoint",
            version="v2.2",
            max_visible_seqno=9,
            high_completed_seqno=0,
            purge_seqno=purged,
        )
        for seqno in (7, 8, 9):
            shows.mutation(seqno, f"k{seqno}")
        from_disk(lacks)
        assert gap(one, two)["cause"] == cause


@pytest.mark.parametrize("removes", [Stream.deletion, Stream.expiration])
@LACKING
def test_a_deletion_that_several_snapshots_there_span_may_have_been_purged_here(
    lacks_it: Callable[[Stream], None], removes: Callable[[Stream, int, str], None]
) -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    changes(shows, 3)
    shows.snapshot(4, 6, "memory", "checkpoint")
    shows.mutation(4, "k4")
    removes(shows, 5, "k5")
    shows.mutation(6, "k6")
    changes(shows, 9, start=7)
    lacks_it(lacks)
    assert gap(one, two)["cause"] in NOT_MISSING


@pytest.mark.parametrize(
    ("value", "cause"),
    [({"collections": ["0"]}, "unexplained"), ({"collections": ["8"]}, "oso")],
    ids=["its collection", "another"],
)
def test_it_is_missing_out_of_order_only_where_it_was_asked_for(
    value: dict[str, Any], cause: str
) -> None:
    (one, shows), (two, lacks) = pair(
        mine={"value": value}, controls={"enable_out_of_order_snapshots": "true"}
    )
    in_three(shows)
    unordered(lacks, without=[5])
    assert gap(one, two)["cause"] == cause


def later_version(stream: Stream) -> None:
    stream.oso("start")
    for seqno, key in (
        (9, "k5"),
        (8, "k8"),
        (7, "k7"),
        (6, "k6"),
        (4, "k4"),
        (3, "k3"),
        (2, "k2"),
        (1, "k1"),
    ):
        stream.mutation(seqno, key)
    stream.oso("end")


def is_still_open(stream: Stream) -> None:
    stream.oso("start")
    stream.mutation(9, "k9")


def was_advanced(stream: Stream) -> None:
    unordered(stream, without=[5], advanced=12)


@pytest.mark.parametrize("comes", [later_version, is_still_open, was_advanced])
def test_nothing_is_missing_out_of_order_that_may_have_changed_or_may_still_come(
    comes: Callable[[Stream], None],
) -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    in_three(shows)
    comes(lacks)
    assert {record["cause"] for record in tables(one, two).gaps} <= {"oso", "seqno-advanced"}


def test_what_is_invisible_stays_the_gap_of_an_out_of_order_snapshot() -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    hidden(shows, "memory", "checkpoint")
    lacks.oso("start")
    for seqno in (4, 1):
        lacks.mutation(seqno, f"k{seqno}")
    lacks.oso("end")
    assert gap(one, two)["cause"] == "oso"


def test_nothing_is_missing_out_of_order_where_some_of_it_was_lost() -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    in_three(shows)
    lacks.oso("start")
    for seqno in (9, 8, 7, 6, 5, 4, 3, 2, 1):
        if seqno == 5:
            with two.lost():
                lacks.mutation(5, "k5")
        else:
            lacks.mutation(seqno, f"k{seqno}")
    lacks.oso("end")
    assert gap(one, two)["cause"] == "capture-loss"


def test_what_an_out_of_order_snapshot_shows_is_missing_elsewhere() -> None:
    (one, shows), (two, lacks) = pair()
    unordered(shows)
    from_disk(lacks)
    assert gap(one, two)["cause"] == "unexplained"


def test_gaps_out_of_order_are_told_of_as_those_of_a_file_that_is_read_again() -> None:
    (one, shows), (two, lacks) = pair(controls={"enable_out_of_order_snapshots": "true"})
    in_three(shows)
    unordered(lacks, without=[5])
    captured = packets(one, two)
    seen = Seen(captured, remembers=False)
    seen.tracker.compare(again(captured))
    gaps = seen.tracker.tables(seen.links).gaps.records()
    assert [one["cause"] for one in gaps] == ["unexplained"]
    assert Seen(captured).gaps == gaps
    (forgotten,) = Seen(captured, (3,) * 100, most=4).gaps
    assert (
        forgotten["cause"],
        forgotten["evidence"].endswith("complete without them; other streams not compared"),
    ) == ("oso", True)


def _near(spans: IntArray, streams: Streams, branches: IntArray) -> list[bool]:
    """As ``disputable``, pair by pair."""
    numbers = range(len(streams))
    found = [False] * len(streams)
    for one in numbers:
        for other in numbers:
            is_alike = one != other and branches[one] != 0 and branches[one] == branches[other]
            is_alike &= (
                streams.vbucket[one] == streams.vbucket[other]
                and min(streams.seen[one], streams.seen[other]) > 0
            )
            starts = (
                streams.first[other],
                streams.request.start[other] if streams.request.is_captured[other] else LEAST,
            )
            if is_alike and min(starts) < spans[one, 1] and streams.last[other] > spans[one, 0]:
                found[one] = found[other] = True
    return found


def test_streams_may_be_in_dispute_that_have_what_a_gap_of_another_one_lacks() -> None:
    chance, count = np.random.default_rng(5), 0
    for _ in range(300):
        size = int(chance.integers(1, 12))
        streams, spans = Streams.zeros(size), disputes.no_spans(size)
        streams.vbucket, branches = chance.integers(0, 2, size), chance.integers(0, 3, size)
        first = chance.integers(0, 12, size)
        streams.seen, streams.request.is_captured = (
            chance.integers(0, 4, size),
            chance.integers(0, 2, size),
        )
        streams.first, streams.last = first + LEAST, first + chance.integers(0, 8, size) + LEAST
        streams.request.start = streams.first - np.minimum(first, chance.integers(0, 4, size))
        has_gaps = chance.random(size) < 0.5
        spans[has_gaps, 0] = (chance.integers(0, 15, size) + LEAST)[has_gaps]
        spans[has_gaps, 1] = spans[has_gaps, 0] + chance.integers(1, 7, size)[has_gaps]
        found = disputes.disputable(spans, streams, branches).tolist()
        assert found == _near(spans, streams, branches)
        count += sum(found)
    assert count > 100


@pytest.mark.parametrize("at_once", [1, 50, 1 << 18])
def test_gaps_are_compared_with_streams_that_show_some_of_their_seqnos(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the definition, pair by pair, for random streams and gaps; ``at_once``: pairs that are
    compared together.
    """
    monkeypatch.setattr(disputes, "_AT_ONCE", at_once)
    monkeypatch.setattr(disputes, "MOST_OTHERS", 3)
    rng, told = np.random.default_rng(1), 0
    for _ in range(60):
        streams, gaps = (
            Streams.zeros(int(rng.integers(1, 20))),
            Gaps.zeros(int(rng.integers(0, 60))),
        )
        size, count = len(streams), len(gaps)
        streams.vbucket, streams.seen, branches = (
            rng.integers(0, 2, size),
            rng.integers(0, 3, size),
            rng.integers(0, 3, size),
        )
        streams.request.is_captured, streams.request.start = (
            rng.integers(0, 2, size),
            rng.integers(-60, 50, size),
        )
        streams.first = rng.integers(-50, 50, size)
        streams.last = streams.first + rng.integers(0, 100, size)
        gaps.stream, gaps.after = rng.integers(0, size, count), rng.permutation(count) - count // 2
        gaps.before = gaps.after + rng.integers(2, 40, count)
        cause = rng.choice([w.LOSS, w.UNEXPLAINED, w.ROLLBACK], count)
        found = [
            pair
            for gap, other in disputes._disputed(gaps, cause, streams, branches)
            for pair in zip(gap, other, strict=True)
        ]
        assert sorted(found) == by_definition(gaps, cause, streams, branches)
        told += len(found)
    assert told > 100


def by_definition(
    gaps: Gaps, cause: IntArray, streams: Streams, branches: IntArray
) -> list[tuple[int, int]]:
    """Pairs of a gap and another stream that shows some of its seqnos."""
    found = []
    for stream in range(len(streams)):
        mine = [
            gap
            for gap in range(len(gaps))
            if gaps.stream[gap] == stream and cause[gap] == w.UNEXPLAINED
        ]
        near = []
        for other in (
            range(len(streams)) if mine and branches[stream] and streams.seen[stream] else ()
        ):
            first = min(
                streams.first[other],
                streams.request.start[other] if streams.request.is_captured[other] else LEAST,
            )
            is_same = (
                streams.seen[other]
                and branches[other] == branches[stream]
                and streams.vbucket[other] == streams.vbucket[stream]
            )
            meets = first < max(gaps.before[mine]) and streams.last[other] > min(gaps.after[mine])
            near += [(other, first)] if is_same and meets and other != stream else []
        for gap in mine:
            for other, first in near[: disputes.MOST_OTHERS]:
                theirs = [
                    number
                    for number in range(len(gaps))
                    if gaps.stream[number] == other and gaps.after[number] <= gaps.after[gap]
                ]
                last = max(theirs, key=lambda number: int(gaps.after[number]), default=None)
                is_lacking = last is not None and gaps.before[last] >= gaps.before[gap]
                if (
                    gaps.before[gap] > first
                    and gaps.after[gap] < streams.last[other]
                    and not is_lacking
                ):
                    found.append((gap, other))
    return sorted(found)
