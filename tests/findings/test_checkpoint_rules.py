"""Checkpoints, beside a capture and alone."""

from __future__ import annotations

from pathlib import Path

import orjson

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.log_findings import findings_alone
from dcpinspect.findings.logs.log_evidence import LogEvidence
from dcpinspect.findings.registry import ORDINARY
from tests.findings.checked import checked
from tests.findings.logs.written import failovers
from tests.streams.told import Told, opened, packets

OLD, NEW = 0xA1, 0xB2


def checkpoint(
    path: Path,
    vbuckets: range,
    seqno: int = 1000,
    snapshot: tuple[int, int] | None = None,
    uuid: int = OLD,
) -> str:
    low, high = snapshot or (seqno, seqno)
    one = {
        "checkpoint": {
            "vbuuid": uuid,
            "seqno": seqno,
            "snapshot": {"startSeqno": low, "endSeqno": high},
        },
        "bucketUuid": "x",
    }
    path.write_bytes(orjson.dumps({str(vbucket): one for vbucket in vbuckets}))
    return str(path)


def beside(evidence: LogEvidence, *talks: Told) -> list[Finding]:
    checker, engine = checked(packets(*talks), (), ORDINARY)
    checker.evidence = evidence
    return [
        one
        for one in checker.findings(engine.links, engine.coverage)
        if one.rule.startswith("checkpoint-")
    ]


def test_checkpoints_that_will_be_rolled_back_alike_are_one_finding(tmp_path: Path) -> None:
    log = tmp_path / "stats"
    log.write_text("\n".join(failovers(vbucket, (NEW, 900), (OLD, 0)) for vbucket in range(12)))
    (one,) = findings_alone(
        LogEvidence.read([str(log)], [checkpoint(tmp_path / "ck.json", range(12))]), ORDINARY
    )
    assert (one.rule, one.severity, one.cause, one.vbuckets) == (
        "checkpoint-rollback",
        "warning",
        "leading-consumer",
        tuple(range(12)),
    )
    assert one.message.startswith(
        "resuming from 1000 will be rolled back to 900: the client is ahead of the branch point 900"
    )
    assert one.message.endswith(" on 12 vbuckets: 0–11")
    assert (
        one.next
        == "expect that items are sent again; the client has to undo what the client has above 900, "
        f"and to resume at 900 with uuid 0x{NEW:016x}"
    )


def test_checkpoints_that_can_be_resumed_from_are_no_finding(tmp_path: Path) -> None:
    log = tmp_path / "stats"
    log.write_text(failovers(0, (NEW, 900), (OLD, 0)))
    assert (
        findings_alone(
            LogEvidence.read([str(log)], [checkpoint(tmp_path / "ck.json", range(1), 900)]),
            ORDINARY,
        )
        == []
    )


def test_a_seqno_outside_its_snapshot_is_an_error(tmp_path: Path) -> None:
    (one,) = findings_alone(
        LogEvidence.read([], [checkpoint(tmp_path / "ck.json", range(1), 10, (11, 20))]), ORDINARY
    )
    assert (one.rule, one.severity) == ("checkpoint-range", "error")


def test_what_nothing_decides_is_a_note(tmp_path: Path) -> None:
    (one,) = findings_alone(
        LogEvidence.read([], [checkpoint(tmp_path / "ck.json", range(3))]), ORDINARY
    )
    assert (one.rule, one.severity, one.count) == ("checkpoint-unchecked", "note", 3)


def test_checkpoints_of_two_consumers_are_told_apart(tmp_path: Path) -> None:
    paths = [
        checkpoint(tmp_path / "a.json", range(1), 10, (11, 20)),
        checkpoint(tmp_path / "b.json", range(1), 10, (12, 20)),
    ]
    (one,) = findings_alone(LogEvidence.read([], paths), ORDINARY)
    assert len(one.cases) == 2
    assert len(one.clients) == 2


def test_a_capture_has_the_failover_log_and_the_last_seqno(tmp_path: Path) -> None:
    talk = opened("other:1")
    stream = talk.stream(3, log=((NEW, 900), (OLD, 0)), start=900, uuid=NEW)
    stream.snapshot(900, 1500, "memory")
    stream.mutation(1500, "k")
    (old,) = beside(LogEvidence.read([], [checkpoint(tmp_path / "old.json", range(3, 4))]), talk)
    assert old.message.startswith("resuming from 1000 will be rolled back to 900: ")
    assert "of the capture)" in old.message
    assert (
        beside(
            LogEvidence.read([], [checkpoint(tmp_path / "new.json", range(3, 4), uuid=NEW)]), talk
        )
        == []
    )
    (ahead,) = beside(
        LogEvidence.read([], [checkpoint(tmp_path / "ahead.json", range(3, 4), 1600, uuid=NEW)]),
        talk,
    )
    assert ahead.rule == "checkpoint-unchecked"
