"""What ``watch`` tells of a reading that goes on for weeks: which findings, when, how often, and in which words."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dcpinspect.cli.announce import AT_ONCE, Case, Pace, Told, case_of
from dcpinspect.cli.terminal import complain
from dcpinspect.escape import escape, escape_rest, one_line

if TYPE_CHECKING:
    from dcpinspect.capture.around import Around
    from dcpinspect.capture.batch import PacketBatch
    from dcpinspect.cli.notify import Notifier
    from dcpinspect.cli.output import StandardOutput
    from dcpinspect.findings.finding import Finding
    from dcpinspect.protocol.message import Severity
    from dcpinspect.reading import Reading
    from dcpinspect.streams.links import Link
    from dcpinspect.streams.rows import Streams

HOUR_NS = 3_600_000_000_000
"""In which no more than AT_ONCE lines of a kind are told."""
LEVELS = {"error": "<3>", "warning": "<4>", "note": "<5>"}
"""What the journal takes for the severity of a line, as sd-daemon(3) has it."""
_ABSENT_EVERY_S = 5.0
"""How often one looks for what does not come."""

Kind = tuple[str, str | None, str, str]
"""Rule, cause, severity, client."""
MOST_KINDS = 10_000
"""Kinds that are remembered when they were not told for an hour."""


@dataclass(slots=True)
class _Lines:
    """Those of a kind that were told lately."""

    times: deque[int] = field(default_factory=lambda: deque(maxlen=AT_ONCE))
    left_out: int = 0

    def has_room(self, now_ns: int) -> bool:
        return len(self.times) < AT_ONCE or now_ns - self.times[0] >= HOUR_NS

    def is_old(self, now_ns: int) -> bool:
        return bool(self.times) and now_ns - self.times[-1] >= HOUR_NS


class Watcher:
    """Looks at a reading that goes on for weeks, and tells each finding once.

    A finding is told when looks have shown it for some time, so that nothing that came meanwhile has contradicted it. What is only true
    as long as nothing more comes has to stand for longer.
    """

    def __init__(
        self,
        reading: Reading,
        text: StandardOutput | None,
        *,
        put: Callable[[str | bytes], object],
        severity: Severity | None,
        settle_ns: int,
        patience_ns: int,
        stops: frozenset[str],
        around: Around | None,
        notifier: Notifier | None,
        summary_ns: int,
    ) -> None:
        """``text``: findings are lines for people, for this output; None: NDJSON."""
        from dcpinspect.capture.clock import CaptureClock
        from dcpinspect.findings.rule import SEVERITIES

        self._reading = reading
        self._text = text
        self._put = put
        self._severities = SEVERITIES if severity is None else SEVERITIES[: SEVERITIES.index(severity) + 1]
        self._settle_ns = settle_ns
        self._patience_ns = patience_ns
        self._stops = stops
        self._around = around
        self._notifier = notifier
        self._is_journal = _is_journal(sys.stdout.fileno()) if text is not None else False
        self._clock = CaptureClock()
        self._pace = Pace()
        self._known = Told()
        self._since: dict[bool, dict[tuple[Case, str], tuple[int, int]]] = {False: {}, True: {}}
        """By whether nothing may come for it: what is not told yet, when a look first showed it, and when it began."""
        self._absent_due = 0.0
        self._kinds: dict[Kind, _Lines] = {}
        self._summary_s = summary_ns / 1e9
        self._summary_due = time.monotonic() + self._summary_s if summary_ns else float("inf")
        self.counts: Counter[str] = Counter()
        """Findings that were told, by severity."""
        self.is_over = False
        """One was told that ends it."""
        reading.on_packets = self._take
        reading.on_pause = self._pause

    def _take(self, packets: PacketBatch) -> None:
        self._clock.note(packets)
        self.pass_time()
        if self._around is not None:
            self._around.add(packets)

    def _pause(self) -> None:
        self.pass_time()
        if self.is_over:
            self._reading.capture.stop()

    def pass_time(self) -> None:
        """Look, if it is time to; and all else that has its time."""
        now_ns = self._clock.now_ns()
        if now_ns is not None and self._pace.is_due() and not self.is_over:
            with self._pace.look():
                self._look(now_ns)
        if self._notifier is not None:
            self._notifier.pass_time()
        if time.monotonic() >= self._summary_due:
            self._summary_due = time.monotonic() + self._summary_s
            complain(self.summary())

    def _look(self, now_ns: int) -> None:
        self._tell(self._certain(now_ns, is_whole=False, for_ns=self._settle_ns), is_whole=False)
        if time.monotonic() >= self._absent_due:
            self._absent_due = time.monotonic() + min(_ABSENT_EVERY_S, self._patience_ns / 1e9)
            self._tell(self._certain(now_ns, is_whole=True, for_ns=self._patience_ns), is_whole=True)
        if self._around is not None:
            self._around.pass_time(now_ns)
            self._around.forget(min((began for since in self._since.values() for _, began in since.values()), default=now_ns))

    def _certain(self, now_ns: int, *, is_whole: bool, for_ns: int) -> list[Finding]:
        """The news that looks have shown for so long."""
        before, since = self._since[is_whole], dict[tuple[Case, str], tuple[int, int]]()
        out = []
        for one in self._found(is_whole=is_whole, apart=True):
            if not (self._known.is_worse(one) or self._known.has_grown(one)):
                continue
            key = (case_of(one), one.severity)
            first_ns, began_ns = before.get(key, (now_ns, min(now_ns, _moment(one, is_again=bool(self._known.before(one))) or now_ns)))
            if now_ns - first_ns >= for_ns:
                out.append(one)
            else:
                since[key] = first_ns, began_ns
        self._since[is_whole] = since
        return out

    def _found(self, *, is_whole: bool, apart: bool = False, wanted: Callable[[Finding], bool] = lambda _: True) -> list[Finding]:
        checker = self._reading.checker
        assert checker is not None
        return checker.findings(
            self._reading.engine.links,
            self._reading.coverage,
            is_whole=is_whole,
            apart=apart,
            wanted=lambda case: case.severity in self._severities and wanted(case),
        )

    def _tell(self, news: Sequence[Finding], *, is_whole: bool) -> None:
        """Tell these cases, put together where they are the same thing, unless there were many such lines just now."""
        now_ns = self._clock.now_ns() or 0
        chosen: dict[tuple[Case, str], int] = {}
        for one in news:
            lines = self._kinds.setdefault(_kind(one), _Lines())
            if lines.has_room(now_ns):
                chosen[case_of(one), one.severity] = self._known.before(one)
            else:
                lines.left_out += 1
            self._known.add(one)
        if len(self._kinds) > MOST_KINDS:
            self._kinds = {kind: lines for kind, lines in self._kinds.items() if lines.left_out or not lines.is_old(now_ns)}
        if not chosen:
            return
        found = self._found(is_whole=is_whole, wanted=lambda case: (case_of(case), case.severity) in chosen)
        ids = {one.id for one in found}
        told = [one for one in found if self._text is None or one.effect_of not in ids]
        words: dict[str, tuple[str, bool]] = {}
        for one in told:
            left_out = 0
            for kind in {_kind(case) for case in one.each}:
                lines = self._kinds[kind]
                lines.times.append(now_ns)
                left_out, lines.left_out = left_out + lines.left_out, 0
            before = sum(chosen.get((case_of(case), case.severity), 0) for case in one.each)
            effects = [effect for effect in found if effect.effect_of == one.id]
            words[one.id] = self.line(one, effects, before=before, left_out=left_out), before > 0
        for one in sorted(told, key=lambda one: words[one.id][0]):  # which begins with its time
            self._say(one, words[one.id][0])
        (self._text or sys.stdout).flush()
        for one in found:  # the worst first
            self.counts[one.severity] += 1
            self.is_over |= not self._stops.isdisjoint((one.rule, one.severity))
            if one.effect_of not in ids:
                self._hand_over(one, *words[one.id], now_ns)

    def _say(self, one: Finding, line: str) -> None:
        from dcpinspect.export.json_table import plain_json
        from dcpinspect.render.findings import STYLES

        if self._text is None:
            self._put(plain_json(self._record(one)) + b"\n")
            return
        head = f"{one.severity} {one.rule}"
        painted = line if self._is_journal else line.replace(head, self._text.painter()(head, STYLES[one.severity]), 1)
        self._put(f"{LEVELS[one.severity] if self._is_journal else ''}{painted}\n")

    def _record(self, one: Finding) -> dict[str, Any]:
        from dcpinspect.findings.record import finding_records
        from dcpinspect.findings.registry import RULES

        return finding_records([one], RULES, [file.name for file in self._reading.capture.files]).records()[0]

    def _hand_over(self, one: Finding, line: str, is_again: bool, now_ns: int) -> None:
        """To who saves packets, and to the program."""
        from dcpinspect.findings.rule import SEVERITIES

        if self._around is not None:
            self._around.save(one.rule, line, min(_moment(one, is_again=is_again) or now_ns, now_ns), now_ns)
        if self._notifier is not None:
            self._notifier.put(self._record(one), SEVERITIES.index(one.severity))

    def line(self, one: Finding, effects: Sequence[Finding], *, before: int, left_out: int) -> str:
        """A finding on one line: when, how bad, what, who, and what to do."""
        from dcpinspect.render.findings import effects_in_words, place_of

        said = [f"{escape_rest(one.what or one.message)}"]
        if one.count > 1:
            said[0] += f" ({one.count:,} times{f', {before:,} when told before' if before else ''})"
        buckets = ", ".join(sorted({escape(bucket) for number in one.connections if (bucket := self._bucket(number))}))
        said.append(", ".join(filter(None, [escape(one.who), escape(one.server), f"bucket {buckets}" if buckets else "", place_of(one)])))
        said.append(f"whose: {one.whose}")
        if effects:
            said.append(f"and {effects_in_words(effects)}")
        if left_out:
            said.append(f"{left_out:,} more like it were not told")
        if one.next:
            said.append(f"next: {escape_rest(one.next)}")
        return one_line(f"{_time(self._first_ns(one))} {one.severity} {one.rule}: {'; '.join(said)}")

    def _first_ns(self, one: Finding) -> int:
        """When it began; where no message shows it, when its first connection did."""
        starts = (link.first_ns for link in self._reading.engine.links if link.number in one.connections)
        return one.first_time_ns or min(starts, default=0)

    def _bucket(self, connection: int) -> str | None:
        assert self._reading.tracker is not None
        session = self._reading.tracker.conversation.sessions.get(connection)
        return session.bucket if session is not None else None

    def end(self, *, is_whole: bool) -> None:
        """Tell what is left. ``is_whole``: the input has ended; else only the watching, and what did not come may still come."""
        if self.is_over:
            return
        news = [one for one in self._found(is_whole=is_whole, apart=True) if self._known.is_worse(one) or self._known.has_grown(one)]
        self._tell(news, is_whole=is_whole)

    def close(self) -> None:
        """Leave nothing open, and nobody running."""
        if self._around is not None:
            self._around.close()
        if self._notifier is not None:
            self._notifier.close()

    def summary(self) -> str:
        """What there was so far, on one line."""
        from dcpinspect.render.verdict import counted

        reading = self._reading
        assert reading.tracker is not None
        links = reading.engine.links
        told = ", ".join(counted(count, name) for name in LEVELS if (count := self.counts[name]))
        left_out = sum(lines.left_out for lines in self._kinds.values())
        parts = [
            counted(reading.capture.packets, "packet"),
            counted(reading.messages, "message"),
            counted(len(links), "connection"),
            f"{counted(_open_streams(reading.tracker.state.known.streams, links), 'stream')} open",
            f"told {told or 'nothing'}",
        ]
        if left_out:
            parts.append(f"{left_out:,} more of the same kinds")
        if (drops := getattr(reading.capture, "drops_in_words", None)) is not None:  # only interfaces have any
            parts.append(drops)
        if self._around is not None:
            parts.append(f"{counted(self._around.saved, 'file')} saved")
        if self._notifier is not None:
            parts.append(f"{counted(self._notifier.started, 'program')} started")
        return f"watched {escape(', '.join(file.name for file in reading.capture.files))}: {', '.join(parts)}"


def _open_streams(streams: Streams, links: Sequence[Link]) -> int:
    """Those that the server accepted, and that neither side has ended."""
    import numpy as np

    from dcpinspect.streams.transitions import ACCEPTED, CLOSING, STREAMING

    closed = [link.number for link in links if link.closed]
    return int((np.isin(streams.state, (ACCEPTED, STREAMING, CLOSING)) & ~np.isin(streams.connection, closed)).sum())


def _kind(case: Finding) -> Kind:
    client = case.clients[0] if case.clients else ""
    if client.endswith("?"):
        client = client.partition(" ")[0]  # the rest is a number of its connection
    return case.rule, case.cause, case.severity, client


def _moment(one: Finding, *, is_again: bool) -> int:
    """When a finding was, for the packets around it: the first time, or the latest if the first was told before."""
    return one.last_time_ns if is_again else one.first_time_ns


def _time(time_ns: int) -> str:
    """Local time with its offset; a dash where a finding has none."""
    if not time_ns:
        return "-"
    moment = datetime.fromtimestamp(time_ns // 10**9, UTC).replace(microsecond=time_ns // 1000 % 10**6)
    return moment.astimezone().isoformat(timespec="milliseconds")


def _is_journal(descriptor: int) -> bool:
    """Whether what is written there goes to the journal of systemd, which takes the severity of a line from its start."""
    try:
        state = os.fstat(descriptor)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{state.st_dev}:{state.st_ino}"
