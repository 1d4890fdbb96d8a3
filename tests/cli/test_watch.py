"""``dcpinspect watch``: real programs that watch pipes, files that grow and interfaces, and what
they say at which moment.
"""

from __future__ import annotations

import json
import os
import queue
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from dcpinspect.cli.main import main
from dcpinspect.findings.finding_records import FINDINGS
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.reading.reading import Reading
from tests.builders import START_NS, Recorded, pcap
from tests.cli.test_live import told as tell_story
from tests.crowd import crowd, messages
from tests.encode import encode
from tests.peers.network import NEEDS_ROOT, namespaces
from tests.peers.stories import STORIES
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, capture, opened, packets

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-m", "dcpinspect", "watch"]
HEADER = 24
LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (error|warning|note) ([a-z-]+): (.*)"
)
BACKWARDS = "seqno-not-increasing"


def records(talk: Told) -> list[bytes]:
    """The packets of a conversation, each as it stands in a pcap file."""
    return [pcap([Recorded(one.data, one.wire, one.time_ns)])[HEADER:] for one in packets(talk)]


def backwards(talk: Told, *vbuckets: int) -> None:
    """Vbuckets that go backwards."""
    for vbucket in vbuckets:
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        stream.mutation(5, "k")
        stream.mutation(2, "l")


class Watching:
    """``dcpinspect watch`` at work."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.told: list[str] = []
        """What it said on standard error."""
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._read_out, self._read_err)
        ]
        for thread in self._threads:
            thread.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.decode())
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        self.told += (line.decode().removesuffix("\n") for line in self.process.stderr)

    def line(self) -> str:
        """The next finding."""
        line = self._lines.get(timeout=120)
        assert line is not None, self.told
        return line.removesuffix("\n")

    def is_silent(self, seconds: float) -> bool:
        """Whether it says nothing for so long."""
        try:
            return self._lines.get(timeout=seconds) is None
        except queue.Empty:
            return True

    def put(self, data: bytes) -> None:
        """More of the capture, on its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self, number: int | None = None) -> list[str]:
        """The rest of the findings, after a signal, or the end of standard input."""
        if number is not None:
            self.process.send_signal(number)
        else:
            assert self.process.stdin is not None
            self.process.stdin.close()
        return self.rest()

    def rest(self) -> list[str]:
        """The rest of the findings, once it has ended."""
        self.process.wait(120)
        for thread in self._threads:
            thread.join()
        return [line.removesuffix("\n") for line in iter(self._lines.get, None) if line]


@contextmanager
def watching(
    *arguments: str, namespace: str | None = None, environment: dict[str, str] | None = None
) -> Iterator[Watching]:
    command = [
        *([] if namespace is None else ["ip", "netns", "exec", namespace]),
        *PROGRAM,
        *arguments,
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        command, env={**os.environ, "TZ": "Asia/Kolkata", **(environment or {})}, **pipes
    ) as process:  # type: ignore[call-overload] # pipes
        try:
            yield Watching(process)
        finally:
            process.kill()


def parsed(line: str) -> tuple[str, str, str]:
    """Severity, rule and the rest of a line."""
    found = LINE.fullmatch(line)
    assert found is not None, line
    return found[1], found[2], found[3]


def test_a_pipe_is_told_what_check_says_of_it_once_it_ends() -> None:
    data = (SAMPLES / "orphans.pcap").read_bytes()
    with watching("-", "-f", "ndjson") as running:
        running.put(data)
        found = [json.loads(line) for line in running.end()]
    done = subprocess.run(
        [*PROGRAM[:-1], "check", "-", "-f", "ndjson"], input=data, capture_output=True, check=False
    )
    checked = [json.loads(line) for line in done.stdout.splitlines()]
    for one in found:
        jsonschema.validate(one, table_schema(FINDINGS))
    key = "id"
    assert {one[key]: one for one in found} == {one[key]: one for one in checked}
    assert running.process.returncode == 0
    assert re.fullmatch(
        (
            r"dcpinspect: watched -: 100 packets, 107 messages, 1 connection, 0 streams open, told "
            r"2 errors, 1 warning, 5 notes"
        ),
        running.told[-1],
    )


def test_connections_that_left_memory_count() -> None:
    with watching("-") as running:
        running.put(b"".join(crowd([messages], 2500, closed=True)))
        running.end()
    assert ", 2,500 connections, " in running.told[-1]


@pytest.mark.parametrize("stop", [BACKWARDS, "error", "warning", "note"])
def test_it_ends_with_status_1_when_such_a_finding_is_told(stop: str) -> None:
    talk = opened()
    backwards(talk, 7)
    with watching("-", "--settle", "500ms", "--stop-on", stop, "--rule", BACKWARDS) as running:
        running.put(pcap([]) + b"".join(records(talk)))
        assert parsed(running.line())[1] == BACKWARDS
        assert running.rest() == []
        assert running.process.returncode == 1


def test_it_goes_on_when_what_is_told_is_milder() -> None:
    with watching("-", "--stop-on", "error") as running:
        running.put((SAMPLES / "rollback.pcap").read_bytes())
        assert len(running.end()) == 6
    assert running.process.returncode == 0


@pytest.mark.requires("capinfos", "tshark")
def test_the_packets_around_a_finding_are_saved_and_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = opened()
    for seconds in range(100):
        talk.noop()
        talk.wait(1)
        if seconds == 50:
            backwards(talk, 7)
    path, folder = tmp_path / "x.pcap", tmp_path / "saved"
    path.write_bytes(capture(talk))
    folder.mkdir()
    with watching(
        "-", "--save-around", "10s", "--save-to", str(folder), "--rule", BACKWARDS
    ) as running:
        running.put(path.read_bytes())
        (line,) = running.end()
    (saved,) = folder.iterdir()
    assert re.fullmatch(rf"20231114T2214\d\d\.\d{{3}}Z-{BACKWARDS}\.pcapng", saved.name)
    about = subprocess.run(["capinfos", saved], capture_output=True, text=True, check=True).stdout
    assert f"Capture comment:     {line}" in about
    shown = subprocess.run(
        ["tshark", "-r", saved, "-T", "fields", "-e", "frame.time_epoch"],
        capture_output=True,
        text=True,
        check=True,
    )
    times = [float(time) for time in shown.stdout.split()]
    happened = datetime.fromisoformat(line.partition(" ")[0]).timestamp()
    assert happened - 12 <= times[0] <= happened - 9
    assert times == sorted(set(times))
    assert main(["check", str(saved), "-f", "ndjson"]) == 1
    assert BACKWARDS in {json.loads(one)["rule"] for one in capsys.readouterr().out.splitlines()}
    assert f"dcpinspect: {saved}: saved {len(times)} packets around {BACKWARDS}" in running.told


def test_packets_for_which_there_is_no_room_make_the_status_3(tmp_path: Path) -> None:
    saving = ["--save-around", "10s", "--save-to", str(tmp_path)]
    done = subprocess.run(
        [*PROGRAM, "-", *saving],
        input=(SAMPLES / "orphans.pcap").read_bytes(),
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert b"File too large; packets are missing there, watching goes on" in done.stderr
    assert (done.returncode, list(tmp_path.iterdir())) == (3, [])


def test_the_file_of_a_silence_has_what_came_before_it(tmp_path: Path) -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    for wait in (*[1] * 10, 300, 1):
        talk.noop()
        talk.wait(wait)
    talk.noop()
    sent, before = records(talk), sum(one.time_ns < START_NS + 100e9 for one in packets(talk))
    silent = ["--save-around", "1s", "--save-to", str(tmp_path), "--rule", "silent-connection"]
    with watching("-", "--settle", "1s", *silent) as running:
        for part in (pcap([]) + b"".join(sent[:before]), b"".join(sent[before:])):
            running.put(part)
            time.sleep(3)  # looks at what there is
        assert len(running.end()) == 1
    (saved,) = tmp_path.iterdir()
    with Reading([str(saved)]) as reading:
        times = [int(time_ns) for batch in reading for time_ns in batch.time_ns]
    assert max(later - earlier for earlier, later in pairwise(times)) > 290e9


def test_a_program_gets_findings_as_json_and_its_output_is_not_among_them(tmp_path: Path) -> None:
    got = tmp_path / "got"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ncat >> {shlex.quote(str(got))}\necho noise\n")
    program.chmod(0o755)
    with watching("-", "--exec", str(program), "--exec-every", "1h", "-f", "ndjson") as running:
        running.put((SAMPLES / "loop.pcap").read_bytes())
        lines = [json.loads(line) for line in running.end()]
    # Nobody waits for the first program, so the second may write before it.
    given = {one["left_out"]: one for one in map(json.loads, got.read_text().splitlines())}
    causes = [one for one in lines if one["effect_of"] is None]
    assert given[0] == {
        **next(one for one in lines if one["rule"] == "rollback-loop"),
        "left_out": 0,
    }
    assert given.keys() == {0, len(causes) - 2}
    assert "noise" in running.told
    assert running.told[-1].endswith(", 2 programs started")


def test_what_is_redacted_is_redacted() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "secret")
    stream.mutation(2, "secret")
    for arguments, advises_elsewhere in (([], True), (["--redact"], False)):
        with watching("-", *arguments) as running:
            running.put(capture(talk))
            lines = running.end()
        assert any("duplicate-key-in-snapshot" in line for line in lines)
        assert any("secret" in line for line in lines) == advises_elsewhere


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_pipe_that_has_said_nothing_is_watched_until_a_signal(number: int) -> None:
    with watching("-", "--metrics", "127.0.0.1:0") as running:
        while not any("metrics are served" in line for line in running.told):
            time.sleep(0.05)
        time.sleep(0.5)  # from there to the pipe
        assert running.end(number) == []
    assert (running.process.returncode, running.told[1:]) == (
        0,
        ["dcpinspect: stopped before anything came"],
    )


@NEEDS_ROOT
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interface_is_watched_until_a_signal(number: int, tmp_path: Path) -> None:
    with (
        namespaces("watch") as (namespace,),
        watching(
            "-i",
            "lo",
            "--settle",
            "1s",
            "--save-around",
            "5s",
            "--save-to",
            str(tmp_path),
            namespace=namespace,
        ) as running,
    ):
        while not any("capturing" in line for line in running.told):
            time.sleep(0.05)
        tell_story(STORIES["rollback"](), namespace)
        rules = {parsed(running.line())[1]}
        rules |= {parsed(line)[1] for line in running.end(number)}
    assert "rollback" in rules
    assert running.process.returncode == 0
    assert re.fullmatch(
        r"dcpinspect: watched lo: .*, told .*, 0 dropped by the kernel, 1 file saved",
        running.told[-1],
    )
    assert not any("packets captured" in line for line in running.told), "packets are counted once"
    (saved,) = tmp_path.iterdir()
    with Reading([str(saved)]) as reading:
        assert sum(map(len, reading)) > 0
        assert reading.capture.problems == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name what to watch: -i eth0, --follow FILE, or - for standard input"),
        (["-", "--follow", "x"], "--follow and -: one thing at a time; leave out all but one"),
        (
            ["x.pcap"],
            (
                "x.pcap: --follow FILE watches a file that grows; 'dcpinspect check x.pcap' says "
                "what is wrong in a whole one"
            ),
        ),
        (
            ["-", "--stop-on", "rollback-lop"],
            (
                "--stop-on rollback-lop: no rule or severity has this name; did you mean "
                "rollback-loop or "
            ),
        ),
        (
            ["-", "--stop-on", "eror"],
            "--stop-on eror: no rule or severity has this name; did you mean error",
        ),
        (
            ["-", "--stop-on", "rollback", "--no-rule", "rollback"],
            "--stop-on rollback: this rule is not among those that are checked",
        ),
        (
            ["-", "--save-around", "soon"],
            "--save-around soon: write a length of time, as in 30s or 10m",
        ),
        (
            ["-", "--save-around", "1s", "--save-to", "/nowhere"],
            "--save-to /nowhere: there is no such directory; make it with mkdir, or check the name",
        ),
        (
            ["-", "--save-max", "3"],
            "--save-max: is for --save-around; give it a time, as in --save-around 30s",
        ),
        (
            ["-", "--save-around", "1s", "--redact"],
            "--save-around: packets have what --redact replaces; leave out one of the two",
        ),
        (["-", "--exec-every", "3s"], "--exec-every: is for --exec; name a program"),
        (["-", "--exec", "no-such-program-x"], "--exec: there is no program no-such-program-x; "),
        (["-", "--summary", "0s"], "--summary 0s: write a length of time above 0"),
        (["-", "-w", "x.pcapng"], "--write: is for interfaces; name one with -i"),
        (["-", "--rule", "gapp"], "--rule gapp: no rule has this name"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    arguments: Sequence[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"dcpinspect: {says}")
    assert err.count("\n") == 1


def test_a_standard_output_that_is_closed_ends_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"set -o pipefail; {shlex.join(PROGRAM)} - < {SAMPLES / 'loop.pcap'} | true",
        ],
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode in (0, 141)
    assert b"Traceback" not in done.stderr


def test_a_file_that_is_no_capture_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"no capture at all, and long enough")
    assert main(["watch", "--follow", str(path)]) == 2
    assert "is not a capture" in capsys.readouterr().err


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


def test_the_last_line_counts_the_lines_that_were_told_and_no_effects() -> None:
    with watching("-") as running:
        running.put((SAMPLES / "loop.pcap").read_bytes())
        lines = running.end()
    assert len(lines) == 3
    assert running.told[-1].endswith("told 1 error, 2 notes")


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
    assert rest.startswith("seqno 2 came after seqno 5; 100 times in all; ")
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
            "seqno 2 came after seqno 5; 22 times in all, 1 when told before; "
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
