"""One fault in a legal conversation gives exactly its rule, wherever it happens."""

from __future__ import annotations

import pytest

from dcpinspect.findings.checker import RULES
from tests.model.blame import unfounded
from tests.model.mutations import MUTATIONS, mutants
from tests.model.packets import laid
from tests.model.reading import read, whole

FEW, MANY = range(12), range(12, 400)


def told_of(what: str, seeds: range) -> list[set[str]]:
    """The rules that speak of each conversation with the fault, besides those that would without it."""
    return [{line.split()[1].rstrip(":") for line in unfounded(tape, read(whole(tape, laid(tape))))} for tape in mutants(what, seeds)]


@pytest.mark.parametrize("what", MUTATIONS)
def test_a_fault_gives_its_rule_and_no_other(what: str) -> None:
    rule = MUTATIONS[what][0]
    assert rule in RULES
    found = told_of(what, FEW)
    assert len(found) >= 3
    assert found == [{rule}] * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("what", MUTATIONS)
def test_a_fault_gives_its_rule_and_no_other_in_hundreds_of_conversations(what: str) -> None:
    found = told_of(what, MANY)
    assert found == [{MUTATIONS[what][0]}] * len(found)
