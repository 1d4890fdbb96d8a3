"""The text of ``dcpinspect explain RULE``: a rule in words."""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.findings.rule import Rule


def rule_lines(rule: Rule) -> Iterator[str]:
    """Yields the text about a rule, for the terminal."""
    yield f"{rule.id}: {rule.severity} of the family {rule.family}"
    yield f"  found when: {rule.fires}"
    if rule.unless:
        yield f"  not when: {rule.unless}"
    yield f"  whose: {whose_of(rule)}"
    costs = dict.fromkeys(filter(None, map(rule.cost_of, ("", *rule.causes))))
    if costs:
        yield f"  costs: {', or '.join(f'a {cost.of} {cost.one}' for cost in costs)}"
    yield f"  next: {rule.next}"
    if rule.causes:
        yield f"  causes: {', '.join(rule.causes)}"
    if rule.reports:
        yield f"  reported as: {', '.join(rule.reports)}"


def whose_of(rule: Rule) -> str:
    """Returns who has to change something, by cause if this differs."""
    if isinstance(rule.whose, str):
        return rule.whose
    causes: dict[str, list[str]] = {}
    for cause, blamed in rule.whose.items():
        causes.setdefault(blamed, []).append(cause)
    return "; ".join(f"{blamed} ({', '.join(names)})" for blamed, names in causes.items())
