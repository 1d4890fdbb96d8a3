"""What ``watch`` tells, and when: real programs that watch pipes and files that grow."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dcpinspect.protocol.encode import encode
from tests.builders import pcap
from tests.cli.test_watch import BACKWARDS, HEADER, PROGRAM, backwards, parsed, records, watching
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, capture, opened

pytestmark = pytest.mark.slow


def test_a_finding_is_a_line_with_when_and_who_and_is_told_once_while_the_file_grows(
    tmp_path: Path,
) -> None:
    talk = opened()
    backwards(talk, 7)
    path = tmp_path / "growing.pcap"
    path.write_bytes(capture(talk))
    with watching("--follow", str(path), "--settle", "1s") as running:
        line = running.line()
        assert running.is_silent(3)
        assert running.end(signal.SIGTERM) == []
    severity, rule, rest = parsed(line)
    assert (severity, rule) == ("error", BACKWARDS)
    assert rest.startswith(
        "seqno 2 came after seqno 5; "
        "client test:1 (10.0.0.1:50000, test/1.0), server 10.0.0.2:11210, connection 1, vb 7; "
        "the server has to act; next: "
    )
    assert re.match(r"2023-11-15T03:43:20\.\d{3}\+05:30 ", line)
    assert running.process.returncode == 0
    assert running.told[-1].endswith("1 connection, 1 stream open, told 1 error")


@pytest.mark.parametrize("name", ["rollback", "loop", "orphans"])
def test_what_an_answer_contradicts_within_the_time_to_settle_is_not_told(name: str) -> None:
    """A rollback is of an unknown cause until the failover log comes, and a loop grows."""
    data = (SAMPLES / f"{name}.pcap").read_bytes()
    with watching("-", "-f", "ndjson", "--settle", "1.5s") as running:
        at = HEADER
        running.put(data[:at])
        while at < len(data):
            size = 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            running.put(data[at : at + size])
            at += size
            time.sleep(0.01)
        found = [json.loads(line) for line in running.end()]
    done = subprocess.run(
        [*PROGRAM[:-1], "check", "-", "-f", "ndjson"], input=data, capture_output=True, check=False
    )
    final = {
        (one["rule"], one["cause"], one["severity"])
        for one in map(json.loads, done.stdout.splitlines())
    }
    assert {(one["rule"], one["cause"], one["severity"]) for one in found} == final
    assert ("rollback", "unknown", "note") not in final


def test_what_no_message_shows_has_the_time_of_its_connection() -> None:
    """Bytes in no message, of two connections; the second began ten seconds later."""
    first, second = opened(), opened(port=50_001)
    for talk in (first, second):
        talk.send("client", b"\x01" * 40 + encode("dcp_noop", opaque=5), raw=True)
    first.wait(10)
    with watching("-", "--rule", "undecoded-bytes", environment={"TZ": "UTC"}) as running:
        running.put(capture(first, second))
        lines = running.end()
    assert lines
    assert all(line.startswith("2023-11-14T22:13:20.") for line in lines)


def waiting(answer: bool) -> tuple[list[bytes], list[bytes]]:
    """The packets of a connection that goes on while a request waits for ten seconds; and those of
    the answer, if there is one.
    """
    talk = opened()
    talk.send("client", encode("dcp_control", opaque=77, key="enable_noop", value="true"))
    for _ in range(5):
        talk.wait(2)
        talk.noop()
    before = len(records(talk))
    if answer:
        talk.send("server", encode("dcp_control", "response", opaque=77))
    return records(talk)[:before], records(talk)[before:]


def test_an_answer_that_has_not_come_yet_is_not_told() -> None:
    first, last = waiting(answer=True)
    with watching(
        "-", "--settle", "0s", "--patience", "20s", "--rule", "missing-response"
    ) as running:
        running.put(pcap([]) + b"".join(first))
        assert running.is_silent(4)
        running.put(b"".join(last))
        assert running.end() == []


def test_what_does_not_come_is_told_when_it_has_not_come_for_long() -> None:
    first, _ = waiting(answer=False)
    with watching("-", "--rule", "missing-response", "--patience", "2s") as running:
        running.put(pcap([]) + b"".join(first))
        start = time.monotonic()
        severity, rule, rest = parsed(running.line())
        assert time.monotonic() - start >= 2
    assert (severity, rule) == ("warning", "missing-response")
    assert rest.startswith("dcp_control unanswered for 10.0 s; ")


def test_watching_that_is_ended_tells_nothing_that_may_still_come() -> None:
    first, _ = waiting(answer=False)
    with watching("-", "--rule", "missing-response", "--summary", "200ms") as running:
        running.put(pcap([]) + b"".join(first))
        while not any(" 0 messages" not in line and "packets" in line for line in running.told):
            time.sleep(0.05)
        assert running.end(signal.SIGTERM) == []
    assert running.process.returncode == 0


def test_many_vbuckets_are_one_line(tmp_path: Path) -> None:
    talk = opened()
    backwards(talk, *range(100))
    path = tmp_path / "many.pcap"
    path.write_bytes(capture(talk))
    with watching("--follow", str(path), "--settle", "1s") as running:
        _, rule, rest = parsed(running.line())
        assert running.end(signal.SIGINT) == []
    assert rule == BACKWARDS
    assert rest.startswith("seqno 2 came after seqno 5 (100 times); ")
    assert "connection 1, 100 vbuckets: 0–99; " in rest


def test_it_is_told_again_when_it_has_grown_a_lot() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(5, "k")
    counts = [len(records(talk))]
    for times in (1, 1, 20):
        for _ in range(times):
            stream.mutation(2, "l")
        counts.append(len(records(talk)))
    data = records(talk)
    with watching("-", "--settle", "0s", "--rule", BACKWARDS) as running:
        running.put(pcap([]) + b"".join(data[: counts[1]]))
        assert parsed(running.line())[2].startswith("seqno 2 came after seqno 5; ")
        running.put(b"".join(data[counts[1] : counts[2]]))
        assert running.is_silent(2.5)
        running.put(b"".join(data[counts[2] :]))
        assert parsed(running.line())[2].startswith(
            "seqno 2 came after seqno 5 (22 times, 1 when told before); "
        )
        assert running.end() == []


@pytest.mark.deep  # it waits for ten seconds
def test_three_lines_of_a_kind_are_told_in_an_hour_and_then_how_many_were_left_out() -> None:
    talk, ends = opened(), []
    for vbucket in range(6):
        if vbucket == 5:
            talk.wait(3700)
        backwards(talk, vbucket)
        ends.append(len(records(talk)))
    data = records(talk)
    lines = []
    with watching("-", "--settle", "0s", "--rule", BACKWARDS, "--summary", "500ms") as running:
        running.put(pcap([]))
        for start, end in zip([0, *ends], ends, strict=False):
            running.put(b"".join(data[start:end]))
            if start < ends[2] or end == ends[5]:
                lines.append(parsed(running.line())[2])
            else:
                assert running.is_silent(2.5)
        assert running.end() == []
    assert [re.search(r"vb (\d)", line)[1] for line in lines] == ["0", "1", "2", "5"]  # type: ignore[index] # each has one
    assert "; 2 more like it were not told; " in lines[-1]
    assert any("told 3 errors, 2 more of the same kinds" in line for line in running.told)


def test_a_line_says_now_and_then_how_much_there_was() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with watching("-", "--summary", "300ms") as running:
        running.put(pcap([]) + b"".join(records(talk)))
        while not running.told or "1 stream open" not in running.told[-1]:
            time.sleep(0.05)
        running.end(signal.SIGHUP)
    assert re.fullmatch(
        (
            r"dcpinspect: watched -: \d+ packets, \d+ messages, 1 connection, 1 stream open, told "
            r"nothing"
        ),
        running.told[-1],
    )
    assert running.process.returncode == 0


def test_the_line_comes_also_when_nothing_does() -> None:
    with watching("-", "--summary", "300ms") as running:
        running.put(pcap([]))
        while len(running.told) < 3:
            time.sleep(0.05)
        running.end(signal.SIGHUP)
    assert set(running.told[:3]) == {
        "dcpinspect: watched -: 0 packets, 0 messages, 0 connections, 0 streams open, told nothing"
    }


def test_the_journal_is_told_the_severity_of_each_line(tmp_path: Path) -> None:
    """It is the one that the variable names, not any other file that output goes to."""
    data, out = (SAMPLES / "loop.pcap").read_bytes(), tmp_path / "journal"
    for is_journal in (True, False):
        with out.open("wb") as file:
            state = os.fstat(file.fileno())
            stream = f"{state.st_dev}:{state.st_ino if is_journal else 1}"
            subprocess.run(
                [*PROGRAM, "-"],
                input=data,
                stdout=file,
                env={**os.environ, "JOURNAL_STREAM": stream},
                check=True,
            )
        for line in out.read_text().splitlines():
            prefix = (
                {"error": "<3>", "warning": "<4>", "note": "<5>"}[line.split()[1]]
                if is_journal
                else ""
            )
            assert line.startswith(prefix + "20")


def test_no_name_from_the_wire_gets_through_as_a_control_character() -> None:
    talk = Told("evil\x1b[31m\n<3>2024 error\u202e:1")
    talk.hello("agent\x07\r\n/1.0", "JSON")
    talk.select_bucket("bu\x1b]0;x\x07ck\net")
    talk.open("evil\x1b[31m\n<3>2024 error\u202e:1", "producer")
    backwards(talk, 7)
    with watching("-", "--rule", BACKWARDS) as running:
        running.put(capture(talk))
        (line,) = running.end()
    assert parsed(line)[1] == BACKWARDS
    assert line.isprintable()
    assert "bucket bu\\x1b]0;x\\x07ck\\x0aet" in line
