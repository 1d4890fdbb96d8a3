from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from dcpinspect.cli.main import main
from tests.findings.logs.written import failovers, producer, rollback
from tests.headings import headings, rows
from tests.peers.truth import SAMPLES


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "memcached.log"
    lines = [
        rollback(vbucket, time=f"2026-03-01T10:00:0{vbucket}.000000+01:00") for vbucket in range(3)
    ]
    path.write_text("\n".join([*lines, failovers(1, (0xB2, 900), (0xA1, 0))]) + "\n")
    return str(path)


def test_lines_say_what_happened(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", log, "--columns", "time,event,vbucket,rollback_seqno", "-n", "1"]) == 0
    out = capsys.readouterr()
    assert out.out.splitlines()[1].split() == [
        "2026-03-01T09:00:00.000000Z",
        "rollback",
        "0",
        "900",
    ]
    assert out.err == ""


def test_what_a_rule_finds_in_a_line_has_the_colour_of_its_severity(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["log", log, "--color", "always", "--columns", "event,vbucket"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 4
    assert [line.startswith("\x1b[33mrollback") for line in lines] == [True] * 3 + [False]


@pytest.mark.parametrize("width", ["80", "120"])
def test_why_is_told_below_its_row_and_takes_no_column_from_the_rest(
    log: str, width: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", log, "--filter", "event = 'rollback'", "--width", width]) == 0
    lines = capsys.readouterr().out.splitlines()
    row, reason, *_ = rows(lines)
    assert {"start_seqno", "rollback_seqno"} <= {*headings(lines)}
    assert {"1000", "900"} <= {*row.split()}
    assert reason == "    consumer ahead of producer - producer upper at 900"


def test_states_and_rollbacks_are_told_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memcached.log"
    states = producer("State changed to in_memory, closing active stream!", 3)
    path.write_text(f"{rollback(3, start=1_000_000)}\n{states}\n")
    assert main(["log", str(path), "--width", "80"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row, reason, *_ = rows(lines)
    assert {"name", "start_seqno", "rollback_seqno"} <= {*headings(lines)}
    assert row.split()[1:] == ["rollback", "3", "eq_dcpq:reader:1", "1000000", "900"]
    assert reason == "    consumer ahead of producer - producer upper at 900"
    assert "    state in_memory" in lines


@pytest.mark.parametrize("width", ["60", "80", "120", "200"])
def test_branches_of_a_failover_log_are_told_at_every_width(
    log: str, width: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", log, "--filter", "event = 'failover-log'", "--width", width]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "seqno=900, uuid=0x00000000000000a1 seqno=0" in out
    assert log not in out, "the file is the one of the command line"
    assert main(["log", log, "--columns", "file"]) == 0
    assert log in capsys.readouterr().out


def test_a_rollback_to_0_is_told_where_the_column_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memcached.log"
    states = producer("State changed to takeover_send, closing active stream!", 3)
    path.write_text(f"{rollback(3).replace('900', '0')}\n{states}\n")
    assert main(["log", str(path), "--width", "58"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row, reason, *_ = rows(lines)
    assert row.split()[1:] == ["rollback", "3", "eq_dcpq:reader:1"]
    assert reason.startswith("    rollback_seqno 0 · ")


def test_where_a_stream_stood_when_it_was_closed_is_told_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memcached.log"
    closed = producer(
        "Stream closing, sent until seqno 1595 remaining items 0, reason: The stream closed early "
        "due to a close stream message",
        3,
    )
    states = producer("State changed to in_memory, closing active stream!", 3)
    path.write_text(f"{rollback(3, start=1_000_000)}\n{states}\n{closed}\n")
    assert main(["log", str(path), "--width", "80"]) == 0
    *_, row, below, _, sums = capsys.readouterr().out.splitlines()
    assert sums == "3 records: 1 rollback; check --log says what to do"
    assert row.split()[1:] == ["stream-closed", "3", "eq_dcpq:reader:1"]
    assert below == "    last_seqno 1595"


def test_a_file_without_a_record_has_no_empty_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "statistics.txt"
    path.write_text("ep_dcp_count 0\n")
    assert main(["log", str(path)]) == 2
    assert capsys.readouterr().out == ""
    assert main(["log", str(path), "-f", "csv"]) == 2
    assert capsys.readouterr().out.startswith('"file",'), "programs get the names of columns"


def test_records_can_be_chosen_and_sorted(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--vbucket",
        "1-2",
        "--filter",
        "event = 'rollback'",
        "--sort",
        "vbucket",
        "--reverse",
        "-f",
        "ndjson",
    ]
    assert main(["log", log, *arguments]) == 0
    assert [orjson.loads(line)["vbucket"] for line in capsys.readouterr().out.splitlines()] == [
        2,
        1,
    ]


def test_records_can_be_chosen_by_time(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", log, "--since", "09:00:01", "--until", "09:00:02", "-f", "ndjson"]) == 0
    assert [orjson.loads(line)["vbucket"] for line in capsys.readouterr().out.splitlines()] == [1]


def test_what_was_not_understood_is_told(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(log).open("a") as file:
        file.write(producer("Something new") + "\n")
    assert main(["log", log]) == 0
    assert "1 about DCP in no known form" in capsys.readouterr().err


def test_a_file_without_a_record_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.txt"
    path.write_text("nothing\n")
    assert main(["log", str(path)]) == 2
    assert "0 records, 1 that are no lines of a log" in capsys.readouterr().err
    assert main(["log", str(tmp_path / "none")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_a_line_that_is_too_long_makes_the_file_damaged(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(log).open("ab") as file:
        file.write(b"x" * 100_000)
    assert main(["log", log]) == 3
    assert "1 too long to be read" in capsys.readouterr().err


def test_a_capture_is_named_as_one_with_the_command_that_reads_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["log", str(SAMPLES / "rollback.pcap")]) != 0
    assert capsys.readouterr().err.endswith(
        "; it has the name of a capture, which 'dcpinspect check' reads\n"
    )
