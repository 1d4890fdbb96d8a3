"""What a finding of one case says, and that of several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dcpinspect.findings.cases import added_up, duration, in_common
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.finding import ranges
from dcpinspect.findings.rule import Rule
from tests.findings.gathered import collected, once, several


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        (["do a", "do a"], "do a"),
        (["do a", "do b", "do a"], "row 1: do a; row 2: do b"),
        (["do a", "do b", "do c", "do d"], "do something"),
        (["do a", None], "do something"),
    ],
)
def test_what_to_do_is_said_row_by_row_where_it_differs_on_one_vbucket(
    advice: list[str | None], expected: str
) -> None:
    (found,) = collected(
        *(once("broad", row, next_=one) for row, one in enumerate(advice, 1))
    ).findings()
    assert (found.next, found.count) == (expected, len(advice))


def test_and_on_several_vbuckets_row_by_row_where_one_has_several() -> None:
    rule = Rule("broad", "stream", "warning", "", "", "look", whose="unknown")
    collector = Collector({"broad": rule})
    for row, vbucket, what in ((1, 7, "do a"), (2, 8, "do b"), (3, 7, "do c")):
        collector.add(once("broad", row, vbucket, next_=what))
    (found,) = collector.findings()
    assert found.next == "vb 7, row 1: do a; vb 7, row 3: do c; vb 8, row 2: do b"


def test_each_case_has_its_turn_among_the_messages_that_are_named_and_the_others_are_counted() -> (
    None
):
    (found,) = collected(*(once("broad", row, row % 2) for row in range(1, 21))).findings()
    assert ([one.row for one in found.places], found.left_out) == ([1, 3, 5, 19, 2, 4, 6, 20], 12)
    assert [case.left_out for case in found.cases] == [6, 6]
    (found,) = collected(*(once("broad", row, row % 20) for row in range(1, 41))).findings()
    assert [one.row for one in found.places] == [1, 21, 2, 22, 3, 23, 4, 24, *range(5, 21)]
    assert found.left_out == 16


def test_a_sentence_has_no_second_length_of_time() -> None:
    assert several("round again", "round again").message == (
        "round again on 2 connections in 0.001 ms: 1–2"
    )
    assert (
        several("round again in 0.005 ms", "round again in 0.005 ms").message
        == "round again in 0.005 ms on 2 connections: 1–2"
    )


def test_several_connections_are_one_with_all_that_differs_in_its_cases() -> None:
    found = several("told 5 in 3 ms", "told 17 in 2.1 s", "told 17 in 0.001 ms")
    assert (found.connections, found.count, found.what) == (
        (1, 2, 3),
        3,
        "told 5, 17 in 0.001 ms to 2.1 s",
    )
    assert found.message == "told 5, 17 in 0.001 ms to 2.1 s on 3 connections: 1–3"
    assert [(case.message, case.facts) for case in found.cases][1] == (
        "told 17 in 2.1 s",
        {"told": 2},
    )


def test_what_several_have_in_common_is_said_and_what_they_share_by_their_rule_is_preferred() -> (
    None
):
    assert several("1 item of 7", "2 items of 7").what == "1 to 2 items of 7"
    assert (
        several('"a" of 10.0.0.1:5', '"b" of 10.0.0.2:6').what
        == '"a", "b" of 10.0.0.1:5, 10.0.0.2:6'
    )
    assert several("told 5", "told 6", shared="told much").what == "told much"


def test_values_that_differ_are_listed_as_people_do() -> None:
    assert (
        in_common(["5 missing behind 10", "3 missing behind 10"], None) == "3, 5 missing behind 10"
    )
    assert in_common(["5 missing", "3 missing", "12 missing"], None) == "3, 5, 12 missing"
    assert in_common([f"{count:,} missing" for count in (0, 7, 900, 1200)], None) == (
        "0–1,200 missing"
    )
    spans = ["51.4 s", "52.5 s", "1.5 s", "9.0 s"]
    assert in_common([f"idle {span}" for span in spans], None) == "idle 1.5–52.5 s"
    assert in_common([f"idle {span}" for span in (*spans, "3 min")], None) == "idle 1.5 s to 3 min"
    assert in_common([f"key k{name}10" for name in "abcd"], None) == "key several"
    several_ids = [f"collection 0x{number}, which ended" for number in range(8, 12)]
    assert in_common(several_ids[:1], None) == "collection 0x8, which ended"
    assert in_common(several_ids[:2], None) == "collections 0x8, 0x9, which ended"
    assert in_common(several_ids, None) == "several collections, which ended"


def test_numbers_that_count_something_are_added_up() -> None:
    assert (
        added_up(["1 byte in 1 hole, s2c", "1,999 bytes in 3 holes, s2c"])
        == "2,000 bytes in 4 holes, s2c"
    )
    rule = Rule("broad", "capture", "note", "", "", "", adds_up=True, whose="capture")
    collector = Collector({"broad": rule})
    for connection, what in (
        (1, "1 byte in 1 hole"),
        (2, "5 bytes in 1 hole"),
        (3, "6 bytes in 8 holes"),
    ):
        collector.add(replace(once("broad", connection), connection=connection, message=what))
    (found,) = collector.findings()
    assert found.what == "12 bytes in 10 holes"
    assert [case.message for case in found.cases] == [
        "1 byte in 1 hole",
        "5 bytes in 1 hole",
        "6 bytes in 8 holes",
    ]


def test_lengths_of_time_and_ranges() -> None:
    spans_ns = [5_000, 250_500_000, 9_310_000_000, 600_000_000_000, 9_000_000_000_000]
    assert list(map(duration, spans_ns)) == ["0.005 ms", "250 ms", "9.3 s", "10 min", "2.5 h"]
    assert [duration(span_ns, is_exact=True) for span_ns in (20, *spans_ns)] == [
        "0.000 ms",
        "0.005 ms",
        "250.5 ms",
        "9.31 s",
        "10 min",
        "150 min",
    ]
    exact = [duration(seconds * 10**9, is_exact=True) for seconds in (200, 3600, 10**6, 864_000)]
    assert exact == ["200 s", "60 min", "1,000,000 s", "10 days"], "no 16.67 min"
    assert ranges([1, 2, 3, 5, 9, 10]) == "1–3, 5, 9–10"
    assert ranges(range(0, 24, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22"
    assert (
        ranges([*range(0, 24, 2), 30, 31, 40])
        == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and 3 more"
    )


def test_what_to_do_with_one_vbucket_of_two_connections_names_the_connections_where_it_differs() -> (
    None
):
    rule = Rule("broad", "stream", "warning", "", "", "look", whose="unknown")
    collector = Collector({"broad": rule})
    for row, connection, what in ((1, 1, "do a"), (2, 2, "do b")):
        collector.add(replace(once("broad", row, 7, next_=what), connection=connection))
    (found,) = collector.findings()
    assert found.next == "vb 7, connection 1: do a; vb 7, connection 2: do b"


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        (
            [(1, 7, None, "do a"), (2, 8, None, "do a"), (3, 8, None, "do b")],
            "vb 7, connection 1 and vb 8, connection 2: do a; vb 8, connection 3: do b",
        ),
        (
            [(1, 7, 1, "do a"), (1, 7, 2, "do b")],
            "vb 7 sid 1, connection 1: do a; vb 7 sid 2, connection 1: do b",
        ),
        (
            [*((one, one, None, "do a") for one in range(1, 5)), (6, 1, None, "do b")],
            "4 cases: do a; vb 1, connection 6: do b",
        ),
    ],
    ids=["pairs", "stream-ids", "too many"],
)
def test_it_names_no_vbucket_of_a_connection_twice(
    cases: list[tuple[int, int, int | None, str]], expected: str
) -> None:
    collector = Collector(
        {"broad": Rule("broad", "stream", "warning", "", "", "look", whose="unknown")}
    )
    for row, (connection, vbucket, sid, what) in enumerate(cases, 1):
        collector.add(
            replace(
                once("broad", row, vbucket, next_=what),
                connection=connection,
                sid=sid,
                message="it stands still",
            )
        )
    (found,) = collector.findings()
    assert found.next == expected
