"""Rules about consumers that refuse messages of a stream: what they name, which answers are no
refusals, and what a hole may hold.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.refusals import RULES, Refusals
from dcpinspect.protocol.statuses import Status
from tests.encode import encode_parts
from tests.findings.checked import checked, findings
from tests.parted import Options, divided, everything, joined, whole
from tests.peers.script import Side, Stream
from tests.streams.told import Told, capture, opened, packets

IDS = [rule.id for rule in RULES]
REFUSED = (
    Status.KEY_ENOENT,
    Status.KEY_EEXISTS,
    Status.EINVAL,
    Status.ERANGE,
    Status.ENOMEM,
    Status.ETMPFAIL,
    0x7FFF,
)


def found(*talks: Told, rules: list[str] | None = None) -> list[Finding]:
    whole = findings(*talks, rules=rules or IDS)
    assert findings(*talks, rules=rules or IDS, sizes=[1] * 300) == whole
    return whole


def streaming(*, v7: bool = False) -> tuple[Told, Stream]:
    talk = opened(enable_sync_writes="true")
    if v7:
        talk.control("v7_dcp_status_codes", "true")
    stream = talk.stream(7)
    stream.snapshot(0, 30, "memory")
    stream.mutation(1, "a")
    stream.mutation(2, "b")
    return talk, stream


def refuse(
    talk: Told, stream: Stream, opcode: str = "dcp_mutation", status: int = Status.EINVAL
) -> None:
    talk.answer(opcode, stream.opaque, by="client", status=status)


@pytest.mark.slow
def test_as_many_messages_are_remembered_however_few_come_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.findings.refusals.REACH", 50)

    def remembered(count: int) -> int:
        talk = opened()
        stream = talk.stream(7)
        stream.snapshot(0, count, "memory")
        for seqno in range(1, count + 1):
            stream.mutation(seqno, "a")
        checker, _ = checked(packets(talk), [2] * count, IDS)
        (watcher,) = checker._watchers.values()
        assert isinstance(watcher, Refusals)
        return len(watcher._recent)

    assert remembered(75) == remembered(300) == 50


EVENTS: dict[str, Any] = {
    "dcp_mutation": lambda stream: stream.mutation(3, "c"),
    "dcp_deletion": lambda stream: stream.deletion(3, "c"),
    "dcp_prepare": lambda stream: stream.prepare(3, "c", {}),
    "dcp_commit": lambda stream: (stream.prepare(2, "c", {}), stream.commit(2, 3, "c")),
    "dcp_abort": lambda stream: (stream.prepare(2, "c", {}), stream.abort(2, 3, "c")),
    "dcp_system_event": lambda stream: stream.system_event(
        3, "begin-collection", "c", manifest_uid=1, collection_id=8
    ),
    "dcp_seqno_advanced": lambda stream: stream.seqno_advanced(3),
}


@pytest.mark.parametrize("opcode", EVENTS)
def test_an_event_that_a_consumer_refuses(opcode: str) -> None:
    talk, stream = streaming()
    EVENTS[opcode](stream)
    refuse(talk, stream, opcode)
    (one,) = found(talk)
    assert (one.rule, one.severity, one.cause, one.vbuckets, one.seqnos) == (
        "consumer-refused",
        "error",
        "einval",
        (7,),
        (3,),
    )
    assert one.message.startswith(f"{opcode} up to seqno 3 answered with einval")
    assert [place.direction for place in one.places] == ["c2s", "s2c"]


@pytest.mark.parametrize(
    "status",
    [status for status in REFUSED if status not in (Status.KEY_ENOENT, Status.KEY_EEXISTS)],
)
def test_every_status_that_a_server_does_not_know_as_harmless(status: int) -> None:
    talk, stream = streaming()
    refuse(talk, stream, status=status)
    (one,) = found(talk)
    assert (one.rule, one.severity) == ("consumer-refused", "error")


@pytest.mark.parametrize("flags", [(), ("ack",)])
def test_a_marker_that_a_consumer_refuses_is_taken_for_acknowledged(flags: tuple[str, ...]) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory", *flags)
    refuse(talk, stream, "dcp_snapshot_marker", Status.ERANGE)
    talk.wait(0.01)
    stream.mutation(9, "k")
    talk.close("server")
    refused, closed = found(
        talk, rules=[*IDS, "ack-early", "connection-closed", "unexpected-reply"]
    )
    assert (refused.rule, refused.vbuckets, refused.seqnos) == ("consumer-refused", (7,), (9,))
    assert refused.message.endswith("the server takes any answer as an acknowledgement")
    assert closed.rule == "connection-closed"  # nothing says that this was why


def test_a_vbucket_state_that_a_consumer_refuses() -> None:
    talk = opened()
    stream = talk.stream(7, flags=["takeover"])
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.send("dcp_set_vbucket_state", state="pending")
    refuse(talk, stream, "dcp_set_vbucket_state")
    (one,) = found(talk, rules=[*IDS, "takeover-sequence", "unmatched-response"])
    assert (one.rule, one.vbuckets) == ("consumer-refused", (7,))


@pytest.mark.parametrize("abort", [False, True])
def test_the_close_that_follows_is_told_with_it(abort: bool) -> None:
    talk, stream = streaming()
    refuse(talk, stream)
    talk.wait(0.003)
    stream.mutation(3, "c")
    refuse(talk, stream)
    talk.close("server", abort=abort)
    one, close = found(talk, rules=[*IDS, "connection-closed"])
    assert (one.rule, one.count) == ("consumer-refused", 2)
    assert (close.rule, close.effect_of) == ("connection-closed", one.id)
    assert (
        f"; the server {'reset' if abort else 'closed'} the connection 0.020 ms later, in frame "
        in one.message
    )


@pytest.mark.parametrize(
    ("by", "wait", "is_effect"),
    [("client", 0.003, True), ("client", 30, False), ("server", 30, False)],
)
def test_a_close_much_later_has_another_reason(by: Side, wait: float, is_effect: bool) -> None:
    talk, stream = streaming()
    refuse(talk, stream)
    talk.wait(wait)
    talk.close(by)
    one, close = found(talk, rules=[*IDS, "connection-closed"])
    assert (one.rule, close.rule, close.effect_of == one.id) == (
        "consumer-refused",
        "connection-closed",
        is_effect,
    )


@pytest.mark.parametrize("by", ["client", "server"])
def test_a_side_that_goes_on_after_a_refusal_closes_for_another_reason(by: Side) -> None:
    talk, stream = streaming()
    refuse(talk, stream)
    talk.wait(1)
    talk.noop()
    talk.close(by)
    one, close = found(talk, rules=[*IDS, "connection-closed"])
    assert (one.rule, close.rule, close.effect_of) == (
        "consumer-refused",
        "connection-closed",
        None,
    )


def test_several_streams_that_are_refused_are_one_finding() -> None:
    talk = opened()
    streams = [talk.stream(vbucket) for vbucket in range(5)]
    for stream in streams:
        stream.snapshot(0, 9, "memory")
        stream.mutation(9, "k")
    for stream in streams:
        refuse(talk, stream)
    (one,) = found(talk)
    assert (one.vbuckets, one.count) == ((0, 1, 2, 3, 4), 5)


def test_one_opaque_for_several_vbuckets_names_none_of_them() -> None:
    talk = opened()
    for vbucket in (7, 8):
        stream = talk.stream(vbucket, opaque=0x33)
        stream.snapshot(0, 9, "memory")
        stream.mutation(9, "k")
    refuse(talk, stream)
    (one,) = found(talk)
    assert (one.vbuckets, one.seqnos, len(one.places)) == ((), (), 1)


# -- what is no refusal
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("v7", [True, False])
@pytest.mark.parametrize(
    "status",
    [Status.NOT_MY_VBUCKET, Status.DCP_STREAM_NOT_FOUND, Status.OPAQUE_NO_MATCH, Status.SUCCESS],
)
@pytest.mark.parametrize("opcode", ["dcp_mutation", "dcp_snapshot_marker"])
def test_a_stream_that_is_not_there_any_more(status: int, opcode: str, v7: bool) -> None:
    talk, stream = streaming(v7=v7)
    refuse(talk, stream, opcode, status)
    assert found(talk) == []


@pytest.mark.parametrize("status", [Status.KEY_ENOENT, Status.KEY_EEXISTS])
def test_statuses_that_say_so_only_without_those_of_version_7(status: int) -> None:
    for v7, expected in ((False, []), (True, ["consumer-refused"])):
        talk, stream = streaming(v7=v7)
        refuse(talk, stream, status=status)
        assert [one.rule for one in found(talk)] == expected


@pytest.mark.parametrize("opcode", ["dcp_commit", "dcp_abort"])
def test_a_commit_or_abort_of_what_the_consumer_does_not_know(opcode: str) -> None:
    for status, expected in ((Status.KEY_ENOENT, 1), (Status.KEY_EEXISTS, 0)):
        talk, stream = streaming()
        EVENTS[opcode](stream)
        refuse(talk, stream, opcode, status)
        assert len(found(talk)) == expected


@pytest.mark.parametrize("v7", [True, False])
def test_the_end_of_a_stream_that_the_consumer_closed(v7: bool) -> None:
    for status, expected in ((Status.KEY_ENOENT, 0), (Status.EINVAL, 1)):
        talk, stream = streaming(v7=v7)
        stream.end()
        refuse(talk, stream, "dcp_stream_end", status)
        assert len(found(talk)) == expected


def test_a_cache_transfer_for_which_there_is_no_memory() -> None:
    for status, expected in ((Status.ENOMEM, 0), (Status.EINVAL, 1)):
        talk, stream = streaming()
        talk.send(
            "server", encode_parts(0x80, 0x66, opaque=stream.opaque, specific=7, value=bytes(50))
        )
        refuse(talk, stream, "dcp_cache_transfer", status)
        assert len(found(talk)) == expected


@pytest.mark.parametrize("status", [Status.KEY_ENOENT, Status.KEY_EEXISTS])
def test_statuses_of_version_7_that_may_have_been_set_before_the_capture_or_in_a_hole(
    status: int,
) -> None:
    talk, stream = streaming(v7=True)
    talk.begin()
    for seqno in range(3, 12):
        stream.mutation(seqno, f"k{seqno}")
        talk.failover_log(7, [(1, 0)])
    refuse(talk, stream, status=status)
    assert found(talk) == []
    talk = opened()
    with talk.lost():
        talk.control("v7_dcp_status_codes", "true")
    stream = talk.stream(7)
    stream.snapshot(0, 30, "memory")
    stream.mutation(1, "a")
    refuse(talk, stream, status=status)
    talk.failover_log(7, [(1, 0)])
    assert found(talk) == []


def test_an_answer_in_a_hole_and_one_to_a_message_in_a_hole_accuse_nobody() -> None:
    talk, stream = streaming()
    with talk.lost():
        refuse(talk, stream)
    talk.failover_log(7, [(1, 0)])
    talk.close("server")
    assert [one.rule for one in found(talk, rules=[*IDS, "connection-closed"])] == [
        "connection-closed"
    ]
    talk, stream = streaming()
    with talk.lost():
        stream.deletion(3, "c")
    refuse(talk, stream, "dcp_deletion")
    talk.failover_log(7, [(1, 0)])
    assert found(talk) == []


def test_who_refuses_a_message_with_a_fault_is_right() -> None:
    talk, stream = streaming()
    stream.mutation(2, "b")
    refuse(talk, stream, status=Status.ERANGE)
    talk.close("server")
    fault, *effects = found(talk, rules=[*IDS, "seqno-not-increasing", "connection-closed"])
    assert (fault.rule, fault.whose) == ("seqno-not-increasing", "server")
    assert [(one.rule, one.effect_of, one.whose) for one in effects] == [
        (rule, fault.id, "server") for rule in ("consumer-refused", "connection-closed")
    ]


def test_a_fault_that_is_refused_is_an_error_however_mild_it_is_elsewhere() -> None:
    talk, stream = streaming()
    talk.delete_times = True
    stream.deletion(3, "c")
    rules = [*IDS, "delete-times-mismatch"]
    assert [one.severity for one in found(talk, rules=rules)] == ["warning"]
    refuse(talk, stream, "dcp_deletion")
    fault, effect = found(talk, rules=rules)
    assert (fault.rule, fault.severity) == ("delete-times-mismatch", "error")
    assert (effect.rule, effect.severity, effect.effect_of) == (
        *("consumer-refused", "error"),
        fault.id,
    )


def test_advice_on_a_fault_does_not_say_of_who_refused_it_that_it_may_have_taken_it() -> None:
    talk, stream = streaming()
    rules = [*IDS, "seqno-not-increasing"]
    stream.mutation(2, "b")
    refuse(talk, stream, status=Status.ERANGE)
    fault = found(talk, rules=rules)[0]
    assert fault.next == (
        "report both rows with the failover log and the server's version; the client refused it, "
        "so it applied nothing"
    )
    other = talk.stream(8)
    other.snapshot(0, 9, "memory")
    other.mutation(2, "b")
    other.mutation(1, "a")
    refuse(talk, other, status=Status.ERANGE)
    both = found(talk, rules=rules)[0]
    assert (both.vbuckets, both.next) == ((7, 8), fault.next)
    other.mutation(1, "a")  # nobody answers this one
    mixed = found(talk, rules=rules)
    assert any(
        "a client that did not refuse it may have applied" in (one.next or "") for one in mixed
    )


def test_a_fault_is_told_as_refused_also_where_its_rule_alone_is_asked_for() -> None:
    talk, stream = streaming()
    stream.mutation(2, "b")
    refuse(talk, stream, status=Status.ERANGE)
    fault, effect = found(talk, rules=[*IDS, "seqno-not-increasing"])
    assert effect.rule == "consumer-refused"
    (alone,) = found(talk, rules=["seqno-not-increasing"])
    assert (alone.message, alone.next) == (fault.message, fault.next)
    assert alone.message.endswith(", and was refused")


@pytest.mark.parametrize("status", [Status.KEY_ENOENT, Status.NOT_MY_VBUCKET])
def test_a_fault_that_a_consumer_without_the_stream_answers_was_refused(status: int) -> None:
    talk, stream = streaming()
    stream.end()
    stream.mutation(3, "c")
    refuse(talk, stream, status=status)
    fault, effect = found(talk, rules=[*IDS, "message-after-stream-end"])
    assert fault.message == "mutation of seqno 3 came after the stream end, and was refused"
    assert (effect.rule, effect.effect_of) == ("consumer-refused", fault.id)


def test_what_a_consumer_says_of_a_refusal_is_quoted() -> None:
    talk, stream = streaming()
    value = b'{"error":{"context":"Request must include extras"}}'
    talk.answer(
        "dcp_mutation", stream.opaque, by="client", status=Status.EINVAL, value=value, datatype=1
    )
    (one,) = found(talk)
    assert one.message.endswith('; the client says "Request must include extras"')


def test_a_side_that_is_not_the_consumer_refuses_nothing() -> None:
    talk, stream = streaming()
    talk.answer("dcp_mutation", stream.opaque, by="server", status=Status.EINVAL)
    assert found(talk) == []


@pytest.mark.slow
def test_a_flood_of_refusals_is_counted_and_shown_by_a_few() -> None:
    talk, stream = streaming()
    for _ in range(200):
        refuse(talk, stream)
    (one,) = found(talk)
    assert (one.count, len(one.places)) == (200, 4)


def test_refusals_of_a_capture_that_is_read_in_parts(tmp_path: Path) -> None:
    talks = []
    for port in (50_000, 50_001):
        talk = opened(f"reader:{port}", port=port)
        stream = talk.stream(7)
        stream.snapshot(0, 9, "memory")
        stream.mutation(1, "a")
        refuse(talk, stream)
        talk.close("server")
        talks.append(talk)
    (tmp_path / "refused.pcap").write_bytes(capture(*talks))
    with open_capture(str(tmp_path / "refused.pcap")) as opened_capture:
        given = [replace(batch, data=batch.data.copy()) for batch in opened_capture]
    shares, left_out = divided(given, 3, random.Random(2))
    options = Options([*IDS, "connection-closed"])
    one = everything(whole(given, ["refused.pcap"], options))
    assert everything(joined(shares, ["refused.pcap"], options, left_out)) == one
    assert [found["rule"] for found in one["findings"]] == [
        rule for rule in ("consumer-refused", "connection-closed") for _ in range(2)
    ]
