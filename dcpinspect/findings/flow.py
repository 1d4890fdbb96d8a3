"""Rules about flow control: windows that stay full, what goes beyond them, and consumers that count otherwise than producers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcpinspect.findings.collector import duration
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Occurrence, Place
from dcpinspect.findings.rule import Rule
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import flow as f
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.flow import FlowControl, Watched
from dcpinspect.streams.links import Link

LONG_NS = 5_000_000_000
"""A window that was full for so long is worth a warning."""
NO_FIT = "no-fit"

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
        "the window is full, and nothing is counted nor acknowledged for 5 s; a note from 1 s on",
        "after a hole, until the window is granted anew; at the end of the capture where no stream is open",
        "the consumer does not acknowledge: look for what keeps it from taking messages off its buffer, or for what it does not count",
        reports=("GOCBC-774", "JDCP-83", "JDCP-184", "JDCP-246", "couchbase/couchbase-kafka-connector#8"),
    ),
    Rule(
        "under-acknowledged",
        "flow",
        "warning",
        "three acknowledgements or more are sums of whole messages, but counted in a way that leaves something out; "
        "or they are no such sums, what waits never gets less over four or more, and the window is full in the end",
        "the right sizes fit; bytes sent before the window was granted; after a hole",
        "count every byte of the message: header, framing extras, extras, key and value, of every message of a stream",
        (*_WHAT, NO_FIT),
        reports=("GOCBC-774", "JDCP-83", "JDCP-184", "JDCP-246"),
    ),
    Rule(
        "over-acknowledged",
        "flow",
        "warning",
        "more bytes are acknowledged than were counted",
        "bytes sent before the window was granted; the two bytes more of a prepare; within one answer time; after a hole",
        "count the bytes on the wire, of requests of the producer that belong to streams only",
        tuple(f.WAYS[way] for way in f.OVER),
        reports=("JDCP-78", "GOCBC-241", "GOCBC-958"),
    ),
    Rule(
        "flow-control-overrun",
        "flow",
        "warning",
        "the producer begins a counted message although the window is full",
        "one message over; acknowledgements up to one answer time later make room; the window became smaller; after a hole",
        "a server fault: note its version; give the consumer room beside its window",
    ),
    Rule(
        "ack-without-window",
        "flow",
        "note",
        "bytes are acknowledged although flow control is off",
        "flow control unknown; a window is being asked for",
        "set connection_buffer_size, or do not acknowledge: the producer ignores it",
    ),
)


def findings(context: Context, flow: FlowControl, *, is_whole: bool) -> Iterator[Occurrence]:
    """All occurrences. ``is_whole``: all messages were taken, so that what did not come is absent."""
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
        if number in context.by_number and (control is None or places[0].row < control.row):
            message = "acknowledged although flow control is off"
            yield from _of("ack-without-window", "note", message, [[place] for place in places], few.count)


def _of(
    rule: str, severity: Severity, message: str, places: Sequence[Sequence[Place]], count: int, cause: str | None = None, until_ns: int = 0
) -> Iterator[Occurrence]:
    """What happened ``count`` times, of which these are told, the worst first: the message is about that."""
    for number, one in enumerate(places):
        times = count - len(places) + 1 if number == 0 else 1
        yield Occurrence(rule, severity, message, one[0].connection, tuple(one), cause=cause, count=times, last_time_ns=until_ns)


def _is_known(context: Context, link: Link, watched: Watched) -> bool:
    """Whether the balance is known at the end of what was read."""
    is_based = context.tracker.state.connections[link.number, s.C_IS_BASED]
    return bool(watched.view[f.V_IS_ON] and is_based) and link.lost_at_end == (None, None)


def _is_starved(context: Context, link: Link, watched: Watched) -> bool:
    """Whether somebody waits for an acknowledgement at the end of what was read."""
    view = watched.view
    if not _is_known(context, link, watched) or view[f.V_BALANCE] < view[f.V_WINDOW]:
        return False
    streams = context.streams[context.streams[:, s.S_CONNECTION] == link.number]
    return bool(((streams[:, s.S_STATE] >= w.ACCEPTED) & (streams[:, s.S_STATE] <= w.STREAMING)).any())


def _stalls(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    events, count = [*watched.stalls.told], watched.stalls.count
    last = _last_stall(context, link, watched) if is_whole else None
    if last is not None:
        events.append(last)
        count += 1
    if not events:
        return
    events.sort(key=lambda event: -event[f.T_TIME])
    longest, used, window, ago = events[0][f.T_TIME], events[0][f.T_A], events[0][f.T_B], events[0][f.T_C]
    last_ack = f"last acknowledgement {duration(ago / 1e9)} before" if ago >= 0 else "never acknowledged before"
    message = f"window full {used:,}/{window:,} for {duration(longest / 1e9)}, {last_ack}"
    places = []
    for event in events:
        full = context.said(link.number, event[f.T_FULL :])
        ack = context.said(link.number, event[f.T_ACK :], of_consumer=True)
        places.append([full, ack] if ack.row else [full])
    until = max(event[f.T_FULL + s.AT_TIME] + event[f.T_TIME] for event in events)
    yield from _of("flow-control-stall", "warning" if longest >= LONG_NS else "note", message, places, count, until_ns=until)


def _last_stall(context: Context, link: Link, watched: Watched) -> list[int] | None:
    """The stall that had no end when the connection, or the capture, ended."""
    if not _is_starved(context, link, watched):
        return None
    view, until = watched.view, context.until_ns(link)
    time_ns = int(until - view[f.V_EVENT_TIME])
    if time_ns < f.SHORTEST_NS:
        return None
    ago = int(until - view[f.V_ACK + s.AT_TIME]) if view[f.V_ACKS] else -1
    head = [f.STALL, time_ns, int(view[f.V_BALANCE]), int(view[f.V_WINDOW]), ago]
    return [*head, *view[f.V_FULL : f.V_FULL + s.PLACE].tolist(), *view[f.V_ACK : f.V_ACK + s.PLACE].tolist()]


def _under(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    view, fit = watched.view, watched.fit
    places = [context.said(link.number, view[at : at + s.PLACE].tolist(), of_consumer=True) for at in (f.V_MISSED, f.V_ACK)]
    if 0 < fit < f.OVER.start:
        missing, affected = watched.ways[fit, [f.W_LESS, f.W_AFFECTED]].tolist()
        message = f"under-acknowledged by {missing:,} bytes: {affected:,} x {_WHAT[f.WAYS[fit]]}"
        yield from _of("under-acknowledged", "warning", message, [places], int(view[f.V_ACKS]), f.WAYS[fit])
        return
    only_grew = watched.fits_nothing and view[f.V_ACKS] >= f.ENOUGH_WITHOUT and not view[f.V_FELL]
    if is_whole and only_grew and _last_stall(context, link, watched) is not None:
        grown = f"what waits for an acknowledgement only grew over {view[f.V_ACKS]:,} of them, to {view[f.V_AFTER]:,} bytes"
        message = f"under-acknowledged: {grown} of {view[f.V_WINDOW]:,}"
        yield from _of("under-acknowledged", "warning", message, [places], int(view[f.V_ACKS]), NO_FIT)


def _over(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    view = watched.view.copy()
    if is_whole and _is_known(context, link, watched):
        f.settle_excess(context.until_ns(link), view)  # the producer sends nothing more
    if not view[f.V_OVER_COUNT]:
        return
    cause = f.WAYS[watched.fit] if watched.fit in f.OVER else None
    places = [context.said(link.number, view[at : at + s.PLACE].tolist(), of_consumer=True) for at in (f.V_OVER_FIRST, f.V_OVER_LAST)]
    message = f"acknowledged {view[f.V_OVER_ACKED]:,} bytes, sent {view[f.V_OVER_COUNTED]:,}"
    yield from _of("over-acknowledged", "warning", message, [list(dict.fromkeys(places))], int(view[f.V_OVER_COUNT]), cause)


def _overruns(context: Context, link: Link, watched: Watched, *, is_whole: bool) -> Iterator[Occurrence]:
    view = watched.view
    events, count = [*watched.overruns.told], watched.overruns.count
    is_late = context.until_ns(link) > view[f.V_OVERRUN_AT + s.AT_TIME] + view[f.V_TOLERANCE]
    if is_whole and view[f.V_OVERRUN] and is_late and _is_known(context, link, watched):
        head = [f.OVERRUN, 0, int(view[f.V_OVERRUN_PEAK]), int(view[f.V_WINDOW]), 0]
        events.append([*head, *view[f.V_OVERRUN_AT : f.V_OVERRUN_AT + s.PLACE].tolist(), *view[f.V_ACK : f.V_ACK + s.PLACE].tolist()])
        count += 1
    if not events:
        return
    events.sort(key=lambda event: event[f.T_B] - event[f.T_A])
    message = f"{events[0][f.T_A] - events[0][f.T_B]:,} bytes past the window of {events[0][f.T_B]:,}"
    places = [[context.said(link.number, event[f.T_FULL :])] for event in events]
    yield from _of("flow-control-overrun", "warning", message, places, count)
