"""What has to hold for all that is said of any capture: whoever reads one in a test asks for
``complaints``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dcpinspect.findings.costs import SHARED
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from tests.advice import contradictions
from tests.wording import unclear

_ENDLESS = ((1 << 64) - 1, "no end")
"""As the tables have it, and as their JSON says it."""
_LABELS = re.compile(r"(?:^|(?<=; ))vbs? [\d,–-][^:]*: |: [\d, –…]+$| on vb \d+\b")
_TO_AN_END = {"disk-only", "to-latest"}


WITHOUT_SEQNOS = {
    **dict.fromkeys(
        ("vbuckets-not-requested", "closed-before-stream-end", "failover"),
        "many vbuckets, each with seqnos of its own",
    ),
    **dict.fromkeys(
        ("opaque-mismatch", "stream-already-open", "message-without-stream"),
        "which stream a message is of, not its place",
    ),
    **dict.fromkeys(
        ("takeover-sequence", "consumer-refused", "close-refused"),
        "an answer, or one that does not come",
    ),
    "oso-structure": "an OSO snapshot has no range",
    "ack-missing": "markers that have none",
}
"""Rules of the families stream and snapshot that are not about a seqno, and what they are about."""

WITHOUT_STREAMS = ("reconnect-loop",)
"""Rules of these families that also tell of clients that ask for no vbucket."""


def complaints(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], findings: Sequence[Finding]
) -> list[str]:
    """All that is wrong with what was said, whatever was read."""
    unknown = {
        (one["connection"], one["vbucket"])
        for one in tables["streams"]
        if one["requested_start"] is None
    }
    return [*disagreements(tables, findings), *complaints_of(findings, unknown)]


def complaints_of(
    findings: Sequence[Finding], unknown: Collection[tuple[int, int]] = ()
) -> list[str]:
    """The same of findings alone, of any rules. ``unknown``: connection and vbucket of streams of
    which nobody knows where they began.
    """
    return [
        *contradictions(findings),
        *wrong_severities(findings),
        *without_seqnos(findings, unknown),
        *unclear_texts(findings),
    ]


def unclear_texts(findings: Iterable[Finding]) -> list[str]:
    """What is not in plain English. The vbuckets before and after the text of a finding are labels,
    as in a table.
    """
    texts = sorted({text for one in findings for text in (one.message, one.next)})
    return [problem for text in texts for problem in unclear(_LABELS.sub("", text))]


def wrong_severities(findings: Iterable[Finding]) -> list[str]:
    """What cost more, or less, than its severity says: lost data and streams that do not go on are
    errors, handled refusals are notes.
    """
    cases = [case for one in findings for case in one.case_of_each]
    stuck = [
        case
        for case in cases
        if case.severity == "warning"
        and RULES[case.rule].cost_of(case.cause) in (SHARED["lost"], SHARED["stuck"])
    ]
    refused = [
        case
        for case in cases
        if case.severity != "note" and case.over == "recovered" and "refused" in case.message
    ]
    return [
        f"{case.severity} {case.rule}: {case.message} ({case.over})" for case in (*stuck, *refused)
    ]


def without_seqnos(
    findings: Iterable[Finding], unknown: Collection[tuple[int, int]] = ()
) -> list[str]:
    """Findings about a place in the history of a vbucket that name none for programs."""
    return [
        f"{case.rule} of vb {case.vbuckets}: {case.message}"
        for one in findings
        for case in one.case_of_each
        if RULES[case.rule].family in ("stream", "snapshot")
        and case.rule not in WITHOUT_SEQNOS
        and not case.seqnos
        and (case.vbuckets or case.rule not in WITHOUT_STREAMS)
        if not {(number, vbucket) for number in case.connections for vbucket in case.vbuckets}
        & {*unknown}
    ]


def _is_beside_open(request: Mapping[str, Any], streams: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a request was refused while a stream of its connection and stream-id was open."""
    granted = [
        stream
        for stream in streams
        if (stream["connection"], stream["sid"]) == (request["connection"], request["sid"])
        and (stream["answer"] == "accepted" or stream["items"] or stream["snapshots"])
        and stream["first_time"] <= request["first_time"]
    ]
    is_open = bool(granted) and (
        granted[-1]["end_row"] is None or granted[-1]["last_time"] > request["first_time"]
    )
    return request["status"] == "key_eexists" or (request["answer"] == "refused" and is_open)


def disagreements(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], findings: Sequence[Finding]
) -> list[str]:
    """Where the verdict ``behind`` of streams and vbuckets and the rule ``server-owes-seqno``
    contradict each other.

    The rule tells of streams that are behind, or whose connection ended while they were. It tells
    of each that is behind and to which all comes that the vbucket has: its request was captured and
    accepted, has no filter and no end, nothing of its connection is missing.
    """
    owed = {
        (connection, vbucket, case.sid)
        for one in findings
        if one.rule == "server-owes-seqno"
        for case in one.case_of_each
        for connection in case.connections
        for vbucket in case.vbuckets
    }
    stalled = {
        connection
        for one in findings
        if one.rule == "flow-control-stall"
        for connection in one.connections
    }
    holed = {
        one["connection"]
        for one in tables["connections"]
        if one["holes"] or one["skipped_bytes"] or one["starts"] != "handshake"
    }
    cut = {
        connection
        for one in findings
        if one.rule == "capture-cut"
        for connection in one.connections
    }
    keyed = [((one["connection"], one["vbucket"], one["sid"]), one) for one in tables["streams"]]
    late = {
        key
        for key, one in keyed
        if one["verdict"] == "behind" or one["end_reason"] == "connection-closed"
    }
    out = [f"server-owes-seqno of {key}, and no stream of it waits" for key in owed - late]
    for key, one in keyed:
        filter_ = one["filter"] or {}
        is_whole = (
            one["answer"] == "accepted"
            and one["requested_end"] in _ENDLESS
            and not _TO_AN_END & {*one["request_flags"]}
        )
        is_whole &= not {"collections", "scope"} & filter_.keys() and not {key[0]} & (
            stalled | holed | cut
        )
        if one["verdict"] == "behind" and is_whole and key not in owed:
            out.append(f"{key} is behind, and there is no server-owes-seqno")
    for one in tables["vbuckets"]:
        own = [
            stream
            for stream in tables["streams"]
            if stream["vbucket"] == one["vbucket"] and stream["connection"] in one["connections"]
        ]
        # a request that was refused while there is a stream says nothing of that stream
        in_order = sorted(
            own, key=lambda stream: (not _is_beside_open(stream, own), str(stream["first_time"]))
        )
        newest = in_order[-1]["verdict"]
        # the tables of a tracker know no findings, and so no vbucket that was forgotten
        known = () if one["findings"] is None else findings
        replaced = [
            word
            for rule, word, those in (
                ("orphaned-vbucket", "orphaned", ("ended", "refused")),
                ("snapshot-stalled", "stalled", ("backfilling", "advancing")),
            )
            if newest in those
            and any(
                finding.rule == rule
                and one["vbucket"] in case.vbuckets
                and {*case.connections} & {*one["connections"]}
                for finding in known
                for case in finding.case_of_each
            )
        ]
        if one["verdict"] != (replaced or [newest])[0]:
            out.append(
                f"vbucket {one['vbucket']} of {one['client']} is {one['verdict']}, and its "
                "newest stream is not"
            )
        if one["verdict"] == "behind" and not (one["high_seqno"] or 0) > (one["last_seqno"] or 0):
            out.append(
                f"vbucket {one['vbucket']} of {one['client']} is behind {one['high_seqno']} "
                f"with {one['last_seqno']}"
            )
    return out
