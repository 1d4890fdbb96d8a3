"""What a comparison finds, and why one side lacks an event, from pairs of conversations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.diff.difference_columns import DIFFERENCES, KINDS, VERDICT_OF
from dcpinspect.diff.differences import evidence
from dcpinspect.streams import words as w
from dcpinspect.tables.select import Selection
from tests.captures import field, real_server
from tests.diff.pairs import brief, compared, streaming, told
from tests.peers.script import Stream
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, capture

Pair = tuple[Told, Told]


def talk_of(stream: Stream) -> Told:
    """The conversation that a stream is of."""
    assert isinstance(stream.conversation, Told)
    return stream.conversation


def pair(a: Callable[[Stream], None], b: Callable[[Stream], None], **asked: object) -> Pair:
    """Two connections with the same request, and what each is told then."""
    found = []
    for tell in (a, b):
        talk, stream = streaming(**asked)  # type: ignore[arg-type]
        tell(stream)
        found.append(talk)
    return found[0], found[1]


def documents(
    *seqnos: int, end: int = 9, keys: str = "k{}", lost: tuple[int, ...] = (), kind: str = "memory"
) -> Callable[[Stream], None]:
    """A first snapshot up to 3 that is over, then one up to ``end`` with these seqnos."""

    def tell(stream: Stream) -> None:
        stream.snapshot(0, 3, "memory", "checkpoint")
        for seqno in (1, 2, 3):
            stream.mutation(seqno, f"first{seqno}")
        stream.snapshot(4, end, kind, "checkpoint")
        for seqno in seqnos:
            if seqno in lost:
                with talk_of(stream).lost():
                    stream.mutation(seqno, keys.format(seqno))
            else:
                stream.mutation(seqno, keys.format(seqno))

    return tell


ALL = documents(4, 5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    "path",
    [
        "rollback.pcap",
        "snapshots.pcap",
        "tour.pcapng",
        "upr.pcap",
        "capture-loss.pcap",
        "orphans.pcap",
    ],
)
def test_a_capture_does_not_differ_from_itself(path: str) -> None:
    found = compared(SAMPLES / path, SAMPLES / path)
    assert (found.rows, found.is_different, found.common > 0) == ([], False, True)


def test_an_event_that_did_not_come_although_its_snapshot_is_complete_was_not_sent(
    tmp_path: Path,
) -> None:
    found = told(tmp_path, *pair(ALL, documents(4, 5, 7, 8, 9)))
    assert brief(found) == [("not-sent", "b", 6, 6, 1)]
    (row,) = found.rows
    assert (row["key"], row["a_name"], row["b_name"], row["vbucket"], row["vbucket_uuid"]) == (
        "k6",
        "dcp_mutation",
        None,
        7,
        0xABCD,
    )
    assert row["evidence"] == "connection 1 of B goes from 5 to 7 in a snapshot that ends at 9"
    assert found.is_different


def test_a_later_version_in_the_snapshot_stands_for_an_event(tmp_path: Path) -> None:
    def twice(stream: Stream) -> None:
        documents(4, 5, end=9)(stream)
        stream.mutation(6, "same")
        stream.mutation(9, "same")

    def once(stream: Stream) -> None:
        documents(4, 5, end=9)(stream)
        stream.mutation(9, "same")

    found = told(tmp_path, *pair(twice, once))
    assert brief(found) == [("deduplicated", "b", 6, 6, 1)]
    assert not found.is_different


def test_a_later_version_of_another_snapshot_does_not(tmp_path: Path) -> None:
    def tell(*seqnos: int) -> Callable[[Stream], None]:
        def all_of(stream: Stream) -> None:
            documents(*seqnos)(stream)
            stream.snapshot(10, 12, "memory", "checkpoint")
            for seqno, key in ((10, "k10"), (11, "k6"), (12, "k12")):
                stream.mutation(seqno, key)

        return all_of

    found = told(tmp_path, *pair(tell(4, 5, 6, 7, 8, 9), tell(4, 5, 7, 8, 9)))
    assert brief(found) == [("not-sent", "b", 6, 6, 1)]


def test_what_a_capture_lost_is_no_difference(tmp_path: Path) -> None:
    found = told(tmp_path, *pair(ALL, documents(4, 5, 6, 7, 8, 9, lost=(5, 6))))
    assert brief(found) == [("capture-loss", "b", 5, 6, 2)]
    assert not found.is_different


def test_events_of_two_gaps_are_two_records(tmp_path: Path) -> None:
    found = told(tmp_path, *pair(ALL, documents(4, 5, 6, 7, 8, 9, lost=(5, 8))))
    assert brief(found) == [("capture-loss", "b", 5, 5, 1), ("capture-loss", "b", 8, 8, 1)]
    assert [row["evidence"] for row in found.rows] == [
        f"connection 1 of B goes from {seqno - 1} to {seqno + 1} in a snapshot that ends at 9"
        for seqno in (5, 8)
    ]


def test_what_was_before_a_capture_began_is_no_difference(tmp_path: Path) -> None:
    def late(stream: Stream) -> None:
        documents(4)(stream)
        talk_of(stream).begin()
        for seqno in (5, 6, 7, 8, 9):
            stream.mutation(seqno, f"k{seqno}")

    found = told(tmp_path, *pair(late, ALL))
    assert brief(found) == [("before-capture", "a", 1, 4, 4)]
    assert found.assumed == {"a": 1, "b": 0}
    assert found.common == 5


def test_the_history_of_a_stream_that_is_not_compared_is_not_missed() -> None:
    """A capture of the client's packets alone has requests, but no answer and no event."""
    found = compared(field("t00-base"), field("q09-only-dst-port"))
    assert (found.vbuckets["b"], found.assumed) == (0, {"a": 0, "b": 0})


def test_a_stream_that_asked_for_less_is_no_difference(tmp_path: Path) -> None:
    whole, _ = pair(ALL, ALL)
    talk, stream = streaming(start=7)
    stream.snapshot(7, 9, "memory", "checkpoint")
    stream.mutation(8, "k8")
    stream.mutation(9, "k9")
    found = told(tmp_path, whole, talk)
    assert [one for one in brief(found) if one[0] != "snapshot"] == [("not-asked", "b", 1, 7, 7)]


@pytest.mark.parametrize("is_lost", [True, False])
def test_what_was_lost_between_two_streams_is_capture_loss(
    tmp_path: Path, *, is_lost: bool
) -> None:
    """The end of the first stream was captured, and its last event before that was not, or was
    never sent.
    """
    whole, _ = pair(ALL, ALL)
    talk, stream = streaming()
    documents(4, 5)(stream)
    if is_lost:
        with talk.lost():
            stream.mutation(6, "k6")
            stream.mutation(7, "k7")
    stream.end("state-changed")
    again = talk.stream(7, start=7, uuid=0xABCD, log=[(0xABCD, 0)])
    again.snapshot(7, 9, "memory", "checkpoint")
    again.mutation(8, "k8")
    again.mutation(9, "k9")
    found = told(tmp_path, whole, talk)
    kind = "capture-loss" if is_lost else "not-asked"
    assert [one for one in brief(found) if one[0] != "snapshot"] == [(kind, "b", 6, 7, 2)]
    assert [row["evidence"] for row in found.rows] == [
        f"B's streams cover 1–9{', with capture loss within that' if is_lost else ''}"
    ]


def test_who_is_ahead_is_told(tmp_path: Path) -> None:
    found = told(tmp_path, *pair(ALL, documents(4, 5)))
    assert brief(found) == [("not-reached", "b", 6, 9, 4)]
    assert [(one.vbucket, one.a, one.b) for one in found.reached] == [(7, 9, 5)]


def test_before_the_last_of_a_snapshot_that_is_cut_a_later_version_may_be_to_come(
    tmp_path: Path,
) -> None:
    found = told(tmp_path, *pair(ALL, documents(4, 7)))
    assert brief(found) == [("not-reached", "b", 8, 9, 2), ("unknown", "b", 5, 6, 2)]
    assert found.rows[1]["evidence"] == (
        "connection 1 of B goes from 4 to 7 in a snapshot that ends at 9"
    )


def test_a_filter_tells_what_is_lacking_and_differs_itself(tmp_path: Path) -> None:
    def both(stream: Stream) -> None:
        stream.snapshot(0, 3, "memory", "checkpoint")
        stream.mutation(1, "a", collection=8)
        stream.mutation(2, "b", collection=9)
        stream.mutation(3, "c", collection=8)

    def one(stream: Stream) -> None:
        stream.snapshot(0, 3, "memory", "checkpoint")
        stream.mutation(1, "a", collection=8)
        stream.mutation(3, "c", collection=8)

    a, b = streaming(), streaming(value={"collections": ["8"]})
    both(a[1])
    one(b[1])
    found = told(tmp_path, a[0], b[0])
    assert brief(found) == [("filter", None, None, None, None), ("filtered", "b", 2, 2, 1)]
    assert found.rows[0]["evidence"] == (
        "A asked for all collections (opened with producer); B for collections 8 (opened with "
        "producer)"
    )


def test_a_prepare_that_a_client_may_not_see_is_filtered_although_its_commit_came() -> None:
    path = real_server("durability")
    plain, replica = (Selection(connections=(range(one, one + 1),)) for one in (2, 3))
    found = compared(path, path, (plain, replica))
    assert found.counts == {("filtered", "a"): (16, 2), ("snapshot", None): (0, 2)}


def test_branches_that_parted_are_another_history(tmp_path: Path) -> None:
    a, b = streaming(), streaming(log=((0xEEEE, 3), (0xABCD, 0)))
    ALL(a[1])
    documents(4, 5, keys="other{}")(b[1])
    found = told(tmp_path, a[0], b[0])
    assert brief(found) == [("other-history", "a", 4, 5, 2), ("other-history", "b", 4, 9, 6)]
    assert found.common == 3
    assert found.is_different


def test_a_newer_branch_of_who_had_come_no_further_is_the_same_history(tmp_path: Path) -> None:
    a, b = streaming(), streaming(log=((0xEEEE, 3), (0xABCD, 0)))
    a[1].snapshot(0, 3, "memory", "checkpoint")
    for seqno in (1, 2, 3):
        a[1].mutation(seqno, f"first{seqno}")
    ALL(b[1])
    assert [one for one in brief(told(tmp_path, a[0], b[0])) if one[0] != "snapshot"] == [
        ("not-reached", "a", 4, 9, 6)
    ]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (lambda stream: stream.mutation(4, "k4", b"other"), ["value"]),
        (lambda stream: stream.mutation(4, "k5"), ["key"]),
        (lambda stream: stream.deletion(4, "k4"), ["state"]),
        (lambda stream: stream._event("dcp_mutation", 4, "k4", b"", 1, 0, 1), ["datatype"]),
    ],
)
def test_what_differs_is_named(
    change: Callable[[Stream], None], fields: list[str], tmp_path: Path
) -> None:
    def tell(stream: Stream) -> None:
        stream.snapshot(0, 4, "memory", "checkpoint")
        for seqno in (1, 2, 3):
            stream.mutation(seqno, f"k{seqno}", b"")

    def other(stream: Stream) -> None:
        tell(stream)
        change(stream)

    def same(stream: Stream) -> None:
        tell(stream)
        stream.mutation(4, "k4", b"")

    found = told(tmp_path, *pair(same, other))
    assert [(row["kind"], row["first_seqno"], row["fields"]) for row in found.rows] == [
        ("differs", 4, fields)
    ]
    assert (found.rows[0]["a_datatype"] == found.rows[0]["b_datatype"]) == (fields != ["datatype"])


def test_a_vbucket_without_a_stream_is_told_apart(tmp_path: Path) -> None:
    a, b = streaming(), streaming(8)
    ALL(a[1])
    ALL(b[1])
    found = told(tmp_path, a[0], b[0])
    assert brief(found) == [("no-stream", "b", 1, 9, 9), ("no-stream", "a", 1, 9, 9)]
    assert not found.is_different


def test_a_side_may_be_some_connections_or_vbuckets_of_a_capture(tmp_path: Path) -> None:
    healthy, missing = pair(ALL, documents(4, 5, 7, 8, 9))
    missing.port = 50_001
    path = tmp_path / "both.pcap"
    path.write_bytes(capture(healthy, missing))
    one, two = Selection(connections=(range(1, 2),)), Selection(connections=(range(2, 3),))
    assert brief(compared(path, path, (one, two))) == [("not-sent", "b", 6, 6, 1)]
    assert brief(compared(path, path, (Selection(), two))) == [("not-sent", "b", 6, 6, 1)]
    other = Selection(vbuckets=(range(9, 10),))
    assert brief(compared(path, path, (other, other))) == []


def test_of_streams_that_lack_events_for_one_reason_the_earliest_is_told(tmp_path: Path) -> None:
    fewer = documents(*range(5, 90, 2), 90, end=90, keys="same")
    talks = [pair(documents(*range(4, 91), end=90, keys="same"), fewer)[0]]
    talks += (pair(fewer, fewer)[0] for _ in range(8))
    for port, talk in enumerate(talks, 50_000):
        talk.port = port
    path = tmp_path / "many.pcap"
    path.write_bytes(capture(*talks))
    one, others = Selection(connections=(range(1, 2),)), Selection(connections=(range(2, 10),))
    rows = compared(path, path, (one, others)).rows
    assert {(row["kind"], row["b_connection"]) for row in rows} == {("deduplicated", 2)}


def test_ends_of_snapshots_are_not_compared_over_branches_that_part() -> None:
    path = SAMPLES / "rollback.pcap"
    one, two = Selection(connections=(range(1, 2),)), Selection(connections=(range(2, 3),))
    kinds = {kind for kind, _ in compared(path, path, (one, two)).counts}
    assert "other-history" in kinds
    assert "snapshot" not in kinds


def test_a_deletion_may_be_purged_before_a_backfill(tmp_path: Path) -> None:
    def live(stream: Stream) -> None:
        stream.snapshot(0, 3, "memory", "checkpoint")
        stream.mutation(1, "a")
        stream.deletion(2, "b")
        stream.mutation(3, "c")

    def from_disk(stream: Stream) -> None:
        stream.snapshot(0, 3, "disk", "checkpoint")
        stream.mutation(1, "a")
        stream.mutation(3, "c")

    assert brief(told(tmp_path, *pair(live, from_disk))) == [("purged", "b", 2, 2, 1)]


def test_vbuckets_of_different_buckets_are_told_apart(tmp_path: Path) -> None:
    def on(bucket: str, uuid: int, port: int) -> Told:
        talk = Told("test:1", port=port)
        talk.hello("test/1.0", "JSON", "Collections")
        talk.select_bucket(bucket)
        talk.open("test:1", "producer")
        ALL(talk.stream(7, log=[(uuid, 0)], uuid=uuid))
        return talk

    one, two = on("beer", 0xABCD, 50_000), on("travel", 0xEEEE, 50_001)
    for name, talks in (("a", (one, two)), ("b", (one,))):
        (tmp_path / f"{name}.pcap").write_bytes(capture(*talks))
    found = compared(tmp_path / "a.pcap", tmp_path / "b.pcap")
    assert brief(found) == [("no-stream", "b", 1, 9, 9)]
    assert (found.rows[0]["bucket"], found.rows[0]["vbucket"], found.common) == ("travel", 7, 9)
    assert not found.is_different


@pytest.mark.parametrize("live", [False, True])
def test_a_backfill_without_a_document_did_not_send_it(live: bool, tmp_path: Path) -> None:
    def tell(*seqnos: int, kind: str) -> Callable[[Stream], None]:
        def all_of(stream: Stream) -> None:
            stream.snapshot(0, 9, kind, "checkpoint")
            for seqno in seqnos:
                stream.mutation(seqno, f"k{seqno}")

        return all_of

    a, b = tell(1, 2, 4, 6, 9, kind="memory" if live else "disk"), tell(1, 2, 6, 9, kind="disk")
    assert brief(told(tmp_path, *pair(a, b))) == [("not-sent", "b", 4, 4, 1)]


def test_a_backfill_that_goes_further_than_the_other_side_may_lack_what_was_deleted_there(
    tmp_path: Path,
) -> None:
    def live(stream: Stream) -> None:
        stream.snapshot(0, 5, "memory", "checkpoint")
        for seqno in (1, 2, 3, 4, 5):
            stream.mutation(seqno, f"k{seqno}")

    def from_disk(stream: Stream) -> None:
        stream.snapshot(0, 9, "disk", "checkpoint")
        for seqno in (1, 3, 4, 5, 9):
            stream.mutation(seqno, f"k{seqno}")

    assert brief(told(tmp_path, *pair(live, from_disk))) == [
        ("not-reached", "a", 9, 9, 1),
        ("unknown", "b", 2, 2, 1),
        ("snapshot", None, 5, 5, None),
    ]


def test_every_kind_has_a_verdict_and_records_fit_the_contract(tmp_path: Path) -> None:
    assert list(VERDICT_OF) == list(KINDS)
    records = told(tmp_path, *pair(ALL, documents(4, 5, 7, 8, 9))).records().records()
    assert [list(record) for record in records] == [
        ["schema", *(column.name for column in DIFFERENCES.columns)]
    ]


ROW: dict[str, Any] = {
    "connection": 2,
    "fields": ["cas", "value"],
    "a_cas": 1,
    "b_cas": 2,
    "a_asks": ["x"],
    "b_asks": ["y", "z"],
    "ends": 3,
    "a_ends": 4,
    "b_ends": 5,
    "began": None,
    "reached": None,
    "gap_after": 5,
    "gap_before": 9,
    "cause": w.DEDUPLICATED,
    "high": None,
    "snapshot_start": None,
    "is_lost": False,
}
RANGE = {"began": 3, "reached": 8, "gap_after": None, "gap_before": None}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_short_sentence(kind: str) -> None:
    for row in (ROW, ROW | RANGE, ROW | {"high": 10}):
        assert 10 < len(evidence(kind, "b", row)) < 120


@pytest.mark.parametrize(
    ("kind", "more", "told"),
    [
        (
            "differs",
            {},
            "both sides have it: CAS 0x0000000000000001 and 0x0000000000000002, another value",
        ),
        ("filter", {}, "A asked for x; B for y and z"),
        (
            "not-sent",
            {"high": 10},
            "connection 2 of B goes from 5 to 9 in a snapshot that ends at 10",
        ),
        (
            "not-sent",
            {"cause": w.UNEXPLAINED},
            "connection 2 of B goes from 5 to 9, and nothing explains the gap",
        ),
        (
            "not-reached",
            RANGE | {"is_lost": True},
            "B's streams cover 4–8, with capture loss behind that",
        ),
        (
            "other-history",
            {"snapshot_start": 7},
            "B's failover log has another branch there, which left this one at 7",
        ),
    ],
)
def test_numbers_are_told(kind: str, more: dict[str, Any], told: str) -> None:
    assert evidence(kind, "b", ROW | more) == told
