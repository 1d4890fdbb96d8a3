"""A set of rules is asked where one of its rules is wanted, and where it finds cases of a wanted
rule of another set.
"""

from __future__ import annotations

import pytest

from dcpinspect.findings import acknowledged, connection_rules, marker_rules
from dcpinspect.findings.registry import RULE_SETS, RULES
from tests.findings.checked import findings
from tests.streams.told import opened


def test_a_set_finds_its_own_rules_and_those_that_it_says() -> None:
    assert acknowledged.RULE_SET.finds({"ack-early"})
    assert acknowledged.RULE_SET.finds({"unexpected-reply"})
    assert not acknowledged.RULE_SET.finds({"unmatched-response"})


@pytest.mark.parametrize(
    "rule_set",
    [acknowledged.RULE_SET, connection_rules.RULE_SET, marker_rules.RULE_SET],
    ids=lambda one: one.name,
)
def test_what_a_set_finds_beside_its_own_rules_is_there(rule_set: object) -> None:
    assert set(rule_set.also) <= set(RULES)  # type: ignore[attr-defined]


def test_sets_have_names_of_their_own_and_find_something() -> None:
    assert len({one.name for one in RULE_SETS}) == len(RULE_SETS)
    assert [one.name for one in RULE_SETS if not (one.look or one.watcher or one.findings)] == []


def test_a_rule_of_another_set_is_found_when_only_it_is_wanted() -> None:
    first, second = opened(), opened()
    stream = first.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "a")
    stream.end()
    first.close("client")
    second.stream(7, start=11)
    assert [one.rule for one in findings(first, second, rules=["resume-skipped"])] == [
        "resume-skipped"
    ]
