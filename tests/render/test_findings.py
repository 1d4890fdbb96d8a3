"""The report of findings, as people read it."""

from __future__ import annotations

from dcpinspect.findings.finding import Finding, Place
from dcpinspect.render.findings import report_lines


def place(row: int, *, file: int = 0, frame: int | None = None) -> Place:
    return Place(row, 1, "s2c", 0, file, row if frame is None else frame, 1)


def finding(**changes: object) -> Finding:
    values = {
        "rule": "seqno-not-increasing",
        "severity": "error",
        "cause": None,
        "message": "22 after 23",
        "next": "compare the rows",
        "connections": (1,),
        "vbuckets": (417,),
        "sid": None,
        "places": (place(1047, frame=991), place(1046, frame=990)),
        "seqnos": (22, 23),
        "first_time_ns": 1,
        "last_time_ns": 1,
    }
    return Finding(**{**values, **changes})  # type: ignore[arg-type] # built from keywords


def lines(*findings: Finding, files: tuple[str, ...] = ("a.pcap",)) -> list[str]:
    return list(report_lines(findings, files, lambda text, _: text))


def test_a_finding_has_its_place_its_rows_and_a_filter_for_wireshark() -> None:
    assert lines(finding()) == [
        "1 error, 0 warnings, 0 notes",
        "",
        "✖ seqno-not-increasing",
        "    vb 417, connection 1: 22 after 23",
        "      rows 1047, 1046; Wireshark: frame.number in {990, 991}",
        "    next: compare the rows",
        "",
        "'dcpinspect explain RULE' says when a rule speaks and when it keeps silent",
    ]


def test_findings_of_one_rule_are_together_and_advice_that_they_share_is_said_once() -> None:
    other = finding(rule="stream-refused", severity="warning", places=(place(1),), next="wait")
    milder = finding(severity="note", places=(place(9),))
    assert lines(finding(places=(place(3),)), other, finding(places=(place(7),), vbuckets=(5,)), milder)[1:-2] == [
        "",
        "✖ seqno-not-increasing",
        "    vb 417, connection 1: 22 after 23",
        "      row 3; Wireshark: frame.number == 3",
        "    vb 5, connection 1: 22 after 23",
        "      row 7; Wireshark: frame.number == 7",
        "    next: compare the rows",
        "",
        "! stream-refused",
        "    vb 417, connection 1: 22 after 23",
        "      row 1; Wireshark: frame.number == 1",
        "    next: wait",
        "",
        "· seqno-not-increasing",
        "    vb 417, connection 1: 22 after 23",
        "      row 9; Wireshark: frame.number == 9",
        "    next: compare the rows",
    ]


def test_advice_that_differs_stands_with_its_finding() -> None:
    shown = lines(finding(places=(), next="one"), finding(places=(), next="two"), finding(places=(), next=""))
    assert shown[3:8] == [
        "    vb 417, connection 1: 22 after 23",
        "      next: one",
        "    vb 417, connection 1: 22 after 23",
        "      next: two",
        "    vb 417, connection 1: 22 after 23",
    ]


def test_nothing_found_is_said() -> None:
    assert lines() == ["0 errors, 0 warnings, 0 notes"]


def test_many_and_none() -> None:
    many = finding(severity="note", vbuckets=(1, 2, 3, 4), count=9, message="x on 4 vbuckets", places=(), next="")
    assert lines(many)[2:4] == ["· seqno-not-increasing", "    4 vbuckets, connection 1: x on 4 vbuckets"]
    assert lines(finding(vbuckets=(), count=5))[3] == "    connection 1: 22 after 23 (5 times)"
    assert lines(finding(sid=3))[3].startswith("    vb 417 stream-id 3, connection 1")


def test_packets_of_several_files_are_told_apart() -> None:
    shown = lines(finding(places=(place(1, frame=5), place(2, file=1, frame=6))), files=("a.pcap", "b.pcap"))
    assert shown[4] == "      rows 1, 2; Wireshark: frame.number == 5 of a.pcap; frame.number == 6 of b.pcap"


def test_nothing_of_the_wire_steers_the_terminal() -> None:
    assert not any("\x1b" in line for line in lines(finding(message="a\x1b[31m", next="b\x1b]0;x\x07"), files=("\x1b.pcap",)))


def with_effects(count: int = 3) -> list[Finding]:
    cause = finding(rule="rollback-loop", severity="warning", message="rolled back 3 times", next="stop")
    effect = finding(rule="rollback", severity="warning", message="asked 9", next="", count=count, effect_of=cause.id)
    return [cause, effect, finding(rule="stream-refused", severity="note", message="refused", next="", places=(), effect_of=cause.id)]


def test_effects_are_counted_under_their_cause() -> None:
    assert lines(*with_effects())[:7] == [
        "0 errors, 1 warning, 0 notes, and 4 effects of these",
        "",
        "! rollback-loop",
        "    vb 417, connection 1: rolled back 3 times",
        "      rows 1047, 1046; Wireshark: frame.number in {990, 991}",
        "      and 4 effects: 3 rollback, 1 stream-refused (--all shows them)",
        "    next: stop",
    ]


def test_effects_are_told_under_their_cause_where_that_is_asked_for() -> None:
    shown = list(report_lines(with_effects(), ["a.pcap"], lambda text, _: text, with_effects=True))
    assert shown[5:9] == [
        "      effect, rollback, vb 417, connection 1: asked 9 (3 times)",
        "        rows 1047, 1046; Wireshark: frame.number in {990, 991}",
        "      effect, stream-refused, vb 417, connection 1: refused",
        "    next: stop",
    ]


def test_effects_whose_cause_is_not_among_the_findings_stand_for_themselves() -> None:
    shown = lines(*with_effects()[1:2])
    assert shown[0] == "0 errors, 1 warning, 0 notes"
    assert "! rollback" in shown


def test_nothing_of_the_wire_steers_the_terminal_from_an_effect() -> None:
    cause, effect, _ = with_effects()
    effect.message = "a\x1b[31m"
    assert not any("\x1b" in line for line in report_lines([cause, effect], ["a"], lambda text, _: text, with_effects=True))
