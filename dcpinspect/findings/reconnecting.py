"""Clients that ask for a vbucket again and again, and each time begin where they did before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.cases import duration
from dcpinspect.findings.clients import FIRST_BAD_END, LAST_BAD_END
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.history_rules import MOST_ROUNDS, InOrder
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import words as w
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.transitions import ACCEPTED, ENDED, STREAMING

LEAST_TIMES = 5
"""Number of streams that make a loop: a client may fail twice for reasons of its own."""
PAUSE_NS = 60_000_000_000
"""Greatest time between the end of a stream and the next request, for "again and again"."""
_CLIENT, _OK = 0, 0

BY_CLIENT, BY_SERVER, RESET, CLOSED, ENDED_EARLY, FINISHED = (
    *("by-client", "by-server", "reset"),
    *("stream-closed", "stream-ended", "stream-finished"),
)
"""Causes: what ended most of the streams. The first three ended their connection."""

RULES = rules(
    f"""
    reconnect-loop stream warning
        fires: a consumer asks for a vbucket five times or more, each time from no higher seqno,
            within a minute. Each stream before had delivered items when its connection was closed
            or the producer ended it, or when the consumer closed it and asked again on the same
            connection; a note if each had finished, and the consumer asked again on the same
            connection. Or a client opens DCP on five connections or more, within a minute of each
            other, and each is closed before anything is asked for
        unless: streams that deliver nothing; a rollback in between; requests from the latest seqno;
            finished streams, and streams that the consumer closed, where the next one is on another
            connection, because that may be another job of the same name; of connections without a
            stream, those on which a byte is missing
        next: look in the consumer's log for what it did last on a connection; it has to store
            checkpoints, so that it gets further each time
        causes: {BY_CLIENT} {BY_SERVER} {RESET} {CLOSED} {ENDED_EARLY} {FINISHED}
        whose: server for {BY_SERVER}, unknown for {RESET}, client for {BY_CLIENT}, consumer for
            {CLOSED} {ENDED_EARLY} {FINISHED}
        of_each: yes
        cost: client, begins again and again, begin again and again, lasts
    """
)


_RESUMES = (
    "look in the consumer's log for why it begins again; it has to store checkpoints, and to "
    "resume each stream from the last seqno that it received"
)
_NEXT = {
    RESET: (
        "look in the logs of both sides, or for a device between that cuts connections; the "
        "consumer has to store checkpoints, and to start from them"
    ),
    BY_SERVER: (
        "the server's memcached.log says why it closes them; the consumer has to store "
        "checkpoints, and to start from them"
    ),
    CLOSED: _RESUMES,
    ENDED_EARLY: f"{_RESUMES}; the findings about stream ends say why the producer ended them",
    FINISHED: f"{_RESUMES}, unless it is meant to read everything each time",
}
"""What to do, by cause, where it is not what the rule says."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, client by client and vbucket by vbucket."""
    context = finished.context
    ends = _Ends(context)
    again = _asks_again(context, ends)
    for numbers in context.of_client.having(again, LEAST_TIMES - 1):
        in_order, rounds = InOrder(context, numbers), numbers[:1]
        for number in numbers[1:]:
            if not again[number]:
                yield from _loop(context, ends, in_order, rounds)
                rounds = []
            rounds.append(number)
        yield from _loop(context, ends, in_order, rounds)


class _Ends:
    """How streams that had delivered items ended, and when."""

    def __init__(self, context: Context) -> None:
        streams, self._context = context.streams, context
        closed_ns = np.full(len(context.tracker.state.connections), GREATEST, dtype=np.int64)
        for number, link in context.by_number.items():
            if link.closed in ("fin", "rst"):
                closed_ns[number] = link.closed_ns
        closed_ns = closed_ns[streams.connection]
        self.is_asked = (
            (streams.answer == w.A_ACCEPTED)
            & (streams.request.is_captured != 0)
            & (streams.request.flags & FROM_LATEST == 0)
        )
        delivered, has_ended = self.is_asked & (streams.items > 0), streams.state == ENDED
        is_open = (streams.state >= ACCEPTED) & (streams.state <= STREAMING)
        self.with_connection = delivered & is_open & (closed_ns < GREATEST)
        """A mask of those whose connection was closed."""
        self.by_client = delivered & (streams.closed_row >= 0)
        """A mask of those that the client closed."""
        self.by_server = (
            delivered
            & has_ended
            & ~self.by_client
            & (streams.reason >= FIRST_BAD_END)
            & (streams.reason < LAST_BAD_END)
        )
        """A mask of those that the server ended early; an end for a rollback is for other rules."""
        self.are_finished = delivered & has_ended & ~self.by_client & (streams.reason == _OK)
        """A mask of those that brought all that was asked for."""
        ended_ns = np.where(streams.finished.row > 0, streams.finished.time, streams.closed_time)
        self.time_ns = np.where(self.with_connection, closed_ns, ended_ns)

    def end_cause(self, stream: int) -> str:
        """Returns how a stream ended, as a cause."""
        if self.by_client[stream]:
            return CLOSED
        if self.by_server[stream]:
            return ENDED_EARLY
        if self.are_finished[stream]:
            return FINISHED
        return way_of(self._context.by_number[self._context.streams[stream].connection])


def way_of(link: TcpConnection) -> str:
    """Returns how a connection was closed, as a cause."""
    return RESET if link.closed == "rst" else BY_CLIENT if link.closed_by == _CLIENT else BY_SERVER


def _asks_again(context: Context, ends: _Ends) -> BoolArray:
    """Returns a mask of streams from no higher seqno than the stream before, which had delivered
    items when it ended.
    """
    streams, before = context.streams, context.of_client.previous
    is_same = streams.connection == streams.connection[before]
    on_same = ends.by_client | ends.by_server | ends.are_finished
    on_another = ends.by_server | ends.with_connection
    # on another connection, it may be another job that begins where each begins
    mask: BoolArray = (
        ends.is_asked & (before >= 0) & np.where(is_same, on_same[before], on_another[before])
    )
    waited_ns = streams.opened.time - np.where(mask, ends.time_ns[before], 0)
    return (
        mask
        & (streams.request.start <= streams.request.start[before])
        & (waited_ns >= 0)
        & (waited_ns <= PAUSE_NS)
    )


def _loop(
    context: Context, ends: _Ends, in_order: InOrder, rounds: Sequence[int]
) -> Iterator[Occurrence]:
    """Yields the occurrence of these streams, each one round, if they are enough. ``in_order``: all
    of the client and vbucket.
    """
    if len(rounds) < LEAST_TIMES:
        return
    streams, last = context.streams, rounds[-1]
    starts = [plain(streams.request.start[number]) for number in rounds]
    times = streams.opened.time[rounds]
    items = in_order.repeated_since(rounds[0])
    since = "the same seqno" if len(set(starts)) == 1 else "no higher seqno"
    ways = Counter(ends.end_cause(number) for number in rounds[:-1])
    cause = ways.most_common(1)[0][0]
    is_over = in_order.goes_on_after(last, int(streams.request.start[rounds].max()))
    is_closed = bool(context.by_number[streams[last].connection].closed)
    spent = duration(int(times[-1] - times[0]))
    connects = len(set(streams.connection[rounds].tolist())) == len(rounds)
    done = "connected" if connects else "asked for"
    message = (
        f"{done} {len(rounds):,} times in {spent}, from {since} each time, {items:,} items "
        "sent again"
    )
    shown_streams = [last, *rounds[:-1][:MOST_ROUNDS]]
    loop = occurrence(
        context,
        last,
        "reconnect-loop",
        message,
        [context.request(number) for number in shown_streams],
        cause=cause,
        next_=_NEXT.get(cause),
        seqnos=(starts[-1],),
        shared=f"{done} again and again, from no higher seqno each time",
        facts={"requested start": starts[-1], "times": len(rounds), "items sent again": items},
        explains=rounds,
        is_over=None if is_over is False and not is_closed else is_over,
        severity="note" if set(ways) == {FINISHED} else "warning",
    )
    rows = streams.opened.row[rounds]
    connections = set(streams.connection[rounds].tolist())
    yield replace(loop, rows=rows[rows > 0], time_ns=int(times[0]), connections=connections)


RULE_SET = RuleSet(RULES, findings=findings)
