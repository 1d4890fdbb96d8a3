"""What rules cost, and whose they are."""

from __future__ import annotations

import pytest

from dcpinspect.findings.costs import COSTS, OF_CAUSE, WHOSE, whose
from dcpinspect.findings.registry import RULES


def test_every_rule_of_the_tables_is_there() -> None:
    assert {*COSTS, *WHOSE, *(rule for rule, _ in OF_CAUSE)} <= RULES.keys()


def test_every_cause_of_the_table_is_one_that_the_rule_has_if_it_names_its_causes() -> None:
    assert [pair for pair in OF_CAUSE if RULES[pair[0]].causes and pair[1] not in RULES[pair[0]].causes] == []


@pytest.mark.parametrize("rule", [one.id for one in RULES.values() if one.family == "wire"])
def test_a_broken_message_is_of_the_side_that_sent_it(rule: str) -> None:
    assert whose(rule, None, "c2s") in (WHOSE.get(rule), "client")
    assert whose(rule, None, None) == WHOSE.get(rule, "unknown")
