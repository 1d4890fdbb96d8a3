from __future__ import annotations

from dcpinspect.findings.registry import RULES
from dcpinspect.output.render.rule_text import rule_lines


def test_a_rule_in_words() -> None:
    lines = list(rule_lines(RULES["bad-stream-range"]))
    assert lines[0] == "bad-stream-range: error of the family stream"
    assert any("JDCP-95" in line for line in lines)
