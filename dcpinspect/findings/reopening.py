"""Rules about how clients ask for a vbucket again: after a rollback, a refusal, a stream end, an
OSO snapshot that broke off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.cases import duration
from dcpinspect.findings.clients import REFUSED_FOR_NOW
from dcpinspect.findings.context import Context, occurrence, plain, reached, stopped_at
from dcpinspect.findings.finding import MessagePlace, Occurrence
from dcpinspect.findings.lost_streams import LostStream, LostStreams, ReopenedStreams
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.flags import FROM_LATEST, TAKEOVER, TO_AN_END
from dcpinspect.protocol.statuses import status_name
from dcpinspect.streams import words as w
from dcpinspect.streams.records import GREATEST, LEAST, UNREAD_SEQNO
from dcpinspect.streams.transitions import ACCEPTED, COMPLETE_OSO, ENDED, STREAMING
from dcpinspect.text import counted

RULES = rules(
    f"""
    rollback-not-followed stream error consumer
        fires: after a rollback, the consumer does not request the vbucket again for 2 s, ten times
            its usual time, or twice its longest, while it goes on with others
        unless: the consumer closed everything; another connection of the consumer asked, or asked
            for as much under another stream-id; another member of its group resumed there; the
            connection, or all its other streams, were closed at once, and the consumer asked for
            none of them since; consumers that may have given the vbucket to a member of their
            group, as for orphaned-vbucket; an answer that never arrived; capture loss that may hide
            the request
        next: restart the consumer, because until then the vbucket delivers nothing; it has to ask
            again from the rollback seqno
        reports: couchbase/java-dcp-client#10
        cost: stuck
        fields: start_seqno
    orphaned-vbucket stream error consumer
        fires: a stream ends, or is refused for now, and the consumer does not request the vbucket
            again for 2 s, ten times its usual time, or twice its longest. Meanwhile it reopens
            others that ended, or goes on with others if the vbucket did not move. If no cluster map
            tells where it moved to, nearly all others that moved must have come back; or half of
            them to the same node, at once and with the same history. After a refusal it is 30 s,
            unless the consumer asked again for others
        unless: streams that reached their requested end, that the consumer closed, or that ended
            because of missing collections or privileges; consumers that are gone; streams that are
            open on another connection, go on under another stream-id, or go on at another member of
            the consumer's group; connections that were closed at once, or whose other streams were,
            if the consumer asked for none of them since; ends that never arrived; vbuckets that
            moved, or may have moved, to a node whose connections are not in the capture; consumers
            that may have only some vbuckets of their nodes, and within 2 s gave up others or took
            new ones, because a member of their group may have it; capture loss that may hide the
            request
        next: restart the consumer, because until then the vbucket delivers nothing; it missed the
            stream end, after which it has to reopen the vbucket
        causes: ok {" ".join(w.END_REASONS[2:7])}
            {" ".join(status_name(status).replace("_", "-") for status in REFUSED_FOR_NOW)}
        reports: Trendyol/go-dcp#151, MB-70689, JDCP-239
        cost: stuck
        fields: start_seqno
    end-lost stream warning consumer
        fires: a consumer asks for a vbucket up to an end; before the stream comes there, it ends or
            is rolled back, and the consumer asks again without an end. It does so on the same
            connection, or goes on at the seqno where the stream stopped. It is a note unless the
            consumer asks for all other vbuckets of the connection up to an end
        unless: takeovers; vbuckets that the consumer did not first ask for up to an end; streams that reached
            their end, whose collections were all dropped, or that the consumer closed; capture
            loss that may hide either, or another request
        next: stop a job that waits for its end, because the stream never ends; the consumer has to
            ask again with the same end
        reports: Trendyol/go-dcp 997516d
        cost: vbucket, lost its end, lost their ends
        fields: start_seqno
    oso-resume-point stream error consumer
        fires: a stream broke off inside an OSO snapshot, and the consumer resumes above the seqno
            before that snapshot
        unless: requests from that seqno or below; capture loss that may hide the snapshot's end
        next: let the consumer read the vbucket again, because items may be missing; it has to resume
            where the snapshot began, because an unfinished OSO snapshot does not show which seqnos
            have come
        reports: MB-49779, GOCBC-1409
        cost: lost
    """
)

REFUSED_NS = 30_000_000_000
"""How long a client may wait after a refusal for now, if it did not ask again."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    context = finished.context
    if finished.is_whole:
        for client, losses in (*context.conduct.losses.items(), *context.conduct.refusals.items()):
            reopened = context.conduct.reopened(losses)
            for loss in losses.all:
                yield from _not_taken_up(context, client, (losses, reopened), loss)
    for numbers in context.of_client.having(context.streams.in_oso >= 0):
        for before, number in pairwise(numbers):
            yield from _out_of_order(context, before, number)
    request, answer = context.streams.request, context.streams.answer
    has_seqno = (request.is_captured != 0) & (request.flags & (TO_AN_END | TAKEOVER) == 0)
    is_finite = has_seqno & (request.end > request.start) & (request.end < GREATEST)
    is_endless = has_seqno & (request.end == GREATEST)
    is_answered = np.isin(answer, (w.A_ACCEPTED, w.A_ROLLBACK))
    for numbers in context.of_client.having(is_finite):
        answered_numbers = [number for number in numbers if is_answered[number]]
        if not is_finite[answered_numbers[:1]].all():
            continue  # the consumer wanted more at first
        for before, number in pairwise(answered_numbers):
            if is_finite[before] and is_endless[number] and answer[number] == w.A_ACCEPTED:
                yield from _without_end(context, before, number, is_finite)


def _not_taken_up(
    context: Context,
    client: str,
    losses_and_reopened: tuple[LostStreams, ReopenedStreams],
    loss: LostStream,
) -> Iterator[Occurrence]:
    """``losses_and_reopened``: the losses of the client, this one among them, and those after which
    it was granted a stream.
    """
    losses, reopened = losses_and_reopened
    if loss.reaction_ns is not None or context.conduct.may_have_asked(loss):
        return
    patience, stream = losses.patience_ns(loss.received_ns), context.streams[loss.stream]
    waited = _waited(context, client, losses, loss)
    if waited <= patience:
        return  # the client is gone, or was never told
    has_moved, is_refused = context.conduct.has_moved(losses, loss), stream.answer == w.A_REFUSED
    if loss.is_rollback:
        if not has_moved:
            yield _not_followed(context, loss.stream, duration(waited))
        return
    node, is_seen = (context.moves.moved_to(client, loss) if has_moved else None) or ("", None)
    if is_seen is False:
        return  # it may be reopened there
    may_tell = (
        not has_moved or is_seen or context.conduct.shows_moves(client, losses, stream.connection)
    )
    again = np.flatnonzero((reopened.vbucket != stream.vbucket) & may_tell)
    if not len(again) and (
        (has_moved and not is_seen) or not _goes_on(context, client, loss.received_ns + patience)
    ):
        return
    if not len(again) and is_refused and waited <= REFUSED_NS:
        return  # nobody knows how long the client waits before it asks again
    slowest = duration(int(reopened.reaction_ns[again].max(initial=0)))
    vbuckets = len(np.unique(reopened.vbucket[again]))
    comparison = (
        f"{counted(vbuckets, 'other vbucket')} {'was' if vbuckets == 1 else 'were'}, within {slowest}"
        if len(again)
        else "others go on"
    )
    first = [
        context.request(reopened.losses[turn_number].next) for turn_number in again[:1].tolist()
    ]
    if is_refused:
        how = f"{f'at {node}' if node else 'again'} in {duration(waited)} ({comparison})"
        yield _given_up(context, loss.stream, how, first, node)
    else:
        yield _forgotten(context, loss.stream, comparison, first)


def _waited(context: Context, client: str, losses: LostStreams, loss: LostStream) -> int:
    """Returns how long a client did not ask for what it lost; 0 where it may still be working on
    others.
    """
    connection = context.streams[loss.stream].connection
    until_ns = context.captured_until_ns(connection)
    since_others = until_ns - losses.last_reaction_ns(loss.received_ns)
    if since_others <= losses.patience_ns(loss.received_ns):
        return 0
    return context.carried_ns(
        context.by_number[connection],
        1 - context.producer(connection),
        loss.received_ns,
        min(until_ns, context.conduct.latest_ns(client)),
    )


def _not_followed(context: Context, stream: int, waited: str) -> Occurrence:
    """Returns the occurrence of a rollback after which the client did not ask again."""
    stream_record = context.streams[stream]
    to = plain(stream_record.rollback)
    where = "" if stream_record.rollback == UNREAD_SEQNO else f" to seqno {to}"
    return occurrence(
        context,
        stream,
        "rollback-not-followed",
        f"the rollback{where} was never followed ({waited})",
        (context.answer(stream), context.request(stream)),
        seqnos=(to,) if where else (),
        shared="rollbacks never followed",
        explains=(stream,),
        facts={
            "requested start": plain(stream_record.request.start),
            **({"rollback seqno": to} if where else {}),
            "waited": waited,
        },
    )


def _forgotten(
    context: Context, number: int, comparison: str, evidence: Sequence[MessagePlace | None]
) -> Occurrence:
    """Returns the occurrence of a stream that ended and was not reopened."""
    stream = context.streams[number]
    name, last = w.END_REASONS[stream.reason], reached(stream)
    return occurrence(
        context,
        number,
        "orphaned-vbucket",
        f'ended "{name}", never reopened ({comparison})',
        (context.stream_place(stream, stream.finished), context.request(number), *evidence),
        cause=name,
        seqnos=last,
        explains=[number],
        facts={"ended at seqno": last[0]} if last else {},
    )


def _given_up(
    context: Context, stream: int, how: str, evidence: Sequence[MessagePlace | None], node: str
) -> Occurrence:
    """Returns the occurrence of a refused request that was not sent again. ``node``: where the
    vbucket is, if that is told.
    """
    stream_record = context.streams[stream]
    name, start = status_name(stream_record.status), plain(stream_record.request.start)
    return occurrence(
        context,
        stream,
        "orphaned-vbucket",
        f"refused with {name}, never asked {how}",
        (context.answer(stream), context.request(stream), *evidence),
        cause=name.replace("_", "-"),
        next_=(
            "restart the consumer, because until then the vbucket delivers nothing; it has to ask "
            f"{node or 'again'} after {name}"
        ),
        seqnos=(start,),
        explains=_refused_before(context, stream),
        facts={"requested start": start},
    )


def _refused_before(context: Context, stream: int) -> list[int]:
    """Returns a refused request, and those before it that were refused one after the other."""
    refused, before = [stream], int(context.of_client.previous[stream])
    while before >= 0 and context.streams.answer[before] == w.A_REFUSED:
        refused.append(before)
        before = int(context.of_client.previous[before])
    return refused


def _goes_on(context: Context, client: str, time_ns: int) -> bool:
    """Returns whether other streams of a client are open then, on connections heard later."""
    groups = context.of_client
    newest = context.streams[groups.rows[groups.begins + groups.counts - 1]]
    is_open = (newest.state >= ACCEPTED) & (newest.state <= STREAMING)
    is_said = context.tracker.state.connections.time.array.max(axis=1) > time_ns
    return bool(
        (
            is_open
            & (context.names.of[newest.connection] == context.names.number(client))
            & is_said[newest.connection]
        ).any()
    )


def _out_of_order(context: Context, before: int, number: int) -> Iterator[Occurrence]:
    old, row = context.streams[before], context.streams[number]
    if old.in_oso < 0 or not row.request.is_captured or row.request.flags & FROM_LATEST:
        return
    snapshot = context.snapshots[old.in_oso]
    connection = old.connection
    producer = context.producer(connection)
    is_whole = not context.sight.has_lost(connection, producer, old.losses)
    if (
        snapshot.state == COMPLETE_OSO
        or snapshot.is_tainted
        or not snapshot.has_before
        or not is_whole
    ):
        return
    since = old.latest.time
    unseen = [
        candidate
        for candidate in context.consumers.may_be(connection)
        if candidate not in (connection, row.connection)
    ]
    if any(_received_unseen(context, candidate, since, row.opened.time) for candidate in unseen):
        return
    start, safe = plain(row.request.start), plain(snapshot.before)
    if start <= safe:
        return
    begun = context.marker(old.in_oso)
    evidence = (context.request(number), begun, context.stream_place(old, old.latest))
    message = f"resumed at {start} inside an unfinished OSO snapshot; only {safe} is safe"
    advice = (
        "let the consumer read the vbucket again, because items may be missing; it has to resume at "
        f"{safe}{' or below' if safe else ''}, because an unfinished OSO snapshot does not show "
        "which seqnos have come"
    )
    yield occurrence(
        context, number, "oso-resume-point", message, evidence, next_=advice, seqnos=(start, safe)
    )


_HAS_ALL = w.END_REASONS.index("ok"), w.END_REASONS.index("filter-empty")
"""Reasons of the end of a stream to which nothing more belongs."""


def _without_end(
    context: Context, before: int, number: int, is_finite: BoolArray
) -> Iterator[Occurrence]:
    """Yields the occurrence of an endless stream that goes on with one that had an end and did not
    reach it.

    ``is_finite``: a mask of streams with an end.
    """
    old, row = context.streams[before], context.streams[number]
    connection, asked_ns = old.connection, row.opened.time
    stopped = stopped_at(old)
    is_done = (
        old.closed_row >= 0
        or (old.state == ENDED and old.reason in _HAS_ALL)
        or stopped >= old.request.end
    )
    goes_on = connection == row.connection or (row.request.start == stopped and stopped > LEAST)
    is_hidden = context.sight.has_lost(connection, context.producer(connection), old.losses)
    if (
        is_done
        or not goes_on
        or is_hidden
        or context.conduct.may_have_said(connection, old.opened.time, asked_ns, vbucket=row.vbucket)
    ):
        return
    end, start = plain(old.request.end), plain(row.request.start)
    beyond = (
        f", and is at {plain(row.position)}"
        if row.has_position and row.position > old.request.end
        else ""
    )
    message = f"asked up to {end}, then again from {start} without an end{beyond}"
    evidence = (
        context.request(number),
        context.request(before),
        context.stream_place(old, old.finished),
    )
    yield occurrence(
        context,
        number,
        "end-lost",
        message,
        evidence,
        seqnos=(end, start),
        shared="asked again without the end that was asked for before",
        explains=(before,),
        facts={"requested end": end, "requested start": start},
        severity="warning" if _are_others_finite(context, number, is_finite) else "note",
    )


def _are_others_finite(context: Context, number: int, is_finite: BoolArray) -> bool:
    """Returns whether all other vbuckets of a stream's connection were first asked for up to an
    end, and there are some.
    """
    streams, stream = context.streams, context.streams[number]
    others = context.streams_of(stream.connection)
    is_other = streams.vbucket[others] != stream.vbucket
    others = others[is_other & (streams.request.is_captured[others] != 0)]
    first = others[np.unique(streams.vbucket[others], return_index=True)[1]]
    return bool(len(first) and is_finite[first].all())


def _received_unseen(context: Context, connection: int, since_ns: int, until_ns: int) -> bool:
    """Returns whether a client may have received more then than the capture shows."""
    link = context.by_number[connection]
    producer = context.producer(connection)
    is_missing = not context.sight.is_complete(connection, producer)
    return is_missing and link.first_ns <= until_ns and link.last_ns >= since_ns


RULE_SET = RuleSet(RULES, findings=findings)
