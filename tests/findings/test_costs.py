"""What findings cost."""

from __future__ import annotations

from dcpinspect.findings.registry import RULES


def test_every_error_and_warning_of_ordinary_rules_has_words_that_a_verdict_can_say() -> None:
    assert [
        one.id
        for one in RULES.values()
        if one.severity != "note" and one.family != "lint" and one.cost is None
    ] == []


def test_few_rules_that_find_notes_and_none_that_recommend_cost_something() -> None:
    costly = [
        one.id
        for one in RULES.values()
        if (one.severity == "note" or one.family == "lint") and one.cost is not None
    ]
    assert sorted(costly) == [
        "capture-cut",
        "capture-hole",
        "connection-closed",
        "failover",
        "slow-stream",
        "stream-end-reason",
    ]
