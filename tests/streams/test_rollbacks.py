"""The table of rollbacks: what was asked, the log that explains it, and the request that would
work.
"""

from __future__ import annotations

import pytest

from tests.findings.checked import found_in
from tests.streams.told import Seen, opened, packets, tables

NEW, OLD = 0xB, 0xA
LOG = [(NEW, 100), (OLD, 0)]


def test_a_rollback_with_all_that_explains_it() -> None:
    talk = opened()
    talk.stream(7, start=150, snapshot=(140, 160), uuid=OLD, rollback=100)
    talk.stream(7, start=100, uuid=NEW, log=LOG)
    (found,) = tables(talk).rollbacks
    assert (found["client"], found["requested_start"], found["rollback_seqno"]) == (
        "10.0.0.1 test",
        150,
        100,
    )
    assert found["failover_log"] == [
        {"uuid": "0x000000000000000b", "seqno": 100},
        {"uuid": "0x000000000000000a", "seqno": 0},
    ]
    assert (found["cause"], found["request_row"], found["answer_row"], found["log_row"]) == (
        "leading-consumer",
        5,
        6,
        8,
    )
    assert (found["resume_start"], found["resume_uuid"]) == (100, "0x000000000000000b")
    assert (found["resume_snapshot_start"], found["resume_snapshot_end"]) == (100, 100)


@pytest.mark.parametrize(
    ("upto", "start", "uuid"), [(95, 95, OLD), (110, 100, NEW), (None, 100, NEW)]
)
def test_a_client_that_received_less_than_the_rollback_seqno_resumes_where_it_was(
    upto: int | None, start: int, uuid: int
) -> None:
    """From the rollback seqno on it would miss what is between; the old branch ends at 100."""
    talk = opened()
    if upto is not None:
        stream = talk.stream(7, uuid=OLD, log=[(OLD, 0)])
        stream.snapshot(0, upto, "memory")
        stream.mutation(upto, "k")
        stream.end("state-changed")
    talk.failover_log(7, LOG)
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    (found,) = tables(talk).rollbacks
    assert (found["cause"], found["rollback_seqno"]) == ("leading-consumer", 100)
    assert (found["resume_start"], found["resume_uuid"]) == (start, f"0x{uuid:016x}")
    assert (found["resume_snapshot_start"], found["resume_snapshot_end"]) == (start, start)
    assert found["explanation"].endswith(
        "so resume there with that branch's uuid"
        if start == 100
        else "; the client had received only up to 95, so resume there"
    )


def test_a_uuid_that_the_server_gave_and_dropped_is_told_with_the_log_that_had_it() -> None:
    def rolled_back(uuid: int, vbucket: int) -> tuple[str, list[int]]:
        talk = opened()
        talk.failover_log(vbucket, [(uuid, 0)])
        talk.stream(7, start=5, snapshot=(5, 5), uuid=OLD, rollback=0)
        talk.failover_log(7, [(NEW, 10)])
        (found,) = (one for one in found_in(packets(talk)) if one.rule == "rollback")
        return found.message.partition(": ")[2], [place.row for place in found.places]

    text, rows = rolled_back(OLD, 7)
    assert text.startswith(
        "uuid 0x000000000000000a is no longer in the server's log, which had it in row 6 and now "
        "begins at seqno 10"
    )
    assert 6 in rows
    for uuid, vbucket in ((NEW, 7), (OLD, 8)):
        text, rows = rolled_back(uuid, vbucket)
        assert text.startswith("no history in common, ")
        assert 6 not in rows


def test_without_a_log_only_the_beginning_is_sure_to_work() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.stream(8, start=150, uuid=OLD, rollback=0)
    above, whole = tables(talk).rollbacks
    assert (above["cause"], above["resume_uuid"]) == ("unknown", None)
    assert (whole["cause"], whole["resume_uuid"]) == ("unknown", "0x0000000000000000")


def test_the_clients_own_snapshot_is_named_where_client_and_server_have_it() -> None:
    """The client was in the middle of 80 to 95 when the branch that it is on was left at 95."""
    talk = opened()
    stream = talk.stream(7, start=80, uuid=OLD, log=[(OLD, 0)])
    stream.snapshot(80, 95, "memory")
    stream.mutation(90, "k")
    stream.end("state-changed")
    talk.stream(7, start=150, uuid=OLD, rollback=88)
    for branch, snapshot in ((95, (80, 95)), (94, (88, 88))):
        log = [(NEW, branch), (OLD, 0)]
        talk.failover_log(7, log)
        (found,) = tables(talk).rollbacks
        assert (
            found["resume_uuid"],
            found["resume_snapshot_start"],
            found["resume_snapshot_end"],
        ) == ("0x000000000000000a", *snapshot)
        talk.events = talk.events[:-2]


def test_a_purge_is_told_with_its_seqno_and_with_what_excludes_a_lost_end() -> None:
    talk = opened(max_marker_version="2.2")
    talk.stream(7, start=50, snapshot=(0, 60), uuid=OLD, rollback=0)
    stream = talk.stream(7, log=[(OLD, 0)])
    stream.snapshot(0, 90, "disk", version="v2.2", max_visible_seqno=90, purge_seqno=45)
    (found,) = tables(talk).rollbacks
    assert (found["cause"], found["purge_seqno"]) == ("purge", 45)
    assert found["explanation"] == (
        "tombstones up to the purge seqno 45 are gone; the server has this branch up to 90, "
        "so the end of the branch is not lost; a client that needs no tombstones can ask from 50 "
        "again, with ignore-purged-tombstones"
    )
    with_flag = opened(max_marker_version="2.2")
    flags = ("ignore-purged-tombstones",)
    with_flag.stream(7, flags=flags, start=50, snapshot=(0, 60), uuid=OLD, rollback=0)
    with_flag.stream(7, log=[(OLD, 0)])
    assert "can ask" not in tables(with_flag).rollbacks[0]["explanation"]


@pytest.mark.parametrize(
    ("high", "wait", "cause"),
    [(55, 0, "snapshot-mismatch"), (60, 0, "purge"), (55, 60, "purge"), (None, 0, "purge")],
)
def test_a_server_that_has_less_than_the_snapshot_purged_nothing(
    high: int | None, wait: float, cause: str
) -> None:
    """It told its high seqno when it answered; an older one may have risen."""
    talk = opened()
    if high is not None:
        talk.high_seqnos({7: high, 8: 10})
    talk.wait(wait)
    talk.stream(7, start=50, snapshot=(0, 60), uuid=OLD, rollback=0)
    talk.stream(7, log=[(OLD, 0)])
    (found,) = tables(talk).rollbacks
    assert found["cause"] == cause
    assert ("goes beyond the server's high seqno 55" in found["explanation"]) == (
        cause == "snapshot-mismatch"
    )


def test_the_log_of_another_vbucket_explains_nothing() -> None:
    talk = opened()
    talk.stream(7, start=50, uuid=OLD, rollback=0)
    talk.stream(8, log=LOG)
    assert [one["cause"] for one in tables(talk).rollbacks] == ["unknown"]


def test_a_log_in_a_hole_explains_nothing() -> None:
    talk = opened()
    talk.stream(7, start=50, uuid=OLD, rollback=0)
    with talk.lost():
        talk.stream(7, log=LOG)
    assert [one["cause"] for one in tables(talk).rollbacks] == ["unknown"]


def test_a_rollback_whose_request_was_cut_off() -> None:
    talk = opened()
    talk.stream(7, start=150, rollback=100)
    talk.stream(7, start=100, log=LOG)
    captured = [packet.cut(54 + 24) if packet.size == 72 else packet for packet in packets(talk)]
    seen = Seen(captured)
    assert [(stream["answer"], stream["requested_start"]) for stream in seen.streams] == [
        ("rollback", None),
        ("accepted", None),
    ]
    (listed,) = seen.rollbacks
    unknown = ("requested_start", "snapshot_start", "snapshot_end", "vbucket_uuid", "request_flags")
    assert {name: listed[name] for name in unknown} == dict.fromkeys(unknown)
    assert (listed["rollback_seqno"], listed["resume_start"], listed["resume_uuid"]) == (
        100,
        100,
        "0x000000000000000b",
    )
    assert listed["explanation"] == "what the request asked for is not in the capture"


def test_a_rollback_whose_seqno_was_cut_off() -> None:
    talk = opened()
    talk.stream(7, start=150, rollback=100)
    captured = packets(talk)
    place = max(place for place, packet in enumerate(captured) if packet.size == 32)
    captured[place] = captured[place].cut(54 + 24 + 4)
    seen = Seen(captured)
    (stream,) = seen.streams
    assert (stream["answer"], stream["rollback_seqno"], stream["verdict"]) == (
        "rollback",
        None,
        "rolled-back",
    )
    assert (seen.gaps, seen.anomalies) == ([], [])
    (listed,) = seen.rollbacks
    unknown = (
        "rollback_seqno",
        "resume_start",
        "resume_uuid",
        "resume_snapshot_start",
        "resume_snapshot_end",
    )
    assert (listed["requested_start"], listed["cause"], *(listed[name] for name in unknown)) == (
        150,
        "unknown",
        *[None] * 5,
    )
    assert listed["explanation"] == "the rollback seqno is not in the capture"
    (found,) = found_in(captured, rules=["rollback"])
    assert (found.cause, found.message) == (
        "unknown",
        "asked for seqno 150, rolled back to a seqno that is not in the capture",
    )
