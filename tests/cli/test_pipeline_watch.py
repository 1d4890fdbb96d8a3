"""``pipeline watch``: captures become tables as they come, findings are told once, also over
restarts.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpinspect.cli import interrupts, teller
from dcpinspect.cli.main import main
from dcpinspect.cli.pipeline_watch import Alarms, complain_of, keep_told, kept_told
from dcpinspect.cli.teller import AnnouncedFindings, Teller, TellingStyle
from dcpinspect.errors import OutputError
from dcpinspect.findings.registry import ORDINARY
from dcpinspect.spark import files
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.pipeline import Options, Summary
from tests.cli.test_teller import Kept
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import here, stored, told
from tests.spark.test_pipeline import equal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = Path(__file__).parents[2] / "sample_captures"
SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _always_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teller, "EVERY_S", 0.0)
    monkeypatch.setattr(teller, "SHARE", 0)


def alarms(out: Path, output: Kept, known: AnnouncedFindings | None = None) -> Alarms:
    known = kept_told(str(out)) if known is None else known
    tells = Teller(
        output,
        TellingStyle(is_text=False, severity="warning", patience_ns=60 * SECOND),
        announced=known,
    )
    return Alarms(str(out), tells, known, ORDINARY)


def test_notes_are_not_among_the_damages_that_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = {"severity": "note", "file": "a.pcap", "offset": None, "what": "is beside another"}
    damage = {**note, "severity": "warning", "file": "b.pcap", "what": "is damaged"}
    complain_of(Summary(out="o", batch=1, problems=[*[note] * 12, damage]))
    assert capsys.readouterr().err == "dcpinspect: b.pcap: is damaged\n"


def test_a_finding_is_told_once_over_captures_and_restarts(tmp_path: Path) -> None:
    first, last = cut(tmp_path / "ring", packets_of(SAMPLES / "loop.pcap"), [200])
    output = Kept()
    watching = alarms(tmp_path / "out", output)
    watching.run(Options([str(first)], str(tmp_path / "out")), here)
    watching.announce_when_due()
    watching.run(Options([str(last)], str(tmp_path / "out")), here)
    watching.announce_when_due()
    records = [json.loads(line) for line in output.lines]
    said = [
        (
            one["rule"],
            one["cause"],
            one["connections"],
            one["vbuckets"],
            one["severity"],
            one["count"],
        )
        for one in records
    ]
    assert "rollback-loop" in {rule for rule, *_ in said}
    assert all(said.count(one) == 1 for one in said)
    again = alarms(tmp_path / "out", output)
    assert again.run(Options([str(last)], str(tmp_path / "out")), here).captures == 0
    again.announce_when_due()
    assert len(output.lines) == len(said)


def test_lines_name_messages_by_their_frames(tmp_path: Path) -> None:
    output = Kept()
    known = kept_told(str(tmp_path / "out"))
    style = TellingStyle(is_text=True, severity="note", patience_ns=0)
    watching = Alarms(
        str(tmp_path / "out"), Teller(output, style, announced=known), known, ORDINARY
    )
    watching.run(Options([str(SAMPLES / "rollback.pcap")], str(tmp_path / "out")), here)
    watching.announce_when_due()
    lines = b"".join(output.lines).decode()
    assert "followed in frame 106" in lines
    assert not re.search(r"row \d", lines), "their rows only sort"


def test_a_capture_that_comes_late_gives_connections_other_numbers_and_nothing_is_told_again(
    tmp_path: Path,
) -> None:
    ring, output = tmp_path / "ring", Kept()
    ring.mkdir()
    watching = alarms(tmp_path / "out", output)
    told: list[set[tuple[str, str]]] = []
    for name in ("loop.pcap", "tour.pcapng"):  # the second one is earlier
        shutil.copy(SAMPLES / name, ring)
        watching.run(Options([str(ring)], str(tmp_path / "out")), here)
        watching.announce_when_due()
        lines = output.lines[len(told[0]) if told else 0 :]
        told.append({(record["rule"], record["message"]) for record in map(json.loads, lines)})
    assert told[0]
    assert told[1]
    assert told[0].isdisjoint(told[1])


def test_what_a_program_did_not_come_to_tell_is_told_by_the_next(tmp_path: Path) -> None:
    output = Kept()
    capture = [str(SAMPLES / "loop.pcap")]
    alarms(tmp_path / "out", output).run(Options(capture, str(tmp_path / "out")), here)
    assert output.lines == []
    again = alarms(tmp_path / "out", output)
    again.run(Options(capture, str(tmp_path / "out")), here)
    again.announce_when_due()
    assert "rollback-loop" in {json.loads(line)["rule"] for line in output.lines}


def test_what_was_told_is_kept_and_damage_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_manifest").mkdir()
    keep_told(str(tmp_path), AnnouncedFindings.from_rows([["gap", None, [1], [2, 3], None, 0, 7]]))
    assert kept_told(str(tmp_path)).rows() == [["gap", None, (1,), (2, 3), None, 0, 7]]
    (tmp_path / "_manifest" / "told.json").write_text("[1]")
    assert kept_told(str(tmp_path)).rows() == []
    assert "told.json: cannot be read" in capsys.readouterr().err
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"told\.json: File too large; the file was not kept"):
            keep_told(str(tmp_path), AnnouncedFindings())
        with pytest.raises(OSError, match="File too large") as caught:
            files.write(str(tmp_path / "other"), b"x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(tmp_path / "other")
    assert (tmp_path / "_manifest" / "told.json").read_text() == "[1]"


@pytest.mark.slow
@pytest.mark.spark
def test_a_ring_that_grows_becomes_the_tables_of_a_reading(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert spark.version
    packets = packets_of(SAMPLES / "tour.pcapng")
    *first, last = cut(tmp_path / "later", packets, [150, 320])
    ring, out = tmp_path / "ring", tmp_path / "out"
    ring.mkdir()
    for path in first:  # the first look finds both rested, however slow the machine is
        shutil.move(path, ring)
        os.utime(ring / path.name, times=(0, 0))

    def writer() -> None:
        if until(lambda: runs(out) == 1):
            shutil.move(last, ring)
        until(lambda: runs(out) == 2 and (out / "_manifest" / "told.json").exists())
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=writer)
    thread.start()
    before = signal.signal(
        signal.SIGTERM, lambda *_: interrupts._state.stop and interrupts._state.stop()
    )
    try:
        status = main(
            [
                "pipeline",
                "watch",
                str(ring),
                "-o",
                str(out),
                "--every",
                "100ms",
                "--rested",
                "300ms",
                "--settle",
                "0s",
            ]
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    thread.join()
    text, said = capfd.readouterr()
    assert status == 0
    assert Manifest.newest(out).number == 2
    equal(stored(out, cut=True), told(written(tmp_path / "whole.pcap", packets), cut=True))
    assert text
    assert all(line.split()[1] in ("error", "warning", "note") for line in text.splitlines())
    lines = [
        line for line in said.splitlines() if "ending once this run is over" not in line
    ]  # the signal may come within the second run
    assert [line.split(",")[0] for line in lines[:4]] == [
        (
            f"dcpinspect: watching {ring} until Ctrl-C; Spark starts with the first capture that "
            "has rested"
        ),
        "dcpinspect: starting Spark",
        "dcpinspect: read 2 captures",
        "dcpinspect: read 1 capture",
    ]
    assert f"watched {ring}, read 3 captures in 2 runs, told " in said.splitlines()[-1]


def runs(out: Path) -> int:
    """How many runs have come to their end."""
    return Manifest.read_newest(out).number if out.exists() else 0


def until(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    """Waits for it."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
    return is_so()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["{tmp}/nowhere", "-o", "{tmp}/out"],
            "nowhere: is missing; name directories that captures will come to, or patterns",
        ),
        (
            ["s3://bucket/x", "-o", "{tmp}/out"],
            "s3://bucket/x: captures are watched at paths that every process sees, and not by URI; "
            "mount that storage, and name the path, or file:///PATH",
        ),
        (
            ["{tmp}", "-o", "{tmp}/out", "--every", "0s"],
            "--every 0s: write a length of time above 0",
        ),
        (
            ["{tmp}", "-o", "{tmp}/out", "--exec-every", "5s"],
            "--exec-every: is for --exec; name a program",
        ),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "watch", *(one.format(tmp=tmp_path) for one in arguments)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"dcpinspect: {said}"
        if not said.startswith("nowhere")
        else f"dcpinspect: {tmp_path}/{said}"
    ]
    assert not (tmp_path / "out").exists()


def test_what_spark_lacks_is_said_before_the_first_capture(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "watch",
        str(tmp_path),
        "-o",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == f"dcpinspect: JAVA_HOME is {tmp_path}, which has no bin/java; correct it, or unset it\n"
    )
