"""The packets around findings: what Wireshark makes of the file, and that it does not depend on how
the captures are read.
"""

from __future__ import annotations

import subprocess
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError
from dcpinspect.findings.finding import Finding
from dcpinspect.output.export.evidence_packets import EvidenceCapture, comments, whole_connections
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow import record_batch
from tests.captures import FIELD, REAL_SERVER, field
from tests.peers.truth import SAMPLES
from tests.streams.told import capture, opened

ROLLBACK = str(SAMPLES / "rollback.pcap")


def found(paths: list[str]) -> list[Finding]:
    with Reading(paths) as reading:
        reading.check()
        for _ in reading:
            pass
        return reading.findings()


def written(tmp_path: Path, paths: list[str], findings: list[Finding], around: int = 5) -> Path:
    path = tmp_path / "evidence.pcapng"
    with path.open("wb") as file:
        EvidenceCapture(findings, around=around).write(file, paths)
    return path


def verdicts(findings: list[Finding]) -> set[tuple[str, str, str]]:
    return {(one.rule, one.severity, one.whose) for one in findings if one.severity != "note"}


CAPTURES = [*SAMPLES.glob("*.pcap*"), *FIELD.glob("*.pcap"), *REAL_SERVER.glob("*.pcap.gz")]
FEW = ("orphans.pcap", "rollback.pcap", "r05-nmvb-not-retried.pcap", "resume.pcap.gz")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=() if path.name in FEW else pytest.mark.slow)
        for path in sorted(CAPTURES)
    ],
)
def test_the_file_shows_the_faults_again(path: Path, tmp_path: Path) -> None:
    try:
        with Reading([str(path)]) as reading:
            reading.check()
            for _ in reading:
                pass
            findings = reading.findings()
            whole = whole_connections(findings, reading)
    except CaptureError:  # some are none
        return
    target = tmp_path / "evidence.pcapng"
    with target.open("wb") as file:
        EvidenceCapture(findings, whole=whole).write(file, [str(path)])
    if whole:
        assert verdicts(findings) == verdicts(found([str(target)]))


def mutations(path: str | Path) -> dict[int, tuple[int, int]]:
    """(vbucket, seqno) of every mutation, by row."""
    with Reading([str(path)]) as reading:
        tables = [
            record_batch(
                batch, np.arange(len(batch)), ["row", "name", "vbucket", "by_seqno"]
            ).to_pylist()
            for batch in reading
        ]
    return {
        one["row"]: (one["vbucket"], one["by_seqno"])
        for table in tables
        for one in table
        if one["name"] == "dcp_mutation"
    }


@pytest.mark.slow
@pytest.mark.requires("tshark")
def test_wireshark_shows_the_comments_at_the_packets_of_the_findings(tmp_path: Path) -> None:
    findings = found([ROLLBACK])
    path = written(tmp_path, [ROLLBACK], findings)

    def shown(file: str, *fields: str) -> list[list[str]]:
        chosen = [word for name in fields for word in ("-e", name)]
        done = subprocess.run(
            ["tshark", "-r", file, "-T", "fields", *chosen],
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.split("\t") for line in done.stdout.splitlines()]

    commented = {
        time: text for time, text in shown(str(path), "frame.time_epoch", "frame.comment") if text
    }
    times = {
        int(frame): time for frame, time in shown(ROLLBACK, "frame.number", "frame.time_epoch")
    }
    expected: dict[str, list[str]] = {}
    for one in findings:
        for place, text in comments(one):
            expected.setdefault(times[place.frame], []).append(text)
    assert {time: text.split("\\n") for time, text in commented.items()} == expected
    assert any(
        text.startswith("note rollback, vb 7, connection 2: asked for seqno 60, rolled back to 50")
        for text in commented.values()
    )


def test_packets_that_no_message_is_in_show_a_tcp_window_of_0_and_syns(tmp_path: Path) -> None:
    for name in ("p06-zero-window", "q01-syn-unanswered", "q02-syn-refused"):
        paths = [str(field(name))]
        findings = found(paths)
        again = found([str(written(tmp_path, paths, findings))])
        both = [
            [(one.rule, one.cause, one.count) for one in several if one.severity != "note"]
            for several in (findings, again)
        ]
        assert both[0] == both[1] != []


def conversation(tmp_path: Path, count: int) -> tuple[str, list[Finding]]:
    """Two vbuckets in turn, one of which goes backwards near the end; and what is wrong with
    that.
    """
    talk = opened()
    streams = [talk.stream(7), talk.stream(8)]
    for stream in streams:
        stream.snapshot(0, 2 * count, "memory")
    for seqno in range(1, count + 1):
        for stream in streams:
            stream.mutation(seqno, f"k{seqno}")
    streams[0].mutation(1, "again")
    for seqno in range(count + 1, count + 9):
        for stream in streams:
            stream.mutation(seqno, f"k{seqno}")
    path = tmp_path / "a.pcap"
    path.write_bytes(capture(talk))
    return str(path), [one for one in found([str(path)]) if one.rule == "seqno-not-increasing"]


@pytest.mark.parametrize("around", [0, 2])
def test_messages_around_are_those_of_the_vbucket(tmp_path: Path, around: int) -> None:
    path, (error,) = conversation(tmp_path, 20)
    kept = written(tmp_path, [path], [error], around)
    own = [(row, seqno) for row, (vbucket, seqno) in mutations(path).items() if vbucket == 7]
    shown = [
        number
        for number, (row, _) in enumerate(own)
        if row in [place.row for place in error.places]
    ]
    expected = [
        seqno
        for number, (_, seqno) in enumerate(own)
        if any(abs(number - one) <= around for one in shown)
    ]
    assert 1 + 2 * around <= len(expected) < 10
    assert list(mutations(kept).values()) == [(7, seqno) for seqno in expected]
    with Reading([str(kept)]) as reading:
        names = [batch.name_of(index) for batch in reading for index in range(len(batch))]
    assert {"hello", "dcp_open"} <= set(names)


@pytest.mark.slow
def test_batches_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, errors = conversation(tmp_path, 40)
    whole = written(tmp_path, [path], errors, 4).read_bytes()
    for size in (300, 500, 1_111, 4_096):
        monkeypatch.setattr(
            "dcpinspect.reading.reading.open_capture", partial(open_capture, batch_bytes=size)
        )
        assert written(tmp_path, [path], errors, 4).read_bytes() == whole


def test_no_findings_give_a_file_without_packets() -> None:
    sink = BytesIO()
    assert EvidenceCapture([]).write(sink, [ROLLBACK]) == 0
    assert sink.getvalue()
