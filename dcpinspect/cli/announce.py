"""``--check`` beside messages: prints the first findings of each kind as they are found, then their number, and all findings at the end."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from dcpinspect.cli.terminal import columns_asked
from dcpinspect.escape import escape
from dcpinspect.findings.rule import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dcpinspect.export.formats import Format
    from dcpinspect.export.target import Target
    from dcpinspect.findings.finding import Finding
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading import Reading

AT_ONCE = 3
"""Number of findings of a kind (a rule and a cause) that are printed as they are found."""
EVERY_S = 1.0
"""Least number of seconds between two checks; it is also at least SHARE times as long as a check takes."""
SHARE = 10

GROWTH = 10
"""Factor by which a count must grow before it is told again."""
MOST = 100_000
"""Number of cases that are remembered; those that were told longest ago are forgotten first."""

_Kind = tuple[str, str | None]
Case = tuple[str, str | None, tuple[int, ...], tuple[int, ...], int | None]
"""Rule, cause, connections, vbuckets, stream-id: what stays the same while a finding grows."""


def case_of(one: Finding) -> Case:
    """Returns the case that identifies a finding."""
    return one.rule, one.cause, one.connections, one.vbuckets, one.sid


class Pace:
    """Decides when to check for findings: soon, but so rarely that checks cost little."""

    def __init__(self) -> None:
        self._due = 0.0

    def is_due(self) -> bool:
        """Whether it is time for a check."""
        return time.monotonic() >= self._due

    @contextmanager
    def look(self) -> Iterator[None]:
        """Measures the check that runs in this context, and sets the time of the next one."""
        start = time.monotonic()
        yield
        now = time.monotonic()
        self._due = now + max(EVERY_S, SHARE * (now - start))


class Told:
    """Remembers what was told, and how bad it was then. Its memory is bounded."""

    def __init__(self) -> None:
        self._known: dict[Case, tuple[int, int]] = {}

    def is_worse(self, one: Finding) -> bool:
        """Whether a finding was not told yet, or only with a milder severity."""
        known = self._known.get(case_of(one))
        return known is None or SEVERITIES.index(one.severity) < known[0]

    def before(self, one: Finding) -> int:
        """Returns how often a finding had happened when it was told; 0 if it was not told."""
        return self._known.get(case_of(one), (0, 0))[1]

    def has_grown(self, one: Finding) -> bool:
        """Whether a finding was told, and has happened many times since."""
        return 0 < GROWTH * self.before(one) <= one.count

    def add(self, one: Finding) -> None:
        """Remembers that a finding is told now."""
        case, severity = case_of(one), SEVERITIES.index(one.severity)
        known = self._known.pop(case, (severity, 0))
        self._known[case] = min(known[0], severity), max(known[1], one.count)
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def rows(self) -> list[list[Any]]:
        """Returns the content as plain values, which can be stored."""
        return [[*case, *said] for case, said in self._known.items()]

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]]) -> Self:
        """Restores the content from ``rows``, perhaps read from JSON. Raises ValueError and TypeError for anything else."""
        found = cls()
        for rule, cause, connections, vbuckets, sid, severity, count in rows[-MOST:]:
            found._known[rule, cause, tuple(connections), tuple(vbuckets), sid] = int(severity), int(count)
        return found


class Announcer:
    """Writes the findings of a running reading between its messages."""

    def __init__(self, reading: Reading, output: Target, format_: Format, *, pauses: bool, redactor: Redactor | None = None) -> None:
        """``format_``: text or NDJSON. ``pauses``: the reading can wait long for input, so findings are also told before its end."""
        reading.check(redactor=redactor)
        self._reading = reading
        self._output = output
        self._is_text = format_.is_text
        self._pace = Pace() if pauses else None
        self._known = Told()
        self._shown: Counter[_Kind] = Counter()
        self._counted: Counter[_Kind] = Counter()
        if pauses:
            reading.forget_what_is_over()
            reading.on_pause = self.look

    def look(self) -> None:
        """Writes new findings, if it is time for a check."""
        if self._pace is not None and self._pace.is_due():
            with self._pace.look():
                self._look()

    def _look(self) -> None:
        checker = self._reading.checker
        assert checker is not None
        found = checker.findings(self._reading.engine.links, self._reading.coverage, is_whole=False, apart=True)
        counts: Counter[_Kind] = Counter()
        for one in sorted(found, key=lambda one: one.places[:1]):
            kind = (one.rule, one.cause)
            counts[kind] += one.count
            if self._known.is_worse(one):
                self._known.add(one)
                self._shown[kind] += 1
                if self._shown[kind] <= AT_ONCE:
                    self._announce(one)
        for kind, count in counts.items():
            digits = len(str(count))
            if digits > max(1, self._counted[kind]):
                self._counted[kind] = digits
                self._count(kind, count)
        self._output.flush()

    def end(self, *, is_whole: bool) -> None:
        """Writes all findings, including those that were written before. ``is_whole``: whether the reading came to its end."""
        from dcpinspect.render.findings import report_lines  # deferred: most users who read messages do not need it
        from dcpinspect.render.verdict import LookedAt, damage

        found = self._reading.findings(is_whole=is_whole)
        if self._is_text:
            files = [file.name for file in self._reading.capture.files]
            width = self._output.width() or columns_asked()
            looked = LookedAt.of(self._reading, damage=damage(self._reading))
            lines = report_lines(found, files, self._output.painter(), with_effects=True, width=width, looked=looked)
            self._output.put("".join(f"{line}\n" for line in ("", *lines)))
        else:
            self._records(found, is_final=True)

    def _announce(self, one: Finding) -> None:
        if not self._is_text:
            self._records([one], is_final=False)
            return
        from dcpinspect.render.findings import GLYPHS, STYLES, sentence

        row = f" (row {one.places[0].row})" if one.places else ""
        self._output.put(f"{self._output.painter()(f'{GLYPHS[one.severity]} {one.rule}', STYLES[one.severity])}  {sentence(one)}{row}\n")

    def _count(self, kind: _Kind, count: int) -> None:
        if self._is_text:
            rule, cause = kind
            self._output.put(f"  {rule}{'' if cause is None else f' ({escape(cause)})'}: {count:,} so far\n")

    def _records(self, found: Sequence[Finding], *, is_final: bool) -> None:
        from dcpinspect.export.json_table import plain_json
        from dcpinspect.findings.record import finding_records
        from dcpinspect.findings.registry import RULES

        records = finding_records(found, RULES, [file.name for file in self._reading.capture.files]).records()
        self._output.put(b"".join(plain_json({**one, "is_final": is_final}) + b"\n" for one in records))
