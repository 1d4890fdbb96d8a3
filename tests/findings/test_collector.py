"""What becomes of many occurrences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcpinspect.findings import collector as module
from dcpinspect.findings.collector import Collector, Relations
from dcpinspect.findings.finding import Candidates, Finding, MessagePlace, Occurrence
from dcpinspect.findings.rule import Rule
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.reading.engine import Engine
from tests.damage import PORT, batches
from tests.encode import encode
from tests.findings.gathered import RULES, collected, once
from tests.peers.script import Stream
from tests.streams.told import opened, packets
from tests.tables import build

OWNS = {"broad": ("narrow",)}
SILENT = Relations(silences={"narrow": ("broad",)})


def test_causes_are_told_apart_and_vbuckets_are_not() -> None:
    found = collected(
        once("broad", 1), once("broad", 2, cause="x"), once("broad", 3, 8), once("broad", 4, None)
    ).findings()
    assert [(one.cause, one.vbuckets) for one in found] == [(None, (7, 8)), ("x", (7,)), (None, ())]


def test_what_is_worse_is_another_finding() -> None:
    found = collected(
        once("broad", 1, severity="note"), once("broad", 2), once("broad", 3, severity="note")
    ).findings()
    assert [(one.severity, [each.row for each in one.places], one.count) for one in found] == [
        ("warning", [2], 1),
        ("note", [1, 3], 2),
    ]


def test_advice_for_what_another_rule_speaks_of_is_not_given() -> None:
    told = (once("broad", 1, next_="do a"), once("broad", 2, next_="do b"), once("narrow", 2))
    found = [one for one in collected(*told, relations=SILENT).findings() if one.rule == "broad"]
    assert [one.next for one in found] == ["do a"]


def test_several_vbuckets_are_one() -> None:
    (found,) = collected(*(once("broad", row, row) for row in (1, 2, 3, 9))).findings()
    assert [(case.vbuckets, case.message, case.count) for case in found.cases] == [
        ((row,), f"at {row}", 1) for row in (1, 2, 3, 9)
    ]
    assert (found.vbuckets, found.count, [one.row for one in found.places]) == (
        (1, 2, 3, 9),
        4,
        [1, 2, 3, 9],
    )
    assert found.message == "at 1–9 on 4 vbuckets in 0.008 ms: 1–3, 9"


def test_what_is_worded_in_another_way_is_another_finding() -> None:
    collector = collected(
        *(
            replace(once("broad", row), message=said, connection=row)
            for row, said in ((1, "full 5"), (2, "empty 5"))
        )
    )
    assert [one.message for one in collector.findings()] == ["full 5", "empty 5"]


def test_a_rule_is_silent_where_a_more_specific_one_speaks() -> None:
    collector = collected(
        once("broad", 1),
        once("broad", 2),
        once("narrow", 2),
        once("broad", 3, 8),
        once("narrow", 3, 8),
        relations=SILENT,
    )
    found = collector.findings()
    assert [(one.rule, [each.row for each in one.places], one.count) for one in found] == [
        ("broad", [1], 1),
        ("narrow", [2, 3], 2),
    ]


def test_a_finding_says_what_the_first_of_its_messages_shows_that_is_left() -> None:
    collector = collected(
        *(replace(once("broad", row), seqnos=(row,)) for row in (1, 2, 3)),
        once("narrow", 1),
        relations=SILENT,
    )
    narrow, broad = collector.findings()
    assert (narrow.message, broad.message, broad.seqnos, [each.row for each in broad.places]) == (
        "at 1",
        "at 2",
        (2,),
        [2, 3],
    )


def test_rules_that_nobody_asked_for_are_dropped() -> None:
    assert collected(once("other", 1)).findings() == []


def test_a_copy_goes_on_by_itself() -> None:
    collector = collected(once("broad", 1))
    other = collector.copy()
    other.add(once("broad", 2))
    assert [one.count for one in (*collector.findings(), *other.findings())] == [1, 2]


def test_a_connections_trouble_silences_what_follows_from_it_in_that_time() -> None:
    rules = {
        name: Rule(name, "stream", "warning", "", "", "do", whose="unknown")
        for name in ("cause", "effect")
    }

    def told(rule: str, connection: int, begins: float, ends: float = 0) -> Occurrence:
        begin_ns = int(begins * 1e9)
        return Occurrence(
            rule,
            rule,
            connection,
            (MessagePlace(begin_ns, connection, "s2c", 0, 0, 1, begin_ns),),
            7,
            last_time_ns=int(ends * 1e9),
            severity="warning",
        )

    def heard(*occurrences: Occurrence) -> list[tuple[str, tuple[int, ...]]]:
        collector = Collector(rules, Relations(of_connection={"cause": ("effect",)}))
        for occurrence in occurrences:
            collector.add(occurrence)
        found = collector.findings()
        return [(one.rule, one.connections) for one in found if one.rule == "effect"]

    cause = told("cause", 1, 10, 20)
    assert heard(cause, told("effect", 1, 15), told("effect", 2, 15)) == [("effect", (2,))]
    assert heard(told("cause", 1, 10), told("effect", 1, 15)) == [("effect", (1,))]
    # between two times, and for the most part outside of one, it has another reason
    assert heard(cause, told("cause", 1, 60, 70), told("effect", 1, 40)) == [("effect", (1,))]
    assert heard(cause, told("effect", 1, 15, 22)) == []
    assert heard(cause, told("effect", 1, 15, 400)) == [("effect", (1,))]
    assert heard(told("cause", 1, 398, 400), told("effect", 1, 15, 400)) == [("effect", (1,))]
    # each time that it happens needs its own
    twice = [told("effect", 1, 11, 19), told("effect", 1, 61, 69)]
    assert heard(cause, *twice) == [("effect", (1,))]
    assert heard(cause, told("cause", 1, 60, 70), *twice) == []
    # of many times only the first and the last are known
    many = [told("cause", 1, 100 * number, 100 * number + 1) for number in range(1, 6)]
    assert heard(*many, told("effect", 1, 350)) == []


@pytest.mark.parametrize(
    ("count", "expected"),
    [(2, "vb 7: do 7; vb 8: do 8"), (3, "vb 7: do 7; vb 8: do 8; vb 9: do 9"), (4, "look")],
)
def test_a_rule_that_is_told_once_puts_vbuckets_together_with_what_to_do_for_each_of_a_few(
    count: int, expected: str
) -> None:
    rule = Rule("r", "stream", "warning", "", "", "look", whose="unknown")
    collector = Collector({"r": rule})
    for vbucket in range(7, 7 + count):
        place = MessagePlace(vbucket, 1, "s2c", 0, 0, 1, vbucket)
        collector.add(
            Occurrence(
                "r",
                f"told {vbucket}",
                1,
                (place,),
                vbucket,
                next=f"do {vbucket}",
                shared="told",
                severity="warning",
            )
        )
    (one,) = collector.findings()
    assert one.message == f"told on {count} vbuckets at once: 7–{6 + count}"
    assert (one.next, one.vbuckets) == (expected, tuple(range(7, 7 + count)))


def test_what_one_rule_found_of_two_severities_in_a_batch_is_two_findings() -> None:
    batch = Engine(["told.pcap"], ports=(PORT,)).feed(next(batches(packets(opened()))))
    assert batch is not None
    collector = Collector(RULES)
    bad = Candidates("broad", np.array([0, 1, 2, 3]), lambda row: f"bad {row}", severity="error")
    mild = Candidates("broad", np.array([1, 3]), lambda row: f"mild {row}")
    collector.add_batch(batch, [mild, bad])
    found = [
        (one.severity, one.message, one.count, [place.row for place in one.places])
        for one in collector.findings()
    ]
    assert found == [("error", "bad 0", 4, [1, 2, 3, 4]), ("warning", "mild 1", 2, [2, 4])]


def test_what_is_wrong_with_a_message_is_said_by_severity() -> None:
    rule = "bad-framing-extras"
    collector = Collector({rule: replace(RULES["broad"], id=rule)})
    severities: tuple[Severity, ...] = ("error", "note")
    several = [
        Candidates(rule, np.zeros(1, np.int64), severity=severity) for severity in severities
    ]
    collector.add_batch(build.batch(encode("dcp_noop", frames=[(9, b"x"), (0, b"y")])), several)
    assert [one.message for one in collector.findings()] == [
        "barrier of 1 bytes",
        "framing extras with the unknown id 9",
    ]


def test_what_one_rule_found_in_several_ways_is_in_order_of_rows() -> None:
    batch = Engine(["told.pcap"], ports=(PORT,)).feed(next(batches(packets(opened()))))
    assert batch is not None
    collector = Collector(RULES)
    several = [("late", [3]), ("early", [0, 1, 2])]
    found = (
        Candidates("broad", np.array(rows), lambda row, which=which: f"{which} {row}")  # type: ignore[misc]
        for which, rows in several
    )
    collector.add_batch(batch, found)
    (one,) = collector.findings()
    assert (one.message, one.count, [place.row for place in one.places]) == (
        "early 0",
        4,
        [1, 2, 3, 4],
    )


# -- rows of all
# --------------------------------------------------------------------------------------------------


def keeping(*occurrences: Occurrence, relations: Relations = Relations()) -> Collector:  # noqa: B008 - none
    collector = Collector(RULES, relations, keeps_rows=True)
    for one in occurrences:
        collector.add(one)
    return collector


def test_the_rows_of_all_are_kept_for_who_wants_them() -> None:
    occurrences = [
        once("broad", row, vbucket) for vbucket in (8, 7) for row in range(vbucket, 1000, 10)
    ]
    (found,), (without,) = keeping(*occurrences).findings(), collected(*occurrences).findings()
    assert found == without
    assert found.rows.tolist() == sorted([*range(7, 1000, 10), *range(8, 1000, 10)])
    assert [case.rows[0] for case in found.cases] == [7, 8]
    assert len(without.rows) == 0


def test_the_rows_of_all_are_kept_of_what_is_found_in_bulk() -> None:
    batch = Engine(["told.pcap"], ports=(PORT,)).feed(
        next(batches(packets(opened(), opened(port=50_001))))
    )
    assert batch is not None
    every = np.arange(len(batch))
    both = []
    for collector in (Collector(RULES, keeps_rows=True), Collector(RULES)):
        for _ in range(3):
            collector.add_batch(batch, [Candidates("broad", every, lambda _: "bad")])
        both += collector.copy().findings()
    with_rows, without = both
    assert with_rows == without
    assert with_rows.rows.tolist() == batch.row.tolist()


def test_an_occurrence_may_name_more_rows_than_it_has_places() -> None:
    one = replace(once("broad", 3, None), vbuckets=(1, 2, 3), rows=[3, 5, 9])
    (found,) = keeping(one).findings()
    assert (found.rows.tolist(), found.left_out) == ([3, 5, 9], 2)


def test_rows_of_which_another_rule_speaks_are_not_told_again() -> None:
    rows = range(1, 20)
    (narrow, broad) = keeping(
        *(once("narrow", row) for row in rows if row % 2),
        *(once("broad", row) for row in rows),
        relations=SILENT,
    ).findings()
    assert (narrow.rule, narrow.rows.tolist()) == ("narrow", list(range(1, 20, 2)))
    assert broad.rows.tolist() == list(range(2, 20, 2))


def test_doubtful_rows_are_dropped() -> None:
    collector = keeping(*(once("broad", row) for row in range(1, 20)))
    collector.doubt({"broad"}, {1: [(4, 8), (10, 18)]})
    (found,) = collector.findings()
    assert found.rows.tolist() == [1, 2, 3, 4, 8, 9, 10, 18, 19]


def test_of_too_many_rows_the_rule_with_the_most_forgets_the_earliest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    batch = Engine(["told.pcap"], ports=(PORT,)).feed(next(batches(packets(opened()))))
    assert batch is not None
    collector = keeping(
        *(once("broad", row, row % 3) for row in range(1, 301)),
        *(once("narrow", row) for row in range(1, 41)),
    )
    collector.add_batch(batch, [])
    broad, narrow = sorted(collector.findings(), key=lambda one: one.rule)
    assert narrow.rows.tolist() == list(range(1, 41))
    assert len(broad.rows) <= 60
    assert broad.rows.min() > 200
    assert broad.count == 300


def owned(*occurrences: Occurrence, apart: bool = False) -> list[tuple[str, int, bool]]:
    """Rule, count, and whether it is an effect."""
    collector = Collector(RULES, Relations(OWNS))
    for one in occurrences:
        collector.add(one)
    return [
        (one.rule, one.count, one.effect_of is not None) for one in collector.findings(apart=apart)
    ]


def of_stream(
    rule: str, row: int, vbucket: int = 7, severity: Severity = "warning", **more: Any
) -> Occurrence:
    return Occurrence(
        rule,
        "x",
        1,
        (MessagePlace(row, 1, "c2s", row, 0, row, row),),
        vbucket,
        **more,
        severity=severity,
    )


def test_what_a_cause_explains_is_its_effect_and_no_more_than_that() -> None:
    cause = of_stream("broad", 1, explains=(3, 4))
    effects = [of_stream("narrow", row, stream=stream) for row, stream in ((2, 3), (3, 4), (4, 5))]
    assert owned(cause, *effects) == [
        ("broad", 1, False),
        ("narrow", 2, True),
        ("narrow", 1, False),
    ]


def test_what_is_not_in_the_table_is_no_effect() -> None:
    assert owned(of_stream("narrow", 1, explains=(3,)), of_stream("broad", 2, stream=3)) == [
        ("narrow", 1, False),
        ("broad", 1, False),
    ]
    cause = of_stream("narrow", 1)
    assert owned(cause, of_stream("broad", 2, effect_of=cause.key)) == [
        ("narrow", 1, False),
        ("broad", 1, False),
    ]


def test_what_is_worse_is_no_effect() -> None:
    cause = of_stream("broad", 1, explains=(3,))
    assert owned(cause, of_stream("narrow", 2, stream=3, severity="error")) == [
        ("narrow", 1, False),
        ("broad", 1, False),
    ]
    assert owned(cause, of_stream("narrow", 2, stream=3, severity="note")) == [
        ("broad", 1, False),
        ("narrow", 1, True),
    ]


def test_who_is_asked_for_a_case_gets_its_effects_and_leaves_a_cause_with_them() -> None:
    cause = of_stream("broad", 1, vbucket=8)
    effect = of_stream("narrow", 2, effect_of=cause.key)
    collector = Collector(RULES, Relations(OWNS))
    for one in (cause, effect, of_stream("broad", 3, vbucket=9)):
        collector.add(one)

    def is_wanted(case: Finding, effects: Sequence[Finding]) -> bool:
        return any(7 in one.vbuckets for one in (case, *effects))

    findings = collector.findings(is_wanted=is_wanted)
    assert [(one.rule, one.vbuckets) for one in findings] == [("broad", (8,)), ("narrow", (7,))]
    assert findings[1].effect_of == findings[0].id


def test_effects_of_one_finding_are_one_finding() -> None:
    causes = [of_stream("broad", 1 + vbucket, vbucket, explains=(vbucket,)) for vbucket in range(5)]
    effects = [of_stream("narrow", 10 + vbucket, vbucket, stream=vbucket) for vbucket in range(5)]
    assert owned(*causes, *effects) == [("broad", 5, False), ("narrow", 5, True)]
    assert owned(*causes[:3], *effects[:3]) == [("broad", 3, False), ("narrow", 3, True)]
    assert len(owned(*causes, *effects, apart=True)) == 10


def test_an_effect_of_what_was_silenced_stands_for_itself() -> None:
    cause = of_stream("broad", 1)
    collector = Collector(RULES, SILENT._replace(owns=OWNS))
    for one in (cause, of_stream("narrow", 1), of_stream("narrow", 2, effect_of=cause.key)):
        collector.add(one)
    assert [(one.rule, one.effect_of, one.count) for one in collector.findings()] == [
        ("narrow", None, 2)
    ]


def test_of_too_many_vbuckets_those_that_come_late_are_told_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.findings.collector.MOST_APART", 10)
    one = collected(*(once("narrow", row, row) for row in range(100)))
    assert len(one._heaps) == 11
    found = one.findings()
    assert sum(finding.count for finding in found) == 100
    assert {vbucket for finding in found for vbucket in finding.vbuckets} == set(range(10))


def test_reasons_of_a_vbucket_are_cases_of_their_own_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.findings.collector.MOST_APART", 10)
    two = [
        replace(once("narrow", row, 7), reason=reason, shared=reason)
        for row, reason in enumerate("abab")
    ]
    found = collected(*two).findings()
    rows = [[place.row for place in one.places] for one in found]
    assert (rows, [one.count for one in found]) == ([[0, 2], [1, 3]], [2, 2])
    (one,) = collected(*(replace(each, shared="refused") for each in two)).findings()
    assert (one.message, one.count, len(one.cases)) == ("refused on vb 7 in 0.002 ms", 4, 2)
    many = collected(*(replace(once("narrow", row, 7), reason=str(row)) for row in range(100)))
    assert len(many._heaps) == 11
    assert sum(finding.count for finding in many.findings()) == 100


def crowd(sizes: list[int]) -> Collector:
    """Of 60 vbuckets, the highest first, each three times in a row; read in batches of so many
    packets.
    """
    talk = opened()
    for vbucket in range(60, 0, -1):
        stream = Stream(talk, vbucket, opaque=5)
        for seqno in (1, 2, 3):
            stream.mutation(seqno, "k")
    collector, engine = Collector(RULES, keeps_rows=True), Engine(["told.pcap"], ports=(PORT,))
    for part in batches(packets(talk), sizes):
        batch = engine.feed(part)
        if batch is not None:
            rows = np.flatnonzero(batch.decoded.opcode == Opcode.DCP_MUTATION)
            collector.add_batch(
                batch,
                [Candidates("broad", rows, lambda row, batch=batch: f"row {batch.row[row]}")],  # type: ignore[misc]
            )
    return collector


def test_those_that_come_late_are_counted_in_bulk_whatever_the_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.findings.collector.MOST_APART", 10)
    added, add = list[Occurrence](), Collector.add

    def counted(collector: Collector, one: Occurrence) -> None:
        added.append(one)
        add(collector, one)

    monkeypatch.setattr(Collector, "add", counted)
    found = crowd([]).findings()
    assert [(one.vbuckets, one.count) for one in found] == [(tuple(range(51, 61)), 30), ((), 150)]
    assert len(added) == 10 * 3 + 4
    assert [place.row for place in found[1].places] == [35, 36, 37, 184]
    assert crowd([7] * 100).findings() == found
    assert [len(one.rows) for one in found] == [30, 150]
