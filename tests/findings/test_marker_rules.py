"""Rules about snapshots as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.records import Snapshots
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.peers.script import Stream
from tests.streams.told import Told, opened, packets


def of(rule: str, *talks: Told) -> list[tuple[str, str]]:
    return [(one.severity, one.message) for one in findings(*talks) if one.rule == rule]


def streaming(talk: Told, **request: object) -> Stream:
    return talk.stream(7, **request)  # type: ignore[arg-type] # passed on


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (5, []),
        (2, []),
        (9, [("note", "first snapshot starts at 9; 2 or 5 expected")]),
        (3, [("warning", "first snapshot starts at 3; 2 or 5 expected")]),
    ],
)
def test_a_first_marker_starts_where_it_was_asked_to(
    start: int, expected: list[tuple[str, str]]
) -> None:
    talk = opened()
    stream = streaming(talk, start=5, snapshot=(2, 9))
    stream.snapshot(start, 12, "memory")
    stream.mutation(12, "k")
    assert of("first-marker-start", talk) == expected


def test_a_first_marker_may_start_anywhere_from_the_latest_or_behind_a_hole() -> None:
    talk = opened()
    stream = streaming(talk, flags=["from-latest"])
    stream.snapshot(50, 60, "memory")
    assert of("first-marker-start", talk) == []
    talk = opened()
    with talk.lost():
        stream = streaming(talk)
        stream.snapshot(0, 9, "memory")
    stream.snapshot(50, 60, "memory", "checkpoint")
    stream.mutation(60, "k")
    assert of("first-marker-start", talk) == []


def cut_short(
    *features: str, kind: str = "memory", value: dict[str, object] | None = None, **controls: str
) -> Told:
    """Of a snapshot up to 9 the last seqno does not come."""
    talk = Told("test:1")
    if features:
        talk.hello("test/1.0", *features)
    talk.open("test:1", "producer")
    for key, of in controls.items():
        talk.control(key, of)
    stream = streaming(talk, value=value)
    stream.snapshot(0, 9, kind)
    stream.mutation(8, "k")
    stream.snapshot(10, 12, "memory", "checkpoint")
    stream.mutation(12, "l")
    return talk


@pytest.mark.parametrize(
    ("features", "severity", "what"),
    [
        (("JSON", "Collections"), "warning", "seqno 9 did not come, nor a SeqnoAdvanced"),
        (("JSON",), "note", "seqno 9 did not come"),
    ],
)
def test_a_snapshot_that_another_marker_cuts_short(
    features: tuple[str, ...], severity: str, what: str
) -> None:
    assert of("snapshot-incomplete", cut_short(*features)) == [
        (severity, f"had come to seqno 8 of 9 when the next marker came: {what}")
    ]


def test_seqnos_that_did_not_come_are_named() -> None:
    talk = opened()
    stream = streaming(talk, start=4)
    stream.snapshot(4, 9, "memory")
    stream.snapshot(10, 20, "memory", "checkpoint")
    stream.mutation(12, "l")
    stream.snapshot(21, 30, "memory", "checkpoint")
    found = [one for one in findings(talk) if one.rule == "snapshot-incomplete"]
    (one,) = found  # of the same vbucket
    assert (one.message, one.count) == (
        (
            "nothing of the snapshot up to 9 had come when the next marker came: seqnos 5–9 did not come, "
            "nor a SeqnoAdvanced"
        ),
        2,
    )
    assert one.seqnos == (5, 9)


class Taken(np.ndarray[Any, Any]):
    """A column that counts how many entries are taken out of it."""

    count = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Taken.count += np.size(found)
        return found


def taken(snapshots: int) -> int:
    """Entries of a column that are looked at where so many snapshots are incomplete."""
    talk = opened()
    stream = streaming(talk)
    for start in range(0, 2 * snapshots, 2):
        stream.snapshot(start, start + 1, "memory")
    Taken.count = 0
    assert (
        sum(one.count for one in findings(talk) if one.rule == "snapshot-incomplete")
        == snapshots - 1
    )
    return Taken.count


def test_incomplete_snapshots_are_not_compared_with_all_others_of_their_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    column: Any = Snapshots.fields["index"]
    monkeypatch.setattr(
        Snapshots, "index", property(lambda rows: column.__get__(rows, Snapshots).view(Taken))
    )
    assert 0 < taken(80) < 2.5 * taken(40)


def advice(talk: Told) -> str:
    (one,) = [one for one in findings(talk) if one.rule == "snapshot-incomplete"]
    return one.next


FILTER: dict[str, object] = {"collections": ["0"]}


@pytest.mark.parametrize("features", [("JSON",), ()])
def test_only_a_client_without_collections_is_told_to_negotiate_them(
    features: tuple[str, ...],
) -> None:
    assert "negotiate collections" in advice(cut_short(*features))
    for value in (None, FILTER):
        told = advice(cut_short("JSON", "Collections", value=value))
        assert "negotiate" not in told
        assert told.startswith("a client can take the snapshot as ended")


def test_whether_collections_are_on_nobody_knows_where_the_hello_may_be_lost() -> None:
    talk = Told("test:1")
    with talk.lost():
        talk.hello("test/1.0", "JSON", "Collections")
    talk.open("test:1", "producer")
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(8, "k")
    stream.snapshot(10, 12, "memory", "checkpoint")
    assert of("snapshot-incomplete", talk) == [
        ("note", "had come to seqno 8 of 9 when the next marker came: seqno 9 did not come")
    ]
    assert "negotiate" not in advice(talk)
    assert "whether collections are on" in advice(talk)


KNOWN = "MB-73354"


def test_servers_that_are_known_to_leave_it_out_are_named() -> None:
    told = advice(cut_short("JSON", "Collections", value=FILTER))
    assert KNOWN in told
    assert all(version in told for version in ("7.0.2", "7.2.9", "7.6.12", "8.0.2"))


@pytest.mark.parametrize(
    "talk",
    [
        cut_short("JSON", "Collections"),
        cut_short("JSON", "Collections", value={"sid": 3}),
        cut_short("JSON", "Collections", value=FILTER, kind="disk"),
        cut_short("JSON", "Collections", value=FILTER, enable_sync_writes="true"),
        cut_short("JSON"),
    ],
    ids=[
        "without a filter",
        "with a stream-id alone",
        "from disk",
        "with sync writes",
        "without collections",
    ],
)
def test_and_not_where_theirs_is_another_case(talk: Told) -> None:
    assert KNOWN not in advice(talk)


@pytest.mark.parametrize(
    ("value", "settings", "severity", "cause", "whose"),
    [
        (FILTER, {}, "note", "hidden", "normal"),
        (None, {}, "note", "hidden", "normal"),  # perhaps a prepare
        (FILTER, {"enable_sync_writes": "true"}, "note", "hidden", "normal"),
        (None, {"enable_sync_writes": "true"}, "warning", "not-told", "server"),
    ],
    ids=["a filter", "no sync writes", "a filter with sync writes", "all is visible"],
)
def test_a_server_before_7_0_does_not_have_to_say_what_it_hides(
    value: dict[str, object] | None, settings: dict[str, str], severity: str, cause: str, whose: str
) -> None:
    """It has no SeqnoAdvanced. Its version is known by a setting that it does not know, here on
    another connection.
    """
    other = opened("other:1", port=50_009)
    other.control("v7_dcp_status_codes", "true", status=Status.EINVAL)
    (one,) = [
        one
        for one in findings(cut_short("JSON", "Collections", value=value, **settings), other)
        if one.rule == "snapshot-incomplete"
    ]
    assert (one.severity, one.cause, one.whose) == (severity, cause, whose)
    assert one.next == "a client can take the snapshot as ended; " + (
        "the server owes the last seqno or, from 7.0 on, a SeqnoAdvanced; report it with the "
        "server's version, the client is not at fault"
        if whose == "server"
        else "servers before 7.0, as this one, do not say which seqnos the client cannot see"
    )


def test_a_stream_that_brought_all_it_was_asked_for_owes_nothing_of_its_snapshot() -> None:
    talk = opened()
    stream = talk.stream(7, end=5)
    stream.snapshot(0, 9, "disk")
    stream.mutation(7, "k")
    stream.end()
    assert of("snapshot-incomplete", talk) == []


def test_a_snapshot_that_seqno_advanced_completes_or_a_hole_hides() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(8, "k")
    stream.seqno_advanced(9)
    stream.snapshot(10, 20, "memory", "checkpoint")
    with talk.lost():
        stream.mutation(20, "l")
    stream.snapshot(21, 22, "memory", "checkpoint")
    stream.mutation(22, "m")
    assert of("snapshot-incomplete", talk) == []


def test_a_client_that_resumes_above_what_it_had() -> None:
    first = opened("c:1", port=50_001)
    stream = first.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    first.close()
    second = opened("c:1", port=50_002)
    second.stream(7, start=11)
    (found,) = [one for one in findings(first, second) if one.rule == "resume-skipped"]
    assert found.message == "resumed at 11, received only to 8: 3 seqnos never delivered"
    assert [place.connection for place in found.places] == [2, 1]
    third = opened("c:1", port=50_003)
    third.stream(7, start=8)
    assert of("resume-skipped", first, third) == []


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
            assert message.endswith("never delivered; 11 is the high seqno that the server told it")


def skipped(*talks: Told) -> list[tuple[str, str, str]]:
    """Severity, who has to act, and the message of each."""
    return [
        (one.severity, one.whose, one.message)
        for one in findings(*talks)
        if one.rule == "resume-skipped"
    ]


SKIPPED = ("warning", "client", "resumed at 11, received only to 8: 3 seqnos never delivered")
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
        (administrator(REPLICA, ACTIVE), ONE_BRANCH, False, "rows 10 and 12"),
        (administrator(DEAD, ACTIVE), ONE_BRANCH, True, "rows 11 and 13"),
        (administrator(ACTIVE), ONE_BRANCH, True, "row 11"),
        (administrator(REPLICA, ACTIVE, REPLICA, ACTIVE), TWO_BRANCHES, True, "rows 11 and 17"),
        (administrator(0, ACTIVE), [(0xB, 0)], True, "rows 11 and 13"),
        (administrator(REPLICA, ACTIVE), [(0xA, 0)], True, "rows 11 and 13"),
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
        "let the client read the skipped seqnos again, because the vbucket changed its state on "
        f"this node in {rows}, and did not leave it; its author has to look at how it writes "
        "checkpoints"
    )
    assert {place.connection for place in one.places} == {1, 2, 3}


@pytest.mark.parametrize(
    ("between", "rows"),
    [
        (administrator(REPLICA, ACTIVE, pause=3), "rows 10 and 12"),
        (administrator(REPLICA, ACTIVE, mid=True), "rows 17 and 18"),
    ],
    ids=["3 s between", "of which bucket is unknown"],
)
def test_a_vbucket_that_was_not_active_here_for_long_may_have_been_on_another_node(
    between: Told, rows: str
) -> None:
    (one,) = reconnected(between, ONE_BRANCH)
    assert (one.severity, one.whose, one.message) == UNSEEN
    assert one.next == (
        f"look where the vbucket was active in between; it changed its state on this node in {rows}"
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


def test_what_came_of_an_incomplete_snapshot_is_what_lies_inside_of_it() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(4, "a")
    stream.mutation(30, "b")
    stream.snapshot(40, 50, "memory")
    assert [message for _, message in of("snapshot-incomplete", talk)] == [
        "had come to seqno 4 of 9 when the next marker came: seqnos 5–9 did not come, nor a SeqnoAdvanced"
    ]


def test_a_marker_behind_what_came_is_not_called_incomplete_as_well() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "a")
    stream.snapshot(3, 5, "memory")
    stream.snapshot(10, 12, "memory")
    assert len(of("marker-behind", talk)) == 1
    assert of("snapshot-incomplete", talk) == []


def test_incomplete_snapshots_of_several_vbuckets_are_one_short_sentence() -> None:
    talks = []
    for port in (50_000, 50_001):
        talk = Told("old:1", port=port)
        talk.hello("old/1", "XATTR")
        talk.open("old:1", "producer")
        for vbucket, end in ((7, 8), (8, 14), (9, 23)):
            stream = talk.stream(vbucket)
            stream.snapshot(0, end, "memory")
            stream.mutation(end - 1, "k")
            stream.snapshot(end + 1, end + 9, "memory")
            stream.mutation(end + 9, "k")
        talks.append(talk)
    (found,) = (one for one in findings(*talks) if one.rule == "snapshot-incomplete")
    assert found.what == "the last seqnos of a snapshot had not come when the next marker came"


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
