"""Recordings of real servers: what is found in each, where, and whose it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding, ranges
from dcpinspect.findings.registry import ORDINARY
from dcpinspect.reading import Reading
from tests.agreement import complaints

RECORDINGS = Path(__file__).parents[1] / "captures" / "real-server"
IN_MOST = {"credentials-in-clear", "mid-stream-start"}
"""Rules whose notes are right in nearly every recording: all clients log in with PLAIN, and each capture began while one was connected."""

FINDINGS = {
    "coll-churn": [
        "note connection-closed (by-client): connection 4: client",
    ],
    "consumer-errors-66": [
        "error opaque-mismatch: connection 2, vb 0: client",
        "error seqno-not-increasing: connection 2, vb 0: client",
        "error event-before-marker: connection 2, vb 1: client",
        "error seqno-outside-snapshot: connection 2, vb 2: client",
        "error marker-behind: connection 2, vb 3: client",
        "error message-without-stream: connection 2, vb 9: client",
        "error message-after-stream-end: connection 2, vb 4: client",
        "note connection-closed (by-client): connection 2: client",
    ],
    "durability": [
        "note connection-closed (by-client): connection 2–3: client",
    ],
    "tcp-window-zero": [
        "warning tcp-window-zero (client): connection 1, vb 0: client",
        "note ack-without-window: connection 1: client",
        "note connection-closed (by-client): connection 1: client",
    ],
    "v85-cache-transfer": [
        "note connection-closed (by-client): connection 3: client",
    ],
    "v85-consumer-errors": [
        "error opaque-mismatch: connection 1, vb 0: client",
        "error seqno-not-increasing: connection 1, vb 0: client",
        "error event-before-marker: connection 1, vb 1: client",
        "error seqno-outside-snapshot: connection 1, vb 2: client",
        "error marker-behind: connection 1, vb 3: client",
        "error message-without-stream: connection 1, vb 9: client",
        "error message-after-stream-end: connection 1, vb 4: client",
        "note connection-closed (by-client): connection 1: client",
    ],
    "v85-cursor-dropped": [
        "note flow-control-stall: connection 3: client",
        "note slow-stream (from-disk): connection 3, vb 0: client",
        "note connection-closed (by-client): connection 3: client",
    ],
    "v85-oso": [
        "note connection-closed (by-client): connection 3–5: client",
    ],
    "v85-replication": [
        "note control-rejected (include_deleted_user_xattrs): connection 7–10: normal",
        "note control-rejected (change_streams): connection 7–10: normal",
        "note connection-closed (by-client): connection 7–8: client",
    ],
}
"""What is found in each recording, the worst first. A line has severity, rule and cause, connections, vbuckets, and whose
it is. A line that is indented is an effect of the finding above it."""


def told(one: Finding) -> str:
    """One finding as a line of the table."""
    cause = f" ({one.cause})" if one.cause is not None else ""
    vbuckets = f", vb {ranges(one.vbuckets)}" if one.vbuckets else ""
    return f"{one.severity} {one.rule}{cause}: connection {ranges(one.connections)}{vbuckets}: {one.whose}"


def lines(findings: list[Finding]) -> list[str]:
    """Findings as lines of the table, each effect below its cause."""
    found = []
    for cause in findings:
        if cause.effect_of is None and cause.rule not in IN_MOST:
            found += [told(cause), *("  " + told(one) for one in findings if one.effect_of == cause.id)]
    return found


@pytest.mark.parametrize("name", FINDINGS)
def test_a_recording_has_these_findings_and_no_others(name: str) -> None:
    with Reading([str(RECORDINGS / f"{name}.pcap.gz")], track=True) as reading:
        reading.check(ORDINARY)
        for _ in reading:
            pass
        findings = reading.findings()
        tables = {table: records.records() for table, records in reading.by_name().items()}
    assert lines(findings) == FINDINGS[name]
    assert complaints(tables, findings) == []


@pytest.mark.parametrize("name", ["end-reasons", "durability", "v85-cache-transfer", "v85-marker22"])
def test_nothing_makes_up_for_a_close_but_the_streams_that_broke_off(name: str) -> None:
    """Each has streams of the same client, or of the same program, that began before the close or have other vbuckets."""
    with Reading([str(RECORDINGS / f"{name}.pcap.gz")], track=True) as reading:
        reading.check(["connection-closed"])
        for _ in reading:
            pass
        assert {case.over for found in reading.findings() for case in found.each} == {"unknown"}
