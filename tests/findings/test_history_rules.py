"""Branches of history that clients name: each rule by its smallest conversation, by what looks like
it, and by what may hide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest

from dcpinspect.findings.finding import Finding
from tests.findings.checked import findings, found_in
from tests.streams.told import Told, opened, packets, tables

NEW, OLD, FOREIGN = 0xB, 0xA, 0xF
LOG = ((NEW, 100), (OLD, 0))
RULES = ("rollback-loop", "wrong-failover-entry", "unknown-vbucket-uuid", "no-common-history")


def found(*talks: Told, rules: Sequence[str] = RULES) -> list[Finding]:
    return findings(*talks, rules=rules)


def rules(*talks: Told) -> list[tuple[str, str | None]]:
    return [(one.rule, one.cause) for one in found(*talks)]


def test_what_a_proxy_passes_on_is_not_asked_twice() -> None:
    """It opens two connections of one name: from the producer, and to the consumer."""
    name = "replication:ns_1@a->ns_1@b:shop"
    taken, passed_on = Told(name), Told(name, port=50_001, producer="client")
    for talk, flags in ((taken, ["producer"]), (passed_on, [])):
        talk.open(name, *flags)
        talk.stream(7, start=150, uuid=OLD, rollback=100)
        talk.stream(7, start=100, uuid=OLD, log=LOG)
    assert found(taken, passed_on) == []


# -- wrong-failover-entry
# ----------------------------------------------------------------------------------------


def retried(uuid: int, *, log: bool = True, to: int = 100) -> Told:
    """Rolled back to 100, the client asks for the log, and asks again from there."""
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, rollback=to)
    if log:
        talk.failover_log(7, LOG)
    talk.stream(7, start=to, uuid=uuid, rollback=0)
    return talk


def test_an_older_branch_than_the_log_gives() -> None:
    (one,) = found(retried(OLD))
    assert (one.rule, one.cause, one.vbuckets, one.seqnos) == (
        "wrong-failover-entry",
        "older-branch",
        (7,),
        (100,),
    )
    assert (
        one.message
        == "used uuid 0x000000000000000a; the log of row 8 gives 0x000000000000000b for 100"
    )
    assert [place.row for place in one.places] == [9, 8, 10, 6]
    assert one.next == (
        "report the client's version to its author; it has to ask from 100 with uuid "
        "0x000000000000000b, the newest entry of the failover log at or below the start"
    )


def test_an_invented_uuid_after_the_log_is_wrong_rather_than_unknown() -> None:
    assert rules(retried(FOREIGN)) == [("wrong-failover-entry", "not-in-log")]


def test_who_was_sent_no_log_cannot_know() -> None:
    assert rules(retried(OLD, log=False)) == []


def test_the_right_entry_is_rolled_back_for_another_reason() -> None:
    assert rules(retried(NEW)) == []
    assert rules(retried(0)) == []


def test_who_asks_as_rollbacks_says_is_not_told_another_uuid() -> None:
    """The consumer's log is of before the failover, and the table goes by the one behind it."""
    talk = opened()
    talk.stream(7, start=120, uuid=OLD, log=[(OLD, 0)]).end("state-changed")
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.stream(7, start=100, uuid=NEW, rollback=0)
    talk.stream(7, log=LOG)
    first, _ = tables(talk).rollbacks
    assert (first["resume_start"], first["resume_uuid"]) == (100, f"0x{NEW:016x}")
    assert rules(talk) == []


def test_a_first_request_names_the_branch_of_its_data() -> None:
    talk = opened()
    talk.failover_log(7, LOG)
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    assert rules(talk) == []


def test_a_retry_from_above_does_not_honour_the_rollback() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.failover_log(7, LOG)
    talk.stream(7, start=120, uuid=OLD, rollback=100)
    assert rules(talk) == []


def test_a_log_in_a_hole_was_perhaps_another() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    with talk.lost():
        talk.failover_log(7, LOG)
    talk.stream(7, start=100, uuid=OLD, rollback=0)
    assert rules(talk) == []


# -- unknown-vbucket-uuid
# ------------------------------------------------------------------------------------------


def test_a_uuid_that_no_log_has() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    talk.stream(7, log=LOG)
    (one,) = found(talk)
    assert (one.rule, one.vbuckets) == ("unknown-vbucket-uuid", (7,))
    log = "0x000000000000000b from 100, 0x000000000000000a from 0"
    assert one.message == f"uuid 0x000000000000000f is unknown to the server (log: {log})"
    assert [place.row for place in one.places] == [5, 6, 8]


@pytest.mark.parametrize("tick_ns", [1, 1_000, 1_000_000, 1_000_000_000])
def test_how_bad_an_unknown_uuid_is_does_not_hang_on_the_resolution_of_times(tick_ns: int) -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    stream = talk.stream(7, log=LOG)
    stream.snapshot(1, 1)
    stream.mutation(1, "a")
    captured = [
        replace(packet, time_ns=packet.time_ns // tick_ns * tick_ns) for packet in packets(talk)
    ]
    (one,) = found_in(captured, rules=RULES)
    assert (one.rule, one.severity) == ("unknown-vbucket-uuid", "note")


def test_a_uuid_of_the_log_or_without_any_log_is_not_unknown() -> None:
    for uuid, log in ((OLD, True), (FOREIGN, False), (0, True)):
        talk = opened()
        talk.stream(7, start=150, uuid=uuid, rollback=0)
        if log:
            talk.stream(7, log=LOG)
        assert rules(talk) == []


def test_a_uuid_that_another_server_gave_is_not_invented() -> None:
    before = opened(port=50_001)
    before.stream(7, log=((FOREIGN, 0),))
    before.close()
    talk = opened(port=50_002)
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    talk.stream(7, log=LOG)
    assert rules(before, talk) == []


def test_a_log_in_a_hole_tells_nothing() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    with talk.lost():
        talk.stream(7, log=LOG)
    talk.noop()
    assert rules(talk) == []


def test_a_log_of_which_the_capture_lacks_a_part_tells_nothing_either() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    talk.stream(7, log=[(branch, 0) for branch in range(100, 110)])
    assert [one.rule for one in findings(talk, rules=RULES)] == ["unknown-vbucket-uuid"]
    assert findings(talk, rules=RULES, snaplen=150) == []
    talk = opened()
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    talk.failover_log(7, [(branch, 0) for branch in range(100, 110)])
    assert findings(talk, rules=RULES, snaplen=150) == []


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("begins_late", [False, True])
def test_a_log_that_was_not_captured_may_have_the_uuid(*, is_lost: bool, begins_late: bool) -> None:
    before = opened(port=50_001)
    with before.lost() if is_lost else nullcontext():
        before.stream(7, log=((OLD, 0),))
    if begins_late:
        before.begin()
    before.noop()
    before.close()
    talk = opened(port=50_002)
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    talk.stream(7, log=LOG)
    assert rules(before, talk) == (
        [] if is_lost or begins_late else [("unknown-vbucket-uuid", "uuid-never-given")]
    )


def test_a_connection_without_a_byte_lacks_nothing() -> None:
    """It says goodbye as the capture begins, and with --port auto no connection is known by that."""
    before = opened(port=50_001)
    before.begin()
    before.close()
    talk = opened(port=50_002)
    talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
    talk.stream(7, log=LOG)
    told = rules(talk)
    assert [rule for rule, _ in told] == ["unknown-vbucket-uuid"]
    assert rules(before, talk) == told


def test_a_uuid_from_before_the_capture_accuses_nobody() -> None:
    """A failover may have lost its branch. It is a warning if the client was told better, or does
    not go on.
    """
    for knows, goes_on, severity in (
        (False, True, "note"),
        (True, True, "warning"),
        (False, False, "warning"),
    ):
        talk = opened()
        if knows:
            talk.failover_log(7, LOG)
        talk.stream(7, start=150, uuid=FOREIGN, rollback=0)
        if goes_on:
            talk.stream(7, log=LOG)
        else:
            talk.failover_log(7, LOG)
        assert [(one.severity, one.whose) for one in found(talk)] == [(severity, "unknown")]


# -- no-common-history
# ---------------------------------------------------------------------------------------------


def recreated(count: int = 3, *, reopened: int | None = None) -> Told:
    talk = opened()
    for vbucket in range(count):
        talk.stream(vbucket, start=50 + vbucket, uuid=OLD + 0x100 * vbucket, rollback=0)
    for vbucket in range(count if reopened is None else reopened):
        talk.stream(vbucket, log=((NEW, 0),))
    return talk


def test_vbuckets_without_a_history_in_common() -> None:
    (one,) = found(recreated())
    assert (one.rule, one.vbuckets, one.connection) == ("no-common-history", (0, 1, 2), 1)
    assert one.message == "3 vbuckets rolled back to 0 in 0.080 ms: no uuid in common"
    assert [place.row for place in one.places] == [5, 6, 7, 8, 9, 10, 12]


def test_hundreds_are_one_finding_and_one_rollback() -> None:
    both = found(recreated(300), rules=("no-common-history", "rollback", "unknown-vbucket-uuid"))
    assert [(one.rule, len(one.vbuckets)) for one in both] == [
        ("no-common-history", 300),
        ("rollback", 300),
    ]
    assert both[1].message.startswith(
        "rolled back, and followed: no history in common, the uuids are not in the server's "
        "logs on 300 vbuckets in "
    )


def test_one_vbucket_is_not_a_bucket() -> None:
    assert rules(recreated(1)) == [("unknown-vbucket-uuid", None)]


def test_without_a_later_log_nobody_knows() -> None:
    assert rules(recreated(reopened=0)) == []


def test_one_later_log_is_no_history_of_a_bucket() -> None:
    assert ("no-common-history", None) not in rules(recreated(reopened=1))


def test_one_that_is_accepted_shows_that_it_is_the_same_bucket() -> None:
    talk = recreated()
    talk.stream(9, start=50, uuid=OLD, log=((OLD, 0),))
    assert {rule for rule, _ in rules(talk)} == {"unknown-vbucket-uuid"}


def test_a_later_log_with_the_uuid_shows_a_purge() -> None:
    talk = opened()
    for vbucket in range(2):
        talk.stream(vbucket, start=50, uuid=OLD, rollback=0)
    for vbucket in range(2):
        talk.stream(vbucket, log=((OLD, 0),))
    assert rules(talk) == []


def test_later_logs_in_a_hole_leave_it_open() -> None:
    talk = recreated(reopened=False)
    with talk.lost():
        for vbucket in range(3):
            talk.stream(vbucket, log=((NEW, 0),))
    talk.noop()
    assert rules(talk) == []


# -- rollback-loop
# --------------------------------------------------------------------------------------------------


def restarted(
    rounds: int,
    *,
    log: Sequence[tuple[int, int]] = ((OLD, 0),),
    logs: Sequence[Sequence[tuple[int, int]]] = (),
    last: int = 90,
) -> list[Told]:
    """A client that gets to 90 of a snapshot up to 100, loses its connection, and is sent back to 0
    each time. ``last``: where it gets to in the end.
    """
    talks = []
    for number in range(rounds):
        talk = opened("kafka:1", port=50_000 + number)
        if number:
            talk.stream(7, start=90, snapshot=(0, 100), uuid=OLD, rollback=0)
        stream = talk.stream(7, log=logs[number] if logs else log)
        stream.snapshot(0, 100, "disk")
        for seqno in range(10, 91, 10):
            stream.mutation(seqno, f"k{seqno}")
        if number == rounds - 1 and last > 90:
            stream.mutation(last, f"k{last}")
        talk.close(abort=True)
        talks.append(talk)
    return talks


def test_a_snapshot_that_starts_from_0_again_and_again() -> None:
    (one,) = found(*restarted(4))
    assert (one.rule, one.cause, one.vbuckets, one.seqnos) == ("rollback-loop", "purge", (7,), (0,))
    assert one.message.startswith("rolled back 3 times to 0 in ")
    assert one.message.endswith(", 27 items sent again")
    assert one.next == (
        "find out why no stream from 0 comes to its end, as where the connection is closed each "
        "time; a longer purge interval of the bucket lets the client resume; it can set "
        "max_marker_version to 2.2 and resume with the purge seqno, or ask with "
        "ignore-purged-tombstones"
    )
    assert len(one.places) == 6


def test_items_of_another_history_are_not_sent_again() -> None:
    """The bucket was created again before the first rollback."""
    (one,) = found(*restarted(4, logs=[((FOREIGN, 0),), *[((OLD, 0),)] * 3]))
    assert one.message.endswith(", 18 items sent again")


def test_twice_is_a_loop_once_is_none() -> None:
    assert rules(*restarted(3)) == [("rollback-loop", "purge")]
    assert rules(*restarted(2)) == []


def test_who_comes_beyond_where_it_stood_is_in_no_loop_yet() -> None:
    """It crashed twice, and both times asked for what it had stored before."""
    assert rules(*restarted(3, last=95)) == []
    assert rules(*restarted(4, last=95)) == [("rollback-loop", "purge")]


def test_another_history_each_time_is_no_loop() -> None:
    logs = [((0x10 + number, 0), (OLD, 0)) for number in range(3)]
    assert rules(*restarted(3, logs=logs)) == []


def test_the_same_request_twice() -> None:
    talk = opened()
    for _ in range(2):
        talk.stream(7, start=150, uuid=OLD, rollback=100)
    assert rules(talk) == [("rollback-loop", "repeated")]


def test_a_falling_chain_gets_somewhere() -> None:
    talk = opened()
    for start, to in ((150, 100), (100, 50), (50, 20), (20, 0)):
        talk.stream(7, start=start, uuid=OLD, rollback=to)
    assert rules(talk) == []


def test_three_in_a_row_that_do_not_fall() -> None:
    talk = opened()
    talk.failover_log(7, LOG)
    for start in (150, 140, 130):
        talk.stream(7, start=start, uuid=OLD, rollback=100)
    assert rules(talk) == [("rollback-loop", "repeated")]
    talk.events = talk.events[:-2]
    assert rules(talk) == []


def test_a_branch_that_is_never_the_right_one() -> None:
    talk = opened()
    talk.failover_log(7, LOG)
    for _ in range(2):
        talk.stream(7, start=100, snapshot=(100, 100), uuid=FOREIGN, rollback=0)
    assert ("rollback-loop", "uuid") in rules(talk)


def test_streams_that_end_for_a_rollback_again_and_again() -> None:
    talk = opened()
    for _ in range(3):
        stream = talk.stream(7)
        stream.snapshot(0, 3, "memory")
        stream.mutation(3, "k")
        stream.end("rollback")
    (one,) = found(talk)
    assert (one.rule, one.cause) == ("rollback-loop", "stream-end")
    assert one.message.startswith("ended for a rollback 3 times in ")
    assert one.message.endswith(", 2 items sent again")
    assert one.next == (
        "stop or update the client; it has to discard what is above the rollback seqno before "
        "it asks again, from there"
    )


def test_a_higher_start_in_between_is_progress() -> None:
    talk = opened()
    for start in (0, 3):
        talk.stream(7, start=start).end("rollback")
    assert rules(talk) == []


def test_a_round_in_a_hole_is_not_counted() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    with talk.lost():
        talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.noop()
    assert rules(talk) == []


@pytest.mark.parametrize(
    ("start", "uuid", "message"),
    [
        (8, 0xA, "0x000000000000000a, whose branch ended at 5: it had to roll back to 5"),
        (8, 0xC, "0x000000000000000c, which its own log does not have: it had to roll back to 0"),
        (5, 0xA, None),
        (8, 0xB, None),
        (8, 0, None),
        (0, 0xC, None),
    ],
)
def test_a_server_that_accepts_what_its_own_log_contradicts(
    start: int, uuid: int, message: str | None
) -> None:
    talk = opened()
    talk.stream(7, start=start, uuid=uuid, log=((0xB, 5), (0xA, 0)))
    said = [one for one in findings(talk) if one.rule == "wrong-rollback"]
    assert [one.message for one in said] == (
        [f"accepted from {start} with uuid {message}"] if message else []
    )
    assert all((one.severity, one.whose) == ("error", "server") for one in said)


def test_a_client_is_not_blamed_for_a_rollback_seqno_that_the_log_does_not_explain() -> None:
    log = ((0xB, 50), (0xA, 0))
    talk = opened()
    talk.failover_log(7, log)
    talk.stream(7, start=60, uuid=0xA, rollback=55)
    talk.stream(7, start=55, uuid=0xA, rollback=50)
    talk.stream(7, start=50, uuid=0xA, log=log)
    assert not {one.rule for one in findings(talk)} & {"wrong-failover-entry", "wrong-rollback"}


def test_a_client_that_asks_from_0_is_never_rolled_back() -> None:
    talk = opened()
    for _ in range(5):
        talk.stream(7, rollback=0)
    (finding,) = findings(talk)
    assert (finding.rule, finding.cause, finding.whose) == ("wrong-rollback", "from-0", "server")
    assert finding.count == 5
    strict = opened()
    strict.stream(7, uuid=0xA, flags=("strict-vbucket-uuid",), rollback=0)
    assert {one.rule for one in findings(strict)} == {"rollback"}


@pytest.mark.parametrize(
    ("log", "rule"), [(OLD, "unknown-vbucket-uuid"), (NEW, "no-common-history")]
)
def test_a_bucket_with_the_same_history_as_before_was_not_created_again(
    log: int, rule: str
) -> None:
    first, second = opened("k:1", port=50_001), opened("k:1", port=50_002)
    for vbucket in (7, 8):
        first.stream(vbucket, log=((OLD, 0),))
        second.stream(vbucket, start=9, uuid=FOREIGN, rollback=0)
    first.close()
    for vbucket in (7, 8):
        second.stream(vbucket, log=((log, 0),))
    assert {one for one, _ in rules(first, second)} == {rule}
