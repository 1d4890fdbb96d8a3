"""Rules about how a client uses DCP, compared with what the protocol's documentation recommends to
every client.

They are only asked on demand, since a client that ignores a recommendation breaks nothing. Each
connection whose open was captured gets one verdict from every rule: it does as recommended, it does
not, or the rule does not apply. The latter means that the connection has no use for it, or that the
capture may lack what decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.recommended import CHECKS, ClientConnection, ConsumerFacts, Verdict
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.flow_control import FlowControl

_UNKNOWN = "what capture loss may hide"
_UNUSED = "connections without streams"

RULES = rules(
    f"""
    lint-name lint warning client
        fires: the name of a connection is not of the form service:unique, has more than 200 bytes,
            or was another connection's before
        unless: names on other servers or buckets
        next: name connections service:unique, with a part that is never used again, such as a
            counter or a time
    lint-hello lint warning client
        fires: a connection is opened without a HELLO before it
        unless: {_UNKNOWN}
        next: send HELLO first; it names the agent, and only it can ask for compressed values and
            collections
    lint-noop lint warning client
        fires: streams are requested before enable_noop is true
        unless: {_UNKNOWN}; {_UNUSED}
        next: set enable_noop to true right after the open; without noops, nobody notices a dead
            connection
    lint-noop-interval lint warning client
        fires: enable_noop is true and set_noop_interval is not set
        unless: {_UNKNOWN}; noops are off
        next: set set_noop_interval as well (120 s are recommended), so that both sides agree
    lint-flow-control lint warning client
        fires: connection_buffer_size is not set, or is 0
        unless: {_UNKNOWN}; {_UNUSED}
        next: set connection_buffer_size; without it, a slow client must buffer all that the server
            sends
    lint-ack-pace lint warning client
        fires: acknowledgements are smaller than 1 % of the window on average; a note if some come
            when more than half of it is used
        unless: less than four acknowledgements; flow control off, or unknown
        next: acknowledge after 50 KB or 20 % of the window, whichever comes first
        causes: too-often late
        needs: flow
    lint-cursor-dropping lint warning client
        fires: neither supports_cursor_dropping nor supports_cursor_dropping_vulcan is true
        unless: {_UNKNOWN}; {_UNUSED}
        next: set supports_cursor_dropping to true; a slow client then causes a backfill, and does
            not fill the memory of the node
    lint-high-seqnos lint note client
        fires: a vbucket is requested from 0 before the client asked for the high seqnos of all
            vbuckets
        unless: {_UNKNOWN}; high seqnos that another connection of the host asked for; no request
            from 0
        next: send GET_ALL_VB_SEQNOS first; it returns the vbuckets of the node with their high
            seqnos
    lint-failover-log lint warning client
        fires: a client that must roll back to a seqno above 0 asks again from 0
        unless: {_UNKNOWN}; no rollback to a seqno above 0
        next: resume at the rollback seqno, with the uuid of its branch in the failover log; from 0,
            everything is sent again
    lint-resume-range lint warning client
        fires: a client resumes in the middle of a snapshot, and gives its start seqno as both ends
            of the snapshot
        unless: {_UNKNOWN}; the snapshot was complete; no stream is resumed
        next: store the range of the snapshot with the seqno, and send both; otherwise the server
            may miss that a rollback is needed
    lint-stream-end-on-close lint note client
        fires: a stream is closed and send_stream_end_on_client_close_stream is not true
        unless: {_UNKNOWN}; no stream is closed
        next: set send_stream_end_on_client_close_stream to true; the stream end then shows that no
            more messages come
    lint-active-only lint note client
        fires: streams are requested with neither the flag for active vbuckets only (0x10) nor the
            flag to the latest seqno (0x04)
        unless: {_UNKNOWN}; {_UNUSED}
        next: set flag 0x10 (active vbucket only); the server then refuses instead of streaming from
            a replica
    lint-expiry lint note client
        fires: enable_expiry_opcode is not true
        unless: {_UNKNOWN}; {_UNUSED}
        next: set enable_expiry_opcode to true if the client must distinguish expired documents from
            deleted ones
    lint-flatbuffers lint note client
        fires: collections are on and flatbuffers_system_events is not true
        unless: {_UNKNOWN}; collections off or unknown; {_UNUSED}
        next: set flatbuffers_system_events to true; the server then also sends changes of
            collections, not only their begin and end
    lint-purge-seqno lint note client
        fires: streams are resumed and max_marker_version is not 2.2, or no request has the
            purge_seqno of a marker
        unless: {_UNKNOWN}; collections off or unknown; no stream is resumed
        next: set max_marker_version to 2.2 and send purge_seqno when resuming; this avoids
            rollbacks
    lint-oso-mode lint note client
        fires: enable_out_of_order_snapshots is true
        unless: OSO snapshots are off
        next: set it to true_with_seqno_advanced; the server then sends the last seqno of the
            snapshot
    lint-manifest-uid lint note client
        fires: collections are on and a stream is resumed without the uid of the manifest
        unless: {_UNKNOWN}; collections off or unknown; no stream is resumed
        next: store the manifest uid of system events, and send it as uid when resuming
    lint-compression lint note client
        fires: Snappy was not granted, or force_value_compression is not true
        unless: {_UNKNOWN}; values are left out by the open; {_UNUSED}
        next: if bandwidth matters, ask for Snappy in HELLO and set force_value_compression to true
    lint-v7-status lint note client
        fires: v7_dcp_status_codes is not true
        unless: {_UNKNOWN}; {_UNUSED}
        next: set v7_dcp_status_codes to true; unknown streams and wrong opaques then have their own
            statuses
    lint-connections lint warning client
        fires: a client has more than one DCP connection to a bucket of one node at a time
        unless: an older connection without further messages
        next: use one connection with many streams; many connections do not scale
    """
)


def verdicts(context: Context, flow: FlowControl | None) -> Iterator[Verdict]:
    """Yields verdicts connection by connection, every rule in order, for connections that were
    opened and whose open was captured.
    """
    facts = ConsumerFacts(context, flow)
    for link in context.links:
        session = context.session(link.number)
        streams = facts.streams.get(link.number, [])
        is_open = session.open_status == Status.SUCCESS or (session.open_status is None and streams)
        if session.open_flags is None or not is_open:
            continue
        talk = ClientConnection(facts, link, session, streams)
        for rule, check in CHECKS.items():
            yield talk.judge(rule, check)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all failures, once all messages were taken."""
    if finished.is_whole:
        for verdict in verdicts(finished.context, finished.context.tracker.flow):
            if verdict.says == "FAIL":
                yield verdict.occurrence


RULE_SET = RuleSet(RULES, findings=findings)
