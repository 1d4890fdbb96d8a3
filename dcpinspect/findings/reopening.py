"""Rules about how clients ask for a vbucket again: after a rollback, after a stream end, after an OSO snapshot that broke off."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.clients import MOVED, Clients, Turn
from dcpinspect.findings.context import Context, occurrence, plain, reached
from dcpinspect.findings.costs import LOST, STUCK
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import words as w
from dcpinspect.streams.rows import UNREAD_SEQNO
from dcpinspect.streams.transitions import ACCEPTED, COMPLETE_OSO, STREAMING

RULES = (
    Rule(
        "rollback-not-followed",
        "stream",
        "error",
        "after a rollback, the client does not request the vbucket again for 2 s, or ten times its usual time, while "
        "it goes on with others",
        "the client closed everything; another connection of the client asked; capture loss that may hide the request",
        "ask again from the rollback seqno; until then, the vbucket delivers nothing",
        reports=("couchbase/java-dcp-client#10",),
        whose="client",
        cost=STUCK,
    ),
    Rule(
        "orphaned-vbucket",
        "stream",
        "error",
        "a stream ends, and the client does not request the vbucket again for 2 s, or ten times its usual time. "
        "Meanwhile it reopens others that ended, or goes on with others if the vbucket did not move. "
        "If no cluster map tells where it moved to, nearly all others that moved must have come back, or half of them on the same node",
        "streams that reached their requested end, that the client closed, or that ended because of missing "
        "collections or privileges; clients that are gone; streams that are open on another connection; vbuckets that moved, or may have "
        "moved, to a node whose connections are not in the capture; capture loss that may hide the request",
        "restart the client, or make it reopen the vbucket; it missed the stream end",
        w.END_REASONS[2:7],
        ("Trendyol/go-dcp#151",),
        whose="client",
        cost=STUCK,
    ),
    Rule(
        "oso-resume-point",
        "stream",
        "error",
        "a stream broke off inside an OSO snapshot, and the client resumes above the seqno before that snapshot",
        "requests from that seqno or below; capture loss that may hide the snapshot's end",
        "resume where the snapshot began; an unfinished OSO snapshot does not show which seqnos have come",
        reports=("MB-49779", "GOCBC-1409"),
        whose="client",
        cost=LOST,
    ),
)


def findings(finished: Finished) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    context = finished.context
    clients = Clients(context)
    if finished.is_whole:
        for client, turns in clients.turns.items():
            for turn in turns:
                yield from _not_taken_up(context, clients, client, turn)
    for numbers in context.of_client.having(context.streams.in_oso >= 0):
        for before, number in pairwise(numbers):
            yield from _out_of_order(context, clients, before, number)


def _not_taken_up(context: Context, clients: Clients, client: str, turn: Turn) -> Iterator[Occurrence]:
    if turn.reaction_ns is not None or clients.may_have_asked(turn):
        return
    patience = clients.patience_ns(client, turn.time_ns)
    waited = min(context.now_ns, clients.latest_ns(client)) - turn.time_ns
    since_others = context.now_ns - clients.last_reaction_ns(client, turn.time_ns)
    if waited <= patience or since_others <= patience:  # the client is gone, or may still be working on the others
        return
    row = context.streams[turn.stream]
    if turn.is_rollback:
        to, told = plain(row.rollback), (context.answer(turn.stream), context.request(turn.stream))
        where = "" if row.rollback == UNREAD_SEQNO else f" to {to}"
        message = f"rollback{where} never followed ({duration(waited / 1e9)})"
        yield occurrence(
            context,
            turn.stream,
            "rollback-not-followed",
            "error",
            message,
            told,
            seqnos=(to,) if where else (),
            shared="rollbacks never followed",
            explains=(turn.stream,),
            facts={"asked": plain(row.request.start), **({"told": to} if where else {}), "waited": duration(waited / 1e9)},
        )
        return
    reopened = clients.reopened[client]
    reason = int(row.reason)
    has_moved = reason == MOVED
    is_seen = clients.sees_move(client, turn) if has_moved else None
    if is_seen is False:
        return  # it may be reopened there
    may_tell = not has_moved or is_seen or clients.shows_moves(client, int(row.connection))
    others = np.flatnonzero((reopened.vbucket != row.vbucket) & may_tell)
    if not len(others) and ((has_moved and not is_seen) or not _goes_on(context, client, turn.time_ns + patience)):
        return
    name = w.END_REASONS[reason]
    slowest = duration(int(reopened.reaction_ns[others].max(initial=0)) / 1e9)
    were = "others were" if len(others) > 1 else "other was"
    those = f"{len(others)} {were}, in {slowest} or less" if len(others) else "others go on"
    message = f'ended "{name}", never reopened ({those})'
    last = reached(row)
    again = [context.request(reopened.turns[one].next) for one in others[:1].tolist()]
    places = (context.place(row, row.finished), context.request(turn.stream), *again)
    facts: dict[str, int | str] = {"ended at": last[0]} if last else {}
    told_of = [turn.stream]
    yield occurrence(
        context, turn.stream, "orphaned-vbucket", "error", message, places, cause=name, seqnos=last, explains=told_of, facts=facts
    )


def _goes_on(context: Context, client: str, time_ns: int) -> bool:
    """Returns whether other streams of a client are open at a time, on connections that say something later."""
    groups = context.of_client
    newest = context.streams[groups.rows[groups.begins + groups.counts - 1]]
    is_open = (newest.state >= ACCEPTED) & (newest.state <= STREAMING)
    is_said = context.tracker.state.connections.time.array.max(axis=1) > time_ns
    return bool((is_open & (context.names.of[newest.connection] == context.names.number(client)) & is_said[newest.connection]).any())


def _out_of_order(context: Context, clients: Clients, before: int, number: int) -> Iterator[Occurrence]:
    old, row = context.streams[before], context.streams[number]
    if old.in_oso < 0 or not row.request.form or int(row.request.flags) & FROM_LATEST:
        return
    snapshot = context.snapshots[int(old.in_oso)]
    connection = int(old.connection)
    producer = context.producer(connection)
    is_whole = not context.sight.has_lost(connection, producer, old.losses)
    if snapshot.state == COMPLETE_OSO or snapshot.is_tainted or not snapshot.has_before or not is_whole:
        return
    since = int(old.latest.time)
    unseen = [one for one in clients.may_be(connection) if one not in (connection, int(row.connection))]
    if any(_received_unseen(context, one, since, int(row.opened.time)) for one in unseen):
        return
    start, safe = plain(row.request.start), plain(snapshot.before)
    if start <= safe:
        return
    begun = context.marker(int(old.in_oso))
    places = (context.request(number), begun, context.place(old, old.latest))
    message = f"resumed at {start} inside an unfinished OSO snapshot; only {safe} is safe"
    advice = f"resume at {safe}{' or below' if safe else ''}; an unfinished OSO snapshot does not show which seqnos have come"
    yield occurrence(context, number, "oso-resume-point", "error", message, places, next_=advice, seqnos=(start, safe))


def _received_unseen(context: Context, connection: int, since_ns: int, until_ns: int) -> bool:
    """Returns whether a client may have received more on a connection in that time than the capture shows."""
    link = context.by_number[connection]
    producer = context.producer(connection)
    is_missing = not context.sight.is_complete(connection, producer)
    return is_missing and link.first_ns <= until_ns and link.last_ns >= since_ns


RULE_SET = RuleSet(RULES, findings=findings)
