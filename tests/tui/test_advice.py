from __future__ import annotations

import re

import pytest

from dcpinspect.coverage import Coverage
from dcpinspect.findings.registry import RULES
from dcpinspect.tui.advice import _HERE, here

_OUTSIDE = re.compile(r"'?dcpinspect [a-z]|(^|\s)--[a-z]|'--")


@pytest.mark.parametrize("rule", [rule.id for rule in RULES.values() if rule.family != "log"])
def test_advice_names_what_one_does_here(rule: str) -> None:
    assert not _OUTSIDE.search(here(RULES[rule].next))


def test_all_that_is_put_in_place_is_said_somewhere() -> None:
    said = " ".join([*(rule.next for rule in RULES.values()), Coverage({}, ()).tls_advice([1])])
    assert [outside for outside in _HERE if outside not in said] == []
    assert _OUTSIDE.search(said)
