"""Rules about requests and answers: one without the other, and what the capture must hold for
that.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.findings.pairing import RULES, Pairing
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.reading import Reading
from tests.captures import field
from tests.doubled import packets_of, tcp_of, written
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.findings.test_transport_rules import taking_nothing
from tests.peers.script import Side, Stream
from tests.streams.told import Told, opened, packets, sent_again
from tests.tls.damage import save

IDS = [rule.id for rule in RULES]


def found(*talks: Told, **options: Any) -> list[tuple[str, str | None, str]]:
    whole = findings(*talks, rules=IDS, **options)
    assert findings(*talks, rules=IDS, sizes=[1] * 300) == whole
    return [(one.rule, one.cause, one.message) for one in whole]


def unanswered(talk: Told, opcode: str = "dcp_control", **parts: Any) -> None:
    """A request without an answer."""
    body: dict[str, Any] = (
        {"key": "enable_noop", "value": "true"} if opcode == "dcp_control" else {}
    )
    talk.send("client", encode(opcode, opaque=77, **body, **parts))


# -- missing-response
# -----------------------------------------------------------------------------------


def test_a_request_that_is_not_answered_while_the_connection_goes_on() -> None:
    talk = opened()
    unanswered(talk)
    talk.wait(2.5)
    talk.noop()
    ((rule, _, message),) = found(talk)
    assert (rule, message) == ("missing-response", "dcp_control unanswered for 2.5 s")


@pytest.mark.parametrize(
    ("then", "cause", "whose"),
    [("noop", "goes-on", "server"), ("close", "closed", "server"), ("", "acknowledged", "server")],
)
def test_it_is_of_the_side_that_was_asked_if_that_goes_on_or_closes_or_its_host_acknowledges_the_request(
    then: str, cause: str, whose: str
) -> None:
    talk = opened()
    unanswered(talk)
    talk.wait(2.5)
    if then == "noop":
        talk.noop()
    elif then == "close":
        talk.close("server")
    else:
        talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    (one,) = [one for one in findings(talk, rules=IDS) if "2.5 s" in one.message]
    assert (one.rule, one.cause, one.whose) == ("missing-response", cause, whose)


def test_of_a_request_that_no_host_acknowledged_nobody_knows_whose_it_is() -> None:
    talk = opened()
    unanswered(talk)
    talk.wait(2.5)
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    *before, asked, _, again, _ = packets(talk)
    (one,) = [one for one in found_in([*before, asked, again], rules=IDS) if "2.5 s" in one.message]
    assert (one.rule, one.cause, one.whose) == ("missing-response", "silent", "unknown")


def test_ten_times_the_slowest_answer_before_is_waited_for() -> None:
    for slow, expected in ((0.1, 1), (0.5, 0)):
        talk = opened()
        talk.send("client", encode("dcp_control", opaque=5, key="enable_noop", value="true"))
        talk.wait(slow)
        talk.answer("dcp_control", 5)
        unanswered(talk)
        talk.wait(3)
        talk.noop()
        assert len(found(talk)) == expected


@pytest.mark.parametrize(("slow", "kept"), [(0.01, 0), (0.03, 1)])
def test_answers_that_are_too_quick_to_count_take_no_memory(
    slow: float, kept: int, tmp_path: Path
) -> None:
    talk = opened()
    talk.send("client", encode("dcp_control", opaque=5, key="enable_noop", value="true"))
    talk.wait(slow)
    talk.answer("dcp_control", 5)
    with Reading([str(save(tmp_path / "a.pcap", packets(talk)))]) as reading:
        reading.check()
        for _ in reading:
            pass
    (pairing,) = (one for one in reading.checker._watchers.values() if isinstance(one, Pairing))
    assert len(pairing._slowest) == kept


def test_nothing_is_missing_merely_because_the_capture_ends() -> None:
    talk = opened()
    unanswered(talk)
    talk.wait(0.5)
    talk.noop()
    assert found(talk) == []


def test_an_open_after_which_the_server_closes() -> None:
    for abort, word in ((False, "closed"), (True, "reset")):
        talk = Told("x:1")
        talk.hello("x/1", "JSON")
        talk.send("client", encode("dcp_open", opaque=9, key="x:1", flags=["producer"]))
        talk.wait(0.01)
        talk.close("server", abort=abort)
        ((rule, _, message),) = found(talk)
        assert rule == "missing-response"
        assert message.startswith(f"dcp_open unanswered when the server {word} the connection")
        (whole,) = findings(talk, rules=IDS)
        assert whole.next == (
            "check the name, the privileges of the user and the address, because a server may "
            "send no answer to a client that it does not accept; a client should wait with a "
            "time limit"
        )


def test_a_stream_request_after_which_the_server_closes_late() -> None:
    talk = opened()
    talk.stream_request(7, 0x700)
    talk.wait(0.5)
    talk.close("server")
    (whole,) = findings(talk, rules=IDS)
    assert (whole.rule, whole.vbuckets) == ("missing-response", (7,))
    assert whole.next == (
        "look at the server's log, because it is busy or hangs; a client should ask again later"
    )


@pytest.mark.parametrize("abort", [True, False])
def test_a_node_that_goes_down_owes_no_answer_to_what_was_just_asked(abort: bool) -> None:
    talk = opened()
    talk.stream_request(7, 0x700)
    talk.close("server", abort=abort)
    assert found(talk) == []


def test_a_client_that_closes_does_not_wait() -> None:
    talk = opened()
    unanswered(talk)
    talk.close("client")
    assert found(talk) == []


def test_an_answer_in_a_hole_accuses_nobody() -> None:
    talk = opened()
    opaque = talk.opaque()
    talk.send("client", encode("dcp_control", opaque=opaque, key="enable_noop", value="true"))
    with talk.lost():
        talk.answer("dcp_control", opaque)
    talk.wait(4)
    assert found(talk) == []
    talk.noop()
    assert found(talk) == []


def test_a_capture_that_begins_in_the_middle_may_lack_the_answer() -> None:
    talk = opened()
    talk.begin()
    for _ in range(5):
        talk.noop()
    unanswered(talk)
    talk.wait(4)
    talk.noop()
    assert found(talk) == []


def test_commands_without_an_answer_are_not_waited_for() -> None:
    talk = opened(connection_buffer_size="1000")
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    talk.acknowledge()
    talk.wait(5)
    talk.noop()
    assert found(talk) == []


# -- unmatched-response
# ---------------------------------------------------------------------------------


def test_an_answer_that_nobody_asked_for() -> None:
    talk = opened()
    talk.answer("dcp_control", 0x55)
    assert found(talk) == [
        ("unmatched-response", None, "dcp_control response, opaque 0x00000055, answers no request")
    ]


def test_an_answer_that_comes_twice() -> None:
    talk = opened()
    talk.control("enable_noop", "true")
    talk.answer("dcp_control", 3)
    assert [rule for rule, _, _ in found(talk)] == ["unmatched-response"]


def test_an_answer_to_a_request_in_a_hole_accuses_nobody() -> None:
    talk = opened()
    with talk.lost():
        unanswered(talk)
    talk.answer("dcp_control", 77)
    assert found(talk) == []
    talk.noop()
    assert found(talk) == []


def test_an_answer_in_a_capture_that_begins_in_the_middle_accuses_nobody() -> None:
    talk = opened()
    talk.begin()
    talk.answer("dcp_control", 77)
    for _ in range(5):
        talk.noop()
    assert found(talk) == []


def test_commands_with_many_answers_and_errors_about_what_needs_none() -> None:
    talk = opened()
    talk.stat("", {"a": "1", "b": "2"})
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    talk.answer("dcp_mutation", stream.opaque, by="client", status=Status.ENOMEM)
    assert found(talk) == []


# -- unexpected-reply
# -----------------------------------------------------------------------------------


def test_a_success_where_none_is_due() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    talk.answer("dcp_mutation", stream.opaque, by="client")
    assert found(talk) == [("unexpected-reply", None, "dcp_mutation needs no answer")]


@pytest.mark.parametrize("opcode", ["dcp_seqno_advanced", "dcp_oso_snapshot"])
def test_a_success_at_which_a_server_closes_the_connection(opcode: str) -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    if opcode == "dcp_seqno_advanced":
        stream.snapshot(0, 3, "memory")
        stream.seqno_advanced(3)
    else:
        stream.oso("start")
    talk.answer(opcode, stream.opaque, by="client")
    (whole,) = findings(talk, rules=IDS)
    assert (whole.rule, whole.severity) == ("unexpected-reply", "error")
    assert (
        whole.message
        == f"{opcode} needs no answer, and a server closes the connection when it gets one"
    )


def test_stream_ends_and_markers_may_be_answered() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory", "ack")
    stream.mutation(3, "k")
    stream.snapshot_received()
    stream.end()
    talk.answer("dcp_stream_end", stream.opaque, by="client")
    assert found(talk) == []


# -- takeover-sequence
# ----------------------------------------------------------------------------------


def takeover(*flags: str) -> tuple[Told, Stream]:
    talk = opened()
    stream = talk.stream(7, flags=flags)
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    return talk, stream


def test_a_state_set_on_a_stream_without_takeover() -> None:
    talk, stream = takeover()
    stream.set_state("pending")
    assert [(rule, cause) for rule, cause, _ in found(talk)] == [
        ("takeover-sequence", "not-requested")
    ]
    (whole,) = findings(talk, rules=IDS)
    assert [place.direction for place in whole.places] == ["s2c", "c2s"]
    talk, stream = takeover("takeover")
    stream.set_state("pending")
    assert found(talk) == []


@pytest.mark.parametrize("by", ["server", "client"])
@pytest.mark.parametrize("then", ["", "active", "end", "hole"])
def test_a_takeover_that_a_server_leaves_pending(by: Side, then: str) -> None:
    talk, stream = takeover("takeover")
    stream.set_state("pending")
    talk.wait(100)
    if then == "active":
        stream.set_state("active")
    elif then == "end":
        stream.end("state-changed")
    elif then == "hole":
        with talk.lost():
            stream.set_state("active")
        talk.noop()
    talk.close(by)
    told = [one for one in findings(talk) if one.rule == "takeover-sequence"]
    assert [(one.severity, one.cause, one.whose) for one in told] == (
        [("warning", "unfinished", "server")] if by == "server" and not then else []
    )


def test_a_request_with_takeover_may_lie_in_a_hole() -> None:
    talk, stream = takeover()
    with talk.lost():
        stream.end()
        again = talk.stream(7, flags=["takeover"], opaque=stream.opaque)
    again.set_state("pending")
    talk.noop()
    assert [rule for rule, _, _ in found(talk) if rule == "takeover-sequence"] == []


def test_a_request_that_was_refused_meanwhile_changes_nothing() -> None:
    talk, stream = takeover("takeover")
    talk.stream(7, status=Status.KEY_EEXISTS, opaque=stream.opaque)
    stream.set_state("pending")
    assert found(talk) == []


def test_a_state_that_is_set_and_not_answered() -> None:
    talk, stream = takeover("takeover")
    stream.send("dcp_set_vbucket_state", state="pending")
    talk.wait(3)
    talk.noop()
    assert [(rule, cause) for rule, cause, _ in found(talk)] == [
        ("takeover-sequence", "unanswered")
    ]
    talk, stream = takeover("takeover")
    stream.send("dcp_set_vbucket_state", state="pending")
    with talk.lost():
        talk.answer("dcp_set_vbucket_state", stream.opaque, by="client")
    talk.wait(3)
    talk.noop()
    assert found(talk) == []


def test_a_state_set_on_a_stream_whose_request_was_not_captured() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.begin()
    for seqno in range(1, 9):
        stream.seqno_advanced(seqno)
    stream.set_state("pending")
    assert found(talk) == []


def closing(
    talk: Told, opaque: int = 0x900, vbucket: int = 9, status: Status = Status.KEY_ENOENT
) -> Told:
    talk.send("client", encode("dcp_close_stream", opaque=opaque, vbucket=vbucket))
    talk.answer("dcp_close_stream", opaque, status=status)
    return talk


def test_a_close_that_is_refused_is_of_the_client() -> None:
    (one,) = findings(closing(opened()), rules=["close-refused"])
    assert (one.severity, one.whose, one.vbuckets) == ("note", "client", (9,))
    assert one.message == "close of the vbucket's stream refused: key_enoent"


def test_a_close_that_passed_the_end_of_its_stream_on_its_way() -> None:
    for waits_s, expected in ((0.0, 0), (10.0, 1)):
        talk = opened()
        talk.stream(9).end("ok")
        talk.wait(waits_s)
        assert len(findings(closing(talk), rules=["close-refused"])) == expected


def test_a_close_that_is_refused_after_a_hole_that_may_have_had_the_end() -> None:
    talk = opened()
    stream = talk.stream(9)
    with talk.lost():
        stream.end("ok")
    talk.noop()
    assert findings(closing(talk), rules=["close-refused"]) == []


def test_a_close_that_is_granted() -> None:
    assert findings(closing(opened(), status=Status.SUCCESS), rules=["close-refused"]) == []


@pytest.mark.parametrize("skew_ns", [100_000, 3_000_000])
def test_directions_that_were_recorded_with_different_clocks_accuse_nobody(
    skew_ns: int, tmp_path: Path
) -> None:
    """As two queues of an interface do: answers have earlier times than their requests."""
    packets = [
        replace(packet, time_ns=packet.time_ns - skew_ns * (not tcp_of(packet).to_server()))
        for packet in packets_of(field("t00-base"))
    ]
    with Reading(
        [str(written(tmp_path, sorted(packets, key=lambda packet: packet.time_ns)))]
    ) as reading:
        reading.check()
        for _ in reading:
            pass
        assert "unmatched-response" not in {finding.rule for finding in reading.findings()}


def test_a_request_is_not_late_before_it_arrives_and_of_nobody_known_if_it_never_does() -> None:
    talk = opened()
    unanswered(talk)
    talk.wait(6)
    talk.noop()
    captured = packets(talk)
    for again, arrives, expected in (
        ((), True, ["goes-on: dcp_control unanswered for 6.0 s"]),
        ((0.3, 0.9, 2.1), True, ["goes-on: dcp_control unanswered for 3.9 s"]),
        ((0.3, 0.9, 2.1, 4.5), True, []),
        ((0.3, 0.9, 2.1, 4.5), False, ["silent: dcp_control unanswered for 6.0 s"]),
    ):
        seen = sent_again(captured, -6, *again, arrives=arrives) if again else captured
        assert [f"{one.cause}: {one.message}" for one in found_in(seen, rules=IDS)] == expected


def test_nothing_is_missing_while_who_asked_takes_nothing() -> None:
    talk = opened()
    unanswered(talk)
    talk.wait(6)
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    captured = packets(talk)
    assert len(found_in(captured, rules=IDS)) == 1
    assert found_in(taking_nothing(captured, len(captured) - 4, len(captured)), rules=IDS) == []
