"""A finding is told once, when it has stood for some time, and not too often; whatever shows it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.cli import teller
from dcpinspect.cli.main import main
from dcpinspect.cli.output import open_output as output_opened
from dcpinspect.cli.teller import (
    AT_ONCE,
    HOUR_NS,
    AnnouncedFindings,
    Announcer,
    Teller,
    TellingStyle,
)
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.finding_records import FINDINGS
from dcpinspect.output.export.formats import FORMATS, TEXT, Format
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.output.export.target import Target
from dcpinspect.reading.reading import Reading
from tests.schemas import validate
from tests.streams.told import capture, opened

SAMPLES = Path(__file__).parents[2] / "sample_captures"


class Kept(Target):
    """Output that is kept in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, data: bytes | memoryview) -> int:
        """Takes whole lines."""
        self.lines += bytes(data).splitlines()
        return len(data)

    def tell(self) -> int:
        """Nobody asks."""
        return 0


def faulty(tmp_path: Path, count: int) -> Path:
    """So many vbuckets that go backwards, one after the other."""
    talk = opened()
    for vbucket in range(count):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        stream.mutation(5, "k")
        stream.mutation(2, "l")
    path = tmp_path / "faulty.pcap"
    path.write_bytes(capture(talk))
    return path


def scene(path: Path) -> Reading:
    with Reading([str(path)]) as reading:
        reading.check()
        for _ in reading:
            pass
        return reading


@pytest.fixture(autouse=True)
def _always_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teller, "EVERY_S", 0.0)
    monkeypatch.setattr(teller, "SHARE", 0)


def test_what_was_told_is_not_told_again_by_who_goes_on_later() -> None:
    seen, known, out = scene(SAMPLES / "loop.pcap"), AnnouncedFindings(), Kept()
    tells = Teller(
        out, TellingStyle(is_text=False, severity="warning", settle_ns=5), announced=known
    )
    assert tells.check_when_due(seen, 1)
    assert out.lines == []
    assert tells.check_when_due(seen, 6)
    assert "rollback-loop" in {json.loads(line)["rule"] for line in out.lines}
    assert sum(tells.counts.values()) == len(out.lines)
    again = Teller(
        out,
        TellingStyle(is_text=False, severity="warning"),
        announced=AnnouncedFindings.from_rows(json.loads(json.dumps(known.rows()))),
    )
    again.end(seen, 7, is_whole=False)
    assert not again.counts


def test_a_clock_that_is_set_back_keeps_no_finding_back() -> None:
    seen, out = scene(SAMPLES / "loop.pcap"), Kept()
    tells = Teller(out, TellingStyle(is_text=False, severity="warning", settle_ns=5))
    assert tells.check_when_due(seen, HOUR_NS)
    assert out.lines == []
    assert tells.check_when_due(seen, 1)
    assert "rollback-loop" in {json.loads(line)["rule"] for line in out.lines}


def test_lines_of_a_kind_are_few_within_an_hour(tmp_path: Path) -> None:
    out = Kept()
    tells = Teller(out, TellingStyle())
    for count in range(1, AT_ONCE + 3):
        assert tells.check_when_due(scene(faulty(tmp_path, count)), 1)
    assert len(out.lines) == AT_ONCE
    assert tells.summary[-1] == "2 more of the same kinds"
    assert tells.check_when_due(scene(faulty(tmp_path, AT_ONCE + 3)), HOUR_NS + 1)
    assert len(out.lines) == AT_ONCE + 1
    assert b"; 2 more like it were not told; " in out.lines[-1]


def test_a_finding_is_remembered_with_its_severity_and_how_often_it_had_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (one,) = findings(1)
    known = AnnouncedFindings()
    assert known.is_worse(one)
    assert (known.before(one), known.has_grown(one)) == (0, False)
    known.add(replace(one, severity="warning", count=3))
    assert not known.is_worse(replace(one, severity="note"))
    assert known.is_worse(one)
    assert [known.has_grown(replace(one, count=count)) for count in (3, 29, 30)] == [
        False,
        False,
        True,
    ]
    known.add(replace(one, count=30))
    assert not known.is_worse(one)
    assert not known.has_grown(replace(one, count=299))
    monkeypatch.setattr(teller, "MOST", 2)
    others = [replace(one, vbuckets=(number,)) for number in (100, 101)]
    for other in others:
        known.add(other)
    assert [known.is_worse(other) for other in (one, *others)] == [True, False, False]


def findings(count: int) -> list[Finding]:
    with Reading([str(SAMPLES / "loop.pcap")]) as reading:
        reading.check()
        list(reading)
        return reading.findings()[:count]


pytestmark = pytest.mark.slow

ROLLBACK = str(SAMPLES / "rollback.pcap")


def watched(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch, format_: Format = TEXT
) -> list[str]:
    """What is written of a capture that comes packet by packet, looked at whenever something
    came.
    """
    monkeypatch.setattr(teller, "EVERY_S", 0.0)
    monkeypatch.setattr(teller, "SHARE", 0)
    reading = Reading(open_capture([str(path)], batch_bytes=200))
    with reading, output_opened(str(target), format_, []) as out:
        announcer = Announcer(reading, out, format_, pauses=True)
        for _ in reading:
            announcer.check_when_due()
        announcer.end(is_whole=True)
    return target.read_text("utf-8").splitlines()


def test_three_lines_of_a_kind_are_told_as_watch_tells_them_and_name_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = watched(faulty(tmp_path, 12), tmp_path / "out.txt", monkeypatch)
    end = lines.index("")
    assert [re.sub(r"^\S+T\S+ ", "", line).partition("; next: ")[0] for line in lines[:end]] == [
        "error seqno-not-increasing: seqno 2 came after seqno 5; client test:1 "
        "(10.0.0.1:50000, test/1.0), server 10.0.0.2:11210, "
        f"connection 1, vb {vbucket}, row {row}; the server has to act"
        for vbucket, row in ((0, 9), (1, 14), (2, 19))
    ]
    assert lines[end + 1].startswith("12 vbuckets have messages that break the protocol")
    assert lines[end + 3] == "✖ seqno-not-increasing: seqno 2 came after seqno 5"
    assert lines[end + 4].endswith("connection 1, 12 vbuckets: 0–11")


def test_ndjson_has_records_of_the_contract_that_say_whether_they_are_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = watched(faulty(tmp_path, 12), tmp_path / "out.ndjson", monkeypatch, FORMATS["ndjson"])
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for record in records:
        validate(record, table_schema(FINDINGS))
    errors = [
        (record["is_final"], record["vbuckets"])
        for record in records
        if record["severity"] == "error"
    ]
    assert errors == [(False, [0]), (False, [1]), (False, [2]), (True, list(range(12)))]


def test_looks_are_no_more_often_than_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, looks = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with (
        Reading([str(faulty(tmp_path, 1))]) as reading,
        output_opened(str(tmp_path / "x"), TEXT, []) as out,
    ):
        announcer = Announcer(reading, out, TEXT, pauses=True)
        found = reading.checker.findings

        def slow(*arguments: Any, **options: Any) -> Any:
            looks.append(now[0])
            now[0] += 0.5
            return found(*arguments, **options)

        monkeypatch.setattr(reading.checker, "findings", slow)
        for _ in range(200):
            announcer.check_when_due()
            now[0] += 0.1
    assert looks[0] == 100
    assert min(b - a for a, b in pairwise(looks)) >= teller.SHARE * 0.5


def test_of_files_all_is_said_once_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ROLLBACK, "--all"]) == 0
    report = capsys.readouterr().out
    assert main(["read", ROLLBACK, "--opcode", "dcp_open", "--check"]) == 0
    messages, _, rest = capsys.readouterr().out.partition("\n\n")
    assert len(messages.splitlines()) == 5
    assert rest == report


def test_a_file_that_grows_is_watched(tmp_path: Path) -> None:
    data = faulty(tmp_path, 1).read_bytes()
    path = tmp_path / "growing.pcap"
    path.write_bytes(data)
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "read",
        "--follow",
        str(path),
        "--check",
        "--opcode",
        "dcp_open",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        shown = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert " error seqno-not-increasing: seqno 2 came after seqno 5; " in shown[-1]
    assert "connection 1, vb 0, row 9; " in shown[-1]
    assert "\n1 vbucket has messages that break the protocol" in rest


def test_what_is_redacted_is_redacted_in_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "secret")
    stream.mutation(2, "secret")
    path = tmp_path / "twice.pcap"
    path.write_bytes(capture(talk))
    for arguments, advises_elsewhere in (([], True), (["--redact"], False)):
        assert main(["read", str(path), "--opcode", "dcp_open", "--check", *arguments]) == 0
        shown = capsys.readouterr().out
        assert "duplicate-key-in-snapshot" in shown
        assert ("secret" in shown) == advises_elsewhere


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--check", "-f", "csv"],
            "--check: csv does not use it; it is for --format text or ndjson",
        ),
        (["--check", "-o", "x.parquet"], "--check: parquet does not use it"),
    ],
)
def test_what_does_not_go_with_it_is_said(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", ROLLBACK, *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"dcpinspect: {says}")
