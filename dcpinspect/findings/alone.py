"""Findings of logs and checkpoints without a capture."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from dcpinspect.findings import checkpoints, server_logs
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.finding import Finding, who_alone
from dcpinspect.findings.registry import RULES
from dcpinspect.logs.evidence import LogEvidence


def findings_alone(evidence: LogEvidence, rules: Collection[str], wanted: Callable[[Finding], bool] | None = None) -> list[Finding]:
    """Returns what is wrong, worst first. ``rules``: ids of the rules that are asked; ``wanted``: cases that are told."""
    collector = Collector({rule: RULES[rule] for rule in rules})
    for one in (*server_logs.occurrences(evidence, None), *checkpoints.occurrences(evidence)):
        collector.add(one)

    def judged(case: Finding) -> Finding | None:
        one = replace(case, whose=RULES[case.rule].whose_is(case.cause, None))
        return one if wanted is None or wanted(one) else None

    return [replace(one, who=who_alone(one)) for one in collector.findings({}, judged=judged)]
