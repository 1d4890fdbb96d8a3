"""Findings of logs and checkpoints without a capture."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from dcpinspect.findings import checkpoint_rules, server_logs
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.finding import Finding, who_alone
from dcpinspect.findings.logs.log_evidence import LogEvidence
from dcpinspect.findings.registry import RULES


def findings_alone(
    evidence: LogEvidence,
    rules: Collection[str],
    is_wanted: Callable[[Finding], bool] | None = None,
) -> list[Finding]:
    """Returns what is wrong, worst first. ``rules``: ids of the rules that are asked;
    ``is_wanted``: cases that are told.
    """
    collector = Collector({rule: RULES[rule] for rule in rules})
    for item in (*server_logs.occurrences(evidence, None), *checkpoint_rules.occurrences(evidence)):
        collector.add(item)

    def judged(case: Finding) -> Finding | None:
        whose = (
            case.whose if case.whose != "unknown" else RULES[case.rule].whose_is(case.cause, None)
        )
        judged_case = replace(case, whose=whose)
        return judged_case if is_wanted is None or is_wanted(judged_case) else None

    return [
        replace(item, who=who_alone(item), next=RULES[item.rule].worded(item.next, 1))
        for item in collector.findings({}, judged=judged)
    ]
