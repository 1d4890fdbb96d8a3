from __future__ import annotations

from pathlib import Path

from dcpinspect.findings.registry import RULES
from dcpinspect.render.rules_page import rule_lines, rules_page

PAGE = Path(__file__).parent.parent.parent / "docs" / "rules.md"


def test_the_page_is_made_of_the_rules() -> None:
    assert PAGE.read_text("utf-8").splitlines() == list(rules_page())


def test_every_rule_is_on_the_page() -> None:
    page = "\n".join(rules_page())
    assert [rule for rule in RULES if f'| <a id="{rule}"></a>`{rule}` |' not in page] == []


def test_a_rule_in_words() -> None:
    lines = list(rule_lines(RULES["bad-stream-range"]))
    assert lines[0] == "bad-stream-range: error of the family stream"
    assert any("JDCP-95" in line for line in lines)
