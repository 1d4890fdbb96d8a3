"""What a check may find fault with in a legal conversation: what is reported to somebody although
all kept to the protocol.

A server that refuses, rolls back or ends a stream for a reason of its own is told of as a warning,
though nobody did wrong. Of anything else there is nothing to say but notes; and each of these must
point at a message that says so.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from dcpinspect.findings.finding import Finding
from tests.model.expect import COUNTED, EVENTS
from tests.model.facts import program_of
from tests.model.reading import Read
from tests.model.tape import Closed, Said, Tape

ROLLBACK, KEY_EEXISTS = 0x23, 2


def _refuses(name: str, *statuses: int) -> Callable[[Said], bool]:
    def says_so(said: Said) -> bool:
        status = said.parts.get("status", 0)
        return (
            said.name == name
            and said.side == "response"
            and (status in statuses if statuses else status not in (0, ROLLBACK))
        )

    return says_so


def _ends(said: Said) -> bool:
    return said.name == "dcp_stream_end" and said.parts["end_reason"] in (
        "too-slow",
        "backfill-failed",
        "rollback",
        "lost-privileges",
    )


ACCOUNTS: Mapping[str, Callable[[Said], bool]] = {
    "stream-refused": _refuses("dcp_stream_req"),
    "duplicate-stream-request": _refuses("dcp_stream_req", KEY_EEXISTS),
    "rollback": _refuses("dcp_stream_req", ROLLBACK),
    "open-refused": _refuses("dcp_open"),
    "stream-end-reason": _ends,
}
"""By rule, whether a message accounts for a finding that is worse than a note."""


COMES_NO_MORE: Mapping[str, Collection[str]] = {
    "orphaned-vbucket": ("dcp_stream_req",),
    "rollback-not-followed": ("dcp_stream_req",),
    "connection-closed": ("dcp_stream_req",),
    "stream-end-missing": ("dcp_stream_end",),
    "server-owes-seqno": EVENTS,
    "snapshot-stalled": EVENTS,
    "ack-missing": ("dcp_seqno_acknowledged",),
}
"""By rule, what never came after the messages that a finding points at: clients forget and servers
idle in these conversations.
"""

NEEDS_NO_ANSWER = COUNTED | {"dcp_buffer_acknowledgement", "dcp_seqno_acknowledged"}


def answers(tape: Tape) -> dict[Said, Said | None]:
    """The answer of every request that needs one; None where none came."""
    waiting: dict[tuple[object, ...], list[Said]] = defaultdict(list)
    found: dict[Said, Said | None] = {}
    for said in tape.said:
        if said.side == "response":
            asked = waiting[said.connection, not said.to_server, said.name, said.parts["opaque"]]
            if asked:
                found[asked.pop(0)] = said
        elif said.name not in NEEDS_NO_ANSWER:
            waiting[said.connection, said.to_server, said.name, said.parts["opaque"]].append(said)
            found[said] = None
    return found


def unfounded(
    tape: Tape,
    found: Read,
    vanished: Collection[int] = (),
    *,
    torn: Collection[int] = (),
    is_whole: bool = False,
) -> list[str]:
    """Findings worse than a note for which nothing that was said accounts; what accounts for a
    cause accounts for its effects.

    ``is_whole``: nothing is missing up to the end of the capture, so that what was not heard was
    not said by then. ``torn``: connections of the reading that are two on the tape, and nothing
    tells. ``vanished``: connections whose end is missing without a trace; a reading sees ones on
    which nobody says anything any more.
    """
    by_row = {one.row: one.said for one in found.heard}
    until_ns = max((one.said.time_ns for one in found.heard), default=0)
    answered = answers(tape)
    said_by_then = (
        {one.said for one in found.heard}
        if is_whole
        else {one for one in tape.said if one.time_ns <= until_ns}
    )
    out = []
    for finding in found.findings:
        if (
            finding.severity != "note"
            and finding.effect_of is None
            and not {*finding.connections} & {*torn}
        ):
            said = [by_row[place.row] for place in finding.places if place.row in by_row]
            if finding.places and not said and finding.rule in ACCOUNTS:
                # without a SYN, and too little of it read to know which connection of its addresses
                # this is
                continue
            if not finding.places:  # of the connection
                said = [
                    one.said
                    for one in found.heard
                    if one.said.connection == found.connections[finding.connections[0] - 1]
                ]
            is_absence = finding.rule in COMES_NO_MORE and _is_absent(
                found, tape, said, finding, said_by_then
            )
            if finding.rule in ("silent-connection", "noop-unanswered") and len(
                finding.places
            ) == len(finding.connections):
                is_absence = bool(said) and all(
                    one.connection in vanished for one in said
                )  # up to the end of the capture
            if finding.rule == "flow-control-stall":
                is_absence = bool(said) and said[0].connection in vanished
            if not is_absence and not _is_accounted_for(
                found, tape, finding, said, answered, vanished
            ):
                rows = [place.row for place in finding.places]
                out.append(
                    f"check {finding.rule}: {finding.severity} {finding.where}: "
                    f"{finding.message} rows={rows}"
                )
    return out


def _is_accounted_for(
    found: Read,
    tape: Tape,
    finding: Finding,
    said: Sequence[Said],
    answered: Mapping[Said, Said | None],
    vanished: Collection[int],
) -> bool:
    """Whether one of the messages that a finding points at, or the answer to it, says what it
    says.
    """
    if finding.rule == "closed-before-stream-end":
        asked = {
            (one.connection, one.to_server)
            for one in said
            if one.name == "dcp_stream_req" and one.side == "request"
        }
        return any(
            (one.connection, one.by == "client") in asked
            for one in tape.entries
            if isinstance(one, Closed) and one.by
        )
    if finding.rule == "rollback-loop":
        told = [
            one
            for one, answer in answered.items()
            if answer is not None and ACCOUNTS["rollback"](answer)
        ]
        ends = [
            one
            for one in tape.said
            if one.name == "dcp_stream_end"
            and one.side == "request"
            and one.parts["end_reason"] == "rollback"
        ]
        told = ends if finding.cause == "stream-end" else told
        return any(
            Counter(one.parts["vbucket"] for one in told)[vbucket] >= 2
            for vbucket in finding.vbuckets
        )
    if finding.rule == "missing-response":
        until_ns = max((one.said.time_ns for one in found.heard), default=0)
        heard = {one.said for one in found.heard}
        is_gone = any(one.connection in vanished and answered.get(one) not in heard for one in said)
        return is_gone or any(
            one in answered and ((answer := answered[one]) is None or answer.time_ns > until_ns)
            for one in said
        )
    accounts = ACCOUNTS.get(finding.rule)
    return accounts is not None and any(
        accounts(one) for each in said for one in (each, answered.get(each)) if one is not None
    )


def _is_absent(
    found: Read,
    tape: Tape,
    pointed: Sequence[Said],
    finding: Finding,
    said_by_then: Collection[Said],
) -> bool:
    """Whether the client, or its server, had nothing more to say, by then, of the vbucket of what a
    finding points at first.
    """
    if not pointed or not finding.vbuckets:
        return False
    is_servers = finding.rule in ("stream-end-missing", "server-owes-seqno", "snapshot-stalled")
    # what a server has may be told on another connection; what it sent last was sent later
    offender = max(pointed, key=lambda one: one.time_ns) if is_servers else pointed[0]
    # and it may be told on a connection of another client
    connection = (
        found.connections[finding.connections[0] - 1]
        if finding.connections
        else offender.connection
    )
    is_close = finding.rule == "connection-closed"
    if is_close and not _is_closed_by_producer(tape, connection):
        return False
    hosts = [one.client[0] for one in tape.opened]
    opened = [one for one in tape.said if one.name == "dcp_open" and one.side == "request"]
    names = {
        one.connection: (hosts[one.connection], program_of(one.parts["key"])) for one in opened
    }
    own = names.get(offender.connection)
    heard_ns = {one.said: one.time_ns for one in found.heard}
    since_ns = heard_ns.get(offender, offender.time_ns)
    later = (
        one
        for one in said_by_then
        if since_ns < heard_ns.get(one, one.time_ns)
        and (one.connection == connection if is_servers else names.get(one.connection) == own)
    )
    missing = COMES_NO_MORE[finding.rule]
    asked = {
        (one.name, one.parts.get("vbucket"), None if is_close else _sid(one))
        for one in later
        if one.side == "request"
    }
    return any(
        not any((name, vbucket, finding.sid) in asked for name in missing)
        for vbucket in finding.vbuckets
    )


def _is_closed_by_producer(tape: Tape, connection: int) -> bool:
    """Whether the side that stream requests were sent to closed a connection."""
    producers = {
        "server" if one.to_server else "client"
        for one in tape.said
        if one.connection == connection and one.name == "dcp_stream_req" and one.side == "request"
    }
    return any(
        isinstance(one, Closed) and one.connection == connection and one.by in producers
        for one in tape.entries
    )


def _sid(said: Said) -> int | None:
    """The stream-id of a message, which a stream request has in its value."""
    value = said.parts.get("value") if said.name == "dcp_stream_req" else None
    sid = json.loads(value).get("sid") if value else said.parts.get("sid")
    return int(sid) if sid is not None else None
