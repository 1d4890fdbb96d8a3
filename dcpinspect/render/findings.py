"""Findings for people: worst first, a heading for each rule, one sentence each, the messages that show it, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from dcpinspect.escape import escape, escape_rest
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.rule import SEVERITIES

GLYPHS = {"error": "✖", "warning": "!", "note": "·"}
STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
_SHOWN = 8
"""Files that a line names."""


def report_lines(findings: Sequence[Finding], files: Sequence[str], paint: Callable[[str, str], str]) -> Iterator[str]:
    """The report: how many there are, then rule by rule each with its evidence. ``findings`` are in order, worst first."""
    yield counted(Counter(one.severity for one in findings))
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
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
        if len(advice) == 1 and advice[0]:
            yield f"    next: {escape_rest(advice[0])}"
    if findings:
        yield ""
        yield "'dcpinspect explain RULE' says when a rule speaks and when it keeps silent"


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
