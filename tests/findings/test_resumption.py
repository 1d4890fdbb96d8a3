"""Where a client resumed a stream, and who may have received what it skipped."""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.statuses import Status
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.streams.told import Told, opened, packets, tables


def of(rule: str, *talks: Told) -> list[tuple[str, str]]:
    return [(one.severity, one.message) for one in findings(*talks) if one.rule == rule]


def test_a_client_that_resumes_above_what_it_had() -> None:
    first = opened("c:1", port=50_001)
    stream = first.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    first.close()
    second = opened("c:1", port=50_002)
    second.stream(7, start=11)
    (found,) = [one for one in findings(first, second) if one.rule == "resume-skipped"]
    assert found.message == "resumed at 11, received only to 8: 3 seqnos skipped"
    assert [place.connection for place in found.places] == [2, 1]
    third = opened("c:1", port=50_003)
    third.stream(7, start=8)
    assert of("resume-skipped", first, third) == []


@pytest.mark.parametrize(
    ("server", "seconds", "rules"),
    [
        ("node2", 100, []),
        ("node2", 30, ["resume-skipped"]),
        ("node1", 100, ["resume-skipped", "silent-connection"]),
    ],
)
def test_what_came_while_the_capture_paused_is_not_known(
    server: str, seconds: float, rules: list[str]
) -> None:
    """Two servers let their noops out, and never speak again on these connections."""
    first = opened("c:1", port=50_001)
    first.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 8}]}, state="active")
    stream = first.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    first.close()
    noops = {"enable_noop": "true", "set_noop_interval": "20"}
    others = [opened(f"c:{port}", port=port, **noops) for port in (50_002, 50_003)]
    others[1].server = server
    for other in others:
        other.noop()
    others[1].wait(seconds)
    later = opened("c:4", port=50_004)
    later.stream(7, start=11)
    told = {one.rule for one in findings(first, *others, later) if one.severity != "note"}
    assert sorted(told) == rules
    causes = {gap["cause"] for gap in tables(first, *others, later).gaps}
    assert ("resumed" in causes) == ("resume-skipped" in rules)


@pytest.mark.parametrize(
    ("name", "host", "is_found"),
    [
        ("orders_1a2b8f1f-f1fd-42a2-9755-d4c13a902931", "10.0.0.1", True),
        ("refunds_1a2b8f1f-f1fd-42a2-9755-d4c13a902931", "10.0.0.1", False),
        ("orders_1a2b8f1f-f1fd-42a2-9755-d4c13a902931", "10.0.0.9", False),
    ],
    ids=["the same group", "another group", "another pod"],
)
def test_a_process_that_starts_again_has_the_name_of_its_group_and_a_new_uuid(
    name: str, host: str, is_found: bool
) -> None:
    first = received("orders_cd613e30-d8f1-4adf-91b7-584a2265b1f5", 0, 8, port=50_001)
    first.close("client", abort=True)
    again = received(name, 11, 12, port=50_002, host=host)
    assert skipped(first, again) == [SKIPPED] * is_found


OLD, NEW = 0xA, 0xB
NEW_LOG = ((NEW, 5), (OLD, 0))


def on_another_branch(
    *,
    uuid: int = NEW,
    start: int = 8,
    seconds: float = 0,
    rollback: int | None = None,
    is_anew: bool = False,
) -> list[tuple[str, str, str]]:
    """What is said of a client that had come to 8 on the branch that ended at 5, then resumes."""
    first = opened("c:1", port=50_001)
    stream = first.stream(7, log=[(OLD, 0)])
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    first.close()
    second = opened("c:1", port=50_002)
    second.wait(seconds)
    if rollback is not None:
        second.stream(7, start=8, uuid=OLD, rollback=rollback)
    if is_anew:
        second.stream(7, flags=["from-latest"], log=[(OLD, 0)]).end("state-changed")
    second.stream(7, start=start, uuid=uuid, log=NEW_LOG)
    return skipped(first, second)


OTHER_BRANCH = (
    "resumed at 8 on branch 0x000000000000000b, but the items 6–8 that it has are of branch "
    "0x000000000000000a"
)


def test_a_client_that_resumes_on_another_branch_than_that_of_its_items() -> None:
    assert on_another_branch() == [("warning", "client", OTHER_BRANCH)]
    assert on_another_branch(seconds=9, rollback=5) == [("warning", "client", OTHER_BRANCH)]
    assert on_another_branch(seconds=9) == [("note", "unknown", OTHER_BRANCH)]
    assert on_another_branch(is_anew=True) == []  # it is where the vbucket was by then
    assert on_another_branch(uuid=OLD) == []  # a server that accepts it is at fault
    assert on_another_branch(uuid=OLD, start=5) == []
    assert on_another_branch(start=5) == []


@pytest.mark.parametrize("older", [[], [(0x100 + number, 0) for number in range(9)]])
def test_what_came_on_the_new_branch_counts_whatever_its_first_seqno_is(
    older: list[tuple[int, int]],
) -> None:
    """From 5 to 10 there is nothing that the client may see; then it goes back to 8. ``older``: so
    much that the capture lacks the end of this failover log.
    """
    first = opened("c:1", port=50_001)
    stream = first.stream(7, log=[(OLD, 0)])
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    first.close()
    second = opened("c:1", port=50_002)
    stream = second.stream(7, start=5, uuid=NEW, log=[*NEW_LOG, *older])
    stream.snapshot(5, 10, "memory")
    stream.seqno_advanced(10)
    second.close()
    third = opened("c:1", port=50_003)
    third.stream(7, start=8, uuid=NEW + 1, log=((NEW + 1, 8), *NEW_LOG))
    assert skipped(first, second, third, snaplen=126) == []


def test_a_client_that_reads_only_what_is_new() -> None:
    """Kafka connectors and go-dcp can begin at the high seqno each time."""
    for high, is_asked_before, severity in (
        (11, False, "note"),
        (9, False, "warning"),
        (11, True, "warning"),
    ):
        first = opened("c:1", port=50_001)
        if is_asked_before:
            first.high_seqnos({7: high})
        stream = first.stream(7)
        stream.snapshot(0, 8, "memory")
        stream.mutation(8, "k")
        first.close()
        second = opened("c:1", port=50_002)
        if not is_asked_before:
            second.high_seqnos({7: high})
        second.stream(7, start=11)
        ((told, whose, message),) = skipped(first, second)
        assert told == severity
        if told == "note":
            assert whose == "unknown"
            assert message.endswith("skipped; 11 is the high seqno that the server told it")


def skipped(*talks: Told, snaplen: int = 1 << 18) -> list[tuple[str, str, str]]:
    """Severity, who has to act, and the message of each."""
    return [
        (one.severity, one.whose, one.message)
        for one in findings(*talks, snaplen=snaplen)
        if one.rule == "resume-skipped"
    ]


SKIPPED = ("warning", "client", "resumed at 11, received only to 8: 3 seqnos skipped")
UNSEEN = ("note", "unknown", "resumed at 11, received only to 8: 3 seqnos not in this capture")


def received(
    name: str,
    start: int,
    last: int,
    *,
    port: int,
    host: str = "10.0.0.1",
    close: bool = False,
    ends: bool = False,
) -> Told:
    talk = opened(name, port=port)
    talk.host = host
    stream = talk.stream(7, start=start, log=[(0xA, 0)])
    stream.snapshot(start, last, "memory")
    stream.mutation(last, "k")
    if close:
        talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=99))
        stream.end("closed")
    if ends:
        stream.end("state-changed")
    return talk


@pytest.mark.parametrize(("waited", "found"), [(1, SKIPPED), (3, UNSEEN)])
@pytest.mark.parametrize("close", [True, False])
def test_another_node_or_another_member_may_have_delivered_what_came_meanwhile(
    waited: int, found: object, close: bool
) -> None:
    """The vbucket left the node, or the client had closed the stream."""
    talk = opened("c:1")
    stream = talk.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    if close:
        talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=99))
    stream.end("closed" if close else "state-changed")
    talk.wait(waited)
    talk.stream(7, start=11)
    assert skipped(talk) == [found]


@pytest.mark.parametrize(("log", "found"), [([(0xA, 0)], SKIPPED), ([(0xB, 9), (0xA, 0)], UNSEEN)])
def test_a_new_branch_shows_that_another_node_was_promoted_meanwhile(
    log: list[tuple[int, int]], found: object
) -> None:
    first = received("c:1", 0, 8, port=50_001)
    first.close("server", abort=True)
    again = opened("c:1", port=50_002)
    again.stream(7, start=11, log=log)
    assert skipped(first, again) == [found]


ACTIVE, REPLICA, DEAD = 1, 2, 4


def administrator(
    *states: int,
    vbucket: int = 7,
    status: int = 0,
    pause: float = 0,
    bucket: str | None = None,
    mid: bool = False,
) -> Told:
    """Sets the state of a vbucket, with a pause after each; 0 deletes it. ``mid``: the capture
    began inside the connection.
    """
    talk = Told("", port=50_009, host="10.0.0.9")
    if bucket is not None:
        talk.ask("select_bucket", key=bucket)
    if mid:
        talk.begin()
    for state in states:
        more: dict[str, Any] = {"state": state} if state else {}
        talk.ask("set_vbucket" if state else "del_vbucket", vbucket=vbucket, status=status, **more)
        talk.wait(pause)
    return talk


def reconnected(between: Told, log: list[tuple[int, int]], *, ends: bool = False) -> list[Finding]:
    """The findings on a client that had come to 8, and resumes at 11 with this log. ``ends``:
    first, its stream ended for a state.
    """
    first = received("c:1", 0, 8, port=50_001, ends=ends)
    first.close("server", abort=True)
    again = opened("c:1", port=50_002)
    again.stream(7, start=11, log=log)
    return [one for one in findings(first, between, again) if one.rule == "resume-skipped"]


ONE_BRANCH, TWO_BRANCHES = [(0xB, 9), (0xA, 0)], [(0xC, 10), (0xB, 9), (0xA, 0)]


@pytest.mark.parametrize(
    ("between", "log", "ends", "rows"),
    [
        (administrator(REPLICA, ACTIVE), ONE_BRANCH, False, "in rows 10 and 12"),
        (administrator(DEAD, ACTIVE), ONE_BRANCH, True, "in rows 11 and 13"),
        (administrator(ACTIVE), ONE_BRANCH, True, "in row 11"),
        (
            administrator(REPLICA, ACTIVE, REPLICA, ACTIVE),
            TWO_BRANCHES,
            True,
            "4 times, from row 11 to row 17",
        ),
        (administrator(0, ACTIVE), [(0xB, 0)], True, "in rows 11 and 13"),
        (administrator(REPLICA, ACTIVE), [(0xA, 0)], True, "in rows 11 and 13"),
    ],
    ids=[
        "replica and active",
        "dead and active",
        "active again",
        "twice",
        "deleted and made again",
        "no new branch",
    ],
)
def test_a_vbucket_that_changed_its_state_here_was_on_no_other_node(
    between: Told, log: list[tuple[int, int]], ends: bool, rows: str
) -> None:
    (one,) = reconnected(between, log, ends=ends)
    assert (one.severity, one.whose, one.message) == SKIPPED
    assert one.next == (
        "let the client read the skipped seqnos again; no other node can have sent them, because "
        f"the vbucket stayed on this node, where its state changed {rows}; the client's author has "
        "to look at how it writes checkpoints"
    )
    assert {place.connection for place in one.places} == {1, 2, 3}


@pytest.mark.parametrize(
    ("between", "rows"),
    [
        (administrator(REPLICA, ACTIVE, pause=3), "in rows 10 and 12"),
        (administrator(REPLICA, ACTIVE, mid=True), "in rows 17 and 18"),
    ],
    ids=["3 s between", "of which bucket is unknown"],
)
def test_a_vbucket_that_was_not_active_here_for_long_may_have_been_on_another_node(
    between: Told, rows: str
) -> None:
    (one,) = reconnected(between, ONE_BRANCH)
    assert (one.severity, one.whose, one.message) == UNSEEN
    assert one.next == (
        f"look where the vbucket was active in between; it changed its state on this node {rows}"
    )


@pytest.mark.parametrize(
    ("between", "log"),
    [
        (administrator(REPLICA, ACTIVE, status=Status.EACCESS), ONE_BRANCH),
        (administrator(REPLICA, ACTIVE, vbucket=8), ONE_BRANCH),
        (administrator(REPLICA, ACTIVE, bucket="another"), ONE_BRANCH),
        (administrator(ACTIVE, ACTIVE), ONE_BRANCH),
        (administrator(REPLICA), ONE_BRANCH),
        (administrator(REPLICA, ACTIVE, REPLICA), ONE_BRANCH),
        (administrator(REPLICA, ACTIVE), TWO_BRANCHES),
    ],
    ids=[
        "refused",
        "another vbucket",
        "another bucket",
        "no change",
        "not active again",
        "left at last",
        "more branches than changes",
    ],
)
def test_changes_of_state_that_do_not_make_the_new_branch_say_nothing_of_it(
    between: Told, log: list[tuple[int, int]]
) -> None:
    (one,) = reconnected(between, log)
    assert (one.severity, one.whose, one.message) == UNSEEN
    assert one.next == (
        "look at the other nodes: one of them was promoted in between, and the capture may lack"
        " what the client received there"
    )


@pytest.mark.parametrize(
    ("name", "at_once", "is_found"),
    [("xdcr:b", True, False), ("xdcr:b", False, True), ("xdcr:a", True, True)],
)
def test_two_clients_whose_names_begin_alike_have_each_their_own_place(
    name: str, at_once: bool, is_found: bool
) -> None:
    """Two connections that are open at the same time are no reconnect."""
    first = received("xdcr:a", 0, 8, port=50_001)
    first.close("server", abort=True)
    other = opened(name, port=50_002)
    other.wait(3)
    other.stream(7, start=11, log=[(0xA, 0)])
    captured = (
        [packet for talk in (first, other) for packet in packets(talk)]
        if at_once
        else packets(first, other)
    )
    told = found_in(sorted(captured, key=lambda packet: packet.time_ns), rules=("resume-skipped",))
    assert [one.rule for one in told] == ["resume-skipped"] * is_found


def test_names_that_come_in_turn_are_those_of_two_clients() -> None:
    own = [
        received("app:a", 0, 8, port=50_000, close=True),
        received("app:a", 8, 9, port=50_002, close=True),
    ]
    others = [
        received("app:b", 20, 28, port=50_001, close=True),
        received("app:b", 28, 29, port=50_003, close=True),
    ]
    assert skipped(own[0], others[0], own[1], others[1]) == []
    assert len(skipped(own[0], others[0])) == 1


def program(
    name: str,
    start: int,
    *,
    port: int,
    end: int | None = None,
    agent: str = "app/1.0",
    bucket: str = "b",
    host: str = "10.0.0.1",
    **more: Any,
) -> Told:
    """A connection that asks for vbucket 7 from ``start``, and is sent up to 8."""
    talk = Told(name, port=port, host=host)
    talk.hello(agent, "JSON", "Collections")
    talk.ask("select_bucket", key=bucket)
    talk.open(name, "producer")
    if end is not None:
        more["end"] = end
    stream = talk.stream(7, start=start, log=[(0xA, 0)], **more)
    if start < 8:
        stream.snapshot(start, 8, "memory")
        stream.mutation(8, "k")
    if end == 8:
        stream.end()
    return talk


def to_8(name: str = "c:1", **more: Any) -> Told:
    """A client that streams to 8, which is all that it asks for."""
    return program(name, 0, end=8, port=50_001, **more)


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize(
    ("name", "server", "agent"),
    [
        ("c:1", "node1", "app/1.0"),
        ("c:2", "node1", "app/1.0"),
        ("c:1", "node2", "app/1.0"),
        ("c:2", "node1", "app/2.0"),
        ("c", "node1", "app/1.0"),
    ],
)
def test_a_client_that_begins_beyond_its_finite_end_has_skipped_what_lies_between(
    name: str, server: str, agent: str, closes: bool
) -> None:
    first, again = to_8(), program(name, 11, port=50_002, agent=agent)
    again.server = server
    if closes:
        first.close("client")
    # it comes to the node under the name that it has there: the old connection ended unseen
    is_unseen = not closes and (name, server) == ("c:1", "node1")
    assert skipped(first, again) == [SKIPPED] * (not is_unseen)


def test_and_so_has_one_that_begins_beyond_it_on_the_same_connection() -> None:
    talk = to_8()
    talk.stream(7, start=11, log=[(0xA, 0)])
    assert skipped(talk) == [SKIPPED]


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("name", ["d:1", "d", "another name"])
def test_so_has_the_same_program_on_the_same_host_under_another_name(
    name: str, closes: bool
) -> None:
    """It is a note, since two programs may have one agent."""
    first = to_8()
    if closes:
        first.close("client")
    assert skipped(first, program(name, 11, port=50_002)) == [("note", *SKIPPED[1:])]


@pytest.mark.parametrize(
    "talks",
    [
        (to_8(), program("d:1", 8, port=50_002)),
        (to_8(), program("d:1", 0, port=50_002)),
        (to_8(), program("d:1", 11, port=50_002, agent="other/1.0")),
        (to_8(), program("d:1", 11, port=50_002, host="10.0.0.9")),
        (to_8(), program("d:1", 11, port=50_002, bucket="other")),
        (to_8(), program("d:1", 11, port=50_002, flags=["from-latest"])),
        (program("c:1", 0, port=50_001), program("d:1", 11, port=50_002)),
        (to_8(), program("d:1", 11, port=50_002), program("c:1", 8, port=50_003)),
        (program("d:1", 0, end=5, port=50_004), to_8(), program("d:1", 8, port=50_002)),
        (to_8(), program("d:1", 8, port=50_003, end=11), program("d:1", 11, port=50_002)),
    ],
    ids=[
        *(
            "from its end",
            "from 0",
            "another agent",
            "another host",
            "another bucket",
            "from the latest",
            "without an end",
        ),
        *("the first goes on", "each has its own place", "the rest in between"),
    ],
)
def test_another_name_that_may_be_another_client_is_no_skip(talks: tuple[Told, ...]) -> None:
    assert skipped(*talks) == []


def test_a_program_that_may_have_asked_where_nobody_captured_it_is_no_skip() -> None:
    hidden = Told("d:1", port=50_003)
    hidden.hello("app/1.0", "JSON", "Collections")
    hidden.ask("select_bucket", key="b")
    hidden.open("d:1", "producer")
    stream = hidden.stream(8)
    with hidden.lost():
        for seqno in range(1, 40):
            stream.snapshot(seqno - 1, seqno, "memory")
            stream.mutation(seqno, "k")
    stream.snapshot(39, 40, "memory")
    stream.mutation(40, "k")
    assert skipped(to_8(), hidden, program("e:1", 11, port=50_002)) == []


def test_a_hole_behind_a_marker_may_have_all_of_its_snapshot() -> None:
    """A SeqnoAdvanced is enough, which is shorter than a marker and an event."""
    first = opened("go-dcp:1", port=50_001)
    stream = first.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.seqno_advanced(3)
    stream.snapshot(4, 9, "memory")
    with first.lost():
        stream.seqno_advanced(9)
    stream.close()
    second = opened("go-dcp:1", port=50_002)
    second.stream(7, start=9)
    assert of("resume-skipped", first, second) == []


def test_a_stream_from_latest_whose_answer_is_lost_may_have_moved_the_client() -> None:
    first = opened("c:1", port=50_001)
    stream = first.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    first.close()
    second = opened("c:1", port=50_002)
    latest = second.stream_request(7, 5, flags=("from-latest",))
    with second.lost():
        second.stream_answer(latest)
    latest.close()
    latest.end("closed")
    second.stream(7, start=11)
    assert of("resume-skipped", first, second) == []
