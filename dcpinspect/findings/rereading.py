"""The rule about clients that ask again for what they have received."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.flags import CACHE_TRANSFER, FROM_LATEST, TAKEOVER
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.streams import words as w
from dcpinspect.streams.records import CUT_VALUE, LEAST, Stream
from dcpinspect.streams.transitions import COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO, ENDED
from dcpinspect.text import counted

RESTART, RE_READ = "restart", "re-read"
"""Causes: the client asks from 0, or from a seqno below what it has received."""
_COMPLETE = (COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO)
_END_DISCONNECTED, _END_ROLLBACK = 3, 6

RULES = rules(
    f"""
    read-again stream note consumer
        fires: a consumer whose stream is over asks for the vbucket again below what it has
            received, on the same branch, and receives it again
        unless: items that its host did not acknowledge, or that came after the request; the seqno
            of a rollback; the seqno before a snapshot that had not come whole; another name,
            filter, stream-id or branch; a connection that begins before the old one is closed;
            nodes that replicate; capture loss that may hide a request, a rollback or the end of
            the stream before
        next: operators have nothing to do if the consumer means to read everything each time; else it
            has to store checkpoints, and to start from them
        causes: {RESTART} {RE_READ}
        adds_up: yes
        fields: start_seqno
    """
)

_LEAST_ITEM = HEADER_SIZE + 18
"""Size of a deletion without a key: no item has fewer bytes."""
_WORDS = {RESTART: "asked from the start again", RE_READ: "asked from below what was received"}
_NEXT = {
    RE_READ: (
        "operators have nothing to do; a consumer has to store checkpoints more often if it must not "
        "receive items twice"
    )
}


class _Again(NamedTuple):
    """A stream that brought again what the client had received."""

    stream: int
    before: int
    """The stream with the last of what the client had received."""
    high: int
    """What that was, biased."""
    seqnos: int
    """How many seqnos came again."""


class _Received:
    """The seqnos that a client has received of a vbucket, one behind the other: above ``low``, up
    to ``high``, both biased.
    """

    def __init__(self, stream: int, row: Stream) -> None:
        self.stream, self.low, self.high = stream, row.request.start, row.position
        self.since_ns = row.at.time
        """When the client is known to have it all: it received the last, or asked for the next."""
        self.rollbacks: set[int] = set()
        """Where the client was rolled back to since."""

    def rolled_back(self, row: Stream) -> None:
        """Takes note of a rollback."""
        self.rollbacks.add(row.rollback)
        if row.request.start >= self.high:
            self.since_ns = row.opened.time

    def add(self, stream: int, row: Stream) -> _Received:
        """Returns what the client has received with another stream."""
        start, position = row.request.start, row.position
        if start in self.rollbacks or not self.low <= start <= self.high:
            return _Received(stream, row)
        if position >= self.high:
            self.stream, self.high, self.since_ns = stream, position, row.at.time
        self.rollbacks.clear()
        return self


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, client by client and vbucket by vbucket."""
    context = finished.context
    delivered = _delivered(context)
    for numbers in context.of_client.having(delivered, 2):
        yield from _read_again(context, numbers, delivered)


def _delivered(context: Context) -> BoolArray:
    """Returns a mask of streams that brought items from a seqno on that the client chose."""
    streams, request = context.streams, context.streams.request
    is_chosen = (
        (request.is_captured != 0)
        & (request.flags & (FROM_LATEST | TAKEOVER | CACHE_TRANSFER) == 0)
        & (request.filter != CUT_VALUE)
    )
    mask: BoolArray = (
        is_chosen
        & (streams.answer == w.A_ACCEPTED)
        & (streams.seen > 0)
        & (streams.has_position != 0)
    )
    return mask


def _read_again(
    context: Context, numbers: Sequence[int], delivered: BoolArray
) -> Iterator[Occurrence]:
    """Yields the occurrences of one client and vbucket, whose streams these are: one of each
    connection and cause.
    """
    had: _Received | None = None
    again: dict[tuple[int, str], list[_Again]] = defaultdict(list)
    for number in numbers:
        stream = context.streams[number]
        if stream.answer == w.A_REFUSED:
            continue
        if stream.answer == w.A_ROLLBACK:
            if had is not None:
                had.rolled_back(stream)
            continue
        if not delivered[number]:  # who has a stream may have received something on it
            had = None if stream.answer != w.A_ACCEPTED or stream.seen else had
            continue
        if had is not None and _is_again(context, had, number):
            count = min(stream.position, had.high) - max(stream.request.start, had.low)
            cause = RE_READ if stream.request.start > LEAST else RESTART
            again[stream.connection, cause].append(_Again(number, had.stream, had.high, count))
        is_same = had is not None and context.logs.newest(had.stream) == context.logs.newest(number)
        had = had.add(number, stream) if had is not None and is_same else _Received(number, stream)
    yield from (_occurrence(context, cause, rounds) for (_, cause), rounds in again.items())


def _is_again(context: Context, had: _Received, number: int) -> bool:
    old, row = context.streams[had.stream], context.streams[number]
    start, before, connection = int(row.request.start), int(old.connection), int(row.connection)
    if (
        start >= had.high
        or row.first > had.high
        or row.position <= had.low
        or start in had.rollbacks
    ):
        return False
    # what comes after the request was under way, and the client did not know it
    if old.at.time >= row.opened.time or not _has_received(context, old, start):
        return False
    if old.snapshot >= 0 and _is_boundary(context, old.snapshot, start):
        return False
    branch = context.logs.newest(number)
    if (
        branch is None
        or branch != context.logs.newest(had.stream)
        or not _is_over(context, had.stream, number)
    ):
        return False
    sessions = [context.session(connection_number) for connection_number in (before, connection)]
    if (
        sessions[0].name is None
        or sessions[0].name != sessions[1].name
        or any(session.is_replication for session in sessions)
    ):
        return False
    if _filter(context, had.stream) != _filter(context, number):
        return False
    asked_ns, producer = row.opened.time, context.producer(before)
    is_hidden = context.may_lack(before, producer, had.since_ns, asked_ns)
    return not is_hidden and not context.conduct.may_have_said(
        before, had.since_ns, asked_ns, vbucket=row.vbucket
    )


def _has_received(context: Context, old: Stream, start: int) -> bool:
    """Returns whether a client had more of a stream than it asks for: its host acknowledged the
    latest item, or it asks for all again and the host acknowledged items.
    """
    connection = old.connection
    acked = context.by_number[connection].acked[context.producer(connection)]
    missing = old.at.offset + HEADER_SIZE - acked if acked else 0
    return missing <= 0 or (start <= old.request.start and missing < old.items * _LEAST_ITEM)


def _is_boundary(context: Context, snapshot: int, start: int) -> bool:
    """Returns whether who asks from a seqno leaves out no snapshot but this incomplete one."""
    row = context.snapshots[snapshot]
    return row.state not in _COMPLETE and (
        not row.has_before or start >= min(row.before, row.start)
    )


def _is_over(context: Context, before: int, number: int) -> bool:
    """Returns whether a stream was over when another one was asked for, and not for a rollback.

    A connection that begins before the other one is closed may be that of another program, which
    takes over the name.
    """
    old, row, by_number = context.streams[before], context.streams[number], context.by_number
    link = by_number[old.connection]
    if (
        link.number != row.connection
        and link.closed
        and link.closed_ns <= by_number[row.connection].first_ns
    ):
        return old.state != ENDED or old.reason != _END_ROLLBACK
    if old.closed_row >= 0:
        return old.closed_time <= row.opened.time
    is_ended = (
        old.state == ENDED
        and 0 <= old.reason < w.CONNECTION_CLOSED
        and old.reason not in (_END_DISCONNECTED, _END_ROLLBACK)
    )
    return bool(is_ended and old.finished.time <= row.opened.time)


def _filter(context: Context, stream: int) -> tuple[object, object]:
    value = context.value(stream) or {}
    return value.get("scope"), value.get("collections")


def _occurrence(context: Context, cause: str, rounds: Sequence[_Again]) -> Occurrence:
    """Returns the occurrence of what a client received again on one connection."""
    first, rows = rounds[0], context.streams.opened.row[[round_.stream for round_ in rounds]]
    old = context.streams[first.before]
    start = plain(context.streams.request.start[first.stream])
    high = plain(first.high)
    items = sum(round_.seqnos for round_ in rounds)
    rereading = occurrence(
        context,
        first.stream,
        "read-again",
        f"{_WORDS[cause]} (from row {rows[0]}): {counted(items, 'seqno')} delivered again",
        (context.request(first.stream), context.stream_place(old, old.at)),
        cause=cause,
        next_=_NEXT.get(cause),
        seqnos=(start, high),
        count=len(rounds),
        facts={"requested start": start, "received to": high, "seqnos delivered again": items},
    )
    return replace(
        rereading, rows=rows, last_time_ns=int(context.streams.opened.time[rounds[-1].stream])
    )


RULE_SET = RuleSet(RULES, findings=findings)
