"""Rules about seqnos that did not come: gaps that nothing explains, and items that had to come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import Occurrence, ranges
from dcpinspect.findings.heaps import SHOWN
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.changes import key_text
from dcpinspect.streams.gaps import MissingEvents
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.records import LEAST, Gaps

RULES = rules(
    """
    gap-in-history-snapshot snapshot warning producer
        fires: seqnos are missing between two events of a snapshot with history, which has every
            change; a note for consumers from which prepares, modify events or other collections are
            hidden, and for streams that begin above 0 where no collection of the bucket is known
        unless: streams of some collections only; collections that keep no history; after a hole
        next: compare with a stream from 0, and report it with the producer's version; a consumer that
            wants every change did not get some
        cost: vbucket, has a gap in its history, have gaps in their history, loss
    item-missing snapshot error producer
        fires: another stream of the same vbucket and branch delivered a change, and this stream
            delivered neither the change nor a later one of the document, although its snapshot is
            complete. In a first snapshot, or one from disk, this counts only for the latest change
            of the document up to the snapshot's end
        unless: another branch of the vbucket; changes that the consumer did not ask for, or may not
            see; changes that compaction may have purged; changes that a newer one may replace after
            the end of the other stream; after a hole
        next: compare both rows and the failover logs, and report them with the producer's version;
            a consumer has to read the vbucket again to get this change
        cost: lost
    gap-unexplained capture note unknown
        fires: seqnos are missing and no cause fits; the messages before or after have no marker, or
            a marker without a range
        unless: after a hole; streams whose beginning was not captured; gaps before a message with a
            more specific finding
        next: look at the messages before and after it with 'dcpinspect timeline --vbucket N
            --messages'; a client can compare with a stream from 0
        in_stream: yes
    """
)

MOST_SEQNOS = 1000
"""Greatest number of missing seqnos that a finding lists; it counts all of them."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences. Of gaps that only differ by place, those that are shown are yielded,
    with the number of the others.
    """
    context, unexplained = finished.context, finished.tables.all_gaps.unexplained
    in_history = unexplained.in_history
    sessions = {number: context.session(number) for number in context.by_number}
    streams = context.streams[in_history.stream]
    # below the start, collections may have been created that keep no history
    is_known = (streams.request.start == LEAST) | _of(
        streams.connection,
        [number for number, session in sessions.items() if session.manifest.collections],
    )
    is_hidden = ~is_known | ~_of(
        streams.connection,
        [number for number, session in sessions.items() if session.sees_every_seqno],
    )
    yield from _bulk(context, in_history[~is_hidden], "gap-in-history-snapshot", "warning")
    yield from _bulk(context, in_history[is_hidden], "gap-in-history-snapshot", "note")
    yield from _bulk(context, unexplained.without_cause, "gap-unexplained", "note")
    missing = groupby(sorted(unexplained.missing, key=_between), key=_between)
    yield from (
        _missing(context, list(alike), with_keys=finished.with_keys) for _, alike in missing
    )


def _of(connections: IntArray, numbers: Sequence[int]) -> BoolArray:
    return np.isin(connections, np.array(numbers, np.int64))


def _between(missing_event: MissingEvents) -> tuple[int, int]:
    """Returns the stream that lacks events, and the one that has them."""
    return missing_event.stream, missing_event.showing_stream


def _missing(context: Context, ones: list[MissingEvents], *, with_keys: bool) -> Occurrence:
    """Returns the occurrence of all events that one stream lacks and another one has."""
    first = ones[0]
    seqnos = sorted(plain(seqno) for missing_event in ones for seqno in missing_event.seqnos)
    if len(seqnos) == 1:
        missing_text = f"{f'{key_text(first.event)} ' if with_keys else ''}seqno {seqnos[0]} was"
    else:
        missing_text = f"{len(seqnos):,} documents, seqnos {ranges(seqnos)}, were"
    message = (
        f"{missing_text} sent to {elsewhere(context, first.stream, first.showing_stream)}, not to "
    )
    message += elsewhere(context, first.showing_stream, first.stream)
    gap_places = [
        context.producer_place(missing_event.stream, missing_event.shown_by)
        for missing_event in ones
    ]
    other_places = [
        context.producer_place(missing_event.showing_stream, missing_event.event.place)
        for missing_event in ones
    ]
    evidence = [
        message_place
        for pair in zip(gap_places[:SHOWN], other_places, strict=False)
        for message_place in pair
    ]
    missing_documents = occurrence(
        context,
        first.stream,
        "item-missing",
        message,
        evidence,
        seqnos=tuple(seqnos[:MOST_SEQNOS]),
        count=len(seqnos),
    )
    return replace(missing_documents, rows=[message_place.row for message_place in gap_places])


_WHERE = {"gap-in-history-snapshot": " in a history snapshot", "gap-unexplained": ", no cause fits"}
"""What is said of missing seqnos."""


def _bulk(context: Context, gaps: Gaps, rule: str, severity: Severity) -> Iterator[Occurrence]:
    """Yields, for each vbucket, stream-id and connection, the first gaps and the last one, which
    counts for those between.
    """
    stream = gaps.stream
    keys = [
        column[stream]
        for column in (context.streams.connection, context.streams.vbucket, context.streams.sid)
    ]
    for numbers in Groups(keys, np.lexsort((gaps.after, gaps.ends.row, *keys))).values():
        shown_gaps = numbers if len(numbers) <= SHOWN else [*numbers[:SHOWN], numbers[-1]]
        for index, number in enumerate(shown_gaps):
            gap = gaps[number]
            after, before = plain(gap.after), plain(gap.before)
            evidence = [
                context.producer_place(gap.stream, message_place)
                for message_place in (gap.ends, gap.begins)
            ]
            other_rows = gaps.ends.row[numbers[SHOWN:]] if index == SHOWN else ()
            width = before - after - 1
            gap_occurrence = occurrence(
                context,
                gap.stream,
                rule,
                f"{width} seqno{'s' if width > 1 else ''} missing between {after} and {before}"
                f"{_WHERE[rule]}",
                evidence,
                seqnos=(after, before),
                shared=f"seqnos are missing{_WHERE[rule]}",
                facts={"after": after, "before": before},
                severity=severity,
            )
            yield (
                replace(gap_occurrence, count=len(other_rows), rows=other_rows)
                if len(other_rows)
                else gap_occurrence
            )


def elsewhere(context: Context, stream: int, other_stream: int) -> str:
    """Names the stream that something was sent on, for readers who look at another stream."""
    own_row, other_row = context.streams[stream], context.streams[other_stream]
    if own_row.connection != other_row.connection:
        return f"connection {other_row.connection}"
    if own_row.sid != other_row.sid:
        return f"sid {other_row.sid}" if other_row.sid >= 0 else "the stream without a stream-id"
    return f"stream #{other_row.ordinal}"


RULE_SET = RuleSet(RULES, findings=findings)
