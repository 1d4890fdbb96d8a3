"""Occurrences put together: one finding for one thing, however often, on however many vbuckets and connections it happened.

Memory grows with (rule, severity, cause, connection, vbucket, stream-id), not with occurrences: of each the first three and the last are
kept. Of one connection there are up to ``MOST_APART`` vbuckets and stream-ids: peers may name any. Who wants to mark each message gets
the rows of all, up to ``MOST_ROWS``, of which the rule with the most forgets the earliest.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Self

import numpy as np

from dcpinspect.findings.candidates import Candidates
from dcpinspect.findings.finding import Finding, Key, Occurrence, Place, ranges
from dcpinspect.findings.rule import SEVERITIES, Rule
from dcpinspect.protocol.columns import NO_ROWS, Mask, Rows
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch

SHOWN = 3
"""Occurrences of a finding whose messages are named, besides the last one."""
MOST_PLACES = 24
"""Messages that a finding of several cases names: each case has its turn."""
MOST_ADVICE = 3
"""Different things to do that one finding names."""
MOST_PAST = 1000
"""Cases of one kind on connections that have left that are kept: the first and the latest; it counts for those between."""
FEW = 3
"""Values that differ between the cases of a finding, and are named."""
MANY_VBUCKETS = 4
"""So many vbuckets at once are no accident of a few."""
MOST_APART = 1 << 12
"""Vbuckets and stream-ids of a connection that are told apart in one thing; those that come later are told together."""
MOST_ROWS = 1 << 21
"""Rows that are kept for who wants all: 16 MiB."""
_VALUE = re.compile(r"""\d[\d.,]* (?:us|ms|s|min|h)\b|0x[0-9a-f]+|"[^"]*"|[^\s,;:()]*\d[^\s;()]*[^\s,;:()]|\d""")
"""What differs between two cases of the same thing: times, numbers, addresses, names in quotes."""
_SEVERAL = re.compile(r"# (\w+?)s\b")
"""How many there were of something."""

_OF_VBUCKET = opcodes_with(Trait.VBUCKET)


def place_of(batch: MessageBatch, index: int) -> Place:
    """Where a message of a batch is."""
    return Place(
        int(batch.row[index]),
        int(batch.connection[index]),
        DIRECTIONS[int(batch.direction[index])],
        int(batch.stream_offset[index]),
        int(batch.last_file[index]),
        int(batch.last_frame[index]),
        int(batch.time_ns[index]),
    )


@dataclass(slots=True)
class _Heap:
    """Occurrences of one key so far."""

    shown: list[Occurrence]
    """The first ones, without the rows of all."""
    last: tuple[Place, ...] = ()
    count: int = 0
    unnamed: int = 0
    """Messages of single occurrences that are not among their places."""
    last_time_ns: int = 0
    cause: Key | None = None
    """What they are effects of."""
    advice: dict[str | None, Place | None] = field(default_factory=dict)
    """What to do, and the message that first led to it; one more than are named tells that there are too many."""
    rows: array[int] | None = None
    """Of the messages that show it; None where nobody wants them."""

    @property
    def first(self) -> Occurrence:
        """What the finding says is what this one says."""
        return self.shown[0]

    def changed(self, **changes: Any) -> _Heap:
        """The same with other values in its occurrences."""
        return replace(self, shown=[replace(one, **changes) for one in self.shown])

    def add(self, occurrence: Occurrence) -> None:
        if len(self.shown) < SHOWN:
            self.shown.append(replace(occurrence, rows=()))
        else:
            self.last = occurrence.places
        if len(self.advice) <= MOST_ADVICE:
            self.advice.setdefault(occurrence.next, next(iter(occurrence.places), None))
        if self.rows is not None:
            shown = occurrence.rows if len(occurrence.rows) else [place.row for place in occurrence.places[:1]]
            self.rows.frombytes(np.asarray(shown, np.int64).tobytes())
        self.count += occurrence.count
        if len(occurrence.rows) > occurrence.count:
            self.unnamed += len({*occurrence.rows} - {place.row for place in occurrence.places})
        times = [place.time_ns for place in occurrence.places]
        self.last_time_ns = max(self.last_time_ns, occurrence.last_time_ns, *times, 0)

    @classmethod
    def joined(cls, heaps: Sequence[_Heap]) -> _Heap:
        """Of several that were gathered from different messages each, in any order, and without the rows of all."""
        in_order = sorted(heaps, key=lambda heap: heap.first.places[:1])
        count = sum(heap.count for heap in heaps)
        found = replace(
            in_order[0],
            shown=sorted((one for heap in in_order for one in heap.shown), key=lambda one: one.places[:1])[:SHOWN],
            last=max((places for heap in in_order for places in heap.named), default=()) if count > SHOWN else (),
            count=count,
            unnamed=sum(heap.unnamed for heap in heaps),
            last_time_ns=max(heap.last_time_ns for heap in heaps),
            advice={},
        )
        for what, place in sorted((one for heap in in_order for one in heap.advice.items()), key=lambda one: one[1].row if one[1] else 0):
            if len(found.advice) <= MOST_ADVICE:
                found.advice.setdefault(what, place)
        return found

    def only_rows(self, kept: Callable[[Rows], Mask]) -> _Heap:
        """The same with some of the rows."""
        if self.rows is None:
            return self
        rows = _rows(self.rows)
        return replace(self, rows=array("q", rows[kept(rows)].tobytes()))

    def without(self, is_out: Callable[[Place], bool]) -> _Heap | None:
        """The same without the occurrences that a message shows which is out; None when none is left. Rows stay."""
        shown = [one for one in self.shown if not one.places or not is_out(one.places[0])]
        is_last_out = bool(self.last) and is_out(self.last[0])
        if len(shown) == len(self.shown) and not is_last_out:
            return self
        if not shown:
            return None
        left = len(shown) if is_last_out else self.count - len(self.shown) + len(shown)
        advice = {what: place for what, place in self.advice.items() if place is None or not is_out(place)}
        return replace(self, shown=shown, last=() if is_last_out else self.last, count=left, advice=advice)

    @property
    def span(self) -> tuple[int, int]:
        """Times of the first message and of the last."""
        return min((place.time_ns for place in self.places if place.time_ns), default=0), self.last_time_ns

    @property
    def named(self) -> list[tuple[Place, ...]]:
        """The messages of each occurrence that has any, the offender first."""
        return [places for places in (*(one.places for one in self.shown), self.last) if places]

    @property
    def places(self) -> tuple[Place, ...]:
        """Evidence, each message once."""
        return tuple(dict.fromkeys(place for places in self.named for place in places))


def renumbered_place(place: Place, connections: Rows) -> Place:
    """The same with another number of its connection."""
    return replace(place, connection=int(connections[place.connection]))


def renumbered_places(places: tuple[Place, ...], connections: Rows) -> tuple[Place, ...]:
    """The same of several."""
    return tuple(renumbered_place(place, connections) for place in places)


class Collector:
    """Gathers what rules find while a capture is read; ``findings`` puts it in order."""

    def __init__(self, rules: Mapping[str, Rule], owns: Mapping[str, Collection[str]] | None = None, *, keeps_rows: bool = False) -> None:
        """``rules``: those that are wanted; occurrences of others are dropped. ``owns``: by rule, those whose findings are its effects.

        ``keeps_rows``: findings have the rows of all messages that show them.
        """
        self._rules = rules
        self._keeps_rows = keeps_rows
        self._owns = owns or {}
        self._heaps: dict[tuple[*Key, Key | None], _Heap] = {}
        """By what occurrences share, and what they are effects of."""
        self._apart: Counter[tuple[object, ...]] = Counter()
        """By rule, severity, cause and connection: heaps of vbuckets that there were."""
        self._causes: dict[tuple[str, int], Key] = {}
        """By rule and stream: what findings of it are effects of."""
        self._past: dict[tuple[*Key, Key | None], tuple[_Heap, Finding]] = {}
        """By the same, what was found on connections that have left, as it was told last."""
        self.explained: set[int] = set()
        """Connections of which a rule says why they were closed."""

    def add(self, occurrence: Occurrence) -> None:
        """One occurrence."""
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
            heap = self._heaps[(*occurrence.key, cause)] = _Heap([], cause=cause, rows=rows)
        heap.add(occurrence)
        if occurrence.closes is not None:
            self.explained.add(occurrence.closes)

    def _cause(self, occurrence: Occurrence) -> Key | None:
        """What an occurrence is an effect of: by the table, and never of what is milder."""
        cause = occurrence.effect_of
        if cause is None and occurrence.stream is not None:
            cause = self._causes.get((occurrence.rule, occurrence.stream))
        if cause is None or occurrence.rule not in self._owns.get(cause[0], ()):
            return None
        return cause if SEVERITIES.index(cause[1]) <= SEVERITIES.index(occurrence.severity) else None

    def add_batch(self, batch: MessageBatch, found: Iterable[Candidates]) -> None:
        """All that was found among the messages of a batch: counted in bulk, explained where they are shown."""
        by_rule: dict[str, list[Candidates]] = {}
        for candidates in found:
            if candidates.rule in self._rules and len(candidates.rows):
                by_rule.setdefault(candidates.rule, []).append(candidates)
        for name, several in by_rule.items():
            rule = self._rules[name]
            for severity in {candidates.severity or rule.severity: None for candidates in several}:
                same = [candidates for candidates in several if (candidates.severity or rule.severity) == severity]
                self._add_rows(batch, rule, severity, same)
        if self._keeps_rows:
            self._forget_rows()

    def _forget_rows(self) -> None:
        """Where too many rows are kept, the rule that has the most forgets the earlier half, until they are few enough."""
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

    def _add_rows(self, batch: MessageBatch, rule: Rule, severity: Severity, several: Sequence[Candidates]) -> None:
        """What one rule found of one severity, in order of rows wherever it was found, so that nothing depends on batches."""
        rows = np.concatenate([found.rows for found in several])
        source = np.repeat(np.arange(len(several)), [len(found.rows) for found in several])
        if len(several) > 1:
            by_row = np.argsort(rows, kind="stable")
            rows, source = rows[by_row], source[by_row]
        vbucket = np.where(_has_vbucket(batch, rows), batch.vbucket.values[rows].astype(np.int64), -1)
        sids = batch.decoded.sid.take(rows)
        sid = sids.values.astype(np.int64) if sids.valid is None else np.where(sids.valid, sids.values.astype(np.int64), -1)
        keys, inverse = np.unique(np.stack([batch.connection[rows], vbucket, sid]), axis=1, return_inverse=True)
        order = np.argsort(inverse.reshape(-1), kind="stable")
        bounds = np.searchsorted(inverse.reshape(-1)[order], np.arange(keys.shape[1] + 1))
        for number in range(keys.shape[1]):
            mine = order[bounds[number] : bounds[number + 1]]
            self._add_same(batch, rule, severity, several, source[mine], rows[mine], keys[:, number].tolist())

    def _add_same(
        self, batch: MessageBatch, rule: Rule, severity: Severity, several: Sequence[Candidates], source: Rows, rows: Rows, key: list[int]
    ) -> None:
        """The rows of one key; ``source``: which of ``several`` found each of them."""
        connection, vbucket, sid = key
        known = self._heaps.get((rule.id, severity, None, connection, vbucket if vbucket >= 0 else None, sid if sid >= 0 else None, None))
        room = SHOWN - (len(known.shown) if known is not None else 0)
        chosen = list(range(min(max(room, 0), len(rows))))
        if len(rows) > len(chosen):
            chosen.append(len(rows) - 1)
        for place in chosen:
            row, found, is_last = int(rows[place]), several[int(source[place])], place == chosen[-1]
            occurrence = Occurrence(
                rule.id,
                severity,
                self._words(batch, found, row, severity),
                connection,
                (place_of(batch, row), *(found.others(row) if found.others is not None else ())),
                vbucket if vbucket >= 0 else None,
                sid if sid >= 0 else None,
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
            return found.words(row)
        problems = [problem for problem in batch.annotate(row).problems if problem.rule == found.rule]
        return min(problems, key=lambda problem: problem.severity != severity).reason if problems else found.rule

    def __len__(self) -> int:
        return len(self._heaps)

    def __getstate__(self) -> dict[str, Any]:
        """What was gathered."""
        return {"heaps": self._heaps}

    def __setstate__(self, gathered: dict[str, Any]) -> None:
        self.__init__({})  # type: ignore[misc] # there is nothing yet
        self._heaps = gathered["heaps"]

    @classmethod
    def joined(
        cls, rules: Mapping[str, Rule], owns: Mapping[str, Collection[str]], parts: Sequence[Collector], connections: Sequence[Rows]
    ) -> Self:
        """What was gathered by these rules in readings of different connections.

        ``connections``: by reading, the numbers of its own among all.
        """
        whole = cls(rules, owns)
        for part, of in zip(parts, connections, strict=True):
            for (rule, severity, cause, connection, vbucket, sid, _), heap in part._heaps.items():
                number = int(of[connection])
                advice = {what: None if place is None else renumbered_place(place, of) for what, place in heap.advice.items()}
                shown = [replace(one, connection=number, places=renumbered_places(one.places, of)) for one in heap.shown]
                whole._heaps[rule, severity, cause, number, vbucket, sid, None] = replace(
                    heap, shown=shown, last=renumbered_places(heap.last, of), advice=advice
                )
        return whole

    def include(self, other: Collector) -> None:
        """What was gathered from other messages of the same connections, which are numbered alike."""
        for key, heap in other._heaps.items():
            self._heaps[key] = _Heap.joined([heap, self._heaps[key]]) if key in self._heaps else heap

    def found_again(self, found: Collector, silences: Mapping[str, Collection[str]], of_connection: Mapping[str, Collection[str]]) -> None:
        """``found``: what is found once something has left; what is kept of the same does not count that again."""
        for heap in found._heard(silences, of_connection):
            key = (*heap.first.key, heap.cause)
            if key in self._past:
                old, case = self._past.pop(key)
                if case.count > heap.count:
                    self._past[key] = old, replace(case, count=case.count - heap.count)

    @property
    def past(self) -> Collection[tuple[_Heap, Finding]]:
        """What is kept of connections that have left."""
        return self._past.values()

    def copy(self) -> Collector:
        """A collector that goes on by itself."""
        return self.only(self._rules)

    def only(self, rules: Mapping[str, Rule]) -> Collector:
        """A collector of these rules that goes on by itself."""
        other = Collector(rules, self._owns, keeps_rows=self._keeps_rows)
        other._heaps = {
            key: replace(heap, shown=list(heap.shown), advice=dict(heap.advice), rows=heap.rows and heap.rows[:])
            for key, heap in self._heaps.items()
            if key[0] in rules
        }
        other._apart = Counter({kind: count for kind, count in self._apart.items() if kind[0] in rules})
        other._past = {key: told for key, told in self._past.items() if key[0] in rules}
        return other

    def let_go(
        self, connections: Collection[int], vbuckets: Collection[tuple[int, int | None]], told: Sequence[tuple[_Heap, Finding]]
    ) -> None:
        """These connections leave, and streams of these vbuckets of others (connection, vbucket).

        ``told``: the cases of all. What was found on those that leave, or seen with their help, is kept as it is.
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
        """Makes notes of a rule's warnings on these connections and vbuckets."""
        for key, heap in self._heaps.items():
            if key[0] == rule and (key[3], key[4]) in places and heap.first.severity == "warning":
                self._heaps[key] = heap.changed(severity="note")

    def drop(self, rule: str, connections: Collection[int]) -> None:
        """Drops a rule's warnings on these connections."""
        self._heaps = {
            key: heap
            for key, heap in self._heaps.items()
            if key[0] != rule or key[3] not in connections or heap.first.severity != "warning"
        }

    def offenders(self) -> set[int]:
        """Rows of the messages that anything worse than a note was found in."""
        worse = [heap for heap in self._heaps.values() if heap.first.severity != "note"]
        return {places[0].row for heap in worse for places in heap.named}

    def found(self, rules: Collection[str]) -> list[tuple[Key, Finding]]:
        """What these rules have found by now, vbucket by vbucket, whether another rule silences it or not."""
        return [(heap.first.key, self._one(heap)) for key, heap in self._heaps.items() if key[0] in rules]

    def findings(
        self,
        silences: Mapping[str, Collection[str]],
        of_connection: Mapping[str, Collection[str]] | None = None,
        *,
        apart: bool = False,
        judged: Callable[[Finding], Finding | None] = lambda case: case,
    ) -> list[Finding]:
        """What was found, worst first and what costs somebody before what does not, then by the first message that shows it.

        ``silences``: by rule, those that have nothing to add about a message that it speaks of; ``of_connection``: those that have nothing
        to add about its connection in the time that it speaks of. ``apart``: each vbucket of each connection by itself. ``judged``: says
        of one case what the messages around it tell; None where it is not wanted.
        """
        heard = self.cases(silences, of_connection, judged=judged)
        causes = {heap.first.key: "" for heap, _ in heard if heap.cause is None}
        """By the cause of effects: the id of the finding that it came to be in."""
        own = self._grouped(((heap, one, None) for heap, one in heard if heap.cause not in causes), apart=apart)
        for found, heaps in own:
            causes.update(dict.fromkeys((heap.first.key for heap in heaps), found.id))
        effects = self._grouped(((heap, one, causes[heap.cause]) for heap, one in heard if heap.cause in causes), apart=apart)
        over = {found.id: found.over for found, _ in own}
        out = [found for found, _ in own]
        for found, _ in effects:  # it is over when its cause is
            assert found.effect_of is not None
            out.append(replace(found, next="", over=over[found.effect_of], over_row=None))
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
    ) -> list[tuple[_Heap, Finding]]:
        """What was found on each vbucket of each connection; also on those that have left, unless it is found now. As ``findings``."""
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
            now.append((one, self._one(one)))
        told = [*past.values(), *now]
        judgements = ((heap, judged(case)) for heap, case in told)
        return [(heap, one) for heap, one in judgements if one is not None]

    def _grouped(self, several: Iterable[tuple[_Heap, Finding, str | None]], *, apart: bool) -> list[tuple[Finding, list[_Heap]]]:
        """One finding for one thing, and what it was made of; ``several``: each with the id of its cause."""
        shared: dict[tuple[object, ...], list[tuple[_Heap, Finding]]] = {}
        for number, (heap, case, cause) in enumerate(several):
            first = heap.first
            kind: object = number if apart else (first.shared or shape(first.message), bool(case.vbuckets))
            shared.setdefault((first.rule, first.cause, case.severity, cause, kind), []).append((heap, replace(case, effect_of=cause)))
        return [(self._many(members) if len(members) > 1 else members[0][1], [heap for heap, _ in members]) for members in shared.values()]

    def _heard(self, silences: Mapping[str, Collection[str]], of_connection: Mapping[str, Collection[str]]) -> list[_Heap]:
        """The heaps without the occurrences that a more specific rule silences."""
        spoken: dict[str, set[int]] = {}
        speakers: dict[str, list[_Heap]] = {}
        for heap in self._heaps.values():
            for silent in silences.get(heap.first.rule, ()):
                spoken.setdefault(silent, set()).update(one.places[0].row for one in heap.shown if one.places)
                speakers.setdefault(silent, []).append(heap)
        rows_of = {silent: np.concatenate([_rows(heap.rows) for heap in heaps]) for silent, heaps in speakers.items()}
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

    def _one(self, heap: _Heap) -> Finding:
        first = heap.first
        places = heap.places
        latest = heap.last or heap.shown[-1].places
        return Finding(
            rule=first.rule,
            severity=first.severity,
            cause=first.cause,
            message=first.message,
            next=self._next([heap]) or self._rules[first.rule].next,
            connections=(first.connection,) if first.connection > 0 else (),
            vbuckets=first.vbuckets if first.vbucket is None else (first.vbucket,),
            sid=first.sid,
            places=places,
            seqnos=first.seqnos,
            first_time_ns=min((place.time_ns for place in places if place.time_ns), default=first.time_ns),
            last_time_ns=heap.last_time_ns,
            count=heap.count,
            left_out=heap.count - len(heap.shown) - bool(heap.last) + heap.unnamed,
            facts=first.facts,
            clients=(first.client,) if first.client is not None else (),
            latest=latest[0] if latest else None,
            rows=_rows(heap.rows) if heap.rows is None else np.unique(_rows(heap.rows)),
            over="unknown" if first.is_over is None else "recovered" if first.is_over else "open",
        )

    @staticmethod
    def _next(heaps: list[_Heap]) -> str | None:
        """What to do, vbucket by vbucket and row by row where it differs; None where it differs too much, or the rule says it."""
        found: dict[tuple[str | None, str], list[_Heap]] = {}
        for heap in heaps:
            for what, place in heap.advice.items():
                row = f"row {place.row}" if place is not None and len(heap.advice) > 1 else ""
                found.setdefault((what, row), []).append(heap)
        different = {what for what, _ in found}
        if len(different) == 1 or None in different or len(found) > MOST_ADVICE:
            return different.pop() if len(different) == 1 else None
        parts = []
        for (what, row), of in found.items():
            vbuckets = {heap.first.vbucket for heap in of if heap.first.vbucket is not None}
            connections = f"connection {ranges(sorted({heap.first.connection for heap in of}))}" if of[0].first.connection > 0 else ""
            where = f"vb {ranges(sorted(vbuckets))}" if vbuckets else connections
            label = ", ".join(filter(None, (where if len(heaps) > 1 else "", row)))
            parts.append(f"{label}: {what}" if label else f"{what}")
        return "; ".join(parts)

    def _many(self, members: list[tuple[_Heap, Finding]]) -> Finding:
        members = sorted(members, key=lambda member: (member[0].places[:1], member[1].connections, member[1].vbuckets))
        heaps, cases = [heap for heap, _ in members], tuple(case for _, case in members)
        whole = cases[0]
        vbuckets = sorted({vbucket for case in cases for vbucket in case.vbuckets})
        connections = sorted({number for case in cases for number in case.connections})
        sids = {case.sid for case in cases}
        first = min((case.first_time_ns for case in cases if case.first_time_ns), default=0)
        last = max(case.last_time_ns for case in cases)
        what = in_common([case.message for case in cases], heaps[0].first.shared)
        on = [f"{len(vbuckets)} vbuckets"] if len(vbuckets) > 1 else [f"vb {vbuckets[0]}"] if vbuckets else []
        of = [f"{len(connections)} connections"] if len(connections) > 1 else []
        listed = ranges(vbuckets if len(vbuckets) > 1 else connections)
        time = f" in {duration((last - first) / 1e9)}" if first else ""
        time = "" if time in what else time  # the cases may say it
        overs = {case.over for case in cases}
        places, left_out = places_of(cases)
        return replace(
            whole,
            next=self._next(heaps) or self._rules[whole.rule].next,
            what=what,
            message=f"{what} on {' of '.join(on + of)}{time}: {listed}" if on + of else what,
            connections=tuple(connections),
            vbuckets=tuple(vbuckets),
            sid=sids.pop() if len(sids) == 1 else None,
            places=places,
            left_out=left_out,
            seqnos=tuple(dict.fromkeys(seqno for case in cases for seqno in case.seqnos)),
            first_time_ns=first,
            last_time_ns=last,
            count=sum(case.count for case in cases),
            clients=tuple(sorted({client for case in cases for client in case.clients})),
            over=overs.pop() if len(overs) == 1 else "open" if "open" in overs else "unknown",
            over_row=max((case.over_row or 0 for case in cases), default=0) or None,
            facts={},
            rows=np.unique(np.concatenate([case.rows for case in cases])) if self._keeps_rows else NO_ROWS,
            cases=cases,
        )


def _rows(rows: array[int] | None) -> Rows:
    """As they can be counted with; a copy, since nothing can be added to what is looked at."""
    return NO_ROWS if rows is None else np.array(rows, np.int64)


def _outside(rows: Rows, spans: Sequence[tuple[int, int]]) -> Mask:
    """Which rows are in none of the spans, which exclude both ends."""
    found = np.ones(len(rows), np.bool_)
    for low, high in spans:
        found &= (rows <= low) | (rows >= high)
    return found


def places_of(cases: Sequence[Finding]) -> tuple[tuple[Place, ...], int]:
    """Messages that show cases, some of each where they are too many, case by case; and how many more there are."""
    turns = zip_longest(*(case.places for case in cases))
    in_turn = list(dict.fromkeys(place for turn in turns for place in turn if place is not None))
    named = set(in_turn[:MOST_PLACES])
    places = tuple(dict.fromkeys(place for case in cases for place in case.places if place in named))
    return places, len(in_turn) - len(named) + sum(case.left_out for case in cases)


def shape(message: str) -> str:
    """A message without what differs between two cases of the same thing."""
    return _SEVERAL.sub(r"# \1", _VALUE.sub("#", message))


def in_common(messages: Sequence[str], shared: str | None) -> str:
    """What messages of one shape say together: ``shared`` where they differ, else with the values, if they are few."""
    first = messages[0]
    if all(one == first for one in messages):
        return first
    if shared is not None:
        return shared
    values = [_VALUE.findall(one) for one in messages]
    different = iter([list(dict.fromkeys(of[place] for of in values)) for place in range(min(map(len, values)))])

    def named(_: re.Match[str]) -> str:
        known = next(different, ())
        return " or ".join(sorted(known, key=lambda one: (len(one), one))) if 0 < len(known) <= FEW else "several"

    return _VALUE.sub(named, first)


def _has_vbucket(batch: MessageBatch, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Messages that speak of a vbucket, rather than having two bytes there that mean nothing."""
    decoded = batch.decoded
    known = batch.vbucket.valid[rows] if batch.vbucket.valid is not None else np.ones(len(rows), dtype=np.bool_)
    return np.asarray(known & _OF_VBUCKET[decoded.opcode[rows]] & ~decoded.is_server[rows])


def duration(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
