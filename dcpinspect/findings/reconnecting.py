"""Clients that connect again and again, and each time begin where they had begun before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.costs import Cost
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.history import MOST_ROUNDS, InOrder
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.protocol.columns import Mask
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import words as w
from dcpinspect.streams.rows import GREATEST
from dcpinspect.streams.transitions import ACCEPTED, STREAMING

LEAST_TIMES = 5
"""Number of connections that make a loop: a client may fail twice for reasons of its own."""
PAUSE_NS = 60_000_000_000
"""Greatest time between the end of a connection and the next request, for "again and again"."""
_CLIENT = 0

RULES = (
    Rule(
        "reconnect-loop",
        "stream",
        "warning",
        "a client connects five times or more, one connection after the other. Each is closed while a stream runs that has "
        "delivered items, and the next one asks for the vbucket from no higher seqno, within a minute",
        "streams that end, or deliver nothing; a rollback in between; requests from the latest seqno",
        "look in the client's log for what it did last on a connection, and let it store checkpoints",
        ("by-client", "by-server", "reset"),
        whose={"by-client": "client", "by-server": "server", "reset": "unknown"},
        cost=Cost("client", "connects again and again", "connect again and again", lasts=True),
    ),
)


_SERVER_CLOSES = "read what came last on a connection, and the server's log for why it closes them; let the client store checkpoints"
"""What to do where it is the server that closes."""


def findings(finished: Finished) -> Iterator[Occurrence]:
    """Yields all occurrences, client by client and vbucket by vbucket."""
    context = finished.context
    again = _asks_again(context)
    for numbers in context.of_client.having(again, LEAST_TIMES - 1):
        in_order, rounds = InOrder(context, numbers), numbers[:1]
        for number in numbers[1:]:
            if not again[number]:
                yield from _loop(context, in_order, rounds)
                rounds = []
            rounds.append(number)
        yield from _loop(context, in_order, rounds)


def _asks_again(context: Context) -> Mask:
    """Returns a mask of streams from no higher seqno than the stream before, which had delivered items when its connection was closed."""
    streams = context.streams
    closed_ns = np.full(len(context.tracker.state.connections), GREATEST, dtype=np.int64)
    for number, link in context.by_number.items():
        if link.closed in ("fin", "rst"):
            closed_ns[number] = link.closed_ns
    ended_ns = closed_ns[streams.connection]
    is_asked = (streams.answer == w.A_ACCEPTED) & (streams.request.form > 0) & (streams.request.flags & FROM_LATEST == 0)
    runs = is_asked & (streams.items > 0) & (streams.state >= ACCEPTED) & (streams.state <= STREAMING) & (ended_ns < GREATEST)
    before = context.of_client.previous
    found: Mask = is_asked & (before >= 0) & runs[before] & (streams.connection != streams.connection[before])
    waited_ns = streams.opened.time - np.where(found, ended_ns[before], 0)
    return found & (streams.request.start <= streams.request.start[before]) & (waited_ns >= 0) & (waited_ns <= PAUSE_NS)


def _loop(context: Context, in_order: InOrder, rounds: Sequence[int]) -> Iterator[Occurrence]:
    """Yields the occurrence of these streams, one for each connection, if they are enough. ``in_order``: all of the client and vbucket."""
    if len(rounds) < LEAST_TIMES:
        return
    streams, last = context.streams, rounds[-1]
    starts = [plain(streams.request.start[number]) for number in rounds]
    times = streams.opened.time[rounds]
    items = in_order.repeated_since(rounds[0])
    since = "the same seqno" if len(set(starts)) == 1 else "no higher seqno"
    links = [context.by_number[int(streams.connection[number])] for number in rounds]
    ways = Counter("reset" if one.closed == "rst" else "by-client" if one.closed_by == _CLIENT else "by-server" for one in links[:-1])
    cause = ways.most_common(1)[0][0]
    is_over = in_order.goes_on_after(last, int(streams.request.start[rounds].max()))
    spent = duration(int(times[-1] - times[0]) / 1e9)
    message = f"connected {len(rounds):,} times in {spent}, from {since} each time, {items:,} items sent again"
    shown = [last, *rounds[:-1][:MOST_ROUNDS]]
    found = occurrence(
        context,
        last,
        "reconnect-loop",
        "warning",
        message,
        [context.request(number) for number in shown],
        cause=cause,
        next_=_SERVER_CLOSES if cause == "by-server" else None,
        seqnos=(starts[-1],),
        shared="connected again and again, from no higher seqno each time",
        facts={"asked": starts[-1], "times": len(rounds), "items sent again": items},
        is_over=None if is_over is False and not links[-1].closed else is_over,
    )
    rows = streams.opened.row[rounds]
    yield replace(found, rows=rows[rows > 0], time_ns=int(times[0]))


RULE_SET = RuleSet(RULES, findings=findings)
