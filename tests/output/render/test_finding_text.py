"""The report of findings, as people read it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dcpinspect.findings.finding import Finding, MessagePlace
from dcpinspect.findings.recommended import Verdict
from dcpinspect.output.render.finding_text import lint_lines, messages_of, report_lines
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.tcp_facts import TcpConnection
from tests.findings.checked import verdicts
from tests.peers.truth import SAMPLES
from tests.streams.told import opened


def place(row: int, *, file: int = 0, frame: int | None = None) -> MessagePlace:
    return MessagePlace(row, 1, "s2c", 0, file, row if frame is None else frame, 1)


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


SCREEN = 25
"""Number of lines of a screen."""


def lines(
    *findings: Finding,
    files: tuple[str, ...] = ("a.pcap",),
    everything: bool = False,
    width: int | None = 100,
) -> list[str]:
    return list(
        report_lines(
            findings,
            files,
            lambda text, _: text,
            width=width,
            limit=None if width is None else SCREEN,
            everything=everything,
        )
    )


def of_many(count: int, **changes: object) -> Finding:
    """The same of as many vbuckets, which were told something else each."""
    cases = tuple(
        finding(vbuckets=(number,), facts={"told": 10 * number}, **changes)
        for number in range(count)
    )
    return finding(
        vbuckets=tuple(range(count)), cases=cases, what="told … after 23", count=count, **changes
    )


def test_a_finding_says_what_whose_when_and_what_to_do() -> None:
    whole = finding(
        who="client a:1 (10.0.0.1:5)",
        server="server 10.0.0.2:6",
        clients=("a",),
        whose="server",
        over="open",
        count=2,
    )
    assert lines(replace(whole, first_time_ns=10**18, last_time_ns=10**18 + 10**9)) == [
        "1 vbucket has messages that break the protocol",
        "",
        "✖ seqno-not-increasing: 22 after 23",
        "    client a:1 (10.0.0.1:5), server 10.0.0.2:6; connection 1, vb 417",
        (
            "    since 2001-09-09 01:46:40.000 UTC, 2 times; the server has to act; not over by the "
            "end"
        ),
        "    rows 1046, 1047; Wireshark: frame.number in {990, 991}",
        "    next: compare the rows",
        "",
        "check --all shows everything; 'dcpinspect explain RULE' explains a rule",
    ]


def test_a_note_has_no_packets_and_all_of_it_with_all() -> None:
    note = finding(severity="note", clients=("10.0.0.1 a",), over="recovered", over_place=place(9))
    assert lines(note)[2:6] == [
        "· seqno-not-increasing: 22 after 23",
        "    client 10.0.0.1 a, connection 1, vb 417; 00:00:00 UTC; recovered in row 9",
        "    next: compare the rows",
        "",
    ]
    assert any("Wireshark" in line for line in lines(note, everything=True))


LONG = (
    "a stream of forty vbuckets was asked for with a seqno that the server of this bucket has "
    "never had"
)


def test_nothing_is_cut_and_what_does_not_fit_is_counted() -> None:
    many = [finding(rule=f"rule-{number}", message=f"open {'n' * 200}") for number in range(30)]
    told = lines(*many)
    assert len(told) <= 25
    assert max(map(len, told)) <= 100
    assert "…" not in "".join(told)
    whole = sum(line.startswith("✖ rule-") for line in told)
    assert "".join(told).count("n" * 80) >= 2 * whole > 8
    assert any(line.startswith(f"✖ {30 - whole} more errors: 1 rule-") for line in told)


def test_lines_that_are_left_over_go_to_the_worst_first() -> None:
    found = [
        finding(
            rule=f"rule-{number}",
            severity="warning",
            message=LONG,
            next=LONG,
            connections=(number,),
        )
        for number in range(9)
    ]
    told = lines(*found, width=60)
    assert len(told) <= 25
    assert told[2:5] == [
        "! rule-0: a stream of forty vbuckets was asked for with a",
        "    seqno that the server of this bucket has never had",
        "    (connection 0, vb 417)",
    ]
    assert "! rule-7: a stream of forty vbuckets was asked for with a" not in told
    assert any(line.startswith("! 5 more warnings: 1 rule-4, 1 rule-5, ") for line in told)


def test_without_a_screen_nothing_is_cut_and_no_line_is_folded() -> None:
    found = [
        finding(rule=f"rule-{number}", severity="warning", message=LONG, next=LONG)
        for number in range(9)
    ]
    told = lines(*found, width=None)
    assert [line for line in told if "next:" in line] == [
        f"    next: {LONG}",
        *["    next: as for rule-0 above"] * 8,
    ], "what to do is said once"
    assert len(found) == sum(line.endswith(f": {LONG}") and line[0] == "!" for line in told if line)


def test_what_differs_is_below_each_other_three_times_and_always_with_all() -> None:
    assert [line.split() for line in lines(of_many(9))[5:10]] == [
        ["vb", "told"],
        ["0", "0"],
        ["1", "10"],
        ["2", "20"],
        ["and", "6", "more", "(--all)"],
    ]
    told = lines(of_many(9), everything=True)
    assert [line.split() for line in told[6:15]] == [
        [str(number), str(10 * number)] for number in range(9)
    ]


def test_a_table_too_wide_for_its_headings_has_them_in_several_lines() -> None:
    """A value that is too wide stands whole below its row."""
    facts = {"requested start of it": 60, "with uuid": "0x7e5700000000004e", "log": "a.log:1"}
    cases = tuple(finding(vbuckets=(number,), facts=facts | {"seqno": number}) for number in (1, 2))
    repeated = finding(vbuckets=(1, 2), cases=cases, count=2)
    assert any(line.split()[-4:] == ["with", "uuid", "log", "seqno"] for line in lines(repeated))
    narrow = [line.split() for line in lines(repeated, width=56)]
    start = narrow.index(["requested"])
    assert narrow[start + 1 : start + 6] == [
        ["start"],
        ["of", "with"],
        ["vb", "it", "uuid", "log", "seqno"],
        ["1", "60", "0x7e5700000000004e", "a.log:1", "1"],
        ["2", "60", "0x7e5700000000004e", "a.log:1", "2"],
    ]
    assert any("0x7e5700000000004e" in line for line in lines(repeated, width=40))


def test_what_does_not_differ_is_no_table() -> None:
    same = finding(vbuckets=(1, 2), cases=(finding(vbuckets=(1,)), finding(vbuckets=(2,))))
    assert len(lines(same)) == len(lines(finding()))


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("count", [1, 4, 9, 40])
def test_a_report_is_a_screen_and_the_worst_is_on_it(count: int, width: int) -> None:
    found = [
        of_many(9, rule=f"rule-{number}", severity=severity)
        for severity in ("error", "warning", "note")
        for number in range(count)
    ]
    told = lines(*found, width=width)
    assert len(told) <= 25
    assert max(map(len, told)) <= width
    assert any(line.startswith("✖ rule-0: ") for line in told)
    whole = lines(*found, width=width, everything=True)
    assert sum(line[:1] in "✖!·" for line in whole if line) == 3 * count


def test_nothing_found_is_said_with_how_much_was_looked_at() -> None:
    assert lines() == ["nothing wrong"]
    looked = LookedAt(1200, 4, 900, 900)
    (line,) = report_lines([], ["a"], lambda text, _: text, looked=looked)
    assert line == "nothing wrong: 1,200 messages, 4 streams, 100 % of bytes decoded"
    (line,) = report_lines(
        [], ["a"], lambda text, _: text, looked=LookedAt(1, 0, 899, 900, "1 rule asked")
    )
    assert line == "nothing wrong: 1 message, 0 streams, 99.8 % of bytes decoded, 1 rule asked"
    (line,) = report_lines([], ["a"], lambda text, _: text, looked=LookedAt(2, 1, 900, 900, lost=1))
    assert line == "nothing wrong: 2 messages, 1 stream, 100 % of bytes decoded, 1 byte lost"


def beside(*findings: Finding, everything: bool = False) -> list[str]:
    """The report where connections 2 to 4 carry no DCP, and others do."""
    looked = LookedAt(9, 1, 9, 9, without_dcp=frozenset((2, 3, 4)))
    told = report_lines(
        findings,
        ["a"],
        lambda text, _: text,
        width=100,
        looked=looked,
        everything=everything,
    )
    return [line for line in told if line and line[0] in "✖!·"]


def note(rule: str, *connections: int) -> Finding:
    return finding(rule=rule, severity="note", connections=connections, vbuckets=(), message="m")


def test_notes_about_connections_without_dcp_are_one_line() -> None:
    own, clear = note("connection-closed", 1, 2), note("credentials-in-clear", 2, 4)
    bad, probes, old = (
        finding(connections=(2,)),
        note("health-probe", 3, 4),
        note("legacy-layout", 2),
    )
    assert beside(bad, own, probes, old, clear) == [
        "✖ seqno-not-increasing: 22 after 23",
        "· connection-closed: m",
        "· credentials-in-clear: m",
        (
            "· 2 notes about connections without DCP: health-probe, legacy-layout (connections "
            "2–4; --all)"
        ),
    ]
    assert beside(own, probes, clear) == [
        "· connection-closed: m",
        "· health-probe: m",
        "· credentials-in-clear: m",
    ]
    assert len(beside(bad, own, probes, old, clear, everything=True)) == 5


def test_packets_of_several_files_are_told_apart() -> None:
    shown = lines(
        finding(places=(place(1, frame=5), place(2, file=1, frame=6))), files=("a.pcap", "b.pcap")
    )
    assert (
        shown[5]
        == "    rows 1, 2; Wireshark: frame.number == 5 of a.pcap; frame.number == 6 of b.pcap"
    )


def test_times_of_two_days_have_both_days_also_where_they_are_short() -> None:
    paths = [str(SAMPLES / "orphans.pcap"), str(SAMPLES / "real-server/stuck.pcap.gz")]
    with Reading(paths) as reading:
        reading.check()
        for _ in reading:
            pass
        told = list(
            report_lines(reading.findings(), paths, lambda text, _: text, width=200, limit=60)
        )
    (line,) = [line for line in told if "2 captures" in line]
    assert "; 2024-04-06 12:01:00–2026-11-27 21:11:55 UTC" in line


def test_on_a_small_screen_each_error_has_its_connection_before_notes_have_all_their_rules() -> (
    None
):
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        reading.check()
        for _ in reading:
            pass
        told = list(report_lines(reading.findings(), (), lambda text, _: text, width=80, limit=23))
    text = " ".join(line.strip() for line in told)
    assert "connection 2, vb 421; 12:01:00 UTC" in text
    assert "enable_stream_id is on (connection 4, vb 9)" in text
    assert "no item received (con 2, vb 423)" in text
    warnings = [line for line in told if line.startswith("!")]
    assert len(warnings) == 4
    assert warnings[-1] == "! 2 more warnings: 2 stream-refused"
    assert told[-3].startswith("· 8 notes: ")
    assert "and 5 more rules" in told[-3]


def test_no_note_stands_above_a_warning_that_is_only_counted() -> None:
    """A note of one line fits where the next warning has no room."""
    long, short = "word " * 40, "word"
    found = [
        *(finding(severity="warning", message=f"{number} {long}") for number in range(3)),
        *(finding(severity="note", message=f"{number} {short}") for number in range(2)),
    ]
    for limit in range(8, 40):
        told = report_lines(found, ["a"], lambda text, _: text, width=80, limit=limit)
        signs = "".join(line[0] for line in told if line[:1] in ("!", "·"))
        assert re.fullmatch("!+·+", signs), limit


def test_counted_notes_name_few_of_their_rules() -> None:
    notes = [finding(rule=f"rule-{number}", severity="note") for number in range(40)]
    shown = " ".join(
        line.strip()
        for line in report_lines(notes, (), lambda text, _: text, width=80, limit=SCREEN)
    )
    assert re.search(r"· \d+ more notes: (1 rule-\d+, ){4}and \d+ more rules", shown), "one line"


def test_of_several_captures_short_findings_name_theirs_and_the_day() -> None:
    day_ns = 86_400_000_000_000
    two = [
        finding(rule="loop", places=(place(1),), first_time_ns=day_ns),
        finding(rule="stall", places=(place(2, file=1),), first_time_ns=3 * day_ns),
    ]
    paths = ("north/a.pcap", "south/a.pcap")
    notes = [replace(note, severity="note") for note in two]
    shown = list(report_lines(notes, paths, lambda text, _: text, width=80))
    assert [line for line in shown if "north/a.pcap" in line]
    assert [line for line in shown if "south/a.pcap" in line]
    assert [line for line in shown if "1970-01-02 00:00:00" in line]
    alone = list(report_lines(notes, paths[:1], lambda text, _: text, width=80))
    assert not [line for line in alone if "a.pcap" in line]


@pytest.mark.parametrize(
    ("file", "named"),
    [
        (0, "since frame 5 of a.pcap, frame 7 of a.pcap or frame 9 of a.pcap"),
        (1, "since frame 5 of a.pcap, frame 7 of a.pcap or frame 9 of b.pcap"),
    ],
)
def test_several_numbers_of_packets_are_all_named(file: int, named: str) -> None:
    places = (
        place(60_000_001, frame=5),
        place(80_000_000, frame=7),
        place(100_000_000, frame=9, file=file),
    )
    message = "requested again while open since row 60000001, 80000000 or 100000000"
    text = "\n".join(
        lines(finding(message=message, places=places), files=("x/a.pcap", "x/b.pcap"), width=None)
    )
    assert named in text
    assert "0000" not in text


def test_several_messages_are_named_with_their_capture_once() -> None:
    row, files = 248 * 10**7, ["d/a.pcap", "d/b.pcap"]
    assert messages_of([place(3), place(5)], files) == "rows 3, 5"
    messages = [place(row, frame=5), place(row + 1, file=1, frame=7), place(row + 2, frame=9)]
    assert messages_of(messages, files) == "frames 5, 9 of a.pcap; frame 7 of b.pcap"


def test_rows_that_are_numbers_of_packets_are_not_shown() -> None:
    row = 248 * 10**7
    told = finding(
        message=f"followed in row {row}",
        places=(place(row, frame=5),),
        over="recovered",
        over_place=place(row + 1, frame=6),
        who="client a",
    )
    text = "\n".join(lines(told))
    assert str(row) not in text
    assert "followed in frame 5\n" in text
    assert "; recovered in frame 6\n" in text
    assert "    Wireshark: frame.number == 5\n" in text


def test_nothing_of_the_wire_steers_the_terminal() -> None:
    assert not any(
        "\x1b" in line
        for line in lines(finding(message="a\x1b[31m", next="b\x1b]0;x\x07"), files=("\x1b.pcap",))
    )


def with_effects(count: int = 3) -> list[Finding]:
    cause = finding(
        rule="rollback-loop", severity="warning", message="rolled back 3 times", next="stop"
    )
    effect = finding(
        rule="rollback",
        severity="warning",
        message="asked 9",
        next="",
        count=count,
        effect_of=cause.id,
    )
    return [
        cause,
        effect,
        finding(
            rule="stream-refused",
            severity="note",
            message="refused",
            next="",
            places=(),
            effect_of=cause.id,
        ),
    ]


def test_effects_are_counted_under_their_cause() -> None:
    told = lines(*with_effects())
    assert told[0] == "1 client loops"
    assert told[-3] == "    explains 4 other findings: 3 rollback, 1 stream-refused"
    assert "rollback: asked 9" not in "".join(told)


def test_effects_are_told_under_their_cause_where_that_is_asked_for() -> None:
    shown = lines(*with_effects(), everything=True)
    (follows,) = (index for index, line in enumerate(shown) if line == "    explains:")
    assert [line for line in shown[follows:] if line.startswith(("    !", "    ·"))] == [
        "    ! rollback: asked 9",
        "    · stream-refused: refused",
    ]


def test_effects_whose_cause_is_not_among_the_findings_stand_for_themselves() -> None:
    shown = lines(*with_effects()[1:2])
    assert shown[0] == "1 vbucket was rolled back"
    assert "! rollback: asked 9" in shown


def test_nothing_of_the_wire_steers_the_terminal_from_an_effect() -> None:
    cause, effect, _ = with_effects()
    effect.message = "a\x1b[31m"
    assert not any(
        "\x1b" in line
        for line in report_lines([cause, effect], ["a"], lambda text, _: text, everything=True)
    )


def link(number: int) -> TcpConnection:
    nothing = (None, None)
    return TcpConnection(
        number,
        f"10.0.0.9:{number}",
        "node",
        True,
        (1, 1),
        0,
        0,
        0,
        0,
        0,
        "",
        -1,
        0,
        0,
        0,
        0,
        0,
        (0, 0),
        (0, 0),
        (0, 0),
        nothing,
    )


def lint_of(*verdicts: Verdict) -> list[str]:
    return list(
        lint_lines(
            verdicts,
            [link(1), link(2)],
            lambda text, style: f"<{text}>" if style == "bold yellow" else text,
        )
    )


def test_a_connection_has_a_heading_and_a_line_for_every_rule() -> None:
    (name, noop) = verdicts(opened("kafka"), rules=["lint-name", "lint-noop"])
    assert lint_of(name, noop) == [
        "",
        "lint of connection 1, 10.0.0.9:1 to node: 0 PASS, 1 FAIL, 1 NA",
        "    <FAIL>  lint-name  name kafka is not of the form service:unique (row 3)",
        "    NA    lint-noop  there are no streams",
    ]


def test_what_all_rules_say_of_a_connection_is_one_line() -> None:
    why = "the connection is between two nodes"
    judged = [Verdict("NA", why, rule=rule, connection=1) for rule in ("lint-name", "lint-noop")]
    assert lint_of(*judged)[2:] == [f"    NA    all 2 rules  {why}"]


def test_no_escape_of_a_name_gets_through() -> None:
    shown = "\n".join(lint_of(*verdicts(opened("a\x1b[2Jb\n"), rules=["lint-name"])))
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 3


def test_that_there_is_no_connection_is_said() -> None:
    assert lint_of() == [
        "",
        "lint: no connection to check, because no accepted DCP open was captured",
    ]


def test_advice_that_has_no_room_is_counted() -> None:
    warnings = [
        finding(severity="warning", vbuckets=(number,), next=f"do {number}") for number in range(12)
    ]
    folded = lines(*warnings)
    advised = [place for place, line in enumerate(folded) if line.startswith("    next:")]
    assert 0 < len(advised) < 12
    assert all(folded[place + 1] == "" for place in advised), "a blank line between findings"
    assert folded[-1].startswith(f"check --all has 'next' of {12 - len(advised)} more; ")
    assert len(folded) <= SCREEN
    assert "shows everything" in lines(warnings[0])[-1]
