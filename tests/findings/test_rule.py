"""What a rule says of itself."""

from __future__ import annotations

import re
from typing import get_args

from dcpinspect.findings.finding import WHOSE
from dcpinspect.findings.registry import RULES
from dcpinspect.findings.rule import FAMILIES, SEVERITIES, Blamed, Need, Rule
from dcpinspect.protocol.header import Magic, header_fields
from dcpinspect.protocol.layouts import LAYOUTS
from tests.catalogue import each

SIDES = {
    "sender": {"c2s": "client", "s2c": "server"},
    "receiver": {"c2s": "server", "s2c": "client"},
}


def _blamed(rule: Rule) -> list[Blamed]:
    return [rule.whose] if isinstance(rule.whose, str) else [*rule.whose.values()]


def test_every_word_for_whose_a_finding_is_is_used_by_a_rule() -> None:
    used = {blamed for rule in RULES.values() for blamed in _blamed(rule)}
    assert used == {*WHOSE, *SIDES, "producer", "consumer"}
    assert used == {word for words in get_args(Blamed) for word in get_args(words)}


def test_a_rule_has_a_family_a_severity_and_needs_that_there_are() -> None:
    assert {rule.family for rule in RULES.values()} == {*FAMILIES}
    assert {rule.severity for rule in RULES.values()} == {*SEVERITIES}
    assert {need for rule in RULES.values() for need in rule.needs} == {*get_args(Need)}


def test_a_rule_that_tells_by_its_cause_whose_it_is_has_these_causes() -> None:
    by_cause = [rule for rule in RULES.values() if not isinstance(rule.whose, str) and rule.causes]
    assert [rule.id for rule in by_cause if not {*rule.whose} <= {"", *rule.causes}] == []
    assert {rule.id for rule in by_cause} >= {
        "connection-closed",
        "stream-end-reason",
        "missing-response",
        "noop-unanswered",
    }


@each(
    "rule",
    [r for r in RULES.values() if "capture" not in (r.family, r.whose) and r.family != "lint"],
)
def test_what_to_do_about_a_fault_tells_the_operator_and_the_author_of_the_client(
    rule: Rule,
) -> None:
    """Recommendations are for authors alone, and what a capture lacks is for operators alone."""
    assert re.search(
        r"; .*\b(client|consumer|author|it|its)\b|settings or in its code", rule.next
    ), rule.next
    assert "who closed" not in rule.next


@each("rule", [rule for rule in RULES.values() if rule.whose == "sender"])
def test_what_is_wrong_with_a_message_is_of_the_side_that_sent_it(rule: Rule) -> None:
    assert [rule.whose_is(None, direction) for direction in ("c2s", "s2c", None)] == [
        "client",
        "server",
        "unknown",
    ]
    assert [rule.whose_is(direction, None) for direction in ("c2s", "s2c")] == ["client", "server"]


def test_a_request_without_an_answer_is_of_the_side_that_was_asked_and_goes_on() -> None:
    rule = RULES["missing-response"]
    for cause in ("goes-on", "closed"):
        assert [rule.whose_is(cause, direction) for direction in ("c2s", "s2c")] == [
            "server",
            "client",
        ]
    assert [rule.whose_is("silent", direction) for direction in ("c2s", "s2c")] == [
        "unknown",
        "unknown",
    ]


def test_a_role_is_that_of_the_client_or_of_the_server_as_the_connection_has_it() -> None:
    assert [
        RULES["seqno-not-increasing"].whose_is(None, None, producer) for producer in (0, 1)
    ] == ["client", "server"]
    assert [RULES["flow-control-stall"].whose_is(None, None, producer) for producer in (0, 1)] == [
        "server",
        "client",
    ]
    assert [
        RULES["stream-end-reason"].whose_is("too-slow", None, producer) for producer in (0, 1)
    ] == ["server", "client"]


def test_of_a_cause_that_a_rule_does_not_name_nobody_knows_whose_it_is() -> None:
    assert RULES["stream-refused"].whose_is("erange", None) == "client"
    assert RULES["stream-refused"].whose_is("busy", "s2c") == "unknown"


NO_LAYOUT = {"collection_id", "failover_log", "key", "value"}
"""Fields that are part of a key, or that hold others."""


def test_every_field_that_a_rule_is_about_is_one() -> None:
    known = {item.name for layout in LAYOUTS for item in (*layout.extras, *layout.value)}
    known |= {item.name for magic in Magic for item in header_fields(magic)} | NO_LAYOUT
    named = [name for rule in RULES.values() for names in rule.fields.values() for name in names]
    assert named
    assert {*named} <= known
