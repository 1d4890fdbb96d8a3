"""Answers: whole entries as long as they fit, and what was left out."""

from __future__ import annotations

from itertools import count

from dcpinspect.agents.answers import answer


def test_what_does_not_fit_is_counted_and_how_to_ask_for_it_is_said() -> None:
    entries = [({"row": number}, f"row {number}") for number in range(200)]
    found = answer({}, "rows", entries, skip=10, room=1000, total=200)
    assert found.data["rows"][0] == {"row": 10}
    assert found.data["left_out"] == 190 - len(found.data["rows"])
    assert found.data["more"].startswith(f"skip={10 + len(found.data['rows'])} shows what follows")
    assert len(found.text) <= 1000
    assert found.text.splitlines()[-1].startswith(
        f"{found.data['left_out']} more rows are left out"
    )


def test_only_parameters_that_the_tool_has_are_named() -> None:
    entries = [({"row": number}, f"row {number}") for number in range(200)]
    more = [
        answer({}, "rows", entries, skip=0, room=1000, total=200, narrower=narrower).data["more"]
        for narrower in ("", "rule or severity")
    ]
    assert [text.split("what follows; ")[1] for text in more] == [
        "a greater max_characters shows more at once",
        "rule or severity, or a greater max_characters shows more at once",
    ]


def test_an_entry_that_is_too_long_by_itself_is_cut_and_says_of_what() -> None:
    [entry] = answer(
        {},
        "rows",
        [({"vbuckets": list(range(5000)), "row": 1}, "x" * 5000)],
        skip=0,
        room=1000,
        total=1,
    ).data["rows"]
    assert entry["row"] == 1
    assert len(entry["vbuckets"]) + entry["cut"]["vbuckets"] == 5000


def test_entries_without_an_end_are_counted_up_to_a_limit() -> None:
    found = answer({}, "rows", (({"row": number}, "") for number in count()), skip=0, room=1000)
    assert "more than 1,001 more rows are left out" in found.text
