"""What findings cost."""

from __future__ import annotations

from dcpinspect.findings.registry import RULES


def test_every_error_and_warning_of_ordinary_rules_has_words_that_a_verdict_can_say() -> None:
    assert [one.id for one in RULES.values() if one.severity != "note" and one.family != "lint" and one.cost is None] == []


def test_rules_that_find_only_notes_and_those_that_recommend_cost_nothing() -> None:
    costly = [one.id for one in RULES.values() if (one.severity == "note" or one.family == "lint") and one.cost is not None]
    assert costly == ["stream-end-reason"], "whose findings are warnings for some reasons"
