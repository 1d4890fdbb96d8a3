"""Rules that compare what servers say of vbuckets with what their streams deliver: seqnos owed,
nothing persisted, slow clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import GOES_ON, LONG_NS, SIDES, SILENT, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.flags import FROM_LATEST, TO_AN_END
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import words as w
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.transitions import ENDED
from dcpinspect.streams.waits import Waits

_ANSWERS, _SECONDS = 3, 5
"""Number of answers, and seconds from the first to the last, that show that nothing persists."""
_TOO_SLOW = 4
_MEMORY, _DISK = 0, 1
_STALLS = ("flow-control-stall",)

RULES = rules(
    f"""
    server-owes-seqno stream error
        fires: the producer has a higher seqno than an endless stream, but no message of the stream
            comes up to the end. The time is 2 s, or ten times the slowest answer before; a warning
            if that is less than 5 s, or if a later stream of the consumer has delivered it; a note
            for consumers without collections, and of producers before 7.0, which do not say which
            seqnos they hide
        unless: streams of some collections only; ended streams; a full window; streams that wait
            for the disk while others are streamed, or for less than 5 s for their first marker;
            after a hole
        next: look at the producer's version and at this vbucket's checkpoints there; a consumer can
            only reopen the stream
        causes: {GOES_ON} {SILENT}
        reports: MB-54591
        whose: producer for {GOES_ON}, unknown for {SILENT}
        cost: vbucket, waits for seqnos, wait for seqnos, lasts
    never-persisted stream warning server
        fires: three or more answers to OBSERVE_SEQNO, over 5 s or more, show items of a vbucket,
            but none is persisted
        unless: any answer that shows persisted items
        next: switch rollback mitigation off for an ephemeral bucket; it persists nothing, so a
            client that waits for persistence delivers nothing
        reports: Trendyol/go-dcp-kafka#66
        cost: vbucket, is not persisted, are not persisted, lasts
    slow-stream stream note consumer
        fires: a stream from memory continues from disk, or ends because the consumer was too slow
        unless: capture loss that may hide the marker in between
        next: give the consumer more processor time, because the producer dropped its cursor; a consumer
            has to read and acknowledge faster
        causes: from-disk too-slow
        cost: vbucket, fell back to disk, fell back to disk, usual
    """
)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    context = finished.context
    if finished.is_whole:
        yield from _owed(context, finished.tables.waits)
    yield from _not_persisted(context)
    yield from _slow(finished)


def _owed(context: Context, waits: Waits) -> Iterator[Occurrence]:
    for number in np.flatnonzero(waits.are_long).tolist():
        wait = waits.get(number)
        if wait is None or not _is_owing(context, number):
            continue
        stream = context.streams[number]
        last, side = plain(stream.position), SIDES[context.producer(stream.connection)]
        sees_all = context.tells_hidden(stream.connection)
        brought = context.is_brought(number, wait.newest)
        severity: Severity = (
            "note" if not sees_all else "warning" if brought or wait.idle_ns < LONG_NS else "error"
        )
        message = (
            f"{side} has {wait.newest}, sent {last}, idle {duration(wait.idle_ns)}, window open"
        )
        evidence = (
            context.report_place(wait.connection, wait.at),
            context.stream_place(stream, stream.latest),
            context.request(number),
        )
        yield occurrence(
            context,
            number,
            "server-owes-seqno",
            message,
            evidence,
            cause=GOES_ON
            if context.is_heard_after(stream.connection, max(wait.at.time_ns, stream.latest.time))
            else SILENT,
            seqnos=(wait.newest, last),
            shared=f"{side} has more than it sent, window open",
            explains=(number,),
            is_over=brought,
            severity=severity,
        )


def _is_owing(context: Context, number: int) -> bool:
    """Returns whether everything in the vbucket has to come on a waiting stream, and nothing hides
    a reason why it does not.
    """
    stream = context.streams[number]
    connection = stream.connection
    link = context.by_number[connection]
    producer = context.producer(connection)
    is_endless = (
        stream.request.end == GREATEST and not stream.request.flags & TO_AN_END & ~FROM_LATEST
    )
    is_whole = (
        not context.sight.has_lost(connection, producer, stream.losses)
        and link.lost_at_end[1 - producer] is None
    )
    is_asked = stream.answer == w.A_ACCEPTED
    return bool(
        is_asked
        and is_endless
        and is_whole
        and context.is_filtered(number) is False
        and not context.is_starved(connection)
    )


def _not_persisted(context: Context) -> Iterator[Occurrence]:
    streams = context.streams
    sessions = context.tracker.conversation.sessions
    origins = context.logs.origins
    persisted = {
        (origins[connection], vbucket)
        for connection, session in sessions.items()
        for vbucket, report in session.reports.items()
        if report.not_persisted is not None
        and report.not_persisted.is_over
        and connection in origins
    }
    for connection, session in sessions.items():
        for vbucket, report in session.reports.items():
            not_persisted = report.not_persisted
            if (
                not_persisted is None
                or not_persisted.count < _ANSWERS
                or connection not in origins
                or (origins[connection], vbucket) in persisted
            ):
                continue
            if (
                not_persisted.places[-1].time_ns - not_persisted.places[0].time_ns
                < _SECONDS * 10**9
            ):
                continue
            alike = [number for number, origin in origins.items() if origin == origins[connection]]
            received = int(
                streams.items[
                    (streams.vbucket == vbucket) & np.isin(streams.connection, alike)
                ].sum()
            )
            message = f"persisted seqno stays 0, {received:,} items received"
            evidence = tuple(
                context.report_place(connection, report_place)
                for report_place in not_persisted.places
            )
            shared = "persisted seqnos stay 0"
            yield Occurrence(
                "never-persisted",
                message,
                connection,
                evidence,
                vbucket,
                seqnos=(0,),
                shared=shared,
            )


def _slow(finished: ReadingEnd) -> Iterator[Occurrence]:
    context = finished.context
    snapshots, streams = context.snapshots, context.streams
    stalls = finished.so_far.times_of(_STALLS)
    keys = {key[3]: key for key, _ in finished.so_far.occurrences_of(_STALLS)}

    def explained(slow: Occurrence, since_ns: int) -> Occurrence:
        """Names the full window in this time, for which the producer dropped the cursor."""
        is_why = any(
            since_ns <= began_ns <= slow.began_ns for began_ns, _ in stalls.get(slow.connection, ())
        )
        return replace(slow, effect_of=keys[slow.connection]) if is_why else slow

    kind, by_row = types(snapshots), np.argsort(snapshots.place.row, kind="stable")
    before = Groups([snapshots.stream], by_row).previous
    fell_back = (
        (before >= 0)
        & (kind[before] == _MEMORY)
        & (kind == _DISK)
        & (snapshots.position == w.LATER)
    )
    for number in context.in_order(fell_back):
        row = snapshots[number]
        last = plain(row.before) if row.has_before else plain(row.start)
        evidence = (context.marker(number), context.marker(int(before[number])))
        message = f"fell back to disk at seqno {last}"
        yield explained(
            occurrence(
                context,
                row.stream,
                "slow-stream",
                message,
                evidence,
                cause="from-disk",
                seqnos=(last,),
                shared="fell back to disk",
            ),
            evidence[1].time_ns,
        )
    for number in np.flatnonzero((streams.state == ENDED) & (streams.reason == _TOO_SLOW)).tolist():
        slow = streams[number]
        last = plain(slow.last) if slow.seen else plain(slow.request.start)
        ended = context.stream_place(slow, slow.finished)
        shared = context.by_side(number, "ended because the consumer was too slow")
        message = f"{shared}, at {last}"
        has_marker = slow.snapshot >= 0
        yield explained(
            occurrence(
                context,
                number,
                "slow-stream",
                message,
                [ended],
                cause="too-slow",
                seqnos=(last,),
                shared=shared,
            ),
            context.marker(slow.snapshot).time_ns if has_marker else slow.opened.time,
        )


RULE_SET = RuleSet(RULES, findings=findings)
