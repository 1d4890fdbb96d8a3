"""Recordings of real servers: what is found in each, where, and whose it is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

from dcpinspect.cli.main import main
from dcpinspect.findings.finding import Finding, ranges
from dcpinspect.findings.registry import ORDINARY, RULES
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tls.keylog import KeyLog
from tests.agreement import complaints
from tests.builders import Recorded
from tests.captures import field, real_server
from tests.doubled import packets_of, tcp_of, written

RECORDINGS = Path(__file__).parents[1] / "captures" / "real-server"
IN_MOST = {"credentials-in-clear"}
"""A rule whose note is right in nearly every recording: all clients log in with PLAIN."""

FINDINGS = {
    "6.0.5-dcp1": [
        "warning duplicate-stream-request: connection 2, vb 0: client",
        "warning unknown-vbucket-uuid (uuid-never-given): connection 2, vb 3: client",
        "  warning rollback (uuid-never-given): connection 2, vb 3: client",
        "warning rollback-not-honoured: connection 2, vb 3: client",
        "warning ack-missing: connection 2, vb 6: client",
        "warning name-clash: connection 2–3: client",
        "  note connection-closed (by-server): connection 2: client",
        "warning stream-refused (not-my-vbucket): connection 2, vb 9, 63: normal",
        "note bad-stream-range (start-above-snapshot): connection 2, vb 3: client",
        "note stream-end-reason (state-changed): connection 2, vb 2, 4–5: normal",
        "note flow-control-stall: connection 2: client",
        "note duplicate-stream-request: connection 2, vb 6: client",
        "note control-rejected (stream_buffer_size): connection 2: client",
        "note control-unknown-key (nonsense): connection 2: client",
        "note control-rejected (enable_expiry_opcode): connection 2: client",
        "note read-again (re-read): connection 2, vb 3: client",
        "note legacy-layout: connection 1: normal",
    ],
    "6.0.5-dcp2": [
        "error seqno-not-increasing: connection 7, vb 10: client",
        "  error consumer-refused (erange): connection 7, vb 10: client",
        "error opaque-mismatch: connection 7, vb 10: client",
        "  error consumer-refused (key-enoent): connection 7, vb 10: client",
        "warning takeover-sequence (not-requested): connection 7, vb 10: client",
        "warning noop-unanswered (acknowledged): connection 6: client",
        "note failover: connection 6, vb 0–3, 7: normal",
        "  note rollback (leading-consumer): connection 6, vb 7: normal",
        "note snapshot-incomplete (hidden): connection 7, vb 10: normal",
        "note health-probe (silent): connection 1, 4: normal",
        "note legacy-layout: connection 2, 5: normal",
        "note connection-closed (by-server): connection 3: server",
        "note connection-closed (reset): connection 6: unknown",
    ],
    "6.6.5-dcp": [
        "error stream-refused (dcp-stream-id-invalid): connection 5, vb 1: client",
        "warning noop-unanswered (acknowledged): connection 4–6: client",
        "warning noop-unanswered (goes-on): connection 3: client",
        "warning stream-refused (unknown-collection): connection 3, vb 0: client",
        "note snapshot-incomplete (hidden): connection 4, vb 0: normal",
        "note control-rejected (enable_out_of_order_snapshots): connection 6: client",
    ],
    "coll-churn": [
        "note connection-closed (by-client): connection 4: unknown",
    ],
    "coll-filter": [
        "error stream-refused (einval): connection 5, vb 1: client",
        "error stream-refused (einval): connection 5, vb 1: client",
        "error stream-refused (einval): connection 6, vb 1: client",
        "warning stream-refused (unknown-collection): connection 5, vb 1: client",
        "warning stream-refused (unknown-scope): connection 5, vb 1: client",
        "note stream-end-reason (filter-empty): connection 5, vb 0, 2: client",
        "note connection-closed (by-client): connection 6: unknown",
    ],
    "consumer-errors-66": [
        "error opaque-mismatch: connection 2, vb 0: client",
        "  error consumer-refused (key-eexists): connection 2, vb 0: client",
        "error seqno-not-increasing: connection 2, vb 0: client",
        "  error consumer-refused (erange): connection 2, vb 0: client",
        "error event-before-marker: connection 2, vb 1: client",
        "  error consumer-refused (erange): connection 2, vb 1: client",
        "error seqno-outside-snapshot: connection 2, vb 2: client",
        "  error consumer-refused (erange): connection 2, vb 2: client",
        "error marker-behind: connection 2, vb 3: client",
        "  error consumer-refused (erange): connection 2, vb 3: client",
        "error message-without-stream: connection 2, vb 9: client",
        "  error consumer-refused (key-enoent): connection 2, vb 9: client",
        "error message-after-stream-end: connection 2, vb 4: client",
        "  error consumer-refused (key-enoent): connection 2, vb 4: client",
        "note connection-closed (by-client): connection 2: unknown",
    ],
    "durability": [
        "note connection-closed (by-client): connection 2–3: unknown",
    ],
    "end-reasons": [
        "note stream-end-reason (state-changed): connection 3, vb 1–3: normal",
        "note connection-closed (by-server): connection 3: normal",
    ],
    "failover-log-long": [
        "warning resume-skipped (not-received): connection 5, vb 0: client",
        "warning rollback (leading-consumer): connection 5, vb 0: normal",
        "warning rollback (unknown-uuid): connection 5, vb 0: normal",
        "note stream-end-reason (state-changed): connection 5, vb 0: normal",
        "note connection-closed (by-client): connection 5: unknown",
    ],
    "name-clash-dup": [
        "error dcp-before-open: connection 4, vb 0: client",
        "warning over-acknowledged: connection 2: client",
        "warning name-clash: connection 2–3: client",
        "  warning silent-connection: connection 2: client",
        "  note connection-closed (by-server): connection 2: client",
        "warning open-twice: connection 3: client",
        "  note connection-closed (by-server): connection 3: client",
        "warning open-refused (einval): connection 6: client",
        "warning stream-refused (not-my-vbucket): connection 2, vb 50: normal",
        "warning stream-refused (no-such-vbucket): connection 2, vb 2000: client",
        "warning unexpected-section (refused): connection 5: client",
        "note duplicate-stream-request: connection 2, vb 0: client",
        "note close-refused: connection 2, vb 9: client",
        "note control-unknown-key (no_such): connection 2: client",
    ],
    "noop-timeout": [
        "error noop-unanswered (acknowledged): connection 1: client",
        "  note connection-closed (by-server): connection 1: client",
        "note connection-closed (by-client): connection 2: unknown",
    ],
    "replication-60-66": [
        "error delete-times-mismatch: connection 7, 9, vb 0, 3: client",
        "  error consumer-refused (einval): connection 7, vb 0: client",
        "  error consumer-refused (einval): connection 6, vb 0: client",
        "  error consumer-refused (einval): connection 9, vb 3: client",
        "  error consumer-refused (einval): connection 8, vb 3: client",
        "  note connection-closed (by-client): connection 6, 8: client",
        "  note connection-closed (reset): connection 7, 9: client",
        "warning delete-times-mismatch: connection 7, vb 1–2: client",
        "note control-rejected (enable_expiry_opcode): connection 6–9: normal",
        "note control-rejected (include_deleted_user_xattrs): connection 6–9: normal",
    ],
    "replication-66-66-hello-lost": [
        "note capture-hole (s2c): connection 9: capture",
        "note control-rejected (include_deleted_user_xattrs): connection 6–9: normal",
        "note connection-closed (by-client): connection 6–7: unknown",
    ],
    "resume": [
        "error bad-stream-range (start-below-snapshot): connection 4, vb 3: client",
        "error bad-stream-range (start-above-end): connection 4, vb 3: client",
        "warning resume-skipped (not-received): connection 4, vb 2: client",
        "warning unknown-vbucket-uuid (uuid-never-given): connection 4, vb 1: client",
        "  warning rollback (uuid-never-given): connection 4, vb 1: client",
        "warning rollback (start-never-received): connection 4, vb 3: client",
        "warning rollback (no-uuid): connection 4, vb 3: client",
        "note connection-closed (by-client): connection 3–4: unknown",
        "note read-again (re-read): connection 4, vb 1: client",
    ],
    "resume-lost": [
        "error bad-stream-range (start-below-snapshot): connection 4, vb 3: client",
        "error bad-stream-range (start-above-end): connection 4, vb 3: client",
        "warning resume-skipped (not-received): connection 4, vb 2: client",
        "warning rollback (uuid-never-given): connection 4, vb 1: client",
        "warning rollback (start-never-received): connection 4, vb 3: client",
        "warning rollback (no-uuid): connection 4, vb 3: client",
        "note capture-hole (s2c): connection 3–4: capture",
        "note connection-closed (by-client): connection 3–4: unknown",
        "note read-again (re-read): connection 4, vb 1: client",
    ],
    "tcp-window-zero": [
        "warning tcp-window-zero (client): connection 1, vb 0: client",
        "note ack-without-window: connection 1: client",
        "note connection-closed (by-client): connection 1: unknown",
    ],
    "tls13": [
        "note connection-closed (by-client): connection 2: unknown",
    ],
    "v85-cache-transfer": [
        "note connection-closed (by-client): connection 3: unknown",
    ],
    "v85-collections": [
        "warning noop-unanswered (goes-on): connection 7: client",
        "note control-rejected (change_streams): connection 7: client",
        "note connection-closed (by-client): connection 4–6: unknown",
    ],
    "v85-consumer-errors": [
        "error opaque-mismatch: connection 1, vb 0: client",
        "  error consumer-refused (opaque-no-match): connection 1, vb 0: client",
        "error seqno-not-increasing: connection 1, vb 0: client",
        "  error consumer-refused (erange): connection 1, vb 0: client",
        "error event-before-marker: connection 1, vb 1: client",
        "  error consumer-refused (erange): connection 1, vb 1: client",
        "error seqno-outside-snapshot: connection 1, vb 2: client",
        "  error consumer-refused (erange): connection 1, vb 2: client",
        "error marker-behind: connection 1, vb 3: client",
        "  error consumer-refused (erange): connection 1, vb 3: client",
        "error message-without-stream: connection 1, vb 9: client",
        "  error consumer-refused (dcp-stream-not-found): connection 1, vb 9: client",
        "error message-after-stream-end: connection 1, vb 4: client",
        "  error consumer-refused (dcp-stream-not-found): connection 1, vb 4: client",
        "note connection-closed (by-client): connection 1: unknown",
    ],
    "v85-cursor-dropped": [
        "note flow-control-stall: connection 3: client",
        "  note slow-stream (from-disk): connection 3, vb 0: client",
        "note connection-closed (by-client): connection 3: unknown",
    ],
    "v85-flags": [
        "warning unknown-vbucket-uuid (uuid-never-given): connection 3, vb 2: client",
        "  note rollback (uuid-never-given): connection 3, vb 2: client",
        "warning flag-combination (refused): connection 3, vb 1: client",
        "warning unknown-flag-bits (refused): connection 3, vb 1: client",
        "note rollback (purge): connection 3, vb 0: normal",
        "note stream-refused (not-my-vbucket): connection 3, vb 3: normal",
        "note connection-closed (by-client): connection 3: unknown",
    ],
    "v85-marker22": [
        "warning noop-unanswered (goes-on): connection 3–4, 6: client",
        "note connection-closed (by-client): connection 4–5: unknown",
        "note control-rejected (max_marker_version): connection 6: client",
        "note read-again (restart): connection 3, vb 0: client",
    ],
    "v85-oso": [
        "note connection-closed (by-client): connection 3–5: unknown",
    ],
    "v85-replication": [
        "note control-rejected (include_deleted_user_xattrs): connection 7–10: normal",
        "note control-rejected (change_streams): connection 7–10: normal",
        "note connection-closed (by-client): connection 7–8: unknown",
    ],
    "v85-stuck-disconnect": [
        "error flow-control-stall: connection 2, vb 0: client",
        "  note connection-closed (reset): connection 2: client",
    ],
}
"""What is found in each recording, the worst first. A line has severity, rule and cause,
connections, vbuckets, and whose it is. A line that is indented is an effect of the finding above
it.
"""


def told(one: Finding) -> str:
    """One finding as a line of the table."""
    cause = f" ({one.cause})" if one.cause is not None else ""
    vbuckets = f", vb {ranges(one.vbuckets)}" if one.vbuckets else ""
    return (
        f"{one.severity} {one.rule}{cause}: connection {ranges(one.connections)}{vbuckets}: "
        f"{one.whose}"
    )


def lines(findings: list[Finding]) -> list[str]:
    """Findings as lines of the table, each effect below its cause."""
    found = []
    for cause in findings:
        if cause.effect_of is None and cause.rule not in IN_MOST:
            found += [
                told(cause),
                *("  " + told(one) for one in findings if one.effect_of == cause.id),
            ]
    return found


@pytest.mark.parametrize("name", FINDINGS)
def test_a_recording_has_these_findings_and_no_others(name: str) -> None:
    keys = RECORDINGS / f"{name}.keys.log"
    with Reading(
        [str(RECORDINGS / f"{name}.pcap.gz")],
        track=True,
        keys=KeyLog([str(keys)] if keys.exists() else []),
    ) as reading:
        reading.check(ORDINARY)
        for _ in reading:
            pass
        findings = reading.findings()
        tables = {table: records.records() for table, records in reading.by_name().items()}
    assert lines(findings) == FINDINGS[name]
    assert complaints(tables, findings) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["6.0.5-dcp1", "6.0.5-dcp2", "noop-timeout", "replication-60-66", "v85-stuck-disconnect"],
)
def test_the_packet_that_a_closed_connection_cites_is_the_fin_or_rst_of_the_side_it_names(
    name: str,
) -> None:
    path = str(RECORDINGS / f"{name}.pcap.gz")
    with Reading([path], track=True) as reading:
        reading.check(["connection-closed"])
        for _ in reading:
            pass
        cases = [case for one in reading.findings() for case in one.case_of_each]
        servers = {link.number: int(link.server.rpartition(":")[2]) for link in reading.links}
    packets = rdpcap(path)
    assert cases
    for case in cases:
        tcp = packets[case.places[0].frame - 1][TCP]
        side = "server" if tcp.sport == servers[case.connections[0]] else "client"
        ending = "reset" if tcp.flags.R else "closed" if tcp.flags.F else "went on"
        assert case.message.startswith(f"{ending} by the {side} with ")


@pytest.mark.parametrize("name", ["failover-log-long", "6.0.5-dcp2", "v85-replication"])
def test_connections_without_dcp_have_one_line_at_most(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each recording has connections of an administrator, and some of them began before."""
    path = str(RECORDINGS / f"{name}.pcap.gz")
    main(["connections", path, "-f", "ndjson"])
    others = {
        link["connection"]
        for link in map(json.loads, capsys.readouterr().out.splitlines())
        if link["role"] is None
    }
    assert len(others) > 1
    main(["check", path, "-f", "ndjson"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    notes = {one["rule"] for one in found if others.issuperset(one["connections"])} - {
        "credentials-in-clear"
    }
    main(["check", path])
    told = [line for line in capsys.readouterr().out.splitlines() if line[:1] == "·"]
    assert [line for line in told if any(f"· {rule}:" in line for rule in notes)] == []
    assert sum("connections without DCP" in line for line in told) == bool(notes)
    assert sum("credentials-in-clear" in line for line in told) == 1


@pytest.mark.parametrize(
    "name", ["end-reasons", "durability", "v85-cache-transfer", "v85-marker22"]
)
def test_nothing_makes_up_for_a_close_but_the_streams_that_broke_off(name: str) -> None:
    """Each has streams of the same client, or of the same program, that began before the close or
    have other vbuckets.
    """
    with Reading([str(RECORDINGS / f"{name}.pcap.gz")], track=True) as reading:
        reading.check(["connection-closed"])
        for _ in reading:
            pass
        assert {case.over for found in reading.findings() for case in found.case_of_each} == {
            "unknown"
        }


def verdicts(name: str) -> dict[tuple[int, str], tuple[str, str]]:
    """By connection and rule: the verdict of each rule about clients, and why."""
    with Reading([str(RECORDINGS / f"{name}.pcap.gz")], track=True) as reading:
        reading.check([*RULES])
        for _ in reading:
            pass
        return {
            (one.connection, one.rule): (one.says, one.why)
            for one in reading.checker.verdicts(reading.engine.links)
        }


def test_cursor_dropping_has_two_names() -> None:
    assert verdicts("v85-cursor-dropped")[3, "lint-cursor-dropping"] == (
        "PASS",
        "supports_cursor_dropping_vulcan is true",
    )
    assert verdicts("coll-churn")[4, "lint-cursor-dropping"] == (
        "FAIL",
        "supports_cursor_dropping is not set",
    )


def test_what_a_connection_said_before_the_capture_is_not_called_capture_loss() -> None:
    why = "unknown, because the capture begins inside a connection of this host"
    assert verdicts("coll-churn")[4, "lint-high-seqnos"] == ("NA", why)
    assert verdicts("resume-lost")[4, "lint-high-seqnos"][1] != why


@pytest.mark.parametrize("name", ["v85-replication", "replication-60-66"])
def test_what_is_recommended_to_clients_is_not_for_nodes_that_replicate(name: str) -> None:
    assert {*verdicts(name).values()} == {("NA", "the connection is between two nodes")}


GAPS = {
    "6.6.5-dcp": {
        ("deduplicated", "of a collection that ends in this snapshot"): 11,
        ("invisible", "which this client may not see"): 1,
    },
    "coll-filter": {("filtered", "which this client may not see"): 12},
    "durability": {
        ("filtered", "which this client may not see"): 1,
        ("filtered", "a prepare that was completed, which a snapshot from disk may leave out"): 1,
        ("invisible", "which this client may not see"): 20,
        ("invisible", "a prepare that was completed, which a snapshot from disk may leave out"): 3,
    },
    "v85-collections": {("invisible", "which this client may not see"): 12},
    "v85-marker22": {
        ("deduplicated", "a deletion, which compaction may have purged"): 6,
        ("invisible", "which this client may not see"): 3,
        ("invisible", "a prepare that was completed, which a snapshot from disk may leave out"): 4,
    },
}
"""For gaps of which another connection shows seqnos: how many have each cause, and what of it is
said of the first seqno that is shown.
"""


@pytest.mark.parametrize("name", GAPS)
def test_what_another_connection_shows_of_a_gap_is_told(name: str) -> None:
    with Reading([str(RECORDINGS / f"{name}.pcap.gz")], track=True) as reading:
        for _ in reading:
            pass
        gaps = reading.by_name()["gaps"].records()
    shown = [gap for gap in gaps if " was sent " in gap["evidence"]]
    assert (
        Counter(
            (gap["cause"], gap["evidence"].partition(", ")[2].partition(";")[0]) for gap in shown
        )
        == GAPS[name]
    )


@pytest.mark.parametrize(
    ("name", "late"),
    [
        ("v85-collections", {7: "6.0 s"}),
        ("v85-marker22", {3: "2.1 s", 4: "2.4 s", 6: "2.0 s"}),
        ("6.6.5-dcp", {3: "4.1 s"}),
    ],
)
def test_a_noop_that_is_answered_late_is_told_as_answered(name: str, late: dict[int, str]) -> None:
    with Reading([str(RECORDINGS / f"{name}.pcap.gz")], track=True) as reading:
        reading.check(["noop-unanswered"])
        for _ in reading:
            pass
        found = [case for one in reading.findings() for case in one.case_of_each]
    answered = {
        case.connections[0]: case.message.partition(" unanswered for ")[2]
        for case in found
        if len(case.places) == 2
    }
    assert answered == {number: f"{time}, then answered" for number, time in late.items()}
    assert {case.over for case in found if case.connections[0] in late} == {"recovered"}


def test_a_password_inside_tls_is_not_sent_in_clear() -> None:
    keys = KeyLog([str(RECORDINGS / "tls13.keys.log")])
    with Reading([str(RECORDINGS / "tls13.pcap.gz")], track=True, keys=keys) as reading:
        reading.check(ORDINARY)
        logins = sum(batch.decoded.opcode.tolist().count(Opcode.SASL_AUTH) for batch in reading)
        found = {one.rule for one in reading.findings()}
    assert logins > 0
    assert "credentials-in-clear" not in found


def test_a_long_name_is_short_and_its_size_is_said_where_it_is_too_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(real_server("name-clash-dup")), "--format", "ndjson"])
    found = {one["rule"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    refused = found["open-refused"]
    assert "nnn…" in refused["message"]
    assert "the name has 300 bytes, and may have 200" in refused["message"]
    for one in (refused, found["credentials-in-clear"]):
        assert "nnn…" in one["who"]
        assert "n" * 100 not in one["who"]


def test_a_fault_that_was_refused_says_why_it_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(real_server("replication-60-66"))])
    lines = capsys.readouterr().out.splitlines()
    fault = "delete-times-mismatch: a deletion has a time, which the open did not ask for"
    assert [line for line in lines if fault in line] == [
        f"✖ {fault}, and was refused",
        f"! {fault}",
    ]


def test_requests_of_a_vbucket_that_are_refused_for_different_faults_are_told_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(real_server("coll-filter"))
    main(["check", path, "--format", "ndjson"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()][:2]
    faults = [
        "the value of the request is no JSON object",
        "its filter names a scope and collections",
    ]
    assert [(one["message"].partition(", ")[2], one["count"]) for one in found] == [
        (fault, 1) for fault in faults
    ]
    assert [one["next"].partition(",")[0] for one in found] == [
        "report the client's version to its author; until then",
        "name either a scope or collections",
    ]
    main(["timeline", path, "--vbucket", "1"])
    events = [line for line in capsys.readouterr().out.splitlines() if "stream-refused" in line]
    assert [line.split()[0] for line in events if line.endswith(tuple(faults))] == ["53", "55"]


def test_a_request_with_a_fault_that_was_refused_for_it_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(real_server("v85-flags"))])
    out = " ".join(capsys.readouterr().out.split())
    assert "1 vbucket was refused · " in out
    assert out.count('; the request was refused: einval; the server says "') == 2


def test_what_a_log_says_of_a_finding_of_the_capture_is_told_under_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def check(name: str, log: str) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
        command = ["check", str(real_server(name)), "--log", str(RECORDINGS / "logs" / log)]
        main(command)
        first = capsys.readouterr().out.splitlines()[0]
        main([*command, "--format", "ndjson"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        cause = next(one for one in found if one["rule"] in ("name-clash", "flow-control-stall"))
        return first, cause, [one for one in found if one["effect_of"] == cause["id"]]

    first, clash, effects = check("6.0.5-dcp1", "6.0.5-memcached.log.000000.txt")
    assert "was disconnected" not in first
    assert clash["connections"] == [2, 3]
    assert [(one["rule"], one["connections"]) for one in effects] == [
        ("server-disconnect", [2]),
        ("connection-closed", [2]),
    ]
    first, _, effects = check("v85-cursor-dropped", "v85-c.txt")
    assert first.startswith("no errors or warnings: 1 connection has stalled, and recovered")
    assert [(one["rule"], one["severity"]) for one in effects] == [
        ("server-slow-stream", "note"),
        ("slow-stream", "note"),
    ]


def test_a_log_tells_each_rollback_of_a_vbucket_with_its_own_seqnos(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = str(RECORDINGS / "logs" / "6.0.5-memcached.log.000000.txt")
    main(["check", "--log", log, "--rule", "server-rollback", "--all"])
    lines = capsys.readouterr().out.splitlines()
    index = next(index for index, line in enumerate(lines) if "server-rollback: " in line)
    assert lines[index].endswith("rolled back by the server: no history in common")
    assert [line.split()[:2] for line in lines[index + 3 : index + 6]] == [
        ["start", "rollback"],
        ["5", "0"],
        ["1000000", "0"],
    ]


@pytest.mark.parametrize("name", ["6.0.5-dcp2", "replication-66-66-hello-lost", "v85-replication"])
def test_nobody_is_accused_of_a_silence_where_a_filter_took_packets_with_bytes_only(
    name: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "bytes.pcap")
    packets = rdpcap(str(real_server(name)))
    wrpcap(path, [packet for packet in packets if TCP in packet and len(packet[TCP].payload)])
    with Reading([path]) as reading:
        reading.check()
        for _ in reading:
            pass
        told = {one.rule for one in reading.findings()}
    assert "mid-stream-start" in told
    assert told.isdisjoint({"silent-connection", "noop-unanswered"})


def test_advice_for_a_seqno_without_a_uuid_does_not_contradict_that_of_the_rollback_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(real_server("resume")), "--all"])
    out = " ".join(capsys.readouterr().out.split())
    assert "next: go by the rollback in row 472, the answer to a later request" in out
    assert "next: let the client ask again from what it has, with the uuid of that history" in out
    main(["rollbacks", str(real_server("resume")), "--columns", "explanation"])
    assert capsys.readouterr().out.splitlines()[-1].endswith("can ask from what it has")


def test_the_display_filter_has_every_refusal_or_says_how_many_messages_it_leaves_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(field("p03-no-bucket-selected"))])
    out = " ".join(capsys.readouterr().out.split())
    assert "rows 10, 12, 14, 16, 18, 20, 22; " in out
    assert "Wireshark: frame.number in {19, 21, 23, 25, 29, 33, 35}" in out
    main(["check", str(real_server("tcp-window-zero")), "--rule", "ack-without-window", "--all"])
    out = " ".join(capsys.readouterr().out.split())
    assert "Wireshark, without the other 36: frame.number in {63, 87, 113, 1072}" in out


def test_lengths_of_time_have_the_unit_that_people_say(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(RECORDINGS / "name-clash-dup.pcap.gz"), "--rule", "name-clash", "--all"])
    out = " ".join(capsys.readouterr().out.split())
    assert "server closed connection 2 after 1.6 s" in out


def accused(folder: Path, packets: list[Recorded]) -> set[tuple[str, str | None, str]]:
    """What errors and warnings say: rule, cause, and who has to act, where it is a side."""
    with Reading([str(written(folder, packets))], track=True) as reading:
        reading.check(ORDINARY)
        for _ in reading:
            pass
        return {
            (one.rule, one.cause, one.whose)
            for one in reading.findings()
            if one.severity != "note" and one.whose in ("client", "server")
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["consumer-errors-66", "v85-consumer-errors"])
def test_a_packet_that_is_lost_makes_nobody_guilty_whom_the_whole_recording_does_not_blame(
    name: str, tmp_path: Path
) -> None:
    """The client, which is the producer, sends faulty messages, and the server refuses them."""
    packets = packets_of(RECORDINGS / f"{name}.pcap.gz")
    whole = accused(tmp_path, packets)
    assert ("consumer-refused", "erange", "client") in whole
    carriers = [number for number, one in enumerate(packets) if tcp_of(one).payload]
    for lost in carriers[::2]:
        rest = packets[:lost] + packets[lost + 1 :]
        assert accused(tmp_path, rest) <= whole, lost


@pytest.mark.slow
@pytest.mark.parametrize("lost", [2, 8, 20])
def test_a_late_capture_without_the_first_packets_of_a_client_makes_nobody_guilty(
    lost: int, tmp_path: Path
) -> None:
    """No hole shows them: nothing of their direction is before them."""
    packets = packets_of(RECORDINGS / "6.0.5-dcp1.pcap.gz")
    whole = {(rule, whose) for rule, _, whose in accused(tmp_path, packets)}
    noops = [
        number
        for number, one in enumerate(packets)
        if tcp_of(one).payload.startswith(bytes((0x80, Opcode.DCP_NOOP)))
    ]
    assert len(noops) > 9
    for start in {at - before for at in noops[:9] for before in (0, 4)}:
        of_clients = [
            number for number in range(start, len(packets)) if tcp_of(packets[number]).to_server()
        ]
        rest = [packets[at] for at in range(start, len(packets)) if at not in of_clients[:lost]]
        found = {(rule, whose) for rule, _, whose in accused(tmp_path, rest)}
        assert found <= whole, start


def test_a_server_that_may_be_older_than_7_0_is_not_blamed_for_the_end_that_it_does_not_tell(
    tmp_path: Path,
) -> None:
    """One connection of a 6.6.5, which has collections as a preview, does not show its version."""
    packets = [
        one
        for one in packets_of(RECORDINGS / "6.6.5-dcp.pcap.gz")
        if 46802 in (tcp_of(one).source, tcp_of(one).target)
    ]
    with Reading([str(written(tmp_path, packets))], track=True) as reading:
        reading.check(["snapshot-incomplete"])
        for _ in reading:
            pass
        (finding,) = reading.findings()
    assert (finding.severity, finding.cause, finding.whose) == ("warning", "not-told", "unknown")


def test_read_tells_the_whole_reason_of_a_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    main(["read", str(real_server("v85-flags")), "--skip", "175", "-n", "1"])
    line = capsys.readouterr().out.splitlines()[-1]
    assert 'Invalid combination: \\\\"ToLatest\\\\""}}  after 0.764 ms' in line


def test_what_a_connection_bears_after_a_stream_ended_is_no_event_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["timeline", str(real_server("6.0.5-dcp2")), "--vbucket", "1"])
    out = capsys.readouterr().out
    assert "stream end: ok, after seqno 1595" in out
    assert "noop-unanswered" not in out


@pytest.mark.parametrize("name", ["consumer-errors-66", "v85-consumer-errors"])
def test_a_vbucket_that_nobody_opened_is_one_wherever_vbuckets_are_told(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = str(real_server(name))
    main(["info", capture])
    told = capsys.readouterr().out
    assert "\nvbuckets  7: 0–5, 9\n" in told
    assert ", 6 streams (6 accepted)\n" in told
    main(["check", capture, "--rule", "rollback"])
    assert ", 6 streams, " in capsys.readouterr().out
    main(["connections", capture, "--columns", "connection,streams"])
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "6"
    main(["vbuckets", capture, "--vbucket", "9", "--format", "ndjson"])
    row = json.loads(capsys.readouterr().out)
    names = ("verdict", "streams", "items", "bytes")
    assert [row[name] for name in names] == ["never-opened", 0, 0, 65]
    assert row["findings"]["error"] == 1
    main(["timeline", capture, "--vbucket", "9", "--messages"])
    told = capsys.readouterr().out
    for text in (
        "messages came for which no stream was opened\n",
        "✖ message-without-stream: mutation of seqno 1 came",
        " mutation                        9 0x00001234            1 ",
    ):
        assert text in told


@pytest.mark.parametrize("name", ["consumer-errors-66", "v85-consumer-errors"])
def test_a_refused_item_is_received_nowhere(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    capture = str(real_server(name))
    main(["vbuckets", capture, "--format", "ndjson"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = ("items", "last_seqno", "before_end")
    assert [[row[name] for name in names] for row in rows[:3]] == [
        [3, 3, None],
        [0, None, None],
        [1, 1, None],
    ]
    assert not any(count for row in rows for count in row["gap_seqnos"].values())
    main(["timeline", capture, "--vbucket", "2"])
    told = capsys.readouterr().out
    assert "1 received, ended" in told
    assert "by the client, after seqno 1\n" in told


def test_items_of_a_cache_transfer_are_counted_beside_those_with_seqnos(
    capsys: pytest.CaptureFixture[str],
) -> None:
    capture = str(real_server("v85-cache-transfer"))
    names = ("items", "cached_items", "last_seqno")
    for table, counts in (
        ("streams", [(0, 25, None), (0, 30, None), (15, 20, 35), (0, 25, None), (0, 25, None)]),
        ("vbuckets", [(0, 75, None), (15, 50, 35)]),
    ):
        main([table, capture, "--format", "ndjson"])
        rows = sorted(
            map(json.loads, capsys.readouterr().out.splitlines()),
            key=lambda row: row.get("open_row", 0),
        )
        assert [tuple(row[name] for name in names) for row in rows] == counts
    main(["timeline", capture, "--vbucket", "0"])
    told = capsys.readouterr().out
    assert told.count("25 of a cache transfer received, ended") == 3
    assert told.count("stream end: ok, after 25 items of a cache transfer") == 3
    main(["timeline", capture, "--vbucket", "1"])
    told = capsys.readouterr().out
    assert "15 and 20 of a cache transfer received" in told
    assert "by the client, after 20 items of a cache transfer and seqno 35" in told
