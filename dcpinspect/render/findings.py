"""Findings for people: worst first, a heading for each rule, one sentence each, the messages that show it, and what to do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from dcpinspect.escape import escape, escape_rest
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.rule import SEVERITIES

GLYPHS = {"error": "✖", "warning": "!", "note": "·"}
STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
_SHOWN = 8
"""Files that a line names."""


def report_lines(
    findings: Sequence[Finding], files: Sequence[str], paint: Callable[[str, str], str], *, with_effects: bool = False
) -> Iterator[str]:
    """The report: how many there are, then rule by rule each with its evidence. ``findings`` are in order, worst first.

    ``with_effects``: the effects of each cause are told under it; else they are counted there.
    """
    causes, effects = with_their_effects(findings)
    counts = counted(Counter(one.severity for one in causes))
    several = sum(one.count for mine in effects.values() for one in mine)
    yield f"{counts}, and {several:,} effect{'' if several == 1 else 's'} of these" if several else counts
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in causes:
        groups.setdefault((one.severity, one.rule), []).append(one)
    for (severity, rule), group in groups.items():
        yield ""
        yield paint(f"{GLYPHS[severity]} {rule}", STYLES[severity])
        advice = list(dict.fromkeys(one.next for one in group))
        for one in group:
            yield f"    {sentence(one)}"
            if one.places:
                yield f"      {_rows(one)}; Wireshark: {_packets(one, files)}"
            if len(advice) > 1 and one.next:
                yield f"      next: {escape_rest(one.next)}"
            mine = effects.get(one.id, ())
            if mine and not with_effects:
                yield f"      and {effects_in_words(mine)} (--all shows them)"
            for effect in mine if with_effects else ():
                yield f"      effect, {paint(effect.rule, STYLES[effect.severity])}, {sentence(effect)}"
                if effect.places:
                    yield f"        {_rows(effect)}; Wireshark: {_packets(effect, files)}"
        if len(advice) == 1 and advice[0]:
            yield f"    next: {escape_rest(advice[0])}"
    if findings:
        yield ""
        yield "'dcpinspect explain RULE' says when a rule speaks and when it keeps silent"


def with_their_effects(findings: Sequence[Finding]) -> tuple[list[Finding], dict[str, list[Finding]]]:
    """Findings that stand for themselves, those whose cause is not among them too; and by the id of a cause its effects."""
    ids = {one.id for one in findings if one.effect_of is None}
    causes, effects = [], defaultdict(list)
    for one in findings:
        if one.effect_of in ids:
            effects[one.effect_of].append(one)
        else:
            causes.append(one)
    return causes, effects


def effects_in_words(effects: Sequence[Finding]) -> str:
    """How many there are, and of which rules: 12 effects: 8 rollback, 4 stream-refused."""
    counts: Counter[str] = Counter()
    for one in effects:
        counts[one.rule] += one.count
    count = counts.total()
    return f"{count:,} effect{'' if count == 1 else 's'}: {', '.join(f'{number:,} {rule}' for rule, number in counts.most_common())}"


def counted(counts: Counter[str]) -> str:
    """How many there are of each severity."""
    return ", ".join(f"{counts[severity]:,} {severity}{'' if counts[severity] == 1 else 's'}" for severity in SEVERITIES)


def sentence(one: Finding) -> str:
    """Where and what, on one line."""
    times = f" ({one.count:,} times)" if one.count > 1 and len(one.vbuckets) < 2 else ""
    return f"{one.where}: {escape_rest(one.message)}{times}"


def _rows(one: Finding) -> str:
    rows = [place.row for place in one.places]
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows))}"


def _packets(one: Finding, files: Sequence[str]) -> str:
    """What to type into Wireshark's filter bar, a file at a time."""
    frames: dict[int, list[int]] = {}
    for place in one.places:
        frames.setdefault(place.file, []).append(place.frame)
    parts = []
    for file, numbers in list(frames.items())[:_SHOWN]:
        wanted = sorted(set(numbers))
        text = f"frame.number == {wanted[0]}" if len(wanted) == 1 else f"frame.number in {{{', '.join(map(str, wanted))}}}"
        parts.append(f"{text} of {escape(files[file])}" if len(files) > 1 else text)
    return "; ".join(parts)
