"""Each anomaly is declared once: what else asks for it is made of that, or speaks here."""

from __future__ import annotations

import re
from inspect import getmembers, getsource

from dcpinspect.findings import strays
from dcpinspect.findings.explains import SILENCES
from dcpinspect.findings.registry import RULES
from dcpinspect.findings.sequence_rules import RULE_SET, _Anomaly
from dcpinspect.streams import anomalies
from dcpinspect.streams.anomalies import CASES, OSO_FAULTS
from dcpinspect.text import words_of

NAMES = {
    name: code
    for name, code in getmembers(anomalies)
    if f"\n{name} = _anomaly(" in getsource(anomalies)
}


def test_numbers_are_those_of_the_cases() -> None:
    assert sorted(NAMES.values()) == list(range(len(CASES)))
    assert CASES[anomalies.OSO_STRUCTURE].rule == "oso-structure"
    assert CASES[anomalies.MANIFEST_BACKWARDS].rule == "manifest-uid-backwards"
    assert OSO_FAULTS[anomalies.BAD_FLAGS] == "flags"
    assert OSO_FAULTS[anomalies.END_WITHOUT_START] == "end without start"


def test_a_case_is_told_of_a_rule_that_looks_at_anomalies() -> None:
    there = {*(rule.id for rule in RULE_SET.rules), *RULE_SET.also}
    assert {case.rule for case in CASES} == there


def test_a_case_has_a_cause_of_its_rule() -> None:
    assert [case.cause for case in CASES if case.cause] == [
        "keys-not-checked",
        "older-revision",
        "later-revision",
    ]
    assert all(case.cause in (None, *RULES[case.rule].causes) for case in CASES)


def test_what_a_case_says_is_there_to_be_said() -> None:
    members = {name for name, _ in getmembers(_Anomaly)}
    said = {name for case in CASES for name in re.findall(r"\{0\.(\w+)", case.says)}
    assert said | {name for case in CASES for name in words_of(case.seqnos)} <= members
    kinds = {kind for case in CASES for kind in words_of(case.against)}
    assert kinds == {"previous", "marker", "request", "other", "end"}


def test_rules_of_anomalies_say_which_field_they_are_about() -> None:
    assert [case.rule for case in CASES if not RULES[case.rule].fields] == []


def test_a_place_in_a_snapshot_means_nothing_for_another_stream() -> None:
    """So ``opaque-mismatch`` silences it. An end of an OSO snapshot and an acknowledgement have no
    opaque that is looked at.
    """
    of_snapshots = {case.rule for case in CASES if RULES[case.rule].family == "snapshot"}
    apart = {"oso-structure", "seqno-ack-regress"}
    assert of_snapshots - {rule.id for rule in RULES.values() if rule.in_stream} == apart
    assert of_snapshots - {*SILENCES["opaque-mismatch"]} == apart


def test_a_stray_marker_explains_what_the_page_of_the_rule_says() -> None:
    words = "marker that has the opaque of this stream and another vbucket"
    explained = {rule.id for rule in RULES.values() if words in " ".join(rule.unless.split())}
    assert {CASES[code].rule for code in strays._EXPLAINED} == explained
