"""Rules about flow control: windows that stay full, what goes beyond them, and consumers that count otherwise than producers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcpinspect.findings.collector import duration
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Occurrence, Place
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import flow as f
from dcpinspect.streams.flow import Watched
from dcpinspect.streams.links import Link
from dcpinspect.streams.places import AT_TIME, PLACE
from dcpinspect.streams.server_reports import At
from dcpinspect.streams.session import MOST_WINDOW, window_asked
from dcpinspect.streams.transitions import ACCEPTED, STREAMING

LONG_NS = 5_000_000_000
"""A window that was full for so long is worth a warning."""
STUCK_NS = 720_000_000_000
"""A server may disconnect who acknowledges nothing for so long: kv_engine ``dcp_disconnect_when_stuck_timeout_seconds``, by default."""
NO_FIT = "no-fit"

_ALL_BYTES = "count every byte of the message: header, framing extras, extras, key and value, of every message of a stream"
_WIRE_BYTES = "count the bytes on the wire, of requests of the producer that belong to streams only"
_NEXT = {"without-flex-frames": f"{_ALL_BYTES}; servers before 7.0 left the stream-id out of most messages themselves (MB-40277)"}

_OVER_NODES = (
    "a node that replicates with full eviction acknowledges a message twice that had to wait for the disk (5.5 to 8.0.2, MB-72321), and"
    " by another size what it had buffered (before 6.6.5 and 7.0.4, MB-47318)"
)
_UNDER_NODES = (
    "a node that replicates forgets what it had buffered at the end of a stream (before 7.2, MB-56275), acknowledges by another size what"
    " it had buffered (before 6.6.5 and 7.0.4, MB-47318), and V2.2 markers by the size of V2.0 (builds before 8.0.0, MB-64936)"
)
"""What servers do themselves when they are the consumer, by kv_engine's history."""

_WHAT = {
    "without-flex-frames": "framing extras",
    "without-seqno-advanced": "seqno advanced (0x64)",
    "without-stream-end": "stream end (0x55)",
    "without-snapshot-marker": "snapshot marker (0x56)",
    "without-oso-snapshot": "OSO snapshot (0x65)",
    "without-system-event": "system event (0x5f)",
    "without-prepare-surplus": "the 2 bytes that count beside a prepare",
    "without-header": "the header of 24 bytes",
}

RULES = (
    Rule(
        "flow-control-stall",
        "flow",
        "warning",
        "the window is full, and nothing is counted nor acknowledged for 5 s; a note from 1 s on; with the limit of the server where it is"
        " reached, and with a window above 4 GiB, of which servers before 7.6 keep the lower 32 bits",
        "after a hole, until the window is granted anew; at the end of the capture where no stream is open; a window above 4 GiB of which"
        " more is used than its lower 32 bits",
        "the consumer does not acknowledge: look for what keeps it from taking messages off its buffer, or for what it does not count;"
        " servers from 7.2.7, 7.6.6 and 8.0 on disconnect it after 720 s where dcp_disconnect_when_stuck_name_regex matches its name",
        reports=("GOCBC-774", "JDCP-83", "JDCP-184", "JDCP-246", "couchbase/couchbase-kafka-connector#8"),
        needs=("flow",),
    ),
    Rule(
        "under-acknowledged",
        "flow",
        "warning",
        "three acknowledgements or more are sums of whole messages, but counted in a way that leaves something out; "
        "or they are no such sums, what waits never gets less over four or more, and the window is full in the end",
        "the right sizes fit; bytes sent before the window was granted; after a hole",
        _ALL_BYTES,
        (*_WHAT, NO_FIT),
        reports=("GOCBC-774", "JDCP-83", "JDCP-184", "JDCP-246", "MB-40277", "MB-47318", "MB-56275", "MB-64936"),
        needs=("flow",),
    ),
    Rule(
        "over-acknowledged",
        "flow",
        "warning",
        "more bytes are acknowledged than were counted",
        "bytes sent before the window was granted; the two bytes more of a prepare; within one answer time; after a hole",
        _WIRE_BYTES,
        tuple(f.WAYS[way] for way in f.OVER),
        reports=("JDCP-78", "GOCBC-241", "GOCBC-958", "MB-47318", "MB-72321"),
        needs=("flow",),
    ),
    Rule(
        "flow-control-overrun",
        "flow",
        "warning",
        "the producer begins a counted message although the window is full",
        "one message over; acknowledgements up to one answer time later make room; the window became smaller, or is above 4 GiB;"
        " after a hole",
        "a server fault: note its version; give the consumer room beside its window",
        needs=("flow",),
    ),
    Rule(
        "ack-without-window",
        "flow",
        "note",
        "bytes are acknowledged although flow control is off",
        "flow control unknown; a window is being asked for",
        "set connection_buffer_size, or do not acknowledge: the producer ignores it",
        needs=("flow",),
    ),
)


def findings(finished: Finished) -> Iterator[Occurrence]:
    """All occurrences."""
    context, flow, is_whole = finished.context, finished.context.tracker.flow, finished.is_whole
    if flow is None:
        return
    for number, watched in sorted(flow.watched.items()):
        link = context.by_number.get(number)
        if link is None:
            continue
        yield from _stalls(context, link, watched, is_whole=is_whole)
        yield from _under(context, link, watched, is_whole=is_whole)
        yield from _over(context, link, watched, is_whole=is_whole)
        yield from _overruns(context, link, watched, is_whole=is_whole)
    for number, few in sorted(flow.unasked.items()):
        control = context.session(number).controls.get("connection_buffer_size")
        places = [context.said(number, place, of_consumer=True) for place in few.told]
        asked = _asked_above(context, number)
        if number in context.by_number and (control is None or places[0].row < control.row or asked is not None):
            message = "acknowledged although flow control is off"
            message += f": of a window of {asked:,}, servers before 7.6 keep the lower 32 bits, which are 0" if asked is not None else ""
            yield from _of("ack-without-window", "note", message, [[place] for place in places], few.count)


def _of(
    rule: str,
    severity: Severity,
    message: str,
    places: Sequence[Sequence[Place]],
    count: int,
    cause: str | None = None,
    until_ns: int = 0,
    next_: str | None = None,
    closes: int | None = None,
) -> Iterator[Occurrence]:
    """What happened ``count`` times, of which these are told, the worst first: the message is about that."""
    for number, one in enumerate(places):
        times, connection = count - len(places) + 1 if number == 0 else 1, one[0].connection
        yield Occurrence(
            rule, severity, message, connection, tuple(one), cause=cause, next=next_, count=times, last_time_ns=until_ns, closes=closes
        )


def _asked_above(context: Context, number: int) -> int | None:
    """The window that the consumer was granted, where it is more than a server can keep."""
    asked = window_asked(context.session(number).control("connection_buffer_size") or "")
    return asked if asked is not None and asked > MOST_WINDOW else None


def _next(context: Context, link: Link, cause: str | None) -> str | None:
    """What to do about other counting: where the consumer is a node that replicates, or nothing fits, servers' own faults are named."""
    if cause in f.WAYS and not (context.session(link.number).name or "").startswith("replication:"):
        return _NEXT.get(cause or "")
    is_over = cause is None or cause in f.WAYS[f.OVER.start :]
    return f"{_WIRE_BYTES}; {_OVER_NODES}" if is_over else f"{_ALL_BYTES}; {_UNDER_NODES}"


def _is_known(context: Context, link: Link, watched: Watched) -> bool:
    """Whether the balance is known at the end of what was read."""
    is_based = context.tracker.state.connections.is_based[link.number]
    return bool(watched.view[f.V_IS_ON] and is_based) and link.lost_at_end == (None, None)


def _is_starved(context: Context, link: Link, watched: Watched) -> bool:
    """Whether somebody waits for an acknowledgement at the end of what was read."""
    view = watched.view
    if not _is_known(context, link, watched) or view[f.V_BALANCE] < view[f.V_WINDOW]:
        return False
    streams = context.streams[context.streams.connection == link.number]
    return bool(((streams.state >= ACCEPTED) & (streams.state <= STREAMING)).any())


def _stalls(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    events, count = [*watched.stalls.told], watched.stalls.count
    last = _last_stall(context, link, watched) if is_whole else None
    if last is not None:
        events.append(last)
        count += 1
    asked = _asked_above(context, link.number)
    if not events or (asked is not None and (watched.overruns.count or watched.view[f.V_OVERRUN])):
        return
    is_closed = link.closed in ("fin", "rst") and link.closed_by == context.producer(link.number)
    is_given_up = last is not None and is_closed and last[f.T_TIME] >= STUCK_NS
    events.sort(key=lambda event: (not is_given_up or event is not last, -event[f.T_TIME]))
    longest, used, window, ago = events[0][f.T_TIME], events[0][f.T_A], events[0][f.T_B], events[0][f.T_C]
    last_ack = f"last acknowledgement {duration(ago / 1e9)} before" if ago >= 0 else "never acknowledged before"
    message = f"window full {used:,}/{window:,} for {duration(longest / 1e9)}, {last_ack}"
    if is_closed and events[0] is last:
        message += f", then the {('client', 'server')[link.closed_by]} closed the connection"
    if longest >= STUCK_NS:
        message += f"; a server may give up after {STUCK_NS // 10**9} s"
    if asked is not None and window == asked & MOST_WINDOW:
        message += f"; of the {asked:,} that were asked for, servers before 7.6 keep the lower 32 bits"
    places = []
    for event in events:
        full = context.said(link.number, At(*event[f.T_FULL :][:4]))
        ack = context.said(link.number, At(*event[f.T_ACK :][:4]), of_consumer=True)
        places.append([full, ack] if ack.row else [full])
    until = max(event[f.T_FULL + AT_TIME] + event[f.T_TIME] for event in events)
    severity: Severity = "warning" if longest >= LONG_NS else "note"
    closes = link.number if is_given_up else None
    yield from _of("flow-control-stall", severity, message, places, count, until_ns=until, closes=closes)


def _last_stall(context: Context, link: Link, watched: Watched) -> list[int] | None:
    """The stall that had no end when the connection, or the capture, ended."""
    if not _is_starved(context, link, watched):
        return None
    view, until = watched.view, context.until_ns(link)
    time_ns = int(until - view[f.V_EVENT_TIME])
    if time_ns < f.SHORTEST_NS:
        return None
    ago = int(until - view[f.V_ACK + AT_TIME]) if view[f.V_ACKS] else -1
    head = [f.STALL, time_ns, int(view[f.V_BALANCE]), int(view[f.V_WINDOW]), ago]
    return [*head, *view[f.V_FULL : f.V_FULL + PLACE].tolist(), *view[f.V_ACK : f.V_ACK + PLACE].tolist()]


def _under(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    view, fit = watched.view, watched.fit
    places = [context.said(link.number, At(*view[at : at + PLACE].tolist()[:4]), of_consumer=True) for at in (f.V_MISSED, f.V_ACK)]
    if 0 < fit < f.OVER.start:
        missing, affected = watched.ways[fit, [f.W_LESS, f.W_AFFECTED]].tolist()
        message = f"under-acknowledged by {missing:,} bytes: {affected:,} x {_WHAT[f.WAYS[fit]]}"
        yield from _of(
            "under-acknowledged", "warning", message, [places], int(view[f.V_ACKS]), f.WAYS[fit], next_=_next(context, link, f.WAYS[fit])
        )
        return
    only_grew = watched.fits_nothing and view[f.V_ACKS] >= f.ENOUGH_WITHOUT and not view[f.V_FELL]
    if is_whole and only_grew and _last_stall(context, link, watched) is not None:
        grown = f"what waits for an acknowledgement only grew over {view[f.V_ACKS]:,} of them, to {view[f.V_AFTER]:,} bytes"
        message = f"under-acknowledged: {grown} of {view[f.V_WINDOW]:,}"
        yield from _of("under-acknowledged", "warning", message, [places], int(view[f.V_ACKS]), NO_FIT, next_=_next(context, link, NO_FIT))


def _over(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    view = watched.view.copy()
    if is_whole and _is_known(context, link, watched):
        f.settle_excess(context.until_ns(link), view)  # the producer sends nothing more
    if not view[f.V_OVER_COUNT]:
        return
    cause = f.WAYS[watched.fit] if watched.fit in f.OVER else None
    places = [
        context.said(link.number, At(*view[at : at + PLACE].tolist()[:4]), of_consumer=True) for at in (f.V_OVER_FIRST, f.V_OVER_LAST)
    ]
    message = f"acknowledged {view[f.V_OVER_ACKED]:,} bytes, sent {view[f.V_OVER_COUNTED]:,}"
    next_ = _next(context, link, cause)
    yield from _of("over-acknowledged", "warning", message, [list(dict.fromkeys(places))], int(view[f.V_OVER_COUNT]), cause, next_=next_)


def _overruns(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    view = watched.view
    if _asked_above(context, link.number) is not None:
        return  # this server keeps more of it than others
    events, count = [*watched.overruns.told], watched.overruns.count
    is_late = context.until_ns(link) > view[f.V_OVERRUN_AT + AT_TIME] + view[f.V_TOLERANCE]
    if is_whole and view[f.V_OVERRUN] and is_late and _is_known(context, link, watched):
        head = [f.OVERRUN, 0, int(view[f.V_OVERRUN_PEAK]), int(view[f.V_WINDOW]), 0]
        events.append([*head, *view[f.V_OVERRUN_AT : f.V_OVERRUN_AT + PLACE].tolist(), *view[f.V_ACK : f.V_ACK + PLACE].tolist()])
        count += 1
    if not events:
        return
    events.sort(key=lambda event: event[f.T_B] - event[f.T_A])
    message = f"{events[0][f.T_A] - events[0][f.T_B]:,} bytes past the window of {events[0][f.T_B]:,}"
    places = [[context.said(link.number, At(*event[f.T_FULL :][:4]))] for event in events]
    yield from _of("flow-control-overrun", "warning", message, places, count)


RULE_SET = RuleSet(RULES, findings=findings)
