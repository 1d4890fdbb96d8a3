"""What one rule may say about another: the tables, and which findings are effects of which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from dcpinspect.findings.closing import CLOSES
from dcpinspect.findings.explains import OWNS, REFUSABLE, SILENCES, SILENCES_OF_CONNECTION
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import ORDINARY, RULE_SETS, RULES
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.reading import Reading
from tests.builders import ACK, PSH
from tests.damage import Talk
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.findings.test_closing import heeded, streaming, wrong_opaque
from tests.peers.script import Side
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, opened

OLD, NEW = 0xA, 0xB


def effects(found: Iterable[Finding]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Each effect with its cause and its vbuckets."""
    found = list(found)
    rules = {one.id: one.rule for one in found}
    return [
        (rules[one.effect_of], one.rule, one.vbuckets) for one in found if one.effect_of is not None
    ]


def alone(found: Iterable[Finding], rule: str) -> list[Finding]:
    """What a rule found that is no effect."""
    return [one for one in found if one.rule == rule and one.effect_of is None]


# -- the tables
# --------------------------------------------------------------------------------------------------


def test_rules_that_explain_or_silence_others_are_there() -> None:
    tables = (SILENCES, SILENCES_OF_CONNECTION, OWNS)
    assert {
        *CLOSES,
        *(one for table in tables for key, several in table.items() for one in (key, *several)),
    } <= set(RULES)


def test_no_rule_silences_itself() -> None:
    assert [
        rule
        for table in (SILENCES, SILENCES_OF_CONNECTION)
        for rule, several in table.items()
        if rule in several
    ] == []


def test_no_effect_has_effects_of_its_own() -> None:
    """A refusal that is an effect leaves the close that follows to its cause; an unknown uuid and a
    rollback that is not honoured leave it their rollbacks.
    """
    assert OWNS.keys() & {effect for several in OWNS.values() for effect in several} == {
        "consumer-refused",
        "rollback-not-honoured",
        "rollback-not-followed",
        "unknown-vbucket-uuid",
    }


def test_streams_are_explained_before_their_findings_are_told() -> None:
    places = {rule.id: place for place, rule_set in enumerate(RULE_SETS) for rule in rule_set.rules}
    late = [
        (cause, effect)
        for cause in ("rollback-loop", "failover")
        for effect in OWNS[cause]
        if places[effect] < places[cause]
    ]
    assert late == []


@pytest.mark.parametrize(
    "name",
    ["loop.pcap", "rollback.pcap", "orphans.pcap", "tour.pcapng", "midstream.pcap", "lossy.pcap"],
)
def test_no_effect_is_worse_than_its_cause_so_that_the_exit_status_is_that_of_the_causes(
    name: str,
) -> None:
    with Reading([str(SAMPLES / name)]) as reading:
        reading.check(list(RULES))
        for _ in reading:
            pass
        found = reading.findings()
    causes = {one.id: one for one in found}
    assert len(causes) == len(found)
    for one in found:
        if one.effect_of is not None:
            assert SEVERITIES.index(causes[one.effect_of].severity) <= SEVERITIES.index(
                one.severity
            )
            assert causes[one.effect_of].effect_of is None
            assert (one.next, bool(causes[one.effect_of].next)) == ("", True)


# -- rollback-loop
# --------------------------------------------------------------------------------------------------


def test_a_client_that_gives_up_its_loop_is_told_once() -> None:
    talk = looping()
    other = talk.stream(8)
    talk.wait(9)
    other.snapshot(0, 9, "memory")
    talk.noop()
    assert ("rollback-loop", "rollback-not-followed", (7,)) in effects(findings(talk))


def looping(
    *,
    vbucket: int = 7,
    name: str = "a:1",
    port: int = 50_000,
    rounds: int = 3,
    status: int | None = None,
) -> Told:
    """A client that asks the same again and again; ``status``: of another request between the first
    two rounds.
    """
    talk = opened(name, port=port)
    for number in range(rounds):
        talk.stream(vbucket, start=150, uuid=OLD, rollback=100)
        if status is not None and not number:
            talk.stream(vbucket, start=150, uuid=OLD, status=status)
    return talk


@pytest.mark.parametrize(("rounds", "rule"), [(1, "unknown-vbucket-uuid"), (3, "rollback-loop")])
def test_a_rollback_for_an_unknown_uuid_is_one_story_with_one_advice(
    rounds: int, rule: str
) -> None:
    talk = opened()
    talk.failover_log(7, [(OLD, 0)])
    for _ in range(rounds):
        talk.stream(7, start=150, uuid=0xBAD, rollback=0)
    told = [one for one in findings(talk) if one.severity != "note"]
    cause, *effects = sorted(told, key=lambda one: one.effect_of is not None)
    assert cause.rule == rule
    assert effects
    assert {(one.effect_of, one.next) for one in effects} == {(cause.id, "")}


def test_who_went_on_after_an_unknown_uuid_is_not_told_to_start_again() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=0xBAD, rollback=0)
    talk.stream(7, log=[(OLD, 0)])
    (one,) = [one for one in findings(talk) if one.rule == "unknown-vbucket-uuid"]
    assert (one.severity, one.next) == (
        "note",
        "find out whether the checkpoint is from another bucket, or from a branch that the "
        "server has lost; the client starts again from 0",
    )


def test_a_loop_owns_its_rollbacks_and_gives_the_advice() -> None:
    found = findings(looping())
    (loop,) = alone(found, "rollback-loop")
    (rollback,) = [one for one in found if one.rule == "rollback"]
    assert (rollback.effect_of, rollback.count, rollback.next) == (loop.id, 3, "")
    assert loop.next == (
        "stop or update the client; it has to discard what is above the rollback seqno before "
        "it asks again, from there"
    )
    assert alone(found, "rollback-not-honoured") == []


def test_a_loop_does_not_own_the_rollback_of_another_vbucket() -> None:
    talk = looping()
    talk.stream(8, start=150, uuid=OLD, rollback=100)
    talk.stream(7, start=150, uuid=OLD, rollback=100)
    found = findings(talk)
    assert {(one.vbuckets, one.count) for one in alone(found, "rollback")} == {((8,), 1)}
    assert ("rollback-loop", "rollback", (7,)) in effects(found)


def test_a_loop_does_not_own_the_rollback_of_another_client_meanwhile() -> None:
    other = opened("b:1", port=50_001)
    other.stream(7, start=150, uuid=OLD, rollback=100)
    first, last = looping(rounds=2), looping(port=50_002, rounds=2)
    first.close()
    found = findings(first, other, last)
    assert [(one.connections, one.count) for one in alone(found, "rollback")] == [((2,), 1)]
    assert {one.connections for one in found if one.rule == "rollback" and one.effect_of} == {
        (1, 3)
    }


def test_a_loop_does_not_own_a_rollback_of_another_time() -> None:
    talk = looping()
    stream = talk.stream(7, start=90, uuid=OLD)
    stream.snapshot(90, 400, "memory")
    stream.mutation(400, "k")
    stream.end("state-changed")
    talk.stream(7, start=400, uuid=OLD, rollback=300)
    found = findings(talk)
    assert [(one.count, one.seqnos) for one in alone(found, "rollback")] == [(1, (400, 300))]
    assert ("rollback-loop", "rollback", (7,)) in effects(found)


@pytest.mark.parametrize(
    ("start", "rollbacks"), [(400, 0), (90, 1)], ids=["it goes on", "it went on meanwhile"]
)
def test_a_loop_that_is_not_over_owns_later_rollbacks_to_the_same_seqno(
    start: int, rollbacks: int
) -> None:
    """Else it says what to do about it, and a rollback beside it that nothing is left to do."""
    talk = looping()
    stream = talk.stream(7, start=90, uuid=OLD)
    stream.snapshot(90, 400, "memory")
    stream.mutation(400, "k")
    stream.end("state-changed")
    if rollbacks:
        talk.stream(7, start=400, uuid=OLD).end("state-changed")
    talk.failover_log(7, ((0xC, 100), (OLD, 0)))
    talk.stream(7, start=start, uuid=OLD, rollback=90)
    talk.stream(7, start=90, uuid=OLD)
    found = findings(talk)
    assert [one.count for one in alone(found, "rollback")] == [1] * rollbacks
    assert ("rollback-loop", "rollback", (7,)) in effects(found)


def test_two_loops_have_each_their_own_effects() -> None:
    found = findings(looping(), looping(vbucket=9, name="b:1", port=50_001))
    by_id = {one.id: one for one in found}
    for one in found:
        if one.effect_of is not None:
            assert by_id[one.effect_of].vbuckets == one.vbuckets


def test_a_loop_on_many_vbuckets_is_one_finding_with_one_effect() -> None:
    talk = opened()
    for _ in range(3):
        for vbucket in range(6):
            talk.stream(vbucket, start=150, uuid=OLD, rollback=100)
    found = findings(talk, rules=["rollback-loop", "rollback"])
    assert [(one.rule, len(one.vbuckets), one.count) for one in found if one.effect_of is None] == [
        ("rollback-loop", 6, 6)
    ]
    assert effects(found) == [("rollback-loop", "rollback", (0, 1, 2, 3, 4, 5))]
    assert sum(one.count for one in found if one.effect_of) == 18


def test_a_loop_owns_requests_that_are_refused_between_its_rounds() -> None:
    assert ("rollback-loop", "stream-refused", (7,)) in effects(
        findings(looping(status=Status.ETMPFAIL))
    )


def test_a_loop_is_as_bad_as_any_refused_request_and_owns_it() -> None:
    found = findings(looping(status=Status.EACCESS))
    assert alone(found, "stream-refused") == []
    assert [one.severity for one in alone(found, "rollback-loop")] == ["error"]


def test_a_loop_does_not_own_requests_that_are_refused_before_or_after_it() -> None:
    talk = opened()
    talk.stream(7, start=150, uuid=OLD, status=Status.ETMPFAIL)
    for _ in range(3):
        talk.stream(7, start=150, uuid=OLD, rollback=100)
    talk.stream(7, start=150, uuid=OLD, status=Status.ETMPFAIL)
    talk.stream(8, start=150, uuid=OLD, status=Status.ETMPFAIL)
    found = findings(talk)
    assert [
        (case.vbuckets, case.count)
        for one in alone(found, "stream-refused")
        for case in one.case_of_each
    ] == [((7,), 2), ((8,), 1)]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_loop_that_is_not_over_owns_later_requests_that_are_refused_for_a_time(
    is_over: bool,
) -> None:
    """Else it says what to do about it, and a refusal beside it that nothing is left to do."""
    talk = opened()
    for _ in range(3):
        talk.stream(7, start=150, uuid=OLD, rollback=100)
    if is_over:
        talk.stream(7, start=120, uuid=OLD).end("state-changed")
    talk.stream(7, start=100, uuid=OLD, status=Status.ETMPFAIL)
    talk.stream(7, start=100, uuid=OLD)
    found = findings(talk)
    assert (("rollback-loop", "stream-refused", (7,)) in effects(found)) is not is_over


def test_a_loop_of_stream_ends_owns_these_ends_and_no_others() -> None:
    talk = opened()
    for reason in ("rollback", "too-slow", "rollback"):
        stream = talk.stream(7, start=100, uuid=OLD)
        stream.snapshot(100, 120, "memory")
        stream.mutation(120, "k")
        stream.end(reason)
    found = findings(talk)
    causes = {
        one.cause: one.effect_of is not None for one in found if one.rule == "stream-end-reason"
    }
    assert causes == {"rollback": True, "too-slow": False}


def test_a_loop_with_the_wrong_branch_owns_that_and_names_the_right_one() -> None:
    talk = opened()
    talk.failover_log(7, ((NEW, 100), (OLD, 0)))
    for _ in range(3):
        talk.stream(7, start=100, uuid=OLD, rollback=100)
    found = findings(talk)
    assert {rule for cause, rule, _ in effects(found) if cause == "rollback-loop"} == {
        "rollback",
        "wrong-failover-entry",
    }
    (loop,) = alone(found, "rollback-loop")
    assert loop.next == (
        "stop or update the client; it has to take the uuid of the newest entry of the failover"
        " log at or below the start; for 100, 0x000000000000000b"
    )


def test_without_the_rule_of_the_cause_its_effects_stand_for_themselves() -> None:
    (one,) = findings(looping(), rules=["rollback"])
    assert one.effect_of is None
    assert one.next == (
        "let the client discard what is above 100, and resume at 100 with the newest uuid of "
        "the log that began at or below it"
    )


# -- what servers close for
# --------------------------------------------------------------------------------------------


def closing(talk: Told) -> Told:
    talk.close("server")
    return talk


def test_a_noop_with_another_opaque_owns_the_close_that_follows() -> None:
    talk = streaming()
    wrong_opaque(talk)
    assert effects(findings(closing(talk))) == [("noop-opaque", "connection-closed", ())]


def test_a_noop_with_another_opaque_does_not_own_the_close_of_another_connection() -> None:
    talk, other = streaming(), streaming()
    other.port = 50_001
    wrong_opaque(talk)
    found = findings(talk, closing(other))
    assert [one.connections for one in alone(found, "connection-closed")] == [(2,)]


def test_a_noop_with_another_opaque_does_not_own_a_close_of_another_time_or_by_the_client() -> None:
    by_client = streaming()
    wrong_opaque(by_client)
    by_client.close("client")
    for one in (closing(heeded()), by_client):
        found = findings(one)
        assert [each.rule for each in found if each.rule == "noop-opaque"] == ["noop-opaque"]
        assert effects(found) == []
        assert len(alone(found, "connection-closed")) == 1


# -- what the capture lacks
# ----------------------------------------------------------------------------------------------


def holed(side: Side = "server") -> Told:
    """Bytes that belong to no message behind a hole of the server's side, which end where messages
    begin again.
    """
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with talk.lost():
        stream.mutation(1, "k")
    talk.send(side, b"\x16\x03\x01 garbage, and more of it than a header has")
    for seqno in range(2, 10):
        stream.mutation(seqno, f"k{seqno}")
    for _ in range(9):
        talk.noop()
    return talk


def test_a_hole_owns_the_bytes_behind_it_that_are_in_no_message() -> None:
    assert effects(findings(holed())) == [("capture-hole", "undecoded-bytes", ())]


def test_a_hole_does_not_own_the_bytes_of_the_other_direction() -> None:
    found = findings(holed("client"))
    assert [one.cause for one in found if one.rule == "capture-hole"] == ["s2c"]
    assert ("capture-hole", "undecoded-bytes", ()) not in effects(found)
    assert ("bad-magic", "undecoded-bytes", ()) in effects(found)


def reused(*, has_first: bool) -> Sequence[Finding]:
    first = Talk(50_000)
    first.handshake()
    again = Talk(50_000, isn=(3_000_000_000, 3_100_000_000), start_ns=first.time_ns)
    for talk in (first, again):
        for _ in range(5):
            talk.send(0, encode("dcp_noop"), ACK | PSH)
            talk.send(1, encode("dcp_noop", "response"), ACK | PSH)
    return found_in([*(first.packets if has_first else ()), *again.packets])


def test_a_connection_that_was_taken_for_a_new_one_explains_that_its_beginning_is_not_there() -> (
    None
):
    assert effects(reused(has_first=True)) == [
        ("connection-reuse-inferred", "mid-stream-start", ())
    ]
    assert effects(reused(has_first=False)) == []
    assert len(alone(reused(has_first=False), "mid-stream-start")) == 1


def test_every_cause_of_the_table_is_one_that_somebody_names() -> None:
    """Those that close a connection are tried beside their rule."""
    tried = {
        "rollback-loop",
        "unknown-vbucket-uuid",
        "failover",
        "capture-hole",
        "capture-cut",
        "bad-magic",
        "oversized-body",
        "connection-reuse-inferred",
    }
    tried |= {
        "rollback-not-followed",
        "orphaned-vbucket",
    }  # by the story of forgotten vbuckets, beside the checker
    tried |= {"rollback-not-honoured"}  # beside the rules about requests
    tried |= {"end-lost"}  # beside the recordings of troubles that public reports describe
    tried |= {"server-owes-seqno"}  # beside the rule about streams that stop
    tried |= {
        "login-refused",
        "bucket-refused",
        "reconnect-loop",
    }  # beside the rules about logins, and about what is read again
    tried |= {
        "name-clash",
        "open-twice",
        "flow-control-stall",
        "tcp-window-zero",
        "consumer-refused",
        *REFUSABLE,
    }  # beside these rules
    assert set(OWNS) == tried | set(CLOSES)
    assert set(OWNS) <= set(ORDINARY)
