"""Rules about a message's place in its stream: one conversation that breaks each, and those that
look like it and are sound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dcpinspect.findings.checker import Checker
from dcpinspect.findings.sequence_rules import RULES
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.tracker import Tracker
from tests.damage import PORT, batches
from tests.encode import encode, encode_parts
from tests.findings.checked import findings, found_in, told
from tests.peers.script import Side, Stream, hlc
from tests.streams.told import Told, opened, packets, tables


def streaming(*flags: str, start: int = 0) -> tuple[Told, Stream]:
    talk = opened()
    return talk, talk.stream(7, start=start, flags=flags)


def without_stream(stream: Stream) -> None:
    stream.vbucket = 8
    stream.mutation(1, "k")


def after_end(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.end("filter-empty")
    stream.mutation(10, "k")


def other_opaque(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.opaque += 1
    stream.mutation(9, "k")


def before_marker(stream: Stream) -> None:
    stream.mutation(1, "k")


def backwards(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    for seqno in (5, 4, 9):
        stream.mutation(seqno, f"k{seqno}")


def repeated(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.seqno_advanced(9)
    stream.mutation(9, "k")


def outside(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.mutation(12, "m")


def below_start(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.mutation(0, "k")
    stream.mutation(9, "l")


def overlap(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.snapshot(8, 12, "memory")
    stream.mutation(12, "k")


def behind(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.snapshot(3, 8, "memory")


def oso_end(stream: Stream) -> None:
    stream.oso("end")


def prepared(stream: Stream, seqno: int) -> None:
    stream.send(
        "dcp_prepare",
        collection=0,
        key=f"p{seqno}",
        by_seqno=seqno,
        rev_seqno=1,
        durability_level="majority",
        cas=hlc(seqno),
    )


def acknowledged(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    prepared(stream, 7)
    stream.seqno_acknowledged(7)
    stream.seqno_acknowledged(7)
    stream.seqno_acknowledged(5)
    stream.mutation(9, "k")


def twice(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.mutation(3, "order::1")
    stream.mutation(9, "order::1")


def older(stream: Stream) -> None:
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "order::1")
    stream.snapshot(4, 9, "memory")
    stream.send("dcp_mutation", collection=0, key="order::1", by_seqno=9, rev_seqno=2, cas=hlc(2))


def never_prepared(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.commit(4, 9, "k")


def never_begun(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k", collection=0x1F)


def ended(stream: Stream) -> None:
    stream.snapshot(0, 9, "memory")
    stream.system_event(1, "begin-collection", "orders", manifest_uid=1, collection_id=9)
    stream.system_event(2, "end-collection", manifest_uid=2, collection_id=9)
    stream.mutation(9, "k", collection=9)


def twice_named(stream: Stream) -> None:
    stream.snapshot(0, 2, "memory")
    stream.system_event(1, "begin-collection", "orders", manifest_uid=1, collection_id=9)
    stream.system_event(2, "begin-collection", "orders", manifest_uid=2, collection_id=10)


def uids_fall(stream: Stream) -> None:
    stream.snapshot(0, 2, "memory")
    stream.system_event(1, "begin-collection", "orders", manifest_uid=0x20, collection_id=9)
    stream.system_event(2, "begin-collection", "users", manifest_uid=0x1F, collection_id=10)


def test_what_was_never_opened_is_not_reopened() -> None:
    fault, _ = FAULTS["message-without-stream"]
    talk = opened()
    fault(talk.stream(7))
    (found,) = (one for one in findings(talk) if one.rule == "message-without-stream")
    assert found.next.endswith("a client must not use it, and has no stream to reopen")


FAULTS = {
    "message-without-stream": (
        without_stream,
        "mutation of seqno 1 came for a vbucket that was never opened",
    ),
    "message-after-stream-end": (after_end, "mutation of seqno 10 came after the stream end"),
    "opaque-mismatch": (other_opaque, "mutation has opaque 0x"),
    "event-before-marker": (before_marker, "mutation of seqno 1 came before any snapshot marker"),
    "seqno-not-increasing": (backwards, "seqno 4 came after seqno 5"),
    "seqno-repeated-after-advanced": (repeated, "seqno 9 came again after SeqnoAdvanced"),
    "seqno-outside-snapshot": (outside, "seqno 12 is outside its snapshot 0–9"),
    "seqno-below-request-start": (
        below_start,
        "seqno 0 came, although the consumer had all up to seqno 0",
    ),
    "marker-overlap": (overlap, "snapshot marker 8–12 overlaps 0–9"),
    "marker-behind": (behind, "snapshot marker 3–8 ends below the last seqno of the stream"),
    "oso-structure": (oso_end, "OSO snapshot: end without start"),
    "seqno-ack-regress": (acknowledged, "seqno 5 was acknowledged after seqno 7"),
    "duplicate-key-in-snapshot": (twice, "key order::1 came at seqno 3 and at seqno 9"),
    "cas-regress": (older, f"key order::1: CAS 0x{hlc(2):016x} came after CAS 0x{hlc(3):016x}"),
    "commit-without-prepare": (
        never_prepared,
        "commit of seqno 9 is for a prepare of seqno 4, but key k has none of that seqno pending",
    ),
    "event-after-collection-end": (
        ended,
        "mutation of seqno 9 of collection _default.orders (0x9), which ended at seqno 2",
    ),
    "name-taken": (
        twice_named,
        "collection orders is created, though there is one of this name that was not dropped",
    ),
    "manifest-uid-backwards": (uids_fall, "manifest uid 0x1f came after uid 0x20"),
}


EARLIER = {
    "message-after-stream-end": [-1],
    "opaque-mismatch": [-3],
    "event-before-marker": [-2],
    "seqno-not-increasing": [-1],
    "seqno-repeated-after-advanced": [-1],
    "seqno-outside-snapshot": [-2],
    "seqno-below-request-start": [-3],
    "marker-overlap": [-2],
    "marker-behind": [-2, -1],
    "seqno-ack-regress": [-1],
    "duplicate-key-in-snapshot": [-1, -2],
    "cas-regress": [-2],
    "commit-without-prepare": [-1],
    "event-after-collection-end": [-1],
    "manifest-uid-backwards": [-1],
    "name-taken": [-1],
}
"""How many rows before the offender the messages are that it contradicts."""


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_gives_its_rule_and_no_other_error_or_warning(rule: str) -> None:
    fault, words = FAULTS[rule]
    talk = opened(
        port=50_000,
        enable_sync_writes="true",
        **({"enable_out_of_order_snapshots": "true"} if rule == "oso-structure" else {}),
    )
    stream = talk.stream(7)
    fault(stream)
    # nor any note that tells the same again
    (found,) = [one for one in findings(talk) if one.rule != "stream-end-reason"]
    assert (found.rule, found.message[: len(words)]) == (rule, words)
    # one for another vbucket is also about the stream that has its opaque
    vbuckets = (7, 8) if rule == "message-without-stream" else (stream.vbucket,)
    assert (found.connections, found.vbuckets) == ((1,), vbuckets)
    assert [place.row - found.places[0].row for place in found.places[1:]] == EARLIER.get(rule, [])
    severities = {one.id: one.severity for one in RULES}
    assert found.severity == severities[rule]


@pytest.mark.parametrize(
    ("revisions", "severity", "cause", "whose"),
    [
        ((1, 2), "warning", None, "server"),
        ((2**63, 2**63 + 1), "warning", None, "server"),
        ((2**64 - 2, 2**64 - 1), "warning", None, "server"),
        ((2, 1), "note", "older-revision", "normal"),
        ((2, 2), "note", "older-revision", "normal"),
        ((2**64 - 1, 1), "note", "older-revision", "normal"),
        ((3, 7), "note", "later-revision", "unknown"),
        ((3, 5), "note", "later-revision", "unknown"),
        ((1, 2**64 - 1), "note", "later-revision", "unknown"),
        ((0, 1), "note", "later-revision", "unknown"),  # 0 is no revision
        ((1, 0), "note", "later-revision", "unknown"),
    ],
)
def test_the_revision_tells_whether_a_lower_cas_is_of_a_clock(
    revisions: tuple[int, int], severity: str, cause: str | None, whose: str
) -> None:
    """XDCR by revision, and restores with --force-updates, write revision and CAS themselves."""
    talk, stream = streaming()
    for start, seqno, revision, cas in ((0, 3, revisions[0], hlc(3)), (4, 9, revisions[1], hlc(2))):
        stream.snapshot(start, seqno, "memory")
        stream.send(
            "dcp_mutation", collection=0, key="k", by_seqno=seqno, rev_seqno=revision, cas=cas
        )
    (found,) = findings(talk)
    assert (found.rule, found.severity, found.cause, found.whose) == (
        "cas-regress",
        severity,
        cause,
        whose,
    )
    assert ("was written with its metadata" in found.message) == (cause == "older-revision")


def test_a_change_without_a_cas_between_two_is_no_reason_to_blame_a_clock() -> None:
    talk, stream = streaming()
    for revision, cas in enumerate((hlc(3), 0, hlc(2)), 1):
        stream.snapshot(revision, revision, "memory")
        stream.send(
            "dcp_mutation", collection=0, key="k", by_seqno=revision, rev_seqno=revision, cas=cas
        )
    (found,) = findings(talk, rules=("cas-regress",))
    assert (found.severity, found.cause) == ("note", "later-revision")


def test_a_seqno_that_comes_twice_out_of_order() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    for seqno, key in ((9, "a"), (4, "b"), (9, "c")):
        stream.mutation(seqno, key)
    stream.oso("end")
    (found,) = findings(talk, rules=("oso-structure",))
    assert (found.message, found.seqnos) == ("OSO snapshot: seqno 9 came twice", (9,))
    assert [place.row - found.places[0].row for place in found.places] == [0, -4]


@pytest.mark.parametrize(
    ("kind", "visible", "event", "expected"),
    [
        (
            "memory",
            4,
            "mutation",
            ["mutation of seqno 6 is above the greatest visible seqno of its snapshot, 4"],
        ),
        (
            "disk",
            4,
            "deletion",
            ["deletion of seqno 6 is above the greatest visible seqno of its snapshot, 4"],
        ),
        ("disk", 6, "mutation", []),
        ("disk", 0, "mutation", []),
        ("disk", 4, "prepare", []),
        ("disk", 4, "hole", []),
    ],
)
def test_what_is_visible_is_not_above_the_greatest_visible_seqno(
    kind: str, visible: int, event: str, expected: list[str]
) -> None:
    talk = opened(enable_sync_writes="true", max_marker_version="2.2")
    stream = talk.stream(7)
    more = {"high_completed_seqno": 0, "max_visible_seqno": visible}
    if kind == "disk":
        more |= {"purge_seqno": 0, "high_prepared_seqno": 0}
    stream.snapshot(0, 7, kind, version="v2.2" if kind == "disk" else "v2.0", **more)
    stream.mutation(3, "a")
    if event == "hole":
        with talk.lost():
            stream.mutation(4, "l")
    if event == "prepare":
        stream.prepare(6, "k", {})
    elif event == "deletion":
        stream.deletion(6, "k")
    else:
        stream.mutation(6, "k")
    stream.prepare(7, "p", {})
    found = findings(talk, rules=("seqno-outside-snapshot",))
    assert [one.message for one in found] == expected
    assert [one.severity for one in found] == ["warning"] * len(expected)


@pytest.mark.parametrize(
    ("key", "places"), [("a", [12, 11, 9]), ("b", [12, 9])], ids=["committed before", "another key"]
)
def test_a_commit_that_finds_no_pending_prepare_is_not_said_to_lack_one(
    key: str, places: list[int]
) -> None:
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7)
    stream.snapshot(0, 4, "memory")
    stream.prepare(1, "a", {})
    stream.commit(1, 2, "a")
    stream.commit(1, 4, key)
    (found,) = findings(talk, rules=("commit-without-prepare",))
    assert found.message == (
        f"commit of seqno 4 is for a prepare of seqno 1, but key {key} has none of that seqno pending"
    )
    assert [place.row for place in found.places] == places


@pytest.mark.parametrize(
    ("start", "kind", "seqno", "messages"),
    [
        (0, "memory", 3, []),
        (0, "memory", 4, ["acknowledged 4, above all prepares, which end at 3"]),
        (0, "disk", 9, []),
        (0, "disk", 10, ["acknowledged 10, above all prepares, which end at 9"]),
        (2, "memory", 2, []),
    ],
)
def test_a_replica_acknowledges_prepares_that_it_was_sent(
    start: int, kind: str, seqno: int, messages: list[str]
) -> None:
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7, start=start)
    stream.snapshot(start, 9, kind)
    if start < 2:
        prepared(stream, 3)
    stream.mutation(9, "k")
    stream.seqno_acknowledged(seqno)
    # a prepare may be captured after its acknowledgement
    assert [one.message for one in findings(talk) if one.severity != "note"] == []
    stream.snapshot(10, 10, "memory")
    stream.mutation(10, "k")
    assert [one.message for one in findings(talk) if one.severity != "note"] == messages


@pytest.mark.parametrize("oso", [True, False])
def test_a_replica_acknowledges_an_oso_snapshot_in_its_order(oso: bool) -> None:
    talk = opened(enable_sync_writes="true", enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    if oso:
        stream.oso("start")
    else:
        stream.snapshot(0, 12, "memory")
    for seqno in (4, 12) if not oso else (12, 4):
        prepared(stream, seqno)
    for seqno in (12, 4):
        stream.seqno_acknowledged(seqno)
    rules = [one.rule for one in findings(talk) if one.severity != "note"]
    assert rules == ["seqno-ack-regress"] * (not oso)


def test_behind_a_hole_a_replica_may_acknowledge_what_was_not_captured() -> None:
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with talk.lost():
        prepared(stream, 3)
    stream.mutation(9, "k")
    stream.seqno_acknowledged(3)
    assert [one for one in findings(talk) if one.severity != "note"] == []


def test_a_replica_that_asked_again_acknowledges_prepares_of_the_new_stream() -> None:
    """Where a hole holds the end of the old one back, acknowledgements are read before it."""
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7)
    stream.snapshot(0, 7, "memory")
    prepared(stream, 7)
    stream.seqno_acknowledged(7)
    again = talk.stream_request(7, stream.opaque, start=2)
    again.seqno_acknowledged(5)
    stream.end("state-changed")
    talk.stream_answer(again)
    again.snapshot(2, 5, "memory")
    prepared(again, 5)
    assert [one.rule for one in findings(talk) if one.severity != "note"] == []


@pytest.mark.parametrize(("seqno", "count"), [(30, 0), (31, 1)])
def test_cached_documents_are_not_above_the_start(seqno: int, count: int) -> None:
    talk = opened()
    stream = talk.stream(7, start=30, flags=["takeover", "active-only", "cache-transfer"])
    stream.cache_transfer(
        [
            {"by_seqno": 3, "key": "a", "value": b"{}"},
            {"by_seqno": seqno, "key": "b"},
            {"by_seqno": 4, "key": "c"},
        ]
    )
    stream.cache_transfer_end()
    words = ["a cached document has seqno 31, above the start 30 of the request"]
    assert [one.message for one in findings(talk) if one.severity != "note"] == words * count


def test_a_collection_is_named_as_its_own_connection_was_told() -> None:
    manifest = '{"uid":"1","scopes":[{"uid":"8","name":"produce","collections":[{"uid":"20","name":"fruit"}]}]}'
    found = []
    for is_told in (True, False):
        talk, other = opened(), opened(port=50_001)
        for one in (talk, other):
            one.select_bucket("shop")
        (talk if is_told else other).ask(
            "collections_get_manifest", {"value": manifest, "datatype": 1}
        )
        stream = talk.stream(7, start=5, value={"collections": ["9"]})
        stream.snapshot(5, 9, "memory")
        stream.mutation(9, "k", collection=0x20)
        found += [
            one.message for one in findings(other, talk) if one.rule == "collection-outside-filter"
        ]
    assert found == [
        "nobody requested collection produce.fruit (0x20)",
        "nobody requested collection 0x20",
    ]


def test_a_collection_that_the_request_does_not_name() -> None:
    talk = opened()
    stream = talk.stream(7, start=5, value={"collections": ["9", "1f"]})
    stream.snapshot(5, 9, "memory")
    for seqno, collection in ((6, 9), (7, 0x1F), (8, 0x20), (9, 0x1F)):
        stream.mutation(seqno, f"k{seqno}", collection=collection)
    (found,) = [one for one in findings(talk) if one.severity != "note"]
    assert (found.rule, found.message, found.count) == (
        "collection-outside-filter",
        "nobody requested collection 0x20",
        1,
    )


def test_a_collection_that_nobody_began_is_a_note_once() -> None:
    talk, stream = streaming()
    never_begun(stream)
    stream.snapshot(10, 11, "memory")
    stream.mutation(11, "l", collection=0x1F)
    (found,) = findings(talk, rules=["event-for-unknown-collection"])
    assert (found.severity, found.message, found.count) == (
        "note",
        "no event created collection 0x1f before the items from memory",
        1,
    )


def test_an_overlap_is_an_error_where_only_an_active_vbucket_was_asked_for() -> None:
    talk, stream = streaming("active-only")
    overlap(stream)
    assert told(talk) == [("error", "marker-overlap", None)]


def test_an_overlap_is_a_note_where_the_server_has_the_vbucket_as_a_replica() -> None:
    talk, stream = streaming()
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 9}]}, state="replica")
    overlap(stream)
    assert told(talk) == [("note", "marker-overlap", None)]


@pytest.mark.parametrize("rule", sorted(set(FAULTS) - {"message-after-stream-end"}))
def test_what_lies_behind_a_hole_accuses_nobody(rule: str) -> None:
    """The decisive message before the fault may be among what is missing."""
    fault, _ = FAULTS[rule]
    talk, stream = streaming()
    with talk.lost():
        talk.stream(9)
        stream.snapshot(0, 1, "memory")
    fault(stream)
    assert [
        one
        for one in told(talk)
        if one[0] != "note"
        and one[1] in ("event-before-marker", "message-without-stream", "oso-structure")
    ] == []


def test_a_capture_that_begins_in_the_middle_accuses_nobody() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 3, "memory")
    talk.begin()
    stream.mutation(1, "a")
    stream.mutation(3, "b")
    stream.snapshot(4, 9, "memory", "checkpoint")
    stream.mutation(9, "c")
    assert [one for one in told(talk) if one[0] != "note"] == []


def test_a_message_with_another_opaque_is_named_by_its_seqno() -> None:
    talk = opened()
    other_opaque(talk.stream(7))
    assert [one.seqnos for one in findings(talk) if one.rule == "opaque-mismatch"] == [(9,)]


def two_streams() -> tuple[Told, Stream, Stream]:
    talk = opened()
    one, other = talk.stream(7), talk.stream(8)
    for stream in (one, other):
        stream.snapshot(0, 9, "memory")
        stream.mutation(5, "a")
        stream.mutation(9, "b")
    return talk, one, other


def test_a_message_for_no_stream_names_the_stream_that_has_its_opaque() -> None:
    talk, one, _ = two_streams()
    Stream(talk, 9, one.opaque).mutation(1, "b")
    (found,) = findings(talk)
    assert found.rule == "message-without-stream"
    assert found.message.endswith("; the opaque is that of vbucket 7's stream")


@pytest.mark.parametrize("seqno", [4, 5, 99])
def test_a_message_of_another_stream_is_one_fault_and_the_stream_is_named(seqno: int) -> None:
    talk, one, other = two_streams()
    Stream(talk, other.vbucket, one.opaque).mutation(seqno, "b")
    (found,) = findings(talk)
    assert (found.rule, found.vbuckets) == ("opaque-mismatch", (7, 8))
    assert found.message.endswith("; the opaque is that of vbucket 7's stream")


def test_a_marker_of_another_stream_says_nothing_of_the_snapshots_of_this_one() -> None:
    talk, one, other = two_streams()
    Stream(talk, other.vbucket, one.opaque).snapshot(12, 15, "memory")
    other.snapshot(10, 14, "memory")
    other.mutation(14, "c")
    assert [one.rule for one in findings(talk)] == ["opaque-mismatch"]


def test_a_commit_of_a_later_prepare_is_one_fault() -> None:
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.commit(9, 4, "k")
    assert [one.rule for one in findings(talk) if one.severity != "note"] == ["commit-order"]


def test_many_of_a_kind_are_one_finding_with_the_first_three_and_the_last() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 99, "memory")
    stream.mutation(50, "a")
    for seqno in range(10, 20):
        stream.mutation(seqno, f"k{seqno}")
    (found,) = findings(talk, rules=["seqno-not-increasing"])
    assert (found.count, found.message, len(found.places)) == (
        10,
        "seqno 10 came after seqno 50",
        5,
    )


def test_what_many_vbuckets_share_is_one_finding() -> None:
    talk = opened()
    for vbucket in (3, 4, 5, 9):
        talk.stream(vbucket).mutation(1, "k")
    (found,) = findings(talk, rules=["event-before-marker"])
    assert (found.vbuckets, found.count, len(found.places)) == ((3, 4, 5, 9), 4, 8)
    assert found.message.startswith(
        "mutation of seqno 1 came before any snapshot marker on 4 vbuckets in "
    )
    assert found.message.endswith(": 3–5, 9")


OF_CONSUMERS: dict[str, dict[str, Any]] = {
    "stream_req": {
        "vbucket": 8,
        "flags": [],
        "start_seqno": 0,
        "end_seqno": 9,
        "vbucket_uuid": 0,
        "snapshot_start_seqno": 0,
        "snapshot_end_seqno": 0,
    },
    "control": {"key": "enable_noop", "value": "true"},
    "buffer_acknowledgement": {"ack_bytes": 10},
    "seqno_acknowledged": {"vbucket": 7, "prepared_seqno": 1},
}
OF_PRODUCERS: dict[str, dict[str, Any]] = {
    "stream_end": {"vbucket": 7, "end_reason": "ok"},
    "snapshot_marker": {
        "vbucket": 7,
        "start_seqno": 0,
        "end_seqno": 9,
        "snapshot_type": ["memory"],
    },
    "mutation": {
        "vbucket": 7,
        "collection": 0,
        "key": "k",
        "by_seqno": 1,
        "rev_seqno": 1,
        "cas": 1,
    },
    "deletion": {
        "vbucket": 7,
        "collection": 0,
        "key": "k",
        "by_seqno": 1,
        "rev_seqno": 1,
        "cas": 1,
    },
    "flush": {"vbucket": 7},
    "set_vbucket_state": {"vbucket": 7, "state": "active"},
    "noop": {},
    "seqno_advanced": {"vbucket": 7, "by_seqno": 9},
    "oso_snapshot": {"vbucket": 7, "flags": ["start"]},
    "cache_transfer_end": {"vbucket": 7},
}


@pytest.mark.parametrize(
    ("name", "side"),
    [*((name, "server") for name in OF_CONSUMERS), *((name, "client") for name in OF_PRODUCERS)],
    ids=str,
)
def test_whoever_does_what_the_other_side_does_is_told_of_and_changes_nothing(
    name: str, side: Side
) -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory")
    stream.mutation(4, "a")
    before = tables(talk)
    talk.send(side, encode(f"dcp_{name}", opaque=0x77, **{**OF_CONSUMERS, **OF_PRODUCERS}[name]))
    if side == "server" and name in ("stream_req", "control"):
        log: dict[str, Any] = (
            {"failover_log": [{"uuid": 1, "seqno": 0}]} if name == "stream_req" else {}
        )
        talk.answer(f"dcp_{name}", 0x77, by="client", status=Status.SUCCESS, **log)
    elif name == "set_vbucket_state":
        talk.answer(f"dcp_{name}", 0x77, by="server")
    talk.wait(3)
    after = tables(talk)
    assert {table: len(getattr(after, table)) for table in ("streams", "snapshots", "gaps")} == {
        table: len(getattr(before, table)) for table in ("streams", "snapshots", "gaps")
    }
    assert (after.connections[0]["controls"], after.streams[0]["items"]) == (
        before.connections[0]["controls"],
        1,
    )
    (found,) = [one for one in findings(talk) if one.severity != "note"]
    assert (found.rule, found.severity) == ("role-violation", "warning")
    assert found.message == f"{name} sent by the {'producer' if side == 'server' else 'consumer'}"
    assert [place.direction for place in found.places] == ["s2c" if side == "server" else "c2s"]


@pytest.mark.parametrize("name", ["stream_req", "control"])
def test_nobody_answers_what_only_consumers_ask(name: str) -> None:
    talk, stream = streaming()
    talk.send("server", encode(f"dcp_{name}", opaque=0x77, **OF_CONSUMERS[name]))
    talk.wait(30)
    stream.snapshot(0, 5, "memory")
    assert [one.rule for one in findings(talk) if one.severity != "note"] == ["role-violation"]


@pytest.mark.parametrize("name", ["close_stream", "add_stream"])
def test_proxies_send_what_closes_and_adds_streams_either_way(name: str) -> None:
    talk, _ = streaming()
    flags: dict[str, Any] = {"flags": []} if name == "add_stream" else {}
    talk.send("server", encode(f"dcp_{name}", vbucket=9, opaque=0x77, **flags))
    assert findings(talk, rules=["role-violation"]) == []


def test_who_acknowledges_on_a_connection_without_known_roles_accuses_nobody() -> None:
    talk = Told("test:1")
    talk.send("server", encode("dcp_buffer_acknowledgement", ack_bytes=10))
    assert findings(talk, rules=["role-violation"]) == []


@pytest.mark.parametrize("sizes", [(), [1] * 100])
def test_a_marker_that_runs_backwards_is_all_that_is_told_until_the_next(sizes: list[int]) -> None:
    talk, stream = streaming()
    stream.snapshot(0, 4, "memory")
    stream.mutation(4, "a")
    stream.snapshot(9, 6, "memory")
    for seqno in (6, 8):
        stream.mutation(seqno, f"k{seqno}")
    stream.snapshot(10, 11, "memory", "checkpoint")
    stream.mutation(11, "b")
    found = findings(talk, sizes=sizes)
    assert [one.rule for one in found if one.severity != "note"] == ["marker-range-inverted"]
    assert [row["state"] for row in tables(talk).snapshots] == ["complete", "unknown", "complete"]


def test_behind_a_marker_without_a_readable_range_nothing_is_told_until_the_next() -> None:
    talk, stream = streaming()
    talk.send(
        "server",
        encode_parts(0x80, 0x56, extras=b"\2", value=bytes(40), specific=7, opaque=stream.opaque),
    )
    stream.mutation(1, "a")
    stream.snapshot(2, 3, "memory", "checkpoint")
    stream.mutation(3, "b")
    stream.mutation(5, "c")
    assert [one.rule for one in findings(talk) if one.severity == "error"] == [
        "marker-value-length",
        "seqno-outside-snapshot",
    ]


@pytest.mark.parametrize("sizes", [(), [1] * 200])
def test_a_request_that_is_read_later_is_no_evidence(sizes: list[int]) -> None:
    """However the capture is cut into batches."""
    talk, stream = streaming()
    other_opaque(stream)
    captured = packets(talk)
    (request,) = [packet for packet in captured if b"\x80\x53" in packet.data]
    at, port, sequence = captured.index(request), request.data[34:36], request.data[38:42]
    unacknowledged = [
        one
        if one.data[34:36] == port
        else replace(one, data=one.data[:42] + sequence + one.data[46:])
        for one in captured[at + 1 :]
    ]
    (found,) = [
        one
        for one in found_in([*captured[:at], *unacknowledged, request], sizes)
        if one.rule == "opaque-mismatch"
    ]
    assert len(found.places) == 1


def test_what_follows_an_answer_that_may_be_to_a_lost_request_is_not_below_a_start() -> None:
    """A client whose requests of a vbucket all have one opaque: the rollback and the request that
    followed it are lost.
    """
    talk = opened()
    talk.stream_request(7, 5, start=23, uuid=1)
    with talk.lost():
        talk.stream_answer(Stream(talk, 7, 5, 0), rollback=0)
        talk.stream_request(7, 5)
    stream = Stream(talk, 7, 5, 0)
    talk.stream_answer(stream)
    talk.failover_log(8, [(1, 0)])
    stream.snapshot(0, 12, "memory")
    for seqno in (2, 8):
        stream.mutation(seqno, f"k{seqno}")
    assert [one.rule for one in findings(talk) if one.severity != "note"] == []


def test_keys_that_were_not_compared_are_nobodys_fault() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 300, "memory")
    for seqno in range(1, 301):
        stream.mutation(seqno, f"key{seqno}")
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker(remembers=True, limit=64)
    checker = Checker(tracker)
    tracker.forget_what_is_over()
    for batch in (*(engine.feed(one) for one in batches(packets(talk), [50] * 9)), engine.finish()):
        if batch is not None:
            tracker.feed(batch)
            checker.feed(batch)
    (one,) = [
        found
        for found in checker.findings(engine.links, engine.coverage)
        if found.rule == "duplicate-key-in-snapshot"
    ]
    assert (one.severity, one.cause, one.whose) == ("note", "keys-not-checked", "normal")
    assert one.message == "keys were compared only with the latest 256 keys"
    assert one.next.startswith("operators have nothing to do")
