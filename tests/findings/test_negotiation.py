"""Rules about what was not negotiated: what breaks each, what looks like it, and what the capture
must hold for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from dcpinspect.findings import registry
from dcpinspect.findings.negotiation import RULES
from dcpinspect.protocol.statuses import Status
from tests.encode import encode
from tests.findings.checked import findings, found_in, told
from tests.peers.script import EPOCH, Stream, hlc
from tests.streams.told import Told, opened, packets

IDS = [rule.id for rule in RULES]


def expired(stream: Stream) -> None:
    stream.expiration(2, "k")


def prepared(stream: Stream) -> None:
    stream.prepare(2, "k", {"a": 1})


def advanced(stream: Stream) -> None:
    stream.seqno_advanced(9)


def disk_2_2(stream: Stream) -> None:
    stream.snapshot(
        10,
        12,
        "disk",
        version="v2.2",
        max_visible_seqno=12,
        high_completed_seqno=0,
        purge_seqno=0,
        high_prepared_seqno=0,
    )


def memory_2_0(stream: Stream) -> None:
    stream.snapshot(10, 12, "memory", version="v2.0", max_visible_seqno=12, high_completed_seqno=0)


def out_of_order(stream: Stream) -> None:
    stream.oso("start")
    stream.mutation(3, "k")
    stream.oso("end")


def with_sid(stream: Stream) -> None:
    stream.conversation.stream_ids, stream.sid = True, 3
    stream.mutation(2, "k")


def without_sid(stream: Stream) -> None:
    stream.sid = 0
    stream.mutation(2, "k")


def deleted_with_time(stream: Stream) -> None:
    stream.send(
        "dcp_deletion",
        generation="v2",
        collection=0,
        key="k",
        cas=hlc(2),
        by_seqno=2,
        rev_seqno=2,
        delete_time=EPOCH,
    )


def deleted_without_time(stream: Stream) -> None:
    stream.send(
        "dcp_deletion", generation="v1", collection=0, key="k", cas=hlc(2), by_seqno=2, rev_seqno=2
    )


def metadata(stream: Stream) -> None:
    tail = bytes((1, 1, 0, 8)) + bytes(8)
    stream.send(
        "dcp_mutation",
        collection=0,
        key="k",
        value=b"v" + tail,
        cas=hlc(2),
        by_seqno=2,
        rev_seqno=2,
        nmeta=len(tail),
    )


def status_7(stream: Stream) -> None:
    stream.close(status=Status.DCP_STREAM_NOT_FOUND)


@dataclass(frozen=True)
class Case:
    """How a rule is broken, and what makes the same legal."""

    rule: str
    breaks: Callable[[Stream], None]
    words: str
    needs: dict[str, str] = field(default_factory=dict)
    """Settings with which it breaks the rule."""
    allows: dict[str, str] = field(default_factory=dict)
    """Settings with which it does not."""
    flags: Sequence[str] = ()
    sid: int = 0


CASES = [
    Case(
        "expiry-not-negotiated",
        expired,
        "expiration, never enabled",
        allows={"enable_expiry_opcode": "true"},
    ),
    Case(
        "prepare-not-negotiated",
        prepared,
        "dcp_prepare without sync writes",
        allows={"enable_sync_writes": "true"},
    ),
    Case(
        "marker-version-not-negotiated",
        disk_2_2,
        "marker v2.2 not negotiated",
        allows={"max_marker_version": "2.2"},
    ),
    Case(
        "marker-version-not-negotiated",
        disk_2_2,
        "marker v2.2 not negotiated",
        {"enable_sync_writes": "true"},
    ),
    Case(
        "marker-version-not-negotiated",
        memory_2_0,
        "marker v2.0 not negotiated",
        allows={"max_marker_version": "2.2"},
    ),
    Case(
        "marker-version-not-negotiated",
        memory_2_0,
        "marker v2.0 not negotiated",
        allows={"enable_sync_writes": "true"},
    ),
    Case(
        "oso-not-negotiated",
        out_of_order,
        "an OSO snapshot",
        allows={"enable_out_of_order_snapshots": "true"},
    ),
    Case(
        "oso-not-negotiated",
        out_of_order,
        "an OSO snapshot",
        allows={"enable_out_of_order_snapshots": "true_with_seqno_advanced"},
    ),
    Case("sid-unexpected", with_sid, "dcp_mutation carries sid 3, never enabled"),
    Case(
        "sid-missing",
        without_sid,
        "dcp_mutation without the stream-id",
        {"enable_stream_id": "true"},
        sid=3,
    ),
    Case(
        "delete-times-mismatch",
        deleted_with_time,
        "a deletion has a time",
        allows={"enable_expiry_opcode": "true"},
    ),
    Case(
        "delete-times-mismatch",
        deleted_without_time,
        "a deletion has no time",
        flags=["include-delete-times"],
    ),
    Case(
        "reserved-nonzero",
        metadata,
        "nmeta of dcp_mutation is 12, reserved",
        allows={"enable_ext_metadata": "true"},
    ),
    Case("status-v7", status_7, "a status of version 7", allows={"v7_dcp_status_codes": "true"}),
]


def conversation(case: Case, **settings: str) -> tuple[Told, Stream]:
    talk = opened("test:1", *case.flags, port=50_000, **settings)
    return talk, conversation_on(talk, case)


def conversation_on(talk: Told, case: Case) -> Stream:
    stream = talk.stream(7, value={"sid": case.sid} if case.sid else None)
    if "enable_out_of_order" not in "".join(case.allows):
        stream.snapshot(0, 9, "memory")
        stream.mutation(1, "a")
        if case.breaks in (disk_2_2, memory_2_0):
            stream.mutation(9, "b")
    return stream


def of_rule(case: Case, *talks: Told, **options: Any) -> list[Any]:
    return [one for one in findings(*talks, **options) if one.rule == case.rule]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.breaks.__name__}")
def test_what_was_not_negotiated_is_told(case: Case) -> None:
    talk, stream = conversation(case, **case.needs)
    case.breaks(stream)
    (found,) = [one for one in findings(talk) if one.severity != "note" or one.rule == case.rule]
    assert (found.rule, found.message[: len(case.words)], found.vbuckets) == (
        case.rule,
        case.words,
        (7,),
    )
    assert found.severity == registry.RULES[case.rule].severity
    assert findings(talk, sizes=[1] * 200) == findings(talk)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.allows], ids=lambda case: f"{case.rule} {case.allows}"
)
def test_what_was_asked_for_is_sound(case: Case) -> None:
    talk, stream = conversation(case, **case.allows)
    case.breaks(stream)
    assert [one for one in told(talk) if one[0] != "note" or one[1] == case.rule] == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.allows], ids=lambda case: f"{case.rule} {case.allows}"
)
def test_a_setting_that_was_refused_does_not_count(case: Case) -> None:
    talk, stream = conversation(case)
    for key, value in case.allows.items():
        talk.control(key, value, status=Status.EINVAL)
    case.breaks(stream)
    assert len(of_rule(case, talk)) == 1


@pytest.mark.parametrize("lacks", ["request", "answer", "both"])
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.allows], ids=lambda case: f"{case.rule} {case.allows}"
)
def test_a_setting_in_a_hole_accuses_nobody(case: Case, lacks: str) -> None:
    """Whether its request, its answer or both were not captured."""
    talk, stream = conversation(case)
    for key, value in case.allows.items():
        opaque = talk.opaque()
        asks, answers = (
            encode("dcp_control", opaque=opaque, key=key, value=value),
            encode("dcp_control", "response", opaque=opaque),
        )
        for side, data in (("client", asks), ("server", answers)):
            if lacks in ("both", "request" if side == "client" else "answer"):
                with talk.lost():
                    talk.send(side, data)  # type: ignore[arg-type]
            else:
                talk.send(side, data)  # type: ignore[arg-type]
    case.breaks(stream)
    assert of_rule(case, talk) == []
    talk.noop()
    assert of_rule(case, talk) == []
    talk.failover_log(7, [(1, 0)])
    assert of_rule(case, talk) == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.allows], ids=lambda case: f"{case.rule} {case.allows}"
)
def test_a_setting_that_cannot_be_read_accuses_nobody(case: Case) -> None:
    """Its first bytes are there, and its answer is not."""
    talk = opened("test:1", *case.flags, port=50_000, **case.needs)
    before = len(packets(talk))
    for key, value in case.allows.items():
        talk.send("client", encode("dcp_control", opaque=90, key=key, value=value))
    cut = len(packets(talk))
    stream = conversation_on(talk, case)
    case.breaks(stream)
    captured = [
        one.cut(82) if before <= place < cut else one for place, one in enumerate(packets(talk))
    ]
    assert [one for one in found_in(captured) if one.rule == case.rule] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.breaks.__name__}")
def test_a_capture_that_begins_inside_the_connection_accuses_nobody(case: Case) -> None:
    talk, stream = conversation(case, **case.needs)
    talk.begin()
    stream.mutation(1, "x") if case.sid else stream.seqno_advanced(1)
    case.breaks(stream)
    assert of_rule(case, talk) == []


def test_a_hole_before_messages_that_were_judged_takes_it_back() -> None:
    """The consumer's hole shows only once a later message of its direction comes."""
    talk, stream = conversation(CASES[0])
    expired(stream)
    talk.noop()
    with talk.lost():
        talk.send("client", encode("dcp_control", key="enable_expiry_opcode", value="true"))
        talk.send("server", encode("dcp_control", "response"))
    stream.expiration(3, "l")
    talk.failover_log(7, [(1, 0)])
    (found,) = of_rule(CASES[0], talk)
    assert (found.count, found.places[0].row) == (1, 9)


def test_what_was_not_negotiated_is_told_though_nobody_saw_the_connection_end() -> None:
    """What its client said last is lost, but not before what the server sent by then."""
    case = next(case for case in CASES if case.rule == "sid-unexpected")
    talk, stream = conversation(case)
    case.breaks(stream)
    talk.wait(60)
    (found,) = of_rule(case, talk, opened("test:1", port=50_000))
    assert (found.count, found.vbuckets) == (1, (7,))


def test_the_unused_byte_of_deletions_is_a_length_with_the_collections_of_5_0() -> None:
    for flags, count in (
        (["include-delete-times"], 1),
        (["include-delete-times", "collections-prototype"], 0),
    ):
        talk = opened("test:1", *flags)
        stream = talk.stream(7)
        stream.snapshot(0, 9, "memory")
        stream.send(
            "dcp_deletion",
            generation="v2",
            collection=0,
            key="k",
            cas=hlc(2),
            by_seqno=2,
            rev_seqno=2,
            delete_time=0,
            unused=1,
        )
        assert [one.message for one in findings(talk) if one.severity != "note"] == [
            "unused of dcp_deletion is 1, reserved"
        ] * count


def test_broken_framing_extras_have_no_stream_id_and_are_one_fault() -> None:
    talk = opened(enable_stream_id="true")
    stream = talk.stream(7, value={"sid": 3})
    stream.snapshot(0, 9, "memory")
    stream.mutation(3, "k")
    sent = talk.events[-1]
    object.__setattr__(sent, "data", sent.data[:24] + b"\x25" + sent.data[25:])  # type: ignore[union-attr]  # longer than what is there
    assert [one[:2] for one in told(talk) if one[0] != "note"] == [("error", "bad-framing-extras")]


def test_seqno_advanced_to_a_client_without_collections() -> None:
    talk = Told("x:1")
    talk.hello("test/1.0", "JSON")
    talk.open("x:1", "producer")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    advanced(stream)
    assert [one for one in told(talk) if one[0] != "note"] == [
        ("warning", "seqno-advanced-without-collections", None)
    ]
    late = Told("x:1")
    with late.lost():
        late.hello("test/1.0", "JSON", "Collections")
    late.open("x:1", "producer")
    stream = late.stream(7)
    stream.snapshot(0, 9, "memory")
    advanced(stream)
    assert [one for one in told(late) if one[0] != "note"] == []


@pytest.mark.parametrize("has_collections", [True, False])
def test_a_system_event_is_for_clients_with_collections(has_collections: bool) -> None:
    talk = Told("x:1")
    talk.hello("test/1.0", "JSON", *(["Collections"] if has_collections else []))
    talk.open("x:1", "producer")
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.system_event(1, "begin-collection", "c", manifest_uid=1, collection_id=8)
    assert [one for one in told(talk) if one[0] != "note"] == (
        [] if has_collections else [("warning", "seqno-advanced-without-collections", None)]
    )


def test_expirations_of_the_first_generations_need_no_setting() -> None:
    talk, stream = conversation(CASES[0])
    stream.send(
        "dcp_expiration",
        generation="v1",
        collection=0,
        key="k",
        cas=hlc(2),
        by_seqno=2,
        rev_seqno=2,
    )
    assert [one for one in told(talk) if one[0] != "note"] == []


@pytest.mark.parametrize("sizes", [(), [1] * 200])
@pytest.mark.parametrize("is_on", [False, True])
def test_an_event_with_a_stream_id_too_many_or_too_few_is_still_of_its_stream(
    is_on: bool, sizes: Sequence[int]
) -> None:
    """Nothing is missing then: neither in its snapshot, nor when the client resumes behind it."""
    talk = opened(enable_stream_id="true" if is_on else "false")
    value = {"sid": 3} if is_on else None
    stream = talk.stream(7, value=value)
    stream.snapshot(0, 2, "memory")
    stream.mutation(1, "a")
    (without_sid if is_on else with_sid)(stream)
    stream.sid = 3 if is_on else 0
    stream.snapshot(3, 6, "memory")
    stream.mutation(6, "d")
    stream.end("state-changed")
    talk.stream(7, start=6, snapshot=(6, 6), value=value)
    found = [one for one in findings(talk, sizes=sizes) if one.severity != "note"]
    assert [(one.rule, one.count) for one in found] == [
        ("sid-missing" if is_on else "sid-unexpected", 1)
    ]


def test_where_the_request_was_not_captured_an_event_without_its_stream_id_is_still_of_the_stream() -> (
    None
):
    talk = opened(enable_stream_id="true")
    stream = talk.stream(7, value={"sid": 3})
    talk.begin()
    stream.snapshot(0, 4, "memory")
    for seqno in (1, 2, 3):
        stream.mutation(seqno, f"k{seqno}")
    stream.sid = 0
    stream.mutation(4, "d")
    stream.sid = 3
    stream.end("state-changed")
    talk.stream(7, start=4, snapshot=(4, 4), value={"sid": 3})
    assert [one for one in findings(talk) if one.severity != "note"] == []


def test_an_event_without_stream_id_that_may_be_of_two_streams_is_of_none() -> None:
    talk = opened(enable_stream_id="true")
    for sid in (3, 4):
        stream = talk.stream(7, value={"sid": sid})
        stream.opaque = 9
    stream.sid = 0
    stream.mutation(1, "a")
    assert [one.rule for one in findings(talk) if one.severity != "note"] == ["sid-missing"]


def test_a_close_must_say_which_stream_it_closes() -> None:
    talk = opened(enable_stream_id="true")
    stream = talk.stream(7, value={"sid": 3})
    stream.sid = 0
    stream.close()
    assert ("error", "sid-missing", None) in told(talk)


def test_prepares_and_server_faults_have_no_stream_id_and_are_no_fault() -> None:
    talk = opened(enable_stream_id="true", enable_expiry_opcode="true")
    stream = talk.stream(7, value={"sid": 3})
    stream.snapshot(0, 9, "memory")
    stream.expiration(3, "k")
    sent = talk.events[-1]
    stream.deletion(4, "l")
    talk.noop()
    object.__setattr__(sent, "data", sent.data[:2] + b"\0" + sent.data[3:])  # type: ignore[union-attr]  # the known fault of servers
    assert [one for one in told(talk) if one[1].startswith("sid-")] == []


def test_dcp_on_an_unordered_connection() -> None:
    for granted, expected in ((["UnorderedExecution"], ["unordered-with-dcp"]), ([], [])):
        talk = Told("x:1")
        talk.hello("test/1.0", "JSON", "UnorderedExecution", granted=granted)
        talk.open("x:1", "producer")
        assert [one.rule for one in findings(talk)] == expected
    unseen = Told("x:1")
    with unseen.lost():
        unseen.hello("test/1.0", "UnorderedExecution")
    unseen.open("x:1", "producer")
    assert [one.rule for one in findings(unseen, rules=IDS)] == []


def test_a_password_in_clear_is_told_and_never_shown() -> None:
    talk = Told("x:1")
    talk.sasl_plain("reader", "hunter2")
    (found,) = findings(talk)
    assert (found.rule, found.severity) == ("credentials-in-clear", "note")
    assert "a client without TLS should use it" in found.next, (
        "-w --decrypted made it of TLS, maybe"
    )
    assert "hunter2" not in repr(found)
    assert "reader" not in repr(found)
    scram = Told("x:1")
    scram.sasl_list()
    scram.sasl_scram("reader")
    assert findings(scram) == []
