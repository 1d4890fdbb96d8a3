"""Rules about the branch of history that clients name: repeated rollbacks, the wrong entry of the
log, no entry at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise, zip_longest
from operator import attrgetter

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.cases import duration
from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import Occurrence, captured
from dcpinspect.findings.heaps import SHOWN
from dcpinspect.findings.positions import WRONG_UUIDS, wrong_position
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import CACHE_TRANSFER, FROM_LATEST
from dcpinspect.protocol.message import Severity
from dcpinspect.streams import words as w
from dcpinspect.streams.failover_logs import KnownLog, branch_ends
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.records import LEAST, UNREAD_SEQNO, Stream
from dcpinspect.streams.rollback import predicted_rollback
from dcpinspect.streams.rollbacks import requested_range
from dcpinspect.streams.transitions import ENDED, STREAMING

MOST_ROUNDS = 8
"""Number of rounds of a loop whose messages are named, besides the last one."""
_MASK = 2**64 - 1
_END_ROLLBACK = 6

RULES = rules(
    f"""
    rollback-loop stream error consumer
        fires: a consumer is rolled back to the same seqno again, after an accepted stream or with
            the same request; or three times in a row to a seqno that is not lower; or its stream
            ends twice with reason rollback, and it does not ask from a higher seqno in between
        unless: a chain of rollbacks, each to a lower seqno; a producer whose history has changed in
            between; two rollbacks, after which the consumer comes beyond where it had been
        next: stop or update the consumer, because each round sends everything again; it has to use
            the request that 'dcpinspect rollbacks' shows
        causes: purge uuid stream-end repeated
        reports: couchbase/sync_gateway#6170, MB-27604, MB-27800, MB-56084
        of_each: yes
        cost: client, loops, loop, lasts
        fields: start_seqno
    wrong-failover-entry stream warning consumer
        fires: a consumer is rolled back twice; the second request has a uuid that is not the newest
            branch at or below its start in the consumer's failover log
        unless: first requests, which have the branch of their data; consumers that have no failover
            log yet
        next: report the consumer's version to its author; it has to take the newest entry of the
            failover log whose seqno is at or below the start
        causes: not-in-log older-branch
        reports: couchbase/sync_gateway#6170, GOCBC-1401
        cost: vbucket, was asked for on the wrong branch, were asked for on the wrong branch
        silences: unknown-vbucket-uuid
    unknown-vbucket-uuid stream warning
        fires: a consumer is rolled back to 0, and its uuid is in no failover log of the capture; a
            note if the consumer went on, and was sent no log of the vbucket before, because its
            uuid may be older than the capture
        unless: uuid 0; no failover log of the vbucket is in the capture; consumers that already
            have a failover log; consumers of which something was not captured; no vbucket of the
            connection has a common history; replicas, which try every uuid of their own log
        next: find out whether the checkpoint is from another bucket, or from a branch that the
            producer has lost; the consumer has to start again from 0
        causes: {" ".join(WRONG_UUIDS)}
        reports: couchbase-kafka-connector#6, Trendyol/go-dcp#128
        whose: consumer for {" ".join(WRONG_UUIDS)}
        cost: vbucket, was asked for with an unknown uuid, were asked for with an unknown uuid
        fields: vbucket_uuid
    no-common-history stream warning unknown
        fires: all requests of a connection that resume, for two vbuckets or more, are rolled back
            to 0, and no later failover log has their uuids
        unless: one of them is accepted, or rolled back to another seqno; no failover log comes
            later
        next: find out whether the bucket was created again, was flushed, or is in another cluster;
            the client has to start again from 0
        reports: couchbase/sync_gateway#1198, couchbase/sync_gateway#1104
        cost: vbucket, has no common history, have no common history
        silences: unknown-vbucket-uuid
    wrong-rollback stream error producer
        fires: a producer accepts a request although its failover log, which is in the answer, does
            not have the uuid, or has that branch only up to a lower seqno; or it answers a request
            from 0, which is not strict about the uuid, with a rollback
        unless: accepted requests from 0, from the latest seqno, or without a uuid
        next: report the producer's version to its maker; a client can only ask again
        causes: missing from-0
        cost: vbucket, has a wrong answer to a stream request, have wrong answers to stream requests
        fields: vbucket_uuid start_seqno
    """
)

_STARTED_AGAIN = (
    "find out whether the checkpoint is from another bucket, or from a branch that the producer "
    "has lost; the consumer starts again from 0"
)
"""What to do about an unknown uuid where the client may go on by itself."""
ADVICE = {
    "purge": (
        "set a longer purge interval for the bucket, or start from 0; a consumer can set "
        "max_marker_version to 2.2 and resume with the purge seqno, or ask with "
        "ignore-purged-tombstones"
    ),
    "from-zero": (
        "find out why no stream from 0 comes to its end, as where the connection is closed each "
        "time; a longer purge interval of the bucket lets the consumer resume; it can set "
        "max_marker_version to 2.2 and resume with the purge seqno, or ask with "
        "ignore-purged-tombstones"
    ),
    "uuid": (
        "stop or update the consumer; it has to take the uuid of the newest entry of the failover "
        "log at or below the start"
    ),
    "stream-end": (
        "use a consumer that knows collections; it has to negotiate them in HELLO, because "
        "without them the producer cannot stream the vbucket"
    ),
    "repeated": (
        "stop or update the consumer; it has to discard what is above the rollback seqno before it "
        "asks again, from there"
    ),
}


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, client by client."""
    context = finished.context
    yield from _wrong_rollbacks(context)
    are_rolled_back, ended = _are_rollbacks(context), _ended_for_rollback(context)
    for numbers in context.of_client.having(are_rolled_back | ended, 2):
        yield from _all_loops(context, numbers, are_rolled_back, ended)
    no_common = list(_no_common_history(context))
    explained = {number for _, numbers in no_common for number in numbers}
    yield from (occurrence_of for occurrence_of, _ in no_common)
    for numbers in context.of_client.having(are_rolled_back):
        for index, number in enumerate(numbers):
            if not are_rolled_back[number]:
                continue
            before = numbers[index - 1] if index else -1
            wrong = (
                _wrong_entry(context, number, before)
                if before >= 0 and are_rolled_back[before]
                else None
            )
            if wrong is not None:
                yield wrong
            elif number not in explained:
                yield from _unknown_uuid(context, number)


def loops(context: Context) -> Iterator[Sequence[int]]:
    """Yields the stream requests of each rollback-loop."""
    are_rollbacks = _are_rollbacks(context)
    for numbers in context.of_client.having(are_rollbacks, 2):
        yield from _loops(
            context,
            InOrder(context, numbers),
            [number for number in numbers if are_rollbacks[number]],
        )


def _all_loops(
    context: Context, numbers: Sequence[int], are_rollbacks: BoolArray, are_ended: BoolArray
) -> Iterator[Occurrence]:
    """Yields the loops of one client and vbucket."""
    rolled_back = [number for number in numbers if are_rollbacks[number]]
    ended = [number for number in numbers if are_ended[number]]
    if len(rolled_back) > 1 or len(ended) > 1:
        in_order = InOrder(context, numbers)
        several = list(_loops(context, in_order, rolled_back))
        for rounds, then in zip_longest(several, several[1:]):
            yield _of_loop(context, in_order, rounds, then[0] if then else None)
        start = context.streams.request.start
        runs = _runs(ended, lambda before, number: bool(start[number] <= start[before]))
        for rounds, then in zip_longest(runs, runs[1:]):
            if len(rounds) > 1:
                yield _end_loop(context, in_order, rounds, then[0] if then else None)


def _are_rollbacks(context: Context) -> BoolArray:
    mask: BoolArray = context.rolled_back & (context.streams.rollback != UNREAD_SEQNO)
    return mask


def _ended_for_rollback(context: Context) -> BoolArray:
    streams = context.streams
    mask: BoolArray = (
        (streams.state == ENDED)
        & (streams.reason == _END_ROLLBACK)
        & (streams.request.is_captured != 0)
    )
    return mask


def _knows_history(context: Context, number: int, log: KnownLog) -> bool:
    """Returns whether a log that was told before a stream's answer has the branches of a log."""
    logs, answered = context.logs.stream_logs(number), context.streams[number].answered
    before = logs[: logs.count_before(answered.time, answered.row)]
    return bool(before) and before[-1].entries[:1] == log.entries[:1]


def _wrong_entry(context: Context, number: int, previous: int) -> Occurrence | None:
    """Returns an occurrence if a request names the wrong entry. ``previous``: the client's stream
    before, which was rolled back.
    """
    stream = context.streams[number]
    uuid, start = stream.request.uuid & _MASK, plain(stream.request.start)
    if not uuid or stream.request.start > context.streams.rollback[previous]:
        return None
    bucket = context.logs.origins[stream.connection][1]
    request_place = int(stream.opened.time), int(stream.opened.row)
    sent = context.sent(number)
    sent_before = sent.count_before(*request_place, side="left")
    log = next(
        (
            sent[log_index]
            for log_index in range(sent_before - 1, -1, -1)
            if context.logs.origins[sent[log_index].connection][1] == bucket
        ),
        None,
    )
    right = log.newest_below(start) if log is not None else None
    of_server = context.rollbacks.stream_rollback(previous).log
    if log is None or right in (None, uuid):
        return None
    if of_server is not None and of_server.newest_below(start) != right:
        return None  # the consumer's log is older, and 'rollbacks' names another uuid
    before = context.streams[previous]
    is_same = before.request.uuid == stream.request.uuid
    if is_same and plain(before.rollback) > branch_ends(log.entries).get(uuid, _MASK):
        return None  # the server rolled it back to where its branch never was
    told_ns = log.at.time_ns
    is_heard = context.conduct.may_have_heard(log.connection, told_ns, request_place[0])
    if is_heard or context.conduct.may_have_said(
        log.connection, told_ns, request_place[0], vbucket=stream.vbucket
    ):
        return None  # another log, or the request is missing that tells whose log it is
    message = (
        f"used uuid 0x{uuid:016x}; the log of row {log.at.row} gives 0x{right:016x} for {start}"
    )
    return occurrence(
        context,
        number,
        "wrong-failover-entry",
        message,
        (
            context.request(number),
            context.log_place(log),
            context.answer(number),
            context.answer(previous),
        ),
        cause="older-branch" if log.has(uuid) else "not-in-log",
        next_=(
            f"report the consumer's version to its author; it has to ask from {start} with uuid "
            f"0x{right:016x}, the newest entry of the failover log at or below the start"
        ),
        seqnos=(start,),
        shared="used uuids that the failover log does not have for their start",
    )


def _wrong_rollbacks(context: Context) -> Iterator[Occurrence]:
    streams, request = context.streams, context.streams.request
    is_range = (request.is_captured != 0) & (request.flags & (FROM_LATEST | CACHE_TRANSFER) == 0)
    resumes = is_range & (request.start > LEAST) & (request.uuid != 0) & (streams.log >= 0)
    from_0 = (streams.answer == w.A_ROLLBACK) & ~context.rolled_back & is_range
    for number in np.flatnonzero(from_0 | (resumes & (streams.answer == w.A_ACCEPTED))).tolist():
        stream, asked = streams[number], requested_range(streams[number])
        if asked is None or any(
            context.may_lack(stream.connection, side, stream.opened.time, stream.answered.time)
            for side in (0, 1)
        ):
            continue  # where something is missing, the answer may be that of another request
        entries, advice = context.logs.entries(stream.log), None
        cause, message, seqnos = "from-0", "asked for seqno 0, rolled back", [0]
        if not from_0[number]:
            if not entries or asked.uuid == entries[0][0]:
                continue
            expected = predicted_rollback(asked, entries, high=None)
            if expected is None:
                continue
            end = branch_ends(entries).get(asked.uuid)
            why = (
                "which its own log does not have" if end is None else f"whose branch ended at {end}"
            )
            cause, seqnos = "missing", [asked.start, expected[0]]
            message = (
                f"accepted from {asked.start} with uuid 0x{asked.uuid:016x}, {why}: it had to roll "
                f"back to {expected[0]}"
            )
            advice = (
                f"let the consumer discard what is above {expected[0]}, and ask again from there, "
                "because these items are not the producer's; report the producer's version to its maker"
            )
        yield occurrence(
            context,
            number,
            "wrong-rollback",
            message,
            (context.request(number), context.answer(number)),
            cause=cause,
            next_=advice,
            seqnos=tuple(seqnos),
            shared="accepted where they had to roll back" if cause == "missing" else None,
        )


def _unknown_uuid(context: Context, number: int) -> Iterator[Occurrence]:
    stream = context.streams[number]
    uuid = stream.request.uuid & _MASK
    if plain(stream.rollback) or not uuid or context.logs.names(stream.vbucket, uuid):
        return
    if context.producer(stream.connection) == 0:
        return  # the consumer is a node, which keeps a log of its own
    logs = context.logs.stream_logs(number)
    if (
        not logs
        or not logs.are_whole
        or not context.sent(number).are_whole
        or not context.conduct.is_whole(stream.connection, stream.answered.time)
    ):
        return  # a log that was not captured may name it
    log = context.logs.nearest(number) or logs[-1]
    # without a log that told the client better, the uuid may be right, and older than the capture:
    # a failover may have lost its branch
    is_older = not context.sent(number).count_before(
        int(stream.opened.time), int(stream.opened.row), side="left"
    )
    severity: Severity = (
        "note" if is_older and context.conduct.may_be_granted_after(number) else "warning"
    )
    entries = ", ".join(
        f"0x{entry_uuid:016x} from {seqno}" for entry_uuid, seqno in log.entries[:SHOWN]
    )
    more = ", …" if len(log.entries) > SHOWN else ""
    message = f"uuid 0x{uuid:016x} is unknown to the producer (log: {entries}{more})"
    evidence = (context.request(number), context.answer(number), context.log_place(log))
    start = plain(stream.request.start)
    facts: dict[str, int | str] = {"requested start": start, "uuid": f"0x{uuid:016x}"}
    wrong = wrong_position(context, number, "unknown-uuid")
    shared = "uuids are unknown to the producer"
    message, shared = (
        (message, shared)
        if wrong is None
        else (f"{message}; {wrong.text}", f"{shared}; {wrong.shared}")
    )
    yield occurrence(
        context,
        number,
        "unknown-vbucket-uuid",
        context.by_side(number, message),
        evidence,
        cause=wrong.cause if wrong is not None else None,
        seqnos=(start,),
        shared=context.by_side(number, shared),
        facts=facts,
        explains=(number,),
        next_=_STARTED_AGAIN if severity == "note" else None,
        severity=severity,
    )


def _no_common_history(context: Context) -> Iterator[tuple[Occurrence, list[int]]]:
    """Yields occurrences, each with the requests that it is about."""
    streams = context.streams
    goes_on = (
        (streams.request.is_captured != 0)
        & (streams.request.uuid != 0)
        & (streams.request.start > LEAST)
    )
    are_rollbacks = _are_rollbacks(context)
    for numbers in Groups([streams.connection], np.flatnonzero(goes_on)).having(are_rollbacks, 2):
        connection = streams[numbers[0]].connection
        rolled = [number for number in numbers if are_rollbacks[number]]
        vbuckets = sorted({streams[number].vbucket for number in rolled})
        if connection not in context.clients or len(vbuckets) < 2 or context.granted[numbers].any():
            continue
        if any(plain(streams.rollback[number]) for number in rolled):
            continue
        later = {number: context.logs.after(number) for number in rolled}
        with_log = [number for number in rolled if later[number]]
        if len({streams[number].vbucket for number in with_log}) < 2:
            continue  # one log alone may be that of a vbucket with a wrong uuid
        if not all(later[number].are_whole for number in with_log):
            continue
        if any(_knows_history(context, number, later[number][0]) for number in with_log):
            continue  # the same history as before, so these uuids are wrong
        if any(
            context.logs.names_after(number, streams[number].request.uuid & _MASK)
            for number in with_log
        ):
            continue
        times = [streams[number].answered.time for number in rolled]
        message = (
            f"{len(vbuckets):,} vbuckets rolled back to 0 in "
            f"{duration(max(times) - min(times))}: no uuid in common"
        )
        candidate_places = [
            message_place
            for number in rolled[:SHOWN]
            for message_place in (context.request(number), context.answer(number))
        ]
        candidate_places.append(context.log_place(later[with_log[0]][0]))
        yield (
            Occurrence(
                "no-common-history",
                message,
                connection,
                captured(candidate_places),
                vbuckets=tuple(vbuckets),
                seqnos=(0,),
                last_time_ns=max(times),
                rows=_rows(streams.opened.row[rolled], streams.answered.row[rolled]),
            ),
            rolled,
        )


def _rows(*rows: RowNumbers) -> RowNumbers:
    """Returns all rows that are known, in one array."""
    all_rows = np.concatenate(rows)
    return all_rows[all_rows > 0]


class InOrder:
    """The streams of one client and vbucket, in the order of their opening."""

    def __init__(self, context: Context, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.places: Mapping[int, int] = {number: index for index, number in enumerate(numbers)}
        self._context = context
        self._rows = context.streams[np.array(numbers, dtype=np.int64)]

    def between(self, before: int, number: int) -> Sequence[int]:
        """Returns the streams after ``before`` and before ``number``."""
        return self.numbers[self.places[before] + 1 : self.places[number]]

    @cached_property
    def _histories(self) -> list[slice]:
        """The streams of each history: a failover log that has no branch of the one before begins
        another, as where a bucket was created again.
        """
        begins, uuids, latest = [0], set[int](), -1
        for index, log in enumerate(self._rows.log.tolist()):
            if log < 0 or log == latest:
                continue
            if own := {uuid for uuid, _ in self._context.logs.entries(log)}:
                if uuids and uuids.isdisjoint(own):
                    begins.append(index)
                uuids, latest = own, log
        return list(map(slice, begins, [*begins[1:], len(self.numbers)]))

    @cached_property
    def _repeated(self) -> RowNumbers:
        """How many items came again on each stream and all later ones, although the client already
        had items of the same history that far.
        """
        rows = self._rows
        high, most = (
            np.concatenate([_before(seen[of_history]) for of_history in self._histories])
            for values in (rows.last, rows.items)
            for seen in [np.where(rows.seen > 0, values, LEAST)]
        )
        is_again = (rows.seen > 0) & (high > rows.request.start)
        # more than 63 bits may be needed
        had = high.view(np.uint64) - rows.request.start.view(np.uint64)
        count = np.minimum(np.minimum(rows.items, most).astype(np.uint64), had).astype(np.int64)
        return _onward(np.add, np.where(is_again, count, 0))

    def repeated_since(self, number: int) -> int:
        """Returns how many items streams after a stream delivered although the client already had
        items that far.
        """
        index = self.places[number] + 1
        return int(self._repeated[index]) if index < len(self.numbers) else 0

    @cached_property
    def _goes_on(self) -> tuple[RowNumbers, RowNumbers]:
        """Of each stream and all later ones: the highest start from which one was accepted, and
        whether one still runs.
        """
        rows, by_number = self._rows, self._context.by_number
        is_accepted = self._context.granted[np.array(self.numbers, dtype=np.int64)]
        start = np.where(is_accepted & (rows.request.is_captured != 0), rows.request.start, LEAST)
        runs = is_accepted & (rows.state <= STREAMING)
        runs[runs] = [
            not by_number[connection].closed for connection in rows.connection[runs].tolist()
        ]
        return _onward(np.maximum, start), _onward(np.maximum, runs.astype(np.int64))

    def goes_on_after(self, number: int, seqno: int) -> bool | None:
        """Returns whether a stream after a stream was accepted from above a seqno; None if none
        was, but one still runs.
        """
        index = self.places[number] + 1
        if index == len(self.numbers):
            return False
        start, runs = self._goes_on
        if start[index] > seqno:
            return True
        return None if runs[index] else False

    def comes_beyond(self, number: int, seqno: int) -> bool:
        """Returns whether a stream after a stream came to above a seqno: who asked twice for what
        it had stored before, as after two crashes, goes on.
        """
        streams = self._context.streams
        later = np.array(self.numbers[self.places[number] + 1 :], dtype=np.int64)
        return bool(((streams.has_position[later] != 0) & (streams.position[later] > seqno)).any())

    def explained(
        self, context: Context, rounds: Sequence[int], to: int, until: int | None
    ) -> list[int]:
        """Returns the streams of a loop that led to a seqno, which is biased: its rounds, the
        requests denied between them, later rollbacks as far down, and later refusals that passed.

        ``until``: the stream before which the loop is over at the latest; None if it may go on
        until the end.
        """
        streams, between = context.streams, self.between(rounds[0], rounds[-1])
        later = self.numbers[
            self.places[rounds[-1]] + 1 : len(self.numbers) if until is None else self.places[until]
        ]
        denied = [
            candidate
            for candidate in between
            if streams.answer[candidate] in (w.A_ROLLBACK, w.A_REFUSED)
        ]
        granted = max(
            (n for n, candidate in enumerate(later) if context.granted[candidate]), default=0
        )
        return [
            *rounds,
            *denied,
            *(
                candidate
                for candidate in later
                if streams.answer[candidate] == w.A_ROLLBACK and streams.rollback[candidate] <= to
            ),
            *(
                candidate
                for candidate in later[:granted]
                if streams.answer[candidate] == w.A_REFUSED
            ),
        ]


def _loops(context: Context, in_order: InOrder, rolled: Sequence[int]) -> Iterator[Sequence[int]]:
    for rounds in _runs(rolled, partial(_is_again, context, in_order)):
        if _is_loop(context, in_order, rounds):
            yield rounds


def _runs(numbers: Sequence[int], goes_on: Callable[[int, int], bool]) -> list[list[int]]:
    """Returns numbers in runs: ``goes_on`` says of two whether the second belongs to the first."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and goes_on(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _is_again(context: Context, in_order: InOrder, before: int, number: int) -> bool:
    """Returns whether a rollback may be another round after the one before.

    Its seqno must be no lower, and equal if a stream was accepted in between.
    """
    old, new = (context.streams[stream_number].rollback for stream_number in (before, number))
    is_no_lower = new == old or (new > old and not _was_accepted(context, in_order, before, number))
    return is_no_lower and not _is_other_history(context, before, number)


def _was_accepted(context: Context, in_order: InOrder, before: int, number: int) -> bool:
    return any(context.granted[stream_number] for stream_number in in_order.between(before, number))


def _is_other_history(context: Context, before: int, number: int) -> bool:
    """Returns whether the server's newest branch had changed by the second of two requests."""
    old, new = context.logs.nearest(before), context.logs.nearest(number)
    return old is not None and new is not None and old.entries[:1] != new.entries[:1]


def _request_key(stream: Stream) -> tuple[int, ...]:
    request = stream.request
    return request.start, request.uuid, request.snapshot_start, request.snapshot_end, request.flags


def _are_of_many(context: Context, rounds: Sequence[int]) -> bool:
    """Returns whether each of these requests may be of another consumer: no DCP name comes twice,
    and connections are there at the same time, for too short a time to tell their names apart.
    """
    connections = context.streams.connection[list(rounds)].tolist()
    links = sorted(map(context.by_number.__getitem__, connections), key=attrgetter("first_ns"))
    is_beside = any(link.heard_until_ns > later.first_ns for link, later in pairwise(links))
    names = {context.owners[number].dcp_name for number in connections}
    return is_beside and len(names) == len(rounds)


def _is_loop(context: Context, in_order: InOrder, rounds: Sequence[int]) -> bool:
    if len(rounds) < 2 or _are_of_many(context, rounds):
        return False
    if len(rounds) > 2:
        return True
    streams = context.streams
    first, second = (streams[number] for number in rounds)
    is_same = _request_key(first) == _request_key(second)
    return (
        bool(first.rollback == second.rollback)
        and (is_same or _was_accepted(context, in_order, rounds[0], rounds[1]))
        and not in_order.comes_beyond(rounds[1], max(first.request.start, second.request.start))
    )


def _of_loop(
    context: Context, in_order: InOrder, rounds: Sequence[int], then: int | None
) -> Occurrence:
    """Returns the occurrence of a loop. ``then``: the next one's first round; None for none."""
    last = rounds[-1]
    rollback, to = context.rollbacks.stream_rollback(last), plain(context.streams.rollback[last])
    request = rollback.asked
    assert request is not None  # a loop is made of requests that were captured
    right_uuid = rollback.resume_uuid
    is_wrong = right_uuid is not None and request.start <= to and request.uuid != right_uuid
    cause = (
        "purge"
        if rollback.why.cause == "purge"
        else "uuid"
        if rollback.why.cause in ("unknown-uuid", "no-uuid") or is_wrong
        else "repeated"
    )
    times = [context.streams[number].answered.time for number in rounds]
    again = in_order.repeated_since(rounds[0])
    is_over = _is_over(context, in_order, rounds)
    right = f"; for {to}, 0x{right_uuid:016x}" if cause == "uuid" and right_uuid is not None else ""
    message = (
        f"rolled back {len(rounds)} times to {to} in "
        f"{duration(times[-1] - times[0])}, {again:,} items sent again"
    )
    shown_streams = [last, *rounds[:-1][:MOST_ROUNDS]]
    candidate_places = [
        message_place
        for number in shown_streams
        for message_place in (context.request(number), context.answer(number))
    ]
    loop = occurrence(
        context,
        last,
        "rollback-loop",
        message,
        candidate_places,
        cause=cause,
        next_=f"{ADVICE['from-zero' if cause == 'purge' and not to and again else cause]}{right}",
        seqnos=(to,),
        shared="rolled back again and again to the same seqno",
        facts={
            "requested start": request.start,
            "rollback seqno": to,
            "times": len(rounds),
            "items sent again": again,
        },
        is_over=is_over,
        explains=in_order.explained(
            context, rounds, context.streams[last].rollback, last if is_over else then
        ),
    )
    rows = _rows(context.streams.opened.row[rounds], context.streams.answered.row[rounds])
    connections = set(context.streams.connection[rounds].tolist())
    return replace(loop, rows=rows, time_ns=times[0], connections=connections)


def _end_loop(
    context: Context, in_order: InOrder, rounds: Sequence[int], then: int | None
) -> Occurrence:
    """Returns the occurrence of streams that end for a rollback. ``then``: as for ``_of_loop``."""
    streams, last = context.streams, rounds[-1]
    times = [streams[number].finished.time for number in rounds]
    again = in_order.repeated_since(rounds[0])
    spent = duration(times[-1] - times[0])
    is_bare = context.has_collections(streams[last].connection) is False
    is_over, to = _is_over(context, in_order, rounds), streams[last].request.start
    loop = occurrence(
        context,
        last,
        "rollback-loop",
        f"ended for a rollback {len(rounds)} times in {spent}, {again:,} items sent again",
        [
            context.stream_place(streams[number], streams[number].finished)
            for number in (last, *rounds[:2])
        ],
        cause="stream-end",
        next_=ADVICE["stream-end" if is_bare else "repeated"],
        seqnos=(plain(to),),
        shared="ended for a rollback again and again",
        explains=in_order.explained(context, rounds, to, last if is_over else then),
        facts={"requested start": plain(to), "times": len(rounds), "items sent again": again},
        is_over=is_over,
    )
    rows, connections = _rows(streams.finished.row[rounds]), streams.connection[rounds].tolist()
    return replace(loop, rows=rows, time_ns=times[0], connections=set(connections))


def _is_over(context: Context, in_order: InOrder, rounds: Sequence[int]) -> bool | None:
    """Returns whether a loop has ended: the client could go on from above the seqno that it was
    rolled back to. None: a stream still runs.
    """
    streams = context.streams
    to = max(
        streams[number].rollback if streams.answer[number] == w.A_ROLLBACK else LEAST
        for number in rounds
    )
    return in_order.goes_on_after(rounds[-1], max(to, LEAST))


def _onward(add: np.ufunc, values: RowNumbers) -> RowNumbers:
    """Returns what each value and all later ones make together."""
    return add.accumulate(values[::-1])[::-1]


def _before(values: RowNumbers) -> RowNumbers:
    """Returns the greatest of the values before each one."""
    return np.append(LEAST, np.maximum.accumulate(values)[:-1])


RULE_SET = RuleSet(RULES, findings=findings)
