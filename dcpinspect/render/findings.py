"""Findings for people: the verdict, then for each finding, the worst first: what happened, where, when, whose fault it is, and what to
do.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime

from dcpinspect.escape import escape, escape_rest
from dcpinspect.findings.finding import Finding, Place, connections_of, ranges
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.numbering import STEP
from dcpinspect.render.verdict import LookedAt, clock, verdict
from dcpinspect.tables.times import in_words

Paint = Callable[[str, str], str]

GLYPHS = {"error": "✖", "warning": "!", "note": "·"}
STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
SCREEN = 25
"""Number of lines of a report for a screen, unless everything is asked for."""
WHO_ACTS = {
    "client": "the client has to act",
    "server": "the server has to act",
    "capture": "a fuller capture is needed",
    "normal": "nobody has to act",
    "unknown": "who has to act is not known",
}
"""In words, who has to do something about a finding."""
EXAMPLES = 3
"""Number of cases of a finding in such a report."""
SHOWN_BY_NUMBER = 4
"""Number of vbuckets up to which they are listed without a count."""
_SHOWN = 8
"""Number of files that a line names."""
_ROW = re.compile(r"( in)? rows? (\d+(?:(?:,| or| and| to) \d+)*)")
_HINT = "'dcpinspect explain RULE' explains a rule"
_MORE = "--all shows everything; "
_COUNTED, _LINE, _SENTENCE, _ADVICE, _SHORT, _FULL = range(6)
"""How much is said of a finding: only counted by rule, one line that may be cut, a sentence, sentence and advice, also its time,
everything.
"""
_FOLDING: tuple[dict[str, int], ...] = (
    *({}, {"note": _LINE}, {"note": _COUNTED}, {"warning": _SHORT}, {"warning": _LINE}),
    *({"warning": _SHORT, "error": _SHORT}, {"warning": _LINE}, {"error": _LINE}),
)
"""The steps in which the report is shortened until it fits."""
_RAISED = (
    *((severity, level) for level in (_SENTENCE, _ADVICE, _SHORT, _FULL) for severity in ("error", "warning")),
    *(("note", level) for level in (_LINE, _SENTENCE, _ADVICE, _SHORT)),
)
"""The steps in which remaining lines are used, finding by finding."""


def report_lines(
    findings: Sequence[Finding],
    files: Sequence[str],
    paint: Paint,
    *,
    with_effects: bool = False,
    width: int | None = None,
    looked: LookedAt | None = None,
    instead: str | None = None,
    span: tuple[int, int] | None = None,
) -> Iterator[str]:
    """Yields the report: a verdict, then the findings with their evidence. ``findings``: the worst first.

    ``with_effects``: shows everything, with the effects of each cause below it; otherwise as much as fits a screen. ``width``: of lines;
    None shows whole lines, without the limit of a screen. ``looked``: how much was checked. ``instead``: replaces the verdict. ``span``: of
    time, if nothing else is shown.
    """
    causes, effects = with_their_effects(findings)
    page = _Page(files, paint, width, effects, is_all=with_effects)
    head = list(page.wrapped(instead or " · ".join(filter(None, [verdict(causes, looked), in_words(span) if span else ""])), "", "  "))
    yield from (paint(line, "bold") for line in head)
    if not causes:
        return
    yield ""
    hint = list(page.wrapped(_HINT if with_effects else f"{_MORE}{_HINT}", "", "  "))
    aside = [] if with_effects or looked is None else _aside(causes, looked.without_dcp)
    last = list(page.aside(aside)) if aside else []
    most = SCREEN - 2 - len(head) - len(hint) - len(last)
    yield from page.whole(causes) if with_effects else page.fitted([one for one in causes if one not in aside], most)
    yield from last
    yield ""
    yield from hint


def _aside(causes: Sequence[Finding], without_dcp: Collection[int]) -> list[Finding]:
    """Returns the notes, if there are several, that only concern connections without DCP, but for passwords that anybody can read."""
    notes = [one for one in causes if one.severity == "note" and one.rule != "credentials-in-clear"]
    found = [one for one in notes if one.connections and all(number in without_dcp for number in one.connections)]
    return found if len(found) > 1 else []


class _Page:
    """Lays out findings in lines of one width."""

    def __init__(self, files: Sequence[str], paint: Paint, width: int | None, effects: dict[str, list[Finding]], *, is_all: bool) -> None:
        self._files = files
        self._paint = paint
        self._width = None if width is None else max(width, 40)
        self._effects = effects
        self._is_all = is_all
        self._is_dense = False
        """Whether no blank lines stand between findings."""

    def wrapped(self, text: str, indent: str, more: str) -> Iterator[str]:
        """Yields a text in lines that fit."""
        if self._width is None:
            yield indent + text
            return
        yield from textwrap.wrap(text, self._width, initial_indent=indent, subsequent_indent=more, break_on_hyphens=False) or [indent]

    def aside(self, notes: Sequence[Finding]) -> Iterator[str]:
        """Yields one line for notes about connections without DCP."""
        numbers = ranges(sorted({number for one in notes for number in one.connections}))
        rules = ", ".join(dict.fromkeys(one.rule for one in notes))
        yield self._clipped(f"{GLYPHS['note']} {len(notes)} notes about connections without DCP: {rules} (connections {numbers}; --all)")

    def whole(self, causes: Sequence[Finding]) -> list[str]:
        """Returns all findings in full."""
        return _apart([self.entry(one, _FULL) for one in causes])

    def fitted(self, causes: Sequence[Finding], most: int) -> list[str]:
        """Returns as much as fits into ``most`` lines, with a note on what is left out: first of notes, then of warnings, then of all
        but the worst. Blank lines between findings are left out where they would cost the advice on an error or a warning.
        """
        lines, told = self._fitted(causes, most)
        if any(level < _ADVICE and one.severity != "note" for one, level in zip(causes, told, strict=True)):
            self._is_dense = True
            lines, _ = self._fitted(causes, most)
        return lines

    def _fitted(self, causes: Sequence[Finding], most: int) -> tuple[list[str], list[int]]:
        """Returns the lines, and how much is said of each finding."""
        levels = {"error": _FULL, "warning": _FULL, "note": _SHORT}
        for change in _FOLDING:
            levels.update(change)
            told = [levels[one.severity] for one in causes]
            lines = self._at(causes, told)
            if len(lines) <= most or self._width is None:
                return self._raised(causes, told, lines, most)
        return [*lines[: most - 1], f"and {len(lines) - most + 1:,} more lines (--all)"], told

    def _raised(self, causes: Sequence[Finding], told: list[int], lines: list[str], most: int) -> tuple[list[str], list[int]]:
        """Adds more about each finding, the worst first, as long as lines are left."""
        for severity, level in _RAISED:
            for place, one in enumerate(causes):
                if one.severity == severity and told[place] < level and len(lines) < most:
                    more = [*told[:place], level, *told[place + 1 :]]
                    if len(found := self._at(causes, more)) <= most:
                        told, lines = more, found
        return lines, told

    def _at(self, causes: Sequence[Finding], levels: Sequence[int]) -> list[str]:
        entries = [self.entry(one, level) for one, level in zip(causes, levels, strict=True) if level != _COUNTED]
        lines = [line for entry in entries for line in entry] if self._is_dense else _apart(entries)
        for severity in SEVERITIES:
            own = [level for one, level in zip(causes, levels, strict=True) if one.severity == severity]
            folded = [one for one, level in zip(causes, levels, strict=True) if one.severity == severity and level == _COUNTED]
            if folded:
                rules = ", ".join(f"{number} {rule}" for rule, number in Counter(one.rule for one in folded).most_common())
                several = f"{len(folded)} {'more ' if len(own) > len(folded) else ''}{severity}{'' if len(folded) == 1 else 's'}"
                lines += self.wrapped(f"{GLYPHS[severity]} {several}: {rules}", "", "    ")
        return lines

    def entry(self, one: Finding, level: int) -> list[str]:
        """Returns the lines of one finding."""
        if level == _COUNTED:
            return []
        glyph = f"{GLYPHS[one.severity]} {one.rule}"
        what = by_packets(f"{glyph}: {escape_rest(one.what or one.message)}", one, self._files)
        if level in (_LINE, _SENTENCE, _ADVICE):
            what = f"{what} ({place_of(one)})"
        out = [self._clipped(what)] if level == _LINE else list(self.wrapped(what, "", "    "))
        heads = [out[0][len(glyph) :], *out[1:]]
        out = [self._paint(glyph, STYLES[one.severity]) + self._paint(heads[0], "bold"), *(self._paint(line, "bold") for line in heads[1:])]
        advice = list(self.wrapped(f"next: {escape_rest(one.next)}", "    ", "      ")) if one.next else []
        advice[:1] = [line.replace("next:", self._paint("next:", "bold"), 1) for line in advice[:1]]
        if level == _SHORT:
            whom = escape(f"client {one.clients[0]}" if len(one.clients) == 1 else one.who)
            parts = [", ".join(filter(None, [whom, place_of(one)])), _when(one, is_short=True), _over(one)]
            out += self.wrapped(by_packets("; ".join(filter(None, parts)), one, self._files), "    ", "      ")
        if level < _FULL:
            return [*out, *(advice if level >= _ADVICE else ())]
        who = ", ".join(filter(None, [escape(one.who), escape(one.server)]))
        out += self.wrapped("; ".join(filter(None, [who, place_of(one)])), "    ", "      ")
        out += self.wrapped(by_packets(told_of(one), one, self._files), "    ", "      ")
        out += self._table(one)
        if one.places:
            shown = [*([] if one.places[0].row >= STEP else [_rows(one)]), f"Wireshark: {_packets(one, self._files)}"]
            out += self.wrapped("; ".join(shown), "    ", "      ")
        out += advice
        mine = self._effects.get(one.id, ())
        if mine and not self._is_all:
            out += self.wrapped(f"explains {effects_in_words(mine)}", "    ", "      ")
        for effect in mine if self._is_all else ():
            told = self.entry(effect, _FULL)
            out += [f"    follows from it: {told[0]}", *(f"    {line}" for line in told[1:])]
        return out

    def _clipped(self, line: str) -> str:
        """Cuts a line that is too long after a word."""
        if self._width is None or len(line) <= self._width:
            return line
        cut = line[: self._width]
        whole = cut.rpartition(" ")[0].rstrip(" ,;:(")
        return f"{whole or cut[:-1]}…"

    def _table(self, one: Finding) -> Iterator[str]:
        """Yields what differs between cases: numbers in columns, or sentences."""
        if len({tuple(case.facts.items()) or case.message for case in one.cases}) < 2:
            return
        shown = one.cases if self._is_all else one.cases[:EXAMPLES]
        names = list(dict.fromkeys(name for case in one.cases for name in case.facts))
        heading = [*(["connection"] if len(one.connections) > 1 else []), *(["vb"] if len(one.vbuckets) > 1 else []), *(names or ["what"])]
        rows = [heading]
        for case in shown:
            facts = {"connection": ranges(case.connections), "vb": ranges(case.vbuckets), "what": escape_rest(case.message), **case.facts}
            rows.append([str(facts.get(name, "")) for name in heading])
        widths = [max(len(row[place]) for row in rows) for place in range(len(heading))]
        for row in rows:
            last = row[-1] if not names else f"{row[-1]:>{widths[-1]}}"
            cells = [f"{cell:>{width}}" for cell, width in zip(row[:-1], widths[:-1], strict=True)]
            yield self._clipped("      " + "  ".join([*cells, last]))
        if len(shown) < len(one.cases):
            yield f"      and {len(one.cases) - len(shown):,} more (--all)"


def _apart(entries: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of findings, with a blank line beside each that has several."""
    lines: list[str] = []
    for before, entry in zip(["", *entries], entries, strict=False):
        lines += [*([""] if lines and max(len(before), len(entry)) > 1 else []), *entry]
    return lines


def with_their_effects(findings: Sequence[Finding]) -> tuple[list[Finding], dict[str, list[Finding]]]:
    """Returns the findings that stand alone (also those whose cause is not in the list), and the effects of each cause by its id."""
    ids = {one.id for one in findings if one.effect_of is None}
    causes, effects = [], defaultdict(list)
    for one in findings:
        if one.effect_of in ids:
            effects[one.effect_of].append(one)
        else:
            causes.append(one)
    return causes, effects


def effects_in_words(effects: Sequence[Finding]) -> str:
    """Counts effects by rule: 12 other findings: 8 rollback, 4 stream-refused."""
    counts: Counter[str] = Counter()
    for one in effects:
        counts[one.rule] += one.count
    count = counts.total()
    rules = ", ".join(f"{number:,} {rule}" for rule, number in counts.most_common())
    return f"{count:,} other finding{'' if count == 1 else 's'}: {rules}"


def sentence(one: Finding) -> str:
    """Returns place and message of a finding on one line."""
    times = f" ({one.count:,} times)" if one.count > 1 and not one.cases else ""
    return f"{one.where}: {escape_rest(one.message)}{times}"


def place_of(one: Finding) -> str:
    """Returns connections and vbuckets of a finding by number."""
    connections = connections_of(one)
    sid = "" if one.sid is None else f" stream-id {one.sid}"
    count = f"{len(one.vbuckets):,} vbuckets: " if len(one.vbuckets) > SHOWN_BY_NUMBER else "vb "
    return ", ".join(filter(None, [connections, f"{count}{ranges(one.vbuckets)}{sid}" if one.vbuckets else ""]))


def told_of(one: Finding) -> str:
    """Returns when a finding was, whose fault it is, and whether it is over."""
    return "; ".join(filter(None, [_when(one), WHO_ACTS[one.whose], _over(one)]))


def _when(one: Finding, *, is_short: bool = False) -> str:
    """Returns the time span of a finding, and how often it occurred."""
    times = f"{one.count:,} times" if one.count > 1 else ""
    if not one.first_time_ns:
        return times
    first, last = one.first_time_ns, max(one.last_time_ns, one.first_time_ns)
    if is_short:
        begin, end = clock(first), clock(last)
    else:
        begin, end = (f"{datetime.fromtimestamp(at // 10**9, UTC):%Y-%m-%d %H:%M:%S}.{at // 10**6 % 1000:03d}" for at in (first, last))
        end = end[11:] if end[:10] == begin[:10] else end
    span = f"{begin}–{end} UTC" if not begin.endswith(end) else f"{begin} UTC"
    return span if is_short or not times else f"{span}, {times}"


def _over(one: Finding) -> str:
    if one.over == "recovered":
        return f"recovered in row {one.over_row}" if one.over_row is not None else "recovered"
    return "not over by the end" if one.over == "open" else ""


def by_packets(text: str, one: Finding, files: Sequence[str]) -> str:
    """Names messages by their packets, if their numbers are packet numbers, as in a pipeline; leaves out messages without a known
    packet.
    """
    places = {str(place.row): place for place in one.places if place.row >= STEP}

    def named(found: re.Match[str]) -> str:
        before, rows = found[1] or "", re.findall(r"\d+", found[2])
        known = [places[row] for row in rows if row in places]
        if len(known) < len(rows):
            return "" if before and int(rows[0]) >= STEP else found[0]
        if len({place.file for place in known}) > 1:
            return f"{before} " + re.sub(r"\d+", lambda row: message_of(places[row[0]], files), found[2])
        frames = re.sub(r"\d+", lambda row: str(places[row[0]].frame), found[2])
        return f"{before} packet{'s' if len(rows) > 1 else ''} {frames} of {escape(files[known[0].file])}"

    return _ROW.sub(named, text) if places else text


def message_of(place: Place, files: Sequence[str]) -> str:
    """Names a message by its row, or by its packet where rows are packet numbers, as in a pipeline."""
    return f"row {place.row}" if place.row < STEP else f"packet {place.frame} of {escape(files[place.file])}"


def messages_of(places: Sequence[Place], files: Sequence[str]) -> str:
    """Names several messages as ``message_of`` does: rows 3, 4; packets 248, 249 of a.pcap."""
    rows = [str(place.row) for place in places if place.row < STEP]
    packets: dict[int, list[str]] = {}
    for place in places:
        if place.row >= STEP:
            packets.setdefault(place.file, []).append(str(place.frame))
    parts = [_listed("row", rows)] if rows else []
    parts += [f"{_listed('packet', list(dict.fromkeys(of)))} of {escape(files[file])}" for file, of in packets.items()]
    return "; ".join(parts)


def _listed(what: str, numbers: Sequence[str]) -> str:
    return f"{what}{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _rows(one: Finding) -> str:
    rows = sorted({place.row for place in one.places})
    more = f" and {one.left_out:,} more" if one.left_out else ""
    return f"{_listed('row', list(map(str, rows)))}{more}"


def _packets(one: Finding, files: Sequence[str]) -> str:
    """Returns display filters for Wireshark, one per file."""
    frames: dict[int, list[int]] = {}
    for place in one.places:
        frames.setdefault(place.file, []).append(place.frame)
    parts = []
    for file, numbers in list(frames.items())[:_SHOWN]:
        wanted = sorted(set(numbers))
        text = f"frame.number == {wanted[0]}" if len(wanted) == 1 else f"frame.number in {{{', '.join(map(str, wanted))}}}"
        parts.append(f"{text} of {escape(files[file])}" if len(files) > 1 else text)
    return "; ".join(parts)
