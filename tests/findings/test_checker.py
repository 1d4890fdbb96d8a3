"""All rules together: what is sound gives nothing bad, and batches change nothing."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.findings.checker import Checker
from dcpinspect.findings.costs import SHARED, Cost
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.findings.rule import FAMILIES, SEVERITIES
from dcpinspect.reading.reading import Reading
from tests.catalogue import each
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, opened, packets

SOUND = ("any.pcap", "capture-loss.pcap", "lossy.pcap", "midstream.pcap", "snapshots.pcap")
"""Captures of servers and clients that do nothing wrong, with what captures lack."""


def check(path: Path) -> list[Finding]:
    with Reading([str(path)], track=True) as reading:
        checker = Checker(reading.tracker)
        for batch in reading:
            checker.feed(batch)
        return checker.findings(reading.engine.links, reading.coverage)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_capture_has_notes_at_most(name: str) -> None:
    assert [one for one in check(SAMPLES / name) if one.severity != "note"] == []


def test_the_story_of_three_rollbacks() -> None:
    found = check(SAMPLES / "rollback.pcap")
    assert [one.rule for one in found if one.severity != "note"] == []
    assert [
        (one.cause, one.vbuckets, one.message.rpartition("; ")[2])
        for one in found
        if one.rule == "rollback"
    ] == [
        ("leading-consumer", (7,), "followed in row 112"),
        ("unknown-uuid", (9,), "followed in row 114"),
        ("snapshot-mismatch", (10,), "followed in row 116"),
    ]


def test_the_story_of_a_loop() -> None:
    found = [one for one in check(SAMPLES / "loop.pcap") if one.severity != "note"]
    loops = [
        (one.cause, one.vbuckets, one.connections, one.message.partition(" in ")[0])
        for one in found
        if one.rule == "rollback-loop"
    ]
    assert loops == [("purge", (30, 31), (2, 3, 4, 5), "rolled back 4 times to 0")]
    (loop,) = [one for one in found if one.rule == "rollback-loop"]
    numbers = "rolled back 4 times to 0 in 30 ms, 86 items sent again on each"
    assert loop.message == f"{numbers} of 2 vbuckets of 4 connections: 30–31"
    assert loop.what == f"{numbers} vbucket"
    assert repr(loop) == f"<error rollback-loop, 2 vbuckets, connections 2–5: {loop.what}>"
    assert [
        (case.vbuckets, case.message[-19:], case.facts["items sent again"]) for case in loop.cases
    ] == [
        ((30,), "86 items sent again", 86),
        ((31,), "86 items sent again", 86),
    ]
    assert (loop.severity, loop.whose, loop.over, loop.clients) == (
        "error",
        "client",
        "open",
        ("10.11.0.1 connector",),
    )
    effects = [
        (one.rule, one.cause, one.vbuckets, one.connections)
        for one in found
        if one.effect_of == loop.id
    ]
    assert sorted(effects, key=str) == [
        ("rollback", "purge", (30, 31), (2, 3, 4, 5)),
        ("rollback", "uuid-never-given", (31,), (4,)),
        ("unknown-vbucket-uuid", "uuid-never-given", (31,), (4,)),
    ]
    assert len(found) == 4


def test_the_story_of_forgotten_vbuckets() -> None:
    found = [one for one in check(SAMPLES / "orphans.pcap") if one.severity != "note"]
    assert [(one.rule, one.cause, one.vbuckets) for one in found] == [
        ("rollback-not-followed", None, (48,)),
        ("orphaned-vbucket", "state-changed", (42, 45)),
        ("rollback", "leading-consumer", (48,)),
    ]


@pytest.mark.slow
def test_batches_change_nothing() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    for seqno in (5, 4, 3, 9):
        stream.mutation(seqno, f"k{seqno}")
    stream.mutation(12, "outside")
    whole = findings(talk)
    assert [one.rule for one in whole] == ["seqno-not-increasing", "seqno-outside-snapshot"]
    assert findings(talk, sizes=[1] * 100) == whole
    assert findings(talk, sizes=[3] * 40) == whole


def test_asking_twice_gives_the_same() -> None:
    with Reading([str(SAMPLES / "tour.pcapng")], track=True) as reading:
        checker = Checker(reading.tracker)
        for batch in reading:
            checker.feed(batch)
        first = checker.findings(reading.engine.links, reading.coverage)
        assert checker.findings(reading.engine.links, reading.coverage) == first


def test_only_the_rules_that_are_asked_for() -> None:
    talk = opened()
    talk.stream(7).mutation(1, "k")
    assert {one.rule for one in findings(talk, rules=["event-before-marker"])} == {
        "event-before-marker"
    }


@pytest.mark.parametrize("name", ["tour.pcapng", "orphans.pcap"])
def test_findings_are_worst_first_then_by_what_they_cost_then_by_row(name: str) -> None:
    found = check(SAMPLES / name)
    costs = [
        cost if isinstance(cost, Cost) else None for cost in (RULES[one.rule].cost for one in found)
    ]
    order = [
        (
            SEVERITIES.index(one.severity),
            cost is None,
            cost.rank if cost is not None and one.severity != "note" else 0,
            one.places[0].row if one.places else 0,
        )
        for one, cost in zip(found, costs, strict=True)
    ]
    assert order == sorted(order)


def test_lost_data_comes_before_what_does_not_go_on_and_refusals_come_last() -> None:
    ranks = [
        cost.rank
        for cost in (SHARED["lost"], SHARED["stuck"], SHARED["wrong-data"], SHARED["refused"])
    ]
    assert ranks == [0, 1, 2, 3]


@each("rule", RULES.values())
def test_every_rule_says_what_it_is(rule: object) -> None:
    assert rule.family in FAMILIES  # type: ignore[attr-defined]
    assert rule.fires  # type: ignore[attr-defined]
    assert rule.next  # type: ignore[attr-defined]


@pytest.mark.parametrize("ends", ["fin", "", "replaced"])
def test_what_came_last_on_a_connection_whose_end_was_not_captured_is_not_known(ends: str) -> None:
    """Its client comes again, to the node and under the name that it had, or from its port."""
    first = opened("c:1", port=50_001)
    stream = first.stream(7, log=[(0xA, 0)])
    stream.snapshot(0, 10, "memory")
    stream.mutation(10, "k")
    stream.end("too-slow")
    first.noop()
    first.send("server", encode("dcp_noop", opaque=9))
    first.wait(60)
    if ends == "fin":
        first.close("client")
    again = opened("c:1", port=50_001 if ends == "replaced" else 50_002)
    again.stream(7, start=40, log=[(0xA, 0)])
    rules = {one.rule for one in findings(first, again) if one.severity != "note"}
    unsure = {"noop-unanswered", "resume-skipped"} if ends == "fin" else set()
    assert rules == {"stream-end-reason", *unsure}


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_connection_that_falls_silent_while_others_lose_packets_may_have_gone_on(
    is_lost: bool,
) -> None:
    silent = opened("c:1", set_noop_interval="1", enable_noop="true")
    silent.noop()
    silent.send("server", encode("dcp_noop", opaque=9))
    first, (second, complete) = (
        packets(silent),
        (packets(_asks(lost=lost)) for lost in (True, False)),
    )
    lost_ns = min({one.time_ns for one in complete} - {one.time_ns for one in second})
    both = [replace(one, time_ns=one.time_ns + lost_ns - first[-1].time_ns) for one in first]
    both += second if is_lost else complete
    found = found_in(sorted(both, key=lambda one: one.time_ns))
    rules = {one.rule for one in found if one.severity != "note"}
    assert rules == (set() if is_lost else {"noop-unanswered"})


def _asks(*, lost: bool) -> Told:
    """A client that asks how high a vbucket is; one of its requests and the answer may be lost."""
    talk = opened("c:2", port=50_001)
    talk.wait(1)
    talk.high_seqnos({7: 10})
    with talk.lost() if lost else nullcontext():
        talk.high_seqnos({7: 10})
    talk.high_seqnos({7: 10})
    talk.wait(60)
    talk.high_seqnos({7: 10})
    return talk
