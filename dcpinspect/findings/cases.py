"""Words findings: makes one of each heap of occurrences, and one of several heaps of a rule."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from dcpinspect.arrays import unique
from dcpinspect.findings.finding import Finding, MessagePlace, captured, ranges
from dcpinspect.findings.heaps import MOST_ADVICE, Heap, as_rows
from dcpinspect.findings.rule import Rule
from dcpinspect.text import counted, listed

MOST_PLACES = 24
"""Messages that a finding of several cases names: each case has its turn."""
EACH = re.compile(" on each (vbucket|connection)$")
"""What follows numbers that are the same in every case of a finding, and are of one of these."""
FEW = 3
"""Values that differ between the cases of a finding, and are named."""
_VALUE = re.compile(
    r"""\d[\d.,]* (?:ms|s|min|h|days)\b|0x[0-9a-f]+|"[^"]*"|[^\s,;:()]*\d[^\s;()]*[^\s,;:()]|\d"""
)
"""What differs between two cases of the same thing: times, numbers, addresses, names in quotes."""
_COLLECTIONS = re.compile(r"\bcollection(?= 0x[0-9a-f]+, 0x)")
_LENGTH = re.compile(r"\d (?:ms|s|min|h|days)\b")
_NUMBER = re.compile(r"\d+|\d{1,3}(,\d{3})+")
_NOUNS = re.compile(r" [a-z]+s\b")
"""What a number counts, after it: several of that."""
_SEVERAL = re.compile(r"# (\w+?)s\b")
"""A place for a number and its noun, in the text of a rule."""
_COUNTED = re.compile(r"\b(\d[\d,]*) (\w+?)s?\b")
"""A number and its noun."""


def case_of(heap: Heap, rule: Rule) -> Finding:
    """Returns the finding of one heap."""
    first = heap.first
    evidence = heap.message_places
    latest = heap.last or heap.shown[-1].places
    return Finding(
        rule=first.rule,
        severity=first.severity,
        cause=first.cause,
        whose=first.whose,
        message=first.message,
        next=_advice([heap]) or rule.next,
        connections=tuple(sorted({first.connection, *first.connections}))
        if first.connection > 0
        else (),
        vbuckets=first.vbuckets
        if first.vbucket is None
        else tuple(sorted({first.vbucket, *first.vbuckets})),
        sid=first.sid,
        places=evidence,
        seqnos=first.seqnos,
        first_time_ns=heap.first_time_ns,
        last_time_ns=heap.last_time_ns,
        count=heap.count,
        left_out=heap.count
        - sum(max(1, min(shown.count, len(shown.places))) for shown in heap.shown)
        - bool(heap.last)
        + heap.unnamed,
        facts=first.facts,
        clients=(first.client,) if first.client is not None else (),
        latest=latest[0] if latest else None,
        rows=unique(as_rows(heap.rows)),
        over="unknown" if first.is_over is None else "recovered" if first.is_over else "open",
    )


def _advice(heaps: list[Heap]) -> str | None:
    """What to do, vbucket by vbucket and row by row where it differs; None where it differs too
    much, or the rule says it.
    """
    heaps_of_advice: dict[str | None, list[Heap]] = {}
    rows_of_advice: dict[str | None, list[int]] = {}
    for heap in heaps:
        for advice_text, message_place in heap.advice.items():
            heaps_of_advice.setdefault(advice_text, []).append(heap)
            rows = rows_of_advice.setdefault(advice_text, [])
            rows += [message_place.row] if message_place is not None else []
    different = set(heaps_of_advice)
    if len(different) == 1 or None in different or len(different) > MOST_ADVICE:
        return different.pop() if len(different) == 1 else None
    # one vbucket of one connection has several pieces of advice: only rows tell them apart
    is_by_row = any(len(heap.advice) > 1 for heap in heaps) and all(rows_of_advice.values())
    vbuckets = [
        vbucket
        for heaps_of_text in heaps_of_advice.values()
        for vbucket in {heap.first.vbucket for heap in heaps_of_text}
    ]
    # else a vbucket has two pieces of advice, each on another connection
    is_clear = is_by_row or len(vbuckets) == len(set(vbuckets))
    texts = []
    for advice_text, heaps_of_text in heaps_of_advice.items():
        row = _rows_in_words(rows_of_advice[advice_text]) if is_by_row else ""
        where = (
            _where(heaps_of_text, heaps_of_advice.values(), by_connection=not is_clear)
            if len(heaps) > 1
            else ""
        )
        label = ", ".join(filter(None, (where, row)))
        texts.append(f"{label}: {advice_text}" if label else f"{advice_text}")
    return "; ".join(texts)


def _rows_in_words(rows: Sequence[int]) -> str:
    """Returns the first of some rows, and how many more there are."""
    return f"row{'s' if len(rows) > 1 else ''} {listed([*map(str, rows)], FEW)}"


def _where(
    heaps: Sequence[Heap], divisions: Collection[Sequence[Heap]], *, by_connection: bool
) -> str:
    """Where some heaps are, such as ``vb 7–8, connection 1 and vb 9, connection 2``; how many they
    are if that is too much to name.

    ``divisions``: all heaps, of which these are one part.
    """
    if not by_connection and all(heap.first.vbucket is not None for heap in heaps):
        return (
            "vb "
            f"{ranges(sorted({heap.first.vbucket for heap in heaps if heap.first.vbucket is not None}))}"
        )
    pairs = [
        pair
        for division in divisions
        for pair in {(heap.first.connection, heap.first.vbucket) for heap in division}
    ]
    # else one stream-id of a vbucket has other advice than another one
    is_clear = len(pairs) == len(set(pairs))
    vbuckets_of_stream: dict[tuple[int, int | None], set[int]] = defaultdict(set)
    for heap in heaps:
        vbuckets = vbuckets_of_stream[heap.first.connection, None if is_clear else heap.first.sid]
        if heap.first.vbucket is not None:
            vbuckets.add(heap.first.vbucket)
    same: dict[tuple[tuple[int, ...], int | None], list[int]] = defaultdict(list)
    for (connection, sid), vbuckets in sorted(
        vbuckets_of_stream.items(), key=lambda item: (item[0][0], item[0][1] or 0)
    ):
        same[tuple(sorted(vbuckets)), sid].append(connection)
    if len(same) > FEW:
        return counted(len(heaps), "case")
    labels = []
    for (vbucket_numbers, sid), connections in same.items():
        names = (
            f"vb {ranges(vbucket_numbers)}{'' if sid is None else f' sid {sid}'}"
            if vbucket_numbers
            else ""
        )
        labels.append(
            ", ".join(
                filter(
                    None, (names, f"connection {ranges(connections)}" if connections[0] > 0 else "")
                )
            )
        )
    return " and ".join(filter(None, labels))


def together(members: list[tuple[Heap, Finding]], rule: Rule) -> Finding:
    """One finding of several cases."""
    members = sorted(
        members,
        key=lambda member: (
            member[0].message_places[:1],
            member[1].connections,
            member[1].vbuckets,
        ),
    )
    heaps, cases = [heap for heap, _ in members], tuple(case for _, case in members)
    first_case = cases[0]
    vbuckets = sorted({vbucket for case in cases for vbucket in case.vbuckets})
    connections = sorted({number for case in cases for number in case.connections})
    sids = {case.sid for case in cases}
    first = min((case.first_time_ns for case in cases if case.first_time_ns), default=0)
    last = max(case.last_time_ns for case in cases)
    messages = [case.message for case in cases]
    summary = added_up(messages) if rule.adds_up else in_common(messages, heaps[0].first.shared)
    is_by_connection = not vbuckets and len(connections) == len(cases) > 1
    noun = "vbucket" if len(vbuckets) > 1 else "connection" if is_by_connection else ""
    is_of_each = bool(noun) and rule.of_each and summary == messages[0]
    on = (
        [f"{'each of ' * is_of_each}{len(vbuckets):,} vbuckets"]
        if len(vbuckets) > 1
        else [f"vb {vbuckets[0]}"]
        if vbuckets
        else []
    )
    each = "each of " * (is_of_each and is_by_connection)
    scope = [f"{each}{len(connections):,} connections"] if len(connections) > 1 else []
    several = vbuckets if len(vbuckets) > 1 else connections
    listed = f": {ranges(several)}" if len(several) > 1 else ""
    # a second length of time would be taken for the first
    is_said = not first or _LENGTH.search(summary) is not None
    time = (
        "" if is_said else f" in {duration(last - first)}" if last - first >= 1_000 else " at once"
    )
    overs = {case.over for case in cases}
    advice = {case.next for case in cases}
    evidence, left_out = places_of(cases)
    return replace(
        first_case,
        next=_advice(heaps) or (advice.pop() if len(advice) == 1 else rule.next),
        what=summary + f" on each {noun}" * is_of_each,
        message=f"{summary} on {' of '.join(on + scope)}{time}{listed}" if on + scope else summary,
        connections=tuple(connections),
        vbuckets=tuple(vbuckets),
        sid=sids.pop() if len(sids) == 1 else None,
        places=evidence,
        left_out=left_out,
        seqnos=tuple(dict.fromkeys(seqno for case in cases for seqno in case.seqnos)),
        first_time_ns=first,
        last_time_ns=last,
        count=sum(case.count for case in cases),
        clients=tuple(sorted({client for case in cases for client in case.clients})),
        over=overs.pop() if len(overs) == 1 else "open" if "open" in overs else "unknown",
        over_place=max(captured(case.over_place for case in cases), default=None),
        facts={},
        rows=unique(np.concatenate([case.rows for case in cases])),
        cases=cases,
    )


def places_of(cases: Sequence[Finding]) -> tuple[tuple[MessagePlace, ...], int]:
    """Messages that show cases, some of each where they are too many, case by case; and how many
    more there are.
    """
    turns = zip_longest(*(case.places for case in cases))
    in_turn = list(
        dict.fromkeys(
            message_place for turn in turns for message_place in turn if message_place is not None
        )
    )
    named = set(in_turn[:MOST_PLACES])
    evidence = tuple(
        dict.fromkeys(
            message_place
            for case in cases
            for message_place in case.places
            if message_place in named
        )
    )
    return evidence, len(in_turn) - len(named) + sum(case.left_out for case in cases)


def shape(message: str) -> str:
    """A message without what differs between two cases of the same thing."""
    return _SEVERAL.sub(r"# \1", _VALUE.sub("#", message))


def in_common(messages: Sequence[str], shared: str | None) -> str:
    """What messages of one shape say together: ``shared`` where they differ, else with the values,
    if they are few, or the range of numbers.
    """
    # one with plurals, if there is one
    first = max(messages, key=lambda message: len(_VALUE.sub("#", message)))
    if all(message == first for message in messages):
        return first
    if shared is not None:
        return shared
    values = [_VALUE.findall(message) for message in messages]
    different: Iterator[set[str]] = iter(
        [
            {message_values[position] for message_values in values}
            for position in range(min(map(len, values)))
        ]
    )

    def named(value: re.Match[str]) -> str:
        distinct = sorted(next(different, ()), key=lambda value_text: (len(value_text), value_text))
        if len(distinct) == 1:
            return distinct[0]
        if distinct and all(map(_NUMBER.fullmatch, distinct)):  # the shorter is the lower
            if _NOUNS.match(first, value.end()):
                return f"{distinct[0]} to {distinct[-1]}"
            if len(distinct) > FEW:
                return f"{distinct[0]}–{distinct[-1]}"
        lengths = sorted(filter(None, map(_length, distinct)))
        if distinct and len(lengths) == len(distinct):
            (least, unit), (most, most_unit) = lengths[0][1:], lengths[-1][1:]
            return (
                f"{least}–{most} {unit}"
                if unit == most_unit
                else f"{least} {unit} to {most} {most_unit}"
            )
        return ", ".join(distinct) if 0 < len(distinct) <= FEW else "several"

    text = _COLLECTIONS.sub("collections", _VALUE.sub(named, first))
    return text.replace("collection several", "several collections")


def _length(text: str) -> tuple[float, str, str] | None:
    """Returns a length of time that ``duration`` wrote: in nanoseconds, and its number and unit."""
    amount, _, unit = text.partition(" ")
    nanoseconds = next((size for _, size, name, _ in _UNITS if name == unit), None)
    if nanoseconds is None:
        return None
    return float(amount.replace(",", "")) * nanoseconds, amount, unit


def added_up(messages: Sequence[str]) -> str:
    """What messages of one shape say together, if all their numbers count something."""
    totals = map(
        sum,
        zip(
            *([number(match[1]) for match in _COUNTED.finditer(message)] for message in messages),
            strict=True,
        ),
    )
    return _COUNTED.sub(lambda match: counted(next(totals), match[2]), messages[0])


def number(text: str) -> int:
    """The number that ``counted`` wrote."""
    return int(text.replace(",", ""))


_UNITS = (
    (172_800_000_000_000, 86_400_000_000_000, "days", 0),
    (7_200_000_000_000, 3_600_000_000_000, "h", 1),
    (120_000_000_000, 60_000_000_000, "min", 0),
    (1_000_000_000, 1_000_000_000, "s", 1),
    (10_000_000, 1_000_000, "ms", 0),
    (1_000_000, 1_000_000, "ms", 1),
    (0, 1_000_000, "ms", 3),
)
"""From how many nanoseconds on a length of time is told in which unit, with how many decimals."""


def duration(nanoseconds: float, *, is_exact: bool = False) -> str:
    """A length of time as people say it. With two clocks, nothing takes less than no time.

    ``is_exact``: somebody chose it, as an interval: it has four digits, in a unit of which it is a
    whole number, if it is not short.
    """
    span_ns = max(nanoseconds, 0)
    _, unit, name, digits = next(
        row
        for row in _UNITS
        if span_ns >= row[0] and not (is_exact and row[1] > 10**9 and span_ns % row[1])
    )
    number = span_ns / unit
    if is_exact and number >= 1 and number % 1 == 0:
        return f"{number:,.0f} {name}"
    if is_exact and 1e-4 <= number < 10_000:
        return f"{number:.4g} {name}"
    return f"{number:,.{digits}f} {name}"
