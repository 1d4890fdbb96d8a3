"""Rules about stream requests: what was asked and answered, and what the client made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.cases import shape
from dcpinspect.findings.client_requests import EmptySnapshots, OpenedInOrder, filter_fault
from dcpinspect.findings.context import MOST_VBUCKETS, Context, occurrence, plain, reached
from dcpinspect.findings.finding import SEVERITY_OF, MessagePlace, Occurrence, captured
from dcpinspect.findings.history_rules import loops
from dcpinspect.findings.positions import CAUSES as WRONG
from dcpinspect.findings.positions import WrongPosition, wrong_position
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet, Watcher
from dcpinspect.protocol.command_statuses import command_status_meaning
from dcpinspect.protocol.flags import FROM_LATEST, IGNORE_PURGED, INCLUDE_XATTRS, TO_AN_END
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams import words as w
from dcpinspect.streams.collections import hex_uid
from dcpinspect.streams.records import LEAST, UNREAD_SEQNO, Stream, Streams
from dcpinspect.streams.rollback import CAUSES
from dcpinspect.streams.rollbacks import Rollback
from dcpinspect.streams.transitions import ENDED

ENDLESS = 2**64 - 1

STALE_MAP = "stale-map"
"""Cause of a refusal by a node that lacks the vbucket, where the client asked again and again."""
NO_SUCH_VBUCKET = "no-such-vbucket"
"""Cause of a refusal of a vbucket that no bucket has."""
MOST_ASKED = 3
"""Greatest number of times that a client may ask a node that does not have the vbucket."""

RULES = rules(
    f"""
    bad-stream-range stream error consumer
        fires: a stream request breaks snapshot start <= start <= snapshot end, or start <= end
        unless: requests from the latest seqno; requests in the form of the first specification
        next: remove this checkpoint, because servers refuse it; a consumer has to store start and
            snapshot together, only with an item, and to resume inside the stored snapshot
        causes: marker-without-item start-above-snapshot start-below-snapshot start-above-end
        reports: couchbase/java-dcp-client#41, JDCP-95, JDCP-241, couchbase-kafka-connector#6,
            Trendyol/go-dcp#128
        cost: refused
        fields: start_seqno
        silences: stream-refused
    stream-refused stream warning
        fires: a stream request is answered by neither success nor rollback; error or note by status
        unless: requests with a more specific finding
        next: look up what the status names with 'dcpinspect explain STATUS'; a consumer has to change
            its request, or to ask again later with growing pauses
        whose: normal for not-my-vbucket, consumer for {STALE_MAP} {NO_SUCH_VBUCKET} eacces eaccess
            einval erange unknown-collection unknown-scope dcp-stream-id-invalid, producer for etmpfail tmpfail
        cost: refused
        fields: status, status vbucket for not-my-vbucket {STALE_MAP} {NO_SUCH_VBUCKET}, status
            start_seqno for erange, status value for unknown-collection unknown-scope
            dcp-stream-id-invalid, status value flags for einval
    duplicate-stream-request stream warning consumer
        fires: a vbucket is requested again while its stream is open
        next: report the consumer's version to its author; it has to wait for the stream end before
            the next request, or to use stream-ids
        reports: couchbase/java-dcp-client#13
        cost: vbucket, was requested twice, were requested twice
        silences: stream-refused
        fields: vbucket
    manifest-ahead stream warning normal
        fires: the consumer knows a newer collections manifest than the producer
        next: wait, because this passes after a failover; a client has to ask again with growing
            pauses
        reports: MB-31326, JDCP-159
        cost: refused
        silences: stream-refused
    noop-required stream warning consumer
        fires: a request for xattrs or collections is not supported because noops are off
        next: turn noops on in the consumer's settings; a consumer has to set enable_noop to true before
            the first stream request
        cost: refused
        silences: stream-refused
    rollback stream warning
        fires: a stream request is answered with a rollback; a note if the consumer, or another
            member of its group, followed it and is in no rollback-loop. It is also a note if the
            consumer was granted the same with ignore-purged-tombstones, or has a stream again whose
            request was not captured
        next: look at 'dcpinspect rollbacks', which has the cause and a request that works for each;
            the consumer has to discard what is above the rollback seqno, and to resume there
        causes: {" ".join(CAUSES)} {" ".join(WRONG)}
        reports: couchbase/sync_gateway#6170, GOCBC-1401, couchbase/sync_gateway#1198
        whose: normal for {" ".join(CAUSES)}, consumer for no-uuid {" ".join(WRONG)}
        cost: back
        fields: start_seqno
    rollback-not-honoured stream warning consumer
        fires: after a rollback, the consumer asks again from above the rollback seqno with the same
            uuid
        unless: another request was accepted in between; the flag ignore-purged-tombstones, which
            the first request did not have; capture loss that may hide a request
        next: update the consumer, and stop it while it asks so; it has to discard what is above the
            rollback seqno before it asks again
        cost: vbucket, ignored a rollback, ignored a rollback
        fields: start_seqno
    end-zero-reopen stream error consumer
        fires: a stream is accepted with end 0, although the consumer asked for more before
        unless: consumers that always ask for end 0; requests to the latest or persisted seqno
        next: run the job again, because its stream ended after 0 items; a consumer has to keep the
            end seqno after a rollback
        reports: couchbase/sync_gateway#5646, couchbase/sync_gateway#6152
        cost: stuck
    stream-end-reason stream note
        fires: a stream ends with a reason other than ok; a warning for too-slow, backfill-failed,
            rollback and lost-privileges
        unless: the consumer had closed it
        next: a consumer can resume a stream where it ended; after filter-empty it has to ask for
            another filter first, and after lost-privileges it needs its privileges back
        causes: {" ".join(w.END_REASONS[1:9])} undefined
        whose: consumer for closed too-slow filter-empty lost-privileges, normal for state-changed
            disconnected rollback undefined, producer for backfill-failed
        cost: vbucket, was ended early, were ended early, usual
    """
)

_STATUS_SEVERITY: dict[int, Severity] = {
    Status.EACCESS: "error",
    Status.EINVAL: "error",
    Status.ERANGE: "error",
    Status.DCP_STREAM_ID_INVALID: "error",
}
AFTER_END = {
    "closed": (
        "operators have nothing to do; the consumer has to reopen the stream where it ended, unless "
        "it meant to close it"
    ),
    "state-changed": (
        "expected in a rebalance or failover; the consumer has to ask for a new cluster map, and to "
        "reopen the stream where it ended, at the node that it names"
    ),
    "disconnected": (
        "look in the producer's log for why it disconnects; the consumer has to reopen the stream "
        "where it ended, on a new connection"
    ),
    "too-slow": (
        "give the consumer more processor time; it has to reopen the stream where it ended, and to "
        "take messages off faster, because the producer does not keep them for long"
    ),
    "backfill-failed": (
        "look in the server's log for why it cannot read the vbucket; the consumer has to reopen "
        "the stream where it ended"
    ),
    "rollback": (
        "look in the cluster's log for what took the history back; the consumer has to ask again, "
        "expect a rollback, and discard what is above its seqno. A stream from the same start "
        "with the same uuid ends again"
    ),
    "filter-empty": (
        "take what was dropped, a collection or a scope, out of the consumer's settings, because a "
        "stream with this filter ends again"
    ),
    "lost-privileges": (
        "give the user its privileges back; until then, the producer refuses the consumer's requests"
    ),
}
"""What to do when a stream ended, by reason."""
_ASKED_AGAIN = {
    **dict.fromkeys(
        ("closed", "state-changed", "disconnected"),
        "operators have nothing to do, the consumer asked again; the answer says how it goes on",
    ),
    "too-slow": (
        "give the consumer more processor time; it has to take messages off faster, because the "
        "producer does not keep them for long"
    ),
    "backfill-failed": (
        "if it ends again, the server's log shows why it cannot read the vbucket; a consumer should "
        "pause before it asks again"
    ),
    "rollback": (
        "look in the cluster's log for what took the history back; the answer to the consumer's next "
        "request may well be a rollback"
    ),
}
"""What to do when a stream ended, by reason, if the client has asked for it again since."""
END_FIRST = (
    "look whether the consumer has all up to the end, because it needs no stream then; else it has to "
    "ask for an end at or above the start"
)
_FOLLOWED = "nothing is left to do, the consumer followed the rollback"
_GROUP_FOLLOWED = "nothing is left to do, another member of the consumer's group resumed there"
_WENT_ON = (
    "nothing is left to do, the consumer has a stream of the vbucket again; the request for "
    "it was not captured"
)
_TO_KEEP = {
    "no-uuid": "a consumer that sends the uuid of its history keeps what it has",
    "purge": "a consumer that needs no tombstones can ask with ignore-purged-tombstones instead",
}
"""How a client keeps what it has, by why it was rolled back."""
_MOST_FALLS = 8
"""Number of further rollbacks that are looked at, for whether the client followed the first one."""
_LATER = (
    "look at the node's memory and load if it goes on; the producer refuses only for now, so a "
    "client should ask again later, with growing pauses"
)
_AS_SAID = (
    "compare the versions of client and server; a consumer has to change in the request what the "
    "answer names"
)
_AFTER_REFUSAL: dict[int, str] = {
    Status.ETMPFAIL: _LATER,
    Status.ENOMEM: _LATER,
    Status.EACCESS: (
        "give the user a role that may read this data over DCP; until then, the "
        "producer refuses its requests"
    ),
    Status.EINVAL: (
        "compare the versions of client and server; a consumer has to correct the flags or the JSON "
        "value of the request"
    ),
    Status.ERANGE: (
        "remove this checkpoint; a consumer has to resume from a seqno, and with a snapshot around "
        "it, that the vbucket's stream delivered"
    ),
    Status.UNKNOWN_COLLECTION: (
        "look whether the consumer's settings name a collection that was dropped; it has to ask for "
        "the manifest, and to name only collections that it has"
    ),
    Status.UNKNOWN_SCOPE: (
        "look whether the consumer's settings name a scope that was dropped; it has to ask for the "
        "manifest, and to name only scopes that it has"
    ),
    Status.DCP_STREAM_ID_INVALID: (
        "report the consumer's version to its author; it has to name a stream-id if, and only if, "
        "'enable_stream_id' is on"
    ),
    Status.NOT_SUPPORTED: (
        "turn on noops in the consumer's settings; a consumer has to do so before the request, and "
        "must not combine a filter with sync writes"
    ),
}
"""What to do about a refused stream request, by its status."""
_MAY_PASS = (Status.NOT_MY_VBUCKET, Status.ETMPFAIL)
_BAD_ENDS = (4, 5, 6, 8)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, client by client, in the order of the requests."""
    context = finished.context
    looping = {number for rounds in loops(context) for number in rounds}
    tells, bare = _may_tell(context.streams), EmptySnapshots(context)
    for numbers in context.of_client.having(tells):
        requests_in_order = OpenedInOrder(context.streams, numbers, bare)
        granted, latest = (
            int(np.flatnonzero(mask[numbers]).max(initial=-1))
            for mask in (context.granted, context.rolled_back)
        )
        for index, number in enumerate(numbers):
            if not tells[number]:
                continue
            stream = context.streams[number]
            yield from _answered(
                context, requests_in_order, index, is_granted_later=index < granted
            )
            if context.rolled_back[number]:
                followed = (
                    None if number in looping else _followed(context, requests_in_order, index)
                )
                stands = _stands(context, requests_in_order, index, latest)
                yield _rolled_back(
                    context,
                    number,
                    followed,
                    is_granted_later=index < granted,
                    stands=None if followed is not None or number in looping else stands,
                )
            elif stream.answer == w.A_ROLLBACK and not stream.request.is_captured:
                yield _rolled_back_unread(
                    context, number, has_stream=context.conduct.may_be_granted_after(number)
                )
            yield from _ended(context, requests_in_order, index, is_granted_later=index < granted)


def _may_tell(streams: Streams) -> BoolArray:
    """Returns a mask of streams of which there may be something to say; most have nothing."""
    request = streams.request
    is_range = (request.has_range != 0) & (request.flags & FROM_LATEST == 0)
    is_bad = is_range & ~(
        (request.snapshot_start <= request.start)
        & (request.start <= np.minimum(request.snapshot_end, request.end))
    )
    is_denied = np.isin(streams.answer, (w.A_REFUSED, w.A_ROLLBACK))
    wants_nothing = (
        (streams.answer == w.A_ACCEPTED) & (request.end == LEAST) & (request.flags & TO_AN_END == 0)
    )
    is_ended = (streams.state == ENDED) & (streams.reason > 0)
    mask: BoolArray = ((request.is_captured != 0) & (is_bad | wants_nothing)) | is_denied | is_ended
    return mask


def _answered(
    context: Context,
    requests_in_order: OpenedInOrder,
    index: int,
    *,
    is_granted_later: bool,
) -> Iterator[Occurrence]:
    numbers = requests_in_order.numbers
    number = numbers[index]
    stream = context.streams[number]
    bad = _bad_range(context, requests_in_order, index)
    if bad is not None:
        yield bad
    if stream.answer == w.A_ROLLBACK:
        not_honoured = _not_honoured(context, requests_in_order, index)
        if not_honoured is not None:
            yield not_honoured
    elif stream.answer == w.A_REFUSED and bad is None:
        connection = stream.connection
        is_granted: bool | None = is_granted_later or context.conduct.may_be_granted_after(number)
        is_stale = not is_granted and requests_in_order.asked_wrong[connection] > MOST_ASKED
        if (
            not is_granted
            and stream.status in _MAY_PASS
            and context.conduct.may_have_said(
                connection, stream.answered.time, vbucket=stream.vbucket
            )
        ):
            is_granted = None
        yield _refused(
            context,
            number,
            requests_in_order.open_on(connection, index),
            is_granted_later=is_granted,
            is_stale=is_stale,
        )
    elif (
        stream.answer == w.A_ACCEPTED
        and stream.request.is_captured
        and stream.request.end == LEAST
        and not stream.request.flags & TO_AN_END
    ):
        wanting_more = requests_in_order.wanting_more(index)
        if wanting_more is not None:
            reason = (
                "a rollback"
                if context.streams.answer[numbers[index - 1]] == w.A_ROLLBACK
                else "it had asked for more"
            )
            message = f"reopened with end 0 after {reason}, ended after {stream.items} items"
            evidence = (
                context.request(number),
                context.answer(number),
                context.request(wanting_more),
            )
            yield occurrence(context, number, "end-zero-reopen", message, evidence, seqnos=(0,))


def _bad_range(context: Context, requests_in_order: OpenedInOrder, index: int) -> Occurrence | None:
    number = requests_in_order.numbers[index]
    stream = context.streams[number]
    if stream.request.has_range == 0 or stream.request.flags & FROM_LATEST:
        return None
    start = plain(stream.request.start)
    end = plain(stream.request.end)
    low = plain(stream.request.snapshot_start)
    high = plain(stream.request.snapshot_end)
    if low <= start <= min(high, end):
        return None
    status = "accepted" if stream.answer == w.A_ACCEPTED else status_name(stream.status)
    answered = f", answered with {status}" if stream.status >= 0 else ""
    evidence = [context.request(number), context.answer(number)]
    if low <= start <= high:
        return occurrence(
            context,
            number,
            "bad-stream-range",
            f"start {start} is above end {end}{answered}",
            evidence,
            cause="start-above-end",
            next_=END_FIRST,
            seqnos=(start, end),
            shared=f"start is above the end{answered}",
            facts={"start": start, "end": end},
        )
    cause = "start-above-snapshot" if start > high else "start-below-snapshot"
    marker, advice = requests_in_order.bare_snapshot(index, low, high), None
    if marker is not None:
        cause = "marker-without-item"
        evidence.append(context.marker(marker))
        advice = f"store a snapshot only with its first item; resume with snapshot {start}–{start}"
    return occurrence(
        context,
        number,
        "bad-stream-range",
        f"start {start} is not in snapshot {low}–{high}{answered}",
        evidence,
        cause=cause,
        next_=advice,
        seqnos=(start, low, high),
    )


def _wants(streams: Streams, _: Watcher | None) -> BoolArray:
    """Returns a mask of streams of the vbuckets whose requests lie outside the snapshot they name:
    it may be a snapshot without an item.
    """
    request, flags = streams.request, streams.request.flags
    is_bad = (
        (request.has_range != 0)
        & (flags & FROM_LATEST == 0)
        & ((request.start < request.snapshot_start) | (request.start > request.snapshot_end))
    )
    return np.isin(streams.vbucket, streams.vbucket[is_bad])


def _refused(
    context: Context,
    number: int,
    live: int | None,
    *,
    is_granted_later: bool | None,
    is_stale: bool,
) -> Occurrence:
    """Returns the occurrence of a refusal. ``live``: the stream of the vbucket that was open on the
    connection. ``is_granted_later``: None if the capture may lack a later request. ``is_stale``:
    the client goes on asking a node that does not have the vbucket.
    """
    stream = context.streams[number]
    start = plain(stream.request.start) if stream.request.is_captured else None
    refused = occurrence(
        context,
        number,
        "stream-refused",
        "",
        [context.request(number), context.answer(number)],
        seqnos=() if start is None else (start,),
        facts={} if start is None else {"requested start": start},
    )
    specific_fault = _specific_fault(context, number, live)
    if specific_fault is not None:
        rule, message, more = specific_fault
        evidence = captured((*refused.places, *more))
        severity = SEVERITY_OF[rule]
        return replace(refused, rule=rule, message=message, places=evidence, severity=severity)
    status, session = stream.status, context.session(stream.connection)
    if status == Status.NOT_MY_VBUCKET and stream.vbucket >= context.vbuckets_of_buckets:
        return replace(
            refused,
            message=f"stream request refused: {status_name(status)}, no bucket has a vbucket "
            f"above {MOST_VBUCKETS - 1:,}",
            cause=NO_SUCH_VBUCKET,
            next="report the consumer's version to its author; it has to take the vbuckets from the "
            "cluster map, and a key's vbucket from its CRC32 modulo their number",
        )
    passed = status in _MAY_PASS and is_granted_later
    may_have_passed = status in _MAY_PASS and is_granted_later is not False
    # what the value may be is for those who cannot read it
    meaning = command_status_meaning(Opcode.DCP_STREAM_REQ, status).partition("; the value ")[0]
    reason, cause = meaning[:1].lower() + meaning[1:], status_name(status).replace("_", "-")
    advice = _AFTER_REFUSAL.get(status)
    server_words = session.reasons.get(stream.answered.row, "")
    if server_words and status == Status.EINVAL:
        reason, advice = "", _AS_SAID
    fault = None
    if status == Status.EINVAL and stream.request.filter >= 0:
        fault = filter_fault(
            context.value(number), has_collections=context.has_collections(stream.connection)
        )
    elif status == Status.DCP_STREAM_ID_INVALID:
        fault = _stream_id_fault(context, number)
    reason, advice = fault or (reason, advice)
    if status == Status.NOT_MY_VBUCKET:
        advice = _elsewhere(context, number)
        reason += "; it sent a cluster map" * (stream.vbucket in session.redirects)
        names = session.redirects.get(stream.vbucket, "")
        link = context.by_number[stream.connection]
        is_told_to = names is None or (names != "" and link.node(names) == link.server)
        cause = STALE_MAP if is_stale and not is_told_to else cause
    if passed and cause != STALE_MAP:
        advice = "nothing is left to do, a later request was granted"
    elif may_have_passed and cause != STALE_MAP:
        advice = f"look whether the vbucket has a stream now, the capture may lack a later request; {advice}"
    return replace(
        refused,
        message=", ".join(filter(None, [f"stream request refused: {status_name(status)}", reason])),
        cause=cause,
        reason=server_words if fault is None else shape(fault[0]),
        next=advice,
        severity="note" if may_have_passed else _STATUS_SEVERITY.get(status, "warning"),
    )


def _stream_id_fault(context: Context, number: int) -> tuple[str, str] | None:
    """Returns what is wrong with the stream-id of a refused request, and what to do; None where the
    capture does not show it.
    """
    stream, value = context.streams[number], context.value(number)
    has_control = ("enable_stream_id", "true") in context.session(stream.connection).accepted
    if value is not None and "sid" in value and not has_control:
        return (
            "it names a stream-id, but enable_stream_id is not on",
            "report the client's version to its author; it has to turn on 'enable_stream_id' before it "
            "names stream-ids",
        )
    has_no_value = stream.request.is_captured and stream.request.filter == -1
    if has_no_value or (value is not None and "sid" not in value):
        return (
            "it names no stream-id, but enable_stream_id is on",
            "report the client's version to its author; once 'enable_stream_id' is on, each stream "
            "request has to name a stream-id",
        )
    return None


def _specific_fault(
    context: Context, number: int, live: int | None
) -> tuple[str, str, tuple[MessagePlace | None, ...]] | None:
    """Returns the more specific rule of a refusal, its message and more evidence; None for none."""
    stream = context.streams[number]
    status, session = stream.status, context.session(stream.connection)
    if status == Status.KEY_EEXISTS:
        live_request = context.request(live) if live is not None else None
        since = f" since row {live_request.row}" if live_request is not None else ""
        return "duplicate-stream-request", f"requested again while open{since}", (live_request,)
    if status == Status.COLLECTIONS_MANIFEST_IS_AHEAD:
        message = "the consumer's manifest is ahead of the producer's"
        return "manifest-ahead", context.by_side(number, message), ()
    if status in (Status.UNKNOWN_COLLECTION, Status.UNKNOWN_SCOPE):
        consumer_uid = hex_uid((context.value(number) or {}).get("uid"))
        producer_uid = hex_uid(session.manifest_uids.get(stream.vbucket))
        if consumer_uid is not None and producer_uid is not None and consumer_uid > producer_uid:
            message = (
                f"the consumer knows manifest 0x{consumer_uid:x}, the producer 0x{producer_uid:x}"
            )
            return "manifest-ahead", context.by_side(number, message), ()
    wants_noop = bool((session.open_flags or 0) & INCLUDE_XATTRS) or "Collections" in (
        session.features or ()
    )
    if status == Status.NOT_SUPPORTED and wants_noop and _is_noop_off(context, stream.connection):
        return "noop-required", "noop must be enabled first", ()
    return None


def _elsewhere(context: Context, number: int) -> str:
    """Returns where the vbucket is, as the answer says it."""
    stream = context.streams[number]
    connection, vbucket = stream.connection, stream.vbucket
    redirects = context.session(connection).redirects
    if vbucket not in redirects:
        return (
            "look whether a rebalance or failover moved the vbucket; the consumer has to ask for a "
            "new cluster map, and then the node that it names"
        )
    if (named := redirects[vbucket]) is None:
        return (
            "the map in the answer has no active node for the vbucket, so look at the nodes of the "
            "cluster; the consumer has to ask again when a new map names one"
        )
    link = context.by_number[connection]
    if (node := link.node(named)) == link.server:
        return (
            f"wait, the map in the answer names this same node, {node}, which is still taking "
            "over; the consumer has to ask again later"
        )
    return (
        f"the map in the answer names {node}; look whether the consumer reaches it, and asks there"
    )


def _is_noop_off(context: Context, connection: int) -> bool:
    """Returns whether it is certain that noops were not asked for, or not granted."""
    noop = context.session(connection).controls.get("enable_noop")
    if noop is not None and noop.status is not None:
        return noop.status != "success"
    return context.tracker.state.is_whole(connection)


def _followed(context: Context, requests_in_order: OpenedInOrder, index: int) -> int | None:
    """Returns the request by which the client followed a rollback; None if there is none.

    That is a request that would work, or that worked, from no higher seqno. One that was refused
    for now is asked again, and one that was rolled back further is asked again from further down.
    Of one that was not captured, only the stream that it led to is known.
    """
    streams = context.streams
    origins = context.logs.origins
    number = requests_in_order.numbers[index]
    bucket = origins[streams[number].connection][1]
    answered = streams[number].answered
    if streams.rollback[number] == UNREAD_SEQNO:
        return None
    to, falls = streams[number].rollback, 0
    for later in range(requests_in_order.since(index, answered), len(requests_in_order.numbers)):
        again = requests_in_order.numbers[later]
        if origins[streams[again].connection][1] != bucket:
            continue
        if not streams.request.is_captured[again]:
            return again if context.granted[again] else None
        if _follows(context, number, again):
            return again
        is_rollback = streams.answer[again] == w.A_ROLLBACK
        if is_rollback and _names_older_branch(context, streams[number], streams[again]):
            falls += 1
        elif is_rollback and streams.request.start[again] <= to and streams.rollback[again] < to:
            to, falls = streams[again].rollback, falls + 1
        elif streams.answer[again] != w.A_REFUSED or streams.status[again] not in _MAY_PASS:
            return None  # else it asks the same again later
        if falls > _MOST_FALLS:
            return None
    taker = context.conduct.taken_up_by(number)
    return taker if taker is not None and _follows(context, number, taker) else None


def _stands(
    context: Context, requests_in_order: OpenedInOrder, index: int, latest: int
) -> int | None:
    """Returns the latest rollback of a client's vbucket, at place ``latest``, if it holds instead
    of an earlier one: it says otherwise, or was followed. None if it does not.
    """
    streams, origins = context.streams, context.logs.origins
    number, later = requests_in_order.numbers[index], requests_in_order.numbers[latest]
    if (
        latest < requests_in_order.since(index, streams[number].answered)
        or streams.sid[later] != streams.sid[number]
        or origins[streams[later].connection][1] != origins[streams[number].connection][1]
    ):
        return None
    rollback, later_rollback = map(context.rollbacks.stream_rollback, (number, later))
    is_other = (
        rollback.to != later_rollback.to or rollback.resume_uuid != later_rollback.resume_uuid
    )
    if is_other or _followed(context, requests_in_order, latest) is not None:
        return later
    return None


def _follows(context: Context, number: int, again: int) -> bool:
    row, next_row = context.streams[number], context.streams[again]
    if not next_row.request.is_captured or next_row.request.flags & FROM_LATEST:
        return False
    is_accepted = bool(context.granted[again])
    if next_row.request.start > row.rollback:
        return is_accepted and (
            _does_without_tombstones(row, next_row) or _names_older_branch(context, row, next_row)
        )
    if is_accepted:
        return True
    rollback = context.rollbacks.stream_rollback(number)
    start = plain(next_row.request.start)
    low = plain(next_row.request.snapshot_start)
    high = plain(next_row.request.snapshot_end)
    is_range = next_row.request.has_range == 0 or (low, high) in (
        (rollback.resume, rollback.resume),
        rollback.snapshot,
    )
    is_uuid = (
        rollback.resume_uuid is not None and next_row.request.uuid & ENDLESS == rollback.resume_uuid
    )
    return start == rollback.resume and is_range and is_uuid


def _does_without_tombstones(row: Stream, later: Stream) -> bool:
    """Returns whether a later request asks the same as one that was rolled back, but for tombstones
    that were purged. If that is granted, nothing has to be discarded.
    """
    flags = int(later.request.flags) & ~int(row.request.flags)
    return bool(
        flags & IGNORE_PURGED
        and later.request.uuid == row.request.uuid
        and later.request.start == row.request.start
    )


def _names_older_branch(context: Context, row: Stream, later: Stream) -> bool:
    """Returns whether a replica asks from the same seqno with another uuid of its own log, as nodes
    do until one is known to the producer. If that is granted, nothing has to be discarded.
    """
    return bool(
        context.producer(row.connection) == 0  # the node that has the vbucket connects to it
        and later.connection == row.connection
        and later.request.uuid != row.request.uuid
        and later.request.start == row.request.start
    )


def _rolled_back(
    context: Context,
    number: int,
    followed: int | None,
    *,
    is_granted_later: bool,
    stands: int | None,
) -> Occurrence:
    """Returns the occurrence of a rollback. ``followed``: the request by which the client followed
    it; None if it did not, or nobody knows. ``stands``: a later one that holds instead.
    """
    rollback = context.rollbacks.stream_rollback(number)
    start, to = plain(context.streams.request.start[number]), rollback.to
    if to is None:
        return occurrence(
            context,
            number,
            "rollback",
            f"asked for seqno {start}, rolled back to a seqno that is not in the capture",
            (context.request(number), context.answer(number)),
            cause="unknown",
            shared="rolled back",
            next_="capture whole packets (tcpdump -s 0), because the rollback seqno is missing here",
            seqnos=(start,),
            facts={"requested start": start},
        )
    wrong = wrong_position(context, number, rollback.why.cause)
    outcome = _outcome(
        context,
        number,
        followed,
        _how_to_resume(rollback, to, start, wrong, is_granted_later=is_granted_later)
        if stands is None
        else _go_by(context.streams[stands].answered.row, wrong),
    )
    text, shared = rollback.why.text, rollback.why.shared
    if wrong is not None:
        before = ("", "") if wrong.uuid is not None else (f"{text}; ", f"{shared}; ")
        text, shared = f"{before[0]}{wrong.text}", f"{before[1]}{wrong.shared}"
    return occurrence(
        context,
        number,
        "rollback",
        context.by_side(
            number, f"asked for seqno {start}, rolled back to {to}: {text}{outcome.text}"
        ),
        (
            context.request(number),
            context.answer(number),
            context.request(followed) if followed is not None else None,
            context.log_place(rollback.log) if rollback.log is not None else None,
            context.log_place(rollback.had_uuid) if rollback.had_uuid is not None else None,
        ),
        cause=rollback.why.cause if wrong is None else wrong.cause,
        shared=context.by_side(number, f"rolled back{outcome.shared}: {shared}"),
        next_=outcome.next
        if wrong is None or wrong.uuid is None or followed is None
        else f"{outcome.next}; it has to {wrong.next}",
        seqnos=(start, to),
        facts={
            "requested start": start,
            "rollback seqno": to,
            "resume at": to if rollback.resume is None else rollback.resume,
            **_uuid_fact(rollback.resume_uuid),
            **({"resume at": start, **_uuid_fact(wrong.uuid)} if wrong and wrong.uuid else {}),
        },
        severity="warning" if followed is None else "note",
    )


class _Outcome(NamedTuple):
    """What came of a rollback."""

    text: str
    """What the message says of it."""
    shared: str
    """What several have in common."""
    next: str


def _outcome(context: Context, number: int, followed: int | None, how: str) -> _Outcome:
    """``how``: what to do if nothing came of it."""
    if followed is None:
        return _Outcome("", "", how)
    if _does_without_tombstones(context.streams[number], context.streams[followed]):
        advice = "nothing is left to do, the consumer asked again with ignore-purged-tombstones"
        return _Outcome("; granted without them later", ", and granted later", advice)
    if _names_older_branch(context, context.streams[number], context.streams[followed]):
        advice = "nothing is left to do, the consumer's log has an older uuid that is known"
        return _Outcome("; granted with another uuid later", ", and granted later", advice)
    again = context.request(followed)
    if again is not None:
        names = context.names.of[context.streams.connection[[number, followed]]]
        advice = _FOLLOWED if names[0] == names[1] else _GROUP_FOLLOWED
        return _Outcome(f"; followed in row {again.row}", ", and followed", advice)
    return _Outcome("; the consumer has a stream again", ", and went on", _WENT_ON)


def _go_by(row: int, wrong: WrongPosition | None) -> str:
    """Returns what to do about a rollback, if the one in ``row`` holds instead."""
    advice = "" if wrong is None else f"; {wrong.next}"
    return f"go by the rollback in row {row}, the answer to a later request{advice}"


def _how_to_resume(
    rollback: Rollback, to: int, start: int, wrong: WrongPosition | None, *, is_granted_later: bool
) -> str:
    """Returns what to do about a rollback that the client did not follow."""
    uuid = (
        "the newest uuid of the log that began at or below it"
        if rollback.resume_uuid is None
        else f"uuid 0x{rollback.resume_uuid:016x}"
        if rollback.resume_uuid
        else "uuid 0"
    )
    if wrong is not None and rollback.resume != to:
        return (
            f"let the consumer resume at {rollback.resume}, the last seqno that it received, with "
            f"{uuid}, because from {to} on it would miss what is between; {wrong.next}"
        )
    if wrong is not None and wrong.uuid is not None and not is_granted_later:
        return (
            f"let the consumer ask again from {start} with uuid 0x{wrong.uuid:016x}, because it "
            f"need not discard anything; {wrong.next}"
        )
    if rollback.why.cause == "no-uuid" and not is_granted_later:
        return (
            "let the consumer ask again from what it has, with the uuid of that history; one that "
            f"has no uuid has to discard what is above {to}, and to resume at {to} with {uuid}"
        )
    advice = wrong.next if wrong is not None else _TO_KEEP.get(rollback.why.cause)
    is_over = advice is not None and rollback.why.cause != "purge" and is_granted_later
    return (
        "operators have nothing to do, a later request was granted"
        if is_over
        else f"let the consumer discard what is above {to}, and resume at {to} with {uuid}"
    ) + (f"; {advice}" if advice is not None else "")


def _rolled_back_unread(context: Context, number: int, *, has_stream: bool) -> Occurrence:
    """Returns the occurrence of a rollback whose request was not captured. ``has_stream``: the
    client has a stream of the vbucket later.
    """
    rollback = context.rollbacks.stream_rollback(number)
    to = "a seqno that is not in the capture" if rollback.to is None else str(rollback.to)
    uuid = _uuid_fact(rollback.resume_uuid)
    facts: dict[str, int | str] = (
        {}
        if rollback.to is None
        else {"rollback seqno": rollback.to, "resume at": rollback.to, **uuid}
    )
    return occurrence(
        context,
        number,
        "rollback",
        f"rolled back to {to}; what was asked for is not in the capture",
        (context.request(number), context.answer(number)),
        cause="unknown",
        shared="rolled back; what was asked for is not in the capture",
        next_="capture whole packets (tcpdump -s 0), because what was asked for is missing here",
        seqnos=() if rollback.to is None else (rollback.to,),
        facts=facts,
        severity="note" if has_stream else "warning",
    )


def _uuid_fact(uuid: int | None) -> dict[str, int | str]:
    return {} if uuid is None else {"with uuid": f"0x{uuid:016x}"}


def _not_honoured(
    context: Context, requests_in_order: OpenedInOrder, index: int
) -> Occurrence | None:
    number = requests_in_order.numbers[index]
    stream = context.streams[number]
    told_ns = stream.answered.time
    later = requests_in_order.since(index, stream.answered)
    if later == len(requests_in_order.numbers):
        return None
    again = requests_in_order.numbers[later]
    # a stream whose request is missing was accepted
    if not stream.request.is_captured or not context.streams.request.is_captured[again]:
        return None
    again_row = context.streams[again]
    asked_ns = again_row.opened.time
    to, start = plain(stream.rollback), plain(again_row.request.start)
    if (
        start <= to
        or again_row.request.uuid != stream.request.uuid
        or again_row.request.flags & FROM_LATEST
    ):
        return None
    if int(again_row.request.flags) & ~int(stream.request.flags) & IGNORE_PURGED:
        return None  # that is another question
    links = context.by_number
    connection, another = int(stream.connection), int(again_row.connection)
    if (
        connection != another
        and links[connection].server != links[another].server
        and links[another].first_ns < told_ns
    ):
        return None  # another node's answer on its own connection is not what this request followed
    if context.conduct.may_have_said(
        int(stream.connection), told_ns, asked_ns, vbucket=int(stream.vbucket)
    ):
        return None
    evidence = (context.request(again), context.request(number), context.answer(number))
    return occurrence(
        context,
        again,
        "rollback-not-honoured",
        f"asked again from seqno {start}, above the rollback seqno {to}",
        evidence,
        next_=f"let the consumer discard what is above {to}, and ask again from there, because the "
        "producer does not have these items; its author has to do so after each rollback"
        if context.granted[again]
        else None,
        seqnos=(start, to),
        explains=(number, again),
    )


def _ended(
    context: Context,
    requests_in_order: OpenedInOrder,
    index: int,
    *,
    is_granted_later: bool,
) -> Iterator[Occurrence]:
    number = requests_in_order.numbers[index]
    stream = context.streams[number]
    reason = stream.reason
    if stream.state != ENDED or reason <= 0 or (reason == 1 and stream.closed_row >= 0):
        return
    is_defined = reason < w.CONNECTION_CLOSED
    name = w.END_REASONS[reason] if is_defined else f"reason {reason}, which is not defined"
    last = f" at seqno {plain(stream.last)}" if stream.seen else ", no item received"
    seqnos = reached(stream)
    severity: Severity = "warning" if reason in _BAD_ENDS else "note"
    ended_ns, client = stream.finished.time, context.clients.get(stream.connection, "")
    is_asked_again = (
        is_granted_later  # perhaps by another node, before this one ended the stream
        or requests_in_order.since(index, stream.finished) < len(requests_in_order.numbers)
        or context.unread_requests.asked_between(client, stream.vbucket, ended_ns)
        or context.conduct.taken_up_by(number) is not None
    )
    advice = _ASKED_AGAIN.get(name) if is_asked_again else None
    yield occurrence(
        context,
        number,
        "stream-end-reason",
        f"ended: {name}{last}",
        (context.stream_place(stream, stream.finished),),
        cause=name if is_defined else "undefined",
        next_=advice or AFTER_END[name]
        if is_defined
        else "look in the release notes of the server, which may be newer than dcpinspect",
        shared=f"ended: {name}",
        seqnos=seqnos,
        facts={"ended at seqno": seqnos[0]} if seqnos else {},
        severity=severity,
    )


RULE_SET = RuleSet(RULES, findings=findings, wants=_wants)
