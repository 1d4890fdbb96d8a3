"""Findings for people: worst first, one sentence each, the messages that show it, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from dcpinspect.escape import escape
from dcpinspect.findings.collector import ranges
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.rule import SEVERITIES

GLYPHS = {"error": "✖", "warning": "!", "note": "·"}
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
_SHOWN = 8
"""Ranges of vbuckets, or files, that a line names."""


def report_lines(findings: Sequence[Finding], files: Sequence[str], paint: Callable[[str, str], str]) -> Iterator[str]:
    """The report: how many there are, then each with its evidence."""
    counts = Counter(one.severity for one in findings)
    yield ", ".join(_counted(counts[severity], severity) for severity in SEVERITIES)
    for one in findings:
        yield ""
        place = _where(one)
        times = f" ({one.count:,} times)" if one.count > 1 and len(one.vbuckets) < 2 else ""
        yield f"{paint(f'{GLYPHS[one.severity]} {one.rule}', _STYLES[one.severity])}  {place}: {escape(one.message)}{times}"
        if one.places:
            yield f"    {_rows(one)}"
            yield f"    {_packets(one, files)}"
        if one.next:
            yield f"    next: {escape(one.next)}"


def _where(one: Finding) -> str:
    connections = f"connection{'s' if len(one.connections) > 1 else ''} {ranges(one.connections)}"
    if not one.vbuckets:
        return connections
    vbuckets = f"vb {one.vbuckets[0]}" if len(one.vbuckets) == 1 else f"{len(one.vbuckets)} vbuckets"
    return f"{vbuckets}{'' if one.sid is None else f' stream-id {one.sid}'}, {connections}"


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
    return f"Wireshark: {'; '.join(parts)}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
