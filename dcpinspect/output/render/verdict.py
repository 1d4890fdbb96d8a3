"""The first line of a report: what was found, in words that can be quoted; or that nothing was
found, and how much was checked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from dcpinspect.capture.encapsulations import UNREAD
from dcpinspect.capture.open import is_left_out
from dcpinspect.capture.pcapng import IMPOSSIBLE_TIME
from dcpinspect.findings.costs import SHARED, Cost
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.outcomes import STILL_OPEN
from dcpinspect.findings.registry import ORDINARY, RULES
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.message_lines import share_of
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.verdicts import are_unopened
from dcpinspect.streams.words import NO_STREAM_END, UNKNOWN_END
from dcpinspect.text import counted

if TYPE_CHECKING:
    from dcpinspect.reading.joining import MergedReading
    from dcpinspect.reading.reading import Reading
    from dcpinspect.tables.record_tables import Records

NOTHING = "nothing wrong"
SELECTED = "in what was asked for"
"""Ends ``NOTHING`` where not all findings were asked for; what was checked is all the same."""
_CALM = "no errors or warnings"
"""What is said in its place where something happened that a user would ask about."""
MOST = 4
"""Number of kinds of problems that are described before the rest is only counted."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """How much was checked."""

    messages: int
    streams: int
    decoded: int
    """Number of bytes in messages."""
    captured: int
    """Number of bytes that were captured, without TLS itself, and without other protocols on ports
    that nobody asked for.
    """
    rules: str = ""
    """What was checked, if not all rules: ``2 rules``."""
    nothing: str = NOTHING
    """Text if nothing worse than notes was found."""
    damage: str = ""
    """What is wrong with the files themselves."""
    lost: int = 0
    """Number of bytes that are missing in the capture."""
    without_dcp: frozenset[int] = frozenset()
    """Connections that carry no DCP, beside others that do."""
    rows: int = 0
    """Number of messages with those of copies, which have rows of their own; 0 without copies."""

    @classmethod
    def from_reading(
        cls,
        reading: Reading | MergedReading,
        rules: Collection[str] = ORDINARY,
        nothing: str = nothing,
        damage: str = "",
    ) -> LookedAt:
        """Returns how much of a reading was checked by these rules."""
        tracker, links = reading.tracker, reading.links
        copies = tracker.left_out(links)
        sums = reading.coverage.without(copies, {}).own_protocol
        rules_text = "" if set(ORDINARY) <= set(rules) else f"{counted(len(rules), 'rule')} asked"
        without = frozenset(
            link.number
            for link in links
            if link.tls is None and not tracker.speaks_dcp(link.number)
        )
        streams = tracker.counted(links)[0].state.known_tables.streams
        return cls(
            reading.messages - tracker.copies.messages_of(copies),
            len(streams) - int(are_unopened(streams).sum()),
            sums["decoded"],
            reading.coverage.plain_bytes(sums),
            rules_text,
            nothing,
            damage,
            sums["missing"] - sums["filled"],
            without if len(without) < len(links) else frozenset(),
            reading.messages if copies else 0,
        )

    def __str__(self) -> str:
        facts = [
            counted(self.messages, "message")
            + (f" ({self.rows:,} rows with copies)" if self.rows else ""),
            counted(self.streams, "stream"),
            f"{share_of(self.decoded, self.captured)} of bytes decoded",
            f"{counted(self.lost, 'byte')} lost" if self.lost else "",
            self.rules,
        ]
        return ", ".join(filter(None, facts))


@dataclass(slots=True)
class _Met:
    """Which clients, vbuckets or connections bear one cost."""

    those: set[tuple[object, ...]] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    """Numbers of connections, for findings that name no vbucket."""
    since_ns: int = 0
    are_over: bool = True
    are_closed: bool = True
    """Whether nobody knows if it is over, because the connection or the stream ended."""

    def add(self, cost: Cost, finding: Finding) -> None:
        for case in finding.case_of_each:
            client = case.clients[0] if case.clients else case.connections
            if cost.of == "client":
                self.those.add((client,))
            elif cost.of == "vbucket" and case.vbuckets:
                self.those.update((client, vbucket) for vbucket in case.vbuckets)
            else:
                self.whole.update(case.connections)
        began = [
            case.first_time_ns
            for case in finding.case_of_each
            if case.over == "open" and case.first_time_ns
        ]
        self.are_over &= finding.over == "recovered"
        self.are_closed &= finding.over == "unknown"
        if finding.over != "recovered" and began:
            self.since_ns = min(self.since_ns or min(began), *began)

    def phrases(self, cost: Cost, *, has_days: bool) -> Iterable[str]:
        since = ""
        if cost.lasts and (self.since_ns or self.are_over):
            day = f"{day_of(self.since_ns)} " if has_days else ""
            since = (
                f" since {day}{clock(self.since_ns)} UTC" if self.since_ns else ", and recovered"
            )
        elif self.are_over and cost == SHARED["unanswered"]:
            since = ", and recovered"
        elif self.are_closed and cost in (SHARED["stalled"], SHARED["unanswered"]):
            since = f" until {'it was' if len(self.whole) == 1 else 'they were'} closed"
        clients, several = ({ends[side] for ends in self.those} for side in (0, -1))
        of_clients = ""
        if len(several) < len(self.those) and all(isinstance(client, str) for client in clients):
            of_clients = (
                f" of {counted(len(clients), 'client')}"  # who have some of the same vbuckets
            )
        for count, bearers in (
            (len(several), counted(len(several), cost.of) + of_clients),
            (len(self.whole), counted(len(self.whole), "connection")),
        ):
            if count:
                yield f"{bearers} {cost.one if count == 1 else cost.many}{since}"


def is_answer(findings: Iterable[Finding], messages: int) -> bool:
    """Returns whether findings answer what is wrong in so many messages: without any message only
    an error does, such as TLS to a port that expects none. A warning does not: status 0 would say
    that all is well.
    """
    return messages > 0 or any(finding.severity == "error" for finding in findings)


def verdict(findings: Sequence[Finding], looked: LookedAt | None = None) -> str:
    """Returns one line about findings, the worst first. The cost of a note is only mentioned if it
    is not over, or if nothing is worse.
    """
    causes, effects = with_their_effects(findings)
    notes = [finding for finding in causes if finding.severity == "note"]
    worse = [finding for finding in causes if finding.severity != "note"]
    damage_ = looked.damage if looked is not None else ""
    if worse:
        joining_notes = [
            note for note in notes if note.over == "open" and _cost_of(note) is not None
        ]
        note_count = len(notes) - len(joining_notes)
        phrases = [
            *_cost_phrases([*worse, *joining_notes], effects),
            damage_,
            counted(note_count, "other note" if joining_notes else "note") if note_count else "",
        ]
    else:
        note_costs = _cost_phrases(notes, effects)
        has_happened = any(
            (finding.whose in ("client", "server") and finding.over != "recovered")
            or (
                finding.rule in RULES
                and (cost := RULES[finding.rule].cost_of(finding.cause, finding.over)) is not None
                and cost.is_usual
            )
            for finding in notes
        )
        nothing = NOTHING if looked is None else looked.nothing
        checked = "" if looked is None else str(looked)
        calm = nothing.replace(NOTHING, _CALM)
        phrases = (
            [
                f"{calm}: {note_costs[0]}",
                *note_costs[1:],
                checked and f"{_before(calm)}{checked}",
                damage_,
            ]
            if has_happened
            else [nothing_in(calm if damage_ else nothing, checked), damage_, *note_costs]
        )
    return " · ".join(filter(None, phrases))


def nothing_in(nothing: str, amount: str) -> str:
    """Says that nothing was found, and in how much, which is empty if nobody knows."""
    preposition = _before(nothing)
    return f"{nothing}{', ' if preposition else ': '}{preposition}{amount}" if amount else nothing


def _before(nothing: str) -> str:
    """Returns what stands before how much was checked: it is not all of it that was asked for."""
    return "of " if nothing.endswith(SELECTED) else ""


def with_their_effects(
    findings: Sequence[Finding],
) -> tuple[list[Finding], dict[str, list[Finding]]]:
    """Returns the findings that stand alone (also those whose cause is not in the list), and the
    effects of each cause by its id.
    """
    ids = {finding.id for finding in findings if finding.effect_of is None}
    causes, effects = [], defaultdict(list)
    for finding in findings:
        if finding.effect_of in ids:
            effects[finding.effect_of].append(finding)
        else:
            causes.append(finding)
    return causes, effects


def damage(reading: Reading) -> str:
    """Returns what is wrong with the captures of a reading, in a few words."""
    return damage_of(
        ((problem.file, problem.what) for problem in reading.capture.problems), reading.last_time_ns
    )


def damage_of(problems: Iterable[tuple[str, str]], last_ns: int | None = None) -> str:
    """Returns what is wrong with captures, in a few words.

    ``problems``: file, and what is wrong there. ``last_ns``: time of the last packet.
    """
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for file, problem in problems:
        by_file[file].append(problem)
    left_out = sum(any(map(is_left_out, of_file)) for of_file in by_file.values())
    cut, unread, timeless = (
        sum(all(words in problem for problem in of_file) for of_file in by_file.values())
        for words in ("cut short", UNREAD, IMPOSSIBLE_TIME)
    )
    damaged = len(by_file) - cut - unread - timeless - left_out
    # a text without times begins in 1970
    has_time = last_ns is not None and last_ns >= 10**9 and len(by_file) == 1
    until = f", the last packet is of {clock(last_ns or 0)} UTC" if has_time else ""
    return " · ".join(
        f"{counted(count, 'file')} {'is' if count == 1 else 'are'} {word}"
        for count, word in (
            (cut, f"cut off{until}"),
            (damaged, "damaged"),
            (unread, "not read whole"),
            (timeless, "without some times"),
            (left_out, "left out"),
        )
        if count
    )


def _cost_of(finding: Finding) -> Cost | None:
    """Returns what a finding costs, if the first line says so."""
    if finding.rule not in RULES:
        return None
    cost = RULES[finding.rule].cost_of(finding.cause, finding.over)
    is_said = (
        finding.severity != "note" or finding.over == "open" or (cost is not None and cost.is_usual)
    )
    return cost if is_said else None


def _borne(finding: Finding, effects: Mapping[str, Sequence[Finding]]) -> Iterator[Finding]:
    """Yields the findings whose costs hold at the end: who gave a loop up does not loop."""
    given_up = [effect for effect in effects.get(finding.id, ()) if effect.rule in STILL_OPEN]
    if not given_up or _vbuckets_of(finding).difference(*map(_vbuckets_of, given_up)):
        yield finding
    yield from given_up


def _vbuckets_of(finding: Finding) -> set[tuple[object, int]]:
    return {(case.clients, vbucket) for case in finding.case_of_each for vbucket in case.vbuckets}


def _cost_phrases(
    findings: Sequence[Finding], effects: Mapping[str, Sequence[Finding]]
) -> list[str]:
    """Returns the costs of findings, in their order; other findings are counted."""
    met: dict[Cost, _Met] = {}
    other_counts: Counter[str] = Counter()
    for finding in chain.from_iterable(_borne(cause, effects) for cause in findings):
        cost = _cost_of(finding)
        if cost is None:
            other_counts[finding.severity] += 1
        else:
            met.setdefault(cost, _Met()).add(cost, finding)
    began = {day_of(finding.first_time_ns) for finding in findings if finding.first_time_ns}
    has_days = len(began) > 1
    phrases = [
        phrase
        for cost, findings_met in met.items()
        for phrase in findings_met.phrases(cost, has_days=has_days)
    ]
    if len(phrases) > MOST:
        phrases = [*phrases[: MOST - 1], f"{len(phrases) - MOST + 1} more kinds of trouble"]
    return phrases + [
        counted(other_counts[severity], f"other {severity}" if met else severity)
        for severity in SEVERITIES
        if other_counts[severity]
    ]


def day_of(time_ns: int) -> str:
    """Returns the day in UTC."""
    return f"{datetime.fromtimestamp(time_ns // 10**9, UTC):%Y-%m-%d}"


def clock(time_ns: int) -> str:
    """Returns the time of day in UTC."""
    return f"{datetime.fromtimestamp(time_ns // 10**9, UTC):%H:%M:%S}"


EARLY = "ended-early"
"""State of a vbucket that its client did not ask to end."""
ENDED = "ended: "
"""Begins what is said of it."""
AFTER = " after a rollback"
"""Ends what is said of a vbucket that was rolled back, and streamed again."""
LETTERS = {
    "behind": "b",
    "lost-something": "G",
    "orphaned": "O",
    "starved-by-flow-control": "W",
    "stalled": "Z",
    "rolled-back": "R",
    "refused": "N",
    "never-answered": "U",
    "never-opened": "M",
    EARLY: "E",
}
"""States that somebody would ask about, with their letters; the others are drawn as blocks."""


def items_text(row: Mapping[str, Any]) -> str:
    """Returns how many items a stream or vbucket received; those of a cache transfer have no seqnos
    to go by.
    """
    cached = row["cached_items"]
    texts = [f"{row['items']:,}"] if row["items"] or not cached else []
    return " and ".join([*texts, *([f"{cached:,} of a cache transfer"] if cached else [])])


_WELL = ("caught-up", "advancing", "backfilling", "ended")


def stood(vbucket: Mapping[str, Any]) -> str:
    """Returns the verdict on a vbucket, a row of their table; of one that ended, how it stood
    before, if that is known; ``rolled-back`` of one that is well, but was rolled back.

    Where a client closed everything at the end, ``ended`` is true of each vbucket, and tells
    nothing.
    """
    state = str(vbucket["before_end"] or vbucket["verdict"])
    return "rolled-back" if vbucket["rollbacks"] and state in _WELL else state


def stood_words(vbucket: Mapping[str, Any]) -> str:
    """Returns the same in words, which say what ended: nobody streams it at the end."""
    before, verdict = vbucket["before_end"], str(vbucket["verdict"])
    words = verdict if before in (None, "rolled-back", verdict) else f"ended {before}"
    is_after = before == "rolled-back" or stood(vbucket) != (before or verdict)
    return f"{words}{AFTER}" if is_after else words


class Standing:
    """How vbuckets stood, and why those ended whose clients did not ask for it."""

    def __init__(self, records: Mapping[str, Records]) -> None:
        self._ends = _newest_ends(records)

    def end_reason(self, vbucket: Mapping[str, Any]) -> str:
        """Returns why the newest stream of a row of their table ended; empty if it did not."""
        return self._end(vbucket)[1]

    def state(self, vbucket: Mapping[str, Any]) -> str:
        """Returns what ``stood`` does, or ``EARLY``."""
        state = stood(vbucket)
        return EARLY if state == "ended" and self._end(vbucket)[2] else state

    def words(self, vbucket: Mapping[str, Any]) -> str:
        """Returns the same in words."""
        words, (_, reason, is_unasked) = stood_words(vbucket), self._end(vbucket)
        verdict, after, rollback = words.partition(AFTER)
        return f"{ENDED}{reason}{after}{rollback}" if is_unasked and verdict == "ended" else words

    def _end(self, vbucket: Mapping[str, Any]) -> _End:
        if vbucket["verdict"] not in _OVER:
            return _NO_END
        ends = (self._ends.get((vbucket["vbucket"], number)) for number in vbucket["connections"])
        return max(filter(None, ends), default=_NO_END)


_End = tuple[int, str, bool]
"""Row of the request and reason of the end of a stream, and whether its client did not ask for it."""
_NO_END: _End = (0, "", False)
_OVER = ("ended", "orphaned")
"""Verdicts on vbuckets whose newest stream ended; a request that was refused beside it is none."""
_EXPECTED_ENDS = ("ok", "closed", *NO_STREAM_END)
"""Why the others ended, unless the server closed their connection."""


def _newest_ends(records: Mapping[str, Records]) -> dict[tuple[int, int], _End]:
    """Returns the end of the newest stream that ended, by vbucket and connection."""
    ends: dict[tuple[int, int], _End] = {}
    streams, links = records.get("streams"), records.get("connections")
    closed_by = dict(links.rows("connection", "closed_by")) if links is not None else {}
    names = ("vbucket", "connection", "open_row", "end_row", "end_reason")
    for vbucket, connection, row, end_row, reason in (
        streams.rows(*names) if streams is not None else ()
    ):
        if reason is None:
            continue
        is_unasked = reason not in _EXPECTED_ENDS
        is_unasked |= reason in NO_STREAM_END and closed_by.get(connection) == "server"
        stream = vbucket, connection
        if reason == UNKNOWN_END and end_row is None:
            reason = "connection-closed, if not before (capture loss)"
        elif reason == NO_STREAM_END[0] and closed_by.get(connection) == "client":
            reason = f"{reason} by the client"
        ends[stream] = max(ends.get(stream, _NO_END), (row or 0, reason, is_unasked))
    return ends


def paint_of(state: str) -> str:
    """Returns the colour of a state."""
    return "kind-end" if state == EARLY else f"verdict-{state}"


def worst_severity(*vbuckets: Mapping[str, Any]) -> Severity | None:
    """Returns the severity of the worst finding about a vbucket, whose clients have a row each;
    notes do not count.
    """
    levels = {
        level for row in vbuckets for level, count in (row["findings"] or {}).items() if count
    }
    return next((level for level in SEVERITIES[:2] if level in levels), None)
