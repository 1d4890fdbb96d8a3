"""Answers: whole entries as long as they fit, and what was left out."""

from __future__ import annotations

from itertools import count

from dcpinspect.agents.answers import Answer


def test_what_does_not_fit_is_counted_and_only_parameters_of_the_tool_are_named() -> None:
    entries = [({"row": number}, f"row {number}") for number in range(200)]
    for narrower, how in (
        ("", "a greater"),
        ("rule or severity", "rule or severity, or a greater"),
    ):
        data, text = Answer("rows", entries, 200, narrower=narrower).bounded(10, 1000)
        assert data["rows"][0] == {"row": 10}
        assert data["left_out"] == 190 - len(data["rows"])
        goes_on = 10 + len(data["rows"])
        assert data["more"] == (
            f"skip={goes_on} shows what follows; {how} max_characters shows more at once"
        )
        assert text.splitlines()[-1].startswith(f"{data['left_out']} more rows are left out")


def test_an_entry_that_is_too_long_by_itself_is_cut_and_says_of_what() -> None:
    entry = {"vbuckets": list(range(5000)), "row": 1}, "x" * 5000
    data, text = Answer("rows", [entry], 1).bounded(0, 1000)
    [shown] = data["rows"]
    assert shown["row"] == 1
    assert len(shown["vbuckets"]) + shown["cut"]["vbuckets"] == 5000
    assert text.endswith("… 4302 more characters")


def test_entries_without_an_end_are_counted_up_to_a_limit() -> None:
    endless = Answer("rows", lambda skip: (({"row": number}, None) for number in count(skip)))
    assert "more than 1,001 more rows are left out" in endless.bounded(0, 1000)[1]


def test_an_answer_without_entries_says_so() -> None:
    assert Answer("rows", [], 0).bounded(0, 1000)[1].splitlines()[-1] == "no rows"
    entries = [({"row": 1}, "row 1")]
    assert Answer("rows", entries, 1).bounded(7, 1000)[1].endswith("no rows after the first 7")
