"""Where clients take up a vbucket again: cases 1 to 8 and 20."""

from __future__ import annotations

from pathlib import Path

from dcpinspect.protocol.statuses import Status
from tests.cases.told import NEW, OLD, Case
from tests.streams.told import Told, opened

LOG = ((NEW, 100), (OLD, 0))


def test_1_a_marker_is_stored_before_its_first_item(tmp_path: Path) -> None:
    """couchbase/java-dcp-client#41: one vbucket is refused after a restart, and its documents never
    come.
    """
    before = opened("connector:1", port=50_001)
    stream = before.stream(723)
    stream.snapshot(0, 110_208, "memory")
    stream.mutation(110_208, "order")
    stream.snapshot(110_209, 110_209, "memory", "checkpoint")
    before.close(abort=True)
    after = opened("connector:1", port=50_002)
    after.stream(723, start=110_208, snapshot=(110_209, 110_209), status=Status.ERANGE)
    case = Case(tmp_path, before, after)
    found = case.finding("bad-stream-range")
    assert case.accusations == ["bad-stream-range"]
    assert (found.severity, found.cause, found.vbuckets) == ("error", "marker-without-item", (723,))
    assert case.shows("bad-stream-range") == ["stream_req", "stream_req answer", "snapshot_marker"]
    assert (
        found.next
        == "store a snapshot only with its first item; resume with snapshot 110208–110208"
    )


def test_2_a_checkpoint_with_an_invented_uuid(tmp_path: Path) -> None:
    """couchbase-kafka-connector#6: saved state, then there are no streams."""
    talk = opened()
    talk.stream(3, start=40, snapshot=(40, 39), uuid=1, status=Status.ERANGE)
    talk.stream(4, start=40, uuid=1, rollback=0)
    talk.stream(4, log=LOG)
    case = Case(tmp_path, talk)
    assert case.accusations == ["bad-stream-range"]
    assert case.finding("rollback").message.endswith(
        f"; followed in row {case.finding('rollback').places[2].row}"
    )
    assert case.finding("bad-stream-range").cause == "start-above-snapshot"
    found = case.finding("unknown-vbucket-uuid")
    assert (found.vbuckets, found.severity) == ((4,), "note"), (
        "the client goes on; the uuid may be older than the capture"
    )
    assert found.message.startswith(
        "uuid 0x0000000000000001 is unknown to the server (log: 0x000000000000000b from 100, "
    )
    assert case.shows("unknown-vbucket-uuid") == [
        "stream_req",
        "stream_req answer",
        "stream_req answer",
    ]
    (would_work,) = case.tables.rollbacks.records()
    assert (would_work["resume_start"], would_work["resume_uuid"]) == (0, f"0x{OLD:016x}")


def test_3_streams_that_end_at_once_after_a_rollback(tmp_path: Path) -> None:
    """couchbase/sync_gateway#5646: the feed looks healthy, and no mutation comes."""
    talk = opened()
    for vbucket in range(12):
        talk.stream(vbucket, start=50, uuid=OLD, rollback=0)
        talk.stream(vbucket, end=0, uuid=OLD, log=((OLD, 0),)).end()
    case = Case(tmp_path, talk)
    found = case.finding("end-zero-reopen")
    assert (found.severity, found.vbuckets) == ("error", tuple(range(12)))
    assert found.message.startswith(
        "reopened with end 0 after a rollback, ended after 0 items on 12 vbuckets in "
    )
    assert case.shows("end-zero-reopen")[:3] == ["stream_req", "stream_req answer", "stream_req"]
    assert found.next == (
        "run the job again, because its stream ended after 0 items; a client has to keep the "
        "end seqno after a rollback"
    )
    assert case.accusations == ["end-zero-reopen"]


def test_4_the_old_uuid_after_a_rollback(tmp_path: Path) -> None:
    """couchbase/sync_gateway#6170: always back to 0."""
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.failover_log(7, LOG)
    talk.stream(7, start=100, uuid=0xC, rollback=0)
    talk.stream(7, start=0, log=LOG)
    case = Case(tmp_path, talk)
    found = case.finding("wrong-failover-entry")
    assert case.accusations == [
        "wrong-failover-entry"
    ]  # the rollbacks are followed, from further down
    assert (found.cause, found.vbuckets) == ("not-in-log", (7,))
    assert case.shows("wrong-failover-entry") == [
        "stream_req",
        "get_failover_log answer",
        "stream_req answer",
        "stream_req answer",
    ]
    assert found.next == (
        "report the client's version to its author; it has to ask from 100 with uuid "
        "0x000000000000000b, the newest entry of the failover log at or below the start"
    )
    assert [one.cause for one in case.findings if one.rule == "rollback"] == [
        "leading-consumer",
        "unknown-uuid",
    ]


def test_4_a_rollback_that_is_not_honoured(tmp_path: Path) -> None:
    """go-dcp, "detect correct vbuuid": asked again as before, again and again."""
    talk = opened()
    for _ in range(3):
        talk.stream(7, start=150, uuid=OLD, rollback=100)
    case = Case(tmp_path, talk)
    assert case.accusations == ["rollback", "rollback-loop", "rollback-not-honoured"]
    assert case.finding("rollback-loop").message.startswith("rolled back 3 times to 100 in ")
    assert case.shows("rollback-not-honoured")[:3] == [
        "stream_req",
        "stream_req",
        "stream_req answer",
    ]


def test_5_a_bucket_that_was_created_anew(tmp_path: Path) -> None:
    """couchbase/sync_gateway#1198: thousands of rollback lines are one cause."""
    talk = opened()
    for vbucket in range(387):
        talk.stream(vbucket, start=50, uuid=OLD, rollback=0)
    for vbucket in range(387):
        talk.stream(vbucket, log=((NEW, 0),))
    case = Case(tmp_path, talk)
    assert case.accusations == ["no-common-history"]
    found = case.finding("no-common-history")
    assert found.vbuckets == tuple(range(387))
    assert found.message.startswith("387 vbuckets rolled back to 0 in ")
    assert case.shows("no-common-history") == [
        *["stream_req", "stream_req answer"] * 3,
        "stream_req answer",
    ]
    assert (
        found.next
        == "find out whether the bucket was created again, was flushed, or is in another "
        "cluster; the client has to start again from 0"
    )
    told = case.finding("rollback")
    assert (told.severity, told.vbuckets) == ("note", tuple(range(387)))
    assert told.message.startswith("rolled back, and followed: no history in common")


def test_6_a_rollback_that_is_never_followed(tmp_path: Path) -> None:
    """couchbase/java-dcp-client#10: "from now" misses documents on some vbuckets."""
    talk = opened()
    other = talk.stream(47)
    talk.stream(48, start=900, uuid=OLD, rollback=13)
    talk.wait(9)
    other.snapshot(0, 3, "memory")
    other.mutation(3, "k")
    case = Case(tmp_path, talk)
    found = case.finding("rollback-not-followed")
    assert case.accusations == ["rollback", "rollback-not-followed"]
    assert (found.vbuckets, found.message) == (
        (48,),
        "the rollback to seqno 13 was never followed (9.0 s)",
    )
    assert case.shows("rollback-not-followed") == ["stream_req answer", "stream_req"]
    assert found.next == (
        "restart the client, because until then the vbucket delivers nothing; it has to ask "
        "again from the rollback seqno"
    )


def test_7_a_snapshot_that_starts_from_0_for_ever(tmp_path: Path) -> None:
    """MB-27604: reconnecting inside a large first snapshot is a rollback to 0, each time."""
    talks: list[Told] = []
    for number in range(4):
        talk = opened("connector:1", port=50_001 + number)
        if number:
            talk.stream(7, start=900, snapshot=(0, 1000), uuid=OLD, rollback=0)
        stream = talk.stream(7, log=((OLD, 0),))
        stream.snapshot(0, 1000, "disk", "checkpoint")
        for seqno in range(30, 901, 30):
            stream.mutation(seqno, f"k{seqno}")
        talk.close(abort=True)
        talks.append(talk)
    case = Case(tmp_path, *talks)
    found = case.finding("rollback-loop")
    assert (found.cause, found.vbuckets) == ("purge", (7,))
    assert found.message.startswith("rolled back 3 times to 0 in ")
    assert found.message.endswith(", 90 items sent again")
    assert case.shows("rollback-loop") == ["stream_req", "stream_req answer"] * 3
    assert found.next == (
        "find out why no stream from 0 comes to its end, as where the connection is closed each "
        "time; a longer purge interval of the bucket lets the client resume; it can set "
        "max_marker_version to 2.2 and resume with the purge seqno, or ask with "
        "ignore-purged-tombstones"
    )
    assert {one.cause for one in case.findings if one.rule == "rollback"} == {"purge"}


def test_8_streams_that_end_for_a_rollback_from_0(tmp_path: Path) -> None:
    """MB-56084: a client without collections is told to roll back, although it starts from 0."""
    talk = Told("old:1")
    talk.hello("old/1", "XATTR")
    talk.open("old:1", "producer")
    for _ in range(3):
        talk.stream(7).end("rollback")
        talk.wait(1)
    case = Case(tmp_path, talk)
    found = case.finding("rollback-loop")
    assert case.accusations == ["rollback-loop", "stream-end-reason"]
    assert (found.cause, found.message) == (
        "stream-end",
        "ended for a rollback 3 times in 2.0 s, 0 items sent again",
    )
    assert case.shows("rollback-loop") == ["stream_end"] * 3
    assert found.next == (
        "use a client that knows collections; it has to negotiate them in HELLO, because "
        "without them the server cannot stream the vbucket"
    )


def test_20_an_out_of_order_snapshot_is_resumed_from_its_greatest_seqno(tmp_path: Path) -> None:
    """MB-49779: what came out of order before the connection broke says nothing about the seqnos
    between.
    """
    before = opened("indexer:1", port=50_001, enable_out_of_order_snapshots="true")
    stream = before.stream(7)
    stream.oso("start")
    for seqno in (40, 12, 33):
        stream.mutation(seqno, f"k{seqno}")
    before.close(abort=True)
    after = opened("indexer:1", port=50_002, enable_out_of_order_snapshots="true")
    after.stream(7, start=40, uuid=OLD, log=((OLD, 0),))
    case = Case(tmp_path, before, after)
    found = case.finding("oso-resume-point")
    assert case.accusations == ["oso-resume-point"]
    assert (found.severity, found.vbuckets) == ("error", (7,))
    assert found.message == "resumed at 40 inside an unfinished OSO snapshot; only 0 is safe"
    assert case.shows("oso-resume-point") == ["stream_req", "oso_snapshot", "mutation"]
    assert found.next == (
        "let the client read the vbucket again, because items may be missing; it has to resume "
        "at 0, because an unfinished OSO snapshot does not show which seqnos have come"
    )
