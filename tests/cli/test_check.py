"""``check``: its exit status, its selection, its formats."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from dcpinspect.findings.finding_records import FINDINGS
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import Conversation
from tests.captures import field, real_server
from tests.findings.logs.written import rollback
from tests.peers.truth import SAMPLES
from tests.schemas import validate
from tests.streams.told import Told, capture

LOOP, ROLLBACK, TOUR = (
    str(SAMPLES / name) for name in ("loop.pcap", "rollback.pcap", "tour.pcapng")
)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([LOOP], 1),
        ([LOOP, "--no-rule", "rollback-loop"], 0),
        ([LOOP, "--fail-on", "warning"], 1),
        (
            [
                LOOP,
                "--fail-on",
                "warning",
                "--no-rule",
                "rollback",
                "--no-rule",
                "rollback-loop",
                "--no-rule",
                "unknown-vbucket-uuid",
            ],
            0,
        ),
        ([ROLLBACK, "--fail-on", "warning"], 0),
        ([ROLLBACK, "--fail-on", "note"], 1),
        ([ROLLBACK, "--fail-on", "note", "--family", "wire"], 0),
        ([TOUR], 1),
        ([TOUR, "--fail-on", "never"], 0),
    ],
)
def test_the_exit_status_says_whether_something_is_as_bad_as_asked(
    arguments: list[str], status: int
) -> None:
    assert main(["check", *arguments]) == status


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "--format", "ndjson"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for record in found:
        validate(record, table_schema(FINDINGS))
    assert main(["check", TOUR, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == found


def test_effects_are_under_the_id_of_their_cause_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", LOOP, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    by_id = {one["id"]: one for one in found}
    assert len(by_id) == len(found)
    effects = [one for one in found if one["effect_of"] is not None]
    assert {(by_id[one["effect_of"]]["rule"], one["rule"]) for one in effects} == {
        ("rollback-loop", "rollback"),
        ("rollback-loop", "unknown-vbucket-uuid"),
    }
    assert {one["next"] for one in effects} == {None}
    assert all(one["next"] for one in found if one["effect_of"] is None)


def test_effects_are_shown_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", LOOP]) == 1
    without = capsys.readouterr().out
    assert "explains 9 other findings: 8 rollback, 1 unknown-vbucket-uuid\n" in without
    assert "explains:\n    ! rollback:" not in without
    assert without.count("next: ") == len(
        {"rollback-loop", "credentials-in-clear", "connection-closed"}
    )
    assert main(["check", LOOP, "--all"]) == 1
    shown = capsys.readouterr().out
    assert shown.count("explains:\n    ! rollback:") == 1
    rows = [line.split() for line in shown.splitlines()]
    assert ["5", "30", "86", "0", "0", "0x7e57000000000130"] in [
        row for row in rows if len(row) == 6
    ] or rows
    assert shown.count("next: ") == len(
        {"rollback-loop", "credentials-in-clear", "connection-closed"}
    )


def test_ids_do_not_depend_on_what_else_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "-f", "ndjson", "--fail-on", "never"]) == 0
    every = {json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()}
    assert (
        main(
            [
                "check",
                TOUR,
                "-f",
                "ndjson",
                "--fail-on",
                "never",
                "--family",
                "capture",
                "--rule",
                "stream-refused",
            ]
        )
        == 0
    )
    few = {json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()}
    assert few < every


def test_rules_and_families_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "--rule", "rollback", "--family", "capture", "-f", "ndjson"]) == 0
    assert {json.loads(line)["rule"] for line in capsys.readouterr().out.splitlines()} == {
        "rollback"
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rule", "rolback"], "--rule rolback: no rule has this name; did you mean rollback"),
        (
            ["--family", "streams"],
            "--family streams: no family has this name; did you mean stream?",
        ),
        (
            ["--family", "xyz"],
            "--family xyz: no family has this name; there are wire, session, stream,",
        ),
        (
            ["--family", "lint"],
            "--family lint: the rules of the family lint are only checked with --lint; add it",
        ),
        (
            ["--rule", "lint-noop"],
            "--rule lint-noop: the rules of the family lint are only checked with --lint; add it",
        ),
        (
            ["--lint", "--family", "wire"],
            "--lint: none of its rules is among the chosen ones; add --family lint",
        ),
        (
            ["--no-rule", "x"],
            "--no-rule x: no rule has this name; 'dcpinspect check --list-rules' lists all\n",
        ),
    ],
)
def test_what_is_no_rule_is_said(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", ROLLBACK, *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"dcpinspect: {says}")


def test_lint_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TOUR, "--fail-on", "never", "-f", "ndjson"]) == 0
    without = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["check", TOUR, "--lint", "--fail-on", "never", "-f", "ndjson"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["family"] for one in found} - {one["family"] for one in without} == {"lint"}
    assert [one for one in found if one["family"] != "lint"] == without
    for record in found:
        validate(record, table_schema(FINDINGS))


def test_lint_has_a_table_for_each_connection_that_was_opened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        main(["check", TOUR, "--lint", "--rule", "lint-noop", "--rule", "lint-noop-interval"]) == 0
    )
    tables = capsys.readouterr().out.partition("\n\nlint of ")[2].split("\n\nlint of ")
    assert [table.splitlines()[0] for table in tables[:2]] == [
        "connection 2, 10.11.0.1:50001 to 10.11.0.2:11210: 2 PASS, 0 FAIL, 0 NA",
        "connection 3, [fd11::1]:50002 to [fd11::2]:11210: 1 PASS, 1 FAIL, 0 NA",
    ]
    assert tables[1].splitlines()[1:] == [
        "    PASS  lint-noop           enable_noop is true (row 244)",
        (
            "    FAIL  lint-noop-interval  set_noop_interval is not set although noops are on (row "
            "240)"
        ),
    ]
    assert main(["check", str(SAMPLES / "midstream.pcap"), "--lint", "--family", "lint"]) == 0
    assert "lint: no connection to check" in capsys.readouterr().out
    assert main(["check", TOUR, "--fail-on", "never"]) == 0
    assert "lint" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("around", "messages"), [([], range(161, 162)), (["--around", "5"], range(11, 161))]
)
def test_packets_of_findings_are_written_the_same_from_files_and_pipes(
    around: list[str], messages: range, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "file.pcapng", tmp_path / "pipe.pcapng"]
    assert main(["check", ROLLBACK, *around, "-w", str(files[0])]) == 0
    told = capsys.readouterr().out
    command = [sys.executable, "-m", "dcpinspect", "check", "-", *around, "-w", str(files[1])]
    done = subprocess.run(
        command, input=Path(ROLLBACK).read_bytes(), capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (told.encode(), b"")
    assert files[0].read_bytes() == files[1].read_bytes()
    with Reading([str(files[0])]) as reading:
        assert sum(len(batch) for batch in reading) in messages


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-w", "-"], "--write -: name a file"),
        (["-w", "same", "-o", "same", "-f", "json"], "--write and --output name the same file"),
        (["-w", ROLLBACK], f"{ROLLBACK}: is the capture that is read"),
        (["-w", "/nowhere/x.pcapng"], "/nowhere/x.pcapng: cannot be written"),
        (["--around", "9"], "--around: is for the packets of -w FILE"),
        (["-f", "ndjson", "--no-csv-guard"], "--no-csv-guard: ndjson does not use it"),
        (["-f", "sarif"], "--format sarif: write"),
    ],
)
def test_what_cannot_be_written_is_said(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", ROLLBACK, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"dcpinspect: {says}")
    assert captured.out == ""


def test_a_capture_that_cannot_be_read_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "none.pcap")]) == 2
    assert "none.pcap" in capsys.readouterr().err


# -- captures in which nothing can be checked
# ----------------------------------------------------------


def without_packets(path: Path) -> None:
    path.write_bytes(builders.pcap([]))


def on_another_port(path: Path) -> None:
    one = Conversation(server=("10.0.0.2", 443))
    one.handshake()
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))


def encrypted(path: Path) -> None:
    builders.capture(path, client=b"\x16\x03\x01\x00\x50\x01" + bytes(79))


def cut_to_headers(path: Path) -> None:
    builders.capture(path, server=b"".join(builders.mutations(5)), snaplen=54)


def silent(path: Path) -> None:
    builders.capture(path)


def of_another_protocol(path: Path) -> None:
    builders.capture(path, client=b"SSH-2.0-OpenSSH_9.2\r\n" * 9)


EMPTY: Mapping[Callable[[Path], None], str] = {
    without_packets: "no packets",
    on_another_port: "no DCP in 3 packets; it has TCP ports 443; try --port 443, or --port auto",
    encrypted: "they carry TLS, which is not decrypted: give the client's key log with --keylog, "
    "or capture between the server and what ends TLS, where it is plain",
    cut_to_headers: "their contents were cut off by the snapshot length: capture with -s 0",
    silent: "try --port auto",
    of_another_protocol: "try --port auto",
}


@pytest.mark.parametrize("fail_on", ["error", "note", "never"])
@pytest.mark.parametrize("made", EMPTY, ids=lambda made: made.__name__)
def test_where_nothing_could_be_checked_the_status_is_2_whatever_counts_as_a_failure(
    made: Callable[[Path], None], fail_on: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcap"
    made(path)
    assert main(["check", str(path), "--fail-on", fail_on]) == 2
    out, err = capsys.readouterr()
    first, *more = out.splitlines()
    reason = EMPTY[made].partition(":")[0] if more else EMPTY[made]
    if more:  # what a finding says is not said again
        assert (err, reason in first) == ("", True)
    else:
        (line,) = err.splitlines()
        assert line.startswith(f"dcpinspect: nothing was checked: {path}: ")
        assert line.endswith(reason)
        assert first == "nothing was checked"
    assert "0 errors" not in out


def test_who_has_looked_on_all_ports_is_not_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent(tmp_path / "a.pcap")
    assert main(["check", str(tmp_path / "a.pcap"), "--port", "auto"]) == 2
    assert "--port auto" not in capsys.readouterr().err


def test_a_damaged_capture_in_which_nothing_could_be_checked_is_told_as_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcap"
    silent(path)
    path.write_bytes(path.read_bytes()[:-3])
    assert main(["check", str(path), "--fail-on", "never"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_one_message_is_enough_to_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=builders.mutation())
    silent(tmp_path / "b.pcap")
    assert main(["check", str(path), str(tmp_path / "b.pcap"), "--fail-on", "never"]) == 0
    assert capsys.readouterr().err == ""


def test_what_cannot_be_decoded_beside_what_can_stays_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=b"".join(builders.mutations(9)))
    other = Conversation(client=("10.0.0.9", 50_000))
    other.handshake()
    other.stream(True, b"\x16\x03\x01\x00\x50\x01" + bytes(79))
    (tmp_path / "b.pcap").write_bytes(builders.pcap(builders.recorded(other.segments)))
    assert main(["check", str(path), str(tmp_path / "b.pcap"), "--rule", "tls-without-key"]) == 0
    assert "tls-without-key" in capsys.readouterr().out


def test_a_capture_with_messages_and_no_dcp_is_checked_as_far_as_that_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = Told("kv:1")
    talk.hello("kv/1", "JSON")
    path = tmp_path / "a.pcap"
    path.write_bytes(capture(talk))
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().err == (
        "dcpinspect: no DCP among 2 messages: only the rules for any message and connection "
        "were checked; DCP may be on another port,"
        " try --port auto\n"
    )
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["check", str(path)]) == 3
    cut, no_dcp = capsys.readouterr().err.splitlines()
    assert "cut short" in cut
    assert no_dcp.endswith("were checked")


def _log(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines))
    return str(path)


def test_a_log_is_checked_without_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            ["check", "--log", _log(tmp_path / "memcached.log", rollback()), "--fail-on", "warning"]
        )
        == 1
    )
    out = capsys.readouterr()
    assert out.out.startswith("1 vbucket was rolled back\n")
    assert "()" not in out.out, "a log has no place"
    assert out.err == ""


@pytest.mark.parametrize("format_name", ["json", "csv", "ndjson"])
def test_findings_of_a_log_have_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format_name: str
) -> None:
    assert (
        main(
            [
                "check",
                "--log",
                _log(tmp_path / "memcached.log", rollback()),
                "--format",
                format_name,
            ]
        )
        == 0
    )
    assert "server-rollback" in capsys.readouterr().out


def test_a_log_is_checked_beside_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _log(tmp_path / "memcached.log", rollback())
    assert main(["check", ROLLBACK, "--log", log, "--rule", "server-rollback"]) == 0
    assert "the server rolled back from 1000 to 900" in capsys.readouterr().out


def test_findings_of_a_log_of_another_time_stand_last_and_a_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rules(time: str) -> tuple[list[str], str]:
        log = _log(tmp_path / "memcached.log", rollback(time=time))
        main(["check", ROLLBACK, "--log", log, "--format", "ndjson"])
        out, err = capsys.readouterr()
        return [json.loads(line)["rule"] for line in out.splitlines()], err

    rule_names, lines = rules("2024-04-06T13:00:00.000000+00:00")
    assert rule_names[-1] == "server-rollback"
    assert "memcached.log has no time in common with the capture, which is of 2024-04-06 " in lines
    assert lines.endswith("the log is of 2024-04-06 13:00:00.000 to 2024-04-06 13:00:00.000\n")
    rule_names, lines = rules("2024-04-06T12:01:00.941000+00:00")
    assert rule_names[0] == "server-rollback"
    assert "in common" not in lines


@pytest.mark.parametrize("height", [0, 24])
def test_the_verdict_is_not_about_a_log_of_another_time(
    height: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.cli.check.height", lambda: height)
    main(["check", ROLLBACK])
    alone = capsys.readouterr().out.splitlines()
    for time, is_apart in (("13:00:00.000000", True), ("12:01:00.941000", False)):
        log = _log(tmp_path / "memcached.log", rollback(time=f"2024-04-06T{time}+00:00"))
        status = main(["check", ROLLBACK, "--log", log, "--fail-on", "warning"])
        assert status == (0 if is_apart else 1)
        out, err = capsys.readouterr()
        lines = out.splitlines()
        assert (lines[0] == alone[0]) is is_apart
        found = [number for number, line in enumerate(lines) if "! server-rollback" in line]
        others = [number for number, line in enumerate(lines) if line.startswith("· ")]
        assert len(found) == 1
        assert others
        assert (max(others) < found[0]) is is_apart
        before = " ".join(" ".join(lines[max(others) : found[0]]).split())
        assert ("has no time in common with the capture" in before) is is_apart
        assert "in common" not in err


def test_a_log_with_nothing_wrong_says_how_much_was_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _log(tmp_path / "memcached.log", rollback(), rollback())
    assert main(["check", "--log", log, "--rule", "server-disconnect"]) == 0
    assert capsys.readouterr().out == "nothing wrong: 2 records of 1 log\n"
    assert main(["check", "--log", log, "--client", "nobody"]) == 0
    told = capsys.readouterr().out
    assert told == "nothing wrong in what was asked for, of 2 records of 1 log\n"


def test_a_log_without_a_record_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--log", _log(tmp_path / "other.txt", "nothing")]) == 2
    said = capsys.readouterr()
    assert said.out == "nothing was checked\n"
    assert said.err.endswith(
        "; no line of it is about a stream or a vbucket: give memcached.log, or what "
        "'cbstats failovers', 'vbucket-seqno', or 'dcp' with streams open, print\n"
    )


def test_a_packed_log_is_told_to_be_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "support.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("memcached.log", rollback())
    assert main(["log", str(bundle)]) == 2
    assert capsys.readouterr().err.endswith(
        "; it is a zip archive: unpack it, and give memcached.log\n"
    )


def test_what_cannot_be_asked_of_a_log_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _log(tmp_path / "memcached.log", rollback())
    assert main(["check"]) == 2
    assert "name a capture, or give --log or --checkpoint" in capsys.readouterr().err
    assert main(["check", "--log", log, "--lint"]) == 2
    assert "--lint: check without a capture does not use it" in capsys.readouterr().err
    assert main(["check", "--checkpoint", log]) == 2
    assert "is no JSON" in capsys.readouterr().err


@pytest.mark.parametrize("height", [24, 60])
def test_a_high_terminal_has_more_of_the_answer(
    height: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("dcpinspect.cli.check.height", lambda: height)
    main(["check", str(SAMPLES)])
    count = len(capsys.readouterr().out.splitlines())
    assert 25 < count <= height if height > 25 else count <= 25


def test_a_pipe_has_all_of_the_answer_in_lines_as_wide_as_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for columns in ("80", ""):
        monkeypatch.setenv("COLUMNS", columns)
        main(["check", str(SAMPLES / "tour.pcapng")])
        told.append(capsys.readouterr().out)
    assert max(map(len, told[0].splitlines())) <= 80
    assert told[0].split() == told[1].split()


def test_the_first_line_says_that_noops_cost_their_connection(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", str(real_server("noop-timeout"))]) == 1
    assert capsys.readouterr().out.startswith("1 connection lets noops wait until it was closed")


def test_what_came_once_on_each_vbucket_is_not_counted_beside_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", str(SAMPLES / "loop.pcap")]) == 1
    told = capsys.readouterr().out
    assert "vb 30–31" in told
    assert " times;" not in told


def test_advice_does_not_contradict_that_something_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(real_server("v85-marker22"))])
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("3 connections let noops wait, and recovered")
    assert "; recovered" in told
    assert "operators have nothing to do, the answer came" in told
    assert "restart it" not in told


@pytest.mark.parametrize(
    ("capture", "is_over"),
    [(real_server("tcp-window-zero"), True), (field("p06-zero-window"), False)],
    ids=["over", "not over"],
)
def test_nobody_looks_now_for_what_is_in_a_socket_where_that_is_over(
    capture: Path, is_over: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", str(capture)])
    told = " ".join(capsys.readouterr().out.split())
    assert ("not over by the end" not in told) == is_over
    assert ("look on that machine whether bytes wait in the socket" not in told) == is_over
    assert ("look in the program's log for what kept it from reading then" in told) == is_over


def test_the_first_line_says_what_notes_cost_that_somebody_would_ask_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(real_server("v85-cursor-dropped"))])
    assert capsys.readouterr().out.startswith(
        "no errors or warnings: 1 connection has stalled, and recovered · 2 other notes"
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_columns_that_are_asked_for_are_told_whole_at_every_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.cli.terminal.width", lambda: width)
    main(["check", str(SAMPLES / "orphans.pcap"), "--columns", "rule,count,who,next"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    out = " ".join(" ".join(lines).split())
    assert "…" not in out
    assert out.count("client consumer:1 (10.11.0.1:50000, consumer/4.2)") == 8
    assert "it has to ask again from the rollback seqno" in out


def test_effects_stand_below_their_cause_in_a_table_for_people(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = ("--columns", "rule,next")
    main(["check", str(SAMPLES / "orphans.pcap"), *columns])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    caused = lines.index("rollback as for rollback-not-followed above")
    assert lines[caused - 1].startswith("rollback-not-followed restart the client")
    main(["check", str(SAMPLES / "orphans.pcap"), *columns, "--format", "ndjson"])
    records = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert {"rule": "rollback", "next": None}.items() <= records[2].items()


@pytest.mark.parametrize("capture", [SAMPLES / "capture-loss.pcap", real_server("resume-lost")])
def test_both_outputs_fit_a_terminal_and_losses_are_told_once(
    capture: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("dcpinspect.cli.check.height", lambda: 23)
    main(["check", str(capture)])
    told = capsys.readouterr()
    assert "capture-hole" in told.out
    assert "bytes are not in the capture" not in told.err
    assert len((told.out + told.err).splitlines()) <= 25
    monkeypatch.undo()
    main(["check", str(capture)])
    assert "bytes are not in the capture" in capsys.readouterr().err, "for a file or a pipe"
