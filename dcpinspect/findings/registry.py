"""All rules: the one list that modules of rules are plugged into."""

from __future__ import annotations

from importlib import import_module

from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import RuleSet
from dcpinspect.text import words_of

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


for _module in words_of(
    """
    wire_checks negotiation pairing refusals logins opens history_rules reconnecting failovers
    reopening request_rules resumption rereading ends flow_rules reported_seqnos stalled unrequested
    sequence_rules marker_rules clocks acknowledged gap_rules diverging transport_rules noop_rules
    round_trip_rules connection_rules tls closing server_logs checkpoint_rules lint
    """
):
    plug(import_module(f"dcpinspect.findings.{_module}").RULE_SET)
