"""What members of a client's group received, or may have received, while it did without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.findings.checked import findings, found_in
from tests.findings.test_resumption import SKIPPED, UNSEEN, received, skipped
from tests.streams.told import Told, opened, packets


@pytest.mark.parametrize(
    ("name", "start", "last", "is_found"),
    [("c:2", 8, 11, False), ("d:2", 8, 11, True), ("c:2", 8, 10, True), ("c:2", 9, 11, True)],
)
def test_another_member_of_the_group_received_what_the_client_left_out(
    name: str, start: int, last: int, is_found: bool
) -> None:
    first = received("c:1", 0, 8, port=50_001, close=True)
    first.close("client")
    member = received(name, start, last, port=50_002, host="10.0.0.9", close=True)
    again = received("c:1", 11, 12, port=50_003)
    assert skipped(first, member, again) == [SKIPPED] * is_found


@pytest.mark.parametrize(
    ("name", "is_found"), [("orders-1", False), ("orders-x", True), ("refunds-1", True)]
)
def test_pods_whose_names_differ_in_a_number_are_members_of_a_group(
    name: str, is_found: bool
) -> None:
    first = received("orders-0", 0, 8, port=50_001, close=True)
    first.close("client")
    member = received(name, 8, 11, port=50_002, host="10.0.0.9", close=True)
    again = received("orders-0", 11, 12, port=50_003)
    assert skipped(first, member, again) == [SKIPPED] * is_found


def test_a_stand_by_that_had_the_vbuckets_beside_the_client_received_what_it_left_out() -> None:
    """It opened its streams while the client still had them, and both went on for a while."""
    first, member, again = (
        opened(name, port=50_000 + number)
        for number, name in enumerate(("orders-0", "orders-1", "orders-0"))
    )
    member.host = "10.0.0.9"
    for talk, start, last in ((first, 0, 8), (member, 6, 11), (again, 11, 12)):
        stream = talk.stream(7, start=start, log=[(0xA, 0)])
        stream.snapshot(start, last, "memory")
        for seqno in range(start + 1, last + 1):
            stream.mutation(seqno, "k")
            talk.wait(1)
    first.wait(10)
    first.noop()
    first.close("client")
    timed = [(first, 0), (member, 2), (again, 60)]
    shifted = [
        replace(packet, time_ns=packet.time_ns + seconds * 10**9)
        for talk, seconds in timed
        for packet in packets(talk)
    ]
    found = found_in(sorted(shifted, key=lambda packet: packet.time_ns))
    assert [one.message for one in found if one.rule == "resume-skipped"] == []


OLD_LOG, BRANCHED_LOG = ((0xA, 0),), ((0xB, 9), (0xA, 0))


def between(
    *pieces: tuple[int, int, tuple[tuple[int, int], ...]],
    log: tuple[tuple[int, int], ...] = OLD_LOG,
) -> list[Told]:
    """A client that had come to 8, and resumes at 13; in between, each other member of its group
    receives one piece: from where, to where, and with which log.
    """
    first = received("c:1", 0, 8, port=50_001)
    first.close("client", abort=True)
    members = []
    for number, (start, last, member_log) in enumerate(pieces):
        member = opened(f"c:m{number}", port=50_010 + number)
        member.host = f"10.0.0.{20 + number}"
        stream = member.stream(7, start=start, log=list(member_log))
        stream.snapshot(start, last, "memory")
        stream.mutation(last, "k")
        stream.end("state-changed")
        members.append(member)
    again = opened("c:1", port=50_003)
    again.stream(7, start=13, log=list(log))
    return [first, *members, again]


@pytest.mark.parametrize(
    ("pieces", "log", "is_found"),
    [
        (((8, 10, OLD_LOG), (10, 13, OLD_LOG)), OLD_LOG, False),
        (((8, 10, OLD_LOG), (11, 13, OLD_LOG)), OLD_LOG, True),
        (((8, 10, OLD_LOG), (10, 12, OLD_LOG)), OLD_LOG, True),
        (((8, 10, OLD_LOG), (9, 13, BRANCHED_LOG)), BRANCHED_LOG, False),
        (((8, 10, OLD_LOG), (10, 13, BRANCHED_LOG)), BRANCHED_LOG, True),
    ],
    ids=["all", "without 11", "without 13", "rolled back to 9", "10 on another branch"],
)
def test_what_members_of_the_group_received_on_several_streams_counts_together(
    pieces: tuple[Any, ...], log: tuple[tuple[int, int], ...], is_found: bool
) -> None:
    assert len(skipped(*between(*pieces, log=log))) == is_found


@pytest.mark.parametrize("how", ["a hole", "no beginning"])
def test_a_member_may_have_received_what_its_capture_lacks(how: str) -> None:
    first, _, again = between((8, 10, OLD_LOG))
    member = opened("c:2", port=50_002)
    member.host = "10.0.0.9"
    if how == "no beginning":
        member.begin()
    stream = member.stream(7, start=8, log=list(OLD_LOG))
    stream.snapshot(8, 13, "memory")
    if how == "a hole":
        with member.lost():
            stream.mutation(13, "k")
        member.noop()
    else:
        stream.mutation(13, "k")
    assert skipped(first, member, again) == []


def test_a_connection_whose_client_was_not_captured_may_be_that_of_the_client() -> None:
    """The handshake was, on the side of the server, and nothing of the client has a hole before it."""
    first = received("c:1", 0, 8, port=50_001)
    first.close("client")
    between = received("c:1", 8, 11, port=50_002, close=True)
    again = received("c:1", 11, 12, port=50_003)
    captured = [
        packet
        for packet in packets(first, between, again)
        if packet.flow[2] or packet.data[34:36] != (50_002).to_bytes(2)
    ]
    assert found_in(captured, rules=("resume-skipped",)) == []


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("without it", UNSEEN),
        ("asks for it soon", SKIPPED),
        ("is gone at once", SKIPPED),
        ("has another connection", SKIPPED),
    ],
)
def test_a_client_that_came_back_without_a_vbucket_may_have_left_it_to_another_member(
    how: str, found: object
) -> None:
    first = received("c:1", 0, 8, port=50_001)
    first.close("client")
    back = opened("c:1", port=50_002)
    back.stream(8)
    if how != "is gone at once":
        back.wait(3 if how == "asks for it soon" else 12)
        back.noop()
    if how == "asks for it soon":
        back.stream(7, start=11, log=[(0xA, 0)])
    back.close("client")
    again = opened("c:1", port=50_003)
    again.wait(3)
    again.stream(7, start=11, log=[(0xA, 0)])
    captured = packets(first, back, again)
    if how == "has another connection":  # on which it is asked for nothing meanwhile
        other = opened("c:1", port=50_004)
        other.stream(9)
        other.wait(20)
        other.noop()
        captured = sorted([*captured, *packets(other)], key=lambda packet: packet.time_ns)
    told = found_in(captured, rules=("resume-skipped",))
    assert [(one.severity, one.whose, one.message) for one in told] == [found]
    if found == UNSEEN:
        assert told[0].next == (
            "look at the group's other members: the client did without the vbucket for a while, and "
            "one of them may have received these seqnos meanwhile"
        )


@pytest.mark.parametrize(
    ("name", "said"),
    [("c:2", ("leading-consumer", "normal")), ("d:2", ("start-never-received", "client"))],
)
def test_who_resumes_where_another_member_had_come_to_is_not_at_fault_for_a_rollback(
    name: str, said: tuple[str, str]
) -> None:
    first = received("c:1", 0, 8, port=50_001)
    first.close("client", abort=True)
    member = received(name, 8, 90, port=50_002, host="10.0.0.9", ends=True)
    again = opened("c:1", port=50_003)
    again.stream(7, start=90, uuid=0xA, rollback=20)
    again.stream(7, start=20, uuid=0xB, log=[(0xB, 20), (0xA, 0)])
    (rollback,) = findings(first, member, again, rules=["rollback"])
    assert (rollback.cause, rollback.whose) == said


@pytest.mark.parametrize("how", ["ends", "rolls back"])
@pytest.mark.parametrize(
    ("meanwhile", "listed", "is_found"),
    [
        ("gives one up", 9, False),
        ("takes one", 9, False),
        ("gives one up", 7, True),
        ("gives one up later", 9, True),
        ("nothing", 9, True),
        ("gives one up", 0, False),
        ("nothing", 0, True),
    ],
)
def test_a_vbucket_may_be_given_to_a_member_that_nobody_captured(
    meanwhile: str, listed: int, is_found: bool, how: str
) -> None:
    """In the second in which the client loses it."""
    talk = opened("x-0")
    seqnos = [{"vbucket": vbucket, "seqno": 0} for vbucket in range(listed)]
    if listed:
        talk.ask("get_all_vb_seqnos", {"seqnos": seqnos}, state="active")
    streams = [talk.stream(vbucket) for vbucket in range(7)]
    talk.wait(20)
    if how == "ends":
        streams[5].end("too-slow")
    else:
        talk.stream(5, start=9, rollback=3)
    talk.wait(0.3)
    if meanwhile == "gives one up":
        streams[6].close()
    elif meanwhile == "takes one":
        talk.stream(8)
    talk.wait(40)
    if meanwhile == "gives one up later":
        streams[6].close()
    talk.wait(5)
    talk.noop()
    told = findings(talk, rules=["orphaned-vbucket", "rollback-not-followed"])
    assert [one.vbuckets for one in told] == [(5,)] * is_found


@pytest.mark.parametrize("on", ["c:1", "other:1"])
@pytest.mark.parametrize(
    ("listed", "away_s", "found"),
    [((7, 8), 11, UNSEEN), ((7, 8), 9, SKIPPED), ((7,), 11, SKIPPED), ((), 11, UNSEEN)],
)
def test_a_client_that_has_some_vbuckets_of_a_node_may_have_lost_them_while_it_was_away(
    listed: tuple[int, ...], away_s: float, found: object, on: str
) -> None:
    """Any connection to the node may have its list; without one, nobody knows."""
    first = received("c:1", 0, 8, port=50_001)
    first.close("client", abort=True)
    first.wait(away_s)
    again = opened("c:1", port=50_002)
    seqnos = [{"vbucket": vbucket, "seqno": 20} for vbucket in listed]
    asking = again if on == "c:1" else opened(on, port=50_003)
    asking.ask("get_all_vb_seqnos", {"seqnos": seqnos}, state="active")
    again.stream(7, start=11, log=[(0xA, 0)])
    assert skipped(first, again, *([asking] if asking is not again else [])) == [found]
