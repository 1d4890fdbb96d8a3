"""Findings for people: the verdict, then for each finding, the worst first: what happened, where,
when, whose fault it is, and what to do.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby

from dcpinspect.findings.finding import (
    Finding,
    MessagePlace,
    captured,
    connections_of,
    ranges,
    who_alone,
)
from dcpinspect.findings.recommended import Verdict
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.output.render.verdict import (
    LookedAt,
    clock,
    day_of,
    verdict,
    with_their_effects,
)
from dcpinspect.reading.numbering import STEP
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.tables.times import day_and_time
from dcpinspect.text import aligned, cells, counted, escape, escape_rest, short_names

TextPaint = Callable[[str, str], str]

STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
WHO_ACTS = {
    "client": "the client has to act",
    "server": "the server has to act",
    "capture": "a fuller capture is needed",
    "normal": "nobody is at fault",
    "unknown": "neither side is known to be at fault",
}
"""In words, who has to do something about a finding."""
EXAMPLES = 3
"""Number of cases of a finding in such a report."""
MOST_NAMED = 100
"""Number of messages up to which all that are known are named, where everything is asked for."""
SHOWN_BY_NUMBER = 4
"""Number of vbuckets up to which they are listed without a count."""
_RULES = 6
"""Most rules that a line names whose findings are only counted."""
_APART = 2
"""Number of lines for findings that the verdict is not about, where there are others."""
_SHOWN = 8
"""Number of files that a line names."""
_ROW = re.compile(r"( in)? rows? (\d+(?:(?:,| or| and| to) \d+)*)")
_HINT = "'dcpinspect explain RULE' explains a rule"
_MORE, _MORE_ADVICE = "check --all shows everything; ", "check --all has 'next' of {} more; "
_COUNTED, _BRIEF, _SENTENCE, _ADVICE, _SHORT, _FULL = range(6)
"""How much is said of a finding: only counted by rule, a sentence with its place in fewer letters if
that saves a line, a sentence, sentence and advice, also its time, everything.
"""
_FOLDING: tuple[dict[str, int], ...] = (
    *({}, {"note": _BRIEF}, {"note": _COUNTED}, {"warning": _SHORT}, {"warning": _SENTENCE}),
    *({"error": _SHORT}, {"error": _ADVICE}, {"warning": _BRIEF}, {"warning": _COUNTED}),
    {"error": _COUNTED},
)
"""The steps in which the report is shortened until it fits."""
_RAISED = (
    *(("error", level) for level in (_BRIEF, _SENTENCE, _ADVICE)),
    *(("warning", level) for level in (_BRIEF, _SENTENCE, _ADVICE)),
    *((severity, level) for level in (_SHORT, _FULL) for severity in ("error", "warning")),
    *(("note", level) for level in (_BRIEF, _SENTENCE, _ADVICE, _SHORT)),
)
"""The steps in which remaining lines are used, finding by finding."""


def report_lines(
    findings: Sequence[Finding],
    files: Sequence[str],
    paint: TextPaint,
    *,
    width: int | None = None,
    looked: LookedAt | None = None,
    instead: str | None = None,
    limit: int | None = None,
    everything: bool = False,
    apart: Sequence[Finding] = (),
    why_apart: Sequence[str] = (),
) -> Iterator[str]:
    """Yields the report: a verdict, then the findings with their evidence. ``findings``: the worst
    first.

    ``width``: of lines; None shows whole lines. ``looked``: how much was checked. ``instead``:
    replaces the verdict. ``limit``: number of lines that it may take; None for as many as it takes.
    ``everything``: shows the effects of each cause below it, and all cases, without a limit.
    ``apart``: findings that the verdict is not about, which stand last, below ``why_apart``.
    """
    causes, effects = with_their_effects(findings)
    days = {day_of(cause.first_time_ns) for cause in (*causes, *apart) if cause.first_time_ns}
    page = _Page(files, paint, width, effects, is_all=everything, has_days=len(days) > 1)
    head = list(page.wrapped(instead or verdict(findings, looked), "", "  "))
    style = STYLES[causes[0].severity] if causes and instead is None else "bold"
    yield from (paint(line, style) for line in head)
    if not causes and not apart:
        return
    yield ""
    hint = list(page.wrapped(_HINT if everything else f"{_MORE}{_HINT}", "", "  "))
    room = None if limit is None else limit - 2 - len(head) - len(hint)
    last = page.apart(apart, why_apart, room and (_APART if causes else room // 2))
    if everything:
        yield from page.all_in_full(causes)
        yield from last if causes else last[1:]
    elif not causes:
        yield from last[1:]
    else:
        aside = [] if looked is None else _aside(causes, looked.without_dcp)
        last = [*(page.aside(aside) if aside else ()), *last]
        main_findings = [finding for finding in causes if finding not in aside]
        fitting, without = page.fitted(main_findings, room and room - len(last))
        if without:
            hint = list(page.wrapped(f"{_MORE_ADVICE.format(without)}{_HINT}", "", "  "))
        yield from fitting
        yield from last
    yield ""
    yield from hint


def _without_advice(causes: Sequence[Finding], levels: Sequence[int]) -> int:
    """Returns of how many errors and warnings the advice is left out."""
    return sum(
        level < _ADVICE and finding.severity != "note" and bool(finding.next)
        for finding, level in zip(causes, levels, strict=True)
    )


def _aside(causes: Sequence[Finding], without_dcp: Collection[int]) -> list[Finding]:
    """Returns the notes, if there are several, that only concern connections without DCP, but for
    passwords that anybody can read.
    """
    notes = [
        note for note in causes if note.severity == "note" and note.rule != "credentials-in-clear"
    ]
    without_dcp_notes = [
        note
        for note in notes
        if note.connections and all(number in without_dcp for number in note.connections)
    ]
    return without_dcp_notes if len(without_dcp_notes) > 1 else []


class _Page:
    """Lays out findings in lines of one width."""

    def __init__(
        self,
        files: Sequence[str],
        paint: TextPaint,
        width: int | None,
        effects: dict[str, list[Finding]],
        *,
        is_all: bool,
        has_days: bool = False,
    ) -> None:
        """``has_days``: times of the day are said with the day."""
        self._files = files
        self._file_names = short_names(files) if len(files) > 1 else ()
        self._has_days = has_days
        self._paint = paint
        self._width = None if width is None else max(width, 40)
        self._effects = effects
        self._is_all = is_all

    def wrapped(self, text: str, indent: str, more: str) -> Iterator[str]:
        """Yields a text in lines that fit."""
        if self._width is None:
            yield indent + text
            return
        yield from textwrap.wrap(
            text, self._width, initial_indent=indent, subsequent_indent=more, break_on_hyphens=False
        ) or [indent]

    def aside(self, notes: Sequence[Finding]) -> Iterator[str]:
        """Yields what is said of notes about connections without DCP."""
        numbers = ranges(sorted({number for finding in notes for number in finding.connections}))
        rules = ", ".join(dict.fromkeys(finding.rule for finding in notes))
        yield from self.wrapped(
            f"{GLYPHS['note']} {len(notes)} notes about connections without DCP: {rules} "
            f"(connections {numbers}; --all)",
            "",
            "    ",
        )

    def apart(
        self, findings: Sequence[Finding], why: Sequence[str], limit: int | None
    ) -> list[str]:
        """Returns the lines of findings that the verdict is not about, with an empty line before
        them; ``why`` they stand apart. ``limit``: number of their own lines; None for all.
        """
        if not findings:
            return []
        head = ["", *(line for text in why for line in self.wrapped(text, "", "  "))]
        if self._is_all:
            return [*head, *self.all_in_full(findings)]
        return [*head, *self.fitted(findings, limit)[0]]

    def all_in_full(self, causes: Sequence[Finding]) -> list[str]:
        """Returns all findings in full."""
        given_for = dict[str, Finding]()
        return _apart([self.entry(finding, _FULL, given_for) for finding in causes])

    def fitted(self, causes: Sequence[Finding], limit: int | None) -> tuple[list[str], int]:
        """Returns as much as fits into ``limit`` lines, with a note on what is left out: first of
        notes, then of warnings, then of all but the worst. Without a limit nothing is. Also returns
        how many errors and warnings have advice that is left out.
        """
        levels = {"error": _FULL, "warning": _FULL, "note": _SHORT}
        for change in _FOLDING:
            levels.update(change)
            chosen_levels = [levels[finding.severity] for finding in causes]
            lines = self._lines_at(causes, chosen_levels)
            if limit is None or len(lines) <= limit:
                break
        if limit is not None:
            lines, chosen_levels = self._raised(causes, chosen_levels, lines, limit)
        return lines, _without_advice(causes, chosen_levels)

    def _raised(
        self, causes: Sequence[Finding], levels: list[int], lines: list[str], limit: int
    ) -> tuple[list[str], list[int]]:
        """Adds more about each finding, the worst first, as long as lines are left. None stands
        above worse ones that are only counted.
        """
        for severity, level in _RAISED:
            worse = SEVERITIES[: SEVERITIES.index(severity)]
            if any(
                finding.severity in worse and its_level == _COUNTED
                for finding, its_level in zip(causes, levels, strict=True)
            ):
                continue
            for index, finding in enumerate(causes):
                if finding.severity == severity and levels[index] < level and len(lines) < limit:
                    raised_levels = [*levels[:index], level, *levels[index + 1 :]]
                    if len(raised_lines := self._lines_at(causes, raised_levels)) <= limit:
                        levels, lines = raised_levels, raised_lines
        return lines, levels

    def _lines_at(self, causes: Sequence[Finding], levels: Sequence[int]) -> list[str]:
        given_for = dict[str, Finding]()
        entries = [
            self.entry(finding, level, given_for)
            for finding, level in zip(causes, levels, strict=True)
            if level != _COUNTED
        ]
        for severity in SEVERITIES:
            own_levels = [
                (finding, level)
                for finding, level in zip(causes, levels, strict=True)
                if finding.severity == severity
            ]
            folded = [finding for finding, level in own_levels if level == _COUNTED]
            if folded:
                more = "more " if len(own_levels) > len(folded) else ""
                number = counted(len(folded), f"{more}{severity}")
                entries.append(self._by_rule(f"{GLYPHS[severity]} {number}", folded))
        return _apart(entries)

    def _by_rule(self, number: str, folded: Sequence[Finding]) -> list[str]:
        """Returns findings that are only counted, by rule: of notes only as many rules as fit a line.
        ``number``: how many there are.
        """
        by_rule = Counter(finding.rule for finding in folded).most_common()
        most = _RULES if len(by_rule) > _RULES + 1 else len(by_rule)
        while True:
            rules = [f"{count} {rule}" for rule, count in by_rule[:most]]
            if most < len(by_rule):
                rules.append(f"and {counted(len(by_rule) - most, 'more rule')}")
            lines = list(self.wrapped(f"{number}: {', '.join(rules)}", "", "    "))
            if len(lines) == 1 or most == 1 or folded[0].severity != "note":
                return lines
            most -= 1

    def entry(self, finding: Finding, level: int, given_for: dict[str, Finding]) -> list[str]:
        """Returns the lines of one finding. ``given_for``: advice, with the finding for which
        it was given before; it is not given again.
        """
        if level == _COUNTED:
            return []
        lines = self._headline(finding, level)
        first = given_for.setdefault(finding.next, finding) if level >= _ADVICE else finding
        advice_text = (
            by_packets(escape_rest(finding.next), finding, self._files)
            if first is finding
            else f"as for {first.rule} above"
        )
        advice = list(self._below(f"next: {advice_text}") if finding.next else ())
        advice[:1] = [line.replace("next:", self._paint("next:", "bold"), 1) for line in advice[:1]]
        if level == _SHORT:
            lines += self._in_short(finding)
        elif level == _FULL:
            lines += self._in_full(finding)
        if level >= _ADVICE:
            lines += advice
        return [*lines, *self._explained(finding)] if level in (_SHORT, _FULL) else lines

    def _below(self, text: str) -> Iterator[str]:
        """Yields a text in lines below the first one of a finding."""
        yield from self.wrapped(text, "    ", "      ")

    def _place_text(self, finding: Finding, where: str) -> str:
        return ", ".join(filter(None, [self._file_of(finding), where]))

    def _headline(self, finding: Finding, level: int) -> list[str]:
        """Returns what happened, and in short forms where: in the briefest one in fewer letters, if that
        saves a line.
        """
        glyph = f"{GLYPHS[finding.severity]} {finding.rule}"
        headline = by_packets(
            f"{glyph}: {escape_rest(finding.what or finding.message)}", finding, self._files
        )
        is_short = level in (_BRIEF, _SENTENCE, _ADVICE)
        locations = [
            f" ({place_text})" if is_short and place_text else ""
            for where in (place_of(finding), re.sub("connections?", "con", place_of(finding)))[
                : 1 + (level == _BRIEF)
            ]
            for place_text in [self._place_text(finding, where)]
        ]
        forms = (list(self.wrapped(headline + text, "", "    ")) for text in locations)
        lines = min(forms, key=len)
        heads = [lines[0][len(glyph) :], *lines[1:]]
        return [
            self._paint(glyph, STYLES[finding.severity]) + self._paint(heads[0], "bold"),
            *(self._paint(line, "bold") for line in heads[1:]),
        ]

    def _in_short(self, finding: Finding) -> Iterator[str]:
        """Yields who it is about, where, when and whether it is over."""
        whom = escape(finding.who or who_alone(finding))
        place_text = self._place_text(finding, place_of(finding))
        facts = [
            ", ".join(filter(None, [whom, place_text])),
            _when(finding, is_short=True, has_days=self._has_days),
            _over(finding),
        ]
        yield from self._below(by_packets("; ".join(filter(None, facts)), finding, self._files))

    def _in_full(self, finding: Finding) -> Iterator[str]:
        """Yields everything between the headline and the advice."""
        culprits = ", ".join(filter(None, [escape(finding.who), escape(finding.server)]))
        yield from self._below("; ".join(filter(None, [culprits, place_of(finding)])))
        sentence = "; ".join(filter(None, when_and_whose(finding)))
        yield from self._below(by_packets(sentence, finding, self._files))
        yield from self._table(finding)
        in_full = finding.in_full if self._is_all else finding
        named = in_full if len(in_full.places) <= MOST_NAMED else finding
        if named.places:
            without = f", without the other {named.left_out:,}" if named.left_out else ""
            references = [
                *([_rows(named)] if 0 < max(named.evidence_rows, default=0) < STEP else []),
                f"Wireshark{without}: {packets_of(named, self._files)}",
            ]
            yield from self._below("; ".join(references))

    def _explained(self, finding: Finding) -> Iterator[str]:
        """Yields the effects of a finding."""
        effects = self._effects.get(finding.id, ())
        if effects and not self._is_all:
            yield from self._below(f"explains {effects_in_words(effects)}")
        elif effects:
            width = None if self._width is None else self._width - 4
            inside = _Page(self._files, self._paint, width, {}, is_all=True)
            effect_lines = [line for effect in effects for line in inside.entry(effect, _FULL, {})]
            yield from (f"    {line}" for line in ("explains:", *effect_lines))

    def _file_of(self, finding: Finding) -> str:
        """Returns the name of the capture where a finding is, if there are several captures."""
        numbers = {message_place.file for message_place in finding.places}
        if not self._file_names or not numbers:
            return ""
        if len(numbers) > 1:
            return f"{len(numbers)} captures"
        return self._file_names[numbers.pop()]

    def _table(self, finding: Finding) -> Iterator[str]:
        """Yields what differs between cases: numbers in columns, or sentences."""
        if len({tuple(case.facts.items()) or case.message for case in finding.cases}) < 2:
            return
        cases = finding.cases if self._is_all else finding.cases[:EXAMPLES]
        names = list(dict.fromkeys(name for case in finding.cases for name in case.facts))
        heading = [
            *(["connection"] if len(finding.connections) > 1 else []),
            *(["vb"] if len(finding.vbuckets) > 1 else []),
            *(names or ["what"]),
        ]
        rows = [heading]
        for case in cases:
            facts = {
                "connection": ranges(case.connections),
                "vb": ranges(case.vbuckets),
                "what": escape_rest(case.message),
                **case.facts,
            }
            rows.append([str(facts.get(name, "")) for name in heading])
        lines = aligned(rows, ("what", "log", "client random"))
        if names and self._width is not None and max(map(cells, lines)) > self._width - 6:
            lines = _narrow(rows, self._width - 6) or lines
        indent = 8 if names else 6 + lines[0].index("what")  # what is too long stands below
        for line in lines:
            yield from self.wrapped(line, "      ", " " * indent)
        if len(cases) < len(finding.cases):
            yield f"      and {len(finding.cases) - len(cases):,} more (--all)"


def _narrow(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Returns the lines of a table whose headings take a line a word, if they fit."""
    parted = [name.split() for name in rows[0]]
    deep = max(map(len, parted))
    stacked = zip(*([""] * (deep - len(words)) + words for words in parted), strict=True)
    lines = aligned([*stacked, *rows[1:]], ())
    return lines if max(map(cells, lines)) <= width else []


def _apart(entries: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of findings, with a blank line beside each that has several."""
    lines: list[str] = []
    for before, entry in zip(["", *entries], entries, strict=False):
        lines += [*([""] if lines and max(len(before), len(entry)) > 1 else []), *entry]
    return lines


def effects_in_words(effects: Sequence[Finding]) -> str:
    """Counts effects by rule: 12 other findings: 8 rollback, 4 stream-refused."""
    counts: Counter[str] = Counter()
    for effect in effects:
        counts[effect.rule] += effect.count
    rules = ", ".join(f"{number:,} {rule}" for rule, number in counts.most_common())
    return f"{counted(counts.total(), 'other finding')}: {rules}"


def place_of(finding: Finding) -> str:
    """Returns connections and vbuckets of a finding by number."""
    return ", ".join(filter(None, [connections_of(finding), _vbuckets_of(finding)]))


def _vbuckets_of(finding: Finding) -> str:
    sid = "" if finding.sid is None else f" sid {finding.sid}"
    numbers, count = ranges(finding.vbuckets), f"{len(finding.vbuckets):,} vbuckets"
    if len(finding.vbuckets) <= SHOWN_BY_NUMBER:
        return f"vb {numbers}{sid}" if finding.vbuckets else ""
    is_named = numbers in (finding.what or finding.message)
    return f"{count}{sid}" if is_named else f"{count}: {numbers}{sid}"


def when_and_whose(finding: Finding) -> tuple[str, str]:
    """Returns when a finding was, empty if no time is known; and whose fault it is, with whether it
    is over.
    """
    return _when(finding), "; ".join(filter(None, [WHO_ACTS[finding.whose], _over(finding)]))


def _when(finding: Finding, *, is_short: bool = False, has_days: bool = False) -> str:
    """Returns the time span of a finding, and how often it occurred. ``has_days``: a short one has
    the day, as it has where it ends on another one.
    """
    # once on each of those that are named needs no count
    number = len(finding.vbuckets) or len(finding.connections)
    times = f"{finding.count:,} times" if finding.count not in (1, number) else ""
    if not finding.first_time_ns:
        return times
    first, last = finding.first_time_ns, max(finding.last_time_ns, finding.first_time_ns)
    if is_short:
        begin, end = clock(first), clock(last)
        if day_of(first) != day_of(last):
            begin, end = f"{day_of(first)} {begin}", f"{day_of(last)} {end}"
        elif has_days:
            begin = f"{day_of(first)} {begin}"
    else:
        begin, end = day_and_time(first), day_and_time(last)
        end = end[11:] if end[:10] == begin[:10] else end
    span = f"{begin}–{end} UTC" if not begin.endswith(end) else f"{begin} UTC"
    span = f"since {begin} UTC" if finding.over == "open" else span
    return span if is_short or not times else f"{span}, {times}"


def _over(finding: Finding) -> str:
    if finding.over == "recovered":
        return (
            f"recovered in row {finding.over_row}" if finding.over_row is not None else "recovered"
        )
    return "not over by the end" if finding.over == "open" else ""


def by_packets(text: str, finding: Finding, files: Sequence[str]) -> str:
    """Names messages by their frames, if their rows only sort, as in a pipeline; leaves out messages
    without a known frame.
    """
    place_by_row = {
        str(message_place.row): message_place
        for message_place in captured([*finding.places, finding.over_place])
        if message_place.row >= STEP and message_place.has_message
    }

    def named(match: re.Match[str]) -> str:
        before, rows = match[1] or "", re.findall(r"\d+", match[2])
        if not place_by_row.keys() >= set(rows):
            return "" if before and int(rows[0]) >= STEP else match[0]
        frames = re.sub(r"\d+", lambda row: message_of(place_by_row[row[0]], files), match[2])
        return f"{before} {frames}"

    return _ROW.sub(named, text) if place_by_row else text


def message_of(message: MessagePlace, files: Sequence[str]) -> str:
    """Names a message by row, or by frame where rows only sort, as in a pipeline."""
    return messages_of([message], files)


def messages_of(messages: Iterable[MessagePlace], files: Sequence[str]) -> str:
    """Names messages as ``message_of``; the name of a capture stands once, behind its frames."""
    numbers: dict[tuple[str, str], dict[int, None]] = {}
    for message in messages:
        has_row = message.row < STEP and message.has_message
        kind = ("row", "") if has_row else ("frame", of_file(tuple(files))[message.file])
        numbers.setdefault(kind, {})[message.row if has_row else message.frame] = None
    return "; ".join(
        f"{noun}{'s' if len(frames_or_rows) > 1 else ''} {', '.join(map(str, frames_or_rows))}{suffix}"
        for (noun, suffix), frames_or_rows in numbers.items()
    )


def frame_of(message: MessagePlace, files: Sequence[str]) -> str:
    """Returns the frame of a message, with the name of its capture where there are several."""
    return f"{message.frame}{of_file(tuple(files))[message.file]}"


@cache
def of_file(files: tuple[str, ...]) -> Sequence[str]:
    """Returns what says of a frame in which capture it is, by capture; nothing for a single one."""
    return [f" of {name}" for name in short_names(files)] if len(files) > 1 else ("",)


def _rows(finding: Finding) -> str:
    rows = sorted({*finding.evidence_rows})
    more = f" and {finding.left_out:,} more" if finding.left_out else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows))}{more}"


def packets_of(finding: Finding, files: Sequence[str]) -> str:
    """Returns display filters for Wireshark with the frames of a finding, one per file."""
    frames: dict[int, list[int]] = {}
    for message_place in finding.places:
        frames.setdefault(message_place.file, []).append(message_place.frame)
    filters = []
    for file, numbers in list(frames.items())[:_SHOWN]:
        file_frames = sorted(set(numbers))
        text = (
            f"frame.number == {file_frames[0]}"
            if len(file_frames) == 1
            else f"frame.number in {{{', '.join(map(str, file_frames))}}}"
        )
        filters.append(f"{text}{of_file(tuple(files))[file]}")
    return "; ".join(filters)


_LINT_STYLES = {"PASS": "green", "FAIL": "bold yellow", "NA": "dim"}


def lint_lines(
    verdicts: Sequence[Verdict],
    links: Sequence[TcpConnection],
    paint: Callable[[str, str], str],
    columns: int | None = None,
) -> Iterator[str]:
    """Yields the tables.

    ``verdicts``: in order of connections. A connection without verdicts has no table. ``columns``:
    width of lines, which are broken between words.
    """
    if not verdicts:
        yield from ("", "lint: no connection to check, because no accepted DCP open was captured")
    by_number = {link.number: link for link in links}
    width = max((len(judged.rule) for judged in verdicts), default=0)
    for number, group in groupby(verdicts, lambda judged: judged.connection):
        own_verdicts = list(group)
        link = by_number[number]
        counts = Counter[str](judged.says for judged in own_verdicts)
        summary = ", ".join(f"{counts[says]} {says}" for says in _LINT_STYLES)
        yield ""
        yield paint(
            f"lint of connection {number}, {escape(link.client)} to {escape(link.server)}: "
            f"{summary}",
            "bold",
        )
        if (
            len(own_verdicts) > 1
            and len({(verdict.says, verdict.why) for verdict in own_verdicts}) == 1
        ):
            own_verdicts = [replace(own_verdicts[0], rule=f"all {len(own_verdicts)} rules")]
        for judged in own_verdicts:
            rows = (
                (
                    f" (row{'s' if len(judged.places) > 1 else ''} "
                    f"{', '.join(str(message.row) for message in judged.places)})"
                )
                if judged.places
                else ""
            )
            line = f"    {judged.says:4}  {judged.rule:{width}}  {escape_rest(judged.why)}{rows}"
            first, *more_lines = (
                textwrap.wrap(line, columns, subsequent_indent=" " * (width + 12))
                if columns
                else [line]
            )
            yield f"{first[:4]}{paint(first[4:8], _LINT_STYLES[judged.says])}{first[8:]}"
            yield from more_lines


def explained_by(cause: Finding) -> str:
    """Says which finding explains another one."""
    return f"it is explained by {cause.rule}, {cause.where}, which says what to do"
