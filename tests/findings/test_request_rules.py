"""Rules about stream requests, each by its smallest conversation, and by the one that looks like it
and is sound.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.words import by_side
from tests.encode import encode, encode_snappy
from tests.findings.checked import checked, findings, found_in
from tests.streams.told import Told, opened, packets

LATER = (
    "look at the node's memory and load if it goes on; the server refuses only for now, so a "
    "client should ask again later, with growing pauses"
)
REACHES = "; look whether the client reaches it, and asks there"

NEW, OLD = 0xB, 0xA
LOG = ((NEW, 100), (OLD, 0))


def warnings(*talks: Told) -> list[Finding]:
    return [one for one in findings(*talks) if one.severity != "note"]


@pytest.mark.parametrize(
    ("start", "end", "snapshot", "cause"),
    [
        (5, 2**64 - 1, (6, 9), "start-below-snapshot"),
        (10, 2**64 - 1, (6, 9), "start-above-snapshot"),
        (10, 9, (6, 10), "start-above-end"),
        (2**63 + 1, 2**64 - 1, (6, 2**63), "start-above-snapshot"),
    ],
)
def test_a_range_that_cannot_be(
    start: int, end: int, snapshot: tuple[int, int], cause: str
) -> None:
    talk = opened()
    talk.stream(7, start=start, end=end, snapshot=snapshot, status=Status.ERANGE)
    (found,) = warnings(talk)
    assert (found.rule, found.severity, found.cause) == ("bad-stream-range", "error", cause)
    assert len(found.places) == 2
    assert found.message.endswith("answered with erange")


@pytest.mark.parametrize(("start", "snapshot"), [(5, (6, 9)), (10, (6, 10))])
def test_a_range_that_cannot_be_and_has_no_answer(start: int, snapshot: tuple[int, int]) -> None:
    talk = opened()
    talk.stream_request(7, 1, start=start, end=9, snapshot=snapshot)
    message = next(one.message for one in findings(talk) if one.rule == "bad-stream-range")
    assert message in ("start 5 is not in snapshot 6–9", "start 10 is above end 9")


def test_a_range_that_is_the_marker_before_its_first_item() -> None:
    """Kafka and Java clients stored markers as they came: start 8, snapshot 9 to 20."""
    first = opened("kafka:1", port=50_001)
    stream = first.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    stream.snapshot(9, 20, "memory", "checkpoint")
    first.close(abort=True)
    second = opened("kafka:1", port=50_002)
    second.stream(7, start=8, snapshot=(9, 20), status=Status.ERANGE)
    (found,) = warnings(first, second)
    assert (found.rule, found.cause, len(found.places)) == (
        "bad-stream-range",
        "marker-without-item",
        3,
    )
    assert found.next == "store a snapshot only with its first item; resume with snapshot 8–8"


@pytest.mark.parametrize(
    "request_",
    [
        {"start": 5, "snapshot": (5, 5)},
        {"start": 5, "snapshot": (2, 9)},
        {"start": 0, "flags": ["from-latest"], "snapshot": (3, 5)},
    ],
)
def test_ranges_that_are_sound(request_: dict[str, Any]) -> None:
    talk = opened()
    talk.stream(7, **request_)
    assert warnings(talk) == []


@pytest.mark.parametrize(
    ("status", "severity"),
    [
        (Status.EACCESS, "error"),
        (Status.ERANGE, "error"),
        (Status.ENOMEM, "warning"),
        (Status.NOT_MY_VBUCKET, "warning"),
        (0x1234, "warning"),
    ],
)
def test_a_refusal_is_told_by_its_status(status: int, severity: str) -> None:
    talk = opened()
    talk.stream(7, status=status)
    (found,) = warnings(talk)
    assert (found.rule, found.severity) == ("stream-refused", severity)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (Status.ETMPFAIL, LATER),
        (Status.ENOMEM, LATER),
        (
            Status.EACCESS,
            (
                "give the user a role that may read this data over DCP; until then, the server "
                "refuses its requests"
            ),
        ),
        (0x1234, by_side(RULES["stream-refused"].next)),
    ],
)
def test_what_to_do_about_a_refusal_depends_on_its_status(status: int, advice: str) -> None:
    talk = opened()
    talk.stream(7, status=status)
    assert [one.next for one in warnings(talk)] == [advice]


def test_what_is_refused_for_now_may_have_been_granted_in_a_hole() -> None:
    talk = opened()
    talk.stream(7, status=Status.ETMPFAIL)
    with talk.lost():
        talk.stream(7)
    talk.noop()
    (finding,) = [one for one in findings(talk) if one.rule == "stream-refused"]
    assert finding.severity == "note"
    assert finding.next == (
        "look whether the vbucket has a stream now, the capture may lack a later request; " + LATER
    )


@pytest.mark.parametrize(
    ("times", "nodes", "cause", "whose"),
    [
        (3, ["b:1"], "not-my-vbucket", "normal"),
        (4, ["b:1"], "stale-map", "client"),
        (4, ["10.0.0.2:11210"], "not-my-vbucket", "normal"),
    ],
)
def test_a_client_that_asks_the_wrong_node_again_and_again_has_an_old_map(
    times: int, nodes: list[str], cause: str, whose: str
) -> None:
    (found,) = warnings(redirected(*[7] * times, nodes=nodes))
    assert (found.rule, found.cause, found.whose, found.count) == (
        "stream-refused",
        cause,
        whose,
        times,
    )


def test_a_vbucket_that_moved_is_a_note_once_it_was_found() -> None:
    talk = opened()
    talk.stream(7, status=Status.NOT_MY_VBUCKET)
    talk.stream(7)
    assert warnings(talk) == []
    assert [one.rule for one in findings(talk)] == ["stream-refused"]


def test_a_vbucket_that_no_bucket_has_is_the_clients_fault() -> None:
    def refused(*granted: int) -> list[tuple[Any, ...]]:
        talk = opened()
        for vbucket in granted:
            talk.stream(vbucket)
        for vbucket in (50, 1024):
            talk.stream(vbucket, status=Status.NOT_MY_VBUCKET)
        return [(one.cause, one.whose, one.vbuckets) for one in warnings(talk)]

    normal = "not-my-vbucket", "normal"
    assert refused() == [(*normal, (50,)), ("no-such-vbucket", "client", (1024,))]
    assert refused(1023) == refused()
    # a server that was built for more
    assert refused(1025) == [(*normal, (50, 1024))]


@pytest.mark.parametrize("ends", [False, True])
def test_a_second_request_for_an_open_stream(ends: bool) -> None:
    talk = opened()
    talk.stream(7).end("ok")
    stream = talk.stream(7)
    talk.stream(7, status=Status.KEY_EEXISTS)
    if ends:
        stream.end("ok")
    (found,) = warnings(talk)
    assert (found.rule, len(found.places)) == ("duplicate-stream-request", 3)
    assert found.places[2].row == 8
    assert found.message == "requested again while open since row 8"


def test_noops_are_wanted_before_streams_with_collections() -> None:
    talk = opened()
    talk.stream(7, status=Status.NOT_SUPPORTED)
    assert [one.rule for one in warnings(talk)] == ["noop-required"]
    talk = opened(enable_noop="true")
    talk.stream(7, status=Status.NOT_SUPPORTED)
    assert [one.rule for one in warnings(talk)] == ["stream-refused"]


def test_whether_noops_are_on_nobody_knows_where_the_control_may_be_lost() -> None:
    talk = opened()
    with talk.lost():
        talk.control("enable_noop", "true")
    talk.stream(7, status=Status.NOT_SUPPORTED)
    assert [one.rule for one in warnings(talk)] == ["stream-refused"]


def test_a_manifest_ahead_of_the_servers() -> None:
    talk = opened()
    talk.stream(7, status=Status.COLLECTIONS_MANIFEST_IS_AHEAD)
    assert [one.rule for one in warnings(talk)] == ["manifest-ahead"]


@pytest.mark.parametrize(
    ("known", "told", "rule"),
    [("a", "9", "manifest-ahead"), ("a", "a", "stream-refused"), ("9", "10", "stream-refused")],
)
def test_a_collection_that_only_a_newer_manifest_has(known: str, told: str, rule: str) -> None:
    talk = opened()
    reply = {"value": f'{{"manifest_uid":"{told}"}}', "datatype": 1}
    talk.stream(
        7, value={"uid": known, "collections": ["9"]}, status=Status.UNKNOWN_COLLECTION, reply=reply
    )
    (found,) = warnings(talk)
    assert found.rule == rule
    if rule == "manifest-ahead":
        assert found.message == "the client knows manifest 0xa, the server 0x9"


@pytest.mark.parametrize(("name", "severity"), [("dcp:2", "note"), ("other:1", "warning")])
def test_a_connection_whose_start_was_not_captured_may_have_been_granted_the_vbucket_elsewhere(
    name: str, severity: str
) -> None:
    asks, is_granted = opened("dcp:1"), opened(name, port=50_001)
    stream = asks.stream(8)
    if severity == "note":
        asks.begin()
    stream.snapshot(0, 1, "memory")
    asks.stream(7, status=Status.NOT_MY_VBUCKET)
    is_granted.stream(7)
    (found,) = [one for one in findings(asks, is_granted) if one.rule == "stream-refused"]
    assert found.severity == severity


def rolled_back(*, to: int = 100, **request: Any) -> Told:
    """A client that is ahead of the newest branch, by a log that it was sent."""
    talk = opened()
    talk.failover_log(7, LOG)
    asked: dict[str, Any] = {"start": 150, "snapshot": (150, 150), "uuid": OLD} | request
    talk.stream(7, rollback=to, **asked)
    return talk


def rollbacks(*talks: Told) -> list[Finding]:
    return [one for one in findings(*talks) if one.rule == "rollback"]


def test_a_rollback_says_why_and_what_would_work() -> None:
    (found,) = warnings(rolled_back())
    assert (found.rule, found.cause) == ("rollback", "leading-consumer")
    assert (
        found.next
        == f"let the client discard what is above 100, and resume at 100 with uuid 0x{NEW:016x}"
    )
    assert found.seqnos == (150, 100)


@pytest.mark.parametrize(
    "again",
    [
        {"start": 100, "snapshot": (100, 100), "uuid": NEW},
        {"start": 100, "snapshot": (100, 100), "uuid": NEW, "status": Status.ETMPFAIL},
        {"start": 100, "snapshot": (100, 100), "uuid": NEW, "rollback": 50},
        {"start": 100, "snapshot": (90, 110), "uuid": OLD},
        {"start": 0},
    ],
    ids=[
        "as advised",
        "as advised, and refused",
        "as advised, and rolled back further",
        "in another way that works",
        "from 0",
    ],
)
def test_a_rollback_that_the_client_followed_is_a_note(again: dict[str, Any]) -> None:
    talk = rolled_back()
    talk.stream(7, log=LOG, **again)
    found = rollbacks(talk)[-1]
    assert (found.severity, found.cause, found.seqnos) == ("note", "leading-consumer", (150, 100))
    request = found.places[2]
    assert found.message.startswith("asked for seqno 150, rolled back to 100: ")
    assert found.message.endswith(f"; followed in row {request.row}")
    assert (request.direction, request.row) == ("c2s", found.places[1].row + 1)
    assert found.next == "nothing is left to do, the client followed the rollback"


def test_nothing_is_left_to_do_for_a_client_that_does_without_tombstones() -> None:
    talk = opened()
    talk.failover_log(7, [(OLD, 0)])
    request: dict[str, Any] = {"start": 150, "snapshot": (150, 150), "uuid": OLD}
    talk.stream(7, rollback=0, **request)
    (found,) = rollbacks(talk)
    assert (found.severity, found.next) == (
        "warning",
        f"let the client discard what is above 0, and resume at 0 with uuid 0x{OLD:016x}; a "
        "client that needs no tombstones can ask with ignore-purged-tombstones instead",
    )
    talk.stream(7, log=[(OLD, 0)], flags=["ignore-purged-tombstones"], **request)
    (found,) = rollbacks(talk)
    assert (found.severity, found.over, found.next) == (
        "note",
        "recovered",
        "nothing is left to do, the client asked again with ignore-purged-tombstones",
    )
    assert found.message.endswith(" are gone; granted without them later")


def tried(producer: Literal["client", "server"], unknown: int) -> list[Finding]:
    """Rollbacks of a consumer that is granted what it asks for with one of its uuids."""
    talk = Told("replication:ns_1@a->ns_1@b:shop", producer=producer)
    talk.open("replication:ns_1@a->ns_1@b:shop", *(["producer"] if producer == "server" else []))
    request: dict[str, Any] = {"start": 150, "snapshot": (150, 150)}
    for number in range(unknown):
        talk.stream(7, rollback=0, uuid=0x7700 + number, **request)
    talk.stream(7, log=LOG, uuid=NEW, **request)
    return rollbacks(talk)


@pytest.mark.parametrize("unknown", [1, 2])
def test_a_replica_tries_each_uuid_of_its_own_log(unknown: int) -> None:
    advice = "nothing is left to do, the server's log has an older uuid that is known"
    (whole,) = tried("client", unknown)
    assert (whole.severity, whole.next, whole.count) == ("note", advice, unknown)


def test_another_client_has_to_discard_what_it_has_under_an_unknown_uuid() -> None:
    assert [one.severity for one in tried("server", 1)] == ["warning"]


def test_who_took_another_uuid_for_what_it_had_to_discard_is_told_to_discard_it() -> None:
    talk = rolled_back()
    talk.stream(7, start=150, snapshot=(150, 150), uuid=NEW, log=LOG)
    assert str(rollbacks(talk)[-1].next).startswith("let the client discard what is above 100")


def test_on_another_connection_as_well() -> None:
    second = opened(port=50_001)
    second.stream(7, start=100, uuid=NEW, log=LOG)
    assert [one.severity for one in rollbacks(rolled_back(), second)] == ["note"]


@pytest.mark.parametrize(
    "again",
    [
        {"start": 120, "uuid": NEW, "snapshot": (120, 120)},
        {"start": 100, "snapshot": (100, 100), "uuid": OLD, "status": Status.ETMPFAIL},
        {"start": 0, "flags": ["from-latest"]},
    ],
    ids=[
        "from above it",
        "with another uuid, and refused",
        "from the latest",
    ],
)
def test_a_rollback_that_is_not_followed_stays_open(again: dict[str, Any]) -> None:
    talk = rolled_back()
    talk.stream(7, log=LOG, **again)
    assert rollbacks(talk)[0].severity == "warning"
    assert rollbacks(talk)[0].next == (
        "let the client discard what is above 100, and resume at 100 with uuid 0x000000000000000b"
    )


@pytest.mark.parametrize(
    "again",
    [
        {"start": 100, "snapshot": (100, 100), "uuid": OLD, "rollback": 0},
        {"start": 100, "snapshot": (90, 110), "uuid": NEW, "rollback": 90},
    ],
    ids=["with another uuid", "with a wider snapshot"],
)
def test_of_several_rollbacks_the_latest_says_where_to_resume(again: dict[str, Any]) -> None:
    talk = rolled_back()
    talk.stream(7, log=LOG, **again)
    first, *_ = rollbacks(talk)
    assert first.severity == "warning"
    assert first.next == "go by the rollback in row 10, the answer to a later request"


def test_another_clients_request_follows_nothing() -> None:
    second = opened("stranger:1", port=50_001)
    second.stream(7, start=100, uuid=NEW, log=LOG)
    assert [one.severity for one in rollbacks(rolled_back(), second)] == ["warning"]


def test_nor_does_one_for_another_bucket() -> None:
    talks = [Told("test:1", port=port) for port in (50_000, 50_001)]
    for talk, bucket in zip(talks, ("beer", "travel"), strict=True):
        talk.hello("test/1.0", "JSON", "Collections")
        talk.select_bucket(bucket)
        talk.open("test:1", "producer")
    talks[0].failover_log(7, LOG)
    talks[0].stream(7, start=150, uuid=OLD, rollback=100)
    talks[1].stream(7, start=100, uuid=NEW, log=LOG)
    assert [one.severity for one in rollbacks(*talks)] == ["warning"]


def test_a_request_that_was_under_way_follows_nothing() -> None:
    talk = opened()
    talk.failover_log(7, LOG)
    first = talk.stream_request(7, 40, start=150, uuid=OLD)
    second = talk.stream_request(7, 41, start=100, uuid=NEW, waits=False)
    talk.stream_answer(first, rollback=100)
    talk.stream_answer(second, log=LOG)
    assert [one.severity for one in rollbacks(talk)] == ["warning"]


def test_the_answer_to_a_request_that_was_cut_off_is_told() -> None:
    talk = opened(connection_buffer_size="1000")
    talk.stream(6, start=150, status=Status.ERANGE)
    talk.stream(7, start=150, rollback=100)
    talk.stream(8, start=150, rollback=100)
    talk.stream(8, start=100)
    captured = [packet.cut(54 + 24) if packet.size == 72 else packet for packet in packets(talk)]
    checker, engine = checked(
        captured, (), ["stream-refused", "rollback", "end-zero-reopen", "bad-stream-range"]
    )
    refused, open_, followed = checker.findings(engine.links, engine.coverage)
    assert (refused.rule, refused.severity, refused.cause, refused.vbuckets) == (
        "stream-refused",
        "error",
        "erange",
        (6,),
    )
    assert [(one.rule, one.severity, one.vbuckets) for one in (open_, followed)] == [
        ("rollback", "warning", (7,)),
        ("rollback", "note", (8,)),
    ]
    assert {one.message for one in (open_, followed)} == {
        "rolled back to 100; what was asked for is not in the capture"
    }
    assert [len(one.places) for one in (refused, open_, followed)] == [2, 2, 2]


def test_a_request_that_was_refused_for_now_is_followed_by_the_next_one() -> None:
    talk = rolled_back()
    for status in (Status.ETMPFAIL, Status.NOT_MY_VBUCKET, 0):
        talk.stream(7, log=LOG, start=100, snapshot=(90, 110), uuid=OLD, status=status)
    found = rollbacks(talk)[-1]
    assert (found.severity, found.message[-18:]) == (
        "note",
        f"followed in row {found.places[2].row}",
    )


def test_whether_it_was_followed_in_a_hole_nobody_knows() -> None:
    talk = rolled_back()
    with talk.lost():
        talk.stream(7, start=100, uuid=NEW, log=LOG)
    talk.noop()
    assert [one.severity for one in rollbacks(talk)] == ["warning"]


def test_a_stream_whose_grant_alone_is_lost_follows_it() -> None:
    talk = rolled_back()
    stream = talk.stream_request(7, 50, start=100, uuid=OLD)
    with talk.lost():
        talk.stream_answer(stream, log=LOG)
    stream.snapshot(100, 110, "memory")
    stream.mutation(110, "k")
    (finding,) = rollbacks(talk)
    assert (finding.severity, finding.message[-17:]) == (
        "note",
        f"followed in row {finding.places[2].row}",
    )


def test_a_client_that_has_a_stream_again_followed_it_or_need_not() -> None:
    talk = rolled_back()
    with talk.lost():
        stream = talk.stream(7, start=100, uuid=NEW, log=LOG)
    stream.snapshot(100, 110, "memory")
    stream.mutation(110, "k")
    (found,) = rollbacks(talk)
    assert (found.severity, found.message.endswith("; the client has a stream again")) == (
        "note",
        True,
    )
    assert found.next == (
        "nothing is left to do, the client has a stream of the vbucket again; the request for"
        " it was not captured"
    )


def falling(*rollbacks: int, accepted: int) -> Told:
    talk = rolled_back()
    start = 100
    for seqno in rollbacks:
        talk.stream(7, start=start, snapshot=(start - 10, start + 10), uuid=OLD, rollback=seqno)
        start = seqno
    talk.stream(7, start=accepted, uuid=OLD, log=LOG)
    return talk


def test_a_chain_of_rollbacks_each_further_down_is_followed_by_the_stream_at_its_end() -> None:
    assert {(one.severity, one.count) for one in rollbacks(falling(70, 50, accepted=50))} == {
        ("note", 1),
        ("note", 2),
    }
    assert "warning" in {one.severity for one in rollbacks(falling(70, 50, accepted=120))}
    assert "warning" in {
        one.severity for one in rollbacks(falling(*range(90, 0, -2), accepted=0))
    }, "longer than anybody looks"


def test_rollbacks_in_a_loop_stay_open_though_each_was_followed() -> None:
    talk = rolled_back()
    for _ in range(2):
        stream = talk.stream(7, start=100, uuid=NEW, log=LOG)
        stream.snapshot(100, 150, "memory")
        stream.mutation(150, "k")
        stream.end("disconnected")
        talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    talk.stream(7, start=100, uuid=NEW, log=LOG)
    assert "rollback-loop" in {one.rule for one in findings(talk)}
    assert [(one.severity, one.count) for one in rollbacks(talk)] == [("warning", 3)]


def test_rollbacks_that_were_followed_are_told_apart_from_those_that_were_not() -> None:
    talk = opened()
    for vbucket in range(6):
        talk.failover_log(vbucket, LOG)
        talk.stream(vbucket, start=150, uuid=OLD, rollback=100)
        if vbucket % 2:
            talk.stream(vbucket, start=100, uuid=NEW, log=LOG)
    found = {one.severity: one for one in rollbacks(talk)}
    assert {severity: one.vbuckets for severity, one in found.items()} == {
        "warning": (0, 2, 4),
        "note": (1, 3, 5),
    }
    assert found["note"].message.startswith(
        "rolled back, and followed: the client is ahead of the branch point"
    )
    assert found["note"].next == "nothing is left to do, the client followed the rollback"


def test_of_rollbacks_of_one_vbucket_in_one_finding_the_latest_says_where_to_resume() -> None:
    talk = opened()
    talk.failover_log(7, LOG)
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.stream(7, start=130, uuid=NEW, rollback=70)
    talk.stream(7, start=130, uuid=NEW, rollback=60, flags=["ignore-purged-tombstones"])
    leading = next(one for one in rollbacks(talk) if one.cause == "leading-consumer")
    assert leading.count == 3
    asked = dict.fromkeys(place.row for place in leading.places)
    assert leading.next == (
        "row 7: go by the rollback in row 12, the answer to a later request; row 11: let the client "
        "discard what is above 60, and resume at 60 with uuid 0x000000000000000a"
    )
    assert {7, 9, 11} <= set(asked)


def test_a_rollback_that_the_client_does_not_follow() -> None:
    talk = opened()
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    assert [one.message for one in warnings(talk) if one.rule == "rollback-not-honoured"] == [
        "asked again from seqno 150, above the rollback seqno 100"
    ]


def test_a_rollback_that_is_not_honoured_is_one_story_with_the_rollbacks_around_it() -> None:
    talk = opened()
    talk.stream(8, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    talk.stream(8, start=100, snapshot=(100, 100), uuid=OLD)
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=90)
    found = findings(talk)
    (ignored,) = [one for one in found if one.rule == "rollback-not-honoured"]
    rollbacks = [one for one in found if one.rule == "rollback"]
    assert {(one.vbuckets, one.effect_of) for one in rollbacks} == {
        ((7,), ignored.id),
        ((8,), None),
    }
    assert sum(one.count for one in rollbacks) == 3


def asked_again(talk: Told, vbucket: int = 7) -> list[str]:
    talk.stream(vbucket, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    return [one.message for one in warnings(talk) if one.rule == "rollback-not-honoured"]


def test_a_stream_that_was_accepted_after_the_rollback_excuses_the_next_request() -> None:
    talk = opened()
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    talk.stream(7, start=100, uuid=OLD).end("too-slow")
    assert asked_again(talk) == []


def test_that_stream_may_be_known_by_its_messages_alone() -> None:
    talk = opened()
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    with talk.lost():
        stream = talk.stream(7, start=100, uuid=OLD)
    stream.snapshot(100, 150, "memory")
    stream.mutation(150, "k")
    stream.end("too-slow")
    assert asked_again(talk) == []


def test_and_it_may_lie_in_a_hole_on_any_connection_of_the_client() -> None:
    first, second = opened(port=50_001), opened(port=50_002)
    first.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    with second.lost():
        second.stream(7, start=100, uuid=OLD).end("too-slow")
    second.noop()
    second.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    assert [one for one in warnings(first, second) if one.rule == "rollback-not-honoured"] == []


def test_a_request_that_was_under_way_when_the_rollback_was_told_is_no_answer_to_it() -> None:
    talk = opened()
    first = talk.stream_request(7, 40, start=150, uuid=OLD)
    talk.stream_request(7, 41, start=150, uuid=OLD, waits=False)
    talk.stream_answer(first, rollback=100)
    assert [one for one in warnings(talk) if one.rule == "rollback-not-honoured"] == []


@pytest.mark.parametrize(("node", "rules"), [("node1", ["rollback-not-honoured"]), ("node2", [])])
def test_what_one_node_says_is_not_what_another_was_asked_after(
    node: str, rules: list[str]
) -> None:
    first = opened()
    first.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=100)
    second = opened(port=50_001)
    second.server = node
    second.wait(1)
    second.stream(7, start=150, snapshot=(150, 150), uuid=OLD)
    captured = sorted([*packets(first), *packets(second)], key=lambda packet: packet.time_ns)
    assert [one.rule for one in found_in(captured, rules=["rollback-not-honoured"])] == rules


def test_a_stream_that_ends_at_zero_after_a_rollback() -> None:
    talk = opened()
    talk.stream(7, start=150, snapshot=(150, 150), uuid=OLD, rollback=0)
    stream = talk.stream(7, start=0, end=0, log=[(OLD, 0)])
    stream.end()
    rules = {one.rule: one for one in warnings(talk)}
    assert set(rules) == {"end-zero-reopen"}
    assert (
        rules["end-zero-reopen"].message
        == "reopened with end 0 after a rollback, ended after 0 items"
    )


def test_who_always_asks_for_nothing_is_not_accused() -> None:
    talk = opened()
    talk.stream(7, start=0, end=0).end()
    talk.stream(7, start=0, end=0).end()
    assert warnings(talk) == []


@pytest.mark.parametrize(
    ("reason", "severity"),
    [("too-slow", "warning"), ("rollback", "warning"), ("state-changed", "note")],
)
def test_ends_have_their_reasons(reason: str, severity: str) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    stream.end(reason)
    (found,) = (one for one in findings(talk) if one.rule != "slow-stream")
    assert (found.rule, found.severity, found.cause, found.message) == (
        "stream-end-reason",
        severity,
        reason,
        f"ended: {reason} at seqno 3",
    )


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (
            "closed",
            "operators have nothing to do; the client has to reopen the stream where it ended, "
            "unless it meant to close it",
        ),
        (
            "state-changed",
            "expected in a rebalance or failover; the client has to ask for a new cluster map, "
            "and to reopen the stream where it ended, at the node that it names",
        ),
        (
            "disconnected",
            "look in the server's log for why it disconnects; the client has to reopen the "
            "stream where it ended, on a new connection",
        ),
        (
            "too-slow",
            "give the client more processor time; it has to reopen the stream where it ended, "
            "and to take messages off faster, because the server does not keep them for long",
        ),
        (
            "backfill-failed",
            "look in the server's log for why it cannot read the vbucket; the client has to "
            "reopen the stream where it ended",
        ),
        (
            "rollback",
            "look in the cluster's log for what took the history back; the client has to ask "
            "again, expect a rollback, and discard what is above its seqno. A stream from the "
            "same start with the same uuid ends again",
        ),
        (
            "filter-empty",
            "take what was dropped, a collection or a scope, out of the client's settings, because "
            "a stream with this filter ends again",
        ),
        (
            "lost-privileges",
            "give the user its privileges back; until then, the server refuses the client's "
            "requests",
        ),
    ],
)
def test_what_to_do_at_an_end_goes_by_its_reason(reason: str, advice: str) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    stream.end(reason)
    (found,) = (one for one in findings(talk) if one.rule == "stream-end-reason")
    assert found.next == advice


IS_AGAIN = "operators have nothing to do, the client asked again; the answer says how it goes on"
ADVICE_TO_THOSE_WHO_ASKED_AGAIN = {
    "closed": IS_AGAIN,
    "state-changed": IS_AGAIN,
    "disconnected": IS_AGAIN,
    "too-slow": (
        "give the client more processor time; it has to take messages off faster, because the "
        "server does not keep them for long"
    ),
    "backfill-failed": (
        "if it ends again, the server's log shows why it cannot read the vbucket; a client should "
        "pause before it asks again"
    ),
    "rollback": (
        "look in the cluster's log for what took the history back; the answer to the client's "
        "next request may well be a rollback"
    ),
    "filter-empty": (
        "take what was dropped, a collection or a scope, out of the client's settings, because a "
        "stream with this filter ends again"
    ),
}


@pytest.mark.parametrize(
    "reason",
    ["closed", "state-changed", "disconnected", "too-slow", "backfill-failed", "filter-empty"],
)
def test_who_has_asked_for_a_stream_again_is_not_told_to(reason: str) -> None:
    talk = opened()
    stream = talk.stream(7, start=3)
    stream.end(reason)
    talk.stream(7, start=3, status=Status.ETMPFAIL)
    (found,) = (one for one in findings(talk) if one.rule == "stream-end-reason")
    assert found.next == ADVICE_TO_THOSE_WHO_ASKED_AGAIN[reason]
    assert (found.message, found.seqnos, found.facts) == (
        f"ended: {reason}, no item received",
        (3,),
        {"ended at seqno": 3},
    )


@pytest.mark.parametrize("reason", ["state-changed", "too-slow", "backfill-failed", "rollback"])
def test_nor_who_has_a_stream_on_another_node_already(reason: str) -> None:
    """It went there before its old stream ended."""
    old, new = opened("a:1"), Told("a:1", port=50_001, server="node2")
    new.hello("test/1.0", "JSON", "Collections")
    new.open("a:1", "producer")
    stream = old.stream(7, start=3)
    new.stream(7, start=3)
    count, before = len(packets(old)), packets(old, new)
    stream.end(reason)
    end = packets(old)[count]
    captured = [*before, replace(end, time_ns=before[-1].time_ns + 1_000)]
    (found,) = (one for one in found_in(captured) if one.rule == "stream-end-reason")
    assert found.next == ADVICE_TO_THOSE_WHO_ASKED_AGAIN[reason]


@pytest.mark.parametrize(
    ("is_after", "says"),
    [(True, "operators have nothing to do"), (False, "expected in a rebalance")],
)
def test_nor_who_may_have_asked_in_a_request_that_cannot_be_read(
    says: str, *, is_after: bool
) -> None:
    """Its stream-id is missing."""
    talk = opened(enable_stream_id="true")
    stream = talk.stream(7, value={"sid": 4})
    if is_after:
        stream.end("state-changed")
    place = len(packets(talk))
    talk.stream(7, start=3, value={"sid": 4 if is_after else 5})
    if not is_after:
        stream.end("state-changed")
    captured = [
        one.cut(130) if number == place else one for number, one in enumerate(packets(talk))
    ]
    (told,) = (one.next for one in found_in(captured) if one.rule == "stream-end-reason")
    assert told.startswith(says)


@pytest.mark.parametrize("reason", [9, 99, 0xFFFF_FFFF])
def test_a_reason_that_is_not_defined_is_told(reason: int) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    stream.send("dcp_stream_end", end_reason=reason)
    (found,) = findings(talk)
    assert (found.rule, found.severity, found.cause) == ("stream-end-reason", "note", "undefined")
    assert found.message == f"ended: reason {reason}, which is not defined at seqno 3"


def test_an_unknown_uuid_is_told_as_the_first_specification_has_it() -> None:
    talk = opened()
    talk.stream(7, start=9, uuid=0xA, status=1)
    (found,) = (one for one in findings(talk) if one.rule == "stream-refused")
    assert "the vbucket uuid; roll back all the way to 0" in found.message
    assert found.cause == "key-enoent"


def test_what_is_wrong_with_a_request_says_why_it_is_refused() -> None:
    talk = opened()
    asked = encode(
        "dcp_stream_req",
        vbucket=7,
        opaque=9,
        flags=1 << 20,
        start_seqno=0,
        end_seqno=9,
        vbucket_uuid=0,
        snapshot_start_seqno=0,
        snapshot_end_seqno=0,
    )
    talk.send("client", asked)
    talk.answer("dcp_stream_req", 9, status=Status.EINVAL)
    assert [one.rule for one in warnings(talk)] == ["unknown-flag-bits"]


def redirected(
    *vbuckets: int,
    nodes: Sequence[str] = ("10.0.0.7:11210",),
    value: bytes | None = None,
    datatype: int = 1,
) -> Told:
    """Streams that are asked for at a node that has not the vbuckets; the map in its answers has
    them on ``nodes`` by turns.
    """
    chains = [[-1] if not nodes else [number % len(nodes)] for number in range(64)]
    text = json.dumps(
        {"rev": 3, "vBucketServerMap": {"serverList": nodes, "vBucketMap": chains}}
    ).encode()
    talk = opened()
    for opaque, vbucket in enumerate(vbuckets, 0x50):
        seqnos: dict[str, Any] = {
            "start_seqno": 0,
            "end_seqno": 9,
            "snapshot_start_seqno": 0,
            "snapshot_end_seqno": 0,
        }
        talk.send(
            "client",
            encode(
                "dcp_stream_req", vbucket=vbucket, opaque=opaque, flags=0, vbucket_uuid=0, **seqnos
            ),
        )
        answer = encode(
            "dcp_stream_req",
            "response",
            opaque=opaque,
            status=Status.NOT_MY_VBUCKET,
            datatype=datatype,
            value=text if value is None else value,
        )
        talk.send("server", answer)
    return talk


@pytest.mark.parametrize(
    ("nodes", "advice"),
    [
        (["10.0.0.7:11210"], f"the map in the answer names 10.0.0.7:11210{REACHES}"),
        (["$HOST:11211"], f"the map in the answer names 10.0.0.2:11211{REACHES}"),
        (
            ["10.0.0.2:11210"],
            (
                "wait, the map in the answer names this same node, 10.0.0.2:11210, which is still "
                "taking over; the client has to ask again later"
            ),
        ),
        (
            [],
            (
                "the map in the answer has no active node for the vbucket, so look at the nodes of "
                "the cluster; the client has to ask again when a new map names one"
            ),
        ),
    ],
)
def test_the_map_in_an_answer_says_where_to_ask(nodes: list[str], advice: str) -> None:
    (found,) = warnings(
        redirected(7, nodes=nodes or ["a:1"]) if nodes else redirected(7, value=MAP_WITHOUT_7)
    )
    assert (found.rule, found.cause, found.next) == ("stream-refused", "not-my-vbucket", advice)


MAP_WITHOUT_7 = (
    b'{"vBucketServerMap": {"serverList": ["a:1"], "vBucketMap": [[0], [0], [0], [0], '
    b"[0], [0], [0], [-1], [0]]}}"
)


def test_a_map_may_be_compressed() -> None:
    (found,) = warnings(
        redirected(7, value=encode_snappy(MAP_WITHOUT_7.replace(b"-1", b"0")), datatype=3)
    )
    assert found.next == f"the map in the answer names a:1{REACHES}"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[" * 9000,
        b"\xff\xfe",
        b'{"vBucketServerMap": {"serverList": [1], "vBucketMap": 7}}',
        b'{"error":{"context":"no"}}',
    ],
)
@pytest.mark.parametrize("datatype", [0, 1, 3])
def test_an_answer_without_a_map_says_to_get_one(value: bytes, datatype: int) -> None:
    (found,) = [
        one
        for one in warnings(redirected(7, value=value, datatype=datatype))
        if one.rule == "stream-refused"
    ]
    assert (
        found.next
        == "look whether a rebalance or failover moved the vbucket; the client has to ask "
        "for a new cluster map, and then the node that it names"
    )


def test_vbuckets_that_have_moved_to_two_nodes_are_told_node_by_node() -> None:
    (found,) = warnings(redirected(*range(1, 9), nodes=["b:1", "c:1"]))
    assert found.vbuckets == tuple(range(1, 9))
    assert found.next == (
        f"vb 1, 3, 5, 7: the map in the answer names c:1{REACHES}; vb 2, 4, 6, 8: the map "
        f"in the answer names b:1{REACHES}"
    )


def test_vbuckets_that_have_moved_to_many_nodes_are_told_with_the_rules_own_advice() -> None:
    (found,) = warnings(redirected(*range(1, 9), nodes=["b:1", "c:1", "d:1", "e:1"]))
    assert found.next == (
        "look up what the status names with 'dcpinspect explain STATUS'; a client has to change"
        " its request, or to ask again later with growing pauses"
    )


def test_an_end_that_the_client_asked_for_is_no_news() -> None:
    talk = opened(send_stream_end_on_client_close_stream="true")
    stream = talk.stream(7)
    stream.close()
    stream.end("closed")
    assert findings(talk) == []


@pytest.mark.parametrize(
    ("value", "what", "advice"),
    [
        (
            {"collections": ["8", "9", "8"]},
            "its filter names collection 0x8 more than once",
            "name each collection once, in the client's settings or in its code; until then, the "
            "server refuses the request",
        ),
        (
            {"collections": ["0x8", "08"]},
            "its filter names collection 0x8 more than once",
            "name each collection once, in the client's settings or in its code; until then, the "
            "server refuses the request",
        ),
        (
            {"collections": ["0", "a", "0", "A"]},
            "its filter names collections 0x0, 0xa more than once",
            "name each collection once, in the client's settings or in its code; until then, the "
            "server refuses the request",
        ),
        (
            {"collections": ["8"], "scope": "9"},
            "its filter names a scope and collections",
            "name either a scope or collections, in the client's settings or in its code; until "
            "then, the server refuses the request",
        ),
    ],
)
def test_a_filter_that_no_server_accepts_is_named(
    value: dict[str, Any], what: str, advice: str
) -> None:
    talk = opened()
    talk.stream(80, value=value, status=Status.EINVAL)
    (found,) = warnings(talk)
    assert (found.rule, found.severity, found.whose) == ("stream-refused", "error", "client")
    assert found.message == f"stream request refused: einval, {what}"
    assert found.next == advice


@pytest.mark.parametrize(
    "value", [None, {"collections": ["8", "9"]}, {"scope": "8"}, {"collections": 7}, {"uid": "8"}]
)
def test_other_refused_requests_are_told_by_their_status(value: dict[str, Any] | None) -> None:
    talk = opened()
    talk.stream(80, value=value, status=Status.EINVAL)
    (found,) = warnings(talk)
    assert found.message.startswith(
        "stream request refused: einval, the request or its JSON value is malformed"
    )


@pytest.mark.parametrize(
    ("is_on", "value", "says"),
    [
        (False, {"sid": 4}, "it names a stream-id, but enable_stream_id is not on"),
        (True, None, "it names no stream-id, but enable_stream_id is on"),
        (True, {"collections": ["8"]}, "it names no stream-id, but enable_stream_id is on"),
        (True, {"sid": 0}, "a stream-id without enable_stream_id, or none with it"),
    ],
)
def test_what_is_wrong_with_a_stream_id(
    value: dict[str, Any] | None, says: str, *, is_on: bool
) -> None:
    talk = opened(enable_stream_id="true") if is_on else opened()
    talk.stream(80, value=value, status=Status.DCP_STREAM_ID_INVALID)
    (found,) = warnings(talk)
    assert found.message == f"stream request refused: dcp_stream_id_invalid, {says}"


def test_a_collection_named_twice_is_legal_where_the_server_takes_it() -> None:
    talk = opened()
    talk.stream(80, value={"collections": ["8", "8"]})
    assert warnings(talk) == []


def test_what_to_do_where_a_server_granted_what_ignores_a_rollback() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.stream(7, start=120, uuid=OLD, log=((OLD, 0),))
    (finding,) = [one for one in findings(talk) if one.rule == "rollback-not-honoured"]
    assert str(finding.next).startswith("let the client discard what is above 100, and ask again")


def refused_because(reason: str, **request: Any) -> Told:
    talk = opened()
    reply = {"value": json.dumps({"error": {"context": reason}}).encode(), "datatype": 1}
    talk.stream(7, status=Status.EINVAL, reply=reply, **request)
    return talk


def test_what_a_server_says_of_a_refusal_is_quoted_and_nothing_else_is_guessed() -> None:
    (found,) = warnings(refused_because('Unknown flag: "x"'))
    assert found.message == "stream request refused: einval; the server says \"Unknown flag: 'x'\""
    assert found.next.endswith("a client has to change in the request what the answer names")
    (one,) = warnings(refused_because("too many", flags=["to-latest", "cache-transfer"]))
    assert (one.rule, one.message[-28:]) == ("flag-combination", '; the server says "too many"')


def test_words_that_only_name_the_status_are_not_quoted() -> None:
    talk = opened()
    reply = {"value": b'{"error": {"context": "Unknown collection"}}', "datatype": 1}
    talk.stream(7, status=Status.UNKNOWN_COLLECTION, reply=reply, value={"collections": ["8"]})
    (found,) = warnings(talk)
    assert "the server says" not in found.message


def test_a_reason_that_is_long_or_steers_the_terminal_is_clipped_and_escaped() -> None:
    (found,) = warnings(refused_because("\x1b[2J" + "a" * 2000))
    quoted = found.message.partition('says "')[2]
    assert quoted.startswith("\\x1b[2Ja")
    assert len(quoted) < 210
    assert quoted.endswith('…"')


def test_refusals_for_different_reasons_name_both() -> None:
    (found,) = warnings(refused_because("one"), refused_because("two"))
    assert found.message.startswith('stream request refused: einval; the server says "one", "two"')


@pytest.mark.parametrize("value", ['{"error":"x"}', '{"error":{"context":7}}', "[1]", "{"])
def test_a_value_that_gives_no_reason_is_not_quoted(value: str) -> None:
    talk = opened()
    talk.stream(7, status=Status.EINVAL, reply={"value": value.encode(), "datatype": 1})
    (found,) = warnings(talk)
    assert "says" not in found.message
    assert "JSON value is malformed" in found.message


@pytest.mark.parametrize("has_collections", [True, False])
def test_a_value_that_is_no_object_or_that_the_connection_did_not_ask_for(
    has_collections: bool,
) -> None:
    talk = opened() if has_collections else Told("test:1")
    if not has_collections:
        talk.hello("test/1.0", "JSON")
        talk.open("test:1", "producer")
    value = '{"collections":["8"' if has_collections else '{"collections":["8"]}'
    talk.send(
        "client",
        encode(
            "dcp_stream_req",
            vbucket=7,
            opaque=9,
            flags=0,
            start_seqno=0,
            end_seqno=9,
            vbucket_uuid=0,
            snapshot_start_seqno=0,
            snapshot_end_seqno=0,
            value=value.encode(),
        ),
    )
    talk.answer("dcp_stream_req", 9, status=Status.EINVAL)
    (found,) = [one for one in warnings(talk) if one.rule == "stream-refused"]
    assert found.message.startswith(
        "stream request refused: einval, the value of the request is no JSON object"
        if has_collections
        else "stream request refused: einval, the request has a JSON value, but the connection did "
        "not ask for collections"
    )
