"""Puts occurrences together: one finding for one thing, however often, on however many vbuckets and connections it happened.

Memory grows with (rule, severity, cause, connection, vbucket, stream-id), not with occurrences. Of each such key the first three
occurrences and the last are kept. On one connection up to ``MOST_APART`` vbuckets and stream-ids are told apart: peers may name any. A
caller that wants to mark each message gets the rows of all messages, up to ``MOST_ROWS``. With more, the rule with the most rows forgets
its earliest ones.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from dcpinspect.findings.candidates import Candidates
from dcpinspect.findings.cases import case_of, shape, together
from dcpinspect.findings.finding import Finding, Key, Occurrence, Place
from dcpinspect.findings.heaps import SHOWN, Heap, as_rows
from dcpinspect.findings.rule import SEVERITIES, Rule
from dcpinspect.protocol.columns import Mask, Rows
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.streams.followers import Portable, renumbered
from dcpinspect.streams.grouping import Groups
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch

MOST_PAST = 1000
"""Number of cases of one kind that are kept of connections that have left: the first and the latest. The first counts for those between."""
MOST_APART = 1 << 12
"""Number of vbuckets and stream-ids of a connection that are told apart in one thing; later ones are told together."""
MOST_ROWS = 1 << 21
"""Greatest number of rows kept for callers that want the rows of all messages: 16 MiB."""

_Kind = tuple[Severity, str | None]
"""Severity and cause."""
_OF_VBUCKET = opcodes_with(Trait.VBUCKET)


def place_of(batch: MessageBatch, index: int) -> Place:
    """Returns the place of a message of a batch."""
    return Place(
        int(batch.row[index]),
        int(batch.connection[index]),
        DIRECTIONS[int(batch.direction[index])],
        int(batch.stream_offset[index]),
        int(batch.last_file[index]),
        int(batch.last_frame[index]),
        int(batch.time_ns[index]),
    )


class Collector(Portable):
    """Gathers what rules find while a capture is read; ``findings`` puts it in order."""

    def __init__(self, rules: Mapping[str, Rule], owns: Mapping[str, Collection[str]] | None = None, *, keeps_rows: bool = False) -> None:
        """``rules``: the rules that are wanted; occurrences of other rules are dropped. ``owns``: for each rule, the rules whose findings
        are its effects.

        ``keeps_rows``: findings get the rows of all messages that show them.
        """
        self._rules = rules
        self._keeps_rows = keeps_rows
        self._owns = owns or {}
        self._heaps: dict[tuple[*Key, Key | None], Heap] = {}
        """The occurrences, by their key and the key of what they are effects of."""
        self._apart: Counter[tuple[object, ...]] = Counter()
        """Number of heaps for different vbuckets, by rule, severity, cause and connection."""
        self._causes: dict[tuple[str, int], Key] = {}
        """By rule and stream: the key of what the rule's findings about the stream are effects of."""
        self._past: dict[tuple[*Key, Key | None], tuple[Heap, Finding]] = {}
        """What was found on connections that have left, as it was told last; the keys are as in ``_heaps``."""
        self.explained: dict[int, Key] = {}
        """By connection: the key of what some rule says that it was closed for."""

    def add(self, occurrence: Occurrence) -> None:
        """Adds one occurrence."""
        if occurrence.rule not in self._rules:
            return
        for effect in self._owns.get(occurrence.rule, ()):
            for stream in occurrence.explains:
                self._causes.setdefault((effect, stream), occurrence.key)
        cause = self._cause(occurrence)
        heap = self._heaps.get((*occurrence.key, cause))
        if heap is None and occurrence.vbucket is not None:
            kind = occurrence.key[:4]
            if self._apart[kind] >= MOST_APART:
                self.add(replace(occurrence, vbucket=None, sid=None, stream=None, effect_of=cause))
                return
            self._apart[kind] += 1
        if heap is None:
            rows = array("q") if self._keeps_rows else None
            heap = self._heaps[(*occurrence.key, cause)] = Heap([], cause=cause, rows=rows)
        heap.add(occurrence)
        if occurrence.closes is not None:
            self.explained[occurrence.closes] = cause or occurrence.key

    def _cause(self, occurrence: Occurrence) -> Key | None:
        """Returns the key of what an occurrence is an effect of, by the table ``OWNS``. Nothing is an effect of something milder."""
        cause = occurrence.effect_of
        if cause is None and occurrence.stream is not None:
            cause = self._causes.get((occurrence.rule, occurrence.stream))
        if cause is None or occurrence.rule not in self._owns.get(cause[0], ()):
            return None
        return cause if SEVERITIES.index(cause[1]) <= SEVERITIES.index(occurrence.severity) else None

    def add_batch(self, batch: MessageBatch, found: Iterable[Candidates]) -> None:
        """Adds everything that was found in the messages of a batch: it is counted in bulk, and only explained where it is shown."""
        by_rule: dict[str, list[Candidates]] = {}
        for candidates in found:
            if candidates.rule in self._rules and len(candidates.rows):
                by_rule.setdefault(candidates.rule, []).append(candidates)
        for name, several in by_rule.items():
            rule = self._rules[name]
            kinds = [(candidates.severity or rule.severity, candidates.cause) for candidates in several]
            for kind in dict.fromkeys(kinds):
                self._add_rows(batch, rule, kind, [candidates for candidates, own in zip(several, kinds, strict=True) if own == kind])
        if self._keeps_rows:
            self._forget_rows()

    def _forget_rows(self) -> None:
        """If too many rows are kept, has the rule with the most rows forget its earlier half, until they are few enough."""
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

    def _add_rows(self, batch: MessageBatch, rule: Rule, kind: _Kind, several: Sequence[Candidates]) -> None:
        """Adds what one rule found of one kind, in order of rows wherever it was found, so that nothing depends on batches."""
        rows = np.concatenate([found.rows for found in several])
        source = np.repeat(np.arange(len(several)), [len(found.rows) for found in several])
        if len(several) > 1:
            by_row = np.argsort(rows, kind="stable")
            rows, source = rows[by_row], source[by_row]
        vbucket = np.where(_has_vbucket(batch, rows), batch.vbucket.values[rows].astype(np.int64), -1)
        sids = batch.decoded.sid.take(rows)
        sid = np.where(sids.known, sids.values.astype(np.int64), -1)
        connection = batch.connection[rows]
        groups = Groups([connection, vbucket, sid])
        first = groups.rows[groups.begins]
        is_apart = self._are_apart(rule.id, kind, connection[first].tolist(), vbucket[first].tolist(), sid[first].tolist())
        if not all(is_apart):
            late = ~np.array(is_apart)[groups.of]
            vbucket[late] = sid[late] = -1
            groups = Groups([connection, vbucket, sid])
        for begin, count in zip(groups.begins.tolist(), groups.counts.tolist(), strict=True):
            mine = groups.rows[begin : begin + count]
            key = int(connection[mine[0]]), int(vbucket[mine[0]]), int(sid[mine[0]])
            self._add_same(batch, rule, kind, several, source[mine], rows[mine], key)

    def _are_apart(self, rule: str, kind: _Kind, connections: list[int], vbuckets: list[int], sids: list[int]) -> list[bool]:
        """Which of these connections, vbuckets and stream-ids are told by themselves: of each connection those that come first."""
        found, new = [], Counter[int]()
        for connection, vbucket, sid in zip(connections, vbuckets, sids, strict=True):
            key = rule, *kind, connection, vbucket, sid if sid >= 0 else None
            is_new = vbucket >= 0 and (*key, None) not in self._heaps
            found.append(not is_new or self._apart[key[:4]] + new[connection] < MOST_APART)
            new[connection] += is_new
        return found

    def _add_same(
        self,
        batch: MessageBatch,
        rule: Rule,
        kind: _Kind,
        several: Sequence[Candidates],
        source: Rows,
        rows: Rows,
        key: tuple[int, int, int],
    ) -> None:
        """Adds the rows of one key; ``source``: for each row, the element of ``several`` that found it."""
        severity, cause = kind
        connection, vbucket, sid = key[0], *(one if one >= 0 else None for one in key[1:])
        known = self._heaps.get((rule.id, severity, cause, connection, vbucket, sid, None))
        room = SHOWN - (len(known.shown) if known is not None else 0)
        chosen = list(range(min(max(room, 0), len(rows))))
        if len(rows) > len(chosen):
            chosen.append(len(rows) - 1)
        for place in chosen:
            row, found, is_last = int(rows[place]), several[int(source[place])], place == chosen[-1]
            occurrence = Occurrence(
                rule.id,
                severity,
                self._words(batch, found, row, severity) if place < room else "",  # of the last one only its place is told
                connection,
                (place_of(batch, row), *(found.others(row) if found.others is not None else ())),
                vbucket,
                sid,
                cause,
                seqnos=found.seqnos(row) if found.seqnos is not None else (),
                shared=found.shared,
                rows=batch.row[rows[len(chosen) - 1 :]] if is_last and self._keeps_rows else (),
                count=len(rows) - len(chosen) + 1 if is_last else 1,
                last_time_ns=int(batch.time_ns[rows].max()) if is_last else 0,
            )
            self.add(occurrence)

    @staticmethod
    def _words(batch: MessageBatch, found: Candidates, row: int, severity: Severity) -> str:
        if found.words is not None:
            return found.words if isinstance(found.words, str) else found.words(row)
        problems = [problem for problem in batch.annotate(row).problems if problem.rule == found.rule]
        return min(problems, key=lambda problem: problem.severity != severity).reason if problems else found.rule

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
        cls, rules: Mapping[str, Rule], owns: Mapping[str, Collection[str]], parts: Sequence[Collector], connections: Sequence[Rows]
    ) -> Self:
        """Joins what these rules gathered in readings of different connections.

        ``connections``: for each reading, the new numbers of its connections.
        """
        whole = cls(rules, owns)
        for part, of in zip(parts, connections, strict=True):
            for (rule, severity, cause, connection, vbucket, sid, _), heap in part._heaps.items():
                number = int(of[connection])
                advice = {what: renumbered(place, of) for what, place in heap.advice.items()}
                shown = [replace(one, connection=number, places=renumbered(one.places, of)) for one in heap.shown]
                heap = replace(heap, shown=shown, last=renumbered(heap.last, of), advice=advice)
                whole._heaps[rule, severity, cause, number, vbucket, sid, None] = heap
        return whole

    def include(self, other: Collector) -> None:
        """Adds what was gathered from other messages of the same connections, which have the same numbers."""
        for key, heap in other._heaps.items():
            self._heaps[key] = Heap.joined([heap, self._heaps[key]]) if key in self._heaps else heap

    def found_again(self, found: Collector, silences: Mapping[str, Collection[str]], of_connection: Mapping[str, Collection[str]]) -> None:
        """Subtracts what is still found from what is kept of connections that have left, so that nothing counts twice.

        ``found``: what is found once the connections have left.
        """
        for heap in found._heard(silences, of_connection):
            key = (*heap.first.key, heap.cause)
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
        other = Collector(rules, self._owns, keeps_rows=self._keeps_rows)
        other._heaps = {
            key: replace(heap, shown=list(heap.shown), advice=dict(heap.advice), rows=heap.rows and heap.rows[:])
            for key, heap in self._heaps.items()
            if key[0] in rules
        }
        other._apart = Counter({kind: count for kind, count in self._apart.items() if kind[0] in rules})
        other._past = {key: told for key, told in self._past.items() if key[0] in rules}
        return other

    def without(self, connections: Collection[int]) -> Collector:
        """Returns a copy without what was found on these connections."""
        other = self.copy()
        other._heaps = {key: heap for key, heap in other._heaps.items() if key[3] not in connections}
        return other

    def let_go(
        self, connections: Collection[int], vbuckets: Collection[tuple[int, int | None]], told: Sequence[tuple[Heap, Finding]]
    ) -> None:
        """Lets connections leave, and streams of the vbuckets (connection, vbucket) on other connections.

        ``told``: all cases. What was found on those that leave, or seen with their help, is kept as it is.
        """
        self._heaps = {key: heap for key, heap in self._heaps.items() if key[3] not in connections}
        self._apart = Counter({kind: count for kind, count in self._apart.items() if kind[3] not in connections})
        for heap, case in told:
            is_of = heap.first.connection in connections or (heap.first.connection, heap.first.vbucket) in vbuckets
            if is_of or any(place.connection in connections for place in heap.places):
                key = (*heap.first.key, heap.cause)
                self._past.pop(key, None)  # to be the latest
                without = replace(heap.changed(stream=None, explains=()), rows=heap.rows and heap.rows[-MOST_PAST:])
                self._past[key] = without, replace(case, rows=case.rows[-MOST_PAST:])
        kinds: dict[tuple[object, ...], list[tuple[*Key, Key | None]]] = {}
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
        """Drops what these rules found at rows inside ``spans``, which are by connection and exclude both ends."""

        def is_doubtful(place: Place) -> bool:
            return any(low < place.row < high for low, high in spans.get(place.connection, ()))

        if spans:
            kept = [(key, heap.without(is_doubtful) if key[0] in rules else heap) for key, heap in self._heaps.items()]
            self._heaps = {
                key: heap.only_rows(partial(_outside, spans=spans.get(key[3], ()))) if key[0] in rules else heap
                for key, heap in kept
                if heap is not None
            }

    def soften(self, rule: str, places: Collection[tuple[int, int | None]]) -> None:
        """Turns a rule's warnings on these connections and vbuckets into notes."""
        for key, heap in self._heaps.items():
            if key[0] == rule and (key[3], key[4]) in places and heap.first.severity == "warning":
                self._heaps[key] = heap.changed(severity="note")

    def drop(self, rule: str, connections: Collection[int], cause: str | None = None) -> None:
        """Drops a rule's warnings on these connections, those of one cause if it is given."""
        self._heaps = {
            key: heap
            for key, heap in self._heaps.items()
            if key[0] != rule or key[3] not in connections or heap.first.severity != "warning" or (cause or key[2]) != key[2]
        }

    def offenders(self, silences: Mapping[str, Collection[str]]) -> dict[int, Key]:
        """Returns the rows of messages in which something worse than a note was found, each with the key of what no other rule silences."""
        found: dict[int, Key] = {}
        for heap in self._heaps.values():
            for row in {places[0].row for places in heap.named} if heap.first.severity != "note" else ():
                if row not in found or found[row][0] in silences.get(heap.first.rule, ()):
                    found[row] = heap.first.key
        return found

    def found(self, rules: Collection[str]) -> list[tuple[Key, Finding]]:
        """Returns what these rules have found so far, vbucket by vbucket, whether another rule silences it or not."""
        return [(heap.first.key, case_of(heap, self._rules[heap.first.rule])) for key, heap in self._heaps.items() if key[0] in rules]

    def findings(
        self,
        silences: Mapping[str, Collection[str]],
        of_connection: Mapping[str, Collection[str]] | None = None,
        *,
        apart: bool = False,
        judged: Callable[[Finding], Finding | None] = lambda case: case,
    ) -> list[Finding]:
        """Returns what was found, worst first; of equal severity, first what costs somebody; then in order of the first message that shows
        it.

        ``silences``: for each rule, rules that have nothing to add about a message that it speaks of. ``of_connection``: for each rule,
        rules that have nothing to add about its connection in the time that it speaks of. ``apart``: each vbucket of each connection gets a
        finding of its own. ``judged``: returns a case with what the messages around it tell; None if the case is not wanted.
        """
        heard = self.cases(silences, of_connection, judged=judged)
        causes = {heap.first.key: "" for heap, _ in heard if heap.cause is None}
        """By key of a cause: the id of the finding that the cause came to be in."""
        own = self._grouped(((heap, one, None) for heap, one in heard if heap.cause not in causes), apart=apart)
        for found, heaps in own:
            causes.update(dict.fromkeys((heap.first.key for heap in heaps), found.id))
        whole = {found.id: found for found, _ in own}
        told = ((heap, one, causes[heap.cause]) for heap, one in heard if heap.cause in causes)
        told = ((heap, replace(one, whose=whole[of].whose, effect_of=of), of) for heap, one, of in told)
        effects = self._grouped(told, apart=apart)
        out = [found for found, _ in own]
        for found, _ in effects:  # who acts on a cause acts on its effects, which are over when it is
            assert found.effect_of is not None
            out.append(replace(found, next="", over=whole[found.effect_of].over, over_row=None))
        return sorted(out, key=self._in_order)

    def _in_order(self, one: Finding) -> tuple[object, ...]:
        rule = self._rules.get(one.rule)
        return SEVERITIES.index(one.severity), rule is None or rule.cost is None, one.places[:1], one.rule, one.vbuckets

    def cases(
        self,
        silences: Mapping[str, Collection[str]],
        of_connection: Mapping[str, Collection[str]] | None = None,
        *,
        judged: Callable[[Finding], Finding | None] = lambda case: case,
    ) -> list[tuple[Heap, Finding]]:
        """Returns the cases of each vbucket and connection. Cases on connections that have left are included unless they are found again.
        The parameters are as in ``findings``."""
        heard = self._heard(silences, of_connection or {})
        past = dict(self._past)
        now = []
        for heap in heard:
            one, before = heap, past.pop((*heap.first.key, heap.cause), None)
            if before is not None:
                old, case = before
                one = replace(
                    old.changed(is_over=heap.first.is_over),
                    last=heap.last or heap.shown[-1].places,
                    count=case.count + heap.count,
                    rows=old.rows and old.rows + (heap.rows or old.rows[:0]),
                    last_time_ns=max(old.last_time_ns, heap.last_time_ns),
                )
            now.append((one, case_of(one, self._rules[one.first.rule])))
        told = [*past.values(), *now]
        judgements = ((heap, judged(case)) for heap, case in told)
        return [(heap, one) for heap, one in judgements if one is not None]

    def _grouped(self, several: Iterable[tuple[Heap, Finding, str | None]], *, apart: bool) -> list[tuple[Finding, list[Heap]]]:
        """Puts cases that are one thing into one finding. Returns each finding with the heaps that it was made of.

        ``several``: heaps and cases, each with the id of its cause.
        """
        shared: dict[tuple[str, *tuple[object, ...]], list[tuple[Heap, Finding]]] = {}
        for number, (heap, case, cause) in enumerate(several):
            first = heap.first
            kind: object = number if apart else (first.shared or shape(first.message), bool(case.vbuckets))
            same = first.rule, first.cause, case.severity, case.whose, cause, kind
            shared.setdefault(same, []).append((heap, case))
        return [
            (together(members, self._rules[kind[0]]) if len(members) > 1 else members[0][1], [heap for heap, _ in members])
            for kind, members in shared.items()
        ]

    def _heard(self, silences: Mapping[str, Collection[str]], of_connection: Mapping[str, Collection[str]]) -> list[Heap]:
        """Returns the heaps without the occurrences that a more specific rule silences."""
        spoken: dict[str, set[int]] = {}
        speakers: dict[str, list[Heap]] = {}
        for heap in self._heaps.values():
            for silent in silences.get(heap.first.rule, ()):
                spoken.setdefault(silent, set()).update(one.places[0].row for one in heap.shown if one.places)
                speakers.setdefault(silent, []).append(heap)
        rows_of = {silent: np.concatenate([as_rows(heap.rows) for heap in heaps]) for silent, heaps in speakers.items()}
        quiet: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for heap in self._heaps.values():
            for silent in of_connection.get(heap.first.rule, ()):
                quiet.setdefault((silent, heap.first.connection), []).append(heap.span)
        heard = []
        for heap in self._heaps.values():
            start, end = heap.span
            if any(start <= last and first <= end for first, last in quiet.get((heap.first.rule, heap.first.connection), ())):
                continue
            rows = spoken.get(heap.first.rule)
            if rows is None:
                heard.append(heap)
                continue
            left = heap.without(lambda place, rows=rows: place.row in rows)  # type: ignore[misc]
            if left is not None:
                others = rows_of[heap.first.rule]
                heard.append(left.only_rows(lambda own, others=others: ~np.isin(own, others)))  # type: ignore[misc]
        return heard


def _outside(rows: Rows, spans: Sequence[tuple[int, int]]) -> Mask:
    """Returns a mask of rows that are in none of the spans, which exclude both ends."""
    found = np.ones(len(rows), np.bool_)
    for low, high in spans:
        found &= (rows <= low) | (rows >= high)
    return found


def _has_vbucket(batch: MessageBatch, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns a mask of messages that speak of a vbucket; others may have two meaningless bytes in its place."""
    decoded = batch.decoded
    known = batch.vbucket.valid[rows] if batch.vbucket.valid is not None else np.ones(len(rows), dtype=np.bool_)
    return np.asarray(known & _OF_VBUCKET[decoded.opcode[rows]] & ~decoded.is_server[rows])
