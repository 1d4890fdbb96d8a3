"""``docs/rules.md`` and ``dcpinspect explain RULE``: every rule in words, from the rules themselves.

``python -m dcpinspect.render.rules_page > docs/rules.md`` writes the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dcpinspect.findings.registry import RULES
from dcpinspect.findings.rule import FAMILIES, Rule


def rule_lines(rule: Rule) -> Iterator[str]:
    """What a rule is, for the terminal."""
    yield f"{rule.id}: {rule.severity} of the family {rule.family}"
    yield f"  found when: {rule.fires}"
    if rule.unless:
        yield f"  not when: {rule.unless}"
    yield f"  next: {rule.next}"
    if rule.causes:
        yield f"  causes: {', '.join(rule.causes)}"
    if rule.reports:
        yield f"  reported as: {', '.join(rule.reports)}"


def rules_page() -> Iterator[str]:
    """The lines of docs/rules.md."""
    yield "# Rules"
    yield ""
    yield "What `dcpinspect check` looks for. Made from the rules by `python -m dcpinspect.render.rules_page > docs/rules.md`."
    yield "A jump in seqnos alone is never an error, what is not known is not judged, and what the capture lacks accuses nobody."
    for family in FAMILIES:
        rules = [rule for rule in RULES.values() if rule.family == family]
        if not rules:
            continue
        yield from ("", f"## {family}", "")
        if family == "lint":
            yield from ("What is recommended to clients; only asked with `dcpinspect check --lint`.", "")
        yield from ("| rule | severity | found when | not when | what to do |", "|---|---|---|---|---|")
        for rule in rules:
            reports = f" ({', '.join(rule.reports)})" if rule.reports else ""
            yield f'| <a id="{rule.id}"></a>`{rule.id}` | {rule.severity} | {rule.fires}{reports} | {rule.unless} | {rule.next} |'


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in rules_page()))
