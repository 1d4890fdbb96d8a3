"""Puts occurrences together: one finding for one thing, however often, on however many vbuckets and
connections it happened.

Memory grows with (rule, severity, cause, connection, vbucket, stream-id), not with occurrences. Of
each such key the first three occurrences and the last are kept. On one connection up to
``MOST_APART`` vbuckets and stream-ids are told apart: peers may name any. A caller that wants to
mark each message gets the rows of all messages, up to ``MOST_ROWS``. With more, the rule with the
most rows forgets its earliest ones.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.cases import case_of, shape, together
from dcpinspect.findings.costs import Cost
from dcpinspect.findings.finding import (
    Candidates,
    Finding,
    FindingKey,
    MessagePlace,
    Occurrence,
    Wanted,
)
from dcpinspect.findings.heaps import SHOWN, Heap, as_rows
from dcpinspect.findings.rule import SEVERITIES, Rule
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.streams.followers import Portable, renumbered
from dcpinspect.streams.grouping import Groups
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch

MOST_PAST = 1000
"""Number of cases of one kind that are kept of connections that have left: the first and the
latest. The first counts for those between.
"""
MOST_APART = 1 << 12
"""Number of vbuckets and stream-ids of a connection that are told apart in one thing; later ones
are told together.
"""
MOST_ROWS = 1 << 21
"""Greatest number of rows kept for callers that want the rows of all messages: 16 MiB."""

_HeapKey = tuple[*FindingKey, FindingKey | None, str]
"""Key of the occurrences, key of what they are effects of, and their reason."""
_Kind = tuple[Severity, str | None]
"""Severity and cause."""
REFUSED_BY_CONSUMER = "consumer-refused"
"""Rule about an answer that makes an error of the fault that was refused."""
_AND_REFUSED = ", and was refused"
"""Says of such a fault why it is an error, beside its like that nobody refused."""
_IF_TAKEN = re.compile("; a (client|server) .*")
"""What the advice of a rule says of consumers that took the message."""
_NOT_TAKEN = r"; the \1 refused it, so it applied nothing"
_OF_VBUCKET = opcodes_with(Trait.VBUCKET)


def place_of(batch: MessageBatch, index: int) -> MessagePlace:
    """Returns the place of a message of a batch."""
    return MessagePlace(
        int(batch.row[index]),
        int(batch.connection[index]),
        DIRECTIONS[int(batch.direction[index])],
        int(batch.stream_offset[index]),
        int(batch.last_file[index]),
        int(batch.last_frame[index]),
        int(batch.time_ns[index]),
    )


class Relations(NamedTuple):
    """For each rule, what others have to do with what it finds."""

    owns: Mapping[str, Collection[str]] = MappingProxyType({})
    """Rules whose findings are its effects."""
    silences: Mapping[str, Collection[str]] = MappingProxyType({})
    """Rules that have nothing to add about a message that it speaks of."""
    of_connection: Mapping[str, Collection[str]] = MappingProxyType({})
    """Rules that have nothing to add about its connection in the time that it speaks of."""


class Collector(Portable):
    """Gathers what rules find while a capture is read; ``findings`` puts it in order."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        relations: Relations = Relations(),  # noqa: B008 - none
        *,
        keeps_rows: bool = False,
    ) -> None:
        """``rules``: the rules that are wanted; occurrences of other rules are dropped.
        ``keeps_rows``: findings get the rows of all messages that show them.
        """
        self._rules = rules
        self._keeps_rows = keeps_rows
        self._relations = relations
        self._heaps: dict[_HeapKey, Heap] = {}
        self._apart: Counter[tuple[object, ...]] = Counter()
        """Number of heaps for different vbuckets, by rule, severity, cause and connection."""
        self._causes: dict[tuple[str, int], FindingKey] = {}
        """By rule and stream: the key of what the rule's findings about the stream are effects of.
        """
        self._past: dict[_HeapKey, tuple[Heap, Finding]] = {}
        """What was found on connections that left, as told last; keys as in ``_heaps``."""
        self.explained: dict[int, FindingKey] = {}
        """By connection: the key of what some rule says that it was closed for."""

    def add(self, occurrence: Occurrence) -> None:
        """Adds one occurrence."""
        if occurrence.rule not in self._rules:
            return
        for effect in self._relations.owns.get(occurrence.rule, ()):
            for stream in occurrence.explains:
                self._causes.setdefault((effect, stream), occurrence.key)
        cause = self._cause(occurrence)
        key = (*occurrence.key, cause, occurrence.reason)
        heap = self._heaps.get(key)
        if heap is None and (occurrence.vbucket is not None or occurrence.reason):
            kind = occurrence.key[:4]
            if self._apart[kind] >= MOST_APART:
                apart = replace(occurrence, reason="", effect_of=cause)
                self.add(replace(apart, vbucket=None, sid=None, stream=None))
                return
            self._apart[kind] += 1
        if heap is None:
            rows = array("q") if self._keeps_rows else None
            heap = self._heaps[key] = Heap([], cause=cause, rows=rows)
        heap.add(occurrence)
        if occurrence.closes is not None:
            self.explained[occurrence.closes] = cause or occurrence.key

    def _cause(self, occurrence: Occurrence) -> FindingKey | None:
        """Returns the key of what an occurrence is an effect of, by ``Relations.owns``. Nothing is
        an effect of something milder.
        """
        cause = occurrence.effect_of
        if cause is None and occurrence.stream is not None:
            cause = self._causes.get((occurrence.rule, occurrence.stream))
        if cause is None or occurrence.rule not in self._relations.owns.get(cause[0], ()):
            return None
        return (
            cause if SEVERITIES.index(cause[1]) <= SEVERITIES.index(occurrence.severity) else None
        )

    def add_batch(self, batch: MessageBatch, all_candidates: Iterable[Candidates]) -> None:
        """Adds everything that was found in the messages of a batch: it is counted in bulk, and
        only explained where it is shown.
        """
        by_rule: dict[str, list[Candidates]] = {}
        for candidates in all_candidates:
            if candidates.rule in self._rules and len(candidates.rows):
                by_rule.setdefault(candidates.rule, []).append(candidates)
        for name, several in by_rule.items():
            rule = self._rules[name]
            kinds = [
                (candidates.severity or rule.severity, candidates.cause) for candidates in several
            ]
            for kind in dict.fromkeys(kinds):
                self._add_rows(
                    batch,
                    rule,
                    kind,
                    [
                        candidates
                        for candidates, kind_of_candidates in zip(several, kinds, strict=True)
                        if kind_of_candidates == kind
                    ],
                )
        if self._keeps_rows:
            self._forget_rows()

    def _forget_rows(self) -> None:
        """If too many rows are kept, has the rule with the most rows forget its earlier half, until
        they are few enough.
        """
        counts = Counter[str]()
        for key, heap in self._heaps.items():
            counts[key[0]] += len(heap.rows or ())
        while counts.total() > MOST_ROWS:
            rule = counts.most_common(1)[0][0]
            counts[rule] = 0
            for key, heap in self._heaps.items():
                if key[0] == rule and heap.rows:
                    del heap.rows[: (len(heap.rows) + 1) // 2]
                    counts[rule] += len(heap.rows)

    def _add_rows(
        self, batch: MessageBatch, rule: Rule, kind: _Kind, several: Sequence[Candidates]
    ) -> None:
        """Adds what one rule found of one kind, in order of rows wherever it was found, so that
        nothing depends on batches.
        """
        rows = np.concatenate([candidates.rows for candidates in several])
        source = np.repeat(
            np.arange(len(several)), [len(candidates.rows) for candidates in several]
        )
        if len(several) > 1:
            by_row = np.argsort(rows, kind="stable")
            rows, source = rows[by_row], source[by_row]
        vbucket = np.where(
            _has_vbucket(batch, rows), batch.vbucket.values[rows].astype(np.int64), -1
        )
        sids = batch.decoded.sid.take(rows)
        sid = np.where(sids.is_known, sids.values.astype(np.int64), -1)
        connection = batch.connection[rows]
        groups = Groups([connection, vbucket, sid])
        first = groups.rows[groups.begins]
        is_apart = self._are_apart(
            rule.id, kind, connection[first].tolist(), vbucket[first].tolist(), sid[first].tolist()
        )
        if not all(is_apart):
            late = ~np.array(is_apart)[groups.of]
            vbucket[late] = sid[late] = -1
            groups = Groups([connection, vbucket, sid])
        for begin, count in zip(groups.begins.tolist(), groups.counts.tolist(), strict=True):
            group_rows = groups.rows[begin : begin + count]
            key = (
                int(connection[group_rows[0]]),
                int(vbucket[group_rows[0]]),
                int(sid[group_rows[0]]),
            )
            self._add_same(batch, rule, kind, several, source[group_rows], rows[group_rows], key)

    def _are_apart(
        self, rule: str, kind: _Kind, connections: list[int], vbuckets: list[int], sids: list[int]
    ) -> list[bool]:
        """Which of these connections, vbuckets and stream-ids are told by themselves: of each
        connection those that come first.
        """
        are_apart, new = [], Counter[int]()
        for connection, vbucket, sid in zip(connections, vbuckets, sids, strict=True):
            key = rule, *kind, connection, vbucket, sid if sid >= 0 else None
            is_new = vbucket >= 0 and (*key, None, "") not in self._heaps
            are_apart.append(not is_new or self._apart[key[:4]] + new[connection] < MOST_APART)
            new[connection] += is_new
        return are_apart

    def _add_same(
        self,
        batch: MessageBatch,
        rule: Rule,
        kind: _Kind,
        several: Sequence[Candidates],
        source: RowNumbers,
        rows: RowNumbers,
        key: tuple[int, int, int],
    ) -> None:
        """Adds the rows of one key; ``source``: for each row, its element of ``several``."""
        severity, cause = kind
        connection, vbucket, sid = key[0], *(number if number >= 0 else None for number in key[1:])
        heap = self._heaps.get((rule.id, severity, cause, connection, vbucket, sid, None, ""))
        capacity = SHOWN - (len(heap.shown) if heap is not None else 0)
        shown_indices = list(range(min(max(capacity, 0), len(rows))))
        if len(rows) > len(shown_indices):
            shown_indices.append(len(rows) - 1)
        for index in shown_indices:
            row = int(rows[index])
            candidates = several[int(source[index])]
            is_last = index == shown_indices[-1]
            occurrence = Occurrence(
                rule.id,
                self._words(batch, candidates, row, severity)
                if index < capacity
                else "",  # of the last one only its place is told
                connection,
                (
                    place_of(batch, row),
                    *(candidates.others(row) if candidates.others is not None else ()),
                ),
                vbucket,
                sid,
                cause,
                candidates.next,
                seqnos=candidates.seqnos(row) if candidates.seqnos is not None else (),
                vbuckets=candidates.vbuckets(row) if candidates.vbuckets is not None else (),
                shared=candidates.shared,
                rows=batch.row[rows[len(shown_indices) - 1 :]]
                if is_last and self._keeps_rows
                else (),
                count=len(rows) - len(shown_indices) + 1 if is_last else 1,
                last_time_ns=int(batch.time_ns[rows].max()) if is_last else 0,
                severity=severity,
            )
            self.add(occurrence)

    @staticmethod
    def _words(batch: MessageBatch, candidates: Candidates, row: int, severity: Severity) -> str:
        if candidates.words is not None:
            return candidates.words if isinstance(candidates.words, str) else candidates.words(row)
        problems = [
            problem for problem in batch.annotate(row).problems if problem.rule == candidates.rule
        ]
        if problems:
            return min(problems, key=lambda problem: problem.severity != severity).reason
        return candidates.rule

    def __len__(self) -> int:
        return len(self._heaps)

    def __getstate__(self) -> dict[str, Any]:
        """Returns what was gathered."""
        return {"heaps": self._heaps}

    def __setstate__(self, gathered: dict[str, Any]) -> None:
        self.__init__({})  # type: ignore[misc] # there is nothing yet
        self._heaps = gathered["heaps"]

    @classmethod
    def joined(
        cls,
        rules: Mapping[str, Rule],
        relations: Relations,
        readings: Sequence[Collector],
        connections: Sequence[RowNumbers],
    ) -> Self:
        """Joins what these rules gathered in readings of different connections.

        ``connections``: for each reading, the new numbers of its connections.
        """
        collector = cls(rules, relations)
        for reading, new_numbers in zip(readings, connections, strict=True):
            for (
                rule,
                severity,
                cause,
                connection,
                vbucket,
                sid,
                *_,
            ), heap in reading._heaps.items():
                number = int(new_numbers[connection])
                advice = {
                    advice_text: renumbered(message_place, new_numbers)
                    for advice_text, message_place in heap.advice.items()
                }
                occurrences = [
                    replace(
                        occurrence,
                        connection=number,
                        places=renumbered(occurrence.places, new_numbers),
                    )
                    for occurrence in heap.shown
                ]
                heap = replace(
                    heap, shown=occurrences, last=renumbered(heap.last, new_numbers), advice=advice
                )
                collector._heaps[rule, severity, cause, number, vbucket, sid, None, ""] = heap
        return collector

    def include(self, other_collector: Collector) -> None:
        """Adds what was gathered from other messages of the same connections and numbers."""
        for key, heap in other_collector._heaps.items():
            self._heaps[key] = Heap.joined([heap, self._heaps[key]]) if key in self._heaps else heap

    def found_again(self, later_collector: Collector) -> None:
        """Subtracts what is still found from what is kept of connections that have left, so that
        nothing counts twice.

        ``later_collector``: what is found once the connections have left.
        """
        for heap in later_collector._heard():
            key = heap.key
            if key in self._past:
                old, case = self._past.pop(key)
                if case.count > heap.count:
                    self._past[key] = old, replace(case, count=case.count - heap.count)

    @property
    def past(self) -> Collection[tuple[Heap, Finding]]:
        """The heaps and cases that are kept of connections that have left."""
        return self._past.values()

    def copy(self) -> Collector:
        """Returns a copy of the collector that can go on by itself."""
        return self.only(self._rules)

    def only(self, rules: Mapping[str, Rule]) -> Collector:
        """Returns a copy with only these rules that can go on by itself."""
        collector = Collector(rules, self._relations, keeps_rows=self._keeps_rows)
        collector._heaps = {
            key: replace(
                heap,
                shown=list(heap.shown),
                advice=dict(heap.advice),
                rows=heap.rows and heap.rows[:],
            )
            for key, heap in self._heaps.items()
            if key[0] in rules
        }
        collector._apart = Counter(
            {kind: count for kind, count in self._apart.items() if kind[0] in rules}
        )
        collector._past = {
            key: past_case for key, past_case in self._past.items() if key[0] in rules
        }
        return collector

    def without(self, connections: Collection[int]) -> Collector:
        """Returns a copy without what was found on these connections."""
        collector = self.copy()
        collector._heaps = {
            key: heap for key, heap in collector._heaps.items() if key[3] not in connections
        }
        return collector

    def let_go(
        self,
        connections: Collection[int],
        vbuckets: Collection[tuple[int, int | None]],
        cases: Sequence[tuple[Heap, Finding]],
    ) -> None:
        """Lets connections leave, and streams of the vbuckets (connection, vbucket) on other
        connections.

        ``cases``: all cases. What was found on those that leave, or seen with their help, is kept
        as it is.
        """
        self._heaps = {key: heap for key, heap in self._heaps.items() if key[3] not in connections}
        self._apart = Counter(
            {kind: count for kind, count in self._apart.items() if kind[3] not in connections}
        )
        for heap, case in cases:
            is_of = (
                heap.first.connection in connections
                or (heap.first.connection, heap.first.vbucket) in vbuckets
            )
            if is_of or any(
                message_place.connection in connections for message_place in heap.message_places
            ):
                key = heap.key
                self._past.pop(key, None)  # to be the latest
                without = replace(
                    heap.changed(stream=None, explains=()),
                    rows=heap.rows and heap.rows[-MOST_PAST:],
                )
                self._past[key] = without, replace(case, rows=case.rows[-MOST_PAST:])
        kinds: dict[tuple[object, ...], list[_HeapKey]] = {}
        for key in self._past:
            kinds.setdefault((*key[:3], key[4] is None, key[6] is None), []).append(key)
        for keys in kinds.values():
            if len(keys) <= MOST_PAST:
                continue
            first = keys[0]
            heap, case = self._past[first]
            for key in keys[1 : len(keys) - MOST_PAST + 1]:
                case = replace(case, count=case.count + self._past.pop(key)[1].count)
            del self._past[first]
            self._past = {first: (heap, case), **self._past}

    def doubt(self, rules: Collection[str], spans: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """Drops what these rules found at rows inside ``spans``, which are by connection and
        exclude both ends.
        """

        def is_doubtful(message_place: MessagePlace) -> bool:
            return any(
                low < message_place.row < high
                for low, high in spans.get(message_place.connection, ())
            )

        if spans:
            kept_heaps = [
                (key, heap.without(is_doubtful) if key[0] in rules else heap)
                for key, heap in self._heaps.items()
            ]
            self._heaps = {
                key: heap.only_rows(partial(_outside, spans=spans.get(key[3], ())))
                if key[0] in rules
                else heap
                for key, heap in kept_heaps
                if heap is not None
            }

    def quote(
        self,
        rules: Collection[str],
        reason_of: Callable[[MessagePlace], str],
        cause: str | None = None,
    ) -> None:
        """Adds to what these rules found why the other side refused the message, in its own words,
        or that it did; ``reason_of``: those words of an answer, or of the answer to a request,
        empty where it said none. ``cause``: of what is found then, by rules that know it.
        """
        for key, heap in self._heaps.items():
            cases = heap.shown if key[0] in rules else []
            reasons = dict.fromkeys(
                reason_of(case.places[0]) if case.places else "" for case in cases
            )
            reason = "" if "" in reasons else "; ".join(reasons)
            if reason:
                quoted = replace(
                    heap.first,
                    message=f"{heap.first.message}; {reason}",
                    shared=heap.first.shared and f"{heap.first.shared}; {reason}",
                )
                heap = replace(heap, shown=[quoted, *heap.shown[1:]])
                is_known = cause in self._rules[key[0]].causes
                self._heaps[key] = heap.changed(cause=cause) if is_known else heap

    def soften(self, rule: str, vbuckets: Collection[tuple[int, int | None]]) -> None:
        """Turns a rule's warnings on these connections and vbuckets into notes."""
        for key, heap in self._heaps.items():
            if key[0] == rule and (key[3], key[4]) in vbuckets and heap.first.severity == "warning":
                self._heaps[key] = heap.changed(severity="note")

    def drop(self, rule: str, connections: Collection[int], cause: str | None = None) -> None:
        """Drops a rule's warnings on these connections, those of one cause if it is given."""
        self._heaps = {
            key: heap
            for key, heap in self._heaps.items()
            if key[0] != rule
            or key[3] not in connections
            or heap.first.severity != "warning"
            or (cause or key[2]) != key[2]
        }

    def offenders(self) -> dict[int, FindingKey]:
        """Returns the rows of messages in which something worse than a note was found, each with
        the key of what no other rule silences.
        """
        offender_keys: dict[int, FindingKey] = {}
        for heap in self._heaps.values():
            for row in (
                {evidence[0].row for evidence in heap.named}
                if heap.first.severity != "note"
                else ()
            ):
                silent = self._relations.silences.get(heap.first.rule, ())
                if row not in offender_keys or offender_keys[row][0] in silent:
                    offender_keys[row] = heap.first.key
        return offender_keys

    def occurrences_of(self, rules: Collection[str]) -> list[tuple[FindingKey, Finding]]:
        """Returns what these rules have found so far, vbucket by vbucket, whether another rule
        silences it or not. Each has the key of the finding under which it is told.
        """
        return [
            (heap.cause or heap.first.key, case_of(heap, self._rules[heap.first.rule]))
            for key, heap in self._heaps.items()
            if key[0] in rules
        ]

    def findings(
        self,
        *,
        apart: bool = False,
        judged: Callable[[Finding], Finding | None] = lambda case: case,
        is_wanted: Wanted | None = None,
        told: Collection[str] | None = None,
    ) -> list[Finding]:
        """Returns what was found, worst first; of equal severity, first what lost data, then what
        does not go on, other costs, refusals, and what costs nobody; then in order of the first
        message that shows it.

        ``apart``: each vbucket of each connection gets a finding of its own. ``judged``: returns a
        case with what the messages around it tell; None if the case is not sure. ``is_wanted``:
        cases that are told; None: all. ``told``: rules whose cases are; None: all.
        """
        heard = self.cases(judged=judged, told=told)
        if is_wanted is not None:
            heard = _wanted_cases(heard, is_wanted)
        causes = {heap.first.key: "" for heap, _ in heard if heap.cause is None}
        """By key of a cause: the id of the finding that the cause came to be in."""
        causes_found = self._grouped(
            ((heap, judged_case, None) for heap, judged_case in heard if heap.cause not in causes),
            apart=apart,
        )
        for finding, heaps in causes_found:
            causes.update(dict.fromkeys((heap.first.key for heap in heaps), finding.id))
        finding_of_id = {finding.id: finding for finding, _ in causes_found}
        effect_items = (
            (heap, judged_case, causes[heap.cause])
            for heap, judged_case in heard
            if heap.cause in causes
        )
        effect_items = (
            (heap, replace(judged_case, whose=finding_of_id[cause].whose, effect_of=cause), cause)
            for heap, judged_case, cause in effect_items
        )
        effects = self._grouped(effect_items, apart=apart)
        ordered = [finding for finding, _ in causes_found]
        # who acts on a cause acts on its effects, which are over when it is
        for finding, _ in effects:
            assert finding.effect_of is not None
            ordered.append(
                replace(
                    finding, next="", over=finding_of_id[finding.effect_of].over, over_place=None
                )
            )
        return sorted(ordered, key=self._in_order)

    def _in_order(self, finding: Finding) -> tuple[object, ...]:
        rule = self._rules.get(finding.rule)
        has_cost = rule is not None and (finding.severity != "note" or isinstance(rule.cost, Cost))
        cost = rule.cost_of(finding.cause, finding.over) if rule is not None and has_cost else None
        return (
            SEVERITIES.index(finding.severity),
            cost is None,
            cost.rank if cost is not None and finding.severity != "note" else 0,
            finding.places[:1],
            finding.rule,
            finding.vbuckets,
        )

    def cases(
        self,
        *,
        judged: Callable[[Finding], Finding | None] = lambda case: case,
        told: Collection[str] | None = None,
    ) -> list[tuple[Heap, Finding]]:
        """Returns the cases of each vbucket and connection. Cases on connections that have left are
        included unless they are found again. The parameters are as in ``findings``.
        """
        past = dict(self._past)
        now = []
        for heap in self._heard():
            merged, before = heap, past.pop(heap.key, None)
            if before is not None:
                old, case = before
                merged = replace(
                    old.changed(is_over=heap.first.is_over),
                    last=heap.last or heap.shown[-1].places,
                    count=case.count + heap.count,
                    rows=old.rows and old.rows + (heap.rows or old.rows[:0]),
                    last_time_ns=max(old.last_time_ns, heap.last_time_ns),
                )
            now.append((merged, case_of(merged, self._rules[merged.first.rule])))
        judged_cases = [*past.values(), *now]
        judgements = ((heap, judged(case)) for heap, case in judged_cases)
        wanted_cases = [
            (heap, judged_case) for heap, judged_case in judgements if judged_case is not None
        ]
        # what a side refused is no less than an error, and so is the fault that it refused
        refused = Counter[FindingKey]()
        for heap, case in wanted_cases:
            if case.rule == REFUSED_BY_CONSUMER and heap.cause:
                refused[heap.cause] += case.count
        return [
            (
                heap,
                replace(
                    case,
                    severity="error",
                    # once, also of a case that was kept as it was told before
                    message=case.message.removesuffix(_AND_REFUSED) + _AND_REFUSED,
                    next=case.next
                    if refused[heap.first.key] < case.count or any(heap.advice)
                    else _IF_TAKEN.sub(_NOT_TAKEN, case.next or ""),
                )
                if heap.first.key in refused
                else replace(case, severity="error")
                if case.rule == REFUSED_BY_CONSUMER and heap.cause
                else case,
            )
            for heap, case in wanted_cases
            if told is None or case.rule in told
        ]

    def _grouped(
        self, several: Iterable[tuple[Heap, Finding, str | None]], *, apart: bool
    ) -> list[tuple[Finding, list[Heap]]]:
        """Puts cases that are one thing into one finding. Returns each finding with the heaps that
        it was made of.

        ``several``: heaps and cases, each with the id of its cause.
        """
        shared: dict[tuple[str, *tuple[object, ...]], list[tuple[Heap, Finding]]] = {}
        for number, (heap, case, cause) in enumerate(several):
            first = heap.first
            kind: object = (
                number if apart else (first.shared or shape(first.message), bool(case.vbuckets))
            )
            same = first.rule, first.cause, case.severity, case.whose, cause, kind
            shared.setdefault(same, []).append((heap, case))
        return [
            (
                together(members, self._rules[kind[0]]) if len(members) > 1 else members[0][1],
                [heap for heap, _ in members],
            )
            for kind, members in shared.items()
        ]

    def times_of(self, rules: Collection[str]) -> Mapping[int, Sequence[tuple[int, int]]]:
        """Returns, by connection, when what these rules have found so far began and ended."""
        spans = defaultdict[int, list[tuple[int, int]]](list)
        for key, heap in self._heaps.items():
            if key[0] in rules:
                spans[key[3]] += heap.times
        return spans

    def _heard(self) -> list[Heap]:
        """Returns the heaps without the occurrences that a more specific rule silences."""
        spoken: dict[str, set[int]] = {}
        speakers: dict[str, list[Heap]] = {}
        for heap in self._heaps.values():
            for silent in self._relations.silences.get(heap.first.rule, ()):
                spoken.setdefault(silent, set()).update(
                    occurrence.places[0].row for occurrence in heap.shown if occurrence.places
                )
                speakers.setdefault(silent, []).append(heap)
        rows_of = {
            silent: np.concatenate([as_rows(heap.rows) for heap in heaps])
            for silent, heaps in speakers.items()
        }
        quiet: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for heap in self._heaps.values():
            for silent in self._relations.of_connection.get(heap.first.rule, ()):
                quiet.setdefault((silent, heap.first.connection), []).extend(heap.times)
        heard = []
        for heap in self._heaps.values():
            outside = heap.outside(quiet.get((heap.first.rule, heap.first.connection), ()))
            rows = spoken.get(heap.first.rule)
            if rows is None or outside is None:
                heard += [outside] if outside is not None else []
                continue
            remaining = outside.without(lambda place, rows=rows: place.row in rows)  # type: ignore[misc]
            if remaining is not None:
                other_rows = rows_of[heap.first.rule]
                heard.append(
                    remaining.only_rows(
                        lambda heap_rows, other_rows=other_rows: ~np.isin(heap_rows, other_rows)  # type: ignore[misc]
                    )
                )
        return heard


def _wanted_cases(
    cases: list[tuple[Heap, Finding]], is_wanted: Wanted
) -> list[tuple[Heap, Finding]]:
    """Returns the cases that are wanted."""
    effects: dict[FindingKey, list[Finding]] = {}
    for heap, case in cases:
        if heap.cause is not None:
            effects.setdefault(heap.cause, []).append(case)
    return [
        (heap, case) for heap, case in cases if is_wanted(case, effects.get(heap.first.key, ()))
    ]


def _outside(rows: RowNumbers, spans: Sequence[tuple[int, int]]) -> BoolArray:
    """Returns a mask of rows that are in none of the spans, which exclude both ends."""
    mask = np.ones(len(rows), np.bool_)
    for low, high in spans:
        mask &= (rows <= low) | (rows >= high)
    return mask


def _has_vbucket(
    batch: MessageBatch, rows: RowNumbers
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns a mask of messages about a vbucket; others may have two meaningless bytes there."""
    decoded = batch.decoded
    is_known = (
        batch.vbucket.valid[rows]
        if batch.vbucket.valid is not None
        else np.ones(len(rows), dtype=np.bool_)
    )
    return np.asarray(is_known & _OF_VBUCKET[decoded.opcode[rows]] & ~decoded.is_server[rows])
