from __future__ import annotations

import re

import pytest

from dcpinspect.coverage import Coverage
from dcpinspect.errors import PlacedError
from dcpinspect.findings.registry import RULES
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tui.advice import _HERE, for_keys
from tests.catalogue import each

_OUTSIDE = re.compile(r"'?dcpinspect [a-z]|(^|\s)--[a-z]|'--")


@each("rule", [rule.id for rule in RULES.values() if rule.family != "log"])
def test_advice_names_what_one_does_here(rule: str) -> None:
    assert not _OUTSIDE.search(for_keys(RULES[rule].next))


def test_all_that_is_put_in_place_is_said_somewhere() -> None:
    with pytest.raises(PlacedError) as refused:
        parse_filter("zzqq = 1", name="filter")
    said = " ".join(
        [
            *(rule.next for rule in RULES.values()),
            Coverage({}, ()).tls_advice([1]),
            refused.value.what,
        ]
    )
    assert [outside for outside in _HERE if outside not in said] == []
    assert _OUTSIDE.search(said)
