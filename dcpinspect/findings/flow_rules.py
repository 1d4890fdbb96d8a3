"""Rules about flow control: windows that stay full, what goes beyond them, and consumers that count
otherwise than producers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context, place_at
from dcpinspect.findings.finding import MessagePlace, Occurrence
from dcpinspect.findings.rule import LONG_NS, LOST, SIDES, SILENT, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.streams import flow_windows as w
from dcpinspect.streams.flow_control import Pressure, WindowWatcher
from dcpinspect.streams.flow_windows import Window
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.server_reports import MessagePosition
from dcpinspect.streams.session import MOST_WINDOW, window_asked
from dcpinspect.streams.tcp_facts import TcpConnection

STUCK_NS = 720_000_000_000
"""A server may disconnect a client that acknowledges nothing for this time: kv_engine
``dcp_disconnect_when_stuck_timeout_seconds``, by default.
"""
MOSTLY_NS = 30_000_000_000
"""The shortest time of which a window may be full for half, in short stalls, to be told."""
NO_FIT, MOSTLY_FULL = "no-fit", "mostly-full"

_ALL_BYTES = (
    "count all bytes of every message of a stream: header, framing extras, extras, key and value"
)
_WIRE_BYTES = (
    "count the bytes on the wire, and only those of the producer's requests that belong to streams"
)
_LARGER = (
    "nothing, if the consumer keeps up with what it has to read; else give it a larger window, or "
    "more processor time, because the producer mostly waits for its acknowledgements"
)
_NEXT = {
    "without-flex-frames": (
        f"restart the consumer when its window is full; it has to {_ALL_BYTES}; servers before 7.0 "
        "left the stream-id out of most messages themselves (MB-40277)"
    ),
    "without-prepare-surplus": (
        "restart the consumer when its window is full; it has to count each prepare as header and "
        "body plus 2 bytes, because servers do"
    ),
}

_OVER_NODES = (
    "a node that replicates with full eviction acknowledges a message twice if the message had to "
    "wait for the disk (5.5 to 8.0.2, MB-72321); it acknowledges buffered messages with a wrong "
    "size (before 6.6.5 and 7.0.4, MB-47318)"
)
_UNDER_NODES = (
    "a node that replicates does not acknowledge what it had buffered at the end of a stream "
    "(before 7.2, MB-56275); it acknowledges buffered messages with a wrong size (before 6.6.5 and "
    "7.0.4, MB-47318), and V2.2 markers with the size of V2.0 (builds before 8.0.0, MB-64936)"
)
"""Faults of servers when they are the consumer themselves, by kv_engine's history."""

_WHAT = {
    "without-flex-frames": "framing extras",
    "without-seqno-advanced": "seqno advanced (0x64)",
    "without-stream-end": "stream end (0x55)",
    "without-snapshot-marker": "snapshot marker (0x56)",
    "without-oso-snapshot": "OSO snapshot (0x65)",
    "without-system-event": "system event (0x5f)",
    "without-prepare-surplus": "the 2 extra bytes that are counted for a prepare",
    "without-header": "the header of 24 bytes",
}

RULES = rules(
    f"""
    flow-control-stall flow warning
        fires: the window is full, and no acknowledgement makes room for 5 s after what fills it
            arrived; an error if this lasts to the end of the capture and nothing is acknowledged, a
            note from 1 s on. It is
            also a note if the window is full for half of 30 s or more, however short each time is.
            The finding names the time limit of
            the producer if it is reached, and a window above 4 GiB, of which servers before 7.6
            keep the lower 32 bits
        unless: after a hole, until the window is granted again; at the end of the capture if no
            stream is open; a window above 4 GiB, if more than its lower 32 bits is in use
        next: look for what stops the consumer from processing its messages, and restart it if it
            does not go on; a consumer has to count all its bytes, because servers from 7.2.7, 7.6.6
            and 8.0 on disconnect it after dcp_disconnect_when_stuck_timeout_seconds (720 by
            default) if dcp_disconnect_when_stuck_name_regex matches its name
        causes: {MOSTLY_FULL} {SILENT}
        whose: consumer, unknown for {MOSTLY_FULL} {SILENT}
        reports: GOCBC-774, JDCP-83, JDCP-184, JDCP-246, couchbase/couchbase-kafka-connector#8
        needs: flow
        cost: stalled
    under-acknowledged flow warning consumer
        fires: three or more acknowledgements fit whole messages only if some bytes are left out; or
            they fit no whole messages, four or more in a row do not lower the unacknowledged bytes,
            and the window is full in the end
        unless: acknowledgements that fit the right sizes; bytes sent before the window was granted;
            after a hole
        next: restart the consumer when its window is full; it has to count all bytes of every message
            of a stream: header, framing extras, extras, key and value
        causes: {" ".join(_WHAT)} {NO_FIT}
        reports: GOCBC-774, JDCP-83, JDCP-184, JDCP-246, MB-40277, MB-47318, MB-56275, MB-64936
        needs: flow
        cost: connection, acknowledges too few bytes, acknowledge too few bytes
    over-acknowledged flow warning consumer
        fires: more bytes are acknowledged than flow control counts
        unless: bytes sent before the window was granted; the 2 extra bytes of a prepare; less than
            one answer time; after a hole
        next: report the consumer's version to its author; it has to count the bytes on the wire, and
            only those of the producer's requests that belong to streams
        causes: {" ".join(tuple(w.WAYS[excess] for excess in w.OVER))}
        reports: JDCP-78, GOCBC-241, GOCBC-958, MB-47318, MB-72321
        needs: flow
        cost: connection, acknowledges too many bytes, acknowledge too many bytes
        fields: ack_bytes
    flow-control-overrun flow warning producer
        fires: the producer begins a counted message although the window is full
        unless: one message too many; an acknowledgement comes up to one answer time later and makes
            room; the window became smaller, or is above 4 GiB; after a hole
        next: report it with the producer's version; a consumer needs more memory than its window
        needs: flow
        cost: connection, was sent too much, were sent too much
    ack-without-window flow note consumer
        fires: bytes are acknowledged although flow control is off
        unless: unknown settings of flow control; while the consumer is asking for a window
        next: turn flow control on in the consumer's settings; a consumer has to set
            connection_buffer_size, because the producer ignores acknowledgements without it
        needs: flow
    """
)
_GIVEN_UP = RULES[0].next.replace("by default)", "by default, perhaps less)")
_PASSED = (
    "look in the consumer's log for what stopped it from processing its messages then; a consumer"
    + RULES[0].next.partition("; a consumer")[2]
)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    context, flow, is_whole = finished.context, finished.context.tracker.flow, finished.is_whole
    if flow is None:
        return
    for number, watched in sorted(flow.watched.items()):
        link = context.by_number.get(number)
        if link is None:
            continue
        yield from _stalls(finished, link, watched)
        yield from _under(context, link, watched, is_whole=is_whole)
        yield from _over(context, link, watched, is_whole=is_whole)
        yield from _overruns(context, link, watched, is_whole=is_whole)
    for number, examples in sorted(flow.unasked.items()):
        control = context.session(number).controls.get("connection_buffer_size")
        evidence = [
            context.report_place(number, example_place, of_consumer=True)
            for example_place in examples.occurrences
        ]
        asked_size = _asked_above(context, number)
        if number in context.by_number and (
            control is None or evidence[0].row < control.row or asked_size is not None
        ):
            message = "acknowledged although flow control is off"
            message += (
                (
                    ": servers before 7.6 keep only the lower 32 bits of the window of "
                    f"{asked_size:,}, and these are 0"
                )
                if asked_size is not None
                else ""
            )
            yield from _occurrences(
                Occurrence("ack-without-window", message, number),
                [[example_place] for example_place in evidence],
                examples.count,
                examples.rows,
            )


def _occurrences(
    like: Occurrence,
    evidence: Sequence[Sequence[MessagePlace]],
    count: int,
    rows: RowNumbers = NO_ROWS,
) -> Iterator[Occurrence]:
    """Yields occurrences like this one for something that happened ``count`` times, of which
    ``evidence`` are told.

    The worst one comes first: the message is about it. ``rows``: rows of all.
    """
    first_rows = [message_places[0].row for message_places in evidence]
    rows = np.union1d(rows, first_rows) if len(rows) else rows
    for number, message_places in enumerate(evidence):
        yield replace(
            like,
            places=tuple(message_places),
            count=1 if number else count - len(evidence) + 1,
            rows=() if number else rows,
        )


def _asked_above(context: Context, number: int) -> int | None:
    """Returns the window that the consumer was granted, if it is larger than a server can keep."""
    asked_size = window_asked(context.session(number).control("connection_buffer_size") or "")
    return asked_size if asked_size is not None and asked_size > MOST_WINDOW else None


def _next(context: Context, link: TcpConnection, cause: str | None) -> str | None:
    """Returns what to do about other counting. If the consumer is a node that replicates, or
    nothing fits, servers' own faults are named.
    """
    if cause in w.WAYS and not context.session(link.number).is_replication:
        return _NEXT.get(cause or "")
    is_over = cause is None or cause in w.WAYS[w.OVER.start :]
    right, faults = (_WIRE_BYTES, _OVER_NODES) if is_over else (_ALL_BYTES, _UNDER_NODES)
    return f"look at the consumer's version; it has to {right}; {faults}"


def _is_known(context: Context, link: TcpConnection, watched: WindowWatcher) -> bool:
    """Returns whether the balance is known at the end of what was read."""
    is_based = context.tracker.state.connections.is_based[link.number]
    return bool(watched.window.is_on and is_based) and link.lost_at_end == (None, None)


def _is_starved(context: Context, link: TcpConnection, watched: WindowWatcher) -> bool:
    """Returns whether the producer waits for an acknowledgement at the end of what was read."""
    if not _is_known(context, link, watched) or watched.window.balance < watched.window.size:
        return False
    return bool(len(context.open_on(link.number)))


def _stalls(
    finished: ReadingEnd, link: TcpConnection, watched: WindowWatcher
) -> Iterator[Occurrence]:
    context = finished.context
    asked_size = _asked_above(context, link.number)
    if asked_size is not None and (watched.overruns.count or watched.window.overrun.before):
        return
    events = _long_stalls(context, link, watched)
    count = watched.stalls.count + len(events) - len(watched.stalls.occurrences)
    last = _last_stall(context, link, watched) if finished.is_whole else None
    if last is not None:
        events.append(last)
        count += 1
    if events:
        stall, evidence = _stall(context, link, watched, events, last)
        spans = [*watched.stalls.spans]
        if last is not None:
            spans.append((last.at.time_ns, last.at.time_ns + last.time_ns))
        occurrences = _occurrences(stall, evidence, count, watched.stalls.rows)
        for occurrence, event in zip(occurrences, events, strict=True):
            last_time_ns = event.at.time_ns + event.time_ns
            yield replace(occurrence, last_time_ns=last_time_ns, spans=spans)
            spans = []
    elif in_all := _mostly_full(watched.window):
        latest_ack = MessagePosition.from_record(watched.window.latest_ack)
        yield Occurrence(
            "flow-control-stall",
            f"flow-control window {in_all}",
            link.number,
            (context.report_place(link.number, latest_ack, of_consumer=True),),
            cause=MOSTLY_FULL,
            next=_LARGER,
            severity="note",
        )


def _long_stalls(context: Context, link: TcpConnection, watched: WindowWatcher) -> list[Pressure]:
    """Returns the stalls that ended and are worth a word, without what the network took."""
    events = []
    for event in watched.stalls.occurrences:
        ended_ns = event.ack.time_ns
        arrived_ns = _arrived_ns(context, link, event.at, event.used, ended_ns)
        since_ns = max(ended_ns - event.time_ns, arrived_ns)
        consumer = 1 - context.producer(link.number)
        time_ns = context.carried_ns(link, consumer, since_ns, ended_ns)
        if time_ns >= w.SHORTEST_NS:
            events.append(event._replace(time_ns=time_ns))
    return events


def _stall(
    context: Context,
    link: TcpConnection,
    watched: WindowWatcher,
    events: list[Pressure],
    last: Pressure | None,
) -> tuple[Occurrence, list[list[MessagePlace]]]:
    """Returns the occurrence of these stalls, and the evidence of each, the worst first. ``last``:
    the one of them that had not ended.
    """
    was_closed = link.closed in ("fin", "rst")
    is_closed = was_closed and link.closed_by == context.producer(link.number)
    is_given_up = last is not None and is_closed and last.time_ns >= STUCK_NS
    events.sort(key=lambda event: (not is_given_up or event is not last, -event.time_ns))
    worst = events[0]
    evidence = []
    for event in events:
        full = context.report_place(link.number, event.at)
        ack = context.report_place(link.number, event.ack, of_consumer=True)
        evidence.append([full, ack] if ack.row else [full])
    control = context.session(link.number).controls.get("connection_buffer_size")
    if control is not None and control.row < worst.at.row:
        evidence[0].append(place_at(link.number, *control.request))
    until = max(event.at.time_ns + event.time_ns for event in events)
    worst_arrived_ns = _arrived_ns(context, link, worst.at, worst.used)
    # what never arrived is the network's
    is_lost = worst is last and worst_arrived_ns == GREATEST
    # a consumer that acknowledges, and makes no room, is slow, as far as anyone knows
    is_slow = last is not None and 0 <= last.since_ack_ns < LONG_NS
    is_open = last is not None and last.time_ns >= LONG_NS and not is_lost and not is_slow
    closes = link.number if is_open and is_closed else None
    advice = _GIVEN_UP if closes and last is not None and last.time_ns < STUCK_NS else None
    if last is None:
        advice = _PASSED
    return Occurrence(
        "flow-control-stall",
        _stall_message(context, link, watched, worst, is_last=worst is last),
        link.number,
        closes=closes,
        next=LOST if is_lost else advice,
        is_over=True if last is None else None if was_closed else False,
        vbuckets=context.waiting_on(link.number, until) if last is not None else (),
        cause=SILENT if is_lost else None,
        shared="the window is full, and nothing is acknowledged",
        severity="error" if is_open else "warning" if worst.time_ns >= LONG_NS else "note",
    ), evidence


def _stall_message(
    context: Context, link: TcpConnection, watched: WindowWatcher, worst: Pressure, *, is_last: bool
) -> str:
    """``is_last``: the worst stall had not ended."""
    made = ", without making room" if worst.since_ack_ns < worst.time_ns else ""
    last_ack = (
        f"last acknowledgement {duration(worst.since_ack_ns)} before{made}"
        if worst.since_ack_ns >= 0
        else "none acknowledged before"
    )
    used = f"{worst.used:,} of {worst.window:,} bytes not acknowledged"
    message = (
        f"flow-control window full for {duration(worst.time_ns)}, {used}, "
        f"{_mostly_full(watched.window) or last_ack}"
    )
    if is_last and link.closed in ("fin", "rst"):
        message += f"; then the {SIDES[link.closed_by]} {link.how_closed} the connection"
    if worst.time_ns >= STUCK_NS:
        message += f"; a server may give up after {STUCK_NS // 10**9} s"
    asked_size = _asked_above(context, link.number)
    if asked_size is not None and worst.window == asked_size & MOST_WINDOW:
        message += (
            f"; the {SIDES[1 - context.producer(link.number)]} asked for {asked_size:,}, and "
            "servers before 7.6 keep only the lower 32 bits"
        )
    return message


def _mostly_full(window: Window) -> str:
    """Returns for how long a window was full in all, if that is most of a long time; else "". One
    stall tells it itself.
    """
    known_ns = window.latest_ack.time - window.granted_at
    if window.times_full < 2 or known_ns < MOSTLY_NS or 2 * window.full < known_ns:
        return ""
    return f"full for {duration(window.full)} of {duration(known_ns)} in all, {window.times_full:,} times"


def _last_stall(context: Context, link: TcpConnection, watched: WindowWatcher) -> Pressure | None:
    """Returns the stall that had not ended when the connection, or the capture, ended."""
    if not _is_starved(context, link, watched):
        return None
    window, until = watched.window, context.until_ns(link)
    latest = MessagePosition.from_record(window.latest)
    arrived_ns = _arrived_ns(context, link, latest, window.balance)
    full_ns = int(until - window.quiet_since)
    if arrived_ns < GREATEST:
        since_ns, consumer = (
            max(window.quiet_since, arrived_ns),
            1 - context.producer(link.number),
        )
        full_ns = context.carried_ns(link, consumer, since_ns, until)
    if full_ns < w.SHORTEST_NS:
        return None
    return Pressure(
        full_ns,
        window.balance,
        window.size,
        until - window.latest_ack.time if window.acks else -1,
        latest,
        MessagePosition.from_record(window.latest_ack),
    )


def _arrived_ns(
    context: Context,
    link: TcpConnection,
    latest: MessagePosition,
    used: int,
    until_ns: int = GREATEST,
) -> int:
    """Returns when the consumer's host had what fills the window, if it arrived late; 0 if nothing
    shows that. Nobody can acknowledge it before. ``latest``: the latest message.
    """
    producer, sent_ns = context.producer(link.number), latest.time_ns
    arrived_ns = link.received_ns(producer, latest.stream_offset, sent_ns, used, until_ns)
    return arrived_ns if arrived_ns > sent_ns else 0


def _under(
    context: Context, link: TcpConnection, watched: WindowWatcher, *, is_whole: bool
) -> Iterator[Occurrence]:
    window, fit = watched.window, watched.fit
    if 0 < fit < w.OVER.start:
        watched_way, cause = watched.ways[fit], w.WAYS[fit]
        message = (
            f"under-acknowledged by {watched_way.less:,} bytes: {watched_way.affected:,} x "
            f"{_WHAT[cause]}"
        )
        yield _under_acknowledged(context, link, watched, message, cause)
        return
    only_grew = watched.fits_nothing and window.acks >= w.ENOUGH_WITHOUT and not window.has_fallen
    if is_whole and only_grew and _last_stall(context, link, watched) is not None:
        grown = (
            f"unacknowledged bytes only grew over {window.acks:,} acknowledgements, to "
            f"{window.after_ack:,}"
        )
        message = f"under-acknowledged: {grown} of {window.size:,}"
        yield _under_acknowledged(context, link, watched, message, NO_FIT)


def _under_acknowledged(
    context: Context, link: TcpConnection, watched: WindowWatcher, message: str, cause: str
) -> Occurrence:
    window = watched.window
    evidence = tuple(
        context.report_place(link.number, message_place, of_consumer=True)
        for message_place in (window.missed, window.latest_ack)
    )
    next_ = _next(context, link, cause)
    return Occurrence(
        "under-acknowledged",
        message,
        link.number,
        evidence,
        cause=cause,
        next=next_,
        count=window.acks,
    )


def _over(
    context: Context, link: TcpConnection, watched: WindowWatcher, *, is_whole: bool
) -> Iterator[Occurrence]:
    window = Window.of_bytes(Window.as_bytes(watched.window))
    if is_whole and _is_known(context, link, watched):
        w.settle_excess(context.until_ns(link), window)  # the producer sends nothing more
    excess = window.excess
    if not excess.count:
        return
    cause = w.WAYS[watched.fit] if watched.fit in w.OVER else None
    evidence = [
        context.report_place(link.number, message_place, of_consumer=True)
        for message_place in (excess.first, excess.last)
    ]
    # the end may have shown that this acknowledgement is too much
    rows = np.append(watched.excesses.rows, excess.last.row)
    message = f"{excess.acked:,} bytes were acknowledged, but only {excess.counted:,} sent"
    over = Occurrence(
        "over-acknowledged",
        message,
        link.number,
        cause=cause,
        next=_next(context, link, cause),
    )
    yield from _occurrences(over, [list(dict.fromkeys(evidence))], excess.count, rows)


def _overruns(
    context: Context, link: TcpConnection, watched: WindowWatcher, *, is_whole: bool
) -> Iterator[Occurrence]:
    window, overrun = watched.window, watched.window.overrun
    if _asked_above(context, link.number) is not None:
        return  # this server keeps more of the window than others
    events, count = [*watched.overruns.occurrences], watched.overruns.count
    is_late = context.until_ns(link) > overrun.at.time + window.tolerance
    if is_whole and overrun.before and is_late and _is_known(context, link, watched):
        events.append(
            Pressure(
                0,
                overrun.peak,
                window.size,
                0,
                MessagePosition.from_record(overrun.at),
                MessagePosition.from_record(window.latest_ack),
            )
        )
        count += 1
    if not events:
        return
    events.sort(key=lambda event: event.window - event.used)
    message = f"{events[0].used - events[0].window:,} bytes past the window of {events[0].window:,}"
    evidence = [[context.report_place(link.number, event.at)] for event in events]
    overrun_occurrence = Occurrence(
        "flow-control-overrun", message, link.number, shared="bytes past the window"
    )
    yield from _occurrences(overrun_occurrence, evidence, count, watched.overruns.rows)


RULE_SET = RuleSet(RULES, findings=findings)
