"""That what ``check`` says of streams that wait, and what the tables say, is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcpinspect.findings.finding import Finding

_ENDLESS = (1 << 64) - 1
_TO_AN_END = {"disk-only", "to-latest"}


def disagreements(tables: Mapping[str, Sequence[Mapping[str, Any]]], findings: Sequence[Finding]) -> list[str]:
    """Where the verdict ``behind`` of streams and vbuckets and the rule ``server-owes-seqno`` contradict each other.

    The rule tells of streams that are behind, or whose connection ended while they were. It tells of each that is behind and to which
    all comes that the vbucket has: its request was captured and accepted, has no filter and no end, nothing of its connection is missing.
    """
    owed = {
        (connection, vbucket, case.sid)
        for one in findings
        if one.rule == "server-owes-seqno"
        for case in one.each
        for connection in case.connections
        for vbucket in case.vbuckets
    }
    stalled = {connection for one in findings if one.rule == "flow-control-stall" for connection in one.connections}
    holed = {one["connection"] for one in tables["connections"] if one["holes"] or one["skipped_bytes"] or one["starts"] != "handshake"}
    cut = {connection for one in findings if one.rule == "capture-cut" for connection in one.connections}
    keyed = [((one["connection"], one["vbucket"], one["sid"]), one) for one in tables["streams"]]
    late = {key for key, one in keyed if one["verdict"] == "behind" or one["end_reason"] == "connection-closed"}
    out = [f"server-owes-seqno of {key}, and no stream of it waits" for key in owed - late]
    for key, one in keyed:
        filter_ = one["filter"] or {}
        is_whole = one["answer"] == "accepted" and one["requested_end"] == _ENDLESS and not _TO_AN_END & {*one["request_flags"]}
        is_whole &= not {"collections", "scope"} & filter_.keys() and not {key[0]} & (stalled | holed | cut)
        if one["verdict"] == "behind" and is_whole and key not in owed:
            out.append(f"{key} is behind, and there is no server-owes-seqno")
    for one in tables["vbuckets"]:
        own = [stream for stream in tables["streams"] if stream["vbucket"] == one["vbucket"] and stream["connection"] in one["connections"]]
        newest = sorted(own, key=lambda stream: str(stream["first_time"]))[-1]["verdict"]
        # the tables of a tracker know no findings, and so no vbucket that was forgotten
        is_forgotten = (
            one["findings"] is not None
            and newest == "ended"
            and any(
                finding.rule == "orphaned-vbucket" and one["vbucket"] in case.vbuckets and {*case.connections} & {*one["connections"]}
                for finding in findings
                for case in finding.each
            )
        )
        if one["verdict"] != ("orphaned" if is_forgotten else newest):
            out.append(f"vbucket {one['vbucket']} of {one['client']} is {one['verdict']}, and its newest stream is not")
        if one["verdict"] == "behind" and not (one["high_seqno"] or 0) > (one["last_seqno"] or 0):
            out.append(f"vbucket {one['vbucket']} of {one['client']} is behind {one['high_seqno']} with {one['last_seqno']}")
    return out
