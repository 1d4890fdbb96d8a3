"""Rules about connections and about the capture itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.coverage import UNPLACED, DirectionCoverage, Sizes
from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import FindingKey, Occurrence, captured
from dcpinspect.findings.rule import SIDES, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.control_keys import control_key
from dcpinspect.protocol.framed import ABSURD_BODY, BAD_MAGIC, HOLE
from dcpinspect.protocol.header import MAGIC_DOCS, Magic
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.streams.copies import RECORDED, TRANSLATION, Copy
from dcpinspect.streams.session import MOST_WINDOW, window_asked
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.tables.messages import DIRECTIONS
from dcpinspect.text import counted

RULES = rules(
    """
    control-rejected session note consumer
        fires: a setting is answered with a status other than success; nodes that replicate ask for
            all settings that they know
        unless: settings that dcpinspect does not know
        next: compare the setting with the server's version; a consumer must not rely on it
        fields: key
    control-unknown-key session note consumer
        fires: the client asks for a setting that dcpinspect does not know
        next: compare the versions, because a newer server may know it; the consumer's author has to
            check the spelling
        fields: key
    hello-key-not-json session note client
        fires: the key of a HELLO has members of JSON but is no JSON object, because its braces are
            missing or it was cut off
        unless: keys that are plain text
        next: operators have nothing to do, but the server does not know the connection's id; a
            client has to send a JSON object with the agent as member a and the id as member i
        reports: JDCP-248
        fields: key
    capture-hole capture note capture
        fires: bytes of a connection were not captured
        unless: bytes that the snapshot length cut off
        next: capture nearer to the node, with a larger buffer, or read the whole capture, if the
            file has only chosen packets, as -w writes; gaps that come from this have the cause
            capture-loss
        cost: has-loss
        adds_up: yes
    capture-cut capture note capture
        fires: packets were cut by the snapshot length
        next: capture with -s 0
        cost: has-loss
        adds_up: yes
    mid-stream-start capture note capture
        fires: the capture begins inside a connection
        unless: connections that were read as a whole from there on, and carry no DCP
        next: start the capture before the client connects, if its settings matter
    undecoded-bytes capture note capture
        fires: bytes of a connection are in no message
        next: info --stats shows where they are and why
        adds_up: yes
    seen-twice capture note normal
        fires: two connections show one conversation: before and after address translation or a
            proxy, or recorded twice with different clocks
        unless: two clients that say the same at the same time; a client that connects again: it has
            other sequence numbers
        next: nothing; findings, counts and tables have one of the two; messages have both, and so has
            'connections', which says which is a copy of which
    connection-reuse-inferred capture note capture
        fires: packets with unrelated sequence numbers come on the addresses of a connection,
            without a SYN
        next: start the capture before the client connects; they were read as a new connection,
            whose settings are unknown
    """
)

_SKIPS: Mapping[str, tuple[str, Severity]] = {
    HOLE: ("capture-hole", "note"),
    BAD_MAGIC: ("bad-magic", "error"),
    ABSURD_BODY: ("oversized-body", "warning"),
}
"""The rule that tells of skipped bytes, with its severity, by the only reason to skip them."""
_LEAST_SEGMENT = 536
"""Fewer bytes behind an IP packet may be a trailer."""
_OFFLOAD = (
    "the network card cuts them into packets later: capture on the other host, or switch "
    "that off, as with ethtool -K DEV tso off gso off"
)
_NEVER_ARRIVED = (
    "the network may have lost these bytes, and not the capture; a capture at their sender shows it"
)
_SORT = (
    "packets stand in the file behind those that follow them; if their times are right, "
    "reordercap puts them in order"
)
_ALONE = (
    "a capture that cut these packets was read before one that has them whole: read the whole "
    "one alone"
)
_CUT: tuple[str, Severity] = ("capture-cut", "note")
"""The same if all holes were made by the snapshot length."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    context, coverage = finished.context, finished.coverage
    for link in context.links:
        yield from _session(context, link)
        if link.unseen >= 0:
            yield _unseen(link)
        yield from _longer(link)
    yield from _without_syn(context)
    for link, copy in context.copies.values():
        yield _copy(link, context.by_number[copy.of], copy)
    listed = np.array([link.number for link in context.links], np.int64)

    def may_tell(sizes: Sizes) -> BoolArray:
        has_any = (sizes.cut + sizes.late > 0) | (
            (sizes.has_fault | ~sizes.is_whole) & np.isin(sizes.connection, listed)
        )
        return np.asarray((sizes.connection > 0) & has_any, dtype=np.bool_)

    for direction_coverage in coverage.where(may_tell):
        yield from _missing(context, direction_coverage)
        yield from _faults(context, direction_coverage)
        yield from _undecoded(context, direction_coverage)


def _session(context: Context, link: TcpConnection) -> Iterator[Occurrence]:
    session = context.session(link.number)
    if session.is_key_broken:
        yield Occurrence(
            "hello-key-not-json",
            f"the key of HELLO is no JSON object; the agent is {session.agent}",
            link.number,
            captured([context.said_place(link.number, session.hello_asked)]),
        )
    for key, control in session.controls.items():
        is_refused, known_key = control.status not in (None, "success"), control_key(key)
        evidence = captured([context.said_place(link.number, control.request)])
        if known_key is None:
            answered = f", answered with {control.status}" if is_refused else ""
            message = f"control {key} is not known{answered}"
            yield Occurrence("control-unknown-key", message, link.number, evidence, cause=key)
        elif is_refused:
            next_ = None
            if control.status == "einval" and context.versions(link.number).has(key) is False:
                next_ = f"servers know it from {known_key.since} on; a consumer must not rely on it"
            elif (
                key == "connection_buffer_size" and (window_asked(control.value) or 0) > MOST_WINDOW
            ):
                next_ = (
                    f"ask for {MOST_WINDOW:,} bytes at most, in the consumer's settings or in its "
                    "code: servers from 7.6 on refuse a larger window"
                )
            yield Occurrence(
                "control-rejected",
                f"control {key}={control.value} was refused: {control.status}",
                link.number,
                evidence,
                cause=key,
                next=next_,
                whose="normal" if session.is_replication else "unknown",
            )


def _unseen(link: TcpConnection) -> Occurrence:
    size = f", {counted(link.missing[link.unseen], 'byte')}" if link.missing[link.unseen] else ""
    port = link.server.rpartition(":")[2]
    next_ = (
        f"the filter caught one direction only: capture with 'tcp port {port}', without src or "
        "dst; a tap or a mirror port may also show only one"
    )
    message = f"nothing of the {('client', 'server')[link.unseen]} was captured{size}"
    return Occurrence("capture-hole", message, link.number, cause="one-direction", next=next_)


def _longer(link: TcpConnection) -> Iterator[Occurrence]:
    for name, size in zip(DIRECTIONS, link.unproven, strict=True):
        if size >= _LEAST_SEGMENT:
            message = (
                f"frames {_SENT[name]} have {counted(size, 'byte')} more than their IP "
                "headers tell: no sequence number shows what they are"
            )
            yield Occurrence(
                "capture-hole", message, link.number, cause="longer-frames", next=_OFFLOAD
            )


_SENT = {"c2s": "sent by the client", "s2c": "sent by the server"}


def _missing(context: Context, direction_coverage: DirectionCoverage) -> Iterator[Occurrence]:
    number, direction = direction_coverage.connection, direction_coverage.direction
    name, link = DIRECTIONS[direction], context.by_number.get(number)
    cut, filled = direction_coverage.cut, direction_coverage.filled
    lost = max(0, direction_coverage.lost - cut)
    # else another reason is told, which is none of the capture's size
    if (
        lost + filled
        and link is not None
        and not (link.unseen == direction or link.unproven[direction] >= _LEAST_SEGMENT)
    ):
        # nobody counts which holes snaplen made
        holes = (
            "beside what was cut off" if cut else f"in {counted(direction_coverage.holes, 'hole')}"
        )
        first_hole = direction_coverage.first_hole
        is_never_acked = first_hole is not None and 0 < link.acked[direction] <= first_hole
        clauses = (
            f"{counted(lost, 'byte')} {holes}" if lost else "",
            f"{counted(filled, 'byte')} came too late to be read" if filled else "",
            _SENT[name],
            "which no captured packet acknowledges" if is_never_acked else "",
        )
        next_ = _NEVER_ARRIVED if is_never_acked else None
        if filled:
            next_ = _ALONE if cut else _SORT
        yield Occurrence(
            "capture-hole",
            ", ".join(filter(None, clauses)),
            number,
            tuple(context.first_losses(number, direction)),
            cause=name,
            next=next_,
        )
    if cut:
        message = f"{counted(cut, 'byte')} cut off by the snapshot length, {_SENT[name]}"
        yield Occurrence("capture-cut", message, number, cause=name)


def _undecoded(context: Context, direction_coverage: DirectionCoverage) -> Iterator[Occurrence]:
    link = context.by_number.get(direction_coverage.connection)
    direction = direction_coverage.direction
    name = DIRECTIONS[direction]
    unplaced = direction_coverage.late - direction_coverage.filled
    if link is not None and unplaced:
        yield Occurrence(
            "undecoded-bytes",
            f"{counted(unplaced, 'byte')} {UNPLACED}, {_SENT[name]}",
            link.number,
            cause=f"{name}-unplaced",
        )
    skipped = sum(direction_coverage.skipped.values())  # other rules tell of other protocols
    if link is not None and skipped:
        reason = (
            next(iter(direction_coverage.skipped), "")
            if len(direction_coverage.skipped) == 1 and not direction_coverage.not_decodable
            else ""
        )
        cause = (
            _CUT
            if reason == HOLE and direction_coverage.missing == direction_coverage.cut
            else _SKIPS.get(reason)
        )
        message = f"{counted(skipped, 'byte')} in no message, {_SENT[name]}"
        yield Occurrence(
            "undecoded-bytes",
            message,
            link.number,
            tuple(context.first_losses(link.number, direction, direction_coverage.first_skipped)),
            cause=name,
            effect_of=(*cause, name, link.number, None, None) if cause else None,
        )


def _copy(link: TcpConnection, original: TcpConnection, copy: Copy) -> Occurrence:
    number = link.number
    side, when = ("behind", "later") if copy.delay_ns >= 0 else ("in front of", "earlier")
    if copy.by == TRANSLATION:
        where = f"{'after' if copy.delay_ns >= 0 else 'before'} address translation"
        message = f"connection {copy.of} again, {where}"
    elif copy.by == RECORDED:
        where = "recorded a second time"
        message = (
            f"connection {copy.of}, {where}, by a clock that is "
            f"{duration(abs(copy.delay_ns))} {'ahead' if copy.delay_ns >= 0 else 'behind'}"
        )
    else:
        where = f"{side} a proxy"
        message = (
            f"the leg {where} of connection {copy.of} "
            f"({duration(abs(copy.delay_ns))} {when})"
            f"{_closed_first(original, link)}"
        )
    message += "; each of the two has capture loss" * copy.both_lack
    shared = (
        f"the conversation of another connection, {where}"
        + "; each of the two has capture loss" * copy.both_lack
    )
    return Occurrence(
        "seen-twice",
        message,
        number,
        cause=where.replace(" ", "-"),
        shared=shared,
        time_ns=link.first_ns,
        last_time_ns=link.last_ns,
    )


def _closed_first(*legs: TcpConnection) -> str:
    """Says which leg of a proxied connection was closed first, if packets show both ends: the
    proxy only passes on that end.
    """
    if any(leg.closed_by in (-1, leg.unseen) for leg in legs):
        return ""
    first, second = sorted(legs, key=lambda leg: leg.closed_ns)
    return (
        f"; connection {first.number} was {first.how_closed} first, by the {SIDES[first.closed_by]}, "
        f"{duration(second.closed_ns - first.closed_ns)} before connection {second.number}"
    )


def _without_syn(context: Context) -> Iterator[Occurrence]:
    """Yields connections that begin without a SYN, and those of them taken for new ones."""
    latest: dict[tuple[str, str], int] = {}
    for link in context.links:
        before = latest.get((link.client, link.server))
        if before is not None and not link.has_handshake:
            message = (
                f"sequence numbers jump by {link.jump:,} bytes on the addresses of "
                f"connection {before}: taken as a new connection"
            )
            yield (cause := Occurrence("connection-reuse-inferred", message, link.number))
            yield _mid_stream(link, cause.key)
        elif not link.has_handshake and not _is_without_dcp(context, link):
            yield _mid_stream(link)
        latest[link.client, link.server] = link.number


def _is_without_dcp(context: Context, link: TcpConnection) -> bool:
    """Returns whether a connection carries no DCP, and nothing unread in it could be DCP."""
    is_read = (
        link.tls is None
        and link.lost_at_end == (None, None)
        and not any((*link.missing, *link.skipped))
    )
    return is_read and not context.tracker.speaks_dcp(link.number)


def _mid_stream(link: TcpConnection, cause: FindingKey | None = None) -> Occurrence:
    message = "capture begins inside the connection, so its settings are unknown"
    return Occurrence(
        "mid-stream-start",
        message,
        link.number,
        effect_of=cause,
        time_ns=link.first_ns,
        last_time_ns=link.last_ns,
    )


def _faults(context: Context, direction_coverage: DirectionCoverage) -> Iterator[Occurrence]:
    """Yields occurrences for what stood where a message should begin."""
    link = context.by_number.get(direction_coverage.connection)
    if direction_coverage.first_fault is None or link is None or not link.has_handshake:
        return
    offset, header = direction_coverage.first_fault
    evidence = context.first_losses(direction_coverage.connection, direction_coverage.direction)[:1]
    cause = DIRECTIONS[direction_coverage.direction]
    if header[0] in MAGIC_DOCS:
        name = opcode_name(
            header[1], server=header[0] in (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE)
        )
        size = int.from_bytes(header[8:12], "big")
        message = f"{name} announces {size / (1 << 20):,.0f} MiB"
        yield Occurrence(
            "oversized-body", message, direction_coverage.connection, tuple(evidence), cause=cause
        )
        return
    skipped = sum(direction_coverage.skipped.values())
    message = (
        f"byte 0x{header[0]:02x} at offset {offset:,} begins no message; {skipped:,} bytes "
        f"skipped, {cause}"
    )
    yield Occurrence(
        "bad-magic", message, direction_coverage.connection, tuple(evidence), cause=cause
    )


RULE_SET = RuleSet(RULES, findings=findings, also=("bad-magic", "oversized-body"))
