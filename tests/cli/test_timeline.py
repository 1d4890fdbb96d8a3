"""``dcpinspect timeline``: the picture and the story of one vbucket, and what it says of bad
usage.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import timeline_schema
from dcpinspect.output.render.timeline_text import LABEL
from tests.builders import Recorded, pcap
from tests.captures import field, real_server
from tests.peers.truth import SAMPLES
from tests.schemas import validate

ROLLBACK = str(SAMPLES / "rollback.pcap")
TOUR = str(SAMPLES / "tour.pcapng")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["timeline", *arguments]) in (0, 3)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("sample", "vbucket"),
    [("rollback.pcap", 7), ("tour.pcapng", 9), ("capture-loss.pcap", 103), ("tour.pcapng", 33)],
)
def test_the_timeline_of_a_sample(
    sample: str,
    vbucket: int,
    capsys: pytest.CaptureFixture[str],
    golden: Callable[[str, str], None],
) -> None:
    text = shown(capsys, str(SAMPLES / sample), "--vbucket", str(vbucket))
    golden(f"timeline/{Path(sample).stem}-{vbucket}.txt", text)


def test_colours_are_those_of_the_palette_and_change_no_letter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = shown(capsys, ROLLBACK, "--vbucket", "7", "--color", "never")
    coloured = shown(capsys, ROLLBACK, "--vbucket", "7", "--color", "always")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b[7;35mrrrrrrrrrr\x1b[0m" in coloured
    assert "\x1b[35mr\x1b[0m" not in coloured
    assert "\x1b" not in plain


def test_events_have_the_colour_of_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    def colour(events: str, words: str) -> str:
        (line,) = [line for line in events.splitlines() if words in line]
        return line.partition("m")[0].removeprefix("\x1b[")

    rollback = shown(capsys, ROLLBACK, "--vbucket", "7", "--color", "always")
    refused = shown(capsys, TOUR, "--vbucket", "421", "--color", "always")
    assert colour(rollback, "must be discarded") == "35"
    assert colour(rollback, "request from 60: rollback") == "1;35"
    assert colour(rollback, "request from 50: accepted") == "1;36"
    assert colour(rollback, "20 gaps, 20 of the seqnos") == "90"
    assert colour(rollback, "reset by the server") == "90"
    assert colour(rollback, "stream end: closed, after") == "90"
    assert colour(refused, "request from 20: refused") == "1;91"
    assert colour(refused, "✖ bad-stream-range") == "1;91"
    filtered = shown(capsys, str(real_server("coll-filter")), "--vbucket", "1", "--color", "always")
    assert "\x1b[33mN\x1b[0m  row 47: from 0, refused" in filtered, "as the finding about it"
    assert "\x1b[91mN\x1b[0m" in refused
    assert "\nN refused\n" in filtered, "of either colour"
    assert colour(filtered, "request from 0: refused: unknown_scope") == "1;33", "its warning's"


def test_messages_stand_under_their_events_as_read_prints_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, ROLLBACK, "--vbucket", "7", "--messages")
    told = [line for line in text.splitlines() if line.startswith(" " * 8)]
    assert main(["read", ROLLBACK, "--vbucket", "7"]) == 0
    read = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line.split() for line in text.splitlines() if line.split() in read] == read
    rows = [
        int(line.split()[0])
        for line in told
        if line.split()[0].isdecimal() and "." in line.split()[1]
    ]
    assert rows == sorted(rows)


def test_the_last_line_counts_findings_as_the_table_of_vbuckets_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(real_server("6.0.5-dcp1"))
    assert main(["vbuckets", path, "--format", "ndjson"]) == 0
    lines = capsys.readouterr().out.splitlines()
    warnings = {row["vbucket"]: row["findings"]["warning"] for row in map(json.loads, lines)}
    ends = {
        vbucket: shown(capsys, path, "--vbucket", f"{vbucket}").splitlines()[-1]
        for vbucket in (0, 1, 3)
    }
    of_connection = "1 warning about its connection"
    assert ends == {
        0: f"1 warning, {of_connection}; check says what to do",
        1: f"{of_connection}; check says what to do",
        3: f"2 warnings, {of_connection}, 1 explained by others; check says what to do",
    }
    assert [warnings[vbucket] for vbucket in ends] == [1, 0, 2]
    *_, end = shown(capsys, path, "--vbucket", "2").splitlines()
    assert end == "no errors or warnings; check --vbucket 2 says more"
    *_, end = shown(capsys, str(real_server("6.0.5-dcp2")), "--vbucket", "10").splitlines()
    assert end.startswith("2 errors and 1 warning, 2 explained by others; check --vbucket 10")
    *_, end = shown(capsys, str(real_server("end-reasons")), "--vbucket", "5").splitlines()
    assert end == "no errors or warnings; check says more"


def test_what_no_message_shows_has_no_row_and_stands_behind_the_messages_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(capsys, ROLLBACK, "--vbucket", "7", "--messages").splitlines()
    closed = next(index for index, line in enumerate(lines) if "connection reset by" in line)
    assert lines[closed].split()[:3] == ["0.007978", "1", "#1"]
    assert lines[closed - 1].split()[0] == "79"


def test_what_is_wrong_stands_where_it_happened(capsys: pytest.CaptureFixture[str]) -> None:
    *_, last = shown(capsys, ROLLBACK, "--vbucket", "7").splitlines()
    assert last == "no errors or warnings; check --vbucket 7 says more"
    for vbucket, connection in (("42", ()), ("45", ("--connection", "1"))):
        orphans = [str(SAMPLES / "orphans.pcap"), "--vbucket", vbucket]
        *_, end, found, last = shown(capsys, *orphans, *connection).splitlines()
        assert found.startswith(f"{end[: end.index('stream')]}✖ orphaned-vbucket: ended ")
        assert last == f"1 error; check --vbucket {vbucket} says what to do"
        told = json.loads(shown(capsys, *orphans, "--format", "json"))["events"]
        main(["check", *orphans, "--format", "json"])
        finding, *_ = json.loads(capsys.readouterr().out)
        assert [
            (event["row"], event["severity"], event["text"])
            for event in told
            if event["event"] == "finding"
        ] == [(finding["rows"][0], "error", f"orphaned-vbucket: {finding['message']}")]


def test_an_effect_names_its_cause_and_no_other_vbucket_is_told_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    capture = str(SAMPLES / "tour.pcapng")
    main(["check", capture, "--format", "json"])
    found = [one for one in json.loads(capsys.readouterr().out) if one["severity"] != "note"]
    for vbucket in {one["vbuckets"][0] for one in found if len(one["vbuckets"]) == 1}:
        events = json.loads(shown(capsys, capture, "--vbucket", str(vbucket), "--format", "json"))
        told = {
            event["text"].partition(":")[0]
            for event in events["events"]
            if event["event"] == "finding"
        }
        assert told == {
            one["rule"] for one in found if not one["vbuckets"] or vbucket in one["vbuckets"]
        }


def test_what_explains_others_stands_before_them(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, str(SAMPLES / "loop.pcap"), "--vbucket", "30").splitlines()
    (loop,) = (place for place, line in enumerate(told) if "✖ rollback-loop: rolled back" in line)
    (first,) = (place for place, line in enumerate(told) if "└ rollback: asked" in line)
    assert (loop, told[loop][:4]) == (first - 1, told[first][:4])
    text = " ".join(" ".join(told).split())
    assert text.count("explained by rollback-loop in row 75") == 3, "those further below name it"


def test_what_its_connection_bears_is_of_the_stream_that_was_open_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And not of the request beside it, which was refused."""
    lines = shown(capsys, str(real_server("6.0.5-dcp1")), "--vbucket", "0").splitlines()
    (clash,) = (line for line in lines if "! name-clash" in line)
    (duplicate,) = (line for line in lines if "! duplicate-stream-request" in line)
    assert (clash.split()[3], duplicate.split()[3]) == ("#1", "#2")


def test_an_effect_that_is_not_below_its_cause_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(capsys, str(real_server("name-clash-dup")), "--vbucket", "0").splitlines()
    (effect,) = (line for line in lines if "silent-connection" in line)
    (cause,) = (line for line in lines if "! name-clash" in line)
    assert "└" not in effect
    assert effect.endswith(f"; explained by name-clash in row {cause.split()[0]}")


@pytest.mark.parametrize(
    ("path", "vbuckets"),
    [
        (real_server("name-clash-dup"), (0, 1, 50)),
        (SAMPLES / "loop.pcap", (30, 31)),
        (SAMPLES / "orphans.pcap", (42, 48)),
        (SAMPLES / "tour.pcapng", (9, 419, 421)),
    ],
)
def test_a_finding_has_the_time_that_check_says(
    path: Path, vbuckets: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", str(path), "--all", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    times = {
        (one["rule"], case["first_time"][:23])
        for one in found
        for case in (one, *(one["cases"] or ()))
    }
    for vbucket in vbuckets:
        told = json.loads(shown(capsys, str(path), "--vbucket", str(vbucket), "--format", "json"))
        events = [event for event in told["events"] if event["event"] == "finding"]
        assert events
        for event in events:
            assert (event["text"].partition(":")[0], event["time"][:23]) in times


def test_one_vbucket_needs_no_name_and_of_several_one_is_proposed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stuck = str(SAMPLES / "real-server" / "stuck.pcap.gz")
    assert shown(capsys, stuck) == shown(capsys, stuck, "--vbucket", "0")
    assert main(["timeline", ROLLBACK]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"dcpinspect: --vbucket is missing; there are 7–10, as in 'dcpinspect timeline {ROLLBACK} "
        "--vbucket 7'; 'dcpinspect vbuckets' lists them\n"
    )
    piped = subprocess.run(
        [sys.executable, "-m", "dcpinspect", "timeline", "-"],
        input=Path(ROLLBACK).read_bytes(),
        capture_output=True,
        check=False,
    )
    assert piped.returncode == 2
    assert piped.stderr == b"dcpinspect: --vbucket is missing; 'dcpinspect vbuckets' lists them\n"


def test_one_seqno_is_no_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", str(SAMPLES / "tour.pcapng"), "--vbucket", "423"]) == 0
    heading = capsys.readouterr().out.splitlines()[0]
    assert heading == "vb 423 · 1 connection · 1 stream · seqno 0 · a cell is 1 seqno"


@pytest.mark.parametrize("seqnos", ["20-20", "22-29"])
def test_an_axis_without_room_for_a_tick_begins_with_its_first_seqno(
    seqnos: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, TOUR, "--vbucket", "421", "--seqnos", seqnos).splitlines()
    assert lines[2] == " " * LABEL + seqnos[:2]


def test_one_connection_some_seqnos_any_width_and_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(
        capsys,
        ROLLBACK,
        "--vbucket",
        "7",
        "--connection",
        "2",
        "--seqnos",
        "45-60",
        "--ascii",
        "--width",
        "90",
        "--messages",
    )
    assert text.isascii()
    assert all(
        len(line) <= 90
        for line in text.splitlines()
        if not line.startswith(("d dedup", "Q request"))
    )
    assert (
        text.splitlines()[0] == "vb 7 - 1 connection - 2 streams - seqnos 45-60 - a cell is 1 seqno"
    )
    assert "connection 1" not in text


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    for sample, vbucket in ((ROLLBACK, "7"), (TOUR, "9"), (TOUR, "417")):
        told = json.loads(shown(capsys, sample, "--vbucket", vbucket, "--format", "json"))
        validate(told, timeline_schema())
        for table in ("streams", "snapshots", "gaps"):
            assert main([table, sample, "--vbucket", vbucket, "--format", "json"]) == 0
            own = json.loads(capsys.readouterr().out)
            assert sorted(map(json.dumps, told[table])) == sorted(map(json.dumps, own))
        assert [event["row"] for event in told["events"]] == sorted(
            event["row"] for event in told["events"]
        )
        assert sum(event["event"] == "gap" for event in told["events"]) == len(told["gaps"])


def test_names_can_be_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, TOUR, "--vbucket", "417", "--messages", "--redact")
    assert "datatype::0" not in text
    assert "fruit" not in text
    assert " (0x8):" in text
    assert "market.fruit (0x8):datatype::0" in shown(capsys, TOUR, "--vbucket", "417", "--messages")


def test_a_file_has_whole_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "told.txt"
    assert main(["timeline", ROLLBACK, "--vbucket", "7", "-o", str(path), "--format", "text"]) == 0
    assert path.read_text("utf-8") == shown(capsys, ROLLBACK, "--vbucket", "7")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--vbucket", "5"], "--vbucket 5: no stream of this vbucket was captured; there are 7–10"),
        (
            ["--vbucket", "7", "--connection", "9"],
            "--connection 9: no stream of vbucket 7 is on it; 'dcpinspect streams --vbucket 7' lists all",
        ),
        (
            ["--vbucket", "7", "--seqnos", "9-5"],
            "--seqnos 9-5: write the first and the last seqno, as in 100-2000",
        ),
        (
            ["--vbucket", "7", "--seqnos", "0-18446744073709551616"],
            "--seqnos 0-18446744073709551616: write the first",
        ),
        (["--vbucket", "7", "--width", "9"], "--width 9: write a number from 60 to 1000"),
        (
            ["--vbucket", "7", "--format", "csv"],
            "--format csv: a timeline is text or one JSON object",
        ),
        (["--vbucket", "7", "--format", "json", "--messages"], "--messages: json does not use it"),
        (["--vbucket", "70000"], "--vbucket 70000: write a whole number from 0 to 65535"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", ROLLBACK, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"dcpinspect: {says}")
    assert err.count("\n") == 1


def test_a_capture_without_dcp_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    assert main(["timeline", str(path), "--vbucket", "7"]) == 0
    assert capsys.readouterr() == ("", f"dcpinspect: {path}: no packets\n")


def test_a_filter_tells_of_some_streams_only(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(
        shown(
            capsys,
            ROLLBACK,
            "--vbucket",
            "7",
            "--filter",
            "answer = 'accepted' and gaps > 0",
            "--format",
            "json",
        )
    )
    whole = json.loads(shown(capsys, ROLLBACK, "--vbucket", "7", "--format", "json"))
    wanted = [one for one in whole["streams"] if one["answer"] == "accepted" and one["gaps"]]
    assert told["streams"] == wanted
    assert len(wanted) == 1 < len(whole["streams"])


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "items > 1000",
            "--filter items > 1000: true for no stream of vbucket 7; 'dcpinspect streams --vbucket 7' lists all",
        ),
        ("itemz > 1", "--filter: no column is called itemz; did you mean items?"),
    ],
)
def test_a_filter_that_leaves_nothing_is_refused(
    condition: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", ROLLBACK, "--vbucket", "7", "--filter", condition]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"dcpinspect: {message}"


def test_several_captures_are_one_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_capture(Path(ROLLBACK)) as opened:
        (batch,) = list(opened)
    packets = [
        Recorded(batch.data[at : at + size].tobytes(), wire, time_ns)
        for at, size, wire, time_ns in zip(
            batch.offset.tolist(),
            batch.captured.tolist(),
            batch.wire.tolist(),
            batch.time_ns.tolist(),
            strict=True,
        )
    ]
    for name, part in (("a.pcap", packets[:60]), ("b.pcap", packets[60:])):
        (tmp_path / name).write_bytes(pcap(part))
    parts = shown(capsys, str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap"), "--vbucket", "7")
    seconds = re.compile(r"\d\.\d{6}")  # of which the copy has fewer digits
    assert seconds.sub("", parts) == seconds.sub("", shown(capsys, ROLLBACK, "--vbucket", "7"))


def test_since_and_until_leave_the_streams_that_go_on_then_and_what_happens_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = (TOUR, "--vbucket", "417", "--format", "json")
    whole = json.loads(shown(capsys, *arguments))
    timed = [one["time"] for one in whole["events"] if one["time"] is not None]
    middle = timed[len(timed) // 2]
    since, until = (
        [time for time in timed if time >= middle],
        [time for time in timed if time < middle],
    )
    for option, expected in (("--since", since), ("--until", until)):
        told = json.loads(shown(capsys, *arguments, option, middle))
        assert [one["time"] for one in told["events"] if one["time"] is not None] == expected != []
        assert len(told["events"]) < len(whole["events"])
    text = shown(capsys, TOUR, "--vbucket", "417", "--since", middle)
    assert text.splitlines()[0].endswith(" UTC on")
    assert main(["timeline", TOUR, "--vbucket", "417", "--since", "1d"]) == 2
    assert capsys.readouterr().err.startswith(
        "dcpinspect: no stream of vbucket 417 is to be shown from "
    )


def test_what_a_packet_without_a_message_shows_has_its_time_and_the_row_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stalled = str(field("p06-zero-window"))
    [line] = [
        line
        for line in shown(capsys, stalled, "--vbucket", "900").splitlines()
        if "tcp-window-zero" in line
    ]
    row, time, *_ = line.split()
    assert main(["read", stalled, "-f", "csv", "--columns", "row,time_ns"]) == 0
    times = [int(line.split(",")[1]) for line in capsys.readouterr().out.splitlines()[1:]]
    announced_ns = times[0] + round(float(time) * 1e9)
    last_row = int(row) == len(times)
    assert times[int(row) - 1] <= announced_ns
    assert last_row or announced_ns <= times[int(row)]


def test_a_snapshot_without_items_says_up_to_where_it_came(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["timeline", str(SAMPLES / "snapshots.pcap"), "--vbucket", "16"]) == 0
    out = capsys.readouterr().out
    assert "complete-seqno-advanced, no items up to seqno 33" in out
    assert "0 items" not in out


def test_a_broken_value_of_a_request_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, str(real_server("coll-filter")), "--vbucket", "1").splitlines()
    (request,) = (line for line in lines if line.startswith(" 53") and "request from" in line)
    assert request.endswith('request from 0: refused: einval; no end, {"collections":["8"')


def test_messages_without_a_stream_count_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(real_server("consumer-errors-66"))
    heading, *lines = shown(capsys, path, "--vbucket", "9").splitlines()
    assert heading == "vb 9 · 1 connection · 0 streams"
    assert lines[1] == "no stream      row 82: none was opened"
    assert "#1" not in "\n".join(lines)
    assert sum("messages came for which no stream was opened" in line for line in lines) == 1
    assert "\n\n\n" not in "\n".join(lines)


def test_a_connection_that_closed_before_the_answer_has_its_letter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = shown(capsys, str(field("q09-only-dst-port")), "--vbucket", "900")
    assert "\n  events    C  connection closed\n\nQ request  C connection closed\n" in out
