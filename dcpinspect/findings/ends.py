"""Rules about the end of streams that ask for a last seqno: servers that do not send the end, or too
early, clients that do not wait for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import Occurrence, captured
from dcpinspect.findings.heaps import SHOWN
from dcpinspect.findings.marker_rules import HIDDEN, NOT_TOLD
from dcpinspect.findings.rule import CLOSED, GOES_ON, SIDES, SILENT, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.flags import TAKEOVER, TO_AN_END
from dcpinspect.protocol.versions import SYSTEM_COLLECTIONS
from dcpinspect.streams import words as w
from dcpinspect.streams.records import GREATEST, LEAST
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.transitions import COMPLETE, COMPLETE_ADVANCED, ENDED
from dcpinspect.streams.verdicts import PATIENCE_NS

RULES = rules(
    f"""
    stream-end-missing stream warning
        fires: a stream has reached its requested end and its snapshot is complete, but no stream
            end comes within 2 s, or ten times the time that earlier ones took; or the connection
            closes first. It is no error, because the consumer has all that it asked for
        unless: the window is full, of DCP or TCP; the consumer closed the stream, or the connection
            before the end could arrive; after a hole
        next: report it with the producer's version; a consumer can close the stream and go on,
            because it has all that it asked for
        causes: {GOES_ON} {CLOSED} {SILENT}
        reports: MB-31481, couchbase/couchbase-kafka-connector#11
        whose: producer for {GOES_ON} {CLOSED}, unknown for {SILENT}
        cost: vbucket, waits for a stream end, wait for a stream end, lasts
    stream-end-early stream warning
        fires: a stream ends with reason ok between its last snapshot and the end that was asked for;
            a note for servers from 7.6 on, which may hide system collections
        unless: the last seqno alone; streams of some collections only, or without collections;
            servers before 7.0; takeovers; streams that the consumer closes; after a hole
        next: compare with the high seqno of the vbucket, because a job that asked for all of it may
            lack data; a consumer can ask for the rest
        causes: {NOT_TOLD} {HIDDEN}
        whose: normal for {HIDDEN}
        cost: {NOT_TOLD}: vbucket, ended before the requested seqno, ended before the requested seqno,
            loss
    closed-before-stream-end stream warning consumer
        fires: the consumer closes the connection while streams with an end seqno have neither
            reached it nor ended
        unless: resets; connections that the producer closes; streams without an end; streams that
            the consumer closes; a connection that fell silent; after a hole
        next: run the job again if it has to have everything; a consumer has to wait for the stream
            end of each stream before it closes the connection
        reports: MB-31481, couchbase/couchbase-kafka-connector#16
        cost: connection, was closed too early, were closed too early
    """
)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, connection by connection, once all messages were taken."""
    if not finished.is_whole:
        return
    context = finished.context
    streams = context.streams
    finite: dict[int, list[int]] = defaultdict(list)
    request = streams.request
    is_finite = (request.end > LEAST) & (request.end < GREATEST) & (request.flags & TO_AN_END == 0)
    for number in np.flatnonzero(
        (request.is_captured != 0) & (streams.answer == w.A_ACCEPTED) & is_finite
    ).tolist():
        finite[streams[number].connection].append(number)
    for connection, numbers in finite.items():
        link = context.by_number.get(connection)
        if link is not None:
            yield from _missing(context, link, numbers)
            yield from _unended_streams(context, link, numbers)
            yield from _early(context, link, numbers)


def _is_reached(context: Context, number: int) -> bool:
    stream = context.streams[number]
    return bool(stream.has_position and stream.position >= stream.request.end)


def _is_complete(context: Context, number: int) -> bool:
    """Returns whether the last snapshot of a stream has come to its end."""
    snapshot = context.streams[number].snapshot
    return snapshot >= 0 and bool(
        COMPLETE <= context.snapshots.state[snapshot] <= COMPLETE_ADVANCED
    )


def _missing(context: Context, link: TcpConnection, numbers: list[int]) -> Iterator[Occurrence]:
    streams = context.streams
    if context.is_starved(link.number) or link.are_shut[1 - context.producer(link.number)]:
        return
    done = [
        (
            streams[candidate].finished.time,
            int(streams.finished.time[candidate] - streams.at.time[candidate]),
        )
        for candidate in numbers
        if streams.state[candidate] == ENDED
        and streams.reason[candidate] == 0
        and _is_reached(context, candidate)
    ]
    for number in numbers:
        stream = streams[number]
        if (
            not _is_reached(context, number)
            or not _is_complete(context, number)
            or not context.runs_whole(number)
        ):
            continue
        since = stream.at.time
        patience = max(
            PATIENCE_NS, 10 * max((took for when, took in done if when < since), default=0)
        )
        until = context.sight.silent_until_ns(link.number, link.heard_until_ns)
        waited = context.carried_ns(link, context.producer(link.number), since, until)
        # the end may have been under way
        allowed = context.tracker.state.connections[link.number].slowest
        by_producer = link.closed_by == context.producer(link.number)
        if until < since or (
            waited <= patience and not (link.closed and (by_producer or waited > allowed > 0))
        ):
            continue
        end = plain(stream.request.end)
        closed = (
            f", closed by the {SIDES[link.closed_by]}" if link.closed and waited <= patience else ""
        )
        message = f"requested end {end} reached, no stream end for {duration(waited)}{closed}"
        evidence = (context.stream_place(stream, stream.at), context.request(number))
        cause = (
            CLOSED
            if by_producer and link.closed
            else GOES_ON
            if context.is_heard_after(link.number, stream.at.time)
            else SILENT
        )
        shared = "requested end reached, no stream end"
        yield occurrence(
            context,
            number,
            "stream-end-missing",
            message,
            evidence,
            cause=cause,
            seqnos=(end,),
            shared=shared,
        )


def _unended_streams(
    context: Context, link: TcpConnection, numbers: list[int]
) -> Iterator[Occurrence]:
    consumer = 1 - context.producer(link.number)
    if link.closed != "fin" or link.closed_by != consumer:
        return
    if link.outage_ns(link.closed_ns) >= PATIENCE_NS:
        return
    left_streams = [
        number
        for number in numbers
        if not _is_reached(context, number) and context.runs_whole(number)
    ]
    if not left_streams:
        return
    streams = context.streams
    latest = sorted(left_streams, key=lambda number: -streams[number].latest.row)
    evidence = [
        context.stream_place(streams[number], streams[number].latest) for number in latest[:SHOWN]
    ]
    evidence += [context.request(number) for number in latest[:SHOWN]]
    yield Occurrence(
        "closed-before-stream-end",
        f"{SIDES[consumer]} closed with {len(left_streams)} of {len(numbers)} finite streams "
        "unfinished",
        link.number,
        captured(evidence),
        vbuckets=tuple(sorted({streams[number].vbucket for number in left_streams})),
        time_ns=link.closed_ns,
        rows=[row for row in streams.latest.row[left_streams].tolist() if row > 0],
    )


def _early(context: Context, link: TcpConnection, numbers: list[int]) -> Iterator[Occurrence]:
    """Yields streams that the producer ended before the end that was asked for: it tells what it
    does not send by a SeqnoAdvanced.
    """
    producer, versions = context.producer(link.number), context.versions(link.number)
    may_hide = versions.has(SYSTEM_COLLECTIONS)
    if context.tells_hidden(link.number) is not True:
        return
    for number in numbers:
        stream = context.streams[number]
        since_ns, until_ns = int(stream.opened.time), int(stream.finished.time)
        if (
            (stream.state, stream.reason, stream.closed_row) != (ENDED, 0, -1)
            or not _is_complete(context, number)
            or _is_reached(context, number)
            or stream.request.flags & TAKEOVER
            or context.is_filtered(number) is not False
            or any(context.may_lack(link.number, side, since_ns, until_ns) for side in (0, 1))
        ):
            continue
        first, end = plain(stream.position) + 1, plain(stream.request.end)
        if first == end:
            continue  # a server counts a cursor that stands before the next seqno as there
        early = occurrence(
            context,
            number,
            "stream-end-early",
            f"ended ok after seqno {first - 1}: seqnos {first}–{end} did not come, nor a SeqnoAdvanced",
            (context.stream_place(stream, stream.finished), context.request(number)),
            cause=HIDDEN if may_hide else NOT_TOLD,
            seqnos=(first, end),
            shared="ended ok before the requested seqno, without a SeqnoAdvanced",
            severity="note" if may_hide else "warning",
            is_over=context.is_brought(number, end),
        )
        yield replace(early, whose=SIDES[producer]) if may_hide is False else early


RULE_SET = RuleSet(RULES, findings=findings)
