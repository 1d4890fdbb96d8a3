"""The rule about failovers: a node has a new branch of many vbuckets at once, and the client went on with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dcpinspect.findings.clients import PATIENCE_NS
from dcpinspect.findings.context import Context, occurrence
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.streams import words as w
from dcpinspect.streams.grouping import Groups, Names
from dcpinspect.streams.logs import KnownLog, Told, told_at

MANY_VBUCKETS = 4
"""So many vbuckets at once are no accident of a few."""

RULES = (
    Rule(
        "failover",
        "stream",
        "note",
        f"within {PATIENCE_NS // 10**9} s, one node sends a client new newest branches of {MANY_VBUCKETS} vbuckets or more; the client knew"
        " their newest branches before, and then has a stream on each new branch",
        "one of these vbuckets is not streamed on the new branch; logs without the old branch, because that is another history",
        "nothing is left to do, the client went on; the cluster's log shows whether a node failed over or came back from a crash",
        is_told_once=True,
        whose="normal",
    ),
)


@dataclass(frozen=True, slots=True)
class _Change:
    """A client was told that a vbucket has another newest branch."""

    vbucket: int
    before: KnownLog
    """The last log with the old branch at its head."""
    log: KnownLog
    """The first log with the new branch at its head."""


def findings(finished: Finished) -> Iterator[Occurrence]:
    """Yields all occurrences, client by client."""
    context = finished.context
    changes: dict[tuple[str, object], list[_Change]] = defaultdict(list)
    for client, vbucket, logs in _of_clients(context):
        for change in _changes(vbucket, logs):
            changes[client, context.logs.origins[change.log.connection]].append(change)
    streams = _streams(context) if changes else {}
    for (client, _), mine in changes.items():
        for several in _at_once(mine):
            followed = [_followed(context, change, streams.get((client, change.vbucket), ())) for change in several]
            if len(several) >= MANY_VBUCKETS and None not in followed:
                for change, number in zip(several, followed, strict=True):
                    assert number is not None
                    yield _occurrence(context, change, number, streams[client, change.vbucket])


def _of_clients(context: Context) -> Iterator[tuple[str, int, Sequence[KnownLog]]]:
    """Yields (client, vbucket, logs) by bucket, with the logs that the client was sent, in the order in which they were told.

    Logs that are all the same are left out.
    """
    logs, told = context.logs, context.logs.told
    buckets = Names({number: bucket for number, (_, bucket) in logs.origins.items()}, len(context.names.of))
    client = context.names.of[told.connection]
    in_order = np.lexsort((told.place.row, told.place.time))
    groups = Groups([client, buckets.of[told.connection], told.vbucket], in_order[client[in_order] >= 0])
    before = groups.previous
    differs = (before >= 0) & (told.log != told.log[before])
    for rows in groups.having(differs):
        yield context.clients[int(told.connection[rows[0]])], int(told.vbucket[rows[0]]), Told(logs, np.array(rows))


def _changes(vbucket: int, logs: Sequence[KnownLog]) -> Iterator[_Change]:
    before: KnownLog | None = None
    for log in logs:
        if not log.entries:
            before = None  # the unread log may have been the change
            continue
        if before is not None and log.entries[0][0] != before.entries[0][0]:
            if not log.has(before.entries[0][0]):
                continue  # another history, or a node that has not heard of the new branch
            yield _Change(vbucket, before, log)
        before = log


def _at_once(changes: Sequence[_Change]) -> Iterator[Sequence[_Change]]:
    """Yields groups of changes that were told soon after each other; each vbucket once."""
    several: dict[int, _Change] = {}
    latest = 0
    for change in sorted(changes, key=lambda one: told_at(one.log)):
        if several and (change.log.at.time_ns - latest > PATIENCE_NS or change.vbucket in several):
            yield list(several.values())
            several = {}
        several[change.vbucket] = change
        latest = change.log.at.time_ns
    if several:
        yield list(several.values())


def _streams(context: Context) -> Mapping[tuple[str, int], Sequence[int]]:
    """Returns streams by client and vbucket, in the order of their opening."""
    streams, client = context.streams, context.names.of[context.streams.connection]
    in_order = np.argsort(streams.opened.time, kind="stable")
    groups = Groups([client, streams.vbucket], in_order[client[in_order] >= 0])
    return {(context.clients[streams[rows[0]].connection], streams[rows[0]].vbucket): rows for rows in groups.values()}


def _followed(context: Context, change: _Change, numbers: Sequence[int]) -> int | None:
    """Returns the first stream on the new branch; None for none."""
    uuid, told = change.log.entries[0][0], told_at(change.log)
    for number in numbers:
        row = context.streams[number]
        is_later = (int(row.answered.time), int(row.answered.row)) >= told
        if row.request.form and row.answer == w.A_ACCEPTED and is_later and context.logs.newest(number) == uuid:
            return number
    return None


def _occurrence(context: Context, change: _Change, number: int, numbers: Sequence[int]) -> Occurrence:
    """Returns the occurrence of a failover; ``number``: the stream that followed it."""
    uuid, seqno = change.log.entries[0]
    opened_ns = int(context.streams.opened.time[number])
    origins, told_ns = context.logs.origins, change.before.at.time_ns
    between = [
        one
        for one in numbers
        if told_ns < context.streams.opened.time[one] < opened_ns
        and origins[int(context.streams.connection[one])][1] == origins[change.log.connection][1]
    ]
    answer = context.answer(number)
    message = f"a new branch 0x{uuid:016x} from {seqno}, followed" + (f" in row {answer.row}" if answer is not None else "")
    return occurrence(
        context,
        number,
        "failover",
        "note",
        message,
        (context.log_place(change.log), context.log_place(change.before), answer),
        seqnos=(seqno,),
        shared="new branches, all followed",
        explains=between,
    )


RULE_SET = RuleSet(RULES, findings=findings)
