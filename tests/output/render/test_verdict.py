"""The first line of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dcpinspect.capture.encapsulations import UnreadLinkType
from dcpinspect.output.render.verdict import LookedAt, damage_of, stood, stood_words, verdict
from tests.output.render.test_finding_text import finding, of_many

AT = 1_700_000_000 * 10**9


def test_rules_that_cost_the_same_are_counted_together() -> None:
    found = [
        finding(rule="item-missing", vbuckets=(1,)),
        finding(rule="oso-resume-point", vbuckets=(2,)),
        finding(rule="item-missing"),
    ]
    assert verdict(found) == "3 vbuckets lost data"


def test_a_vbucket_of_several_clients_counts_once() -> None:
    one, other = (finding(rule="item-missing", clients=(client,)) for client in "ab")
    assert verdict([one, other]) == "1 vbucket of 2 clients lost data"
    assert verdict([one, one]) == "1 vbucket lost data"
    assert verdict([one, replace(other, vbuckets=(8,))]) == "2 vbuckets lost data"
    unnamed = [replace(one, clients=(), connections=(number,)) for number in (1, 2)]
    assert verdict(unnamed) == "1 vbucket lost data"


def test_what_goes_on_is_said_with_since_when_if_it_is_not_over() -> None:
    loop = finding(rule="rollback-loop", clients=("a",), first_time_ns=AT, over="open")
    assert verdict([loop]) == "1 client loops since 22:13:20 UTC"
    told = "the finding has the span of its times then, and no end that is not over"
    assert verdict([replace(loop, over="unknown")]) == "1 client loops", told
    assert verdict([replace(loop, over="recovered")]) == "1 client loops, and recovered"


def test_who_gave_its_loop_up_does_not_loop() -> None:
    loop = finding(
        rule="rollback-loop", clients=("a",), vbuckets=(7,), first_time_ns=AT, over="open"
    )
    given_up = replace(
        loop, rule="rollback-not-followed", first_time_ns=AT + 10**9, effect_of=loop.id
    )
    assert verdict([loop, given_up]) == "1 vbucket receives nothing since 22:13:21 UTC"
    loops = replace(loop, vbuckets=(7, 8))
    assert verdict([loops, replace(given_up, effect_of=loops.id)]) == (
        "1 client loops since 22:13:20 UTC · 1 vbucket receives nothing since 22:13:21 UTC"
    )


def test_notes_are_not_counted_with_what_is_worse_and_costs_the_same() -> None:
    warning = finding(rule="stream-end-reason", severity="warning", vbuckets=(9,))
    notes = [
        replace(warning, severity="note", cause="state-changed", vbuckets=(vbucket,))
        for vbucket in (6, 33)
    ]
    other = finding(rule="slow-stream", severity="note")
    assert verdict([warning, *notes]) == "1 vbucket was ended early · 2 notes"
    assert verdict([warning, *notes, other]) == "1 vbucket was ended early · 3 notes"
    both = [replace(finding, over="open") for finding in notes]
    assert verdict([warning, *both, other]) == "3 vbuckets were ended early · 1 other note"


def test_a_note_that_is_not_over_is_told_beside_what_is_worse() -> None:
    stall = finding(
        rule="flow-control-stall",
        severity="note",
        connections=(1,),
        first_time_ns=AT,
        over="open",
    )
    other = finding(rule="slow-stream", severity="note", first_time_ns=AT)
    lost = finding(rule="item-missing", vbuckets=(1,), first_time_ns=AT)
    assert verdict([lost, stall, other]) == (
        "1 vbucket lost data · 1 connection has stalled since 22:13:20 UTC · 1 other note"
    )
    assert (
        verdict([lost, replace(stall, over="recovered"), other]) == "1 vbucket lost data · 2 notes"
    )
    unreached = finding(
        rule="server-not-reached",
        severity="note",
        connections=(1,),
        first_time_ns=AT,
        over="open",
    )
    assert "could not be opened since 22:13:20 UTC" in verdict([unreached])


def test_since_when_is_the_start_of_the_first_case_that_is_not_over() -> None:
    cases = [
        finding(
            rule="orphaned-vbucket",
            vbuckets=(number,),
            first_time_ns=AT + number * 10**9,
            over="open",
        )
        for number in range(3)
    ]
    one = replace(
        cases[0], vbuckets=(0, 1, 2), cases=(replace(cases[0], over="recovered"), *cases[1:])
    )
    assert verdict([one]) == "3 vbuckets receive nothing since 22:13:21 UTC"


def test_files_that_are_cut_or_damaged_are_said_before_notes() -> None:
    cut = ("a", "the last record is cut short (44 bytes of it are present)")
    assert damage_of([]) == ""
    assert damage_of([cut], AT) == "1 file is cut off, the last packet is of 22:13:20 UTC"
    told = damage_of([cut, ("b", cut[1]), ("c", "no record"), ("c", cut[1])], AT)
    assert told == "2 files are cut off · 1 file is damaged"
    assert damage_of([("d", "left out, for it is a tar archive")], AT) == "1 file is left out"
    unread = str(UnreadLinkType("", 147, packets=3))
    assert damage_of([("e", unread)], AT) == "1 file is not read whole", "nothing of it is damaged"
    assert damage_of([cut], 7_000) == "1 file is cut off", "a text without times begins in 1970"
    looked = LookedAt(1, 1, 1, 1, damage=told)
    note = finding(rule="slow-stream", severity="note")
    assert (
        verdict([finding(rule="item-missing"), note], looked)
        == f"1 vbucket lost data · {told} · 1 note"
    )


def test_what_has_no_words_is_counted_by_severity() -> None:
    unknown = finding(rule="cas-zero")
    assert verdict([unknown]) == "1 error"
    assert verdict([unknown, replace(unknown, severity="warning")]) == "1 error · 1 warning"
    assert (
        verdict([finding(rule="item-missing"), unknown, unknown])
        == "1 vbucket lost data · 2 other errors"
    )


def test_notes_are_counted_and_nothing_is_wrong_with_them() -> None:
    note = finding(rule="read-again", severity="note")
    assert verdict([note]) == "nothing wrong · 1 note"
    back = [finding(rule="rollback", severity="note", vbuckets=(number,)) for number in range(3)]
    assert (
        verdict([*back, note])
        == "no errors or warnings: 3 vbuckets were rolled back · 1 other note"
    )
    assert (
        verdict([finding(rule="item-missing"), *[finding(severity="note")] * 2])
        == "1 vbucket lost data · 2 notes"
    )


def test_a_note_does_not_say_that_the_protocol_is_broken() -> None:
    assert (
        verdict([finding(rule="duplicate-key-in-snapshot", severity="note")])
        == "nothing wrong · 1 note"
    )


def test_a_finding_of_a_whole_connection_counts_the_connection() -> None:
    assert verdict([finding(rule="bad-magic", vbuckets=())]) == "1 connection has broken messages"


def test_a_finding_of_many_counts_each() -> None:
    assert verdict([of_many(9, rule="item-missing")]) == "9 vbuckets lost data"


def test_much_trouble_is_cut_short() -> None:
    rules = (
        "item-missing",
        "rollback-loop",
        "diverging-history",
        "stream-refused",
        "flow-control-stall",
    )
    line = verdict([finding(rule=rule) for rule in rules])
    assert line.endswith(" · 1 vbucket has two histories · 2 more kinds of trouble")


def test_a_reset_under_streams_is_named_and_so_is_that_somebody_has_to_act() -> None:
    reset = finding(rule="connection-closed", severity="note", cause="reset", vbuckets=())
    assert verdict([reset]) == "no errors or warnings: 1 connection was reset with streams open"
    assert verdict([replace(reset, cause="by-client")]) == "nothing wrong · 1 note"
    assert verdict([replace(reset, over="recovered")]) == "nothing wrong · 1 note"
    asked = finding(rule="hello-key-not-json", severity="note", whose="client")
    assert verdict([asked]) == "no errors or warnings: 1 note"
    assert verdict([replace(asked, over="recovered")]) == "nothing wrong · 1 note"


def test_since_when_has_its_day_where_findings_are_of_several() -> None:
    loop = finding(rule="rollback-loop", clients=("a",), first_time_ns=AT, over="open")
    later = finding(rule="item-missing", clients=("a",), first_time_ns=AT + 2 * 86_400 * 10**9)
    assert verdict([loop, later]).startswith("1 client loops since 2023-11-14 22:13:20 UTC · ")


@pytest.mark.parametrize(
    ("verdict_", "before_end", "rollbacks", "state", "words"),
    [
        ("ended", "caught-up", 0, "caught-up", "ended caught-up"),
        ("ended", "behind", 1, "behind", "ended behind"),
        ("ended", "lost-something", 0, "lost-something", "ended lost-something"),
        ("ended", "rolled-back", 1, "rolled-back", "ended after a rollback"),
        ("ended", "caught-up", 1, "rolled-back", "ended caught-up after a rollback"),
        ("ended", None, 0, "ended", "ended"),
        ("ended", None, 1, "rolled-back", "ended after a rollback"),
        ("behind", None, 0, "behind", "behind"),
        ("caught-up", None, 0, "caught-up", "caught-up"),
        ("caught-up", None, 2, "rolled-back", "caught-up after a rollback"),
        ("rolled-back", None, 1, "rolled-back", "rolled-back"),
    ],
)
def test_of_a_vbucket_that_ended_or_was_rolled_back_both_are_said(
    verdict_: str, before_end: str | None, rollbacks: int, state: str, words: str
) -> None:
    row = {"verdict": verdict_, "before_end": before_end, "rollbacks": rollbacks}
    assert (stood(row), stood_words(row)) == (state, words)
