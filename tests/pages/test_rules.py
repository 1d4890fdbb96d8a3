from __future__ import annotations

from pathlib import Path

from dcpinspect.findings.registry import RULES
from tests.pages.rules import rules_page

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_made_of_the_rules() -> None:
    assert PAGE.read_text("utf-8") == rules_page(), "run python -m tests.pages"


def test_every_rule_is_on_the_page() -> None:
    page = rules_page()
    assert [rule for rule in RULES if f'| <a id="{rule}"></a>`{rule}` |' not in page] == []
