"""Rules about noops, by which producers and consumers know that the other one is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import MessagePlace, Occurrence
from dcpinspect.findings.heaps import covers
from dcpinspect.findings.rule import ACKNOWLEDGED, GOES_ON, LOST, SIDES, SILENT, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import noop_peers as n
from dcpinspect.streams.examples import Examples
from dcpinspect.streams.noop_peers import NoopRecord, Peer, patience
from dcpinspect.streams.noops import NoopExamples, NoopFacts
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.server_reports import MessagePosition
from dcpinspect.streams.tcp_facts import OUTAGE_NS, LateAck, TcpConnection

UNACKNOWLEDGED = "not-acknowledged"
_ANSWERED = (
    "operators have nothing to do, the answer came; a consumer has to answer noops at once, and not "
    "after data that it processes"
)
_SHUT = ("tcp-window-zero",)
_STALLS = (*_SHUT, "flow-control-stall")
"""Rules that explain why noops wait, and why nothing comes, in the time that they speak of."""

_INTERVAL = ("enable_noop", "set_noop_interval")
"""The controls that say when noops are due."""
_SETTING = HEADER_SIZE + len(b"enable_noop") + len(b"true")
"""Bytes of the shortest of them."""

Spans = Sequence[tuple[int, int]]

RULES = rules(
    f"""
    noop-unanswered noop warning
        fires: a noop has no answer within its interval, 5 s at most, since it arrived; an error if
            the producer closes the connection once the next noop is due
        unless: answers with another opaque; less than 2 s, or, without any answer, than ten times
            the slowest answer before; after a hole on the consumer's side, or without any message
            of the consumer
        next: look for what stops the consumer, and restart it if it does not go on; a consumer has to
            answer noops at once, and not after data that it processes
        causes: {GOES_ON} {ACKNOWLEDGED} {SILENT}
        reports: couchbaselabs/dcp-documentation#26, couchbaselabs/dcp-documentation#35
        needs: noops
        whose: consumer for {GOES_ON} {ACKNOWLEDGED}, unknown for {SILENT}
        cost: unanswered
    noop-overlap noop warning producer
        fires: a noop is sent while the one before has no answer
        unless: an answer that is late by no more than earlier answers took, or that has another
            opaque; after a hole on the consumer's side, or without any message of the consumer
        next: report it with the producer's version; a consumer has to answer each noop with its
            opaque
        needs: noops
        cost: connection, has noops that overlap, have noops that overlap
    noop-opaque noop warning consumer
        fires: a noop is answered with another opaque
        unless: while the noop may still get its own answer, after a hole or in a capture that
            begins inside the connection
        next: report the consumer's version to its author; it has to repeat the four bytes of the
            opaque, because a producer closes the connection when it gets another
        reports: gocbcore 5518977
        needs: noops
        cost: connection, answers noops wrongly, answer noops wrongly
    silent-connection noop warning unknown
        fires: noops are on, their interval is known, and the producer sends nothing for more than
            two intervals; or what one side sends is sent again for 10 s before the other side's
            host acknowledges it, if ever
        unless: less than 2 s; while a noop waits for its answer, or has one with another opaque;
            while bytes of a message come, or are sent again until they arrive; at the end of the
            capture; after a hole on the producer's side, or one of the consumer that may have set
            another interval; before any noop on a connection without streams, as some servers send
            none there
        next: look whether the producer or the network hangs; a client has to close the connection
            and connect again
        causes: {UNACKNOWLEDGED}
        needs: noops
        cost: connection, fell silent, fell silent
    """
)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    context, noops, is_whole = finished.context, finished.context.tracker.noops, finished.is_whole
    if noops is None:
        return
    shut, stalls = map(finished.so_far.times_of, (_SHUT, _STALLS))
    for link in context.links:
        unanswered, overlaps, opaques, silences = (
            noops.kept.get((link.number, code)) or Examples()
            for code in (n.UNANSWERED, n.OVERLAP, n.OPAQUE, n.SILENT)
        )
        peer = noops.peers[link.number] if link.number < len(noops.peers) else None
        if peer is None or peer.producer < 0:
            continue
        number = link.number
        waits = [*_unanswered(finished, link, unanswered, peer, shut.get(number, ()))]
        yield from _overlaps(context, link, overlaps, peer, is_whole=is_whole)
        for event in opaques.occurrences:
            times = _times(event, opaques.occurrences, opaques.count)
            yield _with(_other_opaque(context, link, event, times), opaques.rows)
        if peer.answer_time or len(context.streams_of(link.number)):
            waits += _silences(finished, link, silences, peer, stalls.get(number, ()))
        yield from waits
        until_ns = context.until_ns(link)
        if is_whole and all(wait.last_time_ns != until_ns for wait in waits):
            yield from _outages(link, until_ns)


def _times(event: NoopFacts, events: Sequence[NoopFacts], count: int) -> int:
    """Returns how many occurrences an event stands for: the first also for those not told."""
    return count - len(events) + 1 if event is events[0] else 1


def _both_places(
    context: Context, link: TcpConnection, event: NoopFacts
) -> tuple[MessagePlace, MessagePlace]:
    return context.report_place(link.number, event.at), context.report_place(
        link.number, event.other
    )


def _with(noop_occurrence: Occurrence, rows: RowNumbers) -> Occurrence:
    """Returns the occurrence with the rows of all that are like it."""
    return replace(noop_occurrence, rows=[*rows.tolist(), noop_occurrence.places[0].row])


def _outside(examples: NoopExamples, stalls: Spans) -> NoopExamples:
    """Returns the examples without those that stalls explain."""
    return examples.only(
        lambda event: not covers(stalls, (event.at.time_ns, event.at.time_ns + event.time_ns))
    )


def _certain(
    context: Context, link: TcpConnection, examples: NoopExamples, direction: int, stalls: Spans
) -> RowNumbers:
    """Returns the places of kept rows that are certain: nothing uncaptured could explain them, and
    no stall does.
    """
    times = zip(examples.times.tolist(), examples.shown_ns.tolist(), strict=True)
    is_lacking = bool(len(examples.times)) and context.may_lack(
        link.number, direction, int(examples.times.min())
    )
    return np.flatnonzero(
        [
            not (is_lacking and context.may_lack(link.number, direction, since, until or None))
            and not covers(stalls, (since, until or since))
            for since, until in times
        ]
    )


def _hex(opaque: int) -> str:
    return f"0x{opaque:08x}"


def _noticed(message: NoopRecord, other_heard: NoopRecord) -> NoopFacts:
    """Returns an event that the kernel had no reason to tell yet."""
    return NoopFacts(
        other_heard.place.time - message.place.time,
        message.opaque,
        other_heard.opaque,
        MessagePosition.from_record(message.place),
        MessagePosition.from_record(other_heard.place),
    )


def _other_opaque(
    context: Context, link: TcpConnection, event: NoopFacts, times: int
) -> Occurrence:
    evidence = (
        context.report_place(link.number, event.other, of_consumer=True),
        context.report_place(link.number, event.at),
    )
    message = f"noop {_hex(event.opaque)} answered with opaque {_hex(event.other_opaque)}"
    return Occurrence(
        "noop-opaque",
        message,
        link.number,
        evidence,
        count=times,
        shared="noops are answered with other opaques",
    )


def _unanswered(
    finished: ReadingEnd, link: TcpConnection, examples: NoopExamples, peer: Peer, stalls: Spans
) -> Iterator[Occurrence]:
    """Yields noops without an answer, first those that wait for one at the end."""
    context = finished.context
    until = context.until_ns(link)
    is_read = finished.is_whole and _hears_consumer(context, link, peer)
    is_closed = link.closed in ("fin", "rst") and link.closed_by == peer.producer
    # a producer that closes before the next noop is due does it for another reason
    due_ns = 1e9 * (context.session(link.number).noop_interval or 0)
    for noop, is_oldest in ((peer.open, not peer.older.place.row), (peer.older, True)):
        received_ns = link.received_ns(peer.producer, noop.place.offset, noop.place.time)
        waited = until - noop.place.time
        if received_ns < GREATEST:
            waited = context.carried_ns(link, 1 - peer.producer, received_ns, until)
        if not is_read or not noop.place.row or waited <= patience(peer):
            continue
        if is_oldest and peer.undecided.place.row:
            yield _other_opaque(context, link, _noticed(noop, peer.undecided), 1)
        else:
            is_given_up = is_closed and waited >= due_ns
            then = (
                f", then the {SIDES[peer.producer]} {link.how_closed} the connection"
                if is_given_up
                else ""
            )
            message = (
                f"noop with opaque {_hex(noop.opaque)} unanswered for {duration(waited)}{then}"
            )
            severity: Severity = "error" if is_given_up else "warning"
            noop_place = context.report_place(link.number, noop.place)
            cause = _since(link, peer, noop_place)
            yield Occurrence(
                "noop-unanswered",
                message,
                link.number,
                (noop_place,),
                cause=cause,
                next=LOST if cause == SILENT else None,
                last_time_ns=until,
                severity=severity,
                is_over=None if link.closed else False,
            )
    yield from _overdue(context, link, examples, peer, stalls)


def _overdue(
    context: Context, link: TcpConnection, examples: NoopExamples, peer: Peer, stalls: Spans
) -> Iterator[Occurrence]:
    """Yields noops whose answer did not come in time, as a later message shows."""
    examples = _outside(examples, stalls)
    events = sorted(examples.occurrences, key=lambda event: event.other.row > 0)
    certain = _certain(context, link, examples, 1 - peer.producer, stalls)
    for event in events:
        if context.may_lack(
            link.number,
            1 - peer.producer,
            event.at.time_ns,
            event.other.time_ns if event.other.row else None,
        ):
            continue  # perhaps the answer is only read later
        waited = _since_arrival(context, link, peer, event, 1 - peer.producer)
        allowed = peer.limit if event.other.row else patience(peer)
        if waited <= min(allowed, event.time_ns - 1):
            continue  # it came late
        evidence = [context.report_place(link.number, event.at)]
        if event.other.row:
            evidence.append(context.report_place(link.number, event.other, of_consumer=True))
        message = f"noop with opaque {_hex(event.opaque)} unanswered for {duration(waited)}"
        message += ", then answered" if event.other.row else ""
        times = _times(event, events, examples.count)
        cause = GOES_ON if event.other.row else _since(link, peer, event.at)
        unanswered = Occurrence(
            "noop-unanswered",
            message,
            link.number,
            tuple(evidence),
            cause=cause,
            next=_ANSWERED if event.other.row else LOST if cause == SILENT else None,
            count=times,
            is_over=True if event.other.row else None,
        )
        goes_on = (examples.times[certain] + patience(peer) < peer.consumer_time) | (
            examples.shown_ns[certain] > 0
        )
        yield _with(unanswered, examples.rows[certain][goes_on == (cause == GOES_ON)])


def _hears_consumer(context: Context, link: TcpConnection, peer: Peer) -> bool:
    """Returns whether the capture has what the consumer says, up to the end; it may have only the
    producer's packets.
    """
    consumer = 1 - peer.producer
    return bool(
        context.tracker.state.connections[link.number].last_row[consumer] > 0
        and link.lost_at_end[consumer] is None
    )


def _since_arrival(
    context: Context, link: TcpConnection, peer: Peer, event: NoopFacts, awaited: int
) -> int:
    """Returns how long an event lasted without the time before its message arrived, and that in
    which the network carried nothing. ``awaited``: the side that says nothing.
    """
    received_ns = link.received_ns(peer.producer, event.at.stream_offset, event.at.time_ns)
    until_ns = _until_ns(link, event, awaited)
    if received_ns == GREATEST:
        return min(event.time_ns, until_ns - event.at.time_ns)
    return min(event.time_ns, context.carried_ns(link, awaited, received_ns, until_ns))


def _until_ns(link: TcpConnection, event: NoopFacts, awaited: int) -> int:
    """Returns until when the other side waited: who closes waits no more."""
    until_ns = event.other.time_ns or event.at.time_ns + event.time_ns
    is_closed = link.closed in ("fin", "rst") and link.closed_by == 1 - awaited
    return min(until_ns, link.closed_ns) if is_closed else until_ns


def _since(link: TcpConnection, peer: Peer, noop: MessagePlace | MessagePosition) -> str:
    """Returns what comes from the consumer later than an answer takes."""
    received_ns = link.received_ns(peer.producer, noop.stream_offset, noop.time_ns)
    if received_ns < GREATEST and peer.consumer_time > received_ns + patience(peer):
        return GOES_ON
    return ACKNOWLEDGED if link.has_received(peer.producer, noop.stream_offset) else SILENT


def _overlaps(
    context: Context, link: TcpConnection, examples: NoopExamples, peer: Peer, *, is_whole: bool
) -> Iterator[Occurrence]:
    events, count = [*examples.occurrences], examples.count
    is_read = is_whole and _hears_consumer(context, link, peer)
    if is_read and peer.is_double and context.until_ns(link) > peer.excused_until:
        events.append(_noticed(peer.open, peer.older))
        count += 1
    for number, event in enumerate(events):
        message = f"noop {_hex(event.opaque)} sent while {_hex(event.other_opaque)} had no answer"
        overlap = Occurrence(
            "noop-overlap",
            message,
            link.number,
            _both_places(context, link, event),
            count=count - len(events) + 1 if number == 0 else 1,
        )
        yield _with(overlap, examples.rows)


def _sent_again(link: TcpConnection, direction: int, until_ns: int) -> Iterator[LateAck]:
    """Yields what TCP sent again for longer than it does at times."""
    for late in link.late_acks[direction]:
        if late.since_ns and min(late.time_ns, until_ns) - late.since_ns >= OUTAGE_NS:
            yield late


def _outages(link: TcpConnection, until_ns: int) -> Iterator[Occurrence]:
    for direction, side in enumerate(SIDES):
        for late in _sent_again(link, direction, until_ns):
            end_ns, is_over = min(late.time_ns, until_ns), late.time_ns <= until_ns
            then = "then acknowledged" if is_over else "and never acknowledged"
            yield Occurrence(
                "silent-connection",
                f"bytes of the {side} were sent again for {duration(end_ns - late.since_ns)}, {then}",
                link.number,
                cause=UNACKNOWLEDGED,
                next=None if is_over else LOST,
                time_ns=late.since_ns,
                last_time_ns=end_ns,
                is_over=is_over or None,
            )


def _silences(
    finished: ReadingEnd, link: TcpConnection, examples: NoopExamples, peer: Peer, stalls: Spans
) -> Iterator[Occurrence]:
    """Yields times without a word of the producer, the longest first."""
    context = finished.context
    interval = context.session(link.number).noop_interval
    every = f", with a noop due every {interval:g} s" if interval is not None else ""
    silence = _silent_ns(context, link, peer)
    is_told = finished.is_whole and silence > peer.silence
    if is_told and not _may_be_set(context, link, peer, context.until_ns(link)):
        yield Occurrence(
            "silent-connection",
            f"nothing came for {duration(silence)}{every}",
            link.number,
            (context.report_place(link.number, peer.latest.place),),
            last_time_ns=context.until_ns(link),
            effect_of=finished.so_far.explained.get(link.number),
        )
    certain = _certain(context, link, examples, peer.producer, stalls)
    examples = _outside(examples, stalls)
    longest = max(examples.occurrences, key=lambda event: event.time_ns, default=None)
    for event in sorted(examples.occurrences, key=lambda event: event is not longest):
        silence = _since_arrival(context, link, peer, event, peer.producer)
        is_explained = context.may_lack(
            link.number, peer.producer, event.at.time_ns, event.other.time_ns
        )
        if is_explained or silence <= min(peer.silence, event.time_ns - 1):
            continue  # perhaps it is only explained later
        if _may_be_set(context, link, peer, event.other.time_ns):
            continue
        until_ns = _until_ns(link, event, peer.producer)
        silent = Occurrence(
            "silent-connection",
            f"nothing came for {duration(silence)}{every}",
            link.number,
            _both_places(context, link, event)[: 1 + (until_ns == event.other.time_ns)],
            count=_times(event, examples.occurrences, examples.count),
            last_time_ns=until_ns,
        )
        yield _with(silent, examples.rows[certain])


def _may_be_set(context: Context, link: TcpConnection, peer: Peer, until_ns: int) -> bool:
    """Returns whether the consumer may have set another interval, up to a time, in what was not
    captured.
    """
    controls = context.session(link.number).controls
    known_ns = min(
        (controls[key].request.at.time_ns for key in _INTERVAL if key in controls), default=0
    )
    return context.may_lack(link.number, 1 - peer.producer, known_ns, until_ns, _SETTING)


def _silent_ns(context: Context, link: TcpConnection, peer: Peer) -> int:
    """Returns how long nothing has come of the producer at the end; 0 where it was not heard
    before, where something may have come that was not read, or where another rule says what waits.
    """
    until, latest = context.until_ns(link), peer.latest.place
    is_heard = bool(latest.row) and latest.row >= peer.since and not peer.unseen
    lost, acked = link.lost_at_end[peer.producer], link.acked[peer.producer]
    # what the consumer's host did not acknowledge did not arrive, if its packets were captured
    is_unread = lost is not None and (
        not 0 < acked <= lost[0] or link.lost_at_end[1 - peer.producer] is not None
    )
    if lost is not None:
        until = min(until, peer.consumer_time)  # nobody knows how long they were
    is_sent_again = any(late.time_ns > until for late in _sent_again(link, peer.producer, until))
    if not is_heard or is_unread or is_sent_again or peer.open.place.row or peer.is_waiting:
        return 0
    received_ns = link.received_ns(peer.producer, latest.offset, latest.time)
    heard_ns = 0 if received_ns == GREATEST else received_ns
    if link.unfinished[peer.producer]:
        heard_ns = link.last_ns  # it may have brought some of these bytes
    return until - max(latest.time, peer.answer_time, heard_ns)


RULE_SET = RuleSet(RULES, findings=findings)
