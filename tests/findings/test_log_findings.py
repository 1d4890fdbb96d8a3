"""Logs and checkpoints without a capture."""

from __future__ import annotations

from pathlib import Path

from dcpinspect.findings.finding_records import finding_records
from dcpinspect.findings.log_findings import findings_alone
from dcpinspect.findings.logs.log_evidence import LogEvidence
from dcpinspect.findings.registry import ORDINARY
from tests.findings.logs.written import NAME, TIME_NS, rollback


def test_a_finding_of_a_log_has_a_client_and_times_and_no_connection(tmp_path: Path) -> None:
    log = tmp_path / "memcached.log"
    log.write_text("\n".join(rollback(vbucket) for vbucket in range(12)))
    (one,) = findings_alone(LogEvidence.read([str(log)], []), ORDINARY)
    assert (one.connections, one.vbuckets, one.clients, one.count) == (
        (),
        tuple(range(12)),
        (NAME,),
        12,
    )
    assert (one.first_time_ns, one.last_time_ns, one.whose, one.who) == (
        TIME_NS,
        TIME_NS,
        "normal",
        f"client {NAME}",
    )
    (record,) = finding_records([one], []).records()
    assert (record["connection"], record["connections"], record["cases"][3]["connection"]) == (
        None,
        [],
        None,
    )


def test_rules_that_are_not_asked_for_say_nothing(tmp_path: Path) -> None:
    log = tmp_path / "memcached.log"
    log.write_text(rollback())
    assert findings_alone(LogEvidence.read([str(log)], []), ["checkpoint-range"]) == []
    assert (
        findings_alone(
            LogEvidence.read([str(log)], []), ORDINARY, lambda case, _: case.vbuckets == (3,)
        )
        == []
    )
