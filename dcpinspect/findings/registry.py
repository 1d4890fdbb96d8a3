"""All rules: the one list that modules of rules are plugged into."""

from __future__ import annotations

from dcpinspect.findings import (
    acknowledged,
    checkpoint_rules,
    clocks,
    closing,
    connection_rules,
    diverging,
    ends,
    failovers,
    flow_rules,
    gap_rules,
    history_rules,
    lint,
    logins,
    marker_rules,
    negotiation,
    noop_rules,
    opens,
    pairing,
    reconnecting,
    refusals,
    reopening,
    reported_seqnos,
    request_rules,
    rereading,
    resumption,
    round_trip_rules,
    sequence_rules,
    server_logs,
    stalled,
    tls,
    transport_rules,
    unrequested,
    wire_checks,
)
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import RuleSet

RULE_SETS: list[RuleSet] = []
"""All rule sets that are plugged in, in the order of the page of rules. A set can see what the sets
before it have found. Sets of causes stand before sets of their effects.
"""
RULES: dict[str, Rule] = {}
"""Every rule by its id."""
ORDINARY: list[str] = []
"""The rules that are asked unless the user chooses; lint rules are not, for a client that ignores
recommendations does nothing wrong.
"""


def plug(rule_set: RuleSet) -> None:
    """Adds a rule set. Raises ValueError if one of its rules is already there."""
    for rule in rule_set.rules:
        if rule.id in RULES:
            raise ValueError(f"there are two rules {rule.id}")
        RULES[rule.id] = rule
        if rule.family != "lint":
            ORDINARY.append(rule.id)
    RULE_SETS.append(rule_set)


for _one in (
    wire_checks.RULE_SET,
    negotiation.RULE_SET,
    pairing.RULE_SET,
    refusals.RULE_SET,
    logins.RULE_SET,
    opens.RULE_SET,
    history_rules.RULE_SET,
    reconnecting.RULE_SET,
    failovers.RULE_SET,
    reopening.RULE_SET,
    request_rules.RULE_SET,
    resumption.RULE_SET,
    rereading.RULE_SET,
    ends.RULE_SET,
    reported_seqnos.RULE_SET,
    stalled.RULE_SET,
    unrequested.RULE_SET,
    sequence_rules.RULE_SET,
    marker_rules.RULE_SET,
    clocks.RULE_SET,
    acknowledged.RULE_SET,
    gap_rules.RULE_SET,
    diverging.RULE_SET,
    flow_rules.RULE_SET,
    noop_rules.RULE_SET,
    round_trip_rules.RULE_SET,
    transport_rules.RULE_SET,
    connection_rules.RULE_SET,
    tls.RULE_SET,
    closing.RULE_SET,
    server_logs.RULE_SET,
    checkpoint_rules.RULE_SET,
    lint.RULE_SET,
):
    plug(_one)
