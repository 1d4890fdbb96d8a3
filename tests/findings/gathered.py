"""Occurrences of two rules, and what becomes of them."""

from __future__ import annotations

from dcpinspect.findings.collector import Collector, Relations
from dcpinspect.findings.finding import Finding, MessagePlace, Occurrence
from dcpinspect.findings.rule import Rule
from dcpinspect.protocol.message import Severity

RULES = {
    name: Rule(name, "stream", "warning", "it happens", "", "do something", whose="unknown")
    for name in ("broad", "narrow")
}


def place(row: int) -> MessagePlace:
    return MessagePlace(row, 1, "s2c", 100 * row, 0, row, 1_000 * row)


def once(
    rule: str,
    row: int,
    vbucket: int | None = 7,
    cause: str | None = None,
    severity: Severity = "warning",
    next_: str | None = None,
) -> Occurrence:
    return Occurrence(
        rule, f"at {row}", 1, (place(row),), vbucket, cause=cause, next=next_, severity=severity
    )


def collected(*occurrences: Occurrence, relations: Relations = Relations()) -> Collector:  # noqa: B008 - none
    collector = Collector(RULES, relations)
    for one in occurrences:
        collector.add(one)
    return collector


def several(*messages: str, shared: str | None = None) -> Finding:
    """What a rule says of connections 1, 2, …"""
    collector = Collector(RULES)
    for number, message in enumerate(messages, 1):
        places = (MessagePlace(number, number, "c2s", 100, 0, number, 1_000 * number),)
        collector.add(
            Occurrence(
                "broad",
                message,
                number,
                places,
                shared=shared,
                facts={"told": number},
                severity="warning",
            )
        )
    (found,) = collector.findings()
    return found
