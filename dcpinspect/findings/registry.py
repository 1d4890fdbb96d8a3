"""All rules: the one list that modules of rules are plugged into."""

from __future__ import annotations

from dcpinspect.findings import (
    acknowledged,
    below,
    checkpoints,
    clocks,
    closing,
    connections,
    diverging,
    ends,
    failovers,
    flow,
    gaps,
    history,
    lint,
    logins,
    markers,
    negotiation,
    noops,
    opens,
    order,
    pairing,
    reconnecting,
    refusals,
    reopening,
    reported_seqnos,
    requests,
    rereading,
    round_trips,
    server_logs,
    stalled,
    tls,
    unrequested,
    wire,
)
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import RuleSet

RULE_SETS: list[RuleSet] = []
"""All rule sets that are plugged in, in the order of the page of rules. A set can see what the sets before it have found. Sets of causes
stand before sets of their effects."""
RULES: dict[str, Rule] = {}
"""Every rule by its id."""
ORDINARY: list[str] = []
"""The rules that are asked unless the user chooses; lint rules are not, for a client that ignores recommendations does nothing wrong."""


def plug(rule_set: RuleSet) -> None:
    """Adds a rule set. Raises ValueError if one of its rules is already there."""
    for rule in rule_set.rules:
        if rule.id in RULES:
            msg = f"there are two rules {rule.id}"
            raise ValueError(msg)
        RULES[rule.id] = rule
        if rule.family != "lint":
            ORDINARY.append(rule.id)
    RULE_SETS.append(rule_set)


for _one in (
    wire.RULE_SET,
    negotiation.RULE_SET,
    pairing.RULE_SET,
    refusals.RULE_SET,
    logins.RULE_SET,
    opens.RULE_SET,
    history.RULE_SET,
    reconnecting.RULE_SET,
    failovers.RULE_SET,
    reopening.RULE_SET,
    requests.RULE_SET,
    rereading.RULE_SET,
    ends.RULE_SET,
    reported_seqnos.RULE_SET,
    stalled.RULE_SET,
    unrequested.RULE_SET,
    order.RULE_SET,
    markers.RULE_SET,
    clocks.RULE_SET,
    acknowledged.RULE_SET,
    gaps.RULE_SET,
    diverging.RULE_SET,
    flow.RULE_SET,
    noops.RULE_SET,
    round_trips.RULE_SET,
    below.RULE_SET,
    connections.RULE_SET,
    tls.RULE_SET,
    closing.RULE_SET,
    server_logs.RULE_SET,
    checkpoints.RULE_SET,
    lint.RULE_SET,
):
    plug(_one)
