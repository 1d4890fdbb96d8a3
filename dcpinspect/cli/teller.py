"""Tells findings while more of them may come: which, when, how often, and in which words."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from dcpinspect.cli.output import StandardOutput
from dcpinspect.cli.terminal import columns_asked
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import counted, escape, escape_rest, one_line

if TYPE_CHECKING:
    from dcpinspect.capture.recent_packets import RecentPackets
    from dcpinspect.cli.notify import Notifier
    from dcpinspect.findings.finding import Finding, Wanted
    from dcpinspect.output.export.formats import Format
    from dcpinspect.output.export.target import Target
    from dcpinspect.protocol.message import Severity
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading.joining import MergedReading
    from dcpinspect.reading.reading import Reading

    CheckedReading = Reading | MergedReading
    """A reading whose findings are told."""

AT_ONCE = 3
"""Number of lines of a kind that are told within an hour."""
EVERY_S = 1.0
"""Least number of seconds between two checks; at least SHARE times as long as a check takes."""
SHARE = 10
ABSENT_EVERY_S = 5.0
"""Least number of seconds between two checks for messages that do not come."""
GROWTH = 10
"""Factor by which a count must grow before it is told again."""
MOST = 100_000
"""Number of cases that are remembered; those that were told longest ago are forgotten first."""
HOUR_NS = 3_600_000_000_000
"""Time in which at most AT_ONCE lines of a kind are told."""
LEVELS = {"error": "<3>", "warning": "<4>", "note": "<5>"}
"""Severity of a line in the form of the journal, see sd-daemon(3)."""

CaseKind = tuple[str, str | None, str, str]
"""Rule, cause, severity, client."""
MOST_KINDS = 10_000
"""Number of kinds that are remembered although they were not told for an hour."""
Case = tuple[str, str | None, tuple[int | str, ...], tuple[int, ...], int | None]
"""Rule, cause, connections, vbuckets, stream-id: what stays the same while a finding grows."""


class AnnouncedFindings:
    """Remembers what was told, and how bad it was then. Its memory is bounded."""

    def __init__(self) -> None:
        self._known: dict[Case, tuple[int, int]] = {}
        self.names: Mapping[int, str] | None = None
        """What a connection is known by, where its number may change between two checks."""

    def case_of(self, finding: Finding) -> Case:
        """Returns what identifies a finding."""
        connections: tuple[int | str, ...] = finding.connections
        if self.names is not None:
            connections = tuple(self.names.get(number, number) for number in finding.connections)
        return finding.rule, finding.cause, connections, finding.vbuckets, finding.sid

    def is_worse(self, finding: Finding) -> bool:
        """Whether a finding was not told yet, or only with a milder severity."""
        severity_and_count = self._known.get(self.case_of(finding))
        return (
            severity_and_count is None or SEVERITIES.index(finding.severity) < severity_and_count[0]
        )

    def before(self, finding: Finding) -> int:
        """Returns how often a finding had happened when it was told; 0 if it was not told."""
        return self._known.get(self.case_of(finding), (0, 0))[1]

    def has_grown(self, finding: Finding) -> bool:
        """Whether a finding was told, and has happened many times since."""
        return 0 < GROWTH * self.before(finding) <= finding.count

    def add(self, finding: Finding) -> None:
        """Remembers that a finding is told now."""
        case, severity = self.case_of(finding), SEVERITIES.index(finding.severity)
        severity_and_count = self._known.pop(case, (severity, 0))
        self._known[case] = (
            min(severity_and_count[0], severity),
            max(severity_and_count[1], finding.count),
        )
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def rows(self) -> list[list[Any]]:
        """Returns the content as plain values, which can be stored."""
        return [[*case, *severity_and_count] for case, severity_and_count in self._known.items()]

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]]) -> Self:
        """Restores the content from ``rows``, perhaps read from JSON. Raises ValueError and
        TypeError for anything else.
        """
        restored = cls()
        for rule, cause, connections, vbuckets, sid, severity, count in rows[-MOST:]:
            restored._known[rule, cause, tuple(connections), tuple(vbuckets), sid] = (
                int(severity),
                int(count),
            )
        return restored


@dataclass(slots=True)
class _Lines:
    """The lines of a kind that were told lately."""

    times: deque[int] = field(default_factory=lambda: deque(maxlen=AT_ONCE))
    left_out: int = 0

    def has_room(self, now_ns: int) -> bool:
        return len(self.times) < AT_ONCE or abs(now_ns - self.times[0]) >= HOUR_NS

    def is_old(self, now_ns: int) -> bool:
        return bool(self.times) and abs(now_ns - self.times[-1]) >= HOUR_NS


@dataclass(frozen=True, slots=True)
class TellingStyle:
    """Which findings are told, when, and in which form."""

    is_text: bool = True
    """Whether lines for people are written, not NDJSON."""
    severity: Severity | None = None
    """Only findings of this severity, or worse."""
    settle_ns: int = 0
    """How long checks must have shown a finding."""
    patience_ns: int | None = None
    """How long they must have shown one that is only true as long as nothing more comes. It is
    never told if this is None.
    """
    stops: frozenset[str] = frozenset()
    """Rules and severities that end the watch."""
    is_beside_messages: bool = False
    """Whether lines name the row of the message, and records say that they are not the last word.
    """


class Teller:
    """Tells each finding once.

    A finding is told when several checks have shown it for some time, so that no later message has
    contradicted it. A finding that is only true as long as nothing more comes must stand for
    longer.
    """

    def __init__(
        self,
        output: Target,
        manner: TellingStyle,
        *,
        around: RecentPackets | None = None,
        notifier: Notifier | None = None,
        announced: AnnouncedFindings | None = None,
    ) -> None:
        """``announced``: findings that were told before."""
        self._output = output
        self._manner = manner
        self._severities = (
            SEVERITIES
            if manner.severity is None
            else SEVERITIES[: SEVERITIES.index(manner.severity) + 1]
        )
        self.around = around
        self.notifier = notifier
        self._is_journal = manner.is_text and isinstance(output, StandardOutput) and _is_journal()
        self._known = AnnouncedFindings() if announced is None else announced
        self._due, self._absent_due = 0.0, 0.0
        self._since: dict[bool, dict[tuple[Case, str], int]] = {False: {}, True: {}}
        """Findings that are not told yet, with the time of the first check that showed them.

        The outer key says whether the check assumed that nothing more comes.
        """
        self._kinds: dict[CaseKind, _Lines] = {}
        self.counts: Counter[str] = Counter()
        """Number of told findings, by severity."""
        self.is_over = False
        """Whether a finding was told that ends the watch."""

    def check_when_due(self, reading: CheckedReading, now_ns: int) -> bool:
        """Tells what is certain by now. Returns whether it was time for that: checks are so rare
        that they cost little.
        """
        start = time.monotonic()
        if start < self._due or self.is_over:
            return False
        self._tell_certain(reading, now_ns, is_whole=False, for_ns=self._manner.settle_ns)
        if self._manner.patience_ns is not None and start >= self._absent_due:
            self._absent_due = start + min(ABSENT_EVERY_S, self._manner.patience_ns / 1e9)
            self._tell_certain(reading, now_ns, is_whole=True, for_ns=self._manner.patience_ns)
        now = time.monotonic()
        self._due = now + max(EVERY_S, SHARE * (now - start))
        return True

    def end(self, reading: CheckedReading, now_ns: int, *, is_whole: bool) -> None:
        """Tells what is not told yet, however new it is. ``is_whole``: nothing more comes."""
        if not self.is_over:
            self._tell_certain(reading, now_ns, is_whole=is_whole, for_ns=0)

    def _tell_certain(
        self, reading: CheckedReading, now_ns: int, *, is_whole: bool, for_ns: int
    ) -> None:
        """Tells the new findings that checks have shown for ``for_ns``."""
        before, since = self._since[is_whole], dict[tuple[Case, str], int]()
        news = []
        for finding in _findings(
            reading,
            is_whole=is_whole,
            apart=True,
            wanted=lambda case, _: case.severity in self._severities,
        ):
            if not self._known.is_worse(finding) and not self._known.has_grown(finding):
                continue
            key = (self._known.case_of(finding), finding.severity)
            first_ns = before.get(key, now_ns)
            if abs(now_ns - first_ns) >= for_ns:  # less than 0: the clock was set back
                news.append(finding)
            else:
                since[key] = first_ns
        self._since[is_whole] = since
        self._announce(reading, news, now_ns, is_whole=is_whole)

    @property
    def summary(self) -> list[str]:
        """The number of told findings, in words, and of further ones of the same kinds."""

        counts = ", ".join(counted(count, name) for name in LEVELS if (count := self.counts[name]))
        left_out = sum(lines.left_out for lines in self._kinds.values())
        return [
            f"told {counts or 'nothing'}",
            *([f"{left_out:,} more of the same kinds"] if left_out else []),
        ]

    def _announce(
        self, reading: CheckedReading, news: Sequence[Finding], now_ns: int, *, is_whole: bool
    ) -> None:
        """Tells these cases, merged into findings where they belong together, unless there were
        many such lines lately.
        """
        count_before = self._with_room(news, now_ns)
        if not count_before:
            return
        findings = _findings(
            reading,
            is_whole=is_whole,
            wanted=lambda case, _: (self._known.case_of(case), case.severity) in count_before,
        )
        ids = {finding.id for finding in findings}
        shown_findings = [
            finding
            for finding in findings
            if not self._manner.is_text or finding.effect_of not in ids
        ]
        words: dict[str, tuple[str, bool]] = {}
        for finding in shown_findings:
            left_out = 0
            for kind in {_kind(case) for case in finding.case_of_each}:
                lines = self._kinds[kind]
                lines.times.append(now_ns)
                left_out, lines.left_out = left_out + lines.left_out, 0
            before = sum(
                count_before.get((self._known.case_of(case), case.severity), 0)
                for case in finding.case_of_each
            )
            effects = [effect for effect in findings if effect.effect_of == finding.id]
            rows = finding.evidence_rows if self._manner.is_beside_messages else ()
            row = next(iter(rows), None)
            words[finding.id] = (
                _line(reading, finding, effects, before=before, left_out=left_out, row=row),
                before > 0,
            )
        # a line begins with its time
        for finding in sorted(shown_findings, key=lambda finding: words[finding.id][0]):
            self._write_finding(reading, finding, words[finding.id][0])
        self._output.flush()
        for finding in shown_findings:
            self.counts[finding.severity] += 1
        for finding in findings:  # the worst come first
            self.is_over |= not self._manner.stops.isdisjoint((finding.rule, finding.severity))
            if finding.effect_of not in ids:
                self._hand_over(reading, finding, *words[finding.id], now_ns)

    def _with_room(self, news: Sequence[Finding], now_ns: int) -> dict[tuple[Case, str], int]:
        """Returns the cases that are told, with their severity, and how often each had happened
        when it was told before; the others are only counted.
        """
        count_before: dict[tuple[Case, str], int] = {}
        for finding in news:
            lines = self._kinds.setdefault(_kind(finding), _Lines())
            if lines.has_room(now_ns):
                count_before[self._known.case_of(finding), finding.severity] = self._known.before(
                    finding
                )
            else:
                lines.left_out += 1
            self._known.add(finding)
        if len(self._kinds) > MOST_KINDS:
            self._kinds = {
                kind: lines
                for kind, lines in self._kinds.items()
                if lines.left_out or not lines.is_old(now_ns)
            }
        return count_before

    def _write_finding(self, reading: CheckedReading, finding: Finding, line: str) -> None:
        from dcpinspect.output.render.finding_text import STYLES

        if not self._manner.is_text:
            self.put_records(reading.files, [finding], is_final=False)
            return
        head = f"{finding.severity} {finding.rule}"
        painted = (
            line
            if self._is_journal
            else line.replace(head, self._output.painter()(head, STYLES[finding.severity]), 1)
        )
        self._output.write_piece(
            f"{LEVELS[finding.severity] if self._is_journal else ''}{painted}\n"
        )

    def put_records(
        self, files: Sequence[str], findings: Sequence[Finding], *, is_final: bool
    ) -> None:
        """Writes findings as NDJSON. ``is_final``: nothing more comes."""
        from dcpinspect.output.export.json_table import plain_json

        more = {"is_final": is_final} if self._manner.is_beside_messages else {}
        self._output.write_piece(
            b"".join(plain_json({**record, **more}) + b"\n" for record in _records(files, findings))
        )

    def _hand_over(
        self, reading: CheckedReading, finding: Finding, line: str, is_again: bool, now_ns: int
    ) -> None:
        """Passes a finding to the keeper of packets and to the program of ``--exec``."""
        if self.around is not None:
            # what was told before happened again
            moment_ns = finding.last_time_ns if is_again else finding.first_time_ns
            self.around.save(finding.rule, line, min(moment_ns or now_ns, now_ns), now_ns)
        if self.notifier is not None:
            self.notifier.notify(
                _records(reading.files, [finding])[0], SEVERITIES.index(finding.severity)
            )


def _line(
    reading: CheckedReading,
    finding: Finding,
    effects: Sequence[Finding],
    *,
    before: int,
    left_out: int,
    row: int | None,
) -> str:
    """Writes a finding on one line: when, how bad, what, where, and what to do."""
    from dcpinspect.findings.cases import EACH
    from dcpinspect.output.render.finding_text import (
        WHO_ACTS,
        by_packets,
        effects_in_words,
        place_of,
    )

    text = by_packets(finding.what or finding.message, finding, reading.files)
    match = EACH.search(text)
    if match is not None:  # their number is no number of times
        text = f"{text[: match.start()]} on each of {counted(len(finding.cases), match[1])}"
    clauses = [f"{escape_rest(text)}"]
    if finding.count > 1 and match is None:
        told_before = f", {before:,} when told before" if before else ""
        clauses.append(f"{finding.count:,} times in all{told_before}")
    buckets = ", ".join(
        sorted(
            {
                escape(bucket)
                for number in finding.connections
                if (bucket := _bucket(reading, number))
            }
        )
    )
    where = [
        escape(finding.who),
        escape(finding.server),
        f"bucket {buckets}" if buckets else "",
        place_of(finding),
        f"row {row}" if row else "",
    ]
    clauses.append(", ".join(filter(None, where)))
    clauses.append(WHO_ACTS[finding.whose])
    if effects:
        clauses.append(f"explains {effects_in_words(effects)}")
    if left_out:
        clauses.append(f"{left_out:,} more like it were not told")
    if finding.next:
        advice = by_packets(finding.next, finding, reading.files)
        clauses.append(f"next: {escape_rest(advice)}")
    return one_line(
        f"{_time(_first_ns(reading, finding))} {finding.severity} {finding.rule}: "
        f"{'; '.join(clauses)}"
    )


def _findings(
    reading: CheckedReading,
    *,
    is_whole: bool,
    apart: bool = False,
    wanted: Wanted,
) -> list[Finding]:
    assert reading.checker is not None
    return reading.checker.findings(
        reading.links, reading.coverage, is_whole=is_whole, apart=apart, is_wanted=wanted
    )


def _records(files: Sequence[str], findings: Sequence[Finding]) -> list[dict[str, Any]]:
    from dcpinspect.findings.finding_records import finding_records

    return finding_records(findings, files).records()


def _first_ns(reading: CheckedReading, finding: Finding) -> int:
    """Returns when a finding began; if no message shows it, when its first connection began."""
    starts = (link.first_ns for link in reading.links if link.number in finding.connections)
    return finding.first_time_ns or min(starts, default=0)


def _bucket(reading: CheckedReading, connection: int) -> str | None:
    session = reading.tracker.conversation.sessions.get(connection)
    return session.bucket if session is not None else None


def _kind(case: Finding) -> CaseKind:
    client = case.clients[0] if case.clients else ""
    if client.endswith("?"):
        client = client.partition(" ")[0]  # the rest is the number of its connection
    return case.rule, case.cause, case.severity, client


def _time(time_ns: int) -> str:
    """Writes local time with its offset; a dash for a finding without time."""
    if not time_ns:
        return "-"
    moment = datetime.fromtimestamp(time_ns // 10**9, UTC).replace(
        microsecond=time_ns // 1000 % 10**6
    )
    return moment.astimezone().isoformat(timespec="milliseconds")


def _is_journal() -> bool:
    """Whether standard output is systemd's journal, where a line's start tells its severity."""
    try:
        state = os.fstat(sys.stdout.fileno())
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{state.st_dev}:{state.st_ino}"


class Announcer:
    """Writes the findings of a running reading between its messages."""

    def __init__(
        self,
        reading: Reading,
        output: Target,
        format_: Format,
        *,
        pauses: bool,
        redactor: Redactor | None = None,
    ) -> None:
        """``format_``: text or NDJSON. ``pauses``: the reading can wait long for input, so findings
        are also told before its end.
        """
        reading.check(redactor=redactor)
        self._reading = reading
        self._output = output
        self._is_text = format_.is_text
        self._teller = Teller(
            output, TellingStyle(is_text=format_.is_text, is_beside_messages=True)
        )
        self._pauses = pauses
        if pauses:
            reading.forget_what_is_over()
            reading.on_pause = self.check_when_due

    def check_when_due(self) -> None:
        """Tells new findings, if it is time for a check."""
        if self._pauses and self._teller.check_when_due(self._reading, time.monotonic_ns()):
            self._output.flush()

    def end(self, *, is_whole: bool) -> None:
        """Writes all findings, including those that were told before. ``is_whole``: whether the
        reading came to its end.
        """
        # deferred: most users who read messages do not need it
        from dcpinspect.output.render.finding_text import report_lines
        from dcpinspect.output.render.verdict import LookedAt, damage

        findings = self._reading.findings(is_whole=is_whole)
        files = self._reading.files
        if not self._is_text:
            self._teller.put_records(files, findings, is_final=True)
            return
        width = self._output.width() or columns_asked()
        looked = LookedAt.from_reading(self._reading, damage=damage(self._reading))
        lines = report_lines(
            findings, files, self._output.painter(), width=width, looked=looked, everything=True
        )
        self._output.write_piece("".join(f"{line}\n" for line in ("", *lines)))
