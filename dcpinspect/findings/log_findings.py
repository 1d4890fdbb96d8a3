"""Findings of logs and checkpoints without a capture."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dcpinspect.findings import checkpoint_rules, server_logs
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.finding import Finding, Wanted, who_alone
from dcpinspect.findings.logs.log_evidence import LogEvidence
from dcpinspect.findings.registry import RULES


def findings_alone(
    evidence: LogEvidence,
    rules: Collection[str],
    is_wanted: Wanted | None = None,
) -> list[Finding]:
    """Returns what is wrong, worst first. ``rules``: ids of the rules that are asked;
    ``is_wanted``: as of ``Collector.findings``.
    """
    collector = Collector({rule: RULES[rule] for rule in rules})
    for item in (*server_logs.occurrences(evidence, None), *checkpoint_rules.occurrences(evidence)):
        collector.add(item)

    def judged(case: Finding) -> Finding:
        whose = (
            case.whose if case.whose != "unknown" else RULES[case.rule].whose_is(case.cause, None)
        )
        return replace(case, whose=whose)

    return [
        replace(item, who=who_alone(item), next=RULES[item.rule].worded(item.next, 1))
        for item in collector.findings(judged=judged, is_wanted=is_wanted)
    ]
