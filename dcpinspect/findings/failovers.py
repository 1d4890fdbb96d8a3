"""The rule about failovers: a node's new branch of many vbuckets at once, which clients took."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from dcpinspect.findings.context import Context, occurrence
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams import words as w
from dcpinspect.streams.failover_logs import KnownLog, LogsInOrder, log_place
from dcpinspect.streams.grouping import Groups, NameNumbers
from dcpinspect.streams.verdicts import PATIENCE_NS

MANY_VBUCKETS = 4
"""So many vbuckets at once are no accident of a few."""

RULES = rules(
    f"""
    failover stream note normal
        fires: within {PATIENCE_NS // 10**9} s, one node sends a client new newest branches of
            {MANY_VBUCKETS} vbuckets or more; the client knew their newest branches before, and then
            has a stream on each new branch
        unless: one of these vbuckets is not streamed on the new branch; logs without the old
            branch, because that is another history
        next: the cluster's log shows whether a node failed over or came back from a crash; the
            client went on, and has nothing to do unless another finding names these vbuckets
        cost: vbucket, has a new branch of its history, have a new branch of their history, usual
    """
)


@dataclass(frozen=True, slots=True)
class _Change:
    """A client was told that a vbucket has another newest branch."""

    vbucket: int
    before: KnownLog
    """The last log with the old branch at its head."""
    log: KnownLog
    """The first log with the new branch at its head."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, client by client."""
    context = finished.context
    changes: dict[tuple[str, object], list[_Change]] = defaultdict(list)
    for client, vbucket, logs in _of_clients(context):
        for change in _changes(vbucket, logs):
            changes[client, context.logs.origins[change.log.connection]].append(change)
    numbers = _streams(context) if changes else {}
    streams = cache(lambda client, vbucket: _Streams(context, numbers.get((client, vbucket), ())))
    for (client, _), client_changes in changes.items():
        for several in _at_once(client_changes):
            followed = [streams(client, change.vbucket).followed(change) for change in several]
            if len(several) >= MANY_VBUCKETS and None not in followed:
                for change, number in zip(several, followed, strict=True):
                    assert number is not None
                    yield _occurrence(context, change, number, streams(client, change.vbucket))


def _of_clients(context: Context) -> Iterator[tuple[str, int, Sequence[KnownLog]]]:
    """Yields (client, vbucket, logs) by bucket, with the logs that the client was sent, in the
    order in which they were told.

    Logs that are all the same are left out.
    """
    logs, all_logs = context.logs, context.logs.rows
    buckets = NameNumbers(
        {number: bucket for number, (_, bucket) in logs.origins.items()}, len(context.names.of)
    )
    client = context.names.of[all_logs.connection]
    in_order = np.lexsort((all_logs.place.row, all_logs.place.time))
    groups = Groups(
        [client, buckets.of[all_logs.connection], all_logs.vbucket], in_order[client[in_order] >= 0]
    )
    before = groups.previous
    differs = (before >= 0) & (all_logs.log != all_logs.log[before])
    for rows in groups.having(differs):
        yield (
            context.clients[int(all_logs.connection[rows[0]])],
            int(all_logs.vbucket[rows[0]]),
            LogsInOrder(logs, np.array(rows)),
        )


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
    for change in sorted(changes, key=lambda later_change: log_place(later_change.log)):
        if several and (change.log.at.time_ns - latest > PATIENCE_NS or change.vbucket in several):
            yield list(several.values())
            several = {}
        several[change.vbucket] = change
        latest = change.log.at.time_ns
    if several:
        yield list(several.values())


class _Streams:
    """The streams of a client and vbucket, in the order of their opening."""

    def __init__(self, context: Context, numbers: Sequence[int]) -> None:
        rows = context.streams[np.array(numbers, dtype=np.int64)]
        self._numbers, self._opened_ns = numbers, rows.opened.time
        self._on_branch: dict[int, list[tuple[tuple[int, int], int]]] = defaultdict(list)
        """By the newest branch of the log with which it was accepted: when and in which row each
        stream was accepted, and its number.
        """
        is_accepted = (rows.request.is_captured != 0) & (rows.answer == w.A_ACCEPTED)
        for index in np.flatnonzero(is_accepted).tolist():
            uuid, answer_place = context.logs.newest(numbers[index]), rows[index].answered
            if uuid is not None:
                self._on_branch[uuid].append(
                    ((int(answer_place.time), int(answer_place.row)), numbers[index])
                )
        for several in self._on_branch.values():
            several.sort()

    def followed(self, change: _Change) -> int | None:
        """Returns the first stream on the new branch; None for none."""
        several = self._on_branch.get(change.log.entries[0][0], ())
        index = bisect_left(several, log_place(change.log), key=lambda accepted: accepted[0])
        return several[index][1] if index < len(several) else None

    def between(self, since_ns: int, until_ns: int) -> Sequence[int]:
        """Returns the streams that were opened between two times."""
        begin = int(np.searchsorted(self._opened_ns, since_ns, "right"))
        end = int(np.searchsorted(self._opened_ns, until_ns, "left"))
        return self._numbers[begin:end]


def _streams(context: Context) -> Mapping[tuple[str, int], Sequence[int]]:
    """Returns streams by client and vbucket, in the order of their opening."""
    streams, client = context.streams, context.names.of[context.streams.connection]
    in_order = np.argsort(streams.opened.time, kind="stable")
    groups = Groups([client, streams.vbucket], in_order[client[in_order] >= 0])
    return {
        (context.clients[streams[rows[0]].connection], streams[rows[0]].vbucket): rows
        for rows in groups.values()
    }


def _occurrence(context: Context, change: _Change, number: int, streams: _Streams) -> Occurrence:
    """Returns the occurrence of a failover; ``number``: the stream that followed it."""
    uuid, seqno = change.log.entries[0]
    opened_ns = context.streams[number].opened.time
    origins, before_ns = context.logs.origins, change.before.at.time_ns
    between = [
        stream
        for stream in streams.between(before_ns, opened_ns)
        if origins[context.streams[stream].connection][1] == origins[change.log.connection][1]
    ]
    answer = context.answer(number)
    message = f"a new branch 0x{uuid:016x} from {seqno}, followed" + (
        f" in row {answer.row}" if answer is not None else ""
    )
    return occurrence(
        context,
        number,
        "failover",
        message,
        (context.log_place(change.log), context.log_place(change.before), answer),
        seqnos=(seqno,),
        shared="new branches, all followed",
        explains=between,
    )


RULE_SET = RuleSet(RULES, findings=findings)
