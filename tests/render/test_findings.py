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
        "✖ seqno-not-increasing  vb 417, connection 1: 22 after 23",
        "    rows 1047, 1046",
        "    Wireshark: frame.number in {990, 991}",
        "    next: compare the rows",
    ]


def test_nothing_found_is_said() -> None:
    assert lines() == ["0 errors, 0 warnings, 0 notes"]


def test_many_and_none() -> None:
    many = finding(severity="note", vbuckets=(1, 2, 3, 4), count=9, message="x on 4 vbuckets", places=(), next="")
    assert lines(many)[2:] == ["· seqno-not-increasing  4 vbuckets, connection 1: x on 4 vbuckets"]
    assert lines(finding(vbuckets=(), count=5))[2] == "✖ seqno-not-increasing  connection 1: 22 after 23 (5 times)"
    assert lines(finding(sid=3))[2].startswith("✖ seqno-not-increasing  vb 417 stream-id 3, connection 1")


def test_packets_of_several_files_are_told_apart() -> None:
    shown = lines(finding(places=(place(1, frame=5), place(2, file=1, frame=6))), files=("a.pcap", "b.pcap"))
    assert shown[4] == "    Wireshark: frame.number == 5 of a.pcap; frame.number == 6 of b.pcap"


def test_nothing_of_the_wire_steers_the_terminal() -> None:
    assert not any("\x1b" in line for line in lines(finding(message="a\x1b[31m", next="b\x1b]0;x\x07"), files=("\x1b.pcap",)))
